# cython: auto_pickle=False
"""Private running sums of vectors, one step at a time; what they compute: ``discreet.privacy.prefix_sum``.

A step has two halves. `encode` gives the values to release for a vector, before noise: the output of a
filter, or the sums of the tree nodes that the vector completes. `decode` takes the released values and sets
``prefix`` to the private sum after the step. A loop that has noise for many steps does both halves at once
(`PrefixSum.step`, see the .pxd).

Arrays belong to the caller, who saves them; their shapes and types are checked when a sum is made.
"""

import numpy as np

from libc.math cimport fabs, frexp, ldexp, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from .noise cimport to_grid_of
from .portable cimport cloned_wide

cdef enum:
    TILE = 128  # coordinates at a time, so that all their numbers stay in the cache


cdef class PrefixSum:
    """Base class of the methods: the grid of the noise, the private sum so far, rows of noise for `step`.

    ``grid`` is (mantissa, exponent, step), or None for no noise and no rounding. ``prefix`` is the sum so
    far, and is overwritten.
    """

    def __init__(self, grid, double[::1] prefix not None):
        if not prefix.shape[0]:
            raise ValueError("a running sum has at least one coordinate")
        self.size, self.sums = prefix.shape[0], prefix
        self.noisy = grid is not None
        if grid is not None:
            self.mantissa, self.exponent, self.unit = grid
            if not 1 << 31 <= self.mantissa < 1 << 32:
                raise ValueError("the grid has a mantissa from 2^31 to 2^32")
        self.give(np.empty((0, self.size), dtype=np.int64))

    def give(self, const int64_t[:, ::1] noise not None):
        """Set the rows of noise for the next steps of a loop, replacing earlier ones."""
        if noise.shape[1] != self.size:
            raise ValueError(f"noise has {noise.shape[1]} coordinates; the sum has {self.size}")
        self.noise, self.row = noise, 0

    cdef int ready(self, Py_ssize_t size, Py_ssize_t steps) except -1:
        if size != self.size:
            raise ValueError(f"vectors of {size} coordinates do not fit a sum of {self.size}")
        if self.noisy and self.noise.shape[0] - self.row < steps:
            left = self.noise.shape[0] - self.row
            raise ValueError(f"{steps} steps need a row of noise each; {left} are left")
        return 0

    cdef void step(self, const double *vector) noexcept nogil:
        pass

    def add(self, const double[:, ::1] vectors not None):
        """Take a step with a row of noise for each vector, as loops do."""
        cdef Py_ssize_t i
        self.ready(vectors.shape[1], vectors.shape[0])
        with nogil:
            for i in range(vectors.shape[0]):
                self.step(&vectors[i, 0])


cdef cloned_wide _in_units(const int64_t *steps, Py_ssize_t size, double unit, double *out) noexcept nogil:
    """``steps`` times ``unit``; below 2^53 only the product is rounded."""
    cdef Py_ssize_t i
    for i in range(size):
        out[i] = <double>steps[i] * unit


# --- a filter and its inverse ------------------------------------------------------------------------------


cdef cloned_wide _encode(
    double *buffers, Py_ssize_t stride, Py_ssize_t count, const double *decays, const double *weights,
    const double *vector, Py_ssize_t size, double *out,
) noexcept nogil:
    """``out = vector + sum(weights * buffers)``, then ``buffers = decays * buffers + vector``."""
    cdef double held, weight, decay
    cdef double *buffer
    cdef Py_ssize_t i, k
    for i in range(size):
        out[i] = vector[i]
    for k in range(count):
        buffer, weight, decay = buffers + k * stride, weights[k], decays[k]
        for i in range(size):
            held = buffer[i]
            out[i] += weight * held
            buffer[i] = decay * held + vector[i]


cdef cloned_wide _decode(
    double *buffers, Py_ssize_t stride, Py_ssize_t count, const double *decays, const double *weights,
    const double *released, Py_ssize_t size, double *prefix,
) noexcept nogil:
    """Invert `_encode` on the released values, and add the result for this step to ``prefix``."""
    cdef double fresh[TILE]
    cdef double weight, decay
    cdef double *buffer
    cdef Py_ssize_t i, k
    for i in range(size):
        fresh[i] = released[i]
    for k in range(count):
        buffer, weight = buffers + k * stride, weights[k]
        for i in range(size):
            fresh[i] -= weight * buffer[i]
    for k in range(count):
        buffer, decay = buffers + k * stride, decays[k]
        for i in range(size):
            buffer[i] = decay * buffer[i] + fresh[i]
    for i in range(size):
        prefix[i] += fresh[i]


cdef class FactorizedPrefix(PrefixSum):
    """A sum by a Toeplitz factorization, whose filter is held as decaying buffers.

    The filter gives ``vector + sum(weights * encoder)``; then ``encoder = decays * encoder + vector``. The
    released values pass through the inverse filter, whose buffers are ``decoder``.
    """

    def __init__(
        self, grid, prefix, const double[::1] decays not None, const double[::1] weights not None,
        double[:, ::1] encoder not None, double[:, ::1] decoder not None,
    ):
        super().__init__(grid, prefix)
        self.buffers = decays.shape[0]
        if weights.shape[0] != self.buffers:
            raise ValueError("a filter has one weight for each decay")
        if not (encoder.shape[0] == decoder.shape[0] == self.buffers):
            raise ValueError(f"a filter of {self.buffers} decays has as many buffers")
        if not (encoder.shape[1] == decoder.shape[1] == self.size):
            raise ValueError(f"buffers of a sum of {self.size} coordinates have as many")
        self.decays, self.weights, self.encoder, self.decoder = decays, weights, encoder, decoder

    cdef void encode_part(
        self, const double *vector, Py_ssize_t start, Py_ssize_t count, double *out
    ) noexcept nogil:
        _encode(
            &self.encoder[0, start], self.size, self.buffers, &self.decays[0], &self.weights[0], vector,
            count, out,
        )

    cdef void decode_part(self, const double *released, Py_ssize_t start, Py_ssize_t count) noexcept nogil:
        _decode(
            &self.decoder[0, start], self.size, self.buffers, &self.decays[0], &self.weights[0], released,
            count, &self.sums[start],
        )

    def encode(self, const double[::1] vector not None):
        """The values to release for the vector: a row of steps of the grid, or of floats without noise."""
        if vector.shape[0] != self.size:
            raise ValueError(f"a vector of {vector.shape[0]} coordinates does not fit a sum of {self.size}")
        if not self.noisy:
            return np.array(vector).reshape(1, self.size)
        found = np.empty((1, self.size), dtype=np.int64)
        cdef int64_t[:, ::1] out = found
        cdef double filtered[TILE]
        cdef Py_ssize_t start = 0, count
        with nogil:
            while start < self.size:
                count = min(<Py_ssize_t>TILE, self.size - start)
                self.encode_part(&vector[start], start, count, filtered)
                to_grid_of(filtered, count, self.mantissa, self.exponent, &out[0, start])
                start += count
        return found

    def decode(self, released not None):
        """Take up what was released for a vector."""
        cdef const int64_t[:, ::1] steps
        cdef const double[:, ::1] values
        cdef double floats[TILE]
        cdef Py_ssize_t start = 0, count, i
        if released.shape != (1, self.size):
            raise ValueError(f"what was released has shape {released.shape}; {(1, self.size)} expected")
        if not self.noisy:
            values = released
            for i in range(self.size):
                self.sums[i] += values[0, i]
            return
        steps = released
        with nogil:
            while start < self.size:
                count = min(<Py_ssize_t>TILE, self.size - start)
                _in_units(&steps[0, start], count, self.unit, floats)
                self.decode_part(floats, start, count)
                start += count

    cdef void step(self, const double *vector) noexcept nogil:
        cdef double filtered[TILE]
        cdef int64_t steps[TILE]
        cdef const int64_t *noise
        cdef Py_ssize_t start = 0, count, i
        if not self.noisy:
            for i in range(self.size):
                self.sums[i] += vector[i]
            return
        noise = &self.noise[self.row, 0]
        self.row += 1
        while start < self.size:
            count = min(<Py_ssize_t>TILE, self.size - start)
            self.encode_part(vector + start, start, count, filtered)
            to_grid_of(filtered, count, self.mantissa, self.exponent, steps)
            for i in range(count):
                steps[i] += noise[start + i]
            _in_units(steps, count, self.unit, filtered)
            self.decode_part(filtered, start, count)
            start += count


# --- trees -------------------------------------------------------------------------------------------------

ctypedef fused number:
    int64_t
    double

ctypedef fused outcome:
    int64_t
    double


cdef void _sum_nodes(
    const number *vector, Py_ssize_t size, Node node, Py_ssize_t rows, number *true_sums, number *out
) noexcept nogil:
    """The sums of the nodes that ``vector`` completes, level by level; or of the last one alone."""
    cdef Py_ssize_t level, i
    cdef number *last = out
    for i in range(size):
        last[i] = vector[i]
    for level in range(node.level):
        if rows > 1:
            last += size
            for i in range(size):
                last[i] = last[i - size] + true_sums[level * size + i]
        else:
            for i in range(size):
                last[i] += true_sums[level * size + i]
    for i in range(size):
        true_sums[node.slot * size + i] = last[i]


cdef void _release_node(
    const number *released, Py_ssize_t size, Node node, const double *own_weights, outcome *estimates,
    outcome *prefixes,
) noexcept nogil:
    """Store the release of a node, and the sum of everything up to its end.

    With ``own_weights``, a node's own release has this weight, and the estimates of its halves the rest.
    """
    cdef Py_ssize_t level, i
    cdef outcome *estimate = estimates + node.slot * size
    cdef double own
    for i in range(size):
        estimate[i] = <outcome>released[i]
    if own_weights != NULL:
        for level in range(node.level):
            own = own_weights[level]
            for i in range(size):
                estimate[i] = <outcome>(
                    own * <double>released[(level + 1) * size + i]
                    + (1.0 - own) * <double>(estimate[i] + estimates[level * size + i])
                )
    for i in range(size):
        prefixes[node.slot * size + i] = estimate[i]
        if node.before >= 0:
            prefixes[node.slot * size + i] += prefixes[node.before * size + i]


cdef class TreePrefix(PrefixSum):
    """A sum by a binary tree: each finished block of 2^level vectors is released once.

    Nodes that later sums need are kept in slots, one for each level and a second one for the last:
    ``true_sums`` are their sums, ``estimates`` the released sums, ``prefixes`` the estimates of everything up
    to their end. All are integer steps of the grid, or floats without noise. With ``own_weights``, by level,
    an estimate is a weighted mean of a node's own release, which has this weight, and of the estimates of its
    halves: then each level that a vector completes is released, and estimates and prefixes are floats.

    Vectors of a loop are shortened to a ``norm`` (1 or 2) of ``norm_bound``.
    """

    def __init__(
        self, grid, prefix, true_sums, estimates, prefixes, Py_ssize_t taken, const double[::1] own_weights,
        int norm, double norm_bound,
    ):
        super().__init__(grid, prefix)
        self.levels, self.taken, self.norm, self.norm_bound = len(true_sums) - 1, taken, norm, norm_bound
        self.in_steps, self.combines_halves = self.noisy, own_weights is not None
        if not 1 <= self.levels < 63 or not 0 <= taken <= <Py_ssize_t>1 << self.levels:
            raise ValueError(f"a tree of {self.levels} levels has not taken {taken} vectors")
        if own_weights is not None and own_weights.shape[0] < self.levels - 1:
            raise ValueError("every level but the first has a weight")
        self.own_weights = own_weights
        for array in (true_sums, estimates, prefixes):
            if array.shape != (self.levels + 1, self.size):
                raise ValueError(f"nodes have shape {array.shape}; {(self.levels + 1, self.size)} expected")
        self.true_sums = self._pointer(true_sums, self.in_steps)
        self.estimates = self._pointer(estimates, self.in_steps and not self.combines_halves)
        self.prefixes = self._pointer(prefixes, self.in_steps and not self.combines_halves)
        self.array_owners = (true_sums, estimates, prefixes)
        self.scratch, self.scratch_steps = np.empty(2 * self.size), np.empty(self.size, dtype=np.int64)

    cdef void *_pointer(self, array, bint whole) except NULL:
        cdef int64_t[:, ::1] steps
        cdef double[:, ::1] floats
        if whole:
            steps = array
            return &steps[0, 0]
        floats = array
        return &floats[0, 0]

    cdef Node completed(self) noexcept nogil:
        """The largest node that the next vector completes."""
        cdef Py_ssize_t top = self.levels - 1, full = self.taken >> top
        cdef Node node = Node(0, 0, -1)
        while node.level < top and (self.taken >> node.level) & 1:
            node.level += 1
        node.slot = node.level + full if node.level == top else node.level
        node.before = node.level + 1  # the latest kept node before it
        while node.before < top and not (self.taken >> node.before) & 1:
            node.before += 1
        if node.before >= top:
            node.before = top + full - 1 if full else -1
        return node

    cdef int _room(self) except -1:
        if self.taken >= <Py_ssize_t>1 << self.levels:
            raise ValueError(f"a tree of {self.levels} levels has taken all of its vectors")
        return 0

    def encode(self, double[::1] vector not None):
        """The values to release for the vector: a row for each released node that it completes."""
        if vector.shape[0] != self.size:
            raise ValueError(f"a vector of {vector.shape[0]} coordinates does not fit a sum of {self.size}")
        self._room()
        cdef Node node = self.completed()
        cdef Py_ssize_t rows = node.level + 1 if self.combines_halves else 1
        cdef int64_t[:, ::1] steps
        cdef double[:, ::1] floats
        found = np.empty((rows, self.size), dtype=np.int64 if self.in_steps else np.float64)
        if self.in_steps:
            steps = found
            to_grid_of(&vector[0], self.size, self.mantissa, self.exponent, &self.scratch_steps[0])
            _sum_nodes(&self.scratch_steps[0], self.size, node, rows, <int64_t *>self.true_sums, &steps[0, 0])
        else:
            floats = found
            _sum_nodes(&vector[0], self.size, node, rows, <double *>self.true_sums, &floats[0, 0])
        return found

    def decode(self, released not None):
        """Take up what was released for a vector."""
        self._room()
        cdef Node node = self.completed()
        cdef Py_ssize_t rows = node.level + 1 if self.combines_halves else 1
        cdef const int64_t[:, ::1] steps
        cdef const double[:, ::1] floats
        cdef const double *own = &self.own_weights[0] if self.combines_halves and self.levels > 1 else NULL
        if released.shape != (rows, self.size):
            raise ValueError(f"what was released has shape {released.shape}; {(rows, self.size)} expected")
        if not self.in_steps:
            floats = released
            _release_node(
                &floats[0, 0], self.size, node, own, <double *>self.estimates, <double *>self.prefixes
            )
        elif self.combines_halves:
            steps = released
            _release_node(
                &steps[0, 0], self.size, node, own, <double *>self.estimates, <double *>self.prefixes
            )
        else:
            steps = released
            _release_node(
                &steps[0, 0], self.size, node, own, <int64_t *>self.estimates, <int64_t *>self.prefixes
            )
        self._show(node)
        self.taken += 1

    cdef void _show(self, Node node) noexcept nogil:
        cdef Py_ssize_t i, at = node.slot * self.size
        if self.in_steps and not self.combines_halves:
            _in_units(<int64_t *>self.prefixes + at, self.size, self.unit, &self.sums[0])
            return
        for i in range(self.size):
            self.sums[i] = (<double *>self.prefixes)[at + i] * (self.unit if self.in_steps else 1.0)

    cdef int ready(self, Py_ssize_t size, Py_ssize_t steps) except -1:
        PrefixSum.ready(self, size, steps)
        if not self.in_steps or self.combines_halves or self.norm not in (1, 2):
            raise ValueError("loops add to trees with one release for each vector, of a declared length")
        if self.taken + steps > <Py_ssize_t>1 << self.levels:
            raise ValueError(f"the tree has taken {self.taken} vectors and does not take {steps} more")
        return 0

    cdef void step(self, const double *vector) noexcept nogil:
        cdef Node node = self.completed()
        cdef const int64_t *noise = &self.noise[self.row, 0]
        cdef int64_t *steps = &self.scratch_steps[0]
        cdef Py_ssize_t i
        self.row += 1
        memcpy(&self.scratch[0], vector, self.size * sizeof(double))
        _shorten(&self.scratch[0], self.size, self.norm, self.norm_bound, &self.scratch[self.size])
        to_grid_of(&self.scratch[0], self.size, self.mantissa, self.exponent, steps)
        _sum_nodes(steps, self.size, node, 1, <int64_t *>self.true_sums, steps)
        for i in range(self.size):
            steps[i] += noise[i]
        _release_node(steps, self.size, node, NULL, <int64_t *>self.estimates, <int64_t *>self.prefixes)
        self._show(node)
        self.taken += 1


cdef void _shorten(double *vector, Py_ssize_t size, int norm, double longest, double *parts) noexcept nogil:
    """Shorten a vector that exceeds the declared norm, computed as in `privacy.prefix_sum`."""
    cdef double largest = 0.0, length, factor
    cdef int exponent
    cdef Py_ssize_t i, left = size, half
    for i in range(size):
        largest = max(largest, fabs(vector[i]))
    if largest == 0.0:
        return
    frexp(largest, &exponent)
    for i in range(size):
        parts[i] = fabs(ldexp(vector[i], -exponent))
        if norm == 2:
            parts[i] *= parts[i]
    while left > 1:
        half = left // 2
        for i in range(half):
            parts[i] += parts[half + i]
        if left % 2 == 1:
            parts[half] = parts[left - 1]
        left = half + left % 2
    length = sqrt(parts[0]) if norm == 2 else parts[0]
    if ldexp(length, exponent) > longest:
        factor = longest / length
        for i in range(size):
            vector[i] = ldexp(vector[i], -exponent) * factor
