"""The service's database: statements in plain SQL, written once, on SQLite or on PostgreSQL.

`Database` has what both share: migrations, liveness of processes, leases of experiments and of blocks.
`SQLiteDatabase` is one file for one process: a write-ahead log, forced to the disk at every commit.
`postgres.PostgresDatabase` is for several processes. They differ in how transactions begin, in how rows are
locked, and in what remains of deleted rows.

Locks are taken in one order, so that there are no deadlocks. Groups lock their blocks (KEY SHARE: any number
of groups at once), then write requests, people and outcomes, each in the order of their key. A worker locks
its lease, then the blocks that it closes (UPDATE, in the same order: it waits for groups in flight, and later
groups wait for it and find the blocks closed). A transaction that erases or freezes locks leases first, too.
Only the owner of a block writes how far it was served.
"""

from __future__ import annotations

import fcntl
import math
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..core.text import install

PSEUDONYM = 12  # bytes of a person's pseudonym
NOBODY = bytes(PSEUDONYM)  # the pseudonym of decisions without a person
# States of a block, in order.
ALLOCATED, OPEN, CLOSING = range(3)
# The columns that `DecisionBlock.read` takes.
BLOCK = "experiment, epoch, first, count, body, chain, served, altered, segment, uncounted, lease"
# Which connection a transaction uses, where there are several: transactions of groups and of the process's
# own lease do not wait for others.
Lane = Literal["any", "groups", "process"]


class Fenced(Exception):
    """Another worker has taken over; nothing was written."""


class Frozen(Fenced):
    """The store is older than decisions already made: no releases in this period; nothing was written."""


class Ended(Exception):
    """The experiment has ended; nothing was written."""


class Conflict(Exception):
    """A row with this key or name exists; nothing was written."""


class StoreError(Exception):
    """The database cannot be reached or written to; nothing was acknowledged."""


class Transaction:
    """Statements that take effect together or not at all, with ``?`` for values; this class is SQLite's."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, sql: str, values: Sequence[Any]) -> Any:
        """Execute a statement; returns its cursor."""
        return self.connection.execute(sql, values)

    def one(self, sql: str, *values: Any) -> Any:
        return self.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> list[Any]:
        found: list[Any] = self.execute(sql, values).fetchall()
        return found

    def locked(self, sql: str, *values: Any, strength: str = "UPDATE") -> list[Any]:  # noqa: ARG002
        """All rows of a query, locked until this transaction ends.

        ``strength`` is PostgreSQL's lock clause: weaker than UPDATE, or one that does not wait. A transaction
        of SQLite locks the whole file.
        """
        return self.all(sql, *values)

    def do(self, sql: str, *values: Any) -> int:
        """Execute a statement; returns how many rows it has changed."""
        return int(self.execute(sql, values).rowcount)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each of these rows."""
        self.connection.executemany(sql, rows)

    def now(self) -> float:
        """The database's clock, in seconds."""
        return time.time()


class Database(ABC):
    """A database of the service."""

    url: str
    patience = math.inf  # seconds for which a process counts as alive after its last `beat`
    dialect: ClassVar[Mapping[str, str]]  # replaces placeholders in braces in migrations

    def __init__(self) -> None:
        self._leases: dict[int, tuple[str, int | None, float]] = {}  # holder, fence, when it was asked for
        self._leased: dict[tuple[int, int, str, str], Any] = {}  # blocks whose lease may have been committed

    @abstractmethod
    def transaction(self, lane: Lane = "any") -> AbstractContextManager[Transaction]:
        """A transaction that is committed at the end, and rolled back by an exception."""

    @abstractmethod
    def scrub(self) -> None:
        """Erase the remains of deleted rows, as far as this database can now; called every minute, too."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def hold(self, tx: Transaction) -> None:  # noqa: B027
        """Make this transaction read one snapshot from here on, without a time limit."""

    def renumber(self, tx: Transaction) -> None:  # noqa: B027
        """Number new rows after those that were copied."""

    # --- tables ----------------------------------------------------------------------------------

    def migrate(self, upto: float = math.inf) -> int:
        """Migrate the tables to this version, or an earlier one; returns the number of the last migration."""
        with self.transaction() as tx:
            self._lock_tables(tx)
            tx.do(
                "CREATE TABLE IF NOT EXISTS migration"
                " (number BIGINT PRIMARY KEY, at DOUBLE PRECISION NOT NULL)"
            )
            last = int(tx.one("SELECT coalesce(max(number), 0) FROM migration")[0])
            for number, script in migrations():
                if last < number <= upto:
                    for statement in statements(script.format(**self.dialect)):
                        tx.do(statement)
                    tx.do("INSERT INTO migration VALUES (?, ?)", number, tx.now())
                    last = number
            return last

    def _lock_tables(self, tx: Transaction) -> None:  # noqa: B027
        """Keep others from migrating before this transaction ends."""

    # --- processes -------------------------------------------------------------------------------

    def beat(self, owner: str, *, new: bool = False) -> bool:
        """Count this process as alive for another `patience` seconds; False if it was declared dead before.

        A process that was declared dead continues under another name (``new``). Its blocks may be closed.
        """
        with self.transaction("process") as tx:
            until = tx.now() + self.patience
            if new:
                tx.do("INSERT INTO process (name, until) VALUES (?, ?)", owner, until)
                return True
            return bool(tx.do("UPDATE process SET until = ? WHERE name = ?", until, owner))

    def leave(self, owner: str) -> None:
        """Record that this process ends, so that others may take over its experiments."""
        with self.transaction("process") as tx:
            tx.do("DELETE FROM process WHERE name = ?", owner)

    def recover(self, owner: str) -> None:
        """Close blocks of processes that are gone; ``owner`` is this process.

        No decision is served from them again. Decisions that are not recorded as served accept no outcome,
        and are not rounds.
        """
        with self.transaction() as tx:
            alone = self.patience == math.inf  # every other recorded process has ended
            gone = ("name <> ?", owner) if alone else ("until < ?", tx.now())
            names = tx.locked(
                f"SELECT name FROM process WHERE {gone[0]}", gone[1], strength="UPDATE SKIP LOCKED"
            )
            tx.many("DELETE FROM process WHERE name = ?", names)
        with self.transaction() as tx:  # a process is recorded before it leases a block
            blocks = tx.locked(
                "SELECT experiment, epoch, first FROM block WHERE state = ? AND closed_at IS NULL"
                " AND NOT EXISTS (SELECT 1 FROM process WHERE name = block.owner)"
                " ORDER BY experiment, epoch, first",
                OPEN,
                strength="NO KEY UPDATE SKIP LOCKED",
            )
            now = tx.now()
            tx.many(
                "UPDATE block SET closed_at = ? WHERE experiment = ? AND epoch = ? AND first = ?",
                [(now, *block) for block in blocks],
            )

    # --- leases ----------------------------------------------------------------------------------

    def lease_block(self, experiment: int, epoch: int, owner: str, segment: str = "", lease: int = 0) -> Any:
        """Lease the next waiting block of a segment, as `DecisionBlock.read` takes it; None if none waits.

        ``lease`` is a number that no other lease has: outcomes name it, which reveals a block that was served
        in a state that this store has lost.
        """
        key, row = (experiment, epoch, owner, segment), None
        try:
            with self.transaction("groups") as tx:
                # By its key alone: a transaction of which nothing is known yet is waited for.
                if (perhaps := self._leased.get(key)) is not None and tx.locked(
                    "SELECT owner, state, closed_at FROM block"
                    " WHERE experiment = ? AND epoch = ? AND first = ?",
                    *perhaps[:3],
                ) == [(owner, OPEN, None)]:
                    row = perhaps
                elif tx.locked("SELECT 1 FROM process WHERE name = ?", owner, strength="KEY SHARE"):
                    rows = tx.locked(
                        f"SELECT {BLOCK} FROM block WHERE experiment = ? AND epoch = ? AND segment = ?"
                        " AND state = ? ORDER BY first LIMIT 1",
                        *(experiment, epoch, segment, ALLOCATED),
                        strength="NO KEY UPDATE SKIP LOCKED",  # passes those that outcomes look at
                    )
                    for found in rows:
                        row = (*found[:-1], lease)
                        tx.do(
                            "UPDATE block SET state = ?, owner = ?, lease = ?"
                            " WHERE experiment = ? AND epoch = ? AND first = ?",
                            *(OPEN, owner, lease, *row[:3]),
                        )
        except StoreError:
            if row is not None:
                self._leased[key] = row
            raise
        self._leased.pop(key, None)
        return row

    def lease(self, experiment: int, holder: str, *, force: bool = False) -> int | None:
        """Become, or stay, the worker of an experiment; the fence number, or None while another one is.

        ``force`` takes it from a live worker, which is fenced off from then on.
        """
        known = self._leases.get(experiment)
        now = time.monotonic()
        if known is not None and known[0] == holder and not force:
            if known[1] is not None:
                return known[1]  # every transaction checks it
            if now - known[2] < _ASK_AGAIN:
                return None
        with self.transaction() as tx:
            fence = _lease(tx, experiment, holder, force)
        self._leases[experiment] = (holder, fence, now)
        return fence

    def check_fence(self, tx: Transaction, experiment: int, holder: str, fence: int) -> None:
        """Refuse (`Fenced`) if another worker has taken over; lock the lease until the transaction ends."""
        if tx.locked("SELECT holder, fence FROM lease WHERE experiment = ?", experiment) != [(holder, fence)]:
            self._leases.pop(experiment, None)
            raise Fenced("another worker has taken over")

    def fence_off(self, tx: Transaction, experiments: Iterable[int]) -> None:
        """Make every process that works on these experiments, or is about to, begin its step again."""
        for experiment in experiments:
            tx.do(
                "INSERT INTO lease (experiment, holder, fence) VALUES (?, '', 1)"
                " ON CONFLICT (experiment) DO UPDATE SET fence = lease.fence + 1",
                experiment,
            )
            self._leases.pop(experiment, None)


_ASK_AGAIN = 0.5  # seconds between checks whether a lease is free


def _lease(tx: Transaction, experiment: int, holder: str, force: bool) -> int | None:
    tx.do(
        "INSERT INTO lease (experiment, holder, fence) SELECT id, ?, 0 FROM experiment WHERE id = ?"
        " ON CONFLICT DO NOTHING",
        *(holder, experiment),
    )
    rows = tx.locked("SELECT holder, fence FROM lease WHERE experiment = ?", experiment)
    if not rows:
        raise LookupError("experiment")  # it was deleted
    ((other, fence),) = rows
    if other == holder:
        return int(fence)
    if not force and tx.one("SELECT 1 FROM process WHERE name = ? AND until >= ?", other, tx.now()):
        return None
    tx.do("UPDATE lease SET holder = ?, fence = ? WHERE experiment = ?", holder, fence + 1, experiment)
    return int(fence) + 1


def migrations() -> Iterator[tuple[int, str]]:
    """Numbered changes of the tables, in order."""
    folder = resources.files(__package__).joinpath("migrations")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".sql"):
            yield int(file.name.split("_")[0]), file.read_text()


def statements(script: str) -> Iterable[str]:
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [one.strip() for one in "\n".join(lines).split(";") if one.strip()]


class SQLiteDatabase(Database):
    """``synchronous=FULL``: a commit returns after the log is on the disk. Deleted rows are overwritten."""

    dialect: ClassVar = {
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "bytes": "BLOB",
        "clustered": " WITHOUT ROWID",
    }
    PRAGMAS: ClassVar = (
        "journal_mode=WAL",
        "synchronous=FULL",
        "secure_delete=ON",
        "foreign_keys=ON",
        "temp_store=MEMORY",
    )

    def __init__(self, path: str | os.PathLike[str], *, beside: bool = False) -> None:
        super().__init__()
        self.path = Path(path).resolve()
        self.url = f"sqlite:///{self.path}"
        self._turn = threading.RLock()
        self._lock: int | None = None
        if beside:
            if not self.path.exists():
                raise StoreError(f"there is no {self.path}; discreet service init makes one")
        else:
            self._lock_file()
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = self._connect()
        for pragma in self.PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        self._sync_folder()

    def _lock_file(self) -> None:
        """Ensure that one process at a time serves from the file."""
        self._lock = os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StoreError(
                f"{self.path} is in use by another process: stop that, or take a backup;"
                " PostgreSQL takes several"
            ) from None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def _sync_folder(self) -> None:
        """Make new names durable, and the removal of the journal that made the file, which would undo it."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def transaction(self, lane: Lane = "any") -> Iterator[Transaction]:  # noqa: ARG002
        with self._turn:
            try:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield Transaction(self._connection)
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.IntegrityError as error:
                raise Conflict(str(error)) from error
            except sqlite3.DatabaseError as error:
                raise StoreError(f"the database cannot be written to: {error}") from error

    def recover(self, owner: str) -> None:
        super().recover(owner)
        self.scrub()  # an earlier process may have ended between a release and its scrub

    def scrub(self) -> None:
        with self._turn, suppress(sqlite3.OperationalError):  # a full disk: it is called once a minute, too
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._turn:
            self._connection.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None


def open_store(url: str, *, beside: bool = False) -> Database:
    """The store of a URL: ``sqlite:///path``, a path, or ``postgresql://...``.

    ``beside`` opens an existing store next to a running service, for short transactions about keys.
    """
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from .postgres import PostgresDatabase
        except ImportError as error:
            raise ValueError(f"PostgreSQL needs more: {install('postgres')} ({error.name})") from None

        return PostgresDatabase(url)

    return SQLiteDatabase(url.removeprefix("sqlite:///"), beside=beside)


# --- failpoints ----------------------------------------------------------------------------------------

# Named points at which tests stop the process, to show that nothing is lost there, in the order in which a
# decision passes them. docs/service/failures.md states what holds at each.
POINTS = (
    "allocated, not committed",
    "block committed",
    "outcomes queued",
    "outcomes committed",
    "block closed",
    "outcomes read",
    "noise drawn",
    "release committed",
)
failpoints: dict[str, Callable[[], object]] = {}


def reach(point: str) -> None:
    """Run a test's action at this point, if there is one."""
    if failpoints and (action := failpoints.get(point)) is not None:
        action()
