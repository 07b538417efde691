"""BestOfBothSelector: votes beside two sums at one gate, what is compared, the certificate, how it serves."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet import bounds
from discreet.objectives import Coverage, FacilityLocation, SetFunction
from discreet.online import BestOfBothSelector, RollingSelector, RunningSumSelector
from discreet.online.best_of_both import EXPERTS, ODDS, VOTES, BestOfBothSettings
from discreet.online.running_sums import RunningSumSettings
from discreet.privacy import Gate, RunningSum, samplers
from discreet.privacy.conversions import concurrent_mu, gdp_mu
from discreet.privacy.picks import SampledScores

BUDGET = dc.Budget(1.0, 1e-6)
FREE = dc.Budget(math.inf)
PRIOR = 1.0 / (1.0 + ODDS)
MU = concurrent_mu(Fraction(4, 5), Fraction(1), 1e-6)  # beside four fifths of epsilon, pure


# --- privacy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_release_of_both_sums_loses_at_most_mu(neighbours):
    """Every pair of rows, with the sets of the two learners as scripted."""
    budget = dc.Budget(1.0, 1e-6, neighbours)
    honest, rounds = RunningSum._released, 4
    script = [([0], [1]), ([1], [2]), ([2], [1]), ([0], [2])]

    def quiet(_source, count, *, gaussian):  # noqa: ARG001
        return np.zeros(count, dtype=np.int64)

    def released(rows):
        seen = []

        def watched(total, sums):
            seen.append(sums.astype(float).ravel() / 2.0**samplers.STEPS_BITS)
            return honest(total, sums)

        with (
            mock.patch.object(samplers, "noise_steps", quiet),
            mock.patch.object(RunningSum, "_released", watched),
        ):
            learner = BestOfBothSelector(3, 1, rounds + 1, budget, first_window=100, seed=0)
            for row, sets in zip(rows, script, strict=True):
                learner.choose()
                learner._sets[:] = sets
                learner.learn(Coverage([row]))
            learner.choose()
        return np.concatenate(seen)

    rows = list(itertools.product((0, 1), repeat=3))
    there = [released([row, (1, 0, 1), (0, 1, 1), (0, 0, 1)]) for row in rows]
    nobody = [(there[0], one) for one in there]
    pairs = itertools.combinations(there, 2) if neighbours == "replace" else nobody
    worst = max(np.linalg.norm(a - b) for a, b in pairs)
    assert 0.8 * MU < worst <= MU


@pytest.mark.parametrize("weights", ["norm", None])
def test_the_comparison_is_of_the_sets_that_the_two_would_show(weights):
    rng = np.random.default_rng(0)
    learner = BestOfBothSelector(6, 2, 100, FREE, resample_every=50, weights=weights, bound=2.0, seed=0)
    expected = 0.0
    for person in FacilityLocation(2.0 * rng.random((10, 6)), bound=2.0):
        learner.choose()
        alone = np.array([person.value([a]) for a in range(6)]) / 2.0
        weight = 1.0 if weights is None else 1.0 / max(1.0, np.linalg.norm(alone))
        sets = [one.tolist() for one in learner._sets]
        expected += weight * (person.value(sets[0]) - person.value(sets[1])) / 2.0
        learner.learn(person)
    found = learner._total.pending[0] / learner.settings.units
    assert found == pytest.approx(expected, abs=1e-4)
    assert found != 0.0


def test_a_difference_never_exceeds_the_bound():
    """Whatever a function answers within its bound, and in whole units."""
    learner = BestOfBothSelector(4, 1, 100, FREE, resample_every=50, weights=None, seed=0)
    learner.choose()
    first = int(learner._sets[0][0])
    learner._sets[1] = np.array([(first + 1) % 4], dtype=np.int32)
    learner.learn(SetFunction(lambda items: float(first in items), 4, 1.0, monotone=True))
    assert learner._total.pending[0] == learner.settings.units
    learner.choose()
    with pytest.raises(ValueError, match="values a set"):
        learner.learn(SetFunction(lambda items: 3.0 * bool(items), 4, 1.0, monotone=True))


def test_items_that_are_refused_leave_everything_as_it_was():
    """Votes that had grown alone failed at the next release, if anybody was in the sample: that told so."""
    often = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    separate = {"min_separation": 1, "resample_every": 5}
    function = SetFunction(lambda items: float(0 in items), 4, 1.0, monotone=True)
    for budget, options, person in ((often, separate, Coverage([[1, 0, 0, 1]])), (BUDGET, {}, function)):
        learner = BestOfBothSelector(4, 1, 100, budget, first_window=2, seed=0, **options)
        for name in range(60):
            learner.choose()
            learner.learn(person, person_id=name)
            with pytest.raises(ValueError, match=r"make a new learner|holds people who are functions"):
                learner.add_items([4])
            assert learner._votes.credit.size == learner._experts.settings.n_items == learner.n_items == 4


def test_a_function_that_fails_while_it_waits_is_no_error_of_others():
    """It is asked again when there is room, in somebody else's round, who would be told what it says."""
    learner, answers = (
        BestOfBothSelector(5, 2, 300, BUDGET, resample_every=2, first_window=200, seed=0),
        [True],
    )

    def moody(items):
        if not answers:
            raise ValueError("a secret")
        return float(bool(items))

    late = learner.choose().round
    learner.choose(wait=False)
    for _ in range(4):
        learner.choose()
        learner.learn(Coverage([[1, 0, 0, 0, 0]]))
    learner.learn(SetFunction(moody, 5, 1.0, monotone=True), round=late)
    answers.clear()
    assert len(learner._waiting) == 1
    learner.choose()
    learner.choose(wait=False)
    assert len(learner._waiting) == 0
    assert not learner._experts.pending.any()
    assert not learner._total.pending.any()


# --- whom it follows --------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [FREE, dc.Budget(4.0, 1e-6)])
def test_goes_over_to_the_experts_where_votes_are_fooled(budget):
    """Everybody wants the item that votes do not show: these earn nothing at all."""
    rounds = 6000
    learner = BestOfBothSelector(2, 1, rounds, budget, resample_every=1, seed=0)
    people, earned = np.eye(2), []
    for _ in range(rounds):
        shown = learner.choose().items[0]
        liked = 1 - int(learner._sets[0][0])
        earned.append(float(shown == liked))
        learner.learn(Coverage(people[[liked]]))
    assert np.mean(earned[-1000:]) > 0.3


# --- the certificate --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["against", "for", "random", "turning"])
@pytest.mark.parametrize("batch", [1, 4])
def test_following_costs_no_more_than_its_bound(kind, batch):
    """The expected reward of noisy Hedge over two, by simulation, beside that of the one with the prior."""
    rng = np.random.default_rng(3)
    rounds, deviation, runs = 400, 15.0, 400
    differences = {
        "against": np.full(rounds, -1.0),
        "for": np.full(rounds, 1.0),
        "random": rng.uniform(-1.0, 1.0, rounds),
        "turning": np.where(np.arange(rounds) < rounds // 4, 1.0, -1.0),
    }[kind].reshape(-1, batch)
    rate = math.sqrt(-8.0 * math.log(PRIOR) / (batch * rounds))
    known = np.concatenate(([0.0], np.cumsum(differences.sum(axis=1))[:-1]))
    growing = deviation * np.sqrt(np.arange(known.size) / known.size)
    noise = growing * rng.standard_normal((runs, known.size))  # of each sum on its own: only that counts
    odds = (1.0 - PRIOR) / PRIOR * np.exp(np.clip(rate * (known + noise), -700.0, 700.0))
    earned = (odds / (1.0 + odds) * differences.sum(axis=1)).sum(axis=1)
    slack = 5.0 * earned.std() / math.sqrt(runs)
    assert -earned.mean() <= bounds.following(rounds, rate, PRIOR, deviation, batch) + slack


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 9}, "k=9 exceeds n_items=8; choose k <= 8"),
        ({"rounds": None, "resample_every": 5}, "any number of rounds"),
        ({"weights": "all"}, "weights='all' is not one of"),
        ({"sums": "magic"}, "sums='magic' is not one of"),
        ({"budget": dc.Budget(1.0)}, "Gaussian noise needs delta > 0"),
        ({"resample_every": 0}, "resample_every=0 is too small"),
        ({"bound": math.nan}, "bound is NaN"),
    ],
)
def test_bad_settings(options, message):
    settings = {"n_items": 8, "k": 2, "rounds": 10, "budget": BUDGET} | options
    with pytest.raises((ValueError, TypeError), match=message):
        BestOfBothSelector(**settings)


def _experts(n_items, k, rounds, **options):
    share = BUDGET.share(float(EXPERTS) * MU**2 / BUDGET.mu**2)
    return RunningSumSettings.tight(n_items, k, rounds, share, weights="norm", **options)


def test_votes_and_two_sums_share_one_budget():
    learner = BestOfBothSelector(20, 3, 500, BUDGET, resample_every=5, seed=0)
    votes, *sums = [entry.event for entry in learner.privacy.ledger.counts]
    assert votes == SampledScores(VOTES, 1.0)
    squares = [(float(event.sensitivity) / float(event.sigma)) ** 2 for event in sums]
    np.testing.assert_allclose(np.array(squares) / MU**2, [float(EXPERTS), 1.0 - float(EXPERTS)], rtol=1e-9)
    assert 1.0 - 1e-6 <= learner.privacy.epsilon() <= 1.0
    assert learner.privacy.best_definition() == "pure epsilon + Gaussian DP"
    assert learner._votes.settings.rate == RollingSelector(20, 3, dc.Budget(0.8)).rate
    assert learner.settings.experts.event.sigma == pytest.approx(
        float(_experts(20, 3, 500, resample_every=5).event.sigma)
    )
    assert gdp_mu(0.2, 1e-6) < MU  # the sum of the two epsilons allows less


def test_a_gate_of_several_keeps_to_its_definition():
    gate = Gate(BUDGET, 0)
    first, second = gate.split(2)
    learner = BestOfBothSelector(20, 3, 500, first)
    RollingSelector(20, 3, second)
    assert gate.definition == "zcdp"
    assert learner.privacy.epsilon() <= 1.0


def test_both_learn_from_everybody():
    rng = np.random.default_rng(1)
    people = Coverage((rng.random((300, 8)) < 0.3).astype(float))
    learner = BestOfBothSelector(8, 2, 300, FREE, resample_every=10, seed=0)
    learner.run(people)
    alone = RollingSelector(8, 2, FREE, rounds=300, seed=0)
    alone.run(people)
    np.testing.assert_array_equal(learner._votes.credit, alone._votes.credit)
    assert learner._experts.count == learner._total.count == 29
    assert learner.round == 300


def _chance(learner, known, draws=4000):
    learner._total.released[0] = known
    shown = [tuple(learner._followed().tolist()) for _ in range(draws)]
    return np.mean([one == tuple(learner._sets[0].tolist()) for one in shown])


def test_the_chance_of_following_is_that_of_hedge():
    learner = BestOfBothSelector(200, 2, 100, BUDGET, resample_every=50, bound=2.0, seed=0)
    learner.choose()
    assert set(learner._sets[0]) != set(learner._sets[1])
    for known in (0.0, -10.0, -1e9, 1e9):
        log_odds = math.log(learner.settings.odds) + learner.settings.rate * 2.0 * known
        expected = 1.0 / (1.0 + math.exp(min(700.0, -log_odds)))
        assert _chance(learner, known) == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 4000))


def test_serves_like_the_votes_where_nothing_changes():
    rng = np.random.default_rng(2)
    people = Coverage((rng.random((6000, 40)) < np.geomspace(0.25, 0.01, 40)).astype(float))
    both = BestOfBothSelector(40, 3, 6000, BUDGET, resample_every=20, seed=0).run(people).average
    experts = RunningSumSelector(40, 3, 6000, BUDGET, resample_every=20, weights="norm", seed=0).run(people)
    votes = RollingSelector(40, 3, dc.Budget(0.8), seed=0).run(people)
    assert both > experts.average
    assert both > votes.average - 0.02


def test_the_certificate_is_the_experts_and_the_cost_of_following():
    learner = BestOfBothSelector(100, 5, 10**5, BUDGET, resample_every=1, seed=0)
    experts = _experts(100, 5, 10**5)
    deviation = 2.0 * (1.0663 + math.log(10**5) / math.pi) / (MU * math.sqrt(0.2))
    rate = math.sqrt(8.0 * math.log(51) / 10**5)
    log_odds = max(math.log(50.0), 2.0 * rate * deviation)
    following = math.log1p(math.exp(log_odds)) / rate + rate * 10**5 / 8.0
    following += deviation / math.sqrt(2.0 * math.pi)
    assert learner.settings.following_regret == pytest.approx(following, rel=1e-3)
    assert learner.certified_regret == pytest.approx(experts.certified_regret + following, rel=1e-4)
    twice = BestOfBothSettings.tight(100, 5, 10**5, dc.privacy.spend_from(BUDGET), bound=2.0)
    assert twice.certified_regret == pytest.approx(2.0 * learner.certified_regret)
    assert BestOfBothSelector(5, 5, 100, BUDGET, seed=0).certified_regret == 0.0


def test_large_catalogues_have_fewer_sums():
    """Ten seconds of noise at most, by public sizes."""
    assert BestOfBothSettings.tight(285, 5, 32_710, BUDGET.share()).resample_every == 1
    large = BestOfBothSettings.tight(40_000, 10, 30_000, BUDGET.share())
    assert large.resample_every == math.ceil(40e-9 * 30_000 * 10 * 40_000 / 10.0) == 48


def test_no_horizon_has_to_be_declared():
    """What is released does not grow with the rounds, and no batch has more people than was paid for."""
    learner = BestOfBothSelector(20, 3, None, BUDGET, seed=0)
    settings, entries = learner.settings, list(learner.privacy.ledger.counts)
    assert len(entries) == 3
    assert 1.0 - 1e-6 <= learner.privacy.epsilon() <= 1.0
    assert learner.certified_regret == math.inf
    assert settings.spec.rounds == settings.experts.releases == 100
    assert settings.spec.added.people_per_vector == settings.experts.longest
    rng = np.random.default_rng(0)
    people = Coverage(rng.random((6000, 20)) < 0.4 / np.arange(1, 21))
    trace = learner.run(people)
    alone = RollingSelector(20, 3, dc.Budget(0.8), seed=0).run(people)
    assert trace.average > 0.95 * alone.average
    assert list(learner.privacy.ledger.counts) == entries
    assert learner._total.count == settings.experts.batch_at(learner.round - 1)


def test_without_an_end_noise_does_not_decide_who_is_followed():
    settings = BestOfBothSelector(20, 3, None, BUDGET, seed=0).settings
    noise = settings.spec.deviation(settings.event)
    assert all(settings.rate_after(t) * noise <= 1.0 + 1e-12 for t in (0, 1, 100, 10**6))
    assert settings.rate_after(10**8) == settings.rate / 10**4
    for bound in (1.0, 4.0):
        free = BestOfBothSelector(20, 3, None, FREE, bound=bound, seed=0)
        assert free.settings.fastest == 1.0 / bound
    with pytest.raises(ValueError, match="is for rounds=None"):
        BestOfBothSelector(20, 3, 100, BUDGET, first_batch=5)
    with pytest.raises(ValueError, match="falls where no rounds are declared"):
        replace(settings, fastest=None)


@pytest.mark.parametrize("rounds", [400, None])
def test_the_unit_of_rewards_does_not_matter(rounds):
    """Rewards four times as large under a bound that is so, too: the same sets."""
    rows = np.random.default_rng(2).random((400, 6)) * [0.2, 0.9, 0.3, 1.0, 0.1, 0.5]
    every = {"resample_every": 20} if rounds else {}
    made = {b: BestOfBothSelector(6, 2, rounds, BUDGET, **every, bound=b, seed=1) for b in (1.0, 4.0)}
    for number in (1, 50, 10**6):
        rates = [one.settings.rate_after(number) for one in made.values()]
        assert rates[0] == pytest.approx(rates[1])
    shown = [one.run(FacilityLocation(b * rows, bound=b)).selections.tolist() for b, one in made.items()]
    assert shown[0] == shown[1]
