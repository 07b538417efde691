"""Secrets outside the database: marks of people, and decision ids that nobody else can make.

A decision id says which decision it was: experiment, epoch and place, the mark of the person, and whether
other items were shown than dealt. It ends with a keyed hash of the rest, so that the service keeps no table
of decisions and still believes nobody.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
import os
import secrets as system
import struct
from pathlib import Path
from typing import NamedTuple

MARK = 12  # bytes
_MAC = 12
_EVENT = 16
_BODY = struct.Struct(f">BIIQ{MARK}s")
_PADDING = b"=" * (-(_BODY.size + _MAC) % 3)  # which ids are without
_VERSION = 0x20
_ALTERED = 0x01
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/---")  # "-" is no letter of the usual ones
NOBODY = bytes(MARK)  # the mark of decisions without a person


class Decision(NamedTuple):
    """What a decision id says."""

    experiment: int
    epoch: int
    place: int
    mark: bytes = NOBODY
    altered: bool = False


class Secrets:
    """The keys of a service, in a file that only its owner may read.

    ``mark`` turns an identity into 12 bytes under the key of a population's period. Without the key a mark
    tells nothing about anybody. That key follows from the one of all people, which is in the file: marks are
    deleted with their period.
    """

    def __init__(self, keys: dict[str, bytes], path: Path | None = None) -> None:
        self._keys, self._path = keys, path
        self._decisions = hashlib.blake2b(key=keys["decisions"], digest_size=_MAC)
        self._periods: dict[tuple[int, str], hashlib.blake2b] = {}
        self._events: dict[int, bytes] = {}

    @classmethod
    def fresh(cls, path: str | os.PathLike[str] | None = None) -> Secrets:
        """New keys, written to ``path`` if there is one."""
        made = cls({name: system.token_bytes(32) for name in ("decisions", "people", "sessions")})
        if path is not None:
            made._path = Path(path)
            text = json.dumps({name: key.hex() for name, key in made._keys.items()})
            draft = f"{os.fspath(path)}.{owner_name()}"  # nobody reads half a file, or writes over another's
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(text + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, path)
            finally:
                os.unlink(draft)
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
        return cls(keys, Path(path))

    @property
    def sessions(self) -> bytes:
        """The key of signed cookies."""
        return self._keys["sessions"]

    # --- people ----------------------------------------------------------------------------------

    def mark(self, population: int, period: str, person: str) -> bytes:
        """What is kept of an identity: a keyed hash, another one in every period."""
        keyed = self._periods.get((population, period))
        if keyed is None:
            text = f"{population}/{period}".encode()
            key = hmac.digest(self._keys["people"], text, "sha256")
            self._periods[population, period] = keyed = hashlib.blake2b(key=key, digest_size=MARK)
        return _hashed(keyed, person.encode())

    def event(self, experiment: int, name: str) -> bytes:
        """What is kept of an event's id that an application chose: it may tell about people."""
        key = self._events.get(experiment)
        if key is None:
            key = hmac.digest(self._keys["people"], f"events/{experiment}".encode(), "sha256")
            self._events[experiment] = key
        return hashlib.blake2b(name.encode(), key=key, digest_size=_EVENT).digest()

    # --- decisions -------------------------------------------------------------------------------

    def sign(self, experiment: int, epoch: int, place: int, mark: bytes, altered: bool = False) -> str:
        """The id of a decision."""
        body = _BODY.pack(_VERSION | altered, experiment, epoch, place, mark)
        raw = body + _hashed(self._decisions, body)
        return binascii.b2a_base64(raw, newline=False).translate(_TO_URL, b"=").decode()

    def verify(self, text: str) -> Decision | None:
        """The decision of an id; None for what this service has not signed."""
        try:
            raw = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL) + _PADDING, strict_mode=True)
        except ValueError:  # also of letters that are none of these
            return None
        body, mac = raw[: _BODY.size], raw[_BODY.size :]
        if not hmac.compare_digest(mac, _hashed(self._decisions, body)):
            return None
        flags, experiment, epoch, place, mark = _BODY.unpack(body)
        if flags & ~_ALTERED != _VERSION:
            return None
        return Decision(experiment, epoch, place, mark, bool(flags & _ALTERED))


def _hashed(keyed: hashlib.blake2b, text: bytes) -> bytes:
    """The hash of a text under a key that has been taken in already."""
    found = keyed.copy()
    found.update(text)
    return found.digest()


def owner_name() -> str:
    """A name for one process among the others."""
    return f"{os.getpid()}-{system.token_hex(8)}"


def new_token(size: int) -> str:
    """So many secret bytes, as letters and digits."""
    return system.token_hex(size)
