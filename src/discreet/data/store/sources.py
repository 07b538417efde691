"""Sources of events a chunk at a time: files, folders, frames, streams of chunks, queries of a database."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...core.checks import DataError
from ..frames import arrow_column, numbered_from, read_table, weights
from ..source import Batch, Column, Source

ROWS = 1 << 19  # of a chunk
_SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz")


@dataclass(frozen=True)
class ArrowColumn(Column):
    """A column as Arrow holds it."""

    def __getitem__(self, row: int) -> Any:
        return self.values[row].as_py()


def batches(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """The columns that were asked for; of people as Arrow has them, where it does."""
    table = source.table
    if source.path is not None and not source.stdin:
        for path in files(source):
            yield from _file(replace(source, table=path), asked)
    elif (reader := _reader(table)) is not None:
        yield from _arrow(source, asked, reader)
    elif hasattr(table, "collect") and not hasattr(table, "__len__"):
        yield from _lazy(source, asked)
    elif (names := _names(table)) is not None:
        yield from _frame(source, asked, names)
    elif hasattr(table, "fetchmany"):
        yield from _cursor(source, asked)
    elif isinstance(table, Iterable) and not isinstance(table, str | bytes | os.PathLike):
        yield from _stream(source, asked)
    else:
        yield from read_table(source, asked)


def files(source: Source) -> list[str]:
    """The files that a path names: itself, those of a pattern, or those in a folder and in folders in it."""
    path = str(source.path)
    if os.path.isdir(path):
        found = [
            str(one)
            for one in sorted(Path(path).rglob("*"))
            if one.name.lower().endswith(_SUFFIXES)
            and not any(part.startswith((".", "_")) for part in one.relative_to(path).parts)
        ]
        if not found:
            raise ValueError(f"{path} holds no files that end in {', '.join(_SUFFIXES)}")
        return found
    if glob.has_magic(path) and not os.path.exists(path):
        found = sorted(one for one in glob.glob(path, recursive=True) if os.path.isfile(one))
        if not found:
            raise ValueError(f"no file is named like {path}")
        return found
    return [path]


def _file(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    return source.batches(asked)


def _reader(table: Any) -> Any:
    """A reader of Arrow's batches, where the table is one or can give one without reading everything."""
    import pyarrow as arrow

    if isinstance(table, arrow.RecordBatchReader):
        return table
    if isinstance(table, arrow.Table):
        return table.to_reader(ROWS)
    if hasattr(table, "fetch_record_batch"):  # a cursor of ADBC, a relation of DuckDB
        return table.fetch_record_batch()
    if hasattr(table, "__arrow_c_stream__") and type(table).__module__.partition(".")[0] != "pandas":
        return arrow.RecordBatchReader.from_stream(table)
    return None


def _arrow(source: Source, asked: Mapping[str, str], reader: Any) -> Iterator[Batch]:
    source.places(reader.schema.names, asked, public=source.path is not None)
    row = 0
    for part in reader:
        for start in range(0, part.num_rows, ROWS):
            some = part.slice(start, ROWS)
            columns = {
                role: _column(source.wording.asked(role, name), role, some.column(name))
                for role, name in asked.items()
            }
            yield Batch(source, asked, columns, numbered_from(row + start))
        row += part.num_rows


def _column(asked: str, role: str, values: Any) -> Column:
    """A column of Arrow's, by its role."""
    if role == "person":
        return ArrowColumn(values)
    if role == "weight":
        return Column(weights(asked, values.to_numpy(zero_copy_only=False)))
    return arrow_column(asked, values)


def _lazy(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """A lazy frame of Polars: only the columns that are asked for, part by part."""
    table = source.table
    source.places(table.collect_schema().names(), asked)
    wanted = table.select(list(dict.fromkeys(asked.values())))
    if not hasattr(wanted, "collect_batches"):
        yield from batches(replace(source, table=wanted.collect(engine="streaming")), asked)
        return
    for part in wanted.collect_batches(chunk_size=ROWS):
        yield from batches(replace(source, table=part), asked)


def _names(table: Any) -> list[Any] | None:
    """The names of a frame's columns, or of a dict's that holds columns."""
    if isinstance(table, Mapping):
        return list(table)
    found = getattr(table, "columns", None)
    return None if found is None or not hasattr(table, "__getitem__") else list(found)


def _frame(source: Source, asked: Mapping[str, str], names: Sequence[Any]) -> Iterator[Batch]:
    """A frame of pandas or a dict of columns, in slices."""
    source.places(names, asked)
    found = {name: source.table[name] for name in asked.values()}
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise DataError("the columns differ in length", f"{lengths}")
    total = next(iter(lengths.values()))
    for start in range(0, total, ROWS):
        part = {name: _slice(column, start) for name, column in found.items()}
        if start == 0 and total <= ROWS:
            part = found
        for batch in read_table(replace(source, table=part), asked):
            yield replace(batch, source=source, place=numbered_from(start))


def _slice(column: Any, start: int) -> Any:
    places = slice(start, start + ROWS)
    return column.iloc[places] if hasattr(column, "iloc") else column[places]


def _cursor(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """A cursor of a database, or a result of SQLAlchemy's, whose query has been executed."""
    cursor = source.table
    about = getattr(cursor, "description", None)
    names = [one[0] for one in about] if about else list(cursor.keys()) if hasattr(cursor, "keys") else []
    if not names:
        raise ValueError("the cursor has no result; execute a query that selects the columns first")
    places = source.places(names, asked)
    start = 0
    while rows := cursor.fetchmany(ROWS >> 3):
        part = {asked[role]: [row[at] for row in rows] for role, at in places.items()}
        for batch in read_table(replace(source, table=part), asked):
            yield replace(batch, source=source, place=numbered_from(start))
        start += len(rows)


def _stream(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """Chunks, each of them a table or the path of one; or rows that are mappings."""
    parts = iter(source.table)
    first = next(parts, None)
    if first is None:
        return
    everything = chain([first], parts)
    if isinstance(first, Mapping) and not any(_is_column(cell) for cell in first.values()):
        yield from read_table(replace(source, table=everything), asked)
        return
    for part in everything:
        yield from batches(replace(source, table=part), asked)


def _is_column(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes | np.generic)
