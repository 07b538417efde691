"""Webhooks: every release of an experiment is sent to addresses that operators named, signed, in order.

A release that was taken (any 2xx) is not sent again, unless a crash leaves that unknown: the receiver
goes by ``seq``. Others are tried again, with growing pauses, up to a day apart. What is sent is what analysts
read, and was committed before. The signature is ``HMAC-SHA256(secret, time + "." + body)`` in hexadecimal, in
the header ``Discreet-Signature: t=TIME,v1=SIGNATURE``.

An address must be one that everybody can reach: names are looked up here, every address of a name has to be
global, and the connection goes to the address that was looked at, so that no second answer of a name server
leads into the network that the service is in. Redirects are not followed, and no answer is kept.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import ipaddress
import json
import logging
import socket
import ssl
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from .auth import Secrets, new_token
from .database import Database, StoreError
from .queries import releases

logger = logging.getLogger("discreet.service")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNICAST = ipaddress.ip_network("2000::/3")  # all of version 6 that is given to anybody
_LOOK = 1.0  # seconds between looks for releases that were not sent
_TIMEOUT = 10.0  # seconds for an answer
_FIRST, _LONGEST = 5.0, 86400.0  # seconds until a failure is tried again: twice as long each time
_AT_ONCE = 100  # releases that are read at a time


def networks(text: str) -> list[Network]:
    """Networks with commas between them, which may be sent to although not everybody can reach them."""
    return [ipaddress.ip_network(one.strip()) for one in text.split(",") if one.strip()]


def check(url: str) -> None:
    """Refuse what is not an https address; where it leads is looked at when it is used."""
    try:
        parts = urlsplit(url)
        known = parts.hostname is not None and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.scheme not in ("https", "http") or not url.isascii() or not url.isprintable():
        raise ValueError("url must be like https://example.com/releases")
    if parts.username is not None or parts.fragment or " " in url:
        raise ValueError("url must have no user, fragment or space in it")


def target(url: str, allowed: list[Network]) -> tuple[str, int]:
    """The address and port to connect to; ValueError for one that not everybody can reach.

    >>> target("https://127.0.0.1/x", [])
    Traceback (most recent call last):
    ValueError: the address is on a private network
    >>> target("https://127.0.0.1/x", networks("127.0.0.0/8"))
    ('127.0.0.1', 443)
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    for address in addresses:
        plain = getattr(address, "ipv4_mapped", None) or address
        known = any(plain in one for one in allowed)
        if not known and not _public(plain):
            raise ValueError("the address is on a private network")
        if not known and parts.scheme != "https":
            raise ValueError("the address must be reached over https")
    return str(addresses[0]), port


def _public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is everybody's; none of those of version 6 that stand for one of version 4 (NAT64, 6to4)."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    tunnelled = getattr(address, "sixtofour", None) is not None
    return address.is_global and not (address.is_multicast or address.is_reserved or tunnelled)


def signature(secret: str, at: int, body: bytes) -> str:
    """What a release is signed with at a time."""
    return hmac.digest(secret.encode(), f"{at}.".encode() + body, "sha256").hex()


class _Pinned(http.client.HTTPSConnection):
    """A connection to an address that was looked at, with the certificate of the name."""

    def __init__(self, name: str, address: str, port: int) -> None:
        super().__init__(name, port, timeout=_TIMEOUT, context=ssl.create_default_context())
        self._address = address

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), _TIMEOUT)
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)  # type: ignore[attr-defined]


def send(url: str, secret: str, body: bytes, allowed: list[Network]) -> bool:
    """Send one release; whether it was taken."""
    parts, (address, port) = urlsplit(url), target(url, allowed)
    name = str(parts.hostname)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = _Pinned(name, address, port)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=_TIMEOUT)
    now = int(time.time())
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "Discreet-Signature": f"t={now},v1={signature(secret, now, body)}",
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with contextlib.closing(connection):
        connection.request("POST", path, body, headers)
        return 200 <= connection.getresponse().status < 300


# --- rows -----------------------------------------------------------------------------------------------


def create(store: Database, experiment: str, url: str) -> str:
    """A new webhook, which is sent what is released from now on; its number."""
    number = new_token(6)
    with store.transaction() as tx:
        row = tx.one("SELECT id, seq FROM experiment WHERE name = ?", experiment)
        if row is None:
            raise LookupError("experiment")
        tx.do(
            "INSERT INTO webhook (id, experiment, url, created, seq) VALUES (?, ?, ?, ?, ?)",
            *(number, row[0], url, tx.now(), row[1]),
        )
    return number


def delete(store: Database, experiment: str, number: str) -> bool:
    """Send nothing there any more; whether there was one."""
    with store.transaction() as tx:
        gone = tx.do(
            "DELETE FROM webhook WHERE id = ? AND experiment IN (SELECT id FROM experiment WHERE name = ?)",
            *(number, experiment),
        )
    return bool(gone)


def listed(store: Database, experiment: str) -> list[dict[str, Any]]:
    with store.transaction() as tx:
        rows = tx.all(
            "SELECT w.id, w.url, w.created, w.seq, w.failures FROM webhook w JOIN experiment e"
            " ON e.id = w.experiment WHERE e.name = ? ORDER BY w.created",
            experiment,
        )
    return [dict(zip(("id", "url", "created", "sent", "failures"), row, strict=True)) for row in rows]


class Webhooks:
    """Sends what was not sent yet, in a thread of its own, until it is stopped."""

    def __init__(self, store: Database, secrets: Secrets, allowed: list[Network]) -> None:
        self._store, self._secrets, self._allowed = store, secrets, allowed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="discreet-webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK):
            with contextlib.suppress(StoreError):
                self.look()

    def look(self) -> int:
        """Send what is due; how many releases were taken. Each webhook is one process's for a while."""
        with self._store.transaction() as tx:
            now = tx.now()
            due = tx.locked(
                "SELECT w.id, w.url, w.seq, w.failures, e.name FROM webhook w JOIN experiment e"
                " ON e.id = w.experiment WHERE w.seq < e.seq AND w.next_try <= ?",
                now,
                strength="UPDATE OF w SKIP LOCKED",
            )
            claimed = [(now + 2 * _TIMEOUT * _AT_ONCE, number) for number, *_ in due]
            tx.many("UPDATE webhook SET next_try = ? WHERE id = ?", claimed)
        return sum(self._send(*one) for one in due)

    def _send(self, number: str, url: str, seq: int, failures: int, experiment: str) -> int:
        waiting = releases(
            self._store, experiment, before=seq + 1 + _AT_ONCE, limit=_AT_ONCE
        )  # the next ones
        taken = 0
        for one in [one for one in reversed(waiting) if one["seq"] > seq]:
            body = json.dumps({"experiment": experiment, "release": one}).encode()
            try:
                done = send(url, self._secrets.webhook(number), body, self._allowed)
            except (OSError, ValueError, http.client.HTTPException) as error:
                done = False
                logger.warning("a release was not sent", exc_info=error)
            if not done or self._stop.is_set():
                break
            seq, taken = one["seq"], taken + 1
        failures = 0 if taken else failures + 1
        pause = min(_FIRST * 2.0**failures, _LONGEST) if failures else 0.0
        with self._store.transaction() as tx:
            tx.do(
                "UPDATE webhook SET seq = ?, failures = ?, next_try = ? WHERE id = ?",
                *(seq, failures, tx.now() + pause, number),
            )
        return taken
