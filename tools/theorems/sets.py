"""Theorems about sets: full information, constraints, bandit feedback."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import discreet as dc
from discreet.bounds import ALPHA, bandit, frank_wolfe, published_hedge, published_private_experts
from discreet.constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from discreet.constraints.domains import Box
from discreet.online import (
    BanditSelector,
    BestOfBothSelector,
    HedgeSelector,
    MetaFrankWolfe,
    MetaFrankWolfePoints,
    PhasedSelector,
    RunningSumSelector,
)

from .check import BANDIT, DELTA, POINTS, SETS, Check
from .regret import allocation_regret, fractional_regret, set_regret, weighted_regret
from .streams import (
    ALLOCATIONS,
    EXCHANGEABLE,
    FEW_SET_STREAMS,
    ITEMS,
    MODULAR_STREAMS,
    PAIR_STREAMS,
    SET_STREAMS,
    Stream,
)

PAIR = Cardinality(2)


def set_checks(epsilon: float) -> list[Check]:
    loose, pure, free = dc.Budget(epsilon, DELTA), dc.Budget(epsilon), dc.Budget(math.inf)

    def hedge(theorem: str, name: str, k: int = 1, budget: dc.Budget = loose, **options: Any) -> Check:
        return Check(
            theorem,
            f"HedgeSelector{name}",
            SETS,
            lambda t, s: HedgeSelector(ITEMS, k, t, budget, seed=s, **options),
            SET_STREAMS,
            set_regret(1.0 if k == 1 else ALPHA),
            (lambda t: published_hedge(ITEMS, k, t, epsilon, DELTA)) if budget.private else None,
            power="T^1/2",
        )

    def sums(theorem: str, name: str, k: int = 1, **options: Any) -> Check:
        laplace = options.get("noise") == "laplace" or "calibration" in options
        return Check(
            theorem,
            f"RunningSumSelector{name}",
            SETS,
            lambda t, s: RunningSumSelector(ITEMS, k, t, pure if laplace else loose, seed=s, **options),
            FEW_SET_STREAMS if "sums" in options and not laplace else SET_STREAMS,
            (weighted_regret if "weights" in options else set_regret)(1.0 if k == 1 else ALPHA),
            (lambda t: published_private_experts(ITEMS, k, t, epsilon))
            if laplace
            else (lambda t: published_hedge(ITEMS, k, t, epsilon, DELTA)),
            order_only=laplace,
            power="T^1/2",
        )

    def both(theorem: str, name: str, k: int = 1, **options: Any) -> Check:
        return Check(
            theorem,
            f"BestOfBothSelector{name}",
            SETS,
            lambda t, s: BestOfBothSelector(ITEMS, k, t, loose, seed=s, **options),
            FEW_SET_STREAMS if "sums" in options else SET_STREAMS,
            (set_regret if "weights" in options else weighted_regret)(1.0 if k == 1 else ALPHA),
            power="T^1/2",
        )

    def phased(theorem: str, name: str, k: int, most: float = ALPHA, **options: Any) -> Check:
        return Check(
            theorem,
            f"PhasedSelector{name}",
            SETS,
            lambda t, s: PhasedSelector(ITEMS, k, loose, seed=s, **_scaled(options, t)),
            EXCHANGEABLE,
            set_regret(ALPHA),
            power="T^1/2",
            most=most,
            certified=lambda learner, t: learner.certified_regret_after(t),
        )

    return [
        hedge("000, Theorems 1 and 6", ", published", calibration="published", composition="summed"),
        hedge("joint account of all draws", "", resample_every="auto"),
        hedge("joint account of all draws", ", every round", composition="summed"),
        hedge("exact composition of all draws", ", exact", composition="exact", resample_every="auto"),
        hedge("000, Theorem 3", ", epsilon inf", budget=free),
        hedge("000, Proposition 3", ", epsilon inf, k = 2", k=2, budget=free),
        sums("experts on factorized sums", ""),
        sums("experts on factorized sums", ", k = 2", k=2),
        sums("experts on BLT sums", ", blt", sums="blt"),
        sums("experts on tree sums", ", Gaussian tree", sums="tree"),
        sums("000, Section 3, softmax on tree sums", ", Laplace tree", sums="tree", noise="laplace"),
        sums("000, Section 3: PFTAL experts", ", published", calibration="published"),
        sums("experts at a falling rate", ", falling", rate="falling"),
        sums("experts of weighted people", ", weights, k = 2", k=2, weights="norm"),
        both("a master over a leader and experts", "", weights=None),
        both("a master over a leader and experts", ", weights, k = 2", k=2),
        both("a master over a leader and experts", ", blt", weights=None, sums="blt"),
        both("a master over a leader and experts", ", tree", weights=None, sums="tree"),
        phased("windows of exchangeable streams", ", k = 1", 1),
        phased("windows of exchangeable streams", ", exact, k = 2", 2, method="exact"),
        phased("windows of exchangeable streams", ", k = 2", 2),
        phased("one window of an exchangeable stream", ", fixed window", 1, window="third"),
        phased("no theorem with restarts", ", restarts", 1, restart_on_drift=True),
    ]


def _scaled(options: dict[str, Any], rounds: int) -> dict[str, Any]:
    return options | {"window": max(1, rounds // 6)} if options.get("window") == "third" else options


def frank_wolfe_checks(epsilon: float) -> list[Check]:
    loose, pure = dc.Budget(epsilon, DELTA), dc.Budget(epsilon)
    blocks = PartitionMatroid([[0, 1, 2, 3], [4, 5, 6, 7]], 1)
    sack = Knapsack([0.5, 0.5, 0.4, 0.6, 0.5, 0.5, 0.4, 0.6], 1.0)

    def frank_wolfe_sets(
        theorem: str,
        name: str,
        constraint: Constraint = PAIR,
        budget: dc.Budget = loose,
        found: dict[str, Stream] = FEW_SET_STREAMS,
        regret: Callable[[Any, Any], float] | None = None,
        reach: float = 2.0,
        **options: Any,
    ) -> Check:
        curved = bool(options.get("curvature"))
        return Check(
            theorem,
            f"MetaFrankWolfe{name}",
            SETS,
            lambda t, s: MetaFrankWolfe(constraint.over(ITEMS), t, budget, seed=s, **{"steps": 8} | options),
            found,
            regret or set_regret(1.0 if curved else ALPHA, constraint),
            lambda t: frank_wolfe.published_meta(ITEMS, reach, t, epsilon, DELTA),
            order_only=True,
            power="T^1/2",
            most=1.0 if curved else ALPHA,
            cost=6,
        )

    def frank_wolfe_points(theorem: str, name: str, budget: dc.Budget = loose, **options: Any) -> Check:
        return Check(
            theorem,
            f"MetaFrankWolfePoints{name}",
            POINTS,
            lambda t, s: MetaFrankWolfePoints(
                Box([0.0] * 3, [1.0] * 3),
                t,
                budget,
                gradient_bound=1.0,
                smoothness=0.5,
                seed=s,
                **options,
            ),
            ALLOCATIONS,
            allocation_regret,
            lambda t: frank_wolfe.published_leaders(t, epsilon),
            order_only=True,
            power="T^3/4",
            cost=8,
        )

    return [
        frank_wolfe_sets("003, Theorem 4", "", found=SET_STREAMS),
        frank_wolfe_sets("003, Theorem 4, published", ", published", calibration="published"),
        frank_wolfe_sets("003, Theorem 4, partition matroid", ", matroid", blocks),
        frank_wolfe_sets(
            "003, Theorem 4, knapsack (fractional)",
            ", knapsack",
            sack,
            regret=fractional_regret(sack),
            reach=2.5,
        ),
        frank_wolfe_sets("003, Theorem 4, entropic leaders", ", entropy", regularizer="entropy"),
        frank_wolfe_sets("003, Theorem 4, Euclidean leaders", ", euclidean", regularizer="euclidean"),
        frank_wolfe_sets(
            "003, Theorem 4, Euclidean leaders",
            ", euclidean, published",
            regularizer="euclidean",
            calibration="published",
        ),
        frank_wolfe_sets("003, Theorem 4, BLT sums", ", blt", sums="blt"),
        frank_wolfe_sets("003, Theorem 4, tree sums", ", Gaussian tree", sums="tree"),
        frank_wolfe_sets("003, Theorem 4, pure epsilon", ", Laplace tree", budget=pure, steps=2),
        frank_wolfe_sets(
            "003, Theorem 4, with curvature",
            ", curvature 0",
            Cardinality(1),
            found=MODULAR_STREAMS,
            reach=1.0,
            curvature=True,
        ),
        frank_wolfe_points("000, Theorem 9", "", steps=8),
        frank_wolfe_points("000, Theorem 9, BLT sums", ", blt", steps=8, sums="blt"),
        frank_wolfe_points("000, Theorem 9, published", ", published", calibration="published"),
        frank_wolfe_points("000, Theorem 9, pure epsilon", ", spherical tree", pure, steps=4),
    ]


# --- the theorems: bandits --------------------------------------------------------------------------


def bandit_checks(epsilon: float) -> list[Check]:
    loose, pure, free = dc.Budget(epsilon, DELTA), dc.Budget(epsilon), dc.Budget(math.inf)

    def check(
        theorem: str,
        name: str,
        budget: dc.Budget = loose,
        printed: Callable[..., float] | None = None,
        power: str = "T^2/3",
        k: int = 1,
        items: int = ITEMS,
        alpha: float = 1.0,
        **options: Any,
    ) -> Check:
        return Check(
            theorem,
            f"BanditSelector, {name}",
            BANDIT,
            lambda t, s: BanditSelector(items, k, t, budget, seed=s, **options),
            PAIR_STREAMS if items == 2 else SET_STREAMS,
            set_regret(alpha),
            None if printed is None else lambda t: printed(items, k, t, epsilon, DELTA),
            power=power,
        )

    found = [
        check("000, Theorem 8", "blocks", pure, bandit.published_bandit, alpha=ALPHA),
        check("000, Theorem 8", "blocks, certified rate", pure, bandit.published_bandit, rate="certified"),
        check("000, Theorem 8", "blocks, k = 2", pure, bandit.published_bandit, k=2, alpha=ALPHA),
        check("000, Section 4, without privacy", "epsilon inf", free, rate="certified"),
        check("000, Theorem 8", "presampled", loose, bandit.published_bandit, exploration="presampled"),
        check("000, Theorem 8", "online", loose, bandit.published_bandit, exploration="online"),
        check(
            "000, Appendix B.1",
            "every round",
            loose,
            bandit.published_direct,
            "T^3/4",
            exploration="every_round",
            alpha=ALPHA,
        ),
        check("no theorem for slots", "slots", pure, None, "", feedback="slots", alpha=ALPHA),
    ]
    for theorem, exploration, printed, power in (
        ("000, Theorems 2 and 8", "online", bandit.published_bandit, "T^2/3"),
        ("000, Appendix B.2", "presampled", bandit.published_presampled, "T^2/3"),
        ("000, Appendix B.1", "every_round", bandit.published_direct, "T^3/4"),
    ):
        found.append(
            check(
                theorem,
                f"{exploration.replace('_', ' ')}, published, 2 items",
                loose,
                printed,
                power,
                items=2,
                alpha=ALPHA,
                exploration=exploration,
                calibration="published",
            )
        )
    return found
