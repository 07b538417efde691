"""Linear maximisation, projections, membership and decomposition, checked against every vertex."""

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
from discreet.constraints.nearest_point import nearest_point
from discreet.constraints.thresholds import scale_to_total, shift_to_total

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
    assert x.gap <= tolerance
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
    assert x.gap <= 1e-8
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
def test_points_of_the_polytope_are_recognised_project_to_themselves_and_decompose(name, data, seed):
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
    log_cap = np.log(upper) - z
    s = brentq(
        lambda s: np.minimum(upper, np.exp(np.minimum(z + s, 10.0))).sum() - total, -2e3, 2e3, xtol=1e-13
    )
    factor = scale_to_total(z, log_cap, total)
    assert np.exp(z + factor) == pytest.approx(np.minimum(upper, np.exp(np.minimum(z + s, 10.0))), rel=1e-9)


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


@pytest.mark.parametrize("base", [False, True])
def test_nested_and_general_methods_agree(base):
    """The closed forms against the general method on the same matroid given as an oracle."""
    rng = np.random.default_rng(5)
    family, capacities = [[0, 1, 2], [0, 1, 2, 3, 4, 5], [6, 7, 8]], [1, 2, 2]
    fast = LaminarMatroid(family, capacities, n_items=11)
    slow = Matroid.from_oracle(
        lambda s: all(len(s & set(f)) <= c for f, c in zip(family, capacities, strict=True)), 11
    )
    for _ in range(5):
        z = rng.normal(0.5, 1.0, 11)
        one, other = fast.project_euclidean(z, base=base), slow.project_euclidean(z, base=base)
        assert one.x == pytest.approx(other.x, abs=1e-7)
        one, other = (
            fast.project_entropy(z, log=True, base=base),
            slow.project_entropy(z, log=True, base=base),
        )
        assert one.x == pytest.approx(other.x, abs=1e-9)
        assert other.gap < 1e-9
        assert other.iterations > 0
        assert one.iterations == 0


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


def test_the_gap_bounds_the_error_of_an_unfinished_search():
    rng = np.random.default_rng(9)
    graph = GraphicMatroid([tuple(e) for e in rng.integers(0, 12, size=(40, 2))])
    z = rng.normal(0.5, 1.0, 40)

    def distance(steps):
        found = nearest_point(z, lambda cost: graph.maximize(-cost), max_iterations=steps)
        assert found.iterations <= steps
        assert found.shares @ found.vertices == pytest.approx(found.x)
        return 0.5 * np.sum((found.x - z) ** 2), found.gap

    best, last_gap = distance(10_000)
    assert last_gap < 1e-12
    for steps in (1, 2, 4, 8):
        reached, gap = distance(steps)
        assert 1e-3 < reached - best <= gap


def test_a_projected_point_is_an_array_that_carries_its_certificate():
    point = PartitionMatroid([0, 0, 1], 1).project_euclidean([1.0, 1.0, 0.5])
    assert point.gap == 0.0
    assert point.iterations == 0
    assert type(point.x) is np.ndarray
    assert type(2 * point) is np.ndarray
    assert np.isnan(point[:2].gap)
    assert isinstance(point.sum(), float)
    assert point @ np.ones(3) == pytest.approx(1.5)
