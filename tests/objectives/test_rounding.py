"""Numbers as computed: what floating point adds to the influence of one person, and where digits would go."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MutualInformation,
    SaturatedCoverage,
    WeightedTopics,
    greedy,
)
from discreet.objectives.mutual_information import _movement, _rounding


def test_rounded_sums_stay_within_the_stated_sensitivity() -> None:
    """One person lifts the running sum to where all those who follow are rounded up."""
    count = 1 << 20
    half = count // 2
    rows = np.full((count, 1), 1.0)
    # The first half brings the sum to 2^19, where floats lie 2^-33 apart, and the others a little more than
    # half of that each. With one person less the sum stays below, where floats lie closer.
    rows[half:] = 2.0**-34 + 2.0**-60
    other = rows.copy()
    other[0] = 0.0
    a, b = FacilityLocation(rows, bound=1), FacilityLocation(other, bound=1)
    moved = abs(a.value([0]) - b.value([0]))
    assert moved * count > 1 + 1e-6  # more than one person is worth, in real numbers
    assert moved <= a.sensitivity("replace", "value")
    assert np.abs(a.gains([]) - b.gains([])).max() <= a.sensitivity()


def test_the_factor_is_the_proven_one() -> None:
    people = Coverage(sp.csr_array((np.ones(1), ([0], [0])), shape=(1 << 20, 8)))
    g = (len(people) + 2 * 8) * 2.0**-53
    least = 1 + 1e-9 + 4 * len(people) * g
    assert least <= len(people) * people.sensitivity("replace", "value") <= 1 + 1.001 * (least - 1)
    cut = GraphCut(np.zeros((1000, 2, 2)), bound=1)
    assert 1000 * cut.sensitivity("add_remove", "value") >= 1 + 1e-9 + 24 * 1000 * 1004 * 2.0**-53
    one = WeightedTopics(np.zeros((1000, 1)), np.zeros((2, 1)))
    many = WeightedTopics(np.zeros((1000, 5000)), np.zeros((2, 5000)))
    assert many.sensitivity() > one.sensitivity()  # sums over topics are rounded as well


def test_an_exhausted_set_has_gains_of_exactly_zero() -> None:
    rng = np.random.default_rng(1)
    for form in (np.array, sp.csr_array):
        rows = rng.random((40, 6))
        rows[:, 4] = 1.0
        state = FacilityLocation(form(rows)).start()
        state.add(4)
        assert state.gains().tolist() == [0.0] * 6
        assert greedy(FacilityLocation(form(rows)), 4)[0] == [4, 0, 1, 2]
        huge = FacilityLocation(form([[1e16, 1e16], [0, 1]]), bound=1e16).start()
        huge.add(0)
        assert huge.gains()[1] == 0.5


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("copies", [1, 3])
def test_roots_do_not_cancel(form, copies: int) -> None:
    people = ConcaveOverModular(form([[1e6, 1e-9, 0.0]] * copies), concave="sqrt", bound=2000)
    exact = 1e-9 / (2 * math.sqrt(1e6))
    gains = people.gains([0])
    assert gains[1] == pytest.approx(exact, rel=1e-12, abs=0)
    assert gains[2] == 0.0
    assert people.gains([])[0] == 1000.0


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_weights_beyond_the_cap_count_as_the_cap(form) -> None:
    people = ConcaveOverModular(form([[1e17, 0.25], [0.5, 0.25]]), concave="capped", cap=1)
    np.testing.assert_allclose(people._contributions(np.array([0, 1])), [(0.75 + 0.5) / 2, 0.25 / 2])
    assert people.total_curvature() == pytest.approx(0.5)
    assert people.value([0]) == 0.75
    steep = SaturatedCoverage(form([[1e17, 1.0]]), saturation=1e-17)
    assert steep.value([1]) == pytest.approx(1.0)


def test_a_kernel_with_a_hair_below_zero() -> None:
    people = LogDeterminant([[1, 1 + 4e-10], [1 + 4e-10, 1]], [[1e5, 1e5]], bound=100)
    rise = people.value([0, 1]) - people.value([0])
    assert rise == pytest.approx(people.gains([0])[1], abs=1e-9)
    assert people.value([0, 1]) == pytest.approx(math.log(1 + 2e10), rel=1e-6)
    assert people._contributions(np.array([0, 1])).min() >= 0


def test_entries_that_stand_twice_are_added_as_floats() -> None:
    for kind in (np.uint8, np.int8, np.float32):
        top = 100 if kind is np.int8 else 200
        twice = sp.coo_array((np.array([top, 100], dtype=kind), ([0, 0], [1, 1])), shape=(1, 2))
        people = FacilityLocation(twice, bound=1000)
        assert people.value([1]) == top + 100.0


TABLES = [(2, 1, 5000), (3, 4, 9), (400, 1, 30), (2, 9, 3)]


@pytest.mark.parametrize(("classes", "features", "values"), TABLES)
def test_information_is_as_right_as_its_sensitivity_allows(classes, features, values) -> None:
    """Against 40 digits. Only then is the sensitivity one of numbers as computed."""
    rng, people = np.random.default_rng(classes), 20_000
    table = rng.integers(0, values, (people, features)) ** 2 // values
    informed = MutualInformation(table, rng.integers(0, classes, people), n_classes=classes)
    frequencies, within = informed._model
    with mpmath.workdps(40):
        # The true frequencies of the same counts, which the model holds as quotients.
        sizes = [mpmath.mpf(round(share * people)) for share in frequencies]
        cells = [[size / people] for size in sizes]
        for chances in within:
            for place, (row, size) in enumerate(zip(chances, sizes, strict=True)):
                shares = [mpmath.mpf(round(p * float(size))) / size for p in row]
                cells[place] = [cell * share for cell in cells[place] for share in shares]
        joint = [cell for row in cells for cell in row]
        parts = [[sum(row) for row in cells], [sum(column) for column in zip(*cells, strict=True)], joint]
        of_class, of_features, of_both = (-sum(p * mpmath.log(p) for p in part if p > 0) for part in parts)
        error = abs(mpmath.mpf(informed.value(range(features))) - (of_class + of_features - of_both))
    assert error <= _rounding(classes, features)
    claimed = informed.sensitivity("replace", "value", set_size=features)
    moved = _movement(people, classes, features, "replace")
    assert claimed >= moved + 2.0 * _rounding(classes, features) * (1.0 - 1e-9)
