"""Evidence for docs/errata.md: regret of submodular minimization and of convex learners."""

from __future__ import annotations

import math
import warnings

import numpy as np

import discreet as dc
from discreet.bounds import minimization
from discreet.bounds.convex import published_one_point, worst_noise
from discreet.constraints.domains import Ball, Simplex
from discreet.objectives import SetFunction
from discreet.online import (
    ApproximateLeader,
    BanditApproximateLeader,
    LinearLeader,
    SubmodularMinimizer,
)
from discreet.privacy import SphericalLaplaceNoise, TreeSum
from tools.theorems.regret import subsets

from .blocks import big, evidence

ONE = dc.Budget(1.0)


@evidence
def curvature_for_lipschitz() -> str:
    def sizes(p: float, rounds: float = 1e6, epsilon: float = 1.0) -> tuple[float, float]:
        logs = math.log(rounds) ** 2.5

        def bound(h: float) -> float:  # Theorem 4 with L = |C| = 1, and what regularizing costs
            return p * (1.0 + h) ** 2 * logs / (epsilon * h) + h * rounds / 2.0

        best = math.sqrt(2.0 * p * logs / (epsilon * rounds))
        return bound(p * logs / (epsilon * math.sqrt(rounds))), bound(best)

    printed, tuned = zip(*(sizes(p, 1e12) for p in (10.0, 1000.0)), strict=True)
    slopes = [math.log(pair[1] / pair[0]) / math.log(100.0) for pair in (printed, tuned)]
    learner, better = (
        ApproximateLeader(Ball(5), 10**6, dc.Budget(4.0), lipschitz=1.0, calibration=kind, seed=0)
        for kind in ("published", "tight")
    )
    return (
        f"The bound of Theorem 4 plus the cost of the regularizer, at T = 10^12, grows as p^{slopes[0]:.2f}"
        f" with the printed H and as p^{slopes[1]:.2f} with H = sqrt(2 p ln^2.5 T / (epsilon T)). On the unit"
        f" ball with p = 5, T = 10^6, epsilon 4 and L = 1, the certificate of the library is"
        f" {big(learner.certified_regret)} for the printed H times L / |C|, {big(better.certified_regret)}"
        f" for its own H, and the trivial bound is {big(learner.domain.diameter * 10**6)}."
    )


@evidence
def norm_of_expert_costs() -> str:
    rounds = 1e11
    logs = math.log(rounds) ** 2.5

    def least(p: float, length: float) -> float:  # Theorem 4 and regularizing, |C| = sqrt 2, at the best H
        def bound(h: float) -> float:
            return p * (length + h * math.sqrt(2.0)) ** 2 * logs / h + h * rounds

        best = math.sqrt(p * length**2 * logs / rounds)
        return bound(best)

    def slope(values: list[float]) -> float:
        return math.log(values[1] / values[0]) / math.log(100.0)

    worst = float(np.linalg.norm(np.ones(1000)))
    whole = slope([least(p, math.sqrt(p)) for p in (10.0, 1000.0)])
    short = slope([least(p, 1.0) for p in (10.0, 1000.0)])
    ours = slope(
        [LinearLeader(Simplex(p), 10**11, ONE, box=(0.0, 1.0), seed=0).certified_regret for p in (10, 1000)]
    )
    return (
        f"A cost vector of 1,000 ones has Euclidean norm {worst:.1f}. Growth from p = 10 to 1,000 at"
        f" T = 10^11: the bound of Theorem 4 plus the cost of the regularizer, at the best H, grows as"
        f" p^{whole:.2f} for costs in [0, 1]^p and as p^{short:.2f} for vectors of norm 1. The certificate of"
        f" `LinearLeader(Simplex(p), 10**11, ..., box=(0, 1))` at epsilon 1 grows as p^{ours:.2f}."
    )


@evidence
def radius_beyond_the_domain() -> str:
    def made(rounds: int, adversary: str) -> tuple[float, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            learner = BanditApproximateLeader(
                Ball(50),
                rounds,
                ONE,
                lipschitz=1.0,
                bound=1.0,
                strong_convexity=0.5,
                adversary=adversary,
                calibration="published",
                seed=0,
            )
        return learner.exploration_radius, [str(one.message) for one in caught]

    needed = []
    for adversary, power in (("oblivious", 3), ("adaptive", 4)):
        least = 50**power + 1
        short, long = made(least - 1, adversary)[1], made(least, adversary)[1]
        if not any(f"rounds={least:,}" in text for text in short) or any("too short" in t for t in long):
            raise AssertionError(f"{least} is not where the exploration radius begins to fit")
        needed.append(f"{least:,} ({adversary})")
    rounds = 10**5
    return (
        f"p = 50, r = 1, {rounds:,} rounds: beta = p / T^(1/3) = {50 / rounds ** (1 / 3):.2f}, which is above"
        f" r. It is below r from T = {' and '.join(needed)}. For shorter horizons"
        f' `BanditApproximateLeader(calibration="published")` warns and uses'
        f" r / 2 = {made(rounds, 'oblivious')[0]:g}."
    )


@evidence
def norm_of_prefix_noise() -> str:
    tree = TreeSum(
        50, 1023, dc.Budget(1.0, neighbours="add_remove"), norm_bound=1.0, noise="spherical", seed=0
    )
    return (
        f"p = 50 coordinates, m = 10 levels, L = epsilon = 1: the root mean square length of the noise is"
        f" {worst_noise(tree.spec, tree.event):,.0f} (`TreeSum`). p m^1.5 is {50 * 10**1.5:,.0f} and"
        f" sqrt(p) m^2 is {math.sqrt(50) * 100:,.0f}."
    )


@evidence
def scale_of_costs() -> str:
    prices = np.random.default_rng(0).uniform(-0.3, 0.3, size=(400, 3))
    regrets = []
    for bound in (1.0, 0.01):
        costs = [lambda s, row=bound * row: float(row[list(s)].sum()) for row in prices]
        people = SetFunction(costs, 3, bound)
        learner = SubmodularMinimizer(3, 400, ONE, bound, calibration="published", seed=1)
        regrets.append(learner.run(people).total - 400 * min(people.value(s) for s in subsets(3)))
    settings = (3, 400, 1.0)
    high, low = (minimization.published_minimizer(*settings, bound) for bound in (1.0, 0.01))
    steep, flat = (
        ApproximateLeader(Ball(3), 10**6, ONE, lipschitz=length, seed=0).certified_regret
        for length in (1.0, 0.01)
    )

    def seen(size: float) -> float:
        declared = {"lipschitz": size, "bound": size, "strong_convexity": size / 2.0}
        learner = BanditApproximateLeader(
            Ball(2), 10**9, dc.Budget(8.0), **declared, calibration="published", seed=0
        )
        return learner.certified_regret

    def display(epsilon: float) -> float:  # Theorem 6, costs of one size over those of a hundredth of it
        large, small = (
            published_one_point(2, 10**9, epsilon, size, size / 2.0, 1.0, 1.0, 2.0, size)
            for size in (1.0, 0.01)
        )
        return large / small

    costly, cheap = seen(1.0), seen(0.01)
    return (
        f"All costs of a stream are divided by 100, with the same seed. The measured regret falls by a factor"
        f" of {regrets[0] / regrets[1]:.1f}, and the bound in the proof by {high / low:.1f}, from {big(high)}"
        f" to {big(low)}. M^2 falls by {0.01**-2:,.0f}. The certificate of `ApproximateLeader` falls by"
        f" {steep / flat:.1f}, from {big(steep)} to {big(flat)}, if the gradients are divided by 100. On the"
        f" unit disc, L = B = 1 and H = 1/2 are all divided by 100: Theorem 6 of paper 004 falls by"
        f" {big(display(1.0))} at epsilon 1 and by {big(display(0.01))} at epsilon 0.01. The certificate of"
        f" the library for the published settings (10^9 rounds, epsilon 8) falls by {costly / cheap:.1f},"
        f" from {big(costly)} to {big(cheap)}."
    )


@evidence
def exponent_of_n() -> str:
    rounds = 10**60
    slope = math.log10(
        minimization.published_bandit_minimizer(10**4, rounds, 1.0)
        / minimization.published_bandit_minimizer(10**3, rounds, 1.0)
    )
    return (
        f"The last line of the proof grows as n^{slope:.2f} (`published_bandit_minimizer`, 10^60 rounds), not"
        f" as n. For 50 items and 10^6 rounds, gamma = n^(3/2) / T^(1/3) is"
        f" {minimization.published_exploration_rate(50, 10**6):.2f}. It is a probability only from"
        f" T = n^4.5 = {big(50**4.5)}, but the theorem is stated for any T."
    )


@evidence
def two_trajectories() -> str:
    settings = (3, 10**8, 1.0)
    learner = SubmodularMinimizer(3, 10**8, ONE, calibration="published", seed=0)
    return (
        f"Theorem 7 holds with the repaired proof, and with better constants. For n = 3, 10^8 rounds, epsilon"
        f" 1 and the printed settings, the last line of its proof gives"
        f" {big(minimization.published_minimizer(*settings))} and the repaired proof"
        f" {big(learner.certified_regret)} (trivial bound: {big(2e8)})."
    )


@evidence
def omitted_norm() -> str:
    n = 100
    saves = SetFunction(lambda s: -len(s) / n, n, 1.0).lovasz_gradient(np.linspace(0.9, 0.1, n))
    cheapest = float(np.minimum(saves, 0.0).sum())
    length = float(np.linalg.norm(saves))
    corner = float(np.linalg.norm(np.ones(n)))
    return (
        f"Let {n} items have cost -1/{n} each, and let the estimate be 0. The minimum of <estimate, x> is 0,"
        f" but the inequality of the proof says that it is at most {cheapest:.0f} + {length:.1f}. The largest"
        f" norm of a point of [0, 1]^{n} is {corner:.0f}, so the term 8 M n sqrt(T / gamma) should be"
        f" {corner:.0f} times as large."
    )


@evidence
def slips_of_two_proofs() -> str:
    n, rounds, epsilon = 50, 1000, 0.1
    tree = TreeSum.published(n, rounds, dc.Budget(epsilon, neighbours="add_remove"), norm_bound=4.0, seed=0)
    assert isinstance(tree.event, SphericalLaplaceNoise)
    scale = float(tree.event.scale)
    printed = 4.0 * (math.ceil(math.log(rounds)) + 1) / epsilon
    length = worst_noise(tree.spec, tree.event)
    bound = 4.0 * n * 4.0 * math.log(rounds) ** 1.5 / epsilon
    return (
        f"n = {n}, G = 4, T = 1,000, epsilon {epsilon:g}. The length of the noise of a node has a Gamma"
        f" distribution of shape n and scale {scale:,.0f}, with mean {n * scale:,.0f} and standard deviation"
        f" {math.sqrt(n) * scale:,.0f}. With the printed scale n and shape {printed:,.0f} they would be"
        f" {n * printed:,.0f} and {n * math.sqrt(printed):,.0f}. (Exchanging shape and scale changes only the"
        f" standard deviation; ln instead of log2 changes both.) The bound on the noise of a sum,"
        f" {bound:,.0f}, holds: its root mean square length is {length:,.0f}. Lemma 5 at n = 1: the n + 1"
        f" probabilities of 1 / (n + 1) sum to {sum([1 / 2] * 2):g}, not to n / (n + 1) = {1 / 2:g}. The next"
        " line, 2 gamma M, follows from the correct sum with equality."
    )
