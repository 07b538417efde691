"""Certified losses of continuous greedy, as functions: additive, in the units of the objective.

A certificate says E F(x) >= (1 - kappa/e) F(S*) - loss, for monotone submodular F with F(empty set) = 0 and
total curvature kappa (take 1 if it is not known), the fractional point x, and the best feasible set S*.
``most`` is a public number that F nowhere exceeds, ``single`` one that no F({j}) exceeds, and ``reach`` is
the largest sum of the entries of a feasible point: the rank, or capacity / least cost for a knapsack.

Losses to noise are bounds on the expectation or, with ``chance``, bounds that are exceeded with at most that
probability over the noise of K ``steps`` (paper 003, Lemmas 3 and 4, for any probability). A step loses at
most <v - x*, Y> / K to its noise Y, where v is the vertex that it moves towards and x* the best set; losses
between steps and to rounding are deterministic.
"""

from __future__ import annotations

import math


def ratio_within_steps(steps: int, curvature: float = 1.0) -> float:
    """The guaranteed share of the best set's value if the gradient is evaluated after every pick of a step.

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
    """The loss of finitely many steps against 1 - kappa/e, if the gradient is evaluated after every pick."""
    return most * max(0.0, 1.0 - curvature / math.e - ratio_within_steps(steps, curvature))


def lost_between_steps(steps: int, single: float, reach: float, *, vertices_are_sets: bool = True) -> float:
    """The loss of finitely many steps if the gradient is evaluated once per step: single R^2 / (2 K).

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
    """Twice the largest loss from rounding every person's gradient down to `places`."""
    return most * reach * 2.0 ** (2 - places(n_people))


def lost_to_picks(
    n_items: int, reach: float, rate: float, steps: int = 1, chance: float | None = None
) -> float:
    """The loss of exponential-mechanism picks: each falls short of the best by ln n / rate on average.

    Whatever was picked before, a pick falls short by more than (ln n + t) / rate with probability at most
    exp(-t): beyond their ln n, K R picks together lose no more than as many exponential variables.
    """
    if not rate > 0.0:
        return math.inf
    beyond = 0.0 if chance is None else _gamma_quantile(steps * reach, chance) / steps
    return (reach * math.log(max(n_items, 1)) + beyond) / rate


def lost_to_knapsack_picks(
    n_items: int, reach: float, rate: float, picks: int, chance: float | None = None
) -> float:
    """The loss of M picks by entry per cost: the worst of them falls short by (ln(n M) + 1) / rate.

    At any cost spent so far, the densest item left is no worse than the density of the best fractional
    filling there; a pick that falls short by s, in entry per least cost, loses at most s times its cost in
    units of the least cost, and these costs sum to the reach.
    """
    beyond = 1.0 if chance is None else math.log(1.0 / chance)
    return reach * (math.log(max(n_items * picks, 1)) + beyond) / rate if rate > 0.0 else math.inf


def lost_to_laplace(
    n_items: int, reach: float, scale: float, steps: int = 1, chance: float | None = None
) -> float:
    """The loss to Laplace noise on the gradient: R times the expected largest of n, scale x H_n.

    This is half of paper 003's G_D: the best set does not depend on the noise, so its share has mean 0.

    With ``chance``, half of it for each of two parts. The largest of n is beyond scale (ln(n/2) + t) with
    probability at most exp(-t), so R times their mean over the steps is at most that with a Gamma variable of
    shape K over K for t. The best set's share is a sum of Laplace variables with weights up to 1/K and their
    squares up to R/K together: Chernoff's bound, at its best, for K R weights of 1/K.
    """
    if chance is None:
        return reach * scale * sum(1.0 / j for j in range(1, n_items + 1))
    from scipy.optimize import minimize_scalar

    largest = math.log(max(n_items / 2.0, 1.0)) + _gamma_quantile(steps, chance / 2.0) / steps

    def fixed(q: float) -> float:
        return (math.log(2.0 / chance) - reach * steps * math.log1p(-q * q)) / (steps * q)

    share = minimize_scalar(fixed, bounds=(1e-9, 1.0 - 1e-12), method="bounded").fun
    return scale * (reach * largest + float(share))


def lost_to_gaussian(
    n_items: int, reach: float, sigma: float, steps: int = 1, chance: float | None = None
) -> float:
    """The loss to Gaussian noise on the gradient: R sigma sqrt(2 ln n).

    The mean over the steps of the largest <v - x*, Y> moves by at most sqrt(2 R / K) times what the noise
    does, as two points of the polytope are no farther apart than sqrt(2 R); hence Gaussian concentration.
    """
    beyond = 0.0 if chance is None else 2.0 * math.sqrt(reach * math.log(1.0 / chance) / steps)
    return sigma * (reach * math.sqrt(2.0 * math.log(max(n_items, 2))) + beyond)


def _gamma_quantile(shape: float, chance: float) -> float:
    """The value that a sum of ``shape`` exponential variables exceeds with probability ``chance``."""
    from scipy.special import gammainccinv

    return float(gammainccinv(shape, chance))


def published_steps(n_items: int, single: float, reach: float, epsilon: float, sensitivity: float) -> int:
    """K of paper 003's Theorem 3 with its constants written out.

    The minimum of m R^2 / (2K) + 4 R K n Delta H_n / epsilon is at K = sqrt(m R epsilon / (8 n Delta H_n)).
    """
    harmonic = sum(1.0 / j for j in range(1, n_items + 1))
    return max(1, round(math.sqrt(single * reach * epsilon / (8.0 * n_items * sensitivity * harmonic))))
