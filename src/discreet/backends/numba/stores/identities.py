"""Keyed hashes of identities.

The hash is SipHash-2-4 (Aumasson and Bernstein 2012) of the identity's text in UTF-8: a whole number is
hashed as the digits that a file would hold.
"""

from __future__ import annotations

import numpy as np

from ..compiled import loop, part

FINE, MISSING, LOOK = 0, 1, 2  # what a text is: a name as it stands, nothing, or something to look at

_SIDE = 64  # texts that are hashed side by side
_1, _3, _7, _8, _64 = np.uint64(1), np.uint64(3), np.uint64(7), np.uint64(8), np.uint64(64)
_13, _16, _17, _21, _32 = np.uint64(13), np.uint64(16), np.uint64(17), np.uint64(21), np.uint64(32)
_51, _48, _47, _43, _56 = np.uint64(51), np.uint64(48), np.uint64(47), np.uint64(43), np.uint64(56)
_63, _255 = np.uint64(63), np.uint64(255)
_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)


@part
def sip_round(a, b, c, d):  # type: ignore[no-untyped-def]
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
        a, b, c, d = sip_round(a, b, c, d)
        a, b, c, d = sip_round(a, b, c, d)
        a ^= word
        at += _8
    word = ((stop - start) << _56) | _word(text, words, at, stop - at)
    d ^= word
    a, b, c, d = sip_round(a, b, c, d)
    a, b, c, d = sip_round(a, b, c, d)
    a ^= word
    c ^= _255
    for _ in range(4):
        a, b, c, d = sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@part
def item_coin(person, item, key):  # type: ignore[no-untyped-def]
    """SipHash-2-4 of two words: the person and one of their items."""
    a, b, c, d = _V0 ^ key[0], _V1 ^ key[1], _V2 ^ key[0], _V3 ^ key[1]
    for word in (person, np.uint64(item), _16 << _56):
        d ^= word
        a, b, c, d = sip_round(a, b, c, d)
        a, b, c, d = sip_round(a, b, c, d)
        a ^= word
    c ^= _255
    for _ in range(4):
        a, b, c, d = sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@part
def _space(letter):  # type: ignore[no-untyped-def]
    return letter == 32 or 9 <= letter <= 13 or 28 <= letter <= 31


@part
def _number(text, start, stop):  # type: ignore[no-untyped-def]
    """Whether a text may be a number that is written in another way than Python writes integers: 007, 7.0."""
    for at in range(start, stop):
        letter = text[at]
        if not (48 <= letter <= 57 or letter == 43 or letter == 45 or letter == 46 or letter | 32 == 101):
            return False
    first = start + (text[start] == 45)
    plain = first < stop and (text[first] != 48 or stop - start == 1)
    for at in range(first, stop):
        plain &= 48 <= text[at] <= 57
    return not plain


@part
def _two_words(words, at):  # type: ignore[no-untyped-def]
    """The eight bytes from ``at`` on, which may lie in two words; both of them are there."""
    first, shift = at >> _3, (at & _7) << _3
    return words[first] >> shift | (words[first + _1] << (_63 - shift)) << _1


@part
def _side_by_side(ends, first, words, key, state, keys):  # type: ignore[no-untyped-def]
    """The hashes of ``_SIDE`` texts from the one numbered ``first``; False if they have not as many words.

    Each step is done for all of them, which processors do for several at a time. ``state`` has five rows.
    """
    count = np.uint64(ends[first + 1] - ends[first]) >> _3
    equal = np.uint64(ends[first + _SIDE]) + _16 < np.uint64(words.size) << _3
    for i in range(first, first + _SIDE):
        equal &= np.uint64(ends[i + 1] - ends[i]) >> _3 == count
    if not equal:
        return False
    for r in range(_SIDE):
        state[0, r], state[1, r] = _V0 ^ key[0], _V1 ^ key[1]
        state[2, r], state[3, r] = _V2 ^ key[0], _V3 ^ key[1]
    for at in range(count + _1):
        past = np.uint64(at) << _3
        if at < count:
            for r in range(_SIDE):
                state[4, r] = _two_words(words, np.uint64(ends[first + r]) + past)
        else:
            for r in range(_SIDE):
                start = np.uint64(ends[first + r])
                size = np.uint64(ends[first + r + 1]) - start
                rest = (_1 << ((size & _7) << _3)) - _1
                state[4, r] = size << _56 | (_two_words(words, start + past) & rest)
        for r in range(_SIDE):
            word = state[4, r]
            a, b, c, d = state[0, r], state[1, r], state[2, r], state[3, r] ^ word
            a, b, c, d = sip_round(a, b, c, d)
            a, b, c, d = sip_round(a, b, c, d)
            state[0, r], state[1, r], state[2, r], state[3, r] = a ^ word, b, c, d
    for r in range(_SIDE):
        a, b, c, d = state[0, r], state[1, r], state[2, r] ^ _255, state[3, r]
        for _ in range(4):
            a, b, c, d = sip_round(a, b, c, d)
        keys[first + r] = a ^ b ^ c ^ d
    return True


@part
def _kind(text, start, stop):  # type: ignore[no-untyped-def]
    """What a text is."""
    size = stop - start
    if size == 0:
        return MISSING
    first, last = text[start], text[stop - 1]
    if size == 3 and (first == 78 or first == 110) and text[start + 1] == 97 and last == first:
        return MISSING  # NaN, nan
    if _space(first) or _space(last) or first >= 0x80 or last >= 0x80:
        return LOOK  # blanks, also of other alphabets, are no part of a name
    return LOOK if first <= 57 and _number(text, start, stop) else FINE


@part
def _plain(ends, text, first, last):  # type: ignore[no-untyped-def]
    """Whether all of some texts are names as they stand by their first and last letters alone.

    Without a branch for each text. ``text`` is not empty; of an empty text a letter that follows is read.
    """
    plain, end = True, text.size - 1
    for i in range(first, last):
        letter, other = text[min(np.int64(ends[i]), end)], text[max(np.int64(ends[i + 1]) - 1, 0)]
        plain &= (ends[i] < ends[i + 1]) & (letter > 57) & (letter < 0x80) & (letter | 32 != 110)
        plain &= (other > 32) & (other < 0x80)
    return plain


@loop()
def kinds_of(ends, text, kinds):  # type: ignore[no-untyped-def]
    """What each text is."""
    for first in range(0, kinds.size, _SIDE):
        last = min(first + _SIDE, kinds.size)
        plain = text.size > 0 and _plain(ends, text, first, last)
        for i in range(first, last):
            kinds[i] = FINE if plain else _kind(text, np.int64(ends[i]), np.int64(ends[i + 1]))


@loop()
def hash_text(ends, text, words, key, keys):  # type: ignore[no-untyped-def]
    """The hash of each text; ``words`` is ``text`` in words."""
    state = np.empty((5, _SIDE), dtype=np.uint64)
    for first in range(0, keys.size, _SIDE):
        last = min(first + _SIDE, keys.size)
        if last - first == _SIDE and _side_by_side(ends, first, words, key, state, keys):
            continue
        for i in range(first, last):
            keys[i] = _hash(text, words, np.uint64(ends[i]), np.uint64(ends[i + 1]), key)


@loop()
def digits(values, ends, text):  # type: ignore[no-untyped-def]
    """Whole numbers as files have them, one after the other."""
    room = np.empty(20, dtype=np.uint8)
    end = 0
    for i in range(values.size):
        value = values[i]
        left = np.uint64(value)
        if value < 0:
            left = ~left + _1
            text[end] = 45
            end += 1
        at = 20
        while True:
            rest = left // np.uint64(10)
            at -= 1
            room[at] = np.uint8(48) + np.uint8(left - rest * np.uint64(10))
            left = rest
            if left == 0:
                break
        for j in range(at, 20):
            text[end] = room[j]
            end += 1
        ends[i + 1] = end
