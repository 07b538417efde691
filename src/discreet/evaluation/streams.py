"""Made-up streams of people: stationary, drifting, alternating, and one that is as hard as it gets.

All are fixed before the first round (oblivious), which is what the certified regrets are about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import _checks
from ..objectives import Coverage, ProbabilisticCoverage


def product_display(
    people: int, items: int, rng: np.random.Generator, *, clusters: int = 6, taken: int = 6
) -> ProbabilisticCoverage:
    """Shoppers in clusters of taste, each with some probability of taking any of the products they like.

    The product display of paper 000, with clusters of falling size. A cluster has ``taken`` products of its
    own, which its shoppers mostly like; everybody also likes one product at random. The most popular products
    are all those of the largest cluster, so choosing by popularity alone leaves the others out.
    """
    groups = _checks.whole("clusters", clusters, at_least=1)
    own = _checks.whole("taken", taken, at_least=1)
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
    """Each person likes one item, the next best always ``fall`` times as often as the one before."""
    _checks.real("fall", fall, above=0.0, at_most=1.0)
    chances = fall ** np.arange(items, dtype=np.float64)
    return _one_item_each(rng.choice(items, size=people, p=chances / chances.sum()), items)


def near_tie(people: int, items: int, rng: np.random.Generator, *, best: int = 2) -> Coverage:
    """Each person likes one item at random; ``best`` of them are likelier, by a hair (1 over sqrt(people)).

    No learner can tell them apart before the end: the regret of any is of the order sqrt(people).
    """
    _checks.whole("best", best, at_least=1, at_most=items)
    chances = np.full(items, 1.0 / items)
    chances[rng.permutation(items)[:best]] += 1.0 / np.sqrt(people * items)
    return _one_item_each(rng.choice(items, size=people, p=chances / chances.sum()), items)


def drifting(people: int, items: int, rng: np.random.Generator, *, turns: int = 2) -> Coverage:
    """Each person likes one item; the favourite wanders once over all items in each of ``turns``."""
    place = np.arange(people) / people * turns * items
    liked = np.where(
        rng.random(people) < 0.6, place.astype(np.int64) % items, rng.integers(items, size=people)
    )
    return _one_item_each(liked, items)


def alternating(people: int, items: int, rng: np.random.Generator, *, block: int = 1) -> Coverage:
    """Two crowds that take turns every ``block`` rounds and like different halves of the items."""
    _checks.whole("items", items, at_least=2)
    crowd = (np.arange(people) // block) % 2
    half = items // 2
    liked = rng.integers(half, size=people) * (rng.random(people) < 0.5)
    return _one_item_each(liked + crowd * half, items)


STREAMS = {
    "product display": product_display,
    "favourites": favourites,
    "near tie": near_tie,
    "drifting": drifting,
    "alternating": alternating,
}


def _one_item_each(liked: NDArray[np.int64], items: int) -> Coverage:
    import scipy.sparse as sp

    count = liked.size
    return Coverage(sp.csr_array((np.ones(count), (np.arange(count), liked)), shape=(count, items)))
