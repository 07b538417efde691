"""Partition selection: its (epsilon, delta) on every small input, its draws, and faults to be noticed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from discreet.privacy import (
    Account,
    Budget,
    BudgetExceeded,
    Gate,
    SecureRandomness,
    samplers,
    select_partitions,
)
from discreet.privacy.partitions import PartitionSelection, ThresholdedCounts

KEYS = 3
SUBSETS = [frozenset(keys) for size in range(KEYS + 1) for keys in itertools.combinations(range(KEYS), size)]
SETTINGS = [(2.0, 0.1), (1.0, 0.02), (3.0, 0.001)]
STEPS = 2.0**32


def rule_of(epsilon: float, delta: float, most: int, neighbours: str) -> PartitionSelection:
    return PartitionSelection.within(Fraction(str(epsilon)), Fraction(str(delta)), most, neighbours)


# --- every small input -------------------------------------------------------------------------------


def distribution(people, chance: Callable[[int], float], most: int, unseen: float) -> np.ndarray:
    """Probabilities of every named set, in the order of SUBSETS; each person counts for ``most`` keys.

    ``unseen`` is how likely a key is named that somebody has and nobody counts for.
    """
    present = frozenset().union(*people)
    kept = [list(itertools.combinations(sorted(keys), min(most, len(keys)))) for keys in people]
    outcomes = []
    for counted in itertools.product(*kept):  # equally likely, each of them
        counts = Counter(key for keys in counted for key in keys)
        named = [chance(counts[k]) if counts[k] else unseen * (k in present) for k in range(KEYS)]
        outcomes.append(
            [math.prod(p if k in keys else 1.0 - p for k, p in enumerate(named)) for keys in SUBSETS]
        )
    return np.mean(outcomes, axis=0)


def worst_delta(rule: PartitionSelection, most: int | None = None, unseen: float = 0.0) -> float:
    """The largest delta at the rule's epsilon between any two neighbours: two other people, three keys."""

    @cache
    def outcome(people):
        return distribution(people, rule.chance, most or rule.keys_per_person, unseen)

    worst, factor = 0.0, math.exp(rule.epsilon)
    for others in itertools.combinations_with_replacement(SUBSETS, 2):
        with_one = [outcome((*others, one)) for one in SUBSETS]
        gone = [outcome(others)]
        pairs = itertools.permutations(with_one, 2)
        if rule.neighbours == "add_remove":
            pairs = itertools.chain(itertools.product(with_one, gone), itertools.product(gone, with_one))
        for first, second in pairs:
            worst = max(worst, float(np.maximum(first - factor * second, 0.0).sum()))
    return worst


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_every_pair_of_small_neighbours_is_within_epsilon_and_delta(epsilon, delta, most, neighbours):
    worst = worst_delta(rule_of(epsilon, delta, most, neighbours))
    assert worst <= delta * (1 + 1e-12)
    # Most keys of one person are lonely: 1 - (1 - delta / m)^m of delta is really used.
    assert worst >= (1 - (1 - delta / most) ** most) * (1 - 1e-8)


def _delta_for_each_key(rule: PartitionSelection) -> float:
    alone = replace(rule, keys_per_person=1)
    once = PartitionSelection.within(rule.epsilon, rule.delta, 1, rule.neighbours)
    return worst_delta(replace(alone, threshold=rule.weight + once.threshold - once.weight), most=2)


FAULTS = {
    "threshold one person lower": lambda rule: worst_delta(
        replace(rule, threshold=rule.threshold - rule.weight)
    ),
    "half the sensitivity": lambda rule: worst_delta(
        replace(rule, weight=2 * rule.weight, threshold=rule.threshold + rule.weight)
    ),
    "noise for keys that nobody counts for": lambda rule: worst_delta(
        rule, unseen=0.5 * math.exp(-rule.threshold / STEPS)
    ),
    "no contribution bound": lambda rule: worst_delta(rule, most=KEYS),
    "delta for each key instead of all of a person's": _delta_for_each_key,
}


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_enumeration_notices(fault, neighbours):
    most = 2 if "each key" in fault else 1
    found = [FAULTS[fault](rule_of(e, d, most, neighbours)) / d for e, d in SETTINGS]
    assert max(found) > 1.05


# --- the draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_what_is_named_is_what_the_rule_says(monkeypatch, neighbours):
    """Noise that just reaches the threshold names a key, one step less does not; nobody's keys get none."""
    rule = rule_of(0.7, 1e-3, 3, neighbours)
    counts = np.array([1, 0, 2, 40, 0, 10**15])
    short = rule.threshold - np.array([1, 2, 40]) * rule.weight
    drawn = []

    def scripted(_, size, *, gaussian):
        assert (size, gaussian) == (4, False)
        return np.append(short, 0) - drawn[-1]

    monkeypatch.setattr(samplers, "noise_steps", scripted)
    for less, expected in ((0, [True, False, True, True, False, True]), (1, [False] * 5 + [True])):
        drawn.append(less)
        assert rule.named(counts, Gate(Budget(1.0), 0).post_processing()).tolist() == expected


def test_chances_are_those_of_the_draws():
    rule = rule_of(1.0, 0.05, 1, "add_remove")
    tries = 200_000
    counts = np.repeat([1, 2, 3, 4, 6], tries)
    named = rule.named(counts, Gate(Budget(1.0), 11).post_processing()).reshape(5, tries).sum(axis=1)
    for count, found in zip((1, 2, 3, 4, 6), named, strict=True):
        low, high = binom.ppf([1e-8, 1 - 1e-8], tries, rule.chance(count))
        assert low <= found <= high
    assert rule.chance(0) == 0.0
    assert rule.chance(1) <= 0.05
    assert rule.chance(rule.least_people) >= 0.5 > rule.chance(rule.least_people - 1)


def test_thresholds_are_on_the_safe_side_at_every_size():
    """In more digits than the code uses, and no higher than two steps above where they must be."""
    import mpmath

    mpmath.mp.prec = 600
    try:
        for delta in (Fraction(1, 3), Fraction(1, 10**6), Fraction(1, 10**15), Fraction(1, 10**300)):
            for most in (1, 7, 10**6):
                rule = PartitionSelection.within(Fraction(1, 2), delta, most, "replace")
                assert 2 * most * rule.weight <= 2**32 * Fraction(1, 2)
                short = mpmath.mpf(rule.threshold - rule.weight) - mpmath.mpf(1) / 2
                exact = mpmath.mpf(delta.numerator) / delta.denominator
                assert most * mpmath.exp(-short / 2**32) / 2 <= exact
                assert most * mpmath.exp(-(short - 3) / 2**32) / 2 > exact or short < 3
    finally:
        mpmath.mp.prec = 53


def test_a_person_counts_for_so_many_keys_and_no_more():
    """Ann has five keys of her own; the chance that any is named is that of two, at which delta is spent."""
    others = 30
    who = np.append(np.arange(others), np.full(5, others))
    what = np.append(np.zeros(others, dtype=np.int64), np.arange(1, 6))
    runs, hers, theirs = 3000, 0, 0
    for seed in range(runs):
        gate = Gate(Budget(2.0, 0.1, "add_remove"), seed)
        named = select_partitions(who, what, 6, gate, keys_per_person=2)
        hers += bool(named[1:].any())
        theirs += bool(named[0])
    chance = 1 - (1 - 0.05) ** 2
    low, high = binom.ppf([1e-8, 1 - 1e-8], runs, chance)
    assert low <= hers <= high
    assert high < runs * (1 - (1 - 0.05) ** 5)  # all five would have been noticed
    assert theirs == runs


def test_pairs_count_once_in_any_order(monkeypatch):
    seen = []
    monkeypatch.setattr(PartitionSelection, "named", lambda _, counts, __: seen.append(counts.tolist()))
    for who, what in (
        ([3, 1, 3], [0, 0, 1]),
        ([3, 3, 1, 1, 3], [1, 0, 0, 0, 1]),
        ([-9, 2**62, -9], [1, 0, 0]),
    ):
        select_partitions(who, what, 3, Gate(Budget(1.0, 1e-6), 0), keys_per_person=2)
    assert seen == [[2, 1, 0]] * 3


def test_which_keys_count_is_drawn_anew_and_fairly():
    who, what = np.repeat(np.arange(40_000), 4), np.tile(np.arange(4), 40_000)
    seen = []

    def counted(_, counts, *__):
        seen.append(counts)
        return counts > 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionSelection, "named", counted)
        for seed in (0, 1):
            select_partitions(who, what, 4, Gate(Budget(1.0, 1e-6), seed), keys_per_person=3)
    for counts in seen:
        assert counts.sum() == 3 * 40_000
        low, high = binom.ppf([1e-8, 1 - 1e-8], 40_000, 0.75)
        assert low <= counts.min() <= counts.max() <= high
    assert seen[0].tolist() != seen[1].tolist()


# --- the account -------------------------------------------------------------------------------------


def test_the_account_holds_the_share_and_all_of_delta():
    gate = Gate(Budget(1.0, 1e-6), 0)
    select_partitions(np.arange(5), np.zeros(5, dtype=np.int64), 1, gate, share=0.25)
    [(label, event, _)] = gate.spent.ledger.counts
    assert event == ThresholdedCounts(Fraction(1, 4), Fraction(1, 10**6), 2)
    assert label == "partition selection"
    assert (gate.spent.epsilon(), gate.spent.delta(0.25)) == (0.25, 1e-6)
    assert Account.from_json(gate.spent.to_json()).epsilon() == 0.25
    gate.laplace([1.0], Fraction(4, 3), 1.0)  # the rest of epsilon is left for pure releases
    with pytest.raises(BudgetExceeded):
        gate.laplace([1.0], 1000.0, 1.0)


def test_a_person_of_several_rows_is_within_the_budget():
    gate = Gate(Budget(1.0, 1e-6, max_rounds_per_person=3), 0)
    select_partitions(np.arange(5), np.zeros(5, dtype=np.int64), 1, gate, share=0.5)
    assert gate.spent.epsilon() <= 0.5
    assert gate.spent.delta(0.5) <= 1e-6
    [(_, event, _)] = gate.spent.ledger.counts
    assert event.delta < 1e-6 / 3


def test_refusals_change_nothing():
    who, what = np.arange(5), np.zeros(5, dtype=np.int64)
    with pytest.raises(ValueError, match="needs delta > 0"):
        select_partitions(who, what, 1, gate := Gate(Budget(1.0), 0))
    assert not gate.spent.ledger.counts
    with pytest.raises(ValueError, match="protects no one"):
        select_partitions(who, what, 1, Gate(Budget(math.inf, 0.5), 0))
    gate = Gate(Budget(1.0, 1e-6), 0)
    for keys, words in (
        ([0] * 4, "differ in length"),
        ([0.5] * 5, "whole"),
        ([1] * 5, "n_keys"),
        ("x", "whole"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            select_partitions(who, keys, 1, gate)
    with pytest.raises(TypeError, match="gate must be a Gate"):
        select_partitions(who, what, 1, Budget(1.0, 1e-6))
    for share, most in ((0.0, 1), (1.5, 1), (0.5, 0)):
        with pytest.raises(ValueError, match=r"share|fraction|keys_per_person"):
            select_partitions(who, what, 1, gate, share=share, keys_per_person=most)
    with pytest.raises(ValueError, match="too small to count"):
        select_partitions(who, what, 1, Gate(Budget(1e-6, 1e-6), 0), keys_per_person=10_000)
    assert not gate.spent.ledger.counts
    select_partitions(who, what, 1, gate)
    with pytest.raises(BudgetExceeded):
        select_partitions(who, what, 1, gate)


def test_nobody_names_nothing():
    none = np.zeros(0, dtype=np.int64)
    assert select_partitions(none, none, 0, Gate(Budget(1.0, 1e-6))).tolist() == []
    assert select_partitions(none, none, 3, Gate(Budget(1.0, 1e-6))).tolist() == [False] * 3


def test_a_pair_that_stands_twice_counts_once(monkeypatch):
    monkeypatch.setattr(PartitionSelection, "named", lambda _, counts, __: counts)
    pairs = [(3, 0), (1, 0), (1, 0), (2, 1), (2, 1), (1, 1), (4, 2), (4, 2), (4, 2), (4, 1)]
    for order in (pairs, pairs[::-1], sorted(pairs)):
        who, what = zip(*order, strict=True)
        counts = select_partitions(who, what, 4, Gate(Budget(1.0, 1e-6)), keys_per_person=2)
        assert counts.tolist() == [2, 3, 1, 0]


def test_any_number_of_pairs_is_taken(monkeypatch):
    """OpenSSL gives less than 2^31 bytes at once: one more pair than that refused everybody's."""
    monkeypatch.setattr("discreet.privacy.randomness._AT_ONCE", 800)
    for people in (99, 100, 101, 1000):
        named = select_partitions(np.arange(people), np.zeros(people, dtype=int), 1, Gate(Budget(1.0, 1e-6)))
        assert named.tolist() == [True]
        words = SecureRandomness().words(people).tolist()
        assert len(set(words)) == len(words) == people
    assert SecureRandomness().words(0).size == 0
