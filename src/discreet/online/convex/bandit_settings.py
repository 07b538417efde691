"""Settings of convex learning from the costs of played points, and what they certify."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...bounds import convex as bounds
from ...constraints.domains import Domain
from ...core import checks
from ...core.settings import of, one_of, real, whole
from ...privacy import Event, LaplaceNoise, Share, SumSpec, VectorBounds
from ...privacy.budget import NEIGHBOURS
from ...privacy.published import PublishedCalibrationWarning
from .gradients import claimed_budget, printed_noise
from .points import PointSettings, checked_domain

ADVERSARIES = ("oblivious", "adaptive")
# How long a horizon is looked for that would be long enough.
_LONGEST = 1 << 80


@dataclass(frozen=True, kw_only=True)
class BanditLeaderSettings(PointSettings):
    """What a `BanditApproximateLeader` goes by.

    ``event`` is the noise on a batch's sum of costs, or on a node of the published tree of estimates.
    """

    neighbours: str = one_of(NEIGHBOURS)
    lipschitz: float = real(above=0.0)
    strong_convexity: float = real(at_least=0.0)
    adversary: str = one_of(ADVERSARIES)
    low: float = real()
    high: float = real()
    batch: int = whole(at_least=1)
    exploration_radius: float = real(above=0.0)
    regularization: float = real(at_least=0.0)
    growing: float = real(at_least=0.0)
    event: Event | None = of(Event.from_json, Event.to_json, optional=True)

    def __post_init__(self) -> None:
        cost_range((self.low, self.high))
        alone = self.calibration == "published" or self.adversary == "adaptive"
        checks.whole("batch", self.batch, at_least=1, at_most=1 if alone else self.rounds)
        radius = self.domain.inner_radius
        checks.real("exploration_radius", self.exploration_radius, above=0.0, below=radius)
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
        bound: float | tuple[float, float],
        strong_convexity: float = 0.0,
        adversary: str = "oblivious",
        batch: int | str = "auto",
        exploration_radius: float | str = "auto",
        regularization: float | str = "auto",
    ) -> BanditLeaderSettings:
        """What is given, and the rest tuned to the smallest certificate; too short a horizon is refused."""
        asked = _asked(domain, rounds, share, lipschitz, bound, strong_convexity, adversary)
        horizon, radius = asked["rounds"], domain.inner_radius
        size = None if batch == "auto" else checks.whole("batch", batch, at_least=1, at_most=horizon)
        if adversary == "adaptive" and size not in (None, 1):
            raise ValueError(f'batch={size} needs adversary="oblivious": who adapts knows a batch\'s point')
        near = _given("exploration_radius", exploration_radius, at_least=1e-100 * radius, below=radius)
        held = _given("regularization", regularization, at_least=0.0)
        if held is not None and held + asked["strong_convexity"] == 0.0:
            raise ValueError("regularization=0 needs costs with strong_convexity above 0; leave it at 'auto'")
        draft = cls(
            **asked,
            calibration="tight",
            batch=1,
            exploration_radius=radius / 2.0,
            regularization=1.0,
            growing=0.0,
            event=None,
        )
        draft = replace(draft, event=LaplaceNoise.within(share, draft.moves, notion=share.notion))
        tuned = draft._one_point(horizon, size, near, held)
        if not tuned.beta < radius:
            needed = draft._needed(size, held)
            raise ValueError(
                f"rounds={horizon} is too short: exploration radius {tuned.beta:.3g} does not fit into"
                f" the domain's inner_radius={radius:g}; that takes about rounds={needed:,}, or an"
                " exploration_radius= of your own"
            )
        return replace(
            draft, batch=tuned.batch, exploration_radius=tuned.beta, regularization=tuned.regularization
        )

    @classmethod
    def published(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        lipschitz: float,
        bound: float | tuple[float, float],
        strong_convexity: float = 0.0,
        adversary: str = "oblivious",
    ) -> BanditLeaderSettings:
        """The constants of paper 004, Algorithm 3; a warning where the horizon is too short for them."""
        epsilon = claimed_budget(share).epsilon
        asked = _asked(domain, rounds, share, lipschitz, bound, strong_convexity, adversary)
        horizon, size = asked["rounds"], max(-asked["low"], asked["high"])
        power, radius = (3 if adversary == "oblivious" else 4), domain.inner_radius
        beta = domain.affine_dimension / horizon ** (1.0 / power)
        if beta >= radius:
            needed = math.floor((domain.affine_dimension / radius) ** power) + 1
            warnings.warn(
                f"rounds={horizon} is too short for the published exploration radius {beta:.3g}, which does"
                f" not fit into inner_radius={radius:g}; half of that is taken. It takes rounds={needed:,}.",
                PublishedCalibrationWarning,
                stacklevel=4,
            )
            beta = radius / 2.0
        growing = 0.0
        if asked["strong_convexity"] == 0.0:
            logs = math.log(max(horizon, 2)) ** 2.5
            unit = size / domain.outer_radius / horizon**0.25
            growing = unit * math.sqrt(domain.affine_dimension * logs / epsilon)
        found = cls(
            **(asked | {"low": -size, "high": size}),  # what the paper assumes
            calibration="published",
            batch=1,
            exploration_radius=beta,
            regularization=0.0,
            growing=growing,
            event=None,
        )
        assert found.spec is not None
        return replace(found, event=printed_noise(found.spec, share))

    # --- what follows ----------------------------------------------------------------------------

    @property
    def half(self) -> float:
        """Costs are counted from the middle of their range, so that nobody counts for more than this."""
        return (self.high - self.low) / 2.0 * (1.0 + 2.0**-50)

    @property
    def middle(self) -> float:
        """Where costs are counted from."""
        return (self.low + self.high) / 2.0

    @property
    def moves(self) -> float:
        """How far one person can move a sum of costs."""
        return self.half * (2.0 if self.neighbours == "replace" else 1.0)

    @property
    def steepness(self) -> float:
        """By what a cost is multiplied to make a gradient of it."""
        return self.domain.affine_dimension / self.exploration_radius

    @cached_property
    def inside(self) -> Domain:
        """The points around which there is room to explore."""
        return self.domain.shrunk(self.exploration_radius / self.domain.inner_radius)

    @property
    def releases(self) -> int:
        """Sums that are released: of batches, or the papers' tree, which is for all rounds."""
        return self.rounds if self.calibration == "published" else -(-self.rounds // self.batch) - 1

    @property
    def spec(self) -> SumSpec | None:
        """The published tree of gradient estimates; None where sums of costs leave instead."""
        if self.calibration != "published":
            return None
        norm = self.domain.affine_dimension * self.half / self.exploration_radius  # of the longest estimate
        return SumSpec(VectorBounds(self.domain.dimension, 2, norm), self.releases, "tree", "spherical")

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret for the declared adversary (see `bounds.convex.one_point`)."""
        spec, event, domain, rounds = self.spec, self.event, self.domain, self.rounds
        if spec is None:
            settings = (self.batch, self.exploration_radius, self.regularization)
            return self._one_point(rounds, *settings).regret
        assert event is not None
        norm, radius, width = spec.bounds.norm_bound, domain.outer_radius, self.high - self.low
        assert norm is not None
        regret = bounds.approximate_leader(
            rounds,
            norm,
            radius,
            domain.diameter,
            bounds.worst_noise(spec, event),
            self.strong_convexity,
            0.0,
            self.growing,
        )
        slope = 2.0 * self.lipschitz + min(width, self.lipschitz * radius) / domain.inner_radius
        regret += rounds * self.exploration_radius * slope
        if self.adversary == "adaptive":
            regret += radius * norm * math.sqrt(rounds)
        return min(regret, width * rounds, self.lipschitz * domain.diameter * rounds)

    def _one_point(
        self, rounds: int, batch: int | None, beta: float | None, regularization: float | None
    ) -> bounds.OnePoint:
        assert isinstance(self.event, LaplaceNoise)
        return bounds.one_point(
            rounds,
            self.domain.affine_dimension,
            self.lipschitz,
            self.domain.inner_radius,
            self.domain.outer_radius,
            self.high - self.low,
            float(self.event.scale),
            self.strong_convexity,
            adaptive=self.adversary == "adaptive",
            batch=batch,
            beta=beta,
            regularization=regularization,
        )

    def _needed(self, batch: int | None, regularization: float | None) -> int:
        """Rounds from which the tuned exploration radius fits into the domain, to two digits."""
        rounds = float(self.rounds)
        while rounds < _LONGEST:
            rounds *= 1.05
            if self._one_point(round(rounds), batch, None, regularization).beta < self.domain.inner_radius:
                break
        digits = max(0, len(str(round(rounds))) - 2)
        unit: int = 10**digits
        return math.ceil(rounds / unit) * unit


def cost_range(bound: float | tuple[float, float]) -> tuple[float, float]:
    """The range of costs from ``bound``: B for [-B, B], or (low, high)."""
    if isinstance(bound, tuple | list):
        if len(bound) != 2:
            raise ValueError(f"bound={checks.shown(bound)} must be a number or a pair (low, high)")
        low, high = checks.real("bound[0]", bound[0]), checks.real("bound[1]", bound[1])
        if not low < high:
            raise ValueError(f"bound={checks.shown(bound)} must have low < high")
        return low, high
    size = checks.real("bound", bound, above=0.0)
    return -size, size


def _asked(
    domain: Domain,
    rounds: int,
    share: Share,
    lipschitz: float,
    bound: float | tuple[float, float],
    strong_convexity: float,
    adversary: str,
) -> dict[str, Any]:
    """What is the same for all constants, checked."""
    checked_domain(domain).check()
    low, high = cost_range(bound)
    return {
        "rounds": checks.whole("rounds", rounds, at_least=1),
        "domain": domain,
        "neighbours": share.neighbours,
        "lipschitz": checks.real("lipschitz", lipschitz, above=0.0),
        "strong_convexity": checks.real("strong_convexity", strong_convexity, at_least=0.0),
        "adversary": checks.one_of("adversary", adversary, ADVERSARIES),
        "low": low,
        "high": high,
    }


def _given(name: str, value: float | str, **limits: Any) -> float | None:
    """A number within its limits; None for "auto"."""
    if isinstance(value, str):
        checks.one_of(name, value, ("auto",))
        return None
    return checks.real(name, value, **limits)
