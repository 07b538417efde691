"""Unit vectors of people and their products, summed in integer units, for private item models.

A row with weights x becomes q = floor(UNIT * x / |x|), entry by entry, so that q / UNIT is a vector of norm
at most 1 without a negative entry. That the norm of q is at most UNIT is enforced in integers, independently
of floating-point rounding. Sums of q, and of the products of its entries, are integers: one person's part is
exact, and the division of people among threads or machines does not matter.
"""

from libc.math cimport floor, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from .rows cimport Compressed, Matrix, at

UNIT = 1 << 12  # units per 1: a product has 2^24 units, and sums over 2^29 people are exact floats

cdef int64_t _UNIT = UNIT


cdef Py_ssize_t _unit_row(
    const Matrix *rows, Py_ssize_t row, const int32_t *place, int32_t *items, int64_t *units
) noexcept nogil:
    """The row's items with a place, as a vector of norm at most UNIT; returns its number of entries."""
    cdef Py_ssize_t p, count = 0, i
    cdef double largest = 0.0, squares = 0.0, weight, scale
    cdef int64_t total = 0
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        weight = at(&rows.data, p)
        if place[rows.indices[p]] >= 0 and weight > largest:
            largest = weight
    if not largest > 0.0:
        return 0
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        if place[rows.indices[p]] >= 0:
            weight = at(&rows.data, p) / largest
            squares += weight * weight
    scale = <double>_UNIT / sqrt(squares)
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        if place[rows.indices[p]] >= 0:
            items[count] = place[rows.indices[p]]
            units[count] = <int64_t>floor(at(&rows.data, p) / largest * scale)
            total += units[count] * units[count]
            count += 1
    i = 0
    while total > _UNIT * _UNIT:  # floats were rounded up: correct it
        if units[i] > 0:
            units[i] -= 1
            total -= 2 * units[i] + 1
        i = i + 1 if i + 1 < count else 0
    return count


cdef int _check(
    const Matrix *rows, Py_ssize_t first, Py_ssize_t count, const int32_t[::1] place, Py_ssize_t size
) except -1:
    cdef Py_ssize_t i
    if first < 0 or first + count > rows.n_rows:
        raise ValueError("there are fewer people than are to be summed up")
    if place.shape[0] != rows.n_columns:
        raise ValueError("there is one place for each item")
    for i in range(place.shape[0]):
        if not -1 <= place[i] < size:
            raise ValueError("a place leads out of the sums")
    return 0


def add_units(
    Compressed people not None, Py_ssize_t first, const uint8_t[::1] within_limit not None,
    const int32_t[::1] place not None, int64_t weight, int64_t[::1] sums not None,
):
    """Add ``weight`` times the unit vectors of people from ``first`` on who are within their limit.

    ``place`` is each item's entry in the sums, -1 for none; vectors are of the items with a place only.
    """
    _add(people, first, within_limit, place, weight, sums, None)


def add_unit_pairs(
    Compressed people not None, Py_ssize_t first, const uint8_t[::1] within_limit not None,
    const int32_t[::1] place not None, int64_t weight, int64_t[:, ::1] pairs not None,
):
    """The same for all products of two entries of each unit vector: a symmetric matrix."""
    if pairs.shape[0] != pairs.shape[1]:
        raise ValueError("products of entries are a square matrix")
    _add(people, first, within_limit, place, weight, None, pairs)


cdef int _add(
    Compressed people, Py_ssize_t first, const uint8_t[::1] within_limit, const int32_t[::1] place,
    int64_t weight, int64_t[::1] sums, int64_t[:, ::1] pairs,
) except -1:
    cdef const Matrix *rows = &people.matrix
    cdef bint paired = pairs is not None
    cdef Py_ssize_t size = pairs.shape[0] if paired else sums.shape[0], count, t, i, j, most = 1
    cdef int32_t *items
    cdef int64_t *units
    cdef int64_t *line
    cdef int64_t one
    _check(rows, first, within_limit.shape[0], place, size)
    for t in range(first, first + within_limit.shape[0]):
        most = max(most, <Py_ssize_t>(rows.indptr[t + 1] - rows.indptr[t]))
    items = <int32_t *>malloc(most * sizeof(int32_t))
    units = <int64_t *>malloc(most * sizeof(int64_t))
    if not items or not units:
        free(items)
        free(units)
        raise MemoryError
    with nogil:
        for t in range(within_limit.shape[0]):
            if not within_limit[t] or not place.shape[0]:
                continue
            count = _unit_row(rows, first + t, &place[0], items, units)
            for i in range(count):
                one = weight * units[i]
                if paired:
                    line = &pairs[items[i], 0]
                    for j in range(count):
                        line[items[j]] += one * units[j]
                else:
                    sums[items[i]] += one
        free(items)
        free(units)
    return 0
