"""Compiled steps of running sums. Meaning: ``discreet.privacy.sums.factorized`` and ``.tree``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arguments import SumState
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


@part
def _hold(vector: Floats, norm: int, longest: float) -> None:
    """Shorten a vector that is longer than was declared; the length as `privacy.sums.bounds` takes it."""
    largest = 0.0
    for i in range(vector.size):
        largest = max(largest, abs(vector[i]))
    if largest == 0.0:
        return
    exponent = math.frexp(largest)[1]
    parts = np.empty(vector.size)
    for i in range(vector.size):
        parts[i] = abs(math.ldexp(vector[i], -exponent))
        if norm == 2:
            parts[i] *= parts[i]
    size = vector.size
    while size > 1:
        half = size // 2
        for i in range(half):
            parts[i] += parts[half + i]
        if size % 2 == 1:
            parts[half] = parts[size - 1]
        size = half + size % 2
    length = math.ldexp(math.sqrt(parts[0]) if norm == 2 else parts[0], exponent)
    if length > longest:
        factor = longest / length
        for i in range(vector.size):
            vector[i] *= factor


@part
def _grow(mantissa, exponent, step, noise, tree, vector, prefix):  # type: ignore[no-untyped-def]
    """A tree takes a vector: the node that is finished by it is released, with ``noise``.

    ``nodes[0]`` are sums of finished nodes that later ones need, by level, and two of the top level;
    ``nodes[1]`` what was released of them, and ``nodes[2]`` the released sum of everything up to their end.
    """
    levels, taken, nodes, norm, longest = tree
    held, total = vector.copy(), np.empty(vector.size, dtype=np.int64)
    _hold(held, norm, longest)
    to_grid(held, mantissa, exponent, total)
    top, before, level = levels - 1, taken[0], 0
    while level < top and (before >> level) & 1:
        for i in range(total.size):
            total[i] += nodes[0, level, i]
        level += 1
    slot = level
    last = level + 1  # the node that ends where this one begins: the next smaller one that is left
    if level == top:
        slot = top + (before >> top)
        last = slot - 1 if before >> top else -1
    else:
        while last < top and not (before >> last) & 1:
            last += 1
        if last >= top:
            last = top + (before >> top) - 1 if before >> top else -1
    for i in range(total.size):
        released = total[i] + noise[i]
        nodes[0, slot, i] = total[i]
        nodes[1, slot, i] = released
        nodes[2, slot, i] = released + nodes[2, last, i] if last >= 0 else released
        prefix[i] = np.float64(nodes[2, slot, i]) * step
    taken[0] = before + 1


@loop()
def noisy_step(state: SumState, row: int, vector: Floats, prefix: Floats) -> None:
    """One step of a running sum with its ``row`` of noise: ``prefix`` becomes the private sum after it."""
    private, mantissa, exponent, step, noise, encoder, decoder, decays, weights, tree = state
    if tree[0] > 0:
        _grow(mantissa, exponent, step, noise[row], tree, vector, prefix)
        return
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
