"""Bounds of sets of at most k items: held, used where no more are chosen, and refused everywhere else."""

from __future__ import annotations

import itertools
import math

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dc
from discreet.objectives import ConcaveOverModular, FacilityLocation, LogDeterminant, SaturatedCoverage, rows
from discreet.objectives.fixed_point import FixedPointGains, step
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
    with pytest.raises(dc.DataError, match="one person's function can exceed"):
        ConcaveOverModular(form(matrix), bound=most * 0.999, at_most=K)
    with pytest.raises(ValueError, match="at_most=2: nothing is declared of sets of up to 6 items"):
        _ = people.bound


def test_a_wrong_maximum_would_be_seen(monkeypatch):
    """The test above fails if the sum leaves out one of the k largest weights."""
    whole = rows.largest_totals
    monkeypatch.setattr(
        "discreet.objectives.rows.largest_totals", lambda matrix, most: whole(matrix, most - 1)
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


def test_larger_sets_are_refused_before_anything_is_spent():
    people = ConcaveOverModular(weights(), bound=math.sqrt(K), at_most=K)
    budget = dc.Budget(1.0, 1e-6)
    greedy = PrivateGreedy(K + 1, budget, bound=3.0)
    inside = PrivateGreedy(K, budget, bound=3.0, include=[0])
    for selector in (greedy, ContinuousGreedy(K, budget, bound=3.0), CurvatureGreedy(K, budget, bound=3.0)):
        with pytest.raises(ValueError, match="nothing is declared of sets"):
            selector.select(people)
    assert greedy.privacy.epsilon() == 0.0
    assert len(inside.select(people)) == K
    learner = dc.online.HedgeSelector(6, K, 40, budget, bound=3.0, seed=0)
    with pytest.raises(ValueError, match="nothing is declared of sets"):
        learner.learn(people[0]) if learner.choose() else None


def small_sets(n_items: int, k: int):
    return [list(some) for size in range(k + 1) for some in itertools.combinations(range(n_items), size)]


def most_on_small_sets(people, k: int):
    """Everybody's highest value on any set of at most k items, by looking at all of them."""
    sets = small_sets(people.n_items, k)
    return np.array([max(person.value(some) for some in sets) for person in people])


def diverse(seed: int, alike: float, items: int = 6, people: int = 12):
    """A kernel of items that are more or less alike, and people's qualities, some of them 0."""
    coins = np.random.default_rng(seed)
    axes = coins.normal(size=(items, 3)) * alike
    kernel = axes @ axes.T + np.diag(coins.random(items))
    return kernel, coins.random((people, items)) * 3.0 * (coins.random((people, items)) < 0.8)


def held(kernel, quality, k: int) -> bool:
    """Nobody is worth more on a small set than what they are held to, which is less than on all items."""
    people = LogDeterminant(kernel, quality, bound=1e3, at_most=k)
    reached, highest = people._largest(), most_on_small_sets(people, k)
    whole_sets = LogDeterminant(kernel, quality, bound=1e3)._largest()
    return bool((reached >= highest * (1 - 1e-12)).all() and (reached <= whole_sets * (1 + 1e-12)).all())


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("alike", [0.0, 0.3, 3.0])
def test_determinants_of_small_sets_are_held_to_no_less_than_they_reach(alike, k):
    assert held(*diverse(1, alike), k)


@pytest.mark.parametrize("fault", ["diagonal", "eigenvalues"])
def test_a_sum_that_is_too_small_is_noticed(monkeypatch, fault):
    """One term too few of either sum: the test above fails."""
    if fault == "diagonal":
        whole = rows.largest_totals
        name = "discreet.objectives.log_determinant.largest_totals"
        monkeypatch.setattr(name, lambda matrix, most: whole(matrix, most - 1))
    else:
        whole = np.linalg.eigvalsh
        monkeypatch.setattr(np.linalg, "eigvalsh", lambda matrix: whole(matrix)[:-1])
    assert not all(held(*diverse(1, alike), 2) for alike in (0.0, 3.0))


def test_determinants_of_unlike_items_are_held_exactly():
    quality = np.array([[1.0, 2.0, 0.5, 0.0]])
    most = math.log1p(4.0) + math.log1p(1.0)
    people = LogDeterminant(np.eye(4), quality, bound=most, at_most=2)
    assert people.bound_of(2) == most
    with pytest.raises(dc.DataError, match="one person's function can exceed"):
        LogDeterminant(np.eye(4), quality, bound=most * 0.999, at_most=2)
    twins = np.ones((4, 4))  # the same item four times: one eigenvalue
    assert LogDeterminant(twins, bound=math.log(5.0), at_most=2).bound_of(2) == math.log(5.0)
    strict = LogDeterminant(np.eye(4), quality, bound=most, at_most=2, backend=array_api_strict)
    assert strict.value([0, 1]) == people.value([0, 1])


def test_determinants_count_for_no_more_than_the_bound_whatever_they_are():
    """Scores by enumeration: every order of k picks, with somebody who breaks the bound that was declared."""
    bound, unit = 2.0, step(2.0, 3)
    people = LogDeterminant(np.eye(4), np.ones((1, 4)), bound=bound, at_most=K)
    people._rows.quality[:] = [9.0, 3.0, 0.5, 0.0]
    for order in itertools.permutations(range(4), K):
        growing = FixedPointGains.over(people, bound, unit)
        assert all(growing.scores().max() <= bound for _ in order)
        assert sum(growing.add(item) for item in order) <= bound


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_saturation_of_small_sets(form):
    matrix = weights(3) * 4.0
    exact = most_on_small_sets(SaturatedCoverage(matrix, saturation=0.8, bound=99.0), K)
    people = SaturatedCoverage(form(matrix), saturation=0.8, bound=exact.max() * (1 + 1e-12), at_most=K)
    assert people._largest() == pytest.approx(exact)
    assert people.bound_of(K) < 0.8 * matrix.sum(axis=1).max()
    with pytest.raises(dc.DataError, match="one person's function can exceed"):
        SaturatedCoverage(form(matrix), saturation=0.8, bound=exact.max() * 0.999, at_most=K)


def test_a_mixture_has_the_bound_of_its_parts_on_small_sets():
    matrix = weights()
    part = ConcaveOverModular(matrix, bound=math.sqrt(K), at_most=K)
    both = 2.0 * part + 1.0 * FacilityLocation(matrix)
    assert both.at_most == K
    assert both.bound_of(K) == 2.0 * math.sqrt(K) + 1.0
    assert len(PrivateGreedy(K, dc.Budget(1.0), bound=both.bound_of(K), seed=0).select(both)) == K
    with pytest.raises(ValueError, match="nothing is declared of sets of up to 6 items"):
        _ = both.bound
    with pytest.raises(ValueError, match="nothing is declared of sets of up to 3 items"):
        PrivateGreedy(K + 1, dc.Budget(1.0), bound=9.0).select(both)
    # Of all sets as well it is the parts' bounds that count, and not what people happen to reach.
    whole = 1.0 * FacilityLocation(matrix) + 1.0 * FacilityLocation(matrix * 0.0)
    with pytest.raises(ValueError, match="values of up to 2, above bound=1"):
        PrivateGreedy(1, dc.Budget(1.0)).select(whole)
    assert len(PrivateGreedy(1, dc.Budget(1.0), bound=2.0, seed=0).select(whole)) == 1


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


def test_labels_that_are_the_same_are_named():
    with pytest.raises(ValueError, match="labels must be distinct; items 0 and 2 are both 'tea'"):
        dc.objectives.Coverage([[1, 0, 1]], labels=["tea", "jam", "tea"])
    with pytest.raises(ValueError, match="items 0 and 1 are both 7"):
        dc.online.HedgeSelector(2, 1, 10, dc.Budget(1.0), labels=[7, 7])
