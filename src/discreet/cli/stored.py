"""``discreet select`` on a store of people: the same choice, with passes over the store instead of a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.extras import install
from .limits import Given, Limits
from .objective import Objective
from .reading import listed_column, source_of

if TYPE_CHECKING:
    from ..data import Store
    from ..objectives.stored.people import StoredPopulation
    from ..offline import PrivateGreedy
    from ..privacy import Gate

MANIFEST = "manifest.json"
# What was decided when the store was made, or is about files.
_OF_FILES = ("person", "weight", "cap", "items_private", "items_from_data", "skip_bad")


@dataclass(frozen=True)
class Listed:
    """The items of a store, as constraints and options about items see them."""

    items: tuple[Any, ...]
    catalogue: str
    facts: dict[str, list[str]] = field(default_factory=dict)


def is_store(path: str) -> bool:
    """Whether a path is the folder of a store."""
    return path != "-" and (Path(path) / MANIFEST).is_file()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Who goes through a store."""
    group = parser.add_argument_group("a store in place of FILE")
    group.add_argument(
        "--engine",
        choices=("threads", "dask"),
        help="who goes through the store: all processors of this machine (threads, the default), or the"
        " workers of a Dask cluster, which must see the store under the same path",
    )
    group.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, e.g. tcp://10.0.0.1:8786")


def check(options: argparse.Namespace, *, stored: bool) -> None:
    """Refuse options that do not go together, before anything is read."""
    if not stored:
        missing = [f"--{name}" for name in ("person", "item") if getattr(options, name) is None]
        if missing:
            raise ValueError(f"the following arguments are required: {', '.join(missing)}")
        for name in ("engine", "scheduler"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} is for a store, and FILE is none; make one with discreet prepare")
        return
    for name in _OF_FILES:
        if getattr(options, name):
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option} is for files; in a store that was settled when it was prepared")
    about = (options.items is not None) + (options.item is not None)
    if (options.constraint or options.show) and about < 2:
        option = "--constraint" if options.constraint else "--show"
        raise ValueError(
            f"{option} is about columns of a list of items, and a store keeps their names alone; give"
            " --items FILE with that column, and --item COL, the column of the names"
        )
    if about and not options.constraint and not options.show:
        raise ValueError("--items and --item are for --constraint and --show; a store has its list of items")
    if (options.engine == "dask") != (options.scheduler is not None):
        raise ValueError("--engine dask and --scheduler ADDRESS go together")


def opened(options: argparse.Namespace) -> Store:
    """The store; options that the report reads say what it holds."""
    from ..data import Store

    store = Store.open(options.file)
    options.item, options.person = options.item or "item", "the person's column"
    options.items_from_data = store.catalogue == "from data"
    return store


@contextmanager
def people_of(
    options: argparse.Namespace, store: Store, goal: Objective, rank: int
) -> Iterator[StoredPopulation]:
    """The people, while whoever goes through the store is at hand."""
    family, more = goal.family(rank, weighted=store.weighted)
    if options.engine != "dask":
        yield family.from_store(store, **more)
        return
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(f"--engine dask needs Dask: {install('dask')}") from None
    try:
        client: Any = Client(options.scheduler, timeout=10)
    except (OSError, TimeoutError, ValueError):
        raise ValueError(f"--scheduler {options.scheduler}: there is no Dask scheduler") from None
    try:
        yield family.from_store(store, client, **more)
    finally:
        client.close()


def chooser(
    options: argparse.Namespace, listed: Listed, limits: Limits, given: Given, gate: Gate, bound: float
) -> PrivateGreedy:
    """Who chooses."""
    from ..offline import PrivateGreedy

    return PrivateGreedy(
        limits.constraint(listed),
        gate,
        options.method,
        bound=bound,
        release_gains=options.release_gains,
        max_people=options.max_people,
        include=given.included(listed),
        exclude=given.excluded(listed),
    )


def listed(options: argparse.Namespace, store: Store, columns: Sequence[str]) -> Listed:
    """The items of the store, with what a public list says about each of them."""
    from ..core.checks import DataError
    from ..data.facts import read_items
    from ..data.labels import as_text

    if not columns:
        return Listed(store.labels, store.catalogue)
    names, facts = read_items(
        source_of(options, options.items, public=True), listed_column(options), list(dict.fromkeys(columns))
    )
    place = {as_text(name): at for at, name in enumerate(names)}
    missing = next((name for name in map(as_text, store.labels) if name not in place), None)
    if missing is not None:
        words = "--items does not list every item of the store; add what is missing"
        if store.catalogue == "from data":
            raise DataError(words, f"it lacks {missing!r}")
        raise ValueError(f"{words}: {missing!r}")
    order = [place[as_text(label)] for label in store.labels]
    said = {column: [values[at] for at in order] for column, values in facts.items()}
    return Listed(store.labels, store.catalogue, said)
