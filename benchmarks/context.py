"""Does public context pay? One learner for all, `Segments`, and a linear model of context (not shipped).

    python -m benchmarks.context FOLDER

Sessions of eshop_clicks (country, weekday, month), and invoices of online_retail with the 300 goods that
occur most (country, weekday, month, part of the day), in the order of time, k = 5, delta 1e-6, one person
replaced, five seeds. Values with fewer than 500 people are one. Share of people of whom any item is shown.

"Short": the first batch is shorter by the root of the number of segments, as `Segments` advises.

The linear model regresses what people have (unit vectors u) on their public context c, of length 1: an
intercept of weight a, and one entry for each value. The sum of c u' is released at the ends of batches like
those of a `LeaderSelector`, with the noise of one running sum (each release with its own deviation, drawn
anew); the matrix of contexts is public. a and the ridge were tried in four combinations, all of which are
stored. "Intercept" is the same without context: what context adds is the difference to it. Stores
benchmarks/results/context.json.
"""

from __future__ import annotations

import datetime
import math
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, table_rows
from discreet.core.text import table
from discreet.online import LeaderSelector, Segments
from discreet.online.sums import first_batch, geometric_ends
from discreet.privacy import SumSpec, VectorBounds
from tools.results import store

K, SEEDS, LEAST, PRODUCTS = 5, range(5), 500, 300
TRIED = [(a, ridge) for a in (0.5, 0.95) for ridge in (300.0, 3000.0)]
Rows = list[list[int]]
Columns = dict[str, list[str]]


def eshop(folder: Path) -> tuple[Rows, Columns]:
    """Products of sessions, and what is public about each session."""
    items: dict[str, int] = {}
    rows: dict[str, dict[int, None]] = {}
    context: dict[str, dict[str, str]] = {}
    for row in table_rows(folder, "eshop_clicks/clicks"):
        session, day = row["session_id"], datetime.date.fromisoformat(row["date"])
        rows.setdefault(session, {})[items.setdefault(row["model"], len(items))] = None
        context.setdefault(
            session, {"country": row["country"], "weekday": str(day.weekday()), "month": str(day.month)}
        )
    return [list(one) for one in rows.values()], merged(list(context.values()))


def retail(folder: Path) -> tuple[Rows, Columns]:
    """Products of invoices, and what is public about each invoice.

    Codes that begin with a letter are no goods: postage abroad would say which country it is, and no taste.
    """
    rows: dict[str, set[str]] = {}
    context: dict[str, dict[str, str]] = {}
    for row in table_rows(folder, "online_retail/lines"):
        if not row["invoice"].startswith("C") and row["stock_code"][0].isdigit():
            at = datetime.datetime.fromisoformat(row["datetime"])
            rows.setdefault(row["invoice"], set()).add(row["stock_code"])
            facts = {"country": row["country"], "weekday": str(at.weekday()), "month": str(at.month)}
            context.setdefault(row["invoice"], facts | {"hours": str(at.hour // 4)})
    most = Counter(item for one in rows.values() for item in sorted(one)).most_common(PRODUCTS)
    numbers = {item: place for place, (item, _) in enumerate(most)}
    found = [sorted(numbers[item] for item in one if item in numbers) for one in rows.values()]
    kept = [(one, facts) for one, facts in zip(found, context.values(), strict=True) if one]
    return [one for one, _ in kept], merged([facts for _, facts in kept])


def merged(context: list[dict[str, str]]) -> Columns:
    """Values by attribute, the rare ones as one."""
    found = {}
    for name in context[0]:
        counts = Counter(one[name] for one in context)
        found[name] = [one[name] if counts[one[name]] >= LEAST else "other" for one in context]
    return found


def served(rows: Rows, choose: Any, learner: Any) -> float:
    hits = 0
    for t, items in enumerate(rows):
        hits += not set(choose(t).items).isdisjoint(items)
        learner.learn(items=items)
    return hits / len(rows)


def one_for_all(rows: Rows, n_items: int, budget: dc.Budget, seed: int) -> float:
    learner = LeaderSelector(n_items, K, None, budget, seed=seed)
    return served(rows, lambda _: learner.choose(), learner)


def segments(
    rows: Rows, n_items: int, budget: dc.Budget, seed: int, *, values: list[str], short: bool = False
) -> float:
    names, make = sorted(set(values)), partial(LeaderSelector, n_items, K, None)
    if short:
        first = make(budget).settings.first_batch
        make = partial(make, first_batch=max(K, int(first / math.sqrt(len(names)))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few people in a segment
        learner = Segments(make, names, budget, seed=seed, by="context")
    return served(rows, lambda t: learner.choose(values[t]), learner)


def linear(
    rows: Rows, n_items: int, budget: dc.Budget, seed: int, *, columns: Columns, a: float, ridge: float
) -> float:
    rng, people = np.random.default_rng(seed), len(rows)
    context = contexts(columns, people, a)
    bounds = VectorBounds(n_items * context.shape[1], 2, 1.0, (0.0, 1.0))
    spec = SumSpec(bounds, 100, "sqrt")
    sigma = float(spec.event(budget.share()).sigma)  # type: ignore[attr-defined]
    ends = [end for end in geometric_ends(first_batch(sigma * spec.error(1)), None) if end < people]
    units = np.zeros((people, n_items))
    for t, items in enumerate(rows):
        units[t, items] = 1.0 / math.sqrt(len(items))
    kinds, kind = np.unique(context, axis=0, return_inverse=True)
    best = np.tile(rng.permutation(n_items)[:K], (len(kinds), 1))
    sums, gram = np.zeros((context.shape[1], n_items)), np.zeros((context.shape[1],) * 2)
    hits = begin = 0
    for count, end in enumerate([*ends, people], 1):
        hits += sum(not set(rows[t]).isdisjoint(best[kind[t]].tolist()) for t in range(begin, end))
        own = context[begin:end]
        sums, gram, begin = sums + own.T @ units[begin:end], gram + own.T @ own, end
        noisy = sums + rng.normal(size=sums.shape) * sigma * spec.error(min(count, 100))
        weights = np.linalg.solve(gram + np.diag([1e-6] + [ridge] * (len(gram) - 1)), noisy)
        best = np.argsort(-(kinds @ weights), axis=1)[:, :K]
    return hits / people


def contexts(columns: Columns, people: int, a: float) -> np.ndarray[Any, Any]:
    """A row of length 1 for each person: the intercept, and an entry for each value."""
    parts = [np.full((people, 1), math.sqrt(a if columns else 1.0))]
    for values in columns.values():
        names = sorted(set(values))
        own = np.zeros((people, len(names)))
        own[np.arange(people), [names.index(value) for value in values]] = math.sqrt((1.0 - a) / len(columns))
        parts.append(own)
    return np.hstack(parts)


def main() -> None:
    folder = arguments(__doc__, "needed").parse_args().folder
    record: dict[str, Any] = {}
    for name, (rows, columns) in {"eshop_clicks": eshop(folder), "online_retail": retail(folder)}.items():
        n_items = 1 + max(max(one) for one in rows)
        country = {"country": columns["country"]}
        ways: dict[str, Any] = {"one for all": one_for_all}
        ways |= {f"segments, {one}": partial(segments, values=values) for one, values in columns.items()}
        ways["segments, country, short"] = partial(segments, values=columns["country"], short=True)
        ways["linear, intercept"] = partial(linear, columns={}, a=1.0, ridge=1.0)
        for what, some in (("country", country), ("all", columns)):
            for a, ridge in TRIED:
                way = partial(linear, columns=some, a=a, ridge=ridge)
                ways[f"linear, {what}, a {a:g}, ridge {ridge:g}"] = way
        for epsilon in (1.0, 0.3):
            budget = dc.Budget(epsilon, 1e-6)
            found = {one: [way(rows, n_items, budget, seed) for seed in SEEDS] for one, way in ways.items()}
            record[f"{name}, epsilon={epsilon:g}"] = {
                one: np.round(g, 4).tolist() for one, g in found.items()
            }
            lines = [
                [one, f"{np.mean(g):.4f}", f"{np.std(g, ddof=1) / math.sqrt(len(g)):.4f}"]
                for one, g in found.items()
            ]
            print(f"{name}, epsilon {epsilon:g}\n{table(['', 'served', '+-'], lines)}", flush=True)
    store("context", record)


if __name__ == "__main__":
    main()
