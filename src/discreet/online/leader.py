"""One leader on private sums of leave-one-out gains: a single vector of all items, whatever k is."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Matroid
from ..core import checks
from ..core.progress import track
from ..kernels.selection import add_leave_one_out, norm_weight
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..privacy import (
    Account,
    Event,
    GaussianNoise,
    Participation,
    Seed,
    Share,
    SumSpec,
    VectorBounds,
    spend_from,
)
from ..privacy.accountant import Spending
from ..privacy.prefix_sum import METHODS
from .batches import LONGEST, first_batch, geometric_ends
from .learner import Stream
from .partial import Counting
from .pool import Pooled
from .released import Estimates, Released
from .selector import OnlineSelector, SelectorSettings, common_settings
from .total import PrivateTotal

# Whole units to 1. The sum of the longest batch is an exact float.
UNITS = 1 << 28


def _batch(value: Any) -> int | str:
    if isinstance(value, str):
        return checks.one_of("batch", value, ("geometric",))
    return checks.whole("batch", value, at_least=1, at_most=LONGEST)


@dataclass(frozen=True, kw_only=True)
class LeaderSettings(SelectorSettings):
    """What a `LeaderSelector` goes by."""

    constraint: Matroid
    sums: str
    batch: int | str
    first_batch: int
    event: Event | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.constraint, Matroid) or self.constraint.n_items != self.n_items:
            raise ValueError(f"constraint={self.constraint!r} is not a matroid over {self.n_items} items")
        if self.k > self.constraint.rank:
            raise ValueError(
                f"k={self.k} exceeds the rank of {self.constraint!r}; choose k <= {self.constraint.rank}"
            )
        if isinstance(self.batch, int) and (self.rounds is None or self.first_batch != self.batch):
            raise ValueError(f"batch={self.batch} needs declared rounds, and no other first batch")

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int | None,
        rounds: int | None,
        share: Share,
        *,
        constraint: Matroid | None = None,
        batch: int | str = "geometric",
        first_batch: int | None = None,
        min_separation: int | None = None,
        sums: str = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> LeaderSettings:
        """The settings for what is asked, with the least noise that fits into ``share``.

        The first batch is 8 standard deviations of the first sum's noise long: an item that one person in
        eight wants then stands out by one of them. Of a declared number of rounds it takes a quarter at most.
        (On the data set eshop_clicks, at epsilon 1, anything from 40 to 150 people serves the same.)

        >>> import discreet as dc
        >>> LeaderSettings.tight(285, 5, None, dc.Budget(1.0, 1e-6).share()).first_batch
        77
        """
        if constraint is not None and not isinstance(constraint, Matroid):
            raise TypeError(f"constraint must be a matroid, got {checks.shown(constraint)}")
        if k is None and constraint is not None:
            k = constraint.over(checks.whole("n_items", n_items, at_least=1)).rank
        common = common_settings(n_items, k, rounds, bound, labels)  # type: ignore[arg-type]
        size, chosen = common["n_items"], common["k"]
        common["constraint"] = Cardinality(chosen, size) if constraint is None else constraint.over(size)
        common |= {"sums": checks.one_of("sums", sums, METHODS), "event": None}
        common["participation"] = Participation.declared(share, min_separation)
        length = _batch(batch)
        if isinstance(length, int):
            if first_batch is not None:
                raise ValueError(f"batch={length} is fixed; first_batch needs 'geometric'")
            if rounds is None:
                raise ValueError(
                    f"batch={length} with any number of rounds would release any number of sums; declare"
                    " rounds, or take batch='geometric'"
                )
            first = length
        elif first_batch is not None:
            first = checks.whole("first_batch", first_batch, at_least=1, at_most=LONGEST)
        else:
            first = _first(cls(**(common | {"rounds": None}), batch=length, first_batch=1), share)
            first = max(chosen, first if rounds is None else min(first, rounds // 4))
        found = cls(**common, batch=length, first_batch=first)
        spec = found.spec
        return found if spec is None else replace(found, event=spec.event(share, share.definition))

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a sum is released and a new set drawn: batches end there."""
        if isinstance(self.batch, int):
            return range(self.batch, self.horizon, self.batch)
        return geometric_ends(self.first_batch, self.rounds)

    @property
    def longest(self) -> int:
        """How many people a batch that is released has at most."""
        if len(self.ends) < 2:
            return self.first_batch
        return self.ends[-1] - self.ends[-2]

    def batches(self, rounds: int) -> int:
        """How many batches are over before round ``rounds``."""
        return bisect_left(self.ends, rounds)

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of people's weighted gains; None where nothing is released."""
        if not self.ends:
            return None
        vectors = VectorBounds(self.n_items, 2, 1.0, (0.0, 1.0), None, self.longest)
        return SumSpec(
            vectors,
            len(self.ends),
            self.sums,
            variance_reduction=self.sums == "tree",
            participation=self.participation,
        )

    def batch_at(self, number: int) -> int:
        return self.batches(number + 1)

    def batch_start(self, batch: int) -> int:
        return self.ends[batch - 1] if batch else 0


def _first(endless: LeaderSettings, share: Share) -> int:
    """How many people make the first batch: the noise of the first of many sums, several times."""
    spec = endless.spec
    assert spec is not None
    event = spec.event(share, share.definition)
    assert isinstance(event, GaussianNoise)
    return first_batch(float(event.sigma) * spec.error(1))


class LeaderSelector(OnlineSelector):
    """Show the items with the largest private sums of what each adds to the other shown ones.

    For every person, item a earns f(S + a) - f(S) if it is outside of the shown set S and f(S) - f(S - a) if
    it is inside. The noisy sum of these gains over everybody so far says which set is shown next: its k
    largest entries, or the heaviest independent set of a matroid (`constraint`; for a partition the best of
    every block). A set that is shown keeps earning what it alone brings, and an item that duplicates it earns
    nothing: the leaders settle on items that complete each other, with one vector instead of one per slot.

    ``batch="geometric"`` releases a sum after ``first_batch`` people, and then after batches each 1.15 times
    as long as the one before: few releases last for long. Where ``rounds`` is None 100 of them are reserved,
    for some 10^8 people, at 15 % more noise than 35 have; the set of the last one is served on. ``batch=B``
    is a release every B rounds, which reacts sooner; it needs ``rounds``. Before the first release a random
    set is shown.

    ``min_separation=s`` is for people who return, with ``max_rounds_per_person=b``: of everybody, who then
    needs a ``person_id``, at most b batches count, once each and at least s apart. Noise is for what these
    can move together (`privacy.Participation`), not for b times what one can.

    Formal guarantee: one person moves one sum by sqrt 2 in L2 when replaced, by 1 when added or removed,
    whatever k, n_items and their number of items. Proof. Let h = f / bound, and c the vector of h({a}). By
    submodularity every gain is at most h({a}), and by monotonicity none is negative; each is clipped to
    [0, h({a})], so that functions for which this does not hold cannot break it. The person's gains are
    weighted by u = min(1, 1 / ||c||), so that their L2 norm is at most u ||c|| <= 1. Two vectors of norm at
    most 1 without negative entries are at most a right angle apart: their distance is at most sqrt 2. The
    weight and the weighted gains are rounded down to whole units of 2^-28, and the weight is lowered by
    2^-20 of itself before, which is more than the rounding of ||c|| can amount to. What is summed are whole
    units, exactly. Everything after the running sum is post-processing. Holds for people chosen with
    knowledge of all earlier sets. Noise is Gaussian, so the budget needs a delta.

    Regret: nothing is certified. A greedy leader can be fooled by a stream made against it
    (`RunningSumSelector` cannot), and fixed points of leave-one-out gains need not be the best set. On
    stationary streams it serves more than anything that is certified.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 500)
    >>> learner = LeaderSelector(4, 2, None, dc.Budget(1.0, 1e-6), seed=0)
    >>> trace = learner.run(people)
    >>> 1 in learner.choose().items, trace.average > 0.7
    (True, True)
    """

    settings: LeaderSettings
    _shares = True
    _settings_type: ClassVar[type[LeaderSettings]] = LeaderSettings
    _state = ("_public", "_total")

    def __init__(
        self,
        n_items: int,
        k: int | None,
        rounds: int | None,
        budget: Spending,
        *,
        constraint: Matroid | None = None,
        batch: int | str = "geometric",
        first_batch: int | None = None,
        min_separation: int | None = None,
        sums: str = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        settings = LeaderSettings.tight(
            n_items,
            k,
            rounds,
            share,
            constraint=constraint,
            batch=batch,
            first_batch=first_batch,
            min_separation=min_separation,
            sums=sums,
            bound=bound,
            labels=labels,
        )
        super().__init__(settings, share, start)

    @property
    def certified_regret(self) -> float:
        """Infinite: no bound is known that holds for every stream."""
        return math.inf

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._constrained = not isinstance(self.settings.constraint, Cardinality)
        settings = self.settings
        self._public = self._gate.public_randomness()
        self._total = PrivateTotal(
            settings.spec,
            self._gate,
            settings.event,
            (settings.n_items,),
            units=float(UNITS),
            disjoint=settings.participation is None,
            label="weighted leave-one-out gains",
        )

    def _due(self) -> bool:
        done = self._rounds.number
        return done == 0 or self.settings.batches(done + 1) > self.settings.batches(done)

    def _draw(self) -> NDArray[np.int32]:
        if self._rounds.number:
            self._total.release()
        return self._drawn()

    def _drawn(self) -> NDArray[np.int32]:
        settings = self.settings
        scores: NDArray[np.float64] | None = None
        if self._pool is not None:
            self._tell(self._pool)
            scores = self._pool.look()
        elif self._rounds.number or self._total.started:
            scores = self._total.scores(self._rounds.number, settings.k)
        if scores is None:
            scores = self._public.generator.random(settings.n_items)
        scores = self._masked(scores)
        base = np.flatnonzero(settings.constraint.maximize(scores, base=True))
        # Where fewer are shown than fit, these are the best so many: greedy takes them first.
        best = base[np.argsort(-scores[base], kind="stable")][: settings.k]
        return best.astype(np.int32)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> LeaderSettings:
        constraint = self.settings.constraint
        if not isinstance(constraint, Cardinality):
            raise ValueError(
                "the constraint is about the items there were: make a new learner, with start= this one"
            )
        more = Cardinality(constraint.rank, n_items)
        return replace(self.settings, n_items=n_items, labels=labels, constraint=more)

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if settings is not None:
            here = (np.arange(self.settings.n_items),)
            self._total.grow(settings.spec, (settings.n_items,), here, self._rounds.number)

    @property
    def _whole_units(self) -> tuple[tuple[int, ...], int]:
        return (self.settings.n_items,), UNITS

    def _feasible(self, items: list[int]) -> bool:
        return self.settings.constraint.contains(items)

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        super()._check_enough(active)
        best = self.settings.constraint.maximize(np.where(active, 1.0, 0.0))
        if np.count_nonzero(best) < self.settings.k:
            raise ValueError(f"the items that are left make no set of {self.settings.k}")

    def _estimates(self) -> Estimates:
        return self._total.averages(self._rounds.number, self.settings.k, self.settings.bound)

    def _start(self, start: Released) -> None:
        super()._start(start)
        if start.values is not None:
            self._total.warm(start.values / self.settings.bound, start.people)

    def _tell(self, pool: Pooled) -> None:
        people = self.settings.batch_start(self._total.count)
        pool.tell(self._total.evidence(people, self.settings.k), people)

    def _ranking(self) -> NDArray[np.float64]:
        if self._pool is not None and (scores := self._pool.scores()) is not None:
            return scores
        return self._total.scores(self._rounds.number, self.settings.k)

    def _prepared(self, person: Any) -> Population | NDArray[np.int64]:
        """Rows for the compiled loop, or the weighted gains of a person in whole units."""
        one = super()._prepared(person)
        if one.as_rows() is not None:
            ready: Population = one
            return ready
        return _units(self.settings.bound, self._shown, one)

    def _sums_shape(self) -> tuple[int, ...]:
        if self.settings.participation is not None:
            raise ValueError("min_separation= goes by rounds, which a part does not know")
        return (self.settings.n_items,)

    def _counting(self) -> Counting:
        return partial(_units, self.settings.bound, self._shown)

    def _batch(self) -> int:
        ends, batch = self.settings.ends, self.settings.batches(self._rounds.number + 1)
        return ends[batch - 1] if batch else 0

    def _room(self) -> int:
        ends, batch = self.settings.ends, self.settings.batches(self._rounds.number + 1)
        end = ends[batch] if batch < len(ends) else self._rounds.number + (1 << 24)
        return int(end) - self._rounds.number

    def _check_sums(self, sums: NDArray[np.int64], count: int) -> None:
        self._total.check(sums, count)

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        if not self._total.exhausted:
            self._total.add(sums)

    def _observe(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        elif not self._total.exhausted:
            self._total.add(person)

    def _add_rows(self, people: Population, within_limit: NDArray[np.bool_], first: int) -> None:
        if self._total.exhausted:
            return  # nobody who comes now is in any release
        rows = people.as_rows()
        assert rows is not None
        _add_units(rows, first, within_limit, self._shown, self.settings.bound, self._total.pending)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        rewards, settings = stream.rewards, self.settings
        start, now = 0, self._rounds.number
        ends = settings.ends[settings.batches(now + 1) : settings.batches(now + rewards.size)]
        stops = [*(end - now for end in ends), rewards.size]
        for stop in track(stops, "batches", stream.progress):
            self._next()
            rows.compressed.values(self._shown, start, rewards[start:stop])
            stream.selections[start:stop] = self._shown
            learned = partial(self._add_rows, stream.people, stream.within_limit[start:stop], start)
            self._rounds.close(stop - start, then=learned)
            start = stop

    def _could_show(self, shown: NDArray[Any]) -> bool:
        return super()._could_show(shown) and self.settings.constraint.contains(shown.tolist())

    def _spent(self) -> Account:
        return self._account(*self._total.entries())


def _units(bound: float, shown: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
    """The weighted leave-one-out gains of a person, or of people who are rows, in whole units."""
    rows = person.as_rows()
    if rows is not None:
        out = np.zeros(rows.n_items, dtype=np.int64)
        _add_units(rows, 0, np.ones(rows.n_rows, dtype=np.bool_), shown, bound, out)
        return out
    alone, gains = answers.leave_one_out(person, shown.tolist(), bound)
    return _weighted(alone / bound, gains / bound)


def _add_units(
    rows: Rows,
    first: int,
    within_limit: NDArray[np.bool_],
    shown: NDArray[np.int32],
    bound: float,
    out: NDArray[np.int64],
) -> None:
    """Add the same of the rows from ``first`` on who are within their limit."""
    add_leave_one_out(rows.compressed, first, within_limit, shown, bound, float(UNITS), out)


def _weighted(alone: NDArray[np.float64], gains: NDArray[np.float64]) -> NDArray[np.int64]:
    """The gains of a person whose items add ``alone``, weighted, in whole units."""
    weight = UNITS * float(norm_weight(answers.squared_length(alone)))
    return np.floor(gains * weight).astype(np.int64)
