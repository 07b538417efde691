"""Conversions against independent accountants, their own inverses, and brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
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
def test_pure_rho_bounds_randomised_response_at_every_order(epsilon):
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
