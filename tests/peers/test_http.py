"""h11, an HTTP/1.1 parser that nobody here wrote, reads every answer of the service."""

from __future__ import annotations

import json
import socket

import pytest

h11 = pytest.importorskip("h11")
from tests.service.conftest import shared_service  # noqa: E402, F401
from tests.service.pages import make  # noqa: E402


@pytest.fixture(scope="module")
def served(shared_service):  # noqa: F811
    make(shared_service.client(), "shop", ["a", "b", "c"])
    return shared_service


def _asked(service, requests):
    """Each of the requests on one connection, as h11 writes it; (status, headers, body) as h11 reads them."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as line:
        connection, found = h11.Connection(h11.CLIENT), []
        for method, path, body, *more in requests:
            headers = [("Host", "x"), ("Authorization", f"Bearer {service.key}"), *more]
            if body is not None:
                headers.append(("Content-Length", str(len(body))))
            line.sendall(connection.send(h11.Request(method=method, target=path, headers=headers)))
            if body is not None:
                line.sendall(connection.send(h11.Data(data=body)))
            line.sendall(connection.send(h11.EndOfMessage()))
            status, fields, text = None, {}, b""
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(line.recv(65536))
                elif isinstance(event, h11.Response):
                    status, fields = event.status_code, dict(event.headers)
                elif isinstance(event, h11.Data):
                    text += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
            found.append((status, fields, text))
            if connection.their_state is not h11.DONE:
                break
            connection.start_next_cycle()
        return found


def test_decisions_and_outcomes(served):
    path = "/v1/experiments/shop/decisions"
    asked = [("POST", path, json.dumps({"person": f"person {i}"}).encode()) for i in range(20)]
    found = _asked(served, asked)
    assert [status for status, *_ in found] == [200] * 20
    ids = [json.loads(text)["decision_id"] for *_, text in found]
    assert len(set(ids)) == 20
    told = _asked(served, [("POST", f"/v1/decisions/{one}/outcome", b'{"taken": null}') for one in ids])
    assert [json.loads(text)["status"] for *_, text in told] == ["recorded"] * 20


def test_pages_refusals_and_answers_without_a_body(served):
    requests = [
        ("GET", "/v1/experiments", None),
        ("GET", "/docs", None, ("Accept", "text/html")),
        ("GET", "/openapi.json", None, ("Accept-Encoding", "gzip")),
        ("GET", "/nothing", None),
        ("DELETE", "/v1/experiments/shop/decisions", None),
        ("POST", "/v1/experiments/shop/decisions", b"{"),
        ("POST", "/v1/experiments/nobody/decisions", b'{"person": "ann"}'),
        ("HEAD", "/health/live", None),
        ("GET", "/health/ready", None),
    ]
    found = _asked(served, requests)
    statuses = [status for status, *_ in found]
    assert len(found) == len(requests)
    assert statuses[:4] == [200, 200, 200, 404]
    assert statuses[4] == 405
    assert statuses[5:7] == [422, 404]
    assert found[7][2] == b""
    assert statuses[8] == 200
