"""The nearest point of a polytope that is known only through its linear minimiser.

Wolfe's method (Wolfe 1976): keep a few vertices whose convex hull holds the current point in its interior;
add the vertex that a linear function of the residual likes best, and walk to the nearest point of the hull,
dropping vertices on the way. It ends after finitely many steps, because no hull is met twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Below this share a vertex counts as gone: its contribution is within rounding of nothing.
_SMALLEST_SHARE = 1e-13
_GAP = 1e-14
_STALLED_STEPS = 30


@dataclass(frozen=True)
class NearestPoint:
    """The point, the vertices (rows) and shares it is made of, its duality gap and the number of steps."""

    x: Vector
    vertices: NDArray[np.float64]
    shares: Vector
    gap: float
    iterations: int


def nearest_point(
    target: Vector, minimize: Callable[[Vector], Vector], *, max_iterations: int | None = None
) -> NearestPoint:
    """The point nearest to ``target`` in the hull of all answers of ``minimize(cost)``.

    ``gap`` is max over vertices v of <x - target, x - v>: half the squared distance is within ``gap`` of its
    minimum, and x is within sqrt(2 gap) of the nearest point.
    """
    limit = max_iterations if max_iterations is not None else 200 + 40 * target.size
    hull = _Hull(target, minimize(-target))
    best_distance = np.inf
    iteration, stalled = 0, 0
    while True:
        iteration += 1
        x = hull.point()
        residual = x - target
        vertex = minimize(residual)
        gap = float(residual @ (x - vertex))
        distance = float(residual @ residual)
        # Near the end a step lowers the distance by less than its rounding, but never for long.
        stalled = stalled + 1 if distance >= best_distance else 0
        best_distance = min(distance, best_distance)
        done = gap <= _GAP * (1.0 + abs(float(residual @ x))) or stalled > _STALLED_STEPS
        if done or iteration >= limit or not hull.add(vertex):
            return NearestPoint(x, hull.vertices, hull.shares, max(gap, 0.0), iteration)
        hull.walk()


class _Hull:
    """Affinely independent vertices and the shares of the current point in them.

    ``factor`` is the upper Cholesky factor of 1 + <v_i - target, v_j - target>, which is positive definite
    exactly when the vertices are affinely independent.
    """

    def __init__(self, target: Vector, vertex: Vector) -> None:
        self.target = target
        self.vertices = vertex[None, :].copy()
        self.shares = np.ones(1)
        self.factor: Vector = np.sqrt([[1.0 + float((vertex - target) @ (vertex - target))]])

    def point(self) -> Vector:
        return self.shares @ self.vertices

    def add(self, vertex: Vector) -> bool:
        """Add a vertex with share 0; False if it depends affinely on those already there."""
        offset = vertex - self.target
        products = self.vertices @ offset - float(self.target @ offset)
        column = _solve(self.factor, 1.0 + products, transposed=True)
        corner = 1.0 + float(offset @ offset)
        left = corner - float(column @ column)
        if left <= 1e-13 * corner:
            return False
        size = self.shares.size
        factor = np.zeros((size + 1, size + 1))
        factor[:size, :size] = self.factor
        factor[:size, size] = column
        factor[size, size] = np.sqrt(left)
        self.factor = factor
        self.vertices = np.vstack([self.vertices, vertex])
        self.shares = np.append(self.shares, 0.0)
        return True

    def walk(self) -> None:
        """Move to the nearest point of the affine hull; at the edge of the hull, drop vertices."""
        while True:
            ideal = self._affine_nearest()
            if (ideal > _SMALLEST_SHARE).all():
                self.shares = ideal
                return
            falling = np.flatnonzero(ideal <= _SMALLEST_SHARE)
            drop = self.shares[falling] - ideal[falling]
            # A vertex that does not fall has share 0 already: it goes at once.
            reach = np.divide(self.shares[falling], drop, out=np.zeros_like(drop), where=drop > 0.0)
            step = min(1.0, float(reach.min()))
            shares = (1.0 - step) * self.shares + step * ideal
            kept = shares > _SMALLEST_SHARE
            kept[falling[np.argmin(reach)]] = False
            self._keep(kept)
            self.shares = shares[kept] / shares[kept].sum()

    def _affine_nearest(self) -> Vector:
        half = _solve(self.factor, np.ones(self.shares.size), transposed=True)
        shares = _solve(self.factor, half, transposed=False)
        shares /= shares.sum()
        return shares

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop the other vertices; rotations make the factor triangular again (its Q is of no interest)."""
        from scipy.linalg import qr_delete

        self.vertices = self.vertices[kept]
        for gone in np.flatnonzero(~kept)[::-1].tolist():
            size = self.factor.shape[0]
            _, factor = qr_delete(np.eye(size), self.factor, gone, which="col", check_finite=False)
            self.factor = factor[: size - 1].astype(np.float64, copy=False)


def _solve(upper: Vector, right: Vector, *, transposed: bool) -> Vector:
    """Back substitution by LAPACK itself: the checks around it cost more than the work."""
    from scipy.linalg.lapack import dtrtrs

    solution, info = dtrtrs(upper, right, trans=int(transposed))
    if info:
        raise np.linalg.LinAlgError(f"dtrtrs answered {info}: the vertices are affinely dependent")
    return np.asarray(solution, dtype=np.float64)
