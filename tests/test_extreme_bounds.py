"""Bounds at the ends of what floats can hold: no sum overflows for one person more, none forgets somebody."""

from __future__ import annotations

import re
import warnings
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.core import checks
from discreet.objectives import FacilityLocation
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from discreet.online import (
    BanditSelector,
    BestOfBothSelector,
    HedgeSelector,
    LeaderSelector,
    PhasedSelector,
    RunningSumSelector,
    ThompsonSelector,
)

AWAY = dc.Budget(1.0, neighbours="add_remove")
BOTH = dc.Budget(20.0, 1e-6)


def _people(count, bound, places=9):
    likes = np.zeros((places, 3))
    likes[:count, 0] = bound
    return FacilityLocation(likes, bound=bound)


def _online(make):
    def decide(bound, people):
        learner = make(bound)
        learner.run(people)
        return learner.choose().items

    return decide


RULES = {
    "greedy": lambda bound, people: (
        PrivateGreedy(1, AWAY, "basic", bound=bound, seed=0).select(people[np.arange(_count(people))]).items
    ),
    "sampled greedy": lambda bound, people: PrivateGreedy(1, AWAY, bound=bound, seed=0).select(people).items,
    "continuous": lambda bound, people: ContinuousGreedy(1, AWAY, bound=bound, seed=0).select(people).items,
    "curvature": lambda bound, people: CurvatureGreedy(1, AWAY, bound=bound, seed=0).select(people).items,
    "phased": _online(lambda bound: PhasedSelector(3, 1, AWAY, window=9, bound=bound, seed=0)),
    "hedge": _online(lambda bound: HedgeSelector(3, 1, 10, BOTH, bound=bound, seed=0)),
    "sums": _online(lambda bound: RunningSumSelector(3, 1, 10, BOTH, bound=bound, seed=0)),
    "weighted sums": _online(lambda b: RunningSumSelector(3, 1, 10, BOTH, bound=b, weights="norm", seed=0)),
    "leader": _online(lambda bound: LeaderSelector(3, 1, 10, BOTH, bound=bound, batch=1, seed=0)),
    "master": _online(lambda bound: BestOfBothSelector(3, 1, 10, BOTH, bound=bound, seed=0)),
    "bandit": _online(lambda bound: BanditSelector(3, 1, 10, BOTH, bound=bound, seed=0)),
    "thompson": _online(lambda bound: ThompsonSelector(3, 1, 10, BOTH, block=1, bound=bound, seed=0)),
}


def _count(people):
    return max(1, int((np.asarray(people.data) > 0).sum()))


def _outcome(rule, bound, count):
    """The outcome, a refusal included: the items themselves are drawn, whether any is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rule(bound, _people(count, bound))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "items"


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("exponent", [-1074, -1040, -1000, -400, 400, 1000, 1021])
def test_no_person_decides_whether_there_is_an_answer(name, exponent):
    """Eight people of bound 2^1021 add up to infinity, and seven do not."""
    bound = 2.0**exponent
    outcomes = {_outcome(RULES[name], bound, count) for count in range(6, 10)}
    assert len(outcomes) == 1, outcomes
    if not 1e-100 <= bound <= 1e100:
        assert outcomes.pop().startswith("ValueError: bound=")


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("exponent", [-320, 320])
def test_what_is_chosen_does_not_depend_on_the_unit(name, exponent):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, scaled = (RULES[name](bound, _people(7, bound)) for bound in (1.0, 2.0**exponent))
    assert plain == scaled


@pytest.mark.parametrize("bound", [2.0**-960, 2.0**1021])
def test_a_file_does_not_bring_such_a_bound_back(bound, tmp_path):
    with mock.patch.object(checks, "bound", float):
        HedgeSelector(3, 1, 10, AWAY, bound=bound, seed=0).save(tmp_path / "state.discreet")
    with pytest.raises(ValueError, match=re.escape(f"bound={bound}")):
        dc.load(tmp_path / "state.discreet")
