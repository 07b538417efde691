"""Knapsacks whose items cost nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.bounds.charged_costs import costs_of
from discreet.constraints import Cardinality, Intersection, Knapsack


@pytest.mark.parametrize("most", [2, 3])
def test_free_items_count_as_at_most_so_many(most):
    """Without room only free items fit, any of them: each counts as one, and sets have ``most`` or fewer."""
    bag = Knapsack([0.0, 0.0, 0.0, 7.0], 0.0)
    costs = costs_of(bag if most == 3 else Intersection(Cardinality(most), bag))
    np.testing.assert_array_equal(costs.charged, costs.weights)
    assert (costs.most, costs.ratio) == (most, pytest.approx(1 - 1 / math.e))
