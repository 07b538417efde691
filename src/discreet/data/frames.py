"""Columns of tables in memory: data frames, Arrow tables, dictionaries, rows of mappings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError
from .source import ROWS, ArrowColumn, Batch, Column, Source

# Rows from which on compiled loops find different people sooner than Python does, loading them included.
_MANY = 1 << 20
# Kinds of columns as pandas, polars and NumPy write them.
_PLAIN = re.compile(r"u?int(8|16|32|64)|U?Int(8|16|32|64)|str|string|String")


def read_table(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """A frame as one batch, or rows that are mappings as one for every so many of them.

    A frame is anything with ``table[name]`` that Arrow holds or that NumPy can turn into an array (pandas,
    polars, a dict).
    """
    table = source.table
    if hasattr(table, "collect") and not hasattr(table, "__len__"):
        table = table.collect()  # a lazy polars frame
    names = _names(table)
    if names is None:
        yield from _rows(source, asked)
        return
    source.places(names, asked)
    columns = {role: _column(source, role, name, table[name]) for role, name in asked.items()}
    lengths = {name: len(columns[role]) for role, name in asked.items()}
    if len(set(lengths.values())) > 1:
        raise DataError("the columns differ in length", f"{lengths}")
    yield Batch(source, asked, columns, numbered_from(0))


def numbered_from(start: int) -> Callable[[int], str]:
    """Rows by their number in the table."""
    return lambda row: f"row {start + row}"


def _names(table: Any) -> list[Any] | None:
    """The names of a frame's columns; None for what is no frame."""
    if isinstance(table, Mapping):
        return list(table)
    for attribute in ("column_names", "columns"):  # Arrow; pandas and polars
        found = getattr(table, attribute, None)
        if found is not None:
            return list(found)
    return None


def _rows(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """Rows that are mappings, such as ``csv.DictReader`` or a database's cursor gives them."""
    rows = iter(source.table) if isinstance(source.table, Iterable) else iter((source.table,))
    first = next(rows, None)
    if not isinstance(first, Mapping):
        raise TypeError(
            "events must be a data frame, an Arrow table, a dict of columns, rows that are mappings or a"
            f" path, got {type(source.table).__name__}"
        )
    source.places(list(first), asked)
    rows, start = chain([first], rows), 0
    while part := list(islice(rows, ROWS)):
        if not all(isinstance(row, Mapping) for row in part):
            raise TypeError("a row of the events is no mapping; give each as one, {column: entry}")
        columns = {
            role: _column(source, role, name, [row.get(name) for row in part]) for role, name in asked.items()
        }
        yield Batch(source, asked, columns, numbered_from(start))
        start += len(part)


def _column(source: Source, role: str, name: str, values: Any) -> Column:
    asked = source.wording.asked(role, name)
    if role != "weight" and (coded := _coded(asked, role, values)) is not None:
        return coded
    if role != "weight" and type(values).__module__.partition(".")[0] == "pyarrow":
        return column_of(asked, role, values)
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # whose words hold an entry, or how many rows there are
        raise TypeError(f"{asked} cannot be read as a column") from None
    if column.ndim != 1:
        raise ValueError(f"{asked} has {column.ndim} dimensions; a column has one")
    if isinstance(values, np.ma.MaskedArray):
        column = np.array(values.tolist(), dtype=object)  # None where masked
    elif isinstance(values, list | tuple) and column.dtype.kind not in "biu":
        # NumPy would turn mixed entries into text, and large whole numbers beside fractions into others.
        column = np.fromiter(values, dtype=object, count=len(values))
    if role == "weight":
        return Column(weights(asked, column))
    if column.dtype.kind in "mM":
        column = _coarse_times(asked, column)
    if column.dtype == object:
        return Column(column.tolist())
    found, first, codes = np.unique(column, return_index=True, return_inverse=True)
    return _by_first_row(found.tolist(), first, codes)


def _coded(asked: str, role: str, values: Any) -> Column | None:
    """Text and whole numbers of a frame through Arrow's hash tables instead of NumPy's sorting.

    None for all else, and where Arrow is not installed or does not take them; nothing depends on which way
    it went.
    """
    home, kind = type(values).__module__.partition(".")[0], str(getattr(values, "dtype", ""))
    if home not in ("polars", "pandas", "numpy") or not _PLAIN.fullmatch(kind) or np.ndim(values) != 1:
        return None
    if isinstance(values, np.ma.MaskedArray):
        return None
    try:
        import pyarrow as arrow

        column = values.to_arrow() if home == "polars" else arrow.array(values, from_pandas=True)
    except (ImportError, ValueError, TypeError):  # Arrow's own errors are such
        return None
    return column_of(asked, role, column)


def column_of(asked: str, role: str, values: Any) -> Column:
    """A column of Arrow's by its role: people are many, and stay as Arrow holds them where rows are many."""
    from .repeats import countable

    if role == "person" and len(values) >= _MANY and countable(values.type):
        return ArrowColumn(values)
    return arrow_column(asked, values)


def arrow_column(asked: str, values: Any) -> Column:
    """A column of Arrow's: each different value becomes a Python value once, exact beside missing ones."""
    import pyarrow as arrow

    kind = values.type
    coded = arrow.types.is_dictionary(kind)
    if arrow.types.is_nested(kind.value_type if coded else kind):
        raise ValueError(f"{asked} holds {kind}; a column of text or numbers is needed")
    found: list[Any] = [None]  # for rows without an entry
    codes: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for chunk in values.chunks if isinstance(values, arrow.ChunkedArray) else [values]:
        encoded = _microseconds(arrow, asked, chunk).dictionary_encode() if not coded else chunk
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(np.where(places < 0, 0, places + len(found)))
        found += encoded.dictionary.to_pylist()
    whole = np.concatenate(codes)
    if not coded:
        return Column(found, whole)
    used, first, places = np.unique(whole, return_index=True, return_inverse=True)
    return _by_first_row([found[place] for place in used], first, places)


def _by_first_row(found: list[Any], first: NDArray[np.int64], codes: NDArray[np.int64]) -> Column:
    """Different values and their first rows, with those of earlier rows first."""
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return Column([found[place] for place in order], rank[codes])


def weights(asked: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """A column of numbers; NaN where one is missing."""
    if column.dtype.kind in "mMc":
        raise TypeError(f"{asked} must be a column of numbers, got {column.dtype.name}")
    try:
        entries: Sequence[Any] | NDArray[Any] = column
        if column.dtype == object:
            entries = [np.nan if entry is None else entry for entry in column]
        return np.array(entries, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{asked} must be a column of numbers, and has something else in it") from None


def _coarse_times(asked: str, column: NDArray[Any]) -> NDArray[Any]:
    """Times in units that Python's own have, so that labels are times and not counts of nanoseconds."""
    if np.datetime_data(column.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return column
    coarse = column.astype(f"{column.dtype.kind}8[us]")
    if not ((coarse == column) | np.isnat(column)).all():
        raise _too_fine(asked)
    return coarse


def _microseconds(arrow: Any, asked: str, values: Any) -> Any:
    """The same for Arrow's times."""
    kind = values.type
    if getattr(kind, "unit", None) != "ns":
        return values
    if arrow.types.is_timestamp(kind):
        coarse = arrow.timestamp("us", kind.tz)
    else:
        coarse = arrow.duration("us") if arrow.types.is_duration(kind) else arrow.time64("us")
    try:
        return values.cast(coarse)
    except arrow.ArrowInvalid:
        raise _too_fine(asked) from None


def _too_fine(asked: str) -> ValueError:
    return ValueError(f"{asked} has times finer than a microsecond; round them or use text")
