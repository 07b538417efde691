"""The page that shows every theorem beside what was measured, from what benchmarks/theorems.py stored.

python benchmarks/theorems_page.py            writes docs/theorems.md
python benchmarks/theorems_page.py --check    says whether the stored page is what this makes
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "theorems.md"
THEOREMS = Path(__file__).parent / "results" / "theorems.json"

TEXT = """# Theorems beside measurements

Every setting of every learner and chooser with a certificate, as `python benchmarks/theorems.py FOLDER`
measured it: the made-up stream on which it lost most, each real stream, what is certified for it, and what
the paper's bound comes to ("~": only an order is printed, evaluated with constants 1, so that a measurement
above it refutes nothing). Means of {runs} runs ({real_runs} on real people). Epsilon is {epsilon} for
learners on made-up streams and with few items, so that certificates say something at these sizes; "(trivial)"
marks those that still say no more than that nobody can lose more than everything. Regret is against the best
fixed choice itself for costs, points, and most learners with k = 1, and against 1 - 1/e of it (choosers: the
ratio of their theorem) otherwise, where a good learner's is negative. "Watched" learners play against an
adversary who knows their point and pushes it away; others on streams fixed in advance. No measurement exceeds
its certificate by more than chance allows, which `tests/evaluation/test_theorems.py` checks.

{theorems}

How regret grows: slopes on log-log axes between {shortest:,} and {longest:,} rounds, of the measured and the
certified regret and of the printed bound, beside the power of T that the theorem shows. At these lengths
logarithms still count, noise that does not grow with T flattens a slope, and a learner that has not begun to
learn has slope 1. Where the learner beat the fixed choice at some length there is no slope.

{exponents}

![Sets: measured and certified regret](images/theorems_sets.png)
![Sets, bandit feedback: measured and certified regret](images/theorems_bandit.png)
![Costs: measured and certified regret](images/theorems_costs.png)
![Points: measured and certified regret](images/theorems_points.png)
![Choosers: measured and certified loss as epsilon grows](images/theorems_offline.png)
"""


def theorem_table() -> str:
    """What `benchmarks/theorems.py` stored: per learner its hardest made-up stream, and every real one."""
    record = json.loads(THEOREMS.read_text())
    hardest: dict[tuple[str, str], dict[str, object]] = {}
    for row in record["rows"]:
        key = (row["learner"], row["stream"] if row["stream"].startswith("real") else "")
        kept = hardest.setdefault(key, row)
        if row["measured"] > kept["measured"]:
            hardest[key] = row
    lines = [
        "| theorem | learner | stream | epsilon | rounds | measured | certified | printed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in hardest.values():
        printed = "" if row["printed"] is None else f"{'~' if row['order_only'] else ''}{row['printed']:,.0f}"
        epsilon = "none" if row["epsilon"] is None else f"{row['epsilon']:g}"
        certified = f"{row['certified']:,.0f}{' (trivial)' if row['trivial'] else ''}"
        lines.append(
            f"| {row['theorem']} | {row['learner']} | {row['stream']} | {epsilon} | {row['rounds']:,}"
            f" | {row['measured']:,.0f} | {certified} | {printed} |"
        )
    return "\n".join(lines)


def exponent_table() -> str:
    """How regret grew with the rounds, beside what is certified and printed."""
    kinds = ("exponent_measured", "exponent_certified", "exponent_printed")
    lines = ["| learner | stream | measured | certified | printed | theorem |", "|---|---|---|---|---|---|"]
    for one in json.loads(THEOREMS.read_text())["growth"]:
        shown = ["" if one[kind] is None else f"{one[kind]:.2f}" for kind in kinds]
        if all(one["trivial"]):
            shown[1] += " (trivial)"
        lines.append(f"| {one['learner']} | {one['stream']} | {' | '.join(shown)} | {one['power']} |")
    return "\n".join(lines)


def growth_horizons() -> tuple[int, int]:
    rounds = json.loads(THEOREMS.read_text())["growth"][0]["rounds"]
    return rounds[0], rounds[-1]


def page() -> str:
    settings = json.loads(THEOREMS.read_text())["settings"]
    shortest, longest = growth_horizons()
    return TEXT.format(
        theorems=theorem_table(),
        exponents=exponent_table(),
        runs=settings["runs"],
        real_runs=settings["real_runs"],
        epsilon=f"{settings['epsilon']:g}",
        shortest=shortest,
        longest=longest,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the stored page is up to date")
    if not parser.parse_args().check:
        PAGE.write_text(page())
        print(f"wrote docs/{PAGE.name}")
    elif PAGE.read_text() != page():
        sys.exit(f"docs/{PAGE.name} is not what this makes; run it without --check")


if __name__ == "__main__":
    main()
