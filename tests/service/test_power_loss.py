"""Power loss: a file layer that keeps only what was forced to the disk. A kill cannot show this."""

from __future__ import annotations

import shutil

import pytest

from discreet.service.database import SQLiteDatabase, StoreError, open_store

from .world import World, likes

apsw = pytest.importorskip("apsw")


class Disk:
    """What would be left of each file: what it held when it was last synced."""

    def __init__(self):
        self.kept, self.deleted = {}, set()

    def folder_synced(self):
        for path in self.deleted:
            self.kept.pop(path, None)

    def synced(self, path):
        with open(path, "rb") as file:
            self.kept[path] = file.read()
        self.deleted.discard(path)

    def after_power_loss(self, folder):
        for path, content in self.kept.items():
            (folder / path.rpartition("/")[2]).write_bytes(content)


class _File(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else name
        super().__init__("", name, flags)

    def xSync(self, flags):
        super().xSync(flags)
        self.disk.synced(self.path)


class _Layer(apsw.VFS):
    def __init__(self, disk, name):
        self.disk = disk
        super().__init__(name, "")

    def xDelete(self, filename, syncdir):
        super().xDelete(filename, syncdir)
        self.disk.deleted.add(filename)
        if syncdir:
            self.disk.folder_synced()

    def xOpen(self, name, flags):
        return _File(self.disk, name, flags)


class _Cursor:
    def __init__(self, connection, sql, values):
        before = connection.total_changes()
        self._rows = list(connection.execute(sql, values))
        self.rowcount = connection.total_changes() - before

    def fetchone(self):
        return self._rows[0] if self._rows else None

    def fetchall(self):
        return self._rows


class _Connection:
    """An apsw connection in the shape that the store uses."""

    def __init__(self, path, layer):
        self._connection = apsw.Connection(str(path), vfs=layer)

    def execute(self, sql, values=()):
        return _Cursor(self._connection, sql, values)

    def executemany(self, sql, rows):
        self._connection.executemany(sql, rows)

    @property
    def in_transaction(self):
        return self._connection.in_transaction

    def close(self):
        self._connection.close()


def after(tmp_path, monkeypatch, synchronous):
    """Acknowledged decisions, and those that are left after a loss of power at some moment."""
    disk = Disk()
    layer = _Layer(disk, f"loses-{synchronous}")
    monkeypatch.setattr(
        SQLiteDatabase, "_connect", lambda self: _Connection(self.path, f"loses-{synchronous}")
    )
    monkeypatch.setattr(SQLiteDatabase, "_sync_folder", lambda _: disk.folder_synced())
    pragmas = [f"synchronous={synchronous}" if "sync" in one else one for one in SQLiteDatabase.PRAGMAS]
    monkeypatch.setattr(SQLiteDatabase, "PRAGMAS", pragmas)
    world = World(f"sqlite:///{tmp_path}/service.db", likes(outcome_wait=3600.0))
    acknowledged, lost = set(), 0
    for number in range(12):
        _, sequence, _ = world.serve()
        assert world.report(sequence, ["item 1"]) == "recorded"
        acknowledged.add(sequence)
        folder = tmp_path / f"after {number}"
        folder.mkdir()
        disk.after_power_loss(folder)
        monkeypatch.undo()
        left = open_store(f"sqlite:///{folder}/service.db")
        try:
            with left.transaction() as tx:
                there = {row[0] for row in tx.all("SELECT sequence FROM outcome")}
        except StoreError:
            there = set()
        left.close()
        shutil.rmtree(folder)
        lost += len(acknowledged - there)
    world.store.close()
    layer.unregister()
    return lost


def test_acknowledged_outcomes_survive_a_loss_of_power(tmp_path, monkeypatch):
    assert after(tmp_path, monkeypatch, "FULL") == 0


def test_the_layer_notices_commits_that_are_not_forced(tmp_path, monkeypatch):
    assert after(tmp_path, monkeypatch, "NORMAL") > 0
