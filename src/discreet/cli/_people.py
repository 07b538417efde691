"""A file of (person, item) rows as people: each person once, whatever the number of their rows.

Memory grows with the number of people, of items and of different (person, item) pairs, never with the number
of rows: a file in which one person stands a billion times is one person.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..objectives import Coverage, ProbabilisticCoverage
from ..objectives.rows.matrices import SparseMatrix
from ._files import Batch, Source
from ._frame import printable

# Rows that wait to be merged into the pairs known so far.
_WAITING = 1 << 20
_MOST_ITEMS = 10_000_000


def fact(column: str) -> str:
    """The argument that asks for a constraint's column."""
    return f"constraint:{column}"


@dataclass
class Catalogue:
    """The items there are, and what each one's constraint columns say; the same for everybody, so public."""

    items: dict[str, int] = field(default_factory=dict)
    facts: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)  # by column, then item

    def note(self, source: Source, batch: Batch, column: str, item: str, row: int) -> None:
        """Remember what a row says about an item, and where; no two rows may disagree."""
        value = batch.cells[fact(column)][row]
        assert value is not None
        facts = self.facts.setdefault(column, {})
        known = facts.get(item)
        if known is None:
            facts[item] = (value, f"{batch.unit} {batch.lines[row]}")
        elif known[0] != value:
            raise source.refused(
                f"item {item!r} has two values; an item has one value of the constraint's column",
                f"{batch.unit} {batch.lines[row]}",
                f"item {item!r} has {value!r}, and {known[0]!r} in {known[1]}; an item has one value of the"
                " constraint's column",
            )

    def values(self, column: str) -> dict[str, str]:
        """A constraint's column, by item."""
        facts = self.facts.get(column, {})
        lacking = [item for item in self.items if item not in facts]
        if lacking:
            raise ValueError(f"item {lacking[0]!r} has no value in the constraint's column; give it one")
        return {item: facts[item][0] for item in self.items}

    @classmethod
    def read(cls, source: Source, columns: dict[str, str]) -> Catalogue:
        """A file with one row per item; rows that repeat an item must agree."""
        found = cls()
        about = [column for argument, column in columns.items() if argument == fact(column)]
        for batch in source.batches(columns, only_column="item"):
            for argument, cells in batch.cells.items():
                if None in cells:
                    raise _missing(source, batch, cells.index(None), argument, columns[argument])
            for row, item in enumerate(batch.cells["item"]):
                assert item is not None
                found.items.setdefault(item, len(found.items))
                for column in about:
                    found.note(source, batch, column, item, row)
        if not found.items:
            raise ValueError(f"{source.name} lists no items; give one item per row")
        return found


@dataclass(frozen=True)
class People:
    """Who was read, over which items; ``facts`` has the constraints' columns, by item."""

    population: Coverage | ProbabilisticCoverage
    facts: dict[str, list[str]]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.population.labels or ())

    def only(self, listed: NDArray[np.bool_]) -> People:
        """The same people with the marked items, at least one, which were chosen privately."""
        full = self.population._rows.sparse
        kept = full.keep(listed[full.indices])
        place = np.cumsum(listed, dtype=np.int32) - 1
        matrix = SparseMatrix(kept.indptr, place[kept.indices], kept.data, int(listed.sum()))
        labels = [label for label, marked in zip(self.labels, listed, strict=True) if marked]
        population = type(self.population)(matrix, labels=labels)._like(catalogue="private")
        population._digests = self.population._digests
        return People(population, {})


def read_people(
    source: Source,
    columns: dict[str, str],
    catalogue: Catalogue | None,
    *,
    skip_bad: bool = False,
    nobody: bool = False,
    nothing: bool = False,
) -> People:
    """Everybody in the file; ``columns`` maps person, item and, where asked for, weight and constraint.

    Without a catalogue the items are those of the file, sorted. A row without a person, an item or a value
    that was asked for, or with an item that the catalogue does not list, is refused, or left out with
    ``skip_bad``; its person, if there is one, still counts as somebody. With ``nobody`` a file without people
    is taken as well: as one person without items, who moves no score. With ``nothing`` so is a file without
    items: there is one then, without a name, that nobody has. ``columns`` asks for a constraint's
    column as `fact` of its name.
    """
    listed = catalogue is not None
    items = Catalogue() if catalogue is None else catalogue
    reader = _Reader(source, columns, items, listed, skip_bad)
    for batch in _watched(source.batches(columns)):
        reader.add(batch)
    if not reader.people and nobody:
        reader.people[""] = 0
    if not reader.people:
        raise ValueError(f"{source.name} has no rows below its header: there is nobody to choose for")
    if not items.items and nothing:
        items.items[""] = 0
    if not items.items:
        raise ValueError(f"{source.name} names no item in any row; there is nothing to choose from")
    return reader.finish()


class _Reader:
    def __init__(
        self, source: Source, columns: dict[str, str], catalogue: Catalogue, listed: bool, skip_bad: bool
    ) -> None:
        self.people: dict[str, int] = {}
        self._source, self._columns, self._skip_bad = source, columns, skip_bad
        self._catalogue, self._listed = catalogue, listed
        # Facts about items come with the rows only where the items do.
        self._facts = [column for argument, column in columns.items() if argument == fact(column)]
        self._pairs = _Pairs("weight" in columns)

    def add(self, batch: Batch) -> None:
        """One batch of rows: bad ones are refused or left out, good ones become pairs."""
        rows: Iterable[int] = range(len(batch))
        cells, people = batch.cells, self.people
        if None in cells["person"]:
            rows = self._present(batch, "person", rows)
        _numbered(people, cells["person"])
        for argument in self._columns:
            if argument != "person" and None in cells[argument]:
                rows = self._present(batch, argument, rows)
        weights = None
        if "weight" in self._columns:
            rows, weights = self._weights(batch, rows)
        rows, what = self._what(batch, rows)
        who = [people[str(person)] for person in _at(cells["person"], rows)]
        pairs = np.array(who, dtype=np.int64) << 32 | np.array(what, dtype=np.int64)
        self._pairs.add(pairs, None if weights is None else weights[np.fromiter(rows, dtype=np.int64)])

    def finish(self) -> People:
        pairs, weights = self._pairs.merged()
        who, what = pairs >> 32, pairs & 0xFFFFFFFF
        labels = list(self._catalogue.items)
        if not self._listed:
            order = sorted(range(len(labels)), key=labels.__getitem__)
            place = np.empty(len(labels), dtype=np.int64)
            place[order] = np.arange(len(labels))
            labels, what = [labels[i] for i in order], place[what]
            within = np.lexsort((what, who))
            who, what, weights = who[within], what[within], weights[within]
        counted = weights > 0.0
        lengths = np.bincount(who[counted], minlength=len(self.people))
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        matrix = SparseMatrix(indptr, what[counted].astype(np.int32), weights[counted], len(labels))
        facts = {}
        for column in dict.fromkeys([*self._facts, *self._catalogue.facts]):
            by_item = self._catalogue.values(column)
            facts[column] = [by_item[label] for label in labels]
        kind: Any = ProbabilisticCoverage if "weight" in self._columns else Coverage
        population = kind(matrix, labels=labels).with_identities(self.people)
        origin = "public" if self._listed else "from data"
        return People(population._like(catalogue=origin), facts)

    def _present(self, batch: Batch, argument: str, rows: Iterable[int]) -> list[int]:
        """The rows that have this cell."""
        cells = batch.cells[argument]
        if not self._skip_bad:
            raise _missing(
                self._source, batch, cells.index(None), argument, self._columns[argument], _LEAVE_OUT
            )
        return [row for row in rows if cells[row] is not None]

    def _what(self, batch: Batch, rows: Iterable[int]) -> tuple[Iterable[int], list[int]]:
        """The rows whose item may be chosen, and the number of that item."""
        cells, items = batch.cells["item"], self._catalogue.items
        if self._listed and not items.keys() >= set(cells):
            unknown = [row for row in rows if cells[row] not in items]
            if unknown and not self._skip_bad:
                row = unknown[0]
                raise self._source.refused(
                    f"an item is not listed by --items; add it{_LEAVE_OUT}",
                    f"{batch.unit} {batch.lines[row]}",
                    f"the item {printable(str(cells[row]))!r}",
                )
            if unknown:
                rows = [row for row in rows if cells[row] in items]
        labels = [str(label) for label in _at(cells, rows)]
        if not self._listed:
            _numbered(items, labels)
        what = [items[label] for label in labels]
        if len(items) > _MOST_ITEMS:
            raise ValueError(
                f"{self._source.name} names more than {_MOST_ITEMS:,} different items; list those to choose"
                " from in a file for --items"
            )
        for column in self._facts:
            for row, label in zip(rows, labels, strict=True):
                self._catalogue.note(self._source, batch, column, label, row)
        return rows, what

    def _weights(self, batch: Batch, rows: Iterable[int]) -> tuple[list[int], NDArray[np.float64]]:
        """The rows with a weight in [0, 1], and everybody's weights."""
        weights = np.zeros(len(batch))
        kept = []
        for row in rows:
            text = str(batch.cells["weight"][row])
            try:
                weights[row] = float(text)
            except ValueError:
                weights[row] = np.nan
            if 0.0 <= weights[row] <= 1.0:
                kept.append(row)
            elif not self._skip_bad:
                raise self._source.refused(
                    f"a weight is not a number from 0 to 1; mend it{_LEAVE_OUT}",
                    f"{batch.unit} {batch.lines[row]}",
                    f"the weight {printable(text)!r}",
                )
        return kept, weights


class _Pairs:
    """Different (person, item) pairs, each with the largest of its weights."""

    def __init__(self, weighted: bool) -> None:
        self._weighted = weighted
        self._pairs = [np.zeros(0, dtype=np.int64)]
        self._weights = [np.zeros(0)]
        self._waiting = 0

    def add(self, pairs: NDArray[np.int64], weights: NDArray[np.float64] | None) -> None:
        self._pairs.append(pairs)
        if weights is not None:
            self._weights.append(weights)
        self._waiting += pairs.size
        # Merging costs as much as what is known already: wait until as much again has come.
        if self._waiting > max(_WAITING, self._pairs[0].size):
            self._merge()

    def merged(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The pairs in order, and their weights (1 if none were given)."""
        self._merge()
        return self._pairs[0], self._weights[0] if self._weighted else np.ones(self._pairs[0].size)

    def _merge(self) -> None:
        pairs = np.concatenate(self._pairs)
        if not self._weighted:
            self._pairs = [np.unique(pairs)]
        elif pairs.size:
            order = np.argsort(pairs, kind="stable")
            pairs = pairs[order]
            first = np.flatnonzero(np.diff(pairs, prepend=pairs[0] - 1))
            # The largest, not a product or a sum: it does not depend on the order of rows, not even in its
            # last digit, so that one person's weights never depend on another person's rows.
            self._weights = [np.maximum.reduceat(np.concatenate(self._weights)[order], first)]
            self._pairs = [pairs[first]]
        self._waiting = 0


def _numbered(known: dict[str, int], cells: Sequence[str | None]) -> None:
    """Give a number to each new name, in the order in which they come."""
    for name in dict.fromkeys(cells):
        if name is not None:
            known.setdefault(name, len(known))


def _at(cells: list[str | None], rows: Iterable[int]) -> list[str | None]:
    """The cells of some rows; of all of them if none was left out."""
    return cells if isinstance(rows, range) else [cells[row] for row in rows]


_LEAVE_OUT = ", or leave such rows out with --skip-bad"


def _missing(
    source: Source, batch: Batch, row: int, argument: str, column: str, remedy: str = ""
) -> ValueError:
    return source.refused(
        f"column {column!r} is empty ({argument.partition(':')[0]}) in a row; fill it in{remedy}",
        f"{batch.unit} {batch.lines[row]}",
        f"column {column!r} is empty ({argument.partition(':')[0]})",
    )


def _watched(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches; on a terminal, how much of the file has been read (a share: counts are private)."""
    shown, last = False, time.monotonic()
    try:
        for batch in batches:
            now = time.monotonic()
            if batch.done is not None and now - last > 0.5 and sys.stderr.isatty():
                print(f"\rreading: {batch.done:.0%} ", end="", file=sys.stderr, flush=True)
                shown, last = True, now
            yield batch
    finally:
        if shown:
            print("\r" + " " * 20 + "\r", end="", file=sys.stderr, flush=True)
