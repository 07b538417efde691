"""Ordered experts that follow the regularised leader on private running sums of gains."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..core import checks
from ..core.progress import track
from ..kernels.selection import OrderedRounds, UnitGains, norm_weight
from ..kernels.softmax import draw_ordered
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..privacy import (
    Account,
    Event,
    LaplaceNoise,
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
from .contribution import capped
from .learner import CALIBRATIONS, Stream
from .partial import Counting
from .pool import Pooled
from .released import Estimates, Released
from .selector import OnlineSelector, SelectorSettings, check_growth, common_settings
from .total import PrivateTotal

# A falling rate is so many times what is best for the rounds so far, if they were all.
_FALLING = 2.0


@dataclass(frozen=True, kw_only=True)
class RunningSumSettings(SelectorSettings):
    """What a `RunningSumSelector` goes by.

    ``rate`` is that of every draw, or of the last one where it falls from ``fastest``. ``first_batch`` is
    given where no rounds are declared: batches grow geometrically then. A falling rate is then that after one
    round, if it were not for ``fastest``.
    """

    sums: str
    noise: str
    items_per_person: int | None
    weights: str | None
    resample_every: int
    first_batch: int | None
    rate: float
    fastest: float | None
    event: Event | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and (self.noise == "laplace" or self.items_per_person is not None):
            raise ValueError(f"weights={self.weights!r} needs Gaussian noise, and no items_per_person")
        if (self.rounds is None) != (self.first_batch is not None) or (
            self.rounds is None and self.resample_every != 1
        ):
            raise ValueError("first_batch goes with rounds=None, and resample_every with declared rounds")

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int | None,
        share: Share,
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
        labels: Sequence[Any] | None = None,
    ) -> RunningSumSettings:
        """The settings for what is asked, with the least noise that fits into ``share``."""
        common = common_settings(n_items, k, rounds, bound, labels)
        checks.one_of("sums", sums, METHODS)
        checks.one_of("noise", noise, ("gaussian", "laplace"))
        if noise == "laplace" and sums != "tree":
            raise ValueError('noise="laplace" needs sums="tree"')
        if items_per_person is not None:
            checks.whole("items_per_person", items_per_person, at_least=1, at_most=common["n_items"])
        if weights is not None:
            checks.one_of("weights", weights, ("norm",))
        falls = isinstance(rate, str)
        if isinstance(rate, str):
            checks.one_of("rate", rate, ("falling",))
        common |= {"sums": sums, "noise": noise, "items_per_person": items_per_person, "weights": weights}
        common["participation"] = Participation.declared(share, min_separation)
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        if horizon is None:
            if resample_every != 1:
                raise ValueError(
                    f"resample_every={resample_every} with any number of rounds would release any number of"
                    " sums; declare rounds, or leave it out: batches then grow from first_batch on"
                )
            return cls._endless(common, share, first_batch, rate)
        if first_batch is not None:
            raise ValueError(f"first_batch={first_batch} is for rounds=None; take resample_every")
        common["first_batch"] = None

        def of_batch(batch: int, cautious: int) -> RunningSumSettings:
            best, fastest = bounds.best_rate(size, chosen, horizon, cautious, largest), None
            if falls:
                fastest = 1.0 / (cautious * largest)
                best = min(fastest, _FALLING * best)
            found = cls(**common, resample_every=batch, rate=best, fastest=fastest, event=None)
            spec = found.spec
            return found if spec is None else replace(found, event=spec.event(share, share.definition))

        if resample_every == "auto":
            grid = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * horizon.bit_length())})
            every = [of_batch(batch, batch) for batch in grid if batch <= horizon]
            # Where Hedge's own part is trivial already, the batch of the least noise is taken.
            found = min(every, key=lambda one: one._learning_regret() + chosen * one.noise_maximum)
        else:
            # A batch of the user's choosing is taken as a matter of convenience: learn as fast as without it.
            # That is certified only for batches up to 1 / (rate bound); "auto" keeps to what is certified.
            found = of_batch(checks.whole("resample_every", resample_every, at_least=1), 1)
        if rate is None or falls:
            return found
        return replace(found, rate=checks.real("rate", rate, above=0.0))

    @classmethod
    def _endless(
        cls, common: dict[str, Any], share: Share, first: int | None, rate: float | str | None
    ) -> RunningSumSettings:
        """Settings for any number of rounds: the rate falls, unless it is given as a number."""
        largest, fastest = common["bound"], None
        if rate is None or isinstance(rate, str):
            fastest = 1.0 / largest
            rate = _FALLING * math.sqrt(common["k"] * math.log(max(common["n_items"], 2))) / largest
        common |= {"resample_every": 1, "rate": checks.real("rate", rate, above=0.0), "fastest": fastest}

        def of_first(length: int) -> RunningSumSettings:
            found = cls(**common, first_batch=length, event=None)
            assert found.spec is not None
            return replace(found, event=found.spec.event(share, share.definition))

        if first is not None:
            return of_first(checks.whole("first_batch", first, at_least=1, at_most=LONGEST))
        found = of_first(1)
        spec, event = found.spec, found.event
        assert spec is not None
        assert event is not None
        return of_first(first_batch(spec.noise_std(event, 1) / largest))

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a sum is released and a new set drawn: batches end there."""
        if self.first_batch is None:
            return range(self.resample_every, self.horizon, self.resample_every)
        return geometric_ends(self.first_batch, None)

    @property
    def longest(self) -> int:
        """How many people a batch has at most."""
        return self.resample_every if self.first_batch is None else self.ends[-1] - self.ends[-2]

    def batch_at(self, number: int) -> int:
        return bisect_right(self.ends, number)

    def batch_start(self, batch: int) -> int:
        return self.ends[batch - 1] if batch else 0

    def due(self, number: int) -> bool:
        """Whether a new set is drawn in round ``number``: at the beginning of a batch."""
        if self.first_batch is None:
            return number % self.resample_every == 0
        return number == 0 or self.batch_at(number) > self.batch_at(number - 1)

    def rate_after(self, rounds: int) -> float:
        """The rate of a draw after so many rounds."""
        if self.fastest is None or not rounds:
            return self.rate if self.fastest is None else self.fastest
        return min(self.fastest, self.rate * math.sqrt((self.rounds or 1) / rounds))

    @property
    def releases(self) -> int:
        """Sums that a draw can look at: one per batch but the last."""
        return len(self.ends)

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of people's gains, stacked over the experts; None where nothing is released."""
        if not self.releases:
            return None
        nonzeros = None if self.items_per_person is None else self.k * self.items_per_person
        norm = 1 if self.noise == "laplace" else 2
        box = (0.0, self.bound)
        # Weighted, what an expert is paid by a person has an L2 norm of at most the bound.
        longest = None if self.weights is None else self.bound * math.sqrt(self.k)
        vectors = VectorBounds(self.k * self.n_items, norm, longest, box, nonzeros, self.longest)
        reduced = self.sums == "tree" and self.noise == "gaussian"
        return SumSpec(
            vectors,
            self.releases,
            self.sums,
            self.noise,
            variance_reduction=reduced,
            participation=self.participation,
        )

    @property
    def noise_maximum(self) -> float:
        """Expected maximum of one expert's noise at the end: what the noise can cost an expert."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        if isinstance(event, LaplaceNoise):
            return bounds.laplace_maximum(self.n_items, float(event.scale), spec.most_draws)
        return bounds.gaussian_maximum(self.n_items, spec.deviation(event))

    def _learning_regret(self, *, clipped: bool = True) -> float:
        """What learning costs without noise."""
        shape = (self.n_items, self.k, self.horizon, self.rate)
        if self.fastest is not None:
            return bounds.falling_hedge(
                *shape, self.fastest, self.resample_every, self.bound, clipped=clipped
            )
        hedge = bounds.hedge if clipped else bounds.unclipped_hedge
        return hedge(*shape, self.resample_every, self.bound)

    @property
    def unclipped_regret(self) -> float:
        """The certificate without the trivial bound, to compare settings by; infinite where there is none."""
        if self.rounds is None:
            return math.inf
        return self._learning_regret(clipped=False) + self.k * self.noise_maximum

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds (see `bounds.noisy_leader`).

        Infinite where none are declared: batches that grow with the rounds cost a share of them all.
        """
        if self.rounds is None:
            return math.inf
        shape = (self.n_items, self.k, self.horizon, self.rate, self.noise_maximum)
        return bounds.noisy_leader(*shape, self.resample_every, self.bound, fastest=self.fastest)


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
    _state = ("_public", "_cap_public", "_total")

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
        start: Released | OnlineSelector | None = None,
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
        self._gains = UnitGains(settings.bound, settings.weights is not None, self._units, self._most)
        self._public, self._cap_public = self._gate.public_randomness(), self._gate.public_randomness()
        self._total = PrivateTotal(
            settings.spec,
            self._gate,
            settings.event,
            (settings.k, settings.n_items),
            units=self._units,
            public=self._public,
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
        uniforms = self._public.generator.random(self.settings.k)
        shown = draw_ordered(self._masked(known), self.settings.rate_after(self.round), uniforms)
        return np.asarray(shown)

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

    def _estimates(self) -> Estimates:
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
        people = self.settings.batch_start(self._total.count)
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
        return partial(_units_of, self._gains, self._shown)

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

    def _check_sums(self, sums: NDArray[np.int64], count: int) -> None:
        self._total.check(sums, count)

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        if self._learning:
            self._total.add(sums)

    def _counted(self, people: Population) -> Population:
        """The people of the rounds to come as they are counted."""
        return capped(people, self.settings.items_per_person, self._cap_public, self.round)

    def _observe(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        elif self._learning:
            self._total.add(person)

    @property
    def _learning(self) -> bool:
        """Whether people still come into a release, where there is no end of rounds."""
        return self.settings.rounds is not None or not self._total.exhausted

    def _add_rows(self, people: Population, within_limit: NDArray[np.bool_], first: int) -> None:
        if not self._learning:
            return
        rows = people.as_rows()
        assert rows is not None
        self._gains.add(rows.compressed, first, within_limit, self._shown, self._total.pending)

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
            self._play_rows(stream.part(slice(first, stop)), rows, counted, first)
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

    def _play_rows(self, stream: Stream, rows: Rows, counted: Population, first: int) -> None:
        """Rounds of the people from ``first`` on, compiled."""
        learned, settings, done, size = counted.as_rows(), self.settings, self.round, stream.rewards.size
        assert learned is not None
        every, passed, shown = settings.resample_every, self._passed, self._shown.copy()
        draws = range(done + every - passed, done + size, every)
        rates = np.full(len(draws), settings.rate)
        if settings.fastest is not None:
            rates[:] = [settings.rate_after(t) for t in draws]
        uniforms = self._public.generator.random((rates.size, settings.k))
        people = (rows.compressed, learned.compressed)
        with self._total.compiled(rates.size) as (sums, _, gathered):
            rounds = OrderedRounds(sums, self._gains, gathered, every)
            rounds.run(stream, first, *people, passed, rates, uniforms, shown)
            self._rounds.close(size)
            self._rounds.shown = shown

    def _run_batches(self, stream: Stream, rows: Rows, counted: Population) -> None:
        """Trees and growing batches: the same gains, compiled batch by batch, and sums one by one."""
        rewards, count, now, settings = stream.rewards, stream.rewards.size, self.round, self.settings
        ends = settings.ends[settings.batch_at(now) : settings.batch_at(now + count - 1)]
        starts = [0, *(end - now for end in ends)]
        for batch in track(range(len(starts)), "batches", stream.progress):
            start = starts[batch]
            stop = starts[batch + 1] if batch + 1 < len(starts) else count
            self._next()
            rows.compressed.values(self._shown, start, rewards[start:stop])
            stream.selections[start:stop] = self._shown
            learned = partial(self._add_rows, counted, stream.within_limit[start:stop], start)
            self._rounds.close(stop - start, then=learned)

    def _spent(self) -> Account:
        return self._account(*self._total.entries())


def _check_items(people: Population, most: int | None) -> None:
    """Refuse people of more items than are paid for: a compiled loop does not look again."""
    rows = people.as_rows()
    assert rows is not None
    if most is not None and int(np.diff(rows.sparse.indptr).max()) > most:
        raise ValueError(f"somebody has more than items_per_person={most} items")


def _units_of(how: UnitGains, shown: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
    """What each item adds for each expert, for a person or for people who are rows, in whole units."""
    rows = person.as_rows()
    if rows is not None:
        out = np.zeros((shown.size, rows.n_items), dtype=np.int64)
        how.add(rows.compressed, 0, np.ones(rows.n_rows, dtype=np.bool_), shown, out)
        return out
    gains = answers.gains_along(person, shown.tolist(), how.bound)
    if how.weighted:
        weight: float = norm_weight(answers.squared_length(gains[0] / how.bound))
        gains = np.minimum(gains, gains[0]) * weight
    return np.asarray(np.clip(np.floor(gains * how.units), 0, how.most), dtype=np.int64)
