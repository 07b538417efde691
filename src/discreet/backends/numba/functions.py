"""Rounds of people whose concave function is in Python: what it is asked, and what is made of its answers.

A person's question is one array: the sum of all their weights, and then, for each of the sums that the shown
items lead to (0 first), that sum and the sums with each of the person's items. The answers are in the same
order. `judge` puts whole units of gains in their place.
"""

from __future__ import annotations

import math

import numpy as np

from .compiled import loop, part
from .hedge import ALL, LISTED, REACH
from .selectors import _place_of


@loop()
def questions(indptr, indices, data, cap, first, shown, asked, ends):  # type: ignore[no-untyped-def]
    """The questions to the people of the rows from ``first`` on; that of person t ends at ``ends[t + 1]``."""
    for t in range(ends.size - 1):
        start, stop = indptr[first + t], indptr[first + t + 1]
        at = ends[t]
        asked[at] = cap[first + t]
        at += 1
        state = 0.0
        turn = 0
        while turn <= shown.size:
            asked[at] = state
            for p in range(start, stop):
                asked[at + 1 + p - start] = state + data[p]
            at += 1 + stop - start
            turn, p = _next_held(shown, turn, start, stop, indices)
            if p < stop:
                state += data[p]
        ends[t + 1] = at


@part
def _next_held(shown, turn, start, stop, indices):  # type: ignore[no-untyped-def]
    """The next shown item that the row holds: the place after it in ``shown``, and where the row has it."""
    while turn < shown.size:
        p = _place_of(shown[turn], start, stop, indices)
        turn += 1
        if p < stop:
            return turn, p
    return shown.size + 1, stop


@loop()
def judge(  # type: ignore[no-untyped-def]
    indptr, indices, data, cap, first, shown, ends, found, slack, bound, scale, most, added
):
    """Make whole units of gains of the answers ``found``; how many people answered as they must.

    It stops at the first whose function is not finite, falls, or rises above its height at the sum of all
    weights, or above ``bound``: by more than the share ``slack``. ``added[t, i]`` is what the i-th shown item
    added.
    """
    for t in range(ends.size - 1):
        start, stop = indptr[first + t], indptr[first + t + 1]
        length = stop - start
        for at in range(ends[t], ends[t + 1]):
            if not math.isfinite(found[at]):
                return t
        whole = found[ends[t]]
        reach = cap[first + t] * (1.0 + 1e-12)
        at = ends[t] + 1
        state = 0.0
        turn = 0
        while turn <= shown.size:
            before = found[at]
            done = turn
            turn, held = _next_held(shown, turn, start, stop, indices)
            for p in range(start, stop):
                after = found[at + 1 + p - start]
                spare = slack * (abs(before) + abs(after) + abs(whole))
                right = after >= before - spare and after <= whole + spare
                if not right and state + data[p] <= reach:
                    return t
                gain = max(after - before, 0.0)
                if p == held:
                    added[t, turn - 1] = gain
                if gain > bound * (1.0 + slack):
                    if _among(indices[p], shown, done):
                        gain = 0.0
                    else:
                        return t
                found[at + 1 + p - start] = min(math.floor(min(gain, bound) * scale), most)
            for e in range(done):
                p = _place_of(shown[e], start, stop, indices)
                if p < stop:  # an item adds nothing once it is there
                    found[at + 1 + p - start] = 0.0
            at += 1 + length
            if held < stop:
                state += data[held]
    return ends.size - 1


@part
def _among(item, shown, count):  # type: ignore[no-untyped-def]
    """Whether ``item`` is one of the first ``count`` shown."""
    return item in shown[:count]


@loop()
def take_units(  # type: ignore[no-untyped-def]
    gains, touched, book, k, indptr, indices, first, within_limit, shown, ends, found
):
    """Hedge experts learn from the people of the rows from ``first`` on, as `judge` left their answers."""
    for t in range(within_limit.size):
        if not within_limit[t]:
            continue
        start, stop = indptr[first + t], indptr[first + t + 1]
        at = ends[t] + 2
        turn = 0
        while turn < shown.size:
            done = turn
            turn, _ = _next_held(shown, turn, start, stop, indices)
            for p in range(start, stop):
                row = np.uint64(indices[p]) * k
                units = np.int64(found[at + p - start])
                for i in range(done, min(turn, shown.size)):
                    gains[row + np.uint64(i)] += units
            at += 1 + stop - start
        listed = np.uint64(book[LISTED])
        size = np.uint64(stop - start)
        if book[ALL] != 0 or listed + size > np.uint64(touched.size):
            book[ALL] = 1
            continue
        for p in range(start, stop):
            touched[listed + np.uint64(p - start)] = indices[p]
        book[LISTED] = np.int64(listed + size)
        book[REACH] = np.int64(k)
