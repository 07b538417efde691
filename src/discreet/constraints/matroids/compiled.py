"""Matroids whose independence is decided in compiled loops."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import backends
from ..polytopes.nearest_point import NearestPoint
from ..rounding import Given
from .entropic import EntropicSplit
from .matroid import Items, Matroid

Vector = NDArray[np.float64]


class CompiledMatroid(Matroid):
    """A graphic, transversal or linear matroid.

    ``_table`` is what the loops of backends/numba/matroids.py go by; ``_size`` is the number of its vertices,
    sets or rows.
    """

    _table: Any
    _size: int

    def _offered(self, items: Items, keep: int) -> NDArray[np.bool_]:
        """Which items fit when they are offered in turn, and the first ``keep`` that do are taken."""
        n, taken = items.size, np.zeros(items.size, dtype=np.bool_)
        space = backends.matroids.workspace(self._table, self._size)
        ends, lists = _whole([n]), np.empty((2, n), dtype=np.int64)
        given = ends[:0], 0, _whole(items), 0, np.zeros(n), ends, 1, 1, keep, n + 1, *lists, taken
        backends.matroids.offered(self._table, space, *given)
        return taken

    def _greedy(self, order: Items) -> Items:
        return order[self._offered(order, order.size)]

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        mask = self._addable_among(items, np.arange(self._n_items))
        mask[items] = False
        return mask

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        return self._offered(np.concatenate([items, candidates]), items.size)[items.size :]

    def _nearest(
        self, target: Vector, items: Items, block: Items, tight_blocks: int, limit: int
    ) -> NearestPoint:
        # Blocks one after the other, as loops go through them.
        order, count = np.argsort(block, kind="stable"), items.size
        ends = np.cumsum(np.bincount(block)).astype(np.int64)
        space = backends.matroids.workspace(self._table, self._size)
        asked = _whole(items[order]), 0, count, target[order], ends, ends.size, tight_blocks, self.rank, limit
        near, listed = np.empty(count), np.arange(self.rank)
        with backends.polytopes.memory(count, self.rank) as memory:
            size, gap, steps = backends.polytopes.nearest_point(
                self._table, space, memory, ends[:0], 0, *asked
            )
            members, lengths, shares, x = memory[:4]
            vertices = np.zeros((size, count))
            inside = listed < lengths[:size, None]
            vertices[np.nonzero(inside)[0], order[members[:size][inside]]] = 1.0
            near[order] = x[:count]
            return NearestPoint(near, vertices, shares[:size].copy(), gap, steps)

    def _entropic_logs(self, log_w: Vector, items: Items, *, base: bool) -> tuple[Vector, int]:
        space = backends.matroids.workspace(self._table, self._size)
        with backends.polytopes.memory(items.size, self.rank) as memory:
            split = EntropicSplit((self._table, space, memory), self.rank, log_w, _whole(items))
            split.solve(base=base)
            return split.log_x, split.steps

    def _merge_bases(self, one: Items, two: Items, given: Given) -> Items | None:
        common, first, second = backends.exchanges.differences(self._n_items, one, two)
        if not first.size:
            return one
        kept = np.empty(first.size, dtype=np.int64)
        self._exchange(common, first, second, given(kept.size), kept)
        return np.sort(np.concatenate([common, kept]))

    @abstractmethod
    def _exchange(self, common: Items, one: Items, two: Items, given: NDArray[np.bool_], kept: Items) -> None:
        """Fill ``kept`` with what is kept of ``one`` and ``two``; see backends/numba/exchanges.py."""


def _whole(numbers: ArrayLike) -> NDArray[np.int64]:
    """Numbers in memory of their own, always of one kind: loops are compiled once."""
    return np.array(numbers, dtype=np.int64)
