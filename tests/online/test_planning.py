"""The planner: bounds that the learners keep, the right choice in words, and what would be needed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import discreet as dc
from discreet import bounds, planning
from discreet.constraints.domains import Ball
from discreet.objectives import Coverage

BUDGET = dc.Budget(1.0, 1e-6)
plan = partial(planning.plan, goal="certified")
QUESTIONS = [
    {"n_items": 100, "k": 10, "rounds": 10**6, "budget": BUDGET},
    {"n_items": 285, "k": 5, "rounds": 32_710, "budget": BUDGET, "items_per_person": 3},
    {
        "n_items": 217,
        "k": 5,
        "rounds": 24_026,
        "budget": BUDGET,
        "items_per_person": 3,
        "stream": "stationary",
    },
    {"n_items": 60, "k": 3, "rounds": 10**5, "budget": BUDGET, "stream": "stationary", "bound": 4.0},
    {"n_items": 50, "k": 2, "rounds": 10**5, "budget": dc.Budget(1.0), "stream": "adversarial"},
    {"n_items": 50, "k": 2, "rounds": 500, "budget": dc.Budget(0.5, 1e-6, "add_remove", 2)},
    {"n_items": 40, "k": 4, "rounds": 20_000, "budget": dc.Budget(math.inf), "stream": "stationary"},
    {"n_items": 1, "k": 1, "rounds": 10, "budget": BUDGET},
    {"n_items": 5, "k": 5, "rounds": 1, "budget": BUDGET, "stream": "stationary"},
]


def test_the_planned_bound_is_at_most_a_150th_of_the_published_one():
    found = plan(100, 10, 10**6, BUDGET)
    assert found.best.certified <= bounds.published_hedge(100, 10, 10**6, 1.0, 1e-6) / 150
    assert not found.vacuous


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_candidate_is_built_with_the_certificate_it_was_listed_with(question):
    found = plan(**question)
    for one in found.candidates:
        learner = replace(found, best=one).learner(seed=0)
        assert type(learner).__name__ == one.name
        assert (learner.n_items, learner.k, learner.bound) == (
            found.question.n_items,
            found.question.k,
            found.question.bound,
        )
        endless = learner.rounds is None
        certified = learner.certified_regret_after(found.rounds) if endless else learner.certified_regret
        if one.settings.get("calibration") == "published":
            assert certified <= one.certified * (1 + 1e-9)  # the theorem is looser than the certificate
        else:
            assert min(certified, found.question.trivial) == pytest.approx(one.certified, rel=1e-6)
        if found.budget.private:
            assert learner.privacy.epsilon() <= found.budget.epsilon
        if "items_per_person" in question and one.cut and "weights" not in one.settings:
            assert learner.items_per_person == question["items_per_person"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_best_is_the_best(question):
    found = plan(**question)
    assert found.best in found.candidates
    smallest = min(one.certified for one in found.candidates)
    assert found.best.certified <= smallest * (2.0 if any(one.cut for one in found.candidates) else 1.0)
    for one in found.candidates:
        assert one.certified <= min(bounds.trivial(found.rounds, found.question.bound), one.formula) * (
            1 + 1e-9
        )
        assert one.average == one.certified / found.rounds
    chance = max(0.0, 1 - 1 / math.e - found.question.k / found.question.n_items)
    assert found.at_random == pytest.approx(chance * found.rounds * found.question.bound)


def test_batches_are_better_than_their_neighbours():
    found = plan(100, 10, 10**6, BUDGET)
    hedge = next(one for one in found.candidates if "calibration" not in one.settings and one.name[0] == "H")
    batch = hedge.settings["resample_every"]
    from discreet.online.select.hedge import HedgeSelector

    for other in (1, batch // 2, 2 * batch, 10 * batch):
        learner = HedgeSelector(100, 10, 10**6, BUDGET, resample_every=other, seed=0)
        assert learner.certified_regret > 0.999 * hedge.certified
    auto = HedgeSelector(100, 10, 10**6, BUDGET, resample_every="auto", seed=0)
    assert hedge.certified <= 1.02 * auto.certified_regret


def test_which_learners_fit_the_question():
    def names(**changes):
        asked = {"n_items": 20, "k": 3, "rounds": 1_000, "budget": BUDGET} | changes
        return {(one.name, one.settings.get("noise")) for one in plan(**asked).candidates}

    everywhere = names()
    assert ("RunningSumSelector", None) in everywhere
    assert ("RunningSumSelector", "laplace") in everywhere
    assert ("HedgeSelector", None) in everywhere
    assert names(stream="stationary") - everywhere == {("PhasedSelector", None), ("LeaderSelector", None)}
    assert names(budget=dc.Budget(1.0)) == {("RunningSumSelector", "laplace"), ("HedgeSelector", None)}
    assert names(budget=dc.Budget(math.inf)) == {("HedgeSelector", None)}
    published = plan(20, 3, 1_000, dc.Budget(1.0)).candidates
    assert not any("calibration" in one.settings for one in published)  # the paper's rate needs a delta


def test_a_cut_is_taken_only_where_it_brings_much():
    adversarial = plan(285, 5, 32_710, BUDGET, items_per_person=3)
    assert adversarial.best.cut
    assert adversarial.best.settings["items_per_person"] == 3
    stationary = plan(285, 5, 32_710, BUDGET, stream="stationary", items_per_person=3)
    assert stationary.best.name == "PhasedSelector"
    assert "people as they are" in stationary.reason
    assert not plan(10, 2, 10**5, BUDGET, items_per_person=10).best.cut


def test_the_table_says_what_was_chosen_and_why():
    found = plan(100, 10, 10**6, BUDGET, labels=[f"page {i}" for i in range(100)])
    text = str(found)
    lines = text.splitlines()
    assert lines[0].startswith(
        "10 of 100 items, 1,000,000 rounds, full feedback, adversarial stream; epsilon 1"
    )
    assert sum(line.startswith("* ") for line in lines) == 1
    assert next(line for line in lines if line.startswith("* ")).split()[1] == found.best.name
    assert f"chosen: {found.best}" in text
    assert (
        f"Its certified regret, {found.best.certified:,.0f}, is the smallest of those about people as" in text
    )
    assert "choosing at random" in text
    assert "constants of paper 000" in text
    assert found.learner(seed=0).choose().labels[0].startswith("page ")


def test_it_says_when_nothing_is_certified_and_what_would_be():
    found = plan(1_000, 5, 1_000, BUDGET)
    assert found.vacuous
    assert found.best.formula == min(one.formula for one in found.candidates)
    assert "No setting is certified to beat choosing at random" in str(found)
    assert f"{found.rounds_needed:,} rounds" in found.reason
    assert not plan(1_000, 5, found.rounds_needed, BUDGET).vacuous
    assert plan(1_000, 5, int(0.9 * found.rounds_needed), BUDGET).vacuous
    enough = dc.Budget(found.epsilon_needed, 1e-6)
    assert not plan(1_000, 5, 1_000, enough).vacuous
    assert plan(1_000, 5, 1_000, dc.Budget(0.9 * found.epsilon_needed, 1e-6)).vacuous
    assert len(found.learner(seed=0).choose()) == 5


def test_what_cannot_be_reached_is_said():
    found = plan(10**6, 1_000, 2, dc.Budget(1e-6))
    assert found.vacuous
    assert found.rounds_needed is None or found.rounds_needed > 10**6
    few = plan(10**6, 1_000, 2, dc.Budget(math.inf))
    assert few.vacuous
    assert few.epsilon_needed is None


def test_bad_questions_are_named():
    for changes, said in (
        ({"k": 30}, "k=30 exceeds n_items=20"),
        ({"rounds": 0}, "rounds=0"),
        ({"feedback": "gossip"}, "feedback='gossip' is not one of 'full'"),
        ({"stream": "calm"}, "stream='calm'"),
        ({"items_per_person": 0}, "items_per_person=0"),
        ({"bound": -1.0}, "bound=-1"),
        ({"labels": ["a"]}, "labels has 1 entries"),
    ):
        with pytest.raises(ValueError, match=said):
            plan(**{"n_items": 20, "k": 3, "rounds": 1_000, "budget": BUDGET} | changes)
    with pytest.raises(TypeError, match="budget must be a Budget"):
        plan(20, 3, 1_000, 1.0)


def _streams(rounds, n_items, rng):
    turn = np.arange(rounds)
    yield "alternating", (turn[:, None] % 2 == np.arange(n_items) % 2) * (rng.random((rounds, n_items)) < 0.5)
    yield "drifting", np.eye(n_items)[(turn * n_items) // rounds]
    worst = np.zeros((rounds, n_items))
    worst[: rounds // 2, : n_items // 2] = 1
    worst[rounds // 2 :, n_items - 1] = 1
    yield "turning", worst


@pytest.mark.parametrize("epsilon", [8.0, math.inf])
def test_measured_regret_stays_below_the_certified_one(epsilon):
    rng = np.random.default_rng(0)
    rounds, n_items, k = 6_000, 6, 2
    found = plan(n_items, k, rounds, dc.Budget(epsilon, 1e-6))
    assert not found.vacuous
    for name, likes in _streams(rounds, n_items, rng):
        people = Coverage(likes)
        totals = [found.learner(seed=seed).run(people).regret(people).total for seed in range(2)]
        assert np.mean(totals) < found.best.certified, name


@pytest.mark.parametrize("question", [(10, 7, 5000, dc.Budget(1.0, 1e-6)), (3, 3, 5, dc.Budget(1.0))])
def test_nothing_is_said_to_beat_chance_where_chance_is_good_enough(question):
    found = plan(*question)
    assert found.at_random == 0.0
    assert not found.vacuous
    assert "Even choosing at random has no regret" in found.reason
    assert found.rounds_needed is None


def test_chance_is_priced_at_what_a_random_set_earns():
    """A random k-set is worth at least k/n of the best: checked on random coverage functions."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        people = dc.objectives.Coverage((rng.random((30, 6)) < 0.3).astype(float))
        sets = list(itertools.combinations(range(6), 2))
        values = [people.value(s) for s in sets]
        assert np.mean(values) >= max(values) * 2 / 6 - 1e-12


@pytest.mark.parametrize(
    "ask",
    [
        lambda rounds, budget: plan(5, 2, rounds, budget),
        lambda rounds, budget: dc.plan_minimization(5, rounds, budget),
        lambda rounds, budget: dc.plan_convex(Ball(3), rounds, budget, lipschitz=1.0),
    ],
)
def test_horizons_beyond_the_tables_have_a_plan_that_can_be_made(ask):
    """Buffers are tabulated up to 2^24 rounds, and factorised sums are exact enough up to 2^25."""
    names = []
    for rounds in (1 << 24, 1 << 25, 10**8):
        plan = ask(rounds, dc.Budget(1.0, 1e-6))
        assert plan.learner(seed=0).rounds == rounds
        names.append({one.settings.get("sums") for one in plan.candidates})
    assert [{"sqrt", "blt"} & name for name in names] == [{"sqrt", "blt"}, {"sqrt"}, set()]


def test_the_smallest_budget_has_a_plan():
    found = plan(5, 2, 100, dc.Budget(1e-12, 1e-6))
    assert found.vacuous
    assert found.rounds_needed is None or found.rounds_needed > 10**6


# --- people who return ------------------------------------------------------------------------------


def test_people_who_return_after_many_rounds_cost_less():
    """Sums have noise for what somebody's rounds move together, and candidates say after how many batches."""
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=4)
    often, apart = (
        dc.plan(30, 3, 4000, budget, goal="certified", stream="stationary", min_separation=one)
        for one in (None, 500)
    )
    before = {one.kind: one for one in often.candidates}
    changed = [one for one in apart.candidates if "min_separation" in one.settings]
    assert {one.name for one in changed} == {"LeaderSelector", "RunningSumSelector", "BestOfBothSelector"}
    for one in changed:
        if one.name == "RunningSumSelector":
            assert one.settings["min_separation"] == max(1, 500 // one.settings["resample_every"])
            assert one.formula < before[one.kind].formula or math.isinf(one.formula)
    assert sum(math.isfinite(one.formula) for one in changed) >= 3
    assert "people who come 4 times, at least 500 rounds apart" in apart.headline
    for one in changed:
        learner = apart.question.build(one, 0)
        assert learner.privacy.epsilon(1e-6) <= 1.0
        learner.choose()
        with pytest.raises(ValueError, match="person_id"):
            learner.learn(items=[0])
    alone = dc.plan(30, 3, 400, dc.Budget(1.0, 1e-6), goal="certified", min_separation=50)
    assert not any("min_separation" in one.settings for one in alone.candidates)  # nobody returns
    with pytest.raises(ValueError, match="min_separation"):
        dc.plan(30, 3, 400, budget, min_separation=0)


def test_simulated_people_return_as_declared():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=3)
    question = dc.plan(6, 2, 100, budget, goal="certified", min_separation=7).question
    visits = question.visits(100)
    for who in set(visits):
        rounds = [t for t, one in enumerate(visits) if one == who]
        assert len(rounds) <= 3
        assert all(after - before == 7 for before, after in itertools.pairwise(rounds))
    found = dc.plan(6, 2, 200, budget, stream="stationary", min_separation=7)
    assert all(one.share > 0.3 for one in found.simulation.shares.values())


def test_people_who_return_under_a_constraint():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    blocks = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], 1)
    found = dc.plan(4, blocks, 300, budget, goal="certified", stream="stationary", min_separation=40)
    assert all("min_separation" in one.settings for one in found.candidates)
    assert "at least 40 rounds apart" in found.headline
