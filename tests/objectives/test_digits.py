"""Greedy on scikit-learn's digits beside what two other libraries print for the same functions.

The numbers are the gains printed by apricot-select 0.6.1 (naive greedy; sums over rows) and submodlib-py
0.0.3 (NaiveGreedy; sums over rows, kernel kept in single precision). A population here reports averages, so
their gains are ours times the number of people. Similarities are max(d) - d for squared Euclidean distances d
between images, which is what apricot makes of metric="euclidean"; pixels are whole numbers, so everything up
to the concave functions is exact. Rankings must agree up to the first tie.
"""

from __future__ import annotations

import numpy as np
import pytest

from discreet.objectives import ConcaveOverModular, FacilityLocation, GraphCut, SaturatedCoverage, greedy

K = 12
APRICOT_FACILITY = [
    7448636,
    384346,
    250615,
    224118,
    166266,
    127456,
    122986,
    109483,
    93463,
    67173,
    55997,
    54721,
]
FACILITY_ITEMS = [945, 392, 1507, 793, 1417, 1039, 97, 1107, 1075, 867, 360, 186]
SUBMODLIB_FACILITY = [
    1255.0355529487133, 64.75922521948814, 42.22662150859833, 37.76208978891373, 28.014489948749542,
    21.47531569004059, 20.722156524658203, 18.44700974225998, 15.747767746448517, 11.318112671375275,
    9.435046136379242, 9.220050573348999,
]  # fmt: skip
APRICOT_CUT = [
    7442701, 7427003, 7391866, 7322511, 7283372, 7264849, 7233653, 7221496, 7206855, 7194458, 7162928,
    7149204,
]  # fmt: skip
CUT_ITEMS = [945, 426, 923, 1026, 448, 1327, 114, 1423, 255, 1295, 148, 515]
SUBMODLIB_CUT = [
    1254.6355529427528, 1253.1153498001418, 1248.3141704813252, 1237.6332939540466, 1232.0142544565165,
    1229.5916437673297, 1225.424161779766, 1224.711879329407, 1222.9322317994154, 1222.0585996781786,
    1218.0196464029589, 1216.662207584793,
]  # fmt: skip
APRICOT_SQRT = [
    124.81872458149334, 59.965372625845504, 47.76027296334328, 37.87995209971538, 34.393279205974295,
    29.818972805230487, 27.478505086541077, 25.2363085846452, 23.61272696302001, 22.600241044961592,
    21.11749420120094, 20.19137005115624,
]  # fmt: skip
SQRT_ITEMS = [818, 1296, 732, 988, 629, 1747, 951, 235, 1375, 1205, 1572, 1766]
APRICOT_LOG = [
    91.58159111469183, 34.60736937191237, 25.541955487913697, 16.445193046708397, 13.983797487452534,
    11.147474741218218, 9.166615654871066, 7.636322617385872, 6.887164029127206, 5.778394717968553,
    5.34534562468005, 4.771651381609161,
]  # fmt: skip
LOG_ITEMS = [818, 1296, 732, 988, 629, 1657, 1375, 1572, 1271, 1070, 163, 873]
SUBMODLIB_LOG = [
    19.787031817660722, 12.952902812571974, 10.897535378845912, 8.947708314000076, 7.598326309223728,
    6.565042826514511, 6.02824530610985, 5.510542724843762, 4.848199092339042, 4.420453160590483,
    4.24664183891453, 3.946949046074039,
]  # fmt: skip
SUBMODLIB_LOG_ITEMS = [818, 988, 1296, 732, 1273, 1375, 163, 1070, 1086, 629, 1572, 1657]
APRICOT_SATURATED = [
    7448636.0, 7444064.0, 7419997.0, 7360582.0, 7331093.0, 6745436.171999961, 1871128.9000000209,
    1876.9720000326633, 0.0, 0.0, 0.0, 0.0,
]  # fmt: skip
# From the eighth on many images fill the last rows equally well.
SATURATED_ITEMS = [945, 426, 923, 1026, 448, 255, 1229]


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    from sklearn.datasets import load_digits

    return load_digits().data.astype(float)


@pytest.fixture(scope="module")
def similarity(pixels: np.ndarray) -> np.ndarray:
    squares = (pixels**2).sum(axis=1)
    distance = squares[:, None] + squares[None, :] - 2 * pixels @ pixels.T
    return distance.max() - distance


def test_facility_location(similarity: np.ndarray) -> None:
    items, gains = greedy(FacilityLocation(similarity), K)
    assert items == FACILITY_ITEMS
    np.testing.assert_allclose(gains * len(similarity), APRICOT_FACILITY, rtol=1e-12)
    scaled = FacilityLocation(similarity / similarity.max())
    np.testing.assert_allclose(greedy(scaled, K)[1] * len(similarity), SUBMODLIB_FACILITY, rtol=1e-6)


def test_saturated_coverage(similarity: np.ndarray) -> None:
    """apricot with alpha=0.004: rows are full after about seven images. submodlib has no such function."""
    items, gains = greedy(SaturatedCoverage(similarity, saturation=0.004), K)
    assert items[:7] == SATURATED_ITEMS
    np.testing.assert_allclose(gains * len(similarity), APRICOT_SATURATED, rtol=1e-9, atol=1e-6)


def test_graph_cut(similarity: np.ndarray) -> None:
    """Their graph cut: a r(S) - b s(S, S), with row sums r; s(S, S) counts both directions and loops.

    s(S, S) = r(S) - cut(S), so theirs is b cut(S) + (a - b) r(S): apricot a = 1 (alpha), b = 1; submodlib a =
    1, b = 0.4 (lambdaVal).
    """
    rows = similarity.sum(axis=1)
    items, gains = greedy(GraphCut(similarity, modular=0 * rows), K)
    assert items == CUT_ITEMS
    np.testing.assert_allclose(gains, APRICOT_CUT, rtol=1e-12)
    top = similarity.max()
    items, gains = greedy(GraphCut(0.4 * similarity / top, modular=0.6 * rows / top), K)
    assert items == CUT_ITEMS
    np.testing.assert_allclose(gains, SUBMODLIB_CUT, rtol=1e-6)


@pytest.mark.parametrize(
    ("concave", "expected_items", "expected"),
    [("sqrt", SQRT_ITEMS, APRICOT_SQRT), ("log", LOG_ITEMS, APRICOT_LOG)],
)
def test_feature_based(
    pixels: np.ndarray, concave: str, expected_items: list[int], expected: list[float]
) -> None:
    """Their features are our people: one concave function of the chosen images' total ink per pixel."""
    items, gains = greedy(ConcaveOverModular(pixels.T, concave=concave), K)
    assert items == expected_items
    np.testing.assert_allclose(gains * pixels.shape[1], expected, rtol=1e-9)


def test_feature_based_with_features_scaled_to_one(pixels: np.ndarray) -> None:
    """submodlib scales every feature to [0, 1] before it starts; the concave function is log(1 + t)."""
    spread = pixels.max(axis=0) - pixels.min(axis=0)
    scaled = (pixels - pixels.min(axis=0)) / np.where(spread > 0, spread, 1)
    items, gains = greedy(ConcaveOverModular(scaled.T, concave="log"), K)
    assert items == SUBMODLIB_LOG_ITEMS
    np.testing.assert_allclose(gains * pixels.shape[1], SUBMODLIB_LOG, rtol=1e-6)
