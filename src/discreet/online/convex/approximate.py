"""Follow the approximate leader: quadratics below people's convex costs, and a private sum of gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...bounds import convex as bounds
from ...constraints.domains import Ball, Box, Domain
from ...core import checks
from ...kernels.convex import Leader, shorten
from ...objectives.losses import Losses
from ...privacy import Participation, Seed, Share, VectorBounds, spend_from
from ...privacy.accountant import Spending
from ..learner import CALIBRATIONS, Stream
from ..sums import chosen_sums
from .points import GradientSumLearner, GradientSumSettings, Vector, checked_domain, claimed_budget, declared

# Points are sums over this and more of the longest gradient: nothing that leaves the range of floats.
_LEAST_REGULARIZATION = 1e-100
# Longer gradients than this are left to loops that look at every number.
_LARGEST = 1e100


@dataclass(frozen=True, kw_only=True)
class ApproximateLeaderSettings(GradientSumSettings):
    """What an `ApproximateLeader` goes by; ``growing`` is added to the regularization every round."""

    lipschitz: float
    strong_convexity: float
    regularization: float
    growing: float

    def __post_init__(self) -> None:
        if not self.strong_convexity + self.regularization + self.growing > 0.0:
            raise ValueError("regularization, growing and strong_convexity are all 0")

    @classmethod
    def tight(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        lipschitz: float,
        strong_convexity: float = 0.0,
        sums: str = "auto",
        noise: str = "auto",
        regularization: float | str = "auto",
        min_separation: int | None = None,
        clip: bool = False,
    ) -> ApproximateLeaderSettings:
        """The settings for what is asked, with the least noise that fits into ``share``."""
        longest = checks.real("lipschitz", lipschitz, above=0.0)
        method, law = chosen_sums(sums, noise, share, lambda: "spherical")
        found = cls(
            rounds=checks.whole("rounds", rounds, at_least=1),
            calibration="tight",
            participation=Participation.declared(share, min_separation),
            domain=checked_domain(domain),
            sums=method,
            noise=law,
            clip=bool(clip),
            event=None,
            lipschitz=longest,
            strong_convexity=checks.real("strong_convexity", strong_convexity, at_least=0.0),
            regularization=longest,  # until the noise is known
            growing=0.0,
        ).within(share)
        return replace(found, regularization=found._regularization(regularization))

    @classmethod
    def published(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        lipschitz: float,
        strong_convexity: float = 0.0,
        clip: bool = False,
    ) -> ApproximateLeaderSettings:
        """The constants of paper 004, Algorithm 1."""
        epsilon = claimed_budget(share).epsilon
        longest = checks.real("lipschitz", lipschitz, above=0.0)
        curved = checks.real("strong_convexity", strong_convexity, at_least=0.0)
        horizon, size = checks.whole("rounds", rounds, at_least=1), checked_domain(domain).dimension
        logs, unit = math.log(max(horizon, 2)) ** 2.5, longest / domain.diameter
        return cls(
            rounds=horizon,
            calibration="published",
            domain=domain,
            sums="tree",
            noise="spherical",
            clip=bool(clip),
            event=None,
            lipschitz=longest,
            strong_convexity=curved,
            regularization=0.0,
            growing=0.0 if curved else float(unit * size * logs / (epsilon * math.sqrt(horizon))),
        ).as_printed(share)

    def _regularization(self, asked: float | str) -> float:
        """The regularization as given, or the one with the smallest certificate."""
        if isinstance(asked, str):
            optimistic = checks.one_of("regularization", asked, ("auto", "optimistic")) == "optimistic"
            rounds, lipschitz, radius, diameter, noise, curved = self._question
            # What a gradient sees of noise that knows nothing of it is one coordinate.
            noise /= math.sqrt(self.domain.dimension) if optimistic else 1.0
            return bounds.best_regularization(rounds, lipschitz, radius, diameter, noise, curved)
        given = checks.real("regularization", asked, at_least=0.0)
        if given + self.strong_convexity < _LEAST_REGULARIZATION * self.lipschitz:
            raise ValueError(
                f"regularization={given:g} is nothing beside lipschitz={self.lipschitz:g}, and needs costs"
                " with strong_convexity above 0; leave it at 'auto'"
            )
        return given

    @property
    def _question(self) -> tuple[int, float, float, float, float, float]:
        radius, diameter = self.domain.outer_radius, self.domain.diameter
        return self.rounds, self.lipschitz, radius, diameter, self.noise_length, self.strong_convexity

    @property
    def vectors(self) -> VectorBounds:
        return declared(self.domain.dimension, self.lipschitz, None, self.noise)

    @property
    def limit(self) -> float:
        """Longer gradients exceed the declared bound; up to here it is rounding."""
        return self.lipschitz * (1.0 + 1e-12)

    @property
    def longest(self) -> float:
        """What gradients are shortened to: within ``lipschitz`` however their length is rounded."""
        return self.lipschitz * (1.0 - (2 * self.domain.dimension + 32) * 2.0**-53)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret (see `bounds.convex.approximate_leader`)."""
        return bounds.approximate_leader(*self._question, self.regularization, self.growing)


class ApproximateLeader(GradientSumLearner):
    """Follow the approximate leader on private sums of gradients (Smith and Thakurta 2013: paper 004).

    Every cost is replaced by a quadratic that touches it from below at the point that was played; the learner
    plays the minimiser of these quadratics, known through one private running sum of gradients v:

        w = projection of (H (w_1 + ... + w_t) + A c - v) / (t H + A)

    with H = ``strong_convexity`` of the costs, c the domain's center and A = ``regularization``. ``"auto"``
    takes the A of the smallest certified regret: costs that are only Lipschitz (H = 0) need one, and curved
    ones gain from it while the noise is larger than what has been learned. The regulariser is the learner's
    own, so nobody's gradient grows by it. The certificate has to fear gradients that lie along the noise;
    ``"optimistic"`` takes the A that would be best if they were independent of it, which is less by up to
    p^(1/4), and better on streams that do not fight the learner.

    ``lipschitz`` is the declared bound on the length of gradients: a longer one is refused, or with ``clip``
    shortened and counted. ``sums`` is ``"sqrt"`` or ``"blt"`` (Gaussian noise, which needs a delta), or
    ``"tree"`` with ``noise`` ``"gaussian"``, ``"laplace"`` or ``"spherical"`` (the last two: pure epsilon);
    ``"auto"`` is the first, or a spherical tree when the budget has no delta. Memory: O(log rounds) vectors.
    ``min_separation=s`` is for people who return, as in `RunningSumSelector`; every round is a batch here.

    ``calibration="published"`` is the paper's Algorithm 1: spherical noise for the norm L instead of the
    difference 2L, no other regulariser, and for costs without curvature H = (L / diameter) p ln(T)^2.5 /
    (epsilon sqrt(T)) a round, which the paper prints without its units. Under replace-one neighbours it
    is 2 epsilon-DP; the account says so.

    Formal guarantee: replacing a person moves one gradient by at most 2L (adding one: L) in L2; everything
    after the running sum is post-processing. Holds for costs chosen with knowledge of all earlier points, and
    so does ``certified_regret``.

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
    _state = ("_played",)

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Spending,
        *,
        lipschitz: float,
        strong_convexity: float = 0.0,
        sums: str = "auto",
        noise: str = "auto",
        regularization: float | str = "auto",
        min_separation: int | None = None,
        clip: bool = False,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            if (sums, noise, regularization, min_separation) != ("auto", "auto", "auto", None):
                raise ValueError(
                    'calibration="published" has its own sums=, noise= and regularization=, and no'
                    " min_separation=; leave them out"
                )
            settings = ApproximateLeaderSettings.published(
                domain, rounds, share, lipschitz=lipschitz, strong_convexity=strong_convexity, clip=clip
            )
        else:
            settings = ApproximateLeaderSettings.tight(
                domain,
                rounds,
                share,
                lipschitz=lipschitz,
                strong_convexity=strong_convexity,
                sums=sums,
                noise=noise,
                regularization=regularization,
                min_separation=min_separation,
                clip=clip,
            )
        super().__init__(settings, share)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point (see `bounds.convex.approximate_leader`).

        For gradients within ``lipschitz``, of every person of the stream: rounds that are not learned from
        (beyond ``max_rounds_per_person``) and clipped gradients are not in it.
        """
        return self.settings.certified_regret

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self._played = np.zeros(self._width)

    def _leader(self, known: Vector) -> Vector:
        settings, domain, curvature = self.settings, self.settings.domain, self.settings.strong_convexity
        held = settings.regularization + settings.growing * self.round
        leader = self._compiled_leader()
        if leader is not None:
            point: Vector = leader.point(known, self._played, self.round)
            return point
        aim = curvature * self._played + held * domain.center - known
        return domain.project(aim / (curvature * self.round + held))

    def _passed(self, point: Vector) -> None:
        self._played = self._played + point

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        settings = self.settings
        kept = np.array(gradient, dtype=np.float64)
        checks.finite("the gradient at the shown point", kept)
        length = float(shorten(kept, settings.longest))
        if length > settings.limit and not settings.clip:
            raise ValueError(
                f"the gradient at the shown point has length {length:.6g}, beyond lipschitz="
                f"{settings.lipschitz:g}; declare a larger bound, rescale the costs, or pass clip=True to"
                " shorten long gradients"
            )
        return kept, length > settings.limit

    def _compiled_leader(self) -> Leader | None:
        """The leader on a ball or in a box; None for any other domain."""
        settings, domain = self.settings, self.settings.domain
        if type(domain) is Ball:
            shape = domain.center, domain.radius, domain.center, domain.center
        elif type(domain) is Box:
            shape = domain.center, -1.0, domain.low, domain.high
        else:
            return None
        return Leader(shape, settings.strong_convexity, settings.regularization, settings.growing)

    def _run(self, stream: Stream) -> None:
        people, leader = stream.people, self._compiled_leader()
        losses = people.compiled() if isinstance(people, Losses) else None
        # What may have to be refused, or leave the range of floats, goes round by round.
        compiles = losses is not None and self._total.compiles and self._surely(people)
        if leader is None or not compiles:
            super()._run(stream)
            return
        count, first, limits = stream.rewards.size, 0, (self.settings.limit, self.settings.longest)
        while first < count:
            self._next()
            size = min(count - first, self._total.rows_ahead(count - first - 1) + 1)
            stop = first + size
            points = self._shown.copy(), self._played.copy()
            with self._total.compiled(size - 1) as totals:
                shortened = leader.run(losses, stream, first, stop, totals, points, self.round, limits)
                self._rounds.close(size)
                self._rounds.shown, self._played = points
                self._clipped.add(shortened)
            first = stop

    def _surely(self, people: Losses) -> bool:
        """Whether no gradient of ``people`` can be refused, by what they declare."""
        longest = people.lipschitz(self.settings.domain)
        return longest < _LARGEST and (self.settings.clip or longest <= self.settings.limit)
