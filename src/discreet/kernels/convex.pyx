"""Rounds of online convex learning (`online.convex`, `objectives.losses`)."""

from libc.math cimport exp, fabs, log1p, sqrt
from libc.stdint cimport uint8_t

import numpy as np

from .prefix_sums cimport PrefixSum

cpdef enum:
    LOGISTIC = 0
    SQUARED = 1
    LINEAR = 2
    DISTANCE = 3


cdef double _cost_and_gradient(
    int kind, const double *row, double number, const double *point, Py_ssize_t size, double *gradient
) noexcept nogil:
    cdef double total = 0.0, along = 0.0, away, cost, slope, margin, small
    cdef Py_ssize_t i
    if kind == DISTANCE:
        for i in range(size):
            away = point[i] - row[i]
            gradient[i] = away
            total += away * away
        return total / 2.0
    for i in range(size):
        along += row[i] * point[i]
    if kind == LINEAR:
        cost = along
        slope = 1.0
    elif kind == SQUARED:
        slope = along - number
        cost = slope * slope / 2.0
    else:  # ln(1 + exp(-margin)) and its slope, without overflow
        margin = number * along
        small = exp(-fabs(margin))
        cost = log1p(small) + max(-margin, 0.0)
        slope = -number * (small if margin >= 0.0 else 1.0) / (1.0 + small)
    for i in range(size):
        gradient[i] = slope * row[i]
    return cost


cdef double _shorten(double *vector, Py_ssize_t size, double longest) noexcept nogil:
    cdef double largest = 0.0, total = 0.0, part, root, length
    cdef Py_ssize_t i
    for i in range(size):
        largest = max(largest, fabs(vector[i]))
    if largest == 0.0:
        return 0.0
    for i in range(size):
        part = vector[i] / largest
        total += part * part
    root = sqrt(total)
    length = largest * root
    if length > longest:
        for i in range(size):
            vector[i] = vector[i] / largest * (longest / root)
    return length


def shorten(double[::1] vector, double longest):
    """Shorten ``vector`` to the norm ``longest`` if it is longer; returns its original norm.

    Norms are computed in units of the largest entry, so that no square overflows.
    """
    return _shorten(&vector[0], vector.shape[0], longest) if vector.shape[0] else 0.0


cdef class RowLosses:
    """Convex costs of one of the kinds above, each with a row and a number (a label, a target, or 0)."""

    cdef readonly int kind
    cdef readonly Py_ssize_t n_people, dimension
    cdef const double[:, ::1] rows
    cdef const double[::1] numbers

    def __init__(self, int kind, const double[:, ::1] rows, const double[::1] numbers):
        if not LOGISTIC <= kind <= DISTANCE:
            raise ValueError(f"kind={kind} is not a kind of cost")
        if rows.shape[0] != numbers.shape[0] or not rows.shape[1]:
            raise ValueError("a row and a number for each person, and a coordinate at least")
        self.kind, self.rows, self.numbers = kind, rows, numbers
        self.n_people, self.dimension = rows.shape[0], rows.shape[1]

    cdef int check(self, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t dimension) except -1:
        if not 0 <= first <= stop <= self.n_people:
            raise IndexError(f"people {first} to {stop} are not among {self.n_people}")
        if dimension != self.dimension:
            raise ValueError(f"point has {dimension} entries; {self.dimension} expected")
        return 0

    cdef double at(self, Py_ssize_t person, const double *point, double *gradient) noexcept nogil:
        return _cost_and_gradient(
            self.kind, &self.rows[person, 0], self.numbers[person], point, self.dimension, gradient
        )

    def cost_and_gradient(self, Py_ssize_t person, const double[::1] point):
        """A person's cost of ``point``, and its gradient."""
        cdef double[::1] gradient = np.empty(self.dimension)
        self.check(person, person + 1, point.shape[0])
        return self.at(person, &point[0], &gradient[0]), np.asarray(gradient)

    def costs(self, Py_ssize_t first, const double[::1] point, double[::1] out):
        """The costs of ``point`` for people from ``first`` on, one for each output."""
        cdef double[::1] gradient = np.empty(self.dimension)
        cdef Py_ssize_t t
        self.check(first, first + out.shape[0], point.shape[0])
        with nogil:
            for t in range(out.shape[0]):
                out[t] = self.at(first + t, &point[0], &gradient[0])


cdef class Leader:
    """The leader on a ball (``radius`` around ``center``) or in a box (``radius`` below 0; its two corners).

    (H played + A center - sums) / (rounds H + A), projected, where H is the ``curvature`` and A is ``held``
    and ``growing`` for each round.
    """

    cdef readonly Py_ssize_t dimension
    cdef const double[::1] center, low, high
    cdef double radius, curvature, held, growing

    def __init__(self, domain, double curvature, double held, double growing):
        self.center, self.radius, self.low, self.high = domain
        self.curvature, self.held, self.growing = curvature, held, growing
        self.dimension = self.center.shape[0]
        if not self.dimension or not self.low.shape[0] == self.high.shape[0] == self.dimension:
            raise ValueError("a center and two corners of one size, which is not 0")

    cdef int check(self, const double[::1] vector) except -1:
        if vector.shape[0] != self.dimension:
            raise ValueError(f"{vector.shape[0]} numbers for {self.dimension} coordinates")
        return 0

    cdef void follow(
        self, const double *sums, const double *played, Py_ssize_t rounds, double *point
    ) noexcept nogil:
        cdef double held = self.held + self.growing * rounds
        cdef double divisor = self.curvature * rounds + held
        cdef Py_ssize_t i
        for i in range(self.dimension):
            point[i] = (self.curvature * played[i] + held * self.center[i] - sums[i]) / divisor
        if self.radius < 0.0:
            for i in range(self.dimension):
                point[i] = min(max(point[i], self.low[i]), self.high[i])
            return
        for i in range(self.dimension):
            point[i] -= self.center[i]
        _shorten(point, self.dimension, self.radius)
        for i in range(self.dimension):
            point[i] += self.center[i]

    def point(self, const double[::1] sums, const double[::1] played, Py_ssize_t rounds):
        """The leader after this many rounds; ``played`` is the sum of their points."""
        cdef double[::1] out = np.empty(self.dimension)
        self.check(sums)
        self.check(played)
        self.follow(&sums[0], &played[0], rounds, &out[0])
        return np.asarray(out)

    def run(
        self, RowLosses losses not None, stream, Py_ssize_t first, Py_ssize_t stop, totals, points,
        Py_ssize_t passed, limits,
    ):
        """Rounds ``first`` to ``stop`` of a stream; between them a sum is taken, with a row of noise.

        ``totals`` are the running sum (None for a single round), its private sum so far, and the gradient not
        yet added; ``points`` the point played in the first round and the sum of ``passed`` points before it.
        On return they are those of the last round. Gradients are shortened to the second of ``limits``;
        returns how many were longer than the first of them.
        """
        cdef PrefixSum steps = totals[0]
        cdef double[::1] sums = totals[1], pending = totals[2], shown = points[0], played = points[1]
        cdef double limit = limits[0], longest = limits[1]
        cdef double[::1] costs = stream.rewards
        cdef double[:, ::1] selections = stream.selections
        cdef const uint8_t[::1] within_limit = stream.within_limit.view(np.uint8)
        cdef Py_ssize_t size = self.dimension, shortened = 0, rounds, t, i
        losses.check(first, stop, size)
        self.check(sums)
        self.check(pending)
        self.check(shown)
        self.check(played)
        rounds = min(costs.shape[0], selections.shape[0], within_limit.shape[0])
        if selections.shape[1] != size or stop > rounds:
            raise ValueError("the stream has a cost, a point and a limit for every round")
        if stop - first > 1:
            if steps is None or &steps.sums[0] != &sums[0]:
                raise ValueError("rounds are summed in the sum that the leader follows")
            steps.ready(size, stop - first - 1)
        with nogil:
            for t in range(first, stop):
                if t > first:
                    steps.step(&pending[0])
                    for i in range(size):
                        played[i] += shown[i]
                    self.follow(&sums[0], &played[0], passed + t - first, &shown[0])
                costs[t] = losses.at(t, &shown[0], &pending[0])
                for i in range(size):
                    selections[t, i] = shown[i]
                if not within_limit[t]:
                    for i in range(size):
                        pending[i] = 0.0
                elif _shorten(&pending[0], size, longest) > limit:
                    shortened += 1
        return shortened
