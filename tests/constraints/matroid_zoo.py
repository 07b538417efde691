"""Small matroids of every class, each beside a slow and obvious definition of its independent sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
from hypothesis import strategies as st

from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    LaminarMatroid,
    LinearMatroid,
    Matroid,
    PartitionMatroid,
    TransversalMatroid,
)

Independent = Callable[[frozenset[int]], bool]


@dataclass(frozen=True)
class Case:
    """A matroid and all its independent sets, listed by definition."""

    matroid: Matroid
    n: int
    independent: frozenset[frozenset[int]]

    def rank_of(self, items) -> int:
        return max(len(s) for s in self.independent if s <= frozenset(items))

    @property
    def rank(self) -> int:
        return self.rank_of(range(self.n))

    def vertices(self, *, base: bool = False) -> np.ndarray:
        sets = [s for s in self.independent if not base or len(s) == self.rank]
        rows = np.zeros((len(sets), self.n))
        for row, s in zip(rows, sets, strict=True):
            row[list(s)] = 1.0
        return rows

    def rank_constraints(self) -> tuple[np.ndarray, np.ndarray]:
        sets = [s for s in subsets(self.n) if s]
        rows = np.array([[float(i in s) for i in range(self.n)] for s in sets])
        return rows, np.array([float(self.rank_of(s)) for s in sets])


def subsets(n: int) -> list[frozenset[int]]:
    return [frozenset(c) for size in range(n + 1) for c in combinations(range(n), size)]


def case(matroid: Matroid, n: int, independent: Independent) -> Case:
    return Case(matroid, n, frozenset(s for s in subsets(n) if independent(s)))


def within(groups, capacities) -> Independent:
    return lambda s: all(len(s & frozenset(g)) <= c for g, c in zip(groups, capacities, strict=True))


def acyclic(edges) -> Independent:
    def forest(s: frozenset[int]) -> bool:
        label: dict[object, object] = {}
        for i in s:
            for v in edges[i]:
                label.setdefault(v, v)
        for i in s:
            a, b = (label[v] for v in edges[i])
            if a == b:
                return False
            label = {v: (b if w == a else w) for v, w in label.items()}
        return True

    return forest


def matchable(sets) -> Independent:
    def matched(s: frozenset[int]) -> bool:
        if len(s) > len(sets):
            return False
        items = sorted(s)
        return any(
            all(i in sets[t] for i, t in zip(items, chosen, strict=True))
            for chosen in permutations(range(len(sets)), len(items))
        )

    return matched


def full_rank(matrix, modulus: int | None = None) -> Independent:
    def eliminate(s: frozenset[int]) -> bool:
        rows = [[Fraction(matrix[r][c]) for c in sorted(s)] for r in range(len(matrix))]
        if modulus:
            rows = [[Fraction(int(v) % modulus) for v in row] for row in rows]
        for column in range(len(s)):
            pivot = next((r for r in range(column, len(rows)) if rows[r][column] != 0), None)
            if pivot is None:
                return False
            rows[column], rows[pivot] = rows[pivot], rows[column]
            for r in range(column + 1, len(rows)):
                if modulus:
                    factor = int(rows[r][column]) * pow(int(rows[column][column]), -1, modulus)
                else:
                    factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
                if modulus:
                    rows[r] = [Fraction(int(v) % modulus) for v in rows[r]]
        return True

    return eliminate


sizes = st.integers(2, 6)


@st.composite
def cardinality(draw) -> Case:
    n = draw(sizes)
    k = draw(st.integers(1, n))
    return case(Cardinality(k, n_items=n), n, lambda s: len(s) <= k)


@st.composite
def partition(draw) -> Case:
    n = draw(sizes)
    blocks = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    capacities = draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))
    groups = [[i for i in range(n) if blocks[i] == b] for b in range(3)]
    fits = within(groups, capacities)
    if not any(fits(frozenset([i])) for i in range(n)):
        capacities = [1, 1, 1]
    lists = draw(st.booleans())
    matroid = PartitionMatroid(groups if lists else blocks, capacities, n_items=n)
    return case(matroid, n, within(groups, capacities))


@st.composite
def laminar(draw) -> Case:
    n = draw(sizes)
    line = draw(st.permutations(range(n)))
    family: list[list[int]] = []

    def split(low: int, high: int) -> None:
        if draw(st.booleans()):
            family.append(line[low:high])
        if high - low > 1:
            middle = draw(st.integers(low + 1, high - 1))
            split(low, middle)
            split(middle, high)

    split(0, n)
    family.append(list(line[: draw(st.integers(1, n))])) if not family else None
    capacities = draw(st.lists(st.integers(1, 4), min_size=len(family), max_size=len(family)))
    return case(LaminarMatroid(family, capacities, n_items=n), n, within(family, capacities))


@st.composite
def graphic(draw) -> Case:
    vertices = st.sampled_from("abcd")
    edges = draw(st.lists(st.tuples(vertices, vertices), min_size=1, max_size=6))
    edges.append(("a", "b"))
    return case(GraphicMatroid(edges), len(edges), acyclic(edges))


@st.composite
def transversal(draw) -> Case:
    n = draw(sizes)
    items = st.lists(st.integers(0, n - 1), max_size=n, unique=True)
    sets = [*draw(st.lists(items, max_size=3)), [0]]
    return case(TransversalMatroid(sets, n_items=n), n, matchable(sets))


@st.composite
def linear(draw) -> Case:
    n, d = draw(sizes), draw(st.integers(1, 4))
    rows = st.lists(st.integers(-2, 2), min_size=n, max_size=n)
    matrix = draw(st.lists(rows, min_size=d, max_size=d))
    matrix[0][0] = 1
    modulus = draw(st.sampled_from([None, None, 2, 3, 7]))
    return case(LinearMatroid(matrix, modulus=modulus), n, full_rank(matrix, modulus))


@st.composite
def oracle(draw) -> Case:
    other = draw(st.one_of(graphic(), linear(), transversal()))
    return Case(Matroid.from_oracle(lambda s: s in other.independent, other.n), other.n, other.independent)


CLASSES = {
    "cardinality": cardinality(),
    "partition": partition(),
    "laminar": laminar(),
    "graphic": graphic(),
    "transversal": transversal(),
    "linear": linear(),
    "oracle": oracle(),
}
