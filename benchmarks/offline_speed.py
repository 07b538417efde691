"""Time of private greedy beside the library's own greedy without privacy, and with a million people.

    python -m benchmarks.offline_speed [--quick | --functions]

Both are timed in one run, in turn, best of five, starting from a population whose columns have not been
looked up yet (building the population itself is not counted). Floors: at most twice the time of plain greedy
in the three cases, and under 10 seconds for a million people x 2,000 items with 20 entries each, k = 50.
A concave function in Python is timed beside asking the same people one by one, in processor time: at most a
fifth of it. Prints a table and stores benchmarks/results/offline_speed.json. ``--quick`` leaves the
million out and stores nothing; ``--functions`` times and stores the function only.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, target
from discreet.core.text import table
from discreet.objectives import ConcaveOverModular, Coverage, FacilityLocation, Population, greedy
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import PrivateGreedy
from tools.results import store, stored

BUDGET = dc.Budget(1.0, 1e-6)
REPEATS = 5
MOST_RATIO, MOST_SECONDS, LEAST_SPEEDUP = 2.0, 10.0, 5.0
FUNCTION = "concave over modular with a function in Python, 5,000 x 100, 5 each"


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
    selector = PrivateGreedy(k, BUDGET, "decomposable", bound=people.bound, seed=seed)
    start = time.perf_counter()
    selector.select(people)
    return time.perf_counter() - start


def plain(people: Population, k: int) -> float:
    """Seconds of one selection without privacy."""
    start = time.perf_counter()
    greedy(people, k)
    return time.perf_counter() - start


def function() -> dict[str, float]:
    """Scores of five picks under a concave function in Python: by rows, and of people asked one by one."""
    tastes = sp.random_array((5_000, 100), density=0.05, rng=4, format="csr")
    people = ConcaveOverModular(tastes, concave=np.sqrt, bound=4.0)
    unit, k = step(people.bound, len(people)), 5

    def seconds(make: Callable[[], FixedPointGains]) -> float:
        start = time.process_time()
        growing = make()
        for _ in range(k):
            growing.add(int(np.argmax(growing.scores())))
        return time.process_time() - start

    every = list(people)
    pairs = [
        (
            seconds(lambda: FixedPointGains.over(people, people.bound, unit)),
            seconds(lambda: FixedPointGains(people.n_items, [], every, unit, people.bound)),
        )
        for _ in range(2)
    ]
    rows, one_by_one = (min(column) for column in zip(*pairs, strict=True))
    speedup = one_by_one / rows
    print(f"{FUNCTION}: {speedup:.1f} times as fast as one by one{target(speedup, least=LEAST_SPEEDUP)}")
    start = time.process_time()
    private(people, k, 0)
    return {"k": k, "private_s": round(time.process_time() - start, 3), "one_by_one_ratio": round(speedup, 1)}


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
    parser.add_argument("--functions", action="store_true", help="the function in Python only")
    options = parser.parse_args()
    quick = options.quick
    warnings.simplefilter("ignore", UserWarning)
    if options.functions:
        store("offline_speed", stored("offline_speed") | {FUNCTION: function()}, [FUNCTION])
        return
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
        record[FUNCTION] = function()
    print(table(["case", "greedy, s", "private greedy, s", "ratio"], rows))
    if not quick:
        store("offline_speed", record)


if __name__ == "__main__":
    main()
