"""Identities of rows as 64 bits, so that random choices about a person depend on the person."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_HALF = 1 << 63
_SIGNS = frozenset("-0123456789")


def digests(names: Iterable[Any]) -> Words:
    """A number for each name, which depends on that name and on nothing else.

    A whole number and its text are one name: whether a column of a file is read as numbers or as text is
    decided by everybody's entries. Two people with the same number share their coins, which harms nobody.

    >>> digests([7, "ann"]).tolist() == digests(["7", "ann"]).tolist()
    True
    """
    listed = list(names)
    if all(type(name) is int and -_HALF <= name < _HALF for name in listed):
        return mixed(np.array(listed, dtype=np.int64).view(np.uint64))
    if all(type(name) is str and name[:1] not in _SIGNS for name in listed):
        found = np.frombuffer(b"".join(map(_digest, listed)), dtype=">u8").astype(np.uint64)
    else:
        found = np.fromiter(map(_word, listed), dtype=np.uint64, count=len(listed))
    return mixed(found)


def keyed(values: Words, key: Words) -> Words:
    """The values, well mixed with the two words of a key: even where they are neighbours, or few."""
    return mixed(mixed(values ^ key[0]) + key[1])


def mixed(values: Words) -> Words:
    """The finaliser of SplitMix64 (Steele et al. 2014): one to one, and well mixed."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _word(name: Any) -> int:
    """Whole numbers themselves, modulo 2^64, also as text ("7", not "07": that is a name); else a hash."""
    text = name if type(name) is str else _text(name)
    if text[:1] in _SIGNS and len(text) <= 20:
        try:
            number = int(text)
        except ValueError:
            pass
        else:
            if str(number) == text and -_HALF <= number < _HALF:
                return number % (2 * _HALF)
    return int.from_bytes(_digest(text))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _text(name: Any) -> str:
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return repr(tuple(_text(part) for part in name))
    if isinstance(name, bool) or (isinstance(name, float) and name.is_integer()):
        return str(int(name))
    if isinstance(name, bytes):
        return repr(name)
    if isinstance(name, str | int | float | Decimal | date | UUID):
        return str(name)
    # Other objects may print where they lie in memory, which depends on whatever else does.
    return type(name).__name__
