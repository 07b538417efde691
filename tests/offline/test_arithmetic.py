"""The arithmetic of a guarantee is arithmetic: every step is worked out again, and ends at the account."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage
from discreet.offline import PrivateGreedy
from discreet.offline.greedy import Step
from discreet.privacy.picks import Picks

SEEN = {"exp": math.exp, "log": math.log, "sqrt": math.sqrt}


def steps_of(method: str, neighbours: str, epsilon: float, k: int = 12):
    people = Coverage(np.random.default_rng(0).random((300, 40)) < 0.1)
    delta = 0.0 if method in ("basic", "subsampled") else 1e-6
    greedy = PrivateGreedy(k, dc.Budget(epsilon, delta, neighbours), method, seed=0)
    greedy.select(people)
    return greedy, greedy.arithmetic


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("method", ["basic", "zcdp", "decomposable", "subsampled", "exact"])
def test_every_step_can_be_worked_out(method, neighbours):
    epsilon = 3.0
    greedy, steps = steps_of(method, neighbours, epsilon)
    for what, how, value in steps:
        assert eval(how, {"__builtins__": {}}, SEEN) == pytest.approx(value, rel=1e-9), what
    assert steps[-1].value == greedy.privacy.epsilon() <= epsilon
    last = steps[-2].value
    if method == "decomposable":
        assert last == pytest.approx(1e-6, rel=1e-6)
    elif method == "zcdp":
        # The conversion that fits on a line is above the account's own, and not by much.
        assert greedy.privacy.epsilon() <= last <= 1.25 * greedy.privacy.epsilon()
    else:
        assert last == pytest.approx(greedy.privacy.epsilon(), rel=1e-3)


def test_a_wrong_rate_would_be_seen(monkeypatch):
    """With picks at a tenth more than was paid for, the steps end above the budget."""
    greedy, _ = steps_of("subsampled", "replace", 1.0)
    monkeypatch.setattr(
        greedy, "_plan", greedy._plan.__class__(_more(greedy._plan.picks), None, None, 0.0), raising=True
    )
    assert greedy.arithmetic[-2].value > 1.02


def _more(picks: Picks) -> Picks:
    return Picks(picks.method, 1.1 * picks.rate, picks.event, picks.count, picks.keep)


def test_picks_above_chance_go_by_public_sizes():
    """Where tastes are shared out evenly, the picks beyond are no better than drawn at random."""
    greedy = PrivateGreedy(50, dc.Budget(1.0))
    assert greedy.picks_above_chance(10**6, 200) == 50
    few = greedy.picks_above_chance(600, 200)
    assert 0 < few < 50
    assert greedy.picks_above_chance(600, 2000) < few < greedy.picks_above_chance(6000, 200) + 1
    # Greedy's t-th pick adds at most a t-th of all bounds: a plan's own draw of such an item is the test.
    for count, people, bound in ((200, 600, 1.0), (6, 13, 0.5)):
        greedy = PrivateGreedy(min(50, count - 1), dc.Budget(1.0), bound=bound)
        few = greedy.picks_above_chance(people, count)
        for pick, likely in ((few, True), (few + 1, False)):
            odds = math.exp(greedy.plan(count, people).picks.temperature * people * bound / pick)
            assert (odds / (odds + count - 1) >= 0.5) == likely


def test_for_a_reader_numbers_have_six_digits():
    assert str(Step("the most that one adds", "1.0", 1.0)) == "the most that one adds: 1"
    assert str(Step("x", "0.9740769841800513 * 1.0", 0.9740769841800513)) == "x: 0.974077 * 1 = 0.974077"
    assert str(Step("x", "20 * 1.2345678e-07**2 / 8", 3.8e-14)) == "x: 20 * 1.23457e-07**2 / 8 = 3.8e-14"
