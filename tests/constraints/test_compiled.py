"""Compiled matroids beside the same ones given by a function: sets, projections, exchanges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import backends
from discreet.constraints import GraphicMatroid, LinearMatroid, Matroid, TransversalMatroid, swap_round
from discreet.constraints.matroids.compiled import CompiledMatroid

from .matroid_zoo import CLASSES, subsets

GENERAL = ("graphic", "transversal", "linear")
N = 14


def larger(name: str, seed: int) -> CompiledMatroid:
    rng = np.random.default_rng(seed)
    if name == "graphic":
        return GraphicMatroid([(0, 1), *rng.integers(0, 6, size=(N - 1, 2)).tolist()])
    if name == "transversal":
        return TransversalMatroid([[0], *(rng.choice(N, 4, replace=False) for _ in range(5))], n_items=N)
    matrix = rng.integers(-1, 2, size=(5, N))
    matrix[0, 0] = 1
    return LinearMatroid(matrix, modulus=[None, 2, 7, None][seed % 4])


def slow(matroid: Matroid) -> Matroid:
    """The same matroid without its loops: every question is asked of its independent sets."""
    return Matroid.from_oracle(lambda s: matroid.contains(sorted(s)), N)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", GENERAL)
def test_projections_agree_with_the_general_method(name, seed):
    fast = larger(name, seed)
    general, rng = slow(fast), np.random.default_rng(seed)
    for size in (0.3, 2.0, 40.0):
        z = rng.normal(0.3, size, N)
        for base in (False, True):
            one, other = fast.project_euclidean(z, base=base), general.project_euclidean(z, base=base)
            assert one.x == pytest.approx(other.x, abs=1e-9)
            one, other = (m.project_entropy(z, log=True, base=base) for m in (fast, general))
            assert one.x == pytest.approx(other.x, abs=1e-9)


@pytest.mark.parametrize("name", GENERAL)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_exchanges_are_those_of_the_slow_search(name, data, seed):
    """Two bases and the same coins: the same base, whether asked item by item or in the compiled loop."""
    case = data.draw(CLASSES[name])
    rng = np.random.default_rng(seed)
    bases = [sorted(s) for s in case.independent if len(s) == case.rank]
    sets = [bases[i] for i in rng.integers(len(bases), size=4)]
    weights = rng.random(4) + 0.01
    asked = Matroid.from_oracle(lambda s: s in case.independent, case.n)
    one, other = (
        swap_round(matroid, sets, weights, np.random.default_rng(seed)) for matroid in (case.matroid, asked)
    )
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("name", ["graphic", "transversal"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_flows_find_the_set_that_exceeds_its_rank_the_most(name, data, seed):
    """Beside all sets: the largest of those that exceed it the most, with an independent set contracted."""
    case = data.draw(CLASSES[name])
    rng = np.random.default_rng(seed)
    below = sorted(case.independent, key=sorted)[rng.integers(len(case.independent))]
    items = rng.permutation([i for i in range(case.n) if i not in below])
    x = rng.choice([0.0, 0.25, 0.5, 1.0], items.size) if seed % 2 else rng.random(items.size)
    matroid, inside = case.matroid, np.empty(items.size, dtype=np.bool_)
    space = backends.matroids.workspace(matroid._table, matroid._size)
    given = np.array(sorted(below), dtype=np.int64), items.astype(np.int64), 0, x, inside
    excess = matroid._exceed(matroid._table, space, *given)
    beyond = {
        s: x[list(s)].sum() - case.rank_of({*below, *items[list(s)]}) + len(below)
        for s in subsets(items.size)
    }
    most = max(beyond.values())
    assert excess == pytest.approx(most, abs=1e-12)
    largest = frozenset().union(*(s for s, found in beyond.items() if found >= most - 1e-12))
    assert frozenset(np.flatnonzero(inside)) == largest


@pytest.mark.parametrize("name", GENERAL)
def test_points_outside_the_polytope_are_not_rounded(name):
    matroid, rng = larger(name, 0), np.random.default_rng(0)
    x = matroid.project_euclidean(np.linspace(0.0, 1.0, N), base=True).x
    assert matroid.contains(matroid.round(x, rng))
    for far in (1e-6, 0.2):
        with pytest.raises(ValueError, match="outside the polytope"):
            matroid.round(np.minimum(x + far, 1.0), rng)
    for wrong in (x - 1e-6 - x.min(), x + 2.0):
        with pytest.raises(ValueError, match="outside"):
            matroid.round(wrong, rng)


def test_bases_of_different_primes_are_merged_modulo_a_third():
    """Columns that depend on each other modulo the first prime, and others modulo the second."""
    first, second = LinearMatroid([[1, 2**62], [0, 1]])._primes[:2]
    matroid = LinearMatroid([[1, 1, 1, 1], [0, first, 0, second]])
    assert matroid.rank == 2
    for seed in range(20):
        merged = swap_round(matroid, [[0, 1], [2, 3]], [0.5, 0.5], np.random.default_rng(seed))
        assert matroid.contains(merged)
        assert merged.size == 2


@pytest.mark.parametrize("name", GENERAL)
def test_rounding_asks_no_questions_item_by_item(name, monkeypatch):
    """A round of projections and swap rounding takes a handful of calls, however many exchanges there are."""
    matroid, calls = larger(name, 1), []
    plain = CompiledMatroid._offered
    monkeypatch.setattr(CompiledMatroid, "_offered", lambda *a: calls.append(1) or plain(*a))
    z = np.random.default_rng(0).normal(size=N)
    x = matroid.project_entropy(z, log=True, base=True).x
    matroid.round(x / x.sum() * matroid.rank, np.random.default_rng(0))
    assert len(calls) <= 10
