"""Sums of cut products of whole numbers in one kernel: products of bytes in the tensor units, the rest of the
work in registers, nothing written but the sums.

A program goes over a stretch of people with one block of items. Its sums are 32-bit integers, which the
length of the stretch keeps from overflowing; they are added to the 64-bit totals at its end. Integers
add up the same in any order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from .arrays import handed_back, shared, zeros

# Nothing of a tile lies in memory here: so many people are gathered at a time.
TILE = (1 << 20, 1 << 20)
# People and items of a block, warps, and stages of loading.
CONFIG = (64, 128, 4, 4)
_CHUNK = 128
_WHOLE = (1 << 31) - 1
_PROGRAMS = 132 * 64


def tile_bytes(tile: tuple[int, int], width: int, cut: tuple[int, int] | None = None) -> int:
    """At most how much memory a pass takes beside its arguments and what it returns."""
    del cut
    return tile[0] * (width + 16) + 8 * tile[1]


@triton.jit
def _kept(product, low, span):  # type: ignore[no-untyped-def]
    """min(max(product - low, 0), span) for span >= 0, in one instruction where there is one for it."""
    return tl.inline_asm_elementwise(
        "{ .reg .s32 t; sub.s32 t, $1, $2; min.relu.s32 $0, t, $3; }",
        "=r,r,r,r",
        [product, low, span],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _sums(  # type: ignore[no-untyped-def]
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


def sums(
    device: Any,
    people: Any,
    items: Any,
    low: Any,
    span: Any,
    cut: tuple[int, int] | None,
    tile: tuple[int, int],
) -> Any:
    """`backends.portable.embedded.sums`."""
    del tile
    mine, theirs, least, most = shared(people, items, low, span)
    (n, width), m = mine.shape, theirs.shape[0]
    rows, columns, warps, stages = CONFIG
    out = zeros(mine, m, "int64")
    if not n:
        return handed_back(device, out)
    chunk = max(32, triton.next_power_of_2(min(width, _CHUNK)))
    chunks = triton.cdiv(width, chunk)
    blocks = triton.cdiv(m, columns)
    factor, shift = cut or (1, 0)
    wide = cut is not None and int((least + most).max()) * factor > _WHOLE
    largest = (int(most.max()) * factor >> shift) + 1  # of one person's part
    fit = n if wide else max(1, _WHOLE // largest) * rows
    stretch = min(fit, max(rows, triton.cdiv(triton.cdiv(n, max(1, _PROGRAMS // blocks)), rows) * rows))
    with torch.cuda.device(mine.device):
        _sums[(blocks, triton.cdiv(n, stretch))](
            mine, theirs, least, most, out, n, m, width, stretch, factor, shift,
            ROWS=rows, COLUMNS=columns, CHUNK=chunk, CHUNKS=chunks, EVEN=width == chunk,
            CUT=cut is not None, RELU=_has_relu(mine.device), TOTAL=tl.int64 if wide else tl.int32,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    return handed_back(device, out)


def products(device: Any, people: Any, items: Any, tile: tuple[int, int]) -> Any:
    """`backends.portable.embedded.products`."""
    del tile
    mine, theirs = shared(people, items)
    (n, width), k = mine.shape, theirs.shape[0]
    out = zeros(mine, n * k, "int32")
    wide = triton.next_power_of_2(width)
    rows = max(1, min(128, 16384 // wide))
    with torch.cuda.device(mine.device):
        for column in range(k):
            _products[(triton.cdiv(n, rows),)](
                mine, theirs[column], out, n, width, k, column, ROWS=rows, WIDTH=wide
            )
    return handed_back(device, out.reshape(n, k))


def _has_relu(place: Any) -> bool:
    return bool(torch.cuda.get_device_capability(place)[0] >= 9)
