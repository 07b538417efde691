"""Scores of items (exact sums over people, or averages), and their sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..bounds import charged_costs
from ..bounds.charged_costs import ChargedCosts
from ..constraints import Cardinality, Constraint, Knapsack
from ..constraints.residual import Residual
from ..objectives import MutualInformation, Population, answers
from ..objectives.rows.fixed_point import FixedPointGains, row_parts, step
from ..privacy import ScoreChange

Floats = NDArray[np.float64]

# Where the number of people is private, exact sums are laid out for this many unless told otherwise.
MOST_PEOPLE = 1 << 24
_ROOT_TWO = math.sqrt(2.0) * (1.0 + 2.0**-50)
# Information is computed in floating point, to far more digits than this factor leaves out.
_ROUNDED = 1.0 + 2.0**-30


@dataclass(frozen=True)
class Question:
    """What is to be chosen, in public terms: from the items that are ``left``, on top of the included ones.

    ``constraint`` and ``n_items`` are about the items that are left. ``width`` is how far one person can push
    two scores apart, ``gap`` how far apart scores can be at all (None if the number of people is not public).
    ``apart`` says why people's parts do not add up (None: they do, so that the accounts of sums over people
    hold). ``unit`` is the step of exact sums, 0 for averages. ``moved`` is how far one person moves the gains
    of all picks together, in L1 and L2.
    """

    left: Residual
    constraint: Constraint
    n_items: int
    bound: float
    width: float
    n_people: int | None
    gap: float | None
    apart: str | None
    unit: float
    costs: ChargedCosts | None
    moved: tuple[float, float]

    @property
    def picks(self) -> int:
        """The most picks that can depend on anybody: the last of all items is no choice."""
        return min(self.constraint.rank, self.n_items - 1)

    @property
    def ends(self) -> int:
        """Choices after the picks: the best single item, and between it and the picks."""
        return 2 if self.costs is not None and self.costs.large.size else 0

    def scores(self, people: Population) -> Scores:
        """The set before the picks, over ``people``, who may be a sample of those that were asked about."""
        scores: Scores
        scores = FixedPointGains.over(people, self.bound, self.unit) if self.unit else Averages(people)
        return scores if self.left.whole else OnTop(scores, self.left)


@dataclass(frozen=True)
class Terms:
    """What a chooser declares about the people it has not seen."""

    bound: float
    sensitivity: float | None
    max_people: int | None
    neighbours: str

    def question(
        self,
        left: Residual,
        size: int | None,
        people: Population | None = None,
        *,
        averages: bool = False,
    ) -> Question:
        """The public terms of a choice among ``size`` people, of the population's kind where that is known.

        ``averages``: by the population's own average gains instead of exact sums over people.

        Included items are public and the same for neighbours. So what one person adds to a score on top of
        them keeps to the bounds it has anywhere: in [0, bound] and, over all picks, at most the bound in sum,
        for a monotone person; and to a stated or known sensitivity of all sets as large as the whole one.
        """
        constraint, n_items = left.constraint, int(left.free.size)
        if constraint is None:
            raise ValueError("no item can be added to those of include; there is nothing to choose")
        size = self.max_people if self._one_way else size
        costs = costs_of(constraint)
        monotone = people is None or people.monotone
        if costs is not None and not monotone:
            costs = replace(costs, large=costs.large[:0])  # no guarantee to save, and values are not held
        picks, weighed = min(constraint.rank, n_items), costs is not None
        exact = self.sensitivity is None and (people is None or (people.sums_over_people and not averages))
        unit, apart = 0.0, None if monotone else "it is for monotone objectives"
        if exact:
            width, gap, moved = self._of_sums(people, size, picks)
            length = self.max_people or (MOST_PEOPLE if size is None else size)
            unit = step(self._most(people), length, charged_costs.BITS if weighed else 0)
        elif people is None or self.sensitivity is not None or not people.sums_over_people:
            sets = picks + int(left.included.size)
            width, gap, moved, why = self._of_one_function(people, picks, sets, weighed)
            apart = apart or why
        else:
            width, gap, moved = _of_averages(people, self.neighbours, picks)
        return Question(left, constraint, n_items, self.bound, width, size, gap, apart, unit, costs, moved)

    @property
    def _one_way(self) -> bool:
        return self.neighbours == "add_remove"

    def _most(self, people: Population | None) -> float:
        """The most that one person's part of a score can be in size."""
        return self.bound if people is None or people.monotone else max(people.ranges()[2:])

    def _of_sums(
        self, people: Population | None, size: int | None, picks: int
    ) -> tuple[float, float | None, tuple[float, float]]:
        """For exact sums over people, each person's part of which lies in a public range."""
        if people is None or people.monotone:
            width = ScoreChange(self.bound, one_directional=self._one_way).range
            moved = (width, self.bound if self._one_way else _ROOT_TWO * self.bound)
            return width, None if size is None else size * self.bound, moved
        _, _, up, down = people.ranges()
        width = (up + down) * (1.0 if self._one_way else 2.0)
        each = max(up, down) if self._one_way else up + down
        return width, None if size is None else size * (up + down), _of_each(each, picks)

    def _of_one_function(
        self, people: Population | None, picks: int, sets: int, weighed: bool
    ) -> tuple[float, float | None, tuple[float, float], str]:
        """For one function of everybody's data, no sum over people, on sets of up to ``sets`` items."""
        if self.sensitivity is not None:
            each = 2.0 * self.sensitivity
            # All values move with f(S): that cancels between gains, unless costs weigh them.
            width = (2.0 if weighed else 1.0) * each
            why = "it is for sums over people, and a sensitivity was stated instead"
            return width, None if people is None else people.bound, _of_each(each, picks), why
        assert people is not None
        # Of a table of features one person moves the more, the more features there are.
        options = {"set_size": sets} if isinstance(people, MutualInformation) else {}
        each, width = (
            people.sensitivity(self.neighbours, norm, **options) * _ROUNDED
            for norm in ("coordinate", "range")
        )
        why = f"it is for sums over people, which {type(people).__name__} is not"
        return 2.0 * each if weighed else width, people.bound, _of_each(each, picks), why


def _of_averages(people: Population, neighbours: str, picks: int) -> tuple[float, float, tuple[float, float]]:
    """For a population's own average gains."""
    each = people.sensitivity(neighbours, "value" if people.monotone else "coordinate")
    moved = (2.0 * each, _ROOT_TWO * each) if people.monotone else _of_each(each, picks)
    return people.sensitivity(neighbours, "range"), people.bound, moved


def _of_each(each: float, picks: int) -> tuple[float, float]:
    """How far all picks' gains move together, in L1 and L2, where each moves by ``each``."""
    return picks * each, math.sqrt(picks) * each


def costs_of(constraint: Constraint) -> ChargedCosts | None:
    """The weights of a knapsack; None for other constraints."""
    return ChargedCosts.of(constraint) if isinstance(constraint, Knapsack) else None


def quick_average(people: Population) -> bool:
    """Whether average gains come much cheaper than asking people one by one.

    Functions of unknown origin are asked one by one: what they give can then be clipped, and where they fail
    nobody learns of it.
    """
    return row_parts(people) is None and people.built_in


class Scores(Protocol):
    """A growing set and the score of every item on top of it."""

    items: list[int]

    def scores(self) -> Floats:
        """What each item would add."""
        ...

    def add(self, item: int) -> float:
        """Put ``item`` into the set; its score is returned."""
        ...


class Averages:
    """A population's own average gains, asked for again after each addition, when they are needed.

    `Population.sensitivity` speaks of these numbers as computed.
    """

    def __init__(self, people: Population) -> None:
        self._people = people
        self.items: list[int] = []
        self._now: Floats | None = None

    def scores(self) -> Floats:
        if self._now is None:
            self._now = answers.vector("gains", self._people.gains(list(self.items)), self._people.n_items)
        return self._now

    def add(self, item: int) -> float:
        score = float(self.scores()[item])
        self.items.append(item)
        self._now = None
        return score


class Nobody:
    """The scores of a sample that holds nobody."""

    def __init__(self, n_items: int) -> None:
        self.items: list[int] = []
        self._zeros = np.zeros(n_items)

    def scores(self) -> Floats:
        return self._zeros

    def add(self, item: int) -> float:
        self.items.append(item)
        return 0.0


class OnTop:
    """Scores of the items that are left, on top of the included ones."""

    def __init__(self, scores: Scores, left: Residual) -> None:
        self._scores, self._free = scores, left.free
        for item in left.included.tolist():
            scores.add(item)
        self.items: list[int] = []

    def scores(self) -> Floats:
        return self._scores.scores()[self._free]

    def add(self, item: int) -> float:
        self.items.append(item)
        return self._scores.add(int(self._free[item]))


class Candidates:
    """Which items fit on top of the chosen ones."""

    def __init__(self, constraint: Constraint, n_items: int) -> None:
        self._constraint = constraint
        self._left = np.ones(n_items, dtype=np.bool_)

    def after(self, chosen: list[int]) -> NDArray[np.intp]:
        if not isinstance(self._constraint, Cardinality):
            return np.flatnonzero(self._constraint.addable(np.array(chosen, dtype=np.intp)))
        if chosen:
            self._left[chosen[-1]] = False
        return np.flatnonzero(self._left)
