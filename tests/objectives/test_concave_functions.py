"""Concave functions in Python: rows give the scores of people who are asked one by one, bit for bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from discreet.objectives import ConcaveOverModular
from discreet.objectives.fixed_point import FixedPointGains, step

LESS = 1.2  # a bound below what people reach: it takes something from them


def falling(total):
    """It falls in a place that is not looked at in advance."""
    return np.log1p(total) - 0.5 * ((total > 1.2) & (total < 1.2002))


def failing(total):
    """It raises for some people, once somebody else's item or their own is chosen."""
    if total.size < 20 and ((total > 1.2) & (total < 1.25)).any():
        raise KeyError("somebody")
    return np.sqrt(total)


def crowd(total):
    """It depends on the largest number it is asked about at the time."""
    return np.log1p(total) * (1.0 + 0.1 * np.tanh(total.max()))


@pytest.fixture
def weights():
    rng = np.random.default_rng(0)
    return rng.random((200, 16)) * (rng.random((200, 16)) < 0.3)


@pytest.mark.parametrize("concave", [np.sqrt, np.log1p, lambda t: t / (1.0 + t), falling, failing])
def test_scores_are_those_of_people_asked_one_by_one(concave, weights):
    people = ConcaveOverModular(weights, concave=concave, bound=4.0)
    unit = step(LESS, len(people))
    rows = FixedPointGains.over(people, LESS, unit)
    asked = FixedPointGains(people.n_items, [], list(people), unit, LESS)
    for _ in range(8):
        scores = rows.scores()
        np.testing.assert_array_equal(scores, asked.scores())
        item = int(np.argmax(scores))
        assert rows.add(item) == asked.add(item)


@pytest.mark.parametrize("concave", [np.sqrt, falling, failing, crowd])
def test_one_person_moves_scores_by_their_own_part(concave, weights):
    """Taking a person out changes every score by at most the bound, and all chosen ones together too."""
    weights[0] = 1.0  # who would add more than the bound
    unit = step(LESS, len(weights))
    everybody, without = (
        FixedPointGains.over(ConcaveOverModular(some, concave=concave, bound=4.0), LESS, unit)
        for some in (weights, weights[1:])
    )
    moved = 0.0
    for item in range(8):
        parts = everybody.scores() - without.scores()
        assert parts.min() >= 0.0
        assert parts.max() <= LESS
        moved += everybody.add(item) - without.add(item)
    assert moved <= LESS


def test_nobodys_weights_make_a_function_warn():
    """An overflow on the way to a height that is fine would be told to all, of one person's weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        people = ConcaveOverModular([[0.5, 0.5], [1e200, 0.0]], concave=lambda t: 1.0 - 1.0 / (1.0 + t) ** 2)
        growing = FixedPointGains.over(people, people.bound, step(people.bound, 2))
        assert growing.scores() == pytest.approx([5 / 9 + 1.0, 5 / 9])
        growing.add(0)
        assert growing.scores() == pytest.approx([0.0, 0.75 - 5 / 9])
        assert people.gains([0]) == pytest.approx([0.0, (0.75 - 5 / 9) / 2])


def test_an_item_that_is_in_the_set_is_not_asked_for_beyond_all_numbers():
    """Its weight counts twice there: the total overflowed, which NumPy warned of, or nobody had an answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        people = ConcaveOverModular([[1e308, 5e307], [0.0, 1.0]], concave=np.log1p, bound=1e4)
        growing = FixedPointGains.over(people, people.bound, step(people.bound, 2))
        growing.add(0)
        added = np.log1p(1.5e308) - np.log1p(1e308)
        assert growing.scores() == pytest.approx([0.0, added + np.log(2.0)])
        assert people.gains([0]) == pytest.approx([0.0, (added + np.log(2.0)) / 2.0])
