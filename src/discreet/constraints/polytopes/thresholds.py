"""One multiplier per limit: move numbers by a common shift or factor until they sum to a total.

Projecting onto {0 <= x <= upper, sum x <= total} subtracts one number from every coordinate (Euclidean) or
multiplies every coordinate by one number (entropic), and clips. Both are found exactly from sorted
breakpoints.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Shifts and log-factors up to these sizes cost no precision worth a second search.
_NEAR_SHIFT = 2.0
_NEAR_LOG_FACTOR = 50.0
_MOST_RECENTRINGS = 4
# Stands for anything too far away to matter; sums of such numbers are still finite.
_FAR = 1e290


def last_at_most(points: Vector, increasing: Callable[[float], float], total: float) -> int:
    """The index of the last point where ``increasing`` is at most ``total``; -1 if there is none."""
    low, high = -1, points.size
    while high - low > 1:
        middle = (low + high) // 2
        if increasing(float(points[middle])) <= total:
            low = middle
        else:
            high = middle
    return low


def shift_to_total(z: Vector, upper: Vector, total: float) -> Vector:
    """clip(z + s, 0, upper) with the shift s for which it sums to ``total`` (below the sum of ``upper``).

    ``upper`` is at most about 1, so the coordinates strictly between their limits lie close together.
    Measured from there they are small, and their sum is exact however large ``z`` itself is: a first search
    finds where, another one is made from there.
    """
    if total <= 0.0:
        return np.zeros_like(z)
    return _shifted(*_recentred(_shift, z, upper, total, _NEAR_SHIFT))


def _recentred(
    search: Callable[[Vector, Vector, float], float], z: Vector, upper: Vector, total: float, near: float
) -> tuple[Vector, Vector, float]:
    """What ``search`` finds from a place that is near, that place, and the upper limits there."""
    with np.errstate(over="ignore", invalid="ignore"):
        s = search(z, upper, total)
        for _ in range(_MOST_RECENTRINGS):
            if abs(s) <= near:
                break
            z = np.clip(z + s, -_FAR, _FAR)
            s = search(z, upper, total)
    return z, upper, s


def _shifted(z: Vector, upper: Vector, s: float) -> Vector:
    return np.minimum(np.maximum(z + s, 0.0), upper)


def _shift(z: Vector, upper: Vector, total: float) -> float:
    """The shift, up to the rounding of numbers as large as ``z`` where it matters.

    The sum is piecewise linear in s and bends where a coordinate leaves 0 or reaches its upper limit: find
    the piece by bisection over the sorted bends, then solve the one linear equation of that piece.
    """

    def shifted_sum(s: float) -> float:
        return float(_shifted(z, upper, s).sum())

    leave, reach = np.sort(-z), np.sort(upper - z)
    bends = np.sort(np.concatenate([leave, reach]), kind="stable")
    left = last_at_most(bends, _ramp_sum(leave, reach), total)
    following = min(left + 1, bends.size - 1)
    # Running sums of large numbers may point to a wrong piece; then every step sums afresh.
    if left < 0 or shifted_sum(float(bends[left])) > total or shifted_sum(float(bends[following])) < total:
        left = max(0, last_at_most(bends, shifted_sum, total))
        following = min(left + 1, bends.size - 1)
    s = float(bends[left])
    inside = z + 0.5 * (s + float(bends[following]))
    moving = int(np.count_nonzero((inside > 0.0) & (inside < upper)))
    if moving:
        # The second pass only removes the rounding of the first.
        for _ in range(2):
            s += (total - shifted_sum(s)) / moving
    return s


def _ramp_sum(leave: Vector, reach: Vector) -> Callable[[float], float]:
    """s -> sum of max(0, s - leave) - max(0, s - reach), each call in logarithmic time."""
    left_behind = np.concatenate([[0.0], np.cumsum(leave)])
    reached = np.concatenate([[0.0], np.cumsum(reach)])

    def at(s: float) -> float:
        i, j = int(np.searchsorted(leave, s)), int(np.searchsorted(reach, s))
        return float((i - j) * s - (left_behind[i] - reached[j]))

    return at


def scale_to_total(log_w: Vector, log_upper: Vector, total: float) -> Vector:
    """min(log_upper, log_w + s) with the log-factor s for which the exponentials sum to ``total``.

    ``log_upper`` is the logarithm of the largest value each coordinate may take; together they exceed
    ``total``, up to rounding. As for shifts, a second search starts where a first one ended if that is far
    from 0, because the logarithms of large or tiny weights are rounded more than their differences.
    """
    log_w, log_upper, s = _recentred(_log_factor, log_w, log_upper, total, _NEAR_LOG_FACTOR)
    limited: Vector = np.minimum(log_upper, log_w + s)
    return limited


def _log_factor(log_w: Vector, log_upper: Vector, total: float) -> float:
    """The log-factor, up to the rounding of numbers as large as ``log_w``.

    Coordinates reach their limit in the order of log_upper - log_w; bisection over that order finds how many
    do, and every coordinate leaves the search once its side is known, so the work after sorting is linear.
    Sums of tiny weights stay in logarithms.
    """
    reach = log_upper - log_w
    order = np.argsort(reach)
    reach, weight, limit = reach[order], log_w[order], np.exp(log_upper[order])
    capped_sum, free_log_sum = 0.0, -np.inf
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        below = float(limit[low : middle + 1].sum())
        above = np.logaddexp(free_log_sum, _log_sum(weight[middle + 1 : high]))
        if capped_sum + below + _exp(reach[middle] + above) <= total:
            capped_sum += below
            low = middle + 1
        else:
            free_log_sum = np.logaddexp(above, weight[middle])
            high = middle
    if low == order.size:
        return float(reach[-1])
    left = total - capped_sum
    s = np.log(left) - free_log_sum if left > 0.0 else -np.inf
    return float(max(s, reach[low - 1]) if low else s)


def _log_sum(values: Vector) -> float:
    if values.size == 0:
        return -np.inf
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def _exp(value: float) -> float:
    """exp that answers infinity instead of warning."""
    return float(np.exp(value)) if value < 700.0 else np.inf
