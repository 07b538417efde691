"""The samplers behind the gate: exact on a public grid, given uniform random words.

Noise. A value is first truncated to a public grid, exactly and towards zero (so that no norm grows), and then
moved by ``round(Y)`` grid steps, where Y is an ideal real-valued Laplace or Gaussian variable of scale 2^32
steps. An integer plus ``round(Y)`` is ``round(integer + Y)``: the release is the ideal continuous mechanism's
output, rounded. So every theorem about the continuous mechanism holds for it by post-processing, and there is
no floating-point noise to attack (Mironov 2012). Noise is widened by the factor by which truncation increases
the sensitivity. Spherical Laplace noise is rounded the same way, coordinate by coordinate
(`spherical_steps`).

``round(Y)`` is drawn exactly. |Y| is split into cells 2^22 steps wide. A first word picks the cell from a
table of the distribution function; a second one gives a uniform position in the cell, a sign, and a test that
accepts the position with probability ``density(position) / density(start of the cell)`` (at least .99); a
rejected position is drawn again in the same cell. Both comparisons are made on truncated numbers; whenever
the truncated bits cannot decide, about once in 2^30 draws, more bits and digits are taken until they can
(`settle`).

Choice. Weights of the exponential mechanism are computed in floating point with a proven error bound; one
uniform word picks a candidate. If the word is closer to a border than the bound, cumulative sums are computed
again in integers, which are exact, and one weight is computed to many digits (`exact_draw`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..kernels import noise as kernels  # type: ignore[attr-defined]
from ..kernels.softmax import decided_choice
from .conversions import exact, own_digits
from .randomness import Randomness

STEPS_BITS = 32  # noise on the finest grid has a scale of 2^STEPS_BITS steps


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
        """The grid on which noise of 2^bits steps has the loss ``sensitivity / scale``, truncation included.

        ``truncation`` is the number of steps truncation can add to the sensitivity: 0 for values bounded by a
        norm (truncation keeps it), the number of coordinates that can change in L1, its square root in L2.
        """
        wanted, moves = exact(scale), exact(sensitivity)
        steps = Fraction(2) ** bits
        spare = steps - (exact(truncation) * wanted / moves if moves else 0)
        if spare < steps / 2:
            raise ValueError(
                f"scale={float(wanted):g} is so large compared with sensitivity={float(moves):g} that"
                " rounding would dominate; release fewer coordinates at once or spend a larger share"
            )
        return cls.at_least(wanted / spare, bits)

    def truncate(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The values in integer steps, truncated towards zero, exactly; saturated at 2^62 steps."""
        out = np.empty(values.shape, dtype=np.int64)
        kernels.to_grid(np.ascontiguousarray(values), self.mantissa, self.exponent, out)
        return out

    def values(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Grid points as floats (rounding here is post-processing)."""
        return steps.astype(np.float64) * float(self.step)


# --- Laplace and Gaussian noise in steps of the grid, drawn exactly cell by cell -------------------------


CELL_BITS = 22
_TEST_BITS = 40
_AT_ONCE = 1 << 14  # draws whose words and outcomes stay in the cache


def _tail(gaussian: bool, x: Any) -> Any:
    """P(|Y| >= x) for the standard Laplace or Gaussian, to the current precision."""
    mpmath = own_digits()
    return mpmath.erfc(x / mpmath.sqrt(2)) if gaussian else mpmath.exp(-x)


@lru_cache(maxsize=2)
def noise_table(gaussian: bool) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """``floor(2^64 P(|Y| < cell end))`` for each cell, and the first cell to try for a 16-bit prefix."""
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

    Exponential tails follow by multiplication. The Gaussian is integrated cell by cell from the power series
    of exp(-a s - s^2/2) at the cell's start a: with ``d_n`` at s = width,
    ``d_{n+1} = -width (a d_n + width d_{n-1}) / (n + 1)``, all in integers because a and width are multiples
    of 2^-10.
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
    return np.asarray(noise_rows(source, 1, count, gaussian=gaussian)[0])


def noise_rows(source: Randomness, rows: int, width: int, *, gaussian: bool) -> NDArray[np.int64]:
    """``rows`` times `noise_steps` of ``width`` draws: the same numbers, from the same words, faster."""

    def one(words: Randomness) -> NDArray[np.int64]:
        return half_steps(words, width, gaussian=gaussian, whole_steps=True)[0]

    def loop(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int, int]:
        found: tuple[int, int, int] = kernels.noise_rows(words, *noise_table(gaussian), gaussian, out)
        return found

    return in_rows(source, (rows, width), 2, one, loop)


def in_rows(
    source: Randomness,
    shape: tuple[int, int],
    words_per_number: int,
    draw_row: Callable[[Randomness], NDArray[np.int64]],
    draw_rows: Callable[[NDArray[np.uint64], NDArray[np.int64]], tuple[int, int, int]],
) -> NDArray[np.int64]:
    """The rows that successive calls of ``draw_row`` would draw, computed in bulk by compiled ``draw_rows``.

    Every number takes at least ``words_per_number`` words. Words are taken from the source in the order in
    which ``draw_row`` would take them, and never more than are certainly needed, so the source ends in the
    same state. ``draw_rows`` fills rows for as long as its words last (`kernels.noise.noise_rows`) and
    returns the number of rows filled, of words used, and of words the next row needs at least, or 0 if
    ``draw_row`` has to draw that row, as it needs more digits.
    """
    rows, width = shape
    least = words_per_number * width  # words of a row
    out = np.empty(shape, dtype=np.int64)
    if not 0 < width <= _AT_ONCE:
        for row in out:
            row[:] = draw_row(source)
        return out
    at_once = max(1, _AT_ONCE // width)
    for start in range(0, rows, at_once):
        part = out[start : start + at_once]
        words, done, needed = np.empty(0, dtype=np.uint64), 0, least
        while done < part.shape[0]:
            missing = needed + least * (part.shape[0] - done - 1) - words.size
            if missing > 0:
                words = np.concatenate((words, source.words(missing)))
            filled, used, needed = draw_rows(words, part[done:])
            words, done = words[used:], done + filled
            if needed == 0:
                first = _HeldWords(words, source)
                part[done] = draw_row(first)
                words, done, needed = first.held, done + 1, least
    return out


class _HeldWords:
    """A source that gives words already taken from another source, then that source's further words."""

    secure = False

    def __init__(self, held: NDArray[np.uint64], source: Randomness) -> None:
        self.held, self._source = held, source

    def words(self, count: int) -> NDArray[np.uint64]:
        if count > self.held.size:
            self.held = np.concatenate((self.held, self._source.words(count - self.held.size)))
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def state(self) -> dict[str, Any]:
        raise TypeError("held words are not saved; the source they are from is")


def half_steps(
    source: Randomness, count: int, *, gaussian: bool, whole_steps: bool = False
) -> tuple[NDArray[np.int64], dict[int, LazyBits]]:
    """``count`` independent draws of Y in half steps, rounded down, and further bits known of some of them.

    A draw is accepted by its leading bits only if every point of its half step would be: Y is then uniform
    within it, and further bits can be drawn afresh. If the decision took more bits (`settle`), those known
    are in the dictionary, by index. With ``whole_steps`` each draw is rounded to the nearest full step.
    """
    out = np.empty(count, dtype=np.int64)
    failed: list[tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint64]]] = []
    for start in range(0, count, _AT_ONCE):
        words = source.words(2 * min(_AT_ONCE, count - start))
        where, why = _attempted(words, gaussian, whole_steps, out[start : start + _AT_ONCE])
        failed.append((start + where, why, words.reshape(-1, 2)[where]))
    known_bits: dict[int, LazyBits] = {}
    if not failed:
        return out, known_bits
    places, status, attempts = map(np.concatenate, zip(*failed, strict=True))
    while places.size:
        for index in np.flatnonzero(status == kernels.UNDECIDED):
            first, second = (int(word) for word in attempts[index])
            floor, known_bits[int(places[index])] = settle(first, second, source, gaussian)
            out[places[index]] = (floor + whole_steps) >> whole_steps
        # Only the position in the cell is drawn again. Drawing the cell again as well would favour cells with
        # few rejections.
        again = np.flatnonzero(status == kernels.REJECTED)
        places, attempts = places[again], attempts[again]
        attempts[:, 1] = source.words(again.size)
        drawn = np.empty(again.size, dtype=np.int64)
        where, status = _attempted(attempts.ravel(), gaussian, whole_steps, drawn)
        out[places] = drawn
        places, attempts = places[where], attempts[where]
    return out, known_bits


def _attempted(
    words: NDArray[np.uint64], gaussian: bool, whole_steps: bool, out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """One attempt per output; returns the indices of those that failed, and why."""
    places, status = np.empty(out.size, dtype=np.int64), np.empty(out.size, dtype=np.uint8)
    failed = kernels.attempt_noise(words, *noise_table(gaussian), gaussian, whole_steps, out, places, status)
    return places[:failed], status[:failed]


def settle(first: int, second: int, source: Randomness, gaussian: bool) -> tuple[int, LazyBits]:
    """The draw of the compiled loop for these words, decided with as many bits and digits as it takes.

    Returns Y in half steps, rounded down, and its position in the half step. Also the slow reference that the
    tests compare the compiled loop with.
    """
    mpmath = own_digits()

    def more() -> int:
        return int(source.words(1)[0])

    with mpmath.workprec(256):
        width = mpmath.mpf(2) ** (CELL_BITS - STEPS_BITS)
        word = LazyBits(first, 64, more)
        cell = max(0, int(np.searchsorted(noise_table(gaussian)[0], np.uint64(first), side="left")) - 1)
        while not word.below(lambda c=cell: 1 - _tail(gaussian, (c + 1) * width)):  # type: ignore[misc]
            cell += 1

        def keep(place: Any) -> Any:
            rise = place * width
            return mpmath.exp(-(cell * width * rise + rise * rise / 2 if gaussian else rise))

        while True:
            low, half = second & ((1 << CELL_BITS) - 1), (second >> CELL_BITS) & 1
            negative = (second >> (CELL_BITS + 1)) & 1
            test = LazyBits(second >> (64 - _TEST_BITS), _TEST_BITS, more)
            place = LazyBits(2 * low + half, CELL_BITS + 1, more)
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


class LazyBits:
    """A uniform real number in [0, 1), known to as many bits as have been asked for."""

    def __init__(self, bits: int, known: int, more: Callable[[], int]) -> None:
        self._bits, self._known, self._more = bits, known, more

    def extend(self) -> None:
        self._bits = (self._bits << 64) | self._more()
        self._known += 64

    def first(self, count: int) -> int:
        """The first ``count`` bits, as an integer."""
        while self._known < count:
            self.extend()
        return self._bits >> (self._known - count)

    def after(self, count: int) -> LazyBits:
        """The number formed by the bits after the first ``count``."""
        known = self._known - count
        return LazyBits(self._bits & ((1 << known) - 1), known, self._more)

    def mirrored(self) -> LazyBits:
        """One minus the number, in the known bits; further bits are uniform and need no inversion."""
        return LazyBits(self._bits ^ ((1 << self._known) - 1), self._known, self._more)

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


# --- spherical Laplace noise: a vector whose length is Gamma distributed ---------------------------------


def spherical_steps(source: Randomness, dimension: int) -> NDArray[np.int64]:
    """The rounded coordinates of a vector Z with density falling as ``exp(-|z|/scale)``, scale 2^32 steps.

    Z = R G/|G|: the length R is Gamma distributed, a sum of ``dimension`` exponential variables, and G is a
    vector of Gaussian ones. All of them are ideal reals with some bits known. A grid point plus ``round(Z)``
    is the rounded sum of the point and Z: the ideal mechanism, post-processed.

    Error bound of the first try, in floats. Let u = 2^-53, d the dimension, and measure in half steps. A
    variable is its integer part plus 64 bits: off by at most u of itself and u + 2^-64. `math.fsum` rounds
    once. If N = |G| and R are not tiny (N >= 2^20 sqrt(d), R >= 2^20 d), N is off by at most 4u of itself and
    R by 3u, so a coordinate z = R G_i / (2 N) is off by at most 12u|z| + u R/N. The code allows for 16u|z| +
    2u R/N. A coordinate that rounds the same way at both ends is decided; the rest is settled in integers.
    """
    gaussians, exponentials = (Reals(source, dimension, gaussian=gaussian) for gaussian in (True, False))
    values, parts = gaussians.floats(), exponentials.floats()
    norm, length = math.sqrt(math.fsum((values * values).tolist())), math.fsum(parts.tolist())
    if norm < 2.0**20 * math.sqrt(dimension) or length < 2.0**20 * dimension:
        return settled_sphere(gaussians, exponentials, np.arange(dimension))
    ideal = values * (0.5 * length / norm)
    out = np.rint(ideal).astype(np.int64)
    error = (16.0 * np.abs(ideal) + 2.0 * length / norm) * 2.0**-53
    unsure = np.flatnonzero(np.abs(ideal - out) + error >= 0.5)
    if unsure.size:
        out[unsure] = settled_sphere(gaussians, exponentials, unsure)
    return out


def spherical_rows(source: Randomness, rows: int, dimension: int) -> NDArray[np.int64]:
    """``rows`` times `spherical_steps`: the same vectors, from the same words, faster."""

    def one(words: Randomness) -> NDArray[np.int64]:
        return spherical_steps(words, dimension)

    def loop(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int, int]:
        tables = noise_table(True), noise_table(False)
        found: tuple[int, int, int] = kernels.sphere_rows(words, *tables, out)
        return found

    return in_rows(source, (rows, dimension), 6, one, loop)


class Reals:
    """Independent Gaussian or exponential variables, to any number of bits."""

    def __init__(self, source: Randomness, count: int, *, gaussian: bool) -> None:
        drawn, self._further = half_steps(source, count, gaussian=gaussian)
        if not gaussian:  # |Laplace|; the mirror image of a uniform position is uniform too
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
                self._further.setdefault(place, LazyBits(word, 64, self._more))
            words = [self._further[place].first(bits) for place in range(len(words))]
        return [(floor << bits) + word for floor, word in zip(self._floors.tolist(), words, strict=True)]


def settled_sphere(gaussians: Reals, exponentials: Reals, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """The rounded coordinates at ``places``, decided in integers with as many bits as it takes.

    Also the slow reference that the tests compare the floats with.
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
    """Half of ``top / under`` in units of 2^-bits, rounded to the nearest integer."""
    return (top + (under << bits)) // (under << (bits + 1))


# --- the exponential mechanism ---------------------------------------------------------------------------


class Words(Protocol):
    """A source of secret words."""

    def words(self, count: int) -> NDArray[np.uint64]: ...


Scores = NDArray[np.float64] | NDArray[np.int64]

_BITS = 46  # of each of the two numbers that hold a cell's width
_BLOCK = 1 << 16  # this many of them add up within 63 bits
_LIGHTEST = -100.0  # exp of it is far below one unit, 2^-92
_UNIT = 2.0**-53


def exponential_choice(source: Randomness, scores: NDArray[np.float64], rate: float) -> int:
    """An index drawn with probability proportional to ``exp(rate * score)``, exactly.

    Error bound. Let u = 2^-53 and a = rate (score - largest score) <= 0. The computed argument differs
    from a by at most 3u|a| (difference, product, and the rate read as a decimal), so its exponential,
    itself good to 4 units in the last place, is off by at most (3|a| + 8) u e^a <= 10u in absolute terms
    because |a| e^a <= 1/e. Partial sums of n terms add at most (n - 1) u W, W >= 1 being the total. A
    border is therefore off by at most 11 n u W; the target ``U W`` by 11 n u W for W and 3 u W for the
    product and the truncated word. The cells of `exact_draw`, which decides where this cannot, end within
    (8 ln n + 65) u W of the same borders. ``(32 n + 128) u W`` covers the sum of all.
    """
    word = int(source.words(1)[0])
    index: int = decided_choice(scores, rate, word)
    return index if index >= 0 else exact_draw(scores, exact(rate), endless([word], source))


def exponents(scores: Scores, rate: float) -> NDArray[np.float64]:
    """``rate * (score - largest score)``, off by three roundings, also where the difference overflows."""
    top = scores.max()
    if scores.dtype == np.int64:
        return -rate * np.asarray(top - scores, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        if math.isfinite(float(top) - float(scores.min())):
            return np.asarray(rate * (scores - top), dtype=np.float64)
        return np.asarray(2.0 * (rate * (0.5 * scores - 0.5 * top)), dtype=np.float64)


def exact_draw(scores: Scores, unit: Fraction, words: Iterator[int]) -> int:
    """An index drawn with probability proportional to ``exp(unit * score)``, exactly.

    Why it is exact. Let w = exp(unit * (score - largest score)) be the weight of an index. On a line from 0
    to T each index has a cell whose width c >= w is a multiple of 2^-92. A uniform point of the line is
    drawn; it falls into the cell of an index, and is accepted if it is closer than w to the cell's left end;
    else another point is drawn. An accepted point is uniform on pieces of widths w, so its index has
    probability w / (sum of all w), whatever the widths c are.

    Two decisions have to be made, both with intervals. The point is U T. Bits of U become known 64 at a time,
    so that it lies in [bits, bits + 1) T / 2^known. It is in a cell if that interval is; borders and T are
    integers, and nothing is rounded. Whether it is closer than w to the left end is decided by an interval
    for that one w, computed to as many digits as bits are known. While an interval contains a border, 64 more
    bits are taken; U is on a border with probability 0.

    Why c >= w. The computed argument a is off by at most 3u|a|, and by 2^-50 where the rate is so small that
    its decimal is far from its float; the exponential by 8u of itself. Widths are (1 + (4|a| + 32) u) times
    as large, rounded up to the next unit. An argument of 0 has w <= 1 and c = 1: equal scores leave no gaps.
    The gaps c - w of n indices sum to less than (8 ln n + 65) u of the total weight W: the factor contributes
    at most twice (4|a| + 32) u w each, and the sum of |a| w / W is at most ln n, since with p = w / W and W
    >= 1, |a| <= -ln p, and entropy is at most ln n; rounding up contributes n 2^-92.

    Time. Only the widths take time for each index, in floating point. Sums are integers: of 65,536 indices
    in 64 bits, then of blocks; and only one weight for each point is computed to many digits.

    >>> from itertools import repeat
    >>> exact_draw(np.zeros(4), Fraction(1), repeat(1 << 62))
    1
    """
    cells = _Cells(scores, unit)
    while True:
        bits = known = 0
        counts: bool | None = None
        while counts is None:
            bits, known = (bits << 64) | next(words), known + 64
            index, counts = cells.find(bits, known)
        if counts:
            return index


def endless(words: list[int], source: Words) -> Iterator[int]:
    """These words, then an unlimited number from the source."""
    yield from words
    while True:
        yield int(source.words(1)[0])


class _Cells:
    """The cells of `exact_draw`, in integer units."""

    def __init__(self, scores: Scores, unit: Fraction) -> None:
        self._scores, self._unit = scores, unit
        self._top = Fraction(scores.max().item())
        self._high, self._low = cell_widths(scores, float(unit))
        starts = np.arange(0, scores.size, _BLOCK)
        sums = (np.add.reduceat(part, starts).tolist() for part in (self._high, self._low))
        self._ends = list(accumulate((high << _BITS) + low for high, low in zip(*sums, strict=True)))
        self._total: int = self._ends[-1]

    def find(self, bits: int, known: int) -> tuple[int, bool | None]:
        """The cell of the point, and whether the point is accepted; None if more bits are needed."""
        point = bits * self._total  # everything is 2^known times as large from here on
        whole = point >> known
        block = bisect_right(self._ends, whole)
        part = slice(block * _BLOCK, (block + 1) * _BLOCK)
        widths = (
            (h << _BITS) + v for h, v in zip(self._high[part].tolist(), self._low[part].tolist(), strict=True)
        )
        borders = list(accumulate(widths, initial=self._ends[block - 1] if block else 0))
        place = bisect_right(borders, whole)
        index = part.start + place - 1
        if point + self._total > borders[place] << known:
            return index, None
        return index, self._counts(index, point - (borders[place - 1] << known), known)

    def _counts(self, index: int, start: int, known: int) -> bool | None:
        """Whether a point in [start, start + total) from the left end is within the weight."""
        exponent = self._unit * (Fraction(self._scores[index].item()) - self._top)
        if exponent == 0:
            return True
        mpmath = own_digits()
        with mpmath.workprec(known + 2 * _BITS + 64):
            weight = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
            edge = int(mpmath.ldexp(weight, known + 2 * _BITS))  # off by less than 2
        if start + self._total <= edge - 2:
            return True
        return False if start >= edge + 2 else None


def cell_widths(scores: Scores, rate: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Widths of the cells of `exact_draw`: units of 2^-46 of the largest weight, and of 2^-92."""
    drops = np.maximum(exponents(scores, rate), _LIGHTEST)
    widths = np.exp(drops)
    widths *= np.where(drops < 0.0, 1.0 + (32.0 - 4.0 * drops) * _UNIT, 1.0)
    widths *= 2.0**_BITS
    high = np.floor(widths)
    widths -= high  # without rounding, and so is the product
    return high.astype(np.int64), np.ceil(widths * 2.0**_BITS).astype(np.int64)


def choice_log_probabilities(scores: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Logarithms of the probabilities with which `exponential_choice` answers; for audits.

    >>> np.exp(choice_log_probabilities(np.array([0.0, np.log(3.0)]), 1.0)).round(2).tolist()
    [0.25, 0.75]
    """
    exponents = rate * (scores - scores.max())
    return np.asarray(exponents - np.log(np.exp(exponents).sum()), dtype=np.float64)


# --- permute and flip: an item only gets likelier when a person who gains from it is added ---------------


_WORD = 1 << 64


def permute_and_flip(source: Randomness, scores: NDArray[np.float64], rate: float) -> int:
    """An index, drawn exactly: keep each with probability exp(rate (score - largest)), take any one kept.

    McKenna and Sheldon (2020) visit candidates in random order and flip a coin for each until one is kept;
    this is the same distribution. It is also that of the largest of scores with exponential noise of mean 1 /
    rate (Ding et al. 2021), which has two consequences. First, if scores rise, each j's by g_j >= 0, then v
    becomes at most exp(rate g_v) times as likely: shifting the density of the noise by g_v increases it by at
    most that factor, and higher rivals do not help v. Picks on a secret sample need no more than this
    (`picks.subsampled`). Second, the mean score of the choice is never smaller than that of the exponential
    mechanism at the same rate; often the loss is only half.

    Error bound of the quick decision: exponent, exponential and word are together off by less than 2^-46 (as
    in `exponential_choice`); a word closer than that to its threshold is settled with more bits.
    """
    top = float(scores.max())
    chances = np.exp(exponents(scores, rate))
    words = source.words(scores.size)
    distance = chances - words * 2.0**-64
    kept = distance > 0.0
    for place in np.flatnonzero(np.abs(distance) < 2.0**-46):
        exponent = exact(rate) * (Fraction(float(scores[place])) - Fraction(top))
        kept[place] = _below(source, int(words[place]), exponent)
    among = np.flatnonzero(kept)
    return int(among[_uniform(source, among.size)])


def _below(source: Randomness, word: int, exponent: Fraction) -> bool:
    """Whether a uniform number that starts with ``word`` is below exp(exponent), exponent <= 0."""
    mpmath = own_digits()
    if exponent == 0:
        return True
    bits, known = word, 64
    while True:
        with mpmath.workprec(known + 64):
            threshold = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
            slack = mpmath.mpf(2) ** -(known + 32)
            unit = mpmath.mpf(2) ** -known
            if (bits + 1) * unit <= threshold - slack:
                return True
            if bits * unit >= threshold + slack:
                return False
        bits, known = (bits << 64) | int(source.words(1)[0]), known + 64


def _uniform(source: Randomness, count: int) -> int:
    """A uniform integer below ``count``."""
    if count == 1:
        return 0
    fair = _WORD - _WORD % count
    while (word := int(source.words(1)[0])) >= fair:
        pass
    return word % count


def flip_probabilities(scores: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """The probabilities with which `permute_and_flip` answers; for audits.

    Candidate v is kept, and then taken with probability one over the number kept: the integral over t of
    chance_v x product over the others of (1 - chance_j t), a polynomial that Gauss' rule integrates exactly.

    >>> flip_probabilities(np.array([0.0, np.log(4.0)]), 1.0).round(3).tolist()
    [0.125, 0.875]
    """
    chances = np.exp(rate * (scores - scores.max()))
    nodes, weights = _gauss(scores.size // 2 + 1)
    t, w = (nodes + 1.0) / 2.0, weights / 2.0
    left = 1.0 - chances[None, :] * t[:, None]
    others = [np.delete(left, v, axis=1).prod(axis=1) for v in range(scores.size)]
    return np.asarray(chances * (np.array(others) @ w), dtype=np.float64)


_gauss = cache(np.polynomial.legendre.leggauss)


# --- the largest of noisy scores, with its score ---------------------------------------------------------


HALF_STEPS = 1 << (STEPS_BITS + 1)  # half steps to the scale of noise


def noisy_maximum(source: Randomness, scores: NDArray[np.int64]) -> tuple[int, int]:
    """The index (the first of equals) and the value of the largest score + Z, Z >= 0 drawn for each, exactly.

    Z is an ideal exponential variable of mean `HALF_STEPS`, rounded down: P(Z = z) is proportional to
    exp(-z / HALF_STEPS). It is the size of a Laplace variable in half steps (`half_steps`).

    If scores rise, each j's by an integer g_j >= 0, then an answer (v, value) becomes at most exp(g_v /
    HALF_STEPS) times as likely: its probability is P(Z = value - score_v), which grows by that factor or
    becomes 0, times the probabilities that no other one is larger, none of which rises (ties are broken by
    index, which is public). So the value costs nothing on top of the index (Ding et al. 2021, for a gap) as
    far as rising scores are concerned; falling ones need other protection (`picks.subsampled`).
    """
    drawn, _ = half_steps(source, scores.size, gaussian=False)
    noisy = scores + np.where(drawn < 0, ~drawn, drawn)
    index = int(noisy.argmax())
    return index, int(noisy[index])


def maximum_probabilities(
    scores: NDArray[np.float64], rate: float, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The probabilities that index i wins with a value between two ``edges``, for audits: items x cells.

    Noise is exponential with mean 1 / rate, without a grid; the last cell has no end. With u = exp(-rate
    (value - largest score)) the density is a polynomial in u, so Gauss' rule is exact.

    >>> maximum_probabilities(np.array([0.0, np.log(4.0)]), 1.0, np.array([0.0])).round(3).ravel().tolist()
    [0.125, 0.875]
    """
    top = scores.max()
    chances = np.exp(rate * (scores - top))
    starts = np.exp(-rate * (np.maximum(edges, top) - top))
    nodes, weights = _gauss(scores.size // 2 + 1)
    found = np.empty((scores.size, edges.size))
    for cell, (high, low) in enumerate(zip(starts, [*starts[1:], 0.0], strict=True)):
        u = low + (high - low) * (nodes + 1.0) / 2.0
        left = 1.0 - chances[None, :] * u[:, None]
        others = np.array([np.delete(left, v, axis=1).prod(axis=1) for v in range(scores.size)])
        found[:, cell] = chances * (others @ weights) * (high - low) / 2.0
    return found
