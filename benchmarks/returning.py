"""Share of people served on streams with returning people: a divided budget against participation norms.

    python -m benchmarks.returning FOLDER

FOLDER holds the data sets of `benchmarks.full_information`. Who returns is synthetic, by a fixed seed, on
msweb and eshop_clicks: in "30 % return" every round is a return of some earlier visitor with chance 0.3,
and in "regulars" everybody comes some 20 times. In online_retail it is real: a round is an invoice, in order
of time, of a customer. Settings: k = 5, epsilon 1, delta 1e-6, one person replaced, the mean of 5 runs.

Each person's b rounds are protected together. The budget is divided by b; or a person counts once in a batch
and the noise is for the norm of b batches (``min_separation=1``), or of b batches at least 4 apart. With
b = 1 only the first round of a person counts. Prints a table and stores benchmarks/results/returning.json.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, eshop, msweb, table_rows
from discreet.core.text import table
from discreet.objectives import Coverage
from discreet.online import LeaderSelector, RunningSumSelector
from tools.results import store

K, RUNS, EVERY = 5, 5, 200
ROUNDS_EACH = (1, 2, 4, 8)
SEPARATIONS = (None, 1, 4)
Ids = list[int]


def some_return(rounds: int, chance: float = 0.3) -> Ids:
    """Who comes: somebody new, or with a chance one of those who have been here."""
    rng = np.random.default_rng(1)
    new = rng.random(rounds) >= chance
    new[0] = True
    known = np.cumsum(new)
    before = np.floor(rng.random(rounds) * known).astype(int)
    return np.where(new, known - 1, before).tolist()


def regulars(rounds: int, each: int = 20) -> Ids:
    """Who comes: one of a few, any of them."""
    return np.random.default_rng(1).integers(0, rounds // each, rounds).tolist()


def invoices(folder: Path) -> tuple[Coverage, Ids]:
    """Invoices of online_retail in the order in which they are listed, and whose they are."""
    rows = table_rows(folder, "online_retail/lines")
    bought = [r for r in rows if r["customer_id"] and not r["invoice"].startswith("C")]
    events = {name: [r[name] for r in bought] for name in ("invoice", "stock_code")}
    people = Coverage.from_events(events, person="invoice", item="stock_code")
    customers = {r["invoice"]: r["customer_id"] for r in bought}
    numbers = {customer: i for i, customer in enumerate(dict.fromkeys(customers.values()))}
    return people, [numbers[customer] for customer in customers.values()]


def learners(people: Coverage, budget: dc.Budget, apart: int | None) -> dict[str, Callable[[int], Any]]:
    shape = (people.n_items, K, len(people), budget)
    return {
        "LeaderSelector": lambda seed: LeaderSelector(*shape, min_separation=apart, seed=seed),
        "RunningSumSelector": lambda seed: RunningSumSelector(
            *shape, weights="norm", rate="falling", resample_every=EVERY, min_separation=apart, seed=seed
        ),
    }


def measure(people: Coverage, ids: Ids) -> dict[str, dict[str, list[float]]]:
    """Share served, by learner and by how a person's rounds are counted."""
    found: dict[str, dict[str, list[float]]] = {}
    for times in ROUNDS_EACH:
        budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=times)
        for apart in SEPARATIONS if times > 1 else (None,):
            how = "divided" if apart is None else f"{apart} apart"
            for name, make in learners(people, budget, apart).items():
                shares = [make(seed).run(people, person_ids=ids).average for seed in range(RUNS)]
                found.setdefault(name, {})[f"b = {times}, {how}"] = [round(share, 5) for share in shares]
    return found


def main() -> None:
    folder = arguments(__doc__, "needed").parse_args().folder
    streams = {}
    for name, people in (("msweb", msweb(folder)), ("eshop_clicks", eshop(folder))):
        streams[f"{name}, 30 % return"] = people, some_return(len(people))
        streams[f"{name}, regulars"] = people, regulars(len(people))
    streams["online_retail, customers"] = invoices(folder)
    results = {}
    for name, (people, ids) in streams.items():
        results[name] = {
            "rounds": len(people),
            "people": len(set(ids)),
            "most_rounds": int(np.bincount(ids).max()),
            "share_served": measure(people, ids),
        }
        print(name, {w: {h: np.mean(v).round(3) for h, v in by.items()} for w, by in
                     results[name]["share_served"].items()}, flush=True)  # fmt: skip
    ways = next(iter(next(iter(results.values()))["share_served"].values()))
    rows = [
        [name, learner, *(f"{np.mean(by[way]):.3f}" for way in ways)]
        for name, one in results.items()
        for learner, by in one["share_served"].items()
    ]
    print(table(["stream", "learner", *ways], rows))
    settings = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace", "k": K, "runs": RUNS, "batch": EVERY}
    store("returning", {"settings": settings} | results)


if __name__ == "__main__":
    main()
