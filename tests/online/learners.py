"""Every online learner of sets, in several settings, for the contract tests."""

from __future__ import annotations

import math

import numpy as np

import discreet as dc
from discreet.objectives import Coverage, FacilityLocation, ProbabilisticCoverage, SetFunction
from discreet.online import HedgeSelector, PhasedSelector, RunningSumSelector

N_ITEMS, K, ROUNDS = 7, 3, 30
APPROXIMATE = dc.Budget(1.0, 1e-6)
PURE = dc.Budget(1.0)


def _running(**options):
    budget = options.pop("budget", APPROXIMATE)
    return lambda seed=1, **more: RunningSumSelector(N_ITEMS, K, ROUNDS, budget, seed=seed, **options, **more)


def _hedge(**options):
    budget = options.pop("budget", APPROXIMATE)
    return lambda seed=1, **more: HedgeSelector(N_ITEMS, K, ROUNDS, budget, seed=seed, **options, **more)


def _phased(**options):
    budget = options.pop("budget", APPROXIMATE)
    return lambda seed=1, **more: PhasedSelector(N_ITEMS, K, budget, seed=seed, **options, **more)


LEARNERS = {
    "hedge, tight": _hedge(),
    "hedge, published": _hedge(calibration="published"),
    "hedge, batches": _hedge(resample_every=4),
    "hedge, automatic batch": _hedge(resample_every="auto"),
    "hedge, pure, two rounds each": _hedge(budget=dc.Budget(1.0, 0.0, "add_remove", 2)),
    "hedge, not private": _hedge(budget=dc.Budget(math.inf)),
    "phased, doubling": _phased(first_window=2),
    "phased, fixed windows": _phased(window=7),
    "phased, pure, two rounds each": _phased(window=5, budget=dc.Budget(1.0, 0.0, "add_remove", 2)),
    "phased, drift": _phased(first_window=3, restart_on_drift=True),
    "phased, not private": _phased(window=6, budget=dc.Budget(math.inf)),
    "running sum, sqrt": _running(),
    "running sum, capped, batches": _running(items_per_person=2, resample_every=4),
    "running sum, blt": _running(sums="blt", resample_every=7),
    "running sum, tree": _running(sums="tree"),
    "running sum, Laplace tree": _running(sums="tree", noise="laplace", budget=PURE),
    "running sum, two rounds each": _running(budget=dc.Budget(1.0, 1e-6, "add_remove", 2)),
    "running sum, one batch": _running(resample_every=ROUNDS),
    "running sum, not private": _running(budget=dc.Budget(math.inf)),
}


def people(kind: str = "coverage", count: int = ROUNDS, n_items: int = N_ITEMS):
    """A small stream of one family, the same every time."""
    rng = np.random.default_rng(12)
    likes = (rng.random((count, n_items)) < 0.3).astype(float)
    chances = likes * rng.uniform(0.1, 0.9, likes.shape)
    if kind == "coverage":
        return Coverage(likes)
    if kind == "chances":
        return ProbabilisticCoverage(chances)
    if kind == "facility":
        return FacilityLocation(chances)
    functions = [_covers(row) for row in likes]
    return SetFunction(functions, n_items, 1.0, monotone=True)


def _covers(row):
    wanted = set(np.flatnonzero(row).tolist())
    return lambda items: float(bool(wanted & set(items)))
