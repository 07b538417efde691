"""Options that several commands share: files of events, lists of items, budgets; how refusals name them."""

from __future__ import annotations

import argparse
import csv
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .output import same_file

if TYPE_CHECKING:
    from ..data.source import Source
    from ..privacy import Budget

KINDS = (
    "CSV or other text in columns, plain or compressed (.gz, .zst, .bz2, .xz), Parquet or Feather; a pattern"
    " in quotes and a folder stand for the files in them"
)
ITEMS = (
    "a file with the --item column (a single column may be called anything, and its first line is its name,"
    " unless --items-columns gives one)"
)
FEEDBACK = (
    "what is learned after a round: full (the person's whole taste, default), bandit (the value of the shown"
    " set, such as 1 for a click) or slots (which of the shown items was clicked)"
)
_LARGE_EPSILON = 10.0


def add_events(group: argparse._ArgumentGroup, *, required: bool = False) -> None:
    """Columns of files of events, and the public list of items."""
    group.add_argument("--person", required=required, metavar="COL", help="column that says whose row it is")
    group.add_argument(
        "--item", required=required, metavar="COL", help="column of what they like, bought or opened"
    )
    group.add_argument("--items", metavar="FILE", help=f"the public list of items: {ITEMS}")
    group.add_argument(
        "--items-item", metavar="COL", help="the --item column of --items, if it is called otherwise there"
    )
    group.add_argument(
        "--columns",
        metavar="NAMES",
        help="for text without a header: names of its columns, separated by commas",
    )
    add_text(group)


def add_text(group: argparse._ArgumentGroup) -> None:
    """How text is divided into columns."""
    group.add_argument(
        "--separator",
        metavar="CHAR",
        help="between columns of text; tab for a tab (default: whichever of comma, tab, semicolon and bar"
        " makes the header name the columns that are asked for; with --columns, a tab in .tsv and .tab files"
        " and a comma in others)",
    )
    group.add_argument(
        "--items-columns",
        metavar="NAMES",
        help="for --items without a header: names of its columns, separated by commas",
    )


def add_private_events(group: argparse._ArgumentGroup) -> None:
    """What is done about items that are not listed and rows that cannot be read."""
    group.add_argument(
        "--items-from-data",
        action="store_true",
        help="instead of --items: all items that occur. NOT PRIVATE BY ITSELF: an item that only one person"
        " has is among them, and what is chosen is marked as conditional on the list",
    )
    group.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out rows with an empty cell, a bad weight or an item that --items does not list, instead"
        " of refusing the file",
    )


def add_budget(group: argparse._ArgumentGroup, about_epsilon: str) -> None:
    """Epsilon, delta, and what is protected."""
    group.add_argument("--epsilon", type=float, required=True, help=about_epsilon)
    group.add_argument("--delta", type=float, default=0.0, help="probability outside of that (default 0)")
    group.add_argument(
        "--neighbours",
        choices=("replace", "add_remove"),
        default="replace",
        help="what is protected: a person's rows for anybody else's (replace, the number of people is public;"
        " default), or their presence as well (add_remove)",
    )


def warn_of_budget(budget: Budget, count: int, max_people: int | None) -> None:
    """Warn of an epsilon that promises little, and of a delta that leaves room for somebody's data as it is.

    ``max_people`` as it was declared. The number of people is public unless their presence is private; then
    a bound that was declared takes its place.
    """
    if _LARGE_EPSILON < budget.epsilon < math.inf:
        warnings.warn(
            f"epsilon {budget.epsilon:g} promises little: one person's data may make a result"
            f" e^{budget.epsilon:g} times as likely. Around 1 is usual",
            stacklevel=2,
        )
    replaced = budget.neighbours == "replace"
    known = count if replaced else max_people
    if not known or budget.delta * known < 1.0:
        return
    small = 10.0 ** -(len(str(known)) + 2)
    warnings.warn(
        f"delta {budget.delta:g} is large for {'' if replaced else 'up to '}{known:,} people: to publish"
        " everything about one of them, drawn at random, would keep to it. Choose one far below"
        f" 1/{known:,}, e.g. {small:.0e}",
        stacklevel=2,
    )


def source_of(options: argparse.Namespace, table: Any, *, public: bool = False) -> Source:
    """A file, several of them, or standard input (-); ``public``: a list of items, not people's data."""
    from ..data.source import Source, Wording

    names = "--items-columns" if public else "--columns"
    renamed = public and getattr(options, "items_item", "") is None
    wording = Wording(
        argument="--{role} ({column} unless you say which column)"
        if public and options.item is None
        else "--{role} {column}",
        items="--items",
        columns=names,
        drop_items="",
        separator="; if its columns are separated by {mark}, say --separator {mark}",
        headless=f"; if its first line is a row and no header, name its columns with {names}",
        renamed="; if it is called otherwise there, say so with --items-item" if renamed else "",
        leave_out="; fix the row, or leave such rows out with --skip-bad",
        details=" (--insecure-diagnostics names {what})",
        others=_asking(options) if public else {},
    )
    skip_bad = not public and options.skip_bad
    columns = _names(names, options.items_columns if public else options.columns)
    separator = _separator(options.separator)
    return Source(table, separator, skip_bad, public, stdin=table == "-", wording=wording, columns=columns)


def events_of(options: argparse.Namespace) -> Source:
    """The files that a command is given, one or several, or standard input alone."""
    if "-" in options.files and len(options.files) > 1:
        raise ValueError("standard input (-) stands alone; name files, or pipe them in")
    return source_of(options, options.files[0] if len(options.files) == 1 else list(options.files))


def _asking(options: argparse.Namespace) -> dict[str, str]:
    """Which option asks for a column about items, where that is no constraint; "" is their names."""
    vectors = (getattr(options, "vectors", None) or "").split(",")
    asked = {name.strip(): "vectors" for name in vectors if name.strip()}
    itself = {} if getattr(options, "items_item", None) is None else {"": "items-item"}
    return asked | dict.fromkeys(getattr(options, "show", ()), "show") | itself


def read_items(
    options: argparse.Namespace, columns: Sequence[str] = ()
) -> tuple[list[Any], dict[str, list[str]]]:
    """The items of --items, and what these columns say about each of them."""
    from ..data.events import read_items

    column = getattr(options, "items_item", None) or options.item or "item"
    return read_items(source_of(options, options.items, public=True), column, list(dict.fromkeys(columns)))


def as_settings(options: argparse.Namespace) -> dict[str, Any]:
    """How text is divided into columns, where that is said, as a simulation writes it down."""
    found = {
        "separator": _separator(options.separator),
        "columns": _names("--columns", options.columns),
        "items_columns": _names("--items-columns", options.items_columns),
    }
    return {name: value for name, value in found.items() if value is not None}


def check_items_option(options: argparse.Namespace) -> None:
    """Some options are for --items alone."""
    for name in ("items_columns", "items_item"):
        if options.items is None and getattr(options, name, None) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is about --items FILE, which is missing")


def check_public(options: argparse.Namespace, whose: str) -> None:
    """Refuse a list of items that is one of the files of events."""
    from ..data.files import files_of
    from ..data.source import Source

    if options.items is None:
        return
    named = [one for file in options.files if file != "-" for one in files_of(Source(file))]
    if any(same_file(options.items, one) for one in named):
        raise ValueError(
            f"--items {options.items}: is {whose}, so that which items are listed is private; give a list"
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
