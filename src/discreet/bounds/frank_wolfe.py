"""Certified regret of Meta-Frank-Wolfe: K linear experts, the steps between them, and their noise.

With x^1 = 0, x^(k+1) = x^k + v^k / K and expert k paid by the gradient at x^k, the regret against (1 - 1/e)
times the best fixed point is at most the average regret of the experts plus the loss from finitely many
steps (`discretization`, `smooth_discretization`). Streams are fixed in advance; the functions are monotone
and DR-submodular. An expert's payoffs depend on the noise of the experts before it only, so its own noise
may be replaced by one growing perturbation, which costs what it can move the leader's value (`set_maximum`,
`box_maximum`): Agarwal and Singh 2017, paper 003 (Theorem 4) and paper 000 (Lemma 5), with the constants that
the tree's levels, the difference of neighbours and the gradients' bound really need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .selection import gaussian_maximum, laplace_maximum


def discretization(steps: int, rank: float, rounds: int, bound: float = 1.0) -> float:
    """The loss of ``steps`` steps on multilinear extensions of set functions with values in [0, bound].

    Two ways to bound the gain of step k, with r = ``rank`` the largest sum of a point:

    - second derivatives are at most the bound, so it is <v, gradient> / K less bound r^2 / (2 K^2) (paper
      003, Lemma 1);
    - going from x^k to x^(k+1) is adding each item i independently with chance p_i = v_i / (K (1 - x_i)) <=
      v_i / (K - k + 1). If exactly one item comes, it adds what it adds to x^k; so the gain is at least
      c_k <v, gradient> / K, where c_k = (1 - 1/(K - k + 1))^r is the least chance that no other comes.

    The first alone loses r^2 / K, the second r ln(K) / K. The second is used up to the step k0 after which
    the first is better: the gap to the best value v is then at most a v + b at the end, and what is lost
    beyond v / e is largest at v = 0 or v = bound. The best k0 is taken.
    """
    stay = 1.0 - 1.0 / steps
    each = bound * rank * rank / (2.0 * steps * steps)
    least, product = math.inf, 1.0
    for k0 in range(steps + 1):
        if k0:
            product *= 1.0 - (1.0 - 1.0 / (steps - k0 + 1)) ** rank / steps
        later = stay ** (steps - k0)
        b = each * steps * (1.0 - later)
        least = min(least, max(b, (product * later - 1.0 / math.e) * bound + b))
    return rounds * least


def smooth_discretization(steps: int, radius: float, smoothness: float, rounds: int) -> float:
    """The loss of ``steps`` steps for functions of L2 ``smoothness`` at points of length up to ``radius``."""
    return rounds * smoothness * radius * radius / (2.0 * steps)


def payoff(steps: int, rank: float, bound: float = 1.0) -> float:
    """The largest average payoff of a round to the experts, <v^k, gradient at x^k> over k.

    Each is at most rank times the bound; together they exceed the value of the final point, at most the
    bound, by no more than the second derivatives allow.
    """
    return bound * min(rank, 1.0 + rank * rank / (2.0 * steps))


def entropic(
    spread: float, paid: float, rounds: int, rate: float, batch: int = 1, bound: float = 1.0
) -> float:
    """An expert with regularizer sum x ln x - x on sums of ``batch`` rounds: S / rate + rate B m T p.

    ``spread`` S is the regularizer's range over the polytope and ``paid`` the average payoff of a round; the
    local-norm analysis needs rate B bound <= 1, and the result is infinite beyond.
    """
    if rate * batch * bound > 1.0 + 1e-12:
        return math.inf
    return spread / rate + rate * batch * bound * paid * rounds


def best_entropic_rate(spread: float, paid: float, rounds: int, batch: int = 1, bound: float = 1.0) -> float:
    """The rate that minimizes `entropic`, within its condition."""
    wanted = math.sqrt(max(spread, 1e-12) / (batch * bound * paid * rounds))
    return min(wanted, 1.0 / (batch * bound))


def euclidean(radius: float, length: float, rounds: int, rate: float, batch: int = 1) -> float:
    """An expert with regularizer |x|^2 / 2 on a domain of this ``radius``, for gradients up to ``length``."""
    return radius * radius / (2.0 * rate) + rate * batch * length * length * rounds / 2.0


def best_euclidean_rate(radius: float, length: float, rounds: int, batch: int = 1) -> float:
    """The rate that minimizes `euclidean`."""
    return max(radius, 1e-12) / (length * math.sqrt(batch * rounds))


def approximate_leader(radius: float, length: float, rounds: int, curvature: float, noise: float) -> float:
    """Paper 004's leader on linear payoffs made ``curvature``-strongly concave; ``noise`` is E |error|.

    The added curvature costs H T R^2 / 2, the leader G^2 (1 + ln T) / (2 H), and following a noisy sum moves
    the leader of round t by at most |error| / (t H).
    """
    logs = 1.0 + math.log(rounds)
    return (
        curvature * rounds * radius * radius / 2.0
        + length * (length / 2.0 + noise) * logs / curvature
        + 2.0 * length * radius  # the first point is arbitrary
    )


def set_maximum(n_items: int, rank: float, deviation: float) -> float:
    """Bound on E max <N, x> over points of sum at most ``rank`` in [0, 1]^n, for Gaussian noise.

    From the n coordinates one by one, or from all (e n / r)^r sets of r items at once.
    """
    each = gaussian_maximum(max(n_items, 2), deviation)  # a single item may also be left out
    together = deviation * math.sqrt(2.0 * math.log(math.e * n_items / min(rank, n_items)))
    return rank * min(each, together)


def laplace_set_maximum(n_items: int, rank: float, scale: float, draws: int) -> float:
    """`set_maximum` for sums of ``draws`` Laplace variables in each coordinate."""
    return rank * laplace_maximum(max(n_items, 2), scale, draws)


def box_maximum(widths: Sequence[float], deviation: float, *, gaussian: bool) -> float:
    """Bound on E max <N, x> - <N, centre> over a box: half its widths times E |N_i|."""
    mean = deviation * (math.sqrt(2.0 / math.pi) if gaussian else 1.0)
    return sum(widths) / 2.0 * mean


def published_steps(rounds: int) -> int:
    """Paper 003: K of the order of the square root of T."""
    return max(1, math.ceil(math.sqrt(rounds)))


def published_leader_steps(rounds: int) -> int:
    """Paper 000, Algorithm 4: K = (T / ln^2.5 T)^(1/4), at least 1."""
    logs = math.log(max(rounds, 2))
    return max(1, round(math.sqrt(math.sqrt(rounds / logs**2.5))))


def published_scale(
    n_items: int, rounds: int, steps: int, epsilon: float, delta: float, bound: float
) -> float:
    """Paper 003, Theorem 4: Laplace noise 2 m n ln T sqrt(2 K ln(1/delta)) / epsilon of a tree's node."""
    logs = math.log(max(rounds, 2))
    return 2.0 * bound * n_items * logs * math.sqrt(2.0 * steps * math.log(1.0 / delta)) / epsilon


def published_curvature(dimension: int, rounds: int, epsilon: float) -> float:
    """Paper 000, Theorem 10: the leader's H = sqrt(n ln^2.5 T / (epsilon T)), epsilon of one expert."""
    logs = max(math.log(max(rounds, 2)), 1.0)
    return math.sqrt(dimension * logs**2.5 / (epsilon * rounds))


def published_meta(n_items: int, reach: float, rounds: int, epsilon: float, delta: float) -> float:
    """Paper 003, Theorem 4: R sqrt(T ln n) + R^(3/2) n T^(1/4) sqrt(ln(1/delta)) / epsilon.

    ``reach`` R is the rank of a matroid, or 1 over the least cost of a knapsack of capacity 1. Only the order
    is printed, and powers of ln T are hidden in the second term; constants are 1 here.

    >>> round(published_meta(8, 2.0, 333, 8.0, 1e-6))
    98
    """
    size = math.pow(reach, 1.5) * n_items * math.pow(rounds, 0.25)
    private = size * math.sqrt(math.log(1.0 / delta)) / epsilon
    return reach * math.sqrt(rounds * math.log(n_items)) + private


def published_leaders(rounds: int, epsilon: float) -> float:
    """Paper 000, Theorem 9: T^(3/4) (ln(T)^2.5)^(1/4) / epsilon.

    Only the order in T and epsilon is printed, for constant dimension, gradients and diameter (they are in
    `published_leaders_derived`); constants are 1 here.

    >>> round(published_leaders(250, 8.0))
    23
    """
    return math.pow(rounds, 0.75) * math.pow(math.log(rounds), 0.625) / epsilon


def published_leaders_derived(
    dimension: int,
    rounds: int,
    epsilon: float,
    length: float,
    smoothness: float,
    radius: float,
    diameter: float,
) -> float:
    """Paper 000, Lemma 5: the last line of its proof, with the K of Algorithm 4 (not rounded).

    sqrt(n ln(T)^2.5) (G + sqrt(n ln(T)^2.5 K / (epsilon T)) diam)^2 K sqrt(T) / epsilon + b R^2 T / (2 K),
    where G is the longest gradient and b the smoothness. The first term is known to its order only; its
    constant is 1 here.
    """
    logs = math.pow(math.log(rounds), 2.5)
    steps = max(1.0, math.pow(rounds / logs, 0.25))
    slope = length + math.sqrt(dimension * logs * steps / (epsilon * rounds)) * diameter
    leaders = math.sqrt(dimension * logs) * slope**2 * steps * math.sqrt(rounds) / epsilon
    return leaders + smooth_discretization(1, radius, smoothness, rounds) / steps
