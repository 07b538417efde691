"""Several processes on one PostgreSQL: who serves, who keeps, and what cut connections and pauses leave."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psycopg
import pytest

from discreet.service import care, failpoints
from discreet.service.config import PopulationConfig
from discreet.service.engine import Engine
from discreet.service.hands import OPEN, Hand
from discreet.service.keys import Secrets, owner_name
from discreet.service.learning import Learning
from discreet.service.store import Fenced, Outcome, Served, StoreError, connections, open_store, postgres
from discreet.service.store.connections import PostgresTransaction
from discreet.service.store.postgres import PostgresStore

from .world import World, likes

MARK = b"m" * 12


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
        tx.do("CREATE TABLE learned (epoch BIGINT, place BIGINT PRIMARY KEY)")
        tx.do(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN INSERT INTO learned VALUES (OLD.epoch, OLD.place); RETURN OLD; END'"
        )
        tx.do("CREATE TRIGGER noted AFTER DELETE ON outcome FOR EACH ROW EXECUTE FUNCTION note()")
    return made


def full_hand(world, reported=8, mark=bytes(12)):
    """Serve a whole hand and report some of its outcomes."""
    places = [world.serve(mark=mark)[1] for _ in range(8)]
    for place in places[:reported]:
        assert world.report(place, ["item 1"]) == "recorded"
    return places


def numbers(world, sql):
    return {number for (number,) in world.rows(sql)}


def outcome(world, place, *, mark=MARK):
    return Outcome(world.shop, 0, place, False, b'["item 1"]', mark)


@contextmanager
def at(point, action):
    """Do something whenever this thread gets to a point; other threads pass."""
    here = threading.current_thread()
    failpoints.at(point, lambda: action() if threading.current_thread() is here else None)
    try:
        yield
    finally:
        failpoints.at(point, None)


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


# --- hands ---------------------------------------------------------------------------------------------


def test_replicas_claim_disjoint_hands(world):
    with world.store.transaction() as tx:
        ((body,), *_) = tx.all("SELECT body FROM hand")
        tx.many(
            "INSERT INTO hand (experiment, epoch, first, count, body, chain, state, served)"
            " VALUES (1, 0, ?, 8, ?, ?, 0, 0)",
            [(first, body, b"") for first in range(1000, 1480, 8)],
        )
    others = [world, Replica(world), Replica(world)]

    def claim_all(one):
        found = []
        while (row := one.store.claim(1, 0, one.owner)) is not None:
            found.append(row[2])
        return found

    with ThreadPoolExecutor(3) as threads:
        claimed = list(threads.map(claim_all, others))
    together = [first for found in claimed for first in found]
    assert len(together) == len(set(together)) == 62
    assert sum(map(bool, claimed)) > 1
    owners = dict(world.rows("SELECT first, owner FROM hand"))
    for one, found in zip(others, claimed, strict=True):
        assert all(owners[first] == one.owner for first in found)


def test_hands_are_closed_when_their_process_is_gone_and_not_before(world):
    other = Replica(world)
    mine, yours = (Hand.read(one.store.claim(1, 0, one.owner)).first for one in (world, other))
    third = Replica(world)
    third.store.recover(third.owner)
    assert not world.rows("SELECT first FROM hand WHERE closed_at IS NOT NULL")
    with world.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", other.owner)
    third.store.recover(third.owner)
    assert world.rows("SELECT first FROM hand WHERE closed_at IS NOT NULL") == [(yours,)]
    assert mine != yours
    world.keeper.tick(1)
    assert not other.store.beat(other.owner)
    assert other.store.claim(1, 0, other.owner) is None
    assert other.store.beat(owner_name(), new=True)


def test_a_claim_of_which_nobody_knows_whether_it_was_committed_is_found_again(world, monkeypatch):
    plain = connections.Pool._commit

    def lost(_, connection):
        connection.execute("COMMIT")
        connection.close()
        raise StoreError("nobody knows")

    monkeypatch.setattr(connections.Pool, "_commit", lost)
    with pytest.raises(StoreError):
        world.store.claim(1, 0, world.owner)
    monkeypatch.setattr(connections.Pool, "_commit", plain)
    ((first,),) = world.rows("SELECT first FROM hand WHERE state = ?", OPEN)
    assert world.store.claim(1, 0, world.owner)[2] == first
    assert world.store.claim(1, 0, world.owner)[2] != first


# --- a hand that is closed while outcomes come in ----------------------------------------------------------


def somebody_waits(replica):
    """Whether a transaction waits for a lock of another one."""
    mine = "datname = current_database()"
    with replica.store.transaction() as tx:
        return tx.all(f"SELECT 1 FROM pg_stat_activity WHERE {mine} AND wait_event_type = 'Lock'")


def race(world):
    """A group is in flight when its hand is closed: (whether the keeper waits to read it, the answer)."""
    places = full_hand(world, reported=6)
    other, read = Replica(world), threading.Event()
    failpoints.at("outcomes read", read.set)
    with ThreadPoolExecutor(2) as threads, slow_commit(other.store._writer) as (there, go):
        group = threads.submit(other.store.record, [outcome(world, places[6])], [])
        assert there.wait(60)
        folding = threads.submit(world.keeper.tick, 1)
        while not folding.done() and not somebody_waits(other):
            time.sleep(0.01)
        waited = not read.is_set()
        go.set()
        answer = group.result()
        folding.result()
    failpoints.at("outcomes read", None)
    return waited, answer[0]


def test_what_another_process_took_counts_at_the_end_of_a_period(world, monkeypatch):
    """Whoever serves a hand writes down how far every second; an outcome reported elsewhere is faster."""
    _, place, _ = world.serve()
    assert world.report(place, ["item 1"], served=False) == "recorded"
    counted, plain = [], Learning.fold

    def fold(self, hand, outcomes):
        counted.extend(one for one in outcomes if one - hand.first < hand.served)
        plain(self, hand, outcomes)

    monkeypatch.setattr(Learning, "fold", fold)
    world.now = world.now.replace(month=12)
    assert world.keeper.tick(world.shop)
    assert counted == [place]


def test_a_keeper_waits_for_groups_in_flight(world):
    assert race(world) == (True, "recorded")
    assert not world.rows("SELECT * FROM outcome")
    assert len(world.rows("SELECT * FROM learned")) == 7


@pytest.mark.parametrize("without", ["the group's lock", "the keeper's lock"])
def test_an_outcome_is_orphaned_without_either_lock(world, monkeypatch, without):
    if without == "the group's lock":
        monkeypatch.setattr(postgres, "_RECORD", postgres._RECORD.replace("FOR KEY SHARE OF h", ""))
    else:
        plain = connections.PostgresTransaction.locked
        unlocked = connections.PostgresTransaction.all
        monkeypatch.setattr(
            connections.PostgresTransaction,
            "locked",
            lambda tx, sql, *values: (unlocked if "FROM hand" in sql else plain)(tx, sql, *values),
        )
    assert race(world) == (False, "recorded")
    assert world.rows("SELECT * FROM outcome")


def test_a_group_waits_for_a_keeper_and_finds_the_hand_closed(world):
    places = full_hand(world, reported=6)
    other, one = Replica(world), world.one
    with ThreadPoolExecutor(2) as threads, slow_commit(world.store._rest) as (there, go):
        closing = threads.submit(world.keeper._close, one, over=False)
        assert there.wait(60)
        group = threads.submit(other.store.record, [outcome(world, places[6])], [])
        while not somebody_waits(other):
            assert not group.done()
            time.sleep(0.01)
        go.set()
        assert [hand.first for hand in closing.result()] == [places[0]]
        assert group.result() == ["late"]


def test_groups_and_keepers_never_wait_in_a_circle(world):
    """Two replicas report about the same hands in opposite orders while these are closed one by one."""
    others = [world, Replica(world)]
    places = [place for _ in range(8) for place in full_hand(world, reported=0)]
    orders = [places, places[::-1]]

    def report(number):
        answers = []
        for start in range(0, len(places), 16):
            group = [outcome(world, one) for one in orders[number][start : start + 16]]
            over = [Served(1, 0, one, 8, 0.0, "", 0, MARK * 8) for one in places[start : start + 16 : 8]]
            answers += others[number].store.record(group, over[:: 1 - 2 * number])
        return answers

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(report, number) for number in range(2)]
        while not all(one.done() for one in found):
            world.keeper.tick(1)
    both = list(zip(found[0].result(), found[1].result()[::-1], strict=True))
    recorded = sum(pair.count("recorded") for pair in both)
    assert all(pair.count("recorded") <= 1 for pair in both)
    world.hands = []
    world.settle()
    assert len(world.rows("SELECT * FROM learned")) == recorded > 0


# --- people ------------------------------------------------------------------------------------------------


def test_the_limit_of_a_person_holds_for_experiments_that_close_at_once(postgres_url):
    """Two keepers close hands of two experiments, all of one person: it counts three times in all."""
    people = PopulationConfig(epsilon=1.0, delta=1e-6, notion="gdp", max_rounds_per_person=3, period="month")
    one = World(postgres_url, likes(seed=None, share=0.5), people)
    other = Replica(one)
    other.shop = other.keeper.create("other", "people", likes(seed=None, share=0.5)).id
    worlds, start = (one, other), threading.Barrier(2)
    for world in worlds:
        world.serve(mark=MARK)
        for _ in range(7):
            world.serve(mark=MARK)
        world.store.record([], world.cursors())

    def close(world):
        fence = world.store.lease(world.shop, world.owner)
        mine = world.keeper._fenced(world.shop, fence)
        start.wait()
        return world.keeper._close(mine, over=False)

    with ThreadPoolExecutor(2) as threads:
        hands = [hand for found in threads.map(close, worlds) for hand in found]
    assert sorted(len(hand.uncounted) for hand in hands) in ([5, 8], [6, 7])
    assert one.rows("SELECT times FROM visit") == [(3,)]
    assert not one.rows("SELECT * FROM served_to")


def test_an_outcome_waits_for_the_process_that_served_its_decision(world):
    """Another process has not written down yet whom a place was for; if it never does, nothing is learned."""
    _, place, _ = world.serve(mark=MARK)
    other = Replica(world)
    assert other.store.record([outcome(world, place)], []) == ["early"]
    world.store.record([], world.cursors())
    assert other.store.record([outcome(world, place)], []) == ["recorded"]
    _, lost, _ = world.serve(mark=MARK)
    assert other.store.record([outcome(world, lost)], []) == ["early"]
    with world.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
    other.store.recover(other.owner)
    assert other.store.record([outcome(world, lost)], []) == ["late"]


def test_an_outcome_is_not_late_where_its_hand_ends_meanwhile(world, monkeypatch):
    """It was early, and before that was known its place was written down, with the last one of its hand."""
    places = [world.serve(mark=MARK)[1] for _ in range(8)]
    other = Replica(world)
    plain = other.store._why_not

    def why_not(tx, one):
        world.store.record([], world.cursors())
        return plain(tx, one)

    monkeypatch.setattr(other.store, "_why_not", why_not)
    assert other.store.record([outcome(world, places[0])], []) == ["early"]
    assert other.store.record([outcome(world, places[0])], []) == ["recorded"]


def test_a_group_counts_the_first_of_two_reports(world):
    one, two = full_hand(world, reported=0, mark=MARK)[:2]
    rows = [outcome(world, place) for place in (one, one, two, 10_000, 10_000)]
    rows[1] = rows[1]._replace(body=b'["item 2"]')
    answers = world.store.record(rows, world.cursors())
    assert answers == ["recorded", "duplicate", "recorded", "late", "late"]
    assert world.store.record(rows[:3], []) == ["duplicate"] * 3
    assert {bytes(body) for (body,) in world.rows("SELECT body FROM outcome")} == {b'["item 1"]'}


# --- keepers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["hand closed", "outcomes read", "noise drawn"])
def test_a_keeper_that_was_paused_is_fenced(world, point):
    """It stops at a point, another one takes over and releases, and it wakes up again."""
    full_hand(world)
    other = Replica(world)
    assert other.keeper.due() == [1]
    assert not other.keeper.tick(1)  # somebody else's

    def pause():
        with other.store.transaction() as tx:
            tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
        other.store._leases.clear()
        failpoints.at(point, None)
        assert other.keeper.tick(1)

    with at(point, pause), pytest.raises(Fenced):
        world.keeper.tick(1)
    assert len(world.rows("SELECT * FROM learned")) == 8
    assert world.rows("SELECT seq FROM release") == [(1,)]
    assert not world.keeper.tick(1)
    assert other.keeper.tick(1) or not other.keeper.due()


def test_a_keeper_that_stops_in_a_transaction_is_cut_off(world, monkeypatch):
    monkeypatch.setattr(connections, "_SET", "SET idle_in_transaction_session_timeout = '2s'")
    full_hand(world)
    world.keeper.tick(1)
    with world.store.transaction() as tx:
        tx.do("DELETE FROM hand WHERE state = 0")
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
    world.crash()
    other = Replica(world)
    with other.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)
    world.store.lease(1, world.owner)
    with other.store.transaction() as tx:
        tx.do("UPDATE process SET until = 0 WHERE name = ?", world.owner)

    def pause():
        failpoints.at("dealt, not committed", None)
        assert other.keeper.tick(1)  # waits until the other one's session is ended

    with at("dealt, not committed", pause), pytest.raises(StoreError):
        world.keeper.tick(1)
    firsts = world.rows("SELECT first FROM hand WHERE state = 0 ORDER BY first")
    assert len(firsts) == len(set(firsts)) == 2
    with pytest.raises(Fenced):
        world.keeper.tick(1)


def test_an_operator_may_ask_any_replica(world):
    """Another catalogue: the replica that was asked takes over, and whoever kept it is fenced off."""
    world.settle()
    other = Replica(world)
    other.keeper.change_items(1, ["new"], ["item 0"])
    world.keeper.forget(1)
    full_hand(world)
    with pytest.raises(Fenced):
        world.keeper.tick(1)
    assert not world.keeper.tick(1)
    assert other.keeper.tick(1)
    assert "new" in other.one.learning.labels
    for number, replica in enumerate((world, other, world)):  # whoever kept it has not noticed yet
        replica.keeper.change_items(1, [f"newer {number}"], [])


def test_whoever_freezes_waits_for_a_keeper_and_not_in_a_circle(world, monkeypatch):
    """Both lock hands and delete outcomes."""
    full_hand(world)
    other, plain, begun = Replica(world), PostgresTransaction.do, threading.Event()

    def do(tx, sql, *values):
        done = plain(tx, sql, *values)
        if sql.startswith("DELETE FROM outcome WHERE"):
            begun.set()
            time.sleep(0.3)  # the other one has its locks by now, or waits for a lock
        return done

    monkeypatch.setattr(PostgresTransaction, "do", do)
    with ThreadPoolExecutor(1) as threads:
        keeping = threads.submit(world.keeper.tick, 1)
        assert begun.wait(10)
        assert care.gone_back(other.store, other.keeper) == ["shop"]
        assert keeping.result()
    assert len(world.rows("SELECT * FROM release")) == 1
    assert not world.rows("SELECT * FROM hand")


def test_what_was_frozen_elsewhere_is_not_released(world):
    full_hand(world)
    other = Replica(world)
    with at("noise drawn", lambda: care.gone_back(other.store, other.keeper)), pytest.raises(Fenced):
        world.keeper.tick(1)
    assert not world.rows("SELECT * FROM release")
    assert not world.keeper.due()


# --- cut connections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_cut_connections_lose_nothing_that_was_acknowledged(world, monkeypatch, seed):
    """One in thirty statements finds its connection cut, before it is carried out or before its answer."""
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
                world.hands = [hand for hand in world.hands if hand.served]
        raise AssertionError("it never works")

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    acknowledged, served = set(), []
    for number in range(40):
        place = insist(world.serve)[1]
        served.append(place)
        if number % 4:
            answer = insist(lambda place=place: world.report(place, ["item 1"]))
            assert answer in {"recorded", "duplicate"}
            acknowledged.add(place)
        insist(world.settle)
    world.hands[0].over_at = 0.0
    insist(world.settle)
    monkeypatch.undo()
    admin.close()
    assert len(served) == len(set(served))
    assert numbers(world, "SELECT place FROM learned") == acknowledged
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
    places = [world.serve()[1] for _ in range(8)]
    for place in places:
        world.report(place, ["a very rare marker"])

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


# --- engines -----------------------------------------------------------------------------------------------


def test_a_process_that_was_stopped_serves_nothing_of_its_old_hands(world, monkeypatch):
    """Its heart stops, another process closes its hands, and it goes on under another name."""
    monkeypatch.setattr(PostgresStore, "patience", 3.0)
    world.store.leave(world.owner)
    secrets = Secrets.fresh()

    async def story():
        one, two = (Engine(open_store(world.url), secrets) for _ in range(2))
        await one.start()
        await two.start()
        try:
            shop = await one.live("shop")
            served = {(await one.next_place(shop))[0].first}
            name, until = one.life.owner, one.life.until
            while one.life.until == until:  # its heart beats
                await asyncio.sleep(0.05)
            assert one.life.owner == name
            assert one.take(shop) is not None
            one._tasks[1].cancel()
            one._stop.set()
            deadline = time.monotonic() + 60
            while world.rows("SELECT 1 FROM hand WHERE owner = ? AND closed_at IS NULL", name):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            hand, _ = await one.next_place(shop)
            assert hand.first not in served
            assert one.life.owner != name
        finally:
            await one.stop()
            await two.stop()

    asyncio.run(story())
    assert not world.rows("SELECT * FROM process")
    assert not world.rows("SELECT * FROM hand WHERE state = ? AND closed_at IS NULL", OPEN)


def test_two_services_share_an_experiment(postgres_url):
    """Decisions from both, outcomes reported to the other one: every place once, everything learned once."""
    world, secrets = _noted(World(postgres_url, likes(outcome_wait=2.0, seed=None))), Secrets.fresh()
    world.store.leave(world.owner)

    async def story():
        engines = [Engine(open_store(world.url), secrets) for _ in range(2)]
        for one in engines:
            await one.start()
        try:
            shops = [await one.live("shop") for one in engines]
            places, answers = [], []
            for number in range(30):
                which = number % 2
                mark = number.to_bytes(12, "big")
                hand, offset = await engines[which].next_place(shops[which], mark)
                place = hand.first + offset
                places.append(place)
                decision = secrets.verify(secrets.sign(1, 0, place, mark))
                body = json.dumps(["item 1"]).encode()
                answers.append(await engines[1 - which].record(decision, body))
            assert len(places) == len(set(places))
            assert answers.count("recorded") == 30
        finally:
            for one in engines:
                await one.stop()
        return set(places)

    places = asyncio.run(story())
    with world.store.transaction() as tx:
        tx.do("UPDATE hand SET closed_at = 0 WHERE state = ?", OPEN)
    Replica(world).settle()
    assert numbers(world, "SELECT place FROM learned") == places
