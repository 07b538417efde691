"""``discreet simulate``: learners on streams of people, repeated, with a report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from .. import __version__
from ..core.options import Feedback
from ..core.text import install
from .common import (
    EVENTS,
    KINDS,
    add,
    as_json,
    as_settings,
    check_items_option,
    fitted,
    given,
    lines_of,
    printable,
    skipping,
    wrapped,
)

if TYPE_CHECKING:
    from ..evaluation.simulation import Config, Results

NAME = "simulate"
HELP = "run learners on synthetic or recorded streams, many times, and write a report"

_EPILOG = """examples:
  discreet simulate --stream "product display" --learner hedge --learner planner --epsilon 0.5 --epsilon 2
  discreet simulate --events 'visits/*.csv' --person user --item page --items pages.csv --feedback slots
  discreet simulate shop.toml --out shop

shop.toml:
  title = "Which learner for the shop?"
  rounds = 10000                   # people of each stream (default 10000)
  items = 50                       # (default 50)
  k = 5                            # items shown each round (default 5)
  epsilons = [0.5, 1.0, inf]       # inf: without privacy (default [1.0])
  delta = 1e-6                     # (default 1e-6)
  repeats = 5                      # (default 5)
  seed = 0                         # (default 0)
  feedback = "full"                # after a round: full, or of clicks bandit or slots (default: each its own)
  comparator = "greedy"            # what regret is against: greedy in hindsight, or "best" (slower)

  [[streams]]
  family = "product display"       # favourites, near tie, drifting, alternating, baskets
  clusters = 6                     # settings of the family

  [[streams]]
  events = "visits.csv"            # a file of events beside this one, a pattern, a folder, or a list of them
  person = "user"
  item = "page"
  items = "pages.csv"              # a public list of its items (default: those that occur)

  [[learners]]
  learner = "planner"              # or hedge, running sums, phased, random, popularity, greedy
  stream = "stationary"            # settings, as in Python

  [[learners]]
  learner = "thompson"             # or bandit: for clicks only
  feedback = "slots"               # which of the shown items was clicked; for the planner, too
  candidates = ["maps", "tents"]   # a public list, the best first: these alone are shown (any learner)

  [[learners]]
  name = "not private"
  learner = "hedge"
  epsilon = inf                    # at this epsilon only

Every finished run is kept in the folder: interrupt it, start it again with the same settings, and it goes on.
Average rewards are means over the repeats, +- their standard error.
Everybody sees the same set here; for personal sets there is discreet recommend evaluate.
Rewards and regret are facts about the people of the streams, not private releases."""

_STREAM = "product display"
_OF_EVENTS = ("person", "item", "items", "separator", "encoding", "columns", "items_columns", "items_item",
              "skip_bad")  # fmt: skip
_WITHOUT_FILE = ("stream", "learner", "epsilon", "feedback", "candidates", "events", *_OF_EVENTS)
_BASELINES = ("random", "popularity", "greedy")
_LEARNERS = ("planner", "phased", *_BASELINES)
_BANDITS = ("planner", "thompson", "bandit", *_BASELINES)  # that learn from clicks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A settings file, or options for the simplest settings."""
    parser.epilog = _EPILOG
    parser.add_argument("config", nargs="?", metavar="CONFIG.toml", help="what to run; or say it with flags")
    plain = parser.add_argument_group("without a file")
    plain.add_argument("--stream", action="append", metavar="FAMILY", help=f"repeatable (default {_STREAM})")
    plain.add_argument(
        "--learner",
        action="append",
        metavar="NAME",
        help=f"repeatable (default {', '.join(_LEARNERS)}; for clicks {', '.join(_BANDITS)})",
    )
    add(plain, "--feedback", choices=get_args(Feedback), metavar=None)
    plain.add_argument(
        "--candidates",
        action="append",
        metavar="ITEM",
        help="an item that learners may show, the best first; only these are shown then. Repeatable, or @FILE"
        " with one item per line. The list must be public",
    )
    add(plain, "--epsilon", action="append", help="repeatable; inf: no privacy (default 1)")
    add(plain, "--delta", default=None, help="(default 1e-6)")
    add(plain, "--rounds", help="people of each synthetic stream (default 10000)")
    add(plain, "--n-items", help="of synthetic streams (default 50)")
    add(plain, "--k", help="items shown each round (default 5)")
    plain.add_argument("--repeats", type=int, help="(default 5)")
    add(plain, "--seed", help="(default 0)")
    events = parser.add_argument_group("a recorded stream, without a file")
    events.add_argument("--events", metavar="FILE", nargs="+", help=f"a row per event: {KINDS}")
    add(events, *EVENTS, "--skip-bad")
    parser.add_argument(
        "--out", metavar="FOLDER", default="simulation", help="results, report, plots (default: simulation)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")


def run(options: argparse.Namespace) -> int:
    """Run the missing runs, write the report, print the table."""
    from ..evaluation.personal import IN_THE_CLEAR
    from ..evaluation.report import in_words, plots_available, simulation_report
    from ..evaluation.simulation import RESULTS, simulate

    config = _config(options)
    folder = Path(options.out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder}: is a file; name a folder")
    try:
        results = simulate(config, folder, workers=options.workers, progress=sys.stderr.isatty())
    except KeyboardInterrupt:
        print(f"\nwhat is finished is kept in {folder}; run the same command again to go on", file=sys.stderr)
        raise
    report, plots = simulation_report(results, folder)
    if options.json:
        print(as_json(_result(results, folder / RESULTS, report, plots)))
        return 0
    rows = results.table()
    header, cells = in_words(rows)
    print(fitted(["stream", *header], [[row["stream"], *one] for row, one in zip(rows, cells, strict=True)]))
    _print_choices(results)
    for name in _conditional(results):
        print(
            wrapped(
                f"CONDITIONAL: the items of {name} are those that its people have; its accounts take the"
                " list for public, and an item that only one person has gives them away"
            )
        )
    for cell, why in {cell.learner.name: (cell, why) for cell, why in results.refused}.values():
        print(wrapped(f"not run: {cell.learner.name}: {why}"))
    seeded = f"{IN_THE_CLEAR}; anyone who knows the seed, {config.seed}, can remove the noise"
    for sentence in [*skipping(options), seeded]:
        print(wrapped(sentence))
    if not plots_available():
        print(f"no charts: they need matplotlib, {install('plots')}")
    print(f"\nresults: {folder / RESULTS}\nreport:  {report}")
    return 0


def _config(options: argparse.Namespace) -> Config:
    from ..evaluation.simulation import Config, read_config

    plain = {
        name: getattr(options, name)
        for name in ("delta", "rounds", "n_items", "k", "repeats", "seed", "feedback")
        if getattr(options, name) is not None
    }
    if options.config is not None:
        if beside := given(options, (*plain, *_WITHOUT_FILE)):
            raise ValueError(f"{beside[0]} is for runs without a file; write it into {options.config}")
        return read_config(options.config)
    for name, why in (("rounds", "everybody in it comes once"), ("n_items", "it has the items it has")):
        if name in plain and options.events is not None and not options.stream:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} is for synthetic streams, and --events is recorded: {why}; leave it out"
            )
    if "n_items" in plain:
        plain["items"] = plain.pop("n_items")
    if options.events is None and (about := given(options, _OF_EVENTS)):
        raise ValueError(f"{about[0]} is about --events FILE, which is missing")
    check_items_option(options)
    columns = {name: getattr(options, name) for name in _OF_EVENTS if getattr(options, name)}
    columns |= as_settings(options)
    streams: list[dict[str, Any]] = [{"family": name} for name in options.stream or []]
    if options.events is not None:
        streams.append({"events": options.events} | columns)
    usual = _BANDITS if options.feedback in ("bandit", "slots") else _LEARNERS
    learners: list[dict[str, Any]] = [{"learner": name} for name in options.learner or usual]
    if options.candidates:
        found = [lines_of(options, "--candidates", text) for text in options.candidates]
        few = [label for one in found for label in ([one] if isinstance(one, str) else one)]
        learners = [one if one["learner"] in _BASELINES else one | {"candidates": few} for one in learners]
    return Config.of(
        plain
        | {"epsilons": options.epsilon or [1.0]}
        | {"streams": streams or [{"family": _STREAM}], "learners": learners}
    )


def _print_choices(results: Results) -> None:
    """Lines on which data is real, the planner's choices, and the chosen sets."""
    from ..evaluation.report import level, planned, source

    rows = results.table()
    for stream in results.config.streams:
        mine = [row for row in rows if row["stream"] == stream.name]
        print(f"\n{stream.name}: {source(stream)}")
        for name, taken in planned(mine):
            print(wrapped(f"{name} took {taken}", bullet="  "))
        for row in mine:
            if row["shown"]:
                at = "" if row["epsilon"] is None else f" at epsilon {level(row['epsilon'])}"
                items = printable(", ".join(row["shown"]))
                print(wrapped(f"{row['learner']}{at}, in the end: {items}", bullet="  "))


def _result(results: Results, kept: Path, report: Path, plots: list[Path]) -> dict[str, Any]:
    """The table and the paths of all files, as plain values."""
    return {
        "discreet": __version__,
        "command": "simulate",
        "private": False,
        "conditional_on_the_list_of_items": _conditional(results),
        "rows": results.table(),
        "refused": sorted({f"{cell.learner.name}: {why}" for cell, why in results.refused}),
        "results": str(kept),
        "report": str(report),
        "plots": [str(path) for path in plots],
    }


def _conditional(results: Results) -> list[str]:
    """The streams whose list of items was taken from their people's data."""
    return [stream.name for stream in results.config.streams if stream.items_from_data]
