"""``discreet verify``: check that a store is unchanged since it was written."""

from __future__ import annotations

import argparse

from .common import as_json

NAME = "verify"
HELP = "check every file and every row of a store"

_EXAMPLES = """examples:
  discreet verify people/
  discreet verify people/ --quick

Everybody must be in the bucket of their key, once, with items of the catalogue in order; every file must have
the SHA-256 that the manifest says. Exit codes: 0 nothing is wrong, 2 something is, in one line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("store", metavar="STORE", help="the folder of the store")
    parser.add_argument(
        "--quick", action="store_true", help="check the rows without the SHA-256 of the files"
    )


def run(options: argparse.Namespace) -> int:
    from ..data import Store

    store = Store.open(options.store)
    store.verify(deep=not options.quick)
    said = {"store": options.store, "wrong": []}
    print(as_json(said) if options.json else f"{options.store}: nothing is wrong")
    return 0
