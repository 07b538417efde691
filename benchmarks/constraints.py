"""How long the constraints take: projections, rounding, decomposition. Own CPU time, best of several runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from discreet.constraints import Cardinality, GraphicMatroid, Knapsack, PartitionMatroid, swap_round


def best_ms(work: Callable[[], object], runs: int = 5) -> float:
    """The least CPU time of a call, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    rows: list[tuple[str, float]] = []

    many = rng.normal(size=100_000)
    top = Cardinality(50)
    point = top.project_entropy(many, log=True, base=True).x
    rows += [
        ("cardinality n=100,000 k=50: project_euclidean", best_ms(lambda: top.project_euclidean(many))),
        ("  project_entropy", best_ms(lambda: top.project_entropy(many, log=True, base=True))),
        ("  maximize", best_ms(lambda: top.maximize(many))),
        ("  round", best_ms(lambda: top.round(point, rng))),
    ]

    blocks = PartitionMatroid(np.arange(2_000) % 50, 1)
    shares = blocks.project_entropy(rng.random(2_000), base=True).x
    some = rng.random(2_000)
    steps = [np.flatnonzero(blocks.maximize(rng.random(2_000))) for _ in range(100)]
    equal = np.full(100, 0.01)
    rows += [
        ("partition n=2,000 rank 50: project_euclidean", best_ms(lambda: blocks.project_euclidean(some))),
        ("  project_entropy", best_ms(lambda: blocks.project_entropy(some, base=True))),
        ("  round (pivotal)", best_ms(lambda: blocks.round(shares, rng))),
        ("  decompose", best_ms(lambda: blocks.decompose(shares))),
        ("  swap_round of 100 bases", best_ms(lambda: swap_round(blocks, steps, equal, rng))),
    ]

    graph = GraphicMatroid([(int(a), int(b)) for a, b in rng.integers(0, 50, size=(200, 2))])
    pull = rng.normal(0.5, 1.0, 200)
    forest = graph.project_entropy(pull, log=True, base=True).x
    trees = graph.decompose(forest)
    rows += [
        ("graph with 200 edges, rank 49: project_euclidean", best_ms(lambda: graph.project_euclidean(pull))),
        ("  project_entropy", best_ms(lambda: graph.project_entropy(pull, log=True, base=True), 2)),
        ("  decompose", best_ms(lambda: graph.decompose(forest), 2)),
        ("  swap_round of that", best_ms(lambda: swap_round(graph, trees.sets, trees.weights, rng), 2)),
        ("  addable", best_ms(lambda: graph.addable(trees.sets[0][:-3]))),
    ]

    bag = Knapsack(rng.random(100_000), 50.0)
    packed = bag.project_euclidean(many).x
    rows += [
        ("knapsack n=100,000: project_euclidean", best_ms(lambda: bag.project_euclidean(many))),
        ("  project_entropy", best_ms(lambda: bag.project_entropy(many, log=True))),
        ("  round", best_ms(lambda: bag.round(packed, rng))),
    ]
    for name, milliseconds in rows:
        print(f"{name:<52} {milliseconds:10.2f} ms")


if __name__ == "__main__":
    main()
