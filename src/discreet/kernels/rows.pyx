"""Loops over people x items arrays: gains, sums of gains in integer steps, and multilinear gradients.

A person's gain is rounded down to an integer number of steps before it is added to others' (`whole_steps`):
one person's part of a sum is then exact, and integers add up the same in any order.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from .portable cimport cloned, cloned_wide, inlined

import numpy as np

cpdef enum:
    # An expectation over all subsets of a row is a sum of 2^m terms for each of its m undecided items.
    ENUMERABLE = 12
    # Up to this many are enumerated even if a mean over random sets would suffice.
    SHORT = 8

cdef enum Loop:
    GAINS
    ADD
    SUMS
    SINGLES  # sums over a dense array of 32-bit floats
    CHOOSE


cdef Numbers numbers_of(const double[:] array, Py_ssize_t size, str name) except *:
    if array.shape[0] != size:
        raise ValueError(f"{name} has {array.shape[0]} numbers, not {size}")
    cdef Numbers found
    found.first = &array[0] if size else NULL
    found.step = 1
    if size > 1 and array.strides[0] == 0:
        found.step = 0
    elif size > 1 and array.strides[0] != sizeof(double):
        raise ValueError(f"{name} must be an array without gaps, or one number for all places")
    return found


cdef bint _sound(const Matrix *matrix, Py_ssize_t n_entries) noexcept nogil:
    """Whether all indices are within their arrays."""
    cdef Py_ssize_t i
    cdef bint right = matrix.indptr[0] == 0 and matrix.indptr[matrix.n_rows] == n_entries
    for i in range(matrix.n_rows):
        right &= matrix.indptr[i] <= matrix.indptr[i + 1]
    for i in range(n_entries):
        right &= (matrix.indices[i] >= 0) & (matrix.indices[i] < matrix.n_columns)
    return right


cdef class Compressed:
    """A sparse matrix in compressed rows, checked once: all its indices are within their arrays."""

    def __init__(self, indptr, indices, data, Py_ssize_t n_columns):
        cdef const int64_t[::1] ends = indptr
        cdef const int32_t[::1] columns = indices
        if ends.shape[0] < 1 or n_columns < 0:
            raise ValueError("compressed rows have one end more than there are rows")
        self._arrays = (indptr, indices, data)
        self.matrix.n_rows = ends.shape[0] - 1
        self.matrix.n_columns = n_columns
        self.matrix.indptr = &ends[0]
        self.matrix.indices = &columns[0] if columns.shape[0] else NULL
        self.matrix.data = numbers_of(data, columns.shape[0], "data")
        if not _sound(&self.matrix, columns.shape[0]):
            raise ValueError("indptr must rise from 0 to the number of entries, and indices name columns")

    def __reduce__(self):
        return Compressed, (*self._arrays, self.matrix.n_columns)

    def transposed(self):
        """The same entries by column: the start of each column, its rows in order, and the weights.

        The weights are None if they are one number stored once.
        """
        cdef const Matrix *m = &self.matrix
        cdef Py_ssize_t i, p, place, n_entries = m.indptr[m.n_rows]
        made = np.zeros(m.n_columns + 1, dtype=np.int64), np.empty(n_entries, dtype=np.int32)
        weights = None if m.data.step == 0 else np.empty(n_entries)
        cdef int64_t[::1] ends = made[0]
        cdef int32_t[::1] rows = made[1]
        cdef double[::1] data = np.empty(0) if weights is None else weights
        cdef bint weighted = weights is not None
        with nogil:
            for p in range(n_entries):
                ends[m.indices[p]] += 1
            place = 0
            for i in range(m.n_columns):
                place += ends[i]
                ends[i] = place - ends[i]
            ends[m.n_columns] = place
            for i in range(m.n_rows):
                for p in range(m.indptr[i], m.indptr[i + 1]):
                    place = ends[m.indices[p]]
                    ends[m.indices[p]] += 1
                    rows[place] = <int32_t>i
                    if weighted:
                        data[place] = at(&m.data, p)
            for i in range(m.n_columns - 1, 0, -1):  # each has moved to where the next begins
                ends[i] = ends[i - 1]
            if m.n_columns > 0:
                ends[0] = 0
        return *made, weights

    def falling(self):
        """Columns and weights of each row in order of falling weight, ties by column."""
        cdef const Matrix *m = &self.matrix
        cdef Py_ssize_t n_entries = m.indptr[m.n_rows], i, p, most = longest_row(m, 0, m.n_rows)
        made = np.empty(n_entries, dtype=np.int32), np.empty(n_entries)
        cdef int32_t[::1] columns = made[0]
        cdef double[::1] data = made[1]
        cdef int64_t[::1] order = np.empty(2 * most, dtype=np.int64)
        cdef double[::1] weights = np.empty(most)
        cdef Py_ssize_t start, length
        with nogil:
            for i in range(m.n_rows):
                start = m.indptr[i]
                length = m.indptr[i + 1] - start
                for p in range(length):
                    weights[p] = -at(&m.data, start + p)
                if length:
                    rising(&weights[0], length, &order[0], &order[most])
                for p in range(length):
                    columns[start + p] = m.indices[start + order[p]]
                    data[start + p] = at(&m.data, start + order[p])
        return made


cdef void rising(const double *scores, Py_ssize_t count, int64_t *order, int64_t *spare) noexcept nogil:
    """Indices by rising score, ties by index: short runs are sorted, then pairs of runs merged."""
    cdef Py_ssize_t i, j, size = 16, start, left, right, middle, stop, place
    for i in range(count):
        j = i
        while j % size > 0 and scores[i] < scores[order[j - 1]]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    while size < count:
        start = 0
        while start < count:
            left = start
            right = middle = min(start + size, count)
            stop = min(start + 2 * size, count)
            for place in range(start, stop):
                # For equal scores the left run has the smaller indices.
                if left < middle and (right >= stop or not scores[order[right]] < scores[order[left]]):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
            start = stop
        for i in range(count):
            order[i] = spare[i]
        size *= 2


cdef Py_ssize_t longest_row(const Matrix *rows, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """The number of entries of the longest of some rows."""
    cdef Py_ssize_t i, longest = 0
    for i in range(first, last):
        longest = max(longest, rows.indptr[i + 1] - rows.indptr[i])
    return longest


# --- growing sets -----------------------------------------------------------------------------------------

cdef struct Job:
    # Rows, and the same entries by column if an item is chosen; or a dense array.
    const Matrix *rows
    const Matrix *columns
    const double *dense
    const float *singles
    Py_ssize_t n_rows
    Py_ssize_t n_items
    Numbers share
    Numbers cap
    # For the items chosen so far: the state of each row, and the steps that it may still add.
    double *state
    double *left
    double per_unit
    Py_ssize_t item
    double *out
    double added


cdef inline inlined _sums(int kind, bint dense, bint single, bint stepped, Job *job) noexcept nogil:
    """Every row's gains, in integer steps or unrounded."""
    cdef const int32_t *indices = job.rows.indices
    cdef const double *weights = job.rows.data.first
    cdef const float *singles = job.singles
    cdef double *out = job.out
    cdef Py_ssize_t i, p, start = 0, stop = job.n_items, stride = job.rows.data.step
    cdef double s, c, share, weight, added, left = 0.0, per_unit = job.per_unit
    for i in range(job.n_rows):
        s = job.state[i]
        c = at(&job.cap, i)
        share = at(&job.share, i)
        if stepped:
            left = job.left[i]
        if single:
            singles = job.singles + i * job.n_items
        elif dense:
            weights = job.dense + i * job.n_items
        else:
            start = job.rows.indptr[i]
            stop = job.rows.indptr[i + 1]
        for p in range(start, stop):
            weight = singles[p] if single else weights[p if dense else p * stride]
            added = share * gain(kind, s, weight, c)
            out[p if dense else indices[p]] += whole_steps(added, per_unit, left) if stepped else added


cdef inline inlined _choose(int kind, bint dense, bint stepped, Job *job) noexcept nogil:
    """Choose one item: update the states and gains of its rows, in integer steps or unrounded."""
    cdef const int32_t *indices = job.rows.indices
    cdef const double *weights = job.rows.data.first
    cdef double *out = job.out
    cdef Py_ssize_t i, p, q, start = 0, stop = job.n_items, stride = job.rows.data.step
    cdef Py_ssize_t first = 0 if dense else job.columns.indptr[job.item]
    cdef Py_ssize_t last = job.n_rows if dense else job.columns.indptr[job.item + 1]
    cdef double old, new, c, share, chosen, weight, before, after
    cdef double had = 0.0, has = 0.0, added = 0.0, per_unit = job.per_unit
    for q in range(first, last):
        i = q if dense else job.columns.indices[q]
        chosen = job.dense[i * job.n_items + job.item] if dense else at(&job.columns.data, q)
        if dense and chosen == 0.0:
            continue
        c = at(&job.cap, i)
        share = at(&job.share, i)
        old = job.state[i]
        new = step(kind, old, chosen)
        if stepped:
            had = job.left[i]
            has = had - whole_steps(share * gain(kind, old, chosen, c), per_unit, had)
        else:
            added += share * gain(kind, old, chosen, c)
        if new == old and has == had:
            continue
        job.state[i] = new
        if stepped:
            job.left[i] = has
        if dense:
            weights = job.dense + i * job.n_items
        else:
            start = job.rows.indptr[i]
            stop = job.rows.indptr[i + 1]
        for p in range(start, stop):
            weight = weights[p if dense else p * stride]
            before = gain(kind, old, weight, c)
            after = gain(kind, new, weight, c)
            if stepped:
                after = whole_steps(share * after, per_unit, has) - whole_steps(share * before, per_unit, had)
            else:
                after = share * (after - before)
            out[p if dense else indices[p]] += after
    job.added = added


cdef inline inlined _looped(int kind, bint dense, Loop loop, Job *job) noexcept nogil:
    if loop == GAINS:
        _sums(kind, dense, False, False, job)
    elif loop == ADD:
        _choose(kind, dense, False, job)
    elif loop == SUMS:
        _sums(kind, dense, False, True, job)
    elif loop == SINGLES and dense:
        _sums(kind, dense, True, True, job)
    else:
        _choose(kind, dense, True, job)


cdef inline inlined _of_kind(int kind, bint dense, Loop loop, Job *job) noexcept nogil:
    """Dispatch to the loop compiled for this kind as a constant."""
    if kind == COVER:
        _looped(COVER, dense, loop, job)
    elif kind == SURVIVE:
        _looped(SURVIVE, dense, loop, job)
    elif kind == BEST:
        _looped(BEST, dense, loop, job)
    elif kind == SQRT:
        _looped(SQRT, dense, loop, job)
    elif kind == LOG:
        _looped(LOG, dense, loop, job)
    else:
        _looped(CAP, dense, loop, job)


cdef cloned _sparse(int kind, Loop loop, Job *job) noexcept nogil:
    _of_kind(kind, False, loop, job)


cdef cloned_wide _dense(int kind, Loop loop, Job *job) noexcept nogil:
    _of_kind(kind, True, loop, job)


cdef void add_row_sums(
    int kind, const double *weights, const float *singles, Py_ssize_t n_items, double share, double cap,
    double state, double left, double per_unit, double *out,
) noexcept nogil:
    """Add the gains of one dense row to ``out``, in integer steps of ``1 / per_unit``, at most ``left``.

    Weights are floats of 64 bits, or of 32 (``singles``).
    """
    cdef Matrix none
    cdef Job job
    memset(&none, 0, sizeof(Matrix))
    memset(&job, 0, sizeof(Job))
    job.rows, job.dense, job.n_rows, job.n_items = &none, weights, 1, n_items
    job.share.first, job.cap.first, job.state, job.left = &share, &cap, &state, &left
    job.per_unit, job.out = per_unit, out
    job.singles = singles
    _dense(kind, SUMS if singles == NULL else SINGLES, &job)


cdef enum Use:
    # The use of a row's slopes: added to floats, added in integer steps, or kept entry by entry.
    FLOATS
    STEPS
    KEPT


cdef struct Slopes:
    # The point of the gradient, and the array that it is added to.
    const double *x
    void *out
    double per_unit
    int64_t most
    # Products before an item, and their factors; all sums of undecided items, at most 2^limit, and their
    # probabilities; a row's sum in each of the random sets (samples x items).
    double *before
    double *missed
    double *sums
    double *chance
    double *totals
    int limit
    Py_ssize_t samples
    const uint8_t *inside
    Py_ssize_t longest  # entries of a row
    double *memory


cdef Job _job(RowTable table, double[::1] state) except *:
    if state.shape[0] != table.n_rows:
        raise ValueError("state has one number for each row")
    cdef Job job
    memset(&job, 0, sizeof(Job))
    job.rows, job.dense = &table.rows, table.dense
    job.n_rows, job.n_items = table.n_rows, table.n_items
    job.share, job.cap = table.share, table.cap
    job.state = &state[0] if table.n_rows else NULL
    return job


cdef int _limit(Job *job, double[::1] left, double per_unit) except -1:
    """Set the steps that rows may still add."""
    if left.shape[0] != job.n_rows:
        raise ValueError("left has one number of steps for each row")
    job.left = &left[0] if job.n_rows else NULL
    job.per_unit = per_unit
    return 0


cdef int _turn(Job *job, Compressed columns, Py_ssize_t item) except -1:
    """Set the chosen item, and the rows that hold it."""
    if not 0 <= item < job.n_items:
        raise IndexError("there is no such item")
    job.item = item
    if job.dense == NULL:
        job.columns = _columns(job, columns)
    return 0


cdef const Matrix *_columns(Job *job, Compressed columns) except NULL:
    if columns is None:
        raise ValueError("an item is chosen by the columns of the table")
    if columns.matrix.n_rows != job.n_items or columns.matrix.n_columns != job.n_rows:
        raise ValueError("the columns are of another table")
    return &columns.matrix


cdef int _run(int kind, Loop loop, Job *job, double[::1] out) except -1:
    if out.shape[0] != job.n_items:
        raise ValueError("out has one number for each item")
    job.out = &out[0] if job.n_items else NULL
    with nogil:
        if job.dense != NULL:
            _dense(kind, loop, job)
        else:
            _sparse(kind, loop, job)
    return 0


cdef inline double _taken(int kind, Py_ssize_t row, double weight, Job *job) noexcept nogil:
    """The gain of an item of this weight in a row; updates the row's state."""
    cdef double state = job.state[row]
    job.state[row] = step(kind, state, weight)
    return at(&job.share, row) * gain(kind, state, weight, at(&job.cap, row))


cdef int check_people(RowTable people, Py_ssize_t first, Py_ssize_t count) except -1:
    """Refuse rows that are not compressed, or fewer than ``count`` from the first on."""
    if people.dense != NULL:
        raise ValueError("people are compressed rows")
    if count < 0 or not 0 <= first <= people.n_rows - count:
        raise ValueError(f"there are {people.n_rows} people, not {count} from {first} on")
    return 0


cdef int check_items(const int32_t *items, Py_ssize_t count, Py_ssize_t n_items) except -1:
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= items[i] < n_items:
            raise IndexError(f"item {items[i]} is not one of {n_items}")
    return 0


cdef class RowTable:
    """Rows of one kind in the form that loops use; everything is checked here, once.

    ``matrix``: compressed rows (with sorted columns), or a dense rows x items array. ``share`` is the factor
    of each row and ``cap`` its cap. Arrays of state have one number for each row, and are updated as items
    are chosen.
    """

    def __init__(self, int kind, double fresh, matrix, share, cap):
        if not COVER <= kind <= CAP:
            raise ValueError(f"there is no kind {kind} of rows")
        self.kind, self.fresh = kind, fresh
        cdef const double[:, ::1] dense
        if isinstance(matrix, Compressed):
            self.rows = (<Compressed>matrix).matrix
            self.n_rows, self.n_items = self.rows.n_rows, self.rows.n_columns
        else:
            dense = matrix
            self.n_rows, self.n_items = dense.shape[0], dense.shape[1]
            self.dense = &dense[0, 0] if self.n_rows and self.n_items else NULL
            if self.dense == NULL:
                raise ValueError("a dense table has rows and columns")
        self.share = numbers_of(share, self.n_rows, "share")
        self.cap = numbers_of(cap, self.n_rows, "cap")
        self._arrays = (matrix, share, cap)

    def __reduce__(self):
        return RowTable, (self.kind, self.fresh, *self._arrays)

    def gains(self, double[::1] state, double[::1] out):
        """Add the gain of every item on top of the rows' states to ``out``."""
        cdef Job job = _job(self, state)
        _run(self.kind, GAINS, &job, out)

    def add(self, Py_ssize_t item, double[::1] state, double[::1] out, Compressed columns=None):
        """Choose one item: update the states of its rows, and the gains of all items in those rows.

        Returns its gain.
        """
        cdef Job job = _job(self, state)
        _turn(&job, columns, item)
        _run(self.kind, ADD, &job, out)
        return job.added

    def sums(self, double[::1] state, double[::1] left, double per_unit, double[::1] out):
        """Add every row's gains to ``out``, in integer steps of ``1 / per_unit``, at most ``left`` each."""
        cdef Job job = _job(self, state)
        _limit(&job, left, per_unit)
        _run(self.kind, SUMS, &job, out)

    def choose(
        self, Py_ssize_t item, double[::1] state, double[::1] left, double per_unit, double[::1] out,
        Compressed columns=None,
    ):
        """Choose one item: update its rows' states, and the sums of all their items by the difference.

        A row's earlier gains are computed again from the same numbers, so they are subtracted exactly.
        """
        cdef Job job = _job(self, state)
        _limit(&job, left, per_unit)
        _turn(&job, columns, item)
        _run(self.kind, CHOOSE, &job, out)

    def chain(self, const int64_t[::1] order, double[::1] state, double[::1] out, Compressed columns=None):
        """Choose items in turn: ``out`` is the gain of each. Updates the rows' states.

        Few rows need no columns: items are searched in them.
        """
        cdef Job job = _job(self, state)
        cdef Py_ssize_t t, i, j, p, q
        cdef double weight
        cdef const Matrix *held = NULL
        if out.shape[0] != order.shape[0]:
            raise ValueError("out has one number for each item of the order")
        for t in range(order.shape[0]):
            if not 0 <= order[t] < self.n_items:
                raise IndexError("there is no such item")
            out[t] = 0.0
        if columns is not None:
            held = _columns(&job, columns)
        with nogil:
            for t in range(order.shape[0]):
                j = order[t]
                if held != NULL:
                    for q in range(held.indptr[j], held.indptr[j + 1]):
                        out[t] += _taken(self.kind, held.indices[q], at(&held.data, q), &job)
                    continue
                for i in range(self.n_rows):
                    if self.dense != NULL:
                        weight = self.dense[i * self.n_items + j]
                        if weight != 0.0:
                            out[t] += _taken(self.kind, i, weight, &job)
                        continue
                    p = place_of(&self.rows, i, j)
                    if p < self.rows.indptr[i + 1]:
                        out[t] += _taken(self.kind, i, at(&self.rows.data, p), &job)

    def contributions(self, const int64_t[::1] items, double[::1] state, double[::1] out, Compressed columns):
        """f(S) - f(S without j) for each j of S, in ``out``; for rows whose state is a sum, exactly."""
        cdef Job job = _job(self, state)
        cdef Py_ssize_t t, i, q
        cdef double weight, rest, total
        cdef const Matrix *held = _columns(&job, columns)
        if self.kind < SQRT or out.shape[0] != items.shape[0]:
            raise ValueError("rows of sums, and one number for each item")
        for t in range(items.shape[0]):
            if not 0 <= items[t] < self.n_items:
                raise IndexError("there is no such item")
            total = 0.0
            for q in range(held.indptr[items[t]], held.indptr[items[t] + 1]):
                i, weight = held.indices[q], at(&held.data, q)
                # Subtracting the weight may leave a rounding error below zero.
                rest = max(job.state[i] - weight, 0.0)
                total += at(&self.share, i) * gain(self.kind, rest, weight, at(&self.cap, i))
            out[t] = total

    def values(self, const int32_t[::1] items, Py_ssize_t first, double[::1] out):
        """``out[j]`` = value of the set ``items`` to row ``first + j``; of compressed rows."""
        cdef Py_ssize_t j
        cdef const int32_t *chosen = &items[0] if items.shape[0] else NULL
        check_people(self, first, out.shape[0])
        with nogil:
            for j in range(out.shape[0]):
                out[j] = value_of(self, first + j, chosen, items.shape[0])

    # --- multilinear gradients --------------------------------------------------------------------------

    def extension(self, const double[::1] x, double[::1] out, Py_ssize_t first, Py_ssize_t last):
        """The multilinear extension at ``x`` of some rows, returned; their gradient is added to ``out``.

        Rows of kind BEST have their entries in order of falling weight. Rows of sums have at most ENUMERABLE
        entries.
        """
        cdef double total = 0.0
        if x.shape[0] != self.n_items or out.shape[0] != self.n_items:
            raise ValueError("x and out have one number for each item")
        check_people(self, first, last - first)
        cdef Slopes room = _reserve(&self.rows, first, last, ENUMERABLE, None)
        if self.kind >= SQRT and room.longest > ENUMERABLE:
            free(room.memory)
            raise ValueError("rows of sums have too many items to go through all subsets of them")
        room.x, room.out = &x[0], &out[0]
        with nogil:
            _summed(FLOATS, self.kind, &self.rows, self.share, self.cap, first, last, &room, &total)
            free(room.memory)
        return total

    def gradient_steps(
        self, const double[::1] x, const uint8_t[:, ::1] inside, double per_unit, int64_t most, int64_t[::1] out,
        Py_ssize_t first, Py_ssize_t last,
    ):
        """Add the gradients at ``x`` of some rows to ``out``, each in integer steps between 0 and ``most``.

        For rows of sums with few undecided items all subsets of these are enumerated; for others the mean
        over the sets in ``inside`` (samples x items) is used. The choice depends on the row alone.
        """
        cdef double total = 0.0
        if x.shape[0] != self.n_items or out.shape[0] != self.n_items or inside.shape[1] != self.n_items:
            raise ValueError("x, inside and out have one entry for each item")
        if self.kind >= SQRT and inside.shape[0] < 1:
            raise ValueError("rows of sums need random sets")
        check_people(self, first, last - first)
        cdef Slopes room = _reserve(&self.rows, first, last, SHORT, inside)
        room.x, room.out, room.per_unit, room.most = &x[0], &out[0], per_unit, most
        with nogil:
            _summed(STEPS, self.kind, &self.rows, self.share, self.cap, first, last, &room, &total)
            free(room.memory)

    def add_gradients(
        self, Py_ssize_t first, const uint8_t[::1] within_limit, const double[:, ::1] points,
        const double[::1] shares, double scale, int64_t most, int64_t[:, ::1] totals,
    ):
        """Add to ``totals[k]`` the gradient at ``points[k]`` of each person in the limit, from ``first`` on.

        It is mixed: ``shares[k]`` of it, and the rest of the gradient at the full set (the least gradient).
        Gradients are counted in integer units, ``scale`` to 1 and at most ``most``, rounded down, so that one
        person's part of the sums is exact. Not for rows of sums.
        """
        cdef Py_ssize_t experts = points.shape[0], last = first + within_limit.shape[0], i, k, p, start, length
        cdef bint distorted = False
        cdef double fed
        if points.shape[1] != self.n_items or shares.shape[0] != experts or self.kind >= SQRT:
            raise ValueError("a point for each expert, with one number for each item")
        if totals.shape[0] != experts or totals.shape[1] != self.n_items:
            raise ValueError("totals have a row for each expert")
        check_people(self, first, last - first)
        cdef Slopes room = _reserve(&self.rows, first, last, 0, None)
        cdef double[::1] ones = np.ones(self.n_items)
        cdef double[:, ::1] slopes = np.zeros((2, room.longest + 1))
        for k in range(experts):
            distorted |= shares[k] < 1.0
        with nogil:
            for i in range(first, last):
                if not within_limit[i - first]:
                    continue
                start = self.rows.indptr[i]
                length = self.rows.indptr[i + 1] - start
                if distorted:
                    room.x, room.out = &ones[0], &slopes[1, 0]
                    _row_slopes(KEPT, self.kind, &self.rows, i, 1.0, 0.0, &room, &fed)
                room.out = &slopes[0, 0]
                for k in range(experts):
                    room.x = &points[k, 0]
                    _row_slopes(KEPT, self.kind, &self.rows, i, 1.0, 0.0, &room, &fed)
                    for p in range(length):
                        fed = shares[k] * slopes[0, p] + (1.0 - shares[k]) * slopes[1, p]
                        totals[k, self.rows.indices[start + p]] += whole_units(fed, scale, most)
            free(room.memory)


cdef Slopes _reserve(
    const Matrix *rows, Py_ssize_t first, Py_ssize_t last, int limit, const uint8_t[:, ::1] inside
) except *:
    """Allocate memory for the slopes of one row at a time; the caller frees it."""
    cdef Slopes room
    cdef Py_ssize_t subsets = 1 << limit
    memset(&room, 0, sizeof(Slopes))
    room.longest = longest_row(rows, first, last)
    room.limit = limit
    if inside is not None and inside.shape[0] and inside.shape[1]:
        room.samples, room.inside = inside.shape[0], &inside[0, 0]
    room.memory = <double *>malloc((2 * room.longest + 2 * subsets + room.samples) * sizeof(double))
    if room.memory == NULL:
        raise MemoryError
    room.before = room.memory
    room.missed = room.before + room.longest
    room.sums = room.missed + room.longest
    room.chance = room.sums + subsets
    room.totals = room.chance + subsets
    return room


cdef cloned _summed(
    Use use, int kind, const Matrix *rows, Numbers share, Numbers cap, Py_ssize_t first, Py_ssize_t last,
    Slopes *room, double *total,
) noexcept nogil:
    """The multilinear extension of some rows, and their gradients."""
    if use == STEPS:
        _all_slopes(STEPS, kind, rows, share, cap, first, last, room, total)
    elif kind == COVER or kind == SURVIVE:  # known before the loop: short rows take less time
        _all_slopes(FLOATS, SURVIVE, rows, share, cap, first, last, room, total)
    else:
        _all_slopes(FLOATS, kind, rows, share, cap, first, last, room, total)


cdef inline inlined _all_slopes(
    Use use, int kind, const Matrix *rows, Numbers share, Numbers cap, Py_ssize_t first, Py_ssize_t last,
    Slopes *room, double *total,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double value = 0.0, summed = 0.0
    for i in range(first, last):
        _row_slopes(use, kind, rows, i, at(&share, i), at(&cap, i), room, &value)
        summed += at(&share, i) * value
    total[0] = summed


cdef inline inlined _row_slopes(
    Use use, int kind, const Matrix *rows, Py_ssize_t row, double share, double cap, Slopes *room, double *value
) noexcept nogil:
    """A row's multilinear extension, and its gradient times ``share``."""
    if kind == COVER or kind == SURVIVE:
        _survive(use, rows, row, share, room, value)
    elif kind == BEST:
        _best(use, rows, row, share, room, value)
    elif kind == SQRT:
        _concave(use, SQRT, rows, row, share, cap, room, value)
    elif kind == LOG:
        _concave(use, LOG, rows, row, share, cap, room, value)
    else:
        _concave(use, CAP, rows, row, share, cap, room, value)


cdef inline inlined _put(
    Use use, void *out, int32_t item, Py_ssize_t place, double slope, double per_unit, int64_t most
) noexcept nogil:
    if use == FLOATS:
        (<double *>out)[item] += slope
    elif use == STEPS:
        (<int64_t *>out)[item] += whole_units(slope, per_unit, most)
    else:
        (<double *>out)[place] = slope


cdef inline inlined _survive(
    Use use, const Matrix *rows, Py_ssize_t row, double share, Slopes *room, double *value
) noexcept nogil:
    """1 - prod(1 - x p), and its gradient.

    Products before and after an item instead of one product divided by its factor: exact also where x p = 1.
    """
    cdef Py_ssize_t start = rows.indptr[row], length = rows.indptr[row + 1] - start, t, stride = rows.data.step
    cdef const int32_t *items = rows.indices + start
    cdef const double *weights = rows.data.first + start * stride
    cdef const double *x = room.x
    cdef double *before = room.before
    cdef double *missed = room.missed
    cdef void *out = room.out
    cdef double product = 1.0, after = share, miss, per_unit = room.per_unit
    cdef int64_t most = room.most
    for t in range(length):
        before[t] = product
        miss = 1.0 - x[items[t]] * weights[t * stride]
        missed[t] = miss
        product *= miss
    value[0] = 1.0 - product
    for t in range(length - 1, -1, -1):
        _put(use, out, items[t], t, weights[t * stride] * before[t] * after, per_unit, most)
        after *= missed[t]


cdef inline inlined _best(
    Use use, const Matrix *rows, Py_ssize_t row, double share, Slopes *room, double *value
) noexcept nogil:
    """The expected maximum, and its gradient; the row's items come in order of falling weight.

    An item matters if nothing better was drawn, and then adds its weight minus the expected best of the rest.
    """
    cdef Py_ssize_t start = rows.indptr[row], length = rows.indptr[row + 1] - start, t, stride = rows.data.step
    cdef const int32_t *items = rows.indices + start
    cdef const double *weights = rows.data.first + start * stride
    cdef const double *x = room.x
    cdef double *before = room.before
    cdef void *out = room.out
    cdef double unmet = 1.0, rest = 0.0, weight, chance, per_unit = room.per_unit
    cdef int64_t most = room.most
    for t in range(length):
        before[t] = unmet
        unmet *= 1.0 - x[items[t]]
    for t in range(length - 1, -1, -1):
        weight = weights[t * stride]
        chance = x[items[t]]
        _put(use, out, items[t], t, share * before[t] * (weight - rest), per_unit, most)
        rest = chance * weight + (1.0 - chance) * rest
    value[0] = rest


cdef inline Py_ssize_t _open_sums(
    const Matrix *rows, Py_ssize_t row, Py_ssize_t skip, const double *x, double base, double *sums, double *likely
) noexcept nogil:
    """All sums of ``base`` and undecided items (0 < x < 1, without ``skip``); returns their number.

    ``likely`` receives their probabilities.
    """
    cdef Py_ssize_t p, q, size = 1
    cdef double chance, weight
    sums[0] = base
    likely[0] = 1.0
    for p in range(rows.indptr[row], rows.indptr[row + 1]):
        chance = x[rows.indices[p]]
        weight = at(&rows.data, p)
        if p == skip or chance <= 0.0 or chance >= 1.0:
            continue
        for q in range(size):
            sums[size + q] = sums[q] + weight
            likely[size + q] = likely[q] * chance
            likely[q] *= 1.0 - chance
        size *= 2
    return size


cdef inline inlined _concave(
    Use use, int kind, const Matrix *rows, Py_ssize_t row, double share, double cap, Slopes *room, double *value
) noexcept nogil:
    """The expected concave function of a random sum, and its gradient.

    By all subsets of the undecided items or, if there are too many, by the mean over random sets, without a
    value.
    """
    cdef Py_ssize_t start = rows.indptr[row], stop = rows.indptr[row + 1], p, q, size, undecided = 0
    cdef const double *x = room.x
    cdef double *sums = room.sums
    cdef double *likely = room.chance
    cdef double base = 0.0, slope, weight, own, chance, rest, expected = 0.0
    for p in range(start, stop):
        chance = x[rows.indices[p]]
        if chance >= 1.0:
            base += at(&rows.data, p)
        elif chance > 0.0:
            undecided += 1
    if undecided > room.limit:
        _mean_slopes(use, kind, rows, row, share, cap, room)
        return
    size = _open_sums(rows, row, stop, x, base, sums, likely)
    if use == FLOATS:
        for q in range(size):
            expected += likely[q] * height(kind, sums[q], cap)
        value[0] = expected
    for p in range(start, stop):
        chance = x[rows.indices[p]]
        if chance <= 0.0 or chance >= 1.0:
            weight = at(&rows.data, p)
            own = weight if chance >= 1.0 else 0.0
            slope = 0.0
            for q in range(size):
                rest = sums[q] - own
                slope += likely[q] * gain(kind, rest if rest > 0.0 else 0.0, weight, cap)
            _put(use, room.out, rows.indices[p], p - start, share * slope, room.per_unit, room.most)
    for p in range(start, stop):
        chance = x[rows.indices[p]]
        if chance > 0.0 and chance < 1.0:
            weight = at(&rows.data, p)
            size = _open_sums(rows, row, p, x, base, sums, likely)
            slope = 0.0
            for q in range(size):
                slope += likely[q] * gain(kind, sums[q], weight, cap)
            _put(use, room.out, rows.indices[p], p - start, share * slope, room.per_unit, room.most)


cdef inline inlined _mean_slopes(
    Use use, int kind, const Matrix *rows, Py_ssize_t row, double share, double cap, Slopes *room
) noexcept nogil:
    cdef Py_ssize_t start = rows.indptr[row], stop = rows.indptr[row + 1], p, s, item
    cdef const uint8_t *inside = room.inside
    cdef double *totals = room.totals
    cdef double total, slope, weight, rest
    for s in range(room.samples):
        total = 0.0
        for p in range(start, stop):
            if inside[s * rows.n_columns + rows.indices[p]]:
                total += at(&rows.data, p)
        totals[s] = total
    for p in range(start, stop):
        weight, item = at(&rows.data, p), rows.indices[p]
        slope = 0.0
        for s in range(room.samples):
            rest = totals[s]
            if inside[s * rows.n_columns + item]:
                rest = max(rest - weight, 0.0)
            slope += gain(kind, rest, weight, cap)
        _put(use, room.out, <int32_t>item, p - start, slope * (share / room.samples), room.per_unit, room.most)


def gains_alone(int kind, const double[::1] weights, const double[:] caps, double[::1] out):
    """``out[i]`` = the gain of an item of ``weights[i]`` in a row of sums in which nothing was chosen."""
    cdef Numbers cap = numbers_of(caps, weights.shape[0], "caps")
    cdef Py_ssize_t i
    if not SQRT <= kind <= CAP or out.shape[0] != weights.shape[0]:
        raise ValueError("rows of sums, and one number for each weight")
    for i in range(weights.shape[0]):
        out[i] = gain(kind, 0.0, weights[i], at(&cap, i))
