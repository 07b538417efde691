"""Sums over people in operations of the Array API standard, for every library of arrays: a tile at a time.

Two families: gains of a people x items array in whole steps (`gain_sums`), and products of embeddings in
whole numbers (`product_sums`). `processor` has both as loops for NumPy's arrays and `fused` as kernels for
NVIDIA's devices, with the same numbers: what a row gains is written here as in `discreet.kernels.rows`, in
another language.

All arithmetic on people's numbers is entry by entry: nobody's depends on who else is there, nor on where they
stand. Whole steps are 64-bit floats without a fraction, which add up exactly below 2^53, in any order.
Logarithms are made of operations that every device rounds correctly, so that they are the same everywhere:
what somebody adds to a score, and what is taken off what they may still add, must be one number.

Products of at most 1,024 pairs of bytes are below 2^24, so that they are exact in 32-bit floats, also where a
device keeps ten digits of each factor only; longer ones are computed in 64 bits. Sums are whole numbers below
2^53, exact in 64-bit floats in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels.arrays import RATIO
from ...kernels.rows import BEST, LOG, SQRT, SURVIVE
from . import slices

GAINS_TILE = 1 << 24  # entries
PRODUCTS_TILE = (4096, 16384)  # people and items
EXACT_IN_32 = 1024
LN_2, ROOT_2 = 0.6931471805599453, 1.4142135623730951
# Of the series of log((1 + s) / (1 - s)) / (2 s) in s^2: for |s| < 0.172 the rest is below 2^-55.
SERIES = tuple(1.0 / odd for odd in range(21, 0, -2))


def logarithm(device: Any, values: Any) -> Any:
    """log of numbers from 1 on, to a few units of the last place, by the same operations everywhere.

    What is less, or no number, counts as 1: rounding beside huge numbers of one person stops nobody.
    """
    xp = device.xp
    values = xp.where(values > 1.0, values, xp.ones_like(values))
    powers = device.array(np.ldexp(1.0, -np.arange(1024)), "float64")
    # The exponent may be guessed one off next to a power of two; the corrections make it the same for all.
    guess = xp.clip(xp.floor(xp.log2(values)), min=0.0, max=1023.0)
    places = xp.reshape(device.cast(guess, "int64"), (-1,))
    scaled = values * xp.reshape(xp.take(powers, places), values.shape)
    below, above = scaled < 1.0, scaled >= 2.0
    scaled = xp.where(below, scaled * 2.0, xp.where(above, scaled * 0.5, scaled))
    guess = xp.where(below, guess - 1.0, xp.where(above, guess + 1.0, guess))
    large = scaled > ROOT_2
    scaled, guess = xp.where(large, scaled * 0.5, scaled), xp.where(large, guess + 1.0, guess)
    part = (scaled - 1.0) / (scaled + 1.0)
    square = part * part
    series = xp.full_like(square, SERIES[0])
    for coefficient in SERIES[1:]:
        series = series * square + coefficient
    return guess * LN_2 + (2.0 * part) * series


def gain(device: Any, code: int, state: Any, weight: Any, cap: Any) -> Any:
    """What an item of this weight adds to a row in this state, as `discreet.kernels.rows` has it."""
    xp = device.xp
    if code == SURVIVE:
        return state * weight
    if code == BEST:
        return xp.clip(weight - state, min=0.0)
    if code == SQRT:
        return weight / xp.clip(xp.sqrt(state + weight) + xp.sqrt(state), min=1e-200)
    if code == LOG:
        return logarithm(device, 1.0 + weight / (1.0 + state))
    if code == RATIO:
        return logarithm(device, weight)
    kept = xp.minimum(weight, cap)
    return xp.minimum(state + kept, cap) - xp.minimum(state, cap)


def moved(xp: Any, code: int, state: Any, weight: Any, cap: Any) -> Any:
    """The row's state once the item is chosen."""
    if code == SURVIVE:
        return state * (1.0 - weight)
    if code == BEST:
        return xp.maximum(state, weight)
    return state + (xp.minimum(weight, cap) if code not in (SQRT, LOG) else weight)


def whole_steps(xp: Any, gains: Any, per_unit: float, left: Any) -> Any:
    """Gains as whole steps, from 0 to those that are left; what is no number counts 0."""
    steps = xp.floor(gains * per_unit)
    return xp.minimum(xp.where(steps > 0.0, steps, xp.zeros_like(steps)), left)


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
    """Every item's sum over people of its gain, in steps; ``numbers`` are their states, steps left and caps.

    ``rows``: the places of those who count, everybody if None.
    """
    xp = device.xp
    total = device.zeros(matrix.shape[1], "float64")
    count = matrix.shape[0] if rows is None else rows.shape[0]
    for here in slices(count, tile):
        if rows is None:
            some, mine = matrix[here, :], [one[here] for one in numbers]
        else:
            some = device.taken(matrix, rows[here])
            mine = [device.taken(one, rows[here]) for one in numbers]
        state, left, cap = (xp.expand_dims(one, axis=1) for one in mine)
        added = share * gain(device, code, state, device.cast(some, "float64"), cap)
        total = total + xp.sum(whole_steps(xp, added, per_unit, left), axis=0)
    return total


# --- products of embeddings ---------------------------------------------------------------------------------


def tile_bytes(tile: tuple[int, int], width: int, cut: tuple[int, int] | None = None) -> int:
    """At most how much memory a pass takes beside its arguments and what it returns."""
    del cut
    size = 4 if width <= EXACT_IN_32 else 8
    return (3 * tile[0] * tile[1] + (tile[0] + 2 * tile[1]) * width) * size + 8 * tile[0]


def product_sums(
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
