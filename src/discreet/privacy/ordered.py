"""Ordered exponential choices, compiled: expert i draws an item that experts 1..i-1 have not taken.

Weights are kept in sum trees that follow the experts' scores, so that a draw costs the logarithm of the
number of items. A draw that floating point cannot decide is settled with as many digits and bits as it takes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import backends
from .conversions import exact
from .digits import own_digits
from .randomness import Randomness

if TYPE_CHECKING:
    from .release import Release

_TILE = 64  # items weighed together


class OrderedExperts:
    """Experts' scores in whole units (items x experts), and the sum trees of their weights.

    Item a has the weight ``exp(rate * score / scale)``. ``most`` is the largest score that one round adds.
    """

    def __init__(self, scores: NDArray[np.int64], rate: float, scale: Fraction, most: int) -> None:
        self.kernels: Any = backends.hedge
        self.scores, self.unit = scores, exact(rate) / scale
        n_items, k = scores.shape
        sizes = [n_items]
        while sizes[-1] > 8:
            sizes.append(-(-sizes[-1] // 8))
        lengths = [-(-size // 8) * 8 * k for size in sizes]
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64)
        tree = np.zeros(int(starts[-1]))
        refs = scores.max(axis=0)
        touched = np.zeros(n_items, dtype=np.uint32)
        self.book = np.array([0, 0, 1], dtype=np.int64)
        tile, scratch = np.zeros(_TILE, dtype=np.uint32), np.zeros((2, _TILE * k))
        flat, experts, unit = scores.reshape(-1), np.uint64(k), float(Fraction(rate) / scale)
        self.gain_arguments = (flat, touched, self.book, experts)
        self.tree_arguments = (flat, refs, tree, starts, touched, self.book, experts, unit, tile, scratch)
        self.lesson_arguments = (float(scale), most, np.zeros(k))
        self.stream_arguments = (*self.tree_arguments, *self.lesson_arguments)

    @property
    def words_per_set(self) -> int:
        """How many secret words the draws of one set take."""
        return int(self.scores.shape[1] * self.kernels.WORDS)

    def weigh_again(self) -> None:
        """The scores were changed from outside: every weight is computed anew."""
        self.book[self.kernels.ALL] = 1

    def start(self) -> NDArray[np.int64]:
        """A place at which nothing has been done and nothing decided."""
        return np.array([0, 0, -1, 0], dtype=np.int64)

    def drawn(self, release: Release) -> NDArray[np.int32]:
        """One set; for `Release.ordered_set`."""
        words, place = release.words(self.words_per_set), self.start()
        shown = np.zeros(self.scores.shape[1], dtype=np.int32)
        while self.kernels.draw_set(*self.tree_arguments, words, shown, place):
            self.settle(release, words, shown, place)
        return shown

    def settle(
        self,
        release: Release,
        words: NDArray[np.uint64],
        shown: NDArray[np.int32],
        place: NDArray[np.int64],
    ) -> None:
        """Settle the draw at which the compiled loop stopped, with as many digits and bits as it takes."""
        kernels = self.kernels
        expert, at = int(place[kernels.EXPERT]), int(place[kernels.DRAW]) * kernels.WORDS
        first, second = words[at : at + 2].tolist(), words[at + 2 : at + 4].tolist()
        scores = self.scores[:, expert]
        item = release.index(scores, self.unit, first)
        taken = shown[:expert]
        if item in taken:
            others = np.setdiff1d(np.arange(len(scores)), taken)
            item = int(others[release.index(scores[others], self.unit, second)])
        place[kernels.DECIDED] = item


def exact_draw(scores: NDArray[np.int64], unit: Fraction, words: list[int], source: Randomness) -> int:
    """An index drawn with probability proportional to ``exp(unit * score)``, by inverting the distribution.

    The uniform number is known to 64 bits from ``words[0]`` and gets 64 more from each further word, then
    from ``source``, until it and the weights, computed to ever more digits, leave no doubt.
    """
    bits, known = 0, 0
    for word in _endless(words, source):
        bits, known = (bits << 64) | word, known + 64
        precision = known + 64 + scores.size.bit_length()
        weights = _fixed_point_weights(int(scores.max()) - scores, unit, precision)
        borders = list(accumulate(weights))
        # The total and a border are each off by less than 32 per item: see `_fixed_point_weights`.
        slack = 64 * scores.size
        low = ((bits * borders[-1]) >> known) - slack
        high = (((bits + 1) * borders[-1]) >> known) + 1 + slack
        index = bisect_right(borders, low)
        if index < len(borders) and (index == len(borders) - 1 or high <= borders[index]):
            return index
    raise AssertionError("unreachable")


def _endless(words: list[int], source: Randomness) -> Iterator[int]:
    yield from words
    while True:
        yield int(source.words(1)[0])


def _fixed_point_weights(drops: NDArray[np.int64], unit: Fraction, precision: int) -> list[int]:
    """``exp(-unit * drop) * 2^precision`` for each drop >= 0, off by less than 32.

    A drop is written in base 256 and its weight is the product of one tabulated number per digit. Each of
    the at most eight is below 2^precision and off by at most 2, and so is each of the products of them.
    """
    mpmath = own_digits()

    values, where = np.unique(drops, return_inverse=True)
    digits = values.view(np.uint8).reshape(values.size, 8)
    one = 1 << precision
    weights = [one] * values.size
    with mpmath.workprec(precision + 32):
        rate = mpmath.mpf(unit.numerator) / unit.denominator
        for position in range(8):
            column = digits[:, position].tolist()
            power = 256**position
            table = {d: int(mpmath.exp(-rate * (d * power)) * one) for d in set(column) if d}
            for i, digit in enumerate(column):
                if digit:
                    weights[i] = (weights[i] * table[digit]) >> precision
    return [weights[i] for i in where.tolist()]
