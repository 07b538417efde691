"""Webhooks: releases in order, signed, again after failures, and never into a private network."""

from __future__ import annotations

import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from discreet.service import queries, webhooks
from discreet.service.auth import Secrets
from discreet.service.webhooks import Webhooks

from .test_api import experiment, refused
from .world import PURE, World, taken

HERE = webhooks.networks("127.0.0.0/8")


class Receiver(ThreadingHTTPServer):
    """Takes releases, unless it is told to fail; ``moved`` sends them elsewhere."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.got, self.status = [], 200
        self.url = f"http://127.0.0.1:{self.server_port}/releases?from=shop"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, self.headers["discreet-signature"], body))
        self.send_response(self.server.status)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


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
    assert sender.look() == 0
    serve(world, 24)
    sent = sender.look()
    assert sent >= 2
    assert sender.look() == 0
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
        assert sender.look() == 0
        assert webhooks.listed(world.store, "shop")[0]["failures"] == failures
        assert sender.look() == 0  # not before its pause is over
        due_now(world)
    assert len(receiver.got) == 3
    assert {path for path, *_ in receiver.got} == {"/releases?from=shop"}  # and not elsewhere
    receiver.status = 204
    assert sender.look() >= 1
    assert webhooks.listed(world.store, "shop")[0]["failures"] == 0


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
    assert sender.look() == 100
    assert [json.loads(body)["release"]["seq"] for *_, body in receiver.got] == list(range(1, 101))


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
        assert Webhooks(world.store, Secrets.fresh(), []).look() == 0
    assert receiver.got == []
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
