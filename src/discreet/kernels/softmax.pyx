"""Weights that are exponentials of scores, and draws by them: ordinary floating point.

For scores that were released already. Draws that protect people are exact (`experts`, and
``discreet.privacy.samplers``): `decided_choice` returns an index only if rounding cannot matter.
"""

import numpy as np

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY, exp
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from .portable cimport cloned_wide, inlined

cdef extern from *:
    """
    /* Weights below exp(-50) of the largest are left out: 53 bits cannot tell a million of them from none. */
    #define NEGLIGIBLE -50.0
    #define LOWEST -708.0
    /* 1.5 * 2^52: adding it rounds to a whole number, which is left in the lowest bits. */
    #define WHOLE 6755399441055744.0
    """
    const double NEGLIGIBLE, LOWEST, WHOLE


cdef inline inlined _powers(const double *arguments, Py_ssize_t count, double *results) noexcept nogil:
    cdef double x, shifted, whole, r, square, even, odd, scale
    cdef int64_t power
    cdef Py_ssize_t j
    for j in range(count):
        x = arguments[j]
        x = LOWEST if x < LOWEST else x
        x = 700.0 if x > 700.0 else x
        shifted = x * 1.4426950408889634 + WHOLE
        whole = shifted - WHOLE
        r = (x - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
        square = r * r
        even = 1.0 / 479001600.0
        odd = 1.0 / 6227020800.0
        even = even * square + 1.0 / 3628800.0
        odd = odd * square + 1.0 / 39916800.0
        even = even * square + 1.0 / 40320.0
        odd = odd * square + 1.0 / 362880.0
        even = even * square + 1.0 / 720.0
        odd = odd * square + 1.0 / 5040.0
        even = even * square + 1.0 / 24.0
        odd = odd * square + 1.0 / 120.0
        even = even * square + 0.5
        odd = odd * square + 1.0 / 6.0
        even = even * square + 1.0
        odd = odd * square + 1.0
        shifted = shifted if arguments[j] >= LOWEST else WHOLE - 1023.0
        memcpy(&power, &shifted, sizeof(double))
        power = (power + 1023) << 52
        memcpy(&scale, &power, sizeof(double))
        results[j] = (even + r * odd) * scale


cdef cloned_wide _exponentials(const double *arguments, Py_ssize_t count, double *results) noexcept nogil:
    _powers(arguments, count, results)


cdef void exponentials_of(const double *arguments, Py_ssize_t count, double *results) noexcept nogil:
    _exponentials(arguments, count, results)


def exponentials(const double[::1] arguments not None, double[::1] results not None):
    """``exp`` of each argument to 2 units in the last place; 0 below -708, and no more than exp(700).

    x = m ln 2 + r with an integer m, and exp(r) by its power series: the thirteenth power is the last that
    matters for |r| <= ln(2)/2. ln 2 is subtracted in two parts, the first of which has so few digits that its
    multiples are exact. Adding 1.5 * 2^52 rounds to an integer and leaves it in the lowest bits, from where
    it is shifted into the exponent of a float; below -708 that exponent gives 0. Arguments are independent,
    so the compiler can vectorize. Even and odd powers are summed separately, which halves the length of each
    dependency chain.
    """
    if arguments.shape[0] != results.shape[0]:
        raise ValueError("each argument has one result")
    if arguments.shape[0]:
        _exponentials(&arguments[0], arguments.shape[0], &results[0])


cdef int reserve(Memory *memory, Py_ssize_t items) except -1:
    cdef Py_ssize_t blocks = (items + 7) // 8
    cdef double *room = <double *>malloc(26 * blocks * sizeof(double) + 1)
    if not room:
        raise MemoryError
    memory.items = items
    memory.left = room
    memory.arguments = room + 8 * blocks
    memory.weights = room + 16 * blocks
    memory.tops = room + 24 * blocks
    memory.candidates = <int64_t *>(room + 25 * blocks)
    return 0


cdef void release(Memory *memory) noexcept nogil:
    free(memory.left)


cdef inline double _larger(double first, double second) noexcept nogil:
    return first if first > second else second


cdef inline inlined _candidates(
    const double *left, Py_ssize_t blocks, double rate, double *tops, double *arguments, int64_t *candidates,
    Py_ssize_t *found,
) noexcept nogil:
    """The blocks of eight items with at least one that is not negligible, and their weights' arguments."""
    cdef const double *block
    cdef double top = -INFINITY, argument
    cdef Py_ssize_t count = 0, b, a
    for b in range(blocks):
        block = left + 8 * b
        tops[b] = _larger(
            _larger(_larger(block[0], block[4]), _larger(block[2], block[6])),
            _larger(_larger(block[1], block[5]), _larger(block[3], block[7])),
        )
        top = _larger(top, tops[b])
    for b in range(blocks):
        if rate * (tops[b] - top) >= NEGLIGIBLE:  # otherwise the block is negligible
            block = left + 8 * b
            for a in range(8):
                argument = rate * (block[a] - top)
                arguments[8 * count + a] = argument if argument >= NEGLIGIBLE else -INFINITY
            candidates[count] = b
            count += 1
    found[0] = count


cdef inline inlined _block_sums(const double *numbers, Py_ssize_t blocks, double *sums) noexcept nogil:
    cdef Py_ssize_t b
    for b in range(blocks):
        sums[b] = sum_of_block(numbers + 8 * b)


cdef inline inlined _draw(Memory *memory, double rate, double uniform, int32_t *drawn) noexcept nogil:
    """Draw one of the remaining items."""
    cdef Py_ssize_t found, place = 0, b, a
    cdef double weight, rest = 0.0
    _candidates(
        memory.left, (memory.items + 7) // 8, rate, memory.tops, memory.arguments, memory.candidates, &found
    )
    _powers(memory.arguments, 8 * found, memory.weights)
    _block_sums(memory.weights, found, memory.tops)
    for b in range(found):
        rest += memory.tops[b]
    rest *= uniform
    while place < found - 1 and rest >= memory.tops[place]:
        rest -= memory.tops[place]
        place += 1
    for a in range(8):
        weight = memory.weights[8 * place + a]
        if weight > 0.0:
            drawn[0] = <int32_t>(8 * memory.candidates[place] + a)
            rest -= weight
            if rest < 0.0:
                break


cdef cloned_wide _draw_items(
    Memory *memory, const double *scores, Py_ssize_t count, double rate, const double *uniforms, int32_t *out
) noexcept nogil:
    cdef Py_ssize_t items = memory.items, i, e
    for e in range(items, 8 * ((items + 7) // 8)):
        memory.left[e] = -INFINITY
    for i in range(count):
        memcpy(memory.left, scores + i * items, items * sizeof(double))
        for e in range(i):
            memory.left[out[e]] = -INFINITY
        out[i] = 0
        _draw(memory, rate, uniforms[i], &out[i])


cdef void draw_items(
    Memory *memory, const double *scores, Py_ssize_t count, double rate, const double *uniforms, int32_t *out
) noexcept nogil:
    _draw_items(memory, scores, count, rate, uniforms, out)


def draw_ordered(const double[:, ::1] scores not None, double rate, const double[::1] uniforms not None):
    """One item per row of ``scores``, with weights exp(rate * score), never one that was drawn before.

    Weights below exp(-50) of the largest are left out. Weights are summed, and searched, in blocks of eight
    items.
    """
    cdef Py_ssize_t count = scores.shape[0], items = scores.shape[1]
    cdef Memory memory
    cdef Py_buffer out
    if uniforms.shape[0] != count or not count <= items < 1 << 31:
        raise ValueError("a draw takes one uniform number, and there are as many items as draws")
    shown = np.empty(count, dtype=np.int32)
    if not count:
        return shown
    reserve(&memory, items)
    PyObject_GetBuffer(shown, &out, PyBUF_WRITABLE)  # a typed view of it would take a tenth of a draw's time
    with nogil:
        draw_items(&memory, &scores[0, 0], count, rate, &uniforms[0], <int32_t *>out.buf)
        release(&memory)
    PyBuffer_Release(&out)
    return shown


cdef bint follows_first_of_two(double score, double odds, double uniform) noexcept nogil:
    # Beyond 700 exponentials overflow, and the probability is 0 or 1 anyway.
    score = 700.0 if score > 700.0 else score
    score = -700.0 if score < -700.0 else score
    return uniform * (1.0 + odds * exp(-score)) < 1.0


def follows_first(double score, double odds, double uniform):
    """Hedge over two: whether the first is followed; ``odds`` are those of the second at a score of 0."""
    return follows_first_of_two(score, odds, uniform)


def decided_choice(const double[:] scores not None, double rate, uint64_t word):
    """The index that ``word`` draws with weights exp(rate * score); -1 if it is too close to call.

    The error bound is in `privacy.samplers.exponential_choice`, which then draws exactly.
    """
    cdef Py_ssize_t count = scores.shape[0], found = 0, i
    cdef double top = -INFINITY, total = 0.0, below = 0.0, difference, target, margin
    cdef double *arguments = <double *>malloc(2 * count * sizeof(double) + 1)
    cdef double *weights = arguments + count
    if not arguments:
        raise MemoryError
    with nogil:
        for i in range(count):
            top = scores[i] if scores[i] > top else top
        for i in range(count):
            difference = scores[i] - top
            if difference > -INFINITY:
                arguments[i] = rate * difference
            else:  # the difference overflows: use halves
                arguments[i] = 2.0 * (rate * (0.5 * scores[i] - 0.5 * top))
        _exponentials(arguments, count, weights)
        for i in range(count):
            total += weights[i]
        target = <double>word * 2.0**-64 * total
        margin = <double>(32 * count + 128) * 2.0**-53 * total
        while found < count and below + weights[found] <= target:
            below += weights[found]
            found += 1
        if not (found < count and (found == 0 or target - below > margin)):
            found = -1
        elif not below + weights[found] - target > margin:
            found = -1
        free(arguments)
    return found
