"""Compiled steps of the buffered running sum. Meaning: ``discreet.privacy.sums.base.FactorizedSum``."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
