"""Webhooks: releases in order, signed, again after failures, and never into a private network."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import Mock

import pytest

from discreet.service import queries, webhooks
from discreet.service.auth import Secrets
from discreet.service.database import Transaction
from discreet.service.webhooks import Webhooks

from .test_api import experiment, refused
from .world import PURE, World, taken

HERE = webhooks.networks("127.0.0.0/8")


class Receiver(ThreadingHTTPServer):
    """Takes releases, unless it is told to fail; ``moved`` sends them elsewhere."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.got, self.status = [], 200
        self.free = threading.Event()  # until then it holds what it gets, if ``holds`` says so
        self.holds, self.drips = set(), False
        self.url = f"http://127.0.0.1:{self.server_port}/releases?from=shop"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, self.headers["discreet-signature"], body))
        if len(self.server.got) in self.server.holds:
            self.server.free.wait(60)
        if self.server.drips:
            with contextlib.suppress(OSError):
                while not self.server.free.wait(0.05):
                    self.wfile.write(b"H")
        self.send_response(self.server.status)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receivers():
    made = []

    def make():
        made.append(Receiver())
        return made[-1]

    yield make
    for server in made:
        server.free.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def receiver(receivers):
    return receivers()


def looked(sender, receiver):
    """How many releases come with one look, once all turns are over."""
    before = len(receiver.got)
    sender.look()
    for turn in sender.turns.values():
        turn.join()
    return len(receiver.got) - before


def seqs(receiver):
    return [json.loads(body)["release"]["seq"] for *_, body in receiver.got]


def until(done, seconds=8.0):
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.01)
    return done()


def serve(world, rounds=16):
    for _ in range(rounds):
        _, sequence, shown = world.serve()
        world.report(sequence, shown[0])
        if world.blocks[0].over:
            world.settle()


def due_now(world):
    with world.store.transaction() as tx:
        tx.do("UPDATE webhook SET next_try = 0")


def test_every_release_is_sent_once_in_order_and_signed(url, receiver):
    world, secrets = World(url, taken(), PURE), Secrets.fresh()
    serve(world)  # before it is asked for
    number = webhooks.create(world.store, "shop", receiver.url)
    sender = Webhooks(world.store, secrets, HERE)
    assert looked(sender, receiver) == 0
    serve(world, 24)
    sent = looked(sender, receiver)
    assert sent >= 2
    assert looked(sender, receiver) == 0
    first = webhooks.listed(world.store, "shop")[0]["sent"] - sent
    known = {one["seq"]: one for one in queries.releases(world.store, "shop")}
    for place, (path, header, body) in enumerate(receiver.got, 1):
        at, _, signed = header.removeprefix("t=").partition(",v1=")
        assert signed == webhooks.signature(secrets.webhook(number), int(at), body)
        assert json.loads(body) == {"experiment": "shop", "release": known[first + place]}
        assert path == "/releases?from=shop"
    assert len(receiver.got) == sent
    assert webhooks.delete(world.store, "shop", number)
    assert not webhooks.delete(world.store, "shop", number)


def test_what_is_not_taken_is_sent_again_later(url, receiver):
    world = World(url, taken(), PURE)
    webhooks.create(world.store, "shop", receiver.url)
    sender = Webhooks(world.store, Secrets.fresh(), HERE)
    serve(world)
    for status, failures in ((500, 1), (302, 2), (404, 3)):
        receiver.status = status
        assert looked(sender, receiver) == 1
        assert webhooks.listed(world.store, "shop")[0]["failures"] == failures
        assert looked(sender, receiver) == 0  # not before its pause is over
        due_now(world)
    assert len(receiver.got) == 3
    assert {path for path, *_ in receiver.got} == {"/releases?from=shop"}  # and not elsewhere
    receiver.status = 204
    assert looked(sender, receiver) >= 1
    assert webhooks.listed(world.store, "shop")[0]["failures"] == 0


def test_pauses_double_from_ten_seconds_to_a_day(file_url, monkeypatch):
    """Nothing that was released is taken; times are the store's."""
    world = World(file_url, taken(), PURE)
    monkeypatch.setattr(Transaction, "now", lambda _: 5000.0)
    webhooks.create(world.store, "shop", "https://example.com/x")
    with world.store.transaction() as tx:
        payload = json.dumps({"items": [], "values": [], "shares": []})
        row = (1, 1, 0, 0, payload, b"")
        tx.do(
            "INSERT INTO release (experiment, seq, epoch, at, payload, chain) VALUES (?, ?, ?, ?, ?, ?)", *row
        )
        tx.do("UPDATE experiment SET seq = 1")
    sender, due = Webhooks(world.store, Secrets.fresh(), HERE), "SELECT next_try FROM webhook"
    sender._taken = lambda *_: False
    pauses = []
    for _ in range(16):
        due_now(world)
        sender.look()
        for turn in sender.turns.values():
            turn.join()
        pauses.append(world.rows(due)[0][0] - 5000.0)
    assert pauses == [min(10.0 * 2**number, 24 * 3600.0) for number in range(16)]
    assert webhooks._TIMEOUT == 10.0  # of an answer
    due_now(world)
    sender._turn = lambda *_: None
    sender.turns = {str(number): Mock() for number in range(15)}
    sender.look()
    assert len(sender.turns) == 16  # at the same time; it is this one's for half a minute
    assert world.rows(due) == [(5030.0,)]
    due_now(world)
    sender.turns = {str(number): Mock() for number in range(16)}
    sender.look()
    assert world.rows(due) == [(0.0,)]


def test_a_slow_receiver_holds_up_nobody_else(url, receivers):
    world, slow, quick = World(url, taken(), PURE), receivers(), receivers()
    slow.holds = {1}
    for one in (slow, quick):
        webhooks.create(world.store, "shop", one.url)
    serve(world, 40)
    with world.store.transaction() as tx:
        last = tx.one("SELECT seq FROM experiment")[0]
    sender = Webhooks(world.store, Secrets.fresh(), HERE)
    sender.start()
    try:
        assert last >= 3
        assert until(lambda: len(quick.got) == last)
        assert seqs(quick) == list(range(1, last + 1))
        assert seqs(slow) == [1]
        slow.free.set()
        assert until(lambda: len(slow.got) == last)
        assert seqs(slow) == list(range(1, last + 1))
    finally:
        sender.stop()


def test_whoever_goes_on_after_a_kill_begins_where_nothing_is_written_down(url, receiver):
    """The turn that was killed, or only stopped for long, changes nothing when it wakes up again."""
    world = World(url, taken(), PURE)
    webhooks.create(world.store, "shop", receiver.url)
    serve(world, 40)
    first, second = (Webhooks(world.store, Secrets.fresh(), HERE) for _ in range(2))
    receiver.holds = {2}
    first.look()
    assert until(lambda: len(receiver.got) == 2)
    second.look()
    assert second.turns == {}  # it is the other's, as far as anybody knows
    due_now(world)  # the lease is over
    assert looked(second, receiver) >= 2
    last = webhooks.listed(world.store, "shop")[0]["sent"]
    assert seqs(receiver) == [1, *range(2, 3), *range(2, last + 1)]
    receiver.free.set()
    for turn in first.turns.values():
        turn.join()
    assert webhooks.listed(world.store, "shop")[0]["sent"] == last
    assert len(receiver.got) == last + 1


def test_an_answer_byte_by_byte_is_cut_off(file_url, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "_TIMEOUT", 0.5)
    world = World(file_url, taken(), PURE)
    webhooks.create(world.store, "shop", receiver.url)
    serve(world)
    receiver.drips = True
    sender = Webhooks(world.store, Secrets.fresh(), HERE)
    sender.look()
    (turn,) = sender.turns.values()
    turn.join(8.0)
    assert not turn.is_alive()
    assert webhooks.listed(world.store, "shop")[0]["failures"] == 1


def test_a_receiver_that_was_away_for_long_gets_the_oldest_first(file_url, receiver):
    """More releases than are listed at a time: none is left out."""
    world = World(file_url, taken(), PURE)
    webhooks.create(world.store, "shop", receiver.url)
    many = 1101
    with world.store.transaction() as tx:
        payload = json.dumps({"items": [], "values": [], "shares": []})
        tx.many(
            "INSERT INTO release (experiment, seq, epoch, at, payload, chain) VALUES (1, ?, 0, 0, ?, ?)",
            [(seq, payload, b"") for seq in range(1, many + 1)],
        )
        tx.do("UPDATE experiment SET seq = ?", many)
    sender = Webhooks(world.store, Secrets.fresh(), HERE)
    assert looked(sender, receiver) == 100
    assert seqs(receiver) == list(range(1, 101))


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),
        *("224.0.0.1", "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::"),
        # What stands for addresses of version 4: 6to4, NAT64, compatible, translated; and site-local.
        *("2002:7f00:1::1", "64:ff9b::a00:1", "64:ff9b:1::1", "::7f00:1", "::ffff:0:7f00:1", "fec0::1"),
    ],
)
def test_private_networks_are_refused(monkeypatch, address):
    """By number, and by a name that leads there, also beside an address that everybody can reach."""
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(ValueError, match="private network"):
        webhooks.target(f"https://{host}/x", [])
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    answers = [(socket.AF_INET, 1, 6, "", ("8.8.8.8", 443)), (family, 1, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(ValueError, match="private network"):
        webhooks.target("https://innocent.example/x", [])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers[:1])
    assert webhooks.target("https://innocent.example/x", []) == ("8.8.8.8", 443)
    with pytest.raises(ValueError, match="over https"):
        webhooks.target("http://innocent.example/x", [])


def test_nothing_is_sent_into_a_private_network(file_url, receiver, caplog):
    world = World(file_url, taken(), PURE)
    webhooks.create(world.store, "shop", receiver.url)
    serve(world)
    with caplog.at_level(logging.WARNING, "discreet.service"):
        assert looked(Webhooks(world.store, Secrets.fresh(), []), receiver) == 0
    assert "a release was not sent" in caplog.text


def test_the_address_that_was_looked_at_is_the_one_that_is_used(monkeypatch):
    """A second answer of a name server leads nowhere."""
    used = []

    def connect(address, *_, **__):
        used.append(address)
        raise OSError

    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("8.8.8.8", 443))]
    )
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(OSError):
        webhooks.send("https://innocent.example/x", "secret", b"{}", [])
    assert used == [("8.8.8.8", 443)]


def test_webhooks_over_http(shared_service):
    client = shared_service.client()
    experiment(client, "hooked")
    for wrong in (
        "ftp://example.com",
        "example.com",
        "https://",
        "https://user@example.com/",
        "https://a b/",
    ):
        error = refused(lambda wrong=wrong: client.create_webhook("hooked", wrong))
        assert (error.status, error.problem["at"]) == (422, "$.url")
    made = client.create_webhook("hooked", "https://example.com/releases")
    assert len(made["secret"]) == 64
    (listed,) = client.webhooks("hooked")
    assert (listed["id"], listed["url"]) == (made["id"], "https://example.com/releases")
    assert "secret" not in listed
    assert refused(lambda: client.create_webhook("nobody", "https://example.com/")).status == 404
    assert refused(lambda: client.delete_webhook("hooked", "none")).status == 404
    client.delete_webhook("hooked", made["id"])
    assert client.webhooks("hooked") == []
