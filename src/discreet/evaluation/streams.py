"""Streams of people: synthetic (stationary, drifting, alternating, hardest cases), or from a file.

All are fixed before the first round (oblivious), as the certified regrets require.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import objectives
from ..core import checks
from ..objectives import Arcs, Coverage, GraphCut, Population, ProbabilisticCoverage


def product_display(
    people: int, items: int, rng: np.random.Generator, *, clusters: int = 6, taken: int = 6
) -> ProbabilisticCoverage:
    """Shoppers in clusters of taste, who take each product that they like with some probability.

    The product display of paper 000, with clusters of decreasing size. A cluster has ``taken`` products of
    its own, most of which its shoppers like; each shopper also likes one product at random. The most popular
    products are all of the largest cluster, so choosing by popularity alone leaves the others out.
    """
    groups = checks.whole("clusters", clusters, at_least=1)
    own = checks.whole("taken", taken, at_least=1)
    own = min(own, max(1, items // groups))
    sizes = 1.0 / np.arange(1.0, groups + 1.0)
    home = rng.choice(groups, size=people, p=sizes / sizes.sum())
    shelves = np.resize(rng.permutation(items), groups * own)
    matrix = np.zeros((people, items))
    liked = shelves.reshape(groups, own)[home]
    chances = rng.uniform(0.4, 0.9, size=(people, own)) * (rng.random((people, own)) < 0.8)
    np.put_along_axis(matrix, liked, chances, axis=1)
    matrix[np.arange(people), rng.integers(items, size=people)] = rng.uniform(0.4, 0.9, size=people)
    return ProbabilisticCoverage(matrix)


def favourites(people: int, items: int, rng: np.random.Generator, *, fall: float = 0.7) -> Coverage:
    """Each person likes one item; each item is liked ``fall`` times as often as the one before it."""
    checks.real("fall", fall, above=0.0, at_most=1.0)
    chances = fall ** np.arange(items, dtype=np.float64)
    return _one_item_each(rng.choice(items, size=people, p=chances / chances.sum()), items)


def near_tie(people: int, items: int, rng: np.random.Generator, *, best: int = 2) -> Coverage:
    """Each person likes one item at random; ``best`` items are likelier, by about 1 / sqrt(people x items).

    No learner can find these before the end: the regret of any learner is of the order sqrt(people).
    """
    checks.whole("best", best, at_least=1, at_most=items)
    chances = np.full(items, 1.0 / items)
    chances[rng.permutation(items)[:best]] += 1.0 / np.sqrt(people * items)
    return _one_item_each(rng.choice(items, size=people, p=chances / chances.sum()), items)


def drifting(people: int, items: int, rng: np.random.Generator, *, turns: int = 2) -> Coverage:
    """Each person likes one item, mostly a favourite that moves over all items in each of ``turns``."""
    place = np.arange(people) / people * turns * items
    liked = np.where(
        rng.random(people) < 0.6, place.astype(np.int64) % items, rng.integers(items, size=people)
    )
    return _one_item_each(liked, items)


def alternating(people: int, items: int, rng: np.random.Generator, *, block: int = 1) -> Coverage:
    """Two crowds that take turns every ``block`` rounds and like different halves of the items."""
    checks.whole("items", items, at_least=2)
    crowd = (np.arange(people) // block) % 2
    half = items // 2
    liked = rng.integers(half, size=people) * (rng.random(people) < 0.5)
    return _one_item_each(liked + crowd * half, items)


def cuts_and_prices(
    people: int, items: int, rng: np.random.Generator, *, arcs: int = 3, priced: int = 4
) -> GraphCut:
    """Costs to minimize: features that depend on each other, switched on or off for everybody.

    Each feature depends on two others, the same for everybody. For a person, ``arcs`` of these pairs, drawn
    at random, have a cost if the first feature is on without the second. A person also has a cost or gain
    from each of ``priced`` features, which varies around a common value of the feature (uniform between a
    cost of 1 and a gain of 1). Each person's weights are scaled so that their costs and gains are within 1:
    all have the same influence, and bound 1 holds.
    """
    count = checks.whole("items", items, at_least=3)
    few = checks.whole("arcs", arcs, at_least=1, at_most=2 * count)
    some = checks.whole("priced", priced, at_least=1, at_most=count)
    worth = rng.uniform(-1.0, 1.0, size=count)
    shared = np.zeros((count, count))
    for feature in range(count):
        shared[feature, rng.choice(np.delete(np.arange(count), feature), size=2, replace=False)] = 1.0
    minded = np.sort(np.argsort(rng.random((people, 2 * count)), axis=1)[:, :few], axis=1)
    weights = rng.uniform(0.0, 0.5, size=minded.shape)
    seen = np.argsort(rng.random((people, count)), axis=1)[:, :some]
    prices = np.clip(worth[seen] + rng.uniform(-0.5, 0.5, size=seen.shape), -1.0, 1.0)
    most = np.maximum(
        weights.sum(axis=1) + np.maximum(prices, 0.0).sum(axis=1), np.maximum(-prices, 0.0).sum(axis=1)
    )
    modular = np.zeros((people, count))
    np.put_along_axis(modular, seen, prices / most[:, None], axis=1)
    return _cuts(shared, minded, weights / most[:, None], modular)


def baskets(
    people: int, items: int, rng: np.random.Generator, *, recipes: int = 8, size: int = 4
) -> Coverage:
    """Baskets filled for one of several recipes; a set has value 1 for a shopper if it meets their basket.

    Recipes of ``size`` products each have decreasing frequency; a shopper takes most products of one, and one
    product at random. The products of the most frequent recipe sell best, but have small marginal gains next
    to each other: one product of each recipe serves more people.
    """
    count = checks.whole("recipes", recipes, at_least=1, at_most=items)
    own = min(checks.whole("size", size, at_least=1), max(1, items // count))
    shelves = rng.permutation(items)[: count * own].reshape(count, own)
    often = 1.0 / np.arange(1.0, count + 1.0)
    home = rng.choice(count, size=people, p=often / often.sum())
    filled = np.zeros((people, items))
    np.put_along_axis(filled, shelves[home], (rng.random((people, own)) < 0.7).astype(np.float64), axis=1)
    filled[np.arange(people), rng.integers(items, size=people)] = 1.0
    return Coverage(filled)


EVENT_OBJECTIVES = ("Coverage", "ProbabilisticCoverage")
ORDERS = ("shuffled", "given")


# Settings of a stream about its file: keywords of `Coverage.from_events`.
READING = (
    "person",
    "item",
    "weight",
    "items",
    "separator",
    "columns",
    "items_columns",
    "items_item",
    "skip_bad",
    "encoding",
)


def event_file(
    path: str | os.PathLike[str] | Sequence[str],
    rng: np.random.Generator,
    *,
    objective: str = "Coverage",
    order: str = "shuffled",
    people: int | None = None,
    **reading: Any,
) -> Population:
    """The people of a file of events (CSV, Parquet or Feather), or of several, as a stream.

    ``reading`` names the columns, as in `Coverage.from_events`: ``person`` and ``item`` at least.
    ``order="shuffled"`` puts people in random order, ``"given"`` in that of their first events; with
    ``people``, only that many are taken, from the beginning of this order.
    """
    checks.one_of("objective", objective, EVENT_OBJECTIVES)
    checks.one_of("order", order, ORDERS)
    if people is not None:
        checks.whole("people", people, at_least=1)
    everybody: Population = getattr(objectives, objective).from_events(path, **reading)
    places = rng.permutation(len(everybody)) if order == "shuffled" else np.arange(len(everybody))
    return everybody[places[:people]]


STREAMS: dict[str, Callable[..., Population]] = {
    "product display": product_display,
    "favourites": favourites,
    "near tie": near_tie,
    "drifting": drifting,
    "alternating": alternating,
    "baskets": baskets,
}


def _one_item_each(liked: NDArray[np.int64], items: int) -> Coverage:
    import scipy.sparse as sp

    count = liked.size
    return Coverage(sp.csr_array((np.ones(count), (np.arange(count), liked)), shape=(count, items)))


def _cuts(
    shared: NDArray[np.float64],
    arcs: NDArray[np.int64],
    weights: NDArray[np.float64],
    modular: NDArray[np.float64],
) -> GraphCut:
    """People with a few arcs each of a common graph, without a matrix for each person."""
    tails, heads = np.nonzero(shared)
    ends = np.arange(0, arcs.size + 1, arcs.shape[1])
    minded = Arcs(tails, heads, ends, arcs.ravel().astype(np.int32), weights.ravel(), modular)
    return GraphCut.from_arcs(shared.shape[0], minded, bound=1.0)
