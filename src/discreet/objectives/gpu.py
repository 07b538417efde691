"""Sums over people as one Triton kernel each, for arrays of torch and CuPy on NVIDIA GPUs.

Gains of a people x items array take one pass over it. Their arithmetic is that of `Device`, operation by
operation and without fusion, so that integer steps agree exactly.

Products of embeddings are products of bytes in the tensor units, the rest of the work is in registers, and
only the sums are written. A program processes a piece of the people with one block of items. Its sums are
32-bit integers, and the piece is short enough that they cannot overflow; they are added to the 64-bit totals
at its end. Integer sums are the same in any order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..kernels.arrays import RATIO
from ..kernels.rows import BEST, LOG, SQRT, SURVIVE
from .devices import LN_2, ROOT_2, SERIES, Cut, Device, GainSums, Tile

# People and items of a block, and warps; for products also pipeline stages.
_GAINS_BLOCK = (16, 128, 4)
_PRODUCTS_BLOCK = (64, 128, 4, 4)
_GAINS_PROGRAMS, _PRODUCTS_PROGRAMS = 132 * 16, 132 * 64
_CHUNK = 128
_WHOLE = (1 << 31) - 1
# In an array, as Triton would treat Python's floats as 32-bit floats.
_CONSTANTS = (LN_2, ROOT_2, *SERIES)
_TERMS = tl.constexpr(len(SERIES))
_SURVIVE, _BEST, _SQRT, _LOG, _RATIO = (tl.constexpr(code) for code in (SURVIVE, BEST, SQRT, LOG, RATIO))


def _shared(*arrays: Any) -> list[Any]:
    """The same memory as torch tensors: CuPy's arrays are shared, not copied."""
    found = [one if isinstance(one, torch.Tensor) else torch.from_dlpack(one) for one in arrays]
    return [one if one.is_contiguous() else one.contiguous() for one in found]


def _zeros(like: Any, size: int, kind: str) -> Any:
    return torch.zeros(size, dtype=getattr(torch, kind), device=like.device)


# --- gains --------------------------------------------------------------------------------------------------


@triton.jit
def _logarithm(value, constants):  # type: ignore[no-untyped-def]
    """`Device.logarithm`, operation by operation."""
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
def _gain_sums(  # type: ignore[no-untyped-def]
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
        most = tl.load(left + who, mask=here, other=0.0)[:, None]  # absent rows add nothing
        if KIND == _SURVIVE:
            added = now * weight
        elif KIND == _BEST:
            added = tl.maximum(weight - now, 0.0)
        elif KIND == _SQRT:
            added = weight / tl.maximum(libdevice.sqrt(now + weight) + libdevice.sqrt(now), 1e-200)
        elif KIND == _LOG:
            added = _logarithm(1.0 + weight / (1.0 + now), factors + 2)
        elif KIND == _RATIO:
            added = _logarithm(tl.maximum(weight, 1.0), factors + 2)
        else:
            limit = tl.load(cap + who, mask=here, other=0.0)[:, None]
            added = tl.minimum(now + tl.minimum(weight, limit), limit) - tl.minimum(now, limit)
        steps = libdevice.floor((share * added) * per_unit)
        totals += tl.minimum(tl.where(steps > 0.0, steps, 0.0), most)
    tl.atomic_add(out + columns, tl.sum(totals, axis=0), mask=columns < m)


# --- products of embeddings ---------------------------------------------------------------------------------


@triton.jit
def _kept(product, low, span):  # type: ignore[no-untyped-def]
    """min(max(product - low, 0), span) for span >= 0, with the instruction min.relu."""
    return tl.inline_asm_elementwise(
        "{ .reg .s32 t; sub.s32 t, $1, $2; min.relu.s32 $0, t, $3; }",
        "=r,r,r,r",
        [product, low, span],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _product_sums(  # type: ignore[no-untyped-def]
    people, items, low, span, out, n, m, width, stretch, factor, shift,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    EVEN: tl.constexpr, CUT: tl.constexpr, RELU: tl.constexpr, TOTAL: tl.constexpr,
):  # fmt: skip
    block, part = tl.program_id(0), tl.program_id(1)
    columns = block * COLUMNS + tl.arange(0, COLUMNS)
    within = tl.arange(0, CHUNK)
    there = (columns < m)[:, None]
    if CHUNKS == 1:
        known = there if EVEN else there & (within < width)[None, :]
        one = tl.load(items + columns.to(tl.int64)[:, None] * width + within[None, :], mask=known, other=0)
    totals = tl.zeros((ROWS, COLUMNS), dtype=TOTAL)
    first = part * stretch
    last = min(first + stretch, n)
    for start in range(first, last, ROWS):
        rows = start + tl.arange(0, ROWS)
        here = rows < last
        least = tl.load(low + rows, mask=here, other=0)
        most = tl.load(span + rows, mask=here, other=0)  # who is not there adds nothing
        if CHUNKS == 1:
            inside = here[:, None] if EVEN else here[:, None] & (within < width)[None, :]
            some = tl.load(
                people + rows.to(tl.int64)[:, None] * width + within[None, :], mask=inside, other=0
            )
            products = tl.dot(some, tl.trans(one), out_dtype=tl.int32)
        else:
            products = tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
            for chunk in range(CHUNKS):
                places = chunk * CHUNK + within
                filled = (places < width)[None, :]
                some = tl.load(
                    people + rows.to(tl.int64)[:, None] * width + places[None, :],
                    mask=here[:, None] & filled, other=0,
                )  # fmt: skip
                these = tl.load(
                    items + columns.to(tl.int64)[:, None] * width + places[None, :],
                    mask=there & filled, other=0,
                )  # fmt: skip
                products = tl.dot(some, tl.trans(these), products, out_dtype=tl.int32)
        if CUT:
            reached = tl.minimum(tl.maximum(products, least[:, None]), (least + most)[:, None])
            totals += ((reached.to(TOTAL) * factor) >> shift) - ((least.to(TOTAL) * factor) >> shift)[:, None]
        elif RELU:
            low_of, span_of = (
                tl.broadcast(least[:, None], products)[0],
                tl.broadcast(most[:, None], products)[0],
            )
            totals += _kept(products, low_of, span_of)
        else:
            totals += tl.minimum(tl.maximum(products - least[:, None], 0), most[:, None])
    tl.atomic_add(out + columns, tl.sum(totals.to(tl.int64), axis=0), mask=columns < m)


@triton.jit
def _products(people, item, out, n, width, k, column, ROWS: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = tl.arange(0, WIDTH)
    here, known = (rows < n)[:, None], (places < width)[None, :]
    some = tl.load(people + rows.to(tl.int64)[:, None] * width + places[None, :], mask=here & known, other=0)
    one = tl.load(item + places, mask=places < width, other=0)
    found = tl.sum(some.to(tl.int32) * one.to(tl.int32)[None, :], axis=1)
    tl.store(out + rows.to(tl.int64) * k + column, found, mask=rows < n)


class TritonDevice(Device):
    """Arrays of torch or CuPy on an NVIDIA GPU."""

    gains_tile = 1 << 26  # entries, of gradients and factors; sums need no memory for a tile
    products_tile = (1 << 20, 1 << 20)  # nothing of a tile lies in memory: what is gathered at a time

    def gain_sums(self, asked: GainSums, rows: Any = None) -> Any:
        table, state, left, cap = _shared(asked.matrix, *asked.numbers)
        (named,) = [state] if rows is None else _shared(rows)
        n, m = table.shape[0] if rows is None else named.shape[0], table.shape[1]
        out = _zeros(table, m, "float64")
        if not n:
            return self._own(out)
        height, columns, warps = _GAINS_BLOCK
        blocks = triton.cdiv(m, columns)
        stretch = max(height, triton.cdiv(triton.cdiv(n, max(1, _GAINS_PROGRAMS // blocks)), height) * height)
        factors = torch.tensor(
            [asked.share, asked.per_unit, *_CONSTANTS], dtype=torch.float64, device=table.device
        )
        with torch.cuda.device(table.device):
            _gain_sums[(blocks, triton.cdiv(n, stretch))](
                table, named, state, left, cap, out, n, m, stretch, factors,
                KIND=asked.code, NAMED=rows is not None, ROWS=height, COLUMNS=columns,
                num_warps=warps, enable_fp_fusion=False,
            )  # fmt: skip
        return self._own(out)

    def tile_bytes(self, tile: Tile, width: int) -> int:
        """An upper bound of a pass's memory in bytes, besides its arguments and results."""
        return tile[0] * (width + 16) + 8 * tile[1]

    def product_sums(self, people: Any, items: Any, low: Any, span: Any, cut: Cut, tile: Tile) -> Any:
        del tile
        mine, theirs, least, most = _shared(people, items, low, span)
        (n, width), m = mine.shape, theirs.shape[0]
        rows, columns, warps, stages = _PRODUCTS_BLOCK
        out = _zeros(mine, m, "int64")
        if not n:
            return self._own(out)
        chunk = max(32, triton.next_power_of_2(min(width, _CHUNK)))
        chunks = triton.cdiv(width, chunk)
        blocks = triton.cdiv(m, columns)
        factor, shift = cut or (1, 0)
        wide = cut is not None and int((least + most).max()) * factor > _WHOLE
        largest = (int(most.max()) * factor >> shift) + 1  # of one person's part
        fit = n if wide else max(1, _WHOLE // largest) * rows
        stretch = min(
            fit, max(rows, triton.cdiv(triton.cdiv(n, max(1, _PRODUCTS_PROGRAMS // blocks)), rows) * rows)
        )
        with torch.cuda.device(mine.device):
            _product_sums[(blocks, triton.cdiv(n, stretch))](
                mine, theirs, least, most, out, n, m, width, stretch, factor, shift,
                ROWS=rows, COLUMNS=columns, CHUNK=chunk, CHUNKS=chunks, EVEN=width == chunk,
                CUT=cut is not None, RELU=_has_relu(mine.device), TOTAL=tl.int64 if wide else tl.int32,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
        return self._own(out)

    def products(self, people: Any, items: Any, tile: Tile) -> Any:
        del tile
        mine, theirs = _shared(people, items)
        (n, width), k = mine.shape, theirs.shape[0]
        out = _zeros(mine, n * k, "int32")
        wide = triton.next_power_of_2(width)
        rows = max(1, min(128, 16384 // wide))
        with torch.cuda.device(mine.device):
            for column in range(k):
                _products[(triton.cdiv(n, rows),)](
                    mine, theirs[column], out, n, width, k, column, ROWS=rows, WIDTH=wide
                )
        return self._own(out.reshape(n, k))

    def _own(self, tensor: Any) -> Any:
        """A tensor as an array of the device's own library."""
        if self.name == "torch":
            return tensor
        torch.cuda.current_stream(tensor.device).synchronize()
        return self.xp.from_dlpack(tensor)


def _has_relu(place: Any) -> bool:
    return bool(torch.cuda.get_device_capability(place)[0] >= 9)
