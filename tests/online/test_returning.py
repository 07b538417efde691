"""People who return to learners on running sums: who counts when, what it costs, and what is refused."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import pytest

import discreet as dc
from discreet.core.state import capture, restore
from discreet.objectives import Coverage, SetFunction
from discreet.online import BestOfBothSelector, LeaderSelector, RunningSumSelector
from discreet.online.learner import Rounds
from discreet.online.people import ContributionLimit
from discreet.privacy import GaussianNoise, GroupGaussianNoise, Participation
from tests.online.learners import EVERYBODY

PEOPLE, ROUNDS = 5, 60
KINDS = [
    (RunningSumSelector, {"resample_every": 4}),
    (RunningSumSelector, {"resample_every": 1, "weights": "norm"}),
    (RunningSumSelector, {"resample_every": 4, "sums": "tree"}),
    (LeaderSelector, {"batch": 4}),
    (LeaderSelector, {"first_batch": 5}),
    (BestOfBothSelector, {"resample_every": 4}),
]


def stream(seed=0, rounds=ROUNDS):
    """Who comes, and what they like: each of the people an item of their own."""
    ids = np.random.default_rng(seed).integers(0, PEOPLE, rounds)
    return Coverage(np.eye(PEOPLE)[ids]), ids.tolist()


def batches(settings, number):
    """The batches of a round, one for each running sum of a learner."""
    if hasattr(settings, "experts"):
        return batches(settings.experts, number)
    if hasattr(settings, "ends"):
        return (sum(end <= number for end in settings.ends),)
    return (number // settings.resample_every,)


def allowed(settings, ids, times, apart):
    """The slow twin: a round counts if all batches it is in are far enough from all that counted before."""
    counted, found = {}, []
    for number, who in enumerate(ids):
        now, before = batches(settings, number), counted.setdefault(who, [])
        good = len(before) < times and all(
            new - old >= apart for past in before for new, old in zip(now, past, strict=True)
        )
        found.append(good)
        if good:
            before.append(now)
    return found


def taken(learner, people, ids, *, one_by_one):
    """The rounds that were learned from."""
    found, register = [], learner._contribution.register

    def noted(person, ahead=None):
        found.append(register(person, ahead))
        return found[-1]

    learner._contribution.register = noted
    if one_by_one:
        for person, who in zip(people, ids, strict=True):
            learner.choose()
            learner.learn(person, person_id=who)
    else:
        learner.run(people, person_ids=ids)
    return found


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize(("times", "apart"), [(2, 1), (3, 2)])
def test_a_person_counts_once_in_a_batch_and_in_batches_that_are_apart(kind, options, times, apart):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=times)
    people, ids = stream()
    found = []
    for one_by_one in (False, True):
        learner = kind(PEOPLE, 2, ROUNDS, budget, min_separation=apart, seed=0, **options)
        found.append(taken(learner, people, ids, one_by_one=one_by_one))
    assert found[0] == found[1] == allowed(learner.settings, ids, times, apart)
    assert 0 < sum(found[0]) <= times * PEOPLE


@pytest.mark.parametrize("kind", [RunningSumSelector, LeaderSelector])
def test_sums_hold_each_person_once_per_batch(kind):
    """Without noise the sums say who is in them: nobody twice in a batch, nobody in too many."""
    budget = dc.Budget(np.inf, 1e-6, max_rounds_per_person=3)
    every = {"resample_every": 4} if kind is RunningSumSelector else {"batch": 4}
    learner = kind(PEOPLE, 1, ROUNDS, budget, min_separation=2, seed=0, **every)
    people, ids = stream(1)
    sums = [np.zeros(PEOPLE)]
    for person, who in zip(people, ids, strict=True):
        learner.choose()
        sums.append(learner._sum.released.ravel().copy())
        learner.learn(person, person_id=who)
    added = np.diff(sums, axis=0)
    assert added.max() <= 1.0
    assert 1.0 <= np.array(sums).max() <= 3.0
    for one in added.T:
        assert (np.diff(np.flatnonzero(one)) >= 2 * 4).all()


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_the_account_is_the_budget_and_the_noise_is_less(kind, options):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=4)
    plain, near, apart = (
        kind(PEOPLE, 2, ROUNDS, budget, min_separation=s, seed=0, **options) for s in (None, 1, 3)
    )
    for learner in (near, apart):
        assert 0.98 < learner.privacy.epsilon(1e-6) <= 1.0
        assert "in 4 rounds" in str(learner.privacy.releases())
    settings = [getattr(one.settings, "experts", one.settings) for one in (plain, near, apart)]
    noise = [one.spec.deviation(one.event) for one in settings]
    assert noise[2] < noise[1] < 0.99 * noise[0]
    assert type(settings[0].event) is GaussianNoise
    assert type(settings[1].event) is GroupGaussianNoise
    assert settings[2].participation == Participation(4, 3)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_saved_learners_know_everybody_again(kind, options, tmp_path):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=3)
    people, ids = stream(2)
    whole, first = (kind(PEOPLE, 2, ROUNDS, budget, min_separation=2, seed=0, **options) for _ in range(2))
    expected = taken(whole, people, ids, one_by_one=False)
    before = taken(first, people[:30], ids[:30], one_by_one=False)
    first.save(tmp_path / "learner")
    again = dc.load(tmp_path / "learner")
    assert before + taken(again, people[30:], ids[30:], one_by_one=False) == expected
    assert again.choose() == whole.choose()


def test_nobody_without_a_name_is_learned_from():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    learner = RunningSumSelector(PEOPLE, 2, ROUNDS, budget, min_separation=1, seed=0)
    people, _ = stream()
    learner.choose()
    with pytest.raises(ValueError, match="person_id is needed"):
        learner.learn(people[0])
    with pytest.raises(ValueError, match="person_id is needed"):
        learner.run(people)
    with pytest.raises(ValueError, match="person_id is needed"):
        learner.run(people[:2], person_ids=["ann", None])
    assert learner.round == 0
    assert not learner._contribution._counts
    # Where everybody counts once anyway, names are as they always were.
    once = RunningSumSelector(PEOPLE, 2, ROUNDS, dc.Budget(1.0, 1e-6), min_separation=1, seed=0)
    plain = RunningSumSelector(PEOPLE, 2, ROUNDS, dc.Budget(1.0, 1e-6), seed=0)
    np.testing.assert_array_equal(once.run(people).selections, plain.run(people).selections)


def test_those_behind_a_failure_were_not_here():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    learner = RunningSumSelector(3, 1, 20, budget, min_separation=1, resample_every=2, seed=0)

    def fails(_):
        raise ZeroDivisionError

    rows = [lambda items: float(bool(items))] * 3 + [fails] + [lambda items: float(bool(items))] * 3
    people = SetFunction(rows, 3, 1.0, monotone=True)
    with pytest.raises(ZeroDivisionError):
        learner.run(people, person_ids=["ann", "ann", "bob", "eve", "ann", "bob", "eve"])
    limit = learner._contribution
    assert learner.round == 3
    assert sorted(map(tuple, limit._counted.values())) == [(0,), (2,)]
    assert [limit.register(who) for who in ("ann", "ann", "bob", "eve")] == [True, False, False, True]


def test_who_comes_between_two_batches_is_in_the_one_before():
    """The sum of a batch leaves with the next set: until then everybody comes into it."""
    rounds = Rounds(None)
    limit = ContributionLimit(3, bytes(32), rounds, lambda number: number // 2 * 2)
    rounds.open()
    assert limit.register("ann")
    rounds.close(2)
    assert not limit.register("ann")
    rounds.open()
    assert limit.register("ann")
    assert not limit.register("ann")


def test_what_cannot_be_counted_together_is_refused():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    with pytest.raises(ValueError, match="needs Gaussian noise"):
        RunningSumSelector(3, 1, 20, budget, sums="tree", noise="laplace", min_separation=1)
    with pytest.raises(ValueError, match="min_separation=0"):
        LeaderSelector(3, 1, None, budget, min_separation=0)
    with pytest.raises(ValueError, match="several disjoint groups"):
        LeaderSelector(3, 1, None, dc.Gate(budget, 0).part("a"), min_separation=1)


# --- learners of other kinds, in which every round or batch of rounds enters one sum ----------------------

OTHERS = [
    "frank-wolfe, cardinality, capped, batches",
    "frank-wolfe, box",
    "leader",
    "linear, experts",
    "minimizer, sqrt",
]


@pytest.mark.parametrize("name", OTHERS)
def test_other_learners_on_running_sums_count_people_the_same_way(name, tmp_path):
    setting, budget = EVERYBODY[name], dc.Budget(1.0, 1e-6, max_rounds_per_person=4)
    people = setting.people(ROUNDS // 2)
    ids = np.random.default_rng(3).integers(0, 3, ROUNDS // 2).tolist()
    plain, learner, again = (setting.make(budget=budget, min_separation=s) for s in (None, 2, 2))
    noise = [one.settings.spec.noise_std(one.settings.event, 1) for one in (plain, learner)]
    assert noise[1] < 0.9 * noise[0]
    assert 0.98 < learner.privacy.epsilon(1e-6) <= 1.0
    assert learner.settings.participation == Participation(4, 2)
    decision = learner.choose()
    with pytest.raises(ValueError, match="person_id is needed"):
        learner.learn(setting.feedback(learner, people[0], decision))
    found = []
    for t, who in enumerate(ids):
        decision, register = learner.choose(), learner._contribution._counts.copy()
        learner.learn(setting.feedback(learner, people[t], decision), person_id=who)
        found.append(learner._contribution._counts != register)
    every = getattr(learner.settings, "resample_every", 1)
    counted: dict[int, list[int]] = {}
    for t, who in enumerate(ids):
        before = counted.setdefault(who, [])
        good = len(before) < 4 and (not before or t // every - before[-1] >= 2)
        assert good == found[t]
        if good:
            before.append(t // every)
    again.run(people, person_ids=ids)
    assert again._contribution._counts == learner._contribution._counts
    again.save(tmp_path / "learner")
    assert dc.load(tmp_path / "learner").settings.participation == Participation(4, 2)


@pytest.mark.parametrize("kind", [RunningSumSelector, LeaderSelector])
def test_late_feedback_counts_once_in_the_batch_it_comes_into(kind):
    """Without noise the sums say who is in them, also of somebody whose answers come late."""
    every = {"resample_every": 4, "weights": "norm"} if kind is RunningSumSelector else {"batch": 4}
    budget = dc.Budget(np.inf, 1e-6, max_rounds_per_person=3)
    learner = kind(PEOPLE, 1, ROUNDS, budget, min_separation=1, seed=0, **every)
    known, coins = [np.zeros(PEOPLE)], np.random.default_rng(0)
    for _ in range(ROUNDS - 1):
        learner.choose(wait=False)
        known.append(learner._sum.released.ravel().copy())
        for late in learner.pending:
            if coins.random() < 0.5:
                learner.learn(items=[0], round=late, person_id="ann")
    assert np.diff(known, axis=0).max() <= 1.0
    assert 1.5 < known[-1].max() <= 3.0
    with pytest.raises(ValueError, match="min_separation"):
        kind(PEOPLE, 1, ROUNDS, budget, min_separation=1, seed=0, **every).add_items([PEOPLE])


@pytest.mark.parametrize("call", ["register", "forget"])
def test_interrupted_counting_leaves_what_can_be_saved(call):
    """Interrupted at every line: how often somebody was counted, and in which rounds, are of one mind."""

    def watch(frame, event, _):
        nonlocal left
        if frame.f_code.co_name == call and event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return watch

    for line in range(1, 16):
        learner = RunningSumSelector(5, 2, 60, dc.Budget(1.0, 1e-6, "replace", 3), min_separation=1)
        learner.run(Coverage(np.eye(5)), person_ids=list("aabba"))
        learner.choose()
        left, before = line, sys.gettrace()
        sys.settrace(watch)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                getattr(learner._contribution, call)("b")
        finally:
            sys.settrace(before)
        assert dc.load(learner.to_bytes()).round == 5


def test_a_file_with_other_rounds_is_refused():
    rounds = Rounds(None)
    rounds.close(10)
    limit = ContributionLimit(3, bytes(32), rounds, lambda number: number)
    for _ in range(2):
        assert limit.register("ann")
        rounds.close()
    plain, arrays = capture(limit)
    again = ContributionLimit(3, bytes(32), rounds, lambda number: number)
    restore(again, plain, arrays)
    assert [again.register("ann"), again.register("ann")] == [True, False]
    with pytest.raises(ValueError, match="rounds"):
        restore(limit, plain, arrays | {"_table.2": np.array([10])})
