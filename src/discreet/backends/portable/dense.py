"""Sums of gains in whole steps over a people x items array, in array operations: a tile of people at a time.

All arithmetic on people's numbers is entry by entry: nobody's depends on who else is there, nor on where they
stand. Whole steps are 64-bit floats without a fraction, which add up exactly below 2^53, in any order.
"""

from __future__ import annotations

from typing import Any

from ..devices import slices
from ..numba.objectives import BEST, LOG, SQRT, SURVIVE

TILE = 1 << 24  # entries


def gain(xp: Any, code: int, state: Any, weight: Any, cap: Any) -> Any:
    """What an item of this weight adds to a row in this state, as `backends.objectives` has it."""
    if code == SURVIVE:
        return state * weight
    if code == BEST:
        return xp.clip(weight - state, min=0.0)
    if code == SQRT:
        return weight / xp.clip(xp.sqrt(state + weight) + xp.sqrt(state), min=1e-200)
    if code == LOG:
        return xp.log1p(weight / (1.0 + state))
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
    """Gains as whole steps, and no more than are left."""
    return xp.minimum(xp.clip(xp.floor(gains * per_unit), min=0.0), left)


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
        added = share * gain(xp, code, state, device.cast(some, "float64"), cap)
        total = total + xp.sum(whole_steps(xp, added, per_unit, left), axis=0)
    return total
