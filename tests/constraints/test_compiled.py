"""Compiled matroids beside the same ones given by a function: sets, projections, exchanges."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.constraints import GraphicMatroid, LinearMatroid, Matroid, TransversalMatroid, swap_round
from discreet.constraints.matroids import MatroidMinor
from discreet.constraints.polytopes import IndependentSets
from discreet.kernels.flows import ForestFlow, MatchingFlow
from discreet.kernels.matroids import AskedOracle, GraphicOracle, LinearOracle, TransversalOracle
from discreet.kernels.polytopes import NearestPointSearch, scale

from . import slow_polytope
from .matroid_zoo import CLASSES, subsets

GENERAL = ("graphic", "transversal", "linear")
N = 14


def larger(name: str, seed: int) -> Matroid:
    rng = np.random.default_rng(seed)
    if name == "graphic":
        return GraphicMatroid([(0, 1), *rng.integers(0, 6, size=(N - 1, 2)).tolist()])
    if name == "transversal":
        return TransversalMatroid([[0], *(rng.choice(N, 4, replace=False) for _ in range(5))], n_items=N)
    matrix = rng.integers(-1, 2, size=(5, N))
    matrix[0, 0] = 1
    return LinearMatroid(matrix, modulus=[None, 2, 7, None][seed % 4])


def forms(matroid: Matroid) -> list[Matroid]:
    """The matroid, the same by a function, and as a minor of a larger one."""
    asked = Matroid.from_oracle(lambda s: matroid.contains(sorted(s)), N)
    doubled = Matroid.from_oracle(lambda s: matroid.contains(sorted({i // 2 for i in s})), 2 * N)
    return [matroid, asked, MatroidMinor(doubled, np.zeros(0, dtype=np.intp), np.arange(0, 2 * N, 2))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", GENERAL)
def test_projections_are_those_of_the_slow_twin(name, seed):
    matroid, rng = larger(name, seed), np.random.default_rng(seed)

    def greedy(order):
        taken = []
        for item in order.tolist():
            taken += [item] * matroid.contains([*taken, item])
        return np.array(taken, dtype=np.intp)

    for size in (0.3, 2.0, 40.0):
        z = rng.normal(0.3, size, N)
        for base in (False, True):
            near = slow_polytope.euclidean(greedy, z, base=base)
            scaled = slow_polytope.entropic(greedy, matroid.addable, z, base=base)
            for form in forms(matroid):
                assert form.project_euclidean(z, base=base).x == pytest.approx(near, abs=1e-9)
                assert form.project_entropy(z, log=True, base=base).x == pytest.approx(scaled, abs=1e-9)


def test_what_an_oracle_raises_is_raised_once_the_loop_is_over():
    def broken(items):
        if len(items) > 2:
            raise RuntimeError("the oracle is out of order")
        return True

    oracle = AskedOracle(broken, 5)
    for question in (
        lambda: oracle.fitting(np.arange(5), 5),
        lambda: NearestPointSearch(oracle, 5, 3).run(
            np.arange(5), np.ones(5), np.array([5]), below=np.arange(0), tight=1, most=3, limit=100
        ),
    ):
        with pytest.raises(RuntimeError, match="out of order"):
            question()


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
    matroid, contracted = case.matroid, np.array(sorted(below), dtype=np.int64)
    excess, inside = matroid._sets.flow(matroid._sets.oracle).exceeding(items.astype(np.int64), x, contracted)
    beyond = {
        s: x[list(s)].sum() - case.rank_of({*below, *items[list(s)]}) + len(below)
        for s in subsets(items.size)
    }
    most = max(beyond.values())
    assert excess == pytest.approx(most, abs=1e-12)
    largest = frozenset().union(*(s for s, found in beyond.items() if found >= most - 1e-12))
    found = frozenset(np.flatnonzero(inside))
    assert found <= largest
    # An item with x = 1 exceeds no rank and may be left out: it need not crowd anybody.
    assert all(x[item] == 1.0 for item in largest - found)


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


@pytest.mark.parametrize(
    "matroid",
    [
        GraphicMatroid([(0, 1), (1, 2), (2, 0), (0, 1), (3, 4)]),
        TransversalMatroid([[0, 1, 2, 3], [0, 1, 2, 3], [4]]),
    ],
    ids=["graphic", "transversal"],
)
def test_every_item_of_a_crowded_set_may_be_a_little_too_large(matroid):
    """Four items share a rank of 2: together they are tolerated to exceed it by four times what one is."""
    x = np.array([0.5, 0.5, 0.5, 0.5, 0.5])
    for each, fits in ((0.9e-9, True), (1.1e-9, False)):
        point = x + np.array([each] * 4 + [0.0])
        if fits:
            assert matroid.contains(matroid.round(point, np.random.default_rng(0)))
        else:
            with pytest.raises(ValueError, match=r"4 items exceed their rank by 4.4e-09"):
                matroid.round(point, np.random.default_rng(0))


def test_bases_that_depend_on_each_other_modulo_a_prime_are_merged():
    """Columns that depend on each other modulo the first prime, and others modulo the second."""
    first, second = LinearMatroid([[1, 2**62], [0, 2**62]])._primes[:2]
    matroid = LinearMatroid([[1, 1, 1, 1], [0, first, 0, second]])
    assert matroid.rank == 2
    for seed in range(20):
        merged = swap_round(matroid, [[0, 1], [2, 3]], [0.5, 0.5], np.random.default_rng(seed))
        assert matroid.contains(merged)
        assert merged.size == 2


@pytest.mark.parametrize("name", GENERAL)
def test_threads_may_ask_one_matroid_at_a_time(name):
    """Loops run without the interpreter's lock: each has memory of its own."""
    matroid = larger(name, 2)
    targets = np.random.default_rng(3).normal(size=(40, N))
    expected = [matroid.project_entropy(z, log=True, base=True).tolist() for z in targets]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda z: matroid.project_entropy(z, log=True, base=True).tolist(), targets)
    assert list(found) == expected


@pytest.mark.parametrize("name", GENERAL)
def test_a_pickled_matroid_decides_the_same(name):
    matroid, rng = larger(name, 3), np.random.default_rng(0)
    same = pickle.loads(pickle.dumps(matroid))
    for _ in range(20):
        items = rng.permutation(N)[:5]
        assert same.contains(items) == matroid.contains(items)
        assert same.addable([0]).tolist() == matroid.addable([0]).tolist()


INTS = np.int64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphicOracle(np.array([[0, 3]]), 3), "edge 0 joins vertices that are not among 3"),
        (lambda: GraphicOracle(np.array([[0, -1]]), 3), "edge 0 joins vertices that are not among 3"),
        (lambda: GraphicOracle(np.array([[0, 1, 2]]), 3), "an edge joins two vertices"),
        (lambda: TransversalOracle(np.array([0, 1]), np.array([2]), 2), "set 2 is not one of 2"),
        (lambda: TransversalOracle(np.array([0, 2]), np.array([0]), 2), "the last item has the last ones"),
        (lambda: TransversalOracle(np.array([0, 2, 1]), np.array([0]), 2), "item 1 ends before it starts"),
        (lambda: LinearOracle(np.array([7]), np.full((1, 2, 2), 7)), "not residues modulo 7"),
        (lambda: LinearOracle(np.array([2**31]), np.zeros((1, 2, 2), INTS)), "not between 2 and 2**31"),
        (lambda: LinearOracle(np.array([7]), np.zeros((2, 2, 2), INTS)), "residues for every one"),
    ],
)
def test_tables_that_lead_outside_of_them_are_refused(make, message):
    with pytest.raises((IndexError, ValueError), match=re.escape(message)):
        make()


@pytest.mark.parametrize("name", GENERAL)
def test_questions_that_lead_outside_of_the_table_are_refused(name):
    oracle = larger(name, 0)._sets.oracle
    items, x, nothing = np.arange(N), np.full(N, 0.1), np.zeros(0, dtype=INTS)
    more = {"below": nothing, "tight": 1, "most": 2}
    for wrong in (np.array([N]), np.array([-1])):
        with pytest.raises(IndexError, match="is not one of 14"):
            oracle.fitting(wrong, 1)
        with pytest.raises(IndexError, match="is not one of 14"):
            oracle.offered(wrong, x[:1], keep=1, **more)
        with pytest.raises(IndexError, match="is not one of 14"):
            oracle.merge(nothing, wrong, items[:1], [True])
        with pytest.raises(IndexError, match="is not one of 14"):
            scale(x, np.append(items, wrong), 1.0, x.copy())
    with pytest.raises(ValueError, match="as many costs as items"):
        oracle.offered(items, x[:3], keep=1, **more)
    with pytest.raises(ValueError, match="blocks end one after the other"):
        NearestPointSearch(oracle, N, 2).run(items, x, np.array([5, 3, N]), limit=9, **more)
    with pytest.raises(ValueError, match="room for 3 items"):
        NearestPointSearch(oracle, 3, 2).run(items, x, np.array([N]), limit=9, **more)
    with pytest.raises(ValueError, match="two bases differ by as many items each"):
        oracle.merge(nothing, items[:2], items[:1], [True, True])
    with pytest.raises(ValueError, match="between two bases"):
        oracle.merge(nothing, np.array([0, 0]), np.array([1, 1]), [True, True])
    flow = {"graphic": ForestFlow, "transversal": MatchingFlow}.get(name)
    if flow:
        for wrong, below in ((np.array([N]), nothing), (np.zeros(N + 1, INTS), nothing), (items, items[:1])):
            with pytest.raises((IndexError, ValueError), match=r"is not one of 14|items are distinct"):
                flow(oracle).exceeding(wrong, np.zeros(wrong.size), below)
        with pytest.raises(ValueError, match="rounding takes a number for each"):
            flow(oracle).round(items, x, x[:1])


@pytest.mark.parametrize(("items", "below", "fits"), [(1, 1, True), (2, 0, False), (0, 2, False)])
def test_an_item_of_many_sets_does_not_come_twice(items, below, fits):
    """Item 0 is in three of three sets, item 1 in one: there is room for four pairs of them, not for six."""
    flow = MatchingFlow(TransversalOracle(np.array([0, 3, 4]), np.array([0, 1, 2, 0]), 3))
    contracted = np.full(below, fits, dtype=INTS)
    given = np.zeros(items, dtype=INTS), np.full(items, 0.5), contracted
    if fits:
        assert flow.exceeding(*given)[0] == 0.0
    else:
        with pytest.raises(ValueError, match="items are distinct"):
            flow.exceeding(*given)


@pytest.mark.parametrize("made", [ForestFlow, MatchingFlow, lambda none: NearestPointSearch(none, 3, 1)])
def test_searches_have_an_oracle(made):
    with pytest.raises(TypeError, match="oracle"):
        made(None)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", GENERAL)
def test_exchanges_of_larger_bases_are_those_of_the_slow_search(name, seed):
    """Bases with several items that could trade places: it is the smallest one."""
    matroid, rng = larger(name, seed), np.random.default_rng(seed)
    asked = Matroid.from_oracle(lambda s: matroid.contains(sorted(s)), N)
    sets = [np.flatnonzero(matroid.maximize(rng.random(N), base=True)) for _ in range(6)]
    for draw in range(4):
        one, other = (swap_round(m, sets, np.ones(6), np.random.default_rng(draw)) for m in (matroid, asked))
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("name", GENERAL)
def test_rounding_asks_no_questions_item_by_item(name, monkeypatch):
    """A round of projections and swap rounding takes a handful of calls, however many exchanges there are."""
    matroid, calls = larger(name, 1), []
    plain = IndependentSets._fitting
    monkeypatch.setattr(IndependentSets, "_fitting", lambda *a: calls.append(1) or plain(*a))
    z = np.random.default_rng(0).normal(size=N)
    x = matroid.project_entropy(z, log=True, base=True).x
    matroid.round(x / x.sum() * matroid.rank, np.random.default_rng(0))
    assert len(calls) <= 10
