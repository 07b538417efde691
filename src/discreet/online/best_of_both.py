"""A master over rolling votes and ordered experts: performs like the better, certified like the experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..core import checks
from ..core.options import Auto, SumMethod, Weights
from ..kernels.selection import FollowedRounds, norm_weight, row_weights
from ..kernels.softmax import follows_first
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..privacy import Account, Event, Seed, Share, SumSpec, VectorBounds
from ..privacy.accountant import Spending
from ..privacy.conversions import concurrent_mu, exact
from .learner import OnlineSelector, SelectorSettings, Stream, common_settings, tightened
from .partial import Partial
from .released import Estimates, Released
from .rolling import RollingSettings, Votes
from .running_sums import ExpertSums, RunningSumSettings, check_growth
from .sums import PrivateTotal, released_sum
from .window import part_of

# VOTES is the part of epsilon for the votes. The rest, with all of delta, is for the experts (EXPERTS of its
# squared mu) and for comparing the two. Where one privacy definition has to be kept, these are parts of that.
# The shares and the least odds were chosen on a prototype, with the data sets msweb and eshop_clicks.
VOTES, EXPERTS = Fraction(4, 5), Fraction(4, 5)
ODDS = 50.0  # the least initial odds for the votes
_SECONDS, _EACH = 10.0, 40e-9  # CPU seconds for the noise of all sums, and per random number


def _shares(share: Share) -> tuple[Share, Share, Share]:
    """The shares of the votes, the experts and the comparison.

    An undivided budget with a delta is spent in two definitions concurrently: pure epsilon, and Gaussian DP
    with what that leaves (`conversions.concurrent_mu`).
    """
    budget = share.budget
    if share.whole and budget.private and budget.delta:
        epsilon = exact(budget.epsilon)
        square = Fraction(concurrent_mu(VOTES * epsilon, epsilon, budget.delta)) ** 2
        rest = replace(share, fraction=square / budget.max_rounds_per_person**2 / exact(budget.mu) ** 2)
        votes = replace(share, fraction=VOTES, definition="pure")
    else:
        if share.definition is None and budget.private and budget.delta:
            share = replace(share, definition="zcdp")
        votes, rest = share.part(VOTES), share.part(1 - VOTES)
    return votes, rest.part(EXPERTS), rest.part(1 - EXPERTS)


@dataclass(frozen=True, kw_only=True)
class BestOfBothSettings(SelectorSettings):
    """Settings of `BestOfBothSelector`: those of its two learners, and of the sum that compares them."""

    votes: RollingSettings
    experts: RunningSumSettings
    rate: float
    odds: float
    fastest: float | None = None
    event: Event | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        own = (self.n_items, self.k, self.rounds, self.bound)
        for one in (self.votes, self.experts):
            if (one.n_items, one.k, one.rounds, one.bound) != own:
                raise ValueError("the two learners are not about these items, rounds and bound")
        if self.experts.items_per_person is not None or self.experts.noise != "gaussian":
            raise ValueError("the experts count all items of a person, with Gaussian noise")
        if (self.rounds is None) != (self.fastest is not None):
            raise ValueError("the rate falls where no rounds are declared, and nowhere else")
        checks.real("odds", self.odds, at_least=1.0)

    @classmethod
    def tight(
        cls, n_items: int, k: int, rounds: int | None, share: Share, **options: Any
    ) -> BestOfBothSettings:
        """Settings for the options of a `BestOfBothSelector`, with the least noise that fits.

        Without declared rounds the rate falls as 1 / sqrt(t), like that of Hedge without a horizon. It begins
        at one over the standard deviation of the comparison's noise, which then never decides alone. With
        declared rounds the initial odds for the votes are so high that noise alone hardly reverses them.
        ``resample_every="auto"`` draws as often as some ten seconds of noise for sums of k n numbers allow.
        """
        names = ("first_batch", "min_separation", "sums")
        shared = {name: options.pop(name) for name in names if name in options}
        weights, every = options.pop("weights", "norm"), options.pop("resample_every", "auto")
        first = options.pop("first_window", None)
        common = common_settings(n_items, k, rounds, **options)
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        if horizon is not None and shared.get("first_batch") is not None:
            raise ValueError(f"first_batch={shared['first_batch']} is for rounds=None; take resample_every")
        if every == "auto":
            every = max(1, math.ceil(_EACH * (horizon or 0) * chosen * size / _SECONDS))
        for_votes, for_experts, for_comparison = _shares(share)
        votes = RollingSettings.tight(
            size, chosen, for_votes, rounds=horizon, bound=largest, first_window=first
        )
        shared |= {"weights": weights, "resample_every": every, "bound": largest}
        experts = RunningSumSettings.tight(size, chosen, horizon, for_experts, **shared)
        batch = experts.resample_every * (horizon or 1)
        rate = math.sqrt(8.0 * math.log1p(ODDS) / batch) / largest
        fastest = 1.0 / largest if horizon is None else None
        found = cls(**common, votes=votes, experts=experts, rate=rate, odds=ODDS, fastest=fastest)
        spec = found.spec
        if spec is None:
            return found
        event = spec.event(for_comparison, share.definition)
        if share.private and fastest is not None:
            fastest = min(fastest, 1.0 / (largest * spec.deviation(event)))
        elif share.private:
            likeliest = 2.0 * rate * largest * spec.deviation(event)
            found = replace(found, odds=max(ODDS, math.exp(min(likeliest, 500.0))))
        return replace(found, event=event, fastest=fastest)

    def rate_after(self, rounds: int) -> float:
        """The rate after this many rounds, for differences in units of the bound."""
        if self.fastest is None:
            return self.rate * self.bound
        return min(self.fastest, self.rate / math.sqrt(max(1, rounds))) * self.bound

    @property
    def weights(self) -> str | None:
        """How people are weighted for the experts and the comparison: "norm", or None for equally."""
        return self.experts.weights

    @property
    def sums(self) -> str:
        """The method of the running sums."""
        return self.experts.sums

    @property
    def resample_every(self) -> int:
        """For how many rounds one of the two is followed before the next draw."""
        return self.experts.resample_every

    @property
    def units(self) -> int:
        """Integer units that make the bound: so few that the sum of a batch is exact as a float."""
        return 1 << min(28, 53 - self.experts.longest.bit_length())

    @cached_property
    def spec(self) -> SumSpec | None:
        """The running sum of how much more the votes' set earns than the experts', in units of the bound."""
        vectors = VectorBounds(1, 2, box=(-1.0, 1.0), people_per_vector=self.experts.longest)
        return released_sum(self.experts, vectors, self.experts.releases)

    def counted_since(self, number: int) -> int | None:
        """As for the experts: a person who counts is in none of their batches twice."""
        return self.experts.counted_since(number)

    @property
    def following_regret(self) -> float:
        """Bound on the regret of choosing between the two, relative to the experts (`bounds.following`)."""
        spec, event = self.spec, self.event
        noise = 0.0 if spec is None or event is None else spec.deviation(event) * spec.widening(event)
        prior, noise = 1.0 / (1.0 + self.odds), self.bound * noise
        return bounds.following(self.horizon, self.rate, prior, noise, self.resample_every, self.bound)

    @property
    def certified_regret(self) -> float:
        """The experts' certificate with their share, plus `following_regret`; infinite without a horizon."""
        if self.k >= self.n_items:
            return 0.0
        if self.rounds is None:
            return math.inf
        both = self.experts.certified_regret + self.following_regret
        return min(bounds.trivial(self.horizon, self.bound), both)


class BestOfBothSelector(OnlineSelector):
    """Follow a `RollingSelector` as long as it earns no less than the experts of a `RunningSumSelector`.

    Both learn from everybody, each with its own sets. A third private sum, of how much more the votes' set
    earned than the experts', decides whose set is shown: by Hedge over the two, with odds of at least 50 to 1
    for the votes at first and a new draw every ``resample_every`` rounds. It performs like the votes, and on
    an adversarial stream like the experts.

    ``rounds=None`` is for any number of rounds: batches of the experts grow by 15 % each, from
    ``first_batch`` or from the size that their noise requires, 100 releases are reserved for some 10^8 people
    (`RunningSumSelector`), and the comparison's rate falls. Nothing is certified then.

    Four fifths of epsilon, pure, are for the votes. The rest, with all of delta, is for experts and
    comparison, which divide its squared mu 80 : 20. A gate that others spend from uses one definition, in
    which the votes get four fifths, which is much less.
    ``weights="norm"`` weights people for the experts and for the comparison (`RunningSumSelector`): far less
    noise where there are many items, and a certificate for weighted people. ``weights=None`` counts all
    people equally, and the certificate is for unweighted people. ``min_separation`` is that of the experts,
    for people who return: a person who counts is in none of their batches twice.

    Formal guarantee: the votes are a mechanism with pure epsilon and the two sums are one with Gaussian DP,
    each against an adversary who chooses people by everything that was shown (see `RollingSelector` and
    `RunningSumSelector`). What a person adds to the comparison is the difference of two numbers in [0, 1]
    (in units of the bound), so it moves that sum by at most 2 when replaced, 1 when added or removed. People
    are chosen by the answers of both, so this is concurrent composition, whose privacy curve is that of
    composing both independently (`Filter`). Everything else is post-processing and public randomness.

    Regret: that of the experts with their share, plus `bounds.following`: the two learners never see which of
    them the comparison's noise made the master follow, so its noise is independent of what it compares.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 500)
    >>> learner = BestOfBothSelector(4, 2, len(people), dc.Budget(1.0, 1e-6), resample_every=10, seed=0)
    >>> learner.run(people).average > 0.7
    True
    """

    settings: BestOfBothSettings
    _settings_type: ClassVar[type[BestOfBothSettings]] = BestOfBothSettings
    _state = ("_public", "_votes", "_experts", "_total", "_sets")

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        resample_every: int | Auto = "auto",
        first_window: int | None = None,
        first_batch: int | None = None,
        weights: Weights | None = "norm",
        min_separation: int | None = None,
        sums: SumMethod = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(BestOfBothSettings, locals()))

    # --- sets ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        settings, gate = self.settings, self._gate
        sums = [(one.event, one.spec) for one in (settings.experts, settings)]
        paid = [(event, spec.count) for event, spec in sums if event is not None and spec is not None]
        gate.expect((settings.votes.event, 1), *paid)
        self._public = gate.public_randomness()
        self._votes = Votes(settings.votes, gate)
        self._experts = ExpertSums(settings.experts, gate)
        self._units = settings.units  # units that make 1 in the comparison
        how: dict[str, Any] = {"units": float(self._units), "public": self._public, "ahead": True}
        label = "difference of rewards"
        self._total = PrivateTotal(settings.spec, gate, settings.event, (1,), **how, label=label)
        self._sets = np.zeros((2, settings.k), dtype=np.int32)  # the sets of the votes and of the experts

    def _new_set(self) -> NDArray[np.int32] | None:
        number = self._rounds.number
        votes_due, experts_due = number >= self._votes.closes, self.settings.experts.due(number)
        if not votes_due and not experts_due:
            return None
        self._waiting.room = 0
        never = self._rounds.shown is None  # also where an interruption came once the window had opened
        if votes_due or never:
            active = self._active()
            chosen = None if never and number < self._votes.closes else self._votes.draw(number, active)
            if chosen is None:
                among = np.flatnonzero(active)
                drawn = self._public.generator.choice(among, size=self.settings.k, replace=False)
                chosen = self._with_first(drawn.astype(np.int32)) if self._first else drawn
            self._sets[0] = chosen
        if experts_due:
            self._sets[1] = self._experts.draw(number, self._catalogue.active)
            if number:
                self._total.release()
        return self._followed()

    def _followed(self) -> NDArray[np.int32]:
        """The set to show: that of the learner drawn by Hedge over the two."""
        score = self.settings.rate_after(self._rounds.number) * float(self._total.released[0])
        leads = follows_first(score, 1.0 / self.settings.odds, self._public.generator.random())
        return np.array(self._sets[0 if leads else 1])

    @property
    def _leads(self) -> bool:
        """Whether the votes' set is shown."""
        return np.array_equal(self._shown, self._sets[0])

    def _estimates(self) -> Estimates:
        return self._votes.estimates()

    def _ranking(self) -> NDArray[np.float64]:
        return self._votes.credit + 1e-9 * self._catalogue.often()

    def _start(self, start: Released) -> None:
        super()._start(start)
        self._votes.warm(start)
        self._experts.start(start)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> BestOfBothSettings:
        settings = self.settings
        votes, experts = replace(settings.votes, n_items=n_items), replace(settings.experts, n_items=n_items)
        check_growth(settings.experts.spec, experts.spec, self.budget.neighbours)
        return replace(settings, n_items=n_items, labels=labels, votes=votes, experts=experts)

    def _check_growing(self) -> None:
        self._votes.check_growing()

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if settings is not None:
            self._experts.grown(settings.experts, self._rounds.number)  # first, as it may refuse
            self._votes.grown(settings.votes, self._rounds.number)

    def _refit(self) -> None:
        request = self._catalogue.request()
        if self._rounds.shown is None or request is None:
            return
        leads, of_experts = self._leads, partial(self._experts.ranking, self._rounds.number, None)
        votes, experts = (tuple(one.tolist()) for one in self._sets)
        self._sets[0] = self._catalogue.served(votes, self._ranking, request)
        self._sets[1] = self._catalogue.served(experts, of_experts, request)
        self._rounds.shown = self._sets[0 if leads else 1].copy()

    # --- people ----------------------------------------------------------------------------------

    def _prepared(self, person: Any) -> tuple[Any, Any, NDArray[np.int64]]:
        """What each of the two learners learns from, and the difference of rewards in units."""
        self._check_person(person)
        rows = person.as_rows()
        difference = self._compared(person) if rows is None else self._compared_rows(rows)
        return person, self._experts.prepared(person, self._rounds.number, self._sets[1]), difference

    def _prepared_late(self, person: Any, late: int) -> Any:  # noqa: ARG002
        """The checked person, who may have to wait and is then compared by the sets shown at that time."""
        self._prepared(person)
        return person

    def _observe_waiting(self, ready: Any) -> None:
        try:
            person = self._prepared(ready)
        except Exception:  # a user's function failed during another caller's turn: skip this person
            person = None
        self._observe(person)

    def _take(self, ready: Any, within_limit: bool) -> None:
        self._rounds.close(then=partial(self._observe, ready if within_limit else None))

    def _observe(self, person: Any) -> None:
        """Learn from one person; None is one over their limit of rounds, for whom a draw is made too."""
        self._votes.learn(None if person is None else person[0])
        if person is not None:
            self._experts.observe(person[1], self._sets[1])
            self._compare(person[2])

    def _observe_rows(self, people: Population, first: int, within_limit: NDArray[np.bool_]) -> None:
        rows = people.as_rows()
        assert rows is not None
        self._votes.learn_rows(people, first, within_limit)
        self._experts.observe_rows(people, first, within_limit, self._sets[1])
        some = rows.chunk(first, first + within_limit.size)
        self._compare(self._compared_rows(some)[within_limit])

    # The difference of rewards: the votes' set minus the experts', for people weighted as for the experts.

    def _weights(self, rows: Rows) -> NDArray[np.float64]:
        """The weight of each of these people."""
        weights = np.ones(rows.n_rows)
        if self.settings.experts.weights is not None:
            row_weights(rows.compressed, self.settings.bound, weights)
        return weights

    def _differences(self, rewards: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Differences of the rewards of both sets, in integer units."""
        shares = np.clip(rewards / self.settings.bound, 0.0, 1.0) * weights
        whole = np.floor(shares * self._units).astype(np.int64)
        return np.asarray(whole[0] - whole[1])

    def _compared_rows(self, rows: Rows) -> NDArray[np.int64]:
        """The difference for each of the people given as rows."""
        rewards = np.empty((2, rows.n_rows))
        for place, shown in enumerate(self._sets):
            rows.compressed.values(shown, 0, rewards[place])
        return self._differences(rewards, self._weights(rows))

    def _compared(self, person: Population) -> NDArray[np.int64]:
        """The difference for a person given as a function."""
        bound = self.settings.bound
        values = [answers.number("value", person.value(one.tolist()), 0.0, bound) for one in self._sets]
        weights = np.ones(1)
        if self.settings.experts.weights is not None:
            alone = answers.vector("gains", person.gains([]), person.n_items, 0.0, bound) / bound
            weights[0] = norm_weight(answers.squared_length(alone))
        return self._differences(np.array(values)[:, None], weights)

    def _compare(self, differences: NDArray[np.int64]) -> None:
        if not self._total.exhausted:  # otherwise no later release could include these people
            self._total.add(differences.sum(keepdims=True))

    # A part stores its people, who are learned from one after the other when it is merged.

    def _check_divisible(self) -> None:
        self._experts.check_divisible()

    def _batch(self) -> int:
        return max(self._votes.opens, self.settings.experts.begins(self._rounds.number))

    def _room(self) -> int:
        number = self._rounds.number
        return min(self._votes.closes - number, self.settings.experts.room(number))

    def _part(self, about: tuple[str, int, int | None, str]) -> Partial:
        return part_of(self.settings, about)

    def _check_part(self, part: Partial) -> None:
        self._votes.check_part(part)

    def _take_part(self, part: Any) -> None:
        for people in (*part.people, *(one for store in part.stores for one in store.batches())):
            for person in people:
                self._observe(self._prepared(person))

    # --- whole streams ---------------------------------------------------------------------------

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        compiles = self._experts.compiles and self._total.compiles and self._catalogue.active is None
        if not compiles or self.settings.rounds is None:
            super()._run_rows(stream, rows)  # for trees, growing batches and retired items
            return
        weights, start, count = self._weights(rows), 0, stream.rewards.size
        while start < count:
            self._next()
            number, every = self._rounds.number, self.settings.resample_every
            passed = number % every
            # The rounds until the votes' window closes or new noise has to be drawn.
            size = min(count - start, self._votes.closes - number)
            for one in (self._total, self._experts):
                size = min(size, every - passed + every * one.rows_ahead(size, draw=False))
            part = stream.part(slice(start, start + size))
            own = weights[start : start + size]
            self._rounds.close(size, then=partial(self._play, part, rows, own, start, number, passed))
            start += size

    def _play(
        self, part: Stream, rows: Rows, weights: NDArray[np.float64], first: int, number: int, passed: int
    ) -> None:
        """Play rounds between two releases of votes, compiled; the first round's sets have been drawn."""
        settings, size, people, limit = self.settings, weights.size, part.people, part.within_limit
        rewards, follows = np.empty((2, size)), np.zeros(size, dtype=np.bool_)
        follows[0] = self._leads
        rows.compressed.values(self._sets[0], first, rewards[0])
        self._votes.learn_rows(people, first, limit)
        own = Stream(people, limit, rewards[1], part.selections)
        self._sets[1] = self._experts.play(own, rows, people, first, self._sets[1], number, passed)
        differences = np.where(limit, self._differences(rewards, weights), 0)
        draws = range(settings.resample_every - passed, size, settings.resample_every)
        uniforms, rate = self._public.generator.random(len(draws)), settings.rate_after(number)
        with self._total.compiled(len(draws)) as (sums, _, pending):
            rounds = FollowedRounds(sums, pending, float(settings.units), 1.0 / settings.odds)
            rounds.run(differences, settings.resample_every, passed, rate, uniforms, follows)
        if self._total.exhausted:
            self._total.pending[:] = 0  # no later release could include these people
        part.rewards[:] = np.where(follows, *rewards)
        part.selections[follows] = self._sets[0]
        self._rounds.shown = part.selections[-1].copy()

    def _spent(self) -> Account:
        sums = [entry for one in (self._experts, self._total) for entry in one.entries()]
        return self._account((self._votes.release.entry, min(1, self._votes.served)), *sums)
