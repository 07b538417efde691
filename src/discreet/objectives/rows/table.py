"""Many one-number rows at once: the engine of coverage, facility location and concave-over-modular.

Each row of a people x items array (or topics x items) is a monotone submodular function whose memory of the
chosen set is a single number: served or not, the chance of not being served, the best so far, the sum so far.
The kind says how that number moves and what an item adds to it. Sums over rows are weighted by ``share``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from .matrices import Floats, SparseMatrix, as_sparse, column_sums, constant, is_constant, picked, within

Items = NDArray[np.int64]

# An expectation over all subsets of a row is a sum of 2^m terms for each of its m items.
_ENUMERABLE = 12
# Below this many entries starting threads costs more than it saves. The number of parts is fixed, so that
# sums are added up in the same order on every machine.
_THREADED = 1_000_000
_PARTS = 8
_NONE = np.zeros(0, dtype=np.int64)


# Every kind that has a code, by its code. A kind enters itself: whoever reads saved rows misses none.
KINDS: dict[int, Kind] = {}


@dataclass(frozen=True)
class Kind:
    """How one row values a set: where its number starts, what an item adds, where the number goes.

    ``code`` names the compiled loop, and the kind in saved rows; -1 is none, so that the functions here are
    used. ``largest`` is the largest weight that makes sense. ``function`` is the concave function of those in
    Python (`functions.custom`).
    """

    code: int
    fresh: float
    gain: Callable[[Any, Any, Any], Any]
    step: Callable[[Any, Any], Any]
    largest: float | None = None
    function: Callable[[Any], Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.code >= 0 and KINDS.setdefault(self.code, self) is not self:
            raise ValueError(f"there is a kind of rows with the code {self.code} already; take another one")

    @property
    def of_sums(self) -> bool:
        """Whether the number is the sum of the chosen weights."""
        return self.step is add_weight


def _log_gain(state: Any, weight: Any, _cap: Any) -> Any:
    return np.log1p(weight / (1.0 + state))


def _sqrt_gain(state: Any, weight: Any, _cap: Any) -> Any:
    # The difference of the two roots, without their cancelling; the roots of positive floats exceed 1e-200.
    return weight / np.maximum(np.sqrt(state + weight) + np.sqrt(state), 1e-200)


def add_weight(state: Any, weight: Any) -> Any:
    """Where the number of a row goes that remembers a sum."""
    return state + weight


# Codes are those of `backends.objectives`, which is not imported before a loop is needed.
COVER = Kind(0, 0.0, lambda s, w, _: 1.0 - s + 0.0 * w, lambda _, w: 0.0 * w + 1.0, largest=1.0)
SURVIVE = Kind(1, 1.0, lambda s, w, _: s * w, lambda s, w: s * (1.0 - w), largest=1.0)
BEST = Kind(2, 0.0, lambda s, w, _: np.maximum(w - s, 0.0), np.maximum)
SQRT = Kind(3, 0.0, _sqrt_gain, add_weight)
LOG = Kind(4, 0.0, _log_gain, add_weight)
CAP = Kind(5, 0.0, lambda s, w, c: np.minimum(s + w, c) - np.minimum(s, c), add_weight)


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
        if self.n_rows == 1 and self.kind.code < 0:
            places, held = self._places(items)
            weights = self.sparse.data[places]
            rest = np.maximum(state[0] - weights, 0.0)
            out[held] = self.share[0] * self.kind.gain(rest, weights, self.cap[0])
            return out
        for t, j in enumerate(items):
            rows, weights = self._column(int(j))
            # The sum may come back a rounding error below zero once the item's weight is taken out again.
            rest = np.maximum(state[rows] - weights, 0.0)
            out[t] = self.share[rows] @ self.kind.gain(rest, weights, self.cap[rows])
        return out

    def _walk(self, order: Items, state: Floats, out: Floats) -> None:
        """``chain`` for a single row: find its items by bisection, and carry one number along."""
        if self.kind.code < 0:
            places, held = self._places(order)
            sums = np.add.accumulate(np.concatenate((state, self.sparse.data[places])))
            if held.size:
                gains = self.kind.gain(sums[:-1], self.sparse.data[places], self.cap[0])
                out[held] = self.share[0] * gains
            state[0] = sums[-1]
            return
        m = self.sparse
        now, share, cap = float(state[0]), self.share[0], self.cap[0]
        at_order = np.searchsorted(m.indices, order).tolist()
        for t, (item, at) in enumerate(zip(order.tolist(), at_order, strict=True)):
            if at < m.indices.size and m.indices[at] == item:
                weight = m.data[at]
                out[t] = share * self.kind.gain(now, weight, cap)
                now = self.kind.step(now, weight)
        state[0] = now

    def along(self, order: Items, state: Floats) -> Floats:
        """What every item adds before each of ``order`` joins, for a single row of sums: asked once for all.

        ``state`` moves along. What is beyond the last of them is asked as well, and held to its word.
        """
        m = self.sparse
        places, held = self._places(order)
        sums = np.add.accumulate(np.concatenate((state, m.data[places])))
        gains = self.share[0] * self.kind.gain(sums[:, None], m.data, self.cap[0])
        out = np.zeros((order.size, self.n_items))
        out[:, m.indices] = gains[np.searchsorted(held, np.arange(order.size))]
        state[0] = sums[-1]
        return out

    def _places(self, items: Items) -> tuple[Items, Items]:
        """Which entries of a single row are ``items``, and which of the items they are."""
        held = self.sparse.indices
        if not held.size:
            return _NONE, _NONE
        places = np.searchsorted(held, items)
        there = np.flatnonzero(held[np.minimum(places, held.size - 1)] == items)
        return places[there], there

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
