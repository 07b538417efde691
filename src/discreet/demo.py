"""The demonstration behind ``discreet demo``: made-up visitors, two private jobs, their accounts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._table import table
from .privacy import Budget, ExponentialChoice, FactorizedSum, Gate, RunningSum, ScoreChange, TreeSum

PAGES = ("start", "offers", "shoes", "coats", "tents", "maps", "books", "help")
VISITORS = 20_000


def show(epsilon: float, delta: float, seed: int | None) -> None:
    """Print the demonstration."""
    visits = _visits()
    budget = Budget(epsilon, delta)
    print(
        f"{VISITORS:,} made-up visitors, each opening some of {len(PAGES)} pages. Every job below promises\n"
        f"each visitor epsilon {epsilon:g} and delta {delta:g}: exchanging them for anybody else changes\n"
        "what is shown by no more than that."
    )
    _choice(visits, budget, seed)
    _running_sum(visits, budget, seed)


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
    print(f"\n1. A private choice: {picks} pages to feature\n")
    rows, left = [], list(range(len(PAGES)))
    for place in range(picks):
        index = left[gate.choose(counts[left], event.rate, ScoreChange(1.0), label=f"pick {place + 1}")]
        left.remove(index)
        rows.append([str(place + 1), PAGES[index]])
    print(table(["place", "page"], rows, indent="  "))
    print(f"\n{gate.spent}")


def _running_sum(visits: NDArray[np.float64], budget: Budget, seed: int | None) -> None:
    print("\n2. A private running sum: visits per page, after every single visitor\n")
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
