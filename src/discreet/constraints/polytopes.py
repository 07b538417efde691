"""Points of polytopes: projections, and combinations of vertices.

The independence polytope of a matroid is {x >= 0 : x(A) <= rank(A) for every set A}; its vertices are the
independent sets. The base polytope is the face where all of x sums to the rank. The greedy algorithm
minimises linear functions over both, which is all that the nearest-point method asks for; entropic
projections are split into pieces that are solved in closed form, with that method or a flow finding where to
split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.polytopes import NearestPointSearch, scale
from .base import Items, Vector

Greedy = Callable[[Items], Items]
# The nearest point to a target on a face: target, items, the block of each, tight blocks, most steps.
Nearest = Callable[[Vector, Items, Items, int, int], "NearestPoint"]

# A rank constraint that is violated by less than this counts as kept.
_VIOLATION = 1e-11
# A set whose sum is this close to its rank counts as tight; the point found moves by no more than that.
_TIGHT = 1e-12


def greedy_vertex(greedy: Greedy, w: Vector, *, base: bool) -> Vector:
    """The indicator of the heaviest independent set (or base); ties go to the smaller item."""
    order = np.argsort(-w, kind="stable")
    if not base:
        order = order[w[order] > 0.0]
    x = np.zeros(w.size)
    x[greedy(order)] = 1.0
    return x


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


class EntropicSplit:
    """The entropic projection onto a matroid polytope by decomposition (Groenevelt 1991).

    Solve the problem with only the box and the total rank. If some set A of items then gets more than its
    rank, the set where the excess x(A) - rank(A) is largest is tight in the solution, and the problem falls
    apart into one inside A and one outside of it (with A contracted).

    Pieces go from the front of ``order`` to its back. In the end it lists the chain of tight sets: whatever
    stands before a piece is contracted in it. ``items`` holds no loops. ``flow`` finds the sets that exceed
    their rank (kernels/flows.pyx); without one, the nearest-point method does.
    """

    def __init__(self, oracle: Any, rank: int, log_w: Vector, items: Items, flow: Any = None) -> None:
        self._oracle, self._rank, self._flow = oracle, rank, flow
        self._search = NearestPointSearch(oracle, items.size, rank) if flow is None else None
        self.log_w, self.order = np.array(log_w), items
        self.log_x = np.zeros_like(log_w)
        self.steps = 0

    def solve(self, *, base: bool) -> None:
        """Fill ``log_x``. Without ``base``, the first solution is min(1, w)."""
        nothing, stops = self.order[:0], [self.order.size]
        if not base:
            # It is left as it is outside of the tight set.
            self.log_x[self.order] = np.minimum(0.0, self.log_w[self.order])
            stops = [self._most_violated(0, self.order.size, nothing, self._rank)]
        low = 0
        while stops:
            high = stops[-1]
            fits = self._oracle.fitting(self.order[:high], high)
            below = self.order[:low][fits[:low]]
            inner, middle = int(np.count_nonzero(fits[low:])), low
            self.log_x[self.order[low:high]] = 0.0
            if inner < high - low:
                scale(self.log_w, self.order[low:high], float(inner), self.log_x)
                # Items of rank 1 have room for their sum, as independent ones have for 1 each.
                if inner > 1:
                    middle = self._most_violated(low, high, below, inner)
            if low < middle < high:
                stops.append(middle)
            else:
                low = stops.pop()

    def _most_violated(self, low: int, high: int, below: Items, rank: int) -> int:
        """Move the set of ``order[low:high]`` whose sum exceeds its rank the most to the front; its end."""
        piece = self.order[low:high].copy()
        x = np.exp(self.log_x[piece])
        if self._flow is None:
            inside = self._searched(piece, x, below, rank)
        else:
            self.steps += 1
            excess, inside = self._flow.exceeding(piece, x, below)
            if excess <= _VIOLATION:
                inside = None
        if inside is None:
            return low
        middle = low + int(np.count_nonzero(inside))
        self.order[low:middle], self.order[middle:high] = piece[inside], piece[~inside]
        return middle

    def _searched(self, items: Items, x: Vector, below: Items, rank: int) -> NDArray[np.bool_] | None:
        """Which items are in that set; None if no sum of ``x`` exceeds its rank.

        Minimising rank(A) - x(A) is a nearest-point problem: sort the items by how far the base nearest to x
        falls short of x; a minimiser is among the prefixes, whose ranks one greedy pass tells.
        """
        assert self._search is not None
        size = x.size
        ends, limit = np.array([size]), 200 + 40 * size
        self.steps += self._search.run(items, x, ends, below=below, tight=1, most=rank, limit=limit)[1]
        short = self._search.x[:size] - x
        more = {"below": below, "tight": 1, "most": self._rank + 1}
        places, fits = self._oracle.offered(items, short, keep=size, **more)
        slack = np.cumsum(fits - x[places])
        lowest = slack.min()
        if lowest >= -_VIOLATION:
            return None
        # Of several such sets the largest, with all it spans: items whose x is next to nothing belong with
        # those that crowd them out, or they would be left with nothing at all.
        prefix = int(np.flatnonzero(slack <= lowest + 0.1 * _VIOLATION)[-1]) + 1
        _, free = self._oracle.offered(items, short, keep=prefix, **more)
        free[:prefix] = False
        inside = np.empty(size, dtype=np.bool_)
        inside[places] = ~free
        return inside


# --- a point as a combination of vertices -------------------------------------------------------------------
# The nearest-point method is slow towards a point on the boundary: it keeps trying vertices that lie off the
# face of that point, with ever smaller shares. A face is a chain of tight sets (sets A with x(A) = rank(A));
# greedy stays on it if it serves the chain's sets one after the other. So: search for a while, read tight
# sets off what is still missing, and search again among the vertices that keep them tight.


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


# --- the nearest point --------------------------------------------------------------------------------------
# Wolfe's method (Wolfe 1976): keep a few vertices whose convex hull holds the current point in its interior;
# add the vertex that a linear function of the residual likes best, and walk to the nearest point of the hull,
# dropping vertices on the way. It ends after finitely many steps, because no hull is met twice.

# Below this share a vertex counts as gone: its contribution is within rounding of nothing.
_SMALLEST_SHARE = 1e-13
_GAP = 1e-14
_STALLED_STEPS = 30


@dataclass(frozen=True)
class NearestPoint:
    """The point, the vertices (rows) and shares it is made of, its duality gap and the number of steps."""

    x: Vector
    vertices: Vector
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


# --- one multiplier per limit -------------------------------------------------------------------------------
# Projecting onto {0 <= x <= upper, sum x <= total} subtracts one number from every coordinate (Euclidean) or
# multiplies every coordinate by one number (entropic), and clips. Both are found exactly from sorted
# breakpoints.

# Shifts and log-factors up to these sizes cost no precision worth a second search.
_NEAR_SHIFT = 2.0
_NEAR_LOG_FACTOR = 50.0
_MOST_RECENTRINGS = 4
# Stands for anything too far away to matter; sums of such numbers are still finite.
_FAR = 1e290


def last_at_most(points: Vector, increasing: Callable[[float], float], total: float) -> int:
    """The index of the last point where ``increasing`` is at most ``total``; -1 if there is none."""
    low, high = -1, points.size
    while high - low > 1:
        middle = (low + high) // 2
        if increasing(float(points[middle])) <= total:
            low = middle
        else:
            high = middle
    return low


def shift_to_total(z: Vector, upper: Vector, total: float) -> Vector:
    """clip(z + s, 0, upper) with the shift s for which it sums to ``total`` (below the sum of ``upper``).

    ``upper`` is at most about 1, so the coordinates strictly between their limits lie close together.
    Measured from there they are small, and their sum is exact however large ``z`` itself is: a first search
    finds where, another one is made from there.
    """
    if total <= 0.0:
        return np.zeros_like(z)
    return _shifted(*_recentred(_shift, z, upper, total, _NEAR_SHIFT))


def _recentred(
    search: Callable[[Vector, Vector, float], float], z: Vector, upper: Vector, total: float, near: float
) -> tuple[Vector, Vector, float]:
    """What ``search`` finds from a place that is near, that place, and the upper limits there."""
    with np.errstate(over="ignore", invalid="ignore"):
        s = search(z, upper, total)
        for _ in range(_MOST_RECENTRINGS):
            if abs(s) <= near:
                break
            z = np.clip(z + s, -_FAR, _FAR)
            s = search(z, upper, total)
    return z, upper, s


def _shifted(z: Vector, upper: Vector, s: float) -> Vector:
    return np.minimum(np.maximum(z + s, 0.0), upper)


def _shift(z: Vector, upper: Vector, total: float) -> float:
    """The shift, up to the rounding of numbers as large as ``z`` where it matters.

    The sum is piecewise linear in s and bends where a coordinate leaves 0 or reaches its upper limit: find
    the piece by bisection over the sorted bends, then solve the one linear equation of that piece.
    """

    def shifted_sum(s: float) -> float:
        return float(_shifted(z, upper, s).sum())

    leave, reach = np.sort(-z), np.sort(upper - z)
    bends = np.sort(np.concatenate([leave, reach]), kind="stable")
    left = last_at_most(bends, _ramp_sum(leave, reach), total)
    following = min(left + 1, bends.size - 1)
    # Running sums of large numbers may point to a wrong piece; then every step sums afresh.
    if left < 0 or shifted_sum(float(bends[left])) > total or shifted_sum(float(bends[following])) < total:
        left = max(0, last_at_most(bends, shifted_sum, total))
        following = min(left + 1, bends.size - 1)
    s = float(bends[left])
    inside = z + 0.5 * (s + float(bends[following]))
    moving = int(np.count_nonzero((inside > 0.0) & (inside < upper)))
    if moving:
        # The second pass only removes the rounding of the first.
        for _ in range(2):
            s += (total - shifted_sum(s)) / moving
    return s


def _ramp_sum(leave: Vector, reach: Vector) -> Callable[[float], float]:
    """s -> sum of max(0, s - leave) - max(0, s - reach), each call in logarithmic time."""
    left_behind = np.concatenate([[0.0], np.cumsum(leave)])
    reached = np.concatenate([[0.0], np.cumsum(reach)])

    def at(s: float) -> float:
        i, j = int(np.searchsorted(leave, s)), int(np.searchsorted(reach, s))
        return float((i - j) * s - (left_behind[i] - reached[j]))

    return at


def scale_to_total(log_w: Vector, log_upper: Vector, total: float) -> Vector:
    """min(log_upper, log_w + s) with the log-factor s for which the exponentials sum to ``total``.

    ``log_upper`` is the logarithm of the largest value each coordinate may take; together they exceed
    ``total``, up to rounding. As for shifts, a second search starts where a first one ended if that is far
    from 0, because the logarithms of large or tiny weights are rounded more than their differences.
    """
    log_w, log_upper, s = _recentred(_log_factor, log_w, log_upper, total, _NEAR_LOG_FACTOR)
    limited: Vector = np.minimum(log_upper, log_w + s)
    return limited


def _log_factor(log_w: Vector, log_upper: Vector, total: float) -> float:
    """The log-factor, up to the rounding of numbers as large as ``log_w``.

    Coordinates reach their limit in the order of log_upper - log_w; bisection over that order finds how many
    do, and every coordinate leaves the search once its side is known, so the work after sorting is linear.
    Sums of tiny weights stay in logarithms.
    """
    reach = log_upper - log_w
    order = np.argsort(reach)
    reach, weight, limit = reach[order], log_w[order], np.exp(log_upper[order])
    capped_sum, free_log_sum = 0.0, -np.inf
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        below = float(limit[low : middle + 1].sum())
        above = np.logaddexp(free_log_sum, _log_sum(weight[middle + 1 : high]))
        if capped_sum + below + _exp(reach[middle] + above) <= total:
            capped_sum += below
            low = middle + 1
        else:
            free_log_sum = np.logaddexp(above, weight[middle])
            high = middle
    if low == order.size:
        return float(reach[-1])
    left = total - capped_sum
    s = np.log(left) - free_log_sum if left > 0.0 else -np.inf
    return float(max(s, reach[low - 1]) if low else s)


def _log_sum(values: Vector) -> float:
    if values.size == 0:
        return -np.inf
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def _exp(value: float) -> float:
    """exp that answers infinity instead of warning."""
    return float(np.exp(value)) if value < 700.0 else np.inf
