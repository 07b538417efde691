"""Theorems about sets to minimize the cost of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import discreet as dc
from discreet.bounds import minimization
from discreet.online import BanditSubmodularMinimizer, SubmodularMinimizer

from .check import COSTS, DELTA, Check
from .regret import adaptive_costs, adaptive_values, cost_regret
from .streams import ADAPTIVE, COST_STREAMS, COSTED, FEW_COST_STREAMS


def cost_checks(epsilon: float) -> list[Check]:
    loose, pure, free = dc.Budget(epsilon, DELTA), dc.Budget(epsilon), dc.Budget(math.inf)

    def full(theorem: str, name: str, budget: dc.Budget = loose, **options: Any) -> Check:
        return Check(
            theorem,
            f"SubmodularMinimizer{name}",
            COSTS,
            lambda t, s: SubmodularMinimizer(COSTED, t, budget, seed=s, **options),
            COST_STREAMS if not options or "calibration" in options else FEW_COST_STREAMS,
            cost_regret,
            (lambda t: minimization.published_minimizer(COSTED, t, epsilon)) if budget.private else None,
            power="T^1/2",
            width=2.0,
            most=2.0,
        )

    def seen(theorem: str, name: str, budget: dc.Budget = pure, **options: Any) -> Check:
        return Check(
            theorem,
            f"BanditSubmodularMinimizer{name}",
            COSTS,
            lambda t, s: BanditSubmodularMinimizer(COSTED, t, budget, seed=s, **options),
            COST_STREAMS,
            cost_regret,
            (lambda t: minimization.published_bandit_minimizer(COSTED, t, epsilon))
            if budget.private
            else None,
            power="T^2/3",
            width=2.0,
            most=2.0,
        )

    def adaptive(check: Check, name: str, regret: Callable[[Any, Any], float]) -> Check:
        return replace(check, name=name, streams=ADAPTIVE, regret=regret)

    plain, published = (
        full("001, Theorem 7", ""),
        full("001, Theorem 7", ", published", pure, calibration="published"),
    )
    values = seen("001, Theorem 9", "")
    return [
        plain,
        published,
        adaptive(plain, "SubmodularMinimizer, adaptive adversary", adaptive_costs),
        adaptive(published, "SubmodularMinimizer, published, adaptive adversary", adaptive_costs),
        full("001, Theorem 7, BLT sums", ", blt", sums="blt"),
        full("001, Theorem 7, tree sums", ", Gaussian tree", sums="tree"),
        full("001, Theorem 7, pure epsilon", ", Laplace tree", pure, noise="laplace"),
        full("001, Theorem 7, pure epsilon", ", spherical tree", pure, noise="spherical"),
        full("001, Theorem 7, free empty set", ", empty is free", empty_is_free=True),
        full("without privacy", ", epsilon inf", free),
        values,
        adaptive(values, "BanditSubmodularMinimizer, adaptive adversary", adaptive_values),
        seen("001, Theorem 9, a tree of estimates", ", tree", form="tree"),
        seen("no theorem for Thompson sampling", ", thompson", form="thompson"),
        seen("001, Theorem 9", ", published", calibration="published"),
        seen("without privacy", ", epsilon inf", free),
    ]
