"""Compiled bandit experts: the sum trees of `hedge`, fed one number at a time.

Only one item of one expert learns from an exploring round, so a round costs a walk up one tree and, where a
new set is due, k walks down. ``explore`` holds the expert that explores in each round, or -1; ``item`` what
it shows, ``sample`` which sum its value goes to. An exploration sample is over when ``repeats`` rounds of it
have been seen: their sum, with the noise that was drawn for it, is what the expert learns.
"""

from __future__ import annotations

import math

import numpy as np

from .compiled import loop, part
from .hedge import (
    _HIGHEST,
    _LOWEST,
    _U1,
    _U3,
    _U7,
    _U8,
    ASK,
    DONE,
    PERSON,
    _draw,
    _find,
    _largest,
    _lift_path,
    _rebuild,
    _total,
    _units,
    settle,
)
from .objectives import _gain, _step

__all__ = ["block_stream", "chain_stream", "stream", "take_outer", "teach"]


@loop()
def teach(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, k, unit, tile, scratch, taken, expert, item, amount
):
    """Add to what one expert knows of one item, and bring its tree up to date."""
    place = np.uint64(item)
    at = place * k + expert
    gains[at] += amount
    # One weight; the error margin of a draw allows for any exponential that is good to 4 units.
    exponent = min(unit * np.float64(gains[at] - refs[expert]), 700.0)
    leaf = ((place >> _U3) * k + expert) * _U8 + (place & _U7)
    tree[leaf] = math.exp(exponent) if exponent >= -708.0 else 0.0
    _lift_path(tree, starts, place, k, expert)
    total = _total(tree, starts, expert)
    if not (_LOWEST <= total <= _HIGHEST):
        refs[expert] = _largest(gains, k, expert, taken)
        _rebuild(gains, refs, tree, starts, k, expert, expert + _U1, unit, tile, scratch)


@part
def _lay_out(current, k, expert, item, rows, t):  # type: ignore[no-untyped-def]
    """The set of round t into its row: all of it, or its first items and the one that is tried; how many."""
    if expert < 0:
        for i in range(k):
            rows[t, i] = current[i]
        return k
    count = np.uint64(expert)
    known = False
    for i in range(count):
        rows[t, i] = current[i]
        known |= current[i] == item
    if not known:
        rows[t, count] = item
        count += _U1
    for i in range(count, k):
        rows[t, i] = -1
    return count


@part
def _worth(indices, data, start, stop, cap, kind, fresh, rows, t, count):  # type: ignore[no-untyped-def]
    """What the first ``count`` items shown in round t are worth together to the person of one row."""
    state = fresh
    value = 0.0
    for i in range(count):
        p = _find(indices, start, stop, np.uint64(rows[t, i]))
        if p < stop:
            value += _gain(kind, state, data[p], cap)
            state = _step(kind, state, data[p])
    return value


@loop()
def stream(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken,
    finer, most, ratio, centre, repeats,
    indptr, indices, data, cap, kind, fresh, first, within_limit,
    explore, item, sample, due, noise, sums, left, words, current, place, rewards, selections,
):  # fmt: skip
    """Round after round from ``place`` on: a new set where one is due, what it is worth, what is learned."""
    for t in range(np.uint64(place[PERSON]), np.uint64(rewards.size)):
        if due[t]:
            if book[2] != 0:
                settle(gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken)
            if _draw(gains, refs, tree, starts, k, unit, tile, scratch, taken, words, current, place) == ASK:
                place[PERSON] = np.int64(t)
                return ASK
        count = _lay_out(current, k, explore[t], item[t], selections, t)
        person = first + t
        start, stop = indptr[person], indptr[person + _U1]
        rewards[t] = _worth(indices, data, start, stop, cap[person], kind, fresh, selections, t, count)
        if explore[t] < 0:
            continue
        at = sample[t]
        if within_limit[t]:
            sums[at] += _units(rewards[t], finer, most)
        left[at] -= 1
        if left[at] == 0:
            heard = np.float64(sums[at] + noise[at])
            amount = np.int64(np.rint(heard * ratio)) - centre
            expert = np.uint64(explore[t])
            teach(gains, refs, tree, starts, k, unit, tile, scratch, taken, expert, item[t], amount)
            sums[at] = 0
            left[at] = repeats
    return DONE


@loop()
def chain_stream(  # type: ignore[no-untyped-def]
    indptr, indices, data, cap, kind, fresh, first, within_limit, lists, finer, most, clicks, shows, rewards
):
    """What each shown item adds to those before it, person after person, summed up by item in whole steps.

    Nobody adds more than ``most`` steps in all: what rounding would put on top is cut from the last items.
    """
    for t in range(np.uint64(rewards.size)):
        person = first + t
        start, stop = indptr[person], indptr[person + _U1]
        state = fresh
        spare = most
        for i in range(lists.shape[1]):
            shown = lists[t, i]
            shows[shown] += 1
            p = _find(indices, start, stop, np.uint64(shown))
            if p < stop:
                added = _gain(kind, state, data[p], cap[person])
                state = _step(kind, state, data[p])
                rewards[t] += added
                if within_limit[t]:
                    steps = min(_units(added, finer, most), spare)
                    clicks[shown] += steps
                    spare -= steps


@loop()
def block_stream(  # type: ignore[no-untyped-def]
    indptr, indices, data, cap, kind, fresh, first, within_limit, items, slots, finer, most, steps, rewards
):
    """What one set is worth to one person after the other, summed up in whole steps; or, by ``slots``, what
    each of its items adds to those before it, of which nobody adds more than ``most`` steps in all.
    """
    for t in range(np.uint64(rewards.size)):
        person = first + t
        start, stop = indptr[person], indptr[person + _U1]
        state = fresh
        spare = most
        value = 0.0
        for i in range(items.size):
            p = _find(indices, start, stop, np.uint64(items[i]))
            if p < stop:
                added = _gain(kind, state, data[p], cap[person])
                state = _step(kind, state, data[p])
                value += added
                if slots and within_limit[t]:
                    got = min(_units(added, finer, most), spare)
                    steps[i] += got
                    spare -= got
        rewards[t] = value
        if not slots and within_limit[t]:
            steps[0] += _units(value, finer, most)


@loop()
def take_outer(matrix, column, row):  # type: ignore[no-untyped-def]
    """Subtract the outer product of two vectors."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] -= column[i] * row[j]
