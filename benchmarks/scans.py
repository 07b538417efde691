"""Private greedy on a store of people beside the same people in memory, and rounds of a Dask cluster.

    python -m benchmarks.scans [--people 5 6 7 8]

10^6 people (``--people`` has the exponents) x 2,000 items with up to 20 entries each, k = 50. Each way runs
in processes of its own, in turn, best of three (two for ten million); 10^7 people in memory take about 10 GB
of it, and more than that only the store holds (10^8: 6 GB of disk). Building the population in memory and
opening the store are told apart from the selection. Memory is the most that a process had in use beyond what
is mapped from files, which the system may drop. A Dask round is one pass of two worker processes over 10^6
people, as the driver sees it.
Floors: on ten million people the selection is not slower than in memory, with a tenth of the memory; a Dask
round takes less than 60 ms on a million; the time per person is constant within a factor of 2 from 10^5 to
10^8. Prints a table and stores benchmarks/results/scans.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet as dc
from benchmarks.shared import arguments, machine, target
from discreet.core.text import table
from discreet.data.store import Bucket, Store, write_bucket, write_labels, write_manifest
from discreet.objectives import Coverage
from discreet.offline import PrivateGreedy
from tools.results import store as keep
from tools.results import stored

N_ITEMS, EACH, K = 2_000, 20, 50
MOST_ROUND_MS = 60.0
MOST_IN_MEMORY = 7  # the exponent of the most people who are held in memory for comparison


def write(path: Path, n_people: int, buckets: int) -> None:
    """A store of random people: items by a power law, so that some are in every tenth row."""
    path.mkdir()
    law = ((np.arange(1 << 16) / (1 << 16)) ** 2.5 * N_ITEMS).astype(np.uint16)
    parts, step = [], (1 << 63) // (n_people // buckets + 1) // buckets * buckets
    for number in range(buckets):
        rng, count = np.random.default_rng(number), n_people // buckets
        drawn = np.sort(law[rng.integers(0, 1 << 16, (count, EACH), dtype=np.uint16)], axis=1)
        fresh = np.diff(drawn, axis=1, prepend=np.uint16(N_ITEMS)) != 0
        ends = np.concatenate(([0], np.cumsum(fresh.sum(axis=1)))).astype(np.int64)
        keys = (np.arange(count, dtype=np.uint64) * np.uint64(step)) + np.uint64(number)
        parts.append(write_bucket(path / f"bucket-{number:05d}", Bucket(keys, ends, drawn[fresh])))
    manifest = {
        "format": "discreet-people", "version": 1, "buckets": buckets, "key_id": "none", "weighted": False,
        "highest": None, "cap": None, "catalogue": "public", "parts": parts,
        "labels": write_labels(path, tuple(range(N_ITEMS))),
    }  # fmt: skip
    write_manifest(path, manifest)


def in_memory(store: Store) -> Coverage:
    """The same people in one process."""
    buckets = list(store.buckets())
    items = np.concatenate([np.asarray(one.items) for one in buckets]).astype(np.int32)
    lengths = np.concatenate([np.diff(one.ends) for one in buckets])
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return Coverage(sp.csr_array((np.ones(items.size, dtype=np.int8), items, ends), (lengths.size, N_ITEMS)))


class Memory:
    """The most megabytes that this process had in use beyond mapped files, looked at all the time."""

    def __init__(self) -> None:
        self.most, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            status = Path("/proc/self/status").read_text()
            used = int(status.split("RssAnon:")[1].split()[0]) / 1024.0
            self.most = max(self.most, used)

    def end(self) -> float:
        self._done.set()
        self._thread.join()
        return self.most


def one_run(path: Path, way: str) -> dict[str, Any]:
    """What a process of its own does: load, select, tell."""
    with tempfile.TemporaryDirectory() as folder:  # everything is compiled before the clock
        write(Path(folder) / "few", 200, 2)
        few = Store.open(Path(folder) / "few")
        for people in (in_memory(few), Coverage.from_store(few)):
            PrivateGreedy(2, dc.Budget(1.0, 1e-6), "decomposable", seed=1).select(people)
    store, memory = Store.open(path), Memory()
    start = time.perf_counter()
    people = in_memory(store) if way == "memory" else Coverage.from_store(store)
    loaded = time.perf_counter()
    processor = time.process_time()
    chosen = PrivateGreedy(K, dc.Budget(1.0, 1e-6), "decomposable", seed=1).select(people)
    done = time.perf_counter()
    return {
        "load": loaded - start,
        "select": done - loaded,
        "processor": time.process_time() - processor,
        "megabytes": memory.end(),
        "items": list(chosen.items),
    }


def dask_rounds(path: Path) -> dict[str, float]:
    """Milliseconds of one pass by two workers."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        rows = Coverage.from_store(Store.open(path), client).row_source()
        taken = []
        for item in range(100, 130):
            start = time.perf_counter()
            rows.change((1, 2, 3), item, 2.0**30, 2.0**30)
            taken.append(1e3 * (time.perf_counter() - start))
    return {"least": min(taken), "median": float(np.median(taken))}


def race(path: Path, ways: tuple[str, ...], repeats: int) -> dict[str, dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for way in ways:
            command = [sys.executable, "-m", "benchmarks.scans", "--one", str(path), way]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if way not in best or found["select"] < best[way]["select"]:
                best[way] = found
    assert len({tuple(one.pop("items")) for one in best.values()}) == 1
    return best


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[6], help="exponents of numbers of people")
    parser.add_argument("--folder", type=Path, help="where stores are written")
    parser.add_argument("--one", nargs=2, metavar=("PATH", "WAY"), help="one run, for this script itself")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_run(Path(options.one[0]), options.one[1])))
        return
    results: dict[str, Any] = stored("scans") | {"machine": machine()}
    rows = []
    for power in options.people:
        count = 10**power
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / "people"
            write(path, count, max(8, count // 250_000))
            ways = ("memory", "threads") if power <= MOST_IN_MEMORY else ("threads",)
            found = results[f"{count}"] = race(path, ways, 3 if power < 7 else 2 if power == 7 else 1)
            if power == 6:
                results["dask"] = dask_rounds(path)
        for way, one in found.items():
            one["microseconds_per_person"] = 1e6 * one["processor"] / count
            shown = [f"{one[name]:.2f}" for name in ("load", "select", "processor")]
            rows.append([f"{count:,}", way, *shown, f"{one['megabytes']:,.0f}", ""])
        if len(ways) == 2:
            memory, threads, large = found["memory"], found["threads"], power == MOST_IN_MEMORY
            ratio = threads["select"] / memory["select"]
            share = threads["megabytes"] / memory["megabytes"]
            rows[-1][-1] = target(ratio, most=1.0 if large else None) + target(
                share, most=0.1 if large else None
            )
            results[f"{count}"] |= {"time_ratio": ratio, "memory_ratio": share}
    print(table(["people", "way", "load, s", "select, s", "processor, s", "MB", ""], rows))
    told = [one["threads"] for name, one in results.items() if name.isdigit()]
    each = [one["microseconds_per_person"] for one in told if "microseconds_per_person" in one]
    print("microseconds per person:", ", ".join(f"{one:.2f}" for one in each))
    print("most to least:", target(max(each) / min(each), most=2.0))
    if "dask" in results:
        dask = results["dask"]
        said = target(dask["median"], most=MOST_ROUND_MS)
        shown = f"{dask['median']:.0f} ms (least {dask['least']:.0f})"
        print(f"a Dask round, two workers, 1,000,000 people: {shown} {said}")
    made = [str(10**power) for power in options.people] + (["dask"] if 6 in options.people else [])
    keep("scans", results, ["machine", *made])


if __name__ == "__main__":
    main()
