"""Certified regret of submodular minimization: bounds on the expected cost beyond that of the best fixed set.

For submodular costs with values in [-bound, bound]. With full information the streams may depend on earlier
sets, not on the randomness of the round. Where costs are learned from single values, they may not depend on
the randomness of the batch, and the bound is then about any one set named beforehand: which set is best in
the end depends on what was explored. A learner's account does not depend on any of this.

One argument throughout. The Lovasz extension is convex and equals the expected cost of a set drawn by
threshold, so a round costs at most g . (x_t - x) more than the best point x, with g the gradient at x_t. Let
y_t follow the same regularized leader on the same gradients without noise. Then sum g . (y_t - x) is at most
the regularizer's range plus sum |g|^2 / (2 H), and g . (x_t - y_t) is at most the inner product of a gradient
with the displacement that the noise of the sum can cause: see `noise_cost`. (Paper 001 compares with a leader
that takes its gradients elsewhere, and pays |g|^2 / H twice.)
"""

from __future__ import annotations

import math

from .selection import laplace_maximum


def trivial_cost(rounds: int, bound: float = 1.0) -> float:
    """Bound on the excess cost of any sequence of sets: the full range of costs, every round."""
    return 2.0 * bound * rounds


def gradient_length(n_items: int, bound: float = 1.0, norm: int = 2, *, empty_is_free: bool = False) -> float:
    """The largest norm of a gradient of the Lovasz extension, in L1 or L2.

    Gradients along one chain of sets are exactly 2 bound times the convex hull of 0, e_i, -e_i and
    e_i - e_j for i before j in the chain: a cost climbs to an item's step from the bottom of its range,
    and what falls later had to rise first or was there from the start. (Those corners are cuts of one arc,
    single items and their complements.) ``empty_is_free``: costs of the empty set are 0, which leaves bound
    times the sum of the hulls of {0, e_i, e_i - e_j} and of {0, -e_i}.

    >>> round(gradient_length(5) ** 2, 9), gradient_length(5, norm=1)
    (8.0, 4.0)
    """
    if n_items == 1:
        return bound if empty_is_free else 2.0 * bound
    if empty_is_free:
        return bound * (math.sqrt(5.0) if norm == 2 else 3.0)
    return bound * (2.0 * math.sqrt(2.0) if norm == 2 else 4.0)


def gradient_difference(
    n_items: int, bound: float = 1.0, norm: int = 2, *, empty_is_free: bool = False
) -> float:
    """The largest distance of two gradients along the same chain, in L1 or L2.

    Less than twice their length, because no corner's opposite is among them: from e_1 - e_2 to e_2 - e_3,
    2 sqrt(6) bound in L2. Paper 001 calibrates noise to 4 bound, which is too little.

    >>> round(gradient_difference(3) ** 2, 9), gradient_difference(3, norm=1)
    (24.0, 8.0)
    """
    if n_items == 1:
        return bound * (2.0 if empty_is_free else 4.0)
    if empty_is_free:
        squares, total = (13.0, 5.0) if n_items == 2 else (14.0, 6.0)
    else:
        squares, total = (20.0, 6.0) if n_items == 2 else (24.0, 8.0)
    return bound * (math.sqrt(squares) if norm == 2 else total)


def noise_cost(
    n_items: int,
    noise: str,
    scale: float,
    draws: float = 1.0,
    bound: float = 1.0,
    *,
    empty_is_free: bool = False,
) -> float:
    """Bound on the cost of noise per round, times the regularization H: the largest g . z of a gradient g.

    ``scale`` is the Gaussian's standard deviation, or the scale of each of ``draws`` Laplace vectors. A
    gradient lifts single coordinates by at most 2 bound in all and lowers them by as much (bound and
    2 bound where the empty set is free), so 4 (3) bound times the expected largest coordinate of the noise;
    or, where that is less, its length times the noise's.
    """
    if scale == 0.0:
        return 0.0
    length = gradient_length(n_items, bound, empty_is_free=empty_is_free)
    spread = (3.0 if empty_is_free else 4.0) * bound
    if noise == "spherical":
        return length * scale * math.sqrt(draws * n_items * (n_items + 1.0))
    if noise == "laplace":
        largest = laplace_maximum(n_items + 1, scale, math.ceil(draws))
        return min(spread * largest, length * scale * math.sqrt(2.0 * n_items * draws))
    largest = scale * math.sqrt(2.0 * math.log(n_items + 1.0))
    return min(spread * largest, length * scale * math.sqrt(n_items))


def lovasz_leader(
    n_items: int,
    rounds: int,
    regularization: float,
    noise: float = 0.0,
    bound: float = 1.0,
    *,
    empty_is_free: bool = False,
    centre: float = 0.5,
) -> float:
    """The regularized leader on (noisy) sums of gradients: T (|g|^2 / 2 + noise) / H + H n r^2 / 2.

    T is ``rounds``, H ``regularization``, |g| `gradient_length`, and ``noise`` the average of `noise_cost`
    over the rounds. r is the largest distance of a coordinate in [0, 1] from ``centre``: 1/2, or 1 for paper
    001's centre 0. Never more than `trivial_cost`.
    """
    if regularization <= 0.0:
        return trivial_cost(rounds, bound)
    length = gradient_length(n_items, bound, empty_is_free=empty_is_free)
    reach = max(centre, 1.0 - centre)
    total = rounds * (length**2 / 2.0 + noise) / regularization + regularization * n_items * reach**2 / 2.0
    return min(trivial_cost(rounds, bound), total)


def best_regularization(
    n_items: int, rounds: int, noise: float = 0.0, bound: float = 1.0, *, empty_is_free: bool = False
) -> float:
    """The regularization that minimizes `lovasz_leader`."""
    length = gradient_length(n_items, bound, empty_is_free=empty_is_free)
    return math.sqrt(8.0 * rounds * (length**2 / 2.0 + noise) / n_items)


def explored(
    n_items: int,
    rounds: int,
    batch: int,
    exploration_rate: float,
    regularization: float,
    second_moment: float,
    bound: float = 1.0,
    *,
    centre: float = 0.5,
) -> float:
    """Costs learned from single values: 2 gamma M T + T V / (gamma H) + B H n r^2 / 2.

    gamma is the share of rounds that explore, B how many rounds share one set. V, the ``second_moment`` of
    the estimates, is `value_second_moment` for noise on the values and `estimate_second_moment` for noise in
    the sum of estimates.
    """
    reach = max(centre, 1.0 - centre)
    total = (
        2.0 * exploration_rate * bound * rounds
        + rounds * second_moment / (exploration_rate * regularization)
        + batch * regularization * n_items * reach**2 / 2.0
    )
    return min(trivial_cost(rounds, bound), total)


def value_second_moment(n_items: int, batch: int, scale: float, bound: float = 1.0) -> float:
    """Half the mean squared length of an estimate, times gamma; Laplace noise of ``scale`` on a batch's sum.

    The estimate y (e_i - e_{i+1}) / rho_i is unbiased (e_0 = e_{n+1} = 0), and its squared length is at most
    2 E y^2 sum 1 / rho_i in expectation: 2 (M^2 + 2 (scale / B)^2) (n + 1)^2 / gamma.
    """
    return (bound**2 + 2.0 * (scale / batch) ** 2) * (n_items + 1.0) ** 2


def estimate_second_moment(
    n_items: int, noise: float, bound: float = 1.0, *, one_sided: bool = False
) -> float:
    """As `value_second_moment` for exact values, plus gamma times what noise in the estimates' sum costs.

    The estimates are unbiased given both leaders' points, so the noise costs what it would cost a true
    gradient: ``noise`` is gamma times `noise_cost`. ``one_sided`` is paper 001's estimate, twice the size on
    one of the two coordinates by a fair coin.
    """
    return bound**2 * (2.0 if one_sided else 1.0) * (n_items + 1.0) ** 2 + noise


def best_exploration_rate(
    n_items: int, rounds: int, batch: int, second_moment: float, bound: float = 1.0
) -> float:
    """The share of exploring rounds with the smallest bound, if learning costs V / (gamma H) a round.

    Above 1 when the horizon is too short for it: see `rounds_needed`.
    """
    return float((n_items * batch * second_moment / (32.0 * bound**2 * rounds)) ** (1.0 / 3.0))


def rounds_needed(n_items: int, batch: int, second_moment: float, bound: float = 1.0) -> int:
    """The shortest horizon for which `best_exploration_rate` is at most 1."""
    return math.ceil(n_items * batch * second_moment / (32.0 * bound**2))


def published_exploration_rate(n_items: int, rounds: int) -> float:
    """Paper 001's gamma = n^(3/2) / T^(1/3), Theorem 9; above 1 for T below n^(9/2)."""
    return math.exp(1.5 * math.log(n_items) - math.log(rounds) / 3.0)


def published_bandit_excess(n_items: int, rounds: int) -> float:
    """The factor by which a node of paper 001's bandit tree exceeds its claim: (n + 1) / (n sqrt gamma).

    Its noise is set by the estimates' expected length, 4 M n / sqrt(gamma). One estimate can be
    2 M (n + 1) / gamma, and one person can turn its sign.

    >>> round(published_bandit_excess(5, 10**6), 2)
    3.59
    """
    gamma = min(1.0, published_exploration_rate(n_items, rounds))
    ends = 1.0 if n_items > 1 else 0.5
    return ends * (n_items + 1.0) / (n_items * math.sqrt(gamma))


def published_minimizer(n_items: int, rounds: int, epsilon: float, bound: float = 1.0) -> float:
    """Theorem 7 of paper 001 before its constants are hidden, at H = M sqrt(T) and L = 4 M."""
    strength, length = bound * math.sqrt(rounds), 4.0 * bound
    private = 4.0 * n_items * length**2 * rounds * math.pow(math.log(rounds), 1.5) / (epsilon * strength)
    return 2.0 * rounds * length**2 / strength + strength * n_items / 2.0 + private


def published_bandit_minimizer(n_items: int, rounds: int, epsilon: float, bound: float = 1.0) -> float:
    """Theorem 9 of paper 001 before its constants are hidden, at its gamma (at most 1) and H = M T^(2/3)."""
    gamma = min(1.0, published_exploration_rate(n_items, rounds))
    strength, n = bound * math.exp(math.log(rounds) * 2.0 / 3.0), float(n_items)
    learning = 32.0 * bound**2 * n**2 * rounds / (strength * gamma) + n * strength
    sampling = 2.0 * gamma * bound * rounds + 8.0 * bound * n * math.sqrt(rounds / gamma)
    private = 64.0 * n**3 * bound**2 * rounds * math.pow(math.log(rounds), 1.5) / (epsilon * gamma * strength)
    return learning + sampling + private
