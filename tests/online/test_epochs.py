"""Beyond a declared horizon: the last decision served on without learning, or a new epoch that begins with
what was released."""

import math

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage
from discreet.privacy.events import Loss
from tests.online.examples import N_ITEMS
from tests.online.learners import FRANK_WOLFE_SETS, SELECTORS

NAMES = [f"page {i}" for i in range(N_ITEMS)]
SERVING = SELECTORS | FRANK_WOLFE_SETS
BUDGET = dc.Budget(1.0, 1e-6)


def _state(learner):
    """Everything that a file would hold, to compare."""
    header, arrays = learner._saved()
    return header, {name: array.tobytes() for name, array in arrays.items()}


# --- the last decision ------------------------------------------------------------------------------


def test_going_on_serves_what_is_available():
    learner = dc.online.HedgeSelector(5, 2, 3, BUDGET, labels=list("abcde"), seed=0)
    learner.run(Coverage(np.eye(5)[:3]))
    learner.continue_without_learning()
    usual = learner.choose(wait=False)
    assert usual.labels[0] not in learner.choose(exclude=usual.labels[:1]).labels
    assert learner.choose(include=["e"]).labels[0] == "e"
    learner.learn(items=["a"], round=usual.round)  # as a service would, with the number it was given
    learner.learn(items=["a"])
    assert learner.round == 3


def test_going_on_can_be_said_before():
    learner = dc.online.HedgeSelector(3, 1, 5, BUDGET, seed=0)
    learner.continue_without_learning()
    for t in range(9):
        learner.choose()
        learner.learn(items=[0])
        assert learner.round == min(t + 1, 5)


# --- a new epoch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVING)
def test_a_new_epoch_has_what_was_released_and_a_budget_of_its_own(name):
    setting = SERVING[name]
    learner = setting.make(labels=NAMES)
    learner.run(setting.people(20))
    learner.retire_items(["page 1"])
    before = _state(learner)
    epoch = learner.next_epoch(learner.budget, seed=5)
    assert _state(learner) == before
    if name != "bandit, presampled, published":  # whose rounds are picked anew
        assert epoch.settings == learner.settings
        assert epoch.privacy.epsilon() == learner.privacy.epsilon()
    assert epoch.privacy.epsilon(learner.budget.delta) <= learner.budget.epsilon
    assert epoch.privacy.spent.loss == Loss()
    assert (epoch.round, epoch.rounds, epoch.labels) == (0, learner.rounds, tuple(NAMES))
    for _ in range(20):
        assert "page 1" not in epoch.choose(wait=False).labels
    assert epoch.certified_regret == math.inf or name.startswith("toy")
    cold = learner.next_epoch(learner.budget, discount=0.0, seed=5)
    values = cold.released.values
    assert values is None or np.isnan(values).all()


def test_months_are_accounted_for_one_by_one_and_together():
    """Each month has the whole budget; somebody who came in all of them has their composition."""
    months = dc.privacy.Periods(BUDGET, definition="gdp")
    names = ("2026-11", "2026-12", "2027-01")
    learner = dc.online.LeaderSelector(6, 2, 200, months.gate(names[0]))
    people = Coverage(np.random.default_rng(0).random((200, 6)) < 0.3)
    for name in names[1:]:
        learner.run(people)
        learner = learner.next_epoch(months.gate(name), discount=0.5)
    learner.run(people)
    each = [months.account(name) for name in names]
    assert len({account.epsilon() for account in each}) == 1
    assert each[0].epsilon() <= 1.0 < months.total().epsilon() < 3.0
    assert math.isclose(float(months.total().loss.mu_squared), 3 * float(each[0].loss.mu_squared))
    for name in names:
        with pytest.raises(dc.BudgetExceeded):
            learner.next_epoch(months.gate(name))


def test_an_epoch_needs_a_budget_of_the_same_kind():
    learner = dc.online.HedgeSelector(4, 1, 20, BUDGET, seed=0)
    for other in (
        dc.Budget(1.0, 1e-6, neighbours="add_remove"),
        dc.Budget(1.0, 1e-6, max_rounds_per_person=2),
        dc.Budget(math.inf),
    ):
        with pytest.raises(ValueError, match="make a new learner, with start= this one"):
            learner.next_epoch(other)
    with pytest.raises(dc.BudgetExceeded):
        learner.next_epoch(dc.Budget(0.5, 1e-6))
    with pytest.raises(ValueError, match="discount"):
        learner.next_epoch(BUDGET, discount=1.5)
    assert learner.next_epoch(dc.Budget(2.0, 1e-6)).privacy.epsilon() <= 1.0  # the same noise


def test_items_of_which_nothing_is_known_are_taken_for_ordinary_ones():
    """Thompson sampling explores what is new, and not as if it were better than the best."""
    rng = np.random.default_rng(0)
    chances = (0.6 * 0.8 ** np.arange(400) + 0.001)[rng.permutation(400)]
    before, people = (Coverage(rng.random((count, 400)) < chances) for count in (4000, 2000))
    for feedback in ("slots", "bandit"):
        old = dc.online.ThompsonSelector(400, 5, None, dc.Budget(1.0), feedback=feedback, seed=0)
        late = old.run(before).rewards[-500:].mean()
        assert np.isnan(old.released.values).mean() > 0.2
        assert old.next_epoch(dc.Budget(1.0), seed=1).run(people).average > 0.8 * late, feedback


def test_rounds_that_were_picked_in_advance_are_picked_anew():
    """What they release was charged by their number: an epoch must not explore by coins instead."""
    setting = SERVING["bandit, presampled, published"]
    learner = setting.make(budget=dc.Budget(1.0, 1e-6))
    epoch = learner.next_epoch(learner.budget, seed=3)
    picked = epoch._sum.schedule._picked
    assert picked is not None
    assert int(picked.sum()) == epoch.settings.explorations


def test_an_epoch_is_worth_something():
    """The same people with and without what the month before released; worst of all selectors with values."""
    rng = np.random.default_rng(4)
    chances = 0.5 / np.arange(1, 31) ** 0.8
    before, people = (Coverage(rng.random((count, 30)) < chances) for count in (3000, 3000))
    for learner in (
        dc.online.LeaderSelector(30, 3, 3000, BUDGET, seed=2),
        dc.online.BestOfBothSelector(30, 3, 3000, BUDGET, resample_every=20, seed=2),
        dc.online.RollingSelector(30, 3, dc.Budget(1.0), seed=2),
        dc.online.ThompsonSelector(30, 3, 3000, dc.Budget(1.0), feedback="slots", seed=2),
    ):
        learner.run(before)
        first = [
            learner.next_epoch(learner.budget, discount=discount, seed=3).run(people[:500]).average
            for discount in (0.0, 1.0)
        ]
        assert first[1] > first[0] + 0.02, learner


def test_a_bad_start_is_not_certified():
    """What is known can be wrong: a learner that begins with it loses more than one that begins with nothing
    is certified to lose."""
    people = Coverage(np.eye(4)[np.full(30_000, 2)])
    wrong = dc.online.LeaderSelector(4, 1, None, BUDGET, seed=0)
    wrong.run(Coverage(np.eye(4)[np.full(60_000, 1)]))
    kind, budget = dc.online.RunningSumSelector, dc.Budget(8.0, 1e-6)
    cold, warm = (
        kind(4, 1, 30_000, budget, resample_every=50, seed=0, start=start) for start in (None, wrong)
    )
    lost = (1 - 1 / math.e) * len(people) - warm.run(people).rewards.sum()
    assert lost > cold.certified_regret
    assert warm.certified_regret == math.inf
