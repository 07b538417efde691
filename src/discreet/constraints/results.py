"""Results of polytope operations: a projected point, and a decomposition into sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ProjectedPoint(np.ndarray[tuple[int], np.dtype[np.float64]]):
    """A point of a polytope that carries its own certificate; in every other way it is an array.

    - ``x``: the plain array;
    - ``gap``: an upper bound on how far the divergence at ``x`` is above its minimum, namely
      max over v in the polytope of <gradient at x, x - v>. It is 0.0 where a closed form was used
      (exact up to rounding), and measured at ``x`` everywhere else;
    - ``iterations``: steps of the method; 0 for a closed form.

    What is computed from it (``2 * point``, ``point[3:5]``) carries no certificate: its gap is NaN. Copies
    and pickles keep theirs.
    """

    gap: float = float("nan")
    iterations: int = 0

    def copy(self, order: Any = "C") -> ProjectedPoint:
        """The same point in memory of its own, with its certificate."""
        return projected(self.x.copy(order), self.gap, self.iterations)

    def __copy__(self) -> ProjectedPoint:
        """``copy.copy`` keeps the certificate."""
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any] | None, /) -> ProjectedPoint:
        """``copy.deepcopy`` keeps the certificate."""
        del memo
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling keeps the certificate."""
        return projected, (self.x, self.gap, self.iterations)

    @property
    def x(self) -> NDArray[np.float64]:
        """The point as a plain array."""
        return self.view(np.ndarray)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Results of arithmetic are plain arrays."""
        del context
        return array[()] if return_scalar else np.asarray(array)


def projected(x: NDArray[np.float64], gap: float = 0.0, iterations: int = 0) -> ProjectedPoint:
    """``x`` with its certificate attached."""
    point = x.view(ProjectedPoint)
    point.gap = gap
    point.iterations = iterations
    return point


@dataclass(frozen=True)
class Decomposition:
    """A point written as a convex combination of feasible sets.

    ``weights`` are positive and sum to 1; ``sets[l]`` are sorted items; ``residual`` is the point minus the
    weighted sum of the sets' indicator vectors.
    """

    sets: tuple[NDArray[np.intp], ...]
    weights: NDArray[np.float64]
    residual: NDArray[np.float64]

    def point(self) -> NDArray[np.float64]:
        """The weighted sum of the sets' indicator vectors."""
        total = np.zeros_like(self.residual)
        for items, weight in zip(self.sets, self.weights, strict=True):
            total[items] += weight
        return total


def decomposition(
    x: NDArray[np.float64], sets: list[NDArray[np.intp]], weights: NDArray[np.float64]
) -> Decomposition:
    """The decomposition of ``x`` with its residual filled in."""
    unfilled = Decomposition(tuple(sets), weights, np.zeros_like(x))
    return Decomposition(tuple(sets), weights, x - unfilled.point())
