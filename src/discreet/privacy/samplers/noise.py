"""Laplace and Gaussian noise in steps of the grid, drawn exactly cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.digits import own_digits
from ...kernels import noise as kernels
from ..randomness import Randomness
from .grid import STEPS_BITS

CELL_BITS = 22
_TEST_BITS = 40
_AT_ONCE = 1 << 14  # draws whose words and outcomes stay in the cache


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
    return noise_rows(source, 1, count, gaussian=gaussian)[0]


def noise_rows(source: Randomness, rows: int, width: int, *, gaussian: bool) -> NDArray[np.int64]:
    """``rows`` times `noise_steps` of ``width`` draws: the same numbers, from the same words, sooner."""

    def one(words: Randomness) -> NDArray[np.int64]:
        return _drawn(words, width, gaussian, 1)[0]

    def loop(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int, int]:
        found: tuple[int, int, int] = kernels.noise_rows(words, *noise_table(gaussian), gaussian, out)
        return found

    return in_rows(source, (rows, width), 2, one, loop)


def in_rows(
    source: Randomness,
    shape: tuple[int, int],
    words: int,
    one: Callable[[Randomness], NDArray[np.int64]],
    loop: Callable[[NDArray[np.uint64], NDArray[np.int64]], tuple[int, int, int]],
) -> NDArray[np.int64]:
    """Rows that ``one`` would draw one after the other, each of at least so many ``words`` a number.

    Words are taken from the source in the order in which these draws would take them, and never more than
    they need for certain: what is left of the source afterwards is the same, too. ``loop`` draws many rows
    from words in a row (`kernels.noise.noise_rows`).
    """
    (rows, width), least = shape, words * shape[1]
    out = np.empty(shape, dtype=np.int64)
    if not 0 < width <= _AT_ONCE:
        for row in out:
            row[:] = one(source)
        return out
    at_once = max(1, _AT_ONCE // width)
    for start in range(0, rows, at_once):
        part = out[start : start + at_once]
        held, done, needed = np.empty(0, dtype=np.uint64), 0, least
        while done < part.shape[0]:
            more = needed + least * (part.shape[0] - done - 1) - held.size
            if more > 0:
                held = np.concatenate((held, source.words(more)))
            found, used, needed = loop(held, part[done:])
            held, done = held[used:], done + found
            if needed == 0:  # a row that needs more digits
                first = _HeldWords(held, source)
                part[done] = one(first)
                held, done, needed = first.held, done + 1, least
    return out


class _HeldWords:
    """Words that were taken from a source already, and then those that it has left."""

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
    source: Randomness, count: int, *, gaussian: bool
) -> tuple[NDArray[np.int64], dict[int, LazyBits]]:
    """``count`` independent draws of Y in half steps, rounded down, and where in its half step Y is.

    What is kept of a cell is kept for every place of the half step alike, so Y is uniform there: its further
    bits are fresh ones. The exceptions, where more bits had to be looked at, are in the dictionary.
    """
    return _drawn(source, count, gaussian, 0)


def _drawn(
    source: Randomness, count: int, gaussian: bool, coarser: int
) -> tuple[NDArray[np.int64], dict[int, LazyBits]]:
    """`half_steps`; with ``coarser=1``, not 0, each draw is rounded to whole steps."""
    out = np.empty(count, dtype=np.int64)
    failed: list[tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint64]]] = []
    for start in range(0, count, _AT_ONCE):
        words = source.words(2 * min(_AT_ONCE, count - start))
        where, why = _attempted(words, gaussian, coarser, out[start : start + _AT_ONCE])
        failed.append((start + where, why, words.reshape(-1, 2)[where]))
    further: dict[int, LazyBits] = {}
    if not failed:
        return out, further
    places, status, attempts = (np.concatenate(parts) for parts in zip(*failed, strict=True))
    while places.size:
        for index in np.flatnonzero(status == kernels.UNDECIDED):
            first, second = (int(word) for word in attempts[index])
            floor, further[int(places[index])] = settle(first, second, source, gaussian)
            out[places[index]] = (floor + coarser) >> coarser
        # The cell was right; only the place in it is drawn again. Drawing the cell again as well would favour
        # cells in which places are rarely rejected.
        again = np.flatnonzero(status == kernels.REJECTED)
        places, attempts = places[again], attempts[again]
        attempts[:, 1] = source.words(again.size)
        drawn = np.empty(again.size, dtype=np.int64)
        where, status = _attempted(attempts.ravel(), gaussian, coarser, drawn)
        out[places] = drawn
        places, attempts = places[where], attempts[where]
    return out, further


def _attempted(
    words: NDArray[np.uint64], gaussian: bool, coarser: int, out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """One attempt per output; the places of those that failed, and why."""
    places, status = np.empty(out.size, dtype=np.int64), np.empty(out.size, dtype=np.uint8)
    failed = kernels.attempt_noise(words, *noise_table(gaussian), gaussian, coarser, out, places, status)
    return places[:failed], status[:failed]


def settle(first: int, second: int, source: Randomness, gaussian: bool) -> tuple[int, LazyBits]:
    """The draw of the compiled loop for these words, decided with as many bits and digits as it takes.

    Y in half steps, rounded down, and where in its half step Y is. It is also the slow twin that the tests
    hold against the compiled loop.
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
        """The first ``count`` bits, as a whole number."""
        while self._known < count:
            self.extend()
        return self._bits >> (self._known - count)

    def after(self, count: int) -> LazyBits:
        """The number that the bits after the first ``count`` make."""
        known = self._known - count
        return LazyBits(self._bits & ((1 << known) - 1), known, self._more)

    def mirrored(self) -> LazyBits:
        """One minus the number, to the bits that are known; those to come are as good as their opposites."""
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
