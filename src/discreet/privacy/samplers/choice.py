"""The exponential mechanism, drawn exactly."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.digits import own_digits
from ..conversions import exact
from ..randomness import Randomness


class Words(Protocol):
    """Whatever gives secret words."""

    def words(self, count: int) -> NDArray[np.uint64]: ...


Scores = NDArray[np.float64] | NDArray[np.int64]

_BITS = 46  # of each of the two numbers that a cell's width is kept in
_BLOCK = 1 << 16  # so many of them add up within 63 bits
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
    weights = np.exp(exponents(scores, rate))
    borders = np.cumsum(weights)
    total = borders[-1]
    target = word * 2.0**-64 * total
    margin = (32 * scores.size + 128) * _UNIT * total
    index = int(np.searchsorted(borders, target, side="right"))
    below = borders[index - 1] if index else -math.inf
    if index < scores.size and target - below > margin and borders[index] - target > margin:
        return index
    return exact_draw(scores, exact(rate), endless([word], source))


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
    to T each index has a cell whose width c is a whole number of units of 2^-92, and c >= w. A uniform point
    of the line is drawn; it falls into the cell of an index, and counts if it is closer than w to the cell's
    left end; otherwise another point is drawn. A point that counts is uniform on pieces of widths w, so its
    index has probability w / (sum of all w), whatever the widths c are.

    Two things have to be decided, both with intervals. The point is U T. Bits of U become known 64 at a time,
    so that it lies in [bits, bits + 1) T / 2^known. It is in a cell if that interval is; borders and T are
    integers, and nothing is rounded. Whether it is closer than w to the left end is decided by an interval
    for that one w, computed to as many digits as bits are known. While an interval holds a border, 64 more
    bits are taken; U is on a border with probability 0.

    Why c >= w. The computed argument a is off by at most 3u|a|, and by 2^-50 where the rate is so small that
    its decimal is far from its float; the exponential by 8u of itself. Widths are (1 + (4|a| + 32) u) times
    as large, rounded up to the next unit. An argument of 0 has w <= 1 and c = 1: equal scores leave no gaps.
    The gaps c - w of n indices are together less than (8 ln n + 65) u of the total weight W: those by the
    factor at most twice (4|a| + 32) u w each, and sum of |a| w / W <= ln n, since with p = w / W and W >= 1
    |a| <= -ln p, and entropy is at most ln n; those by rounding up n 2^-92.

    Time. Only the widths take time for each index, in floating point. Sums are integers: of 65,536 indices
    in 64 bits, then of blocks; and only one weight is ever computed to many digits.

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
    """These words, then as many from the source as are asked for."""
    yield from words
    while True:
        yield int(source.words(1)[0])


class _Cells:
    """The cells of `exact_draw`, side by side, in whole units."""

    def __init__(self, scores: Scores, unit: Fraction) -> None:
        self._scores, self._unit = scores, unit
        self._top = Fraction(scores.max().item())
        self._high, self._low = cell_widths(scores, float(unit))
        starts = np.arange(0, scores.size, _BLOCK)
        sums = (np.add.reduceat(part, starts).tolist() for part in (self._high, self._low))
        self._ends = list(accumulate((high << _BITS) + low for high, low in zip(*sums, strict=True)))
        self._total: int = self._ends[-1]

    def find(self, bits: int, known: int) -> tuple[int, bool | None]:
        """The cell of the point, and whether the point counts; None where more bits are needed."""
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
