"""The recursion over adaptive choices of bounded range: see `discreet.privacy.composition`."""

from libc.math cimport exp, expm1, fabs, sqrt
from libc.stdint cimport int64_t

import numpy as np

from .portable cimport cloned_wide


cdef inline void _shape(
    double near, double far, double near_drop, double far_drop, double up, double rate, double per_cell,
    double *slope, double *bending,
) noexcept nogil:
    """How the adversary's value moves inside a cell: see `worst_case_curve`."""
    cdef double bow = near_drop - far_drop
    slope[0] = (far_drop + up * bow) * per_cell - rate * (near - far)
    bending[0] = rate * ((near - far) + bow * per_cell)


cdef cloned_wide _borders(
    const double *near, const double *far, const double *near_drop, const double *far_drop, Py_ssize_t size,
    double up, double down, double rate, double per_cell, double edge, double *best, Py_ssize_t *inside,
) noexcept nogil:
    """Raise ``best`` to the picks at a border of the cell; returns how many entries have the best inside."""
    cdef double slope, bending, border
    cdef Py_ssize_t i, interior = 0
    for i in range(size):
        _shape(near[i], far[i], near_drop[i], far_drop[i], up, rate, per_cell, &slope, &bending)
        interior += (slope > 0.0) & (bending > (bending + slope) * edge)
        border = up * near[i] + down * far[i]
        best[i] = border if border > best[i] else best[i]
    inside[0] = interior


cdef cloned_wide _interiors(
    const double *near, const double *far, const double *near_drop, const double *far_drop, Py_ssize_t size,
    double up, double down, double rate, double per_cell, double edge, double *best,
) noexcept nogil:
    """Raise ``best`` to the picks inside the cell, where these are best."""
    cdef double slope, bending, rising, gain, value
    cdef Py_ssize_t i
    for i in range(size):
        _shape(near[i], far[i], near_drop[i], far_drop[i], up, rate, per_cell, &slope, &bending)
        rising = bending + slope
        gain = slope * slope / (rising + bending + 2.0 * sqrt(fabs(rising * bending)))
        gain = gain if (slope > 0.0) & (bending > rising * edge) else 0.0
        value = up * near[i] + down * far[i] + gain
        best[i] = value if value > best[i] else best[i]


def worst_case_curve(double width, Py_ssize_t cells, const int64_t[::1] reach not None):
    """Delta after ``len(reach)`` adaptive steps of bounded range ``width`` at epsilon ``i * width / cells``.

    Step ``s`` is computed for ``i = 0 .. reach[s]``; its last value is used farther out, which is safe
    because delta never increases. ``reach`` must not decrease.

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
    cdef double spacing = width / cells, per_cell = -1.0 / expm1(-spacing)
    cdef double edge = exp(-2.0 * spacing)  # (1 - x)^2 at the far border of a cell
    cdef Py_ssize_t known = 0, last = 0, step, i, j, size, inside = 0
    cdef double up, down, rate
    for step in range(reach.shape[0]):
        if reach[step] < last:
            raise ValueError("reach must not decrease")
        last = reach[step]
    if cells < 1:
        raise ValueError("there is at least one cell")
    # Slot ``cells + i`` holds delta at ``i * spacing``: one width of negative epsilons comes first.
    cdef double[:, ::1] rooms = np.zeros((3, last + 2 * cells + 1))
    cdef double *old = &rooms[0, 0]
    cdef double *new = &rooms[1, 0]
    cdef double *drop = &rooms[2, 0]
    with nogil:
        for step in range(reach.shape[0]):
            last = reach[step]
            size = last + 1
            for i in range(cells + known + 1, last + 2 * cells + 1):
                old[i] = old[cells + known]
            for i in range(1, cells + 1):
                # Swapping the neighbours turns a pick into another pick: delta(-e) follows from delta(e).
                old[cells - i] = old[cells + i] - expm1(-i * spacing) * (1.0 - old[cells + i])
            for i in range(1, last + 2 * cells + 1):
                drop[i] = old[i - 1] - old[i]
            for i in range(size):  # t = 0 or t = width: a step that reveals nothing
                new[cells + i] = old[cells + i]
            for j in range(cells):
                up = expm1(width - j * spacing) * exp(j * spacing) / expm1(width)
                down = expm1(j * spacing) / expm1(width)
                rate = exp(j * spacing) / expm1(width)
                _borders(
                    old + cells - j, old + 2 * cells - j, drop + cells - j, drop + 2 * cells - j, size,
                    up, down, rate, per_cell, edge, new + cells, &inside,
                )
                if inside:
                    _interiors(
                        old + cells - j, old + 2 * cells - j, drop + cells - j, drop + 2 * cells - j, size,
                        up, down, rate, per_cell, edge, new + cells,
                    )
            known = last
            old, new = new, old
    found = np.empty(known + 1)
    cdef double[::1] out = found
    for i in range(known + 1):
        out[i] = old[cells + i]
    return found
