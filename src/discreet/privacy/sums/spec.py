"""A private running sum before it is made: what is added, how often, by which method and noise.

Sums, learners, certificates and the planner all read the noise of a sum from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...core import checks
from ...core.state import Saved
from ..budget import Share
from ..events import Event, GaussianNoise, GroupGaussianNoise, LaplaceNoise, SphericalLaplaceNoise
from .bounds import VectorBounds
from .participation import Participation

if TYPE_CHECKING:
    from ..accountant import Gate
    from .base import RunningSum

KINDS: dict[str, type[GaussianNoise] | type[LaplaceNoise]] = {
    "gaussian": GaussianNoise,
    "laplace": LaplaceNoise,
    "spherical": SphericalLaplaceNoise,
}


@dataclass(frozen=True)
class SumSpec:
    """``rounds`` vectors within ``bounds``, summed by ``method`` with ``noise``.

    ``variance_reduction`` combines each block of a tree with its halves. ``stacked`` vectors of a person,
    each within ``bounds``, are added end to end; noise is drawn and accounted for each of them on its own.
    ``participation``: how many of the vectors hold data of one person, once each. Without it nothing is known
    of that, and a budget with ``max_rounds_per_person`` counts every round of a person in full.

    >>> spec = SumSpec(VectorBounds(3, 2, norm_bound=1.0), rounds=1000)
    >>> round(spec.worst_error, 2), spec.count
    (3.27, 1)
    """

    bounds: VectorBounds
    rounds: int
    method: str = "sqrt"
    noise: str = "gaussian"
    variance_reduction: bool = False
    stacked: int = 1
    participation: Participation | None = None

    def __post_init__(self) -> None:
        from . import METHODS

        checks.instance("bounds", self.bounds, VectorBounds, "VectorBounds(3, 2, norm_bound=1.0)")
        checks.one_of("method", self.method, METHODS)
        checks.whole("stacked", self.stacked, at_least=1)
        checks.one_of("noise", self.noise, self.kind.noises)
        checks.whole("rounds", self.rounds, at_least=1)
        if self.participation is not None:
            checks.instance("participation", self.participation, Participation, "Participation(4, apart=2)")
            if self.noise != "gaussian":
                raise ValueError(
                    f"min_separation needs Gaussian noise: with noise={self.noise!r} every round of a person"
                    " costs the same, however far apart they are"
                )

    @property
    def kind(self) -> type[RunningSum]:
        """The class of the method."""
        from . import METHODS

        return METHODS[self.method]

    @cached_property
    def added(self) -> VectorBounds:
        """The bounds of what is added: all of a person's vectors end to end."""
        return self.bounds.stacked(self.stacked)

    @property
    def count(self) -> int:
        """How many releases one person's data enters; with a `participation` all of a sum are one release."""
        return (1 if self.returning else self.kind.uses(self)) * self.stacked

    @property
    def returning(self) -> bool:
        """Whether a person can be in several vectors, in a declared way."""
        return self.participation is not None and self.participation.times > 1

    def sensitivity(self, neighbours: str) -> float:
        """How far one person moves one release, in the norm of the noise.

        That is with one vector; with a `participation`, with all that the person is in.
        """
        one = self.bounds.difference(neighbours)
        return one * (self.kind.group_stretch(self) if self.returning else self.kind.stretch(self))

    def event(self, share: Share, definition: str | None = None) -> Event:
        """The least noise with which all releases fit into ``share``."""
        checks.instance("share", share, Share, "budget.share()")
        if self.participation is not None:
            rounds = share.budget.max_rounds_per_person
            if self.participation.times != rounds:
                raise ValueError(
                    f"the sum is for people in {self.participation.times} of its vectors each; the budget has"
                    f" max_rounds_per_person={rounds}"
                )
        kind = GroupGaussianNoise if self.returning else KINDS[self.noise]
        return kind.within(share, self.sensitivity(share.neighbours), self.count, definition)

    def error(self, step: int) -> float:
        """Norm of the noise vectors' coefficients in the sum after ``step`` vectors."""
        return self.kind.error(self, checks.whole("step", step, at_least=1, at_most=self.rounds))

    @property
    def worst_error(self) -> float:
        """The largest error of a sum with Gaussian noise, in units of neighbours' distance over mu."""
        return self.kind.worst_error(self)

    @property
    def mean_error(self) -> float:
        """The same on average over the rounds, a little overstated."""
        return self.kind.mean_error(self)

    @property
    def most_draws(self) -> int:
        """Of how many noise vectors a sum can be made."""
        return self.kind.most_draws(self)

    def deviation(self, event: Event) -> float:
        """Standard deviation of a coordinate of the noisiest sum, for Gaussian noise of ``event``."""
        return self._deviation(event, self.worst_error)

    def mean_deviation(self, event: Event) -> float:
        """The same on average over the rounds, a little overstated."""
        return self._deviation(event, self.mean_error)

    def _deviation(self, event: Event, error: float) -> float:
        if not isinstance(event, GaussianNoise):
            raise TypeError(f"event must be a GaussianNoise, got {checks.shown(event)}")
        return float(event.sigma) * error / (self.kind.stretch(self) * math.sqrt(self.kind.uses(self)))

    def noise_std(self, event: Event, step: int) -> float:
        """Standard deviation of a coordinate after ``step`` vectors, with the noise of ``event``.

        Of the noise as it is drawn, which pays for rounding to its grid (for people who are replaced).
        """
        checks.instance("event", event, KINDS[self.noise], f"{KINDS[self.noise].__name__}(1.0, 9.0)")
        return self.kind.unit_std(self, self.kind.grid(self, event, "replace")) * self.error(step)

    def make(
        self,
        gate: Gate,
        *,
        share: Share | None = None,
        event: Event | None = None,
        clip: bool = False,
        label: str = "running sum",
    ) -> RunningSum:
        """The sum, charged at ``gate``: within ``share``, or all that is left there.

        Or with the noise of ``event``, which is refused unless it is for what one person can move.
        """
        return self.kind.of(self, gate, share=share, event=event, clip=clip, label=label)

    def settings(self) -> dict[str, Any]:
        """Plain values, for `SumSpec.saved`."""
        return {
            "dimension": self.bounds.dimension,
            "norm_bound": self.bounds.norm_bound,
            "box": None if self.bounds.box is None else list(self.bounds.box),
            "nonzeros": self.bounds.nonzeros,
            "people_per_vector": self.bounds.people_per_vector,
            "apart": self.bounds.apart,
            "rounds": self.rounds,
            "method": self.method,
            "noise": self.noise,
            "variance_reduction": self.variance_reduction,
            "stacked": self.stacked,
            "participation": None if self.participation is None else self.participation.to_json(),
        }

    @classmethod
    def saved(cls, saved: Saved) -> SumSpec:
        """The specification that `settings` wrote."""
        noise = saved.one_of("noise", KINDS)
        bounds = VectorBounds(
            saved.plain("dimension"),
            1 if noise == "laplace" else 2,
            saved.real("norm_bound", above=0.0) if saved.given("norm_bound") else None,
            tuple(saved.rows("box", at_most=2)) if saved.given("box") else None,
            saved.plain("nonzeros"),
            saved.plain("people_per_vector"),
            saved.real("apart", above=0.0) if saved.given("apart") else None,
        )
        return cls(
            bounds,
            saved.plain("rounds"),
            str(saved.plain("method")),
            noise,
            saved.flag("variance_reduction"),
            saved.whole("stacked", at_least=1),
            Participation.from_json(saved.plain("participation")) if saved.given("participation") else None,
        )
