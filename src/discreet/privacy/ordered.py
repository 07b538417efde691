"""Ordered exponential choices: expert i draws an item that experts 1..i-1 have not taken.

Draws are compiled (`discreet.kernels.experts`). One that floating point cannot decide is settled here, with
as many digits and bits as it takes.
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

# So many rounds that each add up to 2^32 units to a score leave it, and differences of such, within 63 bits.
MOST_ROUNDS = 1 << 30
_UNITS = 32
_CLOSED = -(1 << 60)


def units_per_one(bound: float) -> Fraction:
    """How many units make 1 where scores are counted in them: a power of two, 2^31 to 2^32 to ``bound``."""
    mantissa, exponent = math.frexp(bound)
    return Fraction(2) ** (_UNITS - exponent + (mantissa == 0.5))


class OrderedExperts(kernels.OrderedExperts):  # type: ignore[misc]  # compiled
    """Experts' scores in whole units (items x experts), and the sum trees of their weights.

    Item a has the weight ``exp(rate * score / scale)``, so ``scale`` units make 1. ``most`` is the largest
    score that one round adds.
    """

    _state = ("scores",)
    scores: NDArray[np.int64]

    def __init__(self, scores: NDArray[np.int64], rate: float, scale: Fraction, most: int) -> None:
        self.scale = scale
        super().__init__(scores, 0.0, float(scale), most)
        self.at_rate(rate)

    def at_rate(self, rate: float) -> Self:
        """The same experts, with weights by another rate from now on."""
        self.rate, self.unit = rate, exact(rate) / self.scale
        self.reset(self.scores, float(Fraction(rate) / self.scale))
        return self

    @property
    def preference(self) -> int:
        """How many units more make an item much likelier than all others, while nothing else is known."""
        return math.ceil(2.0 * math.log(max(2, self.scores.shape[0])) / self.unit)

    def prefer(self, items: Sequence[int]) -> None:
        """Begin with a preference of expert i for the i-th of these items: public numbers."""
        for expert, item in enumerate(items[: self.scores.shape[1]]):
            self.scores[item, expert] += self.preference
        self.at_rate(self.rate)

    def close(self, items: NDArray[np.int64]) -> None:
        """These items are drawn no more: their scores are so low that their weight is nothing."""
        self.scores[items] = _CLOSED
        self.at_rate(self.rate)

    def open(self, items: NDArray[np.int64], among: NDArray[np.int64]) -> None:
        """Items that can be drawn from now on, also new ones, whose scores start in the middle of the field.

        That is at the k-th largest score of each expert ``among`` the others. Where a person moves all
        scores by amounts in some interval, they move a score of a given rank by an amount in that interval,
        and so how far a person moves two scores apart stays what it was.
        """
        n_items, k = self.scores.shape
        field = self.scores[among]
        start = np.partition(field, -min(k, among.size), axis=0)[-min(k, among.size)]
        more = max(0, int(items.max()) + 1 - n_items)
        scores = np.concatenate((self.scores, np.zeros((more, k), dtype=np.int64)))
        scores[items] = start
        self.scores = scores

    def drawn(self, release: Release) -> NDArray[np.int32]:
        """One set; for `Release.ordered_set`."""
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
        for word in tries:
            item = release._index(scores, self.unit, chain([word], bits))
            if item not in taken:
                break
        else:
            others = np.delete(np.arange(scores.size), taken)
            item = int(others[release._index(scores[others], self.unit, chain([last], bits))])
        self.decide(item)
