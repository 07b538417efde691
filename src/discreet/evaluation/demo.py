"""The demonstration behind ``discreet demo``: private jobs on public or synthetic data, with their accounts.

A shop, a choice of features, a running sum, and the live service in a process of its own.
"""

from __future__ import annotations

import json
import math
import shlex
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..client import Client
from ..core import checks
from ..core.extras import install
from ..core.table import table
from ..objectives import Population, greedy
from ..objectives.base import value_to_each
from ..online import HedgeSelector, OnlineSelector, PhasedSelector
from ..planning import Plan, plan
from ..privacy import Account, Budget, FactorizedSum, PublicRandomness, RunningSum, TreeSum
from ..results import Trace
from . import plots
from .regret import ALPHA
from .report import Report, account, plots_available
from .streams import product_display

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
    " simulates.\n  Certified: holds on every stream that the learner is for; regret against 63 % of the best"
    " set, below 0 if better."
)
_BAR = 12  # characters for the largest share
_RANDOM_SETS = 300
FEATURES, SPLITS = 5, 20
_WARES, _WINDOW, _CUSTOMERS = 12, 3, 800
_LIKED_BY = np.linspace(0.35, 0.02, _WARES)
_EXPERIMENT = "window"
_NEEDED = ("httptools", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn")
_SECONDS = 60.0  # until a started service has to say where it is


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
        f"All data below are synthetic or public. Each job guarantees each person epsilon {epsilon:g} and"
        f" delta {delta:g}:\nexchanging them for anybody else changes what is shown by no more than that."
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
    features = run_features(budget, seed)
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
    people = product_display(SHOPPERS, PRODUCTS, PublicRandomness.seeded(1).generator)
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
    rng = PublicRandomness.seeded(3).generator
    length = SHOPPERS // _RANDOM_SETS
    sets = [rng.permutation(PRODUCTS)[:SLOTS] for _ in range(_RANDOM_SETS)]
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
    return ["policy", "learner", "expected share", "observed", "certified regret per round", "observed"], rows


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


def working_on(what: str) -> None:
    """What is being worked on, on a terminal only; each line takes the place of the one before."""
    if sys.stderr.isatty():
        line = f"  {what} ..." if what else ""
        print(line.ljust(70), end="\r", file=sys.stderr, flush=True)


# --- features ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """The chosen features, their covariance with the class, and the accuracy of a model with them.

    ``covariance`` is that of the chosen features with the class, as a part of that of the best five.
    """

    covariance: dict[str, float]
    accuracy: dict[str, float]
    chosen: dict[str, tuple[str, ...]]
    privacy: Account


def run_features(budget: Budget, seed: int | None) -> Features | str:
    """Choose features on 70 % of the people, fit a plain model to those, ask it about the others.

    The ranges of the features are those of the documentation, rounded outwards; the model is not private, the
    choice is. Choosing anew for each split is a study of public data: in earnest it is done once.
    """
    try:
        from sklearn.datasets import load_breast_cancer
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import train_test_split
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        return f"this part needs scikit-learn: {install('sklearn')}"

    from ..offline import PrivateFeatureSelector
    from ..offline.estimators import covariances

    data = load_breast_cancer()
    bounds = (np.zeros(data.data.shape[1]), _rounded_outwards(data.data.max(axis=0)))
    methods: dict[str, tuple[str, float] | None] = {"at random": None}
    for times in (1, 3, 10):
        methods[f"by covariance, epsilon {times * budget.epsilon:g}"] = ("covariance", times * budget.epsilon)
    methods[f"by information, epsilon {10 * budget.epsilon:g}"] = ("mutual_information", 10 * budget.epsilon)
    methods["by covariance, not private"] = ("covariance", math.inf)
    scores: dict[str, list[float]] = {name: [] for name in methods}
    covariance: dict[str, list[float]] = {name: [] for name in methods}
    chosen: dict[str, tuple[str, ...]] = {}
    privacy: Account | None = None
    for split in range(SPLITS):
        working_on(f"features: {split} of {SPLITS} splits")
        train, test, known, asked = train_test_split(
            data.data, data.target, test_size=0.3, random_state=split, stratify=data.target
        )
        worth = covariances(np.clip(train / bounds[1], 0.0, 1.0), known, 2)
        best = np.sort(worth)[-FEATURES:].sum()
        for name, method in methods.items():
            if method is None:
                support = PublicRandomness.seeded(split).generator.permutation(train.shape[1])[:FEATURES]
            else:
                objective, epsilon = method
                state = None if seed is None else seed + split
                selector = PrivateFeatureSelector(
                    FEATURES, epsilon, 0.0, objective, bounds=bounds, classes=[0, 1], random_state=state
                )
                with warnings.catch_warnings():  # that a budget is too small is what the table shows
                    warnings.simplefilter("ignore")
                    support = np.array(selector.fit(train, known).selection_.items)
                if privacy is None:
                    privacy = selector.privacy_
            covariance[name].append(float(worth[support].sum() / best))
            model = make_pipeline(StandardScaler(), LogisticRegression())
            scores[name].append(float(model.fit(train[:, support], known).score(test[:, support], asked)))
            chosen.setdefault(name, tuple(str(data.feature_names[i]) for i in support))
    working_on("")
    assert privacy is not None
    return Features(_averages(covariance), _averages(scores), chosen, privacy)


def _averages(found: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in found.items()}


def _rounded_outwards(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The documented maxima, up to the next 1, 2 or 5 times a power of ten."""
    tens = 10.0 ** np.floor(np.log10(values))
    steps = np.array([1.0, 2.0, 5.0, 10.0])
    return np.array([float(ten * steps[steps * ten >= v][0]) for v, ten in zip(values, tens, strict=True)])


def features_table(features: Features) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            name,
            f"{100.0 * features.covariance[name]:.0f} %",
            f"{accuracy:.3f}",
            ", ".join(features.chosen[name]),
        ]
        for name, accuracy in features.accuracy.items()
    ]
    return ["features", "of the best five", "test accuracy", "chosen in the first split"], rows


# --- running sums --------------------------------------------------------------------------------


def _running_sum(budget: Budget, seed: int | None) -> str:
    popularity = np.array([0.52, 0.31, 0.30, 0.22, 0.12, 0.09, 0.08, 0.05])
    uniforms = PublicRandomness.seeded(2).generator.random((VISITORS, len(PAGES)))
    visits = (uniforms < popularity).astype(np.float64)
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
            f"\n  true counts at the end (synthetic data): {truth[-1].astype(int).tolist()}",
            f"  released by the last method above:     {last}",
            f"\n{total.gate.spent}",
        ]
    )


# --- a service --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveShop:
    """What may be seen of the experiment and of its page; ``took`` because visitors are synthetic."""

    display: tuple[str, ...]
    releases: int
    took: tuple[float, float]
    promise: str
    account: str
    command: str
    page: str
    key: str

    def __str__(self) -> str:
        return "\n".join(
            [
                f"  {_CUSTOMERS} visitors saw {_WINDOW} of {_WARES} products each; {self.releases} releases",
                "  took something (synthetic data):"
                f" {self.took[0]:.2f} of the first 100, {self.took[1]:.2f} of the last",
                f"  on display now: {', '.join(self.display)}",
                f"\n{self.account}",
                f"\n  A page to open: {self.command}",
                f"  then {self.page} with the key {self.key}",
            ]
        )


def run_service(budget: Budget, folder: Path) -> LiveShop | str:
    """Start it, send visitors, stop it; or what is missing. Its store stays in ``folder``."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        return f"this part needs more: {install('service')} ({missing[0]})"
    working_on("a service starts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for old in ("shop.db", "shop.db-wal", "shop.db-shm", "shop.secrets"):
        (folder / old).unlink(missing_ok=True)
    place = [
        "--store",
        f"sqlite:///{folder.resolve()}/shop.db",
        "--secrets",
        f"{folder.resolve()}/shop.secrets",
    ]
    command = [sys.executable, "-m", "discreet", "serve", "--json", "--port", str(port), *place]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                return "the service did not start"
            said += line
        started = json.loads(said)
        client = Client(started["url"], started["admin_key"], timeout=_SECONDS, retries=8)
        try:
            took = _visits(client, budget)
            status = _settled(client)
            account = client.request("GET", f"/v1/experiments/{_EXPERIMENT}/account")
        finally:
            client.close()
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        working_on("")
    return LiveShop(
        tuple(status["display"]),
        int(status["releases"]),
        (float(np.mean(took[:100])), float(np.mean(took[-100:]))),
        str(account["promise"]),
        str(account["periods"][0]["table"]),
        shlex.join(["discreet", "serve", *place]),
        f"http://127.0.0.1:8722/experiments/{_EXPERIMENT}",
        str(started["admin_key"]),
    )


def _visits(client: Client, budget: Budget) -> list[bool]:
    """Everybody takes the first product in the window that they like, or nothing; whether they did."""
    products = [f"product {number}" for number in range(1, _WARES + 1)]
    people = {"name": "visitors", "epsilon": budget.epsilon, "delta": budget.delta}
    client.request("POST", "/v1/populations", people)
    shop = {"name": _EXPERIMENT, "population": "visitors", "items": products, "k": _WINDOW}
    more = {"feedback": "taken", "outcome_wait": 0.2, "options": {"block": 20}}
    client.request("POST", "/v1/experiments", shop | more)
    rng = PublicRandomness.seeded(4).generator
    took = []
    for number in range(_CUSTOMERS):
        if number % 50 == 0:
            working_on(f"a service: {number} of {_CUSTOMERS} visitors")
        decision = client.decide(_EXPERIMENT, f"visitor {number}")
        liked = {one for one, chance in zip(products, _LIKED_BY, strict=True) if rng.random() < chance}
        first = next((one for one in decision.items if one in liked), None)
        client.report(decision, taken=first)
        took.append(first is not None)
    return took


def _settled(client: Client) -> dict[str, Any]:
    """Where the experiment stands, once it has released something: in a second or two."""
    deadline = time.monotonic() + 10.0
    while True:
        status: dict[str, Any] = client.request("GET", f"/v1/experiments/{_EXPERIMENT}")
        if status["releases"] or time.monotonic() > deadline:
            return status
        time.sleep(0.2)


# --- the report ----------------------------------------------------------------------------------


def _report(
    budget: Budget, shop: Shop, features: Features | str, served: LiveShop | str, folder: Path
) -> tuple[Path, list[Path]]:
    page = Report(
        "A shop with 30,000 visitors, and the cost of privacy",
        f"{SLOTS} of {PRODUCTS} products are on display for each shopper, chosen before the shopper is seen."
        f" Each person is guaranteed epsilon {budget.epsilon:g} and delta {budget.delta:g}.",
    )
    page.notice(
        "Shoppers are synthetic, so their rewards can be shown. In a real shop only the products on display"
        " and the account would leave."
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
        " gains. Account: epsilon for one person over the whole stream.",
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
