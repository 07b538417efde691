"""A set that grows item by item, over a population that is asked again after each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole

if TYPE_CHECKING:
    from .base import Population

Floats = NDArray[np.float64]
_NOT_ASKED = np.zeros(0)


class State:
    """A growing set: ``gains()`` of all items, ``add(item)``, ``items`` and ``value`` so far.

    This one asks the population again after each addition, for all gains only where they are wanted; families
    that can, keep the gains up to date instead.
    """

    def __init__(self, people: Population) -> None:
        self._people = people
        self.items: list[int] = []
        self.value = people.value([])
        self._now: Floats = _NOT_ASKED

    def gains(self) -> Floats:
        """The average gain of every item on top of the set; 0 for the items in it."""
        if self._now is _NOT_ASKED:
            self._now = self._people.gains(self.items)
        now = self._now.copy()
        now[self.items] = 0.0
        return now

    def add(self, item: Any) -> float:
        """Put ``item`` (a number, or a label) into the set; what it added is returned."""
        if self._people.labels is not None and not isinstance(item, int | np.integer):
            (item,) = self._people.item_numbers([item])
        chosen = whole("item", item, at_least=0, at_most=self._people.n_items - 1)
        if chosen in self.items:
            raise ValueError(f"item {chosen} is already in the set")
        added = self._grow(chosen)
        self.items.append(chosen)
        self.value += added
        return added

    def _grow(self, item: int) -> float:
        now, self._now = self._now, _NOT_ASKED
        if now is _NOT_ASKED:
            return self._people.value([*self.items, item]) - self.value
        return float(now[item])


class AtOnce(State):
    """A growing set that can say in one go what it would be asked step by step."""

    def along(self, order: NDArray[np.int64]) -> Floats:
        """The gains before each item of ``order`` joins, a row for each; they are in the set afterwards."""
        raise NotImplementedError
