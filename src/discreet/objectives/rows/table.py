"""Many one-number rows at once: the engine of coverage, facility location and concave-over-modular.

Each row of a people x items array (or topics x items) is a monotone submodular function whose memory of the
chosen set is a single number: served or not, the chance of not being served, the best so far, the sum so far.
The kind says how that number moves and what an item adds to it. Sums over rows are weighted by ``share``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core.checks import DataError
from .matrices import Floats, SparseMatrix, as_sparse, column_sums, constant, is_constant, picked, within

Items = NDArray[np.int64]

# An expectation over all subsets of a row is a sum of 2^m terms for each of its m items.
_ENUMERABLE = 12
# Below this many entries starting threads costs more than it saves. The number of parts is fixed, so that
# sums are added up in the same order on every machine.
_THREADED = 1_000_000
_PARTS = 8


# Every kind that has a code, by its code. A kind enters itself: whoever reads saved rows misses none.
KINDS: dict[int, Kind] = {}


@dataclass(frozen=True)
class Kind:
    """How one row values a set: where its number starts, what an item adds, where the number goes.

    ``code`` names the compiled loop, and the kind in saved rows; -1 is none, so that the functions here are
    used. ``largest`` is the largest weight that makes sense.
    """

    code: int
    fresh: float
    gain: Callable[[Any, Any, Any], Any]
    step: Callable[[Any, Any], Any]
    largest: float | None = None

    def __post_init__(self) -> None:
        if self.code >= 0 and KINDS.setdefault(self.code, self) is not self:
            raise ValueError(f"there is a kind of rows with the code {self.code} already; take another one")

    @property
    def of_sums(self) -> bool:
        """Whether the number is the sum of the chosen weights."""
        return self.step is _add


def _log_gain(state: Any, weight: Any, _cap: Any) -> Any:
    return np.log1p(weight / (1.0 + state))


def _sqrt_gain(state: Any, weight: Any, _cap: Any) -> Any:
    # The difference of the two roots, without their cancelling; the roots of positive floats exceed 1e-200.
    return weight / np.maximum(np.sqrt(state + weight) + np.sqrt(state), 1e-200)


def _add(state: Any, weight: Any) -> Any:
    return state + weight


# Codes are those of `backends.objectives`, which is not imported before a loop is needed.
COVER = Kind(0, 0.0, lambda s, w, _: 1.0 - s + 0.0 * w, lambda _, w: 0.0 * w + 1.0, largest=1.0)
SURVIVE = Kind(1, 1.0, lambda s, w, _: s * w, lambda s, w: s * (1.0 - w), largest=1.0)
BEST = Kind(2, 0.0, lambda s, w, _: np.maximum(w - s, 0.0), np.maximum)
SQRT = Kind(3, 0.0, _sqrt_gain, _add)
LOG = Kind(4, 0.0, _log_gain, _add)
CAP = Kind(5, 0.0, lambda s, w, c: np.minimum(s + w, c) - np.minimum(s, c), _add)


def custom(function: Callable[[Any], Any]) -> Kind:
    """Any concave function of a sum, given as a Python function of arrays; slower than the named ones.

    A row's cap is here the sum of all its weights. Up to there every height that is seen is held to rising
    and to the height at the cap: a function can be looked at in advance only where one looks.
    """

    def gain(state: Any, weight: Any, cap: Any) -> Any:
        reached = np.asarray(state + weight, dtype=np.float64)
        before = heights(function, np.broadcast_to(state, reached.shape))
        after, most = heights(function, reached), heights(function, cap)
        slack = 1e-9 * (np.abs(before) + np.abs(after) + np.abs(most))
        # Items that are in the set already lead beyond the cap; their gains are never used.
        meant = reached <= cap * (1.0 + 1e-12)
        wrong = meant & ~((after >= before - slack) & (after <= most + slack))
        if wrong.any():
            raise DataError(
                "concave is less somewhere than for less weight, or more than for all items of a person; it"
                " must be concave and never fall",
                f"concave({float(reached[wrong][0])!r}) is {float(after[wrong][0])!r}",
            )
        return np.maximum(after - before, 0.0)

    return Kind(-1, 0.0, gain, _add)


def heights(function: Callable[[Any], Any], totals: Any) -> Floats:
    """A function of arrays, asked for an array whatever the shape, and held to finite numbers."""
    flat = np.array(totals, dtype=np.float64).reshape(-1)
    found = np.asarray(function(flat), dtype=np.float64)
    if found.shape != flat.shape or not np.isfinite(found).all():
        raise ValueError("concave must map an array of numbers >= 0 to finite numbers, one for one")
    return found.reshape(np.shape(totals))


def _kernels() -> Any:
    return backends.objectives


@dataclass(frozen=True)
class Rows:
    """A weighted sum of rows of one kind. Not to be written to."""

    kind: Kind
    matrix: SparseMatrix | Floats
    share: Floats
    cap: Floats

    def __post_init__(self) -> None:
        self.share.setflags(write=False)
        self.cap.setflags(write=False)
        if isinstance(self.matrix, np.ndarray):
            self.matrix.setflags(write=False)

    @classmethod
    def of_row(cls, kind: Kind, matrix: SparseMatrix, share: Floats, cap: Floats) -> Rows:
        """One row, of arrays that nobody writes to, with less ado."""
        one = object.__new__(cls)
        one.__dict__.update(kind=kind, matrix=matrix, share=share, cap=cap, sparse=matrix)
        return one

    @property
    def n_rows(self) -> int:
        return self.share.size

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def sparse(self) -> SparseMatrix:
        return as_sparse(self.matrix)

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats]:
        """What compiled loops over people take, all without gaps: one kind of arrays to compile for."""
        table = self.sparse
        return (
            table.indptr,
            table.indices,
            within(table.data, 0, table.data.size),
            within(self.cap, 0, self.n_rows),
        )

    @property
    def _compiled(self) -> bool:
        # One person is a few dozen numbers: cheaper in NumPy than a compiled call with eight arrays.
        return self.kind.code >= 0 and self.n_rows > 1

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
        return replace(
            self, share=constant(factor * share[0], share.size) if is_constant(share) else factor * share
        )

    def stretch(self, start: int, stop: int) -> Rows:
        """The rows from ``start`` up to ``stop``, as views and without gaps."""
        matrix = self.matrix
        part = matrix.stretch(start, stop) if isinstance(matrix, SparseMatrix) else matrix[start:stop]
        return Rows(self.kind, part, within(self.share, start, stop), within(self.cap, start, stop))

    @property
    def compact(self) -> bool:
        """Whether something here is one number in memory for many rows: loops are given stretches of it."""
        arrays = (self.sparse.data, self.share, self.cap)
        return any(is_constant(array) and array.size > 1 for array in arrays)

    def fresh(self) -> Floats:
        return np.full(self.n_rows, self.kind.fresh)

    def chain(self, order: Items, state: Floats) -> Floats:
        """What each item adds when they are chosen in this order; ``state`` moves along."""
        out = np.zeros(order.size)
        if self.n_rows == 1:
            self._walk(order, state, out)
        elif not self._compiled:
            for t, j in enumerate(order):
                rows, weights = self._column(int(j))
                out[t] = self.share[rows] @ self.kind.gain(state[rows], weights, self.cap[rows])
                state[rows] = self.kind.step(state[rows], weights)
        elif isinstance(self.matrix, SparseMatrix):
            columns = self.matrix.by_column
            _kernels().sparse_chain(self.kind.code)(
                *_unsigned(columns), order.view(np.uint64), self.share, self.cap, state, out
            )
        else:
            _kernels().dense_chain(self.kind.code)(
                self.matrix, order.view(np.uint64), self.share, self.cap, state, out
            )
        return out

    def gains(self, state: Floats) -> Floats:
        """What every item adds on top of ``state``."""
        out = np.zeros(self.n_items)
        if not self._compiled:
            m = self.sparse
            if m.n_rows == 1:
                out[m.indices] = self.share[0] * self.kind.gain(state[0], m.data, self.cap[0])
                return out
            added = self.kind.gain(state[m.row_of], m.data, self.cap[m.row_of])
            return column_sums(m.indices, self.share[m.row_of] * added, self.n_items)
        if isinstance(self.matrix, SparseMatrix):
            _kernels().sparse_gains(self.kind.code)(*_unsigned(self.matrix), self.share, self.cap, state, out)
        else:
            _kernels().dense_gains(self.kind.code)(self.matrix, self.share, self.cap, state, out)
        return out

    def add(self, item: int, state: Floats, gains: Floats) -> float:
        """Choose ``item``: ``state`` and ``gains`` move, and what it added is returned."""
        if not self._compiled:
            added = self.chain(np.array([item]), state)[0]
            gains[:] = self.gains(state)
            return float(added)
        j = np.uint64(item)
        if isinstance(self.matrix, SparseMatrix):
            arrays = (*_unsigned(self.matrix.by_column), *_unsigned(self.matrix))
            add = _kernels().sparse_add(self.kind.code)
            return float(add(*arrays, j, self.share, self.cap, state, gains))
        add = _kernels().dense_add(self.kind.code)
        return float(add(self.matrix, j, self.share, self.cap, state, gains))

    def contributions(self, items: Items, state: Floats) -> Floats:
        """f(S) - f(S without j) for each j of S: exact for rows that remember a sum."""
        out = np.zeros(items.size)
        for t, j in enumerate(items):
            rows, weights = self._column(int(j))
            # The sum may come back a rounding error below zero once the item's weight is taken out again.
            rest = np.maximum(state[rows] - weights, 0.0)
            out[t] = self.share[rows] @ self.kind.gain(rest, weights, self.cap[rows])
        return out

    def _walk(self, order: Items, state: Floats, out: Floats) -> None:
        """``chain`` for a single row: find its items by bisection, and carry one number along."""
        m = self.sparse
        now, share, cap = float(state[0]), self.share[0], self.cap[0]
        places = np.searchsorted(m.indices, order).tolist()
        for t, (item, at) in enumerate(zip(order.tolist(), places, strict=True)):
            if at < m.indices.size and m.indices[at] == item:
                weight = m.data[at]
                out[t] = share * self.kind.gain(now, weight, cap)
                now = self.kind.step(now, weight)
        state[0] = now

    @property
    def exact_extension(self) -> bool:
        """Whether the multilinear extension has a closed form here."""
        if not self.kind.of_sums:
            return True
        return self.kind.code >= 0 and int(np.diff(self.sparse.indptr).max()) <= _ENUMERABLE

    def multilinear(self, x: Floats) -> tuple[float, Floats]:
        """The multilinear extension at ``x`` and its gradient, in closed form."""
        kernels = _kernels()
        out = np.zeros(self.n_items)
        m = self.sparse
        if self.kind in (COVER, SURVIVE):
            return self._survive_gradient(x)
        if self.kind is BEST:
            return float(kernels.best_gradient(*_unsigned(m.falling), self.share, x, out)), out
        longest = int(np.diff(m.indptr).max())
        gradient = kernels.concave_gradient(self.kind.code)
        return float(gradient(*_unsigned(m), self.share, self.cap, x, longest, out)), out

    def _survive_gradient(self, x: Floats) -> tuple[float, Floats]:
        gradient = _kernels().survive_gradient
        arrays = _unsigned(self.sparse)
        if self.sparse.data.size < _THREADED:
            out = np.zeros(self.n_items)
            total = gradient(*arrays, self.share, x, np.uint64(0), np.uint64(self.n_rows), out)
            return float(total), out
        cuts = np.linspace(0, self.n_rows, _PARTS + 1).astype(np.uint64)
        outs = np.zeros((_PARTS, self.n_items))

        def part(p: int) -> float:
            return float(gradient(*arrays, self.share, x, cuts[p], cuts[p + 1], outs[p]))

        with ThreadPoolExecutor(min(_PARTS, os.cpu_count() or 1)) as threads:
            totals = list(threads.map(part, range(_PARTS)))
        return sum(totals), outs.sum(axis=0)

    def _column(self, j: int) -> tuple[Any, Floats]:
        """The rows that hold item ``j`` and their weights for it."""
        if not isinstance(self.matrix, SparseMatrix):
            rows = np.flatnonzero(self.matrix[:, j])
            return rows, self.matrix[rows, j]
        columns = self.matrix.by_column
        inside = slice(int(columns.indptr[j]), int(columns.indptr[j + 1]))
        return columns.indices[inside], columns.data[inside]


def _unsigned(matrix: SparseMatrix) -> tuple[NDArray[np.uint64], NDArray[np.uint32], Floats]:
    return matrix.indptr.view(np.uint64), matrix.indices.view(np.uint32), matrix.data
