"""Transversal matroids: items that can each be given a set of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core.checks import whole
from ..items import list_of_sets
from .compiled import Vector, Whole
from .flows import FlowMatroid
from .matroid import Items, refuse_rank_zero


class TransversalMatroid(FlowMatroid):
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
        self._size = len(checked)
        self._members = [items.tolist() for items in checked]
        items = np.concatenate(checked)
        sets_of = np.repeat(np.arange(len(checked)), [found.size for found in checked])
        sets_of = sets_of[np.argsort(items, kind="stable")]
        starts = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=size))])
        self._table = starts.astype(np.int64), sets_of.astype(np.int64)
        refuse_rank_zero(self, "every set is empty")

    def __repr__(self) -> str:
        return f"TransversalMatroid({self._size} sets over {self._n_items} items)"

    def _exchange(self, common: Items, one: Items, two: Items, given: NDArray[np.bool_], kept: Items) -> None:
        spaces = [backends.matroids.workspace(self._table, self._size) for _ in range(2)]
        backends.exchanges.merge_matchings(self._table, *spaces, common, one, two, given, kept)

    @property
    def _exceed(self) -> Callable[..., float]:
        exceed: Callable[..., float] = backends.flows.exceed_matchings
        return exceed

    def _toss(
        self, items: Whole, x: Vector, rng: np.random.Generator, kept: NDArray[np.bool_]
    ) -> tuple[float, int]:
        starts = self._table[0]
        # One for each share that is settled.
        coins = rng.random(int((starts[items + 1] - starts[items]).sum()))
        found: tuple[float, int] = backends.flows.round_matching(self._table, items, x, coins, kept)
        return found
