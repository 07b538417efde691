"""Kinds of files, told apart by their first bytes: text, plain or packed, and tables of Arrow's."""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import io
import lzma
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..core.extras import install

if TYPE_CHECKING:
    from .source import Source

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
