"""Rows by bucket, in order, as people; and what is wrong with a bucket."""

from __future__ import annotations

import numpy as np

from ..compiled import loop, part
from .identities import item_coin

_FEW = 24  # entries that are put in order by insertion
_COARSE = 8  # bits of keys, at most, by which rows are put in order first
_NEAR = 4096  # rows that are near enough to each other for the rest
_DIGIT = 11  # bits of items by which rows are put in order at a time
_1 = np.uint64(1)


@loop()
def scatter(  # type: ignore[no-untyped-def]
    keys, items, weights, buckets, starts, to_keys, to_items, to_weights
):
    """Rows by bucket: those of bucket b end up from ``starts[b]`` to ``starts[b + 1]``."""
    which = np.empty(keys.size, dtype=np.uint32)
    for i in range(keys.size):
        b = keys[i] % buckets
        which[i] = b
        starts[b + _1] += 1
    for b in range(starts.size - 1):
        starts[b + 1] += starts[b]
    at = starts[:-1].copy()
    weighted = weights.size > 0
    for i in range(keys.size):
        b = which[i]
        place = at[b]
        at[b] = place + 1
        to_keys[place] = keys[i]
        to_items[place] = items[i]
        if weighted:
            to_weights[place] = weights[i]


@part
def _before(keys, items, i, j):  # type: ignore[no-untyped-def]
    return keys[i] < keys[j] or (keys[i] == keys[j] and items[i] < items[j])


@part
def _swap(keys, items, weights, i, j, weighted):  # type: ignore[no-untyped-def]
    keys[i], keys[j] = keys[j], keys[i]
    items[i], items[j] = items[j], items[i]
    if weighted:
        weights[i], weights[j] = weights[j], weights[i]


@part
def _heap(keys, items, weights, start, stop, weighted):  # type: ignore[no-untyped-def]
    """Heapsort: no order of rows that somebody may have arranged makes it slow."""
    n = stop - start
    first, last = n // 2 - 1, n - 1
    while last > 0:
        if first >= 0:
            root = first
            first -= 1
        else:
            _swap(keys, items, weights, start, start + last, weighted)
            last -= 1
            root = 0
        while 2 * root + 1 <= last:
            child = 2 * root + 1
            if child < last and _before(keys, items, start + child, start + child + 1):
                child += 1
            if not _before(keys, items, start + root, start + child):
                break
            _swap(keys, items, weights, start + root, start + child, weighted)
            root = child


@part
def _spread(rows, start, stop, by_item, down, starts, to):  # type: ignore[no-untyped-def]
    """Rows by some bits of their keys, or of their items; those that agree in them keep their order.

    ``rows`` and ``to`` are keys, items and weights. ``starts`` gets the first place of each cell, and the
    last one's end.
    """
    keys, items, weights = rows
    to_keys, to_items, to_weights = to
    cells = np.uint64(starts.size - 2)
    starts[:] = 0
    for i in range(start, stop):
        starts[((np.uint64(items[i]) if by_item else keys[i]) >> down & cells) + _1] += 1
    starts[0] = start
    for cell in range(starts.size - 1):
        starts[cell + 1] += starts[cell]
    weighted = weights.size > 0
    for i in range(start, stop):
        cell = (np.uint64(items[i]) if by_item else keys[i]) >> down & cells
        place = starts[cell]
        starts[cell] = place + 1
        to_keys[place] = keys[i]
        to_items[place] = items[i]
        if weighted:
            to_weights[place] = weights[i]
    for cell in range(starts.size - 1, 0, -1):  # each has moved to where the next begins
        starts[cell] = starts[cell - 1]
    starts[0] = start


@part
def _insert(keys, items, weights, start, stop, weighted):  # type: ignore[no-untyped-def]
    """A few rows in order, by insertion."""
    for i in range(start + 1, stop):
        key, item = keys[i], items[i]
        weight = weights[i] if weighted else 0.0
        j = i - 1
        while j >= start and (keys[j] > key or (keys[j] == key and items[j] > item)):
            keys[j + 1] = keys[j]
            items[j + 1] = items[j]
            if weighted:
                weights[j + 1] = weights[j]
            j -= 1
        keys[j + 1] = key
        items[j + 1] = item
        if weighted:
            weights[j + 1] = weight


@loop()
def in_order(keys, items, weights, bits, to_keys, to_items, to_weights):  # type: ignore[no-untyped-def]
    """Rows in the order of key and item: by the first bits of the key, then each cell by itself.

    By few bits at first, so that what comes next goes on within the fast memory of a processor. There by
    item and then by further bits of the key, after which nearly all rows are in order.
    """
    coarse, weighted = 1, weights.size > 0
    while coarse < min(bits, _COARSE) and keys.size >> coarse > _NEAR:
        coarse += 1
    to = (to_keys, to_items, to_weights)
    between = np.empty_like(to_keys), np.empty_like(to_items), np.empty_like(to_weights)
    outer = np.zeros((1 << coarse) + 1, dtype=np.int64)
    inner = np.zeros((1 << (bits - coarse)) + 1, dtype=np.int64)
    by_item = np.zeros((1 << _DIGIT) + 1, dtype=np.int64)
    twice = items.itemsize > 2
    first = between if twice else to
    _spread((keys, items, weights), 0, keys.size, False, np.uint64(64 - coarse), outer, first)
    for whole in range(outer.size - 1):
        start, stop = outer[whole], outer[whole + 1]
        if twice:
            _spread(between, start, stop, True, np.uint64(0), by_item, to)
        _spread(to, start, stop, True, np.uint64(_DIGIT * twice), by_item, between)
        _spread(between, start, stop, False, np.uint64(64 - bits), inner, to)
        for cell in range(inner.size - 1):
            start, stop = inner[cell], inner[cell + 1]
            if stop - start > _FEW:
                at = start + 1
                while at < stop and not _before(to_keys, to_items, at, at - 1):
                    at += 1
                if at < stop:
                    _heap(to_keys, to_items, to_weights, start, stop, weighted)
            else:
                _insert(to_keys, to_items, to_weights, start, stop, weighted)


@loop()
def people(keys, items, weights, nothing, cap, coins, marks, ends):  # type: ignore[no-untyped-def]
    """Rows in order become people, in place; how many people and entries there are.

    Of equal rows the largest weight stays, 0 leaves no entry, and neither does the item ``nothing``: the
    person is somebody all the same. Of more than ``cap`` items those with the lowest coins stay:
    coins of the person and of the item's number, or of its mark where ``marks`` has one for each number.
    """
    weighted = weights.size > 0
    many, entries, i = 0, 0, 0
    ends[0] = 0
    while i < keys.size:
        person, begin = keys[i], entries
        while i < keys.size and keys[i] == person:
            item = items[i]
            weight = weights[i] if weighted else 1.0
            i += 1
            while i < keys.size and keys[i] == person and items[i] == item:
                if weighted:
                    weight = max(weight, weights[i])
                i += 1
            if item == nothing or weight == 0.0:
                continue
            items[entries] = item
            if weighted:
                weights[entries] = weight
            entries += 1
        if cap > 0 and entries - begin > cap:
            drawn = np.empty(entries - begin, dtype=np.uint64)
            for j in range(begin, entries):
                mark = marks[items[j]] if marks.size else np.uint64(items[j])
                drawn[j - begin] = item_coin(person, mark, coins)
            ordered = drawn.copy()
            _heap(ordered, np.zeros(ordered.size, dtype=np.uint8), weights, 0, ordered.size, False)
            highest = ordered[cap - 1]
            kept = begin
            for j in range(begin, entries):
                if drawn[j - begin] <= highest and kept - begin < cap:
                    items[kept] = items[j]
                    if weighted:
                        weights[kept] = weights[j]
                    kept += 1
            entries = kept
        keys[many] = person
        many += 1
        ends[many] = entries
    return many, entries


@loop()
def wrong(keys, ends, items, weights, buckets, number, n_items, cap, highest):  # type: ignore[no-untyped-def]
    """What is wrong with a bucket: 0 for nothing, else the number of the rule that it breaks."""
    if ends[0] != 0 or ends[keys.size] != items.size:
        return 1
    weighted = weights.size > 0
    for i in range(keys.size):
        if keys[i] % buckets != number:
            return 2
        if i > 0 and keys[i] <= keys[i - 1]:
            return 3
        start, stop = ends[i], ends[i + 1]
        if stop < start or stop > items.size:
            return 1
        if cap > 0 and stop - start > cap:
            return 4
        for j in range(start, stop):
            if items[j] >= n_items:
                return 5
            if j > start and items[j] <= items[j - 1]:
                return 6
            if weighted and not (0.0 < weights[j] <= highest and weights[j] < np.inf):
                return 7
    return 0
