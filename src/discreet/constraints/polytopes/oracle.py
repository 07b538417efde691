"""A matroid given by a function that says which sets are independent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...core.checks import shown, whole
from ..matroids.matroid import Items, Matroid, refuse_rank_zero


class OracleMatroid(Matroid):
    """Built by ``Matroid.from_oracle``; every question costs at most n_items calls of the oracle."""

    def __init__(self, independent: Callable[[frozenset[int]], bool], n_items: int) -> None:
        super().__init__(whole("n_items", n_items, at_least=1))
        if not callable(independent):
            raise TypeError(
                f"independent must be a function of a frozenset of items, got {shown(independent)}"
            )
        self._independent_set = independent
        if not independent(frozenset()):
            raise ValueError(
                "independent(frozenset()) is false; the empty set is independent in every matroid"
            )
        refuse_rank_zero(self, "independent() is false for every single item; check the oracle")

    def __repr__(self) -> str:
        return f"Matroid.from_oracle(..., n_items={self._n_items})"

    def _fits(self, items: Items) -> bool:
        return bool(self._independent_set(frozenset(items.tolist())))

    def _greedy(self, order: Items) -> Items:
        taken: list[int] = []
        for item in order.tolist():
            if self._independent_set(frozenset([*taken, item])):
                taken.append(item)
        return np.array(taken, dtype=np.intp)

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        inside = frozenset(items.tolist())
        return np.array(
            [bool(self._independent_set(inside | {item})) for item in candidates.tolist()], dtype=np.bool_
        )

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        mask = np.zeros(self._n_items, dtype=np.bool_)
        inside = frozenset(items.tolist())
        for item in range(self._n_items):
            mask[item] = item not in inside and bool(self._independent_set(inside | {item}))
        return mask
