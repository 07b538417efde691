"""Certified regret, as functions: what the theorems promise for given settings, in units of reward.

All bounds are on the expected (1 - 1/e)-regret against the best fixed set, for streams fixed in advance
(or chosen without looking at the learner's coins), of monotone submodular functions with values in
[0, bound]. A learner's account does not depend on them.
"""

from __future__ import annotations

import math

ALPHA = 1.0 - 1.0 / math.e


def trivial(rounds: int, bound: float = 1.0) -> float:
    """What doing nothing at all can lose."""
    return ALPHA * rounds * bound


def published_rate(k: int, rounds: int, epsilon: float, delta: float, bound: float = 1.0) -> float:
    """Learning rate of paper 000: Algorithm 2, and Proposition 2 for k = 1."""
    return epsilon / (k * math.sqrt(32.0 * rounds * math.log(k / delta)) * bound)


def published_hedge(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """Theorem 6 of paper 000, evaluated before its constants are hidden: k (rate T + ln n / rate)."""
    rate = published_rate(k, rounds, epsilon, delta)
    return k * (rate * rounds + math.log(n_items) / rate)


def hedge(n_items: int, k: int, rounds: int, rate: float, batch: int = 1, bound: float = 1.0) -> float:
    """k ordered Hedge experts at ``rate``, a new set every ``batch`` rounds: rate B T + k ln n / rate.

    Hedge's second-order inequality for each expert, with gains of a batch in [0, B bound]; the gains of the
    k chosen items add up to the set's value, so the quadratic terms of all experts together are at most
    rate B bound times the total reward. It needs rate B bound <= 1. Leaving out candidates that are already
    in the set only helps: their gains are 0.
    """
    if n_items == 1:
        return 0.0
    unit = rate * bound
    if unit <= 0.0 or unit * batch > 1.0:
        return trivial(rounds, bound)
    return min(trivial(rounds, bound), bound * (unit * batch * rounds + k * math.log(n_items) / unit))


def best_rate(n_items: int, k: int, rounds: int, batch: int = 1, bound: float = 1.0) -> float:
    """The rate that `hedge` is smallest at, within its condition."""
    wanted = math.sqrt(k * math.log(max(n_items, 2)) / (batch * rounds))
    return min(wanted, 1.0 / batch) / bound


def noisy_leader(
    n_items: int, k: int, rounds: int, rate: float, noise: float, batch: int = 1, bound: float = 1.0
) -> float:
    """k experts that follow the regularised leader on noisy sums: `hedge` plus k times the noise's pull.

    ``noise`` is the expected largest of n_items coordinates of the noise in the last sum (`gaussian_pull`,
    `laplace_pull`). The noise of an expert is independent of its gains, and its size never falls from one
    sum to the next, so it can be replaced by a single growing perturbation (Agarwal and Singh 2017; for
    growing noise, be-the-leader on losses and increments in turn). The comparator is fixed, so its own noise
    averages out.
    """
    return min(trivial(rounds, bound), hedge(n_items, k, rounds, rate, batch, bound) + k * noise)


def gaussian_pull(n_items: int, deviation: float) -> float:
    """Bound on the expected largest of ``n_items`` centred Gaussians: deviation sqrt(2 ln n)."""
    return deviation * math.sqrt(2.0 * math.log(max(n_items, 1)))


def laplace_pull(n_items: int, scale: float, draws: int) -> float:
    """Bound on the expected largest of ``n_items`` sums of ``draws`` Laplace variables of ``scale``.

    The moment generating function bounds it by (ln n - draws ln(1 - s^2)) scale / s for every s in (0, 1).
    """
    if n_items <= 1:
        return 0.0
    logs = math.log(n_items)
    return min((logs - draws * math.log1p(-s * s)) * scale / s for s in (i / 400.0 for i in range(1, 400)))
