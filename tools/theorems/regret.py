"""Regret of a run: against the best fixed choice, on people of a stream or against an adaptive adversary."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from discreet.bounds import ALPHA
from discreet.constraints import Constraint
from discreet.evaluation import best_fixed_set
from discreet.objectives.base import value_to_each

from .streams import COSTED, prices_only


def set_regret(alpha: float, constraint: Constraint | None = None) -> Callable[[Any, Any], float]:
    def regret(learner: Any, people: Any) -> float:
        return float(learner.run(people).regret(people, alpha=alpha, constraint=constraint).upper)

    return regret


def weighted_regret(alpha: float) -> Callable[[Any, Any], float]:
    """The regret of people weighted as a learner with ``weights="norm"`` counts them, by enumeration."""

    def regret(learner: Any, people: Any) -> float:
        rows = np.array([person.gains([]) for person in people])
        weights = 1.0 / np.maximum(1.0, np.sqrt((rows**2).sum(axis=1)))
        sets = itertools.combinations(range(people.n_items), learner.k)
        best = max(float(weights @ value_to_each(people, items)) for items in sets)
        return float(alpha * best - learner.run(people).rewards @ weights)

    return regret


def fractional_regret(constraint: Constraint) -> Callable[[Any, Any], float]:
    """(1 - 1/e)-regret of the points before rounding, which is what is certified under a knapsack."""

    def regret(learner: Any, people: Any) -> float:
        _, _, upper = best_fixed_set(people, constraint)
        earned = 0.0
        for person in people:
            learner.choose()
            earned += person.multilinear(learner.point)
            learner.learn(person)
        return float(ALPHA * upper * len(people) - earned)

    return regret


def subsets(n_items: int) -> Iterator[tuple[int, ...]]:
    return (s for size in range(n_items + 1) for s in itertools.combinations(range(n_items), size))


def cost_regret(learner: Any, people: Any) -> float:
    lowest = min(people.value(s) for s in subsets(people.n_items))
    return float(learner.run(people).total - len(people) * lowest)


def _against(chosen: Any) -> np.ndarray:
    """Prices that make ``chosen`` dear: its items cost something, all others pay."""
    prices = np.full(COSTED, -1.0 / COSTED)
    prices[list(chosen)] *= -1.0
    return prices


def _likely(learner: Any) -> tuple[int, ...]:
    """The items that are more likely than not in the set of this round, as its point says before the coin."""
    return tuple(int(item) for item in np.flatnonzero(learner.point > 0.5))


def adaptive_costs(learner: Any, rounds: int) -> float:
    """Against somebody who knows each round's point, not its coin: likely items cost, the others pay."""
    people = {s: prices_only(_against(s)[None, :])[0] for s in subsets(COSTED)}
    total, spent = np.zeros(COSTED), 0.0
    for _ in range(rounds):
        chosen, likely = list(learner.choose().items), _likely(learner)
        prices = _against(likely)
        spent, total = spent + float(prices[chosen].sum()), total + prices
        learner.learn(people[likely])
    return spent - float(np.minimum(total, 0.0).sum())


def adaptive_values(learner: Any, rounds: int) -> float:
    """The same for learners that see one number: beyond the empty set, named beforehand (it costs 0).

    The point of a batch is made of earlier batches, on which the certificate lets people depend.
    """
    spent = 0.0
    for _ in range(rounds):
        chosen = list(learner.choose().items)
        cost = float(_against(_likely(learner))[chosen].sum())
        spent += cost
        learner.learn(cost)
    return spent


def point_regret(learner: Any, people: Any) -> float:
    return float(learner.run(people).total - len(people) * people.best(learner.domain)[1])


def _unit(point: np.ndarray) -> np.ndarray:
    length = float(np.linalg.norm(point))
    return point / length if length > 1e-9 else np.eye(point.size)[0]


def adaptive_linear(learner: Any, rounds: int) -> float:
    """Against an adversary who always pushes the played point outwards: <c, w> with c along w."""
    total, spent = np.zeros(3), 0.0
    for _ in range(rounds):
        point = learner.choose()
        push = _unit(point)
        spent += float(push @ point)
        total += push
        learner.learn((lambda w, c=push: float(c @ w), lambda w, c=push: c))  # noqa: ARG005
    return spent + float(np.linalg.norm(total))


def adaptive_quadratic(learner: Any, rounds: int) -> float:
    """The same with curved costs: half the squared distance to the point opposite to the played one."""
    aims = np.empty((rounds, 3))
    spent = 0.0
    for t in range(rounds):
        point = learner.choose()
        aims[t] = -_unit(point)
        spent += float(((point - aims[t]) ** 2).sum() / 2.0)
        learner.learn((lambda w, a=aims[t]: float(((w - a) ** 2).sum() / 2.0), lambda w, a=aims[t]: w - a))
    return spent - float(((aims - aims.mean(axis=0)) ** 2).sum() / 2.0)


def adaptive_one_point(curved: bool) -> Callable[[Any, int], float]:
    """Against an adversary of somebody who sees only costs: pushes where the last round was played."""

    def regret(learner: Any, rounds: int) -> float:
        aims, spent, last = np.empty((rounds, 3)), 0.0, np.eye(3)[0]
        for t in range(rounds):
            point = learner.choose()
            aims[t] = -_unit(last)
            cost = ((point - aims[t]) ** 2).sum() / 2.0 if curved else -aims[t] @ point
            spent += float(cost)
            learner.learn(float(cost))
            last = point
        if curved:
            return spent - float(((aims - aims.mean(axis=0)) ** 2).sum() / 2.0)
        return spent + float(np.linalg.norm(aims.sum(axis=0)))

    return regret


def allocation_regret(learner: Any, people: Any) -> float:
    """(1 - 1/e)-regret over [0, 1]^d: the functions never fall, so the best point is the upper corner."""
    return ALPHA * len(people) * people.value(np.ones(3)) - float(learner.run(people).total)
