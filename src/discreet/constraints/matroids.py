"""Matroids: feasible sets that can be exchanged item by item, so that greedy is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import real, shown, vector, whole
from ..kernels.matroids import AskedOracle, MinorOracle
from .base import (
    POLYTOPE_TOLERANCE,
    Constraint,
    Decomposition,
    Items,
    ProjectedPoint,
    Vector,
    generator,
    item_set,
    log_weights,
    one_item,
    projected,
)
from .polytopes import IndependentSets


class Matroid(Constraint):
    """A matroid over items 0..n_items-1.

    The polytope is that of the independent sets, {x >= 0 : x(A) <= rank(A) for all A}; ``base=True`` asks
    for the face of its bases, where x sums to the rank: the size of every base. ``sets`` answers for items
    and points that were checked: `IndependentSets`, or `NestedLimits` in closed form.
    """

    def __init__(self, sets: Any, nothing: str) -> None:
        self._sets, self.n_items, self.rank = sets, sets.n_items, sets.rank
        if not self.rank:
            raise ValueError(f"no item can be chosen: {nothing}")

    @staticmethod
    def from_oracle(independent: Callable[[frozenset[int]], bool], n_items: int) -> Matroid:
        """The matroid whose independent sets are those for which ``independent(frozenset_of_items)`` is true.

        The answers must satisfy the matroid axioms, which are too many to check. Every question costs at most
        n_items calls.

        >>> m = Matroid.from_oracle(lambda s: len(s) <= 2 and not {0, 1} <= s, n_items=4)
        >>> m.rank, m.contains([0, 2]), m.contains([0, 1])
        (2, True, False)
        """
        return OracleMatroid(independent, n_items)

    def _sets_over(self, n_items: int) -> Any:
        """The independent sets of a ground set of this size, which was checked to be ours."""
        del n_items
        return self._sets

    def rank_of(self, S: Iterable[int]) -> int:
        """The size of the largest independent subset of S."""
        return int(self._sets.greedy(item_set("S", S, self.n_items)).size)

    def contains(self, S: Iterable[int]) -> bool:
        """Whether S is independent."""
        return bool(self._sets.fits(item_set("S", S, self.n_items)))

    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over all items: True where the item is outside S and S plus it is independent."""
        mask: NDArray[np.bool_] = self._sets.addable(self._independent(S))
        return mask

    def span(self, S: Iterable[int]) -> Items:
        """All items, in order, that do not raise the rank of S (S among them); S may be dependent."""
        items = item_set("S", S, self.n_items)
        return np.flatnonzero(~self._sets.addable(self._sets.greedy(items)))

    def circuit(self, S: Iterable[int], item: int) -> Items:
        """The items of an independent S that can make room for ``item``, which lies outside S.

        S - j + item is independent for exactly these j. All of S if S + item is independent already.
        """
        items = self._independent(S)
        number = one_item("item", item, self.n_items)
        if number in items:
            raise ValueError(f"item={number} is already in S; only an item outside S can be put in")
        return np.sort(items if self._sets.addable(items)[number] else self._sets.circuit(items, number))

    def _independent(self, S: Iterable[int]) -> Items:
        items = item_set("S", S, self.n_items)
        if not self._sets.fits(items):
            raise ValueError(
                f"S={items.tolist()} is not independent in {self!r}; give a set that contains() accepts"
            )
        return items

    def maximize(self, w: ArrayLike, *, base: bool = False) -> Vector:
        """The indicator vector of an independent set with the largest total weight.

        Items with weight 0 or less are never taken, unless ``base=True`` asks for the heaviest base. Ties
        go to the smaller item. Exact: greedy by weight (Edmonds 1971).
        """
        weights = vector("w", w, length=self.n_items)
        order = np.argsort(-weights, kind="stable")
        if not base:
            order = order[weights[order] > 0.0]
        x = np.zeros(weights.size)
        x[self._sets_over(weights.size).greedy(order)] = 1.0
        return x

    def project_entropy(self, w: ArrayLike, *, log: bool = False, base: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w (generalised Kullback-Leibler).

        ``w`` is positive, or its logarithm with ``log=True`` (for weights that would over- or underflow). A
        point of the polytope is its own projection. Follow-the-regularised-leader with the regulariser sum
        x ln x and gains g at rate eta: ``project_entropy(eta * g, log=True, base=True)`` on bases; on the
        independence polytope subtract 1 from the logarithm, since x ln x = [x ln x - x] + x.

        ``gap`` in the result bounds the distance of the divergence from its minimum.
        """
        logs = log_weights(w, log=log, length=self.n_items)
        return projected(*self._sets_over(logs.size).project_entropy(logs, base=base))

    def project_euclidean(self, x: ArrayLike, *, base: bool = False) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``.

        ``gap`` bounds how far half the squared distance is above its minimum.
        """
        z = vector("x", x, length=self.n_items)
        return projected(*self._sets_over(z.size).project_euclidean(z, base=base))

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether every entry lies in [0, 1] and a point of the polytope is within ``tol`` of each.

        For nested limits: whether no limit is exceeded by more than ``tol``.
        """
        point = vector("x", x, length=self.n_items)
        slack = real("tol", tol, at_least=0.0)
        if (point < -slack).any() or (point > 1.0 + slack).any():
            return False
        return bool(self._sets_over(point.size).holds(point, slack))

    def decompose(self, x: ArrayLike) -> Decomposition:
        """``x`` as a convex combination of at most n_items + 1 independent sets.

        ``residual`` says what rounding left (1e-12 or less per item). Nested matroids (cardinality,
        partition, laminar) read the sets off systematic samples. For others they are found with the
        nearest-point method on the face of ``x``: a point with many fractional entries takes several n_items
        steps of one greedy pass and n_items**2 operations each, up to a second for the 300 edges of a graph,
        seconds for 600. `round` of graphic and transversal matroids does without a decomposition.
        """
        point = self._entries(x)
        found: Decomposition = self._sets_over(point.size).decompose(point)
        return found

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random independent set that holds item i with probability x[i].

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        and f is never asked, so this is post-processing.

        Nested matroids: pivotal rounding inside every group, which keeps each group's sum rounded down or up.
        Graphic and transversal ones: pipage rounding (Ageev and Sviridenko 2004; Calinescu, Chekuri, Pal
        and Vondrak 2011). Entries move in pairs, one up and one down by the same, as far as the polytope
        allows and with the probabilities that keep both expectations. What it allows is found by flows in
        integer units of 2**-45, so that the set is independent whatever was rounded: a millisecond for the
        300 edges of a graph.

        All others: swap rounding (Chekuri, Vondrak and Zenklusen 2010). Most of the time goes into
        ``decompose``: to draw often from one point, decompose it once and call ``swap_round`` on the parts,
        which costs up to n_items * rank exchanges.
        """
        point = self._entries(x)
        chosen: Items = self._sets_over(point.size).round(point, generator(rng))
        return chosen


class OracleMatroid(Matroid):
    """Built by ``Matroid.from_oracle``."""

    def __init__(self, independent: Callable[[frozenset[int]], bool], n_items: int) -> None:
        size = whole("n_items", n_items, at_least=1)
        if not callable(independent):
            raise TypeError(
                f"independent must be a function of a frozenset of items, got {shown(independent)}"
            )
        if not independent(frozenset()):
            raise ValueError(
                "independent(frozenset()) is false; the empty set is independent in every matroid"
            )
        sets = IndependentSets(AskedOracle(independent, size))
        super().__init__(sets, "independent() is false for every single item; check the oracle")

    def __repr__(self) -> str:
        return f"Matroid.from_oracle(..., n_items={self.n_items})"


class MatroidMinor(Matroid):
    """The items ``free`` of a matroid, on top of an independent set ``included``; renumbered from 0.

    A set of them is independent if it is together with ``included``: the matroid with ``included``
    contracted, and everything that is neither included nor free deleted. Minors of matroids are matroids.
    """

    def __init__(self, matroid: Matroid, included: Items, free: Items) -> None:
        sets = IndependentSets(MinorOracle(matroid._sets.oracle, included, free))
        super().__init__(sets, "nothing fits beside what is included")
        self._of = f"{included.size} in {matroid!r}"

    def __repr__(self) -> str:
        return f"MatroidMinor({self.n_items} items on top of {self._of})"
