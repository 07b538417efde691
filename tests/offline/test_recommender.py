"""PrivateRecommender: how far one person moves what is released, what follows from it, and what it holds."""

from __future__ import annotations

import itertools
import json
import math
import sys
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dc
from discreet import personal
from discreet.audit import measures, settings
from discreet.constraints import Knapsack, PartitionMatroid
from discreet.kernels.pairs import UNIT, add_unit_pairs, add_units
from discreet.objectives import Coverage, GraphCut, ProbabilisticCoverage
from discreet.offline import PrivateRecommender, recommender
from discreet.personal import (
    Factors,
    PairPlan,
    Recommender,
    movement,
    pair_sums,
    places_of,
    unit_sums,
    word_features,
)

BUDGET, ALONE, FREE = dc.Budget(1.0, 1e-6), dc.Budget(1.0, 1e-6, "add_remove"), dc.Budget(math.inf)
VALUES = (0.0, 0.5, 1.0)


def tastes(people=4000, clusters=3, own=4, seed=0):
    """People of some clusters, each of whom likes most of the items of theirs."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.eye(clusters), own, axis=1)[rng.integers(clusters, size=people)]
    return (rows * (rng.random(rows.shape) < 0.7)).astype(float)


def unit_rows(rows, kept=None):
    """What each row adds to the sums, in units, one by one."""
    people = ProbabilisticCoverage(rows)
    place = personal.everywhere(rows.shape[1]) if kept is None else places_of(kept, rows.shape[1])
    size = rows.shape[1] if kept is None else kept.size
    one, found = np.ones(1, dtype=np.bool_), np.zeros((len(rows), size), dtype=np.int64)
    for i in range(len(rows)):
        add_units(people.as_rows().sparse.view, i, one, place, 1, found[i])
    return found


# --- how far one person moves a sum -------------------------------------------------------------------


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 5])
def test_nobody_moves_a_release_further_than_is_declared(n_items):
    """All rows of up to five items: popularity, pairs of any kept items, and both joined."""
    rows = np.array(list(product(VALUES, repeat=n_items)))
    several = [
        np.array(kept) for size in range(1, n_items + 1) for kept in combinations(range(n_items), size)
    ]
    for kept in several:
        units = unit_rows(rows, kept)
        popularity = units @ units.T  # whole numbers: products of two people's vectors
        lengths = popularity.diagonal()
        assert lengths.max() <= UNIT**2
        assert units.min() >= 0
        weights = {"popularity": (0, 1), "pairs": (1, 0), "joined": (243 / 256, 80 / 256)}
        for a, b in weights.values():
            # <(a uu', b u), (a ww', b w)> = a^2 <u, w>^2 + b^2 <u, w>
            inner = popularity / UNIT**2
            dots = a**2 * inner**2 + b**2 * inner
            long = dots.diagonal()
            apart = np.sqrt(np.maximum(long[:, None] + long[None, :] - 2.0 * dots, 0.0))
            assert np.sqrt(long.max()) <= movement("add_remove", kept.size)
            assert apart.max() <= movement("replace", max(2, kept.size))
            if kept.size > 1:
                assert apart.max() > 1.41  # and it is reached


def test_sums_are_those_of_a_slow_twin():
    """floor(4096 x / |x|) in exact arithmetic; floats may lose one unit where that is a whole number."""
    rows = np.array(list(product((0, 1, 2), repeat=4)))
    for row, found in zip(rows, unit_rows(rows / 2.0), strict=True):
        squares = int((row**2).sum())
        exact = [math.isqrt(UNIT**2 * int(x) ** 2 // squares) if squares else 0 for x in row]
        assert (np.array(exact) - found).min() >= 0
        assert (np.array(exact) - found).max() <= 1
    people = ProbabilisticCoverage(rows / 2.0)
    units = unit_rows(rows / 2.0)
    assert (unit_sums(people) == units.sum(axis=0)).all()
    kept = np.array([0, 2, 3])
    some = unit_rows(rows / 2.0, kept)
    assert (pair_sums(people, kept) == np.einsum("pi,pj->ij", some, some)).all()


@pytest.mark.parametrize("seed", range(4))
def test_rounding_never_makes_anybody_longer_than_1(seed):
    rng = np.random.default_rng(seed)
    rows = rng.random((300, 40)) ** rng.choice([1, 20, 200], size=(300, 1))
    rows *= rng.random(rows.shape) < rng.random((300, 1))
    rows[0], rows[1], rows[2] = 1.0, 1e-300, 0.0
    units = unit_rows(rows)
    assert (units**2).sum(axis=1).max() <= UNIT**2
    assert (units[2] == 0).all()
    assert (units[0] == units[1]).all()  # only the direction counts


def test_places_outside_of_the_sums_are_refused():
    view = Coverage([[1, 1]]).as_rows().sparse.view
    one = np.ones(1, dtype=np.bool_)
    for place in ([0, 2], [-2, 0], [0]):
        with pytest.raises(ValueError, match="place"):
            add_units(view, 0, one, np.array(place, dtype=np.int32), 1, np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="fewer people"):
        add_units(view, 1, one, np.arange(2, dtype=np.int32), 1, np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="square"):
        add_unit_pairs(view, 0, one, np.arange(2, dtype=np.int32), 1, np.zeros((2, 3), dtype=np.int64))


# --- what goes through the gate -----------------------------------------------------------------------


@pytest.fixture
def left(monkeypatch):
    """What leaves through a gate: label, values, noise and sensitivity."""
    heard, honest = [], dc.Gate.gaussian

    def gaussian(self, values, sigma, sensitivity, **options):
        heard.append((options["label"], np.array(values), float(sigma), float(sensitivity)))
        return honest(self, values, sigma, sensitivity, **options)

    monkeypatch.setattr(dc.Gate, "gaussian", gaussian)
    return heard


@pytest.mark.parametrize("budget", [BUDGET, ALONE])
def test_the_gate_sees_exactly_these_releases(left, budget):
    people = Coverage(tastes())
    model = PrivateRecommender(budget, seed=0).fit(people)
    counted = [] if budget is BUDGET else ["number of people"]
    assert [label for label, *_ in left] == [*counted, "popularity of items", "pairs of items"]
    assert (left[-2][1] * UNIT == unit_sums(people)).all()
    kept = np.arange(12)
    assert (left[-1][1].reshape(12, 12) * UNIT**2 == pair_sums(people, kept)).all()
    if counted:
        assert left[0][1] == 4000
        assert left[0][3] == pytest.approx(1.0)
    moves = math.sqrt(2.0) if budget is BUDGET else 1.0
    for _, _, sigma, sensitivity in left[-2:]:
        assert moves <= sensitivity <= moves * (1 + 1e-12)
        assert sigma > 0
    spent = sum((sensitivity / sigma) ** 2 for _, _, sigma, sensitivity in left)
    assert spent == pytest.approx(budget.mu**2, rel=1e-9)
    assert model.privacy.epsilon(budget.delta) <= 1.0
    assert len(list(model.privacy.ledger.entries())) == len(left)


def case(words, neighbours="replace"):
    return next(
        one
        for one in settings.cases()
        if one.name == "PrivateRecommender" and one.setting == words and one.budget.neighbours == neighbours
    )


def excess(one):
    """By how much the worst of a few neighbours exceeds the account; infinite where one is seen past it."""
    pair = one._worst(one._searched(), 40)
    return one.compare(pair)[1]


def test_no_account_is_exceeded():
    assert excess(case("pairs of 3 items")) == 0.0
    assert excess(case("pairs of 3 items", "add_remove")) == 0.0
    assert excess(case("pairs of 3 items, people counted", "add_remove")) == 0.0


def test_a_forgotten_root_of_two_is_noticed(monkeypatch):
    monkeypatch.setattr(recommender, "movement", lambda *_: 1.0)
    assert excess(case("pairs of 3 items")) > 0.0
    assert excess(case("pairs of 3 items", "add_remove")) == 0.0  # where it is 1


def test_popularity_scaled_by_kept_items_is_noticed(monkeypatch):
    """A person's other items would make their vector longer than 1."""

    def wrong(people):
        rows = people.as_rows().sparse.toarray()
        kept = np.linalg.norm(rows[:, :1], axis=1, keepdims=True)
        whole = np.linalg.norm(rows, axis=1, keepdims=True)
        length = np.where(kept > 0, kept, np.where(whole > 0, whole, 1.0))
        return np.floor(UNIT * rows / length).astype(np.int64).sum(axis=0)

    monkeypatch.setattr(recommender, "unit_sums", wrong)
    assert excess(case("pairs of 3 items")) > 0.0


def test_the_true_number_of_people_is_noticed_where_it_is_private(monkeypatch):
    def wrong(_, crowd):
        return float(len(crowd)), 1

    for words in ("pairs of 3 items", "pairs of 3 items, people counted"):
        one = case(words, "add_remove")
        pair = one._worst(one._searched(), 40)
        with monkeypatch.context() as patched:
            patched.setattr(PrivateRecommender, "_count", wrong)
            assert one.compare(pair)[1] > 0.0


def scripted(monkeypatch):
    """Releases that do not depend on anybody."""

    def gaussian(self, values, sigma, sensitivity, *, label, **_):
        self.reserve(dc.privacy.GaussianNoise(sensitivity, sigma), label=label)
        size = np.size(values)
        drawn = np.random.default_rng(size).normal(0.0, 300.0, size)
        return 4000.0 if np.ndim(values) == 0 else np.abs(drawn)

    monkeypatch.setattr(dc.Gate, "gaussian", gaussian)


@pytest.mark.parametrize("budget", [BUDGET, ALONE])
def test_of_equal_releases_the_same_file_follows_whoever_was_there(monkeypatch, budget):
    """Replace somebody, with the same noise: the model, and so everybody else's set, is the same."""
    scripted(monkeypatch)
    rows = tastes()
    others = rows.copy()
    others[7] = 1.0 - others[7]
    if budget is ALONE:
        others = np.delete(others, 7, axis=0)
    files = [PrivateRecommender(budget, seed=0).fit(Coverage(one)).to_bytes() for one in (rows, others)]
    assert files[0] == files[1]


def _numbers_in(content, numbers):
    """Which of these numbers stand in a file, as floats or whole numbers of 64 bits."""
    found = np.asarray(numbers, dtype=np.float64)
    found = found[found != 0.0]
    whole = found == np.floor(found)
    as_bytes = [one.tobytes() for one in found] + [np.int64(one).tobytes() for one in found[whole]]
    return [one for one in as_bytes if one in content]


def test_a_file_holds_no_true_sum(tmp_path):
    rows = tastes()
    rows[5] = [0.3, 0.0, 0.7, 0.0, 0.0, 0.11, 0.0, 0.0, 0.0, 0.13, 0.0, 0.0]  # as nobody else has
    people = ProbabilisticCoverage(rows)
    sums, pairs = unit_sums(people), pair_sums(people, np.arange(12))
    true = np.concatenate([sums / UNIT, sums / UNIT / 4000, sums, (pairs / UNIT**2).ravel(), pairs.ravel()])
    own = np.concatenate([rows[5], unit_rows(rows)[5], unit_rows(rows)[5] / UNIT])

    def content(budget):
        model = PrivateRecommender(budget, seed=0).fit(people)
        model.save(tmp_path / "model")
        model.export(tmp_path / "model.npz")
        held = [array.tobytes() for array in vars(model).values() if isinstance(array, np.ndarray)]
        return [(tmp_path / "model").read_bytes(), (tmp_path / "model.npz").read_bytes(), b"".join(held)]

    true, own = (np.unique(one[(one != 1.0) & (one > 0.0)]) for one in (true, own))  # 0, 1 stand everywhere
    for held in content(BUDGET):
        assert _numbers_in(held, true) == []
        assert _numbers_in(held, own) == []
    for held in content(FREE):  # the search finds what is there: without noise means are true ones
        assert len(_numbers_in(held, np.unique(sums / UNIT / 4000))) == 12


def test_a_membership_attack_stays_within_its_bound_and_succeeds_without_noise(monkeypatch):
    """Is somebody with three rare items in the data, or somebody with nothing? By the released pairs."""
    rows = tastes(1500, 2, 3)
    here, there = rows.copy(), rows.copy()
    here[0], there[0] = [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]
    expected = [pair_sums(Coverage(one), np.arange(6)) / UNIT**2 for one in (here, there)]
    toward = expected[0] - expected[1]
    heard, honest = [], Factors.of

    def hearing(popularity, pairs, *about):
        heard.append(float((pairs - expected[1]).ravel() @ toward.ravel()))
        return honest(popularity, pairs, *about)

    monkeypatch.setattr(Factors, "of", hearing)

    def bound(budget, runs):
        scores = []
        for world, one in enumerate((here, there)):
            people = Coverage(one)
            heard.clear()
            for seed in range(runs):
                PrivateRecommender(budget, seed=seed + world * runs).fit(people)
            scores.append(np.array(heard).reshape(-1, 1))
        return measures.epsilon_lower_bound(*scores, 1e-6)

    assert bound(BUDGET, 250) <= BUDGET.epsilon
    assert bound(FREE, 250) > 2.0 * BUDGET.epsilon


# --- the model ----------------------------------------------------------------------------------------


def test_without_noise_it_is_ease_on_centred_rows():
    """People with 1, 4 or 9 items of 12, or so: unit vectors that are exact on the grid where roots are."""
    rng = np.random.default_rng(3)
    rows = np.zeros((600, 16))
    for row in rows:
        row[rng.choice(16, size=rng.choice([1, 4, 16]), replace=False)] = 1.0
    model = PrivateRecommender(FREE).fit(Coverage(rows))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    n, means = len(rows), unit.mean(axis=0)
    centred = (unit - means).T @ (unit - means)
    ridge = 0.02 * n * means + 0.002 * n  # what is added to the diagonal
    inverse = np.linalg.inv(centred + np.diag(ridge))
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0.0)
    prior = 0.3 * means.sum() ** 2
    for history in ([3], [0, 5, 9], list(range(10))):
        x = np.zeros(16)
        x[history] = 1.0 / math.sqrt(max(1.0, len(history) + prior))
        assert model.scores(history) == pytest.approx(means + (x - means) @ weights, abs=1e-9)


def test_woodbury_equals_the_dense_inverse():
    rng = np.random.default_rng(1)
    popularity = 100.0 * rng.random(30)
    half = rng.random((30, 6))
    factors = Factors.of(popularity, 50.0 * half @ half.T + rng.normal(0, 1, (30, 30)), 1000.0, 1.0)
    assert 0 < factors.values.size < 30
    dense = np.linalg.inv((factors.vectors * factors.values) @ factors.vectors.T + np.diag(factors.diagonal))
    assert factors.inverse_diagonal == pytest.approx(dense.diagonal(), abs=1e-9)
    for x in np.eye(30):
        assert factors.times_inverse(x) == pytest.approx(dense @ x, abs=1e-9)


def test_eigenvalues_of_noise_are_taken_for_noise():
    """The norm of the symmetric part of noise is sqrt(2 N) deviation; beyond that a signal stands out."""
    rng = np.random.default_rng(5)
    noise = rng.normal(0.0, 3.0, (200, 200))
    assert Factors.of(np.zeros(200), noise, 1000.0, 3.0).values.size == 0
    way = rng.normal(size=200)
    way /= np.linalg.norm(way)
    strong = 4.0 * math.sqrt(2.0 * 200) * 3.0
    found = Factors.of(np.zeros(200), noise + strong * np.outer(way, way), 1000.0, 3.0)
    assert found.values.size == 1
    assert abs(float(found.vectors[:, 0] @ way)) > 0.9


def test_eigenvalues_are_moved_to_before_the_noise_by_hand():
    """Eight items, noise of deviation 1/2: an edge of 2. What is kept is above 2.04, and becomes x - 1/x."""
    means = 0.01 * np.arange(1.0, 9.0)
    signal = np.array([10.0, 2.05, 2.03, 1.0, 0.9, 0.8, 0.1, 0.0])
    above = np.triu(np.ones((8, 8)), 1)  # noise that its mirror image takes away
    pairs = np.diag(signal) + 1000.0 * np.outer(means, means) + above - above.T
    found = Factors.of(1000.0 * means, pairs, 1000.0, 0.5)
    before = np.array([(one + math.sqrt(one * one - 4.0)) / 2.0 for one in (2.05, 10.0)])
    values = before - 1.0 / before
    assert found.values == pytest.approx(values)
    assert np.abs(found.vectors) == pytest.approx(np.eye(8)[:, [1, 0]])
    own = signal - np.array([values[1], values[0], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    least = 20.0 * means  # a fiftieth of what people have
    assert found.diagonal == pytest.approx(np.maximum(own, least) + 2.0 + 2.0)


@pytest.mark.parametrize(("total", "prior"), [(0.5, 0.3), (1.5, 0.675), (3.0, 2.7)])
def test_the_prior_of_a_history_by_hand(total, prior):
    """0.3 times the square of what unit vectors sum to, and of 1 at least; a history has length 1 at most."""
    rng = np.random.default_rng(4)
    popularity = rng.random(6)
    popularity *= total / popularity.sum()
    half = 5.0 * rng.random((6, 3))
    pairs = 1000.0 * (np.outer(popularity, popularity) + half @ half.T)
    factors = Factors.of(1000.0 * popularity, pairs, 1000.0, 0.0)
    account = PrivateRecommender(FREE).fit(Coverage(tastes(50))).privacy
    model = Recommender.of(popularity, (np.arange(6), factors), 1000.0, None, (account, ""))
    known = model.to_json()
    assert known["prior_items"] == pytest.approx(prior)
    for weight in (0.1, 0.6, 1.0):
        x = weight / math.sqrt(max(1.0, weight**2 + prior))
        expected = np.array(known["base"]) + x * np.array(known["right"]) @ known["left"][2]
        assert model.scores({2: weight})[[0, 1, 3, 4, 5]] == pytest.approx(expected[[0, 1, 3, 4, 5]])
    # Items without pairs come last, however popular; and one that noise made unpopular is not left out.
    more = np.concatenate([popularity, [0.7, -0.2]])
    model = Recommender.of(more, (np.arange(6), factors), 1000.0, None, (account, ""))
    assert model.recommend([2], 8).items[-2:] == (6, 7)
    everything = dc.constraints.Knapsack(np.ones(8), 8.0)
    assert model.recommend([], 8, constraint=everything).items == tuple(np.argsort(-more).tolist())


def test_likeness_to_a_whole_history_counts_up_to_e_to_the_sixth():
    rows = np.ones((50, 20))
    model = PrivateRecommender(BUDGET, seed=3, features=np.eye(2)[[0] * 17 + [1] * 3]).fit(Coverage(rows))
    least = np.maximum(model.popularity, 0.0)
    assert least[16:].min() > 0.0
    for count, lift in ((4, 4.0), (9, 6.0), (16, 6.0)):  # twice the root of as many as are alike
        scores = model.scores(range(count))
        assert scores[16] == pytest.approx(least[16] * math.exp(lift))
        assert scores[17:] == pytest.approx(least[17:])


def test_directions_of_words_are_the_most_important_ones():
    texts = ["red tea", "red jam", "blue tea", "blue jam tea", "jam", "blue"]
    whole = word_features(texts, most=4)  # four words: none is left out
    assert whole.shape == (6, 4)
    left, values, right = np.linalg.svd(whole)
    near = (left[:, :2] * values[:2]) @ right[:2]
    few = word_features(texts, most=2)
    assert few @ few.T == pytest.approx(near @ near.T)
    # A word of two of six items counts log 3, of three log 2; all rows have length 1.
    red, tea = (math.log(6 / sum(word in text.split() for text in texts)) for word in ("red", "tea"))
    assert sorted(whole[0])[2:] == pytest.approx(sorted([red, tea] / np.hypot(red, tea)))


def test_a_constraint_keeps_to_k_and_leaves_out_nothing_that_fits(shop):
    everything = dc.constraints.Knapsack(np.ones(12), 12.0)
    for k in (3, 12):
        asked = {"history": ["tea 1"], "k": k, "include": ["tea 1"]}
        assert shop.recommend(**asked, constraint=everything).items == shop.recommend(**asked).items


def test_rank_0_is_popularity():
    rng = np.random.default_rng(2)
    popularity = rng.random(20)
    factors = Factors.of(1000.0 * popularity, rng.normal(0.0, 9.0, (20, 20)), 1000.0, 1000.0)
    account = PrivateRecommender(FREE).fit(Coverage(tastes(50))).privacy
    model = Recommender.of(popularity, (np.arange(20), factors), 1000.0, None, (account, "rank 0"))
    assert model.rank_ == 0
    assert model.scores([1, 2]) == pytest.approx(popularity, abs=1e-12)
    order = [item for item in np.argsort(-popularity).tolist() if item not in (1, 2)]
    assert list(model.recommend([1, 2], 20).items) == order


def test_pairs_help_and_popularity_does_not_know():
    model = PrivateRecommender(BUDGET, seed=0).fit(Coverage(tastes()))
    for cluster in range(3):
        own = set(range(4 * cluster, 4 * cluster + 4))
        for item in own:
            assert set(model.recommend([item], 3).items) == own - {item}
        near = {name for name, _ in model.neighbours(4 * cluster, 3)}
        assert near
        assert near <= own - {4 * cluster}
    assert model.rank_ >= 2
    assert model.reason_ == "n x mu = 947: pairs of all 12 items"


def test_below_the_threshold_all_of_the_budget_goes_to_popularity(left):
    people = Coverage(tastes(1000))
    model = PrivateRecommender(BUDGET, seed=4).fit(people)
    assert model.reason_ == "n x mu = 237 < 350: popularity alone"
    assert model.rank_ == 0
    assert [label for label, *_ in left] == ["popularity of items"]
    # The same numbers as of whoever releases popularity with the whole budget and the same seed.
    event = dc.privacy.GaussianNoise.within(BUDGET.share(), movement("replace", 12))
    alone = dc.Gate(BUDGET, 4).gaussian(unit_sums(people) / UNIT, event.sigma, event.sensitivity, label="")
    assert model.scores([3]) == pytest.approx(alone / 1000, abs=1e-15)
    assert model.recommend([0], 3).items == tuple(
        [item for item in np.argsort(-alone).tolist() if item != 0][:3]
    )


def test_what_is_released_follows_from_public_sizes():
    noise = math.sqrt(2.0) / 0.2
    plans = {n: PairPlan.of(n, 3000, noise) for n in (1000, 1749, 1750, 2999, 3000, 50_000, 10**6)}
    assert [one.paired for one in plans.values()] == [0, 0, 40, 59, 60, 1000, 1500]
    assert [str(one.share) for one in plans.values()] == ["1", "1", "1/5", "1/5", "1/5", "1/5", "1/5"]
    assert str(PairPlan.of(5000, 50, noise).share) == "1/10"
    assert PairPlan.of(10, 50, 0.0).reason == "n x mu = inf: pairs of all 50 items"


def test_items_without_pairs_come_last_by_popularity():
    rng = np.random.default_rng(0)
    rows = np.zeros((2200, 60))
    rows[:, :12] = tastes(2200)
    rows[np.arange(2200), rng.integers(12, 60, size=2200)] = 1.0
    model = PrivateRecommender(BUDGET, seed=1).fit(Coverage(rows))
    assert "the 52 most popular of 60" in model.reason_
    assert model.paired.size == 52
    below = np.setdiff1d(np.arange(60), model.paired)
    assert model.popularity[below].max() < model.popularity[model.paired].min()  # as they were released
    scores = model.scores([0])
    assert scores[below].max() < scores[model.paired].min()
    by_popularity = below[np.argsort(-model.popularity[below], kind="stable")]
    assert (below[np.argsort(-scores[below], kind="stable")] == by_popularity).all()
    # Somebody of whom only such items are known is shown what is popular.
    assert (model.scores(below[:2]) == model.popularity).all()
    everything = model.recommend([0], 60).items
    assert everything[-below.size :] == tuple(by_popularity.tolist())


# --- what can be asked --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop():
    labels = [f"{kind} {i}" for kind in ("tea", "beer", "soap") for i in range(4)]
    return PrivateRecommender(BUDGET, seed=0).fit(Coverage(tastes(), labels=labels))


def test_histories(shop):
    popular = shop.recommend([], 12).labels
    assert len(popular) == 12
    assert list(popular) == [shop.labels[i] for i in np.argsort(-shop.popularity)]
    assert shop.recommend(["unheard of"], 3).labels == popular[:3]
    once = shop.recommend(["tea 1", "soap 2"], 4)
    assert shop.recommend(["tea 1", "soap 2", "tea 1", "unheard of"], 4).labels == once.labels
    assert shop.recommend([1, 10], 4).items == once.items
    assert shop.recommend({"tea 1": 1.0, "soap 2": 1.0}, 4).items == once.items
    assert (shop.scores({"tea 1": 1.0, "soap 2": 1.0}) == shop.scores(["tea 1", "soap 2"])).all()
    assert shop.recommend("tea 1", 3).items == shop.recommend(["tea 1"], 3).items
    weighted = shop.recommend({"tea 1": 1.0, "soap 2": 0.01}, 3)
    assert {label[:3] for label in weighted.labels} == {"tea"}
    assert [one.items for one in shop.recommend_many([["tea 1"], []], 3)] == [
        shop.recommend(["tea 1"], 3).items,
        shop.recommend([], 3).items,
    ]
    with pytest.raises(ValueError, match="history"):
        shop.recommend({"tea 1": 2.0})


def test_where_fewer_are_left_there_are_fewer(shop):
    have = [item for item in range(12) if item not in (2, 7)]
    assert sorted(shop.recommend(have, 5).items) == [2, 7]
    assert shop.recommend(range(12), 5).items == ()
    assert shop.recommend([], 5, available=["tea 1"]).labels == ("tea 1",)
    with pytest.raises(ValueError, match="k"):
        shop.recommend([], 13)
    with pytest.raises(ValueError, match="k"):
        shop.recommend([], 0)


def test_public_facts(shop):
    plain = shop.recommend(["tea 1"], 3)
    without = shop.recommend(["tea 1"], 3, exclude=[plain.labels[0]])
    assert plain.labels[0] not in without
    assert without.labels[:2] == plain.labels[1:]
    given = shop.recommend(["tea 1"], 3, include=["soap 0"])
    assert given.labels == ("soap 0", *plain.labels[:2])
    assert given.included == (8,)
    assert shop.recommend(["tea 1"], 2, include=["tea 1"]).labels == ("tea 1", plain.labels[0])
    assert set(shop.recommend(["tea 1"], 3, available=[4, 5, 6]).items) == {4, 5, 6}
    for wrong, words in (
        ({"include": ["soap 0"], "exclude": ["soap 0"]}, "which is not available"),
        ({"exclude": ["unheard of"]}, "exclude holds"),
        ({"include": [0, 2, 3, 4]}, "include holds 4 items"),
    ):
        with pytest.raises(ValueError, match=words):
            shop.recommend(["tea 1"], 3, **wrong)


def test_scores_are_those_of_the_exported_numbers_one_by_one(shop):
    """The history has at most the length 1, and nothing is regressed on itself."""
    model = shop.to_json()
    assert model["prior_items"] > 0.0
    assert model["paired"] == list(range(12))
    for history in ({1: 1.0}, {1: 0.2}, {1: 1.0, 10: 0.5}, {1: 0.3, 2: 0.3, 9: 0.1}):
        length = math.sqrt(max(1.0, sum(w * w for w in history.values()) + model["prior_items"]))
        for item, score in enumerate(shop.scores(history)):
            others = [(place, w / length) for place, w in history.items() if place != item]
            expected = model["base"][item] + sum(
                x * sum(a * b for a, b in zip(model["left"][place], model["right"][item], strict=True))
                for place, x in others
            )
            assert score == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_nothing_is_left_out_of_a_knapsack_because_it_is_unlikely(shop):
    """Scores below 0 are scores: the two largest fit."""
    scores = -np.arange(3.0, 15.0)
    free, best = shop._within(Knapsack([1.0] * 12, 2.0), scores, (), np.arange(12))
    assert free[best].tolist() == [0, 1]


def test_constraints(shop):
    shelves = PartitionMatroid([range(4), range(4, 8), range(8, 12)], 1)
    found = shop.recommend(["tea 1"], None, constraint=shelves)
    scores = shop.scores(["tea 1"])
    assert len(found) == 3
    best = {max((i for i in shelf if i != 1), key=lambda i: scores[i]) for shelf in
            (range(4), range(4, 8), range(8, 12))}  # fmt: skip
    assert set(found.items) == best
    assert found.items[0] == max(best, key=lambda i: scores[i])
    assert shop.recommend(["tea 1"], 2, constraint=shelves).items == found.items[:2]
    given = shop.recommend(["tea 1"], None, constraint=shelves, include=["tea 3"])
    assert given.items[0] == 3
    assert len([item for item in given if item < 4]) == 1
    bag = shop.recommend(["tea 1"], 12, constraint=Knapsack([1.0] * 12, 2.0))
    assert bag.items == shop.recommend(["tea 1"], 2).items
    with pytest.raises(ValueError, match="does not allow together"):
        shop.recommend([], 3, constraint=shelves, include=[0, 1])


def test_a_personal_set_carries_no_account(shop):
    """The model's does not cover what a set tells about the history behind it."""
    sets = [shop.recommend(["tea 1"], 3), *shop.recommend_many([[], ["beer 1"]], 3)]
    assert [one.privacy for one in sets] == [None] * 3


def test_files(shop, tmp_path):
    shop.save(tmp_path / "model")
    again = dc.load(tmp_path / "model")
    assert type(again) is Recommender
    assert again.to_bytes() == shop.to_bytes()
    for history in ([], [1], ["tea 1", "beer 3"]):
        assert again.scores(history) == pytest.approx(shop.scores(history), abs=0)
    assert again.privacy.to_json() == shop.privacy.to_json()
    header = json.loads((tmp_path / "model").read_bytes().split(b"\n")[0])
    assert header["public"].startswith("NOT PUBLIC as it stands: made with a seed")
    assert "Joint differential privacy" in header["statement"]
    assert (tmp_path / "model").stat().st_mode & 0o044  # others may read it
    popular = PrivateRecommender(BUDGET, seed=0).fit(Coverage(tastes(500)))
    assert dc.load(popular.to_bytes()).recommend([1], 3).items == popular.recommend([1], 3).items
    with pytest.raises(ValueError, match="gate="):
        dc.load(shop.to_bytes(), gate=dc.Gate(BUDGET))
    with pytest.raises(RuntimeError, match="not been fitted"):
        PrivateRecommender(BUDGET).save(tmp_path / "none")


def test_only_files_that_are_public_say_so():
    """A list of items that was taken from data, a seed, or no noise: the file and the export name it."""
    table = {"p": [*range(40), 7], "i": ["tea", "milk"] * 20 + ["clinic"]}
    listed = {"person": "p", "item": "i"}
    known, taken = (
        Coverage.from_events(table, items=items, **listed) for items in (sorted({*table["i"]}), None)
    )
    endless = dc.Budget(float("inf"))
    for people, budget, seed, said in (
        (known, BUDGET, None, []),
        (taken, BUDGET, None, ["CONDITIONAL on the list of items"]),
        (known, BUDGET, 3, ["made with a seed"]),
        (known, endless, None, ["made without noise"]),
    ):
        model = PrivateRecommender(budget, seed=seed).fit(people)
        public = json.loads(model.to_bytes().split(b"\n")[0])["public"]
        assert ("may be given to anybody" in public) == (not said)
        assert model.to_json()["public"] == public
        assert len(model.conditions) == len(said)
        for one, whole in zip(said, model.conditions, strict=True):
            assert one in whole
            assert one in public


def test_files_that_cannot_be_right_are_refused(shop):
    from discreet.core.state import read_state, state_bytes

    header, arrays = read_state(shop.to_bytes())
    for change in (
        {"paired": arrays["paired"][::-1].copy()},
        {"paired": arrays["paired"] + 1},
        {"vectors": arrays["vectors"][:-1]},
        {"diagonal": arrays["diagonal"] * np.nan},
        {"popularity": arrays["popularity"][:-1]},
    ):
        with pytest.raises(ValueError, match="cannot be right"):
            dc.load(state_bytes(header, arrays | change))


def test_people_in_many_forms():
    rows = tastes(2500)
    found = {}
    for name, people in {
        "coverage": Coverage(rows),
        "matrix": rows,
        "sparse": sp.csr_matrix(rows),
        "events": dc.data.read_events(
            {"who": np.nonzero(rows)[0], "what": np.nonzero(rows)[1]},
            person="who", item="what", items=list(range(12)), people=list(range(2500)),
        ),
    }.items():  # fmt: skip
        found[name] = PrivateRecommender(BUDGET, seed=0).fit(people).popularity
    for name, popularity in found.items():
        assert (popularity == found["coverage"]).all(), name
    with pytest.raises(TypeError, match="row of items"):
        PrivateRecommender(BUDGET).fit(GraphCut(np.zeros((3, 3)), bound=1.0))
    with pytest.raises(ValueError, match="entries must lie"):
        PrivateRecommender(BUDGET).fit(rows - 0.5)


def test_refusals():
    with pytest.raises(ValueError, match="delta > 0"):
        PrivateRecommender(dc.Budget(1.0))
    with pytest.raises(ValueError, match="max_people= is for"):
        PrivateRecommender(BUDGET, max_people=10)
    PrivateRecommender(ALONE, max_people=100).fit(Coverage(tastes(200)))  # an error would tell their number
    model = PrivateRecommender(BUDGET, seed=0).fit(Coverage(tastes(200)))
    with pytest.raises(RuntimeError, match="budget is spent"):
        model.fit(Coverage(tastes(200)))
    with pytest.raises(RuntimeError, match="not been fitted"):
        PrivateRecommender(BUDGET).recommend([1])
    with pytest.raises(AttributeError, match="read-only"):
        model.popularity = np.zeros(12)


@pytest.mark.parametrize("after", [1, 4, 11])
def test_what_a_fit_released_is_shown_with_its_account_and_whole(after, monkeypatch):
    """An interrupt while a model takes up its releases left them without an account, or half a model."""
    left, settle = iter(range(after)), personal.settle

    def stopped(owner, /, **settings):
        for name, value in settings.items():
            if next(left, None) is None:
                raise KeyboardInterrupt
            settle(owner, **{name: value})

    model = PrivateRecommender(BUDGET, seed=0)
    monkeypatch.setattr(personal, "settle", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.fit(Coverage(tastes(200)))
    shown = {"popularity", "paired", "factors"} & model.__dict__.keys()
    assert "privacy" in model.__dict__ or not shown
    with pytest.raises(RuntimeError, match="not been fitted"):
        model.recommend([1])
    with pytest.raises(dc.BudgetExceeded):
        model.fit(Coverage(tastes(200)))


def test_one_gate_holds_several_fits_to_one_budget():
    gate, people = dc.Gate(dc.Budget(2.0, 1e-6), 0), Coverage(tastes())
    first, second = gate.split(2)
    PrivateRecommender(first).fit(people)
    model = PrivateRecommender(second).fit(people)
    assert sum(count for _, _, count in model.privacy.ledger.entries()) == 4
    assert 1.9 < gate.spent.epsilon(1e-6) <= 2.0
    with pytest.raises(dc.BudgetExceeded):
        PrivateRecommender(gate).fit(people)


def test_the_public_number_of_people_stands_for_the_private_one():
    people = Coverage(tastes())
    for options in ({"max_people": 5000}, {}):
        model = PrivateRecommender(ALONE, seed=0, **options).fit(people)
        assert model.n_people == 5000 if options else abs(model.n_people - 4000) < 500
        assert set(model.recommend([0], 3).items) == {1, 2, 3}


def test_there_is_somebody_however_much_noise_there_is(monkeypatch):
    honest = dc.Gate.gaussian

    def gaussian(self, values, sigma, sensitivity, **options):
        found = honest(self, values, sigma, sensitivity, **options)
        return -50.0 if options["label"] == "number of people" else found

    monkeypatch.setattr(dc.Gate, "gaussian", gaussian)
    assert PrivateRecommender(ALONE, seed=0).fit(Coverage(tastes(200))).n_people == 1


def test_scikit_learn():
    base = pytest.importorskip("sklearn.base")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    rows = tastes()
    first = PrivateRecommender(BUDGET, seed=0)
    again = base.clone(first)
    assert again.get_params() == first.get_params()
    scores = make_pipeline(FunctionTransformer(), again).fit(rows).transform(rows[:3])
    assert scores.shape == (3, 12)
    fitted = first.fit(rows)
    assert scores[1] == pytest.approx(fitted.scores(np.flatnonzero(rows[1]).tolist()), abs=0)
    with pytest.raises(ValueError, match="12 items"):
        fitted.transform(rows[:, :5])
    with pytest.raises(ValueError, match="declared once"):
        first.set_params(seed=3)


def test_public_features_lift_what_is_like_a_history(tmp_path):
    """Also items without pairs; what they do not know of is as before; they are not looked up in data."""
    rng = np.random.default_rng(0)
    rows = np.zeros((2200, 60))
    rows[:, :12] = tastes(2200)
    rows[np.arange(2200), rng.integers(12, 60, size=2200)] = 1.0
    people = Coverage(rows)
    features = np.zeros((60, 3))
    features[[0, 1, 40, 59], 0] = 7.0  # alike by what is public
    plain = PrivateRecommender(BUDGET, seed=1).fit(people)
    model = PrivateRecommender(BUDGET, seed=1, features=features).fit(people)
    assert (model.popularity == plain.popularity).all()
    assert model.privacy.to_json() == plain.privacy.to_json()
    own = np.where(np.isin(np.arange(60), plain.paired), plain.scores([0]), plain.popularity)
    expected = np.maximum(own, 0.0) * np.where(features[:, 0] > 0, math.exp(2.0), 1.0)
    assert model.scores([0]) == pytest.approx(expected, abs=1e-12)
    assert (model.scores([]) == plain.scores([])).all()
    model.save(tmp_path / "model")
    assert (dc.load(tmp_path / "model").scores([0, 40]) == model.scores([0, 40])).all()
    whole = PrivateRecommender(BUDGET, seed=0, features=np.eye(12)).fit(Coverage(tastes()))
    without = PrivateRecommender(BUDGET, seed=0).fit(Coverage(tastes()))
    found = np.maximum(without.scores([3]), 0.0)
    found[3] *= math.exp(1.0)  # where all items have pairs, and nothing is alike but the item itself
    assert whole.scores([3]) == pytest.approx(found, abs=1e-12)
    for wrong in (np.ones((5, 2)), np.ones(12), np.full((12, 2), np.nan)):
        with pytest.raises(ValueError, match="features"):
            PrivateRecommender(BUDGET, features=wrong).fit(Coverage(tastes()))


@pytest.mark.parametrize("people", [4, 65_540])
def test_embeddings_are_refused_however_many_people_there_are(people):
    """As rows they are given up to a size; how many people there are may be private."""
    vectors = np.tile(np.eye(4), (people // 4, 1))
    given = dc.objectives.EmbeddedFacilityLocation(vectors, np.eye(4))
    with pytest.raises(TypeError, match="must have a row of items each"):
        PrivateRecommender(ALONE, max_people=70_000, seed=0).fit(given)


# --- progress ------------------------------------------------------------------------------------------


def test_a_fit_says_how_far_it_is_where_somebody_looks(capsys, monkeypatch, tmp_path):
    """On a terminal after two seconds, of a store at once; and never how many people there are."""
    rows = tastes(people=4001)

    def said(seconds, people=rows, **more):
        ticks = itertools.count(100.0, seconds)
        monkeypatch.setattr("discreet.core.text.time", SimpleNamespace(monotonic=lambda: next(ticks)))
        PrivateRecommender(BUDGET, seed=0).fit(people, **more)
        return capsys.readouterr().err

    assert said(1.5) == ""
    assert said(0.1, progress=True) == ""
    found = said(1.5, progress=True)
    assert "fitting: 1 of 3 (" in found
    assert found.endswith("\n")
    assert "400" not in found
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert said(1.5) == found
    assert said(1.5, progress=False) == ""
    assert "fitting: 1 in" in said(1.5, rows[:50])  # popularity alone
    table = {"who": np.nonzero(rows)[0].tolist(), "what": np.nonzero(rows)[1].tolist()}
    store = dc.data.prepare(
        table, person="who", item="what", items=range(12), to=tmp_path / "s", progress=False
    )
    assert "fitting: 0 of 3" in said(0.1, store)
