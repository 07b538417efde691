"""One process that serves: groups of outcomes and their answers."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from discreet.service import engine as engine_module
from discreet.service import groups
from discreet.service.auth import DecisionId, Secrets
from discreet.service.database import StoreError, open_store
from discreet.service.engine import (
    DecisionEngine,
    Live,
    NotEnoughItems,
    ProcessLease,
    PublicModel,
    Unavailable,
    decision_of,
)

from .world import ITEMS, World, likes


def test_an_outcome_that_comes_while_cursors_are_written_has_its_answer(url, monkeypatch):
    """How far blocks were served is written down without outcomes, too; who comes meanwhile is next."""
    World(url, likes()).store.close()
    secrets = Secrets.fresh()

    async def story():
        engine = DecisionEngine(open_store(url), secrets)
        await engine.start(work=False)
        plain, writing, go = groups.record, threading.Event(), threading.Event()

        def record(store, group):
            if not group.outcomes:
                writing.set()
                go.wait(60)
            return plain(store, group)

        monkeypatch.setattr(groups, "record", record)
        shop = await engine.live("shop")
        block, offset = await engine.next_decision(shop)
        assert await asyncio.to_thread(writing.wait, 60)
        decision = decision_of(block, offset, bytes(12), False)
        answer = engine.record(decision, b'["item 1"]')
        go.set()
        assert (await asyncio.wait_for(answer, 300)).status == "recorded"
        await engine.stop()

    asyncio.run(story())


def test_many_who_come_first_share_what_is_leased(url):
    """Blocks that one of them had to itself would never be closed, and nothing after them learned from."""
    world = World(url, likes(seed=None))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        many = await asyncio.gather(*[engine.live("shop") for _ in range(20)])
        await asyncio.gather(*[engine.next_decision(one) for one in many[:4]])
        with world.store.transaction() as tx:
            (leased,) = tx.one("SELECT count(*) FROM block WHERE state = 1")
        assert leased <= 2  # one that is served from, and perhaps the next one already
        assert [one is many[0] for one in many] == [True] * 20
        await engine.stop()

    asyncio.run(story())


def test_whoever_waits_while_an_epoch_ends_is_told_to_ask_again(url):
    """A block of an epoch that is over never comes."""
    world = World(url, likes(seed=None))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        shop = await engine.live("shop")
        engine.store.lease_block = lambda *_: None
        waiting = asyncio.ensure_future(engine.next_decision(shop))
        await asyncio.sleep(0)
        world.now = world.now.replace(month=12)
        world.settle()
        assert await engine.refresh("shop") is not shop
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, 300)
        await engine.stop()

    asyncio.run(story())


def test_a_process_that_has_not_heard_of_a_new_period_counts_in_it(url):
    """Somebody's round is reported where the last period still goes on: it is one of the new period."""
    world = World(url, likes(seed=None, outcome_wait=3600.0))
    secrets = Secrets.fresh()

    async def story():
        engine = DecisionEngine(world.store, secrets)
        await engine.start(work=False)
        world.owner = engine.process.owner
        engine._tasks[0].cancel()  # it does not look for what others did
        assert (await engine.live("shop")).period == "2026-11"
        world.now = world.now.replace(month=12)
        world.settle()
        pseudonym = secrets.pseudonym(1, "2026-12", "anna")
        for _ in range(2):
            _, sequence, _ = world.serve(pseudonym=pseudonym)
            world.write()
            counted = await engine.record(DecisionId(1, 1, sequence, pseudonym), b'["item 1"]')
            assert counted == ("recorded", sequence == 0)
            await engine.refresh("shop")
        assert world.rows("SELECT period, times FROM visit") == [("2026-12", 2)]
        await engine.stop()

    asyncio.run(story())


def test_what_has_ended_or_was_made_anew_is_not_looked_at_for_ever(file_url):
    """By others: this process is not told."""
    world = World(file_url, likes(seed=None, share=0.5))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        engine._tasks[0].cancel()
        old = await engine.live("shop")
        world.worker.delete(old.id)
        world.worker.create("shop", "people", likes(seed=None, share=0.5))
        await engine.look_at(old)
        new = await engine.live("shop")
        assert new.id != old.id
        assert list(engine._by_number.values()) == list(engine._live.values()) == [new]
        engine.forget(old)
        assert list(engine._live.values()) == [new]
        world.worker.end(new.id)
        await engine.look_at(new)
        assert not engine._live
        assert not engine._by_number
        assert (await engine.live("shop")).status == "ended"
        await engine.stop()

    asyncio.run(story())


def test_an_experiment_that_fails_holds_up_no_other(file_url):
    """Its worker tries again; meanwhile others are allocated for."""
    world = World(file_url, likes(seed=None, share=0.5))
    other = world.worker.create("other", "people", likes(seed=None, share=0.5)).id

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        plain, done = engine.worker.tick, threading.Event()

        def tick(number):
            if number == world.shop:
                raise ValueError("whatever it is")
            done.set()
            return plain(number)

        engine.worker.tick, engine.worker.due = tick, lambda: [world.shop, other]
        await engine.start()
        assert await asyncio.to_thread(done.wait, 10)
        await engine.stop()

    asyncio.run(story())


def test_items_stand_in_that_this_process_has_not_heard_of(file_url):
    """A block of a newer catalogue is leased: what it ranks is known by name."""
    world = World(file_url, likes(seed=None))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        engine._tasks[0].cancel()
        shop = await engine.live("shop")
        world.worker.change_items(world.shop, ["new 1", "new 2"], [])
        while True:
            block, offset = await engine.next_decision(shop)
            if len(world.one.learning.labels) - 1 in block.spare:
                break
        shown, altered = shop.without(block, offset, set(ITEMS[:11]))
        assert altered
        assert set(shown) == {"item 11", "new 1", "new 2"}
        await engine.stop()

    asyncio.run(story())


def test_a_look_at_a_late_outcome_that_fails_holds_up_no_answer(url):
    world = World(url, likes(seed=None))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)

        def cut(*_):
            raise StoreError("the connection was cut")

        engine.worker.beyond = cut
        world.owner = engine.process.owner
        await engine.live("shop")
        _, sequence, _ = world.serve()
        world.write()
        late, there = (
            engine.record(DecisionId(1, 0, number), b'["item 1"]') for number in (10_000, sequence)
        )
        assert await asyncio.wait_for(late, 300) == ("late", False)
        assert await asyncio.wait_for(there, 300) == ("recorded", True)
        await engine.stop()

    asyncio.run(story())


def test_late_outcomes_are_looked_at_once_in_a_group(url):
    """Others wait for the group: a browser could send a thousand of its own, again and again."""

    async def story():
        world = World(url, likes())
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        plain, looked = engine.worker.beyond, []
        engine.worker.beyond = lambda *decision: looked.append(decision) or plain(*decision)
        late = [DecisionId(world.shop, 0, sequence) for sequence in (100, 300, 200)] * 50
        answers = await asyncio.gather(*[engine.record(one, b"[]") for one in late])
        while engine._flushing is not None:
            await asyncio.sleep(0.01)
        frozen = world.rows("SELECT status FROM experiment")
        await engine.stop()
        return {one.status for one in answers}, looked, frozen

    assert asyncio.run(story()) == ({"late"}, [(1, 0, 300)], [("frozen",)])


@pytest.mark.parametrize("reported", [False, True])
def test_whom_decisions_were_for_is_written_down_whoever_reports(url, monkeypatch, reported):
    """What a crash leaves written down, whenever it comes, follows from decisions and from no report."""
    monkeypatch.setattr(engine_module, "_FLUSH", 3600.0)
    world, secrets = World(url, likes(seed=None, block_size=4)), Secrets.fresh()

    async def story():
        engine = DecisionEngine(world.store, secrets)
        await engine.start(work=False)
        shop = await engine.live("shop")

        async def decide(name):
            pseudonym = secrets.pseudonym(1, shop.period, name)
            block, offset = await engine.next_decision(shop, pseudonym)
            return DecisionId(1, 0, block.first + offset, pseudonym)

        one = await decide("ann")
        await until(lambda: world.rows("SELECT sum(served) FROM block") == [(1,)])
        plain, tries = groups.record, []

        def cut(_, group):
            tries.append((len(group.outcomes), len(group.decisions)))
            raise StoreError("the connection was cut")

        monkeypatch.setattr(groups, "record", cut)
        await decide("ben")
        await until(lambda: tries == [(0, 1)] and engine._flushing is None)
        answer = engine.record(one, b'["item 1"]') if reported else None
        await asyncio.sleep(0.02)
        assert tries == [(0, 1)]  # it is tried again when it would be anyway
        monkeypatch.setattr(groups, "record", plain)
        await decide("cyd")
        await until(lambda: world.rows("SELECT sum(served) FROM block") == [(3,)])
        assert answer is None or await answer == ("recorded", True)
        whose = {secrets.pseudonym(1, shop.period, name) for name in ("ann", "ben", "cyd")}
        assert {bytes(one) for (one,) in world.rows("SELECT pseudonym FROM visit")} == whose
        await engine.stop()

    asyncio.run(story())


async def until(true):
    async with asyncio.timeout(300):
        while not true():
            await asyncio.sleep(0.005)


def test_a_block_that_cannot_be_served_from_is_closed(url):
    """Its catalogue cannot be read. Nobody else would close it, and later ones would wait for it."""
    world = World(url, likes(seed=None))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        engine._tasks[0].cancel()
        shop = await engine.live("shop")
        world.worker.change_items(world.shop, ["new 1"], [])
        plain = engine.refresh

        async def cut(_):
            raise StoreError("the connection was cut")

        engine.refresh = cut
        with pytest.raises(StoreError):
            await engine.next_decision(shop)
        engine.refresh = plain
        left = "SELECT first FROM block WHERE state = 1 AND closed_at IS NULL"
        await until(lambda: not world.rows(left))
        await engine.stop()

    asyncio.run(story())


def test_whoever_gives_up_waiting_takes_no_block_along(file_url):
    """Others wait for the same lease, and a block that was leased is served from."""
    world = World(file_url, likes(seed=None))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        shop = await engine.live("shop")
        waiting = asyncio.ensure_future(engine.next_decision(shop))
        while shop.leasing is None:
            await asyncio.sleep(0)
        waiting.cancel()
        await until(lambda: shop.leasing is None)
        assert len(shop.blocks) == 1
        await engine.stop()

    asyncio.run(story())


def test_looks_at_what_others_did_go_on_after_one_that_fails(tmp_path, monkeypatch):
    """Keys that were revoked, say: whatever a look fails of, there is a next one."""
    monkeypatch.setattr(engine_module, "_LOOK", 0.005)
    world, looks = World(f"sqlite:///{tmp_path}/service.db", likes(seed=None)), []

    def look():
        looks.append(len(looks))
        if len(looks) == 2:
            raise ValueError("a table is not there, as it is being restored")

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False, every=look)
        await until(lambda: len(looks) > 3)
        await engine.stop()

    asyncio.run(story())


@pytest.mark.parametrize(("wait", "longest"), [(5.0, 60.0), (600.0, 600.0)])
def test_a_block_is_served_for_a_minute_or_for_as_long_as_outcomes_are_awaited(wait, longest):
    now, closed = engine_module.clock(), []
    ages = [longest + 5.0, longest + 1.0, longest - 20.0, 0.0]
    blocks = [SimpleNamespace(since=now - age) for age in ages]
    live = SimpleNamespace(config=SimpleNamespace(outcome_wait=wait), blocks=deque(blocks))
    DecisionEngine._close_old(SimpleNamespace(_close=closed.append), live)
    assert closed == blocks[:2]
    assert [*live.blocks] == blocks[2:]


def test_ids_of_decisions_stay_as_they_are_and_need_no_quoting():
    """Outcomes come after a release of this service that made the decision has been replaced by the next."""
    secrets = Secrets({name: bytes(32) for name in ("decisions", "people", "sessions")})
    decision = DecisionId(1, 2, 3, b"m" * 12, True, 7)
    known = "IQAAAAEAAAACAAAAAAAAAAMAAAAHbW1tbW1tbW1tbW1tZsxCWYskCY5mrPGH"
    assert secrets.sign(decision) == known == quote(known, safe="")
    assert secrets.verify(known) == decision
    for wrong in (known + "=", known[:-1], known + "A", known[:-1] + "=", known + " ", "=" + known, ""):
        assert secrets.verify(wrong) is None


def test_a_process_counts_as_alive_for_four_fifths_of_the_databases_patience(monkeypatch):
    now, beats = [1000.0], []

    def beat(owner, *, new=False):
        beats.append((owner, new))
        return now[0] < 1010.0  # they have taken it for dead then

    monkeypatch.setattr(engine_module, "clock", lambda: now[0])
    lease = ProcessLease(SimpleNamespace(patience=10.0, beat=beat))
    lease.begin()
    assert (lease.until, beats) == (1008.0, [(lease.owner, True)])
    now[0] = 1005.0
    lease.begin()  # it lives
    assert len(beats) == 1
    lease.renew()
    assert (lease.until, beats[1:]) == (1013.0, [(lease.owner, False)])
    now[0] = 1010.0
    lease.renew()
    assert lease.until == -math.inf
    first = lease.owner
    lease.begin()
    assert lease.owner != first
    assert beats[-1] == (lease.owner, True)
    assert lease.until == 1018.0


def test_a_process_that_was_taken_for_dead_lets_go_of_its_blocks(monkeypatch):
    slept, gone = [], []
    process = SimpleNamespace(until=100.0, renew=lambda: None)
    stub = SimpleNamespace(store=SimpleNamespace(patience=10.0), process=process)
    stub._let_go = lambda: gone.append(process.until)

    async def sleep(seconds):
        slept.append(seconds)
        process.until = 200.0 - 50.0 * len(slept)  # 150, 100, 50
        if len(slept) == 4:
            stub.store.patience = math.inf

    with monkeypatch.context() as patched:
        patched.setattr(engine_module, "clock", lambda: 100.0)
        patched.setattr(engine_module.asyncio, "sleep", sleep)
        asyncio.run(DecisionEngine._beat(stub))
    assert slept == [2.0] * 4  # five times in the databases' patience
    assert gone == [100.0, 50.0, 0.0]
    asyncio.run(DecisionEngine._beat(stub))  # there is no other process
    block, closed = SimpleNamespace(), []
    queue = SimpleNamespace(blocks=deque([block]))
    stub = SimpleNamespace(process=process, _queues=lambda: [queue], _close=closed.append)
    stub._close_all = lambda queues: DecisionEngine._close_all(stub, queues)
    DecisionEngine._let_go(stub)
    assert process.until == -math.inf
    assert closed == [block]


def test_a_worker_looks_forgets_and_tries_again_in_time(monkeypatch):
    """Seconds of a clock that goes on by one with every look: patience is 10, requests go once a minute."""
    now, told = [0.0], {"recover": [], "requests": [], "people": [], "good": [], "bad": []}

    def note(what):
        return lambda *_: told[what].append(now[0])

    def tick(number):
        told[number].append(now[0])
        if number == "bad":
            raise ValueError("whatever it is")
        return False

    def wait(_):
        now[0] += 0.5

    monkeypatch.setattr(engine_module, "clock", lambda: now[0])
    monkeypatch.setattr(groups, "forget_requests", note("requests"))
    stub = SimpleNamespace(
        store=SimpleNamespace(patience=10.0, recover=note("recover")),
        process=SimpleNamespace(owner="one"),
        worker=SimpleNamespace(forget_people=note("people"), due=lambda: ["bad", "good"], tick=tick),
        _stop=SimpleNamespace(is_set=lambda: now[0] > 125.0, wait=wait),
        _wake=SimpleNamespace(wait=wait, clear=lambda: None),
    )
    DecisionEngine._work(stub)
    assert told["recover"][:3] == [3.0, 6.0, 9.0]
    assert told["requests"] == told["people"] == [0.0, 60.5, 121.0]
    assert told["good"][:4] == [0.0, 0.5, 1.0, 1.5]
    assert told["bad"][:4] == [0.0, 1.0, 2.0, 3.0]


def test_what_was_rendered_is_remembered_and_what_is_excluded_replaced():
    labels = [f"item {number}" for number in range(5)]
    block = SimpleNamespace(first=8, which=[0, 1, 0], lists=[[0, 1], [1, 2]], spare=[1, 3], altered=set())
    block.propensity = lambda number, holdout, _: [holdout, 0.5][number]
    config = SimpleNamespace(holdout=0.25, control=[])
    live = SimpleNamespace(rendered={}, labels=labels, config=config, constraint=None)
    assert Live.items(live, block, 0) == (b'["item 0","item 1"]', b"0.25")
    assert Live.items(live, block, 1) == (b'["item 1","item 2"]', b"0.5")
    assert len(live.rendered) == 2
    live.rendered |= dict.fromkeys(range(4095), (b"", b""))
    block.which = [0, 1, 2]
    block.lists.append([3, 4])
    block.propensity = lambda *_: None
    assert Live.items(live, block, 2) == (b'["item 3","item 4"]', b"null")
    assert len(live.rendered) == 1  # that many are too many
    assert Live.without(live, block, 0, {"item 4"}) == (["item 0", "item 1"], False)
    assert Live.without(live, block, 0, {"item 0"}) == (["item 1", "item 3"], True)
    with pytest.raises(NotEnoughItems):
        Live.without(live, block, 0, {"item 0", "item 3"})
    now = engine_module.clock()
    block.key, block.served, block.over_at = (1, 0, 8), 3, now - 5.0
    (cursor,) = DecisionEngine._cursors(SimpleNamespace(), {block.key: block}, False)
    assert 5.0 <= cursor.over < 60.0
    assert cursor[:4] == (1, 0, 8, 3)


@pytest.mark.parametrize(("decided", "pauses"), [(7, []), (8, [0.003])])
def test_a_group_waits_for_company_where_there_is_some(monkeypatch, decided, pauses):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    async def written():
        return False

    monkeypatch.setattr(engine_module.asyncio, "sleep", sleep)
    stub = SimpleNamespace(_queue=[1], _dirty={}, _activated=[], _decided=decided, _flush_now=written)
    asyncio.run(DecisionEngine._flush(stub))
    assert slept == pauses


def test_the_next_block_is_leased_ahead_and_by_a_process_that_lives(file_url):
    """What was served elsewhere and is not written down yet is waited for."""
    world = World(file_url, likes(seed=None, outcome_wait=3600.0))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        shop = await engine.live("shop")
        await engine.next_decision(shop)
        assert shop.leasing is not None
        await shop.leasing
        assert len(shop.blocks) == 2
        await engine.next_decision(shop)
        assert shop.leasing is None
        first = engine.process.owner
        engine._let_go()
        world.worker.tick(world.shop)
        await engine.next_decision(shop)
        assert engine.process.owner != first
        world.owner = engine.process.owner
        _, sequence, _ = world.serve()
        answer = engine.record(DecisionId(1, 0, sequence), b'["item 1"]')
        while engine._flushing is not None:
            await engine._flushing
        assert not answer.done()
        world.write()
        assert await asyncio.wait_for(answer, 20) == ("recorded", True)
        await engine.stop()

    asyncio.run(story())


def test_the_first_model_is_taken_up(file_url, monkeypatch):
    world = World(file_url, likes(learner="PersonalSelector", seed=None))
    monkeypatch.setattr(PublicModel, "read", classmethod(lambda _, row: SimpleNamespace(seq=row[0])))

    async def story():
        engine = DecisionEngine(world.store, Secrets.fresh())
        await engine.start(work=False)
        assert (await engine.live("shop")).model is None
        for seq in (1, 2):
            with world.store.transaction() as tx:
                tx.do("DELETE FROM model")
                tx.do("INSERT INTO model (experiment, seq, chain, body) VALUES (1, ?, ?, ?)", seq, b"", b"")
            assert (await engine.refresh("shop")).model.seq == seq
        await engine.stop()

    asyncio.run(story())
