"""Sums of gains in whole steps over a people x items array, in array operations: a tile of people at a time.

All arithmetic on people's numbers is entry by entry: nobody's depends on who else is there, nor on where they
stand. Whole steps are 64-bit floats without a fraction, which add up exactly below 2^53, in any order.
Logarithms are made of operations that every device rounds correctly, so that they are the same everywhere:
what somebody adds to a score, and what is taken off what they may still add, must be one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices import slices
from ..kinds import BEST, LOG, SQRT, SURVIVE

TILE = 1 << 24  # entries
# An entry is a ratio of determinants, which adds its logarithm.
RATIO = 6
LN_2, ROOT_2 = 0.6931471805599453, 1.4142135623730951
# Of the series of log((1 + s) / (1 - s)) / (2 s) in s^2: for |s| < 0.172 the rest is below 2^-55.
SERIES = tuple(1.0 / odd for odd in range(21, 0, -2))


def logarithm(device: Any, values: Any) -> Any:
    """log of numbers from 1 on, to a few units of the last place, by the same operations everywhere."""
    xp = device.xp
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
    """What an item of this weight adds to a row in this state, as `backends.objectives` has it."""
    xp = device.xp
    if code == SURVIVE:
        return state * weight
    if code == BEST:
        return xp.clip(weight - state, min=0.0)
    if code == SQRT:
        return weight / xp.clip(xp.sqrt(state + weight) + xp.sqrt(state), min=1e-200)
    if code == LOG:
        return logarithm(device, 1.0 + weight / (1.0 + state))
    if code == RATIO:  # at least 1; rounding may leave it a hair below
        return logarithm(device, xp.clip(weight, min=1.0))
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
