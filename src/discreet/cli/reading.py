"""Files of events that commands read, and how refusals name what was asked for."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .output import same_file

if TYPE_CHECKING:
    from ..data.source import Source

KINDS = (
    "CSV or other text in columns, plain or packed (.gz, .zst, .bz2, .xz), Parquet or Feather; a pattern in"
    " quotes and a folder stand for the files in them"
)


_RENAMED = "; if it is called otherwise there, say so with --items-item"
ITEMS = (
    "a file with the --item column (a single column may be called anything, and its first line is its name,"
    " unless --items-columns gives one)"
)


def add_arguments(group: argparse._ArgumentGroup, *, events: bool = True) -> None:
    """How text is divided into columns; ``events``: there is more than a list of items."""
    group.add_argument(
        "--separator",
        metavar="CHAR",
        help="between columns of text; tab for a tab (default: whichever of comma, tab, semicolon and bar"
        " makes the header name the columns that are asked for; with --columns, a tab in .tsv and .tab files"
        " and a comma in others)",
    )
    if events:
        group.add_argument(
            "--items-item",
            metavar="COL",
            help="the --item column of --items, if it is called otherwise there",
        )
        group.add_argument(
            "--columns",
            metavar="NAMES",
            help="for text without a header: names of its columns, separated by commas",
        )
    group.add_argument(
        "--items-columns",
        metavar="NAMES",
        help="for --items without a header: names of its columns, separated by commas",
    )


def source_of(options: argparse.Namespace, table: Any, *, public: bool = False) -> Source:
    """A file, several of them, or standard input (-); ``public``: a list of items, not people's data."""
    from ..data.source import Source, Wording

    names = "--items-columns" if public else "--columns"
    wording = Wording(
        argument=_argument(options, public),
        items="--items",
        columns=names,
        drop_items="",
        separator="; if its columns are separated by {mark}, say --separator {mark}",
        headless=f"; if its first line is a row and no header, name its columns with {names}",
        renamed=_RENAMED if public and getattr(options, "items_item", "") is None else "",
        leave_out="; mend the row, or leave such rows out with --skip-bad",
        details=" (--insecure-diagnostics names {what})",
        others=_asking(options) if public else {},
    )
    skip_bad = not public and options.skip_bad
    columns = _names(names, options.items_columns if public else options.columns)
    separator = _separator(options.separator)
    return Source(table, separator, skip_bad, public, stdin=table == "-", wording=wording, columns=columns)


def _argument(options: argparse.Namespace, public: bool) -> str:
    """How a column was asked for."""
    if public and options.item is None:
        return "--{role} ({column} unless you say which column)"
    return "--{role} {column}"


def _asking(options: argparse.Namespace) -> dict[str, str]:
    """Which option asks for a column about items, where that is no constraint; "" is their names."""
    vectors = (getattr(options, "vectors", None) or "").split(",")
    asked = {name.strip(): "vectors" for name in vectors if name.strip()}
    itself = {} if getattr(options, "items_item", None) is None else {"": "items-item"}
    return asked | dict.fromkeys(getattr(options, "show", ()), "show") | itself


def as_settings(options: argparse.Namespace) -> dict[str, Any]:
    """How text is divided into columns, where that is said, as a simulation writes it down."""
    found: dict[str, Any] = {}
    if options.separator is not None:
        found["separator"] = _separator(options.separator)
    if options.columns is not None:
        found["columns"] = _names("--columns", options.columns)
    if options.items_columns is not None:
        found["items_columns"] = _names("--items-columns", options.items_columns)
    return found


def items_option(options: argparse.Namespace) -> str | None:
    """--items, or None; some options are for it alone."""
    if options.items is not None:
        return str(options.items)
    for name in ("items_columns", "items_item"):
        if getattr(options, name, None) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is about --items FILE, which is missing")
    return None


def listed_column(options: argparse.Namespace) -> str:
    """The column of --items that names them."""
    return str(options.item if options.items_item is None else options.items_item)


def check_public(items: str | None, files: Sequence[str], whose: str) -> None:
    """Refuse a list of items that is one of the files of events."""
    from ..data.formats import files_of
    from ..data.source import Source

    if items is None:
        return
    named = [one for file in files if file != "-" for one in files_of(Source(file))]
    if any(same_file(items, one) for one in named):
        raise ValueError(
            f"--items {items}: is {whose}, so that which items are listed is private; give a list"
            " that is public, or --items-from-data"
        )


def _separator(text: str | None) -> str | None:
    separator = "\t" if text in ("tab", "\\t") else text
    if separator is not None and len(separator) != 1:
        raise ValueError(f"--separator {text}: must be one character, or the word tab")
    return separator


def _names(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in next(csv.reader([text]), []))
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if not any(names) or twice is not None:
        why = "is empty" if twice is None else f"names {twice!r} twice"
        raise ValueError(f"{option} {text}: {why}; give a name for each column, separated by commas")
    return names
