"""Theorems beside measurements: regret that was measured, that the library certifies, that papers print.

    python benchmarks/theorems.py [FOLDER]

Every learner with a certificate runs on random streams, on streams made to be hard for it, and, where FOLDER
holds msweb/visits.csv.gz (user_id, item_id), on real visitors. Measured regret is a mean over runs; it may
never exceed the certified one by more than chance. "Printed" evaluates the paper's bound with the constants
of its proof, or, where only an order is printed, with constants 1 (marked ~). Exponents are slopes over
horizons on log-log axes. A quiet machine takes some minutes; ``--rounds 1000 --runs 2 --most 4000`` one.

Prints tables, stores benchmarks/results/theorems.json and, with matplotlib, docs/images/theorems_*.png.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet._table import table
from discreet.domains import Ball, Box, Simplex
from discreet.evaluation import best_fixed_set, streams
from discreet.losses import Distance, Linear, Logistic
from discreet.objectives import Coverage, GraphCut
from discreet.objectives.continuous import BudgetAllocation
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
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
from discreet.online.bounds import ALPHA, bandit, minimization, published_hedge
from discreet.privacy.published import PublishedCalibrationWarning

ROOT = Path(__file__).parent
ITEMS = 8
DELTA = 1e-6
Stream = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True)
class Check:
    """One theorem: a learner, the streams it is about, what it loses, and what is promised.

    ``regret(learner, people)`` runs the learner and says what it lost; ``certified(learner, rounds)`` what it
    may. ``printed(rounds)`` is the paper's bound. ``width`` is the range of one round's reward or cost, and
    ``cost`` says how much slower than the others it is.
    """

    theorem: str
    name: str
    make: Callable[[int, int], Any]
    streams: dict[str, Stream]
    regret: Callable[[Any, Any], float]
    printed: Callable[[int], float] | None = None
    order_only: bool = False
    width: float = 1.0
    cost: int = 1
    certified: Callable[[Any, int], float] = field(default=lambda learner, _: learner.certified_regret)


# --- streams --------------------------------------------------------------------------------------


def turning(rounds: int, rng: np.random.Generator) -> Coverage:
    """One item is liked by all for the first third, another ever after: what was learned is wrong."""
    first, second = rng.permutation(ITEMS)[:2]
    return Coverage(np.eye(ITEMS)[np.where(np.arange(rounds) < rounds // 3, first, second)])


SET_STREAMS: dict[str, Stream] = {
    "random: product display": lambda t, rng: streams.product_display(t, ITEMS, rng),
    "random: near tie": lambda t, rng: streams.near_tie(t, ITEMS, rng, best=1),
    "adversarial: turning": turning,
    "adversarial: alternating": lambda t, rng: streams.alternating(t, ITEMS, rng),
}
# Where everybody likes one item, functions are sums over items: the curvature is 0 and the guarantee 1.
MODULAR_STREAMS = {name: SET_STREAMS[name] for name in ("random: near tie", "adversarial: turning")}


def turning_costs(rounds: int, rng: np.random.Generator) -> GraphCut:
    """Items that pay off for the first third and cost ever after, and others the other way round."""
    side = rng.permutation(np.array([1.0, -1.0, 1.0, -1.0])) / 4.0
    turned = np.where(np.arange(rounds) < rounds // 3, 1.0, -1.0)
    return GraphCut([np.zeros((4, 4))] * rounds, modular=turned[:, None] * side, directed=True)


COST_STREAMS: dict[str, Stream] = {
    "random: cuts and prices": lambda t, rng: streams.cuts_and_prices(t, 4, rng, priced=3),
    "adversarial: turning": turning_costs,
}


def turning_points(rounds: int, rng: np.random.Generator) -> Any:
    place = rng.normal(size=3)
    place /= np.linalg.norm(place)
    return Distance(np.where(np.arange(rounds) < rounds // 3, 1.0, -1.0)[:, None] * place, row_norm=1.001)


def _directions(rounds: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(rounds, 3)) + 0.3
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


POINT_STREAMS: dict[str, Stream] = {
    "random: distances": lambda t, rng: Distance(_directions(t, rng), row_norm=1.001),
    "adversarial: turning": turning_points,
}
LIPSCHITZ_STREAMS: dict[str, Stream] = {
    "random: logistic": lambda t, rng: Logistic(
        _directions(t, rng), np.where(rng.random(t) < 0.5, 1, -1), row_norm=1.001
    ),
    "adversarial: turning": lambda t, rng: Linear(
        np.where(np.arange(t) < t // 3, 1.0, -1.0)[:, None] * _directions(1, rng), row_norm=1.001
    ),
}
EXPERT_STREAMS: dict[str, Stream] = {
    "random: coins": lambda t, rng: Linear((rng.random((t, 5)) < 0.5).astype(float), box=(0.0, 1.0)),
    "adversarial: turning": lambda t, rng: Linear(
        np.where(np.arange(t)[:, None] < t // 3, np.eye(5)[rng.integers(5)], 1.0 - np.eye(5)[0]),
        box=(0.0, 1.0),
    ),
}


# --- what was lost --------------------------------------------------------------------------------


def set_regret(alpha: float) -> Callable[[Any, Any], float]:
    return lambda learner, people: float(learner.run(people).regret(people, alpha=alpha).upper)


def cost_regret(learner: Any, people: Any) -> float:
    sets = (
        s for size in range(people.n_items + 1) for s in itertools.combinations(range(people.n_items), size)
    )
    return float(learner.run(people).total - len(people) * min(people.value(s) for s in sets))


def point_regret(learner: Any, people: Any) -> float:
    return float(learner.run(people).total - len(people) * people.best(learner.domain)[1])


def pushed_away(learner: Any, rounds: int) -> float:
    """Against an adversary who always pushes the played point outwards: <c, w> with c along w."""
    total, spent = np.zeros(3), 0.0
    for _ in range(rounds):
        point = learner.choose()
        length = float(np.linalg.norm(point))
        push = point / length if length > 1e-9 else np.array([1.0, 0.0, 0.0])
        spent += float(push @ point)
        total += push
        learner.learn((lambda w, c=push: float(c @ w), lambda w, c=push: c))  # noqa: ARG005
    return spent + float(np.linalg.norm(total))


def allocation_regret(learner: Any, people: Any) -> float:
    """(1 - 1/e)-regret over [0, 1]^d: the functions never fall, so the best point is the upper corner."""
    return ALPHA * len(people) * people.value(np.ones(3)) - float(learner.run(people).total)


# --- the theorems ---------------------------------------------------------------------------------


def _printed_meta(t: int, rank: float, epsilon: float) -> float:
    return (
        rank * math.sqrt(t * math.log(ITEMS))
        + rank**1.5 * ITEMS * t**0.25 * math.sqrt(math.log(1 / DELTA)) / epsilon
    )


def checks(epsilon: float = 8.0) -> list[Check]:
    """Every learner with a certificate; epsilon is large so that they say something at small sizes."""
    loose, pure, free = dc.Budget(epsilon, DELTA), dc.Budget(epsilon), dc.Budget(math.inf)
    logs = lambda t: math.log(t) ** 2.5  # noqa: E731
    return [
        Check(
            "000, Theorem 6",
            "HedgeSelector, published",
            lambda t, s: HedgeSelector(ITEMS, 1, t, loose, calibration="published", seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: published_hedge(ITEMS, 1, t, epsilon, DELTA),
        ),
        Check(
            "one joint account of all draws",
            "HedgeSelector",
            lambda t, s: HedgeSelector(ITEMS, 1, t, loose, resample_every="auto", seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: published_hedge(ITEMS, 1, t, epsilon, DELTA),
        ),
        Check(
            "without privacy",
            "HedgeSelector, epsilon inf, k = 2",
            lambda t, s: HedgeSelector(ITEMS, 2, t, free, seed=s),
            SET_STREAMS,
            set_regret(ALPHA),
        ),
        Check(
            "experts on factorised sums",
            "RunningSumSelector",
            lambda t, s: RunningSumSelector(ITEMS, 1, t, loose, seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: published_hedge(ITEMS, 1, t, epsilon, DELTA),
        ),
        Check(
            "the same, k = 2",
            "RunningSumSelector, k = 2",
            lambda t, s: RunningSumSelector(ITEMS, 2, t, loose, seed=s),
            SET_STREAMS,
            set_regret(ALPHA),
            lambda t: published_hedge(ITEMS, 2, t, epsilon, DELTA),
        ),
        Check(
            "000, Section 3: private experts, pure epsilon",
            "RunningSumSelector, Laplace tree",
            lambda t, s: RunningSumSelector(ITEMS, 1, t, pure, sums="tree", noise="laplace", seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: math.sqrt(ITEMS * t * logs(t)) / epsilon,
            order_only=True,
        ),
        Check(
            "windows of exchangeable streams",
            "PhasedSelector, k = 2",
            lambda _, s: PhasedSelector(ITEMS, 2, loose, seed=s),
            {name: SET_STREAMS[name] for name in SET_STREAMS if name.startswith("random")},
            set_regret(ALPHA),
            certified=lambda learner, t: learner.certified_regret(t),
        ),
        Check(
            "000, Theorem 8",
            "BanditSelector, blocks, certified rate",
            lambda t, s: BanditSelector(ITEMS, 1, t, pure, rate="certified", seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: bandit.published_bandit(ITEMS, 1, t, epsilon, DELTA),
        ),
        Check(
            "000, Theorem 8",
            "BanditSelector, presampled",
            lambda t, s: BanditSelector(ITEMS, 1, t, loose, exploration="presampled", seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: bandit.published_bandit(ITEMS, 1, t, epsilon, DELTA),
        ),
        Check(
            "000, Theorem 8",
            "BanditSelector, online",
            lambda t, s: BanditSelector(ITEMS, 1, t, loose, exploration="online", seed=s),
            SET_STREAMS,
            set_regret(1.0),
            lambda t: bandit.published_bandit(ITEMS, 1, t, epsilon, DELTA),
        ),
        Check(
            "003, Theorem 4",
            "MetaFrankWolfe, ftrl",
            lambda t, s: MetaFrankWolfe(
                dc.constraints.Cardinality(2), t, loose, n_items=ITEMS, steps=8, seed=s
            ),
            SET_STREAMS,
            set_regret(ALPHA),
            lambda t: _printed_meta(t, 2.0, epsilon),
            order_only=True,
            cost=6,
        ),
        Check(
            "003, Theorem 4, with curvature",
            "MetaFrankWolfe, ftrl, curvature 0",
            lambda t, s: MetaFrankWolfe(
                dc.constraints.Cardinality(1), t, loose, n_items=ITEMS, steps=8, curvature=True, seed=s
            ),
            MODULAR_STREAMS,
            set_regret(1.0),
            lambda t: _printed_meta(t, 1.0, epsilon),
            order_only=True,
            cost=6,
        ),
        Check(
            "000, Theorem 9",
            "MetaFrankWolfe, pftal",
            lambda t, s: MetaFrankWolfe(
                Box([0.0] * 3, [1.0] * 3),
                t,
                loose,
                experts="pftal",
                gradient_bound=1.0,
                smoothness=0.5,
                steps=8,
                seed=s,
            ),
            {
                "random: allocation": lambda t, rng: BudgetAllocation(rng.uniform(0.0, 0.3, (t, 3))),
                "adversarial: one channel each": lambda t, _: BudgetAllocation(
                    0.35 * np.eye(3)[np.arange(t) * 3 // t]
                ),
            },
            allocation_regret,
            lambda t: t**0.75 * logs(t) ** 0.25 / epsilon,
            order_only=True,
            cost=8,
        ),
        Check(
            "001, Theorem 7",
            "SubmodularMinimizer",
            lambda t, s: SubmodularMinimizer(4, t, loose, seed=s),
            COST_STREAMS,
            cost_regret,
            lambda t: minimization.published_minimizer(4, t, epsilon),
            width=2.0,
        ),
        Check(
            "001, Theorem 7",
            "SubmodularMinimizer, published",
            lambda t, s: SubmodularMinimizer(4, t, pure, calibration="published", seed=s),
            COST_STREAMS,
            cost_regret,
            lambda t: minimization.published_minimizer(4, t, epsilon),
            width=2.0,
        ),
        Check(
            "001, Theorem 9",
            "BanditSubmodularMinimizer",
            lambda t, s: BanditSubmodularMinimizer(4, t, pure, seed=s),
            COST_STREAMS,
            cost_regret,
            lambda t: minimization.published_bandit_minimizer(4, t, epsilon),
            width=2.0,
        ),
        Check(
            "004, Theorem 4",
            "ApproximateLeader, strongly convex",
            lambda t, s: ApproximateLeader(Ball(3), t, pure, lipschitz=2.001, strong_convexity=1.0, seed=s),
            POINT_STREAMS,
            point_regret,
            lambda t: 3 * (2.001 + 2.0) ** 2 * logs(t) / epsilon,
            order_only=True,
            width=2.0,
        ),
        Check(
            "004, Section 2.1",
            "ApproximateLeader, Lipschitz",
            lambda t, s: ApproximateLeader(Ball(3), t, loose, lipschitz=1.001, seed=s),
            LIPSCHITZ_STREAMS,
            point_regret,
            lambda t: math.sqrt(3 * t * logs(t)) / epsilon,
            order_only=True,
            width=2.0,
        ),
        Check(
            "004, Section 2.1, adaptive adversary",
            "ApproximateLeader, pushed away",
            lambda t, s: ApproximateLeader(Ball(3), t, loose, lipschitz=1.001, seed=s),
            {"adversarial: adaptive": lambda t, _: t},
            pushed_away,
            lambda t: math.sqrt(3 * t * logs(t)) / epsilon,
            order_only=True,
            width=2.0,
        ),
        Check(
            "004, Table 1: experts",
            "LinearLeader",
            lambda t, s: LinearLeader(Simplex(5), t, loose, box=(0.0, 1.0), seed=s),
            EXPERT_STREAMS,
            point_regret,
            lambda t: math.sqrt(5 * t * logs(t)) / epsilon,
            order_only=True,
        ),
        Check(
            "004, Theorem 6, oblivious",
            "BanditApproximateLeader",
            lambda t, s: BanditApproximateLeader(
                Ball(3), t, pure, lipschitz=2.001, bound=(0.0, 2.01), strong_convexity=1.0, seed=s
            ),
            POINT_STREAMS,
            point_regret,
            lambda t: 3 * t ** (2 / 3) * (2.0 + 2 * 2.0 + 16.0 * (1 + 2.0 / epsilon)),
            order_only=True,
            width=2.0,
        ),
    ]


# --- measuring ------------------------------------------------------------------------------------


def measured(check: Check, stream: str, rounds: int, runs: int) -> tuple[float, float]:
    """Mean regret over runs on one stream, and what is certified for it."""
    people = check.streams[stream](rounds, np.random.default_rng(3))
    lost, promised = [], math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        for seed in range(runs):
            learner = check.make(rounds, seed)
            promised = check.certified(learner, rounds)
            lost.append(check.regret(learner, people))
    return float(np.mean(lost)), float(promised)


def slack(check: Check, rounds: int, runs: int) -> float:
    """What chance can add to a mean of runs: six deviations of rounds with independent coins."""
    return 6.0 * check.width * math.sqrt(rounds / (4.0 * runs))


def rows(found: list[Check], rounds: int, runs: int) -> Iterator[dict[str, Any]]:
    for check in found:
        size = max(200, rounds // check.cost)
        for stream in check.streams:
            start = time.perf_counter()
            lost, promised = measured(check, stream, size, runs)
            printed = None if check.printed is None else check.printed(size)
            yield {
                "theorem": check.theorem,
                "learner": check.name,
                "stream": stream,
                "rounds": size,
                "measured": lost,
                "certified": promised,
                "printed": printed,
                "order_only": check.order_only,
                "holds": lost <= promised + slack(check, size, runs),
                "seconds": round(time.perf_counter() - start, 2),
            }


def growth(check: Check, horizons: list[int], runs: int) -> dict[str, Any]:
    """Measured and certified regret over horizons on the check's last stream, with their slopes."""
    turns = "adversarial: turning"
    stream = turns if turns in check.streams else list(check.streams)[-1]
    pairs = [measured(check, stream, t, runs) for t in horizons]
    lost, promised = [one for one, _ in pairs], [two for _, two in pairs]

    def slope(values: list[float]) -> float | None:
        usable = [(t, v) for t, v in zip(horizons, values, strict=True) if v > 0.0]
        if len(usable) < 3:
            return None
        return float(np.polyfit(*np.log(np.array(usable)).T, 1)[0])

    return {
        "learner": check.name,
        "stream": stream,
        "rounds": horizons,
        "measured": lost,
        "certified": promised,
        "printed": None if check.printed is None else [check.printed(t) for t in horizons],
        "exponent_measured": slope(lost),
        "exponent_certified": slope(promised),
    }


# --- offline --------------------------------------------------------------------------------------


def offline_rows(people: Any, name: str, epsilon: float, runs: int) -> Iterator[dict[str, Any]]:
    """(1 - 1/e) of the best value less what was chosen, in people served, beside `certified_loss`."""
    size = len(people)
    budget, pure = dc.Budget(epsilon, DELTA), dc.Budget(epsilon)
    k = 3
    chosen, _, upper = best_fixed_set(people, k)
    best = max(upper, people.value(chosen)) * size
    makers: dict[str, Callable[[int], Any]] = {
        f"PrivateGreedy, {method}": lambda s, m=method: PrivateGreedy(
            k, pure if m in ("basic", "subsampled") else budget, m, seed=s
        )
        for method in ("basic", "zcdp", "decomposable", "subsampled")
    }
    makers["ContinuousGreedy"] = lambda s: ContinuousGreedy(k, budget, seed=s)
    makers["ContinuousGreedy, gaussian"] = lambda s: ContinuousGreedy(k, budget, 10, "gaussian", seed=s)
    makers["CurvatureGreedy"] = lambda s: CurvatureGreedy(k, budget, seed=s)
    for chooser, make in makers.items():
        got = [people.value(make(seed).select(people).items) * size for seed in range(runs)]
        promised = make(0).certified_loss(size, people.n_items)
        delta_value = 1.0 / size
        printed = math.sqrt(delta_value * k**3 * people.n_items * math.log(people.n_items) / epsilon) * size
        lost = ALPHA * best - float(np.mean(got))
        yield {
            "theorem": "greedy picks" if "Private" in chooser else "003, Theorem 3",
            "learner": chooser,
            "stream": name,
            "rounds": size,
            "measured": lost,
            "certified": promised,
            "printed": printed if "Private" not in chooser else None,
            "order_only": True,
            "holds": lost <= promised + 6.0 * math.sqrt(size / (4.0 * runs)),
        }


# --- output ---------------------------------------------------------------------------------------


def shown(found: list[dict[str, Any]]) -> str:
    lines = []
    for row in found:
        printed = "" if row["printed"] is None else f"{'~' if row['order_only'] else ''}{row['printed']:,.0f}"
        lines.append(
            [
                row["theorem"],
                row["learner"],
                row["stream"],
                f"{row['rounds']:,}",
                f"{row['measured']:,.1f}",
                f"{row['certified']:,.1f}",
                printed,
                "" if row["holds"] else "EXCEEDED",
            ]
        )
    return table(["theorem", "learner", "stream", "rounds", "measured", "certified", "printed", ""], lines)


def plot(curves: list[dict[str, Any]]) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed: no plots")
        return
    mpl.use("agg")
    import matplotlib.pyplot as plt

    families = {
        "sets": ("HedgeSelector", "RunningSumSelector", "BanditSelector"),
        "costs": ("SubmodularMinimizer", "BanditSubmodularMinimizer"),
        "points": ("ApproximateLeader", "LinearLeader", "BanditApproximateLeader"),
    }
    folder = ROOT.parent / "docs" / "images"
    folder.mkdir(exist_ok=True)
    for family, starts in families.items():
        chosen = [one for one in curves if one["learner"].split(",")[0] in starts]
        figure, axes = plt.subplots(figsize=(7.5, 5))
        for place, one in enumerate(chosen):
            colour = f"C{place}"
            slope = one["exponent_measured"]
            label = one["learner"] + ("" if slope is None else f" ({slope:.2f})")
            lost = np.where(np.array(one["measured"]) > 0.0, one["measured"], np.nan)
            axes.loglog(one["rounds"], lost, "o-", color=colour, label=label)
            axes.loglog(one["rounds"], one["certified"], "--", color=colour, alpha=0.7)
        axes.set(
            xlabel="rounds",
            ylabel="regret",
            title="Measured (with its exponent) and certified (dashed) regret",
        )
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=8)
        figure.savefig(
            folder / f"theorems_{family}.png", dpi=110, bbox_inches="tight", metadata={"Date": None}
        )
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data sets, for real streams")
    parser.add_argument("--rounds", type=int, default=8_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--most", type=int, default=16_000, help="largest horizon of the growth curves")
    options = parser.parse_args()
    found = list(rows(checks(options.epsilon), options.rounds, options.runs))
    made_up = streams.product_display(options.rounds, 20, np.random.default_rng(1))
    found += offline_rows(made_up, "random: product display", 1.0, options.runs)
    if options.folder is not None:
        found += real_rows(options.folder, options.runs)
    print(shown(found))
    horizons = [t for t in (500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000) if t <= options.most]
    wanted = [one for one in checks(options.epsilon) if one.cost == 1 and "k = 2" not in one.name]
    curves = [growth(check, horizons, options.runs) for check in wanted]
    kinds = ("exponent_measured", "exponent_certified")
    exponents = [
        [one["learner"], one["stream"], *("" if one[kind] is None else f"{one[kind]:.2f}" for kind in kinds)]
        for one in curves
    ]
    print(table(["learner", "stream", "exponent measured", "exponent certified"], exponents))
    results = ROOT / "results" / "theorems.json"
    results.parent.mkdir(exist_ok=True)
    settings = {"epsilon": options.epsilon, "delta": DELTA, "items": ITEMS, "runs": options.runs}
    results.write_text(json.dumps({"settings": settings, "rows": found, "growth": curves}, indent=1) + "\n")
    plot(curves)
    if not all(row["holds"] for row in found):
        raise SystemExit("a measured regret exceeds its certificate")


def real_rows(folder: Path, runs: int) -> list[dict[str, Any]]:
    """The full-information learners and offline choosers on msweb, k = 5 and epsilon 1."""
    visits = Coverage.from_events(folder / "msweb" / "visits.csv.gz", person="user_id", item="item_id")
    people = visits[np.random.default_rng(0).permutation(len(visits))]
    budget, n = dc.Budget(1.0, DELTA), people.n_items
    stream: dict[str, Stream] = {"real: msweb": lambda *_: people}

    def check(theorem: str, name: str, make: Callable[[int, int], Any], **more: Any) -> Check:
        printed = lambda t: published_hedge(n, 5, t, 1.0, DELTA)  # noqa: E731
        return Check(theorem, name, make, stream, set_regret(ALPHA), printed, **more)

    found = [
        check(
            "000, Theorem 6",
            "HedgeSelector, published",
            lambda t, s: HedgeSelector(n, 5, t, budget, calibration="published", seed=s),
        ),
        check(
            "one joint account of all draws",
            "HedgeSelector",
            lambda t, s: HedgeSelector(n, 5, t, budget, resample_every="auto", seed=s),
        ),
        check(
            "experts on factorised sums",
            "RunningSumSelector",
            lambda t, s: RunningSumSelector(n, 5, t, budget, seed=s),
        ),
        check(
            "windows of exchangeable streams",
            "PhasedSelector",
            lambda _, s: PhasedSelector(n, 5, budget, seed=s),
            certified=lambda learner, t: learner.certified_regret(t),
        ),
    ]
    online = list(rows(found, len(people), runs))
    return online + list(offline_rows(people, "real: msweb", 1.0, runs))


if __name__ == "__main__":
    main()
