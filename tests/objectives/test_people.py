"""Rows of people: what a cap keeps, what compiled loops may read, and what does not change under storage."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SaturatedCoverage,
    greedy,
)


def test_the_matrix_given_is_left_alone_and_tidied() -> None:
    given = sp.csr_array(
        (np.array([0.5, 0.0, 0.25, 0.25]), np.array([2, 0, 1, 1]), np.array([0, 2, 4, 4])), (3, 3)
    )
    before = given.copy()
    people = FacilityLocation(given)
    assert (given.indices == before.indices).all()
    assert (given.data == before.data).all()
    assert people.indptr.tolist() == [0, 1, 2, 2]
    assert people.indices.tolist() == [2, 1]
    assert people.data.tolist() == [0.5, 0.5]
    assert len(people) == 3
    assert people[2].value([0, 1, 2]) == 0.0


@pytest.mark.parametrize("family", [Coverage, ProbabilisticCoverage, FacilityLocation, ConcaveOverModular])
def test_dense_and_sparse_storage_agree_on_a_larger_population(family) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.random((200, 40)) * (rng.random((200, 40)) < 0.3)
    dense, sparse = family(matrix), family(sp.csr_array(matrix))
    assert greedy(dense, 10)[0] == greedy(sparse, 10)[0]
    np.testing.assert_allclose(greedy(dense, 40)[1], greedy(sparse, 40)[1], atol=1e-12)
    x = rng.random(40)
    np.testing.assert_allclose(dense.lovasz_gradient(x), sparse.lovasz_gradient(x), atol=1e-12)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(sparse, name))


def test_the_gradient_in_parts_is_the_gradient() -> None:
    """Above a million entries the rows are shared between threads."""
    rng = np.random.default_rng(1)
    people, items, each = 50_000, 300, 21
    columns = rng.integers(0, 14, size=(people, each)) + 14 * np.arange(each)
    data = rng.random(people * each)
    matrix = sp.csr_array((data, columns.ravel(), np.arange(0, people * each + 1, each)), (people, items))
    x = rng.random(items) * 0.2
    x[0] = 1.0
    made = ProbabilisticCoverage(matrix)
    p = data.reshape(people, each)
    missed = 1 - x[columns] * p
    gradients = np.array([np.prod(np.delete(missed, t, axis=1), axis=1) for t in range(each)]).T * p
    expected = np.bincount(columns.ravel(), gradients.ravel(), minlength=items) / people
    np.testing.assert_allclose(made.multilinear_gradient(x), expected, rtol=1e-10)
    assert made.multilinear(x) == pytest.approx(1 - missed.prod(axis=1).mean(), rel=1e-12)


def test_greedy_is_the_best_each_time() -> None:
    rng = np.random.default_rng(2)
    people = ProbabilisticCoverage(rng.random((30, 12)) * 0.4)
    items, gains = greedy(people, 5)
    for t in range(5):
        now = people.gains(items[:t])
        assert now.max() == pytest.approx(gains[t], abs=1e-12)
        assert now[items[t]] == pytest.approx(gains[t], abs=1e-12)
    assert gains.sum() == pytest.approx(people.value(items))


@pytest.mark.parametrize("family", [Coverage, ProbabilisticCoverage, FacilityLocation, SaturatedCoverage])
def test_a_cap_keeps_at_most_m_of_a_persons_own_items(family) -> None:
    rng = np.random.default_rng(3)
    matrix = rng.random((60, 9)) * (rng.random((60, 9)) < 0.5)
    people = family(matrix)
    capped = people.cap_items(3, np.random.default_rng(0))
    had, has = np.diff(people.indptr), np.diff(capped.indptr)
    np.testing.assert_array_equal(has, np.minimum(had, 3))
    for i in range(60):
        own = dict(zip(people[i].indices.tolist(), people[i].data.tolist(), strict=True))
        kept = dict(zip(capped[i].indices.tolist(), capped[i].data.tolist(), strict=True))
        assert kept.items() <= own.items()
        assert list(kept) == sorted(kept)
    assert len(people.cap_items(3, np.random.default_rng(0))) == 60
    again = people.cap_items(3, np.random.default_rng(0))
    np.testing.assert_array_equal(again.indices, capped.indices)


def test_importing_objectives_loads_no_compiler() -> None:
    code = (
        "import sys, discreet.objectives, discreet.data; "
        "from discreet.objectives import Coverage; Coverage([[1, 0]]).gains([0]); "
        "print(sorted({'numba', 'pandas', 'pyarrow', 'polars', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
