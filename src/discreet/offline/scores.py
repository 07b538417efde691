"""What items are picked by: exact sums over people, or averages with a stated sensitivity."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..objectives import GraphCut, LogDeterminant, MutualInformation, Population, WeightedTopics, answers
from ..objectives.mixture import Mixture
from ..objectives.rows.fixed_point import Growth, row_parts

Floats = NDArray[np.float64]


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


def sums_over_people(people: Population) -> bool:
    """Whether the objective is a sum of functions that each depend on one person alone."""
    if isinstance(people, Mixture):
        return people.one_by_one and all(sums_over_people(part) for _, part in people._parts)
    return not isinstance(people, MutualInformation)


def quick_average(people: Population) -> bool:
    """Whether average gains come much cheaper than asking people one by one.

    Functions of unknown origin are asked one by one: what they give can then be clipped, and where they fail
    nobody is told.
    """
    return row_parts(people) is None and _well_known(people)


def _well_known(people: Population) -> bool:
    """Whether nothing but the library's own arithmetic is asked."""
    if isinstance(people, Mixture):
        return all(_well_known(part) for _, part in people._parts)
    return people.as_rows() is not None or isinstance(people, WeightedTopics | GraphCut | LogDeterminant)


def sums(people: Population, bound: float, unit: float) -> Growth:
    """Exact sums; ``unit`` is public."""
    return Growth.over(people, bound, unit)
