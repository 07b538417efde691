"""Rounded sets are feasible, right on average, and lose nothing (a knapsack: what it says)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Knapsack,
    LaminarMatroid,
    LinearMatroid,
    Matroid,
    PartitionMatroid,
    TransversalMatroid,
    swap_round,
)
from discreet.constraints.rounding import settle_knapsack

from .matroid_zoo import CLASSES

# Each comparison below may fail by chance with probability at most this.
CHANCE = 1e-8


class LowestCoins(np.random.Generator):
    """Every coin falls on its least likely side: what has any chance happens."""

    def random(self, size=None):
        return 0.0 if size is None else np.zeros(size)


def margin(draws: int) -> float:
    """How far the mean of independent draws in [0, 1] strays from its expectation, except with CHANCE."""
    return float(np.sqrt(np.log(1.0 / CHANCE) / (2.0 * draws)))


def as_often(counts, draws: int, chances) -> bool:
    """Whether items came up as often as with these chances: exact tails, which ask for few draws."""
    chances = np.clip(chances, 0.0, 1.0)
    below, above = stats.binom.cdf(counts, draws, chances), stats.binom.sf(counts - 1, draws, chances)
    return bool(np.minimum(below, above).min() >= CHANCE / 2.0)


def coverage(n: int, seed: int):
    """A monotone submodular function in [0, 1]: how much weight the chosen items' areas cover."""
    rng = np.random.default_rng(seed)
    covers = rng.random((n, 12)) < 0.35
    weights = rng.dirichlet(np.ones(12))

    def value(items) -> float:
        return float(weights[covers[np.asarray(items, dtype=int)].any(axis=0)].sum())

    def multilinear(x) -> float:
        return float(weights @ (1.0 - np.prod(1.0 - x[:, None] * covers, axis=0)))

    return value, multilinear


K5 = [(a, b) for a in range(5) for b in range(a)]
MATROIDS = {
    "cardinality": Cardinality(3, 10),
    "partition": PartitionMatroid([0, 0, 0, 1, 1, 1, 1, 2, 2, -1], [1, 2, 1]),
    "laminar": LaminarMatroid([[0, 1, 2], [0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [8, 9]], [1, 2, 2, 1]),
    "graphic": GraphicMatroid(K5),
    "transversal": TransversalMatroid([[0, 1, 2, 3], [2, 3, 4, 5, 6], [6, 7, 8, 9], [0, 9]]),
    "linear": LinearMatroid(np.random.default_rng(1).integers(-1, 2, size=(4, 10))),
    "oracle": Matroid.from_oracle(lambda s: len(s) <= 4 and len(s & {0, 1, 2, 3}) <= 1, 10),
}


def interior_point(matroid, seed: int, *, base: bool) -> np.ndarray:
    z = np.random.default_rng(seed).normal(0.0, 1.0, 10)
    if base:
        return matroid.project_entropy(z, log=True, base=True).x
    return 0.8 * matroid.project_euclidean(0.6 + 0.3 * z).x


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("name", MATROIDS)
def test_rounding_keeps_expectations_and_loses_nothing(name, base):
    matroid = MATROIDS[name]
    x = interior_point(matroid, 11, base=base)
    assert 0.05 < x.max() < 1.0 or base
    rng = np.random.default_rng(12)
    general = name in ("linear", "oracle")
    draws = {"linear": 400, "oracle": 1_500}.get(name, 3_000)
    # The same decomposition for every draw: round() would compute it anew each time.
    parts = matroid.decompose(x)
    value, multilinear = coverage(10, 13)
    counts, worth = np.zeros(10), 0.0
    for _ in range(draws):
        chosen = swap_round(matroid, parts.sets, parts.weights, rng) if general else matroid.round(x, rng)
        assert matroid.contains(chosen)
        counts[chosen] += 1.0
        worth += value(chosen)
        if base:
            assert chosen.size == matroid.rank
    assert as_often(counts, draws, x)
    assert worth / draws >= multilinear(x) - margin(draws)


@pytest.mark.parametrize("name", ["partition", "laminar", "cardinality", "graphic", "transversal"])
def test_swap_rounding_is_right_where_there_is_a_faster_way_too(name):
    matroid = MATROIDS[name]
    x = interior_point(matroid, 21, base=False)
    parts = matroid.decompose(x)
    rng = np.random.default_rng(22)
    counts, draws = np.zeros(10), 1_500
    for _ in range(draws):
        chosen = swap_round(matroid, parts.sets, parts.weights, rng)
        assert matroid.contains(chosen)
        counts[chosen] += 1.0
    assert as_often(counts, draws, x)


@pytest.mark.parametrize("name", ["cardinality", "graphic", "transversal"])
def test_pairs_are_chosen_together_no_more_often_than_independently(name):
    matroid = MATROIDS[name]
    x = matroid.project_euclidean(np.full(10, 0.9), base=True).x
    rng = np.random.default_rng(31)
    together = np.zeros((10, 10))
    draws = 4_000
    for _ in range(draws):
        chosen = matroid.round(x, rng)
        together[np.ix_(chosen, chosen)] += 1.0
    excess = together / draws - np.outer(x, x)
    np.fill_diagonal(excess, 0.0)
    assert excess.max() <= margin(draws)


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_rounding_is_feasible_at_and_just_beyond_the_boundary(name, data, seed):
    case = data.draw(CLASSES[name])
    """Entries within 1e-12 of 0 and 1, sums above a limit by 1e-10: still a feasible set, never an error."""
    rng = np.random.default_rng(seed)
    vertices = case.vertices()
    x = rng.dirichlet(np.ones(3)) @ vertices[rng.integers(len(vertices), size=3)]
    x = np.where(
        rng.random(case.n) < 0.5, np.clip(x + rng.choice([-1e-12, 1e-12, 1e-16], case.n), 0.0, 1.0), x
    )
    x = x + rng.choice([0.0, 1e-10 / case.n])
    for coins in (rng, rng, rng, LowestCoins(rng.bit_generator)):
        assert frozenset(case.matroid.round(x, coins).tolist()) in case.independent
    parts = case.matroid.decompose(x)
    assert all(frozenset(s.tolist()) in case.independent for s in parts.sets)
    assert np.abs(parts.residual).max() <= 1e-9


COSTS = np.array([0.5, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.1, 0.0, 2.0])


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_knapsack_rounding_loses_at_most_the_dropped_item(scale):
    bag = Knapsack(COSTS, 1.0)
    x = scale * bag.project_euclidean(np.full(10, 0.7)).x
    rng = np.random.default_rng(41)
    value, multilinear = coverage(10, 42)
    draws = 4_000
    counts, worth = np.zeros(10), 0.0
    for _ in range(draws):
        chosen = bag.round(x, rng)
        assert bag.contains(chosen)
        counts[chosen] += 1.0
        worth += value(chosen)
    assert (counts / draws <= x + margin(draws)).all()
    # Never more than one item is dropped, and its share of an item's value is lost.
    assert (x - counts / draws).sum() <= 1.0 + 10 * margin(draws)
    loss = max(value([i]) for i in range(10))
    assert worth / draws >= multilinear(x) - loss - margin(draws)
    # A free item is never dropped.
    assert as_often(counts[8], draws, x[8])


def test_pairs_of_a_knapsack_settle_at_the_same_cost():
    """Whatever the coins: one entry at most stays between, free items stay as they are, and so do means."""
    start = np.array([0.3, 0.9, 0.5, 0.2, 0.7, 1.0, 0.4])
    costs = np.array([1.0, 3.0, 0.5, 2.0, 0.25, 1.0, 0.0])
    rng, runs = np.random.default_rng(4), np.zeros((3000, 7))
    for x in runs:
        x[:] = start
        settle_knapsack(x, costs, rng)
        assert costs @ x == pytest.approx(costs @ start)
        assert np.count_nonzero((x > 0.0) & (x < 1.0) & (costs > 0.0)) <= 1
    assert runs[:, 5:].tolist() == [[1.0, 0.4]] * 3000
    assert np.abs(runs.mean(axis=0) - start).max() < 5 * 0.5 / math.sqrt(3000)


def test_knapsack_rounding_keeps_expectations_when_nothing_needs_dropping():
    """Equal costs that divide the capacity: the last fraction always fits, so every expectation is kept."""
    bag = Knapsack(np.full(8, 0.25), 1.0)
    x = np.array([0.9, 0.1, 0.35, 0.6, 0.2, 0.7, 0.45, 0.5])
    rng = np.random.default_rng(43)
    counts, draws = np.zeros(8), 4_000
    for _ in range(draws):
        chosen = bag.round(x, rng)
        assert chosen.size in (3, 4)
        counts[chosen] += 1.0
    assert as_often(counts, draws, x)


def test_knapsack_rounding_drops_an_item_when_the_point_is_only_tolerated():
    bag = Knapsack([0.5 + 5e-11, 0.5], 1.0)
    assert bag.in_polytope([1.0, 1.0])
    assert not bag.contains([0, 1])
    rng = np.random.default_rng(0)
    assert all(bag.round([1.0, 1.0], rng).size == 1 for _ in range(20))
    assert all(bag.contains(s) for s in bag.decompose([1.0, 1.0]).sets)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_knapsack_rounding_is_feasible_at_and_just_beyond_the_boundary(seed):
    rng = np.random.default_rng(seed)
    costs = rng.choice([0.1, 0.2, 0.3, 1.0 / 3.0, 0.7, 1e-9, 0.0, 5.0], 8)
    bag = Knapsack(np.append(costs, 0.1), 1.0)
    x = bag.project_euclidean(rng.normal(0.5, 0.7, 9)).x
    x = np.clip(x + rng.choice([0.0, 1e-10, 1e-12], 9) * (bag.costs <= 1.0), 0.0, 1.0)
    for _ in range(10):
        assert bag.contains(bag.round(x, rng))
    assert all(bag.contains(s) for s in bag.decompose(x).sets)


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_candidates_for_an_exchange_are_those_that_fit(name, data):
    case = data.draw(CLASSES[name])
    for s in sorted(case.independent, key=sorted)[:12]:
        outside = np.array(sorted(set(range(case.n)) - s), dtype=np.intp)
        fits = case.matroid._sets.addable_among(np.array(sorted(s), dtype=np.intp), outside)
        assert fits.tolist() == [s | {i} in case.independent for i in outside.tolist()]


def test_an_oracle_that_is_no_matroid_is_found_out():
    """Two maximal sets of different sizes with nothing to exchange."""
    liar = Matroid.from_oracle(lambda s: s <= {0, 1} or s <= {2, 3, 4}, 5)
    sets = [np.array([0, 1]), np.array([2, 3, 4])]
    with pytest.raises(ValueError, match="not that of a matroid"):
        swap_round(liar, sets, np.array([0.5, 0.5]), np.random.default_rng(0))


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_a_vertex_rounds_to_its_own_set(name, data):
    case = data.draw(CLASSES[name])
    rng = np.random.default_rng(0)
    for vertex in case.vertices()[:10]:
        assert case.matroid.round(vertex, rng).tolist() == np.flatnonzero(vertex).tolist()


def test_knapsack_rounding_meets_the_integrality_gap():
    """Two items of cost 0.6: the fractional point is worth 5/3 of what any set is."""
    bag = Knapsack([0.6, 0.6], 1.0)
    x = bag.maximize([2.0, 1.0])
    assert x == pytest.approx([1.0, 2.0 / 3.0])
    assert bag.round(x, np.random.default_rng(0)).tolist() == [0]


def test_swap_rounding_takes_plain_lists_and_needs_no_ground_set():
    rng = np.random.default_rng(61)
    counts = np.zeros(6)
    draws = 2_000
    for _ in range(draws):
        chosen = swap_round(Cardinality(2), [[0, 1], (2, 3), {5, 0}, []], [2.0, 1.0, 1.0, 0.0], rng)
        assert chosen.size == 2
        counts[chosen] += 1.0
    assert np.abs(counts / draws - [0.75, 0.5, 0.25, 0.25, 0.0, 0.25]).max() <= margin(draws)
