from libc.stdint cimport int64_t, uint8_t


cdef class Oracle:
    cdef readonly Py_ssize_t n_items
    cdef int64_t[::1] heap, places  # of the items offered by cost
    cdef uint8_t[::1] fits
    cdef void clear(self) noexcept nogil
    cdef bint offer(self, int64_t item, bint take) noexcept nogil
    cdef int finish(self) except -1
    cdef int check_items(self, const int64_t[::1] items) except -1
    cdef int reserve(
        self, const int64_t[::1] items, const double[::1] cost, const int64_t[::1] ends
    ) except -1
    cdef void _hold(
        self, const int64_t[::1] common, const int64_t[::1] kept, Py_ssize_t done, const int64_t[::1] others,
        Py_ssize_t left, Py_ssize_t without,
    ) noexcept nogil
    cdef Py_ssize_t offer_by_cost(
        self, const int64_t[::1] below, const int64_t[::1] items, const double[::1] cost,
        const int64_t[::1] ends, Py_ssize_t tight, Py_ssize_t keep, Py_ssize_t most,
    ) noexcept nogil


cdef class AskedOracle(Oracle):
    cdef readonly object independent
    cdef object taken, error


cdef class MinorOracle(Oracle):
    cdef readonly Oracle whole
    cdef const int64_t[::1] included, free


cdef class GraphicOracle(Oracle):
    cdef readonly Py_ssize_t n_vertices
    cdef const int64_t[:, ::1] edges
    cdef int64_t[::1] parent


cdef class TransversalOracle(Oracle):
    cdef readonly Py_ssize_t n_sets
    cdef const int64_t[::1] starts, sets
    cdef int64_t[::1] holder, seeker, seen, held, stack
    cdef int64_t searches
    cdef int64_t search(self, int64_t item) noexcept nogil
    cdef void augment(self, int64_t target) noexcept nogil


cdef class LinearOracle(Oracle):
    cdef readonly Py_ssize_t rows
    cdef const int64_t[::1] primes
    cdef const int64_t[:, :, ::1] residues
    cdef int64_t[:, :, ::1] basis
    cdef int64_t[:, ::1] pivots
    cdef int64_t[::1] counts, chosen, column
    cdef uint8_t[::1] decides
    cdef int64_t count


cdef inline int64_t root(int64_t *parent, int64_t vertex) noexcept nogil:
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex
