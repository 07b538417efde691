"""Compiled steps of the buffered running sum. Meaning: ``discreet.privacy.sums.factorized``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arguments import FactorizedState
from .compiled import loop, part
from .noise import to_grid
from .vectors import decode8, encode8, scaled8

Floats = NDArray[np.float64]


# So many coordinates at a time, all of whose numbers stay in the cache.
_TILE = 128


@loop()
def encode(buffers: Floats, decays: Floats, weights: Floats, vector: Floats, out: Floats) -> None:
    """``out = vector + sum(weights * buffers)``, then ``buffers = decays * buffers + vector``."""
    _encode(buffers, decays, weights, 0, vector, out)


@part
def _encode(
    buffers: Floats, decays: Floats, weights: Floats, start: int, vector: Floats, out: Floats
) -> None:
    """`encode` for the coordinates from ``start`` on that ``vector`` holds."""
    whole = vector.size - vector.size % 8
    for place in range(0, whole, 8):
        encode8(buffers, start + place, decays, weights, vector, out, place)
    for i in range(whole, vector.size):
        out[i] = vector[i]
        for k in range(decays.size):
            held = buffers[k, start + i]
            out[i] += weights[k] * held
            buffers[k, start + i] = decays[k] * held + vector[i]


@loop()
def decode(
    buffers: Floats, decays: Floats, weights: Floats, released: Floats, prefix: Floats, fresh: Floats
) -> None:
    """Invert `encode` on a released value and add what it says about this step to ``prefix``."""
    for i in range(fresh.size):
        fresh[i] = released[i]
    _decode(buffers, decays, weights, 0, prefix, fresh)


@part
def _decode(
    buffers: Floats, decays: Floats, weights: Floats, start: int, prefix: Floats, fresh: Floats
) -> None:
    """`decode` for the coordinates from ``start`` on that ``fresh`` has, as they were released."""
    whole = fresh.size - fresh.size % 8
    for place in range(0, whole, 8):
        decode8(buffers, start + place, decays, weights, fresh, prefix, place)
    for i in range(whole, fresh.size):
        for k in range(decays.size):
            fresh[i] -= weights[k] * buffers[k, start + i]
        prefix[i] += fresh[i]
        for k in range(decays.size):
            buffers[k, start + i] = decays[k] * buffers[k, start + i] + fresh[i]


@loop()
def noisy_step(state: FactorizedState, row: int, vector: Floats, prefix: Floats) -> None:
    """One step of a factorised sum with its ``row`` of noise: ``prefix`` becomes the private sum after it."""
    private, mantissa, exponent, step, noise, encoder, decoder, decays, weights = state
    if not private:
        for i in range(prefix.size):
            prefix[i] += vector[i]
        return
    tile = min(_TILE, prefix.size)
    floats = np.empty(tile)
    whole = np.empty(tile, dtype=np.int64)
    for start in range(0, prefix.size, tile):
        size = min(tile, prefix.size - start)
        stop = start + size
        filtered, steps, drawn = floats[:size], whole[:size], noise[row, start:stop]
        _encode(encoder, decays, weights, start, vector[start:stop], filtered)
        to_grid(filtered, mantissa, exponent, steps)
        for place in range(0, size - 7, 8):
            scaled8(steps, drawn, place, step, filtered)
        for i in range(size - size % 8, size):
            filtered[i] = np.float64(steps[i] + drawn[i]) * step
        _decode(decoder, decays, weights, start, prefix[start:stop], filtered)
