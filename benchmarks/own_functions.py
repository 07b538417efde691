"""Functions of one's own, private trees and costs of single points, beside an earlier version.

    python -m benchmarks.own_functions [SOURCE]

SOURCE is the folder src of an earlier version: both take turns, in processes of their own, with the same
people. What docs/benchmarks.md calls "before" is 9967b80 (`git worktree add --detach FOLDER 9967b80`). A
concave function in Python stands beside the square root by name: 1,000 people, 200 items, 20 of them each,
k = 5. CPU time of whole calls, the least of all turns, once loops are loaded. Prints a table and writes
benchmarks/results/own_functions.json.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, cpu_seconds, in_version, machine
from discreet.constraints.domains import Ball
from discreet.objectives import ConcaveOverModular, GraphCut, SetFunction
from discreet.objectives.losses import Linear
from tools.results import ROOT, store

N, PEOPLE, K, BOUND, TURNS = 200, 1_000, 5, 8.0, 2
ROUNDS, REPEATS = 2_000, {"before": 1, "now": 3}
MODULE = "benchmarks.own_functions"
LOOSE, PURE = dc.Budget(1.0, 1e-6), dc.Budget(1.0)


def root(total: Any) -> Any:
    """The square root, as a function of one's own."""
    return np.sqrt(total)


def likes(concave: Any) -> ConcaveOverModular:
    return ConcaveOverModular(
        sp.random_array((PEOPLE, N), density=0.1, rng=4, format="csr"), concave=concave, bound=BOUND
    )


def greedy(concave: Any) -> Callable[[], Any]:
    people, limit = likes(concave), dc.constraints.Cardinality(K)
    return lambda: dc.offline.PrivateGreedy(limit, LOOSE, bound=BOUND, seed=0).select(people)


def hedge(every: int, concave: Any) -> Callable[[], Any]:
    people, how = likes(concave), {"resample_every": every, "bound": BOUND, "seed": 0}
    return lambda: dc.online.HedgeSelector(N, K, PEOPLE, LOOSE, **how).run(people)


def phased(concave: Any) -> Callable[[], Any]:
    people = likes(concave)
    return lambda: dc.online.PhasedSelector(N, K, LOOSE, bound=BOUND, seed=0).run(people)


def minimizer(noise: str) -> Callable[[], Any]:
    rng, size = np.random.default_rng(0), 20
    arcs = np.triu(rng.random((ROUNDS, size, size)), 1) * (rng.random((ROUNDS, size, size)) < 0.05) * 0.1
    people = GraphCut(arcs, modular=rng.normal(size=(ROUNDS, size)) * 0.05, directed=True, bound=3.0)
    how = {"sums": "tree", "noise": noise, "seed": 0}
    return lambda: dc.online.SubmodularMinimizer(size, ROUNDS, PURE, 3.0, **how).run(people)


def costs() -> Linear:
    rows = np.random.default_rng(0).normal(size=(ROUNDS, 5))
    return Linear(rows / np.linalg.norm(rows, axis=1, keepdims=True), row_norm=1.0 + 1e-9)


def leader(kind: str, **how: Any) -> Callable[[], Any]:
    people, make = costs(), getattr(dc.online, kind)
    how |= {"lipschitz": 1.0 + 1e-9, "seed": 0}
    return lambda: make(Ball(5, 1.0), ROUNDS, PURE, **how).run(people)


def set_functions(size: int) -> Callable[[], Any]:
    rows = np.random.default_rng(1).random((20, size)) < 0.25

    def value(own: frozenset[int], chosen: frozenset[int]) -> float:
        return 1.0 - 0.5 ** len(own & chosen)

    functions = [partial(value, frozenset(np.flatnonzero(row).tolist())) for row in rows]
    people = SetFunction(functions, n_items=size, bound=1.0, monotone=True)
    limit = dc.constraints.Cardinality(4)
    return lambda: dc.offline.ContinuousGreedy(limit, LOOSE, 3, seed=0).select(people)


# What is timed: (how it is made, with a function of one's own or as it is; the same with a named function).
CASES: dict[str, tuple[Callable[[], Callable[[], Any]], Callable[[], Callable[[], Any]] | None]] = {
    f"{name}, a concave function": (partial(make, root), partial(make, "sqrt"))
    for name, make in {
        "PrivateGreedy": greedy,
        "PhasedSelector": phased,
        "HedgeSelector, a set for 10 rounds": partial(hedge, 10),
        "HedgeSelector, a new set every round": partial(hedge, 1),
    }.items()
} | {
    "SubmodularMinimizer, Laplace tree": (partial(minimizer, "laplace"), None),
    "SubmodularMinimizer, spherical tree": (partial(minimizer, "spherical"), None),
    "ApproximateLeader, spherical tree": (partial(leader, "ApproximateLeader"), None),
    "LinearLeader, spherical tree": (partial(leader, "LinearLeader"), None),
    "BanditApproximateLeader": (partial(leader, "BanditApproximateLeader", bound=1.1), None),
    "ContinuousGreedy, 20 set functions of 8 items": (partial(set_functions, 8), None),
    "ContinuousGreedy, 20 set functions of 30 items": (partial(set_functions, 30), None),
}


def seconds(make: Callable[[], Callable[[], Any]], repeats: int) -> float:
    """The least of several calls, after one that loads or compiles the loops."""
    work = make()
    work()
    return min(cpu_seconds(work) for _ in range(repeats))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="src of an earlier version")
    parser.add_argument("--one", choices=tuple(REPEATS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if asked.one:
        repeats = REPEATS[asked.one]
        print(
            json.dumps(
                {
                    name: [seconds(own, repeats), seconds(named, repeats) if named else math.nan]
                    for name, (own, named) in CASES.items()
                }
            )
        )
        return
    versions = {"now": ROOT / "src"} | ({"before": asked.source} if asked.source else {})
    turns = [
        {
            name: in_version(source, "benchmarks.own_functions", "--one", name)
            for name, source in versions.items()
        }
        for _ in range(TURNS)
    ]
    found = []
    for case in CASES:
        row: dict[str, Any] = {"case": case}
        for name in versions:
            row[f"{name}_ms"] = round(1e3 * min(turn[name][case][0] for turn in turns), 3)
            named = min(turn[name][case][1] for turn in turns)
            if math.isfinite(named):
                row[f"{name}_times_named"] = round(row[f"{name}_ms"] / (1e3 * named), 1)
        if asked.source:
            row["times"] = round(row["before_ms"] / row["now_ms"], 1)
        print(row, flush=True)
        found.append(row)
    store("own_functions", {"about": machine(), "rounds": ROUNDS, "cases": found})


if __name__ == "__main__":
    main()
