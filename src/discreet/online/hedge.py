"""Ordered Hedge experts: each learns what to add to the choices of the experts before it.

Every draw of an expert is one use of the exponential mechanism, and nothing else about people is released.
Scores are sums of gains in integer units, so their sensitivity is exact. Draws are exact too: compiled code
makes those that floating point decides, and the others are computed with as many digits as they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..core import checks
from ..core.options import Auto, Calibration, HedgeComposition
from ..core.text import track
from ..objectives import answers
from ..objectives.rows import Rows
from ..privacy import Account, Event, ExactChoices, ExponentialChoice, Seed, Share
from ..privacy.accountant import BY_ROUNDS, Spending
from ..privacy.conversions import exact
from ..privacy.ordered import MOST_ROUNDS, OrderedExperts, units_per_one
from .learner import (
    OnlineSelector,
    SelectorSettings,
    Stream,
    common_settings,
    rate_within,
    score_range,
    tightened,
)
from .partial import Counting, SumLayout
from .released import Released

_LABEL = "items drawn by Hedge experts"
_CHUNK_WORDS = 1 << 16
COMPOSITIONS = ("summed", "exact")
_AS_PUBLISHED = {"rate": None, "resample_every": 1, "composition": "summed"}


@dataclass(frozen=True, kw_only=True)
class HedgeSettings(SelectorSettings):
    """Settings of `HedgeSelector`."""

    rounds: int
    resample_every: int = 1
    rate: float
    delta: float | None = None  # the delta of an exact composition of all draws; None to add up their losses

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int,
        share: Share,
        *,
        composition: str = "summed",
        cautious: bool = False,
        **options: Any,
    ) -> HedgeSettings:
        """The best rate for the horizon, or the largest that ``share`` allows if that is smaller.

        A batch chosen by the user does not change the rate: learning is as fast as without one. That is
        certified only for batches up to 1 / (rate bound); ``cautious`` and ``"auto"`` use a certified rate.
        """
        rate, every = options.pop("rate", None), options.pop("resample_every", 1)
        common = common_settings(n_items, k, _horizon(rounds), **options)
        given = None if rate is None else checks.real("rate", rate, above=0.0)
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        width = score_range(largest, share.neighbours)
        if isinstance(every, str):
            checks.one_of("resample_every", every, ("auto",))
            batch, cautious = _best_batch(size, chosen, horizon, share, width, given, largest), True
        else:
            batch = min(checks.whole("resample_every", every, at_least=1), horizon)
        number = _draws(chosen, -(-horizon // batch))
        delta = None
        if checks.one_of("composition", composition, COMPOSITIONS) == "exact" and share.private and number:
            most = ExactChoices.within(share, width, number)
            delta = most.delta
        if given is None:
            best = bounds.best_rate(size, chosen, horizon, batch if cautious else 1, largest)
            given = rate_within(share, width, number, best) if delta is None else min(best, most.rate)
        return cls(**common, resample_every=batch, rate=given, delta=delta)

    @classmethod
    def published(cls, n_items: int, k: int, rounds: int, share: Share, **options: Any) -> HedgeSettings:
        """The rate of paper 000, Algorithm 2, and a new set every round."""
        if {name: options.pop(name, value) for name, value in _AS_PUBLISHED.items()} != _AS_PUBLISHED:
            raise ValueError(
                'calibration="published" has its own rate and draws every round; leave rate=,'
                ' resample_every= and composition= out, or take calibration="tight"'
            )
        common = common_settings(n_items, k, _horizon(rounds), **(options | {"calibration": "published"}))
        if not share.private:
            raise ValueError(
                'calibration="published" needs a finite epsilon; an infinite one has no published rate'
            )
        if share.delta == 0.0:
            raise ValueError(
                'calibration="published" needs delta > 0; give the budget a delta or take "tight"'
            )
        epsilon, delta = share.budget.epsilon, share.delta
        rate = bounds.published_rate(common["k"], common["rounds"], epsilon, delta, common["bound"])
        return cls(**common, rate=rate)

    @property
    def ends(self) -> range:
        """The first rounds of all batches but the first; the last one may come after all rounds."""
        return range(self.resample_every, self.rounds + self.resample_every, self.resample_every)

    def draws(self, sets: int) -> int:
        """How many draws depend on people's data once ``sets`` sets have been drawn."""
        return _draws(self.k, sets)

    @property
    def releases(self) -> int:
        """How many draws of the whole run depend on people's data."""
        return self.draws(-(-self.rounds // self.resample_every))

    def event(self, neighbours: str) -> Event:
        """The event of one draw, or of all of them where they are composed exactly."""
        width = score_range(self.bound, neighbours)
        if self.delta is not None:
            return ExactChoices(self.rate, width, max(1, self.releases), self.delta)
        return ExponentialChoice(self.rate, width)

    def claims(self, share: Share) -> tuple[list[tuple[Event, int]], str]:
        """What published settings release, and the learner's name for messages."""
        return [(self.event(share.neighbours), self.releases)], "HedgeSelector"

    def charged(self, draws: int) -> int:
        """How many times `event` is charged for this many draws."""
        return draws if self.delta is None else min(1, draws)

    @property
    def unclipped_regret(self) -> float:
        """The certificate not capped at the trivial bound, for comparing settings."""
        shape = (self.n_items, self.k, self.rounds)
        return bounds.unclipped_hedge(*shape, self.rate, self.resample_every, self.bound)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the whole run (see `bounds.hedge`)."""
        shape = (self.n_items, self.k, self.rounds)
        return bounds.hedge(*shape, self.rate, self.resample_every, self.bound)


def _horizon(rounds: Any) -> int:
    return checks.whole("rounds", rounds, at_least=1, at_most=MOST_ROUNDS)


def _draws(k: int, sets: int) -> int:
    """The draws of ``sets`` sets except the first, which is drawn before anybody is learned from."""
    return k * max(0, sets - 1)


def _best_batch(
    n_items: int, k: int, rounds: int, share: Share, width: float, given: float | None, bound: float
) -> int:
    """The batch with the smallest certified regret, for the rate that the share allows in floating point.

    Only the shortest batch for each number of sets is tried: a longer one saves no draw.
    """
    epsilon, rho = float(share.epsilon), float(share.rho)

    def certified(batch: int) -> float:
        rate = bounds.best_rate(n_items, k, rounds, batch, bound)
        if count := _draws(k, -(-rounds // batch)):
            allowed = max(epsilon / count, math.sqrt(8.0 * rho / count)) / width
            if given is not None and allowed * (1.0 - 1e-12) < given:
                return math.inf
            rate = min(rate, allowed)
        return bounds.unclipped_hedge(n_items, k, rounds, given or rate, batch, bound)

    root = math.isqrt(rounds)
    batches: set[int] = {*range(1, root + 1), *(-(-rounds // sets) for sets in range(1, root + 2))}
    return min(sorted(batches), key=certified)


class HedgeSelector(OnlineSelector):
    """k ordered Hedge experts; expert i learns marginal gains given the choices of experts 1..i-1.

    Paper 000, Algorithm 2 (Algorithm 1 for k = 1), after Streeter and Golovin 2009. Expert i draws item a
    with weight exp(rate * G_i(a)) from the items not yet in the set, where G_i sums f_t(S + a) - f_t(S) over
    past rounds, and S are the first i-1 items shown in round t. (The paper draws from all items, and shows
    fewer than k if one is drawn again.) ``resample_every=B`` draws a new set only every B rounds, so that
    there are fewer draws to pay for and the rate can be higher; ``"auto"`` takes the best certified B.

    ``calibration="tight"`` takes the best rate for the horizon, or the largest that the budget allows if that
    is smaller: all draws are composed, each as a mechanism whose privacy loss has a bounded range.
    ``composition="summed"`` adds up their losses in one privacy definition; ``"exact"`` declares all at
    once and charges their exact composition (`ExactChoices`), which allows a rate some 7 % higher, takes
    seconds to compute, and needs an undivided budget with a delta and one round per person. ``"published"``
    takes the paper's rate, eps / (k sqrt(32 T ln(k/delta)) bound). ``rate=`` replaces the tight rate, and is
    refused if it does not fit. An infinite epsilon gives the non-private learner.

    Guarantee. (epsilon, delta)-DP under replacement of a person or, with ``neighbours="add_remove"``, for a
    person whose round passes with nothing learned; also if later people depend on the sets shown. The
    releases are the k (ceil(T/B) - 1) draws after the first set, each with a privacy loss in an interval of
    length rate * 2 * bound (rate * bound if people only come or go). Gains are rounded down to units of about
    bound / 2^32 and summed in integers; the draws are exact.

    Regret. ``certified_regret`` bounds the expected (1 - 1/e)-regret for streams fixed in advance.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [1, 1, 0]] * 50)
    >>> learner = HedgeSelector(3, 1, 100, dc.Budget(1.0, 1e-6), resample_every=10, seed=0)
    >>> len(learner.choose()), learner.privacy.epsilon() <= 1.0
    (1, True)
    >>> len(learner.run(people))
    100
    """

    settings: HedgeSettings
    _settings_type: ClassVar[type[HedgeSettings]] = HedgeSettings
    _state = ("_experts",)
    _batched = False  # scores can take any number of people, whenever they come
    _grows = True

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int,
        budget: Spending,
        *,
        resample_every: int | Auto = 1,
        rate: float | None = None,
        composition: HedgeComposition = "summed",
        bound: float = 1.0,
        calibration: Calibration = "tight",
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(HedgeSettings, locals()))

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self.settings
        event, count = settings.event(self.budget.neighbours), settings.charged(settings.releases)
        self._release = self._gate.post_processing()  # the first set uses no data, and may be the only one
        if count:
            self._release = self._gate.reserve(event, count, draws=BY_ROUNDS, label=_LABEL)
        scale = units_per_one(settings.bound)
        most = math.floor(exact(settings.bound) * scale)
        scores = np.zeros((settings.n_items, settings.k), dtype=np.int64)
        self._experts = OrderedExperts(scores, settings.rate, scale, most)

    def _due(self) -> bool:
        return self._rounds.number % self.settings.resample_every == 0

    def _draw(self) -> NDArray[np.int32]:
        return self._release.ordered_set(self._experts)

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if items.size:
            self._experts.open(items, among)

    def _start(self, start: Released) -> None:
        self._experts.prefer(start.items)

    def _close_items(self, items: NDArray[np.int64]) -> None:
        self._experts.close(items)

    def _prepared(self, person: Any) -> Rows | NDArray[np.int64]:
        """A row for the compiled loop, or else the gain of each item for each expert, in units."""
        self._check_person(person)
        rows = person.as_rows()
        return self._units(person) if rows is None else rows

    @property
    def _units(self) -> Counting:
        experts = self._experts
        return partial(_units, self.settings.bound, float(experts.scale), experts.most, self._shown)

    def _observe(self, person: Rows | NDArray[np.int64]) -> None:
        if isinstance(person, Rows):
            self._experts.observe(person.compressed, 0, self._shown)
        else:
            self._experts.add(person)

    def _summed(self) -> SumLayout:
        return SumLayout(self._experts.scores.shape, 0, self._experts.most, self._units)

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        self._experts.add(sums)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        self._next()  # draw the first set before anybody is learned from, whatever happens later
        every, words_per_set = self.settings.resample_every, self._experts.words_per_set
        chunk = max(1, _CHUNK_WORDS // words_per_set) * every
        starts = range(0, stream.rewards.size, min(chunk, 1 << 16))
        for first in track(starts, "blocks of rounds", stream.progress):
            part = slice(first, min(first + starts.step, stream.rewards.size))
            rounds = self._rounds.number + np.arange(part.stop - first)
            due = rounds % every == 0
            due[0] &= not self._rounds.is_open
            words = self._release.words(int(due.sum()) * words_per_set)
            # Close the rounds before anything is drawn, so that draws are charged even if interrupted.
            self._rounds.close(due.size, then=partial(self._play, stream, rows, part, due, words))

    def _play(
        self,
        stream: Stream,
        rows: Rows,
        part: slice,
        due: NDArray[np.bool_],
        words: NDArray[np.uint64],
    ) -> None:
        """Draw, show and learn in a chunk of rounds with compiled code."""
        experts, shown, here = self._experts, self._shown.copy(), stream.part(part)
        experts.begin()
        while experts.run(here, rows.compressed, part.start, due, words, shown):
            experts.settle(self._release, words, shown)
        self._rounds.shown = shown

    def _spent(self) -> Account:
        sets = -(-(self._rounds.number + self._rounds.is_open) // self.settings.resample_every)
        return self._account((self._release.entry, self.settings.charged(self.settings.draws(sets))))


def _units(bound: float, scale: float, most: int, shown: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
    """The gain of each item for each expert, in units."""
    gains = answers.gains_along(person, shown.tolist(), bound)
    return np.ascontiguousarray(np.clip(np.floor(gains.T * scale), 0, most), dtype=np.int64)
