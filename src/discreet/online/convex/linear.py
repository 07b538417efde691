"""Follow the regularised leader on private sums of linear costs: experts, and directions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...bounds import convex as bounds
from ...bounds.selection import gaussian_maximum, laplace_maximum
from ...constraints.domains import Domain, Simplex
from ...core import checks
from ...objectives import answers
from ...objectives.losses import Losses
from ...privacy import Participation, Seed, Share, VectorBounds, spend_from
from ...privacy.accountant import Spending
from ..learner import CALIBRATIONS
from ..sums import chosen_sums
from .points import GradientSumLearner, GradientSumSettings, Vector, checked_domain, claimed_budget, declared

REGULARIZERS = ("entropy", "euclidean")
Range = tuple[float, float]


def _pair(value: Any) -> Range:
    checks.pair("box", value)
    return value[0], value[1]


@dataclass(frozen=True, kw_only=True)
class LinearLeaderSettings(GradientSumSettings):
    """What a `LinearLeader` goes by."""

    box: Range | None
    lipschitz: float | None
    regularizer: str
    rate: float

    def __post_init__(self) -> None:
        if self.regularizer == "entropy" and not isinstance(self.domain, Simplex):
            raise ValueError('regularizer="entropy" is for domains.Simplex; use "euclidean" elsewhere')
        declared_bounds = self.declared_bounds
        object.__setattr__(self, "box", declared_bounds.box)
        object.__setattr__(self, "lipschitz", declared_bounds.norm_bound)

    @classmethod
    def tight(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        box: Range | None = None,
        lipschitz: float | None = None,
        regularizer: str = "auto",
        sums: str = "auto",
        noise: str = "auto",
        rate: float | None = None,
        min_separation: int | None = None,
        clip: bool = False,
    ) -> LinearLeaderSettings:
        """The settings for what is asked, with the least noise that fits into ``share``."""
        # Spherical noise is shorter where only a length is declared, Laplace noise where the entries are.
        pure = "spherical" if box is None else "laplace"
        method, law = chosen_sums(sums, noise, share, lambda: pure)
        asked = cls._asked(domain, rounds, box, lipschitz, regularizer, clip)
        asked["participation"] = Participation.declared(share, min_separation)
        found = cls(**asked, calibration="tight", sums=method, noise=law).within(share)
        best = found.best_rate if rate is None else checks.real("rate", rate, above=0.0)
        return replace(found, rate=best)

    @classmethod
    def published(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        box: Range | None = None,
        lipschitz: float | None = None,
        regularizer: str = "auto",
        clip: bool = False,
    ) -> LinearLeaderSettings:
        """The constants of Agarwal and Singh: Laplace noise for the largest L1 norm."""
        claimed_budget(share)
        asked = cls._asked(domain, rounds, box, lipschitz, regularizer, clip)
        found = cls(**asked, calibration="published", sums="tree", noise="laplace").as_printed(share)
        return replace(found, rate=found.best_rate)

    @staticmethod
    def _asked(
        domain: Domain,
        rounds: int,
        box: Range | None,
        lipschitz: float | None,
        regularizer: str,
        clip: bool,
    ) -> dict[str, Any]:
        """What is the same for all constants, checked; the rate is put in later."""
        if box is None and lipschitz is None:
            raise ValueError("say how large a cost vector can be: box=(low, high), or lipschitz=...")
        checks.one_of("regularizer", regularizer, ("auto", *REGULARIZERS))
        if regularizer == "auto":
            regularizer = "entropy" if isinstance(domain, Simplex) else "euclidean"
        return {
            "rounds": checks.whole("rounds", rounds, at_least=1),
            "domain": checked_domain(domain),
            "clip": bool(clip),
            "event": None,
            "box": box,
            "lipschitz": lipschitz,
            "regularizer": regularizer,
            "rate": 1.0,
        }

    @cached_property
    def declared_bounds(self) -> VectorBounds:
        """What a cost vector is checked against: in L2, whatever the noise."""
        return VectorBounds(self.domain.dimension, 2, self.lipschitz, self.box)

    @property
    def vectors(self) -> VectorBounds:
        return declared(self.domain.dimension, self.lipschitz, self.box, self.noise)

    @property
    def length(self) -> float:
        """No cost vector is longer."""
        return self.declared_bounds.difference("add_remove")

    @property
    def spread(self) -> float:
        """No two entries of one cost vector are further apart."""
        spreads = [] if self.box is None else [self.box[1] - self.box[0]]
        if self.lipschitz is not None:
            spreads.append(math.sqrt(2.0) * self.lipschitz)
        return min(spreads)

    @property
    def best_rate(self) -> float:
        """The rate with the smallest certificate; the noise does not matter for it."""
        if self.regularizer == "entropy":
            return math.sqrt(8.0 * math.log(self.domain.dimension) / self.rounds) / self.spread
        return self.domain.outer_radius / (self.length * math.sqrt(self.rounds))

    @property
    def noise_length(self) -> float:
        """Root mean square length of the noise of the last sum, with what is added to it."""
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
        domain = self.domain
        if self.regularizer == "entropy":
            return bounds.linear_experts(
                domain.dimension, self.rounds, self.spread, self.noise_maximum, self.rate
            )
        return bounds.linear_leader(
            self.rounds, self.length, domain.outer_radius, domain.diameter, self.noise_length, 1.0 / self.rate
        )


class LinearLeader(GradientSumLearner):
    """Follow the regularised leader on private sums of linear costs (Agarwal and Singh 2017).

    Costs <c_t, w>: experts on the simplex (``regularizer="entropy"``), directions in a ball or a box
    (``"euclidean"``); ``"auto"`` takes entropy on a `domains.Simplex`. ``box=(low, high)`` says where each
    entry of a cost vector lies, ``lipschitz`` bounds its Euclidean length: give one of them, or both. A cost
    is a vector, a `losses.Linear`, or anything with ``value`` and ``gradient`` (its gradient is taken; where
    it changes with the point, privacy holds, and ``certified_regret`` does not: take `ApproximateLeader`).

    What a cost vector is does not depend on the point that was played, so for streams fixed in advance the
    noise of all rounds can be exchanged for one draw made before the first: it enters the regret once, not
    once a round, and the rate is that of no privacy. This needs noise that never shrinks from one sum to the
    next. Factorised sums have it; to sums of a tree, fresh public noise is added until each has the same
    number of draws (as often as the paper's tree; Gaussian ones: the same variance as any before).

    ``calibration="published"``: Laplace noise of the largest L1 norm times the levels over epsilon. That
    holds for costs in [0, 1], and is 2 epsilon-DP for signed ones; the account says which.
    ``min_separation=s`` is for people who return, as in `RunningSumSelector`; every round is a batch here.

    Formal guarantee: replacing a person moves one cost vector by at most the width of the box in each
    coordinate, or 2 ``lipschitz``, whichever is less (L2, or L1 for Laplace noise). Holds also for costs
    chosen with knowledge of all earlier points; ``certified_regret`` holds for streams fixed in advance.

    >>> import discreet as dc
    >>> from discreet.constraints.domains import Simplex
    >>> learner = LinearLeader(Simplex(3), 200, dc.Budget(1.0), box=(0.0, 1.0), seed=0)
    >>> learner.run([[0.0, 1.0, 1.0]] * 200)
    CostTrace(LinearLeader: 200 rounds, average 0.3482; not private, in no account)
    """

    settings: LinearLeaderSettings
    _settings_type: ClassVar[type[LinearLeaderSettings]] = LinearLeaderSettings
    _state = ("_coins",)

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Spending,
        *,
        box: Range | None = None,
        lipschitz: float | None = None,
        regularizer: str = "auto",
        sums: str = "auto",
        noise: str = "auto",
        rate: float | None = None,
        min_separation: int | None = None,
        clip: bool = False,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        asked: dict[str, Any] = {"box": box, "lipschitz": lipschitz, "regularizer": regularizer, "clip": clip}
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            if (sums, noise, rate, min_separation) != ("auto", "auto", None, None):
                raise ValueError(
                    'calibration="published" has its own sums=, noise= and rate=, and no min_separation=;'
                    " leave them out"
                )
            settings = LinearLeaderSettings.published(domain, rounds, share, **asked)
        else:
            asked |= {"sums": sums, "noise": noise, "rate": rate, "min_separation": min_separation}
            settings = LinearLeaderSettings.tight(domain, rounds, share, **asked)
        super().__init__(settings, share)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point, for linear costs fixed in advance.

        See `bounds.convex.linear_experts` (entropy) and `bounds.convex.linear_leader` (Euclidean). Rounds
        that are not learned from (beyond ``max_rounds_per_person``) and clipped costs are not in it.
        """
        return self.settings.certified_regret

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._coins = self._gate.coins()
        self._gather_with(self._coins)

    def _leader(self, known: Vector) -> Vector:
        rate, domain = self.settings.rate, self.settings.domain
        if self.settings.regularizer == "entropy":
            weights = np.exp(-rate * (known - known.min()))
            return np.asarray(weights / weights.sum(), dtype=np.float64)
        return domain.project(domain.center - rate * known)

    def _gradient(self, person: Any, point: Vector) -> Vector:
        if isinstance(person, Losses) or hasattr(person, "gradient") or _functions(person):
            return super()._gradient(person, point)
        return answers.vector("cost", person, self._width)

    def _worth(self, person: Any, decision: Vector) -> float:
        if isinstance(person, Losses) or hasattr(person, "value") or _functions(person):
            return super()._worth(person, decision)
        return answers.number("cost", answers.vector("cost", person, self._width) @ decision)

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        try:
            kept = self.settings.declared_bounds.checked(gradient, clip=self.settings.clip)
        except ValueError as error:
            raise ValueError(f"the cost vector is not what was declared: {error}") from error
        return kept, bool(np.abs(kept - gradient).max() > 1e-12 * np.abs(gradient).max())


def _functions(person: Any) -> bool:
    """Whether a cost is a pair of functions: its value and its gradient."""
    return isinstance(person, tuple | list) and len(person) == 2 and callable(person[0])
