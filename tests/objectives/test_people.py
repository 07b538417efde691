"""Rows of people: what a cap keeps, what compiled loops may read, and what does not change under storage."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core.checks import DataError
from discreet.objectives import (
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SaturatedCoverage,
    greedy,
)
from discreet.objectives import rows as people_of_rows


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


def _five_items_each(count: int, weights: np.ndarray) -> sp.csr_array:
    rng = np.random.default_rng(1)
    items = rng.integers(0, 20, (count, 5), dtype=np.int32) + 20 * np.arange(5, dtype=np.int32)
    ends = np.arange(0, 5 * count + 1, 5, dtype=np.int32)
    return sp.csr_array((weights, items.ravel(), ends), shape=(count, 100))


@pytest.mark.parametrize("family", [Coverage, ProbabilisticCoverage, FacilityLocation, SaturatedCoverage])
def test_a_population_takes_up_little_more_than_its_matrix(family) -> None:
    """What it holds and what it needs while it is built, beside the matrix that was given: 1.5 times that."""
    count = 200_000
    flags = np.ones(5 * count, dtype=np.int8)
    weights = flags if family is Coverage else np.random.default_rng(0).uniform(0.01, 0.2, 5 * count)
    given = _five_items_each(count, weights)
    size = given.data.nbytes + given.indices.nbytes + given.indptr.nbytes
    family(given[:10])  # whatever is imported
    tracemalloc.start()
    try:
        people = family(given)
        assert people.bound == 1.0
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.25 * size
    assert most < 1.5 * size


@pytest.mark.parametrize("family", [Coverage, ProbabilisticCoverage])
def test_numbers_that_repeat_are_stored_once_and_change_nothing(family, monkeypatch) -> None:
    rng = np.random.default_rng(3)
    table = (rng.random((60, 12)) < 0.3) * rng.uniform(0.1, 0.9, (60, 12))
    monkeypatch.setattr(people_of_rows, "CHUNK", 32)
    compact, plain = family(sp.csr_array(table)), family(sp.csr_array(table))
    assert people_of_rows.is_constant(compact._rows.share)
    rows = plain._rows
    matrix = people_of_rows.SparseMatrix(rows.sparse.indptr, rows.sparse.indices, rows.sparse.data.copy(), 12)
    plain._rows = people_of_rows.Rows(rows.kind, matrix, np.ones(60), np.full(60, np.inf))
    x = rng.random(12)
    assert (compact.data == plain.data).all()
    assert (compact.indptr == plain.indptr).all()
    for one, other in ((compact, plain), (compact[7], plain[7]), (compact[3:40], plain[3:40])):
        assert (one.gains([1, 4]) == other.gains([1, 4])).all()
        assert one.value([0, 5]) == other.value([0, 5])
        assert (one.multilinear_gradient(x) == other.multilinear_gradient(x)).all()
    assert greedy(compact, 5)[0] == greedy(plain, 5)[0]
    capped, kept = compact.cap_items(2, seed=1), plain.cap_items(2, seed=1)
    assert (capped.indices == kept.indices).all()
    assert (capped.indptr == kept.indptr).all()
    assert ((2 * compact + compact).gains([1]) == (2 * plain + plain).gains([1])).all()


def test_the_first_entry_out_of_range_is_named_in_any_chunk(monkeypatch) -> None:
    monkeypatch.setattr(people_of_rows, "CHUNK", 16)
    table = np.full((40, 3), 0.5)
    table[31, 2] = table[33, 1] = 1.5
    with pytest.raises(DataError) as caught:
        ProbabilisticCoverage(sp.csr_array(table))
    assert "row 31, column 2" in caught.value.details
