"""The service's database: transactions in plain SQL, numbered migrations, and the store in one SQLite file.

Statements are written once, with ``?`` for values; a store says the rest in its own dialect. `SQLiteStore` is
for one process: a write-ahead log, forced to the disk at every commit. `postgres` is for several.
"""

from __future__ import annotations

import fcntl
import math
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from ..core.extras import install
from . import failpoints
from .blocks import ALLOCATED, COLUMNS, OPEN
from .groups import Group, Written, write


class Transaction(Protocol):
    """Statements that happen together or not at all."""

    def one(self, sql: str, *values: Any) -> Any:
        """The first row, or None."""

    def all(self, sql: str, *values: Any) -> list[Any]:
        """All rows."""

    def locked(self, sql: str, *values: Any, strength: str = "UPDATE") -> list[Any]:
        """All rows, which nobody else changes or counts on before this transaction ends.

        ``strength`` is PostgreSQL's: of a weaker lock, or of one that waits for nobody.
        """

    def do(self, sql: str, *values: Any) -> int:
        """Carry out a statement; how many rows it was about."""

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Carry out a statement for each of these rows."""

    def now(self) -> float:
        """The database's clock, in seconds."""


class Fenced(Exception):
    """Another worker has taken over; nothing was written."""


class Frozen(Fenced):
    """The store has gone back in time, and nothing is released in this period; nothing was written."""


class Conflict(Exception):
    """There is such a row already; nothing was written."""


class StoreError(Exception):
    """The database cannot be reached or written to; nothing was acknowledged."""


class Store(ABC):
    """A database of the service."""

    url: str
    patience = math.inf  # seconds for which a process is believed to live after its last `beat`

    @abstractmethod
    def migrate(self) -> int:
        """Bring the tables up to this release; the number of the last migration."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits when it is left, and is rolled back by an exception."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A `transaction` for a group, which waits for no reader."""

    def record(self, group: Group) -> Written:
        """Write a group down, durably: see `groups`."""
        failpoints.reach("outcomes queued")
        with self.writing() as tx:
            written = write(tx, group)
        failpoints.reach("outcomes committed")
        return written

    @abstractmethod
    def lease_block(self, experiment: int, epoch: int, owner: str, segment: str = "") -> Any:
        """The next block of a segment that waits, as `DecisionBlock.read` takes it; None where none does."""

    @abstractmethod
    def recover(self, owner: str) -> None:
        """Blocks of processes that are gone are closed; ``owner`` is not gone.

        Nobody is served from them again. What is not written down as served takes no outcome, and is no
        round.
        """

    @abstractmethod
    def scrub(self) -> None:
        """Leave nothing behind of rows that were deleted, as far as this database can."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    # --- several processes; a store of one process needs none of these ----------------------------

    def beat(self, owner: str, *, new: bool = False) -> bool:  # noqa: ARG002
        """This process lives, for `patience` from now on; False once it was taken for dead.

        A process that was taken for dead goes on under another name (``new``). Its blocks may be closed.
        """
        return True

    def leave(self, owner: str) -> None:  # noqa: B027
        """This process ends: others may take over what it kept."""

    def lease(self, experiment: int, holder: str, *, force: bool = False) -> int | None:  # noqa: ARG002
        """Become, or stay, the worker of an experiment; the fence number, or None while another is.

        ``force`` takes it from a worker that lives, who is fenced off from then on.
        """
        return 0

    def check_fence(self, tx: Transaction, experiment: int, holder: str, fence: int) -> None:  # noqa: B027
        """Refuse to go on (`Fenced`) when another worker has taken over; nobody does before the end."""


def migrations() -> Iterator[tuple[int, str]]:
    """Numbered changes of the tables, in order."""
    folder = resources.files(__package__).joinpath("migrations")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".sql"):
            yield int(file.name.split("_")[0]), file.read_text()


def statements(script: str) -> Iterable[str]:
    """The statements of a script without its comments."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [one.strip() for one in "\n".join(lines).split(";") if one.strip()]


_DIALECT = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "clustered": " WITHOUT ROWID"}


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def one(self, sql: str, *values: Any) -> Any:
        return self._connection.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def locked(self, sql: str, *values: Any, strength: str = "UPDATE") -> list[Any]:  # noqa: ARG002
        return self.all(sql, *values)  # it has the whole file

    def do(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def now(self) -> float:
        return time.time()


class SQLiteStore(Store):
    """``synchronous=FULL``: a commit returns after the log is on the disk. Deleted rows are overwritten."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.url = f"sqlite:///{self.path}"
        self._turn = threading.RLock()
        self._lock: int | None = os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StoreError(
                f"{self.path} is in use by another process: stop that, or take a backup;"
                " PostgreSQL takes several"
            ) from None
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = self._connect()
        for pragma in self.PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        self._sync_folder()

    PRAGMAS = (
        "journal_mode=WAL",
        "synchronous=FULL",
        "secure_delete=ON",
        "foreign_keys=ON",
        "temp_store=MEMORY",
    )

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def _sync_folder(self) -> None:
        """New names are on the disk, and the journal that made the file is not: it would undo it."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def migrate(self) -> int:
        with self.transaction() as tx:
            last = int(tx.one("PRAGMA user_version")[0])
            for number, script in migrations():
                if number > last:
                    for statement in statements(script.format(**_DIALECT)):
                        tx.do(statement)
                    tx.do(f"PRAGMA user_version = {number}")
                    last = number
            return last

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._turn:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield _Transaction(self._connection)
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.IntegrityError):
                    raise Conflict(str(error)) from error
                raise StoreError(f"the database cannot be written to: {error}") from error

    writing = transaction

    def lease_block(self, experiment: int, epoch: int, owner: str, segment: str = "") -> Any:
        with self.transaction() as tx:
            row = tx.one(
                f"SELECT {COLUMNS} FROM block"
                " WHERE experiment = ? AND epoch = ? AND segment = ? AND state = ? ORDER BY first LIMIT 1",
                *(experiment, epoch, segment, ALLOCATED),
            )
            if row is not None:
                tx.do(
                    "UPDATE block SET state = ?, owner = ? WHERE experiment = ? AND epoch = ? AND first = ?",
                    *(OPEN, owner, experiment, epoch, row[2]),
                )
            return row

    def recover(self, owner: str) -> None:
        with self.transaction() as tx:
            tx.do(
                "UPDATE block SET closed_at = ? WHERE state = ? AND closed_at IS NULL AND owner <> ?",
                *(tx.now(), OPEN, owner),
            )
        self.scrub()  # whoever was here before may have ended between a release and its scrub

    def scrub(self) -> None:
        with self._turn:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._turn:
            self._connection.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None


def open_store(url: str) -> Store:
    """The store of a URL: ``sqlite:///path``, a path, or ``postgresql://...``."""
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from .postgres import PostgresStore
        except ImportError as error:
            raise ValueError(f"PostgreSQL needs more: {install('postgres')} ({error.name})") from None

        return PostgresStore(url)

    return SQLiteStore(url.removeprefix("sqlite:///"))
