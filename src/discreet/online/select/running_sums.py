"""Ordered experts that follow the regularised leader on private running sums of gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...backends import arrays
from ...backends.patience import Patience, for_one
from ...core import checks
from ...core.progress import track
from ...core.settings import Setting
from ...core.state import Saved
from ...objectives import Population, answers
from ...objectives.rows.table import Rows
from ...privacy import (
    Account,
    Seed,
    spend_from,
)
from ...privacy.spending import Spending
from ..contribution import capped
from ..partial import Counting
from ..parts import Part
from ..protocol import CALIBRATIONS, Stream
from ..released import Known, Released
from ..segments.pool import Pooled
from ..serving import ServingLearner
from ..total import PrivateTotal
from .running_sum_settings import RunningSumSettings
from .selector import OnlineSelector, check_growth

PATIENCE = Patience(1 << 21)  # weights of draws in NumPy
# An expert that begins with an item prefers it by so many times what makes it as likely as all others.
_PREFERENCE = 2.0


class RunningSumSelector(OnlineSelector):
    """k ordered experts, each choosing by a softmax of privately summed gains.

    Expert i keeps the sum, over people, of what each item would have added on top of the first i - 1 items
    shown. The k sums leave through one private running sum of k n_items coordinates, so the noise of a
    round hardly grows with the number of rounds (with its logarithm for ``sums="sqrt"`` and ``"blt"``),
    while drawing each set by the exponential mechanism pays for every draw. Any private experts will do,
    paper 000 remarks; these are the experts of Smith and Thakurta's kind with better sums.

    ``items_per_person=m`` counts at most m of each person's items (chosen by a coin of the round): noise then
    grows with sqrt(m) instead of sqrt(n_items), and the learner sees a little less of each person.
    ``weights="norm"`` drops nobody's items and weights people instead: somebody whose items are worth much
    counts less, by min(1, bound / L2 norm of the values of single items), and noise does not grow with
    n_items at all.
    ``resample_every=B`` draws a new set every B rounds, at the same learning ``rate`` as without; it is
    faster and, on streams that do not turn against it within a batch, better. ``"auto"`` takes the B and
    the rate of the smallest certified regret. ``rate="falling"`` starts fast and slows down as 2 sqrt(k ln(n)
    / t): better where people want the same all the time, at up to 2.25 times the certified cost of learning.
    ``rounds=None`` is for streams without an end: batches grow by 15 % each from ``first_batch`` on (8
    standard deviations of the noise, if it is not given), so that 100 releases, reserved at once, last for
    some 10^8 rounds; the set of the last one is served on. The rate falls then, unless it is a number. No
    regret is certified, as growing batches can cost a share of all rounds: declare rounds for that.
    ``noise="laplace"`` with ``sums="tree"`` is pure epsilon.
    ``min_separation=s`` is for people who return, with ``max_rounds_per_person=b``: of everybody, who then
    needs a ``person_id``, at most b batches (of ``resample_every`` rounds) count, once each and at least s
    apart. Noise is for what these can move together (`privacy.Participation`), not b times what one can.

    Formal guarantee: one person's gains move the stacked vector by at most bound sqrt(min(k n, 2 k m)) in L2
    (replace), bound min(k n, 2 k m) in L1; weighted, by bound sqrt(2 k) (added or removed: sqrt k). There no
    gain exceeds what the item is worth alone (functions are cut to that), so each expert's part of a person's
    vector has a norm of at most the bound, and no entry is negative. Everything after the running sum is
    post-processing. Holds for people chosen with knowledge of all earlier sets. Sets are drawn with public
    coins.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [0, 1, 0]] * 50)
    >>> learner = RunningSumSelector(3, 2, len(people), dc.Budget(1.0, 1e-6), seed=0)
    >>> len(learner.run(people))
    100
    """

    settings: RunningSumSettings
    _shares = False
    _settings_type: ClassVar[type[RunningSumSettings]] = RunningSumSettings

    sums = Setting("The method of the running sums.")
    noise = Setting("The distribution of their noise.")
    items_per_person = Setting("How many of a person's items are counted; None for all.")
    weights = Setting('How people are weighted: "norm", or None for all alike.')
    resample_every = Setting("For how many rounds a set is shown.")
    rate = Setting("Weights of a draw are exp(rate x private sum of gains); of the last one, if it falls.")
    fastest = Setting("The rate that a falling one starts with; None for a constant rate.")

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        sums: str = "sqrt",
        noise: str = "gaussian",
        items_per_person: int | None = None,
        weights: str | None = None,
        resample_every: int | str = 1,
        first_batch: int | None = None,
        min_separation: int | None = None,
        rate: float | str | None = None,
        bound: float = 1.0,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        start: Released | ServingLearner | None = None,
        seed: Seed = None,
    ) -> None:
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            raise ValueError('no constants were published for this learner; use calibration="tight"')
        share = spend_from(budget, seed)
        settings = RunningSumSettings.tight(
            n_items,
            k,
            rounds,
            share,
            sums=sums,
            noise=noise,
            items_per_person=items_per_person,
            weights=weights,
            resample_every=resample_every,
            first_batch=first_batch,
            min_separation=min_separation,
            rate=rate,
            bound=bound,
            labels=labels,
        )
        super().__init__(settings, share, start)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds (see `bounds.noisy_leader`).

        Infinite where none are declared: none is known then.
        With ``items_per_person`` it is about the people as they are counted, cut to that many items, and with
        ``weights`` about weighted people, also in the comparison; rounds that are not learned from (beyond
        ``max_rounds_per_person``) are not in it either.
        """
        return self._certified(self.settings.certified_regret)

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self.settings
        if (settings.spec is None) != (settings.event is None):
            raise ValueError(f"event={settings.event}, with {settings.releases} sums to release")
        # Gains are counted in units: a power of two to 1, and 2^31 to 2^32 to the bound. Fewer where a batch
        # is so long that its sum would not be an exact float.
        bits = min(32, 53 - settings.longest.bit_length())
        self._units = float(2.0 ** (bits - math.frexp(settings.bound)[1]))
        self._most = math.floor(settings.bound * self._units)
        self._coins, self._cap_coins = self._gate.coins(), self._gate.coins()
        self._total = PrivateTotal(
            settings.spec,
            self._gate,
            settings.event,
            (settings.k, settings.n_items),
            units=self._units,
            coins=self._coins,
            ahead=True,
            disjoint=settings.participation is None,
            label="gains",
        )

    def _due(self) -> bool:
        return self.settings.due(self.round)

    def _draw(self) -> NDArray[np.int32]:
        if self.round:
            self._total.release()
        return self._drawn()

    def _drawn(self) -> NDArray[np.int32]:
        known: NDArray[np.float64] | None = None
        if self._pool is not None:
            self._tell(self._pool)
            known = self._pool.look()
        if known is None:
            known = self._total.scores(self.round, self.settings.k)
        shown = np.empty(self.settings.k, dtype=np.int32)
        coins = self._coins.generator.random(self.settings.k)
        how: Any = arrays if PATIENCE.lasts(known.size) else backends.selectors
        how.draw_ordered(self._masked(known), self.settings.rate_after(self.round), coins, shown)
        return shown

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> RunningSumSettings:
        settings = replace(self.settings, n_items=n_items, labels=labels)
        check_growth(self.settings.spec, settings.spec, self.budget.neighbours)
        return settings

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if settings is None:
            return
        places = np.ix_(np.arange(settings.k), np.arange(self.settings.n_items))
        self._total.grow(settings.spec, (settings.k, settings.n_items), places, self.round)

    @property
    def _whole_units(self) -> tuple[tuple[int, ...], int]:
        return (self.settings.k, self.settings.n_items), self._most

    def _known(self) -> Known:
        return self._total.averages(self.round, self.settings.k)

    def _start(self, start: Released) -> None:
        """Every expert begins with what items are worth alone, and prefers its item of the last set."""
        settings, people = self.settings, max(1, start.people)
        values = np.zeros(settings.n_items) if start.values is None else start.values
        own = np.tile(values, (settings.k, 1))
        preferred = _PREFERENCE * math.log(max(2, settings.n_items)) / settings.rate
        for expert, item in enumerate(start.items[: settings.k]):
            own[expert, item] += preferred / people
        self._total.warm(own, people)

    def _tell(self, pool: Pooled) -> None:
        people = self.settings.batch_start(self._total.taken)
        pool.tell(self._total.evidence(people, self.settings.k, self.settings.bound), people)

    def _ranking(self) -> NDArray[np.float64]:
        if self._pool is not None and (scores := self._pool.scores()) is not None:
            return np.asarray(scores.sum(axis=0))
        return np.asarray(self._total.scores(self.round, self.settings.k).sum(axis=0))

    def _prepared(self, person: Any) -> Population | NDArray[np.int64]:
        """Rows for the compiled loop, or what each item adds for each expert, in whole units."""
        one = self._counted(super()._prepared(person))
        if one.as_rows() is not None:
            return one
        return self._whole(one)

    @property
    def _whole(self) -> Callable[[Any], NDArray[np.int64]]:
        """What makes whole units of a person."""
        weighted = self.settings.weights is not None
        return partial(_units_of, self.settings.bound, weighted, self._units, self._most, self._shown)

    def _sums_shape(self) -> tuple[int, ...]:
        settings = self.settings
        if settings.items_per_person is not None or settings.participation is not None:
            raise ValueError("items_per_person= and min_separation= go by rounds, which a part does not know")
        return settings.k, settings.n_items

    def _counting(self) -> Counting:
        return self._whole

    def _batch(self) -> int:
        return self.settings.batch_start(self.settings.batch_at(self.round))

    def _room(self) -> int:
        ends = self.settings.ends
        batch = self.settings.batch_at(self.round)
        end = ends[batch] if batch < len(ends) else self.round + (1 << 24)
        return int(end) - self.round

    def _gather(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        if self._learning:
            self._total.gather(sums)

    def _counted(self, people: Population) -> Population:
        """The people of the rounds to come as they are counted."""
        return capped(people, self.settings.items_per_person, self._cap_coins, self.round)

    def _absorb(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        elif self._learning:
            self._total.gather(person)

    @property
    def _learning(self) -> bool:
        """Whether people still come into a release, where there is no end of rounds."""
        return self.settings.rounds is not None or not self._total.exhausted

    def _add_rows(self, people: Population, within_limit: NDArray[np.bool_], first: int) -> None:
        if not self._learning:
            return
        rows = people.as_rows()
        assert rows is not None
        about = (self.settings.bound, self.settings.weights is not None, self._units, self._most)
        _add_units(rows, first, within_limit, self._shown, about, self._total.gathered)

    def _loop(self) -> Any:
        return backends.selectors.ordered_rounds

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        people, count = stream.people, stream.rewards.size
        counted = self._counted(people if len(people) == count else people[:count])
        plain = self._total.compiles and self._catalogue.active is None
        if not plain or self.settings.rounds is None:
            self._run_batches(stream, rows, counted)
            return
        _check_items(counted, self.settings.items_per_person)
        first = 0
        while first < count:
            if first == 0 or self._total.exhausted:
                self._next()
            stop = first + self._rounds_ahead(count - first)
            here = slice(first, stop)
            about = (stream.within_limit[here], stream.rewards[here], stream.selections[here])
            self._play_rows(rows, counted, first, *about)
            first = stop

    @property
    def _passed(self) -> int:
        """How many rounds of the last set's batch are over: all where a new one is due."""
        passed = self.round % self.settings.resample_every
        return passed if passed or self._rounds.is_open else self.settings.resample_every

    def _rounds_ahead(self, count: int, *, draw: bool = True) -> int:
        """How many of the next ``count`` rounds a compiled loop can play with the noise there is."""
        every = self.settings.resample_every
        return min(count, every - self._passed + every * self._total.rows_ahead(count, draw=draw))

    def _play_rows(
        self,
        rows: Rows,
        counted: Population,
        first: int,
        within_limit: NDArray[np.bool_],
        rewards: NDArray[np.float64],
        selections: NDArray[np.int32],
    ) -> None:
        """So many rounds as there are ``rewards``, compiled."""
        learned, settings, done, size = counted.as_rows(), self.settings, self.round, rewards.size
        assert learned is not None
        every, passed, shown = settings.resample_every, self._passed, self._shown.copy()
        draws = range(done + every - passed, done + size, every)
        rates = np.full(len(draws), settings.rate)
        if settings.fastest is not None:
            rates[:] = [settings.rate_after(t) for t in draws]
        coins = self._coins.generator.random((rates.size, settings.k))
        with self._total.compiled(rates.size) as (inside, known, gathered):
            backends.selectors.ordered_rounds(
                rows.kind.code,
                rows.kind.fresh,
                rows.arrays,
                learned.arrays,
                first,
                within_limit,
                every,
                passed,
                rates,
                coins,
                shown,
                settings.bound,
                settings.weights is not None,
                self._units,
                self._most,
                inside,
                known,
                known.reshape(gathered.shape),
                gathered,
                rewards,
                selections,
            )
            self._rounds.close(size)
            self._rounds.show(shown)

    def _run_batches(self, stream: Stream, rows: Rows, counted: Population) -> None:
        """Trees and growing batches: the same gains, compiled batch by batch, and sums one by one."""
        rewards, count, now, settings = stream.rewards, stream.rewards.size, self.round, self.settings
        values = (rows.kind.code, rows.kind.fresh, *rows.arrays)
        ends = settings.ends[settings.batch_at(now) : settings.batch_at(now + count - 1)]
        starts = [0, *(end - now for end in ends)]
        for batch in track(range(len(starts)), "batches", stream.progress):
            start = starts[batch]
            stop = starts[batch + 1] if batch + 1 < len(starts) else count
            self._next()
            backends.selectors.row_values(*values, start, self._shown, rewards[start:stop])
            stream.selections[start:stop] = self._shown
            learned = partial(self._add_rows, counted, stream.within_limit[start:stop], start)
            self._rounds.close(stop - start, then=learned)

    def _spent(self) -> Account:
        return self._account(*self._total.released())

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {"coins": self._coins, "cap_coins": self._cap_coins, "total": self._total}

    def _restore(self, saved: Saved) -> None:
        self._coins.resume(saved.part("coins"))
        self._cap_coins.resume(saved.part("cap_coins"))
        settings, rounds, total = self.settings, self._rounds, saved.part("total")
        if settings.rounds is not None:
            self._total.resume(total, rounds, settings.resample_every, most=self._most)
            return
        least, waiting = settings.gathered_after(rounds)
        self._total.resume_after(total, least, waiting, 0, most=self._most)


def _check_items(people: Population, most: int | None) -> None:
    """Refuse people of more items than are paid for: a compiled loop does not look again."""
    rows = people.as_rows()
    assert rows is not None
    if most is not None and int(np.diff(rows.sparse.indptr).max()) > most:
        raise ValueError(f"somebody has more than items_per_person={most} items")


def _units_of(
    bound: float, weighted: bool, units: float, most: int, shown: NDArray[np.int32], person: Any
) -> NDArray[np.int64]:
    """What each item adds for each expert, for a person or for people who are rows, in whole units."""
    rows = person.as_rows()
    if rows is not None:
        out = np.zeros((shown.size, rows.n_items), dtype=np.int64)
        everybody = np.ones(rows.n_rows, dtype=np.bool_)
        _add_units(rows, 0, everybody, shown, (bound, weighted, units, most), out)
        return out
    gains = answers.gains_along(person, shown.tolist(), bound)
    if weighted:
        alone = gains[0] / bound
        gains = np.minimum(gains, gains[0]) * backends.selectors.norm_weight(float(alone @ alone))
    return np.clip(np.floor(gains * units), 0, most).astype(np.int64)


def _add_units(
    rows: Rows,
    first: int,
    within_limit: NDArray[np.bool_],
    shown: NDArray[np.int32],
    about: tuple[float, bool, float, int],
    out: NDArray[np.int64],
) -> None:
    """Add the same of the rows from ``first`` on who are within their limit."""
    loop = backends.selectors.add_row_gains
    if rows.n_rows == 1:
        loop = for_one(loop, rows.sparse.indices.size, shown.size)
    loop(rows.kind.code, rows.kind.fresh, *rows.arrays, first, within_limit, shown, *about, out)
