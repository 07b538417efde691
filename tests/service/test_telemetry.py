"""Spans for OpenTelemetry: routes and statuses, and nothing about anybody."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from discreet.service.auth import Secrets
from discreet.service.config import ServiceSettings
from discreet.service.database import open_store
from discreet.service.engine import DecisionEngine
from discreet.service.metrics import Answered, Instrumented, Spans
from discreet.service.web import App, application, instrumented, prepare

from .conftest import Running
from .test_api import experiment
from .world import NOISY, likes

MARKER = "marker-4711"


async def ask(app, key, method, path, body=None, headers=()):
    """One request over ASGI; (status, what was answered)."""
    said = []

    async def receive():
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

    async def send(message):
        said.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": f"q={MARKER}".encode(),
        "headers": [(b"authorization", b"Bearer " + key.encode()), (b"host", MARKER.encode()), *headers],
    }
    await app(scope, receive, send)
    return said[0]["status"], b"".join(one.get("body", b"") for one in said)


async def visits(app, key, reports):
    """Decisions of people with markers everywhere; so many of them are reported on."""
    trace = [(b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    for number in range(6):
        asked = {"person": f"{MARKER} {number}"}
        status, found = await ask(app, key, "POST", "/v1/experiments/shop/decisions", asked, trace)
        assert status == 200
        decision = json.loads(found)["decision_id"]
        if number < reports:
            path = f"/v1/decisions/{decision}/outcome"
            assert (await ask(app, key, "POST", path, {"likes": [MARKER]}))[0] == 200
            assert (await ask(app, key, "POST", path + "/", {"likes": [MARKER]}))[0] == 307
    await ask(app, key, "POST", f"/v1/decisions/{MARKER}/outcome", {"likes": []})
    await ask(app, key, "POST", "/v1/outcomes", [{"decision_id": MARKER, "likes": [MARKER]}])
    await ask(app, key, "POST", f"/personalizer/v1.0/events/{MARKER}/reward", {"value": 1.0})
    await ask(app, key, "GET", f"/v1/experiments/{MARKER}/status")
    await ask(app, key, "POST", "/v1/populations/people/erase", {"people": MARKER})
    await ask(app, key, MARKER, f"/{MARKER}")
    await ask(app, MARKER, "GET", f"/v1/keys/{MARKER}")


def spans(folder, reports, kind=Instrumented):
    """What is exported of some visits."""
    secrets = Secrets.fresh()
    app = App(DecisionEngine(open_store(f"sqlite:///{folder}/{reports}.db"), secrets))
    exporter = InMemorySpanExporter()
    outer = kind(app, Spans(SimpleSpanProcessor(exporter)))

    async def run():
        await app.engine.start(every=app.keys.refresh)
        app.engine.worker.create_population("people", NOISY)
        app.engine.worker.create("shop", "people", likes(seed=None))
        _, key = app.keys.create("test", "admin")
        try:
            await visits(outer, key, reports)
        finally:
            await app.engine.stop()

    asyncio.run(run())
    return exporter.get_finished_spans()


class TellsPaths(Instrumented):
    """An injected fault."""

    def _template(self, scope):
        return scope["path"]


class TellsOutcomes(Instrumented):
    """An injected fault."""

    def _counts(self, route, status):
        return status < 400 or super()._counts(route, status)


def leaks(found):
    text = "".join(one.to_json() for one in found)
    ids = [one.context.trace_id for one in found]
    foreign = 0x4BF92F3577B34DA6A3CE929D0E0E4736
    return MARKER in text or "decisions/I" in text or foreign in ids or any(one.parent for one in found)


def names(found):
    return [(one.name, one.attributes["http.response.status_code"]) for one in found]


def test_spans_tell_routes_and_statuses_and_nothing_else(tmp_path):
    silent, talkative = spans(tmp_path, 0), spans(tmp_path, 6)
    assert not leaks(silent)
    assert not leaks(talkative)
    assert names(silent) == names(talkative)  # however many reported
    assert names(silent) == [
        *[("POST /v1/experiments/{name}/decisions", 200)] * 6,
        ("GET /v1/experiments/{name}/status", 404),
        ("POST /v1/populations/{population}/erase", 422),
        ("GET /v1/keys/{key}", 405),
    ]
    keys = {"http.request.method", "http.route", "http.response.status_code"}
    assert all(set(one.attributes) == keys for one in silent)


def test_failures_are_marked_in_spans():
    exporter = InMemorySpanExporter()
    told = Spans(SimpleSpanProcessor(exporter))
    for status in (200, 499, 500):
        told.answered(Answered("1", "GET", "/here", status, 0, 0.1))
    assert [one.status.is_ok for one in exporter.get_finished_spans()] == [True, True, False]


def test_paths_in_spans_are_noticed(tmp_path):
    assert leaks(spans(tmp_path, 1, TellsPaths))


def test_counts_of_outcomes_are_noticed(tmp_path):
    found = [names(spans(tmp_path, reports, TellsOutcomes)) for reports in (0, 3)]
    assert found[0] != found[1]


@pytest.mark.parametrize("collector", [None, "http://127.0.0.1:9/v1/traces"])
def test_it_is_off_unless_a_collector_is_set(tmp_path, collector):
    settings = ServiceSettings(
        store=f"sqlite:///{tmp_path}/service.db", secrets=f"{tmp_path}/secrets", telemetry=collector
    )
    prepare(settings)
    app = application(settings)
    told = instrumented(app, settings)._told
    assert any(isinstance(one, Spans) for one in told) == (collector is not None)
    app.engine.store.close()
    for one in told:
        one.close()


def test_a_collector_gets_the_spans_of_a_service(tmp_path, monkeypatch):
    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DISCREET_TELEMETRY", f"http://127.0.0.1:{server.server_port}/v1/traces")
        service = Running(tmp_path)
        client = service.client()
        experiment(client, "shop")
        decision = client.decide("shop", MARKER)
        assert client.report(decision, likes=["item 1"]).status == "recorded"
        service.stop()  # spans that wait are sent
        server.shutdown()
    sent = b"".join(bodies)
    assert b"POST /v1/experiments/{name}/decisions" in sent
    assert not any(one in sent for one in (MARKER.encode(), decision.id.encode(), b"outcome", b"shop"))
