"""Webhooks: every release of an experiment is sent to addresses set by operators, signed, in order.

A release that was accepted (any 2xx) is not sent again, unless a crash leaves that unknown: receivers
deduplicate by ``epoch`` and ``seq``. Others are tried again, with growing pauses, up to a day apart. A slow
receiver delays no other. What is sent is what analysts can read, and was committed before. The signature is
``HMAC-SHA256(secret, time + "." + body)`` in hexadecimal (``Discreet-Signature: t=TIME,v1=SIGNATURE``).

An address must be public: names are resolved here, every address of a name must be global, and the connection
goes to an address that was checked, so that a second answer of a name server cannot lead into the service's
own network (DNS rebinding). Redirects are not followed, and no answer is kept.
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

_UNICAST = ipaddress.ip_network("2000::/3")  # all of IPv6 that is allocated as global unicast
_LOOK = 1.0  # seconds between looks for releases that were not sent
_TIMEOUT = 10.0  # seconds for a connection and its answer
_LEASE = 3 * _TIMEOUT  # seconds for which a process leases a webhook
_TURN = 30.0  # seconds after which a webhook's turn ends
_MOST = 16  # webhooks that are sent to at the same time
_FIRST, _LONGEST = 5.0, 86400.0  # seconds: the first retry is after 10, each later one after twice as long
_AT_ONCE = 100  # releases that are read at a time


def networks(text: str) -> list[Network]:
    """Networks, separated by commas, to which releases may be sent although they are private."""
    return [ipaddress.ip_network(one.strip()) for one in text.split(",") if one.strip()]


def check(url: str) -> None:
    """Refuse malformed URLs; `target` checks the scheme and the address at each use."""
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
    """The address and port to connect to; ValueError for one that is private, and not ``allowed``.

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
    """Whether an address is public; not so for IPv6 addresses that embed an IPv4 one (NAT64, 6to4)."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    tunnelled = getattr(address, "sixtofour", None) is not None
    return address.is_global and not (address.is_multicast or address.is_reserved or tunnelled)


def signature(secret: str, at: int, body: bytes) -> str:
    """The signature of a release that is sent at a time."""
    return hmac.digest(secret.encode(), f"{at}.".encode() + body, "sha256").hex()


class _Pinned(http.client.HTTPSConnection):
    """A connection to an address that was checked, with the certificate of the name."""

    def __init__(self, name: str, address: str, port: int) -> None:
        super().__init__(name, port, timeout=_TIMEOUT, context=ssl.create_default_context())
        self._address = address

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), _TIMEOUT)
        self.sock = self._context.wrap_socket(  # type: ignore[attr-defined]
            plain, server_hostname=self.host, do_handshake_on_connect=False
        )
        self.sock.do_handshake()


def send(url: str, secret: str, body: bytes, allowed: list[Network]) -> bool:
    """Send one release; returns whether it was accepted."""
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
    limit = threading.Timer(_TIMEOUT, _cut, (connection,))  # in total: the socket's time-out is per read
    limit.daemon = True
    limit.start()
    try:
        with contextlib.closing(connection):
            connection.request("POST", path, body, headers)
            return 200 <= connection.getresponse().status < 300
    finally:
        limit.cancel()


def _cut(connection: http.client.HTTPConnection) -> None:
    """Shut the connection down, which raises an error where it is in use."""
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


# --- rows -----------------------------------------------------------------------------------------------


def create(store: Database, experiment: str, url: str) -> str:
    """Create a webhook for releases from now on; returns its number."""
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
    """Delete a webhook; returns whether there was one."""
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
    """Sends unsent releases until it is stopped, to several addresses at once.

    For one turn, one thread of one process has a webhook, by a lease in its row, which is renewed with every
    accepted release. Webhooks do not wait for each other's receivers, unless `_MOST` are slow at the same
    time; these give up their turn after `_TURN` seconds. After a kill, the next lease continues with the
    first release that is not recorded as accepted.
    """

    def __init__(self, store: Database, secrets: Secrets, allowed: list[Network]) -> None:
        self._store, self._secrets, self._allowed = store, secrets, allowed
        self._stop = threading.Event()
        self._looks = threading.Thread(target=self._work, name="discreet-webhooks", daemon=True)
        self.turns: dict[str, threading.Thread] = {}  # of the webhooks that are being sent to

    def start(self) -> None:
        self._looks.start()

    def stop(self) -> None:
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK):
            with contextlib.suppress(StoreError):
                self.look()

    def look(self) -> None:
        """Begin a turn for each webhook that is due, in the order of their due times."""
        self.turns = {number: one for number, one in self.turns.items() if one.is_alive()}
        with self._store.transaction() as tx:
            now = tx.now()
            due = tx.locked(
                "SELECT w.id, w.url, w.seq, w.failures, e.name FROM webhook w JOIN experiment e"
                " ON e.id = w.experiment WHERE w.seq < e.seq AND w.next_try <= ? ORDER BY w.next_try LIMIT ?",
                *(now, _MOST),
                strength="UPDATE OF w SKIP LOCKED",
            )
            due = [one for one in due if one[0] not in self.turns][: _MOST - len(self.turns)]
            tx.many("UPDATE webhook SET next_try = ? WHERE id = ?", [(now + _LEASE, one[0]) for one in due])
        for one in due:
            turn = threading.Thread(target=self._turn, args=one, name="discreet-webhook", daemon=True)
            self.turns[one[0]] = turn
            turn.start()

    def _turn(self, number: str, url: str, seq: int, failures: int, experiment: str) -> None:
        """Send the next releases of one webhook, in order, until one is not accepted or the turn is over."""
        with contextlib.suppress(StoreError):  # then the lease ends by itself
            end = time.monotonic() + _TURN
            next_ones = releases(self._store, experiment, before=seq + 1 + _AT_ONCE, limit=_AT_ONCE)
            pause = 0.0
            for one in [one for one in reversed(next_ones) if one["seq"] > seq]:
                if self._stop.is_set() or time.monotonic() > end:
                    break
                if not self._taken(number, url, {"experiment": experiment, "release": one}):
                    failures += 1
                    pause = min(_FIRST * 2.0**failures, _LONGEST)
                    break
                if not self._note(number, seq, one["seq"], 0, _LEASE):
                    return  # the lease was over, and another thread continues
                seq, failures = one["seq"], 0
            self._note(number, seq, seq, failures, pause)

    def _taken(self, number: str, url: str, told: dict[str, Any]) -> bool:
        try:
            return send(url, self._secrets.webhook(number), json.dumps(told).encode(), self._allowed)
        except (OSError, ValueError, http.client.HTTPException) as error:
            logger.warning("a release was not sent", exc_info=error)
            return False

    def _note(self, number: str, before: int, seq: int, failures: int, pause: float) -> bool:
        """Record the progress, and when it is due again; False if another thread has continued with it."""
        with self._store.transaction() as tx:
            return bool(
                tx.do(
                    "UPDATE webhook SET seq = ?, failures = ?, next_try = ? WHERE id = ? AND seq = ?",
                    *(seq, failures, tx.now() + pause, number, before),
                )
            )
