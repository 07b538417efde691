"""Flows of transversal matroids: every item divides its share of a base among the sets that hold it.

A point lies in the polytope if the shares can be divided so that no set takes more than 1. Items are added
one by one; where there is no room for one, items before it move over to other sets. ``share[arc]`` is what an
item takes in a set: the arcs of item i are ``starts[i]`` to ``starts[i + 1]``, those of a set are a list.
"""

from __future__ import annotations

import numpy as np

from ..compiled import loop, part
from .forests import NEAR, UNIT, in_units

_CLOSED = 2**62


@part
def _arcs(matroid, below, items, first, n):  # type: ignore[no-untyped-def]
    """The arcs of ``below`` and of ``n`` other items: starts, items, sets, shares, lists of each set."""
    sets_of, n_sets, n_below = matroid[0], 0, below.size
    starts = np.zeros(n_below + n + 1, dtype=np.int64)
    for i in range(n_below + n):
        item = below[i] if i < n_below else items[first + i - n_below]
        starts[i + 1] = starts[i] + sets_of[item + 1] - sets_of[item]
    count = starts[n_below + n]
    owner, sets = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for i in range(n_below + n):
        item = below[i] if i < n_below else items[first + i - n_below]
        for arc in range(starts[i], starts[i + 1]):
            owner[arc], sets[arc] = i, matroid[1][sets_of[item] + arc - starts[i]]
            n_sets = max(n_sets, sets[arc] + 1)
    head, after = np.empty(n_sets, dtype=np.int64), np.empty(count, dtype=np.int64)
    for target in range(n_sets):
        head[target] = -1
    for arc in range(count - 1, -1, -1):
        after[arc] = head[sets[arc]]
        head[sets[arc]] = arc
    return starts, owner, sets, np.zeros(count, dtype=np.int64), head, after


@part
def _reach(arcs, load, now, item, work, last):  # type: ignore[no-untyped-def]
    """Add the sets of an item to those that a search has reached; the first that has room, or -1."""
    starts, _, sets, _, _, _ = arcs
    seen, came, queue = work[0], work[1], work[2]
    for arc in range(starts[item], starts[item + 1]):
        target = sets[arc]
        if seen[target] < now:
            seen[target], came[target] = now, arc
            queue[last] = target
            last += 1
            if load[target] < UNIT:
                return last, target
    return last, -1


@part
def _divide(arcs, n_below, x):  # type: ignore[no-untyped-def]
    """Divide 1 for each of the first ``n_below`` items and ``x`` for the others, as far as there is room.

    Answers which sets are open, and all that was cut off. The others are full of items that are in no open
    set: no moves make room in them.
    """
    starts, owner, sets, share, head, after = arcs
    load, work = np.zeros(head.size, dtype=np.int64), np.zeros((3, head.size), dtype=np.int64)
    seen, came, queue = work[0], work[1], work[2]
    # By which arc a search came to an item, and in which search.
    by, asked = np.empty(starts.size, dtype=np.int64), np.zeros(starts.size, dtype=np.int64)
    excess, now = 0.0, 0
    for item in range(starts.size - 1):
        left = UNIT if item < n_below else in_units(x[item - n_below])
        while left:
            now += 1
            asked[item] = now
            last, found = _reach(arcs, load, now, item, work, np.int64(0))
            first = 0
            while first < last and found < 0:
                arc = head[queue[first]]
                first += 1
                while arc >= 0 and found < 0:
                    mover = owner[arc]
                    if share[arc] and asked[mover] < now:
                        asked[mover], by[mover] = now, arc
                        last, found = _reach(arcs, load, now, mover, work, last)
                    arc = after[arc]
            if found < 0:
                # Nothing leads out of these sets, whoever is added: no search enters them again.
                for i in range(last):
                    seen[queue[i]] = _CLOSED
                excess += left
                break
            least, mover, target = min(left, UNIT - load[found]), owner[came[found]], found
            while mover != item:
                least = min(least, share[by[mover]])
                mover = owner[came[sets[by[mover]]]]
            mover = owner[came[found]]
            load[found] += least
            while mover != item:
                share[came[target]] += least
                share[by[mover]] -= least
                target = sets[by[mover]]
                mover = owner[came[target]]
            share[came[target]] += least
            left -= least
    # Sets with room, and whatever leads to one of them: a share that can move over.
    last, open_sets = 0, np.empty(load.size, dtype=np.bool_)
    for target in range(load.size):
        open_sets[target] = load[target] < UNIT - NEAR
        if open_sets[target]:
            queue[last] = target
            last += 1
    first = 0
    while first < last:
        arc = head[queue[first]]
        first += 1
        while arc >= 0:
            for other in range(starts[owner[arc]], starts[owner[arc] + 1]):
                if share[other] > NEAR and not open_sets[sets[other]]:
                    open_sets[sets[other]] = True
                    queue[last] = sets[other]
                    last += 1
            arc = after[arc]
    return open_sets, excess / UNIT


@part
def _any_open(arcs, item, open_sets):  # type: ignore[no-untyped-def]
    starts, _, sets, _, _, _ = arcs
    found = False
    for arc in range(starts[item], starts[item + 1]):
        found |= open_sets[sets[arc]]
    return found


@loop()
def exceed_matchings(matroid, space, below, items, first, x, inside):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """The set of items whose sum of ``x`` exceeds its rank the most, as a mask; by how much it does.

    The independent set ``below`` is contracted. The items that are in no open set are divided
    among as many sets as their rank; whatever was cut off is theirs, and no set can exceed its rank by more.
    """
    arcs = _arcs(matroid, below, items, first, x.size)
    open_sets, excess = _divide(arcs, below.size, x)
    for i in range(x.size):
        inside[i] = not _any_open(arcs, below.size + i, open_sets)
    return excess


@part
def _other(arcs, node, came):  # type: ignore[no-untyped-def]
    """An arc of an item, or of a set (-1 - node), with neither all nor nothing in it, other than ``came``."""
    starts, _, _, share, head, after = arcs
    if node >= 0:
        for arc in range(starts[node], starts[node + 1]):
            if 0 < share[arc] < UNIT and arc != came:
                return arc
        return -1
    # Arcs that are settled at the front of a list stay so.
    while head[-1 - node] >= 0 and not 0 < share[head[-1 - node]] < UNIT:
        head[-1 - node] = after[head[-1 - node]]
    arc = head[-1 - node]
    while arc >= 0 and (arc == came or not 0 < share[arc] < UNIT):
        arc = after[arc]
    return arc


@part
def _room(share, path, first, last):  # type: ignore[no-untyped-def]
    """By how much every other share along a path can rise, the ones in between falling; and the reverse."""
    up, down = UNIT, UNIT
    for i in range(first, last):
        taken, free = share[path[i]], UNIT - share[path[i]]
        if (i - first) % 2:
            taken, free = free, taken
        up, down = min(up, free), min(down, taken)
    return up, down


@loop()
def round_matching(matroid, items, x, coins, chosen):  # type: ignore[no-untyped-def]
    """A random independent set that holds ``items[i]`` with probability ``x[i]``, as a mask; the sum cut off.

    Where that is more than rounding, x lies outside the polytope; the second answer is how many items have a
    share in it. Shares move along cycles of items and sets, which changes no item's sum, and along paths that
    cannot be made longer, which changes those of the items at their ends: the difference of two entries, or
    one of them. The probabilities keep their expectations, and every move settles an arc.
    """
    arcs = _arcs(matroid, items[:0], items, np.int64(0), items.size)
    open_sets, excess = _divide(arcs, np.int64(0), x)
    _, owner, sets, share, _, _ = arcs
    n, touched, toss, nothing = items.size, 0, 0, np.int64(-1)
    # Where an item or a set is on the path; sets come after the items.
    place = np.empty(n + open_sets.size, dtype=np.int64)
    for i in range(place.size):
        place[i] = -1
    nodes, path = np.empty(place.size + 1, dtype=np.int64), np.empty(place.size + 1, dtype=np.int64)
    for start in range(n):
        chosen[start] = False
        touched += not _any_open(arcs, start, open_sets)
        while _other(arcs, start, nothing) >= 0:
            nodes[0], node, came, length, first, turned = start, start, nothing, 0, nothing, False
            place[start] = 0
            while first < 0:
                arc = _other(arcs, node, came)
                if arc >= 0:
                    node = -1 - sets[arc] if node >= 0 else owner[arc]
                    path[length], came = arc, arc
                    length += 1
                    nodes[length] = node
                    first = place[node if node >= 0 else n - 1 - node]
                    if first < 0:
                        place[node if node >= 0 else n - 1 - node] = length
                elif not turned:
                    # On from the other end.
                    turned = True
                    for i in range((length + 1) // 2):
                        nodes[i], nodes[length - i] = nodes[length - i], nodes[i]
                    for i in range(length // 2):
                        path[i], path[length - 1 - i] = path[length - 1 - i], path[i]
                    for i in range(length + 1):
                        place[nodes[i] if nodes[i] >= 0 else n - 1 - nodes[i]] = i
                    node, came = nodes[length], path[length - 1]
                else:
                    break
            for i in range(length + 1):
                place[nodes[i] if nodes[i] >= 0 else n - 1 - nodes[i]] = -1
            # Without an item at its ends a path is as good as a cycle: there is nothing to toss for.
            moves = first < 0 and (nodes[0] >= 0 or nodes[length] >= 0)
            first = max(first, np.int64(0))
            move, down = _room(share, path, first, length)
            if moves:
                if not coins[toss] * (move + down) < down:
                    move = -down
                toss += 1
            for i in range(first, length):
                share[path[i]] += -move if (i - first) % 2 else move
    for arc in range(share.size):
        if share[arc] == UNIT:
            chosen[owner[arc]] = True
    return excess, touched
