"""Rows of files, tables and streams as batches of columns, so that memory does not grow with their length.

Files are CSV (plain, compressed, or on standard input), Parquet and Feather, recognized by their first bytes;
tables are frames, Arrow tables, dicts of columns, database cursors, rows that are mappings, and iterators of
any of these. No row affects how another one is read. A batch holds the requested columns, each under its
role: ``person``, ``item``, ``weight``, and ``constraint:COLUMN`` for a column that a constraint is about.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import difflib
import glob
import gzip
import io
import lzma
import os
import re
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError, shown
from ..core.names import first_skipped, is_text
from ..core.text import install
from ..kernels.csv import BEHIND, ENDLESS, FINE, OPEN, CsvLines

ROWS = 1 << 18  # of a batch
BLOCK = 1 << 22  # bytes of text that are read at a time
# A longer line is not a line of a table, and is not read to its end.
LONGEST_LINE = 1 << 20
_START = 8  # bytes that identify the kind of a file
_BUFFER = 1 << 20  # bytes of a column of Parquet
_SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv", ".tab")
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
_BREAK = re.compile(rb"(\r\n|\r|\n)")
_MARK = b"\xef\xbb\xbf"  # of byte order, in UTF-8
_MARKED = re.compile(rb"(?<![^\r\n])" + _MARK)
# Bytes that decode differently in encodings that do not extend ASCII, or that have shift sequences.
UTF = "UTF-8"
_PROBE = bytes(range(128)) + rb"\u000a+AGE-.xn--tda." + b"\x1b$B0!"
# Separators to try, the likeliest first.
_SEPARATORS = (",", "\t", ";", "|")
COMPRESSED = ("", ".gz", ".zst", ".bz2", ".xz")
_NUMBERED = re.compile(r"#([1-9]\d{0,6})")
FINE_TIMES = frozenset(("ns", "ps", "fs", "as"))  # units of times that Python's own do not have


def columns_of(person: str, item: str, weight: str | None = None) -> dict[str, str]:
    """The columns of events by role."""
    asked = {"person": person, "item": item}
    return asked if weight is None else asked | {"weight": weight}


def constraint_role(column: str) -> str:
    """The role of a column that a constraint is about."""
    return f"constraint:{column}"


@dataclass(frozen=True)
class Wording:
    """How errors name arguments and remedies; by default as arguments in Python."""

    argument: str = "{role}={shown}"
    items: str = "items="
    columns: str = "columns="
    drop_items: str = '; add it, or unknown_items="drop"'
    separator: str = "; if its columns are separated by {mark}, read it into a frame first"
    headless: str = "; if its first line is a row and no header, read it into a frame first"
    encoding: str = "; if the file is in another encoding, read it into a frame first"
    renamed: str = ""
    leave_out: str = ""
    details: str = ""
    others: Mapping[str, str] = field(default_factory=dict)  # the argument behind a column about items

    def asked(self, role: str, column: str) -> str:
        """The argument that requested a column."""
        kind, _, about = role.partition(":")
        return self.argument.format(role=self.others.get(about, kind), column=column, shown=shown(column))


@dataclass(frozen=True)
class Column:
    """One entry per row: ``values``, or, with ``codes``, the index of each row's value.

    ``missing``: marks rows without an entry, for which numeric ``values`` hold a placeholder.
    """

    values: Sequence[Any] | NDArray[Any]
    codes: NDArray[np.int64] | None = None
    missing: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values) if self.codes is None else int(self.codes.size)

    def __getitem__(self, row: int) -> Any:
        if self.missing is not None and self.missing[row]:
            return None
        return self.values[row if self.codes is None else int(self.codes[row])]

    def where(self, kept: NDArray[np.bool_]) -> Column:
        """The kept rows; with only the values that they hold, in the order of rows."""
        if self.codes is None:
            return Column([self[row] for row in np.flatnonzero(kept).tolist()])
        used, first, codes = np.unique(self.codes[kept], return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return Column([self.values[place] for place in used[order]], rank[codes])


@dataclass(frozen=True)
class Text(Column):
    """A column of text: row i holds ``values[ends[i]:ends[i + 1]]``, which are bytes of UTF-8.

    Invalid bytes are read as lone surrogates, so that only their own cell is bad.
    """

    values: NDArray[np.uint8]
    ends: NDArray[np.signedinteger[Any]] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    @classmethod
    def of(cls, texts: Sequence[str]) -> Text:
        """From Python strings; one with lone surrogates is a bad cell, and does not affect others."""
        try:
            cells = [text.encode() for text in texts]
        except UnicodeEncodeError:
            cells = [text.encode() if is_text(text) else b"\xff" for text in texts]
        ends = np.concatenate(([0], np.cumsum(list(map(len, cells)), dtype=np.int64)))
        return cls(np.frombuffer(b"".join(cells), np.uint8), ends=ends)

    def __len__(self) -> int:
        return self.ends.size - 1

    def __getitem__(self, row: int) -> Any:
        if self.missing is not None and self.missing[row]:
            return None
        cell = self.values[self.ends[row] : self.ends[row + 1]]
        return cell.tobytes().decode("utf-8", "surrogateescape")

    def texts(self) -> list[str]:
        """All rows as Python strings."""
        letters, ends = self.values.tobytes(), self.ends.tolist()
        return [letters[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(ends)]


@dataclass(frozen=True)
class Source:
    """A table, file or stream of events, and how to treat bad rows.

    ``table``: a data frame, an Arrow table, a dict of columns, rows that are mappings, or the path of a file;
    with ``stdin`` it is standard input. A path may be a pattern or a folder, and there may be a list of
    paths. ``separator``: between the columns of text; None: inferred from the names of columns. ``columns``:
    names of the columns of text without a header. ``encoding`` of text, as returned by `checked_encoding`.
    ``skip_bad``: rows that cannot be read are left out instead of refused. ``public``: it holds no personal
    data, so errors may quote its rows.
    """

    table: Any
    separator: str | None = None
    skip_bad: bool = False
    public: bool = False
    stdin: bool = False
    wording: Wording = Wording()
    columns: tuple[str, ...] | None = None
    encoding: str = UTF

    def __post_init__(self) -> None:
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n'):
            raise ValueError("separator must be one character, and neither a quote nor a break of lines")

    @property
    def header_word(self) -> str:
        """Where the names of columns come from."""
        return "the header" if self.columns is None else self.wording.columns

    @property
    def path(self) -> str | None:
        return os.fspath(self.table) if isinstance(self.table, str | os.PathLike) else None

    @property
    def name(self) -> str:
        """The source's name in messages."""
        if self.path is None:
            return "the table"
        return "standard input" if self.stdin else Path(self.path).name or self.path

    @property
    def usual_separator(self) -> str:
        """The separator that the file's name suggests."""
        name = str(self.path).lower()
        for ending in COMPRESSED[1:]:
            name = name.removesuffix(ending)
        return "\t" if name.endswith((".tsv", ".tab")) else ","

    def refused(self, message: str, where: str, details: str = "", *, skippable: bool = True) -> ValueError:
        """An error about a row; for people's data the row's number and content are in the details only.

        ``skippable``: with ``skip_bad`` the row would have been left out.
        """
        if self.public:
            return ValueError(f"{self.name}, {where}: {details or message}")
        named = message if self.path is None else f"{self.name}: {message}"
        leave_out = self.wording.leave_out if skippable else ""
        more = self.wording.details.format(what="the row")
        return DataError(f"{named}{leave_out}{more}", f"{where}: {details}" if details else where)

    @property
    def not_decoded(self) -> str:
        """The message for bytes that are invalid in the encoding."""
        hint = self.wording.encoding.format(other="cp1252" if self.encoding == UTF else "utf-8")
        return f"is not {self.encoding} text{'' if self.path is None else hint}"

    def uneven(self, width: int, where: str, cells: str = "") -> ValueError:
        """An error for a row that has more or fewer cells than the ``width`` columns.

        Without a header the file's name determines the separator: the message names the likeliest other one,
        independently of the row.
        """
        hint = ""
        if self.columns is not None and self.separator is None and width > 1:
            mark = "','" if self.usual_separator == "\t" else "tab"
            hint = self.wording.separator.format(mark=mark)
        if self.public and cells:
            return self.refused("", where, f"{cells}, and {self.header_word} has {width}{hint}")
        message = f"a row has another number of cells than {self.header_word}, which has {width}{hint}"
        return self.refused(message, where, cells)

    def places(
        self,
        header: Sequence[Any],
        asked: Mapping[str, str],
        only: str | None = None,
        *,
        public: bool = False,
        separator: str = "",
    ) -> dict[str, int]:
        """The index in the header of each role's column.

        ``only``: the role that a single column takes, whatever its name. ``public``: the header cannot be a
        row with personal data. ``separator``: that of a header in text, in which #2 is the second column, and
        blanks around names are ignored.

        An error quotes no cell of a header that may be a row, unless another requested column is in it: then
        it suggests names close to the missing one.
        """
        if only in asked and len(header) == 1 and len(asked) == 1:
            if separator and self.columns is None and not _positions(asked[str(only)], header):
                warnings.warn(
                    f"the first line of {self.name}, {shown(header[0])}, is taken for the name of its column,"
                    f" not for one of its {only}s{self.wording.headless}",
                    stacklevel=2,
                )
            return {str(only): 0}
        found: dict[str, int] = {}
        missing = []
        for role, column in asked.items():
            places = [at for at, name in enumerate(header) if name == column]
            if not places and separator:
                places = _positions(column, header)
            if len(places) > 1:
                raise self._several(role, column, places, bool(separator))
            if places:
                found[role] = places[0]
            else:
                missing.append(role)
        if missing:
            role = missing[0]
            known = public or self.public or self.columns is not None
            raise self._no_column(
                role, asked[role], header, separator, public=known, header_found=bool(found)
            )
        return found

    def _several(self, role: str, column: str, places: Sequence[int], numbers: bool) -> ValueError:
        which = " and ".join(f"#{at + 1}" for at in places)
        by_number = self.wording.asked(role, f"#{places[-1] + 1}")
        other = f", or ask for one by its number, such as {by_number}" if numbers else ""
        return ValueError(
            f"{self.name} has {len(places)} columns named {shown(column)} ({which}); rename them{other}"
        )

    def _no_column(
        self,
        role: str,
        column: str,
        header: Sequence[Any],
        separator: str,
        *,
        public: bool,
        header_found: bool,
    ) -> ValueError:
        table = "the table" if self.path is None else f"the table in {self.name}"
        message, hint = f"{self.wording.asked(role, column)} is not a column of {table}", ""
        if self.path is not None and len(header) == 1:
            marks = [mark for mark in (";", "\t", "|", ",") if mark in header[0] and mark != separator]
            if marks:
                mark = "tab" if marks[0] == "\t" else f"'{marks[0]}'"
                hint = self.wording.separator.format(mark=mark)
        listed = ", ".join(map(repr, header[:20])) + (", ..." if len(header) > 20 else "")
        names = [name.strip() for name in header if isinstance(name, str)]
        near = _similar_names(str(column), names)
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        if public:
            if self.public and separator and self.columns is None and not (header_found or hint or near):
                hint = self.wording.headless
            renamed = self.wording.renamed if role == "item" else ""
            return ValueError(f"{message}, which has {listed}{meant}{renamed}{hint}")
        # In a file without a header these cells may be somebody's data.
        more = self.wording.details.format(what="its columns")
        if header_found:
            return DataError(f"{message}{hint}{meant}{more}", f"it has {listed}")
        if separator and not hint:
            hint = self.wording.headless
        return DataError(f"{message}{hint}{more}", f"it has {listed}{meant}")


@dataclass(frozen=True)
class Batch:
    """Some rows: the columns by role, and a description of each row's place in the source.

    ``done`` is the fraction of a file that has been read, if its length is known.
    """

    source: Source
    asked: Mapping[str, str]
    columns: Mapping[str, Column]
    place: Callable[[int], str]
    done: float | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def refused(self, row: int, message: str, details: str = "", *, skippable: bool = True) -> ValueError:
        return self.source.refused(message, self.place(row), details, skippable=skippable)

    def missing(self, role: str, row: int) -> ValueError:
        """An error for an empty cell, or one with bytes that are invalid in the encoding."""
        entry, what = f"an entry of column {self.asked[role]!r}", role.partition(":")[0]
        if not_decoded(self.columns[role][row]):
            return self.refused(row, f"{entry} {self.source.not_decoded}")
        words = f"{entry} is missing, or is neither text nor a number"
        return self.refused(row, f"{words}; every event needs its {what}")

    def not_decoded(self) -> int:
        """The number of rows with bytes that are invalid in the encoding; private."""
        columns = self.columns.values()
        return sum(any(not_decoded(column[row]) for column in columns) for row in range(len(self)))


def not_decoded(cell: Any) -> bool:
    """Whether a cell holds surrogates in place of bytes that are invalid in the encoding."""
    return isinstance(cell, str) and not is_text(cell)


def _similar_names(column: str, names: Sequence[str]) -> list[str]:
    """Up to three names that may have been meant: similarly spelled, or with words added or missing."""
    by_letters = {name.casefold(): name for name in names if name}
    wanted = column.casefold().strip()
    close = difflib.get_close_matches(wanted, list(by_letters), n=3)
    parts = [
        name
        for name in by_letters
        if len(min(wanted, name, key=len)) > 2
        and (wanted in name or name in wanted or difflib.get_close_matches(wanted, name.split(), n=1))
    ]
    return [by_letters[name] for name in dict.fromkeys([*close, *parts])][:3]


def _positions(column: str, header: Sequence[str]) -> list[int]:
    """The positions of a name in a header, ignoring blanks around it; #2 stands for the second."""
    number = _NUMBERED.fullmatch(column)
    if number is not None:
        return [at for at in [int(number[1]) - 1] if at < len(header)]
    return [at for at, name in enumerate(header) if name.strip() == column.strip()]


# --- reading -------------------------------------------------------------------------------------


def batches(source: Source, asked: Mapping[str, str], only: str | None = None) -> Iterator[Batch]:
    """The requested columns, ``{role: column}``, from the first row to the last.

    ``only``: a role that a single column takes, whatever its name.
    """
    table = source.table
    paths = paths_of(source)
    if paths is not None:
        for path in paths:
            yield from _file(replace(source, table=path), asked, only)
    elif (reader := _arrow_reader(table)) is not None:
        places = source.places(reader.schema.names, asked)
        yield from _arrow_batches(source, asked, places, ((part, None) for part in _others(reader)))
    elif hasattr(table, "collect") and not hasattr(table, "__len__"):
        yield from _lazy(source, asked)
    elif (names := _names(table)) is not None:
        yield from _frame(source, asked, names)
    elif hasattr(table, "fetchmany"):
        yield from _cursor(source, asked)
    elif isinstance(table, Iterable):
        yield from _stream(source, asked)
    else:
        raise _no_table(source)


def watched(found: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches; on a terminal, shows the fraction of a file read (counts are private)."""
    shown, last = False, time.monotonic()
    try:
        for batch in found:
            now = time.monotonic()
            if batch.done is not None and now - last > 0.5 and sys.stderr.isatty():
                print(f"\rreading: {batch.done:.0%} ", end="", file=sys.stderr, flush=True)
                shown, last = True, now
            yield batch
    finally:
        if shown:
            print("\r" + " " * 20 + "\r", end="", file=sys.stderr, flush=True)


def row_count(source: Source) -> int | None:
    """The approximate number of rows, if it can be known before reading them."""
    paths = None if source.stdin else paths_of(source)
    if paths is not None and not any(Path(path).is_fifo() for path in paths):  # what is read of one is gone
        return sum(map(_rows_in, paths))
    table = source.table
    if isinstance(table, Mapping):
        return max((len(column) for column in table.values() if _is_column(column)), default=None)
    return len(table) if hasattr(table, "__len__") and _names(table) is not None else None


def _rows_in(path: str) -> int:
    if path.lower().endswith((".parquet", ".pq")):
        import pyarrow.parquet as parquet

        try:
            return int(parquet.read_metadata(path).num_rows)
        except (OSError, ValueError):
            return 0  # reading it raises the error
    with open(path, "rb") as file:
        some = file.read(1 << 16)
    larger = 8 if some.startswith((_GZIP, _ZSTD, _BZIP2, _XZ)) else 1
    return os.path.getsize(path) * larger * (some.count(b"\n") + 1) // max(1, len(some))


# --- files ---------------------------------------------------------------------------------------


def paths_of(source: Source) -> list[str] | None:
    """The files of a path or a list of paths; None for other sources."""
    if source.path is not None:
        return files_of(source)
    table = source.table
    named = (
        isinstance(table, list | tuple) and table and all(isinstance(one, str | os.PathLike) for one in table)
    )
    return [path for one in table for path in files_of(replace(source, table=one))] if named else None


def files_of(source: Source) -> list[str]:
    """The files of a path: itself, matches of a pattern, or files in a folder and its subfolders."""
    path = str(source.path)
    if source.stdin:
        return [path]
    if os.path.isdir(path):
        found = [
            str(one)
            for one in sorted(Path(path).rglob("*"))
            if one.name.lower().endswith(tuple(kind + end for kind in _SUFFIXES for end in COMPRESSED))
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


def _file(source: Source, asked: Mapping[str, str], only: str | None) -> Iterator[Batch]:
    """Batches of a file, whose kind is recognized by its first bytes or its name."""
    name = "" if source.stdin else str(source.path).lower()
    try:
        with _opened(source) as file:
            start = file.peek(_START)[:_START]
            if start.startswith(b"PAR1") or name.endswith((".parquet", ".pq")):
                yield from _columnar(source, asked, only, "Parquet")
            elif start.startswith(b"ARROW1") or (
                name.endswith((".feather", ".arrow")) and not start.startswith(b"FEA1")
            ):
                yield from _columnar(source, asked, only, "Feather")
            else:
                yield from _csv(source, _decompressed(source, file), file, asked, only)
    # Libraries' messages about damage may contain bytes, sizes and checksums of the content.
    except (EOFError, zlib.error, _BrokenStream, lzma.LZMAError, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the system; those of gzip and bz2 have no number
        words = f"{source.name} is compressed and damaged; was it copied completely?"
        raise DataError(words, str(error)) from None


@contextmanager
def _opened(source: Source) -> Iterator[io.BufferedReader]:
    """The bytes of a file, or of standard input, which stays open afterwards."""
    if source.stdin:
        if sys.stdin is None:
            raise ValueError("standard input is closed; name a file, or pipe one in")
        yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    with open(str(source.path), "rb") as file:
        yield file


def _decompressed(source: Source, file: io.BufferedReader) -> io.BufferedReader:
    """The text of a file, compressed or not; other kinds are refused with a remedy."""
    start = file.peek(_START)[:_START]
    text: Any = file
    if start.startswith(_GZIP):
        text = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)))
    elif start.startswith(_BZIP2):
        text = io.BufferedReader(cast(Any, bz2.BZ2File(file)))
    elif start.startswith(_XZ):
        text = io.BufferedReader(cast(Any, lzma.LZMAFile(file)))  # noqa: SIM115
    elif start.startswith(_ZSTD):
        text = io.BufferedReader(_ZstdFile(file))
    start = text.peek(_START)[:_START]
    if str(source.path).lower().endswith(_WORKBOOKS) and not source.stdin:
        raise ValueError(f"{source.name} is {_WORKBOOK}")
    for magic, kind in _OTHER_KINDS:
        if start.startswith(magic):
            raise ValueError(f"{source.name} is {kind}")
    return cast(io.BufferedReader, text)


class _BrokenStream(Exception):
    """Compressed data ends early, or is invalid."""


class _ZstdFile(io.RawIOBase):
    """An Arrow stream with the interface that Python's readers need."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__()
        try:
            import pyarrow as arrow
        except ImportError as error:
            raise ImportError(f"reading .zst needs pyarrow: {install('tables')}") from error
        self._stream = arrow.CompressedInputStream(file, "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._stream.read(len(buffer))
        except OSError as error:
            raise _BrokenStream(error) from error
        buffer[: len(block)] = block
        return len(block)


# --- CSV -----------------------------------------------------------------------------------------


def _csv(
    source: Source,
    file: io.BufferedReader,
    raw: io.BufferedReader,
    asked: Mapping[str, str],
    only: str | None,
) -> Iterator[Batch]:
    """Text in columns, one row per line.

    A cell in quotes must end on its line: otherwise a quote that one row leaves open could swallow the rows
    of other people, up to the next quote. Every line is read by itself, and so is every cell: what is not
    of the encoding is a bad cell of its row, and of no other.
    """
    size = 0 if source.stdin else os.fstat(raw.fileno()).st_size
    blocks = _whole_lines(source, file)
    if source.encoding != UTF:
        blocks = (_in_utf8(block, source.encoding) for block in blocks)
    if source.columns is not None:  # then the first line is an ordinary row
        blocks = (_MARKED.sub(b"", block) if _MARK in block else block for block in blocks)
    block = next(blocks, b"").removeprefix(_MARK)
    first, rest = "", block
    if source.columns is None:
        line, stop, rest = _BREAK.split(block, 1) if _BREAK.search(block) else (block, b"", b"")
        first = (line + stop).decode("utf-8", "surrogateescape")
    separator = _separator(source, first, asked, only)
    header = list(source.columns) if source.columns is not None else _header(source, first, separator)
    if not header:
        raise ValueError(f"{source.name} is empty; the first line must name the columns")
    if not all(map(is_text, header)):
        raise ValueError(
            f"{source.name}, line 1: the header {source.not_decoded}; CSV, plain or compressed, Parquet and"
            " Feather are read"
        )
    places = source.places(header, asked, only, separator=separator)
    wanted = list(dict.fromkeys(places.values()))
    before = 1 if source.columns is None else 0
    reader = CsvLines(separator.encode(), len(header), wanted, before, LONGEST_LINE)
    while rest or (rest := next(blocks, b"")):
        found, lines, fault = reader.read(np.frombuffer(rest, np.uint8), source.skip_bad)
        if fault != FINE:
            raise _bad_line(source, reader.line, fault, len(header), reader.cells)
        texts = {
            place: Text(letters, ends=ends) for place, (ends, letters) in zip(wanted, found, strict=True)
        }
        columns = {role: texts[place] for role, place in places.items()}
        if lines.size:
            yield Batch(source, asked, columns, partial(_line, lines), raw.tell() / size if size else None)
        rest = b""


def _line(lines: NDArray[np.int64], row: int) -> str:
    return f"line {lines[row]}"


def _whole_lines(source: Source, file: io.BufferedReader) -> Iterator[bytes]:
    """Blocks of bytes that end where a line does, or the file."""
    rest, line = b"", 1
    while block := file.read(BLOCK):
        # A carriage return at the end may be followed by a line feed in the next block.
        stop = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
        if stop:
            yield rest + block[:stop]
            line += block.count(b"\n")
            rest = block[stop:]
        else:
            rest += block
        if len(rest) > 5 * LONGEST_LINE:  # in bytes, of which a letter has up to four
            raise _bad_line(source, line, ENDLESS)
    if rest:
        yield rest


def checked_encoding(argument: str, encoding: str) -> str:
    """The encoding's canonical name; refuses encodings in which one row could change how others are read."""
    try:
        plain = _PROBE.decode(encoding) == _PROBE.decode("ascii")
    except (LookupError, ValueError, TypeError):
        plain = False
    if not plain:
        raise ValueError(
            f"{argument}{encoding}: must be an encoding that extends ASCII, such as utf-8, cp1252 or latin-1;"
            " save text in another one as UTF-8"
        )
    return UTF if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig") else encoding


def _in_utf8(block: bytes, encoding: str) -> bytes:
    """Complete lines in UTF-8, with invalid bytes replaced by ones that never occur in UTF-8."""
    try:
        return block.decode(encoding).encode()
    except UnicodeDecodeError:  # line by line: a replacement must not swallow a line break
        lines = "".join(one.decode(encoding, _MARKS_BAD) for one in _BREAK.split(block))
        return lines.encode("utf-8", "surrogateescape")


# Not "replace": its replacement character may occur in valid rows, which would then count as bad.
_MARKS_BAD = "discreet.bad"
codecs.register_error(_MARKS_BAD, lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


def _bad_line(source: Source, line: int, fault: int, width: int = 0, cells: int = 0) -> ValueError:
    where = f"line {line}"
    if fault == OPEN:
        words = "a cell in quotes does not end on its line; nothing tells whose rows the next lines are"
        return source.refused(words, where, skippable=False)
    if fault == ENDLESS:
        words = "a line is longer than a million letters; it is not a table in CSV"
        return source.refused(words, where, skippable=False)
    if fault == BEHIND:
        return source.refused("a row has something behind a closing quote", where)
    return source.uneven(width, where, f"{cells} cells")


def _header(source: Source, line: str, separator: str) -> list[str]:
    if len(line) > LONGEST_LINE:
        raise _bad_line(source, 1, ENDLESS)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error as error:
        raise _bad_line(source, 1, OPEN if "unexpected end" in str(error) else BEHIND) from None


def _separator(source: Source, line: str, asked: Mapping[str, str], only: str | None) -> str:
    """The separator: as given, or the one with which the first line has the requested names.

    The names of columns are public, and nothing else is looked at: where there is no header, the file's name
    alone decides, because a row may not decide how the rows of others are read.
    """
    usual = source.separator or source.usual_separator
    if source.separator is not None or source.columns is not None:
        return usual
    best, most = usual, (0, 0)
    for mark in (usual, *(one for one in _SEPARATORS if one != usual)):
        try:
            header = [cell.strip() for cell in next(csv.reader([line], delimiter=mark), [])]
        except csv.Error:
            continue
        there = sum(column in header or column.strip() in header for column in asked.values())
        # For an error message, the separator with the most columns.
        found = there, 0 if only in asked and not there else len(header)
        if found > most:
            best, most = mark, found
    return best


# A name may be as long as a line, beyond the csv module's own limit.
csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))


# --- Parquet and Feather --------------------------------------------------------------------------


def _columnar(source: Source, asked: Mapping[str, str], only: str | None, kind: str) -> Iterator[Batch]:
    """Batches of a file in a format of Arrow's."""
    if source.stdin:
        raise ValueError(f"standard input must be CSV; give a {kind} file by its name")
    if source.columns is not None:
        raise ValueError(
            f"{source.name} is {kind}, which names its columns; {source.wording.columns} is for text without"
            " a header"
        )
    try:
        import pyarrow as arrow
    except ImportError as error:
        raise ImportError(f"reading {kind} needs pyarrow: {install('tables')}") from error
    try:
        with arrow.OSFile(str(source.path)) as file:
            names, parts = _parquet(file, asked) if kind == "Parquet" else _feather(file)
            places = source.places(names, asked, only, public=True)
            wanted = {role: names[at] for role, at in places.items()}
            yield from _arrow_batches(source, asked, wanted, parts(list(dict.fromkeys(wanted.values()))))
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        raise DataError(f"{source.name} is not a complete {kind} file", str(error)) from None


_Parts = tuple[list[str], Callable[[list[str]], Iterator[tuple[Any, float]]]]


def _parquet(file: Any, asked: Mapping[str, str]) -> _Parts:
    """The names of columns, and a function for batches of some, with the fraction read before each."""
    import pyarrow.parquet as parquet

    # Items are few, so read them as dictionary codes. By default Arrow keeps all that it has read.
    schema = parquet.read_schema(file)
    text = ("string", "large_string")
    coded = [one.name for one in schema if one.name == asked.get("item") and str(one.type) in text]
    found = parquet.ParquetFile(file, read_dictionary=coded, pre_buffer=False, buffer_size=_BUFFER)

    def parts(wanted: list[str]) -> Iterator[tuple[Any, float]]:
        row = 0
        for part in found.iter_batches(ROWS, columns=wanted, use_threads=False):
            yield part, row / max(1, found.metadata.num_rows)
            row += part.num_rows

    return schema.names, parts


def _feather(file: Any) -> _Parts:
    import pyarrow as arrow

    reader = arrow.ipc.open_file(file)
    count = reader.num_record_batches
    return reader.schema.names, lambda _: ((reader.get_batch(at), at / count) for at in range(count))


# --- tables --------------------------------------------------------------------------------------


def _others(parts: Iterable[Any]) -> Iterator[Any]:
    """What another library reads; its error messages, which may hold a cell, become details."""
    try:
        yield from parts
    except MemoryError:
        raise
    except Exception as error:
        raise DataError(
            f"the events cannot be read to their end: {type(error).__name__}", str(error)
        ) from None


def numbered_from(start: int) -> Callable[[int], str]:
    """Rows by their number in the table."""
    return lambda row: f"row {start + row}"


def _no_table(source: Source) -> TypeError:
    return TypeError(
        "events must be a data frame, an Arrow table, a dict of columns, rows that are mappings or a path,"
        f" got {type(source.table).__name__}"
    )


def _arrow_reader(table: Any) -> Any:
    """A reader of Arrow batches, if the table is or provides one without reading everything; else None."""
    home = type(table).__module__.partition(".")[0]
    if home == "pyarrow":
        return table.to_reader(ROWS) if hasattr(table, "to_reader") else table
    if hasattr(table, "fetch_record_batch"):  # a cursor of ADBC, a relation of DuckDB
        return table.fetch_record_batch()
    if home == "polars" and hasattr(table, "__len__") and "Object" in map(str, table.dtypes):
        return None  # it exports Python objects to Arrow as memory addresses
    if not hasattr(table, "__arrow_c_stream__") or home == "pandas":
        return None
    try:
        import pyarrow as arrow
    except ImportError:
        return None
    return arrow.RecordBatchReader.from_stream(table)


def _arrow_batches(
    source: Source,
    asked: Mapping[str, str],
    places: Mapping[str, str | int],
    parts: Iterable[tuple[Any, float | None]],
) -> Iterator[Batch]:
    """Arrow batches in slices, each with the fraction read before it, if known."""
    row = 0
    for part, done in parts:
        for start in range(0, part.num_rows, ROWS):
            some = part.slice(start, ROWS)
            columns = {
                role: _of_arrow(source.wording.asked(role, asked[role]), role, some.column(at))
                for role, at in places.items()
            }
            yield Batch(source, asked, columns, numbered_from(row + start), done)
        row += part.num_rows


def _lazy(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """A lazy frame of Polars: only the requested columns, part by part."""
    source.places(source.table.collect_schema().names(), asked)
    wanted = source.table.select(list(dict.fromkeys(asked.values())))
    if hasattr(wanted, "collect_batches"):
        parts = _others(wanted.collect_batches(chunk_size=ROWS))
    else:
        parts = _others(wanted.collect(engine="streaming") for _ in range(1))
    start = 0
    for part in parts:
        for batch in batches(replace(source, table=part), asked):
            yield replace(batch, place=numbered_from(start))
            start += len(batch)


def _names(table: Any) -> list[Any] | None:
    """The names of the columns of a frame or a dict of columns; None for others."""
    if isinstance(table, Mapping):
        return list(table)
    found = getattr(table, "columns", None)
    return None if found is None or not hasattr(table, "__getitem__") else list(found)


def _frame(source: Source, asked: Mapping[str, str], names: list[Any]) -> Iterator[Batch]:
    """A frame of pandas or a dict of columns, in slices."""
    source.places(names, asked)
    found = {role: source.table[name] for role, name in asked.items()}
    lengths = {asked[role]: len(column) for role, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise DataError("the columns differ in length", f"{lengths}")
    for start in range(0, max(1, *lengths.values()), ROWS):
        columns = {
            role: column_of(source.wording.asked(role, asked[role]), role, _slice(column, start))
            for role, column in found.items()
        }
        yield Batch(source, asked, columns, numbered_from(start))


def _slice(column: Any, start: int) -> Any:
    if start == 0 and len(column) <= ROWS:
        return column
    places = slice(start, start + ROWS)
    return column.iloc[places] if hasattr(column, "iloc") else column[places]


def _cursor(source: Source, asked: Mapping[str, str]) -> Iterator[Batch]:
    """A database cursor, or a result of SQLAlchemy, whose query has been executed."""
    cursor = source.table
    about = getattr(cursor, "description", None)
    names = [one[0] for one in about] if about else list(cursor.keys()) if hasattr(cursor, "keys") else []
    if not names:
        raise ValueError("the cursor has no result; execute a query that selects the columns first")
    places = source.places(names, asked)
    start = 0
    for rows in _others(iter(partial(cursor.fetchmany, ROWS >> 3), None)):
        if not rows:
            return
        columns = {role: _of_list(role, [row[at] for row in rows]) for role, at in places.items()}
        yield Batch(source, asked, columns, numbered_from(start))
        start += len(rows)


def _stream(source: Source, asked: Mapping[str, str], of_rows: bool | None = None) -> Iterator[Batch]:
    """Chunks, each of them a table, a list of rows or the path of a file; or rows that are mappings.

    A column that no row of the first ones has is none; what one of them lacks is a bad cell of that row. All
    parts are rows, or none is, as the first one is: a row that is a path, a list or a table of lists could
    name other people.
    """
    start = 0
    rows: list[Mapping[str, Any]] = []

    def gathered() -> Batch:
        if not start:
            there = {name for row in rows for name in asked.values() if name in row}
            source.places(sorted(there), asked)
        columns = {role: _of_list(role, [row.get(name) for row in rows]) for role, name in asked.items()}
        return Batch(source, asked, columns, numbered_from(start))

    for part in source.table:
        row = isinstance(part, Mapping) and _is_row(part, asked)
        of_rows = row if of_rows is None else of_rows
        if of_rows:
            rows.append(part if isinstance(part, Mapping) else {})
            if len(rows) == ROWS:
                yield gathered()
                start, rows = start + len(rows), []
            continue
        if row:
            nothing = dict.fromkeys(asked, Column([None]))
            raise Batch(source, asked, nothing, numbered_from(start)).missing(next(iter(asked)), 0)
        if not _is_chunk(part):
            raise _no_table(source)
        inside = replace(source, table=part)
        for batch in _stream(inside, asked, True) if isinstance(part, list) else batches(inside, asked):
            yield replace(batch, place=numbered_from(start)) if batch.source.path is None else batch
            start += len(batch)
    if rows:
        yield gathered()
    elif not start:
        raise _no_table(source)


def _is_row(part: Mapping[str, Any], asked: Mapping[str, str]) -> bool:
    """Whether a mapping is a row rather than a table, whose cells are columns."""
    cells = [part[name] for name in asked.values() if name in part]
    return not (cells and all(map(_is_column, cells)))


def _is_chunk(part: Any) -> bool:
    if isinstance(part, list):
        return all(isinstance(row, Mapping) for row in part)
    return isinstance(part, str | os.PathLike | Mapping) or any(
        hasattr(part, name)
        for name in ("columns", "column_names", "collect", "__arrow_c_stream__", "fetchmany")
    )


def _is_column(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes | np.generic | Mapping | Set)


# --- columns --------------------------------------------------------------------------------------


def column_of(asked: str, role: str, values: Any) -> Column:
    """A column of a frame: an Arrow array, a list, or anything that NumPy converts to an array."""
    home = type(values).__module__.partition(".")[0]
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return _of_list(role, list(values))
    kind: Any = getattr(values, "dtype", None)
    if home == "pandas" and str(kind).startswith("dictionary<"):  # one of Arrow's
        values = getattr(values, "array", values).__arrow_array__()
    if home == "polars" and str(kind) == "Object":  # exported to Arrow as memory addresses
        return _of_list(role, values.to_list())
    if home == "polars":
        try:
            values = values.to_arrow()
        except ImportError:
            return _of_list(role, values.to_list())
    if type(values).__module__.partition(".")[0] == "pyarrow":
        return _of_arrow(asked, role, values)
    try:
        column = np.asarray(values, kind.subtype if hasattr(kind, "fill_value") else None)  # if it is sparse
    except (TypeError, ValueError, OverflowError):  # its message holds an entry, or the number of rows
        raise TypeError(f"{asked} cannot be read as a column") from None
    if column.ndim != 1:
        raise ValueError(f"{asked} has {column.ndim} dimensions; a column has one")
    if isinstance(values, np.ma.MaskedArray):
        return _of_list(role, list(values.tolist()))  # None where masked
    kinds = getattr(getattr(values, "cat", values), "categories", values)  # or categories
    if column.dtype.kind == "f" and getattr(getattr(kinds, "dtype", None), "kind", "f") in "iu":
        return _of_list(role, list(values))  # missing entries made integers floats, which lose digits
    return _of_array(asked, role, column)


def _of_list(role: str, values: list[Any]) -> Column:
    """A column of Python objects, each read independently of the others."""
    plain = role != "weight" and {str}.issuperset(map(type, values))
    return Text.of(values) if plain else Column(values)


def _of_array(asked: str, role: str, column: NDArray[Any]) -> Column:
    kind = column.dtype.kind
    if role == "weight" and kind in "mMc":
        raise TypeError(f"{asked} must be a column of numbers, got {column.dtype.name}")
    if kind in "iu" or (role == "weight" and kind in "bf"):
        return Column(column)
    if role == "person" and kind == "f":
        # Integers are names; other numbers name nobody.
        nobody = ~((np.abs(column) < first_skipped(column.dtype)) & (column == np.floor(column)))
        return Column(np.where(nobody, 0, column).astype(np.int64), missing=nobody)
    if kind in "mM":
        column = _coarse_times(column)
    if column.dtype.kind in "OUT":
        return _of_list(role, column.tolist())
    found, codes = np.unique(column, return_inverse=True)
    return Column(found.tolist(), codes)


def _of_arrow(asked: str, role: str, values: Any) -> Column:
    """A column of Arrow: text and integers as they are, other types by distinct values."""
    import pyarrow as arrow

    if isinstance(values, arrow.ChunkedArray):
        if arrow.types.is_dictionary(values.type):  # the indices may be too narrow for all
            values = values.cast(values.type.value_type)
        values = arrow.concat_arrays(values.chunks) if values.num_chunks else arrow.array([], values.type)
    kinds, kind = arrow.types, values.type
    coded = kinds.is_dictionary(kind)
    if kinds.is_nested(kind.value_type if coded else kind):
        raise ValueError(f"{asked} holds {kind}; a column of text or numbers is needed")
    if coded and kinds.is_floating(kind.value_type):  # their width determines which of them are names
        values, coded, kind = values.dictionary_decode(), False, kind.value_type
    if kinds.is_floating(kind) or (role == "weight" and (kinds.is_integer(kind) or kinds.is_temporal(kind))):
        return _of_array(asked, role, values.to_numpy(zero_copy_only=False))
    if kinds.is_integer(kind):
        missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return Column(values.fill_null(0).to_numpy(zero_copy_only=False), missing=missing)
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return _of_texts(values.fill_null("") if values.null_count else values)
    try:
        values = values if coded else values.dictionary_encode()
    except arrow.ArrowNotImplementedError:  # types that Arrow cannot dictionary-encode, such as extensions
        return Column(_cells(values))
    codes, found = values.indices.cast(arrow.int64()), _python_values(values.dictionary)
    if codes.null_count:
        codes, found = codes.fill_null(len(found)), [*found, None]
    return Column(found, codes.to_numpy(zero_copy_only=False))


def _of_texts(values: Any) -> Text:
    _, ends, letters = values.buffers()
    wide = str(values.type) == "large_string"
    if not len(values):
        return Text(np.zeros(0, dtype=np.uint8))
    found: Any = np.frombuffer(ends, np.int64 if wide else np.int32)[values.offset :][: len(values) + 1]
    return Text(np.frombuffer(letters or b"", np.uint8), ends=found)


def _python_values(values: Any) -> list[Any]:
    """Distinct Arrow values as Python values; invalid UTF-8 as in files, fine times as text."""
    import pyarrow as arrow

    kind = values.type
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        return list(_of_texts(values.fill_null("")).texts())
    if getattr(kind, "unit", None) != "ns":
        return _cells(values)
    stamp = arrow.types.is_timestamp(kind)
    fine = values.cast(arrow.int64()).fill_null(0).to_numpy().astype("M8[ns]" if stamp else "m8[ns]")
    if stamp:
        coarse = arrow.timestamp("us", kind.tz)
    else:
        coarse = arrow.duration("us") if arrow.types.is_duration(kind) else arrow.time64("us")
    found = values.cast(coarse, safe=False).to_pylist()
    for place in np.flatnonzero(fine.astype(f"{fine.dtype.kind}8[us]") != fine).tolist():
        found[place] = str(fine[place])
    return list(found)


def _cells(values: Any) -> list[Any]:
    """Arrow values as Python values; None where Python has no equivalent, such as a date after 9999."""
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError):
        half = len(values) // 2
        return [*_cells(values[:half]), *_cells(values[half:])] if half else [None]


def _coarse_times(column: NDArray[Any]) -> NDArray[Any]:
    """Times in units that Python supports; finer ones become text, each independently."""
    if np.datetime_data(column.dtype)[0] not in FINE_TIMES:
        return column
    coarse = column.astype(f"{column.dtype.kind}8[us]")
    exact = (coarse == column) | np.isnat(column)
    if exact.all():
        return coarse
    mixed = coarse.astype(object)
    mixed[~exact] = column[~exact].astype(str)
    return mixed
