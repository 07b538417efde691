"""Matrices of rows: checked once, kept in one form, with errors that name row and column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.checks import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SparseMatrix:
    """Compressed sparse rows: sorted columns in each row, no zeros, no duplicates. Not to be written to."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Floats
    n_columns: int

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.data):
            array.setflags(write=False)

    @property
    def n_rows(self) -> int:
        return self.indptr.size - 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_columns

    @cached_property
    def row_of(self) -> NDArray[np.int64]:
        """The row each entry stands in."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    @cached_property
    def by_column(self) -> SparseMatrix:
        """The transposed matrix: for each column the rows that hold it. Built when first asked for."""
        import scipy.sparse as sp

        turned = sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape).tocsc()
        return SparseMatrix(
            turned.indptr.astype(np.int64),
            turned.indices.astype(np.int32),
            turned.data.astype(np.float64),
            self.n_rows,
        )

    @cached_property
    def falling(self) -> SparseMatrix:
        """The same rows, each in order of falling weight instead of by column."""
        order = np.lexsort((-self.data, self.row_of))
        return SparseMatrix(self.indptr, self.indices[order], self.data[order], self.n_columns)

    def row(self, i: int) -> SparseMatrix:
        """One row, as views into this matrix."""
        start, stop = int(self.indptr[i]), int(self.indptr[i + 1])
        ends = np.array([0, stop - start], dtype=np.int64)
        return SparseMatrix(ends, self.indices[start:stop], self.data[start:stop], self.n_columns)

    def take(self, rows: NDArray[np.int64]) -> SparseMatrix:
        """The named rows, in the order given."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        where = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        return SparseMatrix(indptr, self.indices[where], self.data[where], self.n_columns)

    def keep(self, mask: NDArray[np.bool_]) -> SparseMatrix:
        """The same rows with only the marked entries."""
        lengths = np.bincount(self.row_of[mask], minlength=self.n_rows)
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        return SparseMatrix(indptr, self.indices[mask], self.data[mask], self.n_columns)

    def toarray(self) -> Floats:
        out = np.zeros(self.shape)
        out[self.row_of, self.indices] = self.data
        return out


def checked(
    name: str, matrix: Any, *, low: float = 0.0, high: float = np.inf, dense: bool = True
) -> SparseMatrix | Floats:
    """A dense array stays dense where ``dense`` allows it; everything else becomes sparse rows.

    What comes back is a copy, so that nobody's weights change once they have been checked. Every entry
    must lie in [low, high]; the details of the error name the first that does not by row and column.
    """
    import scipy.sparse as sp

    if isinstance(matrix, SparseMatrix):
        _within(name, matrix.data, low, high, lambda p: (matrix.row_of[p], matrix.indices[p]))
        return SparseMatrix(matrix.indptr.copy(), matrix.indices.copy(), matrix.data.copy(), matrix.n_columns)
    if not sp.issparse(matrix):
        array = _numbers(name, matrix)
        _shape(name, array.shape)
        _within(name, array.ravel(), low, high, lambda p: np.unravel_index(p, array.shape))
        if dense:
            return array
        matrix = array
    entries: Any = matrix
    if entries.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a people x items array of numbers, got {entries.dtype.name}")
    _shape(name, entries.shape)
    if sp.issparse(entries) and hasattr(entries, "check_format"):
        entries.check_format(full_check=True)  # compiled code would follow indices out of the array
    # Floats first: entries that stand twice are added up, and small integers would wrap around.
    given = sp.csr_array(entries.astype(np.float64, copy=False), copy=True)
    given.sum_duplicates()
    given.sort_indices()
    indptr = given.indptr.astype(np.int64)
    sparse = SparseMatrix(indptr, given.indices.astype(np.int32), given.data, int(given.shape[1]))
    _within(name, sparse.data, low, high, lambda p: (sparse.row_of[p], sparse.indices[p]))
    if sparse.data.size and not sparse.data.all():
        return sparse.keep(sparse.data != 0)
    return sparse


def as_sparse(matrix: SparseMatrix | Floats) -> SparseMatrix:
    """Sparse rows of a dense array; sparse rows as they are."""
    if isinstance(matrix, SparseMatrix):
        return matrix
    mask = matrix != 0
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    return SparseMatrix(indptr, np.nonzero(mask)[1].astype(np.int32), matrix[mask], matrix.shape[1])


def column_sums(where: NDArray[Any], amounts: Floats, size: int) -> Floats:
    """The sum of the amounts at each place; numbers also where there are none."""
    return np.bincount(where, amounts, minlength=size).astype(np.float64, copy=False)


def _numbers(name: str, matrix: Any) -> Floats:
    """A new array of floats in C order; text, complex numbers and masked entries are no numbers."""
    if isinstance(matrix, np.ma.MaskedArray) and np.ma.is_masked(matrix):
        raise ValueError(f"{name} has masked entries; fill them in, with 0 where there is nothing")
    kind = "rows of different lengths, or entries that are no numbers"
    try:
        given = np.asarray(matrix)
        if given.dtype.kind in "biufO":
            return given.astype(np.float64, order="C")
        kind = given.dtype.name.rstrip("0123456789") if given.dtype.kind in "US" else given.dtype.name
    except (TypeError, ValueError, OverflowError):
        pass  # NumPy's words hold the entry, or how many rows there are
    raise TypeError(f"{name} must be a people x items array of numbers: got {kind}")


def _shape(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} must have two dimensions, people x items; it has {len(shape)}")
    if shape[1] == 0:
        raise ValueError(f"{name} has no columns: the ground set is empty; give at least one item")
    if shape[0] == 0:
        raise ValueError(f"{name} has no rows; a population needs at least one person")


def _within(name: str, flat: Floats, low: float, high: float, place: Any) -> None:
    if not flat.size:
        return
    # Two passes without a temporary settle the usual case; NaN makes every comparison false.
    lowest, highest = float(flat.min()), float(flat.max())
    if lowest >= low and highest <= high and highest - lowest < np.inf:
        return
    bad = ~(np.isfinite(flat) & (flat >= low) & (flat <= high))
    first = int(np.argmax(bad))
    row, column = (int(v) for v in place(first))
    if not np.isfinite(flat[first]):
        wanted = "every entry must be a finite number"
    elif np.isinf(high):
        wanted = f"entries must be at least {low:g}"
    else:
        wanted = f"entries must lie in [{low:g}, {high:g}]"
    raise DataError(
        f"{name} has an entry that is not allowed: {wanted}",
        f"{name}[row {row}, column {column}] is {flat[first]:g}",
    )
