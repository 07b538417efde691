"""From one currency of privacy loss to another, always rounded to the safe side.

Three currencies are kept side by side: pure epsilon, rho of zero-concentrated DP (Bun and Steinke
2016) and mu of Gaussian DP (Dong, Roth and Su 2022). The conversions here are the optimal ones, not
the textbook ``rho + 2 sqrt(rho ln 1/delta)``: at (1, 1e-6) that alone is worth 18 % less noise.

Every function is a bound: what leaves this module upwards (an epsilon, a delta) is rounded up, what
leaves it downwards (the largest rho or mu) is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

# Relative slack that covers the rounding errors of the few dozen float operations in each formula.
_SLACK = 1e-12
# A delta that underflows is still not 0.
_TINY = 5e-324


def _sum_up(terms: tuple[float, ...]) -> float:
    """The sum of a few computed terms, raised by more than their rounding errors and its own."""
    return sum(terms) + 4e-15 * sum(map(abs, terms))


def exact(value: float | int | Fraction) -> Fraction:
    """The rational number a reader sees: floats are read as the decimal they print.

    ``0.1`` becomes 1/10, so that ten releases of 0.1 fit into a budget of 1.0. The float itself
    differs from that decimal by less than half a unit in the last place; every sampler covers the
    difference in its own error bound.

    >>> sum([exact(0.1)] * 10) == 1
    True
    """
    return Fraction(value) if isinstance(value, int | Fraction) else Fraction(repr(float(value)))


def rounded_up(value: Fraction) -> float:
    """The float nearest to ``value`` that, read as a decimal, is not below it."""
    number = float(value)
    while exact(number) < value:
        number = math.nextafter(number, math.inf)
    return number


def rounded_down(value: Fraction) -> float:
    """The float nearest to ``value`` that, read as a decimal, is not above it."""
    number = float(value)
    while exact(number) > value:
        number = math.nextafter(number, -math.inf)
    return number


def root_below(square: Fraction) -> Fraction:
    """A number next to the square root of ``square`` whose square is not above it."""
    number = math.sqrt(square)
    while exact(number) ** 2 > square:
        number = math.nextafter(number, 0.0)
    return exact(number)


def _lowest(function: Callable[[float], float], start: float) -> float:
    """Minimum of a unimodal function of a positive argument; any point of it is a valid bound."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    centre = min(range(-40, 41), key=lambda i: function(start * 2.0**i))
    low, high = math.log(start) + (centre - 1) * math.log(2.0), math.log(start) + (centre + 1) * math.log(2.0)
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    value_a, value_b = function(math.exp(a)), function(math.exp(b))
    best = min(value_a, value_b)
    for _ in range(48):
        if value_a <= value_b:
            high, b, value_b = b, a, value_a
            a = high - ratio * (high - low)
            value_a = function(math.exp(a))
        else:
            low, a, value_a = a, b, value_b
            b = low + ratio * (high - low)
            value_b = function(math.exp(b))
        best = min(best, value_a, value_b)
    return best


def _largest(fits: Callable[[float], bool], start: float) -> float:
    """The largest positive number for which ``fits`` holds, approached from below."""
    low = high = start
    while fits(high):
        low, high = high, high * 2.0
        if math.isinf(high):
            return math.inf
    while not fits(low):
        low, high = low / 2.0, low
        if low == 0.0:
            return 0.0
    for _ in range(60):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon such that ``rho``-zCDP implies (epsilon, ``delta``)-DP.

    Canonne, Kamath and Steinke 2020: the minimum over orders a > 1 of
    ``rho a + ln(1 - 1/a) - ln(delta a)/(a - 1)``.
    """
    if rho <= 0.0:
        return 0.0
    if delta <= 0.0 or math.isinf(rho):
        return math.inf
    if delta >= 1.0:
        return 0.0

    def at(excess: float) -> float:
        terms = (
            rho * (1.0 + excess),
            -math.log1p(1.0 / excess),
            -math.log(delta) / excess,
            -math.log1p(excess) / excess,
        )
        return _sum_up(terms)

    return max(0.0, _lowest(at, math.sqrt(math.log(1.0 / delta) / rho) + 1e-3))


@lru_cache(maxsize=4096)
def zcdp_delta(rho: float, epsilon: float) -> float:
    """Smallest delta such that ``rho``-zCDP implies (``epsilon``, delta)-DP.

    The same inequality read the other way: the minimum over a > 1 of
    ``exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1)``.
    """
    if rho <= 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(rho):
        return 1.0

    def log_at(excess: float) -> float:
        order = 1.0 + excess
        terms = (
            excess * order * rho,
            -excess * epsilon,
            -order * math.log1p(1.0 / excess),
            -math.log(excess),
        )
        return _sum_up(terms)

    log_delta = _lowest(log_at, max(epsilon / (2.0 * rho), 1e-3))
    return min(1.0, max(math.exp(min(0.0, log_delta)) * (1.0 + _SLACK), _TINY))


@lru_cache(maxsize=4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho such that rho-zCDP implies (``epsilon``, ``delta``)-DP; 0 when ``delta`` is 0.

    >>> round(zcdp_rho(1.0, 1e-6), 5)
    0.02436
    """
    if math.isinf(epsilon):
        return math.inf
    if delta <= 0.0:
        return 0.0
    start = min(epsilon * epsilon / (4.0 * math.log(1.0 / delta) + 4.0 * epsilon), 1e6)
    return _largest(lambda rho: zcdp_epsilon(rho, delta) <= epsilon * (1.0 - _SLACK), start)


@lru_cache(maxsize=4096)
def gdp_delta(mu: float, epsilon: float) -> float:
    """Delta of ``mu``-Gaussian DP at ``epsilon`` (exact: Balle and Wang 2018, Dong et al. 2022).

    ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, from logarithms so that deltas
    far below 1e-300 of the two terms do not cancel.
    """
    from scipy.special import log_ndtr

    if mu <= 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    first = float(log_ndtr(mu / 2.0 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))
    # The difference of the logarithms carries an absolute error of a few units of |first|.
    gap = min(0.0, second - first)
    error = 8e-16 * (2.0 + abs(first) + epsilon)
    return min(1.0, max(math.exp(first) * (-math.expm1(gap) + error) * (1.0 + _SLACK), _TINY))


@lru_cache(maxsize=4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that mu-Gaussian DP implies (``epsilon``, ``delta``)-DP; 0 when ``delta`` is 0.

    >>> round(gdp_mu(1.0, 1e-6), 4)
    0.2367
    """
    if math.isinf(epsilon):
        return math.inf
    if delta <= 0.0:
        return 0.0
    return _largest(lambda mu: gdp_delta(mu, epsilon) <= delta * (1.0 - _SLACK), 1.0)


@lru_cache(maxsize=4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon such that ``mu``-Gaussian DP implies (epsilon, ``delta``)-DP."""
    if mu <= 0.0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0.0 or math.isinf(mu):
        return math.inf
    low, high = 0.0, mu * mu / 2.0 + mu
    while gdp_delta(mu, high) > delta:
        low, high = high, 2.0 * high
    for _ in range(100):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (low, middle) if gdp_delta(mu, middle) <= delta else (middle, high)
    return high


_HALF_PI = Fraction(1570796326794897, 10**15)  # rounded up


def pure_rho(epsilon: Fraction) -> Fraction:
    """zCDP of an ``epsilon``-DP step: ``epsilon tanh(epsilon/2)``, never above ``epsilon^2/2``.

    Randomised response is the worst such step and the Kullback-Leibler order its worst order
    (Bun and Steinke 2016; Harrison and Manurangsi 2025); a test searches the orders.
    """
    simple = epsilon * epsilon / 2
    number = rounded_up(epsilon)
    sharper = Fraction(number * math.tanh(number / 2.0) * (1.0 + _SLACK))
    return min(simple, sharper)


def range_rho(width: Fraction) -> Fraction:
    """zCDP of a step whose privacy loss lies in an interval of length ``width``: ``width^2/8``.

    Hoeffding's lemma on the loss (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021). Charging the
    same step as a generic ``width``-DP one would cost four times as much.
    """
    return width * width / 8


def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Square of the Gaussian-DP parameter of an ``epsilon``-DP step.

    The trade-off curve of randomised response touches the Gaussian one at its corner, where both
    errors are ``1/(1 + e^epsilon)``. That is at most ``pi/2 epsilon^2``, which it approaches for small
    epsilon, where the corner itself would be lost in rounding.
    """
    from scipy.special import log_expit, ndtri_exp

    simple = _HALF_PI * epsilon * epsilon
    if epsilon < Fraction(1, 1000):
        return simple
    number = rounded_up(epsilon)
    corner = -2.0 * float(ndtri_exp(float(log_expit(-number))))
    return min(simple, Fraction((corner * (1.0 + _SLACK)) ** 2))


def range_mu_squared(width: Fraction) -> Fraction:
    """Square of the Gaussian-DP parameter of a step of bounded range ``width``.

    Such a step is a post-processing of some two-point pair with losses ``{t, t - width}``; the
    symmetric one, ``t = width/2``, has the largest mu (a test scans t), and it is randomised
    response with epsilon = width/2.
    """
    return pure_mu_squared(width / 2)
