"""Toeplitz factorisations: the stream passes a filter whose square is summation, and noise is added there."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from ...kernels.prefix_sums import FactorizedPrefix
from .. import samplers
from ..accountant import Spending
from ..events import Event, GaussianNoise
from .base import NUMBERS_AHEAD, RunningSum, norm_slack
from .factorizations import Factorization, buffered, square_root
from .spec import SumSpec

_ROWS_AHEAD = 256


@lru_cache(maxsize=64)
def factorization(method: str, rounds: int) -> Factorization:
    """The factorisation of a method for so many rounds."""
    return square_root(rounds) if method == "sqrt" else buffered(rounds)


class FactorizedSum(RunningSum):
    """Running sum by a Toeplitz factorisation: the least noise of all, Gaussian only.

    The vectors are passed through a filter C whose square is summation; what is released each round is the
    filter's output plus fresh Gaussian noise, and inverting the filter gives the sum. ``method="sqrt"``
    is the square root itself, held as O(log rounds) decaying buffers; ``"blt"`` uses at most six buffers
    with tabulated constants, and is within 1 % of it.

    Formal guarantee: Gaussian DP for the L2 difference bound times the norm of C's first column, also
    when inputs depend on earlier answers (C is lower triangular; Denisov et al. 2022). With
    ``min_separation`` it is the norm of a sum of columns (`Participation`). What is released is on a grid;
    truncation to it, and the rounding errors of the floating-point filter, are in the sensitivity.
    """

    methods = ("sqrt", "blt")
    noises = ("gaussian",)

    def __init__(
        self, dimension: int, rounds: int, budget: Spending, *, method: str = "sqrt", **options: Any
    ) -> None:
        checks.one_of("method", method, self.methods)
        super().__init__(dimension, rounds, budget, method=method, **options)

    @property
    def factorization(self) -> Factorization:
        return factorization(self.method, self.rounds)

    # --- of a specification ----------------------------------------------------------------------

    @classmethod
    def uses(cls, spec: SumSpec) -> int:  # noqa: ARG003
        return 1

    @classmethod
    def stretch(cls, spec: SumSpec) -> float:
        return factorization(spec.method, spec.rounds).column_norm

    @classmethod
    def group_stretch(cls, spec: SumSpec) -> float:
        assert spec.participation is not None
        found = factorization(spec.method, spec.rounds)
        return found.participation_norm(spec.participation.times, spec.participation.apart)

    @classmethod
    def error(cls, spec: SumSpec, step: int) -> float:
        return float(factorization(spec.method, spec.rounds).row_norm(step))

    @classmethod
    def worst_error(cls, spec: SumSpec) -> float:
        return factorization(spec.method, spec.rounds).worst_error

    @classmethod
    def mean_error(cls, spec: SumSpec) -> float:
        # The error never falls in between.
        found, rounds = factorization(spec.method, spec.rounds), spec.rounds
        stops = np.unique(np.ceil(np.geomspace(1.0, rounds, 200)).astype(np.int64).clip(1, rounds))
        lengths = np.diff(np.concatenate(([0], stops)))
        mean = float((lengths * found.row_norm(stops)).sum()) / rounds
        return found.column_norm * mean

    @classmethod
    def grid(cls, spec: SumSpec, event: Event, neighbours: str) -> samplers.Grid | None:
        assert isinstance(event, GaussianNoise)
        if not event.sigma:
            return None
        # A person's vector changes the filter's output in every later round, so truncation can add a step
        # to each. The filter itself is computed in floating point: a buffer of decay r holds at most
        # largest / (1 - r); each round adds two rounding errors in each of the two neighbouring runs,
        # which then decay at the same rate; the weighted sum over K buffers adds K + 1 more to all terms.
        found = factorization(spec.method, spec.rounds)
        decays, weights, lasts = found.decays, found.weights, _lasts(spec)
        holds = spec.added.largest * lasts
        adding = 2.0 * (decays.size + 1)
        error = float((weights * holds * (4.0 * lasts + adding)).sum()) + spec.added.largest * adding
        error *= 2.0**-53
        steps = 1.0 + error * 2.0**samplers.STEPS_BITS / float(event.sigma) * 1.01
        # Who comes back may move other coordinates each time.
        times = 1 if spec.participation is None else spec.participation.within(spec.rounds)
        touched = spec.rounds * min(spec.added.dimension, times * spec.added.changed(neighbours))
        truncation = math.sqrt(touched) * steps + float(norm_slack(event.sensitivity, event.sigma))
        truncation *= 1.0 + 2.0**-50  # its own rounding
        return samplers.Grid.for_noise(event.sigma, event.sensitivity, truncation)

    # --- adding ----------------------------------------------------------------------------------

    @property
    def _decays(self) -> NDArray[np.float64]:
        return self.factorization.decays

    @property
    def _name(self) -> str:
        return f"{self.method} factorisation"

    def _start(self) -> None:
        shape = (self._decays.size, self.dimension)
        self._hold(np.zeros(shape), np.zeros(shape))

    def _hold(self, encoder: NDArray[np.float64], decoder: NDArray[np.float64]) -> None:
        self._encoder, self._decoder = encoder, decoder
        about = (self._grid_numbers, self._prefix, self._decays, self.factorization.weights)
        self._steps = FactorizedPrefix(*about, encoder, decoder)

    @property
    def compiles(self) -> bool:
        return self._draws_ahead

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:  # noqa: ARG002
        rows = self._most_ahead(self._taken)
        if self._grid is None or rows == 0:
            return rows
        if draw and not self._ahead.shape[0]:
            self._ahead = self._release.noise(self._grid, rows * self.dimension).reshape(rows, self.dimension)
        return self._ahead.shape[0]

    def _most_ahead(self, taken: int) -> int:
        block = max(1, min(_ROWS_AHEAD, NUMBERS_AHEAD // self.dimension))
        return min(block - taken % block, self.rounds - taken)

    def _noise_steps(self) -> NDArray[np.int64]:
        if self._draws_ahead:
            self.rows_ahead(1)
        return super()._noise_steps()

    # --- saving ----------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "decays": self.factorization.decays,
            "weights": self.factorization.weights,
            "encoder": self._encoder,
            "decoder": self._decoder,
            "prefix": self._prefix,
        }

    def _restore(self, saved: Saved, taken: int) -> None:  # noqa: ARG002
        decays, weights, size = self._decays, self.factorization.weights, self._decays.size
        for name, own in (("decays", decays), ("weights", weights)):
            if not np.allclose(saved.array(name, (size,)), own, rtol=1e-9, atol=0.0):
                raise ValueError(f"the array {name} is of another filter than this release has")
        shape = (size, self.dimension)
        encoder = saved.array("encoder", shape)
        # What rounding costs rests on what a buffer can hold.
        if (np.abs(encoder) > (1.0 + 1e-9) * self.bounds.largest * _lasts(self.spec)[:, None]).any():
            raise ValueError("the array encoder holds more than such vectors add up to")
        self._prefix[:] = saved.array("prefix", (self.dimension,))
        self._hold(encoder, saved.array("decoder", shape))


def _lasts(spec: SumSpec) -> NDArray[np.float64]:
    """How many vectors each of the encoder's buffers holds at most, counted with their weights in it."""
    return 1.0 / np.maximum(1.0 - factorization(spec.method, spec.rounds).decays, 1.0 / spec.rounds)
