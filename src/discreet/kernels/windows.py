"""Compiled sums of people's gains in fixed point, where one person's part is exact."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from .objectives import _gain


@cache
def sparse_steps(kind: int) -> Any:
    """Adds every row's gains, each in whole steps of ``1 / per_unit`` (towards zero) and at most ``most``."""

    @njit(cache=True, nogil=True)
    def steps(indptr, indices, data, share, cap, state, per_unit, most, out):  # type: ignore[no-untyped-def]
        for i in range(np.uint64(state.size)):
            s, c, weight = state[i], cap[i], share[i]
            for p in range(indptr[i], indptr[i + np.uint64(1)]):
                step = np.int64(weight * _gain(kind, s, data[p], c) * per_unit)
                if step > most:
                    step = most
                if step > 0:
                    out[indices[p]] += step

    return steps
