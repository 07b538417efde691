"""Compiled loops over stores of people: keyed hashes of identities, buckets of rows, one bucket's people."""

from __future__ import annotations

from .identities import FINE, LOOK, MISSING, hash_text, hash_whole
from .numbers import moved, number_texts
from .rows import in_order, people, scatter, wrong

__all__ = [
    "FINE",
    "LOOK",
    "MISSING",
    "hash_text",
    "hash_whole",
    "in_order",
    "moved",
    "number_texts",
    "people",
    "scatter",
    "wrong",
]
