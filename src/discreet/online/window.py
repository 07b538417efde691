"""The people of an open window, kept until a set has been learned from them together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..objectives import Population
from ..objectives.growth import Growth, step
from ..objectives.matrices import SparseMatrix
from ..objectives.rows import BEST, CAP, COVER, LOG, SQRT, SURVIVE, Kind, Rows

_KINDS = {kind.code: kind for kind in (COVER, SURVIVE, BEST, SQRT, LOG, CAP)}


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
        parts = [(store.rows(self.n_items), self.bound) for store in self._stores.values()]
        return Growth(self.n_items, parts, self.others, step(self.bound, self.length), self.bound)

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
