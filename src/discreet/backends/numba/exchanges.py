"""Compiled exchanges of swap rounding: two bases of a matroid merged into one.

Each of these repeats, until the bases are equal: the smallest item that only the first has trades places with
the smallest item of the second that both bases allow, and a coin decides whose base changes. What the bases
have in common stays in both to the end, so it is contracted. ``given`` has a coin for each item that only the
first base has: where it is true, the second base takes the item over. Answers a mask of the merged base.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .matroids import augment, clear, inverse, remainder, root, search


@njit(cache=True, nogil=True)
def _differences(n_items, one, two):  # type: ignore[no-untyped-def]
    """Masks of two bases, and the items of each that the other does not have, in order."""
    masks = np.zeros((2, n_items), dtype=np.bool_)
    for item in one:
        masks[0, item] = True
    for item in two:
        masks[1, item] = True
    only, counts = np.empty((2, one.size), dtype=np.int64), np.zeros(2, dtype=np.int64)
    for item in range(n_items):
        if masks[0, item] != masks[1, item]:
            side = 0 if masks[0, item] else 1
            only[side, counts[side]] = item
            counts[side] += 1
    return masks, only[:, : counts[0]]


@njit(cache=True, nogil=True)
def merge_forests(matroid, n_vertices, one, two, given):  # type: ignore[no-untyped-def]
    """Spanning forests: an edge of the path that the item closes, across the cut that it leaves."""
    masks, only = _differences(matroid.shape[0], one, two)
    left = only.shape[1]
    common, cut = np.arange(n_vertices), np.empty(n_vertices, dtype=np.int64)
    for item in one:
        if masks[1, item]:
            common[root(common, matroid[item, 0])] = root(common, matroid[item, 1])
    start, near = np.empty(n_vertices + 2, dtype=np.int64), np.empty(2 * left, dtype=np.int64)
    stack, came_by = np.empty(n_vertices, dtype=np.int64), np.empty(n_vertices, dtype=np.int64)
    ends = np.empty((2, 2, left), dtype=np.int64)
    for step in range(left):
        for side in range(2):
            for i in range(left - step):
                ends[side, 0, i] = root(common, matroid[only[side, i], 0])
                ends[side, 1, i] = root(common, matroid[only[side, i], 1])
        # The first forest without its smallest edge.
        cut[:] = np.arange(n_vertices)
        for i in range(1, left - step):
            cut[root(cut, ends[0, 0, i])] = root(cut, ends[0, 1, i])
        # Neighbours in the second forest.
        start[:] = 0
        for i in range(left - step):
            start[ends[1, 0, i] + 2] += 1
            start[ends[1, 1, i] + 2] += 1
        for vertex in range(n_vertices):
            start[vertex + 1] += start[vertex]
        start[n_vertices + 1] += start[n_vertices]
        for i in range(left - step):
            for end in range(2):
                vertex = ends[1, end, i]
                near[start[vertex + 1]] = i
                start[vertex + 1] += 1
        origin, goal = ends[0, 0, 0], ends[0, 1, 0]
        came_by[:] = -1
        stack[0], height, came_by[origin] = origin, 1, left
        while height and came_by[goal] < 0:
            height -= 1
            vertex = stack[height]
            for at in range(start[vertex], start[vertex + 1]):
                i = near[at]
                other = ends[1, 0, i] + ends[1, 1, i] - vertex
                if came_by[other] < 0:
                    came_by[other] = i
                    stack[height] = other
                    height += 1
        partner, vertex = left, goal
        while vertex != origin:
            i = came_by[vertex]
            if i < partner and root(cut, ends[1, 0, i]) != root(cut, ends[1, 1, i]):
                partner = i
            vertex = ends[1, 0, i] + ends[1, 1, i] - vertex
        kept = _trade(masks, only, left - step, partner, given[step])
        common[root(common, matroid[kept, 0])] = root(common, matroid[kept, 1])
    return masks[0]


@njit(cache=True, nogil=True)
def _trade(masks, only, left, partner, given):  # type: ignore[no-untyped-def]
    """The first item against the partner: both bases have one of them now, which is the answer."""
    item, other = only[0, 0], only[1, partner]
    for i in range(left - 1):
        only[0, i] = only[0, i + 1]
        if i >= partner:
            only[1, i] = only[1, i + 1]
    kept, gone = (item, other) if given else (other, item)
    for side in range(2):
        masks[side, kept], masks[side, gone] = True, False
    return kept


@njit(cache=True, nogil=True)
def merge_matchings(matroid, first, second, one, two, given):  # type: ignore[no-untyped-def]
    """Transversals: an item that a chain of moves pushes out of the second and that finds room in the first.

    ``first`` and ``second`` are memory for a matching each.
    """
    masks, only = _differences(matroid[0].size - 1, one, two)
    left, size = only.shape[1], (first.size - matroid[0].size - 1) // 4
    for side in range(2):
        matching = second if side else first
        clear(matroid, matching)
        for item in two if side else one:
            augment(matroid, matching, search(matroid, matching, item))
    for step in range(left):
        item = only[0, 0]
        search(matroid, second, item)
        _leave(first, size, item)
        partner, target = -1, -1
        while target < 0:
            partner += 1
            other = only[1, partner]
            if second[2 * size + second[3 * size + other]] == second[second.size - 1]:
                target = search(matroid, first, other)
        if given[step]:
            _leave(second, size, only[1, partner])
            augment(matroid, second, search(matroid, second, item))
            target = search(matroid, first, item)
        augment(matroid, first, target)
        _trade(masks, only, left - step, partner, given[step])
    return masks[0]


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
def merge_columns(columns, prime, one, two, given):  # type: ignore[no-untyped-def]
    """Bases of the columns modulo a prime (rows of ``columns``); an empty mask if either is none.

    ``forth`` has the first base in terms of the second, ``back`` the second in terms of the first: an item
    can take another's place exactly where its coefficient is not 0.
    """
    nothing = np.zeros(0, dtype=np.bool_)
    masks, only = _differences(columns.shape[0], one, two)
    left, rank, height = only.shape[1], one.size, columns.shape[1]
    work, at = np.empty((height, rank + left), dtype=np.int64), 0
    for item in one:
        if masks[1, item]:
            work[:, at] = columns[item]
            at += 1
    for i in range(left):
        work[:, at + i] = columns[only[1, i]]
        work[:, rank + i] = columns[only[0, i]]
    for i in range(rank):
        if not _eliminate(work, i, i, i, prime):
            return nothing
    pair = np.zeros((left, 2 * left), dtype=np.int64)
    pair[:, :left] = work[at:rank, rank:]
    for i in range(left):
        pair[i, left + i] = 1
    forth = pair[:, :left].copy()
    for i in range(left):
        if not _eliminate(pair, i, i, i, prime):
            return nothing
    back = pair[:, left:].copy()
    for step in range(left):
        partner = 0
        while forth[partner, 0] == 0 or back[0, partner] == 0:
            partner += 1
        _without(forth, left - step, partner, 0, given[step], prime)
        _without(back, left - step, 0, partner, not given[step], prime)
        _trade(masks, only, left - step, partner, given[step])
    return masks[0]
