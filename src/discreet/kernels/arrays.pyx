"""Loops over tiles of NumPy arrays: the sums of `discreet.objectives.devices`."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from .portable cimport cloned_wide
from .rows cimport CAP, LOG, add_row_sums, whole_steps

cpdef enum:
    RATIO = 6  # besides the kinds of rows: an entry is a ratio of determinants, whose gain is its logarithm

cdef extern from *:
    """
    #define LN_2 0.6931471805599453
    #define ROOT_2 1.4142135623730951
    /* The bits of a float after its exponent; those of 1.0; and those of 2^52. */
    #define FRACTION UINT64_C(0x000FFFFFFFFFFFFF)
    #define ONE UINT64_C(0x3FF0000000000000)
    #define TWO_52 UINT64_C(0x4330000000000000)
    /* Of the series of log((1 + s) / (1 - s)) / (2 s) in s^2: for |s| < 0.172 the rest is below 2^-55. */
    #define TERMS 11
    static const double SERIES[TERMS] = {
        1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0
    };
    """
    const double LN_2, ROOT_2
    const int TERMS
    const uint64_t FRACTION, ONE, TWO_52
    const double *SERIES

ctypedef fused real:
    float
    double


cdef inline double _logarithm(double value) noexcept nogil:
    """log of a number >= 1, by operations that every device rounds correctly: `Device.logarithm`."""
    cdef uint64_t bits, below
    cdef double scaled, guess, part, square, series
    cdef int k
    memcpy(&bits, &value, sizeof(double))
    below = (bits & FRACTION) | ONE  # from 1 to 2
    memcpy(&scaled, &below, sizeof(double))
    bits = (bits >> 52) | TWO_52  # the exponent, as the lowest bits of a float
    memcpy(&guess, &bits, sizeof(double))
    guess -= 4503599627370496.0 + 1023.0
    part = 0.5 if scaled > ROOT_2 else 1.0
    guess = guess + 1.0 if scaled > ROOT_2 else guess
    scaled = scaled * part
    part = (scaled - 1.0) / (scaled + 1.0)
    square = part * part
    series = SERIES[0]
    for k in range(1, TERMS):
        series = series * square + SERIES[k]
    return guess * LN_2 + (2.0 * part) * series


def logarithms(const double[::1] values, double[::1] out):
    """``out`` = log of each value; values are at least 1."""
    cdef Py_ssize_t i
    if out.shape[0] != values.shape[0]:
        raise ValueError("as many logarithms as values")
    for i in range(values.shape[0]):
        out[i] = _logarithm(values[i])


cdef cloned_wide _log_row(
    const double *row, Py_ssize_t size, bint ratio, double share, double state, double left, double per_unit,
    double *out,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef double value
    for j in range(size):
        value = 1.0 + row[j] / (1.0 + state)
        if ratio:
            value = row[j] if row[j] > 1.0 else 1.0
        out[j] += whole_steps(share * _logarithm(value), per_unit, left)


def gain_sums(int code, const real[:, :] matrix, numbers, double share, double per_unit, places, double[::1] out):
    """Add the gains of rows of an array to ``out``, in integer steps of ``1 / per_unit``: `Device.gain_sums`.

    ``numbers`` are the rows' states, the steps that each has left, and caps; ``places`` are the rows to use,
    None for all.
    """
    cdef const double[:] state = numbers[0]
    cdef const double[:] left = numbers[1]
    cdef const double[:] cap = numbers[2]
    cdef Py_ssize_t size = matrix.shape[1], n_rows = matrix.shape[0], t, i, j, count = n_rows
    cdef const int64_t[::1] who
    if state.shape[0] != n_rows or left.shape[0] != n_rows or cap.shape[0] != n_rows or out.shape[0] != size:
        raise ValueError("a state, steps left and a cap for each row, and a sum for each column")
    cdef bint named = places is not None, plain = code != CAP and (size < 2 or matrix.strides[1] == sizeof(real))
    if named:
        who = places
        count = who.shape[0]
        for t in range(count):
            if not 0 <= who[t] < n_rows:
                raise IndexError("there is no such row")
    cdef double room[1024]
    cdef const double *row
    cdef const float *singles
    cdef Py_ssize_t start, length
    with nogil:
        for t in range(count):
            i = who[t] if named else t
            start = 0
            while start < size:
                length, row, singles = size, room, NULL
                if real is double and plain:
                    row = <const double *>&matrix[i, 0]
                elif real is float and plain and code != LOG and code != RATIO:
                    singles = <const float *>&matrix[i, 0]
                else:
                    length = min(size - start, <Py_ssize_t>1024)
                    for j in range(length):
                        room[j] = matrix[i, start + j]
                        room[j] = cap[i] if code == CAP and room[j] > cap[i] else room[j]
                if code == LOG or code == RATIO:
                    _log_row(row, length, code == RATIO, share, state[i], left[i], per_unit, &out[start])
                else:
                    add_row_sums(code, row, singles, length, share, cap[i], state[i], left[i], per_unit, &out[start])
                start += length


cdef cloned_wide _clipped(
    const real *row, Py_ssize_t size, real least, real most, int32_t *sums
) noexcept nogil:
    cdef Py_ssize_t j
    cdef real above
    for j in range(size):
        above = row[j] - least
        above = above if above > 0 else 0
        sums[j] += <int32_t>(above if above < most else most)


def add_clipped(
    const real[:, ::1] tile, const real[::1] low, const real[::1] span, Py_ssize_t flush, int64_t[::1] out
):
    """Add min(max(tile - low, 0), span) of each row to ``out``; integers, as floats.

    32-bit sums are flushed after ``flush`` rows, before they can overflow.
    """
    cdef Py_ssize_t rows = tile.shape[0], size = tile.shape[1], i, j
    if low.shape[0] != rows or span.shape[0] != rows or out.shape[0] != size or flush < 1:
        raise ValueError("a range for each row, and a sum for each column")
    if not rows or not size:
        return
    cdef int32_t *sums = <int32_t *>calloc(size, sizeof(int32_t))
    if sums == NULL:
        raise MemoryError
    with nogil:
        for i in range(rows):
            _clipped(&tile[i, 0], size, low[i], span[i], sums)
            if (i + 1) % flush == 0 or i + 1 == rows:
                for j in range(size):
                    out[j] += sums[j]
                    sums[j] = 0
        free(sums)


cdef cloned_wide _stepped(
    const real *row, Py_ssize_t size, int64_t least, int64_t most, int64_t factor, int shift, int64_t *out
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int64_t before = (least * factor) >> shift, reached
    for j in range(size):
        reached = <int64_t>row[j]
        reached = reached if reached > least else least
        reached = reached if reached < most else most
        out[j] += ((reached * factor) >> shift) - before


def add_steps(
    const real[:, ::1] tile, const int64_t[::1] low, const int64_t[::1] span, int64_t factor, int shift,
    int64_t[::1] out,
):
    """The same in steps: a product p is (p factor) >> shift steps."""
    cdef Py_ssize_t rows = tile.shape[0], size = tile.shape[1], i
    if low.shape[0] != rows or span.shape[0] != rows or out.shape[0] != size or not 0 <= shift < 63:
        raise ValueError("a range for each row, and a sum for each column")
    if not size:
        return
    with nogil:
        for i in range(rows):
            _stepped(&tile[i, 0], size, low[i], low[i] + span[i], factor, shift, &out[0])
