"""Small settings of every learner: those that the contract tests run and whose numbers are stored, and those
that an audit enumerates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from ..constraints import Cardinality, Knapsack, PartitionMatroid
from ..constraints.domains import Ball, Box, CappedSimplex, Simplex
from ..privacy import Budget
from .registry import AuditExample, Example

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

# --- audits ---------------------------------------------------------------------------------------------

NUMERIC, ALONE, PURE_ALONE = (
    Budget(1.0, 1e-5),
    Budget(1.0, 1e-5, "add_remove"),
    Budget(1.0, 0.0, "add_remove"),
)
SIGNED, HALVES = (-1.0, 0.0, 1.0), (0.0, 0.5, 1.0)
# Faults that are looked for where not all of them show: half a sensitivity is refused at once.
RATES, SUMS = ("rate doubled", "charges forgotten"), ("noise halved", "charges forgotten")
SAMPLE = ("everybody in the sample", "charges forgotten")
Case = Callable[..., AuditExample]
_FIELDS = {field.name for field in fields(AuditExample)}


def _case(words: str, budget: Budget, *, arguments: tuple[Any, ...], **more: Any) -> AuditExample:
    """A setting: ``more`` are fields of the example, and options of the learner."""
    about = {name: value for name, value in more.items() if name in _FIELDS}
    options = {name: value for name, value in more.items() if name not in _FIELDS}
    return AuditExample(arguments, budget, options, words=words, **about)


def _hedge(shape: tuple[int, int, int], every: int, rate: float, neighbours: str, deep: bool) -> AuditExample:
    n, k, rounds = shape
    words = f"{k} of {n} items, {rounds} rounds, new sets every {every}"
    budget = Budget(2.0 * rate * k * (-(-rounds // every) - 1), 0.0, neighbours)
    shown = {"arguments": shape, "rows": rounds - 1, "columns": n, "deep": deep}
    return _drawn_twice(words, budget, resample_every=every, rate=rate, **shown)


def _phases(method: str, n: int, k: int, window: int, budget: Budget, **more: Any) -> AuditExample:
    words = f"{method}, {k} of {n} items, two windows of {window}"
    shown: dict[str, Any] = {"arguments": (n, k), "rows": 2 * window, "columns": n, "twice": window}
    return _case(words, budget, mechanism="choices", window=window, method=method, **shown, **more)


_drawn_twice: Case = partial(_case, mechanism="choices", faults=(*RATES, "drawn at twice the rate"))
_best: Case = partial(_case, arguments=(3, 1, 3), rows=2, columns=3, publishes="set", twice=1)
_set: Case = partial(_case, publishes="set", columns=4)
# One person who comes four times, twice in each of two batches.
_returns: Case = partial(
    _case,
    budget=Budget(1.0, 1e-5, max_rounds_per_person=2),
    publishes="set",
    rows=1,
    visits=4,
    min_separation=1,
)
_explores: Case = partial(
    _case, arguments=(3, 1, 4), mechanism="choices", faults=RATES, values=HALVES, deep=True
)
_state: Case = partial(_case, mechanism="batches", faults=SUMS, publishes="state")
_leader: Case = partial(
    _case, arguments=(Ball(2, 2.0), 4), publishes="point", columns=2, values=SIGNED, lipschitz=1.0
)
_linear: Case = partial(_case, arguments=(Simplex(3), 4), publishes="point", columns=3, box=(0.0, 1.0))
_one_point: Case = partial(
    _case, arguments=(Ball(2, 1e3), 8), publishes="point", mechanism="batches", rows=5, values=SIGNED,
    twice=2, lipschitz=1.0, bound=1.0, batch=2, exploration_radius=1.0, regularization=10.0,
)  # fmt: skip
_cuts: Case = partial(
    _case, arguments=(3, 4), publishes="both", values=tuple(map(float, range(6))), nobody=-1.0
)
_chances: Case = partial(
    _case,
    arguments=(2, 6),
    publishes="chances",
    rows=5,
    values=SIGNED,
    exploration_rate=0.5,
    regularization=1e3,
)
_matroid: Case = partial(
    _case, arguments=(PartitionMatroid([[0, 1], [2]], 1), 4), publishes="both", columns=3, steps=2
)

AUDITS: dict[str, list[AuditExample]] = {
    "HedgeSelector": [
        _hedge((3, 1, 3), 1, 0.5, "replace", deep=True),
        _hedge((3, 2, 3), 2, 1.0, "add_remove", deep=False),
        _hedge((4, 1, 4), 1, 0.5, "replace", deep=True),
        _hedge((3, 2, 3), 1, 2.0, "replace", deep=True),
        _drawn_twice(
            "1 of 3 items, 4 rounds, composed exactly", Budget(3.0, 5e-2), arguments=(3, 1, 4), rows=3,
            columns=3, composition="exact", deep=True,
        ),
    ],
    "PhasedSelector": [
        _phases("composed", 3, 1, 2, Budget(2.0)),
        _phases("composed", 3, 2, 1, Budget(2.0, 1e-2, "add_remove"), deep=True),
        _phases("composed", 4, 2, 1, Budget(3.0), deep=True),
        _phases("exact", 3, 2, 1, Budget(2.0, 1e-2, "add_remove"), deep=True, faults=RATES),
        _phases("subsampled", 5, 1, 1, Budget(2.0, 0.0, "add_remove"), faults=SAMPLE),
        # A doubled rate shows where picks are rare.
        _phases("subsampled", 8, 1, 1, Budget(2.0), deep=True, faults=("rate doubled", *SAMPLE)),
    ],
    "BestOfBothSelector": [
        _best("square root, 1 of 3 items", NUMERIC, sums="sqrt"),
        _best("tree, 1 of 3 items", ALONE, sums="tree", deep=True),
    ],
    "LeaderSelector": [
        _set("square root, 1 of 4 items", NUMERIC, arguments=(4, 1, 4), batch=1, deep=True),
        _set("square root, 2 of 4 items", ALONE, arguments=(4, 2, 4), batch=1),
        _set("tree, 2 of 4 items", NUMERIC, arguments=(4, 2, 4), batch=1, sums="tree", deep=True),
        _set("few buffers, 2 of 4 items", NUMERIC, arguments=(4, 2, 4), batch=1, sums="blt", deep=True),
        _returns("people who return, 1 of 2 items", arguments=(2, 1, 5), columns=2, batch=2, deep=True),
    ],
    "RunningSumSelector": [
        *(
            _set(f"{words}, 1 of 4 items", budget, arguments=(4, 1, 4), deep=deep, **options)
            for words, budget, deep, options in (
                ("square root", NUMERIC, True, {"sums": "sqrt"}),
                ("Laplace tree", PURE, False, {"sums": "tree", "noise": "laplace"}),
                ("tree", ALONE, True, {"sums": "tree"}),
                ("weighted people", NUMERIC, False, {"weights": "norm"}),
                ("few buffers, 2 items each", NUMERIC, True, {"sums": "blt", "items_per_person": 2}),
            )
        ),
        _returns(
            "people who return, 1 of 3 items", arguments=(3, 1, 5), columns=3, weights="norm",
            resample_every=2,
        ),
    ],
    "BanditSelector": [
        # Public randomness with which somebody explores early and what was drawn shows later.
        _explores(
            "a new set every round, 1 of 3 items", Budget(2.0), exploration="every_round",
            exploration_rate=0.5, public=5,
        ),
        _explores("rounds picked in advance, 1 of 3 items", Budget(2.0), exploration="presampled", block=2),
        _explores(
            "coins and a timetable, 1 of 3 items", Budget(2.0, 0.0, "add_remove"), exploration="online",
            exploration_rate=0.5, block=1, public=5,
        ),
        *(
            case
            for budget, deep in ((PURE, False), (PURE_ALONE, True))
            for case in (
                # So low a rate that sets do not depend on what is known: only the released sums are compared.
                _state(
                    "blocks of 2 rounds, 1 of 3 items", budget, arguments=(3, 1, 5), rows=4, values=HALVES,
                    twice=2, deep=deep, block=2, repeats=2, rate=1e-12,
                ),
                _state(
                    "which of 2 shown items was taken", budget, arguments=(3, 2, 9), values=SIGNED,
                    nobody=-1.0, twice=1, deep=deep, feedback="slots", block=3,
                ),
            )
        ),
    ],
    "ThompsonSelector": [
        _state(
            f"{words} in blocks of 2 rounds, 2 of 3 items", budget, arguments=(3, 2, None), rows=4,
            values=values, nobody=nobody, twice=2, deep=deep, feedback=feedback, block=2,
        )
        for budget, deep in ((PURE, False), (PURE_ALONE, True))
        for feedback, words, values, nobody in (
            ("set", "values", HALVES, 0.0), ("slots", "what was taken", SIGNED, -1.0),
        )
    ],
    "ApproximateLeader": [
        _leader("square root, 2 coordinates", NUMERIC, sums="sqrt"),
        _leader("spherical tree, 2 coordinates", PURE, sums="tree", noise="spherical"),
        _leader("Laplace tree, 2 coordinates", PURE_ALONE, sums="tree", noise="laplace", deep=True),
        _leader("published, 2 coordinates", PURE, calibration="published", faults=SUMS, deep=True),
    ],
    "LinearLeader": [
        _linear("square root, 3 experts", NUMERIC, sums="sqrt", deep=True),
        _linear("Laplace tree, 3 experts", PURE, sums="tree", noise="laplace"),
    ],
    "BanditApproximateLeader": [
        _one_point("batches of 2 costs", PURE),
        _one_point("batches of 2 costs", PURE_ALONE, deep=True),
    ],
    "SubmodularMinimizer": [
        _cuts("square root, 3 items", NUMERIC, sums="sqrt"),
        _cuts("Laplace tree, 3 items", PURE, sums="tree", noise="laplace"),
        _cuts("spherical tree, 3 items", PURE_ALONE, sums="tree", noise="spherical", deep=True),
    ],
    "BanditSubmodularMinimizer": [
        _chances("batches of 2 costs", PURE, mechanism="batches", form="values", batch=2, twice=2),
        _state(
            "batches of 2 costs, Thompson sampling", PURE, arguments=(2, 6), rows=4, values=SIGNED, twice=2,
            form="thompson", batch=2,
        ),
        _chances("a tree of estimates", PURE, form="tree", twice=4, deep=True),
    ],
    "MetaFrankWolfe": [
        _matroid("square root, 3 items", NUMERIC, sums="sqrt"),
        _matroid("Laplace tree, 3 items", PURE, sums="tree", deep=True),
    ],
    "MetaFrankWolfePoints": [
        _case(
            "spherical tree, 2 coordinates", PURE, arguments=(Box([0.0, 0.0], [1.0, 1.0]), 4),
            publishes="point", columns=2, steps=2, gradient_bound=1.0, bound=2.0,
        )
    ],
}  # fmt: skip
