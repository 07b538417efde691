"""Share of people served by one learner for all, one per segment, and one per segment with sharing.

    python -m benchmarks.segments [FOLDER]

Made-up people like each of 200 items independently, some 4 each, by Zipf's law (exponent 0.8). Tastes of
segments are alike; related (what an item is worth is multiplied by a log-normal factor of its own in each
segment); or different (the items in another order in each). Segments: 5 of 2,000 people; one of 10,000 and 4
of 300; 20 of 300. With FOLDER, which holds eshop_clicks and msweb (`benchmarks.full_information`): sessions
of eshop_clicks by country, as they are (Poland, Czech Republic, and the rest), and visitors of msweb in 8
parts at random, a synthetic attribute that says nothing about taste.

Settings: k = 5, delta 1e-6, one person replaced, `LeaderSelector` without a horizon, and
`RunningSumSelector(weights="norm")` on two of the streams. "short" shares, with a first batch that is shorter
by the root of the number of segments. Each figure is the share of all people served, and the mean of the
segments' shares. Prints a table and stores benchmarks/results/segments.json.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, eshop, msweb, table_rows
from discreet.core.text import table
from discreet.objectives import Coverage
from discreet.online import LeaderSelector, RunningSumSelector, Segments
from tools.results import store

K, N_ITEMS, EACH, RUNS = 5, 200, 4.0, 5
EPSILONS = (0.1, 1.0)
SIZES = {
    "5 of 2,000": [2000] * 5,
    "10,000 and 4 of 300": [10_000] + [300] * 4,
    "20 of 300": [300] * 20,
}
POLAND, CZECHIA = "29", "9"
Where = np.ndarray[Any, Any]


def tastes(kind: str, segments: int, rng: np.random.Generator) -> Where:
    """The chance that somebody of a segment likes an item, by segment."""
    falling = np.arange(1, N_ITEMS + 1) ** -0.8
    worth = np.tile(falling, (segments, 1))
    if kind == "related":
        worth *= np.exp(rng.normal(0.0, 1.0, worth.shape))
    if kind == "different":
        worth = rng.permuted(worth, axis=1)
    return np.minimum(EACH * worth / worth.sum(axis=1, keepdims=True), 0.6)


def made_up(kind: str, sizes: list[int], seed: int) -> tuple[Coverage, Where]:
    """People in a random order, and their segments."""
    rng = np.random.default_rng(seed)
    chances = tastes(kind, len(sizes), rng)
    where = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    likes = rng.random((where.size, N_ITEMS)) < chances[where]
    return Coverage(sp.csr_array(likes.astype(float))), where


def countries(folder: Path) -> tuple[Coverage, Where]:
    """Sessions of eshop_clicks in order, and where they come from."""
    rows = table_rows(folder, "eshop_clicks/clicks")
    country = {row["session_id"]: row["country"] for row in rows}  # sessions in the order of their clicks
    names = {POLAND: 0, CZECHIA: 1}
    return eshop(folder), np.array([names.get(one, 2) for one in country.values()])


def at_random(folder: Path) -> tuple[Coverage, Where]:
    """Visitors of msweb, in parts that say nothing about them."""
    people = msweb(folder)
    return people, np.random.default_rng(1).integers(0, 8, len(people))


def served(
    kind: Callable[..., Any], people: Coverage, where: Where, epsilon: float, seed: int
) -> dict[str, list[float]]:
    """The share served of all, and the mean over segments, by how segments are treated."""
    budget, count = dc.Budget(epsilon, 1e-6), int(where.max()) + 1
    make = partial(kind, people.n_items, K, None)
    usual = make(budget).settings.first_batch
    short = partial(make, first_batch=max(1, round(usual / math.sqrt(count))))
    rewards = {
        "one": make(budget, seed=seed).run(people).rewards,
        "alone": Segments(make, range(count), budget, share=False, seed=seed).run(people, where).rewards,
        "shared": Segments(make, range(count), budget, share=True, seed=seed).run(people, where).rewards,
        "short": Segments(short, range(count), budget, share=True, seed=seed).run(people, where).rewards,
    }
    return {
        way: [float(found.mean()), float(np.mean([found[where == s].mean() for s in range(count)]))]
        for way, found in rewards.items()
    }


def mean(runs: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    """The mean of runs."""
    return {way: np.mean([run[way] for run in runs], axis=0).round(4).tolist() for way in runs[0]}


def main() -> None:
    folder = arguments(__doc__, "optional").parse_args().folder
    sums = partial(RunningSumSelector, weights="norm")
    streams: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Coverage, Where]], int]] = {
        f"{kind}, {sizes}": (LeaderSelector, partial(made_up, kind, SIZES[sizes]), RUNS)
        for kind in ("alike", "related", "different")
        for sizes in SIZES
    }
    for kind in ("related", "different"):
        name = "10,000 and 4 of 300"
        streams[f"{kind}, {name}, RunningSumSelector"] = sums, partial(made_up, kind, SIZES[name]), 2
    if folder is not None:
        real = {"eshop_clicks by country": countries(folder), "msweb, 8 at random": at_random(folder)}
        streams |= {name: (LeaderSelector, lambda _, one=one: one, 2) for name, one in real.items()}
    results: dict[str, Any] = {}
    for name, (kind, people, runs) in streams.items():
        for epsilon in EPSILONS:
            found = mean([served(kind, *people(seed), epsilon, seed) for seed in range(runs)])
            results[f"{name}, epsilon {epsilon:g}"] = found
            print(name, epsilon, found, flush=True)
    ways = ("one", "alone", "shared", "short")
    rows = [
        [name, *(f"{found[way][0]:.3f} / {found[way][1]:.3f}" for way in ways)]
        for name, found in results.items()
    ]
    print(table(["stream", *ways], rows))
    settings = {"delta": 1e-6, "neighbours": "replace", "k": K, "runs": RUNS, "n_items": N_ITEMS}
    store("segments", {"settings": settings, "share_served": results})


if __name__ == "__main__":
    main()
