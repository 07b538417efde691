"""Knapsacks: items whose costs fit into a budget."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import real, vector
from .base import (
    POLYTOPE_TOLERANCE,
    Constraint,
    Decomposition,
    Items,
    ProjectedPoint,
    Vector,
    decomposition,
    generator,
    item_set,
    log_weights,
    projected,
    refuse_outside,
)
from .rounding import settle_knapsack

# Costs are summed in floating point: 0.1 + 0.2 must fit into 0.3.
RELATIVE_SLACK = 1e-12
_MOST_NEWTON_STEPS = 200
# Entries below this share of a combination count as 0.
_ROUNDING = 1e-13


class Knapsack(Constraint):
    """Sets whose costs sum to at most ``capacity`` (up to a relative 1e-12 for rounding).

    ``costs`` are zero or more. The polytope is {0 <= x <= 1 : <costs, x> <= capacity}, with x[i] = 0 for an
    item that costs more than the whole capacity, since no feasible set holds it. Unlike a matroid's, it has
    fractional vertices, and the best set's value can be little more than half of the best point's: with two
    items of cost 0.6, capacity 1 and f = |S|, the point (1, 2/3) has F = 5/3 and no set has more than 1. No
    rounding closes that gap, so guarantees for the fractional point carry over to sets only up to the loss
    that ``round`` states.

    >>> bag = Knapsack([0.6, 0.6, 0.2], capacity=1.0)
    >>> bag.rank, bag.contains([0, 2]), bag.contains([0, 1])
    (2, True, False)
    >>> bag.maximize([3.0, 2.0, 2.0]).round(3).tolist()
    [1.0, 0.333, 1.0]
    """

    def __init__(self, costs: ArrayLike, capacity: float) -> None:
        self.costs = vector("costs", costs)
        if self.costs.size == 0:
            raise ValueError("costs is empty, so the ground set is empty; give at least one cost")
        if self.costs.min() < 0.0:
            where = int(np.argmin(self.costs))
            raise ValueError(f"costs[{where}]={self.costs[where]} is negative; costs must be zero or more")
        self.capacity = real("capacity", capacity, at_least=0.0)
        # Scale costs to a unit near the capacity (a power of two, so that nothing is rounded): no sum
        # overflows and no square underflows, whatever unit the caller uses.
        unit = math.frexp(self.capacity)[1]
        dearest = max(4.0 * math.ldexp(self.capacity, -unit), 1.0)
        with np.errstate(over="ignore", under="ignore"):
            self._costs = np.minimum(np.ldexp(self.costs, -unit), dearest)
        if self.capacity == 0.0:
            self._costs = (self.costs > 0.0).astype(np.float64)
        self._capacity = math.ldexp(self.capacity, -unit)
        self._limit = self._capacity * (1.0 + RELATIVE_SLACK)
        self._affordable = self._costs <= self._limit
        if not self._affordable.any():
            raise ValueError(
                f"no item can be chosen: the least cost {self.costs.min()} exceeds capacity={self.capacity}"
            )
        self._upper = self._affordable.astype(np.float64)
        self.n_items = int(self.costs.size)
        # How many of the cheapest items fit together.
        self.rank = int(np.searchsorted(np.cumsum(np.sort(self._costs)), self._limit, side="right"))

    def _arguments(self) -> dict[str, Any]:
        return {"costs": self.costs.tolist(), "capacity": self.capacity}

    def __repr__(self) -> str:
        return f"Knapsack({self.costs.size} items, capacity={self.capacity:g})"

    def contains(self, S: Iterable[int]) -> bool:
        """Whether the costs of S sum to at most the capacity."""
        return math.fsum(self._costs[item_set("S", S, self.n_items)]) <= self._limit

    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over all items: True where the item is outside S and still fits."""
        items = item_set("S", S, self.n_items)
        spent = math.fsum(self._costs[items])
        if spent > self._limit:
            with np.errstate(over="ignore"):
                total = float(self.costs[items].sum())
            raise ValueError(
                f"S costs {total}, more than capacity={self.capacity}; give a set that contains() accepts"
            )
        mask = self._costs + spent <= self._limit
        mask[items] = False
        return mask

    def maximize(self, w: ArrayLike) -> Vector:
        """A vertex with the largest <w, x>: items by value per cost, the last one as far as it fits.

        Items with weight 0 or less are never taken; ties go to the smaller item. At most one entry is
        fractional.
        """
        weights = vector("w", w, length=self.n_items)
        useful = np.flatnonzero(self._affordable & (weights > 0.0))
        with np.errstate(divide="ignore", over="ignore"):
            density = weights[useful] / self._costs[useful]
        order = useful[np.argsort(-density, kind="stable")]
        x = np.zeros(weights.size)
        cost = self._costs[order]
        before = np.cumsum(cost) - cost
        paid = cost > 0.0
        share = np.ones(order.size)
        with np.errstate(over="ignore"):
            share[paid] = np.clip((self._capacity - before[paid]) / cost[paid], 0.0, 1.0)
        # A remainder within the rounding error of the running sum counts as 0.
        share[share < RELATIVE_SLACK] = 0.0
        share[share > 1.0 - RELATIVE_SLACK] = 1.0
        x[order] = share
        return x

    def project_euclidean(self, x: ArrayLike) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``: clip(x - t costs, 0, 1), t in closed form."""
        z = vector("x", x, length=self.n_items)

        def at(price: float) -> Vector:
            return np.clip(z - price * self._costs, 0.0, self._upper)

        point = at(0.0)
        if float(self._costs @ point) <= self._capacity:
            return projected(point)
        open_items = self._affordable & (self._costs > 0.0)
        cost, start = self._costs[open_items], z[open_items]
        with np.errstate(over="ignore"):
            bends = np.unique(np.concatenate([[0.0], (start - 1.0) / cost, start / cost]))
        # An item whose bend overflows costs almost nothing: no relevant price reaches it.
        bends = bends[(bends >= 0.0) & np.isfinite(bends)]
        # Spending falls with the price; the last bend where it is still above the capacity starts the right
        # piece.
        left = bisect_right(bends, -self._capacity, key=lambda price: -float(self._costs @ at(price))) - 1
        price = float(bends[left])
        inside = 0.5 * (price + float(bends[min(left + 1, bends.size - 1)]))
        moving = (start - inside * cost > 0.0) & (start - inside * cost < 1.0)
        slope = float(cost[moving] @ cost[moving])
        if slope > 0.0:
            # The second pass only removes the rounding of the first.
            for _ in range(2):
                price += (float(self._costs @ at(price)) - self._capacity) / slope
        return projected(at(price))

    def project_entropy(self, w: ArrayLike, *, log: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w: min(1, w exp(-t costs)).

        ``w`` is positive, or its logarithm with ``log=True``. The price is found by Newton's method on the
        logarithm of the spending, which is convex and falls, so that the steps approach it from one side.
        ``gap`` bounds the distance of the divergence from its minimum.
        """
        logs = log_weights(w, log=log, length=self.n_items)

        def log_point(price: float) -> Vector:
            return np.where(self._affordable, np.minimum(0.0, logs - price * self._costs), -np.inf)

        def spending(price: float) -> float:
            return float(self._costs @ np.exp(log_point(price)))

        price, steps = 0.0, 0
        if spending(0.0) > self._capacity:
            price, steps = self._entropic_price(logs, spending)
        log_x = log_point(price)
        x = np.exp(log_x)
        gradient = np.where(self._affordable, log_x - logs, 0.0)
        gap = float(gradient @ x) + float(-gradient @ self.maximize(-gradient))
        return projected(x, abs(gap), steps)

    def _entropic_price(self, logs: Vector, spending: Callable[[float], float]) -> tuple[float, int]:
        """The price at which min(1, w exp(-price costs)) spends the capacity, and Newton's steps to it."""
        paid = self._affordable & (self._costs > 0.0)
        cost, log_w = self._costs[paid], logs[paid]
        # Item i leaves 1 at the price log_w / cost: between two such prices the spending is a sum of
        # exponentials.
        with np.errstate(over="ignore"):
            leaves = np.maximum(0.0, log_w / cost)
        bends = np.unique(np.append(leaves[np.isfinite(leaves)], 0.0))
        left = bisect_right(bends, -self._capacity, key=lambda price: -spending(price)) - 1
        price = float(bends[left])
        end = float(bends[left + 1]) if left + 1 < bends.size else np.inf
        full = leaves > price
        remaining = self._capacity - float(cost[full].sum())
        if remaining <= 0.0 or full.all():
            return end, 0
        cost, log_spend = cost[~full], log_w[~full] + np.log(cost[~full])
        steps = 0
        while steps < _MOST_NEWTON_STEPS:
            steps += 1
            terms = log_spend - price * cost
            top = float(terms.max())
            shares = np.exp(terms - top)
            excess = top + math.log(float(shares.sum())) - math.log(remaining)
            move = excess * float(shares.sum()) / float(shares @ cost)
            if price + move <= price:
                break
            price = min(price + move, end)
        return price, steps

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether entries lie in [0, 1] (0 if above the capacity) and the costs fit, each up to ``tol``.

        The tolerance on the costs is relative to the capacity; entries outside of [0, 1] by less than
        ``tol`` are paid for as if they were 0 or 1.
        """
        point = vector("x", x, length=self.n_items)
        slack = real("tol", tol, at_least=0.0)
        if (point < -slack).any() or (point > self._upper + slack).any():
            return False
        return float(self._costs @ np.clip(point, 0.0, self._upper)) <= self._limit + slack * self._capacity

    def decompose(self, x: ArrayLike) -> Decomposition:
        """Feasible sets whose convex combination lies below ``x``; ``residual`` is the difference.

        ``x`` is written as a combination of at most n_items + 2 vertices of the polytope, each of which has
        at most one fractional item; that item is dropped. ``residual`` (zero or more up to rounding) is the
        weight of the dropped fractions.
        """
        point = self._point(x)
        # What is left of the point, with entries in [0, left] and costs of at most left times the capacity.
        # A vertex of its face is taken off as far as that holds, which makes one more of the limits tight;
        # what rounding leaves goes to the empty set.
        rest, left = self._scaled(point), 1.0
        sets: list[Items] = []
        weights: list[float] = []
        while left > _ROUNDING and len(sets) <= point.size:
            vertex = self._vertex(rest)
            step = self._step(rest, left, vertex)
            sets.append(np.flatnonzero(vertex >= 1.0))
            weights.append(step)
            left -= step
            rest = np.clip(rest - step * vertex, 0.0, left)
            rest[rest < _ROUNDING] = 0.0
            rest[rest > left - _ROUNDING] = left
        sets.append(np.zeros(0, dtype=np.intp))
        weights.append(left)
        used = np.array(weights) > 0.0
        chosen = [items for items, positive in zip(sets, used.tolist(), strict=True) if positive]
        return decomposition(point, chosen, np.array(weights)[used])

    def _vertex(self, rest: Vector) -> Vector:
        """A vertex that meets every limit that ``rest`` meets: items by falling share, while they fit."""
        order = np.argsort(-rest, kind="stable")
        order = order[rest[order] > 0.0]
        cost = self._costs[order]
        before, paid, share = np.cumsum(cost) - cost, cost > 0.0, np.ones(order.size)
        share[paid] = np.clip((self._capacity - before[paid]) / cost[paid], 0.0, 1.0)
        vertex = np.zeros(rest.size)
        vertex[order] = np.where(share > 1.0 - RELATIVE_SLACK / 2.0, 1.0, share)
        return vertex

    def _step(self, rest: Vector, left: float, vertex: Vector) -> float:
        """How much of the vertex can be taken off."""
        some, below = vertex > 0.0, (vertex < 1.0) & (rest < left)
        limits = [left, *(rest[some] / vertex[some]), *((left - rest[below]) / (1.0 - vertex[below]))]
        unspent = self._capacity - float(self._costs @ vertex)
        if unspent > RELATIVE_SLACK * self._capacity:
            limits.append((left * self._capacity - float(self._costs @ rest)) / unspent)
        return float(max(min(limits), 0.0))

    def _point(self, x: ArrayLike) -> Vector:
        point = self._entries(x)
        if not self.in_polytope(point):
            refuse_outside("its costs, or an item above the capacity")
        return np.clip(point, 0.0, 1.0)

    def _scaled(self, point: Vector) -> Vector:
        """The point without a tolerated excess of its costs, and with 0 for items above the capacity."""
        point = np.minimum(point, self._upper)
        spent = float(self._costs @ point)
        return point * (self._capacity / spent) if spent > self._capacity else point

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random feasible set, by pairwise rounding along e_i / c_i - e_j / c_j.

        Every pair step keeps <costs, x> and the expectation of x, and F (the multilinear extension of a
        submodular f) is convex along it, so that before the last step E F(point) >= F(x). At most one item
        j is then fractional. If it fits it is taken with its probability; if not, it is dropped, which
        loses at most x_j f({j}). Hence for monotone submodular f with f(empty) = 0: E f(set) >= F(x) - max
        over items of f({j}), and item i is chosen with probability at most x[i]. A loss is unavoidable: the
        best set can have little more than half of F (see the class). It is small if all single values are.
        """
        point = self._scaled(self._point(x))
        generator(rng)
        settle_knapsack(point, self._costs, rng)
        uniforms = rng.random(point.size)
        chosen = np.flatnonzero((point >= 1.0) | ((self._costs == 0.0) & (uniforms < point)))
        last = np.flatnonzero((point > 0.0) & (point < 1.0) & (self._costs > 0.0))
        if last.size and uniforms[last[0]] < point[last[0]] and self.contains(np.append(chosen, last[0])):
            chosen = np.sort(np.append(chosen, last[0]))
        return chosen
