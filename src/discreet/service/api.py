"""The JSON routes: decisions and their outcomes for applications, and what people who run experiments use."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.identity import name_of
from ..privacy import Budget, BudgetExceeded
from . import problems, queries
from .auth import ROLES, Key, Keys, token_of
from .config import ConstraintConfig, ExperimentConfig, PopulationConfig
from .database import Conflict, Frozen, StoreError
from .engine import DecisionEngine, Live, NotEnoughItems, Unavailable
from .groups import Acknowledged, KeptRequest
from .problems import Problem
from .worker import PAUSED, RUNNING, OtherSegments

if TYPE_CHECKING:
    from .metrics import Metrics

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


class Operation(NamedTuple):
    """A route: by which method, what a key must be allowed to do, what it takes and what it answers."""

    method: str
    path: str
    handler: str
    action: str
    summary: str
    takes: Any = None
    example: Any = None
    answers: Any = None
    status: int = 200

    @property
    def role(self) -> str:
        """The least role that may; "" if no key is needed."""
        return next((role for role, allowed in ROLES.items() if self.action in allowed), "")


_ONE = "/v1/experiments/{name}"
_DECISION = {
    "decision_id": "IAAAAAEAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAA…",
    "items": ["red", "blue"],
    "policy": "3fa9c2d417e0b6aa",
    "expires": "2026-11-16T10:30:00Z",
}
_EPOCH = {"epoch": 0, "releases": 12, "first_release": 1793491200.0, "last_release": 1793494800.0}
_NEW = {
    "name": "shop",
    "population": "visitors",
    "items": ["red", "green", "blue", "black"],
    "k": 2,
    "feedback": "taken",
    "outcome_wait": 600,
    "holdout": 0.05,
    "segments": ["de", "fr"],
}
# Those of every visitor first.
OPERATIONS = (
    Operation("POST", "/v1/decisions/{decision}/outcome", "outcome", "decide", "What came of a decision",
              OutcomeRequest, {"taken": "blue"}, {"status": "recorded", "counted": True}),
    Operation("POST", f"{_ONE}/decisions", "decide", "decide",
              "A set of items for a visitor; sent again with its Idempotency-Key, the same one",
              DecisionRequest, {"person": "user 17", "segment": "de", "exclude": ["black"]}, _DECISION),
    Operation("POST", "/v1/outcomes", "outcomes", "decide", "What came of many decisions", list[OutcomeOf],
              [{"decision_id": "IAAAAAE…", "taken": None}], [{"status": "recorded", "counted": True}]),
    Operation("GET", "/v1/experiments", "experiments", "read", "All experiments"),
    Operation("POST", "/v1/experiments", "new_experiment", "operate",
              "A new experiment; it reserves its share of the budget",
              NewExperiment, _NEW, {"name": "shop"}, 201),
    Operation("GET", _ONE, "status", "read", "How an experiment stands"),
    Operation("PATCH", _ONE, "change", "operate", "Items that come and go: public facts",
              Changes, {"add_items": ["white"], "retire_items": ["green"]}),
    Operation("GET", f"{_ONE}/status", "status", "read", "How an experiment stands"),
    Operation("GET", f"{_ONE}/account", "account", "read",
              "What was spent, by period, and composed over periods"),
    Operation("GET", f"{_ONE}/releases", "releases", "read",
              "What was released, newest first (?segment=NAME for one segment)"),
    Operation("GET", f"{_ONE}/epochs", "epochs", "read", "Its epochs, newest first: one a period",
              None, None, {"epochs": [_EPOCH | {"period": "2026-11"}]}),
    Operation("GET", f"{_ONE}/items", "items", "read", "The catalogue"),
    Operation("POST", f"{_ONE}/pause", "pause", "operate", "Serve no more decisions for now"),
    Operation("POST", f"{_ONE}/resume", "resume", "operate", "Go on"),
    Operation("GET", "/v1/populations", "populations", "read", "All populations, with their budgets"),
    Operation("POST", "/v1/populations", "new_population", "operate", "People with one budget per period",
              NewPopulation,
              {"name": "visitors", "epsilon": 1.0, "max_rounds_per_person": 1, "period": "month"},
              {"name": "visitors"}, 201),
    Operation("GET", "/v1/populations/{population}/account", "account", "read",
              "What was spent about these people"),
    Operation("POST", "/v1/plan", "plan", "read", "What to expect before anything is spent", PlanRequest,
              {"items": 200, "k": 5, "people": 10000, "epsilon": 1.0, "feedback": "taken"}),
    Operation("DELETE", "/v1/people/{person}", "erase", "erase",
              "Forget what waits to be learned about somebody (?population=NAME)",
              None, None, {"status": "erased"}),
    Operation("GET", "/v1/keys", "list_keys", "administer", "API keys, without their secrets"),
    Operation("POST", "/v1/keys", "new_key", "administer", "A new API key, shown this once", NewKey,
              {"name": "shop front", "role": "app", "experiments": ["shop"]},
              {"id": "0c1d2e3f4a5b", "key": "dk_…"}, 201),
    Operation("DELETE", "/v1/keys/{key}", "end_key", "administer", "End an API key"),
)  # fmt: skip

_decisions = msgspec.json.Decoder(DecisionRequest)
_outcome = msgspec.json.Decoder(OutcomeRequest)
_outcomes = msgspec.json.Decoder(list[OutcomeOf])
_encode = msgspec.json.Encoder().encode


class Api:
    """The JSON routes over an engine."""

    def __init__(self, engine: DecisionEngine, keys: Keys, metrics: Metrics | None = None) -> None:
        self.engine, self.keys, self._metrics = engine, keys, metrics

    def routes(self) -> list[Route]:
        """All of them, for Starlette; what people are called may have slashes in it."""
        paths = [one.path.replace("{person}", "{person:path}") for one in OPERATIONS]
        return [
            Route(path, self._endpoint(one), methods=[one.method])
            for path, one in zip(paths, OPERATIONS, strict=True)
        ]

    def _endpoint(self, one: Operation) -> Callable[[Request], Awaitable[Response]]:
        """For keys whose role allows an action; who asks for decisions is checked by the handler."""
        handler: Callable[[Request], Awaitable[Any]] = getattr(self, one.handler)
        decides = one.action == "decide"

        async def endpoint(request: Request) -> Response:
            try:
                request.state.key = key = self.keys.known(token_of(request.scope["headers"]), one.action)
                if not decides and not key.may(one.action, request.path_params.get("name")):
                    raise problems.WRONG_ROLE
                found = await handler(request)
                if one.method != "GET" and not decides:
                    await run_in_threadpool(self.audit, key.id, f"{one.method} {one.path}")
                content = found if isinstance(found, bytes) else _encode(found)
                answer = Response(content, one.status, media_type="application/json")
            except Exception as error:
                answer = refusal(problem_of(error))
            # How many outcomes there were is nobody's business.
            counted = one.handler == "decide" or (decides and answer.status_code >= 500)
            if self._metrics is not None and counted:
                self._metrics.answered(one.handler, answer.status_code)
            return answer

        return endpoint

    def audit(self, key: str, action: str) -> None:
        """Who did what, without what it was done to: names of people never get here."""
        with self.engine.store.transaction() as tx:
            tx.do("INSERT INTO audit (at, api_key, action) VALUES (?, ?, ?)", tx.now(), key, action)

    # --- decisions and outcomes ------------------------------------------------------------------

    async def decide(self, request: Request) -> bytes:
        """Decisions for somebody. A request with an idempotency key is answered once, and again alike."""
        name, engine = request.path_params["name"], self.engine
        if not request.state.key.may("decide", name):
            raise problems.WRONG_ROLE
        raw = await body(request.receive)
        asked = decoded(raw, _decisions.decode) if raw else DecisionRequest()
        key = request.headers.get("idempotency-key")
        if key is not None and not (1 <= len(key) <= 256 and key.isascii() and key.isprintable()):
            raise problems.KEY
        if not 1 <= asked.count <= MANY or len(asked.person or "") > 1024:
            raise problems.BAD_BODY
        live = await engine.live(name)
        check_decides(live, asked.person)
        if asked.segment is not None or live.segments:
            part = live.segments.get(asked.segment or "")
            if part is None:
                raise problems.SEGMENT
            live = part
        pseudonym = engine.pseudonym(live, asked.person)
        made: list[bytes] = []
        kept: list[asyncio.Future[KeptRequest]] = []
        for number in range(asked.count):
            answer, altered = await self._made(live, pseudonym, asked.exclude)
            made.append(answer)
            if key is not None:
                known_by = _encode(["decision", key, number, asked.person, asked.segment, asked.exclude])
                kept.append(engine.keep(engine.secrets.request(live.id, known_by), altered, answer.decode()))
        if kept:
            made = [(await one).answer.encode() for one in kept]
        return made[0] if asked.count == 1 else b'{"decisions":[' + b",".join(made) + b"]}"

    async def _made(self, live: Live, pseudonym: bytes, exclude: list[str]) -> tuple[bytes, bool]:
        """The next decision, and whether it shows other items than were allocated."""
        block, offset = await self.engine.next_decision(live, pseudonym)
        altered = False
        if exclude:
            labels, altered = live.without(block, offset, set(exclude))
            items = _encode(labels)
        else:
            items = live.items(block, offset)
        sequence = block.first + offset
        signed = self.engine.secrets.sign(block.experiment, block.epoch, sequence, pseudonym, altered)
        answer = b'{"decision_id":"%b","items":%b,"policy":"%b","expires":"%b"}' % (
            signed.encode(),
            items,
            block.chain[:8].hex().encode(),
            expiry(live.config.outcome_wait),
        )
        return answer, altered

    async def outcome(self, request: Request) -> bytes:
        """The answer to the outcome of one decision."""
        asked = decoded(await body(request.receive), _outcome.decode)
        written = await self._record(request.path_params["decision"], asked, request.state.key)
        return acknowledged(*await written)

    async def outcomes(self, request: Request) -> bytes:
        """The answers to many outcomes: in one group, or a few."""
        asked = decoded(await body(request.receive, LARGEST * 16), _outcomes.decode)
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
        decision = self.engine.secrets.verify(decision_id)
        if decision is None:
            raise problems.NOT_SIGNED
        try:
            live = await self.engine.live_of(decision)
        except LookupError:
            raise problems.NOT_SIGNED from None
        if key.experiments is not None and live.name not in key.experiments:
            raise problems.WRONG_ROLE
        return self.engine.record(decision, outcome_body(live, asked))

    # --- populations and experiments -------------------------------------------------------------

    async def _ask(self, query: Callable[..., Any], *given: Any) -> Any:
        return await run_in_threadpool(query, self.engine.store, *given)

    async def populations(self, request: Request) -> Any:  # noqa: ARG002
        return {"populations": await self._ask(queries.populations)}

    async def new_population(self, request: Request) -> Any:
        asked = await read(request, NewPopulation)
        check_name(asked.name)
        fields = {name: getattr(asked, name) for name in PopulationConfig.__struct_fields__}
        await self._make(self.engine.worker.create_population, asked.name, PopulationConfig(**fields))
        return {"name": asked.name}

    async def account(self, request: Request) -> Any:
        population = request.path_params.get("population")
        if population is None:
            population = (await self.status(request))["population"]
        return await self._ask(queries.account, population)

    async def experiments(self, request: Request) -> Any:  # noqa: ARG002
        return {"experiments": await self._ask(queries.experiments)}

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
        return {"name": asked.name}

    async def _make(self, make: Callable[..., Any], *given: Any) -> None:
        try:
            await run_in_threadpool(make, *given)
        except BudgetExceeded as refused:
            raise over_budget(refused) from None
        except Conflict:
            raise problems.EXISTS from None
        except OtherSegments:
            raise problems.OTHER_SEGMENTS from None
        except LookupError as missing:
            if missing.args == ("population",):
                raise problems.NOT_FOUND.with_(at="$.population") from None
            raise
        except (ValueError, TypeError, NotImplementedError):
            raise problems.BAD_BODY from None

    async def status(self, request: Request) -> Any:
        return await self._ask(queries.status, request.path_params["name"])

    async def releases(self, request: Request) -> Any:
        asked = request.query_params
        before, limit = asked.get("before"), asked.get("limit", "100")
        if not all(re.fullmatch(r"\d{1,18}", one) for one in (limit, before or "0")):
            raise problems.BAD_BODY
        query = partial(
            queries.releases,
            before=None if before is None else int(before),
            limit=min(int(limit), 1000),
            segment=asked.get("segment"),
        )
        return {"releases": await self._ask(query, request.path_params["name"])}

    async def epochs(self, request: Request) -> Any:
        return {"epochs": await self._ask(queries.epochs, request.path_params["name"])}

    async def items(self, request: Request) -> Any:
        return {"items": await self._ask(queries.items, request.path_params["name"])}

    async def change(self, request: Request) -> Any:
        asked = await read(request, Changes)
        live = await self.engine.live(request.path_params["name"])
        await self._make(self.engine.worker.change_items, live.id, asked.add_items, asked.retire_items)
        await self.engine.refresh(live.name)
        return await self.status(request)

    async def pause(self, request: Request) -> Any:
        return await self.set_status(request.path_params["name"], PAUSED)

    async def resume(self, request: Request) -> Any:
        return await self.set_status(request.path_params["name"], RUNNING)

    async def set_status(self, name: str, status: str) -> Any:
        """Pause an experiment, or go on with it."""
        live = await self.engine.live(name)
        if not await run_in_threadpool(self.engine.worker.set_status, live.id, status):
            raise problems.FROZEN
        await self.engine.refresh(live.name)
        return {"name": live.name, "status": status}

    async def plan(self, request: Request) -> Any:
        return await run_in_threadpool(forecast, await read(request, PlanRequest))

    # --- people and keys -------------------------------------------------------------------------

    async def erase(self, request: Request) -> Any:
        population, person = request.query_params.get("population"), request.path_params["person"]
        if population is None:
            raise problems.BAD_BODY
        pseudonym = partial(self.engine.secrets.pseudonym, person=person)
        await run_in_threadpool(self.engine.worker.erase, population, pseudonym)
        return {"status": "erased"}

    async def list_keys(self, request: Request) -> Any:  # noqa: ARG002
        return {"keys": await run_in_threadpool(self.keys.listed)}

    async def new_key(self, request: Request) -> Any:
        asked = await read(request, NewKey)
        number, token = await run_in_threadpool(self.keys.create, asked.name, asked.role, asked.experiments)
        return {"id": number, "key": token}

    async def end_key(self, request: Request) -> Any:
        if not await run_in_threadpool(self.keys.revoke, request.path_params["key"]):
            raise problems.NOT_FOUND
        return {"status": "revoked"}


# --- what requests say -----------------------------------------------------------------------------------


def check_decides(live: Live, person: str | None) -> None:
    """Refuse decisions of what does not run, and for nobody where it has to be somebody."""
    if live.status != RUNNING:
        raise problems.NOT_RUNNING
    if (person is None or name_of(person) is None) and not live.people.anonymous:
        raise problems.PERSON


def outcome_body(live: Live, asked: OutcomeRequest) -> bytes:
    """What is written down of an outcome; refused where the experiment learns from something else."""
    unset = msgspec.UNSET
    kind = live.config.feedback
    if (asked.taken is not unset) + (asked.value is not unset) + (asked.likes is not unset) != 1:
        raise problems.WRONG_OUTCOME
    found = getattr(asked, kind)
    if found is unset or (kind == "value" and not 0.0 <= found <= live.config.bound):
        raise problems.WRONG_OUTCOME
    if kind == "likes" and len(found) > MANY:
        raise problems.TOO_LARGE
    return _encode(found)


@cache
def acknowledged(status: str, counted: bool) -> bytes:
    """What is said of one outcome."""
    return _encode({"status": status, "counted": counted})


async def body(receive: Receive, most: int = LARGEST) -> bytes:
    """The whole body of a request, if it is not too large."""
    found, more = b"", True
    while more:
        message = await receive()
        if message.get("type") == "http.disconnect":  # before the body: nothing is decided
            raise problems.BAD_BODY
        found += message.get("body", b"")
        more = message.get("more_body", False)
        if len(found) > most:
            raise problems.TOO_LARGE
    return found


def decoded(raw: bytes, decode: Callable[[bytes], Any]) -> Any:
    """A body, read as JSON."""
    try:
        return decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise problems.BAD_BODY from None


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
    from .. import planning  # when somebody asks: the service starts sooner without it

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
    """The body of a request, with where it is wrong."""
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
    found = {"at": at.rstrip("`")} if at else {}  # names of fields, and numbers in lists
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


# --- refusals ----------------------------------------------------------------------------------------------

_PROBLEMS: tuple[tuple[type[Exception], Problem], ...] = (
    (Unavailable, problems.BUSY),
    (NotEnoughItems, problems.FEW_ITEMS),
    (StoreError, problems.NO_STORE),
    (Frozen, problems.FROZEN),
    (LookupError, problems.NOT_FOUND),
)


def problem_of(error: Exception) -> Problem:
    """What is said of an error; its own text may quote what was asked for."""
    if isinstance(error, Problem):
        return error
    for kind, problem in _PROBLEMS:
        if isinstance(error, kind):
            return problem
    logger.error("a request failed: %s", type(error).__name__)
    return problems.FAILED


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
