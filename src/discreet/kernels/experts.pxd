"""Ordered experts, for loops over rounds in which they draw and learn.

Such a loop calls `OrderedExperts.ready` once, with the interpreter's lock: it builds what draws need, and
refuses too few words. Then, without the lock: `draw_set` draws a set into ``shown``. If it returns True, a
draw is too close to call: the loop returns to Python, which decides it exactly and calls the loop again.
Completed draws are counted, so that `draw_set` continues with the next words and the next expert.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from .rows cimport RowTable


cdef class OrderedExperts:
    cdef object array
    cdef readonly Py_ssize_t n_items
    cdef readonly Py_ssize_t k
    cdef readonly int64_t most
    cdef double unit
    cdef double per_one  # units to 1
    cdef int64_t[:, ::1] gains
    # The trees: see the module.
    cdef bint built
    cdef Py_ssize_t levels
    cdef Py_ssize_t starts[16]
    cdef double log_items
    cdef double[::1] tree
    cdef int64_t[::1] refs
    cdef double[:, ::1] scratch
    cdef uint32_t[::1] tile
    cdef uint8_t[::1] taken
    cdef double[::1] states
    # Changes since the trees were up to date.
    cdef uint32_t[::1] touched
    cdef Py_ssize_t listed
    cdef Py_ssize_t reach
    cdef bint everything
    # The position within a set, or a stream of sets.
    cdef Py_ssize_t person
    cdef Py_ssize_t expert
    cdef Py_ssize_t draws
    cdef int64_t decided

    cdef int build(self) except -1
    cdef int ready(self, const uint64_t[::1] words, Py_ssize_t sets) except -1
    cdef int check_table(self, RowTable people, Py_ssize_t first, Py_ssize_t count) except -1
    cdef int check_rounds(
        self, RowTable people, Py_ssize_t first, stream, const uint8_t[::1] due, const uint64_t[::1] words,
        const int32_t[::1] shown,
    ) except -1
    cdef int check_shown(self, const int32_t[::1] shown, Py_ssize_t count) except -1
    cdef bint draw_set(self, const uint64_t *words, int32_t *shown) noexcept nogil
    cdef void add_to(self, Py_ssize_t expert, Py_ssize_t item, int64_t amount) noexcept nogil
    # Note that these items have new scores, for the first ``reach`` experts.
    cdef void changed(self, const int32_t *items, Py_ssize_t count, Py_ssize_t reach) noexcept nogil
    cdef double take(self, RowTable people, Py_ssize_t row, const int32_t *shown, bint keep) noexcept nogil
    cdef void settle(self) noexcept nogil
