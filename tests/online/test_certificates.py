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
