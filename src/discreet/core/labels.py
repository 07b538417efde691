"""Items by label or by number."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from .checks import DataError, shown

# Labels that are looked through for one that was meant.
_MOST_COMPARED = 20_000


def check_distinct(labels: Sequence[Hashable]) -> None:
    """Refuse labels of which two are the same, and say which."""
    first: dict[Hashable, int] = {}
    for place, label in enumerate(labels):
        before = first.setdefault(label, place)
        if before != place:
            both = f"items {before} and {place} are both {shown(label)}"
            raise ValueError(f"labels must be distinct; {both}: give each its own")


def item_numbers(
    argument: str,
    given: Any,
    n_items: int,
    labels: Sequence[Any] | None = None,
    *,
    places: dict[Any, int] | None = None,
    public: bool = True,
) -> list[int]:
    """The number of every item in ``given``, which names them by label or by number.

    A single label or number stands for a list of one. A label wins over a number: where some labels are whole
    numbers, whole numbers in ``given`` are labels if all of them are known as such, and numbers if none of
    them is; a mixture is refused. ``places``: the number of each label, where that is known already.
    ``public=False``: the labels were read off people's data, so that an error keeps them for its details.

    >>> item_numbers("exclude", ["tea", 2], 3, ["milk", "tea", "jam"])
    [1, 2]
    >>> item_numbers("exclude", [103, 101], 3, [101, 102, 103])
    [2, 0]
    """
    items = listed(argument, given)
    if places is None:
        places = {} if labels is None else {label: place for place, label in enumerate(labels)}
    found = [_place(item, places, labels) for item in items]
    for item, place in zip(items, found, strict=True):
        if place is None and not _whole(item):
            raise _unknown(argument, item, n_items, labels, public)
    numbers = [item for item, place in zip(items, found, strict=True) if place is None]
    if not numbers:
        return [place for place in found if place is not None]
    named = [item for item, place in zip(items, found, strict=True) if place is not None and _whole(item)]
    if named:
        raise ValueError(
            f"{argument} holds {named[0]}, the label of an item, and {numbers[0]}, which is none; give either"
            " labels or numbers where labels are whole numbers"
        )
    outside = [number for number in numbers if not 0 <= number < n_items]
    if outside:
        if any(_whole(label) for label in labels or ()):
            raise _unknown(argument, outside[0], n_items, labels, public)
        raise ValueError(
            f"{argument} holds {shown(outside[0])}, which is no item; items are 0 to {n_items - 1}"
        )
    return [item if place is None else place for item, place in zip(items, found, strict=True)]


def listed(argument: str, given: Any) -> list[Any]:
    """Items as they are named, one label or number standing for itself."""
    if isinstance(given, str | bytes) or _whole(given):
        given = [given]
    if isinstance(given, np.ndarray) and given.dtype == np.bool_:
        raise TypeError(f"{argument} is a mask; give labels or numbers of items, as np.flatnonzero does")
    if not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a list of items, by label or by number, got {shown(given)}")
    items = [item.item() if isinstance(item, np.generic) else item for item in given]
    for item in items:
        if not isinstance(item, Hashable):
            raise TypeError(f"{argument} holds {shown(item)}; an item is named by its label or its number")
    return items


def _whole(item: Any) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


def _place(item: Any, places: dict[Any, int], labels: Sequence[Any] | None) -> int | None:
    place = places.get(item)
    if place is None or labels is None:
        return None
    # True is equal to 1, and is not meant by it.
    return place if isinstance(item, bool) == isinstance(labels[place], bool) else None


def unknown_item(argument: str, item: Any, labels: Sequence[Any], advice: str, *, public: bool) -> ValueError:
    """The error for what names no item, with labels that may have been meant, or else with ``advice``."""
    texts = {str(label): label for label in labels[:_MOST_COMPARED]}
    near = [repr(texts[text]) for text in difflib.get_close_matches(str(item), texts, n=3)]
    meant = f"did you mean {' or '.join(near)}?" if near else ""
    said = f"{argument} holds {shown(item)}, which is no item"
    if not public:
        return DataError(f"{said}; {advice}", meant)
    return ValueError(f"{said}; {meant or advice}")


def _unknown(
    argument: str, item: Any, n_items: int, labels: Sequence[Any] | None, public: bool
) -> ValueError | TypeError:
    if labels is None:
        return TypeError(
            f"{argument} must hold whole numbers from 0 to {n_items - 1}, as these items have no labels; got"
            f" {shown(item)}"
        )
    return unknown_item(
        argument, item, labels, f"give labels, or numbers from 0 to {n_items - 1}", public=public
    )


def plain_label(label: Any) -> Any:
    """A label in a form that a saved file can hold."""
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, str | int | float | bool):
        raise TypeError(
            f"label {shown(label)} is neither text nor a number; a saved learner could not hold it"
        )
    return plain


def all_numbers(items: Any) -> bool:
    """Whether all are whole numbers (or a mask, which is refused as such): no labels among them."""
    if isinstance(items, np.ndarray):
        return items.dtype.kind in "iub"
    return all(isinstance(item, int | np.integer) for item in items)
