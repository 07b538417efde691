"""Sessions of people at pages, and how often somebody may try."""

from __future__ import annotations

import time

from discreet.service import auth
from discreet.service.auth import Secrets, Sessions, Throttle, network_of

from .conftest import Running
from .pages import Visitor
from .world import World


def test_ended_sessions_are_known_to_all_processes(url, monkeypatch):
    store, secrets = World(url).store, Secrets.fresh()
    held, other = Sessions(secrets, store), Sessions(secrets, store)
    cookie, second = held.begin("some-key"), held.begin("some-key")
    assert held.read(cookie).key == "some-key"
    assert Sessions(Secrets.fresh(), store).read(cookie) is None
    held.end(held.read(cookie))
    held.end(other.read(cookie))
    assert held.read(cookie) is None
    other.refresh()
    assert other.read(cookie) is None
    later = Sessions(secrets, store)  # after a restart
    later.refresh()
    assert later.read(cookie) is None
    assert later.read(second) is not None
    over = time.time() + auth.LIFE
    session = later.read(second)
    monkeypatch.setattr(time, "time", lambda: over)
    assert later.read(second) is None
    later.end(session)
    with store.transaction() as tx:
        assert tx.all("SELECT number FROM ended_session") == [(session.number,)]  # others are forgotten


def test_wrong_keys_are_limited_by_address(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    throttle = Throttle(3, 0.5, most=2)
    site = network_of("2001:db8::1")
    for _ in range(3):
        assert throttle.free(site)
        throttle.spend(site)
    assert not throttle.free(network_of("2001:db8::2"))  # of the same site
    assert throttle.free(network_of("2001:db8:1::1"))
    now[0] += 2.0
    assert throttle.free(site)
    throttle.spend(site)
    assert not throttle.free(site)
    for address in ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", ""):
        throttle.spend(network_of(address))
    assert len(throttle._spent) == 2


def test_wrong_keys_and_hasty_visitors_are_held_back(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_RATE", "2")
    service = Running(tmp_path)
    one = Visitor(service.port)
    for _ in range(20):
        assert one.post("/login", key="dk_wrong").status == 401
    found = one.post("/login", key=service.key)
    assert (found.status, found.headers["retry-after"]) == (429, "60")
    for forged in ({"X-Forwarded-For": "10.0.0.9"}, {"X-Forwarded-For": "2001:db8::9"}):
        origin = {"Origin": f"http://127.0.0.1:{service.port}", "Sec-Fetch-Site": "same-origin"}
        elsewhere = one.send("POST", "/login", f"key={service.key}", **origin, **forged)
        assert elsewhere.status == 303  # through a proxy on this machine, from another address
    assert [one.get("/experiments").status for _ in range(20)].count(429) > 5  # a rate is for pages, too
    service.stop()
