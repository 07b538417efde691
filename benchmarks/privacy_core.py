"""Time the privacy core beside OpenDP's call for the same release, in one run, and store the table.

Ratios are what to read: both sides are timed alternately in the same process, best of several repeats.

    python -m benchmarks.privacy_core

The results go to benchmarks/results/privacy_core.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import opendp.prelude as dp

import discreet as dc
from benchmarks.shared import target
from discreet.core.text import table
from discreet.privacy import FactorizedSum, TreeSum
from tools.results import store

dp.enable_features("contrib")
FREE = dc.Budget(1e12, 1e-6)  # large enough for any number of timed releases; the ledger is kept all the same


def best(call: Callable[[], object], seconds: float = 0.4, repeats: int = 5) -> float:
    """Smallest time of one call over several batches that together take about ``seconds``."""
    call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    count = max(1, min(2000, int(seconds / repeats / max(once, 1e-7))))
    found = once
    for _ in range(repeats if once < 1.0 else 1):
        start = time.perf_counter()
        for _ in range(count):
            call()
        found = min(found, (time.perf_counter() - start) / count)
    return found


def choices(size: int) -> tuple[Callable[[], object], Callable[[], object]]:
    scores = np.random.default_rng(size).uniform(0, 50, size)
    gate = dc.Gate(FREE)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    metric = dp.linf_distance(T=float)
    theirs = dp.m.make_noisy_max(domain, metric, dp.zero_concentrated_divergence(), scale=10.0)
    rows = scores.tolist()
    return lambda: gate.choose(scores, 0.1, 2.0), lambda: theirs(rows)


def noise(kind: str, size: int) -> tuple[Callable[[], object], Callable[[], object]]:
    values = np.random.default_rng(size).uniform(0, 50, size)
    gate = dc.Gate(FREE)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    rows = values.tolist()
    if kind == "gaussian":
        theirs = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=10.0, k=-20)
        return lambda: gate.gaussian(values, 10.0, 1.0), lambda: theirs(rows)
    theirs = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=10.0, k=-20)
    return lambda: gate.laplace(values, 10.0, 1.0), lambda: theirs(rows)


def sums(
    make: Callable[..., object], size: int, **options: object
) -> tuple[Callable[[], object], Callable[[], object]]:
    """One step of a running sum, beside OpenDP's noise for the one node that such a step releases."""
    total = make(size, 1 << 22, dc.Budget(1.0, 1e-6), norm_bound=1.0, **options)
    vector = np.zeros(size)
    return lambda: total.add(vector), noise("gaussian", size)[1]


def main() -> None:
    cases = {
        "exponential choice, n=100": (choices(100), 5.0),
        "exponential choice, n=1,000": (choices(1_000), 5.0),
        "exponential choice, n=100,000": (choices(100_000), None),
        "Gaussian, 100,000 coordinates": (noise("gaussian", 100_000), 50.0),
        "Laplace, 100,000 coordinates": (noise("laplace", 100_000), 50.0),
        "tree step, d=1,000": (sums(TreeSum, 1_000), None),
        "tree step, d=100,000": (sums(TreeSum, 100_000), 50.0),
        "sqrt factorized step, d=1,000": (sums(FactorizedSum, 1_000), None),
        "sqrt factorized step, d=100,000": (sums(FactorizedSum, 100_000), 50.0),
        "BLT step, d=1,000": (sums(FactorizedSum, 1_000, method="blt"), None),
        "BLT step, d=100,000": (sums(FactorizedSum, 100_000, method="blt"), 50.0),
    }
    results, rows = [], []
    for name, ((ours, theirs), floor) in cases.items():
        mine, other = best(ours), best(theirs)
        ratio = other / mine
        results.append(
            {
                "case": name,
                "discreet_us": mine * 1e6,
                "opendp_us": other * 1e6,
                "ratio": ratio,
                "floor": floor,
            }
        )
        reached = f"{ratio:,.0f}{target(ratio, floor, digits=0)}"
        rows.append([name, f"{mine * 1e6:,.1f}", f"{other * 1e6:,.1f}", reached])
        print(f"  {name}: {ratio:,.0f}x", flush=True)
    print()
    print(table(["case", "discreet us", f"opendp {version('opendp')} us", "ratio"], rows))
    versions = {"discreet": dc.__version__, "opendp": version("opendp"), "numpy": np.__version__}
    store("privacy_core", {"versions": versions, "results": results})


if __name__ == "__main__":
    main()
