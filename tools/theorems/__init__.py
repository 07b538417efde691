"""Theorems as checks: every setting of registered learners, and of selectors that certify anything.

A check runs on random streams, on streams made to be hard and, where its certificate allows for them, against
an adaptive adversary. tests/evaluation/test_theorems.py runs all of them, benchmarks/theorems.py at length.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from discreet.online.registry import REGISTRY

from .check import BANDIT, COSTS, DELTA, POINTS, SETS, Check, growth, measured, rows, slack
from .costs import cost_checks
from .points import point_checks
from .selectors import Choice, choices, modular_choices, offline_curves, offline_rows, trap
from .sets import bandit_checks, frank_wolfe_checks, set_checks
from .streams import ITEMS

# What a plot of a family shows: not every variant, or nothing could be read.
PLOTTED = {
    SETS: (
        "HedgeSelector, published",
        "HedgeSelector",
        "RunningSumSelector",
        "RunningSumSelector, Laplace tree",
    ),
    BANDIT: (
        "BanditSelector, blocks, certified rate",
        "BanditSelector, presampled",
        "BanditSelector, online",
        "BanditSelector, every round",
        "BanditSelector, slots",
        "BanditSelector, epsilon inf",
    ),
    COSTS: (
        "SubmodularMinimizer",
        "SubmodularMinimizer, Laplace tree",
        "SubmodularMinimizer, published",
        "SubmodularMinimizer, epsilon inf",
        "BanditSubmodularMinimizer",
        "BanditSubmodularMinimizer, tree",
    ),
    POINTS: (
        "ApproximateLeader, strongly convex",
        "ApproximateLeader, Lipschitz",
        "ApproximateLeader, Lipschitz, published",
        "LinearLeader",
        "BanditApproximateLeader, strongly convex",
        "BanditApproximateLeader, Lipschitz",
    ),
}

# Registered learners that certify nothing, each with the reason: nothing is there to be checked.
WITHOUT_CERTIFICATE: dict[str, str] = {
    "RollingSelector": "a stream that avoids what is shown makes it serve nobody; none is possible",
    "LeaderSelector": "a greedy leader of gains that depend on what is shown: no bound is derived",
    "PersonalSelector": "everybody is shown a set of their own: no regret against one set is derived",
    "ThompsonSelector": "its model of sets is additive, which people's functions are not; no bound is known",
}

__all__ = [
    "BANDIT",
    "COSTS",
    "DELTA",
    "ITEMS",
    "PLOTTED",
    "POINTS",
    "SETS",
    "WITHOUT_CERTIFICATE",
    "Check",
    "Choice",
    "checks",
    "choices",
    "growth",
    "measured",
    "modular_choices",
    "offline_curves",
    "offline_rows",
    "rows",
    "slack",
    "trap",
    "unchecked",
]


def checks(epsilon: float = 8.0) -> list[Check]:
    """Every setting of every learner; epsilon is large so that certificates say something at small sizes."""
    found = set_checks(epsilon) + frank_wolfe_checks(epsilon) + bandit_checks(epsilon)
    found += cost_checks(epsilon) + point_checks(epsilon)
    return [one if one.epsilon is not None else replace(one, epsilon=epsilon) for one in found]


def unchecked(found: list[Check], learners: Collection[str] = REGISTRY) -> list[str]:
    """Learners (by default all that are registered) that no check is about and nothing excuses."""
    known = {one.kind for one in found} | WITHOUT_CERTIFICATE.keys()
    return [name for name in learners if name not in known]
