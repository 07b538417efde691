"""Routes, pages and settings in this process, without a socket: numbers against those computed by hand."""

from __future__ import annotations

import ast
import asyncio
import calendar
import contextlib
import gc
import inspect
import json
import time
import tracemalloc
from types import SimpleNamespace
from urllib.parse import urlencode

import msgspec
import pytest
from starlette.requests import Request

from discreet.service import api, auth, groups, limits, queries, web
from discreet.service.api import DOCUMENTED, OPERATIONS, PERSONALIZER, NewExperiment, PlanRequest, Problem
from discreet.service.auth import DAY, DecisionId, Keys, Secrets, new_lease
from discreet.service.config import ExperimentConfig, PopulationConfig, ServiceSettings
from discreet.service.database import CLOSING, OPEN, Conflict, StoreError, Transaction, open_store
from discreet.service.engine import DecisionEngine
from discreet.service.web import App, Form, Range

from .world import ITEMS, World, likes, taken


class Inside:
    """An application and an admin's key; requests over ASGI."""

    def __init__(self, folder, **more):
        self.app = App(DecisionEngine(open_store(f"sqlite:///{folder}/service.db"), Secrets.fresh()), **more)
        self.engine, self.cookie, self.token = self.app.engine, "", ""

    async def ask(self, method, path, body=None, **headers):
        """(status, what was answered: the values of JSON, or text)."""
        said, (path, _, query) = [], path.partition("?")
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(message):
            said.append(message)

        sent = {"authorization": f"Bearer {self.key}", "host": "here"} | headers
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
        scope |= {"headers": [(name.encode(), value.encode()) for name, value in sent.items()]}
        scope |= {"scheme": "http", "server": ("here", 80)}
        await self.app(scope, receive, send)
        raw = b"".join(one.get("body", b"") for one in said).decode()
        kind = dict(said[0]["headers"]).get(b"content-type", b"")
        return said[0]["status"], json.loads(raw) if b"json" in kind else raw

    async def page(self, path, **form):
        """A page for an admin, or what a form of it is answered."""
        headers = {"cookie": f"{auth.COOKIE}={self.cookie}"}
        if not form:
            return await self.ask("GET", path, **headers)
        return await self.ask(
            "POST", path, urlencode({"token": self.token} | form).encode(), origin="http://here", **headers
        )


@contextlib.asynccontextmanager
async def inside(folder, *configs, people=None, **more):
    """With these experiments, called shop, shop1 and so on."""
    found = Inside(folder, **more)
    await found.engine.start(every=found.app.keys.refresh)
    try:
        number, found.key = found.app.keys.create("test", "admin")
        found.cookie = found.app._pages.sessions.begin(number)
        found.token = found.app._pages.sessions.read(found.cookie).token
        for one, config in enumerate(configs):
            name = f"shop{one or ''}"
            whose = people or PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp", anonymous=True)
            found.engine.worker.create_population(name, whose)
            found.engine.worker.create(name, name, config)
            await found.engine.refresh(name)
        yield found
    finally:
        await found.engine.stop()
        found.engine.store.close()


def at(found):
    return found[0], found[1].get("at")


@pytest.mark.parametrize("junk", [b"\\a", b"[", b'"', b"x"])
def test_a_long_list_of_junk_takes_little_memory(junk):
    """It took fifty times its length, and seconds in which nobody got a decision."""
    raw = b"[%b]" % (junk * ((1 << 22) // len(junk)))
    tracemalloc.start()
    with contextlib.suppress(Problem):
        api.parts_of(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(raw)


def test_the_log_does_not_count_outcomes_that_could_not_be_written(tmp_path, monkeypatch, caplog):
    """Only the first failure of a batch is awaited: asyncio had a line for each of the others."""

    def fail(*_):
        raise StoreError("a full disk")

    async def sent():
        async with inside(tmp_path, likes()) as service:
            made = await service.ask("POST", "/v1/experiments/shop/decisions", {"count": 6})
            said = [{"decision_id": one["decision_id"], "likes": []} for one in made[1]["decisions"]]
            while service.engine._flushing is not None:
                await asyncio.sleep(0.01)
            with monkeypatch.context() as patched:
                patched.setattr(groups, "record", fail)
                return (await service.ask("POST", "/v1/outcomes", said))[0]

    assert asyncio.run(sent()) == 503
    gc.collect()
    assert not [one for one in caplog.records if one.name == "asyncio"]


@pytest.mark.parametrize("where", ["api", "pages"])
def test_a_request_that_arrives_slowly_does_not_outlive_its_key(tmp_path, where):
    """Somebody with a stolen key could keep requests open, and make new keys once it was revoked."""

    async def sent():
        async with inside(tmp_path) as service:
            keys, said = service.app.keys, []
            number, token = keys.create("stolen", "admin")
            api, body = where == "api", {"name": "another", "role": "admin"}
            cookie = service.app._pages.sessions.begin(number)
            form = service.app._pages.sessions.read(cookie).token
            words = {"authorization": f"Bearer {token}"} if api else {"cookie": f"{auth.COOKIE}={cookie}"}
            words |= {"host": "here", "origin": "http://here"}

            async def receive():
                keys.revoke(number)
                raw = json.dumps(body) if api else urlencode(body | {"token": form})
                return {"type": "http.request", "body": raw.encode()}

            async def send(message):
                said.append(message)

            scope = {"type": "http", "method": "POST", "path": "/v1/keys" if api else "/keys"}
            scope |= {"headers": [(name.encode(), one.encode()) for name, one in words.items()]}
            scope |= {"query_string": b"", "scheme": "http", "server": ("here", 80)}
            await service.app(scope, receive, send)
            return said[0]["status"], [one["name"] for one in keys.listed()]

    status, names = asyncio.run(sent())
    assert status == 401
    assert "another" not in names


# --- requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("POST", "decisions"), ("GET", "model")])
def test_pages_of_a_known_site_may_ask_for_decisions_and_for_the_model(tmp_path, method, path):
    """A browser asks first, without a key; a page of another site is told no."""
    settings = ServiceSettings(
        store=f"sqlite:///{tmp_path}/store", secrets=f"{tmp_path}/secrets", origins="https://shop.example"
    )
    web.prepare(settings)
    here = Inside.__new__(Inside)
    here.key, app = "", web.application(settings)
    here.app = web.instrumented(app, settings)
    more = {"access-control-request-method": method, "access-control-request-headers": "authorization"}
    for origin, status in (("https://shop.example", 200), ("https://other.example", 400)):
        asked = here.ask("OPTIONS", f"/v1/experiments/shop/{path}", origin=origin, **more)
        assert asyncio.run(asked)[0] == status
    app.engine.store.close()


def test_a_request_that_is_sent_again_in_the_next_period_has_the_same_answer(tmp_path):
    """Its person has another pseudonym there, and is the same person."""

    async def story():
        people = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp")
        async with inside(tmp_path, likes(outcome_wait=3600.0, feedback="bandit"), people=people) as here:
            own, ann = "/v1/experiments/shop", {"person": "ann"}
            rank = {"eventId": "r", "actions": [{"id": one} for one in ITEMS]} | ann
            asked = [
                (f"{own}/decisions", ann, {"idempotency-key": "once"}),
                (f"{own}/decisions", ann | {"event": "visit"}, {}),
                (f"{own}/personalizer/v1.0/rank", rank, {}),
            ]
            first = [await here.ask("POST", path, body, **more) for path, body, more in asked]
            assert [status for status, _ in first] == [200, 200, 201]
            later = here.engine.worker.clock().replace(year=2100)
            here.engine.worker.clock = lambda: later
            while (await here.engine.refresh("shop")).epoch == 0:
                await asyncio.sleep(0.02)
            assert [await here.ask("POST", path, body, **more) for path, body, more in asked] == first

    asyncio.run(story())


def test_what_a_request_leaves_out_is_a_set(tmp_path):
    """It is the same request in another order, as that of a set of Python is in another process."""

    async def story():
        async with inside(tmp_path, taken(outcome_wait=3600.0)) as here:
            excluded = [["item 1", "item 2"], ["item 2", "item 1", "item 2"], ["item 1"]]
            asked = [
                here.ask(
                    "POST", "/v1/experiments/shop/decisions", {"exclude": one}, **{"idempotency-key": "a"}
                )
                for one in excluded
            ]
            first, again, other = [(await one)[1] for one in asked]
            assert first == again != other

    asyncio.run(story())


def test_batches_have_one_answer_for_each(tmp_path):
    async def story():
        async with inside(tmp_path, likes(outcome_wait=3600.0)) as here:
            path = "/v1/experiments/shop/decisions"
            status, three = await here.ask("POST", path, {"count": 3})
            assert (status, len(three["decisions"])) == (200, 3)
            ids = [one["decision_id"] for one in three["decisions"]]
            assert [here.engine.secrets.verify(one).sequence for one in ids] == [0, 1, 2]
            two = (await here.ask("POST", path, {"people": ["ann", "ben"]}))[1]["decisions"]
            assert len(two) == 2
            assert "decision_id" in (await here.ask("POST", path))[1]
            for wrong, where in (
                ({"people": ["ann"], "count": 2}, "$.people"),
                ({"people": ["ann"], "person": "ben"}, "$.people"),
                ({"event": "e", "count": 2}, "$.event"),
                ({"history": ["item 1"]}, "$.history"),
            ):
                assert at(await here.ask("POST", path, wrong)) == (422, where)
            assert (await here.ask("POST", path, {"event": "e"}))[0] == 200
            event = "/v1/experiments/shop/events/e/outcome"
            found = await here.ask("POST", event, {"likes": []})
            assert found == (200, {"status": "recorded", "counted": True})
            answers = [{"decision_id": one, "likes": ["item 1"]} for one in ids[:2]]
            found = await here.ask("POST", "/v1/outcomes", answers)
            assert found == (200, [{"status": "recorded", "counted": True}] * 2)
            # A body has 64 KiB; one of batches a MiB, of outcomes each, and a thousand decisions.
            one, many = {"likes": ["x" * 512] * 150}, {"exclude": ["x" * 512] * 150}
            assert (await here.ask("POST", f"/v1/decisions/{ids[2]}/outcome", one))[0] == 413
            assert (await here.ask("POST", "/v1/outcomes", [{"decision_id": ids[2], **one}]))[0] == 200
            assert (await here.ask("POST", path, many))[0] == 200
            long = {"decision_id": ids[0], "likes": ["x" * 512] * 2100}
            told = await here.ask("POST", "/v1/outcomes", [long, {"decision_id": ids[2], "likes": []}])
            assert [one["status"] for one in told[1]] == ["refused", "duplicate"]
            deep = b"[" * 100_000 + b"]" * 100_000
            known = b'{"decision_id": "%b", "likes": ["a \\"], [", "b"]}' % ids[2].encode()
            surrogate = b"9" * 5000 + b', {"taken": "\\ud800"}'
            for odd in (b'{"likes": %b}' % deep, surrogate, b'{"value": NaN}'):
                status, told = await here.ask("POST", "/v1/outcomes", b" [%b, %b] " % (odd, known))
                assert status == 200
                assert {one["status"] for one in told[:-1]} == {"refused"}
                assert told[-1]["status"] == "duplicate"
            for wrong in (b"[}{, %b]" % known, b"[" + known, b'["]', b"[%b" % deep, b"{%b}" % deep):
                assert at(await here.ask("POST", "/v1/outcomes", wrong)) == (422, "$")
            assert (await here.ask("POST", path, {"exclude": ["x" * 512] * 2100}))[0] == 413
            known = {"decision_id": ids[0], "likes": []}
            assert [(await here.ask("POST", "/v1/outcomes", [known] * n))[0] for n in (1000, 1001)] == [
                200,
                413,
            ]

    asyncio.run(story())


def test_intervals_are_of_the_hold_out_that_an_experiment_of_this_name_has_now(tmp_path):
    """One that was deleted had another: the page went on with its intervals, which were too narrow."""

    async def story():
        async with inside(tmp_path, taken(holdout=0.5)) as here:
            assert (await here.app._pages._shares("shop", 0, 0.5))._holdout == 0.5
            here.engine.worker.delete((await here.engine.live("shop")).id)
            here.engine.worker.create("shop", "shop", taken(holdout=0.1))
            assert (await here.app._pages._shares("shop", 0, 0.1))._holdout == 0.1

    asyncio.run(story())


def test_a_history_is_one_persons(tmp_path):
    async def story():
        async with inside(tmp_path, likes(learner="PersonalSelector")) as here:
            path, history = "/v1/experiments/shop/decisions", ["item 1"]
            assert (await here.ask("POST", path, {"history": history}))[0] == 200
            assert at(await here.ask("POST", path, {"history": history, "count": 2})) == (422, "$.history")
            assert (await here.ask("POST", path, {"count": 2}))[0] == 200

    asyncio.run(story())


def test_a_body_is_read_to_its_end():
    parts = [{"body": b"ab", "more_body": True}, {"body": b"c", "more_body": True}, {"body": b"d"}]

    def read(most):
        left = iter(parts)

        async def receive():
            return next(left)

        return asyncio.run(api.body(receive, most))

    assert read(4) == b"abcd"
    with pytest.raises(Problem) as caught:
        read(3)
    assert caught.value.status == 413


def test_only_catalogues_may_be_large(tmp_path):
    """A long body takes no longer for each of its bytes; one of many brackets is a wrong body."""

    async def story():
        async with inside(tmp_path, taken(k=1, feedback="bandit", outcome_wait=3600.0)) as here:
            long = b'{"items": ["item 1"]%b}' % (b" " * (1 << 20))
            for route, status in (("shop/tokens", 413), ("shop/webhooks", 413), ("", 422)):
                assert (await here.ask("POST", f"/v1/experiments/{route}".rstrip("/"), long))[0] == status
            assert (await here.ask("POST", "/v1/plan", long))[0] == 413
            assert (await here.ask("PATCH", "/v1/experiments/shop", b"{%b}" % (b" " * (1 << 20))))[0] == 200
            deep = b'{"value": 1.0, "more": %b' % (b"[" * 100_000)
            for verb in ("rank", "events/e/reward"):
                route = f"/v1/experiments/shop/personalizer/v1.0/{verb}"
                assert (await here.ask("POST", route, deep))[0] == 400

    asyncio.run(story())


def test_a_body_takes_time_in_proportion_to_its_size():
    async def took(parts):
        left = iter(range(parts, 0, -1))

        async def receive():
            return {"body": bytes(1 << 16), "more_body": next(left) > 1}

        began = time.process_time()
        assert len(await api.body(receive, 1 << 26)) == parts << 16
        return time.process_time() - began

    assert asyncio.run(took(512)) < 1.0  # 6 s where each part copied all before it


def test_refusals_keep_no_request_in_memory(tmp_path):
    """An exception that is raised again keeps the frames of both times, with what was reported there."""

    async def story():
        async with inside(tmp_path, likes()) as here:
            for _ in range(3):
                assert (await here.ask("POST", "/v1/decisions/nonsense/outcome", {"likes": ["a"]}))[0] == 404

    asyncio.run(story())
    for module in (api, web):
        raised = [
            one.exc for one in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(one, ast.Raise)
        ]
        assert not [ast.unparse(one) for one in raised if isinstance(one, ast.Name | ast.Subscript)]
        constants = [one for one in vars(module).values() if isinstance(one, Problem)]
        assert constants
        assert not [one for one in constants if one.__traceback__ or one.__context__]


def test_an_outcome_is_one_of_the_kind_that_is_learned_from():
    live = SimpleNamespace(config=likes(), epoch=0, known={"a"})
    decision = DecisionId(1, 0, 0)

    def reported(**given):
        try:
            return api.outcome_body(live, decision, api.OutcomeRequest(**given))
        except Problem as refused:
            return refused.status

    assert reported(likes=["a"]) == b'["a"]'
    assert reported(likes=["a"] * 1000) == msgspec.json.encode(["a"] * 1000)
    assert reported(likes=["a"] * 1001) == 413
    for wrong in ({}, {"taken": "a"}, {"taken": None, "likes": []}, {"value": 1.0, "likes": []}):
        assert reported(**wrong) == 422
    live.config = taken()
    assert reported(taken="a") == b'"a"'
    assert reported(taken="b") == reported(taken="a", value=1.0) == 422


def test_what_is_shown_next_does_not_depend_on_what_somebody_took(tmp_path):
    """Another process has added an item, and this one does not know it yet: somebody has taken it, or not."""

    async def next_decisions(here, name, taken):
        path = f"/v1/experiments/{name}/decisions"
        decision = (await here.ask("POST", path, {"count": 2}))[1]["decisions"][0]["decision_id"]
        live = await here.engine.live(name)
        while len(live.blocks) < 2:  # the next one is leased already
            await asyncio.sleep(0.01)
        await asyncio.to_thread(here.engine.worker.change_items, live.id, ["new"], [])
        found = await here.ask("POST", f"/v1/decisions/{decision}/outcome", {"taken": taken})
        assert found == (200, {"status": "recorded", "counted": True})
        wrong = await here.ask("POST", f"/v1/decisions/{decision}/outcome", {"taken": "neww"})
        assert at(wrong) == (422, "$.taken")
        shown = (await here.ask("POST", path, {"count": 3}))[1]["decisions"]
        return [here.engine.secrets.verify(one["decision_id"]).sequence for one in shown]

    async def story():
        config = taken(outcome_wait=3600.0)
        async with inside(tmp_path, config, config, config) as here:
            for task in here.engine._tasks:  # it looks at what others did when it is told to
                task.cancel()
            for name, said in (("shop", None), ("shop1", "item 1"), ("shop2", "new")):
                assert await next_decisions(here, name, said) == [2, 3, 4]

    asyncio.run(story())


def test_sticky_sets_are_kept_for_as_long_as_they_are_shown():
    """What is known by a request is kept for ten minutes anyway."""

    def stays(sticky):
        live = SimpleNamespace(config=likes(sticky=sticky), epoch=0, catalogue=0, known=frozenset())
        return api._known_by(live, api.DecisionRequest(), None, 0, "ann")[1]

    assert [stays(one) for one in (60.0, 600.0, 3600.0)] == [0.0, 0.0, 3000.0]


def test_a_sticky_set_is_of_the_items_that_are_excluded():
    """However often an item is named, in whatever order; unknown ones are ignored."""
    live = SimpleNamespace(config=likes(sticky=3600.0), epoch=0, catalogue=0, known=frozenset(ITEMS))

    def known_by(*exclude):
        return api._known_by(live, api.DecisionRequest(exclude=list(exclude)), None, 0, "ann")[0]

    assert known_by(ITEMS[0], ITEMS[1]) == known_by(ITEMS[1], "sold out", ITEMS[0], ITEMS[1])
    assert known_by("sold out") == known_by() != known_by(ITEMS[0])


def test_an_outcome_counts_for_so_long_after_its_decision(monkeypatch):
    monkeypatch.setattr(api.time, "time", lambda: 1_000_000_000.7)
    monkeypatch.setattr(api, "_expiries", {})
    said = time.strptime(api.expiry(600.0).decode(), "%Y-%m-%dT%H:%M:%SZ")
    assert calendar.timegm(said) == 1_000_000_600


def test_refusals_say_where_and_what_is_allowed(tmp_path):
    async def story():
        async with inside(tmp_path, likes()) as here:
            new = {"name": "new", "population": "shop", "k": 2}
            for more, where in (
                ({"items": ["a", "a", "b"]}, "$.items"),
                ({"items": ["a"]}, "$.k"),
                ({"items": ["a", "b"], "outcome_wait": 7 * 24 * 3600 + 1}, "$.outcome_wait"),
                ({"items": ["a", "b"], "sticky": 7 * 24 * 3600 + 1}, "$.sticky"),
            ):
                assert at(await here.ask("POST", "/v1/experiments", new | more)) == (422, where)
            status, unknown = await here.ask("POST", "/v1/populations", {"name": "x", "epsilon": 1.0, "b": 1})
            assert status == 422
            assert "Known ones: epsilon, delta" in unknown["detail"]
            inner = {"items": ["a", "b"], "constraint": {"groups": {}, "b": 1}}
            found = (await here.ask("POST", "/v1/experiments", new | inner))[1]
            assert found["detail"] == "A field is not known."
            for epsilon, expected in ((1e6, 201), (1.1e6, 422)):
                asked = {"name": f"p{expected}", "epsilon": epsilon}
                assert (await here.ask("POST", "/v1/populations", asked))[0] == expected
            assert (await here.ask("POST", "/v1/experiments/shop/pause"))[0] == 200
            said = (await here.ask("GET", "/v1/audit?limit=2"))[1]["audit"]
            assert [one["action"] for one in said] == [
                "POST /v1/experiments/shop/pause",
                "POST /v1/populations: population p201",
            ]

    asyncio.run(story())


def test_lists_have_at_most_a_thousand_rows():
    def asked(query):
        return api.paged(Request({"type": "http", "query_string": query, "headers": []}))

    assert asked(b"") == {"before": None, "limit": 100}
    assert asked(b"before=7&limit=1000") == {"before": 7, "limit": 1000}
    assert asked(b"limit=1001") == {"before": None, "limit": 1000}


def test_a_token_of_a_browser_is_over_when_it_says(tmp_path, monkeypatch):
    async def story():
        async with inside(tmp_path, likes()) as here:
            path = "/v1/experiments/shop"
            made = (await here.ask("POST", f"{path}/tokens", {"person": "ann", "seconds": 900}))[1]
            until = calendar.timegm(time.strptime(made["expires"], "%Y-%m-%dT%H:%M:%SZ"))
            assert 890 < until - time.time() <= 900
            here.key = made["token"]
            assert (await here.ask("POST", f"{path}/decisions"))[0] == 200
            with monkeypatch.context() as later:
                later.setattr(auth.time, "time", lambda: until)
                assert (await here.ask("POST", f"{path}/decisions"))[0] == 401

    asyncio.run(story())


def test_the_verbs_of_personalizer(tmp_path):
    async def story():
        config = likes(feedback="bandit", items=ITEMS, k=1, bound=2.0, outcome_wait=3600.0)
        whose = PopulationConfig(epsilon=4.0, anonymous=True)
        async with inside(tmp_path, config, people=whose) as here:
            path = "/v1/experiments/shop/personalizer/v1.0"
            actions = [{"id": one} for one in ITEMS]
            large = {"contextFeatures": ["x" * (1 << 16)]}  # beyond 64 KiB, and not read
            status, found = await here.ask("POST", f"{path}/rank", {"actions": actions, **large})
            assert status == 201
            assert sorted(one["id"] for one in found["ranking"]) == sorted(ITEMS)
            assert sum(one["probability"] for one in found["ranking"]) == 1.0
            reward = f"{path}/events/{found['eventId']}/reward"
            assert (await here.ask("POST", reward, {"value": 2.0, **large}))[0] == 204
            assert (await here.ask("POST", reward, {"value": 2.1}))[0] == 400
            assert (await here.ask("POST", f"{path}/rank", {"actions": actions[:1] * 2}))[0] == 400

    asyncio.run(story())
    for status, code in ((500, "InternalServerError"), (503, "InternalServerError"), (409, "409")):
        found = json.loads(api.personalizer_refusal(Problem(status, "name", "Title.")).body)
        assert found["error"]["code"] == code


def test_examples_are_what_they_are_examples_of():
    """Bodies are taken; what is answered could be: one experiment, measured once."""
    examples = {(one.method, one.path): one for one in (*OPERATIONS, *PERSONALIZER)}
    for one in examples.values():
        if one.takes is not None:
            msgspec.convert(one.example, one.takes)
    (point,) = examples["GET", "/v1/experiments/{name}/shares"].answers["points"]
    (epoch,) = examples["GET", "/v1/experiments/{name}/epochs"].answers["epochs"]
    learned, control, lift = (point[name] for name in ("learned", "control", "lift"))
    assert lift["value"] == pytest.approx(learned["value"] - control["value"])
    for side in (learned, control, lift):
        assert 0.0 < side["high"] - side["value"] <= 0.05
        assert 0.0 < side["value"] - side["low"] <= 0.05
    assert epoch["last_release"] - epoch["first_release"] == 3600.0
    assert point["at"] == epoch["last_release"]
    assert time.strftime("%Y-%m", time.gmtime(point["at"])) == epoch["period"]
    new = msgspec.convert(examples["POST", "/v1/experiments"].example, NewExperiment)
    people = examples["POST", "/v1/populations"].example
    assert new.population == people["name"]
    # As it would be by default, and in the plan.
    assert (new.holdout, new.outcome_wait) == (0.2, 600.0)
    assert people["epsilon"] == examples["POST", "/v1/plan"].example["epsilon"] == 1.0
    ranked = next(one for one in PERSONALIZER if one.handler == "rank").answers
    shown = {one["id"]: one["probability"] for one in ranked["ranking"]}
    assert shown == {ranked["rewardActionId"]: 1.0, "red": 0.0}
    reward = next(one for one in PERSONALIZER if one.handler == "reward").example
    assert reward["value"] == ExperimentConfig(items=["a"], k=1).bound
    assert len(DOCUMENTED) == len(examples) + 2


# --- settings -------------------------------------------------------------------------------------------


def test_defaults_and_ranges_are_those_of_the_documentation():
    """Half of the budget, three tenths of it to measure, a fifth held out, ten minutes, half the weight."""
    one = ExperimentConfig(items=["a"], k=1)
    assert (one.share, one.measure, one.holdout, one.bound) == (0.5, 0.3, 0.2, 1.0)
    assert (one.outcome_wait, one.warm_start, one.sticky) == (600.0, 0.5, 0.0)
    plan = PlanRequest(items=10, k=1, people=10, epsilon=1.0)
    assert (plan.share, plan.measure, plan.holdout) == (0.5, 0.3, 0.2)
    typed = Form({"items": "a\nb\nc\nd", "name": "x"}, {}).config
    assert (typed.share, typed.measure, typed.holdout, typed.outcome_wait) == (0.5, 0.3, 0.2, 600.0)
    settings = ServiceSettings()
    assert (settings.rate, settings.connections) == (2000.0, 1000)
    assert (limits.READ, limits.HEAD, limits.FIELDS, limits.LARGEST, limits.MANY) == (
        20,
        16384,
        64,
        65536,
        1000,
    )
    assert limits.STOP < 5.0
    assert (DAY, auth.LIFE) == (24 * 60 * 60, 12 * 60 * 60)


def test_numbers_of_leases_fit_into_ids(monkeypatch):
    secrets = Secrets.fresh()
    for drawn, number in ((lambda _: 0, 1), (lambda below: below - 1, 2**32 - 1)):
        monkeypatch.setattr(auth.system, "randbelow", drawn)
        assert new_lease() == number
        decision = DecisionId(2**32 - 1, 1, 2**64 - 1, bytes(range(12)), True, number)
        text = secrets.sign(decision)
        assert secrets.verify(text) == decision
        assert text.replace("-", "").replace("_", "").isalnum()


def test_secrets_are_read_as_they_were_written_unless_one_is_short(tmp_path):
    made = Secrets.fresh(tmp_path / "secrets")
    assert Secrets.read(tmp_path / "secrets").keys == made.keys
    assert {len(one) for one in made.keys.values()} == {32}
    for size, fits in ((16, True), (15, False)):
        file = tmp_path / f"secrets {size}"
        auth.write_secret(file, json.dumps(dict.fromkeys(made.keys, bytes(size).hex())))
        with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="too short"):
            Secrets.read(file)


def test_a_key_asks_twice_its_rate_at_once(tmp_path, monkeypatch):
    store = open_store(f"sqlite:///{tmp_path}/service.db")
    store.migrate()
    keys, now = Keys(store, 3.0), [50.0]
    _, token = keys.create("a", "app", days=2)
    ends = next(one for one in keys.listed())["expires"]
    assert abs(ends - time.time() - 2 * 24 * 60 * 60) < 60
    monkeypatch.setattr(auth.time, "monotonic", lambda: now[0])
    key = keys.find(token.encode())
    assert [keys.within_rate(key) for _ in range(7)] == [True] * 6 + [False]
    now[0] += 1.0
    assert [keys.within_rate(key) for _ in range(4)] == [True] * 3 + [False]
    store.close()


def test_a_decision_that_was_refused_counts_for_nobody(tmp_path):
    """Too many items were excluded: the person still has the one decision that counts."""

    async def story():
        people = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp")
        async with inside(tmp_path, likes(outcome_wait=3600.0), people=people) as here:
            path = "/v1/experiments/shop/decisions"
            for exclude in (ITEMS, ITEMS[1:]):
                assert (await here.ask("POST", path, {"person": "ann", "exclude": exclude}))[0] == 409
            decision = (await here.ask("POST", path, {"person": "ann"}))[1]["decision_id"]
            found = await here.ask("POST", f"/v1/decisions/{decision}/outcome", {"likes": []})
            assert found == (200, {"status": "recorded", "counted": True})

    asyncio.run(story())


def test_how_many_outcomes_came_refuses_no_decision(tmp_path):
    """Refusals are counted for operators, and whoever is refused knows of it."""

    async def story():
        config = taken(k=1, feedback="bandit", outcome_wait=3600.0)
        async with inside(tmp_path, config, rate=2.0) as here:
            made = here.app.keys.create
            path, rank = "/v1/experiments/shop/decisions", "/v1/experiments/shop/personalizer/v1.0/rank"
            for outcomes in (0, 4):
                here.key = made(f"app {outcomes}", "app", ["shop"])[1]
                decision = (await here.ask("POST", path))[1]["decision_id"]
                reports = [f"/v1/decisions/{decision}/outcome", f"{rank[:-5]}/events/{decision}/reward"]
                for where in (reports * 4)[:outcomes]:
                    assert (await here.ask("POST", where, {"value": 1.0}))[0] < 300
                asked = [await here.ask("POST", path), await here.ask("POST", path)]
                asked += [await here.ask("POST", rank, {"actions": [{"id": ITEMS[0]}]}) for _ in range(2)]
                assert [status for status, _ in asked] == [200, 200, 201, 429]
            here.app.keys.refresh()
            assert (await here.ask("POST", reports[0], {"value": 1.0}))[0] == 429

    asyncio.run(story())


def test_a_key_is_noted_as_used_by_ranks_and_not_by_rewards(tmp_path):
    async def story():
        async with inside(tmp_path, taken(k=1, feedback="bandit", outcome_wait=3600.0)) as here:
            number, here.key = here.app.keys.create("app", "app", ["shop"])
            prefix = "/personalizer/v1.0"
            assert (await here.ask("POST", f"{prefix}/events/e/reward", {"value": 1.0}))[0] == 204
            assert number not in here.app.keys._used
            assert (await here.ask("POST", f"{prefix}/rank", {"actions": [{"id": ITEMS[0]}]}))[0] == 201
            assert number in here.app.keys._used

    asyncio.run(story())


def measured(served, decisions, deviation=0.5):
    """A release of counts: of the learner and of the hold-out."""
    block = {"served": served, "decisions": decisions, "deviation": deviation}
    return json.dumps({"items": ["item 1"], "values": [], "shares": [block]})


def test_pages_show_the_sums_of_what_was_released(tmp_path, monkeypatch):
    """Released once, and again while somebody looks."""

    def release(here, *payloads):
        with here.engine.store.transaction() as tx:
            for payload in payloads:
                (seq,) = tx.one("SELECT coalesce(max(seq), 0) + 1 FROM release")
                row = (1, seq, 0, "", 1000.0 * seq, payload, b"")
                tx.do(
                    "INSERT INTO release (experiment, seq, epoch, segment, at, payload, chain)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    *row,
                )
                tx.do("UPDATE experiment SET seq = ?", seq)

    async def story():
        async with inside(tmp_path, likes(outcome_wait=3600.0)) as here:
            chart = "/parts/experiments/shop/shares"
            release(here, measured([2400.0, 500.0], [4000, 1000]))
            assert (await here.ask("GET", chart))[0] == 401  # a key is for the API
            assert (await here.page(chart))[1]["learned"] == [0.6]
            release(here, measured([5600.0, 500.0], [6000, 1000]), measured([1000.0, 0.0], [10000, 0]))
            for _ in range(2):
                found = (await here.page(chart))[1]
                assert found["learned"] == pytest.approx([0.6, 0.8, 0.45])
                assert found["control"] == pytest.approx([0.5, 0.5, 0.5])
            status, text = await here.page("/experiments/shop")
            assert status == 200
            shown = [text.rfind(f">{one}<") for one in ("45.0 %", "80.0 %", "60.0 %")]
            assert -1 < shown[0] < shown[1] < shown[2]  # the newest first
            status, text = await here.page("/populations")
            assert status == 200
            spent = (await here.ask("GET", "/v1/populations/shop/account"))[1]["periods"][0]["epsilon"]
            assert f"{spent:.3g}" in text
            assert (await here.page("/experiments/shop/pause", sure="yes"))[0] == 303
            assert (await here.page("/new", name="no items"))[0] == 422
            said = (await here.ask("GET", "/v1/audit?limit=1"))[1]["audit"]
            assert said[0]["action"] == "POST /experiments/shop/pause"

            asked, now, pages = [], [1.0], here.app._pages

            async def ask(_, population):
                asked.append(population)
                return {"number": len(asked)}

            monkeypatch.setattr(pages.api, "ask", ask)
            monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=lambda: now[0]))
            for now[0], number in ((1.0, 1), (11.0, 1), (11.1, 2), (21.0, 2)):  # ten seconds
                assert await pages._account("another") == {"number": number}

    asyncio.run(story())
    assert (20, pytest.approx(10 / 60)) == web._WRONG_KEYS


# --- what is told ---------------------------------------------------------------------------------------


def test_how_an_experiment_stands(tmp_path, monkeypatch):
    world = World(f"sqlite:///{tmp_path}/service.db", likes(segments=["de", "fr"], outcome_wait=30.0))
    monkeypatch.setattr(Transaction, "now", lambda _: 1000.0)

    def status(**closed):
        with world.store.transaction() as tx:
            for first, (state, when) in closed.items():
                tx.do(
                    "UPDATE block SET state = ?, closed_at = ? WHERE first = ?", state, when, int(first[1:])
                )
        return queries.status(world.store, "shop")

    assert status()["lag_seconds"] == 0.0
    assert status()["last_release"] is None
    assert "waits for decisions" in queries.waits_for(status(), {})
    assert status(b0=(OPEN, 990.0))["lag_seconds"] == 0.0  # its time is not over
    assert status(b8=(CLOSING, 900.0))["lag_seconds"] == 70.0
    assert "waits for outcomes" in queries.waits_for(status(), {})
    with world.store.transaction() as tx:
        for seq, segment, when in ((1, "fr", 950.0), (2, "de", 940.0)):
            row = (
                world.shop,
                seq,
                0,
                segment,
                when,
                '{"items": ["item 1"], "values": [], "shares": []}',
                b"",
            )
            tx.do(
                "INSERT INTO release (experiment, seq, epoch, segment, at, payload, chain)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                *row,
            )
    assert status()["last_release"] == 950.0
    page = queries.document(world.store, "people")
    for sentence in (
        "Everything that was released, and the sets that were shown.",
        "Keyed hashes of people, with how many of their decisions count, are deleted after each month.",
        "30 seconds after the last decision of the block",
    ):
        assert sentence in page
    world.store.close()
    people = PopulationConfig(epsilon=1.5, delta=1e-6, definition="gdp", max_rounds_per_person=2)
    said = (
        "Of a person up to 2 decisions count in a period. Whatever was shown or published in it is at most"
        " exp(1.5) times as likely as it would have been if anything else had been reported about that"
        " person in that period, plus a probability of 1e-6. Which decisions there were, when and for whom,"
        " is public."
    )
    assert queries.promise(people) == said
    own = " A personal set also follows from its person's own history: it is for them alone."
    assert queries.promise(people, personal=True) == (
        said.replace("shown or published in it", "published in it or shown to anybody else") + own
    )


def test_tables_have_a_row_for_every_number():
    block = {"served": [3.5, -1.5], "decisions": [8, 2], "deviation": 2.0}
    values = [{"item": "=1+1", "value": 4.0, "deviation": 1.0}]
    one = {"seq": 2, "epoch": 1, "at": 10.0, "items": ["a", "b"], "values": values, "shares": [block]}
    assert queries.releases_table([one]).splitlines() == [
        "seq,epoch,at,segment,kind,item,value,deviation,decisions",
        "2,1,10.0,,shown,a,,,",
        "2,1,10.0,,shown,b,,,",
        "2,1,10.0,,value,'=1+1,4.0,1.0,",
        '2,1,10.0,,"served, learned",,3.5,2.0,8',
        '2,1,10.0,,"served, hold-out",,-1.5,2.0,2',
    ]


def test_words_for_numbers():
    assert [web.number(one) for one in (0.0, 12.0, 1234567.0, 1.2345, 1234.5, -1234.5)] == [
        *("0", "12", "1,234,567", "1.23", "1,234", "-1,234"),
    ]
    hours = [web.seconds(one) for one in (1.0, 119.0, 120.0, 7199.0, 7200.0, 172799.0, 172800.0)]
    assert hours == ["1 s", "119 s", "2 minutes", "120 minutes", "2 hours", "48 hours", "2 days"]
    estimate = SimpleNamespace(low=-0.05, high=0.123)
    assert web.span(estimate) == "\u22125.0 to 12.3"
    assert web.span(estimate, 2.0, sign=True) == "\u22120.100 to +0.246"


def test_ranges_of_fields():
    closed, above = Range(1, 3), Range(1, 3, above=True)
    assert [closed.read(one) for one in ("0.9", "1", "3", "3.1", "x")] == [None, 1.0, 3.0, None, None]
    assert [above.read(one) for one in ("0.9", "1", "1.1", "3", "3.1")] == [None, None, 1.1, 3.0, None]
    takes = msgspec.json.schema(ExperimentConfig)["$defs"]["ExperimentConfig"]["properties"]
    assert web.FIELDS["bound"].takes.most == takes["bound"]["maximum"] == 1e9
    plan = msgspec.json.schema(PlanRequest)["$defs"]["PlanRequest"]["properties"]
    assert web.FIELDS["delta"].takes.most == plan["delta"]["maximum"] == 0.1


FORM = {"name": "x", "items": "a\nb\nc\nd", "k": "2", "learner": "auto"}


def errors(**more):
    form = Form(FORM | more, {})
    form.release_plan()
    return set(form.errors)


def test_a_form_becomes_the_settings_that_it_shows():
    typed = {"share": "40", "holdout": "25", "measure": "15", "wait": "3", "sticky": "5", "control": "a\nb"}
    found = Form(FORM | typed, {}).config
    assert (found.share, found.holdout, found.measure) == (0.4, 0.25, 0.15)
    assert (found.outcome_wait, found.sticky, found.bound) == (180.0, 300.0, 1.0)
    assert found.control == ["a", "b"]
    assert Form(FORM | {"feedback": "bandit", "bound": "5"}, {}).config.bound == 5.0


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({}, set()),
        ({"items": "a\nb\na"}, {"items"}),
        ({"k": "4"}, set()),
        ({"k": "5"}, {"k"}),
        ({"control": "a"}, set()),
        ({"control": "a\nb\nc"}, {"control"}),
        ({"control": "a\na"}, {"control"}),
        ({"control": "a\nz"}, {"control"}),
        ({"control": "a", "holdout": "0"}, {"control"}),
        ({"measure": "0"}, {"measure"}),
        ({"segments": "a\na"}, {"segments"}),
        ({"candidates": "a\nb\nc"}, set()),
        ({"candidates": "a\nb\nz"}, {"candidates"}),
        ({"candidates": "a\nb\nb"}, {"candidates"}),
        ({"candidates": "a"}, {"candidates"}),
        ({"features": "a: x"}, {"features"}),
        ({"features": "a: x\nb: x y", "learner": "PersonalSelector", "feedback": "full"}, set()),
        ({"features": "a: x\na: y", "learner": "PersonalSelector"}, {"features"}),
        ({"features": "z: x", "learner": "PersonalSelector"}, {"features"}),
    ],
)
def test_what_is_wrong_in_a_form(more, wrong):
    assert errors(**more) == wrong


@pytest.mark.parametrize(("reason", "status"), [(Conflict("name"), 422), (StoreError("a full disk"), 503)])
def test_a_form_that_is_refused_leaves_no_population(tmp_path, monkeypatch, reason, status):
    """Somebody may have taken the name since it was looked up."""

    def refuse(*_):
        raise reason

    async def sent():
        async with inside(tmp_path) as service:
            with monkeypatch.context() as patched:
                patched.setattr(service.engine.worker, "create", refuse)
                assert (await service.page("/new", **FORM))[0] == status
            left = queries.populations(service.engine.store)
            return left, (await service.page("/new", **FORM))[0], queries.populations(service.engine.store)

    before, made, after = asyncio.run(sent())
    assert "x" not in [one["name"] for one in before]
    assert made == 303
    assert "x" in [one["name"] for one in after]


def test_a_line_of_blanks_in_a_form_takes_no_time():
    """Forms are read where requests are answered: nobody else would get a decision meanwhile."""
    begun = time.process_time()
    form = Form({"groups": f"x{' ' * 3000}y", "items": "a\nb"}, {})
    assert form.errors["groups"].startswith("One group in a line")
    assert time.process_time() - begun < 1.0
