"""Who a person is: one rule for tables, files, stores, streams and splits.

A person whose events got two names would count twice and be protected half as well; two people under one name
count once, which harms nobody. So where a name can be written in several ways, all of them are one person:

- text is compared in Unicode's composed form (NFC), without blanks and NULs around it, which NumPy and others
  drop from columns of a fixed width, or fill them with; upper and lower case differ;
- a number and its text are the same: 7, 7.0, "7", "007", "7.0", "+7", "7e0" and b"7" are one person;
- bytes are the text that they hold in UTF-8; a UUID is its text.

Each name follows from one cell alone. What names nobody (blank, missing, not-a-number, fractions, floats from
2^53 on, which skip integers, booleans, times, text that is no Unicode) is a bad cell, wherever it stands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

_EXACT = 1 << 53  # from here on floats skip integers
_LARGEST = 10**40  # integers with more digits are no names
_LONGEST = 64  # letters of a number; longer text is a name as it is
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NAMING = str | bytes | int | float | Decimal | Fraction | UUID | np.number
_NOTHING = frozenset(("", "nan", "NaN"))
_AROUND = "\0" + "".join(filter(str.isspace, map(chr, range(0x3001))))  # no part of a name


def name_of(person: Any) -> int | str | None:
    """The name of a person, an integer or text, from what stands for them; None for what names nobody.

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
    """From where on floats of this kind skip integers: narrow ones earlier; no kind counts further."""
    return int(min(_EXACT, 2 << np.finfo(kind).nmant))


def canonical(person: Hashable) -> int | str:
    """The same for an argument ``person_id``; what names nobody is refused."""
    found = name_of(person)
    if found is not None:
        return found
    if isinstance(person, _NAMING):
        raise ValueError("person_id names nobody; use None for somebody unknown")
    raise TypeError("person_id must be text, a number, a UUID or a tuple of these, which have lasting names")


def _integer(number: int) -> int | None:
    return number if abs(number) < _LARGEST else None


def is_text(text: str) -> bool:
    """Whether a text is Unicode, and no remains of bytes that were not."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
