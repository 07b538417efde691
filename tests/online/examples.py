"""Small settings of every learner: those that the contract tests run, and whose numbers are stored."""

from __future__ import annotations

import math
from typing import Any

from discreet.constraints import Cardinality, Knapsack, PartitionMatroid
from discreet.constraints.domains import Ball, Box, CappedSimplex, Simplex
from discreet.online.registry import Example
from discreet.privacy import Budget

N_ITEMS, K, ROUNDS, SIZE = 7, 3, 30, 3
APPROXIMATE, PURE, FREE = Budget(1.0, 1e-6), Budget(1.0), Budget(math.inf)
TWICE, PURE_TWICE = Budget(1.0, 1e-6, "add_remove", 2), Budget(1.0, 0.0, "add_remove", 2)
BLOCKS = PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], 1)
TWO_OF_EACH = PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], 2)
COSTS = (0.2, 0.5, 0.4, 0.9, 0.3, 0.6, 0.35)
SETS, ENDLESS = (N_ITEMS, K, ROUNDS), (N_ITEMS, K, None)
BALL, UNIT_BOX = Ball(SIZE, 1.0), Box([0.0] * N_ITEMS, [1.0] * N_ITEMS)


Rows = dict[str, dict[str, Any]]


def _named(
    name: str, arguments: tuple[Any, ...], budget: Budget, rows: Rows, **common: Any
) -> dict[str, Example]:
    """Settings by name. A row has options beside the ``common`` ones, ``budget`` and ``arguments`` others."""
    found = {}
    for words, row in rows.items():
        options = common | row
        given, spent = options.pop("arguments", arguments), options.pop("budget", budget)
        found[", ".join(filter(None, (name, words)))] = Example(given, spent, options)
    return found


PUBLISHED: dict[str, Any] = {"calibration": "published"}
EXAMPLES: dict[str, dict[str, Example]] = {
    "HedgeSelector": _named(
        "hedge", SETS, APPROXIMATE, {
            "tight": {},
            "published": PUBLISHED,
            "batches": {"resample_every": 4},
            "automatic batch": {"resample_every": "auto"},
            "composed exactly": {"composition": "exact", "resample_every": 4},
            "pure, two rounds each": {"budget": PURE_TWICE},
            "not private": {"budget": FREE},
        }
    ),
    "PhasedSelector": _named(
        "phased", (N_ITEMS, K), APPROXIMATE, {
            "doubling": {"first_window": 2},
            "fixed windows": {"window": 7},
            "composed": {"window": 7, "method": "composed"},
            "composed exactly": {"window": 7, "method": "exact"},
            "pure, two rounds each": {"budget": PURE_TWICE, "window": 5},
            "drift": {"first_window": 3, "restart_on_drift": True},
            "not private": {"budget": FREE, "window": 6},
        }
    ),
    "RollingSelector": _named(
        "rolling", (N_ITEMS, K), PURE, {
            "": {"first_window": 2},
            "with a delta": {"budget": APPROXIMATE, "first_window": 4},
            "two rounds each": {"budget": PURE_TWICE, "first_window": 3},
            "not private": {"budget": FREE},
        }
    ),
    "LeaderSelector": _named(
        "leader selector", SETS, APPROXIMATE, {
            "": {},
            "batches": {"batch": 4},
            "partition": {"constraint": BLOCKS, "first_batch": 2},
            "fewer than fit": {"constraint": TWO_OF_EACH, "sums": "blt"},
            "tree, two rounds each": {"budget": TWICE, "sums": "tree", "batch": 4},
            "endless": {"arguments": ENDLESS, "first_batch": 3},
            "one batch": {"batch": ROUNDS},
            "not private": {"budget": FREE, "batch": 4},
        }
    ),
    "PersonalSelector": _named(
        "personal selector", SETS, APPROXIMATE, {
            "": {"first_batch": 4},
            "automatic": {},
            "tree, two rounds each": {"budget": TWICE, "sums": "tree", "first_batch": 4},
            "endless": {"arguments": ENDLESS, "first_batch": 3},
            "one batch": {"first_batch": ROUNDS},
            "not private": {"budget": FREE, "first_batch": 4},
        }
    ),
    "BestOfBothSelector": _named(
        "best of both", SETS, APPROXIMATE, {
            "": {},
            "batches, not weighted": {"resample_every": 4, "weights": None},
            "tree, two rounds each": {"budget": TWICE, "sums": "tree"},
            "one batch": {"resample_every": ROUNDS},
            "endless": {"arguments": ENDLESS, "first_batch": 3},
            "not private": {"budget": FREE, "resample_every": 4},
        }
    ),
    "RunningSumSelector": _named(
        "running sum", SETS, APPROXIMATE, {
            "sqrt": {},
            "capped, batches": {"items_per_person": 2, "resample_every": 4},
            "blt": {"sums": "blt", "resample_every": 7},
            "tree": {"sums": "tree"},
            "Laplace tree": {"budget": PURE, "sums": "tree", "noise": "laplace"},
            "published": {"budget": PURE} | PUBLISHED,
            "two rounds each": {"budget": TWICE},
            "one batch": {"resample_every": ROUNDS},
            "endless": {"arguments": ENDLESS, "first_batch": 3},
            "not private": {"budget": FREE},
            "weighted": {"weights": "norm"},
            "falling, weighted, batches": {"rate": "falling", "weights": "norm", "resample_every": 4},
            "falling, tree, two rounds each": {"budget": TWICE, "rate": "falling", "sums": "tree"},
            "capped, not private": {"budget": FREE, "items_per_person": 1, "rate": 5.0},
        }
    ),
    "BanditSelector": _named(
        "bandit", SETS, PURE, {
            "blocks": {"block": 10, "repeats": 2},
            "blocks as they come": {},
            "blocks, fixed rate, two rounds each": {
                "budget": PURE_TWICE, "block": 6, "repeats": 1, "rate": 0.5,
            },
            "blocks, not private": {"budget": FREE, "block": 7},
            "online": {"budget": APPROXIMATE, "exploration": "online", "exploration_rate": 0.5},
            "online, published": {"budget": APPROXIMATE, "exploration": "online"} | PUBLISHED,
            "presampled": {"budget": APPROXIMATE, "exploration": "presampled", "block": 4},
            "presampled, published": {"budget": APPROXIMATE, "exploration": "presampled"} | PUBLISHED,
            "every round": {
                "budget": Budget(1.0, 1e-6, "add_remove"),
                "exploration": "every_round", "exploration_rate": 0.3,
            },
            "every round, not private": {"budget": FREE, "exploration": "every_round"},
            "slots": {"feedback": "slots", "block": 4},
            "slots, two rounds each": {"budget": PURE_TWICE, "feedback": "slots", "block": 5},
            "slots, not private": {"budget": FREE, "feedback": "slots", "block": 3},
        }
    ),
    "ThompsonSelector": _named(
        "thompson", SETS, PURE, {
            "sets": {},
            "sets, any number of rounds": {"arguments": ENDLESS},
            "sets, forgetful, two rounds each": {"budget": PURE_TWICE, "forget": 0.1},
            "sets, not private": {"budget": FREE},
            "slots": {"feedback": "slots"},
            "slots, two rounds each": {"budget": PURE_TWICE, "feedback": "slots", "block": 3},
            "slots, not private": {"budget": FREE, "feedback": "slots", "forget": 0.1},
        }, block=2
    ),
    "MetaFrankWolfe": _named(
        "frank-wolfe", (BLOCKS, ROUNDS), APPROXIMATE, {
            "partition": {},
            "cardinality, capped, batches": {
                "arguments": (Cardinality(3).over(N_ITEMS), ROUNDS),
                "items_per_person": 2, "resample_every": 4,
            },
            "knapsack": {"arguments": (Knapsack(COSTS, 1.0), ROUNDS)},
            "curvature, blt": {"curvature": True, "sums": "blt"},
            "tree": {"sums": "tree", "resample_every": 3},
            "pure": {"budget": PURE},
            "pure, two rounds each": {"budget": PURE_TWICE, "resample_every": 2},
            "euclidean": {"regularizer": "euclidean"},
            "automatic": {"steps": "auto", "resample_every": "auto"},
            "one batch": {"resample_every": ROUNDS},
            "not private": {"budget": FREE},
        }, steps=3
    ),
    "MetaFrankWolfePoints": _named(
        "frank-wolfe", (UNIT_BOX, ROUNDS), APPROXIMATE, {
            "box": {},
            "box, batches": {"resample_every": 4},
            "box, pure": {"budget": PURE},
            "polytope": {"arguments": (BLOCKS, ROUNDS)},
            "box, automatic": {"steps": "auto", "smoothness": 1.0},
            "box, not private": {"budget": FREE},
        }, steps=3, gradient_bound=1.0
    ),
    "ApproximateLeader": _named(
        "leader", (BALL, ROUNDS), APPROXIMATE, {
            "": {},
            "curved": {"strong_convexity": 1.0, "regularization": 0.0},
            "buffered, optimistic": {"sums": "blt", "regularization": "optimistic"},
            "tree, box": {"arguments": (Box([-1.0] * SIZE, [0.5] * SIZE), ROUNDS), "sums": "tree"},
            "pure": {"budget": PURE, "strong_convexity": 1.0},
            "Laplace tree": {
                "arguments": (CappedSimplex(SIZE, 2), ROUNDS), "budget": PURE,
                "sums": "tree", "noise": "laplace",
            },
            "two rounds each, clipping": {"budget": TWICE, "lipschitz": 0.3, "clip": True},
            "published": {"budget": PURE} | PUBLISHED,
            "published, curved": {"budget": PURE, "strong_convexity": 1.0} | PUBLISHED,
            "not private": {"budget": FREE},
        }, lipschitz=2.0
    ),
    "LinearLeader": _named(
        "linear", (Simplex(SIZE), ROUNDS), APPROXIMATE, {
            "experts": {},
            "experts, pure": {"budget": PURE},
            "experts, tree": {"sums": "tree"},
            "ball, pure": {"arguments": (Ball(SIZE), ROUNDS), "budget": PURE, "box": None, "lipschitz": 2.0},
            "box": {"arguments": (Box([0.0] * SIZE, [1.0] * SIZE), ROUNDS), "lipschitz": 2.0},
            "published": {"budget": PURE} | PUBLISHED,
            "two rounds each, clipping": {"budget": TWICE, "box": (-0.2, 0.2), "clip": True},
            "not private": {"budget": FREE},
        }, box=(-1.0, 1.0)
    ),
    "BanditApproximateLeader": _named(
        "one point", (BALL, ROUNDS), PURE, {
            "": {"exploration_radius": 0.2},
            "batches": {"exploration_radius": 0.2, "batch": 4, "strong_convexity": 1.0},
            "adaptive": {"exploration_radius": 0.2, "adversary": "adaptive"},
            "experts": {
                "arguments": (Simplex(SIZE), ROUNDS), "exploration_radius": 0.2 * Simplex(SIZE).inner_radius,
            },
            "two rounds each": {"budget": PURE_TWICE, "exploration_radius": 0.2, "batch": 3},
            "published": PUBLISHED,
            "published, adaptive": PUBLISHED | {"adversary": "adaptive", "strong_convexity": 1.0},
            "not private": {"budget": FREE, "exploration_radius": 0.2},
        }, lipschitz=2.0, bound=(0.0, 2.0)
    ),
    "SubmodularMinimizer": _named(
        "minimizer", (4, ROUNDS), APPROXIMATE, {
            "sqrt": {},
            "blt": {"sums": "blt"},
            "tree": {"sums": "tree"},
            "Laplace tree": {"budget": PURE, "sums": "tree", "noise": "laplace"},
            "spherical tree": {"budget": PURE, "sums": "tree", "noise": "spherical"},
            "optimistic": {"regularization": "optimistic"},
            "two rounds each": {"budget": TWICE},
            "published": {"budget": PURE} | PUBLISHED,
            "not private": {"budget": FREE},
        }
    ),
    "BanditSubmodularMinimizer": _named(
        "bandit minimizer", (4, ROUNDS), APPROXIMATE, {
            "values": {"batch": 4, "exploration_rate": 0.5},
            "optimistic": {"batch": 4, "regularization": "optimistic", "exploration_rate": 0.5},
            "two rounds each": {"budget": PURE_TWICE, "batch": 5, "exploration_rate": 0.5},
            "estimates": {"form": "tree", "exploration_rate": 0.5},
            "estimates, two rounds each": {"budget": TWICE, "form": "tree", "exploration_rate": 0.5},
            "thompson": {"batch": 2, "form": "thompson"},
            "thompson, two rounds each": {"budget": PURE_TWICE, "batch": 1, "form": "thompson"},
            "thompson, not private": {"budget": FREE, "batch": 2, "form": "thompson"},
            "published": {"arguments": (4, 600)} | PUBLISHED,
            "not private": {"budget": FREE, "exploration_rate": 0.5},
        }
    ),
}  # fmt: skip
