"""Sums of cut products of whole numbers, in array operations: a tile of products at a time.

Products of at most 1,024 pairs of bytes are below 2^24, so that they are exact in 32-bit floats, also where a
device keeps ten digits of each factor only; longer ones are computed in 64 bits. Sums are whole numbers below
2^53, exact in 64-bit floats in any order.
"""

from __future__ import annotations

from typing import Any

from ..devices import slices

EXACT_IN_32 = 1024
TILE = (4096, 16384)


def tile_bytes(tile: tuple[int, int], width: int, cut: tuple[int, int] | None = None) -> int:
    """At most how much memory a pass takes beside its arguments and what it returns."""
    del cut
    size = 4 if width <= EXACT_IN_32 else 8
    return (3 * tile[0] * tile[1] + (tile[0] + 2 * tile[1]) * width) * size + 8 * tile[0]


def sums(
    device: Any,
    people: Any,
    items: Any,
    low: Any,
    span: Any,
    cut: tuple[int, int] | None,
    tile: tuple[int, int],
) -> Any:
    """For each item, the sum over people of min(max(product - low, 0), span), in 64-bit integers.

    With ``cut`` = (factor, shift), of the steps between instead: a product p counts (p factor) >> shift.
    """
    xp, parts = device.xp, []
    exact = "float32" if people.shape[1] <= EXACT_IN_32 else "float64"
    for there in slices(items.shape[0], tile[1]):
        columns = xp.matrix_transpose(device.cast(items[there, :], exact))
        total = device.zeros(columns.shape[1], "int64")
        for here in slices(people.shape[0], tile[0]):
            products = xp.matmul(device.cast(people[here, :], exact), columns)
            least = xp.expand_dims(device.cast(low[here], exact), axis=1)
            most = xp.expand_dims(device.cast(span[here], exact), axis=1)
            if cut is None:
                counted = xp.minimum(xp.clip(products - least, min=0), most)
            else:
                start = device.cast(least, "int64")
                reached = device.cast(xp.minimum(xp.maximum(products, least), least + most), "int64")
                counted = _steps(xp, reached, cut) - _steps(xp, start, cut)
            counts = xp.sum(device.cast(counted, "float64"), axis=0)
            total = total + device.cast(counts, "int64")
        parts.append(total)
    return xp.concat(parts)


def products(device: Any, people: Any, items: Any, tile: tuple[int, int]) -> Any:
    """The products of all people with a few items, people x items, in 32-bit integers."""
    xp = device.xp
    exact = "float32" if people.shape[1] <= EXACT_IN_32 else "float64"
    columns = xp.matrix_transpose(device.cast(items, exact))
    parts = [
        device.cast(xp.matmul(device.cast(people[here, :], exact), columns), "int32")
        for here in slices(people.shape[0], max(1, tile[0] * tile[1] // max(1, items.shape[0])))
    ]
    return xp.concat(parts, axis=0)


def _steps(xp: Any, whole: Any, cut: tuple[int, int]) -> Any:
    factor, shift = cut
    return xp.bitwise_right_shift(whole * factor, xp.full_like(whole, shift))
