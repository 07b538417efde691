"""Backups fork budgets: what a restore freezes, what is noticed, and what a check finds."""

from __future__ import annotations

import datetime
import re
import shutil
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest

from discreet.cli import main
from discreet.client import Client
from discreet.service import backup, database, queries, web
from discreet.service.auth import Keys, Secrets
from discreet.service.config import PopulationConfig, ServiceSettings
from discreet.service.database import Fenced, Frozen, StoreError, open_store
from discreet.service.engine import DecisionEngine
from discreet.service.learning import Learning
from discreet.service.worker import FROZEN, periods_of

from .test_api import experiment, refused, settled
from .world import ITEMS, World, likes


def busy(world, rounds=40):
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        _, sequence, _ = world.serve()
        world.report(sequence, [ITEMS[i] for i in np.flatnonzero(rng.random(12) < 0.3)])
        world.settle()


def test_a_restored_service_is_frozen_until_its_budget_renews(tmp_path):
    url = f"sqlite:///{tmp_path}/service.db"
    world = World(url, likes(seed=None))
    busy(world)
    assert main(["service", "backup", str(tmp_path / "saved"), "--store", url]) == 0
    assert (tmp_path / "saved").stat().st_mode & 0o077 == 0
    busy(world)
    world.store.close()
    for path in tmp_path.glob("service.db*"):
        path.unlink()
    assert main(["service", "restore", str(tmp_path / "saved"), "--store", url]) == 0
    world.open()
    assert world.one.status == FROZEN
    assert not world.worker.due()
    assert not world.rows("SELECT * FROM outcome")
    with pytest.raises(Frozen):
        world.worker.set_status(world.shop, "running")
    assert "restored from a backup" in str(periods_of(world.store, 1).account("2026-11"))
    world.now = world.now.replace(year=2104)
    world.settle()
    assert world.one.status == "running"
    assert [one["epoch"] for one in queries.epochs(world.store, "shop")] == [world.one.epoch, 0]
    assert world.serve()[2]
    world.store.close()


def test_a_backup_of_an_earlier_period_spends_nothing_of_this_one_again(url):
    """What was lost may have spent this period's budget: no epoch begins in it, and no experiment."""
    days = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp", period="day")
    world = World(url, likes(seed=None, share=0.5), days)
    busy(world, 10)
    before, world.now = world.now, datetime.datetime.now(datetime.UTC)
    assert world.now.date() > before.date()
    backup.freeze_after_restore(world.store)
    world.worker.forget(world.shop)
    assert not world.worker.due()
    assert not world.worker.tick(world.shop)
    assert (world.one.status, world.one.epoch) == (FROZEN, 0)
    with pytest.raises(Frozen):
        world.worker.create("another", "people", likes(seed=None, share=0.5))
    with pytest.raises(Frozen):
        world.worker.change_items(world.shop, ["new"], [])
    world.now = world.now.replace(year=2104)
    world.settle()
    assert world.one.status == "running"
    world.blocks = []
    sequence = world.serve()[1]  # what was lost may have had the next epoch, and such a decision
    assert world.report(sequence, ["item 1"], epoch=1) == "late"
    assert world.report(sequence, ["item 1"]) == "recorded"
    world.worker.create("another", "people", likes(seed=None, share=0.5))


def test_nothing_goes_on_before_the_period_after_a_restore_by_any_clock(url):
    """One that is behind goes on in a period that was lost, and one that was ahead in the frozen one."""
    backup_of, restored_at = (datetime.datetime(2026, month, 1, tzinfo=datetime.UTC) for month in (11, 12))
    world = World(url, likes(seed=None, share=0.4))
    world.worker.create("paused", "people", likes(seed=None, share=0.4))
    world.worker.set_status(2, "paused")
    world.now = restored_at.replace(year=2027)
    backup.freeze_after_restore(world.store, world.worker)
    world.now = restored_at
    assert not world.worker.due()
    assert not world.worker.tick(world.shop)
    with pytest.raises(Frozen):
        world.worker.create("another", "people", likes(seed=None, share=0.1))
    world.worker.create_population("new", PopulationConfig(epsilon=1.0))
    assert "restored from a backup" in world.rows("SELECT caveats FROM population WHERE id = 2")[0][0]
    world.now = restored_at.replace(year=2028)
    world.worker.tick(2)
    assert world.rows("SELECT status FROM experiment WHERE id = 2") == [("paused",)]
    for now in (backup_of, restored_at.replace(year=2027)):
        world.now = now
        with pytest.raises(Frozen):
            world.worker.set_status(2, "running")
    world.now = restored_at.replace(year=2028)
    world.worker.set_status(2, "running")
    assert world.rows("SELECT period FROM experiment ORDER BY id") == [("2026-11",), ("2028-12",)]


def begin(world):
    world.worker.create("other", "people", likes(share=0.4))


def renew(world):
    world.now = datetime.datetime(2026, 12, 3, tzinfo=datetime.UTC)
    world.worker.tick(world.shop)


def resume(world):
    world.worker.set_status(world.shop, "paused")
    world.now = datetime.datetime(2026, 12, 3, tzinfo=datetime.UTC)
    world.worker.set_status(world.shop, "running")


@pytest.mark.parametrize("step", [begin, renew, resume])
def test_what_begins_while_it_is_noticed_that_the_state_went_back_does_not(url, monkeypatch, step):
    """It was read before everything was frozen, and is written after."""
    world, learner = World(url, likes(share=0.4)), Learning.begin

    def noticed(*given):
        with monkeypatch.context() as patch:
            patch.setattr(Learning, "begin", learner)
            assert backup.freeze_after_restore(world.store) == ["shop"]
        return learner(*given)

    monkeypatch.setattr(Learning, "begin", noticed)
    with pytest.raises(Fenced):
        step(world)
    assert world.rows("SELECT name, status, epoch FROM experiment") == [("shop", FROZEN, 0)]
    assert backup.RESTORED in world.rows("SELECT caveats FROM population")[0][0]


@pytest.mark.parametrize("ask", [lambda worker: worker.set_status(1, "paused"), lambda worker: worker.end(1)])
def test_another_process_hears_of_it_before_it_does_what_an_operator_asks_for(postgres_url, ask):
    """It works for the experiment, and has not looked since: nothing is given back, and nothing goes on."""
    world = World(postgres_url, likes())
    assert world.worker.tick(world.shop) is False
    with closing(open_store(postgres_url)) as other:
        backup.freeze_after_restore(other)
    with suppress(Frozen):
        assert ask(world.worker) == ("ended", False)
    assert world.rows("SELECT status FROM experiment WHERE status NOT IN (?, 'ended')", FROZEN) == []
    assert not world.rows("SELECT * FROM charge WHERE void = 1")


def test_what_was_open_is_invalidated_where_a_backup_was_restored(url):
    """Nobody hears "recorded" of what will not be learned, and no raw outcome waits for the next period."""
    world = World(url, likes(seed=None, share=0.5, outcome_wait=3600.0))
    sequences = [world.serve()[1] for _ in range(2)]
    assert world.report(sequences[0], ["item 1"]) == "recorded"
    other = world.worker.create("other", "people", likes(seed=None, share=0.5)).id
    engine = DecisionEngine(world.store, Secrets.fresh(), calendar=lambda: world.now)
    engine._check_late(world._outcome(sequences[1], ["item 1"]))
    assert world.one.status == "running"
    engine._check_late(world._outcome(10_000, ["item 1"]))  # as if this store had made it, and lost it
    world.worker.forget_all()
    assert [world.worker.experiment(one).status for one in (world.shop, other)] == [FROZEN] * 2
    assert backup.RESTORED in str(periods_of(world.store, 1).account("2026-11"))
    assert not world.rows("SELECT * FROM outcome")
    assert world.report(sequences[1], ["item 1"]) == "late"


def test_a_state_that_went_back_unseen_is_noticed_by_a_decision(service):
    """Somebody copies the file back without telling: a decision from the future freezes the experiment."""
    client = service.client()
    experiment(client, "shop", outcome_wait=0.0)
    for _ in range(20):
        client.report(client.decide("shop"), likes=["item 1"])
    settled(client, "shop", 1)
    service.stop()
    with put_back(service) as client:
        for _ in range(200):
            last = client.decide("shop")
    client = service.client()
    assert client.report(last, likes=["item 1"]).status == "late"
    assert client.request("GET", "/v1/experiments/shop")["status"] == "frozen"
    assert refused(lambda: client.request("POST", "/v1/experiments/shop/resume")).name == "frozen"
    change = {"add_items": ["new"]}
    assert refused(lambda: client.request("PATCH", "/v1/experiments/shop", change)).name == "frozen"


def test_what_was_lost_is_in_nobody_elses_round(service):
    """The older state had the block allocated, and serves it to others: a lease tells the two apart."""
    client = service.client()
    experiment(client, "shop", outcome_wait=300.0, block_size=16)
    client.decide("shop")
    service.stop()
    with put_back(service) as client:
        lost = [client.decide("shop") for _ in range(10)]
    client = service.client()
    served = [client.decide("shop") for _ in range(10)]
    assert client.report(served[0], likes=["item 1"]).status == "recorded"
    assert client.report(lost[1], likes=["item 1"]).status == "late"
    assert client.request("GET", "/v1/experiments/shop")["status"] == "frozen"


def test_a_token_of_an_experiment_that_was_lost_is_of_none_that_has_its_number(service):
    """Somebody would count under the pseudonyms of two populations."""
    client = service.client()
    experiment(client, "shop")
    service.stop()
    with put_back(service) as client:
        experiment(client, "lost", anonymous=False)
        token = client.token("lost", "ann")
    service.stop()
    with closing(open_store(f"sqlite:///{service.folder}/service.db")) as store:
        backup.freeze_after_restore(store)
    service.start()
    experiment(service.client(), "new", anonymous=False)
    ann = Client(service.url, token, timeout=60.0, retries=0)
    assert refused(lambda: ann.decide("new")).name == "token"


def test_a_decision_of_an_experiment_that_was_lost_freezes_the_others(service):
    client = service.client()
    experiment(client, "shop")
    service.stop()
    with put_back(service) as client:
        experiment(client, "news")
        lost = client.decide("news")
    client = service.client()
    assert refused(lambda: client.report(lost, likes=["item 1"])).name == "decision"
    assert client.request("GET", "/v1/experiments/shop")["status"] == "frozen"


@contextmanager
def put_back(service):
    """Run a stopped service for a while; then its file is as it was before."""
    old = service.folder / "old"
    shutil.copy(service.folder / "service.db", old)
    service.start()
    yield service.client()
    service.stop()
    for path in service.folder.glob("service.db-*"):
        path.unlink()
    shutil.copy(old, service.folder / "service.db")
    service.start()


@pytest.mark.parametrize("now", ["ended", "paused", "running"])
def test_what_was_lost_is_late_and_freezes_nothing_again(url, now):
    """Else one outcome of a lost decision, sent in any later period, would freeze everything in that one."""
    world = World(url, likes(share=0.5))
    if now == "paused":
        world.worker.set_status(world.shop, "paused")
    lost = world.one.next_sequence
    backup.freeze_after_restore(world.store, world.worker)
    if now == "ended":
        world.worker.end(world.shop)
    world.now = world.now.replace(month=12)
    while due := world.worker.due():
        world.worker.tick(*due)
    assert world.rows("SELECT status FROM experiment") == [(now,)]
    assert not world.worker.beyond(world.shop, 0, lost)


def test_what_is_made_again_after_a_restore_says_so_and_has_a_number_of_its_own(url):
    world = World(url, likes(seed=None))
    backup.freeze_after_restore(world.store, world.worker)
    world.worker.create_population("again", PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp"))
    again = world.worker.create("news", "again", likes(seed=None))
    assert again.epoch == int(world.now.timestamp())
    assert "restored from a backup" in str(periods_of(world.store, again.population).account("2026-11"))
    assert not world.worker.beyond(again.id, 0, 3)  # of one that was lost: late, and nothing more
    assert not world.worker.beyond(again.id + 1, 0, 0)
    world.now = world.now.replace(year=2104)
    world.worker.create_population("later", PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp"))
    later = world.worker.create("late news", "later", likes(seed=None))
    assert "restored" not in str(periods_of(world.store, later.population).account("2104-11"))
    world.store.close()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE release SET payload = '{}' WHERE seq = 1", "is not what was released"),
        ("DELETE FROM release WHERE seq = (SELECT max(seq) FROM release)", "not those that it was left with"),
        ("UPDATE private_state SET seq = seq - 1", "not that of its last release"),
        ("DELETE FROM charge", "nothing was charged"),
        ("UPDATE charge SET count = '900'", "more was spent"),
        ("UPDATE charge SET count = '0'", "was not charged for"),
        ("UPDATE private_state SET body = x'00'", "its state cannot be read"),
        ("UPDATE block SET body = x'00'", "a block cannot be read"),
        ("UPDATE release SET payload = x'00' WHERE seq = 1", "is not what was released"),
    ],
)
def test_verify_finds_what_was_altered(tmp_path, capsys, sql, words):
    url = f"sqlite:///{tmp_path}/service.db"
    world = World(url, likes(seed=None))
    busy(world, 20)
    world.store.close()
    assert main(["service", "verify", "--store", url]) == 0
    store = open_store(url)
    with store.transaction() as tx:
        tx.do(sql)
    assert any(words in one for one in backup.verify(store))
    store.close()
    assert main(["service", "verify", "--store", url]) == 2
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("name", ["shop #1.db", "what?.db", "100%41.db"])
def test_a_backup_is_of_its_store_whatever_that_is_called(tmp_path, name):
    world = World(f"sqlite:///{tmp_path}/{name}", likes())
    world.store.close()
    backup.backup(world.url, tmp_path / f"saved {name}")
    assert all(path.name.removeprefix("saved ").startswith(name) for path in tmp_path.iterdir())
    assert backup.restore(f"sqlite:///{tmp_path}/new {name}", tmp_path / f"saved {name}") == ["shop"]


def test_backup_takes_no_file_that_is_there(tmp_path):
    url = f"sqlite:///{tmp_path}/service.db"
    World(url, likes(seed=None)).store.close()
    (tmp_path / "there").write_text("something")
    assert main(["service", "backup", str(tmp_path / "there"), "--store", url]) == 2
    assert main(["service", "restore", str(tmp_path / "there"), "--store", url]) == 2
    assert main(["service", "backup", "--store", url]) == 2
    two = [str(tmp_path / name) for name in ("one", "two")]
    assert main(["service", "backup", *two, "--store", url]) == 2
    assert not (tmp_path / "one").exists()
    assert (tmp_path / "there").read_text() == "something"


def test_a_backup_that_failed_leaves_nothing_and_nothing_else_is_restored(tmp_path, capsys, url):
    """An empty file would be taken for a backup, and restored as a service without anything."""
    gone = re.sub(r"@/\w+\?", "@/elsewhere?", url) if "postgres" in url else f"sqlite:///{tmp_path}/none.db"
    saved = tmp_path / "saved"
    assert main(["service", "backup", str(saved), "--store", gone]) == 2
    assert not list(tmp_path.glob("saved*"))
    for text in (b"", b"no database at all, but a text that is long enough to look like one" * 20):
        saved.write_bytes(text)
        capsys.readouterr()
        assert main(["service", "restore", str(saved), "--store", url]) == 2
        assert "is not a backup of a service" in capsys.readouterr().err
    assert main(["service", "restore", str(tmp_path / "other"), "--store", url]) == 2
    assert not list(tmp_path.glob("other*"))


@pytest.mark.parametrize("left", ["service.db", "service.db-wal"])
def test_a_restore_takes_no_place_that_is_not_empty(tmp_path, capsys, left):
    """Nor that of a log alone: it has what a killed service had not written to its file yet."""
    url = f"sqlite:///{tmp_path}/service.db"
    world = World(url, likes())
    assert main(["service", "backup", str(tmp_path / "saved"), "--store", url]) == 0
    world.store.close()
    for path in tmp_path.glob("service.db*"):
        path.unlink()
    (tmp_path / left).write_bytes(b"what was there")
    capsys.readouterr()
    assert main(["service", "restore", str(tmp_path / "saved"), "--store", url]) == 2
    assert f"{left} is there; stop the service, and move service.db* away" in capsys.readouterr().err
    assert (tmp_path / left).read_bytes() == b"what was there"


@pytest.mark.parametrize("served", [False, True])
def test_an_interrupted_restore_leaves_nothing_that_is_not_frozen(tmp_path, request, monkeypatch, served):
    url, file = f"sqlite:///{tmp_path}/service.db", f"sqlite:///{tmp_path}/again.db"
    world = World(url, likes(seed=None))
    busy(world, 2)
    backup.backup(url, tmp_path / "saved")
    again = request.getfixturevalue("postgres_url") if served else file

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backup, "freeze_after_restore", interrupted)
    with pytest.raises(KeyboardInterrupt):
        backup.restore(again, tmp_path / "saved")
    monkeypatch.undo()
    assert not [*tmp_path.glob("again*"), *tmp_path.glob("tmp*")]
    assert backup.restore(again, tmp_path / "saved") == ["shop"]
    with closing(open_store(again)) as store, store.transaction() as tx:
        assert tx.one("SELECT status FROM experiment") == (FROZEN,)


def test_a_store_that_is_in_use_or_not_there_is_a_line_and_makes_no_file(tmp_path, capsys):
    url, saved = f"sqlite:///{tmp_path}/service.db", str(tmp_path / "saved")
    world = World(url, likes(seed=None))
    assert main(["service", "verify", "--store", url]) == 2
    secrets = str(tmp_path / "secrets")
    assert main(["serve", "--store", url, "--secrets", secrets]) == 2
    assert capsys.readouterr().err.count("is in use by another process") == 2
    assert main(["service", "backup", saved, "--store", url]) == 0
    capsys.readouterr()
    assert main(["service", "verify", saved]) == 0
    assert "1 experiment, 0 releases, 2 charges: nothing is wrong" in capsys.readouterr().out
    whole = Path(saved).read_bytes()
    for broken in (whole[: len(whole) // 2], b"no store", whole[:5000] + bytes(5000) + whole[10_000:]):
        Path(saved).write_bytes(broken)
        assert main(["service", "verify", saved]) == 2
        assert capsys.readouterr().out == "the file is damaged, or no store\n"
    world.store.close()
    missing = f"sqlite:///{tmp_path}/missing.db"
    for doing in (["verify"], ["backup", str(tmp_path / "new")]):
        assert main(["service", *doing, "--store", missing]) == 2
    assert main(["service", "restore", str(tmp_path / "gone"), "--store", missing]) == 2
    assert capsys.readouterr().err.count("there is no ") == 3
    assert not [*tmp_path.glob("missing.db*"), *tmp_path.glob("new*"), *tmp_path.glob("gone*")]


def test_a_full_disk_acknowledges_nothing_and_loses_nothing(tmp_path):
    world = World(f"sqlite:///{tmp_path}/service.db", likes(seed=None, outcome_wait=3600.0))
    sequences = [world.serve()[1] for _ in range(8)]
    assert world.report(sequences[0], ["item 1"]) == "recorded"
    (pages,) = world.rows("PRAGMA page_count")[0]
    world.rows(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError):
        world.report(sequences[1], ["item 1"] * 4000, served=False)
    world.rows("PRAGMA max_page_count=1000000")
    assert [sequence for (sequence,) in world.rows("SELECT sequence FROM outcome")] == sequences[:1]
    assert world.report(sequences[1], ["item 1"], served=False) == "recorded"
    world.store.close()


def test_new_keys_are_made_where_nobody_would_count_again_by_them(tmp_path, capsys):
    url, again = f"sqlite:///{tmp_path}/service.db", f"sqlite:///{tmp_path}/again.db"
    made = ["service", "init", "--secrets", str(tmp_path / "secrets"), "--store"]
    assert main([*made, url]) == 0
    World(url, likes(seed=None)).store.close()
    (tmp_path / "secrets").rename(tmp_path / "lost")
    capsys.readouterr()
    assert main([*made, url]) == 2
    assert "everybody would count again" in capsys.readouterr().err
    assert not (tmp_path / "secrets").exists()
    backup.backup(url, tmp_path / "saved")
    backup.restore(again, tmp_path / "saved")
    assert main([*made, again]) == 0
    assert (tmp_path / "secrets").exists()


def test_processes_with_different_secrets_do_not_share_a_store(tmp_path, postgres_url):
    """Each found an empty store, and made a file of its own: a person would have two pseudonyms."""
    one, other = (
        ServiceSettings(
            store=postgres_url, secrets=str(tmp_path / name), admin_key_file=str(tmp_path / "key")
        )
        for name in ("one", "other")
    )
    Secrets.fresh(other.secrets)
    web.prepare(one)
    web.prepare(one)
    with pytest.raises(ValueError, match="is not the file of this store"):
        web.prepare(other)
    saved = tmp_path / "saved"
    backup.backup(postgres_url, saved)
    for name in ("one", "other"):  # nobody who was counted counts in a store that was restored
        again = f"sqlite:///{tmp_path}/{name}.db"
        backup.restore(again, saved)
        web.prepare(msgspec.structs.replace(other, store=again))


def test_processes_that_start_at_once_share_secrets(tmp_path, monkeypatch):
    """Both find no file: the second keeps what the first has written, and nobody reads half of it."""
    settings = ServiceSettings(store=f"sqlite:///{tmp_path}/service.db", secrets=str(tmp_path / "secrets"))
    web.prepare(settings)
    before = (tmp_path / "secrets").read_bytes()
    monkeypatch.setattr(Path, "exists", lambda _: False)
    web.prepare(settings)
    assert (tmp_path / "secrets").read_bytes() == before
    assert not list(tmp_path.glob("secrets.*"))
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0


# --- both databases -------------------------------------------------------------------------------------


def content(store):
    """Everything that a restore has to bring back."""
    with store.transaction() as tx:
        return {
            table: tx.all(f"SELECT {columns} FROM {table} ORDER BY 1, 2")
            for table, columns in (
                ("population", "id, name, config, terms"),
                ("experiment", "id, name, config, epoch, period, next_sequence, seq, chain"),
                ("item", "*"),
                ("charge", "*"),
                ("release", "experiment, seq, epoch, segment, at, payload, chain"),
                ("private_state", "*"),
                ("api_key", "id, sha256, name, role, created"),
            )
        }


def test_postgres_is_backed_up_and_restored_by_command(tmp_path, postgres, postgres_url):
    """While it is in use; into another database; and into a file, with the same rows."""
    world = World(postgres_url, likes(seed=None))
    Keys(world.store).create("first", "admin")
    busy(world, 20)
    saved = str(tmp_path / "saved")
    assert main(["service", "backup", saved, "--store", postgres_url]) == 0
    assert Path(saved).stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    before = content(world.store)
    assert main(["service", "verify", saved]) == 0
    assert main(["service", "restore", saved, "--store", postgres_url]) == 2  # it is not empty
    other, file = postgres.create(), f"sqlite:///{tmp_path}/other.db"
    for url in (other, file):
        assert main(["service", "restore", saved, "--store", url]) == 0
        again = World(url)
        assert content(again.store) == before
        again.shop = world.shop
        assert again.one.status == FROZEN
        assert backup.verify(again.store) == []
        again.worker.create_population("new", PopulationConfig(epsilon=1.0))  # with a number of its own
        again.now = again.now.replace(year=2104)
        again.settle()
        assert again.serve()[2]
        World.opened.remove(again.store)
        again.store.close()
    postgres.drop(other)


def test_rows_that_a_copy_leaves_out_are_noticed(tmp_path, postgres_url, monkeypatch):
    """An injected fault: a table that is not copied."""
    world = World(postgres_url, likes(seed=None))
    busy(world, 20)
    many = database.Transaction.many

    def forgetful(tx, sql, rows):
        many(tx, sql, [] if "INTO release" in sql else rows)

    monkeypatch.setattr(database.Transaction, "many", forgetful)
    backup.backup(postgres_url, tmp_path / "saved")
    monkeypatch.undo()
    assert main(["service", "verify", str(tmp_path / "saved")]) == 2


def test_a_store_of_the_version_before_is_migrated(tmp_path, url, postgres, monkeypatch):
    """Its rows are there, nothing is wrong with them, and the service goes on."""
    every = list(database.migrations())
    world = World(url, likes(seed=None))
    busy(world, 20)
    backup.backup(url, tmp_path / "saved")
    before = content(world.store)
    for left in range(1, len(every)):
        old = postgres.create() if url.startswith("postgres") else f"sqlite:///{tmp_path}/{left}.db"
        monkeypatch.setattr(database, "migrations", lambda left=left: iter(every[:left]))
        store = open_store(old)
        assert store.migrate() == every[left - 1][0]
        with store.transaction() as tx:
            names = [name for name in TABLES if not missing(tx, name)]
            known = {name: columns_of(tx, name) for name in names}
        file = open_store(f"sqlite:///{tmp_path}/saved")
        with file.transaction() as read, store.transaction() as write:
            for name, columns in known.items():
                listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
                rows = read.all(f"SELECT {listed} FROM {name}")
                write.many(f"INSERT INTO {name} ({listed}) VALUES ({marks})", rows)
        file.close()
        monkeypatch.undo()
        backup.backup(old, tmp_path / f"saved {left}")  # before it is migrated
        backup.restore(f"sqlite:///{tmp_path}/restored {left}", tmp_path / f"saved {left}")
        assert store.migrate() == every[-1][0]
        assert content(store) == before
        assert backup.verify(store) == []
        store.close()
        again = World(old)
        again.shop = world.shop
        again.now = again.now.replace(month=12)
        again.settle()
        assert again.serve()[2]
        World.opened.remove(again.store)
        again.store.close()


TABLES = ("population", "experiment", "item", "charge", "block", "release", "private_state", "api_key")


def columns_of(tx, name):
    if type(tx) is database.Transaction:
        return [row[1] for row in tx.all(f"PRAGMA table_info({name})")]
    found = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = ? ORDER BY ordinal_position"
    )
    return [column for (column,) in tx.all(found, name)]


def missing(tx, name):
    return columns_of(tx, name) == []
