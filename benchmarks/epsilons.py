"""Share of people served against epsilon: published constants, the planner's choices, no privacy.

    python -m benchmarks.epsilons FOLDER

FOLDER is that of benchmarks/full_information.py; streams, k = 5 and delta are the same, the mean of 3
runs. Draws the README's picture (`tools.images`) and stores benchmarks/results/epsilons.json.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, eshop, msweb
from discreet.core.text import table
from discreet.objectives import Coverage, greedy
from discreet.online import HedgeSelector, PhasedSelector
from discreet.privacy.account import PublishedCalibrationWarning
from tools import images
from tools.results import store

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
K, DELTA, RUNS = 5, 1e-6, 3


def makers(people: Coverage, epsilon: float) -> dict[str, Callable[[int], Any]]:
    """The learners of one budget, by the names of the picture."""
    n, rounds, budget = people.n_items, len(people), dc.Budget(epsilon, DELTA)
    if math.isinf(epsilon):
        return {
            "PhasedSelector": lambda seed: PhasedSelector(n, K, budget, seed=seed),
            "HedgeSelector": lambda seed: HedgeSelector(n, K, rounds, budget, seed=seed),
        }
    plans = {stream: dc.plan(n, K, rounds, budget, stream=stream) for stream in ("adversarial", "stationary")}
    return {
        "published": lambda seed: HedgeSelector(n, K, rounds, budget, calibration="published", seed=seed),
        "any stream": lambda seed: plans["adversarial"].learner(seed=seed),
        "steady streams": lambda seed: plans["stationary"].learner(seed=seed),
    }


def shares(people: Coverage, epsilon: float) -> dict[str, list[float]]:
    """What each learner served, run by run."""
    found = {}
    for name, make in makers(people, epsilon).items():
        found[name] = [round(make(seed).run(people).average, 5) for seed in range(RUNS)]
    return found


def measure(people: Coverage) -> dict[str, Any]:
    """Every epsilon, and what does not depend on it."""
    coins = np.random.default_rng(1)
    at_random = [people.value(coins.permutation(people.n_items)[:K]) for _ in range(200)]
    found: dict[str, Any] = {
        "people": len(people),
        "items": people.n_items,
        "random": round(float(np.mean(at_random)), 5),
    }
    found["not private"] = shares(people, math.inf)
    found["greedy in hindsight"] = round(people.value(greedy(people, K)[0]), 5)
    found["private"] = {f"{epsilon:g}": shares(people, epsilon) for epsilon in EPSILONS}
    return found


def main() -> None:
    folder = arguments(__doc__, "needed").parse_args().folder
    warnings.simplefilter("ignore", PublishedCalibrationWarning)
    streams = {}
    for name, people in {"msweb": msweb(folder), "eshop_clicks": eshop(folder)}.items():
        streams[name] = found = measure(people)
        names = list(found["private"]["1"])
        rows = [[e, *(f"{np.mean(by[w]):.3f}" for w in names)] for e, by in found["private"].items()]
        free = {w: float(np.mean(v)) for w, v in found["not private"].items()}
        print(f"{name}: random {found['random']:.3f}, not private {free}")
        print(table(["epsilon", *names], rows), "\n", flush=True)
    settings = {"delta": DELTA, "neighbours": "replace", "k": K, "runs": RUNS}
    store("epsilons", {"settings": settings, "streams": streams})
    images.write()


if __name__ == "__main__":
    main()
