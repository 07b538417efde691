"""Constraints made of others: several at once, and what is left once some items are in and others out."""

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
    """Sets that every one of the given constraints allows.

    An intersection of p matroids is p-extendible: whatever is put into a feasible set, taking out p of the
    others at most makes room for it. Greedy is then worth at least 1/(p + 1) of the best set (Fisher,
    Nemhauser and Wolsey 1978); ``extendible`` is that p, or None where some constraint is not known to
    have one. Its polytope is not that of its parts, so the polytope operations are refused.

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
        self.rank = min(constraint.rank for constraint in self.constraints)  # a bound of it

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, self.constraints))})"

    @property
    def extendible(self) -> int | None:
        """p such that the intersection is p-extendible; None where a part is not known to be."""
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
    """What any constraint lets be added to a set, out of some of its items; renumbered from 0."""

    _no_polytope = "is not known for what is left of a constraint"

    def __init__(self, constraint: Constraint, included: Items, free: Items) -> None:
        self._constraint, self._included, self._free = constraint, included, free
        self.n_items = int(free.size)
        self.rank = min(constraint.rank - int(included.size), self.n_items)  # a bound of it

    def __repr__(self) -> str:
        return f"Rest({self._free.size} items on top of {self._included.size} in {self._constraint!r})"

    @property
    def extendible(self) -> int | None:
        """That of the whole constraint: what is taken out to make room need not be among the included."""
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
    """``constraint`` on top of ``included``, over ``free`` alone, each of which fits.

    Of the same kind where there is one, so that what is known about the kind is known about the rest. A class
    of somebody's own may decide otherwise, and is asked.
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
        # With half the slack for rounding, of the whole capacity, so that what fits here fits there.
        limit = constraint.capacity * (1.0 + RELATIVE_SLACK / 2.0)
        left = max(0.0, limit - math.fsum(constraint.costs[included])) / (1.0 + RELATIVE_SLACK)
        return Knapsack(constraint.costs[free], max(left, float(constraint.costs[free].min())))
    if kind is Intersection:
        assert isinstance(constraint, Intersection)
        return Intersection(*(rest_of(part, included, free) for part in constraint.constraints))
    return Rest(constraint, included, free)
