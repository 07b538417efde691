"""Sums of cut products of whole numbers on the processor: products by the library of linear algebra, a tile
for each thread, and the rest in a compiled loop over the tile while it is in the cache.

Products of at most 1,024 pairs of bytes are below 2^24 and exact in 32-bit floats; longer ones are computed
in 64 bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ..numba.compiled import loop

EXACT_IN_32 = 1024
TILE = (512, 2048)
_WHOLE = 1 << 31
_FEW = 1 << 16  # pairs for which threads do not pay


@loop()
def add_clipped(tile, low, span, flush, out):  # type: ignore[no-untyped-def]
    """Adds min(max(tile - low, 0), span) of each row to ``out``; 32-bit sums are emptied in time."""
    sums = np.zeros(tile.shape[1], dtype=np.int32)
    for start in range(0, tile.shape[0], flush):
        for i in range(start, min(start + flush, tile.shape[0])):
            least, most, row = tile[0, 0] * 0 + low[i], tile[0, 0] * 0 + span[i], tile[i]
            for j in range(sums.size):
                sums[j] += np.int32(min(max(row[j] - least, 0 * least), most))
        for j in range(sums.size):
            out[j] += sums[j]
            sums[j] = 0


@loop()
def add_steps(tile, low, span, factor, shift, out):  # type: ignore[no-untyped-def]
    """The same in steps: a product p counts (p factor) >> shift."""
    for i in range(tile.shape[0]):
        least, most = np.int64(low[i]), np.int64(low[i]) + np.int64(span[i])
        before = (least * factor) >> shift
        for j in range(out.size):
            out[j] += ((min(max(np.int64(tile[i, j]), least), most) * factor) >> shift) - before


def tile_bytes(tile: tuple[int, int], width: int, cut: tuple[int, int] | None = None) -> int:
    """At most how much memory a pass takes beside its arguments and what it returns."""
    del cut
    size = 4 if width <= EXACT_IN_32 else 8
    return _threads() * ((tile[0] * (tile[1] + width) + 2 * tile[1] * width) * size + 4 * tile[1])


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
    del device
    exact = np.float32 if people.shape[1] <= EXACT_IN_32 else np.float64
    out = np.zeros(items.shape[0], dtype=np.int64)
    flush = max(1, (_WHOLE - 1) // max(1, int(span.max(initial=0))))

    def block(first: int) -> None:
        columns = np.ascontiguousarray(items[first : first + tile[1]].T.astype(exact))
        room = np.empty((min(tile[0], people.shape[0]), columns.shape[1]), dtype=exact)
        total = out[first : first + tile[1]]
        for start in range(0, people.shape[0], tile[0]):
            here = slice(start, start + tile[0])
            rows = people[here].astype(exact)
            products = np.matmul(rows, columns, out=room[: rows.shape[0]])
            if cut is None:
                add_clipped(products, low[here].astype(exact), span[here].astype(exact), flush, total)
            else:
                add_steps(products, low[here], span[here], *map(np.int64, cut), total)

    firsts = range(0, items.shape[0], tile[1])
    if people.shape[0] * items.shape[0] <= _FEW:
        for first in firsts:
            block(first)
        return out
    with _one_thread_each(), ThreadPoolExecutor(_threads()) as pool:
        list(pool.map(block, firsts))
    return out


def products(device: Any, people: Any, items: Any, tile: tuple[int, int]) -> Any:
    """`backends.portable.embedded.products`."""
    del device
    exact = np.float32 if people.shape[1] <= EXACT_IN_32 else np.float64
    columns = np.ascontiguousarray(items.T.astype(exact))
    out = np.empty((people.shape[0], items.shape[0]), dtype=np.int32)
    size = max(1, tile[0] * tile[1] // max(items.shape))

    def block(start: int) -> None:
        here = slice(start, start + size)
        out[here] = np.matmul(people[here].astype(exact), columns)

    if people.shape[0] <= size:
        block(0)
        return out
    with _one_thread_each(), ThreadPoolExecutor(_threads()) as pool:
        list(pool.map(block, range(0, people.shape[0], size)))
    return out


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Within it, linear algebra starts no threads beside ours, where that can be told to it."""
    controller = _controller()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
