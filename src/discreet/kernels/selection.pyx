"""People's gains from sets and from further items, in integer units, and rounds of learners that sum them.

Gains are counted in integer units and rounded down: their sums are integers, and one person's part of them is
exact.
"""

import numpy as np

cimport cython
from libc.math cimport floor, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from .portable cimport cloned, inlined
from .prefix_sums cimport PrefixSum
from .rows cimport COVER, Matrix, RowTable, at, check_items, check_people, gain, joined, longest_row, place_of
from .rows cimport step, value_of, whole_units
from .softmax cimport Memory, draw_items, follows_first_of_two, release, reserve

cdef extern from *:
    """
    /* A person's weight is a multiple of 2^-28, and lower by more than rounding 2^31 squares can add. */
    #define WEIGHTS 0x1p28
    #define NORM_SLACK (1.0 - 0x1p-20)
    """
    const double WEIGHTS, NORM_SLACK


cdef inline double _norm_weight(double squares) noexcept nogil:
    cdef double length = sqrt(squares)
    return floor(WEIGHTS * NORM_SLACK / (length if length > 1.0 else 1.0)) / WEIGHTS


def norm_weight(double squares):
    """A factor that gives a vector with this sum of squares a norm of at most 1."""
    return _norm_weight(squares)


# --- weights ------------------------------------------------------------------------------------------------


cdef double _row_weight(RowTable people, Py_ssize_t row, double bound) noexcept nogil:
    """A person's weight, such that the gains of items alone have an L2 norm of at most ``bound``."""
    cdef const Matrix *rows = &people.rows
    cdef double squares = 0.0, alone, cap = at(&people.cap, row)
    cdef Py_ssize_t p
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        alone = gain(people.kind, people.fresh, at(&rows.data, p), cap) / bound
        alone = 1.0 if alone > 1.0 else alone
        squares += alone * alone
    return _norm_weight(squares)


def row_weights(RowTable people not None, double bound, double[::1] out not None):
    """``out[i]`` = the weight of the person of row i: see `UnitGains`."""
    cdef Py_ssize_t i
    check_people(people, 0, out.shape[0])
    with nogil:
        for i in range(out.shape[0]):
            out[i] = _row_weight(people, i, bound)


# --- gains along a set --------------------------------------------------------------------------------------


@cython.auto_pickle(True)  # sent to workers of Dask
cdef class UnitGains:
    """Gains in integer units, ``units`` to 1 and at most ``most``, rounded down.

    With ``weighted`` people are weighted so that the gains of a person's items alone have an L2 norm of at
    most ``bound``.
    """

    cdef readonly double bound
    cdef readonly bint weighted
    cdef readonly double units
    cdef readonly int64_t most

    def __init__(self, double bound, bint weighted, double units, int64_t most):
        self.bound, self.weighted, self.units, self.most = bound, weighted, units, most

    def add(
        self, RowTable people not None, Py_ssize_t first, const uint8_t[::1] within_limit not None,
        const int32_t[::1] shown not None, int64_t[:, ::1] totals not None,
    ):
        """Add to ``totals[i, a]`` the gain of item a after the first i shown, for people within the limit."""
        cdef Py_ssize_t count = within_limit.shape[0]
        cdef Work work
        check_people(people, first, count)
        check_items(&shown[0] if shown.shape[0] else NULL, shown.shape[0], people.n_items)
        if totals.shape[0] != shown.shape[0] or totals.shape[1] != people.n_items:
            raise ValueError("totals have a row for each item shown, and a column for each item")
        if not count or not shown.shape[0] or not people.n_items:
            return
        _prepare(&work, people, first, count, shown.shape[0])
        with nogil:
            _add_gains(self, people, first, count, &within_limit[0], &shown[0], &totals[0, 0], &work)
            _finish(&work)


cdef struct Work:
    # Memory for one person's gains.
    Py_ssize_t experts
    int64_t *gains
    Py_ssize_t *last


cdef int _prepare(
    Work *work, RowTable people, Py_ssize_t first, Py_ssize_t count, Py_ssize_t experts
) except -1:
    cdef Py_ssize_t longest = longest_row(&people.rows, first, first + count)
    work.experts = experts
    work.gains = <int64_t *>malloc(2 * longest * sizeof(int64_t) + 1)
    work.last = <Py_ssize_t *>(work.gains + longest)
    if not work.gains:
        raise MemoryError
    return 0


cdef void _finish(Work *work) noexcept nogil:
    free(work.gains)


cdef inline inlined _add_person(
    int kind, UnitGains how, RowTable people, Py_ssize_t row, const int32_t *shown, int64_t *totals,
    Work *work,
) noexcept nogil:
    cdef const Matrix *rows = &people.rows
    cdef Py_ssize_t start = rows.indptr[row], stop = rows.indptr[row + 1], items = people.n_items
    cdef Py_ssize_t experts = work.experts, begin = 0, end, chosen, i, p
    cdef Py_ssize_t *last = work.last - start
    cdef int64_t *gains = work.gains - start
    cdef double scale = how.units, state = people.fresh, cap = at(&people.cap, row)
    if how.weighted:
        scale = how.units * _row_weight(people, row, how.bound)
    # The last expert for which an item of the row has a gain: the one that shows it, or the last of all.
    for p in range(start, stop):
        last[p] = experts
    for i in range(experts):
        p = place_of(rows, row, shown[i])
        if p < stop:
            last[p] = i
    while begin < experts:
        # Experts up to the next that shows an item of the row have the same state.
        end = experts - 1
        chosen = stop
        for p in range(start, stop):
            if begin <= last[p] <= end:
                end = last[p]
                chosen = p
            gains[p] = whole_units(gain(kind, state, at(&rows.data, p), cap), scale, how.most)
        # An item with a gain for the first of these experts has it for all of them.
        for i in range(begin, end + 1):
            for p in range(start, stop):
                if begin <= last[p]:
                    totals[i * items + rows.indices[p]] += gains[p]
        if chosen < stop:
            state = step(kind, state, at(&rows.data, chosen))
        begin = end + 1


cdef inline inlined _add_people(
    int kind, UnitGains how, RowTable people, Py_ssize_t first, Py_ssize_t count, const uint8_t *within_limit,
    const int32_t *shown, int64_t *totals, Work *work,
) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(count):
        if within_limit[j]:
            _add_person(kind, how, people, first + j, shown, totals, work)


cdef void _add_gains(
    UnitGains how, RowTable people, Py_ssize_t first, Py_ssize_t count, const uint8_t *within_limit,
    const int32_t *shown, int64_t *totals, Work *work,
) noexcept nogil:
    cdef int kind = people.kind
    if kind == COVER:  # as a constant: this kind is the most common
        _add_people(COVER, how, people, first, count, within_limit, shown, totals, work)
    else:
        _add_people(kind, how, people, first, count, within_limit, shown, totals, work)


# --- gains beside a set -------------------------------------------------------------------------------------


def add_leave_one_out(
    RowTable people not None, Py_ssize_t first, const uint8_t[::1] within_limit not None,
    const int32_t[::1] shown not None, double bound, double units, int64_t[::1] totals not None,
):
    """Add to ``totals`` the gain of each item on top of the other items shown, for people within the limit.

    Gains are in units of the bound, at most the item's gain alone. Each person's gains are weighted so that
    those of items alone have an L2 norm of at most 1, and counted in integer units, ``units`` to 1, rounded
    down.
    """
    cdef Py_ssize_t count = within_limit.shape[0], j, i
    cdef uint8_t *inside
    cdef double *after
    check_people(people, first, count)
    check_items(&shown[0] if shown.shape[0] else NULL, shown.shape[0], people.n_items)
    if totals.shape[0] != people.n_items:
        raise ValueError("totals have a number for each item")
    if not count or not people.n_items:
        return
    inside = <uint8_t *>calloc(people.n_items, 1)
    after = <double *>malloc((shown.shape[0] + 1) * sizeof(double))
    if not inside or not after:
        free(inside)
        free(after)
        raise MemoryError
    with nogil:
        for i in range(shown.shape[0]):
            inside[shown[i]] = 1
        for j in range(count):
            if within_limit[j]:
                _leave_one_out(people, first + j, inside, bound, units, after, &totals[0])
        free(inside)
        free(after)


cdef void _leave_one_out(
    RowTable people, Py_ssize_t row, const uint8_t *inside, double bound, double units, double *after,
    int64_t *totals,
) noexcept nogil:
    cdef const Matrix *rows = &people.rows
    cdef Py_ssize_t start = rows.indptr[row], stop = rows.indptr[row + 1], place = 0, p
    cdef int kind = people.kind
    cdef double fresh = people.fresh, cap = at(&people.cap, row), before = fresh, state, alone, added, weight
    weight = units * _row_weight(people, row, bound)
    # The states of the shown items from the i-th on, to be joined with those before it.
    for p in range(start, stop):
        place += inside[rows.indices[p]]
    after[place] = fresh
    for p in range(stop - 1, start - 1, -1):
        if inside[rows.indices[p]]:
            after[place - 1] = step(kind, after[place], at(&rows.data, p))
            place -= 1
    for p in range(start, stop):
        state = after[0]
        if inside[rows.indices[p]]:
            state = joined(kind, before, after[place + 1])
            before = step(kind, before, at(&rows.data, p))
            place += 1
        alone = gain(kind, fresh, at(&rows.data, p), cap) / bound
        alone = 1.0 if alone > 1.0 else alone
        added = gain(kind, state, at(&rows.data, p), cap) / bound
        added = alone if added > alone else added
        totals[rows.indices[p]] += <int64_t>floor((added if added > 0.0 else 0.0) * weight)


# --- values of lists and sets -------------------------------------------------------------------------------


cdef double _add_list(
    RowTable people, Py_ssize_t row, const int32_t *items, Py_ssize_t count, double per_one, int64_t most,
    int64_t *sums, bint by_item,
) noexcept nogil:
    """Add each item's gain on top of those before it to the sum of its item or place; returns the total.

    Nobody adds more than ``most`` units: excess from rounding is cut from the last items.
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
    """Sums by item of the gains of a person's list, each on top of the items before; and counts of shows.

    ``units`` are the units per 1, and the most that one person adds.
    """
    cdef double per_one = units[0]
    cdef int64_t most = units[1]
    cdef const uint8_t[::1] within_limit = stream.within_limit.view(np.uint8)
    cdef double[::1] rewards = stream.rewards
    cdef Py_ssize_t count = rewards.shape[0], k = lists.shape[1], t, i
    check_people(people, first, count)
    if not count == lists.shape[0] == within_limit.shape[0] or not k:
        raise ValueError("everybody has a list and a limit")
    if not count:
        return
    check_items(&lists[0, 0], count * k, min(people.n_items, sums.shape[0], shows.shape[0]))
    with nogil:
        for t in range(count):
            for i in range(k):
                shows[lists[t, i]] += 1
            if within_limit[t]:
                rewards[t] = _add_list(people, first + t, &lists[t, 0], k, per_one, most, &sums[0], True)
            else:
                rewards[t] = value_of(people, first + t, &lists[t, 0], k)


def add_set(
    stream, RowTable people not None, Py_ssize_t first, const int32_t[::1] items not None, units,
    bint by_slot, int64_t[::1] sums not None,
):
    """The sum over people of the value of a set; or, ``by_slot``, of the gain of each item.

    ``units`` as in `add_lists`.
    """
    cdef double per_one = units[0]
    cdef int64_t most = units[1]
    cdef const uint8_t[::1] within_limit = stream.within_limit.view(np.uint8)
    cdef double[::1] rewards = stream.rewards
    cdef Py_ssize_t count = rewards.shape[0], k = items.shape[0], t
    check_people(people, first, count)
    if count != within_limit.shape[0] or not k or sums.shape[0] != (k if by_slot else 1):
        raise ValueError("everybody has a limit, and there is a sum for the set or for each of its items")
    check_items(&items[0], k, people.n_items)
    with nogil:
        for t in range(count):
            if by_slot and within_limit[t]:
                rewards[t] = _add_list(people, first + t, &items[0], k, per_one, most, &sums[0], False)
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


# --- rounds -------------------------------------------------------------------------------------------------


cdef class OrderedRounds:
    """Rounds of ordered experts that draw by a running sum of gains, a new set every ``every`` rounds.

    ``pending`` are the gains not yet added to a sum: a row for each expert.
    """

    cdef PrefixSum sums
    cdef UnitGains how
    cdef int64_t[:, ::1] pending
    cdef Py_ssize_t every

    def __init__(
        self, PrefixSum sums not None, UnitGains how not None, int64_t[:, ::1] pending not None,
        Py_ssize_t every,
    ):
        if pending.shape[0] * pending.shape[1] != sums.size or not 1 <= pending.shape[0] <= pending.shape[1]:
            raise ValueError("the sum has a coordinate for each expert and each item")
        if every < 1:
            raise ValueError("sets are shown for at least one round")
        self.sums, self.how, self.pending, self.every = sums, how, pending, every

    def run(
        self, stream, Py_ssize_t first, RowTable people not None, RowTable counted not None,
        Py_ssize_t passed, const double[::1] rates not None, const double[:, ::1] uniforms not None,
        int32_t[::1] shown not None,
    ):
        """The rounds of ``stream``; between batches, ``rates.size`` sums and sets are taken.

        ``people`` are the rows for rewards, ``counted`` those to learn from; the stream's begin at ``first``.
        On entry ``passed`` rounds of the first batch are over, possibly all, and ``shown`` is its set; on
        return ``shown`` and the sum are those of the last batch.
        """
        cdef const uint8_t[::1] within_limit = stream.within_limit
        cdef double[::1] rewards = stream.rewards
        cdef int32_t[:, ::1] selections = stream.selections
        cdef Py_ssize_t experts = self.pending.shape[0], items = self.pending.shape[1]
        cdef Py_ssize_t count = rewards.shape[0]
        cdef Py_ssize_t start = 0, stop, batch, t, i
        cdef Work work
        cdef Memory memory
        cdef double[::1] vector = np.zeros(experts * items)
        check_people(people, first, count)
        check_people(counted, first, count)
        check_items(&shown[0] if shown.shape[0] else NULL, shown.shape[0], people.n_items)
        if people.n_items != items or counted.n_items != items or shown.shape[0] != experts:
            raise ValueError(f"people and sets are not of {items} items and {experts} experts")
        if within_limit.shape[0] != count or selections.shape[0] != count or selections.shape[1] != experts:
            raise ValueError("each round has a person, a reward and a set")
        if uniforms.shape[0] != rates.shape[0] or (rates.shape[0] and uniforms.shape[1] != experts):
            raise ValueError("each draw has a rate, and a uniform number for each expert")
        if not 0 <= passed <= self.every or not count:
            raise ValueError(f"{passed} of {self.every} rounds are not over")
        if -(-(count - (self.every - passed)) // self.every) > rates.shape[0]:
            raise ValueError(f"{rates.shape[0]} rates are not enough for {count} rounds")
        self.sums.ready(experts * items, rates.shape[0])
        _prepare(&work, counted, first, count, experts)
        try:
            reserve(&memory, items)
        except MemoryError:
            _finish(&work)
            raise
        with nogil:
            for batch in range(rates.shape[0] + 1):
                if batch > 0:
                    self._sum_up(&vector[0])
                    draw_items(
                        &memory, &self.sums.sums[0], experts, rates[batch - 1], &uniforms[batch - 1, 0],
                        &shown[0],
                    )
                stop = min(count, self.every - passed + batch * self.every)
                if stop > start:
                    for t in range(start, stop):
                        rewards[t] = value_of(people, first + t, &shown[0], experts)
                        for i in range(experts):
                            selections[t, i] = shown[i]
                    _add_gains(
                        self.how, counted, first + start, stop - start, &within_limit[start], &shown[0],
                        &self.pending[0, 0], &work,
                    )
                start = stop
            release(&memory)
            _finish(&work)

    cdef void _sum_up(self, double *vector) noexcept nogil:
        """Add the pending gains to the sum."""
        cdef Py_ssize_t size = self.pending.shape[0] * self.pending.shape[1], j
        cdef int64_t *pending = &self.pending[0, 0]
        cdef double units = self.how.units
        for j in range(size):
            vector[j] = <double>pending[j] / units
        memset(pending, 0, size * sizeof(int64_t))
        self.sums.step(vector)


cdef class FollowedRounds:
    """Hedge over two, by a running sum of the first's rewards minus the second's, in ``units`` to 1.

    ``odds`` are those of the second at a sum of 0. ``pending`` is the part not yet added to a sum.
    """

    cdef PrefixSum sums
    cdef int64_t[::1] pending
    cdef double units
    cdef double odds

    def __init__(self, PrefixSum sums not None, int64_t[::1] pending not None, double units, double odds):
        if sums.size != 1 or pending.shape[0] != 1:
            raise ValueError("two are compared by one number")
        self.sums, self.pending, self.units, self.odds = sums, pending, units, odds

    def run(
        self, const int64_t[::1] differences not None, Py_ssize_t every, Py_ssize_t passed, double rate,
        const double[::1] uniforms not None, uint8_t[::1] follows not None,
    ):
        """Which of the two is followed in each round; between batches of ``every``, a sum for each uniform.

        On entry ``passed`` rounds of the first batch are over, and ``follows[0]`` is the one followed in it.
        """
        cdef Py_ssize_t count = follows.shape[0], start = 0, stop, batch, t
        cdef double vector
        cdef uint8_t follow
        if differences.shape[0] != count or not count or not 0 <= passed <= every or every < 1:
            raise ValueError("each round has a difference, and batches have rounds")
        if -(-(count - (every - passed)) // every) > uniforms.shape[0]:
            raise ValueError(f"{uniforms.shape[0]} draws are not enough for {count} rounds")
        self.sums.ready(1, uniforms.shape[0])
        follow = follows[0]
        with nogil:
            for batch in range(uniforms.shape[0] + 1):
                if batch > 0:
                    vector = <double>self.pending[0] / self.units
                    self.pending[0] = 0
                    self.sums.step(&vector)
                    follow = follows_first_of_two(rate * self.sums.sums[0], self.odds, uniforms[batch - 1])
                stop = min(count, every - passed + batch * every)
                for t in range(start, stop):
                    follows[t] = follow
                    self.pending[0] += differences[t]
                start = stop
