"""Points of polytopes: projections onto those of matroids, and combinations of their vertices.

The independence polytope of a matroid is {x >= 0 : x(A) <= rank(A) for every set A}; its vertices are the
independent sets. The base polytope is the face where all of x sums to the rank. The greedy algorithm
minimizes linear functions over both, which is all that the nearest-point method asks for; entropic
projections are split into pieces that are solved in closed form, with that method or a flow finding where to
split.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels.matroids import AskedOracle
from ..kernels.polytopes import NearestPointSearch, scale
from .base import POLYTOPE_TOLERANCE, Decomposition, Items, Vector, decomposition, refuse_outside
from .rounding import merge_sets

# A rank constraint that is violated by less than this counts as kept.
_VIOLATION = 1e-11
# A set whose sum is this close to its rank counts as tight; the point found moves by no more than that.
_TIGHT = 1e-12
_NOTHING: Items = np.zeros(0, dtype=np.intp)


class _Nearest(NamedTuple):
    """A point, the vertices (rows) and shares it is made of, and the steps of the search."""

    x: Vector
    vertices: Vector
    shares: Vector
    steps: int


class IndependentSets:
    """The independent sets of a matroid, known by an oracle (kernels/matroids.pyx), and their polytope.

    ``flow`` (kernels/flows.pyx) finds sets that exceed their rank, and rounds; without one, the nearest-point
    method does. ``uniforms``: how many random numbers rounding takes at the most, for each item and besides
    that. ``exchanges``: whether the oracle merges two bases itself.
    """

    def __init__(
        self,
        oracle: Any,
        *,
        flow: Any = None,
        uniforms: tuple[Items, int] | None = None,
        exchanges: bool = False,
    ) -> None:
        self.table, self.n_items = oracle, int(oracle.n_items)
        self.flow, self._uniforms, self._exchanges = flow, uniforms, exchanges

    @property
    def oracle(self) -> Any:
        """A new oracle, as other threads may use theirs at the same time."""
        return self.table.fresh()

    @cached_property
    def rank(self) -> int:
        return int(self.greedy(np.arange(self.n_items)).size)

    # --- sets of items that were checked ------------------------------------------------------------

    def greedy(self, order: Items) -> Items:
        """The items taken when those of ``order`` (distinct) are offered in turn and kept if independent."""
        return order[self._fitting(order, order.size)]

    def fits(self, items: Items) -> bool:
        """Whether the items are independent."""
        if isinstance(self.table, AskedOracle):
            return bool(self.table.independent(frozenset(items.tolist())))
        return self.greedy(items).size == items.size

    def addable(self, items: Items) -> NDArray[np.bool_]:
        """Mask of items outside an independent set that keep it independent."""
        mask = self.addable_among(items, np.arange(self.n_items))
        mask[items] = False
        return mask

    def addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        """For each candidate outside an independent set: whether it keeps the set independent."""
        return self._fitting(np.concatenate([items, candidates]), items.size)[items.size :]

    def circuit(self, items: Items, item: int) -> Items:
        """The items of an independent set each of whose removal lets ``item`` fit (which now does not)."""
        rooms = [other for other in items.tolist() if self.fits(np.append(items[items != other], item))]
        return np.array(rooms, dtype=np.intp)

    def merged_bases(self, one: Items, two: Items, given: Callable[[int], NDArray[np.bool_]]) -> Items | None:
        """Merge two bases by exchanges with outcomes from ``given``; None if the oracle does not do that."""
        if not self._exchanges:
            return None
        has = np.zeros((2, self.n_items), dtype=np.bool_)
        has[0, one], has[1, two] = True, True
        masks = has[0] & has[1], has[0] & ~has[1], has[1] & ~has[0]
        common, first, second = (np.flatnonzero(mask) for mask in masks)
        if not first.size:
            return one
        kept = self.oracle.merge(common, first, second, given(first.size))
        return np.sort(np.concatenate([common, kept]))

    def _fitting(self, items: Items, keep: int) -> NDArray[np.bool_]:
        """Which items fit when they are offered in turn; those among the first ``keep`` that do are taken."""
        fits: NDArray[np.bool_] = self.oracle.fitting(np.ascontiguousarray(items), keep)
        return fits

    # --- the polytope -------------------------------------------------------------------------------

    def project_euclidean(self, z: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """The nearest point of the polytope, its duality gap, and the steps taken."""
        order, target = close_gaps(z, base=base)
        oracle, items, n = self.oracle, np.arange(z.size), z.size
        search, limit = NearestPointSearch(oracle, n, self.rank), 200 + 40 * n
        _, steps = search.run(
            items, target, np.array([n]), below=_NOTHING, tight=int(base), most=self.rank, limit=limit
        )
        near: Vector = search.x[:n].copy()
        # Bases have one sum, so a common offset of z only costs precision.
        middle = order[n // 2] if base else n
        offset = z[middle] if middle < n else 0.0
        return near, max(0.0, self._gap(oracle, near - (z - offset), near, base=base)), steps

    def project_entropy(self, log_w: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """`project_euclidean` for the generalized Kullback-Leibler divergence."""
        items, x, oracle = self._loose.copy(), np.zeros(log_w.size), self.oracle
        flow = None if self.flow is None else self.flow(oracle)
        split = EntropicSplit(oracle, self.rank, log_w, items, flow)
        split.solve(base=base)
        x[items] = np.exp(split.log_x[items])
        middle = log_w.size // 2
        offset = float(np.partition(log_w, middle)[middle]) if base else 0.0
        gradient = np.zeros(x.size)
        gradient[items] = split.log_x[items] - (log_w[items] - offset)
        # A violation within tolerance can make the gap negative; its size bounds the error either way.
        return x, abs(self._gap(oracle, gradient, x, base=base)), split.steps

    def _gap(self, oracle: Any, gradient: Vector, x: Vector, *, base: bool) -> float:
        """The largest first-order improvement over ``x`` at any vertex."""
        items = np.arange(x.size)
        places, fits = oracle.offered(
            items, gradient, below=_NOTHING, tight=int(base), keep=x.size, most=self.rank
        )
        beyond = x.copy()
        beyond[places[fits]] -= 1.0
        return float(gradient @ beyond)

    @cached_property
    def _loose(self) -> Items:
        """Items that are independent by themselves: all others are 0 at every point of the polytope."""
        return np.flatnonzero(self.addable(_NOTHING))

    def holds(self, point: Vector, slack: float) -> bool:
        """Whether a point of the polytope differs from ``point`` by at most ``slack`` in each coordinate."""
        order = np.argsort(-point, kind="stable")
        # The items with the largest entries are the likely culprits: their ranks cost one greedy pass.
        ranks = np.cumsum(self._taken(order))
        if (np.cumsum(point[order]) > ranks + slack * np.arange(1, order.size + 1)).any():
            return False
        one_block: Items = np.zeros(point.size, dtype=np.intp)
        face = np.clip(point, 0.0, 1.0), np.arange(point.size), one_block, int(self._sums_to_rank(point))
        near = self._nearest(*face, 200 + 40 * point.size)
        return bool(np.abs(near.x - point).max() <= slack + 1e-12)

    def _taken(self, order: Items) -> NDArray[np.bool_]:
        """Which items of ``order`` greedy takes."""
        return np.isin(order, self.greedy(order), assume_unique=True)

    def _sums_to_rank(self, point: Vector) -> bool:
        """Whether the point sums to the rank, so that it combines only bases."""
        return abs(float(point.sum()) - self.rank) <= 1e-12 * self.rank

    def decompose(self, point: Vector) -> Decomposition:
        """A point with entries in [0, 1] as a combination of independent sets; refused outside the polytope.

        The nearest-point method is slow towards a point on the boundary: it keeps trying vertices that lie
        off the face of that point, with ever smaller shares. A face is a chain of tight sets (sets A with
        x(A) = rank(A)); greedy stays on it if it serves the chain's sets one after the other. So: search for
        a while, read tight sets off what is still missing, and search again among the vertices that keep
        them tight. ``block`` numbers the steps of the chain, of which the first ``tight`` are tight.
        """
        x, base = np.clip(point, 0.0, 1.0), self._sums_to_rank(point)
        support = np.flatnonzero(x > 0.0)
        target, block, tight = x[support], np.zeros(support.size, dtype=np.intp), int(base)
        limit, most = 3 * support.size + 50, 200 + 40 * support.size
        found = self._nearest(target, support, block, tight, limit)
        while found.steps >= limit and limit < most:
            order = np.lexsort((found.x - target, block))
            slack: Vector = np.cumsum(self._taken(support[order]) - target[order])
            ends = np.flatnonzero(np.abs(slack) <= _TIGHT) + 1
            if ends.size > tight:
                block[order] = np.searchsorted(ends, np.arange(order.size), side="right")
                tight = int(ends.size)
            else:
                limit *= 2
            found = self._nearest(target, support, block, tight, limit)
        near = np.zeros(x.size)
        near[support] = found.shares @ found.vertices
        miss = np.abs(near - point)
        if miss.max() > POLYTOPE_TOLERANCE:
            where = int(np.argmax(miss))
            refuse_outside(f"the nearest point differs by {miss[where]:.3g} at x[{where}]")
        return decomposition(point, [support[vertex > 0.5] for vertex in found.vertices], found.shares)

    def _nearest(self, target: Vector, items: Items, block: Items, tight: int, limit: int) -> _Nearest:
        """The nearest point to ``target`` on a face of the polytope; what is not among ``items`` is 0."""
        # Blocks one after the other, as loops go through them.
        order = np.argsort(block, kind="stable")
        search, ends = NearestPointSearch(self.oracle, items.size, self.rank), np.cumsum(np.bincount(block))
        _, steps = search.run(
            items[order], target[order], ends, below=_NOTHING, tight=tight, most=self.rank, limit=limit
        )
        near, vertices = np.empty(items.size), np.empty((search.n_vertices, items.size))
        near[order], vertices[:, order] = search.x[: items.size], search.vertices(items.size)
        return _Nearest(near, vertices, search.shares, steps)

    def round(self, point: Vector, rng: np.random.Generator) -> Items:
        """A random independent set with expectation ``point``: by a flow, or by merging a decomposition."""
        if self.flow is None:
            parts = self.decompose(point)
            return merge_sets(self, parts.sets, parts.weights, rng)
        assert self._uniforms is not None
        support = np.flatnonzero(point > 0.0)
        of_items, beside = self._uniforms
        uniforms = rng.random(int(of_items[support].sum()) + beside)
        excess, items, kept = self.flow(self.oracle).round(support, point[support], uniforms)
        if excess > POLYTOPE_TOLERANCE * max(items, 1):
            refuse_outside(f"{items} items exceed their rank by {excess:.3g}")
        chosen: Items = support[kept]
        if chosen.size < self.rank and self._sums_to_rank(point):
            # Restore items lost to rounding of units; ties go to the smaller item.
            chosen = np.sort(self.greedy(np.concatenate([chosen, support[~kept]])))
        return chosen.astype(np.intp, copy=False)


def close_gaps(z: Vector, *, base: bool) -> tuple[Items, Vector]:
    """The order of the entries (0 as the last of them), and a vector with the same projection.

    It has no large numbers, which would cost precision. Coordinates of the projection lie in [0, 1]. If two
    neighbours in sorted order are more than 1 apart, everything above is served before everything below, so
    larger gaps can be closed. Without ``base``, 0 counts as a neighbour (items at or below it get nothing).
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
        falls short of x; a minimizer is among the prefixes, whose ranks one greedy pass tells.
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
        # Of several such sets take the largest, with all it spans: items with tiny x must stay with those
        # that crowd them out, or they would be left with nothing.
        prefix = int(np.flatnonzero(slack <= lowest + 0.1 * _VIOLATION)[-1]) + 1
        _, free = self._oracle.offered(items, short, keep=prefix, **more)
        free[:prefix] = False
        inside = np.empty(size, dtype=np.bool_)
        inside[places] = ~free
        return inside


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

    bends = np.sort(np.concatenate([-z, upper - z]))
    left = max(0, bisect_right(bends, total, key=shifted_sum) - 1)
    following = min(left + 1, bends.size - 1)
    s = float(bends[left])
    inside = z + 0.5 * (s + float(bends[following]))
    moving = int(np.count_nonzero((inside > 0.0) & (inside < upper)))
    if moving:
        # The second pass only removes the rounding of the first.
        for _ in range(2):
            s += (total - shifted_sum(s)) / moving
    return s


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
