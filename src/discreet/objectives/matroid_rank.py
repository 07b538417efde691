"""Weighted rank functions of a matroid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..constraints import Matroid
from ..core import checks
from .base import Floats, Items, Population
from .rows import as_sparse, checked


class MatroidRank(Population):
    """f(S) = the largest total weight of an independent subset of S, by the person's own weights.

    ``matroid`` is public and the same for everybody; ``weights``: people x items, nonnegative, private. With
    weights of 0 and 1 it is the rank of the items that a person likes: how many of them can be used at once.
    Under `Cardinality(1)` it is `FacilityLocation`. Monotone submodular (paper 003, Section 1). ``bound``: a
    public bound of f, 1 unless declared: no person's heaviest base may be heavier.

    The heaviest independent subset B is found greedily by weight. Let b be the first item of B, by falling
    weight, with which B spans item j: j adds its weight minus that of b, and all its weight if B never spans
    it. A value takes one pass over a person's items, and gains take one call to the matroid for each item of
    B, so this is for thousands of people rather than millions.

    >>> from discreet.constraints import PartitionMatroid
    >>> one_of_each = PartitionMatroid([[0, 1], [2, 3]], [1, 1])
    >>> people = MatroidRank(one_of_each, [[0.5, 0.25, 0.5, 0.0]])
    >>> people.value([0, 1]), people.gains([1]).tolist()
    (0.5, [0.25, 0.0, 0.5, 0.0])
    """

    def __init__(
        self,
        matroid: Matroid,
        weights: Any,
        *,
        bound: float | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        checks.instance("matroid", matroid, Matroid, "constraints.Cardinality(2)")
        self._weights = as_sparse(checked("weights", weights))
        self.n_items = self._weights.n_columns
        self.matroid = matroid.over(self.n_items)
        self._name_items(labels)
        self._declare(bound)

    def __len__(self) -> int:
        return self._weights.n_rows

    def _rows(self) -> Iterable[Floats]:
        for i in range(len(self)):
            yield self._weights.row(i).toarray()[0]

    def _heaviest(self, weights: Floats, items: Items) -> Items:
        """The heaviest independent subset of ``items``, by falling weight."""
        inside = np.zeros(self.n_items)
        inside[items] = weights[items]
        chosen = np.flatnonzero(self.matroid.maximize(inside))
        return chosen[np.argsort(-weights[chosen], kind="stable")]

    def _value(self, items: Items) -> float:
        return sum(float(w[self._heaviest(w, items)].sum()) for w in self._rows()) / len(self)

    def _gains(self, items: Items) -> Floats:
        total = np.zeros(self.n_items)
        for weights in self._rows():
            heaviest = self._heaviest(weights, items)
            free = self.matroid.addable([])
            taken = np.where(free, 0.0, weights)  # an item that is dependent by itself adds nothing
            for count, item in enumerate(heaviest.tolist(), 1):
                left = self.matroid.addable(heaviest[:count])
                taken[free & ~left] = weights[item]
                free = left
            total += np.maximum(weights - taken, 0.0)
        return total / len(self)

    def _contributions(self, items: Items) -> Floats:
        return np.maximum(super()._contributions(items), 0.0)

    def _take(self, rows: Items) -> Self:
        return self._like(_weights=self._weights.take(rows))

    def _most_items(self) -> int:
        return int(np.diff(self._weights.indptr).max())

    def _largest(self) -> Floats:
        everything = np.arange(self.n_items)
        return np.array([w[self._heaviest(w, everything)].sum() for w in self._rows()])
