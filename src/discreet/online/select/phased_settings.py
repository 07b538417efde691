"""Settings of phased selection: the lengths of the windows, the picks, and what they certify."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import bounds
from ...core import checks
from ...core.settings import flag, of, real, whole
from ...privacy import Event, ExponentialChoice, LaplaceNoise, Share
from .selector import SelectorSettings, common_settings, rate_within, score_range

LONGEST = 1 << 53


def _window(value: Any) -> int | str:
    if isinstance(value, str):
        return checks.one_of("window", value, ("doubling",))
    return checks.whole("window", value, at_least=1, at_most=LONGEST)


@dataclass(frozen=True, kw_only=True)
class PhasedSettings(SelectorSettings):
    """What a `PhasedSelector` goes by."""

    window: int | str = of(_window)
    first_window: int = whole(at_least=1, at_most=LONGEST)
    restart_on_drift: bool = flag()
    rate: float = real(above=0.0, infinite=True)

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        share: Share,
        *,
        rounds: int | None = None,
        window: int | str = "doubling",
        first_window: int | None = None,
        restart_on_drift: bool = False,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> PhasedSettings:
        """The settings for what is asked, with the highest rate of picks that fits into ``share``.

        How many people make the first window is public, by what a pick can tell apart. A pick falls short of
        the best sum of gains by at most ln(n) / rate on average. In four times as many people it can tell an
        item that a quarter of them want from one that nobody does. Fewer say little, and more keep a random
        set on show for longer.

        >>> import discreet as dc
        >>> PhasedSettings.tight(285, 5, dc.Budget(1.0, 1e-6).share()).first_window
        227
        >>> PhasedSettings.tight(285, 5, dc.Budget(float("inf")).share()).first_window
        5
        """
        common = common_settings(n_items, k, rounds, bound, labels)
        length = _window(window)
        size, chosen, largest = common["n_items"], common["k"], common["bound"]
        picks = max(1, min(chosen, size - 1))
        rate = rate_within(share, score_range(largest, share.neighbours), picks, math.inf)
        if isinstance(length, int):
            if first_window is not None or restart_on_drift:
                raise ValueError(
                    f"window={length} is fixed; first_window and restart_on_drift need 'doubling'"
                )
            first = length
        elif first_window is not None:
            first = checks.whole("first_window", first_window, at_least=1, at_most=LONGEST)
        else:
            first = max(chosen, math.ceil(4.0 * math.log(max(size, 2)) / (rate * largest)))
        drift = bool(restart_on_drift)
        return cls(**common, window=length, first_window=first, restart_on_drift=drift, rate=rate)

    @property
    def releases(self) -> int:
        """Picks of a window that depend on anybody: the last of all items is no choice."""
        return min(self.k, self.n_items - 1)

    def event(self, neighbours: str) -> Event:
        """One pick; without privacy the best item itself."""
        width = score_range(self.bound, neighbours)
        return LaplaceNoise(width, 0.0) if math.isinf(self.rate) else ExponentialChoice(self.rate, width)

    def certified_regret_after(self, rounds: int, *, clipped: bool = True) -> float:
        """Bound on the expected (1 - 1/e)-regret over ``rounds`` rounds of an exchangeable stream.

        `bounds.phased`; with ``restart_on_drift`` only the trivial bound is known.
        """
        checks.whole("rounds", rounds, at_least=1)
        if self.restart_on_drift:
            return bounds.trivial(rounds, self.bound)
        growth = 1 if isinstance(self.window, int) else 2
        shape = (self.n_items, self.k, rounds, self.rate, self.first_window)
        return bounds.phased(*shape, growth=growth, bound=self.bound, clipped=clipped)

    @property
    def certified_regret(self) -> float:
        """The same over the declared rounds; infinite where none are, as it grows with their number."""
        return math.inf if self.rounds is None else self.certified_regret_after(self.rounds)
