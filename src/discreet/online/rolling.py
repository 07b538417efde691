"""Rolling selection: people vote until one of their items is picked, on stationary or drifting streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..objectives.fixed_point import step
from ..objectives.rows import Rows
from ..privacy import Account, Event, Gate, LaplaceNoise, Seed, Share
from ..privacy.accountant import BY_ROUNDS, Spending
from ..privacy.picks import SampledScores, sampled
from .learner import OnlineSelector, SelectorSettings, common_settings, tightened
from .released import Estimates, Released
from .window import Window

_MOST = (1 << 36) - 1  # people whose sums are exact
_LONGEST = 1 << 53
# Rules for credits, votes and windows. Chosen, with the rules of `Votes`, on a prototype and ten streams;
# docs/benchmarks.md reports later tests.
_FADE = 0.9  # the fraction of a vote, and of a credit, that is kept from one window to the next
_FAINTEST = 0.05  # votes below this weight are deleted
_SURPRISE = 2.5  # standard deviations by which votes must fall short of credits before these are forgotten
_FORGET = 0.1  # the least fraction of credits that is then kept
_DOUBTED = 0.3  # the fraction of a score that becomes credit if noise may explain the score
_CLEAR = 1.5  # windows are sized so that scores exceed the noise level by this multiple of it


@dataclass(frozen=True, kw_only=True)
class RollingSettings(SelectorSettings):
    """Settings of `RollingSelector`."""

    first_window: int
    rate: float
    keep: int | None = None
    event: Event

    @classmethod
    def tight(
        cls, n_items: int, k: int, share: Share, *, rounds: int | None = None, **options: Any
    ) -> RollingSettings:
        """Settings for the options of a `RollingSelector`, with the highest rate that fits.

        The first window is as long as that of a `PhasedSelector` at this rate.

        >>> import discreet as dc
        >>> RollingSettings.tight(285, 5, dc.Budget(1.0).share()).first_window
        59
        """
        first = options.pop("first_window", None)
        common = common_settings(n_items, k, rounds, **options)
        size, chosen, largest = common["n_items"], common["k"], common["bound"]
        if share.private:
            picks = sampled(SampledScores(share.epsilon, largest), largest, share.neighbours)
            common |= {"rate": picks.rate, "keep": picks.keep, "event": picks.event}
            needed = math.ceil(4.0 * math.log(max(size, 2)) / (picks.temperature * largest))
        else:
            common |= {"rate": math.inf, "event": LaplaceNoise(largest, 0.0)}
            needed = 0
        if first is None:
            first = max(chosen, needed if rounds is None else min(needed, rounds // 4))
        return cls(**common, first_window=checks.whole("first_window", first, at_least=1, at_most=_LONGEST))

    @property
    def chance(self) -> float:
        """The probability that a person is learned from."""
        return 1.0 if self.keep is None else self.keep * 2.0**-64

    @property
    def noise(self) -> float:
        """The mean of the noise on a score, in units of the bound."""
        return 1.0 / (self.rate * self.bound)

    @property
    def level(self) -> float:
        """Roughly the largest score that noise alone produces, in units of the bound."""
        return math.log(self.n_items) * self.noise

    def check(self, neighbours: str) -> None:
        """Refuse settings whose scores are not paid for by ``event``."""
        if not isinstance(self.event, SampledScores) or self.keep is None:
            paid = self.keep is None and self.event == LaplaceNoise(self.bound, 0.0)
        else:
            most = sampled(self.event, self.bound, neighbours)
            paid = self.rate <= most.rate and self.keep <= (most.keep or 0) and self.event.bound == self.bound
        if not paid:
            raise ValueError(f"scores at rate={self.rate:g} are not paid for by {self.event}")


_LABEL = "items with their scores"


class Votes(Window):
    """The people in the sample who can still vote, and credits from what was released about the others.

    ``credit`` has a number for each item, in units of the bound: what is left of its noisy winning scores.
    ``known`` is roughly how many people of the sample these come from. Both are post-processing of releases.
    A vote's weight is the ``share`` of its row: 1 in the window in which the person came.
    """

    _state = ("credit", "known")
    unit: float

    def __init__(self, settings: RollingSettings, gate: Gate) -> None:
        settings.check(gate.budget.neighbours)
        self.release = gate.reserve(settings.event, draws=BY_ROUNDS, label=_LABEL)
        sample = None if settings.keep is None else (self.release, settings.keep)
        super().__init__(settings.n_items, settings.bound, sample=sample)
        self.settings, self.unit = settings, step(settings.bound, _MOST)
        self.credit, self.known = np.zeros(settings.n_items), 0.0

    def draw(self, number: int, active: NDArray[np.bool_]) -> NDArray[np.int32] | None:
        """The set learned from the window that closes, None at first; opens a new window."""
        chosen, length = None, self.settings.first_window
        if self.length and np.count_nonzero(active) > self.settings.k:
            self.served += 1  # first, as credits are scores that were released
            chosen, length = self._learned(number, active.copy())
        elif self.length:  # all active items are shown: nothing to choose or release
            chosen, length = np.flatnonzero(active).astype(np.int32), self.length
        self.opens, self.length = number, length
        return chosen

    def _learned(self, number: int, left: NDArray[np.bool_]) -> tuple[NDArray[np.int32], int]:
        """Draw the next set from the votes, and keep the votes that are unspent."""
        # People who are not rows cannot be saved: they vote once.
        voters = self.rows()
        gains = self.close(voters)  # first, so that after an interruption nobody votes again
        credit = np.floor(self.credit * (self.bound / self.unit)).astype(np.int64)
        scores = np.empty(self.settings.k)
        for pick in range(scores.size):
            candidates = np.flatnonzero(left)
            votes = np.rint(gains.scores()[candidates] / self.unit).astype(np.int64)
            place, score = self.largest(votes + credit[candidates])
            scores[pick] = score / self.bound
            left[candidates[place]] = False
            gains.add(int(candidates[place]))
        chosen = np.array(gains.items, dtype=np.int32)
        trusted, length = self._remember(chosen, scores, number)
        for rows in voters:
            self.keep_rows(self._unspent(rows, chosen, trusted))
        return chosen, length

    def largest(self, scores: NDArray[np.int64]) -> tuple[int, float]:
        """The place of the largest noisy score, and that score."""
        if math.isinf(self.settings.rate):
            place = int(scores.argmax())
            return place, float(scores[place]) * self.unit
        return self.release.noisy_maximum(scores, self.unit, self.settings.rate)

    def _remember(
        self, chosen: NDArray[np.int32], scores: NDArray[np.float64], number: int
    ) -> tuple[float, int]:
        """Update credits from what was released; returns how far the past is trusted, and the next length.

        This is post-processing: it does not use anybody's votes.
        """
        settings, came = self.settings, self.settings.chance * self.length
        noise, level, old = settings.noise, settings.level, self.credit[chosen]
        trusted, held = 1.0, old > level
        if held.any():
            said = came / self.known * old[held].sum()
            found = (scores - old - noise)[held].sum()
            spread = (said + np.count_nonzero(held) * noise**2) * (1.0 + came / self.known)
            if said - found > _SURPRISE * math.sqrt(spread):
                trusted = max(float(found / said), _FORGET)
        fresh = scores - (1.0 - trusted) * old - noise
        doubted = np.maximum(trusted * old, _DOUBTED * fresh)
        self.credit *= trusted
        self.credit[chosen] = np.where(fresh > level + 3.0 * noise, fresh, doubted)
        self.credit *= _FADE
        self.known = _FADE * (trusted * self.known + came)
        clear = np.maximum(scores - level, 0.0).sum()
        wanted = _CLEAR * settings.k * level * self.length / clear if clear else math.inf
        length = min(2.0 * self.length, max(wanted, 2.0 * math.sqrt(number)))
        return trusted, max(settings.first_window, math.ceil(min(length, _LONGEST)))

    def _unspent(self, rows: Rows, chosen: NDArray[np.int32], trusted: float) -> Rows:
        """People with none of the chosen items, with their weights for the next window."""
        taken = np.zeros(self.n_items, dtype=np.bool_)
        taken[chosen] = True
        spent = np.zeros(rows.n_rows, dtype=np.bool_)
        spent[rows.sparse.row_of[taken[rows.sparse.indices]]] = True
        weights = rows.share * np.where(rows.share < 1.0, _FADE * trusted, _FADE)
        kept = np.flatnonzero(~spent & (weights >= _FAINTEST))
        return replace(rows.take(kept), share=weights[kept])

    def estimates(self) -> Estimates:
        """Estimates of the average gain of each item with a credit, and how many people they cover."""
        if not self.known:
            return None, 0, None
        values = np.where(self.credit > 0.0, self.credit * (self.bound / self.known), np.nan)
        return values, int(self.known / self.settings.chance), None

    def warm(self, start: Released) -> None:
        """Start with credits for the items of another learner's last set."""
        if start.values is not None and start.people:
            items, people = list(start.items), self.settings.chance * start.people
            worth = np.clip(np.nan_to_num(start.values[items]) / self.bound, 0.0, 1.0)
            self.credit[items], self.known = people * worth, float(people)

    def grown(self, settings: RollingSettings, number: int) -> None:
        super().grown(settings, number)
        self.credit = np.concatenate((self.credit, np.zeros(settings.n_items - self.credit.size)))
        self.settings = settings

    def _resumed(self) -> None:
        good = np.isfinite(self.credit).all() and self.credit.min(initial=0.0) >= 0.0 <= self.known
        if not good or not math.isfinite(self.known):
            raise ValueError("credits are not what scores leave behind")


class RollingSelector(OnlineSelector):
    """People keep their vote until one of their items is picked, or until it has faded.

    When a person comes, a secret draw decides once whether they are learned from at all. People who are kept
    vote in the next release, and in every later one as long as none of the picked items adds anything for
    them: until then they have spent nothing. A release picks k items one after the other, each by credit,
    votes and noise: the largest noisy score wins, and item and score are released. Scores become the items'
    credit, so that items whose voters are gone can stay. When fewer votes come than credits predict, older
    credits and votes fade faster and windows between releases stay short. No horizon has to be declared.
    Before the first window closes a uniformly random set is served.

    It suits stationary and drifting streams, with pure epsilon whatever k is. People who are Python functions
    vote in one release only. A saved file contains the people with a vote unencrypted, row by row.
    ``first_window`` is the number of rounds of the first window (by default as `RollingSettings.tight`
    computes it); no later one is shorter.

    Formal guarantee: pure epsilon for any stream, also one that reacts to what is served. For a person in the
    sample, their contributions to all items that are ever picked add up to at most ``bound``: in the first
    release in which a picked item adds anything for them their gains add up to at most that, before it their
    contributions to picked items are 0, and after it they are gone. With them any run, of items and scores,
    is at most exp(rate x bound) times as likely as without them (`samplers.noisy_maximum`), and sampling
    does the rest (`picks.subsampled`). Weights below 1 only make contributions smaller. Credits, window
    lengths and forgetting are post-processing of released items and scores. Gains are rounded down to a
    public step before they are added up, so all this is exact, and noise is drawn exactly.

    Regret: nothing is certified. On an adversarial stream, of people who want nothing that is shown, it
    serves nobody at all; `BestOfBothSelector` has a certificate.

    ``epsilon=inf`` is greedy on the remaining votes.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 0], [1, 0, 1, 0]] * 500)
    >>> learner = RollingSelector(4, k=1, budget=dc.Budget(1.0), seed=0)
    >>> trace = learner.run(people)
    >>> learner.choose().items, trace.average > 0.9
    ((0,), True)
    """

    settings: RollingSettings
    _settings_type: ClassVar[type[RollingSettings]] = RollingSettings
    _state = ("_public", "_votes")
    _batched, _grows = False, True
    _note = "privacy holds for any stream; no regret is certified"

    def __init__(
        self,
        n_items: int,
        k: int,
        budget: Spending,
        *,
        rounds: int | None = None,
        first_window: int | None = None,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(RollingSettings, locals()))

    def _begin(self) -> None:
        self._public = self._gate.public_randomness()
        self._votes = self._window = Votes(self.settings, self._gate)

    def _draw(self) -> NDArray[np.int32]:
        active = self._active()
        chosen = self._votes.draw(self._rounds.number, active)
        if chosen is None:
            drawn = self._public.generator.choice(np.flatnonzero(active), size=self.settings.k, replace=False)
            chosen = drawn.astype(np.int32)
        return chosen

    def _estimates(self) -> Estimates:
        return self._votes.estimates()

    def _start(self, start: Released) -> None:
        super()._start(start)
        self._votes.warm(start)

    def _ranking(self) -> NDArray[np.float64]:
        return self._votes.credit + 1e-9 * super()._ranking()

    def _spent(self) -> Account:
        return self._account((self._votes.release.entry, min(1, self._votes.served)))
