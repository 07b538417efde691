"""Growth of regret with the number of rounds: fitted exponents, and certificates beside measurements.

    python -m benchmarks.regret_growth [--most 1000000] [--runs 20]

For each learner and T from 10^3 to 10^6 the plain regret (against the best fixed set itself, not 1 - 1/e of
it) on a stream with fixed favourites, where a learner loses what its learning rate and noise make it lose;
the slope of a straight line through the points on a log-log scale is the exponent. Also the certified
(1 - 1/e)-regret and the measured one on each of the synthetic streams. Stores
benchmarks/results/regret_growth.json and, with matplotlib, docs/images/regret_growth.svg.
"""

from __future__ import annotations

import math
import time

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, growth_plot
from discreet.core.text import table
from discreet.evaluation.streams import STREAMS, favourites
from discreet.online import HedgeSelector, RunningSumSelector
from tools.results import exponent, store

ITEMS, K = 10, 2
BUDGET = dc.Budget(4.0, 1e-6)
FREE = dc.Budget(math.inf)

LEARNERS = {
    "Hedge, not private": lambda t, s: HedgeSelector(ITEMS, K, t, FREE, seed=s),
    "Hedge, tight account": lambda t, s: HedgeSelector(ITEMS, K, t, BUDGET, seed=s),
    "Hedge, published constants": lambda t, s: HedgeSelector(
        ITEMS, K, t, BUDGET, calibration="published", seed=s
    ),
    "running sums": lambda t, s: RunningSumSelector(ITEMS, K, t, BUDGET, resample_every=10, seed=s),
}


def growth(horizons: list[int], runs: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {name: {"rounds": [], "regret": []} for name in LEARNERS}
    for rounds in horizons:
        for name, make in LEARNERS.items():
            start = time.perf_counter()
            totals = []
            for seed in range(max(2, runs * 10_000 // rounds) if rounds > 10_000 else runs):
                people = favourites(rounds, ITEMS, np.random.default_rng(seed))
                totals.append(make(rounds, seed).run(people).regret(people, alpha=1.0).total)
            found[name]["rounds"].append(rounds)
            found[name]["regret"].append(float(np.mean(totals)))
            print(
                f"  {name}, T={rounds:,}: {np.mean(totals):,.1f} ({time.perf_counter() - start:.1f} s)",
                flush=True,
            )
    return found


def certificates(rounds: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for stream, make_people in STREAMS.items():
        people = make_people(rounds, ITEMS, np.random.default_rng(5))
        for name, make in LEARNERS.items():
            learner = make(rounds, 0)
            certified = learner.certified_regret
            measured = learner.run(people).regret(people)
            rows.append(
                {"stream": stream, "learner": name, "certified": certified, "measured": measured.upper}
            )
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="largest number of rounds")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    horizons = [t for t in (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000) if t <= options.most]
    found = growth(horizons, options.runs)
    slopes = {name: exponent(curve["rounds"], curve["regret"]) for name, curve in found.items()}
    print(table(["learner", "exponent"], [[name, f"{slope:.3f}"] for name, slope in slopes.items()]))
    rows = certificates(20_000)
    shown = [[r["stream"], r["learner"], f"{r['certified']:,.0f}", f"{r['measured']:,.0f}"] for r in rows]
    print(table(["stream (20,000 rounds)", "learner", "certified", "measured"], shown))
    store("regret_growth", {"growth": found, "exponents": slopes, "certificates": rows})
    title = "Regret with fixed favourites, epsilon 4"
    growth_plot(found, "regret_growth.svg", "regret against the best fixed set", title)


if __name__ == "__main__":
    main()
