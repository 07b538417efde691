"""Matrices of rows: checked once, kept in one form, with errors that name row and column.

Many rows are gone through in chunks of them, so that building a matrix takes little more room than it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError
from ..kernels.rows import Compressed

Floats = NDArray[np.float64]

# The most entries, and rows, that are looked at at a time.
CHUNK = 1 << 16


@lru_cache(maxsize=1024)
def constant(value: float, size: int) -> Floats:
    """The same number ``size`` times, read only: one number in memory."""
    return np.ndarray((size,), np.float64, np.float64(value).tobytes(), 0, (0,))


@lru_cache(maxsize=1024)
def row_ends(size: int) -> NDArray[np.int64]:
    """Where one row of ``size`` entries starts and ends; `SparseMatrix` makes it read only."""
    return np.array([0, size], dtype=np.int64)


def is_constant(array: Floats) -> bool:
    """Whether it is one number in memory."""
    return array.strides == (0,) and array.size > 0


def picked(array: Floats, rows: Any) -> Floats:
    """The entries at ``rows``, an array of places."""
    return constant(float(array[0]), len(rows)) if is_constant(array) else array[rows]


def chunks(ends: NDArray[Any], most: int | None = None) -> Iterator[tuple[int, int]]:
    """Rows cut into chunks: the first row, and the one after the last.

    ``most``: of entries, and of rows, in each; CHUNK if not given.
    """
    start, count = 0, ends.size - 1
    limit = CHUNK if most is None else most
    while start < count:
        reach = ends.dtype.type(min(int(ends[start]) + limit, int(ends[-1])))
        stop = int(np.searchsorted(ends, reach, side="right")) - 1
        stop = min(max(stop, start + 1), start + limit, count)
        yield start, stop
        start = stop


@dataclass(frozen=True)
class SparseMatrix:
    """Compressed sparse rows: sorted columns in each row, no zeros, no duplicates. Not to be written to.

    ``data`` may be one number for all entries (`constant`).
    """

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
    def view(self) -> Any:
        """The matrix as loops go through it; its indices are checked where it is made."""
        return Compressed(self.indptr, self.indices, self.data, self.n_columns)

    @cached_property
    def by_column(self) -> SparseMatrix:
        """The transposed matrix: for each column the rows that hold it. Built when first asked for."""
        ends, rows, data = self.view.transposed()
        if data is None:
            data = constant(float(self.data[0]), rows.size)
        return SparseMatrix(ends, rows, data, self.n_rows)

    @cached_property
    def falling(self) -> SparseMatrix:
        """The same rows, each in order of falling weight instead of by column."""
        indices, data = self.view.falling()
        return SparseMatrix(self.indptr, indices, data, self.n_columns)

    def row(self, i: int) -> SparseMatrix:
        """One row, as views into this matrix."""
        start, stop = int(self.indptr[i]), int(self.indptr[i + 1])
        return SparseMatrix(
            row_ends(stop - start), self.indices[start:stop], self.data[start:stop], self.n_columns
        )

    def chunk(self, start: int, stop: int) -> SparseMatrix:
        """The rows from ``start`` up to ``stop``, as views into this matrix."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        ends = self.indptr[start : stop + 1] - first
        return SparseMatrix(ends, self.indices[first:last], self.data[first:last], self.n_columns)

    def take(self, rows: NDArray[np.int64]) -> SparseMatrix:
        """The named rows, in the order given."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        where = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        return SparseMatrix(indptr, self.indices[where], picked(self.data, where), self.n_columns)

    def keep(self, mask: NDArray[np.bool_]) -> SparseMatrix:
        """The same rows with only the marked entries."""
        indptr = np.zeros_like(self.indptr)
        for start, stop in chunks(self.indptr):
            first, last = int(self.indptr[start]), int(self.indptr[stop])
            kept = np.concatenate(([0], np.cumsum(mask[first:last])))
            indptr[start + 1 : stop + 1] = kept[self.indptr[start + 1 : stop + 1] - first] + indptr[start]
        data = picked(self.data, range(int(indptr[-1]))) if is_constant(self.data) else self.data[mask]
        return SparseMatrix(indptr, self.indices[mask], data, self.n_columns)

    def toarray(self) -> Floats:
        out = np.zeros(self.shape)
        out[self.row_of, self.indices] = self.data
        return out


def checked(
    name: str,
    matrix: Any,
    *,
    low: float = 0.0,
    high: float = np.inf,
    dense: bool = True,
    ones: bool = False,
) -> SparseMatrix | Floats:
    """A dense array stays dense where ``dense`` allows it; everything else becomes sparse rows.

    What comes back is a copy, so that nobody's weights change once they have been checked. Every entry
    must lie in [low, high]; the details of the error name the first that does not by row and column. With
    ``ones`` sparse rows say only which entries there are.
    """
    import scipy.sparse as sp

    if isinstance(matrix, SparseMatrix):
        _within(name, matrix.data, low, high, lambda p: (matrix.row_of[p], matrix.indices[p]))
        data = constant(1.0, matrix.data.size) if ones else matrix.data.copy()
        return SparseMatrix(matrix.indptr.copy(), matrix.indices.copy(), data, matrix.n_columns)
    if not sp.issparse(matrix):
        array = _numbers(name, matrix)
        _shape(name, array.shape)
        _within(name, array.ravel(), low, high, lambda p: np.unravel_index(p, array.shape))
        return array if dense else as_sparse(array, ones=ones)
    entries: Any = matrix
    if entries.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a people x items array of numbers, got {entries.dtype.name}")
    _shape(name, entries.shape)
    if hasattr(entries, "check_format"):
        entries.check_format(full_check=True)  # compiled code would follow indices out of the array
    if entries.format != "csr":
        # Floats first: entries that stand twice are added up, and small integers would wrap around.
        entries = sp.csr_array(entries.astype(np.float64, copy=False))
    return _rows_of(name, entries, low, high, ones)


def _rows_of(name: str, given: Any, low: float, high: float, ones: bool) -> SparseMatrix:
    """The rows of a scipy matrix: columns sorted, what stands twice added up, no zeros, all in range."""
    import scipy.sparse as sp

    ends, size = given.indptr, int(given.indptr[-1])
    indptr, indices = np.zeros(ends.size, dtype=np.int64), np.empty(size, dtype=np.int32)
    data, n_columns = np.empty(0 if ones else size), int(given.shape[1])
    done = 0
    for start, stop in chunks(ends):
        inside = slice(int(ends[start]), int(ends[stop]))
        arrays = (
            given.data[inside].astype(np.float64),
            given.indices[inside].astype(np.int32),
            (ends[start : stop + 1] - ends[start]).astype(np.int32),
        )
        part = sp.csr_array(arrays, shape=(stop - start, n_columns))
        part.sum_duplicates()  # sorts as well
        _within(name, part.data, low, high, partial(_place, part, start))
        part.eliminate_zeros()
        last = done + int(part.indptr[-1])
        indptr[start + 1 : stop + 1] = part.indptr[1:] + np.int64(done)
        indices[done:last] = part.indices
        if not ones:
            data[done:last] = part.data
        done = last
    # In place: what stood twice or was 0 leaves room at the end.
    indices.resize(done, refcheck=False)
    if not ones:
        data.resize(done, refcheck=False)
    return SparseMatrix(indptr, indices, constant(1.0, done) if ones else data, n_columns)


def _place(part: Any, start: int, p: int) -> tuple[int, int]:
    """Row and column of an entry."""
    return start + int(np.searchsorted(part.indptr, p, side="right")) - 1, int(part.indices[p])


def as_sparse(matrix: SparseMatrix | Floats, *, ones: bool = False) -> SparseMatrix:
    """Sparse rows of a dense array; sparse rows as they are. With ``ones``, which entries there are."""
    if isinstance(matrix, SparseMatrix):
        return matrix
    mask = matrix != 0
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    data = constant(1.0, int(indptr[-1])) if ones else matrix[mask]
    return SparseMatrix(indptr, np.nonzero(mask)[1].astype(np.int32), data, matrix.shape[1])


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
