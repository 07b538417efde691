"""Rounds that have not happened for their learner."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.online.registry import REGISTRY
from tests.online.examples import EXAMPLES
from tests.states import as_bytes

BANDIT = ("ThompsonSelector", "BanditSelector")


def test_skipped_rounds_are_no_rounds_in_which_nothing_was_taken():
    """Half of the rounds are never shown: the averages are those of the others."""

    def believed(how):
        budget = dc.Budget(np.inf)
        learner = dc.online.ThompsonSelector(4, 1, None, budget, feedback="slots", block=20, seed=1)
        for number in range(4_000):
            shown = learner.choose(wait=False)
            if number % 2:
                how(learner, shown)
            else:
                learner.learn(shown.items[0], round=shown.round)
        return np.nanmax(learner.released.values)

    skipped = believed(lambda learner, shown: learner.skip([shown.round]))
    nothing = believed(lambda learner, shown: learner.learn(None, round=shown.round))
    assert skipped > 0.95
    assert nothing < 0.6


@pytest.mark.parametrize("name", ["LeaderSelector", "HedgeSelector", *BANDIT])
def test_skip_refuses_what_waits_for_nothing(name):
    example = next(iter(EXAMPLES[name].values()))
    learner = example.make(REGISTRY[name].kind(name))
    rounds = [learner.choose(wait=False).round for _ in range(4)]
    for wrong in ([99], [rounds[0], rounds[0]], [-1]):
        with pytest.raises(ValueError, match="rounds"):
            learner.skip(wrong)
    assert learner.pending == tuple(rounds[:-1])
    learner.skip([rounds[0], rounds[-1]])
    assert learner.pending == tuple(rounds[1:-1])
    for gone in (rounds[0], rounds[-1]):
        with pytest.raises(ValueError, match="rounds"):
            learner.skip([gone])


@pytest.mark.parametrize("name", ["LeaderSelector", "ThompsonSelector"])
def test_the_open_round_is_skipped_together_with_the_oldest_that_waits(name, monkeypatch):
    monkeypatch.setattr("discreet.online.learner.MOST_OPEN", 4)
    learner = next(iter(EXAMPLES[name].values())).make(REGISTRY[name].kind(name))
    for _ in range(5):
        learner.choose(wait=False)
    learner.skip([4, 0, 1])
    assert learner.pending == (2, 3)


def test_a_round_that_was_learned_from_is_not_skipped():
    learner = dc.online.LeaderSelector(4, 1, 50, dc.Budget(1.0, 1e-6), batch=10, seed=0)
    for _ in range(2):
        learner.choose()
        learner.learn(items=[1])
    for gone in (0, 1):
        with pytest.raises(ValueError, match=f"rounds={gone} waits for no feedback"):
            learner.skip([gone])
    assert learner.round == 2


@pytest.mark.parametrize("name", BANDIT)
def test_a_set_that_was_asked_for_again_without_exclusions_is_learned_from(name):
    """What was shown is the set that was asked for last."""
    kind = REGISTRY[name].kind(name)
    learners = [kind(5, 2, 40, dc.Budget(1.0), feedback="slots", block=3, seed=1) for _ in range(2)]
    states = []
    for learner in learners:
        drawn = learner.choose()
        if learner is learners[0]:
            other = learner.choose(exclude=[drawn.items[0]])
            assert other.items != drawn.items == learner.choose().items
        learner.learn(drawn.items[0])
        header, arrays = learner._saved()
        states.append(as_bytes(header["state"], arrays))
    assert states[0] == states[1]
