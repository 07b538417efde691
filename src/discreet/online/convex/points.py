"""Learners that play a point of a convex domain every round."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...bounds import convex as bounds
from ...constraints.domains import Domain, Missing
from ...core import checks
from ...core.progress import track
from ...objectives import answers
from ...objectives.losses import Losses, cost_functions
from ...privacy import (
    Account,
    Budget,
    Coins,
    Event,
    Gate,
    LaplaceNoise,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
)
from ...privacy.conversions import exact
from ...privacy.published import published_share
from ...results import CostTrace
from ..clipping import ClippedCount
from ..learner import LearnerSettings, OnlineLearner, Stream
from ..total import PrivateTotal

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PointSettings(LearnerSettings):
    """Settings of learners that play a point."""

    rounds: int
    domain: Domain


def checked_domain(domain: Any) -> Domain:
    """``domain`` if it is one, or an error that shows what one looks like."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}")
    return domain


class PointLearner(OnlineLearner):
    """Play a point of a convex domain every round, then learn from what it cost the person of that round."""

    settings: PointSettings
    _noun: ClassVar[str] = "point"

    # --- for users -------------------------------------------------------------------------------

    def choose(self) -> Vector:
        """The point for this round, as an array that cannot be written to."""
        point: Vector = super().choose()
        return point

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> CostTrace:
        """A whole stream of costs at once: the same points, for the same seed, as one by one.

        ``people`` is a population of losses or a sequence of costs. ``person_ids`` as in `learn`, one per
        person. People beyond the declared horizon are served the last point and not learned from.
        """
        trace: CostTrace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    @classmethod
    def load(
        cls, path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None, domain: Domain | None = None
    ) -> Self:
        """Go on from a saved file; what was spent stays spent.

        A domain that was given by a function has to be given again, with the same center and radii. ``gate``
        as in `OnlineLearner.load`.
        """
        learner = super().load(path, gate=gate)
        if domain is not None:
            saved = learner.settings.domain
            if not isinstance(saved, Missing) or not saved.fits(domain):
                raise ValueError(
                    f"the learner was saved with the domain {saved}; domain= is for one that was given by a"
                    " function, with the same center and radii"
                )
            # What stood there was only its description.
            learner.__dict__["settings"] = replace(learner.settings, domain=domain)
        return learner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain!r}, round {self.round:,} of {self.rounds:,})"

    # --- for the protocol ------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.settings.domain.dimension

    def _decision(self, shown: NDArray[Any]) -> Vector:
        point = np.array(shown, dtype=np.float64)
        point.setflags(write=False)
        return point

    def _could_show(self, shown: NDArray[Any]) -> bool:
        domain = self.settings.domain
        return super()._could_show(shown) and (isinstance(domain, Missing) or domain.contains(shown))

    def _row(self, decision: Vector) -> Vector:
        return decision

    def _worth(self, person: Any, decision: Vector) -> float:
        if isinstance(person, Losses):
            self._check_one(person)
            return answers.number("value(point)", person.at(0, decision)[0])
        return answers.number("value(point)", cost_functions(person)[0](decision))

    def _check_one(self, person: Losses) -> None:
        """Refuse losses that are not one person's, or not about points of the domain."""
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        self._check_people(person)

    def _trace(self, rewards: Vector, selections: NDArray[Any]) -> CostTrace:
        return CostTrace(rewards, selections, type(self).__name__)

    def _check_people(self, people: Any) -> None:
        if not hasattr(people, "__len__") or not hasattr(people, "__getitem__"):
            raise TypeError(
                f"run() takes a population of losses or a sequence of costs, got {type(people).__name__}"
            )
        if isinstance(people, Losses) and people.dimension != self._width:
            raise ValueError(f"the losses have {people.dimension} coordinates; the domain has {self._width}")


@dataclass(frozen=True, kw_only=True)
class GradientSumSettings(PointSettings):
    """Settings of learners that follow a private sum of gradients."""

    sums: str
    noise: str
    clip: bool
    event: Event | None

    @property
    @abstractmethod
    def vectors(self) -> VectorBounds:
        """What is declared about gradients, in the norm of the noise."""

    @property
    @abstractmethod
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point over the declared rounds."""

    @property
    def releases(self) -> int:
        """How many sums are taken: the papers' tree is for all rounds, though the last is never looked at."""
        return self.rounds if self.calibration == "published" else self.rounds - 1

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of gradients; None where nothing is released."""
        if not self.releases:
            return None
        reduced = self.sums == "tree" and self.noise == "gaussian"
        more: dict[str, Any] = {"variance_reduction": reduced, "participation": self.participation}
        return SumSpec(self.vectors, self.releases, self.sums, self.noise, **more)

    @property
    def noise_length(self) -> float:
        """Bound on the root mean square length of the noise in any sum."""
        spec, event = self.spec, self.event
        return 0.0 if spec is None or event is None else bounds.worst_noise(spec, event)

    def within(self, share: Share) -> Self:
        """The same with the least noise that fits into ``share``."""
        spec = self.spec
        return self if spec is None else replace(self, event=spec.event(share, share.notion))

    def as_printed(self, share: Share) -> Self:
        """The same with the papers' noise, which is for the norm of a gradient, not for a difference."""
        spec = self.spec
        assert spec is not None
        return replace(self, event=printed_noise(spec, share))


def declared(
    dimension: int, lipschitz: float | None, box: tuple[float, float] | None, noise: str
) -> VectorBounds:
    """Bounds of a gradient in the norm of the noise: lengths are in L2, Laplace noise goes by L1."""
    if noise != "laplace":
        return VectorBounds(dimension, 2, lipschitz, box)
    sum_bound = None if lipschitz is None else lipschitz * math.sqrt(dimension) * (1.0 + 2.0**-50)
    return VectorBounds(dimension, 1, sum_bound, box)


def printed_noise(spec: SumSpec, share: Share) -> LaplaceNoise:
    """A tree's noise as papers 000 and 004 print it: for the norm of a vector, in all of a pure epsilon."""
    epsilon = claimed_budget(share).epsilon_per_round
    kind = SphericalLaplaceNoise if spec.noise == "spherical" else LaplaceNoise
    scale = exact(spec.bounds.difference("add_remove")) * spec.count / exact(epsilon)
    return kind(spec.bounds.difference(share.neighbours), scale)


def claimed_budget(share: Share) -> Budget:
    """What these papers claim, and spend: a pure epsilon, whatever the delta."""
    if not share.private:
        raise ValueError('calibration="published" needs a finite epsilon; take "tight"')
    return replace(share.budget, delta=0.0)


class GradientSumLearner(PointLearner):
    """A point learner that sees people only through one private running sum of their gradients."""

    settings: GradientSumSettings
    _state: ClassVar[tuple[str, ...]] = ("_total", "_clipped")

    def __init__(self, settings: GradientSumSettings, share: Share) -> None:
        if settings.calibration == "published":
            assert settings.spec is not None
            assert settings.event is not None
            releases = [(settings.event, settings.spec.count)]
            share = published_share(share, releases, "noise for sums of gradients", claimed_budget(share))
        super().__init__(settings, share)

    @property
    def insecure_clipped(self) -> int:
        """How many gradients had to be shortened so far (``clip=True``).

        A fact about people that no noise protects: for debugging on data that you may look at. It is not part
        of the account, and must not be published.
        """
        return self._clipped.number

    @abstractmethod
    def _leader(self, known: Vector) -> Vector:
        """The next point, from the private sum of gradients."""

    @abstractmethod
    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        """A gradient that keeps to what was declared, and whether it had to be shortened."""

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._gather_with(None)

    def _gather_with(self, coins: Coins | None) -> None:
        """Make the sum; ``coins`` are for noise on top (see `PrivateTotal`)."""
        settings = self.settings
        self._clipped = ClippedCount()
        # Only rounding is left to clip: gradients are checked before.
        self._total = PrivateTotal(
            settings.spec,
            self._gate,
            settings.event,
            (settings.domain.dimension,),
            coins=coins,
            clip=True,
            ahead=True,
            trees=True,
            label="gradients",
        )

    def _due(self) -> bool:
        return True

    def _draw(self) -> Vector:
        if self.round == 0 or self._total.sum is None:
            return np.array(self.settings.domain.center)
        if self._total.taken >= self.round:  # an interruption came between this round's sum and its point
            return self._shown
        known = self._total.release()
        self._passed(self._shown)
        return self._leader(known)

    def _passed(self, point: Vector) -> None:
        """A round was played with ``point``."""

    def _prepared(self, person: Any) -> tuple[Vector, bool]:
        return self._bounded(self._gradient(person, self._decision(self._shown)))

    def _gradient(self, person: Any, point: Vector) -> Vector:
        if isinstance(person, Losses):
            self._check_one(person)
            return answers.vector("gradient(point)", person.at(0, point)[1], self._width)
        return answers.vector("gradient(point)", cost_functions(person)[1](point), self._width)

    def _absorb(self, person: tuple[Vector, bool]) -> None:
        gradient, shortened = person
        self._total.gather(gradient)
        self._clipped.add(shortened)

    def _run(self, stream: Stream) -> None:
        people = stream.people
        if not isinstance(people, Losses):
            super()._run(stream)
            return
        self._total.draw_ahead(self.round + stream.rewards.size - 1)
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            cost, gradient = people.at(t, self._next())
            ready = self._bounded(answers.vector("gradient(point)", gradient, self._width))
            stream.rewards[t] = answers.number("value(point)", cost)
            stream.selections[t] = self._shown
            self._take(ready, bool(stream.within_limit[t]))

    def _spent(self) -> Account:
        return self._account(*self._total.released())
