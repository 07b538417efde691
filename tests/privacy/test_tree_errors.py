"""Errors of the binary tree and of factorizations, by going through all of their rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.privacy.factorizations import BinaryTree, factorization
from tests.privacy.toeplitz import decoder_column, encoder_column


@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 8, 9, 100, 1024])
def test_errors_of_a_tree_are_those_of_its_blocks(rounds, combined):
    """A block and the two halves of it are averaged by their variances: 1 and 2 v make 2 v / (2 v + 1)."""
    levels = next(count for count in range(1, 20) if 2**count >= rounds)
    variances = [1.0]
    for _ in range(levels - 1):
        variances.append(1 / (1 + 1 / (2 * variances[-1])) if combined else 1.0)
    whole = [[levels - 1] * 2] if rounds == 2**levels else []  # the two halves of a full tree
    blocks = [[level for level in range(levels) if step >> level & 1] for step in range(2**levels)] + whole
    rows = [sum(variances[level] for level in one) for one in blocks[: rounds + 1]]
    tree = BinaryTree(rounds, combined)
    assert [tree.row_norm(step) for step in range(rounds + 1)] == pytest.approx(np.sqrt(rows))
    assert [tree.draws(step) for step in range(rounds + 1)] == [len(one) for one in blocks[: rounds + 1]]
    full = max(sum(variances), 2 * variances[-1])  # at the end of a full tree, or just before
    assert (tree.uses, tree.worst_error) == (levels, pytest.approx(math.sqrt(levels * full)))
    assert tree.most_draws == max(levels, 2 if rounds == 2 else 1)
    half = sum(variances) / 2 + 2 / (rounds + 1)  # each block in half of the rounds, a full tree in one
    assert tree.mean_error == pytest.approx(math.sqrt(levels * half))
    assert half >= np.mean(rows)


def test_average_draws_of_a_tree():
    """Half of the levels that T - 1 rounds take, and the two halves of a full tree for one round."""
    found = [BinaryTree(rounds).mean_draws for rounds in (1, 2, 3, 8, 9, 1000)]
    assert found == pytest.approx([0.5 + 2, 0.5 + 1, 0.5 + 2 / 3, 1.5 + 1 / 4, 1.5 + 2 / 9, 5 + 1 / 500])


@pytest.mark.parametrize("method", ["sqrt", "blt"])
@pytest.mark.parametrize("rounds", [1, 5, 40, 1000])
def test_the_mean_error_of_a_factorization_is_hardly_overstated(method, rounds):
    factors = factorization(method, rounds)
    norms = np.sqrt(np.cumsum(decoder_column(factors, rounds) ** 2))
    mean = math.sqrt(np.sum(encoder_column(factors, rounds) ** 2)) * norms.mean()
    assert mean * (1 - 1e-9) <= factors.mean_error <= mean * 1.001
    assert factors.lasts == pytest.approx([min(rounds, 1 / (1 - decay)) for decay in factors.decays])
