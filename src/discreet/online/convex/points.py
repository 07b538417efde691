"""Learners that play a point of a convex domain every round."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...constraints.domains import Domain, Missing
from ...core import checks
from ...core.settings import Setting, of, whole
from ...objectives import answers
from ...objectives.losses import Losses, cost_functions
from ...privacy import Gate
from ...results import CostTrace
from ..protocol import LearnerSettings, OnlineLearner

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PointSettings(LearnerSettings):
    """Settings of learners that play a point."""

    rounds: int = whole(at_least=1)
    domain: Domain = of(Domain.from_json, lambda domain: domain.to_json())

    @property
    def entries(self) -> int:
        return 2 * self.domain.dimension


def checked_domain(domain: Any) -> Domain:
    """``domain`` if it is one, or an error that shows what one looks like."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}")
    return domain


class PointLearner(OnlineLearner):
    """Play a point of a convex domain every round, then learn from what it cost the person of that round."""

    settings: PointSettings
    _noun: ClassVar[str] = "point"

    domain = Setting("Where points lie.")

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
