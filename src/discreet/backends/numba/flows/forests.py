"""Flows of graphic matroids: every edge divides its share of a forest among its two ends.

A point x lies in the polytope of forests if, whichever vertex is to take nothing, the shares can be divided
so that every other vertex takes at most 1: then x(E[S]) <= |S| - 1 for every set S of vertices. Vertices are
added one by one, the one that is added takes nothing as yet, and what its edges bring is passed on by the
vertices before it (Cunningham 1985; Barahona 1992). Arc 2e is edge e at its first end and 2e + 1 at its
second; ``share[arc]`` is what the edge takes there, and the arcs at each vertex are a list.
"""

from __future__ import annotations

import numpy as np

from ..compiled import loop, part
from ..matroids import root

# Units to 1: sums of a few entries stay far from the end of 64 bits, and a unit is far below a tolerance.
UNIT = 2**45
# Few enough units to come from rounding: sums that are so near to each other are taken for equal.
NEAR = 8


@part
def in_units(value):  # type: ignore[no-untyped-def]
    return np.int64(min(max(value, 0.0), 1.0) * UNIT + 0.5)


@part
def _link(lists, arc, vertex):  # type: ignore[no-untyped-def]
    ends, head, after, before = lists
    ends[arc] = vertex
    after[arc], before[arc] = head[vertex], -1
    if head[vertex] >= 0:
        before[head[vertex]] = arc
    head[vertex] = arc


@part
def _unlink(lists, arc):  # type: ignore[no-untyped-def]
    ends, head, after, before = lists
    if before[arc] >= 0:
        after[before[arc]] = after[arc]
    else:
        head[ends[arc]] = after[arc]
    if after[arc] >= 0:
        before[after[arc]] = before[arc]


@part
def _search(lists, share, load, origin, goal, closed, near, work, queue):  # type: ignore[no-untyped-def]
    """Who can take over what ``origin`` has: ``goal``, or the nearest with room (-1); never by ``closed``.

    ``near`` units count as none. Answers that vertex or -1, and how many were reached, as ``queue`` lists.
    """
    ends, head, after, _ = lists
    seen, came = work[0], work[1]
    # Searches are numbered.
    seen[seen.size - 1] += 1
    now = seen[seen.size - 1]
    seen[origin], seen[closed] = now, now
    queue[0], first, last = origin, 0, 1
    while first < last:
        arc = head[queue[first]]
        first += 1
        while arc >= 0:
            other = ends[arc ^ 1]
            if share[arc] > near and seen[other] < now:
                seen[other], came[other] = now, arc
                queue[last] = other
                last += 1
                if other == goal or (goal < 0 and load[other] < UNIT - near):
                    return other, last
            arc = after[arc]
    return -1, last


@part
def _push(lists, share, load, origin, goal, closed, amount, work, queue):  # type: ignore[no-untyped-def]
    """Pass so much on from ``origin``; what is left, and how many the last and futile search reached."""
    ends, came = lists[0], work[1]
    while amount:
        found, reached = _search(lists, share, load, origin, goal, closed, np.int64(0), work, queue)
        if found < 0:
            return amount, reached
        least = amount if goal >= 0 else min(amount, UNIT - load[found])
        vertex = found
        while vertex != origin:
            least = min(least, share[came[vertex]])
            vertex = ends[came[vertex]]
        vertex = found
        while vertex != origin:
            share[came[vertex]] -= least
            share[came[vertex] ^ 1] += least
            vertex = ends[came[vertex]]
        if goal < 0:
            load[found] += least
            load[origin] -= least
        amount -= least
    return amount, 0


@part
def _memory(vertices, edges):  # type: ignore[no-untyped-def]
    """Lists, shares and loads with nothing in them; memory for searches."""
    ends, head = np.empty(2 * edges, dtype=np.int64), np.empty(vertices, dtype=np.int64)
    for vertex in range(vertices):
        head[vertex] = -1
    after, before = np.empty(2 * edges, dtype=np.int64), np.empty(2 * edges, dtype=np.int64)
    share, load = np.zeros(2 * edges, dtype=np.int64), np.zeros(vertices, dtype=np.int64)
    return (ends, head, after, before), share, load, np.zeros((2, vertices + 1), dtype=np.int64)


@part
def _divide(joins, merged, items, first, x, lists, share, load, work, tied):  # type: ignore[no-untyped-def]
    """Divide the shares of ``items[first:]``, one for each entry of ``x``, as far as there is room for them.

    ``merged`` has a parent for each vertex, of those that count as one. What finds no room is cut off.
    Answers how many vertices there are, from 0 on, and all that was cut off; ``tied`` merges the vertices of
    every set that is full then.
    """
    # Numbers of one kind, here and below: loops are compiled anew for constants.
    count, excess, anybody, near = 0, 0.0, np.int64(-1), np.int64(NEAR)
    label, queue = np.empty(merged.size, dtype=np.int64), np.empty(merged.size, dtype=np.int64)
    for vertex in range(merged.size):
        label[vertex] = -1
    for i in range(x.size):
        for end in range(2):
            vertex = root(merged, joins[items[first + i], end])
            if label[vertex] < 0:
                label[vertex] = tied[count] = count
                count += 1
            _link(lists, 2 * i + end, label[vertex])
    ends, head, after, _ = lists
    for vertex in range(count):
        arc = head[vertex]
        while arc >= 0:
            other = ends[arc ^ 1]
            if other <= vertex:
                units = in_units(x[arc >> 1])
                if other == vertex:
                    # A loop, which is met twice.
                    excess += 0.5 * units
                else:
                    share[arc ^ 1] = units
                    load[other] += units
                    over = load[other] - UNIT
                    if over > 0:
                        left, _ = _push(lists, share, load, other, anybody, vertex, over, work, queue)
                        share[arc ^ 1] -= left
                        load[other] -= left
                        excess += left
            arc = after[arc]
        # Neighbours who cannot pass anything on are full together with this vertex, and all whom they reach.
        arc = head[vertex]
        while arc >= 0:
            other = ends[arc ^ 1]
            if other < vertex and load[other] >= UNIT - NEAR and root(tied, other) != root(tied, vertex):
                found, reached = _search(lists, share, load, other, anybody, vertex, near, work, queue)
                if found < 0:
                    for i in range(reached):
                        tied[root(tied, queue[i])] = root(tied, vertex)
            arc = after[arc]
    return count, excess / UNIT


@loop()
def exceed_forests(joins, space, below, items, first, x, inside):  # type: ignore[no-untyped-def]
    """The set of edges whose sum of ``x`` exceeds its rank the most, as a mask; by how much it does.

    The independent set ``below`` is contracted. Whatever was cut off lies in a full set; the union
    of these has a sum above its rank by all that was cut off, and no set can exceed its own by more. Of
    several such sets it is the largest: items whose x is next to nothing belong with those that leave them
    no room.
    """
    for vertex in range(space.size):
        space[vertex] = vertex
    for item in below:
        space[root(space, joins[item, 0])] = root(space, joins[item, 1])
    lists, share, load, work = _memory(space.size, x.size)
    tied = np.empty(space.size, dtype=np.int64)
    _, excess = _divide(joins, space, items, first, x, lists, share, load, work, tied)
    for i in range(x.size):
        inside[i] = root(tied, lists[0][2 * i]) == root(tied, lists[0][2 * i + 1])
    return excess


@part
def _split(lists, reached, count, top, inside, fresh):  # type: ignore[no-untyped-def]
    """Part ``reached[:count]`` and ``top``, which are full, from the rest, to which they are one vertex."""
    ends, head, after, _ = lists
    for i in range(count):
        inside[reached[i]] = fresh
    inside[top] = fresh
    for i in range(-1, count):
        vertex = top if i < 0 else reached[i]
        arc = head[vertex]
        while arc >= 0:
            following = after[arc]
            if inside[ends[arc ^ 1]] != fresh:
                _unlink(lists, arc)
                _link(lists, arc, fresh)
            arc = following


@loop()
def round_forest(joins, space, items, x, coins, chosen):  # type: ignore[no-untyped-def]
    """A random forest that holds ``items[i]`` with probability ``x[i]``, as a mask; the sum cut off.

    Where that is more than rounding, x lies outside the polytope; the second answer is how many items have a
    share in it. Moves are along the difference of two entries, with the probabilities that keep both
    expectations, until an entry is 0 or another set of vertices is full.

    A further vertex, the top, joins whoever has room left, so that all others are full. Of two edges from the
    top, to vertices a and b, the first gains what a can pass on to b. Where that is less than the second has,
    those whom a reaches are a full set with the top, and are parted from the rest: among them the top stays,
    and for the rest all of them are the top.
    """
    n, most = items.size, space.size + 1
    lists, share, load, work = _memory(2 * most, n + most)
    ends, head, after, _ = lists
    tied = np.empty(space.size, dtype=np.int64)
    for vertex in range(space.size):
        space[vertex] = vertex
    count, excess = _divide(joins, space, items, np.int64(0), x, lists, share, load, work, tied)
    touched = 0
    for i in range(n):
        touched += root(tied, ends[2 * i]) == root(tied, ends[2 * i + 1])
        chosen[i] = False
        for arc in range(2 * i, 2 * i + 2):
            if share[2 * i] + share[2 * i + 1] == 0:
                _unlink(lists, arc)
    fresh, edge = count + 1, n
    for vertex in range(count):
        if load[vertex] < UNIT:
            share[2 * edge + 1] = UNIT - load[vertex]
            _link(lists, 2 * edge, count)
            _link(lists, 2 * edge + 1, vertex)
            edge += 1
    size, toss = 2 * edge, 0
    tops, inside = np.empty(most + 1, dtype=np.int64), np.zeros(2 * most, dtype=np.int64)
    one_way, other_way = np.empty(2 * most, dtype=np.int64), np.empty(2 * most, dtype=np.int64)
    ahead, back = np.empty(share.size, dtype=np.int64), np.empty(share.size, dtype=np.int64)
    tops[0], height = count, 1
    while height:
        top = tops[height - 1]
        i = head[top]
        if i < 0:
            height -= 1
            continue
        a = ends[i ^ 1]
        if share[i ^ 1] == UNIT:
            # It is chosen, and its ends become one.
            if i >> 1 < n:
                chosen[i >> 1] = True
            _unlink(lists, i)
            _unlink(lists, i ^ 1)
            arc = head[a]
            while arc >= 0:
                following = after[arc]
                _link(lists, arc, top)
                arc = following
            continue
        j = after[i]
        b = ends[j ^ 1]
        gain, loss, reached, others = share[j ^ 1], share[i ^ 1], 0, 0
        if a != b:
            for arc in range(size):
                ahead[arc] = back[arc] = share[arc]
            left, reached = _push(lists, ahead, load, a, b, top, gain, work, one_way)
            gain -= left
            left, others = _push(lists, back, load, b, a, top, loss, work, other_way)
            loss -= left
        forward = coins[toss] * (gain + loss) < loss
        toss += 1
        moved, queue = gain, one_way
        if not forward:
            moved, queue, reached = -loss, other_way, others
        if a != b and forward:
            share, ahead = ahead, share
        elif a != b:
            share, back = back, share
        share[i ^ 1] += moved
        share[j ^ 1] -= moved
        if reached:
            _split(lists, queue, reached, top, inside, fresh)
            tops[height] = fresh
            height += 1
            fresh += 1
        else:
            gone = j if moved > 0 else i
            _unlink(lists, gone)
            _unlink(lists, gone ^ 1)
    return excess, touched
