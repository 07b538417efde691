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

_DIALECT = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "clustered": " WITHOUT ROWID"}


# {} is where values of many rows come.
_THERE = "SELECT place, 1 FROM outcome WHERE experiment = ? AND epoch = ? AND place IN ({})"
_VISITS = "SELECT mark, times FROM visit WHERE population = ? AND period = ? AND mark IN ({})"
_OUTCOME = "INSERT INTO outcome (experiment, epoch, place, altered, body, mark) VALUES {}"
_VISIT = (
    "INSERT INTO visit (population, period, mark, times) VALUES {}"
    " ON CONFLICT (population, period, mark) DO UPDATE SET times = excluded.times"
)
_MOST = 1024  # rows of one statement


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
            raise StoreError(f"{self.path} is in use by another process; PostgreSQL takes several") from None
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
            now = tx.now()
            found = self._record(tx, outcomes) if outcomes else []
            for hand in served:
                tx.do(
                    "UPDATE hand SET served = ?, altered = ?, closed_at = CASE WHEN ? THEN"
                    " coalesce(closed_at, ?) ELSE closed_at END"
                    " WHERE experiment = ? AND epoch = ? AND first = ?",
                    *(hand.served, hand.altered, hand.over, now, hand.experiment, hand.epoch, hand.first),
                )
        failpoints.reach("outcomes committed")
        return found

    def _record(self, tx: Transaction, outcomes: Sequence[Outcome]) -> list[str]:
        """A group in a few statements: at each of them threads take turns, and each takes time of its own."""
        there = _found(tx, _THERE, [one[:3] for one in outcomes])
        people = [(one.population, one.period, one.mark) for one in outcomes if one.mark != NOBODY]
        times = _found(tx, _VISITS, people)
        hands: list[tuple[int, int, range, bool]] = []
        visits: dict[tuple[Any, ...], int] = {}
        new: list[tuple[Any, ...]] = []
        answers = []
        for one in outcomes:
            place = one[:3]
            if place in there:
                answers.append(DUPLICATE)
                continue
            if not _takes_outcomes(tx, place, hands):
                answers.append(LATE)
                continue
            answers.append(RECORDED)
            there[place] = 1  # somebody reports twice at once: the first one counts
            mark: bytes | None = None
            body: bytes | None = one.body
            if one.mark != NOBODY:
                mark = one.mark
                whose = (one.population, one.period, mark)
                before = times.get(whose, 0)
                if before >= one.limit:
                    body = None
                else:
                    times[whose] = visits[whose] = before + 1
            new.append((*place, one.altered, body, mark))
        _write(tx, _OUTCOME, new)
        _write(tx, _VISIT, [(*whose, count) for whose, count in visits.items()])
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


def _found(tx: Transaction, sql: str, keys: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    """What there is under keys of three parts, of which many have the first two in common."""
    wanted: dict[tuple[Any, Any], list[Any]] = {}
    for one, two, three in keys:
        wanted.setdefault((one, two), []).append(three)
    found = {}
    for first, last in wanted.items():
        for start in range(0, len(last), _MOST):
            some = last[start : start + _MOST]
            size = 1 << (len(some) - 1).bit_length()  # of few sizes, so that statements are used again
            places = ",".join("?" * size)
            for three, value in tx.all(sql.format(places), *first, *some, *[None] * (size - len(some))):
                found[*first, three] = value
    return found


def _write(tx: Transaction, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Many rows, of each power of two at most once."""
    start = 0
    while left := len(rows) - start:
        size = min(1 << (left.bit_length() - 1), _MOST)
        row = f"({','.join('?' * len(rows[0]))})"
        values = [value for one in rows[start : start + size] for value in one]
        tx.do(sql.format(",".join([row] * size)), *values)
        start += size


def _takes_outcomes(tx: Transaction, place: tuple[int, int, int], known: list[Any]) -> bool:
    """Whether the hand of a place is there and not closed; ``known`` are those that were looked at."""
    experiment, epoch, number = place
    for of, at, places, open_ in known:
        if number in places and (of, at) == (experiment, epoch):
            return bool(open_)
    row = tx.one(
        "SELECT first, count, state FROM hand WHERE experiment = ? AND epoch = ? AND first <= ?"
        " ORDER BY first DESC LIMIT 1",
        *place,
    )
    if row is None or number >= row[0] + row[1]:
        return False
    known.append((experiment, epoch, range(row[0], row[0] + row[1]), row[2] < CLOSING))
    return bool(known[-1][3])
