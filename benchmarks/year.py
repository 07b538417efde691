"""A simulated year: monthly budgets, a changing catalogue, returning people, late and lost feedback.

    python -m benchmarks.year

Twelve months of `discreet.evaluation.live_shop`: 10,000 visits a month and 200 products, of which 5 % are
replaced in the middle of each month. 30 % of visits are by people who were there before. Feedback comes 6
hours late on average, and for 10 % never. Each month has a budget of its own (epsilon 1, delta 1e-6, one
person replaced), in which a person counts once. Learners begin each month knowing nothing ("cold"), or with
what was released the month before, as of half as many people ("warm"). Shares are of what the best fixed set
of five serves, for either half of a month, chosen greedily in hindsight. The mean of 5 runs; nothing was
tuned on it.

Prints tables, stores benchmarks/results/year.json, and draws docs/images/year.png.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, pyplot, save
from discreet.core.text import table
from discreet.evaluation import Month, Visit, live_shop
from discreet.evaluation.plots import style
from discreet.objectives import Coverage
from discreet.online import LeaderSelector, PhasedSelector, RunningSumSelector, ThompsonSelector
from tools.results import store

MONTHS, VISITS, PRODUCTS, K, RUNS = 12, 10_000, 200, 5, 5
PATIENCE = 48.0  # hours
BUDGET = dc.Budget(1.0, 1e-6)
BANDIT = ("ThompsonSelector",)

Make = Callable[..., Any]
LEARNERS: dict[str, tuple[str, Make]] = {
    "LeaderSelector": ("gdp", lambda *shape, **more: LeaderSelector(*shape[:2], None, *shape[2:], **more)),
    "PhasedSelector": ("pure", PhasedSelector),
    "RunningSumSelector": (
        "gdp",
        lambda *shape, **more: RunningSumSelector(
            *shape[:2], VISITS, *shape[2:], weights="norm", rate="falling", resample_every=100, **more
        ),
    ),
    "ThompsonSelector": (
        "pure",
        lambda *shape, **more: ThompsonSelector(*shape[:2], None, *shape[2:], feedback="slots", **more),
    ),
}


def served(learner: Any, month: Month, *, bandit: bool) -> float:
    """The part of a month's visitors who were shown something that they like."""
    waiting: list[tuple[float, int, Visit, Any]] = []
    open_rounds: list[tuple[float, int]] = []
    hits, oldest, renewed = 0, 0, False
    for visit in month.visits:
        while waiting and waiting[0][0] <= visit.hour:
            _, late, earlier, taken = heapq.heappop(waiting)
            if bandit:
                learner.learn(taken, round=late, person_id=earlier.person)
            else:
                learner.learn(items=earlier.likes, round=late, person_id=earlier.person)
        if visit.hour >= 360 and not renewed:
            learner.retire_items(month.retired)
            learner.add_items(month.added)
            renewed = True
        shown = learner.choose(wait=False)
        taken = next((label for label in shown.labels if label in visit.likes), None)
        hits += taken is not None
        open_rounds.append((visit.hour, shown.round))
        if visit.answered is not None and visit.answered - visit.hour < PATIENCE:
            heapq.heappush(waiting, (visit.answered, shown.round, visit, taken))
        while open_rounds[oldest][0] < visit.hour - PATIENCE:
            oldest += 1
        learner.expire(before=open_rounds[oldest][1])
    return hits / len(month.visits)


def best(month: Month) -> float:
    """What the best fixed sets of both halves of a month would have served."""
    found = 0.0
    for half in (
        [visit for visit in month.visits if visit.hour < 360],
        [visit for visit in month.visits if visit.hour >= 360],
    ):
        events: dict[str, list[Any]] = {"who": [], "what": []}
        for number, visit in enumerate(half):
            events["who"] += [number] * len(visit.likes)
            events["what"] += visit.likes
        people = Coverage.from_events(events, person="who", item="what")
        greedy = dc.offline.PrivateGreedy(dc.constraints.Cardinality(K), dc.Budget(np.inf))
        found += len(half) * float(people.value(greedy.select(people).items))
    return found / len(month.visits)


def by_chance(month: Month, rng: np.random.Generator) -> float:
    """What a fresh random set for every visitor serves."""
    hits = 0
    products = np.array(month.products)
    for visit in month.visits:
        hits += not set(rng.choice(products, size=K, replace=False).tolist()).isdisjoint(visit.likes)
    return hits / len(month.visits)


def year(name: str, months: list[Month], seed: int, *, warm: bool, budget: dc.Budget) -> tuple[Any, Any]:
    """The shares of a learner month by month, and the accounts."""
    definition, make = LEARNERS[name]
    periods = dc.privacy.Periods(budget, definition=definition)
    last, shares = None, []
    for number, month in enumerate(months):
        start = {"start": last.released.discounted(0.5)} if warm and last is not None else {}
        gate = periods.gate(month.name, 100 * seed + number)
        last = make(PRODUCTS, K, gate, labels=month.products, **start)
        shares.append(served(last, month, bandit=name in BANDIT))
    return shares, periods


def main() -> None:
    arguments(__doc__).parse_args()
    found: dict[str, list[list[float]]] = {}
    accounts: dict[str, dict[str, list[float]]] = {}
    for seed in range(RUNS):
        months = list(live_shop(MONTHS, VISITS, PRODUCTS, np.random.default_rng(seed)))
        ceiling = np.array([best(month) for month in months])
        rng = np.random.default_rng(seed)
        found.setdefault("a random set", []).append(
            (np.array([by_chance(month, rng) for month in months]) / ceiling).tolist()
        )
        for name in LEARNERS:
            for words, warm, budget in (
                ("warm", True, BUDGET),
                ("cold", False, BUDGET),
                ("warm, not private", True, dc.Budget(np.inf)),
            ):
                shares, periods = year(name, months, seed, warm=warm, budget=budget)
                found.setdefault(f"{name}, {words}", []).append((np.array(shares) / ceiling).tolist())
                print(seed, name, words, np.round(np.array(shares) / ceiling, 3), flush=True)
                if budget.private and name not in accounts:
                    accounts[name] = {
                        "month": [periods.account(month.name).epsilon() for month in months],
                        "composed": [
                            periods.total([one.name for one in months[: last + 1]]).epsilon()
                            for last in range(MONTHS)
                        ],
                    }
    means = {name: np.mean(runs, axis=0) for name, runs in found.items()}
    rows = [[name, *(f"{x:.2f}" for x in by), f"{by.mean():.3f}"] for name, by in means.items()]
    print(table(["share of the best fixed sets", *map(str, range(1, MONTHS + 1)), "year"], rows))
    spent = [[name, *(f"{x:.2f}" for x in by["composed"])] for name, by in accounts.items()]
    print(table(["epsilon of who comes every month", *map(str, range(1, MONTHS + 1))], spent))
    settings = {"epsilon": 1.0, "delta": 1e-6, "visits": VISITS, "products": PRODUCTS, "k": K, "runs": RUNS}
    shares = {name: np.round(runs, 4).tolist() for name, runs in found.items()}
    store("year", {"settings": settings, "shares": shares, "accounts": accounts})
    draw(means, accounts)


def draw(means: dict[str, Any], accounts: dict[str, dict[str, list[float]]]) -> None:
    """Shares above, accounts below."""
    if (plt := pyplot()) is None:
        return
    figure, (above, below) = plt.subplots(2, 1, figsize=(7.5, 7), sharex=True, height_ratios=(3, 2))
    months = np.arange(1, MONTHS + 1)
    for place, name in enumerate(one for one in means if "not private" not in one):
        above.plot(months, means[name], label=name, **style(place))
    above.set(ylabel="share of the best fixed set", ylim=(0, 1), title="A simulated year, epsilon 1 a month")
    above.legend(fontsize=7, ncols=3, loc="center", bbox_to_anchor=(0.5, 0.3))
    for place, (name, by) in enumerate(accounts.items()):
        below.plot(months, by["composed"], label=f"{name}, composed", **style(place))
    below.plot(months, next(iter(accounts.values()))["month"], label="within one month", **style(5))
    below.set(xlabel="month", ylabel="epsilon at delta 1e-6", ylim=(0, None))
    below.legend(fontsize=7)
    for axes in (above, below):
        axes.grid(alpha=0.3)
    save(figure, "year.png")


if __name__ == "__main__":
    main()
