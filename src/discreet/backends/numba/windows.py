"""Compiled sums of people's gains in fixed point, where one person's part is exact.

A person's gain is cut down to a whole number of steps before it is added up. Steps are kept as floats without
a fraction, which add up exactly below 2^53 and, unlike integers, are cut and compared several at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .compiled import loop, part
from .objectives import _gain


@part
def _cut(gain: float, per_unit: float, left: float) -> float:
    """Whole steps of a gain, and no more than are left."""
    steps: float = np.floor(gain * per_unit)
    return min(max(steps, 0.0), left)


@cache
def dense_sums(kind: int) -> Any:
    """Adds every row's gains, each in whole steps of ``1 / per_unit`` and at most ``left`` of the row."""

    @loop()
    def sums(matrix, share, cap, state, left, per_unit, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            s, c, weight, most = state[i], cap[i], share[i], left[i]
            for j in range(np.uint64(matrix.shape[1])):
                out[j] += _cut(weight * _gain(kind, s, matrix[i, j], c), per_unit, most)

    return sums
