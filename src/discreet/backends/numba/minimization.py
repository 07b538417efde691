"""Compiled rounds of submodular minimisation. Meaning: ``discreet.online.minimize.minimizer``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arguments import Cuts, SumState
from .compiled import loop, part
from .sums import noisy_step

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


# Up to this many items, moving a few out of last round's order beats sorting anew.
_FEW = 256


@part
def _sort_anew(scores: Floats, order: Indices) -> None:
    """All items by rising score, equal scores by item: short runs are sorted, then pairs of runs merged."""
    count = order.size
    merged = np.empty(count, dtype=np.int64)
    size = 16
    for i in range(count):
        j = i
        while j % size > 0 and scores[i] < scores[order[j - 1]]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    while size < count:
        for start in range(0, count, 2 * size):
            left, right = start, min(start + size, count)
            middle, stop = right, min(start + 2 * size, count)
            for place in range(start, stop):
                # Of equal scores the left run holds the earlier items.
                if left < middle and (right >= stop or not scores[order[right]] < scores[order[left]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        for i in range(count):
            order[i] = merged[i]
        size *= 2


@loop()
def put_in_order(scores: Floats, order: Indices) -> None:
    """Sort ``order`` (any permutation) by rising score, equal scores by item."""
    count = order.size
    if count > _FEW:
        _sort_anew(scores, order)
        return
    for k in range(1, count):
        item = order[k]
        score = scores[item]
        j = k
        while j > 0:
            other = order[j - 1]
            if scores[other] < score or (scores[other] == score and other < item):
                break
            order[j] = other
            j -= 1
        order[j] = item


@loop()
def gauge(gradient: Floats, order: Indices, empty_is_free: bool) -> float:
    """The smallest range (bound, where the empty set is free) of a submodular function with this gradient."""
    risen = 0.0
    height = 0.0
    lowest = 0.0
    for item in order:
        step = gradient[item]
        if step > 0.0:
            risen += step
        height += step
        lowest = min(lowest, height)
    return max(risen, -lowest) if empty_is_free else risen - lowest


@loop()
def cut_gradient(cuts: Cuts, person: int, scores: Floats, out: Floats) -> None:
    """What each item adds to the person's cut when items join by rising score, equal scores by item."""
    tail, head, start, arcs, weights, prices = cuts
    row = person if prices.shape[0] > 1 else 0
    for i in range(out.size):
        out[i] = prices[row, i]
    for k in range(start[person], start[person + 1]):
        u = tail[arcs[k]]
        v = head[arcs[k]]
        if scores[u] < scores[v] or (scores[u] == scores[v] and u < v):
            out[u] += weights[k]
            out[v] -= weights[k]


@loop()
def cut_value(
    cuts: Cuts,
    person: int,
    inside: Floats,
) -> float:
    """The person's cost of the set of items that are 1 in ``inside``."""
    tail, head, start, arcs, weights, prices = cuts
    row = person if prices.shape[0] > 1 else 0
    cost = 0.0
    for i in range(inside.size):
        cost += prices[row, i] * inside[i]
    for k in range(start[person], start[person + 1]):
        if inside[tail[arcs[k]]] > inside[head[arcs[k]]]:
            cost += weights[k]
    return cost


@loop()
def cut_values(
    cuts: Cuts,
    first: int,
    inside: Floats,
    out: Floats,
) -> None:
    """`cut_value` for as many people from ``first`` on as ``out`` has room for."""
    for t in range(out.size):
        out[t] = cut_value(cuts, first + t, inside)


@loop()
def threshold(known: Floats, regularization: float, centre: float, coin: float, out: Floats) -> None:
    """The items whose coordinate of clip(centre - known / regularization, 0, 1) exceeds the coin: 1, else 0.

    Coordinates outside [0, 1] need no clipping to be compared with a coin in [0, 1).
    """
    for i in range(out.size):
        out[i] = 1.0 if centre - known[i] / regularization > coin else 0.0


@loop()
def cut_rounds(
    cuts: Cuts,
    first: int,
    within_limit: NDArray[np.bool_],
    limit: float,
    empty_is_free: bool,
    regularization: float,
    centre: float,
    coins: Floats,
    shown: Floats,
    inside: SumState,
    known: Floats,
    pending: Floats,
    costs: Floats,
    played: Floats,
) -> int:
    """Whole rounds; between them, ``costs.size - 1`` sums are taken with a row of ``noise`` each.

    On entry ``shown`` is what is played in the first of them; on return ``known`` and ``shown`` are those of
    the last round, and ``pending`` its gradient, which no sum has yet. Returns how many gradients were
    shortened to ``limit``; infinity for people who are known to keep to it.
    """
    n = known.size
    order = np.arange(n)
    shortened = 0
    for t in range(costs.size):
        if t > 0:
            noisy_step(inside, t - 1, pending, known)
            threshold(known, regularization, centre, coins[t - 1], shown)
        person = first + t
        costs[t] = cut_value(cuts, person, shown)
        for i in range(n):
            played[t, i] = shown[i]
        if not within_limit[t]:
            for i in range(n):
                pending[i] = 0.0
            continue
        cut_gradient(cuts, person, known, pending)
        if limit == np.inf:
            continue
        put_in_order(known, order)
        size = gauge(pending, order, empty_is_free)
        if size > limit:
            if size > limit * (1.0 + 1e-9):
                shortened += 1
            for i in range(n):
                pending[i] *= limit / size
    return shortened


@loop()
def draw_from_chain(
    known: Floats,
    regularization: float,
    centre: float,
    exploration: float,
    coin: float,
    order: Indices,
    shown: Floats,
) -> tuple[int, float]:
    """One set of the chain of clip(centre - known / regularization, 0, 1): how many items, and its chance."""
    n = known.size
    put_in_order(known, order)
    above = 1.0
    passed = 0.0
    chance = 1.0
    place = n
    for k in range(n + 1):
        below = 0.0
        if k < n:
            below = min(max(centre - known[order[k]] / regularization, 0.0), 1.0)
        chance = (1.0 - exploration) * (above - below) + exploration / (n + 1)
        passed += chance
        if coin < passed:
            place = k
            break
        above = below
    for k in range(n):
        shown[order[k]] = 1.0 if k < place else 0.0
    return place, chance
