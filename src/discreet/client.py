"""A client of the service that needs only the standard library.

    client = Client("http://localhost:8722", key)
    decision = client.decide("shop", person="user 17")
    show(decision.items)
    client.report(decision, taken="a")

`AsyncClient` is the same for asyncio. Requests without an answer are sent again: an outcome counts once,
however often it is sent, and an idempotency key ensures that a decision is made and counted once. Only
requests for secrets that are shown once (keys, webhooks) are not: there would be two, one of them unseen.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import selectors
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode, urlsplit

Record = dict[str, Any]  # the answer of a route: /docs of the service has an example of each
P = ParamSpec("P")
T = TypeVar("T")
_UNSET: Any = object()


class ServiceError(Exception):
    """The service refused: the HTTP ``status``, the problem's ``name``, and the full ``problem``."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        more = [str(problem[name]) for name in ("at", "detail") if problem.get(name)]
        super().__init__(" ".join([f"{status}: {problem.get('title', 'no reason given')}", *more]))
        self.status, self.problem = status, dict(problem)
        self.name = str(problem.get("type", "")).rpartition("#")[2]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.problem)


@dataclass(frozen=True)
class Decision:
    """The items to show, and the id to report under."""

    id: str
    items: tuple[str, ...]
    policy: str
    expires: str
    propensity: float | None = None  # the probability of these items, if it is public
    personal: bool = False  # the person's own set, from their history; not of the hold-out

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Decision:
        items = tuple(found["items"])
        likely, own = found.get("propensity"), found.get("personal", False)
        return cls(found["decision_id"], items, found["policy"], found["expires"], likely, own)


@dataclass(frozen=True)
class Acknowledgement:
    """The service's answer to an outcome.

    ``status`` is "recorded", "duplicate" (there was one before), "late" or "refused". ``counted`` is False
    if the decision is not learned from: the person has reached their population's limit of decisions, or it
    is too late.
    """

    status: str
    counted: bool


class Client:
    """A connection to a service, with a method for every route; threads may share one.

    The client waits ``timeout`` seconds for an answer, and sends a request again up to ``retries`` times,
    after pauses that double from 0.05 s on. ``context`` determines the trusted certificates; by default,
    those of the system. `request` is for routes of later releases.
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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url={url!r} must be like http://localhost:8722")
        if not key.isascii() or not key.isprintable():
            raise ValueError("key must be one of the service's API keys")
        where = parts.hostname, parts.port
        self._open: Callable[[], http.client.HTTPConnection]
        if parts.scheme == "https":
            context = context or ssl.create_default_context()
            self._open = partial(http.client.HTTPSConnection, *where, timeout=timeout, context=context)
        else:
            self._open = partial(http.client.HTTPConnection, *where, timeout=timeout)
        self._base, self._retries = parts.path.rstrip("/"), retries
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._idle: list[http.client.HTTPConnection] = []  # those that no thread is using
        self._models: dict[str, Record] = {}

    # --- decisions -------------------------------------------------------------------------------

    def decide(
        self,
        experiment: str,
        person: str | None = None,
        *,
        exclude: Iterable[str] = (),
        segment: str | None = None,
        key: str | None = None,
        history: Iterable[str] | None = None,
    ) -> Decision:
        """A set of items for a person; ``exclude`` must depend on public facts only, such as sold-out items.

        ``history`` is for personal sets: the person's items so far, which the service uses for this answer
        and does not store. If you repeat a request with its ``key``, send it again: the set is recomputed.

        ``key`` is the request's idempotency key: a repeated request with the same key gets the same decision,
        for at least ten minutes. By default each call has its own key, for its retries. With ``retries=0``
        there is none, and the answer does not wait for the disk.
        """
        given = {"person": person, "exclude": list(exclude) or None, "segment": segment}
        given["history"] = None if history is None else list(history)
        return Decision.read(self._decided(experiment, given, key))

    def decide_many(
        self,
        experiment: str,
        people: Iterable[str] | int,
        *,
        exclude: Iterable[str] = (),
        segment: str | None = None,
        key: str | None = None,
    ) -> list[Decision]:
        """Decisions for these people or, for anonymous populations, a number of people; at most 1,000.

        One request takes a fraction of the time of as many single ones. Ask only for people who will see
        their items: a decision without a reported outcome counts as "took nothing".
        """
        whom: dict[str, Any] = {"count": people} if isinstance(people, int) else {"people": list(people)}
        given = whom | {"exclude": list(exclude) or None, "segment": segment}
        found = self._decided(experiment, given, key)
        return [Decision.read(one) for one in found.get("decisions", [found])]

    def prefetched(
        self, experiment: str, many: int = 100, *, segment: str | None = None
    ) -> Iterator[Decision]:
        """Iterate over decisions for anybody, fetched ``many`` at a time; expired ones are skipped.

        For anonymous populations with a steady stream of visitors: decisions that are fetched and not shown
        count as "took nothing". Use one iterator per thread.
        """
        while True:
            for decision in self.decide_many(experiment, many, segment=segment):
                if decision.expires > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()):
                    yield decision

    def _decided(self, experiment: str, given: Mapping[str, Any], key: str | None) -> Any:
        asked = {name: one for name, one in given.items() if one is not None}
        if key is None and self._retries:
            key = secrets.token_hex(16)
        path = f"/v1/experiments/{quote(experiment, safe='')}/decisions"
        return self.request("POST", path, asked, headers={} if key is None else {"Idempotency-Key": key})

    def report(
        self,
        decision: Decision | str,
        *,
        taken: str | None = _UNSET,
        value: float = _UNSET,
        likes: Iterable[str] = _UNSET,
        served: bool = _UNSET,
    ) -> Acknowledgement:
        """Report the outcome of a decision; ``served`` (personal sets): whether a shown item was taken."""
        given = {"taken": taken, "value": value, "likes": likes}
        said: dict[str, Any] = {name: one for name, one in given.items() if one is not _UNSET}
        if len(said) != 1:
            raise TypeError("give one of taken=, value= and likes=")
        if "likes" in said:
            said["likes"] = list(said["likes"])
        if served is not _UNSET:
            said["served"] = served
        number = decision.id if isinstance(decision, Decision) else decision
        found = self.request("POST", f"/v1/decisions/{quote(number, safe='')}/outcome", said)
        return Acknowledgement(found["status"], found["counted"])

    def report_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Acknowledgement]:
        """Report many outcomes: mappings with ``decision_id`` and the arguments of `report`."""
        found = self.request("POST", "/v1/outcomes", [dict(one) for one in outcomes])
        return [Acknowledgement(one["status"], one["counted"]) for one in found]

    def token(self, experiment: str, person: str | None = None, *, seconds: int = 900) -> str:
        """A token for one person's browser, for their own decisions and outcomes, valid for ``seconds``."""
        asked = {"person": person, "seconds": seconds}
        return str(self.request("POST", _one(experiment, "tokens"), asked)["token"])

    def report_event(self, /, experiment: str, event: str, **outcome: Any) -> Acknowledgement:
        """Report the outcome of the decision with this event id; see `report`."""
        path = _one(experiment, "events", event, "outcome")
        found = self.request("POST", path, outcome)
        return Acknowledgement(found["status"], found["counted"])

    def model(self, experiment: str) -> Record:
        """The latest public model of personal sets, for ``personal.js``; transferred only if it is new."""
        known = self._models.get(experiment)
        headers = {} if known is None else {"If-None-Match": f'"{known["policy"]}"'}
        found: Record | None = self.request("GET", _one(experiment, "model"), headers=headers)
        self._models[experiment] = known = found or known or {}
        return known

    # --- experiments -----------------------------------------------------------------------------

    def experiments(self) -> list[Record]:
        """All experiments, newest first."""
        return self._list("/v1/experiments", "experiments")

    def create_experiment(
        self, /, name: str, population: str, items: Iterable[str], k: int, **settings: Any
    ) -> None:
        """Create an experiment; ``settings`` are those of the route, such as ``feedback="slots"``."""
        asked = {"name": name, "population": population, "items": list(items), "k": k} | settings
        self.request("POST", "/v1/experiments", asked)

    def experiment(self, name: str) -> Record:
        """The status of an experiment, what it waits for, and when the first numbers come."""
        return self._record("GET", _one(name))

    def change_items(self, name: str, *, add: Iterable[str] = (), retire: Iterable[str] = ()) -> Record:
        """Add and retire items; a decision to do so must depend on public facts only."""
        return self._record("PATCH", _one(name), {"add_items": list(add), "retire_items": list(retire)})

    def items(self, name: str) -> list[Record]:
        """The catalogue."""
        return self._list(_one(name, "items"), "items")

    def releases(
        self, name: str, *, before: int | None = None, limit: int = 100, segment: str | None = None
    ) -> list[Record]:
        """The releases, newest first."""
        asked = {"before": before, "limit": limit, "segment": segment}
        return self._list(_one(name, "releases"), "releases", asked)

    def shares(self, name: str, *, segment: str | None = None) -> list[Record]:
        """People served and lift over time, with anytime-valid 95 % intervals."""
        return self._list(_one(name, "shares"), "points", {"segment": segment})

    def epochs(self, name: str) -> list[Record]:
        """The epochs of an experiment, newest first."""
        return self._list(_one(name, "epochs"), "epochs")

    def account(self, name: str) -> Record:
        """The privacy account of an experiment's population."""
        return self._record("GET", _one(name, "account"))

    def pause(self, name: str) -> Record:
        """Serve no more decisions for now."""
        return self._record("POST", _one(name, "pause"))

    def resume(self, name: str) -> Record:
        """Resume a paused experiment; a period that has begun is charged."""
        return self._record("POST", _one(name, "resume"))

    def end(self, name: str) -> Record:
        """End an experiment for good."""
        return self._record("POST", _one(name, "end"))

    def delete_experiment(self, name: str) -> None:
        """Delete an experiment that has served no decision."""
        self.request("DELETE", _one(name))

    def webhooks(self, name: str) -> list[Record]:
        """Where releases are sent."""
        return self._list(_one(name, "webhooks"), "webhooks")

    def create_webhook(self, name: str, url: str) -> Record:
        """Send every release to an address; returns ``id``, and the ``secret`` that signs releases."""
        return self._record("POST", _one(name, "webhooks"), {"url": url}, once=True)

    def delete_webhook(self, name: str, webhook: str) -> None:
        """Stop sending releases to a webhook."""
        self.request("DELETE", _one(name, "webhooks", webhook))

    # --- people ----------------------------------------------------------------------------------

    def populations(self) -> list[Record]:
        """All populations, with their budgets."""
        return self._list("/v1/populations", "populations")

    def create_population(self, /, name: str, epsilon: float, **settings: Any) -> None:
        """Create a population; ``settings`` are those of the route, such as ``delta=1e-6``."""
        self.request("POST", "/v1/populations", {"name": name, "epsilon": epsilon} | settings)

    def delete_population(self, name: str) -> None:
        """Delete a population that has had no experiment."""
        self.request("DELETE", _path("populations", name))

    def population_account(self, name: str) -> Record:
        """The privacy account of a population."""
        return self._record("GET", _path("populations", name, "account"))

    def ledger(self, name: str) -> list[Record]:
        """Every charge to a population's budget, newest first."""
        return self._list(_path("populations", name, "ledger"), "charges")

    def erase(self, name: str, people: Iterable[str]) -> None:
        """Erase outcomes of these people that were not learned from yet."""
        self.request("POST", _path("populations", name, "erase"), {"people": list(people)})

    def plan(self, /, items: int, k: int, people: int, epsilon: float, **settings: Any) -> Record:
        """What to expect before anything is spent."""
        asked = {"items": items, "k": k, "people": people, "epsilon": epsilon} | settings
        return self._record("POST", "/v1/plan", asked)

    # --- administration --------------------------------------------------------------------------

    def keys(self) -> list[Record]:
        """API keys, without their secrets."""
        return self._list("/v1/keys", "keys")

    def create_key(self, /, name: str, role: str, **settings: Any) -> Record:
        """Create an API key; returns its ``id``, and the ``key``, which is shown this once."""
        return self._record("POST", "/v1/keys", {"name": name, "role": role} | settings, once=True)

    def rotate_key(self, key: str, *, grace: float = 0.0) -> Record:
        """Replace a key by a new one; the old one is still accepted for ``grace`` seconds."""
        return self._record("POST", _path("keys", key, "rotate"), {"grace": grace}, once=True)

    def revoke_key(self, key: str) -> None:
        """End an API key, by its id."""
        self.request("DELETE", _path("keys", key))

    def audit(self, *, before: int | None = None, limit: int = 100) -> list[Record]:
        """Who changed what, newest first."""
        return self._list("/v1/audit", "audit", {"before": before, "limit": limit})

    def _record(self, method: str, path: str, body: Any = None, *, once: bool = False) -> Record:
        found: Record = self.request(method, path, body, once=once)
        return found

    def _list(self, path: str, name: str, asked: Mapping[str, Any] = {}) -> list[Record]:
        given = urlencode({key: one for key, one in asked.items() if one is not None})
        found: list[Record] = self.request("GET", f"{path}?{given}" if given else path)[name]
        return found

    # --- requests --------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] = {},
        once: bool = False,
    ) -> Any:
        """Call any route of the service; returns decoded JSON, or the text of other formats (CSV, HTML).

        ``once``: a request without an answer is not sent again; it may have been received or not.
        """
        if not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError("path must be ASCII without spaces; quote it")
        content = b"" if body is None else json.dumps(body).encode()
        pause = 0.05
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response, answer = self._once(method, path, content, headers)
            except (OSError, http.client.HTTPException):
                if last or once:
                    raise
                wait = pause
            else:
                if last or response.status not in (429, 503):
                    return _read(response.status, answer, response.headers.get("Content-Type", ""))
                after = response.headers.get("Retry-After", "")
                wait = float(after) if after.isdecimal() else pause
            time.sleep(wait)
            pause *= 2
        raise AssertionError

    def _once(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request over an idle or new connection, and read the answer; a failure closes it."""
        connection = self._free()
        try:
            connection.request(method, self._base + path, content, {**self._headers, **headers})
            response = connection.getresponse()
            answer = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response, answer

    def _free(self) -> http.client.HTTPConnection:
        """An idle connection, or a new one; idle ones with unread data were closed by the service."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._open()
            if connection.sock is None:
                return connection  # the next request opens it again
            with selectors.DefaultSelector() as selector:
                selector.register(connection.sock, selectors.EVENT_READ)
                if not selector.select(0):
                    return connection
            connection.close()

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):
            self.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _one(experiment: str, *more: str) -> str:
    return _path("experiments", experiment, *more)


def _in_a_thread(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    async def call(self: AsyncClient, /, *given: P.args, **more: P.kwargs) -> T:
        work = partial(method, self._client, *given, **more)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    update_wrapper(call, method)
    return call


class AsyncClient:
    """`Client` for asyncio: ``async with AsyncClient(url, key) as client: await client.decide("shop")``.

    Requests are sent by at most ``connections`` threads at a time, each on its own connection.
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
        self._client = Client(url, key, timeout=timeout, retries=retries, context=context)
        self._threads = ThreadPoolExecutor(connections, "discreet-client")

    decide = _in_a_thread(Client.decide)
    decide_many = _in_a_thread(Client.decide_many)
    report = _in_a_thread(Client.report)
    report_many = _in_a_thread(Client.report_many)
    request = _in_a_thread(Client.request)
    token = _in_a_thread(Client.token)
    report_event = _in_a_thread(Client.report_event)
    model = _in_a_thread(Client.model)
    experiments = _in_a_thread(Client.experiments)
    create_experiment = _in_a_thread(Client.create_experiment)
    experiment = _in_a_thread(Client.experiment)
    change_items = _in_a_thread(Client.change_items)
    items = _in_a_thread(Client.items)
    releases = _in_a_thread(Client.releases)
    shares = _in_a_thread(Client.shares)
    epochs = _in_a_thread(Client.epochs)
    account = _in_a_thread(Client.account)
    pause = _in_a_thread(Client.pause)
    resume = _in_a_thread(Client.resume)
    end = _in_a_thread(Client.end)
    delete_experiment = _in_a_thread(Client.delete_experiment)
    webhooks = _in_a_thread(Client.webhooks)
    create_webhook = _in_a_thread(Client.create_webhook)
    delete_webhook = _in_a_thread(Client.delete_webhook)
    populations = _in_a_thread(Client.populations)
    create_population = _in_a_thread(Client.create_population)
    delete_population = _in_a_thread(Client.delete_population)
    population_account = _in_a_thread(Client.population_account)
    ledger = _in_a_thread(Client.ledger)
    erase = _in_a_thread(Client.erase)
    plan = _in_a_thread(Client.plan)
    keys = _in_a_thread(Client.keys)
    create_key = _in_a_thread(Client.create_key)
    rotate_key = _in_a_thread(Client.rotate_key)
    revoke_key = _in_a_thread(Client.revoke_key)
    audit = _in_a_thread(Client.audit)

    async def close(self) -> None:
        """Close the connections that are not in use."""
        self._client.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _read(status: int, answer: bytes, kind: str) -> Any:
    """The content of an answer: decoded JSON, or text; a refusal is raised."""
    if status < 400 and kind.startswith("text/"):
        return answer.decode()
    if status < 400:
        return json.loads(answer) if answer else None
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    raise ServiceError(status, found if isinstance(found, dict) else {})
