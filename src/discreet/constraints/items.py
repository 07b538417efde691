"""Sets of items: distinct whole numbers between 0 and n_items - 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import shown, whole


def one_item(name: str, item: Any, n_items: int | None) -> int:
    """``item`` as an int of the ground set, or an error that names ``name``."""
    number = whole(name, item, at_least=0)
    if n_items is not None and number >= n_items:
        raise ValueError(f"{name}={number} is not an item; items are 0..{n_items - 1}")
    return number


_LARGEST = int(np.iinfo(np.intp).max) - 1


def item_set(name: str, items: Iterable[int], n_items: int | None) -> NDArray[np.intp]:
    """The items in the order given, checked to be distinct and in range."""
    if isinstance(items, np.ndarray):
        array = _from_array(name, items)
    else:
        try:
            listed = list(items)
        except TypeError as error:
            raise TypeError(f"{name} must be an iterable of items, got {shown(items)}") from error
        for position, item in enumerate(listed):
            whole(f"{name}[{position}]", item, at_least=0, at_most=_LARGEST)
        array = np.array(listed, dtype=np.intp)
    if array.size == 0:
        return array
    if array.min() < 0 or (n_items is not None and array.max() >= n_items):
        position = int(np.flatnonzero((array < 0) | (array >= (n_items or np.inf)))[0])
        allowed = f"items are 0..{n_items - 1}" if n_items is not None else "items are 0 or more"
        raise ValueError(f"{name}[{position}]={array[position]} is out of range; {allowed}")
    values, counts = np.unique(array, return_counts=True)
    if values.size < array.size:
        item, times = values[counts > 1][0], counts[counts > 1][0]
        raise ValueError(f"{name} holds item {item} {times} times; give every item once")
    return array


def _from_array(name: str, items: NDArray[Any]) -> NDArray[np.intp]:
    if items.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {items.shape}")
    if items.size == 0:
        return np.zeros(0, dtype=np.intp)
    if items.dtype == np.bool_:
        raise TypeError(f"{name} is a mask; give item numbers, for instance np.flatnonzero({name})")
    if not np.issubdtype(items.dtype, np.integer):
        raise TypeError(f"{name} must hold whole numbers, got an array of {items.dtype}")
    return items.astype(np.intp)


def list_of_sets(
    name: str, sets: Iterable[Iterable[int]], n_items: int | None
) -> tuple[list[NDArray[np.intp]], int]:
    """Checked item sets, and the size of the ground set: the one given, or one past the largest item."""
    if n_items is not None:
        whole("n_items", n_items, at_least=1, at_most=1 << 31)
    checked = [item_set(f"{name}[{index}]", items, n_items) for index, items in enumerate(sets)]
    if n_items is None:
        n_items = max((int(items.max()) + 1 for items in checked if items.size), default=0)
    if n_items == 0:
        raise ValueError(f"{name} holds no item, so the ground set is empty; name at least one item")
    return checked, n_items


def capacity_list(capacities: int | Sequence[int], sets: int, what: str) -> NDArray[np.intp]:
    """One capacity per set; a single number stands for all of them."""
    if isinstance(capacities, int | np.integer):
        return np.full(sets, whole("capacities", capacities, at_least=0, at_most=_LARGEST), dtype=np.intp)
    listed = list(capacities)
    if len(listed) != sets:
        raise ValueError(f"capacities has {len(listed)} entries for {sets} {what}; give one for each")
    return np.array(
        [
            whole(f"capacities[{index}]", value, at_least=0, at_most=_LARGEST)
            for index, value in enumerate(listed)
        ],
        dtype=np.intp,
    )
