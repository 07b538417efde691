"""Names: the identity of a person, and the item that a label or a number means.

There is one rule of people's names for tables, files, stores, streams and splits.

A person whose events had two names would count twice and be protected half as well; two people under one name
count once, which does no harm. So all ways to write a name are one person:

- text is compared in Unicode's composed form (NFC), without blanks and NULs around it, which NumPy and others
  drop from columns of a fixed width, or fill them with; upper and lower case differ;
- a number and its text are the same: 7, 7.0, "7", "007", "7.0", "+7", "7e0" and b"7" are one person;
- bytes are the text that they hold in UTF-8; a UUID is its text.

Each name follows from one cell alone. Cells that name nobody (blank, missing, NaN, fractions, floats from
2^53 on, which skip integers, booleans, times, text that is not Unicode) are bad cells everywhere.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from .checks import DataError, shown

_EXACT = 1 << 53  # from here on floats skip integers
_LARGEST = 10**40  # integers with more digits are no names
_LONGEST = 64  # characters of a number; longer text is a name as written
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NAMING = str | bytes | int | float | Decimal | Fraction | UUID | np.number
_NOTHING = frozenset(("", "nan", "NaN"))
_AROUND = "\0" + "".join(filter(str.isspace, map(chr, range(0x3001))))  # stripped from names
# Labels that are searched for a similar one.
_MOST_COMPARED = 20_000


def name_of(person: Any) -> int | str | None:
    """The name of a person, an integer or text, from a value; None if it names nobody.

    >>> {name_of(one) for one in (7, 7.0, "7", "007", b"7\\0", " 7.0 ", Decimal(7))}
    {7}
    >>> name_of("Ann") == name_of("ann"), name_of("caf\u00e9") == name_of("cafe\u0301")
    (False, True)
    >>> [name_of(one) for one in ("", " ", None, float("nan"), 7.5, True)]
    [None, None, None, None, None, None]
    """
    if isinstance(person, bytes):
        person = person.decode("utf-8", "backslashreplace")
    if not isinstance(person, str):
        return _of_others(person)
    text = str.__str__(person)
    if not text.isascii():
        if not is_text(text):
            return None
        text = unicodedata.normalize("NFC", text)
    text = text.strip(_AROUND)
    if text in _NOTHING:
        return None
    if text[0] <= "9" and len(text) <= _LONGEST and _NUMBER.fullmatch(text):
        number = Decimal(text)
        if not number or (number.adjusted() < 40 and number == number.to_integral_value()):
            return int(number)
    return text


def names_of(people: Iterable[Any]) -> list[int | str | None]:
    return [name_of(person) for person in people]


def _of_others(person: Any) -> int | str | None:
    if isinstance(person, np.datetime64 | np.timedelta64):
        return None
    if isinstance(person, np.floating) and not abs(person) < first_skipped(person.dtype):
        return None
    value = person.item() if isinstance(person, np.generic) else person
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _integer(int.__int__(value))
    if isinstance(value, float):
        number = float.__float__(value)
        return int(number) if abs(number) < _EXACT and number.is_integer() else None
    if isinstance(value, Decimal):
        near = value.is_finite() and (value.adjusted() <= _LONGEST or value.is_zero())
        return _integer(int(value)) if near and value == value.to_integral_value() else None
    if isinstance(value, Fraction):
        return _integer(value.numerator) if value.denominator == 1 else None
    if isinstance(value, UUID):
        return str(UUID(int=value.int))
    if isinstance(value, tuple):
        parts = tuple(map(name_of, value))
        return None if not parts or None in parts else ascii(tuple(map(str, parts)))
    return None


def first_skipped(kind: np.dtype[Any]) -> int:
    """The first integer from which floats of this type skip integers, at most that of 64-bit floats."""
    return int(min(_EXACT, 2 << np.finfo(kind).nmant))


def canonical(person: Hashable) -> int | str:
    """`name_of` for an argument ``person_id``; refuses values that name nobody."""
    found = name_of(person)
    if found is not None:
        return found
    if isinstance(person, _NAMING):
        raise ValueError("person_id names no one; use None for an unknown person")
    raise TypeError("person_id must be text, a number, a UUID or a tuple of these, which have lasting names")


def _integer(number: int) -> int | None:
    return number if abs(number) < _LARGEST else None


def is_text(text: str) -> bool:
    """Whether a text is valid Unicode, without surrogates in place of undecodable bytes."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


# --- items ---------------------------------------------------------------------------------------------


def check_distinct(labels: Sequence[Hashable]) -> None:
    """Refuse duplicate labels, and say which."""
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

    A single label or number stands for a list of one. Labels take precedence: if some labels are integers,
    integers in ``given`` are labels if all of them are labels, and numbers if none of them is; a mixture is
    refused. ``places``: the number of each label, if known already. ``public=False``: the labels come from
    people's data, so errors mention them in their details only.

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
            f"{argument} holds {named[0]}, the label of an item, and {numbers[0]}, which is not one; give"
            " either labels or numbers where labels are whole numbers"
        )
    outside = [number for number in numbers if not 0 <= number < n_items]
    if outside:
        if any(_whole(label) for label in labels or ()):
            raise _unknown(argument, outside[0], n_items, labels, public)
        raise ValueError(
            f"{argument} holds {shown(outside[0])}, which is not an item; items are 0 to {n_items - 1}"
        )
    return [item if place is None else place for item, place in zip(items, found, strict=True)]


def listed(argument: str, given: Any) -> list[Any]:
    """Items as a list; a single label or number becomes a list of one."""
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
    # True equals 1 but is a different label.
    return place if isinstance(item, bool) == isinstance(labels[place], bool) else None


def unknown_item(argument: str, item: Any, labels: Sequence[Any], advice: str, *, public: bool) -> ValueError:
    """The error for an unknown item, with similar labels if there are any, otherwise with ``advice``."""
    texts = {str(label): label for label in labels[:_MOST_COMPARED]}
    near = [repr(texts[text]) for text in difflib.get_close_matches(str(item), texts, n=3)]
    meant = f"did you mean {' or '.join(near)}?" if near else ""
    said = f"{argument} holds {shown(item)}, which is not an item"
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
    """A label in a form that can be saved."""
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, str | int | float | bool):
        raise TypeError(
            f"label {shown(label)} is neither text nor a number; a saved learner could not hold it"
        )
    return plain


def all_numbers(items: Any) -> bool:
    """Whether all are integers (or booleans of a mask, which is refused elsewhere), without labels."""
    if isinstance(items, np.ndarray):
        return items.dtype.kind in "iub"
    return all(isinstance(item, int | np.integer) for item in items)
