"""The service in one SQLite file and one process: write-ahead log, forced to the disk at every commit."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import failpoints
from ..hands import CLOSING, COLUMNS, DEALT, OPEN
from ..keys import NOBODY
from .base import (
    DUPLICATE,
    LATE,
    RECORDED,
    Conflict,
    Outcome,
    Served,
    Store,
    StoreError,
    Transaction,
    migrations,
    statements,
)
from .batches import found, write
from .visits import SERVED_TO

_DIALECT = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "clustered": " WITHOUT ROWID"}


# {} is where values of many rows come.
_THERE = "SELECT place, 1 FROM outcome WHERE experiment = ? AND epoch = ? AND place IN ({})"
_OUTCOME = "INSERT INTO outcome (experiment, epoch, place, altered, body, mark) VALUES {}"


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def one(self, sql: str, *values: Any) -> Any:
        return self._connection.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    locked = all  # it has the whole file

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

    def record(self, outcomes: Sequence[Outcome], served: Sequence[Served]) -> list[str]:
        failpoints.reach("outcomes queued")
        with self.transaction() as tx:
            for hand in served:
                self._served(tx, hand)
            answers = self._record(tx, outcomes) if outcomes else []
        failpoints.reach("outcomes committed")
        return answers

    def _served(self, tx: Transaction, hand: Served) -> None:
        """How far a hand was served, and to whom, unless it has been closed meanwhile."""
        done = tx.do(
            "UPDATE hand SET served = max(served, ?), named = max(named, ?), altered = ?,"
            " closed_at = coalesce(closed_at, ?)"
            " WHERE experiment = ? AND epoch = ? AND first = ? AND state < ?",
            *(hand.served, hand.served, hand.altered, None if hand.over is None else tx.now() - hand.over),
            *(hand.experiment, hand.epoch, hand.first, CLOSING),
        )
        if done and hand.marks:
            tx.do(
                f"INSERT INTO served_to (experiment, epoch, place, marks) VALUES (?, ?, ?, ?) {SERVED_TO}",
                *(hand.experiment, hand.epoch, hand.first + hand.start, hand.marks),
            )

    def _record(self, tx: Transaction, outcomes: Sequence[Outcome]) -> list[str]:
        there = found(tx, _THERE, [one[:3] for one in outcomes])
        hands: list[tuple[int, int, range, int]] = []
        new: list[tuple[Any, ...]] = []
        answers = []
        for one in outcomes:
            place = one[:3]
            if place in there:
                answers.append(DUPLICATE)
                continue
            if not _takes(tx, one, hands):
                answers.append(LATE)
                continue
            answers.append(RECORDED)
            there[place] = 1  # somebody reports twice at once: the first one counts
            new.append((*place, one.altered, one.body, None if one.mark == NOBODY else one.mark))
        write(tx, _OUTCOME, new)
        return answers

    def claim(self, experiment: int, epoch: int, owner: str, segment: str = "") -> Any:
        with self.transaction() as tx:
            row = tx.one(
                f"SELECT {COLUMNS} FROM hand"
                " WHERE experiment = ? AND epoch = ? AND segment = ? AND state = ? ORDER BY first LIMIT 1",
                *(experiment, epoch, segment, DEALT),
            )
            if row is not None:
                tx.do(
                    "UPDATE hand SET state = ?, owner = ? WHERE experiment = ? AND epoch = ? AND first = ?",
                    *(OPEN, owner, experiment, epoch, row[2]),
                )
            return row

    def recover(self, owner: str) -> None:
        with self.transaction() as tx:
            tx.do(
                "UPDATE hand SET closed_at = ?, served = count"
                " WHERE state = ? AND closed_at IS NULL AND owner <> ?",
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


def _takes(tx: Transaction, one: Outcome, known: list[tuple[int, int, range, int]]) -> bool:
    """Whether the hand of an outcome is there and not closed, and it is written down whom its place was for.

    ``known`` are hands that were looked at, and how far each of them takes the outcomes of people.
    """
    experiment, epoch, place = one[:3]
    for of, at, places, named in known:
        if place in places and (of, at) == (experiment, epoch):
            return place < named or one.mark == NOBODY
    row = tx.one(
        "SELECT first, count, named, state FROM hand WHERE experiment = ? AND epoch = ? AND first <= ?"
        " ORDER BY first DESC LIMIT 1",
        *(experiment, epoch, place),
    )
    if row is None or place >= row[0] + row[1] or row[3] >= CLOSING:
        return False
    known.append((experiment, epoch, range(row[0], row[0] + row[1]), row[0] + row[2]))
    return place < row[0] + row[2] or one.mark == NOBODY
