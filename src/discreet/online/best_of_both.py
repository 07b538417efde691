"""A master over one leader and ordered experts: serves as well as the better, certified like the experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..core.fixed import fix
from ..core.progress import track
from ..kernels.selection import FollowedRounds, norm_weight, row_weights
from ..kernels.softmax import follows_first
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..privacy import Account, Event, Gate, Seed, Share, SumSpec, VectorBounds, spend_from
from ..privacy.accountant import Spending
from .leader import LeaderSelector, LeaderSettings
from .learner import Stream
from .partial import Counting
from .pending import Ticket
from .released import Estimates, Released
from .running_sums import RunningSumSelector, RunningSumSettings
from .selector import OnlineSelector, SelectorSettings, common_settings
from .total import PrivateTotal

# Of the budget: for the leader, for the experts, for comparing the two. Shares and prior are those of first
# measurements on the data sets eshop_clicks and msweb, and were not searched for.
SHARES = (Fraction(48, 100), Fraction(48, 100), Fraction(4, 100))
# How likely the experts are followed before anything is known.
PRIOR = 0.02


@dataclass(frozen=True, kw_only=True)
class BestOfBothSettings(SelectorSettings):
    """What a `BestOfBothSelector` goes by: those of its two learners, and of the sum that compares them."""

    leader: LeaderSettings
    experts: RunningSumSettings
    rate: float
    fastest: float | None
    event: Event | None

    def __post_init__(self) -> None:
        super().__post_init__()
        own = (self.n_items, self.k, self.rounds, self.bound)
        for one in (self.leader, self.experts):
            if (one.n_items, one.k, one.rounds, one.bound) != own:
                raise ValueError("the two learners are not about these items, rounds and bound")
        if self.experts.items_per_person is not None or self.experts.noise != "gaussian":
            raise ValueError("the experts count all items of a person, with Gaussian noise")
        if (self.rounds is None) != (self.fastest is not None):
            raise ValueError("the rate falls where no rounds are declared, and nowhere else")
        if self.leader.participation != self.experts.participation:
            raise ValueError("the two learners do not count people in the same rounds")

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int | None,
        share: Share,
        *,
        resample_every: int | str = 1,
        first_batch: int | None = None,
        weights: str | None = "norm",
        min_separation: int | None = None,
        sums: str = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> BestOfBothSettings:
        """The settings for what is asked, with the least noise that fits into ``share``.

        Without declared rounds the rate falls as 1 / sqrt(t), as that of Hedge for any number of rounds does.
        It begins with one over the deviation of the comparison's noise, which then never decides alone.
        """
        common = common_settings(n_items, k, rounds, bound, labels)
        if first_batch is not None and rounds is not None:
            raise ValueError(f"first_batch={first_batch} is for rounds=None; take resample_every")
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        first, second, third = (share.part(part) for part in SHARES)
        shared: dict[str, Any] = {"sums": sums, "bound": largest, "min_separation": min_separation}
        leader = LeaderSettings.tight(size, chosen, horizon, first, first_batch=first_batch, **shared)
        experts = RunningSumSettings.tight(
            size,
            chosen,
            horizon,
            second,
            weights=weights,
            resample_every=resample_every,
            first_batch=first_batch,
            **shared,
        )
        rate = math.sqrt(-8.0 * math.log(PRIOR) / (experts.resample_every * (horizon or 1))) / largest
        fastest = 1.0 / largest if horizon is None else None
        found = cls(**common, leader=leader, experts=experts, rate=rate, fastest=fastest, event=None)
        spec = found.spec
        if spec is None:
            return found
        event = spec.event(third, share.definition)
        if fastest is not None and share.private:
            fastest = min(fastest, 1.0 / (largest * spec.deviation(event)))
        return replace(found, event=event, fastest=fastest)

    def rate_after(self, rounds: int) -> float:
        """The rate after so many rounds, for differences in units of the bound."""
        if self.fastest is None:
            return self.rate * self.bound
        return min(self.fastest, self.rate / math.sqrt(max(1, rounds))) * self.bound

    @property
    def resample_every(self) -> int:
        """For how many rounds one of the two is followed."""
        return self.experts.resample_every

    @property
    def units(self) -> int:
        """Whole units to the bound: the sum of a batch is an exact float."""
        return 1 << min(28, 53 - self.experts.longest.bit_length())

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of what the leader earns beyond the experts, in units of the bound."""
        if not self.experts.releases:
            return None
        vectors = VectorBounds(1, 2, 1.0, (-1.0, 1.0), None, self.experts.longest)
        experts, reduced = self.experts, self.experts.sums == "tree"
        return SumSpec(
            vectors,
            experts.releases,
            experts.sums,
            variance_reduction=reduced,
            participation=experts.participation,
        )

    def counted_since(self, number: int) -> int | None:
        """Who counts is in no batch of either learner twice."""
        first, second = self.leader.counted_since(number), self.experts.counted_since(number)
        return None if first is None or second is None else min(first, second)

    @property
    def following_regret(self) -> float:
        """What choosing between the two can lose beside the experts (see `bounds.following`)."""
        spec, event = self.spec, self.event
        noise = 0.0 if spec is None or event is None else self.bound * spec.deviation(event)
        return bounds.following(self.horizon, self.rate, PRIOR, noise, self.resample_every, self.bound)

    @property
    def certified_regret(self) -> float:
        """That of the experts with their share of the budget, and what choosing between the two can lose.

        Infinite where no rounds are declared, as for the experts.
        """
        if self.k >= self.n_items:
            return 0.0
        if self.rounds is None:
            return math.inf
        both = self.experts.certified_regret + self.following_regret
        return min(bounds.trivial(self.horizon, self.bound), both)


@dataclass(frozen=True)
class Comparison:
    """Differences of rewards in units of the bound, of which ``units`` whole ones make 1.

    ``weighted`` people count by the norm of what items are worth to them alone, as for the experts.
    """

    bound: float
    weighted: bool
    units: int

    def weights(self, rows: Rows) -> NDArray[np.float64]:
        """The weight of every person."""
        weights = np.ones(rows.n_rows)
        if self.weighted:
            row_weights(rows.compressed, self.bound, weights)
        return weights

    def differences(self, rewards: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """What the first set earned beyond the second, for each person."""
        shares = np.clip(rewards / self.bound, 0.0, 1.0) * weights
        whole = np.floor(shares * self.units).astype(np.int64)
        return np.asarray(whole[0] - whole[1])

    def of(self, first: NDArray[np.int32], second: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
        """The same for one person; for people who are rows their sum."""
        rows, sets = person.as_rows(), (first, second)
        if rows is not None:
            rewards = np.empty((2, rows.n_rows))
            for place, shown in enumerate(sets):
                rows.compressed.values(shown, 0, rewards[place])
            whole = self.differences(rewards, self.weights(rows)).sum(keepdims=True)
            return np.asarray(whole, dtype=np.int64)
        values = [answers.number("value", person.value(one.tolist()), 0.0, self.bound) for one in sets]
        weights = np.ones(1)
        if self.weighted:
            alone = answers.vector("gains", person.gains([]), person.n_items, 0.0, self.bound) / self.bound
            weights[0] = norm_weight(answers.squared_length(alone))
        return self.differences(np.array(values)[:, None], weights)


# Of the experts, against the leader, before anything is known.
_ODDS = PRIOR / (1.0 - PRIOR)
_Kind = TypeVar("_Kind", bound=OnlineSelector)


class BestOfBothSelector(OnlineSelector):
    """Follow a `LeaderSelector` as long as it earns no less than the experts of a `RunningSumSelector`.

    Both learn from everybody, each by its own sets. A third private sum, of what the leader's set earned
    beyond the experts', says whose set is shown: Hedge over the two, with 49 to 1 for the leader at first, a
    new draw every ``resample_every`` rounds. On stationary streams it serves like the leader, on a stream
    that is made against it like the experts.

    ``rounds=None`` is for any number of rounds: batches of both learners grow by 15 % each, from
    ``first_batch`` on or from what each takes for its noise, 100 releases are reserved for some 10^8 people
    (`LeaderSelector`), and the comparison's rate falls. Nothing is certified then.

    The budget is divided 48 : 48 : 4 (of mu squared, which adds up) among leader, experts and comparison.
    ``weights="norm"`` weights people for the experts and for the comparison (`RunningSumSelector`): far less
    noise where there are many items, and a certificate about weighted people. ``weights=None`` counts all
    people alike, and the certificate is about people as they are. ``min_separation`` is that of both
    learners, for people who return: somebody who counts is in no batch of either of them twice.

    Formal guarantee: the sums of the two learners are released as each of them says; what a person adds to
    the comparison is the difference of two numbers in [0, 1] (in units of the bound), so it moves that sum
    by at most 2 when replaced, 1 when added or removed. All three are charged at one gate. Everything else
    is post-processing and public randomness. Holds for people chosen with knowledge of all earlier sets.

    Regret: that of the experts with their share, plus `bounds.following`: the two learners never see whom
    the comparison's noise made the master follow, so its noise is independent of what it compares.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 500)
    >>> learner = BestOfBothSelector(4, 2, len(people), dc.Budget(1.0, 1e-6), resample_every=10, seed=0)
    >>> learner.run(people).average > 0.7
    True
    """

    settings: BestOfBothSettings
    _settings_type: ClassVar[type[BestOfBothSettings]] = BestOfBothSettings
    _state = ("_public", "_leader", "_experts", "_total")

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        resample_every: int | str = 1,
        first_batch: int | None = None,
        weights: str | None = "norm",
        min_separation: int | None = None,
        sums: str = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        settings = BestOfBothSettings.tight(
            n_items,
            k,
            rounds,
            share,
            resample_every=resample_every,
            first_batch=first_batch,
            weights=weights,
            min_separation=min_separation,
            sums=sums,
            bound=bound,
            labels=labels,
        )
        super().__init__(settings, share, start)

    @property
    def weights(self) -> str | None:
        """How people are weighted for the experts and the comparison: "norm", or None for all alike."""
        return self.settings.experts.weights

    @property
    def sums(self) -> str:
        """The method of the running sums."""
        return self.settings.experts.sums

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds; infinite where none are.

        With ``weights="norm"`` it is about weighted people, also in the comparison; rounds that are not
        learned from (beyond ``max_rounds_per_person``) are not in it.
        """
        return self._certified(self.settings.certified_regret)

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings, gate = self.settings, self._gate
        whole = [(one.event, one.spec) for one in (settings.leader, settings.experts, settings)]
        gate.expect(*((event, spec.count) for event, spec in whole if event is not None and spec is not None))
        self._public = gate.public_randomness()
        self._comparison = Comparison(settings.bound, self.weights is not None, settings.units)
        self._leader = _part(LeaderSelector, settings.leader, gate)
        self._experts = _part(RunningSumSelector, settings.experts, gate)
        for learner in (self._leader, self._experts):
            learner._catalogue, learner._remembers = self._catalogue, False
        self._total = PrivateTotal(
            settings.spec,
            gate,
            settings.event,
            (1,),
            units=float(settings.units),
            public=self._public,
            ahead=True,
            label="difference of rewards",
        )

    def _due(self) -> bool:
        return self._leader._due() or self._experts._due()

    def _draw(self) -> NDArray[np.int32]:
        self._leader._next()
        self._experts._next()
        if self._rounds.number and self._experts._due():
            self._total.release()
        score = self.settings.rate_after(self._rounds.number) * float(self._total.released[0])
        coin = self._public.generator.random()
        follow = follows_first(score, _ODDS, coin)
        shown: NDArray[np.int32] = (self._leader if follow else self._experts)._shown
        return shown.copy()

    def _prepared(self, person: Any) -> tuple[Any, Any, NDArray[np.int64]]:
        """What each of the two learners takes up, and the difference of rewards in whole units."""
        one = super()._prepared(person)
        difference = self._comparison.of(self._leader._shown, self._experts._shown, one)
        return self._leader._prepared(one), self._experts._prepared(one), difference

    # A part holds the sums of both learners and of the comparison, one after the other.

    def _sums_shape(self) -> tuple[int, ...]:
        (items,), (k, _) = self._leader._sums_shape(), self._experts._sums_shape()
        return (items + k * items + 1,)

    def _units_range(self) -> tuple[Any, Any]:
        inside = (self._leader, self._experts)
        most = [np.full(math.prod(one._sums_shape()), one._whole_units[1]) for one in inside]
        whole = np.concatenate([*most, [self.settings.units]])
        least = np.zeros_like(whole)
        least[-1] = -self.settings.units
        return least, whole

    def _counting(self) -> Counting:
        difference = partial(self._comparison.of, self._leader._shown, self._experts._shown)
        return partial(_units_of_both, self._leader._counting(), self._experts._counting(), difference)

    def _batch(self) -> int:
        return max(self._leader._batch(), self._experts._batch())

    def _room(self) -> int:
        return min(self._leader._room(), self._experts._room())

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:
        place = self.settings.n_items
        for learner, own in ((self._leader, sums[:place]), (self._experts, sums[place:-1])):
            learner._rounds.close(count)
            learner._add_sums(own.reshape(learner._sums_shape()), count)
        self._compare(sums[-1:])

    def _estimates(self) -> Estimates:
        return self._leader._estimates()

    def _start(self, start: Released) -> None:
        self._leader._start(start)
        self._experts._start(start)

    def _ranking(self) -> NDArray[np.float64]:
        return self._leader._ranking()

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> BestOfBothSettings:
        leader, experts = self._leader._grown(n_items, None), self._experts._grown(n_items, None)
        return replace(self.settings, n_items=n_items, labels=labels, leader=leader, experts=experts)

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:
        if settings is not None:
            for one, own in ((self._leader, settings.leader), (self._experts, settings.experts)):
                one._open_items(items, among, own)
                object.__setattr__(one, "settings", own)

    def _refit(self) -> None:
        if self._rounds.shown is None:
            return
        follow = np.array_equal(self._shown, self._leader._shown)
        for learner in (self._leader, self._experts):
            learner._refit()
        self._rounds.shown = (self._leader if follow else self._experts)._shown.copy()

    def _take(self, ready: Any, within_limit: bool) -> None:
        self._rounds.close(then=lambda: self._close(ready if within_limit else None))

    def _close(self, ready: Any) -> None:
        """One round passes for both learners; None for somebody who came too often."""
        self._leader._rounds.close()
        self._experts._rounds.close()
        if ready is not None:
            self._observe(ready)

    def _pass_on(self) -> None:
        self._leader._rounds.close()
        self._experts._rounds.close()
        super()._pass_on()

    def _prepared_late(self, person: Any, late: int) -> Any:  # noqa: ARG002
        """The person, who may have to wait, and is then compared by the sets of that time."""
        self._prepared(person)
        return person

    def _take_late(self, ticket: Ticket, ready: Any, within_limit: bool) -> None:  # noqa: ARG002
        if within_limit and self._has_room(ready):
            self._observe_waiting(ready)

    def _observe_waiting(self, ready: Any) -> None:
        self._observe(self._prepared(ready))

    def _observe(self, person: Any) -> None:
        leader, experts, difference = person
        self._leader._observe(leader)
        self._experts._observe(experts)
        self._compare(difference)

    def _learn_rows(
        self,
        people: Population,
        within_limit: NDArray[np.bool_],
        first: int,
        differences: NDArray[np.int64],
    ) -> None:
        for learner in (self._leader, self._experts):
            learner._rounds.close(within_limit.size)
        for learner in (self._leader, self._experts):
            learner._add_rows(people, within_limit, first)
        self._compare(differences[within_limit])

    def _compare(self, differences: NDArray[np.int64]) -> None:
        if not self._total.exhausted:  # nobody who comes later is in any release
            self._total.add(differences.sum(keepdims=True))

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        compiles = self._experts._total.compiles and self._total.compiles
        if not compiles or self._catalogue.active is not None or self.settings.rounds is None:
            self._run_batches(stream, rows)
            return
        weights, start, count = self._comparison.weights(rows), 0, stream.rewards.size
        while start < count:
            self._next()
            stop = start + self._rounds_ahead(count - start)
            inside = slice(start, stop)
            self._play_rows(stream, rows, weights[inside], inside)
            start = stop

    def _rounds_ahead(self, count: int) -> int:
        """How many of the next ``count`` rounds pass before the leader or new noise has to be drawn."""
        every, now = self.settings.resample_every, self._rounds.number
        compared = every - now % every + every * self._total.rows_ahead(count, draw=False)
        count = min(self._stops(count, of_experts=False)[0], compared)
        return self._experts._rounds_ahead(count, draw=False)

    def _play_rows(self, stream: Stream, rows: Rows, weights: NDArray[np.float64], inside: slice) -> None:
        """Rounds of one leader's set, compiled; the sets of the first have been drawn."""
        leader, experts, settings = self._leader, self._experts, self.settings
        people, within_limit, first = stream.people, stream.within_limit[inside], inside.start
        rewards, passed = np.empty((2, weights.size)), self._rounds.number % settings.resample_every
        selections, follows = stream.selections[inside], np.zeros(weights.size, dtype=np.bool_)
        follows[0] = np.array_equal(self._shown, leader._shown)
        self._rounds.close(weights.size)
        rows.compressed.values(leader._shown, first, rewards[0])
        leader._rounds.close(weights.size, then=partial(leader._add_rows, people, within_limit, first))
        experts._play_rows(Stream(people, within_limit, rewards[1], selections), rows, people, first)
        differences = np.where(within_limit, self._comparison.differences(rewards, weights), 0)
        draws = range(settings.resample_every - passed, weights.size, settings.resample_every)
        if (
            self._total.count + len(draws) >= settings.experts.releases
        ):  # nobody who comes later is in any release
            differences[draws[-1] if draws else 0 :] = 0
        uniforms, rate = self._public.generator.random(len(draws)), settings.rate_after(self._rounds.number)
        with self._total.compiled(len(draws)) as (sums, _, gathered):
            rounds = FollowedRounds(sums, gathered, float(settings.units), _ODDS)
            rounds.run(differences, settings.resample_every, passed, rate, uniforms, follows)
        stream.rewards[inside] = np.where(follows, *rewards)
        selections[follows] = leader._shown
        self._rounds.shown = selections[-1].copy()

    def _run_batches(self, stream: Stream, rows: Rows) -> None:
        """Trees: batch by batch, and sums as `TreeSum` takes them."""
        leader, experts, count = self._leader, self._experts, stream.rewards.size
        weights = self._comparison.weights(rows)
        rewards = np.empty((2, count))
        stops = self._stops(count)
        start = 0
        for stop in track(stops, "batches", stream.progress):
            self._next()
            inside = slice(start, stop)
            for place, learner in enumerate((leader, experts)):
                rows.compressed.values(learner._shown, start, rewards[place, inside])
            followed = 0 if np.array_equal(self._shown, leader._shown) else 1
            stream.rewards[inside] = rewards[followed, inside]
            stream.selections[inside] = self._shown
            differences = self._comparison.differences(rewards[:, inside], weights[inside])
            within_limit = stream.within_limit[inside]
            learned = partial(self._learn_rows, stream.people, within_limit, start, differences)
            self._rounds.close(stop - start, then=learned)
            start = stop

    def _stops(self, count: int, *, of_experts: bool = True) -> list[int]:
        """After how many of the next people a new set is drawn, and the last of them."""
        now, draws = self._rounds.number, {count}
        for one in (self.settings.leader, self.settings.experts)[: 1 + of_experts]:
            ends = one.ends[one.batch_at(now) : one.batch_at(now + count - 1)]
            draws |= {end - now for end in ends}
        return sorted(draws)

    def _spent(self) -> Account:
        inside = (self._leader._total, self._experts._total, self._total)
        return self._account(*(entry for total in inside for entry in total.entries()))


def _units_of_both(
    leader: Counting, experts: Counting, difference: Counting, person: Any
) -> NDArray[np.int64]:
    """A person's part in the sums of both learners and in the comparison."""
    return np.concatenate((leader(person), experts(person).ravel(), difference(person)))


def _part(kind: type[_Kind], settings: SelectorSettings, gate: Gate) -> _Kind:
    """A learner that releases through the gate of another one."""
    learner = object.__new__(kind)
    learner._assemble(settings, gate, own_gate=False)
    return fix(learner)
