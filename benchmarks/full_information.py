"""Share of people served, full information, on two real streams: who chooses, and what privacy costs.

    python benchmarks/full_information.py FOLDER

FOLDER holds msweb/visits.csv.gz (user_id, item_id) and eshop_clicks/clicks.csv.gz (session_id, model in time
order). Settings: epsilon 1, delta 1e-6, one person replaced, k = 5, mean of 5 runs. msweb visitors come in a
random order (fixed seed), eshop sessions in the order of their first click. Prints a table, stores
benchmarks/results/full_information.json, and writes the table into the README. ``--readme`` only does the
last, from the stored results.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import discreet as dc
from discreet.core.table import table
from discreet.objectives import Coverage, greedy
from discreet.online import HedgeSelector, PhasedSelector, RunningSumSelector

RESULTS = Path(__file__).parent / "results" / "full_information.json"
README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- share served: start -->", "<!-- share served: end -->"
K = 5
BUDGET = dc.Budget(1.0, 1e-6)
RUNS = 5
CAP = 3

# name -> floor on msweb, floor on eshop_clicks (None: shown beside, or to be reproduced)
FLOORS = {
    "adversarial guarantee, planner's choice": (0.695, 0.325),
    "running sums, a new set every 200 rounds": (0.70, 0.34),
    "phases (stationary streams)": (0.715, 0.355),
}


def learners(people: Coverage) -> dict[str, Callable[[int], object]]:
    n, rounds = people.n_items, len(people)
    question = {"n_items": n, "k": K, "rounds": rounds, "budget": BUDGET}
    adversarial = dc.plan(**question, stream="adversarial", items_per_person=CAP)
    stationary = dc.plan(**question, stream="stationary", items_per_person=CAP)
    print(adversarial, "\n")
    print(stationary, "\n")
    free = dc.Budget(math.inf)
    return {
        "published constants (paper 000, Algorithm 2)": lambda s: HedgeSelector(
            n, K, rounds, BUDGET, calibration="published", seed=s
        ),
        "the same, tight account": lambda s: HedgeSelector(n, K, rounds, BUDGET, seed=s),
        "the same, a new set every 1,000 rounds": lambda s: HedgeSelector(
            n, K, rounds, BUDGET, resample_every=1000, seed=s
        ),
        "adversarial guarantee, planner's choice": lambda s: adversarial.learner(seed=s),
        "running sums, a new set every 200 rounds": lambda s: RunningSumSelector(
            n, K, rounds, BUDGET, items_per_person=CAP, resample_every=200, seed=s
        ),
        "phases (stationary streams)": lambda s: PhasedSelector(n, K, BUDGET, seed=s),
        "stationary stream, planner's choice": lambda s: stationary.learner(seed=s),
        "not private: Hedge": lambda s: HedgeSelector(n, K, rounds, free, seed=s),
        "not private: running sums": lambda s: RunningSumSelector(n, K, rounds, free, seed=s),
    }


def measure(people: Coverage) -> dict[str, list[float]]:
    rng = np.random.default_rng(1)
    found = {"random set": [people.value(rng.permutation(people.n_items)[:K]) for _ in range(200)]}
    for name, make in learners(people).items():
        start = time.perf_counter()
        found[name] = [make(seed).run(people).average for seed in range(RUNS)]
        print(f"  {name}: {np.mean(found[name]):.4f} ({time.perf_counter() - start:.1f} s)", flush=True)
    popular = np.argsort(-people.gains([]), kind="stable")[:K]
    found["in hindsight: the most popular"] = [people.value(popular)]
    found["in hindsight: greedy"] = [people.value(greedy(people, K)[0])]
    return found


def readme_table() -> str:
    """The stored results as a Markdown table."""
    shares = json.loads(RESULTS.read_text())["share_served"]
    lines = ["| who chooses | " + " | ".join(shares) + " |", "|---|" + "---|" * len(shares)]
    for who in next(iter(shares.values())):
        cells = [f"{np.mean(shares[name][who]):.3f}" for name in shares]
        lines.append(f"| {who} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_readme() -> None:
    before, rest = README.read_text().split(START)
    README.write_text(f"{before}{START}\n{readme_table()}{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data sets")
    parser.add_argument("--readme", action="store_true", help="only write the stored results into the README")
    options = parser.parse_args()
    if options.readme:
        write_readme()
        return
    if options.folder is None:
        parser.error("give the folder of the data sets, or --readme")
    folder = options.folder
    visits = Coverage.from_events(folder / "msweb" / "visits.csv.gz", person="user_id", item="item_id")
    clicks = Coverage.from_events(
        folder / "eshop_clicks" / "clicks.csv.gz", person="session_id", item="model"
    )
    streams = {"msweb": visits[np.random.default_rng(0).permutation(len(visits))], "eshop_clicks": clicks}
    results: dict[str, dict[str, list[float]]] = {}
    for name, people in streams.items():
        print(f"{name}: {people}", flush=True)
        results[name] = measure(people)
    rows = []
    for who in results["msweb"]:
        row = [who]
        for place, name in enumerate(streams):
            values = results[name][who]
            floor = FLOORS.get(who, (None, None))[place]
            mark = (
                ""
                if floor is None
                else f" (floor {floor:.3f}{'' if np.mean(values) >= floor else ' MISSED'})"
            )
            spread = f" ± {np.std(values):.3f}" if len(values) == RUNS else ""
            row.append(f"{np.mean(values):.3f}{spread}{mark}")
        rows.append(row)
    print()
    print(table(["who chooses", *streams], rows))
    RESULTS.parent.mkdir(exist_ok=True)
    record = {
        "settings": {
            "epsilon": 1.0,
            "delta": 1e-6,
            "neighbours": "replace",
            "k": K,
            "runs": RUNS,
            "cap": CAP,
        },
        "share_served": {
            n: {w: [round(v, 5) for v in vs] for w, vs in r.items()} for n, r in results.items()
        },
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    write_readme()
    print(f"\nstored in {RESULTS.name}, and in the README")


if __name__ == "__main__":
    main()
