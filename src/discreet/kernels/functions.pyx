"""Rounds of people whose concave function is in Python: what it is asked, and what is made of its answers.

A person's question is one array: the sum of all their weights, and then, for each of the sums that the shown
items lead to (0 first), that sum and the sums with each of the person's items. The answers are in the same
order. `Questions.judge` puts whole units of gains in their place.
"""

from libc.math cimport fabs, floor, isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t

from .experts cimport OrderedExperts
from .rows cimport Compressed, Matrix, at, place_of


cdef class Questions:
    """What the people of some rows are asked, and their answers.

    ``cap`` is the sum of each person's weights. ``asked`` and ``answers`` have room for as many people as are
    asked together. A gain is at most ``bound``; ``per_one`` units make 1, and no gain counts more than
    ``most`` of them. Functions may be off by the share ``slack`` of what they answer.
    """

    cdef Compressed people
    cdef const double[::1] cap
    cdef double[::1] asked
    cdef double[::1] answers
    cdef double slack
    cdef double bound
    cdef double per_one
    cdef double most
    cdef Py_ssize_t first
    cdef const int32_t[::1] shown
    cdef int64_t[::1] ends

    def __init__(self, Compressed people not None, cap, asked, answers, double slack, limits):
        self.people, self.cap, self.asked, self.answers, self.slack = people, cap, asked, answers, slack
        self.bound, self.per_one, self.most = limits
        if self.cap.shape[0] != people.matrix.n_rows or self.asked.shape[0] != self.answers.shape[0]:
            raise ValueError("each person has a sum of weights, and each question an answer")

    def put(self, Py_ssize_t first, const int32_t[::1] shown not None, int64_t[::1] ends not None):
        """Write the questions to the people from ``first`` on; that of person t ends at ``ends[t + 1]``."""
        cdef const Matrix *rows = &self.people.matrix
        cdef Py_ssize_t count = ends.shape[0] - 1, t, at_, p, turn, start, stop, held, size
        cdef double state
        if count < 0 or not 0 <= first <= rows.n_rows - count:
            raise ValueError(f"there are {rows.n_rows} people, not {count} from {first} on")
        size = 0
        for t in range(first, first + count):
            size += 1 + (min(shown.shape[0], rows.indptr[t + 1] - rows.indptr[t]) + 1) * (
                1 + rows.indptr[t + 1] - rows.indptr[t]
            )
        if size > self.asked.shape[0]:
            raise ValueError(f"there is room for {self.asked.shape[0]} numbers, not for {size}")
        self.first, self.shown, self.ends = first, shown, ends
        ends[0] = 0
        with nogil:
            for t in range(count):
                start, stop = rows.indptr[first + t], rows.indptr[first + t + 1]
                at_ = ends[t]
                self.asked[at_] = self.cap[first + t]
                at_ += 1
                state = 0.0
                turn = 0
                while turn <= shown.shape[0]:
                    self.asked[at_] = state
                    for p in range(start, stop):
                        self.asked[at_ + 1 + p - start] = state + at(&rows.data, p)
                    at_ += 1 + stop - start
                    turn = _next_held(rows, first + t, shown, turn, &held)
                    if held < stop:
                        state += at(&rows.data, held)
                ends[t + 1] = at_

    def judge(self, double[:, ::1] added not None):
        """Make whole units of gains of the first people's answers; how many answered as they must.

        It stops at the first whose function is not finite, falls, or rises above its height at the sum of all
        weights, or above the bound. ``added[t, i]`` is what the i-th shown item added.
        """
        cdef Py_ssize_t count = added.shape[0], t
        if count > self.ends.shape[0] - 1 or added.shape[1] != self.shown.shape[0]:
            raise ValueError("nobody else was asked")
        with nogil:
            for t in range(count):
                if not self._right(t, &added[t, 0] if added.shape[1] else NULL):
                    break
            else:
                t = count
        return t

    cdef bint _right(self, Py_ssize_t t, double *added) noexcept nogil:
        cdef const Matrix *rows = &self.people.matrix
        cdef Py_ssize_t row = self.first + t, start = rows.indptr[row], stop = rows.indptr[row + 1]
        cdef Py_ssize_t place, turn = 0, done, held, p, e
        cdef double whole = self.answers[self.ends[t]], reach = self.cap[row] * (1.0 + 1e-12), state = 0.0
        cdef double before, after, spare, gain
        for place in range(self.ends[t], self.ends[t + 1]):
            if not isfinite(self.answers[place]):
                return False
        place = self.ends[t] + 1
        while turn <= self.shown.shape[0]:
            before = self.answers[place]
            done = turn
            turn = _next_held(rows, row, self.shown, turn, &held)
            for p in range(start, stop):
                after = self.answers[place + 1 + p - start]
                spare = self.slack * (fabs(before) + fabs(after) + fabs(whole))
                if not (after >= before - spare and after <= whole + spare):
                    if state + at(&rows.data, p) <= reach:
                        return False
                gain = after - before if after > before else 0.0
                if p == held:
                    added[turn - 1] = gain
                if gain > self.bound * (1.0 + self.slack):
                    if not _among(rows.indices[p], self.shown, done):
                        return False
                    gain = 0.0
                gain = floor((self.bound if self.bound < gain else gain) * self.per_one)
                self.answers[place + 1 + p - start] = self.most if self.most < gain else gain
            for e in range(done):
                p = place_of(rows, row, self.shown[e])
                if p < stop:  # an item adds nothing once it is there
                    self.answers[place + 1 + p - start] = 0.0
            place += 1 + stop - start
            if held < stop:
                state += at(&rows.data, held)
        return True

    def teach(self, OrderedExperts experts not None, const uint8_t[::1] within_limit not None):
        """Experts learn from the people who were asked first, as `judge` left their answers."""
        cdef const Matrix *rows = &self.people.matrix
        cdef Py_ssize_t t, i, p, place, turn, done, held, start, stop
        cdef int64_t units
        if rows.n_columns != experts.n_items or self.shown.shape[0] != experts.k:
            raise ValueError("people and sets are of other items than the experts'")
        if within_limit.shape[0] > self.ends.shape[0] - 1:
            raise ValueError("nobody else was asked")
        experts.build()
        with nogil:
            for t in range(within_limit.shape[0]):
                if not within_limit[t]:
                    continue
                start, stop = rows.indptr[self.first + t], rows.indptr[self.first + t + 1]
                place = self.ends[t] + 2
                turn = 0
                while turn < self.shown.shape[0]:
                    done = turn
                    turn = _next_held(rows, self.first + t, self.shown, turn, &held)
                    for p in range(start, stop):
                        units = <int64_t>self.answers[place + p - start]
                        for i in range(done, min(turn, self.shown.shape[0])):
                            experts.gains[rows.indices[p], i] += units
                    place += 1 + stop - start
                experts.changed(rows.indices + start, stop - start, experts.k)


cdef Py_ssize_t _next_held(
    const Matrix *rows, Py_ssize_t row, const int32_t[::1] shown, Py_ssize_t turn, Py_ssize_t *held
) noexcept nogil:
    """The place after the next shown item that the row holds, and where the row has it."""
    while turn < shown.shape[0]:
        held[0] = place_of(rows, row, shown[turn])
        turn += 1
        if held[0] < rows.indptr[row + 1]:
            return turn
    held[0] = rows.indptr[row + 1]
    return shown.shape[0] + 1


cdef bint _among(int32_t item, const int32_t[::1] shown, Py_ssize_t count) noexcept nogil:
    """Whether ``item`` is one of the first ``count`` shown."""
    cdef Py_ssize_t i
    for i in range(count):
        if shown[i] == item:
            return True
    return False
