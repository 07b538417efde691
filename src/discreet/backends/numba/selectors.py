"""Compiled steps that learners of sets share: what a person of a row family gains, and drawing."""

from __future__ import annotations

import math

import numpy as np

from .compiled import loop, part
from .objectives import BEST, COVER, SURVIVE, _gain, _step
from .vectors import exponentials

# A person's weight is a multiple of 2^-28, and lower by more than the rounding of 2^31 squares can add.
_WEIGHTS = 2.0**28
_NORM_SLACK = 1.0 - 2.0**-20


@loop()
def norm_weight(squares):  # type: ignore[no-untyped-def]
    """What a vector with this sum of squares is multiplied by to have a norm of at most 1."""
    return math.floor(_WEIGHTS * _NORM_SLACK / max(1.0, math.sqrt(squares))) / _WEIGHTS


@part
def _weight_of(item, start, stop, indices, data):  # type: ignore[no-untyped-def]
    """The row's weight for ``item``, 0 if it does not hold it; the row is sorted."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < item:
            low = middle + 1
        else:
            high = middle
    return data[low] if low < stop and indices[low] == item else 0.0


@loop()
def row_values(kind, fresh, indptr, indices, data, cap, first, shown, out):  # type: ignore[no-untyped-def]
    """``out[j]`` = value of the set ``shown`` to the person of row ``first + j``."""
    for j in range(out.size):
        row = first + j
        start, stop = indptr[row], indptr[row + 1]
        state = fresh
        value = 0.0
        for item in shown:
            weight = _weight_of(item, start, stop, indices, data)
            if weight != 0.0:
                value += _gain(kind, state, weight, cap[row])
                state = _step(kind, state, weight)
        out[j] = value


@loop()
def row_weight(kind, fresh, data, start, stop, cap, bound):  # type: ignore[no-untyped-def]
    """A person's weight, so that what the items of the row add alone has an L2 norm of at most ``bound``."""
    squares = 0.0
    for p in range(start, stop):
        alone = min(_gain(kind, fresh, data[p], cap) / bound, 1.0)
        squares += alone * alone
    return norm_weight(squares)


@loop()
def row_weights(kind, fresh, indptr, data, cap, bound, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = `row_weight` of the person of row i."""
    for i in range(out.size):
        out[i] = row_weight(kind, fresh, data, indptr[i], indptr[i + 1], cap[i], bound)


@loop()
def add_row_gains(  # type: ignore[no-untyped-def]
    kind, fresh, indptr, indices, data, cap, first, within_limit, shown, bound, weighted, units, most, totals
):
    """Add to ``totals[i, a]`` what item a adds on top of the first i shown, for each person within the limit.

    Gains are counted in whole units, ``units`` to 1 and at most ``most``, rounded down, so that sums of them
    are whole numbers and one person's share in them is exact. ``weighted``: so that what a person's items add
    alone has an L2 norm of at most ``bound``.
    """
    for j in range(within_limit.size):
        if not within_limit[j]:
            continue
        row = first + j
        start, stop = indptr[row], indptr[row + 1]
        scale = units
        if weighted:
            scale = units * row_weight(kind, fresh, data, start, stop, cap[row], bound)
        state = fresh
        for i in range(shown.size):
            for p in range(start, stop):
                item = indices[p]
                again = False
                for e in range(i):
                    again = again or shown[e] == item
                if not again:
                    gain = np.int64(
                        math.floor(min(_gain(kind, state, data[p], cap[row]) * scale, float(most)))
                    )
                    totals[i, item] += max(np.int64(0), gain)
            weight = _weight_of(shown[i], start, stop, indices, data)
            if weight != 0.0:
                state = _step(kind, state, weight)


@part
def _joined(kind, first, second):  # type: ignore[no-untyped-def]
    """The state of a row once the items of two states are chosen."""
    if kind in (COVER, BEST):
        return max(first, second)
    if kind == SURVIVE:
        return first * second
    return first + second


@loop()
def add_leave_one_out(  # type: ignore[no-untyped-def]
    kind, fresh, indptr, indices, data, cap, first, within_limit, inside, bound, units, totals
):
    """Add to ``totals`` what each item adds to the others that are ``inside``, for people within the limit.

    Gains are in units of the bound, at most what the item adds alone. Each person's are weighted so that what
    the items add alone has an L2 norm of at most 1, and counted in whole units, ``units`` to 1, rounded down.
    """
    shown = 0
    for item in range(inside.size):
        shown += inside[item]
    after = np.empty(shown + 1)
    for j in range(within_limit.size):
        if not within_limit[j]:
            continue
        row = first + j
        start, stop = indptr[row], indptr[row + 1]
        count = 0
        for p in range(start, stop):
            count += inside[indices[p]]
        weight = units * row_weight(kind, fresh, data, start, stop, cap[row], bound)
        # The states of the shown items from the i-th on; those before it are joined to them.
        after[count] = fresh
        place = count
        for p in range(stop - 1, start - 1, -1):
            if inside[indices[p]]:
                after[place - 1] = _step(kind, after[place], data[p])
                place -= 1
        before = fresh
        for p in range(start, stop):
            state = after[0]
            if inside[indices[p]]:
                state = _joined(kind, before, after[place + 1])
                before = _step(kind, before, data[p])
                place += 1
            alone = min(_gain(kind, fresh, data[p], cap[row]) / bound, 1.0)
            gain = min(_gain(kind, state, data[p], cap[row]) / bound, alone)
            totals[indices[p]] += np.int64(math.floor(max(0.0, gain) * weight))


@loop()
def draw_ordered(scores, rate, coins, out):  # type: ignore[no-untyped-def]
    """One item per row of ``scores``, with weights exp(rate * score), never one that is already in the set.

    Ordinary floating point: for scores that have already left through the gate.
    """
    count, items = scores.shape
    arguments, weights, taken = np.empty(items), np.empty(items), np.zeros(items, dtype=np.bool_)
    for i in range(count):
        top = -np.inf
        for a in range(items):
            if scores[i, a] > top and not taken[a]:
                top = scores[i, a]
        for a in range(items):
            arguments[a] = rate * (scores[i, a] - top)
        exponentials(np.uint64(items), arguments, weights)
        for e in range(i):
            weights[out[e]] = 0.0
        total = 0.0
        for a in range(items):
            total += weights[a]
        left = coins[i] * total
        pick = -1
        for a in range(items):
            if weights[a] > 0.0:
                pick = a
                left -= weights[a]
                if left < 0.0:
                    break
        taken[pick] = True
        out[i] = pick
