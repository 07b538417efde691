"""Ordered experts that follow the regularized leader on private running sums of gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..bounds.convex import approximate_leader, worst_noise
from ..constraints.domains import Simplex
from ..core import checks
from ..core.options import Auto, Calibration, Falling, NoiseLaw, SumMethod, Weights
from ..kernels.selection import OrderedRounds, UnitGains, norm_weight
from ..kernels.softmax import draw_ordered
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..privacy import (
    Budget,
    Event,
    Gate,
    LaplaceNoise,
    Participation,
    Seed,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
    tree_levels,
)
from ..privacy.accountant import Spending
from ..privacy.conversions import exact
from ..privacy.prefix_sum import METHODS
from .learner import (
    OnlineSelector,
    SelectorSettings,
    Stream,
    common_settings,
    tightened,
)
from .partial import Counting
from .people import capped
from .released import Pooled, Released
from .sums import LONGEST, BatchedSum, claimed_epsilon, first_batch, geometric_ends, masked, released_sum

# Options that the published form fixes.
_AS_PUBLISHED: dict[str, Any] = {
    "sums": "sqrt",
    "noise": "gaussian",
    "items_per_person": None,
    "weights": None,
}
_AS_PUBLISHED |= {"resample_every": 1, "first_batch": None, "min_separation": None, "rate": None}
_FALLING = 2.0  # a falling rate is this many times the rate that is best if the rounds so far were all
# An expert that starts with an item prefers it by this multiple of what makes it as likely as all others.
_PREFERENCE = 2.0


@dataclass(frozen=True, kw_only=True)
class RunningSumSettings(SelectorSettings):
    """Settings of `RunningSumSelector`.

    ``rate`` is that of every draw, or of the last one where it falls from ``fastest``. ``first_batch`` is
    given where no rounds are declared: batches then grow geometrically, and a falling ``rate`` is that after
    one round, apart from the cap ``fastest``. ``curvature`` is the growth per round of the published experts'
    regularizer; 0 for a softmax.
    """

    sums: str = "sqrt"
    noise: str = "gaussian"
    items_per_person: int | None = None
    weights: str | None = None
    resample_every: int = 1
    first_batch: int | None = None
    rate: float
    fastest: float | None = None
    curvature: float = 0.0
    event: Event | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("sums", self.sums, METHODS)
        checks.one_of("noise", self.noise, ("gaussian", "laplace", "spherical"))
        if (self.noise == "spherical") != (self.calibration == "published"):
            raise ValueError('noise="spherical" is for calibration="published", which has no other')
        checks.whole("resample_every", self.resample_every, at_least=1)
        checks.real("rate", self.rate, above=0.0)
        if self.noise != "gaussian" and self.sums != "tree":
            raise ValueError(f'noise="{self.noise}" needs sums="tree"')
        if self.items_per_person is not None:
            checks.whole("items_per_person", self.items_per_person, at_least=1, at_most=self.n_items)
        if self.weights is not None:
            checks.one_of("weights", self.weights, ("norm",))
            if self.noise == "laplace" or self.items_per_person is not None:
                raise ValueError(f"weights={self.weights!r} needs Gaussian noise, and no items_per_person")
        endless = self.rounds is None
        if endless != (self.first_batch is not None) or (endless and self.resample_every != 1):
            raise ValueError("first_batch goes with rounds=None, and resample_every with declared rounds")

    @classmethod
    def tight(
        cls, n_items: int, k: int, rounds: int | None, share: Share, **options: Any
    ) -> RunningSumSettings:
        """Settings for the options of a `RunningSumSelector`, with the least noise that fits."""
        options["participation"] = Participation.declared(share, options.pop("min_separation", None))
        given = common_settings(n_items, k, rounds, **options)
        rate, every = given.pop("rate", None), given.pop("resample_every", 1)
        if isinstance(rate, str):
            checks.one_of("rate", rate, ("falling",))
        if given["rounds"] is None:
            if every != 1:
                raise ValueError(
                    f"resample_every={every} with any number of rounds would release any number of"
                    " sums; declare rounds, or leave it out: batches then grow from first_batch on"
                )
            return cls._endless(given, share, rate)
        if given.get("first_batch") is not None:
            raise ValueError(f"first_batch={given['first_batch']} is for rounds=None; take resample_every")
        size, chosen, horizon, largest = (given[name] for name in ("n_items", "k", "rounds", "bound"))
        falls = isinstance(rate, str)

        def of_batch(batch: int, cautious: int) -> RunningSumSettings:
            best, fastest = bounds.best_rate(size, chosen, horizon, cautious, largest), None
            if falls:
                fastest = 1.0 / (cautious * largest)
                best = min(fastest, _FALLING * best)
            return cls(**given, resample_every=batch, rate=best, fastest=fastest).noisy(share)

        if every == "auto":
            grid = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * horizon.bit_length())})
            tried = [of_batch(batch, batch) for batch in grid if batch <= horizon]
            # Where the learning part is trivial already, this takes the batch with the least noise.
            found = min(tried, key=lambda one: one._learning_regret() + chosen * one.noise_maximum)
        else:
            # A batch chosen by the user does not change the rate: learning is as fast as without one. That
            # is certified only for batches up to 1 / (rate bound); "auto" uses a certified rate.
            found = of_batch(checks.whole("resample_every", every, at_least=1), 1)
        return found if rate is None or falls else replace(found, rate=checks.real("rate", rate, above=0.0))

    @classmethod
    def published(cls, n_items: int, k: int, rounds: int, share: Share, **options: Any) -> RunningSumSettings:
        """The remark after paper 000's Algorithm 2: k PFTAL experts of paper 004, each with epsilon / k."""
        if {name: options.pop(name, value) for name, value in _AS_PUBLISHED.items()} != _AS_PUBLISHED:
            names = ", ".join(f"{name}=" for name in _AS_PUBLISHED)
            raise ValueError(f'calibration="published" has its own {names}; leave them out, or take "tight"')
        epsilon, budget = claimed_epsilon(share).epsilon / k, share.budget
        common = common_settings(n_items, k, rounds, **(options | {"calibration": "published"}))
        if common["rounds"] is None or common["n_items"] < 2:
            raise ValueError('calibration="published" needs declared rounds and two items; take "tight"')
        draft = cls(**common, sums="tree", noise="spherical", rate=1.0)
        logs = math.log(max(rounds, 2)) ** 2.5
        grown = draft.length / draft.simplex.diameter * n_items * logs / (epsilon * math.sqrt(rounds))
        draft = replace(draft, curvature=grown)
        if (spec := draft.spec) is None:
            return draft
        norm = exact(draft.length) + exact(grown * draft.simplex.outer_radius)
        scale = norm * tree_levels(rounds) * k / exact(budget.epsilon_per_round)
        return replace(draft, event=SphericalLaplaceNoise(spec.sensitivity(share.neighbours), scale))

    def claims(self, share: Share) -> tuple[list[tuple[Event, int]], str, Budget]:
        """What published settings release, their name for messages, and the budget that they claim."""
        spec, event = self.spec, self.event
        released = [] if spec is None or event is None else [(event, spec.count)]
        return released, "PFTAL experts", claimed_epsilon(share)

    @property
    def simplex(self) -> Simplex:
        """The domain of the published experts' points."""
        return Simplex(self.n_items)

    @property
    def length(self) -> float:
        """The largest L2 norm of a person's gains, for one expert."""
        return self.bound * math.sqrt(self.n_items)

    @classmethod
    def _endless(cls, given: dict[str, Any], share: Share, rate: float | str | None) -> RunningSumSettings:
        """Settings without a horizon: the rate falls, unless it is given as a number."""
        largest, first, fastest = given["bound"], given.pop("first_batch", None), None
        if rate is None or isinstance(rate, str):
            fastest = 1.0 / largest
            rate = _FALLING * math.sqrt(given["k"] * math.log(max(given["n_items"], 2))) / largest
        if first is not None:
            checks.whole("first_batch", first, at_least=1, at_most=LONGEST)
        given |= {"rate": checks.real("rate", rate, above=0.0), "fastest": fastest}
        found = cls(**given, first_batch=first or 1).noisy(share)
        if first is not None:
            return found
        assert found.spec is not None
        assert found.event is not None
        length = first_batch(found.spec.noise_std(found.event, 1) / largest)
        return replace(found, first_batch=length).noisy(share)

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a batch ends, its sum is released and a new set is drawn."""
        if self.first_batch is None:
            return range(self.resample_every, self.horizon, self.resample_every)
        return geometric_ends(self.first_batch, None)

    @property
    def longest(self) -> int:
        """The largest number of people in a batch."""
        return self.resample_every if self.first_batch is None else self.ends[-1] - self.ends[-2]

    def rate_after(self, rounds: int) -> float:
        """The rate of a draw after this many rounds."""
        if self.fastest is None or not rounds:
            return self.rate if self.fastest is None else self.fastest
        return min(self.fastest, self.rate * math.sqrt((self.rounds or 1) / rounds))

    @property
    def releases(self) -> int:
        """How many sums can influence a draw: one per batch except the last."""
        return len(self.ends)

    @cached_property
    def spec(self) -> SumSpec | None:
        """The running sum of people's gains, stacked over the experts; None where nothing is released."""
        if not self.releases:
            return None
        if self.noise == "spherical":
            one = VectorBounds(self.n_items, 2, None, (0.0, self.bound), None, self.longest)
            more: dict[str, Any] = {"stacked": self.k, "participation": self.participation}
            return SumSpec(one, self.releases, "tree", "spherical", **more)
        nonzeros = None if self.items_per_person is None else self.k * self.items_per_person
        norm = 1 if self.noise == "laplace" else 2
        # With weights, a person's vector of gains for an expert has an L2 norm of at most the bound.
        longest = None if self.weights is None else self.bound * math.sqrt(self.k)
        vectors = VectorBounds(
            self.k * self.n_items, norm, longest, (0.0, self.bound), nonzeros, self.longest
        )
        return released_sum(self, vectors, self.releases, self.noise)

    @property
    def noise_maximum(self) -> float:
        """Expected maximum of one expert's noise at the end: a bound on its regret from noise."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        if self.noise == "spherical":
            return worst_noise(spec, event) / math.sqrt(self.k)  # the noise's length bounds its maximum
        if isinstance(event, LaplaceNoise):
            found = bounds.laplace_maximum(self.n_items, float(event.scale), spec.most_draws)
            return found * spec.widening(event)
        return bounds.gaussian_maximum(self.n_items, spec.deviation(event)) * spec.widening(event)

    def _learning_regret(self, *, clipped: bool = True) -> float:
        """The certified regret of learning without noise."""
        shape = (self.n_items, self.k, self.horizon, self.rate)
        if self.fastest is not None:
            return bounds.falling_hedge(
                *shape, self.fastest, self.resample_every, self.bound, clipped=clipped
            )
        hedge = bounds.hedge if clipped else bounds.unclipped_hedge
        return hedge(*shape, self.resample_every, self.bound)

    @property
    def unclipped_regret(self) -> float:
        """The certificate not capped at the trivial bound, for comparing settings; infinite without one."""
        if self.rounds is None or self.curvature:
            return math.inf
        return self._learning_regret(clipped=False) + self.k * self.noise_maximum

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds (see `bounds.noisy_leader`).

        Infinite where none are declared: growing batches can lose a constant fraction of all rounds.
        """
        if self.rounds is None:
            return math.inf
        if self.curvature:
            domain, noise = self.simplex, self.noise_maximum
            one = (self.rounds, self.length, domain.outer_radius, domain.diameter, noise)
            each = approximate_leader(*one, growing=self.curvature)
            return min(bounds.trivial(self.rounds, self.bound), self.k * each)
        shape = (self.n_items, self.k, self.horizon, self.rate, self.noise_maximum)
        return bounds.noisy_leader(*shape, self.resample_every, self.bound, fastest=self.fastest)


class ExpertSums(BatchedSum):
    """Private sums of each item's marginal gains for each of k ordered experts, and a draw by each expert."""

    settings: RunningSumSettings
    _state = ("_cap_public",)

    def __init__(self, settings: RunningSumSettings, gate: Gate) -> None:
        # A power of two of units make 1, and 2^31 to 2^32 of them the bound: fewer if a batch is so long that
        # its sum would not be exact as a float.
        bits = min(32, 53 - settings.longest.bit_length())
        units = float(2.0 ** (bits - math.frexp(settings.bound)[1]))
        most = math.floor(settings.bound * units)
        self.gains = UnitGains(settings.bound, settings.weights is not None, units, most)
        shape = (settings.k, settings.n_items)
        tops_up = settings.noise != "spherical"  # the published experts use a tree's sums unchanged
        super().__init__(settings, gate, shape, units=units, most=most, label="gains", tops_up=tops_up)

    def _draw_public(self, gate: Gate) -> None:
        super()._draw_public(gate)
        self._cap_public = gate.public_randomness()

    def start(self, start: Released) -> None:
        """Start every expert from single items' values, with a preference for its item of the last set."""
        settings, people = self.settings, max(1, start.people)
        values = np.zeros(settings.n_items) if start.values is None else start.values
        own = np.tile(values, (settings.k, 1))
        preferred = _PREFERENCE * math.log(max(2, settings.n_items)) / settings.rate
        for expert, item in enumerate(start.items[: settings.k]):
            own[expert, item] += preferred / people
        self.warm(own, people)

    def drawn(self, number: int, active: NDArray[np.bool_] | None, pool: Pooled | None) -> NDArray[np.int32]:
        scores = self.known(number, pool)
        uniforms = self.public.generator.random(self.settings.k)
        scores = self.released if scores is None else scores
        if self.settings.curvature:
            return self._followed(scores, number, uniforms, active)
        scores = scores if active is None else masked(scores, active)
        return np.asarray(draw_ordered(scores, self.settings.rate_after(number), uniforms))

    def _followed(
        self, scores: NDArray[np.float64], number: int, uniforms: NDArray[np.float64], active: Any
    ) -> NDArray[np.int32]:
        """An item of each published expert, drawn from the quadratic leader of its sums.

        An item that is shown already adds nothing: the expert draws again, and no item's probability falls.
        """
        active = np.ones(self.settings.n_items, dtype=bool) if active is None else active
        left, shown = active.copy(), np.empty(self.settings.k, dtype=np.int32)
        for expert, uniform in enumerate(uniforms):
            near = scores[expert] / (max(number, 1) * self.settings.curvature)
            near = np.where(active, near, near.min() - 2.0)  # so low that the projection is 0 there
            chances = np.where(left, self.settings.simplex.project(near), 0.0)
            summed = np.cumsum(chances if chances.any() else left)
            place = int(np.searchsorted(summed, uniform * summed[-1], side="right"))
            shown[expert] = min(place, int(np.flatnonzero(np.diff(summed, prepend=0.0))[-1]))
            left[shown[expert]] = False
        return shown

    def counted(self, people: Population, number: int) -> Population:
        cap = self.settings.items_per_person
        return people if cap is None else capped(people, cap, self._cap_public, number)

    def units_of(self, shown: NDArray[np.int32]) -> Counting:
        return partial(_units, self.gains, shown)

    def add_rows(
        self, people: Population, first: int, within_limit: NDArray[np.bool_], shown: NDArray[np.int32]
    ) -> None:
        rows = people.as_rows()
        assert rows is not None
        self.gains.add(rows.compressed, first, within_limit, shown, self.pending)

    # --- streams, with batches of equal length ---------------------------------------------------

    def passed(self, number: int, is_open: bool) -> int:
        """How many rounds of the last set's batch are over: all of them where a new set is due."""
        passed = number % self.settings.resample_every
        return passed if passed or is_open else self.settings.resample_every

    def play(self, stream: Stream, rows: Rows, seen: Population, first: int, shown: NDArray[np.int32],
             number: int, passed: int) -> NDArray[np.int32]:  # fmt: skip
        """Play the rounds of a stream, compiled: people from ``first`` on; ``seen`` are they as counted.

        The noise of their sums has been drawn. ``number`` and ``shown`` are the first round and its set;
        ``passed`` rounds of its batch are over. Returns the set of the last round.
        """
        learned, settings, size = seen.as_rows(), self.settings, stream.rewards.size
        assert learned is not None
        every, last = settings.resample_every, shown.copy()
        draws = range(number + every - passed, number + size, every)
        rates = np.full(len(draws), settings.rate)
        if settings.fastest is not None:
            rates[:] = [settings.rate_after(t) for t in draws]
        uniforms = self.public.generator.random((rates.size, settings.k))
        with self.compiled(rates.size) as (sums, _, pending):
            rounds = OrderedRounds(sums, self.gains, pending, every)
            people = (rows.compressed, learned.compressed)
            rounds.run(stream, first, *people, passed, rates, uniforms, last)
        if self.exhausted:
            self.pending[:] = 0  # no later release could include these people
        return last


def _units(how: UnitGains, shown: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
    """Each item's gain for each expert, in units, for a person or summed over people given as rows."""
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


class RunningSumSelector(OnlineSelector):
    """k ordered experts, each choosing by a softmax of privately summed gains.

    Expert i keeps the sum, over people, of each item's marginal gain given the first i - 1 items shown. The k
    sums are released as one private running sum of k n_items coordinates, so the noise of a round hardly
    grows with the number of rounds (with its logarithm for ``sums="sqrt"`` and ``"blt"``), whereas the
    exponential mechanism pays for every draw. As paper 000 remarks, any private experts will do (`Experts`).

    ``items_per_person=m`` counts at most m of each person's items (chosen by public randomness): noise then
    grows with sqrt(m) instead of sqrt(n_items), but part of a person's data may be ignored.
    ``weights="norm"`` drops no items and weights people instead: a person whose items have large values
    counts less, by min(1, bound / L2 norm of the values of single items), and noise does not grow with
    n_items at all.
    ``resample_every=B`` draws a new set every B rounds, at the same learning ``rate`` as without; it is
    faster and, on streams that do not turn against it within a batch, better. ``"auto"`` takes the B and
    the rate of the smallest certified regret. ``rate="falling"`` starts fast and slows down as 2 sqrt(k ln(n)
    / t): better on stationary streams, at up to 2.25 times the certified cost of learning.
    ``rounds=None`` is for streams without an end: batches grow by 15 % each from ``first_batch`` on (8
    people per standard deviation of the noise, if it is not given), so that 100 releases, reserved at once,
    last for some 10^8 rounds; the last set is served after that. The rate then falls, unless it is a number.
    No regret is certified, as growing batches can lose a fraction of all rounds: declare rounds for that.
    ``noise="laplace"`` with ``sums="tree"`` is pure epsilon. ``calibration="published"`` uses the experts of
    paper 000's remark: k copies of paper 004's PFTAL on the simplex, each with epsilon / k, in place of
    softmax and of sums over all experts; also pure epsilon, whatever the delta (an expert whose item is shown
    already draws again, which loses nothing).
    ``min_separation=s`` is for people who return, with ``max_rounds_per_person=b``: of each person, who then
    needs a ``person_id``, at most b batches (of ``resample_every`` rounds) count, once each and at least s
    apart. Noise covers what these can move together (`privacy.Participation`), not b times what one can.

    Formal guarantee: one person's gains move the stacked vector by at most bound sqrt(min(k n, 2 k m)) in L2
    (replace), bound min(k n, 2 k m) in L1; weighted, by bound sqrt(2 k) (added or removed: sqrt k). With
    weights no gain exceeds the item's value alone (functions are clipped to that), so each expert's part of a
    person's vector has a norm of at most the bound, and no entry is negative. Everything after the running
    sum is post-processing. Holds for people chosen with knowledge of all earlier sets. Sets are drawn with
    public randomness.

    Regret: `bounds.noisy_leader`, over declared rounds. With ``items_per_person`` it is the regret for people
    as they are counted, with ``weights`` for weighted people, also in the comparison.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [0, 1, 0]] * 50)
    >>> learner = RunningSumSelector(3, 2, len(people), dc.Budget(1.0, 1e-6), seed=0)
    >>> len(learner.run(people))
    100
    """

    settings: RunningSumSettings
    _sum: ExpertSums
    _shares = False
    _settings_type: ClassVar[type[RunningSumSettings]] = RunningSumSettings
    _state = ("_sum",)

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        sums: SumMethod = "sqrt",
        noise: NoiseLaw = "gaussian",
        items_per_person: int | None = None,
        weights: Weights | None = None,
        resample_every: int | Auto = 1,
        first_batch: int | None = None,
        min_separation: int | None = None,
        rate: float | Falling | None = None,
        bound: float = 1.0,
        calibration: Calibration = "tight",
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(RunningSumSettings, locals()))

    def _begin(self) -> None:
        self._sum = ExpertSums(self.settings, self._gate)

    def _start(self, start: Released) -> None:
        self._sum.start(start)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> RunningSumSettings:
        settings = replace(self.settings, n_items=n_items, labels=labels)
        check_growth(self.settings.spec, settings.spec, self.budget.neighbours)
        return settings

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        if self.settings.rounds is None or not self._sum.compiles or self._catalogue.active is not None:
            super()._run_rows(stream, rows)  # for trees, growing batches and retired items
            return
        count, every, rounds, first = stream.rewards.size, self.settings.resample_every, self._rounds, 0
        seen = self._sum.counted(stream.people[:count], rounds.number)
        _check_items(seen, self.settings.items_per_person)
        while first < count:
            if first == 0 or self._sum.exhausted:
                self._next()
            passed = self._sum.passed(rounds.number, rounds.is_open)
            ahead = every - passed + every * self._sum.rows_ahead(count - first)
            part = stream.part(slice(first, min(count, first + ahead)))
            play = partial(self._play, part, rows, seen, first, rounds.number, passed)
            rounds.close(part.rewards.size, then=play)  # closed first: nobody is counted twice
            first += part.rewards.size

    def _play(self, part: Stream, rows: Rows, seen: Population, first: int, number: int, passed: int) -> None:
        self._rounds.shown = self._sum.play(part, rows, seen, first, self._shown, number, passed)


def _check_items(people: Population, most: int | None) -> None:
    """Refuse people with more items than are paid for: the compiled loop does not check that."""
    rows = people.as_rows()
    assert rows is not None
    if most is not None and int(np.diff(rows.sparse.indptr).max()) > most:
        raise ValueError(f"one person has more than items_per_person={most} items")


def check_growth(before: SumSpec | None, after: SumSpec | None, neighbours: str) -> None:
    """Refuse more items where the sensitivity of a sum would exceed what was paid for."""
    if before is None or after is None:
        return
    if after.bounds.difference(neighbours) > before.bounds.difference(neighbours):
        raise ValueError(
            "with more items one person could move the sums by more than was paid for; make the learner with"
            ' weights="norm" or items_per_person=, or make a new one with start= this one'
        )
