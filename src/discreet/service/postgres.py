"""The service in PostgreSQL: any number of processes serve, one at a time keeps an experiment.

Every time is the database's. A process is believed to live for `PostgresStore.patience` seconds after its
last `beat`. When that is over, others close its blocks and take over its experiments. It may wake up again:
every transaction of a worker locks the row of its lease and checks the number in it, and a process that was
taken for dead goes on under another name.

Locks are taken in one order, so that nobody waits in a circle. Groups lock their blocks (KEY SHARE: any
number of groups at once), then write requests, people and outcomes, each in the order of their key. A worker
locks its lease, then the blocks that it closes (UPDATE, in the same order: it waits for groups in flight, and
later groups wait for it and find the blocks closed). Whoever erases or freezes locks leases first, too. How
far blocks were served is written by their owner alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import conninfo, errors

from .blocks import ALLOCATED, COLUMNS, OPEN
from .database import Conflict, Fenced, Store, StoreError, Transaction, migrations, statements

Connection = psycopg.Connection[tuple[Any, ...]]

# Of each session. Statements see what was committed before them, and a commit is on the disk when it returns.
# Whoever stops in the middle of a transaction has to let go of its locks.
_SET = """
SELECT set_config('default_transaction_isolation', 'read committed', false),
  set_config('statement_timeout', '30s', false), set_config('lock_timeout', '5s', false),
  set_config('idle_in_transaction_session_timeout', '5s', false),
  CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
    THEN set_config('synchronous_commit', 'on', false) END
"""
# Unless the URL says otherwise: a server that has gone away is noticed.
_NETWORK = {
    "application_name": "discreet",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
NOW = "extract(epoch FROM clock_timestamp())::float8"


@lru_cache(maxsize=1024)
def translated(sql: str) -> str:
    """A statement with ``?`` for values, as this driver takes it."""
    return sql.replace("%", "%%").replace("?", "%s")


class PostgresTransaction:
    """Statements on one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def one(self, sql: str, *values: Any) -> Any:
        return self.connection.execute(translated(sql), values).fetchone()

    def all(self, sql: str, *values: Any) -> list[Any]:
        return self.connection.execute(translated(sql), values).fetchall()

    def locked(self, sql: str, *values: Any, strength: str = "UPDATE") -> list[Any]:
        return self.all(f"{sql} FOR {strength}", *values)

    def do(self, sql: str, *values: Any) -> int:
        return self.connection.execute(translated(sql), values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(translated(sql), rows)

    def now(self) -> float:
        return float(self.one(f"SELECT {NOW}")[0])


class Pool:
    """At most ``size`` connections, opened when they are needed and again when they were cut."""

    def __init__(self, url: str, size: int) -> None:
        self._given: dict[str, Any] = {**_NETWORK, **conninfo.conninfo_to_dict(url)}
        self._idle: list[Connection] = []
        self._free = threading.BoundedSemaphore(size)
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Commits when it is left, and is rolled back by an exception."""
        with self._free:
            connection = self._begun()
            try:
                yield PostgresTransaction(connection)
            except psycopg.Error as error:
                self._roll_back(connection)
                raise _told(error) from error
            except BaseException:
                self._roll_back(connection)
                raise
            self._commit(connection)

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """A connection for statements that no transaction may hold."""
        with self._free:
            connection = self._begun()
            try:
                connection.execute("COMMIT")
                yield connection
            except psycopg.Error as error:
                connection.close()
                raise _told(error) from error
            self._give_back(connection)

    def close(self) -> None:
        """Let go of them, as soon as nobody uses them."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _give_back(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _begun(self) -> Connection:
        """A connection in a new transaction; one that was cut while nobody used it is replaced."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            try:
                connection.execute("BEGIN")
                return connection
            except psycopg.Error:
                connection.close()
        try:
            connection = psycopg.connect(**self._given, autocommit=True)
        except psycopg.Error as error:
            raise _told(error) from error
        try:
            connection.execute(_SET)
            connection.execute("BEGIN")
        except psycopg.Error as error:
            connection.close()
            raise _told(error) from error
        return connection

    def _roll_back(self, connection: Connection) -> None:
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
            self._give_back(connection)
            return
        connection.close()

    def _commit(self, connection: Connection) -> None:
        try:
            done = connection.execute("COMMIT").statusmessage
        except psycopg.Error as error:
            connection.close()
            raise StoreError("nobody knows whether the transaction was committed") from error
        self._give_back(connection)
        if done != "COMMIT":
            raise StoreError("the transaction was rolled back")


def _told(error: psycopg.Error) -> Exception:
    """What the service makes of an error; its text quotes no values."""
    if isinstance(error, psycopg.IntegrityError):
        return Conflict(f"the database refused a row: {type(error).__name__}")
    if isinstance(error, psycopg.DataError):
        return ValueError("the database cannot hold such a value")
    if isinstance(error, psycopg.ProgrammingError) and not isinstance(error, errors.InsufficientPrivilege):
        return error
    return StoreError(f"the database cannot be reached or written to: {type(error).__name__}")


_DIALECT = {
    "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "bytes": "BYTEA",
    "clustered": "",
}
_MIGRATING = 0x64697363  # the number of an advisory lock
_READERS = 8  # connections at once, beside those that write outcomes and tell that the process lives
_ASK_AGAIN = 0.5  # seconds after which it is asked again whether a lease is free
_SCRUB = 60.0  # seconds between two scrubs


class PostgresStore(Store):
    """Separate connections write outcomes, tell that the process lives, and do the rest."""

    patience = 10.0

    def __init__(self, url: str) -> None:
        self.url = url
        self._writer, self._life, self._rest = Pool(url, 1), Pool(url, 1), Pool(url, _READERS)
        self._leases: dict[int, tuple[str, int | None, float]] = {}  # holder, fence, when it was asked for
        self._leased: dict[tuple[int, int, str, str], Any] = {}  # perhaps: nobody knows if it was committed
        self._scrubbed, self._unscrubbed = -_SCRUB, False

    def migrate(self) -> int:
        with self.transaction() as tx:
            tx.do("SET LOCAL lock_timeout = '60s'")
            tx.do("SET LOCAL statement_timeout = 0")
            tx.do("SELECT pg_advisory_xact_lock(?)", _MIGRATING)
            tx.do(
                "CREATE TABLE IF NOT EXISTS migration"
                " (number BIGINT PRIMARY KEY, at DOUBLE PRECISION NOT NULL)"
            )
            last = int(tx.one("SELECT coalesce(max(number), 0) FROM migration")[0])
            for number, script in migrations():
                if number > last:
                    for statement in statements(script.format(**_DIALECT)):
                        tx.do(statement)
                    tx.do("INSERT INTO migration VALUES (?, ?)", number, tx.now())
                    last = number
            return last

    def transaction(self) -> AbstractContextManager[PostgresTransaction]:
        return self._rest.transaction()

    def writing(self) -> AbstractContextManager[PostgresTransaction]:
        return self._writer.transaction()

    # --- blocks -----------------------------------------------------------------------------------

    def lease_block(self, experiment: int, epoch: int, owner: str, segment: str = "") -> Any:
        key = (experiment, epoch, owner, segment)
        row = None
        try:
            with self._writer.transaction() as tx:
                if (perhaps := self._leased.get(key)) is not None and tx.locked(
                    "SELECT 1 FROM block WHERE experiment = ? AND epoch = ? AND first = ? AND owner = ?"
                    f" AND state = {OPEN} AND closed_at IS NULL",
                    *(*perhaps[:3], owner),
                ):
                    row = perhaps
                elif tx.one("SELECT 1 FROM process WHERE name = ? FOR KEY SHARE", owner):
                    row = tx.one(
                        f"UPDATE block SET state = {OPEN}, owner = ? WHERE experiment = ? AND epoch = ?"
                        " AND first = (SELECT first FROM block WHERE experiment = ? AND epoch = ?"
                        f" AND segment = ? AND state = {ALLOCATED}"
                        " ORDER BY first LIMIT 1 FOR UPDATE SKIP LOCKED)"
                        f" RETURNING {COLUMNS}",
                        *(owner, experiment, epoch, experiment, epoch, segment),
                    )
        except StoreError:
            if row is not None:
                self._leased[key] = row
            raise
        self._leased.pop(key, None)
        return row

    def scrub(self) -> None:
        """Give back the space of deleted outcomes; once a minute.

        Pages with nothing else at the end of the table are cut off. Beside outcomes that stay, bytes are
        there until others are written over them; ``VACUUM FULL`` would end that, and make all groups wait.
        The write-ahead log and its archives keep copies until they are recycled:
        docs/service/operations.md.
        """
        self._unscrubbed = True
        if time.monotonic() - self._scrubbed >= _SCRUB:
            self._scrubbed, self._unscrubbed = time.monotonic(), False
            with self._rest.alone() as connection:
                connection.execute("VACUUM outcome")

    def close(self) -> None:
        for pool in (self._writer, self._life, self._rest):
            pool.close()

    # --- processes -------------------------------------------------------------------------------

    def beat(self, owner: str, *, new: bool = False) -> bool:
        with self._life.transaction() as tx:
            if new:
                tx.do(f"INSERT INTO process (name, until) VALUES (?, {NOW} + ?)", owner, self.patience)
                return True
            return bool(tx.do(f"UPDATE process SET until = {NOW} + ? WHERE name = ?", self.patience, owner))

    def leave(self, owner: str) -> None:
        with self._life.transaction() as tx:
            tx.do("DELETE FROM process WHERE name = ?", owner)

    def recover(self, owner: str) -> None:  # noqa: ARG002
        with self.transaction() as tx:
            tx.do(
                "DELETE FROM process WHERE name IN"
                f" (SELECT name FROM process WHERE until < {NOW} FOR UPDATE SKIP LOCKED)"
            )
        with self.transaction() as tx:  # whoever has a block in its name was there before it leased that
            tx.do(
                f"UPDATE block SET closed_at = {NOW} WHERE (experiment, epoch, first) IN"
                f" (SELECT experiment, epoch, first FROM block WHERE state = {OPEN} AND closed_at IS NULL"
                " AND NOT EXISTS (SELECT 1 FROM process WHERE name = block.owner)"
                " ORDER BY experiment, epoch, first FOR NO KEY UPDATE SKIP LOCKED)"
            )
        if self._unscrubbed:  # this is asked for every few seconds
            self.scrub()

    # --- workers ---------------------------------------------------------------------------------

    def lease(self, experiment: int, holder: str, *, force: bool = False) -> int | None:
        known = self._leases.get(experiment)
        now = time.monotonic()
        if known is not None and known[0] == holder:
            if known[1] is not None and not force:
                return known[1]  # every transaction checks it
            if now - known[2] < _ASK_AGAIN and not force:
                return None
        with self.transaction() as tx:
            fence = self._lease(tx, experiment, holder, force)
        self._leases[experiment] = (holder, fence, now)
        return fence

    def _lease(self, tx: PostgresTransaction, experiment: int, holder: str, force: bool) -> int | None:
        tx.do(
            "INSERT INTO lease (experiment, holder, fence) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
            *(experiment, holder),
        )
        ((other, fence),) = tx.locked("SELECT holder, fence FROM lease WHERE experiment = ?", experiment)
        if other == holder:
            return int(fence)
        if not force and tx.one(f"SELECT 1 FROM process WHERE name = ? AND until >= {NOW}", other):
            return None
        tx.do("UPDATE lease SET holder = ?, fence = ? WHERE experiment = ?", holder, fence + 1, experiment)
        return int(fence) + 1

    def check_fence(self, tx: Transaction, experiment: int, holder: str, fence: int) -> None:
        if tx.locked("SELECT holder, fence FROM lease WHERE experiment = ?", experiment) != [(holder, fence)]:
            self._leases.pop(experiment, None)
            raise Fenced("another worker has taken over")
