"""Regret against the best fixed set: the set, its bound, the curve and the bands."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest

from discreet import constraints, evaluation
from discreet.evaluation import best_fixed_set, regret, regret_bands
from discreet.objectives import Coverage, FacilityLocation, ProbabilisticCoverage, SetFunction, WeightedTopics
from discreet.objectives.base import greedy, value_to_each
from discreet.results import Trace

ALPHA = 1.0 - 1.0 / math.e
MODULE = sys.modules[best_fixed_set.__module__]  # the package gives the function of that name


def _families(rng, people, n_items):
    likes = rng.random((people, n_items))
    yield Coverage(likes < 0.2)
    yield ProbabilisticCoverage(likes * (likes < 0.4))
    yield FacilityLocation(likes)
    yield WeightedTopics(0.99 * rng.dirichlet(np.ones(4), people), rng.random((n_items, 4)) < 0.4)


def _served(people, k, rng):
    sets = np.array([rng.permutation(people.n_items)[:k] for _ in range(len(people))])
    rewards = np.array([people[t].value(chosen) for t, chosen in enumerate(sets)])
    return Trace(rewards, sets.astype(np.int32))


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_the_best_set_is_that_of_an_enumeration(k):
    rng = np.random.default_rng(k)
    for people in _families(rng, 25, 7):
        best = max(people.value(chosen) for chosen in itertools.combinations(range(7), k))
        items, exact, upper = best_fixed_set(people, k)
        assert exact
        assert len(set(items)) == k
        assert people.value(items) == pytest.approx(best, abs=1e-12)
        assert upper == pytest.approx(best, abs=1e-12)


CONSTRAINTS = {
    "partition": constraints.PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], [1, 1, 2]),
    "laminar": constraints.LaminarMatroid([[0, 1, 2, 3], [0, 1], [4, 5, 6]], [2, 1, 1]),
    "graphic": constraints.GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (3, 1), (1, 0)]),
    "linear": constraints.LinearMatroid(
        [[1, 0, 1, 0, 1, 2, 0], [0, 1, 1, 0, 1, 2, 0], [0, 0, 0, 1, 1, 2, 3]]
    ),
    "cardinality": constraints.Cardinality(3),
    "knapsack": constraints.Knapsack([0.2, 0.5, 0.4, 0.9, 0.3, 0.6, 0.35], 1.0),
    "knapsack, nearly free items": constraints.Knapsack([0.2, 1e-12, 0.4, 0.0, 0.9, 0.6, 1e-11], 1.0),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_best_feasible_set_is_that_of_an_enumeration(name):
    constraint = CONSTRAINTS[name]
    within = constraint.over(7)
    feasible = [s for size in range(8) for s in itertools.combinations(range(7), size) if within.contains(s)]
    rng = np.random.default_rng(len(name))
    beaten = 0
    for people in itertools.chain.from_iterable(_families(rng, 15, 7) for _ in range(5)):
        best = max(people.value(chosen) for chosen in feasible)
        items, exact, upper = best_fixed_set(people, constraint)
        assert exact
        assert within.contains(items)
        assert people.value(items) == pytest.approx(best, abs=1e-12)
        assert upper == pytest.approx(best, abs=1e-12)
        beaten += people.value(items) > people.value(_greedy_within(people, within)) + 1e-9
    assert beaten or name == "graphic"  # the search is needed


def _greedy_within(people, constraint):
    items: list[int] = []
    while (free := constraint.addable(items)).any():
        items.append(int(np.argmax(np.where(free, people.gains(items), -1.0))))
    return items


def test_an_unfinished_search_within_a_constraint_bounds_the_best_value(monkeypatch):
    monkeypatch.setattr(MODULE, "_FEW_SETS", 1)
    monkeypatch.setattr(MODULE, "_MOST_OPENED", 3)
    rng = np.random.default_rng(6)
    loose = 0
    for name, constraint in CONSTRAINTS.items():
        within = constraint.over(7)
        for people in _families(rng, 15, 7):
            best = max(
                people.value(s)
                for size in range(8)
                for s in itertools.combinations(range(7), size)
                if within.contains(s)
            )
            items, exact, upper = best_fixed_set(people, constraint)
            assert within.contains(items)
            assert people.value(items) <= best + 1e-12
            assert upper >= best - 1e-12
            assert upper == pytest.approx(best, abs=1e-12) or not exact
            loose += not exact and name != "cardinality"
    assert loose


def test_regret_within_a_constraint():
    people = Coverage([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    one_of_two = constraints.PartitionMatroid([[0, 1], [2]], 1)
    served = Trace(np.zeros(4), np.array([[1, 2]] * 4, dtype=np.int32))
    free, held = served.regret(people, 1.0), served.regret(people, 1.0, constraint=one_of_two)
    assert (free.total, held.total) == (3.0, 3.0)
    tight = constraints.PartitionMatroid([[0, 1, 2]], 1)
    assert served.regret(people, 1.0, constraint=tight).total == 2.0
    assert regret(served, people, constraint=tight).comparator == (0,)
    with pytest.raises(ValueError, match="over 5 items"):
        served.regret(people, constraint=constraints.PartitionMatroid([[0, 1, 2, 3, 4]], 1))
    with pytest.raises(TypeError, match="holds points, not sets"):
        regret(Trace(np.zeros(4), np.full((4, 3), 0.5)), people)


def test_values_to_each_are_those_of_the_people_alone():
    rng = np.random.default_rng(3)
    for people in _families(rng, 30, 9):
        for items in ([], [4], [8, 0, 3, 5]):
            expected = [people[i].value(items) for i in range(len(people))]
            np.testing.assert_allclose(value_to_each(people, items), expected, atol=1e-15)


def test_total_curve_and_bound_belong_together():
    rng = np.random.default_rng(4)
    for people in _families(rng, 50, 6):
        trace = _served(people, 2, rng)
        for alpha in (None, 1.0, 0.5):
            found = regret(trace, people, alpha=alpha)
            part = ALPHA if alpha is None else alpha
            best = max(people.value(chosen) for chosen in itertools.combinations(range(6), 2))
            assert found.alpha == part
            assert found.total == pytest.approx(part * best * 50 - trace.rewards.sum())
            assert found.curve[-1] == pytest.approx(found.total)
            by_hand = np.cumsum(
                [part * people[t].value(found.comparator) - trace.rewards[t] for t in range(50)]
            )
            np.testing.assert_allclose(found.curve, by_hand, atol=1e-9)
            assert found.upper >= found.total - 1e-9
            assert (found.positive == np.maximum(found.curve, 0.0)).all()
        assert trace.regret(people).total == regret(trace, people).total


def test_negative_regret_is_reported_and_clipped_only_on_request():
    people = Coverage(np.eye(2)[np.arange(100) % 2])
    perfect = Trace(np.ones(100), (np.arange(100) % 2)[:, None].astype(np.int32))
    found = regret(perfect, people)
    assert found.total == pytest.approx(ALPHA * 50 - 100)
    assert found.curve[-1] < 0
    assert (found.positive == 0).all()
    assert regret_bands([found, found]).mean[-1] < 0
    assert (regret_bands([found, found], clip=True).low == 0).all()


def _random_walks(repeats, rounds=20, seed=0):
    steps = np.random.default_rng(seed).normal(0.3, 1.0, (repeats, rounds))
    curves = np.cumsum(steps, axis=1)
    return [evaluation.Regret((0,), True, 1.0, 1.0, c[-1], c[-1], c) for c in curves], curves


def test_bands_are_those_of_the_textbook():
    from scipy import stats

    runs, curves = _random_walks(6)
    band = regret_bands(runs, level=0.9)
    at_end = stats.t.interval(0.9, 5, curves[:, -1].mean(), stats.sem(curves[:, -1]))
    assert (band.low[-1], band.high[-1]) == pytest.approx(at_end)
    spread = regret_bands(runs, level=0.5, method="percentile")
    assert spread.high[3] == pytest.approx(np.quantile(curves[:, 3], 0.75))
    assert (spread.low <= spread.high).all()
    assert spread.repeats == 6


def test_bands_hold_the_mean_as_often_as_they_say():
    """2,000 bands at 90 %: the binomial count is within 5 standard deviations."""
    hits = 0
    for seed in range(2_000):
        runs, _ = _random_walks(5, rounds=2, seed=seed)
        band = regret_bands(runs, level=0.9)
        hits += band.low[-1] <= 0.6 <= band.high[-1]
    assert abs(hits - 1_800) < 5 * math.sqrt(2_000 * 0.09)


def test_bad_input_is_named():
    people = Coverage([[1, 0], [0, 1]])
    trace = Trace(np.zeros(2), np.array([[0], [1]]))
    with pytest.raises(ValueError, match="of different lengths"):
        regret(trace, Coverage([[1, 0]] * 3))
    with pytest.raises(ValueError, match="do not know"):
        regret(trace, Coverage([[1], [1]]))
    with pytest.raises(ValueError, match="alpha"):
        regret(trace, people, alpha=1.5)
    with pytest.raises(ValueError, match="k=3"):
        best_fixed_set(people, 3)
    falling = SetFunction(lambda chosen: len(chosen) % 2, n_items=2, bound=1)
    with pytest.raises(ValueError, match="monotone"):
        best_fixed_set(falling, 1)
    runs, _ = _random_walks(3)
    with pytest.raises(ValueError, match="1 repeats"):
        regret_bands(runs[:1])
    with pytest.raises(ValueError, match="level"):
        regret_bands(runs, level=1.0)
    with pytest.raises(ValueError, match="method"):
        regret_bands(runs, method="bootstrap")
    with pytest.raises(ValueError, match="same kind"):
        regret_bands([runs[0], _random_walks(1, rounds=3)[0][0]])


def test_the_best_set_can_beat_greedy():
    """The item that most people like is in no best pair."""
    people = Coverage([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 1]])
    assert people.value(greedy(people, 2)[0]) == pytest.approx(5 / 6)
    assert best_fixed_set(people, 2) == ((1, 2), True, 1.0)


def test_an_unfinished_search_still_bounds_the_best_value(monkeypatch):
    rng = np.random.default_rng(5)
    for people in _families(rng, 40, 12):
        k = 4
        best = max(people.value(chosen) for chosen in itertools.combinations(range(12), k))
        monkeypatch.setattr(MODULE, "_FEW_SETS", 1)
        seen = []
        for opened in (k + 1, 12, 40, 5_000):
            monkeypatch.setattr(MODULE, "_MOST_OPENED", opened)
            items, exact, upper = best_fixed_set(people, k)
            found = people.value(items)
            assert people.value(greedy(people, k)[0]) - 1e-12 <= found <= best + 1e-12
            assert upper >= best - 1e-12
            assert upper <= people.value(greedy(people, k)[0]) / ALPHA + 1e-12
            assert not exact or found == pytest.approx(best, abs=1e-12)
            seen.append(upper)
        assert seen == sorted(seen, reverse=True)
        monkeypatch.undo()


def test_the_cheap_bound_is_one_over_prefixes_of_greedy(monkeypatch):
    """Six items that the same half of the people like: the bound from the empty set counts them thrice."""
    likes = np.zeros((10, 11))
    likes[:5, :6] = 1
    likes[np.arange(5, 10), np.arange(6, 11)] = 1
    people = Coverage(likes)
    assert best_fixed_set(people, 3)[1:] == (True, pytest.approx(0.7))
    monkeypatch.setattr(MODULE, "_MOST_OPENED", 1)
    monkeypatch.setattr(MODULE, "_FEW_SETS", 1)
    assert best_fixed_set(people, 3)[1:] == (False, pytest.approx(0.8))
