"""Values of sets and of slots as beliefs about items, and the sets that these beliefs suggest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .beliefs import Beliefs
from .posterior import Floats, Independent, Joint, Posterior, root_of
from .settings import ThompsonSettings

# So many blocks show sets at random, and tell how large values are. The other constants are in units of that
# mean value per item: deviations of what items are worth before anything is known, and (spread) the share of
# what is not known by which drawn weights deviate from the mean. All of them were settled on eshop_clicks and
# on made-up streams (product display, baskets, favourites); benchmarks/bandit.py says what was looked at.
WARM_UP = 8
_OWN, _COMMON = 1.5, 1.0
_SLOT_START, _SLOT = 4.0, 8.0  # high, so that every item is shown before most is known
_SPREAD_TOGETHER, _SPREAD_ALONE, _SPREAD_SLOT = 0.4, 0.5, 0.15


class ItemValues(Beliefs):
    """What is believed of every item, from released averages of blocks in units of the bound."""

    def __init__(self, settings: ThompsonSettings) -> None:
        self._settings = settings
        shape = (settings.k, np.int32, settings.n_items - 1, settings.width)
        super().__init__(WARM_UP, *shape, settings.n_items, settings.together)
        self._own = self._error = 0.0

    # --- learning --------------------------------------------------------------------------------

    def _begin(self, values: Floats) -> Posterior:
        self._own, self._error = self._scales(values)
        if self._together:
            common = _COMMON / _OWN * self._own
            return Joint(np.zeros(self._size), root_of(self._own, common, self._size))
        start = _SLOT_START / _SLOT * self._own if self._settings.feedback == "slots" else 0.0
        return Independent(np.full(self._size, start), np.full(self._size, self._own**2))

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
        own = _OWN if self._together else math.hypot(_OWN, _COMMON)
        return own * mean / settings.k, error

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats) -> None:
        items = shown.astype(np.int64)
        if self._settings.feedback == "slots":
            assert isinstance(posterior, Independent)
            posterior.observe_each(items, values, self._error)
        else:
            posterior.observe(items, float(values[0]), self._error)
        if self._settings.forget:
            assert isinstance(posterior, Independent)
            posterior.widen(self._settings.forget * self._own**2, self._own**2)

    # --- sets ------------------------------------------------------------------------------------

    def suggest(self, generator: np.random.Generator) -> NDArray[np.int32]:
        """A set to show: at random at first, then the best one for weights drawn from the posterior."""
        size, k = self._settings.n_items, self._settings.k
        if self._posterior is None:
            return generator.choice(size, size=k, replace=False).astype(np.int32)
        spread = _SPREAD_TOGETHER if self._together else _SPREAD_ALONE
        weights = self._posterior.draw(
            generator, _SPREAD_SLOT if self._settings.feedback == "slots" else spread
        )
        top = np.argpartition(-weights, k - 1)[:k] if k < size else np.arange(size)
        return top[np.argsort(-weights[top], kind="stable")].astype(np.int32)
