"""Write docs/benchmarks.md from the results that the other scripts stored.

    python benchmarks/page.py [--check]

Nothing on that page is typed: every number is read from benchmarks/results. ``--check`` only says whether the
page is up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
SCRIPTS = {
    "privacy_core.py": "choices, noise and running sums beside OpenDP",
    "accounting.py": "rates and noise that a budget allows (README)",
    "objectives.py": "greedy and gradients beside apricot-select and submodlib-py",
    "constraints.py": "projections, decompositions, rounding",
    "full_information.py FOLDER": "share of people served on two real streams (README)",
    "hedge_speed.py": "whole streams beside NumPy written straight from the paper",
    "regret_growth.py": "how regret grows with the rounds, certificates beside measurements",
    "bandit.py [FOLDER]": "bandit feedback: reward, exponents, slots",
    "bandit_speed.py": "bandit streams beside NumPy written straight from the paper",
    "offline.py FOLDER": "private greedy beside other calibrations, constraints",
    "offline_speed.py": "private greedy beside the library's own greedy",
    "continuous_greedy.py FOLDER": "continuous greedy: noises, constraints",
    "feature_selection.py [FOLDER]": "features chosen privately",
    "minimization.py": "submodular minimisation, full information and bandit",
    "minimization_speed.py": "compiled rounds beside NumPy",
    "convex.py [FOLDER]": "online logistic regression, regret exponents",
    "frank_wolfe.py [FOLDER]": "one item per category; DR-submodular functions",
}


def stored(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def mean(values: Any, places: int = 3) -> str:
    return "" if values is None else f"{np.mean(values):.{places}f}"


def slope(rounds: list[float], regret: list[float]) -> str:
    return f"{np.polyfit(np.log(rounds), np.log(regret), 1)[0]:.2f}"


def sections() -> Iterator[str]:
    yield (
        "# Measurements\n\n<!-- written by benchmarks/page.py from benchmarks/results; do not edit -->\n\n"
        "Every figure comes from a script in `benchmarks/`, which stores its numbers in `benchmarks/results/`."
        " Timings are ratios\nwithin one run; the machine they were taken on has two cores. `FOLDER` holds public"
        " data sets, described in each script.\n"
    )
    yield table(["script", "what it measures"], [[f"`{name}`", what] for name, what in SCRIPTS.items()])
    yield "`make bench` runs those that need no folder."
    yield from _full_information()
    yield from _bandit()
    yield from _offline()
    yield from _minimization()
    yield from _convex()
    yield from _frank_wolfe()
    yield from _speed()


def _full_information() -> Iterator[str]:
    yield (
        "## Full information\n\nThe table of shares served is in the README. Plain regret against the best fixed"
        " set on a stream with fixed favourites, 10\nitems, k = 2, epsilon 4: learners with a sqrt(T) guarantee"
        " have slopes of about a half; the published constants have not\nbegun to learn at these sizes."
    )
    yield "![Regret over rounds on log-log axes](images/regret_growth.svg)"


def _bandit() -> Iterator[str]:
    found = stored("bandit")
    setting = found["settings"]
    yield (
        f"## Bandit feedback\n\nReward over that of the best fixed set; {setting['items']} items,"
        f" k = {setting['k']}, {setting['rounds']:,} rounds of the product display,\nmean of {setting['runs']} runs."
    )
    epsilons = ["1", "0.2", "inf"]
    yield table(
        ["who learns", "epsilon 1", "epsilon 0.2", "not private"],
        [[who, *(mean(by.get(e)) for e in epsilons)] for who, by in found["reward_over_best"].items()],
    )
    if "share_served" in found:
        rows = [
            [who, *(mean(by.get(e)) for e in ("", "1", "inf"))] for who, by in found["share_served"].items()
        ]
        yield (
            "eshop_clicks replayed as a simulator (a session takes a shown item that it clicked in the log), k = 5,"
            " share served:"
        )
        yield table(["what is told", "", "epsilon 1", "not private"], rows)
    rows = [
        [who, slope(one["rounds"], one["regret"]), slope(one["rounds"], one["certified"])]
        for who, one in found["growth"].items()
    ]
    yield "Exponents of regret over rounds, fitted, and those of what is certified:"
    yield table(["who learns", "measured", "certified"], rows)
    yield "![Bandit regret over rounds](images/bandit_exponents.png)"


def _offline() -> Iterator[str]:
    found = stored("offline")
    uber = found["uber"]
    ranks = list(uber["mean"])
    rows = [[who, *(f"{uber['mean'][k][who]:.2f}" for k in ranks)] for who in uber["mean"][ranks[0]]]
    rows += [
        [f"reported there: {who}", *(f"{value:.2f}" for value in values)]
        for who, values in uber["reported"].items()
    ]
    for who in uber["gap_closed"][ranks[0]]:
        cells = [uber["gap_closed"][k][who] for k in ranks]
        rows.append([f"gap closed by {who}", *(f"{100 * s:.0f} % ± {100 * error:.0f}" for s, error in cells)])
    yield (
        "## Offline\n\n100 pickups in Manhattan, 100 candidate places, epsilon 0.1, delta 0.001 (set-up of"
        f" Chaturvedi, Nguyen and Zakynthinou\n2021), people added or removed, {uber['runs']} runs; the share of"
        " the gap closed, from their DP-greedy to greedy, from ten times\nas many. Its floor of 45 % is missed at"
        " rank 25: there even a full epsilon on every single pick, which no account allows,\ncloses only half of"
        " the gap."
    )
    yield table(["who chooses", *(f"rank {k}" for k in ranks)], rows)
    yield "Share of people served, one person replaced, delta 1e-6:"
    rows = []
    for data, by in found["shares"].items():
        for question, one in by.items():
            share = one["share"]
            rows.append([data, question, *(f"{np.ravel(value)[0]:.3f}" for value in share.values())])
            names = list(share)
    yield table(["data", "question", *names], rows)
    rows = [
        [what, f"{one['ours']:.4f}", f"{one['greedy']:.4f}"] for what, one in found["constraints"].items()
    ]
    yield "Under constraints, eshop_clicks (never infeasible):"
    yield table(["constraint", "private greedy", "greedy"], rows)
    smooth = stored("continuous_greedy")
    for what, by in smooth["clicks"].items():
        yield f"Continuous greedy, {what}:"
        yield table(["who chooses", "share served"], [[who, f"{one['mean']:.4f}"] for who, one in by.items()])
    yield "Features chosen privately, and a plain logistic regression on them:"
    yield "![Accuracy over epsilon](images/feature_selection.png)"


def _minimization() -> Iterator[str]:
    found = stored("minimization")
    setting = found["settings"]
    yield (
        f"## Submodular minimisation\n\nDirected cuts and prices, {setting['n_items']} items, {setting['rounds']:,}"
        f" rounds, epsilon {setting['epsilon']:g}, delta {setting['delta']:g}: share closed of the gap\nbetween a"
        " random set and the best fixed set, on three streams."
    )
    rows = [[who, *(f"{100 * share:.0f} %" for share in shares)] for who, shares in found["closed"].items()]
    yield table(["who learns", *(f"stream {i}" for i in range(len(rows[0]) - 1))], rows)
    rows = [[who, f"{exponent:.2f}"] for who, exponent in found["exponents"].items()]
    yield "Exponents of regret over rounds, fitted:"
    yield table(["who learns", "exponent"], rows)
    yield "![Regret of the minimisers over rounds](images/minimization.png)"


def _convex() -> Iterator[str]:
    found = stored("convex")
    ratio = found["adult at epsilon 1, times gradient descent"]
    yield (
        "## Online convex learning\n\nOnline logistic regression: average loss over epsilon (delta 1e-6). On adult"
        f" at epsilon 1 it is {ratio:.2f} times that of tuned\nonline gradient descent without privacy. Scaling,"
        " radius and the bolder regularisation were settled on adult itself."
    )
    yield "![Average logistic loss over epsilon](images/logistic_epsilon.png)"
    rows = [
        [who, f"{one['exponent']:.2f}", f"{one['certified exponent']:.2f}"]
        for who, one in found["growth"].items()
    ]
    yield table(["costs", "measured exponent", "certified exponent"], rows)
    yield "![Regret of the leaders over rounds](images/convex_regret.png)"


def _frank_wolfe() -> Iterator[str]:
    found = stored("frank_wolfe")
    rows = [
        [who, mean(one["share"] if isinstance(one, dict) else one)]
        for who, one in found["share_served"].items()
    ]
    yield "## Meta-Frank-Wolfe\n\nmsweb, one item of each of five categories, share of visitors served:"
    yield table(["who chooses", "share"], rows)
    yield "![Regret over rounds, budget allocation](images/frank_wolfe.png)"


def _speed() -> Iterator[str]:
    yield "## Speed\n\nTimes as fast as NumPy written straight from the papers, in the same run:"
    rows = []
    for one in stored("hedge_speed")["full_information"]:
        us = one["microseconds_per_round"]
        rows.append(
            [
                f"Hedge, {one['n_items']:,} items, k = {one['k']}",
                f"{us['run']:.1f}",
                f"{us['paper'] / us['run']:,.0f}",
            ]
        )
    rows += [
        [
            f"bandit, {one['items']:,} items, k = {one['slots']}",
            f"{one['run_us']:.1f}",
            f"{one['ratio']:,.0f}",
        ]
        for one in stored("bandit_speed")["cases"]
    ]
    one = stored("minimization_speed")
    us = one["microseconds_per_round"]
    for beside, told in (
        ("paper", "NumPy line by line"),
        ("chain at once", "NumPy, a chain at once"),
        ("tuned", "NumPy tuned"),
    ):
        label = f"minimisation, {one['n_items']} items, beside {told}"
        rows.append([label, f"{us['run']:.1f}", f"{us[beside] / us['run']:,.1f}"])
    yield table(["whole stream", "microseconds a round", "times as fast"], rows)
    rows = [
        [what, str(one["k"]), f"{one['private_s']:.3f}", f"{one['ratio']:.2f}" if "ratio" in one else ""]
        for what, one in stored("offline_speed").items()
    ]
    yield "Private greedy, seconds, and times the library's own plain greedy:"
    yield table(["people x items", "k", "seconds", "times plain greedy"], rows)
    yield (
        "People who touch 50 items of a growing catalogue: a round costs of the order of 50 k log n steps; above"
        " about 30,000\nitems cache misses add to it."
    )
    yield "![Cost of a round over the size of the catalogue](images/hedge_cost.svg)"


def text() -> str:
    return "\n\n".join(section.rstrip() for section in sections()) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    if parser.parse_args().check:
        fresh = PAGE.read_text() == text()
        print("up to date" if fresh else "out of date: run python benchmarks/page.py")
        return 0 if fresh else 1
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
