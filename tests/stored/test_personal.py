"""Pair sums over stores: the numbers of the same people in memory, bit for bit, however they are divided."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage, ProbabilisticCoverage
from discreet.objectives.stored import Threads
from discreet.offline import PrivateRecommender
from discreet.personal import pair_sums, unit_sums

from .stores import store_of

BUDGET = dc.Budget(1.0, 1e-6)


def rows(weighted=False):
    rng = np.random.default_rng(0)
    liked = rng.random((2000, 30)) < rng.random(30) ** 2
    return liked * (rng.random(liked.shape) if weighted else 1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("buckets", [1, 7])
def test_the_same_bits_for_any_split(tmp_path, weighted, buckets):
    matrix = rows(weighted)
    family = ProbabilisticCoverage if weighted else Coverage
    memory, store = family(matrix), store_of(tmp_path / "store", matrix, buckets, weighted=weighted)
    kept = np.array([1, 4, 5, 20, 29])
    for threads in (1, 3):
        people = family.from_store(store, Threads(store, threads))
        assert (unit_sums(people) == unit_sums(memory)).all()
        assert (pair_sums(people, kept) == pair_sums(memory, kept)).all()
    models = [PrivateRecommender(BUDGET, seed=3).fit(one) for one in (memory, people, store)]
    for model in models[1:]:
        assert (model.popularity == models[0].popularity).all()
        assert (model.factors.diagonal == models[0].factors.diagonal).all()
        assert model.recommend([1, 2], 5).items == models[0].recommend([1, 2], 5).items
    assert models[1].labels[:2] == ("item 0", "item 1")
