"""Independence in graphic, transversal and linear matroids, and exchanges between two bases.

An oracle has the table of a matroid, checked when it is made, and memory for one growing independent set. It
serves one caller at a time: `fresh` returns another oracle with the same table.

Exchanges (`merge`) are those of swap rounding. They repeat, until two bases are equal: the smallest item that
only the first has trades places with the smallest item of the second that both bases allow, and a random bit
decides whose base changes. What the bases have in common stays in both to the end, so it is contracted.
"""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

cdef extern from *:
    """
    #define CLOSED INT64_MAX
    """
    const int64_t CLOSED  # above the number of any search


cdef int64_t[::1] _empty(Py_ssize_t size):
    return np.empty(size, dtype=np.int64)


cdef void _sink(int64_t *heap, Py_ssize_t size, Py_ssize_t at, const double *cost) noexcept nogil:
    """Restore the heap below ``at``: the smallest (cost, place) is at the top."""
    cdef int64_t moving = heap[at], lower, other
    cdef double weight = cost[moving]
    cdef Py_ssize_t child
    while 2 * at + 1 < size:
        child = 2 * at + 1
        lower = heap[child]
        if child + 1 < size:
            other = heap[child + 1]
            if cost[other] < cost[lower] or (cost[other] == cost[lower] and other < lower):
                child += 1
                lower = other
        if weight < cost[lower] or (weight == cost[lower] and moving < lower):
            break
        heap[at] = lower
        at = child
    heap[at] = moving


cdef class Oracle:
    """An independence oracle: which items can join the independent set taken so far."""

    cdef void clear(self) noexcept nogil:
        """Start with the empty set."""

    cdef bint offer(self, int64_t item, bint take) noexcept nogil:
        """Whether ``item`` can join the set; with ``take`` it does."""
        return False

    def fresh(self):
        """An oracle with the same table and memory of its own."""
        made, table = self.__reduce__()
        return made(*table)

    cdef int finish(self) except -1:
        """Raise any error that occurred since `clear`."""
        return 0

    cdef int check_items(self, const int64_t[::1] items) except -1:
        cdef Py_ssize_t i
        for i in range(items.shape[0]):
            if not 0 <= items[i] < self.n_items:
                raise IndexError(f"item {items[i]} is not one of {self.n_items}")
        return 0

    def fitting(self, const int64_t[::1] items, Py_ssize_t keep):
        """Which items fit when they are offered in turn; those among the first ``keep`` that do are taken."""
        cdef uint8_t[::1] fits = np.empty(items.shape[0], dtype=np.uint8)
        cdef Py_ssize_t i
        self.check_items(items)
        with nogil:
            self.clear()
            for i in range(items.shape[0]):
                fits[i] = self.offer(items[i], i < keep)
        self.finish()
        return np.asarray(fits).view(np.bool_)

    cdef int reserve(
        self, const int64_t[::1] items, const double[::1] cost, const int64_t[::1] ends
    ) except -1:
        """Check the arguments of `offer_by_cost` and allocate memory for it."""
        cdef Py_ssize_t size = items.shape[0], block
        self.check_items(items)
        if cost.shape[0] != size or (ends[ends.shape[0] - 1] if ends.shape[0] else 0) != size:
            raise ValueError("as many costs as items, and the last block ends with the last item")
        for block in range(ends.shape[0]):
            if ends[block] < (ends[block - 1] if block else 0):
                raise ValueError("blocks end one after the other")
        if self.heap is None or self.heap.shape[0] < size:
            self.heap, self.places = _empty(size), _empty(size)
            self.fits = np.empty(size, dtype=np.uint8)
        return 0

    cdef Py_ssize_t offer_by_cost(
        self, const int64_t[::1] below, const int64_t[::1] items, const double[::1] cost,
        const int64_t[::1] ends, Py_ssize_t tight, Py_ssize_t keep, Py_ssize_t most,
    ) noexcept nogil:
        """See `offered`. A heap sorts no more items than are offered."""
        cdef Py_ssize_t count = 0, number = 0, start = 0, size, block, i
        cdef int64_t place
        cdef bint fits
        self.clear()
        for i in range(below.shape[0] - 1, -1, -1):
            self.offer(below[i], keep > 0)
        for block in range(ends.shape[0]):
            size = 0
            for i in range(start, ends[block]):
                if block < tight or cost[i] < 0.0:
                    self.heap[size] = i
                    size += 1
            if not size:
                start = ends[block]
                continue
            for i in range(size // 2 - 1, -1, -1):
                _sink(&self.heap[0], size, i, &cost[0])
            start = ends[block]
            while size and count < most:
                size -= 1
                place = self.heap[0]
                self.heap[0] = self.heap[size]
                _sink(&self.heap[0], size, 0, &cost[0])
                fits = self.offer(items[place], number < keep)
                self.places[number] = place
                self.fits[number] = fits
                if number < keep:
                    count += fits
                number += 1
        return number

    def offered(
        self, const int64_t[::1] items, const double[::1] cost, *, const int64_t[::1] below,
        Py_ssize_t tight, Py_ssize_t keep, Py_ssize_t most,
    ):
        """The greedy algorithm on items sorted by (cost, index): indices in this order, and which items fit.

        An item fits if it keeps the set that was taken so far independent; at the start that is ``below``,
        which is independent. With ``tight=0`` only items of negative cost are offered, with ``tight=1`` all of
        them. Of the first ``keep`` items offered those that fit are taken, until ``most`` were; the others are
        tried and not taken.
        """
        cdef const int64_t[::1] ends = np.array([items.shape[0]])
        cdef Py_ssize_t number
        self.reserve(items, cost, ends)
        self.check_items(below)
        with nogil:
            number = self.offer_by_cost(below, items, cost, ends, tight, keep, most)
        self.finish()
        fits = np.array(self.fits[:number]).view(np.bool_)
        return np.array(self.places[:number]), fits

    def merge(self, common, one, two, adopts):
        """Merge two bases: ``common`` is in both, ``one`` in the first only, ``two`` in the second only.

        ``adopts`` has a bit for each item of ``one``: if it is true, the second base takes over the item.
        """
        cdef int64_t[::1] shared = np.array(common, dtype=np.int64)
        cdef const uint8_t[::1] bits = np.asarray(adopts, dtype=np.bool_).view(np.uint8)
        # Consumed by the exchanges.
        cdef int64_t[::1] first = np.array(one, dtype=np.int64), second = np.array(two, dtype=np.int64)
        cdef Py_ssize_t total = first.shape[0], done, left, partner, i
        cdef int64_t[::1] kept = _empty(total)
        cdef uint8_t[::1] fits = np.empty(total, dtype=np.uint8)
        if not total == second.shape[0] == bits.shape[0]:
            raise ValueError("two bases differ by as many items each, and there is a bit for every exchange")
        self.check_items(shared)
        self.check_items(first)
        self.check_items(second)
        with nogil:
            for done in range(total):
                left = total - done
                # Items of the second base that fit the first base without its smallest item.
                self._hold(shared, kept, done, first, left, 0)
                for i in range(left):
                    fits[i] = self.offer(second[i], False)
                partner = 0
                while partner < left:
                    if fits[partner]:
                        self._hold(shared, kept, done, second, left, partner)
                        if self.offer(first[0], False):
                            break
                    partner += 1
                if partner == left:
                    with gil:
                        raise ValueError("exchanges are between two bases of the matroid")
                # Exchange the first item and its partner: both bases now have the same one of them.
                kept[done] = first[0] if bits[done] else second[partner]
                for i in range(left - 1):
                    first[i] = first[i + 1]
                    if i >= partner:
                        second[i] = second[i + 1]
        return np.asarray(kept)

    cdef void _hold(
        self, const int64_t[::1] common, const int64_t[::1] kept, Py_ssize_t done, const int64_t[::1] others,
        Py_ssize_t left, Py_ssize_t without,
    ) noexcept nogil:
        """Take a base, but for one of its items."""
        cdef Py_ssize_t i
        self.clear()
        for i in range(common.shape[0]):
            self.offer(common[i], True)
        for i in range(done):
            self.offer(kept[i], True)
        for i in range(left):
            if i != without:
                self.offer(others[i], True)


cdef class AskedOracle(Oracle):
    """Independence by a Python function of a frozenset."""

    def __init__(self, independent, Py_ssize_t n_items):
        self.independent, self.n_items, self.taken = independent, n_items, frozenset()

    def __reduce__(self):
        return type(self), (self.independent, self.n_items)

    cdef void clear(self) noexcept nogil:
        with gil:
            self.taken, self.error = frozenset(), None

    cdef bint offer(self, int64_t item, bint take) noexcept nogil:
        with gil:
            if self.error is not None or item in self.taken:
                return False
            larger = self.taken | {item}
            try:
                if not self.independent(larger):
                    return False
            except BaseException as error:  # raised by `finish`, after the loop
                self.error = error
                return False
            if take:
                self.taken = larger
            return True

    cdef int finish(self) except -1:
        if self.error is not None:
            raise self.error
        return 0


cdef class MinorOracle(Oracle):
    """The items ``free`` of another matroid, renumbered from 0, on top of its independent set ``included``."""

    def __init__(self, Oracle whole not None, const int64_t[::1] included, const int64_t[::1] free):
        whole.check_items(included)
        whole.check_items(free)
        self.whole, self.included, self.free, self.n_items = whole, included, free, free.shape[0]

    def __reduce__(self):
        return type(self), (self.whole, np.asarray(self.included), np.asarray(self.free))

    def fresh(self):
        return MinorOracle(self.whole.fresh(), self.included, self.free)

    cdef void clear(self) noexcept nogil:
        cdef Py_ssize_t i
        self.whole.clear()
        for i in range(self.included.shape[0]):
            self.whole.offer(self.included[i], True)

    cdef bint offer(self, int64_t item, bint take) noexcept nogil:
        return self.whole.offer(self.free[item], take)

    cdef int finish(self) except -1:
        return self.whole.finish()


# --- graphic -----------------------------------------------------------------------------------------------


cdef class GraphicOracle(Oracle):
    """Forests: row i of ``edges`` has the numbers of the two vertices that item i joins."""

    def __init__(self, const int64_t[:, ::1] edges, Py_ssize_t n_vertices):
        cdef Py_ssize_t i
        if edges.shape[1] != 2:
            raise ValueError("an edge joins two vertices")
        for i in range(edges.shape[0]):
            if not (0 <= edges[i, 0] < n_vertices and 0 <= edges[i, 1] < n_vertices):
                raise IndexError(f"edge {i} joins vertices that are not among {n_vertices}")
        self.n_items, self.n_vertices, self.edges = edges.shape[0], n_vertices, edges
        self.parent = _empty(n_vertices)

    def __reduce__(self):
        return type(self), (np.asarray(self.edges), self.n_vertices)

    cdef void clear(self) noexcept nogil:
        cdef Py_ssize_t vertex
        for vertex in range(self.n_vertices):
            self.parent[vertex] = vertex

    cdef bint offer(self, int64_t item, bint take) noexcept nogil:
        cdef int64_t one = root(&self.parent[0], self.edges[item, 0])
        cdef int64_t other = root(&self.parent[0], self.edges[item, 1])
        if take and one != other:
            self.parent[one] = other
        return one != other


# --- transversal -------------------------------------------------------------------------------------------


cdef class TransversalOracle(Oracle):
    """Partial transversals: item i is in the sets ``sets[starts[i]:starts[i + 1]]``.

    Memory: for each set the item that holds it (-1: none), the item that sought it last and the number of the
    search that saw it; for each item the set it holds (-1: none); a stack.
    """

    def __init__(self, const int64_t[::1] starts, const int64_t[::1] sets, Py_ssize_t n_sets):
        cdef Py_ssize_t i
        if not starts.shape[0] or starts[0] != 0 or starts[starts.shape[0] - 1] != sets.shape[0]:
            raise ValueError("the sets of the first item come first, and the last item has the last ones")
        for i in range(starts.shape[0] - 1):
            if starts[i + 1] < starts[i]:
                raise ValueError(f"item {i} ends before it starts")
        for i in range(sets.shape[0]):
            if not 0 <= sets[i] < n_sets:
                raise IndexError(f"set {sets[i]} is not one of {n_sets}")
        self.starts, self.sets, self.n_sets, self.n_items = starts, sets, n_sets, starts.shape[0] - 1
        cdef int64_t[:, ::1] of_sets = np.empty((4, n_sets + 1), dtype=np.int64)
        self.holder, self.seeker, self.seen, self.stack = of_sets[0], of_sets[1], of_sets[2], of_sets[3]
        self.held = _empty(self.n_items)

    def __reduce__(self):
        return type(self), (np.asarray(self.starts), np.asarray(self.sets), self.n_sets)

    cdef void clear(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.n_sets):
            self.holder[i] = self.seeker[i] = -1
            self.seen[i] = 0
        for i in range(self.n_items):
            self.held[i] = -1
        self.searches = 0

    cdef int64_t search(self, int64_t item) noexcept nogil:
        """A set that is free after a chain of moves starting with ``item``, or -1; records the chain."""
        cdef Py_ssize_t height = 1, edge
        cdef int64_t mover, target
        self.searches += 1
        self.stack[0] = item
        while height:
            height -= 1
            mover = self.stack[height]
            for edge in range(self.starts[mover], self.starts[mover + 1]):
                target = self.sets[edge]
                if self.seen[target] < self.searches:
                    self.seen[target] = self.searches
                    self.seeker[target] = mover
                    if self.holder[target] < 0:
                        return target
                    self.stack[height] = self.holder[target]
                    height += 1
        return -1

    cdef void augment(self, int64_t target) noexcept nogil:
        """Walk back along the chain that `search` found, handing each set to the item that sought it."""
        cdef int64_t mover, left
        while target >= 0:
            mover = self.seeker[target]
            left = self.held[mover]
            self.holder[target] = mover
            self.held[mover] = target
            target = left

    cdef bint offer(self, int64_t item, bint take) noexcept nogil:
        cdef Py_ssize_t i
        cdef int64_t target
        if self.held[item] >= 0:
            return False
        target = self.search(item)
        if target < 0:
            # Nothing leads out of the sets just seen for any later item: no search enters them again.
            for i in range(self.n_sets):
                if self.seen[i] == self.searches:
                    self.seen[i] = CLOSED
        elif take:
            self.augment(target)
        return target >= 0


# --- linear ------------------------------------------------------------------------------------------------


cdef inline int64_t _remainder(int64_t value, int64_t prime, double inverse) noexcept nogil:
    """``value`` modulo ``prime``, for values from 0 to prime**2 + prime; faster than an integer division."""
    cdef int64_t left = value - <int64_t>(<double>value * inverse) * prime
    if left < 0:
        return left + prime
    return left - prime if left >= prime else left


cdef int64_t _reciprocal(int64_t value, int64_t prime) noexcept nogil:
    """The number whose product with ``value`` is 1 modulo ``prime`` (Euclid)."""
    cdef int64_t a = value, b = prime, u = 1, v = 0, quotient
    while a > 1:
        quotient = b // a
        a, b, u, v = b - quotient * a, a, v - quotient * u, u
    u %= prime
    return u + prime if u < 0 else u


cdef void _add_multiple(
    int64_t *row, const int64_t *other, int64_t factor, Py_ssize_t size, int64_t prime
) noexcept nogil:
    """Add ``factor`` times another row modulo ``prime``."""
    cdef double inverse = 1.0 / <double>prime
    cdef Py_ssize_t i
    for i in range(size):
        row[i] = _remainder(row[i] + factor * other[i], prime, inverse)


cdef void _multiply(int64_t *row, int64_t factor, Py_ssize_t size, int64_t prime) noexcept nogil:
    cdef double inverse = 1.0 / <double>prime
    cdef Py_ssize_t i
    for i in range(size):
        row[i] = _remainder(row[i] * factor, prime, inverse)


cdef class LinearOracle(Oracle):
    """Columns: ``residues[q, i]`` is that of item i modulo ``primes[q]``, all below 2**31.

    A set is independent if it is so modulo one of the primes.

    Memory: for each prime the number of columns taken, whether they are independent, and each of them,
    reduced, with the index of its leading 1; the items taken; the current column.
    """

    def __init__(self, const int64_t[::1] primes, const int64_t[:, :, ::1] residues):
        cdef Py_ssize_t q
        if not primes.shape[0] or residues.shape[0] != primes.shape[0]:
            raise ValueError("there is a prime, and there are residues for every one")
        for q in range(primes.shape[0]):
            if not 2 <= primes[q] < 1 << 31:
                raise ValueError(f"primes[{q}]={primes[q]} is not between 2 and 2**31")
            found = np.asarray(residues[q])
            if found.size and not 0 <= found.min() <= found.max() < primes[q]:
                raise ValueError(f"residues[{q}] are not residues modulo {primes[q]}")
        self.primes, self.residues = primes, residues
        self.n_items, self.rows = residues.shape[1], residues.shape[2]
        self.basis = np.empty((primes.shape[0], self.rows, self.rows), dtype=np.int64)
        self.pivots = np.empty((primes.shape[0], self.rows), dtype=np.int64)
        self.counts, self.chosen, self.column = _empty(primes.shape[0]), _empty(self.rows), _empty(self.rows)
        self.decides = np.empty(primes.shape[0], dtype=np.uint8)

    def __reduce__(self):
        return type(self), (np.asarray(self.primes), np.asarray(self.residues))

    cdef void clear(self) noexcept nogil:
        cdef Py_ssize_t q
        for q in range(self.primes.shape[0]):
            self.counts[q] = 0
            self.decides[q] = True
        self.count = 0

    cdef bint offer(self, int64_t item, bint take) noexcept nogil:
        """Primes are tried in turn, the next one only if no earlier one shows independence.

        Each first adds the items taken since its last use, and is ignored if these are dependent modulo it.
        """
        cdef Py_ssize_t size = self.rows, q, i, place
        cdef int64_t prime, chosen, factor, at
        cdef int64_t *column = &self.column[0]
        cdef bint free = False
        for q in range(self.primes.shape[0]):
            prime = self.primes[q]
            while self.decides[q] and not free:
                at = self.counts[q]
                chosen = self.chosen[at] if at < self.count else item
                for i in range(size):
                    column[i] = self.residues[q, chosen, i]
                for i in range(at):
                    factor = column[self.pivots[q, i]]
                    if factor:
                        _add_multiple(column, &self.basis[q, i, 0], prime - factor, size, prime)
                place = 0
                while place < size and column[place] == 0:
                    place += 1
                if place == size:
                    self.decides[q] = at == self.count
                    break
                free = at == self.count
                if take or not free:
                    _multiply(column, _reciprocal(column[place], prime), size, prime)
                    for i in range(size):
                        self.basis[q, at, i] = column[i]
                    self.pivots[q, at] = place
                    self.counts[q] = at + 1
            if free:
                break
        if free and take:
            self.chosen[self.count] = item
            self.count += 1
        return free
