"""Steps of running sums against slow, obvious ones in NumPy and fractions, bit by bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.kernels.prefix_sums import FactorizedPrefix, TreePrefix
from discreet.privacy import Budget, FactorizedSum
from discreet.privacy.factorizations import BinaryTree, factorization, tree_levels
from discreet.privacy.prefix_sum import VectorBounds
from discreet.privacy.samplers import Grid

GRID = (3_000_000_000, -60, 3_000_000_000 * 2.0**-60)


def truncated(values):
    step = Fraction(GRID[0]) * Fraction(2) ** GRID[1]
    return np.array([math.trunc(Fraction(value) / step) for value in values.tolist()])


def encode(buffers, decays, weights, vector):
    """``vector + sum(weights * buffers)``, then ``buffers = decays * buffers + vector``."""
    out = vector.copy()
    for buffer, weight in zip(buffers, weights, strict=True):
        out += weight * buffer
    buffers *= decays[:, None]
    buffers += vector
    return out


def decode(buffers, decays, weights, released):
    """What `encode` made of which vector, by what was released of it."""
    fresh = released.copy()
    for buffer, weight in zip(buffers, weights, strict=True):
        fresh -= weight * buffer
    buffers *= decays[:, None]
    buffers += fresh
    return fresh


class Tree:
    """Finished blocks that later sums need, the largest first: level, sum, estimate, variance, prefix."""

    def __init__(self, levels, combined):
        self.top, self.combined, self.nodes = levels - 1, combined, []

    def add(self, steps, noises):
        """The released sum of all vectors, the last of them ``steps``; a row of noise for each release."""
        total, level, nodes, noise = steps, 0, list(self.nodes), iter(noises)
        estimate, variance = (total + next(noise) if self.combined else total), 1.0
        while level < self.top and nodes and nodes[-1][0] == level:
            _, other, other_estimate, other_variance, _ = nodes.pop()
            total = total + other
            level += 1
            if self.combined:
                halves, spread = estimate + other_estimate, variance + other_variance
                share = spread / (spread + 1.0)
                estimate = share * (total + next(noise)) + (1.0 - share) * halves
                variance = share * share + (1.0 - share) ** 2 * spread
        if not self.combined:
            estimate = total + next(noise)
        prefix = estimate + nodes[-1][-1] if nodes else estimate
        self.nodes = [*nodes, (level, total, estimate, variance, prefix)]
        return prefix


def vectors(rng, count, size):
    found = rng.random((count, size)) * (rng.random((count, size)) < 0.3)
    for row in found:
        row[rng.integers(size)] = round(1 / GRID[2]) * GRID[2]  # truncated next to a grid line
        row[rng.integers(size)] = -(10.0 ** rng.integers(-9, 9))
    return found


def noises(rng, count, size):
    noise = np.rint(rng.normal(0.0, 2.0**32, (count, size))).astype(np.int64)
    if count > 3:
        noise[3] = rng.integers(-(2**60), 2**60, size)
    return noise


@pytest.mark.parametrize("size", [1, 7, 8, 128, 133, 400])
def test_steps_of_a_factorized_sum_are_those_in_numpy(size):
    rng, found = np.random.default_rng(size), factorization("sqrt", 500)
    noise, given = noises(rng, 20, size), vectors(rng, 20, size)
    decays, weights = found.decays, found.weights
    ours = [np.zeros((2, decays.size, size)) for _ in range(3)]
    prefixes = np.zeros((2, size))
    halves, loop = (
        FactorizedPrefix(GRID, prefix, decays, weights, *own)
        for prefix, own in zip(prefixes, ours, strict=False)
    )
    loop.give(noise)
    known = np.zeros(size)
    for row in range(20):
        filtered = encode(ours[2][0], decays, weights, given[row])
        steps = halves.encode(given[row])
        assert np.array_equal(steps, truncated(filtered)[None])
        halves.decode(steps + noise[row])
        loop.add(given[row][None])
        released = (truncated(filtered) + noise[row]).astype(np.float64) * GRID[2]
        known += decode(ours[2][1], decays, weights, released)
        assert np.array_equal(prefixes[0], known)
        assert np.array_equal(prefixes[1], known)
    assert all(np.array_equal(own, ours[2]) for own in ours)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 13, 64])
def test_steps_of_a_tree_are_those_in_numpy(rounds, combined, private):
    rng, size, levels = np.random.default_rng(rounds), 5, tree_levels(rounds)
    whole = np.int64 if private else np.float64
    kinds = (whole, *(2 * [np.float64 if combined else whole]))
    nodes = [np.zeros((levels + 1, size), dtype=kind) for kind in kinds]
    prefix, shares = np.zeros(size), BinaryTree(rounds).shares if combined else None
    tree = TreePrefix(GRID if private else None, prefix, *nodes, 0, shares, 0, 0.0)
    plain, given = Tree(levels, combined), vectors(rng, rounds, size)
    for vector in given:
        sums = tree.encode(vector)
        noise = noises(rng, len(sums), size) if private else np.zeros(sums.shape)
        tree.decode(sums + noise)
        known = plain.add(truncated(vector) if private else vector, noise)
        assert np.array_equal(prefix, known.astype(np.float64) * GRID[2] if private else known)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("rounds", [2, 13, 64])
def test_loops_shorten_vectors_as_they_are_checked_one_by_one(rounds, norm):
    rng, size, levels = np.random.default_rng(rounds), 9, tree_levels(rounds)
    nodes, prefix = np.zeros((3, levels + 1, size), dtype=np.int64), np.zeros(size)
    tree = TreePrefix(GRID, prefix, *nodes, 0, None, norm, 1.5)
    plain, bounds = Tree(levels, combined=False), VectorBounds(size, norm, norm_bound=1.5)
    given = rng.normal(size=(rounds, size)) * 10.0 ** rng.integers(-3, 2, (rounds, 1))
    noise = noises(rng, rounds, size)
    tree.give(noise)
    for row, vector in enumerate(given):
        tree.add(vector[None])
        known = plain.add(truncated(bounds.checked(vector, clip=True)), noise[row : row + 1])
        assert np.array_equal(prefix, known.astype(np.float64) * GRID[2])
    assert tree.taken == rounds


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("bound", [1e-250, 3e-16, 1e-4, 1.0])
def test_vectors_of_any_size_are_shortened_to_their_bound(bound, norm):
    """Near the end of floats a norm is infinite, or a bound divided by it has no digits left."""
    largest = np.finfo(float).max
    for vector in (np.full(4, largest), np.array([1.2e308, 0.0, -1.0, 0.0]), np.full(4, 1e300)):
        short = VectorBounds(4, norm, norm_bound=bound).checked(vector, clip=True)
        size = np.abs(short / bound).sum() if norm == 1 else np.hypot.reduce(short / bound)
        assert size == pytest.approx(1.0, rel=1e-14)
        nodes, prefix = np.zeros((3, 2, 4), dtype=np.int64), np.zeros(4)
        step = Grid.at_least(Fraction(bound) / 2**32)
        grid = (step.mantissa, step.exponent, float(step.step))
        tree = TreePrefix(grid, prefix, *nodes, 0, None, norm, bound)
        tree.give(np.zeros((1, 4), dtype=np.int64))
        tree.add(vector[None])
        assert np.array_equal(prefix, step.values(step.truncate(short)))
    with pytest.raises(ValueError, match="must be at least"):
        VectorBounds(4, norm, norm_bound=1e-322)


def test_sums_refuse_what_does_not_fit():
    zeros, found = np.zeros, factorization("sqrt", 500)
    size, count = 3, found.decays.size
    buffers = (zeros((count, size)), zeros((count, size)))
    total = FactorizedPrefix(GRID, zeros(size), found.decays, found.weights, *buffers)
    with pytest.raises(ValueError, match="row of noise"):
        total.add(zeros((1, size)))
    total.give(zeros((2, size), dtype=np.int64))
    total.add(zeros((1, size)))
    with pytest.raises(ValueError, match="1 are left"):
        total.add(zeros((2, size)))
    for wrong in (zeros((1, 2)), zeros((0, 4))):
        with pytest.raises(ValueError, match="do not fit"):
            total.add(wrong)
    with pytest.raises(ValueError, match="does not fit"):
        total.encode(zeros(4))
    for shape in ((2, size), (1, 2)):
        with pytest.raises(ValueError, match="expected"):
            total.decode(zeros(shape, dtype=np.int64))
    for weights, encoder in ((found.weights[1:], buffers[0]), (found.weights, zeros((count, 2)))):
        with pytest.raises(ValueError, match=r"weight|buffers"):
            FactorizedPrefix(GRID, zeros(size), found.decays, weights, encoder, buffers[1])
    with pytest.raises(ValueError, match="mantissa"):
        FactorizedPrefix((1, 0, 1.0), zeros(size), found.decays, found.weights, *buffers)


def test_trees_refuse_what_does_not_fit():
    def made(grid=GRID, levels=2, taken=0, kind=np.int64, rows=3, shares=None, norm=2):
        nodes = [np.zeros((levels + 1 if at else rows, 4), dtype=kind) for at in range(3)]
        return TreePrefix(grid, np.zeros(4), *nodes, taken, shares, norm, 1.0)

    for taken in (-1, 5):
        with pytest.raises(ValueError, match="has not taken"):
            made(taken=taken)
    with pytest.raises(ValueError, match="expected"):
        made(rows=4)
    with pytest.raises(ValueError, match="dtype"):
        made(kind=np.float64)
    with pytest.raises(ValueError, match="dtype"):
        made(grid=None)
    with pytest.raises(ValueError, match="weight"):
        made(shares=np.zeros(0))
    full = made(taken=4)
    for step in (lambda: full.encode(np.zeros(4)), lambda: full.decode(np.zeros((1, 4), dtype=np.int64))):
        with pytest.raises(ValueError, match="all of its vectors"):
            step()
    one = made(taken=3)
    one.give(np.zeros((2, 4), dtype=np.int64))
    with pytest.raises(ValueError, match="does not take 2 more"):
        one.add(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="declared length"):
        made(norm=0).add(np.zeros((0, 4)))


def test_vectors_need_not_lie_in_one_piece():
    vector = np.linspace(0.0, 0.1, 40)
    apart, whole = (FactorizedSum(20, 5, Budget(1.0, 1e-6), norm_bound=1.0, seed=1) for _ in range(2))
    assert np.array_equal(apart.add(vector[::2]), whole.add(vector[::2].copy()))
