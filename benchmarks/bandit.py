"""Bandit feedback: who earns what, how regret grows, and what telling the item taken is worth.

    python benchmarks/bandit.py [FOLDER] [--runs 10] [--most 3000000]

Three parts. (1) Reward as a part of the best fixed set's, product display, T = 100,000, n = 10, k = 2,
epsilon 1 and .2 (delta 1e-6 where draws protect people, else 0). (2) Plain regret on a stream with fixed
favourites for T up to ``--most``, and the exponent of its growth. (3) With FOLDER, which holds
eshop_clicks/clicks.csv.gz (session_id, model in time order): share of sessions served, k = 5, epsilon 1, when
only the value of the shown set comes back and when the first shown item that the session clicked does.

Stores benchmarks/results/bandit.json and, with matplotlib, docs/images/bandit_exponents.png.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.core.table import table
from discreet.evaluation.regret import best_fixed_set
from discreet.evaluation.streams import favourites, product_display
from discreet.objectives import Coverage
from discreet.online import BanditSelector
from discreet.privacy.published import PublishedCalibrationWarning

ROOT = Path(__file__).parent
ROUNDS, ITEMS, K = 100_000, 10, 2
DELTA = 1e-6
WAYS: dict[str, dict[str, Any]] = {
    "published constants (paper 000, Algorithm 3)": {"exploration": "online", "calibration": "published"},
    "a coin each round, sets by a timetable": {"exploration": "online"},
    "rounds picked in advance": {"exploration": "presampled"},
    "a new set every round": {"exploration": "every_round"},
    "blocks, noise on sums": {},
    "blocks, the rate that certifies most": {"rate": "certified"},
    "which item was taken": {"feedback": "slots"},
}
# reward / best, at epsilon 1 and .2: (at least, at most)
FLOORS = {
    ("blocks, noise on sums", 1.0): (0.75, None),
    ("blocks, noise on sums", 0.2): (0.67, None),
    ("published constants (paper 000, Algorithm 3)", 1.0): (None, 0.50),
}
GROWTH = {
    "a new set every round": (0.70, 0.80),
    "a coin each round, sets by a timetable": (None, 0.70),
    "rounds picked in advance": (None, 0.70),
    "blocks, noise on sums": (None, 0.70),
    "blocks, the rate that certifies most": (None, 0.70),
}
FEW_ITEMS, FEW_SLOTS, GROWTH_BUDGET = 4, 1, dc.Budget(2.0, DELTA)


def made(n_items: int, k: int, rounds: int, budget: dc.Budget, seed: int, **way: Any) -> BanditSelector:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        return BanditSelector(n_items, k, rounds, budget, seed=seed, **way)


def budget_for(way: dict[str, Any], epsilon: float) -> dc.Budget:
    return dc.Budget(epsilon, DELTA if "exploration" in way and math.isfinite(epsilon) else 0.0)


def held(value: float, least: float | None, most: float | None) -> str:
    if least is None and most is None:
        return ""
    words = " to ".join(
        part for part in (f"{least:.2f}" if least else "", f"{most:.2f}" if most else "") if part
    )
    kind = "between" if least and most else "at least" if least else "at most"
    missed = (least is not None and value < least) or (most is not None and value > most)
    return f" ({kind} {words}{' MISSED' if missed else ''})"


def rewards(runs: int) -> dict[str, dict[str, list[float]]]:
    """Reward over the best fixed set's, one stream for each run."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in WAYS}
    streams = []
    for seed in range(runs):
        people = product_display(ROUNDS, ITEMS, np.random.default_rng(seed))
        streams.append((people, people.value(best_fixed_set(people, K)[0])))
    for name, way in WAYS.items():
        for epsilon in (1.0, 0.2, math.inf):
            if way.get("calibration") == "published" and math.isinf(epsilon):
                continue
            budget = budget_for(way, epsilon)
            values = [
                made(ITEMS, K, ROUNDS, budget, seed, **way).run(people).average / best
                for seed, (people, best) in enumerate(streams)
            ]
            found[name][f"{epsilon:g}"] = values
            print(f"  {name}, epsilon {epsilon:g}: {np.mean(values):.3f}", flush=True)
    return found


def growth(most: int, runs: int) -> dict[str, dict[str, list[float]]]:
    horizons = [rounds for rounds in (30_000, 100_000, 300_000, 1_000_000, 3_000_000) if rounds <= most]
    found: dict[str, dict[str, list[float]]] = {}
    for name in GROWTH:
        curve: dict[str, list[float]] = {"rounds": [], "regret": [], "certified": []}
        start = time.perf_counter()
        for rounds in horizons:
            totals = []
            for seed in range(runs):
                people = favourites(rounds, FEW_ITEMS, np.random.default_rng(seed), fall=0.5)
                learner = made(FEW_ITEMS, FEW_SLOTS, rounds, GROWTH_BUDGET, seed, **WAYS[name])
                totals.append(people.value([0]) * rounds - learner.run(people).total)
            curve["rounds"].append(rounds)
            curve["regret"].append(float(np.mean(totals)))
            curve["certified"].append(learner.certified_regret)
        found[name] = curve
        print(f"  {name}: {time.perf_counter() - start:.1f} s", flush=True)
    return found


def exponent(rounds: list[float], values: list[float]) -> float:
    return float(np.polyfit(np.log(rounds), np.log(values), 1)[0])


def plot(found: dict[str, dict[str, list[float]]]) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed: no plot")
        return
    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for (name, curve), mark in zip(found.items(), "osD^v", strict=True):
        slope = exponent(curve["rounds"], curve["regret"])
        axes.loglog(curve["rounds"], curve["regret"], marker=mark, label=f"{name} (exponent {slope:.2f})")
    axes.set(
        xlabel="rounds",
        ylabel="regret against the best item",
        title=f"Bandit feedback, 1 of {FEW_ITEMS} items, epsilon {GROWTH_BUDGET.epsilon:g}",
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    target = ROOT.parent / "docs" / "images" / "bandit_exponents.png"
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, bbox_inches="tight", dpi=130, metadata={"Software": None})


def clicks(folder: Path, runs: int) -> dict[str, dict[str, list[float]]]:
    """Share of sessions served when the shown set is all that is known, and when the click is."""
    people = Coverage.from_events(
        folder / "eshop_clicks" / "clicks.csv.gz", person="session_id", item="model"
    )
    n_items, k, rounds = people.n_items, 5, len(people)
    rng = np.random.default_rng(1)
    found: dict[str, dict[str, list[float]]] = {
        "random set": {"": [people.value(rng.permutation(n_items)[:k]) for _ in range(200)]}
    }
    for name, way in (("value of the shown set", {}), ("which item was taken", {"feedback": "slots"})):
        found[name] = {
            f"{epsilon:g}": [
                made(n_items, k, rounds, dc.Budget(epsilon), seed, **way).run(people).average
                for seed in range(runs)
            ]
            for epsilon in (1.0, math.inf)
        }
    popular = np.argsort(-people.gains([]), kind="stable")[:k]
    found["in hindsight: the most popular"] = {"": [people.value(popular)]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data sets")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--most", type=int, default=3_000_000, help="largest number of rounds")
    options = parser.parse_args()
    target = ROOT / "results" / "bandit.json"
    record: dict[str, Any] = json.loads(target.read_text()) if target.exists() else {}

    earned = rewards(options.runs)
    rows = []
    for name, columns in earned.items():
        row = [name]
        for epsilon in ("1", "0.2", "inf"):
            values = columns.get(epsilon)
            if values is None:
                row.append("")
                continue
            floor = FLOORS.get((name, float(epsilon)), (None, None))
            row.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}{held(float(np.mean(values)), *floor)}")
        rows.append(row)
    print(table(["product display: reward / best", "epsilon 1", "epsilon .2", "not private"], rows), "\n")

    curves = growth(options.most, max(2, options.runs // 3))
    rows = []
    for name, curve in curves.items():
        slope = exponent(curve["rounds"], curve["regret"])
        proved = exponent(curve["rounds"], curve["certified"])
        rows.append([name, f"{slope:.3f}{held(slope, *GROWTH[name])}", f"{proved:.3f}"])
    print(table(["regret grows as T^", "measured", "certified"], rows), "\n")
    plot(curves)

    record |= {
        "settings": {"rounds": ROUNDS, "items": ITEMS, "k": K, "delta": DELTA, "runs": options.runs},
        "reward_over_best": earned,
        "growth": curves,
    }
    if options.folder is not None:
        served = clicks(options.folder, max(3, options.runs // 2))
        rows = [[name, *(f"{np.mean(v):.3f}" for v in columns.values())] for name, columns in served.items()]
        print(table(["eshop_clicks: share served", "epsilon 1", "not private"], [[*r, ""][:3] for r in rows]))
        ratio = np.mean(served["which item was taken"]["1"]) / np.mean(served["value of the shown set"]["1"])
        print(f"the click is worth {ratio:.2f} times the value{held(float(ratio), 2.0, None)}")
        record["share_served"] = served
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nstored in {target.name}")


if __name__ == "__main__":
    main()
