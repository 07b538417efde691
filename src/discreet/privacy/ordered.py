"""Ordered exponential choices: expert i draws an item that experts 1..i-1 have not taken.

Draws are compiled (`discreet.kernels.experts`). A draw that floating point cannot decide is settled here,
with as many digits and bits as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from ..kernels import experts as kernels
from .conversions import exact
from .samplers import endless

if TYPE_CHECKING:
    from .accountant import Release

# If each of this many rounds adds up to 2^32 units to a score, scores and their differences fit 63 bits.
MOST_ROUNDS = 1 << 30
_UNITS = 32
_CLOSED = -(1 << 60)


def units_per_one(bound: float) -> Fraction:
    """Score units per 1: a power of two, such that ``bound`` is 2^31 to 2^32 units."""
    mantissa, exponent = math.frexp(bound)
    return Fraction(2) ** (_UNITS - exponent + (mantissa == 0.5))


class OrderedExperts(kernels.OrderedExperts):  # type: ignore[misc]  # compiled
    """Experts' scores in integer units (items x experts), and the sum trees of their weights.

    Item a has the weight ``exp(rate * score / scale)``, so ``scale`` units are 1. ``most`` is the largest
    amount that one round adds to a score.
    """

    _state = ("scores",)
    scores: NDArray[np.int64]

    def __init__(self, scores: NDArray[np.int64], rate: float, scale: Fraction, most: int) -> None:
        self.scale = scale
        super().__init__(scores, 0.0, float(scale), most)
        self.at_rate(rate)

    def at_rate(self, rate: float) -> Self:
        """Recompute the weights of these experts at another rate."""
        self.rate, self.unit = rate, exact(rate) / self.scale
        self.reset(self.scores, float(Fraction(rate) / self.scale))
        return self

    @property
    def preference(self) -> int:
        """The number of extra units that make an item much likelier than all others if scores are equal."""
        return math.ceil(2.0 * math.log(max(2, self.scores.shape[0])) / self.unit)

    def prefer(self, items: Sequence[int]) -> None:
        """Give expert i an initial preference for the i-th of these items, which must be public."""
        for expert, item in enumerate(items[: self.scores.shape[1]]):
            self.scores[item, expert] += self.preference
        self.at_rate(self.rate)

    def close(self, items: NDArray[np.int64]) -> None:
        """Never draw these items again: scores so low have no weight."""
        self.scores[items] = _CLOSED
        self.at_rate(self.rate)

    def open(self, items: NDArray[np.int64], among: NDArray[np.int64]) -> None:
        """Make items drawable, also new ones; for each expert they start at the k-th largest score ``among``.

        If a person moves all scores by amounts in some interval, they move the score of a given rank by an
        amount in that interval too, so the range by which a person changes scores stays the same.
        """
        n_items, k = self.scores.shape
        field = self.scores[among]
        start = np.partition(field, -min(k, among.size), axis=0)[-min(k, among.size)]
        more = max(0, int(items.max()) + 1 - n_items)
        scores = np.concatenate((self.scores, np.zeros((more, k), dtype=np.int64)))
        scores[items] = start
        self.scores = scores

    def drawn(self, release: Release) -> NDArray[np.int32]:
        """One drawn set; for `Release.ordered_set`."""
        words, shown = release.words(self.words_per_set), np.zeros(self.k, dtype=np.int32)
        self.begin()
        while self.draw(words, shown):
            self.settle(release, words, shown)
        return shown

    def settle(self, release: Release, words: NDArray[np.uint64], shown: NDArray[np.int32]) -> None:
        """Decide the draw at which a compiled loop stopped, with as many digits and bits as it takes."""
        expert, draw = self.undecided
        *tries, last, further = words[draw * kernels.WORDS : (draw + 1) * kernels.WORDS].tolist()
        bits = endless([further], release)
        scores, taken = np.ascontiguousarray(self.scores[:, expert]), shown[:expert]
        items = np.flatnonzero(scores >= _CLOSED // 2)  # as in the compiled loop
        for word in tries:
            item = int(items[release._index(scores[items], self.unit, chain([word], bits))])
            if item not in taken:
                break
        else:
            others = np.setdiff1d(items, taken)
            item = int(others[release._index(scores[others], self.unit, chain([last], bits))])
        self.decide(item)
