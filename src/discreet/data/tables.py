"""Columns out of whatever holds them: data frames, Arrow tables, dictionaries, CSV and Parquet files."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]


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
            raise ValueError(f"{argument}={name!r} is not a column of the table; it has {listed}")
        columns[argument] = _one_dimensional(argument, name, table[name])
    lengths = {argument: column.size for argument, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns differ in length: {lengths}")
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
    column = np.asarray(values)
    if column.ndim != 1:
        raise ValueError(f"{argument}={name!r} has shape {column.shape}; a column has one dimension")
    return column


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
        found: dict[str, list[str]] = {name: [] for name, _ in wanted}
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"{path.name}, line {number}: {len(row)} fields; the header has {len(header)}"
                )
            for name, at in wanted:
                found[name].append(row[at])
    return {name: _typed(found[name]) if name in found else None for name in header}


@contextmanager
def open_csv(path: Path) -> Iterator[Iterator[list[str]]]:
    """The lines of a CSV file, plain or compressed, one list of fields at a time."""
    raw: Any = gzip.open(path, "rb") if path.name.lower().endswith(("gz", "gzip")) else open(path, "rb")  # noqa: SIM115
    with raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        yield csv.reader(text)


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
