"""A point of a matroid polytope as a combination of vertices, found on the face that holds the point.

The nearest-point method is slow towards a point on the boundary: it keeps trying vertices that lie off the
face of that point, with ever smaller shares. A face is a chain of tight sets (sets A with x(A) = rank(A));
greedy stays on it if it serves the chain's sets one after the other. So: search for a while, read tight sets
off what is still missing, and search again among the vertices that keep them tight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .nearest_point import NearestPoint, nearest_point

Vector = NDArray[np.float64]
Items = NDArray[np.intp]
Greedy = Callable[[Items], Items]
# The nearest point to a target on a face: target, items, the block of each, tight blocks, most steps.
Nearest = Callable[[Vector, Items, Items, int, int], NearestPoint]

# A set whose sum is this close to its rank counts as tight; the point found moves by no more than that.
_TIGHT = 1e-12


def nearest_on_face(
    greedy: Greedy, target: Vector, items: Items, block: Items, tight_blocks: int, limit: int
) -> NearestPoint:
    """The nearest point to ``target`` on a face; what is not among ``items`` is 0.

    ``block`` numbers the steps of the face's chain of tight sets; items from step ``tight_blocks`` on are
    free (in no tight set).
    """

    def cheapest(cost: Vector) -> Vector:
        order = np.lexsort((cost, block))
        # What is in no tight set is taken only where it pays.
        order = order[(block[order] < tight_blocks) | (cost[order] < 0.0)]
        vertex = np.zeros(items.size)
        vertex[order] = chosen(greedy, items[order])
        return vertex

    return nearest_point(target, cheapest, max_iterations=limit)


def chosen(greedy: Greedy, order: Items) -> NDArray[np.bool_]:
    """Which items of ``order`` greedy takes."""
    return np.isin(order, greedy(order), assume_unique=True)


def combination(nearest: Nearest, greedy: Greedy, x: Vector, *, base: bool) -> NearestPoint:
    """``x`` (entries in [0, 1]) as a combination of independent sets, or of bases.

    Answers the nearest point found; ``x`` lies outside the polytope if that one differs.
    """
    support = np.flatnonzero(x > 0.0)
    face = _Face(greedy, support, x[support], base=base)
    steps, most = 3 * support.size + 50, 200 + 40 * support.size
    found = face.search(nearest, steps)
    while found.iterations >= steps and steps < most:
        if not face.refine(found.x):
            steps *= 2
        found = face.search(nearest, steps)
    vertices = np.zeros((found.shares.size, x.size))
    vertices[:, support] = found.vertices
    return NearestPoint(found.shares @ vertices, vertices, found.shares, found.gap, found.iterations)


class _Face:
    """The face on which the items outside ``support`` are 0 and every one of a chain of sets is tight.

    ``block`` numbers the steps of the chain; items of the last step may be free (in no tight set).
    """

    def __init__(self, greedy: Greedy, support: Items, x: Vector, *, base: bool) -> None:
        self.greedy = greedy
        self.support = support
        self.x = x
        self.block: Items = np.zeros(support.size, dtype=np.intp)
        self.tight_blocks = int(base)

    def search(self, nearest: Nearest, limit: int) -> NearestPoint:
        return nearest(self.x, self.support, self.block, self.tight_blocks, limit)

    def refine(self, near: Vector) -> bool:
        """Look for more tight sets among those that ``near`` leaves short; False if none is found."""
        order = np.lexsort((near - self.x, self.block))
        slack: Vector = np.cumsum(chosen(self.greedy, self.support[order]) - self.x[order])
        ends = np.flatnonzero(np.abs(slack) <= _TIGHT) + 1
        if ends.size <= self.tight_blocks:
            return False
        self.block[order] = np.searchsorted(ends, np.arange(order.size), side="right")
        self.tight_blocks = int(ends.size)
        return True
