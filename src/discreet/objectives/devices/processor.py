"""The sums of `portable` over NumPy's arrays: loops of `discreet.kernels`, a piece of the people a thread.

Products are left to the library of linear algebra, a tile for each thread, and the rest is a loop over the
tile while it is in the cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ...kernels import arrays as kernels
from .portable import EXACT_IN_32

GAINS_TILE = 1 << 22  # entries of a thread
PRODUCTS_TILE = (512, 2048)  # people and items
_FEW = 1 << 16  # entries, or pairs, for which threads do not pay
_WHOLE = 1 << 31


def gain_sums(
    device: Any,
    code: int,
    matrix: Any,
    numbers: tuple[Any, Any, Any],
    share: float,
    per_unit: float,
    tile: int,
    rows: Any = None,
) -> Any:
    """`portable.gain_sums`."""
    del device
    count = matrix.shape[0] if rows is None else rows.size
    few = count * matrix.shape[1] <= _FEW
    threads = 1 if few else os.cpu_count() or 1
    size = min(tile, max(1, -(-count // threads)))

    def piece(start: int) -> Any:
        here, out = slice(start, start + size), np.zeros(matrix.shape[1])
        if rows is None:
            some, places = (matrix[here], tuple(one[here] for one in numbers)), None
        else:
            some, places = (matrix, numbers), rows[here]
        kernels.gain_sums(code, *some, share, per_unit, places, out)
        return out

    starts = range(0, count, size)
    if few:
        parts = [piece(start) for start in starts]
    else:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(piece, starts))
    total = np.zeros(matrix.shape[1])
    for one in parts:
        total += one
    return total


# --- products of embeddings ---------------------------------------------------------------------------------


def tile_bytes(tile: tuple[int, int], width: int, cut: tuple[int, int] | None = None) -> int:
    """At most how much memory a pass takes beside its arguments and what it returns."""
    del cut
    size = 4 if width <= EXACT_IN_32 else 8
    return _threads() * ((tile[0] * (tile[1] + width) + 2 * tile[1] * width) * size + 4 * tile[1])


def product_sums(
    device: Any,
    people: Any,
    items: Any,
    low: Any,
    span: Any,
    cut: tuple[int, int] | None,
    tile: tuple[int, int],
) -> Any:
    """`portable.product_sums`."""
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
                kernels.add_clipped(products, low[here].astype(exact), span[here].astype(exact), flush, total)
            else:
                kernels.add_steps(
                    products, low[here].astype(np.int64), span[here].astype(np.int64), *cut, total
                )

    firsts = range(0, items.shape[0], tile[1])
    if people.shape[0] * items.shape[0] <= _FEW:
        for first in firsts:
            block(first)
        return out
    with _one_thread_each(), ThreadPoolExecutor(_threads()) as pool:
        list(pool.map(block, firsts))
    return out


def products(device: Any, people: Any, items: Any, tile: tuple[int, int]) -> Any:
    """`portable.products`."""
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
