"""Meta-Frank-Wolfe for points of a box or a polytope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...constraints import Constraint
from ...constraints.domains import Box
from ...core import checks
from ...core.settings import Setting
from ...core.state import Saved
from ...objectives import Population
from ...objectives.continuous import ContinuousPopulation
from ...privacy import Seed, spend_from
from ...privacy.spending import Spending
from ..clipping import ClippedCount
from ..parts import Part
from ..protocol import CALIBRATIONS
from .gradients import PointGradients
from .learner import FrankWolfeLearner, claimed_share
from .point_settings import PointSettings


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
    _noun: ClassVar[str] = "point"

    domain = Setting("Where points may lie.")
    gradient_bound = Setting("The longest gradient, in L2.")
    smoothness = Setting("How fast gradients change, in L2; None where nothing is known.")
    clip = Setting("Whether longer gradients are shortened instead of refused.")

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
        return self._clipped.number

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
        self._gradients, self._clipped = PointGradients(self.settings), ClippedCount()

    @property
    def _width(self) -> int:
        return self.settings.size

    def _draw(self) -> NDArray[np.float64]:
        return np.array(self._experts.move(self._rounds.number))

    def _decision(self, shown: NDArray[Any]) -> NDArray[np.float64]:
        return shown.copy()

    def _row(self, decision: NDArray[np.float64]) -> NDArray[np.float64]:
        return decision

    def _worth(self, person: Any, decision: NDArray[np.float64]) -> float:
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

    def _absorb(self, person: tuple[NDArray[np.int64], bool]) -> None:
        units, shortened = person
        self._clipped.add(shortened)
        self._total.gather(units)

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {**super()._parts(), "clipped": self._clipped}

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self._clipped.resume(saved.part("clipped"), self._rounds)
