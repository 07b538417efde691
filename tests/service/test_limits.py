"""What floods, slow senders, plans and signals do to a service: not much."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from msgspec import structs

from discreet.cli import main
from discreet.service import limits
from discreet.service.api import PlanRequest
from discreet.service.config import ExperimentConfig, read_settings

from .conftest import Running
from .test_api import experiment, refused

_POST = b"POST /v1/experiments/shop/decisions HTTP/1.1\r\nHost: x\r\n"


def memory(service):
    """Resident megabytes of a service."""
    lines = Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def answer(sock):
    """All that comes until the connection is closed."""
    sock.settimeout(60)
    found = b""
    try:
        while more := sock.recv(1 << 16):
            found += more
    except ConnectionError:
        pass
    return found


def connect(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=60)


@pytest.mark.parametrize("kind", ["one field", "many fields", "a long path"])
def test_a_header_without_an_end_is_refused_before_it_is_parsed(shared_service, kind):
    """The rest of 50 MB is not read: the connection is closed, and memory stays as it was."""
    before = memory(shared_service)
    start = {"one field": _POST + b"X: ", "many fields": _POST, "a long path": b"GET /"}[kind]
    blob = b"X-Field: yyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 2000 if kind == "many fields" else b"a" * 65536
    sent = 0
    with connect(shared_service) as sock:
        sock.sendall(start)
        try:
            while sent < 50_000_000:
                sock.sendall(blob)
                sent += len(blob)
        except ConnectionError:
            pass
    assert sent < 10_000_000  # what the buffers of two sockets hold
    assert memory(shared_service) < before + 20
    assert shared_service.client().request("GET", "/health/live") == {"status": "alive"}


def test_a_header_that_is_too_large_is_told_so(shared_service):
    """Also in pieces; what is just small enough, with a body after it, is taken."""
    for fields in (
        b"X: " + b"a" * limits.HEAD + b"\r\n",
        b"".join(b"X-%d: y\r\n" % number for number in range(limits.FIELDS)),
    ):
        with connect(shared_service) as sock:
            sock.sendall(_POST + fields + b"\r\n")
            found = answer(sock)
        assert found.startswith(b"HTTP/1.1 431 ")
        assert json.loads(found.partition(b"\r\n\r\n")[2])["type"] == "about:blank#headers"


@pytest.mark.parametrize("cut", [None, 1, 2, 3, 4, 200])
def test_a_body_does_not_count_as_header(shared_service, cut):
    """However the end of the header is cut in pieces."""
    body = json.dumps({"name": "x", "role": "app", "experiments": ["y" * 90] * 1000}).encode()
    assert len(body) > 4 * limits.HEAD
    head = (
        f"POST /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {shared_service.key}\r\n"
        f"X: {'a' * (limits.HEAD - 400)}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    assert limits.HEAD - 400 < len(head) <= limits.HEAD
    with connect(shared_service) as sock:
        if cut is None:
            sock.sendall(head + body)
        else:
            sock.sendall(head[:-cut])
            time.sleep(0.1)
            sock.sendall(head[-cut:] + body)
        assert answer(sock).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize("how", ["beside a body", "beside a body, a long path", "trailers", "many trailers"])
def test_a_header_is_small_wherever_it_comes(shared_service, how):
    """In one piece with the request before it, and after a body in chunks."""
    key = f"Authorization: Bearer {shared_service.key}\r\n".encode()
    first = _POST + key + b"Content-Length: 2\r\n\r\n{}"
    chunked = _POST + key + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    sent = {
        "beside a body": first + _POST + b"X: " + b"a" * 30_000 + b"\r\n\r\n",
        "beside a body, a long path": first + b"GET /" + b"a" * 30_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        "trailers": chunked + b"X: " + b"a" * 30_000 + b"\r\n\r\n",
        "many trailers": chunked + b"X: a\r\n" * 5000 + b"\r\n",
    }[how]
    with connect(shared_service) as sock:
        sock.sendall(sent)
        assert b"431 Request Header Fields Too Large" in answer(sock)


def test_where_a_header_ends_is_what_counts():
    """Not the body that came with it: of two pieces, the end of the first of which is kept."""

    def too_long(before, tail, data):
        one = SimpleNamespace(_head=before + len(data), _tail=tail)
        return limits.LimitedProtocol._too_long(one, data)

    assert not too_long(16_381, b"a\r\n", b"\r\nand a body" * 100)
    assert not too_long(10, b"abc", b"x" * 16_374 + b"\r\n\r\n" + b"y" * 100)  # 16,384 bytes
    assert too_long(10, b"abc", b"x" * 16_375 + b"\r\n\r\n")
    assert too_long(16_381, b"abc", b"and on")


def test_names_values_and_addresses_count():
    """16,384 bytes and 64 fields; the next one is refused."""

    def request():
        one = limits.LimitedProtocol.__new__(limits.LimitedProtocol)
        one._size, one._refused, one.url, one.headers = 0, False, b"", []
        return one

    large, many = request(), request()
    large.on_url(b"/" * 16_000)
    large.on_header(b"a" * 192, b"b" * 191)
    assert not large._refused
    with pytest.raises(ValueError, match="header"):
        large.on_header(b"c", b"d")
    assert large._refused
    for number in range(64):
        many.on_header(b"x-%d" % number, b"y")
    with pytest.raises(ValueError, match="header"):
        many.on_header(b"c", b"d")
    assert limits.configured(None, connections=5).limit_concurrency == 6


def test_the_first_of_the_sockets_that_were_handed_over_is_taken(monkeypatch):
    taken = []
    monkeypatch.setattr(limits.socket, "socket", lambda fileno: taken.append(fileno) or Mock())
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "2")
    limits.listening("127.0.0.1", 1)
    assert taken == [3]


def test_who_sends_slowly_is_cut_off(tmp_path):
    """A connection without a request, a header in drops, a body in drops; a keep-alive connection is not."""
    service = Slow(tmp_path)
    try:
        idle, head, whole = connect(service), connect(service), connect(service)
        body = connect(service)
        body.sendall(_POST + f"Authorization: Bearer {service.key}\r\nContent-Length: 1000\r\n\r\n".encode())
        keep = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        keep.request("GET", "/health/live")
        assert keep.getresponse().read()
        start = time.monotonic()
        while time.monotonic() - start < 2.6:
            for sock, drop in ((head, b"G"), (body, b"x")):
                with contextlib.suppress(ConnectionError):
                    sock.sendall(drop)
            time.sleep(0.2)
        for sock in (idle, head, body, whole):
            sock.settimeout(1.5)  # less than what every drop would gain
            try:
                while sock.recv(4096):
                    pass
            except ConnectionError:
                pass
            sock.close()
        keep.request("GET", "/health/live")
        assert keep.getresponse().read()
        keep.close()
    finally:
        service.stop()


class Slow(Running):
    """A service that waits for two seconds only."""

    _PROGRAM = (
        "import sys; from discreet.service import limits; limits.READ = 2.0;"
        "from discreet.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    python = ("-c", _PROGRAM)


def test_one_connection_too_many_is_closed(tmp_path):
    service = Running(tmp_path, DISCREET_CONNECTIONS="5")
    try:
        time.sleep(0.5)  # the one that looked whether it serves is gone
        held = [connect(service) for _ in range(5)]
        with connect(service) as sixth:
            assert answer(sixth) == b""
        held[0].sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"alive" in answer(held[0])
        for one in held:
            one.close()
    finally:
        service.stop()


def test_a_key_that_asks_too_often_is_told_to_wait(tmp_path):
    service = Running(tmp_path, DISCREET_RATE="5")
    try:
        client = service.client(retries=0)
        found = []
        for _ in range(40):
            try:
                client.request("GET", "/v1/experiments")
                found.append(200)
            except Exception as error:
                found.append(error.status)
        assert set(found) == {200, 429}
    finally:
        service.stop()
    assert read_settings().rate == 2000.0  # unless it is told otherwise


# --- plans ---------------------------------------------------------------------------------------------

_PLAN = {"items": 50, "k": 3, "people": 1000, "epsilon": 1.0, "feedback": "slots"}


def test_a_plan_is_made_for_the_defaults_of_an_experiment():
    planned, made = (
        {one.name: one.default for one in structs.fields(kind)} for kind in (PlanRequest, ExperimentConfig)
    )
    assert {name: planned[name] for name in ("share", "measure", "holdout")} == {
        name: made[name] for name in ("share", "measure", "holdout")
    }


def test_plans_do_not_stop_a_service(service):
    """45 at once, as large as can be: some are refused, and decisions go on."""
    client = service.client()
    experiment(client, "shop")
    assert "text" in client.request("POST", "/v1/plan", _PLAN)
    begin = time.monotonic()
    assert "text" in client.request("POST", "/v1/plan", _PLAN)  # remembered
    assert time.monotonic() - begin < 2
    said = []

    def ask(number):
        large = {"items": 100_000, "k": 1000, "people": 10**9 - number, "epsilon": 1.0}
        try:
            service.client(retries=0, timeout=300).request("POST", "/v1/plan", large)
            said.append("told")
        except Exception as error:
            said.append(getattr(error, "name", type(error).__name__))

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(45)]
    for one in threads:
        one.start()
    time.sleep(1)
    slowest = 0.0
    for number in range(20):
        begin = time.monotonic()
        client.decide("shop", f"person {number}")
        client.request("GET", "/v1/experiments")
        slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 10  # seconds, on a machine that everybody uses; it was never before
    assert said.count("busy") >= 37
    begin = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    service.process.wait(timeout=60)
    assert time.monotonic() - begin < 7  # the limit is 5; the rest is this machine's


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"items": 100_001}, "$.items"),
        ({"items": 0}, "$.items"),
        ({"k": 0}, "$.k"),
        ({"people": 10**10}, "$.people"),
        ({"epsilon": 0}, "$.epsilon"),
        ({"epsilon": 1e309}, "$.epsilon"),
        ({"delta": 0.5}, "$.delta"),
        ({"k": 51}, "$"),
    ],
)
def test_plans_have_sizes(shared_service, change, at):
    raw = json.dumps(_PLAN | change).replace("Infinity", "1e309").encode()
    connection = http.client.HTTPConnection("127.0.0.1", shared_service.port, timeout=120)
    connection.request("POST", "/v1/plan", raw, {"Authorization": f"Bearer {shared_service.key}"})
    response = connection.getresponse()
    problem = json.loads(response.read())
    connection.close()
    assert (response.status, problem["at"]) == (422, at)
    assert problem["detail"]


def test_work_side_process_ends_in_time_and_answers_are_remembered():
    import asyncio

    async def ask():
        side_process = limits.SideProcess(seconds=60.0, most=2)
        try:
            found = [await side_process.do(divmod, 7, 2) for _ in range(2)]
            side_process._seconds, begin = 0.1, time.monotonic()
            long = math.factorial, 100_000_000
            with pytest.raises(limits.TooLong):
                await side_process.do(*long)
            waiting = [asyncio.create_task(side_process.do(*long)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(limits.Crowded):
                await side_process.do(divmod, 9, 2)
            for one in waiting:
                with pytest.raises(limits.TooLong):
                    await one
            assert time.monotonic() - begin < 100  # it was not the patience of 120 that came to its end
            assert await side_process.do(time.sleep, 0.3) is None  # only processor time counts,
            side_process._seconds, side_process._patience = 60.0, 0.1
            with pytest.raises(limits.TooLong):
                await side_process.do(time.sleep, 600.0)  # within reason
            side_process._patience = 60.0
            found.append(await side_process.do(divmod, 9, 2))  # in a new process
            with pytest.raises(ValueError, match="invalid literal"):
                await side_process.do(int, "nine")
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):  # a failure, which is no refusal
                await side_process.do(divmod, 9, 0)
            return found
        finally:
            side_process.close()

    assert asyncio.run(ask()) == [(3, 1), (3, 1), (4, 1)]


# --- signals and ports ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_waits_for_nobody(service, how):
    """Connections that hang in the middle of a request, and one that reads nothing."""
    held = [connect(service) for _ in range(3)]
    key = f"Authorization: Bearer {service.key}\r\n".encode()
    held[0].sendall(_POST)
    held[1].sendall(_POST + key + b"Content-Length: 100\r\n\r\n{")
    time.sleep(0.3)
    begin = time.monotonic()
    service.process.send_signal(how)
    service.process.wait(timeout=60)
    assert time.monotonic() - begin < 7
    for one in held:
        one.close()


def test_a_stop_that_comes_in_a_restart_has_its_time_too(monkeypatch):
    """A restart has no limit of its own; whoever wants the process to end gets that within seconds."""
    begun = []
    monkeypatch.setattr(limits.threading, "Timer", lambda seconds, _: begun.append(seconds) or Mock())
    server = limits.Server(limits.configured(lambda: None, connections=1), lambda: None)
    server.should_exit = True  # as `Restart` does
    server.handle_exit(signal.SIGTERM, None)
    server.handle_exit(signal.SIGTERM, None)
    assert begun == [limits.STOP]


@pytest.mark.parametrize("port", ["0", "65536", "-1", "99999999999"])
def test_a_port_out_of_range_is_refused(tmp_path, port, capsys):
    assert main(["serve", "--port", port, "--store", f"sqlite:///{tmp_path}/x.db"]) == 2
    assert "port" in capsys.readouterr().err
    assert not (tmp_path / "x.db").exists()


def test_nothing_is_said_to_serve_that_does_not(shared_service, tmp_path):
    command = [sys.executable, "-m", "discreet", "serve", "--port", str(shared_service.port)]
    command += ["--store", f"sqlite:///{tmp_path}/x.db", "--secrets", f"{tmp_path}/secrets"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode != 0
    assert "serves at" not in found.stdout
    assert "address already in use" in found.stderr.lower()


@pytest.mark.parametrize("method", ["PUT", "GET", "PATCH"])
def test_a_method_that_a_path_does_not_take(shared_service, method):
    error = refused(lambda: shared_service.client().request(method, "/v1/keys/x/rotate"))
    assert (error.status, error.name) == (405, "method")
    connection = http.client.HTTPConnection("127.0.0.1", shared_service.port, timeout=60)
    connection.request("PUT", "/v1/experiments/x")
    assert connection.getresponse().getheader("allow") == "DELETE, GET, HEAD, PATCH"
    connection.close()
