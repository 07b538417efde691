"""Noise on a grid. For the constants, and why the result is exact, see ``discreet.privacy.samplers``."""

from libc.math cimport INFINITY, fabs, frexp, ldexp, rint, sqrt, trunc
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from .portable cimport cloned_wide

cpdef enum:
    REJECTED = 1
    UNDECIDED = 2

cdef extern from *:
    """
    #define HALF_STEP 0x1p-33
    #define MARGIN 0x1p-8
    #define LOW_BITS ((UINT64_C(1) << 22) - 1)
    /* Below it a test is passed whatever the exponent, which is less than 0.01: 0.98 < exp(-0.01). */
    #define PASSED (((uint64_t)(0.98 * 0x1p40)) << 24)
    /* Quotients below SMALL, and not within NEAR of a whole number, are certain. */
    #define SMALL 0x1p40
    #define NEAR 0x1p-10
    /* Adding it rounds to a whole number, which is left in the lowest bits. */
    #define ROUND 0x1.8p52
    #define ROUND_BITS INT64_C(0x4338000000000000)
    """
    const double HALF_STEP, MARGIN, SMALL, NEAR, ROUND
    const uint64_t LOW_BITS, PASSED
    const int64_t ROUND_BITS


cdef struct Table:
    const uint64_t *cells
    const uint16_t *guide
    bint gaussian


cdef inline double _survival(double e) noexcept nogil:
    """exp(-e) for exponents below 0.01, times 2^40, to within 2^-9."""
    return (1.0 - e * (1.0 - e / 2.0 * (1.0 - e / 3.0 * (1.0 - e / 4.0 * (1.0 - e / 5.0))))) * 1099511627776.0


cdef inline int64_t _signed(int64_t size, uint64_t word, int coarser) noexcept nogil:
    return ((~size if (word >> 23) & 1 else size) + coarser) >> coarser


cdef Py_ssize_t _attempt(
    const uint64_t *words, Py_ssize_t size, Table table, int coarser, int64_t *out, int64_t *places, uint8_t *status
) noexcept nogil:
    cdef Py_ssize_t i, failed = 0
    cdef uint64_t first, second
    cdef int64_t cell, low, half
    cdef double test, start, end, corner, sure, hope
    for i in range(size):
        first = words[2 * i]
        second = words[2 * i + 1]
        cell = table.guide[first >> 48]
        while table.cells[cell] < first:
            cell += 1
        if table.cells[cell] == first:
            places[failed] = i
            status[failed] = UNDECIDED
            failed += 1
            continue
        low = <int64_t>(second & LOW_BITS)
        half = <int64_t>((second >> 22) & 1)
        if second < PASSED:  # nearly always
            out[i] = _signed((((cell << 22) + low) << 1) + half, second, coarser)
            continue
        test = <double>(second >> 24)
        start = (<double>low + 0.5 * <double>half) * 2.0**-32
        end = start + HALF_STEP
        if table.gaussian:
            corner = <double>cell * 2.0**-10
            sure = _survival(corner * end + 0.5 * end * end)
            hope = _survival(corner * start + 0.5 * start * start)
        else:
            sure = _survival(end)
            hope = _survival(start)
        if test + 1.0 <= sure - MARGIN:
            out[i] = _signed((((cell << 22) + low) << 1) + half, second, coarser)
        else:
            places[failed] = i
            status[failed] = REJECTED if test >= hope + MARGIN else UNDECIDED
            failed += 1
    return failed


cdef Table _table(const uint64_t[::1] cells, const uint16_t[::1] guide, bint gaussian) except *:
    if guide.shape[0] != 1 << 16 or not cells.shape[0] or cells[cells.shape[0] - 1] != <uint64_t>-1:
        raise ValueError("a table has 65,536 guides, and its last cell ends where words do")
    return Table(&cells[0], &guide[0], gaussian)


def attempt_noise(
    const uint64_t[::1] words, const uint64_t[::1] cells, const uint16_t[::1] guide, bint gaussian, bint coarser,
    int64_t[::1] out, int64_t[::1] places, uint8_t[::1] status,
):
    """One attempt per output from two words each; returns how many failed: their ``places``, and why.

    ``out`` is the ideal variable rounded down to half steps: it lies in [out/2, (out + 1)/2). With
    ``coarser=1``, not 0, it is rounded to whole steps.
    """
    cdef Py_ssize_t size = out.shape[0], failed
    if words.shape[0] < 2 * size or places.shape[0] < size or status.shape[0] < size:
        raise ValueError("an attempt takes two words, a place and a status for each output")
    if not size:
        return 0
    cdef Table table = _table(cells, guide, gaussian)
    with nogil:
        failed = _attempt(&words[0], size, table, coarser, &out[0], &places[0], &status[0])
    return failed


cdef struct Spare:
    uint64_t *again
    int64_t *places
    int64_t *spots
    int64_t *drawn
    uint8_t *status


cdef void *_reserve(Spare *spare, Py_ssize_t width) except NULL:
    """Allocate memory for the attempts of one row; the caller frees it."""
    cdef char *memory = <char *>malloc(width * (5 * sizeof(int64_t) + 1) + 1)
    if not memory:
        raise MemoryError
    spare.again = <uint64_t *>memory
    spare.places = <int64_t *>memory + 2 * width
    spare.spots = spare.places + width
    spare.drawn = spare.spots + width
    spare.status = <uint8_t *>(spare.drawn + width)
    return memory


cdef Py_ssize_t _row(
    const uint64_t *words, Py_ssize_t held, Table table, int coarser, int64_t *out, Py_ssize_t width, Spare *spare
) noexcept nogil:
    """One row, as by `attempt_noise` and further attempts, from ``held`` words.

    Returns the number of words used; minus the least number needed, if there are fewer; 0 if the row cannot
    be decided here.
    """
    cdef Py_ssize_t i, failed, left, needed = 2 * width
    if needed > held:
        return -needed
    failed = _attempt(words, width, table, coarser, out, spare.places, spare.status)
    for i in range(failed):
        spare.spots[i] = spare.places[i]
        spare.again[2 * i] = words[2 * spare.places[i]]
    while failed > 0:
        for i in range(failed):
            if spare.status[i] == UNDECIDED:
                return 0
        needed += failed
        if needed > held:
            return -needed
        for i in range(failed):
            spare.again[2 * i + 1] = words[needed - failed + i]
        left = _attempt(spare.again, failed, table, coarser, spare.drawn, spare.places, spare.status)
        for i in range(failed):
            out[spare.spots[i]] = spare.drawn[i]
        for i in range(left):
            spare.spots[i] = spare.spots[spare.places[i]]
            spare.again[2 * i] = spare.again[2 * spare.places[i]]
        failed = left
    return needed


def noise_rows(
    const uint64_t[::1] words, const uint64_t[::1] cells, const uint16_t[::1] guide, bint gaussian,
    int64_t[:, ::1] out,
):
    """Rows of integer steps, from consecutive words.

    Returns the number of rows done, of words used, and of words that the next row needs at least, or 0 if it
    cannot be decided here.
    """
    cdef Py_ssize_t rows = out.shape[0], width = out.shape[1], at = 0, used = 0, row = 0
    cdef Table table = _table(cells, guide, gaussian)
    cdef Spare spare
    cdef void *memory = _reserve(&spare, width)
    with nogil:
        while row < rows:
            used = _row(&words[0] + at, words.shape[0] - at, table, 1, &out[row, 0], width, &spare)
            if used <= 0:
                break
            at += used
            row += 1
    free(memory)
    return row, at, 2 * width if row == rows else -used


def sphere_rows(const uint64_t[::1] words, gaussian, exponential, int64_t[:, ::1] out):
    """The same for rows of spherical noise (`samplers.spherical_rows`), with tables of both laws.

    Sums of d numbers are off by d - 1 roundings, not by one: a coordinate by (12 + 1.5 d) u of itself.
    """
    cdef const uint64_t[::1] gaussian_cells = gaussian[0], exponential_cells = exponential[0]
    cdef const uint16_t[::1] gaussian_guide = gaussian[1], exponential_guide = exponential[1]
    cdef Table normal = _table(gaussian_cells, gaussian_guide, True)
    cdef Table falling = _table(exponential_cells, exponential_guide, False)
    cdef Py_ssize_t width = out.shape[1]
    cdef Spare spare
    cdef void *memory = _reserve(&spare, width)
    cdef int64_t *whole = <int64_t *>malloc(3 * width * sizeof(int64_t) + 1)
    if not whole:
        free(memory)
        raise MemoryError
    cdef Sphere done
    with nogil:
        done = _spheres(words, normal, falling, out, &spare, whole, whole + width, <double *>(whole + 2 * width))
    free(whole)
    free(memory)
    return done.rows, done.words, done.more


cdef struct Sphere:
    Py_ssize_t rows
    Py_ssize_t words
    Py_ssize_t more


cdef Sphere _spheres(
    const uint64_t[::1] words, Table normal, Table falling, int64_t[:, ::1] out, Spare *spare, int64_t *floors,
    int64_t *parts, double *values,
) noexcept nogil:
    cdef Py_ssize_t rows = out.shape[0], width = out.shape[1], held = words.shape[0]
    cdef Py_ssize_t at = 0, row, i, used, more, second, last
    cdef double squares, length, norm, ideal, whole, error
    for row in range(rows):
        used = _row(&words[0] + at, held - at, normal, 0, floors, width, spare)
        if used <= 0:
            return Sphere(row, at, -used + 4 * width if used < 0 else 0)
        second = at + used + width
        more = _row(&words[0] + second, held - second, falling, 0, parts, width, spare)
        if more == 0 or second + more + width > held:
            return Sphere(row, at, 0 if more == 0 else used + 2 * width + (more if more > 0 else -more))
        last = second + more
        squares = 0.0
        length = 0.0
        for i in range(width):
            values[i] = <double>floors[i] + <double>words[at + used + i] * 2.0**-64
            squares += values[i] * values[i]
            length += <double>(~parts[i] if parts[i] < 0 else parts[i]) + <double>words[last + i] * 2.0**-64
        norm = sqrt(squares)
        if norm < 2.0**20 * sqrt(<double>width) or length < 2.0**20 * width:
            return Sphere(row, at, 0)
        for i in range(width):
            ideal = values[i] * (0.5 * length / norm)
            whole = rint(ideal)
            error = ((16.0 + 2.0 * width) * fabs(ideal) + 2.0 * length / norm) * 2.0**-53
            if fabs(ideal - whole) + error >= 0.5:
                return Sphere(row, at, 0)
            out[row, i] = <int64_t>whole
        at = last + width
    return Sphere(rows, at, 6 * width)


cdef int64_t _long_division(double value, int64_t divisor, int exponent) noexcept nogil:
    """``trunc(value / (divisor * 2^exponent))`` exactly, saturated at +-2^62; ``divisor`` in [2^31, 2^32)."""
    cdef int64_t limit = <int64_t>1 << 62, digits, quotient, remainder
    cdef int power, shift, step
    cdef double fraction
    if value != value:
        return 0
    if fabs(value) == INFINITY:
        return limit if value > 0.0 else -limit
    fraction = frexp(fabs(value), &power)
    digits = <int64_t>(fraction * 9007199254740992.0)
    shift = power - 53 - exponent
    if shift <= 0:
        quotient = (digits >> (-shift if -shift < 62 else 62)) // divisor
    else:
        quotient = digits // divisor
        remainder = digits % divisor
        while shift > 0:
            step = shift if shift < 31 else 31
            if quotient >= limit >> step:
                quotient = limit
                break
            quotient = (quotient << step) + (remainder << step) // divisor
            remainder = (remainder << step) % divisor
            shift -= step
        if quotient > limit:
            quotient = limit
    return -quotient if value < 0.0 else quotient


cdef cloned_wide _truncated(
    const double *values, Py_ssize_t size, double inverse, int64_t *out, uint8_t *unsure
) noexcept nogil:
    """Quotients rounded towards zero, and whether this is certain without integer division."""
    cdef Py_ssize_t i
    cdef double quotient, beyond, whole
    for i in range(size):
        quotient = values[i] * inverse
        beyond = fabs(quotient - ((quotient + ROUND) - ROUND))
        whole = trunc(quotient) + ROUND
        memcpy(&out[i], &whole, sizeof(double))
        out[i] -= ROUND_BITS
        unsure[i] = not ((fabs(quotient) < 0.5) | ((fabs(quotient) < SMALL) & (beyond > NEAR)))


cdef void to_grid_of(
    const double *values, Py_ssize_t size, int64_t mantissa, int exponent, int64_t *out
) noexcept nogil:
    cdef uint8_t unsure[256]
    cdef Py_ssize_t start, count, i
    # Infinite if it might lose digits, so that everything is divided in integers.
    cdef double inverse = ldexp(1.0 / <double>mantissa, -exponent) if -900 < exponent < 900 else INFINITY
    for start in range(0, size, 256):
        count = min(<Py_ssize_t>256, size - start)
        _truncated(values + start, count, inverse, out + start, unsure)
        for i in range(count):
            if unsure[i]:
                out[start + i] = _long_division(values[start + i], mantissa, exponent)


def to_grid(const double[::1] values, int64_t mantissa, int exponent, int64_t[::1] out):
    """``out = trunc(values / (mantissa * 2^exponent))`` exactly, saturated at +-2^62.

    A quotient in floating point would be off by entire steps for large values, and the sensitivity would not
    cover that error. Below 2^40 it is off by less than 2^-11: if no integer is that close, it is rounded
    towards zero. All others are divided in integers. ``mantissa`` is in [2^31, 2^32).
    """
    if out.shape[0] != values.shape[0] or not 1 << 31 <= mantissa < 1 << 32:
        raise ValueError("as many steps as values, of a mantissa from 2^31 to 2^32")
    if values.shape[0]:
        with nogil:
            to_grid_of(&values[0], values.shape[0], mantissa, exponent, &out[0])
