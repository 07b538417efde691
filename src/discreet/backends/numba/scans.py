"""Compiled passes over buckets of a store: sums in whole steps, with nothing kept about anybody between them.

What a person has been given by the chosen items follows from their own row and from the order of choice
(``rank``: an item's place in it, -1 for the others). So it is worked out again for the rows that matter, from
the same numbers and in the same order as `windows` does it, and a pass is a function of the bucket and of
what was chosen alone. The kind of row is an argument: what takes time is finding the rows.
"""

from __future__ import annotations

import numpy as np

from ..kinds import COVER
from .compiled import loop, part
from .objectives import _gain, _step
from .stores.identities import sip_round
from .windows import _cut

# Words of entries that are searched at a time, without a branch for each.
_WORDS = 16


@part
def _coin(word, secret):  # type: ignore[no-untyped-def]
    """SipHash-2-4 (Aumasson and Bernstein 2012) of one word of eight bytes under a secret of two words."""
    a = secret[0] ^ np.uint64(0x736F6D6570736575)
    b = secret[1] ^ np.uint64(0x646F72616E646F6D)
    c = secret[0] ^ np.uint64(0x6C7967656E657261)
    d = secret[1] ^ np.uint64(0x7465646279746573)
    for message in (word, np.uint64(8) << np.uint64(56)):
        d ^= message
        for _ in range(2):
            a, b, c, d = sip_round(a, b, c, d)
        a ^= message
    c ^= np.uint64(0xFF)
    for _ in range(4):
        a, b, c, d = sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@loop()
def coins(keys, secret, out):  # type: ignore[no-untyped-def]
    """A coin for each key, which nobody can tell from a random one without the secret."""
    for i in range(keys.size):
        out[i] = _coin(keys[i], secret)


@part
def _weight(weights, p, most):  # type: ignore[no-untyped-def]
    weight = weights[p] if weights.size else 1.0
    return min(weight, most)


@part
def _limit(weights, start, stop, cap, saturation):  # type: ignore[no-untyped-def]
    """The row's cap: the same for everybody, or a share of all the row's weights."""
    if saturation <= 0.0:
        return cap
    total = 0.0
    for p in range(start, stop):
        total += weights[p] if weights.size else 1.0
    return saturation * total


@part
def _before(kind, items, weights, start, stop, rank, limit, share, fresh, most, per_unit, places, added):  # type: ignore[no-untyped-def]
    """A row's number and the steps it has left, once its chosen items have come in the order of choice.

    ``places`` (of its chosen items) and ``added`` (the steps of each) are written; how many comes back too.
    """
    count = 0
    for p in range(start, stop):
        place = rank[items[p]]
        if place < 0:
            continue
        at = count
        while at > 0 and places[at - 1, 0] > place:
            places[at, 0], places[at, 1] = places[at - 1, 0], places[at - 1, 1]
            at -= 1
        places[at, 0], places[at, 1] = place, p
        count += 1
    state, left = fresh, most
    for t in range(count):
        weight = _weight(weights, places[t, 1], limit)
        steps = _cut(share * _gain(kind, state, weight, limit), per_unit, left)
        added[t] = steps
        left -= steps
        state = _step(kind, state, weight)
    return state, left, count


@loop()
def sums(  # type: ignore[no-untyped-def]
    kind, ends, items, weights, keys, rank, chosen, cap, saturation, share, fresh, most, per_unit,
    secret, keep, first, last, out,
):  # fmt: skip
    """Adds what every item would add to the chosen ones, for the rows first..last-1.

    With a ``secret`` of two words only people whose coin is below ``keep`` count.
    """
    places, added = np.empty((chosen, 2), dtype=np.int64), np.empty(chosen)
    for i in range(first, last):
        if secret.size and _coin(keys[i], secret) >= keep:
            continue
        start, stop = ends[i], ends[i + 1]
        limit = _limit(weights, start, stop, cap, saturation)
        state, left = fresh, most
        if chosen:
            state, left, _ = _before(
                kind, items, weights, start, stop, rank, limit, share, fresh, most, per_unit, places, added
            )
        if kind == COVER:
            whole = np.int64(_cut(share * (1.0 - state), per_unit, left))
            for p in range(start, stop):
                out[items[p]] += whole
            continue
        for p in range(start, stop):
            gain = share * _gain(kind, state, _weight(weights, p, limit), limit)
            out[items[p]] += np.int64(_cut(gain, per_unit, left))


@loop()
def change(  # type: ignore[no-untyped-def]
    kind, ends, items, weights, keys, rank, chosen, cap, saturation, share, fresh, most, per_unit,
    secret, keep, words, item, first, last, out,
):  # fmt: skip
    """Adds how ``sums`` move once ``item`` is chosen as well: only rows that hold it are looked at.

    ``words`` are the items again, several to a word, of which many are searched without a branch.
    """
    places, added = np.empty((chosen, 2), dtype=np.int64), np.empty(chosen)
    everything = np.int64(_cut(share, per_unit, most))
    i, p, end = first, ends[first], ends[last]
    lanes = 8 // items.itemsize
    low = np.uint64(0x0001000100010001) if lanes == 4 else np.uint64(0x0000000100000001)
    high, pattern = low << np.uint64(8 * items.itemsize - 1), low * np.uint64(item)
    while p < end:
        upto = min(p + _WORDS * lanes - p % lanes, end)
        if p % lanes == 0 and upto == p + _WORDS * lanes:
            found, first_word = np.uint64(0), p // lanes
            for r in range(_WORDS):  # a lane of the difference that is 0 leaves its highest bit
                apart = words[first_word + r] ^ pattern
                found |= (apart - low) & ~apart & high
            if found == 0:
                p = upto
                continue
        r, p = p, upto
        while r < upto:
            if items[r] != item:
                r += 1
                continue
            here = r
            r += 1
            while ends[i + 1] <= here:
                i += 1
            if secret.size and _coin(keys[i], secret) >= keep:
                continue
            start, stop = ends[i], ends[i + 1]
            if kind == COVER:  # served by an earlier item, or by this one first
                q = start
                while q < stop and rank[items[q]] < 0:
                    q += 1
                if q == stop:
                    for q in range(start, stop):
                        out[items[q]] -= everything
                continue
            limit = _limit(weights, start, stop, cap, saturation)
            old, had, _ = _before(
                kind, items, weights, start, stop, rank, limit, share, fresh, most, per_unit, places, added
            )
            weight = _weight(weights, here, limit)
            has = had - _cut(share * _gain(kind, old, weight, limit), per_unit, had)
            new = _step(kind, old, weight)
            if new == old and has == had:
                continue
            for q in range(start, stop):
                weight = _weight(weights, q, limit)
                before = _cut(share * _gain(kind, old, weight, limit), per_unit, had)
                after = _cut(share * _gain(kind, new, weight, limit), per_unit, has)
                out[items[q]] += np.int64(after - before)


@loop()
def chain(  # type: ignore[no-untyped-def]
    kind, ends, items, weights, keys, rank, chosen, cap, saturation, share, fresh, most, per_unit,
    secret, keep, first, last, out,
):  # fmt: skip
    """Adds what each chosen item added when it was chosen."""
    places, added = np.empty((chosen, 2), dtype=np.int64), np.empty(chosen)
    for i in range(first, last):
        if secret.size and _coin(keys[i], secret) >= keep:
            continue
        start, stop = ends[i], ends[i + 1]
        limit = _limit(weights, start, stop, cap, saturation)
        _, _, count = _before(
            kind, items, weights, start, stop, rank, limit, share, fresh, most, per_unit, places, added
        )
        for t in range(count):
            out[places[t, 0]] += np.int64(added[t])


@loop()
def extent(ends, weights, first, last, out):  # type: ignore[no-untyped-def]
    """The most items of a row, its largest total and its largest weight; and whether a weight is no weight.

    ``out`` holds the four of them.
    """
    for i in range(first, last):
        start, stop = ends[i], ends[i + 1]
        total = 0.0
        for p in range(start, stop):
            weight = weights[p] if weights.size else 1.0
            if not (weight > 0.0 and weight < np.inf):
                out[3] = 1.0
                return
            total += weight
            out[2] = max(out[2], weight)
        out[0] = max(out[0], np.float64(stop - start))
        out[1] = max(out[1], total)
