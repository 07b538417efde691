"""What items are picked by: exact sums over people, or averages with a stated sensitivity."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._checks import finite
from ..objectives import MutualInformation, Population, SetFunction
from ..objectives.growth import Growth, row_parts

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
    """A population's own average gains, asked for again after each addition.

    `Population.sensitivity` speaks of these numbers as computed.
    """

    def __init__(self, people: Population) -> None:
        self._people = people
        self.items: list[int] = []
        self._now = self._ask()

    def scores(self) -> Floats:
        return self._now

    def add(self, item: int) -> float:
        score = float(self._now[item])
        self.items.append(item)
        self._now = self._ask()
        return score

    def _ask(self) -> Floats:
        gains = self._people.gains(self.items)
        finite("gains", gains)
        return gains


def sums_over_people(people: Population) -> bool:
    """Whether the objective is a sum of functions that each depend on one person alone."""
    return not isinstance(people, MutualInformation)


def quick_average(people: Population) -> bool:
    """Whether average gains come much cheaper than asking people one by one.

    Functions of unknown origin are asked one by one: what they give can then be clipped.
    """
    return row_parts(people) is None and not isinstance(people, SetFunction)


def sums(people: Population, bound: float, unit: float) -> Growth:
    """Exact sums; ``unit`` is public."""
    return Growth.over(people, bound, unit)
