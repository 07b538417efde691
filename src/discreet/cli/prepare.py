"""``discreet prepare``: files of events to a store on disk, for tables that are larger than memory."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .common import (
    EVENTS,
    PRIVATE_EVENTS,
    add,
    add_files,
    as_json,
    check_public,
    events_of,
    given,
    read_items,
    skipping,
    wrapped,
)

if TYPE_CHECKING:
    from ..data.read import Source

NAME = "prepare"
HELP = "write files of events to a store on disk, or append to one"

_EXAMPLES = """examples:
  discreet prepare logs/*.parquet --person user --item page --items pages.csv --to people/
  discreet prepare monday.csv --person user --item page --append --to people/
  discreet verify people/

A pattern in quotes and a folder stand for the files in them. The store is there when it is finished, and not
before; an append takes place as a whole or not at all, and the same rows twice are there once. Whether 7 is a
number or text, it is one person; ids that may or may not be the same are refused. The store is as private as
the files: nothing is released here.
Exit codes: 0 done, 2 a mistake in the options or a file, 130 interrupted."""

_PICKS = 50  # for which costs are estimated


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files, their columns, the catalogue and the store."""
    parser.epilog = _EXAMPLES
    add_files(parser)
    parser.add_argument("--to", required=True, metavar="STORE", help="the folder of the store")
    parser.add_argument("--append", action="store_true", help="add the rows to a store that is there")
    data = parser.add_argument_group("the files")
    add(data, "--person", "--item", required=True)
    add(data, *EVENTS[2:], *PRIVATE_EVENTS, "--weight", "--insecure-diagnostics")
    data.add_argument("--highest", type=float, metavar="W", help="a public bound of the weights, e.g. 1")
    add(data, "--cap", help="keep at most M items of each person, drawn by a keyed hash")
    store = parser.add_argument_group("the store")
    store.add_argument(
        "--buckets", type=int, metavar="P", help="parts of the store (default: one for a million rows)"
    )
    store.add_argument(
        "--key",
        metavar="FILE",
        help="the secret of the hash of people, as hexadecimal digits, to be kept elsewhere (default: a fresh"
        " one in the store, for its owner only)",
    )
    store.add_argument(
        "--memory", type=int, default=64, metavar="MB", help="of rows that are held at a time (default 64)"
    )
    store.add_argument(
        "--estimate",
        action="store_true",
        help="say what it would take, by a model of docs/scale.md, and make nothing",
    )


def run(options: argparse.Namespace) -> int:
    from ..core import checks
    from ..data import append, prepare
    from ..data.preparing import read_key

    _check(options)
    key = None if options.key is None else read_key(Path(options.key))
    asked: dict[str, Any] = {
        "person": options.person,
        "item": options.item,
        "weight": options.weight,
        "to": options.to,
        "key": key,
        "memory": checks.whole("--memory", options.memory, at_least=1) << 20,
    }
    source = events_of(options)
    if options.estimate:
        print(_estimated(options, source))
        return 0
    if options.append:
        store = append(source, **asked)
    else:
        highest = math.inf if options.highest is None else options.highest
        store = prepare(
            source, items=_items(options), cap=options.cap, buckets=options.buckets, highest=highest, **asked
        )
    # Neither the number of buckets, which may depend on that of rows, nor a digest of their content.
    rule = skipping(options, store.highest)
    said = {"store": options.to, "n_items": store.n_items, "catalogue": store.catalogue}
    said |= {"left_out": " ".join(rule)} if rule else {}
    text = f"{options.to}: people over {store.n_items:,} items"
    if store.catalogue == "from data":
        text += "; CONDITIONAL on the list of items, which was taken from data"
    text = "\n".join([text, *map(wrapped, rule)])
    print(as_json(said) if options.json else text)
    return 0


def _estimated(options: argparse.Namespace, source: Source) -> str:
    """Estimated time and space from file sizes, as if every row were a person's only one, of its own item."""
    from ..data.costs import Sizes, costs, sized
    from ..data.read import row_count

    rows = row_count(source)
    if rows is None:
        raise ValueError("--estimate goes by the sizes of files, and standard input has none; name files")
    listed = _items(options)
    sizes = Sizes(rows, rows, rows, rows if listed is None else len(listed), options.weight is not None)
    cores = os.cpu_count() or 1
    found = costs(sizes, _PICKS, cores, memory=options.memory << 20)
    said = {
        "disk_bytes": found.disk,
        "memory_bytes": found.memory,
        "prepare_seconds": found.prepare,
        "select_seconds": found.select,
        "picks": _PICKS,
        "cores": cores,
    }
    text = (
        f"at most {sized(found.disk)} for the store, about {sized(found.memory)} of memory; about"
        f" {found.prepare:.2g} s to make it and at most {found.select:.2g} s for {_PICKS} picks from it, on"
        f" {cores} cores like those of docs/scale.md"
    )
    return as_json(said) if options.json else text


def _check(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other."""
    if options.append:
        settled = given(options, ("items", "items_from_data", "cap", "buckets", "highest"))
        if settled:
            raise ValueError(f"--append keeps what the store was made with; leave out {', '.join(settled)}")
        return
    if (options.items is not None) == options.items_from_data:
        raise ValueError(
            "which items are there to choose from? Which ones occur in the files is private. Give --items"
            " FILE, a public list; or --items-from-data, whose results are conditional on the list of items"
        )
    check_public(options, "one of the files of events")


def _items(options: argparse.Namespace) -> list[Any] | None:
    return None if options.items is None else read_items(options)[0]
