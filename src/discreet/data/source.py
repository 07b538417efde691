"""Sources of events: a frame, a file or a stream of rows, as batches of columns with one kind of refusal.

A batch holds the columns that were asked for, each under its role: ``person``, ``item``, ``weight``, and
``constraint:COLUMN`` for what a constraint is about.
"""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError, shown

COMPRESSED = ("", ".gz", ".zst", ".bz2", ".xz")
_NUMBERED = re.compile(r"#([1-9]\d{0,6})")


def constraint_role(column: str) -> str:
    """The role of a column that a constraint is about."""
    return f"constraint:{column}"


@dataclass(frozen=True)
class Wording:
    """How refusals name what was asked for and how to go on; by itself, as arguments in Python."""

    argument: str = "{role}={shown}"
    items: str = "items="
    columns: str = "columns="
    drop_items: str = '; add it, or unknown_items="drop"'
    separator: str = "; if its columns are separated by {mark}, read it into a frame first"
    headless: str = "; if its first line is a row and no header, read it into a frame first"
    renamed: str = ""
    leave_out: str = ""
    details: str = ""
    others: Mapping[str, str] = field(default_factory=dict)  # the argument behind a column about items

    def asked(self, role: str, column: str) -> str:
        """The argument that asked for a column."""
        kind, _, about = role.partition(":")
        return self.argument.format(role=self.others.get(about, kind), column=column, shown=shown(column))


@dataclass(frozen=True)
class Column:
    """One entry per row: those in ``values``, or, with ``codes``, which of them each row holds.

    ``missing``: rows without an entry, where ``values`` are numbers and something stands there all the same.
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
        """The kept rows; values that none of them holds are left out, and others in the order of rows."""
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

    What is no UTF-8 is read as lone surrogates: a cell that is bad by itself.
    """

    values: NDArray[np.uint8]
    ends: NDArray[np.signedinteger[Any]] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    @classmethod
    def of(cls, texts: Sequence[str]) -> Column:
        """Python's texts; as they are where one of them cannot be written in UTF-8."""
        try:
            cells = [text.encode("utf-8", "surrogateescape") for text in texts]
        except UnicodeEncodeError:
            return Column(texts)
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
        """All rows as Python's texts."""
        letters, ends = self.values.tobytes(), self.ends.tolist()
        return [letters[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(ends)]


@dataclass(frozen=True)
class Source:
    """A table of events, or a file or a stream of them, and what to do about rows that are bad.

    ``table``: a data frame, an Arrow table, a dict of columns, rows that are mappings, or the path of a file;
    with ``stdin`` it is standard input. A path may be a pattern or a folder, and there may be a list of
    paths. ``separator``: between the columns of text; None: found out from the names of columns.
    ``columns``: names of the columns of text without a header. ``skip_bad``: rows that cannot be read are
    left out instead of refused. ``public``: it says nothing about people, and refusals may name its rows.
    """

    table: Any
    separator: str | None = None
    skip_bad: bool = False
    public: bool = False
    stdin: bool = False
    wording: Wording = Wording()
    columns: tuple[str, ...] | None = None

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
        """What to call it in messages."""
        if self.path is None:
            return "the table"
        return "standard input" if self.stdin else Path(self.path).name or self.path

    @property
    def usual_separator(self) -> str:
        """What stands between columns by the name of the file."""
        name = str(self.path).lower()
        for ending in COMPRESSED[1:]:
            name = name.removesuffix(ending)
        return "\t" if name.endswith((".tsv", ".tab")) else ","

    def refused(self, message: str, where: str, details: str = "", *, skippable: bool = True) -> ValueError:
        """A refusal of what stands in a row; of people's data, which row and what is there are details.

        ``skippable``: with ``skip_bad`` the row would have been left out.
        """
        if self.public:
            return ValueError(f"{self.name}, {where}: {details or message}")
        named = message if self.path is None else f"{self.name}: {message}"
        leave_out = self.wording.leave_out if skippable else ""
        more = self.wording.details.format(what="the row")
        return DataError(f"{named}{leave_out}{more}", f"{where}: {details}" if details else where)

    def uneven(self, width: int, where: str, cells: str = "") -> ValueError:
        """A refusal of a row that has more or fewer cells than the ``width`` columns.

        Without a header the name of the file decides on the separator: the likeliest other one is named,
        whatever stands in the row.
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
        """Which column of the header each role asks for.

        ``only``: the role that a single column answers, whatever it is called. ``public``: the header is no
        row that somebody may have written. ``separator``: what the cells of a header in text were separated
        by. There, #2 is the second column, and blanks around a name do not count.

        Of a header that may be a row, no cell is named, unless another column that was asked for is in it:
        then names close to the one that is missing are.
        """
        if only in asked and len(header) == 1 and len(asked) == 1:
            if separator and self.columns is None and not _nearly(asked[str(only)], header):
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
                places = _nearly(column, header)
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
        near = _near(str(column), names)
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        if public:
            if self.public and separator and self.columns is None and not (header_found or hint or near):
                hint = self.wording.headless
            renamed = self.wording.renamed if role == "item" else ""
            return ValueError(f"{message}, which has {listed}{meant}{renamed}{hint}")
        # In a file without a header these are somebody's cells.
        more = self.wording.details.format(what="its columns")
        if header_found:
            return DataError(f"{message}{hint}{meant}{more}", f"it has {listed}")
        if separator and not hint:
            hint = self.wording.headless
        return DataError(f"{message}{hint}{more}", f"it has {listed}{meant}")


@dataclass(frozen=True)
class Batch:
    """Some rows: the columns by role, and where in the source a row stands.

    ``done`` is the part of a file that has been read, if its length is known.
    """

    source: Source
    asked: Mapping[str, str]
    columns: Mapping[str, Column]
    place: Callable[[int], str]
    done: float | None = None

    def __len__(self) -> int:
        return min(map(len, self.columns.values()))

    def refused(self, row: int, message: str, details: str = "", *, skippable: bool = True) -> ValueError:
        """A refusal of a row."""
        return self.source.refused(message, self.place(row), details, skippable=skippable)

    def missing(self, role: str, row: int) -> ValueError:
        """A refusal of a row without this cell."""
        column, what = self.asked[role], role.partition(":")[0]
        words = f"an entry of column {column!r} is missing, or is neither text (in UTF-8) nor a number"
        return self.refused(row, f"{words}; every event needs its {what}")


def _near(column: str, names: Sequence[str]) -> list[str]:
    """Names that may have been meant: spelled nearly so, or with more words or fewer."""
    by_letters = {name.casefold(): name for name in names if name}
    asked = column.casefold().strip()
    close = difflib.get_close_matches(asked, list(by_letters), n=3)
    parts = [
        name
        for name in by_letters
        if len(min(asked, name, key=len)) > 2
        and (asked in name or name in asked or difflib.get_close_matches(asked, name.split(), n=1))
    ]
    return [by_letters[name] for name in dict.fromkeys([*close, *parts])][:3]


def _nearly(column: str, header: Sequence[str]) -> list[int]:
    """The places of a name in a header of text but for blanks around it, or of a number in place of one."""
    number = _NUMBERED.fullmatch(column)
    if number is not None:
        return [at for at in [int(number[1]) - 1] if at < len(header)]
    return [at for at, name in enumerate(header) if name.strip() == column.strip()]
