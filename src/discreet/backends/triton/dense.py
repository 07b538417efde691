"""Sums of gains in whole steps over a people x items array: one pass over the array, in one kernel.

The arithmetic is that of `backends.portable.dense`, operation by operation and never fused into others, so
that whole steps agree to the last one.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..portable.dense import LN_2, ROOT_2, SERIES
from .arrays import handed_back, shared, zeros

TILE = 1 << 26  # entries, of gradients and factors; nothing of sums lies in memory
CONFIG = (16, 128, 4)  # people and items of a block, and warps
_PROGRAMS = 132 * 16


# In an array, as Triton would take Python's floats for those of 32 bits.
_CONSTANTS = (LN_2, ROOT_2, *SERIES)
_TERMS = tl.constexpr(len(SERIES))


@triton.jit
def _logarithm(value, constants):  # type: ignore[no-untyped-def]
    """`backends.portable.dense.logarithm`, operation by operation."""
    bits = value.to(tl.int64, bitcast=True)
    guess = ((bits >> 52) - 1023).to(tl.float64)
    scaled = ((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).to(tl.float64, bitcast=True)
    large = scaled > tl.load(constants + 1)
    scaled, guess = tl.where(large, scaled * 0.5, scaled), tl.where(large, guess + 1.0, guess)
    part = (scaled - 1.0) / (scaled + 1.0)
    square = part * part
    series = tl.zeros_like(square) + tl.load(constants + 2)
    for k in tl.static_range(1, _TERMS):
        series = series * square + tl.load(constants + 2 + k)
    return guess * tl.load(constants) + (2.0 * part) * series


@triton.jit
def _sums(  # type: ignore[no-untyped-def]
    matrix, rows, state, left, cap, out, n, m, stretch, factors,
    KIND: tl.constexpr, NAMED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = (columns < m)[None, :]
    share, per_unit = tl.load(factors), tl.load(factors + 1)
    totals = tl.zeros((ROWS, COLUMNS), dtype=tl.float64)
    first = tl.program_id(1) * stretch
    last = min(first + stretch, n)
    for start in range(first, last, ROWS):
        places = start + tl.arange(0, ROWS)
        here = places < last
        who = tl.load(rows + places, mask=here, other=0) if NAMED else places.to(tl.int64)
        weight = tl.load(matrix + who[:, None] * m + columns[None, :], mask=here[:, None] & there, other=0.0)
        weight = weight.to(tl.float64)
        now = tl.load(state + who, mask=here, other=0.0)[:, None]
        most = tl.load(left + who, mask=here, other=0.0)[:, None]  # who is not there adds nothing
        if KIND == 1:
            added = now * weight
        elif KIND == 2:
            added = tl.maximum(weight - now, 0.0)
        elif KIND == 3:
            added = weight / tl.maximum(libdevice.sqrt(now + weight) + libdevice.sqrt(now), 1e-200)
        elif KIND == 4:
            added = _logarithm(1.0 + weight / (1.0 + now), factors + 2)
        elif KIND == 6:
            added = _logarithm(tl.maximum(weight, 1.0), factors + 2)
        else:
            limit = tl.load(cap + who, mask=here, other=0.0)[:, None]
            added = tl.minimum(now + tl.minimum(weight, limit), limit) - tl.minimum(now, limit)
        steps = libdevice.floor((share * added) * per_unit)
        totals += tl.minimum(tl.where(steps > 0.0, steps, 0.0), most)
    tl.atomic_add(out + columns, tl.sum(totals, axis=0), mask=columns < m)


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
    del tile
    table, state, left, cap = shared(matrix, *numbers)
    (named,) = [state] if rows is None else shared(rows)
    n, m = table.shape[0] if rows is None else named.shape[0], table.shape[1]
    out = zeros(table, m, "float64")
    if not n:
        return handed_back(device, out)
    height, columns, warps = CONFIG
    blocks = triton.cdiv(m, columns)
    stretch = max(height, triton.cdiv(triton.cdiv(n, max(1, _PROGRAMS // blocks)), height) * height)
    factors = torch.tensor([share, per_unit, *_CONSTANTS], dtype=torch.float64, device=table.device)
    with torch.cuda.device(table.device):
        _sums[(blocks, triton.cdiv(n, stretch))](
            table, named, state, left, cap, out, n, m, stretch, factors,
            KIND=code, NAMED=rows is not None, ROWS=height, COLUMNS=columns,
            num_warps=warps, enable_fp_fusion=False,
        )  # fmt: skip
    return handed_back(device, out)
