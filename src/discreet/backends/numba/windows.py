"""Compiled sums of people's gains in fixed point, where one person's part is exact.

A person's gain is cut down to a whole number of steps before it is added up. Steps are kept as floats without
a fraction, which add up exactly below 2^53 and, unlike integers, are cut and compared several at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .compiled import loop, part
from .objectives import _gain, _step


@part
def _cut(gain: float, per_unit: float, left: float) -> float:
    """Whole steps of a gain, and no more than are left."""
    steps: float = np.floor(gain * per_unit)
    return min(max(steps, 0.0), left)


@cache
def sparse_sums(kind: int) -> Any:
    """Adds every row's gains, each in whole steps of ``1 / per_unit`` and at most ``left`` of the row."""

    @loop()
    def sums(indptr, indices, data, share, cap, state, left, per_unit, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            s, c, weight, most = state[i], cap[i], share[i], left[i]
            for p in range(indptr[i], indptr[i + np.uint64(1)]):
                out[indices[p]] += _cut(weight * _gain(kind, s, data[p], c), per_unit, most)

    return sums


@cache
def sparse_choose(kind: int) -> Any:
    """Choose one item: its rows move, and everything those rows touch changes by the difference.

    What a row added before is worked out again from the same numbers, so it is taken off to the last step.
    """

    @loop()
    def choose(  # type: ignore[no-untyped-def]
        colptr, rows, values, indptr, indices, data, item, share, cap, state, left, per_unit, out
    ):
        for q in range(colptr[item], colptr[item + np.uint64(1)]):
            i = rows[q]
            c, weight, old, had = cap[i], share[i], state[i], left[i]
            new = _step(kind, old, values[q])
            has = had - _cut(weight * _gain(kind, old, values[q], c), per_unit, had)
            if new == old and has == had:
                continue
            state[i], left[i] = new, has
            for p in range(indptr[i], indptr[i + np.uint64(1)]):
                before = _cut(weight * _gain(kind, old, data[p], c), per_unit, had)
                after = _cut(weight * _gain(kind, new, data[p], c), per_unit, has)
                out[indices[p]] += after - before

    return choose


@cache
def dense_sums(kind: int) -> Any:
    """``sparse_sums`` for a dense array."""

    @loop()
    def sums(matrix, share, cap, state, left, per_unit, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            s, c, weight, most = state[i], cap[i], share[i], left[i]
            for j in range(np.uint64(matrix.shape[1])):
                out[j] += _cut(weight * _gain(kind, s, matrix[i, j], c), per_unit, most)

    return sums


@cache
def dense_choose(kind: int) -> Any:
    """``sparse_choose`` for a dense array."""

    @loop()
    def choose(matrix, item, share, cap, state, left, per_unit, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            chosen = matrix[i, item]
            if chosen == 0.0:
                continue
            c, weight, old, had = cap[i], share[i], state[i], left[i]
            new = _step(kind, old, chosen)
            has = had - _cut(weight * _gain(kind, old, chosen, c), per_unit, had)
            if new == old and has == had:
                continue
            state[i], left[i] = new, has
            for j in range(np.uint64(matrix.shape[1])):
                before = _cut(weight * _gain(kind, old, matrix[i, j], c), per_unit, had)
                after = _cut(weight * _gain(kind, new, matrix[i, j], c), per_unit, has)
                out[j] += after - before

    return choose
