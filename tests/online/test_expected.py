"""Expected shares: simulated on made-up people, cached, and what a plan says of them."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality, PartitionMatroid
from discreet.objectives import Coverage, greedy
from discreet.online.bandit.rewards import FewRoundsWarning
from discreet.planning.expected import Size, at_random, best_values, made_up, served, streams

BUDGET = dc.Budget(1.0, 1e-6)


def test_made_up_people_are_as_described():
    people = made_up(20_000, 200, seed=3)
    counts = np.diff(people.indptr)
    assert 2.0 < counts.mean() < 3.0  # one and two more, less what was drawn twice
    popular = np.sort(people.gains([]))[::-1]
    assert popular[0] > 5 * popular[20] > 0.0
    again = made_up(20_000, 200, seed=3)
    np.testing.assert_array_equal(people.indices, again.indices)
    assert (made_up(20_000, 200, seed=4).gains([]) != people.gains([])).any()


def test_a_share_is_that_of_the_best_fixed_set():
    people = [Coverage(np.eye(4)[np.random.default_rng(0).integers(4, size=400)])]
    best = best_values(people, Cardinality(1, n_items=4))
    assert best == [people[0].gains([]).max()]
    random = at_random(people, best, Cardinality(1, n_items=4))
    assert random.share == pytest.approx(people[0].gains([]).mean() / people[0].gains([]).max(), abs=0.15)
    all_of_them = best_values(people, Cardinality(4, n_items=4))
    perfect = served(lambda seed: dc.online.PhasedSelector(4, 4, BUDGET, seed=seed), people, all_of_them)
    assert perfect.share == pytest.approx(1.0)


def test_the_best_set_of_a_constraint_is_greedy():
    people = made_up(2_000, 12, seed=0)
    blocks = PartitionMatroid([0] * 6 + [1] * 6, [1, 1])
    (value,) = best_values([people], blocks)
    pairs = [people.value([a, b]) for a in range(6) for b in range(6, 12)]
    assert 0.9 * max(pairs) <= value <= max(pairs)
    assert at_random([people], [value], blocks).share < 1.0


def test_the_most_served_is_chosen_and_said():
    found = dc.plan(60, 4, 8_000, BUDGET, stream="stationary")
    shares = [(one.expected.share, one.name) for one in found.candidates if one.expected is not None]
    assert shares == sorted(shares, reverse=True)
    assert found.best.expected.share >= shares[0][0] - 0.05 > 0.85
    assert found.best.name in ("PhasedSelector", "LeaderSelector")
    assert {"HedgeSelector", "RunningSumSelector"} <= {name for _, name in shares}
    assert str(found.best.expected) in found.reason
    assert not found.hopeless
    assert "no guarantee at this size" in str(found)
    header, rows = found.rows()
    assert header[3] == "expected share"
    assert "more is to be expected" not in found.reason  # as many people as were asked about
    assert all(len(row) == len(header) for row in rows)
    assert found.learner(seed=0).n_items == 60
    certified = dc.plan(60, 4, 8_000, BUDGET, stream="stationary", goal="certified")
    assert certified.simulation is None
    assert all(one.expected is None for one in certified.candidates)


def test_a_smaller_simulation_is_named_beside_its_shares():
    found = dc.plan(20, 2, 180_000, BUDGET, stream="stationary")
    assert found.rows()[0][3] == "expected share of 20,000 people"
    assert "With 180,000 more is to be expected: discreet simulate --rounds measures it." in found.reason


def test_the_figure_is_what_the_learner_then_serves():
    """On other people of the same kind, within what the runs vary."""
    found = dc.plan(60, 4, 8_000, BUDGET, stream="stationary")
    shares = []
    for seed in range(8):
        people = made_up(8_000, 60, seed=100 + seed)
        best = people.value(greedy(people, 4)[0])
        shares.append(found.learner(seed=seed).run(people).average / best)
    error = 6 * np.hypot(found.best.expected.spread / np.sqrt(3), np.std(shares) / np.sqrt(8))
    assert abs(np.mean(shares) - found.best.expected.share) < error + 0.01


def test_a_question_is_simulated_once():
    dc.plan(50, 3, 2_000, BUDGET)
    start = time.perf_counter()
    again = dc.plan(50, 3, 2_000, BUDGET, labels=[f"item {i}" for i in range(50)])
    assert time.perf_counter() - start < 2.0
    assert again.best.expected == dc.plan(50, 3, 2_000, BUDGET).best.expected


def test_where_nothing_helps_it_says_so_and_how_many_people_would():
    found = dc.plan(200, 2, 300, dc.Budget(0.02), stream="stationary")
    assert found.hopeless
    assert found.simulation.needed > 300
    assert f"{found.simulation.needed:,} people would be needed" in found.reason
    with pytest.warns(UserWarning, match="Nothing is expected to do better than random sets"):
        found.learner(seed=0)
    enough = dc.plan(200, 2, 4 * found.simulation.needed, dc.Budget(0.02), stream="stationary")
    assert not enough.hopeless
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough.learner(seed=0)


def test_a_public_sample_stands_for_the_people():
    likes = np.zeros((500, 30))
    likes[:, 7] = 1.0
    found = dc.plan(30, 1, 3_000, BUDGET, stream="stationary", sample=Coverage(likes))
    assert found.simulation.at_random.share < 0.2
    assert found.best.expected.share > 0.9
    with pytest.raises(ValueError, match="sample has 30 items"):
        dc.plan(31, 1, 3_000, BUDGET, sample=Coverage(likes))
    with pytest.raises(ValueError, match="values up to 3"):
        dc.plan(30, 1, 3_000, BUDGET, sample=Coverage(likes) * 3.0)
    with pytest.raises(ValueError, match="goal"):
        dc.plan(30, 1, 3_000, BUDGET, goal="luck")


def test_constraints_have_expected_shares_too():
    blocks = PartitionMatroid([0] * 10 + [1] * 10, [1, 2])
    found = dc.plan(20, blocks, 4_000, BUDGET, stream="stationary")
    assert {one.name for one in found.candidates if one.expected} == {"LeaderSelector", "MetaFrankWolfe"}
    assert found.best.name == "LeaderSelector"
    assert blocks.contains(found.learner(seed=0).choose().items)
    guaranteed = dc.plan(20, blocks, 4_000, BUDGET)
    assert {one.name for one in guaranteed.candidates} == {"MetaFrankWolfe"}
    assert guaranteed.learner(seed=0).constraint is not None


def test_large_questions_are_answered_by_smaller_ones():
    assert Size.of(10**6, 10**5, 10) == Size(8_000, 5_000, 10)
    assert Size.of(500, 20, 3) == Size(500, 20, 3)
    assert Size.of(10**6, 10**5, 5_000).n_items == 10_000
    scaled = streams(Size(100, 10, 2), 3.0, None)
    assert [people.bound for people in scaled] == [3.0] * 3


@pytest.mark.parametrize(
    ("kind", "n_items", "rounds", "options", "warned"),
    [
        (dc.online.BanditSelector, 285, 32_710, {}, True),
        (dc.online.BanditSelector, 285, 32_710, {"exploration": "online"}, True),
        (dc.online.BanditSelector, 285, 32_710, {"feedback": "slots"}, False),
        (dc.online.BanditSelector, 10, 10**6, {}, False),
        (dc.online.BanditSelector, 10, 10**6, {"exploration": "online"}, False),
        (dc.online.ThompsonSelector, 285, 32_710, {}, False),
        (dc.online.ThompsonSelector, 50_000, 32_710, {}, True),
        (dc.online.ThompsonSelector, 50_000, None, {}, False),
    ],
)
def test_values_of_sets_that_teach_nothing_are_warned_of(kind, n_items, rounds, options, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(n_items, 5, rounds, BUDGET, seed=0, **options)
    few = [one for one in caught if issubclass(one.category, FewRoundsWarning)]
    assert bool(few) == warned
    assert all(one.filename == __file__ for one in few)
