"""A growing set over many people, scored by sums in which one person's part is exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from . import answers
from .base import Floats, Items, Mixture, Population, State
from .rows import function_rows

# Most binary places of a gain; fewer are kept if a sum needs the bits.
_PLACES = 40
_EXACT_BITS = 52
# Below this a step, or the number of steps to 1, is no longer an exact float.
_LEAST_EXPONENT = -1000


def step(bound: float, length: int, spare_bits: int = 0) -> float:
    """The step to whose multiples gains of up to ``bound`` are rounded down, for sums over ``length`` people.

    The sum is then an integer number of steps below 2^53, also after a factor of up to 2^``spare_bits``.

    >>> step(1.0, 1000) == 2.0**-40, step(1.0, 2**20) == 2.0**-31, step(3.0, 1) == 2.0**-38
    (True, True, True)
    """
    places = min(_PLACES, _EXACT_BITS - spare_bits - length.bit_length())
    exponent = math.frexp(bound)[1] - (math.frexp(bound)[0] == 0.5) - places
    if exponent < _LEAST_EXPONENT:
        raise ValueError(f"bound={bound:g} is too small to be counted in steps of it; rescale the values")
    return float(2.0**exponent)


class Growing(Protocol):
    """A growing set over rows: every item's sum of gains, each row's part in integer steps."""

    def begin(self, sums: Floats) -> None:
        """Add each item's gain on top of the chosen items, initially none, to ``sums``."""
        ...

    def choose(self, item: int, sums: Floats) -> None:
        """Choose an item: update ``sums``."""
        ...


class StepSource(Protocol):
    """Rows in memory or elsewhere that provide sums over all of them."""

    def scaled(self, factor: float) -> StepSource:
        """The same rows, each times ``factor``."""
        ...

    def growing(self, most: float, per_unit: float) -> Growing:
        """An empty growing set over the rows; each adds at most ``most`` steps of ``1 / per_unit``."""
        ...

    def gradient_steps(
        self, x: Floats, per_unit: float, most: int, seed: int, samples: int
    ) -> NDArray[np.int64]:
        """The sum of multilinear gradients at ``x``, in steps; a row adds at most ``most`` to each entry."""
        ...


class StepPopulation(Population):
    """Averages over people in a store or on a device, from sums in integer steps."""

    built_in = True
    _rows: Any  # a StepSource

    def row_source(self) -> StepSource:
        found: StepSource = self._rows
        return found

    def __len__(self) -> int:
        return int(self._rows.n_rows)

    def start(self) -> State:
        return StepState(self)

    @cached_property
    def _steps(self) -> tuple[float, float]:
        """The most steps of one person, and the number of steps per 1."""
        bound = self.bound_of(self.at_most or self.n_items)
        per_unit = 1.0 / step(bound, len(self))
        return float(math.floor(bound * per_unit)), per_unit

    def _averages(self, steps: Any) -> Floats:
        return np.asarray(steps / self._steps[1] / len(self), dtype=np.float64)

    def _value(self, items: Items) -> float:
        return float(self._chain(items).sum())

    def _gains(self, items: Items) -> Floats:
        return self._averages(self._rows.sums(items.tolist(), *self._steps))

    def _chain(self, order: Items) -> Floats:
        return self._averages(self._rows.chain(order.tolist(), *self._steps))

    def _contributions(self, items: Items) -> Floats:
        # f(S) - f(S without j) is the gradient of the multilinear extension at the corner S.
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        most, per_unit = self._steps
        found = self._rows.gradient_steps(corner, per_unit, int(most), seed=0, samples=2)
        return self._averages(found)[items]

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken.__dict__.pop("_steps", None)
        taken._rows = self._rows.take(rows)
        return taken


class FixedPointGains:
    """A growing set; ``scores()`` are the sums over people of every item's gain on top of it.

    Formal guarantee: for any behaviour of people's functions, a person's part of each score is an integer
    number of steps in [0, bound], and so is the sum of their parts of the chosen items' scores, each at the
    time of choice. Scores are integer numbers of steps below 2^53: exact, in any order of people. The values
    of a function that is not monotone are clipped to [-down, up] instead, per score only.

    ``parts`` are rows with the bound of each; the bounds add up to at most ``bound``. ``others`` are people
    whose functions are called singly: values are clipped, and a failure counts as 0.
    """

    def __init__(
        self,
        n_items: int,
        parts: Sequence[tuple[StepSource, float]],
        others: Sequence[Population],
        unit: float,
        bound: float,
    ) -> None:
        self.items: list[int] = []
        self._unit, self._per_unit = unit, 1.0 / unit
        self._others = others
        self._low, self._high = _limits(others, bound, self._per_unit)
        self._left = np.full(len(others), self._high)
        self._parts: list[Growing] = []
        for rows, most in parts:
            self._parts.append(rows.growing(float(math.floor(most * self._per_unit)), self._per_unit))
        self._sums = np.zeros(n_items)
        for part in self._parts:
            part.begin(self._sums)
        self._due: int | None = None  # a chosen item not yet in the sums
        self._asked: Floats | None = None  # computed when needed: not after the last pick

    @classmethod
    def over(cls, people: Population, bound: float, unit: float) -> Self:
        """The empty set over a population; ``bound`` is at least its own."""
        rows = row_parts(people)
        if rows is not None:
            return cls(people.n_items, rows, [], unit, bound)
        own = function_rows(people)
        if own is not None:
            return cls(people.n_items, [(own, bound)], [], unit, bound)
        return cls(people.n_items, [], list(people), unit, bound)

    def scores(self) -> Floats:
        """The sum over people of every item's gain, each gain rounded down to a step; 0 for chosen items."""
        total = self._settled() * self._unit
        if len(self._others):
            total += self._ask().sum(axis=0) * self._unit
        total[self.items] = 0.0
        return total

    def add(self, item: int) -> float:
        """Put ``item`` into the set and return its score."""
        score = float(self._settled()[item] * self._unit)
        self._due = item
        if len(self._others):
            asked = self._ask()
            score += float(asked[:, item].sum() * self._unit)
            if self._low == 0.0:
                self._left -= asked[:, item]
            self._asked = None
        self.items.append(item)
        return score

    def _settled(self) -> Floats:
        """The sums on top of all chosen items."""
        if self._due is not None:
            item, self._due = self._due, None
            for part in self._parts:
                part.choose(item, self._sums)
        return self._sums

    def _ask(self) -> Floats:
        """The others' gains in steps, a row for each."""
        if self._asked is not None:
            return self._asked
        asked = np.zeros((len(self._others), self._sums.size))
        for row, person, left in zip(asked, self._others, self._left, strict=True):
            try:
                gains = answers.vector("gains", person.gains(list(self.items)), row.size)
            except Exception:  # what it raises may hold somebody's data, and one person is not worth it
                continue
            with np.errstate(over="ignore"):  # what is too large is clipped
                row[:] = np.clip(np.floor(gains * self._per_unit), self._low, left)
        self._asked = asked
        return asked


class StepState(State):
    """A growing set over a `StepPopulation`: every addition updates the sums."""

    def __init__(self, people: StepPopulation) -> None:
        self._people, self.items, self.value = people, [], 0.0
        bound = people.bound_of(people.at_most or people.n_items)
        self._sums = FixedPointGains.over(people, bound, 1.0 / people._steps[1])

    def gains(self) -> Floats:
        return self._sums.scores() / len(self._people)

    def _grow(self, item: int) -> float:
        return self._sums.add(item) / len(self._people)


def row_parts(people: Population) -> list[tuple[StepSource, float]] | None:
    """The population as rows for compiled loops, with a bound for each part of a person; None without rows.

    A mixture of rows is several parts: a person's bound is the sum of the parts' bounds.
    """
    rows, size = people.row_source(), people.at_most or people.n_items
    if rows is not None:
        return [(rows, people.bound_of(size))]
    if not isinstance(people, Mixture) or not people.one_by_one:
        return None
    found: list[tuple[StepSource, float]] = []
    for factor, part in people.parts:
        rows = part.row_source()
        if rows is None:
            return None
        found.append((rows.scaled(factor), factor * part.bound_of(size)))
    return found


def _limits(others: Sequence[Population], bound: float, per_unit: float) -> tuple[float, float]:
    """Fewest and most steps of a person in ``others``; non-monotone functions have other limits."""
    low, high = 0.0, bound
    for person in others:
        if not person.monotone:
            _, _, up, down = person.ranges()
            low, high = -down, up
            break
    return float(math.ceil(low * per_unit)), float(math.floor(high * per_unit))
