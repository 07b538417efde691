"""One process that serves: groups of outcomes and their answers."""

from __future__ import annotations

import asyncio
import threading

from discreet.service.engine import Engine
from discreet.service.keys import Secrets
from discreet.service.store import open_store

from .world import World, likes


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
        answer = engine.record(shop, decision, b'["item 1"]')
        go.set()
        assert await asyncio.wait_for(answer, 60) == "recorded"
        await engine.stop()

    asyncio.run(story())
