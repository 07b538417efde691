"""Values of sets and of slots as beliefs about items, and the sets that these beliefs suggest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .beliefs import Beliefs
from .posterior import Features, Floats, Independent, Joint, Pairs, Posterior, root_of
from .settings import ThompsonSettings

# So many blocks show sets at random, and tell how large values are. The other constants are in units of that
# mean value per item: deviations of what items are worth before anything is known, and (spread) the share of
# what is not known by which drawn weights deviate from the mean. All of them were settled on eshop_clicks and
# on made-up streams (product display, baskets, favourites); msweb was kept to confirm them.
WARM_UP = 8
_OWN, _COMMON, _PAIR = 1.5, 1.0, 0.4
_SLOT_START, _SLOT = 4.0, 8.0  # high, so that every item is shown before most is known
_SPREAD = {"pairs": 0.4, "together": 0.4, "alone": 0.5}
_SLOT_SPREAD = 0.15


class ItemValues(Beliefs):
    """What is believed of every item, from released averages of blocks in units of the bound."""

    def __init__(self, settings: ThompsonSettings) -> None:
        self._settings = settings
        self._pairs = Pairs(settings.n_items, settings.n_items) if settings.belief == "pairs" else None
        size = settings.n_items + (0 if self._pairs is None else self._pairs.count)
        shape = (settings.k, np.int32, settings.n_items - 1, settings.width)
        super().__init__(WARM_UP, *shape, size, settings.belief != "alone")
        self._own = self._error = 0.0

    # --- learning --------------------------------------------------------------------------------

    def _begin(self, values: Floats) -> Posterior:
        settings = self._settings
        items = settings.n_items
        self._own, self._error = self._scales(values)
        if settings.belief == "alone":
            start = _SLOT_START / _SLOT * self._own if settings.feedback == "slots" else 0.0
            return Independent(np.full(items, start), np.full(items, self._own**2))
        mean = self._own / _OWN
        root = np.zeros((self._size, self._size))
        root[:items, :items] = root_of(self._own, _COMMON * mean, items)
        pairs = np.arange(items, self._size)
        root[pairs, pairs] = _PAIR * mean
        return Joint(np.zeros(self._size), root)

    def _scales(self, values: Floats) -> tuple[float, float]:
        """The deviation of what items are worth, and the variance of a released average.

        Averages that noise has made smaller than itself are taken to be as large as the noise.
        """
        settings = self._settings
        noise = 2.0 * (settings.scale / settings.block) ** 2
        least = math.sqrt(noise / values.size) + 0.5 / (settings.block * values.size)
        mean = min(max(float(values.mean()), least), 1.0)
        error = max(mean * (1.0 - mean), 0.25 * mean) / settings.block + noise
        if settings.feedback == "slots":
            return _SLOT * mean, error
        own = math.hypot(_OWN, _COMMON) if settings.belief == "alone" else _OWN
        return own * mean / settings.k, error

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats) -> None:
        items = shown.astype(np.int64)
        if self._settings.feedback == "slots":
            assert isinstance(posterior, Independent)
            posterior.observe_each(items, values, self._error)
        else:
            posterior.observe(self._features(items), float(values[0]), self._error)
        if self._settings.forget:
            assert isinstance(posterior, Independent)
            posterior.widen(self._settings.forget * self._own**2, self._own**2)

    def _features(self, items: Features) -> Features:
        return items if self._pairs is None else np.concatenate([items, self._pairs.of(items)])

    # --- sets ------------------------------------------------------------------------------------

    def suggest(self, generator: np.random.Generator) -> NDArray[np.int32]:
        """A set to show: at random at first, then the best one for weights drawn from the posterior."""
        size, k = self._settings.n_items, self._settings.k
        if self._posterior is None:
            return generator.choice(size, size=k, replace=False).astype(np.int32)
        spread = _SLOT_SPREAD if self._settings.feedback == "slots" else _SPREAD[self._settings.belief]
        weights = self._posterior.draw(generator, spread)
        if self._pairs is not None:
            return _greedy(weights[:size].copy(), self._pairs.matrix(weights), k)
        top = np.argpartition(-weights, k - 1)[:k] if k < size else np.arange(size)
        return top[np.argsort(-weights[top], kind="stable")].astype(np.int32)


def _greedy(gains: Floats, pairs: Floats, k: int) -> NDArray[np.int32]:
    """k items one after the other, each the one that adds most by its weight and those of its pairs."""
    chosen = np.empty(k, dtype=np.int32)
    for place in range(k):
        item = int(np.argmax(gains))
        chosen[place] = item
        gains += pairs[item]
        gains[chosen[: place + 1]] = -np.inf
    return chosen
