"""``discreet select``: a few items for everybody in a file of (person, item) rows, privately.

In this order: the options and checks made before anything is read; the people, from a file or a store; the
ledger shared by runs about the same people; the report. Printed output depends on people only through charged
releases, except `SelectionReport._diagnostics`, which must be requested and marks the output.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from .. import __version__
from ..core.options import GreedyMethod
from ..core.text import at_most, install, likelier, table
from .common import (
    EVENTS,
    LEDGER,
    PRIVATE_EVENTS,
    add,
    add_files,
    as_json,
    check_public,
    check_writable,
    events_of,
    fitted,
    given,
    ledger_gate,
    lines_of,
    noting,
    printable,
    read_items,
    skipping,
    warn_of_budget,
    wrapped,
    write_whole,
)

if TYPE_CHECKING:
    from ..constraints import Constraint
    from ..data import Events, Store
    from ..data.read import Batch
    from ..objectives import Population
    from ..objectives.rows import RowPopulation
    from ..offline.greedy import PrivateGreedy
    from ..privacy import Account, Budget, Gate
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
rows of a person together are one person. The account that is printed covers what was chosen. It does not
cover what is listed as public (with replace, the number of people), what --insecure-diagnostics prints, nor,
with --items-from-data, the list of items.
Exit codes: 0 done, 2 a mistake in the options or a file, 3 refused by the budget, 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, its columns, the constraints, the budget, and the output."""
    parser.epilog = _EXAMPLES
    add_files(parser, "; or the folder of a store")
    data = parser.add_argument_group("the file")
    add(data, *EVENTS, *PRIVATE_EVENTS)
    data.add_argument(
        "--items-private",
        type=float,
        metavar="SHARE",
        help="instead of --items: choose the list of items privately from FILE, for this share of epsilon,"
        " e.g. 0.5, and all of --delta; each person votes for one item of theirs, and those with enough votes"
        " are listed",
    )
    add(
        *(data, "--weight"),
        help="how likely the person takes the item, 0 to 1; of repeated rows the largest counts (default: any"
        " row of theirs serves them surely)",
    )
    add(
        *(data, "--cap"),
        help="count at most M items of each person, drawn by a hash of who they are; not needed for the"
        " guarantee (a person counts once however long their list is), but it keeps very long lists, of bots"
        " for instance, from passing as served by nearly anything",
    )
    store = parser.add_argument_group("a store in place of FILE")
    store.add_argument(
        "--engine",
        choices=("threads", "dask"),
        help="who goes through the store: all processors of this machine (threads, the default), or the"
        " workers of a Dask cluster, which must see the store under the same path",
    )
    store.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, e.g. tcp://10.0.0.1:8786")
    what = parser.add_argument_group("what may be chosen")
    add(what, "--k", help="at most this many items (may be left out with --constraint)")
    several: dict[str, Any] = {"action": "append", "default": []}
    what.add_argument(
        "--constraint",
        metavar="SPEC",
        help="partition:COL, at most one item per value of COL (partition:COL:2, at most two); or"
        " knapsack:COL:LIMIT, items whose COL adds up to at most LIMIT; repeatable, all of them hold",
        **several,
    )
    what.add_argument(
        "--include",
        metavar="ITEMS",
        help="items that are in the list whatever people have: separated by commas, or @FILE with one per"
        " line; repeatable. They count towards --k and the constraints, and the others are chosen besides"
        " them. They must be public: not read off FILE",
        **several,
    )
    what.add_argument(
        "--exclude",
        metavar="ITEMS",
        help="items that cannot be chosen, such as what is sold out; written as for --include, and as public",
        **several,
    )
    what.add_argument(
        "--candidates",
        metavar="ITEMS",
        help="items that alone can be chosen, such as last month's most sold; written as for --include, and"
        " as public. With fewer of them less is left to chance",
        **several,
    )
    value = parser.add_argument_group("the value of a list to a person")
    value.add_argument(
        "--objective",
        choices=("any", "several", "nearest"),
        default="any",
        help="any: whether it holds any of their items (default; with --weight, the chance that they take"
        " one); several: every item of theirs counts, each less than the one before (the square root of"
        " their number, or of the sum of --weight); nearest: how like its most similar item is to the mean"
        " of theirs, by --vectors",
    )
    value.add_argument(
        "--vectors",
        metavar="COLS",
        help="for nearest: the columns of --items with each item's vector, separated by commas",
    )
    budget = parser.add_argument_group("privacy")
    add(
        *(budget, "--epsilon"),
        required=True,
        help="how much one person may matter: no result becomes more than e^epsilon times as likely",
    )
    add(budget, "--delta", "--neighbours", *LEDGER)
    budget.add_argument(
        "--max-people", type=int, metavar="N", help="add_remove: a public bound on the number of people"
    )
    budget.add_argument(
        "--method",
        choices=get_args(GreedyMethod),
        default="auto",
        help="how the picks are accounted for (default auto: whichever lets the data count most)",
    )
    budget.add_argument(
        "--release-gains",
        type=float,
        metavar="SHARE",
        help="spend this share of the budget, e.g. 0.2, on noisy numbers of people that each pick adds",
    )
    add(
        *(budget, "--insecure-diagnostics"),
        help="also print true counts, which no account covers, and which row of the file was refused: NOT"
        " PRIVATE, and marked as such",
    )
    add(budget, "--seed")
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="FILE", help="also write the result here, as JSON")
    out.add_argument(
        "--show",
        metavar="COL",
        help="also print this column of --items next to each item, such as a title; repeatable",
        **several,
    )
    out.add_argument(
        "--explain", action="store_true", help="also print the arithmetic of the guarantee, step by step"
    )


def run(options: argparse.Namespace) -> int:
    """Read, choose, write, print; the output file is checked first, so that a bad path costs no budget."""
    from ..privacy import Budget
    from ..privacy.population import RunGate

    if math.isinf(options.epsilon):
        raise ValueError(
            "--epsilon inf guarantees nothing; give a finite one (--insecure-diagnostics shows what would"
            " be chosen without privacy)"
        )
    budget = Budget(options.epsilon, options.delta, options.neighbours)
    request = SelectRequest.read(options)
    target = None
    if options.out is not None:
        lists = [*options.include, *options.exclude, *options.candidates]
        read = [*options.files, options.items, *(one[1:] for one in lists if one.startswith("@"))]
        target = check_writable(options.out, *read, options.ledger)
    gate = ledger_gate(options, budget, NAME)
    if options.insecure_diagnostics:  # the account goes further than this output, as does the ledger
        gate.add_caveats("true counts were printed or written beside these releases, which no account covers")
    with noting(NAME) as notes, contextlib.ExitStack() as stack:
        chosen = _of_store(request, gate, stack) if request.stored else _of_file(request, gate)
        shared = gate.shared.spent if isinstance(gate, RunGate) else None
        report = SelectionReport(request, chosen, notes, shared)
        result = report.result()
    failed = None
    try:
        if target is not None:
            write_whole(target, as_json(result) + "\n")
    except OSError as error:  # such as a full disk: what was charged is shown
        failed = error
    print(as_json(result) if options.json else report.text(result))
    if failed is not None:
        raise failed
    return 0


# --- the request ------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One ``--constraint``: at most ``amount`` items of a kind, or a limit on the total cost."""

    kind: str
    column: str
    amount: float = 1.0

    @classmethod
    def read(cls, spec: str) -> Rule:
        """Parse and check the option; the column's name may contain colons."""
        from ..core import checks

        kind, _, rest = spec.partition(":")
        column, _, last = rest.rpartition(":")
        if kind == "partition" and rest:
            if column and last.isdigit() and int(last) > 0:
                return cls(kind, column, int(last))
            return cls(kind, rest)
        if kind == "knapsack" and column:
            try:
                return cls(kind, column, checks.real("LIMIT", float(last), at_least=0.0))
            except ValueError as error:
                raise ValueError(f"--constraint {spec}: LIMIT must be a number of at least 0") from error
        raise ValueError(
            f"--constraint {spec}: write partition:COL, partition:COL:HOW_MANY or knapsack:COL:LIMIT"
        )

    def constraint(self, listed: Listing, k: int | None) -> Constraint:
        """The constraint over the listed items, with at most k of them."""
        from ..constraints import Cardinality, Intersection, Knapsack, LaminarMatroid, PartitionMatroid

        n_items = len(listed.items)
        if self.kind == "knapsack":
            bag = Knapsack(self._costs(listed), self.amount)
            return bag if k is None else Intersection(Cardinality(k), bag)
        kinds: dict[str, list[int]] = {}
        for item, kind in enumerate(listed.facts[self.column]):
            kinds.setdefault(kind, []).append(item)
        blocks, each = list(kinds.values()), int(self.amount)
        if k is None:
            return PartitionMatroid(blocks, each, n_items=n_items)
        if len(blocks) == 1:
            return Cardinality(min(k, each))
        return LaminarMatroid([*blocks, list(range(n_items))], [each] * len(blocks) + [k])

    def _costs(self, listed: Listing) -> list[float]:
        costs = listed.numbers(self.column, 0.0, "a cost is a number of at least 0")
        if min(costs) > self.amount:
            cheapest = f"even the cheapest item costs {min(costs):g}, more than the limit {self.amount:g}"
            option = "--constraint knapsack"
            words = f"{option}: no item fits under the limit"
            raise listed.refused(words, "raise the limit", f"{option}: {cheapest}")
        return costs


@dataclass(frozen=True)
class Listing:
    """The items to choose from, the origin of the list, and the facts about each, by column."""

    items: tuple[Any, ...]
    catalogue: str
    facts: Mapping[str, list[str]]

    def numbers(self, column: str, least: float, expected: str) -> list[float]:
        """A column about items as finite numbers."""
        found = []
        for item, text in zip(_texts(self.items), self.facts[column], strict=True):
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not (math.isfinite(number) and number >= least):
                said = f"item {item!r} has {text!r} in column {column!r}"
                raise self.refused(f"an item has something else in column {column!r}", expected, said)
            found.append(number)
        return found

    def refused(self, words: str, fix: str, found: str) -> ValueError:
        """An error about facts of items, which are in its details if items come from people's data."""
        from ..core import checks

        if self.catalogue == "public":
            return ValueError(f"{found}; {fix}")
        return checks.DataError(f"{words}; {fix}", found)

    def named(self, option: str, given: Sequence[str | list[str]], *, missing: bool = False) -> list[Any]:
        """The items that an option names; an unlisted one is an error unless it may be ``missing``.

        A text that equals a label is that label, even if it contains commas. Labels from people's data must
        not affect this: with ``missing`` both the full text and each of its parts are taken as labels.
        """
        from ..core.names import unknown_item

        items = dict(zip(_texts(self.items), self.items, strict=True)) if given else {}
        found = {}
        for one in given:
            texts = one
            if isinstance(one, str):
                parts = [part.strip() for part in one.split(",") if part.strip()]
                texts = [one, *parts] if missing else [one] if one in items else parts
            for text in texts:
                if text in items:
                    found[text] = items[text]
                elif not missing:
                    public = self.catalogue == "public"
                    raise unknown_item(option, text, list(items), "see the list of items", public=public)
        return list(found.values())


@dataclass(frozen=True)
class SelectRequest:
    """The options, checked before anything is read.

    ``include``, ``exclude`` and ``candidates``: texts as written, and the lines of files. ``max_people``: the
    public bound on the number of people; None if the number itself is public.
    """

    options: argparse.Namespace
    stored: bool
    rules: tuple[Rule, ...]
    vectors: tuple[str, ...]
    include: tuple[str | list[str], ...]
    exclude: tuple[str | list[str], ...]
    candidates: tuple[str | list[str], ...]
    max_people: int | None

    @classmethod
    def read(cls, options: argparse.Namespace) -> SelectRequest:
        from ..core import checks
        from ..offline.greedy import MOST_PEOPLE

        if options.k is not None:
            checks.whole("--k", options.k, at_least=1)
        if not options.constraint and options.k is None:
            raise ValueError("say how many items: --k 5, or a --constraint")
        if options.max_people is not None:
            checks.whole("--max-people", options.max_people, at_least=1)
        rules = tuple(map(Rule.read, options.constraint))
        include = tuple(lines_of(options, "--include", text) for text in options.include)
        exclude = tuple(lines_of(options, "--exclude", text) for text in options.exclude)
        candidates = tuple(lines_of(options, "--candidates", text) for text in options.candidates)
        stored = len(options.files) == 1 and _is_store(options.files[0])
        (_check_store if stored else _check_file)(options)
        vectors = _vectors(options, stored)
        if not stored:
            _check_items(options)
        most = None if options.neighbours == "replace" else int(options.max_people or MOST_PEOPLE)
        return cls(options, stored, rules, vectors, include, exclude, candidates, most)

    @property
    def columns(self) -> list[str]:
        """The columns to read from --items."""
        return [*(rule.column for rule in self.rules), *self.options.show, *self.vectors]

    def check_people(self, count: int, budget: Budget) -> None:
        """Refuse more people than declared, and warn of a budget that does not suit their number."""
        if self.max_people is not None and count > self.max_people:
            raise ValueError(  # without their number, which is private here
                f"there are more people than --max-people {self.max_people}; give a bound that is certain"
                " without looking"
            )
        warn_of_budget(budget, count, self.options.max_people)

    def constraint(self, listed: Listing, *, at_most_all: bool = False) -> Constraint:
        """--k and every --constraint combined; a k above the number of items is refused, or means all."""
        from ..constraints import Cardinality, Intersection

        n_items, k = len(listed.items), self.options.k
        if k is not None and k > n_items:
            if not at_most_all:
                raise ValueError(
                    f"--k {k} exceeds the number of items, {n_items}; choose --k {n_items} or less, or list"
                    " more items"
                )
            k = n_items
        if not self.rules:
            return Cardinality(k)
        # Limits on kinds within a limit on everything are one matroid: k goes with the first partition.
        first, *others = sorted(self.rules, key=lambda rule: rule.kind != "partition")
        parts = [first.constraint(listed, k), *(rule.constraint(listed, None) for rule in others)]
        return parts[0] if len(parts) == 1 else Intersection(*parts)

    def bound(self, rank: int) -> float:
        """The highest value of a list of ``rank`` items to a person."""
        return math.sqrt(rank) if self.options.objective == "several" else 1.0

    def family(self, rank: int, weighted: bool) -> tuple[type[RowPopulation], dict[str, Any]]:
        """The family of people's functions, and its options."""
        from ..objectives import ConcaveOverModular, Coverage, ProbabilisticCoverage

        if self.options.objective == "several":
            return ConcaveOverModular, {"concave": "sqrt", "bound": self.bound(rank), "at_most": rank}
        return (ProbabilisticCoverage if weighted else Coverage), {}

    def people(self, events: Events, listed: Listing, rank: int) -> Population:
        """The people of a file; for nearest, each is the mean of their items' vectors at length 1."""
        if self.options.objective != "nearest":
            family, options = self.family(rank, self.options.weight is not None)
            made: Population = family.of_events(events, **options)
            return made
        import numpy as np

        from ..objectives import EmbeddedFacilityLocation

        expected = "a vector is made of numbers"
        items = np.array([listed.numbers(column, -math.inf, expected) for column in self.vectors]).T
        length = np.sqrt((items * items).sum(axis=1, keepdims=True))
        people = np.asarray(events.matrix @ (items / np.where(length, length, 1)))
        scale = min(1.0, 4.0 / math.sqrt(len(self.vectors)))
        return EmbeddedFacilityLocation(people, items, scale=scale, normalize=True, labels=events.items)

    def greedy(self, constraint: Constraint, gate: Gate, listed: Listing) -> PrivateGreedy:
        """The selector; a list that this run has chosen privately does not contain the excluded items."""
        from ..offline.greedy import PrivateGreedy

        return PrivateGreedy(
            constraint,
            gate,
            self.options.method,
            bound=self.bound(constraint.over(len(listed.items)).rank),
            release_gains=self.options.release_gains,
            max_people=self.options.max_people,
            include=listed.named("--include", self.include),
            exclude=self.excluded(listed) if self.options.items_private is None else [],
            candidates=listed.named("--candidates", self.candidates) if self.candidates else None,
        )

    def excluded(self, listed: Listing) -> list[Any]:
        """The items to exclude; they may be missing from a list taken from the file, which is private."""
        return listed.named("--exclude", self.exclude, missing=listed.catalogue == "from data")


def _check_file(options: argparse.Namespace) -> None:
    missing = [f"--{name}" for name in ("person", "item") if getattr(options, name) is None]
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}")
    if about := given(options, ("engine", "scheduler")):
        raise ValueError(f"{about[0]} is for a store, and FILE is not one; make one with discreet prepare")


def _check_store(options: argparse.Namespace) -> None:
    settled = given(options, ("person", "weight", "cap", "items_private", "items_from_data", "skip_bad"))
    if settled:
        raise ValueError(f"{settled[0]} is for files; in a store that was settled when it was prepared")
    about, columns = given(options, ("items", "item")), given(options, ("constraint", "show"))
    if columns and len(about) < 2:
        raise ValueError(
            f"{columns[0]} is about columns of a list of items, and a store keeps their names alone; give"
            " --items FILE with that column, and --item COL, the column of the names"
        )
    if about and not columns:
        raise ValueError("--items and --item are for --constraint and --show; a store has its list of items")
    if (options.engine == "dask") != (options.scheduler is not None):
        raise ValueError("--engine dask and --scheduler ADDRESS go together")


def _check_items(options: argparse.Namespace) -> None:
    """Check that exactly one source of the list of items was requested."""
    from ..core import checks

    lists = given(options, ("items", "items_private", "items_from_data"))
    if len(lists) > 1:
        raise ValueError(
            "--items, --items-private and --items-from-data exclude each other; give one of them"
        )
    if not lists:
        raise ValueError(
            "which items are there to choose from? Which ones occur in FILE is private. Give --items FILE, a"
            " public list; or --items-private 0.5 with a --delta, to choose the list privately for that share"
            " of epsilon; or --items-from-data, whose result is conditional on the items that occur, and"
            " reveals anyone who alone has one"
        )
    if options.items == "-" == options.files[0]:
        raise ValueError("FILE and --items cannot both be standard input; give one of them as a file")
    check_public(options, "FILE itself")
    if options.show and options.items is None:
        raise ValueError("--show is about columns of a public list; give --items FILE, which has them")
    if options.cap is not None:
        checks.whole("--cap", options.cap, at_least=1)
    if options.items_private is None:
        return
    if options.include:
        raise ValueError(
            "--include names items of a public list, and with --items-private the list is chosen privately;"
            " give --items FILE, or publish the included items along with what is chosen"
        )
    checks.real("--items-private", options.items_private, above=0.0, below=1.0)
    if not options.delta:
        raise ValueError(
            f"--items-private {options.items_private:g} needs --delta above 0, e.g. 1e-6: the chance that an"
            " item of one person alone is listed"
        )
    if options.candidates:
        raise ValueError(
            "--candidates names items of a public list, and with --items-private the list is chosen"
            " privately; give --items FILE, with the candidates or with all items"
        )
    if options.constraint:
        raise ValueError(
            "--constraint is about public facts of each item, and a list that is chosen privately has none;"
            " give --items FILE with the constraint's column"
        )


def _vectors(options: argparse.Namespace, stored: bool) -> tuple[str, ...]:
    """The columns of --vectors, which --objective nearest needs."""
    if options.objective != "nearest":
        if options.vectors is not None:
            raise ValueError("--vectors is for --objective nearest")
        return ()
    if stored:
        raise ValueError(
            "--objective nearest is for files: a store keeps no vectors; in Python there is"
            " objectives.EmbeddedFacilityLocation"
        )
    named = (options.vectors or "").split(",")
    vectors = tuple(dict.fromkeys(name.strip() for name in named if name.strip()))
    if options.items is None or not vectors:
        raise ValueError(
            "--objective nearest needs --items FILE with each item's vector, and --vectors COLS, the"
            " columns that hold it"
        )
    if options.cap is not None:
        raise ValueError(
            "--cap has no use with --objective nearest: a person is one vector, the mean of theirs;"
            " leave it out"
        )
    return vectors


# --- choosing ---------------------------------------------------------------------------------------


class Chosen(NamedTuple):
    """The selection, its people and selector (None if no item may be named), and facts of the items."""

    people: Population
    greedy: PrivateGreedy | None
    selection: Selection
    facts: Mapping[str, Sequence[str]]


def _of_file(request: SelectRequest, gate: Gate) -> Chosen:
    from ..data.events import choose_items
    from ..objectives.rows import RowPopulation
    from ..offline.greedy import PrivateGreedy
    from ..privacy import Budget
    from ..results import Selection

    options, private = request.options, request.options.items_private is not None
    events, facts = _events(request)
    request.check_people(len(events.people), gate.budget)
    if private:
        # Errors in the other options must show before anything is spent.
        left = Budget(options.epsilon * (1.0 - options.items_private), 0.0, options.neighbours)
        rehearsal = PrivateGreedy(options.k, left, options.method, release_gains=options.release_gains)
        rehearsal.plan(n_items=options.k + 1)
        out = set(request.excluded(Listing(events.items, events.catalogue, facts)))
        # Excluded items need no votes.
        kept = events.only([item not in out for item in events.items]) if out else events
        chosen = choose_items(kept, gate, share=options.items_private)
        if not chosen.items:
            people = request.people(events, Listing((), "private", {}), options.k)
            return Chosen(people, None, Selection((), labels=(), privacy=gate.spent), {})
        events = chosen
    listed = Listing(events.items, events.catalogue, facts)
    constraint = request.constraint(listed, at_most_all=private)
    greedy = request.greedy(constraint, gate, listed)
    people = counted = request.people(events, listed, constraint.over(len(events.items)).rank)
    if options.cap is not None and isinstance(people, RowPopulation):
        counted = people.cap_items(options.cap, gate.public_randomness(2))
    return Chosen(people, greedy, greedy.select(counted), facts)


def _events(request: SelectRequest) -> tuple[Events, Mapping[str, list[str]]]:
    """Everybody in the file, over the items listed or occurring, and facts of these."""
    from ..data.events import Facts, gathered
    from ..data.read import batches, columns_of, constraint_role, watched

    options = request.options
    asked = columns_of(options.person, options.item, options.weight)
    items, facts = None, None
    about: dict[str, list[str]] = {}
    if options.items is not None:
        items, about = read_items(options, request.columns)
    elif request.rules:
        facts = Facts(list(dict.fromkeys(request.columns)))
        asked |= {constraint_role(column): column for column in request.columns}
    # If presence is private, a file without people must be treated like one with people.
    nobody = options.neighbours == "add_remove" and not options.items_from_data
    nothing = options.items_private is not None
    rows = watched(batches(events_of(options), asked))
    if options.insecure_diagnostics and options.skip_bad:
        rows = _counted(rows, options)
    found = gathered(rows, items=items, highest=1.0, facts=facts, nobody=nobody, nothing=nothing)
    return found, about or found.facts


def _counted(rows: Iterator[Batch], options: argparse.Namespace) -> Iterator[Batch]:
    """The same rows; counts those invalid in the encoding, which is private, for the diagnostics."""
    options.not_decoded = 0
    for batch in rows:
        options.not_decoded += batch.not_decoded()
        yield batch


def _is_store(path: str) -> bool:
    return path != "-" and (Path(path) / "manifest.json").is_file()


def _of_store(request: SelectRequest, gate: Gate, stack: contextlib.ExitStack) -> Chosen:
    """Choose by passes over a store; sets the options that the report reads to what the store holds."""
    from ..data import Store

    options = request.options
    store = Store.open(options.files[0])
    options.item, options.person = options.item or "item", "the person's column"
    options.items_from_data = store.catalogue == "from data"
    listed = _listing(request, store)
    constraint = request.constraint(listed)
    family, more = request.family(constraint.over(len(listed.items)).rank, store.weighted)
    engine = [stack.enter_context(_cluster(options.scheduler))] if options.engine == "dask" else []
    people = family.from_store(store, *engine, **more)
    request.check_people(len(people), gate.budget)
    greedy = request.greedy(constraint, gate, listed)
    return Chosen(people, greedy, greedy.select(people, progress=sys.stderr.isatty()), listed.facts)


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(f"--engine dask needs Dask: {install('dask')}") from None
    try:
        client: Any = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError):
        raise ValueError(f"--scheduler {address}: there is no Dask scheduler") from None
    try:
        yield client
    finally:
        client.close()


def _listing(request: SelectRequest, store: Store) -> Listing:
    """The items of the store, with the facts of a public list about each of them."""
    from ..core import checks

    if not request.columns:
        return Listing(store.labels, store.catalogue, {})
    names, facts = read_items(request.options, request.columns)
    place = {name: at for at, name in enumerate(_texts(names))}
    labels = _texts(store.labels)
    missing = next((label for label in labels if label not in place), None)
    if missing is not None:
        words = "--items does not list every item of the store; add what is missing"
        if store.catalogue == "from data":
            raise checks.DataError(words, f"it lacks {missing!r}")
        raise ValueError(f"{words}: {missing!r}")
    said = {column: [values[place[label]] for label in labels] for column, values in facts.items()}
    return Listing(store.labels, store.catalogue, said)


# --- the ledger -------------------------------------------------------------------------------------


def _ledger(options: argparse.Namespace, spent: Account) -> dict[str, Any]:
    """The content of the ledger, this run included."""
    limit = spent.budget
    known = {"epsilon": spent.epsilon(), "epsilon_limit": limit.epsilon, "delta_limit": limit.delta}
    return {"file": Path(options.ledger).name} | known


def _together(change: str, options: argparse.Namespace, spent: Account) -> str:
    """The guarantee for all runs charged to the ledger, in words."""
    known, limit = _ledger(options, spent), spent.budget
    beside = f", up to a probability of {at_most(limit.delta)}" if limit.delta else ""
    said = (
        f"All lists charged to the ledger {known['file']} together, this one included, have spent epsilon"
        f" {at_most(known['epsilon'])} of {at_most(limit.epsilon)}. {change}, no combination of them would"
        f" have become more than {likelier(known['epsilon'])} times as likely or unlikely{beside}; when all"
        f" of it is spent, {likelier(limit.epsilon)} times."
    )
    if spent.best_definition() != "pure epsilon":  # which alone holds whenever one stops
        said += " Where it was not settled in advance what would be charged, the second number holds alone."
    for caveat in spent.caveats:
        said += f" Of at least one of them: {caveat}."
    return said


# --- the report -------------------------------------------------------------------------------------

_CONDITIONAL = (
    "CONDITIONAL on the list of items, which was taken from the file: which items occur there is not"
    " protected, and an item that only one person has gives them away. Give a public list with --items, or"
    " choose one privately with --items-private."
)
# The aim of a choice, if it is not the usual one.
_WORDS = {
    "several": (
        "The value of the list to a person is the square root of how much of it is theirs: the second item"
        " counts about two fifths of the first, and so on.",
    ),
    "nearest": (
        "The value of the list to a person is the cosine between the mean of their items' vectors and the"
        " item of the list that is most like it (0 where all are unlike).",
    ),
}
# The most excluded items that the text names; JSON has all of them.
_MOST_SHOWN = 10
# Options that do not affect the result.
_BESIDE = ("files", "out", "json", "insecure_diagnostics", "engine", "scheduler", "explain", "ledger",
           "ledger_epsilon", "ledger_delta")  # fmt: skip


def _texts(labels: Iterable[Any] | None) -> list[str]:
    """Items in the form of a file."""
    from ..data.events import as_text

    return [as_text(label) for label in labels or ()]


@dataclass(frozen=True)
class SelectionReport:
    """The items, the account, and their meaning and limits.

    ``notes``: what was warned of. ``shared``: the account of the ledger that the run is charged to.
    """

    request: SelectRequest
    chosen: Chosen
    notes: list[str]
    shared: Account | None = None

    @property
    def _account(self) -> Account:
        account = self.chosen.selection.privacy
        assert account is not None
        return account

    def result(self) -> dict[str, Any]:
        """The complete result, as plain values, for --json and --out."""
        options, account = self.request.options, self._account
        people, greedy, selection = self.chosen.people, self.chosen.greedy, self.chosen.selection
        items = _texts(selection.labels)
        result: dict[str, Any] = {"discreet": __version__, "command": NAME, "items": items}
        result |= self._about_items()
        if options.include:
            result["included"] = items[: len(selection.included)]
        if greedy is not None and options.exclude and options.items_private is None:
            result["excluded"] = _texts(greedy.exclude)
        if selection.gains is not None:
            result["noisy_gains"] = list(selection.gains)
        against = self._not_private()
        result |= {
            "private": not against,
            "not_private_because": against,
            "conditional_on": "the list of items" if options.items_from_data else None,
            "insecure": bool(options.insecure_diagnostics),
            "reproducible": account.reproducible,
            "guarantee": {
                "epsilon": account.epsilon(),
                "delta": account.budget.delta,
                "neighbours": account.budget.neighbours,
            },
            "account": account.to_json(),
            "method": None if greedy is None else greedy.method_used,
            "why_this_method": None if greedy is None else greedy.reason,
            "settings": self._settings(),
            "treated_as_public": self._public(),
            "reading": self._reading(),
            "notes": self.notes,
        }
        if options.explain and greedy is not None:
            result["arithmetic"] = [step._asdict() for step in greedy.arithmetic]
        if options.items_private is not None:
            result["catalogue"] = [] if greedy is None else _texts(people.labels)
        if options.insecure_diagnostics:
            result["diagnostics"] = self._diagnostics()
        if self.shared is not None:
            result["ledger"] = _ledger(options, self.shared)
        return result

    def _about_items(self) -> dict[str, Any]:
        """Public facts about the chosen items: --show, the costs under a knapsack, why there are so few."""
        found: dict[str, Any] = {}
        items, facts = self.chosen.selection.items, self.chosen.facts
        if self.request.options.show:
            found["shown"] = {
                column: [facts[column][item] for item in items] for column in self.request.options.show
            }
        bags = [rule for rule in self.request.rules if rule.kind == "knapsack"]
        if bags:
            found["totals"] = {
                rule.column: {
                    "total": math.fsum(float(facts[rule.column][item]) for item in items),
                    "limit": rule.amount,
                }
                for rule in bags
            }
        why = self._shortfall()
        return found if why is None else found | {"fewer_because": why}

    def _shortfall(self) -> str | None:
        """Why fewer than ``--k`` items are in the list, where the constraint is why; None where it is not.

        Read off the list and what is public about the items alone.
        """
        import numpy as np

        greedy, people, k = self.chosen.greedy, self.chosen.people, self.request.options.k
        chosen = list(self.chosen.selection.items)
        if greedy is None or k is None or not self.request.rules or len(chosen) >= k:
            return None
        out = set(_texts(greedy.exclude))
        left = np.array([label not in out for label in _texts(people.labels)], dtype=np.bool_)
        left[chosen] = False
        addable = greedy.constraint.over(people.n_items).addable(np.array(chosen, dtype=np.intp))
        if not left.any() or (left & addable).any():
            return None
        under = "the limit" if len(self.request.rules) == 1 else "the limits"
        return f"{len(chosen)} of at most {k}: nothing that is left fits under {under}"

    def _not_private(self) -> list[str]:
        """The reasons why this output is not private, if it is not, the most important first."""
        options = self.request.options
        against = []
        if options.items_from_data:
            against.append(_CONDITIONAL)
        if options.insecure_diagnostics:
            against.append("NOT PRIVATE: this output holds true counts that no account covers.")
        if options.seed is not None:
            against.append("NOT PRIVATE: with --seed anyone can redo the randomness and undo it.")
        elif self.chosen.people.catalogue == "seeded":
            against.append("NOT PRIVATE: the store's list of items was drawn with a seed, which undoes that.")
        return against

    def _settings(self) -> dict[str, Any]:
        """The options that affect the result; files by name, since a path may reveal too much."""
        options = vars(self.request.options)
        settings = {name: value for name, value in options.items() if name not in _BESIDE}
        for name in ("include", "exclude", "candidates"):
            given = settings[name]
            settings[name] = [f"@{Path(text[1:]).name}" if text[:1] == "@" else text for text in given]
        settings["file"] = ", ".join(map(_file_name, options["files"]))
        if options["items"] is not None:
            settings["items"] = _file_name(options["items"])
        return settings

    def _public(self) -> list[str]:
        """The assumptions of the guarantee, in words."""
        options, people = self.request.options, self.chosen.people
        n_items = people.n_items
        said = []
        if options.items_from_data:
            said.append(
                f"the list of the {n_items:,} items that occur in the file: an item that only one person has"
                " is among them. Give a public list with --items to protect that, or choose one with"
                " --items-private"
            )
        elif people.stored:
            said.append(f"the {n_items:,} items of the store's catalogue")
        elif options.items is not None:
            said.append(f"the {n_items:,} items listed by --items")
        if options.constraint:
            agree = ", and that all rows agree about it" if options.items is None else ""
            whose = "constraint's column says" if len(options.constraint) == 1 else "constraints' columns say"
            said.append(f"what the {whose} about each item{agree}")
        if options.vectors:
            said.append("the vectors of the items")
        said += [f"which items were {name[2:]}d" for name in given(options, ("include", "exclude"))]
        said += ["which items were candidates"] if options.candidates else []
        if self.request.max_people is None:
            counted = ", those with a row that can be read" if options.skip_bad else ""
            said.append(f"the number of people, {len(people):,}{counted}")
        else:
            said.append(f"that there are at most {self.request.max_people:,} people")
        if people.stored:
            said.append("that the store is intact: one that was altered is refused, and that shows")
        elif options.skip_bad:
            said.append(
                "that the file can be read to its end (no damage, cells in quotes that end on their line, no"
                " line of more than a million letters): one that cannot stops the command, and that shows"
            )
        else:
            known = " and has a listed item" if options.items is not None else ""
            said.append(
                f"that every row of the file is well formed{known}: a bad one stops the command, and that"
                " shows (with --skip-bad it is left out instead)"
            )
        return said

    def _reading(self) -> list[str]:
        """Statements on what a reader may and may not conclude."""
        options, budget = self.request.options, self._account.budget
        delta = bool(budget.delta)
        return [
            *self._guarantee(budget),
            *self._listed(budget),
            *(
                [
                    "The items marked as given were not chosen, and say nothing about anybody; the others"
                    " were chosen for what they add to them."
                ]
                if options.include
                else []
            ),
            *_WORDS.get(options.objective, ()),
            *([] if self.request.stored else skipping(options)),
            *self._certificate(),
            *self._chance(),
            "The list does not show how many people want an item, nor that these items are the best: every"
            " pick is partly chance, and another run would spend another budget and may choose otherwise.",
            f"One person is one value of {options.person}, by its text (blanks around it do not count, upper"
            " and lower case differ, a number is its text): a person who has two counts as two, and for them"
            f" the epsilon is twice as large{', the delta more than that' * delta}.",
            "Guarantees add up: another list from the same people, by anyone, costs each of them its epsilon"
            f"{' and its delta' * delta} again."
            + (
                " The ledger adds up what is charged to it, and refuses what does not fit; of lists made"
                " without it, it knows nothing."
                if self.shared is not None
                else ""
            ),
            "What is true of people in general, such as that those who like one item like another, is not"
            " hidden, and may be used to guess about a person who was not even in the file.",
            *(
                [
                    f"The choice is by at most {options.cap} items of each person, drawn by a hash of who"
                    " they are, and so is what is said of the best list. That makes the guarantee no better"
                    " and the noise no smaller: without --cap each person counts once as well. It pays"
                    " against lists made by bots; where long lists are people's own tastes, what is cut off"
                    " counts for no one, and fewer may be served."
                ]
                if options.cap is not None
                else []
            ),
        ]

    def _guarantee(self, budget: Budget) -> list[str]:
        """The guarantee for any one person; with a ledger, also for all its lists."""
        options = self.request.options
        if budget.neighbours == "replace":
            change = "If any one person's rows were exchanged for anybody else's"
        else:
            change = "If any one person had not been in the file at all"
        condition = ", and the list of items stayed as it is" if options.items_from_data else ""
        beside = f", up to a probability of {at_most(budget.delta)}" if budget.delta else ""
        said = (
            f"{change}{condition}, no list would have become more than {likelier(budget.epsilon)} times as"
            f" likely or unlikely{beside}."
        )
        if options.items_from_data:
            said += (
                " If that list changes, because one person alone has an item, nothing is guaranteed: the"
                " output is not for publishing unless the list of items is public anyway."
            )
        seeded = self.chosen.people.catalogue == "seeded"
        if options.seed is not None or options.insecure_diagnostics or seeded:
            without = "--seed" if options.seed is not None or not seeded else "a list of items by a seed"
            said += (
                f" That would be so without {without} and --insecure-diagnostics; this output protects no one"
                " and is not for publishing."
            )
        elif not options.items_from_data:
            said += (
                " So the list may be published, and nothing computed from it alone says more about anybody."
            )
        return [said] if self.shared is None else [said, _together(change, options, self.shared)]

    def _listed(self, budget: Budget) -> list[str]:
        """How the list of items was chosen, if privately."""
        from ..privacy import Gate
        from ..privacy.partitions import rule_for

        share = self.request.options.items_private
        if share is None:
            return []
        least = rule_for(Gate(budget), share, 1).least_people
        votes = (
            f"each person voted for one of their items, and about {least:,} votes list one. An item that only"
            f" one person has is listed with a probability of at most {at_most(budget.delta)}."
        )
        if self.chosen.greedy is None:
            more = "More people, or a larger --epsilon or --items-private, list more."
            return [f"No item was listed by the private choice: {votes} {more}"]
        n_items = self.chosen.people.n_items
        return [f"The {n_items:,} items to choose from were listed by a private choice: {votes}"]

    def _certificate(self) -> list[str]:
        """A bound on the average loss against the best list, from public facts, if known."""
        options, people, greedy = self.request.options, self.chosen.people, self.chosen.greedy
        if greedy is None or greedy.method_used is None or greedy.budget.neighbours != "replace":
            return []
        if greedy.ratio is None:
            return [
                "Nothing is certified about how good the list is: for a --constraint knapsack together with"
                " other limits than --k no bound is known."
            ]
        count, most = len(people), len(people) * greedy.bound
        loss = greedy.certified_loss(count, people.n_items)
        if loss >= greedy.ratio * most:
            return [
                f"For so few people ({count:,}) this budget certifies nothing about how good the list is: it"
                " may be no better than chance."
            ]
        private = options.items_private is not None
        among = " of these items" if private else ""
        beside = ["with the given items"] if options.include else []
        beside += ["of the candidates"] if options.candidates else []
        beside += ["without the excluded ones"] if options.exclude and not private else []
        among += f" {' and '.join(beside)}" if beside else ""
        if options.objective != "any":
            return [
                f"Averaged over the randomness, the list has at least {greedy.ratio:.0%} of the value of the"
                f" best list{among}, less {loss:,.0f} of the {most:,.0f} that could be at most; usually it"
                " does better than is certified."
            ]
        return [
            f"Averaged over the randomness, the list serves at least {greedy.ratio:.0%} of as many people as"
            f" the best list{among}, less {loss:,.0f} of the {count:,}; usually it does better than is"
            " certified."
        ]

    def _chance(self) -> list[str]:
        """The pick from which on chance decides, from public sizes alone, if there is one and it is known."""
        people, greedy, selection = self.chosen.people, self.chosen.greedy, self.chosen.selection
        if greedy is None or greedy.method_used is None:
            return []
        replaced = greedy.budget.neighbours == "replace"
        known = len(people) if replaced else self.request.options.max_people
        if known is None:
            return []
        first = greedy.picks_above_chance(known, people.n_items) + 1
        if first > len(selection.items) - len(selection.included):
            return []
        return [
            f"From pick {first} on chance decides more than the people: all picks together add at most the"
            f" value of {known:,} people, so that pick {first} adds at most 1/{first} of it, and with this"
            " budget an item that adds this much is passed over more often than not. Fewer picks, more people"
            " or a larger --epsilon help."
        ]

    def _diagnostics(self) -> dict[str, Any]:
        """True numbers. No account covers them."""
        from ..offline.greedy import PrivateGreedy
        from ..privacy import Budget

        people, greedy, selection = self.chosen.people, self.chosen.greedy, self.chosen.selection
        labels, count = _texts(people.labels), len(people)
        single = people.gains([])
        best: tuple[int, ...] = ()
        if greedy is not None:
            few = greedy.candidates
            free = PrivateGreedy(greedy.constraint, Budget(math.inf), bound=greedy.bound, candidates=few)
            best = free.select(people, include=greedy.include, exclude=greedy.exclude).items
        return {
            "people": count,
            "pairs": getattr(people, "n_entries", None),
            "rows_of_another_encoding": getattr(self.request.options, "not_decoded", None),
            "share_served": people.value(list(selection.items)),
            "served_alone_by": {labels[item]: float(single[item]) * count for item in selection.items},
            "without_privacy": {
                "items": [labels[item] for item in best],
                "share_served": people.value(list(best)),
            },
        }

    def text(self, result: dict[str, Any]) -> str:
        account, greedy = self._account, self.chosen.greedy
        lines = []
        for sentence in result["not_private_because"]:
            lines += [wrapped(sentence), ""]
        lines += [self._table(result), ""]
        if "fewer_because" in result:
            lines += [wrapped(result["fewer_because"]), ""]
        for column, found in result.get("totals", {}).items():
            lines += [f"{printable(column)}: {found['total']:g} in all, of at most {found['limit']:g}", ""]
        if result.get("excluded"):
            names = ", ".join(map(printable, result["excluded"][:_MOST_SHOWN]))
            more = len(result["excluded"]) - _MOST_SHOWN
            lines += [wrapped(f"excluded: {names}" + (f" and {more:,} more" if more > 0 else "")), ""]
        above, (header, rows), below = account.summary()
        released = fitted(header, rows) if rows else "nothing has been released: there was nothing to choose"
        lines += [wrapped(above), released, *map(wrapped, below)]
        if told := result.get("ledger"):
            spent = f"epsilon {at_most(told['epsilon'])} of {at_most(told['epsilon_limit'])} spent"
            lines.append(wrapped(f"ledger {printable(told['file'])}: {spent}, with this run"))
        if result["method"] is not None:
            lines.append(wrapped(f"method {result['method']}: {result['why_this_method']}"))
        if "arithmetic" in result and greedy is not None:
            lines += ["", "The arithmetic of the guarantee"]
            lines += [wrapped(str(step), bullet="- ") for step in greedy.arithmetic]
        lines += ["", "What a reader may and may not conclude"]
        lines += [wrapped(sentence, bullet="- ") for sentence in result["reading"]]
        lines += ["", "Treated as public, so not protected"]
        lines += [wrapped(sentence, bullet="- ") for sentence in result["treated_as_public"]]
        if result["insecure"]:
            lines += ["", "NOT PRIVATE: true numbers", _true_numbers(result["diagnostics"])]
        return "\n".join(lines)

    def _table(self, result: dict[str, Any]) -> str:
        """The items, with the requested columns next to them."""
        gains, shown = result.get("noisy_gains"), result.get("shown", {})
        adds = "people it adds (noisy)" if self.request.options.objective == "any" else "it adds (noisy)"
        header = ["", self.request.options.item, *shown] + ([adds] if gains else [])
        rows = []
        for place, label in enumerate(result["items"]):
            given = place < len(self.chosen.selection.included)
            row = [str(place + 1), printable(label) + " (given)" * given]
            row += [printable(values[place]) for values in shown.values()]
            row += ["" if given else f"{gains[place]:,.0f}"] if gains else []
            rows.append(row)
        return fitted(header, rows) if rows else "no items"


def _file_name(path: str) -> str:
    return "standard input" if path == "-" else Path(path).name


def _true_numbers(found: dict[str, Any]) -> str:
    free, bad = found["without_privacy"], found["rows_of_another_encoding"]
    rows = [
        ["people in the file", f"{found['people']:,}"],
        *([["different (person, item) pairs", f"{found['pairs']:,}"]] if found["pairs"] is not None else []),
        *([["rows left out as of another encoding", f"{bad:,}"]] if bad is not None else []),
        ["served by the list", f"{found['share_served']:.4f} of them"],
        ["served by the best list greedy finds without privacy", f"{free['share_served']:.4f} of them"],
        *(
            [f"people served by {printable(item)} alone", f"{n:,.1f}"]
            for item, n in found["served_alone_by"].items()
        ),
    ]
    names = ", ".join(printable(item) for item in free["items"])
    return table(["", ""], rows).lstrip("\n ") + f"\nwithout privacy greedy would choose: {names}"
