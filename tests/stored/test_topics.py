"""Weighted topics in whole steps, in memory and in a store: the same numbers, and what one person moves."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import floor

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dc
from discreet.core.checks import DataError
from discreet.data.store import MOST_BUCKETS
from discreet.objectives import Coverage, WeightedTopics
from discreet.objectives import rows as topic_steps
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import ContinuousGreedy, CurvatureGreedy
from discreet.offline.continuous import SummedGradient
from discreet.privacy import PublicRandomness

from .stores import keys_of, store_of
from .test_scores import CHOOSERS, chosen, matrix, the_same_coins, vectors

RNG = np.random.default_rng(8)
COVERS = (RNG.random((9, 12)) < 0.5) * RNG.choice([1.0, 0.5, 0.3], (9, 12))


def weights() -> np.ndarray:
    """People of very different total weights, up to the bound and nearly nothing."""
    rows = matrix()
    scale = np.where(np.arange(300) % 3, 1.0 / np.maximum(rows.sum(axis=1), 1e-9), 1e-9)
    return rows * scale[:, None] * (1.0 - 1e-15)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    return [
        WeightedTopics.from_store(store_of(folder / f"{count}", weights(), count, weighted=True), COVERS)
        for count in (1, 4)
    ]


def test_every_score_vector_is_the_one_in_memory(stored):
    expected = vectors(WeightedTopics(weights(), COVERS), (3, 7, 0))
    assert vectors(WeightedTopics(sp.csr_array(weights()), COVERS), (3, 7, 0)) == expected
    for people in stored:
        assert vectors(people, (3, 7, 0)) == expected
    mixed = [0.5 * one + 0.25 * one for one in (WeightedTopics(weights(), COVERS), stored[1])]
    assert vectors(mixed[0], (3, 7)) == vectors(mixed[1], (3, 7))


def test_what_is_known_of_people_with_topics_in_a_store(stored, tmp_path):
    """Somebody with one topic touches all items that cover it; no fewer are said to be touched."""
    memory = WeightedTopics(weights(), COVERS)
    assert stored[1]._additions() == memory._additions() + MOST_BUCKETS
    store = store_of(tmp_path / "one", np.eye(12), 2, weighted=True)
    covers = np.zeros((9, 12))
    covers[:4, 0] = covers[0, 1:] = 1.0
    assert WeightedTopics.from_store(store, covers)._most_items() == 4
    assert stored[1]._most_items() == 9
    with pytest.raises(ValueError, match="covers"):
        WeightedTopics.from_store(store, 1.5 * covers)


def test_scores_are_the_slow_twin_in_fractions():
    """Products and sums without a rounding but the one that is declared."""
    rng = np.random.default_rng(3)
    covers = sp.csr_array((rng.random((5, 700)) < 0.9) * rng.random((5, 700)))
    people = WeightedTopics(np.ones((2, 700)) / 700, covers)
    source = people.row_source()
    large = rng.integers(1 << 50, 1 << 51, 700)
    uncovered, left = source.fresh()
    source.choose(2, uncovered, left)
    parts = source.parts(uncovered, left)
    found = source.summed(large, parts)
    by_item = source._by_item
    for j in range(5):
        here = slice(int(by_item.indptr[j]), int(by_item.indptr[j + 1]))
        exact = sum(int(w) * int(g) for w, g in zip(large[by_item.indices[here]], parts[here], strict=True))
        assert int(found[j]) == floor(Fraction(exact, 1 << (topic_steps._BITS + topic_steps._FINE)))


@pytest.mark.parametrize("name", CHOOSERS)
@pytest.mark.filterwarnings("ignore:.*too small")
def test_choosers_choose_and_charge_the_same(stored, name):
    with the_same_coins(keys_of(300)):
        assert chosen(name, stored[1]) == chosen(name, WeightedTopics(weights(), COVERS))


def test_averages_and_people(stored):
    memory, people = WeightedTopics(weights(), COVERS), stored[1]
    x = np.random.default_rng(5).random(9)
    for items in ([], [1], [4, 2, 8]):
        np.testing.assert_allclose(people.gains(items), memory.gains(items), atol=1e-8)
        assert people.value(items) == pytest.approx(memory.value(items), abs=1e-8)
    np.testing.assert_allclose(people.multilinear_gradient(x), memory.multilinear_gradient(x), atol=1e-8)
    gradient = SummedGradient(people, 1.0, 1, PublicRandomness.seeded(0), 300)
    np.testing.assert_allclose(
        gradient.scores(gradient.at(x)) / 300, memory.multilinear_gradient(x), atol=1e-8
    )
    for corner in itertools.product((0.0, 1.0), repeat=2):
        x[[1, 2]] = corner
        np.testing.assert_allclose(
            gradient.scores(gradient.at(x)) / 300, memory.multilinear_gradient(x), atol=1e-8
        )
    together = sum(len(batch) * batch.gains([]) for batch in people.batches(64)) / 300
    np.testing.assert_allclose(together, memory.gains([]), atol=1e-8)
    assert people[[5, 3]].value([1]) == pytest.approx((people[5].value([1]) + people[3].value([1])) / 2)
    assert memory.touched_items(9) == people.touched_items(9)
    assert people.sensitivity() == pytest.approx(memory.sensitivity())


# --- what one person moves --------------------------------------------------------------------------------


def paths(people, bound: float, unit: float) -> dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]]:
    """For every order of three items: the score vectors on the way, and what each pick scored."""
    found = {}
    for order in itertools.permutations(range(4), 3):
        growing = FixedPointGains.over(people, bound, unit)
        scores = []
        for item in order:
            scores.append(growing.scores())
            growing.add(item)
        found[order] = np.array(scores), np.array([scores[t][item] for t, item in enumerate(order)])
    return found


def moves(cover: np.ndarray, crowd: np.ndarray, person: np.ndarray, unit: float) -> tuple[float, float]:
    """The most a score moves when somebody comes, and the most that all picks of a path move together."""
    with_them = paths(WeightedTopics(np.vstack([crowd, person]), cover), 1.0, unit)
    without = paths(WeightedTopics(crowd, cover), 1.0, unit)
    least = min(float((with_them[order][0] - without[order][0]).min()) for order in without)
    assert least >= 0.0
    return (
        max(float((with_them[order][0] - without[order][0]).max()) for order in without),
        max(float((with_them[order][1] - without[order][1]).sum()) for order in without),
    )


COVER = np.array([[0.3, 0.0, 1.0], [0.7, 0.6, 0.0], [0.0, 1.0, 0.2], [1.0, 0.1, 0.9]])
UNIT = 2.0**-6  # so coarse that a rounding shows


def most_moved() -> tuple[float, float]:
    rng, most = np.random.default_rng(1), [0.0, 0.0]
    for _ in range(6):
        crowd = rng.dirichlet(np.ones(3), 2)
        for person in (np.eye(3)[0], np.eye(3)[2], rng.dirichlet(np.ones(3))):
            found = moves(COVER, crowd, person[None, :] * (1 - 1e-15), UNIT)
            most = [max(pair) for pair in zip(most, found, strict=True)]
    return most[0], most[1]


def test_one_person_moves_a_score_and_all_picks_together_by_at_most_the_bound():
    score, together = most_moved()
    assert 0.8 < score <= 1.0
    assert 0.8 < together <= 1.0


def test_without_the_steps_that_are_spared_picks_would_move_further(monkeypatch):
    """The injected fault: each pick rounds by itself, and together they pass the bound."""
    monkeypatch.setattr(
        topic_steps.TopicSteps,
        "growing",
        lambda self, most, per_unit: topic_steps.GrowingTopics(self, self._weights(per_unit, int(most))),
    )
    assert most_moved()[1] > 1.0


def test_a_person_in_a_store_moves_a_score_by_at_most_the_bound(tmp_path):
    rows, keys, unit = matrix(4, 6)[:, :3], keys_of(6), step(1.0, 8)
    rows = rows / rows.sum(axis=1, keepdims=True).clip(1e-9)

    def scores(name, rows, keys):
        store = store_of(tmp_path / name, rows, 3, keys=keys, weighted=True)
        found = paths(WeightedTopics.from_store(store, COVER, bound=1.0), 1.0, unit)
        return np.array([one[0] for one in found.values()])

    whole = scores("whole", rows, keys)
    for i in (1, 4):
        moved = whole - scores(f"{i}", np.delete(rows, i, 0), np.delete(keys, i))
        assert ((moved >= 0.0) & (moved <= 1.0)).all()


def test_what_does_not_fit_is_refused(tmp_path):
    store = store_of(tmp_path / "s", np.eye(4), 2)
    with pytest.raises(ValueError, match=r"covers has 3 topics \(columns\), the store 4"):
        WeightedTopics.from_store(store, np.ones((2, 3)))
    with pytest.raises(DataError, match=r"exceed bound=0\.5"):
        WeightedTopics.from_store(store, np.ones((2, 4)), bound=0.5)
    with pytest.raises(ValueError, match="in memory or in one store"):
        WeightedTopics.from_store(store, np.ones((4, 4))) + Coverage(np.eye(4))
    wide = store_of(tmp_path / "wide", sp.csr_array(np.eye(2, 3000)), 1)
    with pytest.raises(ValueError, match=r"more than 2,047 topics"):
        WeightedTopics.from_store(wide, np.ones((2, 3000)))
    assert WeightedTopics(np.eye(2, 3000), np.ones((2, 3000))).row_source() is None
    assert "4" in repr(WeightedTopics.from_store(store, np.ones((4, 4))))
    for selector in (ContinuousGreedy(1, dc.Budget(9.0), seed=0), CurvatureGreedy(1, dc.Budget(9.0), seed=0)):
        assert len(selector.select(WeightedTopics.from_store(store, np.eye(4)))) == 1
