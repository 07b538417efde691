"""Logs: a line of JSON for each answer and each failure, with where it came from, and nothing of anybody."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import time
import urllib.request
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from discreet.client import ServiceError
from discreet.service import queries
from discreet.service.metrics import Answered, Instrumented, JsonLines, RequestLog

from .conftest import Running
from .pages import Visitor
from .test_api import experiment
from .test_telemetry import MARKER, spans

DECISIONS = "/v1/experiments/{name}/decisions"


@pytest.fixture
def lines():
    """What is logged here, as records of JSON."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("discreet.service")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(before)


class Logging(Instrumented):
    """Told to logs as well as to spans."""

    def __init__(self, app, *told):
        super().__init__(app, *told, RequestLog())


def test_answers_are_logged_by_route_and_nobody_is(tmp_path, lines):
    spans(tmp_path, 6, Logging)
    found = lines()
    told = [one for one in found if one["message"] == "answered"]
    assert [(one["route"], one["status"]) for one in told[:6]] == [(DECISIONS, 200)] * 6
    assert len({one["request"] for one in told}) == len(told)
    assert all(re.fullmatch(r"[0-9a-f]{16}", one["request"]) for one in told)
    assert all(one["ms"] >= 0 for one in told)
    assert not any("outcome" in one["route"] or "reward" in one["route"] for one in told)
    text = json.dumps(found)
    assert MARKER not in text
    assert "dk_" not in text


def fails(*_, **__):
    raise RuntimeError(f"about {MARKER}")


def test_a_failure_is_logged_with_its_trace_and_without_its_message(tmp_path, lines, monkeypatch):
    monkeypatch.setattr(queries, "status", fails)
    spans(tmp_path, 0, Logging)
    failed, answered = [one for one in lines() if one["route"] == "/v1/experiments/{name}/status"]
    assert failed["message"] == "a request failed"
    assert failed["error"] == "RuntimeError"
    assert failed["trace"][-1].endswith(" fails")
    assert any("service/api.py:" in frame for frame in failed["trace"])
    assert failed["request"] == answered["request"]
    assert (answered["level"], answered["status"]) == ("error", 500)
    assert MARKER not in json.dumps(lines())


def test_causes_of_an_error_are_in_its_trace(lines):
    def deep():
        raise KeyError(MARKER)

    try:
        try:
            deep()
        except KeyError as error:
            raise ValueError(MARKER) from error
    except ValueError as error:
        logging.getLogger("discreet.service").error("it failed\n%s", MARKER, exc_info=error)
    (line,) = lines()
    assert line["message"] == "it failed"
    assert line["error"] == "ValueError"
    assert "from KeyError" in line["trace"]
    assert line["trace"][-1].endswith(" deep")
    assert MARKER not in json.dumps(line)


def test_ids_of_requests_are_the_services_own():
    async def app(scope, receive, send):
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    told = Mock()

    async def sent():
        said = []
        instrumented = Instrumented(app, told)

        async def send(message):
            said.append(message)

        scope = {"type": "http", "method": "GET", "headers": [(b"x-request-id", MARKER.encode())]}
        scope["route"] = SimpleNamespace(path_format="/here")
        await instrumented(scope, None, send)
        return dict(said[0]["headers"])

    began = time.perf_counter()
    found = asyncio.run(sent())[b"x-request-id"].decode()
    assert re.fullmatch(r"[0-9a-f]{16}", found)
    (answered,) = told.answered.call_args.args
    assert (answered.request, answered.method, answered.route, answered.status) == (
        found,
        "GET",
        "/here",
        200,
    )
    assert 0.0 < answered.seconds < time.perf_counter() - began


@pytest.mark.parametrize(
    ("route", "status", "level", "words"),
    [
        ("/here", 200, "info", "answered"),
        ("/here", 499, "info", "answered"),
        ("/here", 500, "error", "answered"),
        ("/login", 303, "info", "answered"),
        ("/login", 400, "warning", "a log-in failed"),
    ],
)
def test_failures_are_errors_and_failed_log_ins_warnings(lines, route, status, level, words):
    RequestLog().answered(Answered("1", "GET", route, status, 0, 0.2504))
    (line,) = lines()
    assert (line["level"], line["message"], line["status"], line["ms"]) == (level, words, status, 250.4)


def test_a_running_service_logs_lines_and_measures(tmp_path, monkeypatch):
    operator = Running.__init__.__globals__["_free_port"]()
    monkeypatch.setenv("DISCREET_LOG_LEVEL", "info")
    monkeypatch.setenv("DISCREET_OPERATOR_PORT", str(operator))
    service = Running(tmp_path)
    client = service.client()
    experiment(client, "shop")
    client.report(client.decide("shop", MARKER), likes=["item 1"])
    with pytest.raises(ServiceError):
        client.request("GET", f"/v1/experiments/{MARKER}/status")
    assert Visitor(service.port).post("/login", key=f"dk_{MARKER}").status == 401
    deadline = time.monotonic() + 60
    text = ""
    while 'route="/login"' not in text:  # it is told of an answer just after that was sent
        assert time.monotonic() < deadline
        with urllib.request.urlopen(f"http://127.0.0.1:{operator}/metrics") as answer:
            text = answer.read().decode()
    assert f'discreet_request_seconds_count{{route="{DECISIONS}",status="200"}} 1.0' in text
    assert 'discreet_request_seconds_count{route="/login",status="401"} 1.0' in text
    assert "outcome" not in text
    service.stop()
    log = (service.folder / "log").read_text()
    *said, last = log.splitlines()
    assert last == "discreet serve: interrupted"  # what the command says
    lines = [json.loads(line) for line in said]
    failed = next(one for one in lines if one.get("route") == "/login")
    assert (failed["level"], failed["message"], failed["status"]) == ("warning", "a log-in failed", 401)
    assert any(one.get("route") == DECISIONS and one["status"] == 200 for one in lines)
    assert MARKER not in log
    assert service.key not in log
