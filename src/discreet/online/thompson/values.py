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
        self._active = np.ones(settings.n_items, dtype=np.bool_)

    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Suggest sets of these items only."""
        self._active = active

    def believed(self) -> tuple[Floats, Floats] | None:
        """Mean and deviation of every item, once anything is believed; NaN where nothing was seen."""
        if self._posterior is None:
            return None
        apart = self._posterior.apart() if isinstance(self._posterior, Joint) else self._posterior
        assert isinstance(apart, Independent)
        seen = np.where(apart.variance < 0.9 * self._own**2, 1.0, np.nan)
        return apart.mean * seen, np.sqrt(apart.variance) * seen

    def start(self, means: Floats, deviations: Floats) -> None:
        """Believe this of every item, without blocks at random; NaN is an item that is new."""
        settings, known = self._settings, np.isfinite(means) & np.isfinite(deviations)
        if np.count_nonzero(known) < settings.k:
            return
        # Of new items as much is believed as after blocks at random: by the mean of all, not by the best,
        # beside which every new one would look worth trying. Of sets, unknown items were believed to add 0.
        slots = settings.feedback == "slots"
        typical = float(means[known].mean() if slots else means[known].sum() / known.size * settings.k)
        shown = np.flatnonzero(known)[: settings.k].astype(np.int32)
        worth = np.full(settings.width, typical)
        self._shown, self._values = [shown] * WARM_UP, [worth] * WARM_UP
        begun = self._begin(np.array(self._values))
        if isinstance(begun, Joint):
            begun.root = np.diag(np.where(known, deviations, self._own)).astype(np.float32)
        else:
            assert isinstance(begun, Independent)
            begun.variance = np.where(known, deviations**2, begun.variance)
        begun.mean = np.where(known, means, begun.mean)
        self._posterior = begun

    def grow(self, settings: ThompsonSettings) -> None:
        """Believe of new items what was believed of all before anything was known."""
        more = settings.n_items - self._settings.n_items
        if self._posterior is not None:
            if isinstance(self._posterior, Joint) and not settings.together:
                self._posterior = self._posterior.apart()
            start = _SLOT_START / _SLOT * self._own if settings.feedback == "slots" else 0.0
            self._posterior.grow(more, start, self._own)
        self._settings = settings
        self._size, self._largest, self._together = settings.n_items, settings.n_items - 1, settings.together

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

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        items, error = shown.astype(np.int64), self._error / part
        if self._settings.feedback == "slots":
            assert isinstance(posterior, Independent)
            posterior.observe_each(items, values, error)
        else:
            posterior.observe(items, float(values[0]), error)
        if self._settings.forget:
            assert isinstance(posterior, Independent)
            posterior.widen(self._settings.forget * self._own**2, self._own**2)

    # --- sets ------------------------------------------------------------------------------------

    def suggest(self, generator: np.random.Generator) -> NDArray[np.int32]:
        """A set to show: at random at first, then the best one for weights drawn from the posterior."""
        size, k, all_active = self._settings.n_items, self._settings.k, bool(self._active.all())
        if self._posterior is None:
            among = size if all_active else np.flatnonzero(self._active)
            return generator.choice(among, size=k, replace=False).astype(np.int32)
        spread = _SPREAD_TOGETHER if self._together else _SPREAD_ALONE
        weights = self._posterior.draw(
            generator, _SPREAD_SLOT if self._settings.feedback == "slots" else spread
        )
        if not all_active:
            weights[~self._active] = -np.inf
        top = np.argpartition(-weights, k - 1)[:k] if k < size else np.arange(size)
        return top[np.argsort(-weights[top], kind="stable")].astype(np.int32)
