"""Phased selection: learn from one window of people and serve the next, for streams that do not drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..core import checks
from ..core.options import Doubling, PhasedMethod
from ..objectives.fixed_point import FixedPointGains
from ..privacy import (
    Account,
    Event,
    ExactChoices,
    ExponentialChoice,
    LaplaceNoise,
    PureRelease,
    Seed,
    Share,
)
from ..privacy.accountant import Spending
from ..privacy.picks import Picks, exactly, sampled, subsampled
from .learner import (
    OnlineSelector,
    SelectorSettings,
    common_settings,
    rate_within,
    score_range,
    tightened,
)
from .released import Released
from .window import Window

LONGEST = 1 << 53
METHODS = ("composed", "exact", "subsampled")


@dataclass(frozen=True, kw_only=True)
class PhasedSettings(SelectorSettings):
    """Settings of `PhasedSelector`."""

    window: int | str = "doubling"
    first_window: int
    restart_on_drift: bool = False
    method: str
    rate: float
    keep: int | None = None
    event: Event

    @classmethod
    def tight(
        cls, n_items: int, k: int, share: Share, *, rounds: int | None = None, **options: Any
    ) -> PhasedSettings:
        """Settings for the options of a `PhasedSelector`, with the highest rate of picks that fits.

        The length of the first window is public and follows from the accuracy of a pick, which falls short of
        the best sum of gains by at most ln(n) / temperature on average. With four times that many people a
        pick can distinguish an item that a quarter of them want from one that nobody wants. Shorter windows
        say little, longer ones show a random set for longer. It is at most a quarter of the declared rounds.

        >>> import discreet as dc
        >>> PhasedSettings.tight(285, 5, dc.Budget(1.0, 1e-6).share()).first_window
        59
        >>> PhasedSettings.tight(285, 5, dc.Budget(float("inf")).share()).first_window
        5
        """
        window, first = options.pop("window", "doubling"), options.pop("first_window", None)
        method = checks.one_of("method", options.pop("method", "auto"), ("auto", *METHODS))
        common = common_settings(n_items, k, rounds, **options)
        size, chosen, largest = common["n_items"], common["k"], common["bound"]
        picks = _picks(share, largest, max(1, min(chosen, size - 1)), method)
        if not isinstance(window, str):
            if first is not None or options.get("restart_on_drift"):
                raise ValueError(
                    f"window={window} is fixed; first_window and restart_on_drift need 'doubling'"
                )
            window = first = checks.whole("window", window, at_least=1, at_most=LONGEST)
        elif first is not None:
            first = checks.whole("first_window", first, at_least=1, at_most=LONGEST)
        else:
            first = math.ceil(4.0 * math.log(max(size, 2)) / (picks.temperature * largest))
            first = max(chosen, first if rounds is None else min(first, rounds // 4))
        checks.one_of("window", window if isinstance(window, str) else "doubling", ("doubling",))
        common |= {"method": picks.method, "rate": picks.rate, "keep": picks.keep, "event": picks.event}
        return cls(**common, window=window, first_window=first)

    @property
    def releases(self) -> int:
        """How many times a window is charged: once per pick with a choice if composed, else once for all."""
        return min(self.k if self.method == "composed" else 1, self.n_items - 1)

    @property
    def chance(self) -> float:
        """The probability that a person is learned from."""
        return 1.0 if self.keep is None else self.keep * 2.0**-64

    def check(self, neighbours: str) -> None:
        """Refuse settings whose picks are not paid for by ``event``."""
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

    def next_length(self, length: int, drifted: bool) -> int:
        """The length of the window after one of this ``length``, in rounds."""
        if isinstance(self.window, int):
            return self.window
        return self.first_window if self.restart_on_drift and drifted else 2 * length

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
        """`certified_regret_after` the declared rounds; infinite without a horizon, with which it grows."""
        return math.inf if self.rounds is None else self.certified_regret_after(self.rounds)


def _picks(share: Share, bound: float, count: int, method: str) -> Picks:
    """The picks of a window; for "auto", by the method that weights people's gains with the larger rate."""
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
    """The event of one composed pick; without privacy, an event without noise."""
    width = score_range(bound, neighbours)
    return LaplaceNoise(width, 0.0) if math.isinf(rate) else ExponentialChoice(rate, width)


_LABEL = "picks of a window"


class PhasedSelector(OnlineSelector):
    """Private greedy on disjoint windows of the stream; each set is served during the next window.

    The people of a window are stored until it closes (a saved file contains them unencrypted, row by row;
    people who are Python functions cannot be saved). Then k items are picked one after the other, each by the
    sum of its marginal gains given those already picked. No horizon has to be declared. Before the first
    window closes a uniformly random set is served.

    ``method`` says how the picks are paid for (`privacy.picks`):

    - ``"subsampled"``: when a person comes, a secret draw decides whether the window stores them at all;
      picks are by permute-and-flip. Pure epsilon, whatever k is, and the others are not even stored.
    - ``"composed"``: picks of the exponential mechanism on everybody, composed: better for very few picks.
    - ``"exact"``: the same, declared together and charged by their exact composition (`ExactChoices`), at a
      rate some 10 % higher; needs an undivided budget with a delta, and one round per person.
    - ``"auto"``: of the first two, the one that weights people's gains with the larger rate on average.

    ``window`` is the number of rounds of every window, or ``"doubling"``: each is twice as long as the one
    before, starting with ``first_window`` (by default the length that `PhasedSettings.tight` computes).
    ``restart_on_drift`` restarts the doubling when a set that had settled changes: a newly picked set has
    fewer than half of its items in common with the served one, although that one had not differed this much
    from the set before it. This uses only the sets that are served, so it costs nothing.

    Formal guarantee: privacy for any stream, also one that reacts to what is served. A window is a range of
    round numbers, so nobody's round is in two of them and the budget is charged once (parallel composition).
    Composed: k exponential choices, between whose scores one person moves differences by up to 2 ``bound``
    (replace-one) or ``bound`` (add or remove, where a removed person's round passes without being learned
    from). Subsampled: one release with pure epsilon, for people whose gains add up, over the picks, to at
    most ``bound``; whatever a function returns is limited to that. Gains are rounded down to a public step
    before they are added up, so all this is exact, and choices are drawn exactly.

    Regret: only for exchangeable streams (independent people, or people in random order), see
    `certified_regret_after`. On a stream that drifts a set can be outdated for an entire window.

    ``epsilon=inf`` is plain greedy on each window. Asi, Feldman, Koren and Talwar (2023) use such windows for
    independent losses; the picks are those of Gupta et al. (2010) and Mitrovic et al. (2017).

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 0], [1, 0, 1, 0]] * 500)
    >>> learner = PhasedSelector(4, k=1, budget=dc.Budget(1.0), seed=0)
    >>> trace = learner.run(people)
    >>> learner.choose().items, trace.average > 0.9
    ((0,), True)
    """

    settings: PhasedSettings
    _settings_type: ClassVar[type[PhasedSettings]] = PhasedSettings
    _window: Window
    _state = ("_public", "_window")
    _note = "privacy holds for any stream; the regret guarantee only for exchangeable ones"

    def __init__(
        self,
        n_items: int,
        k: int,
        budget: Spending,
        *,
        rounds: int | None = None,
        window: int | Doubling = "doubling",
        first_window: int | None = None,
        restart_on_drift: bool = False,
        method: PhasedMethod = "auto",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(PhasedSettings, locals()))

    # --- for users -------------------------------------------------------------------------------

    def certified_regret_after(self, rounds: int) -> float:
        """Bound on the expected (1 - 1/e)-regret over the first ``rounds`` rounds of an exchangeable stream.

        `bounds.phased`; with ``restart_on_drift`` only the trivial bound is known.
        """
        return math.inf if self._catalogue.changed else self.settings.certified_regret_after(rounds)

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self.settings
        self._public = self._gate.public_randomness()
        settings.check(self.budget.neighbours)
        self._release = self._gate.reserve(settings.event, settings.releases, disjoint=True, label=_LABEL)
        sample = None if settings.keep is None else (self._release, settings.keep)
        self._window = Window(settings.n_items, settings.bound, sample=sample)

    def _draw(self) -> NDArray[np.int32]:
        """The set learned from the window that closes, at first a random one; opens a new window."""
        settings, window, length = self.settings, self._window, self.settings.first_window
        if self._rounds.shown is None:
            among = settings.n_items if self._catalogue.active is None else np.flatnonzero(self._active())
            drawn = self._public.generator.choice(among, size=settings.k, replace=False)
            chosen = drawn.astype(np.int32)
        else:
            chosen = self._learned(window.close())
            agrees = 2 * np.intersect1d(chosen, self._shown).size >= settings.k
            length = settings.next_length(window.length, drifted=window.agreed and not agrees)
            window.agreed = agrees
            window.served += 1
        window.opens, window.length = self._rounds.number, length
        return chosen

    def _learned(self, gains: FixedPointGains) -> NDArray[np.int32]:
        """Draw a set from the gains of the closed window, item by item."""
        left = self._active()
        for _ in range(self.settings.k):
            candidates = np.flatnonzero(left)
            scores = gains.scores()[candidates]
            if candidates.size == 1:
                place = 0
            elif math.isinf(self.settings.rate):
                place = int(np.argmax(scores))
            elif self.settings.keep is None:
                place = self._release.choice(scores)
            else:
                place = self._release.permute_and_flip(scores, self.settings.rate)
            item = int(candidates[place])
            gains.add(item)
            left[item] = False
        return np.array(gains.items, dtype=np.int32)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> PhasedSettings:
        settings = replace(self.settings, n_items=n_items, labels=labels)
        if settings.releases > self.settings.releases:
            raise ValueError(
                f"{self.settings.releases} picks of a window were paid for, and {n_items} items need more:"
                " make a new learner, with start= this one"
            )
        settings.check(self.budget.neighbours)  # an event of exact composition fixes the number of picks
        return settings

    def _spent(self) -> Account:
        return self._account((self._release.entry, self.settings.releases if self._window.served else 0))
