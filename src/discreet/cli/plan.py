"""``discreet plan``: the learner that suits a future stream, and what it certifies."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from .. import __version__
from .common import TEXT, add, as_json, check_items_option, fitted, read_items, warn_of_budget, wrapped

if TYPE_CHECKING:
    from ..planning import Plan
    from ..privacy import Budget

NAME = "plan"
HELP = "compare the learners for choosing k items a round, before there is any data"

_EXAMPLES = """examples:
  discreet plan --n-items 285 --k 5 --rounds 32710 --epsilon 1 --delta 1e-6
  discreet plan --n-items 285 --k 5 --rounds 32710 --epsilon 1 --stream stationary --json
  discreet plan --n-items 285 --k 5 --rounds 32710 --epsilon 1 --delta 1e-6 --personal

Nothing here looks at anybody's data: the answer is public. "regret at most" bounds the expected loss over all
rounds compared with (1 - 1/e) times the best fixed set."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    question = parser.add_argument_group("the question")
    add(question, "--n-items", "--items", *TEXT, "--cap")
    add(question, "--item", help="the column of --items, where it has several")
    add(question, "--k", "--rounds", required=True)
    add(question, "--feedback", default="full")
    question.add_argument(
        "--stream",
        default="adversarial",
        metavar="KIND",
        help="adversarial (any order of people, default) or stationary (as in a random order)",
    )
    question.add_argument(
        "--goal",
        default="expected",
        metavar="WHAT",
        help="choose by the share that is expected (from simulations, default) or by what is certified",
    )
    question.add_argument(
        "--personal", action="store_true", help="whether everybody's own sets would pay (discreet recommend)"
    )
    budget = parser.add_argument_group("privacy")
    add(budget, "--epsilon", required=True, help="for the whole stream; inf: no privacy")
    add(budget, "--delta", "--neighbours")
    budget.add_argument(
        "--rounds-per-person",
        type=int,
        default=1,
        metavar="R",
        help="how often one person may come (default 1)",
    )
    budget.add_argument(
        "--min-separation",
        type=int,
        metavar="S",
        help="after how many rounds, at least, a person comes again",
    )


def run(options: argparse.Namespace) -> int:
    from ..planning import plan
    from ..privacy import Budget

    budget = Budget(options.epsilon, options.delta, options.neighbours, options.rounds_per_person)
    if options.personal:
        result, text = _personal(budget, _n_items(options), options.rounds)
        print(as_json({"discreet": __version__, "command": "plan", **result}) if options.json else text)
        return 0
    found = plan(
        n_items=_n_items(options),
        k=options.k,
        rounds=options.rounds,
        budget=budget,
        feedback=options.feedback,
        stream=options.stream,
        items_per_person=options.cap,
        goal=options.goal,
        min_separation=options.min_separation,
    )
    warn_of_budget(budget, options.rounds, options.rounds)
    if options.json:
        print(as_json(_result(options, found)))
    else:
        lines = [wrapped(found.reason), wrapped(found.headline), fitted(*found.rows())]
        print("\n".join([*lines, wrapped(f"chosen: {found.best}")]))
    return 0


def _n_items(options: argparse.Namespace) -> int:
    if (options.items is None) == (options.n_items is None):
        raise ValueError("how many items are there? Give --n-items N, or --items FILE, which lists them")
    check_items_option(options)
    return int(options.n_items) if options.items is None else len(read_items(options)[0])


def _result(options: argparse.Namespace, found: Plan) -> dict[str, Any]:
    return {
        "discreet": __version__,
        "command": "plan",
        "settings": {name: value for name, value in vars(options).items() if name != "json"},
        "chosen": str(found.best),
        "reason": found.reason,
        "vacuous": found.vacuous,
        "hopeless": found.hopeless,
        "random_sets_expected_share": None if found.simulation is None else found.simulation.at_random.share,
        "people_needed": None if found.simulation is None else found.simulation.needed,
        "without_learning": found.at_random,
        "rounds_needed": found.rounds_needed,
        "epsilon_needed": found.epsilon_needed,
        "candidates": [
            {
                "learner": one.name,
                "settings": one.settings,
                "expected_share": None if one.expected is None else one.expected.share,
                "expected_range": None if one.expected is None else [one.expected.low, one.expected.high],
                "certified": one.certified,
                "certified_per_round": one.average,
                "formula": one.formula,
                "about_people_cut_to_fewer_items": one.cut,
                "note": one.note,
                "chosen": one is found.best,
            }
            for one in found.candidates
        ],
    }


def _personal(budget: Budget, n_items: int, n_people: int) -> tuple[dict[str, Any], str]:
    """Whether personal sets are useful, from public sizes alone."""
    from ..personal import ENOUGH, PairPlan, movement
    from ..privacy import GaussianNoise

    noise = float(GaussianNoise.within(budget.share(), movement(budget.neighbours, n_items)).sigma)
    plan = PairPlan.of(n_people, n_items, noise)
    needed = math.ceil(ENOUGH * noise / math.sqrt(2.0))
    pays = plan.paired > 0
    said = (
        "personal sets pay: fit an offline.PrivateRecommender (discreet recommend fit)"
        if pays
        else f"personal sets do not pay yet: from about {needed:,} people on they do, at this budget"
    )
    rows = [["people", f"{n_people:,}"], ["items", f"{n_items:,}"], ["n x mu", f"{plan.signal:,.0f}"]]
    rows += [["items with pairs", f"{plan.paired:,}"], ["people needed", f"{needed:,}"]]
    result = {"personal": pays, "reason": plan.reason, "paired_items": plan.paired, "people_needed": needed}
    return result, "\n".join([fitted(["", ""], rows), wrapped(said), wrapped(plan.reason)])
