"""Dense objectives on a GPU beside the library's own paths on the same machine's processor.

    python -m benchmarks.gpu            (on a machine with a GPU of NVIDIA's, torch and Triton)
    python -m benchmarks.gpu --cpu      (embeddings beside a stored similarity matrix, on two cores)

The first stores the machine, versions, and ceilings that are measured in the same run: a product of bytes in
the tensor units, and memory bandwidth by a copy. Embeddings are clustered vectors of length 1, d = 64, in
bytes. The path on the processor is measured on a tenth of the people and scaled by ten: every pass of it is a
loop over people. The second adds its rows to the same file. Floors are those printed beside the figures.
Prints a table and stores benchmarks/results/gpu.json.
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import arguments, machine, target
from discreet.core.text import table
from discreet.objectives import (
    ConcaveOverModular,
    EmbeddedFacilityLocation,
    FacilityLocation,
    LogDeterminant,
    Population,
    ProbabilisticCoverage,
)
from discreet.objectives import greedy as greedy_choice
from discreet.objectives.devices import GainSums
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import PrivateGreedy
from tools.results import store, stored

WIDTH, K, SCALE = 64, 50, 0.5
FLOORS = {
    "greedy": 100.0,
    "fused pass": 0.35,
    "stored pass": 0.45,
    "log-determinant": 100.0,
    "two cores": 1.0,
    "memory": 100.0,
}


def embeddings(count: int, seed: int) -> np.ndarray:
    """Vectors of length 1 around 300 centres, as bytes of 0.5 / 128."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(300, WIDTH)).astype(np.float32)
    found = np.empty((count, WIDTH), dtype=np.int8)
    for start in range(0, count, 100_000):
        here = slice(start, min(start + 100_000, count))
        drawn = centres[rng.integers(0, 300, here.stop - start)]
        drawn += 0.8 * rng.standard_normal(drawn.shape, dtype=np.float32)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        found[here] = np.clip(np.rint(drawn * (128 / SCALE)), -128, 127)
    return found


def choose(people: Population, k: int, bound: float = 1.0) -> tuple[float, list[int]]:
    """Seconds of one whole private selection, and what was chosen."""
    selector = PrivateGreedy(k, dc.Budget(1.0, 1e-6), "decomposable", bound=bound, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a small budget, where few people warm up
        start = time.perf_counter()
        chosen = selector.select(people)
        return time.perf_counter() - start, list(chosen.items)


# --- the GPU ------------------------------------------------------------------------------------------------


def milliseconds(work: Callable[[], Any], repeats: int = 10) -> float:
    """The median by the device's own clock, after two rounds of warming up."""
    import torch

    taken = []
    for _ in range(repeats + 2):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        work()
        last.record()
        last.synchronize()
        taken.append(first.elapsed_time(last))
    return float(np.median(taken[2:]))


def ceilings() -> dict[str, float]:
    """Operations a second of a product of bytes, and bytes a second of a copy, read and written."""
    import torch

    size = 8192
    a, b = (torch.randint(-128, 128, (size, size), dtype=torch.int8, device="cuda") for _ in range(2))
    product = 2 * size**3 / milliseconds(lambda: torch._int_mm(a, b.t()), 30) * 1e3
    here = torch.randn(1 << 30, device="cuda")
    there = torch.empty_like(here)
    copy = 2 * here.nbytes / milliseconds(lambda: there.copy_(here), 30) * 1e3
    return {"int8_operations": product, "bytes": copy}


def greedy(n_people: int, n_items: int) -> dict[str, Any]:
    """Whole selections over embeddings, on the GPU for everybody and on the processor for a tenth."""
    import torch

    people, items = embeddings(n_people, 1), embeddings(n_items, 2)
    made = EmbeddedFacilityLocation(people, items, scale=SCALE, backend="torch")
    part = EmbeddedFacilityLocation(people[::10], items, scale=SCALE)
    few = EmbeddedFacilityLocation(people[:1000], items[:500], scale=SCALE)
    choose(few, 3)  # compiles
    choose(made, 3)
    torch.cuda.reset_peak_memory_stats()
    fast = [choose(made, K) for _ in range(3)]
    slow, chosen = choose(part, K)
    growing = made.row_source().growing(2.0**20, 2.0**20)
    sums = np.zeros(n_items)
    growing.begin(sums)
    for item in fast[0][1]:
        growing.choose(item, sums)
    rows = made.row_source()
    low, span = rows.fresh(), rows.fresh() + rows.cap
    one = milliseconds(lambda: rows.device.product_sums(rows.people, rows.items, low, span, None, rows.tile))
    seconds = min(s for s, _ in fast)
    return {
        "people": n_people,
        "items": n_items,
        "k": K,
        "gpu_seconds": seconds,
        "cpu_seconds_of_a_tenth": slow,
        "cpu_seconds_scaled": 10 * slow,
        "ratio": 10 * slow / seconds,
        "same_items_on_the_tenth": choose(
            EmbeddedFacilityLocation(people[::10], items, scale=SCALE, backend="torch"), K
        )[1]
        == chosen,
        "passes": growing.looked_at / n_people,
        "device_gigabytes": torch.cuda.max_memory_allocated() / 1e9,
        "pass_ms": one,
        "pass_operations": 2.0 * n_people * n_items * WIDTH,
    }


def dense(size: int) -> dict[str, Any]:
    """One pass over a stored matrix, in 64 and in 32 bits, facility location and a concave function."""
    import torch

    found: dict[str, Any] = {"size": size}
    for name, kind in (("float64", torch.float64), ("float32", torch.float32)):
        weights = torch.rand((size, size), dtype=kind, device="cuda") / size
        for family in (FacilityLocation, ConcaveOverModular):
            rows: Any = family.from_array(weights).row_source()
            state, left = (
                rows.device.zeros(size, "float64") + 1e-6,
                rows.device.zeros(size, "float64") + 2.0**36,
            )
            numbers = (state, left, rows.caps)
            asked = GainSums(rows.kind.code, rows.matrix, numbers, 1.0, 2.0**36, rows.tile)
            taken = milliseconds(partial(rows.device.gain_sums, asked))
            found[f"{family.__name__} {name}"] = {"ms": taken, "bytes": weights.nbytes}
            del rows
    return found


def cpu_dense(size: int) -> dict[str, float]:
    """The library's own loop over the same matrix in memory, and ours on all cores."""
    matrix = np.random.default_rng(0).random((size, size)) / size
    found = {}
    for name, people in (
        ("one thread", FacilityLocation(matrix)),
        ("threads", FacilityLocation.from_array(matrix)),
    ):
        FixedPointGains.over(people, 1.0, step(1.0, size))
        start = time.perf_counter()
        FixedPointGains.over(people, 1.0, step(1.0, size))
        found[name] = 1e3 * (time.perf_counter() - start)
    return found


def log_determinant(n_people: int, n_items: int, k: int) -> dict[str, Any]:
    import torch

    rng = np.random.default_rng(3)
    points = rng.normal(size=(n_items, 32)) / np.sqrt(32)
    kernel, quality = points @ points.T + 1e-6 * np.eye(n_items), rng.random((n_people, n_items)) * 0.1
    bound = 40.0
    fast_people = LogDeterminant(kernel, quality, backend="torch", bound=bound)
    choose(fast_people, 2, bound)
    fast, chosen = min(choose(fast_people, k, bound) for _ in range(3))
    memory = torch.cuda.max_memory_allocated() / 1e9
    people = LogDeterminant(kernel, quality, bound=bound)
    start = time.perf_counter()
    greedy_choice(people, k)  # not private: the library's quickest, which keeps factors from pick to pick
    slow = time.perf_counter() - start
    arrays, same = choose(LogDeterminant(kernel, quality, bound=bound), k, bound)
    return {
        "people": n_people,
        "items": n_items,
        "k": k,
        "gpu_seconds": fast,
        "cpu_seconds": slow,
        "cpu_seconds_from_array": arrays,
        "ratio": min(slow, arrays) / fast,
        "same_items": same == chosen,
        "device_gigabytes": memory,
    }


def gradient(n_people: int, n_items: int) -> dict[str, Any]:
    """A multilinear gradient of everybody in whole steps, on the GPU and by the library's loops in memory."""
    import torch

    weights = torch.rand((n_people, n_items), dtype=torch.float64, device="cuda")
    x, per_unit = np.linspace(0.1, 0.9, n_items), 2.0**28
    found: dict[str, Any] = {"people": n_people, "items": n_items}
    for family in (ProbabilisticCoverage, FacilityLocation):
        rows: Any = family.from_array(weights).row_source()
        fast = milliseconds(lambda r=rows: r.gradient_steps(x, per_unit, 1 << 28, 0, 2))
        gpu = rows.gradient_steps(x, per_unit, 1 << 28, 0, 2)
        part = family(weights[: n_people // 10].cpu().numpy())
        out = np.zeros(n_items, dtype=np.int64)
        inside = np.zeros((0, n_items), dtype=np.bool_)
        stored_rows = part.as_rows()
        stored_rows.add_gradients(x, inside, per_unit, 1 << 28, out, 0, stored_rows.n_rows)
        start = time.perf_counter()
        out[:] = 0
        stored_rows.add_gradients(x, inside, per_unit, 1 << 28, out, 0, stored_rows.n_rows)
        slow = 1e4 * (time.perf_counter() - start)
        same = family.from_array(weights[: n_people // 10]).row_source()
        found[family.__name__] = {
            "gpu_ms": fast,
            "cpu_ms_scaled_one_thread": slow,
            "ratio": slow / fast,
            "same_bits_on_a_tenth": bool(
                np.array_equal(same.gradient_steps(x, per_unit, 1 << 28, 0, 2), out)
            ),
            "total": int(gpu.sum()),
        }
    return found


def on_the_gpu(small: bool) -> dict[str, Any]:
    import torch
    import triton

    results: dict[str, Any] = {
        "machine": machine()
        | {
            "name": torch.cuda.get_device_name(),
            "processor": platform.processor() or platform.machine(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": torch.version.cuda,
        },
        "ceilings": ceilings(),
        "greedy": greedy(*((10**5, 10**4) if small else (10**6, 10**5))),
        "dense": dense(4000 if small else 20_000),
        "log-determinant": log_determinant(*((200, 500, 5) if small else (2000, 5000, 20))),
        "gradient": gradient(10**5 if small else 10**7, 20),
    }
    results["dense"]["cpu_ms"] = cpu_dense(4000 if small else 20_000)
    top, one = results["ceilings"], results["greedy"]
    floor = max(one["pass_operations"] / top["int8_operations"], 0.0)
    results["greedy"]["pass_share"] = floor / (1e-3 * one["pass_ms"])
    for entry in results["dense"].values():
        if isinstance(entry, dict) and "bytes" in entry:
            entry["share"] = entry["bytes"] / (1e-3 * entry["ms"]) / top["bytes"]
    return results


# --- two cores ----------------------------------------------------------------------------------------------

TWO_CORES = (40_000, 5_000, 20)


def one_way(way: str) -> dict[str, Any]:
    """What a process of its own does: build, select, tell."""
    n_people, n_items, k = TWO_CORES
    people, items = embeddings(n_people, 1), embeddings(n_items, 2)
    few = EmbeddedFacilityLocation(people[:200], items[:100], scale=SCALE)
    for one in (few, FacilityLocation(np.eye(9))):
        choose(one, 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor = time.perf_counter(), time.process_time()
    if way == "matrix":
        products = people.astype(np.float32) @ items.T.astype(np.float32)
        np.clip(products, 0.0, 65536.0, out=products)
        made: Population = FacilityLocation(products * 2.0**-16)
        del products
    else:
        made = EmbeddedFacilityLocation(people, items, scale=SCALE)
    _, chosen = choose(made, k)
    return {
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0,
        "items": chosen,
    }


def two_cores(repeats: int) -> dict[str, Any]:
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for way in ("matrix", "embedded"):
            command = [sys.executable, "-m", "benchmarks.gpu", "--one", way]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if way not in best or found["processor"] < best[way]["processor"]:
                best[way] = found
    assert best["matrix"].pop("items") == best["embedded"].pop("items")
    matrix, embedded = best["matrix"], best["embedded"]
    return {
        "machine": machine(),
        "people, items, k": list(TWO_CORES),
        **best,
        "ratio": matrix["seconds"] / embedded["seconds"],
        "processor_ratio": matrix["processor"] / embedded["processor"],
        "memory_ratio": matrix["megabytes"] / max(1.0, embedded["megabytes"]),
    }


# --- what is printed ----------------------------------------------------------------------------------------


def rows_of(results: dict[str, Any]) -> list[list[str]]:
    rows = []
    if "greedy" in results:
        one, deep = results["greedy"], results["log-determinant"]
        kept = results["dense"]["FacilityLocation float64"]
        size = f"{one['people']:,} x {one['items']:,}, k = {one['k']}"
        rows += [
            [f"private greedy, {size}, s", f"{one['gpu_seconds']:.3f}", f"{one['cpu_seconds_scaled']:.1f}",
             f"{one['ratio']:.0f}x " + target(one["ratio"], FLOORS["greedy"])],
            ["one fused pass, ms", f"{one['pass_ms']:.1f}", "",
             f"{one['pass_share']:.0%} of the ceiling " + target(one["pass_share"], FLOORS["fused pass"])],
            ["stored matrix, one pass, ms", f"{kept['ms']:.2f}",
             f"{results['dense']['cpu_ms']['one thread']:.0f}",
             f"{kept['share']:.0%} of bandwidth " + target(kept["share"], FLOORS["stored pass"])],
            ["log-determinant, s", f"{deep['gpu_seconds']:.3f}", f"{deep['cpu_seconds']:.1f}",
             f"{deep['ratio']:.0f}x " + target(deep["ratio"], FLOORS["log-determinant"])],
        ]  # fmt: skip
        for name in ("ProbabilisticCoverage", "FacilityLocation"):
            slope = results["gradient"][name]
            rows.append(
                [f"gradient, {name}, ms", f"{slope['gpu_ms']:.1f}",
                 f"{slope['cpu_ms_scaled_one_thread']:.0f}", f"{slope['ratio']:.0f}x"]
            )  # fmt: skip
    if "two cores" in results:
        one = results["two cores"]
        for name, floor in (("ratio", "two cores"), ("memory_ratio", "memory")):
            what = "time" if name == "ratio" else "memory"
            said = f"{one[name]:.1f}x " + target(one[name], FLOORS[floor])
            rows.append([f"embeddings beside a stored matrix, two cores: {what}", "", "", said])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cpu", action="store_true", help="embeddings beside a matrix, on this processor")
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs; not stored")
    parser.add_argument("--one", help="one run, for this script itself")
    parser.add_argument("--to", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_way(options.one)))
        return
    made = {"two cores": two_cores(3)} if options.cpu else on_the_gpu(options.small)
    results = stored("gpu") | made
    print(table(["", "GPU", "processor", ""], rows_of(results)))
    if options.to:
        options.to.write_text(json.dumps(results))
    if not options.small:
        store("gpu", results, made)


if __name__ == "__main__":
    main()
