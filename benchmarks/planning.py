"""What plans promise and what comes, and what candidates and weighed costs are worth.

Plans: for each data set and epsilon the default plan (and those of clicks and slots), its expected share with
the least and the most, and what its learner then serves of what greedy would in hindsight, in three random
orders. Processor seconds are of the plan, and of one stream of the learner that it chose at 40,000 items.

Candidates: synthetic people of 40,000 items; the public ranking is like their popularity, and not equal to
it: log-normal errors of half a unit. A private preselection takes half of epsilon for noisy counts of one
item of each person, and the 300 largest; what is left chooses among these.

    python -m benchmarks.planning FOLDER
    python -m benchmarks.planning FOLDER --plans before.json   # the plans alone, for another checkout

The results go to benchmarks/results/planning.json; ``before`` there is of the commit that it names.
"""

from __future__ import annotations

import collections
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, cpu_seconds, eshop, machine, msweb, retail, table_rows
from discreet.constraints import Cardinality, Constraint, Intersection, Knapsack
from discreet.core.text import table
from discreet.objectives import Coverage, greedy
from discreet.offline import PrivateGreedy
from tools.results import store, stored

ORDERS, DELTA = 3, 1e-6
QUESTIONS = [
    *((name, "full", epsilon) for name in ("msweb", "eshop", "retail") for epsilon in (1.0, 0.3, 0.1)),
    *((name, feedback, 1.0) for name in ("msweb", "eshop") for feedback in ("slots", "bandit")),
]
SETS = {"msweb": 5, "eshop": 5, "retail": 10}
LARGE, PEOPLE, K, FEW = 40_000, 30_000, 10, 300
LIMITS = (10.0, 20.0, 30.0)


def best_of(people: Coverage, k: int) -> float:
    return float(people.value(greedy(people, k)[0]))


def planned(people: Coverage, k: int, feedback: str, epsilon: float) -> dict[str, Any]:
    """What the default plan says, and what comes."""
    budget, found = dc.Budget(epsilon, DELTA), []
    seconds = cpu_seconds(
        lambda: found.append(dc.plan(people.n_items, k, len(people), budget, feedback=feedback))
    )
    plan, best, came = found[0], best_of(people, k), []
    for order in range(ORDERS):
        who = people[np.random.default_rng(order).permutation(len(people))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            came.append(plan.learner(seed=order).run(who).average / best)
    expected = plan.best.expected
    spread = getattr(expected, "spread", 0.0)
    return {
        "learner": plan.best.name,
        "expected": expected.share,
        "low": getattr(expected, "low", expected.share - 2 * spread),
        "high": getattr(expected, "high", expected.share + 2 * spread),
        "came": float(np.mean(came)),
        "plan_seconds": seconds,
    }


def plans(folder: Path) -> dict[str, Any]:
    data = {"msweb": msweb(folder), "eshop": eshop(folder), "retail": retail(folder)}
    found = {}
    for name, feedback, epsilon in QUESTIONS:
        found[f"{name}, {feedback}, {epsilon:g}"] = planned(data[name], SETS[name], feedback, epsilon)
        print(name, feedback, epsilon, found[f"{name}, {feedback}, {epsilon:g}"], flush=True)
    return found


def large_plan() -> dict[str, Any]:
    """The default at 40,000 items and 30,000 people: seconds of the plan and of the stream."""
    from discreet.planning.expected import synthetic_people

    people, found = synthetic_people(PEOPLE, LARGE, 7), []
    plan = cpu_seconds(lambda: found.append(dc.plan(LARGE, K, PEOPLE, dc.Budget(1.0, DELTA))))
    learner = found[0].learner(seed=0)
    return {
        "learner": type(learner).__name__,
        "plan": plan,
        "stream": cpu_seconds(lambda: learner.run(people)),
    }


def candidates() -> dict[str, Any]:
    """Shares with fewer candidates, by a public ranking or by one that is bought."""
    from discreet.online import PhasedSelector, Released, RollingSelector
    from discreet.planning.expected import CATALOGUES, Taste, synthetic_people

    rows: dict[str, Any] = {}
    for name, taste in {"flat": Taste(0.6, 20.0, 20.0, 0.5), "steep": CATALOGUES[2]}.items():
        people = synthetic_people(PEOPLE, LARGE, 7, taste)
        best, rng = best_of(people, K), np.random.default_rng(0)
        seen = people.gains([]) * np.exp(0.5 * rng.normal(size=LARGE))
        ranking = np.argsort(-seen, kind="stable")
        for epsilon in (1.0, 0.3, 0.1):
            budget, row = dc.Budget(epsilon, DELTA), {}
            for kind in (RollingSelector, PhasedSelector):
                for few in (None, 3_000, FEW):
                    start = None if few is None else Released.ranked(ranking[:few], LARGE, candidates=few)
                    shares = [
                        kind(LARGE, K, budget, start=start, seed=seed).run(people).average / best
                        for seed in range(ORDERS)
                    ]
                    row[f"{kind.__name__}, {few or 'all'}"] = float(np.mean(shares))
            row["PrivateGreedy, all"] = _chosen(people, epsilon, None, best)
            row[f"PrivateGreedy, {FEW}"] = _chosen(people, epsilon, ranking[:FEW], best)
            row[f"PrivateGreedy, {FEW} bought"] = _bought(people, epsilon, best)
            rows[f"{name}, {epsilon:g}"] = row
            print(name, epsilon, row, flush=True)
    return rows


def _chosen(people: Coverage, epsilon: float, few: Any, best: float) -> float:
    shares = []
    for seed in range(ORDERS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selector = PrivateGreedy(K, dc.Budget(epsilon), candidates=few, seed=seed)
            shares.append(people.value(selector.select(people).items) / best)
    return float(np.mean(shares))


def _bought(people: Coverage, epsilon: float, best: float) -> float:
    """Half of epsilon for counts of one item of each person, which replacing somebody moves by 2 in L1."""
    shares = []
    for seed in range(ORDERS):
        rng = np.random.default_rng(seed)
        lengths = np.diff(people.indptr)
        some = lengths > 0
        places = people.indptr[:-1][some] + (rng.random(int(some.sum())) * lengths[some]).astype(np.int64)
        counts = np.bincount(people.indices[places], minlength=people.n_items)
        noisy = counts + rng.laplace(scale=2.0 / (epsilon / 2.0), size=counts.size)
        few = np.argsort(-noisy, kind="stable")[:FEW]
        shares.append(_chosen(people, epsilon / 2.0, few, best))
    return float(np.mean(shares))


def knapsacks(folder: Path) -> dict[str, Any]:
    """At most ten products of online_retail for a limit: shares of customers, and without weighing costs."""
    from unittest import mock

    from discreet.offline import greedy as module

    people, paid = retail(folder), collections.defaultdict(list)
    for row in table_rows(folder, "online_retail/lines"):
        paid[row["stock_code"]].append(float(row["unit_price"]))
    assert people.labels is not None
    prices = [max(0.01, float(np.median(paid[str(label)]))) for label in people.labels]
    found = {}
    for limit in LIMITS:
        bag = Knapsack(prices, limit)
        both = Intersection(Cardinality(10), bag)
        for epsilon in (math.inf, 1.0):
            row = {"knapsack alone": _mean(people, bag, epsilon), "at most 10": _mean(people, both, epsilon)}
            with mock.patch.object(module, "costs_of", return_value=None):
                row["at most 10, before"] = _mean(people, both, epsilon)
            found[f"{limit:g}, epsilon {epsilon:g}"] = row
    return found


def _mean(people: Coverage, constraint: Constraint, epsilon: float) -> float:
    selectors = [PrivateGreedy(constraint, dc.Budget(epsilon), seed=seed) for seed in range(ORDERS)]
    return float(np.mean([people.value(one.select(people).items) for one in selectors]))


def main() -> int:
    parser = arguments(__doc__, "needed")
    parser.add_argument("--plans", type=Path, metavar="FILE", help="the plans alone, as JSON")
    options = parser.parse_args()
    if options.plans is not None:
        options.plans.write_text(json.dumps(plans(options.folder)))
        return 0
    record = {
        "machine": machine(),
        "before": stored("planning").get("before", {}),
        "plans": plans(options.folder),
    }
    record |= {"large": large_plan(), "candidates": candidates(), "knapsacks": knapsacks(options.folder)}
    rows = [
        [name, one["learner"], *(f"{one[part]:.2f}" for part in ("expected", "low", "high", "came"))]
        for name, one in record["plans"].items()
    ]
    print(table(["question", "learner", "expected", "least", "most", "came"], rows))
    store("planning", record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
