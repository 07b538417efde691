"""Labels of people and items, the same in files that write everything as text and in typed columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError
from .source import ArrowColumn, Column

if TYPE_CHECKING:
    from .repeats import Repeats

# In place of a number: of a cell that names nothing, and of a label that a list does not hold.
MISSING, UNLISTED = -1, -2

_LONG = 1 << 4096
_NOTHING = frozenset(("", "nan", "NaN", b"nan", b"NaN"))
_NUMBERS = int | float | Decimal | Fraction
_WRITTEN = str | bytes | int | float | Decimal | Fraction | date | time | UUID


class Names(dict[Any, int]):
    """A number for each label, from 0 in the order in which they come; looked up by what stands in a cell.

    >>> names = Names()
    >>> names.of(Column(["ann", "bob", "", "ann"])).tolist(), names.labels
    ([0, 1, -1, 0], ['ann', 'bob'])
    """

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[Any] = []
        self._repeats: dict[Any, tuple[Repeats, list[NDArray[np.int64]]]] = {}

    def of(self, column: Column) -> NDArray[np.int64]:
        """The number of each row's label, or why it has none."""
        if isinstance(column, ArrowColumn):
            return np.concatenate([self._of_array(part) for part in column.parts])
        try:
            found = np.fromiter(map(self.__getitem__, column.values), np.int64, len(column.values))
        except TypeError:
            label(next(value for value in column.values if not _hashable(value)))
            raise
        return found if column.codes is None else found[column.codes]

    def _of_array(self, array: Any) -> NDArray[np.int64]:
        """The same for an array of Arrow's: each different value becomes a Python value once."""
        from .repeats import Repeats

        if array.null_count:  # a missing number would be a number
            found = np.full(len(array), MISSING)
            found[array.is_valid().to_numpy(zero_copy_only=False)] = self._of_array(array.drop_null())
            return found
        repeats, numbers = self._repeats.setdefault(array.type, (Repeats(), []))
        places, fresh = repeats.of(array)
        numbers.append(self._of_new(fresh))
        numbers[:] = [np.concatenate(numbers)]
        return np.asarray(numbers[0][places])

    def _of_new(self, cells: list[Any]) -> NDArray[np.int64]:
        """The numbers of different cells, all of one type; at once where they are new and name something."""
        text = bool(cells) and isinstance(cells[0], str)
        if (
            type(self) is not Names
            or not self.keys().isdisjoint(cells)
            or (text and (not _NOTHING.isdisjoint(cells) or any(map(str.isspace, cells))))
        ):
            return self.of(Column(cells))
        first = len(self.labels)
        self.labels += cells
        self.update(zip(cells, range(first, len(self.labels)), strict=True))
        return np.arange(first, len(self.labels))

    def __missing__(self, cell: Any) -> int:
        """The number of a cell that was not met before: each different one is looked at once."""
        if type(cell) is str and cell not in _NOTHING and not cell.isspace():
            self[cell] = number = self._number(cell)
            return number
        found = label(cell)
        if found is cell:
            self[cell] = MISSING if absent(found) else self._number(found)
        else:
            self[cell] = self[found]
        return self[cell]

    def _number(self, found: Any) -> int:
        self.labels.append(found)
        return len(self.labels) - 1


class Listed(Names):
    """Numbers by a list that was given, in its order; `alike` labels are the same.

    A column is numbers or text by what stands in all of its rows: one person's entry may turn everybody's 7
    into "7", and must not take their events out of the list by it.
    """

    def __init__(self, argument: str, labels: Iterable[Any]) -> None:
        super().__init__()
        self._places: dict[Any, int] = {}
        for one in map(label, labels):
            place = self._places.setdefault(alike(one), len(self.labels))
            if place < len(self.labels):
                raise _twice(argument, self.labels[place], one)
            self.labels.append(one)

    def _number(self, found: Any) -> int:
        return self._places.get(alike(found), UNLISTED)


def _twice(argument: str, first: Any, second: Any) -> DataError:
    """Of people, who it is goes into the details."""
    people = argument == "people"
    if first == second:
        what = "an entry" if people else repr(second)
        return DataError(f"{argument} lists {what} twice", repr(second))
    what = "two entries" if people else f"{first!r} and {second!r}"
    return DataError(f"{argument} lists {what}, which files do not tell apart", f"{first!r} and {second!r}")


def label(value: Any) -> Any:
    """A Python value in place of a NumPy scalar, so that labels from any source compare and print alike."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not _hashable(plain):
        raise TypeError(f"a {type(plain).__name__} cannot name a person or an item; use text or numbers")
    return plain


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def absent(value: Any) -> bool:
    """Whether a cell names nothing: blank, or the not-a-number that numeric programs write for nothing."""
    if isinstance(value, str | bytes):
        return value in _NOTHING or not value.strip()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")  # pandas' own, without importing pandas


def as_text(value: Any) -> str:
    """A label as CSV would have it: whole numbers without a point, bytes as the text they stand for."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float | Decimal | Fraction) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, int):
        return str(int(value)) if abs(value) < _LONG else hex(value)  # Python writes no longer ones out
    return str(value)


def alike(value: Any) -> Any:
    """One form for what files do not tell apart: 7, 7.0 and "7"."""
    if isinstance(value, complex) and value.imag == 0.0:
        value = value.real
    return as_text(value) if isinstance(value, _WRITTEN) else value


def typed(written: list[Any]) -> list[Any]:
    """Whole numbers if every label is written as one ("7", not "07": that is a name); else as they are."""
    if not all(isinstance(text, str) for text in written):
        return written
    try:
        numbers = [int(text) for text in written]
    except ValueError:
        return written
    whole = all(str(n) == text and abs(n) < 1 << 63 for n, text in zip(numbers, written, strict=True))
    return numbers if whole else written


def in_order(labels: list[Any]) -> list[int]:
    """Places of the labels in order: by number if all are numbers, also as text, else by value.

    Labels of several types do not compare with each other: numbers among text count as text, others stand by
    their type.
    """
    keys: list[Any] = []
    for one in labels:
        number = _value(one)
        if number is None:
            break
        keys.append((number, as_text(one)))
    if len(keys) == len(labels):
        pass
    elif all(isinstance(one, _NUMBERS | str) for one in labels):
        keys = [(as_text(one), type(one).__name__) for one in labels]
    else:
        keys = [(type(one).__name__, one) for one in labels]
    try:
        return sorted(range(len(labels)), key=keys.__getitem__)
    except TypeError as error:
        raise TypeError(f"these items have no order ({error}); give them in one, as items=") from error


def _value(one: Any) -> Fraction | int | None:
    """The number that a label is or that its text says; None for what is none."""
    try:
        if isinstance(one, str):
            return int(one) if one.lstrip("-").isdecimal() else Fraction(float(one))
        return Fraction(one) if isinstance(one, _NUMBERS) else None
    except (ValueError, OverflowError):
        return None
