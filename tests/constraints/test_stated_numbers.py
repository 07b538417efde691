"""Radii, tolerances, units and largest numbers of constraints and domains, beside ones worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Knapsack,
    LaminarMatroid,
    LinearMatroid,
    PartitionMatroid,
    TransversalMatroid,
)
from discreet.constraints.domains import Ball, Box, CappedSimplex, Domain, Simplex
from discreet.constraints.residual import rest_of


@pytest.mark.parametrize(("n", "k"), [(4, 1.0), (4, 2.0), (5, 2.5), (4, 3.3), (3, 0.7), (5, 4.0), (2, 1.5)])
@pytest.mark.parametrize("exactly", [True, False])
def test_the_outer_radius_is_the_distance_of_the_furthest_corner(n, k, exactly):
    """Of points with one fraction at most, which all corners are."""
    domain, fraction = CappedSimplex(n, k, exactly), k - math.floor(k)
    points = [np.array(point) for point in itertools.product((0.0, fraction, 1.0), repeat=n)]
    inside = [p for p in points if (abs(p.sum() - k) < 1e-9 if exactly else p.sum() < k + 1e-9)]
    furthest = max(float(np.linalg.norm(point - domain.center)) for point in inside)
    assert domain.outer_radius == pytest.approx(furthest, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "inner", "outer", "diameter"),
    [
        (lambda: Ball(3, 2.0, [1.0, 0.0, -1.0]), 2.0, 2.0, 4.0),
        (lambda: Box([-1.0, 0.0], [1.0, 0.5]), 0.25, math.hypot(1.0, 0.25), math.hypot(2.0, 0.5)),
        (lambda: Simplex(4), math.sqrt(1 / 12), math.sqrt(3 / 4), math.sqrt(2.0)),
        (
            lambda: Simplex(4).shrunk(0.25),
            0.75 * math.sqrt(1 / 12),
            0.75 * math.sqrt(3 / 4),
            0.75 * math.sqrt(2.0),
        ),
        (lambda: CappedSimplex(4, 3.0), math.sqrt(1 / 12), math.sqrt(3 / 4), math.sqrt(2.0)),
        (lambda: CappedSimplex(4, 1.5, exactly=False), 0.25, math.sqrt(0.75), math.sqrt(3.0)),
        (lambda: CappedSimplex(4, 9.0, exactly=False), 0.5, 1.0, 2.0),
        (lambda: CappedSimplex(4, 1.2, exactly=False), 0.2, math.sqrt(0.76), math.sqrt(2.4)),  # (1, 0, 0, 0)
        (lambda: CappedSimplex(4, 1.8, exactly=False), 0.3, math.sqrt(0.92), math.sqrt(3.6)),  # (1, .8, 0, 0)
        (lambda: Domain.from_projection(lambda x: np.clip(x, -1, 1), 2, 0.5, 1.5), 0.5, 1.5, 3.0),
    ],
)
def test_radii_and_diameters(make, inner, outer, diameter):
    domain = make()
    found = domain.inner_radius, domain.outer_radius, domain.diameter
    assert found == pytest.approx((inner, outer, diameter), rel=1e-12)


def test_a_point_may_be_outside_by_a_share_of_the_size_of_a_set():
    for domain, axis in (
        (Ball(2, 1e-3), 1.0),
        (Ball(2, 100.0), 100.0),
        (Ball(2, 1.0, [500.0, 0.0]), 500.0),
    ):
        edge = domain.center + np.array([domain.outer_radius, 0.0])
        for tolerance in (1e-9, 1e-6):
            for off, inside in ((0.5, True), (2.0, False)):
                point = edge + np.array([off * tolerance * axis, 0.0])
                assert domain.contains(point, tolerance) is inside


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_set_is_tried_in_its_own_unit(unit):
    def cube(point):
        return np.clip(point, -unit, unit)

    assert Domain.from_projection(cube, 3, unit, 1.74 * unit).diameter == pytest.approx(3.48 * unit)
    for inner, outer, message in ((1.00001, 1.74, "its own ball"), (1.0, 1.73, "further than outer_radius")):
        with pytest.raises(ValueError, match=message):
            Domain.from_projection(cube, 3, inner * unit, outer * unit)

    def rounded(point):  # off by a hundred thousandth of the set
        return np.rint(cube(point) / (1e-5 * unit)) * 1e-5 * unit

    with pytest.raises(ValueError, match=r"its own ball|nearest point|projecting twice"):
        Domain.from_projection(rounded, 3, 0.9 * unit, 1.74 * unit)


def test_points_with_a_large_sum_are_decomposed_without_overflow():
    """Two halves of 6,000 items: sums of their lengths are beyond 64 bits unless the unit gives way."""
    for total in (100, 6000):
        parts = Cardinality(total // 2, total).decompose(np.full(total, 0.5))
        assert sorted(part.size for part in parts.sets) == [total // 2] * 2
        assert np.sort(np.concatenate(parts.sets)).tolist() == list(range(total))
        assert parts.weights.tolist() == [0.5, 0.5]


def test_numbers_of_items_beyond_64_bits_are_refused_by_name():
    assert Cardinality(2).contains([2**63 - 2])
    for items in ([2**63 - 1], [2**63], [0, 2**70]):
        with pytest.raises(ValueError, match=rf"S\[{len(items) - 1}\]="):
            Cardinality(2).contains(items)
    for capacity in (2**63 - 1, 2**63):
        for make in (
            lambda c: PartitionMatroid([[0], [1]], c),
            lambda c: LaminarMatroid([[0], [0, 1]], [1, c]),
        ):
            with pytest.raises(ValueError, match="capacities"):
                make(capacity)
    for items, wrong in (([3, -2], -2), ([0, 5, 2], 5)):
        with pytest.raises(ValueError, match=rf"S\[1\]={wrong} is out of range; items are 0..4"):
            Cardinality(2, 5).contains(np.array(items))
    with pytest.raises(ValueError, match="S holds item 4 3 times"):
        Cardinality(2, 5).contains(np.array([1, 4, 4, 0, 4]))
    with pytest.raises(ValueError, match="n_items"):
        TransversalMatroid([[10**7]])


def test_a_knapsack_at_its_limit():
    """Costs may exceed the capacity by a relative 1e-12 and no more, whatever their unit."""
    for unit in (1e-300, 1.0, 1e300):
        for off, fits in ((5e-13, True), (2e-12, False)):
            bag = Knapsack(np.array([0.5, 0.5 + off, 0.25]) * unit, unit)
            assert bag.contains([0, 1]) is fits
            assert bag.addable([0]).tolist() == [False, fits, True]
        for x, inside in (([1.0, 1.0, 5e-10], True), ([1.0, 1.0, 9e-9], False), ([1.0, 1.0, -5e-10], True)):
            assert Knapsack(np.array([0.5, 0.5, 1.0]) * unit, unit).in_polytope(x) is inside
        for off, fits in ((2e-13, True), (7e-13, False)):  # half of that in what is left of it
            bag = Knapsack(np.array([0.5, 0.5 + off, 0.1]) * unit, unit)
            left = rest_of(bag, np.array([0]), np.array([1, 2]))
            assert left.contains([0]) is fits
            assert bag.contains([0, 1])


def test_a_point_near_a_polytope_and_costs_in_decimals():
    """Each edge of a triangle may be off by the tolerance, all three together by three times as much."""
    triangle = GraphicMatroid([(0, 1), (1, 2), (2, 0)])
    for off, tol, inside in (
        (0.9e-3, 1e-3, True),
        (1.1e-3, 1e-3, False),
        (0.0, 0.0, True),
        (1e-9, 0.0, False),
    ):
        assert triangle.in_polytope([2 / 3 + off] * 3, tol) is inside
    assert triangle.in_polytope([0.5, 1.0, 0.25], 0.0)
    # 0.1 + 0.2 leaves a little less than 0.3 of 0.6.
    parts = Knapsack([0.1, 0.2, 0.3], 0.6).decompose([1.0, 1.0, 1.0])
    assert parts.sets[0].tolist() == [0, 1, 2]
    assert parts.weights[0] == pytest.approx(1.0, abs=1e-12)


def test_steps_of_a_projection_are_counted():
    """Two cycles that are too full: at least one step for each of two searches."""
    two = LinearMatroid([[1, 0, 1, 0, 1], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
    assert two.project_entropy(np.array([15.0, 10.0, 12.5, 0.5, 2.0]), log=True, base=True).iterations >= 2
