"""The people of an open window, kept until a set has been learned from them together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from ...objectives import Population
from ...objectives.rows.fixed_point import Growth, step
from ...objectives.rows.matrices import SparseMatrix
from ...objectives.rows.table import BEST, CAP, COVER, LOG, SQRT, SURVIVE, Kind, Rows

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

    def restore(self, saved: Saved, rounds: int) -> None:
        """Take in what `arrays` gave, of so many rounds."""
        codes = {name.removesuffix("_lengths") for name in saved.names if name.endswith("_lengths")}
        kinds = {f"kept{code}": kind for code, kind in _KINDS.items()}
        for code in codes:
            if code not in kinds:
                raise ValueError(
                    f"the array {code}_lengths holds people of a kind that this release does not know"
                )
            self.keep_rows(_saved_rows(saved, code, kinds[code], self.n_items))
        if len(self) > rounds:
            raise ValueError("the open window holds more people than it had rounds")


def _saved_rows(saved: Saved, code: str, kind: Kind, n_items: int) -> Rows:
    """Rows that a file holds: compiled loops go by their lengths and items without looking."""
    lengths = saved.array(f"{code}_lengths", (None,), np.int64, at_least=0, at_most=n_items)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    size = int(ends[-1])
    indices = saved.array(f"{code}_indices", (size,), np.int32, at_least=0, at_most=n_items - 1)
    largest = 1.0 if kind in (COVER, SURVIVE) else None
    data = saved.array(f"{code}_data", (size,), at_least=0.0, at_most=largest)
    share = saved.array(f"{code}_share", (lengths.size,), at_least=0.0)
    cap = saved.array(f"{code}_cap", (lengths.size,), at_least=0.0, infinite=True)
    matrix = SparseMatrix(ends, indices, data, n_items)
    rising = np.diff(indices) > 0
    rising[ends[(ends > 0) & (ends < size)] - 1] = True  # from one row to the next
    if not rising.all():
        raise ValueError(f"the array {code}_indices has rows whose items are not in order")
    return Rows(kind, matrix, share, cap)


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
