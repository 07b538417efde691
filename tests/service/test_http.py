"""Requests as they come over a connection: in parts, behind one another, wrong, cut off."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from discreet.service.api import Problem, body
from discreet.service.auth import Keys
from discreet.service.database import open_store
from discreet.service.limits import _Joined

from .pages import make


@pytest.fixture(scope="module")
def served(shared_service):
    make(shared_service.client(), "shop", ["a", "b", "c"])
    return shared_service


class Line:
    """A connection on which bytes are sent as they are."""

    def __init__(self, service):
        self.key = service.key
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def text(self, path, body, *more, version="1.1", length=True):
        lines = [f"POST {path} HTTP/{version}", "Host: x", f"Authorization: Bearer {self.key}", *more]
        if length:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def answer(self):
        """The next answer: (status, headers, JSON)."""
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if status == 100:
            return self.answer()
        return status, headers, json.loads(self.file.read(int(headers["content-length"])))

    def ask(self, *given, **how):
        self.socket.sendall(self.text(*given, **how))
        return self.answer()


DECIDE = "/v1/experiments/shop/decisions"


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("path", [DECIDE, "/v1/outcomes"])
def test_a_change_of_the_protocol_is_refused(served, path, protocol):
    """Some clients ask for one by themselves: no person in a body is lost, and no body is a request."""
    with Line(served) as line:
        hidden = line.text(DECIDE, b"")
        more = ("Connection: Upgrade", f"Upgrade: {protocol}")
        status, headers, found = line.ask(path, hidden, *more)
        assert (status, headers["connection"]) == (400, "close")
        assert found["type"].endswith("#upgrade")
        assert line.file.read() == b""
    assert "Traceback" not in (served.folder / "log").read_text()


@pytest.mark.parametrize(
    ("path", "body", "more", "how"),
    [
        (DECIDE, b'{"person": "p"}', ("X-Other: 1", "Connection: keep-alive"), {}),
        (DECIDE, b"{}", ("Expect: 100-continue",), {}),
        (DECIDE, b"{}", (), {"version": "1.0"}),
        (DECIDE, b"2\r\n{}\r\n0\r\n\r\n", ("Transfer-Encoding: chunked",), {"length": False}),
        ("/v1/experiments/sh%6fp/decisions", b"{}", (), {}),
    ],
)
def test_decisions_however_they_are_asked_for(served, path, body, more, how):
    with Line(served) as line:
        status, headers, found = line.ask(path, body, *more, **how)
        assert status == 200
        assert headers["content-type"] == "application/json"
        assert "date" in headers
        for one in found.get("decisions", [found]):
            assert len(one["items"]) == 2
            assert set(one) == {"decision_id", "items", "policy", "expires", "propensity"}
        if headers.get("connection") == "close":
            assert line.file.read() == b""
        else:
            assert line.ask(DECIDE, b"{}")[0] == 200  # the connection is of use


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (DECIDE, b"{", 422),
        (DECIDE, b'{"person": 5}', 422),
        (DECIDE, b'{"person": "%b"}' % (b"p" * 2000), 422),
        (DECIDE, b'{"person": "%b"}' % (b"p" * 1_100_000), 413),
        ("/v1/decisions/none/outcome", b'{"taken": null}', 404),
        (DECIDE + "/more", b"{}", 404),
    ],
)
def test_refusals(served, path, body, status):
    with Line(served) as line:
        found = line.ask(path, body)
        assert found[0] == status
        assert found[1]["content-type"] == "application/problem+json"
        assert line.ask(DECIDE, b"{}")[0] == 200


def test_half_a_body_is_no_request():
    """Whoever hangs up before the end of a body is shown nothing, and takes no decision."""
    parts = iter([{"type": "http.request", "body": b"", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(parts)

    with pytest.raises(Problem):
        asyncio.run(body(receive))


def test_keys_are_known_while_they_are_read_again(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/service.db")
    store.migrate()
    keys = Keys(store)
    tokens = [keys.create(name, "app")[1].encode() for name in "ab"]
    with store.transaction() as tx:
        rows = tx.all("SELECT sha256, id, name, role, experiments, expires FROM api_key")

    def slowly(*_):
        for row in rows:
            assert all(keys.find(token) for token in tokens)
            yield row

    keys._store = SimpleNamespace(transaction=lambda: nullcontext(SimpleNamespace(all=slowly)))
    keys.refresh()
    assert all(keys.find(token) for token in tokens)
    store.close()


def outcome_of(decision):
    return f"/v1/decisions/{decision['decision_id']}/outcome"


def test_outcomes_are_taken_once_however_they_come(served):
    with Line(served) as line:
        decision = line.ask(DECIDE, b"{}")[2]
        said = b'{"taken": null}'
        assert line.ask(outcome_of(decision), said)[2] == {"status": "recorded", "counted": True}
        assert line.ask(outcome_of(decision), said)[2] == {"status": "duplicate", "counted": True}
        chunked = b"f\r\n" + said + b"\r\n0\r\n\r\n"
        again = line.ask(outcome_of(decision), chunked, "Transfer-Encoding: chunked", length=False)
        assert again[2] == {"status": "duplicate", "counted": True}


def test_a_request_may_come_byte_by_byte(served):
    with Line(served) as line:
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in line.text(DECIDE, b'{"person": "slow"}'):
            line.socket.sendall(bytes([byte]))
        assert line.answer()[0] == 200


def test_requests_behind_one_another_are_answered_in_order(served):
    """An outcome waits for its commit; what comes behind it on the connection waits for it."""
    with Line(served) as line:
        first, second = (line.ask(DECIDE, b"{}")[2] for _ in range(2))
        said = b'{"taken": null}'
        line.socket.sendall(
            line.text(outcome_of(first), said)
            + line.text(DECIDE, b"{}")
            + line.text(outcome_of(first), said)
            + line.text("/v1/experiments/none/decisions", b"{}")
            + line.text(outcome_of(second), said)
        )
        assert line.answer()[2] == {"status": "recorded", "counted": True}
        assert "items" in line.answer()[2]
        assert line.answer()[2] == {"status": "duplicate", "counted": True}
        assert line.answer()[0] == 404
        assert line.answer()[2] == {"status": "recorded", "counted": True}


def test_whoever_hangs_up_hinders_nobody(served):
    for _ in range(20):
        with Line(served) as line:
            decision = line.ask(DECIDE, b"{}")[2]
            line.socket.sendall(line.text(outcome_of(decision), b'{"taken": null}'))
    with Line(served) as line:
        assert line.ask(outcome_of(decision), b'{"taken": null}')[2]["status"] in ("duplicate", "recorded")
    assert "Traceback" not in (served.folder / "log").read_text()


def test_an_answer_goes_out_in_one_piece():
    """The header waits for the body; for nothing else, and not beyond the end of the answer."""
    sent = []
    line = _Joined(SimpleNamespace(write=sent.append, close=lambda: sent.append("closed"), is_closing=bool))
    line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    for content in (b"one", b"HTTP/1.1 two"):
        line.write(b"HTTP/1.1 200 OK\r\n\r\n")
        line.write(content)
        assert sent[1:] == [b"HTTP/1.1 200 OK\r\n\r\n" + content]
        del sent[1:]
    line.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert len(sent) == 1
    line.flush()
    line.flush()
    assert sent[1:] == [b"HTTP/1.1 204 No Content\r\n\r\n"]
    line.write(b"HTTP/1.1 500 x\r\n\r\n")
    line.close()
    assert sent[2:] == [b"HTTP/1.1 500 x\r\n\r\n", "closed"]


def test_answers_without_a_body_come(served):
    """HEAD, on a connection that stays open."""
    with Line(served) as line:
        for _ in range(2):
            line.socket.sendall(b"HEAD /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert line.file.readline().split()[1] == b"200"
            while line.file.readline().strip():
                pass
