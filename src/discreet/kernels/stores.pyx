"""Loops over stores of people: keyed hashes of identities, one bucket's people, and sums over a bucket.

Every hash is SipHash-2-4 (Aumasson and Bernstein 2012) under a secret of two words: of an identity's text in
UTF-8 (an integer is hashed as its digits), of a person's key, or of that and an item.

A sum over a bucket keeps nothing about people between two passes. A person's earlier gains follow from their
own row and the order of choice: they are computed again, from the same numbers and in the same order as in
`rows`.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memcpy

import numpy as np

from .portable cimport cloned, cloned_wide, product
from .rows cimport CAP, COVER, gain, step, whole_steps

cpdef enum:
    # Kinds of text: a name as written, a missing one, or one to normalize.
    FINE = 0
    MISSING = 1
    LOOK = 2

cdef enum:
    SIDE = 64  # texts that are hashed in parallel
    AHEAD = 64  # texts that are prefetched before they are compared
    FEW = 24  # rows that are sorted by insertion
    COARSE = 8  # bits of keys, at most, by which rows are sorted first
    NEAR = 4096  # rows that fit in the cache for the rest
    DIGIT = 11  # bits of items by which rows are sorted at a time
    CELL = 2  # rows that share the first bits of their keys, on average
    BLOCK = 64  # entries searched at a time, without a branch for each

ctypedef fused end_type:
    int32_t
    int64_t

ctypedef fused item_type:
    uint16_t
    uint32_t

ctypedef fused integer:
    int64_t
    uint64_t


# --- hashes -------------------------------------------------------------------------------------------------

cdef struct Sip:
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d


cdef inline Sip _keyed(const uint64_t *key) noexcept nogil:
    return Sip(
        <uint64_t>0x736F6D6570736575 ^ key[0], <uint64_t>0x646F72616E646F6D ^ key[1],
        <uint64_t>0x6C7967656E657261 ^ key[0], <uint64_t>0x7465646279746573 ^ key[1],
    )


cdef inline void _round(Sip *s) noexcept nogil:
    s.a += s.b
    s.b = (s.b << 13) | (s.b >> 51)
    s.b ^= s.a
    s.a = (s.a << 32) | (s.a >> 32)
    s.c += s.d
    s.d = (s.d << 16) | (s.d >> 48)
    s.d ^= s.c
    s.a += s.d
    s.d = (s.d << 21) | (s.d >> 43)
    s.d ^= s.a
    s.c += s.b
    s.b = (s.b << 17) | (s.b >> 47)
    s.b ^= s.c
    s.c = (s.c << 32) | (s.c >> 32)


cdef inline void _absorb(Sip *s, uint64_t word) noexcept nogil:
    s.d ^= word
    _round(s)
    _round(s)
    s.a ^= word


cdef inline uint64_t _finished(Sip *s) noexcept nogil:
    s.c ^= 0xFF
    _round(s)
    _round(s)
    _round(s)
    _round(s)
    return s.a ^ s.b ^ s.c ^ s.d


cdef inline uint64_t _person_coin(uint64_t person, const uint64_t *key) noexcept nogil:
    cdef Sip s = _keyed(key)
    _absorb(&s, person)
    _absorb(&s, <uint64_t>8 << 56)
    return _finished(&s)


cdef inline uint64_t _item_coin(uint64_t person, uint64_t item, const uint64_t *key) noexcept nogil:
    cdef Sip s = _keyed(key)
    _absorb(&s, person)
    _absorb(&s, item)
    _absorb(&s, <uint64_t>16 << 56)
    return _finished(&s)


cdef inline uint64_t _word(const uint8_t *text) noexcept nogil:
    """The next eight bytes, as a number."""
    cdef uint64_t word
    memcpy(&word, text, 8)
    return word


cdef uint64_t _hash(const uint8_t *text, Py_ssize_t size, const uint64_t *key) noexcept nogil:
    cdef Sip s = _keyed(key)
    cdef uint64_t last = <uint64_t>size << 56
    cdef Py_ssize_t at, whole = size - size % 8
    for at in range(0, whole, 8):
        _absorb(&s, _word(text + at))
    for at in range(whole, size):
        last |= <uint64_t>text[at] << 8 * (at - whole)
    _absorb(&s, last)
    return _finished(&s)


cdef cloned_wide _side_by_side(
    const end_type *ends, const uint8_t *text, Py_ssize_t count, const uint64_t *key, uint64_t *keys
) noexcept nogil:
    """The hashes of `SIDE` texts of ``count`` full words each; eight bytes follow the last of them.

    Each step is done for all texts, so that it can be vectorized.
    """
    cdef Sip s
    cdef uint64_t a[SIDE]
    cdef uint64_t b[SIDE]
    cdef uint64_t c[SIDE]
    cdef uint64_t d[SIDE]
    cdef uint64_t words[SIDE]
    cdef Py_ssize_t at
    cdef uint64_t size
    cdef int r
    s = _keyed(key)
    for r in range(SIDE):
        a[r], b[r], c[r], d[r] = s.a, s.b, s.c, s.d
    for at in range(count + 1):
        for r in range(SIDE):
            words[r] = _word(text + ends[r] + 8 * at)
        if at == count:
            for r in range(SIDE):
                size = <uint64_t>(ends[r + 1] - ends[r])
                words[r] = size << 56 | (words[r] & ((<uint64_t>1 << 8 * (size & 7)) - 1))
        for r in range(SIDE):
            s.a, s.b, s.c, s.d = a[r], b[r], c[r], d[r]
            _absorb(&s, words[r])
            a[r], b[r], c[r], d[r] = s.a, s.b, s.c, s.d
    for r in range(SIDE):
        s.a, s.b, s.c, s.d = a[r], b[r], c[r], d[r]
        keys[r] = _finished(&s)


cdef void _hash_texts(
    const end_type *ends, Py_ssize_t count, const uint8_t *text, Py_ssize_t size, const uint64_t *key,
    uint64_t *keys,
) noexcept nogil:
    cdef Py_ssize_t first, i, words
    cdef bint equal
    for first in range(0, count, 64):
        equal = first + SIDE <= count and ends[first + SIDE] + 8 <= size
        if equal:
            words = (ends[first + 1] - ends[first]) >> 3
            for i in range(first, first + SIDE):
                equal &= (ends[i + 1] - ends[i]) >> 3 == words
        if equal:
            _side_by_side(ends + first, text, words, key, keys + first)
            continue
        for i in range(first, min(first + SIDE, count)):
            keys[i] = _hash(text + ends[i], ends[i + 1] - ends[i], key)


cdef int _check_texts(const end_type[::1] ends, const uint8_t[::1] text) except -1:
    cdef Py_ssize_t i
    cdef bint right = ends.shape[0] > 0 and ends[0] >= 0 and ends[ends.shape[0] - 1] <= text.shape[0]
    for i in range(1, ends.shape[0]):
        right &= ends[i - 1] <= ends[i]
    if not right:
        raise ValueError("texts end one after the other, inside the letters")
    return 0


cdef int _check_key(const uint64_t[::1] key) except -1:
    if key.shape[0] != 2:
        raise ValueError("a secret has two words")
    return 0


def hash_texts(const end_type[::1] ends not None, const uint8_t[::1] text not None, const uint64_t[::1] key):
    """The hash of each text; text i is ``text[ends[i]:ends[i + 1]]``."""
    _check_texts(ends, text)
    _check_key(key)
    cdef Py_ssize_t count = ends.shape[0] - 1
    keys = np.empty(count, dtype=np.uint64)
    cdef uint64_t[::1] out = keys
    cdef const uint8_t *letters = &text[0] if text.shape[0] else NULL
    if count:
        with nogil:
            _hash_texts(&ends[0], count, letters, text.shape[0], &key[0], &out[0])
    return keys


def hash_integers(const integer[::1] values not None, const uint64_t[::1] key):
    """The hash of each integer: that of its decimal digits."""
    cdef Py_ssize_t count = values.shape[0], i, some, end
    cdef int32_t ends[SIDE + 1]
    cdef uint8_t text[SIDE * 20 + 8]
    _check_key(key)
    keys = np.empty(count, dtype=np.uint64)
    cdef uint64_t[::1] out = keys
    with nogil:
        for i in range(0, count, 64):
            some = min(count - i, <Py_ssize_t>SIDE)
            end = _digits(&values[i], some, ends, text)
            _hash_texts(<const int32_t *>ends, some, text, end + 8, &key[0], &out[i])
    return keys


cdef Py_ssize_t _digits(const integer *values, Py_ssize_t count, int32_t *ends, uint8_t *text) noexcept nogil:
    """Write numbers in decimal digits, consecutively; returns the end of the last."""
    cdef uint8_t room[20]
    cdef uint64_t left
    cdef Py_ssize_t end = 0, at, i
    ends[0] = 0
    for i in range(count):
        left = <uint64_t>values[i]
        if values[i] < 0:
            left = ~left + 1
            text[end] = c"-"
            end += 1
        at = 20
        while True:
            at -= 1
            room[at] = c"0" + <uint8_t>(left % 10)
            left = left // 10
            if not left:
                break
        memcpy(text + end, room + at, 20 - at)
        end += 20 - at
        ends[i + 1] = <int32_t>end
    return end


def person_coins(const uint64_t[::1] keys not None, const uint64_t[::1] secret not None):
    """A keyed hash of each person's key, indistinguishable from random words without the secret."""
    cdef Py_ssize_t i
    _check_key(secret)
    coins = np.empty(keys.shape[0], dtype=np.uint64)
    cdef uint64_t[::1] out = coins
    with nogil:
        for i in range(keys.shape[0]):
            out[i] = _person_coin(keys[i], &secret[0])
    return coins


# --- texts --------------------------------------------------------------------------------------------------

cdef inline bint _around(uint8_t letter) noexcept nogil:
    return letter in (0, 32) or 9 <= letter <= 13 or 28 <= letter <= 31


cdef inline bint _digit(uint8_t letter) noexcept nogil:
    return 48 <= letter <= 57


cdef bint _odd_number(const uint8_t *text, Py_ssize_t size) noexcept nogil:
    """Whether a text may be a number not written as Python writes integers: 007, 7.0."""
    cdef Py_ssize_t at, first = text[0] == c"-"
    cdef bint plain = first < size and (text[first] != c"0" or size == 1)
    for at in range(size):
        if not (_digit(text[at]) or text[at] in (c"+", c"-", c".", c"e", c"E")):
            return False
    for at in range(first, size):
        plain &= _digit(text[at])
    return not plain


cdef int _kind(const uint8_t *text, Py_ssize_t size) noexcept nogil:
    """The kind of a text."""
    if not size:
        return MISSING
    cdef uint8_t first = text[0], last = text[size - 1]
    if size == 3 and (first == c"N" or first == c"n") and text[1] == c"a" and last == first:
        return MISSING
    if _around(first) or _around(last) or first >= 0x80 or last >= 0x80:
        return LOOK  # blanks, also of other scripts, and NULs are stripped from names
    return LOOK if first <= c"9" and _odd_number(text, size) else FINE


def kinds_of(const end_type[::1] ends not None, const uint8_t[::1] text not None):
    """The kind of each text: `FINE`, `MISSING` or `LOOK`."""
    _check_texts(ends, text)
    cdef Py_ssize_t count = ends.shape[0] - 1, i
    cdef const uint8_t *letters = &text[0] if text.shape[0] else NULL
    kinds = np.empty(count, dtype=np.uint8)
    cdef uint8_t[::1] out = kinds
    with nogil:
        for i in range(count):
            out[i] = _kind(letters + ends[i], ends[i + 1] - ends[i])
    return kinds


cdef class TextNumbers:
    """Numbers of distinct texts, in order of appearance."""

    cdef readonly Py_ssize_t count
    cdef const uint64_t[::1] key
    cdef uint64_t[:, ::1] table  # a hash, and the number of the text that has it plus 1; 0 for none
    cdef object arrays  # where the stored texts end, and their bytes
    cdef int64_t[::1] ends
    cdef uint8_t[::1] known

    def __init__(self, const uint64_t[::1] key not None):
        _check_key(key)
        self.key = key
        self.table = np.zeros((1 << 10, 2), dtype=np.uint64)
        self._hold(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint8))

    cdef int _hold(self, ends, known) except -1:
        self.arrays, self.ends, self.known = (ends, known), ends, known
        return 0

    def add(self, const end_type[::1] ends not None, const uint8_t[::1] text not None):
        """The number of each text; new ones get the next."""
        cdef Py_ssize_t count = ends.shape[0] - 1, i
        hashes = hash_texts(ends, text, self.key)
        numbers = np.empty(count, dtype=np.int64)
        cdef const uint64_t[::1] hash = hashes
        cdef int64_t[::1] out = numbers
        cdef const uint8_t *letters = &text[0] if text.shape[0] else NULL
        if not count:
            return numbers
        self._make_room(count, ends[count] - ends[0])
        with nogil:
            for i in range(count):
                if i % AHEAD == 0:
                    self.touch(&hash[i], min(count - i, <Py_ssize_t>AHEAD))
                out[i] = self.number(letters + ends[i], ends[i + 1] - ends[i], hash[i])
        return numbers

    def texts(self, Py_ssize_t first):
        """The ends and bytes of the texts from a number on."""
        if not 0 <= first <= self.count:
            raise IndexError(f"there are {self.count} texts")
        ends, known = self.arrays
        found = ends[first : self.count + 1]
        return found - found[0], known[found[0] : self.ends[self.count]]

    cdef int _make_room(self, Py_ssize_t count, Py_ssize_t size) except -1:
        """Grow the hash table, at most 3/4 full, and the arrays, for ``count`` more texts of ``size`` bytes."""
        cdef Py_ssize_t places = self.table.shape[0], i
        cdef uint64_t[:, ::1] old = self.table
        cdef uint64_t place
        while 3 * places < 4 * (self.count + count):
            places *= 2
        if places > old.shape[0]:
            self.table = np.zeros((places, 2), dtype=np.uint64)
            for i in range(old.shape[0]):
                if old[i, 1]:
                    place = old[i, 0] & <uint64_t>(places - 1)
                    while self.table[place, 1]:
                        place = (place + 1) & <uint64_t>(places - 1)
                    self.table[place, 0], self.table[place, 1] = old[i, 0], old[i, 1]
        ends, known = self.arrays
        self._hold(_longer(ends, self.count + 1 + count), _longer(known, self.ends[self.count] + size + 1))
        return 0

    cdef void touch(self, const uint64_t *hashes, Py_ssize_t count) noexcept nogil:
        """Prefetch the table entries and bytes of some texts, so that their cache misses overlap."""
        cdef int64_t ahead[AHEAD]
        cdef volatile uint8_t letters = 0
        cdef Py_ssize_t r
        for r in range(count):
            ahead[r] = self.table[hashes[r] & <uint64_t>(self.table.shape[0] - 1), 1]
        for r in range(count):
            ahead[r] = self.ends[ahead[r] - 1 if ahead[r] else 0]
        for r in range(count):
            letters |= self.known[ahead[r]]

    cdef int64_t number(self, const uint8_t *text, Py_ssize_t size, uint64_t hash) noexcept nogil:
        cdef uint64_t last = self.table.shape[0] - 1, place = hash & last
        cdef int64_t number, at
        while self.table[place, 1]:
            number = self.table[place, 1] - 1
            at = self.ends[number]
            if self.table[place, 0] == hash and self.ends[number + 1] - at == size:
                if memcmp(&self.known[at], text, size) == 0:
                    return number
            place = (place + 1) & last
        at = self.ends[self.count]
        memcpy(&self.known[at], text, size)
        self.count += 1
        self.ends[self.count] = at + size
        self.table[place, 0], self.table[place, 1] = hash, self.count
        return self.count - 1


def _longer(array, size):
    """The array with room for at least ``size``."""
    if size <= array.size:
        return array
    larger = np.zeros(max(size, 2 * array.size), dtype=array.dtype)
    larger[: array.size] = array
    return larger


# --- people -------------------------------------------------------------------------------------------------


cdef int _check_rows(const uint64_t[::1] keys, const item_type[::1] items, const double[::1] weights) except -1:
    if items.shape[0] != keys.shape[0] or (weights.shape[0] and weights.shape[0] != keys.shape[0]):
        raise ValueError("rows have a key and an item each, and all or none of them a weight")
    return 0


cdef inline void _move(
    const uint64_t *keys, const item_type *items, const double *weights, Py_ssize_t row, uint64_t *to_keys,
    item_type *to_items, double *to_weights, Py_ssize_t place,
) noexcept nogil:
    to_keys[place] = keys[row]
    to_items[place] = items[row]
    if weights != NULL:
        to_weights[place] = weights[row]


cdef void _scatter(
    const uint64_t *keys, const item_type *items, const double *weights, Py_ssize_t size, uint64_t buckets,
    uint32_t *which, int64_t *starts, int64_t *at, uint64_t *to_keys, item_type *to_items, double *to_weights,
) noexcept nogil:
    cdef Py_ssize_t i, place
    cdef uint64_t b, lower, inverse = <uint64_t>-1 // buckets
    if buckets > 1 and not buckets & (buckets - 1):
        inverse += 1  # exact for powers of two: no correction, hence no mispredicted branch
    for i in range(size):
        # The remainder without a slow division: the quotient is at most 2 too low.
        b = keys[i] - product(keys[i], inverse, &lower) * buckets
        while b >= buckets:
            b -= buckets
        which[i] = <uint32_t>b
        starts[b + 1] += 1
    for b in range(buckets):
        at[b] = starts[b]
        starts[b + 1] += starts[b]
    for i in range(size):
        b = which[i]
        place = at[b]
        at[b] = place + 1
        _move(keys, items, weights, i, to_keys, to_items, to_weights, place)


def scatter(
    const uint64_t[::1] keys not None, const item_type[::1] items not None, const double[::1] weights not None,
    uint64_t buckets,
):
    """Rows by bucket: the start of each bucket, and the keys, items and weights in the order of buckets."""
    cdef Py_ssize_t size = keys.shape[0]
    _check_rows(keys, items, weights)
    if not 1 <= buckets < 1 << 32:
        raise ValueError("there is at least one bucket")
    begins = np.zeros(buckets + 1, dtype=np.int64)
    rows = np.empty(size, np.uint64), np.empty(size, np.asarray(items).dtype), np.empty(weights.shape[0])
    cdef int64_t[::1] starts = begins, at = np.zeros(buckets, dtype=np.int64)
    cdef uint32_t[::1] which = np.empty(size, dtype=np.uint32)
    cdef uint64_t[::1] to_keys = rows[0]
    cdef item_type[::1] to_items = rows[1]
    cdef double[::1] to_weights = rows[2]
    if not size:
        return begins, rows
    with nogil:
        _scatter(
            &keys[0], &items[0], &weights[0] if weights.shape[0] else NULL, size, buckets, &which[0], &starts[0],
            &at[0], &to_keys[0], &to_items[0], &to_weights[0] if weights.shape[0] else NULL,
        )
    return begins, rows


cdef inline bint _before(
    const uint64_t *keys, const item_type *items, Py_ssize_t i, Py_ssize_t j
) noexcept nogil:
    return keys[i] < keys[j] or (keys[i] == keys[j] and items[i] < items[j])


cdef void _heap_sort(
    uint64_t *keys, item_type *items, double *weights, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    """A sort that no adversarial order of rows makes slow."""
    cdef Py_ssize_t first = start + (stop - start) // 2 - 1, last = stop - 1, root, child
    while last > start:
        if first >= start:
            root = first
            first -= 1
        else:
            _swap(keys, items, weights, start, last)
            last -= 1
            root = start
        child = start + 2 * (root - start) + 1
        while child <= last:
            if child < last and _before(keys, items, child, child + 1):
                child += 1
            if not _before(keys, items, root, child):
                break
            _swap(keys, items, weights, root, child)
            root = child
            child = start + 2 * (root - start) + 1


cdef inline void _swap(
    uint64_t *keys, item_type *items, double *weights, Py_ssize_t i, Py_ssize_t j
) noexcept nogil:
    keys[i], keys[j] = keys[j], keys[i]
    items[i], items[j] = items[j], items[i]
    if weights != NULL:
        weights[i], weights[j] = weights[j], weights[i]


cdef void _insertion_sort(
    uint64_t *keys, item_type *items, double *weights, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(start + 1, stop):
        j = i
        while j > start and _before(keys, items, j, j - 1):
            _swap(keys, items, weights, j, j - 1)
            j -= 1


cdef void _spread(
    const uint64_t *keys, const item_type *items, const double *weights, Py_ssize_t start, Py_ssize_t stop,
    bint by_item, int down, int64_t *starts, Py_ssize_t cells, uint64_t *to_keys, item_type *to_items,
    double *to_weights,
) noexcept nogil:
    """A stable sort of rows by some bits of their keys, or of their items.

    ``starts`` gets the start of each cell, and the end of the last.
    """
    cdef uint64_t mask = cells - 1, cell
    cdef Py_ssize_t i, place
    for i in range(cells + 1):
        starts[i] = 0
    for i in range(start, stop):
        starts[(((<uint64_t>items[i] if by_item else keys[i]) >> down) & mask) + 1] += 1
    starts[0] = start
    for i in range(cells):
        starts[i + 1] += starts[i]
    for i in range(start, stop):
        cell = ((<uint64_t>items[i] if by_item else keys[i]) >> down) & mask
        place = starts[cell]
        starts[cell] = place + 1
        _move(keys, items, weights, i, to_keys, to_items, to_weights, place)
    for i in range(cells, 0, -1):  # each has moved to where the next begins
        starts[i] = starts[i - 1]
    starts[0] = start


cdef void _sort(
    const uint64_t *keys, const item_type *items, const double *weights, Py_ssize_t size, uint64_t *to_keys,
    item_type *to_items, double *to_weights, uint64_t *spare_keys, item_type *spare_items,
    double *spare_weights, int coarse, int bits, int64_t *starts,
) noexcept nogil:
    """Sort rows by key and item: by the first bits of the key, then within each cell.

    By few bits at first, so that each cell fits in the cache. There by item and then by further bits of the
    key, after which nearly all rows are in order. ``spare_...`` is memory for as many rows, ``starts`` for
    all cells.
    """
    cdef Py_ssize_t cells = (<Py_ssize_t>1) << coarse, finer = (<Py_ssize_t>1) << (bits - coarse)
    cdef Py_ssize_t start, stop, outer, inner, at
    cdef int64_t *within = starts + cells + 1
    cdef int64_t *by_item = within + finer + 1
    cdef bint two_digits = sizeof(item_type) > 2  # items of more than 16 bits are sorted by two digits
    cdef uint64_t *first_keys = spare_keys if two_digits else to_keys
    cdef item_type *first_items = spare_items if two_digits else to_items
    cdef double *first_weights = spare_weights if two_digits else to_weights
    _spread(
        keys, items, weights, 0, size, False, 64 - coarse, starts, cells, first_keys, first_items, first_weights
    )
    for outer in range(cells):
        start, stop = starts[outer], starts[outer + 1]
        if two_digits:
            _spread(
                spare_keys, spare_items, spare_weights, start, stop, True, 0, by_item, 1 << DIGIT, to_keys,
                to_items, to_weights,
            )
        _spread(
            to_keys, to_items, to_weights, start, stop, True, DIGIT if two_digits else 0, by_item, 1 << DIGIT,
            spare_keys, spare_items, spare_weights,
        )
        _spread(
            spare_keys, spare_items, spare_weights, start, stop, False, 64 - bits, within, finer, to_keys,
            to_items, to_weights,
        )
        for inner in range(finer):
            start, stop = within[inner], within[inner + 1]
            if stop - start <= FEW:
                _insertion_sort(to_keys, to_items, to_weights, start, stop)
                continue
            at = start + 1
            while at < stop and not _before(to_keys, to_items, at, at - 1):
                at += 1
            if at < stop:
                _heap_sort(to_keys, to_items, to_weights, start, stop)


cdef int _compare(const void *one, const void *other) noexcept nogil:
    cdef uint64_t first = (<const uint64_t *>one)[0], second = (<const uint64_t *>other)[0]
    return (first > second) - (first < second)


def people_of(
    const uint64_t[::1] keys not None, const item_type[::1] items not None, const double[::1] weights not None,
    uint64_t nothing, Py_ssize_t cap, const uint64_t[::1] coins not None, const uint64_t[::1] marks not None,
):
    """The people of one bucket's rows, in any order: keys, ends, items and weights.

    Of a person's rows with one item the largest weight is kept; weight 0 and the item ``nothing`` give no
    entry, but the person still counts. Of more than ``cap`` items those with the lowest keyed hash are kept
    (0 is no cap): of the person and the item's number, or its mark if ``marks`` has one for each item.
    """
    cdef Py_ssize_t size = keys.shape[0], people = 0, entries = 0, i = 0, begin, kept, j
    cdef bint weighted = weights.shape[0] > 0
    cdef int coarse = 1, bits = 1
    cdef uint64_t person, mark, highest
    cdef item_type item
    cdef double weight
    _check_rows(keys, items, weights)
    _check_key(coins)
    if cap > 0 and marks.shape[0]:
        for i in range(size):
            if items[i] >= <uint64_t>marks.shape[0] and items[i] != nothing:
                raise IndexError("an item has no mark")
        i = 0
    ends = np.zeros(size + 1, dtype=np.int64)
    kind = np.asarray(items).dtype
    rows = np.empty(size, np.uint64), np.empty(size, kind), np.empty(weights.shape[0])
    room = np.empty(size, np.uint64), np.empty(size, kind), np.empty(weights.shape[0])
    if not size:
        return rows[0], ends, rows[1], rows[2]
    while size // CELL >> (bits + 1):
        bits += 1
    while coarse < min(bits, <int>COARSE) and size >> coarse > NEAR:
        coarse += 1
    cdef int64_t[::1] stops = ends
    cdef int64_t[::1] starts = np.empty((1 << coarse) + (1 << (bits - coarse)) + (1 << DIGIT) + 3, dtype=np.int64)
    cdef uint64_t[::1] to_keys = rows[0], drawn = room[0], ordered = np.empty(size if cap > 0 else 0, np.uint64)
    cdef item_type[::1] to_items = rows[1], some_items = room[1]
    cdef double[::1] to_weights = rows[2], some_weights = room[2]
    with nogil:
        _sort(
            &keys[0], &items[0], &weights[0] if weighted else NULL, size, &to_keys[0], &to_items[0],
            &to_weights[0] if weighted else NULL, &drawn[0], &some_items[0],
            &some_weights[0] if weighted else NULL, coarse, bits, &starts[0],
        )
        while i < size:
            person, begin = to_keys[i], entries
            while i < size and to_keys[i] == person:
                item = to_items[i]
                weight = to_weights[i] if weighted else 1.0
                i += 1
                while i < size and to_keys[i] == person and to_items[i] == item:
                    if weighted and to_weights[i] > weight:
                        weight = to_weights[i]
                    i += 1
                if item == nothing or weight == 0.0:
                    continue
                to_items[entries] = item
                if weighted:
                    to_weights[entries] = weight
                entries += 1
            if 0 < cap < entries - begin:
                for j in range(begin, entries):
                    mark = marks[to_items[j]] if marks.shape[0] else to_items[j]
                    drawn[j - begin] = ordered[j - begin] = _item_coin(person, mark, &coins[0])
                qsort(&ordered[0], entries - begin, sizeof(uint64_t), _compare)
                highest = ordered[cap - 1]
                kept = begin
                for j in range(begin, entries):
                    if drawn[j - begin] <= highest and kept - begin < cap:
                        to_items[kept] = to_items[j]
                        if weighted:
                            to_weights[kept] = to_weights[j]
                        kept += 1
                entries = kept
            to_keys[people] = person
            people += 1
            stops[people] = entries
    return rows[0][:people], ends[: people + 1], rows[1][:entries], rows[2][:entries if weighted else 0]


def broken_rule(
    const uint64_t[::1] keys not None, const int64_t[::1] ends not None, const item_type[::1] items not None,
    const double[::1] weights not None, uint64_t buckets, uint64_t number, uint64_t n_items, Py_ssize_t cap,
    double highest,
):
    """The number of the rule that a bucket breaks; 0 if it breaks none."""
    cdef Py_ssize_t size = keys.shape[0], i, j, start, stop
    cdef bint weighted = weights.shape[0] > 0
    cdef int rule = 0
    if ends.shape[0] != size + 1 or ends[0] != 0 or ends[size] != items.shape[0] or not buckets:
        return 1
    if weighted and weights.shape[0] != items.shape[0]:
        return 1
    with nogil:
        for i in range(size):
            start, stop = ends[i], ends[i + 1]
            if keys[i] % buckets != number:
                rule = 2
            elif i > 0 and keys[i] <= keys[i - 1]:
                rule = 3
            elif stop < start or stop > items.shape[0]:
                rule = 1
            elif cap > 0 and stop - start > cap:
                rule = 4
            if rule:
                break
            for j in range(start, stop):
                if items[j] >= n_items:
                    rule = 5
                elif j > start and items[j] <= items[j - 1]:
                    rule = 6
                elif weighted and not (0.0 < weights[j] <= highest and weights[j] < INFINITY):
                    rule = 7
                else:
                    continue
                break
            if rule:
                break
    return rule


# --- sums over a bucket -------------------------------------------------------------------------------------

UNKNOWN = "a bucket holds items that are not in the catalogue"


cdef struct Place:
    int64_t rank
    Py_ssize_t entry
    double steps  # that the item added


cdef struct Row:
    Py_ssize_t start
    Py_ssize_t stop
    double limit
    double state  # after the chosen items of the row
    double left  # the steps that the row may still add
    Py_ssize_t held  # how many chosen items it has


cdef class Scan:
    """Sums of gains over the rows of a bucket, given items ``chosen`` in this order.

    A row's function is of a ``kind``, with the factor ``share`` and a cap: ``cap`` for everybody or, if above
    0, the fraction ``saturation`` of the row's total weight. One person adds at most ``most`` steps of
    ``1 / per_unit``. With a ``secret`` of two words only people whose keyed hash is below ``keep`` count.
    """

    cdef int kind
    cdef Py_ssize_t n_items, chosen
    cdef int64_t[::1] rank  # of each item in the order of choice, -1 for the others
    cdef double fresh, cap, saturation, share, most, per_unit
    cdef const uint64_t[::1] secret
    cdef uint64_t keep

    def __init__(self, int kind, Py_ssize_t n_items, chosen, numbers, sample):
        """``numbers``: fresh state, cap, saturation, share, most and per_unit. ``sample``: secret and keep."""
        cdef int64_t item
        cdef Py_ssize_t place
        if not COVER <= kind <= CAP:
            raise ValueError(f"there is no kind {kind} of rows")
        self.kind, self.n_items, self.chosen = kind, n_items, len(chosen)
        self.rank = np.full(n_items, -1, dtype=np.int64)
        for place, item in enumerate(chosen):
            if not 0 <= item < n_items:
                raise IndexError(f"item {item} is not one of {n_items}")
            self.rank[item] = place
        self.fresh, self.cap, self.saturation, self.share, self.most, self.per_unit = numbers
        self.secret, self.keep = sample
        if self.secret.shape[0]:
            _check_key(self.secret)

    cdef Place[::1] _places(self):
        return np.empty(self.chosen + 1, dtype=[("rank", np.int64), ("entry", np.intp), ("steps", np.float64)])

    def sums(
        self, const int64_t[::1] ends not None, const item_type[::1] items not None,
        const double[::1] weights not None, const uint64_t[::1] keys not None, Py_ssize_t first,
        Py_ssize_t last, bint chosen=False,
    ):
        """The gain of every item on top of the chosen ones, in steps, for the rows first..last-1.

        With ``chosen``: the gain of each chosen item when it was chosen, in order.
        """
        found = np.zeros(self.chosen if chosen else self.n_items, dtype=np.int64)
        cdef int64_t[::1] out = found
        cdef Place[::1] places = self._places()
        cdef const double *weighted = &weights[0] if weights.shape[0] else NULL
        cdef Row row
        cdef Py_ssize_t i, t, largest = -1
        _check_bucket(ends, items, weights, keys, first, last)
        if last > first:
            _largest(&items[0], ends[first], ends[last], &largest)
        if largest >= self.n_items:
            raise ValueError(UNKNOWN)
        with nogil:
            for i in range(first, last):
                if not _counts(self, keys[i]):
                    continue
                _open(self, ends[i], ends[i + 1], &items[0], weighted, &places[0], &row)
                if not chosen:
                    _add_row(self, &items[0], weighted, &row, &out[0])
                    continue
                for t in range(row.held):
                    out[places[t].rank] += <int64_t>places[t].steps
        return found

    def change(
        self, const int64_t[::1] ends not None, const item_type[::1] items not None,
        const double[::1] weights not None, const uint64_t[::1] keys not None, Py_ssize_t first,
        Py_ssize_t last, Py_ssize_t item,
    ):
        """The change of `sums` if ``item`` is chosen next; only rows that hold it are processed."""
        found = np.zeros(self.n_items, dtype=np.int64)
        cdef int64_t[::1] out = found
        cdef Place[::1] places = self._places()
        cdef const double *weighted = &weights[0] if weights.shape[0] else NULL
        cdef Row row
        cdef bint sound = True
        cdef Py_ssize_t i = first, p, q, end, largest = -1
        cdef double weight, has, new
        _check_bucket(ends, items, weights, keys, first, last)
        if not 0 <= item < self.n_items:
            raise IndexError(f"item {item} is not one of {self.n_items}")
        p, end = ends[first], ends[last]
        with nogil:
            while True:
                _next(&items[0], &p, end, <item_type>item)
                if p >= end:
                    break
                while ends[i + 1] <= p:
                    i += 1
                q, p = p, p + 1
                if not _counts(self, keys[i]):
                    continue
                _largest(&items[0], ends[i], ends[i + 1], &largest)
                sound = largest < self.n_items
                if not sound:
                    break
                _open(self, ends[i], ends[i + 1], &items[0], weighted, &places[0], &row)
                weight = _weight(weighted, q, row.limit)
                has = row.left - _steps(self, row.state, weight, row.limit, row.left)
                new = step(self.kind, row.state, weight)
                if new == row.state and has == row.left:
                    continue
                for q in range(row.start, row.stop):
                    weight = _weight(weighted, q, row.limit)
                    out[items[q]] += <int64_t>(
                        _steps(self, new, weight, row.limit, has)
                        - _steps(self, row.state, weight, row.limit, row.left)
                    )
        if not sound:
            raise ValueError(UNKNOWN)
        return found


cdef int _check_bucket(
    const int64_t[::1] ends, const item_type[::1] items, const double[::1] weights, const uint64_t[::1] keys,
    Py_ssize_t first, Py_ssize_t last,
) except -1:
    cdef Py_ssize_t size = items.shape[0], i
    if not 0 <= first <= last <= keys.shape[0] or ends.shape[0] != keys.shape[0] + 1:
        raise IndexError(f"rows {first} to {last} are not in a bucket of {keys.shape[0]}")
    cdef bint right = ends[first] >= 0 and ends[last] <= size and weights.shape[0] in (0, size)
    for i in range(first, last):
        right &= ends[i] <= ends[i + 1]
    if not right:
        raise ValueError("rows end one after the other, inside the bucket")
    return 0


cdef cloned _largest(const item_type *items, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *out) noexcept nogil:
    """The largest item of some entries; -1 if there is none."""
    cdef item_type largest = 0
    cdef Py_ssize_t p
    for p in range(start, stop):
        largest = items[p] if items[p] > largest else largest
    out[0] = largest if start < stop else -1


cdef inline bint _counts(Scan scan, uint64_t key) noexcept nogil:
    return not scan.secret.shape[0] or _person_coin(key, &scan.secret[0]) < scan.keep


cdef inline double _steps(Scan scan, double state, double weight, double limit, double left) noexcept nogil:
    return whole_steps(scan.share * gain(scan.kind, state, weight, limit), scan.per_unit, left)


cdef inline double _weight(const double *weights, Py_ssize_t entry, double limit) noexcept nogil:
    cdef double weight = weights[entry] if weights != NULL else 1.0
    return limit if limit < weight else weight


cdef void _open(
    Scan scan, Py_ssize_t start, Py_ssize_t stop, const item_type *items, const double *weights, Place *places,
    Row *row,
) noexcept nogil:
    """The state of a row after its chosen items, in the order of choice."""
    cdef Py_ssize_t p, at, count = 0
    cdef int64_t rank
    cdef double weight, total = 0.0
    row.start, row.stop, row.held = start, stop, 0
    row.state, row.left, row.limit = scan.fresh, scan.most, scan.cap
    if scan.saturation > 0.0:
        for p in range(start, stop):
            total += weights[p] if weights != NULL else 1.0
        row.limit = scan.saturation * total
    if not scan.chosen:
        return
    for p in range(start, stop):
        rank = scan.rank[items[p]]
        if rank < 0 or count == scan.chosen:
            continue
        at = count
        while at > 0 and places[at - 1].rank > rank:
            places[at] = places[at - 1]
            at -= 1
        places[at].rank, places[at].entry = rank, p
        count += 1
    for at in range(count):
        weight = _weight(weights, places[at].entry, row.limit)
        places[at].steps = _steps(scan, row.state, weight, row.limit, row.left)
        row.left -= places[at].steps
        row.state = step(scan.kind, row.state, weight)
    row.held = count


cdef cloned _add_row(
    Scan scan, const item_type *items, const double *weights, const Row *row, int64_t *out
) noexcept nogil:
    # Local copies: the compiler cannot rule out that writing to ``out`` changes the scan.
    cdef int kind = scan.kind
    cdef double state = row.state, left = row.left, limit = row.limit, share = scan.share
    cdef double per_unit = scan.per_unit
    cdef int64_t steps
    cdef Py_ssize_t p, stop = row.stop
    if kind == COVER:
        steps = <int64_t>_steps(scan, state, 1.0, limit, left)
        for p in range(row.start, stop):
            out[items[p]] += steps
        return
    for p in range(row.start, stop):
        steps = <int64_t>whole_steps(
            share * gain(kind, state, _weight(weights, p, limit), limit), per_unit, left
        )
        out[items[p]] += steps


cdef cloned _next(const item_type *items, Py_ssize_t *place, Py_ssize_t stop, item_type item) noexcept nogil:
    """Move to the next entry of the item, or to ``stop``; many entries are searched without branches."""
    cdef Py_ssize_t p = place[0], r
    cdef item_type found
    while p + BLOCK <= stop:
        found = 0
        for r in range(BLOCK):
            found |= items[p + r] == item
        if found:
            break
        p += BLOCK
    while p < stop and items[p] != item:
        p += 1
    place[0] = p


def extent(
    const int64_t[::1] ends not None, const double[::1] weights not None, Py_ssize_t first, Py_ssize_t last
):
    """The most items of a row, the largest total, the largest weight, and 1 if a weight is invalid."""
    cdef Py_ssize_t i, p
    cdef double weight, total, longest = 0.0, heaviest = 0.0, largest = 0.0
    cdef bint wrong = False
    if not 0 <= first <= last < ends.shape[0]:
        raise IndexError(f"rows {first} to {last} are not in a bucket of {ends.shape[0] - 1}")
    for i in range(first, last):
        if ends[i] < 0 or ends[i + 1] < ends[i] or (weights.shape[0] and ends[i + 1] > weights.shape[0]):
            raise ValueError("rows end one after the other, inside the bucket")
    with nogil:
        for i in range(first, last):
            total = 0.0
            for p in range(ends[i], ends[i + 1]):
                weight = weights[p] if weights.shape[0] else 1.0
                wrong |= not (weight > 0.0 and weight < INFINITY)
                total += weight
                largest = max(largest, weight)
            longest = max(longest, <double>(ends[i + 1] - ends[i]))
            heaviest = max(heaviest, total)
    return np.array([longest, heaviest, largest, float(wrong)])
