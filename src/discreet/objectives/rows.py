"""People as rows of a matrix: coverage, facility location and concave functions of sums.

Each row of a people x items array (or topics x items) is a monotone submodular function whose state for the
chosen set is a single number: served or not, the probability of not being served, the best or the sum so far.
The kind defines how that number changes and what an item adds. Sums over rows are weighted by ``share``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import DataError, one_of, per_person, real, whole
from ..core.names import names_of
from ..core.options import Concave, UnknownItems
from ..kernels import rows as kernels
from ..kernels.rows import Compressed
from ..privacy.randomness import public_key
from .base import FAMILY_BOUND, Floats, Items, Population, State, random_rows
from .devices import QUIET, in_threads, processors, row_sums, slices

if TYPE_CHECKING:
    from ..data import Events, Store
    from ..privacy import PublicRandomness, Seed
    from .arrays import ArrayPopulation
    from .stored import StoredPopulation, StoredTopics


# Below this many rows starting threads costs more than it saves. The number of parts is fixed, so that sums
# are added in the same order on every machine; it does not depend on the number of entries, as one person's
# entries would then decide the order of everybody's sum.
_THREADED = 1 << 15
_PARTS = 8
_THREADED_ENTRIES = 1_000_000
_NONE = np.zeros(0, dtype=np.int64)
# How files of events are read (`data.read_events`).
_FILE_OPTIONS = ("separator", "columns", "items_columns", "items_item", "skip_bad", "encoding")


# --- matrices: checked once, kept in one form, with errors that name row and column ---

# The most entries, and rows, that are processed at a time.
CHUNK = 1 << 16


@lru_cache(maxsize=1024)
def constant(value: float, size: int) -> Floats:
    """A read-only array of one number ``size`` times, stored once."""
    return np.ndarray((size,), np.float64, np.float64(value).tobytes(), 0, (0,))


@lru_cache(maxsize=1024)
def row_ends(size: int) -> NDArray[np.int64]:
    """Where one row of ``size`` entries starts and ends; `SparseMatrix` makes it read-only."""
    return np.array([0, size], dtype=np.int64)


def is_constant(array: Floats) -> bool:
    """Whether an array is one number stored once."""
    return array.strides == (0,) and array.size > 0


def picked(array: Floats, rows: Any) -> Floats:
    """The entries at ``rows``, an array of places."""
    return constant(float(array[0]), len(rows)) if is_constant(array) else array[rows]


def chunks(ends: NDArray[Any], most: int | None = None) -> Iterator[tuple[int, int]]:
    """Split rows into chunks, each given by its first row and the one after its last.

    ``most``: the most entries, and rows, of a chunk; CHUNK by default.
    """
    start, count = 0, ends.size - 1
    limit = CHUNK if most is None else most
    while start < count:
        reach = ends.dtype.type(min(int(ends[start]) + limit, int(ends[-1])))
        stop = int(np.searchsorted(ends, reach, side="right")) - 1
        stop = min(max(stop, start + 1), start + limit, count)
        yield start, stop
        start = stop


@dataclass(frozen=True, repr=False)
class SparseMatrix:
    """Compressed sparse rows: sorted columns in each row, no zeros, no duplicates. Read-only.

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
        """The row of each entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    @cached_property
    def view(self) -> Any:
        """The matrix in the form that compiled loops use; it checks the indices."""
        return Compressed(self.indptr, self.indices, self.data, self.n_columns)

    @cached_property
    def by_column(self) -> SparseMatrix:
        """The transposed matrix: for each column the rows that hold it. Built on first use."""
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
    """A dense array stays dense if ``dense`` allows it; everything else becomes sparse rows.

    The result is a copy, so that no weight changes after it has been checked. Every entry must lie in [low,
    high]; the details of the error name the row and column of the first that does not. With ``ones`` the
    weights of sparse rows are all 1.
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
        entries.check_format(full_check=True)  # compiled code does not check indices
    if entries.format != "csr":
        # Floats first: duplicate entries are added up, and small integers would wrap around.
        entries = sp.csr_array(entries.astype(np.float64, copy=False))
    return rows_of(name, entries, low, high, ones)


def rows_of(name: str, given: Any, low: float, high: float, ones: bool) -> SparseMatrix:
    """The rows of a scipy matrix: columns sorted, duplicates added up, zeros removed, ranges checked."""
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
    # In place: removed duplicates and zeros leave unused space at the end.
    indices.resize(done, refcheck=False)
    if not ones:
        data.resize(done, refcheck=False)
    return SparseMatrix(indptr, indices, constant(1.0, done) if ones else data, n_columns)


def _place(part: Any, start: int, p: int) -> tuple[int, int]:
    """Row and column of an entry."""
    return start + int(np.searchsorted(part.indptr, p, side="right")) - 1, int(part.indices[p])


def as_sparse(matrix: SparseMatrix | Floats, *, ones: bool = False) -> SparseMatrix:
    """Sparse rows of a dense array (with ``ones``, weights of 1); sparse rows are returned as they are."""
    if isinstance(matrix, SparseMatrix):
        return matrix
    mask = matrix != 0
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    data = constant(1.0, int(indptr[-1])) if ones else matrix[mask]
    return SparseMatrix(indptr, np.nonzero(mask)[1].astype(np.int32), data, matrix.shape[1])


def column_sums(where: NDArray[Any], amounts: Floats, size: int) -> Floats:
    """The sum of the amounts at each place, as floats even if there are none."""
    return np.bincount(where, amounts, minlength=size).astype(np.float64, copy=False)


def _numbers(name: str, matrix: Any) -> Floats:
    """A new array of floats in C order; text, complex numbers and masked entries are not numbers."""
    if isinstance(matrix, np.ma.MaskedArray) and np.ma.is_masked(matrix):
        raise ValueError(f"{name} has masked entries; fill them in, with 0 where there is nothing")
    kind = "rows of different lengths"
    try:
        given, kind = np.asarray(matrix), "entries that are not numbers"
        if given.dtype.kind in "biufO":
            return given.astype(np.float64, order="C")
        kind = given.dtype.name.rstrip("0123456789") if given.dtype.kind in "US" else given.dtype.name
    except (TypeError, ValueError, OverflowError):
        pass  # NumPy's message holds the entry, or the number of rows
    raise TypeError(f"{name} must be a people x items array of numbers: got {kind}")


def _shape(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} must have two dimensions, people x items; it has {len(shape)}")
    if shape[1] == 0:
        raise ValueError(f"{name} has no columns: the ground set is empty; give at least one item")
    if shape[0] == 0:
        raise ValueError(f"{name} has no rows; a population needs at least one person")


def _within(name: str, flat: Floats, low: float, high: float, place: Any) -> None:
    """Refuse entries that are not finite or outside [low, high]; the details say where the first is."""
    if not flat.size:
        return
    # Two passes without a temporary decide the usual case; NaN makes every comparison false.
    lowest, highest = float(flat.min()), float(flat.max())
    if lowest >= low and highest <= high and highest - lowest < np.inf:
        return
    bad = ~(np.isfinite(flat) & (flat >= low) & (flat <= high))
    first = int(np.argmax(bad))
    row, column = (int(v) for v in place(first))
    if not np.isfinite(flat[first]):
        wanted = (
            "every entry must be a finite number (a missing value is NaN: fill it in, for instance with 0)"
        )
    elif np.isinf(high):
        wanted = f"entries must be at least {low:g}"
    else:
        wanted = f"entries must lie in [{low:g}, {high:g}]"
    raise DataError(
        f"{name} has an entry that is not allowed: {wanted}",
        f"{name}[row {row}, column {column}] is {flat[first]:g}",
    )


# --- kinds of rows ---

# Every kind that has a code, by its code. A kind registers itself, so that saved rows of all kinds can be
# read.
KINDS: dict[int, Kind] = {}


@dataclass(frozen=True)
class Kind:
    """How one row values a set: the initial state, what an item adds, and the next state.

    ``code`` identifies the kind in `discreet.kernels.rows`, where the formulas are, and in saved rows. It is
    -1 for a concave ``function`` in Python (`custom`), whose gains are computed by ``gain``. ``of_sums``:
    whether the state is the sum of the chosen weights.
    """

    code: int
    fresh: float = 0.0
    of_sums: bool = False
    gain: Callable[[Any, Any, Any], Any] | None = None
    function: Callable[[Any], Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.code >= 0 and KINDS.setdefault(self.code, self) is not self:
            raise ValueError(f"there is a kind of rows with the code {self.code} already; take another one")

    def alone(self, totals: Floats, caps: Floats) -> Floats:
        """The value of weights with these totals, in rows of sums with these caps."""
        if self.gain is not None:
            return np.asarray(self.gain(0.0, totals, caps), dtype=np.float64)
        out = np.empty(totals.size)
        kernels.gains_alone(self.code, totals, caps, out)
        return out


COVER = Kind(kernels.COVER)
SURVIVE = Kind(kernels.SURVIVE, fresh=1.0)
BEST = Kind(kernels.BEST)
SQRT = Kind(kernels.SQRT, of_sums=True)
LOG = Kind(kernels.LOG, of_sums=True)
CAP = Kind(kernels.CAP, of_sums=True)


@dataclass(frozen=True, repr=False)
class Rows:
    """A weighted sum of rows of one kind. Read-only."""

    kind: Kind
    matrix: SparseMatrix | Floats
    share: Floats
    cap: Floats

    def __post_init__(self) -> None:
        self.share.setflags(write=False)
        self.cap.setflags(write=False)
        if isinstance(self.matrix, np.ndarray):
            self.matrix.setflags(write=False)

    @property
    def n_rows(self) -> int:
        return self.share.size

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def sparse(self) -> SparseMatrix:
        return as_sparse(self.matrix)

    @cached_property
    def table(self) -> Any:
        """The rows in the form that compiled loops use (`discreet.kernels.rows.RowTable`)."""
        return self._table(self.matrix.view if isinstance(self.matrix, SparseMatrix) else self.matrix)

    @cached_property
    def compressed(self) -> Any:
        """The same, always from sparse rows, for loops over single people."""
        return self.table if isinstance(self.matrix, SparseMatrix) else self._table(self.sparse.view)

    @cached_property
    def gradients(self) -> Any:
        """The same for multilinear gradients, which need the largest weights first for BEST."""
        return self._table(self.sparse.falling.view) if self.kind is BEST else self.compressed

    def _table(self, matrix: Any) -> Any:
        return kernels.RowTable(self.kind.code, self.kind.fresh, matrix, self.share, self.cap)

    @property
    def columns(self) -> Any:
        """The index from items to rows; None for a dense array, which needs none."""
        return self.matrix.by_column.view if isinstance(self.matrix, SparseMatrix) else None

    def take(self, rows: Items) -> Rows:
        if rows.size == 1:
            return self.row(int(rows[0]))
        matrix = self.matrix.take(rows) if isinstance(self.matrix, SparseMatrix) else self.matrix[rows]
        return Rows(self.kind, matrix, picked(self.share, rows), picked(self.cap, rows))

    def row(self, i: int) -> Rows:
        matrix = self.matrix.row(i) if isinstance(self.matrix, SparseMatrix) else self.matrix[i : i + 1]
        return Rows(self.kind, matrix, self.share[i : i + 1], self.cap[i : i + 1])

    def scaled(self, factor: float) -> Rows:
        """The same rows, each times ``factor``."""
        share = self.share
        scaled = constant(factor * share[0], share.size) if is_constant(share) else factor * share
        return replace(self, share=scaled)

    def chunk(self, start: int, stop: int) -> Rows:
        """The rows from ``start`` up to ``stop``, as views."""
        matrix = self.matrix
        part = matrix.chunk(start, stop) if isinstance(matrix, SparseMatrix) else matrix[start:stop]
        return Rows(self.kind, part, self.share[start:stop], self.cap[start:stop])

    def fresh(self) -> Floats:
        return np.full(self.n_rows, self.kind.fresh)

    def chain(self, order: Items, state: Floats) -> Floats:
        """The gain of each item when they are chosen in this order; updates ``state``."""
        out = np.zeros(order.size)
        if self.kind.gain is None:
            self.table.chain(order, state, out, None if self.n_rows == 1 else self.columns)
            return out
        for i, (items, weights) in enumerate(self._each()):
            places, held = _places(items, order)
            sums = np.add.accumulate(np.concatenate((state[i : i + 1], weights[places])))
            if held.size:
                out[held] += self.share[i] * self.kind.gain(sums[:-1], weights[places], self.cap[i])
            state[i] = sums[-1]
        return out

    def gains(self, state: Floats) -> Floats:
        """The gain of every item on top of ``state``."""
        out = np.zeros(self.n_items)
        if self.kind.gain is None:
            self.table.gains(state, out)
            return out
        for i, (items, weights) in enumerate(self._each()):
            out[items] += self.share[i] * self.kind.gain(state[i], weights, self.cap[i])
        return out

    def _each(self) -> Iterator[tuple[NDArray[np.int32], Floats]]:
        """The items and weights of each row: a Python function is called for one person at a time."""
        for start, stop in pairwise(self.sparse.indptr.tolist()):
            yield self.sparse.indices[start:stop], self.sparse.data[start:stop]

    def add(self, item: int, state: Floats, gains: Floats) -> float:
        """Choose ``item``: update ``state`` and ``gains``, and return its gain."""
        if self.kind.gain is None and self.n_rows > 1:
            return float(self.table.add(item, state, gains, self.columns))
        added = self.chain(np.array([item]), state)[0]
        gains[:] = self.gains(state)
        return float(added)

    def contributions(self, items: Items, state: Floats) -> Floats:
        """f(S) - f(S without j) for each j of S: exact for rows whose state is a sum."""
        out = np.zeros(items.size)
        if self.kind.gain is None:
            self.table.contributions(items, state, out, self.sparse.by_column.view)
            return out
        for i, (own, weights) in enumerate(self._each()):
            places, held = _places(own, items)
            # Subtracting the weight may leave a rounding error below zero.
            rest = np.maximum(state[i] - weights[places], 0.0)
            out[held] += self.share[i] * self.kind.gain(rest, weights[places], self.cap[i])
        return out

    def multilinear(self, x: Floats) -> tuple[float, Floats]:
        """The multilinear extension at ``x`` and its gradient, in closed form."""
        parts = _PARTS if self.n_rows >= _THREADED else 1
        cuts = np.linspace(0, self.n_rows, parts + 1).astype(np.int64).tolist()
        table, outs = self.gradients, np.zeros((parts, self.n_items))

        def part(p: int) -> float:
            return float(table.extension(x, outs[p], cuts[p], cuts[p + 1]))

        totals = in_threads(part, range(parts), alone=parts == 1)
        return sum(totals), outs.sum(axis=0)

    def growing(self, most: float, per_unit: float) -> GrowingTable | GrowingFunctions:
        """An empty growing set over the rows; each adds at most ``most`` steps of ``1 / per_unit``."""
        return (GrowingFunctions if self.kind.gain else GrowingTable)(self, most, per_unit)

    def gradient_steps(
        self, x: Floats, per_unit: float, most: int, seed: int, samples: int
    ) -> NDArray[np.int64]:
        """The sum of multilinear gradients at ``x``, in steps; a row adds at most ``most`` to each entry."""
        inside = random_rows(x, seed, samples if self.kind.of_sums else 0)
        threads = 1 if self.sparse.data.size < _THREADED_ENTRIES else processors()
        cuts = np.linspace(0, self.n_rows, threads + 1).astype(int).tolist()
        outs = np.zeros((threads, self.n_items), dtype=np.int64)

        def part(t: int) -> None:
            self.add_gradients(x, inside, per_unit, most, outs[t], cuts[t], cuts[t + 1])

        in_threads(part, range(threads), alone=threads == 1)
        return np.asarray(outs.sum(axis=0), dtype=np.int64)

    def add_gradients(
        self,
        x: Floats,
        inside: NDArray[np.bool_],
        per_unit: float,
        most: int,
        out: NDArray[np.int64],
        first: int,
        last: int,
    ) -> None:
        """Add the gradients of the rows first..last-1 to ``out``, in steps.

        ``inside`` are the random sets over which rows without a closed form are averaged (`random_rows`).
        """
        self.gradients.gradient_steps(x, inside.view(np.uint8), per_unit, most, out, first, last)


def _places(held: NDArray[np.int32], items: Items) -> tuple[Items, Items]:
    """Where ``items`` are in ``held``, the items of a row, and which of them are."""
    if not held.size:
        return _NONE, _NONE
    places = np.searchsorted(held, items)
    there = np.flatnonzero(held[np.minimum(places, held.size - 1)] == items)
    return places[there], there


Function = Callable[[Any], Any]
_LARGEST = float(np.finfo(np.float64).max)  # where an item that is in the set is asked about again


def function_rows(people: Population) -> Rows | None:
    """The rows of people whose concave function is in Python; None for others. Read-only."""
    rows = getattr(people, "_rows", None)
    return rows if isinstance(rows, Rows) and rows.kind.code < 0 else None


def custom(function: Function) -> Kind:
    """Any concave function of a sum, given as a Python function of arrays; slower than the named ones.

    A row's cap here is the sum of all its weights. Up to the cap, every value computed is checked not to fall
    and not to exceed that at the cap, as checks made in advance (`_look_at`) only cover sample points.
    """

    @QUIET
    def gain(state: Any, weight: Any, cap: Any) -> Any:
        reached = np.minimum(state + weight, _LARGEST, dtype=np.float64)
        size, known = reached.size, np.size(state)
        found = heights(function, np.concatenate((reached.reshape(-1), np.ravel(state), np.ravel(cap))))
        after = found[:size].reshape(reached.shape)
        before = found[size : size + known].reshape(np.shape(state))
        most = found[size + known :].reshape(np.shape(cap))
        wrong = _wrong(reached, cap, before, after, most)
        if wrong.any():
            raise DataError(
                "concave is less somewhere than for less weight, or more than for all items of a person; it"
                " must be concave and never fall",
                f"concave({float(reached[wrong][0])!r}) is {float(after[wrong][0])!r}",
            )
        return np.maximum(after - before, 0.0)

    return Kind(-1, of_sums=True, gain=gain, function=function)


@QUIET
def heights(function: Function, totals: Any) -> Floats:
    """A user's function applied to an array of any shape; refused unless the values are finite numbers."""
    flat = np.array(totals, dtype=np.float64).reshape(-1)
    try:
        found = np.asarray(function(flat), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if "array" not in str(error):  # NumPy's message where a scalar is needed
            raise
        raise TypeError(
            "concave is given an array of totals, and fails with one; write it for arrays: np.exp instead of"
            " math.exp, np.minimum instead of min, np.where instead of if"
        ) from error
    if found.shape != flat.shape or not np.isfinite(found).all():
        raise ValueError("concave must map an array of numbers >= 0 to finite numbers, one for one")
    return found.reshape(np.shape(totals))


def _wrong(reached: Floats, cap: Any, before: Any, after: Floats, most: Any) -> NDArray[np.bool_]:
    """Where a value is below that of less weight, or above that of all the person's items."""
    right: NDArray[np.bool_] = (after >= before) & (after <= most)
    if right.all():
        return ~right
    slack = 1e-9 * (np.abs(before) + np.abs(after) + np.abs(most))
    # Items already in the set may lead beyond the cap; their gains are never used.
    meant = reached <= cap * (1.0 + 1e-12)
    wrong: NDArray[np.bool_] = meant & ~((after >= before - slack) & (after <= most + slack))
    return wrong


@QUIET
def asked_by_row(rows: Rows, state: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The gain of every entry on top of its row's state, and which rows' functions gave valid answers.

    A row whose function fails, or is not concave at the points evaluated, adds nothing.
    """
    matrix, function = rows.sparse, rows.kind.function
    assert function is not None
    row_of = matrix.row_of
    # Evaluated for each row: its total with each item added, its total now, and the total of all items.
    ends = matrix.indptr + 2 * np.arange(matrix.n_rows + 1)
    places, states, caps = np.arange(row_of.size) + 2 * row_of, ends[1:] - 2, ends[1:] - 1
    asked = np.empty(int(ends[-1]))
    asked[places] = reached = np.minimum(state[row_of] + matrix.data, _LARGEST)
    asked[states], asked[caps] = state, rows.cap
    found, sound = _answers(function, asked, ends)
    before, after, most = found[states][row_of], found[places], found[caps][row_of]
    sound[row_of[_wrong(reached, rows.cap[row_of], before, after, most)]] = False
    gains = rows.share[row_of] * np.maximum(after - before, 0.0)
    gains[~sound[row_of]] = 0.0
    return gains, sound


@QUIET
def _answers(function: Function, asked: Floats, ends: Items) -> tuple[Floats, NDArray[np.bool_]]:
    """A function's values, called row by row, and which rows got a finite number for each argument."""
    found, sound = np.zeros(asked.size), np.ones(ends.size - 1, dtype=np.bool_)
    for row, (start, stop) in enumerate(pairwise(ends.tolist())):
        try:
            answer = np.asarray(function(asked[start:stop]), dtype=np.float64)
            sound[row] = answer.shape == (stop - start,)
            found[start:stop] = answer if sound[row] else 0.0
        except Exception:  # its message may hold somebody's data; the row is skipped
            sound[row] = False
    if not np.isfinite(found).all():
        strange = np.flatnonzero(~np.isfinite(found))
        sound[np.searchsorted(ends, strange, side="right") - 1] = False
        found[strange] = 0.0
    return found, sound


class GrowingTable:
    """A growing set over rows (`fixed_point.Growing`): each row's state, and the steps it may still add."""

    def __init__(self, rows: Rows, most: float, per_unit: float) -> None:
        self._rows, self._per_unit = rows, per_unit
        self._state, self._left = rows.fresh(), np.full(rows.n_rows, most)

    def begin(self, sums: Floats) -> None:
        self._rows.table.sums(self._state, self._left, self._per_unit, sums)

    def choose(self, item: int, sums: Floats) -> None:
        rows = self._rows
        rows.table.choose(item, self._state, self._left, self._per_unit, sums, rows.columns)


class GrowingFunctions:
    """A growing set over rows with a function in Python (`fixed_point.Growing`).

    A row's gains change only when one of its own items is chosen, so only those rows are evaluated again. A
    row whose function fails counts as 0.
    """

    def __init__(self, rows: Rows, most: float, per_unit: float) -> None:
        self._rows, self._per_unit = rows, per_unit
        self._state, self._left = rows.fresh(), np.full(rows.n_rows, most)
        self._failed = np.zeros(rows.n_rows, dtype=bool)  # permanently
        self._sound = np.ones(rows.n_rows, dtype=bool)  # when last evaluated
        self._chosen = np.zeros(rows.n_items, dtype=bool)
        self._steps = np.zeros(rows.sparse.data.size)  # one for every entry

    def begin(self, sums: Floats) -> None:
        matrix = self._rows.sparse
        for start, stop in chunks(matrix.indptr):
            inside = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
            self._steps[inside] = self._asked(np.arange(start, stop), self._rows.chunk(start, stop))
        sums += np.bincount(matrix.indices, self._steps, sums.size)

    def choose(self, item: int, sums: Floats) -> None:
        matrix = self._rows.sparse
        self._chosen[item] = True
        places = np.flatnonzero(matrix.indices == item)
        who = np.searchsorted(matrix.indptr, places, side="right") - 1
        if not who.size:
            return
        self._left[who] -= self._steps[places]
        for row, place in zip(who.tolist(), places.tolist(), strict=True):
            if not self._sound[row] and not self._failed[row]:
                self._failed[row] = not _answers_for(self._rows, row, self._state[row], matrix.data[place])
        self._state[who] += matrix.data[places]
        part = self._rows.take(who)
        again = np.arange(part.sparse.data.size) + np.repeat(
            matrix.indptr[who] - part.sparse.indptr[:-1], np.diff(part.sparse.indptr)
        )
        items = part.sparse.indices
        sums -= np.bincount(items, self._steps[again], sums.size)
        self._steps[again] = self._asked(who, part)
        sums += np.bincount(items, self._steps[again], sums.size)

    def _asked(self, who: Items, part: Rows) -> Floats:
        """The current steps of every entry of some rows."""
        gains, self._sound[who] = asked_by_row(part, self._state[who])
        row_of = part.sparse.row_of
        steps: Floats = np.maximum(np.floor(gains * self._per_unit), 0.0)
        np.minimum(steps, self._left[who][row_of], out=steps)
        steps[self._chosen[part.sparse.indices] | self._failed[who][row_of]] = 0.0
        return steps


def _answers_for(rows: Rows, row: int, state: float, weight: float) -> bool:
    """Whether a row's function computes the gain of one of its items."""
    assert rows.kind.gain is not None
    try:
        rows.kind.gain(state, weight, rows.cap[row])
    except Exception:  # somebody's own code
        return False
    return True


Words = NDArray[np.uint64]

_HALF = 1 << 63


def digests(names: Iterable[Any]) -> Words:
    """A number for each name, which depends on that name alone.

    Names are compared by the rule of `core.names`. Two people with the same number share their random
    choices, which does no harm.

    >>> digests([7, "ann"]).tolist() == digests(["7", "ann"]).tolist()
    True
    """
    listed = list(names)
    if all(type(name) is int and -_HALF <= name < _HALF for name in listed):
        return mixed(np.array(listed, dtype=np.int64).view(np.uint64))
    return mixed(np.fromiter(map(_word, names_of(listed)), dtype=np.uint64, count=len(listed)))


def keyed(values: Words, key: Words) -> Words:
    """The values hashed with the two words of a key; well mixed even for consecutive or few values."""
    return mixed(mixed(values ^ key[0]) + key[1])


def mixed(values: Words) -> Words:
    """The finaliser of SplitMix64 (Steele et al. 2014): one to one, and well mixed."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _word(name: int | str | None) -> int:
    """Integers themselves, modulo 2^64; a hash of other names."""
    if isinstance(name, int) and -_HALF <= name < _HALF:
        return name % (2 * _HALF)
    text = "" if name is None else str(name)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


_ONE, _NO_CAP = constant(1.0, 1), constant(np.inf, 1)
# Sums that have shrunk to this fraction are computed afresh.
_WORN = 1e-6


class RowPopulation(Population):
    """One row of a people x items matrix per person.

    ``indptr``, ``indices`` and ``data`` are the matrix in compressed sparse rows: person i touches the items
    ``indices[indptr[i]:indptr[i+1]]``, sorted, with the weights in ``data``. The arrays are read-only.
    """

    # The largest entry that the family allows.
    _highest: ClassVar[float] = np.inf
    _dense: ClassVar[bool] = True
    # Whether weights matter, or only which items a person has.
    _weighted: ClassVar[bool] = True
    # What the constructor calls the matrix.
    _argument: ClassVar[str] = "matrix"
    # A digest of each person's identity, where it is known.
    _digests: Words | None = None

    def __init__(
        self, matrix: Any, *, bound: float | None = None, labels: Iterable[Any] | None = None
    ) -> None:
        self._setup(checked(self._argument, matrix, high=self._highest, dense=self._dense), bound, labels)

    def _setup(
        self, matrix: SparseMatrix | Floats, bound: float | None, labels: Iterable[Any] | None
    ) -> None:
        self.n_items = int(matrix.shape[1])
        kind, caps = self._kind(), self._caps(matrix)
        if kind is CAP:
            # Weights beyond the cap have no effect, and sums of smaller numbers keep more digits.
            clip(matrix, caps)
        self._rows = Rows(kind, matrix, constant(1.0, caps.size), caps)
        self.built_in = kind.code >= 0
        self._name_items(labels)
        self._declare(bound)

    def _kind(self) -> Kind:
        raise NotImplementedError

    def _caps(self, matrix: SparseMatrix | Floats) -> Floats:
        return constant(np.inf, int(matrix.shape[0]))

    def _cap_rule(self) -> tuple[float, float]:
        """The cap of every row, and the fraction of its total weight that is the cap instead (0: none)."""
        return np.inf, 0.0

    @classmethod
    def of_row(cls, n_items: int, items: NDArray[Any], weights: Floats | None = None) -> Self:
        """One person, from increasing item numbers and their weights (default 1), already checked.

        For families whose values lie in [0, 1] for all weights.
        """
        one = object.__new__(cls)
        data = constant(1.0, items.size) if weights is None else weights
        one._be(one._kind(), n_items, items.astype(np.int32, copy=False), data, _NO_CAP, FAMILY_BOUND)
        return one

    def _be(
        self, kind: Kind, n_items: int, items: NDArray[np.int32], data: Floats, cap: Floats, bound: float
    ) -> None:
        """Set the attributes of a population of one person."""
        rows = Rows(kind, SparseMatrix(row_ends(items.size), items, data, n_items), _ONE, cap)
        self.__dict__.update(n_items=n_items, built_in=True, _declared=bound, _rows=rows, _fixed=True)

    @classmethod
    def from_events(
        cls,
        events: Any,
        *,
        person: str,
        item: str,
        weight: str | None = None,
        items: Iterable[Any] | str | os.PathLike[str] | None = None,
        people: Iterable[Any] | None = None,
        unknown_items: UnknownItems = "error",
        **options: Any,
    ) -> Self:
        """From a table of events, one row per (person, item), with an optional weight.

        ``events``: a pandas or polars frame, an Arrow table, a dict of columns, the path of a CSV (also
        compressed: .gz, .zst), Parquet or Feather file, a pattern, a folder or a list of paths, or an
        iterable of mappings. People are in the order of their first event; of a person's events with one item
        the largest weight counts. ``labels`` are the items: the catalogue ``items`` in its own order (a list,
        or the path of a file with the column ``item``), or else the items that occur, sorted. ``options`` are
        those of the constructor and, for files: ``separator`` between columns of text (default: inferred from
        the header); ``columns``, their names if there is no header, and ``items_columns`` those of the
        catalogue; ``items_item``, the catalogue's name for ``item``; ``encoding`` of text; ``skip_bad``
        leaves out rows that cannot be read, or whose item is not listed, each judged by its own content.

        Give a catalogue if the result is to be private: a public list, or one chosen by
        `discreet.data.private_catalogue`. Which items occur depends on the people: without a catalogue every
        account about them is marked as conditional on the list of items (see ``catalogue``).
        ``unknown_items`` says whether an event outside a public catalogue is an ``"error"`` or is left out
        (``"drop"``); outside a private one it is always left out. 7 and "7" are the same there, since a
        column may be read as either. ``people`` lists everybody, in order, including those without events.
        """
        from ..data import read_events

        files = {name: options.pop(name) for name in _FILE_OPTIONS if name in options}
        told: dict[str, Any] = {"weight": weight, "items": items, "people": people, **files}
        found = read_events(
            events, person=person, item=item, unknown_items=unknown_items, highest=cls._highest, **told
        )
        return cls.of_events(found, **options)

    @classmethod
    def of_events(cls, found: Events, **options: Any) -> Self:
        """People from the result of `discreet.data.read_events`; ``options`` as in the constructor."""
        matrix = SparseMatrix(found.indptr, found.indices, found.weights, len(found.items))
        made = cls(matrix, labels=found.items, **options).with_identities(found.people)
        return made._like(catalogue=found.catalogue)

    @classmethod
    def from_array(
        cls, array: Any, *, backend: Any = None, tile: int | None = None, **options: Any
    ) -> ArrayPopulation:
        """From a dense people x items array of any library, which stays on its device.

        ``backend``: ``"numpy"``, ``"cupy"``, ``"torch"``, or None for the array's own. ``tile``: how many
        people are processed at a time. ``options`` as in the constructor. Every selector accepts these
        people; sums over them are in integers.
        """
        from .arrays import ArrayPopulation

        return ArrayPopulation(array, cls, options, backend, tile)

    @classmethod
    def from_store(cls, store: Store, engine: Any = "threads", **options: Any) -> StoredPopulation:
        """The people of a store (`data.prepare`), who stay on disk; ``options`` as in the constructor.

        ``engine``: ``"threads"`` scans the store with all processors of this machine; a Dask ``Client`` with
        the workers of a cluster, which must see the store under the same path. Every selector accepts these
        people, and finds the same scores as in memory, bit for bit. Weights have the same meaning as in
        ``from_events``; without weights every item counts 1.
        """
        from .stored import StoredPopulation

        return StoredPopulation(store, engine, cls, options)

    @property
    def n_entries(self) -> int:
        """How many (person, item) pairs there are."""
        return int(self._rows.sparse.indices.size)

    @property
    def indptr(self) -> NDArray[np.int64]:
        return self._rows.sparse.indptr

    @property
    def indices(self) -> NDArray[np.int32]:
        return self._rows.sparse.indices

    @property
    def data(self) -> Floats:
        return self._rows.sparse.data

    def with_identities(self, names: Iterable[Any]) -> Self:
        """The same people with identities for `cap_items`: one of ``names`` for each row.

        Only a 64-bit digest of each name is kept. ``from_events`` does this already.
        """
        found = digests(names)
        if found.size != len(self):
            raise ValueError("names must have one entry for each person, in the order of the rows")
        named = self._like()
        named._digests = found
        return named

    def cap_items(self, m: int, seed: Seed | PublicRandomness | np.random.Generator = None) -> Self:
        """The same people, each with at most ``m`` of their items; every m of them are equally likely.

        The items kept are decided by a keyed hash of the person: of their identity if known (``from_events``,
        ``with_identities``), otherwise of their own row, so that equal rows without identities keep equal
        items. The choice does not depend on the position of the row or on other people: adding, removing or
        replacing a person changes their own items only, m entries of the gains (2 m for a replacement). This
        holds for every fixed key, so the key may be known: ``seed`` is None for a fresh one, or a number, a
        generator or a source for a reproducible one, chosen independently of the data. ``items_per_person``
        is set to the cap.
        """
        return self.cap_items_by(m, self._row_words(public_key(seed, 2)))

    def cap_items_by(self, m: int, words: NDArray[np.uint64]) -> Self:
        """`cap_items` with a given 64-bit word for each row: the ``m`` items that it hashes lowest stay.

        This is safe if a row's word does not depend on other people: neither on who they are nor on whether
        they are present. Words by row number, if known, are not safe where removing a person shifts rows.
        """
        cap = whole("m", m, at_least=1)
        full = self._rows.sparse
        if not isinstance(words, np.ndarray) or words.shape != (full.n_rows,) or words.dtype != np.uint64:
            raise ValueError("words must be an array of one unsigned 64-bit number for each row")
        mask = np.zeros(full.data.size, dtype=np.bool_)
        for start, stop in chunks(full.indptr):
            part = full.chunk(start, stop)
            order = np.lexsort((_by_item(words[start:stop][part.row_of], part.indices), part.row_of))
            place = np.arange(order.size) - part.indptr[part.row_of]
            mask[full.indptr[start] + order[place < cap]] = True
        capped = self._like(items_per_person=min(cap, self.n_items, self.items_per_person or cap))
        capped._rows = Rows(self._rows.kind, full.keep(mask), self._rows.share, self._rows.cap)
        return capped

    def _row_words(self, key: Words) -> Words:
        """A word for each person, from the key and that person alone."""
        if self._digests is not None:
            return keyed(self._digests, key)
        full = self._rows.sparse
        entries = _by_item(keyed(np.ascontiguousarray(full.data).view(np.uint64), key), full.indices)
        # Integers modulo 2^64: the sums of earlier rows are subtracted exactly.
        totals = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)))
        return keyed(totals[full.indptr[1:]] - totals[full.indptr[:-1]], key)

    def as_rows(self) -> Rows | None:
        return self._rows if self._rows.kind.code >= 0 else None

    def __len__(self) -> int:
        return self._rows.share.size

    def start(self) -> State:
        return RowState(self, self._rows, len(self))

    def _value(self, items: Items) -> float:
        return float(self._rows.chain(items, self._rows.fresh()).sum()) / len(self)

    def _gains(self, items: Items) -> Floats:
        state = self._rows.fresh()
        self._rows.chain(items, state)
        return self._rows.gains(state) / len(self)

    def _chain(self, order: Items) -> Floats:
        return self._rows.chain(order, self._rows.fresh()) / len(self)

    def _contributions(self, items: Items) -> Floats:
        if self._rows.kind.of_sums:
            state = self._rows.fresh()
            self._rows.chain(items, state)
            return self._rows.contributions(items, state) / len(self)
        # f(S) - f(S without j) is the gradient of the multilinear extension at the corner S.
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        return self._rows.multilinear(corner)[1][items] / len(self)

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        kind = self._rows.kind
        # By the declared cap: one person's items must not change how everybody's function is computed.
        if kind.of_sums and (kind.code < 0 or self.touched_items() > kernels.ENUMERABLE):
            return super()._extension(x)
        value, gradient = self._rows.multilinear(x)
        return value / len(self), gradient / len(self)

    def _most_items(self) -> int:
        return int(np.diff(self._rows.sparse.indptr).max())

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken._rows = self._rows.take(rows)
        if self._digests is not None:
            taken._digests = self._digests[rows]
        return taken

    def _one(self, i: int) -> Self:
        one = self._like()
        one._rows = self._rows.row(i)
        if self._digests is not None:
            one._digests = self._digests[i : i + 1]
        return one


class KeptRow(RowPopulation):
    """One person's saved row of any kind: the function without its family."""

    @classmethod
    def of(
        cls, kind: Kind, n_items: int, items: NDArray[np.int32], data: Floats, cap: Floats, bound: float
    ) -> KeptRow:
        """The population of a row that was checked before."""
        one = object.__new__(cls)
        one._be(kind, n_items, items, data, cap, bound)
        return one

    def _kind(self) -> Kind:
        return self._rows.kind

    def _largest(self) -> Floats:
        return np.full(len(self), self.bound)


class RowState(State):
    """A growing set over rows: an addition touches only the rows that hold the item."""

    def __init__(self, people: Population, rows: Rows, divisor: int) -> None:
        self._people, self._rows, self._divisor = people, rows, divisor
        self.items = []
        self.value = 0.0
        self._state = rows.fresh()
        self._sums = rows.gains(self._state)
        self._summed = float(self._sums.max())

    def gains(self) -> Floats:
        # Differences of sums may leave a rounding error below zero; every family here is monotone.
        now = np.maximum(self._sums, 0.0)
        now[self.items] = 0.0
        now /= self._divisor
        return now

    def _grow(self, item: int) -> float:
        added = self._rows.add(item, self._state, self._sums) / self._divisor
        left = float(self._sums.max())
        if left < _WORN * self._summed:
            # Sums that were a million times larger may have nothing left but rounding errors.
            self._sums = self._rows.gains(self._state)
            self._summed = float(self._sums.max())
        return added


def _by_item(words: Words, items: NDArray[np.int32]) -> Words:
    """A well-mixed number for each (word, item)."""
    return mixed(words + (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def clip(matrix: SparseMatrix | Floats, caps: Floats) -> None:
    """Clip entries at their row's cap, in place, in a matrix that is not shared yet."""
    if not isinstance(matrix, SparseMatrix):
        np.minimum(matrix, caps[:, None], out=matrix)
        return
    matrix.data.setflags(write=True)
    for start, stop in chunks(matrix.indptr):
        here = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
        most = np.repeat(caps[start:stop], np.diff(matrix.indptr[start : stop + 1]))
        np.minimum(matrix.data[here], most, out=matrix.data[here])
    matrix.data.setflags(write=False)


def row_totals(matrix: SparseMatrix | Floats) -> Floats:
    """The sum of each row."""
    if not isinstance(matrix, SparseMatrix):
        some = max(1, CHUNK // matrix.shape[1])
        return np.concatenate([row_sums(np, matrix[here]) for here in slices(matrix.shape[0], some)])
    totals = np.empty(matrix.n_rows)
    for start, stop in chunks(matrix.indptr):
        part = matrix.chunk(start, stop)
        totals[start:stop] = column_sums(part.row_of, part.data, stop - start)
    return totals


def largest_totals(matrix: SparseMatrix | Floats, most: int) -> Floats:
    """The sum of the ``most`` largest entries of each row."""
    if not isinstance(matrix, SparseMatrix):
        return np.array(row_sums(np, np.sort(matrix, axis=1)[:, -min(most, matrix.shape[1]) :]))
    totals = np.empty(matrix.n_rows)
    for start, stop in chunks(matrix.indptr):
        part = matrix.chunk(start, stop)
        order = np.lexsort((-part.data, part.row_of))
        kept = order[np.arange(order.size) - part.indptr[part.row_of] < most]
        totals[start:stop] = column_sums(part.row_of[kept], part.data[kept], stop - start)
    return totals


def row_maxima(matrix: SparseMatrix | Floats) -> Floats:
    """The largest entry of each row; 0 for a row without entries."""
    if not isinstance(matrix, SparseMatrix):
        return np.asarray(matrix.max(axis=1), dtype=np.float64)
    best = np.zeros(matrix.n_rows)
    for start, stop in chunks(matrix.indptr):
        part = matrix.chunk(start, stop)
        some = np.flatnonzero(np.diff(part.indptr))
        if some.size:
            best[start + some] = np.maximum.reduceat(part.data, part.indptr[some])
    return best


class Coverage(RowPopulation):
    """f(S) = 1 if S holds any of the person's items, else 0: on average, the share of people served.

    ``matrix``: people x items; any nonzero entry makes the item one of the person's, and negative entries are
    refused. In ``from_events`` a weight therefore only says whether an event counts (above 0) or not (0).

    >>> people = Coverage([[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    >>> round(people.value([0]), 3), round(people.value([0, 1]), 3)
    (0.333, 0.667)
    >>> people[1].gains([0])
    array([0., 1., 0.])
    """

    _dense, _weighted = False, False

    def __init__(self, matrix: Any, *, labels: Iterable[Any] | None = None) -> None:
        self._setup(checked("matrix", matrix, dense=False, ones=True), FAMILY_BOUND, labels)

    def _kind(self) -> Kind:
        return COVER

    def _largest(self) -> Floats:
        return constant(1.0, len(self))


class ProbabilisticCoverage(RowPopulation):
    """f(S) = 1 - product over S of (1 - p_j): the probability that the person takes any of the items shown.

    ``matrix``: people x items with probabilities in [0, 1]; this is the product display that opens paper 000.
    Of several events of one person with one item the largest probability counts.

    >>> people = ProbabilisticCoverage([[0.5, 0.5, 0.0]])
    >>> people.value([0, 1])
    0.75
    >>> people.multilinear([1.0, 0.5, 0.0])
    0.625
    """

    _highest = 1.0

    def __init__(self, matrix: Any, *, labels: Iterable[Any] | None = None) -> None:
        super().__init__(matrix, bound=FAMILY_BOUND, labels=labels)

    def _kind(self) -> Kind:
        return SURVIVE

    def _largest(self) -> Floats:
        return constant(1.0, len(self))


class FacilityLocation(RowPopulation):
    """f(S) = the largest weight the person gives to an item of S, and 0 for the empty set.

    ``matrix``: people x items, nonnegative. ``bound``: a public bound of every weight, 1 unless declared.

    >>> people = FacilityLocation([[0.9, 0.2], [0.1, 0.6]])
    >>> people.value([0]), people.value([0, 1])
    (0.5, 0.75)
    >>> people.gains([0]).round(2)
    array([0.  , 0.25])
    """

    def _kind(self) -> Kind:
        return BEST

    def _largest(self) -> Floats:
        return row_maxima(self._rows.matrix)


_NAMED = {"sqrt": SQRT, "log": LOG, "capped": CAP}


class ConcaveOverModular(RowPopulation):
    """f(S) = g(sum of the person's weights in S) - g(0), with g concave and rising.

    ``weights``: people x items, nonnegative. ``concave``: ``"sqrt"``, ``"log"`` (log(1 + t)), ``"capped"``
    (min(t, cap), with ``cap`` one number or one per person), or a function of an array that is concave and
    does not fall on t >= 0; this is tested when the population is built, and checked with every gain that is
    computed. ``bound``: a public bound of f, 1 unless declared.

    ``at_most``: the bound is for sets of at most this many items, and is checked for those only: with
    weights of at most 1 and the square root, sqrt(k) for k items instead of sqrt(n_items). `PrivateGreedy`
    accepts such people if it chooses no more items, and its noise is calibrated to the smaller bound;
    learners of larger sets refuse them. The guarantee does not depend on it: exact sums enforce the bound.

    With the named functions the multilinear extension is exact if the declared cap (or ``n_items``) is at
    most 12, by a sum over all their subsets. The rank of a partition matroid is such an objective: blocks as
    people, capacities as caps.

    >>> people = ConcaveOverModular([[4.0, 5.0]], concave="sqrt", bound=3)
    >>> people.value([0]), people.value([0, 1])
    (2.0, 3.0)
    """

    _argument = "weights"

    def __init__(
        self,
        weights: Any,
        *,
        concave: Concave | Callable[[Any], Any] = "sqrt",
        cap: ArrayLike | None = None,
        bound: float | None = None,
        at_most: int | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        if at_most is not None:
            self.at_most = whole("at_most", at_most, at_least=1)
        if callable(concave):
            self._concave = custom(concave)
        else:
            self._concave = _NAMED[one_of("concave", concave, tuple(_NAMED))]
        if (cap is not None) != (self._concave is CAP):
            raise ValueError('cap= goes with concave="capped", which needs it: one number or one per person')
        self._cap_given, self._shape_given = cap, concave if callable(concave) else None
        super().__init__(weights, bound=bound, labels=labels)
        del self._cap_given, self._shape_given

    def _kind(self) -> Kind:
        return self._concave

    def _caps(self, matrix: SparseMatrix | Floats) -> Floats:
        """For each person the sum of weights above which more weight has no effect."""
        count = int(matrix.shape[0])
        if self._shape_given is not None:
            totals = row_totals(matrix)
            if not np.isfinite(totals).all():
                raise DataError("one person's weights add up to more than a float holds; rescale them")
            _look_at(self._shape_given, float(totals.max()))
            return totals
        if self._cap_given is None:
            return constant(np.inf, count)
        if not isinstance(self._cap_given, list | tuple) and np.ndim(self._cap_given) == 0:
            return constant(real("cap", self._cap_given, at_least=0), count)
        caps = per_person("cap", self._cap_given, count)
        if caps.min() < 0:
            place = int(np.argmin(caps))
            raise DataError("cap has a negative entry; caps are at least 0", f"cap[{place}]={caps[place]:g}")
        return caps

    def _cap_rule(self) -> tuple[float, float]:
        return float(self._rows.cap[0]), 0.0

    def _largest(self) -> Floats:
        matrix, cap = self._rows.matrix, self._rows.cap
        totals = row_totals(matrix) if self.at_most is None else largest_totals(matrix, self.at_most)
        for start in range(0, totals.size, CHUNK):
            here = slice(start, start + CHUNK)
            totals[here] = self._concave.alone(totals[here], cap[here])
        return totals


class SaturatedCoverage(RowPopulation):
    """f(S) = min(sum of the person's weights in S, saturation x the sum of all their weights).

    Once a person has received the share ``saturation`` of their total weight, further items add nothing.
    ``matrix``: people x items, nonnegative. ``bound``: a public bound of f, 1 unless declared; with
    ``at_most``, one for sets of at most k items, as for `ConcaveOverModular`: it is checked against the sum
    of a person's k largest weights if that is below their saturation, which grows with the catalogue.

    >>> people = SaturatedCoverage([[0.5, 0.25, 0.25]], saturation=0.6)
    >>> people.value([0]), people.value([0, 1])
    (0.5, 0.6)
    """

    def __init__(
        self,
        matrix: Any,
        *,
        saturation: float = 0.1,
        bound: float | None = None,
        at_most: int | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        if at_most is not None:
            self.at_most = whole("at_most", at_most, at_least=1)
        self.saturation = real("saturation", saturation, above=0, at_most=1)
        super().__init__(matrix, bound=bound, labels=labels)

    def _kind(self) -> Kind:
        return CAP

    def _caps(self, matrix: SparseMatrix | Floats) -> Floats:
        return self.saturation * row_totals(matrix)

    def _cap_rule(self) -> tuple[float, float]:
        return np.inf, self.saturation

    def _largest(self) -> Floats:
        if self.at_most is None:
            return self._rows.cap
        return np.minimum(self._rows.cap, largest_totals(self._rows.matrix, self.at_most))


def _look_at(function: Callable[[Any], Any], largest: float) -> None:
    """Refuse a function that, on a grid up to max(1000, largest), is not concave or falls."""
    top = max(1e3, largest)
    grid = np.concatenate(([0.0], np.geomspace(1e-3, top, round(10 * (np.log10(top) + 3.0)) + 1)))
    slopes = np.diff(heights(function, grid)) / np.diff(grid)
    slack = 1e-9 * max(1.0, float(np.abs(slopes).max()))
    if slopes.min() < -slack:
        at = grid[int(np.argmin(slopes))]
        raise DataError(
            "concave must not fall, or the objective would not be monotone", f"it falls near {at:g}"
        )
    if np.diff(slopes).max() > slack:
        at = grid[int(np.argmax(np.diff(slopes))) + 1]
        raise DataError(
            "concave is not concave, and the objective would not be submodular", f"it bends up near {at:g}"
        )


Steps = NDArray[np.int64]
# The part of a topic that an item covers is an integer, in units of 2^-30.
_BITS = 30
_WHOLE = 1 << _BITS
# Weights are counted in 2^-8 steps, so that rounding many of them loses no step.
_FINE = 8
# Sums of weights, below 2^61, are multiplied in three pieces; sums of this many products stay below 2^63.
_PIECE = 22
_MOST_TOPICS = (1 << 11) - 1
# (per_unit, most): sums over people of each topic's weight in steps, at most ``most`` for each person.
Totals = Callable[[float, int], Steps]


def weight_steps(weights: SparseMatrix, per_unit: float, most: int) -> Steps:
    """The sum over rows of their weights in integer steps, at most ``most`` in all for each row.

    Each weight is rounded down; the row is cut off where its running total exceeds ``most``.

    >>> rows = SparseMatrix(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.array([0.5, 0.75, 1.0]), 2)
    >>> weight_steps(rows, 8.0, 9).tolist()
    [4, 13]
    """
    out = np.zeros(weights.n_columns, dtype=np.int64)
    for start, stop in chunks(weights.indptr):
        part = weights.chunk(start, stop)
        steps = np.minimum(np.floor(part.data * per_unit), float(most)).astype(np.int64)
        sums = np.concatenate(([0], np.cumsum(steps)))
        before = np.minimum(sums[:-1] - sums[part.indptr[part.row_of]], most)
        np.add.at(out, part.indices, np.minimum(before + steps, most) - before)
    return out


class TopicSteps:
    """Rows to be summed up in integer steps (`StepSource`), where people weight topics that items cover.

    Formal guarantee. A person has a weight of at most ``most`` steps over all topics, in integer fractions of
    a step. What an item adds to a topic is public, in integer units of 2^-30, of which all chosen items of a
    topic have 2^30. A score is the sum over topics of the products, rounded down to steps once: if d, at most
    ``most``, is the person's part and x that of the others, the score moves by floor(x + d) - floor(x). This
    is at least 0, below d + 1, and at most the integer ``most``. Over the picks the d of a person add up to
    at most their weight, and each pick rounds by less than 1: so ``growing`` reduces everybody's steps by the
    number of items, and all picks together move by at most ``most``. `tests/stored/test_topics.py` enumerates
    it.
    """

    def __init__(self, covers: SparseMatrix, totals: Totals, share: float = 1.0) -> None:
        self._covers, self._totals, self._share = covers, totals, share  # covers: topics x items
        self._by_item = covers.by_column
        self._known: dict[tuple[float, int], Steps] = {}

    @staticmethod
    def fits(covers: SparseMatrix) -> bool:
        """Whether every item (a column) covers few enough topics to be summed exactly."""
        return int(np.bincount(covers.indices, minlength=1).max()) <= _MOST_TOPICS

    def scaled(self, factor: float) -> TopicSteps:
        """The same, each person's weights times ``factor``."""
        return TopicSteps(self._covers, self._totals, factor * self._share)

    def growing(self, most: float, per_unit: float) -> GrowingTopics:
        """The empty set."""
        spared = max(int(most) - self._by_item.n_rows, 0)
        return GrowingTopics(self, self._weights(per_unit, spared))

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """The multilinear gradient at ``x``: in closed form, so that nothing is sampled."""
        del seed, samples
        topics, items = self._entries
        stays = 1.0 - x[items] * self._by_item.data  # the probability that an item leaves the topic uncovered
        none, product = np.zeros(self._covers.n_rows), np.ones(self._covers.n_rows)
        np.add.at(none, topics, stays == 0.0)
        np.multiply.at(product, topics, np.where(stays == 0.0, 1.0, stays))
        others = np.where(stays == 0.0, none[topics] == 1.0, none[topics] == 0.0)
        apart = others * product[topics] / np.where(stays == 0.0, 1.0, stays)
        parts = np.minimum(np.floor(apart * self._by_item.data * _WHOLE), float(_WHOLE)).astype(np.int64)
        return self.summed(self._weights(per_unit, most), parts)

    @property
    def _entries(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The topics and the items of all entries, sorted by item."""
        return self._by_item.indices, self._by_item.row_of

    def fresh(self) -> tuple[Floats, Steps]:
        """For each topic the probability that nothing covers it, and the units left to be covered."""
        return np.ones(self._covers.n_rows), np.full(self._covers.n_rows, _WHOLE)

    def parts(self, uncovered: Floats, left: Steps) -> Steps:
        """The units that each item would cover of each of its topics."""
        topics, _ = self._entries
        wanted = np.floor(uncovered[topics] * self._by_item.data * _WHOLE).astype(np.int64)
        return np.asarray(np.minimum(wanted, left[topics]), dtype=np.int64)

    def choose(self, item: int, uncovered: Floats, left: Steps) -> None:
        """Choose an item: update both arrays of `fresh`."""
        here = slice(int(self._by_item.indptr[item]), int(self._by_item.indptr[item + 1]))
        topics = self._by_item.indices[here]
        left[topics] -= self.parts(uncovered, left)[here]
        uncovered[topics] *= 1.0 - self._by_item.data[here]

    def summed(self, weights: Steps, parts: Steps) -> Steps:
        """For each item the sum of weights times parts, exact (computed in pieces), rounded down to steps."""
        topics, ends, rest = self._by_item.indices, self._by_item.indptr, (1 << _PIECE) - 1
        pieces = []
        for shift in (0, _PIECE, 2 * _PIECE):
            piece = (weights >> shift) & (rest if shift < 2 * _PIECE else -1)
            sums = np.concatenate(([0], np.cumsum(piece[topics] * parts)))  # modulo 2^64; differences fit
            pieces.append(sums[ends[1:]] - sums[ends[:-1]])
        low, middle, high = pieces
        middle += low >> _PIECE
        high += middle >> _PIECE
        below = ((middle & rest) << _PIECE) | (low & rest)
        unit = _BITS + _FINE  # bits of a step
        return np.asarray((high << (2 * _PIECE - unit)) + (below >> unit), dtype=np.int64)

    def _weights(self, per_unit: float, most: int) -> Steps:
        asked = per_unit * self._share * (1 << _FINE), most << _FINE
        if asked not in self._known:
            self._known[asked] = self._totals(*asked)
        return self._known[asked]


class GrowingTopics:
    """A growing set over topics: public numbers for each topic, and the sums of weights."""

    def __init__(self, source: TopicSteps, weights: Steps) -> None:
        self._source, self._weights = source, weights
        self._uncovered, self._left = source.fresh()
        self._now = np.zeros(0, dtype=np.int64)

    def begin(self, sums: Floats) -> None:
        self._now = self._scores()
        sums += self._now

    def choose(self, item: int, sums: Floats) -> None:
        self._source.choose(item, self._uncovered, self._left)
        before, self._now = self._now, self._scores()
        sums += self._now - before

    def _scores(self) -> Steps:
        return self._source.summed(self._weights, self._source.parts(self._uncovered, self._left))


class WeightedTopics(Population):
    """f(S) = sum over topics of the person's weight x the chance that some item of S covers the topic.

    ``weights``: people x topics, nonnegative, private. ``covers``: items x topics, public, with the
    probability (or 0 and 1) that an item covers a topic. ``bound``: a public bound of a person's total
    weight, 1 unless declared.

    The people enter only through the sums of their weights, so every evaluation takes as long as for one
    person. Selectors count in integer steps (`TopicSteps`), but in floating point if an item covers more than
    2,047 topics.

    >>> covers = [[1, 0], [0, 1], [1, 1]]                # three items, two topics
    >>> people = WeightedTopics([[0.25, 0.75], [0.5, 0.0]], covers)
    >>> people.value([0]), people.value([1]), people.value([2])
    (0.375, 0.375, 0.75)
    """

    built_in = True

    def __init__(
        self, weights: Any, covers: Any, *, bound: float | None = None, labels: Iterable[Any] | None = None
    ) -> None:
        self._weights = checked("weights", weights)
        covered = as_sparse(checked("covers", covers, high=1.0, dense=False))
        if covered.n_columns != self._weights.shape[1]:
            raise ValueError(
                f"covers has {covered.n_columns} topics (columns), weights has {self._weights.shape[1]}; "
                "both must have one column per topic"
            )
        self.n_items = covered.n_rows
        # Topics x items: the topics are the rows, each with its weight as its share.
        self._topics = covered.by_column
        self._name_items(labels)
        self._declare(bound)

    @classmethod
    def from_store(
        cls,
        store: Store,
        covers: Any,
        engine: Any = "threads",
        *,
        bound: float | None = None,
        labels: Iterable[Any] | None = None,
    ) -> StoredTopics:
        """The people of a store (`data.prepare`) whose items are the topics; ``covers`` as above.

        ``engine`` as in `RowPopulation.from_store`. Without weights in the store each topic has weight 1. One
        pass over the store sums up the weights; selection needs no further one.
        """
        from .stored import StoredTopics

        return StoredTopics(store, covers, engine, bound, labels)

    def __len__(self) -> int:
        return int(self._weights.shape[0])

    def row_source(self) -> TopicSteps | None:
        return self._source

    @cached_property
    def _source(self) -> TopicSteps | None:
        totals = partial(weight_steps, as_sparse(self._weights))
        return TopicSteps(self._topics, totals) if TopicSteps.fits(self._topics) else None

    def start(self) -> State:
        return RowState(self, self._rows, 1)

    @cached_property
    def _rows(self) -> Rows:
        n_topics = int(self._weights.shape[1])
        if isinstance(self._weights, SparseMatrix):
            total = np.bincount(self._weights.indices, self._weights.data, minlength=n_topics)
        else:
            total = self._weights.sum(axis=0)
        return Rows(SURVIVE, self._topics, total / len(self), np.full(n_topics, np.inf))

    def _value(self, items: Items) -> float:
        return float(self._chain(items).sum())

    def _gains(self, items: Items) -> Floats:
        state = self._rows.fresh()
        self._rows.chain(items, state)
        return self._rows.gains(state)

    def _chain(self, order: Items) -> Floats:
        return self._rows.chain(order, self._rows.fresh())

    def _contributions(self, items: Items) -> Floats:
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        return self._rows.multilinear(corner)[1][items]

    def _extension(self, x: Floats) -> tuple[float, Floats]:
        return self._rows.multilinear(x)

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        for known in ("_rows", "_source"):
            taken.__dict__.pop(known, None)
        taken._weights = (
            self._weights.take(rows) if isinstance(self._weights, SparseMatrix) else self._weights[rows]
        )
        return taken

    def _largest(self) -> Floats:
        return row_totals(self._weights)

    def _additions(self) -> int:
        return super()._additions() + int(self._weights.shape[1])

    def _most_items(self) -> int:
        import scipy.sparse as sp

        wanted, topics = as_sparse(self._weights), self._topics
        ones = [np.ones(m.data.size) for m in (wanted, topics)]
        touched = sp.csr_array((ones[0], wanted.indices, wanted.indptr), shape=wanted.shape) @ sp.csr_array(
            (ones[1], topics.indices, topics.indptr), shape=topics.shape
        )
        return int(np.diff(touched.indptr).max())
