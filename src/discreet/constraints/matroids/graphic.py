"""Graphic matroids: edges of a graph without a cycle."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from ... import backends
from .compiled import Vector, Whole
from .flows import FlowMatroid
from .matroid import Items, refuse_rank_zero


class GraphicMatroid(FlowMatroid):
    """Forests of a graph: item i is the i-th edge, and a set is independent if its edges hold no cycle.

    ``edges`` are pairs of vertices, any hashable labels; parallel edges are allowed, and an edge from a
    vertex to itself can never be chosen.

    >>> triangle = GraphicMatroid([("a", "b"), ("b", "c"), ("c", "a")])
    >>> triangle.rank, triangle.contains([0, 1, 2]), triangle.span([0, 1]).tolist()
    (2, False, [0, 1, 2])
    """

    def __init__(self, edges: Iterable[tuple[Hashable, Hashable]]) -> None:
        pairs = [tuple(edge) for edge in edges]
        for index, pair in enumerate(pairs):
            if len(pair) != 2:
                raise ValueError(f"edges[{index}]={reprlib.repr(pair)} must be a pair of vertices")
        if not pairs:
            raise ValueError("edges is empty, so the ground set is empty; give at least one edge")
        super().__init__(len(pairs))
        number: dict[Hashable, int] = {}
        ends = [[number.setdefault(vertex, len(number)) for vertex in pair] for pair in pairs]
        self._table, self._size = np.array(ends, dtype=np.int64), len(number)
        refuse_rank_zero(self, "every edge joins a vertex to itself")

    def __repr__(self) -> str:
        return f"GraphicMatroid({self._n_items} edges on {self._size} vertices)"

    def _exchange(self, common: Items, one: Items, two: Items, given: NDArray[np.bool_], kept: Items) -> None:
        backends.exchanges.merge_forests(self._table, self._size, common, one, two, given, kept)

    @property
    def _exceed(self) -> Callable[..., float]:
        exceed: Callable[..., float] = backends.flows.exceed_forests
        return exceed

    def _toss(
        self, items: Whole, x: Vector, rng: np.random.Generator, kept: NDArray[np.bool_]
    ) -> tuple[float, int]:
        space = backends.matroids.workspace(self._table, self._size)
        # One for each edge and each vertex with room that is settled, and for each set that is found full.
        coins = rng.random(items.size + 2 * self._size + 2)
        found: tuple[float, int] = backends.flows.round_forest(self._table, space, items, x, coins, kept)
        return found
