"""Costs as they count against gains, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.bounds.charged_costs import ChargedCosts, costs_of
from discreet.constraints import Cardinality, Intersection, Knapsack

STEP = 2.0**-16


@pytest.mark.parametrize(
    ("costs", "at_most", "least", "weights", "slack", "large", "small"),
    [
        # The mean cost of the largest feasible set (three items for 100) is the least that counts; what an
        # item costs beyond the capacity concerns nobody.
        ([90, 5, 10, 20], None, 100 / 3, [100 / 270, 1, 1, 1], 300 / 3 - 35, [0], 20),
        ([90, 5, 10, 20, 101], None, 100 / 3, [100 / 270, 1, 1, 1, 100 / 303], 300 / 3 - 35, [0], 20),
        ([90, 5, 10, 20], 2, 50, [5 / 9, 1, 1, 1], 100 - 15, [0], 20),
        ([90, 5, 10, 20], 9, 100 / 3, [100 / 270, 1, 1, 1], 300 / 3 - 35, [0], 20),  # no more than three fit
        ([90, 5, 10, 20], 0, 100, [1, 1, 1, 1], 95, [0], 20),
        ([50, 50.5, 60], None, 100, [1, 1, 1], 50, [1, 2], 50),  # half the capacity is not large
        ([60, 70], None, 100, [1, 1], 40, [0, 1], 0),
        ([80, 40, 40, 1e9], None, 50, [5 / 8, 1, 1, STEP], 20, [0], 40),  # the least weight there is
    ],
)
def test_charged_costs_by_hand(costs, at_most, least, weights, slack, large, small):
    found = ChargedCosts.of(Knapsack(np.array(costs, dtype=float), 100.0), at_most)
    assert found.weights == pytest.approx(
        [math.floor(one / STEP + 1e-6) * STEP for one in weights], rel=1e-12
    )
    assert found.charged == pytest.approx(least / found.weights)
    assert found.slack == pytest.approx(slack, abs=0.02)  # weights are rounded down
    assert (found.large.tolist(), found.dearest_small, found.capacity) == (large, small, 100.0)
    assert found.most == pytest.approx((100.0 + found.slack) / least)
    few, rest = (
        1 - math.exp(-(100.0 - small) / (100.0 + found.slack)),
        1 - math.exp(-50.0 / (50.0 + found.slack)),
    )
    assert found.ratios == pytest.approx((few, rest))
    assert found.ratio == pytest.approx(min(few, rest / (1.0 + rest)))


def test_costs_that_do_not_count():
    free = ChargedCosts.of(Knapsack([0.0, 0.0], 0.0))
    assert free.weights.tolist() == [1.0, 1.0]
    assert (free.most, free.large.size) == (2.0, 0)  # both fit
    assert free.ratio == pytest.approx(1.0 - math.exp(-1.0))


def test_very_many_items_leave_every_weight_a_step():
    """No item counts as less than the capacity over 2^15; of more than that many no ratio is known."""
    costs = np.zeros(40_000)
    costs[0] = 1.0
    found = ChargedCosts.of(Knapsack(costs, 1.0))
    assert (found.weights[0], found.weights[1]) == (2.0**-15, 1.0)
    for k, known in ((2**15 - 1, True), (2**15, False)):
        assert (costs_of(Intersection(Cardinality(k), Knapsack(costs, 1.0))).ratio is not None) == known


def test_of_several_knapsacks_the_largest_part_of_a_capacity_counts():
    one, two = Knapsack([1.0, 2.0, 8.0, 11.0], 10.0), Knapsack([3.0, 1.0, 1.0, 0.0], 6.0)
    found = costs_of(Intersection(one, Intersection(Cardinality(3), two)))
    # Parts of 0.5, 0.2 and 0.8; two items at most fit together, so that each counts for a half at least.
    assert found.weights[:3].tolist() == [1.0, 1.0, 0.625]
    assert found.ratio is None
    assert found.weights[3] < 0.5  # never fits
    assert costs_of(Intersection(one, two)).weights.tolist() == found.weights.tolist()
