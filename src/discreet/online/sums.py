"""Private sums of people's feedback: pending until they are released with noise, and their calibration.

`PrivateTotal` is a running sum over the whole stream, `BatchedSum` one from which sets of items are drawn.
`BatchTotal` releases sums of disjoint batches of people.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..kernels.prefix_sums import PrefixSum
from ..objectives import Population
from ..privacy import (
    Budget,
    Entry,
    Event,
    Gate,
    LaplaceNoise,
    PublicRandomness,
    RunningSum,
    Share,
    SumSpec,
    TreeSum,
    VectorBounds,
    samplers,
    spend_from,
)
from ..privacy.account import published_share
from ..privacy.conversions import exact
from ..privacy.prefix_sum import METHODS
from .learner import CALIBRATIONS, asked
from .partial import Counting, SumLayout
from .released import Estimates, Evidence, Pooled

Values = NDArray[Any]
LOWEST = -1e300  # a score that is never drawn
# The score of an item that was added late counts as average until it has been there for _FEW people, or until
# noise of _SURE standard deviations would not lift an average item into the set, if that takes more people.
_FEW, _SURE = 20.0, 3.0


def masked(scores: NDArray[np.float64], active: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Scores of items (the last axis), with inactive items far below all others."""
    return np.where(active, scores, LOWEST)


class PrivateTotal:
    """A private running sum of people's feedback, plus the feedback pending since the last release.

    ``shape`` is that of the sums. ``units`` is how many units make 1 where amounts are integers, None where
    they are floats. ``spec`` is None where nothing is ever released: a single decision depends on nobody's
    data. ``public`` draws additional public noise that keeps a tree's noise from ever decreasing, as
    certificates of perturbed leaders need; None for no such noise. ``how`` are options of `RunningSum.of`;
    with ``ahead`` compiled loops may take sums themselves (`compiled`), with ``trees`` also those of a tree,
    if they ask for no more rows of noise than they use.

    Pending feedback is cleared before its release: an interruption may lose people, never count them twice.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "sum",
        "pending",
        "released",
        "_topped_up",
        "_base",
        "_earlier",
        "people_before",
        "_joined",
    )
    _parts = ("sum",)

    def __init__(
        self,
        spec: SumSpec | None,
        gate: Gate,
        event: Event | None,
        shape: tuple[int, ...],
        *,
        units: float | None = None,
        public: PublicRandomness | None = None,
        trees: bool = False,
        **how: Any,
    ) -> None:
        self._shape, self._units, self._public = shape, units, public
        self._gate, self._trees = gate, trees
        self.sum: RunningSum | None = None
        if (spec is None) != (event is None):
            raise ValueError("noise has to be declared where sums are released, and nowhere else")
        if spec is not None:
            self.sum = spec.kind.of(spec, gate, event=event, **how)
        self.pending: Values = self._nothing()
        self.released: Values = np.zeros(shape)
        self._topped_up = 0.0
        self._base: Values | None = None  # the last release of earlier sums, which are over other people
        self._earlier = 0  # how many releases these were
        self.people_before = 0  # how many people the releases before the first round cover
        # How many people had come before each item was added; None if all items were there from the start.
        self._joined: NDArray[np.int64] | None = None
        self._resumed()

    def _nothing(self) -> Values:
        return np.zeros(self._shape, dtype=np.float64 if self._units is None else np.int64)

    @property
    def count(self) -> int:
        """How many sums have been released."""
        return self._earlier + (0 if self.sum is None else self.sum.taken)

    def _resumed(self) -> None:
        # Whether nothing more will be released: people who come later enter no sum.
        self.exhausted = self.sum is None or self.sum.taken >= self.sum.spec.rounds

    def entries(self) -> Iterator[tuple[Entry, int]]:
        """What the account lists so far: one sum, as earlier ones are over disjoint people."""
        if self.sum is not None and self.count:
            yield self.sum.charged

    def add(self, amounts: Values) -> None:
        """Add the feedback of one person, or the sum of several."""
        self.pending += amounts

    def release(self) -> Values:
        """Release the pending feedback; returns the noisy sum of everything so far."""
        taken = 0 if self.sum is None else self.sum.taken
        if self.sum is None or taken >= self.sum.spec.rounds:
            return self.released
        amounts, self.pending = self.pending.ravel(), self._nothing()
        found = self.sum.add(amounts if self._units is None else amounts / self._units).reshape(self._shape)
        if self._public is not None and isinstance(self.sum, TreeSum):
            found = found + self._top_up(self._public.generator, self.sum)
        self.released = found if self._base is None else found + self._base
        self.exhausted = taken + 1 >= self.sum.spec.rounds
        return self.released

    def grow(
        self, spec: SumSpec | None, shape: tuple[int, ...], places: tuple[NDArray[Any], ...], people: int
    ) -> None:
        """Continue with larger vectors: the old entries at ``places`` (an open mesh), the others 0.

        A new sum begins, with the same noise. Nobody has feedback in both sums, so the charge for one pays
        for both (parallel composition). What was released so far, over ``people`` people, is kept.
        """
        before = self.sum
        if (spec is None) != (before is None):
            raise ValueError("with these items another number of sums is to be released")
        if before is not None and spec is not None:
            self.sum = before._for_disjoint_people(spec)
            self._earlier += before.taken
            self._resumed()
        self._shape = shape
        released, pending = np.zeros(shape), self._nothing()
        released[places], pending[places] = self.released, self.pending
        self.released, self.pending, self._base = released, pending, released.copy()
        joined = np.full(shape[-1], people + self.people_before)
        joined[places[-1].ravel()] = 0 if self._joined is None else self._joined
        self._joined = joined

    @property
    def started(self) -> bool:
        """Whether there are estimates from before this sum began."""
        return self._base is not None

    def warm(self, values: Values, people: int) -> None:
        """Start from estimates made elsewhere: each item's average value over ``people`` people.

        These are public numbers; NaN marks an item that was not there.
        """
        new = np.isnan(values)
        self.people_before = people
        self._base = np.broadcast_to(np.where(new, 0.0, values) * people, self._shape).copy()
        self.released = self._base.copy()
        if new.any():
            self._joined = np.where(new.reshape(-1, self._shape[-1]).any(axis=0), people, 0)

    @property
    def _noise(self) -> float:
        """The standard deviation of the noise on the latest sum."""
        return 0.0 if self.sum is None or not self.sum.taken else self.sum.noise_std(self.sum.taken)

    def averages(self, rounds: int, k: int, unit: float = 1.0) -> Estimates:
        """Estimates of each item's average value to a person, in units of value, for a `Released`.

        With ordered experts these are the first expert's, which sees the value of items on their own.
        """
        if not (self.count or self.started):
            return None, 0, None
        people = max(1, rounds + self.people_before)
        means = self.scores(rounds, k).reshape(-1, self._shape[-1])[0] * (unit / people)
        own = people - (0 if self._joined is None else self._joined)
        deviations = np.hypot(self._noise / people, 0.5 / np.sqrt(np.maximum(own, 1))) * unit
        return means, people, np.broadcast_to(deviations, means.shape).copy()

    def scores(self, rounds: int, k: int) -> Values:
        """The sums released by round ``rounds``, with late items as if they had been there from the start.

        The averages of late items cover fewer people; they are scaled up and shrunk towards the average of
        the original items, the more so the fewer people they cover and the noisier they are. All this is
        post-processing.
        """
        if self._joined is None:
            return self.released
        people = rounds + self.people_before
        own = np.maximum(people - self._joined, 0)
        means = self.released / max(people, 1)
        there = self._joined == 0
        typical = means[..., there].mean(axis=-1, keepdims=True)
        rank = min(k, int(np.count_nonzero(there)))
        high = np.partition(means[..., there], -rank, axis=-1)[..., -rank, None]
        prior = np.maximum(_FEW, _SURE * self._noise / np.maximum(high - typical, 1e-12))
        prior = np.minimum(prior, max(people, 1))
        return np.asarray((self.released + prior * typical) / (own + prior) * people)

    def evidence(self, rounds: int, k: int, unit: float = 1.0) -> Evidence | None:
        """What was released by round ``rounds``, for a `SegmentPool`; a person adds at most ``unit``."""
        people = rounds + self.people_before
        if not people or not (self.count or self.started):
            return None
        own = np.full(self._shape[-1], people) if self._joined is None else people - self._joined
        return Evidence(self.scores(rounds, k) / people, np.maximum(own, 1.0), self._noise, unit)

    @property
    def compiles(self) -> bool:
        """Whether a compiled loop can take sums itself (`compiled`)."""
        if isinstance(self.sum, TreeSum) and (self._public is not None or not self._trees):
            return False
        return self.sum is not None and self.sum.compiles and self._base is None

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:
        """How many of ``wanted`` sums a compiled loop has noise for; ``draw`` draws some if there is none.

        Where several sums share a gate, the order of draws determines what a seed reproduces.
        """
        assert self.sum is not None
        return self.sum.rows_ahead(wanted, draw=draw)

    def draw_ahead(self, count: int) -> None:
        """Draw a tree's noise for all sums up to the ``count``-th together; they are sure to be released."""
        if self._trees and isinstance(self.sum, TreeSum) and self.sum.one_draw_each:
            self.sum.rows_ahead(count - self.count)

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[PrefixSum, Values, Values]]:
        """Let a compiled loop take the next ``count`` sums: yields the steps, the released and pending sums.

        The steps write the last sum to the released array, and the loop leaves feedback that is in no sum yet
        in the pending one. After an exception in between, the sum can release nothing more.
        """
        assert self.sum is not None
        with self.sum.compiled(count) as (steps, released):
            yield steps, released, self.pending
            self.released = released.reshape(self._shape).copy()
        self._resumed()

    def _top_up(self, public: np.random.Generator, total: TreeSum) -> Values | float:
        """Public noise that raises a tree's sum to the noise of the noisiest one (so far, if Gaussian).

        A tree's sums are less noisy after 2^j vectors. The noise of factorized sums never decreases.
        """
        if not self._gate.budget.private:
            return 0.0
        now = total.noise_std(total.taken)
        if total.noise == "gaussian":
            self._topped_up = max(self._topped_up, now)
            return public.normal(0.0, math.sqrt(self._topped_up**2 - now**2), self._shape)
        # Top up to the same number of draws in every sum.
        missing, unit = total.spec.most_draws - total.tree.draws(total.taken), total.noise_std(1)
        if total.noise == "laplace":
            extra = public.laplace(0.0, unit / math.sqrt(2.0), (missing, *self._shape))
            return np.asarray(extra.sum(axis=0))
        vectors, size = total.spec.stacked, total.spec.bounds.dimension
        lengths = public.gamma(size, unit / math.sqrt(size + 1.0), (missing, vectors, 1))
        ways = public.standard_normal((missing, vectors, size))
        extra = lengths * ways / np.linalg.norm(ways, axis=2, keepdims=True)
        return np.asarray(extra.sum(axis=0).reshape(self._shape))

    def check(self, sums: Values, people: int) -> None:
        """Refuse sums that n = ``people`` people cannot add up to."""
        if self.sum is None or self._units is None or (longest := self.sum.spec.added.norm_bound) is None:
            return
        if float(np.linalg.norm(sums.ravel() / self._units)) > longest * people * (1.0 + 1e-9):
            raise ValueError(f"the sums hold more than {people} people can amount to")


class BatchedSum(PrivateTotal):
    """A private sum of people's gains from items, released once per batch; a set is drawn from each release.

    ``settings`` say which rounds make a batch. Subclasses define what a person adds while a set is ``shown``
    (`units_of`, `add_rows`), and how a set is drawn (`drawn`). ``most`` is the largest number of units of an
    entry; ``scale`` is the value of 1 in the sum. ``tops_up`` asks for ``public`` noise of a `PrivateTotal`.
    """

    _state: ClassVar[tuple[str, ...]] = ("public",)

    def __init__(
        self, settings: Any, gate: Gate, shape: tuple[int, ...], *, most: int, scale: float = 1.0,
        tops_up: bool = False, **how: Any,
    ) -> None:  # fmt: skip
        self.settings, self.scale, self.most = settings, scale, most
        self._draw_public(gate)
        if tops_up:
            how |= {"public": self.public, "ahead": True}
        how = {"disjoint": settings.participation is None} | how
        super().__init__(settings.spec, gate, settings.event, shape, **how)

    def _draw_public(self, gate: Gate) -> None:
        self.public = gate.public_randomness()

    def draw(
        self, number: int, active: NDArray[np.bool_] | None, pool: Pooled | None = None
    ) -> NDArray[np.int32]:
        """Release the batch before round ``number``, and draw the set of the next one."""
        if number:
            self.release()
        return self.drawn(number, active, pool)

    def drawn(self, number: int, active: NDArray[np.bool_] | None, pool: Pooled | None) -> NDArray[np.int32]:
        """Draw a set of ``active`` items (None for all), from what was released."""
        raise NotImplementedError

    def known(self, number: int, pool: Pooled | None) -> Values | None:
        """Scores to draw by, with other segments' releases; None before anything was released."""
        if pool is not None:
            self.publish(pool)
            if (found := pool.look()) is not None:
                return found
        if self._joined is not None:
            return self.scores(number, self.settings.k)
        return self.released if number or self._base is not None else None

    def publish(self, pool: Pooled) -> None:
        """Share what was released with the other segments."""
        people = self.settings.batch_start(self.count)
        pool.publish(self.evidence(people, self.settings.k, self.settings.bound / self.scale), people)

    def ranking(self, number: int, pool: Pooled | None) -> NDArray[np.float64]:
        """A score for each item, from what was released."""
        found = None if pool is None else pool.scores()
        found = self.scores(number, self.settings.k) if found is None else found
        return np.asarray(found.reshape(-1, found.shape[-1]).sum(axis=0))

    def estimates(self, number: int) -> Estimates:
        """Estimates of each item's average value to a person."""
        return self.averages(number, self.settings.k, self.scale)

    def grown(self, settings: Any, number: int) -> None:
        """Continue with more items, as many as new ``settings`` say."""
        shape = (*self._shape[:-1], settings.n_items)
        self.grow(settings.spec, shape, np.ix_(*map(np.arange, self._shape)), number)
        self.settings = settings

    # --- people ----------------------------------------------------------------------------------

    def counted(self, people: Population, number: int) -> Population:  # noqa: ARG002
        """The people of rounds ``number``, ``number + 1``, ... as they are counted."""
        return people

    def prepared(self, person: Population, number: int, shown: Any) -> Population | Values:
        """A person as a row for the compiled loop, or else in units."""
        one = self.counted(person, number)
        return self.units_of(shown)(one) if one.as_rows() is None else one

    def observe(self, person: Population | Values, shown: Any) -> None:
        """Add what `prepared` returned."""
        if self.exhausted:
            return
        if isinstance(person, Population):
            self.add_rows(person, 0, np.ones(1, dtype=np.bool_), shown)
        else:
            self.add(person)

    def observe_rows(
        self, people: Population, first: int, within_limit: NDArray[np.bool_], shown: NDArray[np.int32]
    ) -> None:
        """Add the people given as rows, from index ``first`` on, who are within their limit."""
        if not self.exhausted:
            self.add_rows(people, first, within_limit, shown)

    def add_rows(
        self, people: Population, first: int, within_limit: NDArray[np.bool_], shown: NDArray[np.int32]
    ) -> None:
        """Add their units to the pending sum; subclasses have a compiled loop for it."""
        units = self.units_of(shown)
        for place in np.flatnonzero(within_limit).tolist():
            self.add(units(people[first + place]))

    def units_of(self, shown: NDArray[np.int32]) -> Counting:
        """The function that converts a person, or rows together, to units while ``shown`` is shown."""
        raise NotImplementedError

    def check_divisible(self) -> None:
        """Refuse parts on other servers where options depend on round numbers."""
        if self.settings.participation is not None:
            message = "counts rounds, and a part on another server has no round numbers; leave it out"
            raise ValueError(f"min_separation= {message}")
        if getattr(self.settings, "items_per_person", None) is not None:
            raise ValueError(
                "items_per_person= draws items by the round, and a part on another server has no round"
                " numbers; leave it out"
            )

    def summed(self, shown: NDArray[np.int32]) -> SumLayout:
        """The layout of what people add in a part on another server."""
        return SumLayout(self._shape, 0, self.most, self.units_of(shown))


class BatchTotal:
    """Sums of disjoint batches of people, each released once with Laplace noise on a public grid.

    Only one batch is charged, as nobody is in two (parallel composition). Amounts are summed as integer
    multiples of ``step``: that of the grid, or ``finest`` without noise. ``truncation`` is how many steps
    rounding can add to the sensitivity: 0 where every person's amount is truncated, 1 where a sum is.
    """

    def __init__(
        self, gate: Gate, event: LaplaceNoise, finest: Fraction, *, truncation: int = 0, label: str
    ) -> None:
        self._release = gate.reserve(event, disjoint=True, label=label)
        self.grid: samplers.Grid | None = None
        if event.scale:
            self.grid = samplers.Grid.for_noise(event.scale, event.sensitivity, truncation)
        self.step = finest if self.grid is None else self.grid.step

    @property
    def entry(self) -> Entry:
        """The account's entry for a batch."""
        return self._release.entry

    def noisy(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The noisy sums of one batch. Clear the batch first, so that it is released only once."""
        return steps + self.noise(steps.size)

    def noise(self, count: int) -> NDArray[np.int64]:
        """Noise for ``count`` sums, in steps: for a compiled loop that releases several batches."""
        if self.grid is None:
            return np.zeros(count, dtype=np.int64)
        return self._release.noise(self.grid, count)

    def noise_one_by_one(self, count: int) -> NDArray[np.int64]:
        """`noise`, drawn in the same order as for one sum after the other."""
        if self.grid is None:
            return np.zeros(count, dtype=np.int64)
        return self._release.noise_rows(self.grid, count, 1)[:, 0]


class CostTotal(BatchTotal):
    """One cost per person, summed over disjoint batches of people.

    Sums are integers of any size, in steps. ``finest`` is the step without noise; None sums such costs as
    they are. ``moves`` is the sensitivity of a sum to one person: noise for a smaller one is refused.
    """

    _state = ("pending", "count")

    def __init__(
        self,
        gate: Gate,
        event: Event | None,
        moves: float,
        finest: Fraction | None = None,
        *,
        truncation: int = 0,
        label: str,
    ) -> None:
        needed = LaplaceNoise.within(gate.budget.share(), moves)
        if type(event) is not LaplaceNoise or exact(event.sensitivity) < exact(needed.sensitivity):
            raise ValueError(f"event={event} is not for costs that move a sum by {moves:g}")
        super().__init__(gate, event, finest or Fraction(1), truncation=truncation, label=label)
        self._whole = finest is not None or self.grid is not None
        self._unit = float(self.step)
        self.pending: int | float = 0
        self.count = 0  # how many sums were released

    def entries(self) -> Iterator[tuple[Entry, int]]:
        """What the account lists so far."""
        if self.count:
            yield self.entry, 1

    def add(self, steps: NDArray[np.int64]) -> None:
        """Add some people's costs, in steps."""
        self.pending += sum(steps.tolist())

    def take(self) -> int | float:
        """Clear the batch and return its sum: an interruption may lose people, never count them twice."""
        pending, self.pending = self.pending, 0
        self.count += 1
        return pending

    def leave(self, steps: int | float, noise: int | None = None) -> float:
        """The noisy sum of a batch in units of cost; ``steps`` are those of the grid.

        ``noise``, if given, was drawn for this batch earlier (`noise_one_by_one`).
        """
        return float(steps + (int(self.noise(1)[0]) if noise is None else noise)) * self._unit


# --- settings -------------------------------------------------------------------------------------------

GROWTH = 1.15  # length of a batch relative to the one before
ENDLESS = 100  # releases if no number of rounds is declared
LONGEST = 1 << 24  # people in a batch, at most
# A first batch has FIRST people per standard deviation of the noise, and at least FEWEST.
FIRST, FEWEST = 8.0, 8


def geometric_ends(first: int, rounds: int | None, longest: int = LONGEST) -> tuple[int, ...]:
    """The rounds before ``rounds`` at which batches end; the first has length ``first``, later ones grow.

    No later batch is longer than ``longest``.

    >>> geometric_ends(100, 1000)
    (100, 215, 348, 501, 676, 878)
    >>> len(geometric_ends(100, None)), geometric_ends(100, None)[-1] > 10**8
    (100, True)
    """
    found: list[int] = []
    length, end = float(first), first
    while len(found) < ENDLESS if rounds is None else end < rounds:
        found.append(end)
        length *= GROWTH
        end += min(longest, math.ceil(length))
    return tuple(found)


def first_batch(deviation: float) -> int:
    """The size of a first batch, by the noise ``deviation`` in units of one person's largest amount."""
    return min(LONGEST, max(FEWEST, math.ceil(FIRST * deviation)))


def first_batch_within(kind: Any, given: dict[str, Any], share: Share, one: float = 1.0) -> int:
    """The size of the first batch for settings of this ``kind``, whose other options are ``given``.

    It follows from the noise of the first of many sums, to which a person adds at most ``one``. It is at most
    a quarter of the declared rounds, but at least the number of items in a set.
    """
    endless = kind(**(given | {"rounds": None}), first_batch=1)
    event = endless.spec.event(share, share.definition)
    needed = first_batch(float(event.sigma) / one)
    if given["rounds"] is not None:
        needed = min(needed, given["rounds"] // 4)
    return max(needed, int(given["k"]))


# --- settings by the budget: the meaning of "auto", the least noise that fits, a paper's constants ------

NOISES = ("gaussian", "laplace", "spherical")


def calibrated(kind: Any, given: Mapping[str, Any], *, pure: bool = False) -> tuple[Any, Share]:
    """Settings of this ``kind`` for the ``locals()`` of a constructor, and the share to spend.

    Published constants fix the options that ``kind.tuned`` names. ``pure`` is for papers that claim pure DP,
    whatever the budget's delta.
    """
    options, share = asked(given), spend_from(given["budget"], given["seed"])
    if checks.one_of("calibration", options.pop("calibration"), CALIBRATIONS) == "tight":
        return kind.tight(share, **options), share
    known = inspect.signature(kind.tight).parameters
    for name in kind.tuned:
        default = known[name].default if name in known else getattr(kind, name)
        if options.pop(name) != default:
            names = ", ".join(f"{one}=" for one in kind.tuned)
            raise ValueError(f'calibration="published" has its own {names}; leave them out, or take "tight"')
    found = kind.published(share, **options)
    releases = [] if found.spec is None else [(found.event, found.spec.count)]
    return found, published_share(share, releases, kind.paper, claimed_epsilon(share) if pure else None)


def released_sum(
    settings: Any, vectors: VectorBounds, releases: int, noise: Any = "gaussian"
) -> SumSpec | None:
    """The running sum of ``vectors`` by the method that ``settings`` name; None without releases."""
    if not releases:
        return None
    reduced = settings.sums == "tree" and noise == "gaussian"
    return SumSpec(vectors, releases, settings.sums, noise, reduced, participation=settings.participation)


def on_sums(kind: Any, share: Share, method: str, noise: str, asked: dict[str, Any]) -> Any:
    """Settings of this ``kind`` with a running sum by ``method``, and the least noise that fits ``share``."""
    found = kind(**asked, calibration="tight", sums=method, noise=noise)
    return found if found.spec is None else replace(found, event=found.spec.event(share, share.definition))


def claimed_epsilon(share: Share) -> Budget:
    """The budget that papers on pure DP claim and spend: the same epsilon, with delta 0."""
    if not share.private:
        raise ValueError('calibration="published" needs a finite epsilon; take "tight"')
    return replace(share.budget, delta=0.0)


def chosen_sums(sums: str, noise: str, share: Share, pure: Callable[[], str]) -> tuple[Any, Any]:
    """Resolve ``"auto"``: Gaussian noise if there is a delta (or no privacy), otherwise a tree.

    ``pure`` names the tree's noise, "laplace" or "spherical", whichever is better for the learner.
    """
    checks.one_of("sums", sums, ("auto", *METHODS))
    checks.one_of("noise", noise, ("auto", *NOISES))
    if noise in ("laplace", "spherical") and sums in ("sqrt", "blt"):
        raise ValueError(f'noise={noise!r} needs sums="tree"; {sums!r} has Gaussian noise only')
    if noise == "auto":
        gaussian = sums in ("sqrt", "blt") or bool(share.delta) or not share.private
        noise = "gaussian" if gaussian else pure()
    if noise != "gaussian":
        return "tree", noise
    if share.private and not share.delta:
        raise ValueError(
            'Gaussian noise needs delta > 0; give the budget a delta, or take sums="tree" with other noise'
        )
    return ("sqrt" if sums == "auto" else sums), noise
