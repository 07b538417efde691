"""The demonstration behind ``discreet demo``: made-up visitors, private jobs, their accounts."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _checks
from ._table import table
from .evaluation.streams import product_display
from .objectives import greedy
from .online import HedgeSelector, OnlineSelector, PhasedSelector
from .planning import plan
from .privacy import Budget, ExponentialChoice, FactorizedSum, Gate, RunningSum, ScoreChange, TreeSum

SHOPPERS, PRODUCTS, SLOTS = 30_000, 200, 5
STEADY = "planner's choice for steady streams"
PAGES = ("start", "offers", "shoes", "coats", "tents", "maps", "books", "help")
VISITORS = 5_000


def show(epsilon: float, delta: float, seed: int | None) -> None:
    """Print the demonstration."""
    budget = Budget(_checks.real("epsilon", epsilon, above=0.0), delta)
    print(
        f"Everything below is made-up data. Each job promises each person epsilon {epsilon:g} and delta"
        f" {delta:g}:\nexchanging them for anybody else changes what is shown by no more than that."
    )
    _shop(budget, seed)
    visits = _visits()
    _choice(visits, budget, seed)
    _running_sum(visits, budget, seed)


def _shop(budget: Budget, seed: int | None) -> None:
    """The main job: five products for every shopper, chosen before the shopper is seen."""
    people = product_display(SHOPPERS, PRODUCTS, np.random.Generator(np.random.PCG64(1)))
    question: dict[str, Any] = {"n_items": PRODUCTS, "k": SLOTS, "rounds": SHOPPERS, "budget": budget}
    print(
        f"\n1. A shop: {SLOTS} of {PRODUCTS} products on display for each of {SHOPPERS:,} shoppers, who come"
        " in clusters of taste"
    )
    steady = plan(**question, stream="stationary")
    learners: dict[str, OnlineSelector] = {}
    if budget.delta:
        published = HedgeSelector(PRODUCTS, SLOTS, SHOPPERS, budget, calibration="published", seed=seed)
        learners["published constants (paper 000, Algorithm 2)"] = published
    learners |= {
        "planner's choice for any stream": plan(**question, items_per_person=3).learner(seed=seed),
        STEADY: steady.learner(seed=seed),
        "not private: the same": PhasedSelector(PRODUCTS, SLOTS, Budget(math.inf), seed=0),
        "not private: Hedge": HedgeSelector(PRODUCTS, SLOTS, SHOPPERS, Budget(math.inf), seed=0),
    }
    coins = np.random.Generator(np.random.PCG64(3))
    random = float(np.mean([people.value(coins.permutation(PRODUCTS)[:SLOTS]) for _ in range(100)]))
    rows = [["a random set", "", f"{random:.3f}", ""]]
    for name, learner in learners.items():
        start = time.perf_counter()
        _say(f"  {name} ...")
        average = learner.run(people).average
        seconds = f"{time.perf_counter() - start:.1f}"
        rows.append([name, type(learner).__name__, f"{average:.3f}", seconds])
    _say("")
    popular = np.argsort(-people.gains([]), kind="stable")[:SLOTS]
    rows.append(["in hindsight: the most popular", "", f"{people.value(popular):.3f}", ""])
    rows.append(["in hindsight: greedy", "", f"{people.value(greedy(people, SLOTS)[0]):.3f}", ""])
    print("\n" + table(["who chooses", "learner", "share who take something", "seconds"], rows, indent="  "))
    print(f"\n{learners[STEADY].privacy}")


def _say(what: str) -> None:
    """What is being worked on, on a terminal only; each line takes the place of the one before."""
    if sys.stderr.isatty():
        print(what.ljust(60), end="\r", file=sys.stderr, flush=True)


def _visits() -> NDArray[np.float64]:
    """Who opened what; public made-up data, so an ordinary fixed seed will do."""
    popularity = np.array([0.52, 0.31, 0.30, 0.22, 0.12, 0.09, 0.08, 0.05])
    coins = np.random.Generator(np.random.PCG64(2)).random((VISITORS, len(PAGES)))
    return (coins < popularity).astype(np.float64)


def _choice(visits: NDArray[np.float64], budget: Budget, seed: int | None) -> None:
    gate = Gate(budget, seed)
    counts = visits.sum(axis=0)  # whole numbers: one visitor moves each count by at most one, exactly
    picks = 3
    event = ExponentialChoice.within(budget.share(), ScoreChange(1.0).range, picks)
    print(f"\n2. A private choice: {picks} pages to feature\n")
    rows, left = [], list(range(len(PAGES)))
    for place in range(picks):
        index = left[gate.choose(counts[left], event.rate, ScoreChange(1.0), label=f"pick {place + 1}")]
        left.remove(index)
        rows.append([str(place + 1), PAGES[index]])
    print(table(["place", "page"], rows, indent="  "))
    print(f"\n{gate.spent}")


def _running_sum(visits: NDArray[np.float64], budget: Budget, seed: int | None) -> None:
    print("\n3. A private running sum: visits per page, after every single visitor\n")
    options: dict[str, Any] = {"box": (0.0, 1.0), "seed": seed}
    shape = (len(PAGES), VISITORS, budget)
    noise = "gaussian" if budget.delta else "laplace"  # without a delta only Laplace noise will do
    sums: dict[str, RunningSum] = {
        "binary tree (papers 001, 004; right sensitivity)": TreeSum(*shape, noise=noise, **options),
        "binary tree, halves combined (Honaker)": TreeSum(*shape, noise=noise, honaker=True, **options),
    }
    if budget.delta:
        sums["square-root factorisation"] = FactorizedSum(*shape, **options)
    truth = visits.cumsum(axis=0)
    rows = []
    for name, total in sums.items():
        answers = np.array([total.add(visit) for visit in visits])
        rows.append([name, f"{np.abs(answers - truth).mean():,.0f}", f"{total.noise_std(VISITORS):,.0f}"])
    header = ["how", "mean error of a count", "its standard deviation at the end"]
    print(table(header, rows, indent="  "))
    last = answers[-1].round().astype(int).tolist()
    print(f"\n  true counts at the end (made-up data): {truth[-1].astype(int).tolist()}")
    print(f"  released by the last way above:        {last}")
    print(f"\n{total.gate.spent}")
