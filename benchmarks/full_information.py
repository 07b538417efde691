"""Share of people served with full information on two real streams: learners and the cost of privacy.

    python -m benchmarks.full_information FOLDER

FOLDER holds msweb/visits.csv.gz (user_id, item_id) and eshop_clicks/clicks.csv.gz (session_id, model in time
order). Settings: epsilon 1, delta 1e-6, one person replaced, k = 5, mean of 5 runs. msweb visitors come in a
random order (fixed seed), eshop sessions in the order of their first click. Prints a table and stores
benchmarks/results/full_information.json, which is the README's table (``python -m tools.pages``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, eshop, msweb, spread, target
from discreet.core.table import table
from discreet.objectives import Coverage, greedy
from discreet.online import HedgeSelector, PhasedSelector, RunningSumSelector
from tools.results import store

K = 5
BUDGET, FREE = dc.Budget(1.0, 1e-6), dc.Budget(math.inf)
RUNS = 5
CAP = 3

# name -> least share on msweb, least share on eshop_clicks
FLOORS = {
    "planner's choice, adversarial stream": (0.695, 0.325),
    "RunningSumSelector, a new set every 200 rounds": (0.70, 0.34),
    "PhasedSelector (stationary streams)": (0.715, 0.355),
}


def learners(people: Coverage) -> dict[str, Callable[[int], object]]:
    n, rounds = people.n_items, len(people)
    question = {"n_items": n, "k": K, "rounds": rounds, "budget": BUDGET}
    adversarial = dc.plan(**question, stream="adversarial", items_per_person=CAP)
    stationary = dc.plan(**question, stream="stationary", items_per_person=CAP)
    print(adversarial, "\n")
    print(stationary, "\n")
    return {
        "HedgeSelector, published constants (paper 000, Algorithm 2)": lambda s: HedgeSelector(
            n, K, rounds, BUDGET, calibration="published", seed=s
        ),
        "HedgeSelector, a new set every round": lambda s: HedgeSelector(n, K, rounds, BUDGET, seed=s),
        "HedgeSelector, a new set every 1,000 rounds": lambda s: HedgeSelector(
            n, K, rounds, BUDGET, resample_every=1000, seed=s
        ),
        "planner's choice, adversarial stream": lambda s: adversarial.learner(seed=s),
        "RunningSumSelector, a new set every 200 rounds": lambda s: RunningSumSelector(
            n, K, rounds, BUDGET, items_per_person=CAP, resample_every=200, seed=s
        ),
        "PhasedSelector (stationary streams)": lambda s: PhasedSelector(n, K, BUDGET, seed=s),
        "planner's choice, stationary stream": lambda s: stationary.learner(seed=s),
        "HedgeSelector, not private": lambda s: HedgeSelector(n, K, rounds, FREE, seed=s),
        "RunningSumSelector, not private": lambda s: RunningSumSelector(n, K, rounds, FREE, seed=s),
    }


def measure(people: Coverage) -> dict[str, list[float]]:
    rng = np.random.default_rng(1)
    found = {"random set": [people.value(rng.permutation(people.n_items)[:K]) for _ in range(200)]}
    for name, make in learners(people).items():
        start = time.perf_counter()
        found[name] = [make(seed).run(people).average for seed in range(RUNS)]
        print(f"  {name}: {np.mean(found[name]):.4f} ({time.perf_counter() - start:.1f} s)", flush=True)
    popular = np.argsort(-people.gains([]), kind="stable")[:K]
    found["most popular items in hindsight"] = [people.value(popular)]
    found["greedy in hindsight"] = [people.value(greedy(people, K)[0])]
    return found


def main() -> None:
    folder = arguments(__doc__, "needed").parse_args().folder
    results: dict[str, dict[str, list[float]]] = {}
    for name, people in {"msweb": msweb(folder), "eshop_clicks": eshop(folder)}.items():
        print(f"{name}: {people}", flush=True)
        results[name] = measure(people)
    rows = []
    for method in results["msweb"]:
        floors = FLOORS.get(method, (None, None))
        values = [found[method] for found in results.values()]
        cells = [
            spread(v) + target(float(np.mean(v)), f, digits=3) for v, f in zip(values, floors, strict=True)
        ]
        rows.append([method, *cells])
    print()
    print(table(["method", *results], rows))
    settings = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace", "k": K, "runs": RUNS, "cap": CAP}
    shares = {n: {w: [round(v, 5) for v in vs] for w, vs in r.items()} for n, r in results.items()}
    store("full_information", {"settings": settings, "share_served": shares})


if __name__ == "__main__":
    main()
