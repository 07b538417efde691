"""Several constraints at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from .constraint import Constraint, SetsOnly
from .items import item_set
from .matroids.matroid import Matroid


class Intersection(SetsOnly):
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

    _why = "is not that of the parts of an intersection"

    def __init__(self, *constraints: Constraint) -> None:
        if not constraints:
            raise ValueError("constraints is empty; give at least one constraint")
        for place, constraint in enumerate(constraints):
            if not isinstance(constraint, Constraint):
                raise TypeError(f"constraints[{place}] must be a Constraint, got {checks.shown(constraint)}")
        sizes = {c.n_items for c in constraints if c.n_items is not None}
        if len(sizes) > 1:
            raise ValueError(f"the constraints are over different ground sets: {sorted(sizes)} items")
        size = sizes.pop() if sizes else None
        self.constraints = constraints if size is None else tuple(c.over(size) for c in constraints)
        self._size = size

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, self.constraints))})"

    @property
    def n_items(self) -> int | None:
        """The size of the ground set, or None while no part knows it."""
        return self._size

    @property
    def rank(self) -> int:
        """A bound on the size of the largest feasible set: the smallest rank of the parts."""
        return min(constraint.rank for constraint in self.constraints)

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
