"""Projections onto matroid polytopes: Wolfe's nearest-point method, and scaling to a total."""

from libc.math cimport INFINITY, exp, fabs, hypot, log, sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memmove

import numpy as np

from .matroids cimport Oracle
from .portable cimport cloned

cdef extern from *:
    """
    /* Below this share a vertex counts as gone: its contribution is within rounding of nothing. */
    #define SMALLEST_SHARE 1e-13
    #define GAP 1e-14
    #define STALLED_STEPS 30
    """
    const double SMALLEST_SHARE, GAP
    const int STALLED_STEPS


cdef cloned _rotate(double *one, double *other, Py_ssize_t size, double c, double s) noexcept nogil:
    cdef double first, second
    cdef Py_ssize_t i
    for i in range(size):
        first = one[i]
        second = other[i]
        one[i] = c * first + s * second
        other[i] = c * second - s * first


cdef cloned _subtract(double *column, const double *row, Py_ssize_t size, double value) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        column[i] -= value * row[i]


cdef cloned _back_substitute(
    const double *factor, Py_ssize_t stride, const double *right, Py_ssize_t size, double *out
) noexcept nogil:
    """Solve factor out = right for an upper triangular factor."""
    cdef Py_ssize_t i, j, last
    cdef double a, b, c, d
    cdef const double *row
    for i in range(size - 1, -1, -1):
        # Four sums at a time, as a single one would wait for each addition.
        a, b, c, d = right[i], 0.0, 0.0, 0.0
        row = factor + i * stride
        last = i + 1 + (size - i - 1) // 4 * 4
        for j in range(i + 1, last, 4):
            a -= row[j] * out[j]
            b -= row[j + 1] * out[j + 1]
            c -= row[j + 2] * out[j + 2]
            d -= row[j + 3] * out[j + 3]
        for j in range(last, size):
            a -= row[j] * out[j]
        out[i] = ((a + b) + (c + d)) / row[i]


cdef void _drop(
    double *factor, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t gone, double *half
) noexcept nogil:
    """Remove a column from the upper Cholesky factor; rotations of rows make it triangular again.

    ``half``, the solution of factor' half = 1, turns with the rows.
    """
    cdef Py_ssize_t i, start
    cdef double length, c, s
    cdef double *row
    cdef double *before
    for i in range(size):
        row = factor + i * stride
        start = max(i - 1, gone)
        memmove(row + start, row + start + 1, (size - 1 - start) * sizeof(double))
        if i > gone:
            # The former diagonal of this row is now below the diagonal of the row before.
            before = row - stride
            length = hypot(before[i - 1], row[i - 1])
            c = before[i - 1] / length
            s = row[i - 1] / length
            before[i - 1] = length
            _rotate(before + i, row + i, size - 1 - i, c, s)
            _rotate(half + i - 1, half + i, 1, c, s)


cdef class NearestPointSearch:
    """The point nearest to a target on a face of a matroid polytope (Wolfe 1976).

    See constraints/polytopes: a few vertices are kept whose hull holds the point. Vertices are independent
    sets, kept as lists of places in ``items``; ``factor`` is the upper Cholesky factor of
    1 + <v_i - target, v_j - target>, and ``half`` solves factor' half = 1.
    """

    cdef Oracle oracle
    cdef readonly Py_ssize_t n_items, rank, n_vertices
    cdef int64_t[:, ::1] members
    cdef int64_t[::1] lengths
    cdef double[:, ::1] factor
    cdef double[::1] point, shares_of, ideal, half, reached, column, residual, inside

    def __init__(self, Oracle oracle not None, Py_ssize_t n_items, Py_ssize_t rank):
        """For searches among up to ``n_items`` items, whose independent sets have up to ``rank`` of them."""
        # Not a power of two, whose multiples would compete for a few cache lines.
        cdef Py_ssize_t room = (1 << (n_items + 1).bit_length()) + 8
        self.oracle, self.n_items, self.rank = oracle, n_items, rank
        self.members = np.empty((room, rank), dtype=np.int64)
        self.lengths = np.empty(room, dtype=np.int64)
        self.factor = np.empty((room, room))
        rows = np.empty((8, room))
        self.point, self.shares_of, self.ideal, self.half = rows[0], rows[1], rows[2], rows[3]
        self.reached, self.column, self.residual, self.inside = rows[4], rows[5], rows[6], rows[7]

    def run(
        self, const int64_t[::1] items, const double[::1] target, const int64_t[::1] ends, *,
        const int64_t[::1] below, Py_ssize_t tight, Py_ssize_t most, Py_ssize_t limit,
    ):
        """Search, for ``x``, ``shares`` and `vertices`; returns the duality gap and the number of steps.

        Block b of the face's chain of tight sets ends before ``items[ends[b]]``; from block ``tight`` on
        items are free. The independent set ``below`` is contracted. No set has more than ``most`` items.
        """
        cdef Py_ssize_t steps
        cdef double gap = 0.0
        self.oracle.reserve(items, target, ends)
        self.oracle.check_items(below)
        if items.shape[0] > self.n_items or most > self.rank:
            raise ValueError(f"there is room for {self.n_items} items and a rank of {self.rank}")
        with nogil:
            steps = self._search(items, target, ends, below, tight, most, limit, &gap)
        self.oracle.finish()
        return max(gap, 0.0), steps

    @property
    def x(self):
        """The point, in the order of the items of the last search, followed by unused entries."""
        return np.asarray(self.point)

    @property
    def shares(self):
        """The shares of the vertices in the point."""
        return np.array(self.shares_of[: self.n_vertices])

    def vertices(self, Py_ssize_t n):
        """The vertices as rows of 0 and 1, for the ``n`` items of the last search."""
        found = np.zeros((self.n_vertices, n))
        members, lengths = np.asarray(self.members)[: self.n_vertices], np.asarray(self.lengths)
        inside = np.arange(self.rank) < lengths[: self.n_vertices, None]
        found[np.nonzero(inside)[0], members[inside]] = 1.0
        return found

    cdef Py_ssize_t _search(
        self, const int64_t[::1] items, const double[::1] target, const int64_t[::1] ends,
        const int64_t[::1] below, Py_ssize_t tight, Py_ssize_t most, Py_ssize_t limit, double *gap,
    ) noexcept nogil:
        cdef Py_ssize_t n = items.shape[0], size = 0, steps = 0, number, count, i, j
        cdef int stalled = 0
        cdef double squared = 0.0, best = INFINITY
        cdef double sought, won, scale, distance, corner, common, left, last, value
        cdef int64_t place
        cdef double *x = &self.point[0]
        cdef double *residual = &self.residual[0]
        cdef double *inside = &self.inside[0]
        cdef double *column = &self.column[0]
        for i in range(n):
            squared += target[i] * target[i]
            x[i] = 0.0
            residual[i] = -target[i]
            inside[i] = 0.0
        while True:
            number = self.oracle.offer_by_cost(below, items, self.residual, ends, tight, n, most)
            count = 0
            sought = won = 0.0
            for i in range(number):
                if self.oracle.fits[i]:
                    place = self.oracle.places[i]
                    self.members[size, count] = place
                    count += 1
                    sought += target[place]
                    won += residual[place]
                    inside[place] = 1.0
            scale = distance = 0.0
            for i in range(n):
                scale += residual[i] * x[i]
                distance += residual[i] * residual[i]
            if size:
                gap[0] = scale - won
                # Near the end a step lowers the distance by less than its rounding, but only for a few steps.
                stalled = stalled + 1 if distance >= best else 0
                best = min(distance, best)
                if gap[0] <= GAP * (1.0 + fabs(scale)) or stalled > STALLED_STEPS or steps >= limit:
                    break
            # The new vertex's column of the factor.
            corner = 1.0 + count - 2.0 * sought + squared
            for i in range(size):
                common = 0.0
                for j in range(self.lengths[i]):
                    common += inside[self.members[i, j]]
                column[i] = 1.0 + common - self.reached[i] - sought + squared
            left = corner
            last = 1.0
            for i in range(size):
                value = column[i] / self.factor[i, i]
                _subtract(column + i + 1, &self.factor[i, i + 1], size - i - 1, value)
                column[i] = value
                left -= value * value
                last -= value * self.half[i]
            # Except for rounding there are at most as many vertices as items, plus one.
            if size and (left <= 1e-13 * corner or size == n + 1):
                break
            for i in range(count):
                inside[self.members[size, i]] = 0.0
            for i in range(size):
                self.factor[i, size] = column[i]
            self.factor[size, size] = sqrt(left)
            self.half[size] = last / self.factor[size, size]
            self.lengths[size] = count
            self.reached[size] = sought
            self.shares_of[size] = 0.0 if size else 1.0
            size = self._walk(size + 1)
            for i in range(n):
                x[i] = 0.0
            for i in range(size):
                for j in range(self.lengths[i]):
                    x[self.members[i, j]] += self.shares_of[i]
            for i in range(n):
                residual[i] = x[i] - target[i]
            steps += 1
        self.n_vertices = size
        return steps

    cdef Py_ssize_t _walk(self, Py_ssize_t size) noexcept nogil:
        """Move to the nearest point of the hull; vertices whose share vanishes are dropped.

        Returns how many are left.
        """
        cdef Py_ssize_t stride = self.factor.shape[1], leaving, rows, kept, i, j
        cdef double total, step, drop, reach
        cdef double *ideal = &self.ideal[0]
        cdef double *shares = &self.shares_of[0]
        while True:
            # The nearest point of the affine hull: factor ideal = half.
            _back_substitute(&self.factor[0, 0], stride, &self.half[0], size, ideal)
            total = 0.0
            for i in range(size - 1, -1, -1):
                total += ideal[i]
            step = INFINITY
            leaving = -1
            for i in range(size):
                ideal[i] /= total
                if ideal[i] <= SMALLEST_SHARE:
                    drop = shares[i] - ideal[i]
                    # A vertex whose share does not fall has share 0 already and is dropped at once.
                    reach = shares[i] / drop if drop > 0.0 else 0.0
                    if reach < step:
                        step = reach
                        leaving = i
            if leaving < 0:
                for i in range(size):
                    shares[i] = ideal[i]
                return size
            step = min(1.0, step)
            total = 0.0
            for i in range(size):
                shares[i] = (1.0 - step) * shares[i] + step * ideal[i]
            shares[leaving] = 0.0
            rows = size
            kept = 0
            for i in range(size - 1, -1, -1):
                if not shares[i] > SMALLEST_SHARE:
                    _drop(&self.factor[0, 0], stride, rows, i, &self.half[0])
                    rows -= 1
            for i in range(size):
                if shares[i] > SMALLEST_SHARE:
                    shares[kept] = shares[i]
                    self.lengths[kept] = self.lengths[i]
                    self.reached[kept] = self.reached[i]
                    for j in range(self.lengths[i]):
                        self.members[kept, j] = self.members[i, j]
                    total += shares[i]
                    kept += 1
            size = kept
            for i in range(size):
                shares[i] /= total


def scale(const double[::1] log_w, const int64_t[::1] items, double total, double[::1] log_x):
    """min(0, log_w + s) with the s for which the exponentials sum to ``total``, less than there are items.

    For ``items`` only. Entries above 1 are set to 1, and the others share the rest, until none exceeds 1.
    """
    cdef Py_ssize_t i
    if log_x.shape[0] != log_w.shape[0]:
        raise ValueError("there is room for every logarithm")
    for i in range(items.shape[0]):
        if not 0 <= items[i] < log_w.shape[0]:
            raise IndexError(f"item {items[i]} is not one of {log_w.shape[0]}")
    if not total < items.shape[0]:
        raise ValueError(f"total={total} is not below the number of items, {items.shape[0]}")
    with nogil:
        _scale(log_w, items, total, log_x)


cdef void _scale(
    const double[::1] log_w, const int64_t[::1] items, double total, double[::1] log_x
) noexcept nogil:
    cdef Py_ssize_t size = items.shape[0], capped = 0, i
    cdef double reach = -INFINITY, level = INFINITY, top, weight, left
    cdef int64_t item
    for i in range(size):
        log_x[items[i]] = -1.0
    while level > 0.0:
        top = -INFINITY
        weight = 0.0
        for i in range(size):
            if log_x[items[i]] < 0.0:
                top = max(top, log_w[items[i]])
        for i in range(size):
            if log_x[items[i]] < 0.0:
                weight += exp(log_w[items[i]] - top)
        # If the capped ones leave nothing, the others keep their distance below the last of them.
        left = total - capped
        level = reach + top
        if left > 0.0:
            level = max(level, log(left / weight))
        for i in range(size):
            item = items[i]
            if log_x[item] < 0.0:
                if level <= 0.0:
                    log_x[item] = (log_w[item] - top) + level
                elif (log_w[item] - top) + level > 0.0:
                    log_x[item] = 0.0
                    capped += 1
                    reach = max(reach, -log_w[item])
