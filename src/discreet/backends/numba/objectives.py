"""What a row of each kind gains, for loops that are not in `discreet.kernels` yet."""

from __future__ import annotations

import math

from ..kinds import BEST, COVER, LOG, SQRT, SURVIVE
from .compiled import part


@part(error_model="numpy")
def _gain(kind: int, state: float, weight: float, cap: float) -> float:
    """What an item of this weight adds to a row in this state."""
    if kind == COVER:
        return 1.0 - state
    if kind == SURVIVE:
        return state * weight
    if kind == BEST:
        return weight - state if weight > state else 0.0
    if kind == SQRT:
        # The difference of the two roots without their cancelling; roots of positive floats exceed 1e-200.
        return weight / max(math.sqrt(state + weight) + math.sqrt(state), 1e-200)
    if kind == LOG:
        return math.log1p(weight / (1.0 + state))
    after = state + weight
    return (after if after < cap else cap) - (state if state < cap else cap)


@part
def _step(kind: int, state: float, weight: float) -> float:
    """The row's state once the item is chosen."""
    if kind == COVER:
        return 1.0
    if kind == SURVIVE:
        return state * (1.0 - weight)
    if kind == BEST:
        return weight if weight > state else state
    return state + weight
