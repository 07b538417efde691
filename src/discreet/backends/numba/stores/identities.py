"""Keyed hashes of identities.

The hash is SipHash-2-4 (Aumasson and Bernstein 2012) of the identity's text in UTF-8: a whole number is
hashed as the digits that a file would hold.
"""

from __future__ import annotations

import numpy as np

from ..compiled import loop, part

FINE, MISSING, LOOK = 0, 1, 2  # what a text is: a name, nothing, or something to look at letter by letter

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
    first = text[start]
    if _space(first):
        at = start
        while at < stop and _space(text[at]):
            at += 1
        return MISSING if at == stop else (LOOK if text[at] >= 0xC2 else FINE)
    if size == 3 and (first == 78 or first == 110) and text[start + 1] == 97 and text[start + 2] == first:
        return MISSING  # NaN, nan
    if first >= 0xC2:
        second = text[start + 1] if size > 1 else np.uint8(0)
        if (
            (first == 0xC2 and (second == 0x85 or second == 0xA0))
            or (first == 0xE1 and second == 0x9A)
            or (first == 0xE2 and (second == 0x80 or second == 0x81))
            or (first == 0xE3 and second == 0x80)
        ):
            return LOOK
    return FINE


@part
def _plain(ends, text, first, last):  # type: ignore[no-untyped-def]
    """Whether all of some texts begin with a letter that names nothing else: no digit, blank, N or rare one.

    Without a branch for each text. ``text`` is not empty; of an empty text a letter that follows is read.
    """
    plain, end = True, text.size - 1
    for i in range(first, last):
        letter = text[min(np.int64(ends[i]), end)]
        plain &= (ends[i] < ends[i + 1]) & (letter > 57) & (letter < 0xC2) & (letter | 32 != 110)
    return plain


@loop()
def kinds_of(ends, text, kinds):  # type: ignore[no-untyped-def]
    """What each text is; whether any reads as a number that is written oddly."""
    odd = False
    for first in range(0, kinds.size, _SIDE):
        last = min(first + _SIDE, kinds.size)
        plain = text.size > 0 and _plain(ends, text, first, last)
        for i in range(first, last):
            kinds[i] = FINE
            if plain:
                continue
            start, stop = np.int64(ends[i]), np.int64(ends[i + 1])
            kinds[i] = _kind(text, start, stop)
            if not odd and kinds[i] != MISSING and text[start] <= 57:  # blanks, signs and digits
                odd = _odd(text, start, stop)
    return odd


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
