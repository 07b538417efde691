"""Numbers of different texts, in the order in which they come."""

from __future__ import annotations

import numpy as np

from ..compiled import loop

_AHEAD = 64  # texts whose places in memory are touched before they are compared
_1 = np.uint64(1)


@loop()
def number_texts(ends, text, hashes, table, known_ends, known, count, out):  # type: ignore[no-untyped-def]
    """The number of each text; new ones get the next, and are added to those known. How many there are
    comes back, and something that means nothing.

    ``table``: at each place a hash and, above 0, the number of the text that has it plus 1; there must be
    more places than texts, a power of 2.
    """
    last = np.uint64(table.shape[0] - 1)
    ahead, letters = np.empty(_AHEAD, dtype=np.int64), np.uint8(0)
    for i in range(out.size):
        if i % _AHEAD == 0:  # one after the other each would wait for memory
            some = min(_AHEAD, out.size - i)
            for r in range(some):
                ahead[r] = table[hashes[i + r] & last, 1]
            for r in range(some):
                ahead[r] = known_ends[max(ahead[r] - 1, 0)]
            for r in range(some):
                letters |= known[ahead[r]]
        start, size = np.int64(ends[i]), np.int64(ends[i + 1]) - np.int64(ends[i])
        place = hashes[i] & last
        while True:
            number = np.int64(table[place, 1])
            if number == 0:
                at = known_ends[count]
                for j in range(size):
                    known[at + j] = text[start + j]
                count += 1
                known_ends[count] = at + size
                table[place, 0], table[place, 1] = hashes[i], np.uint64(count)
                number = count
                break
            if table[place, 0] == hashes[i]:
                at, j = known_ends[number - 1], 0
                if known_ends[number] - at == size:
                    while j < size and known[at + j] == text[start + j]:
                        j += 1
                    if j == size:
                        break
            place = (place + _1) & last
        out[i] = number - 1
    return count, letters


@loop()
def moved(table, to):  # type: ignore[no-untyped-def]
    """The entries of a table to a larger one, which is empty."""
    last = np.uint64(to.shape[0] - 1)
    for i in range(table.shape[0]):
        if table[i, 1] == 0:
            continue
        place = table[i, 0] & last
        while to[place, 1] != 0:
            place = (place + _1) & last
        to[place, 0], to[place, 1] = table[i, 0], table[i, 1]
