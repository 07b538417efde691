"""Four accounts of items picked one after the other, by sums over people of what each item would add.

A pick draws item j with probability proportional to exp(rate x score of j). Scores are sums over people of
what j adds to the set so far, and a person's part of each lies in [0, bound]. An account says how large a
rate a share of a budget allows for all picks together, and what is charged for it; it raises ValueError, with
the reason, where it does not apply. A share with a privacy notion is never exceeded in that notion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .budget import Share
from .conversions import exact, exponential_above, rounded_down
from .events import ApproximateRelease, Event, ExponentialChoice, PureRelease

# Logarithms and exponentials of floats are good to a few units in the last place; this is far beyond those.
_SAFE = 1.0 - 2.0**-44
_ALMOST = 1 - Fraction(1, 10**9)
# Exponentials of more than this are no floats.
_LARGEST_RATE = 700.0


@dataclass(frozen=True)
class Picks:
    """Picks at one rate, and the releases that pay for all of them.

    ``keep`` is the chance, in units of 2^-64, with which each person is looked at at all (None: everybody).
    """

    method: str
    rate: float
    event: Event
    count: int
    keep: int | None = None

    @property
    def chance(self) -> float:
        """How likely a person is looked at."""
        return 1.0 if self.keep is None else self.keep * 2.0**-64

    @property
    def temperature(self) -> float:
        """The rate that a person's gains enter with on average: what to compare methods by."""
        return self.rate * self.chance


def basic(share: Share, width: float, count: int) -> Picks:
    """``count`` picks at epsilon / count each; ``width`` is how far one person can push scores apart."""
    assert isinstance(share.epsilon, Fraction)
    rate = rounded_down(share.epsilon / count / exact(width))
    return Picks("basic", rate, ExponentialChoice(rate, width), count)


def zcdp(share: Share, width: float, count: int) -> Picks:
    """``count`` picks, each a loss in an interval of length rate x width: a rho of (rate x width)^2 / 8.

    For a few picks plain epsilon allows more, and is then what they are charged in.
    """
    if not share.rho:
        raise ValueError(_no_delta(share))
    event = ExponentialChoice.within(share, width, count)
    return Picks("zcdp", event.rate, event, count)


def decomposable(share: Share, bound: float) -> Picks:
    """Any number of picks, by what one person can still gain: see `decomposable_delta`.

    For people whose parts are never negative and add up, over the chosen items, to at most ``bound``.
    """
    budget = share.budget
    if not share.delta:
        raise ValueError(_no_delta(share))
    if share.notion is not None:
        raise ValueError("its delta is that of a whole budget, which a share or a used gate has not")
    assert isinstance(share.epsilon, Fraction)
    assert isinstance(budget.epsilon_per_round, Fraction)
    rounds = budget.max_rounds_per_person
    # Group privacy over a person's rows, as the account reckons it.
    exponent = (rounds - 1) * budget.epsilon_per_round
    if exponent > 700:
        raise ValueError("a person's rows together would need a delta too small for a float")
    all_rows = rounds * exponential_above(exponent)
    delta = budget.delta if rounds == 1 else rounded_down(exact(budget.delta) / all_rows * _ALMOST)
    epsilon = rounded_down(share.epsilon)
    rate = rounded_down(exact(decomposable_rate(epsilon, delta, budget.neighbours)) / exact(bound))
    return Picks("decomposable", rate, ApproximateRelease(share.epsilon, delta), 1)


def _no_delta(share: Share) -> str:
    also = ", and a gate that keeps to another notion than pure epsilon" if share.budget.delta else ""
    return f"it needs delta > 0{also}"


def decomposable_delta(rate: float, epsilon: float, neighbours: str) -> float:
    """Delta, at ``epsilon``, of any number of picks at ``rate`` when a person's parts sum to 1 at most.

    Let g_i >= 0 be person I's part of the score of pick i's item, X_i its value at the item drawn, so that
    X_1 + X_2 + ... <= 1, and c = exp(rate) - 1. Compare the runs Q without and P with the person.

    Adding. No weight of P is below that of Q, so P(run) <= Q(run) exp(rate x sum of X) <= e^rate Q(run).
    Removing. Q(run) / P(run) <= product over picks of E_Q[exp(rate g_i) | past] <= exp(c x sum of q_i), with
    q_i = E_Q[X_i | past], because exp(rate g) <= 1 + c g on [0, 1]. A sum of conditional means of parts that
    add up to at most 1 exceeds s with probability at most exp(1 - s): the function min(1, exp(1 - s / r)) of
    what is left of the parts (r) and of the target (s) never rises in expectation. Hence the log-ratio is l
    or more with probability at most exp(1 - l/c) under Q, and

        delta(epsilon) <= integral over l > epsilon of e^(epsilon - l) e^(1 - l/c) dl
                        = c / (1 + c) e^(1 - epsilon/c).

    Replacing I by J goes through the run without both: the hockey-stick divergence at epsilon is at most
    e^rate times the one above at epsilon - rate.

    The setting is that of Gupta, Ligett, McSherry, Roth and Talwar (2010), whose constant this sharpens.
    """
    if rate >= epsilon or rate > _LARGEST_RATE:
        return 1.0  # adding somebody costs the rate itself
    c = math.expm1(rate)
    if c == 0.0:
        return 0.0
    if neighbours == "replace":
        return min(1.0, c / (1.0 + c) * math.exp(min(700.0, rate + 1.0 - (epsilon - rate) / c)))
    return min(1.0, c / (1.0 + c) * math.exp(min(700.0, 1.0 - epsilon / c)))


def decomposable_rate(epsilon: float, delta: float, neighbours: str) -> float:
    """The largest rate whose `decomposable_delta` at ``epsilon`` is within ``delta``, from below.

    >>> [round(decomposable_rate(0.1, 1e-3, how), 4) for how in ("add_remove", "replace")]
    [0.0238, 0.0198]
    """
    low, high = 0.0, min(epsilon, _LARGEST_RATE)
    for _ in range(200):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        fits = decomposable_delta(middle, epsilon, neighbours) <= delta * _SAFE
        low, high = (middle, high) if fits else (low, middle)
    return low * _SAFE


def subsampled(share: Share, bound: float) -> Picks:
    """Any number of picks on a secret sample of the people, with pure epsilon (Ghazi et al. 2024).

    Each person is kept with probability p = 1 - e^-a, and the rate is ln(1 + e^a) / bound; a is epsilon when
    people come and go and epsilon / 2 when one is replaced. Let R be the run without person I, whose parts
    are never negative and add up to at most ``bound``. With I in the sample a run is at most 1 + e^a times as
    likely (adding, in `decomposable_delta`), so with I among the people it is at most
    1 - p + p (1 + e^a) = e^a times as likely; and at least 1 - p = e^-a times, since I may not be kept.
    Replacing goes through the run without both. The sample has to stay unknown: its coins are noise.

    Only the first inequality speaks of how picks are drawn, and `flips.flipped_choice` satisfies it at the
    same rate as the exponential mechanism while losing less: it is what these picks are drawn with.

    A chance of keeping that is rounded down satisfies both inequalities as well.
    """
    assert isinstance(share.epsilon, Fraction)
    return sampled(PureRelease(share.epsilon), bound, share.budget.neighbours)


def sampled(event: PureRelease, bound: float, neighbours: str) -> Picks:
    """The picks of `subsampled` that ``event`` pays for."""
    a = rounded_down(exact(event.epsilon) / (2 if neighbours == "replace" else 1))
    keep = int(-math.expm1(-a) * _SAFE * 2.0**64)
    rate = (a + math.log1p(math.exp(-a))) * _SAFE
    return Picks("subsampled", rounded_down(exact(rate) / exact(bound)), event, 1, keep)
