"""Sessions of people who look at pages: a signed cookie that names an API key, and what keeps others out.

The cookie holds the id of a key, a number of its own and the time at which it ends, under a keyed hash. It is
no use without the key being valid still. Browsers send it to this site only, and no script can read it. What
changes something needs more: a request that comes from a page of this site (`same_site`), and the token of
the session, which is in every form.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ..keys import Secrets, new_token
from ..store import Store

COOKIE = "discreet_session"
LIFE = 12 * 3600  # seconds
_MAC = 32

# No script, style, frame or request but this site's own; nothing is stored on the way.
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Session:
    """Who looks at a page: the id of an API key, until when, and the token of forms."""

    key: str
    number: str
    until: int
    token: str


class Sessions:
    """Signs and reads cookies; those that were ended are refused until they would have ended.

    The store knows them: other processes hear of it with their next `refresh`, and it outlives a restart.
    """

    def __init__(self, secrets: Secrets, store: Store) -> None:
        self._secret, self._store = secrets.sessions, store
        self._ended: frozenset[str] = frozenset()

    def begin(self, key: str) -> str:
        """The cookie of a new session."""
        body = f"{key} {new_token(16)} {int(time.time()) + LIFE}".encode()
        return base64.urlsafe_b64encode(body + self._mac(b"cookie", body)).decode()

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie; None for what was not signed here, or is over."""
        try:
            raw = base64.urlsafe_b64decode((cookie or "").encode("ascii"))
        except (ValueError, binascii.Error):
            return None
        body, mac = raw[:-_MAC], raw[-_MAC:]
        if not hmac.compare_digest(mac, self._mac(b"cookie", body)):
            return None
        key, number, until = body.decode().split(" ")
        if int(until) <= time.time() or number in self._ended:
            return None
        return Session(key, number, int(until), self._mac(b"form", number.encode()).hex())

    def end(self, session: Session) -> None:
        """Refuse the session's cookie from now on."""
        with self._store.transaction() as tx:
            tx.do("DELETE FROM ended_session WHERE until <= ?", int(time.time()))
            tx.do(
                "INSERT INTO ended_session (number, until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                *(session.number, session.until),
            )
        self._ended |= {session.number}

    def refresh(self) -> None:
        """Read from the database which ones were ended."""
        with self._store.transaction() as tx:
            rows = tx.all("SELECT number FROM ended_session")
        self._ended = frozenset(number for (number,) in rows)

    def _mac(self, what: bytes, body: bytes) -> bytes:
        return hmac.digest(self._secret, what + b"\0" + body, hashlib.sha256)


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Give a browser the cookie of a session; an empty one takes it away."""
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=LIFE if cookie else 0,
        path="/",
        secure=_by_tls(request),
        httponly=True,
        samesite="strict",
    )


def _by_tls(request: Request) -> bool:
    """Whether the browser came over TLS, which a proxy may have ended: the origin of its form says so."""
    return "https" in (request.url.scheme, urlsplit(request.headers.get("origin", "")).scheme)


def same_site(request: Request) -> bool:
    """Whether a request comes from a page of this site, as every browser says of unsafe requests."""
    fetched, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if fetched is None and origin is None:
        return False
    if fetched is not None and fetched != "same-origin":
        return False
    return origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def same_token(session: Session, given: str) -> bool:
    """Whether a form came with the token of its session."""
    return hmac.compare_digest(session.token.encode(), given.encode())
