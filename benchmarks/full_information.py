"""Share of people served with full information on real streams: learners, sizes, and the cost of privacy.

    python -m benchmarks.full_information FOLDER

FOLDER holds msweb/visits.csv.gz (user_id, item_id), eshop_clicks/clicks.csv.gz (session_id, model in time
order) and online_retail/lines.csv.gz (customer_id, stock_code). Settings: delta 1e-6, one person replaced,
the mean of 5 runs. msweb visitors and customers come in a random order (fixed seed), eshop sessions in the
order of their first click. First the learners at epsilon 1 and k = 5, which is the README's table (``python
-m tools.pages``); then what learners for stationary streams serve at other sizes and budgets.

docs/benchmarks.md says which constants were settled on which of these data sets. Prints tables and stores
benchmarks/results/full_information.json.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, eshop, msweb, retail, spread, target
from discreet.core.text import table
from discreet.objectives import Coverage, greedy
from discreet.online import HedgeSelector, LeaderSelector, PhasedSelector, RunningSumSelector
from tools.results import store

K = 5
BUDGET, FREE = dc.Budget(1.0, 1e-6), dc.Budget(math.inf)
RUNS = 5
CAP = 3

# name -> least share on msweb, least share on eshop_clicks
FLOORS = {
    "planner's choice, adversarial stream": (0.720, 0.365),
    "PhasedSelector (stationary streams)": (0.726, 0.377),
    "planner's choice, stationary stream": (0.726, 0.377),
}
# (stream, k, epsilon) -> least share of the planner's choice for stationary streams
SIZES = {
    ("msweb", 5, 0.1): 0.675,
    ("eshop_clicks", 5, 0.1): 0.305,
    ("msweb", 20, 1.0): 0.890,
    ("eshop_clicks", 20, 1.0): 0.650,
    ("online_retail", 5, 1.0): None,
    ("online_retail", 20, 1.0): 0.640,
    ("online_retail", 20, 0.1): None,
}


def planned(people: Coverage, k: int, budget: dc.Budget, stream: str) -> dc.Plan:
    """The planner's own choice, without hints."""
    return dc.plan(people.n_items, k, len(people), budget, stream=stream)


def learners(people: Coverage) -> dict[str, Callable[[int], object]]:
    n, rounds = people.n_items, len(people)
    adversarial = planned(people, K, BUDGET, "adversarial")
    stationary = planned(people, K, BUDGET, "stationary")
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
        "RunningSumSelector, a new set every 200 rounds": lambda s: RunningSumSelector(
            n, K, rounds, BUDGET, items_per_person=CAP, resample_every=200, seed=s
        ),
        "planner's choice, adversarial stream": lambda s: adversarial.learner(seed=s),
        "LeaderSelector (stationary streams)": lambda s: LeaderSelector(n, K, None, BUDGET, seed=s),
        "PhasedSelector (stationary streams)": lambda s: PhasedSelector(n, K, BUDGET, seed=s),
        "planner's choice, stationary stream": lambda s: stationary.learner(seed=s),
        "HedgeSelector, not private": lambda s: HedgeSelector(n, K, rounds, FREE, seed=s),
        "RunningSumSelector, not private": lambda s: RunningSumSelector(n, K, rounds, FREE, seed=s),
    }


def sizes(streams: dict[str, Coverage]) -> dict[str, dict[str, list[float]]]:
    """What is served at other sizes and budgets: k, epsilon, learner."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, k, epsilon in SIZES:
        people, budget = streams[name], dc.Budget(epsilon, 1e-6)
        n = people.n_items
        plan = planned(people, k, budget, "stationary")
        makers: dict[str, Callable[[int], object]] = {
            "PhasedSelector": lambda s, n=n, k=k, b=budget: PhasedSelector(n, k, b, seed=s),
            "PhasedSelector, composed": lambda s, n=n, k=k, b=budget: PhasedSelector(
                n, k, b, method="composed", seed=s
            ),
            "LeaderSelector": lambda s, n=n, k=k, b=budget: LeaderSelector(n, k, None, b, seed=s),
            "planner's choice": lambda s, p=plan: p.learner(seed=s),
        }
        label = f"{name}, k={k}, epsilon {epsilon:g}"
        found[label] = {
            w: [make(seed).run(people).average for seed in range(RUNS)] for w, make in makers.items()
        }
        found[label]["greedy in hindsight"] = [people.value(greedy(people, k)[0])]
        print(
            f"  {label}: { ({w: round(float(np.mean(v)), 4) for w, v in found[label].items()}) }", flush=True
        )
    return found


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
    streams = {"msweb": msweb(folder), "eshop_clicks": eshop(folder)}
    for name, people in streams.items():
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
    others = sizes(streams | {"online_retail": retail(folder)})
    names = list(next(iter(others.values())))
    least = dict(zip(others, SIZES.values(), strict=True))
    rows = []
    for label, by in others.items():
        floors = [least[label] if w.startswith("planner") else None for w in names]
        cells = [
            spread(by[w]) + target(float(np.mean(by[w])), f, digits=3)
            for w, f in zip(names, floors, strict=True)
        ]
        rows.append([label, *cells])
    print()
    print(table(["", *names], rows))
    settings = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace", "k": K, "runs": RUNS, "cap": CAP}
    shares = {n: {w: [round(v, 5) for v in vs] for w, vs in r.items()} for n, r in results.items()}
    more = {n: {w: [round(v, 5) for v in vs] for w, vs in r.items()} for n, r in others.items()}
    store("full_information", {"settings": settings, "share_served": shares, "sizes": more})


if __name__ == "__main__":
    main()
