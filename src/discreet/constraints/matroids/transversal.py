"""Transversal matroids: items that can each be given a set of their own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...core.checks import whole
from ..items import list_of_sets
from .matroid import Items, Matroid, refuse_rank_zero


class TransversalMatroid(Matroid):
    """Partial transversals: S is independent if its items can be matched to distinct sets that hold them.

    ``sets[t]`` lists the items that may stand for set t (the people who can fill post t, the products that
    fit slot t). Items in no set can never be chosen. ``n_items`` defaults to one past the largest item
    named.

    >>> posts = TransversalMatroid([[0, 1], [1, 2], [2]])
    >>> posts.rank, posts.contains([0, 1, 2]), TransversalMatroid([[0, 1]]).contains([0, 1])
    (3, True, False)
    """

    def __init__(self, sets: Iterable[Iterable[int]], *, n_items: int | None = None) -> None:
        checked, size = list_of_sets("sets", sets, n_items)
        whole("n_items", size, at_least=1, at_most=10**7)
        super().__init__(size)
        self._n_sets = len(checked)
        self._sets_of: list[list[int]] = [[] for _ in range(size)]
        for index, items in enumerate(checked):
            for item in items.tolist():
                self._sets_of[item].append(index)
        self._members = [items.tolist() for items in checked]
        self._edge_item = np.concatenate(checked)
        self._edge_set = np.repeat(np.arange(len(checked)), [items.size for items in checked])
        refuse_rank_zero(self, "every set is empty")

    def __repr__(self) -> str:
        return f"TransversalMatroid({self._n_sets} sets over {self._n_items} items)"

    def _match(self, order: Items) -> tuple[list[int], list[int]]:
        """Augmenting paths: the items that could be matched in turn, and for each set its item or -1."""
        holder = [-1] * self._n_sets
        set_of: dict[int, int] = {}
        for item in order.tolist():
            if len(set_of) == self._n_sets:
                break
            self._augment(item, holder, set_of)
        return [item for item in order.tolist() if item in set_of], holder

    def _augment(self, item: int, holder: list[int], set_of: dict[int, int]) -> None:
        """Give ``item`` a set if any chain of moves allows it; matched items stay matched."""
        came_from: dict[int, int] = {}
        frontier = [item]
        while frontier:
            mover = frontier.pop()
            for target in self._sets_of[mover]:
                if target in came_from:
                    continue
                came_from[target] = mover
                if holder[target] >= 0:
                    frontier.append(holder[target])
                    continue
                # Walk back along the path, handing each set to the item that sought it.
                opened: int | None = target
                while opened is not None:
                    seeker = came_from[opened]
                    left = set_of.get(seeker)
                    holder[opened], set_of[seeker] = seeker, opened
                    opened = left
                return

    def _greedy(self, order: Items) -> Items:
        return np.array(self._match(order)[0], dtype=np.intp)

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        """Items in a set that is free or can be freed: search backwards from the free sets."""
        _, holder = self._match(items)
        set_of = {owner: index for index, owner in enumerate(holder) if owner >= 0}
        freeable = np.array([owner < 0 for owner in holder])
        frontier = np.flatnonzero(freeable).tolist()
        while frontier:
            for member in self._members[frontier.pop()]:
                left = set_of.get(member)
                if left is not None and not freeable[left]:
                    freeable[left] = True
                    frontier.append(left)
        mask = np.zeros(self._n_items, dtype=np.bool_)
        mask[self._edge_item[freeable[self._edge_set]]] = True
        mask[items] = False
        return mask

    def _circuit(self, items: Items, item: int) -> Items:
        """All items that a chain of moves starting with ``item`` can push out."""
        _, holder = self._match(items)
        reached: set[int] = set()
        frontier = [item]
        while frontier:
            for target in self._sets_of[frontier.pop()]:
                owner = holder[target]
                if owner not in reached:
                    reached.add(owner)
                    frontier.append(owner)
        return np.array(sorted(reached), dtype=np.intp)
