"""Ordered exponential choices, compiled: expert i draws an item that experts 1..i-1 have not taken.

Weights are kept in sum trees that follow the experts' scores, so that a draw costs the logarithm of the
number of items. A draw that floating point cannot decide is settled with as many digits and bits as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from .. import backends
from ..backends.patience import Patience
from ..core.state import Saved
from .conversions import exact
from .samplers import endless

if TYPE_CHECKING:
    from .release import Release

# So many rounds that each add up to 2^32 units to a score leave it, and differences of such, within 63 bits.
MOST_ROUNDS = 1 << 30
_UNITS = 32
_TILE = 64  # items weighed together
# The first draws are settled without the compiled loop. What one takes is counted in items, `_CALL` for its
# fixed part.
PATIENCE, _CALL = Patience(1 << 23), 500
_CLOSED = -(1 << 60)


def units_per_one(bound: float) -> Fraction:
    """How many units make 1 where scores are counted in them: a power of two, 2^31 to 2^32 to ``bound``."""
    mantissa, exponent = math.frexp(bound)
    return Fraction(2) ** (_UNITS - exponent + (mantissa == 0.5))


class OrderedExperts:
    """Experts' scores in whole units (items x experts), and the sum trees of their weights.

    Item a has the weight ``exp(rate * score / scale)``, so ``scale`` units make 1. ``most`` is the largest
    score that one round adds. Trees are built when a draw is due for the first time, and when the rate
    has changed.
    """

    def __init__(self, scores: NDArray[np.int64], rate: float, scale: Fraction, most: int) -> None:
        self.kernels: Any = backends.hedge
        self.scores, self.scale, self.most = scores, scale, most
        self.at_rate(rate)

    def at_rate(self, rate: float) -> Self:
        """The same experts, with weights by another rate from now on."""
        self.rate, self.unit = rate, exact(rate) / self.scale
        self._built = False
        return self

    def _build(self) -> None:
        scores, (n_items, k) = self.scores, self.scores.shape
        sizes = [n_items]
        while sizes[-1] > 8:
            sizes.append(-(-sizes[-1] // 8))
        lengths = [-(-size // 8) * 8 * k for size in sizes]
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64)
        tree = np.zeros(int(starts[-1]))
        refs = scores.max(axis=0)
        touched = np.zeros(n_items, dtype=np.uint32)
        self._book = np.array([0, 0, 1], dtype=np.int64)
        tile, scratch = np.zeros(_TILE, dtype=np.uint32), np.zeros((2, _TILE * k))
        flat, experts, unit = scores.reshape(-1), np.uint64(k), float(Fraction(self.rate) / self.scale)
        self._gain_arguments = (flat, touched, self._book, experts)
        changes, spare = (touched, self._book), (tile, scratch, np.zeros(n_items, dtype=np.bool_))
        self._tree_arguments = (flat, refs, tree, starts, *changes, experts, unit, *spare)
        self._counting_arguments = (float(self.scale), self.most, np.zeros(k))
        self._built = True

    @property
    def gain_arguments(self) -> tuple[Any, ...]:
        """For a loop that adds a person's gains: the scores, and which of them changed."""
        if not self._built:
            self._build()
        return self._gain_arguments

    @property
    def tree_arguments(self) -> tuple[Any, ...]:
        """For a loop that draws: the scores, and the trees."""
        if not self._built:
            self._build()
        return self._tree_arguments

    @property
    def counting_arguments(self) -> tuple[Any, ...]:
        """For a loop that turns gains into units."""
        if not self._built:
            self._build()
        return self._counting_arguments

    @property
    def words_per_set(self) -> int:
        """How many secret words the draws of one set take."""
        return int(self.scores.shape[1] * self.kernels.WORDS)

    def add(self, gains: NDArray[np.int64]) -> None:
        """Add to every score; all weights are computed anew."""
        self.scores += gains
        if self._built:
            self._book[self.kernels.ALL] = 1

    def add_one(self, item: int, expert: int, amount: int) -> None:
        """Add to one score; trees that are there follow at once."""
        if not self._built:
            self.scores[item, expert] += amount
            return
        flat, refs, tree, starts, _, _, k, unit, *spare = self._tree_arguments
        place = (np.uint64(expert), np.uint32(item))
        backends.bandit.teach(flat, refs, tree, starts, k, unit, *spare, *place, amount)

    @property
    def preference(self) -> int:
        """So many units more make an item so much likelier than all others, while nothing else is known."""
        return math.ceil(2.0 * math.log(max(2, self.scores.shape[0])) / self.unit)

    def prefer(self, items: Sequence[int]) -> None:
        """Begin with a preference of expert i for the i-th of these items: public numbers."""
        for expert, item in enumerate(items[: self.scores.shape[1]]):
            self.scores[item, expert] += self.preference
        self._built = False

    def close(self, items: NDArray[np.int64]) -> None:
        """These items are drawn no more: their scores are so low that their weight is nothing."""
        self.scores[items] = _CLOSED
        self._built = False

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
        self.scores = np.concatenate((self.scores, np.zeros((more, k), dtype=np.int64)))
        self.scores[items] = start
        self._built = False

    def start(self) -> NDArray[np.int64]:
        """A place at which nothing has been done and nothing decided."""
        return np.array([0, 0, -1, 0], dtype=np.int64)

    @property
    def _work(self) -> int:
        """What a set takes without the compiled loop."""
        n_items, k = self.scores.shape
        return int(k * (n_items + _CALL))

    def can_wait(self, sets: int) -> bool:
        """Whether so many sets are drawn sooner without the compiled loop."""
        return PATIENCE.reaches(sets * self._work, None, lambda: self.kernels.draw_set)

    def drawn(self, release: Release) -> NDArray[np.int32]:
        """One set; for `Release.ordered_set`."""
        words, place = release.words(self.words_per_set), self.start()
        shown = np.zeros(self.scores.shape[1], dtype=np.int32)
        if PATIENCE.lasts(self._work, None, lambda: self.kernels.draw_set):
            for expert in range(shown.size):
                place[self.kernels.EXPERT] = place[self.kernels.DRAW] = expert
                self.settle(release, words, shown, place)
                shown[expert] = place[self.kernels.DECIDED]
            return shown
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
        *tries, last, further = words[at : at + kernels.WORDS].tolist()
        bits = endless([further], release)
        scores, taken = np.ascontiguousarray(self.scores[:, expert]), shown[:expert]
        for word in tries:
            item = release.index(scores, self.unit, chain([word], bits))
            if item not in taken:
                break
        else:
            others = np.delete(np.arange(scores.size), taken)
            item = int(others[release.index(scores[others], self.unit, chain([last], bits))])
        place[kernels.DECIDED] = item

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The scores, for `resume`. They are not private where draws protect people."""
        return {}, {"scores": self.scores}

    def resume(self, saved: Saved, *, at_least: int, at_most: int, closed: bool = False) -> None:
        """Go on with saved scores, each within these limits; ``closed`` items have lower ones."""
        least = min(at_least, _CLOSED) if closed else at_least
        self.scores = saved.array("scores", self.scores.shape, np.int64, at_least=least, at_most=at_most)
        self._built = False
