"""Keys of people: a keyed hash of each identity's text, the same whatever type a column has.

7, 7.0 and "7", as a number, as text or as a category, are one person; so they are in `from_events`. A person
whose rows got two keys would stand in two buckets, count twice and be protected half as well. So what cannot
be told is refused: fractions, booleans, times, and text that reads as a number but is not written as one
("007", "7.0") where other rows have numbers. Two people with the same key count as
one, which harms nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core.checks import DataError
from ..labels import absent, as_text
from ..source import Column

SHORTEST_KEY = 16
_DIGITS = 1 << 16  # numbers that are written out at a time
_EXACT = 1 << 53  # beyond it floats skip whole numbers
Words = NDArray[np.uint64]


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
    """Keys of people under one secret; remembers which kinds of identities it has met."""

    def __init__(self, key: bytes, asked: str, *, numbers: bool = False, odd: bool = False) -> None:
        self._words = key_words(key, b"store people")
        self._asked = asked
        self.numbers, self.odd = numbers, odd

    def of(self, column: Any) -> tuple[Words, NDArray[np.bool_]]:
        """The key of each row's person, and which rows name nobody; for an array of Arrow's."""
        import pyarrow as arrow

        kinds, kind = arrow.types, column.type
        if kinds.is_dictionary(kind):
            keys, missing = self.of(column.dictionary)
            keys, missing = np.append(keys, np.uint64(0)), np.append(missing, True)
            at = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
            found = keys[at], missing[at]
        elif kinds.is_null(kind):
            found = np.zeros(len(column), dtype=np.uint64), np.ones(len(column), dtype=np.bool_)
        elif kinds.is_integer(kind):
            found = self._whole(column)
        elif kinds.is_floating(kind):
            found = self._floats(column)
        elif kinds.is_decimal(kind):
            found = self._decimals(column)
        elif _is_text(kinds, kind):
            found = self._text(column)
        else:
            raise TypeError(f"{self._asked} holds {kind}; people are named by text or whole numbers, cast it")
        if self.numbers and self.odd:
            raise DataError(
                f"{self._asked} has numbers in some rows and, in others, text that reads as a number and is"
                " written otherwise, such as 007 or 7.0; whether these are the same people cannot be told:"
                " make all of them numbers, or all of them text"
            )
        return found

    def of_column(self, column: Column) -> tuple[Words, NDArray[np.bool_]]:
        """The same for a column of a batch."""
        if type(column.values).__module__.partition(".")[0] == "pyarrow":
            return self.of(column.values)
        keys, missing = self.of_values(column.values)
        return (keys, missing) if column.codes is None else (keys[column.codes], missing[column.codes])

    def of_values(self, values: Sequence[Any] | NDArray[Any]) -> tuple[Words, NDArray[np.bool_]]:
        """The same for Python's values, which may be of several types."""
        import pyarrow as arrow

        try:
            column = arrow.array(values, from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError, UnicodeError):
            column = arrow.array([self._written(value) for value in values], arrow.large_binary())
        return self.of(column)

    def _written(self, value: Any) -> bytes | None:
        if absent(value):
            return None
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) or not isinstance(plain, str | bytes | int | float):
            raise TypeError(
                f"{self._asked} holds a {type(plain).__name__}; people are named by text or whole numbers"
            )
        if isinstance(plain, float) and not (plain.is_integer() and abs(plain) < _EXACT):
            raise self._fraction()
        self.numbers |= isinstance(plain, int | float)
        return as_text(plain).encode("utf-8", "surrogatepass")

    def _whole(self, column: Any) -> tuple[Words, NDArray[np.bool_]]:
        missing = _nulls(column)
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        values = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64, copy=False)
        self.numbers |= not missing.all()
        keys = np.empty(values.size, dtype=np.uint64)
        for start in range(0, values.size, _DIGITS):
            some = values[start : start + _DIGITS]
            ends, text = np.zeros(some.size + 1, dtype=np.int32), np.zeros(24 * some.size + 32, np.uint8)
            backends.stores.digits(some, ends, text)
            here = keys[start : start + _DIGITS]
            backends.stores.hash_text(ends, text, text.view(np.uint64), self._words, here)
        return keys, missing

    def _floats(self, column: Any) -> tuple[Words, NDArray[np.bool_]]:
        import pyarrow as arrow

        values = column.cast(arrow.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        missing = np.isnan(values)
        plain = np.where(missing, 0.0, values)
        if not (np.abs(plain) < _EXACT).all() or (plain != np.floor(plain)).any():
            raise self._fraction()
        keys, _ = self._whole(arrow.array(plain.astype(np.int64)))
        return keys, missing

    def _decimals(self, column: Any) -> tuple[Words, NDArray[np.bool_]]:
        import pyarrow as arrow

        try:
            whole = column.cast(arrow.decimal256(76, 0))
        except arrow.ArrowInvalid:
            raise self._fraction() from None
        self.numbers |= column.null_count < len(column)
        return self._text(whole.cast(arrow.string()))

    def _text(self, column: Any) -> tuple[Words, NDArray[np.bool_]]:
        import pyarrow as arrow

        if column.type not in (arrow.string(), arrow.binary(), arrow.large_string(), arrow.large_binary()):
            column = column.cast(arrow.large_binary())
        wide = column.type in (arrow.large_string(), arrow.large_binary())
        _, places, text = column.buffers()
        size = len(column)
        keys, kinds = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint8)
        if not size:
            return keys, kinds.astype(np.bool_)
        ends = np.frombuffer(places, np.int64 if wide else np.int32)[column.offset :][: size + 1]
        letters = np.zeros(0, dtype=np.uint8) if text is None else np.frombuffer(text, np.uint8)
        words = letters[: letters.size // 8 * 8].view(np.uint64)
        backends.stores.hash_text(ends, letters, words, self._words, keys)
        self.odd |= bool(backends.stores.kinds_of(ends, letters, kinds))
        for row in np.flatnonzero(kinds == backends.stores.LOOK).tolist():
            kinds[row] = absent(as_text(column[row].as_py()))
        missing = kinds == backends.stores.MISSING
        if column.null_count:
            missing |= _nulls(column)
        return keys, missing

    def _fraction(self) -> DataError:
        return DataError(
            f"{self._asked} has fractions, or whole numbers beyond 2^53 as floats, which name nobody"
            " for sure; read the column as text or as whole numbers"
        )


def _is_text(kinds: Any, kind: Any) -> bool:
    plain = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    return any(getattr(kinds, f"is_{one}", _never)(kind) for one in (*plain, "fixed_size_binary"))


def _never(kind: Any) -> bool:  # noqa: ARG001
    return False


def _nulls(column: Any) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
