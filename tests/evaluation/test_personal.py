"""Quality for new people: by hand on a few, and the baselines by their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.evaluation.personal import (
    NewPeople,
    Quality,
    RecommenderComparison,
    compare_recommenders,
    ease,
    item_neighbours,
    popularity,
    quality,
)
from discreet.evaluation.simulation import Config, simulate
from discreet.objectives import Coverage, SetFunction


def test_figures_by_hand():
    people = NewPeople(
        Coverage([[1] * 5]), (np.array([0]), np.array([4])), (np.array([1, 2, 3]), np.array([0]))
    )
    falling = lambda histories: np.tile([5.0, 4.0, 1.0, 3.0, 2.0], (len(histories), 1))  # noqa: E731
    found = quality(falling, people, 2)
    # The first is shown 1 and 3, both held out; the second 0 and 1, of which the first was.
    assert found.hit_rate == 1.0
    assert found.recall == 1.0
    assert found.ndcg == 1.0
    assert found.people == 2
    one = quality(falling, NewPeople(people.training, (np.array([0]),), (np.array([3, 2]),)), 2)
    assert one.hit_rate == 1.0
    assert one.recall == 0.5
    assert one.ndcg == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    none = quality(falling, NewPeople(people.training, (np.array([0]),), (np.array([2]),)), 1)
    assert (none.hit_rate, none.recall, none.ndcg) == (0.0, 0.0, 0.0)
    assert "in the clear" in str(none)


def test_new_people_are_not_in_the_data_and_nothing_is_in_two_places():
    rng = np.random.default_rng(0)
    rows = rng.random((500, 20)) < 0.4
    rows[:, 0] = np.arange(500) % 7 == 0
    split = NewPeople.of(Coverage(rows), 3)
    assert len(split.training) == 400
    assert len(split.histories) == 100
    for had, out in zip(split.histories, split.held_out, strict=True):
        assert not set(had.tolist()) & set(out.tolist())
        assert out.size == max(1, round(0.2 * (had.size + out.size)))
        assert any(set(np.flatnonzero(row)) == {*had.tolist(), *out.tolist()} for row in rows)
    again = NewPeople.of(Coverage(rows), 3)
    assert all((a == b).all() for a, b in zip(split.histories, again.histories, strict=True))
    with pytest.raises(TypeError, match="rows in memory"):
        NewPeople.of(SetFunction([lambda _: 0.0], 3, 1.0), 0)


def test_baselines_by_their_formulas():
    rows = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]], dtype=float)
    people = Coverage(rows)
    assert popularity(people)([np.array([0])]).tolist() == [[3.0, 3.0, 2.0]]
    near = item_neighbours(people, shrink=0.0)([np.array([0])])[0]
    assert near == pytest.approx([0.0, 2 / 3, 2 / math.sqrt(6)])
    inverse = np.linalg.inv(rows.T @ rows + 2.0 * np.eye(3))
    expected = [0.0, -inverse[0, 1] / inverse[1, 1], -inverse[0, 2] / inverse[2, 2]]
    assert ease(people, 2.0)([np.array([0])])[0] == pytest.approx(expected)


def test_features_are_compared_beside():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=1500)
    rows = (np.repeat(np.eye(3), 4, axis=1)[kind] * (rng.random((1500, 12)) < 0.7)).astype(float)
    about = np.repeat(np.eye(3), 4, axis=0)
    found = compare_recommenders(
        Coverage(rows), dc.Budget(1.0, 1e-6), 2, seeds=[1], baselines=(), features=about
    )
    assert found.mean("personal") == found.mean("popularity")  # too few people for pairs
    assert found.mean("personal, features") > found.mean("personal") + 0.2
    assert "in no account" in str(found)


def test_a_simulation_says_that_personal_sets_are_measured_elsewhere():
    given = {
        "rounds": 40, "items": 6, "k": 2, "repeats": 1, "learners": [{"learner": "personal"}],
        "streams": [{"family": "favourites"}],
    }  # fmt: skip
    (outcome,) = simulate(Config.of(given), None, workers=1).outcomes
    assert "discreet recommend evaluate" in outcome.note


def test_several_splits_have_a_standard_error():
    one, two = (Quality(hits, 0.5, 0.5, 10) for hits in (0.2, 0.4))
    found = RecommenderComparison(5, {"personal": [one, two], "popularity": [one]})
    assert found.error("personal") == pytest.approx(0.1)  # half of the difference
    assert math.isnan(found.error("popularity"))
    assert found.table()[1] == [["personal", "0.300 +- 0.100", "0.500", "0.500"],
                                ["popularity", "0.200", "0.500", "0.500"]]  # fmt: skip
