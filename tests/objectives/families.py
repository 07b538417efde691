"""Small random members of every family, each with a slow, obvious twin written from the definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from discreet.constraints import Cardinality, GraphicMatroid, PartitionMatroid
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    EmbeddedFacilityLocation,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MatroidRank,
    MutualInformation,
    Population,
    ProbabilisticCoverage,
    SaturatedCoverage,
    SetFunction,
    WeightedTopics,
)


@dataclass
class Case:
    people: Population
    one: Callable[[int, list[int]], float] | None  # person, set -> value, from the definition
    whole: Callable[[list[int]], float]  # set -> what the population's value must be


def _averaged(people: Population, one: Callable[[int, list[int]], float]) -> Case:
    return Case(people, one, lambda s: sum(one(i, s) for i in range(len(people))) / len(people))


def _weights(rng: np.random.Generator, people: int, items: int) -> np.ndarray:
    return rng.random((people, items)) * (rng.random((people, items)) < 0.6)


def of_rows(rng: np.random.Generator, people: int, items: int = 6) -> list[Population]:
    """A population of every family of rows, with values up to 1."""
    likes = _weights(rng, people, items)
    return [
        Coverage(likes > 0.3),
        ProbabilisticCoverage(likes),
        FacilityLocation(likes),
        ConcaveOverModular(likes / 6.0, concave="sqrt"),
        ConcaveOverModular(likes / 6.0, concave="log"),
        SaturatedCoverage(likes / 6.0, saturation=0.4),
        WeightedTopics(0.9 * rng.dirichlet(np.ones(3), people), rng.random((items, 3)) < 0.5),
    ]


def _stored(rng: np.random.Generator, matrix: np.ndarray) -> Any:
    """The same matrix as a dense array or as one of scipy's."""
    import scipy.sparse as sp

    return [matrix, sp.csr_array(matrix), sp.csc_matrix(matrix), sp.coo_array(matrix)][rng.integers(4)]


def coverage(rng: np.random.Generator, people: int, items: int) -> Case:
    w = _weights(rng, people, items)
    return _averaged(Coverage(_stored(rng, w)), lambda i, s: float(any(w[i, j] > 0 for j in s)))


def probabilistic(rng: np.random.Generator, people: int, items: int) -> Case:
    w = _weights(rng, people, items)
    w[rng.random(w.shape) < 0.1] = 1.0
    return _averaged(
        ProbabilisticCoverage(_stored(rng, w)), lambda i, s: 1 - math.prod(1 - w[i, j] for j in s)
    )


def facility(rng: np.random.Generator, people: int, items: int) -> Case:
    w = _weights(rng, people, items)
    return _averaged(FacilityLocation(_stored(rng, w)), lambda i, s: max((w[i, j] for j in s), default=0.0))


def embedded(rng: np.random.Generator, people: int, items: int) -> Case:
    p, q = (rng.integers(-128, 128, size=(n, 3)).astype(np.int8) for n in (people, items))
    w = np.clip(p.astype(int) @ q.T.astype(int), 0, 20_000) * 2.0**-14
    made = EmbeddedFacilityLocation(p, q, bound=20_000 * 2.0**-14, tile=(3, 4))
    return _averaged(made, lambda i, s: max((w[i, j] for j in s), default=0.0))


def _concave(name: Any, g: Callable[[float], float]) -> Callable[..., Case]:
    def make(rng: np.random.Generator, people: int, items: int) -> Case:
        w = _weights(rng, people, items)
        made = ConcaveOverModular(_stored(rng, w), concave=name, bound=items)
        return _averaged(made, lambda i, s: g(sum(w[i, j] for j in s)) - g(0))

    return make


def capped(rng: np.random.Generator, people: int, items: int) -> Case:
    w = _weights(rng, people, items)
    cap = rng.random(people)
    made = ConcaveOverModular(_stored(rng, w), concave="capped", cap=cap)
    return _averaged(made, lambda i, s: min(sum(w[i, j] for j in s), cap[i]))


def saturated(rng: np.random.Generator, people: int, items: int) -> Case:
    w = _weights(rng, people, items)
    made = SaturatedCoverage(_stored(rng, w), saturation=0.4, bound=items)
    return _averaged(made, lambda i, s: min(sum(w[i, j] for j in s), 0.4 * w[i].sum()))


def topics(rng: np.random.Generator, people: int, items: int) -> Case:
    w = _weights(rng, people, 4) / 4
    c = _weights(rng, items, 4)
    return _averaged(
        WeightedTopics(_stored(rng, w), _stored(rng, c)),
        lambda i, s: sum(w[i, t] * (1 - math.prod(1 - c[j, t] for j in s)) for t in range(4)),
    )


def _cut(directed: bool) -> Callable[..., Case]:
    def make(rng: np.random.Generator, people: int, items: int) -> Case:
        a = rng.random((people, items, items)) * (rng.random((people, items, items)) < 0.7)
        if not directed:
            a = a + a.transpose(0, 2, 1)
        m = rng.normal(size=(people, items))

        def one(i: int, s: list[int]) -> float:
            rest = set(range(items)) - set(s)
            return sum(a[i, u, v] for u in s for v in rest) + sum(m[i, u] for u in s)

        return _averaged(GraphCut(a, modular=m, directed=directed, bound=5.0 * items * items), one)

    return make


def log_determinant(rng: np.random.Generator, people: int, items: int) -> Case:
    b = rng.normal(size=(items, 3))
    k = b @ b.T
    q = _weights(rng, people, items)

    def one(i: int, s: list[int]) -> float:
        block = np.eye(len(s)) + np.outer(q[i, s], q[i, s]) * k[np.ix_(s, s)]
        return math.log(np.linalg.det(block)) if s else 0.0

    return _averaged(LogDeterminant(k, q, bound=100), one)


def mutual_information(rng: np.random.Generator, people: int, items: int) -> Case:
    n = people + 3
    x = rng.integers(0, 3, size=(n, items))
    y = rng.integers(0, 2, size=n)

    def whole(s: list[int]) -> float:
        total = 0.0
        values = list(product(range(3), repeat=len(s)))

        def joint(c: int, v: tuple[int, ...]) -> float:
            inside = y == c
            if not inside.any():
                return 0.0
            return inside.mean() * math.prod(
                float((x[inside, j] == a).mean()) for j, a in zip(s, v, strict=True)
            )

        for v in values:
            both = [joint(c, v) for c in (0, 1)]
            for c in (0, 1):
                if both[c] > 0:
                    total += both[c] * math.log(both[c] / ((y == c).mean() * sum(both)))
        return total

    return Case(MutualInformation(x, y), None, whole)


def callables(rng: np.random.Generator, people: int, items: int) -> Case:
    w = rng.random((people, items))

    def one(i: int, s: Any) -> float:
        return math.sqrt(sum(w[i, j] for j in sorted(s)))

    made = SetFunction(
        [lambda s, i=i: one(i, s) for i in range(people)], n_items=items, bound=items, monotone=True
    )
    return _averaged(made, one)


def hypergraph_cut(rng: np.random.Generator, people: int, items: int) -> Case:
    """The weight of the edges, of any number of items, that a set divides (paper 003, Section 1)."""
    edges = [frozenset(np.flatnonzero(rng.random(items) < 0.6).tolist()) for _ in range(4)]
    w = rng.random((people, 4))

    def divided(i: int, s: Any) -> float:
        return float(sum(w[i, e] for e, edge in enumerate(edges) if edge & set(s) and edge - set(s)))

    def one(i: int, s: list[int]) -> float:  # what it touches, less what it holds
        touched = sum(w[i, e] * (len(edge.difference(s)) < len(edge)) for e, edge in enumerate(edges))
        return float(touched - sum(w[i, e] for e, edge in enumerate(edges) if edge and edge.issubset(s)))

    made = SetFunction([lambda s, i=i: divided(i, s) for i in range(people)], n_items=items, bound=4.0)
    return _averaged(made, one)


def matroid_rank(rng: np.random.Generator, people: int, items: int) -> Case:
    """Forests of a graph on four nodes, one of whose edges is a loop, or blocks, or at most two items."""
    w = _weights(rng, people, items) * rng.integers(1, 4)
    edges = [(0, 0), (0, 1), (1, 2), (0, 2), (2, 3)]
    matroid = [
        GraphicMatroid([edges[j % 5] for j in range(1, items + 1)]),
        PartitionMatroid([range(items)], [1]),
        Cardinality(min(items, 2)),
    ][rng.integers(3)]

    def one(i: int, s: list[int]) -> float:
        chosen = (c for r in range(len(s) + 1) for c in combinations(s, r))
        return max(float(sum(w[i, j] for j in c)) for c in chosen if matroid.contains(c))

    return _averaged(MatroidRank(matroid, _stored(rng, w), bound=3.0 * items), one)


def mixture(rng: np.random.Generator, people: int, items: int) -> Case:
    a, b = facility(rng, people, items), coverage(rng, people, items)
    return _averaged(0.25 * a.people + b.people * 2, lambda i, s: 0.25 * a.one(i, s) + 2 * b.one(i, s))


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], Case]] = {
    "coverage": coverage,
    "probabilistic": probabilistic,
    "facility": facility,
    "embedded": embedded,
    "sqrt": _concave("sqrt", math.sqrt),
    "log": _concave("log", math.log1p),
    "custom": _concave(lambda t: 1 - np.exp(-np.asarray(t)), lambda t: 1 - math.exp(-t)),
    "capped": capped,
    "saturated": saturated,
    "topics": topics,
    "cut": _cut(False),
    "directed_cut": _cut(True),
    "log_determinant": log_determinant,
    "mutual_information": mutual_information,
    "callables": callables,
    "hypergraph_cut": hypergraph_cut,
    "matroid_rank": matroid_rank,
    "mixture": mixture,
}
CLOSED = [
    f
    for f in FAMILIES
    if f
    not in ("custom", "log_determinant", "mutual_information", "callables", "hypergraph_cut", "matroid_rank")
]
