"""Different values of long columns, found without a Python object for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import backends
from .source import python_values

# Rows that are looked at together: what is known has room for so many more.
_ROWS = 1 << 16
# As Python's dicts have it: nobody arranges texts that are slow to tell apart. Nothing depends on it.
_KEY = np.array([hash("repeats"), hash("of texts")], dtype=np.int64).view(np.uint64)


def countable(kind: Any) -> bool:
    """Whether Arrow's arrays of this type are looked at here: text and whole numbers."""
    import pyarrow as arrow

    return bool(kind in (arrow.string(), arrow.large_string()) or arrow.types.is_integer(kind))


class Repeats:
    """The different values of arrays of one type, numbered as they come."""

    def __init__(self) -> None:
        self._count = 0
        self._table = np.zeros((2 * _ROWS, 2), dtype=np.uint64)
        self._ends = np.zeros(1, dtype=np.int64)
        self._known = np.zeros(0, dtype=np.uint8)

    def of(self, array: Any) -> tuple[NDArray[np.int64], list[Any]]:
        """The number of each row's value, of which none is missing; and the values that are new."""
        if not len(array):
            return np.zeros(0, dtype=np.int64), []
        ends, letters = _bytes(array)
        numbers, before = np.empty(len(array), dtype=np.int64), self._count
        for start in range(0, len(array), _ROWS):
            here = ends[start : start + _ROWS + 1]
            self._make_room(here.size - 1, int(here[-1] - here[0]))
            hashes = np.empty(here.size - 1, dtype=np.uint64)
            words = letters[: letters.size // 8 * 8].view(np.uint64)
            backends.stores.hash_text(here, letters, words, _KEY, hashes)
            self._count, _ = backends.stores.number_texts(
                *(here, letters, hashes, self._table, self._ends, self._known, self._count),
                numbers[start : start + _ROWS],
            )
        return numbers, self._values(array.type, before)

    def _make_room(self, rows: int, size: int) -> None:
        places = self._table.shape[0]
        while 3 * places < 4 * (self._count + rows):
            places *= 2
        if places > self._table.shape[0]:
            larger = np.zeros((places, 2), dtype=np.uint64)
            backends.stores.moved(self._table, larger)
            self._table = larger
        self._ends = _longer(self._ends, self._count + 1 + rows)
        self._known = _longer(self._known, int(self._ends[self._count]) + size + 1)

    def _values(self, kind: Any, first: int) -> list[Any]:
        """The values from a number on, as Python's."""
        import pyarrow as arrow

        ends = self._ends[first : self._count + 1]
        known = self._known[ends[0] : ends[-1]]
        if arrow.types.is_integer(kind):
            return list(known.view(kind.to_pandas_dtype()).tolist())
        places, letters = arrow.py_buffer(ends - ends[0]), arrow.py_buffer(known)
        array = arrow.Array.from_buffers(arrow.large_string(), ends.size - 1, [None, places, letters])
        return python_values(array)


def _bytes(array: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Where the bytes of each value begin and end, and the bytes."""
    import pyarrow as arrow

    if arrow.types.is_integer(array.type):
        values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
        return np.arange(values.size + 1, dtype=np.int64) * values.itemsize, values.view(np.uint8)
    _, places, text = array.buffers()
    wide = array.type == arrow.large_string()
    ends = np.frombuffer(places, np.int64 if wide else np.int32)[array.offset :][: len(array) + 1]
    return ends, np.zeros(0, dtype=np.uint8) if text is None else np.frombuffer(text, np.uint8)


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for at least ``size``."""
    if size <= array.size:
        return array
    larger = np.zeros(max(size, 2 * array.size), dtype=array.dtype)
    larger[: array.size] = array
    return larger
