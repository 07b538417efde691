"""Compiled steps of the buffered running sum. Meaning: ``discreet.privacy.sums.factorized``."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arguments import FactorizedState
from .noise import to_grid

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def encode(buffers: Floats, decays: Floats, weights: Floats, vector: Floats, out: Floats) -> None:
    """``out = vector + sum(weights * buffers)``, then ``buffers = decays * buffers + vector``."""
    count, dimension = buffers.shape
    for i in range(dimension):
        out[i] = vector[i]
    for k in range(count):
        decay = decays[k]
        weight = weights[k]
        for i in range(dimension):
            held = buffers[k, i]
            out[i] += weight * held
            buffers[k, i] = decay * held + vector[i]


@njit(cache=True, nogil=True)
def decode(
    buffers: Floats, decays: Floats, weights: Floats, released: Floats, prefix: Floats, fresh: Floats
) -> None:
    """Invert `encode` on a released value and add what it says about this step to ``prefix``."""
    count, dimension = buffers.shape
    for i in range(dimension):
        fresh[i] = released[i]
    for k in range(count):
        weight = weights[k]
        for i in range(dimension):
            fresh[i] -= weight * buffers[k, i]
    for i in range(dimension):
        prefix[i] += fresh[i]
    for k in range(count):
        decay = decays[k]
        for i in range(dimension):
            buffers[k, i] = decay * buffers[k, i] + fresh[i]


@njit(cache=True, nogil=True)
def noisy_step(state: FactorizedState, row: int, vector: Floats, prefix: Floats) -> None:
    """One step of a factorised sum with its ``row`` of noise: ``prefix`` becomes the private sum after it."""
    private, mantissa, exponent, step, noise, encoder, decoder, decays, weights = state
    size = prefix.size
    if not private:
        for i in range(size):
            prefix[i] += vector[i]
        return
    filtered = np.empty(size)
    released = np.empty(size)
    steps = np.empty(size, dtype=np.int64)
    encode(encoder, decays, weights, vector, filtered)
    to_grid(filtered, mantissa, exponent, steps)
    for i in range(size):
        released[i] = np.float64(steps[i] + noise[row, i]) * step
    decode(decoder, decays, weights, released, prefix, filtered)
