"""Theorems and measurements: regret that was measured, that the library certifies, and that papers print.

    python -m benchmarks.theorems [FOLDER]

Every setting of every learner and selector with a certificate (`tools.theorems`) runs on synthetic streams
and, where FOLDER holds data sets (msweb, eshop_clicks, adult, arules_transactions, uber_pickups_2014), on
real people (`benchmarks.theorems_real`). Measured regret is a mean over runs; it may never exceed the
certified one by more than chance (`slack`). "Printed" is the paper's bound, a function of `discreet.bounds`:
with the constants of its proof, or, where only an order is printed, with constants 1 (marked ~). "trivial"
marks certificates that say no more than that nobody can lose more than everything. Exponents are slopes over
horizons on log-log axes.

The defaults take most of an hour on a quiet machine; ``--rounds 2000 --runs 3 --most 8000`` some minutes.

Prints tables, stores benchmarks/results/theorems.json and, with matplotlib, docs/images/theorems_*.png;
``python -m tools.pages docs/theorems.md`` makes the page's tables of them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.shared import arguments, pyplot, save
from benchmarks.theorems_real import real_rows
from discreet.core.text import table
from discreet.evaluation import streams
from tools import theorems
from tools.pages.theorems import growth_row, printed_bound
from tools.results import store

TITLES = {
    theorems.SETS: "Sets",
    theorems.BANDIT: "Sets, bandit feedback",
    theorems.COSTS: "Costs to minimize",
    theorems.POINTS: "Points",
}


def shown(found: list[dict[str, Any]]) -> str:
    lines = [
        [
            row["theorem"],
            row["learner"],
            row["stream"],
            "inf" if row["epsilon"] is None else f"{row['epsilon']:g}",
            f"{row['rounds']:,}",
            f"{row['measured']:,.1f}",
            f"{row['certified']:,.1f}",
            printed_bound(row),
            "EXCEEDED" if not row["holds"] else "trivial" if row["trivial"] else "",
        ]
        for row in found
    ]
    heads = ["theorem", "learner", "stream", "epsilon", "rounds", "measured", "certified", "printed", ""]
    return table(heads, lines)


def plots(curves: list[dict[str, Any]], offline: list[dict[str, Any]]) -> None:
    if (plt := pyplot()) is None:
        return

    def draw(lines: list[tuple[str, Any, Any, Any]], x: str, y: str, title: str, name: str) -> None:
        figure, axes = plt.subplots(figsize=(9, 5))
        for place, (label, across, lost, certified) in enumerate(lines):
            colour, mark = f"C{place}", "osD^vPX"[place % 7]
            axes.plot(across, lost, "-", marker=mark, markersize=5, color=colour, label=label, alpha=0.85)
            axes.plot(across, certified, "--", color=colour, alpha=0.7)
        axes.plot([], [], "k--", alpha=0.7, label="certified (same colour)")
        axes.set_xscale("log", base=2)
        if name == "offline":  # nothing lost has a place too
            axes.set_yscale("symlog", linthresh=10.0)
            axes.set_ylim(bottom=0.0)
        else:
            axes.set_yscale("log", nonpositive="mask")
        axes.set_xticks(lines[0][1], [f"{one:,g}" for one in lines[0][1]])
        axes.minorticks_off()
        axes.set(xlabel=x, ylabel=y, title=title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
        save(figure, f"theorems_{name}.png")
        plt.close(figure)

    for family, wanted in theorems.PLOTTED.items():
        lines = []
        for one in curves:
            if one["learner"] in wanted:
                slope = one["exponent_measured"]
                label = one["learner"] + ("" if slope is None else f" ({slope:.2f})")
                lines.append((label, one["rounds"], one["measured"], one["certified"]))
        title = f"{TITLES[family]}: regret measured (with its exponent) and certified"
        draw(lines, "rounds", "regret", title, family)
    if offline:
        lines = [(one["learner"], one["epsilons"], one["measured"], one["certified"]) for one in offline]
        title = "Selectors: loss against the best set, measured and certified"
        draw(lines, "epsilon", "people not served whom the best set serves", title, "offline")


def main() -> None:
    parser = arguments(__doc__, "optional")
    parser.add_argument("--rounds", type=int, default=8_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--real-runs", type=int, default=3, help="runs on real streams")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--most", type=int, default=16_000, help="largest horizon of the growth curves")
    options = parser.parse_args()
    start = time.perf_counter()

    def said(what: str) -> None:
        print(f"{what}: {time.perf_counter() - start:.0f} s", flush=True)

    checks = theorems.checks(options.epsilon)
    found = list(theorems.rows(checks, options.rounds, options.runs))
    said("learners on synthetic streams")
    rng = np.random.default_rng(1)
    made_up = streams.product_display(options.rounds, 20, rng)
    trap = theorems.trap(options.rounds, 9)
    for name, people in (("random: product display", made_up), ("adversarial: trap", trap)):
        found += theorems.offline_rows(people, name, 1.0, options.runs)
    tied = streams.near_tie(options.rounds, 12, rng, best=3)
    modular = theorems.modular_choices()
    found += theorems.offline_rows(tied, "random: near tie", 1.0, options.runs, modular)
    said("selectors on synthetic people")
    if options.folder is not None:
        found += real_rows(options.folder, options.epsilon, options.real_runs)
        said("real people")
    horizons = [t for t in (500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000) if t <= options.most]
    curves = [theorems.growth(check, horizons, options.runs) for check in checks if check.cost == 1]
    said("growth")
    epsilons = [float(2.0**i) for i in range(-5, 4)]
    offline = theorems.offline_curves(made_up, epsilons, options.runs)
    said("selectors as epsilon grows")
    print(shown(found))
    heads = ["learner", "stream", "measured", "certified", "printed", "theorem"]
    print(table(heads, [growth_row(one) for one in curves]))
    settings = {
        "epsilon": options.epsilon,
        "delta": theorems.DELTA,
        "items": theorems.ITEMS,
        "rounds": options.rounds,
        "runs": options.runs,
        "real_runs": options.real_runs,
    }
    store("theorems", {"settings": settings, "rows": found, "growth": curves, "offline": offline})
    plots(curves, offline)
    needed = [row for row in found if not row["without_slack"]]
    beyond = [row for row in found if row["within_printed"] is False]
    print(f"{len(found)} rows, {sum(row['trivial'] for row in found)} with a trivial certificate")
    print(f"{len(needed)} are within their certificate only with the allowance for chance")
    for row in beyond:
        only = " (an order, constants 1)" if row["order_only"] else ""
        print(f"beyond the printed bound{only}: {row['learner']}, {row['stream']}: {row['measured']:,.1f}")
    if not all(row["holds"] for row in found):
        raise SystemExit("a measured regret exceeds its certificate")


if __name__ == "__main__":
    main()
