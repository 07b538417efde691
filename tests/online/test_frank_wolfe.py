"""Meta-Frank-Wolfe: the protocol, exact loss of what is released, feasibility, certificates, settings."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet import constraints as c
from discreet.bounds import frank_wolfe as bounds
from discreet.bounds.selection import ALPHA
from discreet.constraints.domains import Box
from discreet.kernels.rows import SURVIVE, Compressed, RowTable
from discreet.objectives import (
    ConcaveOfLinear,
    ConcaveOverModular,
    Coverage,
    MultilinearExtension,
    SetFunction,
)
from discreet.online import MetaFrankWolfe, MetaFrankWolfePoints
from discreet.online.frank_wolfe import Leader, PaidExperts
from discreet.privacy import Gate, RunningSum, SumSpec, VectorBounds, samplers
from tests.online.learners import people
from tests.privacy.audit import exact_sum_loss

N_ITEMS, ROUNDS, RANK = 7, 30, 3
BUDGET, PURE, FREE = dc.Budget(1.0, 1e-6), dc.Budget(1.0), dc.Budget(math.inf)
BLOCKS = c.PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], 1)
COSTS = np.array([0.2, 0.5, 0.4, 0.9, 0.3, 0.6, 0.35])
BOX = Box(np.zeros(N_ITEMS), np.ones(N_ITEMS))


def _sets(constraint=BLOCKS, budget=BUDGET, **options):
    settings = {"steps": 3} | options
    return lambda seed=1, **more: MetaFrankWolfe(constraint, ROUNDS, budget, seed=seed, **settings, **more)


def _points(domain=BOX, budget=BUDGET, **options):
    settings = {"steps": 3, "gradient_bound": 1.0} | options
    return lambda seed=1, **more: MetaFrankWolfePoints(domain, ROUNDS, budget, seed=seed, **settings, **more)


def _stream(learner, kind="coverage", count=ROUNDS):
    if isinstance(learner, MetaFrankWolfe):
        return people(kind, count)
    rng = np.random.default_rng(5)
    weights = rng.random((count, N_ITEMS)) * np.linspace(0.2, 1.0, N_ITEMS)
    return ConcaveOfLinear(weights / weights.sum(axis=1, keepdims=True))


def _one_by_one(learner, stream, count=None, ids=None):
    shown, rewards = [], []
    for t in range(len(stream) if count is None else count):
        decision = learner.choose()
        shown.append(learner._row(decision))
        value = decision.items if isinstance(learner, MetaFrankWolfe) else decision
        rewards.append(stream[t].value(value))
        learner.learn(stream[t], person_id=None if ids is None else ids[t])
    return np.array(shown), np.array(rewards)


# --- the protocol -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chances", "facility", "functions"])
def test_other_families_run_as_one_by_one(kind):
    stream = people(kind)
    trace = _sets()().run(stream)
    shown, rewards = _one_by_one(_sets()(), stream)
    assert (trace.selections == shown).all()
    assert np.allclose(trace.rewards, rewards)


def test_rows_and_plain_functions_agree():
    for options in ({}, {"curvature": True}):
        a, b = (_sets(**options)().run(people(kind)) for kind in ("coverage", "functions"))
        assert (a.selections == b.selections).all()


# --- feasible, always ---------------------------------------------------------------------------


MATROIDS = {
    "cardinality": c.Cardinality(3, n_items=N_ITEMS),
    "partition": BLOCKS,
    "laminar": c.LaminarMatroid([[0, 1, 2, 3], [0, 1], [4, 5, 6]], [2, 1, 1]),
    "graphic": c.GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (3, 4), (4, 0)]),
    "transversal": c.TransversalMatroid([[0, 1, 2], [2, 3, 4], [4, 5, 6]]),
    "linear": c.LinearMatroid([[1, 0, 1, 0, 0.5, 0, 3], [0, 1, 1, 0, 0, 2**70, 1], [0, 0, 0, 1, 1, 1, 1]]),
    "linear, modulo 2": c.LinearMatroid([[1, 0, 1, 2, 1, 0, 3], [0, 1, 1, 0, 1, 2, 1]], modulus=2),
    "knapsack": c.Knapsack(COSTS, 1.0),
}


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(MATROIDS)),
    st.integers(1, 5),
    st.integers(1, 4),
    st.floats(0.05, 20.0),
    st.booleans(),
    st.integers(0, 2**30),
)
def test_every_set_is_feasible(name, steps, batch, epsilon, distorted, seed):
    constraint = MATROIDS[name]
    learner = MetaFrankWolfe(
        constraint,
        12,
        dc.Budget(epsilon, 1e-6),
        steps=steps,
        resample_every=batch,
        curvature=distorted,
        seed=seed,
    )
    for person in people(count=12):
        chosen = learner.choose()
        assert constraint.contains(chosen.items)
        assert len(set(chosen.items)) == len(chosen.items) <= constraint.rank
        assert constraint.in_polytope(learner.point)
        learner.learn(person)


@pytest.mark.parametrize("name", sorted(MATROIDS))
def test_any_kind_of_constraint_is_saved(name, tmp_path):
    learner = MetaFrankWolfe(MATROIDS[name], 20, BUDGET, steps=2, seed=3)
    stream = people(count=20)
    learner.run(stream[:9])
    learner.save(tmp_path / "s")
    again = dc.load(tmp_path / "s")
    for size in range(1, 4):
        for items in itertools.combinations(range(N_ITEMS), size):
            assert again.constraint.contains(items) == MATROIDS[name].contains(items)
    assert (again.run(stream[9:]).selections == learner.run(stream[9:]).selections).all()


def test_a_constraint_that_is_a_function_cannot_be_saved(tmp_path):
    oracle = c.Matroid.from_oracle(lambda s: len(s) <= 2, n_items=N_ITEMS)

    class Own(c.Cardinality):
        """Somebody's own: a file could not say which."""

    for constraint in (oracle, Own(2, n_items=N_ITEMS)):
        learner = MetaFrankWolfe(constraint, 20, BUDGET, steps=2, seed=3)
        with pytest.raises(TypeError, match="cannot be written to a file"):
            learner.save(tmp_path / "s")
        assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("name", sorted(MATROIDS))
@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
def test_no_rate_is_too_large_to_go_on(name, regularizer):
    learner = MetaFrankWolfe(MATROIDS[name], 6, BUDGET, steps=2, rate=1e307, regularizer=regularizer, seed=0)
    trace = learner.run(people(count=6))
    assert all(MATROIDS[name].contains(row[row >= 0]) for row in trace.selections)


# --- what one person moves ----------------------------------------------------------------------


def _payoffs(person, points, shares=None):
    """The slow twin of what a person is counted as."""
    found = np.array([person.multilinear_gradient(x) for x in points])
    if shares is None:
        return found
    least = person.multilinear_gradient(np.ones(points.shape[1]))
    return shares[:, None] * found + (1.0 - shares[:, None]) * least


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("norm", [1, 2])
def test_stacked_gradients_move_no_further_than_declared(cap, neighbours, norm):
    """Every pair of people over five items, at points where it is worst and at others."""
    n, steps = 5, 3
    rows = [row for row in itertools.product((0, 1), repeat=n) if cap is None or sum(row) <= cap]
    one = VectorBounds(n, norm, None, (0.0, 1.0), cap)
    declared = one.difference(neighbours) * (steps if norm == 1 else math.sqrt(steps))
    worst = 0.0
    rng = np.random.default_rng(9)
    for points in (np.zeros((steps, n)), np.cumsum(rng.random((steps, n)) / 3.0, axis=0)):
        vectors = [_payoffs(Coverage([row]), points).ravel() for row in rows]
        others = vectors if neighbours == "replace" else [np.zeros(n * steps)]
        worst = max(worst, *(np.linalg.norm(a - b, norm) for a in vectors for b in others))
    assert worst == pytest.approx(declared)  # reached, and not passed


def _released(make, stream, points):
    """What the learner releases, in units of its noise and without it, when the points are as scripted."""
    seen = []
    script = iter(points)
    released = RunningSum._released

    def quiet(_source, count, *, gaussian):  # noqa: ARG001
        return np.zeros(count, dtype=np.int64)

    def watched(total, sums):
        seen.extend(sums.astype(float) / 2.0**samplers.STEPS_BITS)
        return released(total, sums)

    def scripted(*_):
        return next(script)

    with (
        mock.patch.object(Leader, "partial_points", scripted),
        mock.patch.object(samplers, "noise_steps", quiet),
        mock.patch.object(RunningSum, "_released", watched),
    ):
        learner = make()
        for person in stream:
            learner.choose()
            learner.learn(person)
    return np.array(seen)


def _worst_loss(make, rounds=6, n=5, steps=2, norm=2):
    """Largest loss over neighbours and scripted points; the released values are compared exactly."""
    added = make().budget.neighbours == "add_remove"
    rng = np.random.default_rng(0)
    tables = list(itertools.product((0, 1), repeat=n))
    worst = 0.0
    for trial in range(4):
        points = [np.zeros((steps + 1, n))] * rounds
        if trial:
            corners = [np.zeros(n), *(FIVE.maximize(rng.random(n)) / steps for _ in range(steps))]
            points = [np.cumsum(corners, axis=0)] * rounds
        rest = [Coverage([tables[rng.integers(len(tables))]]) for _ in range(rounds - 1)]
        for first, second in (([1] * n, [0] * n), rng.choice(tables, 2), ([1, 1, 0, 0, 0], [0, 0, 1, 1, 0])):
            second = [0] * n if added else second  # whoever is not there has nothing
            a = _released(make, [Coverage([first]), *rest], points)
            b = _released(make, [Coverage([second]), *rest], points)
            worst = max(worst, np.linalg.norm((a - b).ravel(), norm))
    return worst


FIVE = c.PartitionMatroid([[0, 1], [2, 3, 4]], 1)


def _five(budget=BUDGET, rounds=6, **options):
    return lambda: MetaFrankWolfe(FIVE, rounds, budget, steps=2, seed=0, **options)


@pytest.mark.parametrize("options", [{}, {"resample_every": 2}, {"sums": "blt"}, {"curvature": True}])
def test_gaussian_release_loses_at_most_mu(options):
    worst = _worst_loss(_five(**options))
    # with distorted payoffs the worst person's first expert is paid half
    assert 0.7 * BUDGET.mu <= worst <= BUDGET.mu
    if "curvature" not in options:
        assert worst > 0.99 * BUDGET.mu


@pytest.mark.parametrize("sums", ["sqrt", "tree"])
@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_gaussian_release_under_both_relations(neighbours, cap, sums):
    budget = dc.Budget(1.0, 1e-6, neighbours)
    worst = _worst_loss(_five(budget, items_per_person=cap, sums=sums))
    # six rounds make a tree of three levels, none of which the first person's round is the last of
    assert 0.9 * budget.mu <= worst <= budget.mu


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("batch", [1, 2])
def test_laplace_release_loses_at_most_epsilon(batch, neighbours, cap):
    budget = dc.Budget(1.0, 0.0, neighbours)
    worst = _worst_loss(_five(budget, resample_every=batch, items_per_person=cap), norm=1)
    assert 0.9 <= worst <= 1.0


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_spherical_release_loses_at_most_epsilon(neighbours, steps):
    """What two people's gradients move every node of every expert by, over the noise that was drawn."""
    budget = dc.Budget(1.0, 0.0, neighbours)
    learner = _points(Box([0.0, 0.0], [1.0, 1.0]), budget, steps=steps)()
    learner.choose()
    units = learner.settings.units
    east = learner._prepared((lambda x: 0.5 * x[0], lambda _: np.array([1.0, 0.0])))[0] / units
    north = learner._prepared((lambda x: 0.5 * x[1], lambda _: np.array([0.0, 1.0])))[0] / units
    other = north if neighbours == "replace" else np.zeros_like(north)
    total = learner._sum.sum
    drawn = []

    def noise(_, size):
        drawn.append(size)
        return np.zeros(size, dtype=np.int64)

    with mock.patch.object(samplers, "spherical_steps", noise):
        learner.learn((lambda _: 0.0, lambda _: np.zeros(2)))
        learner.choose()
    assert drawn == [2] * steps
    scale = total._grid.noise_scale
    loss = total.levels * sum(np.linalg.norm(east - other, axis=1) / scale)
    assert 0.99 <= loss <= 1.0
    assert learner.privacy.epsilon(0.0) == pytest.approx(1.0)


def test_sums_of_the_longest_batches_are_exact():
    """Whole units stay whole as floats, so that nobody's share in a sum depends on the others'."""
    for batch in (1, 1000, 2**22, 2**30):
        learner = MetaFrankWolfe(BLOCKS, 2 * batch, BUDGET, steps=1, bound=0.7, resample_every=batch, seed=0)
        for total in (learner.settings.most * batch, learner.settings.most * batch - 1):
            assert int(np.int64(total) / learner.settings.units * learner.settings.units) == total
        assert learner.settings.most / learner.settings.units <= 0.7
        assert learner.settings.most / learner.settings.units == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_bounds_far_from_one(size):
    """The largest and the smallest that are taken; beyond them squares would leave the range of floats."""
    stream = Coverage(np.ones((6, N_ITEMS))) * size
    learner = MetaFrankWolfe(BLOCKS, 6, BUDGET, steps=2, bound=size, seed=0)
    assert len(learner.run(stream)) == 6
    box = Box(np.zeros(4), np.ones(4))
    options = {"steps": 2, "gradient_bound": size, "bound": 1.0, "seed": 0}
    points = MetaFrankWolfePoints(box, 6, BUDGET, resample_every=2, clip=True, **options)
    points.choose()
    points.learn((lambda _: 0.5, lambda _: np.full(4, 1e5 * size)))
    assert points.insecure_clipped == 1
    lengths = np.linalg.norm(points._sum.pending / points.settings.units / size, axis=1)
    assert lengths == pytest.approx([1.0, 1.0])
    assert lengths.max() <= 1.0


def test_injected_faults_are_caught():
    """The audits above are able to fail."""
    # a cap that is declared and not kept: the sum itself refuses the vector
    with (
        mock.patch.object(PaidExperts, "counted", lambda *given: given[1]),
        pytest.raises(ValueError, match="nonzeros=4 were declared"),
    ):
        _worst_loss(_five(items_per_person=2))
    # one of the two experts forgotten in the stack's difference
    honest = VectorBounds.difference
    with mock.patch.object(VectorBounds, "difference", lambda self, how: honest(self, how) / math.sqrt(2.0)):
        assert _worst_loss(_five()) > 1.3 * BUDGET.mu
    # the same with Laplace noise, and levels counted by the natural logarithm
    counted = SumSpec.count.fget
    for factor in (2.0, math.log2(6) / math.log(6)):
        too_few = property(lambda self, factor=factor: math.floor(counted(self) / factor))
        with mock.patch.object(SumSpec, "count", too_few):
            assert _worst_loss(_five(PURE), norm=1) > 1.3


def test_expert_tree_loses_what_it_says():
    """Exact loss of the sum, found from its own noise."""
    spec = SumSpec(VectorBounds(2, 1, None, (0.0, 1.0)), 3, "tree", "laplace", stacked=2)

    def make():
        return spec.make(Gate(PURE, 0))

    zero, full = np.zeros(4), np.ones(4)
    loss = exact_sum_loss(make, [full, zero, zero], [zero, zero, zero], norm=1)
    assert 0.99 <= loss <= 1.0 + 1e-6


def test_spherical_noise_is_one_vector_per_node_and_expert():
    spec = SumSpec(VectorBounds(3, 2, 1.0, (0.0, 1.0)), 2, "tree", "spherical", stacked=4000)
    total = spec.make(Gate(PURE, 0))
    noise = total.add(np.zeros(12_000)).reshape(4000, 3)
    scale = math.sqrt(2.0) * 4000 * total.levels
    lengths = np.linalg.norm(noise, axis=1) / scale
    # Gamma(3): mean 3, variance 3; six standard errors
    assert abs(lengths.mean() - 3.0) < 6.0 * math.sqrt(3.0 / 4000)
    assert total.noise_std(1) == pytest.approx(scale * 2.0)


def test_sampled_sets_do_not_depend_on_anybody():
    """A person without a closed form takes coins of the round only: later rounds' sets stay the same."""
    long = ConcaveOverModular(np.full((1, 20), 0.01), bound=1.0)
    learner = [MetaFrankWolfe(c.Cardinality(2, 20), 9, FREE, steps=2, samples=5, seed=4) for _ in "ab"]
    found = []
    for one, first in zip(learner, (long, Coverage(np.zeros((1, 20)))), strict=True):
        one.choose()
        one.learn(first)
        one.choose()
        one._sum.points[:] = 0.5
        found.append(one._prepared(long))
    assert (found[0] == found[1]).all()


def test_sampled_sets_are_the_same_for_everybody_and_grow_with_the_point():
    asked = []

    def watched(weight):
        seen = []
        asked.append(seen)
        return SetFunction(
            lambda s: (seen.append(tuple(sorted(s))), weight * len(s) / 12)[1], 12, 1.0, monotone=True
        )

    for weight in (0.1, 1.0):
        learner = MetaFrankWolfe(c.Cardinality(4, 12), 9, FREE, steps=3, samples=4, seed=4)
        for _ in range(2):
            learner.choose()
            learner._sum.points[1:] = np.array([0.2, 0.5, 0.5])[:, None]
            learner.learn(watched(weight))
    first, second, other, later = asked
    assert first == other
    assert second == later
    assert first != second  # new coins every round


def test_what_rounding_adds_is_not_counted():
    """Gradients a hair outside [0, bound] are taken, and counted as if on its edge."""
    hair = np.array([1.0 + 5e-10, -5e-10, 0.5, 1.0, 0.0, 0.25, 1.0])
    learner = _sets()()
    learner.choose()
    with mock.patch.object(SetFunction, "multilinear_gradient", return_value=hair):
        units = learner._prepared(people("functions")[0])
    assert units.max() == learner.settings.most
    assert units.min() == 0
    totals = np.zeros((1, 2), dtype=np.int64)
    row = Compressed(np.array([0, 2]), np.array([0, 1], dtype=np.int32), np.array([1.0 + 5e-10, 1.0]), 2)
    table = RowTable(SURVIVE, 1.0, row, np.ones(1), np.ones(1))
    table.add_gradients(0, np.ones(1, np.uint8), np.zeros((1, 2)), np.ones(1), 2.0**31, 2**31, totals)
    assert totals.tolist() == [[2**31, 2**31]]


# --- what is fed --------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [[[0, 1, 2], [3, 4], [5, 6]], [[6, 2, 4], [], [0], [1, 3, 5]]])
def test_one_of_each_is_the_projection(blocks):
    constraint = c.PartitionMatroid(blocks, 1, n_items=N_ITEMS)
    entropic, euclidean = (Leader(constraint, kind) for kind in ("entropy", "euclidean"))
    assert entropic._blocks is not None
    rng = np.random.default_rng(13)
    for size in (0.0, 0.1, 1.0, 30.0, 1e6):
        for scores in (rng.normal(0.0, size, N_ITEMS), np.round(rng.normal(0.0, size, N_ITEMS))):
            expected = constraint.project_entropy(0.5 * scores, log=True, base=True).x
            assert np.abs(entropic.at(scores, 0.5) - expected).max() < 1e-12
            expected = constraint.project_euclidean(0.5 * scores, base=True).x
            # the projection itself works with scores as large as they are
            assert np.abs(euclidean.at(scores, 0.5) - expected).max() < 1e-12 * max(size, 1.0)
    for other in (
        c.PartitionMatroid(blocks, 2, n_items=N_ITEMS),
        c.PartitionMatroid([[0, 1], [2]], 1, n_items=7),
    ):
        assert Leader(other, "entropy")._blocks is None


# --- learning and certificates ------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", ["entropy", "euclidean"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", ["partition", "cardinality", "knapsack"])
def test_experts_regret_is_at_most_certified(name, batch, regularizer):
    """Linear payoffs that go to what the leader likes least, to what it likes most, and at random."""
    constraint, rounds = MATROIDS[name], 60
    leader = Leader(constraint, regularizer)
    for style in range(3):
        rng = np.random.default_rng(style)
        for rate in (0.05, 0.3):
            total, waiting, got = np.zeros(N_ITEMS), np.zeros(N_ITEMS), 0.0
            for t in range(rounds):
                if t % batch == 0:
                    total, waiting = total + waiting, np.zeros(N_ITEMS)
                    point = leader.at(total, rate)
                paid = (
                    (point <= np.median(point)).astype(float),
                    (point >= np.median(point)).astype(float),
                    (rng.random(N_ITEMS) < 0.4).astype(float),
                )[style]
                waiting += paid
                got += float(paid @ point)
            total += waiting
            options = {"base": True} if isinstance(constraint, c.Matroid) else {}
            regret = float(total @ constraint.maximize(total, **options)) - got
            if regularizer == "entropy":
                limit = bounds.entropic(leader.spread, got / rounds, rounds, rate, batch)
            else:
                limit = bounds.euclidean(leader.reach, math.sqrt(N_ITEMS), rounds, rate, batch)
            assert regret <= limit


@pytest.mark.parametrize("name", sorted(MATROIDS))
def test_leaders_know_the_range_of_their_regularizers(name):
    constraint, rng = MATROIDS[name], np.random.default_rng(2)
    for kind in ("entropy", "euclidean"):
        leader = Leader(constraint, kind)
        points = [
            leader.at(rng.normal(0.0, size, N_ITEMS), 1.0) for size in (0.0, 0.3, 1.0, 50.0, 50.0, 50.0)
        ]
        if name == "knapsack":
            points.append(np.zeros(N_ITEMS))
        heights = []
        for x in points:
            logs = np.log(x, out=np.zeros(N_ITEMS), where=x > 0.0)
            heights.append(float(x @ logs - x.sum() if kind == "entropy" else x @ x / 2.0))
        spread = leader.spread if kind == "entropy" else leader.reach**2 / 2.0
        assert heights[0] <= min(heights) + 1e-9  # the leader of nothing is where it is least
        assert max(heights) - heights[0] <= spread + 1e-9
        if name != "knapsack" or kind == "entropy":
            assert max(heights) - heights[0] == pytest.approx(spread)
        assert max(x.sum() for x in points) <= leader.rank + 1e-9
        assert max(np.linalg.norm(x) for x in points) <= leader.radius + 1e-9


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "spherical"])
def test_noise_never_falls(noise):
    """The certificate's argument: what a tree's sum lacks in noise against the worst one is made up for."""
    size = 4000
    if noise == "spherical":
        box = Box(np.zeros(2), np.ones(2))
        options = {"steps": size // 2, "gradient_bound": 1.0}
        learner = MetaFrankWolfePoints(box, 5, PURE, seed=0, **options)
    else:
        budget = BUDGET if noise == "gaussian" else PURE
        learner = MetaFrankWolfe(c.Cardinality(1, size), 5, budget, steps=1, sums="tree", seed=0)
    assert learner.noise == noise
    total = learner._sum.sum
    spread, expected = [], []
    for _ in range(4):
        expected.append(total.noise_std(total.taken + 1))
        spread.append(learner._sum.release().std())
    if noise == "gaussian":
        limits = np.maximum.accumulate(expected)
    else:
        limits = np.full(4, math.sqrt(2.0) * expected[0])  # two nodes at most, and so two always
    # sums of two Laplace draws have kurtosis 4.5, of two such vectors less: six standard errors
    assert np.abs(spread / limits - 1.0).max() < 6.0 * math.sqrt(3.5 / (4.0 * size))


def test_expected_maximum_of_the_noise_is_within_the_certificate():
    """E max <N, x> over bases and a box, for the noises that are drawn; six standard errors."""
    rng = np.random.default_rng(6)
    draws = 20_000
    for name in ("partition", "cardinality"):
        for deviation, noise, limit in (
            (2.0, rng.normal(0.0, 2.0, (draws, N_ITEMS)), bounds.set_maximum(N_ITEMS, 3.0, 2.0)),
            (
                0.0,
                rng.laplace(0.0, 2.0, (3, draws, N_ITEMS)).sum(axis=0),
                bounds.laplace_set_maximum(N_ITEMS, 3.0, 2.0, 3),
            ),
        ):
            if name == "partition":
                best = sum(noise[:, block].max(axis=1) for block in ([0, 1, 2], [3, 4], [5, 6]))
            else:
                best = np.sort(noise, axis=1)[:, -3:].sum(axis=1)
            assert best.mean() - 6.0 * best.std() / math.sqrt(draws) <= limit
            if deviation:
                assert limit <= 3.0 * best.mean()  # and not by far
    noise = rng.normal(0.0, 2.0, (draws, 3))
    widths = np.array([1.0, 0.5, 2.0])
    best = (np.maximum(noise, 0.0) * widths).sum(axis=1)
    assert bounds.box_maximum(widths.tolist(), 2.0, gaussian=True) == pytest.approx(best.mean(), rel=0.03)


def test_regret_is_against_feasible_sets():
    """Blocks forbid what would be best without them."""
    table = np.zeros((ROUNDS, N_ITEMS))
    table[np.arange(ROUNDS), np.arange(ROUNDS) % 3] = 1.0  # everybody likes one of the first block
    table[::5, 4] = 1.0
    stream = Coverage(table)
    trace = _sets()().run(stream)
    best = max(stream.value(s) for s in itertools.product((0, 1, 2), (3, 4), (5, 6)))
    found = trace.regret(stream, constraint=BLOCKS)
    assert found.exact
    assert BLOCKS.contains(found.comparator)
    assert found.total == pytest.approx(ALPHA * best * ROUNDS - trace.total)
    assert trace.regret(stream, 1.0).best == 1.0 > best + 0.5
    learner = _points()()
    with pytest.raises(TypeError, match="holds points, not sets"):
        learner.run(_stream(learner)).regret(stream)


@pytest.mark.parametrize("rank", [1.0, 2.5, 5.0])
@pytest.mark.parametrize("steps", [1, 4, 16, 64])
def test_steps_lose_no_more_than_certified(steps, rank):
    """Step by step, each with the better of its two gains, from every value that the best set may have."""
    worst = 0.0
    for best in np.linspace(0.0, 1.0, 101):
        gap = best
        for k in range(1, steps + 1):
            chance = (1.0 - 1.0 / (steps - k + 1)) ** rank
            gap -= max(chance * gap / steps, gap / steps - rank * rank / (2.0 * steps * steps))
        worst = max(worst, gap - best / math.e)
    certified = bounds.discretization(steps, rank, 1)
    assert worst <= certified + 1e-12
    assert certified <= 1.6 * worst


# --- bad input ----------------------------------------------------------------------------------


def test_bad_functions_are_refused_or_shortened():
    learner, twin = _points()(), _points()()
    learner.choose()
    twin.choose()
    ones = np.full(N_ITEMS, 0.1)

    def pair(value, gradient):
        return (lambda _: value, lambda _: gradient)

    for person, message in (
        (pair(0.5, np.ones(N_ITEMS)), "has length 2.64575, above gradient_bound=1"),
        (pair(0.5, -ones), "is negative"),
        (pair(1.5, ones), r"value\(x\) must be a finite number in \[0, 1\]"),
        (pair(math.nan, ones), r"value\(x\) must be a finite number in \[0, 1\]"),
        (pair(0.5, np.full(N_ITEMS, math.nan)), r"gradient\(x\) must be 7 finite numbers"),
        (pair(0.5, np.ones(3)), r"gradient\(x\) must be 7 finite numbers"),
        ("somebody", r"value\(point\) and gradient\(point\)"),
        (ConcaveOfLinear([[0.5, 0.5]]), "has 2 coordinates; this learner's points have 7"),
        (ConcaveOfLinear(np.ones((1, 7)), "log", total=7.0), "above the learner's bound=1"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            learner.learn(person, person_id="ann")
    assert learner.round == 0
    learner.learn(pair(0.5, ones), person_id="ann")
    twin.learn(pair(0.5, ones))
    assert (learner.choose() == twin.choose()).all()
    clipping = _points(clip=True)()
    clipping.choose()
    clipping.learn(pair(0.5, np.ones(N_ITEMS)))
    assert clipping.insecure_clipped == 1
    assert np.linalg.norm(clipping._sum.pending, axis=1).max() <= clipping.settings.units


def test_populations_of_sets_are_points_too():
    learner = _points(BLOCKS, gradient_bound=math.sqrt(7.0))()
    trace = learner.run(people())
    twin = _points(BLOCKS, gradient_bound=math.sqrt(7.0))().run(MultilinearExtension(people()))
    assert np.allclose(trace.selections, twin.selections)
    assert np.allclose(trace.rewards, twin.rewards)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraint": "all"}, "constraint must be a constraint"),
        ({"constraint": c.Cardinality(3)}, "does not say over how many items"),
        ({"constraint": BOX}, "for points of a box there is MetaFrankWolfePoints"),
        ({"steps": "many"}, "steps must be a whole number"),
        ({"sums": "magic"}, "sums='magic' is not one of"),
        ({"sums": "sqrt", "budget": PURE}, "Gaussian noise needs delta > 0"),
        ({"regularizer": "love"}, "regularizer='love' is not one of"),
        ({"items_per_person": 9}, "items_per_person=9 is too large"),
        ({"bound": 1e-101}, "bound=1e-101 must be at least 1e-100"),
        ({"bound": 1e300}, "must be at most 1e"),
        ({"budget": 1.0}, "budget must be a Budget"),
        ({"calibration": "published", "resample_every": 2}, "has its own resample_every="),
        ({"calibration": "published", "curvature": True}, "has its own resample_every="),
        ({"calibration": "published", "budget": FREE}, "needs a finite epsilon"),
        ({"calibration": "published", "budget": PURE}, "needs delta > 0"),
        ({"calibration": "published", "sums": "sqrt"}, "has its own .*sums="),
        ({"calibration": "published", "budget": BUDGET.split(2)[0]}, "a budget of its own"),
    ],
)
def test_bad_settings(options, message):
    asked = {"constraint": BLOCKS, "rounds": 10, "budget": BUDGET} | options
    with pytest.raises((ValueError, TypeError), match=message):
        MetaFrankWolfe(**asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain": "all"}, "domain must be a domains.Box or a constraint"),
        ({"domain": c.Cardinality(3)}, "does not say over how many items"),
        ({"domain": Box([-1.0], [1.0])}, "give a box with low >= 0"),
        ({"steps": "auto"}, 'steps="auto" weighs steps against smoothness'),
        ({"gradient_bound": 1e-170}, "gradient_bound=1e-170 must be at least"),
        ({"smoothness": -1.0}, "smoothness=-1.0 must be at least 0"),
        ({"sums": "blt", "budget": PURE}, "Gaussian noise needs delta > 0"),
        ({"budget": PURE, "resample_every": 2}, "sums one person at a time"),
        ({"calibration": "published", "rate": 1.0}, "has its own .*rate="),
        ({"calibration": "published", "sums": "blt"}, "has its own .*sums="),
        ({"calibration": "published", "budget": FREE}, "needs a finite epsilon"),
        ({"calibration": "published", "budget": Gate(PURE, 0)}, "a budget of its own"),
    ],
)
def test_bad_settings_of_points(options, message):
    asked = {"domain": BOX, "rounds": 10, "budget": BUDGET, "gradient_bound": 1.0, "steps": 2} | options
    with pytest.raises((ValueError, TypeError), match=message):
        MetaFrankWolfePoints(**asked)
