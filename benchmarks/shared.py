"""What benchmark scripts share: arguments, clocks, plots and data sets. `tools.results` stores results.

Scripts run as modules from the root of a checkout, for example ``python -m benchmarks.bandit FOLDER``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.objectives import Coverage
from tools.results import ROOT, exponent

IMAGES = ROOT / "docs" / "images"
EACH = 50  # items per person of `sparse_stream`

Work = Callable[[], object]


def arguments(doc: str | None, folder: str | None = None) -> argparse.ArgumentParser:
    """A parser of a script's options; ``folder`` of the data sets is "needed", "optional" or not taken."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if folder is not None:
        nargs = "?" if folder == "optional" else None
        parser.add_argument("folder", type=Path, nargs=nargs, help="folder of the data sets")
    return parser


# --- clocks -----------------------------------------------------------------------------------------


def cpu_seconds(work: Work) -> float:
    """Processor time of this process: other work on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def race(rivals: dict[str, tuple[Callable[[], Work], int]], repeats: int) -> dict[str, float]:
    """The least processor seconds per round of each rival, taken in turn.

    A rival is (prepare, rounds): what ``prepare`` does before it returns the work is not timed.
    """
    best = dict.fromkeys(rivals, math.inf)
    for _ in range(repeats):
        for name, (prepare, rounds) in rivals.items():
            best[name] = min(best[name], cpu_seconds(prepare()) / rounds)
    return best


def machine() -> dict[str, Any]:
    """The versions, cores and load that timings depend on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return versions | {"cores": os.cpu_count(), "load": load}


# --- numbers ----------------------------------------------------------------------------------------


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def target(value: float, least: float | None = None, most: float | None = None, digits: int = 2) -> str:
    """The target range beside a measured value, and whether it was missed; nothing without one."""
    if least is None and most is None:
        return ""
    kind = "at most" if least is None else "at least" if most is None else "between"
    ends = " and ".join(f"{end:,.{digits}f}" for end in (least, most) if end is not None)
    missed = (least is not None and value < least) or (most is not None and value > most)
    return f" ({kind} {ends}{' MISSED' if missed else ''})"


# --- plots ------------------------------------------------------------------------------------------


def pyplot() -> Any:
    """Matplotlib for files, or None (and a word about it) where it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed: no plot")
        return None
    mpl.use("agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, image: str) -> None:
    """Write docs/images/``image``, without a date, so that equal figures are equal files."""
    IMAGES.mkdir(exist_ok=True)
    stamp = {"Date": None} if image.endswith("svg") else {"Software": None}
    figure.savefig(IMAGES / image, bbox_inches="tight", dpi=120, metadata=stamp)


def growth_plot(
    curves: dict[str, dict[str, Any]], image: str, ylabel: str, title: str, guide: float | None = None
) -> None:
    """Regret over rounds of each curve on log-log axes with its exponent; ``guide`` draws guide * sqrt(T)."""
    if (plt := pyplot()) is None:
        return
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for (name, curve), mark in zip(curves.items(), "osD^vPX", strict=False):
        label = f"{name} (exponent {exponent(curve['rounds'], curve['regret']):.2f})"
        axes.loglog(curve["rounds"], curve["regret"], marker=mark, label=label)
    if guide is not None:
        rounds = np.array(next(iter(curves.values()))["rounds"], dtype=float)
        axes.loglog(rounds, guide * np.sqrt(rounds), color="grey", linestyle=":", label="exponent 0.50")
    axes.set(xlabel="rounds", ylabel=ylabel, title=title)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    save(figure, image)


# --- people -----------------------------------------------------------------------------------------


def sparse_stream(n_items: int, rounds: int) -> Coverage:
    """People with ``EACH`` distinct items, sorted, anywhere in the catalogue: the worst case for caches."""
    rng = np.random.default_rng(n_items)
    items = np.sort(rng.integers(0, n_items - EACH + 1, (rounds, EACH)), axis=1) + np.arange(EACH)
    ends = np.arange(0, rounds * EACH + 1, EACH)
    return Coverage(sp.csr_array((np.ones(items.size), items.ravel(), ends), shape=(rounds, n_items)))


def rows_of(people: Coverage, count: int) -> list[Any]:
    """The items of each of the first people."""
    return [people.indices[people.indptr[t] : people.indptr[t + 1]] for t in range(count)]


def msweb(folder: Path) -> Coverage:
    """Visitors of msweb and the areas that they looked at, in a random order (fixed seed)."""
    people = Coverage.from_events(folder / "msweb" / "visits.csv.gz", person="user_id", item="item_id")
    return people[np.random.default_rng(0).permutation(len(people))]


def eshop(folder: Path, item: str = "model") -> Coverage:
    """Sessions of eshop_clicks in the order of their first click, and the products (or colours) clicked."""
    return Coverage.from_events(folder / "eshop_clicks" / "clicks.csv.gz", person="session_id", item=item)


def retail(folder: Path) -> Coverage:
    """Customers of online_retail and the products that they bought, in a random order (fixed seed)."""
    rows = table_rows(folder, "online_retail/lines")
    bought = [r for r in rows if r["customer_id"] and not r["invoice"].startswith("C")]
    events = {name: [r[name] for r in bought] for name in ("customer_id", "stock_code")}
    people = Coverage.from_events(events, person="customer_id", item="stock_code")
    return people[np.random.default_rng(0).permutation(len(people))]


def eshop_products(folder: Path, people: Coverage) -> tuple[list[int], list[float]]:
    """The category (from 0) and the price of each product of `eshop`."""
    facts = {
        r["model"]: (int(r["category"]) - 1, float(r["price"]))
        for r in table_rows(folder, "eshop_clicks/clicks")
    }
    assert people.labels is not None
    categories, prices = zip(*(facts[str(model)] for model in people.labels), strict=True)
    return list(categories), list(prices)


def adult(folder: Path) -> tuple[Any, Any]:
    """The table of adult in a random order (fixed seed), and who earns more than 50K."""
    import pandas as pd

    people = pd.read_csv(folder / "adult" / "adult.csv.gz")
    people = people.iloc[np.random.default_rng(0).permutation(len(people))]
    return people, (people["income"].str.strip() == ">50K").to_numpy()


def table_rows(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of ``name``.csv.gz."""
    with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))
