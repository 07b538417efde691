"""Running sums for compiled loops: their noise is drawn many rounds at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from .factorized import FactorizedSum
from .tree import Node, TreeSum

if TYPE_CHECKING:
    from ...backends.arguments import SumState, TreeState

_ROWS_AHEAD, _NUMBERS_AHEAD = 256, 1 << 18
_NO_FILTER = (np.empty((0, 0)), np.empty((0, 0)), np.empty(0), np.empty(0))
NO_TREE: TreeState = (0, np.zeros(1, dtype=np.int64), np.zeros((3, 0, 0), dtype=np.int64), 2, 0.0)


def no_sum(size: int) -> SumState:
    """For loops that take no sum."""
    none = np.empty((0, size))
    still = np.empty((0, size), dtype=np.int64)
    return False, 1, 0, 1.0, still, none, none, np.empty(0), np.empty(0), NO_TREE


class CompiledSum(FactorizedSum):
    """A `FactorizedSum` that also lets a compiled loop take the next sums itself (`compiled`).

    The rows of noise that no round has used yet are part of its state. A saved file holds them only for a
    seeded source, which would draw them again anyway: with secure randomness, two learners that go on from
    the same file are not to share noise.
    """

    def _start(self) -> None:
        super()._start()
        self._ahead = np.empty((0, self.dimension), dtype=np.int64)

    def _noise_steps(self) -> NDArray[np.int64]:
        self.rows_ahead(1)
        row: NDArray[np.int64] = self._ahead[0]
        self._ahead = self._ahead[1:]
        return row

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:  # noqa: ARG002
        """How many sums can be taken before noise has to be drawn; with ``draw``, some if it is none."""
        rows = self._block(self._taken)
        if self._grid is None or rows == 0:
            return rows
        if draw and not self._ahead.shape[0]:
            self._ahead = self._release.noise(self._grid, rows * self.dimension).reshape(rows, self.dimension)
        return self._ahead.shape[0]

    def _block(self, taken: int) -> int:
        """For how many rounds noise is drawn at once."""
        block = max(1, min(_ROWS_AHEAD, _NUMBERS_AHEAD // self.dimension))
        return min(block - taken % block, self.rounds - taken)

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[SumState, NDArray[np.float64]]]:
        """The arrays with which a compiled loop takes the next ``count`` sums itself, and the sum so far.

        As with `add`, whatever breaks in between leaves a sum that takes nothing any more.
        """
        self._gate.check_process()
        with self._lock:
            if self._interrupted:
                raise RuntimeError("an addition was interrupted half-way; go on from the last saved state")
            self._interrupted = True
            grid = self._grid
            noise, left = self._ahead[:count], self._ahead[count:]
            where = (1 << 31, 0, 1.0) if grid is None else (grid.mantissa, grid.exponent, float(grid.step))
            mantissa, exponent, step = where
            coders = (self._encoder, self._decoder, self._decays.copy(), self.factorization.weights.copy())
            yield (grid is not None, mantissa, exponent, step, noise, *coders, NO_TREE), self._prefix
            self._ahead = left
            self._taken += count
            self._interrupted = False

    def _arrays(self) -> dict[str, NDArray[Any]]:
        kept = self._ahead if self._gate.resumes_alike else self._ahead[:0]
        return super()._arrays() | {"ahead": kept}

    def _restore(self, saved: Saved, taken: int) -> None:
        super()._restore(saved, taken)
        ahead = saved.array("ahead", (None, self.dimension), np.int64, at_least=-(1 << 61), at_most=1 << 61)
        rows = ahead.shape[0]
        if rows and (not self._gate.resumes_alike or self._grid is None or rows > self._block(taken)):
            raise ValueError(f"the array ahead has {rows} rows of noise, which nobody has left there")
        self._ahead = ahead


class CompiledTree(TreeSum):
    """A `TreeSum` that also lets a compiled loop take the next sums itself: one row of noise for each.

    Noise is drawn for exactly those sums, in the order in which they would be taken one by one: what a seed
    leads to does not change.
    """

    def _start(self) -> None:
        super()._start()
        self._ahead = np.empty((0, self.dimension), dtype=np.int64)

    @property
    def compiles(self) -> bool:
        """Whether a loop can take the sums: those that have noise, a draw for each, and a declared length."""
        return self.one_draw_each and self.bounds.box is None and self.bounds.nonzeros is None

    @property
    def one_draw_each(self) -> bool:
        """Whether every sum takes one draw of noise: rows of it can be drawn ahead."""
        return self._vector == self.dimension and self._grid is not None and not self.variance_reduction

    def _noise_steps(self) -> NDArray[np.int64]:
        if not self._ahead.shape[0]:
            return super()._noise_steps()
        row: NDArray[np.int64] = self._ahead[0]
        self._ahead = self._ahead[1:]
        return row

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:
        """How many sums can be taken before noise has to be drawn; with ``draw``, up to ``wanted``."""
        rows = min(wanted, self.rounds - self._taken, max(1, _NUMBERS_AHEAD // self.dimension))
        if draw and rows > 0 and not self._ahead.shape[0]:
            assert self._grid is not None
            self._ahead = self._release.noise_rows(self._grid, rows, self.dimension)
        return self._ahead.shape[0]

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[SumState, NDArray[np.float64]]]:
        """As `CompiledSum.compiled`."""
        self._gate.check_process()
        with self._lock:
            if self._interrupted:
                raise RuntimeError("an addition was interrupted half-way; go on from the last saved state")
            self._interrupted = True
            grid, bounds = self._grid, self.bounds
            assert grid is not None
            assert bounds.norm_bound is not None
            longest = bounds.norm_bound * bounds.people_per_vector
            noise, left = self._ahead[:count], self._ahead[count:]
            nodes = np.zeros((3, self.levels + 1, self.dimension), dtype=np.int64)
            for slot, node in zip(self._slots(), self._stack, strict=True):
                nodes[:, slot] = node.total, node.estimate, node.prefix
            taken = np.array([self._taken])
            where = (True, grid.mantissa, grid.exponent, float(grid.step), noise)
            known = self._in_units(self._stack[-1].prefix) if self._stack else np.zeros(self.dimension)
            tree = (self.levels, taken, nodes, bounds.norm, longest)
            yield (*where, *_NO_FILTER, tree), known
            self._ahead = left
            self._taken += count
            levels = self._stack_after(self._taken)
            self._stack = [
                Node(level, nodes[0, slot].copy(), nodes[1, slot].copy(), 1.0, nodes[2, slot].copy())
                for level, slot in zip(levels, self._slots(), strict=True)
            ]
            self._interrupted = False

    def _slots(self) -> list[int]:
        """Where a compiled loop keeps the nodes: by level, a second one of the top level after the first."""
        levels = self._stack_after(self._taken)
        return [level + (place if level == self.levels - 1 else 0) for place, level in enumerate(levels)]
