"""API keys: who may do what. The database holds hashes of them only."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import time
from dataclasses import dataclass, field

from ..keys import new_token
from ..store import Store
from . import problems

# What each role may do. An application asks for decisions and reports outcomes; an analyst sees what was
# released and what it cost; an operator runs experiments; an admin also gives out keys.
ROLES: dict[str, frozenset[str]] = {
    "app": frozenset({"decide"}),
    "analyst": frozenset({"read"}),
    "operator": frozenset({"decide", "read", "operate", "erase"}),
    "admin": frozenset({"decide", "read", "operate", "erase", "administer"}),
}
_PREFIX = "dk_"


@dataclass
class Key:
    """A key as it is known here; ``experiments`` is None for all of them."""

    id: str
    name: str
    role: str
    experiments: frozenset[str] | None
    allowance: float = field(default=0.0, compare=False)
    asked_at: float = field(default=0.0, compare=False)

    def can(self, action: str) -> bool:
        """Whether the role allows it."""
        return action in ROLES[self.role]

    def may(self, action: str, experiment: str | None = None) -> bool:
        """Whether the role allows it, for this experiment."""
        if not self.can(action):
            return False
        return self.experiments is None or (experiment is not None and experiment in self.experiments)

    def spend(self, rate: float, now: float) -> bool:
        """Whether one more request is within ``rate`` a second, with bursts of twice as many."""
        self.allowance = min(2 * rate, self.allowance + (now - self.asked_at) * rate)
        self.asked_at = now
        if self.allowance < 1.0:
            return False
        self.allowance -= 1.0
        return True


class Throttle:
    """So many tries of one address at once, and so many a second; for addresses that try often only."""

    def __init__(self, burst: int, rate: float, most: int = 10_000) -> None:
        self._burst, self._rate, self._most = burst, rate, most
        self._spent: dict[str, tuple[float, float]] = {}  # tries, and when that was

    def free(self, address: str) -> bool:
        """Whether one more is allowed."""
        return self._now(_network(address)) <= self._burst - 1

    def spend(self, address: str) -> None:
        """One more; the oldest addresses are forgotten where there are too many."""
        network = _network(address)
        tries = self._now(network) + 1
        self._spent.pop(network, None)
        self._spent[network] = tries, time.monotonic()
        while len(self._spent) > self._most:
            del self._spent[next(iter(self._spent))]

    def _now(self, network: str) -> float:
        tries, at = self._spent.get(network, (0.0, 0.0))
        return max(0.0, tries - (time.monotonic() - at) * self._rate)


def _network(address: str) -> str:
    """An address of version 4, or what one site has of version 6."""
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
    """The keys of a service, as they were read last: what another process revoked ends within seconds."""

    def __init__(self, store: Store, rate: float | None = None) -> None:
        self._store, self._rate = store, rate
        self._known: dict[bytes, Key] = {}

    def check(self, token: bytes, action: str, experiment: str | None = None) -> Key:
        """The key of a request; refused where there is none, or it may not do that."""
        key = self.known(token, action)
        if not key.may(action, experiment):
            raise problems.WRONG_ROLE
        return key

    def known(self, token: bytes, action: str) -> Key:
        """The key of a request whose experiment is not known yet: `Key.may` has to be asked once it is."""
        key = self.find(token)
        if key is None:
            raise problems.NO_KEY
        if not key.can(action):
            raise problems.WRONG_ROLE
        if not self.within_rate(key):
            raise problems.RATE
        return key

    def within_rate(self, key: Key) -> bool:
        """Whether a key may ask once more now."""
        return self._rate is None or key.spend(self._rate, time.monotonic())

    def find(self, token: bytes) -> Key | None:
        """The key that this is."""
        return self.with_digest(digest_of(token))

    def with_digest(self, digest: bytes) -> Key | None:
        """The key that has this `digest_of`."""
        return self._known.get(digest)

    def of(self, number: str) -> Key | None:
        """The key with this id."""
        return next((key for key in self._known.values() if key.id == number), None)

    def refresh(self) -> None:
        """Read them from the database: at the start, after a change, and every few seconds."""
        with self._store.transaction() as tx:
            rows = tx.all("SELECT sha256, id, name, role, experiments FROM api_key WHERE revoked IS NULL")
        before = {key.id: key for key in self._known.values()}
        known = {}
        for digest, number, name, role, experiments in rows:
            scope = None if experiments is None else frozenset(json.loads(experiments))
            key = Key(number, name, role, scope)
            if (old := before.get(number)) is not None:
                key.allowance, key.asked_at = old.allowance, old.asked_at
            known[bytes(digest)] = key
        self._known = known  # at once: requests are answered meanwhile

    def create(self, name: str, role: str, experiments: list[str] | None = None) -> tuple[str, str]:
        """A new key: (its id, the key itself, which is shown this once)."""
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}")
        number, secret = new_token(6), new_token(24)
        token = f"{_PREFIX}{number}_{secret}"
        digest = digest_of(token.encode())
        scope = None if experiments is None else json.dumps(sorted(experiments))
        with self._store.transaction() as tx:
            tx.do(
                "INSERT INTO api_key (id, sha256, name, role, experiments, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                *(number, digest, name, role, scope, tx.now()),
            )
        self.refresh()
        return number, token

    def revoke(self, number: str) -> bool:
        """End a key; whether there was one."""
        with self._store.transaction() as tx:
            ended = tx.do("UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", tx.now(), number)
        self.refresh()
        return bool(ended)

    def listed(self) -> list[dict[str, object]]:
        """All keys that have not ended, without their secrets."""
        with self._store.transaction() as tx:
            rows = tx.all(
                "SELECT id, name, role, experiments, created FROM api_key WHERE revoked IS NULL"
                " ORDER BY created"
            )
        return [
            {
                "id": number,
                "name": name,
                "role": role,
                "experiments": None if scope is None else json.loads(scope),
                "created": created,
            }
            for number, name, role, scope, created in rows
        ]


def digest_of(token: bytes) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(token).digest()


def token_of(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The key that a request came with."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return token.strip()
    raise problems.NO_KEY
