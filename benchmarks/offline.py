"""Offline selection on real data: private greedy beside other calibrations and greedy.

    python -m benchmarks.offline FOLDER [--quick]

FOLDER holds uber_pickups_2014/pickups.csv.gz (datetime, lat, lon), msweb/visits.csv.gz (user_id, item_id),
eshop_clicks/clicks.csv.gz (session_id, model, category, price) and online_retail/lines.csv.gz (invoice,
stock_code, quantity, customer_id) with items.csv.gz (stock_code). Prints tables and stores
benchmarks/results/offline.json; ``--quick`` makes a tenth of the runs and stores nothing.

Uber. The set-up of Chaturvedi, Nguyen and Zakynthinou (AAAI 2021), experiment 1, with the corners, grid and
normalizing distance of the code they published: 100 pickups in a quadrilateral around Manhattan, April 2014,
100 candidate places (a grid of 20, and the north corner 80 times), f(S) = sum over pickups of 1 - L1 distance
to the nearest place of S; epsilon .1, delta .001, 400 runs, a fresh sample in each. Their DP-greedy column
draws with weights exp(e f / 2), k e^2 + 2 e sqrt(2 k ln(1/delta)) = epsilon. Their sample of pickups is not
ours (nor are all bases of that month), so the figures they report stand beside, and only columns of one run
are compared. Corners, grid and norm are those of their code and not tuned here. The share of the gap that is
closed, from their DP-greedy to greedy, comes from ten times as many runs: at rank 25 the gap is four and a
half points wide, and over 400 runs the share's standard error is six hundredths. The floor of 45 % is met at
ranks 10 and 16. At 25 it is not: 42 %. Even one full epsilon on every pick, which no account allows, closes
50 % of it on these pickups.

Shares served. One person replaced, delta 1e-6. Popularity is what a careful person would publish without
submodularity: the k items with the largest counts, picked one after the other by the exponential mechanism on
counts with the bounded-range zCDP account, so that no cap on a person's items is needed. The calibration of
Mitrovic, Bun, Krause and Karbasi (2017) draws with exp(e f / 2), the larger e of epsilon / k and advanced
composition, k e^2 / 2 + e sqrt(2 k ln(1/delta)) = epsilon.
"""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet as dc
from benchmarks.shared import arguments, eshop, eshop_products, table_rows
from discreet.constraints import Constraint, Knapsack, PartitionMatroid
from discreet.core.text import table
from discreet.objectives import Coverage, FacilityLocation, greedy
from discreet.offline import PrivateGreedy
from discreet.privacy import picks as accounts
from tools.results import store

METHODS = ("basic", "zcdp", "decomposable", "subsampled", "auto")
RANKS = (10, 16, 25)
REPORTED = {
    "random": (72.32, 79.84, 84.17),
    "DP-greedy": (76.23, 79.99, 84.90),
    "private continuous greedy": (76.17, 81.65, 84.76),
    "greedy": (88.85, 88.85, 88.98),
}
CLOSED_FLOOR = 0.45
SERVED_FLOOR = 0.99
DELTA = 1e-6
# Corners of the quadrilateral around Manhattan, (lat, lon), and the normalizing distance, as in their code.
WEST, SOUTH, EAST, NORTH = np.array([[40.71315, -74.03], [40.7, -73.99197], [40.80, -73.93], [40.82, -73.96]])
NORM = max(
    float(np.abs(a - b).sum()) for a, b in ((NORTH, SOUTH), (EAST, WEST), (NORTH, WEST), (EAST, SOUTH))
)


# --- Uber -----------------------------------------------------------------------------------------


def pickups(folder: Path) -> NDArray[np.float64]:
    """Pickups of April 2014 inside the quadrilateral."""
    rows = table_rows(folder, "uber_pickups_2014/pickups")
    points = np.array([(float(r["lat"]), float(r["lon"])) for r in rows if r["datetime"][5:7] == "04"])
    corners = (WEST, SOUTH, EAST, NORTH)
    inside = np.ones(len(points), dtype=bool)
    for a, b in zip(corners, (*corners[1:], WEST), strict=True):
        along, there = b - a, points - a
        inside &= along[1] * there[:, 0] - along[0] * there[:, 1] > 0.0
    return points[inside]


def candidates() -> NDArray[np.float64]:
    """20 places in four rows of five along the south-east side, and the north corner 80 times more.

    Their code spaces the rows by 1/19 of the way from south to west, so the grid lies near that side; this is
    why greedy levels off below 90.
    """
    rows = np.arange(4)[:, None, None] / 19.0
    columns = np.arange(5)[None, :, None] / 4.0
    grid = SOUTH + (WEST - SOUTH) * rows + (EAST - SOUTH) * columns
    return np.vstack([grid.reshape(-1, 2), np.tile(NORTH, (80, 1))])


def their_rate(k: int, epsilon: float, delta: float) -> float:
    """Half of e, the positive root of k e^2 + 2 e sqrt(2 k ln(1/delta)) = epsilon."""
    linear = 2.0 * math.sqrt(2.0 * k * math.log(1.0 / delta))
    return (math.sqrt(linear**2 + 4.0 * k * epsilon) - linear) / (2.0 * k) / 2.0


def picked_at(
    people: FacilityLocation | Coverage, k: int, rate: float, rng: np.random.Generator
) -> list[int]:
    """k picks at any rate at all, by Gumbel noise: for calibrations that are not ours."""
    state = people.start()
    for _ in range(k):
        scores = state.gains() * (rate * len(people)) + rng.gumbel(size=people.n_items)
        scores[state.items] = -np.inf
        state.add(int(np.argmax(scores)))
    return state.items


def draw(
    points: NDArray[np.float64], places: NDArray[np.float64], rng: np.random.Generator
) -> FacilityLocation:
    """100 pickups, and what each place is worth to them."""
    sample = points[rng.choice(len(points), 100, replace=False)]
    distance = np.abs(sample[:, None] - places[None]).sum(axis=2) / NORM
    return FacilityLocation(np.clip(1.0 - distance, 0.0, 1.0))


def gap_closed(
    points: NDArray[np.float64], places: NDArray[np.float64], k: int, runs: int
) -> dict[str, tuple[float, float]]:
    """How much of the way from their DP-greedy to greedy ours goes on the same draws; its standard error."""
    budgets = {"auto": dc.Budget(0.1, 1e-3, "add_remove"), "auto, replace-one": dc.Budget(0.1, 1e-3)}
    values = np.empty((runs, 2 + len(budgets)))
    for run in range(runs):
        rng = np.random.default_rng([100 + k, run])
        people = draw(points, places, rng)
        sets = [picked_at(people, k, their_rate(k, 0.1, 1e-3), rng), greedy(people, k)[0]]
        sets += [
            PrivateGreedy(k, budget, max_people=100, seed=run).select(people).items
            for budget in budgets.values()
        ]
        values[run] = [100 * people.value(items) for items in sets]
    theirs, best, *ours = values.mean(axis=0)
    found = {}
    for place, who in enumerate(budgets):
        share = (ours[place] - theirs) / (best - theirs)
        # The share's own error: that of its numerator around share x denominator.
        off = values[:, 2 + place] - values[:, 0] - share * (values[:, 1] - values[:, 0])
        found[who] = (float(share), float(off.std() / math.sqrt(runs) / (best - theirs)))
    return found


def uber(folder: Path, runs: int) -> dict[str, Any]:
    points, places = pickups(folder), candidates()
    one_way = dc.Budget(0.1, 1e-3, "add_remove")
    replaced = dc.Budget(0.1, 1e-3, "replace")
    found: dict[str, dict[str, list[float]]] = {}
    used: dict[str, dict[str, str]] = {}
    for place, k in enumerate(RANKS):
        values: dict[str, list[float]] = {}
        chosen_by: dict[str, str] = {}
        for run in range(runs):
            rng = np.random.default_rng([place, run])
            people = draw(points, places, rng)
            sets: dict[str, Any] = {
                "random": rng.permutation(100)[:k],
                "DP-greedy (their calibration)": picked_at(people, k, their_rate(k, 0.1, 1e-3), rng),
            }
            for budget, note in ((one_way, ""), (replaced, ", replace-one")):
                for method in METHODS:
                    selector = PrivateGreedy(k, budget, method, max_people=100, seed=1000 * run + k)
                    sets[method + note] = selector.select(people).items
                    chosen_by[method + note] = str(selector.method_used)
            sets["greedy"] = greedy(people, k)[0]
            for who, items in sets.items():
                values.setdefault(who, []).append(100 * people.value(items))
        found[str(k)], used[str(k)] = values, {w: m for w, m in chosen_by.items() if w.startswith("auto")}
    who_chooses = list(found[str(RANKS[0])])
    rows = [
        [who, *(f"{np.mean(found[str(k)][who]):.2f} ({np.std(found[str(k)][who]):.2f})" for k in RANKS)]
        for who in who_chooses
    ]
    closed = {str(k): gap_closed(points, places, k, 10 * runs) for k in RANKS}
    rows += [[f"reported there: {who}", *(f"{v:.2f}" for v in values)] for who, values in REPORTED.items()]
    for who in ("auto", "auto, replace-one"):
        floor = CLOSED_FLOOR if who == "auto" else 0.0
        shares = [closed[str(k)][who] for k in RANKS]
        cells = [f"{100 * s:.0f} % (+-{100 * e:.0f}){' MISSED' if s < floor else ''}" for s, e in shares]
        rows.append([f"gap closed by {who}", *cells])
    print(f"\nUber: {len(points):,} pickups, 100 in each of {runs} runs; auto uses {used}")
    print(table(["method: mean (deviation)", *(f"rank {k}" for k in RANKS)], rows))
    return {
        "runs": runs,
        "mean": {k: {w: round(float(np.mean(v)), 3) for w, v in f.items()} for k, f in found.items()},
        "deviation": {k: {w: round(float(np.std(v)), 3) for w, v in f.items()} for k, f in found.items()},
        "gap_closed": {
            k: {w: [round(v, 3) for v in pair] for w, pair in c.items()} for k, c in closed.items()
        },
        "auto": used,
        "reported": REPORTED,
    }


# --- shares served --------------------------------------------------------------------------------


def populations(folder: Path) -> dict[str, Coverage]:
    catalogue = [row["stock_code"] for row in table_rows(folder, "online_retail/items")]
    kept = [
        (row["customer_id"], row["stock_code"])
        for row in table_rows(folder, "online_retail/lines")
        if row["customer_id"] and int(row["quantity"]) > 0 and not row["invoice"].startswith("C")
    ]
    bought = {"customer": [c for c, _ in kept], "item": [i for _, i in kept]}
    return {
        "msweb": Coverage.from_events(
            folder / "msweb" / "visits.csv.gz", person="user_id", item="item_id", items=range(285)
        ),
        "eshop_clicks": eshop(folder),
        "online_retail": Coverage.from_events(bought, person="customer", item="item", items=catalogue),
    }


def mitrovic_rate(k: int, epsilon: float, delta: float) -> float:
    """Half of the larger e of epsilon / k and k e^2 / 2 + e sqrt(2 k ln(1/delta)) = epsilon."""
    linear = math.sqrt(2.0 * k * math.log(1.0 / delta))
    return max(epsilon / k, (math.sqrt(linear**2 + 2.0 * k * epsilon) - linear) / k) / 2.0


def shares(people: Coverage, runs: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts = people.gains([]) * len(people)
    for epsilon in (0.1, 1.0):
        budget = dc.Budget(epsilon, DELTA)
        for k in (5, 10, 20):
            rng = np.random.default_rng(k)
            popular = accounts.zcdp(budget.share(), 2.0, k).rate
            selectors = [PrivateGreedy(k, budget, seed=seed) for seed in range(runs)]
            sets: dict[str, list[Any]] = {
                "random": [rng.permutation(people.n_items)[:k] for _ in range(5 * runs)],
                "popularity": [
                    np.argsort(-(popular * counts + rng.gumbel(size=counts.size)))[:k] for _ in range(runs)
                ],
                "Mitrovic et al. calibration": [
                    picked_at(people, k, mitrovic_rate(k, epsilon, DELTA), rng) for _ in range(runs)
                ],
                "PrivateGreedy": [selector.select(people).items for selector in selectors],
                "greedy": [greedy(people, k)[0]],
            }
            cell = {
                who: [round(float(f([people.value(s) for s in drawn])), 5) for f in (np.mean, np.std)]
                for who, drawn in sets.items()
            }
            found[f"epsilon {epsilon:g}, k {k}"] = {"share": cell, "auto": selectors[0].method_used}
    return found


def print_shares(name: str, people: Coverage, found: dict[str, Any]) -> None:
    who_chooses = list(next(iter(found.values()))["share"])
    rows = []
    for setting, cell in found.items():
        means = [cell["share"][who][0] for who in who_chooses]
        ratio = cell["share"]["PrivateGreedy"][0] / cell["share"]["greedy"][0]
        floor = name in ("msweb", "eshop_clicks") and setting == "epsilon 1, k 5"
        mark = f" (floor 99{' MISSED' if ratio < SERVED_FLOOR else ''})" if floor else ""
        rows.append([setting, *(f"{m:.4f}" for m in means), f"{100 * ratio:.1f}{mark}", str(cell["auto"])])
    print(f"\n{name}: {people}")
    print(table(["", *who_chooses, "PrivateGreedy, % of greedy", "method"], rows))


# --- matroid and knapsack -------------------------------------------------------------------------


def constrained(folder: Path, people: Coverage, runs: int) -> dict[str, Any]:
    category, price = eshop_products(folder, people)
    constraints: dict[str, Constraint] = {
        "two of each category": PartitionMatroid(category, 2),
        "prices within 250": Knapsack(price, 250.0),
        "prices within 100 (some cost more than half)": Knapsack(price, 100.0),
    }
    found: dict[str, Any] = {}
    rows = []
    for name, constraint in constraints.items():
        best = people.value(PrivateGreedy(constraint, dc.Budget(math.inf), seed=0).select(people).items)
        for epsilon in (0.1, 1.0):
            values, used = [], ""
            for seed in range(runs):
                selector = PrivateGreedy(constraint, dc.Budget(epsilon, DELTA), seed=seed)
                chosen = selector.select(people)
                assert constraint.contains(chosen.items), "infeasible"
                values.append(people.value(chosen.items))
                used = str(selector.method_used)
            mean = float(np.mean(values))
            found[f"{name}, epsilon {epsilon:g}"] = {
                "ours": round(mean, 5),
                "deviation": round(float(np.std(values)), 5),
                "greedy": round(best, 5),
                "rank": constraint.rank,
                "auto": used,
            }
            ratio = f"{100 * mean / best:.1f}"
            rows.append(
                [name, f"{epsilon:g}", str(constraint.rank), f"{mean:.4f}", f"{best:.4f}", ratio, used]
            )
    print("\neshop_clicks under constraints")
    print(table(["constraint", "epsilon", "rank", "ours", "greedy", "ours, %", "method"], rows))
    return found


def main() -> None:
    parser = arguments(__doc__, "needed")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, nothing stored")
    options = parser.parse_args()
    # Settings in which nothing beats chance are part of the tables.
    warnings.simplefilter("ignore", UserWarning)
    start = time.perf_counter()
    record: dict[str, Any] = {"uber": uber(options.folder, 40 if options.quick else 400)}
    runs = 3 if options.quick else 20
    record["shares"] = {}
    everybody = populations(options.folder)
    for name, people in everybody.items():
        record["shares"][name] = shares(people, runs)
        print_shares(name, people, record["shares"][name])
    record["constraints"] = constrained(options.folder, everybody["eshop_clicks"], runs)
    print(f"\n{time.perf_counter() - start:.0f} s")
    if not options.quick:
        store("offline", record)


if __name__ == "__main__":
    main()
