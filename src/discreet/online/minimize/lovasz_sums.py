"""Private sums of Lovasz gradients: how much noise they need, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...bounds import minimization as bounds
from ...core.state import Saved
from ...privacy import (
    Budget,
    Event,
    FactorizedSum,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    RunningSum,
    TreeSum,
    samplers,
    tree_levels,
)
from ...privacy.budget import Share
from ...privacy.events import SphericalLaplaceNoise
from ...privacy.sums.factorizations import Factorization, buffered, square_root

if TYPE_CHECKING:
    from ...backends.numba.minimization import Inside

# Room for rounding errors, in gradients and in what people promise about their functions.
ROUNDING = 1e-9
_ROWS_AHEAD, _NUMBERS_AHEAD = 256, 1 << 18


def difference(n_items: int, bound: float, noise: str, neighbours: str, empty_is_free: bool) -> float:
    """How far one person can move the sum of gradients, in the norm of the noise, rounding included."""
    measure = bounds.gradient_difference if neighbours == "replace" else bounds.gradient_length
    norm = 1 if noise == "laplace" else 2
    return measure(n_items, bound, norm, empty_is_free=empty_is_free) * (1.0 + 2.0 * ROUNDING)


def published_event(
    n_items: int, rounds: int, budget: Budget, bound: float, empty_is_free: bool
) -> SphericalLaplaceNoise:
    """A node of paper 001's tree: noise for a difference of 4 bound and one level more than it needs."""
    moves = difference(n_items, bound, "spherical", budget.neighbours, empty_is_free)
    if not budget.private:
        return SphericalLaplaceNoise(moves, 0.0)
    levels = math.ceil(math.log2(rounds)) + 1
    return SphericalLaplaceNoise(moves, 4.0 * bound * levels / budget.epsilon)


def gradient_sum(
    n_items: int,
    rounds: int,
    gate: Gate,
    bound: float,
    sums: str,
    noise: str,
    empty_is_free: bool,
    event: Event | None = None,
) -> RunningSum:
    """A running sum of ``rounds`` gradients; ``event`` overrides the noise that it is calibrated to."""
    norm = 1 if noise == "laplace" else 2
    longest = bounds.gradient_length(n_items, bound, norm, empty_is_free=empty_is_free) * (1.0 + ROUNDING)
    moves = difference(n_items, bound, noise, gate.budget.neighbours, empty_is_free)
    options: dict[str, Any] = {"norm_bound": longest, "label": "gradients"}
    if sums == "tree":
        return GradientTree(n_items, rounds, gate, moves=moves, event=event, noise=noise, **options)
    return GradientSum(n_items, rounds, gate, moves=moves, event=event, method=sums, **options)


def chosen_sums(
    n_items: int, rounds: int, budget: Budget, bound: float, sums: str, noise: str, empty_is_free: bool
) -> tuple[str, str]:
    """What ``"auto"`` stands for: Gaussian noise with a delta, else the tree that certifies less."""
    if noise in ("laplace", "spherical") and sums in ("sqrt", "blt"):
        raise ValueError(f'noise={noise!r} needs sums="tree"; {sums!r} has Gaussian noise only')
    gaussian = noise == "gaussian" or sums in ("sqrt", "blt")
    if noise == "auto" and not gaussian:
        gaussian = bool(budget.delta) or not budget.private
    if gaussian:
        if budget.private and not budget.delta:
            raise ValueError("Gaussian noise needs delta > 0; give the budget a delta, or take sums='tree'")
        return ("sqrt" if sums == "auto" else sums), "gaussian"
    if noise == "auto":
        question = (n_items, rounds, budget, bound, "tree")
        noise = min(("laplace", "spherical"), key=lambda kind: noise_pull(*question, kind, empty_is_free))
    return "tree", noise


def noise_pull(
    n_items: int, rounds: int, budget: Budget, bound: float, sums: str, noise: str, empty_is_free: bool
) -> float:
    """`bounds.minimization.moved_by` for the noise of such sums, on average over the rounds."""
    if not budget.private or rounds == 1:
        return 0.0
    moves = difference(n_items, bound, noise, budget.neighbours, empty_is_free)
    levels = tree_levels(rounds - 1)
    if noise != "gaussian":
        scale = float(LaplaceNoise.within(budget.share(), moves, levels).scale)
        return bounds.moved_by(n_items, noise, scale, mean_nodes(rounds), bound, empty_is_free=empty_is_free)
    if budget.mu == 0.0:
        return math.inf
    error = _honaker_error(rounds) if sums == "tree" else _mean_error(_factorization(sums, rounds - 1))
    return bounds.moved_by(n_items, noise, moves * error / budget.mu, 1.0, bound, empty_is_free=empty_is_free)


def mean_nodes(rounds: int) -> float:
    """At most how many nodes the sums of rounds 0 to T - 1 are made of, on average over the rounds.

    At most half the numbers below T have any given bit; the sum over a full tree takes two.
    """
    return tree_levels(max(1, rounds - 1)) / 2.0 + 2.0 / rounds


def _factorization(sums: str, rounds: int) -> Factorization:
    return square_root(rounds) if sums == "sqrt" else buffered(rounds)


def _mean_error(factorization: Factorization) -> float:
    """The error of a sum on average over the rounds, a little overstated: it never falls in between."""
    rounds = factorization.rounds
    stops = np.unique(np.ceil(np.geomspace(1.0, rounds, 200)).astype(np.int64).clip(1, rounds))
    lengths = np.diff(np.concatenate(([0], stops)))
    mean = float((lengths * factorization.row_norm(stops)).sum()) / rounds
    return factorization.column_norm * mean


def _honaker_error(rounds: int) -> float:
    """As `_mean_error` for a Gaussian tree whose blocks are combined with their halves."""
    levels = tree_levels(rounds - 1)
    variance, total = 1.0, 0.0
    for _ in range(levels):
        total += variance / 2.0
        variance = 2.0 * variance / (2.0 * variance + 1.0)
    return math.sqrt(levels * (total + 2.0 / rounds))


class GradientTree(TreeSum):
    """A tree calibrated to how far two gradients can be apart, which is less than twice their length.

    As in every tree, vectors are truncated towards zero to the grid. That takes something off the rises of a
    gradient, and lowers no height along the chain by more than it takes: the gradient stays in its set. Where
    the empty set is free it may leave the set, but the two that are farthest apart only come closer.
    """

    def __init__(
        self, dimension: int, rounds: int, gate: Gate, *, moves: float, event: Event | None, **options: Any
    ) -> None:
        self._moves = moves
        options |= {"honaker": options["noise"] == "gaussian", "event": event}
        super().__init__(dimension, rounds, gate, **options)

    def _calibrated(self, part: Share) -> tuple[Event, int]:
        kinds: dict[str, type[GaussianNoise] | type[LaplaceNoise]] = {
            "gaussian": GaussianNoise,
            "laplace": LaplaceNoise,
            "spherical": SphericalLaplaceNoise,
        }
        return kinds[self.noise].within(part, self._moves, self.levels, self._gate.notion), self.levels

    @property
    def scale(self) -> float:
        """Scale of a node's Laplace noise."""
        assert isinstance(self._event, LaplaceNoise)
        return float(self._event.scale)


class GradientSum(FactorizedSum):
    """A factorised sum calibrated in the same way, whose noise is drawn many rounds at a time.

    The rows that no round has used yet are part of its state. A saved file holds them only for a seeded
    source, which would draw them again anyway: with secure randomness, two learners that go on from
    the same file are not to share noise.
    """

    def __init__(self, dimension: int, rounds: int, gate: Gate, *, moves: float, **options: Any) -> None:
        self._moves = moves
        super().__init__(dimension, rounds, gate, **options)
        self._ahead = np.empty((0, dimension), dtype=np.int64)

    def _calibrated(self, part: Share) -> tuple[Event, int]:
        moves = self._moves * self.factorization.column_norm
        return GaussianNoise.within(part, moves, notion=self._gate.notion), 1

    def _noise_steps(self) -> NDArray[np.int64]:
        self.rows_ahead()
        row: NDArray[np.int64] = self._ahead[0]
        self._ahead = self._ahead[1:]
        return row

    def rows_ahead(self) -> int:
        """How many sums can be taken before noise has to be drawn again; draws some if it is none."""
        rows = self._block(self._taken)
        if self._grid is None or rows == 0:
            return rows
        if not self._ahead.shape[0]:
            steps = samplers.noise_steps(self._gate.randomness, rows * self.dimension, gaussian=True)
            self._ahead = steps.reshape(rows, self.dimension)
        return self._ahead.shape[0]

    def _block(self, taken: int) -> int:
        """For how many rounds noise is drawn at once."""
        block = max(1, min(_ROWS_AHEAD, _NUMBERS_AHEAD // self.dimension))
        return min(block - taken % block, self.rounds - taken)

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[Inside, NDArray[np.float64]]]:
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
        if rows and (self._gate.randomness.secure or self._grid is None or rows > self._block(taken)):
            raise ValueError(f"the array ahead has {rows} rows of noise, which nobody has left there")
        self._ahead = ahead
