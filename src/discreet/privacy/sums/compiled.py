"""A factorised sum for compiled loops: its noise is drawn many rounds at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from .factorized import FactorizedSum

if TYPE_CHECKING:
    from ...backends.arguments import FactorizedState

_ROWS_AHEAD, _NUMBERS_AHEAD = 256, 1 << 18


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
        self.rows_ahead()
        row: NDArray[np.int64] = self._ahead[0]
        self._ahead = self._ahead[1:]
        return row

    def rows_ahead(self, *, draw: bool = True) -> int:
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
    def compiled(self, count: int) -> Iterator[tuple[FactorizedState, NDArray[np.float64]]]:
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
            yield (grid is not None, mantissa, exponent, step, noise, *coders), self._prefix
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
