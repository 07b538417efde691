"""Values of sets and of slots as beliefs about items, and the sets that these beliefs suggest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from .posterior import Features, Floats, Independent, Joint, Pairs, Posterior, root_of
from .settings import ThompsonSettings

# So many blocks show sets at random, and tell how large values are. The other constants are in units of that
# mean value per item: deviations of what items are worth before anything is known, and (spread) the share of
# what is not known by which drawn weights deviate from the mean. All of them were settled on made-up streams
# and eshop_clicks, and confirmed on msweb.
WARM_UP = 8
_OWN, _COMMON, _PAIR = 1.5, 1.0, 0.4
_SLOT = 2.0
_SPREAD = {"pairs": 0.4, "together": 0.4, "alone": 0.5}
_SLOT_SPREAD = 0.3


class ItemValues:
    """What is believed of every item, from released averages of blocks in units of the bound."""

    def __init__(self, settings: ThompsonSettings) -> None:
        self._settings = settings
        self._pairs = Pairs(settings.n_items, settings.n_items) if settings.belief == "pairs" else None
        self._shown: list[NDArray[np.int32]] = []
        self._values: list[Floats] = []
        self._posterior: Posterior | None = None
        self._own = self._error = 0.0

    # --- learning --------------------------------------------------------------------------------

    def observe(self, items: NDArray[np.int32], values: Floats) -> None:
        """The released averages of a block that showed these items."""
        if self._posterior is None:
            self._shown.append(items)
            self._values.append(values)
            if len(self._shown) < WARM_UP:
                return
            self._begin()
            for shown, known in zip(self._shown, self._values, strict=True):
                self._learn(shown, known)
            return
        self._learn(items, values)

    def _begin(self) -> None:
        """The belief before anything is known, by how large released averages are."""
        settings = self._settings
        size = settings.n_items
        self._own, self._error = self._scales(np.array(self._values))
        if settings.belief == "alone":
            start = self._own / _SLOT if settings.feedback == "slots" else 0.0
            self._posterior = Independent(np.full(size, start), np.full(size, self._own**2))
            return
        mean = self._own / _OWN
        features = size + (0 if self._pairs is None else self._pairs.count)
        root = np.zeros((features, features))
        root[:size, :size] = root_of(self._own, _COMMON * mean, size)
        pairs = np.arange(size, features)
        root[pairs, pairs] = _PAIR * mean
        self._posterior = Joint(np.zeros(features), root)

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

    def _learn(self, items: NDArray[np.int32], values: Floats) -> None:
        posterior, shown = self._posterior, items.astype(np.int64)
        assert posterior is not None
        if self._settings.feedback == "slots":
            assert isinstance(posterior, Independent)
            posterior.observe_each(shown, values, self._error)
        else:
            posterior.observe(self._features(shown), float(values[0]), self._error)
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

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`: released values, and what follows from them."""
        settings, count = self._settings, len(self._shown)
        arrays: dict[str, NDArray[Any]] = {
            "shown": np.array(self._shown, dtype=np.int32).reshape(count, settings.k),
            "values": np.array(self._values).reshape(count, settings.width),
        }
        if self._posterior is not None:
            arrays |= self._posterior.state()[1]
        return {"begun": self._posterior is not None}, arrays

    def resume(self, saved: Saved) -> None:
        """Go on with what was believed."""
        settings = self._settings
        begun = saved.flag("begun")
        values = saved.array("values", (None, settings.width))
        if values.shape[0] != WARM_UP if begun else values.shape[0] >= WARM_UP:
            raise ValueError(f"the array values has {values.shape[0]} blocks; {WARM_UP} are kept")
        shape, largest = (values.shape[0], settings.k), settings.n_items - 1
        shown = saved.array("shown", shape, np.int32, at_least=0, at_most=largest)
        self._shown, self._values = list(shown), list(values)
        if begun:
            self._own, self._error = self._scales(values)
            size = settings.n_items + (0 if self._pairs is None else self._pairs.count)
            kind = Independent if settings.belief == "alone" else Joint
            self._posterior = kind.resumed(saved, size)


def _greedy(gains: Floats, pairs: Floats, k: int) -> NDArray[np.int32]:
    """k items one after the other, each the one that adds most by its weight and those of its pairs."""
    chosen = np.empty(k, dtype=np.int32)
    for place in range(k):
        item = int(np.argmax(gains))
        chosen[place] = item
        gains += pairs[item]
        gains[chosen[: place + 1]] = -np.inf
    return chosen
