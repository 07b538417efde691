"""Projections onto matroid polytopes from a greedy algorithm alone: a slow twin of what is compiled.

``greedy`` offers items in order and keeps those that fit; ``addable`` says which items an independent set has
room for.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from discreet.constraints.polytopes import close_gaps, scale_to_total

VIOLATION = 1e-11


def nearest_point(z, minimize):
    """The point nearest to ``z`` in the hull of all answers of ``minimize(cost)``.

    The nearest point among the vertices met so far is a problem of non-negative least squares, whose answer
    is divided by its sum; the vertex that its residual likes best comes next.
    """
    vertices, best = [minimize(-z)], np.inf
    while True:
        table = np.vstack([np.array(vertices).T - z[:, None], np.ones(len(vertices))])
        shares = nnls(table, np.append(np.zeros(z.size), 1.0))[0]
        x = shares @ np.array(vertices) / shares.sum()
        vertex, distance = minimize(x - z), float((x - z) @ (x - z))
        gap = float((x - z) @ (x - vertex))
        if gap <= 1e-14 * (1.0 + abs(float((x - z) @ x))) or distance >= best:
            return x
        best = distance
        vertices.append(vertex)


def chosen(greedy, order):
    """Which items of ``order`` greedy takes."""
    return np.isin(order, greedy(order), assume_unique=True)


def _nearest(greedy, z, *, base):
    def cheapest(cost):
        order = np.argsort(cost, kind="stable")
        order = order[base | (cost[order] < 0.0)]
        vertex = np.zeros(z.size)
        vertex[order] = chosen(greedy, order)
        return vertex

    return nearest_point(z, cheapest)


def euclidean(greedy, z, *, base):
    """The nearest point."""
    return _nearest(greedy, close_gaps(z, base=base)[1], base=base)


def entropic(greedy, addable, log_w, *, base):
    """The point with the least sum of x ln(x/w) - x + w, by decomposition (Groenevelt 1991).

    Solve the problem with only the box and the total rank. If some set A of items then gets more than its
    rank, the set where the excess x(A) - rank(A) is largest is tight in the solution, and the problem falls
    apart into one inside A and one outside of it (with A contracted). Without ``base``, the first solution is
    min(1, w), which is left as it is outside the tight set.
    """
    # An item that is dependent by itself is 0 at every point of the polytope.
    loose = items = np.flatnonzero(addable(np.zeros(0, dtype=np.intp)))
    splitter = _EntropicSplit(greedy, addable, log_w)
    if not base:
        splitter.log_x[items] = np.minimum(0.0, log_w[items])
        items = splitter.most_violated(items, np.zeros(0, dtype=np.intp))
    splitter.solve(items, np.zeros(0, dtype=np.intp))
    x = np.zeros_like(log_w)
    x[loose] = np.exp(splitter.log_x[loose])
    return x


class _EntropicSplit:
    def __init__(self, greedy, addable, log_w):
        self.greedy = greedy
        self.addable = addable
        self.log_w = log_w
        self.log_x = np.zeros_like(log_w)

    def solve(self, items, below):
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

    def most_violated(self, items, below):
        """The set among ``items`` whose current sum exceeds its rank the most; empty if none does.

        Minimizing rank(A) - x(A) is a nearest-point problem: sort the items by how far the base nearest to
        x falls short of x; a minimizer is among the prefixes, whose ranks one greedy pass tells.
        """
        x = np.exp(self.log_x[items])

        def cheapest(cost):
            order = np.argsort(cost, kind="stable")
            vertex = np.zeros(items.size)
            vertex[order] = self._chosen(items[order], below)
            return vertex

        order = np.argsort(nearest_point(x, cheapest) - x, kind="stable")
        slack = np.cumsum(self._chosen(items[order], below) - x[order])
        if slack.min() >= -VIOLATION:
            return items[:0]
        # Of several such sets the largest, with all it spans: items whose x is next to nothing belong with
        # those that crowd them out, or they would be left with nothing at all.
        violated = items[order[: np.flatnonzero(slack <= slack.min() + 0.1 * VIOLATION)[-1] + 1]]
        free = self.addable(self.greedy(np.concatenate([below, violated])))
        return items[~free[items]]

    def _chosen(self, order, below):
        """Which items of ``order`` greedy takes after all of ``below``."""
        taken = self.greedy(np.concatenate([below, order]))
        return np.isin(order, taken, assume_unique=True)
