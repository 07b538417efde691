"""Compiled loops over stores of people: keyed hashes of identities, buckets of rows, one bucket's people."""

from __future__ import annotations

from .identities import FINE, LOOK, MISSING, digits, hash_text, kinds_of
from .numbers import moved, number_texts
from .rows import in_order, people, scatter, wrong

__all__ = [
    "FINE",
    "LOOK",
    "MISSING",
    "digits",
    "hash_text",
    "in_order",
    "kinds_of",
    "moved",
    "number_texts",
    "people",
    "scatter",
    "wrong",
]
