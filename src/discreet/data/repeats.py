"""Different values of long columns, found without a Python object for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.stores import TextNumbers
from .source import python_values

# Rows that are looked at together, as there must be room for all of their values.
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
        self._numbers = TextNumbers(_KEY)

    def of(self, array: Any) -> tuple[NDArray[np.int64], list[Any]]:
        """The number of each row's value, of which none is missing; and the values that are new."""
        if not len(array):
            return np.zeros(0, dtype=np.int64), []
        ends, letters = _bytes(array)
        before, starts = self._numbers.count, range(0, len(array), _ROWS)
        numbers = [self._numbers.add(ends[start : start + _ROWS + 1], letters) for start in starts]
        return np.concatenate(numbers), self._values(array.type, before)

    def _values(self, kind: Any, first: int) -> list[Any]:
        """The values from a number on, as Python's."""
        import pyarrow as arrow

        ends, known = self._numbers.texts(first)
        if arrow.types.is_integer(kind):
            return list(known.view(kind.to_pandas_dtype()).tolist())
        places, letters = arrow.py_buffer(ends), arrow.py_buffer(known)
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
