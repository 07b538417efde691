"""The JSON routes: decisions and their outcomes for applications, and what people who run experiments use."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import planning
from ..core.identity import name_of
from ..privacy import Budget, BudgetExceeded
from . import problems, queries
from .auth import ROLES, Key, Keys, token_of
from .blocks import DecisionBlock
from .config import ConstraintConfig, ExperimentConfig, PopulationConfig
from .database import Conflict, Frozen, StoreError
from .engine import Engine, Live, NotEnoughItems, Unavailable, pseudonym_of
from .groups import Acknowledged, KeptRequest
from .metrics import Metrics
from .problems import Problem
from .worker import PAUSED, RUNNING, OtherSegments

logger = logging.getLogger("discreet.service")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST = 1 << 16  # bytes of a body
MANY = 1000  # decisions or outcomes in one request


class DecisionRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Who it is for, how many, in which segment, and which items cannot be shown (public facts only)."""

    person: str | None = None
    count: int = 1
    exclude: list[str] = []
    segment: str | None = None


class OutcomeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What came of a decision: one of the three."""

    taken: str | msgspec.UnsetType | None = msgspec.UNSET
    value: float | msgspec.UnsetType = msgspec.UNSET
    likes: list[str] | msgspec.UnsetType = msgspec.UNSET


class OutcomeOf(OutcomeRequest, forbid_unknown_fields=True, kw_only=True):
    """An outcome that names its decision."""

    decision_id: str


_decisions = msgspec.json.Decoder(DecisionRequest)
_outcome = msgspec.json.Decoder(OutcomeRequest)
_outcomes = msgspec.json.Decoder(list[OutcomeOf])
_encode = msgspec.json.Encoder().encode


class NewPopulation(PopulationConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A population to be made."""

    name: str


class NewExperiment(ExperimentConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment to be made, about the people of a population."""

    name: str
    population: str


class Changes(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a catalogue: public facts."""

    add_items: list[str] = []
    retire_items: list[str] = []


class NewKey(msgspec.Struct, forbid_unknown_fields=True):
    """An API key to be made; ``experiments`` limits it to these."""

    name: str
    role: Literal["app", "analyst", "operator", "admin"]
    experiments: list[str] | None = None


class PlanRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be chosen for whom, for a forecast."""

    items: int
    k: int
    people: int
    epsilon: float
    delta: float = 0.0
    feedback: Literal["likes", "taken", "value"] = "likes"
    goal: Literal["expected", "certified"] = "expected"
    constraint: ConstraintConfig | None = None


class Api:
    """The JSON routes over an engine."""

    def __init__(self, engine: Engine, keys: Keys, metrics: Metrics | None = None) -> None:
        self.engine, self.keys, self._metrics = engine, keys, metrics

    def routes(self) -> list[Route]:
        """All of them, for Starlette; those of every visitor first."""
        one = "/v1/experiments/{name}"
        return [
            self._route("POST", "/v1/decisions/{decision}/outcome", "decide", self.outcome),
            self._route("POST", f"{one}/decisions", "decide", self.decide),
            self._route("POST", "/v1/outcomes", "decide", self.outcomes),
            self._route("GET", "/v1/populations", "read", self.populations),
            self._route("POST", "/v1/populations", "operate", self.new_population),
            self._route("GET", "/v1/populations/{population}/account", "read", self.account_of),
            self._route("GET", "/v1/experiments", "read", self.experiments),
            self._route("POST", "/v1/experiments", "operate", self.new_experiment),
            self._route("GET", one, "read", self.status),
            self._route("PATCH", one, "operate", self.change),
            self._route("GET", f"{one}/status", "read", self.status),
            self._route("GET", f"{one}/account", "read", self.account),
            self._route("GET", f"{one}/releases", "read", self.releases),
            self._route("GET", f"{one}/epochs", "read", self.epochs),
            self._route("GET", f"{one}/items", "read", self.items),
            self._route("POST", f"{one}/pause", "operate", self.pause),
            self._route("POST", f"{one}/resume", "operate", self.resume),
            self._route("POST", "/v1/plan", "read", self.plan),
            self._route("DELETE", "/v1/people/{person:path}", "erase", self.erase),
            self._route("GET", "/v1/keys", "administer", self.list_keys),
            self._route("POST", "/v1/keys", "administer", self.new_key),
            self._route("DELETE", "/v1/keys/{key}", "administer", self.end_key),
        ]

    def _route(
        self, method: str, path: str, action: str, handler: Callable[[Request], Awaitable[Any]]
    ) -> Route:
        """A route for keys whose role allows an action; who asks for decisions is checked by the handler."""
        counted, audited = handler == self.decide, method != "GET" and action != "decide"

        async def endpoint(request: Request) -> Response:
            try:
                key = self.keys.known(token_of(request.scope["headers"]), action)
                if action != "decide" and not key.may(action, request.path_params.get("name")):
                    raise problems.WRONG_ROLE
                request.state.key = key
                found = await handler(request)
                if audited:
                    await run_in_threadpool(self.audit, key.id, f"{method} {path}")
            except Problem as problem:
                found = refusal(problem)
            except LookupError:
                found = refusal(problems.NOT_FOUND)
            except StoreError:
                found = refusal(problems.NO_STORE)
            except Exception as error:  # its text may quote what was asked for
                logger.error("a request failed: %s", type(error).__name__)
                found = refusal(problems.FAILED)
            if not isinstance(found, Response):
                content = found if isinstance(found, bytes) else _encode(found)
                found = Response(content, media_type="application/json")
            # How many outcomes there were is nobody's business.
            if self._metrics is not None and (counted or (action == "decide" and found.status_code >= 500)):
                self._metrics.answered(handler.__name__, found.status_code)
            return found

        return Route(path, endpoint, methods=[method], name=handler.__name__)

    def audit(self, key: str, action: str) -> None:
        """Who did what, without what it was done to: names of people never get here."""
        with self.engine.store.transaction() as tx:
            tx.do("INSERT INTO audit (at, api_key, action) VALUES (?, ?, ?)", tx.now(), key, action)

    # --- decisions and outcomes ------------------------------------------------------------------

    async def decide(self, request: Request) -> bytes:
        """Decisions for somebody. A request with an idempotency key is answered once, and again alike."""
        name = request.path_params["name"]
        if not request.state.key.may("decide", name):
            raise problems.WRONG_ROLE
        raw = await body(request.receive)
        try:
            asked = _decisions.decode(raw) if raw else DecisionRequest()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise problems.BAD_BODY from None
        key = request.headers.get("idempotency-key")
        if key is not None and not (1 <= len(key) <= 256 and key.isascii() and key.isprintable()):
            raise problems.KEY
        if not 1 <= asked.count <= MANY or (asked.person is not None and len(asked.person) > 1024):
            raise problems.BAD_BODY
        engine = self.engine
        try:
            live = engine.known(name) or await engine.live(name)
        except LookupError:
            raise problems.NOT_FOUND from None
        if live.status != RUNNING:
            raise problems.NOT_RUNNING
        if (asked.person is None or name_of(asked.person) is None) and not live.people.anonymous:
            raise problems.PERSON
        if asked.segment is not None or live.segments:
            part = live.segments.get(asked.segment or "")
            if part is None:
                raise problems.SEGMENT
            live = part
        pseudonym = pseudonym_of(engine, live, asked.person)
        made: list[bytes] = []
        kept: list[asyncio.Future[KeptRequest]] = []
        for number in range(asked.count):
            block, offset = await taken(engine, live, pseudonym)
            answer, altered = self._made(live, block, offset, pseudonym, asked.exclude)
            made.append(answer)
            if key is not None:
                known_by = _encode(["decision", key, number, asked.person, asked.segment, asked.exclude])
                kept.append(engine.keep(engine.secrets.request(live.id, known_by), altered, answer.decode()))
        if kept:
            made = [(await one).answer.encode() for one in kept]
        return made[0] if asked.count == 1 else b'{"decisions":[' + b",".join(made) + b"]}"

    def _made(
        self, live: Live, block: DecisionBlock, offset: int, pseudonym: bytes, exclude: list[str]
    ) -> tuple[bytes, bool]:
        """The decision at one place of a block, and whether it shows other items than were allocated."""
        engine, altered = self.engine, False
        if exclude:
            try:
                labels, altered = live.without(block, offset, set(exclude))
            except NotEnoughItems:
                raise problems.FEW_ITEMS from None
            items = _encode(labels)
        else:
            items = live.items(block, offset)
        decision = engine.secrets.sign(
            block.experiment, block.epoch, block.first + offset, pseudonym, altered
        )
        answer = b'{"decision_id":"%b","items":%b,"policy":"%b","expires":"%b"}' % (
            decision.encode(),
            items,
            block.policy,
            expiry(live.config.outcome_wait),
        )
        return answer, altered

    async def outcome(self, request: Request) -> bytes:
        """The answer to the outcome of one decision."""
        raw = await body(request.receive)
        try:
            asked = _outcome.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise problems.BAD_BODY from None
        written = await self._record(request.path_params["decision"], asked, request.state.key)
        return acknowledged(*await written)

    async def outcomes(self, request: Request) -> bytes:
        """The answers to many outcomes: in one group, or a few."""
        raw = await body(request.receive, LARGEST * 16)
        try:
            asked = _outcomes.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise problems.BAD_BODY from None
        if len(asked) > MANY:
            raise problems.TOO_LARGE
        waiting: list[asyncio.Future[Acknowledged] | Problem] = []
        for one in asked:
            try:
                waiting.append(await self._record(one.decision_id, one, request.state.key))
            except Problem as refused:
                waiting.append(refused)
        answers = [
            _encode({"status": "refused", "counted": False, "type": one.name})
            if isinstance(one, Problem)
            else acknowledged(*await one)
            for one in waiting
        ]
        return b"[" + b",".join(answers) + b"]"

    async def _record(
        self, decision_id: str, asked: OutcomeRequest, key: Key
    ) -> asyncio.Future[Acknowledged]:
        engine = self.engine
        decision = engine.secrets.verify(decision_id)
        if decision is None:
            raise problems.NOT_SIGNED
        live = engine.by_number(decision)
        if live is None:
            try:
                live = await engine.live_of(decision)
            except LookupError:
                raise problems.NOT_SIGNED from None
        if key.experiments is not None and live.name not in key.experiments:
            raise problems.WRONG_ROLE
        return engine.record(decision, outcome_body(live, asked))

    # --- populations -----------------------------------------------------------------------------

    async def populations(self, request: Request) -> Any:  # noqa: ARG002
        return {"populations": await run_in_threadpool(queries.populations, self.engine.worker)}

    async def new_population(self, request: Request) -> Any:
        asked = await read(request, NewPopulation)
        check_name(asked.name)
        fields = {name: getattr(asked, name) for name in PopulationConfig.__struct_fields__}
        await self._make(self.engine.worker.create_population, asked.name, PopulationConfig(**fields))
        return created({"name": asked.name})

    async def account_of(self, request: Request) -> Any:
        return await run_in_threadpool(queries.account, self.engine.worker, request.path_params["population"])

    # --- experiments -----------------------------------------------------------------------------

    async def experiments(self, request: Request) -> Any:  # noqa: ARG002
        return {"experiments": await run_in_threadpool(queries.experiments, self.engine.store)}

    async def new_experiment(self, request: Request) -> Any:
        asked = await read(request, NewExperiment)
        check_name(asked.name)
        if len(set(asked.items)) < len(asked.items):
            raise problems.BAD_BODY.with_(at="$.items", detail="An item is there twice.")
        if not 1 <= asked.k <= len(asked.items):
            raise problems.BAD_BODY.with_(at="$.k", detail="It is from 1 to the number of items.")
        fields = {name: getattr(asked, name) for name in ExperimentConfig.__struct_fields__}
        await self._make(self.engine.worker.create, asked.name, asked.population, ExperimentConfig(**fields))
        await self.engine.refresh(asked.name)
        return created({"name": asked.name})

    async def _make(self, make: Callable[..., Any], *given: Any) -> None:
        try:
            await run_in_threadpool(make, *given)
        except BudgetExceeded as refused:
            raise over_budget(refused) from None
        except Conflict:
            raise problems.EXISTS from None
        except Frozen:
            raise problems.FROZEN from None
        except OtherSegments:
            raise problems.OTHER_SEGMENTS from None
        except LookupError as missing:
            if missing.args == ("population",):
                raise problems.NOT_FOUND.with_(at="$.population") from None
            raise
        except (ValueError, TypeError, NotImplementedError):
            raise problems.BAD_BODY from None

    async def status(self, request: Request) -> Any:
        return await run_in_threadpool(queries.status, self.engine.store, request.path_params["name"])

    async def account(self, request: Request) -> Any:
        found = await self.engine.live(request.path_params["name"])
        status = await run_in_threadpool(queries.status, self.engine.store, found.name)
        return await run_in_threadpool(queries.account, self.engine.worker, status["population"])

    async def releases(self, request: Request) -> Any:
        before, limit = request.query_params.get("before"), request.query_params.get("limit", "100")
        if not all(re.fullmatch(r"\d{1,18}", one) for one in (limit, before or "0")):
            raise problems.BAD_BODY
        found = await run_in_threadpool(
            lambda: queries.releases(
                self.engine.store,
                request.path_params["name"],
                before=None if before is None else int(before),
                limit=min(int(limit), 1000),
                segment=request.query_params.get("segment"),
            )
        )
        return {"releases": found}

    async def epochs(self, request: Request) -> Any:
        found = await run_in_threadpool(queries.epochs, self.engine.store, request.path_params["name"])
        return {"epochs": found}

    async def items(self, request: Request) -> Any:
        found = await run_in_threadpool(queries.items, self.engine.store, request.path_params["name"])
        return {"items": found}

    async def change(self, request: Request) -> Any:
        asked = await read(request, Changes)
        live = await self.engine.live(request.path_params["name"])
        await self._make(self.engine.worker.change_items, live.id, asked.add_items, asked.retire_items)
        await self.engine.refresh(live.name)
        return await self.status(request)

    async def pause(self, request: Request) -> Any:
        return await self._set(request, PAUSED)

    async def resume(self, request: Request) -> Any:
        return await self._set(request, RUNNING)

    async def _set(self, request: Request, status: str) -> Any:
        live = await self.engine.live(request.path_params["name"])
        if not await run_in_threadpool(self.engine.worker.set_status, live.id, status):
            raise problems.FROZEN
        await self.engine.refresh(live.name)
        return {"name": live.name, "status": status}

    async def plan(self, request: Request) -> Any:
        asked = await read(request, PlanRequest)
        return await run_in_threadpool(forecast, asked)

    # --- people and keys -------------------------------------------------------------------------

    async def erase(self, request: Request) -> Any:
        population = request.query_params.get("population")
        if population is None:
            raise problems.BAD_BODY
        await run_in_threadpool(self.engine.erase, population, request.path_params["person"])
        return {"status": "erased"}

    async def list_keys(self, request: Request) -> Any:  # noqa: ARG002
        return {"keys": await run_in_threadpool(self.keys.listed)}

    async def new_key(self, request: Request) -> Any:
        asked = await read(request, NewKey)
        if asked.role not in ROLES:
            raise problems.BAD_BODY.with_(at="$.role", detail=f"One of {', '.join(ROLES)}.")
        number, token = await run_in_threadpool(self.keys.create, asked.name, asked.role, asked.experiments)
        return created({"id": number, "key": token})

    async def end_key(self, request: Request) -> Any:
        if not await run_in_threadpool(self.keys.revoke, request.path_params["key"]):
            raise problems.NOT_FOUND
        return {"status": "revoked"}


def outcome_body(live: Live, asked: OutcomeRequest) -> bytes:
    """What is written down of an outcome; refused where the experiment learns from something else."""
    unset = msgspec.UNSET
    kind = live.config.feedback
    if (asked.taken is not unset) + (asked.value is not unset) + (asked.likes is not unset) != 1:
        raise problems.WRONG_OUTCOME
    found = getattr(asked, kind)
    if found is unset:
        raise problems.WRONG_OUTCOME
    if kind == "value" and not 0.0 <= found <= live.config.bound:
        raise problems.WRONG_OUTCOME
    if kind == "likes" and len(found) > MANY:
        raise problems.TOO_LARGE
    return _encode(found)


async def taken(engine: Engine, live: Live, pseudonym: bytes) -> tuple[DecisionBlock, int]:
    """The next place, for a pseudonym. What is kept with it is told before anything is awaited."""
    try:
        return engine.take(live, pseudonym) or await engine.next_place(live, pseudonym)
    except Unavailable:
        raise problems.BUSY from None


@cache
def acknowledged(status: str, counted: bool) -> bytes:
    """What is said of one outcome."""
    return _encode({"status": status, "counted": counted})


async def body(receive: Receive, most: int = LARGEST) -> bytes:
    """The whole body of a request, if it is not too large."""
    message = await receive()
    found: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        found += message.get("body", b"")
        if len(found) > most:
            raise problems.TOO_LARGE
    if message.get("type") == "http.disconnect":  # before the body: nothing is decided
        raise problems.BAD_BODY
    if len(found) > most:
        raise problems.TOO_LARGE
    return found


_expiries: dict[float, tuple[int, bytes]] = {}


def expiry(wait: float) -> bytes:
    """Until when an outcome counts, at the least; worked out once a second."""
    now = int(time.time())
    found = _expiries.get(wait)
    if found is None or found[0] != now:
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + wait)).encode()
        _expiries[wait] = found = (now, text)
    return found[1]


def forecast(asked: PlanRequest) -> dict[str, Any]:
    """Which learner, and what to expect of it."""
    kind = {"likes": "full", "taken": "slots", "value": "bandit"}[asked.feedback]
    try:
        found = planning.plan(
            n_items=asked.items,
            k=asked.k,
            rounds=asked.people,
            budget=Budget(asked.epsilon, asked.delta),
            feedback=kind,
            stream="stationary",
            goal=asked.goal,
        )
    except (ValueError, TypeError):
        raise problems.BAD_BODY from None
    return {"text": str(found)}


async def read(request: Request, kind: type[Any]) -> Any:
    """The body of a request."""
    raw = await body(request.receive, 1 << 26)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise problems.BAD_BODY.with_(**_where(str(error))) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise problems.BAD_BODY.with_(detail="It is no JSON.") from None


_TYPES = re.compile(r"Expected `[a-z| ]+`, got `[a-z]+`|Object missing required field `\w+`")
_TEXTS = {
    "Object contains unknown field": "A field is not known.",
    "Invalid enum value": "None of the values.",
}


def _where(text: str) -> dict[str, str]:
    """Where a body is wrong, in words that repeat nothing of it."""
    said, _, at = text.partition(" - at `")
    found = {"at": at.rstrip("`")} if at else {}  # names of fields, and numbers of places
    if _TYPES.fullmatch(said):
        found["detail"] = f"{said}."
    for start, words in _TEXTS.items():
        if said.startswith(start):
            found["detail"] = words
    return found


def check_name(name: str) -> None:
    """Names that go into paths."""
    if not NAME.fullmatch(name):
        raise problems.BAD_BODY.with_(
            at="$.name", detail="A name has up to 64 letters, digits and . _ - and begins with no sign."
        )


def created(found: Any) -> Response:
    """What was made."""
    return Response(msgspec.json.encode(found), status_code=201, media_type="application/json")


def refusal(problem: Problem) -> Response:
    """A refusal, for Starlette."""
    headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    return Response(problem.body(), problem.status, headers, "application/problem+json")


def over_budget(refused: BudgetExceeded) -> Problem:
    """What was spent, asked for and allowed, and what would fit: all of it public."""
    shown = refused.preview
    return problems.OVER_BUDGET.with_(
        spent=shown.spent,
        after=shown.after,
        limit=shown.limit,
        delta=shown.delta,
        largest_that_fits=None if shown.largest is None else str(shown.largest),
    )
