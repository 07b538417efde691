"""CSV without quotes, many rows at a time.

A quote that one row leaves open could swallow the rows of other people, and readers differ in what they make
of it. So a file with any quote in it is read by the strict reader of `discreet.data.files`; a file without
one can be read in one way only, and Arrow does it several times as fast.
"""

from __future__ import annotations

import csv as rows
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...core.checks import DataError
from ..frames import numbered_from
from ..source import Batch, Column, Source

_BLOCK = 8 << 20


def plain_csv(source: Source) -> bool:
    """Whether a file is such text: not compressed, nothing else, and without a quote."""
    path = str(source.path)
    if not os.path.isfile(path) or not os.path.getsize(path) or len(source.separator.encode()) != 1:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        start = text[:4]
        binary = start[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff") or start in (b"PK\x03\x04", b"SQLi")
        first = text.find(b"\n", 0, 1 << 20)
        whole = text[: first + 1].count(b'"') % 2 == 0  # the first line may quote the names of columns
        return not binary and first >= 0 and whole and text.find(b'"', first) < 0


def read_plain_csv(
    source: Source, asked: Mapping[str, str], column: Callable[[str, str, Any], Column]
) -> Iterator[Batch]:
    """The columns that were asked for, all of them as text; ``column`` makes columns of arrays."""
    import pyarrow as arrow
    from pyarrow import csv

    with open(str(source.path), "rb") as file:
        first = file.readline().decode("utf-8-sig", "replace")
    header = next(rows.reader([first], delimiter=source.separator, strict=True))
    width = len(header)
    source.places(header, asked)
    names = list(dict.fromkeys(asked.values()))
    skipped = (lambda _: "skip") if source.skip_bad else None
    row, size = 0, os.path.getsize(str(source.path))
    try:
        reader = csv.open_csv(
            str(source.path),
            csv.ReadOptions(block_size=_BLOCK, skip_rows=1, column_names=header),
            csv.ParseOptions(delimiter=source.separator, quote_char=False, invalid_row_handler=skipped),
            csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, arrow.string()),
                strings_can_be_null=False,
            ),
        )
        for part in reader:
            columns = {
                role: column(source.wording.asked(role, name), role, part.column(name))
                for role, name in asked.items()
            }
            yield Batch(source, asked, columns, numbered_from(row), True, min(1.0, row * 16 / size))
            row += part.num_rows
    except arrow.ArrowInvalid as error:  # whose words hold the row
        if "UTF8" in str(error) or "UTF-8" in str(error):
            words = f"{source.name} is not UTF-8 text; it must be CSV, gzipped CSV or Parquet"
            raise DataError(words) from None
        raise source.refused(
            f"a row has another number of cells than the header, which has {width}", f"after row {row}"
        ) from None
