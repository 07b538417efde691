"""Polytope operations for any matroid, from its greedy algorithm alone.

The independence polytope is {x >= 0 : x(A) <= rank(A) for every set A}; its vertices are the independent
sets. The base polytope is the face where all of x sums to the rank. The greedy algorithm minimises linear
functions over both, which is all that the nearest-point method asks for; entropic projections are split
into pieces that are solved in closed form, with the nearest-point method finding where to split.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .faces import Greedy, Nearest
from .nearest_point import NearestPoint, nearest_point
from .thresholds import scale_to_total

Vector = NDArray[np.float64]
Items = NDArray[np.intp]
Addable = Callable[[Items], NDArray[np.bool_]]

# A rank constraint that is violated by less than this counts as kept.
VIOLATION = 1e-11


def greedy_vertex(greedy: Greedy, w: Vector, *, base: bool) -> Vector:
    """The indicator of the heaviest independent set (or base); ties go to the smaller item."""
    order = np.argsort(-w, kind="stable")
    if not base:
        order = order[w[order] > 0.0]
    x = np.zeros(w.size)
    x[greedy(order)] = 1.0
    return x


def nearest_in_polytope(nearest: Nearest, z: Vector, *, base: bool) -> NearestPoint:
    """The Euclidean projection onto the independence polytope or the base polytope."""
    block: Items = np.zeros(z.size, dtype=np.intp)
    return nearest(z, np.arange(z.size), block, int(base), 200 + 40 * z.size)


def euclidean(nearest: Nearest, greedy: Greedy, z: Vector, *, base: bool) -> tuple[Vector, float, int]:
    """Projection, duality gap at the vector as given, iterations."""
    found = nearest_in_polytope(nearest, close_gaps(z, base=base)[1], base=base)
    gradient = found.x - (_centred(z) if base else z)
    best = greedy_vertex(greedy, -gradient, base=base)
    return found.x, max(0.0, float(gradient @ (found.x - best))), found.iterations


def _centred(values: Vector) -> Vector:
    """The values around their median: bases have one sum, so a common offset only costs precision."""
    return values - np.median(values)


def close_gaps(z: Vector, *, base: bool) -> tuple[Items, Vector]:
    """A vector with the same projection and without large numbers, which would cost precision.

    And the order of the entries, 0 as the last of them.

    Coordinates of the projection lie in [0, 1]. If two neighbours in sorted order are more than 1 apart,
    everything above is served before everything below, however far apart they are. Without ``base``, 0
    counts as a neighbour (items at or below it get nothing).
    """
    anchored = np.zeros(z.size + 1)
    anchored[:-1] = z
    if not base:
        np.maximum(anchored, 0.0, out=anchored)
    order = anchored.argsort(kind="stable")
    heights = anchored[order]
    heights[1:] -= heights[:-1].copy()
    np.minimum(heights, 2.0, out=heights)
    heights[0] = 0.0
    anchored[order] = heights.cumsum(out=heights)
    compressed: Vector = anchored[:-1] - anchored[-1]
    return order, compressed


def entropic(greedy: Greedy, addable: Addable, log_w: Vector, *, base: bool) -> tuple[Vector, float, int]:
    """Least sum of x ln(x/w) - x + w over the polytope; answers the point, its duality gap, iterations."""
    # An item that is dependent by itself is 0 at every point of the polytope.
    loops = ~addable(np.zeros(0, dtype=np.intp))
    items = np.flatnonzero(~loops)
    log_x, iterations = split_entropic(greedy, addable, log_w, items, base=base)
    x = np.zeros_like(log_w)
    x[items] = np.exp(log_x[items])
    gradient = np.where(loops, 0.0, log_x - (_centred(log_w) if base else log_w))
    best = greedy_vertex(greedy, -gradient, base=base)
    # A violation within tolerance can make the difference negative; its size bounds the error either way.
    return x, abs(float(gradient @ (x - best))), iterations


def split_entropic(
    greedy: Greedy, addable: Addable, log_w: Vector, items: Items, *, base: bool
) -> tuple[Vector, int]:
    """The entropic projection by decomposition (Groenevelt 1991); its logarithms, and the steps taken.

    Solve the problem with only the box and the total rank. If some set A of items then gets more than its
    rank, the set where the excess x(A) - rank(A) is largest is tight in the solution, and the problem falls
    apart into one inside A and one outside of it (with A contracted). Without ``base``, the first solution is
    min(1, w), which is left as it is outside the tight set.
    """
    splitter = _EntropicSplit(greedy, addable, log_w)
    if not base:
        splitter.log_x[items] = np.minimum(0.0, log_w[items])
        items = splitter.most_violated(items, np.zeros(0, dtype=np.intp))
    splitter.solve(items, np.zeros(0, dtype=np.intp))
    return splitter.log_x, splitter.iterations


class _EntropicSplit:
    def __init__(self, greedy: Greedy, addable: Addable, log_w: Vector) -> None:
        self.greedy = greedy
        self.addable = addable
        self.log_w = log_w
        self.log_x = np.zeros_like(log_w)
        self.iterations = 0

    def solve(self, items: Items, below: Items) -> None:
        """Fill ``log_x`` on ``items``, with the independent set ``below`` contracted."""
        pending = [(items, below)]
        while pending:
            items, below = pending.pop()
            if items.size == 0:
                continue
            rank = self._chosen(items, below).sum()
            ones = np.zeros(items.size)
            self.log_x[items] = (
                scale_to_total(self.log_w[items], ones, float(rank)) if rank < items.size else ones
            )
            tight = self.most_violated(items, below)
            if tight.size in (0, items.size):
                continue
            rest = np.setdiff1d(items, tight, assume_unique=True)
            spanning = tight[self._chosen(tight, below)]
            pending.append((tight, below))
            pending.append((rest, np.concatenate([below, spanning])))

    def most_violated(self, items: Items, below: Items) -> Items:
        """The set among ``items`` whose current sum exceeds its rank the most; empty if none does.

        Minimising rank(A) - x(A) is a nearest-point problem: sort the items by how far the base nearest to
        x falls short of x; a minimiser is among the prefixes, whose ranks one greedy pass tells.
        """
        x = np.exp(self.log_x[items])

        def cheapest(cost: Vector) -> Vector:
            order = np.argsort(cost, kind="stable")
            vertex = np.zeros(items.size)
            vertex[order] = self._chosen(items[order], below)
            return vertex

        found = nearest_point(x, cheapest)
        self.iterations += found.iterations
        order = np.argsort(found.x - x, kind="stable")
        slack: Vector = np.cumsum(self._chosen(items[order], below) - x[order])
        if slack.min() >= -VIOLATION:
            return items[:0]
        # Of several such sets the largest, with all it spans: items whose x is next to nothing belong with
        # those that crowd them out, or they would be left with nothing at all.
        violated = items[order[: np.flatnonzero(slack <= slack.min() + 0.1 * VIOLATION)[-1] + 1]]
        free = self.addable(self.greedy(np.concatenate([below, violated])))
        return items[~free[items]]

    def _chosen(self, order: Items, below: Items) -> NDArray[np.bool_]:
        """Which items of ``order`` greedy takes after all of ``below``."""
        taken = self.greedy(np.concatenate([below, order]))
        return np.isin(order, taken, assume_unique=True)
