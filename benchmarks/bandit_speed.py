"""Time bandit learning beside NumPy written straight from paper 000, Algorithm 3, in one run.

Exploring in every round (exploration rate 1), which is what the published rate asks for at these sizes: every
round shows an exploring set, learns one number and draws a new set. People touch 50 items each. `run` takes a
whole stream; NumPy is timed on fewer rounds of the same stream, because its rounds all cost the same. Both in
processor time, best of several repeats, on one thread; read the ratios.

    python -m benchmarks.bandit_speed

The results go to benchmarks/results/bandit_speed.json.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet as dc
from benchmarks.shared import Work, machine, race, rows_of, sparse_stream, target
from discreet.core.text import table
from discreet.online import BanditSelector
from tools.results import store

RATE = 0.05
EXPLORATION_RATE = 1.0
# (items, slots, rounds of a run, rounds of NumPy, times faster than NumPy at least)
CASES = [
    (100, 5, 50_000, 2_000, 50.0),
    (10_000, 5, 50_000, 200, None),
    (1_000_000, 5, 50_000, 3, 5_000.0),
]
REPEATS = 7

Floats = NDArray[np.float64]


def paper(gains: Floats, people: list[set[int]], rng: np.random.Generator, lean: bool = False) -> float:
    """Algorithm 3 with exploration rate 1: explore, learn one number, draw every expert's item anew.

    ``lean`` tosses no coin and does not make the weights sum to 1: what somebody would write who counts
    NumPy calls.
    """
    k, n_items = gains.shape
    shown = [int(rng.integers(n_items)) for _ in range(k)]
    total = 0.0
    for likes in people:
        if not lean and rng.random() >= EXPLORATION_RATE:  # the paper's coin; heads in every round here
            continue
        expert, item = int(rng.integers(k)), int(rng.integers(n_items))
        value = float(any(a in likes for a in shown[:expert]) or item in likes)
        total += value
        gains[expert, item] += value
        for i in range(k):
            scores = RATE * gains[i]
            chances = np.exp(scores - scores.max())
            if not lean:
                chances /= chances.sum()
            borders = np.cumsum(chances)
            shown[i] = int(np.searchsorted(borders, rng.random() * borders[-1] if lean else rng.random()))
    return total


def learner(n_items: int, k: int, rounds: int) -> BanditSelector:
    """Ready to go: compiled, its tree built."""
    made = BanditSelector(
        n_items,
        k,
        rounds,
        dc.Budget(math.inf),
        exploration="every_round",
        exploration_rate=EXPLORATION_RATE,
        rate=RATE,
    )
    made.choose()
    return made


def compare(n_items: int, k: int, rounds: int, few: int, floor: float | None) -> dict[str, Any]:
    people = sparse_stream(n_items, rounds)
    rows = [set(row.tolist()) for row in rows_of(people, few)]
    rng = np.random.default_rng(0)
    learner(n_items, k, rounds).run(people[:10])

    def ours() -> Work:
        made = learner(n_items, k, rounds)
        return lambda: made.run(people)

    def theirs(lean: bool) -> Work:
        gains = np.full((k, n_items), 0.0)  # memory is there before the clock starts
        return lambda: paper(gains, rows, rng, lean)

    rivals = {
        "run": (ours, rounds),
        "paper": (lambda: theirs(False), few),
        "lean": (lambda: theirs(True), few),
    }
    best = race(rivals, REPEATS)
    return {
        "items": n_items,
        "slots": k,
        "run_us": round(1e6 * best["run"], 3),
        "numpy_us": round(1e6 * best["paper"], 1),
        "lean_numpy_us": round(1e6 * best["lean"], 1),
        "ratio": round(best["paper"] / best["run"], 1),
        "lean_ratio": round(best["lean"] / best["run"], 1),
        "floor": floor,
    }


def main() -> None:
    if os.environ.get("OMP_NUM_THREADS") != "1":
        print("set OMP_NUM_THREADS=1 for one thread on both sides", file=sys.stderr)
    found = [compare(*case) for case in CASES]
    rows = [
        [
            f"{one['items']:,}",
            str(one["slots"]),
            f"{one['numpy_us']:,.0f}",
            f"{one['run_us']:.2f}",
            f"{one['ratio']:,.0f}{target(one['ratio'], one['floor'], digits=0)}",
            f"{one['lean_ratio']:,.0f}",
        ]
        for one in found
    ]
    columns = [
        "items",
        "slots",
        "NumPy, us per round",
        "run, us per round",
        "times faster",
        "than lean NumPy",
    ]
    print(table(columns, rows))
    store("bandit_speed", machine() | {"cases": found})


if __name__ == "__main__":
    main()
