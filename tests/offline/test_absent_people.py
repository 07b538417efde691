"""People who are really not there: private greedy on populations of different sizes, by what is given out."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.audit.measures import distribution
from discreet.constraints import Cardinality, Knapsack, PartitionMatroid
from discreet.objectives import Coverage, FacilityLocation
from discreet.offline import PrivateGreedy, continuous, estimators
from discreet.privacy import Release, samplers
from discreet.privacy import picks as accounts
from tests.offline.test_greedy import transcripts
from tests.privacy.audit import hockey_stick

CONSTRAINTS = {
    "cardinality": lambda: Cardinality(2),
    "partition": lambda: PartitionMatroid([[0, 1], [2, 3]], 1),
    "knapsack": lambda: Knapsack([0.5, 0.1, 0.2, 0.4], 0.65),
    "knapsack with a large item": lambda: Knapsack([0.6, 0.4, 0.4, 0.4], 1.0),
}
METHODS = ("basic", "zcdp", "decomposable", "subsampled")


def given_out(people, constraint, budget, method):
    """Probability of every set together with the number of queries: all of what a Selection tells."""

    def play():
        chosen = PrivateGreedy(constraint(), budget, method, seed=0, max_people=8).select(people)
        return (*chosen.items, "queries", chosen.queries)

    return distribution(play)


CROWDS = ([[1, 0, 0, 0]], [[0, 1, 1, 1], [1, 1, 0, 0]])
NEWCOMERS = ([1, 0, 0, 0], [0, 1, 1, 1])


@pytest.mark.parametrize("epsilon", [0.1, 1.5])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_nobody_gives_away_that_they_came(name, method, epsilon):
    budget = dc.Budget(epsilon, 0.0 if method in ("basic", "subsampled") else 1e-2, "add_remove")
    widest = 0.0
    for crowd in CROWDS[: 1 if (name[0], method) == ("k", "subsampled") else 2]:
        without = given_out(Coverage(crowd), CONSTRAINTS[name], budget, method)
        for one in NEWCOMERS:
            present = given_out(Coverage([*crowd, one]), CONSTRAINTS[name], budget, method)
            assert present.keys() == without.keys()
            for p, q in ((present, without), (without, present)):
                assert hockey_stick(p, q, epsilon) <= budget.delta + 1e-12
            widest = max(widest, max(abs(math.log(present[o] / without[o])) for o in present))
    assert widest > 0.05 * epsilon  # the choice does depend on them
    if not budget.delta:
        assert widest <= epsilon * (1 + 1e-9)


def _runs(matrix, k, rate, probabilities):
    """Log-probability of every sequence of k picks, by facility location on plain arrays."""
    found: dict[tuple[int, ...], float] = {(): 0.0}
    for _ in range(k):
        longer = {}
        for path, log in found.items():
            best = matrix[:, list(path)].max(axis=1, initial=0.0)
            left = [j for j in range(matrix.shape[1]) if j not in path]
            scores = np.maximum(matrix[:, left] - best[:, None], 0.0).sum(axis=0)
            for item, chance in zip(left, probabilities(scores, rate), strict=True):
                longer[*path, item] = log + math.log(chance)
        found = longer
    return found


@pytest.mark.parametrize("draws", ["flips", "exponential weights"])
def test_whole_runs_are_likelier_by_no_more_than_the_newcomer_gains(draws):
    """What a secret sample needs of its draws: P(run with I) <= P(run without I) exp(rate x what I gains).

    Every run of three picks out of five items, newcomers with any values; for both kinds of draws. The other
    direction does not hold for either, which is why the sample is needed.
    """

    def weights(scores, rate):
        return np.exp(samplers.choice_log_probabilities(scores, rate))

    probabilities = samplers.flip_probabilities if draws == "flips" else weights
    rng, nearest, farthest = np.random.default_rng(3), 0.0, 0.0
    for _ in range(40):
        rate = float(rng.choice([0.3, 0.7, 2.0]))
        crowd = rng.random((int(rng.integers(0, 4)), 5)) * (rng.random(5) < 0.7)
        one = rng.choice([0.0, 0.2, 1.0], size=5)
        without = _runs(crowd, 3, rate, probabilities)
        present = _runs(np.vstack([crowd, one]), 3, rate, probabilities)
        for path, log in without.items():
            gained = rate * max(one[list(path)])
            assert present[path] - log <= gained + 1e-12
            if gained:
                nearest = max(nearest, (present[path] - log) / gained)
            farthest = max(farthest, (log - present[path]) / rate)
    assert nearest > 0.5
    assert farthest > 1.0


def test_gains_are_clipped_to_what_a_person_has_left_whoever_is_in_the_sample():
    """The same inequality for the library's own draws, with parts rounded down to steps."""
    budget = dc.Budget(1.0, 0.0, "add_remove")
    crowd = np.array([[0.3, 0.9, 0.1, 0.5]])
    for one in ([0.99, 0.7, 0.2, 0.0], [1.0, 0.0, 1.0, 0.0]):
        runs = []
        for matrix in (np.vstack([crowd, one]), crowd):
            people = FacilityLocation(matrix)
            with mock.patch.object(Release, "sample", lambda *_, who=people: np.arange(len(who))):
                runs.append(
                    transcripts(
                        lambda _, who=people: PrivateGreedy(
                            2, budget, "subsampled", seed=0, max_people=8
                        ).select(who),
                        budget,
                    )
                )
        rate = accounts.subsampled(budget.share(), 1.0).rate
        worst = max(math.log(runs[0][path] / runs[1][path]) for path in runs[0])
        assert 0.0 < worst <= rate * max(one) + 1e-12


def test_too_many_people_are_refused_without_saying_how_many(monkeypatch):
    monkeypatch.setattr(continuous, "MOST_PEOPLE", 10)
    monkeypatch.setattr(estimators, "MOST_PEOPLE", 10)
    crowd = Coverage(np.eye(3)[[0, 1, 2] * 5])
    budget = dc.Budget(1.0, neighbours="add_remove")
    features, classes = np.linspace(0.0, 1.0, 45).reshape(15, 3), np.arange(15) % 2
    columns = estimators.PrivateFeatureSelector(
        1, 1.0, objective="covariance", bounds=(0, 1), classes=[0, 1], neighbours="add_remove"
    )
    for choose in (
        lambda: dc.offline.ContinuousGreedy(1, budget).select(crowd),
        lambda: columns.fit(features, classes),
    ):
        with pytest.raises(ValueError, match="more than the 10 people") as refusal:
            choose()
        assert "15" not in str(refusal.value)
