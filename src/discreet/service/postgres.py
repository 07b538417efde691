"""The service on PostgreSQL: any number of processes serve, and one at a time works for an experiment.

All times are by the database's clock. A process counts as alive for `PostgresDatabase.patience` seconds after
its last `beat`. After that, others close its blocks and take over its experiments. If it wakes up again, it
does no harm: every transaction of a worker locks its lease's row and checks the fence in it, and a process
that was declared dead continues under another name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any, ClassVar

import psycopg
from psycopg import conninfo, errors

from .database import Conflict, Database, Lane, StoreError, Transaction

Connection = psycopg.Connection[tuple[Any, ...]]

# Settings of each session. Statements see what was committed before them, and a commit is on the disk when it
# returns. A client that stops in the middle of a transaction loses its locks.
_SET = """
SELECT set_config('default_transaction_isolation', 'read committed', false),
  set_config('statement_timeout', '30s', false), set_config('lock_timeout', '5s', false),
  set_config('idle_in_transaction_session_timeout', '5s', false),
  CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
    THEN set_config('synchronous_commit', 'on', false) END
"""
# Defaults that the URL can override: a lost connection to the server is noticed.
_NETWORK = {
    "application_name": "discreet",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_MIGRATING = 0x64697363  # the number of an advisory lock
_READERS = 8  # connections at once, in addition to those for groups and for the process's own lease
_SCRUB = 60.0  # seconds between two scrubs


@lru_cache(maxsize=1024)
def translated(sql: str) -> str:
    """A statement with ``?`` for values, in the driver's syntax."""
    return sql.replace("%", "%%").replace("?", "%s")


class PostgresTransaction(Transaction):
    """Statements on one connection."""

    def execute(self, sql: str, values: Sequence[Any]) -> Any:
        return self.connection.execute(translated(sql), values)

    def locked(self, sql: str, *values: Any, strength: str = "UPDATE") -> list[Any]:
        return self.all(f"{sql} FOR {strength}", *values)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        if not (rows := list(rows)):
            return
        with self.connection.cursor() as cursor:
            cursor.executemany(translated(sql), rows)
        # A pipeline stops the server's idle timer of the transaction; another statement starts it again.
        self.connection.execute("SELECT 1")

    def now(self) -> float:
        return float(self.one("SELECT extract(epoch FROM clock_timestamp())::float8")[0])


class ConnectionPool:
    """At most ``size`` connections, opened when needed, and again after they are lost."""

    def __init__(self, url: str, size: int) -> None:
        try:
            self._given: dict[str, Any] = {**_NETWORK, **conninfo.conninfo_to_dict(url)}
        except psycopg.ProgrammingError:  # its text quotes the URL, which may have a password
            raise ValueError(
                "store must be like postgresql://USER@HOST/NAME, with other signs than letters and digits"
                " of a password written as %40 for @, and so on"
            ) from None
        self._idle: list[Connection] = []
        self._free = threading.BoundedSemaphore(size)
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """A transaction that is committed at the end, and rolled back by an exception."""
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

    def alone(self, statement: str) -> None:
        """Execute a statement that cannot run in a transaction."""
        with self._free:
            connection = self._begun()
            try:
                connection.execute("COMMIT")
                connection.execute(statement)
            except psycopg.Error as error:
                connection.close()
                raise _told(error) from error
            self._give_back(connection)

    def close(self) -> None:
        """Close idle connections now, and others once they are not in use."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _give_back(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _begun(self) -> Connection:
        """A connection in a new transaction; idle connections that were lost are replaced."""
        while (connection := self._popped()) is not None:
            try:
                connection.execute("BEGIN")
                return connection
            except psycopg.Error:
                connection.close()
        try:
            connection = psycopg.connect(**self._given, autocommit=True)
        except psycopg.OperationalError as error:  # about hosts, databases and roles, without people's data
            raise StoreError(f"the database cannot be reached: {' '.join(str(error).split())}") from error
        except psycopg.Error as error:
            raise _told(error) from error
        try:
            connection.execute(_SET)
            connection.execute("BEGIN")
        except psycopg.Error as error:
            connection.close()
            raise _told(error) from error
        return connection

    def _popped(self) -> Connection | None:
        with suppress(IndexError):  # other threads take them at the same time
            return self._idle.pop()
        return None

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
            raise StoreError("it is unknown whether the transaction was committed") from error
        self._give_back(connection)
        if done != "COMMIT":
            raise StoreError("the transaction was rolled back")


def _told(error: psycopg.Error) -> Exception:
    """The service's exception for an error of the driver, whose text quotes no values."""
    if isinstance(error, psycopg.IntegrityError):
        return Conflict(f"the database refused a row: {type(error).__name__}")
    if isinstance(error, psycopg.DataError):
        return ValueError("the database cannot hold such a value")
    if isinstance(error, psycopg.ProgrammingError) and not isinstance(error, errors.InsufficientPrivilege):
        return error
    return StoreError(f"the database cannot be reached or written to: {type(error).__name__}")


class PostgresDatabase(Database):
    """A database with separate connections for groups, for the process's lease, and for everything else."""

    patience = 10.0
    dialect: ClassVar = {
        "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "clustered": "",
    }

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.pools = {
            "groups": ConnectionPool(url, 1),
            "process": ConnectionPool(url, 1),
            "any": ConnectionPool(url, _READERS),
        }
        self._scrubbed, self._unscrubbed = -_SCRUB, False

    def transaction(self, lane: Lane = "any") -> AbstractContextManager[PostgresTransaction]:
        return self.pools[lane].transaction()

    def _lock_tables(self, tx: Transaction) -> None:
        tx.do("SET LOCAL lock_timeout = '60s'")
        tx.do("SET LOCAL statement_timeout = 0")
        tx.do("SELECT pg_advisory_xact_lock(?)", _MIGRATING)

    def recover(self, owner: str) -> None:
        super().recover(owner)
        if self._unscrubbed:  # `recover` is called every few seconds
            self.scrub()

    def scrub(self) -> None:
        """Free the space of what was deleted of people and of replaced states, at most once a minute.

        Empty pages at the end of a table are truncated. In other pages the bytes remain until they are
        overwritten; ``VACUUM FULL`` would remove them, but block all groups. The write-ahead log and its
        archives keep copies until they are recycled: docs/service/operations.md.
        """
        self._unscrubbed = True
        if time.monotonic() - self._scrubbed >= _SCRUB:
            self._scrubbed, self._unscrubbed = time.monotonic(), False
            try:
                self.pools["any"].alone("VACUUM outcome, private_state, visit, erased, request")
            except StoreError:
                self._unscrubbed = True

    def hold(self, tx: Transaction) -> None:
        tx.do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            tx.do(f"SET LOCAL {limit} = 0")

    def renumber(self, tx: Transaction) -> None:
        for table in ("population", "experiment", "audit"):
            tx.do(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'),"
                f" (SELECT coalesce(max(id), 0) + 1 FROM {table}), false)"
            )

    def close(self) -> None:
        for pool in self.pools.values():
            pool.close()
