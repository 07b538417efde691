"""Rounding of a point of the polytope to a set, without evaluating any set.

Rounding that queries a private objective is a release; no procedure here takes an objective, so each is
post-processing of the point it rounds. Each moves the point at random, keeps its expectation, and moves only
along directions with at most one positive and one negative entry. The multilinear extension F of a submodular
function f is convex along those, so E F never falls: E f(rounded set) >= F(x) wherever nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import shown, vector
from .base import Items, Vector, generator, item_set

if TYPE_CHECKING:
    from .matroids import Matroid


def settle_groups(x: Vector, group: Items, rng: np.random.Generator) -> None:
    """Pivotal rounding in place: leave at most one fractional entry in each group (group -1 is left alone).

    Fractional entries of a group meet in pairs; a pair (a, b) with a+b <= 1 becomes (a+b, 0) or (0, a+b),
    one with a+b > 1 becomes (1, a+b-1) or (a+b-1, 1), with the probabilities that keep both expectations.
    Pairs are independent of each other, so all pairs of one sweep are drawn together, and every sweep
    settles one of each. Sums of groups are kept, and entries end up negatively correlated (Deville and
    Tille 1998; Srinivasan 2001).
    """
    open_items = np.flatnonzero((x > 0.0) & (x < 1.0) & (group >= 0))
    open_items = open_items[np.argsort(group[open_items], kind="stable")]
    while True:
        # Neighbours in the list that share a group: 1st with 2nd, 3rd with 4th, ... of each group.
        of = group[open_items]
        place = np.arange(of.size) - np.searchsorted(of, of)
        pairs = np.flatnonzero((place[:-1] % 2 == 0) & (of[:-1] == of[1:]))
        if not pairs.size:
            return
        first, second = open_items[pairs], open_items[pairs + 1]
        a, b = x[first], x[second]
        total = a + b
        heavy = total > 1.0
        high = np.where(heavy, 1.0, total)
        low = np.where(heavy, total - 1.0, 0.0)
        to_first = np.where(heavy, (1.0 - b) / np.where(heavy, 2.0 - total, 1.0), a / total)
        first_high = rng.random(first.size) < to_first
        x[first] = np.where(first_high, high, low)
        x[second] = np.where(first_high, low, high)
        open_items = open_items[(x[open_items] > 0.0) & (x[open_items] < 1.0)]


def settle_knapsack(x: Vector, costs: Vector, rng: np.random.Generator) -> None:
    """Pairwise rounding in place: keep <costs, x>, leave at most one fractional entry of positive cost.

    A pair (i, j) moves along e_i / c_i - e_j / c_j, up or down until one of the two is 0 or 1, with the
    probabilities that keep both expectations.
    """
    open_items = np.flatnonzero((x > 0.0) & (x < 1.0) & (costs > 0.0))
    while open_items.size > 1:
        even = open_items.size - open_items.size % 2
        first, second = open_items[:even:2], open_items[1:even:2]
        a, b = x[first] * costs[first], x[second] * costs[second]
        # In units of cost: how far the first can rise, and how far it can fall.
        rise = np.minimum(costs[first] - a, b)
        fall = np.minimum(a, costs[second] - b)
        up = rng.random(first.size) * (rise + fall) < fall
        move = np.where(up, rise, -fall)
        x[first], x[second] = (a + move) / costs[first], (b - move) / costs[second]
        # The entry that met its bound is set to it exactly, so that no pair stays fractional through
        # rounding.
        x[first[up & (rise < b)]] = 1.0
        x[second[up & (rise >= b)]] = 0.0
        x[first[~up & (fall >= a)]] = 0.0
        x[second[~up & (fall < a)]] = 1.0
        np.clip(x, 0.0, 1.0, out=x)
        open_items = open_items[(x[open_items] > 0.0) & (x[open_items] < 1.0)]


def swap_round(
    matroid: Matroid, sets: Sequence[Iterable[int]], weights: ArrayLike, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Merge independent sets into one, by random exchanges: item i stays with its share of the weights.

    Randomised swap rounding (Chekuri, Vondrak and Zenklusen 2010), sets merged one after the other as
    published. Every item is chosen with its probability in the decomposition, items are negatively
    correlated, and for monotone submodular f with gains in [0, 1] the published lower Chernoff tail of
    f(set) around F(x) applies. ``sets`` and ``weights`` may be any convex combination of independent sets:
    the steps of a continuous greedy algorithm as they are, or the parts of ``decompose(x)``. Weights are
    zero or more and count relative to their sum.

    Cost: one circuit and one independence search per exchange, and at most rank exchanges per set.

    >>> from discreet.constraints import Cardinality
    >>> swap_round(Cardinality(2), [[0, 1], [1, 2]], [0.5, 0.5], np.random.default_rng(0)).tolist()
    [1, 2]
    """
    from .matroids import Matroid

    if not isinstance(matroid, Matroid):
        raise TypeError(
            f"matroid={shown(matroid)} is not a matroid; only matroids have the exchanges used here"
        )
    checked = [item_set(f"sets[{index}]", items, matroid.n_items) for index, items in enumerate(sets)]
    if not checked:
        raise ValueError("sets is empty; a decomposition has at least one set")
    shares = vector("weights", weights, length=len(checked))
    if shares.min() < 0.0 or shares.max() == 0.0:
        where = int(np.argmin(shares))
        raise ValueError(
            f"weights[{where}]={shares[where]}; weights must be zero or more, and one of them positive"
        )
    largest = max((int(items.max()) for items in checked if items.size), default=0)
    independent = matroid._sets_over(matroid.n_items or max(largest + 1, matroid.rank))
    for index, items in enumerate(checked):
        if not independent.fits(items):
            raise ValueError(
                f"sets[{index}]={items.tolist()} is not independent in {matroid!r}; "
                "give sets that contains() accepts"
            )
    return merge_sets(independent, checked, shares / shares.max(), generator(rng))


def merge_sets(
    matroid: Any, sets: Sequence[Items], weights: Vector, rng: np.random.Generator
) -> NDArray[np.intp]:
    """``swap_round`` for sets and weights that are known to be right; ``matroid``: its independent sets."""
    merged, share = sets[0], float(weights[0])
    for items, weight in zip(sets[1:], weights[1:].tolist(), strict=True):
        merged = _merge(matroid, merged, share, items, weight, rng)
        share += weight
    return np.sort(merged)


def _merge(
    matroid: Any, one: Items, one_share: float, two: Items, two_share: float, rng: np.random.Generator
) -> Items:
    """Exchange until the two sets are equal.

    Sets of different sizes are treated as bases padded with interchangeable free elements: in the padded
    matroid (any independent set plus padding, at most rank many together) they are bases, and an exchange
    with a padding element is a plain addition to the smaller set or removal from the larger one.
    """
    if one.size == two.size == matroid.rank:
        found: Items | None = matroid.merged_bases(
            one, two, lambda left: rng.random(left) * (one_share + two_share) < one_share
        )
        if found is not None:
            return found
    first, second = set(one.tolist()), set(two.tolist())
    while first != second:
        if len(first) < len(second):
            first, second, one_share, two_share = second, first, two_share, one_share
        item = min(first - second)
        partner = _partner(matroid, first, second, item)
        traded = set() if partner is None else {partner}
        if rng.random() * (one_share + two_share) < one_share:
            second = (second - traded) | {item}
        else:
            first = (first - {item}) | traded
    return np.array(sorted(first), dtype=np.intp)


def _partner(matroid: Any, larger: set[int], smaller: set[int], item: int) -> int | None:
    """An item of ``smaller`` that may trade places with ``item`` of ``larger``; None stands for padding."""
    small = np.array(sorted(smaller), dtype=np.intp)
    # No independent set is larger than a base, so nothing can be added to one.
    if small.size < matroid.rank and matroid.fits(np.append(small, item)):
        if len(larger) > len(smaller):
            return None
    else:
        small = matroid.circuit(small, item)
    candidates = np.array([other for other in small.tolist() if other not in larger], dtype=np.intp)
    without = np.array(sorted(larger - {item}), dtype=np.intp)
    fitting = candidates[matroid.addable_among(without, candidates)]
    if fitting.size:
        return int(fitting[0])
    # The strong exchange property of bases guarantees a partner.
    raise ValueError(
        f"no item can trade places with item {item} between {sorted(larger)} and {sorted(smaller)}: "
        "the independence oracle is not that of a matroid"
    )
