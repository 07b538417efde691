"""``discreet select``: a few items for everybody in a file of (person, item) rows, privately."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..constraints import Constraint
    from ..offline import PrivateGreedy
    from ..results import Selection
    from ._limit import Limit
    from ._people import People

NAME = "select"
HELP = "choose a few items for the people of a file, with a guarantee for each of them"

_EXAMPLES = """examples:
  discreet select visits.csv --person user --item page --k 5 --epsilon 1
  discreet select sales.parquet --person customer --item product --items catalogue.csv \\
      --constraint knapsack:price:100 --epsilon 1 --delta 1e-6 --out chosen.json
  zcat visits.csv.gz | discreet select - --person user --item page --k 5 --epsilon 1 --json

The chosen list serves a person if it holds any of that person's items. All rows of a person together are one
person; nothing printed depends on the people except through the account that is printed with it.
Exit codes: 0 done, 2 a mistake in the options or a file, 3 refused by the budget, 130 interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, its columns, what may be chosen, the budget, and what to print."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "file", metavar="FILE", help="CSV, gzipped CSV or Parquet; - for CSV on standard input"
    )
    data = parser.add_argument_group("the file")
    data.add_argument("--person", required=True, metavar="COL", help="column that says whose row it is")
    data.add_argument(
        "--item", required=True, metavar="COL", help="column of what they like, bought or opened"
    )
    data.add_argument(
        "--items",
        metavar="FILE",
        help="the public list of items to choose from (CSV or Parquet, with the --item column); without it"
        " the items are those of FILE, and which items occur there is then treated as public",
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
    data.add_argument("--separator", default=",", metavar="CHAR", help="between CSV columns; tab for a tab")
    what = parser.add_argument_group("what may be chosen")
    what.add_argument("--k", type=int, help="at most this many items (may be left out with --constraint)")
    what.add_argument(
        "--constraint",
        metavar="SPEC",
        help="partition:COL, at most one item per value of COL (partition:COL:2, at most two); or"
        " knapsack:COL:LIMIT, items whose COL adds up to at most LIMIT",
    )
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
        "--most-people", type=int, metavar="N", help="add_remove: a public bound on the number of people"
    )
    budget.add_argument(
        "--method",
        choices=("auto", "basic", "zcdp", "decomposable", "subsampled"),
        default="auto",
        help="how the picks are accounted for (default auto: whichever lets the data count most)",
    )
    budget.add_argument(
        "--release-gains",
        type=float,
        metavar="SHARE",
        help="spend this share of the budget, e.g. 0.2, on noisy numbers of people that each pick adds",
    )
    budget.add_argument(
        "--seed", type=int, metavar="N", help="repeatable randomness: NOT PRIVATE, for trying out"
    )
    budget.add_argument(
        "--insecure-diagnostics",
        action="store_true",
        help="also print true counts, which no account covers: NOT PRIVATE, and marked as such",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="FILE", help="also write the result here, as JSON")
    out.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> int:
    """Read, choose, write, print; in that order, so that a file that cannot be written costs no budget."""
    from ..privacy import Budget
    from . import _told
    from ._frame import printable
    from ._limit import Limit
    from ._output import as_json, check_writable, write_whole

    if math.isinf(options.epsilon):
        raise ValueError(
            "--epsilon inf is no guarantee at all; give a finite one (--insecure-diagnostics shows what would"
            " be chosen without privacy)"
        )
    budget = Budget(options.epsilon, options.delta, options.neighbours)
    limit = Limit.read(options.constraint, options.k)
    target = None
    if options.out is not None:
        target = check_writable(options.out, options.file, *([options.items] if options.items else []))
    people = _people(options, limit)
    constraint = limit.constraint(people)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        greedy, selection = _selected(options, people, constraint, budget)
    # Only what the library says by itself, from public facts: arithmetic may complain about the data.
    notes = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    result = _told.result(options, people, greedy, selection, notes)
    if target is not None:
        write_whole(target, as_json(result) + "\n")
    for note in notes:
        print(f"discreet select: note: {printable(note)}", file=sys.stderr)
    print(as_json(result) if options.json else _told.text(options, result, selection))
    return 0


def _people(options: argparse.Namespace, limit: Limit) -> People:
    from ._files import Source
    from ._people import Catalogue, read_people

    separator = "\t" if options.separator in ("tab", "\\t") else options.separator
    if len(separator) != 1:
        raise ValueError(f"--separator {options.separator}: must be one character, or the word tab")
    columns = {"person": options.person, "item": options.item}
    if options.weight is not None:
        columns["weight"] = options.weight
    facts = {} if limit.column is None else {"constraint": limit.column}
    catalogue = None
    if options.items is None:
        columns |= facts
    else:
        if options.items == "-" == options.file:
            raise ValueError("FILE and --items cannot both be standard input; give one of them as a file")
        catalogue = Catalogue.read(Source(options.items, separator), {"item": options.item} | facts)
    found = read_people(
        Source(options.file, separator, options.skip_bad),
        columns,
        catalogue,
        skip_bad=options.skip_bad,
        # Where presence is private, a file that holds nobody must look like one that holds somebody.
        nobody=options.neighbours == "add_remove" and catalogue is not None,
    )
    most = most_people(options)
    if most is not None and len(found.population) > most:
        raise ValueError(  # without their number, which is private here
            f"there are more people than --most-people {most}; give a bound that is certain without looking"
        )
    return found


def most_people(options: argparse.Namespace) -> int | None:
    """The public bound on the number of people; None where the number itself is public."""
    from .. import _checks
    from ..offline.greedy import _MOST_PEOPLE

    if options.most_people is not None:
        _checks.whole("--most-people", options.most_people, at_least=1)
    if options.neighbours == "replace":
        return None
    return int(options.most_people or _MOST_PEOPLE)


def _selected(
    options: argparse.Namespace, people: People, constraint: Constraint, budget: Any
) -> tuple[PrivateGreedy, Selection]:
    from .. import _checks
    from ..offline import PrivateGreedy
    from ..privacy.randomness import randomness

    population = people.population
    source = randomness(options.seed)
    if options.cap is not None:
        cap = _checks.whole("--cap", options.cap, at_least=1)
        population = population.cap_items(cap, source)
    greedy = PrivateGreedy(
        constraint,
        budget,
        options.method,
        release_gains=options.release_gains,
        people=options.most_people,
        seed=source,
    )
    return greedy, greedy.select(population)
