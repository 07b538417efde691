"""BestOfBothSelector: three sums at one gate, what is compared, the certificate, and how it serves."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet import bounds
from discreet.objectives import Coverage, FacilityLocation, SetFunction
from discreet.online import BestOfBothSelector
from discreet.online.best_of_both import PRIOR
from discreet.privacy import RunningSum, samplers

BUDGET = dc.Budget(1.0, 1e-6)
FREE = dc.Budget(math.inf)


# --- privacy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_release_of_all_three_loses_at_most_mu(neighbours):
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
            learner = BestOfBothSelector(3, 1, rounds + 1, budget, seed=0)
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
    assert 0.85 * budget.mu < worst <= budget.mu


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


# --- whom it follows --------------------------------------------------------------------------------


def test_goes_over_to_the_experts_where_the_leader_is_fooled():
    """Two items in turn, the leader always a batch behind: it earns nothing in the second half of each."""
    rounds = 6000
    learner = BestOfBothSelector(2, 1, rounds, dc.Budget(math.inf), resample_every=1, seed=0)
    people, earned = np.eye(2), []
    for _ in range(rounds):
        shown = learner.choose().items[0]
        liked = 1 - int(learner._sets[0][0])  # what the leader does not show
        earned.append(float(shown == liked))
        learner.learn(Coverage(people[[liked]]))
    assert np.mean(earned[-1000:]) > 0.3  # the leader: nothing at all


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
