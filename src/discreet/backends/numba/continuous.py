"""Compiled sums of people's multilinear gradients in fixed point, where one person's part is exact.

Each loop works out a row's own gradient in floating point, rounds each down to whole steps between 0 and
``most``, and only then adds it to the others: whole numbers add up the same in any order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .compiled import loop, part
from .objectives import _gain

# Up to this many undecided items have few enough subsets to go through all of them.
SHORT = 8


@part
def _whole_steps(slope, per_unit, most):  # type: ignore[no-untyped-def]
    step = np.int64(slope * per_unit)
    if step > most:
        return most
    return step if step > 0 else np.int64(0)


@loop()
def survive_steps(indptr, indices, data, share, x, first, last, per_unit, most, out):  # type: ignore[no-untyped-def]
    """The gradient of 1 - prod(1 - x p), for the rows first..last-1: products before and after each item."""
    longest = np.uint64(0)
    for i in range(first, last):
        longest = max(longest, indptr[i + np.uint64(1)] - indptr[i])
    before = np.empty(longest)
    for i in range(first, last):
        start = indptr[i]
        length = indptr[i + np.uint64(1)] - start
        product = 1.0
        for t in range(length):
            before[t] = product
            product *= 1.0 - x[indices[start + t]] * data[start + t]
        after = share[i]
        for r in range(length):
            p = start + length - np.uint64(1) - r
            slope = data[p] * before[p - start] * after
            out[indices[p]] += _whole_steps(slope, per_unit, most)
            after *= 1.0 - x[indices[p]] * data[p]


@loop()
def best_steps(indptr, indices, data, share, x, first, last, per_unit, most, out):  # type: ignore[no-untyped-def]
    """The gradient of the expected maximum; each row's items come in order of falling weight."""
    longest = np.uint64(0)
    for i in range(first, last):
        longest = max(longest, indptr[i + np.uint64(1)] - indptr[i])
    before = np.empty(longest)
    for i in range(first, last):
        start = indptr[i]
        length = indptr[i + np.uint64(1)] - start
        unmet = 1.0
        for t in range(length):
            before[t] = unmet
            unmet *= 1.0 - x[indices[start + t]]
        rest = 0.0
        for r in range(length):
            p = start + length - np.uint64(1) - r
            j = indices[p]
            slope = share[i] * before[p - start] * (data[p] - rest)
            out[j] += _whole_steps(slope, per_unit, most)
            rest = x[j] * data[p] + (1.0 - x[j]) * rest


@part
def _open_sums(start, stop, skip, indices, data, x, base, sums, chance):  # type: ignore[no-untyped-def]
    """Every sum that a row's undecided items (0 < x < 1, without ``skip``) can make with ``base``; how many.

    ``chance`` receives how likely each is.
    """
    sums[0] = base
    chance[0] = 1.0
    size = 1
    for p in range(start, stop):
        xp = x[indices[p]]
        if p == skip or xp <= 0.0 or xp >= 1.0:
            continue
        for q in range(size):
            sums[size + q] = sums[q] + data[p]
            chance[size + q] = chance[q] * xp
            chance[q] *= 1.0 - xp
        size *= 2
    return size


@cache
def concave_steps(kind: int) -> Any:
    """The gradient of the expected concave function of a random sum.

    Rows with few undecided items go through all subsets of those; others take the mean over the sets in
    ``inside`` (samples x items). Which of the two is a row's own affair: nobody's decides how another's is
    computed.
    """

    @loop()
    def steps(  # type: ignore[no-untyped-def]
        indptr, indices, data, share, cap, x, inside, first, last, per_unit, most, out
    ):
        sums = np.empty(1 << SHORT)
        chance = np.empty(1 << SHORT)
        totals = np.empty(inside.shape[0])
        for i in range(first, last):
            start, stop = indptr[i], indptr[i + np.uint64(1)]
            undecided, base = 0, 0.0
            for p in range(start, stop):
                if x[indices[p]] >= 1.0:
                    base += data[p]
                elif x[indices[p]] > 0.0:
                    undecided += 1
            if undecided > SHORT:
                for s in range(totals.size):
                    total = 0.0
                    for p in range(start, stop):
                        if inside[s, indices[p]]:
                            total += data[p]
                    totals[s] = total
                for p in range(start, stop):
                    slope = 0.0
                    for s in range(totals.size):
                        rest = max(totals[s] - data[p], 0.0) if inside[s, indices[p]] else totals[s]
                        slope += _gain(kind, rest, data[p], cap[i])
                    slope *= share[i] / totals.size
                    out[indices[p]] += _whole_steps(slope, per_unit, most)
                continue
            size = _open_sums(start, stop, stop, indices, data, x, base, sums, chance)
            for p in range(start, stop):
                xp = x[indices[p]]
                if xp <= 0.0 or xp >= 1.0:
                    own = data[p] if xp >= 1.0 else 0.0
                    slope = 0.0
                    for q in range(size):
                        slope += chance[q] * _gain(kind, max(sums[q] - own, 0.0), data[p], cap[i])
                    out[indices[p]] += _whole_steps(share[i] * slope, per_unit, most)
            for p in range(start, stop):
                xp = x[indices[p]]
                if xp > 0.0 and xp < 1.0:
                    size = _open_sums(start, stop, p, indices, data, x, base, sums, chance)
                    slope = 0.0
                    for q in range(size):
                        slope += chance[q] * _gain(kind, sums[q], data[p], cap[i])
                    out[indices[p]] += _whole_steps(share[i] * slope, per_unit, most)

    return steps
