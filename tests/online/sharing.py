"""Several learners about the same people, on one budget: shares of it, one gate, one account."""

from __future__ import annotations

import contextlib

import pytest

import discreet as dc
from discreet.privacy import Account, Gate, Releases

APPROXIMATE, PURE = dc.Budget(1.0, 1e-6, max_rounds_per_person=2), dc.Budget(1.0)


def composed(learners, budget):
    """One account of everything that these learners, each with a gate of its own, release."""
    ledger = Releases()
    for learner in learners:
        for entry, count in learner.privacy.ledger.counts.items():
            ledger.add(entry, count)
    return Account(budget, ledger)


def check_one_budget_for_two(make, people, budget, tmp_path):
    """``make(what)`` makes a learner that spends from it; ``people`` come to each of them."""
    gate = Gate(budget, 0)
    learners = [make(share) for share in gate.split([1, 2])]
    whole = gate.spent.epsilon(budget.delta)
    assert 0.0 < whole <= budget.epsilon
    for learner in learners:
        learner.run(people)
        assert learner.privacy.epsilon(budget.delta) == whole == gate.spent.epsilon(budget.delta)
        assert 0.0 < learner.privacy.spent.epsilon(budget.delta) <= whole
    # A shared gate is saved on its own, and both learners come back to it.
    for place, learner in enumerate(learners):
        learner.save(tmp_path / f"{place}")
    restored = Gate.from_state(gate.state())
    again = [dc.load(tmp_path / f"{place}", gate=restored) for place in (0, 1)]
    assert [one.choose() for one in again] == [one.choose() for one in learners]
    assert restored.spent.to_json() == gate.spent.to_json()
    # What rounding left over is all that a third one gets.
    with contextlib.suppress(dc.BudgetExceeded):
        make(gate)
    assert gate.spent.epsilon(budget.delta) <= budget.epsilon
    # Shares without a gate: each learner has one of its own, which holds no more.
    apart = [make(share) for share in budget.split(2)]
    assert 0.0 < composed(apart, budget).epsilon(budget.delta) <= budget.epsilon
    # And a gate whole: nothing is left for others.
    alone = Gate(budget, 0)
    assert make(alone).privacy.epsilon(budget.delta) <= budget.epsilon
    with pytest.raises(ValueError, match="seed= is for a budget"):
        make(alone, seed=1)
