"""Utility bounds of private greedy, for monotone submodular sums over people: E f(S) >= ratio OPT - loss.

f is the sum over people (not the average), with gains rounded down or not: `rounding` is the difference.
``temperature`` is the rate times the probability with which a person is sampled. A pick among m candidates
falls short of the best by at most ln(m) / rate on average, by the entropy of the choice.
"""

from __future__ import annotations

import math

from .charged_costs import ChargedCosts

ALPHA = 1.0 - 1.0 / math.e


def cardinality_loss(n_items: int, picks: int, temperature: float) -> float:
    """Against 1 - 1/e: of the loss of pick i a fraction (1 - 1/k)^(k - i) remains after the last of k picks.

    Every pick closes 1/k of the distance to the best k items, except for its own loss.
    """
    kept = 1.0 - 1.0 / picks
    logs = [kept ** (picks - i) * math.log(n_items - i + 1) for i in range(1, picks + 1)]
    return math.fsum(logs) / temperature


def extendible_loss(n_items: int, picks: int, temperature: float, p: int) -> float:
    """Against 1/(p + 1): a pick excludes at most p items of the best set, none of more value than the pick.

    That is, f(OPT) <= f(S) + p (sum of the picks' gains and shortfalls). Matroids have p = 1.
    """
    logs = (math.log(n_items - i + 1) for i in range(1, picks + 1))
    return p / (p + 1) * math.fsum(logs) / temperature


def knapsack_loss(
    costs: ChargedCosts,
    n_items: int,
    picks: int,
    temperature: float,
    ends: float,
    n_people: int,
    bound: float,
) -> float:
    """Against ``costs.ratio``; ``ends`` is the rate of the best single item and of the choice of the two.

    With N = ``n_people`` and probability 1 - 1/N no pick's density falls short by more than ln(n k N) / rate;
    each loses its charged cost times that, and all feasible sets' charged costs are limited. Otherwise all of
    at most N x bound is lost.
    """
    short = costs.most * math.log(max(n_items * picks * n_people, 2)) / temperature + bound
    _, rest = costs.ratios
    if rest is None:
        return short
    single = math.log(max(costs.large.size, 1)) / ends
    with_large = (short / rest + single) / (1.0 + 1.0 / rest)
    return max(short, with_large) + math.log(2.0) / ends


def sampling_loss(n_items: int, picks: int, n_people: int, chance: float, bound: float) -> float:
    """Expected largest excess, over sets of up to ``picks`` items, of a sample's scaled sum over everybody's.

    A person counts 1/chance times or not at all: sub-Gaussian with the proxy variance of Kearns and Saul
    (1998). The best set of the sample has, on average, no less value than the best set.
    """
    if chance >= 1.0:
        return 0.0
    if abs(chance - 0.5) < 1e-9:
        proxy = 0.25
    else:
        proxy = (1.0 - 2.0 * chance) / (2.0 * math.log((1.0 - chance) / chance))
    sets = log_sets(n_items, picks)
    return bound / chance * math.sqrt(2.0 * n_people * proxy * sets)


def log_sets(n_items: int, picks: int) -> float:
    """Logarithm of the number of sets of up to ``picks`` items."""
    most = min(picks, n_items)
    logs = [
        math.lgamma(n_items + 1) - math.lgamma(i + 1) - math.lgamma(n_items - i + 1) for i in range(most + 1)
    ]
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))


def rounding(picks: int, n_people: int, unit: float) -> float:
    """The largest loss from rounding every person's gains down to a step."""
    return picks * n_people * unit
