"""The planner beyond full information: what it lists is what the learners it builds certify."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality, Knapsack, PartitionMatroid

certified = partial(dc.plan, goal="certified")
BUDGET = dc.Budget(1.0, 1e-6)
PURE = dc.Budget(0.5)
FREE = dc.Budget(math.inf)
BLOCKS = PartitionMatroid([0, 0, 0, 1, 1, 1, 2, 2], [1, 2, 1])
BALL = dc.domains.Ball(3, 2.0)

PLANS = {
    "bandit": lambda budget: certified(10, 2, 10**5, budget, feedback="bandit"),
    "bandit, bound 3": lambda budget: certified(6, 3, 5_000, budget, feedback="bandit", bound=3.0),
    "slots": lambda budget: certified(12, 3, 5_000, budget, feedback="slots"),
    "matroid": lambda budget: certified(8, BLOCKS, 10**5, budget),
    "matroid, cut": lambda budget: certified(8, BLOCKS, 10**5, budget, items_per_person=2),
    "knapsack": lambda budget: certified(5, Knapsack([1, 2, 2, 3, 1], 4), 20_000, budget),
    "minimize": lambda budget: dc.plan_minimization(8, 10**5, budget, bound=2.0),
    "minimize, free": lambda budget: dc.plan_minimization(8, 10**5, budget, empty_is_free=True),
    "minimize, bandit": lambda budget: dc.plan_minimization(4, 10**6, budget, feedback="bandit"),
    "convex": lambda budget: dc.plan_convex(BALL, 10**5, budget, lipschitz=1.5),
    "curved": lambda budget: dc.plan_convex(BALL, 10**5, budget, lipschitz=1.5, strong_convexity=0.5),
    "linear": lambda budget: dc.plan_convex(dc.domains.Simplex(5), 10**5, budget, lipschitz=1.0, linear=True),
    "convex, bandit": lambda budget: dc.plan_convex(
        BALL, 10**6, budget, lipschitz=1.0, feedback="bandit", bound=1.0
    ),
}


@pytest.mark.parametrize("budget", [BUDGET, PURE, FREE], ids=["approximate", "pure", "free"])
@pytest.mark.parametrize("name", PLANS)
def test_every_candidate_is_built_with_the_certificate_it_was_listed_with(name, budget):
    found = PLANS[name](budget)
    assert found.candidates
    assert found.best in found.candidates
    for one in found.candidates:
        with warnings.catch_warnings():
            if one.settings.get("calibration") == "published":
                warnings.simplefilter("ignore")
            learner = replace(found, best=one).learner(seed=0)
        assert type(learner).__name__ == one.name
        assert one.certified <= found.question.trivial * (1 + 1e-12)
        assert min(learner.certified_regret, found.question.trivial) == pytest.approx(one.certified, rel=1e-6)
        if budget.private and one.settings.get("calibration") != "published":
            assert learner.privacy.epsilon() <= budget.epsilon
        learner.choose()
    assert found.best.certified <= min(one.certified for one in found.candidates) * 2.0


@pytest.mark.parametrize("name", PLANS)
def test_the_table_names_what_was_chosen(name):
    found = PLANS[name](BUDGET)
    lines = str(found).splitlines()
    assert found.question.headline in lines[0]
    assert sum(line.startswith("* ") for line in lines) == 1
    assert f"chosen: {found.best}" in str(found)


def test_bandit_plans_prefer_blocks_and_tell_of_the_paper():
    found = certified(10, 2, 10**6, BUDGET, feedback="bandit")
    assert found.best.settings["exploration"] == "blocks"
    assert not found.vacuous
    published = next(one for one in found.candidates if "calibration" in one.settings)
    assert "constants of paper 000" in published.note
    assert published.formula > 20 * found.best.formula
    assert not any(
        "calibration" in one.settings for one in certified(10, 2, 10**6, PURE, feedback="bandit").candidates
    )


def test_what_would_be_enough_is_enough():
    found = dc.plan_minimization(20, 10**5, PURE, feedback="bandit")
    assert found.vacuous
    assert not dc.plan_minimization(20, found.rounds_needed, PURE, feedback="bandit").vacuous
    assert not dc.plan_minimization(20, 10**5, dc.Budget(found.epsilon_needed), feedback="bandit").vacuous


def test_a_cardinality_is_k():
    assert (
        certified(10, Cardinality(2), 1_000, BUDGET).candidates == certified(10, 2, 1_000, BUDGET).candidates
    )


def test_linear_costs_have_a_better_learner_for_streams_fixed_in_advance():
    found = PLANS["linear"](BUDGET)
    assert found.best.name == "LinearLeader"
    adaptive = dc.plan_convex(
        dc.domains.Simplex(5), 10**5, BUDGET, lipschitz=1.0, linear=True, adversary="adaptive"
    )
    assert {one.name for one in adaptive.candidates} == {"ApproximateLeader"}


def test_bad_questions_are_named():
    for make, said in (
        (lambda: certified(8, BLOCKS, 100, BUDGET, feedback="bandit"), "planned for k items only"),
        (lambda: certified(9, BLOCKS, 100, BUDGET), "over 8 items, not n_items=9"),
        (lambda: certified(8, 9, 100, BUDGET, feedback="bandit"), "k=9 exceeds n_items=8"),
        (lambda: dc.plan_minimization(0, 100, BUDGET), "n_items=0"),
        (lambda: dc.plan_minimization(3, 100, BUDGET, feedback="slots"), "feedback='slots'"),
        (lambda: dc.plan_convex(BALL, 100, BUDGET, lipschitz=0.0), "lipschitz=0"),
        (lambda: dc.plan_convex(BALL, 100, BUDGET, lipschitz=1.0, feedback="bandit"), "bound is missing"),
        (lambda: dc.plan_convex(BALL, 100, BUDGET, lipschitz=1.0, adversary="kind"), "adversary='kind'"),
    ):
        with pytest.raises(ValueError, match=said):
            make()
    for make in (
        lambda: dc.plan_minimization(3, 100, 1.0),
        lambda: dc.plan_convex(np.zeros(3), 100, BUDGET, lipschitz=1.0),
    ):
        with pytest.raises(TypeError):
            make()


def test_what_is_not_guaranteed_is_said_once():
    """No bound at any size, or none that says anything at this one: never both, and not again in a note."""
    for options in ({"feedback": "slots"}, {"stream": "stationary"}, {"feedback": "bandit"}):
        found = dc.plan(20, 3, 400, dc.Budget(1.0, 1e-6), goal="certified", **options)
        header, rows = found.rows()
        regret, notes = header.index("regret at most"), header.index("note")
        for one, row in zip(found.candidates, rows, strict=False):
            if one.certified >= found.at_random:
                words = "no guarantee at this size" if one.proven else "no bound is known"
                assert row[regret] == words
            assert "bound" not in row[notes]
        unproven = {one.name for one in found.candidates if not one.proven}
        slots = {"ThompsonSelector", "BanditSelector"}
        expected = slots if options == {"feedback": "slots"} else {"LeaderSelector", "ThompsonSelector"}
        assert unproven
        assert unproven <= expected
