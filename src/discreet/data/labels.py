"""Labels of people and items, the same in files that write everything as text and in typed columns.

What a label is called, which others it is equal to and where it stands in order follow from the label alone:
no row decides how another one is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError
from ..core.identity import is_text
from ..kernels.stores import TextNumbers
from .source import Column, Text

# In place of a number: of a cell that names nothing, and of a label that a list does not hold.
MISSING, UNLISTED = -1, -2

_LONG = 1 << 4096
_EXACT = 1 << 53  # from here on floats skip integers
_NOTHING = frozenset(("", "nan", "NaN", b"nan", b"NaN"))
_WRITTEN = str | bytes | int | float | Decimal | Fraction | date | time | timedelta | UUID | tuple  # type: ignore[type-arg]
FINE_TIMES = frozenset(("ns", "ps", "fs", "as"))  # units of times that Python's own do not have
# As Python's dicts have it: nobody arranges texts that are slow to tell apart. Nothing depends on it.
_KEY = np.array([hash("texts"), hash("that were met")], dtype=np.int64).view(np.uint64)
_SAFE = {str, int}  # types of cells that are equal only where they are the same


class Names:
    """A number for each label, from 0 in the order in which they come, or in that of a list.

    ``name`` says what a cell is called, an integer or text, and None where it names nothing: `name_of` for
    people, `item_name` for items. Cells of the same name are one label. With ``listed``, whose labels stay as
    they are written there, no others get a number.

    >>> from discreet.core.identity import name_of
    >>> names = Names(name_of)
    >>> names.of(Column(["ann", "7", "", 7.0, "ann"])).tolist(), names.labels
    ([0, 1, -1, 1, 0], ['ann', 7])
    """

    def __init__(
        self, name: Callable[[Any], Hashable], listed: Iterable[Any] | None = None, argument: str = "items"
    ) -> None:
        self._name, self.listed = name, False
        self.labels: list[Any] = []
        self._numbers: dict[Hashable, int] = {}  # by name
        self._cells: dict[str | int, int] = {}  # each different one is looked at once
        # By type of column: the different values that were met, and their numbers.
        self._met: dict[str, tuple[TextNumbers, NDArray[np.int64]]] = {}
        for one in () if listed is None else map(plain, listed):
            self._list(argument, one)
        self.listed = listed is not None

    def _list(self, argument: str, one: Any) -> None:
        found = self._name(one)
        if found is None:
            what = "an entry" if argument == "people" else f"{one!r}"
            raise DataError(f"{argument} lists {what}, which names nothing; use text or numbers", f"{one!r}")
        place = self._numbers.setdefault(found, len(self.labels))
        if place < len(self.labels):
            raise _twice(argument, self.labels[place], one)
        self.labels.append(one)

    def number(self, cell: Any) -> int:
        """The number of one cell's label, or why it has none."""
        found = self._name(cell)
        number = MISSING if found is None else self._numbers.get(found, UNLISTED)
        if number == UNLISTED and not self.listed:
            number = self._numbers[found] = len(self.labels)
            self.labels.append(found)
        # 1, 1.0 and True are one key of a dict, and need not be one name: only cells that are equal just to
        # their like are remembered.
        if type(cell) in _SAFE:
            self._cells[cell] = number
        return number

    def of(self, column: Column) -> NDArray[np.int64]:
        """The number of each row's label, or why it has none."""
        if column.missing is not None:
            found = np.full(len(column), MISSING)
            found[~column.missing] = self.of(Column(np.asarray(column.values)[~column.missing]))
            return found
        if column.codes is not None:
            # No value that no row holds gets into a list that is taken from data.
            used = column if self.listed else column.where(np.ones(len(column), dtype=np.bool_))
            return self.of(Column(used.values))[used.codes]
        values = column.values
        if isinstance(column, Text):
            return self._of_bytes("text", column.ends, column.values)
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            words = np.ascontiguousarray(values, dtype=np.uint64 if values.dtype == np.uint64 else np.int64)
            return self._of_bytes(words.dtype.name, np.arange(words.size + 1) * 8, words.view(np.uint8))
        known, number = self._cells, self.number
        numbers = [known[cell] if type(cell) in _SAFE and cell in known else number(cell) for cell in values]
        return np.array(numbers, dtype=np.int64)

    def _of_bytes(self, kind: str, ends: NDArray[Any], letters: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The same for bytes of text, or of integers: each different value becomes a Python value once."""
        texts, numbers = self._met.get(kind) or (TextNumbers(_KEY), np.zeros(0, dtype=np.int64))
        before = texts.count
        places = texts.add(ends, letters)
        if texts.count > before:
            places_of, fresh = texts.texts(before)
            values = Text(fresh, ends=places_of).texts() if kind == "text" else fresh.view(kind).tolist()
            found = np.array([self.number(value) for value in values], dtype=np.int64)
            numbers = np.concatenate((numbers, found))
        self._met[kind] = texts, numbers
        return np.asarray(numbers[places])


def _twice(argument: str, first: Any, second: Any) -> DataError:
    """Of people, who it is goes into the details."""
    people = argument == "people"
    if as_text(first) == as_text(second) and type(first) is type(second):
        what = "an entry" if people else repr(second)
        return DataError(f"{argument} lists {what} twice", repr(second))
    what = "two entries" if people else f"{first!r} and {second!r}"
    return DataError(f"{argument} lists {what}, which files do not tell apart", f"{first!r} and {second!r}")


def plain(value: Any) -> Any:
    """A Python value in place of a NumPy scalar, so that labels from any source compare and print alike."""
    if isinstance(value, np.datetime64 | np.timedelta64) and np.datetime_data(value.dtype)[0] in FINE_TIMES:
        coarse = value.astype(f"{value.dtype.kind}8[us]")
        return coarse.item() if coarse == value or np.isnat(value) else str(value)
    return value.item() if isinstance(value, np.generic) else value


def absent(value: Any) -> bool:
    """Whether a cell names nothing: blank, or the not-a-number that numeric programs write for nothing."""
    if isinstance(value, str | bytes):
        return value in _NOTHING or not value.strip()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")  # pandas' own, without importing pandas


def item_name(value: Any) -> int | str | None:
    """What an item is called: an integer, or text; None for what names none.

    What files do not tell apart, 7, 7.0 and "7", is one item. Other text is an exact string match: "07"
    is another item than 7. Dates and other numbers are their text.
    """
    if type(value) is not str:
        value = plain(value)
        if not isinstance(value, _WRITTEN) or not _exact(value):
            return None
    if absent(value):
        return None
    text = as_text(value)
    if len(text) < 20 and text[0] <= "9" and text.removeprefix("-").isdigit() and text.isascii():
        number = int(text)
        return number if str(number) == text else text
    return text if is_text(text) else None


def _exact(value: Any) -> bool:
    """Whether a number is one that a file would write out."""
    if isinstance(value, float):
        return math.isfinite(value) and (abs(value) < _EXACT or not value.is_integer())
    if isinstance(value, Decimal):
        return value.is_finite() and abs(value.adjusted()) < 4096
    return not isinstance(value, tuple) or all(item_name(part) is not None for part in value)


def as_text(value: Any) -> str:
    """A label as CSV would have it: integers without a point, bytes as the text they stand for."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float | Decimal | Fraction) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, int):
        return str(int(value)) if abs(value) < _LONG else hex(value)  # Python writes no longer ones out
    if isinstance(value, tuple):
        return str(tuple(map(as_text, value)))
    return str(value)


def in_order(labels: Sequence[Any]) -> list[int]:
    """Places of the labels in order: numbers, also as text, by their value, then all others by their text.

    Each label has a key of its own: which others there are moves none of them.
    """
    keys = [_order(one) for one in labels]
    return sorted(range(len(labels)), key=keys.__getitem__)


def _order(one: Any) -> tuple[int, Fraction | int, str]:
    text = as_text(one)
    try:
        plain_digits = text.isascii() and text.removeprefix("-").isdigit()
        return 0, int(text) if plain_digits else Fraction(float(text)), text
    except (ValueError, OverflowError):
        return 1, 0, text
