"""Rounds of submodular minimization. Meaning: ``discreet.online.minimize``."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from .prefix_sums cimport PrefixSum
from .rows cimport rising


cdef class Cuts:
    """People who are cuts with prices: `objectives.Arcs`, checked once.

    Tail and head of every arc; the start of each person's arcs, their indices and weights; the items' prices,
    in a row for each person or one for everybody.
    """

    cdef readonly Py_ssize_t n_people, n_items
    cdef const int64_t[::1] tail, head, starts
    cdef const int32_t[::1] arcs
    cdef const double[::1] weights
    cdef const double[:, ::1] prices

    def __init__(self, people):
        cdef Py_ssize_t i
        self.tail, self.head, self.starts, self.arcs, self.weights, self.prices = people
        self.n_people, self.n_items = self.starts.shape[0] - 1, self.prices.shape[1]
        if self.n_people < 0 or self.prices.shape[0] not in (1, self.n_people):
            raise ValueError("prices are one row for everybody, or one for each person")
        if self.tail.shape[0] != self.head.shape[0] or self.weights.shape[0] != self.arcs.shape[0]:
            raise ValueError("an arc has two ends, and every arc of a person a weight")
        for i in range(self.tail.shape[0]):
            if not (0 <= self.tail[i] < self.n_items and 0 <= self.head[i] < self.n_items):
                raise IndexError(f"arc {i} joins items that are not among {self.n_items}")
        for i in range(self.arcs.shape[0]):
            if not 0 <= self.arcs[i] < self.tail.shape[0]:
                raise IndexError(f"arc {self.arcs[i]} is not one of {self.tail.shape[0]}")
        for i in range(self.n_people):
            if self.starts[i + 1] < self.starts[i]:
                raise ValueError(f"the arcs of person {i} end before they start")
        if self.starts[0] < 0 or self.starts[self.n_people] > self.arcs.shape[0]:
            raise IndexError("people have more arcs than there are")

    cdef int check(self, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t n_items) except -1:
        if not 0 <= first <= stop <= self.n_people:
            raise IndexError(f"people {first} to {stop} are not among {self.n_people}")
        if n_items != self.n_items:
            raise ValueError(f"{n_items} items; these people are about {self.n_items}")
        return 0

    cdef void gradient_of(self, Py_ssize_t person, const double *scores, double *out) noexcept nogil:
        cdef Py_ssize_t row = person if self.prices.shape[0] > 1 else 0, i, k
        cdef int64_t u, v
        for i in range(self.n_items):
            out[i] = self.prices[row, i]
        for k in range(self.starts[person], self.starts[person + 1]):
            u = self.tail[self.arcs[k]]
            v = self.head[self.arcs[k]]
            if scores[u] < scores[v] or (scores[u] == scores[v] and u < v):
                out[u] += self.weights[k]
                out[v] -= self.weights[k]

    cdef double value_of(self, Py_ssize_t person, const double *inside) noexcept nogil:
        cdef Py_ssize_t row = person if self.prices.shape[0] > 1 else 0, i, k
        cdef double cost = 0.0
        for i in range(self.n_items):
            cost += self.prices[row, i] * inside[i]
        for k in range(self.starts[person], self.starts[person + 1]):
            if inside[self.tail[self.arcs[k]]] > inside[self.head[self.arcs[k]]]:
                cost += self.weights[k]
        return cost

    def gradient(self, Py_ssize_t person, const double[::1] scores):
        """The marginal change of the person's cut as items join by rising score, equal scores by item."""
        cdef double[::1] out = np.empty(self.n_items)
        self.check(person, person + 1, scores.shape[0])
        if out.shape[0]:
            self.gradient_of(person, &scores[0], &out[0])
        return np.asarray(out)

    def values(self, Py_ssize_t first, const double[::1] inside, double[::1] out):
        """The cost of the items that are 1 in ``inside`` for people from ``first`` on, one per output."""
        cdef Py_ssize_t t
        self.check(first, first + out.shape[0], inside.shape[0])
        with nogil:
            for t in range(out.shape[0]):
                out[t] = self.value_of(first + t, &inside[0])


cdef class Chain:
    """The point clip(centre - sums / regularization, 0, 1), and the chain of its level sets.

    ``order`` lists the items as the chain adds them, by rising sums, for the sums last used; ties of the
    point are broken by the sums, those of the sums by item.
    """

    _state = ("order",)

    cdef readonly Py_ssize_t n_items
    cdef double regularization, centre
    cdef int64_t[::1] places, merged

    def __init__(self, Py_ssize_t n_items, double regularization, double centre):
        if n_items < 1:
            raise ValueError(f"n_items={n_items} must be at least 1")
        self.n_items, self.regularization, self.centre = n_items, regularization, centre
        self.places, self.merged = np.arange(n_items), np.empty(n_items, dtype=np.int64)

    @property
    def order(self):
        return np.asarray(self.places)

    @order.setter
    def order(self, order):
        if not np.array_equal(np.sort(order), np.arange(self.n_items)):
            raise ValueError("the array order does not name every item once")
        cdef const int64_t[::1] given = order
        self.places[:] = given

    cdef int check(self, const double[::1] numbers) except -1:
        if numbers.shape[0] != self.n_items:
            raise ValueError(f"{numbers.shape[0]} numbers for {self.n_items} items")
        return 0

    cdef void sort(self, const double *scores) noexcept nogil:
        """Sort the order by rising score, equal scores by item."""
        rising(scores, self.n_items, &self.places[0], &self.merged[0])

    cdef double range_of(self, const double *gradient, bint empty_is_free) noexcept nogil:
        cdef double risen = 0.0, height = 0.0, lowest = 0.0, step
        cdef Py_ssize_t i
        for i in range(self.n_items):
            step = gradient[self.places[i]]
            if step > 0.0:
                risen += step
            height += step
            lowest = min(lowest, height)
        return max(risen, -lowest) if empty_is_free else risen - lowest

    def sort_by(self, const double[::1] sums):
        """Bring ``order`` up to date."""
        self.check(sums)
        self.sort(&sums[0])

    def range(self, const double[::1] gradient, const double[::1] sums, bint empty_is_free):
        """The smallest range of a submodular function with this gradient along the chain of ``sums``.

        If the empty set costs nothing: its smallest bound.
        """
        self.check(gradient)
        self.sort_by(sums)
        return self.range_of(&gradient[0], empty_is_free)

    cdef void threshold_at(self, const double *sums, double uniform, double *out) noexcept nogil:
        # Coordinates outside [0, 1] need no clipping to be compared with a number in [0, 1).
        cdef Py_ssize_t i
        for i in range(self.n_items):
            out[i] = 1.0 if self.centre - sums[i] / self.regularization > uniform else 0.0

    def threshold(self, const double[::1] sums, double uniform):
        """The set of items whose coordinate exceeds a uniform number: 1, and 0 for the others."""
        cdef double[::1] out = np.empty(self.n_items)
        self.check(sums)
        self.threshold_at(&sums[0], uniform, &out[0])
        return np.asarray(out)

    def draw(self, const double[::1] sums, double exploration, double uniform):
        """Draw a set of the chain by its weight and ``exploration``: the set, size and probability."""
        cdef double[::1] out = np.empty(self.n_items)
        cdef double above = 1.0, below, passed = 0.0, chance = 1.0
        cdef Py_ssize_t n = self.n_items, place = self.n_items, k
        self.sort_by(sums)
        for k in range(n + 1):
            below = 0.0
            if k < n:
                below = min(max(self.centre - sums[self.places[k]] / self.regularization, 0.0), 1.0)
            chance = (1.0 - exploration) * (above - below) + exploration / (n + 1)
            passed += chance
            if uniform < passed:
                place = k
                break
            above = below
        for k in range(n):
            out[self.places[k]] = 1.0 if k < place else 0.0
        return np.asarray(out), place, chance

    def run(
        self, Cuts cuts not None, stream, Py_ssize_t first, Py_ssize_t stop, totals, double[::1] shown,
        const double[::1] uniforms, limits,
    ):
        """Rounds ``first`` to ``stop`` of a stream; between them a sum is taken, with a row of noise.

        ``totals`` are the running sum (None for a single round), its private sum so far, and the gradient not
        yet added. On entry ``shown`` is the set played in the first round; on return it is that of the last,
        and so is the gradient. ``limits`` are the largest range of a gradient, infinite for people known to
        keep to it, and whether the empty set costs nothing. Returns how many gradients were shortened.
        """
        cdef PrefixSum steps = totals[0]
        cdef double[::1] sums = totals[1], pending = totals[2]
        cdef double limit = limits[0], size
        cdef bint empty_is_free = limits[1]
        cdef double[::1] costs = stream.rewards
        cdef double[:, ::1] played = stream.selections
        cdef const uint8_t[::1] within_limit = stream.within_limit.view(np.uint8)
        cdef Py_ssize_t n = self.n_items, shortened = 0, t, i
        cuts.check(first, stop, n)
        self.check(sums)
        self.check(pending)
        self.check(shown)
        if played.shape[1] != n or not stop <= min(costs.shape[0], played.shape[0], within_limit.shape[0]):
            raise ValueError("the stream has a cost, a set and a limit for every round")
        if stop - first > 1:
            if uniforms.shape[0] < stop - first - 1:
                raise ValueError("every round but the first takes a uniform number")
            if steps is None or &steps.sums[0] != &sums[0]:
                raise ValueError("rounds are summed in the sum that sets are drawn from")
            steps.ready(n, stop - first - 1)
        with nogil:
            for t in range(first, stop):
                if t > first:
                    steps.step(&pending[0])
                    self.threshold_at(&sums[0], uniforms[t - first - 1], &shown[0])
                costs[t] = cuts.value_of(t, &shown[0])
                for i in range(n):
                    played[t, i] = shown[i]
                    pending[i] = 0.0
                if not within_limit[t]:
                    continue
                cuts.gradient_of(t, &sums[0], &pending[0])
                if limit == INFINITY:
                    continue
                self.sort(&sums[0])
                size = self.range_of(&pending[0], empty_is_free)
                if size > limit:
                    if size > limit * (1.0 + 1e-9):
                        shortened += 1
                    for i in range(n):
                        pending[i] *= limit / size
        return shortened
