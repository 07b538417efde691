"""The papers' claims that do not hold as printed, each with a number that the library computes.

    python benchmarks/errata.py            writes docs/errata.md
    python benchmarks/errata.py --check    says whether the stored page is what this computes

Every number on the page comes out of the functions below: from learners with ``calibration="published"`` and
their accounts, from the bounds in `discreet.bounds`, or by going through all cases of a small one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import discreet as dc
from discreet.bounds import ALPHA, bandit, frank_wolfe, minimization, published_hedge, trivial
from discreet.bounds.convex import worst_noise
from discreet.constraints.domains import Ball, Box, Simplex
from discreet.objectives import Coverage, SetFunction, WeightedTopics
from discreet.offline import ContinuousGreedy, CurvatureGreedy
from discreet.online import (
    ApproximateLeader,
    BanditApproximateLeader,
    BanditSubmodularMinimizer,
    HedgeSelector,
    LinearLeader,
    MetaFrankWolfe,
    SubmodularMinimizer,
)
from discreet.online.bandit.settings import presampled_rate
from discreet.privacy import GaussianNoise, LaplaceNoise, SphericalLaplaceNoise, TreeSum, tree_levels
from discreet.privacy.published import PublishedCalibrationWarning

PAGE = Path(__file__).parent.parent / "docs" / "errata.md"
ONE = dc.Budget(1.0)
APPROXIMATE = dc.Budget(1.0, 1e-6)


@dataclass(frozen=True)
class Erratum:
    """One claim: where it is, what it says, why it fails, the number that shows it, what is done instead."""

    group: str
    title: str
    where: str
    printed: str
    why: str
    shown: Callable[[], str]
    instead: str

    def section(self) -> str:
        return "\n\n".join(
            [
                f"### {self.title}",
                f"*{self.where}*",
                f"**As printed.** {self.printed}",
                f"**Why not.** {self.why}",
                f"**Number.** {quietly(self.shown)}",
                f"**Here.** {self.instead}",
            ]
        )


def quietly(compute: Callable[[], str]) -> str:
    """The text, without the warnings that the published settings give on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        return compute()


def big(value: float) -> str:
    """Two digits and a power of ten for large numbers, three digits for others."""
    return f"{value:.2g}" if value >= 1e6 or value < 1e-3 else f"{float(f'{value:.3g}'):,.0f}"


def first_horizon(says_something: Callable[[int], bool]) -> int:
    """The shortest horizon, to two digits, from which on ``says_something``."""
    low, high = 1, 1
    while not says_something(high):
        low, high = high, 2 * high
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if says_something(middle) else (middle, high)
    return high


# --- privacy --------------------------------------------------------------------------------------


def norm_for_a_difference() -> str:
    full = ApproximateLeader(Ball(3), 1000, ONE, lipschitz=1.0, calibration="published", seed=0)
    seen = BanditApproximateLeader(
        Ball(3), 100_000, ONE, lipschitz=1.0, bound=1.0, calibration="published", seed=0
    )
    # One round: the vector z + noise, density exp(-|y - z| / scale), at a y beyond -z.
    scale = 1.0 / ONE.epsilon
    ratio = (abs(-3.0 - 1.0) - abs(-3.0 + 1.0)) / scale
    return (
        f'At a claimed epsilon of 1, `ApproximateLeader(calibration="published")` accounts for'
        f" {full.privacy.epsilon():.4g} and `BanditApproximateLeader` for {seen.privacy.epsilon():.4g}. The"
        f" smallest case attains it: one round, vectors L u and -L u, log ratio of the densities at -3 L u"
        f" {ratio:.4g}."
    )


def lovasz_differences() -> str:
    point = np.array([0.9, 0.6, 0.3])
    arc_one = SetFunction(lambda s: 1.0 if 0 in s and 1 not in s else -1.0, 3, 1.0)
    arc_two = SetFunction(lambda s: 1.0 if 1 in s and 2 not in s else -1.0, 3, 1.0)
    apart = float(np.linalg.norm(arc_one.lovasz_gradient(point) - arc_two.lovasz_gradient(point)))
    most = [minimization.gradient_difference(n) for n in (1, 2, 3)]
    accounts = []
    for rounds in (16, 1000, 10**6):
        learner = SubmodularMinimizer(10, rounds, ONE, calibration="published", seed=0)
        accounts.append(f"{learner.privacy.epsilon():.3f} for {rounds:,} rounds")
    return (
        f"Two cuts of one arc each, n = 3 and M = 1, have gradients {apart:.3f} apart at the same point"
        f" (`gradient_difference`: {most[0]:.3f}, {most[1]:.3f}, {most[2]:.3f} for n = 1, 2, 3 and more;"
        f" {most[2] / 4:.3f} times what the noise is for). The printed tree has one level more than is"
        f" released, which gives some of it back: `SubmodularMinimizer(10, ...)` claims 1 and accounts for"
        f" {', '.join(accounts)}."
    )


def bandit_estimates() -> str:
    rows = []
    for rounds in (10**6, 10**8, 10**10):
        learner = BanditSubmodularMinimizer(5, rounds, ONE, calibration="published", seed=0)
        rows.append(f"{learner.privacy.epsilon():.2f} for T = {big(rounds)}")
    ratio = minimization.published_bandit_excess(5, 10**12) / minimization.published_bandit_excess(5, 10**6)
    return (
        f'`BanditSubmodularMinimizer(5, T, calibration="published")` claims 1 and accounts for'
        f" {', '.join(rows)}. From 10^6 to 10^12 rounds the excess grows {ratio:.1f} times: the exponent is"
        f" {math.log10(ratio) / 6:.3f}, and no fixed epsilon holds."
    )


def any_length() -> str:
    moved = minimization.gradient_difference(10)
    found = []
    for length in (4.0, 0.4, 0.04):
        levels = tree_levels(999)
        node = SphericalLaplaceNoise(moved, length * (levels + 1))
        found.append(f"{levels * float(node.sensitivity) / float(node.scale):.3g} at L = {length:g}")
    return f"n = 10, M = 1, 1,000 rounds, claimed epsilon 1: the account is {', '.join(found)}."


def any_function() -> str:
    n, rounds = 16, 1000
    odd, even = (
        SetFunction(lambda s, sign=sign: sign if len(s) % 2 else -sign, n, 1.0) for sign in (1.0, -1.0)
    )
    point = np.linspace(0.9, 0.1, n)
    slopes = [person.lovasz_gradient(point) for person in (odd, even)]
    apart = float(np.linalg.norm(slopes[0] - slopes[1]))
    levels = tree_levels(rounds - 1)
    node = SphericalLaplaceNoise(apart, 4.0 * (levels + 1))
    for person in (odd, even):
        learner = SubmodularMinimizer(n, rounds, ONE, seed=0)
        learner.choose()
        try:
            learner.learn(person)
        except ValueError:
            continue
        raise AssertionError("a cost that leaves the set of gradients has to be refused")
    return (
        f"{n} items, M = 1, costs 1 for sets of odd size and -1 for even ones, or the other way round:"
        f" gradients of length {np.linalg.norm(slopes[0]):.0f}, {apart:.0f} apart, where the noise is for 4."
        f" Over {rounds:,} rounds that is an epsilon of"
        f" {levels * float(node.sensitivity) / float(node.scale):.2f} where 1 is claimed, growing as sqrt(n)."
        " `SubmodularMinimizer` refuses both."
    )


def private_constraint() -> str:
    runs, steps, epsilon = 120, 3, 1e-3

    def times(matrix: list[list[int]]) -> tuple[int, CurvatureGreedy]:
        """In how many runs item 1 gets a share, and the last of them."""
        hits = 0
        for seed in range(runs):
            greedy = CurvatureGreedy(
                1,
                dc.Budget(epsilon, 1e-6),
                steps=steps,
                noise="laplace",
                calibration="published",
                guess=1.0,
                seed=seed,
            )
            hits += greedy.fractional(Coverage(matrix))[1] > 0.0
        return hits, greedy

    exact = 1.0 - 2.0**-steps
    (with_person, last), (without, _) = times([[1, 0], [0, 1]]), times([[1, 0], [0, 0]])
    if without or abs(with_person - exact * runs) > 6.0 * math.sqrt(runs * exact * (1.0 - exact)):
        raise AssertionError(f"{with_person} and {without} of {runs} runs are not {exact:.3f} and 0")
    wide = max(float(e.scale) for e in last.privacy.ledger.events() if isinstance(e, LaplaceNoise))
    account = last.privacy.epsilon()
    return (
        f"One item of two, K = {steps}, claimed epsilon {epsilon:g} (noise of scale {wide:,.0f} on values of"
        f" 0 and 1). One"
        f" person likes item 0, another item 1, or nothing. Item 1 gets a share with probability"
        f" 1 - 2^-{steps} = {exact:.3f} and 0, which {runs} seeded runs of each confirm: no delta below"
        f" {exact:.3f} will do at any epsilon, for any noise. The account of"
        f' `CurvatureGreedy(calibration="published")` is epsilon = {account}.'
    )


def twice_the_slopes() -> str:
    moved = 0.01
    up = {frozenset({0, 1}): moved, frozenset({1}): -moved, frozenset({0, 1, 2}): -moved}
    up[frozenset({1, 2})] = moved

    def value(chosen: frozenset[int], sign: float = 0.0) -> float:
        return len(chosen) * (7 - len(chosen)) / 12.0 + sign * up.get(chosen, 0.0)

    slopes = []
    for sign in (1.0, -1.0):
        f = SetFunction(lambda s, sign=sign: value(s, sign / 2.0), 3, 2.0, monotone=True)
        at, last = f.multilinear_gradient([0.0, 1.0, 0.0])[0], f.multilinear_gradient([1.0, 1.0, 1.0])[0]
        slopes.append(at - last)
    return (
        f"Two monotone submodular functions on 3 items that differ by {moved:g} = Delta on no more than 4"
        f" sets: the slope of g in one coordinate moves by {(slopes[0] - slopes[1]) / moved:.3f} Delta, the"
        " noise is for 2 Delta."
    )


def levels_of_a_tree() -> str:
    budget = dc.Budget(0.9, 1e-6)
    rows = []
    for rounds in (100, 1024, 65_536):
        learner = MetaFrankWolfe(
            dc.constraints.Cardinality(3), rounds, budget, n_items=10, calibration="published", seed=0
        )
        assert learner.claimed_expert_epsilon is not None
        over = learner.expert_epsilon / learner.claimed_expert_epsilon
        rows.append(f"{over:.2f} at T = {rounds:,} (all {learner.steps}: {learner.privacy.epsilon():.3f})")
    return (
        f'Each expert of `MetaFrankWolfe(calibration="published")` has this many times the epsilon it'
        f" claims: {'; '.join(rows)}. All experts together stay below the claimed {budget.epsilon:g}: the"
        " composition theorem used is loose by more than what the levels cost."
    )


def noise_set_by_data() -> str:
    somebody = frank_wolfe.published_scale(10, 1000, 32, 1.0, 1e-6, 1.0)
    nobody = frank_wolfe.published_scale(10, 1000, 32, 1.0, 1e-6, 0.0)
    return (
        f"Ten items, 1,000 rounds. Everybody worth nothing: noise of scale {nobody:.0f}. One person replaced"
        f" by somebody who likes an item: scale {big(somebody)}. Whether the output is exact tells the two"
        " apart with probability 1."
    )


def gaussian_leaders() -> str:
    pure = []
    for event in (GaussianNoise(1.0, 10.0), SphericalLaplaceNoise(1.0, 10.0)):
        gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
        gate.reserve(event)
        pure.append(gate.spent.pure)
    rows = []
    for rounds in (1000, 10**6, 10**9):
        learner = MetaFrankWolfe(
            Box([0.0, 0.0], [1.0, 1.0]),
            rounds,
            ONE,
            experts="pftal",
            gradient_bound=1.0,
            smoothness=1.0,
            calibration="published",
            seed=0,
        )
        rows.append(f"{learner.privacy.epsilon():.3f} for T = {big(rounds)}")
    return (
        f"Pure epsilon of Gaussian noise ten times the sensitivity: {pure[0]:g}; of spherical Laplace noise:"
        f" {pure[1]:g}. With the noise that paper 004 does use, Algorithm 4"
        f' (`MetaFrankWolfe(experts="pftal", calibration="published")`, 2 coordinates, claimed epsilon 1)'
        f" accounts for {', '.join(rows)}; the limit is sqrt 2, as gradients of monotone functions are never"
        " opposite."
    )


def too_many_explorations() -> str:
    rows = []
    for rounds, chance in ((100, 0.25), (400, 0.1), (400, 0.04)):
        exact = bandit.too_many_explorations(rounds, chance)
        rows.append(
            f"{exact:.1e} (printed {math.exp(-8 * chance**2 * rounds):.1e}) at T = {rounds}, rate {chance:g}"
        )

    def short(g: float) -> float:
        chernoff = 2 * g * math.log(2) + (1 - 2 * g) * math.log((1 - 2 * g) / (1 - g))
        return 8 * g * g - chernoff

    low, high = 0.01, 0.2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if short(middle) > 0 else (middle, high)
    least = 2.0 * (16 * 2 * math.log(2)) ** (4 / 3)
    return (
        f"Exact binomial tail: {'; '.join(rows)}. The printed rate of decay is too fast for rates between"
        f" {low:.4f} and 1/2. Theorem 7 itself survives: with Algorithm 3's rate Hoeffding's exp(-2 g^2 T) is"
        f" at most exp(-{math.floor(least)} T^(1/3)) even for two items and k = 1, below the printed"
        " exp(-8 T^(1/3))."
    )


# --- regret and utility ---------------------------------------------------------------------------


def slots_in_theorem_eight() -> str:
    def over(k: int) -> float:
        settings = (2 * k, k, 10**18, 1.0, 1e-6)
        return bandit.published_bandit_derived(*settings) / bandit.published_bandit(*settings)

    first = next(k for k in range(1, 200) if over(k) > 1.0)
    slope = math.log(over(1000) / over(100)) / math.log(10.0)
    return (
        f"`published_bandit_derived` over `published_bandit`: {over(10):.2f} at k = 10, {over(100):.2f} at"
        f" k = 100, above 1 from k = {first} on (n = 2k, T = 10^18, epsilon 1, delta 1e-6), growing as"
        f" k^{slope:.2f}. That the regret itself exceeds the display is not shown by this; only that the"
        " proof does not give it."
    )


def conditioning_on_paths() -> str:
    chance, rate = 0.1, 0.5
    moved = stayed = moved_explored = stayed_explored = 0.0
    for before, after in itertools.product(range(2), repeat=2):
        quiet = 0.5 * (1.0 - chance) * (1.0 if before == after else 0.0)
        explored = 0.0
        for expert, item in itertools.product(range(2), repeat=2):
            weights = np.ones(2)
            if expert == 0 and item == 0:  # f({0}) = 1 and f({1}) = 0
                weights[0] = math.exp(rate)
            explored += 0.5 * chance / 4.0 * float(weights[after] / weights.sum())
        if before == after:
            stayed, stayed_explored = stayed + quiet + explored, stayed_explored + explored
        else:
            moved, moved_explored = moved + quiet + explored, moved_explored + explored
    return (
        f"Two items, two experts, exploration rate {chance:g}, all cases of one round: given that expert 1's"
        f" item changed, the round explored with probability {moved_explored / moved:.3f}; given that it did"
        f" not, {stayed_explored / stayed:.3f}; the lemma uses {chance:g} for both."
    )


def rate_that_knows_the_number() -> str:
    rounds, chance, budget = 8, 0.25, dc.Budget(1.0, 1e-6)

    def both(fixed: float | None) -> tuple[float, float]:
        told = promised = 0.0
        for word in itertools.product(range(3), repeat=rounds):  # exploit, explore item 0, explore item 1
            explorations = sum(letter > 0 for letter in word)
            weight = (1.0 - chance) ** (rounds - explorations) * (chance / 2.0) ** explorations
            rate = presampled_rate(1, explorations, budget) if fixed is None else fixed
            seen = 0
            for letter in word:
                first = 1.0 / (1.0 + math.exp(-rate * seen))
                promised += weight * chance / 2.0 * first
                if letter == 1:
                    told += weight * first
                    seen += 1
        return told, promised

    varying, fixed = both(None), both(0.01)
    return (
        f"All {3**rounds:,} courses of {rounds} rounds with two items worth 1 and 0, k = 1, exploration rate"
        f" {chance:g}: what the expert earns on what it is told is {varying[0]:.5f} in expectation, the lemma"
        f" says {varying[1]:.5f}. With a rate fixed in advance both are {fixed[0]:.5f} (difference"
        f" {'below 1e-12' if abs(fixed[0] - fixed[1]) < 1e-12 else 'not 0'})."
    )


# Items in two blocks, (0, 1) and (2, 3). The pair 0, 2 covers p and q; 1 covers q and r, 3 covers p and s:
# nothing is gained by exchanging one item of the pair, and everything by exchanging both.
COVERS = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]], dtype=float)
WORTH = np.array([0.25, 0.25, 0.2, 0.2])


def _slopes(points: np.ndarray, worth: np.ndarray, covers: np.ndarray) -> np.ndarray:
    """Gradients of the multilinear extension of a weighted coverage at points in rows."""
    missed = 1.0 - covers * points[:, :, None]
    own = [missed[:, [j for j in range(4) if j != i]].prod(axis=1) @ (covers[i] * worth) for i in range(4)]
    return np.stack(own, axis=1)


def _fed_at(final: bool, rounds: int, experts: int = 4) -> float:
    """(1 - 1/e)-regret of exact entropic experts, fed gradients at the final or at the partial points."""
    pushed = round(7 * math.sqrt(rounds))
    rate = math.sqrt(8.0 * math.log(2.0) / rounds)
    push_worth, push_covers = np.array([0.25, 0.25]), np.array([[1, 0], [0, 0], [0, 1], [0, 0]], dtype=float)
    totals = np.zeros((experts, 4))
    earned = 0.0
    for t in range(rounds):
        worth, covers = (push_worth, push_covers) if t < pushed else (WORTH, COVERS)
        odds = np.exp(rate * (totals - totals.max(axis=1, keepdims=True)))
        share = np.empty_like(odds)
        share[:, :2] = odds[:, :2] / odds[:, :2].sum(axis=1, keepdims=True)
        share[:, 2:] = odds[:, 2:] / odds[:, 2:].sum(axis=1, keepdims=True)
        points = np.vstack([np.zeros(4), np.cumsum(share, axis=0) / experts])
        earned += float((1.0 - (1.0 - covers * points[-1][:, None]).prod(axis=0)) @ worth)
        asked = np.repeat(points[-1:], experts, axis=0) if final else points[:-1]
        totals += _slopes(asked, worth, covers)
    best = float(WORTH.sum()) * (rounds - pushed)
    return ALPHA * best - earned


def gradients_at_the_end() -> str:
    x = np.array([0.2, 0.7, 0.4, 0.1])
    people = WeightedTopics(WORTH[None, :], COVERS)
    assert np.allclose(_slopes(x[None, :], WORTH, COVERS)[0], people.multilinear_gradient(x))
    horizons = (4000, 16_000)
    final, partial = ([_fed_at(kind, t) for t in horizons] for kind in (True, False))
    shown = " / ".join(f"{t:,}" for t in horizons)
    return (
        f"Four items in two blocks, no noise, K = 4, a stream that first favours a pair of items from"
        f" which no"
        f" single exchange helps: (1 - 1/e)-regret over {shown} rounds is"
        f" {' / '.join(f'{value:,.0f}' for value in final)} with gradients at the final point (a local"
        f" optimum worth {0.5 / WORTH.sum():.2f} of the best is never left), and"
        f" {' / '.join(f'{value:,.0f}' for value in partial)} at the partial points."
    )


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
        f" epsilon 4 the library certifies {big(learner.certified_regret)} for the printed H (trivial:"
        f" {big(learner.domain.diameter * 10**6)}) and {big(better.certified_regret)} for its own."
    )


def length_of_expert_costs() -> str:
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
        f" length 1. The certificate of `LinearLeader(Simplex(p), 10**11, ..., box=(0, 1))` grows as"
        f" p^{ours:.2f} over the same p."
    )


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


def scale_of_the_objective() -> str:
    blocks = dc.constraints.PartitionMatroid([range(50), range(50, 100)], 1)
    small, large = (
        ContinuousGreedy(blocks, ONE, noise="laplace", calibration="published", bound=bound, seed=0)
        for bound in (1.0, 100.0)
    )
    over = large.certified_loss(10**6, 100) / small.certified_loss(10**6, 100)
    return (
        f"The same objective a hundred times as large (Delta and m_F with it), two blocks of 50 items, a"
        f" million people, printed constants: what the library certifies to be lost grows {over:.1f} times,"
        f" the display {math.sqrt(100.0):.0f} times."
    )


def prefix_error() -> str:
    tree = TreeSum(
        50, 1023, dc.Budget(1.0, neighbours="add_remove"), norm_bound=1.0, noise="spherical", seed=0
    )
    return (
        f"50 coordinates, 10 levels, L = epsilon = 1: root mean square length of the noise"
        f" {worst_noise(tree):,.0f} (`TreeSum`); p m^1.5 = {50 * 10**1.5:,.0f}, sqrt(p) m^2 ="
        f" {math.sqrt(50) * 100:,.0f}."
    )


def scale_of_costs() -> str:
    prices = np.random.default_rng(0).uniform(-0.3, 0.3, size=(400, 3))
    regrets = []
    for bound in (1.0, 0.01):
        costs = [lambda s, row=bound * row: float(row[list(s)].sum()) for row in prices]
        people = SetFunction(costs, 3, bound)
        learner = SubmodularMinimizer(3, 400, ONE, bound, calibration="published", seed=1)
        regrets.append(learner.run(people).total - 400 * min(people.value(s) for s in _subsets(3)))
    settings = (3, 400, 1.0)
    bounds = minimization.published_minimizer(*settings, 1.0) / minimization.published_minimizer(
        *settings, 0.01
    )
    steep, flat = (
        ApproximateLeader(Ball(3), 10**6, ONE, lipschitz=length, seed=0).certified_regret
        for length in (1.0, 0.01)
    )
    return (
        f"The same stream with costs a hundredth the size, same seed: the measured regret is"
        f" {regrets[0] / regrets[1]:.1f} times smaller, and so is the bound in the proof ({bounds:.1f}"
        f" times). M^2 would be {0.01**-2:,.0f} times. The certificate of `ApproximateLeader` for gradients a"
        f" hundredth as long is {steep / flat:.1f} times smaller."
    )


def _subsets(n: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(n + 1) for chosen in itertools.combinations(range(n), size)]


def items_in_theorem_nine() -> str:
    rounds = 10**60
    slope = math.log10(
        minimization.published_bandit_minimizer(10**4, rounds, 1.0)
        / minimization.published_bandit_minimizer(10**3, rounds, 1.0)
    )
    return (
        f"The last line of the proof grows as n^{slope:.2f} (`published_bandit_minimizer`, 10^60 rounds), not"
        f" n. And gamma = n^(3/2) / T^(1/3) is {minimization.published_exploration(50, 10**6):.2f} for 50"
        f" items and 10^6 rounds, no probability before T = n^4.5 = {big(50**4.5)}; the theorem says any T."
    )


def two_trajectories() -> str:
    settings = (3, 10**8, 1.0)
    learner = SubmodularMinimizer(3, 10**8, ONE, calibration="published", seed=0)
    return (
        f"The statement survives with better constants. n = 3, 10^8 rounds, epsilon 1, the printed settings:"
        f" {big(minimization.published_minimizer(*settings))} by Theorem 7's last line,"
        f" {big(learner.certified_regret)} by the repaired argument (trivial: {big(2e8)})."
    )


def forgotten_length() -> str:
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


def knapsack_gap() -> str:
    knapsack = dc.constraints.Knapsack([0.6, 0.6], 1.0)
    point = knapsack.maximize([1.0, 1.0])
    people = SetFunction(lambda s: len(s) / 2.0, 2, 1.0, monotone=True)
    best = max(people.value(s) for s in _subsets(2) if knapsack.contains(s))
    share = best / people.multilinear(point)
    return (
        f"Two items of cost 0.6, F = |S|: the best point ({point[0]:.2f}, {point[1]:.2f}) is worth"
        f" {2 * people.multilinear(point):.3f}, the best set {2 * best:.0f}: a share of {share:.3f}, below"
        f" 1 - 1/e = {ALPHA:.3f}. With costs just above one half it is {1 / (1 + (1 - 0.501) / 0.501):.3f}."
    )


def steps_and_free_privacy() -> str:
    n, rank, delta = 100, 10, 1e-6
    condition = math.ceil(math.log(1 / delta) ** 2)
    needed = (math.sqrt(rank) * n * math.sqrt(math.log(1 / delta) / math.log(n))) ** 4
    rounds = 10**6
    lost = rank**2 * rounds / (2.0 * frank_wolfe.published_steps(rounds))
    displayed = rank * math.sqrt(rounds * math.log(n))
    learner = MetaFrankWolfe(
        dc.constraints.Cardinality(rank),
        rounds,
        APPROXIMATE,
        n_items=n,
        steps=1000,
        calibration="published",
        seed=0,
    )
    return (
        f"n = {n}, rank {rank}, epsilon 1, delta 1e-6. The condition as stated: T >= {condition}. The second"
        f" displayed term, without its logarithms, is below the first from T = {needed:.1e} on. With K ="
        f" sqrt(T) and 10^6 rounds, the steps cost {big(lost)} and the first term shows {big(displayed)}. The"
        f" library's own certificate for the published settings is {big(learner.certified_regret)}, which is"
        f" the trivial {big(trivial(rounds))}."
    )


def displays_of_b() -> str:
    k, n, rounds, delta = 2, 1000, 10**8, 1e-6
    derived, displayed = k**2 * n * math.log(n), k**3 * n
    whole = bandit.published_direct(n, k, rounds, 1.0, delta)
    return (
        f"k = {k}, n = {n:,}, delta 1e-6: ln(k delta) = {math.log(k * delta):.1f}, whose root does not exist;"
        f" ln(k/delta) = {math.log(k / delta):.1f} is meant. One expert's first term should have n k^2 ln n ="
        f" {derived:,.0f} where n k^3 = {displayed:,} stands, {derived / displayed:.2f} times less."
        f" `published_direct` evaluates the first inequality: {big(whole)}"
        " at T = 10^8."
    )


# --- true, and without content at practical sizes --------------------------------------------------


def empty_bounds() -> str:
    hedge = first_horizon(lambda t: published_hedge(100, 10, t, 1.0, 1e-6) < trivial(t))
    explores = first_horizon(lambda t: bandit.published_exploration(100, 5, t) <= 1.0)
    learns = first_horizon(lambda t: bandit.published_bandit_derived(100, 5, t, 1.0, 1e-6) < trivial(t))
    minimiser = first_horizon(lambda t: t > 8 and minimization.published_minimizer(50, t, 1.0) < 2.0 * t)
    bandit_min = first_horizon(
        lambda t: t > 50**4.5 and minimization.published_bandit_minimizer(50, t, 1.0) < 2.0 * t
    )
    ours = dc.plan(n_items=100, k=10, rounds=100_000, budget=APPROXIMATE, stream="adversarial").best
    rows = [
        ("000, Theorem 6 (n = 100, k = 10)", hedge),
        ("000, Algorithm 3 explores less than always (n = 100, k = 5)", explores),
        ("000, Theorem 8 (n = 100, k = 5)", learns),
        ("001, Theorem 7 (n = 50)", minimiser),
        ("001, Theorem 9 (n = 50)", bandit_min),
    ]
    lines = [
        f"For n = 100, k = 10 and 100,000 rounds `plan` certifies {big(ours.certified)} of the trivial"
        f" {big(trivial(100_000))}, with `{ours.name}`.",
        "",
        "| bound, epsilon 1, delta 1e-6 | below the trivial bound from T = |",
        "|---|---|",
    ]
    return "\n".join(lines + [f"| {name} | {big(t)} |" for name, t in rows])


# --- right ----------------------------------------------------------------------------------------


def what_holds() -> str:
    hedge = HedgeSelector(100, 10, 10_000, APPROXIMATE, calibration="published", seed=0)
    people = Coverage((np.random.default_rng(0).random((3000, 6)) < 0.3).astype(float))
    laplace = ContinuousGreedy(2, ONE, noise="laplace", calibration="published", seed=0)
    laplace.select(people)
    advanced = ContinuousGreedy(
        2, APPROXIMATE, noise="laplace", composition="advanced", calibration="published", seed=0
    )
    advanced.select(people)
    joint = MetaFrankWolfe(
        dc.constraints.Cardinality(3), 10_000, APPROXIMATE, n_items=10, calibration="published", seed=0
    )
    added = ApproximateLeader(
        Ball(3),
        1000,
        dc.Budget(1.0, neighbours="add_remove"),
        lipschitz=1.0,
        calibration="published",
        seed=0,
    )
    rows = [
        ("000, Theorem 5 (Algorithm 2; n = 100, k = 10, T = 10,000)", hedge.privacy.epsilon()),
        ("003, Lemma 3 (Laplace, basic composition), sums over people", laplace.privacy.epsilon()),
        (
            "003, Lemma 4 (Laplace, advanced composition; for epsilon < 1), sums over people",
            advanced.privacy.epsilon(),
        ),
        ("003, Theorem 4 (Algorithm 3, all experts together; for epsilon < 1)", joint.privacy.epsilon()),
        ("004, Theorem 3, if people are added or removed instead of replaced", added.privacy.epsilon()),
    ]
    lines = ["| privacy claim, epsilon 1 (delta 1e-6) | epsilon by the account |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value:.3g} |" for name, value in rows])


def large_rates() -> str:
    n, rate = 20, 5.0
    regret, bound = 1.0 - 1.0 / n, rate / n + math.log(n) / rate
    return (
        f"One round, {n} items of which one pays, rate {rate:g}: regret {regret:.3f} above the bound's"
        f" {bound:.3f}. Algorithm 2's own rate at k = 1, T = 1 and epsilon 1 is"
        f" {HedgeSelector(n, 1, 1, APPROXIMATE, calibration='published', seed=0).rate:.3f}"
    )


PRIVACY = "Privacy that is less than claimed"
REGRET = "Regret and utility that is not shown, or not so"
EMPTY = "True, and without content at practical sizes"

ERRATA = [
    Erratum(
        PRIVACY,
        "A constraint made of private data",
        "Paper 003, Algorithm 2 (kappa-DPCG), Section 3.2: the privacy of Algorithm 1 is said to carry over.",
        "Climb by noisy slopes of F - ell within {x : <ell, x> >= lambda}; epsilon-private with Algorithm 1's"
        " noise.",
        "ell comes from the data and cuts the feasible set without noise. Where one person makes a vertex"
        " infeasible, no noise on the slopes hides it. Guessing lambda does not help, and keeping the best"
        " guess by its true value is one more release without noise.",
        private_constraint,
        "`CurvatureGreedy` climbs by w_k slopes + (1 - w_k) ell, a weighted mean, over the whole polytope:"
        " the noise of `ContinuousGreedy`, 1 - kappa/e, nothing to guess."
        ' `MetaFrankWolfe(curvature=True)` does the same online. `calibration="published"` runs the printed'
        " form and reports an infinite epsilon.",
    ),
    Erratum(
        PRIVACY,
        "Noise for an expected length",
        "Paper 001, Theorem 8 (BANDITSUBMODPRFTL is epsilon-private); Theorem 9 sets L = 4 M n /"
        " sqrt(gamma).",
        "A tree of one-point gradient estimates with noise for vectors of length L.",
        "L bounds the estimates' root mean square (Lemma 4). A single estimate can be 2 M (n + 1) /"
        " gamma long,"
        " and one person's cost turns its sign: the difference is larger by (n + 1) / (n sqrt(gamma)), and"
        " gamma falls with T.",
        bandit_estimates,
        "`BanditSubmodularMinimizer` puts Laplace noise on the observed costs, summed over a batch: pure"
        ' epsilon whatever gamma is. `form="tree"` keeps the tree with noise for the largest difference.',
    ),
    Erratum(
        PRIVACY,
        "A norm where a difference is needed",
        "Paper 004, Theorems 3 and 5; paper 001, Theorem 10 (the tree protocol of both).",
        "Vectors of length at most L, noise of scale L per node and level: epsilon-private when one vector is"
        " replaced.",
        "Replacing z by z' moves a node by |z - z'|, up to 2 L. Every node above the leaf moves by as"
        " much, so"
        " the whole tree has 2 epsilon. (Noise for L is right where people are added or removed. Paper 004's"
        " main text names the bound L and leaves constants to its appendix, which is not at hand; paper 001"
        " prints the protocol as theirs, with L.)",
        norm_for_a_difference,
        "`privacy.TreeSum` and all that use it take the sensitivity from what is declared about the vectors"
        " and from the budget's neighbours: 2 L, or less where a box or sparsity says so.",
    ),
    Erratum(
        PRIVACY,
        "How far apart two gradients of a Lovasz extension are",
        "Paper 001, Theorem 6 (SUBMODPRFTL is epsilon-private), with L = 4 M in Theorem 7.",
        "Gradients have length at most 4 M, so noise for 4 M.",
        "4 M bounds the L1 length; in L2 a gradient is at most 2 sqrt(2) M long. Replacing a person"
        " moves it by"
        " up to 2 sqrt(6) M (n >= 3), sqrt(20) M (n = 2): less than twice the length, because no extreme"
        " gradient's opposite is one, and more than 4 M.",
        lovasz_differences,
        "`SubmodularMinimizer` calibrates to `bounds.minimization.gradient_difference` and holds every"
        " gradient"
        " to exactly the set that this number is about.",
    ),
    Erratum(
        PRIVACY,
        "For any L",
        "Paper 001, Theorems 6 and 8.",
        "Epsilon-private for any M, H, L, n, T > 0.",
        "L sets the noise. Nothing in the statements ties it to the costs' range, and without that the loss"
        " grows as 1 / L. (Theorem 10 does ask for vectors within the bound; the two theorems drop it.)",
        any_length,
        "Sensitivity is an argument of every release, and inputs that break the declared bound are refused or"
        " clipped.",
    ),
    Erratum(
        PRIVACY,
        "For any functions",
        "Paper 001, Theorem 6.",
        "Epsilon-private for any functions with values in [-M, M]; that they are submodular is not asked.",
        "4 M bounds the gradients of submodular functions only. Along a chain of sets other functions can"
        " rise and fall by 2 M at every item, so that gradients are up to 2 M sqrt(n) long and twice that"
        " apart."
        " (Theorem 7 asks for submodular functions, and the algorithm is meant for them; a guarantee that"
        " depends on what private people promise is none.)",
        any_function,
        "`SubmodularMinimizer` holds every gradient to the set that the noise is for: costs outside it are"
        " refused or clipped, submodular or not, so privacy does not depend on the promise.",
    ),
    Erratum(
        PRIVACY,
        "Slopes above the last ones move twice as far",
        "Paper 003, Section 3.2: all the analysis of Section 3.1 is said to apply to g = F - ell.",
        "Noise for 2 Delta in every coordinate of the gradient of g.",
        "A slope of F has two values of F in it, each moved by up to Delta. A slope of g has four,"
        " F(S + i) - F(S) - F(V) + F(V - i), and they can be four different sets from three items on.",
        twice_the_slopes,
        "A mean of slopes and last slopes moves by 2 Delta (one person's bound, for monotone sums over"
        " people), so `CurvatureGreedy` needs no more noise than `ContinuousGreedy`.",
    ),
    Erratum(
        PRIVACY,
        "Natural logarithms of a binary tree",
        "Paper 003, Algorithm 3 and Theorem 4.",
        "Laplace noise of scale 2 m n ln(T) sqrt(2 K ln(1/delta)) / epsilon gives each expert"
        " epsilon / (2 sqrt(2 K ln(1/delta))).",
        "A person is in ceil(log2 T) nodes of a binary tree, not ln T. Each expert loses log2(T) / ln(T) or"
        " more times what it claims.",
        levels_of_a_tree,
        "`MetaFrankWolfe` accounts for the levels there are (`tree_levels`); by default it releases"
        " factorised"
        " sums with Gaussian noise, one account for all experts.",
    ),
    Erratum(
        PRIVACY,
        "Noise that depends on the data",
        "Paper 003, Theorem 4 (the scale contains m_F = max F({i})), and the guesses of Section 3.2.",
        "m_F is the largest value of a single item under the objective.",
        "That is a fact about private people. Used as the scale of the noise it leaks by itself. It has to be"
        " a public number that no admissible person exceeds; the same goes for the grid of guesses. (Read as"
        " such a number, the theorem's noise is enough.)",
        noise_set_by_data,
        "`bound=` is a public argument of every learner; people beyond it are refused or clipped.",
    ),
    Erratum(
        PRIVACY,
        "Leaders with Gaussian noise",
        "Paper 000, Lemma 6 (and Lemma 4, Theorem 9: Algorithm 4 is (epsilon, 0)-private).",
        "Density ratios of at most exp(epsilon / K) per leader, PFTAL being said to use Gaussian noise.",
        "A Gaussian density ratio is not bounded by anything. That is a wrong remark more than a wrong step:"
        " the lemma only needs PFTAL's own guarantee. Paper 004's noise is spherical Laplace, for which the"
        " argument works, but at a norm's calibration (above): up to sqrt(2) too much for the nonnegative"
        " gradients of monotone functions.",
        gaussian_leaders,
        '`MetaFrankWolfe(experts="pftal")`: Gaussian noise with a delta, spherical noise without one, each'
        " for the difference of two gradients.",
    ),
    Erratum(
        PRIVACY,
        "How often a coin explores",
        "Paper 000, Theorem 7 and Lemma 3.",
        "Pr(M > 2 g T) <= exp(-8 g^2 T) for M rounds explored at rate g.",
        "Hoeffding gives exp(-2 g^2 T). The true exponent is the divergence of 2g from g, which is below"
        " 8 g^2"
        " unless g is small.",
        too_many_explorations,
        '`BanditSelector(exploration="online", calibration="published")` adds the exact tail to delta. The'
        " library's own explorations fix how often a person can matter, and lose no delta.",
    ),
    Erratum(
        REGRET,
        "The power of k in the bandit regret",
        "Paper 000, Theorem 8.",
        "O(k^2 (n ln n)^(2/3) T^(2/3) sqrt(ln(k/delta)) / epsilon) with exploration rate"
        " k ((16 n ln n)^2 / T)^(1/3).",
        "Putting that rate into the line before gives 16^(2/3) k^(5/2). A rate with k^2 in front would"
        " give k^2,"
        " and is larger than 1 for longer.",
        slots_in_theorem_eight,
        '`BanditSelector(exploration="blocks")`: Laplace noise on sums of values, k (n ln n)^(1/3) T^(2/3)'
        " max(1, epsilon^(-1/3)), pure epsilon (`bounds.bandit.blocks`).",
    ),
    Erratum(
        REGRET,
        "Conditioning on what exploring decides",
        "Paper 000, Lemma 3 (Appendix A.4).",
        "Given the sets of the earlier experts in all rounds, the expected feedback is g / (k n) times the"
        " marginal gain.",
        "Those sets change only after a round that explored, so knowing them tells which rounds explored. The"
        " lemma's conclusion can be reached by conditioning on the past alone, with the comparator fixed.",
        conditioning_on_paths,
        "`bounds.bandit` proves its inequalities given the past, for a comparator from the best set.",
    ),
    Erratum(
        REGRET,
        "A learning rate that knows how often it will explore",
        "Paper 000, Appendix B.2.",
        "The proof of Lemma 3 with rate eta(M), M the number of rounds picked to explore.",
        "Whether round t explores is part of M, so the learner's weights in round t depend on it, and the"
        " expectation of their product is not the product of expectations.",
        rate_that_knows_the_number,
        '`exploration="presampled"` explores once per block, so the number of lessons is fixed and the rate'
        " with it. (The privacy of B.2 is not affected: M is independent of the people.)",
    ),
    Erratum(
        REGRET,
        "Gradients at the wrong point",
        "Paper 000, Algorithm 4.",
        "Every leader is fed the gradient at the final point x_t.",
        "Lemma 7 needs the k-th leader to be paid by the gradient at x_t^k, where the first k - 1 stop."
        " At the"
        " final point all leaders climb the same slope and rest at any local optimum. (A misprint: the"
        " algorithm defines x_t^k, and the proof of Lemma 4 has the gradient there. Section 5 also leaves out"
        " that functions are monotone, which Lemma 7 assumes, and defined from 0 on, where the steps begin.)",
        gradients_at_the_end,
        "`MetaFrankWolfe` feeds the partial points, and asks for monotone functions.",
    ),
    Erratum(
        REGRET,
        "Curvature for costs without any",
        "Paper 004, Section 2.1 (Lipschitz costs) and Table 1; quoted by paper 000, Theorem 10.",
        "H = O(p ln^2.5 T / (epsilon sqrt(T))) gives O~(sqrt(p T) / epsilon).",
        "Regularising costs H T |C|^2 / 2, which is of order p sqrt(T) at that H. The best H has p /"
        " (epsilon T)"
        " under a root, and so does the regret: sqrt(p T / epsilon), as the introduction says. That is below"
        " the display for epsilon < 1 and above it for epsilon > 1.",
        curvature_for_lipschitz,
        '`ApproximateLeader(regularization="auto")` adds one fixed regulariser of the certified best size,'
        " which nobody's gradient grows by.",
    ),
    Erratum(
        REGRET,
        "How long the cost vectors of experts are",
        "Paper 004, Table 1, first line; quoted by paper 000, Section 3, with n for p.",
        "Regret O(sqrt(p T ln^2.5 T) / epsilon) for experts, costs in {0, 1}^p; only the other lines are said"
        " to hide L.",
        "The noise and Theorem 4 go by Euclidean lengths, and such a cost vector is up to sqrt(p) long. With"
        " L = sqrt(p) the theorem gives p sqrt(T). (Appendix C, which is not at hand, may treat experts on"
        " their own.)",
        length_of_expert_costs,
        "`LinearLeader` on a `Simplex` goes by the entries of a cost vector, and pays for noise once:"
        " `bounds.convex.linear_experts`.",
    ),
    Erratum(
        REGRET,
        "Exploring farther than the domain reaches",
        "Paper 004, Theorem 6.",
        "beta = p / T^(1/3), or p / T^(1/4), for any T; points are kept in (1 - beta / r) C.",
        "beta is a distance to explore at and has to be below r, the radius of a ball inside the domain;"
        " above it there are no such points. That takes T > (p / r)^3, or (p / r)^4, which is not said.",
        radius_beyond_the_domain,
        "`BanditApproximateLeader` tunes the radius together with everything else, and refuses horizons that"
        " are too short for it.",
    ),
    Erratum(
        REGRET,
        "The scale of the objective",
        "Paper 003, Theorem 3 (and Theorem 4).",
        "A loss of O(sqrt(Delta rank^3 n ln n / epsilon)) with K = O(sqrt(epsilon rank / (n ln n Delta))).",
        "F times c loses c times as much, Delta times c under a root only sqrt(c). Lemmas 2 and 3 together"
        " give m_F Delta under the root, and m_F in K. (Right where m_F, the largest value of one item,"
        " counts as a constant, which the order hides; and K has to be at least 1.)",
        scale_of_the_objective,
        "`certified_loss` has the public `bound` in it and is in units of the objective.",
    ),
    Erratum(
        REGRET,
        "How long the noise of a running sum is",
        "Paper 004, Section 2.1.",
        "The error of a partial sum is O(p L ln^1.5 T / epsilon), and a page later O(sqrt(p) L ln^2 T /"
        " epsilon).",
        "The noise of a node has a length around p L ln T / epsilon; sqrt(p) is only how much that length"
        " varies. Independent directions add as a root: the first is right.",
        prefix_error,
        "`TreeSum.noise_std` and `FactorizedSum.noise_std` are exact and are what certificates use.",
    ),
    Erratum(
        REGRET,
        "The square of M",
        "Paper 001, Theorem 7; paper 000, Section 5 and Theorem 10, for the Lipschitz constant.",
        "Regret O(n M^2 ln^1.5(T) sqrt(T) / epsilon) at H = M sqrt(T), L = 4 M; and PFTAL's regret with L^2.",
        "L^2 / H is 16 M / sqrt(T). Costs, noise and regulariser all scale with M, so the regret does"
        " exactly; above 1 the display is only loose, for M < 1 it is too small. The same holds for L^2:"
        " paper 004 has L^2 / H, and an H of L's size takes one L away.",
        scale_of_costs,
        "`bounds.minimization` is linear in the bound.",
    ),
    Erratum(
        REGRET,
        "The power of n in bandit minimisation",
        "Paper 001, Theorem 9.",
        "O~(M n T^(2/3) / epsilon) for any n and T, at gamma = n^(3/2) / T^(1/3).",
        "Exploring alone, 2 gamma M T, is 2 M n^(3/2) T^(2/3), and so is the noise's term, times its"
        " logarithms. Below T = n^(9/2) gamma is above 1. (The published abstract has n^(3/2): a slip of this"
        " display.)",
        items_in_theorem_nine,
        "`BanditSubmodularMinimizer` certifies of the order M n T^(2/3) epsilon^(-1/3)"
        " (`bounds.minimization.explored`), and refuses horizons that are too short for it.",
    ),
    Erratum(
        REGRET,
        "Two trajectories in one proof",
        "Paper 001, Theorems 5 and 7.",
        "Private points are compared with the points of the same learner without noise, whose regret is then"
        " bounded.",
        "The learner without noise would have asked for gradients elsewhere; the bound is about other"
        " gradients than the ones in the sums. Linearising the costs at the private points first repairs it.",
        two_trajectories,
        "`bounds.minimization.chain_leader` follows the repaired argument.",
    ),
    Erratum(
        REGRET,
        "A length taken for 1",
        "Paper 001, Lemma 6.",
        "|sum (g - grad) x| is bounded by the length of the sum, with the factor |x| dropped.",
        "Points of [0, 1]^n are up to sqrt(n) long. For streams fixed in advance Theorem 9 does not need the"
        " lemma: the comparator is fixed and the estimates are unbiased. Against adaptive ones it does, with"
        " the factor.",
        forgotten_length,
        "`bounds.minimization.explored` conditions on the past and has no such term.",
    ),
    Erratum(
        REGRET,
        "Rounding under a knapsack",
        "Paper 003, Section 1.3 and Theorems 3 and 4 for knapsacks.",
        "Points of {x : <c, x> <= 1} can be rounded without loss, with the rounding of Kulik et al.",
        "The relaxation itself has a gap. The cited rounding closes it by trying all choices of a few large"
        " items with the objective at hand, which is not post-processing of a private point. (Nor is pipage"
        " rounding that compares values; swap rounding and randomised pipage, for matroids, are.)",
        knapsack_gap,
        "`ContinuousGreedy` under a `Knapsack` certifies the fractional point and says so; `PrivateGreedy`"
        " weighs gains against costs and pays for the choice among large items.",
    ),
    Erratum(
        REGRET,
        "Steps, and when privacy is free",
        "Paper 003, Theorem 4 and the remark after it.",
        "K = O(sqrt(T)), and regret O(sqrt(T)) as soon as sqrt(ln(1/delta)) / epsilon <= O(T^(1/4)).",
        "K steps lose m_F rank^2 T / (2 K), which is rank^2 sqrt(T) unless K has rank and m_F in it; and the"
        " condition leaves out n sqrt(rank) and powers of ln T, which have to be paid before privacy is"
        " free.",
        steps_and_free_privacy,
        '`MetaFrankWolfe(steps="auto")` weighs all terms (`bounds.frank_wolfe`), and takes few steps where'
        " nothing can be certified.",
    ),
    Erratum(
        REGRET,
        "Displays of Appendix B",
        "Paper 000, Appendices B.1 and B.2.",
        "k^4 n sqrt(32 T ln(k delta)) / (epsilon g) + ...; and ln(k/delta) for its root in the last"
        " lines of B.2.",
        "ln(k delta) should be ln(k/delta); ln n was lost on the way, and a k gained. B.2's last lines are"
        " larger than what precedes them, so they hold.",
        displays_of_b,
        "`bounds.bandit.published_direct` evaluates the first inequality of B.1.",
    ),
    Erratum(
        EMPTY,
        "Bounds above the trivial one",
        "Paper 000, Theorems 6 and 8; paper 001, Theorems 7 and 9.",
        "Regret of order sqrt(T) or T^(2/3).",
        "With the constants of the proofs, and the k, n and logarithms that the orders hide, the bounds say"
        " more than doing nothing does only for very long streams.",
        empty_bounds,
        "`plan` compares certificates with the trivial bound and says when none beats it.",
    ),
]

INTRO = """# Errata

Claims of the five papers that do not hold as printed, found while building the library. The papers introduced
the algorithms and most of what they claim is right; this page is about the rest, so that nobody relies on it.

Each entry says where the claim is, why it fails, what the library does instead, and gives a number that
shows it. Numbers are computed by `python benchmarks/errata.py`, never typed, and `tests/docs/test_errata.py`
recomputes them. Privacy is for one person replaced unless said otherwise. Learners with
`calibration="published"` use the papers' constants, and their `privacy` is the account of what they release,
whatever was claimed.

| name | paper |
|---|---|
| 000 | Perez-Salazar and Cummings, Differentially Private Online Submodular Maximization, 2021 |
| 001 | Cardoso and Cummings, Differentially Private Online Submodular Minimization, 2019: the appendix |
| 002 | the supplement of 000: what is said of 000's appendices is said of both |
| 003 | Sadeghi and Fazel, DP Monotone Submodular Maximization Under Matroid and Knapsack Constraints, 2021 |
| 004 | Smith and Thakurta, (Nearly) Optimal Algorithms for Private Online Learning, 2013 |
"""

HOLDS = """## Checked, and right

Claims that were looked at as closely and hold. Most leave room: the account is what the printed constants
really spend.

{table}

- Paper 000, Lemma 1, goes expert by expert, which is sound for streams fixed in advance. Where people react
  to what is shown, the order of time has to be followed; the library's accounts do.
- Paper 000, Proposition 2: its composition is within the claim for epsilon up to 4 ln(1/delta).
- Paper 000, Theorem 3 (Hedge) holds for rates up to 1.79, which it does not say.
  {large_rates}, and falls with T.
- Paper 000, Algorithm 3 feeds f(S + a) instead of the gain of a. What is added is the same for all items in
  expectation, so regret is unaffected; a person moves one score by 1, so each draw costs half of what
  Theorem 7 charges.
- Paper 001, Lemmas 3, 4, 5, 7 and 10: the estimates are unbiased and as large as stated. In Theorem 5 and
  Lemma 8 a factor 2 too much (the minimiser moves by |noise| / H, not twice that) makes up for one that is
  lost in the next line.
- Paper 003, Lemmas 1 and 2, and paper 004, Theorem 4, are as stated; the library's versions have smaller
  constants. Lemma 5 of paper 003, the utility of its Algorithm 2, holds as well: what fails is its privacy.
- Paper 004 counts log2 T nodes above a leaf of its tree, which has one more. That is right: no point uses the
  sum over all T rounds.

How each theorem fares beside what was measured is on [a page of its own](theorems.md).

## Not checked

The Gaussian versions of paper 003 (its supplement), the main text of paper 001 beyond what its appendix and
its abstract state, and the appendices of paper 004, in which its tree, its Algorithm 3 and the proofs of its
theorems are. What papers say of others' work was not looked at, except where it is used.
"""


def ending() -> str:
    """What holds."""
    return HOLDS.format(table=quietly(what_holds), large_rates=quietly(large_rates))


def page() -> str:
    parts = [INTRO]
    for group in (PRIVACY, REGRET, EMPTY):
        parts.append(f"## {group}\n")
        parts.extend(one.section() + "\n" for one in ERRATA if one.group == group)
    parts.append(ending())
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the stored page is up to date")
    computed = page()
    if not parser.parse_args().check:
        PAGE.write_text(computed)
        print(f"wrote docs/{PAGE.name}: {len(ERRATA)} entries")
        return
    if PAGE.read_text() != computed:
        sys.exit(f"docs/{PAGE.name} is not what this computes; run it without --check")
    print(f"docs/{PAGE.name} is up to date")


if __name__ == "__main__":
    main()
