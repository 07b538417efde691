"""Columns of tables in memory: data frames, Arrow tables, dictionaries, rows of mappings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError
from .labels import FINE
from .source import ROWS, ArrowColumn, Batch, Column, Source, python_values

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
    """Rows that are mappings, such as ``csv.DictReader`` or a database's cursor gives them.

    A column that no row of the first ones has is none; what one of them lacks is a bad cell of that row.
    """
    rows = iter(source.table) if isinstance(source.table, Iterable) else iter((source.table,))
    start = 0
    while part := list(islice(rows, ROWS)):
        mappings = [isinstance(row, Mapping) for row in part]
        if not all(mappings) and not start and not any(mappings):
            break
        if not all(mappings):
            raise TypeError("a row of the events is no mapping; give each as one, {column: entry}")
        if not start:
            there = {name for row in part for name in asked.values() if name in row}
            source.places(sorted(there), asked)
        columns = {
            role: _column(source, role, name, [row.get(name) for row in part]) for role, name in asked.items()
        }
        yield Batch(source, asked, columns, numbered_from(start))
        start += len(part)
    if not start:
        raise TypeError(
            "events must be a data frame, an Arrow table, a dict of columns, rows that are mappings or a"
            f" path, got {type(source.table).__name__}"
        )


def _column(source: Source, role: str, name: str, values: Any) -> Column:
    asked = source.wording.asked(role, name)
    if isinstance(values, list | tuple):  # each entry is what it is, whatever stands beside it
        return Column(list(values))
    if role != "weight" and (coded := _coded(asked, role, values)) is not None:
        return coded
    if type(values).__module__.partition(".")[0] == "pyarrow":
        return column_of(asked, role, values)
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # whose words hold an entry, or how many rows there are
        raise TypeError(f"{asked} cannot be read as a column") from None
    if column.ndim != 1:
        raise ValueError(f"{asked} has {column.ndim} dimensions; a column has one")
    if isinstance(values, np.ma.MaskedArray):
        column = np.array(values.tolist(), dtype=object)  # None where masked
    if role == "weight":
        return weights(asked, column)
    if column.dtype.kind in "mM":
        column = _coarse_times(column)
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

    if role == "weight":
        return arrow_weights(asked, values)
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
        encoded = chunk if coded else chunk.dictionary_encode()
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(np.where(places < 0, 0, places + len(found)))
        found += _values(arrow, encoded.dictionary)
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


def weights(asked: str, column: NDArray[Any]) -> Column:
    """A column of weights; entries of other types than numbers stay what they are, each for itself."""
    if column.dtype.kind in "mMc":
        raise TypeError(f"{asked} must be a column of numbers, got {column.dtype.name}")
    return Column(column if column.dtype.kind in "biuf" else column.tolist())


def arrow_weights(asked: str, values: Any) -> Column:
    """The same for a column of Arrow's; text that is no number stays text, so that its row can be refused."""
    import pyarrow as arrow

    kinds = arrow.types
    if kinds.is_string(values.type) or kinds.is_large_string(values.type):
        with suppress(arrow.ArrowInvalid):
            values = values.cast(arrow.float64())
    plain = kinds.is_integer(values.type) or kinds.is_floating(values.type)
    if plain or kinds.is_temporal(values.type):
        numbers = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=False)
        return weights(asked, numbers)
    return arrow_column(asked, values)


def _coarse_times(column: NDArray[Any]) -> NDArray[Any]:
    """Times in units that Python's own have; those that are finer become text, each for itself."""
    if np.datetime_data(column.dtype)[0] not in FINE:
        return column
    coarse = column.astype(f"{column.dtype.kind}8[us]")
    exact = (coarse == column) | np.isnat(column)
    if exact.all():
        return coarse
    mixed = coarse.astype(object)
    mixed[~exact] = column[~exact].astype(str)
    return mixed


def _values(arrow: Any, values: Any) -> list[Any]:
    """Different values of Arrow's as Python's; the same for its times."""
    kind = values.type
    if getattr(kind, "unit", None) != "ns":
        return python_values(values)
    stamp = arrow.types.is_timestamp(kind)
    fine = values.cast(arrow.int64()).to_numpy(zero_copy_only=False).astype("M8[ns]" if stamp else "m8[ns]")
    if stamp:
        coarse = arrow.timestamp("us", kind.tz)
    else:
        coarse = arrow.duration("us") if arrow.types.is_duration(kind) else arrow.time64("us")
    found = values.cast(coarse, safe=False).to_pylist()
    for place in np.flatnonzero(fine.astype(f"{fine.dtype.kind}8[us]") != fine).tolist():
        found[place] = str(fine[place])
    return list(found)
