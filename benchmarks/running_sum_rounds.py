"""Time of a round of RunningSumSelector that draws a new set every round, beside an earlier version.

    python -m benchmarks.running_sum_rounds [SOURCE]

SOURCE is the folder src of an earlier version: both take turns, in processes of their own, with the same
people. What docs/benchmarks.md calls "before" is b1b3807^ (`git worktree add --detach FOLDER b1b3807^`). k is
10, people have 5 items each, noise is secure and for 20,000 rounds, of which the first ones are played. CPU
time of whole streams, the least of all turns. Prints a table and writes
benchmarks/results/running_sum_rounds.json.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, cpu_seconds, in_version, machine
from tools.results import ROOT, store

K, EACH, HORIZON, TURNS, REPEATS = 10, 5, 20_000, 4, 3
ROUNDS = {300: 2000, 10_000: 100}
LEAST = {300: 5.0, 10_000: 3.0}  # times faster


def microseconds(n: int) -> float:
    """Of a round: the least of several streams, after one that loads or compiles the loops."""
    rng, count = np.random.default_rng(0), ROUNDS[n]
    liked = np.concatenate([np.sort(rng.choice(n, EACH, replace=False)) for _ in range(count)])
    starts = np.arange(0, liked.size + 1, EACH)
    people = dc.objectives.Coverage(sp.csr_matrix((np.ones(liked.size), liked, starts), shape=(count, n)))
    best = math.inf
    for turn in range(REPEATS + 1):
        budget = dc.Budget(1.0, 1e-6)
        learner = dc.online.RunningSumSelector(n, K, HORIZON, budget, resample_every=1)
        learner.choose()
        seconds = cpu_seconds(lambda learner=learner: learner.run(people))  # type: ignore[misc]
        best = min(best, seconds if turn else math.inf)
    return 1e6 * best / count


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="src of an earlier version")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(microseconds(asked.one)))
        return
    versions = {"now": ROOT / "src"} | ({"before": asked.source} if asked.source else {})
    found = []
    for n in ROUNDS:
        turns = [
            {
                name: in_version(source, "benchmarks.running_sum_rounds", "--one", str(n))
                for name, source in versions.items()
            }
            for _ in range(TURNS)
        ]
        row = {"items": n} | {f"{name}_us": round(min(t[name] for t in turns), 1) for name in versions}
        if asked.source:
            row |= {"times": round(row["before_us"] / row["now_us"], 2), "wanted": LEAST[n]}
            row |= {"times_each_turn": [round(t["before"] / t["now"], 2) for t in turns]}
        print(row, flush=True)
        found.append(row)
    store("running_sum_rounds", {"about": machine(), "rounds": found})


if __name__ == "__main__":
    main()
