"""The ledger in a file: one budget for gates, threads, processes, and those that come after a crash."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import (
    Charge,
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
from discreet.privacy.ledger import _locked, _Locks
from tests.states import Meanwhile

PURE, APPROXIMATE = dc.Budget(1.0), dc.Budget(1.0, 1e-6)
TENTH = PureRelease(0.1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


# --- one budget --------------------------------------------------------------------------------------


def test_it_says_what_a_ledger_in_memory_says(path):
    """The same calls in any order, groups and all; each gate sees what the others wrote."""
    rng = random.Random(5)
    stores = MemoryLedger(), SQLiteLedger(path)
    budget = dc.Budget(5.0, 1e-6)
    pairs = [[Gate(budget, 0, definition="zcdp", ledger=store) for _ in range(3)] for store in stores]
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
    counted = []
    for store in stores:
        counts = {}
        for group, entry, count, _ in store.entries():
            counts[group, entry] = counts.get((group, entry), 0) + count
        counted.append(counts)
    assert counted[0] == counted[1]
    assert stores[1].entries(stores[1].version - 1) == stores[0].entries(stores[0].version - 1)


def test_versions_and_numbers_of_any_size(path):
    ledger = SQLiteLedger(path)
    everybody, north = (Charge(group, Entry("a", TENTH), 10**30) for group in ((), ("north",)))
    ledger.append(everybody, expected_version=0)
    ledger.append(north, expected_version=1)
    with pytest.raises(LedgerConflict, match="at version 2, not 1"):
        ledger.append(everybody, expected_version=1)
    assert ledger.version == 2
    assert ledger.entries() == [everybody, north]
    assert ledger.entries(1) == [north]
    with pytest.raises(ValueError, match="count=0 is too small"):
        ledger.append(north._replace(count=0), expected_version=2)


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


# --- terms, formats, permissions -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_ledger_keeps_to_its_budget_and_definition(kind, path):
    ledger = SQLiteLedger(path) if kind == "file" else MemoryLedger()
    Gate(APPROXIMATE, definition="zcdp", ledger=ledger)
    again = SQLiteLedger(path) if kind == "file" else ledger
    Gate(APPROXIMATE, definition="zcdp", ledger=again).reserve(TENTH)
    others = [
        (dc.Budget(2.0, 1e-6), {"definition": "zcdp"}, "epsilon='1.0'; this gate has epsilon='2.0'"),
        (dc.Budget(1.0, 1e-5), {"definition": "zcdp"}, "delta=1e-06; this gate has delta=1e-05"),
        (dc.Budget(1.0, 1e-6, "add_remove"), {"definition": "zcdp"}, "neighbours='replace'"),
        (dc.Budget(1.0, 1e-6, max_rounds_per_person=2), {"definition": "zcdp"}, "max_rounds_per_person=1"),
        (APPROXIMATE, {"definition": "gdp"}, "definition='zcdp'; this gate has definition='gdp'"),
        (APPROXIMATE, {"definition": "zcdp", "failure": 1e-7}, "failure='0'"),
        (dc.Budget(float("inf")), {}, "epsilon='1.0'"),
    ]
    for budget, options, words in others:
        with pytest.raises(ValueError, match="the ledger was first used with") as refused:
            Gate(budget, ledger=again, **options)
        assert words in str(refused.value)
    assert Gate(APPROXIMATE, definition="zcdp", ledger=again).spent.pure == 0.1


def test_files_of_others_are_refused_and_left_alone(tmp_path):
    other, text, newer = tmp_path / "other.db", tmp_path / "text", tmp_path / "newer"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE t (a)")
    database.close()
    text.write_text("this is no database, but long enough to be taken for one" * 20)
    SQLiteLedger(newer).close()
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()
    for name, words in (
        (other, "is a database of something else"),
        (text, "is not a ledger, or is damaged"),
        (newer, "is a ledger of format 3; this version of discreet knows 2"),
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
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600, 0o700}
    inside = Path(f"{path}-holders").iterdir()
    assert {stat.S_IMODE(file.stat().st_mode) for file in inside} == {0o600}
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
    for table in ("charge", "kind", "terms", "caveat", "ledger"):
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
    held, holds, over = SQLiteLedger(path), threading.Event(), threading.Event()
    done = Meanwhile(lambda: _held_until(held, holds, over))
    done.start()
    assert holds.wait(300.0)
    with pytest.raises(TimeoutError, match="locked by another writer; nothing was released"):
        gate.reserve(TENTH)
    over.set()
    done.finish()
    assert gate.spent.epsilon() == 0.0
    gate.reserve(TENTH)


def test_an_interrupt_leaves_no_transaction_open(path):
    class Interrupted:
        def __init__(self, database):
            self.database = database

        def __getattr__(self, name):
            return getattr(self.database, name)

        def execute(self, statement, *values):
            found = self.database.execute(statement, *values)
            if statement.startswith("BEGIN"):
                raise KeyboardInterrupt
            return found

    with SQLiteLedger(path) as ledger, SQLiteLedger(path, timeout=0.1) as other:
        gate, plain = Gate(PURE, 0, ledger=ledger), ledger._connection
        ledger._connection = Interrupted(plain)
        with pytest.raises(KeyboardInterrupt):
            gate.reserve(TENTH)
        ledger._connection = plain
        Gate(PURE, 0, ledger=other).reserve(TENTH)  # nobody holds the write lock
        gate.reserve(TENTH)
        assert gate.spent.pure == 0.2


def test_an_interrupt_leaves_no_lock_taken(path, monkeypatch):
    plain, shots = _locked, []

    def interrupted(handle, **how):
        assert plain(handle, **how)
        if not shots:
            shots.append(handle)
            raise KeyboardInterrupt
        return True

    with SQLiteLedger(path) as ledger, SQLiteLedger(path, timeout=0.1) as other:
        gate, its = Gate(PURE, 0, ledger=ledger), Gate(PURE, 0, ledger=other)
        monkeypatch.setattr("discreet.privacy.ledger._locked", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gate.reserve(TENTH)
        monkeypatch.undo()
        its.reserve(TENTH)  # before that gate does anything more
        assert gate.spent.pure == 0.1


def test_a_new_file_that_is_busy_is_asked_again(tmp_path, monkeypatch):
    connect, busy = SQLiteLedger._connect, [True, True]

    def connected(ledger):
        if busy and busy.pop():
            raise TimeoutError
        return connect(ledger)

    monkeypatch.setattr(SQLiteLedger, "_connect", connected)
    assert SQLiteLedger(tmp_path / "one", timeout=3600.0).version == 0
    assert not busy
    busy.extend([True] * 10**6)
    with pytest.raises(TimeoutError):
        SQLiteLedger(tmp_path / "two", timeout=0.01)
    with pytest.raises(ValueError, match="timeout=3601"):
        SQLiteLedger(tmp_path / "two", timeout=3601.0)


def _held_until(ledger, holds, over):
    with ledger._writing():
        holds.set()
        over.wait(300.0)


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
    secure.add_caveats("the list of items came from data")
    for gate in (secure, Gate(PURE, ledger=SQLiteLedger(path))):
        account = gate.spent
        assert account.reproducible
        assert account.caveats == ("the list of items came from data",)
        assert "not private" in str(account)


# --- restarts ----------------------------------------------------------------------------------------------


def _sum(gate):
    return TreeSum(2, 8, gate, norm_bound=1.0, share=0.3)


def _gate(path):
    return Gate(APPROXIMATE, definition="gdp", ledger=SQLiteLedger(path))


def _close(gate):
    gate._accountant.ledger.close()


def test_charges_are_taken_up_once_and_only_when_nobody_uses_them(path):
    first = _gate(path)
    state = _sum(first).state()
    second = _gate(path)
    with pytest.raises(ValueError, match="already in use"):  # the first is still there
        TreeSum.from_state(*state, second)
    _close(first)
    spent = second.spent.to_json()
    total = TreeSum.from_state(*state, second)
    assert total.add([0.1, 0.2]).shape == (2,)
    assert second.spent.to_json() == spent
    for gate in (second, _gate(path)):
        with pytest.raises(ValueError, match="already in use"):
            TreeSum.from_state(*state, gate)
    _close(second)
    assert TreeSum.from_state(*state, _gate(path)).add([0.1, 0.2]).shape == (2,)


def test_another_name_of_the_file_is_the_same_ledger(path, tmp_path):
    first = _gate(path)
    state = _sum(first).state()
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, _gate(tmp_path / "link"))


def test_of_two_that_take_up_at_once_one_is_refused(path, monkeypatch):
    first = _gate(path)
    state = _sum(first).state()
    _close(first)
    second, third, honest = _gate(path), _gate(path), SQLiteLedger.take_up
    taken = []

    def late(self, *about):
        if not taken:
            taken.append(1)
            TreeSum.from_state(*state, third)
        honest(self, *about)

    monkeypatch.setattr(SQLiteLedger, "take_up", late)
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, second)


def test_a_failed_restart_takes_nothing_up(path):
    first = _gate(path)
    state, arrays = _sum(first).state()
    _close(first)
    second = _gate(path)
    with pytest.raises(ValueError, match="cannot be right"):
        TreeSum.from_state(state, {}, second)
    assert TreeSum.from_state(state, arrays, second) is not None


def test_what_was_closed_releases_nothing(path):
    ledger = SQLiteLedger(path)
    gate = Gate(APPROXIMATE, definition="gdp", ledger=ledger)
    total, release = _sum(gate), gate.reserve(TENTH)
    ledger.close()
    ledger.close()
    for use in (lambda: total.add([0.1, 0.2]), lambda: release.steps(1), lambda: gate.reserve(TENTH)):
        with pytest.raises(RuntimeError, match="was closed"):
            use()


def test_a_ledger_that_nobody_refers_to_lets_its_charges_go(path):
    state = _sum(_gate(path)).state()
    assert TreeSum.from_state(*state, _gate(path)) is not None


# --- processes ---------------------------------------------------------------------------------------------

_SCRIPT = """
import os, pickle, signal, sys, time
from discreet.privacy import Budget, Gate, PureRelease, SQLiteLedger, TreeSum

budget, path = Budget(1.0, 1e-6), sys.argv[1]

def gate():
    return Gate(budget, definition="gdp", ledger=SQLiteLedger(path))

def attempt(state):
    try:
        TreeSum.from_state(*state, gate())
        return "taken"
    except ValueError as error:
        return "in use" if "already in use" in str(error) else repr(error)

said = []
ledger = SQLiteLedger(path)
mine = Gate(budget, definition="gdp", ledger=ledger)
mine.reserve(PureRelease(0.01), label="parent")
child = os.fork()
if not child:
    try:  # the parent's gate is the parent's; its ledger object can be used for one of the child's own
        mine.reserve(PureRelease(0.01))
    except RuntimeError:
        Gate(budget, definition="gdp", ledger=ledger).reserve(PureRelease(0.01), label="child")
        os._exit(0)
    os._exit(1)
said.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
mine.reserve(PureRelease(0.01), label="parent")
said.append({entry.label: count for _, entry, count, _ in SQLiteLedger(path).entries()})

ours, theirs = os.pipe()
child = os.fork()
if not child:  # makes a sum, hands its state over and lives on
    assert ledger._connection is None  # connections do not survive a fork
    own = Gate(budget, definition="gdp", ledger=ledger)
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


_AT_ONCE = """
import os, sys, threading
import discreet as dc
from discreet.privacy import Gate, PureRelease, SQLiteLedger

folder, made, busy, go = sys.argv[1], [], threading.Event(), threading.Event()
first = SQLiteLedger(folder + "/first")

def look():
    with first._lock:
        busy.set()
        go.wait()

def make():
    made.append(SQLiteLedger(folder + "/second"))
    Gate(dc.Budget(1.0), ledger=made[0]).owned().reserve(PureRelease(0.5))

def fork():
    if child := os.fork():
        return os.waitpid(child, 0)
    for one in made:
        one.close()
    os._exit(0)

steps = [threading.Thread(target=one) for one in (look, fork, make, fork, fork)]
for one in steps:
    one.start()
    busy.wait()
    one.join(0.2)
go.set()
for one in steps:
    one.join()
assert made[0]._connected()[1].lives(made[0]._holder.name)  # no child gave it up
assert all(one._lock.acquire(timeout=5.0) for one in (first, *made))
"""


def test_forks_at_once_and_a_ledger_that_is_made_meanwhile(tmp_path):
    """A child must not have another ledger's connection and holder, nor leave its lock taken."""
    environment = os.environ | {"PYTHONPATH": str(Path(dc.__file__).parents[1])}
    command = [sys.executable, "-c", _AT_ONCE, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert done.stderr == ""


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


# --- copies ------------------------------------------------------------------------------------------------


def test_a_copy_is_not_a_ledger(path, tmp_path):
    """A copy would be a second budget for the same people."""
    first = _gate(path)
    first.reserve(TENTH)
    copy = tmp_path / "elsewhere" / "people.ledger"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    with pytest.raises(ValueError, match=r"people\.ledger-holders is missing.*SQLiteLedger\.restore"):
        SQLiteLedger(copy)
    shutil.copytree(f"{path}-holders", f"{copy}-holders")
    with pytest.raises(ValueError, match=r"is a copy of a ledger.*would be unknown to the original"):
        SQLiteLedger(copy)
    assert _gate(path).spent.pure == 0.1


def test_an_older_copy_in_the_place_of_a_ledger_is_noticed(path):
    """By the file's folder where the file alone was put back; by those who have seen more in any case."""
    first = _gate(path)
    first.reserve(TENTH)
    _close(first)
    older = path.read_bytes()
    second = _gate(path)
    second.reserve(TENTH)
    state = json.loads(json.dumps(second.state()))
    _close(second)
    path.write_bytes(older)
    with pytest.raises(ValueError, match="holds 1 charges, and had 2: an older copy stands in its place"):
        SQLiteLedger(path)
    lock = Path(f"{path}-holders") / "lock"
    lock.write_bytes(lock.read_bytes()[:21] + b"%20d" % 1)  # the folder was put back as well
    with pytest.raises(ValueError, match="fewer releases than were charged"):
        Gate.from_state(state, SQLiteLedger(path))


def test_a_backup_is_complete_and_becomes_a_ledger_when_it_is_asked_for(path, tmp_path):
    gate, copy = _gate(path), tmp_path / "backup"
    gate.add_caveats("the list of items came from data")
    total = _sum(gate)
    state = total.state()
    gate.reserve(TENTH)
    gate._accountant.ledger.backup(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    gate.reserve(TENTH)  # others go on
    with pytest.raises(FileExistsError):
        gate._accountant.ledger.backup(copy)
    with pytest.raises(ValueError, match="restore"):
        SQLiteLedger(copy)
    for where in (path, copy):
        with pytest.raises(FileExistsError):
            SQLiteLedger.restore(copy, where)
    with pytest.raises(FileNotFoundError):
        SQLiteLedger.restore(tmp_path / "none", tmp_path / "again")
    (tmp_path / "text").write_text("no ledger")
    with pytest.raises(ValueError, match="not a ledger"):
        SQLiteLedger.restore(tmp_path / "text", tmp_path / "again")
    ledger = SQLiteLedger.restore(copy, tmp_path / "again")
    again = Gate(APPROXIMATE, definition="gdp", ledger=ledger)
    assert (ledger.version, ledger.id) == (2, gate._accountant.ledger.id)
    assert again.spent.caveats == gate.spent.caveats
    assert again.spent.ledger.counts == dict(list(gate.spent.ledger.counts.items())[:1]) | {
        Entry("reserved", TENTH): 1
    }
    twin = TreeSum.from_state(*state, again)  # in use by nobody there
    assert twin.add([0.1, 0.2]).shape == (2,)
    with SQLiteLedger(tmp_path / "again") as same:
        assert same.version == 2


_OTHER = """
import sys
from discreet.privacy import Gate, SQLiteLedger
import discreet as dc
path, state = sys.argv[1:]
for _ in sys.stdin:
    try:
        dc.load(state, gate=Gate(dc.Budget(1.0, 1e-6), definition="gdp", ledger=SQLiteLedger(path)))
        print("loaded", flush=True)
    except ValueError as error:
        print("in use" if "already in use" in str(error) else error, flush=True)
"""


def test_copying_the_files_in_the_process_drops_no_lock(path, tmp_path):
    """Locks by lockf() would be dropped for all of the process by the first close of any handle."""
    learner = dc.online.LeaderSelector(3, 1, 100, _gate(path), batch=10)
    learner.choose()
    learner.learn(items=[1])
    state = tmp_path / "state"
    learner.save(state)

    environment = os.environ | {"PYTHONPATH": str(Path(dc.__file__).parents[1])}
    arguments = [sys.executable, "-c", _OTHER, str(path), str(state)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(arguments, **pipes, text=True, bufsize=1, env=environment) as process:

        def other():
            process.stdin.write("again\n")
            return process.stdout.readline().strip()

        assert other() == "in use"
        for name in list(tmp_path.rglob("*")):
            if name.is_file():
                shutil.copy(name, tmp_path / "copy")
        shutil.copytree(f"{path}-holders", tmp_path / "folder")
        learner._gate._accountant.ledger.backup(tmp_path / "backup")
        assert other() == "in use"
        learner._gate._accountant.ledger.close()
        assert other() == "loaded"


def test_a_writer_excludes_others_whose_files_were_copied(path, tmp_path):
    """SQLite's own locks are dropped by a copy in the process; whoever writes is alone nevertheless."""
    mine, yours = SQLiteLedger(path), SQLiteLedger(path, timeout=0.05)
    with mine._writing() as database:
        database.execute("INSERT OR IGNORE INTO caveat (sentence) VALUES ('mine')")
        for name in tmp_path.glob("people.ledger*"):
            if name.is_file():
                shutil.copy(name, tmp_path / "copy")
        for use in (lambda: yours.add_caveats("yours"), lambda: yours.version):
            with pytest.raises(TimeoutError, match="locked by another writer"):
                use()
    yours.add_caveats("yours")
    assert mine.caveats == ("mine", "yours")


def test_gates_over_one_file_share_one_budget(path):
    mine, yours = (Gate(PURE, ledger=SQLiteLedger(path)) for _ in range(2))
    assert isinstance(SQLiteLedger(path), Ledger)
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


def test_two_alike_are_two_charges(path):
    """What one of them was charged for says nothing about the other."""
    first = _gate(path)
    mine, yours = (_sum(first).state() for _ in range(2))
    _close(first)
    second, third = _gate(path), _gate(path)
    TreeSum.from_state(*mine, second)
    for gate in (second, third):
        with pytest.raises(ValueError, match="already in use"):
            TreeSum.from_state(*mine, gate)
    assert TreeSum.from_state(*yours, third).add([0.1, 0.2]).shape == (2,)


def test_learners_come_back_over_the_file(path, tmp_path):
    people = dc.objectives.Coverage(np.eye(6, dtype=bool)[np.arange(40) % 6])
    with SQLiteLedger(path) as ledger:
        gate = Gate(APPROXIMATE, 0, definition="gdp", ledger=ledger)
        learners = [dc.online.LeaderSelector(6, 2, 40, gate.share(Fraction(1, 4))) for _ in range(2)]
        chosen = dc.offline.PrivateGreedy(dc.constraints.Cardinality(2), gate.share(0.25)).select(people)
        assert len(chosen.items) == 2
        for number, learner in enumerate(learners):
            learner.run(people[:10])
            learner.save(tmp_path / f"{number}")
        spent = gate.spent.to_json()["ledger"]
    with SQLiteLedger(path) as ledger:
        gate = Gate(APPROXIMATE, 0, definition="gdp", ledger=ledger)
        again = [dc.load(tmp_path / f"{number}", gate=gate) for number in (0, 1)]
        assert [one.round for one in again] == [10, 10]
        for learner in again:
            learner.run(people[:5])
        assert gate.spent.to_json()["ledger"] == spent
        for number in (0, 1):
            with pytest.raises(ValueError, match="already in use"):
                dc.load(tmp_path / f"{number}", gate=gate)
        assert 0.7 < gate.spent.epsilon() <= 1.0
        with pytest.raises(dc.BudgetExceeded):
            dc.online.LeaderSelector(6, 2, 40, gate.share(0.5))


def test_a_lock_is_awaited_for_as_long_as_said(tmp_path):
    """A writer waits for another one that is soon done, and gives up on one that is not."""
    _Locks.begin(tmp_path / "beside")
    one, other = (_Locks(tmp_path / "beside") for _ in range(2))
    held, done = threading.Event(), threading.Event()

    def write():
        with one.of(60.0):
            held.set()
            done.wait(60.0)

    writer = threading.Thread(target=write)
    writer.start()
    assert held.wait(60.0)
    with pytest.raises(TimeoutError), other.of(0.01):
        pass
    threading.Timer(0.1, done.set).start()
    with other.of(60.0):
        assert done.is_set()
    writer.join()
    for lock in (one, other):
        lock.close()
