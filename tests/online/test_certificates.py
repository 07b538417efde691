"""Measured regret never exceeds the certified one, on streams made to be hard."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.evaluation.streams import STREAMS
from discreet.online import HedgeSelector, RunningSumSelector

ITEMS, K, ROUNDS, RUNS = 8, 2, 4000, 3
APPROXIMATE = dc.Budget(8.0, 1e-6)  # enough that the bounds say something at this size

MAKERS = {
    "Hedge, published": lambda s: HedgeSelector(
        ITEMS, K, ROUNDS, APPROXIMATE, calibration="published", seed=s
    ),
    "Hedge, tight": lambda s: HedgeSelector(ITEMS, K, ROUNDS, APPROXIMATE, seed=s),
    "Hedge, automatic batch": lambda s: HedgeSelector(
        ITEMS, K, ROUNDS, APPROXIMATE, resample_every="auto", seed=s
    ),
    "Hedge, not private": lambda s: HedgeSelector(ITEMS, K, ROUNDS, dc.Budget(math.inf), seed=s),
    "running sums": lambda s: RunningSumSelector(ITEMS, K, ROUNDS, APPROXIMATE, seed=s),
    "running sums, tree": lambda s: RunningSumSelector(ITEMS, K, ROUNDS, APPROXIMATE, sums="tree", seed=s),
    "running sums, automatic batch": lambda s: RunningSumSelector(
        ITEMS, K, ROUNDS, APPROXIMATE, resample_every="auto", seed=s
    ),
    "running sums, pure": lambda s: RunningSumSelector(
        ITEMS, K, ROUNDS, dc.Budget(8.0), sums="tree", noise="laplace", seed=s
    ),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("stream", STREAMS)
def test_measured_regret_is_within_the_certificate(name, stream):
    people = STREAMS[stream](ROUNDS, ITEMS, np.random.default_rng(3))
    totals, certified = [], math.inf
    for seed in range(RUNS):
        learner = MAKERS[name](seed)
        certified = learner.certified_regret
        totals.append(learner.run(people).regret(people).upper)
    # rewards of a round are in [0, 1]: the mean of three runs is within 6 sqrt(T/12) of its expectation
    assert np.mean(totals) <= certified + 6 * math.sqrt(ROUNDS / 12)
    assert certified <= 0.6322 * ROUNDS


def test_certificates_say_something_where_they_should():
    """Not vacuous: at this budget the running sums are certified to lose less than a quarter."""
    assert MAKERS["running sums"](0).certified_regret < 0.25 * ROUNDS
    assert MAKERS["Hedge, not private"](0).certified_regret < 0.1 * ROUNDS


def test_certificates_are_near_what_can_happen():
    """One item, a stream that turns: regret against the best fixed item itself comes close to the bound.

    For k = 1 the bound holds with alpha = 1, and a learner that lost three times what it does would break it.
    """
    rounds = 200
    liked = np.zeros((rounds, 2))
    liked[: rounds // 4, 0] = liked[rounds // 4 :, 1] = 1.0
    people = dc.objectives.Coverage(liked)
    totals = []
    for seed in range(40):
        learner = HedgeSelector(2, 1, rounds, dc.Budget(math.inf), seed=seed)
        totals.append(learner.run(people).regret(people, alpha=1.0).total)
    # rewards are 0 or 1: a mean of 40 runs is within 6 sqrt(200 / 4 / 40) of its expectation
    slack = 6 * math.sqrt(rounds / 4 / 40)
    assert 0.4 * learner.certified_regret <= np.mean(totals) <= learner.certified_regret + slack


@pytest.mark.parametrize("bound", [1e-12, 1.0, 1e10])
@pytest.mark.parametrize("kind", [HedgeSelector, RunningSumSelector])
def test_certificates_scale_with_the_bound(kind, bound):
    rounds = 1000
    people = dc.objectives.FacilityLocation(np.tile([0.0, bound, 0.0], (rounds, 1)), bound=bound)
    learner = kind(3, 1, rounds, dc.Budget(100.0, 1e-6), bound=bound, resample_every=2, seed=0)
    regret = learner.run(people).regret(people, alpha=1.0).total / bound
    assert regret <= learner.certified_regret / bound <= 0.3 * rounds
