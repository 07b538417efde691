"""The samplers behind the gate: exact on a public grid, given uniform random words.

Noise. A value is first truncated to a public grid, exactly and towards zero (so that no norm grows),
and then moved by ``round(Y)`` grid steps, where Y is an ideal real-valued Laplace or Gaussian variable
of scale 2^32 steps. An integer plus ``round(Y)`` is ``round(integer + Y)``: what leaves is the ideal
continuous mechanism's output, rounded. So every theorem about the continuous mechanism holds for it by
post-processing, and there is no floating-point noise to attack (Mironov 2012). What truncation adds to
the sensitivity is paid for by noise that is larger by the same factor.

``round(Y)`` is drawn exactly. |Y| is split into cells 2^22 steps wide. A first word picks the cell from
a table of the distribution function; a second one gives a uniform place in the cell, a sign, and a
test that keeps the place with probability ``density(place) / density(start of the cell)`` (at least
.99); a place that is not kept is drawn again in the same cell. Both comparisons are made on truncated
numbers; whenever the truncated bits cannot decide, about once in 2^30 draws, more bits and more digits
are taken until they can (`_settle`).

Choice. Weights of the exponential mechanism are computed in floating point with a proven error bound;
one uniform word picks a candidate. If the word is closer to a border than the bound, the weights are
computed again with more digits and more random bits are drawn, until the answer is certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .conversions import exact
from .randomness import Randomness, uniforms

STEPS_BITS = 32
CELL_BITS = 22
_TEST_BITS = 40


# --- the grid -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A public grid whose step is ``mantissa * 2^exponent``; noise on it has scale 2^32 steps."""

    mantissa: int
    exponent: int

    @cached_property
    def step(self) -> Fraction:
        return Fraction(self.mantissa) * Fraction(2) ** self.exponent

    @property
    def noise_scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise, in the value's own unit."""
        return float(self.step) * 2.0**STEPS_BITS

    @classmethod
    def at_least(cls, step: Fraction) -> Grid:
        """The finest representable grid that is not finer than ``step`` (a 32-bit mantissa)."""
        exponent = step.numerator.bit_length() - step.denominator.bit_length() - 32
        mantissa = math.ceil(step / Fraction(2) ** exponent)
        while mantissa >= 1 << 32:
            exponent += 1
            mantissa = math.ceil(step / Fraction(2) ** exponent)
        while mantissa < 1 << 31:
            exponent -= 1
            mantissa = math.ceil(step / Fraction(2) ** exponent)
        return cls(mantissa, exponent)

    @classmethod
    @lru_cache(maxsize=256)
    def for_noise(
        cls, scale: float | Fraction, sensitivity: float | Fraction, truncation: float | Fraction
    ) -> Grid:
        """The grid on which noise of 2^32 steps gives the loss ``sensitivity / scale``, truncation included.

        ``truncation`` is how many steps truncation can add to the sensitivity: 0 when it cannot (values
        known by a norm), the number of coordinates that can change in L1, its square root in L2.
        """
        wanted, moves = exact(scale), exact(sensitivity)
        steps = Fraction(2) ** STEPS_BITS
        spare = steps - (exact(truncation) * wanted / moves if moves else 0)
        if spare < steps / 2:
            raise ValueError(
                f"scale={float(wanted):g} is so large beside sensitivity={float(moves):g} that rounding would"
                " dominate; release fewer coordinates at once or spend a larger share"
            )
        return cls.at_least(wanted / spare)

    def truncate(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Whole steps in each value, towards zero, exactly; saturated at 2^62 steps."""
        from ..kernels.noise import to_grid

        out = np.empty(values.shape, dtype=np.int64)
        to_grid(values, self.mantissa, self.exponent, out)
        return out

    def values(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Grid points as floats (rounding here is post-processing)."""
        return steps.astype(np.float64) * float(self.step)


# --- noise --------------------------------------------------------------------------------------


def _tail(gaussian: bool, x: Any) -> Any:
    """P(|Y| >= x) for the standard Laplace or Gaussian, to mpmath's current precision."""
    import mpmath

    return mpmath.erfc(x / mpmath.sqrt(2)) if gaussian else mpmath.exp(-x)


@lru_cache(maxsize=2)
def noise_table(gaussian: bool) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """``floor(2^64 P(|Y| < cell end))`` for each cell, and where to start looking for a 16-bit prefix."""
    precision, top = 192, 1 << 64
    entries: list[int] = []
    for tail in _tails(gaussian, precision):
        below = (1 << precision) - tail
        entries.append(min(below >> (precision - 64), top - 1))
        if entries[-1] == top - 1:
            break
    cells = np.array(entries, dtype=np.uint64)
    guide = np.searchsorted(cells, np.arange(1 << 16, dtype=np.uint64) << np.uint64(48), side="left")
    return cells, guide.astype(np.uint16)


def _tails(gaussian: bool, precision: int) -> Iterator[int]:
    """P(|Y| >= cell end) for cell after cell in fixed point, off by less than 2^-100.

    Exponential tails are multiplied on. The Gaussian is integrated cell by cell from the power series of
    exp(-a s - s^2/2) at the cell's start a: with terms ``d_n`` at s = width,
    ``d_{n+1} = -width (a d_n + width d_{n-1}) / (n + 1)``, all in integers because a and width are
    multiples of 2^-10.
    """
    import mpmath

    bits = STEPS_BITS - CELL_BITS
    one = 1 << precision
    with mpmath.workprec(precision + 32):
        shrink = int(mpmath.exp(-(mpmath.mpf(2) ** -bits)) * one)
        density = int(mpmath.sqrt(2 / mpmath.pi) * one)
    tail, cell = one, 0
    while True:
        if gaussian:
            before, term, series, integral = 0, one, 0, 0
            for order in range(40):  # terms fall at least as fast as (9 / 2^10)^n / n!
                series += term
                integral += term // (order + 1)
                before, term = term, -((cell * term + before) >> (2 * bits)) // (order + 1)
            tail -= ((density * integral) >> precision) >> bits
            density = (density * series) >> precision
        else:
            tail = (tail * shrink) >> precision
        yield tail
        cell += 1


def noise_steps(source: Randomness, count: int, *, gaussian: bool) -> NDArray[np.int64]:
    """``count`` independent draws of ``round(Y)``, Y of scale 2^32."""
    from ..kernels.noise import REJECTED, UNDECIDED, attempt_noise

    cells, guide = noise_table(gaussian)
    out = np.empty(count, dtype=np.int64)
    status = np.empty(count, dtype=np.uint8)
    words = source.words(2 * count)
    failed = attempt_noise(words, cells, guide, gaussian, out, status)
    places, drawn = np.arange(count) if failed else None, out  # where in `out` the attempts belong
    while failed and places is not None:
        for index in np.flatnonzero(status == UNDECIDED):
            drawn[index] = _settle(int(words[2 * index]), int(words[2 * index + 1]), source, gaussian)
        out[places] = drawn
        again = np.flatnonzero(status == REJECTED)
        # The cell was right; only the place in it is drawn again. Drawing the cell again as well would favour
        # cells in which places are rarely rejected.
        retry = np.empty(2 * again.size, dtype=np.uint64)
        retry[0::2], retry[1::2] = words[2 * again], source.words(again.size)
        words, places = retry, places[again]
        drawn, status = np.empty(again.size, dtype=np.int64), np.empty(again.size, dtype=np.uint8)
        failed = attempt_noise(words, cells, guide, gaussian, drawn, status)
        out[places] = drawn
    return out


def _settle(first: int, second: int, source: Randomness, gaussian: bool) -> int:
    """The draw of the compiled loop for these words, decided with as many bits and digits as it takes.

    It is also the slow twin that the tests hold against the compiled loop.
    """
    import mpmath

    def more() -> int:
        return int(source.words(1)[0])

    with mpmath.workprec(256):
        width = mpmath.mpf(2) ** (CELL_BITS - STEPS_BITS)
        word = _LazyBits(first, 64, more)
        cell = max(0, int(np.searchsorted(noise_table(gaussian)[0], np.uint64(first), side="left")) - 1)
        while not word.below(lambda c=cell: 1 - _tail(gaussian, (c + 1) * width)):  # type: ignore[misc]
            cell += 1

        def keep(place: Any) -> Any:
            rise = place * width
            return mpmath.exp(-(cell * width * rise + rise * rise / 2 if gaussian else rise))

        while True:
            low, half = second & ((1 << CELL_BITS) - 1), (second >> CELL_BITS) & 1
            negative = (second >> (CELL_BITS + 1)) & 1
            test = _LazyBits(second >> (64 - _TEST_BITS), _TEST_BITS, more)
            place = _LazyBits(2 * low + half, CELL_BITS + 1, more)
            while True:
                start, end = place.interval()
                if test.surely_below(keep(end)):
                    size = (cell << CELL_BITS) + low + half
                    return -size if negative else size
                if test.surely_above(keep(start)):
                    break
                test.extend()
                place.extend()
            second = more()


class _LazyBits:
    """A uniform real number in [0, 1), known to as many bits as have been asked for."""

    def __init__(self, bits: int, known: int, more: Callable[[], int]) -> None:
        self._bits, self._known, self._more = bits, known, more

    def extend(self) -> None:
        self._bits = (self._bits << 64) | self._more()
        self._known += 64

    def interval(self) -> tuple[Any, Any]:
        import mpmath

        unit = mpmath.mpf(2) ** -self._known
        return self._bits * unit, (self._bits + 1) * unit

    def surely_below(self, threshold: Any) -> bool:
        import mpmath

        return bool(self.interval()[1] <= threshold * (1 - mpmath.mpf(2) ** -200))

    def surely_above(self, threshold: Any) -> bool:
        import mpmath

        return bool(self.interval()[0] >= threshold * (1 + mpmath.mpf(2) ** -200))

    def below(self, threshold: Callable[[], Any]) -> bool:
        """Whether the number is below ``threshold()``, which is evaluated in ever higher precision."""
        import mpmath

        while True:
            with mpmath.workprec(self._known + 256):
                value = threshold()
                start, end = self.interval()
                slack = mpmath.mpf(2) ** -(self._known + 128)
                if end <= value - slack:
                    return True
                if start >= value + slack:
                    return False
            self.extend()


def spherical_laplace_noise(source: Randomness, dimension: int, scale: float) -> NDArray[np.float64]:
    """A vector with density proportional to ``exp(-|z|/scale)``: Gamma length, uniform direction.

    Floating point throughout; the account says so.
    """
    from scipy.special import ndtri

    direction = ndtri(uniforms(source, dimension))
    length = -scale * float(np.log(uniforms(source, dimension)).sum())
    return np.asarray(direction * (length / float(np.linalg.norm(direction))), dtype=np.float64)


# --- choice -------------------------------------------------------------------------------------


def exponential_choice(source: Randomness, scores: NDArray[np.float64], rate: float) -> int:
    """An index drawn with probability proportional to ``exp(rate * score)``, exactly.

    Error bound. Let u = 2^-53 and a = rate (score - largest score) <= 0. The computed argument differs
    from a by at most 3u|a| (difference, product, and the rate read as a decimal), so its exponential,
    itself good to 4 units in the last place, is off by at most (3|a| + 8) u e^a <= 10u in absolute terms
    because |a| e^a <= 1/e. Partial sums of n terms add at most (n - 1) u W, W >= 1 being the total. A
    border is therefore off by at most 11 n u W; the target ``U W`` by 11 n u W for W and 3 u W for the
    product and the truncated word. ``(24 n + 64) u W`` covers the sum of both.
    """
    top = scores.max()
    word = int(source.words(1)[0])
    if not math.isfinite(float(top) - float(scores.min())):
        return _exact_choice(source, scores, rate, word)
    weights = np.exp(rate * (scores - top))
    borders = np.cumsum(weights)
    total = borders[-1]
    target = word * 2.0**-64 * total
    margin = (24 * scores.size + 64) * 2.0**-53 * total
    index = int(np.searchsorted(borders, target, side="right"))
    below = borders[index - 1] if index else -math.inf
    above = borders[index] if index < scores.size - 1 else math.inf
    if index < scores.size and target - below > margin and above - target > margin:
        return index
    return _exact_choice(source, scores, rate, word)


def _exact_choice(source: Randomness, scores: NDArray[np.float64], rate: float, word: int) -> int:
    """The same choice for the same word, with as many digits and bits as it takes."""
    import mpmath

    bits, known = word, 64
    exact_rate = exact(rate)
    exponents = [exact_rate * Fraction(float(s)) for s in scores - 0.0]
    top = max(exponents)
    while True:
        precision = known + 64 + scores.size.bit_length()
        with mpmath.workprec(precision):
            weights = [mpmath.exp(mpmath.mpf((e - top).numerator) / (e - top).denominator) for e in exponents]
            total = mpmath.fsum(weights)
            slack = total * mpmath.mpf(2) ** (scores.size.bit_length() + 8 - precision)
            start = total * bits * mpmath.mpf(2) ** -known - slack
            end = total * (bits + 1) * mpmath.mpf(2) ** -known + slack
            border = mpmath.mpf(0)
            for index, weight in enumerate(weights):
                last = index == len(weights) - 1
                if start >= border and (last or end <= border + weight):
                    return index
                border += weight
        bits, known = (bits << 64) | int(source.words(1)[0]), known + 64


def choice_log_probabilities(scores: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Logarithms of the probabilities with which `exponential_choice` answers; for audits.

    >>> np.exp(choice_log_probabilities(np.array([0.0, np.log(3.0)]), 1.0)).round(2).tolist()
    [0.25, 0.75]
    """
    exponents = rate * (scores - scores.max())
    return np.asarray(exponents - np.log(np.exp(exponents).sum()), dtype=np.float64)
