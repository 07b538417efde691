"""Writers of one durable ledger, killed at random points: nothing acknowledged is lost, nothing overspent.

Two writers at a time reserve from one `SQLiteLedger` through gates of their own. One of them, or both, are
killed (SIGKILL) after a random time, in the middle of whatever they do, and others take their place until the
budget is spent; then comes the next ledger. A writer says what it tries and what was acknowledged through a
pipe, which outlives it. Looked at after every kill:

- nothing is lost: each writer's acknowledged charges are in the ledger;
- nothing is overspent: the charges fit the budget;
- nothing is charged twice: beside what was acknowledged there is at most what a killed writer was trying;
- the file is whole, at the end of each ledger.

``make chaos`` runs 2,000 kills, then the faults below until they are noticed, and writes docs/chaos.md. A
kill does not show what a loss of power would: that the log is forced to the disk is SQLite's
``synchronous=FULL``, which the tests see set on every connection.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path

from discreet.privacy import Budget, BudgetExceeded, Gate, PureRelease, SQLiteLedger

ROOM = 8  # releases that one ledger's budget holds
STEP = PureRelease(Fraction(1, ROOM))
LONGEST = 0.06  # seconds until a kill


# --- injected faults -----------------------------------------------------------------------------------


class AcknowledgesFirst(SQLiteLedger):
    """Returns before the entry is written, which happens when it is next asked for anything."""

    waiting: Callable[[], None] | None = None

    @property
    def version(self):
        if self.waiting is not None:
            write, self.waiting = self.waiting, None
            write()
        return super().version

    def append(self, charge, *, expected_version):
        honest = super().append
        self.waiting = lambda: honest(charge, expected_version=expected_version)


class IgnoresVersions(SQLiteLedger):
    """Writes whatever the version is."""

    def append(self, charge, *, expected_version):
        time.sleep(0.003)  # others come in between more often, and it is noticed sooner
        while True:
            try:
                return super().append(charge, expected_version=expected_version)
            except Exception:
                expected_version = self.version


class Overwrites(SQLiteLedger):
    """Lets a new count of a kind of entry replace the one before, instead of adding them."""

    def entries(self, since=0):
        with self._reading() as database:
            rows = "SELECT kind, count FROM charge WHERE version > ? ORDER BY version"
            counts = dict(database.execute(rows, (since,)).fetchall())
            return self._charges(database, [(kind, count, None) for kind, count in counts.items()])


class ForgetsOthers(SQLiteLedger):
    """Has nothing to say of what came after the first look."""

    def entries(self, since=0):
        return [] if since else super().entries()


class ChargesTwice(SQLiteLedger):
    """Writes again what was written, as after an answer that got lost."""

    def append(self, charge, *, expected_version):
        super().append(charge, expected_version=expected_version)
        super().append(charge, expected_version=self.version)


class CommitsLater(SQLiteLedger):
    """Collects entries in one transaction, and commits every third."""

    held = 0

    def append(self, charge, *, expected_version):
        honest = sqlite3.Connection.execute
        self.held += 1
        database, _ = self._connected()
        if self.held % 3:
            if not database.in_transaction:
                database.execute("BEGIN IMMEDIATE")
        else:
            if database.in_transaction:
                honest(database, "COMMIT")
            return super().append(charge, expected_version=expected_version)
        kind = self._kind(database, charge.group, charge.entry)
        row = (expected_version + 1, kind, str(charge.count), None)
        database.execute("INSERT INTO charge VALUES (?, ?, ?, ?)", row)
        return None


FAULTS = {
    kind.__name__: kind
    for kind in (AcknowledgesFirst, IgnoresVersions, Overwrites, ForgetsOthers, ChargesTwice, CommitsLater)
}


# --- writers -------------------------------------------------------------------------------------------


class Writer:
    """A process that charges one ledger as long as it lives, and what is known of it."""

    def __init__(self, path: Path, kind: type[SQLiteLedger], slot: int, seed: int) -> None:
        self.slot, self.acknowledged, self.trying, self.full = slot, 0, 0, False
        self.error, self._rest = "", b""
        self._pipe, theirs = os.pipe()
        self.process = os.fork()
        if not self.process:
            try:
                _write(path, kind, slot, random.Random(seed), theirs)
            except BaseException as error:
                os.write(theirs, f"error {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(1)
        os.close(theirs)
        os.set_blocking(self._pipe, False)

    def listen(self) -> int:
        """Take up what it said since the last time; how much of that was acknowledged."""
        heard = b""
        while True:
            try:
                piece = os.read(self._pipe, 1 << 16)
            except BlockingIOError:
                break
            if not piece:
                break
            heard += piece
        *lines, self._rest = (self._rest + heard).split(b"\n")
        before = self.acknowledged
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "try":
                self.trying = int(rest)
            elif word == "charged":
                self.acknowledged, self.trying = self.acknowledged + self.trying, 0
            elif word == "refused":
                self.trying = 0
            elif word == "full":
                self.full = True
            else:
                self.error = rest
        return self.acknowledged - before

    def kill(self) -> int:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        heard = self.listen()
        os.close(self._pipe)
        return heard


def _write(path: Path, kind: type[SQLiteLedger], slot: int, rng: random.Random, pipe: int) -> None:
    gate = Gate(Budget(1.0), ledger=kind(path))
    while True:
        left = round(gate.remaining.epsilon * ROOM)
        if not left:
            os.write(pipe, b"full\n")
            signal.pause()
        count = min(left, rng.randint(1, 3))
        os.write(pipe, f"try {count}\n".encode())
        try:
            gate.reserve(STEP, count, label=f"writer {slot}")
        except BudgetExceeded:  # the other one was first
            os.write(pipe, b"refused\n")
        else:
            os.write(pipe, b"charged\n")
            time.sleep(rng.random() * 0.002)


# --- runs ----------------------------------------------------------------------------------------------


@dataclass
class Found:
    """What a run saw; ``wrong`` says what should not have been."""

    kills: int = 0
    ledgers: int = 0
    spent_out: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0
    while_writing: int = 0
    wrong: list[str] = field(default_factory=list)


def run(kills: int, seed: int, folder: Path, kind: type[SQLiteLedger] = SQLiteLedger) -> Found:
    """Kill that many writers; stops at the first thing that is wrong."""
    with contextlib.suppress(BudgetExceeded):  # what loads when first used loads here, not in every writer
        Gate(Budget(1.0)).reserve(STEP, 2 * ROOM)
    rng, found = random.Random(seed), Found()
    while found.kills < kills and not found.wrong:
        found.ledgers += 1
        _one_ledger(folder / f"{found.ledgers}.ledger", kind, rng, kills, found)
    return found


def _one_ledger(path: Path, kind: type[SQLiteLedger], rng: random.Random, kills: int, found: Found) -> None:
    acknowledged, tried = [0, 0], [0, 0]
    writers = [Writer(path, kind, slot, rng.getrandbits(32)) for slot in (0, 1)]
    try:
        while found.kills < kills and not found.wrong and not any(writer.full for writer in writers):
            time.sleep(rng.random() * LONGEST)
            for writer in rng.choice(([writers[0]], [writers[1]], writers)):
                _end(writer, acknowledged, tried, found)
                found.kills += 1
                writers[writer.slot] = Writer(path, kind, writer.slot, rng.getrandbits(32))
            for writer in writers:
                acknowledged[writer.slot] += writer.listen()
                if writer.error:
                    found.wrong.append(writer.error)
            _check(path, acknowledged, None, found)
        found.spent_out += any(writer.full for writer in writers)
    finally:
        for writer in writers:
            _end(writer, acknowledged, tried, found)
    if not found.wrong:
        _check(path, acknowledged, tried, found)
    found.acknowledged += sum(acknowledged)


def _end(writer: Writer, acknowledged: list[int], tried: list[int], found: Found) -> None:
    acknowledged[writer.slot] += writer.kill()
    tried[writer.slot] += writer.trying
    found.while_writing += bool(writer.trying)


def _check(path: Path, acknowledged: list[int], tried: list[int] | None, found: Found) -> None:
    """Compare a ledger with what writers said; ``tried`` once none of them is left."""
    there = [0, 0]
    if any(acknowledged):  # before that there may be no table yet
        database = sqlite3.connect(path, timeout=30.0)
        rows = "SELECT label, count FROM charge JOIN kind ON kind = id"
        for label, count in database.execute(rows).fetchall():
            there[int(label[-1])] += int(count)
        if tried is not None:
            (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
            if verdict != "ok":
                found.wrong.append(f"damaged: {verdict}")
        database.close()
    for slot in (0, 1):
        if there[slot] < acknowledged[slot]:
            found.wrong.append(f"lost: {acknowledged[slot]} acknowledged, {there[slot]} there")
        if tried is not None and there[slot] > acknowledged[slot] + tried[slot]:
            most = acknowledged[slot] + tried[slot]
            found.wrong.append(f"charged twice: {there[slot]} there, {most} acknowledged or tried")
    if sum(there) > ROOM:
        found.wrong.append(f"overspent: {sum(there)} there, room for {ROOM}")
    if tried is not None:
        found.unacknowledged += max(0, sum(there) - sum(acknowledged))


# --- the page ------------------------------------------------------------------------------------------


def page(honest: Found, faults: dict[str, Found]) -> str:
    """docs/chaos.md."""
    rows = "\n".join(
        f"| `{name}` | {FAULTS[name].__doc__} | {found.kills:,} | {found.wrong[-1]} |"
        for name, found in faults.items()
    )
    verdict = "nothing" if not honest.wrong else "; ".join(honest.wrong)
    return f"""# Crash testing of the ledger

Two processes charge one `SQLiteLedger` until its budget is spent, and are killed (SIGKILL) at random
points. After every kill the ledger is compared with what the writers were told. `make chaos` makes this page;
`tools/chaos.py` says how.

| | |
|---|---:|
| kills | {honest.kills:,} |
| of them between the request for a charge and its answer | {honest.while_writing:,} |
| ledgers, most of them until the budget was spent | {honest.ledgers:,} ({honest.spent_out:,}) |
| releases acknowledged | {honest.acknowledged:,} |
| releases charged and never acknowledged (the writer was killed first) | {honest.unacknowledged:,} |
| acknowledged charges lost, budgets exceeded, charges made twice, files damaged | {verdict} |

The same run over ledgers with injected faults:

| fault | what it does | kills until noticed | noticed as |
|---|---|---:|---|
{rows}

A kill does not show what a loss of power would. For that every connection has `synchronous=FULL` (the tests
look), with which SQLite forces the log to the disk before a charge is acknowledged.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", action="store_true", help="run the injected faults, too")
    parser.add_argument("--out", type=Path, help="write the page there")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "honest").mkdir()
        honest = run(given.kills, given.seed, folder / "honest")
        faults = {}
        for fault in FAULTS if given.faults or given.out else ():
            (folder / fault).mkdir()
            faults[fault] = run(600, given.seed, folder / fault, FAULTS[fault])
    print(json.dumps({"honest": asdict(honest), "faults": {k: asdict(v) for k, v in faults.items()}}))
    failed = bool(honest.wrong) or not all(found.wrong for found in faults.values())
    if given.out and not failed:
        given.out.write_text(page(honest, faults))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
