"""CurvatureGreedy: 1 - kappa/e at no more noise, and why the printed algorithm is not private."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import discreet as dc
from discreet.bounds import continuous as bounds
from discreet.constraints import Cardinality, GraphicMatroid, Knapsack, PartitionMatroid
from discreet.objectives import (
    BudgetAllocation,
    ConcaveOverModular,
    Coverage,
    MultilinearExtension,
    QuadraticProgram,
    SaturatedCoverage,
    SetFunction,
)
from discreet.offline.continuous import ContinuousGreedy, PointGradient, SummedGradient
from discreet.offline.curvature import CurvatureGreedy, best_above, step_weight
from discreet.offline.greedy import Residual
from discreet.privacy import BudgetExceeded, LaplaceNoise, PublicRandomness
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
        return CurvatureGreedy(2, dc.Budget(1e6), 150, "laplace", calibration="published", seed=0, **options)

    lost = best - 3000 * people.multilinear(made().fractional(people))
    assert 3 * made(gamma=1e-9).certified_loss(3000, 6, 0.0) < lost <= made().certified_loss(3000, 6, 0.0)
    assert made(guess=0.0).certified_loss(3000, 6, 0.0) == 3000.0


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
@pytest.mark.parametrize("gamma", [0.3, 0.5, 0.51, 1.0])
def test_no_lambda_is_missed_by_more_than_gamma_times_the_best_single_item(gamma):
    """003, after Algorithm 2: for every lambda up to n m there is a guess in [lambda - gamma m, lambda]."""
    people = Coverage(np.eye(5)[[0, 0, 1, 2, 3, 4]])
    selector = CurvatureGreedy(2, dc.Budget(1.0), noise="laplace", calibration="published", gamma=gamma)
    single = 2.0
    guesses = np.array(selector._guesses(people, Residual.of(Cardinality(2, n_items=5))))
    targets = np.linspace(0.0, 5 * single, 10_001)
    missed = [target - guesses[guesses <= target + 1e-12].max() for target in targets]
    assert max(missed) <= gamma * single + 1e-9


# --- functions of a point ----------------------------------------------------------------------------------


def _slopes(seed=0, people=4000, size=6):
    """Linear functions of a point: curvature 0, and the best point is a vertex."""
    rng = np.random.default_rng(seed)
    rows = rng.random((people, size)) * np.linspace(0.1, 0.4, size)
    return QuadraticProgram(np.zeros((people, size, size)), rows, bound=2.5, gradient_bound=2.5), rows


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_points_of_a_polytope_with_curvature(noise):
    """003, Section 3.2: of linear functions all is kept but for the noise; of others 1 - c_f / e."""
    people, rows = _slopes()
    best = np.sort(rows.sum(axis=0))[-2:].sum()
    greedy = CurvatureGreedy(2, dc.Budget(2.0, 1e-6), 5, noise, bound=2.5, seed=1)
    point = greedy.fractional(people)
    assert Cardinality(2, n_items=6).in_polytope(point)
    assert greedy.privacy.epsilon() <= 2.0
    certified = greedy.certified_loss(4000, 6, 0.0, smoothness=0.0)
    assert best - rows.sum(axis=0) @ point <= certified < 0.5 * best
    # the same noise as for sets of the same bound
    sets = CurvatureGreedy(2, dc.Budget(2.0, 1e-6), 5, noise, bound=2.5, seed=1)
    sets.select(Coverage((rows > 0.1).astype(float)))
    assert list(greedy.privacy.ledger.events()) == list(sets.privacy.ledger.events())


def test_gradients_of_points_are_those_of_a_multilinear_extension():
    """Sets, and their extension as functions of a point: the same sums, but for one step a person."""
    people = Coverage((np.random.default_rng(0).random((500, 6)) < 0.3).astype(float))
    sets = SummedGradient(people, 1.0, 10, PublicRandomness.seeded(0), 500)
    points = PointGradient(MultilinearExtension(people), 1.0, 500)
    for x in (np.zeros(6), np.full(6, 0.3), np.ones(6)):
        assert (np.abs(sets.at(x) - points.at(x)) <= 500).all()
        assert sets.scores(sets.at(x)) == pytest.approx(500 * people.multilinear_gradient(x), abs=1e-4)


def test_smooth_functions_lose_what_their_steps_cost():
    people = BudgetAllocation(np.random.default_rng(0).random((300, 5)) * 0.15)
    bound = max(people.bound, people.gradient_bound)
    free, x = dc.Budget(math.inf), np.zeros(5)
    constraint = Cardinality(2, n_items=5)
    for _ in range(3000):  # concave: Frank-Wolfe goes to the best point, and says how near it is
        x += (constraint.maximize(people.gradient(x)) - x) * 0.01
    best = people.value(x) + people.gradient(x) @ (constraint.maximize(people.gradient(x)) - x)
    for steps in (1, 3, 10):
        greedy = ContinuousGreedy(2, free, steps, "gaussian", bound=bound)
        lost = (1 - 1 / math.e) * best - people.value(greedy.fractional(people))
        certified = ContinuousGreedy(2, free, steps, "gaussian", bound=bound).certified_loss(
            300, 5, smoothness=people.smoothness
        )
        assert 300 * lost <= certified
    assert certified == pytest.approx(300 * people.smoothness * 2 / 20, rel=1e-3)


def test_what_points_cannot_have_is_refused():
    people, _ = _slopes(people=30)
    for options, message in (
        ({"noise": "exponential"}, 'points need noise="laplace"'),
        ({"noise": "laplace", "bound": 1.0}, "must be no less than the people"),
        ({"noise": "laplace", "include": [0]}, "are for sets"),
        ({"noise": "laplace", "calibration": "published"}, "points need noise"),
    ):
        selector = CurvatureGreedy(2, dc.Budget(2.0, 1e-6), **({"bound": 2.5} | options))
        with pytest.raises(ValueError, match=message):
            selector.fractional(people)
    wide = BudgetAllocation(np.full((3, 2), 0.5), total=9.0, upper=2.0)
    with pytest.raises(ValueError, match="rescale them"):
        CurvatureGreedy(1, dc.Budget(2.0), noise="laplace", bound=99.0).fractional(wide)
    few = dc.Budget(2.0, 1e-6, "add_remove")
    with pytest.raises(ValueError, match="more than the 20 people"):
        ContinuousGreedy(2, few, noise="laplace", bound=2.5, max_people=20).fractional(people)


def test_one_person_moves_no_entry_of_a_sum_of_gradients_by_more_than_the_bound():
    """Also somebody who exceeds what they declared, or whose function fails."""

    class Loud(QuadraticProgram):
        def _gradient(self, x):
            if len(self) == 1 and self._h[0, 0] > 0.19:
                raise RuntimeError("a secret")
            return super()._gradient(x) * 1000.0

    rows = np.array([[0.1, 0.1], [0.2, 0.1]])
    sums = []
    for who in ([0], [0, 0], [0, 1]):
        people = Loud(np.zeros((len(who), 2, 2)), rows[who], bound=1.0, gradient_bound=1.0)
        gradient = PointGradient(people, 1.0, 10)
        sums.append(gradient.scores(gradient.at(np.zeros(2))))
    assert (sums[1] - sums[0] == 1.0).all()
    assert (sums[2] == sums[0]).all()


def test_the_weights_telescope():
    for steps in (1, 2, 7, 40):
        within = [step_weight(k, steps, within=True) for k in range(steps)]
        assert sum(within) / steps == pytest.approx(1 - (1 + 1 / steps) ** -steps)
        assert within[-1] * (1 + 1 / steps) == pytest.approx(1.0)
        for w, following in itertools.pairwise(within):
            assert following == pytest.approx(w * (1 + 1 / steps))
        between = [step_weight(k, steps, within=False) for k in range(steps)]
        assert sum(between) / steps >= 1 - 1 / math.e
        assert between[-1] == 1.0


def test_a_modular_objective_is_solved():
    people = SaturatedCoverage(np.random.default_rng(1).random((50, N_ITEMS)) / N_ITEMS, saturation=1.0)
    for constraint in (CONSTRAINTS["partition"], CONSTRAINTS["graphic"]):
        chosen = CurvatureGreedy(constraint, FREE, 3, seed=0).select(people)
        assert people.value(chosen.items) == pytest.approx(best_value(people, constraint))


def test_the_guarantee_rises_and_the_loss_does_not_as_curvature_falls():
    selector = CurvatureGreedy(PartitionMatroid([range(10), range(10, 20)], [2, 2]), dc.Budget(1.0, 1e-6))
    kappas = (0.0, 0.3, 0.7, 1.0)
    shares = [selector.guarantee(kappa) for kappa in kappas]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert shares[-1] == pytest.approx(1 - 1 / math.e)
    losses = [selector.certified_loss(100_000, 20, kappa) for kappa in kappas]
    assert losses == sorted(losses)
    with pytest.raises(ValueError, match=r"curvature=1\.5"):
        selector.guarantee(1.5)


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_the_counterexample_with_real_noise():
    runs = 300
    hits = sum(printed(seed=s).fractional(modular(1.0, 1.0))[1] > 0.0 for s in range(runs))
    assert stats.binomtest(hits, runs, 1 - 2.0**-3).pvalue > 1e-6
    assert not any(printed(seed=s).fractional(modular(1.0, 0.5))[1] > 0.0 for s in range(50))


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_the_printed_algorithm_keeps_its_noise_when_run_again():
    selector = printed(seed=0)
    scales = []
    for _ in range(2):
        selector.select(modular(1.0, 0.5))
        scales.append({e for e in selector.privacy.ledger.events() if isinstance(e, LaplaceNoise)})
    assert scales[0] == scales[1]
    assert all(float(event.scale) > 1.0 for event in scales[1])
    assert sum(selector.privacy.ledger.counts.values()) == 2 * (1 + 3)
