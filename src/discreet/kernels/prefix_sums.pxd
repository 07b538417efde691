"""A private running sum, for loops that add many vectors to it.

Such a loop calls `PrefixSum.ready` once, with the interpreter's lock: it refuses vectors of another size, and
more steps than there is noise for. Then it calls `step` that many times, without the lock. ``sums`` is the
private sum after the last step.
"""

from libc.stdint cimport int64_t


cdef class PrefixSum:
    cdef readonly Py_ssize_t size
    cdef double[::1] sums
    cdef bint noisy
    cdef int64_t mantissa
    cdef int exponent
    cdef double unit
    cdef const int64_t[:, ::1] noise
    cdef Py_ssize_t row

    cdef int ready(self, Py_ssize_t size, Py_ssize_t steps) except -1
    cdef void step(self, const double *vector) noexcept nogil


cdef class FactorizedPrefix(PrefixSum):
    cdef Py_ssize_t buffers
    cdef const double[::1] decays
    cdef const double[::1] weights
    cdef double[:, ::1] encoder
    cdef double[:, ::1] decoder

    cdef void encode_part(
        self, const double *vector, Py_ssize_t start, Py_ssize_t count, double *out
    ) noexcept nogil
    cdef void decode_part(self, const double *released, Py_ssize_t start, Py_ssize_t count) noexcept nogil


cdef struct Node:
    Py_ssize_t level  # it holds 2^level vectors
    Py_ssize_t slot  # where it is kept
    Py_ssize_t before  # the slot of the node that ends where this one begins; -1 if there is none


cdef class TreePrefix(PrefixSum):
    cdef readonly Py_ssize_t levels
    cdef public Py_ssize_t taken  # how many vectors
    cdef object array_owners  # of the pointers below: a row for each kept node, by its slot
    cdef void *true_sums
    cdef void *estimates
    cdef void *prefixes
    cdef const double[::1] own_weights  # by level
    cdef bint in_steps  # integers, in steps of the noise's grid; else floats
    cdef bint combines_halves
    cdef int norm
    cdef double norm_bound
    cdef double[::1] scratch
    cdef int64_t[::1] scratch_steps

    cdef Node completed(self) noexcept nogil
    cdef void *_pointer(self, array, bint whole) except NULL
    cdef int _room(self) except -1
    cdef void _show(self, Node node) noexcept nogil
