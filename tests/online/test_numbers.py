"""What learners make of released numbers, in numbers worked out by hand."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.bounds import bandit as limits
from discreet.constraints.domains import Box
from discreet.evaluation.streams import cuts_and_prices
from discreet.objectives import Coverage, FacilityLocation, SetFunction
from discreet.online import (
    BanditSelector,
    BanditSubmodularMinimizer,
    BestOfBothSelector,
    HedgeSelector,
    LeaderSelector,
    MetaFrankWolfe,
    MetaFrankWolfePoints,
    PhasedSelector,
    RunningSumSelector,
    SubmodularMinimizer,
    ThompsonSelector,
    bandit,
)
from discreet.online.bandit import BanditSettings, RewardUnits, Taken, _block_options, _grid, presampled_rate
from discreet.online.bandit_minimize import HorizonTooShort, SetCosts
from discreet.online.best_of_both import BestOfBothSettings
from discreet.online.minimize import ROUNDING
from discreet.online.pending import Waiting
from discreet.online.phased import PhasedSettings
from discreet.online.released import Released
from discreet.online.rolling import RollingSelector, RollingSettings
from discreet.online.sums import first_batch
from discreet.online.thompson import WARM_UP, Independent, ItemValues, ThompsonSettings

PURE, LOOSE, FREE = dc.Budget(1.0), dc.Budget(1.0, 1e-6), dc.Budget(math.inf)

# --- all of them --------------------------------------------------------------------------------------

SHAPE = (6, 2, 300)
LEARNERS = {
    "hedge": partial(HedgeSelector, *SHAPE, LOOSE, resample_every=20),
    "hedge, exact": partial(HedgeSelector, *SHAPE, LOOSE, resample_every="auto", composition="exact"),
    "hedge, published": partial(HedgeSelector, *SHAPE, LOOSE, calibration="published"),
    "sums": partial(RunningSumSelector, *SHAPE, LOOSE, resample_every="auto"),
    "sums, falling": partial(RunningSumSelector, *SHAPE, LOOSE, rate="falling", weights="norm"),
    "sums, endless": partial(RunningSumSelector, 6, 2, None, LOOSE, rate="falling"),
    "sums, tree": partial(RunningSumSelector, *SHAPE, PURE, sums="tree", noise="laplace"),
    "sums, published": partial(RunningSumSelector, *SHAPE, PURE, calibration="published"),
    "leader": partial(LeaderSelector, *SHAPE, LOOSE),
    "leader, endless": partial(LeaderSelector, 6, 2, None, LOOSE),
    "phased": partial(PhasedSelector, 6, 2, LOOSE),
    "phased, composed": partial(PhasedSelector, 6, 2, LOOSE, rounds=300, method="composed"),
    "rolling": partial(RollingSelector, 6, 2, dc.Budget(3.0), first_window=20),
    "rolling, free": partial(RollingSelector, 6, 2, FREE, first_window=20),
    "bandit": partial(BanditSelector, *SHAPE, PURE),
    "bandit, certified": partial(BanditSelector, *SHAPE, dc.Budget(30.0), rate="certified"),
    "bandit, online": partial(BanditSelector, *SHAPE, LOOSE, exploration="online"),
    "bandit, presampled": partial(BanditSelector, *SHAPE, LOOSE, exploration="presampled"),
    "bandit, published": partial(
        BanditSelector, *SHAPE, LOOSE, exploration="every_round", calibration="published"
    ),
    "bandit, slots": partial(BanditSelector, *SHAPE, PURE, feedback="slots"),
    "thompson": partial(ThompsonSelector, *SHAPE, PURE, block=5),
    "thompson, slots": partial(ThompsonSelector, *SHAPE, PURE, feedback="slots", block=5, forget=0.1),
    "frank-wolfe": partial(
        MetaFrankWolfe, dc.constraints.Cardinality(2, 6), 300, LOOSE, steps=4, resample_every=10
    ),
    "frank-wolfe, laplace": partial(
        MetaFrankWolfe, dc.constraints.Cardinality(2, 6), 300, PURE, steps=4, resample_every=10
    ),
    "minimizer": partial(SubmodularMinimizer, 6, 300, LOOSE),
    "minimizer, pure": partial(SubmodularMinimizer, 6, 300, PURE),
    "minimizer, published": partial(SubmodularMinimizer, 6, 300, LOOSE, calibration="published"),
    "costs": partial(BanditSubmodularMinimizer, 6, 300, PURE, exploration_rate=0.9),
    "costs, tree": partial(BanditSubmodularMinimizer, 6, 300, PURE, form="tree", exploration_rate=0.9),
    "costs, thompson": partial(BanditSubmodularMinimizer, 6, 300, PURE, form="thompson"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", LEARNERS)
def test_the_unit_of_values_does_not_matter(name):
    """Values and their bound four times as large: the same sets, and four times what is certified."""
    likes = np.random.default_rng(0).random((300, 6)) * np.linspace(1.0, 0.3, 6)
    likes[150:] = likes[150:, ::-1]
    people, what = FacilityLocation(np.where(likes > 0.4, likes, 0.0)), "selections"
    if "minimizer" in name or "costs" in name:
        people, what = cuts_and_prices(300, 6, np.random.default_rng(0)), "decisions"
    seen = []
    for bound in (1.0, 4.0):
        learner = LEARNERS[name](bound=bound, seed=1)
        shown = getattr(learner.run(people * bound), what)
        seen.append((shown, learner.certified_regret / bound, learner.privacy.epsilon()))
    assert (seen[0][0] == seen[1][0]).all()
    assert np.unique(seen[0][0], axis=0).shape[0] > 1
    for here, there in zip(*(one[1:] for one in seen), strict=True):
        assert here == pytest.approx(there)


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
    assert kept.share == pytest.approx([0.9, 0.225, 0.063, 0.9])  # item 0 is spent, .045 faint
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


@pytest.mark.parametrize("feedback", ["bandit", "slots"])
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


def test_thompson_sampling_shows_the_best_for_what_is_drawn_and_begins_with_what_is_known():
    known = Released((0, 1), 4, None, np.array([0.4, 1.2, 0.8, 2.0]), 100, np.full(4, 0.2))
    values = ThompsonSelector(4, 2, None, PURE, bound=2.0, start=known, seed=0)._sum._values
    assert values._posterior.mean == pytest.approx([0.2, 0.6, 0.4, 1.0])
    assert values._posterior.root @ values._posterior.root.T == pytest.approx(0.01 * np.eye(4))
    assert len(values._shown) == len(values._values) == WARM_UP
    many = ItemValues(_thompson(3000, 7, feedback="slots"))
    many._posterior = Independent(np.random.default_rng(0).random(3000), np.zeros(3000))
    best = np.argsort(-many._posterior.mean)
    assert many.suggest(np.random.default_rng(0)).tolist() == best[:7].tolist()
    without = np.isin(np.arange(3000), best[:3], invert=True)
    assert many.suggest(np.random.default_rng(0), without).tolist() == best[3:10].tolist()
    assert [_thompson(n, 2, feedback="slots").slot_beliefs for n in (999, 1000)] == [
        (4, 8, 0.15),
        (2, 12, 0.05),
    ]


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
    assert _thompson().bound == 1.0
    assert not _thompson(rounds=1, k=10).too_short
    assert not _thompson(rounds=1, feedback="slots").too_short
    assert list(_thompson(rounds=10, block=4).ends) == [4, 8, 12]
    blocks = {
        (epsilon, feedback): _thompson(budget=dc.Budget(epsilon), feedback=feedback, block=None).block
        for epsilon in (0.1, 100.0, 1e-12)
        for feedback in ("bandit", "slots")
    }
    assert blocks == {
        (0.1, "bandit"): 300, (0.1, "slots"): 251, (100.0, "bandit"): 10, (100.0, "slots"): 20,
        (1e-12, "bandit"): 1 << 30, (1e-12, "slots"): 1 << 30,
    }  # fmt: skip


# --- rewards of what was shown ------------------------------------------------------------------------


def _bandit(n_items=10, k=2, rounds=1000, budget=FREE, **options):
    return BanditSettings.tight(n_items, k, rounds, budget.share(), **options)


def test_rewards_in_units():
    values = RewardUnits.of_step(_bandit(bound=2.0), Fraction(1, 8))
    assert [values.of(one) for one in (0.0, 0.3, 1.99, 2.0)] == [0, 2, 15, 16]
    slots = RewardUnits.of_step(_bandit(bound=2.0, feedback="slots"), Fraction(1, 8))
    shown = (5, 3, 1)
    for value, units in (
        (None, [0, 0, 0]), (3, [0, 16, 0]), (Taken((1, 5)), [8, 0, 8]), ([0.5, 1.0, 0.3], [4, 8, 2]),
        ([1.0, 0.5, 0.5 + 1e-9], [8, 4, 4]), ([0.0, 2.0 + 1e-9, 0.0], [0, 16, 0]),
    ):  # fmt: skip
        assert slots.of(value, shown).tolist() == units
    with pytest.raises(ValueError, match="at most bound=2"):
        slots.of([0.0, 2.0 + 1e-8, 0.0], shown)
    feedback = BanditSelector(4, 2, 10, FREE, feedback="slots", seed=0)._sum
    person = mock.Mock(value=lambda items: {(): 0.25, (3,): 0.75}[tuple(items)])
    assert feedback.simulated_feedback(person, (3, 2), 0.875) == [0.5, 0.125]
    assert feedback.simulated_feedback(person, (3, 2), 0.5) == [0.5, 0.0]  # not monotone


def test_published_numbers_of_bandits_in_any_unit():
    budget, chance, log = dc.Budget(2.0, 1e-3), 0.29, math.log(2 / 1e-3)
    shape = (5, 2, 50, budget.share())
    with mock.patch.object(limits, "published_exploration", return_value=chance):
        online = BanditSettings.published(*shape, exploration="online", bound=3.0, stop_exploring=True)
    assert online.rate == pytest.approx(2.0 / (2 * math.sqrt(32 * 2 * chance * 50 * log) * 3.0))
    assert online.most_explorations == 29  # 2 x .29 x 50 is a little less in floats
    plain = replace(online, stop_exploring=False)
    tail = limits.too_many_explorations(50, chance)
    assert online.unclipped_regret - plain.unclipped_regret == pytest.approx(tail * 150 * (2 - 1 / math.e))
    assert [count for *_, count in plain.releases] == [29, 1]
    assert presampled_rate(2, 7, budget, 3.0) == pytest.approx(2.0 / (2 * math.sqrt(32 * 8 * log) * 3.0))
    alone = BanditSettings.published(1, 1, 50, budget.share(), exploration="online")
    assert alone.exploration_rate == 1.0


def test_what_bandits_release():
    def counts(**options):
        return [count for *_, count in _bandit(budget=PURE, **options).releases]

    assert [counts(rounds=rounds, block=8, repeats=2) for rounds in (7, 8, 9)] == [[], [1], [1]]
    assert [counts(rounds=rounds, block=1, feedback="slots") for rounds in (1, 2)] == [[], [1]]
    drawn = [counts(rounds=rounds, block=4, exploration="presampled") for rounds in (4, 5, 8, 9)]
    assert drawn == [[], [1], [1], [2]]


def test_how_many_rounds_bandits_need():
    """Noise of 3 / 2 on averages of values up to 3: variance .25 / 2 + 2 / 4, a sixteenth of 10 tries."""
    noisy = {"budget": PURE, "block": 8, "repeats": 2, "bound": 3.0}
    assert [_bandit(rounds=rounds, **noisy).too_short for rounds in (799, 801)] == [True, False]
    drawn = {"exploration": "online", "rate": 0.01, "exploration_rate": 0.5, "bound": 4.0}
    assert [_bandit(rounds=rounds, **drawn).too_short for rounds in (999, 1001)] == [True, False]
    assert not _bandit(k=10, rounds=9, exploration="online", rate=0.01, exploration_rate=0.5).too_short
    assert not _bandit(rounds=9, feedback="slots").too_short


def test_the_first_block_of_slots():
    def block(epsilon, rounds):
        return _bandit(50, 5, rounds, dc.Budget(epsilon), feedback="slots", bound=3.0).block

    # Noise of 4 on a count of 1: 32 shows of each item, 5 in a round; an eighth of the rounds at most.
    assert [block(0.5, rounds) for rounds in (10**4, 800, 7)] == [320, 100, 1]
    assert block(100.0, 10**4) == 80


def test_the_blocks_that_are_compared():
    assert _grid(13, 30) == [13, 14, 15, 16, 18, 20, 22, 24, 26, 29, 30]
    asked = BanditSettings(n_items=10, k=2, rounds=1000, bound=3.0)
    for epsilon, rounds, most in ((0.5, 1000, 16), (0.5, 10, 5), (100.0, 1000, 1)):
        share = dc.Budget(epsilon).share()
        found = list(_block_options(replace(asked, rounds=rounds), share, "certified"))
        for times in (1, most):
            lengths = [one.block for one in found if one.repeats == times]
            assert (min(lengths), max(lengths)) == (4 * times, max(rounds, 4 * times))
        assert max(one.repeats for one in found) == most
        for one in found:
            noise = 3.0 / epsilon / one.repeats
            best = math.sqrt(10 * math.log(10) / (max(rounds / one.block, 1.0) * (9 / 8 + noise**2)))
            assert one.rate == pytest.approx(min(best, 2 / 3, 0.5 / noise))
    given = list(_block_options(asked, dc.Budget(0.5).share(), block=5))
    assert [one.repeats for one in given] == [1, 2]  # two experts do not try three times in five rounds
    given[1].check("replace")
    with pytest.raises(ValueError, match="block=3 is too short"):
        replace(given[1], block=3).check("replace")
    drawn = list(_block_options(replace(asked, exploration="presampled"), FREE.share()))
    assert min(one.block for one in drawn) == 2
    for one in drawn:
        samples = max(1000 / one.block, 1.0)
        assert one.rate == pytest.approx(min(math.sqrt(10 * math.log(10) / (samples * 9 / 8)), 2 / 3))
    assert _bandit(200, 10, 40_000, PURE, repeats=3).block == 32 * 10 * 3


@pytest.mark.parametrize(("chance", "rounds", "block"), [(0.3, 10**5, 7), (1.0, 10**5, 2), (0.1, 15, 15)])
def test_rounds_that_explore_by_chance(chance, rounds, block):
    found = _bandit(5, 2, rounds, exploration="online", exploration_rate=chance, bound=3.0)
    best = math.sqrt(5 * math.log(5) / (max(rounds * chance / 2, 1.0) * 9 / 8))
    assert (found.block, found.rate) == (block, pytest.approx(min(best, 2 / 3)))


def _slots(budget=FREE, n_items=3, **options):
    return BanditSelector(
        n_items, 1, 1000, budget, feedback="slots", block=5, bound=2.0, seed=0, **options
    )._sum


def test_records_of_slots():
    feedback = _slots(dc.Budget(4.0))
    assert [feedback._end_of_block(start) for start in (0, 40, 100, 990)] == [5, 45, 110, 1000]
    feedback._open_shows[:] = 0, 7, 0
    feedback._release()  # noise of scale 2 x 2 / 4
    assert (feedback._variance == [0.0, 2.0, 0.0]).all()
    feedback._shows[:], feedback._taken[:] = [0.0, 4.0, 100.0], [0.0, 1.0, 50.0]
    values, people, deviations = feedback.estimates(9)
    common = 51.0 / 104.0
    expected = [np.nan, (1.0 + 200.0 * common) / 204.0, (50.0 + 200.0 * common) / 300.0]
    assert values == pytest.approx(expected, nan_ok=True)
    assert people == 9
    assert deviations == pytest.approx([np.nan, math.sqrt(4.0 + 2.0) / 4.0, 10.0 / 100.0], nan_ok=True)
    feedback._shows[:] = 1.0
    assert feedback.estimates(9)[2] == pytest.approx([1.0, math.sqrt(1.0 + 2.0), 1.0])
    fresh = _slots()
    known = {"values": np.array([3.0, 0.5, np.nan]), "deviations": np.array([0.1, 0.2, np.nan])}
    fresh.start(Released((0,), 3, people=60, **known))
    assert fresh._shows == pytest.approx([60.0, 25.0, 0.0])  # (2 / 2 / .2)^2, and 60 people
    assert fresh._taken == pytest.approx([120.0, 12.5, 0.0])
    assert fresh.current().tolist() == [0]
    fresh.restrict(np.array([False, True, True]))
    assert fresh.current().tolist() == [2]  # whoever is not known is like the average, 132.5 / 85


def test_noise_on_counts_spreads_lists():
    """A mean that is worse by d, from 300 shows with noise: drawn first if d is less than its deviation."""
    feedback = _slots(n_items=2)
    feedback._shows[:], feedback._taken[:], feedback._variance[:] = [1e9, 100.0], [1e9, 40.0], [0.0, 500.0]
    mean = (40.0 + 200.0 * 1.0) / 300.0  # beside a common one of 1
    deviation = 0.35 * math.sqrt(4.0 * mean / 2 * (1 - mean / 2) * 300.0 + 500.0) / 300.0
    for times, first in ((0.97, 0), (1.03, 1)):
        normal = np.array([[0.0, times * (1.0 - mean) / deviation]])
        feedback._public = mock.Mock()
        feedback._public.generator.standard_normal = lambda shape, z=normal: np.tile(z, (shape[0], 1))
        feedback._make_lists(1)
        assert feedback._lists[0, 0] == first
    assert len(feedback._lists) == 4  # up to the end of the block
    feedback._closes = 900
    feedback._make_lists(1)
    assert len(feedback._lists) == 64


def test_a_sample_of_which_a_round_was_skipped_teaches_nothing_in_a_stream_either():
    people = Coverage(np.eye(5)[np.arange(64) % 5])
    fast, slow = (BanditSelector(5, 2, 64, PURE, block=8, repeats=3, rate=0.5, seed=6) for _ in range(2))
    for learner in (fast, slow):
        while not learner._sum.ticket(learner.choose().round):
            learner.learn(0.5)
        learner.skip([learner.round])
    rest = people[fast.round :]
    fast.run(rest)
    for person in rest:
        slow.learn(person.value(slow.choose().items))
    assert (fast._sum._experts.scores == slow._sum._experts.scores).all()
    assert np.count_nonzero(fast._sum._experts.scores) <= 15  # of 16 samples


def test_a_block_that_has_no_end_explores_nothing():
    with mock.patch.object(bandit, "_CHUNK", 4):
        schedule = BanditSelector(5, 2, 10, PURE, block=4, repeats=2, seed=0)._sum.schedule
        explored = []
        for number in range(10):
            schedule.reach(number)
            explored.append(schedule.explore[number - schedule.start])
    assert sorted(explored[:4]) == sorted(explored[4:8]) == [0, 0, 1, 1]
    assert explored[8:] == [-1, -1]
    assert schedule.explore.size == 2


def test_a_stream_spends_nothing_before_a_round_explores():
    learner = BanditSelector(5, 2, 16, PURE, block=16, repeats=2, seed=1)
    for number in range(16):
        learner.run(Coverage(np.eye(5)[:1]))
        explored = learner._sum.schedule.explore[: number + 1]
        assert learner.privacy.spent.epsilon() == float(bool(set(explored.tolist()) - {-1}))
        assert number or explored.tolist() == [-1]


def test_whoever_waits_has_none_of_the_items_that_came_meanwhile():
    waiting = Waiting()
    given = (np.array([1, 2, 3]), np.array([[1, 2, 3], [4, 5, 6]]), Coverage([[1, 0, 1]]))
    for person in (*given, SetFunction(lambda items: float(bool(items)), 3, 1.0)):
        assert not waiting.admits(person)
    waiting.grow(5)
    vector, table, row = (waiting.passed() for _ in range(3))
    assert vector.tolist() == [1, 2, 3, 0, 0]
    assert table.tolist() == [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0]]
    assert [row.value([item]) for item in range(5)] == [1.0, 0.0, 1.0, 0.0, 0.0]
    function = waiting.passed()  # has nothing, and kept the place: nobody behind moves up
    assert [function.value([item]) for item in range(5)] == [0.0] * 5
    assert waiting.passed() is None
    assert waiting.room == 1


# --- windows, batches, and two learners that are compared ---------------------------------------------


def test_exact_picks_that_are_not_paid_for_are_refused():
    share = dc.Budget(1.0, 1e-6).share()
    settings = PhasedSettings.tight(4, 2, share, method="exact")
    settings.check("replace")
    replace(settings, event=replace(settings.event, number=3)).check("replace")
    replace(settings, n_items=2, event=replace(settings.event, number=1)).check("replace")
    for wrong in (
        replace(settings, event=replace(settings.event, number=1)),
        replace(settings, event=replace(settings.event, range=1.0)),
        replace(settings, rate=1.1 * settings.rate),
        replace(settings, keep=1 << 63),
    ):
        with pytest.raises(ValueError, match="not paid for"):
            wrong.check("replace")


def test_how_often_windows_are_charged_and_how_long_they_are():
    def settings(n_items, k, **options):
        return PhasedSettings.tight(n_items, k, PURE.share(), **options)

    charged = [settings(*shape, method="composed").releases for shape in ((9, 4), (4, 4), (1, 1))]
    assert charged == [4, 3, 0]
    assert [settings(*shape, method="subsampled").releases for shape in ((9, 4), (1, 1))] == [1, 0]
    for options, after in (({}, [14, 14]), ({"restart_on_drift": True}, [14, 3]), ({"window": 5}, [5, 5])):
        first = {} if "window" in options else {"first_window": 3}
        assert [settings(9, 4, **first, **options).next_length(7, d) for d in (False, True)] == after
    assert [first_batch(deviation) for deviation in (0.5, 10.1, 1e9)] == [8, 81, 1 << 24]
    learner = PhasedSelector(3, 3, PURE, method="composed", window=2, seed=0)
    learner.run(Coverage(np.eye(3)[[0, 1, 2, 0, 1]]))
    assert learner._window.served == 2
    with pytest.raises(ValueError, match="2 picks of a window were paid for, and 4 items need more"):
        learner.add_items([3])
    larger = PhasedSelector(4, 3, PURE, method="composed", seed=0)
    larger.add_items([4])
    assert larger.n_items == 5


@pytest.mark.parametrize("times", [1, 2])
def test_best_of_both_spends_all_of_its_budget(times):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=times)
    settings = BestOfBothSettings.tight(6, 2, 100, budget.share(), resample_every=4, bound=2.0)
    assert settings.rate == pytest.approx(math.sqrt(8 * math.log(51) / 400) / 2)
    assert settings.odds == pytest.approx(
        max(50.0, math.exp(4 * settings.rate * settings.spec.deviation(settings.event)))
    )
    learner = BestOfBothSelector(6, 2, 100, budget, resample_every=4, bound=2.0, seed=0)
    assert 1.0 - 1e-6 <= learner.privacy.epsilon() <= 1.0


def test_comparisons_of_both_are_exact_in_floats():
    drowned = BestOfBothSettings.tight(6, 2, 100, dc.Budget(1e-6, 1e-9).share())
    assert drowned.odds == math.exp(500.0)  # as large as is safe
    assert replace(drowned, odds=1.5).odds == 1.5
    for every, bits in ((1, 28), ((1 << 25) - 1, 28), (1 << 25, 27), (1 << 26, 26)):
        found = BestOfBothSettings.tight(6, 2, 1 << 30, FREE.share(), resample_every=every)
        assert found.units == 1 << bits
    assert replace(found, odds=9.0).following_regret == pytest.approx(
        math.log(10) / found.rate + found.rate * 2.0**26 * 2.0**30 / 8
    )


# --- Meta-Frank-Wolfe ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (LOOSE, {}), (LOOSE, {"regularizer": "euclidean"}), (LOOSE, {"curvature": True}), (PURE, {}),
        (LOOSE, {"items_per_person": 2, "resample_every": 3}), (LOOSE, {"calibration": "published"}),
    ],
)  # fmt: skip
def test_certificates_of_frank_wolfe_are_in_units_of_the_bound(budget, options):
    made = [
        MetaFrankWolfe(
            dc.constraints.Cardinality(2, 6), 10**4, budget, steps=8, bound=bound, seed=0, **options
        )
        for bound in (1.0, 3.0)
    ]
    regret, noise, epsilon = (
        [get(one) for one in made]
        for get in (
            lambda one: one.settings.least_regret,
            lambda one: one._sum.sum.noise_std(5),
            lambda one: one.privacy.epsilon(),
        )
    )
    assert regret[1] == pytest.approx(3 * regret[0])
    assert noise[1] == pytest.approx(3 * noise[0])
    assert epsilon[1] == pytest.approx(epsilon[0])
    assert made[1].settings.rate == pytest.approx(made[0].settings.rate / 3)


def test_certificates_of_points_by_hand():
    """A box of widths 1 and 3 around (.5, 2.5): |high| = sqrt(17), and half the diagonal is sqrt(10) / 2."""
    box, rounds, steps, longest = Box([0.0, 1.0], [1.0, 4.0]), 10**4, 5, 2.0
    common = {"gradient_bound": longest, "smoothness": 0.3, "steps": steps, "bound": 9.0, "seed": 0}
    made = {
        "gaussian": MetaFrankWolfePoints(box, rounds, LOOSE, **common),
        "batches": MetaFrankWolfePoints(box, rounds, LOOSE, resample_every=4, **common),
        "spherical": MetaFrankWolfePoints(box, rounds, PURE, **common),
    }
    between = rounds * 0.3 * 17 / (2 * steps)
    for name, one in made.items():
        rate = math.sqrt(10) / 2 / (longest * math.sqrt(rounds))  # as without batches
        assert one.settings.rate == pytest.approx(rate)
        batch = one.settings.resample_every
        experts = 10 / 4 / (2 * rate) + rate * batch * longest**2 * rounds / 2
        if name == "spherical":
            levels = math.ceil(math.log2(rounds - 1))
            scale = math.sqrt(2) * longest * steps * levels
            assert float(one.settings.event.scale) == pytest.approx(scale)
            noise = 4 / 2 * scale * math.sqrt(3 * one.settings.spec.most_draws)
            assert one.expert_epsilon == pytest.approx(1 / steps)
        else:
            deviation = one.settings.spec.deviation(one.settings.event)
            noise = 4 / 2 * math.sqrt(2 / math.pi) * deviation
            assert one.expert_epsilon == math.inf
        whole = between + experts + noise
        assert one.settings.certified_regret == pytest.approx(min(whole, (1 - 1 / math.e) * 9 * rounds))
        best = math.sqrt(10) / 2 * longest * math.sqrt(batch * rounds)
        assert one.settings.least_regret == pytest.approx(between + best + noise)


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_published_points_by_hand():
    rounds, steps, epsilon = 10**6, 4, 100.0
    common = {"gradient_bound": 2.0, "smoothness": 0.3, "steps": steps, "bound": 1e6, "seed": 0}
    one = MetaFrankWolfePoints(
        Box([0.0, 0.0], [1.0, 2.0]), rounds, dc.Budget(epsilon), calibration="published", **common
    ).settings
    curvature = math.sqrt(2 * math.log(rounds) ** 2.5 / (epsilon / steps * rounds))
    radius = math.sqrt(5)
    scale = (2.0 + curvature * radius) * (math.ceil(math.log2(rounds)) + 1) / (epsilon / steps)
    assert float(one.event.scale) == pytest.approx(scale)
    error = scale * math.sqrt(2 * 3 * one.spec.most_draws)
    expected = curvature * rounds * 5 / 2 + 2.0 * (1.0 + error) * (1 + math.log(rounds)) / curvature
    expected += 2 * 2.0 * radius + rounds * 0.3 * 5 / (2 * steps)
    assert one.certified_regret == pytest.approx(expected)


def test_units_and_weights_of_frank_wolfe():
    settings = MetaFrankWolfe(
        dc.constraints.Cardinality(2, 6),
        10**6,
        FREE,
        steps=4,
        curvature=True,
        bound=3.0,
        resample_every=2,
        seed=0,
    ).settings
    assert (settings.units, settings.most) == (2.0**30, 3 << 30)  # at most 2^32 to the bound
    assert settings.weights == pytest.approx([0.75**3, 0.75**2, 0.75, 1.0])
    assert settings.discretization(4) == pytest.approx(3.0 * 4 * 10**6 / 8)
    assert settings.longest == pytest.approx(3.0 * math.sqrt(6))
    assert settings.trivial == 3.0 * 10**6
    long = replace(settings, resample_every=1 << 24)
    assert long.units == 2.0**26  # 2^24 people times 2^28 units stay below 2^53


# --- costs of sets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "known"), [(0.5, 0.25 - 0.09), (0.1, 0.009)])
def test_what_is_believed_of_costs(value, known):
    """An error of .1 / 10 + 2 (2 / 10)^2 = .09 on averages; what values are beyond it, or a tenth of it."""
    costs = SetCosts(3, 10, 2.0)
    shown = np.array([1.0, 0.0, 1.0])
    assert costs._features(shown).tolist() == [0, 1, 3, 5]  # anyway, two items, and their pair
    for _ in range(12):
        assert costs._posterior is None
        costs.observe(shown, np.array([value]))
    variances = np.diag([4 * known / 3] * 4 + [4 * known / 3 / 16] * 3)
    one = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    towards = variances @ one
    total = one @ towards + 0.09 / 12
    posterior = costs._posterior
    assert posterior.mean == pytest.approx(towards * value / total, rel=1e-4)
    assert posterior.root @ posterior.root.T == pytest.approx(
        variances - np.outer(towards, towards) / total, rel=1e-3, abs=1e-6
    )
    weights = np.array([0.0, 0.2, 0.3, 0.5, -1.0, 0.0, 0.0])
    assert costs._cheap(weights, None).tolist() == [0.0, 0.0, 0.0]
    assert costs._cheap(weights, shown).tolist() == [1.0, 1.0, 0.0]  # .2 + .3 - 1


def test_rounds_of_a_batch_of_costs():
    for budget, rounds, batch in (
        (dc.Budget(2.0), 10**4, 40), (dc.Budget(2.0), 480, 20), (dc.Budget(2.0), 10, 1),
        (dc.Budget(100.0), 10**4, 10), (FREE, 10**4, 10),
    ):  # fmt: skip
        learner = BanditSubmodularMinimizer(5, rounds, budget, form="thompson", seed=0)
        assert learner.settings.batch == batch


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_published_costs_by_hand(neighbours):
    budget, bound, rounds, gamma = dc.Budget(0.5, 0.0, neighbours), 3.0, 4096, 0.25
    made = BanditSubmodularMinimizer(
        4, rounds, budget, bound, calibration="published", exploration_rate=gamma, seed=0
    ).settings
    assert made.regularization == pytest.approx(3.0 * 256)
    assert float(made.event.scale) == pytest.approx(4 * 3.0 * 4 / 0.5 * 13 / 0.5)
    times = 2 if neighbours == "replace" else 1
    assert float(made.event.sensitivity) == pytest.approx(times * 2 * 3.0 * 5 / gamma)
    tight = BanditSubmodularMinimizer(4, 10**6, budget, bound, seed=0).settings
    assert float(tight.event.scale) == pytest.approx(times * 3.0 / 0.5)
    slope = tight.exploration_rate * 4 * tight.batch
    assert tight.best_regularization(7.0) == pytest.approx(math.sqrt(8 * 10**6 * 7.0 / slope))


def test_where_costs_are_looked_at_for_submodularity():
    """Among few items, among many, and beyond what rounding may do."""
    for grows, refused in (
        (lambda size: min(size, 4) ** 2 / 64, True), (lambda size: max(size - 5, 0) ** 2 / 9, True),
        (lambda size: 3 * ROUNDING * size**2, True), (lambda size: 1.5 * ROUNDING * size**2, False),
    ):  # fmt: skip
        learner = SubmodularMinimizer(8, 10, FREE, check=20, bound=1.0, seed=0)
        learner.choose()
        person = SetFunction(lambda items, grows=grows: grows(len(items)), 8, bound=1.0)
        with pytest.raises(ValueError, match="not submodular") if refused else nullcontext():
            learner.learn(person)


def test_short_horizons_of_trees_say_what_is_needed():
    """One item, two rounds, epsilon 0.01, all rounds exploring: V = (1 + 1)^2 + the cost of the noise.

    An estimate is +2 or -2 at most, so one person moves the only node by 4: Laplace noise of scale 400. A sum
    counts as 1/2 + 2/2 nodes, and a gradient of length 2 meets 400 sqrt(2 * 1.5). V / 32 rounds are needed.
    """
    needed = math.ceil((4.0 + 2.0 * 400.0 * math.sqrt(3.0)) / 32.0)
    with pytest.raises(HorizonTooShort, match=f"at least {needed} rounds are needed"):
        BanditSubmodularMinimizer(1, 2, dc.Budget(0.01), form="tree")
