"""Events, (person, item) or (person, item, weight), to one sparse people x items matrix."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError, one_of, real
from ..objectives.rows.matrices import SparseMatrix
from .tables import Column, read_columns

if TYPE_CHECKING:
    from ..privacy import Account

_REPEATS = ("max", "sum", "noisy_or")


class PrivateCatalogue(tuple[Any, ...]):
    """A list of items that `private_catalogue` has chosen; ``privacy`` is the account when it was.

    As ``items=`` it leaves out events with other items, whatever ``unknown_items`` says, and the people know
    that their list of items was a release.
    """

    privacy: Account

    def __new__(cls, items: Iterable[Any], privacy: Account) -> Self:
        made = super().__new__(cls, items)
        made.privacy = privacy
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.privacy


def origin(items: Iterable[Any] | None) -> str:
    """What ``Population.catalogue`` says of people who were read with this ``items=``."""
    if items is None:
        return "from data"
    return "private" if isinstance(items, PrivateCatalogue) else "public"


@dataclass(frozen=True)
class Events:
    """What was read: the matrix, and what its columns and rows stand for."""

    matrix: SparseMatrix
    items: tuple[Any, ...]
    people: tuple[Any, ...]


def read_events(
    events: Any,
    *,
    person: str,
    item: str,
    weight: str | None = None,
    items: Iterable[Any] | None = None,
    people: Iterable[Any] | None = None,
    unknown_items: str = "error",
    repeats: str = "max",
) -> Events:
    """A table of events as a matrix; the arguments are those of ``from_events``.

    ``repeats`` says what several events of one person with one item amount to: their ``"max"``, their
    ``"sum"``, or 1 - product(1 - weight), ``"noisy_or"``.
    """
    one_of("unknown_items", unknown_items, ("error", "drop"))
    drop = unknown_items == "drop" or origin(items) == "private"
    names = {"person": person, "item": item} | ({} if weight is None else {"weight": weight})
    columns = read_columns(events, names)
    for argument in ("person", "item"):
        _none_missing(argument, names[argument], columns[argument])
    weights = _weights(columns.get("weight"), weight, columns["person"].size)
    who, everybody = _encode("person", columns["person"], people, ordered="first seen")
    what, catalogue = _encode("item", columns["item"], items, ordered="sorted", drop=drop)
    known = what >= 0
    return _events(who[known], what[known], weights[known], everybody, catalogue, repeats)


class EventReader:
    """Events one at a time, for streams that are not a table.

    >>> reader = EventReader()
    >>> for person, item in [("ann", "tea"), ("bob", "milk"), ("ann", "milk")]:
    ...     reader.add(person, item)
    >>> reader.add_person("cy")                          # somebody without events
    >>> from discreet.objectives import Coverage
    >>> people = reader.population(Coverage)
    >>> len(people), people.labels
    (3, ('milk', 'tea'))
    """

    def __init__(self, *, items: Iterable[Any] | None = None) -> None:
        self._catalogue = None if items is None else _listed("items", items)
        self._origin = origin(items)
        self._items: dict[Any, int] = {} if self._catalogue is None else dict(self._catalogue)
        self._people: dict[Any, int] = {}
        self._who: list[int] = []
        self._what: list[int] = []
        self._weights: list[float] = []

    def __len__(self) -> int:
        """How many events have been added."""
        return len(self._who)

    def add_person(self, person: Hashable) -> None:
        """Count a person in, with or without events."""
        self._people.setdefault(_present("person", person), len(self._people))

    def add(self, person: Hashable, item: Hashable, weight: float = 1.0) -> None:
        """One event; nothing is changed when it is refused."""
        person, item = _present("person", person), _present("item", item)
        amount = real("weight", weight, at_least=0)
        if self._origin == "private" and item not in self._items:
            self.add_person(person)
            return
        if self._catalogue is not None and item not in self._catalogue:
            raise ValueError(f"item {item!r} is not in the catalogue items=")
        self.add_person(person)
        self._who.append(self._people[person])
        self._what.append(self._items.setdefault(item, len(self._items)))
        self._weights.append(amount)

    def population(self, family: Any, **options: Any) -> Any:
        """A population of the given family, such as ``Coverage``, of everybody so far."""
        if not hasattr(family, "_repeats"):
            raise TypeError(
                f"family={getattr(family, '__name__', family)!r} has no row of items per person; "
                "use one that has from_events, such as Coverage"
            )
        what = np.array(self._what, dtype=np.int64)
        labels = list(self._items)
        if self._catalogue is None:
            order = _sorted_order(labels)
            place = np.empty(len(labels), dtype=np.int64)
            place[order] = np.arange(len(labels))
            what, labels = place[what] if what.size else what, [labels[i] for i in order]
        who = np.array(self._who, dtype=np.int64)
        weights = np.array(self._weights)
        found = _events(who, what, weights, tuple(self._people), tuple(labels), family._repeats)
        made = family(found.matrix, labels=found.items, **options).with_identities(found.people)
        return made._like(catalogue=self._origin)


def _events(
    who: NDArray[np.int64],
    what: NDArray[np.int64],
    weights: NDArray[np.float64],
    people: tuple[Any, ...],
    items: tuple[Any, ...],
    repeats: str,
) -> Events:
    one_of("repeats", repeats, _REPEATS)
    if not items:
        raise ValueError(
            "there are no items: the ground set is empty; give events, or the catalogue as items="
        )
    if not people:
        raise ValueError("there are no people; give events, or list everybody as people=")
    order = np.lexsort((what, who))
    cell = who[order] * len(items) + what[order]
    amounts = weights[order]
    if cell.size:
        first = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
        if repeats == "max":
            amounts = np.maximum.reduceat(amounts, first)
        elif repeats == "sum":
            amounts = np.add.reduceat(amounts, first)
        elif first.size < cell.size:
            if amounts.max() > 1:
                raise DataError(
                    "a weight is not a probability; weights must lie in [0, 1]", f"{amounts.max():g}"
                )
            # A weight that stands alone stays as it was written: 1 - (1 - 0.1) is not 0.1.
            alone = np.diff(first, append=cell.size) == 1
            amounts = np.where(alone, amounts[first], 1.0 - np.multiply.reduceat(1.0 - amounts, first))
        cell = cell[first]
    person, item = np.divmod(cell, len(items))
    counted = amounts != 0
    indptr = np.concatenate(([0], np.cumsum(np.bincount(person[counted], minlength=len(people)))))
    matrix = SparseMatrix(indptr, item[counted].astype(np.int32), amounts[counted], len(items))
    return Events(matrix, items, people)


def _weights(column: Column | None, name: str | None, count: int) -> NDArray[np.float64]:
    if column is None:
        return np.ones(count)
    if column.dtype.kind in "mMc":
        raise TypeError(f"weight={name!r} must be a column of numbers, got {column.dtype.name}")
    try:
        weights = np.array(
            [np.nan if v is None else v for v in column] if column.dtype == object else column, float
        )
    except (TypeError, ValueError):
        raise TypeError(
            f"weight={name!r} must be a column of numbers, and has something else in it"
        ) from None
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"column {name!r} has a weight that is not allowed; weights must be finite and at least 0",
            f"row {row} is {weights[row]:g}",
        )
    return weights


def _encode(
    argument: str, column: Column, listed: Iterable[Any] | None, *, ordered: str, drop: bool = False
) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Codes of the entries, and what each code stands for; -1 where a dropped entry is not listed."""
    distinct, codes = _distinct(column)
    if listed is None:
        order = _sorted_order(distinct) if ordered == "sorted" else np.arange(len(distinct))
        place = np.empty(len(distinct), dtype=np.int64)
        place[order] = np.arange(len(distinct))
        return (place[codes] if codes.size else codes), tuple(distinct[i] for i in order)
    plural = "items" if argument == "item" else "people"
    places = _listed(plural, listed)
    alike = {_alike(value): place for value, place in places.items()}
    wanted = np.array([alike.get(_alike(value), -1) for value in distinct], dtype=np.int64)
    found = wanted[codes] if codes.size else codes
    if not drop and (found < 0).any():
        row = int(np.argmax(found < 0))
        hint = '; add it, or unknown_items="drop"' if argument == "item" else "; add them"
        raise DataError(
            f"{plural}= does not list the {argument} of every event{hint}",
            f"row {row} has the {argument} {_plain(column[row])!r}",
        )
    return found, tuple(places)


def _distinct(column: Column) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct entries in the order of their first row, and which of them each row holds."""
    if column.dtype == object or column.size == 0:
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(_label(value), len(seen)) for value in column], dtype=np.int64)
        return list(seen), codes
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return values[order].tolist(), rank[inverse]


def _sorted_order(labels: list[Any]) -> list[int]:
    """By value; labels of several types by type first, since they do not compare with each other."""
    try:
        return sorted(range(len(labels)), key=lambda i: (type(labels[i]).__name__, labels[i]))
    except TypeError as error:
        raise TypeError(f"these items have no order ({error}); give them in one, as items=") from error


def _listed(argument: str, values: Iterable[Any]) -> dict[Any, int]:
    places: dict[Any, int] = {}
    known: dict[Any, Any] = {}
    for value in values:
        plain = _label(value)
        if plain in places:
            what = "an entry" if argument == "people" else repr(plain)
            raise DataError(f"{argument} lists {what} twice", repr(plain))
        other = known.setdefault(_alike(plain), plain)
        if other is not plain:
            what = "two entries" if argument == "people" else f"{other!r} and {plain!r}"
            raise DataError(
                f"{argument} lists {what}, which files do not tell apart", f"{other!r} and {plain!r}"
            )
        places[plain] = len(places)
    return places


def _alike(label: Any) -> Any:
    """One form for a whole number and its text, in which labels are looked up in a list.

    A column is numbers or text by what stands in all of its rows: one person's entry may turn everybody's 7
    into "7", and must not take their events out of the list by it.
    """
    if isinstance(label, int):
        return str(int(label))
    number: Any = label if isinstance(label, Number) else None
    if number is None:
        return label
    try:
        whole = int(number.real)
    except (ValueError, OverflowError):
        return label
    return str(whole) if whole == number else label  # of 1 and Decimal(1), the first to come stands for both


def _none_missing(argument: str, name: str, column: Column) -> None:
    if column.dtype == object:
        missing = np.array([_absent(value) for value in column], dtype=np.bool_)
    elif column.dtype.kind in "fmM":
        missing = np.isnan(column) if column.dtype.kind == "f" else np.isnat(column)
    else:
        return
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"an entry of column {name!r} is missing; every event needs its {argument}", f"row {row}"
        )


def _absent(value: Any) -> bool:
    value = _plain(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")  # pandas' own, without importing pandas


def _present(argument: str, value: Any) -> Any:
    if _absent(value):
        raise ValueError(f"{argument} is missing; every event needs one")
    return _label(value)


def _label(value: Any) -> Any:
    plain = _plain(value)
    try:
        hash(plain)
    except TypeError:
        kind = type(plain).__name__
        raise TypeError(f"a {kind} cannot name a person or an item; use text or numbers") from None
    return plain


def _plain(value: Any) -> Any:
    """A Python value in place of a NumPy scalar, so that labels from any source compare and print alike."""
    return value.item() if isinstance(value, np.generic) else value
