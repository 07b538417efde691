"""What learners make of released numbers, in numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage, FacilityLocation
from discreet.online import BestOfBothSelector, ThompsonSelector
from discreet.online.released import Released
from discreet.online.rolling import RollingSelector, RollingSettings
from discreet.online.thompson import WARM_UP, Independent, ItemValues, ThompsonSettings

PURE, FREE = dc.Budget(1.0), dc.Budget(math.inf)

# --- votes that last ----------------------------------------------------------------------------------


def _votes(k=2, **given):
    """Votes with noise of mean .5 on scores, a level of .5 ln 4 = .693, and a sample of half the people."""
    votes = RollingSelector(4, k, PURE, first_window=4, bound=2.0, seed=0)._votes
    votes.settings = replace(votes.settings, rate=1.0, keep=1 << 63)
    vars(votes).update(given)
    return votes


@pytest.mark.parametrize(
    ("credit", "known", "length", "number", "scores", "trusted", "after", "sum_known", "next_length"),
    [
        # Nothing is held yet: a score clear of noise becomes a credit but for its noise, .3 of another one.
        ([0.0] * 4, 0.0, 10, 36, [5.0, 1.0], 1.0, [4.05, 0.135, 0.0, 0.0], 4.5, 12),
        # 20 votes are said to come, and 1.5, 5 or 7 come: 13.8 fewer would be a surprise.
        ([40.0, 0.5, 2.0, 0.0], 20.0, 20, 1, [42.0, 1.0], 0.1, [4.95, 0.045, 0.18, 0.0], 10.8, 4),
        ([40.0, 0.5, 2.0, 0.0], 20.0, 20, 1, [45.5, 1.0], 0.25, [13.5, 0.1125, 0.45, 0.0], 13.5, 4),
        ([40.0, 0.5, 2.0, 0.0], 20.0, 20, 1, [47.5, 1.0], 1.0, [42.3, 0.45, 1.8, 0.0], 27.0, 4),
        # Two items are held, and noise counts for each: 15.46 fewer than 25 would be a surprise.
        ([40.0, 10.0, 2.0, 0.0], 20.0, 20, 100, [46.0, 14.58], 1.0, [40.95, 12.672, 1.8, 0.0], 27.0, 20),
        ([40.0, 10.0, 2.0, 0.0], 20.0, 20, 100, [46.0, 14.5], 0.38, [18.63, 7.02, 0.684, 0.0], 15.84, 20),
        # Scores that noise may have made ask for windows that are longer, at most twice as long.
        ([0.0] * 4, 0.0, 40, 1, [1.2, 1.2], 1.0, [0.189, 0.189, 0.0, 0.0], 18.0, 80),
        ([0.0] * 4, 0.0, 40, 1, [2.6, 3.0], 1.0, [0.567, 2.25, 0.0, 0.0], 18.0, 20),
        ([0.0] * 4, 0.0, 40, 1, [0.1, 0.2], 1.0, [0.0, 0.0, 0.0, 0.0], 18.0, 80),
    ],
)  # fmt: skip
def test_what_is_remembered_of_scores(
    credit, known, length, number, scores, trusted, after, sum_known, next_length
):
    votes = _votes(credit=np.array(credit), known=known, length=length)
    found = votes._remember(np.array([0, 1], dtype=np.int32), np.array(scores), number)
    assert found == (pytest.approx(trusted), next_length)
    assert votes.credit == pytest.approx(after)
    assert votes.known == pytest.approx(sum_known)


def test_votes_fade_and_old_ones_as_far_as_the_past_is_not_trusted():
    rows = Coverage(np.eye(4)[[0, 1, 1, 1, 1, 2]])._rows
    shares = np.array([1.0, 1.0, 0.5, 0.14, 0.1, 1.0])
    kept = _votes()._unspent(replace(rows, share=shares), np.array([0, 3], dtype=np.int32), 0.5)
    assert kept.share == pytest.approx(
        [0.9, 0.225, 0.063, 0.9]
    )  # item 0 is spent, .045 faint
    assert kept.sparse.indices.tolist() == [1, 1, 1, 2]


def test_credits_are_in_units_of_the_bound_and_of_the_sample():
    votes = _votes(credit=np.array([0.0, 4.05, 0.45, 0.0]), known=4.5)
    values, people, deviations = votes.estimates()
    assert values == pytest.approx([np.nan, 1.8, 0.2, np.nan], nan_ok=True)
    assert (people, deviations) == (9, None)
    votes.warm(Released((3, 1, 0), 4, values=np.array([9.0, 0.5, 1.0, np.nan]), people=30))
    assert votes.credit == pytest.approx([15.0, 3.75, 0.45, 0.0])
    assert votes.known == 15.0
    votes.warm(Released((0, 1), 4, people=9))  # a set alone says nothing of values
    assert votes.known == 15.0
    assert _votes().estimates() == (None, 0, None)


def test_the_first_window_of_rolling_selection():
    def first(budget, rounds=None, **options):
        return RollingSettings.tight(100, 5, budget.share(), rounds=rounds, **options).first_window

    alone = math.ceil(4 * math.log(100) / (-math.expm1(-1.0) * math.log1p(math.e)))
    for bound in (1.0, 7.0):
        assert first(dc.Budget(1.0, neighbours="add_remove"), bound=bound) == alone
    assert [first(PURE, rounds) for rounds in (100, 8)] == [25, 5]  # a quarter, and enough for k
    assert [first(FREE), first(FREE, 100), first(PURE, first_window=3)] == [5, 5, 3]
    settings = RollingSettings.tight(100, 5, PURE.share(), bound=4.0)
    assert settings.rate * 4.0 == pytest.approx(math.log1p(math.exp(0.5)))
    assert settings.noise == pytest.approx(1 / math.log1p(math.exp(0.5)))
    assert settings.level == pytest.approx(math.log(100) / math.log1p(math.exp(0.5)))


@pytest.mark.parametrize("budget", [FREE, dc.Budget(3.0)])
def test_rolling_selection_in_any_unit_of_value(budget):
    likes = np.random.default_rng(0).random((600, 6)) * np.linspace(1.0, 0.3, 6)
    likes[300:] = likes[300:, ::-1]
    seen = []
    for bound in (1.0, 4.0):
        learner = RollingSelector(6, 2, budget, first_window=20, bound=bound, seed=1)
        trace = learner.run(FacilityLocation(np.where(likes > 0.4, likes, 0.0) * bound, bound=bound))
        seen.append(
            (trace.selections, learner._votes.credit, learner.released.values / bound, learner._votes.opens)
        )
    assert (seen[0][0] == seen[1][0]).all()
    for here, there in zip(*(one[1:] for one in seen), strict=True):
        assert here == pytest.approx(there, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    "make", [partial(RollingSelector, first_window=4), partial(BestOfBothSelector, rounds=9)]
)
def test_credit_ranks_items_and_among_equals_how_often_they_stood(make):
    learner = make(n_items=5, k=2, budget=FREE, seed=0)
    learner._votes.credit = np.array([0.0, 0.5, 0.0, 0.0, 2.0])
    learner._catalogue.recent = [np.array([2, 3]), np.array([4, 3])]
    assert np.argsort(-learner._ranking(), kind="stable").tolist() == [4, 1, 3, 2, 0]
    learner.add_items([5, 6])
    assert learner._votes.credit.tolist() == [0.0, 0.5, 0.0, 0.0, 2.0, 0.0, 0.0]


# --- Thompson sampling --------------------------------------------------------------------------------


def _thompson(n_items=10, k=2, rounds=None, budget=dc.Budget(2.0), block=10, **options):  # noqa: B008
    return ThompsonSettings.tight(n_items, k, rounds, budget.share(), block=block, **options)


def test_a_sum_of_weights_tells_more_of_those_that_are_less_known():
    belief = Independent(np.array([0.2, 0.5, 0.9]), np.array([0.3, 0.1, 0.4]))
    belief.observe(np.array([0, 1]), 1.0, 0.6)  # .3 more than was believed, with a variance of 1 in all
    assert belief.mean == pytest.approx([0.2 + 0.3 * 0.3, 0.5 + 0.1 * 0.3, 0.9])
    assert belief.variance == pytest.approx([0.3 - 0.3 * 0.3, 0.1 - 0.1 * 0.1, 0.4])
    drawn = belief.draw(np.random.default_rng(0), 0.5)
    normal = np.random.default_rng(0).standard_normal(3)
    assert drawn == pytest.approx([0.29, 0.53, 0.9] + 0.5 * np.sqrt([0.21, 0.09, 0.4]) * normal)


@pytest.mark.parametrize(
    ("options", "mean", "own", "error"),
    [  # noise of variance 2 (.5 / 10)^2 on averages, or 2 (1 / 10)^2 with slots
        ({}, 0.4, 1.5 * 0.4 / 2, 0.24 / 10 + 0.005),
        ({}, 0.9, 1.5 * 0.9 / 2, 0.225 / 10 + 0.005),  # at least a quarter of the mean
        ({}, 3.0, 1.5 / 2, 0.25 / 10 + 0.005),
        ({}, -1.0, 1.5 * 0.03125 / 2, 0.03125 * 0.96875 / 10 + 0.005),  # sqrt(.005 / 8) + .5 / 80
        ({"bound": 4.0, "forget": 0.1}, 0.4, math.sqrt(3.25) * 0.4 / 2, 0.24 / 10 + 0.005),
        ({"feedback": "slots"}, 0.4, 8.0 * 0.4, 0.24 / 10 + 0.02),
    ],
)
def test_how_large_values_are_taken_to_be(options, mean, own, error):
    settings = _thompson(**options)
    values = ItemValues(settings)
    for _ in range(WARM_UP):
        values.observe(np.arange(2, dtype=np.int32), np.full(1, mean))
    assert (values._own, values._error) == (pytest.approx(own), pytest.approx(error))


@pytest.mark.parametrize("feedback", ["set", "slots"])
def test_beliefs_that_begin_with_what_is_known(feedback):
    values = ItemValues(_thompson(4, 2, feedback=feedback, forget=0.5))
    means, deviations = np.array([0.2, 0.4, 0.6, np.nan]), np.array([0.1, 0.2, 0.3, np.nan])
    values.start(np.array([0.2, *[np.nan] * 3]), deviations)
    assert values.believed() is None  # fewer than a set has
    values.start(means, deviations)
    own = 8.0 * 0.4 if feedback == "slots" else math.sqrt(3.25) * (1.2 / 4 * 2) / 2  # a new item adds 0
    posterior = values._posterior
    assert posterior.mean == pytest.approx([0.2, 0.4, 0.6, 4.0 * 0.4 if feedback == "slots" else 0.0])
    assert posterior.variance == pytest.approx([0.01, 0.04, 0.09, own**2])
    found = values.believed()
    assert found[0] == pytest.approx(means, nan_ok=True)
    assert found[1] == pytest.approx(deviations, nan_ok=True)
    posterior.variance[:2] = 0.88 * own**2, 0.92 * own**2
    assert np.isnan(values.believed()[0]).tolist() == [False, True, False, True]
    posterior.variance[:] = own**2
    values._learn(posterior, np.array([0], dtype=np.int32), np.array([1.0]), 0.5)
    left = own**2 * (1.0 - own**2 / (own**2 + values._error / 0.5))  # half of the rounds: twice the error
    assert posterior.variance == pytest.approx([min(left + 0.5 * own**2, own**2), *[own**2] * 3])
    assert posterior.mean[0] == pytest.approx(0.2 + 0.8 * (1.0 - left / own**2))


def test_a_block_some_of_whose_rounds_showed_other_items():
    """Its average is one of the others; below a quarter of the rounds it tells nothing."""
    for skipped, seen in ((0, True), (4, True), (6, True), (7, False)):
        feedback = ThompsonSelector(4, 2, None, FREE, block=8, bound=2.0, seed=0)._sum
        feedback.draw(0)
        with mock.patch.object(ItemValues, "observe") as observed:
            for t in range(8):
                if t < skipped:
                    feedback.skip((0,))
                else:
                    feedback.observe((0,), feedback.units.of(0.5))
        assert observed.called == seen
        if seen:
            _, values, part = observed.call_args.args
            assert (values[0], part) == (pytest.approx(0.25), 1.0 - skipped / 8)


def test_a_part_holds_no_more_than_its_people_have():
    feedback = ThompsonSelector(4, 2, None, PURE, block=8, seed=0)._sum
    most = np.array([3 * feedback.units.most])
    feedback.check(most, 3)
    with pytest.raises(ValueError, match="cannot have"):
        feedback.check(most + 1, 3)


def test_how_many_rounds_thompson_sampling_needs():
    """Variances of .25 / 10 and of 2 (.5 / 10)^2 of a block's average: .03, a hundredth of 3 looks."""
    assert [_thompson(rounds=rounds, bound=3.0).too_short for rounds in (149, 151)] == [True, False]
    assert not _thompson(rounds=1, k=10).too_short
    assert not _thompson(rounds=1, feedback="slots").too_short
    blocks = {
        (epsilon, feedback): _thompson(budget=dc.Budget(epsilon), feedback=feedback, block=None).block
        for epsilon in (0.1, 100.0, 1e-12)
        for feedback in ("set", "slots")
    }
    assert blocks == {
        (0.1, "set"): 300, (0.1, "slots"): 251, (100.0, "set"): 10, (100.0, "slots"): 20,
        (1e-12, "set"): 1 << 30, (1e-12, "slots"): 1 << 30,
    }  # fmt: skip
