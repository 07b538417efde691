"""Backups, restores and checks of a service's store.

A restored backup knows less of the budget than was spent: a service that continued from it would release
again about people about whom the newer state has released. Therefore a restored experiment is frozen for the
rest of the period of the restore, no new experiment begins about its people, open blocks are invalidated, and
the account states what happened.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from .auth import owner_name
from .config import PopulationConfig
from .database import BLOCK, Database, Ended, open_store
from .learning import DecisionBlock
from .worker import (
    ENDED,
    ENDING,
    FROZEN,
    PAUSED,
    PERIODS,
    RESTORED,
    RUNNING,
    Worker,
    audit,
    linked,
    periods_of,
    read_experiment,
)


def backup(url: str, out: str | os.PathLike[str]) -> None:
    """Copy a store, also while a service runs on it, to a new SQLite file that only its owner may read.

    The file appears only when it is complete.
    """
    source, draft = None if _served(url) else _there(url), f"{os.fspath(out)}.{owner_name()}"
    if Path(out).exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(out))
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        if source is None:
            with closing(open_store(url)) as store, closing(open_store(f"sqlite:///{draft}")) as file:
                with store.transaction() as tx:
                    (last,) = tx.one("SELECT max(number) FROM migration")
                file.migrate(last)
                copy(store, file, file)
        else:
            with closing(_opened(source)) as read, closing(sqlite3.connect(draft)) as write:
                read.backup(write)
        os.rename(draft, out)
    finally:
        for beside in ("", "-lock", "-wal", "-shm", "-journal"):
            Path(f"{draft}{beside}").unlink(missing_ok=True)


def _check_backup(saved: str | os.PathLike[str]) -> None:
    """Refuse a file that no service has written: an empty one would be restored as an empty service."""
    try:
        with closing(_opened(_there(f"sqlite:///{saved}"))) as file:
            file.execute("SELECT 1 FROM migration").fetchone()
    except sqlite3.DatabaseError:
        raise ValueError(
            f"{saved} is not a backup of a service: discreet service backup writes one"
        ) from None


def copy(source: Database, target: Database, file: Database) -> None:
    """Copy every row, in one snapshot; ``file`` is the one of the two that is a SQLite file.

    It determines the columns: others keep their defaults. Processes and their leases are left out.
    """
    with file.transaction() as tx:
        rows = tx.all("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        tables = {
            name: [row[1] for row in tx.all(f"PRAGMA table_info({name})")]
            for (name,) in rows
            if name not in ("migration", "process", "lease") and not name.startswith("sqlite_")
        }
    with source.transaction() as read, target.transaction() as write:
        source.hold(read)
        target.hold(write)
        for table, columns in tables.items():
            listed = ", ".join(columns)
            rows = read.all(f"SELECT {listed} FROM {table}")
            marks = ", ".join("?" * len(columns))
            write.many(f"INSERT INTO {table} ({listed}) VALUES ({marks})", rows)
        target.renumber(write)


def restore(url: str, saved: str | os.PathLike[str]) -> list[str]:
    """Make a new store from a backup, and freeze it before it is in place; names of frozen experiments."""
    _check_backup(saved)
    target = None if _served(url) else _file(url)
    for file in (target, Path(f"{target}-wal")):  # the log has commits that are not in the file yet
        if target and file and file.exists():
            raise FileExistsError(f"{file} is there; stop the service, and move {target.name}* away first")
    with tempfile.TemporaryDirectory(dir=target and target.parent) as folder:
        draft = f"{folder}/draft"
        backup(f"sqlite:///{saved}", draft)
        with closing(open_store(f"sqlite:///{draft}")) as copied:
            copied.migrate()  # the backup may be of an earlier version
            frozen = freeze_after_restore(copied)
            with copied.transaction() as tx:
                tx.do("DELETE FROM secrets")  # nobody who is counted from now on was counted before
            if target is None:
                _into_server(copied, url)
        if target is not None:
            os.link(draft, target)
    return frozen


def _into_server(file: Database, url: str) -> None:
    """Copy a file into a database of PostgreSQL that has no populations yet."""
    with closing(open_store(url)) as store:
        store.migrate()
        with store.transaction() as tx:
            if tx.one("SELECT 1 FROM population LIMIT 1") is not None:
                raise FileExistsError("the database has populations; restore into an empty one")
            tx.do("DELETE FROM api_key")  # written when a service started on the empty database
            tx.do("DELETE FROM audit")
        copy(file, store, file)


def _served(url: str) -> bool:
    """Whether a URL is of a database server."""
    return url.startswith(("postgresql://", "postgres://"))


def freeze_after_restore(store: Database, worker: Worker | None = None) -> list[str]:
    """Freeze every experiment of a restored store; call it after restoring PostgreSQL, too.

    Nothing begins in the current period, because what was spent in it is unknown. It may be later than the
    period of the restored state. Open blocks are invalidated: their outcomes could not be learned in this
    period, which may be long. New populations may begin in it, as they may be of other people; their accounts
    state what happened.
    """
    worker = worker or Worker(store)
    with store.transaction() as tx:
        tx.locked("SELECT experiment FROM lease ORDER BY experiment")  # in the order of workers
        tx.locked("SELECT first FROM block ORDER BY experiment, epoch, first")
        tx.locked("SELECT id FROM population ORDER BY id")  # nothing begins meanwhile
        # Workers read experiments again, so that they see the new status before they begin, resume or end.
        store.fence_off(tx, [number for (number,) in tx.all("SELECT id FROM experiment ORDER BY id")])
        tx.do(  # their waiting outcomes are deleted below
            "DELETE FROM private_state WHERE experiment IN (SELECT id FROM experiment WHERE status = ?)",
            ENDING,
        )
        tx.do("UPDATE experiment SET status = ? WHERE status = ?", ENDED, ENDING)
        going = tx.all("SELECT name FROM experiment WHERE status <> ? ORDER BY id", ENDED)
        tx.do("UPDATE experiment SET resumes = 0 WHERE status = ?", PAUSED)
        # Releases since the backup are unknown: used > 0, so that nothing of this period is given back.
        tx.do(
            "UPDATE experiment SET status = ?, used = used + 1 WHERE status IN (?, ?)",
            *(FROZEN, RUNNING, PAUSED),
        )
        for number, config, caveats in tx.all("SELECT id, config, caveats FROM population ORDER BY id"):
            now = worker.latest(tx, number, PopulationConfig.read(config))
            said = json.dumps(list(dict.fromkeys([*json.loads(caveats), RESTORED])))
            tx.do("UPDATE population SET frozen = ?, caveats = ? WHERE id = ?", now, said, number)
        periods = [(worker.clock().strftime(name),) for name in PERIODS.values()]
        tx.many("INSERT INTO restored VALUES (?) ON CONFLICT DO NOTHING", periods)
        for table in ("outcome", "block", "request"):
            tx.do(f"DELETE FROM {table}")
        audit(tx, "restored a backup")
    store.scrub()
    worker.forget_all()
    return [name for (name,) in going]


def verify(store: Database) -> list[str]:
    """Check a store's chains of releases, states and charges; returns the problems found."""
    wrong = []
    with store.transaction() as tx:
        rows_of = tx.all("SELECT id, name, seq, chain, status FROM experiment ORDER BY id")
        populations = tx.all("SELECT id, name FROM population ORDER BY id")
        for number, name, seq, chain, status in rows_of:
            link = linked(b"", f"experiment {number}")
            rows = tx.all("SELECT seq, payload, chain FROM release WHERE experiment = ? ORDER BY seq", number)
            for position, (one, payload, stored) in enumerate(rows, 1):
                link = linked(link, payload) if isinstance(payload, str) else b""
                if one != position or bytes(stored) != link:
                    wrong.append(f"{name}: release {one} is not what was released")
                    break
            if len(rows) != seq or bytes(chain) != link:
                wrong.append(f"{name}: its releases are not those that it was left with")
            state = tx.one("SELECT seq FROM private_state WHERE experiment = ? AND segment = ''", number)
            if status == ENDED and state is not None:
                wrong.append(f"{name}: it has ended, and its state is still there")
            elif status != ENDED and (state is None or state[0] != seq):
                wrong.append(f"{name}: its state is not that of its last release")
            if tx.one("SELECT count(*) FROM charge WHERE experiment = ?", number)[0] == 0:
                wrong.append(f"{name}: nothing was charged for it")
            try:
                read_experiment(tx, number)
            except Ended:
                pass
            except Exception:  # whatever is in there
                wrong.append(f"{name}: its state cannot be read, or was not charged for")
            try:
                for row in tx.all(f"SELECT {BLOCK} FROM block WHERE experiment = ?", number):
                    DecisionBlock.read(row)
            except Exception:
                wrong.append(f"{name}: a block cannot be read")
    for number, name in populations:
        try:
            periods = periods_of(store, number)
            most = periods.budget.epsilon
            over = [period for period in periods.names if periods.account(period).epsilon() > most]
        except Exception:
            over = ["some period"]  # a gate refuses charges beyond the budget, and unreadable ones
        wrong += [f"{name}: more was spent in {period} than allowed" for period in over]
    return wrong


def verify_url(url: str) -> tuple[list[str], dict[str, int]]:
    """`verify` the existing store of a URL that is not in use; the problems, and row counts by table."""
    if url.startswith("sqlite:///") and not _whole(_there(url)):
        return ["the file is damaged, or no store"], {}
    with closing(open_store(url)) as store:
        with store.transaction() as tx:
            tables = ("population", "experiment", "release", "charge")
            seen = {one: int(tx.one(f"SELECT count(*) FROM {one}")[0]) for one in tables}
        return verify(store), seen


def _whole(file: Path) -> bool:
    """Whether a file is a store in SQLite without damaged pages."""
    try:
        with closing(_opened(file)) as database:
            database.execute("SELECT 1 FROM experiment LIMIT 1")
            return [*database.execute("PRAGMA integrity_check")] == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def _opened(file: Path) -> sqlite3.Connection:
    """A SQLite file for reading; a URI with escapes, as "?" and "#" in its name would end the path."""
    return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)


def _there(url: str) -> Path:
    """The SQLite file of a URL, which must exist."""
    if not (found := _file(url)).exists():
        raise FileNotFoundError(f"there is no {found}")
    return found


def _file(url: str) -> Path:
    if "://" in url and not url.startswith("sqlite:///"):
        raise ValueError(f"{url.partition(':')[0]} is not a kind of store; see the operations page")
    return Path(url.removeprefix("sqlite:///")).resolve()
