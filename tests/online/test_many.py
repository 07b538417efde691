"""Rounds dealt and learned from many at a time: what one at a time does."""

from __future__ import annotations

import random

import pytest

from discreet.online.learner import OnlineSelector
from tests.online.learners import SELECTORS
from tests.states import content

ALL = {words: setting for words, setting in SELECTORS.items() if isinstance(setting.make(), OnlineSelector)}


@pytest.fixture(params=ALL)
def setting(request):
    return ALL[request.param]


def _one_by_one(learner, count):
    return [learner.choose(wait=False) for _ in range(count)]


def _story(setting, choose, learn, retired=False):
    """Decisions of three hands, what comes of most of them in any order, and the learner's state."""
    learner, people, rng = setting.make(), setting.people(60), random.Random(4)
    seen, waiting = [], []
    for count in (7, 1, 14, 6):
        waiting += choose(learner, count)
        rng.shuffle(waiting)
        ready, waiting = waiting[5:], waiting[:5]
        heard = {one.round: setting.feedback(learner, people[one.round], one) for one in ready}
        learn(learner, heard)
        seen += ready
        if retired and count == 1:
            learner.retire_items([0])
    return seen, content(learner.to_bytes())


@pytest.mark.parametrize("retired", [False, True])
def test_many_rounds_are_those_of_one_at_a_time(setting, retired):
    def learn(learner, heard):
        for round, person in sorted(heard.items()):
            learner.learn(person, round=round)

    try:
        expected = _story(setting, _one_by_one, learn, retired)
    except NotImplementedError:
        pytest.skip("its items stay")
    assert _story(setting, lambda one, count: one.choose_many(count), learn, retired) == expected
    assert _story(setting, _one_by_one, lambda one, heard: one.learn_many(heard), retired) == expected


def test_horizon(setting):
    one, other = setting.make(), setting.make()
    if one.rounds is None:
        pytest.skip("no horizon to reach")
    assert one.choose_many(one.rounds + 3) == _one_by_one(other, one.rounds + 3)
    assert content(one.to_bytes()) == content(other.to_bytes())
    late = {one.rounds: setting.nothing(one)}
    with pytest.raises(RuntimeError, match="horizon"):
        one.learn_many(late)
    one.continue_without_learning()
    before = one.to_bytes()
    one.learn_many(late)
    assert content(one.to_bytes()) == content(before)


def test_refusals_change_nothing(setting):
    learner, people = setting.make(), setting.people(9)
    dealt = learner.choose_many(4)
    good = setting.feedback(learner, people[0], dealt[0])
    before = learner.to_bytes()
    for bad in setting.bad(learner):
        with pytest.raises((ValueError, TypeError)):
            learner.learn_many({dealt[0].round: good, dealt[1].round: bad})
    for wrong in (99, -1, "first"):
        with pytest.raises((ValueError, TypeError), match="round"):
            learner.learn_many({dealt[0].round: good, wrong: good})
    for count in (0, -1, 2.5):
        with pytest.raises((ValueError, TypeError), match="count"):
            learner.choose_many(count)
    assert content(learner.to_bytes()) == content(before)
    learner.learn_many({dealt[0].round: good})
    with pytest.raises(ValueError, match="has been counted"):
        learner.learn_many({dealt[0].round: good})
