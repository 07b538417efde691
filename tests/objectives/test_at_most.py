"""Bounds of sets of at most k items: held, used where no more are chosen, and refused everywhere else."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dc
from discreet.objectives import ConcaveOverModular
from discreet.objectives.rows import people as rows
from discreet.objectives.rows.fixed_point import FixedPointGains, step
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy

K = 2


def weights(seed: int = 0, people: int = 40, items: int = 6):
    coins = np.random.default_rng(seed)
    return coins.random((people, items)) * (coins.random((people, items)) < 0.7)


def highest(matrix, k: int) -> float:
    """The highest value of anybody on any set of at most k items, by looking at all of them."""
    sets = itertools.combinations(range(matrix.shape[1]), k)
    return max(math.sqrt(person[list(chosen)].sum()) for chosen in sets for person in matrix)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_people_are_held_to_the_bound_on_small_sets(form):
    matrix = weights()
    most = highest(matrix, K)
    people = ConcaveOverModular(form(matrix), bound=most * (1 + 1e-12), at_most=K)
    assert people.bound_of(K) == people.bound_of(1) == pytest.approx(most)
    with pytest.raises(dc.DataError, match="somebody can reach a value above"):
        ConcaveOverModular(form(matrix), bound=most * 0.999, at_most=K)
    with pytest.raises(ValueError, match="at_most=2: nothing is declared of sets of up to 6 items"):
        _ = people.bound


def test_a_wrong_maximum_would_be_seen(monkeypatch):
    """The test above fails if the sum leaves out one of the k largest weights."""
    whole = rows.largest_totals
    monkeypatch.setattr(
        "discreet.objectives.concave.largest_totals", lambda matrix, most: whole(matrix, most - 1)
    )
    matrix = weights()
    ConcaveOverModular(matrix, bound=highest(matrix, K) * 0.999, at_most=K)


def test_a_person_adds_no_more_than_the_bound_whatever_their_weights_are():
    """Scores by enumeration: every order of k picks, with somebody who breaks the bound that was declared."""
    bound, unit = math.sqrt(K), step(math.sqrt(K), 3)
    people = ConcaveOverModular(np.ones((1, 5)), bound=bound, at_most=K)
    people._rows.matrix.setflags(write=True)
    people._rows.matrix[:] = [100.0, 3.0, 0.5, 0.0, 50.0]
    for order in itertools.permutations(range(5), K):
        growing, total = FixedPointGains.over(people, bound, unit), 0.0
        for item in order:
            scores = growing.scores()
            assert scores.min() >= 0.0
            assert scores.max() <= bound
            total += growing.add(item)
        assert total <= bound


def test_noise_goes_by_the_smaller_bound():
    matrix = sp.csr_array(np.ones((500, 64)))
    small = ConcaveOverModular(matrix, bound=math.sqrt(K), at_most=K)
    wide = ConcaveOverModular(matrix, bound=8.0)
    rates = []
    for people, bound in ((small, math.sqrt(K)), (wide, 8.0)):
        greedy = PrivateGreedy(K, dc.Budget(1.0), bound=bound, seed=0)
        assert len(greedy.select(people)) == K
        rates.append(greedy.rate)
    assert rates[0] / rates[1] == pytest.approx(8.0 / math.sqrt(K))


def test_larger_sets_are_refused_before_anything_is_spent():
    people = ConcaveOverModular(weights(), bound=math.sqrt(K), at_most=K)
    budget = dc.Budget(1.0, 1e-6)
    greedy = PrivateGreedy(K + 1, budget, bound=3.0)
    inside = PrivateGreedy(K, budget, bound=3.0, include=[0])
    for chooser in (greedy, ContinuousGreedy(K, budget, bound=3.0), CurvatureGreedy(K, budget, bound=3.0)):
        with pytest.raises(ValueError, match="nothing is declared of sets"):
            chooser.select(people)
    assert greedy.privacy.epsilon() == 0.0
    assert len(inside.select(people)) == K
    learner = dc.online.HedgeSelector(6, K, 40, budget, bound=3.0, seed=0)
    with pytest.raises(ValueError, match="nothing is declared of sets"):
        learner.learn(people[0]) if learner.choose() else None


def test_labels_that_are_the_same_are_named():
    with pytest.raises(ValueError, match="labels must be distinct; items 0 and 2 are both 'tea'"):
        dc.objectives.Coverage([[1, 0, 1]], labels=["tea", "jam", "tea"])
    with pytest.raises(ValueError, match="items 0 and 1 are both 7"):
        dc.online.HedgeSelector(2, 1, 10, dc.Budget(1.0), labels=[7, 7])
