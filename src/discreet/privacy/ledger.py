"""Ledgers: where charges are kept. In memory, or in a file that outlives processes.

A charge is written before anything is drawn, and is permanent. A charge of an object that can be saved and
restored (a learner, a sum) carries the object's random id as its owner. An owner is open until it has drawn
everything, then finished. An open owner is in use by at most one running process; once that has ended, its
charges can be taken up again from its latest saved state.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, Self, runtime_checkable

from ..core import checks
from ..core.state import to_disk
from .account import Entry, Group, flag
from .events import Event
from .randomness import random_id

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]


class Charge(NamedTuple):
    """A charge: releases about a group of people (() means everybody), and the owner's id, if any."""

    group: Group
    entry: Entry
    count: int  # type: ignore[assignment]  # tuples have a method of that name
    owner: str | None = None


class LedgerConflict(Exception):
    """The ledger was written to since it was read; read it again and check again."""


@runtime_checkable
class Ledger(Protocol):
    """Where charges are kept for a gate, or for several. ``version`` grows by one with every charge."""

    @property
    def id(self) -> str:
        """A random name, by which a gate's saved state identifies this ledger."""
        ...

    @property
    def version(self) -> int: ...

    def entries(self, since: int = 0) -> Iterable[Charge]:
        """Every charge after version ``since``. Equal ones without an owner may be merged into one."""
        ...

    def append(self, charge: Charge, *, expected_version: int) -> None:
        """Write a charge if the ledger is still at ``expected_version``; else raise `LedgerConflict`.

        When this returns, the charge is durable, whatever happens to the process. Its owner is in use here.
        """
        ...

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Refuse other terms (a budget, a privacy definition) than those of the first gate."""
        ...

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats that all accounts of this ledger must state; see `Gate.add_caveats`."""
        ...

    def add_caveats(self, *sentences: str) -> None: ...

    def take_up(self, owner: str, number: int) -> None:
        """Mark an owner's charges as in use here, resumed from its state ``number``.

        Raises ValueError if the owner is in use, or a later state is known.
        """
        ...

    def note(self, owner: str, number: int, *, finished: bool = False) -> None:
        """From now on refuse to resume states before ``number``; ``finished``: nothing more will be drawn."""
        ...

    def unfinished(self) -> Iterable[Charge]:
        """The charges of owners that may still make draws they were charged for."""
        ...

    def check_open(self) -> None:
        """Refuse to go on once the ledger was closed: its charges may since be in use elsewhere."""
        ...


def check_can_resume(number: int, known: tuple[int, bool] | None, in_use: bool) -> None:
    """Refuse to resume an owner of charges from its saved state ``number``, unless that is safe.

    ``known`` is the ledger's record of the owner: the number of its latest state, and whether it is finished;
    None if it has no charges here. ``in_use``: the charges are in use elsewhere now. A state before the
    latest is refused, as releases made since would be made again, uncharged.
    """
    if known is None:
        raise ValueError("its releases were not charged in this ledger")
    if in_use:
        raise ValueError("its charges are already in use elsewhere")
    latest, finished = known
    if number < latest:
        since = "has drawn everything it was charged for" if finished else "was saved again, or went on,"
        raise ValueError(
            f"it {since} since this state (number {number} of {latest}) was saved: resuming from here would"
            " release again, uncharged, what was released since"
        )


def agreed(before: Mapping[str, Any] | None, terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms of a ledger; refused where they differ from those ``before``."""
    asked = dict(terms)
    if before is not None and dict(before) != asked:
        differ = [name for name in {**before, **asked} if before.get(name) != asked.get(name)]
        raise ValueError(
            "the ledger was first used with "
            + ", ".join(f"{name}={before.get(name)!r}" for name in differ)
            + "; this gate has "
            + ", ".join(f"{name}={asked.get(name)!r}" for name in differ)
            + ": make it alike, or keep its charges in another ledger"
        )
    return asked


# --- in memory -------------------------------------------------------------------------------------------


@dataclass
class _OwnerState:
    """An owner: the number of its latest known state, and whether it is finished or in use (``lives``)."""

    number: int = 0
    finished: bool = False
    lives: bool = True


class MemoryLedger:
    """Charges in memory, for the gates of one process.

    The charges of an owner read from a saved ledger can be taken up here once.
    """

    def __init__(self) -> None:
        self._id = ""  # created on first use
        self._lock = threading.RLock()
        self._before: list[Charge] = []  # read from a saved ledger, equal ones merged
        self._first = 0  # the version after those
        # A charge, how often it repeats, and the version after it: in one tuple, which no interrupt splits.
        self._runs: list[tuple[Charge, int, int]] = []
        self._owners: dict[str, _OwnerState] = {}
        self._terms: dict[str, Any] | None = None
        self._caveats: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "MemoryLedger()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger is not copied or pickled, or what it holds could be spent twice")

    @property
    def id(self) -> str:
        with self._lock:
            self._id = self._id or random_id()
            return self._id

    @property
    def version(self) -> int:
        return self._runs[-1][2] if self._runs else self._first

    def entries(self, since: int = 0) -> list[Charge]:
        with self._lock:
            if 0 < since < self._first:
                raise ValueError(f"what came after version {since} is not known one by one")
            found = [] if since else list(self._before)
            first = bisect.bisect_right(self._runs, since, key=lambda run: run[2])
            for charge, times, end in self._runs[first:]:
                found.append(charge._replace(count=charge.count * min(times, end - since)))
            return found

    def append(self, charge: Charge, *, expected_version: int) -> None:
        with self._lock:
            version = self._runs[-1][2] if self._runs else self._first
            if version != expected_version:
                raise LedgerConflict(f"the ledger is at version {version}, not {expected_version}")
            if charge.owner is not None and not self._owners.setdefault(charge.owner, _OwnerState()).lives:
                raise ValueError("its owner is not in use here")
            if charge.owner is None and self._runs and self._runs[-1][0] == charge:
                self._runs[-1] = charge, self._runs[-1][1] + 1, version + 1
            else:
                self._runs.append((charge, 1, version + 1))

    def agree(self, terms: Mapping[str, Any]) -> None:
        with self._lock:
            self._terms = agreed(self._terms, terms)

    @property
    def caveats(self) -> tuple[str, ...]:
        return self._caveats

    def add_caveats(self, *sentences: str) -> None:
        with self._lock:
            self._caveats = tuple(dict.fromkeys((*self._caveats, *sentences)))

    def take_up(self, owner: str, number: int) -> None:
        with self._lock:
            life = self._owners.get(owner)
            known = None if life is None else (life.number, life.finished)
            check_can_resume(number, known, life is not None and life.lives)
            assert life is not None
            life.lives, life.number = True, max(number, life.number)

    def note(self, owner: str, number: int, *, finished: bool = False) -> None:
        with self._lock:
            if life := self._owners.get(owner):
                life.number, life.finished = max(number, life.number), finished or life.finished

    def unfinished(self) -> list[Charge]:
        with self._lock:
            over = {None} | {owner for owner, life in self._owners.items() if life.finished}
            return [charge for charge in self.entries() if charge.owner not in over]

    def check_open(self) -> None:
        pass

    # --- saving ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values, for `from_json`."""
        with self._lock:
            counts: dict[tuple[Any, ...], int] = {}
            for place, (group, entry, count, owner) in enumerate(self.entries()):
                key = group, entry, owner, place if owner else None  # an owner's charges are not merged
                counts[key] = counts.get(key, 0) + count
            return {
                "id": self.id,
                "version": self.version,
                "charges": [
                    entry.to_json(count)
                    | ({"group": list(group)} if group else {})
                    | ({"owner": owner} if owner else {})
                    for (group, entry, owner, _), count in counts.items()
                ],
                "owners": {
                    owner: {"number": life.number, "finished": life.finished}
                    for owner, life in self._owners.items()
                },
                "caveats": list(self._caveats),
            }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> MemoryLedger:
        """The saved ledger; nothing in it is in use."""
        ledger = cls()
        ledger._id = str(checks.record("the record of a ledger", record)["id"])
        for owner, life in checks.record("owners", record["owners"]).items():
            number = checks.whole("number", life["number"], at_least=0)
            ledger._owners[str(owner)] = _OwnerState(number, flag(life, "finished"), lives=False)
        for row in record["charges"]:
            entry, count = Entry.from_json(row)
            owner, group = row.get("owner"), tuple(map(str, row.get("group", ())))
            if owner is not None and owner not in ledger._owners:
                raise ValueError(f"{entry.label!r} belongs to an owner that is not there")
            ledger._before.append(Charge(group, entry, count, owner))
        ledger._first = checks.whole("version", record["version"], at_least=len(ledger._before))
        ledger.add_caveats(*map(str, record["caveats"]))
        return ledger


# --- in a file -------------------------------------------------------------------------------------------

APPLICATION, FORMAT = 0x64736372, 2  # "dscr"; the format of the tables below
_KINDS = "people, label, event, disjoint"
_TABLES = f"""
CREATE TABLE ledger (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL);
CREATE TABLE terms (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), record TEXT NOT NULL);
CREATE TABLE caveat (id INTEGER PRIMARY KEY, sentence TEXT NOT NULL UNIQUE);
CREATE TABLE kind (id INTEGER PRIMARY KEY, people TEXT NOT NULL, label TEXT NOT NULL, event TEXT NOT NULL,
  disjoint INTEGER NOT NULL, UNIQUE ({_KINDS}));
CREATE TABLE owner (id TEXT PRIMARY KEY, holder TEXT NOT NULL, number INTEGER NOT NULL,
  finished INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE charge (version INTEGER PRIMARY KEY, kind INTEGER NOT NULL REFERENCES kind,
  count TEXT NOT NULL, owner TEXT REFERENCES owner)
"""  # counts are integers of any size, hence text
_ONLY_GROWS = [
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}"
    " BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
    for table in ("ledger", "terms", "caveat", "kind", "charge")
    for verb in ("UPDATE", "DELETE")
]
_VERSION = "SELECT coalesce(max(version), 0) FROM charge"


class SQLiteLedger:
    """Charges in a file, for any number of gates, threads and processes of one machine.

    Charges survive if a process is killed at any point: ``append`` returns after the charge is on the disk,
    and the version that it expects is checked under the write lock, so two gates can never both spend what is
    left. The first gate writes its budget and privacy definition into the file, and gates with different ones
    are refused. The file is readable by its owner only; it holds labels and mechanisms, no personal data.

    The charges of a learner or a sum are in use as long as the ledger object through which they were made is
    open in a running process. After that they can be taken up once, by `discreet.load` with a gate over this
    file, from the latest state known to the ledger, and are then in use there.

    The file must lie on a local disk, with the folder ``-holders`` beside it (locks, and which file it is).
    Detected and refused: a copy of the file in another place, an older copy restored in its place, a state
    older than one that was since saved to a file or resumed. Not detected: the same after both the file and
    the folder were restored in place (a disk snapshot); and resuming twice from the latest state, if the
    process that resumed first died before saving another. The second one then draws again what the first had
    released, about the people in the state. `backup` makes a copy, `restore` makes a ledger from a copy.

    ``timeout`` is the number of seconds to wait for other writers.

    >>> import tempfile, discreet as dc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dc.privacy.SQLiteLedger(folder + "/people.ledger") as ledger:
    ...         gate = dc.Gate(dc.Budget(1.0), ledger=ledger)
    ...         chosen = gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    ...     with dc.privacy.SQLiteLedger(folder + "/people.ledger") as ledger:
    ...         print(dc.Gate(dc.Budget(1.0), ledger=ledger).spent.epsilon())
    0.5
    """

    _holder: _Holder | None = None
    _connection: sqlite3.Connection | None = None
    _locks: _Locks | None = None

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise ValueError("path must name a file; MemoryLedger() keeps charges in memory")
        self.path = Path(path).resolve()  # one place for its locks, by whatever path it is opened
        self.timeout = checks.real("timeout", timeout, above=0.0, at_most=3600.0)
        self._lock = threading.RLock()
        self._closed = False
        self._kinds: dict[int, tuple[Group, Entry]] = {}  # rows of the table of kinds that were read
        self._numbers: dict[tuple[Any, ...], int] = {}
        with _forking:
            self._create()
            with self._reading() as database:
                self._id = str(database.execute("SELECT id FROM ledger").fetchone()[0])
            _OPEN.add(self)

    # --- as a `Ledger` ---------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._id

    @property
    def version(self) -> int:
        with self._reading() as database:
            return int(database.execute(_VERSION).fetchone()[0])

    def entries(self, since: int = 0) -> list[Charge]:
        with self._reading() as database:
            rows = "SELECT kind, count, owner FROM charge WHERE version > ? ORDER BY version"
            return self._charges(database, database.execute(rows, (since,)))

    def append(self, charge: Charge, *, expected_version: int) -> None:
        checks.instance("charge", charge, Charge, "Charge((), Entry('picks', LaplaceNoise(1.0, 2.0)), 1)")
        number = checks.whole("count", charge.count, at_least=1, at_most=checks.ANY)
        with self._writing() as database:
            (version,) = database.execute(_VERSION).fetchone()
            if version != expected_version:
                raise LedgerConflict(f"the ledger is at version {version}, not {expected_version}")
            if charge.owner is not None:
                holder = self._holding().name
                database.execute("INSERT OR IGNORE INTO owner VALUES (?, ?, 0, 0)", (charge.owner, holder))
                of = database.execute("SELECT holder FROM owner WHERE id = ?", (charge.owner,)).fetchone()
                if of != (holder,):
                    raise ValueError("its owner is not in use here")
            kind = self._kind(database, charge.group, charge.entry)
            row = (version + 1, kind, str(number), charge.owner)
            database.execute("INSERT INTO charge VALUES (?, ?, ?, ?)", row)

    def agree(self, terms: Mapping[str, Any]) -> None:
        with self._writing() as database:
            found = database.execute("SELECT record FROM terms").fetchone()
            record = agreed(None if found is None else json.loads(found[0]), terms)
            if found is None:
                database.execute("INSERT INTO terms VALUES (1, ?)", (json.dumps(record),))

    @property
    def terms(self) -> dict[str, Any] | None:
        """The budget and privacy definition of all gates over this ledger; None before the first gate."""
        with self._reading() as database:
            found = database.execute("SELECT record FROM terms").fetchone()
            return None if found is None else dict(json.loads(found[0]))

    @property
    def caveats(self) -> tuple[str, ...]:
        with self._reading() as database:
            return tuple(row[0] for row in database.execute("SELECT sentence FROM caveat ORDER BY id"))

    def add_caveats(self, *sentences: str) -> None:
        with self._writing() as database:
            rows = [(sentence,) for sentence in sentences]
            database.executemany("INSERT OR IGNORE INTO caveat (sentence) VALUES (?)", rows)

    def take_up(self, owner: str, number: int) -> None:
        with self._writing() as database:
            find = "SELECT number, finished, holder FROM owner WHERE id = ?"
            found = database.execute(find, (owner,)).fetchone()
            known = None if found is None else (int(found[0]), bool(found[1]))
            check_can_resume(number, known, found is not None and self._connected()[1].lives(found[2]))
            database.execute(
                "UPDATE owner SET holder = ?, number = ? WHERE id = ?", (self._holding().name, number, owner)
            )

    def note(self, owner: str, number: int, *, finished: bool = False) -> None:
        with self._writing() as database:
            change = "UPDATE owner SET number = max(number, ?), finished = max(finished, ?) WHERE id = ?"
            database.execute(change, (number, int(finished), owner))

    def unfinished(self) -> list[Charge]:
        with self._reading() as database:
            rows = (
                "SELECT kind, count, owner FROM charge JOIN owner ON owner.id = charge.owner"
                " WHERE NOT owner.finished ORDER BY version"
            )
            return self._charges(database, database.execute(rows))

    def check_open(self) -> None:
        """Refuse to go on once the ledger was closed: its charges may since be in use elsewhere."""
        if self._closed:
            raise RuntimeError(
                f"the ledger {self.path.name} was closed, and its charges may be in use elsewhere"
            )

    # --- copies ----------------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy as of now to a new file, completely or not at all; others may charge meanwhile.

        The copy cannot be used as a ledger, which would be a second budget for the same people. Once the
        original is lost, `restore` makes a ledger from the copy.
        """
        target = Path(path).resolve()
        with self._reading() as database:
            _copy(database, target)

    @classmethod
    def restore(cls, backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> SQLiteLedger:
        """Make a new ledger at ``path`` from a copy of a lost one.

        Charges made after the copy are not in it: the caller must account for them by leaving as much of the
        budget unspent. Learners and sums whose charges are in it can be resumed; a copy cannot tell which of
        their states is the latest.
        """
        source, target = Path(backup).resolve(), Path(path).resolve()
        if not source.is_file():
            raise FileNotFoundError(f"{source} is not a file")
        if target.exists() or _folder(target).exists():
            raise FileExistsError(f"{target} or {_folder(target).name} is there; restore to another place")
        with _explained(source), contextlib.closing(sqlite3.connect(source)) as database:
            if not _is_ledger(database, source):
                raise ValueError(f"{source} is not a ledger")
            _Locks.begin(_folder(target))
            _copy(database, target)
        _Locks(_folder(target)).about(target, 0, begin=True)
        return cls(target)

    # --- closing ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End the use of charges made here; gates over this object release nothing afterwards."""
        with self._lock:
            self._closed = True
            self._disconnect()
            if self._holder is not None:
                self._holder.drop()
                self._holder = None

    def __del__(self) -> None:
        if hasattr(self, "_closed"):  # __init__ got that far
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.path, self.timeout)

    def __repr__(self) -> str:
        return f"SQLiteLedger({str(self.path)!r})"

    # --- rows ------------------------------------------------------------------------------------

    def _kind(self, database: sqlite3.Connection, group: Group, entry: Entry) -> int:
        """The row number of a kind of entry, inserted if it is new."""
        event = json.dumps(entry.event.to_json(), sort_keys=True)
        row = (json.dumps(list(group)), entry.label, event, int(entry.disjoint))
        if row in self._numbers:
            return self._numbers[row]
        find = "SELECT id FROM kind WHERE people = ? AND label = ? AND event = ? AND disjoint = ?"
        found = database.execute(find, row).fetchone()
        if found is None:  # not cached until the transaction is committed
            insert = f"INSERT INTO kind ({_KINDS}) VALUES (?, ?, ?, ?)"
            return int(database.execute(insert, row).lastrowid or 0)
        self._numbers[row] = found[0]
        return int(found[0])

    def _charges(
        self, database: sqlite3.Connection, rows: Iterable[tuple[int, str, str | None]]
    ) -> list[Charge]:
        counts: dict[tuple[int, str | None, int | None], int] = {}
        for place, (kind, count, owner) in enumerate(rows):
            key = kind, owner, place if owner else None  # an owner's charges are not merged
            counts[key] = counts.get(key, 0) + int(count)
        if any(kind not in self._kinds for kind, _, _ in counts):
            known = max(self._kinds, default=0)
            for kind, people, label, event, disjoint in database.execute(
                f"SELECT id, {_KINDS} FROM kind WHERE id > ?", (known,)
            ):
                entry = Entry(label, Event.from_json(json.loads(event)), bool(disjoint))
                self._kinds[kind] = (tuple(json.loads(people)), entry)
        return [Charge(*self._kinds[kind], count, owner) for (kind, owner, _), count in counts.items()]

    def _holding(self) -> _Holder:
        """The name under which this object uses charges; its lock shows others that it is alive."""
        if self._holder is None:
            self._holder = _Holder(_folder(self.path))
        return self._holder

    # --- the connection --------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """The database for reading, one thread at a time; its errors name the file."""
        with self._lock:
            self.check_open()
            with _explained(self.path):
                database, locks = self._connected()
                with locks.of(self.timeout, shared=True):
                    yield database

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """An atomic transaction that holds the write lock from the start."""
        # SQLite's own locks are dropped for the whole process when any handle of the file is closed; those of
        # `_Locks` belong to one open file. They also keep others from writing during a checkpoint of the log:
        # up to SQLite 3.51.2 a write at that moment could damage the file.
        with self._lock:
            self.check_open()
            with _explained(self.path):
                database, locks = self._connected()
                with locks.of(self.timeout):
                    try:
                        database.execute("BEGIN IMMEDIATE")
                        yield database
                        (version,) = database.execute(_VERSION).fetchone()
                        database.execute("COMMIT")
                    except BaseException:
                        if database.in_transaction:
                            database.execute("ROLLBACK")
                        raise
                    locks.about(self.path, version)

    def _connected(self) -> tuple[sqlite3.Connection, _Locks]:
        if self._connection is None or self._locks is None:
            if not self.path.exists():
                raise FileNotFoundError(f"{self.path} is gone; what was charged there is not known any more")
            self._connection, self._locks = self._connect()
        return self._connection, self._locks

    def _connect(self) -> tuple[sqlite3.Connection, _Locks]:
        """A connection to the file, which is made a ledger if it is empty."""
        folder = _folder(self.path)
        database = sqlite3.connect(
            self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False
        )
        locks = None
        try:
            for pragma in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
                database.execute(f"PRAGMA {pragma}")
            database.execute("BEGIN")  # one snapshot: another process may be making the tables
            ready = _is_ledger(database, self.path)
            database.execute("COMMIT")
            if not ready:
                _Locks.begin(folder)
            locks = _Locks(folder)
            with locks.of(self.timeout):
                if not ready:
                    locks.about(self.path, 0, begin=True)
                    self._make_tables(database)
                locks.check(self.path, int(database.execute(_VERSION).fetchone()[0]))
        except BaseException:
            database.close()
            if locks is not None:
                locks.close()
            raise
        return database, locks

    def _make_tables(self, database: sqlite3.Connection) -> None:
        (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise ValueError(f"{self.path} cannot be written ahead ({mode}); use a file on a local disk")
        database.execute("BEGIN IMMEDIATE")
        if not _is_ledger(database, self.path):
            for statement in (*_TABLES.strip().split(";"), *_ONLY_GROWS):
                database.execute(statement)
            database.execute("INSERT INTO ledger VALUES (1, ?)", (random_id(),))
            database.execute(f"PRAGMA user_version = {FORMAT}")
            database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that a copy of this file alone is a ledger

    def _create(self) -> None:
        """Create the file, for its owner only, and its tables; processes that start together wait in turn."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if not self.path.is_file():
                raise ValueError(f"{self.path} is not a file; give the path of a ledger") from None
        else:
            to_disk(self.path.parent)
        give_up = time.monotonic() + self.timeout
        while True:
            try:
                with _explained(self.path):
                    self._connection, self._locks = self._connect()
                return
            except TimeoutError:  # SQLite does not wait when it changes the journal mode of a new file
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.005)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        locks, self._locks = self._locks, None
        if connection is not None and locks is not None:
            with contextlib.suppress(TimeoutError), locks.of(self.timeout):
                connection.close()
            connection.close()
            locks.close()


def _is_ledger(database: sqlite3.Connection, path: Path) -> bool:
    """True for a ledger, False for an empty database; anything else is refused, untouched."""
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application == APPLICATION and version == FORMAT:
        return True
    if application == APPLICATION:
        raise ValueError(
            f"{path} is a ledger of format {version}; this version of discreet knows {FORMAT}:"
            " use the version that wrote it"
        )
    if application or version or database.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise ValueError(f"{path} is a database of something else, not a ledger; give another path")
    return False


def _copy(database: sqlite3.Connection, target: Path) -> None:
    """Copy a database to a new file."""
    handle = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with contextlib.closing(sqlite3.connect(target)) as copy:
            database.backup(copy)
        os.fsync(handle)
        to_disk(target.parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _again(path: Path, timeout: float) -> SQLiteLedger:
    return SQLiteLedger(path, timeout=timeout)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ones about the ledger."""
    late = f"{path} is locked by another writer; nothing was released"
    try:
        yield
    except TimeoutError as error:
        raise TimeoutError(late) from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise TimeoutError(late) from error
        raise OSError(f"{path}: {error}; nothing was released") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path} is not a ledger, or is damaged: {error}") from error


# --- locks -----------------------------------------------------------------------------------------------
# By flock(), whose locks belong to an open file description: the operating system drops a lock when its last
# handle is closed, so at the latest when the process ends, however it ends. Other handles of the same file,
# which a backup opens and closes, do not affect it. (Closing them would drop the locks of lockf().)


def _folder(path: Path) -> Path:
    return Path(f"{path}-holders")


def _locked(handle: int, *, shared: bool = False) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


class _Locks:
    """The folder beside a ledger: locks of readers and writers, live holders, and the ledger's identity."""

    def __init__(self, folder: Path) -> None:
        try:
            self._handle = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            raise ValueError(
                f"{folder} is missing, so it is unknown who uses the ledger, or whether it is the ledger"
                " or a copy; where the original is lost, SQLiteLedger.restore makes a ledger of a copy"
            ) from None
        self._folder = folder

    @classmethod
    def begin(cls, folder: Path) -> None:
        """Make the folder of a new ledger."""
        folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600))
        to_disk(folder)
        to_disk(folder.parent)

    def close(self) -> None:
        os.close(self._handle)

    @contextmanager
    def of(self, timeout: float, *, shared: bool = False) -> Iterator[None]:
        """Keep others from writing, and with ``shared=False`` from reading; waits ``timeout`` s at most."""
        give_up = time.monotonic() + timeout
        try:  # an interrupt may come right after the lock was taken
            while not _locked(self._handle, shared=shared):
                if time.monotonic() > give_up:
                    raise TimeoutError
                time.sleep(0.0005)
            yield
        finally:
            if fcntl is not None:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def about(self, path: Path, version: int, *, begin: bool = False) -> None:
        """Record which file this is, and a lower bound of its number of charges."""
        if not begin or not os.fstat(self._handle).st_size:
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, b"%20d %20d" % (path.stat().st_ino, version))
            if begin:
                os.fsync(self._handle)

    def check(self, path: Path, version: int) -> None:
        """Refuse a file that is not this folder's ledger, or has lost charges."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        found = os.read(self._handle, 64).split()
        if len(found) != 2 or int(found[0]) != path.stat().st_ino:
            raise ValueError(
                f"{path} is a copy of a ledger: charges to it would be unknown to the original; where"
                " the original is lost, SQLiteLedger.restore makes a ledger of a copy"
            )
        if version < int(found[1]):
            raise ValueError(
                f"{path} holds {version} charges, and had {int(found[1])}: an older copy stands in its place"
            )

    def lives(self, holder: str) -> bool:
        """Whether a holder of that name is alive. Only writers ask."""
        try:
            handle = os.open(self._folder / holder, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            gone = fcntl is not None and _locked(handle)  # without flock there is no way to tell
        finally:
            os.close(handle)
        if gone:
            (self._folder / holder).unlink(missing_ok=True)  # names are not reused
        return not gone


class _Holder:
    """A random name with a locked file: the lock lasts as long as the process that uses charges under it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"holder-{random_id()}"
        self._path = folder / self.name
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _locked(self._handle)

    def drop(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._handle)

    def leave(self) -> None:
        """In a forked child: close the handle; the name and its lock are the parent's."""
        os.close(self._handle)


# --- forks -----------------------------------------------------------------------------------------------
# A connection must not be carried into a forked child, not even to be closed there. It is closed before the
# fork, while no operation is under way; parent and child each open a new one when they need it.

_OPEN: weakref.WeakSet[SQLiteLedger] = weakref.WeakSet()
_held: list[SQLiteLedger] = []
_forking = threading.RLock()  # one fork at a time, and none while a ledger is being made
# The name of this process; its number a forked child in another container may have too, or a later process.
PROCESS = [random_id()]


def _before_fork() -> None:
    _forking.acquire()
    for ledger in list(_OPEN):
        ledger._lock.acquire()
        _held.append(ledger)
        ledger._disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    PROCESS[0] = random_id()
    for ledger in _held:
        if ledger._holder is not None:
            ledger._holder.leave()
            ledger._holder = None
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
