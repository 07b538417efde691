"""Every registered learner in its small settings, with the people it is made for: for the contract tests.

What people tell a learner is in its registry entry. A `Family` here says, for each of these, who comes, what
`learn` takes of them, what must be refused, and which decisions are allowed. A toy learner from `toy.py` is
registered as well, so that whatever holds for every learner is shown to hold for a new one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.evaluation.streams import cuts_and_prices
from discreet.objectives import (
    ConcaveOfLinear,
    Coverage,
    FacilityLocation,
    GraphCut,
    ProbabilisticCoverage,
    SetFunction,
)
from discreet.objectives.losses import Distance, Linear
from discreet.online.registry import REGISTRY, Example, register, selectors
from discreet.privacy.account import PublishedCalibrationWarning
from tests.online import toy
from tests.online.examples import EXAMPLES, N_ITEMS, ROUNDS, SIZE, K

# The library's own learners, and those with the toy, which all tests of learners read.
LIBRARY = dict(REGISTRY)
register(toy.ToySelector, "function", toy.AUDITS)
EXAMPLES["ToySelector"] = toy.EXAMPLES
WITH_TOY = dict(REGISTRY)


@dataclass(frozen=True)
class Family:
    """People of one kind.

    ``people(count)`` come, the same every time; ``feedback(learner, person, decision)`` is what `learn`
    takes of a person; ``bad(learner)`` must be refused; ``nothing(learner)`` is that of somebody who wants
    nothing; ``allowed(learner, decision)`` says whether it may be decided.
    """

    people: Callable[[int], Any]
    feedback: Callable[[Any, Any, Any], Any]
    bad: Callable[[Any], list[Any]]
    nothing: Callable[[Any], Any]
    allowed: Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Setting:
    """One learner and its people; ``make(seed=1, **more)`` makes it."""

    make: Callable[..., Any]
    people: Callable[[int], Any]
    feedback: Callable[[Any, Any, Any], Any]
    bad: Callable[[Any], list[Any]]
    nothing: Callable[[Any], Any]
    allowed: Callable[[Any, Any], bool]


def shown(decision: Any) -> tuple[float, ...]:
    """A decision as plain numbers, to compare."""
    return tuple(np.asarray(getattr(decision, "items", decision)).tolist())


def made(kind: type, *given: Any, **options: Any) -> Callable[..., Any]:
    """A way to make a learner with any seed; published constants do not say where they do not work."""

    def make(seed: Any = 1, **more: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            return kind(*given, seed=seed, **(options | more))

    return make


def people(kind: str = "coverage", count: int = ROUNDS, n_items: int = N_ITEMS) -> Any:
    """A small stream of one family, the same every time."""
    rng = np.random.default_rng(12)
    likes = (rng.random((count, n_items)) < 0.3).astype(float)
    chances = likes * rng.uniform(0.1, 0.9, likes.shape)
    if kind == "coverage":
        return Coverage(likes)
    if kind == "chances":
        return ProbabilisticCoverage(chances)
    if kind == "facility":
        return FacilityLocation(chances)
    functions = [_covers(row) for row in likes]
    return SetFunction(functions, n_items, 1.0, monotone=True)


def _covers(row):
    wanted = set(np.flatnonzero(row).tolist())
    return lambda items: float(bool(wanted & set(items)))


def _person(_, person, __):
    return person


def _nobody(_):
    return Coverage(np.zeros((1, N_ITEMS)))


def _k_items(learner, decision):
    items = decision.items
    distinct = len(set(items)) == len(items) and all(0 <= i < learner.n_items for i in items)
    # sets that explore may be short
    fewest = 1 if getattr(learner, "feedback", None) == "bandit" else learner.k
    return distinct and fewest <= len(items) <= learner.k


def _no_functions(_):
    return [
        people(n_items=5)[0],
        people()[:2],
        "somebody",
        None,
        0.5,
        math.nan,
        Coverage(np.ones((1, N_ITEMS))) * 3.0,
        GraphCut(np.zeros((N_ITEMS, N_ITEMS)), bound=1.0),
    ]


def _crowd(count):
    return people(count=count)


def _reward(learner, person, decision):
    """What a bandit learner sees of a person: what the set was worth, or what each of its items added."""
    items = decision.items
    if learner.feedback == "bandit":
        return person.value(items)
    values = [person.value(items[:i]) for i in range(len(items) + 1)]
    return np.maximum(np.diff(values), 0.0)


def _no_rewards(learner):
    always = ["a lot", math.nan, math.inf, -0.25, 1.5, people()[0], [0.1] * 9]
    return [*always, None, [0.5]] if learner.feedback == "bandit" else [*always, [0.5] * K, [0.1], N_ITEMS]


def _no_reward(learner):
    return 0.0 if learner.feedback == "bandit" else np.zeros(K)


def _gradients(count):
    rng = np.random.default_rng(5)
    weights = rng.random((count, N_ITEMS)) * np.linspace(0.2, 1.0, N_ITEMS)
    return ConcaveOfLinear(weights / weights.sum(axis=1, keepdims=True))


def _within(learner, decision):
    return len(set(decision.items)) == len(decision.items) and learner.constraint.contains(decision.items)


def _no_gradients(_):
    return ["somebody", None, 0.5, math.nan, _gradients(2), people(n_items=5)[0]]


def _flat(_):
    return ConcaveOfLinear(np.zeros((1, N_ITEMS)))


def _rows(count):
    rows = np.random.default_rng(3).normal(size=(count, SIZE))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def distances(count: int = ROUNDS) -> Distance:
    return Distance(_rows(count) / 3.0)


def linear_costs(count: int = ROUNDS) -> Linear:
    return Linear(_rows(count) / 2.0, row_norm=1.0)


def _no_losses(learner):
    bad = ["somebody", None, math.nan, 3.0, distances()[:2], Distance([[0.0] * 5])]
    bad += [(lambda _: 0.0, lambda _: [math.nan] * SIZE), (lambda _: 0.0, lambda _: [1.0, 2.0])]
    if not learner.clip:
        bad += [(lambda _: 0.0, lambda _: [50.0] * SIZE), Distance([[40.0] * SIZE], row_norm=100.0)]
    return bad


def _no_costs(learner):
    return [
        "somebody",
        None,
        math.nan,
        math.inf,
        learner.high + 0.5,
        learner.low - 2.5,
        [1.0, 2.0],
        distances()[0],
    ]


def _indifferent(_):
    return (lambda _: 0.0), (lambda _: np.zeros(SIZE))


def _cost(_, person, point):
    return person.value(point)


def _middle(learner):
    return (learner.low + learner.high) / 2.0


def _in_domain(learner, point):
    return bool(learner.domain.contains(point))


CUTS = cuts_and_prices(700, 4, np.random.default_rng(0))


def _no_cuts(_):
    wide = GraphCut(np.ones((4, 4)), modular=np.ones(4), bound=50)
    broken = SetFunction(lambda _: math.nan, 4, bound=1.0)
    return [None, 0.5, "somebody", CUTS[:2], cuts_and_prices(1, 5, np.random.default_rng(0)), wide, broken]


def _no_set_costs(_):
    return [math.nan, 1.01, -1.01, "somebody", math.inf, None, CUTS[0]]


def _free(_):
    return SetFunction(lambda _: 0.0, 4, bound=1.0)


def _set_cost(_, person, decision):
    return person.value(decision.items)


def _any_set(learner, decision):
    if not all(0.0 <= chance <= 1.0 for chance in learner.point):
        return False
    return len(set(decision.items)) == len(decision.items) and all(0 <= i < 4 for i in decision.items)


def _chosen(learner, decision):
    return _within(learner, decision) if hasattr(learner, "constraint") else _k_items(learner, decision)


def _in_polytope(learner, point):
    domain = learner.domain
    return bool(domain.contains(point) if hasattr(domain, "dimension") else domain.in_polytope(point))


FAMILIES = {
    "function": Family(_crowd, _person, _no_functions, _nobody, _chosen),
    "reward": Family(_crowd, _reward, _no_rewards, _no_reward, _k_items),
    "dr_function": Family(_gradients, _person, _no_gradients, _flat, _in_polytope),
    "loss": Family(distances, _person, _no_losses, _indifferent, _in_domain),
    "cost_vector": Family(linear_costs, _person, _no_losses, _indifferent, _in_domain),
    "cost": Family(distances, _cost, _no_costs, _middle, _in_domain),
    "set_cost": Family(lambda count: CUTS[:count], _person, _no_cuts, _free, _any_set),
    "shown_set_cost": Family(lambda count: CUTS[:count], _set_cost, _no_set_costs, lambda _: 0.0, _any_set),
}


def _setting(name: str, example: Example) -> Setting:
    entry = REGISTRY[name]
    family = FAMILIES[entry.learns_from]

    def make(seed: Any = 1, **more: Any) -> Any:
        """Published constants do not say where they do not work."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            return example.make(entry.kind(name), seed, **more)

    return Setting(make, family.people, family.feedback, family.bad, family.nothing, family.allowed)


def settings_of(*names: str) -> dict[str, Setting]:
    """The small settings of some learners, by their words."""
    return {words: _setting(name, example) for name in names for words, example in EXAMPLES[name].items()}


EVERYBODY = settings_of(*REGISTRY)
SELECTORS = settings_of(*selectors())
LEADERS = settings_of("ApproximateLeader", "LinearLeader")
BANDIT_LEADERS = settings_of("BanditApproximateLeader")
MINIMIZERS = settings_of("SubmodularMinimizer", "BanditSubmodularMinimizer")
FRANK_WOLFE_SETS, FRANK_WOLFE_POINTS = settings_of("MetaFrankWolfe"), settings_of("MetaFrankWolfePoints")
