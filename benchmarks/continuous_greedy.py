"""Continuous greedy: noise kinds, constraints and the cost of privacy, on real and synthetic people.

    python -m benchmarks.continuous_greedy FOLDER [--quick]

FOLDER holds uber_pickups_2014/pickups.csv.gz (datetime, lat, lon, base) and eshop_clicks/clicks.csv.gz
(session_id, model, category, price). Three parts:

- pickups: experiment 1 of Chaturvedi, Nguyen and Zakynthinou (2021), set up as in `offline.py`: epsilon 0.1,
  delta 0.001, 400 draws and runs, people added or removed as in that paper. Their sample of pickups is not
  known: compare within rows of one source.
- clicks: at most two products of each category, and products for at most 200 in all.
- noise: exponential picks, Gaussian and Laplace gradients as the number of items grows.

Prints tables and stores benchmarks/results/continuous_greedy.json; takes about two minutes on one core.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.offline import NORM, candidates, pickups
from benchmarks.shared import arguments, eshop, eshop_products, spread
from discreet.constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from discreet.core.text import table
from discreet.objectives import Coverage, FacilityLocation, Population, greedy
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from discreet.privacy import ExponentialChoice
from tools.results import store

FREE = dc.Budget(math.inf)
# Mean values that the paper reports: private continuous greedy, private greedy, random, greedy.
REPORTED = {
    10: (76.17, 76.23, 72.32, 88.85),
    16: (81.65, 79.99, 79.84, 88.85),
    25: (84.76, 84.90, 84.17, 88.98),
}


class AtRate(ContinuousGreedy):
    """Picks at a rate that somebody else's account has set; for comparison, so nothing is accounted for."""

    def __init__(self, constraint: Constraint, steps: int, rate: float, seed: int) -> None:
        super().__init__(constraint, dc.Budget(1e9), steps, seed=seed)
        self._rate = rate

    def _event(self, setting: Any, *_: Any) -> ExponentialChoice:
        return ExponentialChoice(self._rate, setting.change.range)


def uber(folder: Path, runs: int) -> dict[str, dict[str, list[float]]]:
    points = pickups(folder)
    near = np.clip(1.0 - np.abs(points[:, None, :] - candidates()[None]).sum(axis=2) / NORM, 0.0, 1.0)
    joining, exchanged = dc.Budget(0.1, 1e-3, "add_remove"), dc.Budget(0.1, 1e-3)
    found: dict[str, dict[str, list[float]]] = {}
    for rank in REPORTED:
        limit = Cardinality(rank)
        # k e0^2 + 2 sqrt(2 k ln(1/delta)) e0 = epsilon for greedy, as in that paper's code; weights e0 / 2.
        root = math.sqrt(2.0 * rank * math.log(1e3))
        theirs_greedy = (math.sqrt(root * root + rank * 0.1) - root) / rank / 2.0
        theirs = math.log1p(0.1 / (2.0 * (3.0 + math.log(1e3)))) / 3.0  # per gradient entry, in three steps
        selectors: dict[str, Callable[[int], Any]] = {
            "their greedy's rate": lambda s, limit=limit, rate=theirs_greedy: AtRate(limit, 1, rate, s),
            "their continuous greedy's rate, 3 steps": lambda s, limit=limit, rate=theirs: AtRate(
                limit, 3, rate, s
            ),
            "exponential picks": lambda s, limit=limit: ContinuousGreedy(limit, joining, seed=s),
            "exponential picks, 3 steps": lambda s, limit=limit: ContinuousGreedy(limit, joining, 3, seed=s),
            "gaussian gradients": lambda s, limit=limit: ContinuousGreedy(
                limit, joining, noise="gaussian", max_people=100, seed=s
            ),
            "laplace gradients": lambda s, limit=limit: ContinuousGreedy(
                limit, joining, noise="laplace", max_people=100, seed=s
            ),
            "private greedy": lambda s, limit=limit: PrivateGreedy(limit, joining, max_people=100, seed=s),
            "exponential picks, one replaced": lambda s, limit=limit: ContinuousGreedy(
                limit, exchanged, seed=s
            ),
            "private greedy, one replaced": lambda s, limit=limit: PrivateGreedy(limit, exchanged, seed=s),
        }
        values: dict[str, list[float]] = {name: [] for name in ("random", *selectors, "greedy, not private")}
        for run in range(runs):
            rng = np.random.default_rng(run)
            people = FacilityLocation(near[rng.choice(len(points), 100, replace=False)])
            values["random"].append(100 * people.value(rng.permutation(100)[:rank]))
            values["greedy, not private"].append(100 * people.value(greedy(people, rank)[0]))
            for name, make in selectors.items():
                values[name].append(100 * people.value(make(run).select(people).items))
        found[str(rank)] = values
    names = list(found["10"])
    rows = [[name, *(spread(found[str(rank)][name], 1) for rank in REPORTED)] for name in names]
    base, top = (np.array([np.mean(found[str(r)][n]) for r in REPORTED]) for n in (names[1], names[-1]))
    for name in ("exponential picks", "private greedy"):
        mine = np.array([np.mean(found[str(r)][name]) for r in REPORTED])
        rows.append([f"gap closed by {name}", *(f"{share:.0%}" for share in (mine - base) / (top - base))])
    for place, what in enumerate(("continuous greedy", "private greedy", "random", "greedy")):
        rows.append([f"reported there: {what}", *(f"{REPORTED[rank][place]:.1f}" for rank in REPORTED)])
    print(
        table(["100 pickups, epsilon 0.1, delta 0.001", *(f"rank {rank}" for rank in REPORTED)], rows), "\n"
    )
    return found


def clicks(folder: Path, runs: int) -> dict[str, dict[str, list[float]]]:
    people = eshop(folder)
    categories, prices = eshop_products(folder, people)
    constraints: dict[str, Constraint] = {
        "two of each category": PartitionMatroid(categories, 2),
        "prices up to 200": Knapsack(prices, 200.0),
    }
    found: dict[str, dict[str, list[float]]] = {}
    rows = []
    for name, constraint in constraints.items():
        selectors: dict[str, Callable[[int], Any]] = {
            "continuous greedy, not private": lambda s, c=constraint: ContinuousGreedy(c, FREE, 10, seed=s)
        }
        for epsilon in (0.1, 1.0):
            budget = dc.Budget(epsilon, 1e-6)
            for kind in (ContinuousGreedy, CurvatureGreedy, PrivateGreedy):
                selectors[f"{kind.__name__}, epsilon {epsilon:g}"] = (
                    lambda s, c=constraint, b=budget, kind=kind: kind(c, b, seed=s)
                )
            selectors[f"gaussian gradients, epsilon {epsilon:g}"] = lambda s, c=constraint, b=budget: (
                ContinuousGreedy(c, b, noise="gaussian", seed=s)
            )
        values: dict[str, list[float]] = {}
        for who, make in selectors.items():
            values[who] = []
            for run in range(runs):
                chosen = make(run).select(people)
                assert constraint.contains(chosen.items), f"{who} left {name}"
                values[who].append(people.value(chosen.items))
            rows.append([name, who, spread(values[who], 4)])
        found[name] = values
    print(table(["clicks: share served", "method", "mean ± deviation"], rows), "\n")
    return found


def noises(runs: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    rows = []
    for n_items in (50, 200, 1000):
        rng = np.random.default_rng(n_items)
        liking = np.sort(rng.random(n_items))[::-1] ** 4 * 0.3
        people = Coverage((rng.random((20_000, n_items)) < liking).astype(float))
        capped = people.cap_items(5, 0)
        constraint = PartitionMatroid(np.arange(n_items) % 4, 2)
        best = people.value(ContinuousGreedy(constraint, FREE, 10, seed=0).select(people).items)
        cases: dict[str, tuple[Population, dict[str, Any]]] = {
            "exponential": (people, {}),
            "exponential, gradient once per step": (people, {"update_within_steps": False}),
            "gaussian": (people, {"noise": "gaussian"}),
            "gaussian, 5 items a person": (capped, {"noise": "gaussian", "items_per_person": 5}),
            "laplace": (people, {"noise": "laplace"}),
        }
        values = {}
        for who, (given, options) in cases.items():
            start = time.perf_counter()
            values[who] = [
                people.value(
                    ContinuousGreedy(constraint, dc.Budget(1.0, 1e-6), seed=s, **options).select(given).items
                )
                / best
                for s in range(runs)
            ]
            seconds = (time.perf_counter() - start) / runs
            rows.append([f"{n_items}", who, spread(values[who]), f"{seconds:.2f}"])
        found[str(n_items)] = values
    print(table(["items", "noise, epsilon 1", "share of not private", "seconds per run"], rows), "\n")
    return found


def main() -> None:
    parser = arguments(__doc__, "needed")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs; nothing is stored")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="epsilon=.* is too small")
    less = 10 if options.quick else 1
    start = time.perf_counter()
    results = {
        "pickups": uber(options.folder, 400 // less),
        "clicks": clicks(options.folder, max(2, 10 // less)),
        "noise": noises(max(2, 10 // less)),
    }
    print(f"{time.perf_counter() - start:.0f} s")
    if options.quick:
        return
    summary = {
        part: {
            case: {
                who: {"mean": round(float(np.mean(v)), 4), "std": round(float(np.std(v)), 4), "runs": len(v)}
                for who, v in values.items()
            }
            for case, values in cases.items()
        }
        for part, cases in results.items()
    }
    store("continuous_greedy", summary)


if __name__ == "__main__":
    main()
