"""Partition selection: which of the keys in people's data may be named at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from . import samplers
from .conversions import exact, own_digits
from .events import ApproximateRelease, Number

if TYPE_CHECKING:
    from .accountant import Gate, Release

_STEPS = 1 << samplers.STEPS_BITS
# Upper bounds of a weight, and of a key's weighted count, so that all numbers fit 64 bits.
_MOST_WEIGHT, _MOST_STEPS = 1 << 44, 1 << 61
_MOST_KEYS = 1 << 31


@dataclass(frozen=True, eq=False)
class ThresholdedCounts(ApproximateRelease):
    """Keys whose noisy counts reach a threshold (`PartitionSelection`).

    ``sensitivity`` is how far one person moves the counts of keys that others have as well, in L1.
    """

    sensitivity: Number


@dataclass(frozen=True)
class PartitionSelection:
    """The rule that names keys whose number of people, with Laplace noise, reaches a threshold.

    Each person counts for at most ``keys_per_person`` keys (contribution limit), once for each. Counts,
    threshold and noise are integer numbers of steps: one person is ``weight`` steps, the noise is
    ``round(Y)`` with Y an ideal Laplace variable of scale 2^32 steps (`samplers`), and a key of count c >= 1
    is named if ``c weight + round(Y) >= threshold``. A key that nobody counts for is never named.

    Formal guarantee: (``epsilon``, ``delta``)-DP for one person, under ``neighbours``.

    Proof, with m = ``keys_per_person``. Take two neighbouring inputs, D and D'. Call a key lonely if it has a
    count above 0 in one of the two only. Its count there is 1, because one person makes all the difference,
    and D has at most m lonely keys, as has D'. On the other keys the counts differ by at most m in L1 where
    somebody is added or removed, and by at most 2 m where somebody is replaced; let Q and Q' be the
    distributions of the named ones among them. Laplace noise of scale 2^32 steps on counts of ``weight``
    steps, rounded, gives Q'(S) <= e^epsilon Q(S), and the other way round, because ``weight`` x m (2 m) <=
    epsilon 2^32.
    Noise is independent, so a lonely key is named with the same probability p whatever else is: D names none
    with probability 1 - q, q = 1 - (1 - p)^j for its j <= m lonely keys, and then its output is drawn from Q;
    likewise q' and Q' for D'. Both q and q' are at most m p <= delta, where

        p = P(round(Y) >= threshold - weight) = exp(-(threshold - weight - 1/2) / 2^32) / 2.

    Hence P'(S) <= (1 - q') Q'(S) + q' <= (1 - delta) Q'(S) + delta (since Q'(S) <= 1), and
    (1 - delta) Q'(S) <= e^epsilon (1 - delta) Q(S) <= e^epsilon (1 - q) Q(S) <= e^epsilon P(S). QED.
    Conditioned on no lonely key being named the two are e^epsilon apart, so the same delta serves a
    concentrated account of epsilon.

    Korolova, Kenthapadi, Mishra and Ntoulas (2009), with the contribution limit and the rounding added.

    >>> from fractions import Fraction
    >>> rule = PartitionSelection.within(Fraction(1), Fraction(1, 10**6), 1, "add_remove")
    >>> rule.least_people, rule.chance(1) <= 1e-6, rule.chance(30) > 0.999
    (15, True, True)
    """

    epsilon: Fraction
    delta: Fraction
    keys_per_person: int
    neighbours: str
    weight: int
    threshold: int

    @classmethod
    def within(
        cls, epsilon: Fraction, delta: Fraction, keys_per_person: int, neighbours: str
    ) -> PartitionSelection:
        """The rule that names the most keys within (``epsilon``, ``delta``)."""
        most = checks.whole("keys_per_person", keys_per_person, at_least=1)
        checks.one_of("neighbours", neighbours, ("replace", "add_remove"))
        checks.real("delta", delta, above=0.0, below=1.0)
        moves = _moves(most, neighbours)
        weight = min(math.floor(exact(epsilon) * _STEPS / moves), _MOST_WEIGHT)
        if weight < 1:
            raise ValueError(
                f"epsilon={float(epsilon):g} is too small to count {most} keys of each person; spend more, or"
                " count fewer keys of each"
            )
        return cls(epsilon, delta, most, neighbours, weight, weight + _distance(most, exact(delta)))

    @property
    def event(self) -> ThresholdedCounts:
        """The event that is charged for the selection."""
        return ThresholdedCounts(self.epsilon, self.delta, _moves(self.keys_per_person, self.neighbours))

    @property
    def least_people(self) -> int:
        """The least count at which a key is named with probability at least 1/2."""
        return -(-self.threshold // self.weight)

    def chance(self, count: int) -> float:
        """The probability that a key with this count is named."""
        if checks.whole("count", count, at_least=0) == 0:
            return 0.0
        beyond = (self.threshold - count * self.weight - 0.5) / _STEPS
        return 0.5 * math.exp(-beyond) if beyond > 0.0 else 1.0 - 0.5 * math.exp(beyond)

    def named(self, counts: NDArray[np.int64], release: Release) -> NDArray[np.bool_]:
        """A mask of the keys to name, given their counts; the noise is paid for by ``release``."""
        present = np.flatnonzero(counts > 0)
        noise = release.steps(present.size, "laplace")
        steps = np.minimum(counts[present], _MOST_STEPS // self.weight) * self.weight + noise
        mask = np.zeros(counts.size, dtype=np.bool_)
        mask[present[steps >= self.threshold]] = True
        return mask


def _moves(keys: int, neighbours: str) -> int:
    """How far one person moves the counts in L1: a replacement removes some keys and adds others."""
    return 2 * keys if neighbours == "replace" else keys


def select_partitions(
    who: ArrayLike,
    what: ArrayLike,
    n_keys: int,
    gate: Gate,
    *,
    share: float = 1.0,
    keys_per_person: int = 1,
    label: str = "partition selection",
) -> NDArray[np.bool_]:
    """A mask of the keys 0..n_keys-1 that may be named. Person ``who[i]`` has the key ``what[i]``.

    Both are integers; a repeated pair counts once. The selection costs ``share`` of the epsilon of the gate's
    budget, and all of its delta. Of a person's keys ``keys_per_person`` count, drawn uniformly with secret
    randomness independent for each person: for any outcome of these draws the rule is (epsilon, delta)-DP,
    and those of two neighbouring inputs can be coupled to agree except for the person who differs, so the
    mixture is (epsilon, delta)-DP as well.
    """
    from .accountant import Gate

    checks.instance("gate", gate, Gate, "Gate(Budget(1.0, 1e-6))")
    size = checks.whole("n_keys", n_keys, at_least=0, at_most=_MOST_KEYS)
    people, keys = checks.whole_numbers("who", who), checks.whole_numbers("what", what)
    if people.size != keys.size:
        raise ValueError("who and what differ in length; give one key for each person of who")
    if keys.size and not 0 <= keys.min() <= keys.max() < size:
        raise ValueError("what must hold whole numbers from 0 to n_keys - 1; number the keys in that way")
    rule = rule_for(gate, share, keys_per_person)
    release = gate.reserve(rule.event, label=label)
    order = np.lexsort((keys, people))
    people, keys = people[order], keys[order]
    new = np.ones(people.size, dtype=np.bool_)
    new[1:] = (people[1:] != people[:-1]) | (keys[1:] != keys[:-1])
    people, keys = people[new], keys[new]
    order = np.lexsort((release.words(people.size), people))
    start = np.searchsorted(people, people)  # where each person's pairs begin: people are sorted
    counted = keys[order[np.arange(people.size) - start < rule.keys_per_person]]
    return rule.named(np.bincount(counted, minlength=size), release)


def rule_for(gate: Gate, share: float, keys_per_person: int) -> PartitionSelection:
    """The rule that ``share`` of a gate's epsilon and all of its delta pay for."""
    budget = gate.budget
    if not budget.private:
        raise ValueError("epsilon=inf protects no one: there is nothing to select privately; give a number")
    if not budget.delta:
        raise ValueError(
            "a private choice of keys needs delta > 0: with delta=0 no key that one person alone can bring"
            " may ever be named; give the budget a delta"
        )
    part = budget.share(share)
    assert isinstance(part.epsilon, Fraction)
    assert isinstance(budget.epsilon_per_round, Fraction)
    rounds = budget.max_rounds_per_person
    delta = exact(budget.delta)
    if rounds > 1:  # group privacy over a person's rows, as in the account
        growth = rounds * math.exp(min(700.0, (rounds - 1) * float(budget.epsilon_per_round)))
        delta = delta / exact(growth) * Fraction(999_999_999, 1_000_000_000)
    return PartitionSelection.within(part.epsilon, delta, keys_per_person, budget.neighbours)


def _distance(most: int, delta: Fraction) -> int:
    """The least integer t >= 1, or one more, with most/2 exp(-(t - 1/2) / 2^32) <= delta."""
    mpmath = own_digits()
    with mpmath.workprec(256):
        ratio = most / (2 * delta)
        logarithm = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        return max(1, int(mpmath.ceil(logarithm * _STEPS + mpmath.mpf("0.5"))) + 1)
