"""Theorems about selectors: people not served beside `certified_loss`."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import discreet as dc
from discreet.bounds import published
from discreet.constraints import Cardinality, Constraint, Intersection, Knapsack, PartitionMatroid
from discreet.evaluation import best_fixed_set
from discreet.objectives import Coverage
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from discreet.privacy.account import PublishedCalibrationWarning

from .check import DELTA


@dataclass(frozen=True)
class Choice:
    """One theorem about a selector: ``ratio`` of the best value less what was chosen, in people served.

    ``make(n_items, epsilon, seed)`` makes it under ``constraint(n_items)``; ``fractional`` looks at the point
    before rounding, which is what is certified under a knapsack; ``curvature`` is that of the people.
    ``few_items`` is for selectors that take too long with hundreds of items.
    """

    theorem: str
    name: str
    make: Callable[[Constraint, float, int], Any]
    constraint: Callable[[int], Constraint] = lambda _: Cardinality(3)
    printed: Callable[[int, int, float], float] | None = None
    order_only: bool = False
    fractional: bool = False
    curvature: float | None = None
    few_items: bool = False

    def ratio(self, selector: Any) -> float:
        if isinstance(selector, PrivateGreedy):
            assert selector.ratio is not None
            return selector.ratio
        return 1.0 - (1.0 if self.curvature is None else self.curvature) / math.e

    def certified(self, selector: Any, people: int, n_items: int) -> float:
        if self.curvature is None:
            return float(selector.certified_loss(people, n_items))
        return float(selector.certified_loss(people, n_items, self.curvature))

    def served(self, selector: Any, people: Any) -> float:
        if self.fractional:
            return float(people.multilinear(selector.fractional(people))) * len(people)
        return float(people.value(selector.select(people).items)) * len(people)


def _halves(n_items: int) -> PartitionMatroid:
    """Two items of the first half, one of the second."""
    return PartitionMatroid(np.arange(n_items) * 2 // n_items, [2, 1])


def _both(n_items: int) -> Intersection:
    """That, and not two items of the same number modulo 3: 2-extendible."""
    return Intersection(_halves(n_items), PartitionMatroid(np.arange(n_items) % 3, 1))


def _sack(n_items: int) -> Knapsack:
    return Knapsack(np.resize([0.4, 0.3, 0.5], n_items), 1.0)


def choices() -> list[Choice]:
    def picks(n: int, _: int, e: float) -> float:
        return published.published_picks(n, 3, e, 1.0)

    def greedy(theorem: str, name: str, method: str, **more: Any) -> Choice:
        pure = method in ("basic", "subsampled")
        return Choice(
            theorem,
            f"PrivateGreedy, {name}",
            lambda c, e, s: PrivateGreedy(c, dc.Budget(e, 0.0 if pure else DELTA), method, seed=s),
            **more,
        )

    def climb(
        theorem: str, name: str, kind: type = ContinuousGreedy, pure: bool = False, **more: Any
    ) -> Choice:
        options = more.pop("options", {})
        return Choice(
            theorem,
            f"{kind.__name__}{name}",
            lambda c, e, s: kind(c, dc.Budget(e, 0.0 if pure else DELTA), seed=s, **options),
            **more,
        )

    def theorem3(reach: float) -> dict[str, Any]:
        def printed(n: int, t: int, e: float) -> float:
            return published.published_continuous_greedy(n, reach, e, 1.0, float(t))

        return {"printed": printed, "order_only": True}

    def lemma3(steps: int) -> Callable[[int, int, float], float]:
        return lambda n, t, e: published.published_laplace_steps(n, 3.0, steps, e, 1.0, float(t))

    def lemma4(steps: int) -> Callable[[int, int, float], float]:
        return lambda n, t, e: published.published_laplace_steps_advanced(
            n, 3.0, steps, e, DELTA, 1.0, float(t)
        )

    def gaussian(steps: int) -> dict[str, Any]:
        def printed(n: int, t: int, e: float) -> float:
            return published.published_gaussian_steps(n, 3.0, steps, e, 1.0, float(t))

        return {"printed": printed, "order_only": True}

    as_printed = {"calibration": "published"}
    guessed = {"gamma": 1.0, **as_printed}  # the coarsest grid of guesses that the paper allows
    return [
        greedy("003 on Mitrovic et al.", "basic", "basic", printed=picks, order_only=True),
        greedy("bounded-range choices", "zcdp", "zcdp"),
        greedy("exact composition of choices", "exact", "exact"),
        greedy("decomposable objectives", "decomposable", "decomposable"),
        greedy("amplification by subsampling", "subsampled", "subsampled"),
        greedy(
            "003 on Mitrovic et al.: matroid",
            "matroid",
            "basic",
            constraint=_halves,
            printed=picks,
            order_only=True,
        ),
        greedy("2-extendible systems", "2-extendible", "zcdp", constraint=_both),
        greedy("knapsack", "knapsack", "zcdp", constraint=_sack),
        climb("exponential choices", "", **theorem3(3.0)),
        climb("003, Theorem 3, matroid", ", matroid", constraint=_halves, **theorem3(3.0)),
        climb(
            "003, Theorem 3, knapsack (fractional)",
            ", knapsack",
            constraint=_sack,
            fractional=True,
            **theorem3(1.0 / 0.3),
        ),
        climb(
            "003, Lemma 3",
            ", laplace",
            pure=True,
            options={"steps": 2, "noise": "laplace"},
            printed=lemma3(2),
        ),
        climb(
            "003, Lemma 4",
            ", laplace, advanced",
            options={"steps": 4, "noise": "laplace", "composition": "advanced"},
            printed=lemma4(4),
        ),
        climb(
            "exponential choices, basic composition",
            ", basic",
            pure=True,
            options={"composition": "basic"},
            **theorem3(3.0),
        ),
        climb(
            "003, Section 3.1, Gaussian noise",
            ", gaussian",
            options={"steps": 10, "noise": "gaussian"},
            **gaussian(10),
        ),
        climb("exponential choices, zCDP", ", zcdp", options={"composition": "zcdp"}, **theorem3(3.0)),
        climb(
            "003, Theorem 3, published",
            ", laplace, published",
            pure=True,
            options={"noise": "laplace", "composition": "basic", **as_printed},
            **theorem3(3.0),
        ),
        climb(
            "003, Lemma 4, published",
            ", laplace, advanced, published",
            options={"steps": 4, "noise": "laplace", "composition": "advanced", **as_printed},
            printed=lemma4(4),
        ),
        climb(
            "003, Section 3.1, classical Gaussian noise",
            ", gaussian, published",
            options={"steps": 4, "noise": "gaussian", **as_printed},
            **gaussian(4),
        ),
        climb("003, Lemma 5", "", CurvatureGreedy, curvature=1.0, **theorem3(3.0)),
        climb(
            "003, Lemma 5, laplace",
            ", laplace",
            CurvatureGreedy,
            pure=True,
            curvature=1.0,
            options={"steps": 2, "noise": "laplace", "composition": "basic"},
            printed=lemma3(2),
        ),
        climb(
            "003, Lemma 5 with Lemma 4",
            ", laplace, advanced",
            CurvatureGreedy,
            curvature=1.0,
            options={"steps": 4, "noise": "laplace", "composition": "advanced"},
            printed=lemma4(4),
        ),
        climb(
            "003, Lemma 5, zCDP",
            ", zcdp",
            CurvatureGreedy,
            curvature=1.0,
            options={"composition": "zcdp"},
            **theorem3(3.0),
        ),
        climb(
            "003, Lemma 5, gaussian",
            ", gaussian",
            CurvatureGreedy,
            curvature=1.0,
            options={"steps": 4, "noise": "gaussian"},
            **gaussian(4),
        ),
        climb(
            "003, Lemma 5, published (not private)",
            ", laplace, published",
            CurvatureGreedy,
            pure=True,
            curvature=1.0,
            few_items=True,
            options={"steps": 2, "noise": "laplace", "composition": "basic", **guessed},
            printed=lemma3(2),
        ),
        climb(
            "003, Lemma 5, published (not private)",
            ", laplace, advanced, published",
            CurvatureGreedy,
            curvature=1.0,
            few_items=True,
            options={"steps": 2, "noise": "laplace", "composition": "advanced", **guessed},
            printed=lemma4(2),
        ),
        climb(
            "003, Lemma 5, published (not private)",
            ", gaussian, published",
            CurvatureGreedy,
            curvature=1.0,
            few_items=True,
            options={"steps": 2, "noise": "gaussian", **guessed},
            **gaussian(2),
        ),
    ]


def modular_choices() -> list[Choice]:
    """For people whose functions are sums over items: curvature 0, so nothing but noise may be lost."""
    return [
        Choice(
            "003, Lemma 5, curvature 0",
            "CurvatureGreedy, curvature 0",
            lambda c, e, s: CurvatureGreedy(c, dc.Budget(e, DELTA), seed=s),
            curvature=0.0,
        ),
        Choice(
            "003, Lemma 5, curvature 0, matroid",
            "CurvatureGreedy, curvature 0, matroid",
            lambda c, e, s: CurvatureGreedy(c, dc.Budget(e, DELTA), seed=s),
            _halves,
            curvature=0.0,
        ),
    ]


def trap(people: int, items: int) -> Coverage:
    """Greedy's worst case for 3 items: decoys that each cover a third of what is left of every third.

    Greedy, if it takes them, serves 1 - (2/3)^3 of everybody; three other items serve everybody. Decoys cover
    a hundredth more, so that noise does not hide which they are.
    """
    matrix = np.zeros((people, items))
    block = np.arange(people) * 3 // people
    matrix[np.arange(people), block] = 1.0
    left = np.ones(people, dtype=bool)
    for decoy in range(3, 6):
        for third in range(3):
            who = np.flatnonzero(left & (block == third))
            chosen = who[: len(who) // 3 + max(1, people // 300)]
            matrix[chosen, decoy] = 1.0
            left[chosen] = False
    return Coverage(matrix)


def offline_rows(
    people: Any, name: str, epsilon: float, runs: int, found: list[Choice] | None = None
) -> Iterator[dict[str, Any]]:
    """What selectors lose, in people served, beside `certified_loss`: without any slack."""
    size, n_items = len(people), people.n_items
    best: dict[str, float] = {}
    for choice in choices() if found is None else found:
        if choice.few_items and n_items > 50:
            continue
        constraint = choice.constraint(n_items)
        key = repr(constraint)
        if key not in best:
            # The best set of an intersection is not searched for; that of one of its parts is no worse.
            wider = constraint.constraints[0] if isinstance(constraint, Intersection) else constraint
            chosen, _, upper = best_fixed_set(people, wider)
            best[key] = max(upper, people.value(chosen)) * size
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            warnings.simplefilter("ignore", UserWarning)
            selectors = [choice.make(constraint, epsilon, seed) for seed in range(runs)]
            certified = choice.certified(selectors[0], size, n_items)
            served = float(np.mean([choice.served(selector, people) for selector in selectors]))
        ratio = choice.ratio(selectors[0])
        lost = ratio * best[key] - served
        printed = None if choice.printed is None else choice.printed(n_items, size, epsilon)
        yield {
            "theorem": choice.theorem,
            "learner": choice.name,
            "family": "offline",
            "stream": name,
            "epsilon": epsilon,
            "rounds": size,
            "measured": lost,
            "certified": certified,
            "printed": printed,
            "order_only": choice.order_only,
            "trivial": certified >= 0.999 * ratio * size,
            "holds": lost <= certified,
            "without_slack": lost <= certified,
            "within_printed": None if printed is None else lost <= printed,
            "served": served,
            "best": best[key],
            "ratio": ratio,
            "seconds": round(time.perf_counter() - start, 2),
        }


def offline_curves(people: Any, epsilons: list[float], runs: int) -> list[dict[str, Any]]:
    """What is lost beside the best set, measured and certified, as epsilon grows."""
    shown = ("PrivateGreedy, basic", "PrivateGreedy, zcdp", "PrivateGreedy, decomposable")
    shown += (
        "PrivateGreedy, subsampled",
        "ContinuousGreedy",
        "ContinuousGreedy, gaussian",
        "CurvatureGreedy",
    )
    curves: list[dict[str, Any]] = []
    for choice in choices():
        if choice.name not in shown:
            continue
        found = [next(offline_rows(people, "", e, runs, [choice])) for e in epsilons]
        curves.append(
            {
                "learner": choice.name,
                "epsilons": epsilons,
                "measured": [one["best"] - one["served"] for one in found],
                "certified": [(1.0 - one["ratio"]) * one["best"] + one["certified"] for one in found],
            }
        )
    return curves
