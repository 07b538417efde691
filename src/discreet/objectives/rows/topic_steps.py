"""Weighted topics in whole steps: people enter through the sums of their weights, one for each topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .matrices import SparseMatrix, stretches

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
# Of a topic an item covers so many parts of 2^30, as a whole number.
_BITS = 30
_WHOLE = 1 << _BITS
# Weights are counted in parts of a step, so that rounding many of them loses no step.
_FINE = 8
# Sums of weights, below 2^61, are multiplied in three pieces; so many products stay below 2^63.
_PIECE = 22
_MOST_TOPICS = (1 << 11) - 1
# (per_unit, most): sums over people of each topic's weight in steps, of which a person has at most ``most``.
Totals = Callable[[float, int], Steps]


def weight_steps(weights: SparseMatrix, per_unit: float, most: int) -> Steps:
    """The sum over rows of their weights in whole steps, of which a row has at most ``most`` in all.

    Each weight is rounded down; beyond ``most`` what comes last in the row is cut off.

    >>> rows = SparseMatrix(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.array([0.5, 0.75, 1.0]), 2)
    >>> weight_steps(rows, 8.0, 9).tolist()
    [4, 13]
    """
    out = np.zeros(weights.n_columns, dtype=np.int64)
    for start, stop in stretches(weights.indptr):
        part = weights.stretch(start, stop)
        steps = np.minimum(np.floor(part.data * per_unit), float(most)).astype(np.int64)
        sums = np.concatenate(([0], np.cumsum(steps)))
        before = np.minimum(sums[:-1] - sums[part.indptr[part.row_of]], most)
        np.add.at(out, part.indices, np.minimum(before + steps, most) - before)
    return out


class TopicSteps:
    """Rows to be summed up in whole steps (`StepSource`), where people weight topics that items cover.

    Formal guarantee. A person has a weight of at most ``most`` steps over all topics, in whole parts of a
    step. What an item adds to a topic is a public whole number of parts of 2^30, and over all chosen items a
    topic has 2^30 of them. A score is the sum over topics of their products, rounded down to steps once: with
    d, at most ``most``, for the person's own part of it, the score moves by floor(x + d) - floor(x), where x
    is what the others make of it. That is at least 0, below d + 1, and at most ``most``, which is whole. Over
    the picks the d of a person add up to their weight at most, and each pick rounds by less than 1: so
    ``growing`` leaves everybody as many steps fewer as there are items, and all picks together move by at
    most ``most``. `tests/stored/test_topics.py` enumerates it.
    """

    def __init__(self, covers: SparseMatrix, totals: Totals, share: float = 1.0) -> None:
        self._covers, self._totals, self._share = covers, totals, share  # covers: topics x items
        self._by_item = covers.by_column
        self._known: dict[tuple[float, int], Steps] = {}

    @staticmethod
    def fits(covers: SparseMatrix) -> bool:
        """Whether no item (a column) covers more topics than can be summed up exactly."""
        return int(np.bincount(covers.indices, minlength=1).max()) <= _MOST_TOPICS

    def scaled(self, factor: float) -> TopicSteps:
        """The same, each person's weights times ``factor``."""
        return TopicSteps(self._covers, self._totals, factor * self._share)

    def growing(self, most: float, per_unit: float) -> GrowingTopics:
        """The empty set."""
        spared = max(int(most) - self._by_item.n_rows, 0)
        return GrowingTopics(self, self._weights(per_unit, spared))

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """The multilinear gradient at ``x``: in closed form, so that nothing is sampled."""
        del seed, samples
        topics, items = self._entries
        stays = 1.0 - x[items] * self._by_item.data  # the chance that an item leaves the topic uncovered
        none, product = np.zeros(self._covers.n_rows), np.ones(self._covers.n_rows)
        np.add.at(none, topics, stays == 0.0)
        np.multiply.at(product, topics, np.where(stays == 0.0, 1.0, stays))
        others = np.where(stays == 0.0, none[topics] == 1.0, none[topics] == 0.0)
        apart = others * product[topics] / np.where(stays == 0.0, 1.0, stays)
        parts = np.minimum(np.floor(apart * self._by_item.data * _WHOLE), float(_WHOLE)).astype(np.int64)
        return self.summed(self._weights(per_unit, most), parts)

    @property
    def _entries(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The topic and the item of each pair of them, by item."""
        return self._by_item.indices, self._by_item.row_of

    def fresh(self) -> tuple[Floats, Steps]:
        """For each topic the chance that nothing covers it, and the parts that are left to be covered."""
        return np.ones(self._covers.n_rows), np.full(self._covers.n_rows, _WHOLE)

    def parts(self, uncovered: Floats, left: Steps) -> Steps:
        """What each item would cover of each of its topics."""
        topics, _ = self._entries
        wanted = np.floor(uncovered[topics] * self._by_item.data * _WHOLE).astype(np.int64)
        return np.asarray(np.minimum(wanted, left[topics]), dtype=np.int64)

    def choose(self, item: int, uncovered: Floats, left: Steps) -> None:
        """An item is chosen: both arrays of `fresh` move."""
        here = slice(int(self._by_item.indptr[item]), int(self._by_item.indptr[item + 1]))
        topics = self._by_item.indices[here]
        left[topics] -= self.parts(uncovered, left)[here]
        uncovered[topics] *= 1.0 - self._by_item.data[here]

    def summed(self, weights: Steps, parts: Steps) -> Steps:
        """For each item the sum of weights times parts, rounded down to steps; exactly, in pieces."""
        topics, ends, rest = self._by_item.indices, self._by_item.indptr, (1 << _PIECE) - 1
        pieces = []
        for shift in (0, _PIECE, 2 * _PIECE):
            piece = (weights >> shift) & (rest if shift < 2 * _PIECE else -1)
            sums = np.concatenate(([0], np.cumsum(piece[topics] * parts)))  # modulo 2^64; differences fit
            pieces.append(sums[ends[1:]] - sums[ends[:-1]])
        low, middle, high = pieces
        middle += low >> _PIECE
        high += middle >> _PIECE
        below = ((middle & rest) << _PIECE) | (low & rest)
        unit = _BITS + _FINE  # bits of a step
        return np.asarray((high << (2 * _PIECE - unit)) + (below >> unit), dtype=np.int64)

    def _weights(self, per_unit: float, most: int) -> Steps:
        asked = per_unit * self._share * (1 << _FINE), most << _FINE
        if asked not in self._known:
            self._known[asked] = self._totals(*asked)
        return self._known[asked]


class GrowingTopics:
    """A growing set over topics: public numbers for each topic, and the sums of weights."""

    def __init__(self, source: TopicSteps, weights: Steps) -> None:
        self._source, self._weights = source, weights
        self._uncovered, self._left = source.fresh()
        self._now = np.zeros(0, dtype=np.int64)

    def begin(self, sums: Floats) -> None:
        self._now = self._scores()
        sums += self._now

    def choose(self, item: int, sums: Floats) -> None:
        self._source.choose(item, self._uncovered, self._left)
        before, self._now = self._now, self._scores()
        sums += self._now - before

    def _scores(self) -> Steps:
        return self._source.summed(self._weights, self._source.parts(self._uncovered, self._left))
