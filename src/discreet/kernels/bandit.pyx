"""What people add to sums by what they are shown: sets and lists of items, valued in integer units."""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from .portable cimport cloned
from .rows cimport RowTable, at, gain, place_of, step, value_of, whole_units


cdef int _check_people(RowTable people, Py_ssize_t first, Py_ssize_t count) except -1:
    if people.dense != NULL:
        raise ValueError("people are compressed rows")
    if not 0 <= first <= people.n_rows - count:
        raise ValueError(f"there are {people.n_rows} people, not {count} from {first} on")
    return 0


cdef int _check_items(const int32_t *items, Py_ssize_t count, Py_ssize_t n_items) except -1:
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= items[i] < n_items:
            raise IndexError(f"item {items[i]} is not one of {n_items}")
    return 0


cdef double _add(
    RowTable people, Py_ssize_t row, const int32_t *items, Py_ssize_t count, double per_one, int64_t most,
    int64_t *sums, bint by_item,
) noexcept nogil:
    """What each item adds to those before it, into the sum of its item or of its place; all of it together.

    Nobody adds more than ``most`` units: what rounding would put on top is cut from the last items.
    """
    cdef double state = people.fresh, value = 0.0, added, weight
    cdef double share = at(&people.share, row), cap = at(&people.cap, row)
    cdef Py_ssize_t i, p
    cdef int64_t units, spare = most
    for i in range(count):
        p = place_of(&people.rows, row, items[i])
        if p < people.rows.indptr[row + 1]:
            weight = at(&people.rows.data, p)
            added = share * gain(people.kind, state, weight, cap)
            state = step(people.kind, state, weight)
            value += added
            units = min(whole_units(added, per_one, most), spare)
            sums[items[i] if by_item else i] += units
            spare -= units
    return value


def add_lists(
    stream, RowTable people not None, Py_ssize_t first, const int32_t[:, ::1] lists not None, units,
    int64_t[::1] sums not None, int64_t[::1] shows not None,
):
    """What each item of a person's list adds to those before it, summed up by item; how often each was shown.

    ``units`` are how many units make 1, and the most that one person adds.
    """
    cdef double per_one = units[0]
    cdef int64_t most = units[1]
    cdef const uint8_t[::1] within_limit = stream.within_limit.view(np.uint8)
    cdef double[::1] rewards = stream.rewards
    cdef Py_ssize_t count = rewards.shape[0], k = lists.shape[1], t, i
    _check_people(people, first, count)
    if not count == lists.shape[0] == within_limit.shape[0] or not k:
        raise ValueError("everybody has a list and a limit")
    if not count:
        return
    _check_items(&lists[0, 0], count * k, min(people.n_items, sums.shape[0], shows.shape[0]))
    with nogil:
        for t in range(count):
            for i in range(k):
                shows[lists[t, i]] += 1
            if within_limit[t]:
                rewards[t] = _add(people, first + t, &lists[t, 0], k, per_one, most, &sums[0], True)
            else:
                rewards[t] = value_of(people, first + t, &lists[t, 0], k)


def add_set(
    stream, RowTable people not None, Py_ssize_t first, const int32_t[::1] items not None, units,
    bint by_slot, int64_t[::1] sums not None,
):
    """What one set is worth to one person after the other, summed up; or, ``by_slot``, what each item adds.

    ``units`` as in `add_lists`.
    """
    cdef double per_one = units[0]
    cdef int64_t most = units[1]
    cdef const uint8_t[::1] within_limit = stream.within_limit.view(np.uint8)
    cdef double[::1] rewards = stream.rewards
    cdef Py_ssize_t count = rewards.shape[0], k = items.shape[0], t
    _check_people(people, first, count)
    if count != within_limit.shape[0] or not k or sums.shape[0] != (k if by_slot else 1):
        raise ValueError("everybody has a limit, and there is a sum for the set or for each of its items")
    _check_items(&items[0], k, people.n_items)
    with nogil:
        for t in range(count):
            if by_slot and within_limit[t]:
                rewards[t] = _add(people, first + t, &items[0], k, per_one, most, &sums[0], False)
                continue
            rewards[t] = value_of(people, first + t, &items[0], k)
            if within_limit[t]:
                sums[0] += whole_units(rewards[t], per_one, most)


cdef cloned _subtract(float *row, const float *other, float factor, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        row[i] -= factor * other[i]


def subtract_outer(
    float[:, ::1] matrix not None, const float[::1] column not None, const float[::1] row not None
):
    """Subtract the outer product of two vectors."""
    cdef Py_ssize_t i
    if matrix.shape[0] != column.shape[0] or matrix.shape[1] != row.shape[0]:
        raise ValueError("a column and a row of the matrix's size")
    if row.shape[0]:
        with nogil:
            for i in range(matrix.shape[0]):
                _subtract(&matrix[i, 0], &row[0], column[i], row.shape[0])
