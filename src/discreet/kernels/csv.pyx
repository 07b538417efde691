"""Rows of CSV: lines of bytes to columns of text, each line independently."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memcpy

import numpy as np

cpdef enum:
    # What is wrong with a line.
    FINE = 0
    OPEN = 1  # a cell in quotes does not end on it
    BEHIND = 2  # text after a closing quote
    UNEVEN = 3  # the number of cells is not that of columns
    ENDLESS = 4  # more characters than a line may have


cdef inline bint _breaks(uint8_t letter) noexcept nogil:
    return letter == c"\n" or letter == c"\r"


cdef class CsvLines:
    """Columns of CSV lines, as in Python's ``csv`` with ``strict=True``, except for open quotes.

    ``width`` is the number of columns, and ``places`` are the requested ones. Blank lines are skipped. A line
    whose quote is still open at its end is bad: the next lines may be other people's.
    """

    cdef uint8_t mark[8]  # between cells
    cdef Py_ssize_t many  # bytes of it
    cdef int64_t[::1] slots  # for each column its place among the wanted ones, or -1
    cdef Py_ssize_t wanted, longest
    cdef readonly int64_t line  # lines so far
    cdef readonly int64_t cells  # of the last line

    def __init__(self, bytes separator, Py_ssize_t width, places, Py_ssize_t line, Py_ssize_t longest):
        if not 0 < len(separator) <= 8 or not width:
            raise ValueError("a separator has up to eight bytes, and there is at least one column")
        slots = np.full(width, -1, dtype=np.int64)
        slots[list(places)] = np.arange(len(places))
        self.slots, self.wanted, self.many = slots, len(places), len(separator)
        memcpy(self.mark, <const char *>separator, self.many)
        self.line, self.longest = line, longest

    def read(self, const uint8_t[::1] block not None, bint skip_bad):
        """The rows of a block of complete lines: columns, line numbers, and the last line's fault.

        A column is the ends of its texts and their bytes. With ``skip_bad``, lines with text after a quote or
        a wrong number of cells are left out; other bad lines still end the reading.
        """
        cdef Py_ssize_t size = block.shape[0], at = 0, start, row = 0, c, most = 1
        cdef const uint8_t *text = &block[0] if size else NULL
        cdef int fault = FINE
        with nogil:
            for c in range(size):
                most += _breaks(text[c])
        ends, letters = np.zeros((self.wanted, most + 1), np.int64), np.empty((self.wanted, size), np.uint8)
        numbers = np.empty(most, dtype=np.int64)
        cdef int64_t[:, ::1] end = ends
        cdef uint8_t[:, ::1] letter = letters
        cdef int64_t[::1] number = numbers
        with nogil:
            while at < size and not fault:
                start = at
                self.line += 1
                if not _breaks(text[at]):
                    for c in range(self.wanted):
                        end[c, row + 1] = end[c, row]
                    fault = self.row(text, size, &at, letter, end[:, row + 1])
                    if at - start > self.longest and self.count(text, start, at) > self.longest:
                        fault = ENDLESS
                    if not fault:
                        number[row] = self.line
                        row += 1
                    elif skip_bad and (fault == BEHIND or fault == UNEVEN):
                        fault = FINE
                if at < size:
                    at += 2 if text[at] == c"\r" and at + 1 < size and text[at + 1] == c"\n" else 1
        found = [(ends[c, : row + 1], letters[c, : ends[c, row]]) for c in range(self.wanted)]
        return found, numbers[:row], fault

    cdef int row(
        self, const uint8_t *text, Py_ssize_t size, Py_ssize_t *at, uint8_t[:, ::1] letters, int64_t[:] ends
    ) noexcept nogil:
        """Read one line, up to its break; returns its fault."""
        cdef Py_ssize_t here = at[0], first, c
        cdef int fault = FINE
        cdef Py_ssize_t slot
        self.cells = 0
        while True:
            slot = self.slots[self.cells] if self.cells < self.slots.shape[0] else -1
            self.cells += 1
            if here < size and text[here] == c'"':
                here += 1
                while True:
                    first = here
                    while here < size and text[here] != c'"' and not _breaks(text[here]):
                        here += 1
                    if here == size or text[here] != c'"':
                        fault = OPEN
                        break
                    here += 1
                    if here < size and text[here] == c'"':
                        here += 1
                        self.put(letters, ends, slot, text + first, here - 1 - first)
                        continue
                    self.put(letters, ends, slot, text + first, here - 1 - first)
                    break
                if not fault and here < size and not _breaks(text[here]) and not self.divides(text, size, here):
                    fault = BEHIND
                if fault:
                    break
            else:
                first = here
                while here < size and not _breaks(text[here]) and not self.divides(text, size, here):
                    here += 1
                self.put(letters, ends, slot, text + first, here - first)
            if here == size or _breaks(text[here]):
                break
            here += self.many
        while here < size and not _breaks(text[here]):
            here += 1
        at[0] = here
        return UNEVEN if not fault and self.cells != self.slots.shape[0] else fault

    cdef inline bint divides(self, const uint8_t *text, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
        if text[at] != self.mark[0]:
            return False
        return self.many == 1 or (at + self.many <= size and memcmp(text + at, self.mark, self.many) == 0)

    cdef inline void put(
        self, uint8_t[:, ::1] letters, int64_t[:] ends, Py_ssize_t slot, const uint8_t *text, Py_ssize_t size
    ) noexcept nogil:
        if slot >= 0 and size:
            memcpy(&letters[slot, ends[slot]], text, size)
            ends[slot] += size

    cdef Py_ssize_t count(self, const uint8_t *text, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """Characters between two positions: bytes of UTF-8 that begin one."""
        cdef Py_ssize_t found = 0, i
        for i in range(start, stop):
            found += text[i] & 0xC0 != 0x80
        return found
