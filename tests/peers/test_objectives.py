"""Gains of greedy selection as apricot and submodlib compute them, on random instances."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.objectives import ConcaveOverModular, FacilityLocation, SaturatedCoverage, greedy

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs, about newer versions of numpy and numba
K = 8
seeds = pytest.mark.parametrize("seed", range(5))


def _similarity(seed: int) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(60, 4))
    return np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 8.0)


def _features(seed: int) -> np.ndarray:
    """Every feature goes from 0 to 1: submodlib scales them to that by itself."""
    matrix = np.random.default_rng(seed).random((50, 12)) ** 3
    matrix -= matrix.min(axis=0)
    return matrix / matrix.max(axis=0)


def _same(ours, items, gains, times):
    np.testing.assert_allclose(ours[1] * times, gains, rtol=1e-5)
    assert ours[0] == list(items)


@seeds
def test_facility_location_as_in_apricot(seed):
    apricot = pytest.importorskip("apricot")
    matrix = _similarity(seed)
    found = apricot.FacilityLocationSelection(K, metric="precomputed", optimizer="naive").fit(matrix)
    _same(greedy(FacilityLocation(matrix), K), found.ranking, found.gains, len(matrix))


@seeds
def test_facility_location_as_in_submodlib(seed):
    submodlib = pytest.importorskip("submodlib")
    matrix = _similarity(seed)
    theirs = submodlib.FacilityLocationFunction(n=len(matrix), mode="dense", sijs=matrix, separate_rep=False)
    items, gains = zip(*theirs.maximize(budget=K, optimizer="NaiveGreedy", show_progress=False), strict=True)
    _same(greedy(FacilityLocation(matrix), K), items, gains, len(matrix))


@seeds
def test_values_of_any_set_as_in_submodlib(seed):
    submodlib = pytest.importorskip("submodlib")
    matrix, rng = _similarity(seed), np.random.default_rng(seed)
    theirs = submodlib.FacilityLocationFunction(n=len(matrix), mode="dense", sijs=matrix, separate_rep=False)
    people = FacilityLocation(matrix)
    for size in (1, 3, 10):
        some = rng.choice(len(matrix), size, replace=False).tolist()
        assert people.value(some) * len(matrix) == pytest.approx(theirs.evaluate(set(some)), rel=1e-5)


@seeds
@pytest.mark.parametrize("concave", ["sqrt", "log"])
def test_concave_over_modular_as_in_apricot(seed, concave):
    apricot = pytest.importorskip("apricot")
    matrix = _features(seed)
    found = apricot.FeatureBasedSelection(K, concave_func=concave, optimizer="naive").fit(matrix)
    _same(
        greedy(ConcaveOverModular(matrix.T, concave=concave), K), found.ranking, found.gains, matrix.shape[1]
    )


@seeds
def test_concave_over_modular_as_in_submodlib(seed):
    submodlib = pytest.importorskip("submodlib")
    from submodlib_cpp import FeatureBased

    matrix = _features(seed)
    theirs = submodlib.FeatureBasedFunction(
        n=len(matrix),
        features=matrix,
        numFeatures=matrix.shape[1],
        sparse=False,
        mode=FeatureBased.squareRoot,
    )
    items, gains = zip(*theirs.maximize(budget=K, optimizer="NaiveGreedy", show_progress=False), strict=True)
    _same(greedy(ConcaveOverModular(matrix.T, concave="sqrt"), K), items, gains, matrix.shape[1])


@seeds
def test_saturated_coverage_as_in_apricot(seed):
    apricot = pytest.importorskip("apricot")
    matrix = _similarity(seed)
    found = apricot.SaturatedCoverageSelection(K, metric="precomputed", alpha=0.2, optimizer="naive").fit(
        matrix
    )
    _same(greedy(SaturatedCoverage(matrix, saturation=0.2), K), found.ranking, found.gains, len(matrix))
