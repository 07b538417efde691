"""The README's tables: share of people served, rates of private choices, noise of running sums."""

from __future__ import annotations

import math

import numpy as np

import discreet as dc
from discreet.privacy import ExponentialChoice, FactorizedSum, TreeSum
from tools.results import stored

from .blocks import block, markdown

BUDGET = dc.Budget(epsilon=1.0, delta=1e-6)


@block
def share_served() -> str:
    """What benchmarks/full_information.py stored."""
    shares = stored("full_information")["share_served"]
    methods = next(iter(shares.values()))
    rows = [[method, *(f"{np.mean(found[method]):.3f}" for found in shares.values())] for method in methods]
    return markdown(["method", *shares], rows)


@block
def choice_rates() -> str:
    """Rates of the exponential mechanism for many choices within one budget."""
    rows = []
    for releases in (100, 10_000, 1_000_000):
        # Paper 000, Proposition 2
        published = BUDGET.epsilon / math.sqrt(32 * releases * math.log(1 / BUDGET.delta))
        ours = ExponentialChoice.within(BUDGET.share(), 2.0, releases).rate
        gate = dc.Gate(BUDGET, 0)
        gate.reserve(ExponentialChoice(published, 2.0), releases)
        spent = gate.spent.epsilon(tight=True)
        rates = (f"{published:.3g}", f"{ours:.3g}", f"{ours / published:.2f}")
        rows.append([f"{releases:,}", *rates, f"{spent:.2f}"])
    rates = ["published rate", "rate in `discreet`", "ratio"]
    return markdown(["private choices", *rates, "epsilon spent at the published rate"], rows)


@block
def running_sum_noise() -> str:
    """The largest standard deviation of one coordinate of each kind of running sum."""
    horizons = (1_024, 65_536, 1_048_576)
    kinds = {
        "`TreeSum`": (TreeSum, {}),
        "`TreeSum(variance_reduction=True)`": (TreeSum, {"variance_reduction": True}),
        '`FactorizedSum(method="blt")`': (FactorizedSum, {"method": "blt"}),
        "`FactorizedSum`": (FactorizedSum, {}),
    }
    rows = []
    for name, (kind, options) in kinds.items():
        cells = []
        for rounds in horizons:
            total = kind(1, rounds, BUDGET, norm_bound=1.0, seed=0, **options)
            # every kind is worst when all lower blocks are open, just before a power of two, or at the end
            cells.append(f"{max(total.noise_std(rounds - 1), total.noise_std(rounds)):.1f}")
        rows.append([name, *cells])
    return markdown(["largest standard deviation", *(f"{t:,} rounds" for t in horizons)], rows)
