"""Checks of the values that people's functions return, before they are used.

Functions that are not the library's own may return anything. Learners and selectors check every value here
before they change state: numbers of the right shape, finite, and within the declared bounds. A value that
exceeds a bound by the rounding of a sum is clipped. An error names the quantity; the value is in ``details``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks

if TYPE_CHECKING:
    from .base import Population

Floats = NDArray[np.float64]

# Relative tolerance of bounds, for rounding in values that are sums of some dozen terms or normalized
# weights.
ROUNDING = 1e-9


def number(name: str, answer: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """One number within [low, high].

    >>> number("value", 1.0 + 1e-12, 0.0, 1.0)
    1.0
    >>> number("value", float("nan"), 0.0, 1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    discreet.core.checks.DataError: value must be a finite number in [0, 1]; correct the function, or ...
    """
    try:
        found = checks.real(name, answer)
    except (TypeError, ValueError) as error:
        raise _refused(f"{name} must be a finite number", low, high, _details(error)) from None
    slack = _slack(low, high)
    if not low - slack <= found <= high + slack:
        raise _refused(f"{name} must be a finite number", low, high, f"{found:g}")
    return min(max(found, low), high)


def vector(name: str, answer: Any, length: int, low: float = -math.inf, high: float = math.inf) -> Floats:
    """``length`` numbers within [low, high], as a new array."""
    wanted = f"{name} must be {length} finite numbers"
    try:
        found = checks.vector(name, answer, length=length)
    except (TypeError, ValueError) as error:
        raise _refused(wanted, low, high, _details(error)) from None
    slack = _slack(low, high)
    wrong = ~((found >= low - slack) & (found <= high + slack))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise _refused(wanted, low, high, f"{name}[{place}]={found[place]:g}")
    return np.clip(found, low, high)


def gains_along(person: Population, items: Sequence[int], bound: float) -> Floats:
    """The gain of every item on top of the first 0, 1, ... of ``items``: one row each, within [0, bound]."""
    state, rows = person.start(), []
    for item in items:
        rows.append(vector("gains", state.gains(), person.n_items, 0.0, bound))
        state.add(int(item))
    return np.array(rows)


def squared_length(answer: Floats) -> float:
    """The sum of squares, added in order as in compiled loops, for any memory layout."""
    return float(np.add.accumulate(answer * answer)[-1])


def leave_one_out(person: Population, items: Sequence[int], bound: float) -> tuple[Floats, Floats]:
    """The gain of every item alone, and on top of the others of ``items``, both within [0, bound].

    By submodularity no item adds more than alone; this is enforced by clipping.
    """
    alone = vector("gains", person.gains([]), person.n_items, 0.0, bound)
    gains = vector("gains", person.gains(items), person.n_items, 0.0, bound)
    gains[items] = vector("contributions", person.contributions(items), len(items), 0.0, bound)
    return alone, np.clip(gains, 0.0, alone)


def _slack(low: float, high: float) -> float:
    return ROUNDING * max(abs(end) if math.isfinite(end) else 0.0 for end in (low, high))


def _refused(wanted: str, low: float, high: float, details: str) -> checks.DataError:
    if math.isinf(low) and math.isinf(high):
        return checks.DataError(f"{wanted}; correct the function", details)
    message = f"{wanted} in [{low:g}, {high:g}]; correct the function, or declare another bound"
    return checks.DataError(message, details)


def _details(error: Exception) -> str:
    return getattr(error, "details", "") or str(error)


def probabilities(name: str, point: Floats) -> Floats:
    """The given vector, refused unless its entries lie in [0, 1]."""
    outside = (point < 0) | (point > 1)
    if outside.any():
        j = int(np.argmax(outside))
        raise ValueError(f"{name}[{j}]={point[j]:g} is not a probability; entries must lie in [0, 1]")
    return point
