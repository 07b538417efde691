"""Rates and deltas of picks and of keys, beside the same formulas in many digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet.privacy import Budget, Gate, partitions, picks


def number(value):
    return mpmath.mpf(Fraction(value).numerator) / Fraction(value).denominator


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_several_rows_of_a_person_share_a_delta(rounds, epsilon):
    """Of n rows at e each: n e^((n - 1) e) times the delta of one, and a hair more."""
    budget = Budget(float(epsilon), 1e-6, max_rounds_per_person=rounds)
    with mpmath.workdps(60):
        each = mpmath.mpf(epsilon) / rounds
        least = mpmath.mpf("1e-6") / rounds / mpmath.exp((rounds - 1) * each)
        for event in (
            partitions.rule_for(Gate(budget, 0), 0.5, 1).event,
            picks.decomposable(budget.share(), 2.0).event,
        ):
            low, high = (least * (1 - mpmath.mpf(part)) for part in ("1.1e-9", "0.9e-9"))
            assert low < number(event.delta) < high if rounds > 1 else float(event.delta) == 1e-6


@pytest.mark.parametrize(("neighbours", "part"), [("add_remove", 1), ("replace", 2)])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_rates_leave_room_for_the_last_digits(epsilon, neighbours, part):
    """Chances and rates of a sample, and the rate of sums, are below the true ones by some 2^-44."""
    with mpmath.workdps(60):
        a, room = mpmath.mpf(str(epsilon)) / part, mpmath.mpf(2) ** -44
        found = picks.subsampled(Budget(epsilon, 0.0, neighbours).share(), 1.0)
        for ours, true in (
            (number(Fraction(found.keep, 1 << 64)), -mpmath.expm1(-a)),
            (mpmath.mpf(repr(found.rate)), a + mpmath.log1p(mpmath.exp(-a))),
        ):
            assert room / 2 < 1 - ours / true < 2 * room
        rate = mpmath.mpf(repr(picks.decomposable_rate(epsilon, 1e-6, neighbours)))
        c = mpmath.expm1(rate)
        through = rate if neighbours == "replace" else 0
        delta = c / (1 + c) * mpmath.exp(1 + through - (epsilon - through) / c)
        assert 1e-6 * (1 - 1e-9) < delta < 1e-6 * (1 - 5 * room)  # which falls faster


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_delta_is_above_one(neighbours):
    for rate, epsilon in ((0.5, 0.5), (2.9, 3.0), (701.0, 1e4)):
        assert picks.decomposable_delta(rate, epsilon, neighbours) == 1.0


def test_everybody_is_looked_at_where_nothing_is_sampled():
    found = picks.basic(Budget(0.9).share(), 4.0, 5)
    assert (found.chance, found.temperature) == (1.0, found.rate)


def test_keys_may_be_of_any_whole_type_below_the_largest():
    for kind in (np.uint8, np.uint64, np.int16):
        many = np.zeros(1000, dtype=kind)
        gate = Gate(Budget(1.0, 1e-6), 0)
        assert partitions.select_partitions(np.arange(1000).astype(np.uint64), many, 1, gate).all()
    with pytest.raises(ValueError, match="above 2"):
        partitions.select_partitions(np.array([2**63], dtype=np.uint64), [0], 1, gate)


def test_rules_at_the_ends():
    """No count of people times a weight of at most 2^44 leaves 64 bits; a delta of 3/4 needs no distance."""
    rule = partitions.PartitionSelection.within(Fraction(10**6), Fraction(3, 4), 1, "add_remove")
    assert (rule.weight, rule.threshold) == (2**44, 2**44 + 1)
    with pytest.raises(ValueError, match="delta"):
        partitions.PartitionSelection.within(Fraction(1), Fraction(3, 2), 1, "add_remove")
