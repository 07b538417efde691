"""Compiled independence of graphic, transversal and linear matroids: items offered one after another.

A matroid is an array or a tuple of arrays of whole numbers; loops are compiled for the kinds that are used:

- graphic: a row for each item, the numbers of the vertices that it joins;
- transversal: ``(starts, sets)``, item i is in the sets ``sets[starts[i]:starts[i + 1]]``;
- linear: ``(primes, residues)``, where ``residues[q, i]`` is the column of item i modulo ``primes[q]``; a set
  is independent if it is so modulo one of the primes.

``space`` (`workspace`) is memory for one growing independent set, which `clear` empties and `offer` fills.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

_CLOSED = 2**62


def workspace(matroid: Any, size: int) -> Any:
    """Memory for the independent sets of a matroid with ``size`` vertices, sets or rows.

    - graphic: a parent for each vertex;
    - transversal: for each set the item that holds it, the item that sought it last and the search that saw
      it; for each item the set it holds; a stack; the number of searches;
    - linear: for each prime the number of columns taken, whether they tell anything, and each of them,
      reduced, with the place of its leading 1; the items taken; the column at hand; the number of items.
    """
    if isinstance(matroid, tuple) and matroid[1].ndim == 1:
        size = 4 * size + matroid[0].size + 1
    elif isinstance(matroid, tuple):
        size = matroid[0].size * (2 + size * (size + 1)) + 2 * size + 1
    return np.empty(size, dtype=np.int64)


# --- graphic -------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def root(parent, vertex):  # type: ignore[no-untyped-def]
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


def _clear_forest(matroid, space):  # type: ignore[no-untyped-def]  # noqa: ARG001
    for vertex in range(space.size):
        space[vertex] = vertex


def _offer_edge(matroid, space, item, take):  # type: ignore[no-untyped-def]
    one, other = root(space, matroid[item, 0]), root(space, matroid[item, 1])
    if take and one != other:
        space[one] = other
    return one != other


# --- transversal ---------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _n_sets(matroid, space):  # type: ignore[no-untyped-def]
    return (space.size - matroid[0].size - 1) // 4


@njit(cache=True, nogil=True)
def search(matroid, space, item):  # type: ignore[no-untyped-def]
    """A set that is free after a chain of moves starting with ``item``, or -1; who sought it is noted."""
    starts, sets = matroid
    size = _n_sets(matroid, space)
    stack = 3 * size + starts.size - 1
    now = space[space.size - 1] + 1
    space[space.size - 1] = now
    space[stack] = item
    height = 1
    while height:
        height -= 1
        mover = space[stack + height]
        for edge in range(starts[mover], starts[mover + 1]):
            target = sets[edge]
            if space[2 * size + target] < now:
                space[2 * size + target] = now
                space[size + target] = mover
                if space[target] < 0:
                    return target
                space[stack + height] = space[target]
                height += 1
    return -1


@njit(cache=True, nogil=True)
def augment(matroid, space, target):  # type: ignore[no-untyped-def]
    """Walk back along the chain that `search` found, handing each set to the item that sought it."""
    size = _n_sets(matroid, space)
    while target >= 0:
        mover = space[size + target]
        left = space[3 * size + mover]
        space[target] = mover
        space[3 * size + mover] = target
        target = left


def _clear_matching(matroid, space):  # type: ignore[no-untyped-def]
    size = _n_sets(matroid, space)
    for i in range(space.size):
        space[i] = -1
    for i in range(2 * size, 3 * size):
        space[i] = 0
    space[space.size - 1] = 0


def _offer_member(matroid, space, item, take):  # type: ignore[no-untyped-def]
    target = search(matroid, space, item)
    if target < 0:
        # Nothing leads out of the sets just seen, whoever joins later: no search enters them again.
        size, now = _n_sets(matroid, space), space[space.size - 1]
        for seen in range(2 * size, 3 * size):
            if space[seen] == now:
                space[seen] = _CLOSED
    elif take:
        augment(matroid, space, target)
    return target >= 0


# --- linear --------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def remainder(value, prime):  # type: ignore[no-untyped-def]
    """``value`` modulo ``prime``, for values from 0 to prime**2 + prime; faster than a whole division."""
    left = value - np.int64(value * (1.0 / prime)) * prime
    if left < 0:
        return left + prime
    return left - prime if left >= prime else left


@njit(cache=True, nogil=True)
def inverse(value, prime):  # type: ignore[no-untyped-def]
    """The number whose product with ``value`` is 1 modulo ``prime`` (Euclid)."""
    a, b, u, v = value, prime, 1, 0
    while a > 1:
        quotient = b // a
        a, b, u, v = b - quotient * a, a, v - quotient * u, u
    return u % prime


def _clear_columns(matroid, space):  # type: ignore[no-untyped-def]
    size = matroid[1].shape[2]
    for q in range(matroid[0].size):
        space[q * (2 + size * (size + 1))], space[q * (2 + size * (size + 1)) + 1] = 0, 1
    space[space.size - 1] = 0


def _offer_column(matroid, space, item, take):  # type: ignore[no-untyped-def]
    """Primes are called upon in turn, the next one only where none before shows independence.

    Each first catches up with what others took; one modulo which that is dependent tells nothing any more.
    """
    primes, residues = matroid
    size, count = residues.shape[2], space[space.size - 1]
    items, column = space.size - 1 - 2 * size, space.size - 1 - size
    free = False
    for q in range(primes.size):
        run, prime = q * (2 + size * (size + 1)), primes[q]
        while space[run + 1] and not free:
            at = space[run]
            chosen = space[items + at] if at < count else item
            for i in range(size):
                space[column + i] = residues[q, chosen, i]
            for taken in range(run + 2, run + 2 + at * (size + 1), size + 1):
                factor = space[column + space[taken + size]]
                if factor:
                    for i in range(size):
                        changed = space[column + i] + (prime - factor) * space[taken + i]
                        space[column + i] = remainder(changed, prime)
            place = 0
            while place < size and space[column + place] == 0:
                place += 1
            if place == size:
                space[run + 1] = at == count
                break
            free = at == count
            if take or not free:
                taken = run + 2 + at * (size + 1)
                factor = inverse(space[column + place], prime)
                for i in range(size):
                    space[taken + i] = remainder(space[column + i] * factor, prime)
                space[taken + size] = place
                space[run] = at + 1
        if free:
            break
    if free and take:
        space[items + count] = item
        space[space.size - 1] = count + 1
    return free


# --- any -----------------------------------------------------------------------------------------------


def clear(matroid: Any, space: Any) -> None:
    """Start with nothing taken."""


def offer(matroid: Any, space: Any, item: int, take: bool) -> bool:  # type: ignore[empty-body]
    """Whether ``item`` can join what was taken since `clear`; with ``take`` it does."""


def _of_kind(matroid: Any, graphic: Any, transversal: Any, linear: Any) -> Any:
    if isinstance(matroid, types.Array):
        return graphic
    return transversal if isinstance(matroid, types.UniTuple) else linear


@overload(clear)
def _clear(matroid, space):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return _of_kind(matroid, _clear_forest, _clear_matching, _clear_columns)


@overload(offer)
def _offer(matroid, space, item, take):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return _of_kind(matroid, _offer_edge, _offer_member, _offer_column)


@njit(cache=True, nogil=True)
def _sink(heap, size, at, cost):  # type: ignore[no-untyped-def]
    """Let the entry at ``at`` sink: the smallest (cost, place) is at the top."""
    moving = heap[at]
    weight = cost[moving]
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


@njit(cache=True, nogil=True)
def offered(  # type: ignore[no-untyped-def]
    matroid, space, below, n_below, items, first, cost, ends, blocks, tight, keep, most, heap, places, taken
):
    """Offer items block by block, in the order of (cost, place); how many were offered.

    Place i is that of ``items[first + i]``; block b ends before place ``ends[b]``; from block ``tight`` on
    only items with a cost below 0 are offered. All of the independent set ``below[:n_below]`` is taken at the
    start; then the first ``keep`` items offered are taken where they fit, and the end comes when ``most``
    were. ``places`` lists the places of the items offered, ``taken`` whether they fitted. The heap sorts no
    more items than are offered.
    """
    clear(matroid, space)
    count, number, start = 0, 0, 0
    for block in range(-1, blocks):
        size = n_below
        if block >= 0:
            size = 0
            for place in range(start, ends[block]):
                if block < tight or cost[place] < 0.0:
                    heap[size] = place
                    size += 1
            for at in range(size // 2 - 1, -1, -1):
                _sink(heap, size, at, cost)
            start = ends[block]
        while size and (block < 0 or count < most):
            size -= 1
            place = 0
            if block < 0:
                item = below[size]
            else:
                place = heap[0]
                heap[0] = heap[size]
                _sink(heap, size, 0, cost)
                item = items[first + place]
            fits = offer(matroid, space, item, number < keep)
            if block >= 0:
                places[number], taken[number] = place, fits
                if number < keep:
                    count += fits
                number += 1
    return number
