"""The demonstration behind ``discreet demo``: private jobs on public or made-up data, with their accounts."""

from __future__ import annotations

import math
import tempfile
import textwrap
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core import checks
from ...core.extras import install
from ...core.table import table
from ...objectives import Population, greedy
from ...objectives.each import value_to_each
from ...online import HedgeSelector, OnlineSelector, PhasedSelector
from ...planning import Plan, plan
from ...privacy import Account, Budget, Coins, FactorizedSum, RunningSum, TreeSum
from ...results import Trace
from .. import plots
from ..regret import ALPHA
from ..report import Report, account, plots_available
from ..streams import product_display
from .demo_features import FEATURES, SPLITS, Features, features_or_reason, features_table
from .demo_service import Served, run_service
from .progress import working_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOPPERS, PRODUCTS, SLOTS = 30_000, 200, 5
RANDOM = "a random set"
PUBLISHED = "published constants (paper 000)"
ANY, STEADY = "planner's choice for any stream", "planner's choice for steady streams"
FREE_PHASES, FREE_HEDGE = "not private: phases", "not private: Hedge"
POPULAR, GREEDY = "in hindsight: the most popular", "in hindsight: greedy"
PAGES = ("start", "offers", "shoes", "coats", "tents", "maps", "books", "help")
VISITORS = 5_000
_FORECAST = (
    "Expected against certified. Expected: of what the best fixed set takes, on streams that the planner"
    " makes up.\n  Certified: holds on every stream that the learner is for; regret against 63 % of the best"
    " set, below 0 if better."
)
_BAR = 12  # characters for the largest share
_RANDOM_SETS = 300


@dataclass
class Shop:
    """Who chose, how it went, and the account of the planner's choices."""

    traces: dict[str, Trace] = field(default_factory=dict)
    learners: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, float]:
        """Share of shoppers who take something."""
        return {name: trace.average for name, trace in self.traces.items()}

    def kept(self, name: str) -> float:
        """Gain over random play, as a part of the better non-private learner's."""
        shares = self.shares
        most = max(shares[FREE_PHASES], shares[FREE_HEDGE])
        return (shares[name] - shares[RANDOM]) / (most - shares[RANDOM])


def show(
    epsilon: float,
    delta: float,
    seed: int | None,
    out: Path | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Print the demonstration, write its report, and return its numbers; ``quiet`` prints nothing."""
    budget = Budget(checks.real("epsilon", epsilon, above=0.0), delta)
    folder = Path(tempfile.mkdtemp(prefix="discreet-demo-")) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    say = _nothing if quiet else print
    start = time.perf_counter()
    say(
        f"All data below are made up or public. Each job guarantees each person epsilon {epsilon:g} and delta"
        f" {delta:g}:\nexchanging them for anybody else changes what is shown by no more than that."
    )
    say(
        f"\n1. A shop: {SLOTS} of {PRODUCTS} products on display for each of {SHOPPERS:,} shoppers, who come"
        " in clusters of taste\n"
    )
    shop = run_shop(budget, seed)
    say(table(*_shop_table(shop, bars=True), indent="  "))
    say(f"\n{shop.accounts[STEADY]}")
    say(f"\n  {_FORECAST}\n")
    say(table(*_forecast_table(shop), indent="  "))
    say(
        f"\n2. A private choice: {FEATURES} of 30 features that tell a benign from a malignant tumour, from"
        " 398 people\n   (larger epsilons for comparison)\n"
    )
    features = features_or_reason(budget, seed)
    if isinstance(features, str):
        say(f"  {features}")
    else:
        header, rows = features_table(features)
        say(table(header[:-1], [row[:-1] for row in rows], indent="  "))
        say(f"\n  chosen {rows[1][0]}: {rows[1][-1]}")
        say(f"\n{features.privacy}")
    say("\n3. A private running sum: visits per page, after every single visitor\n")
    say(_running_sum(budget, seed))
    say("\n4. A service: the same over HTTP, learning from what visitors take\n")
    served = run_service(budget, folder)
    say(f"  {served}" if isinstance(served, str) else str(served))
    report, drawn = _report(budget, shop, features, served, folder)
    say("\n" + textwrap.fill(_in_short(shop), 100))
    say(f"\nplot:   {drawn[0]}" if drawn else f"\nplot:   needs matplotlib: {install('plots')}")
    say(f"report: {report}")
    return {
        "epsilon": epsilon,
        "delta": delta,
        "shop": {
            name: {
                "share": share,
                "gain_kept": shop.kept(name),
                "learner": shop.learners[name],
                "seconds": shop.seconds[name],
                "account": _epsilon(shop, name, budget),
            }
            for name, share in shop.shares.items()
        },
        "features": {"missing": features}
        if isinstance(features, str)
        else {
            "covariance": features.covariance,
            "accuracy": features.accuracy,
            "chosen": {n: list(c) for n, c in features.chosen.items()},
        },
        "forecasts": _forecasts(shop),
        "service": {"missing": served} if isinstance(served, str) else asdict(served),
        "report": str(report),
        "plots": [str(path) for path in drawn],
        "seconds": time.perf_counter() - start,
    }


# --- the shop ------------------------------------------------------------------------------------


def run_shop(budget: Budget, seed: int | None) -> Shop:
    """The main job: five products for every shopper, chosen before the shopper is seen."""
    people = product_display(SHOPPERS, PRODUCTS, Coins.seeded(1).generator)
    question: dict[str, Any] = {"n_items": PRODUCTS, "k": SLOTS, "rounds": SHOPPERS, "budget": budget}
    free = Budget(math.inf)
    shop = Shop()
    _add(shop, RANDOM, "", _at_random(people))
    if budget.delta:
        working_on(PUBLISHED)
        published = HedgeSelector(PRODUCTS, SLOTS, SHOPPERS, budget, calibration="published", seed=seed)
        _learn(shop, PUBLISHED, published, people)
    working_on(f"{ANY}: planning")
    shop.plans[ANY] = plan(**question, items_per_person=3)
    _learn(shop, ANY, shop.plans[ANY].learner(seed=seed), people)
    working_on(f"{STEADY}: planning")
    shop.plans[STEADY] = plan(**question, stream="stationary")
    steady = shop.plans[STEADY].learner(seed=seed)
    _learn(shop, STEADY, steady, people)
    if not isinstance(steady, PhasedSelector):
        _learn(shop, "phases", PhasedSelector(PRODUCTS, SLOTS, budget, seed=seed), people)
    _learn(shop, FREE_PHASES, PhasedSelector(PRODUCTS, SLOTS, free, seed=0), people)
    _learn(shop, FREE_HEDGE, HedgeSelector(PRODUCTS, SLOTS, SHOPPERS, free, seed=0), people)
    popular = np.argsort(-people.gains([]), kind="stable")[:SLOTS].tolist()
    for name, items in ((POPULAR, popular), (GREEDY, greedy(people, SLOTS)[0])):
        served = np.tile(np.array(items, dtype=np.int32), (SHOPPERS, 1))
        _add(shop, name, "", Trace(value_to_each(people, items), served))
    working_on("")
    return shop


def _learn(shop: Shop, name: str, learner: OnlineSelector, people: Population) -> None:
    working_on(name)
    start = time.perf_counter()
    trace = learner.run(people)
    _add(shop, name, type(learner).__name__, trace, time.perf_counter() - start)
    shop.accounts[name] = learner.privacy


def _add(shop: Shop, name: str, learner: str, trace: Trace, seconds: float = math.nan) -> None:
    shop.traces[name], shop.learners[name], shop.seconds[name] = trace, learner, seconds


def _at_random(people: Population) -> Trace:
    """A new random set every so often."""
    coins = Coins.seeded(3).generator
    length = SHOPPERS // _RANDOM_SETS
    sets = [coins.permutation(PRODUCTS)[:SLOTS] for _ in range(_RANDOM_SETS)]
    rewards = [
        value_to_each(people[i * length : (i + 1) * length], one.tolist()) for i, one in enumerate(sets)
    ]
    return Trace(np.concatenate(rewards), np.repeat(np.array(sets, dtype=np.int32), length, axis=0))


def _shop_table(shop: Shop, *, bars: bool) -> tuple[list[str], list[list[str]]]:
    """Shares as text; with bars for a terminal, with seconds for a page."""
    most = max(shop.shares.values())
    rows = []
    for name, share in shop.shares.items():
        seconds = "" if math.isnan(shop.seconds[name]) else f"{shop.seconds[name]:.1f}"
        last = "#" * round(_BAR * share / most) if bars else seconds
        rows.append([name, shop.learners[name], f"{share:.3f}", f"{100.0 * shop.kept(name):.0f} %", last])
    return ["policy", "learner", "take something", "gain kept", "" if bars else "seconds"], rows


def _forecasts(shop: Shop) -> dict[str, dict[str, float | None]]:
    """What was said of each plan before anybody came, beside what came of it.

    Shares are of what the best fixed set takes in hindsight (greedy). Regret is per round, against 1 - 1/e
    times that set.
    """
    found: dict[str, dict[str, float | None]] = {}
    for name, one in shop.plans.items():
        expected = one.best.expected
        found[name] = {
            "expected_share": None if expected is None else expected.share,
            "share": shop.shares[name] / shop.shares[GREEDY],
            "certified_regret": None if one.best.certified >= one.at_random else one.best.average,
            "regret": ALPHA * shop.shares[GREEDY] - shop.shares[name],
        }
    return found


def _forecast_table(shop: Shop) -> tuple[list[str], list[list[str]]]:
    rows = []
    for name, one in _forecasts(shop).items():
        certified = one["certified_regret"]
        cells = [
            "" if one["expected_share"] is None else str(shop.plans[name].best.expected),
            f"{one['share']:.2f}",
            shop.plans[name].best.without_guarantee if certified is None else f"at most {certified:.3f}",
            f"{one['regret']:.3f}",
        ]
        rows.append([name, shop.learners[name], *cells])
    return ["policy", "learner", "expected share", "came out", "certified regret a round", "came out"], rows


def _in_short(shop: Shop) -> str:
    """The table in a sentence."""
    parts = [
        f"the planner's choice {_part(shop, ANY)} (any stream) or {_part(shop, STEADY)} (steady streams)"
    ]
    if PUBLISHED in shop.traces:
        parts.insert(0, f"published constants keep {_part(shop, PUBLISHED)}")
    parts.append(f"choosing the most popular {_part(shop, POPULAR)}, without any privacy")
    return f"Of what learning without privacy gains over random sets: {', '.join(parts)}."


def _part(shop: Shop, name: str) -> str:
    return f"{100.0 * shop.kept(name):.0f} %"


def _epsilon(shop: Shop, name: str, budget: Budget) -> float | None:
    """The epsilon of what was released: 0 where nobody was looked at, None without privacy."""
    if name == RANDOM:
        return 0.0
    privacy = shop.accounts.get(name)
    if privacy is None or not privacy.budget.private:
        return None
    return float(privacy.epsilon(delta=budget.delta))


# --- running sums --------------------------------------------------------------------------------


def _running_sum(budget: Budget, seed: int | None) -> str:
    popularity = np.array([0.52, 0.31, 0.30, 0.22, 0.12, 0.09, 0.08, 0.05])
    coins = Coins.seeded(2).generator.random((VISITORS, len(PAGES)))
    visits = (coins < popularity).astype(np.float64)
    options: dict[str, Any] = {"box": (0.0, 1.0), "seed": seed}
    shape = (len(PAGES), VISITORS, budget)
    noise = "gaussian" if budget.delta else "laplace"  # without a delta only Laplace noise will do
    sums: dict[str, RunningSum] = {
        "binary tree (papers 001, 004; right sensitivity)": TreeSum(*shape, noise=noise, **options),
        "binary tree, halves combined (Honaker)": TreeSum(
            *shape, noise=noise, variance_reduction=True, **options
        ),
    }
    if budget.delta:
        sums["square-root factorisation"] = FactorizedSum(*shape, **options)
    truth = visits.cumsum(axis=0)
    rows = []
    for name, total in sums.items():
        working_on(f"running sum: {name}")
        answers = np.array([total.add(visit) for visit in visits])
        rows.append([name, f"{np.abs(answers - truth).mean():,.0f}", f"{total.noise_std(VISITORS):,.0f}"])
    working_on("")
    last = answers[-1].round().astype(int).tolist()
    return "\n".join(
        [
            table(["method", "mean error of a count", "standard deviation at the end"], rows, indent="  "),
            f"\n  true counts at the end (made-up data): {truth[-1].astype(int).tolist()}",
            f"  released by the last method above:     {last}",
            f"\n{total.gate.spent}",
        ]
    )


# --- the report ----------------------------------------------------------------------------------


def _report(
    budget: Budget, shop: Shop, features: Features | str, served: Served | str, folder: Path
) -> tuple[Path, list[Path]]:
    page = Report(
        "A shop with 30,000 visitors, and the cost of privacy",
        f"{SLOTS} of {PRODUCTS} products are on display for each shopper, chosen before the shopper is seen."
        f" Each person is guaranteed epsilon {budget.epsilon:g} and delta {budget.delta:g}.",
    )
    page.notice(
        "Shoppers are made up, so their rewards can be shown. In a real shop only the products on display and"
        " the account would leave."
    )
    page.heading("A shop with clusters of taste")
    header, rows = _shop_table(shop, bars=False)
    accounts = [
        account(math.inf if one is None else one) for one in (_epsilon(shop, n, budget) for n in shop.traces)
    ]
    page.table(
        [*header, "account"],
        [[*row, one] for row, one in zip(rows, accounts, strict=True)],
        "Gain kept: what is gained over a random set, as a part of what the better non-private learner"
        " gains. Account: epsilon for one person over the whole stream. Seconds include compiling the first"
        " time.",
    )
    chosen = [name for name in (PUBLISHED, ANY, STEADY, FREE_PHASES, POPULAR, RANDOM) if name in shop.traces]
    drawn = page.chart(
        lambda ax: _curves({name: shop.traces[name] for name in chosen}, ax),
        "share of shoppers who take something, by policy, over the rounds",
        folder / "shop",
    )
    page.heading("The account of the planner's choice for steady streams", 3)
    page.preformatted(str(shop.accounts[STEADY]))
    page.heading("Expected against certified", 3)
    page.table(*_forecast_table(shop), _FORECAST.partition(". ")[2])
    page.heading("Five features, chosen privately")
    if isinstance(features, str):
        page.text(features)
    else:
        page.text(
            "Breast-cancer data of scikit-learn: 569 people, 30 features. Five of them are chosen from 398"
            " people, a plain logistic regression is fitted to those, and asked about the others; means of"
            f" {SPLITS} splits. Of the best five: the covariance of the chosen with the class, as a part of"
            " the largest there is. Many choices from the same people are a study of public data; in earnest"
            " there is one."
        )
        page.table(*features_table(features))
        if plots_available():
            drawn += page.chart(
                lambda ax: _covariances(features, ax),
                "covariance of the chosen features with the class",
                folder / "features",
            )
        page.preformatted(str(features.privacy))
    page.heading("A service that learns from what visitors take")
    if isinstance(served, str):
        page.text(served)
    else:
        page.text(f"On display: {', '.join(served.display)}. {served.promise}")
        page.preformatted(served.account)
        page.text("Its page, with a chart that follows what happens:")
        page.preformatted(f"{served.command}\n{served.page}\nkey {served.key}")
    return page.save(folder / "report.html"), drawn


def _curves(traces: Mapping[str, Trace], ax: Axes) -> None:
    plots.rewards(traces, ax, title="Share of shoppers who take something", unit="share who take something")


def _covariances(features: Features, ax: Axes) -> None:
    private = [name for name in features.covariance if "epsilon" in name]
    title = "Covariance of five chosen features with the class"
    plots.bars(features.covariance, ax, title=title, unit="part of the best five's covariance", dark=private)


def _nothing(*_: object) -> None:
    """Print nothing."""
