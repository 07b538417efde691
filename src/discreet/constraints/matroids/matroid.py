"""Matroids: feasible sets that can be exchanged item by item, so that greedy is exact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.checks import real, vector
from ..constraint import POLYTOPE_TOLERANCE, Constraint, generator, log_weights
from ..items import item_set, one_item
from ..polytopes import polytope
from ..polytopes.faces import combination, nearest_on_face
from ..polytopes.nearest_point import NearestPoint
from ..results import Decomposition, ProjectedPoint, decomposition, projected
from ..rounding import Given, merge_sets

Items = NDArray[np.intp]
Vector = NDArray[np.float64]


class Matroid(Constraint):
    """A matroid over items 0..n_items-1.

    A subclass decides independence through two private methods on checked items: ``_greedy`` (offer items
    in order and take each that keeps independence) and ``_addable``. Everything else follows from them;
    subclasses with more structure answer faster.

    The polytope is that of the independent sets, {x >= 0 : x(A) <= rank(A) for all A}; ``base=True`` asks
    for the face of its bases, where x sums to the rank.
    """

    def __init__(self, n_items: int) -> None:
        self._n_items = n_items

    @staticmethod
    def from_oracle(independent: Callable[[frozenset[int]], bool], n_items: int) -> Matroid:
        """The matroid whose independent sets are those for which ``independent(frozenset_of_items)`` is true.

        The answers must satisfy the matroid axioms, which are too many to check.

        >>> m = Matroid.from_oracle(lambda s: len(s) <= 2 and not {0, 1} <= s, n_items=4)
        >>> m.rank, m.contains([0, 2]), m.contains([0, 1])
        (2, True, False)
        """
        from ..polytopes.oracle import OracleMatroid

        return OracleMatroid(independent, n_items)

    @abstractmethod
    def _greedy(self, order: Items) -> Items:
        """The items taken when those of ``order`` (distinct) are offered in turn and kept if independent."""

    @abstractmethod
    def _addable(self, items: Items) -> NDArray[np.bool_]:
        """Mask of items outside an independent set that keep it independent."""

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        """For each candidate outside an independent set: whether it keeps the set independent."""
        return self._addable(items)[candidates]

    def _circuit(self, items: Items, item: int) -> Items:
        """The items of an independent set whose removal makes room for ``item`` (which does not fit)."""
        rooms = [other for other in items.tolist() if self._fits(np.append(items[items != other], item))]
        return np.array(rooms, dtype=np.intp)

    def _fits(self, items: Items) -> bool:
        return self._greedy(items).size == items.size

    def _nearest(
        self, target: Vector, items: Items, block: Items, tight_blocks: int, limit: int
    ) -> NearestPoint:
        """The nearest point to ``target`` on a face of the polytope; see `nearest_on_face`."""
        return nearest_on_face(self._greedy, target, items, block, tight_blocks, limit)

    def _euclidean(self, z: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """The nearest point of the polytope, its duality gap, and the steps taken."""
        return polytope.euclidean(self._nearest, self._greedy, z, base=base)

    def _entropic(self, log_w: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """The same for the generalised Kullback-Leibler divergence."""
        return polytope.entropic(self._greedy, self._addable, log_w, base=base)

    def _merge_bases(self, one: Items, two: Items, given: Given) -> Items | None:
        """Two bases merged by exchanges, where there is a faster way than asking for each of them."""
        del one, two, given
        return None

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

    def maximize(self, w: ArrayLike, *, base: bool = False) -> NDArray[np.float64]:
        """The indicator vector of an independent set with the largest total weight.

        Items with weight 0 or less are never taken, unless ``base=True`` asks for the heaviest base. Ties
        go to the smaller item. Exact: greedy by weight (Edmonds 1971).
        """
        return polytope.greedy_vertex(self._greedy, vector("w", w, length=self.n_items), base=base)

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
        near = polytope.nearest_in_polytope(
            self._nearest, np.clip(point, 0.0, 1.0), base=self._sums_to_rank(point)
        )
        return bool(np.abs(near.x - point).max() <= slack + 1e-12)

    def _sums_to_rank(self, point: NDArray[np.float64]) -> bool:
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
        """A random independent set that holds item i with probability x[i], by swap rounding.

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        and f is never asked, so this is post-processing (Chekuri, Vondrak and Zenklusen 2010). Most of the
        time goes into ``decompose``: to draw often from one point, decompose it once and call
        ``swap_round`` on the parts, which costs up to n_items * rank exchanges.
        """
        generator(rng)
        parts = self.decompose(x)
        return merge_sets(self, parts.sets, parts.weights, rng)


def refuse_rank_zero(matroid: Matroid, why: str) -> None:
    """An error for a matroid in which nothing can ever be chosen."""
    if matroid.rank == 0:
        raise ValueError(f"no item can be chosen: {why}")
