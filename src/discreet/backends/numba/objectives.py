"""Compiled loops over people x items arrays.

A row is one person (or one topic); it carries one number of state, and each item in it has one weight. How an
item's gain follows from those two is the *kind*; every loop below is compiled once per kind, on first use,
with the kind folded in as a constant. Index arrays arrive as unsigned views, because a signed index costs a
wrap-around test per access and keeps the loop from being vectorised.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ..kinds import BEST, COVER, LOG, SQRT, SURVIVE
from .compiled import loop, part


@part(error_model="numpy")
def _gain(kind: int, state: float, weight: float, cap: float) -> float:
    """What an item of this weight adds to a row in this state."""
    if kind == COVER:
        return 1.0 - state
    if kind == SURVIVE:
        return state * weight
    if kind == BEST:
        return weight - state if weight > state else 0.0
    if kind == SQRT:
        # The difference of the two roots without their cancelling; roots of positive floats exceed 1e-200.
        return weight / max(math.sqrt(state + weight) + math.sqrt(state), 1e-200)
    if kind == LOG:
        return math.log1p(weight / (1.0 + state))
    after = state + weight
    return (after if after < cap else cap) - (state if state < cap else cap)


@part
def _step(kind: int, state: float, weight: float) -> float:
    """The row's state once the item is chosen."""
    if kind == COVER:
        return 1.0
    if kind == SURVIVE:
        return state * (1.0 - weight)
    if kind == BEST:
        return weight if weight > state else state
    return state + weight


@part
def _height(kind: int, total: float, cap: float) -> float:
    """The concave function itself, for the kinds whose state is a sum."""
    if kind == SQRT:
        return math.sqrt(total)
    if kind == LOG:
        return math.log1p(total)
    return total if total < cap else cap


@cache
def sparse_chain(kind: int) -> Any:
    """Choose items one after the other: what each adds. The rows' states move along."""

    @loop()
    def chain(colptr, rows, values, order, share, cap, state, out):  # type: ignore[no-untyped-def]
        for t in range(order.size):
            j = order[t]
            added = 0.0
            for p in range(colptr[j], colptr[j + np.uint64(1)]):
                i = rows[p]
                added += share[i] * _gain(kind, state[i], values[p], cap[i])
                state[i] = _step(kind, state[i], values[p])
            out[t] = added

    return chain


@cache
def sparse_gains(kind: int) -> Any:
    """The gain of every item on top of the rows' states."""

    @loop()
    def gains(indptr, indices, data, share, cap, state, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            s, c, weight = state[i], cap[i], share[i]
            for p in range(indptr[i], indptr[i + np.uint64(1)]):
                out[indices[p]] += weight * _gain(kind, s, data[p], c)

    return gains


@cache
def sparse_add(kind: int) -> Any:
    """Choose one item: move the states of its rows and the gains of everything those rows touch."""

    @loop()
    def add(colptr, rows, values, indptr, indices, data, item, share, cap, state, out):  # type: ignore[no-untyped-def]
        added = 0.0
        for q in range(colptr[item], colptr[item + np.uint64(1)]):
            i = rows[q]
            c, weight, old = cap[i], share[i], state[i]
            new = _step(kind, old, values[q])
            added += weight * _gain(kind, old, values[q], c)
            if new == old:
                continue
            state[i] = new
            for p in range(indptr[i], indptr[i + np.uint64(1)]):
                out[indices[p]] += weight * (_gain(kind, new, data[p], c) - _gain(kind, old, data[p], c))
        return added

    return add


@cache
def dense_chain(kind: int) -> Any:
    """``sparse_chain`` for a dense array."""

    @loop()
    def chain(matrix, order, share, cap, state, out):  # type: ignore[no-untyped-def]
        for t in range(order.size):
            j = order[t]
            added = 0.0
            for i in range(np.uint64(state.size)):
                weight = matrix[i, j]
                if weight != 0.0:
                    added += share[i] * _gain(kind, state[i], weight, cap[i])
                    state[i] = _step(kind, state[i], weight)
            out[t] = added

    return chain


@cache
def dense_gains(kind: int) -> Any:
    """``sparse_gains`` for a dense array."""

    @loop()
    def gains(matrix, share, cap, state, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            s, c, weight = state[i], cap[i], share[i]
            for j in range(np.uint64(matrix.shape[1])):
                out[j] += weight * _gain(kind, s, matrix[i, j], c)

    return gains


@cache
def dense_add(kind: int) -> Any:
    """``sparse_add`` for a dense array."""

    @loop()
    def add(matrix, item, share, cap, state, out):  # type: ignore[no-untyped-def]
        added = 0.0
        for i in range(np.uint64(state.size)):
            chosen = matrix[i, item]
            if chosen == 0.0:
                continue
            c, weight, old = cap[i], share[i], state[i]
            new = _step(kind, old, chosen)
            added += weight * _gain(kind, old, chosen, c)
            if new == old:
                continue
            state[i] = new
            for j in range(np.uint64(matrix.shape[1])):
                w = matrix[i, j]
                out[j] += weight * (_gain(kind, new, w, c) - _gain(kind, old, w, c))
        return added

    return add


@loop()
def survive_gradient(indptr, indices, data, share, x, first, last, out):  # type: ignore[no-untyped-def]
    """Value and gradient of 1 - prod(1 - x p), summed over the rows first..last-1.

    Products before and after an item instead of one product divided by its factor: exact also where x p = 1.
    """
    longest = np.uint64(0)
    for i in range(first, last):
        longest = max(longest, indptr[i + np.uint64(1)] - indptr[i])
    before = np.empty(longest)
    missed = np.empty(longest)
    total = 0.0
    for i in range(first, last):
        start = indptr[i]
        length = indptr[i + np.uint64(1)] - start
        product = 1.0
        for t in range(length):
            before[t] = product
            miss = 1.0 - x[indices[start + t]] * data[start + t]
            missed[t] = miss
            product *= miss
        total += share[i] * (1.0 - product)
        after = share[i]
        for r in range(length):
            t = length - np.uint64(1) - r
            out[indices[start + t]] += data[start + t] * before[t] * after
            after *= missed[t]
    return total


@loop()
def best_gradient(indptr, indices, data, share, x, out):  # type: ignore[no-untyped-def]
    """Value and gradient of the expected maximum; each row's items come in order of falling weight.

    An item matters when nothing better was drawn, and then adds its weight less the expected best of the
    rest.
    """
    longest = np.uint64(0)
    for i in range(np.uint64(share.size)):
        longest = max(longest, indptr[i + np.uint64(1)] - indptr[i])
    before = np.empty(longest)
    total = 0.0
    for i in range(np.uint64(share.size)):
        start = indptr[i]
        length = indptr[i + np.uint64(1)] - start
        unmet = 1.0
        for t in range(length):
            before[t] = unmet
            unmet *= 1.0 - x[indices[start + t]]
        rest = 0.0
        for r in range(length):
            t = length - np.uint64(1) - r
            j = indices[start + t]
            out[j] += share[i] * before[t] * (data[start + t] - rest)
            rest = x[j] * data[start + t] + (1.0 - x[j]) * rest
        total += share[i] * rest
    return total


@cache
def concave_gradient(kind: int) -> Any:
    """Value and gradient of the expected concave function of a random sum: all subsets of short rows."""

    @loop()
    def gradient(indptr, indices, data, share, cap, x, longest, out):  # type: ignore[no-untyped-def]
        sums = np.empty(1 << longest)
        chance = np.empty(1 << longest)
        total = 0.0
        for i in range(np.uint64(share.size)):
            start, stop = indptr[i], indptr[i + np.uint64(1)]
            value = 0.0
            for left_out in range(start, stop):
                sums[0] = 0.0
                chance[0] = 1.0
                size = 1
                for p in range(start, stop):
                    if p == left_out:
                        continue
                    xp = x[indices[p]]
                    for q in range(size):
                        sums[size + q] = sums[q] + data[p]
                        chance[size + q] = chance[q] * xp
                        chance[q] *= 1.0 - xp
                    size *= 2
                slope = 0.0
                value = 0.0
                xl = x[indices[left_out]]
                for q in range(size):
                    without = _height(kind, sums[q], cap[i])
                    within = _height(kind, sums[q] + data[left_out], cap[i])
                    slope += chance[q] * (within - without)
                    value += chance[q] * (xl * within + (1.0 - xl) * without)
                out[indices[left_out]] += share[i] * slope
            total += share[i] * value
        return total

    return gradient
