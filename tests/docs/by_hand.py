"""Numbers of docs/errata.md by plain arithmetic, without the library: a second way for each entry."""

from __future__ import annotations

import math
from math import ceil, comb, exp, log, log2, sqrt

import numpy as np

DELTA = 1e-6
ALPHA = 1.0 - 1.0 / math.e


def levels(sums: int) -> int:
    """Nodes above a leaf that some sum of this many leaves uses."""
    return max(1, ceil(log2(sums)))


def solved(rises, low: float, high: float) -> float:
    """Where a function that rises crosses 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) > 0 else (middle, high)
    return low


def least(valley, low: float, high: float) -> float:
    """The least value of a function that falls and then rises, between two positive numbers."""
    for _ in range(200):
        left, right = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
        low, high = (low, right) if valley(left) < valley(right) else (left, high)
    return valley(low)


def exponent(values) -> str:
    """As which power of p the value at 1,000 is above the one at 10."""
    first, last = values
    return f"{log(last / first) / log(100):.2f}"


def tree_noise(p: int, sums: int, scale: float) -> float:
    """Root mean square length of spherical noise, Gamma(p) long, in the sum of the most nodes."""
    return scale * sqrt(p * (p + 1) * int(log2(sums + 1)))


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
    yield f"factor of {(10**6) ** (1 / 6):.1f} from 10^6"
    yield f"exponent {1 / 6:.3f})"


def norm_instead_of_difference():
    grown = 1 / 2 * 3 * log(1000) ** 2.5 / sqrt(1000)
    yield f"the accounted epsilon is {2 / (1 + grown):.2g}."


def lovasz_differences():
    yield f"{sqrt(2 * 2**2 + 4**2):.3f} apart"  # (2, -2, 0) and (0, 2, -2)
    for rounds, shown in ((16, "16"), (1000, "1,000"), (10**6, "1,000,000")):
        yield f"{levels(rounds - 1) * sqrt(24) / (4 * (ceil(log2(rounds)) + 1)):.3f} for {shown} rounds"


def any_norm_bound():
    for length in (4, 0.4, 0.04):
        yield f"{levels(999) * sqrt(24) / (length * 11):.3g} at L = {length:g}"


def not_submodular():
    yield f"length {2 * sqrt(16):.0f} and are {4 * sqrt(16):.0f} apart"
    yield f"epsilon of {levels(999) * 16 / (4 * 11):.2f}"


def modular_part_sensitivity():
    yield f"{sum(abs(sign) for sign in (1, -1, -1, 1)):.3f} Delta"  # F(S + i) - F(S) - F(V) + F(V - i)


def depth_of_a_tree():
    for rounds in (100, 1024, 65_536):
        yield f"{levels(rounds - 1) / log(rounds):.2f} at T = {rounds:,}"
    yield f"1 / ln 2 = {1 / log(2):.3f}"
    yield f"smaller: {2 / log(5):.3f} at T = 5, {10 / log(1025):.3f} at T = 1,025"


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


def doubling_trick():
    yield f"multiplies eta by {sqrt(1 / 2):.3f}"
    rate = 1 / sqrt(32 * 4 * log(1 / DELTA))
    drawn = lambda lead: 1 / (1 + exp(-rate * lead))  # noqa: E731
    # The first of four is replaced by their opposite, and the others lead the item back that is drawn.
    worst = math.fsum(log(drawn(1 - others) / drawn(-1 - others)) for others in range(3))
    yield f"log ratio is {worst:.4f}. For the 4 people alone it is also {worst:.4f}."
    once = lambda t: t / sqrt(t) + 32 * 100 * log(10 / DELTA) * log(100) * sqrt(t)  # noqa: E731
    yield f"is {math.fsum(once(2**j) for j in range(20)) / once(2**20 - 1):.2f} times that of one run"
    yield f"is at most {math.fsum(sqrt(2**j) for j in range(21)) / sqrt(2 * 2**20):.2f} times"


def conditioning_on_paths():
    # Whatever the weights, half of the new draws repeat
    yield f"probability is {0.1 / 2 / (0.9 + 0.1 / 2):.3f}"


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
    yield f"on its feedback is {heard:.5f}"


def gradients_at_final_point():
    yield f"optimum with {0.5 / 0.9:.2f} of the best"
    found = {final: [fed_at(final, rounds) for rounds in (4000, 16_000)] for final in (True, False)}
    yield f"is {found[True][0]:,.0f} / {found[True][1]:,.0f} with"
    yield f"and {found[False][0]:,.0f} / {found[False][1]:,.0f} at"


def fed_at(final: bool, rounds: int) -> float:
    """(1 - 1/e)-regret of four leaders without noise, one number each.

    f = (1 - (1 - x0)(1 - x3) + 1 - (1 - x1)(1 - x2)) / 4 + (x1 + x3) / 5, and (x0 + x2) / 4 in rounds that
    push. Exchanging 0 with 2 and 1 with 3 changes neither f nor the blocks, so x0 = x2 and x1 = x3 always:
    a leader's share of item 0 is a logistic function of how far item 0 leads item 1 in its gradients.
    """
    push, rate = round(7 * sqrt(rounds)), sqrt(8 * log(2) / rounds)
    leads, earned = [0.0] * 4, 0.0
    for t in range(rounds):
        shares = [1 / (1 + exp(-rate * lead)) for lead in leads]
        x0, x1 = sum(shares) / 4, 1 - sum(shares) / 4
        earned += x0 / 2 if t < push else (1 - (1 - x0) * (1 - x1)) / 2 + 0.4 * x1
        passed = 0.0  # how far x0 is ahead of x1 before each leader
        for k, share in enumerate(shares):
            ahead = x0 - x1 if final else passed
            leads[k] += 0.25 if t < push else ahead / 4 - 0.2
            passed += (2 * share - 1) / 4
    pairs = {"0, 2": (0.5, 0.5), "0, 3": (0.25, 0.45), "1, 2": (0.25, 0.45), "1, 3": (0.0, 0.9)}
    return ALPHA * max(push * early + (rounds - push) * late for early, late in pairs.values()) - earned


def curvature_for_lipschitz():
    logs, rounds = log(1e12) ** 2.5, 1e12

    def bound(p):  # Theorem 4 with L = |C| = epsilon = 1, and H T |C|^2 / 2
        return lambda h: p * (1 + h) ** 2 * logs / h + h * rounds / 2

    yield f"grows as p^{exponent(bound(p)(p * logs / sqrt(rounds)) for p in (10, 1000))} with the printed"
    yield f"as p^{exponent(least(bound(p), 1e-9, 1) for p in (10, 1000))} with H"
    yield f"{big(held_leader(5, 4))} for its own H, and the trivial bound is {big(2e6)}"
    grown = 5 * log(1e6) ** 2.5 / (2 * 4 * sqrt(1e6))  # L / |C| times the printed H, on the unit ball
    noise = tree_noise(5, 10**6, (1 + grown) * levels(10**6) / 4)
    moved = math.fsum(min(2.0, (1 + noise) / (grown * t)) for t in range(1, 10**6))
    first = 2  # nothing holds the first point: |C| = 2
    yield f"library is {big(grown * 1e6 / 2 + first + moved)} for the printed H times"


def held_leader(p: int, epsilon: float, length: float = 1.0) -> float:
    """A R^2 / 2 + T L (L + |noise|) / A at its best A: the unit ball, 10^6 rounds, noise for 2 L."""
    noise = tree_noise(p, 10**6 - 1, 2 * length * levels(10**6 - 1) / epsilon)
    return least(lambda a: a / 2 + 1e6 * length * (length + noise) / a, 1e-3, 1e9)


def norm_of_expert_costs():
    yield f"norm {sqrt(1000):.1f}."
    logs, rounds = log(1e11) ** 2.5, 1e11

    def best(p, length):  # Theorem 4 with |C|^2 = 2, and H T |C|^2 / 2
        return least(lambda h: p * (length + h * sqrt(2)) ** 2 * logs / h + h * rounds, 1e-9, 1)

    def certified(p):  # Hedge, and the largest of p sums of Laplace noise for p, one for each node
        scale, nodes = p * levels(10**11 - 1), int(log2(1e11))
        noise = least(lambda s: (log(p) - nodes * math.log1p(-s * s)) * scale / s, 1e-3, 1 - 1e-9)
        return sqrt(rounds * log(p) / 2) + noise

    yield f"grows as p^{exponent(best(p, sqrt(p)) for p in (10, 1000))} for costs"
    yield f"and as p^{exponent(best(p, 1) for p in (10, 1000))} for vectors"
    yield f"at epsilon 1 grows as p^{exponent(certified(p) for p in (10, 1000))}."


def radius_beyond_the_domain():
    yield f"= {50 / 1e5 ** (1 / 3):.2f}, which is above r"
    yield f"below r from T = {50**3 + 1:,} (oblivious) and {50**4 + 1:,} (adaptive)"


def scale_of_the_objective():
    n, rank, harmonic = 100, 2, math.fsum(1 / j for j in range(1, 101))

    def lost(size):  # K is the paper's; a set's second derivatives are 0 on the diagonal
        value, noise = 10**6 * size, 2 * n * size * harmonic  # the largest of n entries, for each of K steps
        steps = min(range(1, 100), key=lambda k: value * rank**2 / (2 * k) + 2 * rank * k * noise)
        return value * (rank**2 - rank) / (2 * steps) + rank * steps * noise

    yield f"factor of {lost(100) / lost(1):.1f}, from {big(lost(1))} to {big(lost(100))};"
    shown = [sqrt(size * rank**3 * n * log(n)) for size in (1, 100)]
    yield f"the printed bound grows by a factor of {shown[1] / shown[0]:.0f}."


def norm_of_prefix_noise():
    # Gamma(50): p (p + 1)
    yield f"{sqrt(10 * 50 * 51) * 10:,.0f} (`TreeSum`). p m^1.5 is {50 * 10**1.5:,.0f}"


def scale_of_costs():
    yield f"regret falls by a factor of {regret_of_minimizer(1.0) / regret_of_minimizer(0.01):.1f},"

    def proof(bound):  # Theorem 7 before its constants are hidden
        length, height = 4 * bound, bound * sqrt(400)
        private = 4 * 3 * length**2 * 400 * log(400) ** 1.5 / height
        return 2 * 400 * length**2 / height + height * 3 / 2 + private

    steep, flat = proof(1.0), proof(0.01)
    yield f"the bound in the proof by {steep / flat:.1f}, from {big(steep)} to {big(flat)}."
    yield f"M^2 falls by {100**2:,}."
    steep, flat = held_leader(3, 1), held_leader(3, 1, 0.01)
    yield f"falls by {steep / flat:.1f}, from {big(steep)} to {big(flat)}, if"

    def chi(size, epsilon):  # Theorem 6 of paper 004 with L = B = size = 2 H, r = R = 1, |C| = 2
        return 3 * size + (2 * size) ** 2 / (size / 2) * (1 + size / epsilon)

    at_one, far_below = (chi(1, epsilon) / chi(0.01, epsilon) for epsilon in (1, 0.01))
    yield f"falls by {at_one:.0f} at epsilon 1 and by {big(far_below)} at epsilon 0.01"


def regret_of_minimizer(size: float) -> float:
    """SUBMODPRFTL with its own noise on costs that are sums of prices: 3 items, 400 rounds, epsilon 1."""
    prices = size * np.random.default_rng(0).uniform(-0.3, 0.3, size=(400, 3))
    chance = np.random.default_rng(1)
    nodes, paid, scale = np.zeros((9, 3)), 0.0, 4 * size * (ceil(log2(400)) + 1)
    for t in range(400):
        held = prices[:t].sum(axis=0) + nodes.sum(axis=0)
        point = np.clip(-held / (size * sqrt(400)), 0, 1)
        paid += prices[t][point > chance.random()].sum()
        level = ((t + 1) & -(t + 1)).bit_length() - 1  # the node that ends here takes in those below
        direction = chance.normal(size=3)
        nodes[:level] = 0
        nodes[level] = direction / sqrt(direction @ direction) * chance.gamma(3, scale)
    return paid - np.minimum(prices.sum(axis=0), 0).sum()


def exponent_of_n():
    yield f"T^(1/3) is {50**1.5 / 100:.2f}."
    yield f"n^4.5 = {big(50**4.5)}"


def two_trajectories():
    height, length, rounds = 1e4, 4, 1e8
    last = 2 * rounds * length**2 / height + height * 3 / 2
    yield f"gives {big(last + 4 * 3 * length**2 * rounds * log(rounds) ** 1.5 / height)} and"


def omitted_norm():
    yield f"-1 + {sqrt(100 * 0.01**2):.1f}"


def knapsack_gap():
    yield f"value {1 + 0.4 / 0.6:.3f} and the best set 1. The ratio is {1 / (1 + 0.4 / 0.6):.3f}"


def steps_and_free_privacy():
    yield f"T >= {ceil(log(1 / DELTA) ** 2)}."
    yield f"from T = {(sqrt(10) * 100 * sqrt(log(1 / DELTA) / log(100))) ** 4:.1e}."
    yield f"loses {100 * 10**6 / 2000:,.0f}, while"
    yield f"first term of the bound is {big(10 * sqrt(1e6 * log(100)))}."


def formulas_of_appendix_b():
    rate = 1 / (2 * sqrt(32 * 1e16 * log(2 / DELTA)))
    gamma = sqrt(4 * 1000 * log(1000) / (rate * 1e16))
    first = 2 * (2 * 1000 * log(1000) / (gamma * rate) + rate * 1e16) + gamma * 1e16
    yield f"n k^2 ln n = {4 * 1000 * log(1000):,.0f}; the printed n k^3 = {8 * 1000:,} is smaller"
    yield f"inequality: it is {big(first)} at epsilon 1 and T = 10^16, where g = {gamma:.2f}."
    # Where that g, which falls as T^(-1/4), is 1: sqrt(T) = n k^2 ln n / (rate sqrt(T)).
    yield f"T below {big((4 * 1000 * log(1000) * 2 * sqrt(32 * log(2 / DELTA))) ** 2)} the best g"


def continuous_display():
    logs, rounds = log(1e6) ** 2.5, 1e6
    steps = (rounds / logs) ** 0.25
    for size, digits in ((1, 2), (100, 1), (10_000, 0)):
        proof = (1 + sqrt(10 * logs * steps / rounds) * size) ** 2 * sqrt(logs) * steps * sqrt(rounds)
        shown = (1 + sqrt(10 * logs * size / rounds**0.75)) ** 2 * sqrt(logs) * rounds**0.75
        yield f"{proof / shown:.{digits}f} at {'diameter 1' if size == 1 else f'{size:,}'}"


def slips_of_two_proofs():
    scale = 4 * (ceil(log2(1000)) + 1) / 0.1
    yield f"scale {scale:,.0f}, with mean {50 * scale:,.0f} and standard deviation {sqrt(50) * scale:,.0f}"
    shape = 4 * (ceil(log(1000)) + 1) / 0.1
    yield f"shape {shape:,.0f} they would be {50 * shape:,.0f} and {50 * sqrt(shape):,.0f}"
    yield f"root mean square length is {sqrt(9 * 50 * 51) * scale:,.0f}"  # nine nodes at most up to 1,000


def vacuous_bounds():
    size = 100 * log(100)

    def hedge(t):
        rate = 1 / (10 * sqrt(32 * t * log(10 / DELTA)))
        return ALPHA * t - 10 * (rate * t + log(100) / rate)

    yield f"| 000, Theorem 6 (n = 100, k = 10) | {big(solved(hedge, 1e6, 1e12))} |"
    yield f"is below 1 from T = {big(125 * (16 * size) ** 2)} "
    shown = 32 * sqrt(log(5 / DELTA)) * 25 * size ** (2 / 3)
    yield f"Theorem 8 as printed (n = 100, k = 5) | {big((shown / ALPHA) ** 3)} |"

    def bandit(t):
        gamma = 5 * ((16 * size) ** 2 / t) ** (1 / 3)
        return ALPHA * t - 16 * 125 * size * sqrt(log(5 / DELTA) * t / gamma) - gamma * t

    yield f"derives it (n = 100, k = 5) | {big(solved(bandit, 1e12, 1e18))} |"


def confirmed_privacy():
    yield "sums over people) | 0.5 |"  # monotone people move an entry by Delta, the noise is for 2 Delta


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
    yield f"rates up to {solved(lambda x: exp(x) - 1 - x - x * x, 1, 2):.2f},"
    yield f"regret is {19 / 20:.3f} and the bound {5 / 20 + log(20) / 5:.3f}"
    yield f"epsilon 1 is {1 / sqrt(32 * log(1 / DELTA)):.3f}"
