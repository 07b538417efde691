"""Private sums of Lovasz gradients: how much noise they need, and what it costs."""

from __future__ import annotations

from ...bounds import minimization as bounds
from ...privacy import Event, GaussianNoise, LaplaceNoise, SumSpec, TreeSum, VectorBounds

# Room for rounding errors, in gradients and in what people declare about their functions.
ROUNDING = 1e-9


def gradient_bounds(
    n_items: int, bound: float, noise: str, neighbours: str, empty_is_free: bool
) -> VectorBounds:
    """Bounds of a gradient in the norm of the noise, and how far two of them can be apart.

    That is less than twice their length. Vectors are truncated towards zero to the grid: that takes something
    off the rises of a gradient, and lowers no height along the chain by more than it takes, so the gradient
    stays in its set. Where the empty set is free it may leave the set, but the two that are farthest apart
    only come closer.
    """
    norm = 1 if noise == "laplace" else 2
    longest = bounds.gradient_length(n_items, bound, norm, empty_is_free=empty_is_free)
    moves = longest
    if neighbours == "replace":
        moves = bounds.gradient_difference(n_items, bound, norm, empty_is_free=empty_is_free)
    return VectorBounds(n_items, norm, longest * (1.0 + ROUNDING), apart=moves * (1.0 + 2.0 * ROUNDING))


def noise_cost(
    spec: SumSpec, event: Event, rounds: int, bound: float, *, empty_is_free: bool = False
) -> float:
    """`bounds.minimization.noise_cost` for the noise of such a sum, on average over the rounds."""
    size = spec.bounds.dimension
    if isinstance(event, GaussianNoise):
        deviation = spec.mean_deviation(event)
        return bounds.noise_cost(size, "gaussian", deviation, 1.0, bound, empty_is_free=empty_is_free)
    assert isinstance(event, LaplaceNoise)
    scale, draws = float(event.scale), TreeSum.mean_draws(rounds)
    return bounds.noise_cost(size, spec.noise, scale, draws, bound, empty_is_free=empty_is_free)
