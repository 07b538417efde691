"""Items that are in from the start, and items that cannot be chosen: the same choice on what is left."""

from __future__ import annotations

import math
import re
import warnings
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

import discreet as dc
from discreet.audit.measures import distribution, hockey_stick
from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Intersection,
    Knapsack,
    PartitionMatroid,
)
from discreet.objectives import Coverage, FacilityLocation, MutualInformation, SetFunction
from discreet.offline import (
    ContinuousGreedy,
    CurvatureGreedy,
    PrivateFeatureSelector,
    PrivateGreedy,
    PrivateItemSelector,
    greedy,
)
from discreet.offline.continuous import Change
from discreet.offline.greedy import Residual
from discreet.privacy import picks as accounts

from . import averaged

NAMES = ("tea", "milk", "jam", "bread", "eggs", "salt")
BUDGET = dc.Budget(2.0, 1e-6)
CHOOSERS = (PrivateGreedy, ContinuousGreedy, CurvatureGreedy)


def crowd(people=300, items=6, seed=0, labels=NAMES):
    rng = np.random.default_rng(seed)
    return Coverage(rng.random((people, items)) < np.linspace(0.5, 0.1, items), labels=labels)


def rest(people, constraint, include, exclude):
    """A slow twin: what people's functions rise by on top of the given items, over the others alone."""
    left = Residual.of(constraint.over(people.n_items), include, exclude)

    def above(person):
        return lambda chosen: person.value(left.items(sorted(chosen))) - person.value(left.included)

    functions = [above(person) for person in people]
    return SetFunction(functions, left.free.size, 1.0, monotone=True), left


# --- what is chosen ------------------------------------------------------------------------------

CONSTRAINTS = {
    "cardinality": Cardinality(3),
    "partition": PartitionMatroid([[0, 1, 2], [3, 4, 5]], 2),
    "graphic": GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (1, 3)]),
    "intersection": Intersection(Cardinality(3), PartitionMatroid([[0, 1, 2], [3, 4, 5]], 2)),
    "knapsack": Knapsack([0.5, 0.1, 0.2, 0.4, 0.3, 0.2], 1.0),
    "knapsack with large items": Knapsack([0.8, 0.1, 0.2, 0.4, 0.7, 0.2], 1.0),
}


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, method) for name in CONSTRAINTS for method in ("basic", "zcdp", "decomposable", "subsampled")]
    + [("cardinality", "exact")],
)
def test_greedy_chooses_as_it_would_on_what_is_left(name, method):
    """The same draws, at the same rates, of the same scores."""
    people = crowd(20)
    twin, left = rest(people, CONSTRAINTS[name], [1], [2])
    delta = 0.0 if method in ("basic", "subsampled") else 1e-3
    for seed in range(2):
        budget = dc.Budget(3.0, delta)
        mine = PrivateGreedy(CONSTRAINTS[name], budget, method, include="milk", exclude="jam", seed=seed)
        chosen = mine.select(people)
        theirs = PrivateGreedy(left.constraint, budget, method, seed=seed)
        wanted = theirs.select(twin)
        assert chosen.items == tuple(left.items(wanted.items))
        assert chosen.included == (1,)
        assert chosen.labels == tuple(NAMES[item] for item in chosen.items)
        assert (mine.rate, str(mine.privacy)) == (theirs.rate, str(theirs.privacy))
        assert mine.ratio == theirs.ratio
        assert mine.certified_loss(20, 6) == theirs.certified_loss(20)


@pytest.mark.parametrize(
    ("kind", "noise"),
    [(ContinuousGreedy, "exponential"), (CurvatureGreedy, "exponential"), (CurvatureGreedy, "gaussian")],
)
@pytest.mark.parametrize("name", ["cardinality", "graphic", "knapsack"])
def test_continuous_greedy_climbs_as_it_would_on_what_is_left(name, noise, kind):
    people = crowd(20)
    twin, left = rest(people, CONSTRAINTS[name], [1], [2])
    budget = dc.Budget(3.0, 1e-3)
    options = {"steps": 2, "noise": noise, "seed": 1}
    mine = kind(CONSTRAINTS[name], budget, include=["milk"], **options)
    chosen = mine.select(people, exclude=["jam"])
    theirs = kind(left.constraint, budget, **options)
    wanted = theirs.select(twin)
    assert chosen.items == tuple(left.items(wanted.items))
    assert np.allclose(mine.point_, left.point(theirs.point_))
    assert mine.point_[1] == 1.0
    assert mine.point_[2] == 0.0
    assert str(mine.privacy) == str(theirs.privacy)
    assert mine.certified_loss(20, 6) == theirs.certified_loss(20)
    again = kind(CONSTRAINTS[name], budget, include=["milk"], exclude=["jam"], **options)
    assert np.array_equal(again.fractional(people), mine.point_)


def test_the_printed_algorithm_climbs_on_what_is_left_as_well():
    people = crowd(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selector = CurvatureGreedy(
            3, dc.Budget(1.0), 2, "laplace", calibration="published", guess=0.0, seed=0
        )
        chosen = selector.select(people, include=["salt"], exclude=["tea"])
    assert chosen.items[0] == 5
    assert 0 not in chosen
    assert len(chosen) <= 3


# --- what is paid ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHOOSERS)
def test_where_nothing_is_left_to_choose_nothing_is_spent(kind):
    people = crowd()
    full = kind(2, BUDGET, include=["tea", "jam"]).select(people)
    assert full.items == full.included == (0, 2)
    few = kind(3, BUDGET, include=["jam"], exclude=["tea", "milk", "bread", "eggs"]).select(people)
    assert few.items == (2, 5)
    assert few.labels == ("jam", "salt")
    some = kind(4, BUDGET, exclude=["tea", "milk", "bread", "eggs"]).select(people)
    assert some.items == (2, 5)
    for chosen in (full, few, some):
        assert chosen.privacy.epsilon() == 0.0
        assert chosen.queries == 0 or kind is not PrivateGreedy
    assert kind(2, BUDGET, include=["tea", "jam"]).certified_loss(300, 6) == 0.0


def test_gains_are_on_top_of_what_is_given():
    people = crowd()
    greedy = PrivateGreedy(3, dc.Budget(math.inf), "basic", include=["tea"], release_gains=0.5)
    chosen = greedy.select(people)
    assert math.isnan(chosen.gains[0])
    values = [300 * people.value(chosen.items[:size]) for size in (1, 2, 3)]
    assert chosen.gains[1:] == pytest.approx(np.diff(values))
    html = chosen._repr_html_()
    assert "tea (given)" in html
    assert "2 chosen, 1 given" in html
    noisy = PrivateGreedy(3, BUDGET, include=["tea"], release_gains=0.5, seed=0).select(people)
    assert noisy.privacy.epsilon() <= 2.0
    assert np.isfinite(noisy.gains[1:]).all()


# --- what one person can change --------------------------------------------------------------------

SMALL = {
    "cardinality": Cardinality(3),
    "partition": PartitionMatroid([[0, 1, 2], [3, 4]], [2, 1]),
    "knapsack with a large item": Knapsack([0.3, 0.6, 0.3, 0.2, 0.4], 1.0),
}
# One person likes what is included and one of the items that are left, or all the others.
ONE, REST = np.array([[1.0, 1, 0, 0, 0], [0.0, 0, 1, 1, 1]]), np.array([[0.0, 1, 1, 0, 0]])


def excess(constraint, budget, kind=PrivateGreedy, include=(0,), exclude=(4,), rows=(REST, ONE), **options):
    """Largest delta beyond the account's between neighbours, by enumeration of all that can be published."""
    others, one = rows
    first = np.vstack([others, one[:1]])
    second = others if budget.neighbours == "add_remove" else np.vstack([others, one[1:]])
    seen = []

    def play(matrix):
        given = list(include(matrix) if callable(include) else include)
        selector = kind(
            constraint, budget, max_people=8, include=given, exclude=list(exclude), seed=0, **options
        )
        with mock.patch.object(PrivateGreedy, "_warn"):
            published = (
                selector.select(Coverage(matrix)).items
                if kind is PrivateGreedy
                else tuple(selector.fractional(Coverage(matrix)).tolist())
            )
        seen.append(selector.privacy)
        return published

    p, q = (distribution(lambda matrix=matrix: play(matrix)) for matrix in (first, second))
    return max(hockey_stick(p, q, epsilon) - seen[0].delta(epsilon) for epsilon in (0.0, 0.5, budget.epsilon))


NEIGHBOURS = ("replace", "add_remove")


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("method", ["basic", "zcdp", "decomposable", "subsampled"])
@pytest.mark.parametrize("name", SMALL)
def test_all_that_can_be_published_is_as_likely_as_the_account_says(name, method, neighbours):
    budget = dc.Budget(1.5, 0.0 if method in ("basic", "subsampled") else 1e-2, neighbours)
    assert excess(SMALL[name], budget, method=method) <= 1e-9


@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
@pytest.mark.parametrize("name", ["cardinality", "partition"])
def test_all_points_are_as_likely_as_the_account_says(name, kind):
    for neighbours in NEIGHBOURS:
        assert excess(SMALL[name], dc.Budget(1.5, 0.0, neighbours), kind, steps=1) <= 1e-9


def louder(account, factor=2.5):
    """The injected fault: a rate that the account does not know of."""

    def changed(*arguments):
        picks = account(*arguments)
        return accounts.Picks(picks.method, picks.rate * factor, picks.event, picks.count, picks.keep)

    return changed


# One of eleven items, beside two that are given: between somebody who likes it alone and nobody.
WIDE = (np.zeros((1, 13)), np.eye(13)[[1, 2]])
ONE_WAY = dc.Budget(1.0, 0.0, "add_remove")


@pytest.mark.parametrize("method", ["basic", "subsampled"])
def test_the_enumeration_sees_a_rate_that_is_not_paid_for(method):
    options = {"method": method, "include": (0, 12), "rows": WIDE}
    assert excess(Cardinality(3), ONE_WAY, **options) <= 1e-9
    with mock.patch.object(accounts, method, louder(getattr(accounts, method))):
        assert excess(Cardinality(3), ONE_WAY, **options) > 1e-3


def test_the_enumeration_sees_a_sample_of_everybody():
    def everybody(share, bound):
        picks = original(share, bound)
        return accounts.Picks(picks.method, picks.rate, picks.event, picks.count, (1 << 64) - 1)

    original = accounts.subsampled
    with mock.patch.object(accounts, "subsampled", everybody):
        worst = excess(Cardinality(3), ONE_WAY, method="subsampled", include=(0, 12), rows=WIDE)
    assert worst > 1e-3


@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
def test_the_enumeration_sees_half_the_range_of_a_gradient(kind):
    def halved(*arguments):
        found = original(*arguments)
        return Change(found.entry, found.range / 2.0, found.l1, found.l2, found.changed)

    original, options = Change.of_sum, {"steps": 1, "include": (0, 12), "rows": WIDE}
    assert excess(Cardinality(3), ONE_WAY, kind, **options) <= 1e-9
    with mock.patch.object(Change, "of_sum", halved):
        assert excess(Cardinality(3), ONE_WAY, kind, **options) > 1e-3


def test_the_enumeration_sees_weights_above_one():
    """Costs weigh gains by at most 1 over the items that are left, whatever they cost beside the others."""

    def whole(constraint):
        found = original(constraint)
        return None if found is None else type(found)(**{**vars(found), "weights": found.weights * 4.0})

    original, bag = greedy.costs_of, Knapsack([0.0, *[0.4] * 6, 0.0], 0.9)
    options = {"method": "basic", "include": (0, 7), "rows": (np.zeros((1, 8)), np.eye(8)[[1, 2]])}
    assert excess(bag, ONE_WAY, **options) <= 1e-9
    with mock.patch.object(greedy, "costs_of", whole):
        assert excess(bag, ONE_WAY, **options) > 1e-3


@pytest.mark.parametrize("method", ["basic", "decomposable", "subsampled"])
def test_the_enumeration_sees_a_start_that_was_read_off_the_people(method):
    """Only public items may be included: what people like most is not."""
    budget = dc.Budget(1.5, 1e-2 if method == "decomposable" else 0.0)

    def favourite(matrix):
        return [int(matrix[:, :4].sum(axis=0).argmax())]

    assert excess(SMALL["cardinality"], budget, method=method, include=favourite) > 0.1


class Refunded(greedy.OnTop):
    """The injected fault: the start gives people back what they have used up, and once more."""

    def __init__(self, inner, left):
        super().__init__(inner, left)
        inner._left += 2.0 * inner._high


def test_what_a_person_gave_to_the_start_is_gone():
    """A function that exceeds its bound along the picks is held to it, the start included."""

    def greedy_one(chosen):
        return min(1.0, 0.8 * len(chosen))

    class Growing(SetFunction):
        """Gains of 0.8 for every item, whatever is there: 3.2 for four."""

        def _gains(self, items):
            del items
            return np.full(self.n_items, 0.8)

    people = Growing([greedy_one], 4, 1.0, monotone=True)
    selector = PrivateGreedy(4, dc.Budget(1.0), max_people=8)
    question = selector._problem(Residual.of(Cardinality(4, n_items=4), [0]), 1, people)
    held = question.scores(people)
    assert sum(held.add(item) for item in range(3)) <= 0.2 + 1e-6
    with mock.patch.object(greedy, "OnTop", Refunded):
        refunded = question.scores(people)
    assert sum(refunded.add(item) for item in range(3)) > 1.0


def test_information_is_charged_for_sets_with_the_given_features():
    """One row moves the information of five features further than that of two: the given ones count."""
    rng = np.random.default_rng(0)
    people = MutualInformation(rng.integers(0, 2, (500, 6)), rng.integers(0, 2, 500))
    selector = PrivateGreedy(2, dc.Budget(1.0))
    given = selector._problem(Residual.of(Cardinality(5, n_items=6), [0, 1, 2]), 500, people)
    plain = selector._problem(Residual.of(Cardinality(2, n_items=6)), 500, people)
    assert given.picks == plain.picks == 2
    assert given.width == pytest.approx(people.sensitivity("replace", "range", set_size=5))
    assert given.width > plain.width
    chosen = PrivateGreedy(5, dc.Budget(50.0), bound=people.bound, include=[0, 1, 2], seed=0).select(people)
    assert chosen.items[:3] == (0, 1, 2)
    big = MutualInformation(rng.integers(0, 9, (60, 9)), rng.integers(0, 2, 60), n_values=9)
    with pytest.raises(ValueError, match="the joint table of 8 features"):
        PrivateGreedy(8, BUDGET, bound=big.bound, include=range(6)).select(big)


# --- how items are named ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHOOSERS)
def test_labels_numbers_and_selections(kind):
    people = crowd()
    first = kind(1, BUDGET, seed=0).select(people)
    for include in (first, first.labels, first.items, first.labels[0], np.array(first.items)):
        chosen = kind(2, BUDGET, include=include, seed=1).select(people)
        assert chosen.included == first.items
    both = kind(3, BUDGET, include=["jam", "jam", 2], seed=1).select(
        people, include=["tea"], exclude=[1, "eggs"]
    )
    assert both.included == (2, 0)
    assert not {1, 4} & set(both.items)
    unnamed = crowd(labels=None)
    assert kind(2, BUDGET, include=5, exclude=[0], seed=1).select(unnamed).included == (5,)
    ids = crowd(labels=(11, 12, 13, 14, 15, 16))
    chosen = kind(2, BUDGET, include=[16], exclude=[11], seed=1).select(ids)
    assert chosen.labels[0] == 16
    assert 11 not in chosen.labels


@pytest.mark.parametrize("kind", CHOOSERS)
@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"include": ["te"]}, ValueError, "include holds 'te', which is not an item; did you mean 'tea'?"),
        (
            {"exclude": ["milkk"]},
            ValueError,
            "exclude holds 'milkk', which is not an item; did you mean 'milk'?",
        ),
        ({"exclude": [6]}, ValueError, "exclude holds 6, which is not an item; items are 0 to 5"),
        ({"exclude": 0.5}, TypeError, "exclude must be a list of items, by label or by number, got 0.5"),
        ({"exclude": [["tea"]]}, TypeError, "an item is named by its label or its number"),
        ({"include": ["tea"], "exclude": [0]}, ValueError, "include and exclude both hold 'tea'"),
        (
            {"include": NAMES[:3]},
            ValueError,
            "include holds 'tea', 'milk', 'jam', which Cardinality(2, n_items=6)",
        ),
        ({"exclude": NAMES}, ValueError, "there is nothing to choose"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(kind, options, error, said):
    gate = dc.Gate(BUDGET, 0)
    with pytest.raises(error, match=re.escape(said)):
        kind(2, gate, **options).select(crowd())
    assert gate.spent.epsilon() == 0.0


def test_plans_and_certificates_know_of_given_items_before_there_are_people():
    plain = PrivateGreedy(3, BUDGET, "basic")
    given = PrivateGreedy(3, BUDGET, "basic", include=["tea"], exclude=["jam"])
    assert given.plan(100).picks.count == 2
    assert given.certified_loss(10_000, 100) < plain.certified_loss(10_000, 100)
    with pytest.raises(ValueError, match="include and exclude hold 2 items; there are n_items=1"):
        PrivateGreedy(1, BUDGET, include=["tea"], exclude=["jam"]).plan(1)
    bag = PrivateGreedy(Knapsack([0.5, 0.1, 0.2], 0.6), BUDGET, include=[1])
    assert bag.ratio != PrivateGreedy(Knapsack([0.5, 0.1, 0.2], 0.6), BUDGET).ratio
    with pytest.raises(TypeError, match="as these items have no labels"):
        PrivateGreedy(Knapsack([0.5, 0.1, 0.2], 0.6), BUDGET, include=["tea"]).plan()


# --- estimators ------------------------------------------------------------------------------------


def table(people=400):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, people)
    noise = rng.normal(0, 0.1, (people, 4))
    return np.clip(0.5 + np.outer(y - 0.5, [0, 1, 0.5, 0.3]) + noise, 0, 1), y


@pytest.mark.parametrize("objective", ["covariance", "threshold", "mutual_information"])
def test_features_that_are_given_or_ruled_out(objective):
    pandas = pytest.importorskip("pandas")
    X, y = table()
    frame = pandas.DataFrame(X, columns=["noise", "best", "good", "fair"])
    options = {"bounds": (0, 1), "classes": [0, 1], "objective": objective, "bins": 2, "random_state": 0}
    for names, data in ((["noise"], frame), ([0], X)):
        chosen = PrivateFeatureSelector(2, 1e4, include=names, exclude=1, **options).fit(data, y)
        assert chosen.selection_.items == (0, 2)
        assert chosen.selection_.included == (0,)
        assert chosen.get_support().tolist() == [True, False, True, False]
    assert chosen.privacy_.epsilon() == pytest.approx(1e4)
    forced = PrivateFeatureSelector(3, 1.0, include=[0], exclude=[1], **options).fit(X, y)
    assert forced.selection_.items == (0, 2, 3)
    full = PrivateFeatureSelector(1, 1.0, include=[3], **options).fit(X, y)
    assert full.selection_.items == (3,)
    assert forced.privacy_.epsilon() == full.privacy_.epsilon() == 0.0
    for given, said in (
        ({"include": ["bst"]}, "include holds 'bst', which is not an item; did you mean 'best'?"),
        ({"include": [0], "exclude": ["noise"]}, "include and exclude both hold 'noise'"),
        ({"include": [0, 1, 2]}, "does not allow together"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            PrivateFeatureSelector(2, 1.0, **given, **options).fit(frame, y)


def test_features_are_picked_as_if_the_others_were_not_there():
    X, y = table(60)
    options = {"bounds": (0, 1), "classes": [0, 1], "objective": "covariance", "random_state": 3}
    for epsilon in (0.5, 2.0):
        mine = PrivateFeatureSelector(2, epsilon, include=[0], exclude=[1], **options).fit(X, y)
        theirs = PrivateFeatureSelector(1, epsilon, **options).fit(X[:, 2:], y)
        assert mine.selection_.items == (0, 2 + theirs.selection_.items[0])
        assert str(mine.privacy_) == str(theirs.privacy_)


@pytest.mark.parametrize("objective", ["covariance", "threshold", "mutual_information"])
def test_candidates_alone_can_be_features(objective):
    pandas = pytest.importorskip("pandas")
    X, y = table()
    frame = pandas.DataFrame(X, columns=["noise", "best", "good", "fair"])
    options = {"bounds": (0, 1), "classes": [0, 1], "objective": objective, "bins": 2, "random_state": 0}
    chosen = PrivateFeatureSelector(1, 1e4, candidates=["noise", "fair"], **options).fit(frame, y)
    assert chosen.selection_.items == (3,)
    chosen = PrivateFeatureSelector(2, 1e4, candidates=[2, 3], include=[0], **options).fit(X, y)
    assert chosen.selection_.items == (0, 2)
    forced = PrivateFeatureSelector(2, 1.0, candidates=[0, 3], **options).fit(X, y)
    assert set(forced.selection_.items) == {0, 3}
    assert forced.privacy_.epsilon() == 0.0
    with pytest.raises(ValueError, match=re.escape("candidates holds 'bst', which is not an item; did you")):
        PrivateFeatureSelector(1, 1.0, candidates=["bst"], **options).fit(frame, y)


def test_candidates_alone_can_be_columns():
    X = np.random.default_rng(0).random((200, 6)) < [0.9, 0.5, 0.5, 0.2, 0.1, 0.1]
    chosen = PrivateItemSelector(1, 50.0, candidates=[3, 4], random_state=0).fit(X)
    assert chosen.selection_.items == (3,)
    alone = PrivateItemSelector(1, 0.5, random_state=0).fit(X[:, 3:5])
    both = PrivateItemSelector(1, 0.5, candidates=[3, 4], random_state=0).fit(X)
    assert both.selection_.items[0] == 3 + alone.selection_.items[0]
    assert str(both.privacy_) == str(alone.privacy_)


def test_columns_that_are_given_or_ruled_out():
    X = np.random.default_rng(0).random((200, 6)) < 0.4
    chosen = PrivateItemSelector(3, 2.0, include=[5], exclude=[0], random_state=0).fit(X)
    assert chosen.selection_.items[0] == 5
    assert 0 not in chosen.selection_
    assert clone(chosen).get_params()["include"] == [5]


@pytest.mark.parametrize("kind", CHOOSERS)
def test_without_privacy_it_is_greedy_on_what_is_left(kind):
    people = crowd()
    chosen = kind(3, dc.Budget(math.inf), include=["salt"], exclude=["tea", "milk"]).select(people)
    best, items = [5], [2, 3, 4]
    for _ in range(2):
        best.append(max((i for i in items if i not in best), key=lambda i: people.value([*best, i])))
    assert sorted(chosen.items) == sorted(best)
    assert chosen.items[0] == 5


def test_only_picks_that_are_made_are_paid_for():
    people = crowd()
    budget = dc.Budget(1.0)
    rates = []
    for include in ([], ["salt"], ["salt", "eggs"]):
        greedy = PrivateGreedy(3, budget, "basic", seed=0, include=include)
        assert len(greedy.select(people)) == 3
        assert sum(greedy.privacy.ledger.counts.values()) == 3 - len(include)
        assert greedy.privacy.epsilon() == pytest.approx(1.0)
        rates.append(greedy.rate)
    assert rates[0] < rates[1] < rates[2]


def test_a_knapsack_of_averages_is_summed_exactly_beside_given_items():
    """What the picks add is then no average by itself; see `PrivateGreedy._by_average`."""
    rng = np.random.default_rng(0)
    people = averaged(rng.random((30, 4)) * 0.25)
    bag = Knapsack([0.1, 0.6, 0.3, 0.2], 1.0)
    for include in ([], [0]):
        greedy = PrivateGreedy(bag, dc.Budget(1.0), "basic", include=include, seed=0)
        assert len(greedy.select(people)) >= 1


def test_other_families_start_from_given_items():
    rng = np.random.default_rng(0)
    people = FacilityLocation(rng.random((50, 5)))
    chosen = PrivateGreedy(3, dc.Budget(math.inf), include=[4], exclude=[0]).select(people)
    assert chosen.items[0] == 4
    second = max((1, 2, 3), key=lambda item: people.value([4, item]))
    assert chosen.items[1] == second


def test_candidates_alone_are_chosen_from():
    """The same as excluding all others: transcripts, certificate and account; included ones stay in."""
    rng = np.random.default_rng(3)
    people = Coverage(rng.random((200, 8)) < 0.3, labels=list("abcdefgh"))
    for more in ({}, {"include": ["g"]}, {"exclude": ["b"]}):
        few = PrivateGreedy(3, dc.Budget(1.0), candidates=list("abch"), seed=4, **more)
        others = {*"defg"} - {*more.get("include", ())}
        same = PrivateGreedy(3, dc.Budget(1.0), seed=4, include=more.get("include"),
                             exclude=[*others, *more.get("exclude", ())])  # fmt: skip
        assert few.certified_loss(200, 8) == same.certified_loss(200, 8)
        chosen = few.select(people)
        assert chosen.items == same.select(people).items
        assert {*chosen.labels} <= {*"abch"} | {*more.get("include", ())}
        assert few.privacy.epsilon() == same.privacy.epsilon()
    with pytest.raises(ValueError, match="candidates"):
        PrivateGreedy(3, dc.Budget(1.0), candidates=["nothing"]).select(people)
    fewer = PrivateGreedy(3, dc.Budget(0.2), candidates=range(4)).certified_loss(200, 8)
    assert fewer < PrivateGreedy(3, dc.Budget(0.2)).certified_loss(200, 8)
    fractional = ContinuousGreedy(3, dc.Budget(1.0, 1e-6), candidates=[0, 1, 2, 7], seed=0).select(people)
    assert {*fractional.items} <= {0, 1, 2, 7}
