"""Choices that are declared together and charged by their exact composition: never beyond the budget."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import discreet as dc
from discreet.offline import PrivateGreedy
from discreet.online import HedgeSelector, PhasedSelector
from discreet.privacy import (
    BudgetExceeded,
    Event,
    ExactChoices,
    ExponentialChoice,
    Gate,
    GaussianNoise,
    PureRelease,
)
from discreet.privacy.composition import adaptive_choices_epsilon
from tests.privacy.audit import hockey_stick, transcripts

BUDGET = dc.Budget(1.0, 1e-6)
WIDTH = 2.0


@pytest.mark.parametrize(
    "budget", [BUDGET, dc.Budget(0.1, 1e-6), dc.Budget(5.0, 1e-8), dc.Budget(1.0, 0.01, "add_remove")]
)
@pytest.mark.parametrize("number", [1, 2, 5, 20, 100])
def test_the_budget_is_used_and_not_exceeded(budget, number):
    event = ExactChoices.within(budget.share(), WIDTH, number)
    exact = adaptive_choices_epsilon(budget.delta, [(float(event.width), number)])
    assert 0.9997 * budget.epsilon < exact <= budget.epsilon
    gate = Gate(budget, 0)
    gate.reserve(event)
    assert gate.definition == "pure"
    assert exact <= gate.spent.epsilon() <= min(budget.epsilon, exact * (1.0 + 1e-12))
    assert gate.spent.epsilon(budget.delta / 2) == math.inf  # its delta is one number ...
    assert exact < gate.spent.epsilon(budget.delta / 2, tight=True) < math.inf  # ... and its curve is known
    assert event.rate >= ExponentialChoice.within(budget.share(), WIDTH, number).rate * (1 - 1e-8)


def test_the_gate_refuses_everything_beyond():
    event = ExactChoices.within(BUDGET.share(), WIDTH, 5)
    for wrong in (event.scaled(1.1), ExactChoices(event.rate, WIDTH, 6, 1e-6)):
        with pytest.raises(BudgetExceeded):
            Gate(BUDGET, 0).reserve(wrong)
    with pytest.raises(BudgetExceeded):
        Gate(BUDGET, 0).reserve(ExactChoices(event.rate, WIDTH, 5, 2e-6))
    gate = Gate(BUDGET, 0)
    gate.reserve(event)
    for more in (event, PureRelease(0.001), ExponentialChoice(0.001, WIDTH), GaussianNoise(1.0, 1e4)):
        with pytest.raises(BudgetExceeded):
            gate.reserve(more)
    for definition in ("zcdp", "gdp"):
        with pytest.raises(BudgetExceeded):
            Gate(BUDGET, 0, definition=definition).reserve(event)
    used = Gate(BUDGET, 0)
    used.reserve(PureRelease(0.9))
    with pytest.raises(BudgetExceeded):
        used.reserve(event)
    twice = Gate(dc.Budget(1.0, 1e-6, max_rounds_per_person=2), 0)
    with pytest.raises(BudgetExceeded):
        twice.reserve(event)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (dc.Budget(1.0).share(), "delta of at least 1e-12"),
        (dc.Budget(1.0, 1e-13).share(), "delta of at least 1e-12"),
        (BUDGET.split(2, definition="zcdp")[0], "whole budget"),
        (dc.Gate(BUDGET, 0, definition="zcdp").left, "whole budget"),
        (dc.Gate(BUDGET, 0).split(2)[0], "whole budget"),
        (dc.Budget(1.0, 1e-6, max_rounds_per_person=2).share(), "one round of each person"),
        (dc.Budget(math.inf).share(), "infinite budget"),
    ],
)
def test_refusals(share, said):
    with pytest.raises(ValueError, match=said):
        ExactChoices.within(share, WIDTH, 5)


def test_extremes_are_charged_by_sums():
    assert ExactChoices(0.0, 1.0, 5, 1e-6).loss() == PureRelease(0.0).loss()
    assert ExactChoices(200.0, 1.0, 2, 1e-6).loss() == PureRelease(400.0).loss()
    assert ExactChoices(0.1, 1.0, 5, 1e-13).loss().pure == PureRelease(0.5).loss().pure
    assert ExactChoices(1e-12, 1.0, 10**10, 1e-6).loss().delta == 0
    for wrong in ({"number": 0}, {"number": 1.5}, {"delta": 1.0}, {"rate": -1.0}):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            ExactChoices(**({"rate": 0.1, "range": 1.0, "number": 5, "delta": 1e-6} | wrong))


# --- enumerated -------------------------------------------------------------------------------------

SMALL = dc.Budget(1.0, 1e-3)


def _worst_delta(number, faster, gap_of):
    """Between two worlds whose two scores are ``WIDTH`` nearer to each other in one, all transcripts."""
    event = ExactChoices.within(SMALL.share(), WIDTH, number)
    runs = []
    for nearer in (0.0, WIDTH):

        def program(gate, nearer=nearer):
            release = gate.reserve(event)
            seen = []
            for _ in range(number):
                gap = gap_of(seen) / event.rate
                seen.append(release.choice(faster * np.array([gap - nearer, 0.0])))

        runs.append(transcripts(program, SMALL))
    return hockey_stick(*runs, 1.0)


@pytest.mark.parametrize(("faster", "within"), [(1.0, True), (1.1, False)])
def test_real_choices_stay_within_delta_and_ten_percent_more_do_not(faster, within):
    number = 6
    width = float(ExactChoices.within(SMALL.share(), WIDTH, number).width)
    gaps = np.linspace(0.0, 1.5 * width, 7)
    worst = max(_worst_delta(number, faster, lambda _, gap=gap: gap) for gap in gaps)
    assert (worst <= SMALL.delta) == within
    assert worst > 0.7 * SMALL.delta


def test_people_who_react_to_answers_gain_nothing():
    """Scores that depend on how often the first candidate was taken, in every way of a small table."""
    number = 5
    width = float(ExactChoices.within(SMALL.share(), WIDTH, number).width)
    for places in itertools.product((0.0, 1.0), repeat=3):
        delta = _worst_delta(number, 1.0, lambda seen, p=places: width * p[min(seen.count(0), 2)])
        assert delta <= SMALL.delta


# --- selectors and learners ----------------------------------------------------------------------------


def _people(rows=400, items=9, seed=0):
    return dc.objectives.Coverage(np.random.default_rng(seed).random((rows, items)) < 0.2)


def test_greedy_with_gains_and_under_a_knapsack():
    people = _people()
    gains = PrivateGreedy(3, BUDGET, "exact", release_gains=0.2, seed=0)
    assert len(gains.select(people).gains) == 3
    assert 0.99 < gains.privacy.epsilon() <= 1.0
    bag = PrivateGreedy(dc.constraints.Knapsack([0.6] + [0.3] * 8, 1.0), BUDGET, "exact", seed=0)
    bag.select(people)
    assert 0.99 < bag.privacy.epsilon() <= 1.0
    [event] = bag.privacy.ledger.events()
    assert event.number == 3 + 2  # at most three items fit, and two choices between them and the large one
    for share, said in (
        (BUDGET.split(2)[0], "one whole|whole budget"),
        (dc.Budget(1.0), "delta of at least"),
    ):
        with pytest.raises(ValueError, match=said):
            PrivateGreedy(5, share, "exact").select(people)
    free = PrivateGreedy(5, dc.Budget(math.inf), "exact", seed=0)
    assert len(free.select(people)) == 5


def test_phases_and_hedge_declare_all_choices():
    people = _people(60, 7)
    for make in (
        lambda how: PhasedSelector(
            7, 5, BUDGET, window=20, method={"summed": "composed"}.get(how, how), seed=0
        ),
        lambda how: HedgeSelector(7, 2, 60, BUDGET, resample_every=15, composition=how, seed=0),
    ):
        summed, exact = make("summed"), make("exact")
        assert exact.rate > 1.07 * summed.rate
        assert exact.privacy.spent.epsilon() == 0.0
        exact.run(people)
        assert 0.999 < exact.privacy.spent.epsilon() == exact.privacy.epsilon() <= 1.0
        assert exact.certified_regret <= summed.certified_regret


def test_learners_refuse_what_exact_composition_is_not_for():
    twice = dc.Budget(1.0, 1e-6, "replace", 2)
    for budget in (twice, dc.Budget(1.0), BUDGET.split(2)[0]):
        with pytest.raises(ValueError, match=r"one round|delta|whole budget"):
            HedgeSelector(7, 2, 60, budget, composition="exact")
        with pytest.raises(ValueError, match=r"one round|delta|whole budget"):
            PhasedSelector(7, 2, budget, method="exact")
    with pytest.raises(ValueError, match="composition="):
        HedgeSelector(7, 2, 60, BUDGET, composition="exact", calibration="published")
    with pytest.raises(ValueError, match="composition='curved'"):
        HedgeSelector(7, 2, 60, BUDGET, composition="curved")
    most = HedgeSelector(7, 2, 60, BUDGET, resample_every=15, composition="exact").rate
    with pytest.raises(BudgetExceeded):
        HedgeSelector(7, 2, 60, BUDGET, resample_every=15, composition="exact", rate=1.1 * most)
    settings = PhasedSelector(7, 5, BUDGET, method="exact").settings
    with pytest.raises(ValueError, match="not paid for"):
        type(settings)(**vars(settings) | {"rate": 2.0 * settings.rate}).check("replace")
    with pytest.raises(ValueError, match="not paid for"):
        type(settings)(**vars(settings) | {"k": 6}).check("replace")
    assert math.isinf(PhasedSelector(7, 2, dc.Budget(math.inf), method="exact").rate)
    assert HedgeSelector(7, 2, 60, dc.Budget(math.inf), composition="exact").rate > 0.0


@pytest.mark.parametrize(("number", "more"), [(5, 1.16), (10, 1.09), (20, 1.08), (100, 1.07)])
def test_the_rate_is_above_that_of_sums(number, more):
    summed = ExponentialChoice.within(BUDGET.share(), WIDTH, number).rate
    assert ExactChoices.within(BUDGET.share(), WIDTH, number).rate > more * summed


def test_beside_other_releases_epsilons_and_deltas_add_up():
    budget = dc.Budget(1.0, 1e-6)
    event = ExactChoices.within(budget.share(0.5), WIDTH, 5)
    gate = Gate(budget, 0)
    gate.reserve(event)
    gate.reserve(PureRelease(0.5))
    assert 0.999 < gate.spent.epsilon() <= 1.0
    assert gate.spent.loss.delta == pytest.approx(1e-6)


def test_the_account_says_what_it_is_and_survives_a_restart():
    event = ExactChoices.within(BUDGET.share(), WIDTH, 5)
    gate = Gate(BUDGET, 0)
    gate.reserve(event, label="picks")
    assert "exponential, 5 composed exactly at delta 1e-06" in str(gate.spent.releases())
    assert Event.from_json(json.loads(json.dumps(event.to_json()))) == event
    again = Gate.from_state(json.loads(json.dumps(gate.state())))
    assert again.spent.epsilon() == gate.spent.epsilon() <= 1.0
    with pytest.raises(BudgetExceeded):
        again.reserve(event)
    with pytest.raises(TypeError, match="does not pay for permute-and-flip"):
        Gate(BUDGET, 0).reserve(event).permute_and_flip(np.array([0.0, 1.0]))


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_greedy_picks_at_a_larger_rate(neighbours):
    budget, people = dc.Budget(1.0, 1e-6, neighbours), _people()
    summed = PrivateGreedy(5, budget, "zcdp", max_people=400, seed=0)
    exact = PrivateGreedy(5, budget, "exact", max_people=400, seed=0)
    for greedy in (summed, exact):
        assert len(greedy.select(people)) == 5
    assert exact.rate > 1.15 * summed.rate
    assert 0.999 < exact.privacy.epsilon() <= 1.0
    assert exact.certified_loss(400, 9) < summed.certified_loss(400, 9)
    [event] = exact.privacy.ledger.events()
    assert (event.number, event.delta) == (5, 1e-6)
    with pytest.raises(BudgetExceeded):
        exact.select(people)
