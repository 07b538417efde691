"""CurvatureGreedy: 1 - kappa/e at no more noise, and why the printed algorithm is not private."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import linprog

import discreet as dc
from discreet.bounds import continuous as bounds
from discreet.constraints import Cardinality, GraphicMatroid, Knapsack, PartitionMatroid
from discreet.objectives import ConcaveOverModular, Coverage, SaturatedCoverage, SetFunction
from discreet.offline.continuous import ContinuousGreedy
from discreet.offline.curvature import CurvatureGreedy, best_above
from discreet.privacy import BudgetExceeded
from discreet.privacy.account import PublishedCalibrationWarning

FREE = dc.Budget(math.inf)
N_ITEMS = 7
CONSTRAINTS = {
    "cardinality": Cardinality(3, N_ITEMS),
    "partition": PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], [1, 1, 1]),
    "graphic": GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (3, 4), (4, 1)]),
    "knapsack": Knapsack([1.0, 2.0, 1.5, 0.5, 1.0, 2.5, 0.7], 3.0),
}


def rivals():
    """Items 3 and 5 serve the same twenty, so the last of them adds nothing; 0, 4 and 6 serve one each."""
    return Coverage(
        np.vstack([np.tile(np.eye(N_ITEMS)[[3, 5]].sum(axis=0), (20, 1)), np.eye(N_ITEMS)[[0, 4, 6]]])
    )


def instances():
    """Random objectives from nearly modular to fully curved, with their exact total curvature."""
    for seed, share in itertools.product(range(4), (0.0, 0.5, 1.0)):
        rng = np.random.default_rng(seed)
        liking = rng.random(N_ITEMS) ** 3  # a few items matter, so that the choice does
        weights = rng.random((12, N_ITEMS)) * liking / N_ITEMS
        modular = SaturatedCoverage(weights, saturation=1.0)
        curved = (
            Coverage((rng.random((12, N_ITEMS)) < liking).astype(float))
            if seed % 2
            else ConcaveOverModular(weights)
        )
        people = (1.0 - share) * modular + share * curved
        yield people, people.total_curvature()
    yield rivals(), rivals().total_curvature()


def best_value(people, constraint):
    sets = (s for r in range(N_ITEMS + 1) for s in itertools.combinations(range(N_ITEMS), r))
    return max(people.value(s) for s in sets if constraint.contains(s))


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_without_noise_the_share_of_the_best_set_is_reached(name):
    """F(x) >= (1 - kappa (1 + 1/K)^-K) best, or (1 - kappa/e) best - m R^2 / (2K); F and kappa exact."""
    constraint = CONSTRAINTS[name]
    curvatures = []
    for people, kappa in instances():
        curvatures.append(kappa)
        best, single = best_value(people, constraint), people.gains([]).max()
        for steps in (1, 4):
            within = CurvatureGreedy(constraint, FREE, steps, seed=0)
            reached = people.multilinear(within.fractional(people))
            assert reached >= bounds.ratio_within_steps(steps, kappa) * best - 1e-7
            between = CurvatureGreedy(constraint, FREE, steps, update_within_steps=False, seed=0)
            noisy = CurvatureGreedy(constraint, FREE, steps, noise="gaussian", seed=0)
            for selector in (between, noisy):
                reach = selector._checked_setting(people, selector._over(people.n_items)).reach
                lost = bounds.lost_between_steps(steps, single, reach, vertices_are_sets=name != "knapsack")
                reached = people.multilinear(selector.fractional(people))
                assert reached >= selector.guarantee(kappa) * best - lost - 1e-7
    assert min(curvatures) < 1e-6
    assert max(curvatures) > 0.9


def test_climbing_by_the_last_gradient_alone_falls_short():
    """The claim above is no platitude: without the gradient itself it fails."""
    constraint = CONSTRAINTS["partition"]
    with mock.patch("discreet.offline.curvature.step_weight", return_value=0.0):
        point = CurvatureGreedy(constraint, FREE, 4, seed=0).fractional(rivals())
    assert rivals().multilinear(point) < 0.2 * best_value(rivals(), constraint)


@pytest.mark.parametrize("noise", ["exponential", "laplace", "gaussian"])
def test_the_noise_is_that_of_continuous_greedy(noise):
    people = Coverage((np.random.default_rng(0).random((400, N_ITEMS)) < 0.3).astype(float))
    events = []
    for kind in (ContinuousGreedy, CurvatureGreedy):
        selector = kind(CONSTRAINTS["partition"], dc.Budget(5.0, 1e-6), 3, noise=noise, seed=0)
        chosen = selector.select(people)
        assert CONSTRAINTS["partition"].contains(chosen.items)
        assert chosen.privacy.epsilon() <= 5.0
        events.append(dict(selector.privacy.ledger.counts))
        with pytest.raises(BudgetExceeded):
            selector.select(people)
    assert events[0] == events[1]


def test_curvature_is_never_asked_for():
    """kappa is a fact about the people: neither it nor the last gradient may decide anything in the clear."""
    people = Coverage((np.random.default_rng(0).random((400, N_ITEMS)) < 0.3).astype(float))
    with mock.patch.object(Coverage, "total_curvature", side_effect=AssertionError("asked")):
        CurvatureGreedy(CONSTRAINTS["cardinality"], dc.Budget(5.0, 1e-6), seed=0).select(people)


# --- the printed algorithm --------------------------------------------------------------------------------


def modular(*weights):
    return SetFunction(lambda chosen: sum(weights[j] for j in chosen), len(weights), 2.0, monotone=True)


def printed(steps=3, epsilon=1.0, **options):
    return CurvatureGreedy(
        Cardinality(1),
        dc.Budget(epsilon),
        steps,
        noise="laplace",
        bound=2.0,
        calibration="published",
        guess=1.0,
        **options,
    )


def chance_of_the_second(people, steps, epsilon):
    """Pr[x_2 > 0], exactly: F - ell is 0, so each step sees noise alone, of either order with chance 1/2."""
    hits = []
    for orders in itertools.product(([1.0, 0.0], [0.0, 1.0]), repeat=steps):
        scales = []
        script = iter(orders)

        def scripted(_, values, scale, *__, script=script, scales=scales, **___):
            assert np.abs(values).max() == 0.0
            scales.append(scale)
            return np.array(next(script)) * float(scale)

        selector = printed(steps, epsilon)
        with (
            mock.patch.object(dc.Gate, "laplace", scripted),
            pytest.warns(PublishedCalibrationWarning),
        ):
            hits.append(selector.fractional(people)[1] > 0.0)
        assert len(scales) == steps
    return np.mean(hits)


@pytest.mark.parametrize("drop", [0.5, 1e-3])
@pytest.mark.parametrize("epsilon", [1.0, 1e-6])
@pytest.mark.parametrize("steps", [1, 3])
def test_the_printed_algorithm_is_not_private_at_any_noise(drop, epsilon, steps):
    """c = (1, 1) against (1, 1 - D), lambda = 1 = <ell, x*> in both: chance 1 - 2^-K of an event becomes 0.

    So delta >= 1 - 2^-K whatever epsilon, for every D > 0 and every scale of the noise.
    """
    assert chance_of_the_second(modular(1.0, 1.0), steps, epsilon) == 1.0 - 2.0**-steps
    assert chance_of_the_second(modular(1.0, 1.0 - drop), steps, epsilon) == 0.0


def test_the_account_of_the_printed_algorithm_is_infinite():
    selector = printed(seed=0)
    with pytest.warns(PublishedCalibrationWarning, match=r"docs/errata\.md"):
        chosen = selector.select(modular(1.0, 0.5))
    assert chosen.items in ((), (0,))
    assert selector.privacy.epsilon() == math.inf
    assert chosen.privacy.epsilon(0.5) == math.inf


@pytest.mark.parametrize("name", ["cardinality", "partition", "knapsack"])
@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_the_printed_algorithm_climbs_for_every_guess(name):
    people = Coverage((np.random.default_rng(2).random((4000, N_ITEMS)) < 0.3).astype(float))
    selector = CurvatureGreedy(
        CONSTRAINTS[name], dc.Budget(100.0), 3, noise="laplace", calibration="published", gamma=1.0, seed=0
    )
    chosen = selector.select(people)
    assert CONSTRAINTS[name].contains(chosen.items)
    assert CONSTRAINTS[name].in_polytope(selector.point_)
    assert people.multilinear(selector.point_) >= (1 - 1 / math.e) * best_value(people, CONSTRAINTS[name])


@pytest.mark.parametrize("seed", range(10))
def test_the_restricted_maximum_is_that_of_a_linear_programme(seed):
    rng = np.random.default_rng(seed)
    weights, last = rng.normal(size=N_ITEMS), rng.random(N_ITEMS)
    bag, blocks = CONSTRAINTS["knapsack"], CONSTRAINTS["partition"]
    masks = np.zeros((3, N_ITEMS))
    for row, block in zip(masks, [[0, 1, 2], [3, 4], [5, 6]], strict=True):
        row[block] = 1.0
    for constraint, rows, limits in ((bag, bag.costs[None], [3.0]), (blocks, masks, [1.0] * 3)):
        least = rng.random() * float(last @ constraint.maximize(last))
        found = best_above(constraint, weights, last, least)
        answer = linprog(
            -weights, A_ub=np.vstack([rows, -last]), b_ub=np.append(limits, -least), bounds=(0, 1)
        )
        assert constraint.in_polytope(found)
        assert last @ found >= least - 1e-9
        assert weights @ found == pytest.approx(-answer.fun, abs=1e-8)


def test_bad_settings_are_named():
    budget = dc.Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="guess= is for"):
        CurvatureGreedy(2, budget, guess=1.0)
    with pytest.raises(ValueError, match="gamma=2"):
        CurvatureGreedy(2, budget, gamma=2.0)
    with pytest.raises(ValueError, match="noise of paper 003"):
        CurvatureGreedy(2, budget, calibration="published")


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_the_published_certificate_pays_for_its_grid_of_guesses():
    """People who like one item each, next to no noise: what is lost is what the guesses of lambda miss."""
    shares = np.random.default_rng(0).choice(6, 3000, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    people = Coverage(np.eye(6)[shares])
    best = 3000 * people.value([0, 1])

    def made(**options):
        return CurvatureGreedy(2, dc.Budget(1e6), 400, "laplace", calibration="published", seed=0, **options)

    lost = best - 3000 * people.multilinear(made().fractional(people))
    assert 3 * made(gamma=1e-9).certified_loss(3000, 6, 0.0) < lost <= made().certified_loss(3000, 6, 0.0)
    assert made(guess=0.0).certified_loss(3000, 6, 0.0) == 3000.0
