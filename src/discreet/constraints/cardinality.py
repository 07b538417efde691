"""The cardinality constraint: at most k items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import vector, whole
from .base import Items, ProjectedPoint, item_set, log_weights, projected
from .nested import NestedLimits, NestedMatroid
from .polytopes import scale_to_total, shift_to_total


class Cardinality(NestedMatroid):
    """At most k items, whichever they are (the uniform matroid).

    The ground set need not be named: vectors bring their length with them, and ``over(n_items)`` fixes it
    for the questions that need it (``addable``, ``span``, ``circuit``).

    >>> five = Cardinality(2)
    >>> five.contains([3, 8]), five.contains([1, 2, 3])
    (True, False)
    >>> five.maximize([0.1, 0.4, 0.3]).tolist()
    [0.0, 1.0, 1.0]
    >>> five.project_euclidean([1.0, 1.0, 0.5, 0.5]).tolist()
    [0.75, 0.75, 0.25, 0.25]
    """

    def __init__(self, k: int, n_items: int | None = None) -> None:
        self.k = whole("k", k, at_least=1)
        self._known_size = None if n_items is None else whole("n_items", n_items, at_least=1)
        if self._known_size is not None:
            self._refuse_small(self._known_size)
        # The limits for the ground set last met; rounding in a loop meets the same one again and again.
        self._latest: NestedLimits | None = None

    def _arguments(self) -> dict[str, Any]:
        return {"k": self.k, "n_items": self._known_size}

    def __repr__(self) -> str:
        size = "" if self._known_size is None else f", n_items={self._known_size}"
        return f"Cardinality({self.k}{size})"

    def _refuse_small(self, n_items: int) -> None:
        if self.k > n_items:
            raise ValueError(f"k={self.k} exceeds n_items={n_items}; choose k <= {n_items}")

    @property
    def n_items(self) -> int | None:
        """The size of the ground set, or None while it is not known."""
        return self._known_size

    @property
    def rank(self) -> int:
        """k; a ground set with fewer items than that is refused."""
        return self.k

    def over(self, n_items: int) -> Self:
        """The same limit on the ground set 0..n_items-1."""
        if self._known_size is not None:
            return super().over(n_items)
        return type(self)(self.k, n_items)

    @property
    def _bound_limits(self) -> NestedLimits:
        if self._known_size is None:
            raise ValueError(f"{self!r} does not know its ground set; call over(n_items) first")
        return self._limits(self._known_size)

    def _limits(self, n_items: int) -> NestedLimits:
        if self._latest is None or self._latest.n_items != n_items:
            self._refuse_small(n_items)
            self._latest = NestedLimits(n_items, [np.arange(n_items)], np.array([self.k]))
        return self._latest

    def _greedy(self, order: Items) -> Items:
        return order[: self.k]

    def _fits(self, items: Items) -> bool:
        return items.size <= self.k

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        if self._known_size is None:
            raise ValueError(f"{self!r} does not know its ground set; call over(n_items) first")
        mask = np.full(self._known_size, items.size < self.k)
        mask[items] = False
        return mask

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        return np.full(candidates.size, items.size < self.k)

    def _circuit(self, items: Items, item: int) -> Items:
        del item  # a full set makes room for any item by giving up any of its own
        return items

    def rank_of(self, S: Iterable[int]) -> int:
        """The smaller of k and the size of S."""
        return min(self.k, item_set("S", S, self._known_size).size)

    def project_entropy(self, w: ArrayLike, *, log: bool = False, base: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w: min(1, s w), s in closed form.

        ``base=True`` asks for a point whose entries sum to k; with ``log=True``, ``w`` holds logarithms. The
        entropic regulariser sum x ln x is this one with 1 subtracted from the logarithms (which makes no
        difference on bases).
        """
        logs = log_weights(w, log=log, length=self._known_size)
        self._refuse_small(logs.size)
        log_x = np.zeros_like(logs) if base else np.minimum(0.0, logs)
        if float(np.exp(log_x).sum()) > self.k:
            log_x = scale_to_total(logs, log_x, float(self.k))
        return projected(np.exp(log_x))

    def project_euclidean(self, x: ArrayLike, *, base: bool = False) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``: clip(x - t, 0, 1), t in closed form.

        ``base=True`` asks for a point whose entries sum to k.
        """
        z = vector("x", x, length=self._known_size)
        self._refuse_small(z.size)
        upper = np.ones_like(z) if base else np.clip(z, 0.0, 1.0)
        return projected(shift_to_total(z, upper, float(self.k)) if float(upper.sum()) > self.k else upper)

    def maximize(self, w: ArrayLike, *, base: bool = False) -> NDArray[np.float64]:
        """The indicator vector of the k largest weights; 0 and less are left out unless ``base=True``.

        Ties go to the smaller item.
        """
        weights = vector("w", w, length=self._known_size)
        self._refuse_small(weights.size)
        smallest = np.partition(weights, weights.size - self.k)[weights.size - self.k]
        x: NDArray[np.float64] = (weights > smallest).astype(np.float64)
        ties = np.flatnonzero(weights == smallest)
        x[ties[: self.k - int(x.sum())]] = 1.0
        if not base:
            x[weights <= 0.0] = 0.0
        return x
