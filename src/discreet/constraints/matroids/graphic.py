"""Graphic matroids: edges of a graph without a cycle."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from .matroid import Items, Matroid, refuse_rank_zero


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
        super().__init__(len(pairs))
        number: dict[Hashable, int] = {}
        ends = [[number.setdefault(vertex, len(number)) for vertex in pair] for pair in pairs]
        self._n_vertices = len(number)
        self._ends = np.array(ends, dtype=np.intp)
        self._pairs = [(a, b) for a, b in ends]
        refuse_rank_zero(self, "every edge joins a vertex to itself")

    def __repr__(self) -> str:
        return f"GraphicMatroid({self._n_items} edges on {self._n_vertices} vertices)"

    def _grow(self, order: Items) -> tuple[list[int], list[int]]:
        """Kruskal's algorithm: the edges taken, and for each vertex a parent on the way to its root."""
        parent = list(range(self._n_vertices))
        taken: list[int] = []
        pairs = self._pairs
        for item in order.tolist():
            a, b = pairs[item]
            while parent[a] != a:
                parent[a] = a = parent[parent[a]]
            while parent[b] != b:
                parent[b] = b = parent[parent[b]]
            if a != b:
                parent[a] = b
                taken.append(item)
        return taken, parent

    def _greedy(self, order: Items) -> Items:
        return np.array(self._grow(order)[0], dtype=np.intp)

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        root = np.array(self._grow(items)[1])
        while not np.array_equal(root, root[root]):
            root = root[root]
        mask: NDArray[np.bool_] = root[self._ends[:, 0]] != root[self._ends[:, 1]]
        return mask

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        _, parent = self._grow(items)
        answers = []
        for item in candidates.tolist():
            a, b = self._pairs[item]
            while parent[a] != a:
                a = parent[a]
            while parent[b] != b:
                b = parent[b]
            answers.append(a != b)
        return np.array(answers, dtype=np.bool_)

    def _circuit(self, items: Items, item: int) -> Items:
        """The edges of the forest on the path between the two ends of ``item``."""
        near: list[list[tuple[int, int]]] = [[] for _ in range(self._n_vertices)]
        for edge in items.tolist():
            a, b = self._pairs[edge]
            near[a].append((b, edge))
            near[b].append((a, edge))
        start, goal = self._pairs[item]
        # For every vertex reached, the vertex before it and the edge between them.
        came_by: dict[int, tuple[int, int]] = {start: (start, -1)}
        frontier = [start]
        while frontier and goal not in came_by:
            vertex = frontier.pop()
            for other, edge in near[vertex]:
                if other not in came_by:
                    came_by[other] = (vertex, edge)
                    frontier.append(other)
        path = []
        vertex = goal
        while vertex != start:
            vertex, edge = came_by[vertex]
            path.append(edge)
        return np.array(sorted(path), dtype=np.intp)
