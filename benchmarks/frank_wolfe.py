"""Meta-Frank-Wolfe: one item per category on a real stream, and budget allocation as the stream grows.

    python -m benchmarks.frank_wolfe FOLDER

FOLDER holds msweb/visits.csv.gz (user_id, item_id). Sets: areas fall into five categories (their number
modulo 5), one area of each is shown; share of 32,710 visitors (random order, fixed seed) who find one of
interest; delta 1e-6, one person replaced, three items counted per visitor, a new set every 100 rounds.
Points: spending on ten channels within a budget, regret against the best fixed allocation (alpha = 1) for
streams of several lengths. With pure epsilon these streams are too short for it: noise hides everybody, and
regret grows in proportion to the rounds (exponent 1). Prints tables, stores
benchmarks/results/frank_wolfe.json and docs/images/frank_wolfe.png.
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, growth_plot, msweb, target
from discreet.constraints import Knapsack, PartitionMatroid
from discreet.core.text import table
from discreet.evaluation import best_fixed_set
from discreet.objectives import BudgetAllocation, Coverage
from discreet.online import LeaderSelector, MetaFrankWolfe, MetaFrankWolfePoints
from discreet.privacy.account import PublishedCalibrationWarning
from tools.results import exponent, store

DELTA, RUNS, CAP, EVERY = 1e-6, 3, 3, 100
FLOORS = {"4 steps, epsilon 1": 0.50, "LeaderSelector, epsilon 1": 0.678}
EPSILONS = (0.1, 1.0, math.inf)
CHANNELS, LENGTHS = 10, (500, 1000, 2000, 4000, 8000)


def share_served(people: Coverage) -> dict[str, dict[str, object]]:
    blocks = PartitionMatroid(np.arange(people.n_items) % 5, 1)
    found: dict[str, dict[str, object]] = {}

    def measure(
        name: str,
        epsilon: float,
        stream: Coverage = people,
        runs: int = RUNS,
        delta: float = DELTA,
        **options: object,
    ) -> None:
        start, shares = time.perf_counter(), []
        for seed in range(runs):
            settings = {"items_per_person": CAP, "resample_every": EVERY, "steps": 4} | options
            learner = MetaFrankWolfe(blocks, len(stream), dc.Budget(epsilon, delta), seed=seed, **settings)
            shares.append(learner.run(stream).average)
        seconds = (time.perf_counter() - start) / runs
        found[f"{name}, epsilon {epsilon:g}"] = {
            "share": shares,
            "account": None if math.isinf(epsilon) else learner.privacy.epsilon(delta),
            "rate": learner.rate,
            "seconds": seconds,
        }
        print(f"  {name}, epsilon {epsilon:g}: {np.mean(shares):.4f} ({seconds:.1f} s)", flush=True)

    for steps in (1, 2, 4, 8):
        for epsilon in EPSILONS:
            measure(f"{steps} steps", epsilon, steps=steps)
    measure("automatic steps", 1.0, steps="auto")
    measure("4 steps, all items counted", 1.0, items_per_person=None)
    measure("4 steps, a new set every 300 rounds", 1.0, resample_every=300)
    measure("4 steps, curvature-aware", 1.0, curvature=True)
    for epsilon in EPSILONS:  # three items counted: the Euclidean leader certifies less and is the default
        measure("4 steps, entropic", epsilon, regularizer="entropy")
    measure("4 steps, pure epsilon (Laplace tree)", 1.0, delta=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        published = {"items_per_person": None, "resample_every": 1, "calibration": "published"}
        first = people[:3000]  # every round of the tree is drawn; the noise hides all of them
        measure("4 steps, published constants (paper 003), 3,000 visitors", 1.0, first, 1, **published)

    for epsilon in EPSILONS[:-1]:
        budget = dc.Budget(epsilon, DELTA)
        leaders = [
            LeaderSelector(people.n_items, None, len(people), budget, constraint=blocks, seed=seed)
            for seed in range(RUNS)
        ]
        shares = [learner.run(people).average for learner in leaders]
        found[f"LeaderSelector, epsilon {epsilon:g}"] = {"share": shares}
        print(f"  LeaderSelector, epsilon {epsilon:g}: {np.mean(shares):.4f}", flush=True)

    rng = np.random.default_rng(1)
    bases = [np.flatnonzero(blocks.maximize(rng.random(people.n_items))) for _ in range(200)]
    popular = np.flatnonzero(blocks.maximize(people.gains([])))
    state = people.start()
    while (free := blocks.addable(state.items)).any():
        state.add(int(np.argmax(np.where(free, state.gains(), -1.0))))
    for name, shares in (
        ("random items, one of each", [people.value(base) for base in bases]),
        ("most popular of each in hindsight", [people.value(popular)]),
        ("greedy in hindsight, one of each", [state.value]),
        ("best set in hindsight, one of each", [people.value(best_fixed_set(people, blocks)[0])]),
    ):
        found[name] = {"share": shares}
    return found


def published_levels() -> dict[str, float]:
    """One expert's epsilon of paper 003, claimed and by the library's account."""
    ratios = {}
    for rounds in (1000, 10_000, 100_000, 1_000_000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            learner = MetaFrankWolfe(
                PartitionMatroid([[0, 1], [2, 3]], 1),
                rounds,
                dc.Budget(1.0, DELTA),
                steps=4,
                calibration="published",
                seed=0,
            )
        assert learner.claimed_expert_epsilon is not None
        ratios[str(rounds)] = learner.expert_epsilon / learner.claimed_expert_epsilon
    return ratios


def best_point(people: BudgetAllocation, budget: Knapsack) -> float:
    """The best average value: these functions are concave, so projected ascent finds it."""
    x = np.zeros(people.dimension)
    for _ in range(1000):
        x = budget.project_euclidean(x + 0.5 * people.gradient(x)).x
    return people.value(x)


def regret_growth() -> dict[str, dict[str, object]]:
    rng = np.random.default_rng(2)
    likes = rng.dirichlet(np.full(CHANNELS, 0.15) + np.linspace(0.0, 0.6, CHANNELS) ** 2, LENGTHS[-1])
    everybody = BudgetAllocation(-np.expm1(-likes), total=1.0 + 1e-9)
    budget = Knapsack(np.full(CHANNELS, 1.0), 3.0)
    kinds = {
        "not private": (dc.Budget(math.inf), {}),
        "epsilon 1, delta 1e-6": (dc.Budget(1.0, DELTA), {}),
        "epsilon 1 (pure)": (dc.Budget(1.0), {}),
    }
    found: dict[str, dict[str, object]] = {}
    for name, (bound, options) in kinds.items():
        regrets, certified = [], []
        for length in LENGTHS:
            people = everybody[:length]
            learner = MetaFrankWolfePoints(
                budget,
                length,
                bound,
                steps=4,
                gradient_bound=1.0,
                smoothness=1.0,
                seed=3,
                **options,
            )
            trace = learner.run(people)
            regrets.append(best_point(people, budget) * length - trace.total)
            certified.append(learner.certified_regret)
        slope = exponent(LENGTHS, np.maximum(regrets, 1e-9))
        found[name] = {"regret": regrets, "certified": certified, "exponent": slope}
        print(f"  {name}: regret {np.round(regrets, 1).tolist()}, exponent {slope:.2f}", flush=True)
    return found


def plot(growth: dict[str, dict[str, object]]) -> None:
    curves = {name: curve | {"rounds": LENGTHS} for name, curve in growth.items()}
    title = f"Meta-Frank-Wolfe on budget allocation, {CHANNELS} channels"
    growth_plot(curves, "frank_wolfe.png", "regret against the best fixed allocation", title, guide=2.0)


def main() -> None:
    people = msweb(arguments(__doc__, "needed").parse_args().folder)
    print(f"msweb, one of each category: {people}", flush=True)
    shares = share_served(people)
    print("budget allocation:", flush=True)
    growth = regret_growth()
    levels = published_levels()
    rows = []
    for name, record in shares.items():
        values = record["share"]
        account = record.get("account")
        mark = target(float(np.mean(values)), FLOORS.get(name), digits=3)
        rows.append([name, f"{np.mean(values):.3f}{mark}", "" if account is None else f"{account:.4f}"])
    print()
    print(table(["learner", "share served", "epsilon of the account"], rows))
    print(
        "\none expert of paper 003, true epsilon over claimed:", {k: round(v, 3) for k, v in levels.items()}
    )
    record = {
        "settings": {"delta": DELTA, "neighbours": "replace", "runs": RUNS, "cap": CAP, "every": EVERY},
        "share_served": {
            name: r | {"share": [round(float(v), 5) for v in r["share"]][:RUNS]} for name, r in shares.items()
        },
        "regret_growth": {"rounds": LENGTHS, **growth},
        "published_expert_epsilon_ratio": levels,
    }
    store("frank_wolfe", record)
    plot(growth)


if __name__ == "__main__":
    main()
