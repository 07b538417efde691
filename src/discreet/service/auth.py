"""Secrets outside the database, API keys, and sessions of people who look at pages.

A decision id encodes the decision: experiment, epoch and sequence number, the lease of its block, the
pseudonym of the person, and whether other items were shown than allocated. It ends with a keyed hash of the
rest, so that ids cannot be forged, though the service keeps no table of decisions. The database holds only
hashes of API keys.

The cookie of a session holds the id of a key, a session number and the time at which it ends, with a keyed
hash. It is useless once the key is not valid any more. Browsers send it to this site only, and no script can
read it. Requests that change something must also come from a page of this site (`same_site`), with the token
of the session, which is in every form.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets as system
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ..core.names import name_of
from .database import NOBODY, PSEUDONYM, Database, Transaction

BROWSER = "dt_"  # what a token of a browser begins with
_COOKIE_MAC = 32
_MAC = 12
_REQUEST = 16
_BODY = struct.Struct(f">BIIQI{PSEUDONYM}s")  # with the hash 45 bytes, which base64 does not pad
_VERSION = 0x20
_ALTERED = 0x01
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/---")  # "-" is not in the usual alphabet, and is refused


class DecisionId(NamedTuple):
    """The content of a decision id."""

    experiment: int
    epoch: int
    sequence: int
    pseudonym: bytes = NOBODY
    altered: bool = False
    lease: int = 0  # the number that was drawn when its block was leased; 0 if unknown


class Secrets:
    """The keys of a service, in a file that only its owner may read.

    ``pseudonym`` hashes an identity to 12 bytes under the key of a population's period. Without the key a
    pseudonym reveals nothing about anybody. That key is derived from the one for all people, which stays in
    the file: what ends with a period are its pseudonyms, which are deleted.
    """

    def __init__(self, keys: dict[str, bytes]) -> None:
        self.keys = keys
        self._decisions = hashlib.blake2b(key=keys["decisions"], digest_size=_MAC)
        self._periods: dict[tuple[int, str], hashlib.blake2b] = {}
        self._requests: dict[int, bytes] = {}

    @classmethod
    def fresh(cls, path: str | os.PathLike[str] | None = None) -> Secrets:
        """New keys, written to ``path`` if it is given."""
        made = cls({name: system.token_bytes(32) for name in ("decisions", "people", "sessions")})
        if path is not None:
            write_secret(path, json.dumps({name: key.hex() for name, key in made.keys.items()}))
        return made

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Secrets:
        """The keys of a file; refused if others may read it."""
        if os.stat(path).st_mode & 0o077:
            raise PermissionError(f"{path} can be read by others; run: chmod 600 {path}")
        found = json.loads(Path(path).read_text())
        keys = {name: bytes.fromhex(found[name]) for name in ("decisions", "people", "sessions")}
        if any(len(key) < 16 for key in keys.values()):
            raise ValueError(f"{path} holds a key that is too short")
        return cls(keys)

    # --- people ----------------------------------------------------------------------------------

    def counts_in(self, store: Database) -> bool:
        """Whether people are counted in a store by these keys; the first who ask settle it."""
        own = hmac.digest(self.keys["people"], b"fingerprint", "sha256")
        with store.transaction() as tx:
            tx.do("INSERT INTO secrets VALUES (1, ?) ON CONFLICT DO NOTHING", own)
            return bytes(tx.one("SELECT fingerprint FROM secrets")[0]) == own

    def pseudonym(self, population: int, period: str, person: str) -> bytes:
        """The stored form of an identity: a keyed hash, under another key in every period."""
        keyed = self._periods.get((population, period))
        if keyed is None:
            text = f"{population}/{period}".encode()
            key = hmac.digest(self.keys["people"], text, "sha256")
            self._periods[population, period] = keyed = hashlib.blake2b(key=key, digest_size=PSEUDONYM)
        name = name_of(person)  # None for a text that names nobody, which is hashed as it is
        return _hashed(keyed, str(person if name is None else name).encode())

    def request(self, experiment: int, known_by: bytes) -> bytes:
        """The stored form of a request's id: a keyed hash, as applications may build ids from names."""
        key = self._requests.get(experiment)
        if key is None:
            key = hmac.digest(self.keys["people"], f"requests/{experiment}".encode(), "sha256")
            self._requests[experiment] = key
        return hashlib.blake2b(known_by, key=key, digest_size=_REQUEST).digest()

    # --- browsers --------------------------------------------------------------------------------

    def token(self, made: BrowserToken) -> str:
        """A token for a browser, with a keyed hash."""
        body = json.dumps((*made[:3], made.pseudonym.hex(), made.until)).encode()
        raw = body + hmac.digest(self.keys["sessions"], b"browser\0" + body, "sha256")
        return BROWSER + base64.urlsafe_b64encode(raw).decode()

    def read_token(self, text: str) -> BrowserToken | None:
        """The content of a token; None if this service did not make it."""
        try:
            raw = base64.b64decode(text.removeprefix(BROWSER), b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        body, mac = raw[:-_COOKIE_MAC], raw[-_COOKIE_MAC:]
        if not hmac.compare_digest(mac, hmac.digest(self.keys["sessions"], b"browser\0" + body, "sha256")):
            return None
        key, experiment, epoch, pseudonym, until = json.loads(body)
        return BrowserToken(key, experiment, epoch, bytes.fromhex(pseudonym), until)

    def webhook(self, number: str) -> str:
        """The secret of a webhook, which signs the releases sent to it."""
        return hmac.digest(self.keys["sessions"], f"webhook/{number}".encode(), "sha256").hex()

    # --- decisions -------------------------------------------------------------------------------

    def sign(self, decision: DecisionId) -> str:
        experiment, epoch, sequence, pseudonym, altered, lease = decision
        body = _BODY.pack(_VERSION | altered, experiment, epoch, sequence, lease, pseudonym)
        raw = body + _hashed(self._decisions, body)
        return binascii.b2a_base64(raw, newline=False).translate(_TO_URL).decode()

    def verify(self, text: str) -> DecisionId | None:
        """The content of a decision id; None if this service did not sign it."""
        try:
            raw = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL), strict_mode=True)
        except ValueError:  # also for letters outside of ASCII
            return None
        body, mac = raw[: _BODY.size], raw[_BODY.size :]
        if not hmac.compare_digest(mac, _hashed(self._decisions, body)):
            return None
        flags, experiment, epoch, sequence, lease, pseudonym = _BODY.unpack(body)
        if flags & ~_ALTERED != _VERSION:
            return None
        return DecisionId(experiment, epoch, sequence, pseudonym, bool(flags & _ALTERED), lease)


def _hashed(keyed: hashlib.blake2b, text: bytes) -> bytes:
    """The hash of a text, by a hash object that has absorbed the key already."""
    found = keyed.copy()
    found.update(text)
    return found.digest()


def write_secret(path: str | os.PathLike[str], text: str) -> None:
    """Write a new file that only its owner may read, atomically; an existing file is never overwritten."""
    draft = f"{os.fspath(path)}.{owner_name()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        os.unlink(draft)


def owner_name() -> str:
    """A unique name for a process."""
    return f"{os.getpid()}-{system.token_hex(8)}"


def new_lease() -> int:
    """A random number, not 0, for one lease of a block."""
    return 1 + system.randbelow((1 << 32) - 1)


def new_token(size: int) -> str:
    """``size`` secret bytes, as hexadecimal digits."""
    return system.token_hex(size)


# What each role may do. An application asks for decisions and reports outcomes; an analyst sees releases and
# their privacy cost; an operator runs experiments; an admin also issues keys.
ROLES: dict[str, frozenset[str]] = {
    "app": frozenset({"decide"}),
    "analyst": frozenset({"read"}),
    "operator": frozenset({"decide", "read", "operate", "erase"}),
    "admin": frozenset({"decide", "read", "operate", "erase", "administer"}),
}
_PREFIX = "dk_"
_TOKEN = re.compile(rf"{_PREFIX}([0-9a-f]{{12}})_[0-9a-f]{{48}}")
_GIVEN = re.compile(r"[!-~]{32,256}")  # a key that was not made here
DAY = 86400.0
_NOTED = 60.0  # seconds between two updates of when a key was last used


class LastAdmin(Exception):
    """The last admin key cannot be ended; nothing was changed."""


class BrowserToken(NamedTuple):
    """A browser's right to decisions of one experiment for one pseudonym, and to report their outcomes.

    Pseudonyms differ between periods: a token ends with its epoch, so that nobody counts under two of them.
    """

    key: str  # the id of the API key that made it; the token ends with that key
    experiment: int
    epoch: int  # unique for this experiment's number, also after a restore
    pseudonym: bytes
    until: int


@dataclass(frozen=True)
class Key:
    """An API key; ``experiments`` is None for all of them, ``expires`` None for never."""

    id: str
    name: str
    role: str
    experiments: frozenset[str] | None
    expires: float | None = None
    bound: BrowserToken | None = None

    @property
    def over(self) -> bool:
        return self.expires is not None and time.time() >= self.expires

    def may(self, action: str, experiment: str | None = None) -> bool:
        here = self.experiments is None or (experiment is not None and experiment in self.experiments)
        return here and action in ROLES[self.role]


class Throttle:
    """Allows ``burst`` tries of one name at once, and ``rate`` a second; the oldest names are forgotten."""

    def __init__(self, burst: float, rate: float, most: int = 10_000) -> None:
        self._burst, self._rate, self._most = burst, rate, most
        self._spent: dict[str, tuple[float, float]] = {}  # tries, and when that was

    def free(self, name: str) -> bool:
        return self._now(name) <= self._burst - 1

    def spend(self, name: str) -> None:
        tries = self._now(name) + 1
        self._spent.pop(name, None)
        self._spent[name] = tries, time.monotonic()
        while len(self._spent) > self._most:
            del self._spent[next(iter(self._spent))]

    def _now(self, name: str) -> float:
        tries, at = self._spent.get(name, (0.0, 0.0))
        return max(0.0, tries - (time.monotonic() - at) * self._rate)


def network_of(address: str) -> str:
    """An IPv4 address as it is, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


class Keys:
    """The keys of a service when they were last read: a revocation by another process takes some seconds."""

    def __init__(self, store: Database, rate: float | None = None) -> None:
        self._store = store
        # Outcomes have a limit of their own: whether a decision is refused must not depend on reports.
        self._throttles = None if rate is None else [Throttle(2 * rate, rate) for _ in range(2)]
        self._known: dict[bytes, Key] = {}
        self._used: dict[str, float] = {}  # when keys were last used
        self._noted: dict[str, float] = {}  # the times of these in the database

    def within_rate(self, key: Key, *, outcome: bool = False) -> bool:
        """Whether a key, or the browser of one visitor, may send one more request (``outcome``: report)."""
        if self._throttles is None:
            return True
        throttle = self._throttles[outcome]
        name = key.id if key.bound is None else f"{key.id}/{key.bound.pseudonym.hex()}"
        if not throttle.free(name):
            return False
        throttle.spend(name)
        return True

    def bound(self, token: BrowserToken | None) -> Key | None:
        """The key of a browser's token, if the key that made the token is valid."""
        key = None if token is None or token.until <= time.time() else self.of(token.key)
        if key is None or "decide" not in ROLES[key.role]:
            return None
        return replace(key, role="app", bound=token)

    def find(self, token: bytes) -> Key | None:
        key = self._known.get(digest_of(token))
        return None if key is None or key.over else key

    def of(self, number: str) -> Key | None:
        return next((key for key in self._known.values() if key.id == number and not key.over), None)

    def used(self, key: Key) -> None:
        """Note that a key is used now. Not for outcomes: when there were some is not public."""
        self._used[key.id] = time.time()

    def refresh(self) -> None:
        """Read keys from the database: at the start, after a change, and every few seconds."""
        noted = {
            number: at
            for number, at in list(self._used.items())
            if at - self._noted.get(number, 0.0) >= _NOTED
        }
        with self._store.transaction() as tx:
            for number, at in sorted(noted.items()):
                tx.do("UPDATE api_key SET last_used = ? WHERE id = ?", at, number)
            rows = tx.all(
                "SELECT sha256, id, name, role, experiments, expires FROM api_key WHERE revoked IS NULL"
            )
        self._noted |= noted
        known = {}
        for digest, number, name, role, experiments, expires in rows:
            scope = None if experiments is None else frozenset(json.loads(experiments))
            known[bytes(digest)] = Key(number, name, role, scope, expires)
        self._known = known  # atomically: other threads answer requests meanwhile

    def create(
        self,
        name: str,
        role: str,
        experiments: list[str] | None = None,
        *,
        days: float | None = None,
        token: str | None = None,
    ) -> tuple[str, str]:
        """A new key, valid for ``days`` days; returns its id and the key itself, which is shown this once.

        ``token`` is a key that was made elsewhere. Only a hash of a key is stored.
        """
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}")
        if token is not None and not _GIVEN.fullmatch(token):
            raise ValueError("a key must have 32 to 256 printable characters of ASCII, without spaces")
        scope = None if experiments is None else json.dumps(sorted(experiments))
        with self._store.transaction() as tx:
            made = _insert(tx, token, name, role, scope, None if days is None else tx.now() + days * DAY)
        self.refresh()
        return made

    def rotate(self, number: str, grace: float = 0.0) -> tuple[str, str]:
        """Replace a key, which ends in ``grace`` seconds; returns the new key's id and the key itself."""
        with self._store.transaction() as tx:
            found = tx.locked(
                "SELECT name, role, experiments, expires FROM api_key WHERE id = ? AND revoked IS NULL"
                " AND (expires IS NULL OR expires > ?)",
                *(number, tx.now()),
            )
            if not found:
                raise LookupError("key")
            made = _insert(tx, None, *found[0])
            last, expires = tx.now() + grace, found[0][3]
            if grace:
                until = last if expires is None else min(last, expires)
                tx.do("UPDATE api_key SET expires = ? WHERE id = ?", until, number)
            else:
                tx.do("UPDATE api_key SET revoked = ? WHERE id = ?", last, number)
        self.refresh()
        return made

    def revoke(self, number: str) -> None:
        """End a key; `LookupError` if there is none, `LastAdmin` if it is the last admin key."""
        with self._store.transaction() as tx:
            admins = tx.locked(  # so that two admins do not end each other's keys
                "SELECT id FROM api_key WHERE role = 'admin' AND experiments IS NULL AND revoked IS NULL"
                " AND (expires IS NULL OR expires > ?) ORDER BY id",
                tx.now(),
            )
            if admins == [(number,)]:
                raise LastAdmin("make another admin key first")
            if not tx.do("UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", tx.now(), number):
                raise LookupError("key")
        self.refresh()

    def listed(self) -> list[dict[str, object]]:
        """All keys that have not ended, without their secrets."""
        names = ("id", "name", "role", "experiments", "created", "expires", "last_used")
        with self._store.transaction() as tx:
            rows = tx.all(
                f"SELECT {', '.join(names)} FROM api_key WHERE revoked IS NULL"
                " AND (expires IS NULL OR expires > ?) ORDER BY created",
                tx.now(),
            )
        found = [dict(zip(names, row, strict=True)) for row in rows]
        for one in found:
            one["experiments"] = one["experiments"] and json.loads(one["experiments"])
        return found


def new_key() -> str:
    """A new random key."""
    return f"{_PREFIX}{new_token(6)}_{new_token(24)}"


def _insert(
    tx: Transaction, token: str | None, name: str, role: str, scope: str | None, expires: float | None
) -> tuple[str, str]:
    """Store a key, or a new one; returns its id and the key itself."""
    token = token or new_key()
    digest = digest_of(token.encode())
    known = _TOKEN.fullmatch(token)
    number = digest.hex()[:12] if known is None else known[1]
    tx.do(
        "INSERT INTO api_key (id, sha256, name, role, experiments, created, expires)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(number, digest, name, role, scope, tx.now(), expires),
    )
    return number, token


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


COOKIE = "discreet_session"
LIFE = 12 * 3600  # seconds

# Only this site's own scripts, styles, images and requests, and no frames; nothing is cached.
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
    """A session of pages: the id of its API key, its end, and the token for forms."""

    key: str
    number: str
    until: int
    token: str


class Sessions:
    """Signs and reads cookies; those of sessions that were ended are refused until they expire.

    Ended sessions are in the store: other processes learn of them at their next `refresh`.
    """

    def __init__(self, secrets: Secrets, store: Database) -> None:
        self._secret, self._store = secrets.keys["sessions"], store
        self._ended: frozenset[str] = frozenset()

    def begin(self, key: str) -> str:
        body = f"{key} {new_token(16)} {int(time.time()) + LIFE}".encode()
        return base64.urlsafe_b64encode(body + self._mac(b"cookie", body)).decode()

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie; None if this service did not sign it, or it has ended."""
        try:
            raw = base64.urlsafe_b64decode((cookie or "").encode("ascii"))
        except (ValueError, binascii.Error):
            return None
        body, mac = raw[:-_COOKIE_MAC], raw[-_COOKIE_MAC:]
        if not hmac.compare_digest(mac, self._mac(b"cookie", body)):
            return None
        key, number, until = body.decode().split(" ")
        if int(until) <= time.time() or number in self._ended:
            return None
        return Session(key, number, int(until), self._mac(b"form", number.encode()).hex())

    def end(self, session: Session) -> None:
        with self._store.transaction() as tx:
            tx.do("DELETE FROM ended_session WHERE until <= ?", int(time.time()))
            tx.do(
                "INSERT INTO ended_session (number, until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                *(session.number, session.until),
            )
        self._ended |= {session.number}

    def refresh(self) -> None:
        """Read from the database which sessions were ended."""
        with self._store.transaction() as tx:
            rows = tx.all("SELECT number FROM ended_session")
        self._ended = frozenset(number for (number,) in rows)

    def _mac(self, what: bytes, body: bytes) -> bytes:
        return hmac.digest(self._secret, what + b"\0" + body, hashlib.sha256)


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Set the cookie of a session in a browser; an empty one deletes it."""
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
    """Whether the browser uses TLS, by the origin of its form if a proxy has terminated TLS."""
    return "https" in (request.url.scheme, urlsplit(request.headers.get("origin", "")).scheme)


def same_site(request: Request) -> bool:
    """Whether a request comes from a page of this site, by headers of browsers for unsafe requests."""
    fetched, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if fetched is None and origin is None:
        return False
    if fetched is not None and fetched != "same-origin":
        return False
    return origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def same_token(session: Session, given: str) -> bool:
    """Whether a form came with the token of its session."""
    return hmac.compare_digest(session.token.encode(), given.encode())
