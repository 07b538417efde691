"""Settings in which the mechanisms themselves are audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from ..privacy import (
    Budget,
    ExponentialChoice,
    FactorizedSum,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    ScoreChange,
    SphericalLaplaceNoise,
    TreeSum,
)
from .cases import Case, Play, Played
from .choices import ChoiceCase
from .exact import Space
from .faults import CHOICES_TELL, NUMBERS_TELL, TWICE
from .hooks import Floats, Source
from .noise import NoiseCase

PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-5)
NEIGHBOURS = ("replace", "add_remove")
CHOICE_FAULTS = ("rate doubled", "charges forgotten", "sensitivity halved")
CHOICE_SAMPLER_FAULTS = ("drawn at twice the rate", "drawn with the sign lost")
NOISE_FAULTS = ("noise halved", "charges forgotten", "sensitivity halved")
NOISE_SAMPLER_FAULTS = ("half of the noise drawn", "noise drawn with its sign lost")


def choosing(budget: Budget) -> Play:
    """Two picks, the second without the first, by the sums of people's scores in [0, 1]."""
    change = ScoreChange(1.0, one_directional=budget.neighbours == "add_remove")

    def play(stream: Floats, source: Source) -> Played:
        gate = Gate(budget, source)
        scores = stream.sum(axis=0)
        event = ExponentialChoice.within(budget.share(), change.range, 2)
        first = gate.choose(scores, event.rate, event.range)
        left = np.delete(np.arange(scores.size), first)
        second = int(left[gate.choose(scores[left], event.rate, event.range)])
        return Played((first, second), lambda: gate.spent)

    return play


def releasing(kind: str, budget: Budget, columns: int) -> Play:
    """Sums of people's vectors in [0, 1]^d, released twice, the second time doubled."""
    events: dict[str, Any] = {
        "laplace": LaplaceNoise,
        "gaussian": GaussianNoise,
        "spherical_laplace": SphericalLaplaceNoise,
    }
    most = float(columns) if kind == "laplace" else float(np.sqrt(columns)) * (1.0 + 1e-12)

    def play(stream: Floats, source: Source) -> Played:
        gate = Gate(budget, source)
        total = stream.sum(axis=0)
        event = events[kind].within(budget.share(), most, 2)
        size = event.sigma if kind == "gaussian" else event.scale
        release = getattr(gate, kind)
        published = [release(total, size, event.sensitivity) for _ in range(2)]
        return Played(published, lambda: gate.spent)

    return play


def summing(kind: type[TreeSum] | type[FactorizedSum], budget: Budget, rows: int, **options: Any) -> Play:
    """A running sum of people's vectors in [-1, 1]^d, shortened to length 1."""

    def play(stream: Floats, source: Source) -> Played:
        gate = Gate(budget, source)
        total = kind(stream.shape[1], rows, gate, norm_bound=1.0, clip=True, **options)
        published = [total.add(vector) for vector in stream]
        return Played(published, lambda: gate.spent)

    return play


def one_number(kind: str, budget: Budget) -> tuple[Play, Callable[[Floats, int, Source], Floats]]:
    """A single number released once, and the same for many numbers at once, each of them somebody's own."""
    events: dict[str, Any] = {"laplace": LaplaceNoise, "gaussian": GaussianNoise}

    def released(values: Floats, source: Source) -> tuple[Any, Gate]:
        gate = Gate(budget, source)
        event = events[kind].within(budget.share(), 1.0)
        size = event.sigma if kind == "gaussian" else event.scale
        return getattr(gate, kind)(values, size, event.sensitivity, changed=1), gate

    def play(stream: Floats, source: Source) -> Played:
        published, gate = released(stream.sum(axis=0), source)
        return Played([published], lambda: gate.spent)

    def many(stream: Floats, runs: int, source: Source) -> Floats:
        published, _ = released(np.full(runs, stream.sum()), source)
        return np.asarray(published, dtype=np.float64)

    return play, many


def cases() -> list[Case]:
    """Every mechanism of the gate, and every kind of running sum."""
    return [*_choices(), *_numbers(), *_releases(), *_sums()]


def _choices() -> Iterator[Case]:
    for neighbours in NEIGHBOURS:
        for delta in (0.0, 1e-2):
            budget = Budget(2.0, delta, neighbours)
            yield ChoiceCase(
                "Gate.choose",
                "two picks of 3 candidates" + (", with a delta" if delta else ""),
                budget,
                Space(7, 3),
                choosing(budget),
                (*CHOICE_FAULTS, *CHOICE_SAMPLER_FAULTS, CHOICES_TELL),
                runs=3,
                only_deep=bool(delta) or neighbours == "add_remove",
            )


def _numbers() -> Iterator[Case]:
    for kind in ("laplace", "gaussian"):
        budget = PURE if kind == "laplace" else APPROXIMATE
        play, many = one_number(kind, budget)
        faults = (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, NUMBERS_TELL)
        yield NoiseCase(f"Gate.{kind}", "one number", budget, Space(1, 1), play, faults, 4, many=many)


def _releases() -> Iterator[Case]:
    for kind, neighbours in product(("laplace", "gaussian", "spherical_laplace"), NEIGHBOURS):
        budget = Budget(1.0, 1e-5 if kind == "gaussian" else 0.0, neighbours)
        yield NoiseCase(
            f"Gate.{kind}",
            "two releases of 2 sums",
            budget,
            Space(3, 2),
            releasing(kind, budget, 2),
            (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, NUMBERS_TELL),
            runs=4,
            only_deep=neighbours == "add_remove" or kind != "spherical_laplace",
        )


def _sums() -> Iterator[Case]:
    kinds: list[tuple[str, str, type[Any], dict[str, Any]]] = [
        ("TreeSum", "Gaussian noise", TreeSum, {"noise": "gaussian"}),
        (
            "TreeSum",
            "Gaussian noise, blocks combined",
            TreeSum,
            {"noise": "gaussian", "variance_reduction": True},
        ),
        ("TreeSum", "Laplace noise", TreeSum, {"noise": "laplace"}),
        ("TreeSum", "spherical noise", TreeSum, {"noise": "spherical"}),
        ("FactorizedSum", "square root", FactorizedSum, {"method": "sqrt"}),
        ("FactorizedSum", "few buffers", FactorizedSum, {"method": "blt"}),
    ]
    for (name, setting, kind, options), neighbours in product(kinds, NEIGHBOURS):
        delta = 0.0 if options.get("noise") in ("laplace", "spherical") else 1e-5
        budget = Budget(1.0, delta, neighbours)
        yield NoiseCase(
            name,
            f"{setting}, 5 vectors of 2 numbers",
            budget,
            Space(5, 2, (-1.0, 0.0, 1.0)),
            summing(kind, budget, 5, **options),
            (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, TWICE, NUMBERS_TELL),
            twice=3,
            only_deep=neighbours == "add_remove",
        )
