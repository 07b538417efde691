"""Five accounts of items picked one after another, by sums over people of marginal gains.

A pick draws item j with probability proportional to exp(rate x score of j). Scores are sums over people of
the marginal gain of j, and a person's part of each lies in [0, bound]. An account gives the largest rate that
a share of a budget allows for all picks together, and the event to charge; it raises ValueError, with the
reason, if it does not apply. A share with a privacy definition is never exceeded in that definition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from ..core import checks
from .budget import Share
from .conversions import exact, exponential_above, rounded_down, rounded_up
from .events import ApproximateRelease, Event, ExponentialChoice, Loss, Number, PureRelease, _Choice

# Logarithms and exponentials of floats are good to a few units in the last place; this is far beyond those.
_SAFE = 1.0 - 2.0**-44
_ALMOST = 1 - Fraction(1, 10**9)
# Exponentials of more than this overflow floats.
_LARGEST_RATE = 700.0
# The search for a rate ends once its epsilon is this close to the allowed one, relatively.
_CLOSE = 1e-4
# Beyond these the composition makes no claim, and epsilons are added up.
_MOST, _WIDEST = 10**9, 100


@dataclass(frozen=True)
class Picks:
    """Picks at one rate, and the releases that pay for all of them.

    ``keep`` is the probability, in units of 2^-64, that a person is in the sample (None: everybody is).
    """

    method: str
    rate: float
    event: Event
    count: int
    keep: int | None = None

    @cached_property
    def chance(self) -> float:
        """The probability that a person is in the sample."""
        return 1.0 if self.keep is None else self.keep * 2.0**-64

    @cached_property
    def temperature(self) -> float:
        """The rate times the sampling probability: the number by which to compare methods."""
        return self.rate * self.chance


def basic(share: Share, width: float, count: int) -> Picks:
    """``count`` picks at epsilon / count each; ``width`` is how far one person moves score differences."""
    assert isinstance(share.epsilon, Fraction)
    rate = rounded_down(share.epsilon / count / exact(width))
    return Picks("basic", rate, ExponentialChoice(rate, width), count)


def zcdp(share: Share, width: float, count: int) -> Picks:
    """``count`` picks, each a loss in an interval of length rate x width: a rho of (rate x width)^2 / 8.

    For a few picks pure epsilon allows a larger rate, and is then used instead.
    """
    if not share.rho:
        raise ValueError(_no_delta(share))
    event = ExponentialChoice.within(share, width, count)
    return Picks("zcdp", event.rate, event, count)


@dataclass(frozen=True, eq=False)
class ExactChoices(_Choice):
    """``number`` exponential choices at one ``rate``, charged together: an epsilon at ``delta``.

    The epsilon is `composition.adaptive_choices_epsilon`, an upper bound for any ``number`` of choices with
    losses in intervals of length ``rate * range``, each of which may depend on earlier answers. The rate, the
    range and the number may not: they are declared here, before the first choice. Fewer or narrower choices
    lose no more. Permute-and-flip is not of this kind.

    Together with other releases it counts as one (epsilon, delta) release: epsilons and deltas are added up,
    as for an `ApproximateRelease`, and all of it is spent with the first choice. From some five choices on,
    it allows a rate 7 to 16 % above that of their sum in zCDP or pure epsilon (at epsilon 1, delta 1e-6).

    >>> from discreet.privacy import Budget
    >>> share = Budget(1.0, 1e-6).share()
    >>> round(ExactChoices.within(share, 2.0, 10).rate / ExponentialChoice.within(share, 2.0, 10).rate, 2)
    1.1
    """

    number: int
    delta: float

    _integers = ("number",)

    def __post_init__(self) -> None:
        checks.real("delta", self.delta, at_least=0.0, below=1.0)
        super().__post_init__()

    def loss(self) -> Loss:
        from .composition import SMALLEST_DELTA, adaptive_choices_epsilon

        if self.delta < SMALLEST_DELTA or self.number > _MOST or self.width >= _WIDEST or not self.width:
            return Loss.of_pure(self.width * self.number)
        epsilon = adaptive_choices_epsilon(self.delta, [(rounded_up(self.width), self.number)])
        return Loss.of_pure(exact(epsilon))._replace(delta=exact(self.delta))

    @classmethod
    def within(cls, share: Share, range: float, number: int) -> ExactChoices:  # type: ignore[override]
        """The largest rate (to a part in 10,000, from below) at which ``number`` choices fit into ``share``.

        Refused unless a full budget's delta is available: at a share with a privacy definition, or at a gate
        that has released something; and for several rounds of a person, over which curves do not compose.
        """
        checks.instance("share", share, Share, "budget.share()")
        width = checks.real("range", range, above=0.0)
        count = checks.whole("number", number, at_least=1, at_most=checks.ANY)
        delta = _delta(share)
        return cls(_largest_rate(replace(share, gate=None), width, count, delta), width, count, delta)


@lru_cache(maxsize=256)
def _largest_rate(share: Share, width: float, number: int, delta: float) -> float:
    """The rate of `ExactChoices.within`: a root, bracketed from both sides and returned from below."""
    largest = rounded_down(exact(share.epsilon))

    def epsilon(rate: float) -> float:
        return float(ExactChoices(rate, width, number, delta).loss().pure or 0)

    # The sum of epsilons surely fits. So does a full budget's rho, up to rounding; that of a part may not.
    low = rounded_down(exact(share.epsilon) / number / exact(width)) * (1.0 - 1e-9)
    below, high = epsilon(low), 1.1 * ExponentialChoice.within(share, width, number).rate
    while (above := epsilon(high)) <= largest:
        low, below, high = high, above, 1.1 * high
    while largest - below > _CLOSE * largest and high - low > _CLOSE * low:
        rate = low + (high - low) * (largest - below) / (above - below)
        rate = min(max(rate * (1.0 - _CLOSE / 4), low + (high - low) / 8), high - (high - low) / 8)
        if (found := epsilon(rate)) <= largest:
            low, below = rate, found
        else:
            high, above = rate, found
    return low


def _delta(share: Share) -> float:
    """The delta at which choices are composed; ValueError, with the reason, if none is available."""
    from .composition import SMALLEST_DELTA

    budget = share.budget
    if not budget.private:
        raise ValueError("an infinite budget sets no rate; choose one from the learning problem")
    if not budget.delta >= SMALLEST_DELTA:
        raise ValueError(f"it needs a delta of at least {SMALLEST_DELTA:g}")
    if share.definition is not None:
        raise ValueError("its delta is that of a whole budget, which a share or a used gate has not")
    if budget.max_rounds_per_person > 1:
        raise ValueError("it is for one round of each person; several do not add up along a curve")
    return budget.delta


def exactly(share: Share, width: float, count: int) -> Picks:
    """``count`` picks declared together, by their exact composition: see `ExactChoices`."""
    event = ExactChoices.within(share, width, count)
    return Picks("exact", event.rate, event, 1)


@dataclass(frozen=True, eq=False)
class SummedPicks(ApproximateRelease):
    """Any number of exponential choices, charged together (`decomposable`).

    ``bound`` is the most that one person's parts of all chosen items add up to.
    """

    bound: Number

    _positive = ("bound",)

    def rate(self, neighbours: str) -> float:
        """The largest rate that this event pays for."""
        delta = self.delta if isinstance(self.delta, float) else rounded_down(self.delta)
        epsilon = rounded_down(exact(self.epsilon))
        return rounded_down(exact(decomposable_rate(epsilon, delta, neighbours)) / exact(self.bound))


@dataclass(frozen=True, eq=False)
class SampledPicks(PureRelease):
    """Any number of permute-and-flip choices on a secret sample, charged together (`subsampled`).

    ``bound`` is the most that one person's parts of all chosen items add up to.
    """

    bound: Number

    _positive = ("bound",)


@dataclass(frozen=True, eq=False)
class SampledScores(PureRelease):
    """The largest noisy score on a secret sample, with its value; any number of times, charged together.

    By `samplers.noisy_maximum`, with noise of mean 1 / rate; ``bound`` is again the most that one person's
    parts of all chosen items add up to, over all releases that they are in. See `sampled`.
    """

    bound: Number

    _positive = ("bound",)


def decomposable(share: Share, bound: float) -> Picks:
    """Any number of picks, charged by a person's total gain: see `decomposable_delta`.

    For people whose parts are never negative and add up, over the chosen items, to at most ``bound``.
    """
    budget = share.budget
    if not share.delta:
        raise ValueError(_no_delta(share))
    if share.definition is not None:
        raise ValueError("its delta is that of a whole budget, which a share or a used gate has not")
    assert isinstance(share.epsilon, Fraction)
    assert isinstance(budget.epsilon_per_round, Fraction)
    rounds = budget.max_rounds_per_person
    # Group privacy over a person's rows, as in the account.
    exponent, delta = (rounds - 1) * budget.epsilon_per_round, budget.delta
    if exponent > 700:
        raise ValueError("a person's rows together would need a delta too small for a float")
    if rounds > 1:
        all_rows = rounds * exponential_above(exponent)
        delta = rounded_down(exact(delta) / all_rows * _ALMOST)
    event = SummedPicks(share.epsilon, delta, bound)
    return Picks("decomposable", event.rate(budget.neighbours), event, 1)


def _no_delta(share: Share) -> str:
    also = ", and a gate that keeps to another definition than pure epsilon" if share.budget.delta else ""
    return f"it needs delta > 0{also}"


def decomposable_delta(rate: float, epsilon: float, neighbours: str) -> float:
    """Delta, at ``epsilon``, of any number of picks at ``rate`` when a person's parts sum to 1 at most.

    Let g_i >= 0 be person I's part of the score of pick i's item, X_i its value at the item drawn, so that
    X_1 + X_2 + ... <= 1, and c = exp(rate) - 1. Compare the runs Q without and P with the person.

    Adding. No weight of P is below that of Q, so P(run) <= Q(run) exp(rate x sum of X) <= e^rate Q(run).
    Removing. Q(run) / P(run) <= product over picks of E_Q[exp(rate g_i) | past] <= exp(c x sum of q_i), with
    q_i = E_Q[X_i | past], because exp(rate g) <= 1 + c g on [0, 1]. A sum of conditional means of parts that
    add up to at most 1 exceeds s with probability at most exp(1 - s): with r the remainder of the parts and s
    that of the target, min(1, exp(1 - s / r)) never rises in expectation. Hence the log-ratio is l or more
    with probability at most exp(1 - l/c) under Q, and

        delta(epsilon) <= integral over l > epsilon of e^(epsilon - l) e^(1 - l/c) dl
                        = c / (1 + c) e^(1 - epsilon/c).

    Replacing I by J goes through the run without both: the hockey-stick divergence at epsilon is at most
    e^rate times the one above at epsilon - rate.

    The setting is that of Gupta, Ligett, McSherry, Roth and Talwar (2010), whose constant this sharpens.
    """
    if rate >= epsilon or rate > _LARGEST_RATE:
        return 1.0  # adding a person costs the rate itself
    c = math.expm1(rate)
    if c == 0.0:
        return 0.0
    if neighbours == "replace":
        return min(1.0, c / (1.0 + c) * math.exp(min(700.0, rate + 1.0 - (epsilon - rate) / c)))
    return min(1.0, c / (1.0 + c) * math.exp(min(700.0, 1.0 - epsilon / c)))


@lru_cache(maxsize=256)  # asked by the plan, the run and every share
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

    Each person is kept with probability p = 1 - e^-a, and the rate is ln(1 + e^a) / bound; a is epsilon under
    add-remove and epsilon / 2 under replace-one adjacency. Let R be the run without person I, whose parts are
    never negative and add up to at most ``bound``. With I in the sample a run is at most 1 + e^a times as
    likely (adding, in `decomposable_delta`), so with I among the people it is at most 1 - p + p (1 + e^a) =
    e^a times as likely; and at least 1 - p = e^-a times, since I may not be kept. Replacing goes through the
    run without both. The sample must stay secret: it is part of the noise.

    Only the first inequality depends on how picks are drawn, and `samplers.permute_and_flip` satisfies it at
    the same rate as the exponential mechanism while losing less, so these picks are drawn with it.

    Rounding the probability p down preserves both inequalities.

    Picks of any number of releases may be on one sample, as long as a person's parts of all of them add up to
    at most ``bound``: who else comes, and how items are scored, may depend on person I only through what was
    released. A pick may also release more than the item: the first inequality also holds for
    `samplers.noisy_maximum`, item and noisy score together.
    """
    assert isinstance(share.epsilon, Fraction)
    return sampled(SampledPicks(share.epsilon, bound), bound, share.budget.neighbours)


def sampled(event: PureRelease, bound: float, neighbours: str) -> Picks:
    """The picks of `subsampled` that ``event`` pays for."""
    a = rounded_down(exact(event.epsilon) / (2 if neighbours == "replace" else 1))
    keep = int(-math.expm1(-a) * _SAFE * 2.0**64)
    rate = (a + math.log1p(math.exp(-a))) * _SAFE
    return Picks("subsampled", rounded_down(exact(rate) / exact(bound)), event, 1, keep)
