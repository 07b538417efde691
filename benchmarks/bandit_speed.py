"""Time bandit learning beside NumPy written straight from paper 000, Algorithm 3, in one run.

Exploring in every round (exploration rate 1), which is what the published rate asks for at these sizes: every
round shows an exploring set, learns one number and draws a new set. People touch 50 items each. `run` takes a
whole stream; NumPy is timed on fewer rounds of the same stream, because its rounds all cost the same. Both in
processor time, best of several repeats, on one thread; read the ratios.

    python benchmarks/bandit_speed.py

The results go to benchmarks/results/bandit_speed.json.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import discreet as dc
from discreet.core.table import table
from discreet.objectives import Coverage
from discreet.online import BanditSelector

RESULTS = Path(__file__).parent / "results" / "bandit_speed.json"
EACH = 50
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


def stream(n_items: int, rounds: int) -> Coverage:
    """People with ``EACH`` distinct items, sorted."""
    rng = np.random.default_rng(n_items)
    items = np.sort(rng.integers(0, n_items - EACH + 1, (rounds, EACH)), axis=1) + np.arange(EACH)
    ends = np.arange(0, rounds * EACH + 1, EACH)
    return Coverage(sp.csr_array((np.ones(items.size), items.ravel(), ends), shape=(rounds, n_items)))


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


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process: other work on the machine does not count, on either side."""
    start = time.process_time()
    work()
    return time.process_time() - start


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
    people = stream(n_items, rounds)
    rows = [set(people.indices[people.indptr[t] : people.indptr[t + 1]].tolist()) for t in range(few)]
    rng = np.random.default_rng(0)
    learner(n_items, k, rounds).run(people[:10])
    ours, theirs, leaner = math.inf, math.inf, math.inf
    for _ in range(REPEATS):
        made = learner(n_items, k, rounds)
        ours = min(ours, seconds(lambda made=made: made.run(people)) / rounds)
        gains = np.zeros((k, n_items))
        theirs = min(theirs, seconds(lambda gains=gains: paper(gains, rows, rng)) / few)
        leaner = min(leaner, seconds(lambda gains=gains: paper(gains, rows, rng, lean=True)) / few)
    return {
        "items": n_items,
        "slots": k,
        "run_us": round(1e6 * ours, 3),
        "numpy_us": round(1e6 * theirs, 1),
        "lean_numpy_us": round(1e6 * leaner, 1),
        "ratio": round(theirs / ours, 1),
        "lean_ratio": round(leaner / ours, 1),
        "floor": floor,
    }


def main() -> None:
    if os.environ.get("NUMBA_NUM_THREADS") != "1":
        print("set NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 for one thread on both sides", file=sys.stderr)
    found = [compare(*case) for case in CASES]
    rows = [
        [
            f"{one['items']:,}",
            str(one["slots"]),
            f"{one['numpy_us']:,.0f}",
            f"{one['run_us']:.2f}",
            f"{one['ratio']:,.0f}",
            f"{one['lean_ratio']:,.0f}",
            ""
            if one["floor"] is None
            else f"{one['floor']:,.0f}{'' if one['ratio'] >= one['floor'] else ' MISSED'}",
        ]
        for one in found
    ]
    columns = ["items", "slots", "NumPy, us a round", "run, us a round", "times faster", "than lean NumPy"]
    print(table([*columns, "floor"], rows))
    RESULTS.parent.mkdir(exist_ok=True)
    record = {"python": platform.python_version(), "numpy": np.__version__, "cases": found}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nstored in {RESULTS.name}")


if __name__ == "__main__":
    main()
