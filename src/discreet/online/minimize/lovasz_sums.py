"""Private sums of Lovasz gradients: how much noise they need, and what it costs."""

from __future__ import annotations

import math

from ...bounds import minimization as bounds
from ...privacy import (
    Budget,
    Event,
    Gate,
    LaplaceNoise,
    RunningSum,
    SphericalLaplaceNoise,
    SumSpec,
    TreeSum,
    VectorBounds,
)
from ...privacy.sums.compiled import CompiledSum

# Room for rounding errors, in gradients and in what people promise about their functions.
ROUNDING = 1e-9


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


def sum_spec(
    n_items: int, rounds: int, neighbours: str, bound: float, sums: str, noise: str, empty_is_free: bool
) -> SumSpec:
    """A running sum of ``rounds`` gradients, calibrated to how far two of them can be apart.

    That is less than twice their length. Vectors are truncated towards zero to the grid: that takes something
    off the rises of a gradient, and lowers no height along the chain by more than it takes, so the gradient
    stays in its set. Where the empty set is free it may leave the set, but the two that are farthest apart
    only come closer.
    """
    norm = 1 if noise == "laplace" else 2
    longest = bounds.gradient_length(n_items, bound, norm, empty_is_free=empty_is_free) * (1.0 + ROUNDING)
    moves = difference(n_items, bound, noise, neighbours, empty_is_free)
    vectors = VectorBounds(n_items, norm, longest, apart=moves)
    reduced = sums == "tree" and noise == "gaussian"
    return SumSpec(vectors, rounds, sums, noise, variance_reduction=reduced)


def gradient_sum(spec: SumSpec, gate: Gate, event: Event | None = None) -> RunningSum:
    """The sum; ``event`` overrides the noise that it is calibrated to."""
    kind = CompiledSum if issubclass(CompiledSum, spec.kind) else spec.kind
    return kind.of(spec, gate, event=event, label="gradients")


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
    spec = sum_spec(n_items, rounds - 1, budget.neighbours, bound, sums, noise, empty_is_free)
    if noise != "gaussian":
        event = spec.event(budget.share())
        assert isinstance(event, LaplaceNoise)
        draws = TreeSum.mean_draws(rounds)
        scale = float(event.scale)
        return bounds.moved_by(n_items, noise, scale, draws, bound, empty_is_free=empty_is_free)
    if budget.mu == 0.0:
        return math.inf
    deviation = spec.bounds.difference(budget.neighbours) * spec.mean_error / budget.mu
    return bounds.moved_by(n_items, noise, deviation, 1.0, bound, empty_is_free=empty_is_free)
