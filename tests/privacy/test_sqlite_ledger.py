"""The ledger in a file: one budget for gates, threads, processes, and those that come after a crash."""

from __future__ import annotations

import json
import os
import pickle
import random
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import (
    DurableLedger,
    Entry,
    Gate,
    GaussianNoise,
    Ledger,
    LedgerConflict,
    MemoryLedger,
    PureRelease,
    SQLiteLedger,
    TreeSum,
)
from tests.states import Meanwhile

PURE, APPROXIMATE = dc.Budget(1.0), dc.Budget(1.0, 1e-6)
TENTH = PureRelease(0.1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


# --- one budget --------------------------------------------------------------------------------------


def test_gates_over_one_file_share_one_budget(path):
    mine, yours = (Gate(PURE, ledger=SQLiteLedger(path)) for _ in range(2))
    assert isinstance(SQLiteLedger(path), Ledger)
    assert isinstance(SQLiteLedger(path), DurableLedger)
    for _ in range(3):
        mine.reserve(TENTH)
        yours.reserve(TENTH, label="other")
    assert mine.spent.to_json() == yours.spent.to_json()
    assert mine.spent.epsilon() == 0.6
    with pytest.raises(dc.BudgetExceeded) as refused:
        mine.reserve(TENTH, 5)
    words = str(refused.value)
    assert "spent epsilon 0.6, asked 5 x PureRelease(epsilon=0.1) which makes 1.1, limit 1" in words
    assert "largest that fits: 5 x PureRelease(epsilon=0.08), or 4 of those asked for" in words
    again = Gate(PURE, ledger=SQLiteLedger(path))
    assert again.spent.to_json() == mine.spent.to_json()
    assert again.remaining.epsilon == 0.4


def test_it_says_what_a_ledger_in_memory_says(path):
    """The same calls in any order, groups and all; each gate sees what the others wrote."""
    rng = random.Random(5)
    stores = MemoryLedger(), SQLiteLedger(path)
    budget = dc.Budget(5.0, 1e-6)
    pairs = [[Gate(budget, 0, notion="zcdp", ledger=store) for _ in range(3)] for store in stores]
    events = [
        TENTH,
        PureRelease(Fraction(1, 30)),
        GaussianNoise(1.0, 30.0),
        GaussianNoise(1, Fraction(91, 3)),
    ]
    for _ in range(25):
        which, event, count = rng.randrange(3), rng.choice(events), rng.choice([1, 1, 2, 5])
        group, label, disjoint = rng.choice([[], ["a"], ["b", "c"]]), rng.choice("xy"), rng.random() < 0.3
        outcomes = []
        for gates in pairs:
            gate = gates[which]
            for name in group:
                gate = gate.part(name)
            try:
                gate.reserve(event, count, disjoint=disjoint, label=label)
                outcomes.append("released")
            except dc.BudgetExceeded as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        # One adds up in order, the other what is equal together; the sums are the same.
        assert pairs[0][which].spent.loss == pairs[1][which].spent.loss
    assert stores[0].version == stores[1].version > 20
    assert sorted(map(repr, stores[0].entries())) == sorted(map(repr, stores[1].entries()))
    assert stores[1].entries(stores[1].version - 1) == stores[0].entries(stores[0].version - 1)


def test_versions_and_numbers_of_any_size(path):
    ledger = SQLiteLedger(path)
    ledger.append(Entry("a", TENTH), 10**30, expected_version=0)
    ledger.append(Entry("a", TENTH), 10**30, expected_version=1, group=("north",))
    with pytest.raises(LedgerConflict, match="at version 2, not 1"):
        ledger.append(Entry("a", TENTH), 1, expected_version=1)
    assert ledger.version == 2
    assert ledger.entries() == [((), Entry("a", TENTH), 10**30), (("north",), Entry("a", TENTH), 10**30)]
    assert ledger.entries(1) == [(("north",), Entry("a", TENTH), 10**30)]
    with pytest.raises(ValueError, match="count=0 is too small"):
        ledger.append(Entry("a", TENTH), 0, expected_version=2)


def test_threads_never_spend_more_than_the_budget(path):
    made, ledger = [], SQLiteLedger(path)

    def fill(gate):
        try:
            while True:
                gate.reserve(TENTH)
                made.append(1)
        except dc.BudgetExceeded:
            pass

    gates = [Gate(PURE, ledger=one) for one in (ledger, ledger, SQLiteLedger(path))]
    writers = [threading.Thread(target=fill, args=(gate,)) for gate in gates]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(made) == 10
    assert gates[0].spent.epsilon() == 1.0


def test_reading_goes_on_where_it_ended(path, monkeypatch):
    """A year of releases is read once, not at every charge."""
    ledger, read = SQLiteLedger(path), []
    mine, yours = (Gate(dc.Budget(1e6), ledger=ledger) for _ in range(2))
    honest = SQLiteLedger.entries

    def watched(self, since=0):
        found = honest(self, since)
        read.append(sum(count for _, _, count in found))
        return found

    monkeypatch.setattr(SQLiteLedger, "entries", watched)
    for _ in range(20):
        mine.reserve(TENTH)
        yours.reserve(TENTH)
    assert max(read) <= 2
    assert sum(read) <= 80


def test_many_entries_open_at_once(path):
    ledger = SQLiteLedger(path)
    Gate(dc.Budget(1e6), ledger=ledger).reserve(TENTH)
    with sqlite3.connect(path) as database:
        rows = ((version, 1, "1", 1) for version in range(2, 20_001))
        database.executemany("INSERT INTO charge VALUES (?, ?, ?, ?)", rows)
    database.close()
    gate = Gate(dc.Budget(1e6), ledger=ledger)
    assert gate.spent.epsilon() == 2000.0
    assert ledger.version == 20_000


# --- terms, formats, permissions -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_ledger_keeps_to_its_budget_and_notion(kind, path):
    ledger = SQLiteLedger(path) if kind == "file" else MemoryLedger()
    Gate(APPROXIMATE, notion="zcdp", ledger=ledger)
    again = SQLiteLedger(path) if kind == "file" else ledger
    Gate(APPROXIMATE, notion="zcdp", ledger=again).reserve(TENTH)
    others = [
        (dc.Budget(2.0, 1e-6), {"notion": "zcdp"}, "epsilon='1.0'; this gate has epsilon='2.0'"),
        (dc.Budget(1.0, 1e-5), {"notion": "zcdp"}, "delta=1e-06; this gate has delta=1e-05"),
        (dc.Budget(1.0, 1e-6, "add_remove"), {"notion": "zcdp"}, "neighbours='replace'"),
        (dc.Budget(1.0, 1e-6, max_rounds_per_person=2), {"notion": "zcdp"}, "max_rounds_per_person=1"),
        (APPROXIMATE, {"notion": "gdp"}, "notion='zcdp'; this gate has notion='gdp'"),
        (APPROXIMATE, {"notion": "zcdp", "failure": 1e-7}, "failure='0'"),
        (dc.Budget(float("inf")), {}, "epsilon='1.0'"),
    ]
    for budget, options, words in others:
        with pytest.raises(ValueError, match="the ledger was first used with") as refused:
            Gate(budget, ledger=again, **options)
        assert words in str(refused.value)
    assert Gate(APPROXIMATE, notion="zcdp", ledger=again).spent.pure == 0.1


def test_files_of_others_are_refused_and_left_alone(tmp_path):
    other, text, newer = tmp_path / "other.db", tmp_path / "text", tmp_path / "newer"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE t (a)")
    database.close()
    text.write_text("this is no database, but long enough to be taken for one" * 20)
    SQLiteLedger(newer).close()
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    for name, words in (
        (other, "is a database of something else"),
        (text, "is not a ledger, or is damaged"),
        (newer, "is a ledger of format 2; this version of discreet knows 1"),
    ):
        before = name.read_bytes()
        with pytest.raises(ValueError, match=words):
            SQLiteLedger(name)
        assert name.read_bytes() == before
        assert not Path(f"{name}-wal").exists()
    with pytest.raises(ValueError, match="is not a file"):
        SQLiteLedger(tmp_path)
    with pytest.raises(ValueError, match="MemoryLedger"):
        SQLiteLedger(":memory:")
    with pytest.raises(FileNotFoundError):
        SQLiteLedger(tmp_path / "no" / "folder")


def test_a_ledger_goes_to_another_process_by_its_path(path):
    ledger = SQLiteLedger(path, timeout=7.0)
    again = pickle.loads(pickle.dumps(ledger))
    assert (again.path, again.timeout) == (ledger.path, 7.0)
    assert repr(again) == f"SQLiteLedger({str(path)!r})"
    Gate(PURE, ledger=again).reserve(TENTH)
    assert Gate(PURE, ledger=ledger).spent.epsilon() == 0.1


def test_only_the_owner_reads_it(path):
    Gate(PURE, ledger=(ledger := SQLiteLedger(path))).reserve(TENTH)
    files = sorted(path.parent.iterdir())
    assert len(files) >= 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    ledger.close()


def test_every_connection_forces_its_log_to_the_disk(path):
    """A kill does not show this; a loss of power would. FULL is 2."""
    for ledger in (SQLiteLedger(path), SQLiteLedger(path)):
        for _ in range(2):
            with ledger._reading() as database:
                assert database.execute("PRAGMA synchronous").fetchone() == (2,)
                assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            ledger._disconnect()


def test_rows_are_not_changed_by_accident(path):
    ledger = SQLiteLedger(path)
    Gate(PURE, 0, ledger=ledger).reserve(TENTH)
    database = sqlite3.connect(path)
    for table in ("charge", "kind", "terms", "mark"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            database.execute(f"DELETE FROM {table}")
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        database.execute("UPDATE charge SET count = '0'")
    database.close()


def test_a_writer_that_does_not_end_is_waited_for_only_so_long(path):
    ledger = SQLiteLedger(path, timeout=0.05)
    gate = Gate(PURE, ledger=ledger)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError, match="locked by another writer; nothing was released"):
        gate.reserve(TENTH)
    other.execute("ROLLBACK")
    other.close()
    held = SQLiteLedger(path)
    done = Meanwhile(lambda: _held_for(held, 0.3))
    done.start()
    with pytest.raises(TimeoutError, match="locked by another writer; nothing was released"):
        gate.reserve(TENTH)
    done.finish()
    assert gate.spent.epsilon() == 0.0
    gate.reserve(TENTH)


def _held_for(ledger, seconds):
    with ledger._writing():
        time.sleep(seconds)


def test_a_file_that_is_gone_is_not_made_again(path):
    ledger = SQLiteLedger(path)
    gate = Gate(PURE, ledger=ledger)
    gate.reserve(TENTH)
    ledger._disconnect()
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone"):
        gate.reserve(TENTH)


def test_accounts_of_all_gates_say_what_one_of_them_knows(path):
    """Noise that somebody may know, and lists that came from data, are in every account of the ledger."""
    seeded, secure = Gate(PURE, 0, ledger=SQLiteLedger(path)), Gate(PURE, ledger=SQLiteLedger(path))
    assert not secure.spent.reproducible
    seeded.reserve(TENTH)
    secure.mark("the list of items came from data")
    for gate in (secure, Gate(PURE, ledger=SQLiteLedger(path))):
        account = gate.spent
        assert account.reproducible
        assert account.marks == ("the list of items came from data",)
        assert "not private" in str(account)


# --- restarts ----------------------------------------------------------------------------------------------


def _sum(gate):
    return TreeSum(2, 8, gate, norm_bound=1.0, share=0.3)


def _gate(path):
    return Gate(APPROXIMATE, notion="gdp", ledger=SQLiteLedger(path))


def _close(gate):
    gate._books.store.close()


def test_charges_are_taken_up_once_and_only_when_nobody_uses_them(path):
    first = _gate(path)
    state = _sum(first).state()
    second = _gate(path)
    with pytest.raises(ValueError, match="in use already"):  # the first is still there
        TreeSum.from_state(*state, second)
    _close(first)
    spent = second.spent.to_json()
    total = TreeSum.from_state(*state, second)
    assert total.add([0.1, 0.2]).shape == (2,)
    assert second.spent.to_json() == spent
    for gate in (second, _gate(path)):
        with pytest.raises(ValueError, match="in use already"):
            TreeSum.from_state(*state, gate)
    _close(second)
    assert TreeSum.from_state(*state, _gate(path)).add([0.1, 0.2]).shape == (2,)


def test_another_name_of_the_file_is_the_same_ledger(path, tmp_path):
    first = _gate(path)
    state = _sum(first).state()
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(ValueError, match="in use already"):
        TreeSum.from_state(*state, _gate(tmp_path / "link"))


def test_equal_entries_are_taken_up_however_their_numbers_are_written(path):
    first = Gate(PURE, ledger=SQLiteLedger(path))
    first.reserve(PureRelease(0.5))
    first.reserve(PureRelease(Fraction(1, 2)))
    _close(first)
    second = Gate(PURE, ledger=SQLiteLedger(path))
    with second.resumed():
        second.reserve(PureRelease(Fraction(1, 2)), 2)
    assert second.spent.epsilon() == 1.0


def test_two_alike_are_two_charges(path):
    first = _gate(path)
    state, _ = (_sum(first).state() for _ in range(2))
    _close(first)
    second, third = _gate(path), _gate(path)
    TreeSum.from_state(*state, second)
    kept = TreeSum.from_state(*state, third)
    with pytest.raises(ValueError, match="in use already"):
        TreeSum.from_state(*state, second)
    assert kept.gate is third


def test_of_two_that_take_up_at_once_one_is_refused(path, monkeypatch):
    first = _gate(path)
    state = _sum(first).state()
    _close(first)
    second, third, honest = _gate(path), _gate(path), SQLiteLedger.claim
    taken = []

    def late(self, charges):
        if not taken:
            taken.append(1)
            TreeSum.from_state(*state, third)
        honest(self, charges)

    monkeypatch.setattr(SQLiteLedger, "claim", late)
    with pytest.raises(ValueError, match="another process was first"):
        TreeSum.from_state(*state, second)


def test_a_failed_restart_takes_nothing_up(path):
    first = _gate(path)
    state, arrays = _sum(first).state()
    _close(first)
    second = _gate(path)
    (((label, event, _), count),) = second.spent.ledger.counts.items()

    def fail():
        with second.resumed():
            second.reserve(event, count, label=label)
            raise KeyError("something else")

    with pytest.raises(KeyError):
        fail()
    assert TreeSum.from_state(state, arrays, second) is not None


def test_a_saved_gate_notices_an_older_ledger(path, tmp_path):
    """What a new gate cannot know: that the file was put back from a copy."""
    first = _gate(path)
    first.reserve(TENTH)
    _close(first)
    (tmp_path / "copy").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"copy-holders is missing.*put an empty file there"):
        SQLiteLedger(tmp_path / "copy")
    (tmp_path / "copy-holders").touch()
    second = _gate(path)
    second.reserve(TENTH)
    state = json.loads(json.dumps(second.state()))
    assert Gate.from_state(state, SQLiteLedger(path)).spent.pure == 0.2
    with pytest.raises(ValueError, match="fewer releases of 'reserved' than were charged"):
        Gate.from_state(state, SQLiteLedger(tmp_path / "copy"))


def test_what_was_closed_releases_nothing(path):
    ledger = SQLiteLedger(path)
    gate = Gate(APPROXIMATE, notion="gdp", ledger=ledger)
    total, release = _sum(gate), gate.reserve(TENTH)
    ledger.close()
    ledger.close()
    for use in (lambda: total.add([0.1, 0.2]), lambda: release.steps(1), lambda: gate.reserve(TENTH)):
        with pytest.raises(RuntimeError, match="was closed"):
            use()


def test_a_ledger_that_nobody_refers_to_lets_its_charges_go(path):
    state = _sum(_gate(path)).state()
    assert TreeSum.from_state(*state, _gate(path)) is not None


def test_learners_come_back_over_the_file(path, tmp_path):
    people = dc.objectives.Coverage(np.eye(6, dtype=bool)[np.arange(40) % 6])
    with SQLiteLedger(path) as ledger:
        gate = Gate(APPROXIMATE, 0, notion="gdp", ledger=ledger)
        learners = [dc.online.LeaderSelector(6, 2, 40, gate.share(Fraction(1, 4))) for _ in range(2)]
        chosen = dc.offline.PrivateGreedy(dc.constraints.Cardinality(2), gate.share(0.25)).select(people)
        assert len(chosen.items) == 2
        for number, learner in enumerate(learners):
            learner.run(people[:10])
            learner.save(tmp_path / f"{number}")
        spent = gate.spent.to_json()["ledger"]
    with SQLiteLedger(path) as ledger:
        gate = Gate(APPROXIMATE, 0, notion="gdp", ledger=ledger)
        again = [dc.load(tmp_path / f"{number}", gate=gate) for number in (0, 1)]
        assert [one.round for one in again] == [10, 10]
        for learner in again:
            learner.run(people[:5])
        assert gate.spent.to_json()["ledger"] == spent
        for number in (0, 1):
            with pytest.raises(ValueError, match="in use already"):
                dc.load(tmp_path / f"{number}", gate=gate)
        assert 0.7 < gate.spent.epsilon() <= 1.0
        with pytest.raises(dc.BudgetExceeded):
            dc.online.LeaderSelector(6, 2, 40, gate.share(0.5))


# --- processes ---------------------------------------------------------------------------------------------

_SCRIPT = """
import os, pickle, signal, sys, time
from discreet.privacy import Budget, Gate, PureRelease, SQLiteLedger, TreeSum

budget, path = Budget(1.0, 1e-6), sys.argv[1]

def gate():
    return Gate(budget, notion="gdp", ledger=SQLiteLedger(path))

def attempt(state):
    try:
        TreeSum.from_state(*state, gate())
        return "taken"
    except ValueError as error:
        return "in use" if "in use already" in str(error) else repr(error)

said = []
ledger = SQLiteLedger(path)
mine = Gate(budget, notion="gdp", ledger=ledger)
mine.reserve(PureRelease(0.01), label="parent")
child = os.fork()
if not child:
    try:  # the parent's gate is the parent's; its ledger object can be used for one of the child's own
        mine.reserve(PureRelease(0.01))
    except RuntimeError:
        Gate(budget, notion="gdp", ledger=ledger).reserve(PureRelease(0.01), label="child")
        os._exit(0)
    os._exit(1)
said.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
mine.reserve(PureRelease(0.01), label="parent")
said.append({entry.label: count for _, entry, count in SQLiteLedger(path).entries()})

ours, theirs = os.pipe()
child = os.fork()
if not child:  # makes a sum, hands its state over and lives on
    assert ledger._connection is None  # connections do not survive a fork
    own = Gate(budget, notion="gdp", ledger=ledger)
    state = TreeSum(2, 8, own, norm_bound=1.0, share=0.3)
    os.write(theirs, pickle.dumps(state.state()))
    os.close(theirs)
    signal.pause()
os.close(theirs)
data = b""
while piece := os.read(ours, 65536):
    data += piece
state = pickle.loads(data)
said.append(attempt(state))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
kept = gate()
TreeSum.from_state(*state, kept)
said.append("taken")
child = os.fork()
if not child:
    os._exit(0 if attempt(state) == "in use" else 1)
said.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
said.append(attempt(state))
import json
print(json.dumps(said))
"""


def test_processes_that_fork_end_and_are_killed(path):
    environment = os.environ | {"PYTHONPATH": str(Path(dc.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == [0, {"parent": 2, "child": 1}, "in use", "taken", 0, "in use"]
