"""Conversions, norms and accounts against sixty and more digits: rounded up means up, at every extreme."""

from __future__ import annotations

import itertools
import math
import random
import sys
import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import discreet as dc
from discreet.privacy import Entry, Releases, VectorBounds, samplers
from discreet.privacy import conversions as cv
from discreet.privacy.account import Account
from discreet.privacy.composition import adaptive_choices_delta, adaptive_choices_epsilon
from discreet.privacy.events import ApproximateRelease, GaussianNoise, LaplaceNoise

DIGITS = 60
TINY = mpmath.mpf(5e-324)


def _log_uniform(rng, low, high):
    return 10.0 ** rng.uniform(low, high)


def _gaussian_delta(mu, epsilon):
    """Delta of mu-Gaussian DP, with 60 digits left after its cancellation."""
    spare = max(0, -math.frexp(mu)[1]) + 2 * max(0, math.frexp(epsilon / mu + mu)[1])
    with mpmath.workprec(int(DIGITS * 3.33) + spare):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        tail = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        return tail(e / m - m / 2) - mpmath.exp(e) * tail(e / m + m / 2)


def _zcdp_bound(rho, epsilon, excess):
    """Logarithm of the delta that one order gives, with 60 digits left after its cancellation."""
    with mpmath.workdps(DIGITS + 40):
        x, r, e = mpmath.mpf(excess), mpmath.mpf(rho), mpmath.mpf(epsilon)
        return x * ((1 + x) * r - e) - (1 + x) * mpmath.log1p(1 / x) - mpmath.log(x)


def _zcdp_log_delta(rho, epsilon):
    """The least logarithm of delta over all orders: where its derivative is 0, by bisection."""
    with mpmath.workdps(DIGITS + 40):
        r, e = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def slope(x):
            return (1 + 2 * x) * r - e - mpmath.log1p(1 / x)

        low, high = mpmath.mpf(-800), mpmath.mpf(800)  # logarithms of x
        for _ in range(130):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(mpmath.exp(middle)) < 0 else (low, middle)
        return _zcdp_bound(rho, epsilon, mpmath.exp((low + high) / 2))


# Where scores of reports lie, where they end, and where floats do.
MUS = [5e-324, 1e-300, 1e-100, 7.755491968640617e-12, 1e-6, 0.01, 0.2367, 1.0, 7.0, 38.0, 1e3, 1e8]
REACHES = [0.0, 1e-9, 0.4, 1.0, 8.0, 23.892802474050665, 30.0, 37.5]


def _gaussian_points():
    for mu, reach in itertools.product(MUS, REACHES):
        yield mu, mu * reach
        yield mu, mu * mu / 2 + mu * reach
    rng = random.Random(1)
    for _ in range(1500):
        mu = _log_uniform(rng, -14, 2)
        yield mu, mu * (rng.uniform(0, 37) + mu / 2)


def test_gaussian_deltas_are_never_below_the_truth_nor_far_above_it():
    for mu, epsilon in _gaussian_points():
        found, truth = mpmath.mpf(cv.gdp_delta(mu, epsilon)), _gaussian_delta(mu, epsilon)
        assert found >= truth, (mu, epsilon)
        # Parameters may be off by a few units in the last place, which moves far tails and large mu most.
        far = (epsilon / mu + mu) * (abs(epsilon / mu - mu / 2) + 1.0)
        assert found <= truth * (1 + 1e-12 + 1e-14 * far) + 4 * TINY, (mu, epsilon)


def _budgets(count):
    rng = random.Random(2)
    yield from itertools.product(
        [1e-12, 1e-9, 1e-3, 0.1, 1.0, 12.0, 300.0, 1e5],
        [1e-300, 1e-100, 1e-20, 1e-6, 0.01, 0.4, 0.9, 1 - 1e-9],
    )
    for _ in range(count):
        yield _log_uniform(rng, -12, 2), _log_uniform(rng, -300, -0.05)


def test_a_mu_is_never_above_the_largest_that_keeps_the_budget():
    for epsilon, delta in _budgets(250):
        mu = cv.gdp_mu(epsilon, delta)
        assert mu > 0.0
        assert _gaussian_delta(mu, epsilon) <= mpmath.mpf(delta), (epsilon, delta)
        assert _gaussian_delta(mu * (1 + 1e-11), epsilon) > mpmath.mpf(delta * (1 - 1e-14)), (epsilon, delta)


def test_an_epsilon_is_never_below_the_least_of_gaussian_noise():
    rng = random.Random(3)
    points = [(1e-300, 1e-310), (1e-12, 1e-200), (0.2367, 1e-6), (2.0, 0.5), (40.0, 1e-300), (1e6, 0.1)]
    points += [(_log_uniform(rng, -14, 3), _log_uniform(rng, -300, -1)) for _ in range(250)]
    for mu, delta in points:
        epsilon = cv.gdp_epsilon(mu, delta)
        if epsilon == 0.0:
            assert _gaussian_delta(mu, 0.0) <= delta
            continue
        assert _gaussian_delta(mu, epsilon) <= mpmath.mpf(delta), (mu, delta)
        assert _gaussian_delta(mu, epsilon * (1 - 1e-11)) > mpmath.mpf(delta), (mu, delta)


def test_what_keeps_to_a_limit_is_reported_to_keep_to_its_budget():
    for epsilon, delta in _budgets(60):
        assert cv.gdp_epsilon(cv.gdp_mu(epsilon, delta), delta) <= epsilon
        assert cv.zcdp_epsilon(cv.zcdp_rho(epsilon, delta), delta) <= epsilon


def test_zcdp_conversions_are_on_the_safe_side_of_the_best_order():
    for epsilon, delta in _budgets(100):
        rho = cv.zcdp_rho(epsilon, delta)
        assert rho > 0.0
        assert _zcdp_log_delta(rho, epsilon) <= mpmath.log(delta), (epsilon, delta)
        least = cv.zcdp_epsilon(rho, delta)
        if least > 0.0:
            assert _zcdp_log_delta(rho, least) <= mpmath.log(delta), (epsilon, delta)
            assert least >= epsilon * (1 - 1e-6) - 1e-12 or delta > 0.5, (epsilon, delta)
        else:
            assert _zcdp_log_delta(rho, 0.0) <= mpmath.log(delta)
        found = cv.zcdp_delta(rho, epsilon)
        assert mpmath.log(found) >= _zcdp_log_delta(rho, epsilon), (epsilon, delta)
        assert found <= delta * (1 + 1e-6)


@pytest.mark.parametrize("rho", [5e-324, 1e-320, 1e-200, 1e200, 1e300])
def test_zcdp_at_the_ends_of_floats(rho):
    for delta in (5e-324, 1e-300, 1e-6, 0.5, 1 - 1e-15):
        epsilon = cv.zcdp_epsilon(rho, delta)
        assert math.isfinite(epsilon)
        assert _zcdp_log_delta(rho, epsilon) <= mpmath.log(delta)
    for epsilon in (0.0, 1e-300, 1.0, 1e300):
        delta = cv.zcdp_delta(rho, epsilon)
        assert mpmath.log(delta) >= min(0, _zcdp_log_delta(rho, epsilon)) or delta == 1.0


def _fractions(count):
    rng = random.Random(4)
    yield from (
        Fraction(10) ** power for power in (-400, -200, -162, -30, -9, -4, -3, -1, 0, 1, 2, 5, 6, 7, 400)
    )
    for _ in range(count):
        yield cv.exact(_log_uniform(rng, -170, 6.2))
    for _ in range(count):
        yield cv.exact(_log_uniform(rng, -3.5, 2.5))


def _mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator


def test_pure_steps_in_other_definitions_are_never_below_the_truth():
    for epsilon in _fractions(120):
        size = 2 * max(0, epsilon.numerator.bit_length() - epsilon.denominator.bit_length())
        with mpmath.workprec(1700 + size):
            e = _mpf(epsilon)
            rho = e * mpmath.tanh(e / 2) * (1 - mpmath.mpf(2) ** -200)  # its own rounding
            assert rho <= _mpf(cv.pure_rho(epsilon)) <= rho * (1 + mpmath.mpf(10) ** -8), epsilon
            squared = cv.pure_mu_squared(epsilon)
            if epsilon > 10**6:
                assert squared == 8 * epsilon  # more than the truth: Phi(-x) <= exp(-x^2/2)/2
                continue
            mu = mpmath.sqrt(_mpf(squared))
            # The corner of randomized response is not above the Gaussian curve.
            assert mpmath.erfc(mu / mpmath.sqrt(8)) / 2 <= 1 / (1 + mpmath.exp(e)), epsilon
            less = mu * (1 - mpmath.mpf(10) ** -6)
            assert mpmath.erfc(less / mpmath.sqrt(8)) / 2 > 1 / (1 + mpmath.exp(e)), epsilon


def test_rounding_is_outward_beyond_floats():
    huge, small = Fraction(10) ** 400, Fraction(1, 10**400)
    assert cv.rounded_up(huge) == math.inf
    assert cv.rounded_down(huge) == np.finfo(float).max
    assert cv.rounded_up(small) == 5e-324
    assert cv.rounded_down(small) == 0.0
    for square in (huge, small, Fraction(2, 10**301), Fraction(10**301, 3), Fraction(2)):
        root = cv.root_below(square)
        assert root**2 <= square < (root * (1 + Fraction(1, 10**15))) ** 2


def test_exponentials_are_above():
    for exponent in (Fraction(0), Fraction(1, 3), Fraction(711), Fraction(5000)):
        with mpmath.workdps(100):
            truth = mpmath.exp(_mpf(exponent))
            assert truth <= _mpf(cv.exponential_above(exponent)) <= truth * (1 + mpmath.mpf(10) ** -25)


def test_threads_do_not_share_digits():
    """One thread's working precision is not another's: the same bounds come out, whoever else computes."""
    points = [(0.1 + i / 1000, 0.3) for i in range(40)]
    cv.gdp_delta.cache_clear()
    alone = [cv.gdp_delta(*point) for point in points]
    cv.gdp_delta.cache_clear()
    found, done = [], threading.Event()

    def disturb():
        while not done.is_set():
            with mpmath.workprec(10):
                mpmath.exp(1)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        found = [cv.gdp_delta(*point) for point in points]
    finally:
        done.set()
        thread.join()
    assert found == alone


def test_choices_at_a_border_do_not_depend_on_other_threads():
    """Words next to where points stop to count are decided by digits, which another thread must not cut."""
    scores = np.array([0.0, 0.3, 0.7])
    high, low = samplers.cell_widths(scores, 1.0)
    widths = [(h << 46) + v for h, v in zip(high.tolist(), low.tolist(), strict=True)]
    words = []
    with mpmath.workprec(300):
        for index in range(2):
            weight = mpmath.exp(mpmath.mpf(scores[index]) - mpmath.mpf(0.7)) * 2**92
            edge = int((sum(widths[:index]) + weight) / sum(widths) * 2**64)
            # A point beyond the edge does not count, and the next word is in the last cell.
            words += [(edge - 1, index), (edge + 1, 2)]
    done, interval = threading.Event(), sys.getswitchinterval()

    def disturb():
        while not done.is_set():
            mpmath.mp.prec = 12

    thread = threading.Thread(target=disturb)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        found = [
            samplers.exact_draw(scores, Fraction(1), iter([word, 3 << 62])) == index
            for word, index in words * 50
        ]
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
        mpmath.mp.prec = 53
    assert all(found)


# --- single steps -----------------------------------------------------------------------------------


def test_one_choice_is_never_below_its_own_curve():
    rng = random.Random(5)
    for _ in range(1500):
        width = _log_uniform(rng, -11, 1.9)
        epsilon = width * rng.choice([rng.random(), 1 - 1e-9, 1 - 2.0**-52, 1 - 1e-4, 1e-12, 0.0])
        with mpmath.workdps(DIGITS):
            # The width may have been rounded when it was read.
            w = mpmath.mpf(width) * (1 + mpmath.mpf(2) ** -53)
            truth = (1 - mpmath.exp((mpmath.mpf(epsilon) - w) / 2)) ** 2 / (1 - mpmath.exp(-w))
            found = adaptive_choices_delta(epsilon, [(width, 1)])
            assert found >= truth, (width, epsilon)
            delta = max(1e-12, min(0.99, found))
            least = mpmath.mpf(adaptive_choices_epsilon(delta, [(width, 1)]))
            left = (1 - mpmath.exp((least - mpmath.mpf(width)) / 2)) ** 2 / (
                1 - mpmath.exp(-mpmath.mpf(width))
            )
            assert left <= delta or least >= width, (width, epsilon)


# --- accounts ---------------------------------------------------------------------------------------


def _account(budget, *events):
    ledger = Releases()
    for event in events:
        ledger.add(Entry("test", event), 1)
    return Account(budget, ledger)


def test_losses_beyond_floats_are_infinite():
    account = _account(dc.Budget(1.0, 1e-6, max_rounds_per_person=2), LaplaceNoise(1e300, 1e-300))
    assert account.epsilon() == math.inf
    assert account.delta(1e300) == 1.0
    both = _account(
        dc.Budget(1.0, 1e-6, max_rounds_per_person=2),
        LaplaceNoise(1e300, 1e-300),
        ApproximateRelease(1.0, 1e-9),
    )
    assert both.epsilon() == math.inf
    assert both.delta(1e300) == 1.0


def test_pure_and_gaussian_parts_add_up_upwards():
    rng = random.Random(6)
    for _ in range(40):
        pure, mu = rng.uniform(0.5, 1.0), rng.uniform(0.01, 0.1)
        account = _account(dc.Budget(3.0, 1e-6), LaplaceNoise(pure, 1.0), GaussianNoise(mu, 1.0))

        def beside(epsilon, pure=pure, mu=mu):
            """Delta of randomized response beside the Gaussian."""
            heads = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
            far = _gaussian_delta(mu, epsilon + pure)
            return heads * _gaussian_delta(mu, epsilon - pure) + (1 - heads) * far

        if account.best_definition() == "pure epsilon + Gaussian DP":
            found = account.epsilon()
            assert beside(found) <= 1e-6
            assert beside(found * (1 - 1e-12)) > 1e-6 * (1 - 1e-9)
            assert found < pure + cv.gdp_epsilon(mu, 1e-6)
        epsilon = pure * (1 + 1e-9)
        truth = beside(epsilon)
        both = math.sqrt(float(account.loss.mu_squared))
        assert account.delta(epsilon) >= min(truth, _gaussian_delta(both, epsilon)) * (
            1 - mpmath.mpf(10) ** -12
        )


# --- norms ------------------------------------------------------------------------------------------


def _square_length(vector):
    """The sum of squares of floats, exactly."""
    mantissas, exponents = np.frexp(vector)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    total = Fraction(0)
    for exponent in np.unique(exponents):
        part = sum(
            int(v) ** 2 * int(c)
            for v, c in zip(*np.unique(whole[exponents == exponent], return_counts=True), strict=True)
        )
        total += part * Fraction(2) ** (2 * (int(exponent) - 53))
    return total


def _long_tail(size):
    """One large entry and many that each vanish beside it, but not together."""
    vector = np.full(size, 2.0**-27 * 0.999)
    vector[0] = 1.0
    return vector


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 10**5 + 1, 10**6])
@pytest.mark.parametrize("norm", [1, 2])
def test_no_vector_is_longer_than_its_bound_by_more_than_is_paid_for(size, norm):
    vector = _long_tail(size)
    exact = _square_length(vector) if norm == 2 else 1 + (size - 1) * Fraction(float(vector[-1]))
    # What a plain running sum of floats measures: every small entry is lost.
    declared = 1.0
    kept = VectorBounds(size, norm, norm_bound=declared).checked(vector, clip=True)
    found = (
        _square_length(kept)
        if norm == 2
        else Fraction(float(kept[0])) + (size - 1) * Fraction(float(kept[-1]))
    )
    slack = 1 + Fraction(1, 2**40)
    assert found <= (slack**2 if norm == 2 else slack)
    # A bound that is a hair below the truth is noticed, too.
    below = math.sqrt(exact) if norm == 2 else float(exact)
    below *= 1 - 2.0**-42
    kept = VectorBounds(size, norm, norm_bound=below).checked(vector, clip=True)
    assert size == 1 or kept[0] < 1.0


def test_lengths_beyond_the_range_of_squares():
    for scale in (2.0**-900, 2.0**-600, 1.0, 2.0**600, 2.0**1000):
        vector = scale * np.array([3.0, 4.0])
        assert np.array_equal(VectorBounds(2, 2, norm_bound=scale * 5.0).checked(vector, clip=False), vector)
        with pytest.raises(ValueError, match="norm"):
            VectorBounds(2, 2, norm_bound=scale * 4.9999).checked(vector, clip=False)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_differences_are_never_below_the_closed_form(neighbours):
    rng = random.Random(7)
    for _ in range(2000):
        d = rng.randint(1, 50)
        m = rng.randint(1, d)
        norm = rng.choice([1, 2])
        low, high = -rng.random() * rng.choice([0, 1e-8, 1.0]), rng.random() + 1e-9
        inputs = VectorBounds(d, norm, None, (low, high), m)
        low_, high_ = cv.exact(low), cv.exact(high)
        width, size = high_ - low_, max(-low_, high_)
        if neighbours == "replace":
            power = min(width**norm * d, max(width**norm, size**norm * 2) * m)
        else:
            power = size**norm * m
        assert cv.exact(inputs.difference(neighbours)) ** norm >= power


def test_the_least_delta_can_be_asked_about():
    """Epsilon over mu is beyond floats there; the smallest float is also the least delta that is reported."""
    for epsilon in (1e-12, 1.0, 1e300):
        gate = dc.Gate(dc.Budget(epsilon, 5e-324), definition="pure")
        gate.reserve(dc.privacy.PureRelease(epsilon))
        assert gate.spent.epsilon() == epsilon
    assert cv.gdp_epsilon(1e-30, 5e-324) == math.inf
    assert cv.gdp_delta(1e-30, 1e300) <= 1e-323


def test_the_delta_that_was_a_tenth_too_small():
    with mpmath.workdps(DIGITS):
        assert cv.gdp_delta(7.755491968640617e-12, 1.8530043681398035e-10) >= mpmath.mpf(
            "5.88489772762597e-139"
        )


@pytest.mark.parametrize("size", [10**5, 10**6, 10**7])
def test_a_bound_that_a_sequential_sum_keeps_is_not_enough(size):
    """The bound is what NumPy's norm measures; the true length may be above it by what is paid for only."""
    vector = _long_tail(size)
    declared = float(np.linalg.norm(vector))
    kept = VectorBounds(size, 2, norm_bound=declared).checked(vector, clip=True)
    assert _square_length(kept) <= Fraction(declared) ** 2 * (1 + Fraction(1, 2**40)) ** 2


@pytest.mark.parametrize("norm", [1, 2])
def test_vectors_end_to_end_are_as_far_apart_as_all_of_them_together(norm):
    one = np.array([0.6, -0.8])
    bounds = VectorBounds(2, norm, norm_bound=2.0, apart=float(np.linalg.norm(2 * one, norm)))
    stacked = bounds.stacked(3)
    farthest = np.linalg.norm(np.tile(one, 3) - np.tile(-one, 3), norm)
    assert stacked.dimension == 6
    assert farthest <= stacked.apart <= farthest * (1 + 1e-12)
    assert np.linalg.norm(np.tile(one, 3) * 2.0 / np.linalg.norm(one, norm), norm) <= stacked.norm_bound * (
        1 + 1e-12
    )
