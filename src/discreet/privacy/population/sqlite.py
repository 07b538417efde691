"""A ledger in a file: charges that stay, whatever happens to the processes that made them.

One SQLite database in write-ahead mode. An entry is written in a transaction of its own that first takes the
write lock and looks at the version, and is acknowledged after the log was forced to the disk
(``synchronous=FULL``). Whoever is killed before that has charged nothing, and after it has charged all of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...core import checks
from ..events import Event
from ..ledger import Charge, Entry, Group, LedgerConflict, agreed
from .holders import LockFile

APPLICATION, FORMAT = 0x64736372, 1  # "dscr"; the format of the tables below
_KINDS = "people, label, event, disjoint"
_TABLES = f"""
CREATE TABLE terms (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), record TEXT NOT NULL);
CREATE TABLE mark (id INTEGER PRIMARY KEY, sentence TEXT NOT NULL UNIQUE);
CREATE TABLE kind (id INTEGER PRIMARY KEY, people TEXT NOT NULL, label TEXT NOT NULL, event TEXT NOT NULL,
  disjoint INTEGER NOT NULL, UNIQUE ({_KINDS}));
CREATE TABLE holder (id INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE charge (version INTEGER PRIMARY KEY, kind INTEGER NOT NULL REFERENCES kind,
  count TEXT NOT NULL, holder INTEGER NOT NULL REFERENCES holder);
CREATE TABLE holding (kind INTEGER NOT NULL REFERENCES kind, holder INTEGER NOT NULL REFERENCES holder,
  count TEXT NOT NULL, PRIMARY KEY (kind, holder)) WITHOUT ROWID
"""  # counts are whole numbers of any size, hence text
_ONLY_GROWS = [
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}"
    " BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
    for table in ("terms", "mark", "kind", "charge")
    for verb in ("UPDATE", "DELETE")
]


class SQLiteLedger:
    """Charges in a file, for any number of gates, threads and processes of one machine.

    What is charged stays charged when a process is killed, at any point: ``append`` returns after the entry
    is on the disk, and the version that it expects is looked at under the write lock, so that two gates never
    both spend what is left. The first gate writes its budget and privacy notion into the file, and gates with
    others are refused. The file is readable by its owner only; it holds labels and mechanisms, nobody's data.

    A charge is in use as long as the ledger object that made it is open in a process that lives. After that
    it can be taken up once, by `discreet.load` with a gate over this file, and is then in use there. Not
    protected: going on from the same saved file again after the first successor died draws again what that
    one had released since, about the people in the file. Copies of the ledger, and older ones that are put
    back, are budgets of their own. The file must lie on a local disk, with ``-holders`` (locks) beside it.

    ``timeout`` is how many seconds to wait for other writers.

    >>> import tempfile, discreet as dc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with dc.privacy.SQLiteLedger(folder + "/people.ledger") as ledger:
    ...         gate = dc.Gate(dc.Budget(1.0), ledger=ledger)
    ...         chosen = gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    ...     with dc.privacy.SQLiteLedger(folder + "/people.ledger") as ledger:
    ...         print(dc.Gate(dc.Budget(1.0), ledger=ledger).spent.epsilon())
    0.5
    """

    _locks: LockFile = None  # type: ignore[assignment]  # until it is made
    _new_holder = False

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise ValueError("path must name a file; MemoryLedger() keeps charges in memory")
        self.path = Path(path).resolve()  # whatever it is called, its locks lie in one place
        self.timeout = checks.real("timeout", timeout, above=0.0, at_most=3600.0)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._holder: int | None = None
        self._groups: dict[int, tuple[Group, Entry]] = {}  # what was read of the table of kinds
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._create()
        _OPEN.add(self)

    # --- as a `Ledger` ---------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many entries there are."""
        with self._reading() as database:
            return int(database.execute("SELECT coalesce(max(version), 0) FROM charge").fetchone()[0])

    def entries(self, since: int = 0) -> list[Charge]:
        """What was charged after version ``since``, equal entries together."""
        with self._reading() as database:
            counts: dict[int, int] = {}
            rows = "SELECT kind, count FROM charge WHERE version > ? ORDER BY version"
            for kind, count in database.execute(rows, (since,)):
                counts[kind] = counts.get(kind, 0) + int(count)
            return self._named(database, counts)

    def append(self, entry: Entry, count: int, *, expected_version: int, group: Group = ()) -> None:
        """Write one entry durably, unless the ledger is at another version than ``expected_version``."""
        number = checks.whole("count", count, at_least=1, at_most=checks.ANY)
        with self._writing() as database:
            (version,) = database.execute("SELECT coalesce(max(version), 0) FROM charge").fetchone()
            if version != expected_version:
                raise LedgerConflict(f"the ledger is at version {version}, not {expected_version}")
            holder, kind = self._holding(database), self._kind(database, group, entry)
            row = (version + 1, kind, str(number), holder)
            database.execute("INSERT INTO charge VALUES (?, ?, ?, ?)", row)
            _hold(database, kind, holder, number)

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Refuse other terms (a budget, a privacy notion) than those of the first gate."""
        with self._writing() as database:
            found = database.execute("SELECT record FROM terms").fetchone()
            record = agreed(None if found is None else json.loads(found[0]), terms)
            if found is None:
                database.execute("INSERT INTO terms VALUES (1, ?)", (json.dumps(record),))

    @property
    def terms(self) -> dict[str, Any] | None:
        """The budget and the privacy notion of all gates over it; None before the first."""
        with self._reading() as database:
            found = database.execute("SELECT record FROM terms").fetchone()
            return None if found is None else dict(json.loads(found[0]))

    @property
    def marks(self) -> tuple[str, ...]:
        """What the accounts of all gates of this ledger say they take for granted; see `Gate.mark`."""
        with self._reading() as database:
            return tuple(row[0] for row in database.execute("SELECT sentence FROM mark ORDER BY id"))

    def mark(self, *sentences: str) -> None:
        """Keep such sentences; they stay."""
        with self._writing() as database:
            rows = [(sentence,) for sentence in sentences]
            database.executemany("INSERT OR IGNORE INTO mark (sentence) VALUES (?)", rows)

    # --- as a `DurableLedger` --------------------------------------------------------------------

    def unclaimed(self) -> list[Charge]:
        """What was charged by ledger objects that are closed, or whose processes have ended."""
        with self._writing() as database:
            counts: dict[int, int] = {}
            for kind, _, count in self._left_behind(database):
                counts[kind] = counts.get(kind, 0) + count
            return self._named(database, counts)

    def claim(self, charges: Sequence[Charge]) -> None:
        """Take up what nobody uses: all of these, or none with a ValueError."""
        if not charges:
            return
        with self._writing() as database:
            holder = self._holding(database)
            needed: dict[tuple[Group, Entry], int] = {}
            for group, entry, count in charges:
                needed[group, entry] = needed.get((group, entry), 0) + count
            left = self._left_behind(database)
            self._named(database, {kind: 1 for kind, _, _ in left})
            for kind, before, count in left:
                what = self._groups[kind]
                if taken := min(count, needed.get(what, 0)):
                    needed[what] -= taken
                    _hold(database, kind, before, -taken)
                    _hold(database, kind, holder, taken)
            if any(needed.values()):
                raise ValueError("some of these charges are in use already: another process was first")

    def check_open(self) -> None:
        """Refuse to go on once the ledger was closed: others may have taken its charges up since."""
        if self._closed:
            raise RuntimeError(
                f"the ledger {self.path.name} was closed, and its charges may be in use elsewhere"
            )

    def close(self) -> None:
        """End the use of the charges made here; gates over this object release nothing any more."""
        with self._lock:
            self._closed = True
            self._disconnect()
            self._drop()

    def __del__(self) -> None:
        if self._locks is not None:  # it was made
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.path, self.timeout)

    def __repr__(self) -> str:
        return f"SQLiteLedger({str(self.path)!r})"

    # --- rows ------------------------------------------------------------------------------------

    def _kind(self, database: sqlite3.Connection, group: Group, entry: Entry) -> int:
        """The number of a kind of entry, new if it has none."""
        checks.instance("entry", entry, Entry, "Entry('picks', LaplaceNoise(1.0, 2.0))")
        event = json.dumps(entry.event.to_json(), sort_keys=True)
        row = (json.dumps(list(group)), entry.label, event, int(entry.disjoint))
        if row in self._numbers:
            return self._numbers[row]
        find = "SELECT id FROM kind WHERE people = ? AND label = ? AND event = ? AND disjoint = ?"
        found = database.execute(find, row).fetchone()
        if found is None:  # not remembered before it is certain to stay
            insert = f"INSERT INTO kind ({_KINDS}) VALUES (?, ?, ?, ?)"
            return int(database.execute(insert, row).lastrowid or 0)
        self._numbers[row] = found[0]
        return int(found[0])

    def _named(self, database: sqlite3.Connection, counts: dict[int, int]) -> list[Charge]:
        if any(kind not in self._groups for kind in counts):
            known = max(self._groups, default=0)
            for kind, people, label, event, disjoint in database.execute(
                f"SELECT id, {_KINDS} FROM kind WHERE id > ?", (known,)
            ):
                entry = Entry(label, Event.from_json(json.loads(event)), bool(disjoint))
                self._groups[kind] = (tuple(json.loads(people)), entry)
        return [(*self._groups[kind], count) for kind, count in counts.items() if count]

    def _holding(self, database: sqlite3.Connection) -> int:
        """The number under which this object holds charges; its lock tells others that it lives."""
        if self._holder is None:
            number = int(database.execute("INSERT INTO holder DEFAULT VALUES").lastrowid or 0)
            self._locks.hold(number)
            self._holder, self._new_holder = number, True
        return self._holder

    def _drop(self) -> None:
        if self._holder is not None:
            self._locks.drop(self._holder)
            self._holder = None

    def _left_behind(self, database: sqlite3.Connection) -> list[tuple[int, int, int]]:
        """(kind, holder, count) of all that is held by somebody who is gone."""
        rows = database.execute("SELECT kind, holder, count FROM holding").fetchall()
        gone = {holder for holder in {row[1] for row in rows} if self._locks.gone(holder)}
        return [(kind, holder, int(count)) for kind, holder, count in rows if holder in gone]

    # --- the connection --------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One after the other; errors of the database name the file."""
        with self._lock:
            self.check_open()
            with _explained(self.path):
                yield self._connected()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that has the write lock from the start: all of it stays, or nothing does."""
        # SQLite has a write lock of its own. This one also keeps others from writing during a checkpoint (the
        # log moves into the database): up to SQLite 3.51.2 the two could meet, and damage the file.
        with self._reading() as database, self._locks.alone(self.timeout):
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
                self._new_holder = False
            except BaseException:
                if self._new_holder:  # its number was not written
                    self._drop()
                    self._new_holder = False
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self.path.exists():
                raise FileNotFoundError(f"{self.path} is gone; what was charged there is not known any more")
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        """A connection to what is a ledger, or becomes one."""
        database = sqlite3.connect(
            self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
                database.execute(f"PRAGMA {pragma}")
            database.execute("BEGIN")  # one look: somebody may be making the tables
            ready = self._is_ledger(database)
            used = ready and database.execute("SELECT 1 FROM holder").fetchone() is not None
            database.execute("COMMIT")
            self._locks = LockFile.beside(self.path, used)
            if not ready:
                with self._locks.alone(self.timeout):
                    self._make_tables(database)
        except BaseException:
            database.close()
            raise
        return database

    def _make_tables(self, database: sqlite3.Connection) -> None:
        (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise ValueError(f"{self.path} cannot be written ahead ({mode}); use a file on a local disk")
        database.execute("BEGIN IMMEDIATE")
        if not self._is_ledger(database):
            for statement in (*_TABLES.strip().split(";"), *_ONLY_GROWS):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FORMAT}")
            database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute("COMMIT")

    def _is_ledger(self, database: sqlite3.Connection) -> bool:
        """Whether it is one, or empty; what is neither is refused, and has not been touched."""
        application, version = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if application == APPLICATION and version == FORMAT:
            return True
        if application == APPLICATION:
            raise ValueError(
                f"{self.path} is a ledger of format {version}; this version of discreet knows {FORMAT}:"
                " use the version that wrote it"
            )
        if application or version or database.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise ValueError(f"{self.path} is a database of something else, not a ledger; give another path")
        return False

    def _create(self) -> None:
        """The file, for its owner only, and its tables; processes that start at once wait for each other."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if not self.path.is_file():
                raise ValueError(f"{self.path} is not a file; give the path of a ledger") from None
        else:
            _sync_folder(self.path.parent)
        give_up = time.monotonic() + self.timeout
        while True:
            try:
                with _explained(self.path):
                    self._connection = self._connect()
                return
            except TimeoutError:  # changing the mode of a new file does not wait by itself
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.005)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(TimeoutError), self._locks.alone(self.timeout):
                connection.close()
            connection.close()


def _hold(database: sqlite3.Connection, kind: int, holder: int, count: int) -> None:
    """Add to what a holder has of a kind; numbers of any size, so not in SQL."""
    key = (kind, holder)
    found = database.execute("SELECT count FROM holding WHERE kind = ? AND holder = ?", key).fetchone()
    total = count + (0 if found is None else int(found[0]))
    if total:
        database.execute("INSERT OR REPLACE INTO holding VALUES (?, ?, ?)", (*key, str(total)))
    else:
        database.execute("DELETE FROM holding WHERE kind = ? AND holder = ?", key)


def _again(path: Path, timeout: float) -> SQLiteLedger:
    return SQLiteLedger(path, timeout=timeout)


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)  # the new name, too, survives a crash
        finally:
            os.close(handle)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
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


# --- forks -----------------------------------------------------------------------------------------------
# A connection must not be carried into a forked child, not even to be closed there. So it is closed before,
# with nobody in the middle of anything, and both make a new one when they need it.

_OPEN: weakref.WeakSet[SQLiteLedger] = weakref.WeakSet()
_held: list[SQLiteLedger] = []


def _before_fork() -> None:
    for ledger in list(_OPEN):
        ledger._lock.acquire()
        _held.append(ledger)
        ledger._disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()


def _after_fork_in_child() -> None:
    for ledger in _held:
        ledger._holder = None  # that is the parent
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
