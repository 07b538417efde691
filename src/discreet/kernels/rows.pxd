"""Gains of one row: the only place where the formulas of the kinds of rows are written.

A row is one person (or one topic). It has one number of state, and each item in it has one weight. The *kind*
determines an item's gain from these two. Functions take it as an argument: if they are called with a literal
kind, the compiler removes the others.
"""

from libc.math cimport floor, log1p, sqrt
from libc.stdint cimport int32_t, int64_t

cpdef enum:
    COVER = 0  # served or not; an item serves its rows
    SURVIVE = 1  # the probability of not being served
    BEST = 2  # the largest weight so far
    SQRT = 3  # the root of the sum of weights
    LOG = 4  # log(1 + sum)
    CAP = 5  # the sum, up to a cap


cdef inline double gain(int kind, double state, double weight, double cap) noexcept nogil:
    """The gain of an item of this weight in a row in this state."""
    cdef double after, roots
    if kind == COVER:
        return 1.0 - state
    if kind == SURVIVE:
        return state * weight
    if kind == BEST:
        return weight - state if weight > state else 0.0
    if kind == SQRT:
        # The difference of the two roots without cancellation; roots of positive floats exceed 1e-200.
        roots = sqrt(state + weight) + sqrt(state)
        return weight / (1e-200 if roots < 1e-200 else roots)
    if kind == LOG:
        return log1p(weight / (1.0 + state))
    after = state + weight
    return (after if after < cap else cap) - (state if state < cap else cap)


cdef inline double step(int kind, double state, double weight) noexcept nogil:
    """The row's state once the item is chosen."""
    if kind == COVER:
        return 1.0
    if kind == SURVIVE:
        return state * (1.0 - weight)
    if kind == BEST:
        return weight if weight > state else state
    return state + weight


cdef inline double joined(int kind, double first, double second) noexcept nogil:
    """The state of a row once the items of two states are chosen."""
    if kind == COVER or kind == BEST:
        return second if second > first else first
    if kind == SURVIVE:
        return first * second
    return first + second


cdef inline double height(int kind, double total, double cap) noexcept nogil:
    """The concave function itself, for the kinds whose state is a sum."""
    if kind == SQRT:
        return sqrt(total)
    if kind == LOG:
        return log1p(total)
    return total if total < cap else cap


cdef inline double whole_steps(double gain, double per_unit, double left) noexcept nogil:
    """A gain as an integer number of steps of ``1 / per_unit``: rounded down, from 0 to ``left``.

    Steps are integers in floats, which add up exactly below 2^53 and, unlike 64-bit integers, can be clipped
    and compared in vector registers. NaN counts 0.
    """
    cdef double steps = floor(gain * per_unit)
    steps = steps if steps > 0.0 else 0.0
    return left if left < steps else steps


cdef inline int64_t whole_units(double amount, double per_unit, int64_t most) noexcept nogil:
    """The same as an integer; at most ``most``."""
    cdef double units = amount * per_unit
    if not units > 0.0:
        return 0
    return <int64_t>units if units < <double>most else most


cdef struct Numbers:
    # A contiguous array (step 1), or one number for all places (step 0).
    const double *first
    Py_ssize_t step


cdef inline double at(const Numbers *numbers, Py_ssize_t place) noexcept nogil:
    return numbers.first[place * numbers.step]


cdef struct Matrix:
    # Compressed sparse rows: row i has the columns indices[indptr[i]:indptr[i + 1]] with the weights in data.
    Py_ssize_t n_rows
    Py_ssize_t n_columns
    const int64_t *indptr
    const int32_t *indices
    Numbers data


cdef class Compressed:
    cdef Matrix matrix
    cdef object _arrays


cdef class RowTable:
    cdef readonly int kind
    cdef readonly double fresh  # the state of a row before anything is chosen
    cdef readonly Py_ssize_t n_rows
    cdef readonly Py_ssize_t n_items
    cdef Matrix rows  # without entries where the table is dense
    cdef const double *dense  # rows x items, or NULL
    cdef Numbers share  # the factor of each row
    cdef Numbers cap
    cdef object _arrays


cdef inline Py_ssize_t place_of(const Matrix *rows, Py_ssize_t row, int64_t item) noexcept nogil:
    """The index of ``item`` among the entries of a sorted row; the row's end if it is not there."""
    cdef Py_ssize_t start = rows.indptr[row], stop = rows.indptr[row + 1]
    cdef Py_ssize_t low = start, left = stop - start, half
    # Without branches on the data, half of which would be mispredicted. As long as more than one place is
    # left, the item is among them or absent.
    while left > 1:
        half = left >> 1
        low += half * <Py_ssize_t>(rows.indices[low + half - 1] < item)
        left -= half
    return low if start < stop and rows.indices[low] == item else stop


cdef inline double value_of(
    RowTable people, Py_ssize_t row, const int32_t *items, Py_ssize_t count
) noexcept nogil:
    """The value of a set to one of compressed rows."""
    cdef const Matrix *rows = &people.rows
    cdef double state = people.fresh, value = 0.0, weight
    cdef double share = at(&people.share, row), cap = at(&people.cap, row)
    cdef Py_ssize_t t, p
    for t in range(count):
        p = place_of(rows, row, items[t])
        if p < rows.indptr[row + 1]:
            weight = at(&rows.data, p)
            value += share * gain(people.kind, state, weight, cap)
            state = step(people.kind, state, weight)
    return value


cdef void add_row_sums(
    int kind, const double *weights, const float *singles, Py_ssize_t n_items, double share, double cap,
    double state, double left, double per_unit, double *out,
) noexcept nogil


cdef int check_people(RowTable people, Py_ssize_t first, Py_ssize_t count) except -1
cdef int check_items(const int32_t *items, Py_ssize_t count, Py_ssize_t n_items) except -1
cdef Py_ssize_t longest_row(const Matrix *rows, Py_ssize_t first, Py_ssize_t last) noexcept nogil
cdef void rising(const double *scores, Py_ssize_t count, int64_t *order, int64_t *spare) noexcept nogil
