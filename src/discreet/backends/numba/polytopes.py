"""Compiled projections onto matroid polytopes: Wolfe's nearest-point method, and scaling to a total.

Vertices are independent sets, kept as lists of places in ``items``. ``below`` is an independent set that is
contracted: offered before everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import njit

from .matroids import offered

# Below this share a vertex counts as gone: its contribution is within rounding of nothing.
_SMALLEST_SHARE = 1e-13
_GAP = 1e-14
_STALLED_STEPS = 30


# Memory that was used before, by its sizes: pages that the system has yet to provide cost more than searches.
_spare: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
_LARGEST_SPARE = 2048


@contextmanager
def memory(n_items: int, rank: int) -> Iterator[tuple[Any, ...]]:
    """Memory for searches among ``n_items`` items, for one user at a time.

    The vertices as lists of places, their lengths, their shares, the point; the upper Cholesky factor of
    1 + <v_i - target, v_j - target>, and rows of other numbers; a heap and the places offered, and whether
    they fitted.
    """
    # Not a power of two, whose multiples would share a few lines of the cache.
    room = (1 << (n_items + 1).bit_length()) + 8
    waiting = _spare.setdefault((room, rank), []) if room <= _LARGEST_SPARE else []
    try:
        found = waiting.pop()
    except IndexError:
        found = (
            np.empty((room, rank), dtype=np.int64),
            np.empty(room, dtype=np.int64),
            np.empty(room),
            np.empty(room),
            np.empty((room, room)),
            np.empty((8, room)),
            np.empty((2, room), dtype=np.int64),
            np.empty(room, dtype=np.bool_),
        )
    try:
        yield found
    finally:
        waiting.append(found)


@njit(cache=True, nogil=True)
def _drop(factor, size, gone, half):  # type: ignore[no-untyped-def]
    """Take a column out of the upper Cholesky factor; rotations of rows make it triangular again.

    ``half``, the solution of factor' half = 1, turns with the rows.
    """
    # Places without a sign, here and below: those that might count from the end are not vectorised.
    end, step = np.uint64(size - 1), np.uint64(1)
    for i in range(np.uint64(size)):
        for j in range(np.uint64(max(np.int64(i) - 1, gone)), end):
            factor[i, j] = factor[i, j + step]
        if i > gone:
            # Below the diagonal of the row before it stands what was the diagonal of this one.
            before = i - step
            diagonal, corner = factor[before, before], factor[i, before]
            length = math.hypot(diagonal, corner)
            c, s = diagonal / length, corner / length
            factor[before, before] = length
            for j in range(i, end):
                one, other = factor[before, j], factor[i, j]
                factor[before, j] = c * one + s * other
                factor[i, j] = c * other - s * one
            one, other = half[before], half[i]
            half[before], half[i] = c * one + s * other, c * other - s * one


@njit(cache=True, nogil=True)
def _walk(members, lengths, shares, factor, work, size):  # type: ignore[no-untyped-def]
    """From shares to those of the nearest point of the hull; vertices that lose theirs are dropped.

    Answers how many are left.
    """
    ideal, half, reached = work[0], work[1], work[2]
    while True:
        # The nearest point of the affine hull: factor ideal = half.
        total = 0.0
        for i in range(size - 1, -1, -1):
            # Four sums at a time: one alone would wait for each of its additions.
            a, b, c, d = half[i], 0.0, 0.0, 0.0
            fours = (size - i - 1) // 4
            for four in range(fours):
                at = np.uint64(i + 1 + 4 * four)
                a -= factor[i, at] * ideal[at]
                b -= factor[i, at + np.uint64(1)] * ideal[at + np.uint64(1)]
                c -= factor[i, at + np.uint64(2)] * ideal[at + np.uint64(2)]
                d -= factor[i, at + np.uint64(3)] * ideal[at + np.uint64(3)]
            for j in range(i + 1 + 4 * fours, size):
                a -= factor[i, j] * ideal[j]
            ideal[i] = ((a + b) + (c + d)) / factor[i, i]
            total += ideal[i]
        step, leaving = np.inf, -1
        for i in range(size):
            ideal[i] /= total
            if ideal[i] <= _SMALLEST_SHARE:
                drop = shares[i] - ideal[i]
                # A vertex that does not fall has share 0 already: it goes at once.
                reach = shares[i] / drop if drop > 0.0 else 0.0
                if reach < step:
                    step, leaving = reach, i
        if leaving < 0:
            for i in range(size):
                shares[i] = ideal[i]
            return size
        step, total = min(1.0, step), 0.0
        for i in range(size):
            shares[i] = (1.0 - step) * shares[i] + step * ideal[i]
        shares[leaving] = 0.0
        rows, kept = size, 0
        for i in range(size - 1, -1, -1):
            if not shares[i] > _SMALLEST_SHARE:
                _drop(factor, rows, i, half)
                rows -= 1
        for i in range(size):
            if shares[i] > _SMALLEST_SHARE:
                shares[kept], lengths[kept], reached[kept] = shares[i], lengths[i], reached[i]
                for j in range(lengths[i]):
                    members[kept, j] = members[i, j]
                total += shares[i]
                kept += 1
        size = kept
        for i in range(size):
            shares[i] /= total


@njit(cache=True, nogil=True)
def nearest_point(  # type: ignore[no-untyped-def]
    matroid, space, memory, below, n_below, items, first, n, target, ends, blocks, tight, most, limit
):
    """Wolfe's method, as in constraints/polytopes/nearest_point.py; see `offered` for the vertices.

    Answers how many vertices there are in ``memory``, the duality gap, and the number of steps.
    """
    members, lengths, shares, x, factor, work, lists, taken = memory
    half, reached, column, residual, inside = work[1], work[2], work[3], work[5], work[6]
    places = lists[1]
    squared = 0.0
    for i in range(n):
        squared += target[i] * target[i]
        x[i], residual[i], inside[i] = 0.0, -target[i], 0.0
    size, iteration, stalled, best, gap = 0, 0, 0, np.inf, 0.0
    while True:
        number = offered(
            matroid, space, below, n_below, items, first, residual, ends, blocks, tight, n, most, lists[0],
            places, taken,
        )  # fmt: skip
        count, sought, won = 0, 0.0, 0.0
        for i in range(number):
            if taken[i]:
                place = places[i]
                members[size, count] = place
                count += 1
                sought += target[place]
                won += residual[place]
                inside[place] = 1.0
        scale, distance = 0.0, 0.0
        for i in range(n):
            scale += residual[i] * x[i]
            distance += residual[i] * residual[i]
        if size:
            gap = scale - won
            # Near the end a step lowers the distance by less than its rounding, but never for long.
            stalled = stalled + 1 if distance >= best else 0
            best = min(distance, best)
            if gap <= _GAP * (1.0 + abs(scale)) or stalled > _STALLED_STEPS or iteration >= limit:
                break
        # The new vertex's column of the factor.
        corner = 1.0 + count - 2.0 * sought + squared
        for i in range(size):
            common = 0.0
            for j in range(lengths[i]):
                common += inside[members[i, j]]
            column[i] = 1.0 + common - reached[i] - sought + squared
        left, last = corner, 1.0
        for i in range(np.uint64(size)):
            value = column[i] / factor[i, i]
            for j in range(i + np.uint64(1), np.uint64(size)):
                column[j] -= value * factor[i, j]
            column[i] = value
            left -= value * value
            last -= value * half[i]
        if size and left <= 1e-13 * corner:
            break
        for i in range(count):
            inside[members[size, i]] = 0.0
        for i in range(size):
            factor[i, size] = column[i]
        factor[size, size] = math.sqrt(left)
        half[size] = last / factor[size, size]
        lengths[size], reached[size], shares[size] = count, sought, 0.0 if size else 1.0
        size = _walk(members, lengths, shares, factor, work, size + 1)
        for i in range(n):
            x[i] = 0.0
        for i in range(size):
            for j in range(lengths[i]):
                x[members[i, j]] += shares[i]
        for i in range(n):
            residual[i] = x[i] - target[i]
        iteration += 1
    return size, max(gap, 0.0), iteration


@njit(cache=True, nogil=True)
def scale(log_w, items, low, high, total, log_x):  # type: ignore[no-untyped-def]
    """min(0, log_w + s) with the s for which the exponentials sum to ``total``, less than there are items.

    Whatever exceeds 1 is set to it, and the others share the rest, until none does.
    """
    capped, reach, level = 0, -np.inf, np.inf
    for i in range(low, high):
        log_x[items[i]] = -1.0
    while level > 0.0:
        top, weight = -np.inf, 0.0
        for i in range(low, high):
            if log_x[items[i]] < 0.0:
                top = max(top, log_w[items[i]])
        for i in range(low, high):
            if log_x[items[i]] < 0.0:
                weight += math.exp(log_w[items[i]] - top)
        # Where the capped ones leave nothing, the others stay as far below the last of them as they are.
        left = total - capped
        level = reach + top
        if left > 0.0:
            level = max(level, math.log(left / weight))
        for i in range(low, high):
            item = items[i]
            if log_x[item] < 0.0:
                if level <= 0.0:
                    log_x[item] = (log_w[item] - top) + level
                elif (log_w[item] - top) + level > 0.0:
                    log_x[item] = 0.0
                    capped += 1
                    reach = max(reach, -log_w[item])
