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

    The sum is piecewise linear in s and bends where a coordinate leaves 0 or reaches its upper limit: find
    the piece by bisection over the sorted bends, then solve the one linear equation of that piece.
    """
    if total <= 0.0:
        return np.zeros_like(z)

    def shifted(s: float) -> Vector:
        return np.minimum(np.maximum(z + s, 0.0), upper)

    def shifted_sum(s: float) -> float:
        return float(shifted(s).sum())

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
    return shifted(s)


def _ramp_sum(leave: Vector, reach: Vector) -> Callable[[float], float]:
    """s -> sum of max(0, s - leave) - max(0, s - reach), each call in logarithmic time."""
    left_behind = np.concatenate([[0.0], np.cumsum(leave)])
    reached = np.concatenate([[0.0], np.cumsum(reach)])

    def at(s: float) -> float:
        i, j = int(np.searchsorted(leave, s)), int(np.searchsorted(reach, s))
        return float((i - j) * s - (left_behind[i] - reached[j]))

    return at


def scale_to_total(log_w: Vector, log_cap: Vector, total: float) -> Vector:
    """min(log_cap, s) with the log-factor s for which the sum of exp(log_w + min(log_cap, s)) is ``total``.

    ``log_cap`` is the logarithm of the largest factor each coordinate may take. Coordinates reach their cap
    in the order of log_cap; bisection over that order finds how many do, and every coordinate leaves the
    search once its side is known, so the work after sorting is linear. Sums of tiny weights stay in
    logarithms.
    """
    order = np.argsort(log_cap)
    cap, weight = log_cap[order], log_w[order]
    capped_sum, free_log_sum = 0.0, -np.inf
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        s = cap[middle]
        below = float(np.exp(weight[low : middle + 1] + cap[low : middle + 1]).sum())
        above = np.logaddexp(free_log_sum, _log_sum(weight[middle + 1 : high]))
        if capped_sum + below + _exp(s + above) <= total:
            capped_sum += below
            low = middle + 1
        else:
            free_log_sum = np.logaddexp(above, weight[middle])
            high = middle
    if low == order.size:
        return log_cap.copy()
    left = total - capped_sum
    s = np.log(left) - free_log_sum if left > 0.0 else -np.inf
    if low:
        s = max(s, cap[low - 1])
    limited: Vector = np.minimum(log_cap, s)
    return limited


def _log_sum(values: Vector) -> float:
    if values.size == 0:
        return -np.inf
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def _exp(value: float) -> float:
    """exp that answers infinity instead of warning."""
    return float(np.exp(value)) if value < 700.0 else np.inf
