"""Ledgers: gates that share one spend one budget, whoever writes in between; entries as data and in print."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import (
    Account,
    Charge,
    Entry,
    ExactChoices,
    ExponentialChoice,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    Ledger,
    LedgerConflict,
    MemoryLedger,
    PermuteAndFlip,
    PublicRandomness,
    PureRelease,
    Releases,
    TreeSum,
)
from discreet.privacy.samplers import Grid
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
    assert ledger.entries() == [Charge((), Entry("reserved", TENTH), 10)]
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
    mine, yours = (Gate(APPROXIMATE, seed, definition="gdp", ledger=ledger) for seed in (0, 1))
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
        Charge((), Entry("all", TENTH), 2),
        Charge(("north",), Entry("own", PureRelease(0.8)), 1),
        Charge(("south", "coast"), Entry("own", TENTH), 3),
    ]
    assert yours.spent.epsilon() == 1.0  # everybody's, and the worst of the parts
    assert yours.part("south").remaining.epsilon == 0.5
    assert _filled([yours.part("north"), mine.part("south")]) == 5
    with pytest.raises(dc.BudgetExceeded):
        yours.reserve(TENTH)
    assert mine.spent.to_json() == yours.spent.to_json()


def test_a_gate_with_a_ledger_keeps_to_one_definition():
    with pytest.raises(ValueError, match="gates that share a ledger keep to one privacy definition"):
        Gate(APPROXIMATE, ledger=MemoryLedger())
    with pytest.raises(TypeError, match="ledger must be a Ledger"):
        Gate(PURE, ledger={})
    spent = MemoryLedger()
    Gate(dc.Budget(2.0), ledger=spent).reserve(PureRelease(1.5))
    with pytest.raises(ValueError, match="more was spent than the budget allows"):
        Gate(PURE, ledger=spent)


# --- somebody writes in between ------------------------------------------------------------------------


class Raced(MemoryLedger):
    """Before the first append that would succeed, somebody else writes what they were told to."""

    def __init__(self, entry, count):
        super().__init__()
        self.first = (entry, count)
        self.conflicts = 0

    def append(self, charge, *, expected_version):
        if self.first is not None:
            (other, number), self.first = self.first, None
            super().append(Charge((), other, number), expected_version=self.version)
        try:
            super().append(charge, expected_version=expected_version)
        except LedgerConflict:
            self.conflicts += 1
            raise


class Careless(Raced):
    """An injected fault: versions are not looked at."""

    def append(self, charge, *, expected_version):  # noqa: ARG002
        if self.first is not None:
            (other, number), self.first = self.first, None
            MemoryLedger.append(self, Charge((), other, number), expected_version=self.version)
        MemoryLedger.append(self, charge, expected_version=self.version)


def _loss(ledger):
    total = Releases()
    for group, entry, count, _ in ledger.entries():
        total.of_group(group).add(entry, count)
    return total.loss


def _spent_in_a_race(kind, theirs, mine):
    """What is charged in all, and what came of a release that somebody else's comes before."""
    ledger = kind(Entry("theirs", PureRelease(theirs)), 1)
    try:
        Gate(PURE, 0, ledger=ledger).reserve(PureRelease(mine), label="mine")
        outcome = "released"
    except dc.BudgetExceeded:
        outcome = "refused"
    return float(_loss(ledger).pure), outcome, getattr(ledger, "conflicts", 0)


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
    assert _loss(ledger).pure == 1


def test_writers_in_memory_take_turns():
    """Between the look at the version and the entry nobody else writes."""
    ledger = MemoryLedger()
    mine, yours = (Gate(PURE, seed, ledger=ledger) for seed in (0, 1))
    other = Meanwhile(lambda: yours.reserve(PureRelease(0.6)))

    class Slow(list):
        def append(self, charge):  # between the look at the version and the entry
            other.start()
            super().append(charge)

    ledger._runs = Slow()
    mine.reserve(PureRelease(0.6))
    with pytest.raises(dc.BudgetExceeded):
        other.finish()
    assert _loss(ledger).pure == Fraction(3, 5)


def test_an_entry_that_a_ledger_loses_is_noticed():
    ledger = MemoryLedger()
    gate = Gate(PURE, 0, ledger=ledger)
    gate.reserve(PureRelease(0.6))
    assert gate.spent.epsilon() == 0.6
    ledger._runs = [(Charge((), Entry("lost", PureRelease(0.0)), 1), 1, 1)]
    ledger.append(Charge((), Entry("other", TENTH), 1), expected_version=ledger.version)
    with pytest.raises(dc.BudgetExceeded, match=r"spent epsilon 0\.7"):  # the gate remembers what it has read
        gate.reserve(PureRelease(0.6))
    del ledger._runs[1:]
    with pytest.raises(ValueError, match="fewer releases than were charged"):
        gate.reserve(TENTH)


@pytest.mark.parametrize("shared", [False, True])
def test_an_interrupt_hides_no_later_charge_and_stops_nobody(shared):
    """Wherever a charge is interrupted, those after it are made, and whoever reads the ledger sees them."""
    line, reached = 0, True
    while reached:  # the first charge is interrupted one line later each time
        line, steps, reached = line + 1, 0, False

        def trace(frame, event, _, line=line):
            nonlocal steps, reached
            if "discreet.privacy" not in frame.f_globals.get("__name__", ""):
                return None
            assert steps < 10**4, "the next charge goes on for ever"
            if event == "line" and (steps := steps + 1) == line:
                reached = True
                raise KeyboardInterrupt
            return trace

        ledger, before = MemoryLedger() if shared else None, sys.gettrace()
        gate = Gate(PURE, 0, ledger=ledger)
        sys.settrace(trace)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                gate.reserve(TENTH)
            if reached:
                sys.settrace(trace)  # it ended with the interrupt
                gate.reserve(PureRelease(0.5))
        finally:
            sys.settrace(before)
        seen = Gate(PURE, ledger=ledger) if shared else Gate.from_state(gate.state())
        assert not reached or min(gate.spent.pure, seen.spent.pure) >= 0.5


def test_versions():
    ledger = MemoryLedger()
    everybody, north = Charge((), Entry("a", TENTH), 2), Charge(("north",), Entry("a", TENTH), 1)
    ledger.append(everybody, expected_version=0)
    ledger.append(north, expected_version=1)
    with pytest.raises(LedgerConflict, match="at version 2, not 1"):
        ledger.append(north, expected_version=1)
    assert _loss(ledger).pure == Fraction(3, 10)
    assert (ledger.version, ledger.entries(1)) == (2, [north])
    for version in (2, 3, 4):
        ledger.append(north, expected_version=version)  # a charge that repeats is kept once, and counted
    assert [ledger.entries(since) for since in (2, 3, 4, 5)] == [
        [north._replace(count=3)],
        [north._replace(count=2)],
        [north],
        [],
    ]


def test_a_ledger_in_memory_is_saved_with_all_it_knows():
    ledger = MemoryLedger()
    gate = Gate(PURE, 0, ledger=ledger)
    gate.add_caveats("the list of items came from data")
    for _ in range(3):
        gate.reserve(TENTH)
        gate.part("north").reserve(TENTH, disjoint=True, label="own")
    again = MemoryLedger.from_json(json.loads(json.dumps(ledger.to_json())))
    assert (again.id, again.version, again.caveats) == (ledger.id, 6, ledger.caveats)
    assert _loss(again) == _loss(ledger)
    assert Gate(PURE, ledger=again).spent.to_json() == gate.spent.to_json()
    late = Charge((), Entry("late", TENTH), 1)
    again.append(late, expected_version=6)
    assert again.entries(6) == [late]
    with pytest.raises(ValueError, match="not known one by one"):
        again.entries(3)
    for wrong in ({"version": 0}, {"charges": [ledger.to_json()["charges"][0] | {"owner": "nobody"}]}):
        with pytest.raises(ValueError, match=r"version|owner"):
            MemoryLedger.from_json(ledger.to_json() | wrong)


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
    with pytest.raises(ValueError, match="another one than the saved gate was made with"):
        Gate.from_state(state, MemoryLedger())


def test_a_sum_comes_back_behind_a_ledger_once():
    ledger = MemoryLedger()
    gate = Gate(APPROXIMATE, 3, definition="gdp", ledger=ledger)
    total = TreeSum(2, 8, gate, norm_bound=1.0, share=0.5)
    total.add([0.1, 0.2])
    state, behind = total.state(), gate.state()
    Gate(APPROXIMATE, 4, definition="gdp", ledger=ledger).gaussian(0.0, sigma=40.0, sensitivity=1.0)
    with pytest.raises(ValueError, match="already in use"):  # it lives
        TreeSum.from_state(*state, Gate.from_state(behind, ledger))
    ledger = MemoryLedger.from_json(ledger.to_json())
    again = Gate.from_state(behind, ledger)
    before = again.spent.to_json()
    twin = TreeSum.from_state(*state, again)
    assert (twin.add([0.3, 0.1]) == total.add([0.3, 0.1])).all()
    assert again.spent.to_json() == before
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, again)
    yours = Gate(APPROXIMATE, 5, definition="gdp", ledger=ledger)
    yours.gaussian(0.0, sigma=40.0, sensitivity=1.0)  # the ledger is read again, and it stays taken up
    assert again.spent.to_json() == yours.spent.to_json()
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, again)


def test_settings_that_need_more_than_they_claim_need_a_budget_of_their_own():
    for gate, cause in (
        (Gate(PURE, ledger=MemoryLedger()), "was given a ledger"),
        (Gate(PURE).part("north"), "is for one group of people"),
        (Gate.of_share(PURE.split(2)[0]), "has a share of a budget"),
    ):
        with pytest.raises(ValueError, match=f"need a budget of their own, and this gate {cause}"):
            gate.with_budget(dc.Budget(3.0))
    assert Gate(PURE, 0).with_budget(dc.Budget(3.0)).budget.epsilon == 3.0


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
    assert [row[4:6] for row in account.releases()[1]] == [
        ["3", "parallel over disjoint groups"],
        ["2", "sequential"],
    ]
    for text in (str(account), account._repr_html_()):
        assert text.count("parallel over") == 1
    assert str(again) == str(account)


def test_draws_that_depend_on_nobody_are_not_entered():
    gate = Gate(PURE, 0)
    assert gate.post_processing().choice(np.array([1.0, 2.0]), 1.0) in (0, 1)
    assert isinstance(gate.public_randomness(), PublicRandomness)
    assert len(gate.key()) == 32
    assert gate.spent.ledger.counts == {}


# --- draws are counted -------------------------------------------------------------------------------------

SCORES = np.array([0.0, 1.0])
DRAWS = {
    "choice": (ExponentialChoice(0.1, 1.0), lambda release: release.choice(SCORES)),
    "flipped": (PermuteAndFlip(0.1, 1.0), lambda release: release.permute_and_flip(SCORES)),
    "steps": (LaplaceNoise(0.1, 1.0), lambda release: release.steps(3)),
    "noise": (LaplaceNoise(0.1, 1.0), lambda release: release.noise(Grid.for_noise(1.0, 0.1, 0), 3)),
    "rows": (LaplaceNoise(0.1, 1.0), lambda release: release.noise_rows(Grid.for_noise(1.0, 0.1, 0), 1, 3)),
    "noisy": (LaplaceNoise(0.1, 1.0), lambda release: release.noisy(SCORES, Grid.for_noise(1.0, 0.1, 1))),
    "bare": (LaplaceNoise(0.0, 0.0), lambda release: release.noisy(SCORES, None)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_no_more_is_drawn_than_was_charged_for(name):
    event, draw = DRAWS[name]
    gate = Gate(PURE, 0)
    release = gate.reserve(event, 2)
    draw(release)
    draw(release)
    before = gate.state()["randomness"]
    with pytest.raises(RuntimeError, match="was charged for 2 releases, and 0 draws are left"):
        draw(release)
    nothing = gate.reserve(event, 0)
    for anything in (draw, lambda release: release.words(1), lambda release: release.sample(5, 1 << 63)):
        with pytest.raises(RuntimeError, match="was charged for 0 releases"):
            anything(nothing)
    assert gate.state()["randomness"] == before  # nothing was drawn
    groups = gate.reserve(event, 1, disjoint=True)  # about one group after the other
    for _ in range(5):
        draw(groups)
    several = gate.reserve(event, 1, draws=3)  # of which one person's data enters one
    for _ in range(3):
        draw(several)
    with pytest.raises(RuntimeError, match="0 draws are left"):
        draw(several)


def test_choices_that_are_composed_exactly_are_counted_together():
    gate = Gate(APPROXIMATE, 0)
    release = gate.reserve(ExactChoices(0.1, 1.0, 4, Fraction(1, 10**7)))
    for _ in range(4):
        release.choice(SCORES)
    with pytest.raises(RuntimeError, match="0 draws are left"):
        release.choice(SCORES)


def test_no_release_is_drawn_more_sharply_than_was_charged_for():
    gate = Gate(PURE, 0)
    choice, noise = gate.reserve(ExponentialChoice(0.1, 1.0)), gate.reserve(LaplaceNoise(0.1, 1.0))
    with pytest.raises(ValueError, match=r"does not pay for choices at rate 0\.2"):
        choice.choice(SCORES, 0.2)
    fine = Grid.for_noise(0.5, 0.1, 0)
    for draw in (lambda: noise.noise(fine, 1), lambda: noise.noise_rows(fine, 1, 1)):
        with pytest.raises(ValueError, match=r"does not pay for noise of scale 0\.5"):
            draw()


def test_a_charge_pays_for_nothing_but_what_it_names():
    gate = Gate(dc.Budget(9.0), 0)
    noise, choice = gate.reserve(LaplaceNoise(1.0, 1.0)), gate.reserve(ExponentialChoice(0.5, 2.0))
    with pytest.raises(ValueError, match="without noise"):
        noise.noisy(np.array([52000.123]), None)
    with pytest.raises(TypeError, match="does not pay for choices"):
        noise.choice(np.array([0.0, 1e-3]), rate=1e6)
    with pytest.raises(TypeError, match="does not pay for choices"):
        noise.permute_and_flip(np.array([0.0, 1e-3]), rate=1e6)
    with pytest.raises(TypeError, match="leave law= out"):
        choice.steps(3, "laplace")
    with pytest.raises(TypeError, match="leave law= out"):
        noise.steps(3, "gaussian")
    assert not hasattr(noise, "index")
