"""Compiled loops over stores of people: keyed hashes of identities, buckets of rows, one bucket's people.

The hash is SipHash-2-4 (Aumasson and Bernstein 2012) of the identity's text in UTF-8: a whole number is
hashed as the digits that a file would hold.
"""

from __future__ import annotations

import numpy as np

from .compiled import loop, part

FINE, MISSING, LOOK = 0, 1, 2  # what a text is: a name, nothing, or something to look at letter by letter

_FEW = 24  # entries that are put in order by insertion
_1, _3, _7, _8, _64 = np.uint64(1), np.uint64(3), np.uint64(7), np.uint64(8), np.uint64(64)
_13, _16, _17, _21, _32 = np.uint64(13), np.uint64(16), np.uint64(17), np.uint64(21), np.uint64(32)
_51, _48, _47, _43, _56 = np.uint64(51), np.uint64(48), np.uint64(47), np.uint64(43), np.uint64(56)
_255 = np.uint64(255)
_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)


@part
def _round(a, b, c, d):  # type: ignore[no-untyped-def]
    a += b
    b = (b << _13) | (b >> _51)
    b ^= a
    a = (a << _32) | (a >> _32)
    c += d
    d = (d << _16) | (d >> _48)
    d ^= c
    a += d
    d = (d << _21) | (d >> _43)
    d ^= a
    c += b
    b = (b << _17) | (b >> _47)
    b ^= c
    c = (c << _32) | (c >> _32)
    return a, b, c, d


@part
def _word(text, words, at, count):  # type: ignore[no-untyped-def]
    """The next ``count`` bytes, at most 8, as a number: of two aligned words where these are there."""
    first = at >> _3
    if first + _1 < np.uint64(words.size):
        shift = (at & _7) << _3
        word = words[first] >> shift
        if shift > 0:
            word |= words[first + _1] << (_64 - shift)
        return word if count == _8 else word & ((_1 << (count << _3)) - _1)
    word = np.uint64(0)
    for i in range(count):
        word |= np.uint64(text[at + i]) << (i << _3)
    return word


@part
def _hash(text, words, start, stop, key):  # type: ignore[no-untyped-def]
    """SipHash-2-4 of ``text[start:stop]`` under the two words of ``key``; ``words`` is ``text`` in words."""
    a, b, c, d = _V0 ^ key[0], _V1 ^ key[1], _V2 ^ key[0], _V3 ^ key[1]
    at = start
    while at + _8 <= stop:
        word = _word(text, words, at, _8)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        at += _8
    word = ((stop - start) << _56) | _word(text, words, at, stop - at)
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a ^= word
    c ^= _255
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@part
def _coin(person, item, key):  # type: ignore[no-untyped-def]
    """SipHash-2-4 of two words: the person and one of their items."""
    a, b, c, d = _V0 ^ key[0], _V1 ^ key[1], _V2 ^ key[0], _V3 ^ key[1]
    for word in (person, np.uint64(item), _16 << _56):
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
    c ^= _255
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@part
def _space(letter):  # type: ignore[no-untyped-def]
    return letter == 32 or 9 <= letter <= 13 or 28 <= letter <= 31


@part
def _digits(text, at, stop):  # type: ignore[no-untyped-def]
    while at < stop and 48 <= text[at] <= 57:
        at += 1
    return at


@part
def _odd(text, start, stop):  # type: ignore[no-untyped-def]
    """Whether a text reads as a whole number that nobody's program writes like this: 007, 7.0, +7, 7e2."""
    begin, end = start, stop
    while start < stop and _space(text[start]):
        start += 1
    while end > start and _space(text[end - 1]):
        end -= 1
    at = start
    if text[at] == 43 or text[at] == 45:
        at += 1
    first = at
    at = _digits(text, at, end)
    whole = at - first
    fraction = 0
    if at < end and text[at] == 46:
        for i in range(at + 1, _digits(text, at + 1, end)):
            fraction += 1
            if text[i] != 48:
                return False
        at += 1 + fraction
    if whole + fraction == 0:
        return False
    if at < end and (text[at] == 101 or text[at] == 69):
        at += 1
        if at < end and (text[at] == 43 or text[at] == 45):
            at += 1
        if at == end:
            return False
        at = _digits(text, at, end)
    if at < end:
        return False
    plain = whole == stop - first and (text[first] != 48 or (whole == 1 and first == begin))
    return not (plain and text[begin] != 43 and begin + (text[begin] == 45) == first)


@loop()
def hash_text(ends, text, words, key, keys, kinds):  # type: ignore[no-untyped-def]
    """The hash of each text and what it is; whether any reads as a number that is written oddly."""
    odd = False
    for i in range(keys.size):
        start, stop = np.int64(ends[i]), np.int64(ends[i + 1])
        size = stop - start
        kind = FINE
        if size == 0:
            kind = MISSING
        else:
            first = text[start]
            if first <= 57:  # blanks, signs and digits
                if _space(first):
                    at = start
                    while at < stop and _space(text[at]):
                        at += 1
                    kind = MISSING if at == stop else (LOOK if text[at] >= 0xC2 else FINE)
                if kind != MISSING and not odd:
                    odd = _odd(text, start, stop)
            elif size == 3 and text[start + 1] == 97 and text[start + 2] == first and first in (78, 110):
                kind = MISSING  # NaN, nan
            if first >= 0xC2:
                second = text[start + 1] if size > 1 else np.uint8(0)
                if (
                    (first == 0xC2 and (second == 0x85 or second == 0xA0))
                    or (first == 0xE1 and second == 0x9A)
                    or (first == 0xE2 and (second == 0x80 or second == 0x81))
                    or (first == 0xE3 and second == 0x80)
                ):
                    kind = LOOK
        kinds[i] = kind
        keys[i] = _hash(text, words, np.uint64(start), np.uint64(stop), key)
    return odd


@loop()
def hash_whole(values, key, keys):  # type: ignore[no-untyped-def]
    """The hash of the digits of each whole number."""
    digits = np.zeros(32, dtype=np.uint8)  # of which the last word is never read as one
    words = digits.view(np.uint64)
    for i in range(values.size):
        value = values[i]
        left = np.uint64(value)
        if value < 0:
            left = ~left + _1
        at = 24
        while True:
            rest = left // np.uint64(10)
            at -= 1
            digits[at] = np.uint8(48) + np.uint8(left - rest * np.uint64(10))
            left = rest
            if left == 0:
                break
        if value < 0:
            at -= 1
            digits[at] = 45
        keys[i] = _hash(digits, words, np.uint64(at), np.uint64(24), key)


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


@loop()
def in_order(keys, items, weights, bits, to_keys, to_items, to_weights):  # type: ignore[no-untyped-def]
    """Rows in the order of key and item: by the first bits of the key, then each cell by itself."""
    down = np.uint64(64 - bits)
    starts = np.zeros((1 << bits) + 1, dtype=np.int64)
    for i in range(keys.size):
        starts[(keys[i] >> down) + _1] += 1
    for cell in range(starts.size - 1):
        starts[cell + 1] += starts[cell]
    weighted = weights.size > 0
    at = starts[:-1].copy()
    for i in range(keys.size):
        cell = keys[i] >> down
        place = at[cell]
        at[cell] = place + 1
        to_keys[place] = keys[i]
        to_items[place] = items[i]
        if weighted:
            to_weights[place] = weights[i]
    for cell in range(starts.size - 1):
        start, stop = starts[cell], starts[cell + 1]
        if stop - start > _FEW:
            _heap(to_keys, to_items, to_weights, start, stop, weighted)
            continue
        for i in range(start + 1, stop):
            key, item = to_keys[i], to_items[i]
            weight = to_weights[i] if weighted else 0.0
            j = i - 1
            while j >= start and (to_keys[j] > key or (to_keys[j] == key and to_items[j] > item)):
                to_keys[j + 1] = to_keys[j]
                to_items[j + 1] = to_items[j]
                if weighted:
                    to_weights[j + 1] = to_weights[j]
                j -= 1
            to_keys[j + 1] = key
            to_items[j + 1] = item
            if weighted:
                to_weights[j + 1] = weight


@loop()
def people(keys, items, weights, nothing, cap, coins, ends):  # type: ignore[no-untyped-def]
    """Rows in order become people, in place; how many people and entries there are.

    Of equal rows the largest weight stays, 0 leaves no entry, and neither does the item ``nothing``: the
    person is somebody all the same. Of more than ``cap`` items those with the lowest coins stay.
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
                drawn[j - begin] = _coin(person, items[j], coins)
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
