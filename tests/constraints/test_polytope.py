"""Linear maximization, projections, membership and decomposition, checked against every vertex."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Knapsack,
    LaminarMatroid,
    Matroid,
    PartitionMatroid,
)
from discreet.constraints.polytopes import scale_to_total, shift_to_total
from discreet.kernels.polytopes import NearestPointSearch

from .matroid_zoo import CLASSES, subsets

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def vectors(seed: int, n: int) -> np.ndarray:
    """Ordinary, tied, whole, large and tiny entries."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(5)
    if kind == 0:
        return rng.normal(0.3, 1.0, n)
    if kind == 1:
        return rng.choice([-0.5, 0.0, 0.25, 1.0, 2.0], n)
    if kind == 2:
        return rng.normal(0.0, 1.0, n) * 10.0 ** rng.integers(-6, 7, n)
    if kind == 3:
        return rng.random(n)
    return rng.integers(-2, 3, n).astype(float)


def knapsack_vertices(costs: np.ndarray, capacity: float) -> np.ndarray:
    """All points with whole entries except at most one, which spends what is left."""
    rows = []
    fits = costs <= capacity
    for s in subsets(costs.size):
        x = np.array([float(i in s and fits[i]) for i in range(costs.size)])
        left = capacity - costs @ x
        if left < -1e-12:
            continue
        rows.append(x)
        partly = np.flatnonzero((x == 0.0) & fits & (costs > max(left, 0.0)))
        rows.extend(x + (np.arange(costs.size) == i) * max(left, 0.0) / costs[i] for i in partly)
    return np.array(rows)


@st.composite
def knapsacks(draw):
    n = draw(st.integers(1, 5))
    costs = np.array(draw(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.6, 1.2]), min_size=n, max_size=n)))
    capacity = draw(st.sampled_from([0.3, 0.6, 1.0, 5.0]))
    costs[0] = min(costs[0], capacity)
    return Knapsack(costs, capacity)


@pytest.mark.parametrize("name", CLASSES)
@quick
@given(st.data(), seeds, st.booleans())
def test_maximize_is_the_linear_program_over_the_rank_inequalities(name, data, seed, base):
    case = data.draw(CLASSES[name])
    w = vectors(seed, case.n)
    x = case.matroid.maximize(w, base=base)
    assert frozenset(np.flatnonzero(x == 1.0)) in case.independent
    assert set(np.unique(x)) <= {0.0, 1.0}
    if not base:
        assert not x[w <= 0.0].any()
    rows, ranks = case.rank_constraints()
    total = {"A_eq": np.ones((1, case.n)), "b_eq": [case.rank]} if base else {}
    scale = np.abs(w).max() + 1e-300
    best = linprog(-w / scale, A_ub=rows, b_ub=ranks, bounds=(0, 1), method="highs", **total)
    assert w @ x / scale == pytest.approx(-best.fun, abs=1e-7)


@quick
@given(knapsacks(), seeds)
def test_knapsack_maximize_is_the_linear_program(bag, seed):
    w = vectors(seed, bag.n_items)
    x = bag.maximize(w)
    assert np.count_nonzero((x > 0.0) & (x < 1.0)) <= 1
    assert bag.in_polytope(x)
    assert not x[w <= 0.0].any()
    vertices = knapsack_vertices(bag.costs, bag.capacity)
    assert w @ x == pytest.approx((vertices @ w).max(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", CLASSES)
@quick
@given(st.data(), seeds, st.booleans())
def test_euclidean_projection_satisfies_the_variational_inequality(name, data, seed, base):
    case = data.draw(CLASSES[name])
    z = vectors(seed, case.n)
    x = case.matroid.project_euclidean(z, base=base)
    assert_in(case, x.x, base=base)
    slack = ((x.x - z) * (case.vertices(base=base) - x.x)).sum(axis=1).min()
    tolerance = 1e-9 * (1.0 + np.abs(z).max())
    assert slack >= -tolerance
    assert 0.0 <= x.gap <= tolerance
    assert slack >= -x.gap - 1e-13 * (1.0 + np.abs(z).max())


@pytest.mark.parametrize("name", CLASSES)
@quick
@given(st.data(), seeds, st.booleans())
def test_entropic_projection_satisfies_the_variational_inequality(name, data, seed, base):
    case = data.draw(CLASSES[name])
    log_w = vectors(seed, case.n)
    log_w = np.clip(log_w, -30.0, 30.0)
    x = case.matroid.project_entropy(log_w, log=True, base=base)
    assert_in(case, x.x, base=base)
    loops = np.array([frozenset([i]) not in case.independent for i in range(case.n)])
    assert (x.x[loops] == 0.0).all()
    gradient = np.where(loops, 0.0, np.log(np.where(loops, 1.0, x.x)) - log_w)
    slack = (gradient * (case.vertices(base=base) - x.x)).sum(axis=1).min()
    assert slack >= -1e-8
    assert 0.0 <= x.gap <= 1e-8
    plain = case.matroid.project_entropy(np.exp(log_w), base=base)
    assert plain.x == pytest.approx(x.x, abs=1e-9)


def assert_in(case, x, *, base, tol=1e-9):
    rows, ranks = case.rank_constraints()
    assert (x >= -tol).all()
    assert (rows @ x <= ranks + tol).all()
    if base:
        assert x.sum() == pytest.approx(case.rank, abs=tol)


@quick
@given(knapsacks(), seeds)
def test_knapsack_projections_satisfy_the_variational_inequality(bag, seed):
    z = vectors(seed, bag.n_items)
    vertices = knapsack_vertices(bag.costs, bag.capacity)
    x = bag.project_euclidean(z)
    assert bag.in_polytope(x, 1e-9)
    assert ((x.x - z) * (vertices - x.x)).sum(axis=1).min() >= -1e-9 * (1.0 + np.abs(z).max())
    log_w = np.clip(z, -30.0, 30.0)
    y = bag.project_entropy(log_w, log=True)
    assert bag.in_polytope(y, 1e-9)
    out = bag.costs > bag.capacity
    gradient = np.where(out, 0.0, np.log(np.where(out, 1.0, y.x)) - log_w)
    assert (gradient * (vertices - y.x)).sum(axis=1).min() >= -1e-8
    assert y.gap <= 1e-8


@pytest.mark.parametrize("name", CLASSES)
@quick
@given(st.data(), seeds)
def test_points_of_the_polytope_are_recognized_project_to_themselves_and_decompose(name, data, seed):
    case = data.draw(CLASSES[name])
    rng = np.random.default_rng(seed)
    vertices = case.vertices()
    chosen = rng.integers(len(vertices), size=rng.integers(1, 6))
    x = rng.dirichlet(np.ones(chosen.size)) @ vertices[chosen]
    assert case.matroid.in_polytope(x)
    assert case.matroid.project_euclidean(x).x == pytest.approx(x, abs=1e-9)
    inside = np.maximum(x, 1e-6) if case.matroid.in_polytope(np.maximum(x, 1e-6)) else None
    if inside is not None:
        assert case.matroid.project_entropy(inside).x == pytest.approx(inside, abs=1e-8)
    parts = case.matroid.decompose(x)
    assert len(parts.sets) <= case.n + 1
    assert (parts.weights > 0.0).all()
    assert parts.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert all(frozenset(s.tolist()) in case.independent for s in parts.sets)
    mixed = sum(w * np.isin(np.arange(case.n), s) for s, w in zip(parts.sets, parts.weights, strict=True))
    assert mixed == pytest.approx(x, abs=1e-12)
    assert parts.point() == pytest.approx(mixed, abs=1e-14)
    assert parts.residual == pytest.approx(x - mixed, abs=1e-14)


@pytest.mark.parametrize("name", CLASSES)
@quick
@given(st.data(), seeds)
def test_membership_is_that_of_the_rank_inequalities(name, data, seed):
    case = data.draw(CLASSES[name])
    rng = np.random.default_rng(seed)
    x = rng.random(case.n) * rng.choice([0.3, 0.7, 1.0])
    rows, ranks = case.rank_constraints()
    excess = (rows @ x - ranks).max()
    if abs(excess) > 1e-6:
        assert case.matroid.in_polytope(x) == (excess <= 0.0)
    if excess > 1e-6:
        with pytest.raises(ValueError, match="project_euclidean"):
            case.matroid.decompose(x)
        with pytest.raises(ValueError, match="project_euclidean"):
            case.matroid.round(x, rng)


@quick
@given(knapsacks(), seeds)
def test_knapsack_decomposes_up_to_the_dropped_fractions(bag, seed):
    rng = np.random.default_rng(seed)
    vertices = knapsack_vertices(bag.costs, bag.capacity)
    x = rng.dirichlet(np.ones(3)) @ vertices[rng.integers(len(vertices), size=3)]
    parts = bag.decompose(x)
    assert all(bag.contains(s) for s in parts.sets)
    assert parts.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (parts.residual >= -1e-9).all()
    assert parts.point() + parts.residual == pytest.approx(x, abs=1e-12)
    # Each set may have dropped a fraction of one item.
    assert parts.residual.sum() <= 1.0 + 1e-9


def slow_shift(z, upper, total):
    """The twin of shift_to_total: a root found by bracketing."""
    low, high = -z.max() - 1.0, (upper - z).max() + 1.0
    s = brentq(lambda s: np.clip(z + s, 0.0, upper).sum() - total, low, high, xtol=1e-14, rtol=1e-14)
    return np.clip(z + s, 0.0, upper)


@pytest.mark.parametrize(("n", "total"), [(1, 0.5), (5, 2.0), (400, 3.0), (400, 180.0)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_shift_and_scale_agree_with_root_finding(n, total, scale):
    rng = np.random.default_rng(n)
    z, upper = scale * rng.normal(size=n), rng.random(n) + 1e-3
    total = min(total, 0.9 * upper.sum())
    assert shift_to_total(z, upper, total) == pytest.approx(slow_shift(z, upper, total), abs=1e-9)
    s = brentq(
        lambda s: np.minimum(upper, np.exp(np.minimum(z + s, 10.0))).sum() - total, -2e3, 2e3, xtol=1e-13
    )
    scaled = np.exp(scale_to_total(z, np.log(upper), total))
    assert scaled == pytest.approx(np.minimum(upper, np.exp(np.minimum(z + s, 10.0))), rel=1e-9)


def test_entropic_projection_survives_weights_beyond_floating_point():
    log_w = np.array([5000.0, 4000.0, -3000.0, -3000.0, -9000.0])
    for matroid in (Cardinality(3), Matroid.from_oracle(lambda s: len(s) <= 3, 5)):
        x = matroid.project_entropy(log_w, log=True, base=True)
        assert x.x == pytest.approx([1.0, 1.0, 0.5, 0.5, 0.0], abs=1e-12)
        assert x.gap <= 1e-8
    loose = Cardinality(3).project_entropy(log_w, log=True)
    assert loose.x == pytest.approx([1.0, 1.0, 0.0, 0.0, 0.0], abs=1e-12)
    # Entries far below the smallest float still have the right multiplier, or the gap would show it.
    graph = GraphicMatroid([(1, 1), (3, 2), (3, 1), (1, 0), (2, 1), (1, 2)])
    tree = graph.project_entropy([0.0, 13428.8, -5019.0, -8623.9, -1489.4, 5835.3], log=True, base=True)
    assert tree.x == pytest.approx([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], abs=1e-12)
    assert tree.gap <= 1e-8
    bag = Knapsack([1.0, 2.0, 3.0, 3.0, 1.0], 6.0).project_entropy(log_w, log=True)
    assert bag.x == pytest.approx([1.0, 1.0, 0.0, 0.0, 0.0], abs=1e-12)


def test_euclidean_projection_survives_large_numbers():
    z = np.array([1e9, 1e9 + 0.25, 3.0, 2.75, -1e12])
    triangle = GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 3)])
    for base in (False, True):
        x = triangle.project_euclidean(z, base=base)
        assert x.x == pytest.approx([1.0, 1.0, 0.0, 1.0, 0.0], abs=1e-9)
    # A triangle far above another one: each is shared out as if it were alone.
    far = GraphicMatroid([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    shared = far.project_euclidean([1e9, 1e9 + 0.25, 1e9 + 0.125, 0.6, 0.5, 0.4], base=True)
    third = np.array([0.0, 0.25, 0.125]) - 0.125 + 2.0 / 3.0
    assert shared.x[:3] == pytest.approx(third, abs=1e-9)
    assert shared.x[3:] == pytest.approx(np.array([0.6, 0.5, 0.4]) + 0.5 / 3.0, abs=1e-9)
    pair = Cardinality(1, 5).project_euclidean(z)
    assert pair.x == pytest.approx([0.375, 0.625, 0.0, 0.0, 0.0], abs=1e-6)


def test_the_gap_bounds_the_error_of_an_unfinished_search():
    rng = np.random.default_rng(9)
    graph = GraphicMatroid([tuple(e) for e in rng.integers(0, 12, size=(40, 2))])
    z = rng.normal(0.5, 1.0, 40)

    def distance(steps):
        search = NearestPointSearch(graph._sets.oracle, 40, graph.rank)
        none = np.zeros(0, dtype=np.int64)
        gap, taken = search.run(
            np.arange(40), z, np.array([40]), below=none, tight=0, most=graph.rank, limit=steps
        )
        assert taken <= steps
        assert search.shares @ search.vertices(40) == pytest.approx(search.x[:40])
        return 0.5 * np.sum((search.x[:40] - z) ** 2), gap

    best, last_gap = distance(10_000)
    assert last_gap < 1e-12
    for steps in (1, 2, 4, 8):
        reached, gap = distance(steps)
        assert 1e-3 < reached - best <= gap


def test_a_search_that_was_cut_short_says_how_far_it_may_be(monkeypatch):
    class Hasty(NearestPointSearch):
        def run(self, *given, **more):
            return super().run(*given, **more | {"limit": 1})

    rng = np.random.default_rng(9)
    graph = GraphicMatroid([tuple(e) for e in rng.integers(0, 12, size=(40, 2))])
    z = rng.normal(0.5, 1.0, 40)
    best = graph.project_euclidean(z)
    monkeypatch.setattr("discreet.constraints.polytopes.NearestPointSearch", Hasty)
    point = graph.project_euclidean(z)
    assert 1e-3 < 0.5 * np.sum((point.x - z) ** 2) - 0.5 * np.sum((best.x - z) ** 2) <= point.gap


def test_a_projected_point_is_an_array_that_carries_its_certificate():
    point = PartitionMatroid([0, 0, 1], 1).project_euclidean([1.0, 1.0, 0.5])
    assert point.gap == 0.0
    assert point.iterations == 0
    assert type(point.x) is np.ndarray
    assert type(2 * point) is np.ndarray
    assert np.isnan(point[:2].gap)
    assert isinstance(point.sum(), float)
    assert point @ np.ones(3) == pytest.approx(1.5)


def nested_and_general(n: int, k: int) -> list[Matroid]:
    """Matroids of at most k items, by three ways of computing."""
    return [
        Cardinality(k, n),
        LaminarMatroid([range(n)], k),
        Matroid.from_oracle(lambda s: len(s) <= k, n),
    ]


@pytest.mark.parametrize("offset", [-1e12, -1e6, 1e4, 1e6, 1e9, 1e12])
def test_bases_do_not_mind_a_common_offset(offset):
    """The offset is a whole number and the entries multiples of 2**-10, so that the sum is exact."""
    z = np.round(3.0 * np.random.default_rng(2).random(40) * 1024.0) / 1024.0
    for matroid in nested_and_general(40, 10):
        rng = np.random.default_rng(3)
        for project in (
            matroid.project_euclidean,
            lambda w, m=matroid, **o: m.project_entropy(w, log=True, **o),
        ):
            near, moved = project(z, base=True), project(z + offset, base=True)
            assert abs(moved.sum() - 10.0) < 1e-12
            assert moved.x == pytest.approx(near.x, abs=1e-12)
            assert moved.gap < 1e-9
            assert matroid.round(moved, rng).size == 10


def test_a_large_offset_leaves_a_feasible_point():
    """As many items between 0 and 1 as there can be: rounding would add up."""
    z = 1e6 + 3.0 * np.random.default_rng(0).random(200)
    near = Cardinality(10, 200).project_euclidean(z, base=True)
    assert abs(near.sum() - 10.0) < 1e-13
    assert Cardinality(10, 200).round(near, np.random.default_rng(0)).size == 10
    blocks = PartitionMatroid(np.arange(200) % 4, 3)
    for offset in (0.0, 1e9, -1e9):
        x = blocks.project_euclidean(z + offset * (np.arange(200) % 4), base=True)
        assert np.bincount(np.arange(200) % 4, weights=x.x) == pytest.approx(np.full(4, 3.0), abs=1e-13)


@pytest.mark.parametrize("size", [1e10, 1e17, 1e200, 1.7e308])
def test_numbers_beyond_all_precision_are_shared_out_by_their_ties(size):
    expected = {
        (size, size, 0.0): [0.5, 0.5, 0.0],
        (size, -size, 0.0): [1.0, 0.0, 0.0],
        (-size, size, 0.6 * size): [0.0, 1.0, 0.0],
        (size, size, -size): [0.5, 0.5, 0.0],
    }
    for z, x in expected.items():
        for base in (False, True):
            for matroid in (Cardinality(1), LaminarMatroid([[0, 1], [0, 1, 2]], 1)):
                assert matroid.project_euclidean(z, base=base).x == pytest.approx(x, abs=1e-15)
                assert matroid.project_entropy(z, log=True, base=base).x == pytest.approx(x, abs=1e-15)
    # Something served far above does not blur what is shared out below, nor the other way round.
    two = Cardinality(2).project_euclidean([size, 0.1, 0.3, -0.9])
    assert two.x == pytest.approx([1.0, 0.1, 0.3, 0.0], abs=1e-15)
    two = Cardinality(2).project_euclidean([size, 0.1, 0.3, -0.9], base=True)
    assert two.x == pytest.approx([1.0, 0.4, 0.6, 0.0], abs=1e-12)
    two = Cardinality(2).project_entropy([size, 0.0, np.log(3.0), -size], log=True, base=True)
    assert two.x == pytest.approx([1.0, 0.25, 0.75, 0.0], abs=1e-15)


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-40, 2.0**500, 2.0**1020])
def test_a_knapsack_does_not_mind_the_unit_of_its_costs(unit):
    """The same knapsack counted in another unit, down to numbers whose squares vanish or overflow."""
    rng = np.random.default_rng(6)
    costs = np.append(rng.random(12), [0.0, 3.0])
    near, far = Knapsack(costs, 2.0), Knapsack(costs * unit, 2.0 * unit)
    z = rng.normal(0.8, 0.5, 14)
    assert far.rank == near.rank
    for ask in ("project_euclidean", "maximize"):
        assert getattr(far, ask)(z).tolist() == getattr(near, ask)(z).tolist()
    one, other = far.project_entropy(z, log=True), near.project_entropy(z, log=True)
    assert one.tolist() == other.tolist()
    assert one.gap == other.gap
    assert far.in_polytope(one)
    assert not far.in_polytope(1.001 * one.x)
    assert not far.contains(np.arange(14))
    assert far.contains([0, 1, 12])
    assert far.addable([0, 1]).tolist() == near.addable([0, 1]).tolist()
    sets = [bag.round(one, np.random.default_rng(8)).tolist() for bag in (near, far)]
    assert sets[0] == sets[1]
    assert far.decompose(one).residual == pytest.approx(near.decompose(one).residual, abs=1e-12)


def test_a_knapsack_tolerates_an_excess_relative_to_its_capacity():
    tiny = Knapsack([1e-12] * 5, 1e-12)
    assert not tiny.in_polytope(np.ones(5))
    assert tiny.in_polytope(np.full(5, 0.2))
    assert not tiny.in_polytope(np.full(5, 0.2 + 1e-9))
    with pytest.raises(ValueError, match="outside the polytope"):
        tiny.round(np.ones(5), np.random.default_rng(0))
    nothing = Knapsack([0.0, 1e-300], 0.0)
    assert nothing.in_polytope([1.0, 0.0])
    assert nothing.in_polytope([1.0, 1e-10])
    assert not nothing.in_polytope([1.0, 0.1])
    assert nothing.maximize([1.0, 1.0]).tolist() == [1.0, 0.0]
    assert not nothing.contains([1])
    # Costs next to nothing, and costs far beyond the capacity, side by side.
    uneven = Knapsack([1e-320, 1.0, 1.7e308], 1.0)
    assert uneven.project_euclidean([2.0, 2.0, 2.0]).tolist() == [1.0, 1.0, 0.0]
    assert uneven.project_entropy([5.0, 5.0, 5.0], log=True).x == pytest.approx([1.0, 1.0, 0.0], abs=1e-15)
    assert not uneven.contains([0, 1, 2])


def counted(sets):
    """Greedy passes over some independent sets: one in each step of a search, and others."""
    passes = [0]
    greedy, nearest = sets.greedy, sets._nearest

    def counted_greedy(order):
        passes[0] += 1
        return greedy(order)

    def counted_nearest(*asked):
        found = nearest(*asked)
        passes[0] += found.steps
        return found

    sets.greedy, sets._nearest = counted_greedy, counted_nearest
    return passes


@pytest.mark.parametrize("base", [False, True])
def test_decomposing_a_point_on_the_boundary_stays_on_its_face(base):
    """A Euclidean projection lies on many facets; off its face, bases take 11 greedy passes per item."""
    rng = np.random.default_rng(0)
    graph = GraphicMatroid([tuple(e) for e in rng.integers(0, 60, size=(300, 2))])
    x = graph.project_euclidean(rng.normal(0.5, 0.5, 300), base=base).x
    passes = counted(graph._sets)
    parts = graph.decompose(x)
    assert 300 < passes[0] <= 8 * 300
    assert np.abs(parts.residual).max() <= 1e-11
    assert parts.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert len(parts.sets) <= 301
    assert all(graph.contains(s) for s in parts.sets)
    assert not base or {s.size for s in parts.sets} == {graph.rank}


def test_large_cardinality_projections_keep_their_sum_and_shape():
    rng = np.random.default_rng(7)
    z = rng.normal(size=100_000)
    near = Cardinality(50).project_euclidean(z)
    assert near.sum() == pytest.approx(50.0, abs=1e-9)
    inside = (near > 0.0) & (near < 1.0)
    shift = z[inside] - near.x[inside]
    assert np.ptp(shift) < 1e-12
    assert (z[near == 0.0] <= shift[0] + 1e-12).all()
    assert (z[near == 1.0] >= 1.0 + shift[0] - 1e-12).all()
    weighted = Cardinality(50).project_entropy(3.0 * z, log=True, base=True)
    assert weighted.sum() == pytest.approx(50.0, abs=1e-9)
    free = weighted < 1.0
    assert np.ptp(np.log(weighted.x[free]) - 3.0 * z[free]) < 1e-9
    assert (np.log(weighted.x[~free]) - 3.0 * z[~free]).max() <= (
        np.log(weighted.x[free]) - 3.0 * z[free]
    ).max()


def test_general_projections_converge_on_a_larger_graph():
    rng = np.random.default_rng(3)
    graph = GraphicMatroid([tuple(e) for e in rng.integers(0, 30, size=(100, 2))])
    z = rng.normal(0.5, 2.0, 100)
    for base, entropic in product([False, True], [False, True]):
        x = (
            graph.project_entropy(z, log=True, base=base)
            if entropic
            else graph.project_euclidean(z, base=base)
        )
        assert x.gap < 1e-10
        assert graph.in_polytope(x)


def test_an_offset_does_not_blur_the_certificate_of_a_general_base():
    graph = GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)])
    log_w = np.array([0.5, 0.25, -1.0, 0.75, 0.125])
    at_home = graph.project_entropy(log_w, log=True, base=True)
    for offset in (1e4, 1e8, -1e8):
        away = graph.project_entropy(log_w + offset, log=True, base=True)
        assert away.x == pytest.approx(at_home.x, abs=1e-7)
        assert away.gap < 1e-8
        assert graph.project_euclidean(log_w + offset, base=True).gap < 1e-8
