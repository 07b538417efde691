"""Keys of people: a keyed hash of each one's name by the rule of `core.identity`, whatever type a column has.

A person whose rows got two keys would stand in two buckets, count twice and be protected half as well. Two
people with the same key count as one, which harms nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.identity import name_of
from ...kernels.stores import LOOK, MISSING, hash_integers, hash_texts, kinds_of
from ..source import Column, python_values

SHORTEST_KEY = 16
_EXACT = 1 << 53  # from here on floats skip integers
Words = NDArray[np.uint64]
Keys = tuple[Words, NDArray[np.bool_]]  # the key of each row's person, and which rows name nobody


def key_words(key: bytes, purpose: bytes) -> Words:
    """Two words of a secret, for one purpose."""
    found = hashlib.blake2b(key, digest_size=16, person=purpose).digest()
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


def key_id(key: bytes) -> str:
    """What tells one secret from another and says nothing about it."""
    return hashlib.blake2b(key, digest_size=8, person=b"store key id").hexdigest()


def item_mark(text: str) -> int:
    """A number for an item's text, which is no secret."""
    found = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"store item")
    return int.from_bytes(found.digest(), "little")


class Identities:
    """Keys of people under one secret; each follows from the secret and from one cell."""

    def __init__(self, key: bytes) -> None:
        self._words = key_words(key, b"store people")

    def of_column(self, column: Column) -> Keys:
        """The keys of a column's rows."""
        values = column.values
        if type(values).__module__.partition(".")[0] == "pyarrow":
            return self.of(values)
        found = self.of_values(values)
        return found if column.codes is None else _at(found, column.codes)

    def of_values(self, values: Sequence[Any] | NDArray[Any]) -> Keys:
        """The same for Python's values, which may be of several types."""
        import pyarrow as arrow

        if {str}.issuperset(map(type, values)):
            try:
                return self._text(arrow.array(values, arrow.large_string()))
            except UnicodeError:  # remains of bytes that were no text
                pass
        elif {int}.issuperset(map(type, values)):
            try:
                return self._integers(arrow.array(values, arrow.int64()))
            except (OverflowError, arrow.ArrowInvalid):
                pass
        return self._named(values)

    def of(self, column: Any) -> Keys:
        """The same for an array of Arrow's."""
        import pyarrow as arrow

        kinds, kind = arrow.types, column.type
        if kinds.is_dictionary(kind):
            keys, missing = self.of(column.dictionary)
            keys, missing = np.append(keys, np.uint64(0)), np.append(missing, True)
            at = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
            return keys[at], missing[at]
        if kinds.is_integer(kind):
            return self._integers(column)
        if kinds.is_floating(kind):
            return self._floats(column)
        if kind in (arrow.string(), arrow.large_string()):
            return self._text(column)
        if kinds.is_null(kind) or kinds.is_nested(kind):
            return np.zeros(len(column), dtype=np.uint64), np.ones(len(column), dtype=np.bool_)
        try:
            encoded = column.dictionary_encode()
        except arrow.ArrowNotImplementedError:  # types of Arrow's own that extend others
            return self._named(column.to_pylist())
        at = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        return _at(self._named([*python_values(encoded.dictionary), None]), at)

    def _named(self, values: Sequence[Any] | NDArray[Any]) -> Keys:
        """Any values, each by its name."""
        import pyarrow as arrow

        names = [name_of(value) for value in values]
        missing = np.fromiter((name is None for name in names), np.bool_, len(names))
        texts = arrow.array(["" if name is None else str(name) for name in names], arrow.large_string())
        return hash_texts(*_letters(texts), self._words), missing

    def _integers(self, column: Any) -> Keys:
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        values = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64, copy=False)
        return hash_integers(values, self._words), _nulls(column)

    def _floats(self, column: Any) -> Keys:
        import pyarrow as arrow

        values = column.cast(arrow.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        missing = ~((np.abs(values) < _EXACT) & (values == np.floor(values)))
        keys, _ = self._integers(arrow.array(np.where(missing, 0.0, values).astype(np.int64)))
        return keys, missing

    def _text(self, column: Any) -> Keys:
        """Most names are their text as it stands; the others are looked at, each different one once."""
        import pyarrow as arrow
        from pyarrow import compute

        ends, letters = _letters(column)
        if letters.size and (letters >= 0x80).any():
            try:
                column = compute.utf8_normalize(column, "NFC")
            except arrow.ArrowInvalid:  # no UTF-8
                return self._named(python_values(column))
            ends, letters = _letters(column)
        keys, kinds = hash_texts(ends, letters, self._words), kinds_of(ends, letters)
        missing = (kinds == MISSING) | _nulls(column)
        look = np.flatnonzero((kinds == LOOK) & ~missing)
        if look.size:
            some = column.take(arrow.array(look)).dictionary_encode()
            at = some.indices.to_numpy(zero_copy_only=False)
            keys[look], missing[look] = _at(self._named(some.dictionary.to_pylist()), at)
        return keys, missing


def _letters(column: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Where each text ends, and the letters of all."""
    import pyarrow as arrow

    _, places, text = column.buffers()
    wide = column.type == arrow.large_string()
    size = len(column)
    if not size:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    ends = np.frombuffer(places, np.int64 if wide else np.int32)[column.offset :][: size + 1]
    return ends, np.zeros(0, dtype=np.uint8) if text is None else np.frombuffer(text, np.uint8)


def _at(found: Keys, places: NDArray[Any]) -> Keys:
    return found[0][places], found[1][places]


def _nulls(column: Any) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
