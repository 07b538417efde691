"""Sums of gains in whole steps over a people x items array: one pass over the array, in one kernel.

The arithmetic is that of `backends.portable.dense`, operation by operation and never fused into others, so
that whole steps agree to the last one wherever the operations are correctly rounded: all but logarithms.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arrays import handed_back, shared, zeros

TILE = 1 << 26  # entries, of gradients and factors; nothing of sums lies in memory
CONFIG = (16, 128, 4)  # people and items of a block, and warps
_PROGRAMS = 132 * 16


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
            added = libdevice.log1p(weight / (1.0 + now))
        else:
            limit = tl.load(cap + who, mask=here, other=0.0)[:, None]
            added = tl.minimum(now + tl.minimum(weight, limit), limit) - tl.minimum(now, limit)
        steps = libdevice.floor((share * added) * per_unit)
        totals += tl.minimum(tl.maximum(steps, 0.0), most)
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
    # In an array, as Triton would take Python's floats for those of 32 bits.
    factors = torch.tensor([share, per_unit], dtype=torch.float64, device=table.device)
    with torch.cuda.device(table.device):
        _sums[(blocks, triton.cdiv(n, stretch))](
            table, named, state, left, cap, out, n, m, stretch, factors,
            KIND=code, NAMED=rows is not None, ROWS=height, COLUMNS=columns,
            num_warps=warps, enable_fp_fusion=False,
        )  # fmt: skip
    return handed_back(device, out)
