"""The catalogue of a learner: the labels of its items, and which of them can be shown.

Everything here is public: labels, which items have been retired, and which are available in a round. Sets are
adapted to it after they are drawn (`Catalogue.served`), which is post-processing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.names import item_numbers, plain_label

Items = NDArray[np.int32]
_WHOLE = {int}
RECENT = 256  # sets


@dataclass(frozen=True)
class Request:
    """Which items can be shown in a round, and which must be, in order."""

    allowed: NDArray[np.bool_]
    first: Sequence[int]


class Catalogue:
    """Items 0..n-1 by label or number, some of them retired.

    An item is named by its label; an integer that is not a label is the item's number.

    >>> shop = Catalogue(3, ("shoes", "maps", "tents"))
    >>> shop.item("maps"), shop.item(2)
    (1, 2)
    >>> shop.retire([1])
    >>> shop.served((1, 0), lambda: np.array([0.0, 5.0, 3.0]), shop.request())
    (0, 2)
    """

    _state = ("active", "_sets", "changed")
    _any_length = ("_sets",)

    def __init__(self, n_items: int, labels: Sequence[Any] | None) -> None:
        self._n_items = n_items
        self._labels = labels
        self._places: dict[Any, int] | None = None
        self.active: NDArray[np.bool_] | None = None  # which items have not been retired; None for all
        # The sets of the latest rounds, padded with -1.
        self.recent: deque[Any] = deque(maxlen=RECENT)
        self.changed = False  # whether items were added or retired, or the learner was given a start

    # --- names -----------------------------------------------------------------------------------

    def item(self, name: Any) -> int:
        """The number of an item, by its label or number."""
        if self._labels is None and type(name) is int and 0 <= name < self._n_items:
            return name
        return self._numbers("item", [name])[0]

    def items(self, what: str, names: Any) -> Items:
        """The distinct numbers of several items, in increasing order."""
        if self._labels is None and type(names) in (list, tuple) and {*map(type, names)} == _WHOLE:
            numbers = sorted({*names})  # faster than NumPy for a few integers
            if numbers[0] >= 0 and numbers[-1] < self._n_items:
                return np.array(numbers, dtype=np.int32)
        numeric = isinstance(names, np.ndarray) and names.ndim == 1 and names.dtype.kind in "iu"
        if self._labels is None and numeric and names.size:
            found = np.unique(names)
            if found[0] >= 0 and found[-1] < self._n_items:
                return found.astype(np.int32, copy=False)
        return np.array(sorted({*self._numbers(what, names)}), dtype=np.int32)

    def _numbers(self, what: str, names: Any) -> list[int]:
        """`item_numbers`, with a cached index of labels."""
        if self._labels is not None and isinstance(names, list | tuple):
            if self._places is None:
                self._places = {label: place for place, label in enumerate(self._labels)}
            try:
                return [self._places[name] for name in names]
            except (KeyError, TypeError):  # some name is not a label: an item's number, or unknown
                pass
        return item_numbers(what, names, self._n_items, self._labels, places=self._places)

    def weights(self, what: str, chances: Mapping[Any, float]) -> tuple[Items, NDArray[np.float64]]:
        """Item numbers in increasing order, with a weight in (0, 1] for each; weights of 0 are left out."""
        found: dict[int, float] = {}
        numbers = self._numbers(what, list(chances))
        for item, chance in zip(numbers, chances.values(), strict=True):
            value = checks.real(f"{what}[...]", chance, at_least=0.0, at_most=1.0)
            found[item] = max(value, found.get(item, 0.0))
        kept = sorted(item for item, value in found.items() if value)
        return np.array(kept, dtype=np.int32), np.array([found[item] for item in kept])

    # --- what was shown --------------------------------------------------------------------------

    def often(self) -> NDArray[np.float64]:
        """How many of the latest sets contained each item."""
        items = np.concatenate(self.recent) if self.recent else np.zeros(0, dtype=np.int64)
        return np.bincount(items[items >= 0], minlength=self._n_items).astype(np.float64)

    # --- what can be shown -----------------------------------------------------------------------

    def sorted_out(self, names: Sequence[Any]) -> tuple[Items, list[Any]]:
        """Split names into retired items and new ones; refuse items that are active already."""
        back, fresh = [], []
        for name in names:
            place = self._known(name)
            if place is None:
                fresh.append(plain_label(name) if self._labels is not None else name)
            elif self.active is None or self.active[place]:
                raise ValueError(f"items holds {checks.shown(name)}, which is in the catalogue already")
            else:
                back.append(place)
        if self._labels is None and fresh != [*range(self._n_items, self._n_items + len(fresh))]:
            raise ValueError(
                f"these items have no labels: new ones are {self._n_items}, {self._n_items + 1} and so on"
            )
        if len(set(fresh)) < len(fresh) or len(set(back)) < len(back):
            raise ValueError("items holds one twice")
        return np.array(back, dtype=np.int32), fresh

    def _known(self, name: Any) -> int | None:
        """The number of an item that is in the catalogue, active or retired; None for others."""
        if self._labels is None:
            whole = checks.whole("items", name, at_least=0)
            return whole if whole < self._n_items else None
        if self._places is None:
            self._places = {label: place for place, label in enumerate(self._labels)}
        return self._places.get(plain_label(name))

    def bring_back(self, items: Iterable[int]) -> None:
        """Allow showing these retired items again."""
        if self.active is not None:
            active = self.active.copy()
            active[np.fromiter(items, dtype=np.int64)] = True
            self.active = active

    def retire(self, items: Iterable[int]) -> None:
        """Stop showing these items."""
        active = np.ones(self._n_items, dtype=np.bool_) if self.active is None else self.active.copy()
        active[np.fromiter(items, dtype=np.int64)] = False
        self.active, self.changed = active, True

    def grow(self, n_items: int, labels: Sequence[Any] | None) -> None:
        """Enlarge the catalogue to ``n_items``; existing items keep their numbers."""
        if self.active is not None:
            more = np.ones(n_items - self._n_items, dtype=np.bool_)
            self.active = np.concatenate((self.active, more))
        self._n_items, self._labels, self._places = n_items, labels, None
        self.changed = True

    def request(
        self, available: Any = None, exclude: Any = None, include: Any = None, least: int = 0
    ) -> Request | None:
        """The items that can and those that must be shown in a round; None if there is no restriction.

        Refused where fewer than ``least`` items are available.
        """
        if self.active is None and available is None and exclude is None and include is None:
            return None
        allowed = np.ones(self._n_items, dtype=np.bool_) if self.active is None else self.active.copy()
        if available is not None:
            listed = np.zeros(self._n_items, dtype=np.bool_)
            listed[self.items("available", available)] = True
            allowed &= listed
        if exclude is not None:
            allowed[self.items("exclude", exclude)] = False
        first: list[int] = []
        for item in () if include is None else self._numbers("include", include):
            if not allowed[item]:
                name = item if self._labels is None else self._labels[item]
                raise ValueError(f"include holds {checks.shown(name)}, which is not available in this round")
            if item not in first:
                first.append(item)
        if np.count_nonzero(allowed) < least:
            raise ValueError(f"{np.count_nonzero(allowed)} items are available; a set has {least}")
        if least and len(first) > least:
            raise ValueError(f"include holds {len(first)} items; a set has {least}")
        return Request(allowed, first)

    def served(
        self,
        standing: tuple[int, ...],
        ranking: Callable[[], NDArray[np.float64]],
        request: Request,
        feasible: Callable[[list[int]], bool] | None = None,
    ) -> tuple[int, ...]:
        """The set for one round: the items of the standing set that can be shown, filled up by the ranking.

        Items that must be shown take the first places. ``ranking`` returns a score for each item and is
        called only if items are missing. ``feasible`` says whether a set is allowed: the set may be smaller.
        """
        allowed, chosen = request.allowed, list(request.first)
        size = max(len(standing), len(chosen))
        rest = [item for item in standing[len(chosen) :] if allowed[item]]
        self.fill(chosen, rest, size, feasible)
        if len(chosen) < size:
            scores = np.where(allowed, ranking(), -np.inf)
            order = np.argsort(-scores, kind="stable")[: np.count_nonzero(allowed)]
            self.fill(chosen, order.tolist(), size, feasible)
        return tuple(chosen)

    @staticmethod
    def fill(
        chosen: list[int], more: Iterable[int], size: int, feasible: Callable[[list[int]], bool] | None
    ) -> None:
        """Append items of ``more`` that are new and feasible to ``chosen``, up to ``size`` items."""
        there = set(chosen)
        for item in more:
            if len(chosen) == size:
                return
            if item not in there and (feasible is None or feasible([*chosen, item])):
                chosen.append(item)
                there.add(item)

    # --- saving ----------------------------------------------------------------------------------

    @property
    def _sets(self) -> NDArray[np.int32]:
        width = self.recent[-1].size if self.recent else 0
        return np.array(self.recent, dtype=np.int32).reshape(len(self.recent), width)

    @_sets.setter
    def _sets(self, sets: NDArray[np.int32]) -> None:
        self.recent = deque(sets, maxlen=RECENT)

    def _resumed(self) -> None:
        wrong = any(int(one.max(initial=-1)) >= self._n_items for one in self.recent)
        active = self.active
        if wrong or (active is not None and (active.dtype != np.bool_ or active.size != self._n_items)):
            raise ValueError("the catalogue has other items")
