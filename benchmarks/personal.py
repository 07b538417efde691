"""Personal sets from a private item model, for people who were not in the data, beside one set for everybody.

    python -m benchmarks.personal FOLDER

FOLDER holds eshop_clicks, msweb, online_retail and arules_transactions (`benchmarks.full_information`). A
fifth of the people are new; a fifth of the items of each of them, at least one, is held out. Figures are
means over ten splits: the share of new people of whom some held-out item is among the k that are shown,
recall and NDCG. "popularity" is private popularity with the whole budget, where everybody skips what they
had. delta is 1e-6, one person replaced. The constants of the method were looked for on eshop_clicks, msweb
and three others on splits of another program, and frozen before, but for the share of popularity where some
items have pairs: a fifth, settled on splits 100 to 109. Splits 25 to 34 were looked at once.

Online: sessions of eshop_clicks in the order of time. The first half of a session is its history; whether any
of the rest is shown is counted. All learn from whole sessions; "the rest" says that a `LeaderSelector` learns
from what it is measured by. Five seeds.

Large catalogues: how much of the gain of the same method without noise is kept, and what public features of
items add: words of descriptions (online_retail) and of titles (msweb), categories, colours, prices and pages
(eshop_clicks). How much they count (1 or 2) was settled on splits 40 and 41 of these data sets, at epsilon 1
and .1; the figures are of splits 65 to 69. Speed: processor seconds of
`fit` for 30,000 people, and microseconds of one `recommend`. Stores benchmarks/results/personal.json.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, cpu_seconds, eshop, msweb, retail, table_rows, target
from discreet.core.text import table
from discreet.evaluation.personal import BASELINES, RecommenderComparison, compare_recommenders
from discreet.objectives import Coverage
from discreet.offline import PrivateRecommender
from discreet.online import LeaderSelector, PersonalSelector
from discreet.personal import word_features
from tools.results import store

SPLITS = range(25, 35)
FIGURES = ("hit_rate", "recall", "ndcg")
# Of the share of new people who are served.
FLOORS = {
    ("eshop_clicks", 5, 1.0): 0.29,
    ("eshop_clicks", 10, 1.0): 0.41,
    ("eshop_clicks", 5, 0.1): 0.20,
    ("msweb", 5, 1.0): 0.62,
    ("msweb", 10, 1.0): 0.73,
    ("msweb", 5, 0.1): 0.56,
    ("online_retail", 5, 1.0): 0.23,
    ("online_retail", 10, 1.0): 0.33,
}


def baskets(folder: Path, name: str) -> Coverage:
    """Baskets of groceries, or sessions of epub."""
    path = folder / "arules_transactions" / f"{name}.csv.gz"
    return Coverage.from_events(path, person="transaction_id", item="item_id")


def offline(data: dict[str, Coverage]) -> dict[str, Any]:
    """Means over the splits, by data set, k and epsilon."""
    found: dict[str, Any] = {}
    rows = []
    for name, people in data.items():
        for k, epsilon in ((5, 1.0), (10, 1.0), (5, 0.1), (5, 3.0)):
            plain = tuple(BASELINES) if epsilon == 1.0 and people.n_items < 1500 else ()
            compared = compare_recommenders(
                people, dc.Budget(epsilon, 1e-6), k, seeds=SPLITS, baselines=plain
            )
            found[f"{name}, k={k}, epsilon={epsilon:g}"] = means(compared)
            personal, popular = compared.mean("personal"), compared.mean("popularity")
            floor = FLOORS.get((name, k, epsilon))
            rows.append([name, str(k), f"{epsilon:g}", f"{popular:.3f}", f"{personal:.3f}"])
            rows[-1] += [f"{compared.mean(one):.3f}" if one in compared.found else "" for one in BASELINES]
            rows[-1].append(target(personal, floor) if floor else "")
            print(rows[-1], flush=True)
    header = ["data", "k", "epsilon", "popularity", "personal", *(one.split(",")[0] for one in BASELINES), ""]
    print(table(header, rows))
    return found


def means(compared: RecommenderComparison) -> dict[str, list[float]]:
    return {
        name: [round(compared.mean(name, figure), 4) for figure in FIGURES] for name in compared.found
    } | {"splits": [round(one.hit_rate, 4) for one in compared.found["personal"]]}


def few_people(people: Coverage) -> dict[str, Any]:
    """Around the threshold: n x mu, personal and popularity."""
    found: dict[str, Any] = {}
    for count in (500, 1500, 2000, 3000, 5000, 10_000):
        some = people[np.random.default_rng(count).permutation(len(people))[:count]]
        compared = compare_recommenders(some, dc.Budget(1.0, 1e-6), 5, seeds=SPLITS, baselines=())
        signal = 0.8 * count * dc.Budget(1.0, 1e-6).mu
        found[f"{count} people"] = [round(signal), compared.mean("personal"), compared.mean("popularity")]
        print(f"{count:>6} people, n x mu {signal:5.0f}: {compared.mean('personal'):.3f} personal,"
              f" {compared.mean('popularity'):.3f} popularity")  # fmt: skip
    return found


# --- online -------------------------------------------------------------------------------------------


def sessions(folder: Path) -> tuple[list[list[int]], list[str]]:
    """The products of each session in the order of their first click, and what they are called."""
    numbers: dict[str, int] = {}
    found: dict[str, list[int]] = {}
    for row in table_rows(folder, "eshop_clicks/clicks"):
        item = numbers.setdefault(row["model"], len(numbers))
        clicked = found.setdefault(row["session_id"], [])
        if item not in clicked:
            clicked.append(item)
    return list(found.values()), list(numbers)


def online(folder: Path) -> dict[str, Any]:
    """The share of sessions whose second half is met, of all and of the second half of the stream."""
    clicked, products = sessions(folder)
    about = facts(folder, "eshop_clicks", products)
    found: dict[str, Any] = {}
    for epsilon in (1.0, 0.3):
        budget = dc.Budget(epsilon, 1e-6)
        makers: dict[str, Any] = {
            "LeaderSelector": (LeaderSelector, False),
            "LeaderSelector, the rest": (LeaderSelector, True),
            "PersonalSelector": (PersonalSelector, False),
            "PersonalSelector, features": (partial(PersonalSelector, features=about), False),
        }
        for name, (make, rest) in makers.items():
            runs = []
            for seed in range(5):
                learner = make(len(products), 5, None, budget, seed=seed)
                served = np.zeros(len(clicked), dtype=bool)
                for t, items in enumerate(clicked):
                    had, later = items[: len(items) // 2], items[len(items) // 2 :]
                    personal = isinstance(learner, PersonalSelector)
                    shown = learner.choose(history=had) if personal else learner.choose()
                    served[t] = not set(later).isdisjoint(shown.items)
                    learner.learn(items=later if rest else items)
                runs.append([float(served.mean()), float(served[served.size // 2 :].mean())])
            found[f"{name}, epsilon={epsilon:g}"] = np.array(runs).round(4).tolist()
            mean = np.mean(runs, axis=0)
            print(f"epsilon {epsilon:g}: {name}: {mean[0]:.3f}, second half {mean[1]:.3f}; seeds",
                  [round(run[0], 3) for run in runs], flush=True)  # fmt: skip
    return found


# --- speed and large catalogues -----------------------------------------------------------------------


def crowd(n_items: int, people: int = 30_000, each: int = 10) -> Coverage:
    """People of twenty tastes."""
    rng = np.random.default_rng(n_items)
    tastes = np.cumsum(rng.dirichlet(np.full(n_items, 0.05), 20), axis=1)
    home = rng.integers(20, size=people)
    items = np.array([np.searchsorted(tastes[one], rng.random(each)) for one in home]).clip(0, n_items - 1)
    where = np.repeat(np.arange(people), each)
    matrix = sp.csr_array((np.ones(items.size), (where, items.ravel())), shape=(people, n_items))
    matrix.sum_duplicates()
    return Coverage(matrix)


def speed() -> dict[str, Any]:
    """Processor seconds of a fit, and microseconds of a set."""
    found: dict[str, Any] = {}
    for n_items, epsilon, most in ((300, 1.0, 2.0), (1500, 3.0, 12.0)):
        people = crowd(n_items)
        models: list[PrivateRecommender] = []

        def fit(people: Coverage = people, epsilon: float = epsilon, models: Any = models) -> None:
            models.append(PrivateRecommender(dc.Budget(epsilon, 1e-6), seed=0).fit(people))

        seconds, model = min(cpu_seconds(fit) for _ in range(3)), models[-1]
        histories = [people.indices[people.indptr[t] : people.indptr[t + 1]].tolist() for t in range(3000)]
        ask = partial(model.recommend_many, histories)
        ask()
        micro = min(cpu_seconds(ask) for _ in range(3)) / 3000 * 1e6
        found[str(n_items)] = [model.paired.size, model.rank_, round(seconds, 3), round(micro, 1)]
        print(f"{n_items} items ({model.paired.size} with pairs, rank {model.rank_}): fit {seconds:.2f} s")
        print(f"{target(seconds, most=most)}, recommend {micro:.0f} us{target(micro, most=60.0)}")
    return found


def large(people: Coverage) -> dict[str, Any]:
    """The gain over popularity, with and without noise."""
    found = {}
    for epsilon in (1.0, 3.0, math.inf):
        budget = dc.Budget(epsilon, 1e-6 if math.isfinite(epsilon) else 0.0)
        compared = compare_recommenders(people, budget, 5, seeds=SPLITS[:3], baselines=())
        found[f"{epsilon:g}"] = [round(compared.mean(one), 4) for one in ("popularity", "personal")]
        print(f"epsilon {epsilon:g}: popularity, personal {found[f'{epsilon:g}']}", flush=True)
    return found


def facts(folder: Path, name: str, labels: Any) -> np.ndarray[Any, Any]:
    """Public features of the items of a data set."""
    if name == "eshop_clicks":
        told = {
            row["model"]: f"cat{'abcd'[int(row['category']) - 1]} col{chr(96 + int(row['colour']))}"
            f" page{chr(96 + int(row['page']))} price{chr(97 + int(row['price']) // 10)}"
            for row in table_rows(folder, "eshop_clicks/clicks")
        }
    else:
        key, text = ("item_id", "title") if name == "msweb" else ("stock_code", "description")
        told = {row[key]: row[text] for row in table_rows(folder, f"{name}/items")}
    return word_features([told.get(str(label), "") for label in labels])


def featured(folder: Path, data: dict[str, Coverage]) -> dict[str, Any]:
    """With and without public features of items."""
    found = {}
    for name, people in data.items():
        about = facts(folder, name, people.labels)
        for epsilon in (1.0, 0.1):
            compared = compare_recommenders(
                people, dc.Budget(epsilon, 1e-6), 5, seeds=range(65, 70), baselines=(), features=about
            )
            found[f"{name}, epsilon={epsilon:g}"] = {
                one: round(compared.mean(one), 4) for one in compared.found
            }
            print(f"{name}, epsilon {epsilon:g}: {found[f'{name}, epsilon={epsilon:g}']}", flush=True)
    return found


def main() -> None:
    folder = arguments(__doc__, "needed").parse_args().folder
    data = {
        "eshop_clicks": eshop(folder),
        "msweb": msweb(folder),
        "online_retail": retail(folder),
        "groceries": baskets(folder, "groceries"),
    }
    record = {
        "offline": offline(data),
        "few people of eshop_clicks": few_people(data["eshop_clicks"]),
        "online": online(folder),
        "large: online_retail": large(data["online_retail"]),
        "features": featured(folder, {name: people for name, people in data.items() if name != "groceries"}),
        "speed": speed(),
    }
    store("personal", record)


if __name__ == "__main__":
    main()
