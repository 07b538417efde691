"""Certified regret of learners that play a point, against the best fixed point, in units of cost.

Notation: T rounds, gradients no longer than L, a domain within R of its center and D across, H the curvature
of everybody's cost (0 if none is known), p coordinates. ``noise`` is a bound on the root mean square length
of the noise in any released sum of gradients. All bounds are on the expected regret.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..privacy import Event, SumSpec


def worst_noise(spec: SumSpec, event: Event) -> float:
    """Root mean square length of the noise in the noisiest sum, with the noise of ``event``."""
    last = spec.rounds
    # A tree is noisiest where most blocks meet: a set bit of the last step cleared, all lower bits set.
    steps = {last} | {(last >> bit << bit) - 1 for bit in range(last.bit_length() + 1) if last >> bit & 1}
    worst = max(spec.noise_std(event, step) for step in steps if step >= 1)
    return math.sqrt(spec.added.dimension) * worst


def approximate_leader(
    rounds: int,
    lipschitz: float,
    radius: float,
    diameter: float,
    noise: float,
    strong_convexity: float = 0.0,
    regularization: float = 0.0,
    growing: float = 0.0,
) -> float:
    """Following the approximate leader on noisy sums of gradients; also against an adaptive adversary.

    The learner plays the minimizer w_t of <G_{t-1} + Z_{t-1}, w> + H/2 sum_{s<t} |w - w_s|^2 + A/2 |w - c|^2,
    where G is the sum of gradients, Z its noise, A = ``regularization`` (plus t times ``growing``, as in the
    paper). Let F_t be that objective after round t without noise, and v_t its minimizer. F_t is curved by
    a_t = tH + A, its gradient at w_t is that of the objective which w_t minimizes plus g_t - Z_{t-1}; hence
    |w_t - v_t| <= |g_t - Z_{t-1}| / a_t. Curvature and be-the-leader on the quadratic lower bounds give

        regret <= A R^2 / 2 + sum_t <g_t, w_t - v_t> <= A R^2 / 2 + sum_t min(L D, L (L + |Z|) / a_t),

    and comparing F_t(w_t) with F_t(v_t) instead gives (L + |Z|)^2 / (2 a_t), better where the noise is small.
    No step uses that gradients are independent of the noise (they are not).
    """
    # In units of the longest gradient, so that no square of it leaves the range of floats.
    noise, held, growth = noise / lipschitz, regularization / lipschitz, growing / lipschitz
    extra = (held + growth * rounds) * radius**2 / 2.0
    start = held - growth  # the growing part enters one round late
    slope = strong_convexity / lipschitz + growth
    linear = _harmonic(rounds, 1.0 + noise, start, slope, diameter)
    square = _harmonic(rounds, (1.0 + noise) ** 2 / 2.0, start, slope, math.inf)
    return lipschitz * min(diameter * rounds, extra + min(linear, square))


def _harmonic(rounds: int, top: float, start: float, slope: float, most: float) -> float:
    """sum over t = 1..rounds of min(most, top / (start + slope t))."""
    from scipy.special import digamma

    if slope * rounds <= 1e-5 * start or slope <= 0.0:  # hardly grows: a difference would lose its digits
        return rounds * (min(most, top / start) if start > 0.0 else most)
    capped = 0
    if top > 0.0 and math.isfinite(most):
        capped = math.floor(min(rounds, max(0.0, (top / most - start) / slope)))
    elif start + slope <= 0.0:
        return math.inf
    tail = float(digamma(rounds + 1 + start / slope) - digamma(capped + 1 + start / slope))
    return (capped * most if capped else 0.0) + top / slope * tail


def best_regularization(
    rounds: int, lipschitz: float, radius: float, diameter: float, noise: float, strong_convexity: float = 0.0
) -> float:
    """The regularization that minimizes `approximate_leader`.

    Without curvature it is sqrt(2 T (L (L + noise) or (L + noise)^2 / 2)) / R, and the regret is R times
    the same root: the noise, and with it epsilon, is under the root.
    """
    if not math.isfinite(noise):
        return math.inf
    cost = min(1.0 + noise / lipschitz, (1.0 + noise / lipschitz) ** 2 / 2.0)
    free = lipschitz * math.sqrt(2.0 * rounds * cost) / radius
    if strong_convexity <= 0.0:
        return free
    tried: list[float] = [0.0, *(float(free * 10.0 ** (-i / 16.0)) for i in range(128))]
    settings = (rounds, lipschitz, radius, diameter, noise, strong_convexity)
    return min(tried, key=lambda value: approximate_leader(*settings, value))


def linear_leader(
    rounds: int, lipschitz: float, radius: float, diameter: float, noise: float, regularization: float
) -> float:
    """Linear costs, Euclidean regularization, for streams fixed in advance: the noise costs R |Z|, once.

    The potential min_w <v, w> + A/2 |w - c|^2 is concave in v and 1/A-smooth: a cost vector lowers it by at
    most |g|^2 / (2A) below <w, g>, noise never raises it beyond <w, n>. The noise is independent of the costs
    and its size never falls, so it can be replaced by one vector that grows (Agarwal and Singh 2017), whose
    growth costs R |Z| in all; the comparator is fixed, so it is unaffected on average.
    """
    regret = regularization * radius**2 / 2.0 + rounds * lipschitz**2 / (2.0 * regularization)
    return min(lipschitz * diameter * rounds, regret + radius * noise)


def linear_experts(n_experts: int, rounds: int, width: float, noise_maximum: float, rate: float) -> float:
    """Linear costs over the simplex, entropic regularization: ln n / rate + rate T width^2 / 8 + maximum.

    ``width`` is the range of costs within a round, ``noise_maximum`` the expected maximum of the noise
    (`gaussian_maximum`, `laplace_maximum`); the argument is that of `linear_leader`, with Hoeffding's lemma.
    """
    regret = math.log(n_experts) / rate + rate * rounds * width**2 / 8.0 + noise_maximum
    return min(width * rounds, regret)


@dataclass(frozen=True)
class OnePoint:
    """Settings of a learner that sees only costs of played points, and their certificate.

    ``batch`` rounds share one point, ``beta`` away from the learner's own; ``regularization`` and the
    curvature H act as in `approximate_leader`.
    """

    batch: int
    beta: float
    regularization: float
    regret: float


def one_point(
    rounds: int,
    affine_dimension: int,
    lipschitz: float,
    inner_radius: float,
    radius: float,
    width: float,
    scale: float,
    strong_convexity: float = 0.0,
    *,
    adaptive: bool = False,
    batch: int | None = None,
    beta: float | None = None,
    regularization: float | None = None,
) -> OnePoint:
    """One-point gradients with Laplace noise of ``scale`` on the sum of each batch's costs.

    Write p for ``affine_dimension``, W for ``width`` (the range of costs), b for ``batch``. The gradient
    estimate of a batch is (p / beta) (sum of (y - mid-range) + noise) u, unbiased for the gradient of the sum
    of the costs smoothed over a ball of radius beta, because u is uniform on the sphere and independent of
    the costs and the noise. Its mean square is at most (p/beta)^2 (b^2 W^2 / 4 + 2 scale^2) = (p/beta)^2 b q,
    with q = b W^2 / 4 + 2 scale^2 / b: least for b = sqrt(8) scale / W. The learner is the exact leader for
    these estimates, so be-the-leader gives

        A R^2 / 2 + sum_k (p/beta)^2 b q / (2 (k b H + A))

    against any point of the shrunk domain; playing beta away, smoothing and shrinking cost together at most
    T beta (2 L + min(W, L R) / r). An adversary who adapts to earlier points can aim the comparator at
    past noise: this adds R times the length of a sum of T uncorrelated errors, R (p/beta) sqrt(T q) (and
    rules out batches: within one, the point is known already).

    Numbers that are not given are chosen: b as above; A = 0 or, if better (always without curvature), tuned
    with H disregarded; beta by balancing.
    """
    width = max(width, 1e-300)
    drift = 2.0 * lipschitz + min(width, lipschitz * radius) / inner_radius
    if batch is None:
        batch = 1 if adaptive else min(rounds, max(1, round(math.sqrt(8.0) * scale / width)))
    spread = batch * width**2 / 4.0 + 2.0 * scale**2 / batch
    batches = -(-rounds // batch)

    def certified(near: float, held: float) -> float:
        energy = (affine_dimension / near) ** 2 * spread
        regret = _harmonic(batches, energy / 2.0 * batch, held, batch * strong_convexity, math.inf)
        regret += held * radius**2 / 2.0 + rounds * drift * near
        return regret + (radius * math.sqrt(energy * rounds) if adaptive else 0.0)

    def best_held(near: float) -> float:
        return affine_dimension / near * math.sqrt(spread * batches * batch) / radius

    def tuned(near: float) -> tuple[float, float]:
        tried = [regularization] if regularization is not None else [best_held(near)]
        if regularization is None and strong_convexity > 0.0:
            tried.append(0.0)
        return min((certified(near, held), held) for held in tried)

    if beta is None:
        # With energy falling as 1/beta^2 the total is unimodal in ln(beta): look around the two balances.
        first = math.sqrt(radius * affine_dimension * math.sqrt(spread / rounds) / drift)
        beta = min((first * 2.0 ** (i / 8.0) for i in range(-160, 161)), key=lambda near: tuned(near)[0])
    regret, held = tuned(beta)
    return OnePoint(batch, beta, held, min(regret, width * rounds, 2.0 * lipschitz * radius * rounds))


# --- lower bounds for all learners, private or not ------------------------------------------------


def experts_lower(n_experts: int, rounds: int, width: float = 1.0) -> float:
    """Experts with costs in a range of ``width``: of order sqrt(T ln n / 2) (paper 004, Table 1, line 1).

    Every expert costs 0 or ``width`` each round with equal probability. Any learner pays T width / 2 on
    average, and the best expert less by how far the largest of n binomial variables exceeds T / 2. Some
    stream is as bad as this average. A learner that sees less, as bandits do, does no better.

    >>> round(experts_lower(2, 100), 2)
    2.82
    """
    from scipy.stats import binom

    reach = math.ceil(20.0 * math.sqrt(rounds)) + 1
    above = np.arange(rounds // 2 - reach, rounds // 2 + reach)
    least = float(above[0])  # beyond reach of chance
    largest = least - np.expm1(n_experts * binom.logcdf(above, rounds, 0.5)).sum()
    return width * (float(largest) - rounds / 2.0)


def lipschitz_lower(rounds: int, lipschitz: float, diameter: float) -> float:
    """Costs with gradients up to L on a domain D across: L D sqrt(T / (2 pi)) or more (Table 1, line 2).

    Linear costs along the longest segment, up or down with equal probability: any learner pays 0 on average,
    and one of the ends L D / 2 less for every step of a random walk's distance from its start.

    >>> round(lipschitz_lower(100, 1.0, 2.0), 2)
    7.96
    """
    from scipy.special import beta

    walked = 2.0 / float(beta((rounds + 1) // 2, 0.5))  # a difference of logarithms would lose all digits
    return lipschitz * diameter / 2.0 * walked


def strongly_convex_lower(rounds: int, lipschitz: float, strong_convexity: float, diameter: float) -> float:
    """H-strongly convex costs on a ball D across: H s^2 (1 + 1/2 + ... + 1/(T + 1)) / 12 (Table 1, line 3).

    Costs H |w - y|^2 / 2, where y is either end of a segment of length s through the center, with a bias that
    was drawn uniformly: the posterior mean is the best point, and pays that much more than the mean of all y.
    Gradients are within L for s = 2 L / H - D, or D if that is less.

    >>> round(strongly_convex_lower(1000, 2.0, 1.0, 2.0), 2)
    2.5
    """
    from scipy.special import digamma

    length = min(diameter, max(0.0, 2.0 * lipschitz / strong_convexity - diameter))
    harmonic = float(digamma(rounds + 2.0)) + np.euler_gamma
    return strong_convexity * length**2 * harmonic / 12.0


def one_point_lower(
    rounds: int, lipschitz: float, strong_convexity: float, diameter: float, width: float
) -> float:
    """`strongly_convex_lower` if only played points' costs are seen: order sqrt(T) (Table 2, lines 3 and 4).

    Costs H |w - y|^2 / 2 + e on a ball D across, in a range of ``width``: y is one of two points, s to either
    side of the center, the same all the time; e is drawn anew each round with density cos(pi e / 2b)^2 / b on
    [-b, b]. The squared Hellinger distance of e from e + m is at most (pi m / 2b)^2, and a binary unknown is
    told no more by a sample than the squared distance, in nats; seen from w the two differ by 2 H s |w_1|.
    So all rounds tell I <= (pi H s / b)^2 sum of E w_1^2, and the mean square error of a guess is s^2 (1 - 2
    I) at least. If the errors of all rounds summed to less than T s^2 / 2, I would be at most 3 T s^4 (pi H /
    b)^2, which is 1/4 for s^4 = b^2 / (12 T (pi H)^2), a contradiction. Hence a regret of H T s^2 / 4 = b
    sqrt(T / 12) / (4 pi), whatever H is; 0 where T is so short that such costs exceed L, D or the range.

    >>> round(one_point_lower(10**6, 2.0, 1.0, 2.0, 2.0), 1)
    17.1
    """

    def apart(noise: float) -> float:
        return math.sqrt(noise / (math.sqrt(12.0 * rounds) * math.pi * strong_convexity))

    far = diameter / 2.0 + apart(width / 2.0)  # no cost touches farther from any point
    noise = (width - strong_convexity * far**2 / 2.0) / 2.0
    if noise <= 0.0 or far > diameter or strong_convexity * far > lipschitz:
        return 0.0
    return noise * math.sqrt(rounds / 12.0) / (4.0 * math.pi)


# --- as printed in papers 004 and 000 -------------------------------------------------------------


def published_strongly_convex(
    dimension: int,
    rounds: int,
    epsilon: float,
    lipschitz: float,
    strong_convexity: float,
    diameter: float,
) -> float:
    """Paper 004, Theorem 4: p (L + H |C|)^2 ln(T)^2.5 / (epsilon H), also against adaptive adversaries.

    |C| is the diameter. Only the order is printed; constants are 1 here.

    >>> round(published_strongly_convex(3, 2000, 8.0, 2.001, 1.0, 2.0))
    956
    """
    size = dimension * (lipschitz + strong_convexity * diameter) ** 2
    return size * math.pow(math.log(rounds), 2.5) / (epsilon * strong_convexity)


def published_lipschitz(dimension: int, rounds: int, epsilon: float) -> float:
    """Paper 004, Table 1, lines 1 and 2: sqrt(p T ln(T)^2.5) / epsilon, for experts and Lipschitz costs.

    Only the order is printed, for constant L and diameter; constants are 1 here. (The introduction has
    epsilon under the root, Section 2.1 outside.)

    >>> round(published_lipschitz(3, 2000, 8.0))
    122
    """
    return math.sqrt(dimension * rounds * math.log(rounds) ** 2.5) / epsilon


def published_lipschitz_in_full(
    dimension: int, rounds: int, epsilon: float, lipschitz: float, diameter: float
) -> float:
    """Paper 000, Theorem 10, which cites paper 004: `published_lipschitz` times a square of L and diameter.

    sqrt(n T ln(T)^2.5) (L + sqrt(n ln(T)^2.5 / (epsilon T)) diam)^2 / epsilon. Only the order is printed;
    constants are 1 here.
    """
    spread = math.sqrt(dimension * math.log(rounds) ** 2.5 / (epsilon * rounds)) * diameter
    return published_lipschitz(dimension, rounds, epsilon) * (lipschitz + spread) ** 2


def published_one_point(
    dimension: int,
    rounds: int,
    epsilon: float,
    lipschitz: float,
    strong_convexity: float,
    inner_radius: float,
    radius: float,
    diameter: float,
    bound: float,
    *,
    adaptive: bool = False,
) -> float:
    """Paper 004, Theorem 6: p T^(2/3) chi against oblivious adversaries, p T^(3/4) chi against adaptive ones.

    chi = B R + (1 + R/r) L + (H |C| + B)^2 / H (1 + B / epsilon), for costs in [-B, B], L-Lipschitz and
    H-strongly convex. Only the order is printed, and powers of ln T are hidden; constants are 1 here.
    """
    curved = (strong_convexity * diameter + bound) ** 2 / strong_convexity * (1.0 + bound / epsilon)
    chi = bound * radius + (1.0 + radius / inner_radius) * lipschitz + curved
    return dimension * math.pow(rounds, 0.75 if adaptive else 2.0 / 3.0) * chi


def published_one_point_lipschitz(dimension: int, rounds: int, epsilon: float) -> float:
    """Paper 004, Table 2, lines 1 and 2: p T^(3/4) / epsilon for bandits with Lipschitz costs, or experts.

    Only the order is printed, for constant L, r and R, and powers of ln T are hidden; constants are 1 here.

    >>> round(published_one_point_lipschitz(3, 10_000, 8.0))
    375
    """
    return dimension * math.pow(rounds, 0.75) / epsilon


def published_one_point_without_privacy(dimension: int, rounds: int, *, adaptive: bool = False) -> float:
    """Paper 004, Section 3.1: p^(2/3) T^(2/3), or T^(3/4) if adversaries adapt, for curved costs.

    Only the order is printed, and powers of ln T are hidden; constants are 1 here.
    """
    return math.pow(dimension, 2.0 / 3.0) * math.pow(rounds, 0.75 if adaptive else 2.0 / 3.0)
