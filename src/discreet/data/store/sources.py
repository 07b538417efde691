"""Sources of events a chunk at a time: files, folders, frames, streams of chunks, queries of a database."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from ...core.checks import DataError
from ..files import (
    START,
    files_of,
    is_feather,
    is_parquet,
    is_plain,
    plain_csv,
    read_feather,
    read_parquet,
    read_plain_csv,
    separator_of,
)
from ..frames import arrow_column, arrow_weights, numbered_from, read_table
from ..source import ArrowColumn, Batch, Column, Source, python_values

ROWS = 1 << 18  # of a chunk


def batches(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """The columns that were asked for; of people as Arrow has them, where it does."""
    table = source.table
    if source.stdin:
        yield from source.batches(asked)
    elif source.path is not None:
        for part in source.parts() or [source]:
            yield from _file(part, asked)
    elif (reader := _reader(table)) is not None:
        yield from _ahead(_arrow(source, asked, reader))
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


def _file(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    with open(str(source.path), "rb") as file:
        start = file.read(START)
        first = start + file.readline(1 << 16)
    if is_parquet(source, start):
        return _ahead(read_parquet(source, asked, None, rows=ROWS, column=_column, coded=[asked["item"]]))
    if is_feather(source, start):
        return _ahead(read_feather(source, asked, None, column=_column))
    if is_plain(start):
        found = replace(source, separator=separator_of(source, first, asked))
        if plain_csv(found):
            return _ahead(read_plain_csv(found, asked, _column))
    return source.batches(asked)


def _ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same, with the next batch read while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (found := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield found


def _reader(table: Any) -> Any:
    """A reader of Arrow's batches, where the table is one or can give one without reading everything."""
    import pyarrow as arrow

    if isinstance(table, arrow.RecordBatchReader):
        return table
    if isinstance(table, arrow.Table):
        return table.to_reader(ROWS)
    if hasattr(table, "fetch_record_batch"):  # a cursor of ADBC, a relation of DuckDB
        return table.fetch_record_batch()
    home = type(table).__module__.partition(".")[0]
    if home == "polars" and hasattr(table, "__len__") and "Object" in map(str, table.dtypes):
        return None  # to Arrow it gives addresses in memory in place of Python's objects
    if hasattr(table, "__arrow_c_stream__") and home != "pandas":
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
        return arrow_weights(asked, values)
    import pyarrow as arrow

    plain = arrow.types.is_string(values.type) or arrow.types.is_integer(values.type)
    if not plain and not arrow.types.is_dictionary(values.type):
        return arrow_column(asked, values)
    # In no order, and perhaps with values that no row holds: whoever makes a list of them asks for `used`.
    if plain:
        values = values.dictionary_encode()
    found, places = python_values(values.dictionary), values.indices
    if places.null_count:
        found, places = [*found, None], places.fill_null(len(found))
    return Column(found, places.to_numpy(zero_copy_only=False))


def row_count(source: Source) -> int | None:
    """About how many rows there are, where that can be told before they are read."""
    table = source.table
    if source.stdin:
        return None
    if source.path is not None:
        return sum(map(_rows_in, files_of(source)))
    if isinstance(table, list | tuple) and all(isinstance(one, str | os.PathLike) for one in table):
        return sum(row_count(replace(source, table=one)) or 0 for one in table)
    if isinstance(table, Mapping):
        return max((len(column) for column in table.values() if _is_column(column)), default=None)
    return len(table) if hasattr(table, "__len__") and _names(table) is not None else None


def _rows_in(path: str) -> int:
    import pyarrow.parquet as parquet

    if path.lower().endswith((".parquet", ".pq")):
        try:
            return int(parquet.read_metadata(path).num_rows)
        except (OSError, ValueError):
            return 0  # which is refused when it is read
    with open(path, "rb") as file:
        some = file.read(1 << 16)
    packed = 1 if is_plain(some) else 8
    return os.path.getsize(path) * packed * (some.count(b"\n") + 1) // max(1, len(some))


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
    """Chunks, each of them a table or the path of one; or rows that are mappings.

    Each part is looked at by itself, so that one row's cell does not decide what the others are.
    """

    def is_row(part: Any) -> bool:
        cells = [part[name] for name in asked.values() if name in part] if isinstance(part, Mapping) else []
        return isinstance(part, Mapping) and not (cells and all(map(_is_column, cells)))

    for rows, parts in groupby(source.table, is_row):
        if rows:
            yield from read_table(replace(source, table=parts), asked)
            continue
        for part in parts:
            yield from batches(replace(source, table=part), asked)


def _is_column(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes | np.generic)
