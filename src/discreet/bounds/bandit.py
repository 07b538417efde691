"""Certified regret with bandit feedback: only the value of the shown set is observed.

Bounds are on the expected (1 - 1/e)-regret against the best fixed set, for streams fixed in advance, of
monotone submodular functions with values in [0, bound].

The inequality behind all of them. Expert i learns g = (v - bound/2) + z at one item a drawn at random, with
probability p in a block (or round), where v is the average of f(S + a) at random places of the block, S are
the earlier experts' items, and z is noise. The same amount is subtracted from v for all items, so differences
between items do not change. With Hedge at rate r the expectation over randomness and noise, given
the past, is E exp(r g) - 1 <= r E g + r second_order(r), because |v - bound/2| <= bound/2 and the noise has
E exp(r z) = 1 / (1 - (r s)^2). So each expert loses at most ln(n) / (p r) + sum of second_order(r), in
blocks. Falling rates do not hurt the first term beyond the last of them: exp-potentials grow with the rate.
"""

from __future__ import annotations

import math

from .selection import ALPHA, published_rate, trivial

# Falling rates are this multiple of the rate that would be best for the blocks so far.
EAGERNESS = 2.0


def second_order(rate: float, noise: float = 0.0, bound: float = 1.0, *, centred: bool = True) -> float:
    """Second-order cost of an exploration sample at ``rate``, for Laplace noise of scale ``noise``.

    psi(h) rate h0^2 + exp(h) rate noise^2 / (1 - (rate noise)^2), where h0 is the largest distance of a value
    from what is subtracted (bound/2, or bound if nothing is), h = rate h0, psi(h) = (e^h - 1 - h) / h^2.
    """
    reach = bound / 2.0 if centred else bound
    h = rate * reach
    if h <= 0.0 or h > 50.0 or rate * noise >= 1.0:
        return math.inf
    psi = 0.5 + h / 6.0 if h < 1e-4 else (math.expm1(h) - h) / (h * h)
    return psi * rate * reach**2 + math.exp(h) * rate * noise**2 / (1.0 - (rate * noise) ** 2)


def falling_rate(n_items: int, block: int, noise: float, bound: float = 1.0) -> float:
    """The rate for the draws after ``block`` blocks; it falls each time their number doubles.

    EAGERNESS sqrt(n ln n / (c b)) with c = bound^2/8 + noise^2 and b the middle of the blocks between two
    falls, but never so high that a single noisy sample decides.
    """
    c = bound**2 / 8.0 + noise**2
    b = 2.0 ** (max(block, 1).bit_length() - 0.5)
    wanted = EAGERNESS * math.sqrt(n_items * math.log(max(n_items, 2)) / (c * b))
    # One sample moves an exponent by no more than 2 by its value, and by 1/2 for each scale of its noise.
    return min(wanted, 2.0 / bound, 0.5 / noise if noise > 0.0 else math.inf)


def blocks(
    n_items: int,
    k: int,
    rounds: int,
    block: int,
    repeats: int = 1,
    *,
    rate: float | None = None,
    noise: float = 0.0,
    bound: float = 1.0,
    clipped: bool = True,
) -> float:
    """Blocks of ``block`` rounds in which every expert tries one random item, ``repeats`` times.

    block k (n ln n / rate + sum of `second_order`) + k repeats Q bound for Q full blocks; ``rate=None`` is
    `falling_rate`. ``noise`` is the Laplace scale on the average of an exploration sample.
    """
    most = trivial(rounds, bound)
    full = rounds // block
    if k >= n_items:  # there is only one set, and exploring shows less than it
        return ALPHA * bound * k * repeats * full
    if full == 0 or block < k * repeats:
        return most if clipped else math.inf
    if rate is None:
        last, costs, done = falling_rate(n_items, full, noise, bound), 0.0, 0
        while done < full:
            here = max(1, done)  # blocks after 1, 2-3, 4-7, ... share a rate
            count = min(full, 2 * here if done else 1) - done
            costs += count * second_order(falling_rate(n_items, here, noise, bound), noise, bound)
            done += count
    else:
        last, costs = rate, full * second_order(rate, noise, bound)
    regret = block * k * (n_items * math.log(n_items) / last + costs)
    regret += k * repeats * full * bound + ALPHA * bound * (rounds - full * block)
    return min(most, regret) if clipped else regret


def falling_blocks_size(
    n_items: int, k: int, rounds: int, block: int, repeats: int, noise: float, bound: float = 1.0
) -> float:
    """The leading terms of `blocks` with falling rates, for long streams, to compare settings.

    k block (1/a + 2a) sqrt(n ln n c Q) + k repeats Q bound, with a the eagerness, c = bound^2/8 + noise^2.
    """
    full = rounds / block
    if k >= n_items:
        return k * repeats * full * bound
    spread = bound**2 / 8.0 + noise**2
    constant = 1.0 / EAGERNESS + 2.0 * EAGERNESS
    experts = k * block * constant * math.sqrt(n_items * math.log(max(n_items, 2)) * spread * full)
    return experts + k * repeats * full * bound


def coins(
    n_items: int,
    k: int,
    rounds: int,
    exploration_rate: float,
    rate: float,
    every: int = 1,
    *,
    bound: float = 1.0,
    centred: bool = True,
    clipped: bool = True,
) -> float:
    """Each round explores with probability ``exploration_rate``; new sets come every ``every`` rounds.

    k (k n ln n / (g rate) + T (`second_order` + g every w^2 / (8 k n rate))) + g T bound with g the
    exploration rate and w = exp(rate bound/2) - exp(-rate bound/2), or exp(rate bound) - 1 if nothing is
    subtracted. The last term of the sum covers what an expert learns between two sets: if q = g / (k n) is
    the probability that an item is tried in a round, the weight of an item with values c grows between them
    by at most exp(q sum (e^(rate c) - 1)) in expectation; these exponents lie within q every w of each other,
    and Hoeffding's lemma bounds the loss from drawing by old weights. Drawing a new set right after exploring
    is ``every=1``.
    """
    most = trivial(rounds, bound)
    if k >= n_items:  # there is only one set, and exploring shows less than it
        return exploration_rate * most
    h = rate * bound
    if h > 50.0:
        return most if clipped else math.inf
    wide = 2.0 * math.sinh(h / 2.0) if centred else math.expm1(h)
    late = exploration_rate * every * wide**2 / (8.0 * k * n_items * rate)
    first = k * n_items * math.log(n_items) / (exploration_rate * rate)
    regret = k * (first + rounds * (second_order(rate, 0.0, bound, centred=centred) + late))
    regret += exploration_rate * rounds * bound
    return min(most, regret) if clipped else regret


def best_fixed_rate(n_items: int, samples: float, noise: float = 0.0, bound: float = 1.0) -> float:
    """The best rate for one expert with this number of samples: sqrt(n ln n / (samples c)), capped."""
    spread = bound**2 / 8.0 + noise**2
    wanted = math.sqrt(n_items * math.log(max(n_items, 2)) / (max(samples, 1.0) * spread))
    return min(wanted, 2.0 / bound, 0.5 / noise if noise > 0.0 else math.inf)


# --- as printed in paper 000 ----------------------------------------------------------------------


def published_exploration(n_items: int, k: int, rounds: int) -> float:
    """The exploration rate of Algorithm 3, k ((16 n ln n)^2 / T)^(1/3): above 1 until T is very long.

    >>> round(published_exploration(10, 2, 100_000), 2)
    2.21
    """
    return float(k * ((16.0 * n_items * math.log(n_items)) ** 2 / rounds) ** (1.0 / 3.0))


def published_direct_exploration(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """The exploration rate that makes the two large terms of Appendix B.1 equal; falls as T^(-1/4).

    The appendix gives the order only, and drops ln n and a k on the way: this is its first inequality,
    minimized.
    """
    rate = published_rate(k, rounds, epsilon, delta)
    return math.sqrt(k * k * n_items * math.log(n_items) / (rate * rounds))


def published_bandit(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """Theorem 8 as displayed: 32 sqrt(ln(k/delta)) / eps (k (n ln n)^(1/3))^2 T^(2/3).

    The exploration rate of Algorithm 3 does not give it from k = 26 on: see `published_bandit_derived`. The
    term displayed next to it, `published_tail`, is too small to change a float.
    """
    size = (n_items * math.log(n_items)) ** (2.0 / 3.0)
    return float(32.0 * math.sqrt(math.log(k / delta)) / epsilon * k**2 * size * rounds ** (2.0 / 3.0))


def published_tail(n_items: int, k: int, rounds: int) -> float:
    """The logarithm of the term that the proof of Theorem 8 adds for too many explorations.

    n^(1/3) T^(4/3) / (16 ln n)^(2/3) exp(-8 k^2 (16 n ln n)^(4/3) T^(1/3)), below 1e-200 for all n >= 2, k
    and T. (Lemma 3 has it for each of k experts, so it should be k times that.)

    >>> round(published_tail(2, 1, 1))
    -500
    """
    logs = math.log(n_items)
    front = math.log(n_items * rounds**4) / 3.0 - math.log(16.0 * logs) * 2.0 / 3.0
    return front - 8.0 * k**2 * math.pow(16.0 * n_items * logs, 4.0 / 3.0) * math.pow(rounds, 1.0 / 3.0)


def published_bandit_derived(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """The result of Theorem 8's proof with the exploration rate of Algorithm 3: k^(5/2), not k^2.

    16 k^3 n ln n sqrt(ln(k/delta) T / g) / eps + g T, without the term for too many explorations
    (`published_tail`), which is too small to change a float. g is `published_exploration`.
    """
    g = published_exploration(n_items, k, rounds)
    size = n_items * math.log(n_items) * math.sqrt(math.log(k / delta) * rounds / g)
    return 16.0 * k**3 * size / epsilon + g * rounds


def published_direct(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """Appendix B.1, first inequality: k (k n ln n / (g rate) + rate T) + g T, T^(3/4); g is not held to 1."""
    rate = published_rate(k, rounds, epsilon, delta)
    g = published_direct_exploration(n_items, k, rounds, epsilon, delta)
    return k * (k * n_items * math.log(n_items) / (g * rate) + rate * rounds) + g * rounds


def published_presampled(n_items: int, k: int, rounds: int, epsilon: float, delta: float) -> float:
    """Appendix B.2, its last display: 8 k^3 n ln n ln(k/delta) sqrt(T / g) / epsilon + g T, of order T^(2/3).

    With the constants of the appendix. It leaves g open; this is Algorithm 3's, at most 1. The step before
    it has the root of ln(k/delta) only, so the display is the larger of the two.

    >>> round(published_presampled(2, 1, 8000, 8.0, 1e-6))
    5884
    """
    g = min(1.0, published_exploration(n_items, k, rounds))
    size = k**3 * n_items * math.log(n_items) * math.log(k / delta)
    return 8.0 * size * math.sqrt(rounds / g) / epsilon + g * rounds


def too_many_explorations(rounds: int, exploration_rate: float) -> float:
    """The probability that more than twice the expected number of rounds explore.

    This is the exact binomial tail. Paper 000 prints exp(-8 g^2 T), too small where g is above .052.

    >>> f"{too_many_explorations(50, 0.2):.2g}"
    '0.00032'
    """
    from scipy.stats import binom

    most = math.floor(2.0 * exploration_rate * rounds * (1.0 + 1e-12))
    return 0.0 if most >= rounds else float(binom.sf(most, rounds, exploration_rate))
