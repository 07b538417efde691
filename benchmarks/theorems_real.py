"""Theorems on real people: data sets as streams of sets, costs and points, and their checks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import discreet as dc
from benchmarks.shared import adult, eshop, msweb
from discreet.bounds import (
    ALPHA,
    bandit,
    convex,
    frank_wolfe,
    minimization,
    published_hedge,
    published_private_experts,
)
from discreet.constraints import PartitionMatroid
from discreet.constraints.domains import Ball, Simplex
from discreet.objectives import Coverage, FacilityLocation, GraphCut
from discreet.objectives.losses import Linear, Logistic
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
from tools.theorems import BANDIT, COSTS, DELTA, POINTS, SETS, Check, offline_rows, rows
from tools.theorems.regret import cost_regret, point_regret, set_regret


def popular_areas(people: Coverage, items: int) -> Coverage:
    """The most visited areas of msweb only, looked up in the clear."""
    rows = people.as_rows()
    assert rows is not None
    dense = np.asarray(rows.matrix.toarray() if hasattr(rows.matrix, "toarray") else rows.matrix)
    return Coverage(dense[:, np.argsort(-people.gains([]))[:items]])


def incomes(folder: Path, columns: int = 5) -> Logistic:
    """adult: who earns more than 50K, by a constant and up to four numbers scaled by documented ranges."""
    people, rich = adult(folder)
    found = [np.ones(len(people)), (people["education_num"].to_numpy() - 1) / 15.0]
    found.append((people["age"].to_numpy() - 17) / 73.0)
    found.append((people["hours_per_week"].to_numpy() - 1) / 98.0)
    found.append(np.log1p(people["capital_gain"].to_numpy()) / math.log1p(99_999))
    rows = np.column_stack(found[:columns]) / math.sqrt(columns)
    return Logistic(rows, rich, row_norm=1.001)


def rules(folder: Path) -> Linear:
    """adult: five rules of thumb for who earns more than 50K, as experts; a wrong answer costs 1."""
    people, rich = adult(folder)
    said = np.column_stack(
        [
            np.zeros(len(people), dtype=bool),
            people["education_num"].to_numpy() >= 13,
            people["marital_status"].str.startswith("Married").to_numpy(),
            people["capital_gain"].to_numpy() > 0,
            people["hours_per_week"].to_numpy() > 45,
        ]
    )
    return Linear((said != rich[:, None]).astype(float), box=(0.0, 1.0))


def shelves(folder: Path) -> GraphCut:
    """Groceries: which of five departments to put at the front, as costs.

    A department that a basket needs saves its shopper 1/5, one that it does not costs 2/25; and of two
    departments that are both needed, one at the front without the other costs a walk of 1/25.
    """
    home = folder / "arules_transactions"
    items = pd.read_csv(home / "groceries_items.csv.gz")
    front = ["drinks", "fresh products", "fruit and vegetables", "processed food", "snacks and candies"]
    bought = pd.read_csv(home / "groceries.csv.gz").merge(items[["item_id", "level1"]], on="item_id")
    bought = bought[bought["level1"].isin(front)]
    needs = np.zeros((int(bought["transaction_id"].max()) + 1, len(front)))
    needs[bought["transaction_id"], bought["level1"].map(front.index)] = 1.0
    walks = needs[:, :, None] * needs[:, None, :] / 25.0
    walks[:, np.arange(len(front)), np.arange(len(front))] = 0.0
    return GraphCut(list(walks), modular=np.where(needs > 0.0, -0.2, 0.08), directed=True)


def nearby_places(folder: Path, people: int = 5000) -> FacilityLocation:
    """Uber pickups (every so many of one base), and how near 20 places of a grid over Manhattan are."""
    found = pd.read_csv(folder / "uber_pickups_2014" / "pickups.csv.gz")
    found = found[(found["base"] == "B02512") & found["lat"].between(40.70, 40.88)]
    points = found[found["lon"].between(-74.02, -73.91)][["lat", "lon"]].to_numpy()
    points = points[:: len(points) // people][:people]
    places = np.array(list(itertools.product(np.linspace(40.71, 40.87, 5), np.linspace(-74.01, -73.92, 4))))
    far = np.abs(points[:, None] - places[None]).sum(axis=2)
    return FacilityLocation(np.clip(1.0 - far / 0.15, 0.0, 1.0))


def on(name: str, people: Any, epsilon: float, **settings: Any) -> Callable[..., Check]:
    """A maker of checks that run on all of these people, or on the first ``rounds`` of them."""
    streams = {f"real: {name}": lambda t, _: people[:t]}
    settings = {"streams": streams, "rounds": len(people), "epsilon": epsilon} | settings
    return lambda *given, **more: Check(*given, **settings | more)


def set_checks(folder: Path, epsilon: float) -> list[Check]:
    """Few items, so that certificates say something where they can."""
    loose, pure = dc.Budget(epsilon, DELTA), dc.Budget(epsilon)
    people, areas = eshop(folder, "colour"), popular_areas(msweb(folder), 20)
    n, k, blocks = people.n_items, 2, PartitionMatroid(np.arange(20) % 2, 1)
    check = on("eshop colours", people, epsilon, regret=set_regret(ALPHA))

    def hedged(t: int) -> float:
        return published_hedge(n, k, t, epsilon, DELTA)

    def seen(
        theorem: str,
        name: str,
        budget: dc.Budget,
        printed: Callable[..., float] | None = bandit.published_bandit,
        **options: Any,
    ) -> Check:
        return check(
            theorem,
            f"BanditSelector, {name}",
            BANDIT,
            lambda t, s: BanditSelector(n, 1, t, budget, seed=s, **options),
            printed=None if printed is None else lambda t: printed(n, 1, t, epsilon, DELTA),
        )

    return [
        check(
            "000, Theorems 1 and 6",
            "HedgeSelector, published",
            SETS,
            lambda t, s: HedgeSelector(n, k, t, loose, calibration="published", seed=s),
            printed=hedged,
        ),
        check(
            "joint account of all draws",
            "HedgeSelector",
            SETS,
            lambda t, s: HedgeSelector(n, k, t, loose, resample_every="auto", seed=s),
            printed=hedged,
        ),
        check(
            "experts on factorized sums",
            "RunningSumSelector",
            SETS,
            lambda t, s: RunningSumSelector(n, k, t, loose, seed=s),
            printed=hedged,
        ),
        check(
            "000, Section 3, softmax on tree sums",
            "RunningSumSelector, Laplace tree",
            SETS,
            lambda t, s: RunningSumSelector(n, k, t, pure, sums="tree", noise="laplace", seed=s),
            printed=lambda t: published_private_experts(n, k, t, epsilon),
            order_only=True,
        ),
        seen("000, Theorem 8", "blocks, certified rate", pure, rate="certified"),
        seen("000, Theorem 8", "presampled", loose, exploration="presampled"),
        seen("000, Theorem 8", "online", loose, exploration="online"),
        seen("000, Appendix B.1", "every round", loose, bandit.published_direct, exploration="every_round"),
        seen("no theorem for slots", "slots", pure, None, feedback="slots"),
        on("msweb, 20 areas", areas, epsilon)(
            "003, Theorem 4, partition matroid",
            "MetaFrankWolfe, matroid",
            SETS,
            lambda t, s: MetaFrankWolfe(blocks, t, loose, steps=4, resample_every="auto", seed=s),
            regret=set_regret(ALPHA, blocks),
            printed=lambda t: frank_wolfe.published_meta(20, 2.0, t, epsilon, DELTA),
            order_only=True,
        ),
    ]


def cost_checks(folder: Path, epsilon: float) -> list[Check]:
    pure = dc.Budget(epsilon)
    check = on("groceries", shelves(folder), epsilon, regret=cost_regret, width=2.0, most=2.0)

    def full(name: str, budget: dc.Budget, **options: Any) -> Check:
        return check(
            "001, Theorem 7",
            f"SubmodularMinimizer{name}",
            COSTS,
            lambda t, s: SubmodularMinimizer(5, t, budget, seed=s, **options),
            printed=lambda t: minimization.published_minimizer(5, t, epsilon),
        )

    def seen(name: str, **options: Any) -> Check:
        return check(
            "001, Theorem 9",
            f"BanditSubmodularMinimizer{name}",
            COSTS,
            lambda t, s: BanditSubmodularMinimizer(5, t, pure, seed=s, **options),
            printed=lambda t: minimization.published_bandit_minimizer(5, t, epsilon),
        )

    return [
        full("", dc.Budget(epsilon, DELTA)),
        full(", published", pure, calibration="published"),
        seen(""),
        seen(", published", calibration="published"),
    ]


def point_checks(folder: Path, epsilon: float) -> list[Check]:
    loose, pure, ball = dc.Budget(epsilon, DELTA), dc.Budget(epsilon), Ball(5, 3.0)
    people, few, experts = incomes(folder), incomes(folder, 2), rules(folder)

    def check(theorem: str, name: str, people: Any, rounds: int, wide: float, make: Any, bound: Any) -> Check:
        made = on("adult", people, epsilon, rounds=rounds, regret=point_regret, width=wide, most=wide)
        return made(theorem, name, POINTS, make, printed=bound, order_only=True)

    return [
        check(
            "004, Table 1: Lipschitz",
            "ApproximateLeader, Lipschitz",
            people,
            len(people),
            6.01,
            lambda t, s: ApproximateLeader(ball, t, loose, lipschitz=1.001, seed=s),
            lambda t: convex.published_lipschitz(5, t, epsilon),
        ),
        check(
            "004, Section 2.1; 000, Theorem 10",
            "ApproximateLeader, Lipschitz, published",
            people,
            10_000,
            6.01,
            lambda t, s: ApproximateLeader(ball, t, pure, lipschitz=1.001, calibration="published", seed=s),
            lambda t: convex.published_lipschitz_in_full(5, t, epsilon, 1.001, 6.0),
        ),
        check(
            "004, Table 1: experts",
            "LinearLeader",
            experts,
            len(experts),
            1.0,
            lambda t, s: LinearLeader(Simplex(5), t, loose, box=(0.0, 1.0), seed=s),
            lambda t: convex.published_lipschitz(5, t, epsilon),
        ),
        check(
            "004, Table 2: Lipschitz",
            "BanditApproximateLeader, Lipschitz",
            few,
            20_000,
            2.14,
            lambda t, s: BanditApproximateLeader(
                Ball(2, 2.0), t, pure, lipschitz=1.001, bound=(0.0, 2.14), seed=s
            ),
            lambda t: convex.published_one_point_lipschitz(2, t, epsilon),
        ),
    ]


def many_items(folder: Path) -> list[Check]:
    """The full-information learners on all 285 areas of msweb, k = 5 and epsilon 1."""
    people, budget = msweb(folder), dc.Budget(1.0, DELTA)
    n = people.n_items
    check = on(
        "msweb",
        people,
        1.0,
        regret=set_regret(ALPHA),
        printed=lambda t: published_hedge(n, 5, t, 1.0, DELTA),
    )
    return [
        check(
            "000, Theorems 1 and 6",
            "HedgeSelector, published",
            SETS,
            lambda t, s: HedgeSelector(n, 5, t, budget, calibration="published", seed=s),
        ),
        check(
            "joint account of all draws",
            "HedgeSelector",
            SETS,
            lambda t, s: HedgeSelector(n, 5, t, budget, resample_every="auto", seed=s),
        ),
        check(
            "experts on factorized sums",
            "RunningSumSelector",
            SETS,
            lambda t, s: RunningSumSelector(n, 5, t, budget, resample_every="auto", seed=s),
        ),
        check(
            "windows of exchangeable streams",
            "PhasedSelector, k = 5",
            SETS,
            lambda _, s: PhasedSelector(n, 5, budget, seed=s),
            certified=lambda learner, t: learner.certified_regret_after(t),
        ),
    ]


def real_rows(folder: Path, epsilon: float, runs: int) -> Iterator[dict[str, Any]]:
    """Every check on real people, and every selector."""
    checks = many_items(folder) + set_checks(folder, epsilon)
    yield from rows(checks + cost_checks(folder, epsilon) + point_checks(folder, epsilon), 0, runs)
    for name, people in (
        ("real: msweb", msweb(folder)),
        ("real: eshop colours", eshop(folder, "colour")),
        ("real: uber pickups", nearby_places(folder)),
    ):
        yield from offline_rows(people, name, 1.0, runs)
