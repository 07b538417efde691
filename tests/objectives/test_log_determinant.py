"""Log-determinants of many items: in memory like the rows', and each person's numbers their own."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from discreet.core.checks import DataError
from discreet.objectives import LogDeterminant, log_determinant


def _crowd(people: int, items: int, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    features = rng.random((items, 12))
    return features @ features.T / 12, rng.random((people, items)) * (rng.random((people, items)) < share)


def _direct(kernel: np.ndarray, quality: np.ndarray, items: list[int]) -> np.ndarray:
    """log det(I + L_S) of every person, by LU."""
    block = kernel[np.ix_(items, items)]
    return np.array(
        [np.linalg.slogdet(np.eye(len(items)) + np.outer(q, q) * block)[1] for q in quality[:, items]]
    )


@pytest.mark.parametrize("entries", [1 << 20, 1])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_the_same_numbers_however_many_people_are_worked_out_at_once(monkeypatch, entries, share) -> None:
    monkeypatch.setattr(log_determinant, "_ENTRIES", entries)
    kernel, quality = _crowd(9, 20, share)
    people = LogDeterminant(kernel, quality, bound=100)
    order = [3, 19, 0, 7, 11]
    np.testing.assert_allclose(people._largest(), _direct(kernel, quality, list(range(20))), rtol=1e-12)
    assert people.value(order) == pytest.approx(_direct(kernel, quality, order).mean(), abs=1e-9)
    rises = np.diff([0.0] + [_direct(kernel, quality, order[: t + 1]).mean() for t in range(5)])
    np.testing.assert_allclose(people._chain(np.array(order)), rises, atol=1e-9)
    last = [
        people.value(order) - _direct(kernel, quality, order[:t] + order[t + 1 :]).mean() for t in range(5)
    ]
    np.testing.assert_allclose(people._contributions(np.array(order)), last, atol=1e-9)


@pytest.mark.parametrize("settled", [True, False], ids=["by Hadamard", "by the factor"])
def test_construction_holds_a_few_matrices_not_one_for_everybody(monkeypatch, settled) -> None:
    kernel, quality = _crowd(60, 120)
    quality *= 0.1
    reach = _direct(kernel, quality, list(range(120)))
    bound = 1e3 if settled else float(reach.max()) * (1 + 1e-10)
    monkeypatch.setattr(log_determinant, "_ENTRIES", 1)
    try:
        tracemalloc.start()
        people = LogDeterminant(kernel, quality, bound=bound)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert people.bound == bound
    assert peak < 12 * kernel.nbytes + 4 * quality.nbytes  # a matrix for everybody would be 60 kernels
    with pytest.raises(ValueError, match="declare a larger one"):
        LogDeterminant(kernel, quality, bound=float(reach.max()) * (1 - 1e-6))


def test_nobody_passes_for_less_than_an_item_adds() -> None:
    """Beside huge qualities rounding leaves nothing of later pivots: their sum was 40, one gain was 522."""
    rng = np.random.default_rng(0)
    accepted = 0
    for _ in range(60):
        first, *others = 10.0 ** np.array([rng.uniform(7, 9), *rng.uniform(9, 150, 2)])
        quality = np.array([[first, *others], [0.1, 0.2, 0.3]])
        for bound in (40.0, 300.0, 1500.0):
            try:
                people = LogDeterminant(np.ones((3, 3)), quality, bound=bound)
            except DataError:
                continue
            accepted += 1
            for chosen in ([], [0], [1], [2, 0]):
                assert people[0].gains(chosen).max() <= bound * (1 + 1e-9)
                assert people[0].value(chosen) <= bound * (1 + 1e-9)
                assert (people.gains(chosen) * 2 <= bound + 2.0).all()  # the other's whole part is below 1
    assert accepted >= 20
