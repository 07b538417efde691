"""Matroids: feasible sets that can be exchanged item by item, so that greedy is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import real, shown, vector, whole
from ..kernels.matroids import AskedOracle, MinorOracle
from ..kernels.polytopes import NearestPointSearch
from .base import (
    POLYTOPE_TOLERANCE,
    Constraint,
    Decomposition,
    Items,
    ProjectedPoint,
    Vector,
    decomposition,
    generator,
    item_set,
    log_weights,
    one_item,
    projected,
)
from .polytopes import EntropicSplit, NearestPoint, close_gaps, combination, greedy_vertex
from .rounding import Given, merge_sets

_NOTHING: Items = np.zeros(0, dtype=np.intp)


class Matroid(Constraint):
    """A matroid over items 0..n_items-1, by its independence oracle (kernels/matroids.pyx).

    Everything else follows from that; subclasses with more structure answer faster.

    The polytope is that of the independent sets, {x >= 0 : x(A) <= rank(A) for all A}; ``base=True`` asks
    for the face of its bases, where x sums to the rank.
    """

    # What finds sets that exceed their rank, and rounds (kernels/flows.pyx), where there is such a thing.
    _flow: ClassVar[Any] = None
    # Whether the oracle merges two bases itself.
    _exchanges: ClassVar[bool] = False

    def __init__(self, oracle: Any) -> None:
        self._table, self._n_items = oracle, int(oracle.n_items)

    @staticmethod
    def from_oracle(independent: Callable[[frozenset[int]], bool], n_items: int) -> Matroid:
        """The matroid whose independent sets are those for which ``independent(frozenset_of_items)`` is true.

        The answers must satisfy the matroid axioms, which are too many to check.

        >>> m = Matroid.from_oracle(lambda s: len(s) <= 2 and not {0, 1} <= s, n_items=4)
        >>> m.rank, m.contains([0, 2]), m.contains([0, 1])
        (2, True, False)
        """
        return OracleMatroid(independent, n_items)

    @property
    def n_items(self) -> int | None:
        """The size of the ground set."""
        return self._n_items

    @cached_property
    def _full_rank(self) -> int:
        return int(self._greedy(np.arange(self._n_items)).size)

    @property
    def rank(self) -> int:
        """The size of every base."""
        return self._full_rank

    def rank_of(self, S: Iterable[int]) -> int:
        """The size of the largest independent subset of S."""
        return int(self._greedy(item_set("S", S, self.n_items)).size)

    def contains(self, S: Iterable[int]) -> bool:
        """Whether S is independent."""
        return self._fits(item_set("S", S, self.n_items))

    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over all items: True where the item is outside S and S plus it is independent."""
        return self._addable(self._independent(S))

    def span(self, S: Iterable[int]) -> Items:
        """All items, in order, that do not raise the rank of S (S among them); S may be dependent."""
        items = item_set("S", S, self.n_items)
        outside = self._addable(self._greedy(items))
        return np.flatnonzero(~outside)

    def circuit(self, S: Iterable[int], item: int) -> Items:
        """The items of an independent S that can make room for ``item``, which lies outside S.

        S - j + item is independent for exactly these j. All of S if S + item is independent already.
        """
        items = self._independent(S)
        number = one_item("item", item, self.n_items)
        if number in items:
            raise ValueError(f"item={number} is already in S; only an item outside S can be put in")
        return np.sort(items if self._addable(items)[number] else self._circuit(items, number))

    def _independent(self, S: Iterable[int]) -> Items:
        items = item_set("S", S, self.n_items)
        if not self._fits(items):
            raise ValueError(
                f"S={items.tolist()} is not independent in {self!r}; give a set that contains() accepts"
            )
        return items

    def maximize(self, w: ArrayLike, *, base: bool = False) -> Vector:
        """The indicator vector of an independent set with the largest total weight.

        Items with weight 0 or less are never taken, unless ``base=True`` asks for the heaviest base. Ties
        go to the smaller item. Exact: greedy by weight (Edmonds 1971).
        """
        return greedy_vertex(self._greedy, vector("w", w, length=self.n_items), base=base)

    def project_entropy(self, w: ArrayLike, *, log: bool = False, base: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w (generalised Kullback-Leibler).

        ``w`` is positive, or its logarithm with ``log=True`` (for weights that would over- or underflow). A
        point of the polytope is its own projection. Follow-the-regularised-leader with the regulariser sum
        x ln x and gains g at rate eta: ``project_entropy(eta * g, log=True, base=True)`` on bases; on the
        independence polytope subtract 1 from the logarithm, since x ln x = [x ln x - x] + x.

        ``gap`` in the result bounds the distance of the divergence from its minimum.
        """
        logs = log_weights(w, log=log, length=self.n_items)
        return projected(*self._entropic(logs, base=base))

    def project_euclidean(self, x: ArrayLike, *, base: bool = False) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``.

        ``gap`` bounds how far half the squared distance is above its minimum.
        """
        z = vector("x", x, length=self.n_items)
        return projected(*self._euclidean(z, base=base))

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether a point of the polytope differs from x by at most ``tol`` in each coordinate."""
        point = vector("x", x, length=self.n_items)
        slack = real("tol", tol, at_least=0.0)
        if (point < -slack).any() or (point > 1.0 + slack).any():
            return False
        order = np.argsort(-point, kind="stable")
        # The items with the largest entries are the likely culprits: their ranks cost one greedy pass.
        ranks = np.cumsum(np.isin(order, self._greedy(order), assume_unique=True))
        if (np.cumsum(point[order]) > ranks + slack * np.arange(1, order.size + 1)).any():
            return False
        one_block: Items = np.zeros(point.size, dtype=np.intp)
        face = np.clip(point, 0.0, 1.0), np.arange(point.size), one_block, int(self._sums_to_rank(point))
        near = self._nearest(*face, 200 + 40 * point.size)
        return bool(np.abs(near.x - point).max() <= slack + 1e-12)

    def _sums_to_rank(self, point: Vector) -> bool:
        """Whether the sum leaves no choice but bases."""
        return abs(float(point.sum()) - self.rank) <= 1e-12 * self.rank

    def decompose(self, x: ArrayLike) -> Decomposition:
        """``x`` as a convex combination of at most n_items + 1 independent sets.

        Found with the nearest-point method on the face of ``x``; ``residual`` says what rounding left
        (1e-12 or less per item). A point with many fractional entries takes several n_items steps of one
        greedy pass and n_items**2 operations each: up to a second for the 300 edges of a graph, seconds for
        600. Nested matroids (cardinality, partition, laminar) need no search, and `round` of graphic and
        transversal ones does without a decomposition.
        """
        point = vector("x", x, length=self.n_items)
        near = combination(
            self._nearest, self._greedy, np.clip(point, 0.0, 1.0), base=self._sums_to_rank(point)
        )
        miss = np.abs(near.x - point)
        if miss.max() > POLYTOPE_TOLERANCE:
            where = int(np.argmax(miss))
            raise ValueError(
                f"x is outside the polytope of {self!r} (the nearest point differs by {miss[where]:.3g} at "
                f"x[{where}]); call project_euclidean(x) first"
            )
        return decomposition(point, [np.flatnonzero(v > 0.5) for v in near.vertices], near.shares)

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random independent set that holds item i with probability x[i].

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        and f is never asked, so this is post-processing.

        Graphic and transversal matroids: pipage rounding (Ageev and Sviridenko 2004; Calinescu, Chekuri, Pal
        and Vondrak 2011). Entries move in pairs, one up and one down by the same, as far as the polytope
        allows and with the probabilities that keep both expectations. What it allows is found by flows in
        integer units of 2**-45, so that the set is independent whatever was rounded: a millisecond for the
        300 edges of a graph.

        All others: swap rounding (Chekuri, Vondrak and Zenklusen 2010). Most of the time goes into
        ``decompose``: to draw often from one point, decompose it once and call ``swap_round`` on the parts,
        which costs up to n_items * rank exchanges.
        """
        generator(rng)
        if self._flow is None:
            parts = self.decompose(x)
            return merge_sets(self, parts.sets, parts.weights, rng)
        point = vector("x", x, length=self.n_items)
        outside = np.flatnonzero((point < -POLYTOPE_TOLERANCE) | (point > 1.0 + POLYTOPE_TOLERANCE))
        if outside.size:
            where = int(outside[0])
            raise ValueError(f"x[{where}]={point[where]} is outside [0, 1]; call project_euclidean(x) first")
        support = np.flatnonzero(point > 0.0)
        uniforms = rng.random(self._uniforms(support))
        excess, items, kept = self._flow(self._oracle).round(support, point[support], uniforms)
        if excess > POLYTOPE_TOLERANCE * max(items, 1):
            raise ValueError(
                f"x is outside the polytope of {self!r} ({items} items exceed their rank by {excess:.3g});"
                " call project_euclidean(x) first"
            )
        chosen: Items = support[kept]
        if chosen.size < self.rank and self._sums_to_rank(point):
            # What a unit here and there has cost; ties go to the smaller item.
            chosen = np.sort(self._greedy(np.concatenate([chosen, support[~kept]])))
        return chosen.astype(np.intp, copy=False)

    def _uniforms(self, items: Items) -> int:
        """How many uniform numbers rounding by flows takes at the most."""
        raise NotImplementedError

    # --- for subclasses, and others that have checked their items ----------------------------------

    @property
    def _oracle(self) -> Any:
        """An oracle of one's own, as other threads may ask at the same time."""
        return self._table.fresh()

    def _fitting(self, items: Items, keep: int) -> NDArray[np.bool_]:
        """Which items fit when they are offered in turn; those among the first ``keep`` that do are taken."""
        fits: NDArray[np.bool_] = self._oracle.fitting(np.ascontiguousarray(items), keep)
        return fits

    def _greedy(self, order: Items) -> Items:
        """The items taken when those of ``order`` (distinct) are offered in turn and kept if independent."""
        return order[self._fitting(order, order.size)]

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        """Mask of items outside an independent set that keep it independent."""
        mask = self._addable_among(items, np.arange(self._n_items))
        mask[items] = False
        return mask

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        """For each candidate outside an independent set: whether it keeps the set independent."""
        return self._fitting(np.concatenate([items, candidates]), items.size)[items.size :]

    def _circuit(self, items: Items, item: int) -> Items:
        """The items of an independent set whose removal makes room for ``item`` (which does not fit)."""
        rooms = [other for other in items.tolist() if self._fits(np.append(items[items != other], item))]
        return np.array(rooms, dtype=np.intp)

    def _fits(self, items: Items) -> bool:
        return self._greedy(items).size == items.size

    def _nearest(
        self, target: Vector, items: Items, block: Items, tight_blocks: int, limit: int
    ) -> NearestPoint:
        """The nearest point to ``target`` on a face of the polytope; what is not among ``items`` is 0.

        ``block`` numbers the steps of the face's chain of tight sets; items from step ``tight_blocks`` on are
        free (in no tight set).
        """
        # Blocks one after the other, as loops go through them.
        order, rank = np.argsort(block, kind="stable"), self.rank
        search, ends = NearestPointSearch(self._oracle, items.size, rank), np.cumsum(np.bincount(block))
        gap, steps = search.run(
            items[order], target[order], ends, below=_NOTHING, tight=tight_blocks, most=rank, limit=limit
        )
        near, vertices = np.empty(items.size), np.empty((search.n_vertices, items.size))
        near[order], vertices[:, order] = search.x[: items.size], search.vertices(items.size)
        return NearestPoint(near, vertices, search.shares, gap, steps)

    def _euclidean(self, z: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """The nearest point of the polytope, its duality gap, and the steps taken."""
        order, target = close_gaps(z, base=base)
        oracle, items, n = self._oracle, np.arange(z.size), z.size
        search, limit = NearestPointSearch(oracle, n, self.rank), 200 + 40 * n
        _, steps = search.run(
            items, target, np.array([n]), below=_NOTHING, tight=int(base), most=self.rank, limit=limit
        )
        near: Vector = search.x[:n].copy()
        # Bases have one sum, so a common offset of z only costs precision.
        middle = order[n // 2] if base else n
        offset = z[middle] if middle < n else 0.0
        return near, max(0.0, self._gap(oracle, near - (z - offset), near, base=base)), steps

    def _entropic(self, log_w: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """The same for the generalised Kullback-Leibler divergence."""
        items, x, oracle = self._loose.copy(), np.zeros(log_w.size), self._oracle
        flow = None if self._flow is None else self._flow(oracle)
        split = EntropicSplit(oracle, self.rank, log_w, items, flow)
        split.solve(base=base)
        x[items] = np.exp(split.log_x[items])
        middle = log_w.size // 2
        offset = float(np.partition(log_w, middle)[middle]) if base else 0.0
        gradient = np.zeros(x.size)
        gradient[items] = split.log_x[items] - (log_w[items] - offset)
        # A violation within tolerance can make the gap negative; its size bounds the error either way.
        return x, abs(self._gap(oracle, gradient, x, base=base)), split.steps

    def _gap(self, oracle: Any, gradient: Vector, x: Vector, *, base: bool) -> float:
        """How much better than ``x`` the vertex is that the gradient likes best, to first order."""
        items = np.arange(x.size)
        places, fits = oracle.offered(
            items, gradient, below=_NOTHING, tight=int(base), keep=x.size, most=self.rank
        )
        beyond = x.copy()
        beyond[places[fits]] -= 1.0
        return float(gradient @ beyond)

    @cached_property
    def _loose(self) -> Items:
        """Items that are independent by themselves: all others are 0 at every point of the polytope."""
        return np.flatnonzero(self._addable(_NOTHING))

    def _merge_bases(self, one: Items, two: Items, given: Given) -> Items | None:
        """Two bases merged by exchanges, where there is a faster way than asking for each of them."""
        if not self._exchanges:
            return None
        has = np.zeros((2, self._n_items), dtype=np.bool_)
        has[0, one], has[1, two] = True, True
        masks = has[0] & has[1], has[0] & ~has[1], has[1] & ~has[0]
        common, first, second = (np.flatnonzero(mask) for mask in masks)
        if not first.size:
            return one
        kept = self._oracle.merge(common, first, second, given(first.size))
        return np.sort(np.concatenate([common, kept]))


class OracleMatroid(Matroid):
    """Built by ``Matroid.from_oracle``; every question costs at most n_items calls of the oracle."""

    def __init__(self, independent: Callable[[frozenset[int]], bool], n_items: int) -> None:
        size = whole("n_items", n_items, at_least=1)
        if not callable(independent):
            raise TypeError(
                f"independent must be a function of a frozenset of items, got {shown(independent)}"
            )
        super().__init__(AskedOracle(independent, size))
        if not independent(frozenset()):
            raise ValueError(
                "independent(frozenset()) is false; the empty set is independent in every matroid"
            )
        refuse_rank_zero(self, "independent() is false for every single item; check the oracle")

    def __repr__(self) -> str:
        return f"Matroid.from_oracle(..., n_items={self._n_items})"

    def _fits(self, items: Items) -> bool:
        return bool(self._table.independent(frozenset(items.tolist())))


class MatroidMinor(Matroid):
    """The items ``free`` of a matroid, on top of an independent set ``included``; renumbered from 0.

    A set of them is independent if it is together with ``included``: the matroid with ``included``
    contracted, and everything that is neither included nor free deleted. Minors of matroids are matroids.
    """

    def __init__(self, matroid: Matroid, included: Items, free: Items) -> None:
        super().__init__(MinorOracle(matroid._oracle, included, free))
        self._of = f"{included.size} in {matroid!r}"

    def __repr__(self) -> str:
        return f"MatroidMinor({self._n_items} items on top of {self._of})"


def refuse_rank_zero(matroid: Matroid, why: str) -> None:
    """An error for a matroid in which nothing can ever be chosen."""
    if matroid.rank == 0:
        raise ValueError(f"no item can be chosen: {why}")
