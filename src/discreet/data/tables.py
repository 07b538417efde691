"""Columns out of whatever holds them: data frames, Arrow tables, dictionaries, CSV and Parquet files."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError, shown

Column = NDArray[Any]


class _Lines(Protocol):
    """What ``csv.reader`` gives: rows of fields, and how many lines of the file they took."""

    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> Iterator[list[str]]: ...
    def __next__(self) -> list[str]: ...


def read_columns(table: Any, names: dict[str, str]) -> dict[str, Column]:
    """The named columns, as arrays of one length; ``names`` maps an argument to the column it asks for.

    A table is anything with ``table[name]`` that NumPy can turn into an array (pandas, polars, Arrow, a
    dict), or the path of a ``.csv``, ``.csv.gz`` or ``.parquet`` file. CSV needs nothing but Python; its
    columns become whole numbers where every entry is written as one, and stay text otherwise.
    """
    if isinstance(table, str | os.PathLike):
        table = _read_file(Path(table), names)
    elif hasattr(table, "collect") and not hasattr(table, "__len__"):
        table = table.collect()  # a lazy polars frame
    available = _column_names(table)
    columns: dict[str, Column] = {}
    for argument, name in names.items():
        if name not in available:
            listed = ", ".join(map(repr, available))
            # Details, because in a file without a header these are somebody's cells.
            raise DataError(f"{argument}={shown(name)} is not a column of the table", f"it has {listed}")
        columns[argument] = _one_dimensional(argument, name, table[name])
    lengths = {argument: column.size for argument, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError("the columns differ in length", f"{lengths}")
    return columns


def _column_names(table: Any) -> list[Any]:
    if isinstance(table, Mapping):
        return list(table)
    for attribute in ("column_names", "columns"):  # Arrow; pandas and polars
        found = getattr(table, attribute, None)
        if found is not None:
            return list(found)
    raise TypeError(
        "events must be a data frame, an Arrow table, a dict of columns or a path, "
        f"got {type(table).__name__}"
    )


def _one_dimensional(argument: str, name: str, values: Any) -> Column:
    if type(values).__module__.startswith("pyarrow") and str(values.type).startswith("dictionary"):
        # As an array, a missing entry of an Arrow dictionary would point at some category instead of none.
        values = values.cast(values.type.value_type)
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # whose words hold an entry, or how many rows there are
        raise TypeError(f"{argument}={name!r} cannot be read as a column") from None
    if column.ndim != 1:
        raise ValueError(f"{argument}={name!r} has {column.ndim} dimensions; a column has one")
    if isinstance(values, np.ma.MaskedArray):
        return np.array(values.tolist(), dtype=object)  # None where masked
    if isinstance(values, list | tuple) and column.dtype.kind not in "biu":
        # NumPy would turn mixed entries into text, and large whole numbers beside fractions into others.
        return np.fromiter(values, dtype=object, count=len(values))
    return _coarse_times(argument, name, column) if column.dtype.kind in "mM" else column


def _coarse_times(argument: str, name: str, column: Column) -> Column:
    """Times in units that Python's own have, so that labels are times and not counts of nanoseconds."""
    if np.datetime_data(column.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return column
    coarse = column.astype(f"{column.dtype.kind}8[us]")
    if not ((coarse == column) | np.isnat(column)).all():
        raise ValueError(f"{argument}={name!r} has times finer than a microsecond; round them or use text")
    return coarse


def _read_file(path: Path, names: dict[str, str]) -> dict[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    if path.name.lower().endswith((".csv", ".csv.gz", ".csv.gzip")):
        return _read_csv(path, names)
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path, names)
    raise ValueError(f"{path.name}: cannot tell what this is; files must end in .csv, .csv.gz or .parquet")


def _read_parquet(path: Path, names: dict[str, str]) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install discreet[tables]") from error
    held = parquet.read_schema(path).names
    # Only columns that exist can be asked for; a missing one is reported by the caller, with the others
    # listed.
    table = parquet.read_table(path, columns=[n for n in dict.fromkeys(names.values()) if n in held])
    return {name: table[name] if name in table.column_names else None for name in held}


def _read_csv(path: Path, names: dict[str, str]) -> dict[str, Any]:
    with open_csv(path) as rows:
        header = next(rows, None)
        if not header:
            raise ValueError(f"{path.name} is empty; the first line must name the columns")
        wanted = [(name, header.index(name)) for name in dict.fromkeys(names.values()) if name in header]
        for name, _ in wanted:
            if header.count(name) > 1:
                raise ValueError(f"{path.name} has {header.count(name)} columns named {name!r}; rename them")
        found: dict[str, list[str]] = {name: [] for name, _ in wanted}
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{path.name} has a row with another number of fields than the header, which has"
                    f" {len(header)}",
                    f"line {rows.line_num}: {len(row)} fields",
                )
            for name, at in wanted:
                found[name].append(row[at])
    return {name: _typed(found[name]) if name in found else None for name in header}


@contextmanager
def open_csv(path: Path) -> Iterator[_Lines]:
    """The lines of a CSV file, plain or compressed, one list of fields at a time."""
    raw: Any = gzip.open(path, "rb") if path.name.lower().endswith(("gz", "gzip")) else open(path, "rb")  # noqa: SIM115
    with raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        try:
            yield csv.reader(text)
        except UnicodeDecodeError as error:
            raise DataError(f"{path.name} is not UTF-8 text; save it as UTF-8", str(error)) from None


def _typed(values: list[str]) -> Column:
    """Whole numbers if every entry is written as one ("7", not "07": that is a name); text otherwise."""
    try:
        numbers = [int(v) for v in values]
    except ValueError:
        return np.array([v if v != "" else None for v in values], dtype=object)
    if all(str(n) == v for n, v in zip(numbers, values, strict=True)) and all(
        abs(n) < 2**63 for n in numbers
    ):
        return np.array(numbers, dtype=np.int64)
    return np.array(values, dtype=object)
