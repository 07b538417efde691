"""Meta-Frank-Wolfe for sets under a constraint, through the multilinear extension."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..bounds import frank_wolfe as bounds
from ..bounds.selection import ALPHA
from ..constraints import Constraint, Matroid, PartitionMatroid
from ..constraints.domains import Box
from ..core import checks
from ..core.text import track
from ..objectives import Population, answers
from ..objectives.continuous import ContinuousPopulation, MultilinearExtension
from ..objectives.devices import row_sums
from ..objectives.rows import Rows
from ..privacy import (
    Account,
    Event,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    Participation,
    PublicRandomness,
    Seed,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
    spend_from,
)
from ..privacy.accountant import Spending
from ..privacy.published import PublishedCalibrationWarning, published_share
from ..results import Selection, Trace
from .calibration import chosen_sums
from .learner import CALIBRATIONS, LearnerSettings, OnlineLearner, OnlineSelector, Stream, item_labels
from .partial import Partial, Summed
from .people import capped, check_population
from .released import Estimates, Released
from .sums import PrivateTotal

Vector = NDArray[np.float64]

# Where scores would be larger, the rate is lowered to make them this: at a vertex but for rounding either
# way, and projections keep all their digits.
_LARGEST = 1e6


class Leader:
    """The regularised leader over a constraint's polytope or a box, and the sizes its regret depends on.

    Matroids are searched among bases, which monotone functions lose nothing by. ``rank`` is the largest sum
    of a point, ``radius`` the largest length, ``spread`` the range of the regulariser (entropy) and
    ``reach`` the square root of twice its range (Euclidean).
    """

    def __init__(self, domain: Constraint | Box, regularizer: str) -> None:
        n_items = size_of(domain)
        self.n_items, self.regularizer = n_items, regularizer
        self._box: tuple[Vector, Vector] | None = None
        self._constraint = domain if isinstance(domain, Constraint) else None
        self._options = {"base": True} if isinstance(domain, Matroid) else {}
        if isinstance(domain, Constraint):
            everything = domain.maximize(np.ones(n_items))
            self.rank = float(everything.sum())
            self.radius = math.sqrt(self.rank)
            self.widths = [1.0] * n_items
        else:
            low, high = domain.low, domain.high
            if (low < 0.0).any():
                where = int(np.argmax(low < 0.0))
                raise ValueError(
                    f"low[{where}]={low[where]:g}: Frank-Wolfe steps start at 0; give a box with low >= 0"
                )
            self._box = low, high
            self.rank = float(high.sum())
            self.radius = float(np.linalg.norm(high))
            self.widths = (high - low).tolist()
        blocks = domain.one_of_each if isinstance(domain, PartitionMatroid) else None
        self._blocks = None if blocks is None else Blocks(blocks)
        start = self.at(np.zeros(n_items), 1.0)
        if regularizer == "entropy":
            logs = np.log(start, out=np.zeros(n_items), where=start > 0.0)
            least = float(start @ logs)
            self.spread = -least if self._options else float(start.sum()) - least
            self.reach = math.inf
        else:
            self.spread = math.inf
            if self._box is None:
                self.reach = math.sqrt(max(self.rank - float(start @ start), 0.0))
            else:
                self.reach = float(np.linalg.norm(self.widths)) / 2.0

    @property
    def is_box(self) -> bool:
        return self._box is not None

    def at(self, payoffs: Vector, rate: float) -> Vector:
        """The point with the largest rate <payoffs, x> less the regulariser."""
        scores = payoffs * min(rate, _LARGEST / max(float(np.abs(payoffs).max()), 1e-300))
        if self._box is not None:
            low, high = self._box
            return np.clip((low + high) / 2.0 + scores, low, high)
        assert self._constraint is not None
        if self._blocks is not None:
            return (
                self._blocks.softmax(scores)
                if self.regularizer == "entropy"
                else self._blocks.nearest(scores)
            )
        if self.regularizer == "entropy":
            point = self._constraint.project_entropy(scores, log=True, **self._options)
        else:
            point = self._constraint.project_euclidean(scores, **self._options)
        return np.clip(point.x, 0.0, 1.0)

    def partial_points(self, payoffs: Vector, rate: float) -> Vector:
        """x^1 = 0, x^(k+1) = x^k + v^k / K: one row per expert, and the final point as the last."""
        experts = payoffs.shape[0]
        points = np.zeros((experts + 1, self.n_items))
        for k in range(experts):
            points[k + 1] = points[k] + self.at(payoffs[k], rate) / experts
        if self._box is None:
            np.minimum(points, 1.0, out=points)
        return points


class Blocks:
    """Disjoint blocks of items, one of each to be chosen: leaders are found in each block on its own.

    Many times faster than the projections for any capacities, whose answers they equal.
    """

    def __init__(self, groups: Sequence[NDArray[np.intp]]) -> None:
        self._order = np.concatenate(groups)
        sizes = [group.size for group in groups]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._block = np.repeat(np.arange(len(sizes)), sizes)
        self._place = np.arange(self._block.size) - self._starts[self._block] + 1.0

    def nearest(self, scores: Vector) -> Vector:
        """The Euclidean leader: the scores less a level of the block's own, where that is above 0."""
        ordered = scores[self._order]
        below = ordered - np.maximum.reduceat(ordered, self._starts)[self._block]
        falling = np.lexsort((-below, self._block))
        # Whoever is 1 or more below the best of the block gets nothing, and need not be told apart.
        sums = np.cumsum(sorted_below := np.maximum(below[falling], -1.0))
        before = np.concatenate(([0.0], sums))[self._starts]
        levels = (sums - before[self._block] - 1.0) / self._place
        counted = np.add.reduceat((sorted_below > levels).astype(np.intp), self._starts)
        level = levels[self._starts + counted - 1]
        point = np.empty_like(scores)
        point[self._order] = np.maximum(below - level[self._block], 0.0)
        return point

    def softmax(self, scores: Vector) -> Vector:
        ordered = scores[self._order]
        weights = np.exp(ordered - np.maximum.reduceat(ordered, self._starts)[self._block])
        point = np.empty_like(scores)
        point[self._order] = weights / np.add.reduceat(weights, self._starts)[self._block]
        return point


def size_of(domain: Constraint | Box) -> int:
    """How many coordinates the points of a domain have; a constraint's are its items."""
    if isinstance(domain, Box):
        return domain.dimension
    assert domain.n_items is not None
    return domain.n_items


REGULARIZERS = ("entropy", "euclidean")
MOST_STEPS, FEW_STEPS = 4096, 4
# Bounds beyond these would have squares or units that leave the range of floats.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True, kw_only=True)
class FrankWolfeSettings(LearnerSettings, ABC):
    """What both forms go by.

    ``rate`` is that of the leaders, who follow sums which are fed every ``resample_every`` rounds. ``event``
    is one release of these sums; None where nothing is ever released. ``claimed_expert_epsilon`` is what a
    paper claims of one expert, with its constants. ``added_curvature`` makes payoffs concave by so much in
    every round, as paper 004's approximate leader does; None for leaders at a fixed rate.
    """

    domain: Constraint | Box
    steps: int
    regularizer: str
    rate: float
    sums: str
    noise: str
    resample_every: int
    bound: float
    event: Event | None
    claimed_expert_epsilon: float | None
    added_curvature: float | None

    def __post_init__(self) -> None:
        if self.noise != "gaussian" and self.sums != "tree":
            raise ValueError(f'{self.noise} noise needs sums="tree", not {checks.shown(self.sums)}')

    # --- differences of the two forms -----------------------------------------------------------

    @property
    @abstractmethod
    def payoffs(self) -> VectorBounds:
        """Declared bounds of what one person pays one expert."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """The longest vector that one person pays one expert, in L2."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest entry of such a vector."""

    @abstractmethod
    def discretization(self, steps: int) -> float:
        """What a finite number of steps loses over all rounds."""

    @property
    def trivial(self) -> float:
        """What doing nothing at all can lose."""
        return ALPHA * self.bound * self.horizon

    # --- the experts and their sums --------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many coordinates a point has."""
        return size_of(self.domain)

    @cached_property
    def leader(self) -> Leader:
        """Where an expert stands, given its payoffs; and the sizes that its regret depends on."""
        return Leader(self.domain, self.regularizer)

    @property
    def units(self) -> float:
        """Units in which payoffs are counted, per 1: a power of two, 2^31 to 2^32 of them to the largest.

        Fewer where a batch is so long that its sum would not be an exact float.
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
        """The same for other numbers: a vector for each batch of people but the last.

        Gaussian noise is drawn for all experts together. Other noise is drawn and accounted for each expert
        on its own: a person's vectors enter one release per level of the tree and expert, each with the
        sensitivity of one expert's vectors. This keeps the experts' noises independent, and lets their
        losses compose in zCDP where there is a delta.
        """
        releases = -(-self.horizon // batch) - 1
        if not releases:
            return None
        one = replace(self.payoffs, people_per_vector=batch)
        if self.noise == "gaussian":
            reduced = self.sums == "tree"
            one = one.stacked(steps)
            return SumSpec(
                one, releases, self.sums, variance_reduction=reduced, participation=self.participation
            )
        return SumSpec(one, releases, "tree", self.noise, stacked=steps, participation=self.participation)

    def batch_at(self, number: int) -> int:
        return number // self.resample_every

    def batch_start(self, batch: int) -> int:
        return batch * self.resample_every

    @property
    def releases(self) -> int:
        """Sums that a decision can look at: one per batch but the last."""
        return 0 if self.spec is None else self.spec.rounds

    def expert_epsilon(self, max_rounds_per_person: int) -> float:
        """Pure epsilon of one expert, all rounds of a person together; infinite for Gaussian noise."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        if not isinstance(event, LaplaceNoise) or not event.scale:
            return math.inf
        each = float(event.sensitivity) / float(event.scale)
        return spec.count // self.steps * each * max_rounds_per_person

    # --- what is certified -----------------------------------------------------------------------

    def best_rate(self, steps: int, batch: int) -> float:
        """The rate at which the experts lose least without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.best_entropic_rate(leader.spread, paid, self.horizon, batch, self.bound)
        return bounds.best_euclidean_rate(leader.reach, self.longest, self.horizon, batch)

    def _experts_lose(self, steps: int, batch: int, rate: float) -> float:
        """The average regret of the experts without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.entropic(leader.spread, paid, self.horizon, rate, batch, self.bound)
        return bounds.euclidean(leader.reach, self.longest, self.horizon, rate, batch)

    def _noise_maximum(self, spec: SumSpec | None, event: Event | None) -> float:
        """Expected maximum of the noise of an expert's last sum: what it can cost that expert."""
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
        """What is certified at the best rate, also where that is more than doing nothing loses."""
        lost, steps, batch = self.discretization(self.steps), self.steps, self.resample_every
        experts = self._experts_lose(steps, batch, self.best_rate(steps, batch))
        return lost + experts + self._noise_maximum(self.spec, self.event)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds."""
        lost = self.discretization(self.steps)
        if self.added_curvature is not None:
            return min(self.trivial, lost + self._approximate_leaders_lose(self.added_curvature))
        lost += self._noise_maximum(self.spec, self.event)
        return min(self.trivial, lost + self._experts_lose(self.steps, self.resample_every, self.rate))

    def _approximate_leaders_lose(self, curvature: float) -> float:
        """The average regret of paper 004's leaders, noise included."""
        n, error = self.size, 0.0
        if self.spec is not None:
            assert isinstance(self.event, LaplaceNoise)
            error = float(self.event.scale) * math.sqrt(n * (n + 1.0) * self.spec.most_draws)
        return bounds.approximate_leader(self.leader.radius, self.longest, self.horizon, curvature, error)

    # --- settling the numbers --------------------------------------------------------------------

    def settled(
        self, share: Share, steps: int | str, resample_every: int | str, rate: float | None = None
    ) -> Self:
        """These settings with the numbers asked for, the best certified ones for ``"auto"``, and the least
        noise that fits into ``share``.
        """
        batches = (
            None if resample_every == "auto" else [checks.whole("resample_every", resample_every, at_least=1)]
        )
        numbers = None if steps == "auto" else [checks.whole("steps", steps, at_least=1, at_most=MOST_STEPS)]
        number, batch = self._best(share, numbers, batches)
        if rate is None:
            # A batch of the user's choosing is taken as a matter of convenience: learn as fast as without it.
            rate = self.best_rate(number, 1 if batches else batch)
        found = replace(
            self,
            steps=number,
            resample_every=batch,
            rate=checks.real("rate", rate, above=0.0),
            event=self._event(number, batch, share),
        )
        vars(found)["leader"] = self.leader  # that of the same domain
        return found

    def _event(self, steps: int, batch: int, share: Share) -> Event | None:
        spec = self._spec(steps, batch)
        return None if spec is None else spec.event(share, share.definition)

    def _best(
        self, share: Share, steps: Sequence[int] | None, batches: Sequence[int] | None
    ) -> tuple[int, int]:
        """The numbers of steps and of rounds per batch with the smallest certified regret.

        Where no number of steps certifies more than doing nothing does, few of them, which real streams like.
        """
        if steps is not None and batches is not None:
            return steps[0], batches[0]
        halves = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * self.horizon.bit_length())})
        shortest = batches or [batch for batch in halves if batch <= self.horizon]
        few = steps or [number for number in halves if number <= min(MOST_STEPS, self.horizon)]
        found: list[tuple[float, int, int]] = []
        for number in few:
            lost = self.discretization(number)
            for batch in shortest:
                experts = self._experts_lose(number, batch, self.best_rate(number, batch))
                event = self._event(number, batch, share)
                noise = self._noise_maximum(self._spec(number, batch), event)
                found.append((lost + experts + noise, number, batch))
        total, number, batch = min(found)
        if steps is None and total >= self.trivial:
            number = min(FEW_STEPS, self.horizon)
        return number, batch


def unsettled(rounds: int, bound: float, calibration: str) -> dict[str, Any]:
    """What both forms are asked for, checked, with numbers that `FrankWolfeSettings.settled` replaces."""
    return {
        "rounds": checks.whole("rounds", rounds, at_least=1),
        "calibration": calibration,
        "bound": checks.real("bound", bound, at_least=LEAST, at_most=MOST),
        "steps": 1,
        "resample_every": 1,
        "rate": 1.0,
        "event": None,
        "claimed_expert_epsilon": None,
        "added_curvature": None,
    }


@dataclass(frozen=True, kw_only=True)
class SetSettings(FrankWolfeSettings):
    """What a `MetaFrankWolfe` goes by: ``domain`` is the constraint."""

    paper: ClassVar[str] = "paper 003, Algorithm 3 (ln T levels of a tree that has log2 T)"

    curvature: bool
    items_per_person: int | None
    samples: int
    labels: tuple[Any, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Constraint):
            raise ValueError("a box has no sets to choose; give a matroid or a knapsack")
        checks.one_of("noise", self.noise, ("gaussian", "laplace"))
        if self.items_per_person is not None:
            checks.whole("items_per_person", self.items_per_person, at_least=1, at_most=self.size)
        if self.labels is not None:
            item_labels(self.labels, self.size)

    @classmethod
    def tight(
        cls,
        constraint: Constraint,
        rounds: int,
        share: Share,
        *,
        steps: int | str = "auto",
        regularizer: str | None = None,
        rate: float | None = None,
        curvature: bool = False,
        sums: str = "auto",
        items_per_person: int | None = None,
        resample_every: int | str = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        samples: int = 200,
        labels: Sequence[Any] | None = None,
    ) -> SetSettings:
        """The settings for what is asked, with the least noise that fits into ``share``.

        The regulariser is the one that certifies less regret, where none is given.
        """
        common = _asked(constraint, rounds, bound, samples, labels, "tight")
        common |= {"curvature": bool(curvature), "items_per_person": items_per_person}
        common["participation"] = Participation.declared(share, min_separation)
        common["sums"], common["noise"] = chosen_sums(sums, "auto", share, lambda: "laplace")
        kinds = REGULARIZERS if regularizer is None else (regularizer,)
        found = [cls(**common, regularizer=_kind(kind)) for kind in kinds]
        return min(
            (one.settled(share, steps, resample_every, rate) for one in found),
            key=lambda one: one.least_regret,
        )

    @classmethod
    def published(
        cls,
        constraint: Constraint,
        rounds: int,
        share: Share,
        *,
        steps: int | str = "auto",
        regularizer: str | None = None,
        bound: float = 1.0,
        samples: int = 200,
        labels: Sequence[Any] | None = None,
    ) -> SetSettings:
        """The constants of paper 003: K of the order of the root of T, and Laplace noise on a tree."""
        common = _asked(constraint, rounds, bound, samples, labels, "published")
        if not share.private:
            raise ValueError('calibration="published" needs a finite epsilon; no other constants exist')
        if not share.delta:
            raise ValueError('calibration="published" needs delta > 0; give the budget a delta')
        kind = "entropy" if regularizer is None else _kind(regularizer)
        common |= {"curvature": False, "items_per_person": None, "sums": "tree", "noise": "laplace"}
        asked = cls(**common, regularizer=kind)
        number = bounds.published_steps(asked.horizon) if steps == "auto" else steps
        found = asked.settled(share, number, 1)
        epsilon, delta = share.budget.epsilon, share.delta
        claimed = epsilon / (2.0 * math.sqrt(2.0 * found.steps * math.log(1.0 / delta)))
        if found.event is None:
            return replace(found, claimed_expert_epsilon=claimed)
        scale = bounds.published_scale(found.size, found.horizon, found.steps, epsilon, delta, found.bound)
        event = LaplaceNoise(found.payoffs.difference(share.neighbours), scale)
        return replace(found, event=event, claimed_expert_epsilon=claimed)

    @property
    def n_items(self) -> int:
        """How many items there are to choose from."""
        return self.size

    @property
    def constraint(self) -> Constraint:
        """The sets that may be chosen."""
        assert isinstance(self.domain, Constraint)
        return self.domain

    @property
    def weights(self) -> NDArray[np.float64]:
        """How much of each expert's payoff is the gradient; the rest is the least gradient."""
        if not self.curvature:
            return np.ones(self.steps)
        found: NDArray[np.float64] = (1.0 - 1.0 / self.steps) ** np.arange(self.steps - 1, -1, -1.0)
        return found

    @property
    def payoffs(self) -> VectorBounds:
        norm = 1 if self.noise == "laplace" else 2
        return VectorBounds(self.size, norm, None, (0.0, self.bound), self.items_per_person)

    @property
    def longest(self) -> float:
        counted = self.size if self.items_per_person is None else self.items_per_person
        return self.bound * math.sqrt(counted)

    @property
    def largest(self) -> float:
        return self.bound

    @property
    def trivial(self) -> float:
        return (1.0 if self.curvature else ALPHA) * self.bound * self.horizon

    def discretization(self, steps: int) -> float:
        rank = self.leader.rank
        if self.curvature:
            return self.bound * rank**2 * self.horizon / (2.0 * steps)
        return bounds.discretization(steps, rank, self.horizon, self.bound)


def _asked(
    constraint: Constraint,
    rounds: int,
    bound: float,
    samples: int,
    labels: Sequence[Any] | None,
    calibration: str,
) -> dict[str, Any]:
    """What every learner of sets under a constraint is asked for, checked."""
    if not isinstance(constraint, Constraint):
        raise TypeError(
            f"constraint must be a constraint (Cardinality, PartitionMatroid, Knapsack, ...), got"
            f" {checks.shown(constraint)}; for points of a box there is MetaFrankWolfePoints"
        )
    if constraint.n_items is None:
        raise ValueError(f"{constraint!r} does not say over how many items; give it n_items=")
    return {
        **unsettled(rounds, bound, calibration),
        "domain": constraint,
        "samples": checks.whole("samples", samples, at_least=2),
        "labels": item_labels(labels, constraint.n_items),
    }


def _kind(regularizer: str) -> str:
    return checks.one_of("regularizer", regularizer, REGULARIZERS)


@dataclass(frozen=True, kw_only=True)
class PointSettings(FrankWolfeSettings):
    """What a `MetaFrankWolfePoints` goes by."""

    paper: ClassVar[str] = (
        "paper 000, Algorithm 4 (noise for a gradient's length, not for a difference of two)"
    )

    gradient_bound: float
    smoothness: float | None
    clip: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("noise", self.noise, ("gaussian", "spherical"))
        checks.one_of("regularizer", self.regularizer, ("euclidean",))
        if self.noise == "spherical" and self.resample_every > 1:
            raise ValueError(
                f"resample_every={self.resample_every}: without a delta, spherical noise sums one person at a"
                " time; use 1, or give the budget a delta"
            )

    @classmethod
    def tight(
        cls,
        domain: Constraint | Box,
        rounds: int,
        share: Share,
        *,
        gradient_bound: float,
        smoothness: float | None = None,
        steps: int | str = "auto",
        rate: float | None = None,
        sums: str = "auto",
        resample_every: int | str = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        clip: bool = False,
    ) -> PointSettings:
        """The settings for what is asked, with the least noise that fits into ``share``."""
        common = _asked_points(domain, rounds, gradient_bound, smoothness, bound, clip, "tight")
        common["participation"] = Participation.declared(share, min_separation)
        method, noise = chosen_sums(sums, "auto", share, lambda: "spherical")
        found = cls(**common, sums=method, noise=noise)
        if steps == "auto" and found.smoothness is None:
            raise ValueError(
                'steps="auto" weighs steps against smoothness; give smoothness= (a public bound of how fast'
                " gradients change) or a number of steps"
            )
        if resample_every == "auto" and found.noise == "spherical":
            resample_every = 1
        return found.settled(share, steps, resample_every, rate)

    @classmethod
    def published(
        cls,
        domain: Constraint | Box,
        rounds: int,
        share: Share,
        *,
        gradient_bound: float,
        smoothness: float | None = None,
        steps: int | str = "auto",
        bound: float = 1.0,
        clip: bool = False,
    ) -> PointSettings:
        """The constants of paper 000, with the leader and the noise of paper 004."""
        common = _asked_points(domain, rounds, gradient_bound, smoothness, bound, clip, "published")
        if not share.private:
            raise ValueError('calibration="published" needs a finite epsilon; no other constants exist')
        asked = cls(**common, sums="tree", noise="spherical")
        number = bounds.published_leader_steps(asked.horizon) if steps == "auto" else steps
        found = asked.settled(share, number, 1)
        claimed = share.budget.epsilon / found.steps
        curvature = bounds.published_curvature(found.size, found.horizon, claimed)
        found = replace(found, added_curvature=curvature, claimed_expert_epsilon=claimed)
        if found.event is None:
            return found
        length = found.gradient_bound + curvature * 2.0 * found.leader.radius
        scale = length * (math.ceil(math.log2(max(found.horizon, 2))) + 1) / claimed
        return replace(found, event=SphericalLaplaceNoise(found.payoffs.difference(share.neighbours), scale))

    @property
    def payoffs(self) -> VectorBounds:
        return VectorBounds(self.size, 2, self.gradient_bound, (0.0, self.gradient_bound))

    @property
    def longest(self) -> float:
        return self.gradient_bound

    @property
    def largest(self) -> float:
        return self.gradient_bound

    def discretization(self, steps: int) -> float:
        if self.smoothness is None:
            return math.inf
        return bounds.smooth_discretization(steps, self.leader.radius, self.smoothness, self.horizon)


def _asked_points(
    domain: Constraint | Box,
    rounds: int,
    gradient_bound: float,
    smoothness: float | None,
    bound: float,
    clip: bool,
    calibration: str,
) -> dict[str, Any]:
    """What every learner of points is asked for, checked."""
    if not isinstance(domain, Constraint | Box):
        raise TypeError(
            f"domain must be a domains.Box or a constraint (Cardinality, PartitionMatroid, Knapsack, ...),"
            f" got {checks.shown(domain)}"
        )
    if isinstance(domain, Constraint) and domain.n_items is None:
        raise ValueError(f"{domain!r} does not say over how many items; give it n_items=")
    return {
        **unsettled(rounds, bound, calibration),
        "domain": domain,
        "regularizer": "euclidean",
        "gradient_bound": checks.real("gradient_bound", gradient_bound, at_least=LEAST, at_most=MOST),
        "smoothness": None if smoothness is None else checks.real("smoothness", smoothness, at_least=0.0),
        "clip": bool(clip),
    }


Floats = NDArray[np.float64]


class SetGradients:
    """Multilinear gradients of a set function; where sampled, by public randomness of the round."""

    def __init__(self, settings: SetSettings, public: PublicRandomness) -> None:
        self._settings, self._public = settings, public
        self._weights = settings.weights[:, None]

    def fed(self, person: Population, experts: Experts, number: int) -> NDArray[np.int64]:
        """What one person pays each expert in round ``number``."""
        settings, public = self._settings, self._public
        # The same randomness at every point: sets grow with the point, and submodular gains only fall.
        asked = [
            person.multilinear_gradient(x.copy(), rng=public.of_round(number), samples=settings.samples)
            for x in experts.points[:-1]
        ]
        if settings.curvature:
            asked.append(person.least_gains())
        found = np.array(
            [answers.vector("gradient", one, settings.size, 0.0, settings.bound) for one in asked]
        )
        payoffs = found[: settings.steps]
        if settings.curvature:
            payoffs = self._weights * payoffs + (1.0 - self._weights) * found[-1]
        return experts.whole_units(payoffs)


@dataclass(frozen=True)
class PointFunction:
    """Somebody's function of points."""

    value: Callable[[Floats], Any]
    gradient: Callable[[Floats], Any]


class PointGradients:
    """Gradients of functions of points, of limited length."""

    def __init__(self, settings: PointSettings) -> None:
        self._settings = settings

    def function(self, person: Any) -> PointFunction:
        """Somebody's function, whatever carries it."""
        settings = self._settings
        if isinstance(person, Population):
            person = MultilinearExtension(person)
        if isinstance(person, ContinuousPopulation):
            if person.dimension != settings.size:
                raise ValueError(
                    f"the function has {person.dimension} coordinates; this learner's points"
                    f" have {settings.size}"
                )
            if not person.bound <= settings.bound * (1 + 1e-12):
                raise ValueError(
                    f"the function may reach {person.bound:g}, above the learner's bound={settings.bound:g};"
                    " rescale it or declare a larger bound"
                )
            return PointFunction(person.value, person.gradient)
        if isinstance(person, tuple) and len(person) == 2 and all(callable(part) for part in person):
            return PointFunction(*person)
        value, gradient = getattr(person, "value", None), getattr(person, "gradient", None)
        if not callable(value) or not callable(gradient):
            raise TypeError(
                "expected a function with value(x) and gradient(x), or the pair of them, got"
                f" {type(person).__name__}"
            )
        return PointFunction(value, gradient)

    def value(self, function: PointFunction, x: Floats) -> float:
        """What a point is worth."""
        return answers.number("value(x)", function.value(x.copy()), 0.0, self._settings.bound)

    def fed(self, function: PointFunction, experts: Experts) -> tuple[NDArray[np.int64], bool]:
        """What one person pays each expert, and whether any of it was longer."""
        settings, points = self._settings, experts.points
        self.value(function, points[-1])
        found = np.array(
            [answers.vector("gradient(x)", function.gradient(x.copy()), settings.size) for x in points[:-1]]
        )
        longest = settings.gradient_bound
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
        if long and not settings.clip:
            raise ValueError(
                f"gradient(x) at partial point {worst} has length {lengths[worst]:g}, above"
                f" gradient_bound={longest:g}; rescale, declare more, or pass clip=True"
            )
        found *= np.minimum(1.0, longest / np.maximum(lengths, 1e-300))[:, None]
        return experts.whole_units(found), long


class Experts:
    """K leaders one after another, each following a private sum of its own payoffs.

    ``points`` are where the first 0, 1, ... K of them stop, each going 1/K of the way; the last is what is
    played. ``total`` gathers payoffs in whole ``units``, at most ``most`` of them an entry and person.
    """

    _state = ("total", "points")

    def __init__(self, settings: FrankWolfeSettings, gate: Gate, public: PublicRandomness) -> None:
        self._leader, self._every = settings.leader, settings.resample_every
        self._rate, self._added = settings.rate, settings.added_curvature
        self.units, self.most = settings.units, settings.most
        self.total = PrivateTotal(
            settings.spec,
            gate,
            settings.event,
            (settings.steps, settings.size),
            units=self.units,
            public=public if self._added is None else None,  # noise that never falls, as certificates need
            label="gradients",
        )
        self.points: Floats = np.zeros((settings.steps + 1, settings.size))

    def move(self, number: int) -> Floats:
        """Release what was gathered before round ``number``, and let everybody follow it; the last point."""
        known = self.total.release() if number else self.total.released
        rate = self._rate if self._added is None else 1.0 / (self._added * max(1, number))
        self.points = self._leader.partial_points(known, rate)
        point: Floats = self.points[-1]
        return point

    def whole_units(self, payoffs: Floats) -> NDArray[np.int64]:
        """Payoffs in whole units, rounded down, so that one person's part in the sums is exact."""
        return np.asarray(np.clip(np.floor(payoffs * self.units), 0, self.most), dtype=np.int64)


class FrankWolfeLearner(OnlineLearner):
    """K linear experts whose average is played; expert k is paid by gradients where the first k - 1 stop."""

    settings: SetSettings | PointSettings
    _state: ClassVar[tuple[str, ...]] = ("_public", "_round_public", "_experts")

    # --- for users -------------------------------------------------------------------------------

    @property
    def point(self) -> NDArray[np.float64]:
        """The fractional point of this round's decision: the average of the experts' points."""
        return np.array(self._experts.points[-1])

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds."""
        return self.settings.certified_regret

    @property
    def expert_epsilon(self) -> float:
        """Pure epsilon of one expert, all rounds of a person together; infinite for Gaussian noise.

        By the library's account, beside ``claimed_expert_epsilon`` with ``calibration="published"``: the tree
        of paper 003 pays for ln T levels and has log2 T, so that this is 1.45 to 1.52 times the claim.
        """
        if not self.budget.private:
            return math.inf
        return self.settings.expert_epsilon(self.budget.max_rounds_per_person)

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """The whole stream at once; ``trace.selections`` has a row per round.

        A point, or the items of a set, filled up with -1.
        """
        trace: Trace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    def __repr__(self) -> str:
        about = f"{self.settings.domain!r}, {self.settings.steps} experts"
        return f"{type(self).__name__}({about}, round {self.round:,} of {self.rounds:,})"

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        # Both forms draw the words of both, so that noise follows from the seed alone.
        self._public, self._round_public = self._gate.public_randomness(), self._gate.public_randomness()
        self._experts = Experts(self.settings, self._gate, self._public)

    @property
    def _total(self) -> PrivateTotal:
        return self._experts.total

    def _due(self) -> bool:
        return self._rounds.number % self.settings.resample_every == 0

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Trace:
        return Trace(rewards, selections, type(self).__name__)

    def _spent(self) -> Account:
        return self._account(*self._total.entries())


def claimed_share(settings: SetSettings | PointSettings, share: Share) -> Share:
    """Where published noise is spent: a gate that holds it, with a warning where it is less than claimed."""
    spec, event, claimed = settings.spec, settings.event, settings.claimed_expert_epsilon
    releases = [] if spec is None or event is None else [(event, spec.count)]
    found = published_share(share, releases, settings.paper)
    true_loss = settings.expert_epsilon(share.budget.max_rounds_per_person)
    assert claimed is not None
    if found is share and true_loss > claimed * (1.0 + 1e-12):
        warnings.warn(
            f"{settings.paper}: each expert claims epsilon {claimed:.4g} and has {true_loss:.4g}, which is"
            f" {true_loss / claimed:.2f} times as much; slack in the composition of all experts"
            " still makes up for it. See docs/errata.md.",
            PublishedCalibrationWarning,
            stacklevel=4,
        )
    return found


class MetaFrankWolfePoints(FrankWolfeLearner):
    """K linear experts over a box or the polytope of a constraint; their average is the point that is played.

    Paper 000, Algorithm 4. People are monotone DR-submodular functions with ``value`` and ``gradient``
    (`discreet.objectives.continuous`, any object with these two methods, or a pair of functions), ``domain``
    is a `Box` or any constraint, and the experts are Euclidean. The paper prints the gradient at the final
    point; it is fed at the k-th partial one, which its proof needs.

    ``gradient_bound`` is a public bound of every gradient's length (L2), ``bound`` of every value. Longer
    gradients are refused, or shortened and counted (``insecure_clipped``) with ``clip=True``. ``smoothness``
    bounds how fast gradients change (L2), for the certificate.

    ``steps`` is K: more steps lose less between them (as 1/K) and share the privacy among more experts (noise
    grows as sqrt(K)). ``"auto"`` takes the best certified number, or 4 where nothing can be certified.
    ``resample_every=B`` feeds the sums and decides anew every B rounds, at the rate of B = 1 unless
    ``"auto"``. Noise follows from the budget: Gaussian on factorised sums (or a tree) where there is a delta;
    without one, pure epsilon by a tree with spherical noise, a person at a time. ``calibration="published"``
    takes the papers' constants; what they really give is in ``privacy`` and, for one expert, in
    ``expert_epsilon``.
    ``min_separation=s`` is for people who return (`RunningSumSelector`), in batches of ``resample_every``.

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

    settings: PointSettings
    _settings_type: ClassVar[type[PointSettings]] = PointSettings
    _state = ("_clipped",)
    _noun: ClassVar[str] = "point"

    def __init__(
        self,
        domain: Box | Constraint,
        rounds: int,
        budget: Spending,
        *,
        gradient_bound: float,
        smoothness: float | None = None,
        steps: int | str = "auto",
        rate: float | None = None,
        sums: str = "auto",
        resample_every: int | str = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        clip: bool = False,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        asked: dict[str, Any] = {"gradient_bound": gradient_bound, "smoothness": smoothness, "steps": steps}
        asked |= {"bound": bound, "clip": clip}
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            if (resample_every, rate, min_separation) != (1, None, None):
                raise ValueError(
                    'calibration="published" feeds every round, at rates of its own; leave resample_every'
                    ' and rate out, and min_separation, or take calibration="tight"'
                )
            if sums not in ("auto", "tree"):
                raise ValueError('calibration="published" is a tree with spherical noise; leave sums out')
            settings = PointSettings.published(domain, rounds, share, **asked)
            share = claimed_share(settings, share)
        else:
            asked |= {"rate": rate, "sums": sums, "resample_every": resample_every}
            asked["min_separation"] = min_separation
            settings = PointSettings.tight(domain, rounds, share, **asked)
        super().__init__(settings, share)

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self.settings.size

    @property
    def insecure_clipped(self) -> int:
        """How many people's gradients were shortened; a fact about people, not protected."""
        return self._clipped

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds.

        With ``clip`` it is about people whose gradients were not shortened; rounds that are not learned from
        are not in it. Without ``smoothness`` it is the trivial one.
        """
        return super().certified_regret

    def choose(self) -> NDArray[np.float64]:
        """The point for this round."""
        point: NDArray[np.float64] = super().choose()
        return point

    # --- deciding --------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self._gradients, self._clipped = PointGradients(self.settings), 0

    @property
    def _width(self) -> int:
        return self.settings.size

    def _draw(self) -> NDArray[np.float64]:
        return np.array(self._experts.move(self._rounds.number))

    def _decision(self, shown: NDArray[Any]) -> NDArray[np.float64]:
        return shown.copy()

    def _row(self, decision: NDArray[np.float64]) -> NDArray[np.float64]:
        return decision

    def _value(self, person: Any, decision: NDArray[np.float64]) -> float:
        return self._gradients.value(self._gradients.function(person), decision)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        domain = self.settings.domain
        inside = domain.contains if isinstance(domain, Box) else domain.in_polytope
        return super()._could_show(shown) and inside(shown)

    # --- learning --------------------------------------------------------------------------------

    def _check_people(self, people: Any) -> None:
        if isinstance(people, ContinuousPopulation | Population):
            self._gradients.function(people)

    def _prepared(self, person: Any) -> tuple[NDArray[np.int64], bool]:
        """What is paid to each expert in whole units, and whether any of it was shortened."""
        if isinstance(person, ContinuousPopulation | Population) and len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        return self._gradients.fed(self._gradients.function(person), self._experts)

    def _observe(self, person: tuple[NDArray[np.int64], bool]) -> None:
        units, shortened = person
        self._clipped += shortened
        self._total.add(units)


class MetaFrankWolfe(FrankWolfeLearner, OnlineSelector):
    """K linear experts over the polytope of a constraint; their average is rounded to a feasible set.

    Paper 003, Algorithm 3. People are monotone set functions, ``constraint`` is a matroid or a knapsack. The
    experts follow the regularised leader on private sums of multilinear gradients, expert k at the point
    where the first k - 1 stop; their average is a point of the polytope (``point``), and `choose` rounds it
    to a feasible `Selection` with public randomness. ``regularizer`` is ``"entropy"`` (the paper's) or
    ``"euclidean"``; by default the one that certifies less regret, which is the Euclidean one where few items
    of each person are counted, and serves real streams better there.

    ``steps`` is K: more steps lose less between them (as 1/K) and share the privacy among more experts (noise
    grows as sqrt(K)). ``"auto"`` takes the best certified number, or 4 where nothing can be certified: on
    real streams 2 to 8 do best, because what few steps lose is a worst case and noise is not.
    ``resample_every=B`` feeds the sums and decides anew every B rounds, at the rate of B = 1 unless
    ``"auto"``. ``items_per_person=m`` counts at most m items of each person (rows only): noise grows with
    sqrt(m) instead of sqrt(n_items). ``curvature=True`` pays expert k with w_k of the gradient and 1 - w_k of
    the least gradient, w_k = (1 - 1/K)^(K - k): the same noise, and 1 - kappa/e of the best set instead of
    1 - 1/e, where kappa is the people's largest curvature; nothing needs to be guessed.
    ``min_separation=s`` is for people who return (`RunningSumSelector`), in batches of ``resample_every``.

    Noise follows from the budget: Gaussian on factorised sums (or a tree) where there is a delta; without
    one, pure epsilon by a tree with Laplace noise. ``calibration="published"`` takes the paper's constants;
    what they really give is in ``privacy`` and, for one expert, in ``expert_epsilon``.

    ``rounds`` are declared, always: the rate, the number of steps and the certificate, which other learners
    under a constraint do not have, are settled for them. Without a horizon there is
    ``LeaderSelector(..., None, budget, constraint=...)``, under any matroid.

    ``bound`` is a public bound of every person's value, and so of every gradient entry. Functions without a
    closed form get gradients averaged over ``samples`` public random sets.

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

    settings: SetSettings
    _settings_type: ClassVar[type[SetSettings]] = SetSettings
    _played_type: ClassVar[type[np.generic]] = np.int32
    _noun: ClassVar[str] = "set"
    _constrained = True

    def __init__(
        self,
        constraint: Constraint,
        rounds: int,
        budget: Spending,
        *,
        steps: int | str = "auto",
        regularizer: str | None = None,
        rate: float | None = None,
        curvature: bool = False,
        sums: str = "auto",
        items_per_person: int | None = None,
        resample_every: int | str = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        samples: int = 200,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        asked: dict[str, Any] = {"steps": steps, "regularizer": regularizer, "bound": bound}
        asked |= {"samples": samples, "labels": labels}
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            given = (resample_every, rate, items_per_person, bool(curvature), min_separation)
            if given != (1, None, None, False, None):
                raise ValueError(
                    'calibration="published" feeds every round whole; leave resample_every, rate,'
                    ' items_per_person and curvature out, and min_separation, or take calibration="tight"'
                )
            if sums not in ("auto", "tree"):
                raise ValueError('calibration="published" is a tree with Laplace noise; leave sums out')
            settings = SetSettings.published(constraint, rounds, share, **asked)
            share = claimed_share(settings, share)
        else:
            asked |= {"rate": rate, "curvature": curvature, "sums": sums}
            asked |= {"items_per_person": items_per_person, "resample_every": resample_every}
            asked["min_separation"] = min_separation
            settings = SetSettings.tight(constraint, rounds, share, **asked)
        super().__init__(settings, share, start)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds.

        Matroid rounding loses nothing of it; a knapsack's loses up to the value of one item a round. With
        ``curvature=True`` it is the (1 - kappa/e)-regret. With ``items_per_person`` it is about the people as
        they are counted; rounds that are not learned from are not in it.
        """
        return self._certified(super().certified_regret)

    # --- deciding --------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self._gradients = SetGradients(self.settings, self._round_public)
        self._constraint, self._weights = self.settings.constraint, self.settings.weights

    def _estimates(self) -> Estimates:
        return self._total.averages(self._rounds.number, self._width)

    def _start(self, start: Released) -> None:
        """Every expert begins with what items were worth."""
        if start.values is not None:
            typical = float(np.nanmean(start.values))
            known = np.where(np.isnan(start.values), typical, start.values)
            self._total.warm(np.tile(known, (self.settings.steps, 1)), start.people)

    def _ranking(self) -> NDArray[np.float64]:
        return np.asarray(self._total.released.sum(axis=0))

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        if not active.any():
            raise ValueError("no item would be left")

    def _refit(self) -> None:
        """Points have all items; what is rounded to a set is fitted in every round."""

    def _feasible(self, items: list[int]) -> bool:
        return self.settings.constraint.contains(items)

    @property
    def _width(self) -> int:
        return self._constraint.rank

    def _draw(self) -> NDArray[np.int32]:
        point = self._experts.move(self._rounds.number)
        return self._row_of(self._constraint.round(point, self._public.generator))

    def _row_of(self, items: Any) -> NDArray[np.int32]:
        row = np.full(self._width, -1, dtype=np.int32)
        row[: len(items)] = items
        return row

    def _decision(self, shown: NDArray[Any]) -> Selection:
        return self._selection(tuple(shown[shown >= 0].tolist()))

    def _row(self, decision: Selection) -> NDArray[np.int32]:
        return self._row_of(decision.items)

    def _value(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), 0.0, self.bound)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        items = shown[: np.count_nonzero(shown >= 0)]
        if shown.shape != (self._width,) or (items < 0).any() or np.unique(items).size < items.size:
            return False
        return self._constraint.contains(items)

    # --- learning --------------------------------------------------------------------------------

    def _check_people(self, people: Any) -> None:
        check_population(people, self.settings.size, self.settings.bound)
        if not people.monotone:
            raise ValueError("the learner needs functions that never fall when an item is added (monotone)")

    def _prepared(self, person: Any) -> Population | NDArray[np.int64]:
        """Rows for the compiled loop, or what is paid to each expert in whole units."""
        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        one = self._counted(person)
        return one if _closed_form(one.as_rows()) else self._gradients.fed(one, self._experts, self.round)

    def _counted(self, people: Population) -> Population:
        """The people of the rounds to come as they are counted."""
        cap = self.settings.items_per_person
        return people if cap is None else capped(people, cap, self._round_public, self._rounds.number)

    def _check_divisible(self) -> None:
        settings = self.settings
        if settings.items_per_person is not None or settings.participation is not None:
            raise ValueError("items_per_person= and min_separation= go by rounds, which a part does not know")

    def _summed(self) -> Summed:
        experts, shape = self._experts, (self.settings.steps, self.settings.size)
        points, most = experts.points[:-1].copy(), experts.most
        return Summed(shape, 0, most, partial(_row_units, points, self._weights, experts.units, most))

    def _batch(self) -> int:
        return self.settings.batch_start(self.settings.batch_at(self._rounds.number))

    def _room(self) -> int:
        every = self.settings.resample_every
        return every - self._rounds.number % every

    def _check_part(self, part: Partial) -> None:
        super()._check_part(part)
        self._total.check(part.sums, part.count)  # type: ignore[attr-defined]

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:
        del count
        self._total.add(sums)

    def _observe(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        else:
            self._total.add(person)

    def _add_rows(self, people: Population, within_limit: NDArray[np.bool_], first: int) -> None:
        experts = self._experts
        asked = experts.points[:-1], self._weights, experts.units, experts.most, experts.total.pending
        _add_gradients(people, first, within_limit, *asked)

    def _run_stream(self, stream: Stream) -> None:
        rows = stream.people.as_rows()
        compiled = rows is not None and _closed_form(rows) and self._catalogue.active is None
        if rows is not None and compiled:
            self._run_rows(stream, rows)
        else:
            self._run_one_by_one(stream)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        people, rewards = stream.people, stream.rewards
        count = rewards.size
        counted = self._counted(people if len(people) == count else people[:count])
        every = self.settings.resample_every
        starts = [0, *range(every - self._rounds.number % every, count, every)]
        for batch in track(range(len(starts)), "batches", stream.progress):
            start = starts[batch]
            stop = starts[batch + 1] if batch + 1 < len(starts) else count
            self._next()
            shown = self._shown
            rows.compressed.values(shown[shown >= 0], start, rewards[start:stop])
            stream.selections[start:stop] = shown
            learned = partial(self._add_rows, counted, stream.within_limit[start:stop], start)
            self._rounds.close(stop - start, then=learned)


def _closed_form(rows: Rows | None) -> bool:
    """Whether these rows' multilinear gradient has a closed form, whatever their length."""
    return rows is not None and not rows.kind.of_sums


def _add_gradients(people: Population, first: int, within_limit: NDArray[np.bool_], *asked: Any) -> None:
    """Add what people who are rows pay each expert; see `RowTable.add_gradients`."""
    rows = people.as_rows()
    assert rows is not None
    rows.gradients.add_gradients(first, within_limit.view(np.uint8), *asked)


def _row_units(
    points: NDArray[np.float64], weights: NDArray[np.float64], units: float, most: int, person: Population
) -> NDArray[np.int64]:
    """What a person, or people who are rows, pay each expert, in whole units."""
    if not _closed_form(person.as_rows()):
        raise ValueError("random sets for gradients go by rounds, which a part does not know; give rows")
    paid = np.zeros(points.shape, dtype=np.int64)
    _add_gradients(person, 0, np.ones(len(person), dtype=np.bool_), points, weights, units, most, paid)
    return paid
