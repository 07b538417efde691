"""Cuts of graphs, with a modular part: the standard submodular function to minimize."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import DataError, per_person, shown, whole, whole_numbers
from ..core.guards import fix, read_only
from .base import Floats, Items, Population
from .rows import SparseMatrix, as_sparse, checked, rows_of


class Arcs(NamedTuple):
    """Cuts of many people as arrays: one list of arcs for everybody, and a sparse row of weights for each.

    Arc a leads from ``tail[a]`` to ``head[a]``. Person p has the arcs ``arc[start[p]:start[p + 1]]``, with
    the weights at the same indices of ``weight``. ``modular`` has a row for each person, or one for
    everybody.
    """

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    start: NDArray[np.int64]
    arc: NDArray[np.int32]
    weight: Floats
    modular: Floats

    def __repr__(self) -> str:
        return "Arcs(...)"  # not the people


class GraphCut(Population):
    """f(S) = weight of the arcs that leave S + the sum of the modular part over S.

    ``adjacency``: items x items for one person, or a sequence of such matrices (or a 3-d array) for many;
    weights nonnegative, ``[u, v]`` the arc from u to v. Undirected graphs, the default, must be symmetric,
    and an edge that is cut counts once. Loops never leave a set and are ignored. ``modular``: one number per
    item, for everybody or one row per person; of either sign. ``bound``: a public bound M of |f|, 1 unless
    declared; it is checked against the total weight of each person's edges, as the largest cut itself is hard
    to find.

    Submodular but not monotone: values may be negative, and adding an item may cost.

    >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> cut = GraphCut(triangle, modular=[-1.0, 0.0, 0.0], bound=4)
    >>> cut.value([0]), cut.value([0, 1]), cut.value([0, 1, 2])
    (1.0, 1.0, -1.0)
    >>> cut.multilinear([0.5, 0.5, 0.0])
    1.0
    """

    monotone = False
    built_in = True

    def __init__(
        self,
        adjacency: Any,
        *,
        modular: ArrayLike | None = None,
        directed: bool = False,
        bound: float | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        graphs = _graphs(adjacency)
        self.n_items, self.directed = graphs[0].n_rows, bool(directed)
        for i, graph in enumerate(graphs):
            if graph.shape != (self.n_items, self.n_items):
                raise DataError(
                    f"adjacency must hold matrices of one shape, ({self.n_items}, {self.n_items})",
                    f"adjacency[{i}] has shape {graph.shape}",
                )
            if not directed:
                _symmetric(i, graph)
        graphs = [g.keep(g.row_of != g.indices) for g in graphs]
        # One list of arcs for everybody; a person is a sparse row of weights over it.
        keys = np.concatenate([g.row_of * self.n_items + g.indices for g in graphs])
        arcs, where = np.unique(keys, return_inverse=True)
        ends = np.concatenate(([0], np.cumsum([g.data.size for g in graphs])))
        data = np.concatenate([g.data for g in graphs])
        weights = SparseMatrix(ends, where.astype(np.int32), data, arcs.size)
        self._setup(np.divmod(arcs, self.n_items), weights, modular, bound, labels)

    def _setup(
        self,
        ends: tuple[NDArray[np.int64], NDArray[np.int64]],
        weights: SparseMatrix,
        modular: ArrayLike | None,
        bound: float | None,
        labels: Iterable[Any] | None,
    ) -> None:
        (self._tail, self._head), self._weights = ends, weights
        self._modular = _modular_part(modular, len(self), self.n_items)
        self._name_items(labels)
        self._declare(bound)

    @classmethod
    def from_arcs(
        cls,
        n_items: int,
        arcs: Arcs,
        *,
        bound: float | None = None,
        labels: Iterable[Any] | None = None,
    ) -> Self:
        """Directed cuts from `Arcs`: many people with a few arcs each, without a matrix for every one.

        >>> minded = Arcs([0, 1], [1, 2], [0, 1, 3], [0, 0, 1], [1.0, 0.5, 0.5], [[0.0, 0.0, -1.0]])
        >>> people = GraphCut.from_arcs(3, minded, bound=2)
        >>> len(people), people[1].value([0, 2]), people[1].value([0, 1])
        (2, -0.5, 0.5)
        """
        if not isinstance(arcs, Arcs):
            raise TypeError(f"arcs must be Arcs, got {shown(arcs)}")
        people = object.__new__(cls)
        people.n_items, people.directed = whole("n_items", n_items, at_least=1), True
        people._setup(_ends(arcs, people.n_items), _minded(arcs), arcs.modular, bound, labels)
        return fix(people)

    def as_arcs(self) -> Arcs:
        """These people as `Arcs`, an edge as two arcs: the population's own arrays, read-only."""
        w = self._weights
        tail, head, modular = (read_only(a) for a in (self._tail, self._head, self._modular))
        return Arcs(tail, head, w.indptr, w.indices, w.data, modular)

    def __len__(self) -> int:
        return self._weights.n_rows

    @cached_property
    def _average(self) -> tuple[SparseMatrix, SparseMatrix, Floats]:
        """The average graph, the same with every arc in both directions, and the gain of each item alone."""
        import scipy.sparse as sp

        weights = np.bincount(self._weights.indices, self._weights.data, minlength=self._weights.n_columns)
        arcs = sp.csr_array(
            (weights / len(self), (self._tail, self._head)), shape=(self.n_items, self.n_items)
        )
        graph, both = (_from_scipy(m) for m in (arcs, arcs + arcs.T))
        leaving = np.bincount(graph.row_of, graph.data, minlength=self.n_items)
        return graph, both, leaving + self._modular.mean(axis=0)

    def _value(self, items: Items) -> float:
        return float(self._chain(items).sum())

    def _gains(self, items: Items) -> Floats:
        return self._grown(items)[1]

    def _chain(self, order: Items) -> Floats:
        return self._grown(order)[0]

    def _grown(self, order: Items) -> tuple[Floats, Floats]:
        """The gain of each item in this order, and the gain of every item after them."""
        _, both, alone = self._average
        now, added = alone.copy(), np.zeros(order.size)
        for t, item in enumerate(order.tolist()):
            added[t] = now[item]
            inside = slice(int(both.indptr[item]), int(both.indptr[item + 1]))
            now[both.indices[inside]] -= both.data[inside]
        return added, now

    def _contributions(self, items: Items) -> Floats:
        # f(S) - f(S without j) is the entry of j in the gains on top of S: without loops, j does not change
        # it.
        return self._gains(items)[items]

    def _extension(self, x: Floats) -> tuple[float, Floats]:
        graph, both, alone = self._average
        out = x[graph.row_of] * graph.data * (1.0 - x[graph.indices])
        met = np.bincount(both.row_of, both.data * x[both.indices], minlength=self.n_items)
        return float(out.sum() + self._modular.mean(axis=0) @ x), alone - met

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken.__dict__.pop("_average", None)
        taken._weights = self._weights.take(rows)
        taken._modular = self._modular[rows if self._modular.shape[0] > 1 else slice(None)]
        return taken

    def _largest(self) -> Floats:
        w = self._weights
        low, high = np.minimum(self._tail, self._head), np.maximum(self._tail, self._head)
        # At most one of an arc and its reverse is cut: a person's cut is at most the sum of the larger ones.
        _, pair = np.unique(low * self.n_items + high, return_inverse=True)
        cells, where = np.unique(w.row_of * max(pair.size, 1) + pair[w.indices], return_inverse=True)
        larger = np.zeros(cells.size)
        np.maximum.at(larger, where, w.data)
        edges = np.bincount(cells // max(pair.size, 1), larger, minlength=len(self))
        rises = np.maximum(self._modular, 0).sum(axis=1)
        falls = np.maximum(-self._modular, 0).sum(axis=1)
        return np.asarray(np.maximum(edges + rises, falls), dtype=np.float64)

    def _most_items(self) -> int:
        w = self._weights
        touched = np.zeros((len(self), self.n_items), dtype=np.bool_)
        touched |= self._modular != 0
        touched[w.row_of, self._tail[w.indices]] = True
        touched[w.row_of, self._head[w.indices]] = True
        return int(touched.sum(axis=1).max())


def _from_scipy(matrix: Any) -> SparseMatrix:
    rows = matrix.tocsr()
    return SparseMatrix(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data, int(rows.shape[1])
    )


def _graphs(adjacency: Any) -> list[SparseMatrix]:
    """A checked matrix for each person, from one matrix, a list of them or an array."""
    import scipy.sparse as sp

    several = not sp.issparse(adjacency) and (
        any(sp.issparse(a) for a in adjacency) if isinstance(adjacency, list | tuple) else False
    )
    if not several and not sp.issparse(adjacency):
        try:
            several = np.ndim(adjacency) == 3
        except ValueError:  # its message holds the number of people
            raise ValueError(
                "adjacency must be items x items, or several such matrices of one size"
            ) from None
    given = list(adjacency) if several else [adjacency]
    if not given:
        raise ValueError("adjacency is empty; a population needs at least one person")
    graphs = []
    for i, graph in enumerate(given):
        try:
            graphs.append(as_sparse(checked("adjacency", graph, dense=False)))
        except DataError as error:
            raise DataError(str(error), f"of person {i}: {error.details}") from None
    return graphs


def _ends(arcs: Arcs, n_items: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tails and heads of the arcs: copies, after checking that every arc joins two items."""
    tail, head = whole_numbers("tail", arcs.tail), whole_numbers("head", arcs.head)
    if tail.size != head.size:
        raise ValueError(f"tail has {tail.size} entries and head {head.size}; every arc has both")
    for name, ends in (("tail", tail), ("head", head)):
        if ends.size and not (ends.min() >= 0 and ends.max() < n_items):
            raise ValueError(
                f"{name} names items from {ends.min()} to {ends.max()}; 0 to {n_items - 1} expected"
            )
    if (tail == head).any():
        raise ValueError(
            f"arc {int(np.argmax(tail == head))} is a loop, which never leaves a set; leave it out"
        )
    if np.unique(tail * n_items + head).size < tail.size:
        raise ValueError("two arcs lead from one item to the same other; list each of them once")
    return tail, head


def _minded(arcs: Arcs) -> SparseMatrix:
    """People's weights: copies, sorted by arc, without zeros; duplicates of a person are added up."""
    import scipy.sparse as sp

    start, arc = whole_numbers("start", arcs.start), whole_numbers("arc", arcs.arc)
    weight = per_person("weight", arcs.weight, arc.size, "entry of arc")
    count = len(arcs.tail)
    if start.size < 2 or start[0] != 0 or start[-1] != arc.size or (np.diff(start) < 0).any():
        raise ValueError("start must rise from 0 to the number of weights, with an end per person")
    if arc.size and not (arc.min() >= 0 and arc.max() < count):
        raise DataError(
            f"arc names an arc that there is not; arcs are 0 to {count - 1}",
            f"arc names arcs from {arc.min()} to {arc.max()}",
        )
    rows = sp.csr_array((weight, arc, start), shape=(start.size - 1, count))
    return rows_of("weight", rows, 0.0, np.inf, ones=False)


def _symmetric(person: int, graph: SparseMatrix) -> None:
    turned = graph.by_column
    same = np.array_equal(graph.indptr, turned.indptr) and np.array_equal(graph.indices, turned.indices)
    if not same or not np.allclose(graph.data, turned.data, rtol=1e-12, atol=0):
        raise DataError(
            "adjacency is not symmetric; give symmetric matrices, or directed=True for arcs",
            f"that of person {person}",
        )


def _modular_part(modular: ArrayLike | None, people: int, n_items: int) -> NDArray[np.float64]:
    if modular is None:
        return np.zeros((1, n_items))
    try:
        part = np.atleast_2d(np.array(modular, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):  # its message holds an entry, or the number of rows
        raise TypeError("modular must hold numbers, in rows of one length") from None
    if part.shape not in ((1, n_items), (people, n_items)):
        raise ValueError(
            f"modular must have {n_items} entries, one per item, or this many in a row for each person"
        )
    if not np.isfinite(part).all():
        row, column = (int(v) for v in np.argwhere(~np.isfinite(part))[0])
        raise DataError(
            "modular has an entry that is not finite",
            f"modular[row {row}, column {column}] is {part[row, column]}",
        )
    return part
