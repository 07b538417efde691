"""The regularised leader of linear payoffs over a constraint's polytope or a box."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...constraints import Constraint, Matroid, PartitionMatroid
from ...constraints.domains import Box

Vector = NDArray[np.float64]

# Where scores would be larger, the rate is lowered to make them this: at a vertex but for rounding either
# way, and projections keep all their digits.
_LARGEST = 1e6


class Leader:
    """The regularised leader over a constraint's polytope or a box, and the sizes its regret depends on.

    Matroids are searched among bases, which monotone functions lose nothing by. ``rank`` is the largest sum
    of a point, ``radius`` the largest length, ``spread`` the range of the regulariser (entropy) and
    ``reach`` the square root of twice its range (Euclidean).
    """

    def __init__(self, domain: Constraint | Box, regularizer: str) -> None:
        n_items = size_of(domain)
        self.n_items, self.regularizer = n_items, regularizer
        self._box: tuple[Vector, Vector] | None = None
        self._constraint = domain if isinstance(domain, Constraint) else None
        self._options = {"base": True} if isinstance(domain, Matroid) else {}
        if isinstance(domain, Constraint):
            everything = domain.maximize(np.ones(n_items))
            self.rank = float(everything.sum())
            self.radius = math.sqrt(self.rank)
            self.widths = [1.0] * n_items
        else:
            low, high = domain.low, domain.high
            if (low < 0.0).any():
                where = int(np.argmax(low < 0.0))
                raise ValueError(
                    f"low[{where}]={low[where]:g}: Frank-Wolfe steps start at 0; give a box with low >= 0"
                )
            self._box = low, high
            self.rank = float(high.sum())
            self.radius = float(np.linalg.norm(high))
            self.widths = (high - low).tolist()
        blocks = domain.one_of_each if isinstance(domain, PartitionMatroid) else None
        self._blocks = None if blocks is None else Blocks(blocks)
        start = self.at(np.zeros(n_items), 1.0)
        if regularizer == "entropy":
            logs = np.log(start, out=np.zeros(n_items), where=start > 0.0)
            least = float(start @ logs)
            self.spread = -least if self._options else float(start.sum()) - least
            self.reach = math.inf
        else:
            self.spread = math.inf
            if self._box is None:
                self.reach = math.sqrt(max(self.rank - float(start @ start), 0.0))
            else:
                self.reach = float(np.linalg.norm(self.widths)) / 2.0

    @property
    def is_box(self) -> bool:
        return self._box is not None

    def at(self, payoffs: Vector, rate: float) -> Vector:
        """The point with the largest rate <payoffs, x> less the regulariser."""
        scores = payoffs * min(rate, _LARGEST / max(float(np.abs(payoffs).max()), 1e-300))
        if self._box is not None:
            low, high = self._box
            return np.clip((low + high) / 2.0 + scores, low, high)
        assert self._constraint is not None
        if self._blocks is not None:
            return (
                self._blocks.softmax(scores)
                if self.regularizer == "entropy"
                else self._blocks.nearest(scores)
            )
        if self.regularizer == "entropy":
            point = self._constraint.project_entropy(scores, log=True, **self._options)
        else:
            point = self._constraint.project_euclidean(scores, **self._options)
        return np.clip(point.x, 0.0, 1.0)

    def partial_points(self, payoffs: Vector, rate: float) -> Vector:
        """x^1 = 0, x^(k+1) = x^k + v^k / K: one row per expert, and the final point as the last."""
        experts = payoffs.shape[0]
        points = np.zeros((experts + 1, self.n_items))
        for k in range(experts):
            points[k + 1] = points[k] + self.at(payoffs[k], rate) / experts
        if self._box is None:
            np.minimum(points, 1.0, out=points)
        return points


class Blocks:
    """Disjoint blocks of items, one of each to be chosen: leaders are found in each block on its own.

    Many times faster than the projections for any capacities, whose answers they equal.
    """

    def __init__(self, groups: Sequence[NDArray[np.intp]]) -> None:
        self._order = np.concatenate(groups)
        sizes = [group.size for group in groups]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._block = np.repeat(np.arange(len(sizes)), sizes)
        self._place = np.arange(self._block.size) - self._starts[self._block] + 1.0

    def nearest(self, scores: Vector) -> Vector:
        """The Euclidean leader: the scores less a level of the block's own, where that is above 0."""
        ordered = scores[self._order]
        below = ordered - np.maximum.reduceat(ordered, self._starts)[self._block]
        falling = np.lexsort((-below, self._block))
        # Whoever is 1 or more below the best of the block gets nothing, and need not be told apart.
        sums = np.cumsum(sorted_below := np.maximum(below[falling], -1.0))
        before = np.concatenate(([0.0], sums))[self._starts]
        levels = (sums - before[self._block] - 1.0) / self._place
        counted = np.add.reduceat((sorted_below > levels).astype(np.intp), self._starts)
        level = levels[self._starts + counted - 1]
        point = np.empty_like(scores)
        point[self._order] = np.maximum(below - level[self._block], 0.0)
        return point

    def softmax(self, scores: Vector) -> Vector:
        ordered = scores[self._order]
        weights = np.exp(ordered - np.maximum.reduceat(ordered, self._starts)[self._block])
        point = np.empty_like(scores)
        point[self._order] = weights / np.add.reduceat(weights, self._starts)[self._block]
        return point


def size_of(domain: Constraint | Box) -> int:
    """How many coordinates the points of a domain have; a constraint's are its items."""
    if isinstance(domain, Box):
        return domain.dimension
    assert domain.n_items is not None
    return domain.n_items
