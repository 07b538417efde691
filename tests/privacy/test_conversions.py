"""Conversions against independent accountants, their own inverses, and brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import rdp
from scipy.special import logsumexp
from scipy.stats import norm

from discreet.privacy import conversions as cv

PAIRS = [(0.1, 1e-3), (0.1, 1e-9), (1.0, 1e-6), (1.0, 1e-12), (5.0, 1e-5), (20.0, 1e-6)]


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_rho_is_the_largest_that_implies_the_budget(epsilon, delta):
    rho = cv.zcdp_rho(epsilon, delta)
    assert cv.zcdp_epsilon(rho, delta) <= epsilon
    assert cv.zcdp_epsilon(rho * (1 + 1e-9), delta) > epsilon
    assert cv.zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.02, 0.5, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_zcdp_epsilon_agrees_with_dp_accounting_on_dense_orders(rho, delta):
    # dp-accounting's default orders are too coarse for small rho; with dense ones it is a valid oracle.
    centre = math.sqrt(math.log(1 / delta) / rho)
    orders = 1 + centre * np.geomspace(1e-2, 1e2, 20_001)
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    oracle = accountant.get_epsilon(delta)
    assert cv.zcdp_epsilon(rho, delta) == pytest.approx(oracle, rel=1e-5)
    assert cv.zcdp_epsilon(rho, delta) <= oracle * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_mu_agrees_with_the_analytic_gaussian_of_dp_accounting(epsilon, delta):
    sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert cv.gdp_mu(epsilon, delta) == pytest.approx(1 / sigma, rel=1e-6)
    assert cv.gdp_epsilon(cv.gdp_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
    assert cv.gdp_delta(cv.gdp_mu(epsilon, delta), epsilon) <= delta


def test_corners():
    assert cv.zcdp_rho(1.0, 0.0) == 0.0
    assert cv.gdp_mu(1.0, 0.0) == 0.0
    assert cv.zcdp_rho(math.inf, 1e-6) == math.inf
    assert cv.zcdp_epsilon(0.0, 0.0) == 0.0
    assert cv.zcdp_epsilon(0.1, 0.0) == math.inf
    assert cv.gdp_epsilon(0.5, 0.0) == math.inf
    assert cv.gdp_epsilon(0.01, 0.5) == 0.0
    assert cv.zcdp_delta(math.inf, 1.0) == 1.0


def _renyi(p, q, order):
    logs = [order * math.log(a) + (1 - order) * math.log(b) for a, b in zip(p, q, strict=True)]
    return float(logsumexp(logs)) / (order - 1)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0])
def test_pure_rho_bounds_randomized_response_at_every_order(epsilon):
    p = (1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon)))
    worst = max(_renyi(p, p[::-1], order) / order for order in 1 + np.geomspace(1e-4, 1e3, 400))
    claimed = float(cv.pure_rho(Fraction(repr(epsilon))))
    assert worst <= claimed * (1 + 1e-7)  # the slack is the rounding error of `worst`
    assert claimed <= worst * 1.01 + 1e-12  # and it is not a loose bound either


@pytest.mark.parametrize("width", [0.01, 0.5, 2.0, 6.0])
def test_range_rho_bounds_every_two_point_pair_at_every_order(width):
    worst = 0.0
    for t in np.linspace(1e-3, 1 - 1e-3, 60) * width:
        up = (math.exp(width) - math.exp(t)) / math.expm1(width)
        p, q = (up, 1 - up), (up * math.exp(-t), (1 - up) * math.exp(width - t))
        assert sum(q) == pytest.approx(1.0)
        worst = max(worst, *(_renyi(p, q, order) / order for order in 1 + np.geomspace(1e-4, 1e2, 60)))
    claimed = float(cv.range_rho(Fraction(repr(width))))
    assert worst <= claimed
    if width <= 0.5:
        assert worst >= 0.98 * claimed


@pytest.mark.parametrize("width", [0.01, 0.5, 2.0, 6.0, 12.0])
def test_range_mu_is_the_worst_over_all_two_point_pairs(width):
    found = []
    for t in np.linspace(1e-4, 1 - 1e-4, 2001) * width:
        up = (math.exp(width) - math.exp(t)) / math.expm1(width)
        found.append(norm.ppf(up) - norm.ppf(up * math.exp(-t)))
    claimed = math.sqrt(cv.range_mu_squared(Fraction(repr(width))))
    assert max(found) <= claimed * (1 + 1e-9)
    assert max(found) >= claimed * (1 - 1e-5)


def test_exact_reads_decimals():
    assert cv.exact(0.1) == Fraction(1, 10)
    assert cv.exact(1e-6) == Fraction(1, 10**6)
    assert cv.exact(Fraction(1, 3)) == Fraction(1, 3)
    assert cv.exact(7) == 7


def test_exact_reads_subnormal_floats_as_they_are():
    """Their decimals may be far off: 4.4e-323 is 9 steps of 2^-1074, which are 4.447e-323."""
    assert cv.exact(4.4e-323) == Fraction(9, 1 << 1074) > Fraction("4.4e-323") * Fraction(101, 100)
    assert cv.exact(-4.4e-323) == -cv.exact(4.4e-323)
    assert cv.exact(0.0) == 0
    least = 2.0**-1022
    assert cv.exact(least) == Fraction(repr(least))


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_better_than_the_textbook_conversion(epsilon, delta):
    textbook = math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))
    assert cv.zcdp_rho(epsilon, delta) > textbook**2


def test_gain_over_the_textbook_at_the_usual_budget():
    def gain(epsilon, delta):
        textbook = math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))
        return math.sqrt(cv.zcdp_rho(epsilon, delta)) / textbook

    assert gain(1.0, 1e-6) == pytest.approx(1.18, abs=0.005)
    assert gain(0.1, 1e-3) == pytest.approx(1.81, abs=0.01)


def test_gdp_delta_is_the_formula():
    for mu in (0.05, 0.2367, 1.0, 4.0):
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            direct = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            assert cv.gdp_delta(mu, epsilon) == pytest.approx(direct, rel=1e-7, abs=1e-13)
            assert cv.gdp_delta(mu, epsilon) >= direct * (1 - 1e-9) - 1e-16


def _zcdp_epsilon_exact(rho, delta):
    """The minimum over orders in 60 digits, by golden section from a fine grid."""
    with mpmath.workdps(60):
        rho, delta = mpmath.mpf(repr(rho)), mpmath.mpf(repr(delta))

        def at(log_excess):
            x = mpmath.exp(log_excess)
            return rho * (1 + x) - mpmath.log1p(1 / x) - (mpmath.log(delta) + mpmath.log1p(x)) / x

        centre = mpmath.log(mpmath.sqrt(-mpmath.log(delta) / rho))
        grid = [centre + mpmath.mpf(i) / 8 for i in range(-160, 161)]
        best = min(range(1, len(grid) - 1), key=lambda i: at(grid[i]))
        low, high = grid[best - 1], grid[best + 1]
        for _ in range(200):
            a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
            low, high = (low, b) if at(a) < at(b) else (a, high)
        return at((low + high) / 2)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-3])
def test_conversion_is_on_the_safe_side_at_extremes(epsilon, delta):
    rho = cv.zcdp_rho(epsilon, delta)
    exact = _zcdp_epsilon_exact(rho, delta)
    assert cv.zcdp_epsilon(rho, delta) >= exact
    assert cv.zcdp_epsilon(rho, delta) <= float(exact) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-17, 1e-12, 1e-4, 0.01, 1.0, 10.0])
def test_pure_mu_is_never_below_the_corner(epsilon):
    with mpmath.workdps(60):
        # Phi^-1(1/2 + y) by the inverse error function
        y = mpmath.tanh(mpmath.mpf(repr(epsilon)) / 2) / 2
        corner = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * y)
        claimed = cv.pure_mu_squared(cv.exact(epsilon))
        assert mpmath.mpf(claimed.numerator) / claimed.denominator >= corner**2
        assert mpmath.mpf(claimed.numerator) / claimed.denominator <= corner**2 * (1 + mpmath.mpf(10) ** -6)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(10**20 + 1, 7), Fraction(1, 10)])
def test_rounding_is_outward(value):
    assert cv.exact(cv.rounded_up(value)) >= value
    assert cv.exact(cv.rounded_down(value)) <= value
    assert cv.rounded_up(value) == pytest.approx(cv.rounded_down(value), rel=1e-15)


def test_numbers_of_many_digits_are_rounded_outward_however_small():
    for value in (0.7, 1e-300, 1e-310, 5e-324):
        assert cv._down(value) < value < cv._up(value)
