"""Time whole streams over the number of items shown, k, in one run.

Time should grow no faster than k: an exponent of at most 1.1, and Hedge with k = 400 of 1,000 items in less
than 150 microseconds a round. People like 10 items each. Processor time, all sizes in turn, best of several
repeats.

    python -m benchmarks.set_sizes

The results go to benchmarks/results/set_sizes.json.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import Work, machine, race
from discreet.core.text import table
from tools.results import exponent, store

ITEMS, LIKED, HORIZON, REPEATS = 1000, 10, 100_000, 5
SIZES = (10, 20, 50, 100, 200, 400)
BUDGET = dc.Budget(1.0, 1e-6)
# Rounds of a stream, and the learner.
LEARNERS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "HedgeSelector, a new set every round": (
        1000,
        lambda k: dc.online.HedgeSelector(ITEMS, k, HORIZON, BUDGET),
    ),
    "RunningSumSelector, every 200 rounds": (
        4000,
        lambda k: dc.online.RunningSumSelector(ITEMS, k, HORIZON, BUDGET, resample_every=200),
    ),
    "RunningSumSelector, every 2,000 rounds": (
        8000,
        lambda k: dc.online.RunningSumSelector(ITEMS, k, HORIZON, BUDGET, resample_every=2000),
    ),
}


def microseconds(rounds: int, make: Callable[[int], Any]) -> list[float]:
    """Of a round, for every k."""
    rng = np.random.default_rng(0)
    liked = np.zeros((rounds, ITEMS))
    for row in liked:
        row[rng.choice(ITEMS, LIKED, replace=False)] = 1.0
    people = dc.objectives.Coverage(liked)

    def played(k: int) -> Work:
        learner = make(k)
        return lambda: learner.run(people)

    make(SIZES[0]).run(people)  # compiles
    best = race({str(k): (lambda k=k: played(k), rounds) for k in SIZES}, REPEATS)  # type: ignore[misc]
    return [1e6 * best[str(k)] for k in SIZES]


def main() -> int:
    found = {name: microseconds(*how) for name, how in LEARNERS.items()}
    rows = [
        [name, *(f"{one:.1f}" for one in times), f"{exponent(SIZES, times):.2f}"]
        for name, times in found.items()
    ]
    print(table(["microseconds a round", *(f"k = {k}" for k in SIZES), "exponent"], rows))
    store("set_sizes", {"machine": machine(), "items": ITEMS, "k": SIZES, "microseconds": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
