"""Nothing of one person's outcomes leaves the service but through noise.

Where noise is added to sums, it is added to zeros here, and a vanishing budget leaves no score a say in a
draw. The same story, with the same clocks and seeds, is then told twice with other outcomes and histories of
one person. What anybody else sees must be the same, byte for byte: answers, pages, logs, metrics, webhooks.
Not compared are answers to the person's own outcomes, and their own personal sets.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import json
import logging
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import quote

import numpy as np
import pytest
from prometheus_client import generate_latest

from discreet.core import page
from discreet.online.sums import BatchTotal, PrivateTotal
from discreet.privacy.prefix_sum import RunningSum
from discreet.service import api, auth, backup, database, engine, groups, metrics, shares, web, webhooks
from discreet.service import worker as working
from discreet.service.auth import Secrets
from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.database import Ended, StoreError
from discreet.service.engine import DecisionEngine
from discreet.service.learning import Learning
from discreet.service.shares import Measure
from discreet.service.web import App
from discreet.service.worker import Worker

from .machine import Quick

ITEMS = [f"item {number}" for number in range(8)]
TARGET, OTHERS = "ann", ["ben", "cleo", "dan", "eve"]
START = datetime.datetime(2026, 11, 29, 23, tzinfo=datetime.UTC).timestamp()
WAIT = 10.0


# --- what happens --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """Something that happens; ``told`` are the values that somebody reports, one for each of two worlds."""

    kind: str
    about: tuple[Any, ...] = ()
    told: tuple[Any, Any] = (None, None)
    own: bool = False  # the answer is the target's, and was asked for with the target's data


ADDED = ["new 1", "new 3"]
NOTHING = object()  # no request at all
ODD = [  # outcomes that are taken, or refused
    {"taken": None, "value": 1.0},
    {"value": -1.0},
    {"value": "x"},
    {"likes": "item 1"},
    {"likes": ["nowhere"]},
    {"taken": "nowhere"},
    {"likes": ["item 1"] * 1001},
    {"likes": ["x" * 70_000]},
    {"nonsense": True},
    b"{",
    b"\xff",
    b'{"likes": ["\\ud800"]}',
    b'{"taken": "\\ud800"}',
    b'{"value": 1e400}',
    b"[" * 100_000,
    NOTHING,
]
DEEP = b'{"likes": %b%b, "taken": ["\\"]"]}' % (b"[" * 100_000, b"]" * 100_000)


def outcome(rng, config):
    """What is reported of a decision: what is asked for, or anything else."""
    if rng.random() < 0.3:
        return rng.choice(ODD)
    if config.personal:
        return {"likes": rng.sample(ITEMS, rng.randrange(5)), "served": rng.random() < 0.5}
    if config.feedback == "full":
        return {"likes": rng.sample([*ITEMS, "elsewhere"], rng.randrange(5))}
    if config.feedback == "slots":
        return {"taken": rng.choice([None, 0, 0, 1, "item 3", *ADDED])}  # a number: the item at that place
    return {"value": rng.choice([0.0, 1.0, 0.5, 1e-300, 1, -0.0])}


def history(rng):
    return rng.sample([*ITEMS, "elsewhere"], rng.randrange(8))


def story(rng, configs, people, length):
    """A story about these experiments, with the outcomes of both worlds."""
    events, decided = [], []
    for _ in range(length):
        one = rng.randrange(len(configs))
        config = configs[one]
        segment = rng.choice(config.segments) if config.segments else None
        kind = rng.choices(("decide", "report", "many", "wait", "tick", "rare"), (8, 8, 3, 1.5, 3, 2.5))[0]
        if kind == "decide":
            person = rng.choice([TARGET, TARGET, *OTHERS, None if people.anonymous else "ben"])
            form = rng.choice(["plain", "plain", "key", "event", "rank", "many", "token"])
            if form == "rank" and (config.feedback != "bandit" or segment or config.sticky):
                form = "key"
            if form == "event" and config.sticky:
                form = "key"
            said = (NOTHING, NOTHING)
            if config.personal and form in ("plain", "key", "event") and rng.random() < 0.8:
                mine = history(rng)
                said = (mine, history(rng) if person == TARGET else mine)
            exclude = rng.sample(ITEMS, rng.randrange(3)) if rng.random() < 0.3 else []
            whom = [person]
            if form == "many":
                whom = [rng.choice([TARGET, *OTHERS]) for _ in range(5)]
            given = (one, form, tuple(whom), segment, tuple(exclude), rng.randrange(12), rng.random() < 0.3)
            events.append(Event("decide", given, said, own=said[0] is not said[1]))
            decided += [(len(events) - 1, at, one, who) for at, who in enumerate(whom)]
        elif kind in ("report", "many"):
            if not decided:
                continue
            some = [rng.choice(decided[-8:]) for _ in range(rng.randrange(1, 6) if kind == "many" else 1)]
            told = []
            for *_, which, who in some:
                mine = outcome(rng, configs[which])
                told.append((mine, outcome(rng, configs[which]) if who == TARGET else mine))
            own = any(who == TARGET for *_, who in some)
            events.append(Event(kind, tuple(some), tuple(zip(*told, strict=True)), own=own))
        elif kind == "wait":
            events.append(Event("wait", (rng.choice([0.5, WAIT, 2 * WAIT, 100.0]),)))
        elif kind == "tick":
            events.append(Event("tick"))
        else:
            what = rng.choice(
                [
                    "month",
                    "restart",
                    "crash",
                    "pause",
                    "resume",
                    "items",
                    "erase",
                    "look",
                    "look",
                    "end",
                    "forget",
                ]
            )
            who = rng.choice([TARGET, TARGET, *OTHERS])
            if what == "end" and rng.random() < 0.7:
                continue
            events.append(Event(what, (one, who, rng.randrange(5), rng.random() < 0.5)))
    return [*events, Event("wait", (100.0,)), Event("tick"), Event("month"), Event("look")]


# --- a service that stands still between two events ------------------------------------------------------


class Clock:
    """Both clocks of the machine, for the modules of the service."""

    def __init__(self):
        self.now = START
        told = {name: getattr(time, name) for name in ("strftime", "gmtime", "sleep", "CLOCK_MONOTONIC")}
        read = dict.fromkeys(("time", "monotonic", "perf_counter"), lambda: self.now)
        self.module = SimpleNamespace(
            **told, **read, time_ns=lambda: int(self.now * 1e9), clock_gettime=lambda _: self.now
        )

    def date(self):
        return datetime.datetime.fromtimestamp(self.now, datetime.UTC)


class Draws:
    """What is drawn to be unguessable, and says nothing: each kind counts for itself."""

    def __init__(self):
        self._counts = {}

    def _next(self, kind):
        return next(self._counts.setdefault(kind, itertools.count(1)))

    def token_bytes(self, size):
        return self._next(f"bytes {size}").to_bytes(size, "big")

    def token_hex(self, size):
        return self.token_bytes(size).hex()

    def randbelow(self, _):
        return self._next("below")


def _noise_alone(noisy):
    return lambda total, sums: noisy(total, np.zeros_like(sums))


class Town:
    """A service in this process, and all that is seen of it."""

    def __init__(self, folder, configs, people, world):
        self.folder, self.configs, self.people, self.world = folder, configs, people, world
        self.clock, self.seen, self.answers = Clock(), [], {}
        self.patches, self.lines = ExitStack(), []
        self.secrets = Secrets(
            {name: bytes([at]) * 32 for at, name in enumerate(("decisions", "people", "sessions"))}
        )
        patch = self.patches.enter_context
        for module in (api, auth, database, engine, metrics, web, webhooks, working):
            patch(mock.patch.object(module, "time", self.clock.module))
        patch(mock.patch.object(auth, "system", Draws()))
        patch(mock.patch.object(metrics, "new_token", return_value="0"))  # ids of requests
        patch(mock.patch.object(engine, "_IDLE", 0.0))
        patch(mock.patch.object(engine, "_EARLY", -1.0))  # no other process records decisions
        patch(mock.patch.object(shares, "_LARGE", 1e-30))  # shares are released, though they are all noise
        patch(mock.patch.object(page, "datetime", SimpleNamespace(now=lambda _: self.clock.date())))
        patch(mock.patch.object(RunningSum, "_released", _noise_alone(RunningSum._released)))
        patch(mock.patch.object(BatchTotal, "noisy", _noise_alone(BatchTotal.noisy)))
        patch(mock.patch.object(PrivateTotal, "compiles", False))
        patch(mock.patch.object(webhooks, "send", self._sent))
        patch(mock.patch.object(api, "_expiries", {}))
        handler = logging.Handler()
        handler.emit = lambda record: self.lines.append(self._line(record))
        logger = logging.getLogger("discreet")
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        self.patches.callback(logger.setLevel, before)
        self.patches.callback(logger.removeHandler, handler)

    def _line(self, record):
        found = json.loads(metrics.JsonLines().format(record))
        return {key: value for key, value in found.items() if key not in ("time", "ms", "request")}

    def _sent(self, url, secret, body, _):
        self.seen.append(("webhook", url, secret, body))
        return b"1" not in body[:30]

    async def start(self, fresh=False):
        store = Quick(self.folder / "service.db")
        self.engine = DecisionEngine(store, self.secrets, calendar=self.clock.date)
        self.app = App(self.engine)
        self.metrics = metrics.Metrics(store)
        self.front = metrics.Instrumented(self.app, metrics.RequestLog(), self.metrics)
        await self.engine.start(work=False)
        for task in self.engine._tasks:  # `look` does what they do
            task.cancel()
        self.engine._tasks = []
        if fresh:
            number, self.key = self.app.keys.create("test", "admin")
            _, self.reading = self.app.keys.create("reader", "analyst")
            _, self.reports = self.app.keys.create("devices", "app")
            self.session = self.app._pages.sessions.begin(number)
            self.engine.worker.create_population("people", self.people)
            for at, config in enumerate(self.configs):
                self.engine.worker.create(f"shop{at}", "people", config)
                await self.ask(
                    "POST", f"/v1/experiments/shop{at}/webhooks", {"url": "https://there.example/"}
                )
        self.app.keys.refresh()

    async def stop(self):
        await self.engine.stop()

    def crash(self):
        self.engine._writer.shutdown()
        self.engine.store.close()

    async def ask(self, method, path, body=None, key=None, page=False, **headers):
        said = []
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(message):
            said.append(message)

        path, _, query = path.partition("?")
        own = (
            {"cookie": f"{auth.COOKIE}={self.session}"}
            if page
            else {"authorization": f"Bearer {key or self.key}"}
        )
        sent = own | {"host": "here"} | headers
        raw = [(name.encode(), value.encode()) for name, value in sent.items()]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": raw,
        }
        answer = self.front(scope | {"scheme": "http", "server": ("here", 80)}, receive, send)
        asking = asyncio.ensure_future(answer)
        while not (await asyncio.wait([asking], timeout=1.0))[0]:
            self.engine._begin_group()  # it waits for a group that is tried again
        await asking
        await self._settle()
        answered = sorted(one for one in said[0]["headers"] if one[0] != b"x-request-id")
        return said[0]["status"], answered, b"".join(one.get("body", b"") for one in said)

    async def _settle(self):
        """Nothing is under way any more."""
        while True:
            busy = [one.leasing for one in self.engine._queues() if one.leasing is not None]
            busy += [self.engine._flushing] if self.engine._flushing is not None else []
            if busy:
                await asyncio.wait(busy)
            elif self.engine._dirty or self.engine._served:  # blocks that were closed
                await self.engine._flush_now()
            else:
                return

    # --- events --------------------------------------------------------------------------------------

    async def happen(self, number, event):
        found = await getattr(self, f"_{event.kind}")(number, event, event.told[self.world])
        if found is not None:
            self.seen.append((number, event.kind, found))
        self.seen.append((number, "log", list(self.lines)))
        self.lines.clear()

    async def _decide(self, number, event, said):
        one, form, whom, segment, exclude, named, again = event.about
        own, asked, headers = f"/v1/experiments/shop{one}", {}, {}
        self._work()
        if exclude:
            asked["exclude"] = list(exclude)
        if segment:
            asked["segment"] = segment
        if said is not NOTHING:
            asked["history"] = said
        if form == "many":
            asked["people"] = list(whom)
        elif whom[0] is not None and form != "token":
            asked["person"] = whom[0]
        if form == "key":
            headers["idempotency-key"] = f"k {named}"
        if form == "event":
            asked["event"] = f"e {named}"
        key, path = None, f"{own}/decisions"
        if form == "token":
            *_, body = await self.ask("POST", f"{own}/tokens", {"person": whom[0], "seconds": 3600})
            key = json.loads(body).get("token", "none")
        if form == "rank":
            path = f"{own}/personalizer/v1.0/rank"
            asked = {"actions": [{"id": item} for item in ITEMS], "eventId": f"e {named}"} | (
                {"person": whom[0]} if whom[0] else {}
            )
            asked |= {"deferActivation": named % 2 == 0, "excludedActions": list(exclude)}
        found = await self.ask("POST", path, asked, key, **headers)
        if again:
            twice = await self.ask("POST", path, asked, key, **headers)
            self.seen.append((number, "again", self._public(twice, event)))
        told = json.loads(found[2])
        for at, answer in enumerate(told.get("decisions", [told])):
            if form == "event" and "decision_id" in answer:
                answer["event"] = f"e {named}"
            self.answers[number, at] = answer
        return self._public(found, event)

    def _public(self, found, event):
        """An answer without a set that follows from its own person's history."""
        status, headers, raw = found
        if event.own and status == 200:
            told = json.loads(raw)
            told["items"] = None
            raw = json.dumps(told)
            headers = [one for one in headers if one[0] != b"content-length"]
        return status, headers, raw

    def _body(self, told, answer):
        """An outcome as it is sent."""
        if isinstance(told, dict) and isinstance(told.get("taken"), int):
            items = answer.get("items") or [None]
            return {"taken": items[told["taken"] % len(items)]}
        return told

    async def _report(self, number, event, told):
        (where, at, one, who), (told,) = event.about[0], told
        answer = self.answers.get((where, at), {})
        if told is NOTHING or not answer:
            return None
        own = f"/v1/experiments/shop{one}"
        if "eventId" in answer:
            event_id = quote(answer["eventId"], safe="")
            # Whether somebody has seen a set is as private as the outcome.
            if number % 3 == 0 and (who != TARGET or (number + self.world) % 2):
                await self.ask(
                    "POST", f"{own}/personalizer/v1.0/events/{event_id}/activate", None, self.reports
                )
            path = f"{own}/personalizer/v1.0/events/{event_id}/reward"
        elif "event" in answer:
            path = f"{own}/events/{quote(answer['event'], safe='')}/outcome"
        else:
            path = f"/v1/decisions/{answer.get('decision_id', 'none')}/outcome"
        found = await self.ask("POST", path, self._body(told, answer), self.reports)
        return None if who == TARGET else found

    async def _many(self, _, event, told):
        asked, others = [], []
        for (where, at, *_, who), one in zip(event.about, told, strict=True):
            answer = self.answers.get((where, at), {})
            if one is NOTHING:
                continue
            body = self._body(one, answer)
            whole = (
                DEEP if isinstance(body, bytes) else {"decision_id": answer.get("decision_id", "none")} | body
            )
            others.append(who != TARGET)
            asked.append(whole if isinstance(whole, bytes) else json.dumps(whole).encode())
        sent = b"[%b]" % b", ".join(asked)
        status, headers, raw = await self.ask("POST", "/v1/outcomes", sent, self.reports)
        if status != 200:
            return status, headers, raw
        return [one for one, shown in zip(json.loads(raw), others, strict=True) if shown]

    async def _wait(self, _, event, *__):
        self.clock.now += event.about[0]

    def _work(self):
        for _ in range(50):
            if not sum(self.engine.worker.tick(one) for one in self.engine.worker.due()):
                break

    async def _tick(self, *_):
        """What the worker and the loops of the engine do."""
        self._work()
        await self.engine._flush_now()
        for live in list(self.engine._live.values()):
            for queue in live.queues:
                self.engine._close_old(queue)
            await self.engine.look_at(live)
        self.app._refresh()
        hooks, before = self.app._webhooks, len(self.seen)
        hooks.look()
        for turn in hooks.turns.values():
            turn.join()
        self.seen[before:] = sorted(self.seen[before:])  # each receiver has a thread
        await self._settle()

    async def _month(self, *_):
        date = self.clock.date()
        self.clock.now = (date.replace(day=1) + datetime.timedelta(days=32)).replace(day=2).timestamp()
        await self._tick()

    async def _restart(self, *_):
        await self.stop()
        await self.start()

    async def _crash(self, *_):
        self.crash()
        await self.start()

    async def _pause(self, _, event, *__):
        return await self.ask("POST", f"/v1/experiments/shop{event.about[0]}/pause")

    async def _resume(self, _, event, *__):
        return await self.ask("POST", f"/v1/experiments/shop{event.about[0]}/resume")

    async def _end(self, _, event, *__):
        return await self.ask("POST", f"/v1/experiments/shop{event.about[0]}/end")

    async def _items(self, _, event, *__):
        one, _, new, retire = event.about
        asked = {"add_items": [f"new {new}"], "retire_items": [ITEMS[new % 8]] if retire else []}
        if new % 2 and not self.configs[one].personal:  # in another process
            with contextlib.suppress(ValueError, KeyError, Ended, StoreError):
                self.engine.worker.change_items(one + 1, *asked.values())
            return None
        return await self.ask("PATCH", f"/v1/experiments/shop{one}", asked)

    async def _erase(self, _, event, *__):
        return await self.ask("POST", "/v1/populations/people/erase", {"people": [event.about[1]]})

    async def _forget(self, *_):
        groups.forget_requests(self.engine.store)
        self.engine.worker.forget_people()

    async def _look(self, *_):
        """Everything that anybody may read."""
        found = {}
        plain = ["/v1/experiments", "/v1/populations", "/v1/populations/people/account"]
        plain += [f"/v1/populations/people/account?format={form}" for form in ("csv", "html")]
        plain += ["/v1/populations/people/ledger", "/v1/populations/people/account.nothing", "/health/ready"]
        parts = (
            "",
            "/status",
            "/account",
            "/releases",
            "/releases?format=csv",
            "/shares",
            "/epochs",
            "/items",
            "/model",
        )
        plain += [f"/v1/experiments/shop{at}{part}" for at in range(len(self.configs)) for part in parts]
        for path in plain:
            found[path] = await self.ask("GET", path, key=None if path.endswith("/model") else self.reading)
        for path in (
            "/v1/audit",
            "/v1/keys",
            *[f"/v1/experiments/shop{at}/webhooks" for at in range(len(self.configs))],
        ):
            found[path] = await self.ask("GET", path)
        pages = [
            "/experiments",
            "/parts/experiments",
            "/populations",
            "/populations/people",
            "/audit",
            "/keys",
        ]
        for at in range(len(self.configs)):
            pages += [f"/experiments/shop{at}", f"/parts/experiments/shop{at}"]
            pages += [f"/parts/experiments/shop{at}/{part}" for part in ("numbers", "shares", "items")]
            pages += [f"/experiments/shop{at}/sure/end", f"/experiments/shop{at}/sure/delete"]
        for path in pages:
            found[f"page {path}"] = await self.ask("GET", path, page=True)
        text = generate_latest(self.metrics.registry).decode()
        found["metrics"] = [line for line in text.splitlines() if "_created" not in line]
        found["verify"] = backup.verify(self.engine.store)
        return found


def told(folder, configs, people, events, world):
    """All that is seen of a story in one of its worlds."""

    async def run():
        town = Town(folder, configs, people, world)
        with town.patches:
            await town.start(fresh=True)
            for number, event in enumerate(events):
                await town.happen(number, event)
            await town.stop()
        return town.seen

    folder.mkdir(parents=True)
    return asyncio.run(run())


def difference(first, second):
    """Where two accounts of a story part, in words; None if they are the same."""
    for one, other in itertools.zip_longest(first, second):
        if one != other:
            if isinstance(one, tuple) and isinstance(other, tuple) and isinstance(one[-1], dict):
                changed = {
                    key: (one[2][key], other[2].get(key))
                    for key in one[2]
                    if one[2][key] != other[2].get(key)
                }
                return f"{one[:2]}: {changed}"
            return f"{one}\n{other}"
    return None


# --- the stories -----------------------------------------------------------------------------------------


def experiment(**more):
    plain = {
        "items": ITEMS,
        "k": 2,
        "block_size": 4,
        "outcome_wait": WAIT,
        "share": 0.5,
        "seed": 5,
        "holdout": 0.3,
    }
    return ExperimentConfig(**plain | more)


PEOPLE = {
    "epsilon": 1e-6, "delta": 1e-8, "definition": "gdp", "max_rounds_per_person": 3, "period": "month",
}  # fmt: skip
SOON = {"first_batch": 4}
KINDS = {
    "full": experiment(options=SOON),
    "full, no hold-out": experiment(options=SOON, holdout=0.0, measure=0.0),
    "full, segments": experiment(options=SOON, segments=["de", "fr"]),
    "full, sticky": experiment(options=SOON, sticky=60.0),
    "full, candidates": experiment(options=SOON, candidates=ITEMS[:4]),
    "full, control": experiment(options=SOON, control=ITEMS[:2]),
    "phased": experiment(learner="PhasedSelector", rounds=400),
    "slots": experiment(feedback="slots", options={"block": 4}),
    "slots, segments": experiment(feedback="slots", options={"block": 4}, segments=["de", "fr"]),
    "slots, sticky": experiment(feedback="slots", options={"block": 4}, sticky=60.0),
    "bandit": experiment(feedback="bandit", k=1, options={"block": 4}),
    "values": experiment(feedback="bandit", options={"block": 4}),
    "personal": experiment(learner="PersonalSelector", options=SOON),
}


def compared(folder, seed, kinds, length=40, **more):
    """The first difference between both worlds of one story."""
    rng = random.Random(seed)
    people = PopulationConfig(**PEOPLE | more)
    return two_worlds(
        folder,
        [KINDS[kind] for kind in kinds],
        people,
        story(rng, [KINDS[one] for one in kinds], people, length),
    )


def two_worlds(folder, configs, people, events):
    return difference(*(told(folder / str(world), configs, people, events, world) for world in (0, 1)))


PAIRS = [["slots", "full"], ["values", "personal"], ["full, segments", "slots, segments"]]


@pytest.mark.parametrize("kinds", [*([kind] for kind in KINDS), *PAIRS], ids="; ".join)
def test_nobody_else_sees_what_somebody_took(tmp_path, kinds):
    assert compared(tmp_path, 1, kinds, anonymous=len(kinds) == 2) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 40))
def test_nobody_else_sees_what_somebody_took_at_length(tmp_path, seed):
    for number, kinds in enumerate([*([kind] for kind in KINDS), *PAIRS]):
        more = {"anonymous": seed % 2 == 0, "neighbours": ["replace", "add_remove"][seed % 3 == 0]}
        assert compared(tmp_path / str(number), seed, kinds, 80, **more) is None


def decision(person):
    return Event("decide", (0, "plain", (person,), None, (), 0, False), (NOTHING, NOTHING))


def reported(number, person, *told):
    return Event("report", ((number, 0, 0, person),), tuple((one,) for one in told), own=person == TARGET)


# After a start somebody reports, or nobody does; a month ends, and somebody else asks.
FIRST = [
    decision(TARGET),
    decision("ben"),
    Event("restart"),
    reported(0, TARGET, {"likes": ["item 1"]}, NOTHING),
    Event("wait", (5 * 86400.0,)),
    decision("eve"),
]


# --- faults ----------------------------------------------------------------------------------------------


def served_alone(count):
    """Shares are of the decisions of which something was taken."""
    return lambda measure, segment, baseline, part: part and count(measure, segment, baseline, part)


def heard_alone(aggregate):
    """Rounds of which nobody reports are no rounds."""

    def aggregated(learning, block, outcomes):
        block.uncounted |= {at for at in range(block.count) if block.first + at not in outcomes}
        return aggregate(learning, block, outcomes)

    return aggregated


def erased_with_a_number(erase):
    """The log says how much was erased."""

    def erased(worker, name, pseudonym):
        with worker.store.transaction() as tx:
            before = tx.one("SELECT count(*) FROM outcome WHERE body IS NOT NULL")
            working.audit(tx, f"erasing some of {before}")
        return erase(worker, name, pseudonym)

    return erased


def adopted(was_added):
    """An outcome with a new item makes this process read the catalogue."""

    async def added(one, live, label):
        await one.refresh(live.name)
        return await was_added(one, live, label)

    return added


def read_for_good(_):
    """What an outcome has made this process read, stays as it is."""

    async def found(one, name, **_):
        known = one._live.get(name)
        return known if known is not None else await one.refresh(name)

    return found


def one_for_all(raw):
    """A list with a part that cannot be read is refused as a whole."""
    try:
        return list(api._parts.decode(raw))
    except RecursionError:
        raise api.BAD_BODY.with_() from None


LIKED, TOOK = {"likes": ["item 1"]}, {"taken": 0}
LOOK, LATER, TICK = Event("look"), Event("wait", (100.0,)), Event("tick")
FOUR = [decision(one) for one in (TARGET, "ben", "cleo", "dan")]  # a block
SLOTS = [*FOUR, reported(0, TARGET, TOOK, {"taken": None}), decision("eve"), LATER, TICK, LOOK]
MORE = [decision(one) for one in [TARGET, TARGET, *OTHERS, *OTHERS]]
FULL = [*FOUR, *MORE, *[reported(number, TARGET, LIKED, NOTHING) for number in (0, 4, 5)], LATER, TICK, LOOK]
ERASED = [*FOUR, reported(0, TARGET, TOOK, NOTHING), Event("erase", (0, TARGET, 0, False)), LOOK]
NEW_ITEM = [decision(TARGET), decision("ben"), Event("items", (0, TARGET, 1, False))]
NEW_ITEM += [reported(0, TARGET, {"taken": "new 1"}, {"taken": None}), decision("eve")]
BATCH = tuple((number, 0, 0, who) for number, who in ((0, TARGET), (1, "ben")))
TOGETHER = [*FOUR, Event("many", BATCH, ((b"[", TOOK), (TOOK, TOOK)), own=True)]
FAULTS = {
    "sums without noise": (BatchTotal, "noisy", lambda _: lambda _, sums: sums, "slots", SLOTS),
    "true sums below noise": (RunningSum, "_released", lambda noisy: noisy, "full", FULL),
    "shares of those who took something": (Measure, "count", served_alone, "slots", SLOTS),
    "rounds of those who report": (Learning, "aggregate", heard_alone, "full", FULL),
    "metrics of outcomes": (metrics, "_UNCOUNTED", lambda _: (), "full", FULL),
    "keys used for outcomes": (api, "_OUTCOMES", lambda _: (), "full", FULL),
    "erasing counts": (Worker, "erase", erased_with_a_number, "slots", ERASED),
    "catalogues by outcomes": (DecisionEngine, "was_added", adopted, "slots", NEW_ITEM),
    "parts that others are refused with": (api, "parts_of", lambda _: one_for_all, "slots", TOGETHER),
    "a first outcome is the first to ask": (DecisionEngine, "live", read_for_good, "full", FIRST),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(tmp_path, monkeypatch, fault):
    place, name, made, kind, events = FAULTS[fault]
    faulty, start = made(getattr(place, name)), Town.start

    async def start_with_it(town, **how):  # in the place of what the town has put there
        setattr(place, name, faulty)
        await start(town, **how)

    people = PopulationConfig(**PEOPLE)
    assert two_worlds(tmp_path / "sound", [KINDS[kind]], people, events) is None
    monkeypatch.setattr(place, name, getattr(place, name))
    monkeypatch.setattr(Town, "start", start_with_it)
    assert two_worlds(tmp_path / "faulty", [KINDS[kind]], people, events) is not None
