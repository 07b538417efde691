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
from ..formats import START, is_plain
from ..frames import numbered_from
from ..source import Batch, Column, Source

_BLOCK = 8 << 20


def plain_csv(source: Source) -> bool:
    """Whether a file is such text: not compressed, nothing else, and without a quote."""
    path = str(source.path)
    mark = source.separator or ","
    if not os.path.isfile(path) or not os.path.getsize(path) or len(mark.encode()) != 1:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        if not is_plain(text[:START]):
            return False
        if source.columns is not None:
            return text.find(b'"') < 0
        first = text.find(b"\n", 0, 1 << 20)
        whole = text[: first + 1].count(b'"') % 2 == 0  # the first line may quote the names of columns
        return first >= 0 and whole and text.find(b'"', first) < 0


def read_plain_csv(
    source: Source, asked: Mapping[str, str], column: Callable[[str, str, Any], Column]
) -> Iterator[Batch]:
    """The columns that were asked for, all of them as text; ``column`` makes columns of arrays."""
    import pyarrow as arrow
    from pyarrow import csv

    mark = source.separator or ","
    if source.columns is None:
        with open(str(source.path), "rb") as file:
            first = file.readline().decode("utf-8-sig", "replace")
        header = next(rows.reader([first], delimiter=mark, strict=True))
    else:
        header = list(source.columns)
    width = len(header)
    places = source.places(header, asked, separator=mark)
    # By their places: other columns may share a name.
    names = {role: str(at) for role, at in places.items()}
    skipped = (lambda _: "skip") if source.skip_bad else None
    row, size = 0, os.path.getsize(str(source.path))
    try:
        reader = csv.open_csv(
            str(source.path),
            csv.ReadOptions(
                block_size=_BLOCK,
                skip_rows=1 if source.columns is None else 0,
                column_names=list(map(str, range(width))),
            ),
            csv.ParseOptions(delimiter=mark, quote_char=False, invalid_row_handler=skipped),
            csv.ConvertOptions(
                include_columns=list(dict.fromkeys(names.values())),
                column_types=dict.fromkeys(names.values(), arrow.string()),
                strings_can_be_null=False,
            ),
        )
        for part in reader:
            columns = {
                role: column(source.wording.asked(role, asked[role]), role, part.column(name))
                for role, name in names.items()
            }
            yield Batch(source, asked, columns, numbered_from(row), True, min(1.0, row * 16 / size))
            row += part.num_rows
    except arrow.ArrowInvalid as error:  # whose words hold the row
        if "UTF8" in str(error) or "UTF-8" in str(error):
            words = f"{source.name} is not UTF-8 text; it must be CSV, plain or packed, Parquet or Feather"
            raise DataError(words) from None
        raise source.uneven(width, f"after row {row}") from None
