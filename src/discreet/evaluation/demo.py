"""The demonstration behind ``discreet demo``: private jobs on public or synthetic data, with their accounts.

A shop, a choice of features, and the live service in a process of its own; each beside random and best.
"""

from __future__ import annotations

import json
import math
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..client import Client
from ..core import checks
from ..core.text import install, table
from ..objectives import Population, greedy
from ..objectives.base import value_to_each
from ..online import HedgeSelector, OnlineSelector, PhasedSelector
from ..planning import Plan, plan
from ..privacy import Account, Budget, PublicRandomness
from ..results import Trace
from . import plots
from .regret import ALPHA
from .report import Report, account
from .streams import product_display

SHOPPERS, PRODUCTS, SLOTS = 30_000, 200, 5
RANDOM, GREEDY = "a random set", "the best set in hindsight (greedy)"
PUBLISHED, PLANNED = "published constants (paper 000)", "the planner's choice"
FREE, POPULAR = "not private: phases", "not private: the most popular"
_BAR = 12  # characters for the largest share
_RANDOM_SETS = 300
PIXELS, SPLITS = 5, 5
_WARES, _WINDOW, _CUSTOMERS = 30, 3, 1_500
_LIKED_BY = 0.5 * np.arange(1.0, _WARES + 1.0) ** -1.0
_EXPERIMENT = "window"
_NIGHT = 0.2
_NEEDED = ("httptools", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn")
_SECONDS = 60.0  # until a started service has to say where it is


@dataclass
class Shop:
    """Who chose and how it went; the plan, and the account of what it released."""

    traces: dict[str, Trace] = field(default_factory=dict)
    learners: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    plan: Plan | None = None

    @property
    def shares(self) -> dict[str, float]:
        """Share of shoppers who take something."""
        return {name: trace.average for name, trace in self.traces.items()}

    def kept(self, name: str) -> float:
        """Gain over random sets, as a part of that of learning without privacy."""
        shares = self.shares
        return (shares[name] - shares[RANDOM]) / (shares[FREE] - shares[RANDOM])


def show(
    epsilon: float, delta: float, seed: int | None, out: Path | None = None, *, quiet: bool = False
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
    say(f"\n1. A shop: {SLOTS} of {PRODUCTS} products on display for each of {SHOPPERS:,} shoppers\n")
    shop = run_shop(budget, seed)
    say(table(*_shop_table(shop, bars=True), indent="  "))
    say(f"\n  {_shop_in_short(shop)}\n\n{shop.accounts[PLANNED]}")
    say(f"\n2. A choice of features: {PIXELS} of 64 pixels that tell ten digits apart, from 1,257 people\n")
    pixels = run_features(budget, seed)
    if isinstance(pixels, str):
        say(f"  {pixels}")
    else:
        say(table(*pixels.table(), indent="  "))
        say(f"\n  {pixels.in_short()}\n\n{pixels.privacy}")
    say(f"\n3. A service: {_WINDOW} of {_WARES} products for each of {_CUSTOMERS:,} visitors, over HTTP\n")
    served = run_service(budget, folder)
    say(f"  {served}" if isinstance(served, str) else str(served))
    report, drawn = _report(budget, shop, pixels, served, folder)
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
                "account": _epsilon(shop, name, budget),
            }
            for name, share in shop.shares.items()
        },
        "forecast": _forecast(shop),
        "features": {"missing": pixels}
        if isinstance(pixels, str)
        else {"accuracy": pixels.accuracy, "chosen": {n: list(c) for n, c in pixels.chosen.items()}},
        "service": {"missing": served} if isinstance(served, str) else asdict(served),
        "report": str(report),
        "plots": [str(path) for path in drawn],
        "seconds": time.perf_counter() - start,
    }


# --- the shop ------------------------------------------------------------------------------------


def run_shop(budget: Budget, seed: int | None) -> Shop:
    """The main job: five products for every shopper, chosen before the shopper is seen."""
    people = product_display(SHOPPERS, PRODUCTS, PublicRandomness.seeded(1).generator)
    shop = Shop()
    shop.traces[RANDOM], shop.learners[RANDOM] = _at_random(people), ""
    if budget.delta:
        published = HedgeSelector(PRODUCTS, SLOTS, SHOPPERS, budget, calibration="published", seed=seed)
        _learn(shop, PUBLISHED, published, people)
    working_on(f"{PLANNED}: planning")
    shop.plan = plan(PRODUCTS, SLOTS, SHOPPERS, budget)
    _learn(shop, PLANNED, shop.plan.learner(seed=seed), people)
    _learn(shop, FREE, PhasedSelector(PRODUCTS, SLOTS, Budget(math.inf), seed=0), people)
    popular = np.argsort(-people.gains([]), kind="stable")[:SLOTS].tolist()
    for name, items in ((POPULAR, popular), (GREEDY, greedy(people, SLOTS)[0])):
        served = np.tile(np.array(items, dtype=np.int32), (SHOPPERS, 1))
        shop.traces[name], shop.learners[name] = Trace(value_to_each(people, items), served), ""
    working_on("")
    return shop


def _learn(shop: Shop, name: str, learner: OnlineSelector, people: Population) -> None:
    working_on(name)
    shop.traces[name], shop.learners[name] = learner.run(people), type(learner).__name__
    shop.accounts[name] = learner.privacy


def _at_random(people: Population) -> Trace:
    """A new random set for every hundred shoppers."""
    rng, length = PublicRandomness.seeded(3).generator, SHOPPERS // _RANDOM_SETS
    sets = [rng.permutation(PRODUCTS)[:SLOTS] for _ in range(_RANDOM_SETS)]
    rewards = [
        value_to_each(people[i * length : (i + 1) * length], one.tolist()) for i, one in enumerate(sets)
    ]
    return Trace(np.concatenate(rewards), np.repeat(np.array(sets, dtype=np.int32), length, axis=0))


def _shop_table(shop: Shop, *, bars: bool) -> tuple[list[str], list[list[str]]]:
    """Shares as text, with bars for a terminal."""
    most = max(shop.shares.values())
    rows = []
    for name, share in shop.shares.items():
        row = [name, shop.learners[name], f"{share:.3f}", f"{100.0 * shop.kept(name):.0f} %"]
        rows.append([*row, "#" * round(_BAR * share / most)] if bars else row)
    return ["policy", "learner", "take something", "gain kept", *([""] if bars else [])], rows


def _forecast(shop: Shop) -> dict[str, float | None]:
    """What the plan said before anybody came, beside what was observed.

    Shares are of what the best fixed set takes in hindsight (greedy). Regret is per round, against 1 - 1/e
    times that set.
    """
    assert shop.plan is not None
    best = shop.plan.best
    return {
        "expected_share": None if best.expected is None else best.expected.share,
        "share": shop.shares[PLANNED] / shop.shares[GREEDY],
        "certified_regret": None if best.certified >= shop.plan.at_random else best.average,
        "regret": ALPHA * shop.shares[GREEDY] - shop.shares[PLANNED],
    }


def _shop_in_short(shop: Shop) -> str:
    found = _forecast(shop)
    expected, certified = found["expected_share"], found["certified_regret"]
    promised = "" if expected is None else f" The plan expected {expected:.2f}"
    if promised and certified is not None:
        promised += (
            f" and certifies a regret of at most {certified:.3f} per round; it is {found['regret']:.3f}"
        )
    return (
        f"At this epsilon the planner's choice keeps {100.0 * shop.kept(PLANNED):.0f} % of what learning"
        f" without privacy gains, and serves {found['share']:.2f}\n  of what the best set does."
        f"{promised}."
    )


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
class Pixels:
    """The chosen pixels, and the accuracy of a model that sees no others."""

    accuracy: dict[str, float]
    chosen: dict[str, tuple[str, ...]]
    privacy: Account

    def table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [name, f"{accuracy:.3f}", ", ".join(self.chosen[name])]
            for name, accuracy in self.accuracy.items()
        ]
        return ["pixels", "test accuracy", "chosen in the first split (row and column)"], rows

    def in_short(self) -> str:
        at_random, private, free = self.accuracy.values()
        gained = 100.0 * (private - at_random) / (free - at_random)
        return f"Privacy keeps {gained:.0f} % of what a choice without it gains over random pixels."


def run_features(budget: Budget, seed: int | None) -> Pixels | str:
    """Choose pixels on 70 % of the people, fit a plain model to those, ask it about the others.

    The choice is private, the model is not. Choosing anew for each split is a study of public data: in
    earnest it is done once.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import train_test_split
    except ImportError:
        return f"this part needs scikit-learn: {install('sklearn')}"

    from ..offline import PrivateFeatureSelector

    data = load_digits()
    size = data.data.shape[1]
    levels = {
        "at random": None,
        f"private, epsilon {budget.epsilon:g}": budget.epsilon,
        "not private": math.inf,
    }
    scores: dict[str, list[float]] = {name: [] for name in levels}
    chosen: dict[str, tuple[str, ...]] = {}
    privacy: Account | None = None
    for split in range(SPLITS):
        working_on(f"features: {split} of {SPLITS} splits")
        train, test, digits, asked = train_test_split(
            data.data / 16.0, data.target, test_size=0.3, random_state=split, stratify=data.target
        )
        for name, epsilon in levels.items():
            if epsilon is None:
                support = PublicRandomness.seeded(split).generator.permutation(size)[:PIXELS]
            else:
                options: dict[str, Any] = {"bounds": (np.zeros(size), np.ones(size)), "classes": range(10)}
                options["random_state"] = None if seed is None else seed + split
                selector = PrivateFeatureSelector(PIXELS, epsilon, 0.0, "covariance", **options)
                support = np.array(selector.fit(train, digits).selection_.items)
                privacy = privacy or selector.privacy_
            model = LogisticRegression().fit(train[:, support], digits)
            scores[name].append(float(model.score(test[:, support], asked)))
            chosen.setdefault(name, tuple(f"{one // 8 + 1},{one % 8 + 1}" for one in support.tolist()))
    working_on("")
    assert privacy is not None
    return Pixels({name: float(np.mean(found)) for name, found in scores.items()}, chosen, privacy)


# --- a service --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveShop:
    """What may be seen of the experiment and of its page; ``took`` because visitors are synthetic."""

    display: tuple[str, ...]
    releases: int
    took: dict[str, float]
    promise: str
    account: str
    command: str
    page: str
    key: str

    def __str__(self) -> str:
        return "\n".join(
            [
                f"  on display now: {', '.join(self.display)}; {self.releases} releases",
                f"  {self.in_short()}",
                f"\n{self.account}",
                f"\n  A page to open: {self.command}",
                f"  then {self.page} with the key {self.key}",
            ]
        )

    def in_short(self) -> str:
        took = self.took
        return (
            f"Took something (synthetic data): {took['first']:.2f} of the first 100 visitors,"
            f" {took['last']:.2f} of the last 500; random sets {took['random']:.2f}, the best"
            f" {took['best']:.2f}."
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
    for old in ("shop.db", "shop.db-wal", "shop.db-shm", "shop.secrets", "discreet.admin-key"):
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
        key = Path(started["admin_key_file"]).read_text().strip()
        client = Client(started["url"], key, timeout=_SECONDS, retries=8)
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
        {
            "first": float(np.mean(took[:100])),
            "last": float(np.mean(took[-500:])),
            "random": _chance_of_a_set(),
            "best": float(1.0 - np.prod(1.0 - _LIKED_BY[:_WINDOW])),
        },
        str(account["promise"]),
        str(account["periods"][0]["table"]),
        shlex.join(["discreet", "serve", *place]),
        f"http://127.0.0.1:8722/experiments/{_EXPERIMENT}",
        key,
    )


def _chance_of_a_set() -> float:
    """How likely a visitor likes something of a random set."""
    rng = PublicRandomness.seeded(5).generator
    sets = np.array([rng.permutation(_WARES)[:_WINDOW] for _ in range(5_000)])
    return float(np.mean(1.0 - np.prod(1.0 - _LIKED_BY[sets], axis=1)))


def _visits(client: Client, budget: Budget) -> list[bool]:
    """Everybody says which products they like; whether one of them was in the window."""
    products = [f"product {number}" for number in range(1, _WARES + 1)]
    people = {"name": "visitors", "epsilon": budget.epsilon}
    client.request("POST", "/v1/populations", people)
    shop = {"name": _EXPERIMENT, "population": "visitors", "items": products, "k": _WINDOW}
    more = {"learner": "PhasedSelector", "outcome_wait": 0.1, "block_size": 50, "share": 1.0}
    more |= {"holdout": 0.05, "measure": 0.1}  # so few visitors show no lift: nearly all are learned from
    client.request("POST", "/v1/experiments", shop | {"feedback": "likes"} | more)
    rng = PublicRandomness.seeded(4).generator
    took = []
    for number in range(_CUSTOMERS):
        if number % 100 == 0:  # a new day: yesterday's visitors have been learned from
            working_on(f"a service: {number} of {_CUSTOMERS} visitors")
            time.sleep(_NIGHT)
        decision = client.decide(_EXPERIMENT, f"visitor {number}")
        likes = [products[i] for i in np.flatnonzero(rng.random(_WARES) < _LIKED_BY).tolist()]
        client.report(decision, likes=likes)
        took.append(not set(likes).isdisjoint(decision.items))
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
    budget: Budget, shop: Shop, pixels: Pixels | str, served: LiveShop | str, folder: Path
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
    page.text(_shop_in_short(shop))
    header, rows = _shop_table(shop, bars=False)
    spent = (_epsilon(shop, name, budget) for name in shop.traces)
    accounts = [account(math.inf if one is None else one) for one in spent]
    page.table(
        [*header, "account"],
        [[*row, one] for row, one in zip(rows, accounts, strict=True)],
        "Gain kept: what is gained over a random set, as a part of what learning without privacy gains."
        " Account: epsilon for one person over the whole stream.",
    )
    drawn = page.chart(
        lambda ax: plots.rewards(
            shop.traces, ax, title="Share of shoppers who take something", unit="share who take something"
        ),
        "share of shoppers who take something, by policy, over the rounds",
        folder / "shop",
    )
    page.preformatted(str(shop.accounts[PLANNED]))
    page.heading("Five pixels, chosen privately")
    if isinstance(pixels, str):
        page.text(pixels)
    else:
        page.text(
            "Handwritten digits of scikit-learn: 1,797 people, 64 pixels. Five pixels are chosen from 1,257"
            " people, a plain logistic regression is fitted to those, and asked about the others; means of"
            f" {SPLITS} splits. {pixels.in_short()}"
        )
        page.table(*pixels.table())
        page.preformatted(str(pixels.privacy))
    page.heading("A service that learns from what visitors like")
    if isinstance(served, str):
        page.text(served)
    else:
        page.text(f"On display: {', '.join(served.display)}. {served.in_short()} {served.promise}")
        page.preformatted(served.account)
        page.text("Its page, with a chart that follows what happens:")
        page.preformatted(f"{served.command}\n{served.page}\nkey {served.key}")
    return page.save(folder / "report.html"), drawn


def _nothing(*_: object) -> None:
    """Print nothing."""
