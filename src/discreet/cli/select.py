"""``discreet select``: a few items for everybody in a file of (person, item) rows, privately."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from . import ledger, objective, reading, selection_report, stored
from .limits import Given, Limits
from .objective import Objective
from .output import as_json, check_writable, notes_of, tell, write_whole
from .reading import ITEMS, KINDS, source_of

if TYPE_CHECKING:
    from ..data import Events
    from ..data.source import Batch
    from ..objectives import Population
    from ..offline import PrivateGreedy
    from ..privacy import Gate
    from ..results import Selection

NAME = "select"
HELP = "choose a few items for the people of a file, with a guarantee for each of them"

_EXAMPLES = """examples:
  discreet select visits.csv --person user --item page --items pages.csv --k 5 --epsilon 1
  discreet select visits.csv --person user --item page --items-private 0.5 --k 5 --epsilon 1 --delta 1e-6
  discreet select sales.parquet --person customer --item product --items catalogue.csv \\
      --constraint knapsack:price:100 --epsilon 1 --delta 1e-6 --out chosen.json
  discreet select sales.csv --person customer --item product --items catalogue.csv --k 5 --epsilon 1 \\
      --include "house blend" --exclude @sold_out.txt
  discreet select 'visits/*.tsv' --person user --item page --items pages.csv --show title --k 5 --epsilon 1
  discreet select books.csv --person reader --item isbn --items titles.parquet --objective several --k 9 \\
      --epsilon 1 --explain
  discreet select visits.csv --person user --item page --items pages.csv --k 5 --epsilon 1 \\
      --ledger people.ledger --ledger-epsilon 3      # and again with --ledger people.ledger alone
  discreet select people/ --k 5 --epsilon 1      # a store made by discreet prepare
  discreet select people/ --item page --items pages.csv --constraint partition:kind --epsilon 1
  discreet select people/ --engine dask --scheduler tcp://10.0.0.1:8786 --k 5 --epsilon 1
  zcat visits.csv.gz | discreet select - --person user --item page --items pages.csv --k 5 --epsilon 1 --json

The chosen list serves a person if it holds any of that person's items (--objective has other measures). All
rows of a person together are one person; nothing printed depends on the people except through the account
that is printed with it, and, with --items-from-data, through the list of items that they have, which no
account covers.
Exit codes: 0 done, 2 a mistake in the options or a file, 3 refused by the budget, 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, its columns, what may be chosen, the budget, and what to print."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help=f"{KINDS}; - for text on standard input; or the folder of a store",
    )
    data = parser.add_argument_group("the file")
    data.add_argument("--person", metavar="COL", help="column that says whose row it is")
    data.add_argument("--item", metavar="COL", help="column of what they like, bought or opened")
    data.add_argument(
        "--items",
        metavar="FILE",
        help=f"the public list of items to choose from: {ITEMS}",
    )
    data.add_argument(
        "--items-private",
        type=float,
        metavar="SHARE",
        help="instead of --items: choose the list of items privately from FILE, for this share of epsilon,"
        " e.g. 0.5, and all of --delta; each person votes for one item of theirs, and those with enough votes"
        " are listed",
    )
    data.add_argument(
        "--items-from-data",
        action="store_true",
        help="instead of --items: choose among all items of FILE. NOT PRIVATE BY ITSELF: an item that only"
        " one person has is among them, and the output is marked as conditional on the list",
    )
    data.add_argument(
        "--weight",
        metavar="COL",
        help="how likely the person takes the item, 0 to 1; of repeated rows the largest counts (default: any"
        " row of theirs serves them surely)",
    )
    data.add_argument(
        "--cap",
        type=int,
        metavar="M",
        help="count at most M items of each person, drawn by a hash of who they are; not needed for the"
        " guarantee (a person counts once however long their list is), but it keeps very long lists, of bots"
        " for instance, from passing as served by nearly anything",
    )
    data.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out rows with an empty cell, a bad weight or an item that --items does not list, instead"
        " of refusing the file",
    )
    reading.add_arguments(data)
    stored.add_arguments(parser)
    what = parser.add_argument_group("what may be chosen")
    what.add_argument("--k", type=int, help="at most this many items (may be left out with --constraint)")
    what.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="SPEC",
        help="partition:COL, at most one item per value of COL (partition:COL:2, at most two); or"
        " knapsack:COL:LIMIT, items whose COL adds up to at most LIMIT; repeatable, all of them hold",
    )
    what.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="ITEMS",
        help="items that are in the list whatever people have: separated by commas, or @FILE with one per"
        " line; repeatable. They count towards --k and the constraints, and the others are chosen beside"
        " them. They must be public: not read off FILE",
    )
    what.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="ITEMS",
        help="items that cannot be chosen, such as what is sold out; written as for --include, and as public",
    )
    objective.add_arguments(parser)
    budget = parser.add_argument_group("privacy")
    budget.add_argument(
        "--epsilon",
        type=float,
        required=True,
        help="how much one person may matter: no result becomes more than e^epsilon times as likely",
    )
    budget.add_argument("--delta", type=float, default=0.0, help="probability outside of that (default 0)")
    budget.add_argument(
        "--neighbours",
        choices=("replace", "add_remove"),
        default="replace",
        help="what is protected: a person's rows for anybody else's (replace, the number of people is public;"
        " default), or their presence as well (add_remove)",
    )
    budget.add_argument(
        "--max-people", type=int, metavar="N", help="add_remove: a public bound on the number of people"
    )
    budget.add_argument(
        "--method",
        choices=("auto", "basic", "zcdp", "decomposable", "subsampled", "exact"),
        default="auto",
        help="how the picks are accounted for (default auto: whichever lets the data count most)",
    )
    budget.add_argument(
        "--release-gains",
        type=float,
        metavar="SHARE",
        help="spend this share of the budget, e.g. 0.2, on noisy numbers of people that each pick adds",
    )
    ledger.add_arguments(budget)
    budget.add_argument(
        "--seed", type=int, metavar="N", help="repeatable randomness: NOT PRIVATE, for trying out"
    )
    budget.add_argument(
        "--insecure-diagnostics",
        action="store_true",
        help="also print true counts, which no account covers, and which row of the file was refused: NOT"
        " PRIVATE, and marked as such",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="FILE", help="also write the result here, as JSON")
    out.add_argument(
        "--show",
        action="append",
        default=[],
        metavar="COL",
        help="also print this column of --items beside each item, such as a title; repeatable",
    )
    out.add_argument(
        "--explain", action="store_true", help="also print the arithmetic of the guarantee, step by step"
    )
    out.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> int:
    """Read, choose, write, print; in that order, so that a file that cannot be written costs no budget."""
    from ..privacy import Budget
    from ..privacy.population.runs import RunGate

    if math.isinf(options.epsilon):
        raise ValueError(
            "--epsilon inf is no guarantee at all; give a finite one (--insecure-diagnostics shows what would"
            " be chosen without privacy)"
        )
    budget = Budget(options.epsilon, options.delta, options.neighbours)
    limits = Limits.read(options.constraint, options.k)
    given = Given.read(options.include, options.exclude)
    options.file, several = options.files[0], len(options.files) > 1
    if several and "-" in options.files:
        raise ValueError("standard input (-) stands alone; name files, or pipe them in")
    from_store = not several and stored.is_store(options.file)
    stored.check(options, stored=from_store)
    goal = Objective.read(options, stored=from_store)
    if not from_store:
        _check_items(options, limits)
    target = None
    if options.out is not None:
        read = [*options.files, *(one for one in (options.items, options.ledger) if one)]
        target = check_writable(options.out, *read)
    max_people = _max_people(options)
    gate = ledger.gate_of(options, budget)
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        stack.callback(tell, NAME, caught)  # also of what is refused
        people: Population
        greedy: PrivateGreedy | None
        facts: dict[str, list[str]]
        if from_store:
            store = stored.opened(options)
            listed = stored.listed(options, store, [*limits.columns, *options.show])
            rank = limits.constraint(listed).over(len(listed.items)).rank
            people = stack.enter_context(stored.people_of(options, store, goal, rank))
            _check_count(len(people), max_people)
            objective.warn_of_budget(gate.budget, len(people), options.max_people)
            greedy = stored.chooser(options, listed, limits, given, gate, goal.bound(rank))
            selection, facts = greedy.select(people), listed.facts
        else:
            events = _events(options, limits, goal)
            _check_count(len(events.people), max_people)
            objective.warn_of_budget(gate.budget, len(events.people), options.max_people)
            people, greedy, selection, facts = _selected(options, events, limits, given, gate, goal)
        notes = notes_of(caught)
        shared = gate.shared.spent if isinstance(gate, RunGate) else None
        asked = selection_report.Asked(options, limits, goal, facts, max_people, notes, shared)
        result = selection_report.result(asked, people, greedy, selection)
    if target is not None:
        write_whole(target, as_json(result) + "\n")
    print(as_json(result) if options.json else selection_report.text(asked, result, selection))
    return 0


def _check_count(count: int, max_people: int | None) -> None:
    if max_people is not None and count > max_people:
        raise ValueError(  # without their number, which is private here
            f"there are more people than --max-people {max_people}; give a bound that is certain without"
            " looking"
        )


def _check_items(options: argparse.Namespace, limits: Limits) -> None:
    """There is one list of items to choose from, and it was asked for by name."""
    from ..core import checks

    given = [options.items is not None, options.items_private is not None, options.items_from_data]
    if sum(given) > 1:
        raise ValueError(
            "--items, --items-private and --items-from-data exclude each other; give one of them"
        )
    if not any(given):
        raise ValueError(
            "which items are there to choose from? Which ones occur in FILE is private. Give --items FILE, a"
            " public list; or --items-private 0.5 with a --delta, to choose the list privately for that share"
            " of epsilon; or --items-from-data, whose result is conditional on the items that occur, and"
            " gives away whoever alone has one"
        )
    reading.check_public(options.items, options.files, "FILE itself")
    if options.show and options.items is None and options.items_private is None:
        raise ValueError("--show is about columns of a public list; give --items FILE, which has them")
    if options.items_private is None:
        return
    if options.include:
        raise ValueError(
            "--include names items of a public list, and with --items-private the list is chosen privately;"
            " give --items FILE, or publish the included items beside what is chosen"
        )
    checks.real("--items-private", options.items_private, above=0.0, below=1.0)
    if not options.delta:
        raise ValueError(
            f"--items-private {options.items_private:g} needs --delta above 0, e.g. 1e-6: the chance that an"
            " item of one person alone is listed"
        )
    if options.show:
        raise ValueError("--show is about columns of a public list; give --items FILE, which has them")
    if limits.rules:
        raise ValueError(
            "--constraint is about public facts of each item, and a list that is chosen privately has none;"
            " give --items FILE with the constraint's column"
        )


def _max_people(options: argparse.Namespace) -> int | None:
    """The public bound on the number of people; None where the number itself is public."""
    from ..core import checks
    from ..offline.scores import MOST_PEOPLE

    if options.max_people is not None:
        checks.whole("--max-people", options.max_people, at_least=1)
    return None if options.neighbours == "replace" else int(options.max_people or MOST_PEOPLE)


def _events(options: argparse.Namespace, limits: Limits, goal: Objective) -> Events:
    """Everybody in the file, over the items that are listed, or that occur."""
    from ..data import EventReader
    from ..data.facts import Facts, read_items
    from ..data.source import constraint_role

    asked = {"person": options.person, "item": options.item}
    if options.weight is not None:
        asked["weight"] = options.weight
    items, facts = None, None
    about: dict[str, list[str]] = {}
    if options.items is not None:
        if options.items == "-" == options.file:
            raise ValueError("FILE and --items cannot both be standard input; give one of them as a file")
        listed = source_of(options, options.items, public=True)
        columns = dict.fromkeys((*limits.columns, *options.show, *goal.vectors))
        items, about = read_items(listed, reading.listed_column(options), list(columns))
    elif limits.columns:
        asked |= {constraint_role(column): column for column in limits.columns}
        facts = Facts(limits.columns)
    reader = EventReader(items=items, highest=1.0, facts=facts)
    table = options.file if len(options.files) == 1 else list(options.files)
    for batch in _watched(source_of(options, table).batches(asked)):
        reader.take(batch)
    # Where presence is private, a file that holds nobody must look like one that holds somebody.
    nobody = options.neighbours == "add_remove" and not options.items_from_data
    found = reader.events(nobody=nobody, nothing=options.items_private is not None)
    return found if facts is not None else replace(found, facts=about)


def _watched(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches; on a terminal, how much of the file has been read (a share: counts are private)."""
    shown, last = False, time.monotonic()
    try:
        for batch in batches:
            now = time.monotonic()
            if batch.done is not None and now - last > 0.5 and sys.stderr.isatty():
                print(f"\rreading: {batch.done:.0%} ", end="", file=sys.stderr, flush=True)
                shown, last = True, now
            yield batch
    finally:
        if shown:
            print("\r" + " " * 20 + "\r", end="", file=sys.stderr, flush=True)


def _selected(
    options: argparse.Namespace,
    events: Events,
    limits: Limits,
    given: Given,
    gate: Gate,
    goal: Objective,
) -> tuple[Population, PrivateGreedy | None, Selection, dict[str, list[str]]]:
    """The people with the items to choose from, who chose, and what; nobody where no item may be named."""
    from ..core import checks
    from ..data.catalogue import choose_items
    from ..objectives.rows.people import RowPopulation
    from ..offline import PrivateGreedy
    from ..privacy import Budget
    from ..results import Selection

    weighted = options.weight is not None
    private = options.items_private is not None
    cap = None if options.cap is None else checks.whole("--cap", options.cap, at_least=1)
    if private:
        # What is wrong with the other options has to show before anything is spent.
        left = Budget(options.epsilon * (1.0 - options.items_private), 0.0, options.neighbours)
        rehearsal = PrivateGreedy(limits.k or 1, left, options.method, release_gains=options.release_gains)
        rehearsal.plan(n_items=(limits.k or 1) + 1)
        listed = choose_items(given.without_excluded(events), gate, share=options.items_private)
        if not listed.items:
            people = goal.people(events, limits.k or 1, weighted=weighted)
            return people, None, Selection((), labels=(), privacy=gate.spent), {}
        events = listed
    constraint = limits.constraint(events, at_most_all=private)
    rank = constraint.over(len(events.items)).rank
    greedy = PrivateGreedy(
        constraint,
        gate,
        options.method,
        bound=goal.bound(rank),
        release_gains=options.release_gains,
        max_people=options.max_people,
        include=given.included(events),
        exclude=[] if private else given.excluded(events),
    )
    people = counted = goal.people(events, rank, weighted=weighted)
    if cap is not None and isinstance(people, RowPopulation):
        counted = people.cap_items(cap, gate.coins(2))
    return people, greedy, greedy.select(counted), events.facts
