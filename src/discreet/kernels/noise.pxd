from libc.stdint cimport int64_t

cdef void to_grid_of(
    const double *values, Py_ssize_t size, int64_t mantissa, int exponent, int64_t *out
) noexcept nogil
