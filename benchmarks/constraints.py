"""Time of the constraints: projections, rounding, decomposition. Own CPU time, best of several runs.

    python -m benchmarks.constraints

Prints a table and writes benchmarks/results/constraints.json.
"""

from __future__ import annotations

import numpy as np

from benchmarks.shared import Work, cpu_seconds, machine
from discreet.constraints import Cardinality, GraphicMatroid, Knapsack, PartitionMatroid, swap_round
from discreet.core.text import table
from tools.results import store


def main() -> None:
    rng = np.random.default_rng(0)
    rows: list[dict[str, str | float]] = []

    def timed(constraint: str, operation: str, work: Work, runs: int = 5) -> None:
        milliseconds = round(1e3 * min(cpu_seconds(work) for _ in range(runs)), 3)
        rows.append({"constraint": constraint, "operation": operation, "milliseconds": milliseconds})

    name = "cardinality, 100,000 items, k=50"
    many = rng.normal(size=100_000)
    top = Cardinality(50)
    point = top.project_entropy(many, log=True, base=True).x
    timed(name, "project_euclidean", lambda: top.project_euclidean(many))
    timed(name, "project_entropy", lambda: top.project_entropy(many, log=True, base=True))
    timed(name, "maximize", lambda: top.maximize(many))
    timed(name, "round", lambda: top.round(point, rng))

    name = "partition, 2,000 items, rank 50"
    blocks = PartitionMatroid(np.arange(2_000) % 50, 1)
    some = rng.random(2_000)
    shares = blocks.project_entropy(some, base=True).x
    steps = [np.flatnonzero(blocks.maximize(rng.random(2_000))) for _ in range(100)]
    equal = np.full(100, 0.01)
    timed(name, "project_euclidean", lambda: blocks.project_euclidean(some))
    timed(name, "project_entropy", lambda: blocks.project_entropy(some, base=True))
    timed(name, "round", lambda: blocks.round(shares, rng))
    timed(name, "decompose", lambda: blocks.decompose(shares))
    timed(name, "swap_round of 100 bases", lambda: swap_round(blocks, steps, equal, rng))

    def graph_timings(n_edges: int, n_vertices: int) -> None:
        edges = [(int(a), int(b)) for a, b in rng.integers(0, n_vertices, size=(n_edges, 2))]
        graph = GraphicMatroid(edges)
        name = f"graph, {n_edges} edges, rank {graph.rank}"
        scores = rng.normal(0.5, 1.0, n_edges)
        forest = graph.project_entropy(scores, log=True, base=True).x
        face = graph.project_euclidean(scores, base=True).x
        trees = graph.decompose(forest)
        few = trees.sets[0][:-3]
        timed(name, "project_euclidean", lambda: graph.project_euclidean(scores))
        timed(name, "project_entropy", lambda: graph.project_entropy(scores, log=True, base=True), 2)
        timed(name, "decompose, entropic projection", lambda: graph.decompose(forest), 2)
        timed(name, "decompose, Euclidean projection", lambda: graph.decompose(face), 2)
        timed(name, "swap_round of the first", lambda: swap_round(graph, trees.sets, trees.weights, rng), 2)
        timed(name, "addable", lambda: graph.addable(few))

    graph_timings(200, 50)
    graph_timings(300, 60)

    name = "knapsack, 100,000 items"
    bag = Knapsack(rng.random(100_000), 50.0)
    packed = bag.project_euclidean(many).x
    timed(name, "project_euclidean", lambda: bag.project_euclidean(many))
    timed(name, "project_entropy", lambda: bag.project_entropy(many, log=True))
    timed(name, "round", lambda: bag.round(packed, rng))

    store("constraints", {"about": machine(), "timings": rows})
    cells = [[str(row["constraint"]), str(row["operation"]), f"{row['milliseconds']:,.2f}"] for row in rows]
    print(table(["constraint", "operation", "ms"], cells))


if __name__ == "__main__":
    main()
