"""What papers say that a round costs, in evaluations, space and time, counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.constraints.domains import Ball
from discreet.objectives import SetFunction
from discreet.online import ApproximateLeader, BanditSelector, HedgeSelector, RunningSumSelector
from discreet.privacy import TreeSum, tree_levels

BUDGET, PURE = dc.Budget(1.0, 1e-6), dc.Budget(1.0)


@pytest.mark.parametrize("kind", [HedgeSelector, RunningSumSelector])
@pytest.mark.parametrize(("n", "k"), [(6, 2), (12, 3), (24, 3)])
def test_a_round_of_k_experts_takes_k_n_values_of_a_function(kind, n, k):
    """Paper 000, Section 1.1: O(k n) a round; what each item adds for each expert, and the sets before it."""
    asked = []

    def function(chosen):
        asked.append(tuple(chosen))
        return len(chosen) / n

    learner = kind(n, k, 3, BUDGET, seed=0)
    for _ in range(3):
        asked.clear()
        learner.choose()
        learner.learn(SetFunction(function, n, 1.0, monotone=True))
        assert n - k <= len(asked) <= k * (n + 1)


@pytest.mark.parametrize("exploration", ["online", "presampled", "every_round", "blocks"])
def test_space_of_a_bandit_does_not_grow_with_the_rounds(exploration):
    """Paper 000, Section 4: exploring rounds drawn in advance take T^(2/3) numbers there, none here."""
    sizes = []
    for rounds in (10**5, 10**8):
        learner = BanditSelector(4, 1, rounds, BUDGET, exploration=exploration, seed=0)
        for _ in range(50):
            learner.choose()
            learner.learn(0.5)
        sizes.append(len(learner.to_bytes()))
    assert sizes[1] <= sizes[0] + 200
    assert sizes[1] < 8 * (10**8) ** (2 / 3)


@pytest.mark.parametrize("rounds", [2**6, 2**12, 2**18])
def test_trees_hold_a_vector_for_each_level(rounds):
    """Paper 004, abstract and Section 2.1: space and time O(log T)."""
    tree = TreeSum(3, rounds, PURE, noise="spherical", norm_bound=1.0, seed=0)
    assert tree.spec.most_draws <= tree_levels(rounds) == math.ceil(math.log2(rounds))
    learner = ApproximateLeader(Ball(3), rounds, PURE, lipschitz=1.0, seed=0)
    small = ApproximateLeader(Ball(3), 4, PURE, lipschitz=1.0, seed=0)
    for one in (learner, small):
        one.choose()
        one.learn(dc.objectives.losses.Linear(np.full((1, 3), 0.1), row_norm=1.0))
    more = tree_levels(rounds) - tree_levels(4)
    assert len(learner.to_bytes()) - len(small.to_bytes()) <= 8 * 3 * 4 * more + 200
