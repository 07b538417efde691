"""One process that serves: groups of outcomes and their answers."""

from __future__ import annotations

import asyncio
import threading

from discreet.service.engine import Engine
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
        shown, altered = engine.without(shop, hand, offset, set(ITEMS[:11]))
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
