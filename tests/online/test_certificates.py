"""Certificates and printed bounds, against what can happen and by hand; measured ones: test_theorems.py."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import gamma

import discreet as dc
from discreet.bounds import (
    ALPHA,
    bandit,
    continuous,
    convex,
    frank_wolfe,
    greedy,
    minimization,
    published,
    published_private_experts,
    selection,
)
from discreet.bounds.charged_costs import ChargedCosts
from discreet.constraints import Knapsack
from discreet.constraints.domains import Ball, Simplex
from discreet.objectives.fixed_point import step
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
    # R = 4, n = e^4: the first term is 8 sqrt(T), the second 8 e^4 T^(1/4) sqrt(ln 1/delta) / epsilon
    by_hand = 8 * math.sqrt(256) + 8 * E4 * 4 * 3 / 0.5
    assert frank_wolfe.published_meta(E4, 4.0, 256, 0.5, math.exp(-9.0)) == pytest.approx(by_hand)
    assert published.published_picks(10, 3, 0.5, 2.0) == pytest.approx(2 * 9 * math.log(10) / 0.5)
    by_hand = math.sqrt(0.01 * 8 * 10 * math.log(10) / 0.5)
    assert published.published_continuous_greedy(10, 2.0, 0.5, 0.01) == pytest.approx(by_hand)
    assert published.published_continuous_greedy(10, 2.0, 0.5, 0.03, 3.0) == pytest.approx(3 * by_hand)
    # scale 2 K n Delta / epsilon = 12, H_3 = 11/6: m R^2 / (2K) + 2 R 12 H_3
    likely = 5 + 4 * 12 * math.sqrt(10) * math.log(12)
    found = published.published_laplace_steps(3, 2.0, 4, 0.5, 0.25, 10.0, likely=True)
    assert found == pytest.approx(likely)
    by_hand = 10 * 4 / 8 + 2 * 4 * math.sqrt(3 * math.log(3)) * 0.25 / 0.5
    assert published.published_gaussian_steps(3, 2.0, 4, 0.5, 0.25, 10.0) == pytest.approx(by_hand)
    assert published.published_laplace_steps(3, 2.0, 4, 0.5, 0.25, 10.0) == pytest.approx(5 + 4 * 12 * 11 / 6)
    # 4 sqrt(2 K ln(1/delta)) n Delta / epsilon at K = 2, delta = e^-9: 24 n Delta / epsilon = 36
    found = published.published_laplace_steps_advanced(3, 2.0, 2, 0.5, math.exp(-9), 0.25, 10.0)
    assert found == pytest.approx(10 + 4 * 36 * 11 / 6)


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
    for longer in (100, 3000):  # of two experts, the better is ahead by half of what they are apart
        apart = longer * math.comb(2 * longer, longer) / 4**longer
        assert convex.experts_lower(2, longer, 3.0) == pytest.approx(3 * apart / 2)
    walks = [abs(sum(2 * step - 1 for step in stream)) for stream in streams]
    assert convex.lipschitz_lower(rounds, 3.0, 4.0) == pytest.approx(3.0 * 2.0 * np.mean(walks))
    for longer in (10**12, 10**15, 10**18):  # Stirling's formula has an error of 1 / (4 T)
        assert convex.lipschitz_lower(longer, 1.0, 1.0) == pytest.approx(math.sqrt(longer / (2 * math.pi)))
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
    for curved in (0.5, 0.9):  # gradients up to 1, and beyond that
        s = ((1.5 / 2) ** 2 / (12 * rounds * (math.pi * curved) ** 2)) ** 0.25
        b = (1.5 - curved * (2.4 / 2 + s) ** 2 / 2) / 2
        assert (curved * (1.2 + s) <= 1.0) == (curved == 0.5)
        by_hand = b * math.sqrt(rounds / 12) / (4 * math.pi) if curved == 0.5 else 0.0
        assert convex.one_point_lower(rounds, 1.0, curved, 2.4, 1.5) == pytest.approx(by_hand)
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
    by_hand = 3 * (2 + 0.25 * 4) ** 2 * 32 / (2 * 0.25)
    assert convex.published_strongly_convex(3, E4, 2.0, 2.0, 0.25, 4.0) == pytest.approx(by_hand)
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


# --- certificates written a second time: step by step, no two settings the same, each side of a border -----


def _second_order(rate, noise, bound, centred=True):
    reach = bound / 2 if centred else bound
    h = rate * reach
    psi = sum(h**j / math.factorial(j + 2) for j in range(150))
    return psi * rate * reach**2 + math.exp(h) * rate * noise**2 / (1 - (rate * noise) ** 2)


def _unbroken(certified, trivial, *settings, **more):
    """What a certificate says without its cut, which is where it should be."""
    found = certified(*settings, **more, clipped=False)
    assert certified(*settings, **more) == min(found, trivial)
    return found


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_certificates_of_hedge_experts(rate):
    n, k, rounds, batch, bound, fastest = 11, 3, 5000, 2, 1.25, 0.4
    most = ALPHA * rounds * bound
    assert selection.trivial(rounds, bound) == pytest.approx(most)
    assert selection.at_random(n, k, rounds, bound) == pytest.approx((ALPHA - k / n) * rounds * bound)
    assert selection.at_random(n, 9, rounds, bound) == 0.0
    plain = bound * (rate * bound * batch * rounds + k * math.log(n) / (rate * bound))
    assert selection.unclipped_hedge(n, k, rounds, rate, batch, bound) == pytest.approx(plain)
    assert selection.hedge(n, k, rounds, rate, batch, bound) == pytest.approx(min(most, plain))
    assert (plain < most) == (rate < 0.1)
    falling = batch * bound**2 * (2 * rate * rounds + fastest * batch) + k * math.log(n) / rate
    settings = (n, k, rounds, rate, fastest, batch, bound)
    assert _unbroken(selection.falling_hedge, most, *settings) == pytest.approx(falling)
    for noise in (7.0, 1e5):
        learned = {None: plain, fastest: falling}
        for given, sums in learned.items():
            found = selection.noisy_leader(n, k, rounds, rate, noise, batch, bound, fastest=given)
            assert found == pytest.approx(min(most, sums + k * noise))
    found = selection.following(rounds, rate, 0.3, 7.0, batch, bound)
    by_hand = math.log(1 / 0.3) / rate + rate * batch * rounds * bound**2 / 8 + 7 / math.sqrt(2 * math.pi)
    assert found == pytest.approx(by_hand)
    for beyond in (0.41, 0.0):
        assert selection.hedge(n, k, rounds, beyond, batch, bound) == pytest.approx(most)
        assert selection.unclipped_hedge(n, k, rounds, beyond, batch, bound) == math.inf
    for broken in ((rate, 0.41), (0.0, fastest)):
        assert selection.falling_hedge(n, k, rounds, *broken, batch, bound) == pytest.approx(most)
    for one in (selection.hedge, selection.unclipped_hedge):
        assert one(3, 3, rounds, rate, batch, bound) == 0.0
    assert selection.falling_hedge(3, 3, rounds, rate, fastest, batch) == 0.0
    assert selection.noisy_leader(3, 4, rounds, rate, 7.0) == 0.0


def test_rates_are_where_their_certificates_are_least():
    for rounds, capped in ((5000, False), (9, True)):
        best = selection.best_rate(11, 3, rounds, 4, 1.25)
        assert (best == pytest.approx(1 / (4 * 1.25))) == capped
        asked = (best * by for by in (0.9, 1.0 if capped else 1.1))
        certified = selection.unclipped_hedge(11, 3, rounds, best, 4, 1.25)
        assert certified <= min(selection.unclipped_hedge(11, 3, rounds, one, 4, 1.25) for one in asked)
    for spread, capped in ((3.0, False), (1e5, True)):
        best = frank_wolfe.best_entropic_rate(spread, 0.5, 700, 4, 1.25)
        assert (best == pytest.approx(1 / (4 * 1.25))) == capped
        if not capped:  # both parts of the sum are the same
            assert frank_wolfe.entropic(spread, 0.5, 700, best, 4, 1.25) == pytest.approx(2 * spread / best)
    best = frank_wolfe.best_euclidean_rate(3.0, 0.5, 700, 4)
    by_hand = 9 / (2 * best) + best * 4 * 0.25 * 700 / 2
    assert frank_wolfe.euclidean(3.0, 0.5, 700, best, 4) == pytest.approx(by_hand)
    assert by_hand == pytest.approx(9 / best)
    best = minimization.best_regularization(7, 10**6, 2.5, 3.0)
    tried = [minimization.lovasz_leader(7, 10**6, best * by, 2.5, 3.0) for by in (0.9, 1.0, 1.1)]
    assert min(tried) == tried[1]
    # a rate that is best for c = bound^2 / 8 + noise^2 makes ln n / (rate / n) and samples c rate the same
    best = bandit.best_fixed_rate(11, 700, 1.5, 3.0)
    assert 11 * math.log(11) / best == pytest.approx(700 * (9 / 8 + 1.5**2) * best)
    assert bandit.best_fixed_rate(11, 1, 1.5, 3.0) == pytest.approx(0.5 / 1.5)
    assert bandit.best_fixed_rate(11, 1, 0.0, 3.0) == pytest.approx(2 / 3)
    assert bandit.best_fixed_rate(11, 0.1, 50.0, 30.0) == bandit.best_fixed_rate(11, 1, 50.0, 30.0)


def test_largest_of_noise():
    assert selection.gaussian_maximum(7, 3.0) == pytest.approx(3 * math.sqrt(2 * math.log(7)))
    assert selection.gaussian_maximum(0, 3.0) == 0.0
    for n, draws in ((3, 40), (10**6, 2)):  # best at a small s, and at one near 1
        grid = np.linspace(1e-4, 1 - 1e-4, 99_991)
        by_hand = (np.log(n / (1 - grid**2) ** draws) * 2.5 / grid).min()
        assert by_hand <= selection.laplace_maximum(n, 2.5, draws) <= by_hand * 1.001
    assert selection.laplace_maximum(1, 2.5, 3) == 0.0
    one, all_at_once = math.sqrt(2 * math.log(20)), math.sqrt(2 * math.log(math.e * 20 / 5))
    assert frank_wolfe.set_maximum(20, 5.0, 3.0) == pytest.approx(5 * 3 * all_at_once)
    assert frank_wolfe.set_maximum(20, 1.5, 3.0) == pytest.approx(1.5 * 3 * one)
    assert frank_wolfe.set_maximum(20, 25.0, 3.0) == pytest.approx(25 * 3 * math.sqrt(2))
    wanted = 4 * selection.laplace_maximum(20, 2.5, 3)
    assert frank_wolfe.laplace_set_maximum(20, 4.0, 2.5, 3) == pytest.approx(wanted)
    assert frank_wolfe.box_maximum([1.0, 4.0], 3.0, gaussian=False) == 2.5 * 3
    found = frank_wolfe.box_maximum([1.0, 4.0], 3.0, gaussian=True)
    assert found == pytest.approx(2.5 * 3 * math.sqrt(2 / math.pi))


@pytest.mark.parametrize(("growth", "bound"), [(3, 2.5), (1, 2.5), (3, 40.0)])
def test_the_certificate_of_windows(growth, bound):
    """Window by window: sampled people, picks, rounding; those served before the first, and the last cut."""
    n, k, rounds, rate, first, chance = 9, 3, 40_000, 0.9, 700, 0.7
    wanted = {True: ALPHA * bound * first, False: ALPHA * bound * first}
    start, window = first, first
    while start < rounds:
        end = min(rounds, start + growth * window) if growth > 1 else rounds
        proxy = bound**2 * (rounds - window + 1) / (4 * window * rounds)
        loss = rounds / (rounds - window) * math.sqrt(proxy * 2 * math.log(math.comb(n, k)))
        picks = [(2 / 3) ** 2 * math.log(9), 2 / 3 * math.log(8), math.log(7)]
        loss += sum(picks) / (rate * chance) / window + k * step(bound, window)
        coin = (1 - 2 * chance) / (2 * math.log((1 - chance) / chance))
        sets = math.log(sum(math.comb(n, i) for i in range(k + 1)))
        loss += bound / chance * math.sqrt(2 * window * coin * sets) / window
        for clipped in wanted:
            wanted[clipped] += (end - start) * (min(loss, ALPHA * bound) if clipped else loss)
        start, window = end, window * growth
    for clipped, total in wanted.items():
        how = {"growth": growth, "chance": chance, "bound": bound, "clipped": clipped}
        assert selection.phased(n, k, rounds, rate, first, **how) == pytest.approx(total, rel=1e-12)
    assert selection.phased(n, k, 500, rate, first, bound=bound) == pytest.approx(ALPHA * bound * 500)
    assert selection.sampling_error(n, k, 500, 500, bound) == bound
    assert selection.sampling_error(n, n, 400, 500, bound) == 0.0


def test_certificates_of_bandits():
    for rate, noise, bound, centred in (
        (0.3, 1.7, 2.5, True), (0.3, 1.7, 2.5, False), (3e-5, 0.0, 5.0, True), (9.8, 0.05, 10.0, True),
    ):  # fmt: skip
        found = bandit.second_order(rate, noise, bound, centred=centred)
        assert found == pytest.approx(_second_order(rate, noise, bound, centred))
    for broken in ((0.0, 0.0, 1.0), (10.1, 0.05, 10.0), (0.25, 4.0, 1.0)):
        assert bandit.second_order(*broken) == math.inf
    n, noise, bound = 11, 1.5, 3.0
    spread = bound**2 / 8 + noise**2
    for block, first in ((0, 1), (1, 1), (700, 512), (1023, 512), (1024, 1024)):
        by_hand = 2 * math.sqrt(n * math.log(n) / (spread * first * math.sqrt(2)))
        assert bandit.falling_rate(n, block, noise, bound) == pytest.approx(min(by_hand, 0.5 / noise))
    assert bandit.falling_rate(n, 1, 0.0, bound) == pytest.approx(2 / bound)
    k, rounds, size, repeats = 2, 10_006, 7, 3
    most, full = ALPHA * bound * rounds, 1429
    every = k * repeats * full * bound
    left = ALPHA * bound * (rounds - full * size)
    costs = sum(
        _second_order(bandit.falling_rate(n, block, noise, bound), noise, bound) for block in range(full)
    )
    last = bandit.falling_rate(n, full, noise, bound)
    for rate, end, cost in ((None, last, costs), (0.2, 0.2, full * _second_order(0.2, noise, bound))):
        by_hand = size * k * (n * math.log(n) / end + cost) + every + left
        how = {"rate": rate, "noise": noise, "bound": bound}
        assert _unbroken(bandit.blocks, most, n, k, rounds, size, repeats, **how) == pytest.approx(by_hand)
    full = 10**9 // 8
    by_hand = 8 * (n * math.log(n) / 1e-3 + full * _second_order(1e-3, 0.0, 1.0)) + full
    assert bandit.blocks(n, 1, 10**9, 8, rate=1e-3) == pytest.approx(by_hand)  # not cut
    for one in ((rounds, 5, repeats), (6, size, repeats)):
        assert bandit.blocks(n, k, *one, bound=bound) == ALPHA * bound * one[0]
        assert bandit.blocks(n, k, *one, bound=bound, clipped=False) == math.inf
    assert bandit.blocks(n, k, rounds, 6, repeats, bound=bound, clipped=False) < math.inf
    found = bandit.blocks(2, k, rounds, size, repeats, bound=bound)
    assert found == pytest.approx(ALPHA * bound * k * repeats * 1429)
    large = k * size * (1 / 2 + 4) * math.sqrt(n * math.log(n) * spread * rounds / size)
    found = bandit.falling_blocks_size(n, k, rounds, size, repeats, noise, bound)
    assert found == pytest.approx(large + k * repeats * rounds / size * bound)
    found = bandit.falling_blocks_size(2, k, rounds, size, repeats, noise, bound)
    assert found == pytest.approx(k * repeats * rounds / size * bound)


@pytest.mark.parametrize("centred", [True, False])
def test_the_certificate_of_coins(centred):
    n, k, rounds, g, rate, every, bound = 11, 2, 10**7, 0.3, 0.04, 5, 3.0
    h = rate * bound
    wide = math.exp(h / 2) - math.exp(-h / 2) if centred else math.exp(h) - 1
    each = _second_order(rate, 0.0, bound, centred) + g * every * wide**2 / (8 * k * n * rate)
    by_hand = k * (k * n * math.log(n) / (g * rate) + rounds * each) + g * rounds * bound
    most = ALPHA * bound * rounds
    how = {"bound": bound, "centred": centred}
    found = _unbroken(bandit.coins, most, n, k, rounds, g, rate, every, **how)
    assert found == pytest.approx(by_hand)
    assert by_hand < most
    assert _unbroken(bandit.coins, ALPHA * bound * 9, n, k, 9, g, rate, every, **how) > ALPHA * bound * 9
    assert _unbroken(bandit.coins, most, n, k, rounds, g, 17.0, every, **how) == math.inf
    assert bandit.coins(n, k, rounds, g, 16.0, every, **how, clipped=False) < math.inf
    assert bandit.coins(2, 2, rounds, g, rate, bound=bound) == pytest.approx(g * most)


def test_printed_bounds_of_bandits():
    n, k, rounds, epsilon, delta = 5, 3, 4096, 0.5, 1e-4
    logs, root = n * math.log(n), math.sqrt(math.log(k / delta))
    rate = epsilon / (k * math.sqrt(32 * rounds) * root)
    assert selection.published_rate(k, rounds, epsilon, delta, 2.5) == pytest.approx(rate / 2.5)
    by_hand = k * (rate * rounds + math.log(n) / rate)
    assert selection.published_hedge(n, k, rounds, epsilon, delta) == pytest.approx(by_hand)
    g = k * (16 * logs) ** (2 / 3) / 16
    assert bandit.published_exploration(n, k, rounds) == pytest.approx(g)
    by_hand = 32 * root / epsilon * (k * logs ** (1 / 3)) ** 2 * 256
    assert bandit.published_bandit(n, k, rounds, epsilon, delta) == pytest.approx(by_hand)
    by_hand = 16 * k**3 * logs * root * math.sqrt(rounds / g) / epsilon + g * rounds
    assert bandit.published_bandit_derived(n, k, rounds, epsilon, delta) == pytest.approx(by_hand)
    g = math.sqrt(k**2 * logs / (rate * rounds))  # k^2 n ln n / (g rate) = g T
    assert bandit.published_direct_exploration(n, k, rounds, epsilon, delta) == pytest.approx(g)
    by_hand = k * rate * rounds + 2 * g * rounds
    assert bandit.published_direct(n, k, rounds, epsilon, delta) == pytest.approx(by_hand)
    for rounds, g in ((10**9, k * (16 * logs) ** (2 / 3) / 1000), (4096, 1.0)):  # at most 1
        by_hand = 8 * k**3 * logs * math.log(k / delta) * math.sqrt(rounds / g) / epsilon + g * rounds
        assert bandit.published_presampled(n, k, rounds, epsilon, delta) == pytest.approx(by_hand)
    front = n ** (1 / 3) * rounds ** (4 / 3) / (16 * math.log(n)) ** (2 / 3)
    power = 8 * k**2 * (16 * logs) ** (4 / 3) * 16
    assert bandit.published_tail(n, k, rounds) + power == pytest.approx(math.log(front))
    for coin, people, most in ((0.15, 9, 2), (0.1, 15, 3), (0.7, 9, 12), (0.5, 9, 9)):
        chances = [
            math.comb(people, i) * coin**i * (1 - coin) ** (people - i) for i in range(most + 1, people + 1)
        ]
        assert bandit.too_many_explorations(people, coin) == pytest.approx(sum(chances))
    assert 2 * 0.29 * 50 < 29.0 == pytest.approx(2 * 0.29 * 50)  # a float below 29, and 29 is not too many
    chances = [math.comb(50, i) * 0.29**i * 0.71 ** (50 - i) for i in range(30, 51)]
    assert bandit.too_many_explorations(50, 0.29) == pytest.approx(sum(chances))


def test_certificates_of_leaders():
    """Round by round, with every part of the regularization, and cut where a round cannot lose more."""
    rounds, slope, radius, diameter, curved, held, grown = 500, 3.0, 1.5, 2.5, 0.7, 11.0, 0.3
    for noise, capped in ((2.0, False), (40.0, True)):
        strengths = [held + t * curved + (t - 1) * grown for t in range(1, rounds + 1)]
        linear = sum(min(slope * diameter, slope * (slope + noise) / one) for one in strengths)
        square = sum((slope + noise) ** 2 / (2 * one) for one in strengths)
        assert (linear < square) == capped
        by_hand = (held + rounds * grown) * radius**2 / 2 + min(linear, square)
        settings = (rounds, slope, radius, diameter, noise)
        found = convex.approximate_leader(*settings, curved, held, grown)
        most = slope * diameter * rounds
        assert found == pytest.approx(by_hand)
        assert by_hand < most
        assert convex.approximate_leader(*settings, curved, 1e9) == pytest.approx(most)
        assert convex.approximate_leader(*settings) == pytest.approx(most)
        root = math.sqrt(2 * rounds * min(slope * (slope + noise), (slope + noise) ** 2 / 2)) / radius
        assert convex.best_regularization(*settings) == pytest.approx(root)
        # with curvature: the least of a fine search
        held_best = convex.best_regularization(*settings, curved)
        tried = [
            convex.approximate_leader(*settings, curved, one) for one in (0.0, *np.geomspace(1e-3, 1e3, 999))
        ]
        assert convex.approximate_leader(*settings, curved, held_best) <= min(tried) * 1.003
    assert convex.best_regularization(rounds, slope, radius, diameter, math.inf, curved) == math.inf
    assert convex.linear_leader(20, 2.0, 1.5, 3.0, 1e4, 50.0) == 2 * 3 * 20
    assert convex.linear_experts(5, 20, 2.0, 1e4, 0.1) == 2 * 20
    # paper 004's leader with added curvature
    logs = 1 + math.log(700)
    by_hand = 0.3 * 700 * 2.5**2 / 2 + 3 * (1.5 + 40) * logs / 0.3 + 2 * 3 * 2.5
    assert frank_wolfe.approximate_leader(2.5, 3.0, 700, 0.3, 40.0) == pytest.approx(by_hand)


def test_settings_of_one_point():
    """What is not given: the batch where its spread is least, beta and the regularization by a search."""
    rounds, p, slope, r, radius, width = 10**6, 3, 2.0, 0.8, 1.5, 1.2
    for scale, batch in ((2.5, 6), (0.1, 1), (1e9, rounds)):
        found = convex.one_point(rounds, p, slope, r, radius, width, scale)
        assert found.batch == batch
        assert convex.one_point(rounds, p, slope, r, radius, width, scale, adaptive=True).batch == 1
    assert found.regret == min(width, 2 * slope * radius) * rounds
    assert convex.one_point(rounds, p, slope, r, 0.1, width, 1e9).regret == 2 * slope * 0.1 * rounds
    for curved in (0.0, 50.0):
        given = (rounds, p, slope, r, radius, width, 2.5, curved)
        found = convex.one_point(*given)
        spread = 6 * width**2 / 4 + 2 * 2.5**2 / 6
        tried = []
        for beta in found.beta * 2.0 ** np.arange(-8.0, 8.1, 0.25):
            batches = np.arange(1, -(-rounds // 6) + 1)
            energy = (p / beta) ** 2 * 6 * spread
            held = p / beta * math.sqrt(spread * 6 * batches.size) / radius
            for strength in (held, 0.0) if curved else (held,):
                learned = (energy / (2 * (batches * 6 * curved + strength))).sum()
                explored = rounds * beta * (2 * slope + min(width, slope * radius) / r)
                tried.append((strength * radius**2 / 2 + learned + explored, strength, beta))
        assert found.regret == pytest.approx(min(tried)[0])
        assert (found.regularization, found.beta) == pytest.approx(min(tried)[1:])


def test_losses_of_finitely_many_steps():
    """The gap to the best value, step by step: what single items add, later less the second derivatives."""
    for steps, rank, bound in ((1, 2.0, 1.5), (7, 3.0, 1.5), (40, 4.0, 2.5), (40, 1.0, 2.5)):
        losses = []
        for first in range(steps + 1):
            worst = []
            for value in (0.0, bound):
                gap = value
                for k in range(1, steps + 1):
                    if k <= first:
                        gap -= gap * (1 - 1 / (steps - k + 1)) ** rank / steps
                    else:
                        gap += bound * rank**2 / (2 * steps**2) - gap / steps
                worst.append(gap - value / math.e)
            losses.append(max(worst))
        assert frank_wolfe.discretization(steps, rank, 90, bound) == pytest.approx(90 * min(losses))
        paid = min(rank * bound, bound + bound * rank**2 / (2 * steps))
        assert frank_wolfe.payoff(steps, rank, bound) == pytest.approx(paid)
    assert frank_wolfe.smooth_discretization(7, 3.0, 0.5, 90) == pytest.approx(90 * 0.5 * 9 / 14)
    for steps, kappa in ((1, 0.3), (5, 0.3), (5, 1.0)):
        reached = 1 - kappa * (steps / (steps + 1)) ** steps
        assert continuous.ratio_within_steps(steps, kappa) == pytest.approx(reached)
        lost = 7 * (1 - kappa / math.e - reached)
        assert continuous.lost_within_steps(steps, 7.0, kappa) == pytest.approx(lost)
    found = [continuous.lost_between_steps(5, 7.0, 3.0, vertices_are_sets=sets) for sets in (True, False)]
    assert found == pytest.approx([7 * 6 / 10, 7 * 9 / 10])
    assert [continuous.places(n) for n in (1, 2**22, 2**23 - 1, 2**23, 2**24)] == [30, 30, 30, 29, 28]
    assert continuous.lost_to_rounding(7.0, 3.0, 2**23) == 7 * 3 * 4 / 2**29


def test_losses_to_noise_on_gradients():
    n, reach, size, steps, chance = 11, 3.0, 2.5, 5, 0.01
    logs = math.log(n)
    assert continuous.lost_to_picks(n, reach, size) == pytest.approx(reach * logs / size)
    beyond = gamma(15).isf(chance) / 5  # K R exponential variables
    found = continuous.lost_to_picks(n, reach, size, steps, chance)
    assert found == pytest.approx((reach * logs + beyond) / size)
    for given, more in ((None, 1.0), (chance, math.log(100))):
        found = continuous.lost_to_knapsack_picks(n, reach, size, 4, given)
        assert found == pytest.approx(reach * (math.log(44) + more) / size)
    for one in (continuous.lost_to_picks, continuous.lost_to_knapsack_picks):
        assert one(n, reach, 0.0, 4) == math.inf
    harmonic = sum(1 / j for j in range(1, 12))
    assert continuous.lost_to_laplace(n, reach, size) == pytest.approx(reach * size * harmonic)
    q = np.linspace(1e-4, 1 - 1e-4, 99_991)
    share = ((math.log(200) - 15 * np.log(1 - q**2)) / (5 * q)).min()
    for items in (1, 3, n):
        largest = max(0.0, math.log(items / 2)) + gamma(steps).isf(chance / 2) / steps
        found = continuous.lost_to_laplace(items, reach, size, steps, chance)
        assert found == pytest.approx(size * (reach * largest + share))
    root = reach * math.sqrt(2 * logs)
    assert continuous.lost_to_gaussian(n, reach, size) == pytest.approx(size * root)
    found = continuous.lost_to_gaussian(n, reach, size, steps, chance)
    assert found == pytest.approx(size * (root + 2 * math.sqrt(3 * math.log(100) / 5)))
    best = math.sqrt(700 * 3 * 2.5 / (8 * n * 0.01 * harmonic))
    assert continuous.published_steps(n, 700.0, reach, 2.5, 0.01) == round(best)


def test_losses_of_greedy_picks():
    n, picks, rate, people, bound = 11, 3, 0.4, 70, 2.5
    lost = (4 / 9 * math.log(11) + 2 / 3 * math.log(10) + math.log(9)) / rate
    assert greedy.cardinality_loss(n, picks, rate) == pytest.approx(lost)
    assert selection.picks_loss(n, picks, rate) == pytest.approx(lost)
    assert greedy.extendible_loss(n, picks, rate, 2) == pytest.approx(2 / 3 * math.log(990) / rate)
    sets = math.log(1 + 11 + 55 + 165)
    assert greedy.log_sets(n, picks) == pytest.approx(sets)
    assert greedy.log_sets(3, 7) == pytest.approx(math.log(8))
    for chance, proxy in ((0.3, 0.4 / (2 * math.log(7 / 3))), (0.5, 0.25)):
        by_hand = bound / chance * math.sqrt(2 * people * proxy * sets)
        assert greedy.sampling_loss(n, picks, people, chance, bound) == pytest.approx(by_hand)
    assert greedy.sampling_loss(n, picks, people, 1.0, bound) == 0.0
    assert greedy.log_sets(5000, 2500) == pytest.approx(
        math.log(sum(math.comb(5000, i) for i in range(2501)))
    )
    small, mixed = [30.0, 20.0, 5.0, 10.0], [60.0, 70.0, 55.0, 5.0, 20.0, 110.0]
    for costs, ends in ((small, 0.3), (mixed, 0.3), (mixed, 0.003)):
        bag = ChargedCosts.of(Knapsack(costs, 100.0))
        wanted = short = bag.most * math.log(n * picks * people) / rate + bound
        if costs is mixed:  # the better of picks and of the best of three large items, at another rate
            share = 1 - math.exp(-50 / (50 + bag.slack))
            beside = share / (1 + share) * (short / share + math.log(3) / ends)
            assert (beside > short) == (ends < 0.1)
            wanted = max(short, beside) + math.log(2) / ends
        assert greedy.knapsack_loss(bag, n, picks, rate, ends, people, bound) == pytest.approx(wanted)


def test_certificates_of_minimization():
    n, rounds, held, noise, bound, g, batch, scale = 6, 10**6, 900.0, 2.5, 3.0, 0.3, 4, 1.5
    assert minimization.trivial_cost(rounds, bound) == 6 * rounds
    for free, square, most in ((False, 8.0, 4.0), (True, 5.0, 3.0)):
        length = bound * math.sqrt(square)
        for centre, reach in ((0.5, 0.5), (0.0, 1.0), (0.8, 0.8)):
            how = {"empty_is_free": free, "centre": centre}
            by_hand = rounds * (length**2 / 2 + noise) / held + held * n * reach**2 / 2
            assert minimization.lovasz_leader(n, rounds, held, noise, bound, **how) == pytest.approx(by_hand)
        by_hand = math.sqrt(8 * rounds * (length**2 / 2 + noise) / n)
        found = minimization.best_regularization(n, rounds, noise, bound, empty_is_free=free)
        assert found == pytest.approx(by_hand)
        for items in (n, 10**4):
            one = scale * math.sqrt(2 * math.log(items + 1))
            for kind, by_hand in (
                ("gaussian", min(most * bound * one, length * scale * math.sqrt(items))),
                ("spherical", length * scale * math.sqrt(3 * items * (items + 1))),
                (
                    "laplace",
                    min(
                        most * bound * selection.laplace_maximum(items + 1, scale, 3),
                        length * scale * math.sqrt(2 * items * 2.5),
                    ),
                ),
            ):
                draws = 2.5 if kind == "laplace" else 3
                found = minimization.noise_cost(items, kind, scale, draws, bound, empty_is_free=free)
                assert found == pytest.approx(by_hand)
    assert minimization.noise_cost(n, "laplace", 0.0) == 0.0
    assert minimization.lovasz_leader(n, 9, 0.0, noise, bound) == minimization.trivial_cost(9, bound)
    assert minimization.lovasz_leader(n, 9, 1e9, noise, bound) == minimization.trivial_cost(9, bound)
    moment = (bound**2 + 2 * (scale / batch) ** 2) * 49
    assert minimization.value_second_moment(n, batch, scale, bound) == pytest.approx(moment)
    for one_sided, factor in ((False, 1), (True, 2)):
        found = minimization.estimate_second_moment(n, noise, bound, one_sided=one_sided)
        assert found == pytest.approx(factor * 9 * 49 + noise)
    for centre, reach in ((0.5, 0.5), (0.0, 1.0), (0.8, 0.8)):
        by_hand = 2 * g * bound * rounds + rounds * moment / (g * held) + batch * held * n * reach**2 / 2
        found = minimization.explored(n, rounds, batch, g, held, moment, bound, centre=centre)
        assert found == pytest.approx(by_hand)
        assert by_hand < 6 * rounds
    assert minimization.explored(n, rounds, batch, g, 1e9, moment, bound) == 6 * rounds
    # the share at which 2 gamma M T + sqrt(2 T V B n / gamma) r is least, r = 1/2
    best = minimization.best_exploration_rate(n, rounds, batch, moment, bound)

    def total(share):
        return 2 * share * bound * rounds + math.sqrt(2 * rounds * moment / share * batch * n) / 2

    assert total(best) <= min(total(best * 1.01), total(best / 1.01))
    needed = minimization.rounds_needed(n, batch, moment, bound)
    shares = [minimization.best_exploration_rate(n, t, batch, moment, bound) for t in (needed - 1, needed)]
    assert shares[1] <= 1.0 < shares[0]
    assert minimization.published_exploration_rate(4, 10**6) == pytest.approx(8 / 100)
    assert minimization.published_bandit_excess(4, 10**6) == pytest.approx(5 / (4 * math.sqrt(0.08)))
    assert minimization.published_bandit_excess(4, 10) == pytest.approx(5 / 4)
    assert minimization.published_bandit_excess(1, 10**6) == pytest.approx(2 * 0.5 / math.sqrt(0.01))


def test_printed_settings_of_paper_003_and_000():
    assert [frank_wolfe.published_steps(t) for t in (1, 2, 9, 10)] == [1, 2, 3, 4]
    assert [frank_wolfe.published_leader_steps(t) for t in (1, 2, 3, 20)] == [1, 1, 1, 1]
    assert frank_wolfe.published_leader_steps(10**6) == round((10**6 / math.log(10**6) ** 2.5) ** 0.25) == 6
    for rounds in (2, 20, 10**6):
        logs = max(1.0, math.log(rounds)) ** 2.5
        by_hand = math.sqrt(7 * logs / (0.4 * rounds))
        assert frank_wolfe.published_curvature(7, rounds, 0.4) == pytest.approx(by_hand)
        by_hand = 2 * 1.5 * 7 * math.log(rounds) * math.sqrt(2 * 5 * math.log(1e6)) / 0.4
        assert frank_wolfe.published_scale(7, rounds, 5, 0.4, 1e-6, 1.5) == pytest.approx(by_hand)
