"""Flows of graphic and transversal matroids: sets that exceed their rank, and rounding.

Both kinds of independence are questions of capacity. An item's share of a base takes up capacity at the ends
of an edge, or in the sets that hold it, and every vertex or set has capacity 1. Flows move shares from one
place to another. They are counted in integer units, so that sums are exact and fullness is unambiguous.

`exceeding` finds the set of items whose sum of x exceeds its rank the most: by how much it does, and a mask
of ``items``, with the independent set ``below`` contracted. `round` draws a random independent set that holds
``items[i]`` with probability ``x[i]``, as a mask. Before the mask it returns the sum that was cut off, which
is more than rounding if x lies outside the polytope, and how many items contribute to that.
"""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

from .matroids cimport GraphicOracle, Oracle, TransversalOracle, root

cdef extern from *:
    """
    /* Units to 1: sums of a few entries stay far from the end of 64 bits, a unit far below a tolerance. */
    #define UNIT (INT64_C(1) << 45)
    /* Few enough units to come from rounding: sums that are so near to each other are taken for equal. */
    #define NEAR 8
    #define CLOSED INT64_MAX
    """
    const int64_t UNIT, NEAR, CLOSED


cdef inline int64_t _in_units(double value) noexcept nogil:
    return <int64_t>(min(max(0.0, value), 1.0) * UNIT + 0.5)


cdef int _check(
    Oracle oracle, const int64_t[::1] items, const double[::1] x, const int64_t[::1] below
) except -1:
    oracle.check_items(items)
    oracle.check_items(below)
    if items.shape[0] != x.shape[0] or items.shape[0] + below.shape[0] > oracle.n_items:
        raise ValueError("items are distinct, and each has a share")
    return 0


# --- graphic -----------------------------------------------------------------------------------------------


cdef class ForestFlow:
    """Every edge divides its share of a forest among its two ends.

    A point x lies in the polytope of forests if, for every choice of a vertex that takes nothing, the shares
    can be divided so that every other vertex takes at most 1: then x(E[S]) <= |S| - 1 for every set S of
    vertices. Vertices are added in turn; a new one takes nothing at first, and the shares of its edges are
    passed on among earlier vertices (Cunningham 1985; Barahona 1992). Arc 2e is edge e at its first end and
    2e + 1 at its second; ``share[0, arc]`` is what the edge takes there (other rows are trial copies), and
    the arcs at each vertex are a list.
    """

    cdef GraphicOracle oracle
    cdef int64_t[::1] ends, after, before, head, load, seen, came, tied, inside, tops
    cdef int64_t[:, ::1] share, queue
    cdef int64_t searches
    cdef Py_ssize_t count
    cdef double excess

    def __init__(self, GraphicOracle oracle not None):
        # Rounding adds the top vertex with an edge to each vertex, and a vertex for each full set found.
        cdef Py_ssize_t most = oracle.n_vertices + 1, arcs = 2 * (oracle.n_items + most)
        cdef int64_t[:, ::1] of_vertices = np.empty((10, 2 * most), dtype=np.int64)
        cdef int64_t[:, ::1] of_arcs = np.empty((6, arcs), dtype=np.int64)
        self.oracle = oracle
        self.ends, self.after, self.before, self.share = of_arcs[0], of_arcs[1], of_arcs[2], of_arcs[3:]
        self.head, self.load, self.tied = of_vertices[0], of_vertices[1], of_vertices[2]
        self.seen, self.came, self.queue = of_vertices[3], of_vertices[4], of_vertices[7:]
        self.inside, self.tops = of_vertices[5], of_vertices[6]

    cdef void link(self, int64_t arc, int64_t vertex) noexcept nogil:
        self.ends[arc] = vertex
        self.after[arc] = self.head[vertex]
        self.before[arc] = -1
        if self.head[vertex] >= 0:
            self.before[self.head[vertex]] = arc
        self.head[vertex] = arc

    cdef void unlink(self, int64_t arc) noexcept nogil:
        if self.before[arc] >= 0:
            self.after[self.before[arc]] = self.after[arc]
        else:
            self.head[self.ends[arc]] = self.after[arc]
        if self.after[arc] >= 0:
            self.before[self.after[arc]] = self.before[arc]

    cdef int64_t search(
        self, int which, int64_t origin, int64_t goal, int64_t closed, int64_t near, Py_ssize_t *reached
    ) noexcept nogil:
        """Find who can take over a share of ``origin``: ``goal``, or the nearest with capacity if that is -1.

        Paths avoid ``closed``; ``near`` units count as none. Returns it or -1, and how many the queue holds.
        """
        cdef Py_ssize_t first = 0, last = 1
        cdef int64_t arc, other
        self.searches += 1
        self.seen[origin] = self.seen[closed] = self.searches
        self.queue[which, 0] = origin
        while first < last:
            arc = self.head[self.queue[which, first]]
            first += 1
            while arc >= 0:
                other = self.ends[arc ^ 1]
                if self.share[which, arc] > near and self.seen[other] < self.searches:
                    self.seen[other] = self.searches
                    self.came[other] = arc
                    self.queue[which, last] = other
                    last += 1
                    if other == goal or (goal < 0 and self.load[other] < UNIT - near):
                        reached[0] = last
                        return other
                arc = self.after[arc]
        reached[0] = last
        return -1

    cdef int64_t push(
        self, int which, int64_t origin, int64_t goal, int64_t closed, int64_t amount, Py_ssize_t *reached
    ) noexcept nogil:
        """Pass units on from ``origin``; returns those left, and how many the last, failed search reached."""
        cdef int64_t found, least, vertex
        while amount:
            found = self.search(which, origin, goal, closed, 0, reached)
            if found < 0:
                return amount
            least = amount if goal >= 0 else min(amount, UNIT - self.load[found])
            vertex = found
            while vertex != origin:
                least = min(least, self.share[which, self.came[vertex]])
                vertex = self.ends[self.came[vertex]]
            vertex = found
            while vertex != origin:
                self.share[which, self.came[vertex]] -= least
                self.share[which, self.came[vertex] ^ 1] += least
                vertex = self.ends[self.came[vertex]]
            if goal < 0:
                self.load[found] += least
                self.load[origin] -= least
            amount -= least
        reached[0] = 0
        return 0

    cdef void divide(
        self, const int64_t[::1] items, const double[::1] x, const int64_t[::1] below
    ) noexcept nogil:
        """Divide the shares of ``items`` as far as capacity allows; the rest is cut off.

        Vertices joined by ``below`` count as one. Sets ``count``, the number of vertices, from 0 on, and
        ``excess``, the total cut off; ``tied`` then merges the vertices of every full set.
        """
        cdef Py_ssize_t count = 0, i, end, reached
        cdef int64_t vertex, arc, other, units, over, left
        cdef int64_t *label = &self.seen[0]  # before the first search
        cdef int64_t *tied = &self.tied[0]
        cdef double excess = 0.0
        self.oracle.clear()
        for i in range(below.shape[0]):
            self.oracle.offer(below[i], True)
        for vertex in range(self.head.shape[0]):
            label[vertex] = self.head[vertex] = -1
            self.load[vertex] = 0
        for arc in range(2 * items.shape[0]):
            self.share[0, arc] = 0
        for i in range(items.shape[0]):
            for end in range(2):
                vertex = root(&self.oracle.parent[0], self.oracle.edges[items[i], end])
                if label[vertex] < 0:
                    label[vertex] = tied[count] = count
                    count += 1
                self.link(2 * i + end, label[vertex])
        for vertex in range(self.seen.shape[0]):
            self.seen[vertex] = 0
        self.searches = 0
        for vertex in range(count):
            arc = self.head[vertex]
            while arc >= 0:
                other = self.ends[arc ^ 1]
                if other <= vertex:
                    units = _in_units(x[arc >> 1])
                    if other == vertex:
                        # A loop, which is met twice.
                        excess += 0.5 * units
                    else:
                        self.share[0, arc ^ 1] = units
                        self.load[other] += units
                        over = self.load[other] - UNIT
                        if over > 0:
                            left = self.push(0, other, -1, vertex, over, &reached)
                            self.share[0, arc ^ 1] -= left
                            self.load[other] -= left
                            excess += left
                arc = self.after[arc]
            # Neighbours that cannot pass anything on form a full set with this vertex and all that they
            # reach.
            arc = self.head[vertex]
            while arc >= 0:
                other = self.ends[arc ^ 1]
                if other < vertex and self.load[other] >= UNIT - NEAR:
                    if root(tied, other) != root(tied, vertex):
                        if self.search(0, other, -1, vertex, NEAR, &reached) < 0:
                            for i in range(reached):
                                tied[root(tied, self.queue[0, i])] = root(tied, vertex)
                arc = self.after[arc]
        self.count = count
        self.excess = excess / UNIT

    cdef bint crowded(self, Py_ssize_t edge) noexcept nogil:
        """Whether an edge lies in a full set."""
        cdef int64_t *tied = &self.tied[0]
        return root(tied, self.ends[2 * edge]) == root(tied, self.ends[2 * edge + 1])

    cdef void split(self, int which, Py_ssize_t reached, int64_t top, int64_t fresh) noexcept nogil:
        """Contract the first ``reached`` vertices of queue ``which`` and ``top``, a full set, to the vertex
        ``fresh`` for the others: arcs that leave the set start there from now on.
        """
        cdef Py_ssize_t i
        cdef int64_t vertex, arc, following
        for i in range(reached):
            self.inside[self.queue[which, i]] = fresh
        self.inside[top] = fresh
        for i in range(-1, reached):
            vertex = top if i < 0 else self.queue[which, i]
            arc = self.head[vertex]
            while arc >= 0:
                following = self.after[arc]
                if self.inside[self.ends[arc ^ 1]] != fresh:
                    self.unlink(arc)
                    self.link(arc, fresh)
                arc = following

    def exceeding(self, const int64_t[::1] items, const double[::1] x, const int64_t[::1] below):
        """All excess lies in full sets; the sum over their union exceeds its rank by all that was cut off,
        and no set can exceed its rank by more. Of several such sets this is the largest: items whose x is
        nearly 0 belong to it if it leaves them no capacity.
        """
        cdef uint8_t[::1] inside = np.empty(x.shape[0], dtype=np.uint8)
        cdef Py_ssize_t i
        _check(self.oracle, items, x, below)
        with nogil:
            self.divide(items, x, below)
            for i in range(x.shape[0]):
                inside[i] = self.crowded(i)
        return self.excess, np.asarray(inside).view(np.bool_)

    def round(self, const int64_t[::1] items, const double[::1] x, const double[::1] uniforms):
        """Moves are along the difference of two entries, with the probabilities that keep both expectations,
        until an entry is 0 or another set of vertices is full.

        A further vertex, the top, is joined to every vertex with capacity left, so that all others are full.
        Of two edges from the top, to vertices a and b, the first gains what a can pass on to b. If that is
        less than the second has, the vertices that a reaches form a full set with the top and are separated
        from the rest: among them the top stays, and for the rest the set is contracted to the top.

        Each move takes a uniform number: one for each settled edge, each settled vertex with capacity, and
        each full set found.
        """
        cdef uint8_t[::1] chosen = np.zeros(x.shape[0], dtype=np.uint8)
        cdef Py_ssize_t crowded = 0, i
        _check(self.oracle, items, x, items[:0])
        if uniforms.shape[0] < x.shape[0] + self.head.shape[0]:
            raise ValueError("rounding takes a number for each edge, two for each vertex and two more")
        with nogil:
            self.divide(items, x, items[:0])
            for i in range(x.shape[0]):
                crowded += self.crowded(i)
            self.settle(x.shape[0], uniforms, chosen)
        return self.excess, crowded, np.asarray(chosen).view(np.bool_)

    cdef void settle(self, Py_ssize_t n, const double[::1] uniforms, uint8_t[::1] chosen) noexcept nogil:
        cdef int64_t top, a, b, gain, loss, moved, vertex, gone, i, j, arc, following, fresh = self.count + 1
        cdef Py_ssize_t reached = 0, others = 0, drawn = 0, height = 1, edge = n, size
        cdef bint forward
        cdef int which
        for vertex in range(self.inside.shape[0]):
            self.inside[vertex] = 0
        for edge in range(n):
            if self.share[0, 2 * edge] + self.share[0, 2 * edge + 1] == 0:
                self.unlink(2 * edge)
                self.unlink(2 * edge + 1)
        edge = n
        for vertex in range(self.count):
            if self.load[vertex] < UNIT:
                self.share[0, 2 * edge + 1] = UNIT - self.load[vertex]
                self.link(2 * edge, self.count)
                self.link(2 * edge + 1, vertex)
                edge += 1
        size = 2 * edge
        self.tops[0] = self.count
        while height:
            top = self.tops[height - 1]
            i = self.head[top]
            if i < 0:
                height -= 1
                continue
            a = self.ends[i ^ 1]
            if self.share[0, i ^ 1] == UNIT:
                # It is chosen, and its ends are contracted.
                if i >> 1 < n:
                    chosen[i >> 1] = True
                self.unlink(i)
                self.unlink(i ^ 1)
                arc = self.head[a]
                while arc >= 0:
                    following = self.after[arc]
                    self.link(arc, top)
                    arc = following
                continue
            j = self.after[i]
            b = self.ends[j ^ 1]
            gain = self.share[0, j ^ 1]
            loss = self.share[0, i ^ 1]
            reached = others = 0
            if a != b:
                for arc in range(size):
                    self.share[1, arc] = self.share[2, arc] = self.share[0, arc]
                gain -= self.push(1, a, b, top, gain, &reached)
                loss -= self.push(2, b, a, top, loss, &others)
            forward = uniforms[drawn] * (gain + loss) < loss
            drawn += 1
            which = 1 if forward else 2
            moved = gain if forward else -loss
            if not forward:
                reached = others
            if a != b:
                for arc in range(size):
                    self.share[0, arc] = self.share[which, arc]
            self.share[0, i ^ 1] += moved
            self.share[0, j ^ 1] -= moved
            if reached:
                self.split(which, reached, top, fresh)
                self.tops[height] = fresh
                height += 1
                fresh += 1
            else:
                gone = j if moved > 0 else i
                self.unlink(gone)
                self.unlink(gone ^ 1)


# --- transversal -------------------------------------------------------------------------------------------


cdef inline Py_ssize_t _spot(int64_t node, Py_ssize_t n) noexcept nogil:
    """The index of an item or a set in a list of both; sets come after the items."""
    return node if node >= 0 else n - 1 - node


cdef class MatchingFlow:
    """Every item divides its share of a base among the sets that hold it.

    A point lies in the polytope if the shares can be divided so that no set takes more than 1. Items are
    added in turn; if there is no capacity for one, earlier items move to other sets. ``share[arc]`` is what
    an item takes in a set: item i has the arcs ``starts[i]`` to ``starts[i + 1]``, a set has a list of arcs.
    """

    cdef TransversalOracle oracle
    cdef int64_t[::1] starts, by, asked, owner, sets, share, after, head, load, seen, came, queue
    cdef int64_t[::1] place, nodes, path
    cdef uint8_t[::1] open
    cdef int64_t searches
    cdef Py_ssize_t n_below, n, last
    cdef double excess

    def __init__(self, TransversalOracle oracle not None):
        cdef Py_ssize_t n = oracle.n_items + 1
        cdef int64_t[:, ::1] of_items = np.empty((3, n), dtype=np.int64)
        cdef int64_t[:, ::1] of_arcs = np.empty((4, oracle.sets.shape[0]), dtype=np.int64)
        cdef int64_t[:, ::1] of_sets = np.empty((5, oracle.n_sets), dtype=np.int64)
        cdef int64_t[:, ::1] of_both = np.empty((3, n + oracle.n_sets), dtype=np.int64)
        self.oracle = oracle
        # The arc by which a search came to an item, and the search.
        self.starts, self.by, self.asked = of_items[0], of_items[1], of_items[2]
        self.owner, self.sets, self.share, self.after = of_arcs[0], of_arcs[1], of_arcs[2], of_arcs[3]
        self.head, self.load, self.seen, self.came = of_sets[0], of_sets[1], of_sets[2], of_sets[3]
        self.queue = of_sets[4]
        self.place, self.nodes, self.path = of_both[0], of_both[1], of_both[2]
        self.open = np.empty(oracle.n_sets, dtype=np.uint8)

    cdef int check(self, const int64_t[::1] items, const double[::1] x, const int64_t[::1] below) except -1:
        cdef Py_ssize_t arcs = 0, i
        _check(self.oracle, items, x, below)
        for i in range(items.shape[0]):
            arcs += self.oracle.starts[items[i] + 1] - self.oracle.starts[items[i]]
        for i in range(below.shape[0]):
            arcs += self.oracle.starts[below[i] + 1] - self.oracle.starts[below[i]]
        if arcs > self.sets.shape[0]:
            raise ValueError("items are distinct")
        return 0

    cdef void link(self, const int64_t[::1] items, const int64_t[::1] below) noexcept nogil:
        """The arcs of ``below`` and then of ``items``, with nothing in them."""
        cdef Py_ssize_t i, target
        cdef int64_t arc = 0, item, edge
        self.n_below, self.n = below.shape[0], below.shape[0] + items.shape[0]
        self.starts[0] = self.searches = 0
        for target in range(self.head.shape[0]):
            self.head[target] = -1
            self.load[target] = self.seen[target] = 0
        for i in range(self.n):
            item = below[i] if i < self.n_below else items[i - self.n_below]
            for edge in range(self.oracle.starts[item], self.oracle.starts[item + 1]):
                self.owner[arc] = i
                self.sets[arc] = self.oracle.sets[edge]
                self.share[arc] = 0
                arc += 1
            self.starts[i + 1] = arc
            self.asked[i] = 0
        for arc in range(self.starts[self.n] - 1, -1, -1):
            self.after[arc] = self.head[self.sets[arc]]
            self.head[self.sets[arc]] = arc

    cdef int64_t reach(self, int64_t item) noexcept nogil:
        """Add an item's sets to those that a search has reached; returns the first with capacity, or -1."""
        cdef int64_t arc, target
        for arc in range(self.starts[item], self.starts[item + 1]):
            target = self.sets[arc]
            if self.seen[target] < self.searches:
                self.seen[target] = self.searches
                self.came[target] = arc
                self.queue[self.last] = target
                self.last += 1
                if self.load[target] < UNIT:
                    return target
        return -1

    cdef int64_t search(self, int64_t item) noexcept nogil:
        """A set with capacity that a share of the item can get to if earlier items move; or -1."""
        cdef Py_ssize_t first = 0
        cdef int64_t found, arc, mover
        self.searches += 1
        self.asked[item] = self.searches
        self.last = 0
        found = self.reach(item)
        while first < self.last and found < 0:
            arc = self.head[self.queue[first]]
            first += 1
            while arc >= 0 and found < 0:
                mover = self.owner[arc]
                if self.share[arc] and self.asked[mover] < self.searches:
                    self.asked[mover] = self.searches
                    self.by[mover] = arc
                    found = self.reach(mover)
                arc = self.after[arc]
        return found

    cdef void divide(
        self, const int64_t[::1] items, const double[::1] x, const int64_t[::1] below
    ) noexcept nogil:
        """Divide 1 for each item of ``below`` and ``x`` for ``items``, as far as capacity allows.

        Sets ``open``, a mask of sets, and ``excess``, the total cut off. The other sets are full of items
        that are in no open set, so no moves free capacity in them.
        """
        cdef Py_ssize_t i, first
        cdef int64_t item, left, found, least, mover, target, arc, other
        cdef double excess = 0.0
        self.link(items, below)
        for item in range(self.n):
            left = UNIT if item < self.n_below else _in_units(x[item - self.n_below])
            while left:
                found = self.search(item)
                if found < 0:
                    # Nothing leads out of these sets for any later item: no search enters them again.
                    for i in range(self.last):
                        self.seen[self.queue[i]] = CLOSED
                    excess += left
                    break
                least = min(left, UNIT - self.load[found])
                mover = self.owner[self.came[found]]
                while mover != item:
                    least = min(least, self.share[self.by[mover]])
                    mover = self.owner[self.came[self.sets[self.by[mover]]]]
                target = found
                mover = self.owner[self.came[found]]
                self.load[found] += least
                while mover != item:
                    self.share[self.came[target]] += least
                    self.share[self.by[mover]] -= least
                    target = self.sets[self.by[mover]]
                    mover = self.owner[self.came[target]]
                self.share[self.came[target]] += least
                left -= least
        # Sets with capacity, and sets with a share that can move to one of those.
        self.last = first = 0
        for target in range(self.load.shape[0]):
            self.open[target] = self.load[target] < UNIT - NEAR
            if self.open[target]:
                self.queue[self.last] = target
                self.last += 1
        while first < self.last:
            arc = self.head[self.queue[first]]
            first += 1
            while arc >= 0:
                for other in range(self.starts[self.owner[arc]], self.starts[self.owner[arc] + 1]):
                    if self.share[other] > NEAR and not self.open[self.sets[other]]:
                        self.open[self.sets[other]] = True
                        self.queue[self.last] = self.sets[other]
                        self.last += 1
                arc = self.after[arc]
        self.excess = excess / UNIT

    cdef bint crowded(self, int64_t item) noexcept nogil:
        """Whether an item is in no open set."""
        cdef int64_t arc
        for arc in range(self.starts[item], self.starts[item + 1]):
            if self.open[self.sets[arc]]:
                return False
        return True

    cdef bint settled(self, int64_t arc) noexcept nogil:
        """Whether an arc has all or nothing in it."""
        return not 0 < self.share[arc] < UNIT

    cdef int64_t other(self, int64_t node, int64_t came) noexcept nogil:
        """An arc of an item, or of a set (-1 - node), that is not settled, other than ``came``; or -1."""
        cdef int64_t arc, target = -1 - node
        if node >= 0:
            for arc in range(self.starts[node], self.starts[node + 1]):
                if arc != came and not self.settled(arc):
                    return arc
            return -1
        # Arcs that are settled at the front of a list stay so.
        while self.head[target] >= 0 and self.settled(self.head[target]):
            self.head[target] = self.after[self.head[target]]
        arc = self.head[target]
        while arc >= 0 and (arc == came or self.settled(arc)):
            arc = self.after[arc]
        return arc

    def exceeding(self, const int64_t[::1] items, const double[::1] x, const int64_t[::1] below):
        """Items in no open set are divided among as many sets as their rank; all excess is theirs, and no set
        can exceed its rank by more.
        """
        cdef uint8_t[::1] inside = np.empty(x.shape[0], dtype=np.uint8)
        cdef Py_ssize_t i
        self.check(items, x, below)
        with nogil:
            self.divide(items, x, below)
            for i in range(x.shape[0]):
                inside[i] = self.crowded(self.n_below + i)
        return self.excess, np.asarray(inside).view(np.bool_)

    def round(self, const int64_t[::1] items, const double[::1] x, const double[::1] uniforms):
        """Shares move along cycles of items and sets, which change no item's sum, and along maximal paths,
        which change the sums of the items at their ends: the difference of two entries, or one entry. The
        probabilities keep their expectations, and every move settles an arc.

        Each move along a path takes a uniform number: one for each settled arc.
        """
        cdef uint8_t[::1] chosen = np.zeros(x.shape[0], dtype=np.uint8)
        cdef Py_ssize_t crowded = 0, arc, i
        self.check(items, x, items[:0])
        with nogil:
            self.divide(items, x, items[:0])
            for i in range(x.shape[0]):
                crowded += self.crowded(i)
        if uniforms.shape[0] < self.starts[self.n]:
            raise ValueError("rounding takes a number for each set of each item")
        with nogil:
            self.settle(x.shape[0], uniforms)
            for arc in range(self.starts[self.n]):
                if self.share[arc] == UNIT:
                    chosen[self.owner[arc]] = True
        return self.excess, crowded, np.asarray(chosen).view(np.bool_)

    cdef void settle(self, Py_ssize_t n, const double[::1] uniforms) noexcept nogil:
        cdef Py_ssize_t length, drawn = 0, i
        cdef int64_t start, node, came, first, arc, up, down, share
        cdef bint turned, moves
        for i in range(self.place.shape[0]):
            self.place[i] = -1
        for start in range(n):
            while self.other(start, -1) >= 0:
                self.nodes[0] = node = start
                came = first = -1
                length = 0
                turned = False
                self.place[start] = 0
                while first < 0:
                    arc = self.other(node, came)
                    if arc >= 0:
                        node = -1 - self.sets[arc] if node >= 0 else self.owner[arc]
                        self.path[length] = came = arc
                        length += 1
                        self.nodes[length] = node
                        first = self.place[_spot(node, n)]
                        if first < 0:
                            self.place[_spot(node, n)] = length
                    elif not turned:
                        # Continue from the other end.
                        turned = True
                        for i in range((length + 1) // 2):
                            self.nodes[i], self.nodes[length - i] = self.nodes[length - i], self.nodes[i]
                        for i in range(length // 2):
                            self.path[i], self.path[length - 1 - i] = self.path[length - 1 - i], self.path[i]
                        for i in range(length + 1):
                            self.place[_spot(self.nodes[i], n)] = i
                        node = self.nodes[length]
                        came = self.path[length - 1]
                    else:
                        break
                for i in range(length + 1):
                    self.place[_spot(self.nodes[i], n)] = -1
                # A path without an item at its ends is like a cycle: nothing has to be drawn.
                moves = first < 0 and (self.nodes[0] >= 0 or self.nodes[length] >= 0)
                first = max(first, 0)
                # How far every other share can rise while those in between fall; and the reverse.
                up = down = UNIT
                for i in range(first, length):
                    share = self.share[self.path[i]]
                    if (i - first) % 2:
                        share = UNIT - share
                    up = min(up, UNIT - share)
                    down = min(down, share)
                if moves:
                    if not uniforms[drawn] * (up + down) < down:
                        up = -down
                    drawn += 1
                for i in range(first, length):
                    self.share[self.path[i]] += -up if (i - first) % 2 else up
