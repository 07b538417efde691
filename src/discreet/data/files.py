"""Files a batch of rows at a time, so that memory does not grow with their length.

CSV (plain, packed, or on standard input), Parquet and Feather, told apart by their first bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from operator import itemgetter
from typing import Any, cast

from ..core.checks import DataError
from ..core.extras import install
from . import source as tables
from .formats import START, BrokenStream, is_feather, is_parquet, separator_of, unpacked
from .source import Batch, Column, Source

# A line that goes on for longer is not a line of a table, and is not read to its end.
_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 16
_READ = 1 << 20  # bytes of a column of Parquet
_FEW = 256
_LONGER = 16  # times as many rows of Parquet as of text: fewer values are met again in the next batch
_BREAK = re.compile("\r\n|\r|\n")


def read_file(source: Source, asked: Mapping[str, str], only: str | None) -> Iterator[Batch]:
    """The columns that were asked for; ``only`` as in `Source.places`."""
    try:
        with _opened(source) as file:
            start = file.peek(START)[:START]
            if is_parquet(source, start):
                yield from read_parquet(source, asked, only)
            elif is_feather(source, start):
                yield from read_feather(source, asked, only)
            else:
                with unpacked(source, file) as text:
                    yield from _csv(source, text, file, asked, only)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source.name} is not UTF-8 text; it must be CSV, plain or packed, Parquet or Feather",
            f"byte 0x{error.object[error.start]:02x}",
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{source.name} is broken gzip ({error}); was it copied whole?") from error
    except (BrokenStream, lzma.LZMAError) as error:
        raise ValueError(f"{source.name} is not packed whole ({error}); was it copied whole?") from error
    except csv.Error as error:
        raise ValueError(f"{source.name} is not a table in CSV: {error}") from error


@contextmanager
def _opened(source: Source) -> Iterator[io.BufferedReader]:
    if source.stdin:
        if sys.stdin is None:
            raise ValueError("standard input is closed; name a file, or pipe one in")
        yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    path = str(source.path)
    with open(path, "rb", _BLOCK) as file:
        yield cast(io.BufferedReader, file)


# --- CSV -----------------------------------------------------------------------------------------


def _csv(
    source: Source,
    file: io.BufferedReader,
    raw: io.BufferedReader,
    asked: Mapping[str, str],
    only: str | None,
) -> Iterator[Batch]:
    size = 0 if source.stdin else os.fstat(raw.fileno()).st_size
    blocks = io.BufferedReader(_Lines(file, source), _BLOCK)
    # Strict: a quote that one row leaves open must not swallow the rows of other people.
    separator = separator_of(source, file.peek(_BLOCK), asked, only)
    rows = csv.reader(
        io.TextIOWrapper(blocks, encoding="utf-8-sig", newline=""), delimiter=separator, strict=True
    )
    header = next(rows, None) if source.columns is None else list(source.columns)
    if not header:
        raise ValueError(f"{source.name} is empty; the first line must name the columns")
    places = source.places(header, asked, only, separator=separator)
    wanted = [(role, itemgetter(at)) for role, at in places.items()]
    width = len(header)
    while True:
        lines = _Places()
        cells: dict[str, list[str]] = {role: [] for role, _ in wanted}
        before = rows.line_num
        # Few at a time: rows that are let go of at once cost half as much.
        while len(lines) < tables.ROWS and (part := list(islice(rows, min(_FEW, tables.ROWS)))):
            if set(map(len, part)) == {width} and rows.line_num - before == len(part):
                lines.add(range(before + 1, rows.line_num + 1))
            else:
                part, ends = _whole(source, part, width, before)
                lines.add(ends)
            for role, cell in wanted:
                cells[role] += map(cell, part)
            before = rows.line_num
        if not lines:
            return
        columns = {role: Column(column) for role, column in cells.items()}
        yield Batch(source, asked, columns, lines.of, True, raw.tell() / size if size else None)


def _whole(source: Source, rows: list[list[str]], width: int, line: int) -> tuple[list[list[str]], list[int]]:
    """The rows with as many cells as the header, and on which line each ends; blank lines are no rows."""
    kept, ends = [], []
    for row in rows:
        line += 1 + sum(len(_BREAK.findall(cell)) for cell in row)
        if len(row) == width:
            kept.append(row)
            ends.append(line)
        elif row and not source.skip_bad:
            raise source.uneven(width, f"line {line}", f"{len(row)} cells")
    return kept, ends


class _Places:
    """On which lines the rows of a batch end."""

    def __init__(self) -> None:
        self._parts: list[Sequence[int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, lines: Sequence[int]) -> None:
        self._parts.append(lines)
        self._count += len(lines)

    def of(self, row: int) -> str:
        return f"line {next(islice(chain.from_iterable(self._parts), row, None))}"


class _Lines(io.RawIOBase):
    """The bytes of a file, as long as breaks of lines come; closing it leaves the file open."""

    def __init__(self, file: io.BufferedReader, source: Source) -> None:
        super().__init__()
        self._file, self._source = file, source
        self._line, self._length = 1, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto1(buffer)
        block = bytes(buffer[:count])
        last = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._line += block.count(b"\n")
        self._length = self._length + count if last < 0 else count - last - 1
        if self._length > _LONGEST_LINE:
            raise self._source.refused(
                "a line is longer than a million bytes; it is no table in CSV",
                f"line {self._line}",
                skippable=False,
            )
        return count


# --- Parquet and Feather --------------------------------------------------------------------------


def read_parquet(
    source: Source,
    asked: Mapping[str, str],
    only: str | None,
    *,
    rows: int | None = None,
    column: Callable[[str, str, Any], Column] | None = None,
    coded: Sequence[str] = (),
) -> Iterator[Batch]:
    """A Parquet file, so many rows at a time; ``column`` makes columns of what was asked, role and array.

    ``coded``: columns whose different values are few.
    """
    _check_named(source, "Parquet")
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(f"reading Parquet needs pyarrow: {install('tables')}") from error
    from .frames import column_of, numbered_from

    made = column or column_of
    try:
        known = [one for one in coded if one in parquet.read_schema(source.path).names]
        # Unless told otherwise Arrow holds all that it has read of a file until its end.
        with parquet.ParquetFile(
            source.path, read_dictionary=known, pre_buffer=False, buffer_size=_READ
        ) as file:
            names = file.schema_arrow.names
            wanted = {role: names[at] for role, at in source.places(names, asked, only, public=True).items()}
            row, total = 0, file.metadata.num_rows
            for part in file.iter_batches(
                rows or _LONGER * tables.ROWS,
                columns=list(dict.fromkeys(wanted.values())),
                use_threads=False,
            ):
                columns = {
                    role: made(source.wording.asked(role, name), role, part.column(name))
                    for role, name in wanted.items()
                }
                yield Batch(source, asked, columns, numbered_from(row), done=row / total)
                row += part.num_rows
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        reason = str(error).split(". ")[0]
        raise ValueError(f"{source.name} is not a whole Parquet file: {reason}") from error


def read_feather(
    source: Source,
    asked: Mapping[str, str],
    only: str | None,
    *,
    column: Callable[[str, str, Any], Column] | None = None,
) -> Iterator[Batch]:
    """A Feather file (Arrow's own), so many rows at a time; ``column`` as for `read_parquet`."""
    _check_named(source, "Feather")
    try:
        import pyarrow as arrow
    except ImportError as error:
        raise ImportError(f"reading Feather needs pyarrow: {install('tables')}") from error
    from .frames import arrow_column, numbered_from

    made = column or (lambda said, _, array: arrow_column(said, array))
    rows = _LONGER * tables.ROWS
    try:
        with arrow.OSFile(str(source.path)) as file:
            reader = arrow.ipc.open_file(file)
            places = source.places(reader.schema.names, asked, only, public=True)
            row = 0
            for number in range(reader.num_record_batches):
                whole = reader.get_batch(number)
                for start in range(0, whole.num_rows, rows):
                    part = whole.slice(start, rows)
                    columns = {
                        role: made(source.wording.asked(role, asked[role]), role, part.column(at))
                        for role, at in places.items()
                    }
                    done = number / reader.num_record_batches
                    yield Batch(source, asked, columns, numbered_from(row), done=done)
                    row += part.num_rows
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        reason = str(error).split(". ")[0]
        raise ValueError(f"{source.name} is not a whole Feather file: {reason}") from error


def _check_named(source: Source, kind: str) -> None:
    """Refuse what only text may be."""
    if source.stdin:
        raise ValueError(f"standard input must be CSV; give a {kind} file by its name")
    if source.columns is not None:
        raise ValueError(
            f"{source.name} is {kind}, which names its columns; {source.wording.columns} is for text without"
            " a header"
        )
