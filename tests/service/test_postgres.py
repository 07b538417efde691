"""Several processes on one PostgreSQL: who serves, who keeps, and what cut connections and pauses leave."""

from __future__ import annotations

import asyncio
import datetime
import json
import random
import re
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from types import SimpleNamespace

import psycopg
import pytest

from discreet.service import backup, groups, postgres
from discreet.service.auth import Secrets, owner_name
from discreet.service.config import PopulationConfig
from discreet.service.database import OPEN, Conflict, Fenced, StoreError, failpoints, open_store
from discreet.service.engine import DecisionEngine, decision_of
from discreet.service.groups import Cursor, Group, ReportedOutcome, ServedDecision
from discreet.service.learning import DecisionBlock, Learning
from discreet.service.postgres import PostgresDatabase, PostgresTransaction
from discreet.service.worker import PAUSED, RUNNING

from .world import World, likes

PSEUDONYM = b"m" * 12


class Replica(World):
    """Another process of the same service."""

    def __init__(self, first):
        self.now, self.shop = first.now, first.shop
        super().__init__(first.url)


@pytest.fixture
def world(postgres_url):
    """A world whose database itself notes which outcomes a release was made from: none of them twice."""
    return _noted(World(postgres_url, likes(outcome_wait=0.0, seed=None)))


def _noted(made):
    assert made.store.lease(1, made.owner) == 0
    with made.store.transaction() as tx:
        tx.do("CREATE TABLE learned (epoch BIGINT, sequence BIGINT PRIMARY KEY)")
        tx.do(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN INSERT INTO learned VALUES (OLD.epoch, OLD.sequence); RETURN OLD; END'"
        )
        tx.do("CREATE TRIGGER noted AFTER DELETE ON outcome FOR EACH ROW EXECUTE FUNCTION note()")
    return made


@pytest.mark.parametrize("reported", [False, True])
def test_an_erasure_does_not_tell_whether_there_was_an_outcome(postgres_url, reported):
    """The worker is another process: it begins its step again, and logs that, in both cases."""
    world, secrets = World(postgres_url, likes(outcome_wait=600.0)), Secrets.fresh()
    pseudonym = secrets.pseudonym(1, world.one.period, "ann")
    _, sequence, _ = world.serve(pseudonym=pseudonym)
    world.write()
    if reported:
        world.report(sequence, ["item 1"], pseudonym=pseudonym)
    while world.worker.due():
        world.worker.tick(world.shop)
    Replica(world).worker.erase("people", partial(secrets.pseudonym, person="ann"))
    with pytest.raises(Fenced):
        world.worker.tick(world.shop)
    assert not world.worker.tick(world.shop)
    assert not world.rows("SELECT * FROM outcome WHERE body IS NOT NULL")


def full_block(world, reported=8, pseudonym=bytes(12)):
    """Serve a whole block and report some of its outcomes."""
    sequences = [world.serve(pseudonym=pseudonym)[1] for _ in range(8)]
    for sequence in sequences[:reported]:
        assert world.report(sequence, ["item 1"]) == "recorded"
    return sequences


def numbers(world, sql):
    return {number for (number,) in world.rows(sql)}


def outcome(world, sequence, *, pseudonym=PSEUDONYM):
    return ReportedOutcome(world.shop, 0, sequence, False, b'["item 1"]', pseudonym)


def statuses(store, outcomes, served=(), sequences=()):
    return [one.status for one in groups.record(store, Group(outcomes, served, sequences)).outcomes]


def test_a_late_outcome_does_not_tell_which_block_is_leased_next(postgres_url):
    """While it is looked at, another process leases: the block before it may be of another segment."""
    world = World(postgres_url, likes(segments=["de", "fr"], holdout=0.0))
    late = [world.serve("fr")[1] for _ in range(8)]
    world.settle()
    other, waiting = Replica(world), world.store.lease_block(world.shop, 0, world.owner, "de")[2] + 8
    with world.store.transaction("groups") as tx:
        found = groups._locked(tx, {(world.shop, 0, late[0])}, "KEY SHARE")
        assert (world.shop, 0, waiting) in found
        assert other.store.lease_block(world.shop, 0, other.owner, "de")[2] == waiting


@pytest.mark.parametrize("what", ["resumed", "made"])
def test_who_is_charged_at_the_same_time_as_others_tries_again(postgres_url, monkeypatch, what):
    """It is not told that its name is taken, which nobody could do anything about."""
    half, first = likes(share=0.3), True
    world = World(postgres_url, half)
    other = Replica(world)
    other.shop = other.worker.create("other", "people", half).id
    for one in (world, other):
        one.worker.set_status(one.shop, PAUSED)
        one.now += datetime.timedelta(days=31)
    honest = Learning.begin

    def begin(*given):
        nonlocal first
        if first:
            first = False
            other.worker.set_status(other.shop, RUNNING)
        return honest(*given)

    monkeypatch.setattr(Learning, "begin", begin)

    def charged():
        if what == "resumed":
            world.worker.set_status(world.shop, RUNNING)
        else:
            world.worker.create("third", "people", half)

    with pytest.raises(StoreError, match="at the same time"):
        charged()
    charged()
    with pytest.raises(Conflict):
        world.worker.create("other", "people", half)
    assert not backup.verify(world.store)


@contextmanager
def at(point, action):
    """Do something whenever this thread gets to a point; other threads pass."""
    here = threading.current_thread()
    failpoints[point] = lambda: action() if threading.current_thread() is here else None
    try:
        yield
    finally:
        failpoints.pop(point, None)


@contextmanager
def slow_commit(pool):
    """Commits on these connections wait for `go`; `there` tells that one does."""
    there, go, plain = threading.Event(), threading.Event(), pool._commit

    def commit(connection):
        there.set()
        assert go.wait(60)
        plain(connection)

    pool._commit = commit
    try:
        yield there, go
    finally:
        go.set()
        del pool._commit


# --- blocks ---------------------------------------------------------------------------------------------


def test_replicas_lease_disjoint_blocks(world):
    with world.store.transaction() as tx:
        ((body,), *_) = tx.all("SELECT body FROM block")
        tx.many(
            "INSERT INTO block (experiment, epoch, first, count, body, chain, state, served)"
            " VALUES (1, 0, ?, 8, ?, ?, 0, 0)",
            [(first, body, b"") for first in range(1000, 1480, 8)],
        )
    others = [world, Replica(world), Replica(world)]

    def lease_all(one):
        found = []
        while (row := one.store.lease_block(1, 0, one.owner)) is not None:
            found.append(row[2])
        return found

    with ThreadPoolExecutor(3) as threads:
        leased = list(threads.map(lease_all, others))
    together = [first for found in leased for first in found]
    assert len(together) == len(set(together)) == 62
    assert sum(map(bool, leased)) > 1
    owners = dict(world.rows("SELECT first, owner FROM block"))
    for one, found in zip(others, leased, strict=True):
        assert all(owners[first] == one.owner for first in found)


def test_blocks_are_closed_when_their_process_is_gone_and_not_before(world):
    other = Replica(world)
    mine, yours = (DecisionBlock.read(one.store.lease_block(1, 0, one.owner)).first for one in (world, other))
    third = Replica(world)
    third.store.recover(third.owner)
    assert not world.rows("SELECT first FROM block WHERE closed_at IS NOT NULL")
    with world.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", other.owner)
    third.store.recover(third.owner)
    assert world.rows("SELECT first FROM block WHERE closed_at IS NOT NULL") == [(yours,)]
    assert mine != yours
    world.worker.tick(1)
    assert not other.store.beat(other.owner)
    assert other.store.lease_block(1, 0, other.owner) is None
    assert other.store.beat(owner_name(), new=True)


def test_a_lease_of_which_nobody_knows_whether_it_was_committed_is_found_again(world, monkeypatch):
    plain = postgres.ConnectionPool._commit

    def lost(_, connection):
        connection.execute("COMMIT")
        connection.close()
        raise StoreError("nobody knows")

    monkeypatch.setattr(postgres.ConnectionPool, "_commit", lost)
    with pytest.raises(StoreError):
        world.store.lease_block(1, 0, world.owner)
    monkeypatch.setattr(postgres.ConnectionPool, "_commit", plain)
    ((first,),) = world.rows("SELECT first FROM block WHERE state = ?", OPEN)
    assert world.store.lease_block(1, 0, world.owner)[2] == first
    assert world.store.lease_block(1, 0, world.owner)[2] != first


def test_a_lease_that_is_committed_late_is_waited_for(world, monkeypatch):
    """Nobody would serve from its block, or close it, and all later blocks would wait for that one."""
    late, plain = [], postgres.ConnectionPool._commit

    def unknown(_, connection):
        late.append(connection)
        raise StoreError("nobody knows")

    monkeypatch.setattr(postgres.ConnectionPool, "_commit", unknown)
    with pytest.raises(StoreError):
        world.store.lease_block(1, 0, world.owner)
    monkeypatch.setattr(postgres.ConnectionPool, "_commit", plain)
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(world.store.lease_block, 1, 0, world.owner)
        while not again.done() and not somebody_waits(world):
            time.sleep(0.01)
        late[0].execute("COMMIT")
        late[0].close()
        assert world.rows("SELECT first FROM block WHERE state = ?", OPEN) == [(again.result()[2],)]


# --- a block that is closed while outcomes come in ----------------------------------------------------------


def somebody_waits(replica):
    """Whether a transaction waits for a lock of another one."""
    mine = "datname = current_database()"
    with replica.store.transaction() as tx:
        return tx.all(f"SELECT 1 FROM pg_stat_activity WHERE {mine} AND wait_event_type = 'Lock'")


def race(world):
    """A group is in flight when its block is closed: (whether the worker waits to read it, the answer)."""
    sequences = full_block(world, reported=6)
    other, read = Replica(world), threading.Event()
    failpoints["outcomes read"] = read.set
    with ThreadPoolExecutor(2) as threads, slow_commit(other.store.pools["groups"]) as (there, go):
        group = threads.submit(statuses, other.store, [outcome(world, sequences[6])])
        assert there.wait(60)
        aggregating = threads.submit(world.worker.tick, 1)
        while not aggregating.done() and not somebody_waits(other):
            time.sleep(0.01)
        waited = not read.is_set()
        go.set()
        answer = group.result()
        aggregating.result()
    failpoints.pop("outcomes read", None)
    return waited, answer[0]


def test_what_another_process_took_counts_at_the_end_of_a_period(world, monkeypatch):
    """The block goes on to be served from, and nobody has written down how far."""
    _, sequence, _ = world.serve()
    world.write()
    world.serve()
    assert statuses(Replica(world).store, [outcome(world, sequence)]) == ["recorded"]
    counted, plain = [], Learning.aggregate

    def aggregate(self, block, outcomes):
        counted.extend(one for one in outcomes if one - block.first < block.served)
        plain(self, block, outcomes)

    monkeypatch.setattr(Learning, "aggregate", aggregate)
    world.now = world.now.replace(month=12)
    assert world.worker.tick(world.shop)
    assert counted == [sequence]


def test_a_worker_waits_for_groups_in_flight(world):
    assert race(world) == (True, "recorded")
    assert not world.rows("SELECT * FROM outcome")
    assert len(world.rows("SELECT * FROM learned")) == 7


@pytest.mark.parametrize("without", ["the group's lock", "the worker's lock"])
def test_an_outcome_is_orphaned_without_either_lock(world, monkeypatch, without):
    plain = PostgresTransaction.locked
    strength = "KEY SHARE" if without == "the group's lock" else "UPDATE"

    def locked(tx, sql, *values, **how):
        if "FROM block" in sql and how.get("strength", "UPDATE") == strength:
            return tx.all(sql, *values)
        return plain(tx, sql, *values, **how)

    monkeypatch.setattr(PostgresTransaction, "locked", locked)
    assert race(world) == (False, "recorded")
    assert world.rows("SELECT * FROM outcome")


def test_a_group_waits_for_a_worker_and_finds_the_block_closed(world):
    sequences = full_block(world, reported=6)
    other, one = Replica(world), world.one
    with ThreadPoolExecutor(2) as threads, slow_commit(world.store.pools["any"]) as (there, go):
        closing = threads.submit(world.worker._close, one, over=False)
        assert there.wait(60)
        group = threads.submit(statuses, other.store, [outcome(world, sequences[6])])
        while not somebody_waits(other):
            assert not group.done()
            time.sleep(0.01)
        go.set()
        assert [block.first for block in closing.result()] == [sequences[0]]
        assert group.result() == ["late"]


def test_groups_and_workers_never_wait_in_a_circle(world):
    """Two replicas report about the same blocks in opposite orders while these are closed one by one."""
    others = [world, Replica(world)]
    sequences = [sequence for _ in range(8) for sequence in full_block(world, reported=0)]
    orders = [sequences, sequences[::-1]]

    def report(number):
        answers = []
        for start in range(0, len(sequences), 16):
            group = [outcome(world, one) for one in orders[number][start : start + 16]]
            firsts = sequences[start : start + 16 : 8][:: 1 - 2 * number]
            over = [Cursor(1, 0, one, 8, 0.0) for one in firsts]
            whose = [
                ServedDecision(1, 0, one, offset, PSEUDONYM, 1, "", 1000)
                for one in firsts
                for offset in range(8)
            ]
            answers += statuses(others[number].store, group, over, whose)
        return answers

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(report, number) for number in range(2)]
        while not all(one.done() for one in found):
            world.worker.tick(1)
    both = list(zip(found[0].result(), found[1].result()[::-1], strict=True))
    recorded = sum(pair.count("recorded") for pair in both)
    assert all(pair.count("recorded") <= 1 for pair in both)
    world.blocks = []
    world.settle()
    assert len(world.rows("SELECT * FROM learned")) == recorded > 0


# --- people ------------------------------------------------------------------------------------------------


def test_the_limit_of_a_person_holds_for_processes_that_write_at_once(postgres_url):
    """Two processes serve two experiments to one person, whom nobody knew before: it counts three times."""
    people = PopulationConfig(
        epsilon=1.0, delta=1e-6, definition="gdp", max_rounds_per_person=3, period="month"
    )
    one = World(postgres_url, likes(seed=None, share=0.5), people)
    other = Replica(one)
    other.shop = other.worker.create("other", "people", likes(seed=None, share=0.5)).id
    worlds, start = (one, other), threading.Barrier(2)
    for world in worlds:
        for _ in range(8):
            world.serve(pseudonym=PSEUDONYM)

    def write(world):
        start.wait()
        world.write()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, worlds))
    left_out = [len(text.split()) for (text,) in one.rows("SELECT uncounted FROM block WHERE state = 1")]
    assert sorted(left_out) == [5, 8]
    assert one.rows("SELECT times FROM visit") == [(16,)]


def test_a_request_that_is_sent_to_two_processes_at_once_is_one_decision(world):
    """The second one waits for the end of the first, and has its answer."""
    other = Replica(world)
    mine, yours = (one.serve(pseudonym=PSEUDONYM, request=b"r")[1] for one in (world, other))
    assert mine != yours
    with ThreadPoolExecutor(2) as threads, slow_commit(world.store.pools["groups"]) as (there, go):
        first = threads.submit(world.write)
        assert there.wait(60)
        second = threads.submit(other.write)
        while not somebody_waits(other):
            assert not second.done()
            time.sleep(0.01)
        go.set()
        assert first.result().requests[0].sequence == second.result().requests[0].sequence == mine
    assert world.rows("SELECT times FROM visit") == [(1,)]
    assert other.acknowledged(yours, ["item 1"], pseudonym=PSEUDONYM) == ("recorded", False)


@pytest.mark.parametrize("pseudonym", [PSEUDONYM, bytes(12)])
def test_an_outcome_waits_for_the_process_that_served_its_decision(world, pseudonym):
    """Another process has not written down yet whom it was for; if it never does, nothing is learned."""
    _, sequence, _ = world.serve(pseudonym=pseudonym)
    other = Replica(world)
    assert statuses(other.store, [outcome(world, sequence, pseudonym=pseudonym)]) == ["early"]
    world.write()
    assert statuses(other.store, [outcome(world, sequence, pseudonym=pseudonym)]) == ["recorded"]
    _, lost, _ = world.serve(pseudonym=pseudonym)
    assert statuses(other.store, [outcome(world, lost, pseudonym=pseudonym)]) == ["early"]
    with world.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
    other.store.recover(other.owner)
    assert statuses(other.store, [outcome(world, lost, pseudonym=pseudonym)]) == ["late"]


def test_a_group_waits_for_one_of_which_nobody_knows_how_it_ended(world):
    """It is sent again while the server still commits it: nobody is counted twice."""
    world.serve(pseudonym=PSEUDONYM)
    group, other = world.group(), Replica(world)
    with ThreadPoolExecutor(2) as threads, slow_commit(world.store.pools["groups"]) as (there, go):
        first = threads.submit(groups.record, world.store, group)
        assert there.wait(60)
        again = threads.submit(groups.record, other.store, group)  # on another connection
        while not somebody_waits(other):
            assert not again.done()
            time.sleep(0.01)
        go.set()
        first.result()
        again.result()
    assert world.rows("SELECT times FROM visit") == [(1,)]
    assert world.rows("SELECT served, uncounted FROM block WHERE first = 0") == [(1, "")]


# --- workers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["block closed", "outcomes read", "noise drawn"])
def test_a_worker_that_was_paused_is_fenced(world, point):
    """It stops at a point, another one takes over and releases, and it wakes up again."""
    full_block(world)
    other = Replica(world)
    assert other.worker.due() == [1]
    assert not other.worker.tick(1)  # somebody else's

    def pause():
        with other.store.transaction() as tx:
            tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
        other.store._leases.clear()
        failpoints.pop(point, None)
        assert other.worker.tick(1)

    with at(point, pause), pytest.raises(Fenced):
        world.worker.tick(1)
    assert len(world.rows("SELECT * FROM learned")) == 8
    assert world.rows("SELECT seq FROM release") == [(1,)]
    assert not world.worker.tick(1)
    assert other.worker.tick(1) or not other.worker.due()


def test_a_worker_that_stops_in_a_transaction_is_cut_off(world, monkeypatch):
    monkeypatch.setattr(postgres, "_SET", "SET idle_in_transaction_session_timeout = '2s'")
    full_block(world)
    world.worker.tick(1)
    with world.store.transaction() as tx:
        tx.do("DELETE FROM block WHERE state = 0")
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
    world.crash()
    other = Replica(world)
    with other.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
    world.store.lease(1, world.owner)
    with other.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)

    def pause():
        failpoints.pop("allocated, not committed", None)
        assert other.worker.tick(1)  # waits until the other one's session is ended

    with at("allocated, not committed", pause), pytest.raises(StoreError):
        world.worker.tick(1)
    firsts = world.rows("SELECT first FROM block WHERE state = 0 ORDER BY first")
    assert len(firsts) == len(set(firsts)) == 2
    with pytest.raises(Fenced):
        world.worker.tick(1)


def test_an_operator_may_ask_any_replica(world):
    """Another catalogue: the replica that was asked takes over, and whoever kept it is fenced off."""
    world.settle()
    other = Replica(world)
    other.worker.change_items(1, ["new"], ["item 0"])
    world.worker.forget(1)
    full_block(world)
    with pytest.raises(Fenced):
        world.worker.tick(1)
    assert not world.worker.tick(1)
    assert other.worker.tick(1)
    assert "new" in other.one.learning.labels
    for number, replica in enumerate((world, other, world)):  # whoever kept it has not noticed yet
        replica.worker.change_items(1, [f"newer {number}"], [])


def test_whoever_freezes_waits_for_a_worker_and_not_in_a_circle(world, monkeypatch):
    """Both lock blocks and delete outcomes."""
    full_block(world)
    other, plain, begun = Replica(world), PostgresTransaction.do, threading.Event()

    def do(tx, sql, *values):
        done = plain(tx, sql, *values)
        if sql.startswith("DELETE FROM outcome WHERE"):
            begun.set()
            time.sleep(0.3)  # the other one has its locks by now, or waits for a lock
        return done

    monkeypatch.setattr(PostgresTransaction, "do", do)
    with ThreadPoolExecutor(1) as threads:
        keeping = threads.submit(world.worker.tick, 1)
        assert begun.wait(300)
        assert backup.freeze_after_restore(other.store, other.worker) == ["shop"]
        assert keeping.result()
    assert len(world.rows("SELECT * FROM release")) == 1
    assert not world.rows("SELECT * FROM block")


def test_what_was_frozen_elsewhere_is_not_released(world):
    full_block(world)
    other = Replica(world)
    freeze = partial(backup.freeze_after_restore, other.store, other.worker)
    with at("noise drawn", freeze), pytest.raises(Fenced):
        world.worker.tick(1)
    assert not world.rows("SELECT * FROM release")
    assert not world.worker.due()


# --- cut connections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_cut_connections_lose_nothing_that_was_acknowledged(world, monkeypatch, seed):
    """One in thirty statements finds its connection cut, before it is carried out or before its answer.

    It goes on until each kind of cut has happened five times, commits among them.
    """
    plain = psycopg.Connection.execute
    admin = psycopg.connect(world.url, autocommit=True)
    chance, cut = random.Random(seed), {"before": 0, "after": 0, "commit": 0}

    def execute(connection, *given, **more):
        if connection is admin or chance.random() > 1 / 30:
            return plain(connection, *given, **more)
        cut["commit"] += given[0] == "COMMIT"
        if chance.random() < 0.5:
            cut["before"] += 1
            plain(admin, "SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
            return plain(connection, *given, **more)
        cut["after"] += 1
        plain(connection, *given, **more)
        connection.close()
        raise psycopg.OperationalError("the connection was cut")

    def insist(work):
        for _ in range(20):
            try:
                return work()
            except StoreError:
                world.blocks = [block for block in world.blocks if block.served]
        raise AssertionError("it never works")

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    acknowledged, served = set(), []
    for number in takewhile(lambda number: number < 40 or min(cut.values()) < 5, range(1000)):
        sequence = insist(world.serve)[1]
        served.append(sequence)
        if number % 4:
            answer = insist(lambda sequence=sequence: world.report(sequence, ["item 1"]))
            assert answer in {"recorded", "duplicate"}
            acknowledged.add(sequence)
        insist(world.settle)
    world.blocks[0].over_at = 0.0
    insist(world.settle)
    monkeypatch.undo()
    admin.close()
    assert len(served) == len(set(served))
    assert numbers(world, "SELECT sequence FROM learned") == acknowledged
    assert not world.rows("SELECT * FROM outcome")
    seqs = [seq for (seq,) in world.rows("SELECT seq FROM release ORDER BY seq")]
    assert seqs == list(range(1, world.one.seq + 1))
    assert min(cut.values()) > 4


def test_connections_that_were_cut_while_idle_are_replaced(world):
    with psycopg.connect(world.url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert world.serve()
    assert world.rows("SELECT 1") == [(1,)]
    assert world.store.beat(world.owner)


def test_errors_quote_no_values(world):
    with pytest.raises(Exception, match="refused a row") as caught, world.store.transaction() as tx:
        tx.do("INSERT INTO population (name, config) VALUES (?, ?)", "people", "{}")
    assert "people" not in str(caught.value)
    with pytest.raises(ValueError, match="cannot hold"), world.store.transaction() as tx:
        tx.do("INSERT INTO population (name, config) VALUES (?, ?)", "a\0b", "{}")
    with (
        pytest.raises(StoreError, match="rolled back"),
        world.store.transaction() as tx,
        suppress(psycopg.Error),
    ):
        tx.do("SELECT 1 / 0")


# --- the tables --------------------------------------------------------------------------------------------


def test_migrations_by_several_at_once(postgres_url):
    stores = [open_store(postgres_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda store: store.migrate(), stores))) == 1
    with stores[0].transaction() as tx:
        assert tx.one("SELECT count(*) FROM migration")[0] == stores[0].migrate()
    for store in stores:
        store.close()


def test_raw_outcomes_leave_the_files_of_the_table(world, postgres):
    sequences = [world.serve()[1] for _ in range(8)]
    for sequence in sequences:
        world.report(sequence, ["a very rare marker"])

    def somewhere():
        with psycopg.connect(postgres.server.get_uri(), autocommit=True) as admin:
            admin.execute("CHECKPOINT")
        files = [path for path in (postgres.folder / "base").rglob("*") if path.is_file()]
        return any(b"a very rare marker" in path.read_bytes() for path in files)

    assert somewhere()
    world.settle()
    world.store._scrubbed = -1e9
    world.store.scrub()
    assert not somewhere()


def test_the_state_of_what_has_ended_leaves_the_files_of_its_table(world, postgres):
    """It holds sums of people, and with some learners what each of them reported."""
    full_block(world)
    world.settle()
    files = world.rows(
        "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname = 'private_state' OR oid ="
        " (SELECT reltoastrelid FROM pg_class WHERE relname = 'private_state')"
    )
    world.worker.end(world.shop)
    world.settle()
    assert not world.rows("SELECT * FROM private_state")
    world.store._scrubbed = -1e9
    world.store.scrub()
    with psycopg.connect(postgres.server.get_uri(), autocommit=True) as admin:
        admin.execute("CHECKPOINT")
    assert not any(any((postgres.folder / file).read_bytes()) for (file,) in files)


def test_pseudonyms_of_a_period_that_is_over_leave_the_files_of_their_tables(world, postgres):
    for number in range(4):
        world.serve(pseudonym=b"pseudonym %d." % number, request=b"request %d" % number)
    world.write()
    world.worker.erase("people", lambda population, period: b"pseudonym 3.")  # noqa: ARG005
    with world.store.transaction() as tx:
        tx.do("UPDATE request SET at = 0")
        tx.do("UPDATE block SET closed_at = 0 WHERE closed_at IS NULL AND owner IS NOT NULL")
    world.now += datetime.timedelta(days=31)
    while world.worker.tick(world.shop):
        pass
    groups.forget_requests(world.store)
    world.store._scrubbed = -1e9
    world.worker.forget_people()
    tables = "'visit', 'erased', 'request'"
    files = world.rows(f"SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname IN ({tables})")
    with psycopg.connect(postgres.server.get_uri(), autocommit=True) as admin:
        admin.execute("CHECKPOINT")
    assert not any((postgres.folder / file).read_bytes() for (file,) in files)


@pytest.mark.parametrize("url", ["user:my secret@host/db", "user:secret@[host/db", "user:secret%zz@host/db"])
def test_a_url_that_cannot_be_read_is_not_quoted(url):
    """It may hold a password."""
    with pytest.raises(ValueError, match="postgresql://USER@HOST/NAME") as caught:
        open_store(f"postgresql://{url}")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_space_is_given_back_once_a_minute(world, monkeypatch):
    ran = []
    monkeypatch.setattr(world.store.pools["any"], "alone", ran.append)
    world.store._scrubbed = time.monotonic() - 30.0
    world.store.scrub()
    assert ran == []
    world.store._scrubbed -= 31.0
    for _ in range(2):
        world.store.recover(world.owner)
    assert ran == ["VACUUM outcome, private_state, visit, erased, request"]


def test_space_that_cannot_be_given_back_now_is_a_minute_later(world, monkeypatch):
    ran, now = [], [1e9]

    def alone(statement):
        ran.append(statement)
        if len(ran) == 1:
            raise StoreError("a lock was not given in time")

    monkeypatch.setattr(world.store.pools["any"], "alone", alone)
    monkeypatch.setattr(postgres, "time", SimpleNamespace(monotonic=lambda: now[0]))
    world.worker.erase("people", lambda *_: PSEUDONYM)
    for passed in (59.0, 1.0, 60.0):
        now[0] += passed
        world.store.recover(world.owner)
    assert len(ran) == 2


def test_space_is_given_back_by_a_process_and_a_machine_that_have_just_begun(monkeypatch):
    ran, now = [], [1.0]
    monkeypatch.setattr(postgres, "time", SimpleNamespace(monotonic=lambda: now[0]))
    store = postgres.PostgresDatabase("postgresql://nobody@localhost/none")
    store.pools["any"].alone = ran.append
    for now[0], times in ((1.0, 1), (60.0, 1), (61.0, 2)):
        store.scrub()
        assert len(ran) == times


# --- engines -----------------------------------------------------------------------------------------------


def test_a_process_that_was_stopped_serves_nothing_of_its_old_blocks(world, monkeypatch):
    """Its heart stops, another process closes its blocks, and it goes on under another name."""
    monkeypatch.setattr(PostgresDatabase, "patience", 3.0)
    world.store.leave(world.owner)
    secrets = Secrets.fresh()

    async def story():
        one, two = (DecisionEngine(open_store(world.url), secrets) for _ in range(2))
        await one.start()
        await two.start()
        try:
            shop = await one.live("shop")
            served = {(await one.next_decision(shop))[0].first}
            name, until = one.process.owner, one.process.until
            while one.process.until == until:  # its heart beats
                await asyncio.sleep(0.05)
            assert one.process.owner == name
            assert one.take(shop) is not None
            one._tasks[1].cancel()
            one._stop.set()
            deadline = time.monotonic() + 60
            while world.rows("SELECT 1 FROM block WHERE owner = ? AND closed_at IS NULL", name):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            block, _ = await one.next_decision(shop)
            assert block.first not in served
            assert one.process.owner != name
        finally:
            await one.stop()
            await two.stop()

    asyncio.run(story())
    assert not world.rows("SELECT * FROM process")
    assert not world.rows("SELECT * FROM block WHERE state = ? AND closed_at IS NULL", OPEN)


def test_two_services_share_an_experiment(postgres_url):
    """Outcomes are reported to the other one: every decision once, everything learned once."""
    world, secrets = _noted(World(postgres_url, likes(outcome_wait=2.0, seed=None))), Secrets.fresh()
    world.store.leave(world.owner)

    async def story():
        engines = [DecisionEngine(open_store(world.url), secrets) for _ in range(2)]
        for one in engines:
            await one.start()
        try:
            shops = [await one.live("shop") for one in engines]
            sequences, answers = [], []
            for number in range(30):
                which = number % 2
                pseudonym = number.to_bytes(12, "big")
                block, offset = await engines[which].next_decision(shops[which], pseudonym)
                sequence = block.first + offset
                sequences.append(sequence)
                decision = secrets.verify(secrets.sign(decision_of(block, offset, pseudonym, False)))
                body = json.dumps(["item 1"]).encode()
                answers.append(await engines[1 - which].record(decision, body))
            assert len(sequences) == len(set(sequences))
            assert answers == [("recorded", True)] * 30
        finally:
            for one in engines:
                await one.stop()
        return set(sequences)

    sequences = asyncio.run(story())
    with world.store.transaction() as tx:
        tx.do("UPDATE block SET closed_at = 0 WHERE state = ?", OPEN)
    Replica(world).settle()
    assert numbers(world, "SELECT sequence FROM learned") == sequences


def test_a_group_counts_the_first_of_two_reports(world):
    one, two = full_block(world, reported=0, pseudonym=PSEUDONYM)[:2]
    rows = [outcome(world, sequence) for sequence in (one, one, two, 10_000, 10_000)]
    rows[1] = rows[1]._replace(body=b'["item 2"]')
    answers = [one.status for one in world.write(rows).outcomes]
    assert answers == ["recorded", "duplicate", "recorded", "late", "late"]
    assert statuses(world.store, rows[:3]) == ["duplicate"] * 3
    assert world.rows("SELECT body FROM outcome ORDER BY sequence") == [(b'["item 1"]',), (None,)]


def test_why_the_database_cannot_be_reached_is_said(postgres_url):
    """To whoever starts the service, at a terminal; requests are told that it cannot be written to."""
    wrong = re.sub(r"@/\w+\?", "@/elsewhere?", postgres_url)
    with pytest.raises(StoreError, match=r'cannot be reached: .*database "elsewhere" does not exist'):
        open_store(wrong).migrate()
