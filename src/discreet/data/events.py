"""Events, (person, item) or (person, item, weight), to one sparse people x items matrix.

One reader for tables, files and streams, in Python, on the command line and in simulations. Of a person's
events with one item the largest weight counts: unlike a sum or a product it does not depend on the order of
rows, not even in its last digit.

Memory grows with the number of people, of items and of distinct (person, item) pairs, never with the number
of rows: a file with a billion rows of one person is one person.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError, one_of, whole
from ..core.names import is_text, name_of
from ..kernels.stores import TextNumbers
from ..privacy import Account, Budget, Gate, Seed, select_partitions
from .read import (
    FINE_TIMES,
    UTF,
    Batch,
    Column,
    Source,
    Text,
    Wording,
    batches,
    checked_encoding,
    columns_of,
    constraint_role,
)

# Most pairs that wait to be merged.
_MOST_UNMERGED = 1 << 20
_MOST_ITEMS = 10_000_000
_ITEM = 0xFFFFFFFF  # the part of a pair that is the item
_HEADLESS = "; if its first line is a row and no header, name its columns with {}"
_WORDING = Wording(
    separator="; if its columns are separated by {mark}, say separator=",
    headless=_HEADLESS.format("columns="),
    encoding='; if the file is in another encoding, say which, e.g. encoding="{other}"',
)
# In place of a number: for a cell that names nothing, and for a label that is not in a list.
MISSING, UNLISTED = -1, -2

_LONG = 1 << 4096
_EXACT = 1 << 53  # from here on floats skip integers
_NOTHING = frozenset(("", "nan", "NaN", b"nan", b"NaN"))
_WRITTEN = str | bytes | int | float | Decimal | Fraction | date | time | timedelta | UUID | tuple  # type: ignore[type-arg]
# A random key as for Python's dicts, against texts chosen to collide. No result depends on it.
PRIVATE = ("private", "seeded")  # lists chosen from the data: with secure randomness, or with a seed
_KEY = np.array([hash("texts"), hash("that were met")], dtype=np.int64).view(np.uint64)
_SAFE = {str, int}  # types of cells for which equality means the same name


@dataclass(frozen=True, repr=False)
class Events:
    """Events as read: each person's items with their weights, in compressed sparse rows.

    ``catalogue`` says where the list of items came from: a key of `objectives.base.CATALOGUES`. ``facts`` are
    the requested columns that constraints are about, by item.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float64]
    items: tuple[Any, ...]
    people: tuple[Any, ...]
    catalogue: str = "public"
    facts: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.weights):
            array.setflags(write=False)

    def __repr__(self) -> str:
        return f"Events({len(self.items)} items)"  # not the people

    @classmethod
    def of(
        cls,
        pairs: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        labels: Sequence[Any],
        people: Sequence[Any],
        order: Sequence[int],
    ) -> Events:
        """From sorted distinct pairs, ``person << 32 | item``, with the items rearranged in this order."""
        place = np.empty(len(labels), dtype=np.int64)
        place[order] = np.arange(len(labels))
        if (np.diff(place) < 0).any():
            pairs = pairs >> 32 << 32 | place[pairs & _ITEM]
            if weights is None:
                pairs.sort()
            else:
                within = np.argsort(pairs)
                pairs, weights = pairs[within], weights[within]
        if weights is None:
            weights = np.ones(pairs.size)
        else:
            pairs, weights = pairs[weights > 0.0], weights[weights > 0.0]
        items = tuple(labels[item] for item in order)
        return cls(
            _starts(pairs >> 32, len(people)), (pairs & _ITEM).astype(np.int32), weights, items, tuple(people)
        )

    @property
    def matrix(self) -> Any:
        """People x items, as a SciPy sparse array."""
        import scipy.sparse as sp

        return sp.csr_array((self.weights, self.indices, self.indptr), (len(self.people), len(self.items)))

    @cached_property
    def who(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.people)), np.diff(self.indptr))

    def only(self, kept: Sequence[bool] | NDArray[np.bool_]) -> Events:
        """The same people with only the marked items, which were chosen privately."""
        listed = np.asarray(kept, dtype=np.bool_)
        kept = listed[self.indices]
        place = np.cumsum(listed, dtype=np.int32) - 1
        return replace(
            self,
            indptr=_starts(self.who[kept], len(self.people)),
            indices=place[self.indices[kept]],
            weights=self.weights[kept],
            items=tuple(self.items[item] for item in np.flatnonzero(listed)),
            catalogue="private",
            facts={},
        )


def read_events(
    events: Any,
    *,
    person: str,
    item: str,
    weight: str | None = None,
    items: Iterable[Any] | str | os.PathLike[str] | None = None,
    people: Iterable[Any] | None = None,
    unknown_items: str = "error",
    highest: float = math.inf,
    separator: str | None = None,
    columns: Sequence[str] | None = None,
    items_columns: Sequence[str] | None = None,
    items_item: str | None = None,
    skip_bad: bool = False,
    encoding: str = UTF,
) -> Events:
    """Events as a matrix; the arguments are those of ``from_events``, and ``highest`` bounds the weights."""
    encoding = checked_encoding("encoding=", encoding)
    if isinstance(items, str | os.PathLike):
        wording = replace(
            _WORDING,
            columns="items_columns=",
            headless=_HEADLESS.format("items_columns="),
            renamed="" if items_item else "; if it is called otherwise there, say so with items_item=",
        )
        named = None if items_columns is None else tuple(items_columns)
        listed = Source(items, separator, public=True, wording=wording, columns=named, encoding=encoding)
        items, _ = read_items(listed, item if items_item is None else items_item)
    elif items_columns is not None or items_item is not None:
        raise ValueError("items_columns= and items_item= are about a file; give items= its path")
    source = events
    if not isinstance(events, Source):
        named = None if columns is None else tuple(columns)
        source = Source(events, separator, skip_bad, columns=named, wording=_WORDING, encoding=encoding)
    found = batches(source, columns_of(person, item, weight))
    return gathered(found, items=items, people=people, unknown_items=unknown_items, highest=highest)


def gathered(
    found: Iterable[Batch],
    *,
    items: Iterable[Any] | None = None,
    people: Iterable[Any] | None = None,
    unknown_items: str = "error",
    highest: float = math.inf,
    facts: Facts | None = None,
    nobody: bool = False,
    nothing: bool = False,
) -> Events:
    """The events of all batches; bad rows are refused, or left out if their source says so.

    A person whose row is left out still counts. With ``nobody`` no people are replaced by one without items;
    with ``nothing`` no items are replaced by one without a name, which nobody has.
    """
    one_of("unknown_items", unknown_items, ("error", "drop"))
    catalogue = "from data" if items is None else "public"
    if isinstance(items, PrivateCatalogue):
        catalogue = items.origin
    drop = unknown_items == "drop" or catalogue in PRIVATE
    names, somebody, pairs = Names(item_name, items), Names(name_of, people, "people"), Pairs()
    for batch in found:
        rows = GoodRows(batch)
        who = somebody.of(batch.columns["person"])
        rows.need("person", who != MISSING)
        if (who == UNLISTED).any():
            raise unlisted(batch, "person", int(np.argmax(who == UNLISTED)))
        weights = None
        if "weight" in batch.columns:
            weights = rows.weighed(amounts(batch.columns["weight"]), highest)
        said = {} if facts is None else facts.of(batch)
        for role, values in said.items():
            rows.need(role, values != MISSING)
        what = rows.listed(names, drop=drop)
        kept = rows.good & (what >= 0)
        if facts is not None:
            facts.note(batch, names.labels, what, said, kept)
        pairs.add((who << 32 | what)[kept], None if weights is None else weights[kept])
    labels, everybody = names.labels, somebody.labels
    if not labels and not nothing:
        raise ValueError("there are no items: the ground set is empty; give events, or a catalogue")
    if not everybody and not nobody:
        raise ValueError("there are no people; give at least one event")
    if catalogue == "from data" and not nothing and len(labels) > _MOST_ITEMS:
        raise ValueError(f"there are more than {_MOST_ITEMS:,} different items; give a list of fewer")
    order = list(range(len(labels))) if names.listed else in_order(labels)
    made = Events.of(*pairs.merged(), labels or [""], everybody or [""], order or [0])
    return replace(made, catalogue=catalogue, facts={} if facts is None else facts.by_item(order))


class Pairs:
    """Distinct (person, item) pairs, each with the largest of its weights, merged as they come."""

    def __init__(self) -> None:
        self._pairs = [np.zeros(0, dtype=np.int64)]
        self._weights: list[NDArray[np.float64]] | None = None  # None: each of them is 1
        self._unmerged = 0

    def add(self, pairs: NDArray[np.int64], weights: NDArray[np.float64] | None) -> None:
        if weights is not None and self._weights is None:
            self._weights = [np.ones(part.size) for part in self._pairs]
        self._pairs.append(pairs)
        if self._weights is not None:
            self._weights.append(np.ones(pairs.size) if weights is None else weights)
        self._unmerged += pairs.size
        # A merge sorts all pairs, so it waits until as many pairs were added as are merged already.
        if self._unmerged > max(_MOST_UNMERGED, self._pairs[0].size):
            self._merge()

    def merged(self) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        """The pairs in order, and their weights; None where each is 1."""
        self._merge()
        return self._pairs[0], None if self._weights is None else self._weights[0]

    def _merge(self) -> None:
        """Sort all pairs, and keep each once, with its largest weight."""
        pairs = np.concatenate(self._pairs)
        self._unmerged, self._pairs = 0, [pairs]
        if not pairs.size:
            return
        if self._weights is None:
            pairs.sort()
            self._pairs = [pairs[_first_of_equals(pairs)]]
            return
        order = np.argsort(pairs)
        pairs, weights = pairs[order], np.concatenate(self._weights)[order]
        first = np.flatnonzero(_first_of_equals(pairs))
        self._pairs, self._weights = [pairs[first]], [np.maximum.reduceat(weights, first)]


def _first_of_equals(pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the sorted pairs differ from the pair before."""
    return np.concatenate(([True], pairs[1:] != pairs[:-1]))


def _starts(who: NDArray[np.int64], people: int) -> NDArray[np.int64]:
    """Where each person's entries begin, and the last one's end."""
    return np.concatenate(([0], np.cumsum(np.bincount(who, minlength=people)))).astype(np.int64)


# --- bad rows ----------------------------------------------------------------------------------


class GoodRows:
    """The rows of a batch that are good so far."""

    def __init__(self, batch: Batch) -> None:
        self.good = np.ones(len(batch), dtype=np.bool_)
        self._batch = batch

    def keep(self, right: NDArray[np.bool_], refusal: Callable[[int], ValueError]) -> None:
        """Keep the rows that are ``right``; refuse the first other one unless bad rows are left out."""
        left = self.good & right
        if not self._batch.source.skip_bad and left.sum() < self.good.sum():
            raise refusal(int(np.argmax(self.good & ~right)))
        self.good = left

    def need(self, role: str, there: NDArray[np.bool_]) -> None:
        """Keep the rows that have this cell."""
        self.keep(there, lambda row: self._batch.missing(role, row))

    def weighed(self, weights: NDArray[np.float64], highest: float) -> NDArray[np.float64]:
        """Keep the rows whose weight is allowed; returns the weights.

        If bad rows are left out, a number out of range is clipped instead: of ratings from 1 to 5 only those
        of 1 would remain.
        """
        if self._batch.source.skip_bad:
            weights = np.clip(weights, 0.0, highest)
        right = (weights >= 0.0) & (weights <= highest) & (weights < np.inf)
        self.keep(right, lambda row: _bad_weight(self._batch, row, highest))
        return weights

    def listed(self, names: Names, *, drop: bool) -> NDArray[np.int64]:
        """The item numbers of good rows; a row of an unlisted item is bad, unless such rows are dropped.

        Only items of rows that are kept get into a list that is taken from data.
        """
        column = self._batch.columns["item"]
        found = np.full(self.good.size, MISSING)
        if self.good.all():
            found = names.of(column)
        else:
            found[self.good] = names.of(column.where(self.good))
        self.need("item", found != MISSING)
        if not drop:
            self.keep(found != UNLISTED, lambda row: unlisted(self._batch, "item", row))
        return found


def unlisted(batch: Batch, role: str, row: int) -> ValueError:
    """An error for a label that is not in a list."""
    wording = batch.source.wording
    listed, remedy = (wording.items, wording.drop_items) if role == "item" else ("people=", "; add them")
    words = f"{listed} does not list the {role} of every event{remedy}"
    return batch.refused(row, words, f"the {role} {batch.columns[role][row]!r}")


def allowed(highest: float) -> str:
    if highest < math.inf:
        return f"lie in [0, {highest:g}], so divide ratings by the highest there can be"
    return "be finite and at least 0"


def _bad_weight(batch: Batch, row: int, highest: float) -> ValueError:
    cell = batch.columns["weight"][row]
    return batch.refused(
        row,
        f"column {batch.asked['weight']!r} has a weight that is not allowed; weights must {allowed(highest)}",
        f"{cell:g}" if isinstance(cell, float) else repr(cell),
        skippable=False,  # it would be clipped instead
    )


def amounts(column: Column) -> NDArray[np.float64]:
    """Weights as numbers; NaN for a cell that is not one."""
    values = column.texts() if isinstance(column, Text) else column.values
    if isinstance(values, np.ndarray):
        found = values.astype(np.float64)
    else:
        found = np.fromiter(map(number, values), np.float64, len(values))
    return found if column.codes is None else found[column.codes]


def number(cell: Any) -> float:
    """A weight as a number; NaN for anything else."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


# --- labels --------------------------------------------------------------------------------------
#
# The same in text files and in typed columns. A label's name, equality and order follow from the label alone.


class Names:
    """A number for each label, from 0 in the order of appearance, or in that of a list.

    ``name`` maps a cell to its name, an integer or text, or to None if it names nothing: `name_of` for
    people, `item_name` for items. Cells of the same name are one label. With ``listed``, whose labels are
    kept as written, no other labels get a number.

    >>> from discreet.core.names import name_of
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
        self._cells: dict[str | int, int] = {}  # distinct cells already seen
        # By type of column: the distinct values seen, and their numbers.
        self._met: dict[str, tuple[TextNumbers, NDArray[np.int64]]] = {}
        if hasattr(listed, "columns"):  # a table, which might iterate over its column names
            listed = _only_column(argument, listed)
        if listed is not None and hasattr(listed, "to_pylist"):  # pyarrow, whose scalars are not names
            listed = listed.to_pylist()
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
        """The number of one cell's label, or MISSING or UNLISTED."""
        found = self._name(cell)
        number = MISSING if found is None else self._numbers.get(found, UNLISTED)
        if number == UNLISTED and not self.listed:
            number = self._numbers[found] = len(self.labels)
            self.labels.append(found)
        # 1, 1.0 and True are one dict key but need not be one name: only cells of safe types are cached.
        if type(cell) in _SAFE:
            self._cells[cell] = number
        return number

    def of(self, column: Column) -> NDArray[np.int64]:
        """The number of each row's label, or MISSING or UNLISTED."""
        if column.missing is not None:
            found = np.full(len(column), MISSING)
            found[~column.missing] = self.of(Column(np.asarray(column.values)[~column.missing]))
            return found
        if column.codes is not None:
            # Values that no row holds must not get into a list that is taken from data.
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
        """The same for bytes of text or integers: each distinct value is converted to Python once."""
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
    """The error for a duplicate; people are named in its details only."""
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
    """Whether a cell names nothing: blank, or a NaN that stands for a missing value."""
    if isinstance(value, str | bytes):
        return value in _NOTHING or not value.strip()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")  # pandas' own, without importing pandas


def item_name(value: Any) -> int | str | None:
    """The name of an item: an integer or text; None for a cell that names no item.

    Values that files do not distinguish, 7, 7.0 and "7", are one item; "07" is another: an exact string
    match, in Unicode's composed form (NFC), so that composed and combining accents are equal. Text that ends
    in a NUL, which NumPy would drop, names no item. Dates and other numbers are named by their text.
    """
    if type(value) is not str:
        value = plain(value)
        if not isinstance(value, _WRITTEN) or not _exact(value):
            return None
    if absent(value):
        return None
    text = as_text(value)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if len(text) < 20 and text[0] <= "9" and text.removeprefix("-").isdigit() and text.isascii():
        number = int(text)
        return number if str(number) == text else text
    return text if is_text(text) and text[-1] != "\0" else None


def _exact(value: Any) -> bool:
    """Whether a number can be written out exactly in a file."""
    if isinstance(value, float):
        return math.isfinite(value) and (abs(value) < _EXACT or not value.is_integer())
    if isinstance(value, Decimal):
        return value.is_finite() and abs(value.adjusted()) < 4096
    return not isinstance(value, tuple) or all(item_name(part) is not None for part in value)


def as_text(value: Any) -> str:
    """A label as in CSV: integers without a point, bytes decoded to text."""
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
    """Indices of the labels in order: numbers, also as text, by value, then all others by text.

    The order of two labels does not depend on which others there are.
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


def _only_column(argument: str, table: Any) -> Iterable[Any]:
    """The column of a one-column table. Errors name no column, as a name may be a cell of somebody's row.

    ``columns`` of pyarrow are the columns themselves rather than their names, and print people's data.
    """
    names = getattr(table, "column_names", table.columns)
    if len(names) == 0:
        raise ValueError(f"{argument} is a table without columns; give a list")
    if len(names) > 1:
        raise ValueError(f"{argument} is a table with {len(names)} columns; give the one that lists them")
    column: Iterable[Any] = table[names[0]]
    return column


# --- facts about items -------------------------------------------------------------------------


class Facts:
    """One value of each column for each item; rows may repeat it."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._values = {constraint_role(column): Names(item_name) for column in columns}
        self._known: dict[str, dict[int, int]] = {role: {} for role in self._values}

    def of(self, batch: Batch) -> dict[str, NDArray[np.int64]]:
        """The number of each row's value, by role."""
        return {role: names.of(batch.columns[role]) for role, names in self._values.items()}

    def note(
        self,
        batch: Batch,
        labels: Sequence[Any],
        items: NDArray[np.int64],
        facts: Mapping[str, NDArray[np.int64]],
        kept: NDArray[np.bool_],
    ) -> None:
        """Record the values that the kept rows give for their items; rows must not disagree."""
        rows = np.flatnonzero(kept)
        for role, values in facts.items():
            pairs, first = np.unique(items[rows] << 32 | values[rows], return_index=True)
            known, names = self._known[role], self._values[role].labels
            for pair, row in zip(pairs.tolist(), rows[first].tolist(), strict=True):
                item, value = pair >> 32, pair & 0xFFFFFFFF  # packed into one number above
                before = known.setdefault(item, value)
                if before != value:
                    one, other = (as_text(names[number]) for number in (before, value))
                    name = as_text(labels[item])
                    raise batch.refused(
                        row,
                        "an item has two values; an item has one value of the constraint's column",
                        f"item {name!r} has {one!r} and {other!r} in column {batch.asked[role]!r}; an item"
                        " has one value of the constraint's column",
                        skippable=False,
                    )

    def by_item(self, order: Sequence[int]) -> dict[str, list[str]]:
        """The columns, with a value for each of these items."""
        found = {}
        for column in self._columns:
            role = constraint_role(column)
            values = [as_text(value) for value in self._values[role].labels]
            found[column] = [values[self._known[role][item]] for item in order]
        return found


def read_items(
    source: Source, item: str, columns: Sequence[str] = ()
) -> tuple[list[Any], dict[str, list[str]]]:
    """A list of items, one per row, and the facts about each; a single column may have any name."""
    names, facts = Names(item_name), Facts(columns)
    asked = {"item": item} | {constraint_role(one): one for one in columns}
    for batch in batches(source, asked, only="item"):
        what, values = names.of(batch.columns["item"]), facts.of(batch)
        for role, numbers in ({"item": what} | values).items():
            if (numbers == MISSING).any():
                raise batch.missing(role, int(np.argmax(numbers == MISSING)))
        facts.note(batch, names.labels, what, values, what != MISSING)
    if not names.labels:
        raise ValueError(f"{source.name} lists no items; give one item per row")
    return names.labels, facts.by_item(range(len(names.labels)))


# --- private catalogues --------------------------------------------------------------------------


class PrivateCatalogue(tuple[Any, ...]):
    """A list of items chosen by `private_catalogue`; ``privacy`` is the account at that time.

    As ``items=`` it leaves out events with other items, for any ``unknown_items``, and the population records
    that its list of items was a release.
    """

    privacy: Account

    def __new__(cls, items: Iterable[Any], privacy: Account) -> Self:
        made = super().__new__(cls, items)
        made.privacy = privacy
        return made

    @property
    def origin(self) -> str:
        """The ``catalogue`` of populations with this list."""
        return PRIVATE[self.privacy.reproducible]

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.privacy


def private_catalogue(
    events: Any,
    budget: Budget | Gate,
    *,
    person: str,
    item: str,
    weight: str | None = None,
    share: float = 1.0,
    items_per_person: int = 1,
    seed: Seed = None,
) -> PrivateCatalogue:
    """The items that enough people have, chosen privately: a list for ``items=`` if none is public.

    ``events``, ``person``, ``item`` and ``weight`` as in ``Coverage.from_events``. Each person votes for
    ``items_per_person`` of their items, drawn at random (events of weight 0 do not count); an item is listed
    if its noisy number of votes passes a threshold; `privacy.partitions.PartitionSelection` has the proof.
    One vote each is best unless the same people like nearly everything. Items are sorted, integers first: the
    form (integers as such, all else as text) and the order of listed items depend on these alone.

    It costs ``share`` of the budget's epsilon, and all of its delta, which must be above 0. A `Budget` is
    spent at a gate of its own, and later selections from the catalogue cost their own budget in addition.
    With a `Gate`, which has its own randomness, both are in one account: later selections spend what is left
    of epsilon.

    Formal guarantee: (share x epsilon, delta)-DP under the budget's neighbours. An item that only one person
    has is listed with probability at most delta.

    >>> import discreet as dc
    >>> table = {"who": [*range(90), 90], "what": ["tea", "milk", "jam"] * 30 + ["Ann's secret"]}
    >>> gate = dc.Gate(dc.Budget(4.0, 1e-6), 0)
    >>> catalogue = dc.data.private_catalogue(table, gate, person="who", item="what", share=0.5)
    >>> list(catalogue)
    ['jam', 'milk', 'tea']
    >>> people = dc.objectives.Coverage.from_events(table, person="who", item="what", items=catalogue)
    >>> best = dc.offline.PrivateGreedy(2, gate).select(people)
    >>> len(best), best.privacy.epsilon()
    (2, 4.0)
    """
    if isinstance(budget, Gate):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        gate = budget
    elif isinstance(budget, Budget):
        gate = Gate(budget, seed)
    else:
        raise TypeError(
            f"budget must be a Budget or a Gate, got a {type(budget).__name__}; e.g. Budget(1.0, 1e-6)"
        )
    whole("items_per_person", items_per_person, at_least=1)
    rows = batches(Source(events), columns_of(person, item, weight))
    found = gathered(rows, nobody=True, nothing=True)
    chosen = choose_items(found, gate, share=share, items_per_person=items_per_person)
    return PrivateCatalogue(chosen.items, gate.spent)


def choose_items(events: Events, gate: Gate, *, share: float = 1.0, items_per_person: int = 1) -> Events:
    """The same people with only the items that `private_catalogue` would list, possibly none."""
    listed = select_partitions(
        events.who,
        events.indices.astype(np.int64),
        len(events.items),
        gate,
        share=share,
        keys_per_person=items_per_person,
        label=f"catalogue: items by noisy counts, at most {items_per_person} of each person",
    )
    return replace(events.only(listed), catalogue=PRIVATE[gate.reproducible])
