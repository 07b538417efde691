"""Laminar matroids: limits on groups of items that are nested or disjoint."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.checks import real, vector
from ..constraint import POLYTOPE_TOLERANCE, generator, log_weights
from ..items import capacity_list, list_of_sets
from ..polytopes.nested import NestedLimits, OverlapError
from ..results import Decomposition, ProjectedPoint, projected
from .matroid import Items, Matroid, refuse_rank_zero


class NestedMatroid(Matroid):
    """A matroid whose independent sets keep limits on nested groups; every operation is exact.

    What rounding loses: nothing. E f(round(x)) >= F(x) for every submodular f, and every item is chosen with
    probability x[i]; each group gets its sum of x rounded down or up.
    """

    @abstractmethod
    def _limits(self, n_items: int) -> NestedLimits:
        """The limits on a ground set of this size."""

    @property
    def _bound_limits(self) -> NestedLimits:
        return self._limits(self._n_items)

    def _greedy(self, order: Items) -> Items:
        return self._bound_limits.greedy(order)

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        return self._bound_limits.addable(items)

    def _fits(self, items: Items) -> bool:
        return self._bound_limits.contains(items)

    def _circuit(self, items: Items, item: int) -> Items:
        return self._bound_limits.circuit(items, item)

    def maximize(self, w: ArrayLike, *, base: bool = False) -> NDArray[np.float64]:
        """The indicator vector of an independent set with the largest total weight.

        Items with weight 0 or less are never taken, unless ``base=True`` asks for the heaviest base. Ties
        go to the smaller item.
        """
        weights = vector("w", w, length=self.n_items)
        order = np.argsort(-weights, kind="stable")
        if not base:
            order = order[weights[order] > 0.0]
        x = np.zeros(weights.size)
        x[self._limits(weights.size).greedy(order)] = 1.0
        return x

    def project_entropy(self, w: ArrayLike, *, log: bool = False, base: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w, in closed form.

        ``w`` is positive, or its logarithm with ``log=True`` (for weights that would over- or underflow). A
        point of the polytope is its own projection. Follow-the-regularised-leader with the regulariser sum
        x ln x and gains g at rate eta: ``project_entropy(eta * g, log=True, base=True)`` on bases; on the
        independence polytope subtract 1 from the logarithm, since x ln x = [x ln x - x] + x.
        """
        logs = log_weights(w, log=log, length=self.n_items)
        return projected(self._limits(logs.size).project_entropy(logs, base=base))

    def project_euclidean(self, x: ArrayLike, *, base: bool = False) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``, in closed form."""
        z = vector("x", x, length=self.n_items)
        return projected(self._limits(z.size).project_euclidean(z, base=base))

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether every entry lies in [0, 1] and every group within its capacity, each up to ``tol``."""
        point = vector("x", x, length=self.n_items)
        slack = real("tol", tol, at_least=0.0)
        if (point < -slack).any() or (point > 1.0 + slack).any():
            return False
        return self._limits(point.size).excess(point) <= slack

    def decompose(self, x: ArrayLike) -> Decomposition:
        """``x`` as a convex combination of at most n_items + 1 independent sets, exact to 2**-52.

        Systematic sampling with the groups laid out contiguously, read off at every place where the sample
        changes.
        """
        point = self._point(x)
        return self._limits(point.size).decompose(point)

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random independent set that holds item i with probability x[i], by pivotal rounding.

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        and f is never asked, so this is post-processing.
        """
        point = self._point(x)
        return self._limits(point.size).round(point, generator(rng))


class LaminarMatroid(NestedMatroid):
    """At most ``capacities[g]`` items out of each set ``family[g]``; any two sets are disjoint or nested.

    ``capacities`` is one number for all sets or one per set. Items in no set are not limited. ``n_items``
    defaults to one past the largest item named.

    >>> shelf = LaminarMatroid([[0, 1], [0, 1, 2, 3]], capacities=[1, 2])
    >>> shelf.rank, shelf.contains([0, 2]), shelf.contains([0, 1])
    (2, True, False)
    >>> shelf.project_euclidean([1.0, 0.5, 1.0, 0.0]).tolist()
    [0.75, 0.25, 1.0, 0.0]
    """

    def __init__(
        self, family: Iterable[Iterable[int]], capacities: int | Sequence[int], *, n_items: int | None = None
    ) -> None:
        sets, size = list_of_sets("family", family, n_items)
        super().__init__(size)
        try:
            self._fixed_limits = NestedLimits(
                size, sets, capacity_list(capacities, len(sets), "sets in family")
            )
        except OverlapError as error:
            raise ValueError(
                f"family[{error.first}] and family[{error.second}] overlap but neither holds the other; "
                "a laminar family is nested or disjoint"
            ) from None
        refuse_rank_zero(self, f"capacities={capacities!r} leave no room for any item; raise one of them")

    def _limits(self, n_items: int) -> NestedLimits:
        del n_items  # already checked to be ours
        return self._fixed_limits

    def __repr__(self) -> str:
        return f"LaminarMatroid({len(self._fixed_limits.groups)} sets over {self._n_items} items)"
