"""Certified regret, as functions: what the theorems guarantee for given settings, in units of reward.

All bounds are on the expected (1 - 1/e)-regret against the best fixed set, for streams fixed in advance
(or chosen without looking at the learner's randomness), of monotone submodular functions with values in
[0, bound]. A learner's account does not depend on them.
"""

from __future__ import annotations

import math

from .greedy import sampling_loss

ALPHA = 1.0 - 1.0 / math.e


def trivial(rounds: int, bound: float = 1.0) -> float:
    """The regret bound that holds without learning anything."""
    return ALPHA * rounds * bound


def at_random(n_items: int, k: int, rounds: int, bound: float = 1.0) -> float:
    """Bound on the regret of k random items every round, which earn at least k/n of all items' joint value.

    By submodularity a random k-subset has in expectation at least k/n of the value of the ground set.
    """
    return max(0.0, ALPHA - k / n_items) * rounds * bound


def published_rate(k: int, rounds: int, epsilon: float, delta: float, bound: float = 1.0) -> float:
    """Learning rate of paper 000: Algorithm 2, and Proposition 2 for k = 1."""
    return epsilon / (k * math.sqrt(32.0 * rounds * math.log(k / delta)) * bound)


def published_hedge(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """Theorem 6 of paper 000, evaluated before its constants are hidden: k (rate T + ln n / rate)."""
    rate = published_rate(k, rounds, epsilon, delta)
    return k * (rate * rounds + math.log(n_items) / rate)


def published_private_experts(n_items: int, k: int, rounds: int, epsilon: float) -> float:
    """Paper 000, Section 3: paper 004's experts instead of Hedge, k^2 sqrt(n T ln(T)^2.5) / epsilon.

    Only the order is printed; constants are 1 here.

    >>> round(published_private_experts(8, 1, 2000, 8.0))
    200
    """
    return k**2 * math.sqrt(n_items * rounds * math.log(rounds) ** 2.5) / epsilon


def hedge(n_items: int, k: int, rounds: int, rate: float, batch: int = 1, bound: float = 1.0) -> float:
    """k ordered Hedge experts at ``rate``, a new set every ``batch`` rounds: rate B T + k ln n / rate.

    Hedge's second-order inequality for each expert, with gains of a batch in [0, B bound]; the gains of the
    k chosen items add up to the set's value, so the quadratic terms of all experts together are at most
    rate B bound times the total reward. It needs rate B bound <= 1. Leaving out candidates that are already
    in the set only helps: their gains are 0.
    """
    return min(trivial(rounds, bound), unclipped_hedge(n_items, k, rounds, rate, batch, bound))


def best_rate(n_items: int, k: int, rounds: int, batch: int = 1, bound: float = 1.0) -> float:
    """The rate that minimizes `hedge`, within its condition."""
    wanted = math.sqrt(k * math.log(max(n_items, 2)) / (batch * rounds))
    return min(wanted, 1.0 / batch) / bound


def falling_hedge(
    n_items: int,
    k: int,
    rounds: int,
    rate: float,
    fastest: float,
    batch: int = 1,
    bound: float = 1.0,
    *,
    clipped: bool = True,
) -> float:
    """The bound of `hedge` at a falling rate: min(fastest, rate sqrt(T / t)) after t rounds.

    For bound 1 it is at most B (2 rate T + fastest B) + k ln n / min(rate, fastest).
    The potential ln(mean of exp(rate * sum)) / rate never rises when the rate falls (a power mean), so each
    batch costs what it would at its own rate, and the last rate pays for the comparator. The rates after
    B, 2 B, ... rounds, B times each, add up to at most 2 rate T; the first batch is charged at the fastest.
    It needs fastest B bound <= 1; without ``clipped`` it is infinite where that does not hold.
    """
    if k >= n_items:
        return 0.0
    most = trivial(rounds, bound) if clipped else math.inf
    if rate <= 0.0 or fastest * bound * batch > 1.0 + 1e-12:
        return most
    quadratic = batch * bound * (2.0 * rate * rounds + fastest * batch)
    return min(most, bound * quadratic + k * math.log(n_items) / min(rate, fastest))


def noisy_leader(
    n_items: int,
    k: int,
    rounds: int,
    rate: float,
    noise: float,
    batch: int = 1,
    bound: float = 1.0,
    *,
    fastest: float | None = None,
) -> float:
    """k experts that follow the regularized leader on noisy sums: `hedge` plus k times the noise's maximum.

    ``noise`` is the expected maximum of n_items coordinates of the noise in the last sum (`gaussian_maximum`,
    `laplace_maximum`). The noise of an expert is independent of its gains, and its size never falls from one
    sum to the next, so it can be replaced by a single growing perturbation (Agarwal and Singh 2017; for
    growing noise, be-the-leader on losses and increments in turn). The comparator is fixed, so its own noise
    averages out. With ``fastest`` the rate (`falling_hedge`) depends on the number of rounds alone, so that a
    round's probabilities still depend on the noise of one sum only, and the same replacement holds.
    """
    if k >= n_items:
        return 0.0
    if fastest is None:
        learned = hedge(n_items, k, rounds, rate, batch, bound)
    else:
        learned = falling_hedge(n_items, k, rounds, rate, fastest, batch, bound)
    return min(trivial(rounds, bound), learned + k * noise)


def following(
    rounds: int, rate: float, prior: float, deviation: float, batch: int = 1, bound: float = 1.0
) -> float:
    """Bound on the regret of Hedge over two learners against the one with initial weight ``prior``.

    For bound 1 it is ln(1 / prior) / rate + rate B T / 8 + deviation / sqrt(2 pi), where Hedge sees the sum
    of the differences of their rewards with Gaussian noise whose ``deviation`` never falls. Proof. Let D be
    the difference so far and take ln((1 - prior) exp(rate (D + noise)) + prior) / rate. A batch raises it by
    at most the earnings beyond the learner with the prior, plus rate (B bound)^2 / 8 (Hoeffding's lemma).
    The noise, coupled as one growing Gaussian, raises it on average by at most the rise of its deviation
    times the mean of a positive part, 1 / sqrt(2 pi). It starts at 0 and is never below ln(prior) / rate.
    Both learners learn from everybody in any case, so the differences do not depend on this noise.
    """
    quadratic = rate * batch * bound * rounds * bound / 8.0
    return -math.log(prior) / rate + quadratic + deviation / math.sqrt(2.0 * math.pi)


def gaussian_maximum(n_items: int, deviation: float) -> float:
    """Bound on the expected largest of ``n_items`` centred Gaussians: deviation sqrt(2 ln n)."""
    return deviation * math.sqrt(2.0 * math.log(max(n_items, 1)))


def laplace_maximum(n_items: int, scale: float, draws: int) -> float:
    """Bound on the expected largest of ``n_items`` sums of ``draws`` Laplace variables of ``scale``.

    The moment generating function bounds it by (ln n - draws ln(1 - s^2)) scale / s for every s in (0, 1).
    """
    if n_items <= 1:
        return 0.0
    logs = math.log(n_items)
    return min((logs - draws * math.log1p(-s * s)) * scale / s for s in (i / 400.0 for i in range(1, 400)))


def phased(
    n_items: int,
    k: int,
    rounds: int,
    rate: float,
    first_window: int,
    *,
    growth: int = 2,
    chance: float = 1.0,
    bound: float = 1.0,
    clipped: bool = True,
) -> float:
    """Private greedy on disjoint windows, each ``growth`` times the last, served during the next one.

    For exchangeable streams: any order of the people is as likely as any other. Proof sketch. Let S be
    learned from a window of w people with average function F, and G the average over all others of the
    ``rounds`` people.
    (1) S depends on the window and randomness only, and given those the people whom S is served to are others
    in random order: their average reward is G(S) in expectation.
    (2) F(S) - G(S) is at most the largest such difference over all sets of k items. A random w of T people
    average within a sub-Gaussian error of proxy variance bound^2 (T - w + 1) / (4 w T) of all T (Serfling
    1974), and F - G is T / (T - w) times that error; the expected largest of N such errors is the proxy
    deviation times sqrt(2 ln N), N = n choose k (`sampling_error`).
    (3) F(S) >= (1 - 1/e) max F - `picks_loss` / w in expectation (and the rounding step, k times).
    (4) max F is at least the whole stream's best average in expectation: that average is the mean of F
    over all orders, and a maximum is convex.
    Where each person is learned from with probability ``chance`` only, (3) is about the sample's average,
    which exceeds F(S) by at most `greedy.sampling_loss` / w in expectation, and whose maximum is no smaller
    than that of F on average; the picks then lose `picks_loss` at the rate times the chance.
    The loss per round is (1 - 1/e) bound during the first window, and never more later (``clipped``).
    """
    from ..objectives.fixed_point import step

    trivial_loss = ALPHA * bound
    total = trivial_loss * min(first_window, rounds)
    window, done = first_window, first_window
    while done < rounds:
        loss = sampling_error(n_items, k, window, rounds, bound)
        loss += picks_loss(n_items, k, rate * chance) / window + k * step(bound, window)
        loss += sampling_loss(n_items, k, window, chance, bound) / window
        served = min(growth * window if growth > 1 else rounds, rounds - done)
        total += served * (min(trivial_loss, loss) if clipped else loss)
        done += served
        window *= growth
    return total


def sampling_error(n_items: int, k: int, window: int, rounds: int, bound: float = 1.0) -> float:
    """Expected largest excess, over sets of k items, of a window's average over that of all other people."""
    if window >= rounds:
        return bound
    spread = bound**2 * (rounds - window + 1) / (4.0 * window * rounds)
    sets = math.lgamma(n_items + 1) - math.lgamma(k + 1) - math.lgamma(n_items - k + 1)
    return rounds / (rounds - window) * math.sqrt(spread * 2.0 * max(sets, 0.0))


def picks_loss(n_items: int, k: int, rate: float) -> float:
    """The loss of k exponential picks against greedy ones, in expected sums of gains.

    A pick among m candidates falls short of the best by at most ln(m) / rate on average, by the entropy of
    the choice. A fraction (1 - 1/k)^(k - i) of the loss of pick i remains, as later picks close gaps.
    """
    return sum((1.0 - 1.0 / k) ** (k - i) * math.log(n_items - i + 1) / rate for i in range(1, k + 1))


def unclipped_hedge(
    n_items: int, k: int, rounds: int, rate: float, batch: int = 1, bound: float = 1.0
) -> float:
    """`hedge` not capped at the trivial bound, to compare settings none of which improves on that.

    Infinite where the inequality behind it does not hold.
    """
    if k >= n_items:
        return 0.0  # there is only one set
    unit = rate * bound
    if unit <= 0.0 or unit * batch > 1.0 + 1e-12:
        return math.inf
    return bound * (unit * batch * rounds + k * math.log(n_items) / unit)
