"""Settings of phased selection: the lengths of the windows, the picks, and what they certify."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import bounds
from ...core import checks
from ...core.settings import flag, of, one_of, real, whole
from ...privacy import Event, ExactChoices, ExponentialChoice, LaplaceNoise, PureRelease, Share
from ...privacy.picks import Picks, exactly, sampled, subsampled
from .selector import SelectorSettings, common_settings, rate_within, score_range

LONGEST = 1 << 53
METHODS = ("composed", "exact", "subsampled")


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
    method: str = one_of(METHODS)
    rate: float = real(above=0.0, infinite=True)
    keep: int | None = whole(at_least=0, at_most=(1 << 64) - 1, optional=True)
    event: Event = of(Event.from_json, Event.to_json)

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
        method: str = "auto",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> PhasedSettings:
        """The settings for what is asked, with the highest rate of picks that fits into ``share``.

        How many people make the first window is public, by what a pick can tell apart. A pick falls short of
        the best sum of gains by at most ln(n) / temperature on average. In four times as many people it can
        tell an item that a quarter of them want from one that nobody does. Fewer say little, and more keep a
        random set on show for longer. Of a declared number of rounds it takes a quarter at most.

        >>> import discreet as dc
        >>> PhasedSettings.tight(285, 5, dc.Budget(1.0, 1e-6).share()).first_window
        59
        >>> PhasedSettings.tight(285, 5, dc.Budget(float("inf")).share()).first_window
        5
        """
        common = common_settings(n_items, k, rounds, bound, labels)
        length = _window(window)
        size, chosen, largest = common["n_items"], common["k"], common["bound"]
        checks.one_of("method", method, ("auto", *METHODS))
        picks = _picks(share, largest, max(1, min(chosen, size - 1)), method)
        if isinstance(length, int):
            if first_window is not None or restart_on_drift:
                raise ValueError(
                    f"window={length} is fixed; first_window and restart_on_drift need 'doubling'"
                )
            first = length
        elif first_window is not None:
            first = checks.whole("first_window", first_window, at_least=1, at_most=LONGEST)
        else:
            first = math.ceil(4.0 * math.log(max(size, 2)) / (picks.temperature * largest))
            first = max(chosen, first if rounds is None else min(first, rounds // 4))
        common |= {"window": length, "first_window": first, "restart_on_drift": bool(restart_on_drift)}
        return cls(**common, method=picks.method, rate=picks.rate, keep=picks.keep, event=picks.event)

    @property
    def releases(self) -> int:
        """How many times a window is charged: for all picks together, or for those that are a choice."""
        return min(self.k if self.method == "composed" else 1, self.n_items - 1)

    @property
    def chance(self) -> float:
        """How likely somebody is learned from."""
        return 1.0 if self.keep is None else self.keep * 2.0**-64

    def check(self, neighbours: str) -> None:
        """Refuse picks that ``event`` does not pay for."""
        if self.method == "composed":
            paid = self.keep is None and self.event == _composed_event(self.rate, self.bound, neighbours)
        elif self.method == "exact":
            paid = (
                self.keep is None
                and isinstance(self.event, ExactChoices)
                and self.event.number >= min(self.k, self.n_items - 1)
                and (self.event.rate, self.event.range) == (self.rate, score_range(self.bound, neighbours))
            )
        elif isinstance(self.event, PureRelease) and self.keep is not None:
            most = sampled(self.event, self.bound, neighbours)
            paid = self.rate <= most.rate and self.keep <= (most.keep or 0)
            paid = paid and getattr(self.event, "bound", self.bound) == self.bound
        else:
            paid = False
        if not paid:
            raise ValueError(f"picks at rate={self.rate:g} are not paid for by {self.event}")

    def certified_regret_after(self, rounds: int, *, clipped: bool = True) -> float:
        """Bound on the expected (1 - 1/e)-regret over ``rounds`` rounds of an exchangeable stream.

        `bounds.phased`; with ``restart_on_drift`` only the trivial bound is known.
        """
        checks.whole("rounds", rounds, at_least=1)
        if self.restart_on_drift:
            return bounds.trivial(rounds, self.bound)
        growth = 1 if isinstance(self.window, int) else 2
        shape = (self.n_items, self.k, rounds, self.rate, self.first_window)
        return bounds.phased(*shape, growth=growth, chance=self.chance, bound=self.bound, clipped=clipped)

    @property
    def certified_regret(self) -> float:
        """The same over the declared rounds; infinite where none are, as it grows with their number."""
        return math.inf if self.rounds is None else self.certified_regret_after(self.rounds)


def _picks(share: Share, bound: float, count: int, method: str) -> Picks:
    """The picks of a window; of two accounts the one at which people's gains enter with the larger rate."""
    width = score_range(bound, share.neighbours)
    if method == "exact" and share.private:
        return exactly(share, width, count)
    rate = rate_within(share, width, count, math.inf)
    composed = Picks("composed", rate, _composed_event(rate, bound, share.neighbours), count)
    if method == "composed" or not share.private:
        return composed
    on_sample = subsampled(share, bound)
    if method == "subsampled":
        return on_sample
    return max(composed, on_sample, key=lambda one: one.temperature)


def _composed_event(rate: float, bound: float, neighbours: str) -> Event:
    """One pick of many; without privacy the best item itself."""
    width = score_range(bound, neighbours)
    return LaplaceNoise(width, 0.0) if math.isinf(rate) else ExponentialChoice(rate, width)
