"""Certificates and printed bounds, against what can happen and by hand; measured ones: test_theorems.py."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import discreet as dc
from discreet.bounds import (
    bandit,
    continuous,
    convex,
    frank_wolfe,
    minimization,
    published,
    published_private_experts,
)
from discreet.constraints.domains import Ball, Simplex
from discreet.online import (
    ApproximateLeader,
    BanditApproximateLeader,
    HedgeSelector,
    LinearLeader,
    RunningSumSelector,
)


def test_certificates_say_something_where_they_should():
    """Not vacuous: at this budget the running sums are certified to lose less than a quarter."""
    assert RunningSumSelector(8, 2, 4000, dc.Budget(8.0, 1e-6)).certified_regret < 0.25 * 4000
    assert HedgeSelector(8, 2, 4000, dc.Budget(math.inf)).certified_regret < 0.1 * 4000


def test_certificates_are_near_what_can_happen():
    """One item, a stream that turns: regret against the best fixed item itself comes close to the bound.

    For k = 1 the bound holds with alpha = 1, and a learner that lost three times what it does would break it.
    """
    rounds = 200
    liked = np.zeros((rounds, 2))
    liked[: rounds // 4, 0] = liked[rounds // 4 :, 1] = 1.0
    people = dc.objectives.Coverage(liked)
    totals = []
    for seed in range(40):
        learner = HedgeSelector(2, 1, rounds, dc.Budget(math.inf), seed=seed)
        totals.append(learner.run(people).regret(people, alpha=1.0).total)
    # rewards are 0 or 1: a mean of 40 runs is within 6 sqrt(200 / 4 / 40) of its expectation
    slack = 6 * math.sqrt(rounds / 4 / 40)
    assert 0.4 * learner.certified_regret <= np.mean(totals) <= learner.certified_regret + slack


@pytest.mark.parametrize("bound", [1e-12, 1.0, 1e10])
@pytest.mark.parametrize("kind", [HedgeSelector, RunningSumSelector])
def test_certificates_scale_with_the_bound(kind, bound):
    rounds = 1000
    people = dc.objectives.FacilityLocation(np.tile([0.0, bound, 0.0], (rounds, 1)), bound=bound)
    learner = kind(3, 1, rounds, dc.Budget(100.0, 1e-6), bound=bound, resample_every=2, seed=0)
    regret = learner.run(people).regret(people, alpha=1.0).total / bound
    assert regret <= learner.certified_regret / bound <= 0.3 * rounds


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_published_certificates_scale_with_the_costs():
    one, three = (
        BanditApproximateLeader(
            Ball(2), 10**6, dc.Budget(1000.0), lipschitz=by, bound=by, strong_convexity=by / 2,
            calibration="published", seed=0,
        ).certified_regret
        for by in (1.0, 3.0)
    )  # fmt: skip
    assert three == pytest.approx(3 * one)
    assert three < 3 * 10**6  # which is never exceeded
    for printed in (minimization.published_minimizer, minimization.published_bandit_minimizer):
        assert printed(5, 10**6, 1.0, 3.0) == pytest.approx(3 * printed(5, 10**6, 1.0))


def test_an_expert_is_certified_within_its_condition_alone():
    """Rate times batch times bound at most 1: there the sum of its two terms, and nothing beyond."""
    assert frank_wolfe.entropic(3.0, 0.5, 100, 0.125, 4, 2.0) == 3.0 * 8 + 0.125 * 4 * 2 * 0.5 * 100
    for beyond in ((0.13, 4, 2.0), (0.125, 5, 2.0), (0.125, 4, 2.1)):
        assert frank_wolfe.entropic(3.0, 0.5, 100, *beyond) == math.inf


# --- as printed: by hand at small numbers, with T = e^4 where ln(T)^2.5 is 32 --------------------------

E4 = math.exp(4.0)


def test_printed_bounds_of_paper_000():
    assert published_private_experts(9, 2, E4, 2.0) == pytest.approx(4 * math.sqrt(9 * E4 * 32) / 2)
    # n = 2, k = 1, T = (32 ln 2)^2: the exploration rate is 1
    rounds = (32 * math.log(2)) ** 2
    by_hand = 8 * 2 * math.log(2) * math.log(1e6) * math.sqrt(rounds) / 4 + rounds
    assert bandit.published_presampled(2, 1, rounds, 4.0, 1e-6) == pytest.approx(by_hand)
    assert frank_wolfe.published_leaders(E4, 2.0) == pytest.approx(math.exp(3.0) * 32**0.25 / 2)
    # Lemma 5 at T = e^4: K = (e^4 / 32)^(1/4); n = 4, G = 1, diameter 2, smoothness 3, radius 5
    steps = math.e / 32**0.25
    slope = 1 + math.sqrt(4 * 32 * steps / (0.5 * E4)) * 2
    by_hand = math.sqrt(4 * 32) * slope**2 * steps * math.exp(2.0) / 0.5 + 3 * 25 * E4 / (2 * steps)
    assert frank_wolfe.published_leaders_derived(4, E4, 0.5, 1.0, 3.0, 5.0, 2.0) == pytest.approx(by_hand)


def test_theorem_nine_is_what_lemma_five_comes_to():
    """With everything constant, the ratio of the two tends to a constant: same order in T."""
    ratios = [
        frank_wolfe.published_leaders_derived(1, t, 1.0, 1.0, 1.0, 1.0, 1.0)
        / frank_wolfe.published_leaders(t, 1.0)
        for t in (1e40, 1e80)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-3) == pytest.approx(1.5, rel=1e-3)


def test_printed_bounds_of_paper_003():
    # R = 4, n = e: the first term is 4 sqrt(T), the second 8 e T^(1/4) sqrt(ln 1/delta) / epsilon
    by_hand = 4 * math.sqrt(256) + 8 * math.e * 4 * 3 / 0.5
    assert frank_wolfe.published_meta(math.e, 4.0, 256, 0.5, math.exp(-9.0)) == pytest.approx(by_hand)
    assert published.published_picks(10, 3, 0.5, 2.0) == pytest.approx(2 * 9 * math.log(10) / 0.5)
    by_hand = math.sqrt(0.01 * 8 * 10 * math.log(10) / 0.5)
    assert published.published_continuous_greedy(10, 2.0, 0.5, 0.01) == pytest.approx(by_hand)
    # scale 2 K n Delta / epsilon = 12, H_3 = 11/6: m R^2 / (2K) + 2 R 12 H_3
    likely = 5 + 4 * 12 * math.sqrt(10) * math.log(12)
    found = published.published_laplace_steps(3, 2.0, 4, 0.5, 0.25, 10.0, likely=True)
    assert found == pytest.approx(likely)
    by_hand = 10 * 4 / 8 + 2 * 4 * math.sqrt(3 * math.log(3)) * 0.25 / 0.5
    assert published.published_gaussian_steps(3, 2.0, 4, 0.5, 0.25, 10.0) == pytest.approx(by_hand)
    assert published.published_laplace_steps(3, 2.0, 4, 0.5, 0.25, 10.0) == pytest.approx(5 + 4 * 12 * 11 / 6)
    # 4 sqrt(2 K ln(1/delta)) n Delta / epsilon at K = 2, delta = 1/e: 8 n Delta / epsilon = 12
    by_hand = 10 + 4 * 12 * 11 / 6
    assert published.published_laplace_steps_advanced(
        3, 2.0, 2, 0.5, math.exp(-1), 0.25, 10.0
    ) == pytest.approx(by_hand)


def test_lemma_three_is_least_at_the_steps_of_theorem_three():
    """And there it is of the theorem's order: the best K is what `published_steps` writes out."""
    n, reach, people, epsilon = 20, 3.0, 10**6, 1.0

    def loss(steps):
        return published.published_laplace_steps(n, reach, steps, epsilon, 1.0, people)

    best = continuous.published_steps(n, people, reach, epsilon, 1.0)
    assert loss(best) <= min(loss(best - 1), loss(best + 1))
    order = published.published_continuous_greedy(n, reach, epsilon, 1.0, people)
    assert 1.0 < loss(best) / order < 4.0


def test_lower_bounds_are_what_their_streams_cost_the_best_learner():
    """Every stream of a few rounds, with its weight: any learner pays the mean, the comparator less."""
    rounds = 6
    streams = list(itertools.product((0.0, 1.0), repeat=rounds))
    best = np.mean([min(map(sum, costs)) for costs in itertools.product(streams, repeat=3)])
    assert convex.experts_lower(3, rounds) == pytest.approx(rounds / 2 - best)
    walks = [abs(sum(2 * step - 1 for step in stream)) for stream in streams]
    assert convex.lipschitz_lower(rounds, 3.0, 4.0) == pytest.approx(3.0 * 2.0 * np.mean(walks))
    regret = 0.0
    for ends in streams:
        ones = sum(ends)
        weight = 1.0 / ((rounds + 1) * math.comb(rounds, int(ones)))  # of a coin of any bias
        points = [(sum(ends[:t]) + 1) / (t + 2) for t in range(rounds)]
        paid = sum((point - end) ** 2 for point, end in zip(points, ends, strict=True))
        regret += weight * (paid - ones * (rounds - ones) / rounds)
    # H = 2 and s = 1: costs (w - y)^2; then a segment that gradients up to L leave room for
    assert convex.strongly_convex_lower(rounds, 2.0, 2.0, 1.0) == pytest.approx(regret)
    assert convex.strongly_convex_lower(rounds, 1.6, 2.0, 1.0) == pytest.approx(0.36 * regret)
    assert convex.strongly_convex_lower(rounds, 1.0, 2.0, 1.0) == 0.0


def test_the_lower_bound_of_one_point_costs_holds_for_its_own_stream():
    """Parts of the proof by numbers, and the best of learners that try one point and then stay at a guess."""
    rounds, height, b = 10**4, 1.0, 0.7
    x = np.linspace(-3 * b, 3 * b, 60_001)
    root = lambda at: np.where(abs(at) < b, np.cos(np.pi * at / (2 * b)) / math.sqrt(b), 0.0)  # noqa: E731
    step, means = x[1] - x[0], []
    for moved in (0.02, 0.3, 1.0):
        p, q = root(x) ** 2, root(x - moved) ** 2
        distance = ((root(x) - root(x - moved)) ** 2).sum() * step
        assert distance <= (math.pi * moved / (2 * b)) ** 2 * (1 + 1e-6)
        for chance in (0.5, 0.9):  # what a sample tells of who made it
            mixed = chance * p + (1 - chance) * q
            told = sum(
                weight * (part[part > 0] * np.log((part / mixed.clip(1e-300))[part > 0])).sum() * step
                for weight, part in ((chance, p), (1 - chance, q))
            )
            assert told <= distance
    s = (b**2 / (12 * rounds * (math.pi * height) ** 2)) ** 0.25
    width = 2 * b + height * (1.0 + s) ** 2 / 2
    lower = convex.one_point_lower(rounds, 10.0, height, 2.0, width)
    assert lower == pytest.approx(height * rounds * s**2 / 4, rel=0.01)
    rng = np.random.default_rng(0)
    noise = rng.choice(x, p=root(x) ** 2 * step / (root(x) ** 2 * step).sum(), size=(500, 1600))
    for point, tries in itertools.product((0.02, 0.2, 1.0), (0, 25, 100, 400, 1600)):
        gap = 2 * height * s * point  # y = s is as likely as y = -s, and here the truth
        with np.errstate(divide="ignore"):
            odds = 2 * (np.log(root(noise[:, :tries])) - np.log(root(noise[:, :tries] - gap)))
        guess = s * np.tanh(np.clip(odds.sum(axis=1), -50, 50) / 2)
        paid = tries * ((point - s) ** 2 + (point + s) ** 2) / 2 + (rounds - tries) * (guess - s) ** 2
        means.append(height / 2 * paid.mean())
    assert lower < min(means) < 20 * lower
    assert convex.one_point_lower(5, 10.0, height, 2.0, 0.1) == 0.0
    assert convex.one_point_lower(rounds, 1.0, height, 2.0, width) == 0.0


@pytest.mark.parametrize("rounds", [1, 2, 100, 10**4, 10**6])
def test_no_certificate_is_below_what_nobody_can_beat(rounds):
    """Also without privacy, where those of linear and Lipschitz costs are within a factor of 2."""
    free = dc.Budget(math.inf)
    experts = LinearLeader(Simplex(5), rounds, free, box=(0.0, 1.0)).certified_regret
    straight = ApproximateLeader(Ball(3), rounds, free, lipschitz=1.0).certified_regret
    curved = ApproximateLeader(Ball(3), rounds, free, lipschitz=2.0, strong_convexity=1.0).certified_regret
    slack = 1.0 + 1e-9
    assert 1.0 <= slack * experts / convex.experts_lower(5, rounds) <= 2.0
    assert 1.0 <= slack * straight / convex.lipschitz_lower(rounds, 1.0, 2.0) <= 2.0
    assert 1.0 <= slack * curved / convex.strongly_convex_lower(rounds, 2.0, 1.0, 2.0) <= 6.0
    if rounds >= 10**4:
        how = {"lipschitz": 2.1, "strong_convexity": 1.0, "bound": (0.0, 3.0)}
        seen = BanditApproximateLeader(Ball(3), rounds, free, **how).certified_regret
        assert 0.0 < convex.one_point_lower(rounds, 2.1, 1.0, 2.0, 3.0) < seen


def test_printed_bounds_of_paper_004():
    by_hand = 3 * (2 + 0.5 * 4) ** 2 * 32 / (2 * 0.5)
    assert convex.published_strongly_convex(3, E4, 2.0, 2.0, 0.5, 4.0) == pytest.approx(by_hand)
    assert convex.published_lipschitz(3, E4, 2.0) == pytest.approx(math.sqrt(3 * E4 * 32) / 2)
    spread = math.sqrt(3 * 32 / (2 * E4)) * 4
    by_hand = math.sqrt(3 * E4 * 32) / 2 * (5 + spread) ** 2
    assert convex.published_lipschitz_in_full(3, E4, 2.0, 5.0, 4.0) == pytest.approx(by_hand)
    # B R + (1 + R/r) L + (H |C| + B)^2 / H (1 + B / epsilon)
    chi = 1 * 3 + (1 + 3 / 0.5) * 2 + (0.5 * 6 + 1) ** 2 / 0.5 * (1 + 1 / 4)
    settings = (7, 4096, 4.0, 2.0, 0.5, 0.5, 3.0, 6.0, 1.0)
    assert convex.published_one_point(*settings) == pytest.approx(7 * 256 * chi)
    assert convex.published_one_point(*settings, adaptive=True) == pytest.approx(7 * 512 * chi)
    assert convex.published_one_point_lipschitz(7, 4096, 4.0) == pytest.approx(7 * 512 / 4)
    assert convex.published_one_point_without_privacy(8, 4096) == pytest.approx(4 * 256)
    assert convex.published_one_point_without_privacy(8, 4096, adaptive=True) == pytest.approx(4 * 512)
