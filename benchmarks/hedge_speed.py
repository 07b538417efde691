"""Time Hedge with full information beside NumPy written straight from paper 000, Algorithm 2, in one run.

People touch 50 items each, anywhere in the catalogue (the worst case for caches). `run` takes a whole stream;
NumPy is timed on fewer rounds of the same stream, because its rounds all cost the same. Both sides are timed
in turn, in processor time, best of several repeats, on one thread; read the ratios.

Three NumPy versions: "choice" says what the pseudo-code says, expert by expert, with gain vectors over all
items, and draws by `Generator.choice`; "paper" is the same but draws by inverting the distribution itself,
which is faster, and is what the floors are held against; "tuned" does all experts at once and touches only
the person's items.

    python -m benchmarks.hedge_speed

The results go to benchmarks/results/hedge_speed.json.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet as dc
from benchmarks.shared import EACH, Work, machine, pyplot, race, rows_of, save, sparse_stream
from discreet.core.text import table
from discreet.online.hedge import HedgeSelector
from tools.results import store

RATE = 0.05
# (items, slots, rounds of a run, rounds of NumPy, times faster than NumPy at least)
CASES = [
    (100, 5, 10_000, 300, None),
    (10_000, 5, 10_000, 60, 100.0),
    (10_000, 20, 5_000, 15, None),
    (1_000_000, 5, 10_000, 1, 2000.0),
    (1_000_000, 20, 3_000, 1, None),
]
GROWTH = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ONE_BY_ONE_US = 50.0
REPEATS = 9

Floats = NDArray[np.float64]


def paper(
    gains: Floats, people: list[NDArray[np.int32]], rng: np.random.Generator, choice: bool = False
) -> None:
    """Algorithm 2, line by line."""
    k, n_items = gains.shape
    for items in people:
        shown = []
        for i in range(k):
            scores = RATE * gains[i]
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            if choice:
                shown.append(int(rng.choice(n_items, p=chances)))
            else:
                shown.append(int(np.searchsorted(np.cumsum(chances), rng.random())))
        likes = np.zeros(n_items)
        likes[items] = 1.0
        served = 0.0
        for i in range(k):
            gains[i] += np.maximum(likes - served, 0.0)
            served = max(served, likes[shown[i]])


def tuned(gains: Floats, people: list[NDArray[np.int32]], rng: np.random.Generator) -> None:
    """The same, all experts at once where that works, and only the person's items touched."""
    k = gains.shape[0]
    for items in people:
        scores = RATE * gains
        borders = np.cumsum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
        targets = rng.random(k) * borders[:, -1]
        shown = [int(np.searchsorted(borders[i], targets[i])) for i in range(k)]
        liked = set(items.tolist())
        for i in range(k):
            gains[i, items] += 1.0
            if shown[i] in liked:
                break


def learner(n_items: int, k: int, rounds: int) -> HedgeSelector:
    """Ready to go: compiled, its tree built."""
    made = HedgeSelector(n_items, k, rounds, dc.Budget(math.inf), rate=RATE)
    made.choose()
    return made


def compare(n_items: int, k: int, rounds: int, few: int, floor: float | None) -> dict[str, Any]:
    people = sparse_stream(n_items, rounds)
    rows = rows_of(people, few)
    rng = np.random.default_rng(0)
    learner(n_items, k, rounds).run(people[:10])

    def ours() -> Work:
        made = learner(n_items, k, rounds)
        return lambda: made.run(people)

    def theirs(work: Any) -> Work:
        gains = np.full((k, n_items), 0.0)  # memory is there before the clock starts
        return lambda: work(gains, rows, rng)

    rivals = {"choice": partial(paper, choice=True), "paper": paper, "tuned": tuned}
    best = race({"run": (ours, rounds)} | {n: (partial(theirs, w), few) for n, w in rivals.items()}, REPEATS)
    return {
        "n_items": n_items,
        "k": k,
        "microseconds_per_round": {name: value * 1e6 for name, value in best.items()},
        "times_faster": {name: best[name] / best["run"] for name in rivals},
        "floor": floor,
    }


def one_by_one(n_items: int, k: int) -> float:
    """Microseconds of choose() and learn(person), best of several stretches."""
    rounds = 2_000
    people = list(sparse_stream(n_items, rounds))

    def served() -> Work:
        made = learner(n_items, k, rounds)

        def serve() -> None:
            for person in people:
                made.choose()
                made.learn(person)

        return serve

    return 1e6 * race({"": (served, rounds)}, REPEATS)[""]


def growth(k: int) -> list[dict[str, float]]:
    """Cost per round of a run over the size of the catalogue."""
    found = []
    for n_items in GROWTH:
        people = sparse_stream(n_items, 10_000)

        def run(n_items: int = n_items, people: Any = people) -> Work:
            made = learner(n_items, k, len(people))
            return lambda: made.run(people)

        best = race({"": (run, len(people))}, REPEATS)[""]
        found.append({"n_items": n_items, "microseconds_per_round": best * 1e6})
    return found


def plot(grown: list[dict[str, float]], slowest: list[dict[str, Any]]) -> None:
    """docs/images/hedge_cost.svg: a round's cost over the catalogue, ours beside the paper's loop."""
    if (plt := pyplot()) is None:
        return
    figure, axes = plt.subplots(figsize=(7, 4.5))
    sizes = [g["n_items"] for g in grown]
    axes.loglog(sizes, [g["microseconds_per_round"] for g in grown], marker="o", label="HedgeSelector.run")
    five = [r for r in slowest if r["k"] == 5]
    paper = [r["microseconds_per_round"]["paper"] for r in five]
    axes.loglog([r["n_items"] for r in five], paper, marker="s", label="NumPy, straight from the paper")
    steps = [math.log(n) / math.log(sizes[0]) * grown[0]["microseconds_per_round"] for n in sizes]
    axes.loglog(sizes, steps, linestyle=":", color="grey", label="in proportion to log n")
    title = f"Cost of a round, people with {EACH} items, k = 5"
    axes.set(xlabel="items in the catalogue", ylabel="microseconds per round", title=title)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    save(figure, "hedge_cost.svg")


def main() -> int:
    compared = [compare(*case) for case in CASES]
    single = one_by_one(10_000, 5)
    grown = growth(5)
    missed = [
        f"n={r['n_items']:,}, k={r['k']}: {r['times_faster']['paper']:,.0f}x of {r['floor']:,.0f}x"
        for r in compared
        if r["floor"] is not None and r["times_faster"]["paper"] < r["floor"]
    ]
    if single > ONE_BY_ONE_US:
        missed.append(f"one by one: {single:.1f} us")
    rows = [
        [
            f"{r['n_items']:,}",
            str(r["k"]),
            *(f"{value:,.1f}" for value in r["microseconds_per_round"].values()),
            *(f"{value:,.0f}x" for value in r["times_faster"].values()),
            "-" if r["floor"] is None else f"{r['floor']:,.0f}x",
        ]
        for r in compared
    ]
    names = ("choice", "paper", "tuned")
    header = ["items", "k", "run, us", *(f"{name}, us" for name in names), *names, "floor (paper)"]
    print(table(header, rows))
    print(f"\nchoose() + learn(), n=10,000, k=5: {single:.1f} us per round (at most {ONE_BY_ONE_US:g})")
    print("\nrun, k=5, over the catalogue:")
    print(
        table(
            ["items", "us per round"],
            [[f"{g['n_items']:,}", f"{g['microseconds_per_round']:.2f}"] for g in grown],
        )
    )
    about = machine() | {"items_per_person": EACH, "rate": RATE}
    print(f"load average {about['load']:.1f} on {about['cores']} cores")
    print("floors: " + ("all met" if not missed else "MISSED: " + "; ".join(missed)))
    record = {
        "about": about,
        "full_information": compared,
        "one_by_one_us": single,
        "growth": grown,
        "missed": missed,
    }
    store("hedge_speed", record)
    plot(grown, compared)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
