"""Columns of a file, a batch of rows at a time, so that memory does not grow with the file.

CSV (plain, gzipped, or on standard input) and Parquet, told apart by their first bytes. Every cell becomes
text, so that an item is the same item whichever kind of file names it; None stands for a missing cell.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..core.checks import DataError
from ._frame import printable

_ROWS_AT_A_TIME = 1 << 16
# A line that goes on for longer is not a line of a table, and is not read to its end.
_LONGEST_LINE = 1 << 20
_OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook; save it as CSV"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
    (b"SQLi", "a database; export the table as CSV"),
)


@dataclass(frozen=True)
class Batch:
    """Some rows: ``cells[argument]`` has one entry per row, and ``lines`` says where each row stands.

    ``done`` is the part of the file that has been read, if its length is known.
    """

    lines: list[int]
    cells: dict[str, list[str | None]]
    unit: str = "line"
    done: float | None = None

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class Source:
    """A file, or "-" for standard input, and how its CSV is separated.

    ``skip_bad``: rows with more or fewer cells than the header are left out instead of refused. ``public``:
    the file says nothing about people, and refusals may name its rows.
    """

    path: str
    separator: str = ","
    skip_bad: bool = False
    public: bool = False

    def refused(self, words: str, where: str, details: str = "") -> ValueError:
        """A refusal of what stands in a row; of people's files, which row and what is there are details."""
        if self.public:
            return ValueError(f"{self.name}, {where}: {details or words}")
        return DataError(
            f"{self.name}: {words} (--insecure-diagnostics names the row)", f"{where}: {details or words}"
        )

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return "standard input" if self.path == "-" else printable(Path(self.path).name or self.path)

    def batches(self, columns: Mapping[str, str], *, only_column: str | None = None) -> Iterator[Batch]:
        """The named columns, ``{argument: column}``, from the first row to the last.

        ``only_column``: the argument that a file with one single column answers, whatever it is called.
        """
        try:
            with self._opened() as file:
                start = file.peek(4)[:4]
                if start == b"PAR1" or self.path.lower().endswith((".parquet", ".pq")):
                    yield from self._parquet(columns, only_column)
                    return
                if start[:2] == b"\x1f\x8b":
                    unpacked = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)))
                    start = unpacked.peek(4)[:4]
                else:
                    unpacked = file
                for magic, kind in _OTHER_KINDS:
                    if start.startswith(magic):
                        raise ValueError(f"{self.name} is {kind}")
                yield from self._csv(unpacked, file, columns, only_column)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name} is not UTF-8 text; it must be CSV, gzipped CSV or Parquet",
                f"byte 0x{error.object[error.start]:02x}",
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.name} is broken gzip ({error}); was it copied whole?") from error
        except csv.Error as error:
            raise ValueError(f"{self.name} is not a table in CSV: {error}") from error

    @contextmanager
    def _opened(self) -> Iterator[io.BufferedReader]:
        if self.path == "-":
            if sys.stdin is None:
                raise ValueError("standard input is closed; name a file, or pipe one in")
            yield cast(io.BufferedReader, sys.stdin.buffer)
            return
        if os.path.isdir(self.path):
            raise ValueError(f"{self.path} is a directory; name a CSV or Parquet file")
        with open(self.path, "rb") as file:
            yield file

    # --- CSV -------------------------------------------------------------------------------------

    def _csv(
        self, file: BinaryIO, raw: BinaryIO, columns: Mapping[str, str], only_column: str | None
    ) -> Iterator[Batch]:
        size = 0 if self.path == "-" else os.fstat(raw.fileno()).st_size
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            # Strict: a quote that one row leaves open must not swallow the rows of other people.
            rows = csv.reader(_lines(text, self), delimiter=self.separator, strict=True)
            header = next(rows, None)
            if not header:
                raise ValueError(f"{self.name} is empty; the first line must name the columns")
            places = self._places(header, columns, only_column)
            width = len(header)
            lines: list[int] = []
            cells: dict[str, list[str]] = {argument: [] for argument in places}
            wanted = [(cells[argument], place) for argument, place in places.items()]
            for row in rows:
                if len(row) != width:
                    if not row or self.skip_bad:
                        continue  # a blank line, or one to be left out
                    raise self.refused(
                        f"the header has {width} columns, and not every row has; mend it, or leave such rows"
                        " out with --skip-bad",
                        f"line {rows.line_num}",
                        f"the header has {width} columns, this row has {len(row)}",
                    )
                lines.append(rows.line_num)
                for column, place in wanted:
                    column.append(row[place])
                if len(lines) == _ROWS_AT_A_TIME:
                    yield Batch(lines, _present(cells), done=raw.tell() / size if size else None)
                    lines = []
                    for column, _ in wanted:
                        column.clear()
            yield Batch(lines, _present(cells))
        finally:
            with suppress(ValueError):
                text.detach()  # closing is for whoever opened the file

    def _places(
        self,
        header: list[str],
        columns: Mapping[str, str],
        only_column: str | None,
        *,
        named: bool = False,
    ) -> dict[str, int]:
        if only_column in columns and len(header) == 1 and len(columns) == 1:
            return {cast(str, only_column): 0}
        places = {}
        for argument, column in columns.items():
            if header.count(column) > 1:
                raise ValueError(
                    f"{self.name} has {header.count(column)} columns named {column!r}; rename them"
                )
            if column not in header:
                raise self._no_column(argument, column, header, named or self.public)
            places[argument] = header.index(column)
        return places

    def _no_column(self, argument: str, column: str, header: list[str], named: bool) -> ValueError:
        shown = ", ".join(repr(name) for name in header[:20]) + (", ..." if len(header) > 20 else "")
        message = f"--{argument.partition(':')[0]} {column}: {self.name} has no such column"
        if named:
            message += f"; it has {shown}"
        else:  # a file without a header has somebody's cells there
            message += " in its first line (--insecure-diagnostics names those it has)"
        if len(header) == 1 and len(header[0]) < _LONGEST_LINE:
            marks = [mark for mark in (";", "\t", "|", ",") if mark in header[0] and mark != self.separator]
            if marks:
                word = "tab" if marks[0] == "\t" else f"'{marks[0]}'"
                message += f"; if its columns are separated by {word}, say --separator {word}"
        return ValueError(message) if named else DataError(message, f"it has {shown}")

    # --- Parquet ---------------------------------------------------------------------------------

    def _parquet(self, columns: Mapping[str, str], only_column: str | None) -> Iterator[Batch]:
        if self.path == "-":
            raise ValueError("standard input must be CSV; give a Parquet file by its name")
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ImportError("reading Parquet needs pyarrow: pip install 'discreet[tables]'") from error
        try:
            with parquet.ParquetFile(self.path) as file:
                schema = file.schema_arrow
                places = self._places(list(schema.names), columns, only_column, named=True)
                wanted = {argument: schema.names[place] for argument, place in places.items()}
                for argument, name in wanted.items():
                    _refuse_nested(arrow, argument, name, schema.field(name).type)
                row, rows = 0, file.metadata.num_rows
                for part in file.iter_batches(_ROWS_AT_A_TIME, columns=list(dict.fromkeys(wanted.values()))):
                    lines = list(range(row + 1, row + part.num_rows + 1))
                    row += part.num_rows
                    cells = {argument: _arrow_cells(part.column(name)) for argument, name in wanted.items()}
                    yield Batch(lines, cells, "row", row / rows)
        except (arrow.ArrowException, OSError) as error:
            if isinstance(error, MemoryError):
                raise
            reason = str(error).split(". ")[0]
            raise ValueError(f"{self.name} is not a whole Parquet file: {reason}") from error


def _lines(text: io.TextIOWrapper, source: Source) -> Iterator[str]:
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise source.refused(
                "a line is longer than a million characters; it is no table in CSV", f"line {number}"
            )
        yield line


def _present(cells: dict[str, list[str]]) -> dict[str, list[str | None]]:
    """Copies of the columns, None where a cell is missing; each distinct text is looked at once."""
    found: dict[str, list[str | None]] = {}
    for argument, column in cells.items():
        missing = {text for text in set(column) if _cell(text) is None}
        found[argument] = [None if text in missing else text for text in column] if missing else [*column]
    return found


def _cell(text: str) -> str | None:
    """Missing where nothing is written, or the not-a-number that numeric programs write for nothing."""
    return None if text in ("nan", "NaN") or not text.strip() else text


def _refuse_nested(arrow: Any, argument: str, name: str, kind: Any) -> None:
    if arrow.types.is_dictionary(kind):
        kind = kind.value_type
    if arrow.types.is_nested(kind):
        raise ValueError(
            f"--{argument.partition(':')[0]} {name}: holds {kind}; a column of text or numbers is needed"
        )


def _arrow_cells(column: Any) -> list[str | None]:
    """Text for each entry; each distinct value is turned into text once."""
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    words = [_text(value) for value in encoded.dictionary.to_pylist()]
    return [None if code is None else words[code] for code in encoded.indices.to_pylist()]


def _text(value: Any) -> str | None:
    """A value as CSV would have it: whole numbers without a point, bytes as the text they stand for."""
    if value is None:
        return None
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bytes):
        return _cell(value.decode("utf-8", "backslashreplace"))
    return _cell(str(value))
