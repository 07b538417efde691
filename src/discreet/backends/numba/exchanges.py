"""Compiled exchanges of swap rounding: two bases of a matroid merged into one.

Each of these repeats, until the bases are equal: the smallest item that only the first has trades places with
the smallest item of the second that both bases allow, and a coin decides whose base changes. What the bases
have in common stays in both to the end, so it is contracted. ``given`` has a coin for each item that only the
first base has: where it is true, the second base takes the item over. ``kept`` gets what both have then, and
``one`` and ``two`` (`differences`) are used up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .matroids import augment, clear, inverse, remainder, root, search


def differences(n_items: int, one: Any, two: Any) -> tuple[Any, Any, Any]:
    """What two bases have in common, and for each of them what the other does not have, in order."""
    has = np.zeros((2, n_items), dtype=np.bool_)
    has[0, one], has[1, two] = True, True
    masks = has[0] & has[1], has[0] & ~has[1], has[1] & ~has[0]
    common, first, second = (np.flatnonzero(mask).astype(np.int64) for mask in masks)
    return common, first, second


@njit(cache=True, nogil=True)
def trade(one, two, left, partner, given):  # type: ignore[no-untyped-def]
    """The first item against the partner: both bases have one of them now, which is the answer."""
    item = one[0] if given else two[partner]
    for i in range(left - 1):
        one[i] = one[i + 1]
        if i >= partner:
            two[i] = two[i + 1]
    return item


@njit(cache=True, nogil=True)
def merge_forests(joins, n_vertices, common, one, two, given, kept):  # type: ignore[no-untyped-def]
    """Spanning forests: an edge of the path that the item closes, across the cut that it leaves."""
    total = one.size
    merged, cut = np.empty(n_vertices, dtype=np.int64), np.empty(n_vertices, dtype=np.int64)
    start, near = np.empty(n_vertices + 2, dtype=np.int64), np.empty(2 * total, dtype=np.int64)
    stack, came_by = np.empty(n_vertices, dtype=np.int64), np.empty(n_vertices, dtype=np.int64)
    ends = np.empty((4, total), dtype=np.int64)
    for vertex in range(n_vertices):
        merged[vertex] = vertex
    for i in range(common.size):
        merged[root(merged, joins[common[i], 0])] = root(merged, joins[common[i], 1])
    for step in range(total):
        left = total - step
        for i in range(left):
            for end in range(2):
                ends[end, i] = root(merged, joins[one[i], end])
                ends[2 + end, i] = root(merged, joins[two[i], end])
        # The first forest without its smallest edge.
        for vertex in range(n_vertices):
            cut[vertex], came_by[vertex], start[vertex] = vertex, -1, 0
        for i in range(1, left):
            cut[root(cut, ends[0, i])] = root(cut, ends[1, i])
        # Neighbours in the second forest.
        start[n_vertices] = start[n_vertices + 1] = 0
        for i in range(left):
            start[ends[2, i] + 2] += 1
            start[ends[3, i] + 2] += 1
        for vertex in range(n_vertices):
            start[vertex + 1] += start[vertex]
        start[n_vertices + 1] += start[n_vertices]
        for i in range(left):
            for end in range(2, 4):
                vertex = ends[end, i]
                near[start[vertex + 1]] = i
                start[vertex + 1] += 1
        origin, goal = ends[0, 0], ends[1, 0]
        stack[0], height, came_by[origin] = origin, 1, left
        while height and came_by[goal] < 0:
            height -= 1
            vertex = stack[height]
            for at in range(start[vertex], start[vertex + 1]):
                i = near[at]
                other = ends[2, i] + ends[3, i] - vertex
                if came_by[other] < 0:
                    came_by[other] = i
                    stack[height] = other
                    height += 1
        partner, vertex = left, goal
        while vertex != origin:
            i = came_by[vertex]
            if i < partner and root(cut, ends[2, i]) != root(cut, ends[3, i]):
                partner = i
            vertex = ends[2, i] + ends[3, i] - vertex
        item = trade(one, two, left, partner, given[step])
        kept[step] = item
        merged[root(merged, joins[item, 0])] = root(merged, joins[item, 1])


@njit(cache=True, nogil=True)
def merge_matchings(matroid, first, second, common, one, two, given, kept):  # type: ignore[no-untyped-def]
    """Transversals: an item that a chain of moves pushes out of the second and that finds room in the first.

    ``first`` and ``second`` are memory for a matching each.
    """
    left, size = one.size, (first.size - matroid[0].size - 1) // 4
    clear(matroid, first)
    for i in range(common.size + left):
        item = common[i] if i < common.size else one[i - common.size]
        augment(matroid, first, search(matroid, first, item))
    clear(matroid, second)
    for i in range(common.size + left):
        item = common[i] if i < common.size else two[i - common.size]
        augment(matroid, second, search(matroid, second, item))
    for step in range(left):
        item = one[0]
        search(matroid, second, item)
        _leave(first, size, item)
        partner, target = -1, -1
        while target < 0:
            partner += 1
            other = two[partner]
            if second[2 * size + second[3 * size + other]] == second[second.size - 1]:
                target = search(matroid, first, other)
        if given[step]:
            _leave(second, size, two[partner])
            augment(matroid, second, search(matroid, second, item))
            target = search(matroid, first, item)
        augment(matroid, first, target)
        kept[step] = trade(one, two, left - step, partner, given[step])


@njit(cache=True, nogil=True)
def _leave(matching, size, item):  # type: ignore[no-untyped-def]
    """Free the set that the item holds."""
    matching[matching[3 * size + item]] = -1
    matching[3 * size + item] = -1


@njit(cache=True, nogil=True)
def _eliminate(work, row, column, start, prime):  # type: ignore[no-untyped-def]
    """Make ``work[:, column]`` the unit vector of ``row``, in columns from ``start`` on; False if all are 0.

    A row from ``row`` on that has an entry takes its place.
    """
    pivot = row
    while pivot < work.shape[0] and work[pivot, column] == 0:
        pivot += 1
    if pivot == work.shape[0]:
        return False
    for j in range(start, work.shape[1]):
        work[row, j], work[pivot, j] = work[pivot, j], work[row, j]
    factor = inverse(work[row, column], prime)
    for j in range(start, work.shape[1]):
        work[row, j] = remainder(work[row, j] * factor, prime)
    for i in range(work.shape[0]):
        factor = work[i, column]
        if i != row and factor:
            for j in range(start, work.shape[1]):
                work[i, j] = remainder(work[i, j] + (prime - factor) * work[row, j], prime)
    return True


@njit(cache=True, nogil=True)
def _without(matrix, size, row, column, turned, prime):  # type: ignore[no-untyped-def]
    """Take a row and a column out of a matrix, in place; ``turned``, after eliminating by their entry."""
    factor = inverse(matrix[row, column], prime) if turned else 0
    for i in range(size):
        if turned and i != row:
            weight = prime - remainder(matrix[i, column] * factor, prime)
            for j in range(size):
                if j != column:
                    matrix[i, j] = remainder(matrix[i, j] + weight * matrix[row, j], prime)
    for i in range(size - 1):
        for j in range(size - 1):
            matrix[i, j] = matrix[i + (i >= row), j + (j >= column)]


@njit(cache=True, nogil=True)
def merge_columns(columns, prime, common, one, two, given, kept, work, pair, forth, back):  # type: ignore[no-untyped-def]
    """Bases of the columns modulo a prime (rows of ``columns``); False, and nothing done, if either is none.

    ``forth`` has the first base in terms of the second, ``back`` the second in terms of the first: an item
    can take another's place exactly where its coefficient is not 0. These and the others are memory.
    """
    left, shared = one.size, common.size
    rank, height = shared + left, columns.shape[1]
    for i in range(rank + left):
        item = common[i] if i < shared else two[i - shared] if i < rank else one[i - rank]
        for j in range(height):
            work[j, i] = columns[item, j]
    for i in range(rank):
        if not _eliminate(work, i, i, i, prime):
            return False
    for i in range(left):
        for j in range(left):
            forth[i, j] = pair[i, j] = work[shared + i, rank + j]
            pair[i, left + j] = i == j
    for i in range(left):
        if not _eliminate(pair, i, i, i, prime):
            return False
    for i in range(left):
        for j in range(left):
            back[i, j] = pair[i, left + j]
    for step in range(left):
        partner = 0
        while forth[partner, 0] == 0 or back[0, partner] == 0:
            partner += 1
        _without(forth, left - step, partner, 0, given[step], prime)
        _without(back, left - step, 0, partner, not given[step], prime)
        kept[step] = trade(one, two, left - step, partner, given[step])
    return True
