"""Feeding the experts: gradients of people's functions at the partial points, checked, in whole units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...objectives import Population, answers
from ...objectives.continuous import ContinuousPopulation, MultilinearExtension
from ...privacy import Coins
from .learner import Experts
from .point_settings import PointSettings
from .set_settings import SetSettings

Floats = NDArray[np.float64]


class SetGradients:
    """Multilinear gradients of a set function; where sampled, from ``coins`` of the round alone."""

    def __init__(self, settings: SetSettings, coins: Coins) -> None:
        self._settings, self._coins = settings, coins
        self._weights = settings.weights[:, None]

    def fed(self, person: Population, experts: Experts, number: int) -> NDArray[np.int64]:
        """What one person pays each expert in round ``number``."""
        settings, coins = self._settings, self._coins
        # The same coins at every point: sets that grow with the point, in which submodular gains only fall.
        asked = [
            person.multilinear_gradient(x.copy(), rng=coins.of_round(number), samples=settings.samples)
            for x in experts.points[:-1]
        ]
        if settings.curvature:
            asked.append(person.least_gains())
        found = np.array(
            [answers.vector("gradient", one, settings.size, 0.0, settings.bound) for one in asked]
        )
        payoffs = found[: settings.steps]
        if settings.curvature:
            payoffs = self._weights * payoffs + (1.0 - self._weights) * found[-1]
        return experts.whole_units(payoffs)


@dataclass(frozen=True)
class PointFunction:
    """Somebody's function of points."""

    value: Callable[[Floats], Any]
    gradient: Callable[[Floats], Any]


class PointGradients:
    """Gradients of functions of points, of limited length."""

    def __init__(self, settings: PointSettings) -> None:
        self._settings = settings

    def function(self, person: Any) -> PointFunction:
        """Somebody's function, whatever carries it."""
        settings = self._settings
        if isinstance(person, Population):
            person = MultilinearExtension(person)
        if isinstance(person, ContinuousPopulation):
            if person.dimension != settings.size:
                raise ValueError(
                    f"the function has {person.dimension} coordinates; this learner's points"
                    f" have {settings.size}"
                )
            if not person.bound <= settings.bound * (1 + 1e-12):
                raise ValueError(
                    f"the function may reach {person.bound:g}, above the learner's bound={settings.bound:g};"
                    " rescale it or declare a larger bound"
                )
            return PointFunction(person.value, person.gradient)
        if isinstance(person, tuple) and len(person) == 2 and all(callable(part) for part in person):
            return PointFunction(*person)
        value, gradient = getattr(person, "value", None), getattr(person, "gradient", None)
        if not callable(value) or not callable(gradient):
            raise TypeError(
                "expected a function with value(x) and gradient(x), or the pair of them, got"
                f" {type(person).__name__}"
            )
        return PointFunction(value, gradient)

    def value(self, function: PointFunction, x: Floats) -> float:
        """What a point is worth."""
        return answers.number("value(x)", function.value(x.copy()), 0.0, self._settings.bound)

    def fed(self, function: PointFunction, experts: Experts) -> tuple[NDArray[np.int64], bool]:
        """What one person pays each expert, and whether any of it was longer."""
        settings, points = self._settings, experts.points
        self.value(function, points[-1])
        found = np.array(
            [answers.vector("gradient(x)", function.gradient(x.copy()), settings.size) for x in points[:-1]]
        )
        longest = settings.gradient_bound
        slack = answers.ROUNDING * longest
        if found.min() < -slack:
            k, item = (int(i) for i in np.argwhere(found < -slack)[0])
            raise ValueError(
                f"gradient(x)[{item}]={found[k, item]:g} at partial point {k} is negative; the learner needs"
                " functions that never fall (monotone)"
            )
        found = np.maximum(found, 0.0)
        largest = np.maximum(found.max(axis=1), longest)
        lengths = largest * np.linalg.norm(found / largest[:, None], axis=1)
        worst = int(np.argmax(lengths))
        long = bool(lengths[worst] > longest * (1.0 + answers.ROUNDING))
        if long and not settings.clip:
            raise ValueError(
                f"gradient(x) at partial point {worst} has length {lengths[worst]:g}, above"
                f" gradient_bound={longest:g}; rescale, declare more, or pass clip=True"
            )
        found *= np.minimum(1.0, longest / np.maximum(lengths, 1e-300))[:, None]
        return experts.whole_units(found), long
