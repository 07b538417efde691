"""Time of private greedy beside the library's own greedy without privacy, and with a million people.

    python -m benchmarks.offline_speed [--quick]

Both are timed in one run, in turn, best of five, starting from a population whose columns have not been
looked up yet (building the population itself is not counted). Floors: at most twice the time of plain greedy
in the three cases, and under 10 seconds for a million people x 2,000 items with 20 entries each, k = 50.
Prints a table and stores benchmarks/results/offline_speed.json. ``--quick`` leaves the million out and stores
nothing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, target
from discreet.core.table import table
from discreet.objectives import ConcaveOverModular, Coverage, FacilityLocation, Population, greedy
from discreet.offline import PrivateGreedy
from tools.results import store

BUDGET = dc.Budget(1.0, 1e-6)
REPEATS = 5
MOST_RATIO, MOST_SECONDS = 2.0, 10.0


def cases() -> Iterator[tuple[str, int, Callable[[], Population]]]:
    rng = np.random.default_rng(0)
    places = rng.random((5_000, 3))
    near = np.exp(-20.0 * ((places[:, None] - places[None]) ** 2).sum(axis=2))
    yield "facility location, 5,000 x 5,000, dense", 50, lambda: FacilityLocation(near)
    tastes = sp.random_array((100_000, 500), density=0.02, rng=1, format="csr")
    tastes.data /= 20.0
    yield (
        "concave over modular, 100,000 x 500, 10 each",
        100,
        lambda: ConcaveOverModular(tastes, bound=2.0),
    )
    visits = sp.random_array((20_000, 5_000), density=0.002, rng=2, format="csr")
    visits.data[:] = 1.0
    yield "coverage, 20,000 x 5,000, 10 each", 100, lambda: Coverage(visits)


def private(people: Population, k: int, seed: int) -> float:
    """Seconds of one private selection."""
    # Everybody is looked at: a sample would be quicker.
    chooser = PrivateGreedy(k, BUDGET, "decomposable", bound=people.bound, seed=seed)
    start = time.perf_counter()
    chooser.select(people)
    return time.perf_counter() - start


def plain(people: Population, k: int) -> float:
    """Seconds of one selection without privacy."""
    start = time.perf_counter()
    greedy(people, k)
    return time.perf_counter() - start


def million() -> Population:
    rng = np.random.default_rng(3)
    n_people, n_items, each = 1_000_000, 2_000, 20
    # Popular items first; a row may name an item twice, which counts once.
    items = (n_items * rng.random((n_people, each)) ** 2).astype(np.int32)
    ends = np.arange(0, n_people * each + 1, each)
    matrix = sp.csr_array((np.ones(items.size), items.reshape(-1), ends), shape=(n_people, n_items))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return Coverage(matrix)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="two repeats, no million, nothing stored")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", UserWarning)
    rows, record = [], {}
    for name, k, make in cases():
        warm = make()
        plain(warm, 2)
        private(warm, 2, 0)
        times = [(plain(make(), k), private(make(), k, seed)) for seed in range(2 if quick else REPEATS)]
        without, within = (min(column) for column in zip(*times, strict=True))
        ratio = within / without
        mark = target(ratio, most=MOST_RATIO)
        rows.append([f"{name}, k = {k}", f"{without:.4f}", f"{within:.4f}", f"{ratio:.2f}{mark}"])
        record[name] = {
            "k": k,
            "greedy_s": round(without, 5),
            "private_s": round(within, 5),
            "ratio": round(ratio, 3),
        }
        print(f"  {rows[-1]}", flush=True)
    if not quick:
        people = million()
        seconds = private(people, 50, 0)
        mark = target(seconds, most=MOST_SECONDS)
        rows.append(["coverage, 1,000,000 x 2,000, 20 each, k = 50", "", f"{seconds:.2f}{mark}", ""])
        record["a million people"] = {"k": 50, "private_s": round(seconds, 3)}
    print(table(["case", "greedy, s", "private greedy, s", "ratio"], rows))
    if not quick:
        store("offline_speed", record)


if __name__ == "__main__":
    main()
