"""Theorems about points: convex losses, linear losses, bandit feedback."""

from __future__ import annotations

import math
from typing import Any

import discreet as dc
from discreet.bounds import convex
from discreet.constraints.domains import Ball, Simplex
from discreet.online import ApproximateLeader, BanditApproximateLeader, LinearLeader

from .check import DELTA, POINTS, Check
from .regret import adaptive_linear, adaptive_one_point, adaptive_quadratic, point_regret
from .streams import ADAPTIVE, EXPERT_STREAMS, LINEAR_STREAMS, LIPSCHITZ_STREAMS, POINT_STREAMS


def point_checks(epsilon: float) -> list[Check]:
    loose, pure, free = dc.Budget(epsilon, DELTA), dc.Budget(epsilon), dc.Budget(math.inf)
    few = {name: LIPSCHITZ_STREAMS[name] for name in ("random: logistic", "adversarial: turning")}

    def curved(theorem: str, name: str, watched: bool = False, **options: Any) -> Check:
        return Check(
            theorem,
            f"ApproximateLeader, {name}",
            POINTS,
            lambda t, s: ApproximateLeader(
                Ball(3), t, pure, lipschitz=2.001, strong_convexity=1.0, seed=s, **options
            ),
            ADAPTIVE if watched else POINT_STREAMS,
            adaptive_quadratic if watched else point_regret,
            lambda t: convex.published_strongly_convex(3, t, epsilon, 2.001, 1.0, 2.0),
            order_only=True,
            power="ln(T)^2.5",
            width=2.01,
            most=2.01,
        )

    def straight(
        theorem: str, name: str, budget: dc.Budget = loose, watched: bool = False, **options: Any
    ) -> Check:
        published = options.get("calibration") == "published"
        return Check(
            theorem,
            f"ApproximateLeader, {name}",
            POINTS,
            lambda t, s: ApproximateLeader(Ball(3), t, budget, lipschitz=1.001, seed=s, **options),
            ADAPTIVE if watched else (few if options else LIPSCHITZ_STREAMS),
            adaptive_linear if watched else point_regret,
            (lambda t: convex.published_lipschitz_in_full(3, t, epsilon, 1.001, 2.0))
            if published
            else (lambda t: convex.published_lipschitz(3, t, epsilon)),
            order_only=True,
            power="T^1/2",
            width=2.01,
            most=2.01,
        )

    def experts(theorem: str, name: str, budget: dc.Budget = loose, **options: Any) -> Check:
        return Check(
            theorem,
            f"LinearLeader{name}",
            POINTS,
            lambda t, s: LinearLeader(Simplex(5), t, budget, box=(0.0, 1.0), seed=s, **options),
            EXPERT_STREAMS,
            point_regret,
            (lambda t: convex.published_lipschitz(5, t, epsilon)) if theorem.startswith("004") else None,
            order_only=True,
            power="T^1/2",
            most=1.0,
        )

    def ball(theorem: str, name: str, budget: dc.Budget = loose, **options: Any) -> Check:
        return Check(
            theorem,
            f"LinearLeader, ball{name}",
            POINTS,
            lambda t, s: LinearLeader(Ball(3), t, budget, lipschitz=1.001, seed=s, **options),
            LINEAR_STREAMS,
            point_regret,
            lambda t: convex.published_lipschitz(3, t, epsilon),
            order_only=True,
            power="T^1/2",
            width=2.01,
            most=2.01,
        )

    def seen(
        theorem: str, name: str, budget: dc.Budget = pure, curvature: float = 1.0, **options: Any
    ) -> Check:
        adaptive = options.get("adversary") == "adaptive"
        bound = (0.0, 2.01) if curvature else (-1.01, 1.32)
        steep = 2.001 if curvature else 1.001

        def printed(t: int) -> float:
            if not budget.private:
                return convex.published_one_point_without_privacy(3, t)
            if not curvature:
                return convex.published_one_point_lipschitz(3, t, epsilon)
            settings = (3, t, epsilon, 2.001, 1.0, 1.0, 1.0, 2.0, 2.01)
            return convex.published_one_point(*settings, adaptive=adaptive)

        return Check(
            theorem,
            f"BanditApproximateLeader, {name}",
            POINTS,
            lambda t, s: BanditApproximateLeader(
                Ball(3),
                t,
                budget,
                lipschitz=steep,
                bound=bound,
                strong_convexity=curvature,
                seed=s,
                **options,
            ),
            ADAPTIVE if adaptive else (POINT_STREAMS if curvature else LIPSCHITZ_STREAMS),
            adaptive_one_point(bool(curvature)) if adaptive else point_regret,
            printed,
            order_only=True,
            power="T^2/3" if curvature and not adaptive else "T^3/4",
            width=2.01 if curvature else 2.33,
            most=2.0,
        )

    return [
        curved("004, Theorem 4", "strongly convex"),
        curved("004, Theorem 4", "strongly convex, adaptive adversary", watched=True),
        curved("004, Theorem 4", "strongly convex, published", calibration="published"),
        curved(
            "004, Theorem 4",
            "strongly convex, published, adaptive adversary",
            watched=True,
            calibration="published",
        ),
        straight("004, Table 1: Lipschitz", "Lipschitz"),
        straight("004, Table 1: Lipschitz", "Lipschitz, adaptive adversary", watched=True),
        straight("004, Section 2.1; 000, Theorem 10", "Lipschitz, published", pure, calibration="published"),
        straight(
            "004, Section 2.1; 000, Theorem 10",
            "Lipschitz, published, adaptive adversary",
            pure,
            watched=True,
            calibration="published",
        ),
        straight("004, Table 1, BLT sums", "Lipschitz, blt", sums="blt"),
        straight("004, Table 1, tree sums", "Lipschitz, Gaussian tree", sums="tree"),
        straight("004, Table 1, pure epsilon", "Lipschitz, Laplace tree", pure, sums="tree", noise="laplace"),
        straight(
            "004, Table 1, pure epsilon", "Lipschitz, spherical tree", pure, sums="tree", noise="spherical"
        ),
        straight("optimistic regularization", "Lipschitz, optimistic", regularization="optimistic"),
        experts("004, Table 1: experts", ""),
        experts("003, Section 1.2: Agarwal and Singh", ", published", pure, calibration="published"),
        Check(
            "004, Table 1: experts, published",
            "ApproximateLeader, experts, published",
            POINTS,
            lambda t, s: ApproximateLeader(
                Simplex(5), t, pure, lipschitz=math.sqrt(5.0), calibration="published", seed=s
            ),
            EXPERT_STREAMS,
            point_regret,
            lambda t: convex.published_lipschitz(5, t, epsilon),
            order_only=True,
            power="T^1/2",
            most=1.0,
        ),
        experts("004, Table 1, BLT sums", ", blt", sums="blt"),
        experts("004, Table 1, tree sums", ", Gaussian tree", sums="tree"),
        experts("004, Table 1, pure epsilon", ", Laplace tree", pure, sums="tree", noise="laplace"),
        experts("without privacy", ", epsilon inf", free),
        ball("linear losses in a ball", ""),
        ball(
            "linear losses in a ball, pure epsilon", ", spherical tree", pure, sums="tree", noise="spherical"
        ),
        ball("linear losses in a ball, published", ", published", pure, calibration="published"),
        seen("004, Theorem 6, oblivious", "strongly convex"),
        seen("004, Table 2: Lipschitz", "Lipschitz", curvature=0.0),
        seen("004, Theorem 6, adaptive", "strongly convex, adaptive adversary", adversary="adaptive"),
        seen(
            "004, Table 2: Lipschitz, adaptive",
            "Lipschitz, adaptive adversary",
            curvature=0.0,
            adversary="adaptive",
        ),
        seen("004, Theorem 6, oblivious", "strongly convex, published", calibration="published"),
        seen(
            "004, Theorem 6, adaptive",
            "strongly convex, published, adaptive adversary",
            adversary="adaptive",
            calibration="published",
        ),
        seen("004, Table 2: Lipschitz", "Lipschitz, published", curvature=0.0, calibration="published"),
        seen("004, Section 3.1, without privacy", "strongly convex, epsilon inf", free),
        Check(
            "004, Table 2: experts",
            "BanditApproximateLeader, experts",
            POINTS,
            lambda t, s: BanditApproximateLeader(
                Simplex(5), t, pure, lipschitz=math.sqrt(5.0), bound=(0.0, 1.0), seed=s
            ),
            EXPERT_STREAMS,
            point_regret,
            lambda t: convex.published_one_point_lipschitz(5, t, epsilon),
            order_only=True,
            power="T^3/4",
            most=1.0,
        ),
    ]
