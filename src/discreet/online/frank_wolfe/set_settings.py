"""Settings of Meta-Frank-Wolfe for sets under a constraint (paper 003, Algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...bounds import frank_wolfe as bounds
from ...bounds.selection import ALPHA
from ...constraints import Constraint
from ...core import checks
from ...core.settings import flag, of, whole
from ...privacy import LaplaceNoise, Participation, Share, VectorBounds
from ..select.selector import item_labels
from ..sums import chosen_sums
from .settings import REGULARIZERS, FrankWolfeSettings, unsettled


@dataclass(frozen=True, kw_only=True)
class SetSettings(FrankWolfeSettings):
    """What a `MetaFrankWolfe` goes by: ``domain`` is the constraint."""

    paper: ClassVar[str] = "paper 003, Algorithm 3 (ln T levels of a tree that has log2 T)"

    curvature: bool = flag()
    items_per_person: int | None = whole(at_least=1, optional=True)
    samples: int = whole(at_least=2)
    labels: tuple[Any, ...] | None = of(tuple, list, optional=True)

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
