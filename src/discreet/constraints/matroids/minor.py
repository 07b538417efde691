"""Minors: what a matroid lets be added to a set, out of some of its items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .matroid import Items, Matroid


class MatroidMinor(Matroid):
    """The items ``free`` of a matroid, on top of an independent set ``included``; renumbered from 0.

    A set of them is independent if it is together with ``included``: the matroid with ``included``
    contracted, and everything that is neither included nor free deleted. Minors of matroids are matroids.
    """

    def __init__(self, matroid: Matroid, included: Items, free: Items) -> None:
        super().__init__(int(free.size))
        self._matroid, self._included, self._free = matroid, included, free
        self._places = np.full(matroid.n_items or 0, -1, dtype=np.intp)
        self._places[free] = np.arange(free.size)

    def __repr__(self) -> str:
        return f"MatroidMinor({self._free.size} items on top of {self._included.size} in {self._matroid!r})"

    def _whole(self, items: Items) -> Items:
        return np.concatenate([self._included, self._free[items]])

    def _own(self, items: Items) -> Items:
        places = self._places[items]
        return places[places >= 0]

    def _greedy(self, order: Items) -> Items:
        return self._own(self._matroid._greedy(self._whole(order)))

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        return self._matroid._addable(self._whole(items))[self._free]

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        return self._matroid._addable_among(self._whole(items), self._free[candidates])

    def _circuit(self, items: Items, item: int) -> Items:
        return self._own(self._matroid._circuit(self._whole(items), int(self._free[item])))

    def _fits(self, items: Items) -> bool:
        return self._matroid._fits(self._whole(items))
