"""Ledgers: gates that share one spend one budget, whoever writes in between; entries as data and in print."""

from __future__ import annotations

import json
import sys
import threading
from fractions import Fraction

import pytest

import discreet as dc
from discreet.privacy import (
    Account,
    Coins,
    Entry,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    Ledger,
    LedgerConflict,
    MemoryLedger,
    PureRelease,
    TreeSum,
)
from tests.states import Meanwhile

PURE, APPROXIMATE = dc.Budget(1.0), dc.Budget(1.0, 1e-6)
TENTH = PureRelease(0.1)


def _filled(gates, event=TENTH, most=100):
    """Whoever can releases once more, in turns, until nobody can; how often that was."""
    made, left = 0, list(gates)
    while left and made < most:
        gate = left.pop(0)
        try:
            gate.reserve(event)
        except dc.BudgetExceeded:
            continue
        made += 1
        left.append(gate)
    return made


# --- one budget --------------------------------------------------------------------------------------


def test_gates_on_one_ledger_share_one_budget():
    ledger = MemoryLedger()
    assert isinstance(ledger, Ledger)
    gates = [Gate(PURE, 0, ledger=ledger) for _ in range(3)]
    assert _filled(gates) == 10
    assert [gate.spent.epsilon() for gate in gates] == [1.0] * 3
    assert ledger.counts == {Entry("reserved", TENTH): 10}
    assert ledger.version == 10
    late = Gate(PURE, 1, ledger=ledger)
    assert late.remaining.epsilon == 0.0
    with pytest.raises(dc.BudgetExceeded):
        late.laplace(0.0, 10.0, 1.0)


def test_gates_with_ledgers_of_their_own_do_not():
    assert _filled([Gate(PURE, 0, ledger=MemoryLedger()) for _ in range(3)]) == 30
    assert _filled([Gate(PURE, 0) for _ in range(3)]) == 30


def test_everything_that_is_asked_of_a_gate_knows_of_the_others():
    ledger = MemoryLedger()
    mine, yours = (Gate(APPROXIMATE, seed, notion="gdp", ledger=ledger) for seed in (0, 1))
    event = GaussianNoise.within(APPROXIMATE.share(Fraction(3, 4)), 1.0)
    yours.reserve(event)
    assert mine.left.fraction == pytest.approx(0.25, rel=1e-9)
    assert mine.remaining == yours.remaining
    assert not mine.preview(event).fits
    with pytest.raises(dc.BudgetExceeded):
        mine.expect((event, 1))
    total = TreeSum(2, 8, mine, norm_bound=1.0)
    assert yours.spent.to_json() == mine.spent.to_json()
    assert 0.999 < yours.spent.epsilon() <= 1.0
    assert total.add([0.1, 0.2]).shape == (2,)


def test_parts_are_written_as_groups():
    ledger = MemoryLedger()
    mine, yours = (Gate(PURE, seed, ledger=ledger) for seed in (0, 1))
    mine.reserve(TENTH, 2, label="all")
    mine.part("north").reserve(PureRelease(0.8), label="own")
    yours.part("south").part("coast").reserve(TENTH, 3, label="own")
    assert ledger.entries() == [
        ((), Entry("all", TENTH), 2),
        (("north",), Entry("own", PureRelease(0.8)), 1),
        (("south", "coast"), Entry("own", TENTH), 3),
    ]
    assert yours.spent.epsilon() == 1.0  # everybody's, and the worst of the parts
    assert yours.part("south").remaining.epsilon == 0.5
    assert _filled([yours.part("north"), mine.part("south")]) == 5
    with pytest.raises(dc.BudgetExceeded):
        yours.reserve(TENTH)
    assert mine.spent.to_json() == yours.spent.to_json()


def test_a_gate_with_a_ledger_keeps_to_one_notion():
    with pytest.raises(ValueError, match="gates that share a ledger keep to one privacy notion"):
        Gate(APPROXIMATE, ledger=MemoryLedger())
    with pytest.raises(TypeError, match="ledger must have version, entries"):
        Gate(PURE, ledger={})
    spent = MemoryLedger()
    Gate(dc.Budget(2.0), ledger=spent).reserve(PureRelease(1.5))
    with pytest.raises(ValueError, match="holds more than this budget allows"):
        Gate(PURE, ledger=spent)


# --- somebody writes in between ------------------------------------------------------------------------


class Raced(MemoryLedger):
    """Before the first append that would succeed, somebody else writes what they were told to."""

    def __init__(self, entry, count):
        super().__init__()
        self.first = (entry, count)
        self.conflicts = 0

    def append(self, entry, count, *, expected_version, group=()):
        if self.first is not None:
            (other, number), self.first = self.first, None
            super().append(other, number, expected_version=self.version)
        try:
            super().append(entry, count, expected_version=expected_version, group=group)
        except LedgerConflict:
            self.conflicts += 1
            raise


class Careless(Raced):
    """An injected fault: versions are not looked at."""

    def append(self, entry, count, *, expected_version, group=()):  # noqa: ARG002
        if self.first is not None:
            (other, number), self.first = self.first, None
            self.of_group(()).add(other, number)
        self.of_group(group).add(entry, count)


def _spent_in_a_race(kind, theirs, mine):
    """What is charged in all, and what came of a release that somebody else's comes before."""
    ledger = kind(Entry("theirs", PureRelease(theirs)), 1)
    try:
        Gate(PURE, 0, ledger=ledger).reserve(PureRelease(mine), label="mine")
        outcome = "released"
    except dc.BudgetExceeded:
        outcome = "refused"
    return float(ledger.loss.pure), outcome, getattr(ledger, "conflicts", 0)


def test_a_conflict_is_looked_at_again():
    assert _spent_in_a_race(Raced, 0.3, 0.6) == (0.9, "released", 1)
    assert _spent_in_a_race(Raced, 0.5, 0.6) == (0.5, "refused", 1)


def test_a_ledger_that_ignores_versions_is_noticed():
    spent, outcome, _ = _spent_in_a_race(Careless, 0.5, 0.6)
    assert outcome == "released"
    assert spent > PURE.epsilon


def test_many_writers_never_spend_more_than_the_budget():
    ledger, made = MemoryLedger(), []
    gates = [Gate(dc.Budget(1.0), seed, ledger=ledger) for seed in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writers = [
            threading.Thread(target=lambda gate=gate: made.append(_filled([gate], PureRelease(0.01))))
            for gate in gates
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    finally:
        sys.setswitchinterval(before)
    assert sum(made) == 100
    assert ledger.loss.pure == 1


def test_writers_in_memory_take_turns(monkeypatch):
    """Between the look at the version and the entry nobody else writes."""
    ledger, honest = MemoryLedger(), MemoryLedger.add
    mine, yours = (Gate(PURE, seed, ledger=ledger) for seed in (0, 1))
    other = Meanwhile(lambda: yours.reserve(PureRelease(0.6)))

    def slow(self, entry, count):
        if self is ledger:
            other.start()
        honest(self, entry, count)

    monkeypatch.setattr(MemoryLedger, "add", slow)
    mine.reserve(PureRelease(0.6))
    with pytest.raises(dc.BudgetExceeded):
        other.finish()
    assert ledger.loss.pure == Fraction(3, 5)


def test_an_entry_that_a_ledger_loses_is_noticed():
    ledger = MemoryLedger()
    gate = Gate(PURE, 0, ledger=ledger)
    gate.reserve(PureRelease(0.6))
    assert gate.spent.epsilon() == 0.6
    ledger.counts.clear()
    ledger.append(Entry("other", TENTH), 1, expected_version=ledger.version)
    with pytest.raises(dc.BudgetExceeded, match=r"spent epsilon 0\.7"):  # the gate remembers what it has read
        gate.reserve(PureRelease(0.6))
    ledger._version = 1
    with pytest.raises(ValueError, match="fewer releases than were charged"):
        gate.reserve(TENTH)


def test_versions():
    ledger = MemoryLedger()
    ledger.append(Entry("a", TENTH), 2, expected_version=0)
    ledger.append(Entry("a", TENTH), 1, expected_version=1, group=("north",))
    with pytest.raises(LedgerConflict, match="at version 2, not 1"):
        ledger.append(Entry("a", TENTH), 1, expected_version=1)
    assert ledger.loss.pure == Fraction(3, 10)
    assert (ledger.version, ledger.parts["north"].version) == (2, 1)


# --- saving behind a ledger ----------------------------------------------------------------------------


def test_a_restored_gate_goes_on_with_the_same_ledger():
    """Without it, what others spend from then on, and what this one does, would not be one budget."""
    ledger = MemoryLedger()
    mine, yours = (Gate(PURE, seed, ledger=ledger) for seed in (0, 1))
    mine.reserve(PureRelease(0.5))
    state = json.loads(json.dumps(mine.state()))
    yours.reserve(PureRelease(0.4))
    with pytest.raises(ValueError, match="ledger= must be the one"):
        Gate.from_state(state)
    again = Gate.from_state(state, ledger)
    assert again.remaining.epsilon == 0.1
    assert _filled([mine, again, yours]) == 1
    with pytest.raises(ValueError, match="ledger= must be the one"):
        Gate.from_state(Gate(PURE, 0).state(), MemoryLedger())
    with pytest.raises(ValueError, match="fewer releases of 'reserved' than were charged"):
        Gate.from_state(state, MemoryLedger())


def test_a_sum_comes_back_behind_a_ledger_once():
    ledger = MemoryLedger()
    gate = Gate(APPROXIMATE, 3, notion="gdp", ledger=ledger)
    total = TreeSum(2, 8, gate, norm_bound=1.0, share=0.5)
    total.add([0.1, 0.2])
    state, behind = total.state(), gate.state()
    Gate(APPROXIMATE, 4, notion="gdp", ledger=ledger).gaussian(0.0, sigma=40.0, sensitivity=1.0)
    again = Gate.from_state(behind, ledger)
    before = again.spent.to_json()
    twin = TreeSum.from_state(*state, again)
    assert (twin.add([0.3, 0.1]) == total.add([0.3, 0.1])).all()
    assert again.spent.to_json() == before
    with pytest.raises(ValueError, match="in use already"):
        TreeSum.from_state(*state, again)
    yours = Gate(APPROXIMATE, 5, notion="gdp", ledger=ledger)
    yours.gaussian(0.0, sigma=40.0, sensitivity=1.0)  # the ledger is read again, and it stays taken up
    assert again.spent.to_json() == yours.spent.to_json()
    with pytest.raises(ValueError, match="in use already"):
        TreeSum.from_state(*state, again)


def test_settings_that_need_more_than_they_claim_need_a_budget_of_their_own():
    for gate in (
        Gate(PURE, ledger=MemoryLedger()),
        Gate(PURE).part("north"),
        Gate.of_share(PURE.split(2)[0]),
    ):
        with pytest.raises(ValueError, match="need a budget of their own"):
            gate.enlarged(dc.Budget(3.0))
    assert Gate(PURE, 0).enlarged(dc.Budget(3.0)).budget.epsilon == 3.0


# --- disjoint groups, as data and in print ---------------------------------------------------------------


def test_disjoint_releases_differ_in_data_and_in_print():
    gate = Gate(dc.Budget(2.0), 0)
    windows = gate.reserve(TENTH, 3, disjoint=True, label="windows")
    everybody = gate.reserve(TENTH, 2, label="windows")
    assert (windows.disjoint, windows.count, everybody.disjoint) == (True, 3, False)
    account = gate.spent
    assert account.ledger.counts == {Entry("windows", TENTH, True): 3, Entry("windows", TENTH): 2}
    assert account.epsilon() == 0.5
    again = Account.from_json(json.loads(json.dumps(account.to_json())))
    assert again.ledger.counts == account.ledger.counts
    assert [row[4:6] for row in account.releases()[1]] == [["3", "disjoint groups"], ["2", "all"]]
    for text in (str(account), account._repr_html_()):
        assert text.count("disjoint groups") == 1
    assert str(again) == str(account)


def test_disjoint_is_true_or_false():
    record = Gate(PURE, 0).spent.to_json()
    record["ledger"]["releases"] = [{"label": "x", "count": 1, "event": TENTH.to_json(), "disjoint": "yes"}]
    with pytest.raises(ValueError, match="disjoint must be true or false"):
        Account.from_json(record)


def test_what_is_taken_up_again_is_as_disjoint_as_what_was_charged():
    gate = Gate(PURE, 0)
    gate.reserve(TENTH, 3, disjoint=True, label="windows")
    again = Gate.from_state(gate.state())
    with again.resumed(), pytest.raises(ValueError, match="not charged"):
        again.reserve(TENTH, 3, label="windows")
    with again.resumed():
        assert again.reserve(TENTH, 3, disjoint=True, label="windows").disjoint


def test_draws_that_depend_on_nobody_are_not_entered():
    gate = Gate(PURE, 0)
    free = gate.reserve(LaplaceNoise(1.0, 1.0), 0)
    assert free.steps(3).shape == (3,)
    assert isinstance(gate.coins(), Coins)
    assert len(gate.key()) == 32
    assert gate.spent.ledger.counts == {}
