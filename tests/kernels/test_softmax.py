"""Exponentials beside many digits, and draws by them beside an obvious twin and beside exact chances."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from discreet.kernels.softmax import draw_ordered, exponentials, follows_first


def drawn(scores, rate, uniforms):
    """One item per row, with weights exp(rate * score) and none twice: by sums from the left."""
    taken = []
    for row, uniform in zip(scores.tolist(), uniforms.tolist(), strict=True):
        left = [item for item in range(len(row)) if item not in taken]
        top = max(row[item] for item in left)
        weights = [math.exp(rate * (row[item] - top)) for item in left]
        borders = np.cumsum(weights)
        taken.append(left[int(np.searchsorted(borders, uniform * borders[-1], side="right"))])
    return taken


@pytest.mark.parametrize("items", [7, 8, 700])
def test_draws_are_those_of_the_twin(items):
    rng = np.random.default_rng(items)
    for scale in (0.0, 0.3, 5.0, 80.0, 1e9):
        scores = rng.normal(0.0, scale, (6, items)).round(2)
        for _ in range(20):
            rate, uniforms = rng.random() * 2.0, rng.random(6)
            assert draw_ordered(scores, rate, uniforms).tolist() == drawn(scores, rate, uniforms)


def test_draws_follow_the_softmax_without_what_is_chosen():
    scores = np.array([[0.0, 1.0, 2.0, 0.5], [3.0, 0.0, 1.0, 1.0]])
    rng = np.random.default_rng(3)
    counts = np.zeros((4, 4))
    for _ in range(60_000):
        first, second = draw_ordered(scores, 0.8, rng.random(2))
        counts[first, second] += 1
    first = np.exp(0.8 * scores[0])
    first /= first.sum()
    expected = np.zeros((4, 4))
    for a in range(4):
        second = np.exp(0.8 * scores[1])
        second[a] = 0.0
        expected[a] = first[a] * second / second.sum()
    off = ~np.eye(4, dtype=bool)
    assert counts[~off].sum() == 0
    assert stats.chisquare(counts[off], expected[off] * counts.sum()).pvalue > 1e-6


def test_the_largest_of_few_weights_is_never_left_out():
    """With a uniform number of 0 the first item that weighs something is drawn, with almost 1 the last."""
    scores = np.array([[0.0, -49.0, -60.0, -1.0, -51.0]])
    for uniform, pick in ((0.0, 0), (math.nextafter(1.0, 0.0), 3)):
        assert draw_ordered(scores, 1.0, np.array([uniform])).tolist() == [pick]


def test_draws_survive_extreme_scores():
    scores = np.array([[1e9, 0.0, -1e9]] * 3)
    for uniform in (0.0, 0.5, math.nextafter(1.0, 0.0)):
        assert draw_ordered(scores, 1.0, np.full(3, uniform)).tolist() == [0, 1, 2]


def test_exponentials_are_as_good_as_they_say():
    rng = np.random.default_rng(4)
    given = np.concatenate(
        [rng.uniform(-708, 700, 2000), rng.uniform(-2, 2, 2000), [0.0, -708.0, 700.0, -1e-300]]
    )
    results = np.empty_like(given)
    exponentials(given, results)
    with mpmath.workprec(120):
        errors = [
            abs(mpmath.mpf(r) / mpmath.exp(mpmath.mpf(x)) - 1) for x, r in zip(given, results, strict=True)
        ]
    assert max(errors) <= 4 * 2.0**-53  # two units in the last place
    assert results[given == 0.0] == 1.0
    beyond, results = np.array([-708.5, -1e9, -math.inf, 701.0, math.inf]), np.empty(5)
    exponentials(beyond, results)
    assert results[:3].tolist() == [0.0, 0.0, 0.0]
    assert (results[3:] > 1e300).all()


@pytest.mark.parametrize("least", [-0.3465, 0.335])
def test_no_power_of_the_series_is_missing_or_wrong(least):
    """The thirteenth is worth one unit at the ends of |r| <= ln(2) / 2; the mean of many errors is 0."""
    given = np.random.default_rng(0).uniform(least, least + 0.0115, 2000)
    results = np.empty_like(given)
    exponentials(given, results)
    with mpmath.workprec(120):
        errors = [float(mpmath.mpf(r) / mpmath.exp(x) - 1) for x, r in zip(given, results, strict=True)]
    assert abs(np.mean(errors)) < 0.15 * 2.0**-53


@pytest.mark.parametrize("score", [-1e9, -3.0, 0.0, 2.0, 1e9])
def test_the_first_of_two_is_followed_as_often_as_its_odds_say(score):
    chance = 1.0 / (1.0 + 0.2 * math.exp(min(700.0, -score)))
    assert follows_first(score, 0.2, chance * (1.0 - 1e-9))
    assert not follows_first(score, 0.2, min(1.0, chance * (1.0 + 1e-9)))


def test_draws_refuse_what_does_not_fit():
    for shape, uniforms in (((3, 2), 3), ((2, 3), 3), ((0, 3), 1)):
        with pytest.raises(ValueError, match="uniform number"):
            draw_ordered(np.zeros(shape), 1.0, np.zeros(uniforms))
    with pytest.raises(ValueError, match="result"):
        exponentials(np.zeros(2), np.zeros(3))
