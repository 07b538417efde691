"""Submodular minimization: gradients, releases, certificates, and the protocol."""

from __future__ import annotations

import itertools
import math
import warnings
from contextlib import nullcontext
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import discreet as dc
from discreet.bounds import minimization as bounds
from discreet.evaluation.streams import cuts_and_prices
from discreet.kernels.minimization import Chain, Cuts
from discreet.objectives import GraphCut, SetFunction
from discreet.online import bandit_minimize
from discreet.online.bandit_minimize import (
    BanditMinimizerSettings,
    BanditSubmodularMinimizer,
    HorizonTooShort,
    value_noise,
)
from discreet.online.minimize import ROUNDING, MinimizerSettings, SubmodularMinimizer
from discreet.online.sums import CostTotal
from discreet.privacy import RunningSum, SumSpec, TreeSum, VectorBounds, samplers, tree_levels
from discreet.privacy.account import PublishedCalibrationWarning
from discreet.privacy.factorizations import BinaryTree

BUDGET = dc.Budget(1.0, 1e-6)
PURE = dc.Budget(1.0)
FREE = dc.Budget(math.inf)
UNIT = 2.0**samplers.STEPS_BITS


# --- what a gradient can be ---------------------------------------------------------------------


def _range(gradient, order, free):
    return Chain(gradient.size, 1.0, 0.5).range(gradient, np.argsort(order).astype(float), free)


def _subsets(n):
    return list(itertools.product((0, 1), repeat=n))


def _corners(n, empty_is_free):
    """The corners that the documentation names, for bound 1 and the chain 0, 1, 2, ..."""
    unit = np.eye(n)
    rising = [np.zeros(n), *unit, *(unit[i] - unit[j] for i in range(n) for j in range(i + 1, n))]
    falling = [np.zeros(n), *(-unit)]
    if empty_is_free:
        return [a + b for a in rising for b in falling]
    return [2.0 * corner for corner in [*rising, *falling]]


def _largest_slope(n, direction, empty_is_free):
    """max direction . g over the gradients along 0, 1, ... of all submodular functions in [-1, 1], by LP."""
    sets = _subsets(n)
    place = {s: k for k, s in enumerate(sets)}
    rows = []
    for s in sets:
        for i, j in itertools.combinations([k for k in range(n) if not s[k]], 2):
            with_i, with_j = (tuple(int(v or k == x) for k, v in enumerate(s)) for x in (i, j))
            both = tuple(int(v or k in (i, j)) for k, v in enumerate(s))
            row = np.zeros(len(sets))
            row[[place[both], place[s]]] += 1.0
            row[[place[with_i], place[with_j]]] -= 1.0
            rows.append(row)
    cost = np.zeros(len(sets))
    for i in range(n):
        after = tuple(int(k <= i) for k in range(n))
        before = tuple(int(k < i) for k in range(n))
        cost[place[after]] -= direction[i]
        cost[place[before]] += direction[i]
    limits = [(0, 0) if empty_is_free and not any(s) else (-1, 1) for s in sets]
    found = linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), bounds=limits)
    return -found.fun


@pytest.mark.parametrize("empty_is_free", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_gradients_are_the_hull_of_the_corners(n, empty_is_free):
    rng = np.random.default_rng(n)
    corners = np.array(_corners(n, empty_is_free))
    for direction in [*rng.normal(size=(12, n)), *rng.integers(-2, 3, size=(8, n))]:
        exact = _largest_slope(n, direction, empty_is_free)
        assert exact == pytest.approx((corners @ direction).max(), abs=1e-7)


@pytest.mark.parametrize("empty_is_free", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_lengths_and_differences_are_those_of_the_corners(n, empty_is_free):
    corners = _corners(n, empty_is_free)
    for norm in (1, 2):
        longest = max(np.linalg.norm(c, norm) for c in corners)
        apart = max(np.linalg.norm(a - b, norm) for a in corners for b in corners)
        found = bounds.gradient_length(n, 3.0, norm, empty_is_free=empty_is_free)
        assert found == pytest.approx(3 * longest)
        found = bounds.gradient_difference(n, 3.0, norm, empty_is_free=empty_is_free)
        assert found == pytest.approx(3 * apart)


def test_gauge_is_the_range_that_a_gradient_needs():
    rng = np.random.default_rng(5)
    order = np.array([2, 0, 1])
    for free in (False, True):
        limit = 1.0 if free else 2.0
        corners = np.array(_corners(3, free))
        for _ in range(50):
            inside = rng.dirichlet(np.full(len(corners), 0.2)) @ corners
            gradient = np.empty(3)
            gradient[order] = inside
            assert Chain(3, 1.0, 0.5).range(gradient, np.argsort(order).astype(float), free) <= limit * (
                1 + 1e-12
            )
        for corner in corners:
            gradient[order] = corner * 1.01
            size = _range(gradient, order, free)
            steps = np.cumsum(np.concatenate(([0.0], corner)))
            ups = np.maximum(corner, 0).sum()
            assert size == pytest.approx(1.01 * (max(ups, -steps.min()) if free else ups - steps.min()))


def _truncated(steps, bound, empty_is_free):
    """Whether some gradient for ``bound``, along 0, 1, ..., becomes these whole numbers towards zero."""
    risen = sum(step for step in steps if step > 0)
    if not empty_is_free:  # what truncation takes off would be added to the rises, and to the heights at most
        return risen - min(itertools.accumulate(steps, initial=0)) <= 2.0 * bound
    spare, height, lowest = bound - risen, 0.0, 0.0
    for step in steps:  # a rise can have lost up to 1, and helps most where it comes first
        lost = min(max(spare, 0.0), 1.0 - 1e-9) if step >= 0 else 0.0
        spare, height = spare - lost, height + step + lost
        lowest = min(lowest, height)
    return risen <= bound and lowest >= -bound


@pytest.mark.parametrize("empty_is_free", [False, True])
@pytest.mark.parametrize("n", [2, 3])
def test_gradients_truncated_to_a_coarse_grid_are_no_farther_apart(n, empty_is_free):
    for bound in (1.0, 1.6, 1.95, 2.05, 2.5, 2.95):  # in steps of the grid
        each = range(-6, 7)
        reached = np.array(
            [v for v in itertools.product(each, repeat=n) if _truncated(v, bound, empty_is_free)]
        )
        assert np.abs(reached).max() < 6
        apart = reached[:, None] - reached
        for norm in (1, 2):
            most = bounds.gradient_difference(n, bound, norm, empty_is_free=empty_is_free)
            assert np.linalg.norm(apart, norm, axis=2).max() <= most * (1 + 1e-12)


def test_a_gradient_outside_the_hull_is_refused_whatever_was_declared():
    # falls, then rises: within [-1, 1] along the chain, but no submodular function does that
    person = SetFunction(lambda s: 1.0 if len(s) != 1 else -1.0, 2, bound=1.0)
    learner = SubmodularMinimizer(2, 10, FREE, seed=0)
    learner.choose()
    with pytest.raises(ValueError, match="not submodular"):
        learner.learn(person)
    assert learner.round == 0


# --- releases, full information -----------------------------------------------------------------


def _released(make, people, known):
    """What a learner releases, in units of noise and without it, when its sums are as scripted."""
    seen = []
    script = iter(known)
    add, released = RunningSum.add, RunningSum._released

    def watched(total, sums):
        seen.extend(sums / UNIT)
        return released(total, sums)

    def scripted(total, vector):
        add(total, vector)
        return next(script)

    def quiet(_source, count, *, gaussian):  # noqa: ARG001
        return np.zeros(count, dtype=np.int64)

    with (
        mock.patch.object(samplers, "noise_steps", quiet),
        mock.patch.object(RunningSum, "_released", watched),
        mock.patch.object(RunningSum, "add", scripted),
    ):
        learner = make()
        for person in people:
            learner.choose()
            if person is None:
                learner._take((np.zeros(learner.n_items), False), False)
            else:
                learner.learn(person)
    return seen


def _arc(u, v, n=3):
    """Costs with the gradient 2 (e_u - e_v) along a chain that adds u before v."""
    return SetFunction(lambda s: 1.0 if u in s and v not in s else -1.0, n, bound=1.0)


def _losses(make, first, second, rounds, norm):
    rng = np.random.default_rng(0)
    known = [rng.normal(size=3) for _ in range(rounds)]
    rest = [_arc(0, 2)] * (rounds - 1)
    a, b = (_released(make, [person, *rest], known) for person in (first, second))
    return [np.linalg.norm(x - y, norm) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("sums", ["sqrt", "blt"])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_factorized_sums_lose_exactly_mu(sums, neighbours):
    budget = dc.Budget(1.0, 1e-6, neighbours)

    def make():
        return SubmodularMinimizer(3, 20, budget, sums=sums, seed=0)

    other = _arc(1, 2) if neighbours == "replace" else None
    loss = math.hypot(*_losses(make, _arc(0, 1), other, 20, 2))
    assert 0.999 * budget.mu <= loss <= budget.mu


def test_noise_for_the_papers_difference_is_caught():
    """Injected fault: 4 M instead of 2 sqrt(6) M. The pair (2, -2, 0), (0, 2, -2) shows it."""

    def make():
        return SubmodularMinimizer(3, 20, BUDGET, seed=0)

    with mock.patch.object(bounds, "gradient_difference", return_value=4.0):
        loss = math.hypot(*_losses(make, _arc(0, 1), _arc(1, 2), 20, 2))
    assert loss == pytest.approx(BUDGET.mu * math.sqrt(24.0) / 4.0, rel=1e-3)
    assert loss > BUDGET.mu


@pytest.mark.parametrize(("noise", "norm"), [("laplace", 1), ("spherical", 2)])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_pure_trees_lose_at_most_epsilon(noise, norm, neighbours):
    budget = dc.Budget(1.0, neighbours=neighbours)

    def make():
        return SubmodularMinimizer(3, 17, budget, sums="tree", noise=noise, seed=0)

    other = _arc(1, 2) if neighbours == "replace" else None
    loss = sum(_losses(make, _arc(0, 1), other, 17, norm))
    assert 0.999 <= loss <= 1.0
    assert make().privacy.epsilon() == pytest.approx(1.0)


# --- releases, single values --------------------------------------------------------------------


def _values_loss(make, here, there):
    """Exact loss between two streams of costs under the same coins and the same released values.

    For each batch: by how much the exact sums differ, in terms of what one unit of Laplace noise moves.
    """

    def sums(values, bump):
        seen = []
        noisy = BanditSubmodularMinimizer._noisy

        def watched(learner, total):
            seen.append(noisy(learner, total))
            return 0.1  # the same transcript for both

        def noise(_source, count, *, gaussian):
            assert not gaussian
            return np.full(count, bump * int(UNIT), dtype=np.int64)

        with (
            mock.patch.object(BanditSubmodularMinimizer, "_noisy", watched),
            mock.patch.object(samplers, "noise_steps", noise),
        ):
            learner = make()
            for value in values:
                learner.choose()
                learner.learn(value)
        return np.array(seen)

    moved = np.abs(sums(here, 0) - sums(there, 0))
    unit = sums(here, 1) - sums(here, 0)
    return float(sum(m / u if u else math.inf for m, u in zip(moved, unit, strict=True) if m))


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_batch_of_values_loses_exactly_epsilon(neighbours):
    budget = dc.Budget(0.7, neighbours=neighbours)

    def make():
        return BanditSubmodularMinimizer(3, 15, budget, bound=2.0, batch=4, exploration_rate=0.5, seed=1)

    values = [0.3, -1.0, 2.0, 0.0] * 3 + [1.0] * 3
    for t in range(15):
        other = list(values)
        values[t], other[t] = 2.0, -2.0 if neighbours == "replace" else 0.0
        loss = _values_loss(make, values, other)
        assert loss == 0.0 if t >= 12 else 0.6999 <= loss <= 0.7  # the last batch is never released
    assert make().privacy.epsilon() == pytest.approx(0.7)


def test_injected_faults_in_the_values_are_caught():
    def make():
        return BanditSubmodularMinimizer(3, 13, PURE, batch=4, exploration_rate=0.5, seed=1)

    here, there = [1.0] * 13, [-1.0] + [1.0] * 12
    original = CostTotal.take

    def kept(total):  # a person in two batches: the sum is not started afresh
        total.pending = original(total)
        return total.pending

    assert _values_loss(make, here, there) <= 1.0
    with mock.patch.object(CostTotal, "take", kept):
        assert _values_loss(make, here, there) > 1.9
    with mock.patch.object(BanditSubmodularMinimizer, "_noisy", lambda _, total: total):  # no noise
        assert _values_loss(make, here, there) == math.inf
    with mock.patch.object(bandit_minimize, "_value_moves", lambda bound, _: bound):
        assert _values_loss(make, here, there) > 1.9  # calibrated to a size instead of a difference


def test_the_sum_of_a_very_long_batch_is_exact():
    """Floats hold it only to 32 units; two neighbours would be rounded to different sides."""
    learner = BanditSubmodularMinimizer(3, 1 << 40, PURE, batch=1 << 27, exploration_rate=0.5, seed=1)
    step, unit = learner._total.grid.step, Fraction(1, 1 << 31)
    far = (1 << 57) + 16
    less = np.array([-int(far * unit / step)])  # so that what is left is small, and exact as a float
    with mock.patch.object(samplers, "noise_steps", return_value=less):
        for moved in (0, 1, 17, 1 << 31, (1 << 32) - 33, 1 << 32):
            apart = Fraction(learner._noisy(far + moved)) - Fraction(learner._noisy(far))
            assert abs(apart / step - moved * unit / step) < 1 + Fraction(1, 10**6)


def test_noise_of_a_batch_is_laplace():
    learner = BanditSubmodularMinimizer(2, 10, PURE, batch=2, exploration_rate=0.5, seed=4)
    quarter = learner._units(0.25)
    draws = np.array([learner._noisy(quarter) for _ in range(4000)]) - 0.25
    assert stats.kstest(draws, stats.laplace(scale=2.0).cdf).pvalue > 1e-6


def _know(learner, known):
    """Let a learner know such a sum of estimates, in units of its regularization, and its chain of sets."""
    summed = np.array(known) * learner.regularization
    if learner.form == "tree":
        learner._total.released = summed
    else:
        learner._summed = summed
    learner._chain.sort_by(summed)


def _estimates(learner):
    """Each place of the chain with its chance, for every side of the coin: (probability, place, side)."""
    heights = learner.point[learner._chain.order]
    weights = -np.diff(heights, prepend=1.0, append=0.0)
    chances = (1 - learner.exploration_rate) * weights + learner.exploration_rate / (learner.n_items + 1)
    return [(chances[i] / 2, chances[i], i, side) for i in range(chances.size) for side in (0.2, 0.8)]


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_estimates_are_gradients_on_average_and_no_larger_than_certified(calibration):
    person = cuts_and_prices(1, 5, np.random.default_rng(8))
    options = {"exploration_rate": 0.3, "calibration": calibration, "seed": 0}
    learner = BanditSubmodularMinimizer(5, 4000, FREE, **options)
    _know(learner, [0.2, -0.4, 0.1, 0.0, 0.35])
    mean, square = np.zeros(5), 0.0
    for probability, chance, place, side in _estimates(learner):
        learner._place, learner._chance, learner._side = place, chance, side
        estimate = learner._estimate(person.value(learner._chain.order[:place]))
        mean += probability * estimate
        square += probability * estimate @ estimate
    assert mean == pytest.approx(person.lovasz_gradient(-learner._released), abs=1e-12)
    moment = bounds.estimate_second_moment(5, 0.0, one_sided=calibration == "published")
    assert square / 2 <= moment / learner.exploration_rate


def test_noisy_estimates_are_as_large_as_certified_where_nothing_but_exploring_is_left():
    learner = BanditSubmodularMinimizer(4, 100, PURE, batch=3, exploration_rate=1.0, seed=0)
    _know(learner, np.zeros(4))
    scale = float(learner.settings.event.scale)
    square, variance = 0.0, 2.0 * (scale / 3) ** 2  # of the noise on a batch's average
    for probability, chance, place, side in _estimates(learner):
        learner._place, learner._chance, learner._side = place, chance, side
        estimate = learner._estimate(1.0)  # costs of 1 whatever is served: the estimate is linear in them
        square += probability * (1.0 + variance) * estimate @ estimate
    ends = 2 * 4 / (2 * 5)  # the empty and the full set move one coordinate instead of two
    assert square / 2 == pytest.approx(
        ends * bounds.value_second_moment(4, 3, float(learner.settings.event.scale))
    )


def test_sets_are_drawn_with_the_chain_s_chances():
    learner = BanditSubmodularMinimizer(3, 10**5, FREE, exploration_rate=0.4, seed=6)
    _know(learner, [0.3, -0.2, 0.1])
    counts = np.zeros(4)
    for _ in range(20_000):
        shown = learner._draw()
        counts[int(shown.sum())] += 1
        assert (np.diff(shown[learner._chain.order]) <= 0).all()
    expected = np.array([probability for probability, *_ in _estimates(learner)]).reshape(4, 2).sum(axis=1)
    assert stats.chisquare(counts, expected * 20_000).pvalue > 1e-6


def _estimate_losses(make, here, there, norm):
    """Loss of each released node between two streams of costs, at the rarest place of the chain."""
    seen = []
    node = TreeSum._released

    def watched(total, sums):
        seen.extend(total._grid.values(sums) / float(total.event.scale))
        return node(total, sums)

    def run(values):
        seen.clear()
        learner = make()
        with mock.patch.object(TreeSum, "_released", watched):
            for value in values:
                learner.choose()
                learner._chain.order, learner._place, learner._side = np.arange(2), 1, 0.2
                learner._chance = learner.exploration_rate / 3
                learner.learn(value)
        return list(seen)

    return [np.linalg.norm(a - b, norm) for a, b in zip(run(here), run(there), strict=True)]


def test_trees_of_estimates_lose_what_their_account_says():
    here, there = [1.0] * 100, [-1.0] + [1.0] * 99

    def tight():
        return BanditSubmodularMinimizer(2, 100, PURE, form="tree", exploration_rate=0.3, seed=0)

    def published():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return BanditSubmodularMinimizer(2, 100, PURE, calibration="published", seed=0)

    assert 0.999 <= sum(_estimate_losses(tight, here, there, 1)) <= 1.0
    shown = sum(_estimate_losses(published, here, there, 2))
    assert shown > 1.2  # claims 1
    assert shown == pytest.approx(published().privacy.epsilon(), rel=1e-6)


# --- kernels beside slow twins ------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 300])
def test_order_is_a_stable_sort(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        scores = rng.integers(-3, 4, size=n).astype(float)
        chain = Chain(n, 1.0, 0.5)
        chain.order = rng.permutation(n)
        chain.sort_by(scores)
        assert chain.order.tolist() == np.argsort(scores, kind="stable").tolist()


@pytest.mark.parametrize("directed", [True, False])
def test_cut_kernels_match_the_objective(directed):
    rng = np.random.default_rng(3)
    graphs = rng.random((5, 6, 6)) * (rng.random((5, 6, 6)) < 0.5)
    if not directed:
        graphs = graphs + graphs.transpose(0, 2, 1)
    for modular in (rng.normal(size=6), rng.normal(size=(5, 6))):
        people = GraphCut(graphs, modular=modular, directed=directed, bound=60)
        for t in range(5):
            scores = rng.integers(-2, 3, size=6).astype(float)
            cuts = Cuts(people.as_arcs())
            assert cuts.gradient(t, scores) == pytest.approx(people[t].lovasz_gradient(-scores), abs=1e-12)
            inside = (rng.random(6) < 0.5).astype(float)
            value = np.empty(1)
            cuts.values(t, inside, value)
            assert value[0] == pytest.approx(people[t].value(np.flatnonzero(inside)), abs=1e-12)


def test_threshold_draws_each_item_with_its_coordinate():
    learner = SubmodularMinimizer(3, 10, FREE, seed=0)
    learner._total.released = np.array([-0.2, 0.0, 5.0]) * learner.regularization
    assert learner.point == pytest.approx([0.7, 0.5, 0.0])
    counts = sum(learner._draw() for _ in range(20_000))
    assert counts[2] == 0
    for k, chance in ((0, 0.7), (1, 0.5)):
        assert stats.binomtest(int(counts[k]), 20_000, chance).pvalue > 1e-6


# --- what is certified --------------------------------------------------------------------------


def _spiteful(kind, learner, t):
    """A cost that depends on the point: what the learner has settled on is what costs."""
    learner._chain.sort_by(learner._released)
    n, order = learner.n_items, learner._chain.order
    wanted = {
        "opposite": np.where(learner.point > 0.5, 1.0, -1.0) / n,
        "alternating": np.full(n, 2.0 * (t % 2) - 1.0) / n,
        "first and last": np.where(np.arange(n) == order[0], 1.0, 0.0)
        * (1.0 if learner.point.max() > 0.4 else -1.0),
    }
    if kind in wanted:
        slopes = wanted[kind]
        return SetFunction(lambda s: float(sum(slopes[i] for i in s)), n, bound=1.0)
    first, last = int(order[0]), int(order[-1])
    return SetFunction(lambda s: 1.0 if first in s and last not in s else -1.0, n, bound=1.0)


@pytest.mark.parametrize("centre", ["tight", "published"])
@pytest.mark.parametrize("kind", ["opposite", "alternating", "first and last", "arc"])
@pytest.mark.parametrize("n", [1, 3])
def test_no_stream_costs_more_than_is_certified_without_noise(n, kind, centre):
    if kind == "arc" and n == 1:
        kind = "opposite"
    learner = SubmodularMinimizer(n, 300, FREE, calibration=centre, seed=0)
    paid, sets = 0.0, np.zeros(2**n)
    for t in range(300):
        learner.choose()
        person = _spiteful(kind, learner, t)
        paid += person.lovasz(learner.point)  # what the round costs on average over its coin
        sets += [person.value(np.flatnonzero(s)) for s in _subsets(n)]
        learner.learn(person)
    assert paid - sets.min() <= learner.certified_regret


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "spherical"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("n", [1, 4, 12])
def test_noise_costs_no_more_than_the_certificate_says(noise, free, n):
    """The point moves against the noise, at most by all of it; a gradient gets the most out of that."""
    rng = np.random.default_rng(0)
    draws = {
        "gaussian": lambda: rng.normal(size=(2000, n)),
        "laplace": lambda: rng.laplace(size=(2000, 3, n)).sum(axis=1),
        "spherical": lambda: _spheres(rng, n),
    }[noise]()
    corners = np.array(_corners(n, free))
    costs = np.maximum(-draws[:, None, :] * corners, 0.0).sum(axis=2).max(axis=1)
    certified = bounds.noise_cost(n, noise, 1.0, 1.0 if noise == "gaussian" else 3.0, empty_is_free=free)
    # the mean over 2000 draws is off by more than five deviations with a chance below 1e-6
    assert costs.mean() - 5.0 * costs.std() / math.sqrt(2000) <= certified <= 4.0 * costs.mean()


def _spheres(rng, n):
    """Sums of three vectors with density exp(-|z|)."""
    directions = rng.normal(size=(2000, 3, n))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    return (directions * rng.gamma(n, size=(2000, 3, 1))).sum(axis=1)


def test_the_averages_behind_the_certificate_are_not_understated():
    vectors, share = VectorBounds(2, 2, norm_bound=1.0, apart=1.0), BUDGET.share()
    factorized = SumSpec(vectors, 3000, "sqrt")
    event = factorized.event(share)
    exact = np.mean([factorized.noise_std(event, t) for t in range(1, 3001)])
    assert exact <= factorized.mean_deviation(event) * (1 + 1e-6) <= 1.05 * exact
    for rounds in (2, 9, 64, 65, 1000):
        nodes = [0] + [2 if t == 1 << tree_levels(rounds - 1) else t.bit_count() for t in range(1, rounds)]
        assert np.mean(nodes) <= BinaryTree(rounds).mean_draws
        tree = SumSpec(vectors, rounds - 1, "tree", variance_reduction=True)
        event = tree.event(share)
        deviations = [0.0] + [tree.noise_std(event, t) for t in range(1, rounds)]
        assert np.mean(deviations) <= tree.mean_deviation(event) * (1 + 1e-6)


# --- the protocol -------------------------------------------------------------------------------

PEOPLE = cuts_and_prices(700, 4, np.random.default_rng(0))
PLAIN = SetFunction([lambda s, p=p: p.value(sorted(s)) for p in PEOPLE[:60]], 4, bound=1.0)
LEARNERS = {
    "sqrt": lambda b, **o: SubmodularMinimizer(4, 650, b, **o),
    "blt": lambda b, **o: SubmodularMinimizer(4, 650, b, sums="blt", **o),
    "tree": lambda b, **o: SubmodularMinimizer(4, 650, b, sums="tree", **o),
    "laplace tree": lambda b, **o: SubmodularMinimizer(4, 650, b, sums="tree", noise="laplace", **o),
    "spherical tree": lambda b, **o: SubmodularMinimizer(4, 650, b, sums="tree", noise="spherical", **o),
    "published": lambda b, **o: _quiet(SubmodularMinimizer, 4, 650, b, calibration="published", **o),
    "values": lambda b, **o: BanditSubmodularMinimizer(4, 650, b, exploration_rate=0.5, **o),
    "estimates": lambda b, **o: BanditSubmodularMinimizer(4, 650, b, form="tree", exploration_rate=0.5, **o),
    "thompson": lambda b, **o: BanditSubmodularMinimizer(4, 650, b, form="thompson", batch=20, **o),
    "published bandit": lambda b, **o: _quiet(
        BanditSubmodularMinimizer, 4, 650, b, calibration="published", **o
    ),
}


def _quiet(kind, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        return kind(*args, **options)


def _feedback(learner, person, decision):
    """What learn() takes: the person, or what the set cost them."""
    bandit = isinstance(learner, BanditSubmodularMinimizer)
    return person.value(decision.items) if bandit else person


def _served(learner, people):
    shown = []
    for person in people:
        decision = learner.choose()
        shown.append(decision.items)
        learner.learn(_feedback(learner, person, decision))
    return shown


def _items(trace):
    return [tuple(np.flatnonzero(row)) for row in trace.decisions]


@pytest.mark.parametrize("name", LEARNERS)
def test_plain_functions_are_served_as_cuts_are(name):
    traces = [LEARNERS[name](FREE, seed=5).run(people) for people in (PEOPLE[:60], PLAIN)]
    assert traces[0].costs == pytest.approx(traces[1].costs, abs=1e-9)


def test_a_saved_file_holds_no_noise_that_two_learners_could_share(tmp_path):
    learner = SubmodularMinimizer(4, 600, BUDGET)
    _served(learner, PEOPLE[:10])
    learner.save(tmp_path / "state")
    first, second = (SubmodularMinimizer.load(tmp_path / "state") for _ in range(2))
    for again in (first, second):
        _served(again, PEOPLE[10:30])
    assert not np.allclose(first._released, second._released)


def test_clipping_shortens_and_counts():
    wide = GraphCut([[0, 3, 0], [0, 0, 0], [0, 0, 0]], directed=True, bound=3)
    learner = SubmodularMinimizer(3, 10, FREE, clip=True, seed=0)
    learner.choose()
    learner.learn(wide)
    assert learner.insecure_clipped == 1
    learner.choose()
    assert learner._released == pytest.approx([2.0, -2.0, 0.0])
    crowd = GraphCut([[[0, 3, 0], [0, 0, 0], [0, 0, 0]]] * 5, directed=True, bound=3)
    ran, served = (SubmodularMinimizer(3, 10, BUDGET, clip=True, seed=0) for _ in range(2))
    assert _items(ran.run(crowd)) == _served(served, crowd)
    assert ran.insecure_clipped == served.insecure_clipped
    assert ran.insecure_clipped >= 1  # whenever the arc is met tail first
    values = BanditSubmodularMinimizer(3, 10, FREE, batch=2, exploration_rate=0.5, clip=True, seed=0)
    values.choose()
    values.learn(-7.0)
    assert values.insecure_clipped == 1
    assert values._total.pending == -(2**31)  # of these make the bound of 1
    estimates = BanditSubmodularMinimizer(3, 10, FREE, form="tree", exploration_rate=0.5, clip=True, seed=0)
    estimates.choose()
    estimates.learn(-7.0)
    assert estimates.insecure_clipped == 1
    assert estimates._total.pending == pytest.approx(estimates._estimate(-1.0))


def test_where_the_empty_set_is_free_gradients_are_held_to_the_smaller_set():
    zigzag = SetFunction(lambda s: (0.0, 0.9, -0.1, 0.8)[len(s)], 3, bound=1.0)  # rises by 1.8 in all
    for free in (False, True):
        learner = SubmodularMinimizer(3, 10, FREE, empty_is_free=free, seed=0)
        learner.choose()
        if free:
            with pytest.raises(ValueError, match="above 1"):
                learner.learn(zigzag)
        else:
            learner.learn(zigzag)
    arc = GraphCut([[[0, 3, 0], [0, 0, 0], [0, 0, 0]]] * 5, directed=True, bound=3)
    plain = SetFunction([lambda s: 3.0 if 0 in s and 1 not in s else 0.0] * 5, 3, bound=3.0)
    options = {"empty_is_free": True, "clip": True, "seed": 0}
    learners = [SubmodularMinimizer(3, 10, FREE, **options) for _ in range(3)]
    learners[0].run(arc[:1])
    for learner, people in zip(learners[1:], (arc, plain), strict=True):
        _served(learner, people[:1])
    for learner in learners:
        assert learner._total.pending == pytest.approx([1.0, -1.0, 0.0])
        assert learner.insecure_clipped == 1


@pytest.mark.parametrize("bound", [0.01, 50.0])
def test_the_range_of_a_gradient_is_exceeded_by_rounding_only(bound):
    learner = SubmodularMinimizer(3, 10, FREE, bound=bound, seed=0)
    learner.choose()
    for more, refused in ((5e-10, False), (2e-9, True)):
        widest = 2.0 * bound * np.array([1.0, -1.0, 0.0])
        with (
            mock.patch.object(SetFunction, "lovasz_gradient", return_value=widest * (1.0 + more)),
            pytest.raises(ValueError, match="need a range of") if refused else nullcontext(),
        ):
            kept, outside = learner._prepared(SetFunction(lambda _: 0.0, 3, bound=bound))
            assert kept == pytest.approx(widest, rel=1e-12)
            assert not outside


def test_a_cost_that_is_not_submodular_is_found_out_when_asked():
    supermodular = SetFunction(lambda s: len(s) ** 2 / 64 - 0.5, 8, bound=1.0)
    trusting = SubmodularMinimizer(8, 10, FREE, seed=0)
    trusting.choose()
    trusting.learn(supermodular)
    learner = SubmodularMinimizer(8, 10, FREE, check=3, seed=0)
    learner.choose()
    with pytest.raises(ValueError, match="not submodular"):
        learner.learn(supermodular)
    assert learner.round == 0
    learner.learn(SetFunction(lambda s: math.sqrt(len(s)) / 3, 8, bound=1.0))
    assert learner.round == 1


def test_short_horizons_say_what_is_needed():
    with pytest.raises(HorizonTooShort, match="at least 1562 rounds") as error:
        BanditSubmodularMinimizer(20, 1000, PURE)
    assert isinstance(error.value, ValueError)
    assert BanditSubmodularMinimizer(20, 1562, PURE).exploration_rate == pytest.approx(1.0, abs=1e-3)
    plan = dc.plan_minimization(20, 1000, PURE, feedback="bandit")
    assert all(one.certified == 2000.0 for one in plan.candidates)
    with pytest.warns(UserWarning, match=r"n\^4.5 = 1398 rounds"):
        learner = _quiet(BanditSubmodularMinimizer, 5, 1000, PURE, calibration="published")
    assert learner.exploration_rate == 1.0


def test_cuts_and_prices_is_what_it_says():
    people = cuts_and_prices(200, 8, np.random.default_rng(4))
    assert people._largest() == pytest.approx(np.ones(200))
    one = people[3]
    matrix = np.zeros((8, 8))
    arcs = one.as_arcs()
    matrix[arcs.tail[arcs.arc], arcs.head[arcs.arc]] = arcs.weight
    twin = GraphCut(matrix, modular=arcs.modular[0], directed=True, bound=1)
    for s in _subsets(8)[::17]:
        items = np.flatnonzero(s)
        assert one.value(items) == pytest.approx(twin.value(items))
    assert (np.count_nonzero(matrix), np.count_nonzero(arcs.modular)) == (3, 4)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e3])
def test_how_far_from_free_the_empty_set_may_be_goes_with_the_bound(bound):
    learner = SubmodularMinimizer(2, 10, FREE, bound=bound, empty_is_free=True, seed=0)
    learner.choose()
    for size, fine in ((3.0, False), (0.3, True)):
        cost = SetFunction(
            lambda items, size=size: size * ROUNDING * bound if not items else 0.0, 2, bound=bound
        )
        if fine:
            learner.learn(cost)
        else:
            with pytest.raises(ValueError, match="the empty set costs"):
                learner.learn(cost)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tail": [5]}, "arc 0 joins items that are not among 2"),
        ({"head": [-1]}, "arc 0 joins items that are not among 2"),
        ({"indices": [1]}, "arc 1 is not one of 1"),
        ({"indptr": [0, 2]}, "people have more arcs than there are"),
        ({"indptr": [1, 0]}, "the arcs of person 0 end before they start"),
        ({"weights": [1.0, 2.0]}, "every arc of a person a weight"),
    ],
)
def test_cuts_that_lead_outside_of_their_arrays_are_refused(change, message):
    arcs = {"tail": [0], "head": [1], "indptr": [0, 1], "indices": [0], "weights": [1.0]} | change
    kinds = {"indices": np.int32, "weights": np.float64}
    arrays = [np.array(values, dtype=kinds.get(name, np.int64)) for name, values in arcs.items()]
    with pytest.raises((IndexError, ValueError), match=message):
        Cuts((*arrays, np.zeros((1, 2))))


def test_an_order_that_is_no_permutation_is_refused():
    chain = Chain(3, 1.0, 0.5)
    for wrong in ([0, 1, 3], [0, 0, 1], [-1, 0, 1]):
        with pytest.raises(ValueError, match="does not name every item once"):
            chain.order = np.array(wrong)
    assert chain.order.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sums": "sqrt", "noise": "laplace"}, 'needs sums="tree"'),
        ({"sums": "sqrt"}, "delta"),
        ({"sums": "blt", "calibration": "published"}, "has its own sums="),
        ({"regularization": "bold"}, "regularization='bold' is not one of"),
        ({"regularization": "optimistic", "calibration": "published"}, "has its own regularization="),
        ({"regularization": -1.0}, "regularization=-1"),
        ({"bound": 1e200}, "bound"),
        ({"bound": 1e-200}, "bound"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        SubmodularMinimizer(3, 10_000, PURE, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "tree", "batch": 3}, "batch=3, but form"),
        ({"form": "thompson", "exploration_rate": 0.5}, 'form="thompson" has neither'),
        ({"form": "thompson", "regularization": "optimistic"}, 'form="thompson" has neither'),
        ({"form": "x"}, "form='x' is not one of"),
        ({"exploration_rate": 1.5}, "at most 1"),
        ({"batch": 10_001}, "batch=10001 is too large"),
        ({"regularization": "bold"}, "regularization='bold' is not one of"),
        ({"regularization": "optimistic", "calibration": "published"}, "has its own regularization="),
        ({"bound": 1e200}, "bound"),
    ],
)
def test_bad_settings_with_bandit_feedback(options, message):
    with pytest.raises(ValueError, match=message):
        BanditSubmodularMinimizer(3, 10_000, PURE, **options)


def test_published_full_information_costs_more_than_it_claims_and_says_so():
    def make():
        return SubmodularMinimizer(3, 1000, PURE, calibration="published", seed=0)

    with pytest.warns(PublishedCalibrationWarning, match="errata"):
        learner = make()
    # 10 of 11 levels are ever released, each with noise for 4 M where sqrt(24) M can move
    claimed_share = 10 / 11
    assert learner.privacy.epsilon() == pytest.approx(claimed_share * math.sqrt(24.0) / 4.0, rel=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        shown = sum(_losses(make, _arc(0, 1), _arc(1, 2), 1000, 2))
    assert shown > 1.0  # the failure is real
    assert shown == pytest.approx(learner.privacy.epsilon(), rel=1e-6)
    assert learner.regularization == pytest.approx(math.sqrt(1000.0))
    assert learner.choose().items == ()


def test_declaring_that_the_empty_set_is_free_saves_noise_and_is_checked():
    plain, free = (SubmodularMinimizer(4, 50, BUDGET, empty_is_free=f, seed=0) for f in (False, True))
    ratio = free._total.sum.noise_std(49) / plain._total.sum.noise_std(49)
    assert ratio == pytest.approx(math.sqrt(14.0 / 24.0), rel=1e-6)
    free.choose()
    with pytest.raises(ValueError, match="empty set costs"):
        free.learn(_arc(0, 1, n=4))
    assert free.round == 0


def test_published_bandit_form_is_3_6_times_what_it_claims():
    assert bounds.published_bandit_excess(5, 10**6) == pytest.approx(3.6, abs=0.02)
    assert bounds.published_bandit_excess(5, 10**8) == pytest.approx(7.7, abs=0.05)
    with pytest.warns(PublishedCalibrationWarning, match="errata"):
        learner = BanditSubmodularMinimizer(5, 10**6, PURE, calibration="published", seed=0)
    # per node, and 20 of the 21 levels that were paid for are ever released
    assert learner.privacy.epsilon() == pytest.approx(
        bounds.published_bandit_excess(5, 10**6) * 20 / 21, rel=1e-6
    )
    assert learner.exploration_rate == pytest.approx(5**1.5 / 100.0)


def _certified(n_items, rounds, budget, **options):
    """What a learner with these settings would certify, without making one."""
    return MinimizerSettings.tight(budget.share(), n_items=n_items, rounds=rounds, **options).certified_regret


def _bandit_certified(n_items, rounds, budget, **options):
    return BanditMinimizerSettings.tight(
        budget.share(), n_items=n_items, rounds=rounds, **options
    ).certified_regret


def _settled(n_items, rounds, budget, **options):
    found = BanditMinimizerSettings.tight(budget.share(), n_items=n_items, rounds=rounds, **options)
    return found.batch, found.exploration_rate


def _best(people):
    average = np.array([people.value(np.flatnonzero(s)) for s in _subsets(people.n_items)])
    return average.min(), average.mean()


@pytest.mark.parametrize("budget", [FREE, dc.Budget(8.0, 1e-6), dc.Budget(20.0)])
def test_measured_regret_is_within_the_certified_one_and_learning_happens(budget):
    people = cuts_and_prices(20_000, 5, np.random.default_rng(11))
    best, random = _best(people)
    learner = SubmodularMinimizer(5, 20_000, budget, seed=2)
    average = learner.run(people).average
    assert (average - best) * 20_000 <= learner.certified_regret < bounds.trivial_cost(20_000)
    assert random - average > 0.6 * (random - best)
    assert learner.certified_regret == _certified(5, 20_000, budget)


@pytest.mark.parametrize("form", ["values", "tree"])
def test_bandit_regret_is_within_the_certified_one(form):
    rounds = 60_000 if form == "values" else 20_000
    people = cuts_and_prices(rounds, 3, np.random.default_rng(12), priced=2)
    best, random = _best(people)
    learner = BanditSubmodularMinimizer(3, rounds, dc.Budget(20.0), seed=2, form=form)
    average = learner.run(people).average
    assert (average - best) * rounds <= learner.certified_regret <= bounds.trivial_cost(rounds)
    assert random - average > 0.4 * (random - best)
    assert learner.certified_regret == _bandit_certified(3, rounds, dc.Budget(20.0), form=form)


def test_defaults_are_a_quarter_from_the_smallest_certificate():
    best = min(_certified(20, 10**5, BUDGET, regularization=h) for h in np.geomspace(100, 1e5, 400))
    assert _certified(20, 10**5, BUDGET) == pytest.approx(1.25 * best, rel=1e-3)
    grid = [(b, g) for b in range(1, 20) for g in np.geomspace(0.02, 0.9, 60)]
    least = min(_bandit_bound(b, g) for b, g in grid)
    gamma = bounds.best_exploration_rate(6, 10**6, 3, bounds.value_second_moment(6, 3, 2.0))
    assert least == pytest.approx(_bandit_bound(3, gamma), rel=5e-3)
    batch, share = _settled(6, 10**6, PURE)
    assert batch > 3
    assert 1.1 * least < _bandit_bound(batch, share) <= 1.25 * least * 1.005


@pytest.mark.parametrize("budget", [BUDGET, PURE])
def test_optimistic_is_the_regularization_without_noise_at_the_same_privacy(budget):
    free = SubmodularMinimizer(6, 10_000, FREE, bound=2.0)
    careful, bold = (
        SubmodularMinimizer(6, 10_000, budget, bound=2.0, regularization=how)
        for how in ("auto", "optimistic")
    )
    assert bold.regularization == free.regularization < careful.regularization
    assert bold.settings.event == careful.settings.event
    assert bold.privacy.epsilon(budget.delta) == careful.privacy.epsilon(budget.delta) <= budget.epsilon
    # the certificate is the theorem's at that regularization: larger, at most the trivial one
    assert careful.certified_regret < bold.certified_regret <= bounds.trivial_cost(10_000, 2.0)
    assert bold.certified_regret == _certified(
        6, 10_000, budget, bound=2.0, regularization=free.regularization
    )


@pytest.mark.parametrize("form", ["values", "tree"])
def test_an_optimistic_bandit_ignores_the_noise(form):
    careful, bold = (
        BanditSubmodularMinimizer(3, 50_000, PURE, form=form, exploration_rate=0.2, regularization=how)
        for how in ("auto", "optimistic")
    )
    assert (bold.batch, bold.settings.event) == (careful.batch, careful.settings.event)
    expected = 0.5 * math.sqrt(8.0 * 50_000 * 4.0**2 / (0.2 * 3 * bold.batch))
    assert bold.regularization == pytest.approx(expected)
    assert bold.regularization < careful.regularization
    assert bold.certified_regret >= careful.certified_regret


def test_optimistic_closes_more_of_the_gap():
    people = cuts_and_prices(20_000, 8, np.random.default_rng(5))
    averages = {
        how: SubmodularMinimizer(8, 20_000, BUDGET, regularization=how, seed=0).run(people).average
        for how in ("auto", "optimistic")
    }
    assert averages["optimistic"] < averages["auto"] < 0.0


@pytest.mark.parametrize("budget", [PURE, dc.Budget(0.07, neighbours="add_remove"), dc.Budget(9.0), FREE])
@pytest.mark.parametrize("rounds", [2, 30, 5000])
def test_batches_are_those_of_a_search_through_all(budget, rounds):
    scale = float(value_noise(budget.share(), 1.0).scale)
    shares = [
        bounds.best_exploration_rate(3, rounds, b, bounds.value_second_moment(3, b, scale))
        for b in range(1, rounds + 1)
    ]
    least = min(shares)
    allowed = min(1.25 * least, max(1.0, least))
    longest = max(b for b, share in enumerate(shares, start=1) if share <= allowed)
    assert _settled(3, rounds, budget, exploration_rate=0.3) == (longest, 0.3)


def test_batches_are_found_at_once_for_the_smallest_epsilons():
    batch, _ = _settled(3, 1 << 40, dc.Budget(1e-9), exploration_rate=0.3)
    assert 1e10 < batch < 2e10  # none of which is looked at


def _bandit_bound(batch, gamma):
    moment = bounds.value_second_moment(6, batch, 2.0)
    strength = math.sqrt(8.0 * 10**6 * moment / (gamma * 6 * batch))
    return bounds.explored(6, 10**6, batch, gamma, strength, moment)


def test_certificates_beat_the_published_theorems():
    assert _certified(20, 10**6, PURE) < bounds.published_minimizer(20, 10**6, 1.0) / 10
    certified = _bandit_certified(5, 10**7, PURE)
    assert certified < bounds.published_bandit_minimizer(5, 10**7, 1.0) / 10
    # M n T^(2/3) eps^(-1/3), with a constant below 4
    assert certified / 1.5625 < 4.0 * 5 * (10**7) ** (2 / 3)


@pytest.mark.parametrize("name", LEARNERS)
def test_run_is_choose_and_learn(name):
    trace = LEARNERS[name](BUDGET, seed=5).run(PEOPLE)
    learner = LEARNERS[name](BUDGET, seed=5)
    shown = _served(learner, PEOPLE[:650])
    assert _items(trace)[:650] == shown
    assert all(items == learner.choose().items for items in _items(trace)[650:])
    costs = [PEOPLE[t].value(items) for t, items in enumerate(_items(trace))]
    assert trace.costs == pytest.approx(costs, abs=1e-12)
    with pytest.raises(RuntimeError, match="horizon"):
        learner.learn(_feedback(learner, PEOPLE[0], learner.choose()))


def test_pure_budgets_take_the_tree_that_certifies_less():
    few, many = (SubmodularMinimizer(n, 1000, PURE, seed=0) for n in (2, 30))
    assert (few.sums, few.noise) == ("tree", "spherical")
    assert (many.sums, many.noise) == ("tree", "laplace")
    assert SubmodularMinimizer(3, 1, PURE, seed=0).choose() is not None


def test_published_bounds_are_those_of_the_paper_in_exact_numbers():
    """Theorems 7 and 9 of paper 001 where every root is whole, with T = 2^12, M = 3, epsilon = 1/2."""
    bound, epsilon = 3.0, 0.5
    logs = math.log(4096) ** 1.5
    for n, gamma in ((2, math.sqrt(8) / 16), (9, 1.0)):  # n^(3/2) / T^(1/3), at most 1
        # H = 3 * 64, L = 12
        learning = 2 * 4096 * 144 / 192 + 192 * n / 2
        private = 4 * n * 144 * 4096 * logs / (epsilon * 192)
        assert bounds.published_minimizer(n, 4096, epsilon, bound) == pytest.approx(learning + private)
        # H = 3 * 256
        learning = 32 * 9 * n**2 * 4096 / (768 * gamma) + n * 768
        sampling = 2 * gamma * 3 * 4096 + 8 * 3 * n * 64 / math.sqrt(gamma)
        private = 64 * n**3 * 9 * 4096 * logs / (epsilon * gamma * 768)
        wanted = learning + sampling + private
        assert bounds.published_bandit_minimizer(n, 4096, epsilon, bound) == pytest.approx(wanted)
