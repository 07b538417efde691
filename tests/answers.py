"""Answers that nobody's function should give, for learners and selectors: each refused in the same words."""
# ruff: noqa: ARG002, ARG005

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.objectives import ContinuousPopulation, Population
from discreet.objectives.losses import Losses


class Broken(Exception):
    """What somebody's own code raises; it holds their data."""


# What is made of a good answer, number or vector.
BAD: dict[str, Callable[[Any], Any]] = {
    "NaN": lambda good: good + math.nan,
    "inf": lambda good: good + math.inf,
    "-inf": lambda good: good - math.inf,
    "too large": lambda good: good + 1e6,
    "one NaN": lambda good: np.where(np.arange(np.size(good)) == np.size(good) - 1, math.nan, good),
    "too many": lambda good: np.zeros(np.size(good) + 1),
    "another shape": lambda good: np.zeros((np.size(good), 1, 1)),
    "text": lambda good: np.full(np.shape(good), "0.5"),
    "complex": lambda good: good + 0.5j,
    "a date": lambda good: np.full(np.shape(good), np.datetime64("2020-01-01")),
    "nothing": lambda good: None,
    "objects": lambda good: np.full(np.shape(good) or 1, None),
}


class Teller:
    """Answers well ``patience`` times, then as ``bad`` says; ``bad`` may raise."""

    def __init__(self, bad: Callable[[Any], Any], patience: int = 0) -> None:
        self.bad, self.left, self.asked = bad, patience, 0

    def __call__(self, good: Any) -> Any:
        self.asked += 1
        self.left -= 1
        return good if self.left >= 0 else self.bad(good)


class OwnSets(Population):
    """Somebody's own population of set functions, made as the library makes its own."""

    def __init__(self, n_items: int, tell: Callable[[Any], Any], count: int = 1) -> None:
        self.n_items, self._tell, self._count, self._declared = n_items, tell, count, 1.0

    def __len__(self) -> int:
        return self._count

    def _value(self, items: Any) -> Any:
        return self._tell(float(len(items) > 0) / 2.0)

    def _gains(self, items: Any) -> Any:
        return self._tell(np.full(self.n_items, 0.0 if len(items) else 0.5))

    def _chain(self, order: Any) -> Any:
        return self._tell(np.eye(1, len(order))[0] / 2.0)

    def _contributions(self, items: Any) -> Any:
        return self._tell(np.zeros(len(items)))

    def _extension(self, x: Any) -> Any:
        return self._tell(0.25), self._tell(np.full(self.n_items, 0.5 / self.n_items))

    def _take(self, rows: Any) -> Any:
        return OwnSets(self.n_items, self._tell, len(rows))

    def _largest(self) -> Any:
        return np.full(self._count, 0.5)


class OverridingSets(OwnSets):
    """The same, answering where people are asked, past every check of the base class."""

    def value(self, items: Any) -> Any:
        return self._value(items)

    def gains(self, items: Any) -> Any:
        return self._gains(items)

    def multilinear_gradient(self, x: Any, **options: Any) -> Any:
        return self._extension(x)[1]

    def lovasz_gradient(self, x: Any) -> Any:
        return self._chain(x)

    def start(self) -> Any:
        return _Growing(self)

    def _take(self, rows: Any) -> Any:
        return OverridingSets(self.n_items, self._tell, len(rows))


class _Growing:
    def __init__(self, person: OwnSets) -> None:
        self._person, self.items = person, []

    @property
    def value(self) -> Any:
        return self._person._value(self.items)

    def gains(self) -> Any:
        return self._person._gains(self.items)

    def add(self, item: int) -> Any:
        self.items.append(item)
        return 0.0


class OwnPoints(ContinuousPopulation):
    """Somebody's own function of points."""

    bound, gradient_bound, smoothness = 1.0, 1.0, 1.0

    def __init__(self, dimension: int, tell: Callable[[Any], Any]) -> None:
        self.dimension, self.upper, self._tell = dimension, np.ones(dimension), tell

    def __len__(self) -> int:
        return 1

    def _value(self, x: Any) -> Any:
        return self._tell(0.5)

    def _gradient(self, x: Any) -> Any:
        return self._tell(np.full(self.dimension, 0.1))

    def _take(self, rows: Any) -> Any:
        return self


class OwnLosses(Losses):
    """Somebody's own losses."""

    def __init__(self, dimension: int, tell: Callable[[Any], Any], count: int = 1) -> None:
        super().__init__(np.zeros((count, dimension)), 1.0, False)
        self._tell = tell

    def at(self, person: int, point: Any) -> Any:
        return self._tell(0.1), self._tell(np.full(self.dimension, 0.1))

    def values(self, point: Any) -> Any:
        return np.full(len(self), 0.1)

    def lipschitz(self, domain: Any) -> float:
        return 1.0

    def _curvature(self) -> float:
        return 0.0

    def _gradient_weights(self, point: Any) -> Any:
        return np.zeros(len(self)), 0.1


def pair(dimension: int, tell: Callable[[Any], Any]) -> Any:
    """Two plain functions of a point."""
    return (lambda x: tell(0.1)), (lambda x: tell(np.full(dimension, 0.1)))


class Calling:
    """A number that calls somebody while it is being read."""

    def __init__(self, call: Callable[[], Any], value: Any) -> None:
        self._call, self._value = call, value

    def __float__(self) -> float:
        self._call()
        return float(self._value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._call()
        return np.asarray(self._value)
