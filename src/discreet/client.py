"""A client of the service, on the standard library alone.

    client = Client("http://localhost:8722", key)
    decision = client.decide("shop", person="user 17")
    show(decision.items)
    client.report(decision, taken="a")

Requests that get no answer are sent again: outcomes count once, however often they come, and a decision that
nobody saw is a round in which nothing was taken.
"""

from __future__ import annotations

import asyncio
import http.client
import json
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
    pauses. Every other route of the service can be reached with `request`.
    """

    def __init__(self, url: str, key: str, *, timeout: float = 10.0, retries: int = 4) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url={url!r} must be like http://localhost:8722")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
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
        asked: dict[str, Any] = {}
        if person is not None:
            asked["person"] = person
        if excluded := list(exclude):
            asked["exclude"] = excluded
        if segment is not None:
            asked["segment"] = segment
        return _decision(self.request("POST", f"/v1/experiments/{quote(experiment)}/decisions", asked))

    def report(
        self,
        decision: Decision | str,
        *,
        taken: str | None = _UNSET,
        value: float = _UNSET,
        likes: Iterable[str] = _UNSET,
    ) -> str:
        """What came of a decision; "recorded", "duplicate" or "late"."""
        number = decision.id if isinstance(decision, Decision) else decision
        found = self.request("POST", f"/v1/decisions/{quote(number)}/outcome", _outcome(taken, value, likes))
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
                if status < 400:
                    return json.loads(answer)
                if status not in (429, 503) or attempt == self._retries:
                    raise ServiceError(status, _problem(answer))
            time.sleep(pause if wait is None else wait)
            pause *= 2
        raise AssertionError

    def _once(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes, float | None]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port, timeout=self._timeout)
        connection.request(method, self._base + path, content, self._headers)
        response = connection.getresponse()
        answer = response.read()
        after = response.headers.get("Retry-After")
        return response.status, answer, float(after) if after and after.isdecimal() else None

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
    """The same for asyncio: each call runs in a thread of its own."""

    def __init__(self, url: str, key: str, *, timeout: float = 10.0, retries: int = 4) -> None:
        self._client = Client(url, key, timeout=timeout, retries=retries)

    async def decide(self, experiment: str, person: str | None = None, **more: Any) -> Decision:
        """See `Client.decide`."""
        return await asyncio.to_thread(self._client.decide, experiment, person, **more)

    async def report(self, decision: Decision | str, **outcome: Any) -> str:
        """See `Client.report`."""
        return await asyncio.to_thread(self._client.report, decision, **outcome)

    async def report_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[str]:
        """See `Client.report_many`."""
        return await asyncio.to_thread(self._client.report_many, outcomes)

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """See `Client.request`."""
        return await asyncio.to_thread(self._client.request, method, path, body)


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
