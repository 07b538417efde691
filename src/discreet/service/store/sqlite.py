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

import msgspec

from .. import failpoints
from ..hands import CLOSING, COLUMNS, DEALT, OPEN
from ..keys import MARK, NOBODY
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


# Rows of a group come as JSON, their marks one after the other. Columns of a row, by number:
_V = [f"json_extract(value, '$[{number}]')" for number in range(7)]
_MARK = f"substr(?2, {MARK} * {_V[0]} + 1, {MARK})"
_PLACE = f"experiment = {_V[1]} AND epoch = {_V[2]}"
_LOOK = f"""
SELECT json_group_array(json_array({_V[0]},
  (SELECT state FROM hand WHERE {_PLACE} AND first <= {_V[3]} AND first + count > {_V[3]}
    ORDER BY first DESC LIMIT 1),
  EXISTS (SELECT 1 FROM outcome WHERE {_PLACE} AND place = {_V[3]}),
  (SELECT times FROM visit WHERE population = {_V[4]} AND period = {_V[5]} AND mark = {_MARK})
)) FROM json_each(?1)
"""
_WRITE = f"""
INSERT INTO outcome (experiment, epoch, place, altered, body, mark)
SELECT {_V[1]}, {_V[2]}, {_V[3]}, {_V[4]}, CAST({_V[5]} AS BLOB), CASE WHEN {_V[6]} THEN {_MARK} END
FROM json_each(?1)
"""
_COUNT = f"""
INSERT INTO visit (population, period, mark, times)
SELECT {_V[1]}, {_V[2]}, {_MARK}, {_V[3]} FROM json_each(?1) WHERE true
ON CONFLICT (population, period, mark) DO UPDATE SET times = excluded.times
"""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[tuple[int, int | None, int, int | None]]).decode


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
        """All of a group in three statements: at each of them, threads take turns."""
        places = [(number, *one[:3], one.population, one.period) for number, one in enumerate(outcomes)]
        marks = b"".join([one.mark for one in outcomes])
        (looked,) = tx.one(_LOOK, _encode(places), marks)
        rows: list[tuple[Any, ...]] = []
        visits: dict[tuple[int, str, bytes], int] = {}
        answers = [DUPLICATE] * len(outcomes)
        taken = set()
        for number, state, there, times in sorted(_decode(looked)):
            one = outcomes[number]
            if there or one[:3] in taken:  # somebody reports twice: the first one counts
                continue
            if state is None or state >= CLOSING:
                answers[number] = LATE
                continue
            answers[number] = RECORDED
            taken.add(one[:3])
            body: str | None = one.body.decode()
            if one.mark != NOBODY:
                whose = (one.population, one.period, one.mark)
                before = visits.get(whose, times or 0)
                visits[whose] = max(before, min(before + 1, one.limit))
                if before >= one.limit:
                    body = None
            rows.append((number, *one[:4], body, one.mark != NOBODY))
        if rows:
            tx.do(_WRITE, _encode(rows), marks)
        if visits:
            counted = [(at, *whose[:2], times) for at, (whose, times) in enumerate(visits.items())]
            tx.do(_COUNT, _encode(counted), b"".join([mark for _, _, mark in visits]))
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

    def scrub(self) -> None:
        with self._turn:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._turn:
            self._connection.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
