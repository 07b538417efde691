"""Differences between compilers: see portable.h."""

from libc.stdint cimport uint64_t

cdef extern from "portable.h" nogil:
    # Return types of functions that are compiled twice, for wide vector units and for all others.
    ctypedef void cloned "DISCREET_CLONES void"
    ctypedef void cloned_wide "DISCREET_WIDE_CLONES void"  # and once more for the widest
    # Of functions declared inline: compiled into each caller, where literal arguments are constants.
    ctypedef void inlined "DISCREET_INLINED void"

    uint64_t product "discreet_product"(uint64_t first, uint64_t second, uint64_t *lower)
