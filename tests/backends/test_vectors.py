"""Loops on eight coordinates at a time against what NumPy makes of the same numbers, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.backends import arrays
from discreet.backends.numba import sums
from discreet.privacy import Budget, FactorizedSum
from discreet.privacy.sums.compiled import NO_TREE
from discreet.privacy.sums.factorized import factorization


@pytest.mark.parametrize("size", [1, 7, 8, 133, 400])
def test_steps_of_a_sum_are_those_in_numpy(size):
    rng, found = np.random.default_rng(size), factorization("sqrt", 500)
    mantissa, exponent = 3_000_000_000, -60
    step = mantissa * 2.0**exponent
    noise = np.rint(rng.normal(0.0, 2.0**32, (20, size))).astype(np.int64)
    noise[3] = rng.integers(-(2**61), 2**61, size)
    buffers = np.zeros((2, found.decays.size, size))
    encoder, decoder = buffers.copy()
    coders = (*buffers, found.decays.copy(), found.weights.copy())
    state = (True, mantissa, exponent, step, noise, *coders, NO_TREE)
    prefix, known = np.zeros((2, size))
    filtered, steps = np.empty(size), np.empty(size, dtype=np.int64)
    for row in range(20):
        vector = rng.random(size) * (rng.random(size) < 0.3)
        vector[rng.integers(size)] = round(1 / step) * step  # truncated next to a grid line
        vector[rng.integers(size)] = -(10.0 ** rng.integers(-9, 9))
        sums.noisy_step(state, row, vector, known)
        arrays.encode(encoder, found.decays, found.weights, vector, filtered)
        arrays.to_grid(filtered, mantissa, exponent, steps)
        released = (steps + noise[row]).astype(np.float64) * step
        arrays.decode(decoder, found.decays, found.weights, released, prefix, filtered)
        assert np.array_equal(known, prefix)
    assert np.array_equal(buffers[0], encoder)
    assert np.array_equal(buffers[1], decoder)


def test_vectors_need_not_lie_in_one_piece():
    vector = np.linspace(0.0, 0.1, 40)
    apart, whole = (FactorizedSum(20, 5, Budget(1.0, 1e-6), norm_bound=1.0, seed=1) for _ in range(2))
    assert np.array_equal(apart.add(vector[::2]), whole.add(vector[::2].copy()))
