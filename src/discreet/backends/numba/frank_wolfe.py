"""Compiled steps of Meta-Frank-Wolfe: gradients of row families for each of the experts."""

from __future__ import annotations

import math

import numpy as np

from .compiled import loop, part
from .minimization import _sort_anew

# Kinds of rows (objectives/rows.py) whose multilinear gradient has the closed forms below.
_BEST = 2
CLOSED_FORMS = (0, 1, _BEST)


@part
def _survive(chance, weights, before, out):  # type: ignore[no-untyped-def]
    """Gradient of 1 - prod(1 - x w) by the products before and after each item."""
    product = 1.0
    for t in range(weights.size):
        before[t] = product
        product *= 1.0 - chance[t] * weights[t]
    after = 1.0
    for t in range(weights.size - 1, -1, -1):
        out[t] = weights[t] * before[t] * after
        after *= 1.0 - chance[t] * weights[t]


@part
def _best(chance, weights, order, before, out):  # type: ignore[no-untyped-def]
    """Gradient of the expected maximum: an item counts when nothing better came, less the rest's best."""
    unmet = 1.0
    for t in order:
        before[t] = unmet
        unmet *= 1.0 - chance[t]
    rest = 0.0
    for r in range(order.size - 1, -1, -1):
        t = order[r]
        out[t] = before[t] * (weights[t] - rest)
        rest = chance[t] * weights[t] + (1.0 - chance[t]) * rest


@part
def _gradient(kind, chance, weights, order, before, out):  # type: ignore[no-untyped-def]
    if kind == _BEST:
        _best(chance, weights, order, before, out)
    else:
        _survive(chance, weights, before, out)


@loop()
def add_row_gradients(  # type: ignore[no-untyped-def]
    kind, indptr, indices, data, first, within_limit, points, shares, scale, most, totals
):
    """Add to ``totals[k]`` the multilinear gradient at ``points[k]`` of each person within the limit.

    ``shares[k]`` of it, and the rest of the gradient where everything is chosen (the least it ever is).
    Gradients are counted in whole units, ``scale`` to 1 and at most ``most``, rounded down, so that one
    person's share in the sums is exact.
    """
    experts = points.shape[0]
    distorted = shares.min() < 1.0
    for j in range(within_limit.size):
        if not within_limit[j]:
            continue
        start, stop = indptr[first + j], indptr[first + j + 1]
        length = stop - start
        items, weights = indices[start:stop], data[start:stop]
        order = np.empty(weights.size if kind == _BEST else 0, dtype=np.int64)
        if kind == _BEST:
            _sort_anew(-weights, order)
        before, out, least = np.empty(length), np.empty(length), np.zeros(length)
        chance = np.ones(length)
        if distorted:
            _gradient(kind, chance, weights, order, before, least)
        for k in range(experts):
            for t in range(length):
                chance[t] = points[k, items[t]]
            _gradient(kind, chance, weights, order, before, out)
            for t in range(length):
                fed = shares[k] * out[t] + (1.0 - shares[k]) * least[t]
                units = np.int64(math.floor(min(fed * scale, float(most))))
                totals[k, items[t]] += max(np.int64(0), units)
