"""Costs of sets as beliefs about items and pairs of them, and the sets that these beliefs suggest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..thompson.beliefs import Beliefs
from ..thompson.posterior import Features, Floats, Independent, Joint, Posterior

# As for `ThompsonSelector`, and settled on other streams of `cuts_and_prices` than the benchmark's.
WARM_UP = 12
_MOST_TOGETHER, _MOST_PAIRED = 300, 25
# The deviation of what a pair costs, as a part of an item's; the variance of a person's cost; the share of
# what is not known by which drawn weights deviate from the mean.
_PAIR, _VARIANCE, _SPREAD = 0.25, 0.1, 0.6


class Pairs:
    """Numbers of features: some ``first`` ones, at least one, come before the pairs of ``n_items`` items."""

    def __init__(self, n_items: int, first: int) -> None:
        self._above = np.triu_indices(n_items, 1)
        self._number = np.zeros((n_items, n_items), dtype=np.int64)
        self._number[self._above] = first + np.arange(self._above[0].size)
        self._first, self._size = first, n_items
        self.count = int(self._above[0].size)

    def of(self, items: Features) -> Features:
        """The pairs within some items."""
        found = self._number[items[:, None], items]
        return np.asarray(found[found > 0])

    def matrix(self, weights: Floats) -> Floats:
        """The weights of all pairs as a symmetric matrix."""
        found = np.zeros((self._size, self._size))
        found[self._above] = weights[self._first :]
        return found + found.T


class SetCosts(Beliefs):
    """A set costs something anyway, something for each of its items, and (up to 25 items) for its pairs.

    ``scale`` is that of the noise on the sum of a block, in units of the bound.
    """

    def __init__(self, n_items: int, block: int, scale: float) -> None:
        self._n_items, self._block = n_items, block
        self._error = _VARIANCE / block + 2.0 * (scale / block) ** 2
        self._pairs = Pairs(n_items, n_items + 1) if n_items <= _MOST_PAIRED else None
        size = 1 + n_items + (0 if self._pairs is None else self._pairs.count)
        super().__init__(WARM_UP, n_items, np.float64, 1, 1, size, n_items <= _MOST_TOGETHER)

    def _begin(self, values: Floats) -> Posterior:
        """Of sets at random, each item is in every second: their costs deviate by half of the items'."""
        known = max(float(np.mean(values**2)) - self._error, 0.1 * self._error)
        deviations = np.full(self._size, 2.0 * math.sqrt(known / self._n_items))
        deviations[1 + self._n_items :] *= _PAIR
        mean = np.zeros(self._size)
        return Joint(mean, np.diag(deviations)) if self._together else Independent(mean, deviations**2)

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        posterior.observe(self._features(shown), float(values[0]), self._error / part)

    def _features(self, shown: NDArray[Any]) -> Features:
        items = np.flatnonzero(shown)
        parts = [np.zeros(1, dtype=np.int64), items + 1]
        if self._pairs is not None:
            parts.append(self._pairs.of(items))
        return np.concatenate(parts)

    def suggest(self, generator: np.random.Generator, last: Floats | None) -> Floats:
        """A set to show, 1 for its items: at random at first, then a cheap one for drawn weights."""
        if self._posterior is None:
            return (generator.random(self._n_items) < 0.5).astype(np.float64)
        return self._cheap(self._posterior.draw(generator, _SPREAD), last)

    @property
    def best(self) -> Floats:
        """The cheapest set by what is believed; everything by halves where nothing is."""
        if self._posterior is None:
            return np.full(self._n_items, 0.5)
        return self._cheap(self._posterior.mean, None)

    def _cheap(self, weights: Floats, last: Floats | None) -> Floats:
        items = weights[1 : self._n_items + 1]
        if self._pairs is None:
            return (items < 0.0).astype(np.float64)
        pairs = self._pairs.matrix(weights)
        starts = [np.zeros(self._n_items)] if last is None else [np.zeros(self._n_items), last.copy()]
        found = [_descended(items, pairs, start) for start in starts]
        return min(found, key=lambda one: float(items @ one + one @ pairs @ one / 2.0))


def _descended(items: Floats, pairs: Floats, shown: Floats) -> Floats:
    """One item after the other comes or goes, always the one that saves most, until none saves anything."""
    added = items + pairs @ shown
    for _ in range(4 * items.size):
        saves = np.where(shown > 0.0, added, -added)
        item = int(np.argmax(saves))
        if saves[item] <= 0.0:
            break
        change = 1.0 - 2.0 * shown[item]
        shown[item] += change
        added += change * pairs[item]
    return shown
