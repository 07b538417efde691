"""One process that serves: groups of outcomes and their answers."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import quote

import pytest

from discreet.service import engine as engine_module
from discreet.service.engine import Engine, Unavailable
from discreet.service.keys import Decision, Secrets
from discreet.service.store import StoreError, open_store
from discreet.service.web.auth import Key
from discreet.service.web.hot import Hot

from .world import ITEMS, World, likes


def test_an_outcome_that_comes_while_cursors_are_written_has_its_answer(url):
    """How far hands were served is written down without outcomes, too; who comes meanwhile is next."""
    World(url, likes()).store.close()
    secrets = Secrets.fresh()

    async def story():
        engine = Engine(open_store(url), secrets)
        await engine.start(keep=False)
        plain, writing, go = engine.store.record, threading.Event(), threading.Event()

        def record(outcomes, served):
            if not outcomes:
                writing.set()
                go.wait(60)
            return plain(outcomes, served)

        engine.store.record = record
        shop = await engine.live("shop")
        hand, offset = await engine.next_place(shop)
        assert await asyncio.to_thread(writing.wait, 60)
        decision = secrets.verify(secrets.sign(1, 0, hand.first + offset, bytes(12)))
        answer = engine.record(decision, b'["item 1"]')
        go.set()
        assert await asyncio.wait_for(answer, 60) == "recorded"
        await engine.stop()

    asyncio.run(story())


def test_many_who_come_first_share_what_is_claimed(url):
    """Hands that one of them had to itself would never be closed, and nothing after them learned from."""
    world = World(url, likes(seed=None))

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False)
        many = await asyncio.gather(*[engine.live("shop") for _ in range(20)])
        await asyncio.gather(*[engine.next_place(one) for one in many[:4]])
        with world.store.transaction() as tx:
            (claimed,) = tx.one("SELECT count(*) FROM hand WHERE state = 1")
        assert claimed <= 2  # one that is served from, and perhaps the next one already
        assert [one is many[0] for one in many] == [True] * 20
        await engine.stop()

    asyncio.run(story())


def test_whoever_waits_while_an_epoch_ends_is_told_to_ask_again(url):
    """A hand of an epoch that is over never comes."""
    world = World(url, likes(seed=None))

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False)
        shop = await engine.live("shop")
        engine.store.claim = lambda *_: None
        waiting = asyncio.ensure_future(engine.next_place(shop))
        await asyncio.sleep(0)
        world.now = world.now.replace(month=12)
        world.settle()
        assert await engine.refresh("shop") is not shop
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, 5)
        await engine.stop()

    asyncio.run(story())


def test_a_process_that_has_not_heard_of_a_new_period_counts_in_it(url):
    """Somebody's round is reported where the last period still goes on: it is one of the new period."""
    world = World(url, likes(seed=None, outcome_wait=3600.0))
    secrets, app = Secrets.fresh(), Key("1", "app", "app", None)

    async def story():
        engine = Engine(world.store, secrets)
        await engine.start(keep=False)
        engine._tasks[0].cancel()  # it does not look for what others did
        assert (await engine.live("shop")).period == "2026-11"
        hot = Hot(engine)
        world.now = world.now.replace(month=12)
        world.settle()
        mark = secrets.mark(1, "2026-12", "anna")
        for _ in range(2):
            _, place, _ = world.serve(mark=mark)
            world.store.record([], world.cursors())
            decision = secrets.sign(1, 1, place, mark)

            async def receive():
                return {"body": b'{"likes":["item 1"]}'}

            assert await hot.outcome(decision, receive, app) == b'{"status":"recorded"}'
            await engine.refresh("shop")
        with world.store.transaction() as tx:
            tx.do("UPDATE hand SET closed_at = 0 WHERE state = 1")
        world.keeper._close(world.one, over=False)
        assert world.rows("SELECT period, times FROM visit") == [("2026-12", 1)]
        await engine.stop()

    asyncio.run(story())


def test_an_experiment_that_fails_holds_up_no_other(url):
    """Its keeper tries again; meanwhile others are dealt for."""
    world = World(url, likes(seed=None, share=0.5))
    other = world.keeper.create("other", "people", likes(seed=None, share=0.5)).id

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        plain, done = engine.keeper.tick, threading.Event()

        def tick(number):
            if number == world.shop:
                raise ValueError("whatever it is")
            done.set()
            return plain(number)

        engine.keeper.tick, engine.keeper.due = tick, lambda: [world.shop, other]
        await engine.start()
        assert await asyncio.to_thread(done.wait, 10)
        await engine.stop()

    asyncio.run(story())


def test_items_stand_in_that_this_process_has_not_heard_of(url):
    """A hand of a newer catalogue is claimed: what it ranks is known by name."""
    world = World(url, likes(seed=None))

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False)
        engine._tasks[0].cancel()
        shop = await engine.live("shop")
        world.keeper.change_items(world.shop, ["new 1", "new 2"], [])
        while True:
            hand, offset = await engine.next_place(shop)
            if len(world.one.learning.labels) - 1 in hand.spare:
                break
        shown, altered = shop.without(hand, offset, set(ITEMS[:11]))
        assert altered
        assert set(shown) == {"item 11", "new 1", "new 2"}
        await engine.stop()

    asyncio.run(story())


def test_a_look_at_a_late_outcome_that_fails_holds_up_no_answer(url):
    world = World(url, likes(seed=None))

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False)

        def cut(*_):
            raise StoreError("the connection was cut")

        engine.keeper.beyond = cut
        await engine.live("shop")
        _, place, _ = world.serve()
        late, there = (engine.record(Decision(1, 0, number), b'["item 1"]') for number in (10_000, place))
        assert await asyncio.wait_for(late, 10) == "late"
        assert await asyncio.wait_for(there, 10) == "recorded"
        await engine.stop()

    asyncio.run(story())


@pytest.mark.parametrize("reported", [False, True])
def test_whom_places_were_for_is_written_down_whoever_reports(url, monkeypatch, reported):
    """What a crash leaves written down, whenever it comes, follows from decisions and from no report."""
    monkeypatch.setattr(engine_module, "_FLUSH", 3600.0)
    world, secrets = World(url, likes(seed=None, hand=4)), Secrets.fresh()

    async def story():
        engine = Engine(world.store, secrets)
        await engine.start(keep=False)
        shop = await engine.live("shop")

        async def decide(name):
            mark = secrets.mark(1, shop.period, name)
            hand, offset = await engine.next_place(shop, mark)
            return Decision(1, 0, hand.first + offset, mark)

        one = await decide("ann")
        await until(lambda: world.rows("SELECT sum(named) FROM hand") == [(1,)])
        plain, tries = world.store.record, []

        def cut(outcomes, served):
            tries.append((len(outcomes), len(served)))
            raise StoreError("the connection was cut")

        world.store.record = cut
        await decide("ben")
        await until(lambda: tries == [(0, 1)] and engine._flushing is None)
        answer = engine.record(one, b'["item 1"]') if reported else None
        await asyncio.sleep(0.02)
        assert tries == [(0, 1)]  # it is tried again when it would be anyway
        world.store.record = plain
        await decide("cyd")
        await until(lambda: world.rows("SELECT sum(named) FROM hand") == [(3,)])
        assert answer is None or await answer == "recorded"
        await engine.stop()

    asyncio.run(story())


async def until(true):
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


def test_a_hand_that_cannot_be_served_from_is_closed(url):
    """Its catalogue cannot be read. Nobody else would close it, and later ones would wait for it."""
    world = World(url, likes(seed=None))

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False)
        engine._tasks[0].cancel()
        shop = await engine.live("shop")
        world.keeper.change_items(world.shop, ["new 1"], [])
        plain = engine.refresh

        async def cut(_):
            raise StoreError("the connection was cut")

        engine.refresh = cut
        with pytest.raises(StoreError):
            await engine.next_place(shop)
        engine.refresh = plain
        left = "SELECT first FROM hand WHERE state = 1 AND closed_at IS NULL"
        await until(lambda: not world.rows(left))
        await engine.stop()

    asyncio.run(story())


def test_whoever_gives_up_waiting_takes_no_hand_along(url):
    """Others wait for the same claim, and a hand that was claimed is served from."""
    world = World(url, likes(seed=None))

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False)
        shop = await engine.live("shop")
        waiting = asyncio.ensure_future(engine.next_place(shop))
        while shop.claiming is None:
            await asyncio.sleep(0)
        waiting.cancel()
        await until(lambda: shop.claiming is None)
        assert len(shop.hands) == 1
        await engine.stop()

    asyncio.run(story())


def test_looks_at_what_others_did_go_on_after_one_that_fails(tmp_path, monkeypatch):
    """Keys that were revoked, say: whatever a look fails of, there is a next one."""
    monkeypatch.setattr(engine_module, "_LOOK", 0.005)
    world, looks = World(f"sqlite:///{tmp_path}/service.db", likes(seed=None)), []

    def look():
        looks.append(len(looks))
        if len(looks) == 2:
            raise ValueError("a table is not there, as it is being put back")

    async def story():
        engine = Engine(world.store, Secrets.fresh())
        await engine.start(keep=False, every=look)
        await until(lambda: len(looks) > 3)
        await engine.stop()

    asyncio.run(story())


def test_ids_of_decisions_stay_as_they_are_and_need_no_quoting():
    """Outcomes come after a release of this service that made the decision has been replaced by the next."""
    secrets = Secrets({name: bytes(32) for name in ("decisions", "people", "sessions")})
    known = "IQAAAAEAAAACAAAAAAAAAANtbW1tbW1tbW1tbW2ldOq6Sm1IoA9Inm4"
    assert secrets.sign(1, 2, 3, b"m" * 12, True) == known == quote(known, safe="")
    assert secrets.verify(known) == Decision(1, 2, 3, b"m" * 12, True)
    for wrong in (known + "=", known[:-1], known + "A", known[:-1] + "=", known + " ", "=" + known, ""):
        assert secrets.verify(wrong) is None
