"""Sums of gains in whole steps over a people x items array: compiled loops, a stretch of people a thread."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..kinds import CAP, LOG
from ..numba.compiled import loop, part
from ..numba.windows import dense_sums
from ..portable.dense import LN_2, RATIO, ROOT_2, SERIES

TILE = 1 << 22  # entries of a thread
_FEW = 1 << 16  # entries for which threads do not pay


@part(error_model="numpy")
def _logarithm(value):  # type: ignore[no-untyped-def]
    """`backends.portable.dense.logarithm`, operation by operation."""
    scaled, exponent = math.frexp(value)
    scaled, guess = 2.0 * scaled, float(exponent) - 1.0
    if scaled > ROOT_2:
        scaled, guess = scaled * 0.5, guess + 1.0
    part = (scaled - 1.0) / (scaled + 1.0)
    square = part * part
    series = SERIES[0]
    for k in range(1, len(SERIES)):
        series = series * square + SERIES[k]
    return guess * LN_2 + (2.0 * part) * series


@loop(error_model="numpy")
def log_sums(matrix, share, ratio, state, left, per_unit, out):  # type: ignore[no-untyped-def]
    """``dense_sums`` of logarithms: of entries, or of 1 + entry / (1 + state)."""
    for i in range(state.size):
        for j in range(matrix.shape[1]):
            entry = np.float64(matrix[i, j])
            value = max(entry, 1.0) if ratio else 1.0 + entry / (1.0 + state[i])
            steps = np.floor((share * _logarithm(value)) * per_unit)
            if steps > 0.0:
                out[j] += min(steps, left[i])


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
    size = min(tile, max(1, -(-count // threads)))

    def stretch(start: int) -> Any:
        here: Any = slice(start, start + size) if rows is None else rows[start : start + size]
        some, (state, left, cap) = matrix[here], (one[here] for one in numbers)
        if code == CAP:
            some = np.minimum(some, cap[:, None])
        out = np.zeros(matrix.shape[1])
        if code in (LOG, RATIO):
            log_sums(some, share, code == RATIO, state, left, per_unit, out)
        else:
            dense_sums(code)(some, np.full(state.size, share), cap, state, left, per_unit, out)
        return out

    starts = range(0, count, size)
    if few:
        parts = [stretch(start) for start in starts]
    else:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(stretch, starts))
    total = np.zeros(matrix.shape[1])
    for one in parts:
        total += one
    return total
