"""Time of a round of MetaFrankWolfe under general matroids of 300 items, beside an earlier version.

    python -m benchmarks.matroid_rounds [SOURCE]

SOURCE is the folder src of an earlier version: both take turns, in processes of their own, with the same
people and the same noise. Own CPU time; of every round the least over all turns, then the average of rounds.
Prints a table and writes benchmarks/results/matroid_rounds.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, in_version, machine
from discreet.online import MetaFrankWolfe
from tools.results import ROOT, store

N, WARM, TURNS = 300, 30, 2
ROUNDS = 3  # rounds of the last learner that count; the first learner, of few items, loads the loops
KINDS = ("graphic 100", "graphic 40", "transversal 10", "transversal 30", "linear 10")
REGULARIZERS = ("entropy", "euclidean")


def matroid(kind: str, n: int) -> dc.constraints.Matroid:
    """A random one; the number is that of vertices, sets or rows."""
    name, size, rng = kind.split()[0], int(kind.split()[1]), np.random.default_rng(0)
    if n < N:
        size = max(3, size // 4)
    if name == "graphic":
        pairs = [(a, b) for a in range(size) for b in range(a)]
        return dc.constraints.GraphicMatroid([pairs[i] for i in rng.choice(len(pairs), n, replace=False)])
    if name == "transversal":
        sets = [rng.choice(n, min(n, 3 * n // size), replace=False) for _ in range(size)]
        return dc.constraints.TransversalMatroid(sets, n_items=n)
    return dc.constraints.LinearMatroid(rng.integers(-3, 4, (size, n)))


def rounds(kind: str, regularizer: str, n: int, count: int) -> list[float]:
    """Seconds of each round."""
    rng = np.random.default_rng(1)
    popular = rng.permutation(1.0 / np.arange(1, n + 1) ** 0.7)
    people = dc.objectives.Coverage(
        (rng.random((count, n)) < np.minimum(0.9, 10 * popular / popular.sum())) * 1.0
    )
    budget = dc.Budget(1.0, 1e-6)
    learner = MetaFrankWolfe(matroid(kind, n), 100, budget, steps=4, regularizer=regularizer, seed=0)
    seconds = []
    for person in people:
        start = time.process_time()
        learner.choose()
        learner.learn(person)
        seconds.append(time.process_time() - start)
    return seconds


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="src of an earlier version")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        rounds(*asked.one, WARM, 20)
        print(json.dumps(rounds(*asked.one, N, ROUNDS + 1)[1:]))
        return
    versions = {"now": ROOT / "src"} | ({"before": asked.source} if asked.source else {})
    found = []
    for kind in KINDS:
        for regularizer in REGULARIZERS:
            turns: dict[str, list[list[float]]] = {name: [] for name in versions}
            for _ in range(TURNS):
                for name, source in versions.items():
                    turns[name].append(
                        in_version(source, "benchmarks.matroid_rounds", "--one", kind, regularizer)
                    )
            milliseconds = {name: 1e3 * float(np.min(t, axis=0).mean()) for name, t in turns.items()}
            row: dict[str, object] = {"matroid": kind, "regularizer": regularizer}
            row |= {f"{name}_ms": round(value, 2) for name, value in milliseconds.items()}
            if asked.source:
                row["times"] = round(milliseconds["before"] / milliseconds["now"], 1)
            print(row, flush=True)
            found.append(row)
    store("matroid_rounds", {"about": machine(), "rounds": found})


if __name__ == "__main__":
    main()
