"""Intervals for shares and lifts that hold at every release together, however often somebody looks.

What leaves of a side after t blocks is ``C = sum of Y + noise``: outcomes Y in [0, 1] of n decisions, and one
draw of Laplace noise of scale b for each block. Wanted is the mean of the chances of being served, of the
decisions so far: m, the average of the conditional means of Y given everything before. They may drift, as
learners do.

*Guarantee.* For all releases of a period together, with probability at least 1 - ``error`` over outcomes and
noise, m is in `share_interval`, and so is the difference of both sides in `lift_interval`.

*Proof.* Let |x| b < 1. By convexity a Y of mean u has ``E exp(x Y) <= 1 + u (e^x - 1)``, and Laplace noise
has ``E exp(x Z) = 1 / (1 - (b x)^2)``; on a grid it has at most that. So ``exp(x C) (1 - (b x)^2)^t`` over
the product of ``1 + u_i (e^x - 1)`` is a supermartingale that begins at 1, and the logarithm is concave: the
product is at most ``(1 + m (e^x - 1))^n``. A mean of such terms over rates x that were fixed in advance is
below 1 / error at all times, except with probability ``error`` (Ville). Means m for which it is not are left
out. Of two sides the product is taken, with rates ``x / (1 - h)`` and ``-x / h`` for a hold-out of part h;
the mean of the hold-out is looked for in its own interval only, which has a fifth of the error.

This is the usual construction of confidence sequences by mixtures; the Laplace factor is what privacy adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
ERROR = 0.05
_RATES = 2.0 ** -np.arange(12)  # from the largest that the noise allows: up to some 10^9 decisions
_ROUNDED = 1e-3  # how far off a count and a deviation may be that were written with three digits
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def share_interval(
    counts: ArrayLike, decisions: ArrayLike, blocks: ArrayLike, scale: ArrayLike, error: float = ERROR
) -> tuple[Array, Array]:
    """From where to where a share is, of ``decisions`` in ``blocks``, with noise of ``scale`` on each.

    >>> low, high = share_interval(300.0, 1000, 4, 5.0)
    >>> bool(0.2 < low < 0.3 < high < 0.4)
    True
    """
    count, number, many, noise = _arrays(counts, decisions, blocks, scale)
    low = _share_low(count, number, many, noise, error / 2)
    return low, 1.0 - _share_low(number - count, number, many, noise, error / 2)


def lift_interval(
    counts: ArrayLike,
    decisions: ArrayLike,
    blocks: ArrayLike,
    scale: ArrayLike,
    holdout: ArrayLike,
    error: float = ERROR,
) -> tuple[Array, Array]:
    """From where to where the difference of two shares is: counts and decisions end in (learned, hold-out).

    >>> low, high = lift_interval([2400.0, 300.0], [8000, 2000], 8, 3.0, 0.2)
    >>> bool(0.08 < low < 0.15 < high < 0.22)
    True
    """
    both, numbers = np.asarray(counts, dtype=float), np.asarray(decisions, dtype=float)
    many, noise, part = np.broadcast_arrays(*_arrays(blocks, scale, holdout))
    rest = share_interval(both[..., 1], numbers[..., 1], many, noise, error / 5)
    told = 0.4 * error  # each way; the rest is the hold-out's
    low = _lift_low(both, numbers, many, noise, part, rest, told)
    other = (1.0 - rest[1], 1.0 - rest[0])
    return low, -_lift_low(numbers - both, numbers, many, noise, part, other, told)


def _share_low(count: Array, decisions: Array, blocks: Array, scale: Array, error: float) -> Array:
    rates = _rates(scale)
    counted = rates * _last(count - _ROUNDED * blocks) + _last(blocks) * _noise(scale, rates)

    def excess(mean: Array) -> Array:
        return _mixed(counted - _last(decisions) * np.log1p(_last(mean) * np.expm1(rates)))

    return _first(excess, np.zeros_like(count), np.ones_like(count), error)


def _lift_low(
    counts: Array,
    decisions: Array,
    blocks: Array,
    scale: Array,
    holdout: Array,
    rest: tuple[Array, Array],
    error: float,
) -> Array:
    own = _rates(scale) * _last(holdout / (1.0 - holdout))
    other = -_rates(scale)
    slack = _ROUNDED * blocks
    counted = own * _last(counts[..., 0] - slack) + other * _last(counts[..., 1] + slack)
    counted = counted + _last(blocks) * (_noise(scale, own) + _noise(scale, other))

    def at(lift: Array, mean: Array) -> Array:
        learned = _last(decisions[..., 0]) * np.log1p(_last(mean + lift) * np.expm1(own))
        return _mixed(counted - learned - _last(decisions[..., 1]) * np.log1p(_last(mean) * np.expm1(other)))

    def excess(lift: Array) -> Array:
        """The least over means of the hold-out; it is convex in them."""
        low = np.maximum(rest[0], -lift)
        high = np.maximum(np.minimum(rest[1], 1.0 - lift), low)
        for _ in range(24):
            first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            left = at(lift, first) < at(lift, second)
            low, high = np.where(left, low, first), np.where(left, second, high)
        return at(lift, (low + high) / 2)

    # Below and above these the means would leave [0, 1]. Which of them count is settled by the hold-out's.
    return _first(excess, -rest[1], 1.0 - rest[0], error)


def _first(excess: Callable[[Array], Array], low: Array, high: Array, error: float) -> Array:
    """The least value that is not left out: ``excess`` falls."""
    for _ in range(24):
        middle = (low + high) / 2
        out = excess(middle) >= -math.log(error)
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return low


def _rates(scale: Array) -> Array:
    return _last(0.9 / np.maximum(scale, 0.5)) * _RATES


def _noise(scale: Array, rates: Array) -> Array:
    return np.log1p(-((_last(scale) * rates) ** 2))


def _mixed(logs: Array) -> Array:
    """The logarithm of the mean of the last axis."""
    most = logs.max(axis=-1)
    found: Array = most + np.log(np.exp(logs - _last(most)).mean(axis=-1))
    return found


def _last(values: Array) -> Array:
    return values[..., np.newaxis]


def _arrays(*values: ArrayLike) -> list[Any]:
    return [np.asarray(one, dtype=float) for one in values]
