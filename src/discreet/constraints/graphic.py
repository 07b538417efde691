"""Matroids of graphs: forests, and items that can each be given a set of their own."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from ..core.checks import whole
from ..kernels.flows import ForestFlow, MatchingFlow
from ..kernels.matroids import GraphicOracle, TransversalOracle
from .base import list_of_sets
from .matroids import Matroid
from .polytopes import IndependentSets


class GraphicMatroid(Matroid):
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
        number: dict[Hashable, int] = {}
        ends = [[number.setdefault(vertex, len(number)) for vertex in pair] for pair in pairs]
        self._edges = np.array(ends, dtype=np.int64)
        n_vertices = len(number)
        sets = IndependentSets(
            GraphicOracle(self._edges, n_vertices),
            flow=ForestFlow,
            uniforms=(np.ones(len(pairs), dtype=np.intp), 2 * n_vertices + 2),
            exchanges=True,
        )
        super().__init__(sets, "every edge joins a vertex to itself")

    def _arguments(self) -> dict[str, Any]:
        return {"edges": self._edges.tolist()}

    def __repr__(self) -> str:
        return f"GraphicMatroid({self.n_items} edges on {self._sets.table.n_vertices} vertices)"


class TransversalMatroid(Matroid):
    """Partial transversals: S is independent if its items can be matched to distinct sets that hold them.

    ``sets[t]`` lists the items that may stand for set t (the people who can fill post t, the products that
    fit slot t). Items in no set can never be chosen. ``n_items`` defaults to one past the largest item
    named.

    >>> posts = TransversalMatroid([[0, 1], [1, 2], [2]])
    >>> posts.rank, posts.contains([0, 1, 2]), TransversalMatroid([[0, 1]]).contains([0, 1])
    (3, True, False)
    """

    def __init__(self, sets: Iterable[Iterable[int]], *, n_items: int | None = None) -> None:
        checked, size = list_of_sets("sets", sets, n_items)
        whole("n_items", size, at_least=1, at_most=10**7)
        self._members = [items.tolist() for items in checked]
        items = np.concatenate(checked)
        sets_of = np.repeat(np.arange(len(checked)), [found.size for found in checked])
        sets_of = sets_of[np.argsort(items, kind="stable")]
        degrees = np.bincount(items, minlength=size)
        starts = np.concatenate([[0], np.cumsum(degrees)])
        independent = IndependentSets(
            TransversalOracle(starts, sets_of, len(checked)),
            flow=MatchingFlow,
            uniforms=(degrees, 0),
            exchanges=True,
        )
        super().__init__(independent, "every set is empty")

    def _arguments(self) -> dict[str, Any]:
        return {"sets": self._members, "n_items": self.n_items}

    def __repr__(self) -> str:
        return f"TransversalMatroid({self._sets.table.n_sets} sets over {self.n_items} items)"
