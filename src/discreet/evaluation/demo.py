"""The demonstration behind ``discreet demo``: private tasks on public or synthetic data, with their accounts.

A shop, feature selection, personal sets, and the live service in a separate process, each compared with
random choices and with the best without privacy.
"""

from __future__ import annotations

import json
import math
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..client import Client
from ..core import checks
from ..core.text import at_most, install, table
from ..objectives import Population, greedy
from ..objectives.base import value_to_each
from ..offline import PrivateRecommender
from ..online import HedgeSelector, OnlineSelector, PhasedSelector
from ..personal import Recommender
from ..planning import Plan, plan
from ..privacy import Account, Budget, PublicRandomness
from ..results import Trace
from . import personal, plots
from .regret import ALPHA
from .report import Report, account
from .streams import product_display

SHOPPERS, PRODUCTS, SLOTS = 30_000, 200, 5
RANDOM, GREEDY = "random set", "not private, best in hindsight (greedy)"
PUBLISHED, PLANNED = "private, published constants (paper 000)", "private, the planner's choice"
FREE, POPULAR = "not private, learned online", "not private, most popular"
PERSONAL, NOT_PRIVATE = "personal sets, private", "personal sets, not private (EASE)"
_BAR = 8  # characters for the largest share
_RANDOM_SETS = 300
PIXELS, SPLITS = 5, 5
_BUYERS, _TASTES = 20_000, 20
_WARES, _WINDOW, _CUSTOMERS = 30, 3, 1_500
_LIKED_BY = 0.5 * np.arange(1.0, _WARES + 1.0) ** -1.0
_EXPERIMENT = "window"
_NIGHT = 0.1
_NEEDED = ("httptools", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn")
_SECONDS = 60.0  # that the client waits for an answer of the service


@dataclass
class Shop:
    """The traces, learners and accounts of all policies, by name; and the plan."""

    traces: dict[str, Trace] = field(default_factory=dict)
    learners: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    plan: Plan | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The share of shoppers who take something."""
        return {name: trace.average for name, trace in self.traces.items()}

    def kept(self, name: str) -> float:
        """The gain over random sets, as a part of the gain of the best set in hindsight."""
        return _kept(self.shares, name)


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
        _wrapped(
            "All data are synthetic or public. Each private policy, by itself, guarantees each person epsilon"
            f" {at_most(epsilon)} and delta {at_most(delta)}: replacing one person by another changes the"
            " probability of whatever is released by no more than that."
            + ("" if seed is None else " Not with a seed: anyone who knows it can remove the noise.")
        )
    )
    say(_title(1, f"One set for everybody: {SLOTS} of {PRODUCTS} products for {SHOPPERS:,} shoppers, online"))
    shop = run_shop(budget, seed)
    say(f"{table(*_shop_table(shop), indent='  ')}\n\n{_wrapped(_shop_in_short(shop))}")
    say(_wrapped(_spent(shop.accounts[PLANNED])))
    say(_title(2, f"Feature selection: {PIXELS} of 64 pixels to tell digits apart, from 1,257 people"))
    pixels = run_features(budget, seed)
    say(_wrapped(pixels) if isinstance(pixels, str) else str(pixels))
    say(
        _title(3, f"Personal sets: {SLOTS} of {PRODUCTS} products for each new shopper, by their own history")
    )
    own = run_personal(budget, seed)
    say(_wrapped(own) if isinstance(own, str) else str(own))
    say(_title(4, f"The live service: {_WINDOW} of {_WARES} products for {_CUSTOMERS:,} visitors, over HTTP"))
    served = run_service(budget, folder)
    say(_wrapped(served) if isinstance(served, str) else str(served))
    report, drawn = _report(budget, shop, (pixels, own), served, folder)
    say(f"\nplot:   {drawn[0]}" if drawn else f"\nplot:   needs matplotlib: {install('plots')}")
    say(f"report: {report} (with every release)")
    return {
        "epsilon": epsilon,
        "delta": delta,
        "private": False,  # shares are true figures, and accounts are of single runs
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
        "features": {"missing": pixels} if isinstance(pixels, str) else {"accuracy": pixels.figures},
        "personal": {"missing": own} if isinstance(own, str) else {"hit_rate": own.figures},
        "service": {"missing": served} if isinstance(served, str) else asdict(served),
        "report": str(report),
        "plots": [str(path) for path in drawn],
        "seconds": time.perf_counter() - start,
    }


def _title(number: int, text: str) -> str:
    """The title of a part, between blank lines."""
    return f"\n{_wrapped(f'{number}. {text}', indent='')}\n"


def _wrapped(text: str, indent: str = "  ") -> str:
    """Text wrapped to the width of the terminal."""
    width = min(shutil.get_terminal_size().columns, 100)
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _spent(privacy: Account) -> str:
    return f"Account: {str(privacy).splitlines()[0]}{'; with a seed: not private' * privacy.reproducible}."


def _bars(rows: dict[str, float]) -> list[list[str]]:
    most = max(rows.values())
    return [[name, f"{one:.3f}", "#" * round(_BAR * one / most)] for name, one in rows.items()]


def _kept(figures: dict[str, float], name: str) -> float:
    """The gain over random (the first entry), as a part of the gain of the best (the last entry)."""
    first, *_, last = figures.values()
    return (figures[name] - first) / (last - first)


@dataclass(frozen=True)
class Figures:
    """A figure for each policy: random first, the best without privacy last."""

    about: str
    unit: str
    figures: dict[str, float]
    in_short: str
    privacy: Account

    def table(self) -> tuple[list[str], list[list[str]]]:
        return ["policy", self.unit, "gain kept", ""], [
            [name, figure, f"{100.0 * _kept(self.figures, name):.0f} %", bar]
            for name, figure, bar in _bars(self.figures)
        ]

    def __str__(self) -> str:
        shown = table(*self.table(), indent="  ")
        return f"{shown}\n\n{_wrapped(self.in_short)}\n{_wrapped(_spent(self.privacy))}"


# --- the shop ------------------------------------------------------------------------------------


def run_shop(budget: Budget, seed: int | None) -> Shop:
    """The main task: five products for every shopper, chosen before the shopper is seen."""
    people = product_display(SHOPPERS, PRODUCTS, PublicRandomness.seeded(1).generator)
    shop = Shop()
    shop.traces[RANDOM], shop.learners[RANDOM] = _at_random(people), ""
    if budget.delta:
        published = HedgeSelector(PRODUCTS, SLOTS, SHOPPERS, budget, calibration="published", seed=seed)
        _learn(shop, PUBLISHED, published, people)
    working_on(f"{PLANNED}: planning")
    shop.plan = plan(PRODUCTS, SLOTS, SHOPPERS, budget, progress=False)
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


def _shop_table(shop: Shop) -> tuple[list[str], list[list[str]]]:
    """Shares as text, with bars."""
    rows = [[name, share, f"{100.0 * shop.kept(name):.0f} %", bar] for name, share, bar in _bars(shop.shares)]
    return ["policy", "take something", "gain kept", ""], rows


def _forecast(shop: Shop) -> dict[str, float | None]:
    """The plan's forecast, compared with what was observed.

    Shares are relative to the best fixed set in hindsight (greedy). Regret is per round, against 1 - 1/e
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
    expected = found["expected_share"]
    promised = "" if expected is None else f" (the plan expected {expected:.2f})"
    return (
        f"{shop.learners[PLANNED]}, the planner's choice, serves {found['share']:.2f} of what the best fixed"
        f" set does{promised}, and keeps {100.0 * shop.kept(PLANNED):.0f} % of the gain over random sets."
    )


def _epsilon(shop: Shop, name: str, budget: Budget) -> float | None:
    """The epsilon of a policy's releases: 0 if it uses no data, None without privacy."""
    if name == RANDOM:
        return 0.0
    privacy = shop.accounts.get(name)
    if privacy is None or not privacy.budget.private:
        return None
    return float(privacy.epsilon(delta=budget.delta))


def working_on(what: str) -> None:
    """Show what is being worked on, on a terminal only; each line overwrites the one before."""
    if sys.stderr.isatty():
        line = f"  {what} ..." if what else ""
        print(line.ljust(70), end="\r", file=sys.stderr, flush=True)


# --- features ---------------------------------------------------------------------------------------


def run_features(budget: Budget, seed: int | None) -> Figures | str:
    """Choose pixels with 70 % of the people, fit a plain model on these pixels, test it on the other people.

    The choice is private, the model is not. A new choice for each split is for this study of public data; an
    application chooses once.
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
    private = f"private, epsilon {budget.epsilon:g}"
    levels = {"random pixels": None, private: budget.epsilon, "not private": math.inf}
    scores: dict[str, list[float]] = {name: [] for name in levels}
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
    working_on("")
    assert privacy is not None
    found = {name: float(np.mean(each)) for name, each in scores.items()}
    about = (
        "Handwritten digits of scikit-learn: 1,797 people, 64 pixels. Five pixels are chosen from 1,257"
        " people, and a plain logistic regression is fitted to those and asked about the others; means of"
        f" {SPLITS} splits."
    )
    said = (
        f"With {PIXELS} privately chosen pixels a model is right about {found[private]:.2f} of the other"
        f" people, with random pixels about {found['random pixels']:.2f}. The account is of one choice, as an"
        f" application makes it; the {SPLITS} of this comparison add up."
    )
    return Figures(about, "test accuracy", found, said, privacy)


# --- personal sets ----------------------------------------------------------------------------------


def run_personal(budget: Budget, seed: int | None) -> Figures | str:
    """Fit to 16,000 shoppers of many tastes; for 4,000 new ones, a fifth of each one's items is held out.

    A set serves a new shopper if it contains one of the held-out items.
    """
    if not budget.delta:
        return "this part needs a delta: its sums have Gaussian noise"
    working_on("personal sets")
    rng = PublicRandomness.seeded(6).generator
    crowd = product_display(_BUYERS, PRODUCTS, rng, clusters=_TASTES, taken=8)
    split = personal.NewPeople.of(crowd, 0)
    model = PrivateRecommender(budget, seed=seed).fit(split.training)
    policies: dict[str, personal.Scores | Recommender] = {
        RANDOM: lambda histories: rng.random((len(histories), PRODUCTS)),
        "most popular set for everybody, not private": personal.popularity(split.training),
        PERSONAL: model,
        NOT_PRIVATE: personal.ease(split.training),
    }
    found = {name: personal.quality(one, split, SLOTS).hit_rate for name, one in policies.items()}
    working_on("")
    one_set = list(found.values())[1]
    said = (
        f"Personal sets have something for {found[PERSONAL]:.2f} of new shoppers, the most popular set for"
        f" {one_set:.2f}; a history can stay on the shopper's own device."
    )
    about = (
        f"{_BUYERS:,} synthetic shoppers of {_TASTES} tastes. A model of which products go together is fitted"
        " to four fifths of them. The others are new: a set serves one of them if it holds a product that"
        " they like and that is not in their history."
    )
    return Figures(about, "served", found, said, model.privacy)


# --- a service --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveShop:
    """What operators see of the experiment, and its page; ``took`` is known as visitors are synthetic."""

    display: tuple[str, ...]
    releases: int
    took: dict[str, float]
    promise: str
    account: str
    command: str
    page: str
    key: str

    def __str__(self) -> str:
        shown = table(["visitors", "take something", ""], _bars(self.took), indent="  ")
        return "\n".join(
            [
                f"{shown}\n",
                _wrapped(self.in_short()),
                _wrapped(f"Account: {self.account.splitlines()[0]}."),
                f"\n  The experiment's page, with a chart:\n    {self.command}",
                f"    {self.page}\n    key {self.key}",
            ]
        )

    def in_short(self) -> str:
        _, last, _, best = self.took.values()
        return (
            f"After {self.releases} noisy releases the service shows {', '.join(self.display)}, and the last"
            f" visitors take {last / best:.0%} as often as with the best set."
        )


def run_service(budget: Budget, folder: Path) -> LiveShop | str:
    """Start a service with a new store in ``folder``, send visitors, stop it; or say what is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        return f"this part needs more: {install('service')} ({missing[0]})"
    working_on("a service starts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(tempfile.mkdtemp(prefix="service-", dir=folder)).resolve()
    place = ["--store", f"sqlite:///{home}/shop.db", "--secrets", f"{home}/shop.secrets"]
    command = [sys.executable, "-m", "discreet", "serve", "--json", "--port", str(port), *place]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = ""
        if not select.select([process.stdout], [], [], _SECONDS)[0]:  # it says everything at once
            return f"the service did not start within {_SECONDS:g} seconds"
        while not said.rstrip().endswith("}"):
            if not (line := process.stdout.readline()):
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
            "first 100": float(np.mean(took[:100])),
            "last 500": float(np.mean(took[-500:])),
            "with random sets": _chance_of_a_set(),
            "with the best set": float(1.0 - np.prod(1.0 - _LIKED_BY[:_WINDOW])),
        },
        str(account["promise"]),
        str(account["periods"][0]["table"]),
        shlex.join(["discreet", "serve", *place]),
        f"http://127.0.0.1:8722/experiments/{_EXPERIMENT}",
        key,
    )


def _chance_of_a_set() -> float:
    """The probability that a visitor likes an item of a random set."""
    rng = PublicRandomness.seeded(5).generator
    sets = np.array([rng.permutation(_WARES)[:_WINDOW] for _ in range(5_000)])
    return float(np.mean(1.0 - np.prod(1.0 - _LIKED_BY[sets], axis=1)))


def _visits(client: Client, budget: Budget) -> list[bool]:
    """Send visitors who report the products that they like; for each, whether one of these was shown."""
    products = [f"product {number}" for number in range(1, _WARES + 1)]
    people = {"name": "visitors", "epsilon": budget.epsilon}
    client.request("POST", "/v1/populations", people)
    shop = {"name": _EXPERIMENT, "population": "visitors", "items": products, "k": _WINDOW}
    more = {"learner": "PhasedSelector", "outcome_wait": 0.1, "block_size": 50, "share": 1.0}
    more |= {"holdout": 0.05, "measure": 0.1}  # small: too few visitors to show a lift
    client.request("POST", "/v1/experiments", shop | {"feedback": "full"} | more)
    rng = PublicRandomness.seeded(4).generator
    took = []
    for number in range(_CUSTOMERS):
        if number % 100 == 0:  # a new day: outcomes of the day before are learned from in the pause
            working_on(f"a service: {number} of {_CUSTOMERS} visitors")
            time.sleep(_NIGHT)
        decision = client.decide(_EXPERIMENT, f"visitor {number}")
        likes = [products[i] for i in np.flatnonzero(rng.random(_WARES) < _LIKED_BY).tolist()]
        client.report(decision, likes=likes)
        took.append(not set(likes).isdisjoint(decision.items))
    return took


def _settled(client: Client) -> dict[str, Any]:
    """The status of the experiment after its first release, or after ten seconds."""
    deadline = time.monotonic() + 10.0
    while True:
        status: dict[str, Any] = client.request("GET", f"/v1/experiments/{_EXPERIMENT}")
        if status["releases"] or time.monotonic() > deadline:
            return status
        time.sleep(0.2)


# --- the report ----------------------------------------------------------------------------------


def _report(
    budget: Budget,
    shop: Shop,
    compared: tuple[Figures | str, Figures | str],
    served: LiveShop | str,
    folder: Path,
) -> tuple[Path, list[Path]]:
    """Write the report of the demonstration; returns its path, and those of its figures."""
    page = Report(
        "A shop with 30,000 visitors, and the cost of privacy",
        f"{SLOTS} of {PRODUCTS} products are on display for each shopper, chosen before the shopper is seen."
        f" Each person is guaranteed epsilon {at_most(budget.epsilon)} and delta {at_most(budget.delta)}.",
    )
    page.notice(
        "Shoppers are synthetic, so their rewards can be shown. In a real shop only the products on display"
        " and the account would leave."
    )
    page.heading("A shop with clusters of taste")
    page.text(_shop_in_short(shop))
    if (certified := (forecast := _forecast(shop))["certified_regret"]) is not None:
        page.text(
            f"Regret per round, against 1 - 1/e times the best set: certified at most {certified:.3f},"
            f" observed {forecast['regret']:.3f}."
        )
    header, rows = _shop_table(shop)
    spent = (_epsilon(shop, name, budget) for name in shop.traces)
    accounts = [account(math.inf if one is None else one) for one in spent]
    page.table(
        [*header[:-1], "learner", "account"],
        [[*row[:-1], shop.learners[row[0]], one] for row, one in zip(rows, accounts, strict=True)],
        "Gain kept: what is gained over random sets, as a part of what the best set in hindsight gains."
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
    for title, found in zip(("Five pixels, chosen privately", "Personal sets"), compared, strict=True):
        page.heading(title)
        if isinstance(found, str):
            page.text(found)
            continue
        page.text(f"{found.about} {found.in_short}")
        header, rows = found.table()
        page.table(header[:-1], [row[:-1] for row in rows])
        page.preformatted(str(found.privacy))
    page.heading("A service that learns from what visitors like")
    if isinstance(served, str):
        page.text(served)
    else:
        page.text(f"{served.in_short()} {served.promise}")
        page.table(["visitors", "take something"], [row[:-1] for row in _bars(served.took)])
        page.preformatted(served.account)
        page.text("Its page, with a chart that follows what happens:")
        page.preformatted(f"{served.command}\n{served.page}\nkey {served.key}")
    return page.save(folder / "report.html"), drawn


def _nothing(*_: object) -> None:
    """Print nothing."""
