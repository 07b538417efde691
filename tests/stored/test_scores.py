"""Scores of people in a store are those of the same people in memory, bit for bit."""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import lru_cache
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dc
from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Intersection,
    Knapsack,
    LaminarMatroid,
    LinearMatroid,
    PartitionMatroid,
    TransversalMatroid,
)
from discreet.core.checks import DataError
from discreet.data.store import MOST_BUCKETS, Bucket
from discreet.kernels.stores import person_coins
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SaturatedCoverage,
    stored,
)
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.objectives.stored import Threads
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from discreet.privacy import PublicRandomness, Release

from .stores import keys_of, store_of

FAMILIES = {
    "coverage": (Coverage, {}),
    "probabilistic": (ProbabilisticCoverage, {}),
    "facility": (FacilityLocation, {}),
    "sqrt": (ConcaveOverModular, {"bound": 2.5}),
    "log": (ConcaveOverModular, {"concave": "log", "bound": 2.5}),
    "capped": (ConcaveOverModular, {"concave": "capped", "cap": 0.7}),
    "saturated": (SaturatedCoverage, {"saturation": 0.3, "bound": 2.5}),
}
N_PEOPLE, N_ITEMS = 300, 12


def matrix(seed: int = 1, n_people: int = N_PEOPLE) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = (rng.random((n_people, N_ITEMS)) < 0.3) * rng.random((n_people, N_ITEMS)) * 0.5
    weights[0] = 0.0  # somebody without any item
    return weights


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    return {count: store_of(folder / f"{count}", matrix(), count, weighted=True) for count in (1, 3, 7)}


@pytest.fixture(scope="module")
def other_order(tmp_path_factory):
    """The same people under other keys: in other buckets, and in another order."""
    keys = keys_of(N_PEOPLE, seed=9)
    return store_of(tmp_path_factory.mktemp("other") / "s", matrix(), 3, keys=keys, weighted=True)


def vectors(people, picks=(3, 7, 0, 11)) -> list[list[float]]:
    """Every score vector, and what each pick added."""
    unit = step(people.bound, len(people))
    growing, found = FixedPointGains.over(people, people.bound, unit), []
    for item in picks:
        found.append(growing.scores().tolist())
        found.append([growing.add(item)])
    return [*found, growing.scores().tolist()]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_score_vector_is_the_one_in_memory(stores, other_order, name):
    family, options = FAMILIES[name]
    expected = vectors(family(matrix(), **options))
    for store in (*stores.values(), other_order):
        assert vectors(family.from_store(store, **options)) == expected
    pieces = family.from_store(stores[7], Threads(stores[7], 3), **options)
    assert vectors(pieces) == expected


def test_items_beyond_16_bits_and_stores_without_weights(tmp_path):
    rng = np.random.default_rng(3)
    wide = sp.csr_array((rng.random((50, 70_000)) < 0.0005).astype(float))
    store = store_of(tmp_path / "wide", wide, 3)
    assert store.bucket(0).items.dtype == np.uint32
    picks = np.unique(wide.indices)[[2, 30, 90]].tolist()
    for family, options in ((Coverage, {}), (SaturatedCoverage, {"bound": 20.0, "saturation": 0.2})):
        stored, memory = family.from_store(store, **options), family(wide, **options)
        assert vectors(stored, picks) == vectors(memory, picks)


def test_buckets_are_cut_into_pieces_that_add_up(stores, monkeypatch):
    from discreet.objectives import stored as engines

    expected = vectors(FacilityLocation(matrix()))
    monkeypatch.setattr(engines, "_PIECE", 50)
    assert vectors(FacilityLocation.from_store(stores[3])) == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_averages_gradients_and_curvature_agree(stores, name):
    family, options = FAMILIES[name]
    memory, stored = family(matrix(), **options), family.from_store(stores[3], **options)
    x = np.random.default_rng(5).random(N_ITEMS)
    for items in ([], [1], [4, 2, 9]):
        np.testing.assert_allclose(stored.gains(items), memory.gains(items), atol=1e-8)
        np.testing.assert_allclose(stored.contributions(items), memory.contributions(items), atol=1e-8)
        assert stored.value(items) == pytest.approx(memory.value(items), abs=1e-8)
    np.testing.assert_allclose(stored.multilinear_gradient(x), memory.multilinear_gradient(x), atol=1e-8)
    assert stored.multilinear(x) == pytest.approx(memory.multilinear(x))
    assert stored.lovasz(x) == pytest.approx(memory.lovasz(x), abs=1e-8)
    assert stored.total_curvature() == pytest.approx(memory.total_curvature(), abs=1e-6)
    assert stored.bound == memory.bound
    assert stored.sensitivity() == pytest.approx(memory.sensitivity())
    assert stored.touched_items(9) == memory.touched_items(9)


@pytest.mark.parametrize("name", ["coverage", "facility", "sqrt"])
def test_gradients_in_steps_are_those_in_memory(stores, name):
    from discreet.offline.continuous import SummedGradient

    family, options = FAMILIES[name]
    x = np.random.default_rng(5).random(N_ITEMS)
    x[[2, 5]] = 0.0, 1.0
    found = [
        SummedGradient(people, people.bound, 20, PublicRandomness.seeded(5), length=len(people))
        .at(x)
        .tolist()
        for people in (
            family(matrix(), **options),
            *(family.from_store(s, **options) for s in stores.values()),
        )
    ]
    assert found[1:] == found[:1] * 3


CHOOSERS = {
    "basic": lambda budget: PrivateGreedy(4, budget, "basic", seed=1),
    "zcdp, gains": lambda budget: PrivateGreedy(4, budget, "zcdp", release_gains=0.3, seed=1),
    "decomposable": lambda budget: PrivateGreedy(4, budget, "decomposable", seed=1),
    "exact": lambda budget: PrivateGreedy(4, budget, "exact", seed=1),
    "included": lambda budget: PrivateGreedy(4, budget, "zcdp", include=[2, 5], exclude=[0], seed=1),
    "subsampled": lambda budget: PrivateGreedy(4, budget, "subsampled", seed=1),
    "auto": lambda budget: PrivateGreedy(4, budget, seed=1),
    "one way": lambda _: PrivateGreedy(4, dc.Budget(2.0, 1e-6, "add_remove"), max_people=400, seed=1),
    "continuous": lambda budget: ContinuousGreedy(3, budget, 3, seed=1),
    "gaussian": lambda budget: ContinuousGreedy(3, budget, 3, "gaussian", seed=1),
    "laplace": lambda budget: ContinuousGreedy(3, budget, 3, "laplace", "basic", seed=1),
    "curvature": lambda budget: CurvatureGreedy(3, budget, 2, seed=1),
}
HALVES = [list(range(6)), list(range(6, N_ITEMS))]
CONSTRAINTS = {
    "partition": PartitionMatroid(HALVES, 2),
    "laminar": LaminarMatroid([*HALVES, list(range(N_ITEMS))], [2, 2, 3]),
    "graphic": GraphicMatroid([(j % 4, (j + 1 + j // 4) % 5) for j in range(N_ITEMS)]),
    "transversal": TransversalMatroid([range(4), range(3, 9), range(8, N_ITEMS)], n_items=N_ITEMS),
    "linear": LinearMatroid(np.array([[1, j % 3, j % 2] for j in range(N_ITEMS)], dtype=float).T),
    "knapsack": Knapsack(np.arange(1.0, N_ITEMS + 1.0), 12.0),
    "two limits": Intersection(Cardinality(3), Knapsack(np.arange(1.0, N_ITEMS + 1.0), 20.0)),
}


@lru_cache
def chosen_in_memory(name: str):
    return chosen(name, ProbabilisticCoverage(matrix()))


def chosen(name: str, people):
    """What a selector of `CHOOSERS`, or one under a constraint, chooses and what its account says."""
    budget = dc.Budget(2.0, 1e-6)
    limited = name in CONSTRAINTS
    selector = PrivateGreedy(CONSTRAINTS[name], budget, seed=1) if limited else CHOOSERS[name](budget)
    selection = selector.select(people)
    return selection.items, selection.gains, selection.queries, selector.privacy.to_json()


@contextmanager
def the_same_coins(keys: np.ndarray):
    """In memory a secret sample goes by words drawn for each place: here by keys, as in a store."""
    secret = np.array([7, 8], dtype=np.uint64)

    def sample(_release, _count, keep):
        return np.flatnonzero(person_coins(keys, secret) < np.uint64(keep))

    with patch.object(Release, "words", lambda *_: secret), patch.object(Release, "sample", sample):
        yield


@pytest.mark.parametrize("name", [*CHOOSERS, *CONSTRAINTS])
@pytest.mark.filterwarnings("ignore:.*too small")
def test_choosers_choose_and_charge_the_same(stores, name):
    with the_same_coins(keys_of(N_PEOPLE)):
        assert chosen(name, ProbabilisticCoverage.from_store(stores[3])) == chosen_in_memory(name)


def test_mixtures_of_one_store(stores):
    def mixed(first, second):
        return 0.5 * first + 0.25 * second

    stored = mixed(*(family.from_store(stores[3]) for family in (Coverage, FacilityLocation)))
    memory = mixed(Coverage(matrix()), FacilityLocation(matrix()))
    assert vectors(stored) == vectors(memory)
    with pytest.raises(ValueError, match="in memory or in one store"):
        mixed(Coverage.from_store(stores[3]), Coverage(matrix()))
    with pytest.raises(ValueError, match="in memory or in one store"):
        mixed(Coverage.from_store(stores[3]), Coverage.from_store(stores[7]))


def test_what_is_known_of_people_in_a_store(stores, tmp_path):
    """The most items of anybody, what a few of them are worth at most, and how many numbers are added up: one
    more for each bucket than in memory."""
    for cap, most in ((3, 3), (40, N_ITEMS), (None, None)):
        store = store_of(tmp_path / f"{cap}", np.eye(N_ITEMS), 2, cap=cap)
        assert Coverage.from_store(store).items_per_person == most
    weights = matrix()
    for most in (1, 2, 3, N_ITEMS):
        found = ConcaveOverModular.from_store(stores[3], bound=2.5, at_most=most)
        together = min(weights.sum(axis=1).max(), most * weights.max())
        assert found._largest() == pytest.approx([math.sqrt(together)])
    people = FacilityLocation.from_store(stores[3])
    assert people._largest() == pytest.approx([weights.max()])
    assert people._most_items() == np.count_nonzero(weights, axis=1).max()
    assert people._additions() == FacilityLocation(weights)._additions() + MOST_BUCKETS
    shape = people._shape.scaled(0.5).scaled(0.25)
    assert shape.share == 0.125


def test_chunks_of_a_bucket_follow_each_other():
    bucket = Bucket(np.arange(9, dtype=np.uint64), np.arange(0, 40, 4), np.zeros(36, dtype=np.int32))
    with patch.object(stored, "_COPIED", 9):
        assert [*stored._chunks(bucket, 2, 9)] == [(2, 4), (4, 6), (6, 8), (8, 9)]


def test_people_of_a_store_in_memory(stores):
    people = FacilityLocation.from_store(stores[3])
    some = people[[250, 3, 17]]
    assert isinstance(some, FacilityLocation)
    assert [some[i].gains([]).tolist() for i in range(3)] == [
        people[i].gains([]).tolist() for i in (250, 3, 17)
    ]
    batches = list(people.batches(64))
    assert sum(map(len, batches)) == len(people)
    assert max(map(len, batches)) <= 64
    together = sum(len(batch) * batch.gains([]) for batch in batches) / len(people)
    np.testing.assert_allclose(together, people.gains([]), atol=1e-8)
    assert people.labels == stores[3].labels
    assert "300" not in repr(people)


def test_learners_take_batches_of_a_store(stores):
    from discreet.online import PhasedSelector

    learner = PhasedSelector(N_ITEMS, k=2, budget=dc.Budget(1.0), window=100, seed=0)
    for batch in Coverage.from_store(stores[3]).batches(128):
        learner.run(batch)
    assert learner.round == N_PEOPLE


def test_what_a_store_cannot_do_is_refused(stores, tmp_path):
    store = stores[3]
    with pytest.raises(DataError, match=r"exceed bound=0\.1"):
        FacilityLocation.from_store(store, bound=0.1)
    with pytest.raises(ValueError, match="use a named one"):
        ConcaveOverModular.from_store(store, concave=np.sqrt, bound=9.0)
    with pytest.raises(ValueError, match="one number for everybody"):
        ConcaveOverModular.from_store(store, concave="capped", cap=[1.0])
    with pytest.raises(ValueError, match="engine='spark'"):
        Coverage.from_store(store, "spark")
    with pytest.raises(ValueError, match="another store"):
        Coverage.from_store(store, Threads(stores[7]))
    too_much = store_of(tmp_path / "much", 3.0 * matrix(), 2, weighted=True)
    with pytest.raises(DataError, match=r"lie in \[0, 1\]"):
        ProbabilisticCoverage.from_store(too_much)
