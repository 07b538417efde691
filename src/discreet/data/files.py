"""Files a batch of rows at a time, so that memory does not grow with their length.

CSV (plain, packed, or on standard input), Parquet and Feather, told apart by their first bytes.
"""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import io
import lzma
import mmap
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from ..core.extras import install
from ..core.identity import is_text
from . import source as tables
from .frames import numbered_from
from .source import Batch, Column, Source

# A line that goes on for longer is not a line of a table, and is not read to its end.
LONGEST_LINE = 1 << 20
_BLOCK = 1 << 16
_READ = 1 << 20  # bytes of a column of Parquet
_FEW = 256
_LONGER = 16  # times as many rows of Parquet as of text: fewer values are met again in the next batch
# A cell may be as long as a line; otherwise the module's own limit would refuse a file for one cell of it.
csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))
_PLAIN_BLOCK = 8 << 20
# Enough of a file to tell what it is.
START = 8
_SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv", ".tab")
_PACKED = ("", ".gz", ".zst", ".bz2", ".xz")
_GZIP, _ZSTD, _BZIP2, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"
_OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive, or a workbook; unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a workbook or another document; save the sheet as CSV"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
    (b"SQLi", "a database; export the table as CSV"),
    (b"FEA1", "Feather of the first version, which is no longer written; save it as Parquet"),
)
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
_WORKBOOK = (
    "an Excel workbook or the like, which is not read, because a sheet may hold several tables: save the"
    ' sheet with the rows as "CSV UTF-8" (File, Save As) and name that file'
)
# Separators that are looked for, the likeliest first.
SEPARATORS = (",", "\t", ";", "|")


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
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{source.name} is broken gzip ({error}); was it copied whole?") from error
    except (BrokenStream, lzma.LZMAError) as error:
        raise ValueError(f"{source.name} is not packed whole ({error}); was it copied whole?") from error


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
    """Text in columns, a row in a line.

    A cell in quotes must end on its line: otherwise a quote that one row leaves open could swallow the rows
    of other people, up to the next quote. Every line is read by itself, and so is every cell: what is no
    UTF-8 is a bad cell of its row, and of no other.
    """
    size = 0 if source.stdin else os.fstat(raw.fileno()).st_size
    blocks = io.BufferedReader(_Lines(file, source), _BLOCK)
    separator = separator_of(source, file.peek(_BLOCK), asked, only)
    text = io.TextIOWrapper(blocks, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = _Rows(source, separator)
    before = 0
    if source.columns is None:
        header = next(iter(rows.of(list(islice(text, 1)), 1)), [])
        before = 1
    else:
        header = list(source.columns)
    if not header:
        raise ValueError(f"{source.name} is empty; the first line must name the columns")
    if not all(map(is_text, header)):
        words = "is not UTF-8 text; it must be CSV, plain or packed, Parquet or Feather"
        raise ValueError(f"{source.name} {words}")
    places = source.places(header, asked, only, separator=separator)
    wanted = [(role, itemgetter(at)) for role, at in places.items()]
    rows.width = len(header)
    while True:
        cells: dict[str, list[str]] = {role: [] for role, _ in wanted}
        lines: list[int] = []
        # Few at a time: rows that are let go of at once cost half as much.
        while len(lines) < tables.ROWS and (part := list(islice(text, min(_FEW, tables.ROWS)))):
            good = rows.of(part, before + 1)
            lines += rows.lines
            before += len(part)
            for role, cell in wanted:
                cells[role] += map(cell, good)
        if not lines:
            return
        columns = {role: Column(column) for role, column in cells.items()}
        yield Batch(source, asked, columns, partial(_line, lines), raw.tell() / size if size else None)


def _line(lines: Sequence[int], row: int) -> str:
    return f"line {lines[row]}"


class _Rows:
    """Lines as rows of ``width`` cells; None: any number of them."""

    def __init__(self, source: Source, separator: str) -> None:
        self._source, self._separator = source, separator
        self.width: int | None = None
        self.lines: Sequence[int] = ()

    def of(self, part: list[str], first: int) -> list[list[str]]:
        """The rows of some lines, of which ``first`` is the number of the first; blank lines are no rows.

        ``lines`` has the numbers of the lines of these rows.
        """
        for line in part if max(map(len, part), default=0) > LONGEST_LINE else ():
            if len(line) > LONGEST_LINE:
                raise _endless(self._source, first + part.index(line))
        try:
            rows = list(csv.reader(part, delimiter=self._separator, strict=True))
        except csv.Error:
            rows = []
        if len(rows) == len(part) and {self.width}.issuperset(map(len, rows)):
            self.lines = range(first, first + len(part))
            return rows
        kept, self.lines = [], []
        for number, line in enumerate(part, first):
            if (row := self._row(line, number)) is not None:
                kept.append(row)
                self.lines.append(number)
        return kept

    def _row(self, line: str, number: int) -> list[str] | None:
        """The cells of one line; None for a line that is blank, or bad and to be left out."""
        where = f"line {number}"
        try:
            row = next(csv.reader([line], delimiter=self._separator, strict=True))
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise self._source.refused(
                    "a cell in quotes does not end on its line; nothing tells whose rows the next lines are",
                    where,
                    skippable=False,
                ) from None
            if self._source.skip_bad:
                return None
            raise self._source.refused("a row has something behind a closing quote", where) from None
        if self.width is None or len(row) == self.width:
            return row
        if row and not self._source.skip_bad:
            raise self._source.uneven(self.width, where, f"{len(row)} cells")
        return None


def _endless(source: Source, line: int) -> ValueError:
    words = "a line is longer than a million letters; it is no table in CSV"
    return source.refused(words, f"line {line}", skippable=False)


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
        if self._length > 5 * LONGEST_LINE:  # in bytes, of which a letter has up to four
            raise _endless(self._source, self._line)
        return count


# --- CSV without quotes --------------------------------------------------------------------------
#
# A file with any quote in it is read by the strict reader above; one without can be read in one way only, and
# Arrow does it several times as fast. Which of them reads a file may not matter to anybody in it.


def plain_csv(source: Source) -> bool:
    """Whether a file is such text: not compressed, nothing else, and without a quote."""
    path = str(source.path)
    mark = source.separator or ","
    if source.skip_bad:  # Arrow cannot leave out a row that is no UTF-8
        return False
    if not os.path.isfile(path) or not os.path.getsize(path) or len(mark.encode()) != 1:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        if not is_plain(text[:START]):
            return False
        if not _short_lines(text):
            return False
        if source.columns is not None:
            return text.find(b'"') < 0
        first = text.find(b"\n", 0, 1 << 20)
        whole = text[: first + 1].count(b'"') % 2 == 0  # the first line may quote the names of columns
        return first >= 0 and whole and text.find(b'"', first) < 0


def _short_lines(text: mmap.mmap) -> bool:
    """Whether every line is one that the strict reader takes as well."""
    at = 0
    while at + LONGEST_LINE < len(text):
        last = max(text.rfind(b"\n", at, at + LONGEST_LINE), text.rfind(b"\r", at, at + LONGEST_LINE))
        if last < 0:
            return False
        at = last + 1
    return True


def read_plain_csv(
    source: Source, asked: Mapping[str, str], column: Callable[[str, str, Any], Column]
) -> Iterator[Batch]:
    """The columns that were asked for, all of them as text; ``column`` makes columns of arrays."""
    import pyarrow as arrow
    from pyarrow import csv as reading

    mark = source.separator or ","
    if source.columns is None:
        with open(str(source.path), "rb") as file:
            first = file.readline().decode("utf-8-sig", "replace")
        header = next(csv.reader([first], delimiter=mark, strict=True))
    else:
        header = list(source.columns)
    width = len(header)
    places = source.places(header, asked, separator=mark)
    # By their places: other columns may share a name.
    names = {role: str(at) for role, at in places.items()}
    row, size = 0, os.path.getsize(str(source.path))
    try:
        reader = reading.open_csv(
            str(source.path),
            reading.ReadOptions(
                block_size=_PLAIN_BLOCK,
                skip_rows=1 if source.columns is None else 0,
                column_names=list(map(str, range(width))),
            ),
            reading.ParseOptions(delimiter=mark, quote_char=False),
            reading.ConvertOptions(
                include_columns=list(dict.fromkeys(names.values())),
                column_types=dict.fromkeys(names.values(), arrow.binary()),
                strings_can_be_null=False,
            ),
        )
        for part in reader:
            columns = {
                role: _text(part.column(name), partial(column, source.wording.asked(role, asked[role]), role))
                for role, name in names.items()
            }
            yield Batch(source, asked, columns, numbered_from(row), min(1.0, row * 16 / size))
            row += part.num_rows
    except arrow.ArrowInvalid:  # whose words hold the row
        raise source.uneven(width, f"after row {row}") from None


def _text(values: Any, column: Callable[[Any], Column]) -> Column:
    """Cells as text; what is no UTF-8 stays a cell by itself, as in the strict reader."""
    import pyarrow as arrow

    try:
        return column(values.cast(arrow.string()))
    except arrow.ArrowInvalid:
        return Column([cell.decode("utf-8", "surrogateescape") for cell in values.to_pylist()])


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
                yield Batch(source, asked, columns, numbered_from(row), row / total)
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
                    yield Batch(
                        source, asked, columns, numbered_from(row), number / reader.num_record_batches
                    )
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


# --- kinds of files -----------------------------------------------------------------------------


def is_parquet(source: Source, start: bytes) -> bool:
    """Whether a file is Parquet, or says that it is."""
    return start[:4] == b"PAR1" or str(source.path).lower().endswith((".parquet", ".pq"))


def is_feather(source: Source, start: bytes) -> bool:
    """Whether a file is Feather, or says that it is."""
    named = str(source.path).lower().endswith((".feather", ".arrow")) and start[:4] != b"FEA1"
    return start[:6] == b"ARROW1" or named


def is_plain(start: bytes) -> bool:
    """Whether a file may be text as it is."""
    others = (_GZIP, _ZSTD, _BZIP2, _XZ, *(magic for magic, _ in _OTHER_KINDS))
    return not start.startswith(others)


@contextmanager
def unpacked(source: Source, file: io.BufferedReader) -> Iterator[io.BufferedReader]:
    """The text of a file, packed or not; refused, with what to do, where it is something else."""
    start = file.peek(START)[:START]
    text: Any = file
    if start.startswith(_GZIP):
        text = gzip.GzipFile(fileobj=file)
    elif start.startswith(_BZIP2):
        text = bz2.BZ2File(file)
    elif start.startswith(_XZ):
        text = lzma.LZMAFile(file)  # noqa: SIM115
    elif start.startswith(_ZSTD):
        text = _zstd(file)
    inside = file if text is file else io.BufferedReader(cast(Any, text), 1 << 16)
    start = inside.peek(START)[:START]
    if str(source.path).lower().endswith(_WORKBOOKS) and not source.stdin:
        raise ValueError(f"{source.name} is {_WORKBOOK}")
    for magic, kind in _OTHER_KINDS:
        if start.startswith(magic):
            raise ValueError(f"{source.name} is {kind}")
    yield inside


def _zstd(file: io.BufferedReader) -> io.RawIOBase:
    try:
        import pyarrow as arrow
    except ImportError as error:
        raise ImportError(f"reading .zst needs pyarrow: {install('tables')}") from error
    return _Stream(arrow.CompressedInputStream(file, "zstd"))


class BrokenStream(Exception):
    """What is packed ends early, or is none."""


class _Stream(io.RawIOBase):
    """A stream of Arrow's, as Python's own readers want it."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._stream.read(len(buffer))
        except OSError as error:
            raise BrokenStream(error) from error
        buffer[: len(block)] = block
        return len(block)


def files_of(source: Source) -> list[str]:
    """The files that a path names: itself, those of a pattern, or those in a folder and in folders in it."""
    path = str(source.path)
    if source.stdin:
        return [path]
    if os.path.isdir(path):
        found = [
            str(one)
            for one in sorted(Path(path).rglob("*"))
            if _is_table(one.name.lower())
            and not any(part.startswith((".", "_")) for part in one.relative_to(path).parts)
        ]
        if not found:
            raise ValueError(f"{path} is a directory that holds no files ending in {', '.join(_SUFFIXES)}")
        return found
    if glob.has_magic(path) and not os.path.exists(path):
        found = sorted(one for one in glob.glob(path, recursive=True) if os.path.isfile(one))
        if not found:
            raise ValueError(f"no file is named like {path}")
        return found
    return [path]


def _is_table(name: str) -> bool:
    return any(name.endswith(kind + packed) for kind in _SUFFIXES for packed in _PACKED)


def usual_separator(source: Source) -> str:
    """What stands between columns by the name of the file."""
    name = str(source.path).lower()
    for packed in _PACKED[1:]:
        name = name.removesuffix(packed)
    return "\t" if name.endswith((".tsv", ".tab")) else ","


def separator_of(source: Source, first: bytes, asked: Mapping[str, str], only: str | None = None) -> str:
    """What stands between columns: as told, or whichever makes the first line name what was asked for.

    The names of columns are public, and nothing else is looked at: where there is no header, the file's name
    alone decides, because a row may not decide how the rows of others are read.
    """
    if source.separator is not None:
        return source.separator
    usual = usual_separator(source)
    if source.columns is not None:
        return usual
    line = first.splitlines()[0].decode("utf-8-sig", "replace") if first else ""
    best, most = usual, (0, 0)
    for mark in (usual, *(one for one in SEPARATORS if one != usual)):
        try:
            header = [cell.strip() for cell in next(csv.reader([line], delimiter=mark), [])]
        except csv.Error:
            continue
        there = sum(column in header or column.strip() in header for column in asked.values())
        # Of what is refused anyhow, the separator with most columns is the one to speak of.
        found = there, 0 if only in asked and not there else len(header)
        if found > most:
            best, most = mark, found
    return best
