"""Meta-Frank-Wolfe: sets under a constraint, by the multilinear extension, and points of a box or polytope.

K linear experts each follow the regularized leader on a private sum of their own payoffs; their average is
played. Expert k is paid by people's gradients at the partial point that the first k - 1 experts reach.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..bounds import frank_wolfe as bounds
from ..bounds.selection import ALPHA
from ..constraints import Constraint, Matroid, PartitionMatroid
from ..constraints.domains import Box
from ..core import checks
from ..core.options import Auto, Calibration, NoiseLaw, SumMethod
from ..core.text import at_most
from ..objectives import Population, answers
from ..objectives.continuous import ContinuousPopulation, MultilinearExtension
from ..objectives.devices import row_sums
from ..objectives.losses import cost_functions
from ..objectives.rows import Rows
from ..privacy import (
    Account,
    Event,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    Participation,
    Seed,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
)
from ..privacy.account import PublishedCalibrationWarning
from ..privacy.accountant import Spending
from .learner import LearnerSettings, OnlineLearner, OnlineSelector, Stream, item_labels
from .partial import Counting
from .people import capped
from .released import Released
from .sums import BatchedSum, calibrated, chosen_sums, claimed_epsilon

Vector = NDArray[np.float64]

REGULARIZERS = ("entropy", "euclidean")
MOST_STEPS, FEW_STEPS = 4096, 4
_ENOUGH = 1.25  # without noise: the fewest steps whose certificate is at most this times the best
# Beyond these bounds, squares or units would leave the range of floats.
LEAST, MOST = 1e-100, 1e100
# Where scores would be larger than this, the rate is lowered: the leader is at a vertex either way, up to
# rounding, and projections keep all their digits.
_LARGEST = 1e6


# --- leaders ---------------------------------------------------------------------------------------------


class Leader:
    """The regularized leader over a constraint's polytope or a box, and the sizes its regret depends on.

    For matroids the leader is a point of the base polytope, which loses nothing for monotone functions.
    ``rank`` is the largest sum of a point, ``radius`` the largest length, ``spread`` the range of the
    regularizer (entropy) and ``reach`` the square root of twice its range (Euclidean).
    """

    def __init__(self, domain: Constraint | Box, regularizer: str) -> None:
        self.regularizer, self.is_box = regularizer, isinstance(domain, Box)
        self._blocks: Blocks | None = None
        self._domain, self._options = domain, {"base": True} if isinstance(domain, Matroid) else {}
        if isinstance(domain, Box):
            low, high = domain.low, domain.high
            if (low < 0.0).any():
                where = int(np.argmax(low < 0.0))
                raise ValueError(
                    f"low[{where}]={low[where]:g}: Frank-Wolfe steps start at 0; give a box with low >= 0"
                )
            self.n_items = domain.dimension
            self.rank, self.radius = float(high.sum()), float(np.linalg.norm(high))
            self.widths = (high - low).tolist()
        else:
            assert domain.n_items is not None
            self.n_items = domain.n_items
            self.rank = float(domain.maximize(np.ones(self.n_items)).sum())
            self.radius, self.widths = math.sqrt(self.rank), [1.0] * self.n_items
            groups = domain.one_of_each if isinstance(domain, PartitionMatroid) else None
            self._blocks = None if groups is None else Blocks(groups)
        start = self.at(np.zeros(self.n_items), 1.0)
        self.spread = self.reach = math.inf
        if regularizer == "entropy":
            logs = np.log(start, out=np.zeros(self.n_items), where=start > 0.0)
            least = float(start @ logs)
            self.spread = -least if self._options else float(start.sum()) - least
        elif self.is_box:
            self.reach = float(np.linalg.norm(self.widths)) / 2.0
        else:
            self.reach = math.sqrt(max(self.rank - float(start @ start), 0.0))

    def at(self, payoffs: Vector, rate: float) -> Vector:
        """The point that maximizes rate <payoffs, x> minus the regularizer; one for each row of payoffs."""
        largest = np.maximum(np.abs(payoffs).max(axis=-1, keepdims=True), 1e-300)
        scores: Vector = payoffs * np.minimum(rate, _LARGEST / largest)
        domain, entropy = self._domain, self.regularizer == "entropy"
        if isinstance(domain, Box):
            return np.clip((domain.low + domain.high) / 2.0 + scores, domain.low, domain.high)
        if self._blocks is not None:
            return self._blocks.softmax(scores) if entropy else self._blocks.nearest(scores)
        how = self._options | {"log": True} if entropy else self._options
        project = domain.project_entropy if entropy else domain.project_euclidean
        found = [project(row, **how).x for row in np.atleast_2d(scores)]
        return np.clip(np.reshape(found, scores.shape), 0.0, 1.0)

    def partial_points(self, payoffs: Vector, rate: float) -> Vector:
        """x^1 = 0, x^(k+1) = x^k + v^k / K: one row per expert, and the final point as the last."""
        experts = payoffs.shape[0]
        points = np.zeros((experts + 1, self.n_items))
        np.cumsum(self.at(payoffs, rate) / experts, axis=0, out=points[1:])
        if not self.is_box:
            np.minimum(points, 1.0, out=points)
        return points


class Blocks:
    """Leaders for one item from each of disjoint blocks: equal to general projections, many times faster."""

    def __init__(self, groups: Sequence[NDArray[np.intp]]) -> None:
        self._order = np.concatenate(groups)
        sizes = [group.size for group in groups]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._block = np.repeat(np.arange(len(sizes)), sizes)
        self._place = np.arange(self._block.size) - self._starts[self._block] + 1.0

    def nearest(self, scores: Vector) -> Vector:
        """The Euclidean leader: the positive part of the scores minus a level for each block."""
        ordered, starts, block = scores[..., self._order], self._starts, self._block
        below = ordered - np.maximum.reduceat(ordered, starts, axis=-1)[..., block]
        falling = np.lexsort((-below, np.broadcast_to(block, below.shape)))
        # Items 1 or more below the best of their block get 0 and need not be distinguished.
        sorted_below = np.maximum(np.take_along_axis(below, falling, axis=-1), -1.0)
        sums = np.cumsum(sorted_below, axis=-1)
        before = np.where(starts > 0, sums[..., starts - 1], 0.0)
        levels = (sums - before[..., block] - 1.0) / self._place
        counted = np.add.reduceat((sorted_below > levels).astype(np.intp), starts, axis=-1)
        level = np.take_along_axis(levels, starts + counted - 1, axis=-1)
        point = np.empty_like(scores)
        point[..., self._order] = np.maximum(below - level[..., block], 0.0)
        return point

    def softmax(self, scores: Vector) -> Vector:
        ordered, starts, block = scores[..., self._order], self._starts, self._block
        weights = np.exp(ordered - np.maximum.reduceat(ordered, starts, axis=-1)[..., block])
        point = np.empty_like(scores)
        point[..., self._order] = weights / np.add.reduceat(weights, starts, axis=-1)[..., block]
        return point


# --- settings --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FrankWolfeSettings(LearnerSettings, ABC):
    """Settings that both forms share.

    ``rate`` is that of the leaders, which follow sums that are released every ``resample_every`` rounds.
    ``event`` is the noise on these sums; None where nothing is ever released. ``claimed_expert_epsilon`` is
    what a paper claims for one expert with its constants. ``added_curvature`` is the concave curvature added
    to payoffs in every round, as in paper 004's approximate leader; None for leaders at a fixed rate.
    """

    paper: ClassVar[str]
    noises: ClassVar[tuple[str, ...]]

    rounds: int
    domain: Constraint | Box
    bound: float = 1.0
    regularizer: str = "euclidean"
    sums: SumMethod
    noise: NoiseLaw
    steps: int = 1
    resample_every: int = 1
    rate: float = 1.0
    event: Event | None = None
    claimed_expert_epsilon: float | None = None
    added_curvature: float | None = None
    n_items: int = 0  # coordinates of a point: those of the domain

    def __post_init__(self) -> None:
        if isinstance(self.domain, Constraint) and self.domain.n_items is None:
            raise ValueError(f"{self.domain!r} does not say over how many items; give it n_items=")
        size = self.domain.dimension if isinstance(self.domain, Box) else self.domain.n_items
        self._put(
            n_items=size,
            rounds=checks.whole("rounds", self.rounds, at_least=1),
            bound=checks.real("bound", self.bound, at_least=LEAST, at_most=MOST),
        )
        checks.one_of("noise", self.noise, self.noises)
        checks.one_of("regularizer", self.regularizer, REGULARIZERS)
        if self.noise != "gaussian" and self.sums != "tree":
            raise ValueError(f'{self.noise} noise needs sums="tree", not {checks.shown(self.sums)}')

    # --- differences of the two forms -----------------------------------------------------------

    @property
    @abstractmethod
    def payoffs(self) -> VectorBounds:
        """Declared bounds of one person's payoff vector for one expert."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """The largest L2 norm of one person's payoff vector for one expert."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest entry of such a vector."""

    @abstractmethod
    def discretization(self, steps: int) -> float:
        """The loss from a finite number of steps, over all rounds."""

    @property
    def trivial(self) -> float:
        """The regret bound that holds without learning anything."""
        return ALPHA * self.bound * self.rounds

    # --- the experts and their sums --------------------------------------------------------------

    @cached_property
    def leader(self) -> Leader:
        """The leader that each expert follows, and the sizes that its regret depends on."""
        return Leader(self.domain, self.regularizer)

    @property
    def units(self) -> float:
        """How many units of payoff make 1: a power of two, with 2^31 to 2^32 units in the largest entry.

        Fewer where a batch is so long that its sum would not be exact as a float.
        """
        bits = min(32, 53 - self.resample_every.bit_length())
        return float(2.0 ** (bits - math.frexp(self.largest)[1]))

    @property
    def most(self) -> int:
        """The largest entry, in units."""
        return math.floor(self.largest * self.units)

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of all experts' payoffs; None where nothing is released."""
        return self._spec(self.steps, self.resample_every)

    def _spec(self, steps: int, batch: int) -> SumSpec | None:
        """`spec` for other numbers of steps and rounds per batch: a vector for each batch but the last.

        Gaussian noise is drawn for all experts together. Other noise is drawn and accounted for each expert
        separately: a person's vectors enter one release per level of the tree and expert, each with the
        sensitivity of one expert's vectors. This keeps the experts' noise independent, and lets their
        losses compose in zCDP where there is a delta.
        """
        releases = -(-self.rounds // batch) - 1
        if not releases:
            return None
        one = self.payoffs if batch == 1 else replace(self.payoffs, people_per_vector=batch)
        more: dict[str, Any] = {"participation": self.participation}
        if self.noise == "gaussian":
            more["variance_reduction"] = self.sums == "tree"
            return SumSpec(one.stacked(steps), releases, self.sums, **more)
        return SumSpec(one, releases, "tree", self.noise, stacked=steps, **more)

    @cached_property
    def ends(self) -> Sequence[int]:
        return range(self.resample_every, self.rounds, self.resample_every)

    def expert_epsilon(self, max_rounds_per_person: int) -> float:
        """Pure epsilon of one expert, for all rounds of a person together; infinite for Gaussian noise."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        if not isinstance(event, LaplaceNoise) or not event.scale:
            return math.inf
        each = float(event.sensitivity) / float(event.scale)
        return spec.count // self.steps * each * max_rounds_per_person

    # --- what is certified -----------------------------------------------------------------------

    def best_rate(self, steps: int, batch: int) -> float:
        """The rate that minimizes the experts' regret without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.best_entropic_rate(leader.spread, paid, self.rounds, batch, self.bound)
        return bounds.best_euclidean_rate(leader.reach, self.longest, self.rounds, batch)

    def _experts_lose(self, steps: int, batch: int, rate: float) -> float:
        """The average regret of the experts without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.entropic(leader.spread, paid, self.rounds, rate, batch, self.bound)
        return bounds.euclidean(leader.reach, self.longest, self.rounds, rate, batch)

    def _noise_maximum(self, spec: SumSpec | None, event: Event | None) -> float:
        """Expected maximum of the noise of an expert's last sum: a bound on that expert's loss from it."""
        if spec is None or event is None:
            return 0.0
        leader, n = self.leader, self.leader.n_items
        if isinstance(event, GaussianNoise):
            deviation = spec.deviation(event)
            over_box = bounds.box_maximum(leader.widths, deviation, gaussian=True)
            found = [leader.radius * math.sqrt(n) * deviation, over_box]
            if not leader.is_box:
                found.append(bounds.set_maximum(n, leader.rank, deviation))
            return min(found)
        assert isinstance(event, LaplaceNoise)
        scale, draws = float(event.scale), spec.most_draws
        if self.noise == "laplace":
            return bounds.laplace_set_maximum(n, leader.rank, scale, draws)
        deviation = scale * math.sqrt((n + 1.0) * draws)
        over_box = bounds.box_maximum(leader.widths, deviation, gaussian=False)
        return min(leader.radius * math.sqrt(n) * deviation, over_box)

    @property
    def least_regret(self) -> float:
        """The certificate at the best rate, not capped at the trivial bound."""
        return self._certified(lambda *_: (self.spec, self.event), self.steps, self.resample_every)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds."""
        lost = self.discretization(self.steps)
        if self.added_curvature is not None:
            return min(self.trivial, lost + self._approximate_leaders_lose(self.added_curvature))
        wider = 1.0 if self.spec is None or self.event is None else self.spec.widening(self.event)
        lost += self._noise_maximum(self.spec, self.event) * wider
        return min(self.trivial, lost + self._experts_lose(self.steps, self.resample_every, self.rate))

    def _approximate_leaders_lose(self, curvature: float) -> float:
        """The average regret of paper 004's leaders, noise included."""
        n, error = self.n_items, 0.0
        if self.spec is not None and isinstance(self.event, LaplaceNoise):
            error = float(self.event.scale) * math.sqrt(n * (n + 1.0) * self.spec.most_draws)
        return bounds.approximate_leader(self.leader.radius, self.longest, self.rounds, curvature, error)

    # --- choosing the numbers --------------------------------------------------------------------

    def least_noise(self, share: Share) -> Callable[[int, int], tuple[SumSpec | None, Event | None]]:
        """A function of steps and batch: the sum, and the least noise with which it fits into ``share``.

        It does not depend on the regularizer.
        """

        @cache
        def found(steps: int, batch: int) -> tuple[SumSpec | None, Event | None]:
            spec = self._spec(steps, batch)
            return spec, None if spec is None else spec.event(share, share.definition)

        return found

    def settled(
        self,
        least_noise: Callable[[int, int], tuple[SumSpec | None, Event | None]],
        steps: int | str,
        resample_every: int | str = 1,
        rate: float | None = None,
    ) -> Self:
        """These settings with the given numbers, and the best certified ones for ``"auto"``.

        Where no number of steps improves on the trivial bound, few are used, which do best in practice.
        """
        auto, tuned = steps == "auto", resample_every == "auto"
        halves = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * self.rounds.bit_length())})
        few = [number for number in halves if number <= min(MOST_STEPS, self.rounds)]
        batches = [batch for batch in halves if batch <= self.rounds]
        if not auto:
            few = [checks.whole("steps", steps, at_least=1, at_most=MOST_STEPS)]
        if not tuned:
            batches = [checks.whole("resample_every", resample_every, at_least=1)]
        number, batch = few[0], batches[0]
        if auto or tuned:
            found = [(self._certified(least_noise, *one), *one) for one in itertools.product(few, batches)]
            total, number, batch = min(found)
            noise = least_noise(number, batch)
            if auto and total >= self.trivial:
                number = min(FEW_STEPS, self.rounds)
            elif auto and noise[1] is not None and not self._noise_maximum(*noise):
                # Only time speaks against more steps.
                number = min(one for lost, one, each in found if each == batch and lost <= _ENOUGH * total)
        if rate is None:
            # A batch chosen by the user does not change the rate: learning is as fast as without one.
            rate = self.best_rate(number, batch if tuned else 1)
        event = least_noise(number, batch)[1]
        rate = checks.real("rate", rate, above=0.0)
        settled = replace(self, steps=number, resample_every=batch, rate=rate, event=event)
        vars(settled)["leader"] = self.leader  # reuse it, as the domain is the same
        return settled

    def _certified(self, least_noise: Any, steps: int, batch: int) -> float:
        """The certificate of these numbers at their best rate."""
        experts = self._experts_lose(steps, batch, self.best_rate(steps, batch))
        return self.discretization(steps) + experts + self._noise_maximum(*least_noise(steps, batch))


@dataclass(frozen=True, kw_only=True)
class FrankWolfeSetSettings(FrankWolfeSettings):
    """Settings of `MetaFrankWolfe`: ``domain`` is the constraint."""

    paper: ClassVar[str] = "paper 003, Algorithm 3 (ln T levels of a tree that has log2 T)"
    noises: ClassVar[tuple[str, ...]] = ("gaussian", "laplace")
    tuned: ClassVar[tuple[str, ...]] = (
        "resample_every", "rate", "min_separation", "curvature", "items_per_person", "sums",
    )  # fmt: skip

    curvature: bool = False
    items_per_person: int | None = None
    samples: int = 200
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Constraint):
            raise TypeError(
                f"constraint must be a constraint (Cardinality, PartitionMatroid, Knapsack, ...), got"
                f" {checks.shown(self.domain)}; for points of a box there is MetaFrankWolfePoints"
            )
        super().__post_init__()
        self._put(
            curvature=bool(self.curvature),
            samples=checks.whole("samples", self.samples, at_least=2),
            labels=item_labels(self.labels, self.n_items),
        )
        if self.items_per_person is not None:
            checks.whole("items_per_person", self.items_per_person, at_least=1, at_most=self.n_items)

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        steps: int | str = "auto",
        regularizer: str | None = None,
        rate: float | None = None,
        sums: SumMethod | Auto = "auto",
        resample_every: int | str = 1,
        min_separation: int | None = None,
        **asked: Any,
    ) -> FrankWolfeSetSettings:
        """Settings for the given options, with the least noise that fits into ``share``.

        The regularizer is the one that certifies less regret, unless one is given.
        """
        method, noise = chosen_sums(sums, "auto", share, lambda: "laplace")
        asked |= {"calibration": "tight", "participation": Participation.declared(share, min_separation)}
        kinds = REGULARIZERS if regularizer is None else (regularizer,)
        drafts = [cls(**asked, sums=method, noise=noise, regularizer=kind) for kind in kinds]
        least_noise = drafts[0].least_noise(share)
        found = [draft.settled(least_noise, steps, resample_every, rate) for draft in drafts]
        return found[0] if len(found) == 1 else min(found, key=lambda one: one.least_regret)

    @classmethod
    def published(
        cls, share: Share, *, steps: int | str = "auto", regularizer: str | None = None, **asked: Any
    ) -> FrankWolfeSetSettings:
        """The constants of paper 003: K of the order of sqrt(T), and Laplace noise on a tree."""
        kind = "entropy" if regularizer is None else regularizer
        draft = cls(**asked, calibration="published", sums="tree", noise="laplace", regularizer=kind)
        epsilon, delta = claimed_epsilon(share).epsilon, share.delta
        if not delta:
            raise ValueError('calibration="published" needs delta > 0; give the budget a delta')
        number = bounds.published_steps(draft.rounds) if steps == "auto" else steps
        found = draft.settled(draft.least_noise(share), number)
        claimed = epsilon / (2.0 * math.sqrt(2.0 * found.steps * math.log(1.0 / delta)))
        found = replace(found, claimed_expert_epsilon=claimed)
        if found.event is None:
            return found
        scale = bounds.published_scale(found.n_items, found.rounds, found.steps, epsilon, delta, found.bound)
        return replace(found, event=LaplaceNoise(found.payoffs.difference(share.neighbours), scale))

    @cached_property
    def constraint(self) -> Constraint:
        """The sets that may be chosen."""
        assert isinstance(self.domain, Constraint)
        return self.domain

    @cached_property
    def k(self) -> int:
        """The largest number of items in a set."""
        return self.constraint.rank

    @cached_property
    def weights(self) -> Vector:
        """The weight of the gradient in each expert's payoff; the rest is the least gradient."""
        if not self.curvature:
            return np.ones(self.steps)
        found: Vector = (1.0 - 1.0 / self.steps) ** np.arange(self.steps - 1, -1, -1.0)
        return found

    @cached_property
    def payoffs(self) -> VectorBounds:
        norm = 1 if self.noise == "laplace" else 2
        return VectorBounds(self.n_items, norm, None, (0.0, self.bound), self.items_per_person)

    @property
    def longest(self) -> float:
        counted = self.n_items if self.items_per_person is None else self.items_per_person
        return self.bound * math.sqrt(counted)

    @property
    def largest(self) -> float:
        return self.bound

    @property
    def trivial(self) -> float:
        return (1.0 if self.curvature else ALPHA) * self.bound * self.rounds

    def discretization(self, steps: int) -> float:
        rank = self.leader.rank
        if self.curvature:
            return self.bound * rank**2 * self.rounds / (2.0 * steps)
        return bounds.discretization(steps, rank, self.rounds, self.bound)


@dataclass(frozen=True, kw_only=True)
class FrankWolfePointSettings(FrankWolfeSettings):
    """Settings of `MetaFrankWolfePoints`."""

    paper: ClassVar[str] = (
        "paper 000, Algorithm 4 (noise for a gradient's length, not for a difference of two)"
    )
    noises: ClassVar[tuple[str, ...]] = ("gaussian", "spherical")
    tuned: ClassVar[tuple[str, ...]] = ("resample_every", "rate", "min_separation", "sums")

    gradient_bound: float
    smoothness: float | None = None
    clip: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Constraint | Box):
            raise TypeError(
                f"domain must be a domains.Box or a constraint (Cardinality, PartitionMatroid, Knapsack, ...)"
                f", got {checks.shown(self.domain)}"
            )
        super().__post_init__()
        longest = checks.real("gradient_bound", self.gradient_bound, at_least=LEAST, at_most=MOST)
        self._put(gradient_bound=longest, clip=bool(self.clip))
        if self.smoothness is not None:
            self._put(smoothness=checks.real("smoothness", self.smoothness, at_least=0.0))
        checks.one_of("regularizer", self.regularizer, ("euclidean",))
        if self.noise == "spherical" and self.resample_every > 1:
            raise ValueError(
                f"resample_every={self.resample_every}: without a delta, spherical noise sums one person at a"
                " time; use 1, or give the budget a delta"
            )

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        steps: int | str = "auto",
        rate: float | None = None,
        sums: SumMethod | Auto = "auto",
        resample_every: int | str = 1,
        min_separation: int | None = None,
        **asked: Any,
    ) -> FrankWolfePointSettings:
        """Settings for the given options, with the least noise that fits into ``share``."""
        method, noise = chosen_sums(sums, "auto", share, lambda: "spherical")
        asked |= {"calibration": "tight", "participation": Participation.declared(share, min_separation)}
        draft = cls(**asked, sums=method, noise=noise)
        if steps == "auto" and draft.smoothness is None:
            raise ValueError(
                'steps="auto" weighs steps against smoothness; give smoothness= (a public bound of how fast'
                " gradients change) or a number of steps"
            )
        if resample_every == "auto" and noise == "spherical":
            resample_every = 1
        return draft.settled(draft.least_noise(share), steps, resample_every, rate)

    @classmethod
    def published(cls, share: Share, *, steps: int | str = "auto", **asked: Any) -> FrankWolfePointSettings:
        """The constants of paper 000, with the leader and the noise of paper 004."""
        draft = cls(**asked, calibration="published", sums="tree", noise="spherical")
        epsilon = claimed_epsilon(share).epsilon
        number = bounds.published_leader_steps(draft.rounds) if steps == "auto" else steps
        found = draft.settled(draft.least_noise(share), number)
        claimed = epsilon / found.steps
        curvature = bounds.published_curvature(found.n_items, found.rounds, claimed)
        found = replace(found, added_curvature=curvature, claimed_expert_epsilon=claimed)
        if found.event is None:
            return found
        length = found.gradient_bound + curvature * found.leader.radius  # of a gradient with its regularizer
        scale = length * (math.ceil(math.log2(max(found.rounds, 2))) + 1) / claimed
        return replace(found, event=SphericalLaplaceNoise(found.payoffs.difference(share.neighbours), scale))

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.n_items

    @cached_property
    def payoffs(self) -> VectorBounds:
        return VectorBounds(self.n_items, 2, self.gradient_bound, (0.0, self.gradient_bound))

    @property
    def longest(self) -> float:
        return self.gradient_bound

    @property
    def largest(self) -> float:
        return self.gradient_bound

    def discretization(self, steps: int) -> float:
        if self.smoothness is None:
            return math.inf
        return bounds.smooth_discretization(steps, self.leader.radius, self.smoothness, self.rounds)


# --- learners --------------------------------------------------------------------------------------------


def _calibrated(kind: Any, given: dict[str, Any]) -> tuple[Any, Share]:
    """`calibrated`, with a warning if an expert spends more than its paper claims but all together do not."""
    if given["calibration"] == "published" and given["sums"] == "tree":  # the published form uses a tree
        given["sums"] = "auto"
    settings, share = calibrated(kind, given)
    claimed: float | None = settings.claimed_expert_epsilon
    true_loss: float = settings.expert_epsilon(share.budget.max_rounds_per_person)
    if claimed is not None and share.budget == given["budget"] and true_loss > claimed * (1.0 + 1e-12):
        checks.warn(
            f"{kind.paper}: each expert claims epsilon {at_most(claimed, 4)} and has {at_most(true_loss, 4)},"
            f" which is {true_loss / claimed:.2f} times as much; slack in the composition of all experts"
            " still makes up for it. See docs/errata.md.",
            PublishedCalibrationWarning,
        )
    return settings, share


class PaidExperts(BatchedSum):
    """K linear experts on private sums of their payoffs, which move when these are released.

    ``points`` are the partial points after 0, 1, ... K experts, each of which adds 1/K of its own; the last
    one is played. Payoffs are rounded down to integer units, so that a person's part in the sums is exact.
    """

    _state = ("round_public", "points")
    _units: float

    def __init__(self, settings: Any, gate: Gate) -> None:
        shape = settings.steps, settings.n_items
        how: dict[str, Any] = {"units": settings.units, "disjoint": False, "label": "gradients"}
        super().__init__(settings, gate, shape, most=settings.most, **how)
        # Certificates need noise that never decreases; paper 004's leaders do without that.
        self._public = self.public if settings.added_curvature is None else None
        self.points: Vector = np.zeros((settings.steps + 1, settings.n_items))

    def _draw_public(self, gate: Gate) -> None:
        # Both forms draw both public streams, so that a seed gives both the same noise.
        super()._draw_public(gate)
        self.round_public = gate.public_randomness()

    def drawn(self, number: int, active: Any, pool: Any) -> NDArray[Any]:  # noqa: ARG002
        """The point to play, from every expert's leader on the released sums."""
        added = self.settings.added_curvature
        rate = self.settings.rate if added is None else 1.0 / (added * max(1, number))
        self.points = self.settings.leader.partial_points(self.released, rate)
        return np.array(self.points[-1])

    def in_units(self, payoffs: Vector) -> NDArray[np.int64]:
        units = np.floor(payoffs * self._units)
        return np.asarray(np.clip(units, 0, self.most), dtype=np.int64)

    def start(self, start: Released) -> None:
        """Start every expert from the items' values."""
        if start.values is not None:
            typical = float(np.nanmean(start.values))
            known = np.where(np.isnan(start.values), typical, start.values)
            self.warm(np.tile(known, (self.settings.steps, 1)), start.people)

    # --- people given as set functions -----------------------------------------------------------

    def counted(self, people: Population, number: int) -> Population:
        cap = self.settings.items_per_person
        return people if cap is None else capped(people, cap, self.round_public, number)

    def prepared(self, person: Population, number: int, shown: Any) -> Population | NDArray[np.int64]:  # noqa: ARG002
        one = self.counted(person, number)
        rows = one.as_rows()
        return self._paid(one, number) if rows is None or rows.kind.of_sums else one

    def _paid(self, person: Population, number: int) -> NDArray[np.int64]:
        """A person's payoffs for each expert, from gradients that may be averages over random sets."""
        settings, weights = self.settings, self.settings.weights[:, None]
        # With the same randomness at every point, sets grow with the point and submodular gains only fall.
        asked = [
            person.multilinear_gradient(
                x.copy(), rng=self.round_public.of_round(number), samples=settings.samples
            )
            for x in self.points[:-1]
        ]
        if settings.curvature:
            asked.append(person.least_gains())
        size, bound = settings.n_items, settings.bound
        found = np.array([answers.vector("gradient", one, size, 0.0, bound) for one in asked])
        payoffs = found[: settings.steps]
        if settings.curvature:
            payoffs = weights * payoffs + (1.0 - weights) * found[-1]
        return self.in_units(payoffs)

    def add_rows(self, people: Population, first: int, within_limit: NDArray[np.bool_], shown: Any) -> None:  # noqa: ARG002
        rows, settings = people.as_rows(), self.settings
        assert rows is not None
        how = self.points[:-1], settings.weights, self._units, self.most
        rows.gradients.add_gradients(first, within_limit.view(np.uint8), *how, self.pending)

    def units_of(self, shown: Any) -> Counting:  # noqa: ARG002
        how = self.points[:-1].copy(), self.settings.weights, self._units, self.most
        return partial(_row_units, *how)


def _expert_epsilon(learner: Any) -> float:
    """Pure epsilon of one expert; infinite without privacy."""
    found: float = learner.settings.expert_epsilon(learner.budget.max_rounds_per_person)
    return found if learner.budget.private else math.inf


class MetaFrankWolfePoints(OnlineLearner):
    """K linear experts over a box or the polytope of a constraint; their average is the point that is played.

    Paper 000, Algorithm 4. People are monotone DR-submodular functions with ``value`` and ``gradient``
    (`discreet.objectives.continuous`, any object with these two methods, or a pair of functions), ``domain``
    is a `Box` or any constraint, and the experts are Euclidean. The paper prints the gradient at the final
    point; here expert k gets it at the k-th partial point, as the paper's proof requires.

    ``gradient_bound`` is a public bound on every gradient's length (L2), ``bound`` on every value. Longer
    gradients are refused, or shortened and counted (``insecure_clipped``) with ``clip=True``. ``smoothness``
    bounds how fast gradients change (L2), for the certificate, which is trivial without it.

    ``steps``, ``rate``, ``sums``, ``resample_every``, ``min_separation`` and ``calibration`` are those of
    `MetaFrankWolfe`. Without a delta, noise is spherical, on a tree to which people are added one at a time.

    Formal guarantee: one person moves the payoffs of one expert by at most sqrt(2) gradient_bound in L2
    (replace; gradient_bound if people only come or go); all else is post-processing. Holds for people chosen
    with knowledge of all earlier decisions.

    >>> import discreet as dc
    >>> people = dc.objectives.ConcaveOfLinear([[0.9, 0.1], [0.6, 0.4]] * 50)
    >>> box = dc.constraints.domains.Box([0.0, 0.0], [1.0, 1.0])
    >>> learner = MetaFrankWolfePoints(
    ...     box, len(people), dc.Budget(1.0, 1e-6), gradient_bound=1.0, steps=2, seed=0
    ... )
    >>> learner.choose().shape, len(learner.run(people))
    ((2,), 100)
    """

    settings: FrankWolfePointSettings
    _settings_type: ClassVar[type[FrankWolfePointSettings]] = FrankWolfePointSettings
    _state = ("_sum", "_clipped")
    _noun: ClassVar[str] = "point"

    def __init__(
        self,
        domain: Box | Constraint,
        rounds: int,
        budget: Spending,
        *,
        gradient_bound: float,
        smoothness: float | None = None,
        steps: int | Auto = "auto",
        rate: float | None = None,
        sums: SumMethod | Auto = "auto",
        resample_every: int | Auto = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        clip: bool = False,
        calibration: Calibration = "tight",
        seed: Seed = None,
    ) -> None:
        super().__init__(*_calibrated(FrankWolfePointSettings, locals()))

    @property
    def point(self) -> Vector:
        """The point of this round: the average of the experts' points."""
        return np.array(self._sum.points[-1])

    @property
    def expert_epsilon(self) -> float:
        """Pure epsilon of one expert, for all rounds of a person together; infinite for Gaussian noise."""
        return _expert_epsilon(self)

    @property
    def insecure_clipped(self) -> int:
        """How many people's gradients were shortened: private information that no noise protects."""
        return self._clipped

    def choose(self) -> Vector:
        """The point for this round."""
        point: Vector = super().choose()
        return point

    def __repr__(self) -> str:
        about = f"{self.settings.domain!r}, {self.settings.steps} experts"
        return f"{type(self).__name__}({about}, round {self.round:,} of {self.rounds:,})"

    # --- deciding --------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._sum, self._clipped = PaidExperts(self.settings, self._gate), 0

    @property
    def _width(self) -> int:
        return self.settings.n_items

    def _due(self) -> bool:
        return self.settings.due(self.round)

    def _draw(self) -> Vector:
        return np.asarray(self._sum.draw(self.round, None), dtype=np.float64)

    def _decision(self, shown: NDArray[Any]) -> Vector:
        return shown.copy()

    def _row(self, decision: Vector) -> Vector:
        return decision

    def _spent(self) -> Account:
        return self._account(*self._sum.entries())

    def _value(self, person: Any, decision: Vector) -> float:
        value, _ = self._functions(person)
        return answers.number("value(x)", value(decision.copy()), 0.0, self.settings.bound)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        domain = self.settings.domain
        inside = domain.contains if isinstance(domain, Box) else domain.in_polytope
        return super()._could_show(shown) and inside(shown)

    # --- learning --------------------------------------------------------------------------------

    def _functions(self, person: Any) -> tuple[Callable[[Vector], Any], Callable[[Vector], Any]]:
        """A person's function and its gradient, from any accepted form."""
        settings = self.settings
        if isinstance(person, Population):
            person = MultilinearExtension(person)
        if isinstance(person, ContinuousPopulation):
            if person.dimension != settings.n_items:
                raise ValueError(
                    f"the function has {person.dimension} coordinates; this learner's points"
                    f" have {settings.n_items}"
                )
            if not person.bound <= settings.bound * (1 + 1e-12):
                raise ValueError(
                    f"the function may reach {person.bound:g}, above the learner's bound={settings.bound:g};"
                    " rescale it or declare a larger bound"
                )
        return cost_functions(person)

    def _check_people(self, people: Any) -> None:
        if isinstance(people, ContinuousPopulation | Population):
            self._functions(people)

    def _prepared(self, person: Any) -> tuple[NDArray[np.int64], bool]:
        """The payoffs for each expert in units, and whether any gradient was shortened."""
        if isinstance(person, ContinuousPopulation | Population) and len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        self._value(person, self._sum.points[-1])
        longest, size = self.settings.gradient_bound, self.settings.n_items
        asked = [self._functions(person)[1](x.copy()) for x in self._sum.points[:-1]]
        found = np.array([answers.vector("gradient(x)", one, size) for one in asked])
        slack = answers.ROUNDING * longest
        if found.min() < -slack:
            k, item = (int(i) for i in np.argwhere(found < -slack)[0])
            raise ValueError(
                f"gradient(x)[{item}]={found[k, item]:g} at partial point {k} is negative; the learner needs"
                " functions that never fall (monotone)"
            )
        found = np.maximum(found, 0.0)
        largest = np.maximum(found.max(axis=1), longest)
        lengths = largest * np.sqrt(row_sums(np, (found / largest[:, None]) ** 2))
        worst = int(np.argmax(lengths))
        long = bool(lengths[worst] > longest * (1.0 + answers.ROUNDING))
        if long and not self.settings.clip:
            raise ValueError(
                f"gradient(x) at partial point {worst} has length {lengths[worst]:g}, above"
                f" gradient_bound={longest:g}; rescale, declare more, or pass clip=True"
            )
        found *= np.minimum(1.0, longest / np.maximum(lengths, 1e-300))[:, None]
        return self._sum.in_units(found), long

    def _observe(self, person: tuple[NDArray[np.int64], bool]) -> None:
        units, shortened = person
        self._clipped += shortened
        self._sum.add(units)


class MetaFrankWolfe(OnlineSelector):
    """K linear experts over the polytope of a constraint; their average is rounded to a feasible set.

    Paper 003, Algorithm 3. People are monotone set functions, ``constraint`` is a matroid or a knapsack. The
    experts follow the regularized leader on private sums of multilinear gradients, expert k at the partial
    point of the first k - 1; their average is a point of the polytope (``point``), and `choose` rounds it to
    a feasible `Selection` with public randomness. ``regularizer`` is ``"entropy"`` (the paper's) or
    ``"euclidean"``; by default the one that certifies less regret, which is the Euclidean one where few items
    of each person are counted, and does better on real streams there.

    ``steps`` is K: more steps lose less by discretization (as 1/K) but share the privacy among more experts
    (noise grows as sqrt(K)). ``"auto"`` takes the best certified number, or 4 where nothing can be certified:
    on real streams 2 to 8 do best, because the loss of few steps is a worst case and noise is not. Without
    noise it takes the fewest steps whose certificate is at most a quarter above the best: each takes time.
    ``resample_every=B`` releases sums and decides anew every B rounds, at the rate of B = 1 unless
    ``"auto"``. ``items_per_person=m`` counts at most m items of each person (rows only): noise grows with
    sqrt(m) instead of sqrt(n_items). ``curvature=True`` pays expert k with w_k of the gradient and 1 - w_k of
    the least gradient, w_k = (1 - 1/K)^(K - k): the same noise, and 1 - kappa/e of the best set instead of
    1 - 1/e, where kappa is the people's largest curvature, which need not be known.
    ``min_separation=s`` is for people who return (`RunningSumSelector`), in batches of ``resample_every``.

    The budget determines the noise: Gaussian on factorized sums (or a tree) where there is a delta; without
    one, pure epsilon by a tree with Laplace noise. ``calibration="published"`` takes the paper's constants;
    their true guarantee is in ``privacy`` and, for one expert, in ``expert_epsilon``.

    ``rounds`` must always be declared: the rate, the number of steps and the certificate, which other
    learners under a constraint do not have, depend on them. Without a horizon there is
    ``LeaderSelector(..., None, budget, constraint=...)``, under any matroid.

    ``bound`` is a public bound on every person's value, and so on every gradient entry. Functions without a
    closed form get gradients averaged over ``samples`` public random sets.

    ``certified_regret`` is that of the fractional points: matroid rounding adds nothing to it, and that of a
    knapsack up to the value of one item per round. With ``curvature=True`` it is the (1 - kappa/e)-regret,
    and with ``items_per_person`` that for people as they are counted.

    Formal guarantee: one person moves the stacked payoffs by at most bound sqrt(K min(n, 2 m)) in L2
    (replace; bound n per expert in L1); all else is post-processing. Holds for people chosen with knowledge
    of all earlier decisions.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 50)
    >>> one_of_each = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], 1)
    >>> learner = MetaFrankWolfe(one_of_each, len(people), dc.Budget(1.0, 1e-6), steps=2, seed=0)
    >>> one_of_each.contains(learner.choose().items), len(learner.run(people))
    (True, 100)
    """

    settings: FrankWolfeSetSettings
    _sum: PaidExperts
    _settings_type: ClassVar[type[FrankWolfeSetSettings]] = FrankWolfeSetSettings
    _state = ("_sum",)
    _constrained = True

    def __init__(
        self,
        constraint: Constraint,
        rounds: int,
        budget: Spending,
        *,
        steps: int | Auto = "auto",
        regularizer: str | None = None,
        rate: float | None = None,
        curvature: bool = False,
        sums: SumMethod | Auto = "auto",
        items_per_person: int | None = None,
        resample_every: int | Auto = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        samples: int = 200,
        calibration: Calibration = "tight",
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        given = locals()
        given["domain"] = given.pop("constraint")
        super().__init__(*_calibrated(FrankWolfeSetSettings, given), start)

    @property
    def point(self) -> Vector:
        """The fractional point of this round's set: the average of the experts' points."""
        return np.array(self._sum.points[-1])

    @property
    def expert_epsilon(self) -> float:
        """Pure epsilon of one expert, for all rounds of a person together; infinite for Gaussian noise.

        With ``calibration="published"`` it is the library's account, not ``claimed_expert_epsilon``: the tree
        of paper 003 pays for ln T levels but has log2 T, so this is at least about 1.44 times the claim.
        """
        return _expert_epsilon(self)

    # --- sets ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._sum = PaidExperts(self.settings, self._gate)

    def _start(self, start: Released) -> None:
        self._sum.start(start)

    def _draw(self) -> NDArray[np.int32]:
        point = self._sum.draw(self._rounds.number, None)
        items = self.settings.constraint.round(point, self._sum.public.generator)
        shown = np.full(self.settings.k, -1, dtype=np.int32)
        shown[: len(items)] = items
        return shown

    def _could_show(self, shown: NDArray[Any]) -> bool:
        items = shown[: np.count_nonzero(shown >= 0)]
        if shown.shape != (self._width,) or (items < 0).any() or np.unique(items).size < items.size:
            return False
        return self._feasible(items)

    def _feasible(self, items: Any) -> bool:
        return self.settings.constraint.contains(items)

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        if not active.any():
            raise ValueError("no item would be left")

    def _refit(self) -> None:
        """Nothing to do: points include all items, and sets are adapted in every round."""

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        if rows.kind.of_sums or self._catalogue.active is not None:
            self._run_one_by_one(stream)
        else:
            super()._run_rows(stream, rows)


def _row_units(
    points: Vector, weights: Vector, units: float, most: int, person: Population
) -> NDArray[np.int64]:
    """The payoffs of a person, or of people given as rows, for each expert, in units."""
    rows = person.as_rows()
    if rows is None or rows.kind.of_sums:
        raise ValueError("random sets for gradients go by rounds, which a part does not know; give rows")
    paid = np.zeros(points.shape, dtype=np.int64)
    rows.gradients.add_gradients(0, np.ones(len(person), np.uint8), points, weights, units, most, paid)
    return paid
