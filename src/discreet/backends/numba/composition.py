"""Compiled recursion over adaptive choices. Derivation and use: ``discreet.privacy.composition``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .compiled import loop, part


@part(inline="always")
def _shape(
    near: float, far: float, near_drop: float, far_drop: float, up: float, rate: float, per_cell: float
) -> tuple[float, float]:
    """How the adversary's value moves inside a cell: ``slope`` and ``bending`` of the curve's docstring."""
    bow = near_drop - far_drop
    slope = (far_drop + up * bow) * per_cell - rate * (near - far)
    bending = rate * ((near - far) + bow * per_cell)
    return slope, bending


@loop(error_model="numpy")
def worst_case_curve(width: float, cells: int, reach: NDArray[np.int64]) -> NDArray[np.float64]:
    """Delta after ``len(reach)`` adaptive steps of bounded range ``width`` at epsilon ``i * width / cells``.

    Step ``s`` is computed for ``i = 0 .. reach[s]``; farther out its last value stands in, which is
    safe because delta never increases. ``reach`` must not decrease.

    The adversary of one step picks losses ``{t, t - width}``. With ``t`` in the j-th cell and
    ``x = 1 - exp(t_j - t)``, chords between the stored values turn the value of that pick into

        border + (bending + slope) x - bending x / (1 - x),

    concave, with maximum ``border + (sqrt(bending + slope) - sqrt(bending))^2`` where
    ``(1 - x)^2 = bending / (bending + slope)``. If that is outside the cell, the best pick of the cell
    lies on one of its borders. Only few cells have an interior maximum, so the borders of all cells
    are compared first.

    Every quantity is a sum of positive terms or a difference of stored values, so that no digit is
    lost however small ``width`` is; ``bending`` is of the order of ``slope / width``, which is why
    ``slope`` must not be computed as the difference of the two coefficients.
    """
    spacing = width / cells
    per_cell = -1.0 / math.expm1(-spacing)
    edge = math.exp(-2.0 * spacing)  # (1 - x)^2 at the far border of a cell
    size = reach.max() + 2 * cells + 1
    # Slot ``cells + i`` holds delta at ``i * spacing``: one width of negative epsilons comes first.
    old = np.zeros(size)
    new = np.zeros(size)
    drop = np.zeros(size)
    known = 0
    for step in range(reach.size):
        last = reach[step]
        old[cells + known + 1 : last + 2 * cells + 1] = old[cells + known]
        for i in range(1, cells + 1):
            # Swapping the neighbours turns a pick into another pick: delta(-e) follows from delta(e).
            old[cells - i] = old[cells + i] - math.expm1(-i * spacing) * (1.0 - old[cells + i])
        for i in range(1, last + 2 * cells + 1):
            drop[i] = old[i - 1] - old[i]
        best = new[cells : cells + last + 1]
        best[:] = old[cells : cells + last + 1]  # t = 0 or t = width: a step that says nothing
        for j in range(cells):
            up = math.expm1(width - j * spacing) * math.exp(j * spacing) / math.expm1(width)
            down = math.expm1(j * spacing) / math.expm1(width)
            rate = math.exp(j * spacing) / math.expm1(width)
            near = old[cells - j : cells - j + last + 1]
            far = old[2 * cells - j : 2 * cells - j + last + 1]
            near_drop = drop[cells - j : cells - j + last + 1]
            far_drop = drop[2 * cells - j : 2 * cells - j + last + 1]
            interior = 0
            for i in range(last + 1):
                slope, bending = _shape(near[i], far[i], near_drop[i], far_drop[i], up, rate, per_cell)
                interior += 1 if (slope > 0.0) & (bending > (bending + slope) * edge) else 0
                border = up * near[i] + down * far[i]
                best[i] = border if border > best[i] else best[i]
            if interior == 0:
                continue
            for i in range(last + 1):
                slope, bending = _shape(near[i], far[i], near_drop[i], far_drop[i], up, rate, per_cell)
                rising = bending + slope
                gain = slope * slope / (rising + bending + 2.0 * math.sqrt(abs(rising * bending)))
                inside = (slope > 0.0) & (bending > rising * edge)
                value = up * near[i] + down * far[i] + (gain if inside else 0.0)
                best[i] = value if value > best[i] else best[i]
        known = last
        old, new = new, old
    return old[cells : cells + known + 1].copy()
