"""Sums of gains in whole steps over a people x items array: compiled loops, a stretch of people a thread."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..numba.objectives import CAP
from ..numba.windows import dense_sums

TILE = 1 << 22  # entries of a thread
_FEW = 1 << 16  # entries for which threads do not pay


def sums(
    device: Any,
    code: int,
    matrix: Any,
    numbers: tuple[Any, Any, Any],
    share: float,
    per_unit: float,
    tile: int,
    rows: Any = None,
) -> Any:
    """`backends.portable.dense.sums`."""
    del device
    count = matrix.shape[0] if rows is None else rows.size
    few = count * matrix.shape[1] <= _FEW
    threads = 1 if few else os.cpu_count() or 1
    loop, size = dense_sums(code), min(tile, max(1, -(-count // threads)))

    def part(start: int) -> Any:
        here: Any = slice(start, start + size) if rows is None else rows[start : start + size]
        some, (state, left, cap) = matrix[here], (one[here] for one in numbers)
        if code == CAP:
            some = np.minimum(some, cap[:, None])
        out = np.zeros(matrix.shape[1])
        loop(some, np.full(state.size, share), cap, state, left, per_unit, out)
        return out

    starts = range(0, count, size)
    if few:
        parts = [part(start) for start in starts]
    else:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(part, starts))
    total = np.zeros(matrix.shape[1])
    for one in parts:
        total += one
    return total
