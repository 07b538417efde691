"""What the account is worth, in numbers: rates of private choices and noise of running sums.

``python benchmarks/accounting.py`` prints two Markdown tables; ``--write`` puts them into the README
between its markers. A test keeps the README equal to what this prints.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import discreet as dc
from discreet.privacy import ExponentialChoice, FactorizedSum, TreeSum

BUDGET = dc.Budget(epsilon=1.0, delta=1e-6)
README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- accounting: start -->", "<!-- accounting: end -->"


def published_rate(releases: int) -> float:
    """Rate of paper 000 (Proposition 2) for ``releases`` choices at the budget."""
    return BUDGET.epsilon / math.sqrt(32 * releases * math.log(1 / BUDGET.delta))


def choices_table() -> str:
    lines = [
        "| private choices in a row | published rate | rate in `discreet` | ratio"
        " | epsilon really spent by the published rate |",
        "|---|---|---|---|---|",
    ]
    for releases in (100, 10_000, 1_000_000):
        published = published_rate(releases)
        ours = ExponentialChoice.within(BUDGET.share(), 2.0, releases).rate
        gate = dc.Gate(BUDGET, 0)
        gate.reserve(ExponentialChoice(published, 2.0), releases)
        spent = gate.spent.epsilon(tight=True)
        lines.append(
            f"| {releases:,} | {published:.3g} | {ours:.3g} | {ours / published:.2f} | {spent:.2f} |"
        )
    return "\n".join(lines)


def sums_table() -> str:
    horizons = (1_024, 65_536, 1_048_576)
    lines = [
        "| running sum, worst standard deviation | " + " | ".join(f"{t:,} rounds" for t in horizons) + " |",
        "|---|---|---|---|",
    ]
    makers = {
        "`TreeSum`": lambda t: TreeSum(1, t, BUDGET, norm_bound=1.0, seed=0),
        "`TreeSum(variance_reduction=True)`": lambda t: TreeSum(
            1, t, BUDGET, norm_bound=1.0, seed=0, variance_reduction=True
        ),
        '`FactorizedSum(method="blt")`': lambda t: FactorizedSum(
            1, t, BUDGET, norm_bound=1.0, seed=0, method="blt"
        ),
        "`FactorizedSum`": lambda t: FactorizedSum(1, t, BUDGET, norm_bound=1.0, seed=0),
    }
    for name, make in makers.items():
        # every kind is worst when all lower blocks are open, just before a power of two, or at the end
        worst = [max(make(t).noise_std(t - 1), make(t).noise_std(t)) for t in horizons]
        lines.append(f"| {name} | " + " | ".join(f"{value:.1f}" for value in worst) + " |")
    return "\n".join(lines)


def text() -> str:
    return f"{choices_table()}\n\n{sums_table()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    if not parser.parse_args().write:
        print(text())
        return
    before, rest = README.read_text().split(START)
    README.write_text(f"{before}{START}\n{text()}{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
