"""Numbers of docs/errata.md by plain arithmetic, without the library: a second way for each entry."""

from __future__ import annotations

import math
from math import ceil, comb, exp, log, log2, sqrt

DELTA = 1e-6
ALPHA = 1.0 - 1.0 / math.e


def levels(sums: int) -> int:
    """Nodes above a leaf that some sum of so many leaves uses."""
    return max(1, ceil(log2(sums)))


def solved(rises, low: float, high: float) -> float:
    """Where a function that rises crosses 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) > 0 else (middle, high)
    return low


def big(value: float) -> str:
    return f"{value:.2g}" if value >= 1e6 else f"{float(f'{value:.3g}'):,.0f}"


def private_constraint():
    yield f"scale {2 * 3 * 2 * 1 / 0.001:,.0f}"  # 2 K n Delta / epsilon
    yield f"1 - 2^-3 = {1 - 0.5**3:.3f}"  # each of three steps goes to item 0 by a fair coin


def bandit_estimates():
    for rounds in (10**6, 10**8, 10**10):
        gamma = 5**1.5 / rounds ** (1 / 3)
        noise = 4 * 5 / sqrt(gamma) * (ceil(log2(rounds)) + 1)
        yield f"{levels(rounds - 1) * 2 * 2 * 6 / gamma / noise:.2f} for T"
    yield f"{(10**6) ** (1 / 6):.1f} times: the exponent is {1 / 6:.3f}"


def norm_instead_of_difference():
    grown = 1 / 2 * 3 * log(1000) ** 2.5 / sqrt(1000)
    yield f"1,000 rounds account for {2 / (1 + grown):.2g}."


def lovasz_differences():
    yield f"{sqrt(2 * 2**2 + 4**2):.3f} apart"  # (2, -2, 0) and (0, 2, -2)
    for rounds, shown in ((16, "16"), (1000, "1,000"), (10**6, "1,000,000")):
        yield f"{levels(rounds - 1) * sqrt(24) / (4 * (ceil(log2(rounds)) + 1)):.3f} for {shown} rounds"


def any_norm_bound():
    for length in (4, 0.4, 0.04):
        yield f"{levels(999) * sqrt(24) / (length * 11):.3g} at L = {length:g}"


def not_submodular():
    yield f"length {2 * sqrt(16):.0f}, {4 * sqrt(16):.0f} apart"
    yield f"epsilon of {levels(999) * 16 / (4 * 11):.2f}"


def modular_part_sensitivity():
    yield f"{sum(abs(sign) for sign in (1, -1, -1, 1)):.3f} Delta"  # F(S + i) - F(S) - F(V) + F(V - i)


def depth_of_a_tree():
    for rounds in (100, 1024, 65_536):
        yield f"{levels(rounds - 1) / log(rounds):.2f} at T = {rounds:,}"


def data_dependent_scale():
    yield f"scale {big(2 * 10 * log(1000) * sqrt(2 * 32 * log(1 / DELTA)))}"


def gaussian_leaders():
    for rounds in (1000, 10**6, 10**9):
        logs = log(rounds) ** 2.5
        steps = max(1, round((rounds / logs) ** 0.25))
        grown = sqrt(2 * logs * steps / rounds)
        yield f"{sqrt(2) * levels(rounds - 1) / ((1 + grown * sqrt(2)) * (ceil(log2(rounds)) + 1)):.3f} for T"


def too_many_explorations():
    for rounds, rate in ((100, 0.25), (400, 0.1), (400, 0.04)):
        most = round(2 * rate * rounds)
        chances = (
            comb(rounds, i) * rate**i * (1 - rate) ** (rounds - i) for i in range(most + 1, rounds + 1)
        )
        yield f"{math.fsum(chances):.1e} (printed {exp(-8 * rate**2 * rounds):.1e}) at T = {rounds}"
    decay = lambda g: 8 * g * g - (2 * g * log(2) + (1 - 2 * g) * log((1 - 2 * g) / (1 - g)))  # noqa: E731
    yield f"between {solved(decay, 0.01, 0.2):.4f}"
    yield f"exp(-{int(2 * (16 * 2 * log(2)) ** (4 / 3))} T^(1/3))"


def exponent_of_k():
    for k in (10, 100):
        n, rounds = 2 * k, 10.0**18
        gamma = k * ((16 * n * log(n)) ** 2 / rounds) ** (1 / 3)
        proof = 16 * k**3 * n * log(n) * sqrt(log(k / DELTA) * rounds / gamma) + gamma * rounds
        shown = 32 * sqrt(log(k / DELTA)) * k**2 * (n * log(n)) ** (2 / 3) * rounds ** (2 / 3)
        yield f"{proof / shown:.2f} at" if k == 10 else f"{proof / shown:.2f} at k = 100"


def conditioning_on_paths():
    yield f"did not, {0.1 / 2 / (0.9 + 0.1 / 2):.3f}"  # whatever the weights, half of the new draws repeat


def rate_and_explorations():
    chance, rounds, fixed = 0.25, 8, 0.0
    for t in range(rounds):
        for s in range(t + 1):
            weight = comb(t, s) * (chance / 2) ** s * (1 - chance / 2) ** (t - s)
            fixed += chance / 2 * weight / (1 + exp(-0.01 * s))
    yield f"both are {fixed:.5f}"
    heard = 0.0
    for t in range(rounds):  # s of e explorations before t were of item 0, then t is, and a more come after
        courses = ((s, e, a) for e in range(t + 1) for s in range(e + 1) for a in range(rounds - t))
        for s, e, a in courses:
            before = comb(t, e) * chance**e * (1 - chance) ** (t - e) * comb(e, s) / 2**e
            after = comb(rounds - t - 1, a) * chance**a * (1 - chance) ** (rounds - t - 1 - a)
            rate = 1 / sqrt(32 * (e + 1 + a + 1) * log(1 / DELTA))
            heard += chance / 2 * before * after / (1 + exp(-rate * s))
    yield f"it sees is {heard:.5f}"


def gradients_at_final_point():
    yield f"worth {0.5 / 0.9:.2f} of the best"


def curvature_for_lipschitz():
    yield "grows as p^1.00 with the printed"  # p ln^2.5 T sqrt(T) / 2 is by far the largest term
    yield "as p^0.50 with H"
    yield f"(trivial: {big(2e6)})"


def norm_of_expert_costs():
    yield f"length {sqrt(1000):.1f}."


def radius_beyond_the_domain():
    yield f"= {50 / 1e5 ** (1 / 3):.2f}. It fits from T = {50**3 + 1:,} (oblivious) and {50**4 + 1:,}"


def scale_of_the_objective():
    yield f"the display {sqrt(100):.0f} times"


def norm_of_prefix_noise():
    yield f"{sqrt(10 * 50 * 51) * 10:,.0f} (`TreeSum`); p m^1.5 = {50 * 10**1.5:,.0f}"  # Gamma(50): p (p + 1)


def scale_of_costs():
    yield f"M^2 would be {100**2:,} times"


def exponent_of_n():
    yield f"is {50**1.5 / 100:.2f} for"
    yield f"n^4.5 = {big(50**4.5)}"


def two_trajectories():
    height, length, rounds = 1e4, 4, 1e8
    last = 2 * rounds * length**2 / height + height * 3 / 2
    yield f"{big(last + 4 * 3 * length**2 * rounds * log(rounds) ** 1.5 / height)} by Theorem 7"


def omitted_norm():
    yield f"-1 + {sqrt(100 * 0.01**2):.1f}"


def knapsack_gap():
    yield f"worth {1 + 0.4 / 0.6:.3f}, the best set 1: a share of {1 / (1 + 0.4 / 0.6):.3f}"


def steps_and_free_privacy():
    yield f"T >= {ceil(log(1 / DELTA) ** 2)}."
    yield f"from T = {(sqrt(10) * 100 * sqrt(log(1 / DELTA) / log(100))) ** 4:.1e} on"
    yield f"cost {100 * 10**6 / 2000:,.0f} and the first term shows {big(10 * sqrt(1e6 * log(100)))}"


def formulas_of_appendix_b():
    rate = 1 / (2 * sqrt(32 * 1e8 * log(2 / DELTA)))
    gamma = sqrt(4 * 1000 * log(1000) / (rate * 1e8))
    first = 2 * (2 * 1000 * log(1000) / (gamma * rate) + rate * 1e8) + gamma * 1e8
    yield f"n k^2 ln n = {4 * 1000 * log(1000):,.0f} where n k^3 = {8 * 1000:,} stands"
    yield f"inequality: {big(first)}"


def continuous_display():
    logs, rounds = log(1e6) ** 2.5, 1e6
    steps = (rounds / logs) ** 0.25
    for size, digits in ((1, 2), (100, 1), (10_000, 0)):
        proof = (1 + sqrt(10 * logs * steps / rounds) * size) ** 2 * sqrt(logs) * steps * sqrt(rounds)
        shown = (1 + sqrt(10 * logs * size / rounds**0.75)) ** 2 * sqrt(logs) * rounds**0.75
        yield f"{proof / shown:.{digits}f} at {'diameter 1' if size == 1 else f'{size:,}'}"


def slips_of_two_proofs():
    scale = 4 * (ceil(log2(1000)) + 1) / 0.1
    yield f"scale {scale:,.0f}: standard deviation {sqrt(50) * scale:,.0f}"
    yield f"would be {50 * sqrt(4 * (ceil(log(1000)) + 1) / 0.1):,.0f}"
    yield f"root mean square is {sqrt(9 * 50 * 51) * scale:,.0f}"  # nine nodes at most up to 1,000


def vacuous_bounds():
    size = 100 * log(100)

    def hedge(t):
        rate = 1 / (10 * sqrt(32 * t * log(10 / DELTA)))
        return ALPHA * t - 10 * (rate * t + log(100) / rate)

    yield f"| 000, Theorem 6 (n = 100, k = 10) | {big(solved(hedge, 1e6, 1e12))} |"
    yield f"k = 5) | {big(125 * (16 * size) ** 2)} |"
    shown = 32 * sqrt(log(5 / DELTA)) * 25 * size ** (2 / 3)
    yield f"Theorem 8 as displayed (n = 100, k = 5) | {big((shown / ALPHA) ** 3)} |"

    def bandit(t):
        gamma = 5 * ((16 * size) ** 2 / t) ** (1 / 3)
        return ALPHA * t - 16 * 125 * size * sqrt(log(5 / DELTA) * t / gamma) - gamma * t

    yield f"derives it (n = 100, k = 5) | {big(solved(bandit, 1e12, 1e18))} |"


def confirmed_privacy():
    yield "sums over people | 0.5 |"  # monotone people move an entry by Delta, the noise is for 2 Delta


def proposition_two():
    logs = log(1 / DELTA)
    for rounds in (1, 100, 1000):

        def spent(epsilon, rounds=rounds):  # beyond half of it, which the root takes exactly
            each = epsilon / sqrt(8 * rounds * logs)
            return rounds * each * (exp(each) - 1) - epsilon / 2

        yield f"{solved(spent, 1, 200):.1f} at T = {rounds:,}"
    yield f"{4 * logs:.1f} = 4 ln(1/delta)"
    yield f"8 ln(1/delta) = {8 * logs:.1f}"


def large_hedge_rates():
    yield f"regret {19 / 20:.3f} above the bound's {5 / 20 + log(20) / 5:.3f}"
    yield f"epsilon 1 is {1 / sqrt(32 * log(1 / DELTA)):.3f}"
