"""Every online learner of sets, in several settings, for the contract tests."""

from __future__ import annotations

import math
import warnings

import numpy as np

import discreet as dc
from discreet.objectives import Coverage, FacilityLocation, ProbabilisticCoverage, SetFunction
from discreet.online import BanditSelector, HedgeSelector, PhasedSelector, RunningSumSelector
from discreet.privacy.published import PublishedCalibrationWarning

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


def _bandit(**options):
    budget = options.pop("budget", PURE)

    def make(seed=1, **more):
        with warnings.catch_warnings():  # published constants say where they do not work
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            return BanditSelector(N_ITEMS, K, ROUNDS, budget, seed=seed, **options, **more)

    return make


def feed(learner, person, **options):
    """Let a learner learn from a person in the way it is made for: their function, or what it would see."""
    if not isinstance(learner, BanditSelector):
        learner.learn(person, **options)
        return
    items = learner.choose().items
    if learner.feedback == "set":
        learner.learn(person.value(items), **options)
        return
    values = [person.value(items[:i]) for i in range(len(items) + 1)]
    learner.learn(np.maximum(np.diff(values), 0.0), **options)


LEARNERS = {
    "bandit, blocks": _bandit(block=10, repeats=2),
    "bandit, blocks as they come": _bandit(),
    "bandit, blocks, fixed rate, two rounds each": _bandit(
        block=6, repeats=1, rate=0.5, budget=dc.Budget(1.0, 0.0, "add_remove", 2)
    ),
    "bandit, blocks, not private": _bandit(block=7, budget=dc.Budget(math.inf)),
    "bandit, online": _bandit(exploration="online", exploration_rate=0.5, budget=APPROXIMATE),
    "bandit, online, published": _bandit(
        exploration="online", calibration="published", budget=dc.Budget(1.0, 1e-6)
    ),
    "bandit, presampled": _bandit(exploration="presampled", block=4, budget=APPROXIMATE),
    "bandit, presampled, published": _bandit(
        exploration="presampled", calibration="published", budget=APPROXIMATE
    ),
    "bandit, every round": _bandit(
        exploration="every_round", exploration_rate=0.3, budget=dc.Budget(1.0, 1e-6, "add_remove")
    ),
    "bandit, every round, not private": _bandit(exploration="every_round", budget=dc.Budget(math.inf)),
    "bandit, slots": _bandit(feedback="slots", block=4),
    "bandit, slots, two rounds each": _bandit(
        feedback="slots", block=5, budget=dc.Budget(1.0, 0.0, "add_remove", 2)
    ),
    "bandit, slots, not private": _bandit(feedback="slots", block=3, budget=dc.Budget(math.inf)),
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
