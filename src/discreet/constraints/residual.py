"""Constraints derived from others: intersections, and what remains once items are included or excluded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..core.checks import shown
from .base import Constraint, Items, item_set
from .knapsack import RELATIVE_SLACK, Knapsack
from .matroids import Matroid, MatroidMinor
from .nested import Cardinality, LaminarMatroid, PartitionMatroid


class Intersection(Constraint):
    """Sets that all of the given constraints allow.

    An intersection of p matroids is p-extendible: an item can be added to a feasible set after removing at
    most p others. Greedy then achieves at least 1/(p + 1) of the best set's value (Fisher, Nemhauser and
    Wolsey 1978); ``extendible`` is that p, or None where some constraint is not known to have one. Its
    polytope is not the intersection of its parts' polytopes, so the polytope operations are refused.

    >>> from discreet.constraints import Cardinality, PartitionMatroid
    >>> both = Intersection(Cardinality(2), PartitionMatroid([[0, 1], [2, 3], [4]], capacities=1))
    >>> both.rank, both.extendible, both.contains([0, 2]), both.contains([0, 1]), both.contains([0, 2, 4])
    (2, 2, True, False, False)
    """

    _no_polytope = "is not that of the parts of an intersection"

    def __init__(self, *constraints: Constraint) -> None:
        if not constraints:
            raise ValueError("constraints is empty; give at least one constraint")
        for place, constraint in enumerate(constraints):
            if not isinstance(constraint, Constraint):
                raise TypeError(f"constraints[{place}] must be a Constraint, got {shown(constraint)}")
        sizes = {c.n_items for c in constraints if c.n_items is not None}
        if len(sizes) > 1:
            raise ValueError(f"the constraints are over different ground sets: {sorted(sizes)} items")
        size = sizes.pop() if sizes else None
        self.constraints = constraints if size is None else tuple(c.over(size) for c in constraints)
        self.n_items = size
        self.rank = min(constraint.rank for constraint in self.constraints)  # an upper bound

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, self.constraints))})"

    @property
    def extendible(self) -> int | None:
        """The p for which the intersection is p-extendible; None where that is not known of a part."""
        each = [
            1 if isinstance(constraint, Matroid) else getattr(constraint, "extendible", None)
            for constraint in self.constraints
        ]
        return None if any(p is None for p in each) else sum(p for p in each if p is not None)

    def over(self, n_items: int) -> Self:
        """The same constraints on the ground set 0..n_items-1."""
        return type(self)(*(constraint.over(n_items) for constraint in self.constraints))

    def contains(self, S: Iterable[int]) -> bool:
        """Whether every part allows S."""
        items = item_set("S", S, self.n_items)
        return all(constraint.contains(items) for constraint in self.constraints)

    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over all items: True where the item is outside S and every part allows S plus it."""
        items = item_set("S", S, self.n_items)
        mask = self.constraints[0].addable(items)
        for constraint in self.constraints[1:]:
            mask = mask & constraint.addable(items)
        return mask


class Rest(Constraint):
    """The sets of ``free`` items that a constraint allows on top of ``included``, renumbered from 0."""

    _no_polytope = "is not known for what is left of a constraint"

    def __init__(self, constraint: Constraint, included: Items, free: Items) -> None:
        self._constraint, self._included, self._free = constraint, included, free
        self.n_items = int(free.size)
        self.rank = min(constraint.rank - int(included.size), self.n_items)  # an upper bound

    def __repr__(self) -> str:
        return f"Rest({self._free.size} items on top of {self._included.size} in {self._constraint!r})"

    @property
    def extendible(self) -> int | None:
        """That of the full constraint: the items removed for a new one need not be included ones."""
        found = getattr(self._constraint, "extendible", None)
        return found if isinstance(found, int) else None

    def contains(self, S: Iterable[int]) -> bool:
        """Whether S may be added."""
        return self._constraint.contains(self._whole(S))

    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over the items: True where the item may be added to S."""
        return self._constraint.addable(self._whole(S))[self._free]

    def _whole(self, S: Iterable[int]) -> Items:
        return np.concatenate([self._included, self._free[item_set("S", S, self.n_items)]])


def rest_of(constraint: Constraint, included: Items, free: Items) -> Constraint:
    """The constraint on ``free`` items, each of which fits on top of ``included``.

    It is of the same kind where possible, so that what is known about the kind holds for the rest. A
    user-defined class may behave differently, so it is queried (`Rest`).
    """
    kind = type(constraint)
    if kind is Cardinality:
        return Cardinality(min(constraint.rank - included.size, free.size), int(free.size))
    if kind is PartitionMatroid or kind is LaminarMatroid:
        assert isinstance(constraint, PartitionMatroid | LaminarMatroid)
        limits = constraint._sets
        places = np.full(limits.n_items, -1, dtype=np.intp)
        places[free] = np.arange(free.size)
        groups, capacities = [], []
        for group, capacity in zip(limits.groups, limits.capacities.tolist(), strict=True):
            open_items = places[group]
            if (open_items >= 0).any():
                groups.append(open_items[open_items >= 0])
                capacities.append(capacity - int(np.isin(group, included).sum()))
        return type(constraint)(groups, capacities, n_items=int(free.size))
    if isinstance(constraint, Matroid):
        return MatroidMinor(constraint, included, free)
    if kind is Knapsack:
        assert isinstance(constraint, Knapsack)
        # Use half of the full capacity's slack for rounding, so that what fits here also fits there.
        limit = constraint.capacity * (1.0 + RELATIVE_SLACK / 2.0)
        left = max(0.0, limit - math.fsum(constraint.costs[included])) / (1.0 + RELATIVE_SLACK)
        return Knapsack(constraint.costs[free], max(left, float(constraint.costs[free].min())))
    if kind is Intersection:
        assert isinstance(constraint, Intersection)
        return Intersection(*(rest_of(part, included, free) for part in constraint.constraints))
    return Rest(constraint, included, free)
