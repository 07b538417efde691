"""Matroids whose independence is decided in compiled loops."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import backends
from ..polytopes.nearest_point import NearestPoint
from ..polytopes.polytope import close_gaps
from ..rounding import Given
from .entropic import SearchedSplit
from .matroid import Items, Matroid

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]


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
        ends, lists = whole_numbers([n]), np.empty((2, n), dtype=np.int64)
        given = ends[:0], 0, whole_numbers(items), 0, np.zeros(n), ends, 1, 1, keep, n + 1, *lists, taken
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
        numbers, most = whole_numbers(items[order]), self.rank
        asked = numbers, 0, count, target[order], ends, ends.size, tight_blocks, most, limit
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

    def _euclidean(self, z: Vector, *, base: bool) -> tuple[Vector, float, int]:
        order, target = close_gaps(z, base=base)
        near = np.empty(z.size)
        space, ends = backends.matroids.workspace(self._table, self._size), whole_numbers([z.size])
        items, limit = np.arange(z.size), 200 + 40 * z.size
        with backends.polytopes.memory(z.size, self.rank) as memory:
            asked = items, 0, z.size, target, ends, 1, int(base), self.rank, limit
            _, _, steps = backends.polytopes.nearest_point(self._table, space, memory, ends[:0], 0, *asked)
            near[:] = memory[3][: z.size]
        # Bases have one sum, so a common offset of z only costs precision.
        middle = order[z.size // 2] if base else z.size
        offset = z[middle] if middle < z.size else 0.0
        return near, max(0.0, self._gap(near - (z - offset), near, items, space, base=base)), steps

    def _entropic(self, log_w: Vector, *, base: bool) -> tuple[Vector, float, int]:
        items, x = self._loose.copy(), np.zeros(log_w.size)
        space = backends.matroids.workspace(self._table, self._size)
        log_x, steps = self._split(log_w, items, space, base=base)
        x[items] = np.exp(log_x[items])
        middle = log_w.size // 2
        offset = float(np.partition(log_w, middle)[middle]) if base else 0.0
        gradient = np.zeros(x.size)
        gradient[items] = log_x[items] - (log_w[items] - offset)
        # A violation within tolerance can make the gap negative; its size bounds the error either way.
        return x, abs(self._gap(gradient, x, np.arange(x.size), space, base=base)), steps

    def _split(self, log_w: Vector, items: Whole, space: Any, *, base: bool) -> tuple[Vector, int]:
        """Logarithms of the entropic projection on ``items``, and the steps taken."""
        with backends.polytopes.memory(items.size, self.rank) as memory:
            split = SearchedSplit((self._table, space), self.rank, log_w, items, memory)
            split.solve(base=base)
        return split.log_x, split.steps

    def _gap(self, gradient: Vector, x: Vector, items: Whole, space: Any, *, base: bool) -> float:
        """How much better than ``x`` the vertex is that the gradient likes best, to first order."""
        n, taken, ends = x.size, np.empty(x.size, dtype=np.bool_), whole_numbers([x.size])
        heap, places = np.empty((2, n), dtype=np.int64)
        asked = items, 0, gradient, ends, 1, int(base), n, self.rank, heap, places, taken
        number = backends.matroids.offered(self._table, space, ends[:0], 0, *asked)
        beyond = x.copy()
        beyond[places[:number][taken[:number]]] -= 1.0
        return float(gradient @ beyond)

    @cached_property
    def _loose(self) -> Whole:
        """Items that are independent by themselves: all others are 0 at every point of the polytope."""
        return whole_numbers(np.flatnonzero(self._addable(np.zeros(0, dtype=np.intp))))

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


def whole_numbers(numbers: ArrayLike) -> Whole:
    """Numbers in memory of their own, always of one kind: loops are compiled once."""
    return np.array(numbers, dtype=np.int64)
