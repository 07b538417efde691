"""Convex costs: a point of a domain every round, and the gradient of the person's cost there afterwards.

Both leaders learn about people only through one private running sum of gradients. `bandit_convex` has a third
one, which sees one number per round.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..bounds import convex as bounds
from ..bounds.selection import gaussian_maximum, laplace_maximum
from ..constraints.domains import Ball, Box, Domain, Simplex
from ..core import checks
from ..core.options import Auto, Calibration, NoiseLaw, Regularization, Regularizer, SumMethod
from ..core.text import track
from ..kernels.convex import Leader, shorten
from ..objectives import answers
from ..objectives.losses import Losses, cost_functions
from ..privacy import (
    Account,
    Event,
    LaplaceNoise,
    Participation,
    PublicRandomness,
    Seed,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
)
from ..privacy.accountant import Spending
from ..privacy.conversions import exact
from ..results import CostTrace
from .learner import LearnerSettings, OnlineLearner, Stream
from .sums import CostTotal, PrivateTotal, calibrated, chosen_sums, claimed_epsilon, on_sums, released_sum

Vector = NDArray[np.float64]

REGULARIZERS = ("entropy", "euclidean")
# The least regularization per unit of ``lipschitz``: points are quotients by it, which stay in float range.
_LEAST_REGULARIZATION = 1e-100
# Longer gradients than this are left to the loop that checks every number.
_LARGEST = 1e100


# --- what the leaders share ------------------------------------------------------------------------------


def printed_noise(spec: SumSpec | None, share: Share, regularizer: float = 0.0) -> LaplaceNoise:
    """The noise that papers 000 and 004 print, at a pure epsilon: for a gradient's norm, not a difference's.

    ``regularizer`` is how much the regularizer that they add to every cost lengthens a gradient.
    """
    epsilon = claimed_epsilon(share).epsilon_per_round
    assert spec is not None
    kind = SphericalLaplaceNoise if spec.noise == "spherical" else LaplaceNoise
    norm = exact(spec.bounds.difference("add_remove")) + exact(regularizer)
    scale = norm * spec.count / exact(epsilon)
    return kind(spec.bounds.difference(share.neighbours), scale)


@dataclass(frozen=True, kw_only=True)
class GradientSumSettings(LearnerSettings):
    """Settings of learners that follow a private sum of gradients.

    ``event`` is the noise on it; None where nothing is ever released.
    """

    paper: ClassVar[str] = "noise for sums of gradients"

    rounds: int
    domain: Domain
    sums: str
    noise: str
    clip: bool = False
    event: Event | None = None

    def __post_init__(self) -> None:
        checks.instance("domain", self.domain, Domain, "domains.Ball(3, 1.0)")
        self._put(rounds=checks.whole("rounds", self.rounds, at_least=1), clip=bool(self.clip))

    @property
    @abstractmethod
    def vectors(self) -> VectorBounds:
        """Declared bounds on gradients, in the norm that the noise needs."""

    @property
    def releases(self) -> int:
        """How many sums are released: the papers' tree covers all rounds, though the last sum is not used."""
        return self.rounds if self.calibration == "published" else self.rounds - 1

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of gradients; None where nothing is released."""
        return released_sum(self, self.vectors, self.releases, self.noise)

    @property
    def noise_length(self) -> float:
        """Bound on the root mean square length of the noise in any sum."""
        spec, event = self.spec, self.event
        return 0.0 if spec is None or event is None else bounds.worst_noise(spec, event)

    def declared(self, lipschitz: float | None, box: tuple[float, float] | None) -> VectorBounds:
        """Bounds on a gradient in the norm that the noise needs: L1 for Laplace noise, else L2."""
        size = self.domain.dimension
        if self.noise != "laplace":
            return VectorBounds(size, 2, lipschitz, box)
        longest = None if lipschitz is None else lipschitz * math.sqrt(size) * (1.0 + 2.0**-50)
        return VectorBounds(size, 1, longest, box)


class PointLearner(OnlineLearner):
    """Play a point of a convex domain every round, then learn from the gradient of the person's cost there.

    People are learned about only through ``_total``. Subclasses define the next point for a sum of gradients
    (`_leader`), and what is learned from a person (`_ready`).
    """

    settings: Any
    _noun: ClassVar[str] = "point"
    _trace_type: ClassVar[Any] = CostTrace
    _clipped = 0
    _total: PrivateTotal | CostTotal

    # --- for users -------------------------------------------------------------------------------

    @property
    def insecure_clipped(self) -> int:
        """How many gradients had to be shortened so far (``clip=True``).

        Private information that no noise protects: for debugging on data that you may look at. It is not part
        of the account, and must not be published.
        """
        return self._clipped

    def choose(self) -> Vector:
        """The point for this round, as a read-only array."""
        point: Vector = super().choose()
        return point

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.domain!r}, round {self.round:,} of {self.rounds:,})"

    # --- points ----------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        size: int = self.settings.domain.dimension
        return size

    def _decision(self, shown: NDArray[Any]) -> Vector:
        point = np.array(shown, dtype=np.float64)
        point.setflags(write=False)
        return point

    def _could_show(self, shown: NDArray[Any]) -> bool:
        inside: bool = self.settings.domain.contains(shown)
        return super()._could_show(shown) and inside

    def _row(self, decision: Vector) -> Vector:
        return decision

    def _due(self) -> bool:
        return True

    def _summed(self, label: str, public: PublicRandomness | None = None) -> PrivateTotal:
        """The private sum of gradients; ``public`` is for additional public noise (see `PrivateTotal`)."""
        settings = self.settings
        # Clipping only removes rounding errors: gradients are checked before.
        how: dict[str, Any] = {"clip": True, "ahead": True, "trees": True, "public": public, "label": label}
        return PrivateTotal(settings.spec, self._gate, settings.event, (self._width,), **how)

    def _draw(self) -> Vector:
        assert isinstance(self._total, PrivateTotal)
        if self.round == 0 or self._total.sum is None:
            return np.array(self.settings.domain.center)
        if self._total.count >= self.round:  # an interruption came between this round's sum and its point
            return self._shown
        return self._leader(self._total.release())

    def _leader(self, known: Vector) -> Vector:
        """The next point, from the private sum ``known`` of gradients."""
        raise NotImplementedError

    # --- people ----------------------------------------------------------------------------------

    def _check_people(self, people: Any) -> None:
        if not hasattr(people, "__len__") or not hasattr(people, "__getitem__"):
            raise TypeError(
                f"run() takes a population of losses or a sequence of costs, got {type(people).__name__}"
            )
        if isinstance(people, Losses) and people.dimension != self._width:
            raise ValueError(f"the losses have {people.dimension} coordinates; the domain has {self._width}")

    def _functions(self, person: Any) -> tuple[Callable[[Vector], Any], Callable[[Vector], Any]]:
        """A person's cost and its gradient, as functions of a point."""
        if not isinstance(person, Losses):
            return cost_functions(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        self._check_people(person)
        return (lambda point: person.at(0, point)[0]), (lambda point: person.at(0, point)[1])

    def _value(self, person: Any, decision: Vector) -> float:
        return answers.number("value(point)", self._functions(person)[0](decision))

    def _prepared(self, person: Any) -> Any:
        point = self._decision(self._shown)
        return self._ready(math.nan, self._functions(person)[1](point))

    def _ready(self, cost: float, gradient: Any) -> Any:  # noqa: ARG002
        """What is learned from a person's cost at this round's point and its gradient, checked."""
        return self._bounded(answers.vector("gradient(point)", gradient, self._width))

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        """A gradient within the declared bounds, and whether it had to be shortened."""
        raise NotImplementedError

    def _observe(self, person: tuple[Vector, bool]) -> None:
        assert isinstance(self._total, PrivateTotal)
        gradient, shortened = person
        self._total.add(gradient)
        self._clipped += shortened

    def _run(self, stream: Stream) -> None:
        people = stream.people
        if not isinstance(people, Losses):
            super()._run(stream)
            return
        if isinstance(self._total, PrivateTotal):
            self._total.draw_ahead(self.round + stream.rewards.size - 1)
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            cost, gradient = people.at(t, self._next())
            ready = self._ready(cost, gradient)
            stream.rewards[t] = answers.number("value(point)", cost)
            stream.selections[t] = self._shown
            self._take(ready, bool(stream.within_limit[t]))

    def _spent(self) -> Account:
        return self._account(*self._total.entries())


def approximate_leader(
    settings: Any, curvature: float, inside: Domain, rounds: int, played: Vector, sums: Vector
) -> Vector:
    """The minimizer over ``inside`` of the sum of quadratics below the costs of ``rounds`` rounds.

    ``played`` is the sum of the points at which they touch the costs, ``sums`` that of the gradients there.
    """
    held = settings.regularization + settings.growing * rounds
    aim = curvature * played + held * inside.center - sums
    return inside.project(aim / (curvature * rounds + held))


# --- quadratics below the costs --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ApproximateLeaderSettings(GradientSumSettings):
    """Settings of `ApproximateLeader`; ``growing`` is added to the regularization every round."""

    tuned: ClassVar[tuple[str, ...]] = ("sums", "noise", "min_separation", "regularization")

    lipschitz: float
    strong_convexity: float = 0.0
    regularization: float = 1.0
    growing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put(
            lipschitz=checks.bound(self.lipschitz, "lipschitz"),
            strong_convexity=checks.real(
                "strong_convexity", self.strong_convexity, at_least=0.0, at_most=1e100
            ),
        )
        if not self.strong_convexity + self.regularization + self.growing > 0.0:
            raise ValueError("regularization, growing and strong_convexity are all 0")

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        sums: SumMethod | Auto = "auto",
        noise: NoiseLaw | Auto = "auto",
        regularization: float | Regularization = "auto",
        min_separation: int | None = None,
        **asked: Any,
    ) -> ApproximateLeaderSettings:
        """Settings for the given options, with the least noise that fits into ``share``."""
        asked["participation"] = Participation.declared(share, min_separation)
        found: Self = on_sums(cls, share, *chosen_sums(sums, noise, share, lambda: "spherical"), asked)
        return replace(found, regularization=found._regularization(regularization))

    @classmethod
    def published(cls, share: Share, **asked: Any) -> ApproximateLeaderSettings:
        """The constants of paper 004: Algorithm 1, on costs with a regularizer if they are not curved."""
        epsilon, growing = claimed_epsilon(share).epsilon, 0.0
        draft = cls(calibration="published", sums="tree", noise="spherical", **asked)
        if not draft.strong_convexity:
            logs, unit = math.log(max(draft.rounds, 2)) ** 2.5, draft.lipschitz / draft.domain.diameter
            growing = float(unit * draft.domain.dimension * logs / (epsilon * math.sqrt(draft.rounds)))
        event = printed_noise(draft.spec, share, growing * draft.domain.outer_radius)
        return replace(draft, regularization=0.0, growing=growing, event=event)

    def _regularization(self, asked: float | str) -> float:
        """The regularization as given, or the one with the smallest certificate."""
        if isinstance(asked, str):
            optimistic = checks.one_of("regularization", asked, ("auto", "optimistic")) == "optimistic"
            rounds, lipschitz, radius, diameter, noise, curved = self._question
            # Along a gradient that is independent of the noise, the noise has the size of one coordinate.
            noise /= math.sqrt(self.domain.dimension) if optimistic else 1.0
            return bounds.best_regularization(rounds, lipschitz, radius, diameter, noise, curved)
        given = checks.real("regularization", asked, at_least=0.0)
        if given + self.strong_convexity < _LEAST_REGULARIZATION * self.lipschitz:
            raise ValueError(
                f"regularization={given:g} is negligible compared with lipschitz={self.lipschitz:g}, and"
                " needs costs with strong_convexity above 0; leave it at 'auto'"
            )
        return given

    @property
    def _question(self) -> tuple[int, float, float, float, float, float]:
        radius, diameter = self.domain.outer_radius, self.domain.diameter
        return self.rounds, self.lipschitz, radius, diameter, self.noise_length, self.strong_convexity

    @property
    def vectors(self) -> VectorBounds:
        return self.declared(self.lipschitz, None)

    @property
    def limit(self) -> float:
        """The declared bound on gradients' lengths, with an allowance for rounding."""
        return self.lipschitz * (1.0 + 1e-12)

    @property
    def longest(self) -> float:
        """The length that gradients are shortened to: at most ``lipschitz`` however it is rounded."""
        return self.lipschitz * (1.0 - (2 * self.domain.dimension + 32) * 2.0**-53)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret (see `bounds.convex.approximate_leader`)."""
        return bounds.approximate_leader(*self._question, self.regularization, self.growing)


class ApproximateLeader(PointLearner):
    """Follow the approximate leader on private sums of gradients (Smith and Thakurta 2013: paper 004).

    Every cost is replaced by a quadratic that touches it from below at the point that was played; the learner
    plays the minimizer of their sum, known through one private running sum of gradients v:

        w = projection of (H (w_1 + ... + w_t) + A c - v) / (t H + A)

    with H = ``strong_convexity`` of the costs, c the domain's center and A = ``regularization``. ``"auto"``
    takes the A of the smallest certified regret: costs that are only Lipschitz (H = 0) need one, and curved
    ones gain from it while the noise is larger than what has been learned. The regularizer is the learner's
    own, so it adds nothing to people's gradients. The certificate must allow for gradients along the noise;
    ``"optimistic"`` takes the A that would be best if they were independent of it, which is smaller by up to
    p^(1/4), and better on streams that are not adversarial.

    ``lipschitz`` is the declared bound on the length of gradients: a longer one is refused, or with ``clip``
    shortened and counted. ``sums`` is ``"sqrt"`` or ``"blt"`` (Gaussian noise, which needs a delta), or
    ``"tree"`` with ``noise`` ``"gaussian"``, ``"laplace"`` or ``"spherical"`` (the last two: pure epsilon);
    ``"auto"`` is the first, or a spherical tree when the budget has no delta. Memory: O(log rounds) vectors.
    ``min_separation=s`` is for people who return, as in `RunningSumSelector`; every round is a batch here.

    ``calibration="published"`` is the paper's Algorithm 1: spherical noise for the norm L instead of the
    difference 2L, and no other regularizer. Under replace-one adjacency it is 2 epsilon-DP; the account says
    so. Costs without curvature get H/2 |w - c|^2 each, H = (L / diameter) p ln(T)^2.5 / (epsilon sqrt(T)),
    which the paper prints without its units. Its tree sums their gradients, so its noise is for L + H R; the
    regularizer depends on nobody's data, and the account is 2 L epsilon / (L + H R).

    Formal guarantee: replacing a person moves one gradient by at most 2L (adding one: L) in L2; everything
    after the running sum is post-processing. Holds for costs chosen with knowledge of all earlier points, and
    so does ``certified_regret`` (`bounds.convex.approximate_leader`), for gradients within ``lipschitz``.

    >>> import discreet as dc
    >>> from discreet.constraints.domains import Ball
    >>> from discreet.objectives.losses import Logistic
    >>> people = Logistic([[0.6, 0.8], [-0.6, -0.8]] * 50, [1, -1] * 50)
    >>> learner = ApproximateLeader(Ball(2, 5.0), len(people), dc.Budget(1.0, 1e-6), lipschitz=1.0, seed=0)
    >>> learner.run(people)
    CostTrace(ApproximateLeader: 100 rounds, average 0.2830; not private, in no account)
    """

    settings: ApproximateLeaderSettings
    _settings_type: ClassVar[type[ApproximateLeaderSettings]] = ApproximateLeaderSettings
    _state = ("_total", "_clipped", "_played")
    _total: PrivateTotal

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Spending,
        *,
        lipschitz: float,
        strong_convexity: float = 0.0,
        sums: SumMethod | Auto = "auto",
        noise: NoiseLaw | Auto = "auto",
        regularization: float | Regularization = "auto",
        min_separation: int | None = None,
        clip: bool = False,
        calibration: Calibration = "tight",
        seed: Seed = None,
    ) -> None:
        super().__init__(*calibrated(ApproximateLeaderSettings, locals(), pure=True))

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._total, self._clipped = self._summed("gradients"), 0
        self._played = np.zeros(self._width)
        settings, domain, shape = self.settings, self.settings.domain, None
        if type(domain) is Ball:
            shape = domain.center, domain.radius, domain.center, domain.center
        elif type(domain) is Box:
            shape = domain.center, -1.0, domain.low, domain.high
        held = settings.strong_convexity, settings.regularization, settings.growing
        self._compiled = None if shape is None else Leader(shape, *held)

    def _leader(self, known: Vector) -> Vector:
        self._played = self._played + self._shown
        if self._compiled is None:
            domain = self.settings.domain
            curvature = self.settings.strong_convexity
            return approximate_leader(self.settings, curvature, domain, self.round, self._played, known)
        point: Vector = self._compiled.point(known, self._played, self.round)
        return point

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        settings = self.settings
        kept = np.array(gradient, dtype=np.float64)
        length = float(shorten(kept, settings.longest))
        if length > settings.limit and not settings.clip:
            raise ValueError(
                f"the gradient at the shown point has length {length:.6g}, beyond lipschitz="
                f"{settings.lipschitz:g}; declare a larger bound, rescale the costs, or pass clip=True to"
                " shorten long gradients"
            )
        return kept, length > settings.limit

    def _run(self, stream: Stream) -> None:
        people, leader, total = stream.people, self._compiled, self._total
        losses, settings = people.compiled() if isinstance(people, Losses) else None, self.settings
        longest = math.inf if losses is None else people.lipschitz(settings.domain)
        # Losses that may have to be refused, or may leave the range of floats, go round by round.
        kept = longest < _LARGEST and (settings.clip or longest <= settings.limit)
        if leader is None or losses is None or not total.compiles or not kept:
            super()._run(stream)
            return
        count, first, limits = stream.rewards.size, 0, (settings.limit, settings.longest)
        while first < count:
            self._next()
            size = min(count - first, total.rows_ahead(count - first - 1) + 1)
            points = self._shown.copy(), self._played.copy()
            with total.compiled(size - 1) as totals:
                stop = first + size
                shortened = leader.run(losses, stream, first, stop, totals, points, self.round, limits)
                self._rounds.close(size)
                self._rounds.shown, self._played = points
                self._clipped += shortened
            first += size


# --- linear costs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LinearLeaderSettings(GradientSumSettings):
    """Settings of `LinearLeader`."""

    tuned: ClassVar[tuple[str, ...]] = ("sums", "noise", "rate", "min_separation")

    box: tuple[float, float] | None = None
    lipschitz: float | None = None
    regularizer: str = "auto"
    rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.box is None and self.lipschitz is None:
            raise ValueError("say how large a cost vector can be: box=(low, high), or lipschitz=...")
        self._put(box=self.declared_bounds.box, lipschitz=self.declared_bounds.norm_bound)
        if self.lipschitz is not None:
            checks.bound(self.lipschitz, "lipschitz")
        if self.box is not None:
            checks.bound(max(-self.box[0], self.box[1]), "the largest entry of box")
        simplex = isinstance(self.domain, Simplex)
        if checks.one_of("regularizer", self.regularizer, ("auto", *REGULARIZERS)) == "auto":
            self._put(regularizer="entropy" if simplex else "euclidean")
        if self.regularizer == "entropy" and not simplex:
            raise ValueError('regularizer="entropy" is for domains.Simplex; use "euclidean" elsewhere')

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        sums: SumMethod | Auto = "auto",
        noise: NoiseLaw | Auto = "auto",
        rate: float | None = None,
        min_separation: int | None = None,
        **asked: Any,
    ) -> LinearLeaderSettings:
        """Settings for the given options, with the least noise that fits into ``share``."""
        # Spherical noise is shorter where only a length is declared, Laplace noise where entries are bounded.
        pure = "spherical" if asked.get("box") is None else "laplace"
        asked["participation"] = Participation.declared(share, min_separation)
        found: Self = on_sums(cls, share, *chosen_sums(sums, noise, share, lambda: pure), asked)
        return replace(found, rate=found.best_rate if rate is None else checks.real("rate", rate, above=0.0))

    @classmethod
    def published(cls, share: Share, **asked: Any) -> LinearLeaderSettings:
        """The constants of Agarwal and Singh: Laplace noise for the largest L1 norm."""
        draft = cls(calibration="published", sums="tree", noise="laplace", **asked)
        return replace(draft, rate=draft.best_rate, event=printed_noise(draft.spec, share))

    @cached_property
    def declared_bounds(self) -> VectorBounds:
        """The bounds that a cost vector is checked against: in L2, whatever the noise."""
        return VectorBounds(self.domain.dimension, 2, self.lipschitz, self.box)

    @property
    def vectors(self) -> VectorBounds:
        return self.declared(self.lipschitz, self.box)

    @property
    def length(self) -> float:
        """The largest length of a cost vector."""
        return self.declared_bounds.difference("add_remove")

    @property
    def spread(self) -> float:
        """The largest difference of two entries of one cost vector."""
        spreads = [] if self.box is None else [self.box[1] - self.box[0]]
        if self.lipschitz is not None:
            spreads.append(math.sqrt(2.0) * self.lipschitz)
        return min(spreads)

    @property
    def best_rate(self) -> float:
        """The rate with the smallest certificate, which does not depend on the noise."""
        if self.regularizer == "entropy":
            return math.sqrt(8.0 * math.log(self.domain.dimension) / self.rounds) / self.spread
        return self.domain.outer_radius / (self.length * math.sqrt(self.rounds))

    @property
    def noise_length(self) -> float:
        """Root mean square length of any sum's noise, with trees' sums topped up to ``most_draws``."""
        spec, event = self.spec, self.event
        if spec is None or event is None or self.noise == "gaussian":
            return super().noise_length
        return math.sqrt(self.domain.dimension * spec.most_draws) * spec.noise_std(event, 1)

    @property
    def noise_maximum(self) -> float:
        """Expected maximum of that noise over the coordinates, or a bound on it."""
        spec, event, size = self.spec, self.event, self.domain.dimension
        if spec is None or event is None:
            return 0.0
        if self.noise == "laplace":
            return laplace_maximum(size, spec.noise_std(event, 1) / math.sqrt(2.0), spec.most_draws)
        if self.noise == "spherical":
            return self.noise_length
        return gaussian_maximum(size, self.noise_length / math.sqrt(size))

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret for linear costs fixed in advance."""
        domain, rounds = self.domain, self.rounds
        if self.regularizer == "entropy":
            size, noise = domain.dimension, self.noise_maximum
            return bounds.linear_experts(size, rounds, self.spread, noise, self.rate)
        radius, noise = domain.outer_radius, self.noise_length
        return bounds.linear_leader(rounds, self.length, radius, domain.diameter, noise, 1.0 / self.rate)


class LinearLeader(PointLearner):
    """Follow the regularized leader on private sums of linear costs (Agarwal and Singh 2017).

    Costs are <c_t, w>: experts on the simplex (``regularizer="entropy"``), directions in a ball or a box
    (``"euclidean"``); ``"auto"`` takes entropy on a `domains.Simplex`. ``box=(low, high)`` bounds each entry
    of a cost vector, ``lipschitz`` its Euclidean length: give one of them, or both. A cost is a vector, a
    `losses.Linear`, or anything with ``value`` and ``gradient`` (its gradient is used; where that changes
    with the point, privacy holds but ``certified_regret`` does not: use `ApproximateLeader`).

    A cost vector does not depend on the point that was played, so for streams fixed in advance the analysis
    can replace the noise of all rounds by one draw made before the first: it enters the regret once, not
    once per round, and the rate is that without privacy. This needs noise that never shrinks from one sum to
    the next. Factorized sums have it; to sums of a tree, fresh public noise is added until each has the same
    number of draws as the paper's tree (Gaussian ones: as much variance as any earlier sum).

    ``calibration="published"``: Laplace noise of the largest L1 norm times the levels over epsilon. This is
    epsilon-DP for costs in [0, 1], and 2 epsilon-DP for signed ones; the account says which.
    ``min_separation=s`` is for people who return, as in `RunningSumSelector`; every round is a batch here.

    Formal guarantee: replacing a person moves one cost vector by at most the width of the box in each
    coordinate, or 2 ``lipschitz``, whichever is less (L2, or L1 for Laplace noise). Holds also for costs
    chosen with knowledge of all earlier points; ``certified_regret`` (`bounds.convex.linear_experts` for
    entropy, else `bounds.convex.linear_leader`) holds for linear costs fixed in advance.

    >>> import discreet as dc
    >>> from discreet.constraints.domains import Simplex
    >>> learner = LinearLeader(Simplex(3), 200, dc.Budget(1.0), box=(0.0, 1.0), seed=0)
    >>> learner.run([[0.0, 1.0, 1.0]] * 200)
    CostTrace(LinearLeader: 200 rounds, average 0.3482; not private, in no account)
    """

    settings: LinearLeaderSettings
    _settings_type: ClassVar[type[LinearLeaderSettings]] = LinearLeaderSettings
    _state = ("_total", "_clipped", "_public")
    _total: PrivateTotal

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Spending,
        *,
        box: tuple[float, float] | None = None,
        lipschitz: float | None = None,
        regularizer: Regularizer = "auto",
        sums: SumMethod | Auto = "auto",
        noise: NoiseLaw | Auto = "auto",
        rate: float | None = None,
        min_separation: int | None = None,
        clip: bool = False,
        calibration: Calibration = "tight",
        seed: Seed = None,
    ) -> None:
        super().__init__(*calibrated(LinearLeaderSettings, locals(), pure=True))

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._public = self._gate.public_randomness()
        self._total, self._clipped = self._summed("gradients", self._public), 0

    def _leader(self, known: Vector) -> Vector:
        rate, domain = self.settings.rate, self.settings.domain
        if self.settings.regularizer == "entropy":
            weights = np.exp(-rate * (known - known.min()))
            return np.asarray(weights / weights.sum(), dtype=np.float64)
        return domain.project(domain.center - rate * known)

    def _functions(self, person: Any) -> tuple[Callable[[Vector], Any], Callable[[Vector], Any]]:
        pair = isinstance(person, tuple | list) and len(person) == 2 and callable(person[0])
        if pair or isinstance(person, Losses) or hasattr(person, "gradient") or hasattr(person, "value"):
            return super()._functions(person)
        vector = answers.vector("cost", person, self._width)
        return (lambda point: vector @ point), (lambda _: vector)

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        try:
            kept = self.settings.declared_bounds.checked(gradient, clip=self.settings.clip)
        except ValueError as error:
            raise ValueError(f"the cost vector is not what was declared: {error}") from error
        return kept, bool(np.abs(kept - gradient).max() > 1e-12 * np.abs(gradient).max())
