"""Small settings of every learner, by name: what the contract tests run and whose numbers are stored."""

from __future__ import annotations

import math
from typing import Any

from ..constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from ..constraints.domains import Ball, Box, CappedSimplex, Domain, Simplex
from ..privacy import Budget
from .registry import Example

N_ITEMS, K, ROUNDS, SIZE = 7, 3, 30, 3
APPROXIMATE, PURE, FREE = Budget(1.0, 1e-6), Budget(1.0), Budget(math.inf)
TWICE, PURE_TWICE = Budget(1.0, 1e-6, "add_remove", 2), Budget(1.0, 0.0, "add_remove", 2)
BLOCKS = PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], 1)
COSTS = (0.2, 0.5, 0.4, 0.9, 0.3, 0.6, 0.35)


def _hedge(budget: Budget = APPROXIMATE, **options: Any) -> Example:
    return Example((N_ITEMS, K, ROUNDS), budget, options)


def hedge_examples() -> dict[str, Example]:
    return {
        "hedge, tight": _hedge(),
        "hedge, published": _hedge(calibration="published"),
        "hedge, batches": _hedge(resample_every=4),
        "hedge, automatic batch": _hedge(resample_every="auto"),
        "hedge, composed exactly": _hedge(composition="exact", resample_every=4),
        "hedge, pure, two rounds each": _hedge(PURE_TWICE),
        "hedge, not private": _hedge(FREE),
    }


def phased_examples() -> dict[str, Example]:
    shape = (N_ITEMS, K)
    return {
        "phased, doubling": Example(shape, APPROXIMATE, {"first_window": 2}),
        "phased, fixed windows": Example(shape, APPROXIMATE, {"window": 7}),
        "phased, composed": Example(shape, APPROXIMATE, {"window": 7, "method": "composed"}),
        "phased, composed exactly": Example(shape, APPROXIMATE, {"window": 7, "method": "exact"}),
        "phased, pure, two rounds each": Example(shape, PURE_TWICE, {"window": 5}),
        "phased, drift": Example(shape, APPROXIMATE, {"first_window": 3, "restart_on_drift": True}),
        "phased, not private": Example(shape, FREE, {"window": 6}),
    }


def leader_examples() -> dict[str, Example]:
    few: dict[str, Any] = {"batch": 4}
    two_of_each = PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], 2)
    return {
        "leader selector": _hedge(),
        "leader selector, batches": _hedge(**few),
        "leader selector, partition": _hedge(constraint=BLOCKS, first_batch=2),
        "leader selector, fewer than fit": _hedge(constraint=two_of_each, sums="blt"),
        "leader selector, tree, two rounds each": _hedge(TWICE, sums="tree", **few),
        "leader selector, endless": Example((N_ITEMS, K, None), APPROXIMATE, {"first_batch": 3}),
        "leader selector, one batch": _hedge(batch=ROUNDS),
        "leader selector, not private": _hedge(FREE, **few),
    }


def best_of_both_examples() -> dict[str, Example]:
    return {
        "best of both": _hedge(),
        "best of both, batches, not weighted": _hedge(resample_every=4, weights=None),
        "best of both, tree, two rounds each": _hedge(TWICE, sums="tree"),
        "best of both, one batch": _hedge(resample_every=ROUNDS),
        "best of both, endless": Example((N_ITEMS, K, None), APPROXIMATE, {"first_batch": 3}),
        "best of both, not private": _hedge(FREE, resample_every=4),
    }


def running_sums_examples() -> dict[str, Example]:
    return {
        "running sum, sqrt": _hedge(),
        "running sum, capped, batches": _hedge(items_per_person=2, resample_every=4),
        "running sum, blt": _hedge(sums="blt", resample_every=7),
        "running sum, tree": _hedge(sums="tree"),
        "running sum, Laplace tree": _hedge(PURE, sums="tree", noise="laplace"),
        "running sum, two rounds each": _hedge(TWICE),
        "running sum, one batch": _hedge(resample_every=ROUNDS),
        "running sum, endless": Example((N_ITEMS, K, None), APPROXIMATE, {"first_batch": 3}),
        "running sum, not private": _hedge(FREE),
        "running sum, weighted": _hedge(weights="norm"),
        "running sum, falling, weighted, batches": _hedge(rate="falling", weights="norm", resample_every=4),
        "running sum, falling, tree, two rounds each": _hedge(TWICE, rate="falling", sums="tree"),
        "running sum, capped, not private": _hedge(FREE, items_per_person=1, rate=5.0),
    }


def bandit_examples() -> dict[str, Example]:
    def of(budget: Budget = PURE, **options: Any) -> Example:
        return Example((N_ITEMS, K, ROUNDS), budget, options)

    alone = Budget(1.0, 1e-6, "add_remove")
    return {
        "bandit, blocks": of(block=10, repeats=2),
        "bandit, blocks as they come": of(),
        "bandit, blocks, fixed rate, two rounds each": of(PURE_TWICE, block=6, repeats=1, rate=0.5),
        "bandit, blocks, not private": of(FREE, block=7),
        "bandit, online": of(APPROXIMATE, exploration="online", exploration_rate=0.5),
        "bandit, online, published": of(APPROXIMATE, exploration="online", calibration="published"),
        "bandit, presampled": of(APPROXIMATE, exploration="presampled", block=4),
        "bandit, presampled, published": of(APPROXIMATE, exploration="presampled", calibration="published"),
        "bandit, every round": of(alone, exploration="every_round", exploration_rate=0.3),
        "bandit, every round, not private": of(FREE, exploration="every_round"),
        "bandit, slots": of(feedback="slots", block=4),
        "bandit, slots, two rounds each": of(PURE_TWICE, feedback="slots", block=5),
        "bandit, slots, not private": of(FREE, feedback="slots", block=3),
    }


def thompson_examples() -> dict[str, Example]:
    def of(budget: Budget = PURE, rounds: int | None = ROUNDS, **options: Any) -> Example:
        return Example((N_ITEMS, K, rounds), budget, {"block": 2} | options)

    return {
        "thompson, sets": of(),
        "thompson, sets, any number of rounds": of(rounds=None),
        "thompson, sets, forgetful, two rounds each": of(PURE_TWICE, forget=0.1),
        "thompson, sets, not private": of(FREE),
        "thompson, slots": of(feedback="slots"),
        "thompson, slots, two rounds each": of(PURE_TWICE, feedback="slots", block=3),
        "thompson, slots, not private": of(FREE, feedback="slots", forget=0.1),
    }


def frank_wolfe_examples() -> dict[str, Example]:
    def of(constraint: Constraint = BLOCKS, budget: Budget = APPROXIMATE, **options: Any) -> Example:
        return Example((constraint, ROUNDS), budget, {"steps": 3} | options)

    few: dict[str, Any] = {"items_per_person": 2, "resample_every": 4}
    return {
        "frank-wolfe, partition": of(),
        "frank-wolfe, cardinality, capped, batches": of(Cardinality(3).over(N_ITEMS), **few),
        "frank-wolfe, knapsack": of(Knapsack(COSTS, 1.0)),
        "frank-wolfe, curvature, blt": of(curvature=True, sums="blt"),
        "frank-wolfe, tree": of(sums="tree", resample_every=3),
        "frank-wolfe, pure": of(budget=PURE),
        "frank-wolfe, pure, two rounds each": of(budget=PURE_TWICE, resample_every=2),
        "frank-wolfe, euclidean": of(regularizer="euclidean"),
        "frank-wolfe, automatic": of(steps="auto", resample_every="auto"),
        "frank-wolfe, one batch": of(resample_every=ROUNDS),
        "frank-wolfe, not private": of(budget=FREE),
    }


def frank_wolfe_points_examples() -> dict[str, Example]:
    box = Box([0.0] * N_ITEMS, [1.0] * N_ITEMS)

    def of(domain: Any = box, budget: Budget = APPROXIMATE, **options: Any) -> Example:
        return Example((domain, ROUNDS), budget, {"steps": 3, "gradient_bound": 1.0} | options)

    return {
        "frank-wolfe, box": of(),
        "frank-wolfe, box, batches": of(resample_every=4),
        "frank-wolfe, box, pure": of(budget=PURE),
        "frank-wolfe, polytope": of(BLOCKS),
        "frank-wolfe, box, automatic": of(steps="auto", smoothness=1.0),
        "frank-wolfe, box, not private": of(budget=FREE),
    }


def approximate_leader_examples() -> dict[str, Example]:
    def of(budget: Budget = APPROXIMATE, domain: Domain | None = None, **options: Any) -> Example:
        where = Ball(SIZE, 1.0) if domain is None else domain
        return Example((where, ROUNDS), budget, {"lipschitz": 2.0} | options)

    half = Box([-1.0] * SIZE, [0.5] * SIZE)
    return {
        "leader": of(),
        "leader, curved": of(strong_convexity=1.0, regularization=0.0),
        "leader, buffered, optimistic": of(sums="blt", regularization="optimistic"),
        "leader, tree, box": of(sums="tree", domain=half),
        "leader, pure": of(PURE, strong_convexity=1.0),
        "leader, Laplace tree": of(PURE, CappedSimplex(SIZE, 2), sums="tree", noise="laplace"),
        "leader, two rounds each, clipping": of(TWICE, lipschitz=0.3, clip=True),
        "leader, published": of(PURE, calibration="published"),
        "leader, published, curved": of(PURE, calibration="published", strong_convexity=1.0),
        "leader, not private": of(FREE),
    }


def linear_leader_examples() -> dict[str, Example]:
    def of(budget: Budget = APPROXIMATE, domain: Domain | None = None, **options: Any) -> Example:
        where = Simplex(SIZE) if domain is None else domain
        return Example((where, ROUNDS), budget, {"box": (-1.0, 1.0)} | options)

    return {
        "linear, experts": of(),
        "linear, experts, pure": of(PURE),
        "linear, experts, tree": of(sums="tree"),
        "linear, ball, pure": of(PURE, Ball(SIZE), box=None, lipschitz=2.0),
        "linear, box": of(domain=Box([0.0] * SIZE, [1.0] * SIZE), lipschitz=2.0),
        "linear, published": of(PURE, calibration="published"),
        "linear, two rounds each, clipping": of(TWICE, box=(-0.2, 0.2), clip=True),
        "linear, not private": of(FREE),
    }


def bandit_leader_examples() -> dict[str, Example]:
    def of(budget: Budget = PURE, domain: Domain | None = None, **options: Any) -> Example:
        where = Ball(SIZE, 1.0) if domain is None else domain
        if "calibration" not in options:
            options = {"exploration_radius": 0.2 * where.inner_radius} | options
        return Example((where, ROUNDS), budget, {"lipschitz": 2.0, "bound": (0.0, 2.0)} | options)

    adaptive: dict[str, Any] = {"adversary": "adaptive", "strong_convexity": 1.0}
    return {
        "one point": of(),
        "one point, batches": of(batch=4, strong_convexity=1.0),
        "one point, adaptive": of(adversary="adaptive"),
        "one point, experts": of(domain=Simplex(SIZE)),
        "one point, two rounds each": of(PURE_TWICE, batch=3),
        "one point, published": of(calibration="published"),
        "one point, published, adaptive": of(calibration="published", **adaptive),
        "one point, not private": of(FREE),
    }


def minimizer_examples() -> dict[str, Example]:
    def of(budget: Budget = APPROXIMATE, **options: Any) -> Example:
        return Example((4, ROUNDS), budget, options)

    return {
        "minimizer, sqrt": of(),
        "minimizer, blt": of(sums="blt"),
        "minimizer, tree": of(sums="tree"),
        "minimizer, Laplace tree": of(PURE, sums="tree", noise="laplace"),
        "minimizer, spherical tree": of(PURE, sums="tree", noise="spherical"),
        "minimizer, optimistic": of(regularization="optimistic"),
        "minimizer, two rounds each": of(TWICE),
        "minimizer, published": of(PURE, calibration="published"),
        "minimizer, not private": of(FREE),
    }


def bandit_minimizer_examples() -> dict[str, Example]:
    def of(budget: Budget = APPROXIMATE, rounds: int = ROUNDS, **options: Any) -> Example:
        return Example((4, rounds), budget, options)

    half: dict[str, Any] = {"exploration_rate": 0.5}
    return {
        "bandit minimizer, values": of(batch=4, **half),
        "bandit minimizer, optimistic": of(batch=4, regularization="optimistic", **half),
        "bandit minimizer, two rounds each": of(PURE_TWICE, batch=5, **half),
        "bandit minimizer, estimates": of(form="tree", **half),
        "bandit minimizer, estimates, two rounds each": of(TWICE, form="tree", **half),
        "bandit minimizer, thompson": of(batch=2, form="thompson"),
        "bandit minimizer, thompson, two rounds each": of(PURE_TWICE, batch=1, form="thompson"),
        "bandit minimizer, thompson, not private": of(FREE, batch=2, form="thompson"),
        "bandit minimizer, published": of(rounds=600, calibration="published"),
        "bandit minimizer, not private": of(FREE, **half),
    }
