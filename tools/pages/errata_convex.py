"""Evidence for docs/errata.md: regret of submodular minimisation and of convex learners."""

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

        def bound(h: float) -> float:  # Theorem 4 with L = |C| = 1, and what regularising costs
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
        f"Theorem 4 plus the cost of regularising, T = 10^12: it grows as p^{slopes[0]:.2f} with the printed"
        f" H and as p^{slopes[1]:.2f} with H = sqrt(2 p ln^2.5 T / (epsilon T)). At p = 5, T = 10^6,"
        f" epsilon 4, on the unit ball with L = 1, the library certifies {big(learner.certified_regret)} for"
        f" the printed H times L / |C| (trivial: {big(learner.domain.diameter * 10**6)}) and"
        f" {big(better.certified_regret)} for its own."
    )


@evidence
def norm_of_expert_costs() -> str:
    rounds = 1e11
    logs = math.log(rounds) ** 2.5

    def least(p: float, length: float) -> float:  # Theorem 4 and regularising, |C| = sqrt 2, at the best H
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
        f"A cost vector of 1000 ones has length {worst:.1f}. Theorem 4 plus regularising at its best H,"
        f" T = 10^11, grows as p^{whole:.2f} for costs in [0, 1]^p, and as p^{short:.2f} for vectors of"
        f" length 1. The certificate of `LinearLeader(Simplex(p), 10**11, ..., box=(0, 1))` at epsilon 1"
        f" grows as p^{ours:.2f} from p = 10 to 1,000, like the others."
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
        f"p = 50, r = 1, {rounds:,} rounds: beta = p / T^(1/3) = {50 / rounds ** (1 / 3):.2f}. It fits from"
        f' T = {" and ".join(needed)} on; before that `BanditApproximateLeader(calibration="published")`'
        f" warns and takes r / 2 = {made(rounds, 'oblivious')[0]:g}."
    )


@evidence
def norm_of_prefix_noise() -> str:
    tree = TreeSum(
        50, 1023, dc.Budget(1.0, neighbours="add_remove"), norm_bound=1.0, noise="spherical", seed=0
    )
    return (
        f"50 coordinates, 10 levels, L = epsilon = 1: root mean square length of the noise"
        f" {worst_noise(tree.spec, tree.event):,.0f} (`TreeSum`); p m^1.5 = {50 * 10**1.5:,.0f}, sqrt(p)"
        f" m^2 = {math.sqrt(50) * 100:,.0f}."
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
        f"The same stream with costs a hundredth the size, same seed: the measured regret is"
        f" {regrets[0] / regrets[1]:.1f} times smaller, and so is the bound in the proof ({high / low:.1f}"
        f" times, from {big(high)} to {big(low)}). M^2 would be {0.01**-2:,.0f} times. The certificate of"
        f" `ApproximateLeader` for gradients a hundredth as long is {steep / flat:.1f} times smaller:"
        f" {big(flat)}, not {big(steep)}. On the unit disc, with L = B = 1, H = 1/2 and all three a"
        f" hundredth of that, paper 004's Theorem 6 is {big(display(1.0))} times smaller at epsilon 1 and"
        f" {big(display(0.01))} times at 0.01; what the library certifies for its published settings (10^9"
        f" rounds, epsilon 8) {costly / cheap:.1f} times, from {big(costly)} to {big(cheap)}."
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
        f" n. And gamma = n^(3/2) / T^(1/3) is {minimization.published_exploration_rate(50, 10**6):.2f} for"
        f" 50 items and 10^6 rounds, no probability before T = n^4.5 = {big(50**4.5)}; the theorem says any"
        " T."
    )


@evidence
def two_trajectories() -> str:
    settings = (3, 10**8, 1.0)
    learner = SubmodularMinimizer(3, 10**8, ONE, calibration="published", seed=0)
    return (
        f"The statement survives with better constants. n = 3, 10^8 rounds, epsilon 1, the printed settings:"
        f" {big(minimization.published_minimizer(*settings))} by Theorem 7's last line,"
        f" {big(learner.certified_regret)} by the repaired argument (trivial: {big(2e8)})."
    )


@evidence
def omitted_norm() -> str:
    n = 100
    saves = SetFunction(lambda s: -len(s) / n, n, 1.0).lovasz_gradient(np.linspace(0.9, 0.1, n))
    cheapest = float(np.minimum(saves, 0.0).sum())
    length = float(np.linalg.norm(saves))
    corner = float(np.linalg.norm(np.ones(n)))
    return (
        f"{n} items that save 1/{n} each, and an estimate that happens to be 0: the least <estimate, x> is 0,"
        f" and the proof's inequality has it at most {cheapest:.0f} + {length:.1f}. The farthest point of"
        f" [0, 1]^{n} has length {corner:.0f}: the term 8 M n sqrt(T / gamma) should be {corner:.0f} times as"
        " large."
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
        f"n = {n}, G = 4, T = 1,000, epsilon {epsilon:g}. The length of a node's noise is Gamma of shape n"
        f" and scale {scale:,.0f}: mean {n * scale:,.0f}, standard deviation {math.sqrt(n) * scale:,.0f}."
        f" With the printed scale n and shape {printed:,.0f} they would be {n * printed:,.0f} and"
        f" {n * math.sqrt(printed):,.0f}; exchanging the two changes the second alone, ln for log2 both. The"
        f" bound that follows, {bound:,.0f}, holds: the root mean square is {length:,.0f}."
        f" Lemma 5 at n = 1: the n + 1 chances of 1 / (n + 1) sum to {sum([1 / 2] * 2):g}, not"
        f" n / (n + 1) = {1 / 2:g}, and the next line, 2 gamma M, is what follows exactly."
    )
