"""Conversions between privacy definitions, proven to be on the safe side.

Three definitions are kept side by side: pure epsilon, rho of zero-concentrated DP (Bun and Steinke
2016) and mu of Gaussian DP (Dong, Roth and Su 2022). The conversion from mu is exact. The one
from rho is the bound of Canonne, Kamath and Steinke (2020) at its best order, which needs 15 % less noise at
(1, 1e-6) than the textbook's.

Every conversion is a bound: an epsilon or a delta is never below the true value, and the largest rho or mu
never above it. Floating point is used only to search; the value returned is evaluated with as many digits as
its cancellation needs, and a bound on the error is added (`_with_error`). Arguments may have been rounded
before, by a relative error of up to ``_ROOM`` (as when a float is read as the decimal it prints): results
hold for the worst number in that range, with a margin for one more rounding.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..core import checks

_WRITTEN = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")
_ROOM = 2.0**-50
# Limits are lowered by this, so that a loss within a limit is also reported as within its budget.
_SPARE = 2.0**-43
# Stands for any delta that underflows: it is not 0.
_TINY = 5e-324
_LEAST_NORMAL = 2.0**-1022
_PRECISION = 128


# mpmath's working precision is global, so threads would change each other's: each gets its own context.
_own = threading.local()


def own_digits() -> Any:
    """This thread's mpmath context, to be used like the module, with ``workprec`` around computations."""
    mp = getattr(_own, "context", None)
    if mp is None:
        from mpmath import MPContext

        mp = _own.context = MPContext()
    return mp


@contextmanager
def digits(bits: int) -> Iterator[Any]:
    """This thread's mpmath context, working with ``bits`` bits.

    >>> with digits(200) as mp:
    ...     str(mp.sqrt(2))[:42]
    '1.4142135623730950488016887242096980785696'
    """
    mp = own_digits()
    with mp.workprec(bits):
        yield mp


def _up(value: Any) -> float:
    """A float that is above a positive multi-digit number, by up to ``_ROOM`` of it; at least ``_TINY``."""
    number = float(value)
    return max(number + number * _ROOM, math.nextafter(number, math.inf))


def _down(value: Any) -> float:
    """A float that is below a multi-digit number, by up to ``_ROOM`` of it; not below 0."""
    number = float(value)
    return max(0.0, min(number - number * _ROOM, math.nextafter(number, -math.inf)))


@lru_cache(maxsize=4096, typed=True)  # the same few numbers recur
def exact(value: float | int | Fraction) -> Fraction:
    """The exact rational of a number; a float is read as the decimal it prints.

    ``0.1`` becomes 1/10, so that ten releases of 0.1 fit into a budget of 1.0. The float itself
    differs from that decimal by less than half a unit in the last place; samplers cover the difference
    in their error bounds, and choices are drawn at a rate that is as much lower. Subnormal floats, whose
    decimals may be off by percents, are read as they are.

    >>> sum([exact(0.1)] * 10) == 1
    True
    """
    if isinstance(value, int | Fraction):
        return Fraction(value)
    number = float(value)
    return Fraction(number if abs(number) < _LEAST_NORMAL else repr(number))


def fraction(text: Any) -> Fraction:
    """Parse a fraction as events write it; ``Fraction`` itself would also expand 1e999999999."""
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        raise ValueError(f"{checks.shown(text)[:40]} is not a fraction of integers")
    return Fraction(text)


def rounded_up(value: Fraction) -> float:
    """The float nearest to ``value`` that, read as a decimal, is not below it."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0.0)
    while number < math.inf and exact(number) < value:
        number = math.nextafter(number, math.inf)
    return number


def rounded_down(value: Fraction) -> float:
    """The float nearest to ``value`` that, read as a decimal, is not above it."""
    return 0.0 - rounded_up(-value)


def root_below(square: Fraction) -> Fraction:
    """A number next to the square root of ``square`` whose square is not above it."""
    if not Fraction(1, 10**300) < square < 10**300:  # beyond what floats hold
        shift = square.denominator.bit_length() - square.numerator.bit_length() + 128
        shift += shift % 2
        scaled = square * Fraction(2) ** shift
        return Fraction(math.isqrt(int(scaled))) / Fraction(2) ** (shift // 2)
    number = math.sqrt(square)
    while exact(number) ** 2 > square:
        number = math.nextafter(number, 0.0)
    return exact(number)


def root_above(square: Fraction) -> Fraction:
    """A number next to the square root of ``square`` whose square is not below it."""
    below = root_below(square)
    return below if below * below == square else below * (1 + Fraction(1, 2**51))


def exponential_above(exponent: Fraction) -> Fraction:
    """A number just above ``e^exponent``, which must be at most 10,000."""
    with digits(_PRECISION + 16) as mp:
        power = mp.exp(mp.mpf(exponent.numerator) / exponent.denominator) * (1 + mp.mpf(2) ** -96)
        return Fraction(int(mp.ceil(mp.ldexp(power, _PRECISION))), 1 << _PRECISION)


def _lowest(function: Callable[[float], float], start: float) -> float:
    """The approximate minimizer of a unimodal function of a positive argument."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    centre = min(range(-40, 41), key=lambda i: function(start * 2.0**i))
    low, high = math.log(start) + (centre - 1) * math.log(2.0), math.log(start) + (centre + 1) * math.log(2.0)
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    value_a, value_b = function(math.exp(a)), function(math.exp(b))
    for _ in range(48):
        if value_a <= value_b:
            high, b, value_b = b, a, value_a
            a = high - ratio * (high - low)
            value_a = function(math.exp(a))
        else:
            low, a, value_a = a, b, value_b
            b = low + ratio * (high - low)
            value_b = function(math.exp(b))
    return math.exp(a) if value_a <= value_b else math.exp(b)


def _edge(excess: Callable[[float], float], inside: float, outside: float) -> float:
    """A number next to where a monotone ``excess`` changes sign, on the side where it is not positive.

    ``inside`` is on that side and ``outside`` is not. By the method of false position in logarithms, with the
    Illinois rule; ``excess`` was evaluated at the number returned.
    """
    at_inside, at_outside = min(excess(inside), -1e-300), max(excess(outside), 1e-300)
    last_side = 0
    for _ in range(200):
        if abs(outside - inside) <= 2.0**-47 * inside:
            break
        share = at_inside / (at_inside - at_outside)
        share = min(max(share, 2.0**-20), 1.0 - 2.0**-20) if math.isfinite(share) else 0.5
        middle = inside * (outside / inside) ** share
        if not min(inside, outside) < middle < max(inside, outside):
            middle = math.sqrt(inside) * math.sqrt(outside)
            if not min(inside, outside) < middle < max(inside, outside):
                break
        found = excess(middle)
        if found <= 0.0:
            at_outside = at_outside / 2.0 if last_side < 0 else at_outside
            inside, at_inside, last_side = middle, min(found, -1e-300), -1
        else:
            at_inside = at_inside / 2.0 if last_side > 0 else at_inside
            outside, at_outside, last_side = middle, found, 1
    return inside


def _zcdp_terms(excess: Any, log1p: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What the order ``1 + excess`` adds to an epsilon: ``-ln(1 + 1/excess)``, ``-ln(1 + excess)/excess``."""
    return -log1p(1 / excess), -log1p(excess) / excess


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon such that ``rho``-zCDP implies (epsilon, ``delta``)-DP.

    Canonne, Kamath and Steinke 2020: the minimum over orders a > 1 of ``rho a + ln(1 - 1/a) - ln(delta a)/(a
    - 1)``. Every order gives a valid bound, so only the value at the best one found has to be evaluated
    rigorously.
    """
    if rho <= 0.0:
        return 0.0
    if delta <= 0.0 or math.isinf(rho):
        return math.inf
    if delta >= 1.0:
        return 0.0
    logarithm = -math.log(delta)

    def near(excess: float) -> float:
        first, second = _zcdp_terms(excess, math.log1p)
        return float(rho * (1.0 + excess) + logarithm / excess + first + second)

    order = _lowest(near, math.sqrt(logarithm) / math.sqrt(rho) + 1e-3)
    with digits(_PRECISION) as mp:
        excess = mp.mpf(order)
        terms = [mp.mpf(rho) * (1 + _ROOM) * (1 + excess), -mp.log(mp.mpf(delta) * (1 - _ROOM)) / excess]
        found = _with_error(mp, [*terms, *_zcdp_terms(excess, mp.log1p)])
        return 0.0 if found <= 0 else _up(found)


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

    def near(excess: float) -> float:
        order = 1.0 + excess
        return excess * (order * rho - epsilon) - order * math.log1p(1.0 / excess) - math.log(excess)

    start = min(max(epsilon / rho / 2.0, 1e-3), 1e200)
    order = _lowest(near, start)
    with digits(_PRECISION) as mp:
        excess = mp.mpf(order)
        moment = excess * (1 + excess) * mp.mpf(rho) * (1 + _ROOM)
        terms = [moment, -excess * mp.mpf(epsilon) * (1 - _ROOM), -mp.log(excess)]
        terms.append(-(1 + excess) * mp.log1p(1 / excess))
        found = _with_error(mp, terms)
        if found < -800:
            return _TINY
        return min(1.0, _up(mp.exp(found) * (1 + mp.mpf(2) ** -96))) if found < 0 else 1.0


@lru_cache(maxsize=4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho such that rho-zCDP implies (``epsilon``, ``delta``)-DP; 0 when ``delta`` is 0.

    The inequality of `zcdp_epsilon` solved for rho: any order gives a rho that is small enough.

    >>> round(zcdp_rho(1.0, 1e-6), 5)
    0.02436
    """
    if math.isinf(epsilon):
        return math.inf
    if delta <= 0.0:
        return 0.0
    logarithm = -math.log(delta)

    def near(excess: float) -> float:
        first, second = _zcdp_terms(excess, math.log1p)
        return float((logarithm / excess - epsilon + first + second) / (1.0 + excess))

    order = _lowest(near, min(2.0 * logarithm / epsilon + 1e-3, 1e200))
    with digits(_PRECISION) as mp:
        excess = mp.mpf(order)
        terms = [-mp.mpf(epsilon) * (1 - _ROOM), -mp.log(mp.mpf(delta) * (1 - _ROOM)) / excess]
        found = -_with_error(mp, [*terms, *_zcdp_terms(excess, mp.log1p)])
        return _down(found * (1 - _SPARE) / (1 + excess))


def _with_error(mp: Any, terms: list[Any]) -> Any:
    """The sum of terms that are accurate in all but their last 28 bits, plus a bound on its error."""
    return mp.fsum(terms) + mp.fsum(abs(term) for term in terms) * mp.mpf(2) ** (32 - _PRECISION)


def _gaussian_delta(mp: Any, mu: float, epsilon: float) -> Any:
    """Delta of ``mu``-Gaussian DP at ``epsilon``, rounded up, for all parameters within ``_ROOM``.

    ``Phi(-a) - e^epsilon Phi(-b)`` with ``a, b = epsilon/mu -+ mu/2``. With p bits, a and b are known to
    within 4 b 2^-p, so each term has a relative error of a few times (b + 1)^2 2^-p. Their difference is at
    least mu/(10 + 10 b) times the first term: p grows with log b and with log 1/mu.
    """
    reach = epsilon / mu
    if math.isinf(reach) or reach - mu / 2.0 > 40.0 + 2.0**-45 * (reach + mu):
        return mp.mpf(_TINY)  # below Phi(-40), which is below the smallest float
    if reach - mu / 2.0 < -40.0:
        return mp.mpf(1)
    bits = _PRECISION + math.frexp(reach + mu + 2.0)[1] * 2 + max(0, -math.frexp(mu)[1])
    with mp.workprec(bits):
        width, loss = mp.mpf(mu) * (1 + _ROOM), mp.mpf(epsilon) * (1 - _ROOM)
        a, b = loss / width - width / 2, loss / width + width / 2
        first = mp.erfc(a / mp.sqrt(2)) / 2
        second = mp.exp(loss) * mp.erfc(b / mp.sqrt(2)) / 2
        return first - second + (first + second) * (b + 1) ** 2 * mp.mpf(2) ** (32 - bits)


def _quantiles_apart(mp: Any, delta: Any, target: Any) -> float:
    """Positive where ``delta`` is above ``target``; about proportional to the step that takes it there."""
    if delta <= target:
        return -float(mp.sqrt(-mp.log(delta)) - mp.sqrt(-mp.log(target))) if delta < 1 else 0.0
    return max(1e-300, float(mp.sqrt(-mp.log(target)) - mp.sqrt(-mp.log(min(delta, mp.mpf(1))))))


@lru_cache(maxsize=4096)
def gdp_delta(mu: float, epsilon: float) -> float:
    """Delta of ``mu``-Gaussian DP at ``epsilon`` (exact: Balle and Wang 2018, Dong et al. 2022).

    ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``.
    """
    if mu <= 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    with digits(_PRECISION) as mp:
        return min(1.0, _up(_gaussian_delta(mp, mu, epsilon)))


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
    with digits(_PRECISION) as mp:
        target = mp.mpf(delta) * (1 - _ROOM)

        def excess(mu: float) -> float:
            return _quantiles_apart(mp, _gaussian_delta(mp, mu, epsilon), target)

        low = high = 1.0
        while excess(high) <= 0.0:
            low, high = high, high * 4.0
        while excess(low) > 0.0:
            low, high = low / 4.0, low
            if low < 1e-300:
                return 0.0
        return _down(_edge(excess, low, high) * (1.0 - _SPARE))


@lru_cache(maxsize=4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon such that ``mu``-Gaussian DP implies (epsilon, ``delta``)-DP."""
    if mu <= 0.0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0.0 or math.isinf(mu):
        return math.inf
    with digits(_PRECISION) as mp:
        target = mp.mpf(delta) * (1 - _ROOM)

        def excess(epsilon: float) -> float:
            return _quantiles_apart(mp, _gaussian_delta(mp, mu, epsilon), target)

        low = high = mu * mu / 2.0 + mu
        if math.isinf(high):
            return math.inf
        while excess(high) > 0.0:
            low, high = high, high * 2.0
            if math.isinf(high):
                return math.inf
        while excess(low) <= 0.0:
            low, high = low / 4.0, low
            if low < 1e-300:
                break
        return _up(_edge(excess, high, low))


def concurrent_delta(pure: Fraction, mu: float, epsilon: Fraction) -> float:
    """Delta, at ``epsilon`` above ``pure``, of a pure mechanism in parallel with a mu-Gaussian one.

    Randomized response is the worst mechanism of its epsilon: its loss is +-``pure``, the first with
    probability p = e^pure / (1 + e^pure). So delta is p delta_mu(epsilon - pure) + (1 - p) delta_mu(epsilon +
    pure), exactly. It is never above what the sum of the two epsilons gives, delta_mu(epsilon - pure).
    """
    if mu <= 0.0:
        return 0.0 if epsilon >= pure else 1.0
    if epsilon <= pure or math.isinf(mu):
        return 1.0
    near, far = (exact(gdp_delta(mu, rounded_down(one))) for one in (epsilon - pure, epsilon + pure))
    power = exponential_above(min(pure, Fraction(5000)))
    return min(1.0, rounded_up(far + power / (1 + power) * max(near - far, Fraction(0))))


@lru_cache(maxsize=1024)
def concurrent_epsilon(pure: Fraction, mu: float, delta: float) -> float:
    """Smallest epsilon (next to it, from above) whose `concurrent_delta` is at most ``delta``."""
    rest = gdp_epsilon(mu, delta)
    if not pure or not math.isfinite(rest):
        return rounded_up(pure + exact(rest)) if math.isfinite(rest) else rest
    low, high = 0.0, rest  # beyond the pure one
    while high - low > 2.0**-50 * (high + float(pure)):
        middle = (low + high) / 2.0
        fits = concurrent_delta(pure, mu, pure + exact(middle)) <= delta
        low, high = (low, middle) if fits else (middle, high)
    return rounded_up(pure + exact(high))


@lru_cache(maxsize=1024)
def concurrent_mu(pure: Fraction, epsilon: Fraction, delta: float) -> float:
    """Largest mu (to nine digits, from below) in parallel with ``pure`` within (``epsilon``, ``delta``).

    >>> round(concurrent_mu(Fraction(4, 5), Fraction(1), 1e-6), 4), round(gdp_mu(0.2, 1e-6), 4)
    (0.0538, 0.0527)
    """
    if epsilon <= pure:
        return 0.0
    low = gdp_mu(rounded_down(epsilon - pure), delta)
    high = 2.0 * low
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        fits = concurrent_delta(pure, middle, epsilon) <= delta
        low, high = (middle, high) if fits else (low, middle)
    return low


HALF_PI = Fraction(1570796326794897, 10**15)  # rounded up


def pure_rho(epsilon: Fraction) -> Fraction:
    """zCDP of an ``epsilon``-DP step: ``epsilon tanh(epsilon/2)``, never above ``epsilon^2/2``.

    Randomized response is the worst such step and the Kullback-Leibler order its worst order
    (Bun and Steinke 2016; Harrison and Manurangsi 2025); a test searches the orders.
    """
    simple = epsilon * epsilon / 2
    if epsilon < Fraction(1, 10**4):  # where the two agree to nine digits
        return simple
    if epsilon > 100:
        return epsilon
    with digits(_PRECISION) as mp:
        number = mp.mpf(epsilon.numerator) / epsilon.denominator
        return min(simple, Fraction(_up(number * mp.tanh(number / 2))))


def range_rho(width: Fraction) -> Fraction:
    """zCDP of a step whose privacy loss lies in an interval of length ``width``: ``width^2/8``.

    Hoeffding's lemma on the loss (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021). Charging the
    same step as a generic ``width``-DP one would cost four times as much.
    """
    return width * width / 8


def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Square of the Gaussian-DP parameter of an ``epsilon``-DP step.

    The trade-off curve of randomized response touches the Gaussian one at its corner, where both
    errors are ``1/(1 + e^epsilon)``. That is at most ``pi/2 epsilon^2``, which it approaches for small
    epsilon, where the corner itself would be lost in rounding.
    """
    simple = HALF_PI * epsilon * epsilon
    if epsilon < Fraction(1, 1000):
        return simple
    if epsilon > 10**6:
        return 8 * epsilon  # the corner is at -mu/2, and Phi(-mu/2) < e^(-mu^2/8)/2
    from scipy.special import log_expit, ndtri_exp

    near = -2.0 * float(ndtri_exp(float(log_expit(-float(epsilon)))))
    with digits(_PRECISION + 64) as mp:
        corner = 1 / (1 + mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator))
        excess = 2.0**-48
        while True:
            mu = mp.mpf(near) * (1 + excess)
            if mp.erfc(mu / mp.sqrt(8)) / 2 * (1 + mp.mpf(2) ** -96) <= corner:
                return min(simple, Fraction(_up(mu * mu)))
            excess *= 4.0


def range_mu_squared(width: Fraction) -> Fraction:
    """Square of the Gaussian-DP parameter of a step of bounded range ``width``.

    Such a step is a post-processing of some two-point pair with losses ``{t, t - width}``; the
    symmetric one, ``t = width/2``, has the largest mu (a test scans t), and it is randomized
    response with epsilon = width/2.
    """
    return pure_mu_squared(width / 2)
