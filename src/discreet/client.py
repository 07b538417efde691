"""A client of the service, on the standard library alone.

    client = Client("http://localhost:8722", key)
    decision = client.decide("shop", person="user 17")
    show(decision.items)
    client.report(decision, taken="a")

`AsyncClient` is the same for asyncio. Requests that get no answer are sent again: outcomes count once,
however often they come, and a decision that nobody saw is a round in which nothing was taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

_UNSET: Any = object()


class ServiceError(Exception):
    """The service refused: ``status``, ``name`` to go by, and whatever else it said."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {problem.get('title', 'no reason given')}")
        self.status, self.problem = status, dict(problem)
        self.name = str(problem.get("type", "")).rpartition("#")[2]


@dataclass(frozen=True)
class Decision:
    """The items to show, and the id to report under."""

    id: str
    items: tuple[str, ...]
    policy: str
    expires: str


class Client:
    """Decisions and outcomes of a service; threads may share one.

    ``timeout`` seconds are waited for an answer, and ``retries`` times a request is sent again, with growing
    pauses. ``context`` says which certificates are believed; those of the system by default. Every other
    route of the service can be reached with `request`.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 10.0,
        retries: int = 4,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._place = _Place(url, key, context)
        self._timeout, self._retries = timeout, retries
        self._local = threading.local()

    # --- decisions -------------------------------------------------------------------------------

    def decide(
        self,
        experiment: str,
        person: str | None = None,
        *,
        exclude: Iterable[str] = (),
        segment: str | None = None,
    ) -> Decision:
        """A set of items for somebody; ``exclude`` must rest on public facts, such as what is sold out."""
        return _decision(self.request("POST", _decisions(experiment), _asked(person, exclude, segment)))

    def report(
        self,
        decision: Decision | str,
        *,
        taken: str | None = _UNSET,
        value: float = _UNSET,
        likes: Iterable[str] = _UNSET,
    ) -> str:
        """What came of a decision; "recorded", "duplicate" or "late"."""
        found = self.request("POST", _outcome_of(decision), _outcome(taken, value, likes))
        return str(found["status"])

    def report_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[str]:
        """Many at once: mappings with ``decision_id`` and one of ``taken``, ``value`` and ``likes``."""
        found = self.request("POST", "/v1/outcomes", [dict(one) for one in outcomes])
        return [str(one["status"]) for one in found]

    # --- requests --------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Any route of the service; what it answers."""
        content = None if body is None else json.dumps(body).encode()
        pause = 0.05
        for attempt in range(self._retries + 1):
            try:
                status, answer, wait = self._once(method, path, content)
            except (OSError, http.client.HTTPException):
                self._drop()
                if attempt == self._retries:
                    raise
                wait = None
            else:
                if not _busy(status) or attempt == self._retries:
                    return _read(status, answer)
            time.sleep(pause if wait is None else wait)
            pause *= 2
        raise AssertionError

    def _once(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes, float | None]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._place.connection(self._timeout)
        connection.request(method, self._place.base + path, content, self._place.headers)
        response = connection.getresponse()
        return response.status, response.read(), _seconds(response.headers.get("Retry-After"))

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def close(self) -> None:
        """Close this thread's connection."""
        self._drop()

    def __del__(self) -> None:
        if hasattr(self, "_local"):
            self._drop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """The same for asyncio, as ``async with AsyncClient(url, key) as client: await client.decide("shop")``.

    At most ``connections`` are open at a time, and go on to be used for further requests.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 10.0,
        retries: int = 4,
        context: ssl.SSLContext | None = None,
        connections: int = 32,
    ) -> None:
        self._place = _Place(url, key, context)
        self._timeout, self._retries, self._connections = timeout, retries, connections
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(connections)

    async def decide(
        self,
        experiment: str,
        person: str | None = None,
        *,
        exclude: Iterable[str] = (),
        segment: str | None = None,
    ) -> Decision:
        """See `Client.decide`."""
        asked = _asked(person, exclude, segment)
        return _decision(await self.request("POST", _decisions(experiment), asked))

    async def report(
        self,
        decision: Decision | str,
        *,
        taken: str | None = _UNSET,
        value: float = _UNSET,
        likes: Iterable[str] = _UNSET,
    ) -> str:
        """See `Client.report`."""
        found = await self.request("POST", _outcome_of(decision), _outcome(taken, value, likes))
        return str(found["status"])

    async def report_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[str]:
        """See `Client.report_many`."""
        found = await self.request("POST", "/v1/outcomes", [dict(one) for one in outcomes])
        return [str(one["status"]) for one in found]

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """See `Client.request`."""
        sent = self._place.request(method, path, None if body is None else json.dumps(body).encode())
        if self._loop is not asyncio.get_running_loop():  # connections are of one loop
            self._loop, self._idle = asyncio.get_running_loop(), []
            self._free = asyncio.Semaphore(self._connections)
        pause = 0.05
        for attempt in range(self._retries + 1):
            try:
                async with self._free, asyncio.timeout(self._timeout):
                    status, answer, wait = await self._once(sent)
            except (OSError, EOFError, http.client.HTTPException):  # among them, that it took too long
                if attempt == self._retries:
                    raise
                wait = None
            else:
                if not _busy(status) or attempt == self._retries:
                    return _read(status, answer)
            await asyncio.sleep(pause if wait is None else wait)
            pause *= 2
        raise AssertionError

    async def _once(self, sent: bytes) -> tuple[int, bytes, float | None]:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                break
            connection.drop()
        else:
            connection = await _Connection.open(self._place)
        try:
            status, headers, answer = await connection.ask(sent)
        except BaseException:
            connection.drop()
            raise
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.drop()
        return status, answer, _seconds(headers.get("retry-after"))

    async def close(self) -> None:
        """Close the connections that are not in use."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Connection:
    """One connection of HTTP/1.1, for a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._lasts = reader, writer, True

    @classmethod
    async def open(cls, place: _Place) -> _Connection:
        return cls(*await asyncio.open_connection(place.host, place.port, ssl=place.context))

    @property
    def usable(self) -> bool:
        """Whether another request can be sent, as far as is known."""
        return self._lasts and not self._writer.is_closing() and not self._reader.at_eof()

    async def ask(self, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of the answer."""
        self._writer.write(sent)
        await self._writer.drain()
        status = 100
        while 100 <= status < 200:  # what comes before an answer
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, _, rest = head[0].partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
                raise http.client.BadStatusLine(head[0][:40])
            status = int(rest[:3])
        fields = [line.partition(":") for line in head[1:] if line]
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        self._lasts = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        return status, headers, await self._body(status, headers)

    async def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks()
        length = headers.get("content-length")
        if length is None:  # all that comes
            self._lasts = False
            return await self._reader.read()
        if not length.isdecimal():
            raise http.client.HTTPException("content-length is no number")
        return await self._reader.readexactly(int(length))

    async def _chunks(self) -> bytes:
        found = []
        while True:
            try:
                size = int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16)
            except ValueError:
                raise http.client.HTTPException("a chunk has no size") from None
            if not size:
                break
            found.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":  # trailers
            pass
        return b"".join(found)

    def drop(self) -> None:
        """Close it, and wait for nothing."""
        self._lasts = False
        self._writer.close()

    async def close(self) -> None:
        """Close it."""
        self.drop()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()


class _Place:
    """Where a service is, and what every request to it has."""

    def __init__(self, url: str, key: str, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url={url!r} must be like http://localhost:8722")
        if not key.isascii() or not key.isprintable():
            raise ValueError("key must be one of the service's API keys")
        secure = parts.scheme == "https"
        self.context = (context or ssl.create_default_context()) if secure else None
        self.host, self.port = parts.hostname, parts.port or (443 if secure else 80)
        self.base = parts.path.rstrip("/")
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._host = parts.netloc.rpartition("@")[2]

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)

    def request(self, method: str, path: str, content: bytes | None) -> bytes:
        """A request as it is sent."""
        target = f"{method} {self.base}{path} HTTP/1.1"
        if not target.isascii() or not target.isprintable() or target.count(" ") != 2:
            raise ValueError("method and path must be ASCII without spaces; quote the path")
        headers = {"Host": self._host, **self.headers, "Content-Length": str(len(content or b""))}
        lines = [target, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode() + (content or b"")


def _decisions(experiment: str) -> str:
    return f"/v1/experiments/{quote(experiment, safe='')}/decisions"


def _outcome_of(decision: Decision | str) -> str:
    number = decision.id if isinstance(decision, Decision) else decision
    return f"/v1/decisions/{quote(number, safe='')}/outcome"


def _asked(person: str | None, exclude: Iterable[str], segment: str | None) -> dict[str, Any]:
    given = {"person": person, "exclude": list(exclude) or None, "segment": segment}
    return {name: one for name, one in given.items() if one is not None}


def _busy(status: int) -> bool:
    """Whether to ask again a little later."""
    return status in (429, 503)


def _read(status: int, answer: bytes) -> Any:
    if status >= 400:
        raise ServiceError(status, _problem(answer))
    return json.loads(answer) if answer else None


def _seconds(after: str | None) -> float | None:
    return float(after) if after and after.isdecimal() else None


def _decision(found: Mapping[str, Any]) -> Decision:
    return Decision(found["decision_id"], tuple(found["items"]), found["policy"], found["expires"])


def _outcome(taken: Any, value: Any, likes: Any) -> dict[str, Any]:
    given = {
        name: list(one) if name == "likes" else one
        for name, one in (("taken", taken), ("value", value), ("likes", likes))
        if one is not _UNSET
    }
    if len(given) != 1:
        raise TypeError("give one of taken=, value= and likes=")
    return given


def _problem(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
