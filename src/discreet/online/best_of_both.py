"""A master over one leader and ordered experts: serves as well as the better, certified like the experts."""

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
from ..constraints import Cardinality
from ..kernels.selection import FollowedRounds, norm_weight, row_weights
from ..kernels.softmax import follows_first
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..privacy import Account, Event, Seed, Share, SumSpec, VectorBounds
from ..privacy.accountant import Spending
from .leader import LeaderSettings, LeaderSum
from .learner import OnlineSelector, SelectorSettings, Stream, common_settings, tightened
from .partial import Counting, Summed
from .released import Estimates, Released
from .running_sums import ExpertSums, RunningSumSettings, check_growth
from .sums import PrivateTotal

# Of the budget: for the leader, for the experts, for comparing the two. Shares and prior are those of first
# measurements on the data sets eshop_clicks and msweb, and were not searched for.
SHARES = (Fraction(48, 100), Fraction(48, 100), Fraction(4, 100))
PRIOR = 0.02  # how likely the experts are followed before anything was released
_ODDS = PRIOR / (1.0 - PRIOR)


@dataclass(frozen=True, kw_only=True)
class BestOfBothSettings(SelectorSettings):
    """What a `BestOfBothSelector` goes by: those of its two learners, and of the sum that compares them."""

    leader: LeaderSettings
    experts: RunningSumSettings
    rate: float
    fastest: float | None = None
    event: Event | None = None

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
        cls, n_items: int, k: int, rounds: int | None, share: Share, **options: Any
    ) -> BestOfBothSettings:
        """The settings for the options of a `BestOfBothSelector`, with the least noise that fits.

        Without declared rounds the rate falls as 1 / sqrt(t), as that of Hedge for any number of rounds does.
        It begins with one over the deviation of the comparison's noise, which then never decides alone.
        """
        names = ("first_batch", "min_separation", "sums")
        shared = {name: options.pop(name) for name in names if name in options}
        own = {"weights": options.pop("weights", "norm"), "resample_every": options.pop("resample_every", 1)}
        common = common_settings(n_items, k, rounds, **options)
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        if horizon is not None and shared.get("first_batch") is not None:
            raise ValueError(f"first_batch={shared['first_batch']} is for rounds=None; take resample_every")
        first, second, third = (share.part(part) for part in SHARES)
        shared["bound"] = largest
        leader = LeaderSettings.tight(size, chosen, horizon, first, **shared)
        experts = RunningSumSettings.tight(size, chosen, horizon, second, **shared, **own)
        rate = math.sqrt(-8.0 * math.log(PRIOR) / (experts.resample_every * (horizon or 1))) / largest
        fastest = 1.0 / largest if horizon is None else None
        found = cls(**common, leader=leader, experts=experts, rate=rate, fastest=fastest)
        spec = found.spec
        if spec is None:
            return found
        event = spec.event(third, share.definition)
        if fastest is not None and share.private:
            fastest = min(fastest, 1.0 / (largest * spec.deviation(event)))
        return replace(found, event=event, fastest=fastest)

    def rate_after(self, rounds: int) -> float:
        """The rate after n = ``rounds``, for differences in units of the bound."""
        if self.fastest is None:
            return self.rate * self.bound
        return min(self.fastest, self.rate / math.sqrt(max(1, rounds))) * self.bound

    def due(self, number: int) -> bool:
        """Whether one of the two draws a new set in round ``number``."""
        return not number or number in self.leader.ends or number in self.experts.ends

    @property
    def weights(self) -> str | None:
        """How people are weighted for the experts and the comparison: "norm", or None for all alike."""
        return self.experts.weights

    @property
    def sums(self) -> str:
        """The method of the running sums."""
        return self.experts.sums

    @property
    def resample_every(self) -> int:
        """For how many rounds one of the two is followed."""
        return self.experts.resample_every

    @property
    def units(self) -> int:
        """Whole units to the bound: the sum of a batch is an exact float."""
        return 1 << min(28, 53 - self.experts.longest.bit_length())

    @cached_property
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

    def begins(self, number: int) -> int:
        """The later one of the two batches counts."""
        return max(self.leader.begins(number), self.experts.begins(number))

    def room(self, number: int) -> int:
        """And the one that ends first."""
        return min(self.leader.room(number), self.experts.room(number))

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

    def of_rows(self, sets: NDArray[np.int32], rows: Rows) -> NDArray[np.int64]:
        """The same for people who are rows."""
        rewards = np.empty((2, rows.n_rows))
        for place, shown in enumerate(sets):
            rows.compressed.values(shown, 0, rewards[place])
        return self.differences(rewards, self.weights(rows))

    def of(self, sets: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
        """The same for one person; for people who are rows their sum."""
        rows = person.as_rows()
        if rows is not None:
            return np.asarray(self.of_rows(sets, rows).sum(keepdims=True))
        values = [answers.number("value", person.value(one.tolist()), 0.0, self.bound) for one in sets]
        weights = np.ones(1)
        if self.weighted:
            alone = answers.vector("gains", person.gains([]), person.n_items, 0.0, self.bound) / self.bound
            weights[0] = norm_weight(answers.squared_length(alone))
        return self.differences(np.array(values)[:, None], weights)


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
    _state = ("_public", "_leader", "_experts", "_total", "_sets")

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
        super().__init__(*tightened(BestOfBothSettings, locals()))

    # --- sets ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        settings, gate = self.settings, self._gate
        whole = [(one.event, one.spec) for one in (settings.leader, settings.experts, settings)]
        gate.expect(*((event, spec.count) for event, spec in whole if event is not None and spec is not None))
        self._public = gate.public_randomness()
        weighted = settings.weights is not None
        self._comparison = Comparison(settings.bound, weighted, settings.units)
        gate.key()  # what a seed means: each of the two has been a learner, with a key of its own
        self._leader = LeaderSum(settings.leader, gate)
        gate.key()
        self._experts = ExpertSums(settings.experts, gate)
        how: dict[str, Any] = {"units": float(settings.units), "public": self._public, "ahead": True}
        label = "difference of rewards"
        self._total = PrivateTotal(settings.spec, gate, settings.event, (1,), **how, label=label)
        self._sets = np.zeros((2, settings.k), dtype=np.int32)  # what the leader and the experts would show

    def _new_set(self) -> NDArray[np.int32]:
        self._waiting.room = 0
        return self._draw()

    def _draw(self) -> NDArray[np.int32]:
        number, active = self._rounds.number, self._catalogue.active
        if self.settings.leader.due(number):
            shown = self._leader.draw(number, active)
            self._sets[0] = self._with_first(shown) if self._first and not number else shown
        if self.settings.experts.due(number):
            self._sets[1] = self._experts.draw(number, active)
            if number:
                self._total.release()
        return self._followed()

    def _followed(self) -> NDArray[np.int32]:
        """The set of the one that is followed: a draw of Hedge over the two."""
        score = self.settings.rate_after(self._rounds.number) * float(self._total.released[0])
        leads = follows_first(score, _ODDS, self._public.generator.random())
        return np.array(self._sets[0 if leads else 1])

    @property
    def _leads(self) -> bool:
        """Whether the leader's set is shown."""
        return np.array_equal(self._shown, self._sets[0])

    def _estimates(self) -> Estimates:
        return self._leader.estimates(self._rounds.number)

    def _ranking(self) -> NDArray[np.float64]:
        return self._leader.ranking(self._rounds.number, None)

    def _start(self, start: Released) -> None:
        super()._start(start)
        if start.values is not None:
            self._leader.warm(start.values / self.settings.bound, start.people)
        self._experts.start(start)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> BestOfBothSettings:
        settings = self.settings
        more = Cardinality(settings.leader.constraint.rank, n_items)
        leader = replace(settings.leader, n_items=n_items, constraint=more)
        experts = replace(settings.experts, n_items=n_items)
        check_growth(settings.experts.spec, experts.spec, self.budget.neighbours)
        return replace(settings, n_items=n_items, labels=labels, leader=leader, experts=experts)

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if settings is not None:
            self._leader.grown(settings.leader, self._rounds.number)
            self._experts.grown(settings.experts, self._rounds.number)

    def _refit(self) -> None:
        request = self._catalogue.request()
        if self._rounds.shown is None or request is None:
            return
        leads = self._leads
        for place, one in enumerate((self._leader, self._experts)):
            ranking, standing = partial(one.ranking, self._rounds.number, None), self._sets[place].tolist()
            self._sets[place] = self._catalogue.served(tuple(standing), ranking, request)
        self._rounds.shown = self._sets[0 if leads else 1].copy()

    # --- people ----------------------------------------------------------------------------------

    def _prepared(self, person: Any) -> tuple[Any, Any, NDArray[np.int64]]:
        """What each of the two learners takes up, and the difference of rewards in units."""
        one, number = self._checked_person(person), self._rounds.number
        difference = self._comparison.of(self._sets, one)
        leader = self._leader.prepared(one, number, self._sets[0])
        return leader, self._experts.prepared(one, number, self._sets[1]), difference

    def _prepared_late(self, person: Any, late: int) -> Any:  # noqa: ARG002
        """The person, who may have to wait, and is then compared by the sets of that time."""
        self._prepared(person)
        return person

    def _observe_waiting(self, ready: Any) -> None:
        self._observe(self._prepared(ready))

    def _observe(self, person: Any) -> None:
        leader, experts, difference = person
        self._leader.observe(leader, self._sets[0])
        self._experts.observe(experts, self._sets[1])
        self._compare(difference)

    def _observe_rows(self, people: Population, first: int, within_limit: NDArray[np.bool_]) -> None:
        self._leader.observe_rows(people, first, within_limit, self._sets[0])
        self._experts.observe_rows(people, first, within_limit, self._sets[1])
        rows = people.as_rows()
        assert rows is not None
        some = rows.chunk(first, first + within_limit.size)
        self._compare(self._comparison.of_rows(self._sets, some)[within_limit])

    def _compare(self, differences: NDArray[np.int64]) -> None:
        if not self._total.exhausted:  # nobody who comes later is in any release
            self._total.add(differences.sum(keepdims=True))

    # A part holds the sums of both learners and of the comparison, one after the other.

    def _check_divisible(self) -> None:
        self._leader.check_divisible()
        self._experts.check_divisible()

    def _summed(self) -> Summed:
        sets = self._sets.copy()
        leader, experts = self._leader.summed(sets[0]), self._experts.summed(sets[1])
        parts = [np.full(math.prod(one.shape), one.most) for one in (leader, experts)]
        most = np.concatenate([*parts, [self.settings.units]])
        least = np.zeros_like(most)
        least[-1] = -self.settings.units
        difference = partial(self._comparison.of, sets)
        return Summed(most.shape, least, most, partial(_units, leader.units, experts.units, difference))

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        place, own = self.settings.n_items, (self.settings.k, self.settings.n_items)
        if not self._leader.exhausted:
            self._leader.add(sums[:place])
        if not self._experts.exhausted:
            self._experts.add(sums[place:-1].reshape(own))
        self._compare(sums[-1:])

    # --- whole streams ---------------------------------------------------------------------------

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        compiles = self._experts.compiles and self._total.compiles and self._catalogue.active is None
        if not compiles or self.settings.rounds is None:
            super()._run_rows(stream, rows)  # trees and growing batches
            return
        weights, start, count = self._comparison.weights(rows), 0, stream.rewards.size
        while start < count:
            self._next()
            number, every = self._rounds.number, self.settings.resample_every
            passed = number % every
            # Rounds that pass before the leader or new noise has to be drawn.
            size = min(count - start, self.settings.leader.room(number))
            for one in (self._total, self._experts):
                size = min(size, every - passed + every * one.rows_ahead(size, draw=False))
            part = stream.part(slice(start, start + size))
            own = weights[start : start + size]
            self._rounds.close(size, then=partial(self._play, part, rows, own, start, number, passed))
            start += size

    def _play(
        self, part: Stream, rows: Rows, weights: NDArray[np.float64], first: int, number: int, passed: int
    ) -> None:
        """Rounds of one leader's set, compiled; the sets of the first have been drawn."""
        settings, size, people, limit = self.settings, weights.size, part.people, part.within_limit
        rewards, follows = np.empty((2, size)), np.zeros(size, dtype=np.bool_)
        follows[0] = self._leads
        rows.compressed.values(self._sets[0], first, rewards[0])
        self._leader.observe_rows(people, first, limit, self._sets[0])
        own = Stream(people, limit, rewards[1], part.selections)
        self._sets[1] = self._experts.play(own, rows, people, first, self._sets[1], number, passed)
        differences = np.where(limit, self._comparison.differences(rewards, weights), 0)
        draws = range(settings.resample_every - passed, size, settings.resample_every)
        uniforms, rate = self._public.generator.random(len(draws)), settings.rate_after(number)
        with self._total.compiled(len(draws)) as (sums, _, pending):
            rounds = FollowedRounds(sums, pending, float(settings.units), _ODDS)
            rounds.run(differences, settings.resample_every, passed, rate, uniforms, follows)
        if self._total.exhausted:
            self._total.pending[:] = 0  # nobody who comes later is in any release
        part.rewards[:] = np.where(follows, *rewards)
        part.selections[follows] = self._sets[0]
        self._rounds.shown = part.selections[-1].copy()

    def _spent(self) -> Account:
        sums = (self._leader, self._experts, self._total)
        return self._account(*(entry for one in sums for entry in one.entries()))


def _units(leader: Counting, experts: Counting, difference: Counting, person: Any) -> NDArray[np.int64]:
    """A person's part in the sums of both learners and in the comparison."""
    return np.concatenate((leader(person), experts(person).ravel(), difference(person)))
