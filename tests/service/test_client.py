"""The clients: what they send, what they make of answers, and when they ask again."""

from __future__ import annotations

import asyncio
import http.client
import json
import pickle
import re
import ssl
from pathlib import Path
from typing import ClassVar

import pytest

from discreet import client as client_module
from discreet.client import Acknowledgement, AsyncClient, Client, Decision, ServiceError
from discreet.service.api import OPERATIONS

from .test_api import experiment, refused

# Made for these tests by openssl, good for localhost alone and for a hundred years.
CERTIFICATE = Path(__file__).parent / "localhost.pem"
FINE = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"a": "fine"}'


class Script:
    """A server that answers each request with the next of its lines, and then closes if told so."""

    def __init__(self, *answers, context=None):
        self.answers, self.context = list(answers), context
        self.requests, self.opened = [], 0
        self._writers, self._over = set(), asyncio.Event()

    async def _serve(self, reader, writer):
        self.opened += 1
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int((head.lower().partition(b"content-length:")[2].split() or [b"0"])[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                if answer is None:  # says nothing
                    await self._over.wait()
                    break
                writer.write(answer.removesuffix(b"CLOSE"))
                await writer.drain()
                if answer.endswith(b"CLOSE"):
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        scheme = "http" if self.context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self._over.set()
        for writer in list(self._writers):
            writer.transport.abort()
        while self._writers:
            await asyncio.sleep(0.001)


def asked(*answers, times=1, retries=4, timeout=5.0):
    """(what the last of some requests got, the server)."""

    async def story():
        async with (
            Script(*answers) as server,
            AsyncClient(f"{server.url}/base/", "dk_key", retries=retries, timeout=timeout) as client,
        ):
            for _ in range(times):
                found = await client.request("POST", "/v1/plan", {"k": 1})
            return found, server

    return asyncio.run(story())


def test_a_request_as_it_is_sent():
    found, server = asked(FINE)
    assert found == {"a": "fine"}
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /base/v1/plan HTTP/1.1"
    host = server.url.removeprefix("http://")
    assert set(lines[1:]) == {
        f"Host: {host}",
        "Accept-Encoding: identity",
        "Authorization: Bearer dk_key",
        "Content-Type: application/json",
        "Content-Length: 8",
    }
    assert json.loads(body) == {"k": 1}


@pytest.mark.parametrize(
    "answer",
    [
        FINE,
        b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{"a": "fine"}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5;x=y\r\n{"a":\r\n8\r\n "fine"}\r\n0\r\nT: 1\r\n\r\n',
        b'HTTP/1.1 200 OK\r\n\r\n{"a": "fine"}CLOSE',
        b'HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n{"a": "fine"}CLOSE',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{"a": "fine"}CLOSE',
    ],
    ids=["length", "continue", "chunks", "until it closes", "version 1.0", "close"],
)
def test_answers_of_every_form(answer):
    found, server = asked(answer, answer, times=2)
    assert found == {"a": "fine"}
    assert server.opened == (2 if answer.endswith(b"CLOSE") else 1)


@pytest.mark.parametrize(
    "broken",
    [
        b"CLOSE",
        b'HTTP/1.1 200 OK\r\nContent-Length: 130\r\n\r\n{"a"CLOSE',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nCLOSE",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        None,
    ],
    ids=["nothing", "half", "no chunk", "nonsense", "busy", "silence"],
)
def test_what_gets_no_answer_is_sent_again(broken):
    found, server = asked(broken, FINE, timeout=0.2 if broken is None else 5.0)
    assert found == {"a": "fine"}
    assert server.requests[0] == server.requests[1]


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.create_key("web", "app"),
        lambda client: client.rotate_key("0c1d2e3f4a5b", grace=60.0),
        lambda client: client.create_webhook("shop", "https://example.com/"),
    ],
    ids=["key", "rotation", "webhook"],
)
def test_what_shows_a_secret_once_is_not_sent_again(ask):
    """There would be two, and nobody would have the first one; a refusal has made none."""
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"

    async def story():
        async with Script(busy, b"CLOSE", FINE) as server, AsyncClient(server.url, "dk_key") as client:
            with pytest.raises((OSError, http.client.HTTPException)):
                await asyncio.to_thread(ask, client._client)
            return len(server.requests)

    assert asyncio.run(story()) == 2


def test_a_connection_that_was_closed_meanwhile_is_not_used():
    found, server = asked(FINE + b"CLOSE", FINE + b"CLOSE", FINE, times=3)
    assert found == {"a": "fine"}
    assert server.opened == 3


def test_refusals_are_raised_and_not_sent_again():
    problem = b'{"type":"about:blank#role","title":"No."}'
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(problem) + problem
    with pytest.raises(ServiceError, match="No") as caught:
        asked(refusal)
    assert (caught.value.status, caught.value.name) == (403, "role")
    copy = pickle.loads(pickle.dumps(caught.value))  # as a worker process hands it back
    assert (str(copy), copy.problem) == (str(caught.value), caught.value.problem)
    busy = b"HTTP/1.1 429 Often\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(ServiceError) as caught:
        asked(busy, busy, retries=1)
    assert caught.value.status == 429
    with pytest.raises(TimeoutError):
        asked(None, retries=0, timeout=0.1)


def test_requests_that_could_be_two_are_refused():
    for wrong in ("/a b", "/a\r\nX: y", "/ä"):
        with pytest.raises(ValueError, match="quote"):
            asyncio.run(AsyncClient("http://localhost", "key").request("GET", wrong))
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="key"):
            kind("http://localhost", "key\r\nX: y")
        with pytest.raises(ValueError, match="url"):
            kind("localhost:8722", "key")


def test_pauses_double_and_each_retry_is_one_more_request(monkeypatch):
    pauses, sent = [], []

    class Unreachable(Client):
        def _once(self, *request):
            sent.append(request)
            raise ConnectionRefusedError

    monkeypatch.setattr(client_module.time, "sleep", pauses.append)
    with pytest.raises(ConnectionRefusedError):
        Unreachable("http://localhost", "key").request("GET", "/")
    assert pauses == [0.05, 0.1, 0.2, 0.4]
    assert len(sent) == 5
    with pytest.raises(ConnectionRefusedError):
        Unreachable("http://localhost", "key", retries=0).request("GET", "/")
    assert len(sent) == 6


def test_values_of_json_texts_of_all_else_and_refusals():
    assert client_module._read(200, b"a,b", "text/csv") == "a,b"
    assert client_module._read(399, b'{"a": 1}', "application/json") == {"a": 1}
    assert client_module._read(204, b"", "") is None
    assert client_module._path("keys", "a/b c") == "/v1/keys/a%2Fb%20c"
    for status, kind in ((400, "text/html"), (400, "application/json"), (503, "text/html")):
        with pytest.raises(ServiceError) as caught:
            client_module._read(status, b"no", kind)
        assert caught.value.status == status


def test_what_was_fetched_ahead_is_not_shown_once_its_time_is_over():
    class Fetched(Client):
        def decide_many(self, experiment, people, **_):
            assert (experiment, people) == ("shop", 2)
            times = {"over": "2000-01-01T00:00:00Z", "open": "9999-01-01T00:00:00Z"}
            return [Decision(id, [], "", expires) for id, expires in times.items()]

    found = Fetched("http://localhost", "key").prefetched("shop", 2)
    assert [next(found).id for _ in range(2)] == ["open", "open"]


def test_certificates_are_checked():
    served, believed = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=CERTIFICATE)
    served.load_cert_chain(CERTIFICATE)

    def plain(url):
        with Client(url, "key", context=believed) as client:
            return client.request("GET", "/")

    async def story():
        async with Script(FINE, FINE, context=served) as server:
            async with AsyncClient(server.url, "key", context=believed) as client:
                assert await client.request("GET", "/") == {"a": "fine"}
            assert await asyncio.to_thread(plain, server.url) == {"a": "fine"}
            async with AsyncClient(server.url, "key", retries=0) as client:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await client.request("GET", "/")

    asyncio.run(story())


def test_many_at_once_on_few_connections(shared_service):
    experiment(shared_service.client(), "async", outcome_wait=600.0)
    client = AsyncClient(shared_service.url, shared_service.key, connections=4, timeout=60.0)

    async def visit(number):
        decision = await client.decide("async", f"person {number}", exclude=["item 0"])
        assert "item 0" not in decision.items
        first = await client.report(decision, likes=["item 1"])
        return first, await client.report(decision.id, likes=["item 2"])

    async def story():
        found = await asyncio.gather(*(visit(number) for number in range(40)))
        assert len(client._client._idle) <= 4
        decision = await client.decide("async")
        many = [{"decision_id": decision.id, "likes": []}, {"decision_id": "x", "likes": []}]
        assert await client.report_many(many) == [
            Acknowledgement("recorded", True),
            Acknowledgement("refused", False),
        ]
        with pytest.raises(ServiceError) as caught:
            await client.decide("nowhere", "somebody")
        assert caught.value.name == "not-found"
        await client.close()
        return found

    first, again = asyncio.run(story()), asyncio.run(story())  # in another loop
    assert first == [(Acknowledgement("recorded", True), Acknowledgement("duplicate", True))] * 40
    assert (
        again == [(Acknowledgement("recorded", False), Acknowledgement("duplicate", False))] * 40
    )  # people count once


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_decision_that_is_asked_for_again_has_the_same_key(kind):
    """Each call has a key of its own, which all of its tries have; without retries there is none."""
    made = b'{"decision_id": "x", "items": [], "policy": "", "expires": ""}'
    fine = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(made) + made

    def keys(server):
        heads = [request.partition(b"\r\n\r\n")[0].decode().split("\r\n") for request in server.requests]
        return [[line for line in head if line.lower().startswith("idempotency-key: ")] for head in heads]

    async def story():
        async with Script(b"CLOSE", fine, fine, fine, fine) as server:
            if kind == "asyncio":
                async with AsyncClient(server.url, "key") as client:
                    for _ in range(2):
                        await client.decide("shop", "ann")
                    await client.decide("shop", "ann", key="visit 17")
            else:
                with Client(server.url, "key") as client:
                    for more in ({}, {}, {"key": "visit 17"}):
                        await asyncio.to_thread(client.decide, "shop", "ann", **more)
            async with AsyncClient(server.url, "key", retries=0) as client:
                await client.decide("shop", "ann")
            return keys(server)

    first, again, second, given, none = asyncio.run(story())
    assert first == again != second
    assert len(first) == len(second) == 1
    assert given == ["Idempotency-Key: visit 17"]
    assert none == []


# --- a method for every route ---------------------------------------------------------------------------


class Recorded(Client):
    """Which routes were asked, and answered."""

    seen: ClassVar = set()

    def request(self, method, path, body=None, **more):
        found = super().request(method, path, body, **more)
        self.seen.add((method, path.partition("?")[0]))
        return found


def template(method, path):
    """The route of a path."""
    for one in OPERATIONS:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one.path))
        if one.method == method and re.fullmatch(pattern, path):
            return method, one.path
    raise AssertionError(path)


def test_there_is_a_method_for_every_route(shared_service):
    client = Recorded(shared_service.url, shared_service.key, timeout=60.0)
    name = "every-route"
    client.create_population(name, 1.0, anonymous=True)
    client.create_experiment(name, name, ["a", "b", "c"], 2, feedback="slots", outcome_wait=3600.0)
    assert name in [one["name"] for one in client.populations()]
    assert name in [one["name"] for one in client.experiments()]
    assert client.experiment(name)["population"] == name
    assert client.change_items(name, add=["d"])["name"] == name
    assert {"item": "d", "retired": False} in client.items(name)
    decision = client.decide(name)
    assert client.report(decision, taken=None).status == "recorded"
    assert client.report_many([{"decision_id": decision.id, "taken": None}])[0].status == "duplicate"
    client.request("POST", f"/v1/experiments/{name}/decisions", {"event": "e 1"})
    assert client.report_event(name, "e 1", taken=None).status == "recorded"
    assert client.token(name).startswith("dt_")
    assert refused(lambda: client.model(name)).name == "not-personal"
    assert client.releases(name, limit=5) == []
    assert client.shares(name) == []
    assert client.epochs(name)[0]["epoch"] == 0
    assert client.account(name)["population"] == client.population_account(name)["population"] == name
    assert client.ledger(name)[-1]["experiment"] == name
    client.erase(name, ["ann", "ben"])
    assert client.plan(20, 2, 1000, 1.0, feedback="slots")["lift"]["visible"] > 0
    hook = client.create_webhook(name, "https://example.com/x")
    assert client.webhooks(name)[0]["id"] == hook["id"]
    client.delete_webhook(name, hook["id"])
    client.pause(name)
    client.resume(name)
    client.end(name)
    client.create_population("unused", 1.0)
    client.create_experiment("unused", "unused", ["a", "b"], 1, feedback="slots")
    client.delete_experiment("unused")
    client.delete_population("unused")
    made = client.create_key("a", "app", days=1)
    again = client.rotate_key(made["id"])
    client.revoke_key(again["id"])
    listed = client.keys()
    assert made["id"] not in [one["id"] for one in listed]
    assert client.audit(limit=1)[0]["action"].startswith("DELETE /v1/keys/")
    # As the experiment's own; refused above, and answered in `test_personal`.
    same = {("GET", "/v1/experiments/{name}/status"), ("GET", "/v1/experiments/{name}/model")}
    assert {template(*one) for one in client.seen} == {(one.method, one.path) for one in OPERATIONS} - same


def test_the_asynchronous_client_has_the_same_methods():
    public = {name for name in vars(Client) if not name.startswith("_")} - {"close", "prefetched"}
    assert public <= set(vars(AsyncClient))


def test_what_is_not_json_is_the_text(shared_service):
    """The document of an account, and tables: by both clients, from a service that runs."""
    client = shared_service.client()
    experiment(client, "document")
    path = "/v1/experiments/document/account"
    population = client.experiment("document")["population"]

    async def story():
        async with AsyncClient(shared_service.url, shared_service.key) as other:
            return await other.request("GET", f"{path}?format=html")

    for page in (client.request("GET", f"{path}?format=html"), asyncio.run(story())):
        assert page.startswith("<!DOCTYPE html>")
        assert population in page.partition("<h1>")[2].partition("</h1>")[0]
        assert "Privacy officer" in page
    assert client.request("GET", f"{path}?format=csv").startswith("period,")
    assert client.request("GET", f"{path}?format=json") == client.account("document")
    with pytest.raises(ServiceError) as caught:
        client.request("GET", f"{path}?format=pdf")
    assert "accounts have html" in str(caught.value)
