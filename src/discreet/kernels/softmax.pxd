"""Weights that are exponentials of scores, and draws by them."""

from libc.stdint cimport int32_t, int64_t


cdef void exponentials_of(const double *arguments, Py_ssize_t count, double *results) noexcept nogil


cdef extern from "blocks.h" nogil:
    # The sum of eight numbers: halves are added, then halves of those, then the last two.
    double sum_of_block "discreet_sum_of_block"(const double *block)


cdef struct Memory:
    # Memory for draws from this many items: see `reserve`.
    Py_ssize_t items
    double *left
    double *arguments
    double *weights
    double *tops
    int64_t *candidates


cdef int reserve(Memory *memory, Py_ssize_t items) except -1  # `release` it when it is needed no more
cdef void release(Memory *memory) noexcept nogil
cdef void draw_items(
    Memory *memory, const double *scores, Py_ssize_t count, double rate, const double *uniforms, int32_t *out
) noexcept nogil
cdef bint follows_first_of_two(double score, double odds, double uniform) noexcept nogil
