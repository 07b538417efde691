"""Certified losses of continuous greedy, as functions: additive, in the units of the objective.

A certificate says E F(x) >= (1 - kappa/e) F(S*) - loss, for monotone submodular F with F(empty set) = 0 and
total curvature kappa (take 1 if it is not known), the fractional point x, and the best feasible set S*.
``most`` is a public number that F nowhere exceeds, ``single`` one that no F({j}) exceeds, and ``reach`` is
the largest sum of the entries of a feasible point: the rank, or capacity / least cost for a knapsack.
"""

from __future__ import annotations

import math


def ratio_within_steps(steps: int, curvature: float = 1.0) -> float:
    """The guaranteed share of the best set when the gradient is looked at after every pick of a step.

    1 - kappa (1 + 1/K)^-K. Along a single item F is linear, so a step from x to x' gains exactly the mean of
    the entries met on the way; those are no smaller than at x', where those of the best set are at least
    F(S*) - F(x') together. Hence (1 + 1/K)(F(S*) - F(x')) <= F(S*) - F(x) in each of K steps: no
    second-order term is lost, and even one step is a 1/2-approximation. With the weights (1 + 1/K)^(k-K-1)
    on what is above the last gradient, the same sum telescopes to the version with kappa.

    >>> round(ratio_within_steps(1), 3), round(ratio_within_steps(4), 3), ratio_within_steps(4, 0.0)
    (0.5, 0.59, 1.0)
    """
    return 1.0 - curvature * (1.0 + 1.0 / steps) ** -steps


def lost_within_steps(steps: int, most: float, curvature: float = 1.0) -> float:
    """What finitely many steps lose against 1 - kappa/e, when the gradient is looked at after every pick."""
    return most * max(0.0, 1.0 - curvature / math.e - ratio_within_steps(steps, curvature))


def lost_between_steps(steps: int, single: float, reach: float, *, vertices_are_sets: bool = True) -> float:
    """What finitely many steps lose when the gradient is looked at once a step: single R^2 / (2 K).

    Paper 003, Lemmas 1 and 2: second derivatives lie in [-single, 0]. They are 0 on the diagonal, so a step
    towards a set loses only R^2 - R.

    >>> lost_between_steps(10, 1.0, 5.0), lost_between_steps(10, 1.0, 5.0, vertices_are_sets=False)
    (1.0, 1.25)
    """
    return single * (reach * reach - (reach if vertices_are_sets else 0.0)) / (2.0 * steps)


def places(n_people: int) -> int:
    """Binary places of a person's gradient, below a power of two that is not below the bound: 30, or less.

    The sum over n people is then an integer number of steps below 2^53, where floats are exact.

    >>> places(1 << 22), places(10**8)
    (30, 26)
    """
    return min(30, 53 - n_people.bit_length())


def lost_to_rounding(most: float, reach: float, n_people: int = 1) -> float:
    """What rounding every person's gradient down to these places can lose, twice over."""
    return most * reach * 2.0 ** (2 - places(n_people))


def lost_to_picks(n_items: int, reach: float, rate: float) -> float:
    """What exponential-mechanism picks lose: each falls short of the best by ln n / rate on average."""
    return reach * math.log(max(n_items, 1)) / rate if rate > 0.0 else math.inf


def lost_to_knapsack_picks(n_items: int, reach: float, rate: float, picks: int) -> float:
    """The same for M picks by entry per cost: the worst of them falls short by (ln(n M) + 1) / rate.

    Up to any cost that has been spent, the densest item left is no worse than what the best fractional
    filling holds there; a pick that falls short by s, in entry per least cost, loses at most s times what it
    costs in units of the least cost, and these costs sum to the reach.
    """
    return reach * (math.log(max(n_items * picks, 1)) + 1.0) / rate if rate > 0.0 else math.inf


def lost_to_laplace(n_items: int, reach: float, scale: float) -> float:
    """What Laplace noise on the gradient loses: R times the expected largest of n, scale x H_n.

    Half of paper 003's G_D: the best set does not depend on the noise, so its share of it has mean 0.
    """
    return reach * scale * sum(1.0 / j for j in range(1, n_items + 1))


def lost_to_gaussian(n_items: int, reach: float, sigma: float) -> float:
    """The same for Gaussian noise: R sigma sqrt(2 ln n)."""
    return reach * sigma * math.sqrt(2.0 * math.log(max(n_items, 2)))


def published_steps(n_items: int, single: float, reach: float, epsilon: float, sensitivity: float) -> int:
    """K of paper 003's Theorem 3 with its constants written out.

    The minimum of m R^2 / (2K) + 4 R K n Delta H_n / epsilon is at K = sqrt(m R epsilon / (8 n Delta H_n)).
    """
    harmonic = sum(1.0 / j for j in range(1, n_items + 1))
    return max(1, round(math.sqrt(single * reach * epsilon / (8.0 * n_items * sensitivity * harmonic))))
