"""Measured regret stays within what is certified, for every learner and chooser that certifies any."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet import online
from discreet.evaluation import streams
from discreet.online import HedgeSelector
from discreet.privacy.published import PublishedCalibrationWarning

ROOT = Path(__file__).parents[2]


def _script():
    spec = importlib.util.spec_from_file_location("theorems", ROOT / "benchmarks" / "theorems.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["theorems"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


THEOREMS = _script()
CHECKS = THEOREMS.checks(epsilon=8.0)
RUNS = 2
PAIRS = [(check, stream) for check in CHECKS for stream in check.streams]


def _rounds(check):
    return max(160, 1000 // check.cost)


@pytest.mark.parametrize(("check", "stream"), PAIRS, ids=[f"{c.name}: {s}" for c, s in PAIRS])
def test_measured_is_within_certified(check, stream):
    rounds = _rounds(check)
    measured, certified = THEOREMS.measured(check, stream, rounds, RUNS)
    assert math.isfinite(certified)
    assert certified > 0.0
    assert measured <= certified + THEOREMS.slack(check, rounds, RUNS)


def test_every_learner_with_a_certificate_is_here():
    certifying = {
        name
        for name in online.__all__
        if hasattr(getattr(online, name), "certified_regret") and not name.startswith("Online")
    }
    assert certifying == {check.name.split(",")[0] for check in CHECKS}


def test_most_certificates_say_something():
    """Below what doing nothing loses, at this epsilon; those that do not are the published constants."""
    rounds, trivial = 4000, []
    for check in CHECKS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            learner = check.make(rounds, 0)
        limit = rounds * (THEOREMS.ALPHA if check.width == 1.0 else check.width)
        if check.certified(learner, rounds) >= 0.999 * limit:
            trivial.append(check.name)
    assert trivial == ["SubmodularMinimizer, published"]


def test_a_learner_that_learns_the_wrong_way_round_is_noticed():
    """The same check, with a learner that is taught what nobody wants."""
    rounds = 1000
    people = streams.favourites(rounds, THEOREMS.ITEMS, np.random.default_rng(0), fall=0.3)
    likes = np.array([[people[i].value([j]) for j in range(THEOREMS.ITEMS)] for i in range(rounds)])

    class Backwards(HedgeSelector):
        def run(self, shown):
            trace = super().run(dc.objectives.Coverage(1.0 - likes))
            rewards = np.array([likes[t, row[0]] for t, row in enumerate(trace.selections)])
            assert len(shown) == rewards.size
            return type(trace)(rewards, trace.selections, trace.learner)

    def check(kind):
        return THEOREMS.Check(
            "planted",
            kind.__name__,
            lambda t, s: kind(THEOREMS.ITEMS, 1, t, dc.Budget(math.inf), seed=s),
            {"favourites": lambda *_: people},
            THEOREMS.set_regret(1.0),
        )

    for kind, holds in ((HedgeSelector, True), (Backwards, False)):
        measured, certified = THEOREMS.measured(check(kind), "favourites", rounds, RUNS)
        assert (measured <= certified + THEOREMS.slack(check(kind), rounds, RUNS)) is holds


@pytest.mark.parametrize("stream", ["product display", "baskets"])
def test_choosers_lose_no_more_than_certified(stream):
    people = streams.STREAMS[stream](3000, 12, np.random.default_rng(2))
    rows = list(THEOREMS.offline_rows(people, stream, 2.0, RUNS))
    assert len(rows) == 7
    for row in rows:
        assert row["holds"], row
        assert row["certified"] > 0.0


def test_near_tight_where_the_bound_can_be_attained():
    """A stream that turns costs the published Hedge most of its bound: the check is not idle."""
    check = next(one for one in CHECKS if one.name == "HedgeSelector, published")
    measured, certified = THEOREMS.measured(check, "adversarial: turning", 2000, 4)
    assert 0.6 * certified <= measured <= certified + THEOREMS.slack(check, 2000, 4)


def test_exponents_are_those_of_the_theorem():
    """Hedge without privacy on a turning stream: the slope of regret over horizons is about a half."""
    check = THEOREMS.Check(
        "exponent",
        "HedgeSelector",
        lambda t, s: HedgeSelector(THEOREMS.ITEMS, 1, t, dc.Budget(math.inf), seed=s),
        {"adversarial: turning": THEOREMS.turning},
        THEOREMS.set_regret(1.0),
    )
    found = THEOREMS.growth(check, [500, 2000, 8000], 4)
    assert abs(found["exponent_certified"] - 0.5) < 0.02
    assert 0.35 < found["exponent_measured"] < 0.65
