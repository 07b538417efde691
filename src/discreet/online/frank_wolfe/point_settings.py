"""Settings of Meta-Frank-Wolfe for points of a box or a polytope (paper 000, Algorithm 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...bounds import frank_wolfe as bounds
from ...constraints import Constraint
from ...constraints.domains import Box
from ...core import checks
from ...core.settings import flag, real
from ...privacy import Participation, Share, SphericalLaplaceNoise, VectorBounds
from ..sums import chosen_sums
from .settings import LEAST, MOST, FrankWolfeSettings, unsettled


@dataclass(frozen=True, kw_only=True)
class PointSettings(FrankWolfeSettings):
    """What a `MetaFrankWolfePoints` goes by."""

    paper: ClassVar[str] = (
        "paper 000, Algorithm 4 (noise for a gradient's length, not for a difference of two)"
    )

    gradient_bound: float = real(at_least=LEAST, at_most=MOST)
    smoothness: float | None = real(at_least=0.0, optional=True)
    clip: bool = flag()

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
        common = _asked(domain, rounds, gradient_bound, smoothness, bound, clip, "tight")
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
        common = _asked(domain, rounds, gradient_bound, smoothness, bound, clip, "published")
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


def _asked(
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
