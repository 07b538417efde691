"""The samplers behind the gate: exact on a public grid, given uniform random words.

Noise. A value is first truncated to a public grid, exactly and towards zero (so that no norm grows),
and then moved by ``round(Y)`` grid steps, where Y is an ideal real-valued Laplace or Gaussian variable
of scale 2^32 steps. An integer plus ``round(Y)`` is ``round(integer + Y)``: what leaves is the ideal
continuous mechanism's output, rounded. So every theorem about the continuous mechanism holds for it by
post-processing, and there is no floating-point noise to attack (Mironov 2012). What truncation adds to
the sensitivity is paid for by noise that is larger by the same factor. Spherical Laplace noise is rounded
the same way, coordinate by coordinate (`spherical_steps`).

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

from .. import backends
from .conversions import exact
from .digits import own_digits
from .randomness import Randomness

STEPS_BITS = 32
CELL_BITS = 22
_TEST_BITS = 40


# --- the grid -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A public grid whose step is ``mantissa * 2^exponent``; noise on it has scale 2^bits steps."""

    mantissa: int
    exponent: int
    bits: int = STEPS_BITS

    @cached_property
    def step(self) -> Fraction:
        return Fraction(self.mantissa) * Fraction(2) ** self.exponent

    @property
    def noise_scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise, in the value's own unit."""
        return float(self.step) * 2.0**self.bits

    @classmethod
    def at_least(cls, step: Fraction, bits: int = STEPS_BITS) -> Grid:
        """The finest representable grid that is not finer than ``step`` (a 32-bit mantissa)."""
        exponent = step.numerator.bit_length() - step.denominator.bit_length() - 32
        mantissa = math.ceil(step / Fraction(2) ** exponent)
        while mantissa >= 1 << 32:
            exponent += 1
            mantissa = math.ceil(step / Fraction(2) ** exponent)
        while mantissa < 1 << 31:
            exponent -= 1
            mantissa = math.ceil(step / Fraction(2) ** exponent)
        return cls(mantissa, exponent, bits)

    @classmethod
    @lru_cache(maxsize=256, typed=True)
    def for_noise(
        cls,
        scale: float | Fraction,
        sensitivity: float | Fraction,
        truncation: float | Fraction,
        bits: int = STEPS_BITS,
    ) -> Grid:
        """The grid on which noise of 2^bits steps loses ``sensitivity / scale``, truncation included.

        ``truncation`` is how many steps truncation can add to the sensitivity: 0 when it cannot (values
        known by a norm), the number of coordinates that can change in L1, its square root in L2.
        """
        wanted, moves = exact(scale), exact(sensitivity)
        steps = Fraction(2) ** bits
        spare = steps - (exact(truncation) * wanted / moves if moves else 0)
        if spare < steps / 2:
            raise ValueError(
                f"scale={float(wanted):g} is so large beside sensitivity={float(moves):g} that rounding would"
                " dominate; release fewer coordinates at once or spend a larger share"
            )
        return cls.at_least(wanted / spare, bits)

    def truncate(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Whole steps in each value, towards zero, exactly; saturated at 2^62 steps."""
        out = np.empty(values.shape, dtype=np.int64)
        backends.noise.to_grid(values, self.mantissa, self.exponent, out)
        return out

    def values(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Grid points as floats (rounding here is post-processing)."""
        return steps.astype(np.float64) * float(self.step)


# --- noise --------------------------------------------------------------------------------------


def _tail(gaussian: bool, x: Any) -> Any:
    """P(|Y| >= x) for the standard Laplace or Gaussian, to the current precision."""
    mpmath = own_digits()

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
    mpmath = own_digits()

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
    floors, _ = _half_steps(source, count, gaussian=gaussian)
    return (floors + 1) >> 1


def _half_steps(
    source: Randomness, count: int, *, gaussian: bool
) -> tuple[NDArray[np.int64], dict[int, _LazyBits]]:
    """``count`` independent draws of Y in half steps, rounded down, and where in its half step Y is.

    What is kept of a cell is kept for every place of the half step alike, so Y is uniform there: its further
    bits are fresh ones. The exceptions, where more bits had to be looked at, are in the dictionary.
    """
    cells, guide = noise_table(gaussian)
    out = np.empty(count, dtype=np.int64)
    status = np.empty(count, dtype=np.uint8)
    words = source.words(2 * count)
    failed = backends.noise.attempt_noise(words, cells, guide, gaussian, out, status)
    places, drawn = np.arange(count) if failed else None, out  # where in `out` the attempts belong
    further: dict[int, _LazyBits] = {}
    while failed and places is not None:
        for index in np.flatnonzero(status == backends.noise.UNDECIDED):
            found = _settle(int(words[2 * index]), int(words[2 * index + 1]), source, gaussian)
            drawn[index], further[int(places[index])] = found
        out[places] = drawn
        again = np.flatnonzero(status == backends.noise.REJECTED)
        # The cell was right; only the place in it is drawn again. Drawing the cell again as well would favour
        # cells in which places are rarely rejected.
        retry = np.empty(2 * again.size, dtype=np.uint64)
        retry[0::2], retry[1::2] = words[2 * again], source.words(again.size)
        words, places = retry, places[again]
        drawn, status = np.empty(again.size, dtype=np.int64), np.empty(again.size, dtype=np.uint8)
        failed = backends.noise.attempt_noise(words, cells, guide, gaussian, drawn, status)
        out[places] = drawn
    return out, further


def _settle(first: int, second: int, source: Randomness, gaussian: bool) -> tuple[int, _LazyBits]:
    """The draw of the compiled loop for these words, decided with as many bits and digits as it takes.

    Y in half steps, rounded down, and where in its half step Y is. It is also the slow twin that the tests
    hold against the compiled loop.
    """
    mpmath = own_digits()

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
                    floor = (((cell << CELL_BITS) + low) << 1) + half
                    within = place.after(CELL_BITS + 1)
                    return (~floor, within.mirrored()) if negative else (floor, within)
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

    def first(self, count: int) -> int:
        """The first ``count`` bits, as a whole number."""
        while self._known < count:
            self.extend()
        return self._bits >> (self._known - count)

    def after(self, count: int) -> _LazyBits:
        """The number that the bits after the first ``count`` make."""
        known = self._known - count
        return _LazyBits(self._bits & ((1 << known) - 1), known, self._more)

    def mirrored(self) -> _LazyBits:
        """One minus the number, to the bits that are known; those to come are as good as their opposites."""
        return _LazyBits(self._bits ^ ((1 << self._known) - 1), self._known, self._more)

    def interval(self) -> tuple[Any, Any]:
        mpmath = own_digits()

        unit = mpmath.mpf(2) ** -self._known
        return self._bits * unit, (self._bits + 1) * unit

    def surely_below(self, threshold: Any) -> bool:
        mpmath = own_digits()

        return bool(self.interval()[1] <= threshold * (1 - mpmath.mpf(2) ** -200))

    def surely_above(self, threshold: Any) -> bool:
        mpmath = own_digits()

        return bool(self.interval()[0] >= threshold * (1 + mpmath.mpf(2) ** -200))

    def below(self, threshold: Callable[[], Any]) -> bool:
        """Whether the number is below ``threshold()``, which is evaluated in ever higher precision."""
        mpmath = own_digits()

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


def spherical_steps(source: Randomness, dimension: int) -> NDArray[np.int64]:
    """The rounded coordinates of a vector Z with density falling as ``exp(-|z|/scale)``, scale 2^32 steps.

    Z = R G/|G|: the length R is Gamma distributed, a sum of ``dimension`` exponential variables, and G is a
    vector of Gaussian ones. All of them are ideal reals of which some bits are known. A grid point plus
    ``round(Z)`` is the rounded sum of the point and Z: the ideal mechanism, post-processed.

    Error bound of the first try, in floats. Let u = 2^-53, d the dimension, and measure in half steps. A
    variable is its whole part plus 64 bits: off by at most u of itself and u + 2^-64. `math.fsum` rounds
    once. Where N = |G| and R are not tiny (N >= 2^20 sqrt(d), R >= 2^20 d), N is off by at most 4u of
    itself and R by 3u, so a coordinate z = R G_i / (2 N) is off by at most 12u|z| + u R/N. We allow for
    16u|z| + 2u R/N. What then rounds the same way at both ends is decided; the rest is settled in integers.
    """
    gaussians, exponentials = (_Reals(source, dimension, gaussian=gaussian) for gaussian in (True, False))
    values, parts = gaussians.floats(), exponentials.floats()
    norm, length = math.sqrt(math.fsum((values * values).tolist())), math.fsum(parts.tolist())
    if norm < 2.0**20 * math.sqrt(dimension) or length < 2.0**20 * dimension:
        return _settled_sphere(gaussians, exponentials, np.arange(dimension))
    ideal = values * (0.5 * length / norm)
    out = np.rint(ideal).astype(np.int64)
    error = (16.0 * np.abs(ideal) + 2.0 * length / norm) * 2.0**-53
    unsure = np.flatnonzero(np.abs(ideal - out) + error >= 0.5)
    if unsure.size:
        out[unsure] = _settled_sphere(gaussians, exponentials, unsure)
    return out


class _Reals:
    """Independent Gaussian variables, or exponential ones, to as many bits as are asked for."""

    def __init__(self, source: Randomness, count: int, *, gaussian: bool) -> None:
        drawn, self._further = _half_steps(source, count, gaussian=gaussian)
        if not gaussian:  # the size of a Laplace variable; the mirror image of a uniform place is one too
            self._further = {
                place: bits.mirrored() if drawn[place] < 0 else bits for place, bits in self._further.items()
            }
            drawn = np.where(drawn < 0, ~drawn, drawn)
        self._floors, self._words = drawn, np.array(source.words(count))
        self._more = lambda: int(source.words(1)[0])
        for place, bits in self._further.items():
            self._words[place] = bits.first(64)

    def floats(self) -> NDArray[np.float64]:
        """The numbers in half steps, off by at most 2^-53 of each and 2^-53 + 2^-64."""
        return self._floors + self._words * 2.0**-64

    def starts(self, bits: int) -> list[int]:
        """The numbers in units of 2^-bits half steps, rounded down; ``bits`` is at least 64."""
        words = self._words.tolist()
        if bits > 64:
            for place, word in enumerate(words):
                self._further.setdefault(place, _LazyBits(word, 64, self._more))
            words = [self._further[place].first(bits) for place in range(len(words))]
        return [(floor << bits) + word for floor, word in zip(self._floors.tolist(), words, strict=True)]


def _settled_sphere(gaussians: _Reals, exponentials: _Reals, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """The rounded coordinates at ``places``, decided in integers with as many bits as it takes.

    It is also the slow twin that the tests hold against the floats.
    """
    bits = 64
    while True:
        starts, parts = gaussians.starts(bits), exponentials.starts(bits)
        shortest, longest = sum(parts), sum(parts) + len(parts)
        near = math.isqrt(sum(min(abs(x), abs(x + 1)) ** 2 for x in starts))
        far = math.isqrt(sum(max(abs(x), abs(x + 1)) ** 2 for x in starts)) + 1
        found = []
        for place in places.tolist():
            low, high = starts[place], starts[place] + 1
            if low >= 0:
                ends = ((shortest * low, far), (longest * high, near))
            else:
                ends = ((longest * low, near), (shortest * high, far))
            if near == 0 or (rounded := _rounded_half(*ends[0], bits)) != _rounded_half(*ends[1], bits):
                break
            found.append(rounded)
        else:
            return np.array(found, dtype=np.int64)
        bits += 64


def _rounded_half(top: int, under: int, bits: int) -> int:
    """Half of ``top / under`` in units of 2^-bits, rounded to the nearest whole number."""
    return (top + (under << bits)) // (under << (bits + 1))


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
    mpmath = own_digits()

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
