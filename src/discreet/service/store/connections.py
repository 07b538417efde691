"""Connections to PostgreSQL: transactions that are committed, rolled back, or not known to have ended."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import conninfo, errors

from .base import Conflict, StoreError

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

    def locked(self, sql: str, *values: Any) -> list[Any]:
        return self.all(f"{sql} FOR UPDATE", *values)

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
