"""One leader on private sums of leave-one-out gains: a single vector of all items, whatever k is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...backends.patience import for_one
from ...constraints import Cardinality
from ...constraints.matroids.matroid import Matroid
from ...core.progress import track
from ...core.settings import Setting
from ...core.state import Saved
from ...objectives import Population, answers
from ...objectives.rows.table import Rows
from ...privacy import Account, Seed, spend_from
from ...privacy.spending import Spending
from ..partial import Counting
from ..parts import Part
from ..protocol import Stream
from ..released import Known, Released
from ..segments.pool import Pooled
from ..serving import ServingLearner
from ..total import PrivateTotal
from .leader_settings import UNITS, LeaderSettings
from .selector import OnlineSelector


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

    constraint = Setting("The sets that may be shown.")
    batch = Setting('For how many rounds a set is shown, or "geometric".')
    first_batch = Setting("For how many rounds the first set is shown.")
    sums = Setting("The method of the running sum.")

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
        start: Released | ServingLearner | None = None,
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
        settings = self.settings
        self._coins = self._gate.coins()
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
            scores = self._coins.generator.random(settings.n_items)
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

    @property
    def _constrained(self) -> bool:
        return not isinstance(self.settings.constraint, Cardinality)

    def _feasible(self, items: list[int]) -> bool:
        return self.settings.constraint.contains(items)

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        super()._check_enough(active)
        best = self.settings.constraint.maximize(np.where(active, 1.0, 0.0))
        if np.count_nonzero(best) < self.settings.k:
            raise ValueError(f"the items that are left make no set of {self.settings.k}")

    def _known(self) -> Known:
        return self._total.averages(self._rounds.number, self.settings.k, self.settings.bound)

    def _start(self, start: Released) -> None:
        super()._start(start)
        if start.values is not None:
            self._total.warm(start.values / self.settings.bound, start.people)

    def _tell(self, pool: Pooled) -> None:
        people = self.settings.batch_start(self._total.taken)
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

    def _gather(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        if not self._total.exhausted:
            self._total.gather(sums)

    def _absorb(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        elif not self._total.exhausted:
            self._total.gather(person)

    def _add_rows(self, people: Population, within_limit: NDArray[np.bool_], first: int) -> None:
        if self._total.exhausted:
            return  # nobody who comes now is in any release
        rows = people.as_rows()
        assert rows is not None
        _add_units(rows, first, within_limit, self._shown, self.settings.bound, self._total.gathered)

    def _loop(self) -> Any:
        return backends.selectors.add_leave_one_out

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        rewards, settings = stream.rewards, self.settings
        values = (rows.kind.code, rows.kind.fresh, *rows.arrays)
        start, now = 0, self._rounds.number
        ends = settings.ends[settings.batches(now + 1) : settings.batches(now + rewards.size)]
        stops = [*(end - now for end in ends), rewards.size]
        for stop in track(stops, "batches", stream.progress):
            self._next()
            backends.selectors.row_values(*values, start, self._shown, rewards[start:stop])
            stream.selections[start:stop] = self._shown
            learned = partial(self._add_rows, stream.people, stream.within_limit[start:stop], start)
            self._rounds.close(stop - start, then=learned)
            start = stop

    def _could_show(self, shown: NDArray[Any]) -> bool:
        return super()._could_show(shown) and self.settings.constraint.contains(shown.tolist())

    def _spent(self) -> Account:
        return self._account(*self._total.released())

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {"coins": self._coins, "total": self._total}

    def _restore(self, saved: Saved) -> None:
        self._coins.resume(saved.part("coins"))
        settings, rounds = self.settings, self._rounds
        least = settings.batches(rounds.number + rounds.is_open)
        waiting = rounds.number - (settings.ends[least - 1] if least else 0)
        self._total.resume_after(
            saved.part("total"), least, min(waiting, settings.longest), 0, most=float(UNITS)
        )


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
    inside = np.zeros(rows.n_items, dtype=np.bool_)
    inside[shown] = True
    loop = backends.selectors.add_leave_one_out
    if rows.n_rows == 1:
        loop = for_one(loop, rows.sparse.indices.size, rows.n_items)
    about = (first, within_limit, inside, bound, float(UNITS))
    loop(rows.kind.code, rows.kind.fresh, *rows.arrays, *about, out)


def _weighted(alone: NDArray[np.float64], gains: NDArray[np.float64]) -> NDArray[np.int64]:
    """The gains of a person whose items add ``alone``, weighted, in whole units."""
    weight = UNITS * float(backends.selectors.norm_weight(float(alone @ alone)))
    return np.floor(gains * weight).astype(np.int64)
