"""Every online learner, in several settings, with the people it is made for: for the contract tests.

A `Setting` says how to make a learner, who comes to it, what it is told of somebody, what it must refuse and
which decisions are allowed. A learner that the library exports and that has no setting here fails the tests.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import discreet as dc
from discreet import constraints as c
from discreet.constraints.domains import Ball, Box, CappedSimplex, Simplex
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
from discreet.online import (
    ApproximateLeader,
    BanditApproximateLeader,
    BanditSelector,
    BanditSubmodularMinimizer,
    HedgeSelector,
    LinearLeader,
    MetaFrankWolfe,
    PhasedSelector,
    RunningSumSelector,
    SubmodularMinimizer,
)
from discreet.privacy.published import PublishedCalibrationWarning

N_ITEMS, K, ROUNDS, SIZE = 7, 3, 30, 3
APPROXIMATE, PURE, FREE = dc.Budget(1.0, 1e-6), dc.Budget(1.0), dc.Budget(math.inf)
TWICE, PURE_TWICE = dc.Budget(1.0, 1e-6, "add_remove", 2), dc.Budget(1.0, 0.0, "add_remove", 2)
BLOCKS = c.PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], 1)
COSTS = np.array([0.2, 0.5, 0.4, 0.9, 0.3, 0.6, 0.35])


@dataclass(frozen=True)
class Setting:
    """One learner and its people.

    ``make(seed=1, **more)`` makes it; ``people(count)`` come, the same every time; ``told(learner, person,
    decision)`` is what `learn` takes of a person; ``bad(learner)`` must be refused; ``nothing(learner)`` is
    what somebody tells who wants nothing; ``allowed(learner, decision)`` says whether it may be decided.
    """

    make: Callable[..., Any]
    people: Callable[[int], Any]
    told: Callable[[Any, Any, Any], Any]
    bad: Callable[[Any], list[Any]]
    nothing: Callable[[Any], Any]
    allowed: Callable[[Any, Any], bool]


def made(kind: type, *given: Any, **options: Any) -> Callable[..., Any]:
    """A way to make a learner with any seed; published constants do not say where they do not work."""

    def make(seed: Any = 1, **more: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            return kind(*given, seed=seed, **(options | more))

    return make


def shown(decision: Any) -> tuple[float, ...]:
    """A decision as plain numbers, to compare."""
    return tuple(np.asarray(getattr(decision, "items", decision)).tolist())


# --- learners of k items from people's functions -----------------------------------------------------


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
    fewest = 1 if getattr(learner, "feedback", None) == "set" else learner.k
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


def _selector(kind, *given, **options):
    return Setting(made(kind, *given, **options), _crowd, _person, _no_functions, _nobody, _k_items)


def _crowd(count):
    return people(count=count)


def _hedge(budget=APPROXIMATE, **options):
    return _selector(HedgeSelector, N_ITEMS, K, ROUNDS, budget=budget, **options)


def _running(budget=APPROXIMATE, **options):
    return _selector(RunningSumSelector, N_ITEMS, K, ROUNDS, budget=budget, **options)


def _phased(budget=APPROXIMATE, **options):
    return _selector(PhasedSelector, N_ITEMS, K, budget=budget, **options)


def _reward(learner, person, decision):
    """What a bandit learner sees of a person: what the set was worth, or what each of its items added."""
    items = decision.items
    if learner.feedback == "set":
        return person.value(items)
    values = [person.value(items[:i]) for i in range(len(items) + 1)]
    return np.maximum(np.diff(values), 0.0)


def _no_rewards(learner):
    always = ["a lot", math.nan, math.inf, -0.25, 1.5, people()[0], [0.1] * 9]
    return [*always, None, [0.5]] if learner.feedback == "set" else [*always, [0.5] * K, [0.1], N_ITEMS]


def _no_reward(learner):
    return 0.0 if learner.feedback == "set" else np.zeros(K)


def _bandit(budget=PURE, **options):
    make = made(BanditSelector, N_ITEMS, K, ROUNDS, budget=budget, **options)
    return Setting(make, _crowd, _reward, _no_rewards, _no_reward, _k_items)


SELECTORS = {
    "bandit, blocks": _bandit(block=10, repeats=2),
    "bandit, blocks as they come": _bandit(),
    "bandit, blocks, fixed rate, two rounds each": _bandit(PURE_TWICE, block=6, repeats=1, rate=0.5),
    "bandit, blocks, not private": _bandit(FREE, block=7),
    "bandit, online": _bandit(APPROXIMATE, exploration="online", exploration_rate=0.5),
    "bandit, online, published": _bandit(APPROXIMATE, exploration="online", calibration="published"),
    "bandit, presampled": _bandit(APPROXIMATE, exploration="presampled", block=4),
    "bandit, presampled, published": _bandit(APPROXIMATE, exploration="presampled", calibration="published"),
    "bandit, every round": _bandit(
        dc.Budget(1.0, 1e-6, "add_remove"), exploration="every_round", exploration_rate=0.3
    ),
    "bandit, every round, not private": _bandit(FREE, exploration="every_round"),
    "bandit, slots": _bandit(feedback="slots", block=4),
    "bandit, slots, two rounds each": _bandit(PURE_TWICE, feedback="slots", block=5),
    "bandit, slots, not private": _bandit(FREE, feedback="slots", block=3),
    "hedge, tight": _hedge(),
    "hedge, published": _hedge(calibration="published"),
    "hedge, batches": _hedge(resample_every=4),
    "hedge, automatic batch": _hedge(resample_every="auto"),
    "hedge, pure, two rounds each": _hedge(PURE_TWICE),
    "hedge, not private": _hedge(FREE),
    "phased, doubling": _phased(first_window=2),
    "phased, fixed windows": _phased(window=7),
    "phased, pure, two rounds each": _phased(PURE_TWICE, window=5),
    "phased, drift": _phased(first_window=3, restart_on_drift=True),
    "phased, not private": _phased(FREE, window=6),
    "running sum, sqrt": _running(),
    "running sum, capped, batches": _running(items_per_person=2, resample_every=4),
    "running sum, blt": _running(sums="blt", resample_every=7),
    "running sum, tree": _running(sums="tree"),
    "running sum, Laplace tree": _running(PURE, sums="tree", noise="laplace"),
    "running sum, two rounds each": _running(TWICE),
    "running sum, one batch": _running(resample_every=ROUNDS),
    "running sum, not private": _running(FREE),
    "running sum, capped, not private": _running(FREE, items_per_person=1, rate=5.0),
}


# --- Meta-Frank-Wolfe: sets within constraints, and points -------------------------------------------


def _slopes(count):
    rng = np.random.default_rng(5)
    weights = rng.random((count, N_ITEMS)) * np.linspace(0.2, 1.0, N_ITEMS)
    return ConcaveOfLinear(weights / weights.sum(axis=1, keepdims=True))


def _within(learner, decision):
    return len(set(decision.items)) == len(decision.items) and learner.constraint.contains(decision.items)


def _sets(constraint=BLOCKS, budget=APPROXIMATE, **options):
    make = made(MetaFrankWolfe, constraint, ROUNDS, budget=budget, **({"steps": 3} | options))
    return Setting(make, _crowd, _person, _no_functions, _nobody, _within)


def _no_slopes(_):
    return ["somebody", None, 0.5, math.nan, _slopes(2), people(n_items=5)[0]]


def _flat(_):
    return ConcaveOfLinear(np.zeros((1, N_ITEMS)))


def _in_domain(learner, point):
    return bool(learner.domain.contains(point))


def _in_box(_, point):
    return bool((point >= -1e-9).all() and (point <= 1.0 + 1e-9).all())


def _in_blocks(_, point):
    sums = [point[:3].sum(), point[3:5].sum(), point[5:].sum()]
    return bool((point >= -1e-9).all()) and max(sums) <= 1.0 + 1e-6


def _points(constraint=None, budget=APPROXIMATE, **options):
    where = Box(np.zeros(N_ITEMS), np.ones(N_ITEMS)) if constraint is None else constraint
    settings = {"experts": "pftal", "steps": 3, "gradient_bound": 1.0} | options
    make = made(MetaFrankWolfe, where, ROUNDS, budget=budget, **settings)
    return Setting(make, _slopes, _person, _no_slopes, _flat, _in_box if constraint is None else _in_blocks)


FRANK_WOLFE_SETS = {
    "frank-wolfe, partition": _sets(),
    "frank-wolfe, cardinality, capped, batches": _sets(
        c.Cardinality(3), n_items=N_ITEMS, items_per_person=2, resample_every=4
    ),
    "frank-wolfe, knapsack": _sets(c.Knapsack(COSTS, 1.0)),
    "frank-wolfe, curvature, blt": _sets(curvature=True, sums="blt"),
    "frank-wolfe, tree": _sets(sums="tree", resample_every=3),
    "frank-wolfe, pure": _sets(budget=PURE),
    "frank-wolfe, pure, two rounds each": _sets(budget=PURE_TWICE, resample_every=2),
    "frank-wolfe, euclidean": _sets(regularizer="euclidean"),
    "frank-wolfe, automatic": _sets(steps="auto", resample_every="auto"),
    "frank-wolfe, one batch": _sets(resample_every=ROUNDS),
    "frank-wolfe, not private": _sets(budget=FREE),
}
FRANK_WOLFE_POINTS = {
    "frank-wolfe, box": _points(),
    "frank-wolfe, box, batches": _points(resample_every=4),
    "frank-wolfe, box, pure": _points(budget=PURE),
    "frank-wolfe, polytope": _points(BLOCKS),
    "frank-wolfe, box, automatic": _points(steps="auto", smoothness=1.0),
    "frank-wolfe, box, not private": _points(budget=FREE),
}
FRANK_WOLFE = FRANK_WOLFE_SETS | FRANK_WOLFE_POINTS


# --- learners of points --------------------------------------------------------------------------------


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


def _leader(budget=APPROXIMATE, domain=None, **options):
    where = Ball(SIZE, 1.0) if domain is None else domain
    make = made(ApproximateLeader, where, budget=budget, **({"lipschitz": 2.0, "rounds": ROUNDS} | options))
    return Setting(make, distances, _person, _no_losses, _indifferent, _in_domain)


def _linear(budget=APPROXIMATE, domain=None, **options):
    where = Simplex(SIZE) if domain is None else domain
    make = made(LinearLeader, where, budget=budget, **({"box": (-1.0, 1.0), "rounds": ROUNDS} | options))
    return Setting(make, linear_costs, _person, _no_losses, _indifferent, _in_domain)


def _one_point(budget=PURE, domain=None, **options):
    where = Ball(SIZE, 1.0) if domain is None else domain
    options = {"lipschitz": 2.0, "bound": (0.0, 2.0), "rounds": ROUNDS} | options
    if "calibration" not in options:
        options = {"exploration_radius": 0.2 * where.inner_radius} | options
    make = made(BanditApproximateLeader, where, budget=budget, **options)
    return Setting(make, distances, _cost, _no_costs, _middle, _in_domain)


LEADERS = {
    "leader": _leader(),
    "leader, curved": _leader(strong_convexity=1.0, regularization=0.0),
    "leader, buffered, optimistic": _leader(sums="blt", regularization="optimistic"),
    "leader, tree, box": _leader(sums="tree", domain=Box([-1.0] * SIZE, [0.5] * SIZE)),
    "leader, pure": _leader(PURE, strong_convexity=1.0),
    "leader, Laplace tree": _leader(PURE, sums="laplace tree", domain=CappedSimplex(SIZE, 2)),
    "leader, two rounds each, clipping": _leader(TWICE, lipschitz=0.3, clip=True),
    "leader, published": _leader(PURE, calibration="published"),
    "leader, published, curved": _leader(PURE, calibration="published", strong_convexity=1.0),
    "leader, not private": _leader(FREE),
    "linear, experts": _linear(),
    "linear, experts, pure": _linear(PURE),
    "linear, experts, tree": _linear(sums="tree"),
    "linear, ball, pure": _linear(PURE, Ball(SIZE), box=None, lipschitz=2.0),
    "linear, box": _linear(domain=Box([0.0] * SIZE, [1.0] * SIZE), lipschitz=2.0),
    "linear, published": _linear(PURE, calibration="published"),
    "linear, two rounds each, clipping": _linear(TWICE, box=(-0.2, 0.2), clip=True),
    "linear, not private": _linear(FREE),
}
BANDIT_LEADERS = {
    "one point": _one_point(),
    "one point, batches": _one_point(batch=4, strong_convexity=1.0),
    "one point, adaptive": _one_point(adversary="adaptive"),
    "one point, experts": _one_point(domain=Simplex(SIZE)),
    "one point, two rounds each": _one_point(PURE_TWICE, batch=3),
    "one point, published": _one_point(calibration="published"),
    "one point, published, adaptive": _one_point(
        calibration="published", adversary="adaptive", strong_convexity=1.0
    ),
    "one point, not private": _one_point(FREE),
}


# --- learners of sets that cost little -------------------------------------------------------------------

CUTS = cuts_and_prices(700, 4, np.random.default_rng(0))


def _no_cuts(_):
    wide = GraphCut(np.ones((4, 4)), modular=np.ones(4), bound=50)
    broken = SetFunction(lambda _: math.nan, 4, bound=1.0)
    return [None, 0.5, "somebody", CUTS[:2], cuts_and_prices(1, 5, np.random.default_rng(0)), wide, broken]


def _no_prices(_):
    return [math.nan, 1.01, -1.01, "somebody", math.inf, None, CUTS[0]]


def _free(_):
    return SetFunction(lambda _: 0.0, 4, bound=1.0)


def _price(_, person, decision):
    return person.value(decision.items)


def _any_set(learner, decision):
    if not all(0.0 <= chance <= 1.0 for chance in learner.point):
        return False
    return len(set(decision.items)) == len(decision.items) and all(0 <= i < 4 for i in decision.items)


def _minimizer(budget=APPROXIMATE, **options):
    make = made(SubmodularMinimizer, 4, budget=budget, **({"rounds": ROUNDS} | options))
    return Setting(make, lambda count: CUTS[:count], _person, _no_cuts, _free, _any_set)


def _bandit_minimizer(budget=APPROXIMATE, **options):
    make = made(BanditSubmodularMinimizer, 4, budget=budget, **({"rounds": ROUNDS} | options))
    return Setting(make, lambda count: CUTS[:count], _price, _no_prices, lambda _: 0.0, _any_set)


MINIMIZERS = {
    "minimizer, sqrt": _minimizer(),
    "minimizer, blt": _minimizer(sums="blt"),
    "minimizer, tree": _minimizer(sums="tree"),
    "minimizer, Laplace tree": _minimizer(PURE, sums="tree", noise="laplace"),
    "minimizer, spherical tree": _minimizer(PURE, sums="tree", noise="spherical"),
    "minimizer, two rounds each": _minimizer(TWICE),
    "minimizer, published": _minimizer(PURE, calibration="published"),
    "minimizer, not private": _minimizer(FREE),
    "bandit minimizer, values": _bandit_minimizer(exploration=0.5, batch=4),
    "bandit minimizer, two rounds each": _bandit_minimizer(PURE_TWICE, exploration=0.5, batch=5),
    "bandit minimizer, estimates": _bandit_minimizer(form="tree", exploration=0.5),
    "bandit minimizer, estimates, two rounds each": _bandit_minimizer(TWICE, form="tree", exploration=0.5),
    "bandit minimizer, published": _bandit_minimizer(calibration="published", rounds=600),
    "bandit minimizer, not private": _bandit_minimizer(FREE, exploration=0.5),
}
EVERYBODY = SELECTORS | FRANK_WOLFE | LEADERS | BANDIT_LEADERS | MINIMIZERS
