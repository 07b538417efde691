"""The people of an open window, kept until a set has been learned from them together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..objectives import Population
from ..objectives.matrices import SparseMatrix
from ..objectives.rows import BEST, CAP, COVER, LOG, SQRT, SURVIVE, Kind, Rows

_KINDS = {kind.code: kind for kind in (COVER, SURVIVE, BEST, SQRT, LOG, CAP)}
# A gain is kept to this many binary places at most, and to fewer where a window's sum needs the room.
_PLACES = 40
_EXACT_BITS = 52


class Window:
    """People whose gains are wanted as sums over all of them, with one person's part exact.

    Rows of one kind are kept in arrays, other people as the objects they are. ``length`` is the public number
    of rounds of the window; with ``bound`` it fixes the step to which each person's gain is rounded down, so
    that sums are whole numbers of steps below 2^53: exact also as floats.
    """

    def __init__(self, n_items: int, bound: float, length: int) -> None:
        self.n_items, self.bound, self.length = n_items, bound, length
        self.others: list[Population] = []
        self._stores: dict[int, _Store] = {}
        self._per_unit = 1.0 / step(bound, length)

    def __len__(self) -> int:
        return len(self.others) + sum(len(store) for store in self._stores.values())

    def keep(self, person: Population) -> None:
        """Take in one person."""
        rows = person.as_rows()
        if rows is None:
            self.others.append(person)
        else:
            self.keep_rows(rows)

    def keep_rows(self, rows: Rows) -> None:
        """Take in people who are rows."""
        self._stores.setdefault(rows.kind.code, _Store(rows.kind)).extend(rows)

    def start(self) -> Growth:
        """The empty set, which can grow."""
        return Growth(self, [store.rows(self.n_items) for store in self._stores.values()])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The rows, for saving."""
        return {
            f"kept{code}_{name}": growing.values
            for code, store in self._stores.items()
            for name, growing in store.columns.items()
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take in what `arrays` gave."""
        for code, kind in _KINDS.items():
            if f"kept{code}_lengths" in arrays:
                store = self._stores[code] = _Store(kind)
                for name, growing in store.columns.items():
                    kept = arrays[f"kept{code}_{name}"]
                    growing.write(kept)
                    growing.size = kept.size


def step(bound: float, length: int) -> float:
    """What gains of up to ``bound`` are rounded down to multiples of, in a window of ``length`` rounds.

    >>> step(1.0, 1000) == 2.0**-40, step(1.0, 2**20) == 2.0**-31, step(3.0, 1) == 2.0**-38
    (True, True, True)
    """
    places = min(_PLACES, _EXACT_BITS - length.bit_length())
    return 2.0 ** (math.frexp(bound)[1] - (math.frexp(bound)[0] == 0.5) - places)


class Growth:
    """A growing set over the people of a window."""

    def __init__(self, window: Window, parts: list[Rows]) -> None:
        self._window = window
        self._parts = parts
        self._states = [rows.fresh() for rows in parts]
        self.items: list[int] = []

    def scores(self) -> NDArray[np.float64]:
        """The sum over people of every item's gain on top of the set, each gain rounded down to a step.

        Each person's part of each entry lies in [0, bound], also for a function that breaks its promise: what
        it gives is clipped, and where it fails it counts as nothing.
        """
        from ..kernels.windows import sparse_steps

        window = self._window
        total = np.zeros(window.n_items, dtype=np.int64)
        per_unit = window._per_unit
        most = math.floor(window.bound * per_unit)
        for rows, state in zip(self._parts, self._states, strict=True):
            matrix = rows.sparse
            sums = sparse_steps(rows.kind.code)
            indptr, indices = matrix.indptr.view(np.uint64), matrix.indices.view(np.uint32)
            sums(indptr, indices, matrix.data, rows.share, rows.cap, state, per_unit, most, total)
        for person in window.others:
            total += _steps(person, self.items, per_unit, most)
        total[self.items] = 0
        return total / per_unit

    def add(self, item: int) -> None:
        """Put ``item`` into the set."""
        for rows, state in zip(self._parts, self._states, strict=True):
            rows.chain(np.array([item]), state)
        self.items.append(item)


def _steps(person: Population, items: list[int], per_unit: float, most: int) -> NDArray[np.int64]:
    try:
        gains = person.gains(items)
    except (
        Exception
    ):  # somebody's own code: what it raises may hold their data, and one person is not worth it
        return np.zeros(person.n_items, dtype=np.int64)
    return np.clip(np.nan_to_num(gains) * per_unit, 0, most).astype(np.int64)


class _Growing:
    """An array that takes in more at its end."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._array: NDArray[Any] = np.empty(64, dtype=dtype)
        self.size = 0

    def write(self, more: NDArray[Any]) -> None:
        """Put ``more`` behind the end; it counts only once ``size`` says so."""
        size = self.size + more.size
        if size > self._array.size:
            larger = np.empty(max(size, 2 * self._array.size), dtype=self._array.dtype)
            larger[: self.size] = self.values
            self._array = larger
        self._array[self.size : size] = more

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self.size]


class _Store:
    """Rows of one kind, one after the other."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.columns = {
            "lengths": _Growing(np.int64),
            "indices": _Growing(np.int32),
            "data": _Growing(np.float64),
            "share": _Growing(np.float64),
            "cap": _Growing(np.float64),
        }

    def __len__(self) -> int:
        return self.columns["lengths"].size

    def extend(self, rows: Rows) -> None:
        matrix = rows.sparse
        added: list[NDArray[Any]] = [
            np.diff(matrix.indptr),
            matrix.indices,
            matrix.data,
            rows.share,
            rows.cap,
        ]
        for growing, more in zip(self.columns.values(), added, strict=True):
            growing.write(more)
        # An interruption before this line keeps nothing of these people.
        sizes = [growing.size + more.size for growing, more in zip(self.columns.values(), added, strict=True)]
        for growing, size in zip(self.columns.values(), sizes, strict=True):
            growing.size = size

    def rows(self, n_items: int) -> Rows:
        lengths, indices, data, share, cap = (growing.values for growing in self.columns.values())
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        return Rows(self.kind, SparseMatrix(indptr, indices, data, n_items), share, cap)
