"""The JSON routes: decisions and outcomes for applications, and the administration of experiments.

There are also the calls of Azure Personalizer (API v1.0) over an experiment: a rank is a decision, a reward
its outcome. Features of people are not read: the parser skips them, and no log or table holds them.
docs/service/personalizer.md lists what is the same and what is not.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import __version__
from ..core.names import name_of
from ..core.options import Feedback
from ..core.page import STYLE
from ..core.text import at_most
from ..privacy import Budget, BudgetExceeded
from . import groups, queries, webhooks
from .auth import BROWSER, HEADERS, ROLES, BrowserToken, DecisionId, Key, Keys, LastAdmin, new_token
from .config import OUTCOMES, ConstraintConfig, Epsilon, ExperimentConfig, Label, PopulationConfig, ShortText
from .database import NOBODY, Conflict, Ended, Fenced, Frozen, StoreError
from .engine import DecisionEngine, Live, NotEnoughItems, Unavailable, decision_of
from .groups import Acknowledged, KeptRequest
from .learning import DecisionBlock, InvalidField, detectable_lift, first_release, release_plan
from .limits import LARGEST, MANY, Crowded, SideProcess, TooLong
from .shares import Progress
from .worker import PAUSED, RUNNING, InUse, OtherSegments, ShareUnavailable, audit

logger = logging.getLogger("discreet.service")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


# --- refusals, in the format of RFC 9457: texts are fixed, and repeat nothing of what was sent ----------


@dataclass(eq=False)
class Problem(Exception):
    """A refusal: an HTTP status, a name for programs, and a sentence for people. Constants are not raised."""

    status: int
    name: str
    title: str
    more: dict[str, Any] = field(default_factory=dict)
    retry_after: int | None = None

    def body(self) -> bytes:
        record = {"type": f"about:blank#{self.name}", "title": self.title, "status": self.status}
        return msgspec.json.encode(record | self.more)

    def with_(self, **more: Any) -> Problem:
        """A new one to raise, with further public fields: one raised twice keeps both requests in memory."""
        return Problem(self.status, self.name, self.title, {**self.more, **more}, self.retry_after)


BAD_BODY = Problem(422, "body", "The body is not what this route takes; see /docs.")
UPGRADE = Problem(400, "upgrade", "This service speaks HTTP/1.1: ask without an Upgrade header.")
TOO_LARGE = Problem(413, "too-large", "The body is larger than this service takes.")
NO_KEY = Problem(401, "no-key", "An API key is needed: Authorization: Bearer KEY.")
TOKEN = Problem(
    401, "token", "The token has expired or belongs to another experiment: get a new one from your server."
)
WRONG_ROLE = Problem(403, "role", "This API key may not do that.")
ELSEWHERE = WRONG_ROLE.with_(detail="It is limited to certain experiments, and this is outside of them.")
NOT_FOUND = Problem(404, "not-found", "There is nothing at this address; /docs lists the routes.")
METHOD = Problem(
    405, "method", "This address does not take that method; the Allow header lists those it does."
)
MISSING = {
    "experiment": Problem(
        404, "not-found", "There is no experiment of this name; GET /v1/experiments lists them."
    ),
    "population": Problem(
        404, "not-found", "There is no population of this name; GET /v1/populations lists them."
    ),
    "key": Problem(404, "not-found", "There is no key of this id, or it has ended; GET /v1/keys lists them."),
}
NUL = Problem(422, "nul", "A path or a query holds a NUL character, which no name has.")
EXISTS = Problem(409, "exists", "This name is already taken.")
NOT_SIGNED = Problem(404, "decision", "Unknown decision_id. Send it back exactly as you received it.")
NOT_RUNNING = Problem(409, "not-running", "The experiment makes no decisions now.")
FROZEN = Problem(
    409, "frozen", "A backup was restored: experiments are frozen until their budget renews, then they go on."
)
HAS_ENDED = Problem(409, "ended", "The experiment has ended: make another one about the same people.")
IN_USE = Problem(
    409, "in-use", "It has been used, so its account must be kept. End the experiment instead of deleting it."
)
LAST_ADMIN = Problem(
    409, "last-admin", "This is the last admin key: make another one first, or rotate this one."
)
FEW_ITEMS = Problem(
    409,
    "few-items",
    "Too many items are excluded: fewer are left than a set has. Exclude fewer, or add items.",
)
WRONG_OUTCOME = Problem(422, "outcome", "The outcome is not what this experiment learns from.")
NOT_PERSONAL = Problem(
    409, "not-personal", "This experiment shows everybody the same: models are of learner PersonalSelector."
)
NO_MODEL = Problem(404, "no-model", "Nothing was released yet: ask for decisions, and for the model later.")
PERSON = Problem(
    422, "person", "The decision must say whom it is for (person), unless its population is anonymous."
)
KEY = Problem(422, "idempotency-key", "An idempotency key has 1 to 256 printable characters of ASCII.")
SEGMENT = Problem(422, "segment", "The decision must name one of the experiment's segments, if it has any.")
OTHER_SEGMENTS = Problem(
    409, "other-segments", "Experiments of one population must have the same segments, or none."
)
OVER_BUDGET = Problem(
    409,
    "over-budget",
    "The budget of this population does not hold that: ask for less, or end or pause others.",
)
TOO_LONG = Problem(422, "too-long", "That takes too long to work out: ask about fewer items or people.")
BUSY = Problem(503, "busy", "No decision can be made at the moment; try again.", retry_after=1)
NO_STORE = Problem(503, "store", "The database cannot be written to; nothing was recorded.", retry_after=1)
RATE = Problem(
    429,
    "rate",
    "This API key asks too often: wait a second, ask for many at once, or raise rate.",
    retry_after=1,
)
FAILED = Problem(500, "failed", "Something went wrong here; nothing was recorded.")


_PROBLEMS: tuple[tuple[type[Exception], Problem], ...] = (
    (Unavailable, BUSY),
    (Crowded, BUSY),
    (TooLong, TOO_LONG),
    (NotEnoughItems, FEW_ITEMS),
    (StoreError, NO_STORE),
    (Frozen, FROZEN),
    (Fenced, BUSY),
    (Ended, HAS_ENDED),
    (InUse, IN_USE),
    (LastAdmin, LAST_ADMIN),
)


def problem_of(error: Exception) -> Problem:
    """The answer to an error, without the error's own text, which may quote the request."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
        return MISSING.get(str(error.args[0]) if error.args else "", NOT_FOUND)
    for kind, problem in _PROBLEMS:
        if isinstance(error, kind):
            return problem
    logger.error("a request failed", exc_info=error)
    return FAILED


def refusal(problem: Problem) -> Response:
    headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    return Response(problem.body(), problem.status, headers, "application/problem+json")


def over_budget(refused: BudgetExceeded) -> Problem:
    """The refusal with what was spent, asked for and allowed, all of which is public."""
    shown = refused.preview
    detail = (
        f"Of epsilon {at_most(shown.limit)} of this period {at_most(shown.spent, 3)} is spent or reserved."
        " What has released something stays charged until the period is over, also if it has ended."
    )
    return OVER_BUDGET.with_(
        detail=detail, spent=shown.spent, after=shown.after, limit=shown.limit, delta=shown.delta
    )


# --- bodies of requests ---------------------------------------------------------------------------------


Person = Annotated[str, Meta(max_length=1024)]
Event = Annotated[str, Meta(min_length=1, max_length=256, pattern="^[^/]*$")]


class DecisionRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Who decisions are for, how many, in which segment, and which items to exclude (public facts only).

    ``people`` asks for a decision for each of them. ``event`` is an id chosen by the application: a request
    that repeats it gets the same decision, and the outcome can be reported under it. ``history`` is for
    personal sets: the person's items so far. It is used for the answer, and is in no table and no log.
    """

    person: Person | None = None
    people: Annotated[list[Person], Meta(min_length=1, max_length=MANY)] | None = None
    count: Annotated[int, Meta(ge=1, le=MANY)] = 1
    exclude: Annotated[list[str], Meta(max_length=MANY)] = []
    segment: str | None = None
    event: Event | None = None
    history: list[str] | None = None  # of any length: refusals are counted


class OutcomeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of a decision: one of the first three. ``served`` is for personal sets, with likes."""

    taken: str | msgspec.UnsetType | None = msgspec.UNSET
    value: float | msgspec.UnsetType = msgspec.UNSET
    likes: list[str] | msgspec.UnsetType = msgspec.UNSET
    served: bool | msgspec.UnsetType = msgspec.UNSET


class OutcomeOf(OutcomeRequest, forbid_unknown_fields=True, kw_only=True):
    """An outcome that names its decision."""

    decision_id: str


class NewPopulation(PopulationConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A population to create."""

    name: str


class NewExperiment(ExperimentConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment to create, about the people of a population."""

    name: str
    population: str


class Changes(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a catalogue: public facts."""

    add_items: Annotated[list[Label], Meta(max_length=100_000)] = []
    retire_items: Annotated[list[Label], Meta(max_length=100_000)] = []


class NewKey(msgspec.Struct, forbid_unknown_fields=True):
    """An API key to create; ``experiments`` limits it to these, and it ends after ``days`` days."""

    name: ShortText
    role: Literal["app", "analyst", "operator", "admin"]
    experiments: Annotated[list[ShortText], Meta(max_length=MANY)] | None = None
    days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class Rotation(msgspec.Struct, forbid_unknown_fields=True):
    """A new key for an old one, which is still accepted for ``grace`` seconds."""

    grace: Annotated[float, Meta(ge=0, le=604800)] = 0.0


class TokenRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Whose browser the token is for, and for how long."""

    person: Person | None = None
    seconds: Annotated[int, Meta(ge=10, le=3600)] = 900


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """Where to send releases: an https URL with a public address."""

    url: Annotated[str, Meta(max_length=1000)]


class Erasure(msgspec.Struct, forbid_unknown_fields=True):
    """People to erase, by the names that decisions use."""

    people: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MANY)]


class PlanRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The sizes, budget and settings to forecast for."""

    items: Annotated[int, Meta(ge=1, le=100_000)]
    k: Annotated[int, Meta(ge=1, le=1000)]
    people: Annotated[int, Meta(ge=1, le=10**9)]
    epsilon: Epsilon
    delta: Annotated[float, Meta(ge=0, le=0.1)] = 0.0
    feedback: Feedback = "full"
    goal: Literal["expected", "certified"] = "expected"
    constraint: ConstraintConfig | None = None
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    measure: Annotated[float, Meta(ge=0, le=0.9)] = 0.3
    holdout: Annotated[float, Meta(ge=0, le=0.5)] = 0.2


class Operation(NamedTuple):
    """A route: its method, the action that a key must be allowed, its body and its answer."""

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
        """The least role that is allowed to use it; "" if no key is needed."""
        return next((role for role, allowed in ROLES.items() if self.action in allowed), "")


_ONE = "/v1/experiments/{name}"
_DECISION = {
    "decision_id": "IAAAAAEAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAA…",
    "items": ["red", "blue"],
    "policy": "3fa9c2d417e0b6aa",
    "expires": "2026-11-16T10:30:00Z",
    "propensity": None,
}
_EPOCH = {"epoch": 0, "releases": 12, "first_release": 1793491200.0, "last_release": 1793494800.0}
_SHARE = {"value": 0.42, "low": 0.39, "high": 0.45, "known": True}
_POINT = {
    "at": 1793494800.0,
    "epoch": 0,
    "decisions": [8000, 2000],
    "learned": _SHARE,
    "control": _SHARE | {"value": 0.31, "low": 0.27, "high": 0.35},
    "lift": _SHARE | {"value": 0.11, "low": 0.06, "high": 0.16},
}
_NEW = {
    "name": "shop",
    "population": "visitors",
    "items": ["red", "green", "blue", "black"],
    "k": 2,
    "feedback": "slots",
    "outcome_wait": 600,
    "holdout": 0.2,
    "segments": ["de", "fr"],
}
Work = Callable[[Request], Awaitable[Any]]
Endpoint = Callable[[Request], Awaitable[Response]]
# Routes of every visit come first: they are tried in this order.
OPERATIONS = (
    Operation("POST", "/v1/decisions/{decision}/outcome", "outcome", "decide", "What came of a decision",
              OutcomeRequest, {"taken": "blue"}, {"status": "recorded", "counted": True}),
    Operation("POST", f"{_ONE}/decisions", "decide", "decide",
              "A set of items for a visitor; sent again with its Idempotency-Key, the same one",
              DecisionRequest, {"person": "user 17", "segment": "de", "exclude": ["black"]}, _DECISION),
    Operation("POST", "/v1/outcomes", "outcomes", "decide", "What came of many decisions", list[OutcomeOf],
              [{"decision_id": "IAAAAAE…", "taken": None}], [{"status": "recorded", "counted": True}]),
    Operation("POST", f"{_ONE}/events/{{event}}/outcome", "event_outcome", "decide",
              "What came of the decision of an event", OutcomeRequest, {"taken": "blue"},
              {"status": "recorded", "counted": True}),
    Operation("POST", f"{_ONE}/tokens", "token", "decide",
              "A token for the browser of one person: their decisions and outcomes, for up to an hour",
              TokenRequest, {"person": "user 17", "seconds": 900},
              {"token": "dt_…", "expires": "2026-11-16T10:30:00Z"}, 201),
    Operation("GET", f"{_ONE}/model", "model", "decide",
              "The latest model of personal sets, which is public, for personal.js; with an ETag",
              None, None, {"format": "discreet-item-model", "version": 1, "policy": "3fa9c2d417e0b6aa"}),
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
              "What was released, newest first (?segment=NAME for one segment, ?format=csv)"),
    Operation("GET", f"{_ONE}/shares", "shares", "read",
              "People served and lift, with anytime-valid 95 % intervals (?segment=NAME)",
              None, None, {"points": [_POINT]}),
    Operation("GET", f"{_ONE}/epochs", "epochs", "read", "Its epochs, newest first: one a period",
              None, None, {"epochs": [_EPOCH | {"period": "2026-11"}]}),
    Operation("GET", f"{_ONE}/items", "items", "read", "The catalogue"),
    Operation("POST", f"{_ONE}/pause", "pause", "operate",
              "Serve no more decisions for now; no later period is charged"),
    Operation("POST", f"{_ONE}/resume", "resume", "operate", "Go on; a period that has begun is charged"),
    Operation("POST", f"{_ONE}/end", "end", "operate",
              "End it for good; its share is free in the next period, or at once if nothing was released",
              None, None, {"name": "shop", "status": "ended", "given_back": True}),
    Operation("DELETE", _ONE, "delete", "operate", "Delete an experiment that has served no decision",
              None, None, {"status": "deleted"}),
    Operation("GET", f"{_ONE}/webhooks", "list_webhooks", "operate", "Where releases are sent"),
    Operation("POST", f"{_ONE}/webhooks", "new_webhook", "operate",
              "Send every release to this address, signed; the secret is shown this once", NewWebhook,
              {"url": "https://example.com/releases"}, {"id": "0c1d2e3f4a5b", "secret": "…"}, 201),
    Operation("DELETE", f"{_ONE}/webhooks/{{webhook}}", "end_webhook", "operate",
              "Send no more releases there", None, None, {"status": "deleted"}),
    Operation("GET", "/v1/populations", "populations", "read", "All populations, with their budgets"),
    Operation("POST", "/v1/populations", "new_population", "operate", "People with one budget per period",
              NewPopulation,
              {"name": "visitors", "epsilon": 1.0, "max_rounds_per_person": 1, "period": "month"},
              {"name": "visitors"}, 201),
    Operation("DELETE", "/v1/populations/{population}", "delete_population", "operate",
              "Delete a population that has had no experiment", None, None, {"status": "deleted"}),
    Operation("GET", "/v1/populations/{population}/account", "account", "read",
              "What was spent about these people (?format=csv, or html: a document to hand over)"),
    Operation("GET", "/v1/populations/{population}/ledger", "ledger", "read",
              "Every charge to their budget, newest first"),
    Operation("POST", "/v1/populations/{population}/erase", "erase", "erase",
              "Forget what waits to be learned about people, who are named in the body only", Erasure,
              {"people": ["user 17"]}, {"status": "erased"}),
    Operation("POST", "/v1/plan", "plan", "read", "What to expect before anything is spent", PlanRequest,
              {"items": 200, "k": 5, "people": 10000, "epsilon": 1.0, "feedback": "slots"}),
    Operation("GET", "/v1/audit", "audit_log", "administer",
              "Who changed what, newest first (?before=NUMBER, ?limit=, ?format=csv)"),
    Operation("GET", "/v1/keys", "list_keys", "administer", "API keys, without their secrets"),
    Operation("POST", "/v1/keys", "new_key", "administer", "A new API key, shown this once", NewKey,
              {"name": "shop front", "role": "app", "experiments": ["shop"], "days": 365},
              {"id": "0c1d2e3f4a5b", "key": "dk_…"}, 201),
    Operation("POST", "/v1/keys/{key}/rotate", "rotate_key", "administer",
              "A new API key in the place of another, shown this once", Rotation, {"grace": 3600},
              {"id": "0c1d2e3f4a5b", "key": "dk_…"}, 201),
    Operation("DELETE", "/v1/keys/{key}", "end_key", "administer", "End an API key; not the last admin's"),
)  # fmt: skip

_BROWSER = BROWSER.encode()
_OUTCOMES = ("outcome", "outcomes", "event_outcome", "reward", "activate")
_decisions = msgspec.json.Decoder(DecisionRequest)
_outcome = msgspec.json.Decoder(OutcomeRequest)
_outcome_of = msgspec.json.Decoder(OutcomeOf)
_parts = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


class Api:
    """The JSON routes over an engine."""

    def __init__(self, engine: DecisionEngine, keys: Keys) -> None:
        self.engine, self.keys = engine, keys
        self.side_process = SideProcess()

    def routes(self) -> list[Route]:
        """All routes, for Starlette."""
        return [
            Route(one.path, self.endpoint(one, self._checked(one), refusal), methods=[one.method])
            for one in OPERATIONS
        ]

    def endpoint(self, one: Operation, work: Work, to_response: Callable[[Problem], Response]) -> Endpoint:
        """A route's function: it awaits ``work``, and answers with the result, or with the problem.

        A result that is not a response or bytes is encoded as JSON; ``to_response`` converts a problem.
        """

        async def respond(request: Request) -> Response:
            try:
                found = await work(request)
                if isinstance(found, Response):
                    answer = found
                else:
                    content = found if isinstance(found, bytes) else _encode(found)
                    answer = Response(content, one.status, media_type="application/json" if content else None)
            except Exception as error:
                answer = to_response(problem_of(error))
            return answer

        return respond

    def _checked(self, one: Operation) -> Work:
        """The handler, behind a check of the key: of its role, its rate and the experiment of the path.

        The experiment of an outcome follows from its decision only, so the handler checks that.
        """
        handler: Work = getattr(self, one.handler)
        decides = one.action == "decide"

        async def work(request: Request) -> Any:
            outcome = one.handler in _OUTCOMES
            key = self.key_of(token_of(request.scope["headers"]), one.action, outcome=outcome)
            request.scope["key"] = key
            if not outcome:
                self.keys.used(key)
            check_nul(request)
            name = request.path_params.get("name")
            if (name is not None or not decides) and not key.may(one.action, name):
                raise ELSEWHERE.with_()
            if one.method == "GET" or decides:
                return await handler(request)
            found = await handler(Request(request.scope, self._while_valid(request.receive, key)))
            await run_in_threadpool(self.audit, key.id, request)
            return found

        return work

    def _while_valid(self, receive: Receive, key: Key) -> Receive:
        """What a request receives; refused if its key has ended before it has arrived as a whole."""

        async def received() -> MutableMapping[str, Any]:
            message = await receive()
            if self.keys.of(key.id) is None:
                raise NO_KEY.with_()
            return message

        return received

    def key_of(
        self, token: bytes | None, action: str, missing: Problem = NO_KEY, *, outcome: bool = False
    ) -> Key:
        """The key of a request, with its role and rate checked; the caller checks its experiments."""
        if token is not None and token.startswith(_BROWSER):
            key = self.keys.bound(self.engine.secrets.read_token(token.decode("latin-1")))
        else:
            key = None if token is None else self.keys.find(token)
        if key is None:
            known = {"detail": "The one that was sent is not known here, or it has ended."}
            raise missing.with_(**({} if token is None else known))
        if action not in ROLES[key.role]:
            able = " or ".join(role for role, actions in ROLES.items() if action in actions)
            raise WRONG_ROLE.with_(detail=f"Its role is {key.role}; this takes {able}.")
        if not self.keys.within_rate(key, outcome=outcome):
            raise RATE.with_()
        return key

    def audit(self, key: str, request: Request) -> None:
        """Log who did what to which experiment, population or key: no path names a person."""
        made = request.scope.get("made")  # a new object, which the path does not name
        action = f"{request.method} {request.url.path}" + (f": {made}" if made else "")
        with self.engine.store.transaction() as tx:
            audit(tx, action, key)

    # --- decisions and outcomes ------------------------------------------------------------------

    async def decide(self, request: Request) -> bytes:
        """Make decisions. A request that is repeated with its idempotency key gets the same answer."""
        name, engine = request.path_params["name"], self.engine
        raw = await body(request.receive, LARGEST * 16)
        asked = decoded(raw, _decisions) if raw else DecisionRequest()
        key = header(request.scope["headers"], b"idempotency-key")
        if key is not None and not (1 <= len(key) <= 256 and key.isascii() and key.isprintable()):
            raise KEY.with_()
        whom = [asked.person] * asked.count if asked.people is None else asked.people
        if asked.people is not None and (asked.person is not None or asked.count > 1):
            raise BAD_BODY.with_(at="$.people", detail="Give people, or person with count.")
        live = await engine.live(name)
        personal = live.config.personal
        if asked.history is not None and (not personal or len(whom) > 1):
            raise BAD_BODY.with_(at="$.history", detail="It is one person's, for learner PersonalSelector.")
        bound = check_bound(live, request.scope["key"])
        if bound is not None:
            if asked.event is not None or whom != [None]:
                raise BAD_BODY.with_(at="$", detail="A token is for one person, which it names by itself.")
            check_runs(live)
        else:
            for person in dict.fromkeys(whom):
                check_decides(live, person)
        if asked.event is not None and (len(whom) > 1 or key is not None or live.config.sticky):
            detail = "It is for one decision, without Idempotency-Key, of an experiment without sticky sets."
            raise BAD_BODY.with_(at="$.event", detail=detail)
        if asked.segment is not None or live.segments:
            part = live.segments.get(asked.segment or "")
            if part is None:
                known = f"It has {', '.join(live.segments)}." if live.segments else "It has none."
                raise SEGMENT.with_(at="$.segment", detail=known)
            live = part
        made: list[bytes] = []
        kept: list[tuple[bytes, asyncio.Future[KeptRequest]]] = []
        spare: list[int] = []
        for number, person in enumerate(whom):
            pseudonym = engine.pseudonym(live, person) if bound is None else bound.pseudonym
            if live.config.sticky or bound is not None:  # the same with an API key and with a token
                person = None if pseudonym == NOBODY else pseudonym.hex()
            answer, altered, spare = await self._made(live, pseudonym, asked.exclude)
            made.append(answer)
            known_by, stays = _known_by(live, asked, key, number, person)
            if known_by is not None:
                request_id = engine.secrets.request(live.id, known_by)
                kept.append((pseudonym, engine.keep(request_id, altered, answer.decode(), stays=stays)))
        if kept:  # all of them, or none
            found = [(pseudonym, await one) for pseudonym, one in kept]
            if any(one.epoch == live.epoch and pseudonym != one.pseudonym for pseudonym, one in found):
                raise OTHERS_EVENT.with_()
            made = [one.answer.encode() for _, one in found]
        if personal:  # after everything was recorded: a person's own set is not
            made = [live.own_set(one, spare, asked.history or (), asked.exclude) for one in made]
        one_alone = asked.people is None and asked.count == 1
        return made[0] if one_alone else b'{"decisions":[' + b",".join(made) + b"]}"

    async def _made(self, live: Live, pseudonym: bytes, exclude: list[str]) -> tuple[bytes, bool, list[int]]:
        """The next decision, whether it shows other items than were allocated, and the spare items.

        With personal sets, the set is the one for everybody: `Live.own_set` replaces it by the person's own.
        """
        block, offset = await self.engine.next_decision(live, pseudonym)
        altered, propensity = False, b"null"
        if exclude and not live.config.personal:  # which changes propensities, even if nothing is replaced
            try:
                labels, altered = live.without(block, offset, set(exclude))
            except NotEnoughItems:
                self.engine.take_back()
                raise
            items = _encode(labels)
        else:
            items, propensity = live.items(block, offset)
        signed = self.engine.secrets.sign(decision_of(block, offset, pseudonym, altered))
        own = b',"personal":%b' % _encode(offset not in block.baseline) if live.config.personal else b""
        answer = b'{"decision_id":"%b","items":%b,"policy":"%b","expires":"%b","propensity":%b%b}' % (
            signed.encode(),
            items,
            block.chain[:8].hex().encode(),
            expiry(live.config.outcome_wait),
            propensity,
            own,
        )
        return answer, altered, block.spare

    async def model(self, request: Request) -> Response:
        """The public model, for devices that compute sets themselves; 304 for clients that have it."""
        live = await self.engine.live(request.path_params["name"])
        check_bound(live, request.scope["key"])
        if not live.config.personal:
            raise NOT_PERSONAL.with_()
        found = live.model
        if found is None:
            raise NO_MODEL.with_()
        told = {**HEADERS, "etag": f'"{found.policy}"', "cache-control": "private, no-cache"}
        asked = request.headers.get("if-none-match", "").split(",")
        if any(one.strip().removeprefix("W/") in (told["etag"], "*") for one in asked):
            return Response(None, 304, told)
        return Response(await run_in_threadpool(lambda: found.exported), 200, told, "application/json")

    async def token(self, request: Request) -> Any:
        """Issue a token for a browser; refused to a client that itself uses such a token."""
        key = request.scope["key"]
        if key.bound is not None:
            raise WRONG_ROLE.with_()
        asked = await read(request, TokenRequest)
        live = await self.engine.live(request.path_params["name"])
        check_decides(live, asked.person)
        until = int(time.time()) + asked.seconds
        made = BrowserToken(key.id, live.id, live.epoch, self.engine.pseudonym(live, asked.person), until)
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
        return {"token": self.engine.secrets.token(made), "expires": expires}

    async def outcome(self, request: Request) -> bytes:
        asked = decoded(await body(request.receive), _outcome)
        written = await self._record(request.path_params["decision"], asked, request.scope["key"])
        return acknowledged(*await written)

    async def event_outcome(self, request: Request) -> bytes:
        """Record the outcome of an event; "late" if the event is not known, or not any more."""
        if request.scope["key"].bound is not None:
            raise WRONG_ROLE.with_()
        asked = decoded(await body(request.receive), _outcome)
        live = await self.engine.live(request.path_params["name"], reporting=True)
        decision = await self.decision_of_event(live, self.event_number(live, request.path_params["event"]))
        if decision is None:
            return acknowledged(groups.LATE, False)
        reported = outcome_body(live, decision, asked, added=await self._added(live, decision, asked))
        return acknowledged(*await self.engine.record(decision, reported))

    def event_number(self, live: Live, event: str) -> bytes:
        """The id of an event's request: a keyed hash."""
        return self.engine.secrets.request(live.id, _encode(["event", event]))

    async def decision_of_event(self, live: Live, number: bytes) -> DecisionId | None:
        """The decision of an event; None if the event is not known, or not any more."""
        found = await run_in_threadpool(groups.request, self.engine.store, live.id, number)
        if found is None:
            return None
        return DecisionId(live.id, found.epoch, found.sequence, found.pseudonym, found.altered)

    async def _added(self, live: Live, decision: DecisionId, asked: OutcomeRequest) -> bool:
        """Whether the taken item was added by another process and is not known in this one yet."""
        if not isinstance(asked.taken, str) or asked.taken in live.known or decision.epoch != live.epoch:
            return False
        return await self.engine.was_added(live, asked.taken)

    async def outcomes(self, request: Request) -> bytes:
        """Record many outcomes, in one group or a few; one answer each. A long one is refused by itself."""
        most = LARGEST * (16 if request.scope["key"].bound else MANY)
        raw = await body(request.receive, most)
        parts = await run_in_threadpool(parts_of, raw) if len(raw) > LARGEST * 16 else parts_of(raw)
        if len(parts) > MANY:
            raise TOO_LARGE.with_()
        waiting: list[asyncio.Future[Acknowledged] | Problem] = []
        for part in parts:
            try:
                if len(part) > LARGEST * 16:
                    raise TOO_LARGE.with_()
                asked = decoded(part, _outcome_of)
                waiting.append(await self._record(asked.decision_id, asked, request.scope["key"]))
            except Problem as refused:
                waiting.append(refused)
        answers = [
            _encode({"status": "refused", "counted": False, "type": one.name, "title": one.title} | one.more)
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
            raise NOT_SIGNED.with_()
        try:
            live = await self.engine.live_of(decision)
        except LookupError:
            await self.engine.unknown(decision)
            raise NOT_SIGNED.with_() from None
        if key.experiments is not None and live.name not in key.experiments:
            raise ELSEWHERE.with_()
        bound = key.bound
        if bound is not None and (bound.experiment, bound.pseudonym) != (live.id, decision.pseudonym):
            raise WRONG_ROLE.with_()
        added = await self._added(live, decision, asked)
        return self.engine.record(decision, outcome_body(live, decision, asked, added=added))

    # --- populations and experiments -------------------------------------------------------------

    async def ask(self, query: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Run one of `queries` in a thread."""
        return await run_in_threadpool(query, self.engine.store, *given, **more)

    async def populations(self, request: Request) -> Any:  # noqa: ARG002
        return {"populations": await self.ask(queries.populations)}

    async def new_population(self, request: Request) -> Any:
        asked = await read(request, NewPopulation)
        check_name(asked.name)
        fields = {name: getattr(asked, name) for name in PopulationConfig.__struct_fields__}
        await self._make(self.engine.worker.create_population, asked.name, PopulationConfig(**fields))
        request.scope["made"] = f"population {asked.name}"
        return {"name": asked.name}

    async def account(self, request: Request) -> Any:
        population = request.path_params.get("population")
        if population is None:
            population = (await self.ask(queries.status, request.path_params["name"]))["population"]
        return await self.told_account(population, request.query_params.get("format"))

    async def told_account(self, population: str, form: str | None) -> Any:
        """An account, as JSON, as a table or as a document."""
        if form == "html":
            return page_of(await self.ask(queries.document, population))
        found = await self.ask(queries.account, population)
        if form is None:
            return found
        return exported(form, found, queries.account_table, f"account-{population}")

    async def ledger(self, request: Request) -> Any:
        return {"charges": await self.ask(queries.ledger, request.path_params["population"])}

    async def audit_log(self, request: Request) -> Any:
        found = await self.ask(queries.audit, **paged(request))
        form = request.query_params.get("format")
        return {"audit": found} if form is None else exported(form, found, rows_table, "audit")

    async def experiments(self, request: Request) -> Any:  # noqa: ARG002
        return {"experiments": await self.ask(queries.experiments)}

    async def new_experiment(self, request: Request) -> Any:
        asked = await read(request, NewExperiment)
        check_name(asked.name)
        fields = {name: getattr(asked, name) for name in ExperimentConfig.__struct_fields__}
        await self._make(self.engine.worker.create, asked.name, asked.population, ExperimentConfig(**fields))
        await self.engine.refresh(asked.name)
        request.scope["made"] = f"experiment {asked.name}"
        return {"name": asked.name}

    async def _make(self, make: Callable[..., Any], *given: Any) -> Any:
        """Do what an operator asks for. Refusals quote that and public facts, and nobody's data."""
        try:
            return await run_in_threadpool(make, *given)
        except BudgetExceeded as refused:
            raise over_budget(refused) from None
        except ShareUnavailable as refused:
            detail = "Other experiments about these people have reserved the rest of every period."
            raise OVER_BUDGET.with_(at="$.share", detail=detail, largest_share=refused.left) from None
        except Conflict:
            raise EXISTS.with_() from None
        except OtherSegments:
            raise OTHER_SEGMENTS.with_() from None
        except LookupError as missing:
            if missing.args == ("population",):
                raise MISSING["population"].with_(at="$.population") from None
            raise
        except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
            at = f"$.{error.field}" if isinstance(error, InvalidField) else "$"
            raise BAD_BODY.with_(at=at, detail=str(error)) from None

    async def status(self, request: Request) -> Any:
        """The status, what is waited for, and when the first numbers come, as on the page."""
        found = await self.ask(queries.status, request.path_params["name"])
        live = await self.engine.live(found["name"])
        plan = await run_in_threadpool(release_plan, live.config, live.people)
        first = first_release(live.config, plan)
        return found | {
            "waits_for": queries.waits_for(found, first),
            "first_numbers_after": first,
            "release_plan": plan,
        }

    async def releases(self, request: Request) -> Any:
        name, asked = request.path_params["name"], request.query_params
        found = await self.ask(queries.releases, name, segment=asked.get("segment"), **paged(request))
        form = asked.get("format")
        if form is None:
            return {"releases": found}
        return exported(form, found, queries.releases_table, f"releases-{name}")

    async def shares(self, request: Request) -> Any:
        name, segment = request.path_params["name"], request.query_params.get("segment")
        status = await self.status(request)
        progress = Progress(status["config"]["holdout"])
        progress.add(await self.ask(queries.shares, name, 0, segment))
        found = await run_in_threadpool(lambda: [one.to_json() for one in progress.thinned(12)])
        return {"points": found}

    async def epochs(self, request: Request) -> Any:
        return {"epochs": await self.ask(queries.epochs, request.path_params["name"])}

    async def items(self, request: Request) -> Any:
        return {"items": await self.ask(queries.items, request.path_params["name"])}

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
        live = await self.engine.live(name)
        await self._make(self.engine.worker.set_status, live.id, status)
        await self.engine.refresh(live.name)
        return {"name": live.name, "status": status}

    async def end(self, request: Request) -> Any:
        return await self.end_experiment(request.path_params["name"])

    async def end_experiment(self, name: str) -> Any:
        live = await self.engine.live(name)
        status, given_back = await self._make(self.engine.worker.end, live.id)
        await self.engine.refresh(live.name)
        return {"name": live.name, "status": status, "given_back": given_back}

    async def delete(self, request: Request) -> Any:
        return await self.delete_experiment(request.path_params["name"])

    async def delete_experiment(self, name: str) -> Any:
        live = await self.engine.live(name)
        await self._make(self.engine.worker.delete, live.id)
        self.engine.forget(live)
        return {"status": "deleted"}

    async def delete_population(self, request: Request) -> Any:
        await self._make(self.engine.worker.delete_population, request.path_params["population"])
        return {"status": "deleted"}

    async def plan(self, request: Request) -> Any:
        try:
            return await self.side_process.do(forecast, await read(request, PlanRequest))
        except ValueError as error:
            raise BAD_BODY.with_(at="$", detail=str(error)) from None

    # --- people and keys -------------------------------------------------------------------------

    async def erase(self, request: Request) -> Any:
        await self.forget(request.path_params["population"], *(await read(request, Erasure)).people)
        return {"status": "erased"}

    async def forget(self, population: str, *people: str) -> None:
        """Erase people, whose names are not stored."""
        whose = [partial(self.engine.secrets.pseudonym, person=person) for person in people]
        await run_in_threadpool(self.engine.worker.erase, population, *whose)

    # --- webhooks --------------------------------------------------------------------------------

    async def list_webhooks(self, request: Request) -> Any:
        return {"webhooks": await self.ask(webhooks.listed, request.path_params["name"])}

    async def new_webhook(self, request: Request) -> Any:
        asked = await read(request, NewWebhook)
        try:
            webhooks.check(asked.url)
        except ValueError as error:  # about the address alone
            raise BAD_BODY.with_(at="$.url", detail=str(error)) from None
        number = await self.ask(webhooks.create, request.path_params["name"], asked.url)
        request.scope["made"] = f"webhook {number}"
        return {"id": number, "secret": self.engine.secrets.webhook(number)}

    async def end_webhook(self, request: Request) -> Any:
        asked = request.path_params
        if not await self.ask(webhooks.delete, asked["name"], asked["webhook"]):
            raise NOT_FOUND.with_()
        return {"status": "deleted"}

    async def list_keys(self, request: Request) -> Any:  # noqa: ARG002
        return {"keys": await run_in_threadpool(self.keys.listed)}

    async def new_key(self, request: Request) -> Any:
        asked = await read(request, NewKey)
        make = partial(self.keys.create, asked.name, asked.role, asked.experiments, days=asked.days)
        number, token = await run_in_threadpool(make)
        request.scope["made"] = f"key {number}"
        return {"id": number, "key": token}

    async def rotate_key(self, request: Request) -> Any:
        asked = await read(request, Rotation)
        number, token = await run_in_threadpool(self.keys.rotate, request.path_params["key"], asked.grace)
        request.scope["made"] = f"key {number}"
        return {"id": number, "key": token}

    async def end_key(self, request: Request) -> Any:
        await run_in_threadpool(self.keys.revoke, request.path_params["key"])
        return {"status": "revoked"}


# --- checks and parsing of requests ----------------------------------------------------------------------


def check_nul(request: Request) -> None:
    """Refuse a NUL, which no name has and PostgreSQL does not store."""
    if b"%00" in request.scope["query_string"] or "\0" in request.scope["path"]:
        raise NUL.with_()


def check_bound(live: Live, key: Key) -> BrowserToken | None:
    """The browser token, if it is of this experiment and epoch, else refused; None for an ordinary key."""
    bound = key.bound
    if bound is not None and (bound.experiment, bound.epoch) != (live.id, live.epoch):
        raise TOKEN.with_()
    return bound


def check_runs(live: Live) -> None:
    if live.status != RUNNING:
        raise NOT_RUNNING.with_(detail=queries.STANDS.get(live.status, ""))


def check_decides(live: Live, person: str | None) -> None:
    """Refuse decisions of an experiment that does not run, or without a person where one is required."""
    check_runs(live)
    if (person is None or name_of(person) is None) and not live.people.anonymous:
        raise PERSON.with_()


def _known_by(
    live: Live, asked: DecisionRequest, key: str | None, number: int, person: str | None
) -> tuple[bytes | None, float]:
    """What identifies a repeated request for a decision, or None; and for how much longer it is kept.

    With sticky sets that is the person and the interval of ``sticky`` seconds, counted from midnight of
    1 January 1970: a person who asks again within it gets the same decision, which counts once.
    """
    sticky = live.config.sticky
    if sticky and person is not None:
        nth = number if asked.people is None else 0
        stretch = [live.epoch, live.catalogue, int(time.time() // sticky), nth]
        known = ["sticky", person, asked.segment, sorted(live.known.intersection(asked.exclude)), *stretch]
        return _encode(known), max(0.0, sticky - groups.KEEP)
    if asked.event is not None:
        return _encode(["event", asked.event]), 0.0
    if key is None:
        return None, 0.0
    return _encode(["decision", key, number, person, asked.segment, sorted(set(asked.exclude))]), 0.0


_TAKES = {
    "slots": 'Send {"taken": LABEL} with a shown item of the catalogue, or {"taken": null}.',
    "bandit": 'Send {"value": NUMBER}, from 0 to the bound of the experiment.',
    "full": 'Send {"likes": [LABEL, ...]}, of at most 1,000 items.',
    "personal": (
        'Send {"likes": [LABEL, ...], "served": true or false}: all that the person had and took, of at most'
        " 1,000 items, and whether any of the shown items was taken. What was shown is kept nowhere, so that"
        " taken and value cannot be learned from."
    ),
}


def outcome_body(live: Live, decision: DecisionId, asked: OutcomeRequest, *, added: bool = False) -> bytes:
    """The stored form of an outcome; refused if the experiment learns from something else.

    ``added``: the taken item is in the catalogue, though this process does not know it yet.
    """
    unset = msgspec.UNSET
    kind = live.config.feedback
    key = OUTCOMES[kind]
    found = getattr(asked, key)
    given = (asked.taken is not unset) + (asked.value is not unset) + (asked.likes is not unset)
    personal = live.config.personal
    takes = _TAKES["personal" if personal else kind]
    wrong = given != 1 or found is unset or (asked.served is unset) == personal
    if not wrong and kind == "bandit":
        wrong = not 0.0 <= found <= live.config.bound
    if not wrong and kind == "full" and len(found) > MANY:
        raise TOO_LARGE.with_(at="$.likes", detail=takes)
    if not wrong and kind == "slots" and decision.epoch == live.epoch:  # of others, labels may be gone
        wrong = not (found is None or found in live.known or added)
    if wrong:
        raise WRONG_OUTCOME.with_(at=f"$.{key}", detail=takes)
    return _encode({"likes": found, "served": asked.served} if personal else found)


@cache
def acknowledged(status: str, counted: bool) -> bytes:
    return _encode({"status": status, "counted": counted})


def token_of(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return token.strip()
    return None


def header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """The first header of this name."""
    for name, value in headers:
        if name == wanted:
            return value.decode("latin-1")
    return None


async def body(receive: Receive, most: int = LARGEST) -> bytes:
    """The whole body of a request, if it is not too large."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message.get("type") == "http.disconnect":  # before the body: nothing is decided
            raise BAD_BODY.with_()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > most:
            raise TOO_LARGE.with_()
    return b"".join(parts)


def decoded(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """A decoded body; refused with the place of its first error."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise BAD_BODY.with_(**_where(str(error), decoder.type)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # the last: deeply nested brackets
        raise BAD_BODY.with_(at="$", detail="It is not JSON.") from None


def parts_of(raw: bytes) -> list[Any]:
    """The parts of a list, each decoded by itself: an invalid outcome does not invalidate the others."""
    with suppress(msgspec.DecodeError, RecursionError):
        return list(_parts.decode(raw))
    raw = raw.strip()
    text = raw.replace(rb"\\", b"__").replace(rb"\"", b"__")  # without quotes that end nothing
    ends, quoted, depth = [0], False, 0
    for start in range(0, len(text), LARGEST):  # a piece at a time: arrays take several times its memory
        piece = np.frombuffer(text[start : start + LARGEST], dtype=np.uint8)
        inside = np.logical_xor.accumulate(piece == ord('"')) ^ quoted
        plain = np.where(inside, ord('"'), piece)  # without what is in quotes
        depths = depth + np.cumsum(_BRACKETS[plain], dtype=np.int32)
        quoted, depth = bool(inside[-1]), int(depths[-1])
        commas = np.flatnonzero((plain == ord(",")) & (depths == 1))[: MANY + 1]
        ends += (start + commas).tolist()
        if not np.all(depths[:-1]) or (depth == 0) != (start + len(piece) == len(text)):
            break  # it ends too early, or not at all
        if len(ends) > MANY:
            raise TOO_LARGE.with_()
    else:
        if text.startswith(b"[") and text.endswith(b"]"):
            return [raw[first + 1 : last] for first, last in pairwise([*ends, len(text) - 1])]
    raise BAD_BODY.with_(at="$", detail="It is not a list, or not JSON.")


_BRACKETS = np.array([(one in b"[{") - (one in b"]}") for one in range(256)], dtype=np.int8)


_expiries: dict[float, tuple[int, bytes]] = {}


def expiry(wait: float) -> bytes:
    """Until when an outcome is accepted, at the least; computed once a second."""
    now = int(time.time())
    found = _expiries.get(wait)
    if found is None or found[0] != now:
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + wait)).encode()
        _expiries[wait] = found = (now, text)
    return found[1]


def forecast(asked: PlanRequest) -> dict[str, Any]:
    from .. import planning  # on demand: the service starts faster without it

    found = planning.plan(
        n_items=asked.items,
        k=asked.k,
        rounds=asked.people,
        budget=Budget(asked.epsilon, asked.delta),
        feedback=asked.feedback,
        stream="stationary",
        goal=asked.goal,
    )
    return {"text": str(found), "lift": minimum_detectable(asked)}


def minimum_detectable(asked: PlanRequest) -> dict[str, Any] | None:
    """The minimum detectable lift, with these and with other settings; None without a hold-out."""
    people = PopulationConfig(
        epsilon=asked.epsilon, delta=asked.delta, definition="gdp" if asked.delta else "pure"
    )
    how = {name: getattr(asked, name) for name in ("k", "feedback", "share", "measure", "holdout")}
    found = detectable_lift(ExperimentConfig(items=["any"], **how), people, asked.people)
    if found is None:
        return None
    rows = [
        {"holdout": held, "measure": part, "visible": lift}
        for held, row in found.rows
        for part, lift in zip(found.measures, row, strict=True)
    ]
    return {"visible": found.smallest, "others": rows}


def paged(request: Request) -> dict[str, Any]:
    """Which part of a list is asked for."""
    asked = request.query_params
    before, limit = asked.get("before"), asked.get("limit", "100")
    if not all(re.fullmatch(r"\d{1,18}", one) for one in (limit, before or "0")):
        raise BAD_BODY.with_(detail="before and limit are whole numbers.")
    return {"before": None if before is None else int(before), "limit": min(int(limit), 1000)}


def exported(form: str, found: Any, table: Callable[[Any], str], name: str) -> Response:
    """The result as a file: "json" or "csv"."""
    if form not in ("json", "csv"):
        raise BAD_BODY.with_(detail="format is one of json and csv; accounts have html, too.")
    text, kind = (table(found), "text/csv") if form == "csv" else (_encode(found), "application/json")
    shown = {"content-disposition": f'attachment; filename="{name}.{form}"'}
    return Response(text, 200, {**HEADERS, **shown}, kind)


def rows_table(found: list[dict[str, Any]]) -> str:
    """Records with the same fields, as CSV."""
    header = list(found[0]) if found else []
    return queries.as_csv(header, [list(one.values()) for one in found])


def page_of(document: str) -> Response:
    """A document whose policy allows its own style sheet, and nothing else."""
    own = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{own}'; frame-ancestors 'none'; base-uri 'none'"
    return Response(document, 200, {**HEADERS, "content-security-policy": policy}, "text/html")


async def read(request: Request, kind: type[Any]) -> Any:
    """The decoded body of a request; refused with the place of its first error."""
    raw = await body(request.receive, 1 << 26 if kind in (NewExperiment, Changes) else LARGEST * 16)
    return decoded(raw or b"{}", msgspec.json.Decoder(kind))


_REGEX = re.compile(r"Expected `str` matching regex .*")


def _where(text: str, kind: Any) -> dict[str, str]:
    """Where a body is wrong and what is allowed there, without repeating any of the body.

    What msgspec expects, and which field is missing, follows from the type alone.
    """
    said, _, at = text.partition(" - at `")
    at = at.rstrip("`") or "$"  # names of fields, and numbers in lists
    schemas, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    top = parts.get(schemas[0].get("$ref", ""), {}).get("properties", {})
    detail = "It is not what is allowed there."
    if _REGEX.fullmatch(said):
        detail = "Expected a text without control characters; an event has no slash either."
    elif said.startswith(("Expected ", "Object missing required field")):
        detail = f"{said}."
    elif said.startswith("Object contains unknown field"):
        detail = "A field is not known." + (f" Known ones: {', '.join(top)}." if at == "$" else "")
    elif said.startswith("Invalid enum value"):
        allowed = top.get(at.removeprefix("$."), {}).get("enum", [])
        detail = f"None of the values: {', '.join(map(str, allowed))}."
    return {"at": at, "detail": detail}


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BAD_BODY.with_(
            at="$.name", detail="A name has up to 64 letters, digits and . _ - and begins with no sign."
        )


# --- the calls of Personalizer -------------------------------------------------------------------------

PREFIX, SCOPED = "/personalizer/v1.0", "/v1/experiments/{name}/personalizer/v1.0"
_SUBSCRIPTION = b"ocp-apim-subscription-key"
NO_SUBSCRIPTION = Problem(401, "no-key", "An API key is needed: Ocp-Apim-Subscription-Key: KEY.")
WHICH = Problem(
    400, "which-experiment", "This API key is not for exactly one experiment: the endpoint has to name it."
)
UNKNOWN_ACTION = Problem(400, "unknown-action", "An action is not in the catalogue of the experiment.")
NO_ACTION = Problem(400, "no-action", "There must be actions, each of them once, that are not excluded.")
NO_VALUES = Problem(409, "feedback", "This experiment does not learn from values.")
STICKY = Problem(409, "sticky", "Events have sets of their own: this experiment has sticky sets.")
BAD_EVENT = Problem(400, "event", "An eventId has 1 to 256 characters, and no slash.")
BAD_VALUE = Problem(400, "value", "A reward is a number from 0 to the experiment's bound.")
OTHERS_EVENT = Problem(409, "other-person", "An event of this id is of another person; take another id.")

_Id = Annotated[str, Meta(max_length=256)]


class Action(msgspec.Struct):
    """An action by its id; its features are not read."""

    id: _Id


class RankRequest(msgspec.Struct, rename="camel"):
    """The actions to rank; context features are not read. ``person`` is an addition: see decisions."""

    actions: Annotated[list[Action], Meta(max_length=MANY)]
    excluded_actions: list[str] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None
    person: Annotated[str, Meta(max_length=1024)] | None = None


class RewardRequest(msgspec.Struct):
    """The value of what was shown."""

    value: float


PERSONALIZER = (
    Operation("POST", f"{SCOPED}/rank", "rank", "decide",
              "Azure Personalizer's verbs: rank actions of the catalogue", RankRequest,
              {"actions": [{"id": "red", "features": [{}]}, {"id": "blue", "features": [{}]}],
               "excludedActions": [], "eventId": "visit 17", "deferActivation": False},
              {"ranking": [{"id": "blue", "probability": 1.0}, {"id": "red", "probability": 0.0}],
               "eventId": "visit 17", "rewardActionId": "blue"}, 201),
    Operation("POST", f"{SCOPED}/events/{{event}}/reward", "reward", "decide",
              "The value of an event, from 0 to bound", RewardRequest, {"value": 1.0}, None, 204),
    Operation("POST", f"{SCOPED}/events/{{event}}/activate", "activate", "decide",
              "An event with deferred activation was seen", None, None, None, 204),
    Operation("GET", f"{SCOPED}/configurations/service", "configuration", "decide",
              "How rewards are waited for"),
)  # fmt: skip
_rank = msgspec.json.Decoder(RankRequest)
_reward = msgspec.json.Decoder(RewardRequest)


class Personalizer:
    """Azure Personalizer's routes over experiments."""

    def __init__(self, api: Api) -> None:
        self._api, self._engine = api, api.engine

    def routes(self) -> list[Route]:
        """Each route twice: at Personalizer's own path, and below an experiment's."""
        return [
            Route(
                one.path.replace(SCOPED, prefix),
                self._api.endpoint(one, self._checked(one), personalizer_refusal),
                methods=[one.method],
            )
            for prefix in (PREFIX, SCOPED)
            for one in PERSONALIZER
        ]

    def _checked(self, one: Operation) -> Work:
        handler: Callable[[Live, Request], Awaitable[Any]] = getattr(self, one.handler)
        outcome = one.handler in _OUTCOMES

        async def work(request: Request) -> Any:
            headers = request.scope["headers"]
            given = next((value.strip() for name, value in headers if name == _SUBSCRIPTION), None)
            key = self._api.key_of(given or token_of(headers), "decide", NO_SUBSCRIPTION, outcome=outcome)
            if not outcome:
                self._api.keys.used(key)
            check_nul(request)
            live = await self._live(request.path_params.get("name"), key, outcome)
            found = await handler(live, request)
            return b"" if found is None else found

        return work

    async def _live(self, name: str | None, key: Key, outcome: bool) -> Live:
        """The experiment that the path names, or the only one of the key."""
        if name is None:
            if key.experiments is None or len(key.experiments) != 1:
                raise WHICH.with_()
            (name,) = key.experiments
        elif not key.may("decide", name):
            raise ELSEWHERE.with_()
        if key.bound is not None:
            raise WRONG_ROLE.with_()
        live = await self._engine.live(name, reporting=outcome)
        if live.config.feedback != "bandit":
            raise NO_VALUES.with_()
        if live.segments:  # these requests cannot name one
            raise SEGMENT.with_()
        if live.config.sticky:
            raise STICKY.with_()
        return live

    async def rank(self, live: Live, request: Request) -> Any:
        """The actions in order: the allocated set first, then the others, ranked by releases."""
        asked = decoded(await body(request.receive, LARGEST * 16), _rank)
        given = [action.id for action in asked.actions]
        excluded = set(asked.excluded_actions or ())
        if len(set(given)) < len(given) or excluded.issuperset(given):
            raise NO_ACTION.with_()
        if not live.known.issuperset(given):
            raise UNKNOWN_ACTION.with_()
        check_decides(live, asked.person)
        event, secrets = asked.event_id, self._engine.secrets
        number = None if event is None else self._number(live, event)
        pseudonym = self._engine.pseudonym(live, asked.person)
        block, offset = await self._engine.next_decision(live, pseudonym)
        order, altered = ranked(live, block, offset, [a for a in given if a not in excluded])
        answer = _response(given, excluded, order)
        if event is None and not asked.defer_activation:  # the signed id is enough
            return _ranked(answer, secrets.sign(decision_of(block, offset, pseudonym, altered)))
        if number is None:
            event = new_token(16)
            number = self._number(live, event)
        active = not asked.defer_activation
        kept = await self._engine.keep(number, altered, _encode(answer).decode(), active=active)
        if kept.epoch == live.epoch and kept.pseudonym != pseudonym:  # an event is of one person
            raise OTHERS_EVENT.with_()
        return _ranked(msgspec.json.decode(kept.answer), event)

    async def reward(self, live: Live, request: Request) -> None:
        """Record the value of an event; the first one counts."""
        asked = decoded(await body(request.receive, LARGEST * 16), _reward)
        if not 0.0 <= asked.value <= live.config.bound:
            raise BAD_VALUE.with_()
        event = request.path_params["event"]
        decision = self._engine.secrets.verify(event)
        if decision is None:
            decision = await self._api.decision_of_event(live, self._number(live, event))
            if decision is None:
                return
        elif decision.experiment != live.id:
            raise NOT_SIGNED.with_()
        await self._engine.record(decision, _encode(asked.value))

    async def activate(self, live: Live, request: Request) -> None:
        """Record that an event with deferred activation was shown."""
        await self._engine.activate(live.id, self._number(live, request.path_params["event"]))

    async def configuration(self, live: Live, request: Request) -> Any:  # noqa: ARG002
        """The settings in Personalizer's format; read only."""
        return {
            "rewardWaitTime": f"PT{live.config.outcome_wait:g}S",
            "defaultReward": 0.0,
            "rewardAggregation": "earliest",
            "explorationPercentage": live.config.holdout,
            "modelExportFrequency": "PT0S",
            "logMirrorEnabled": False,
            "logRetentionDays": 0,
        }

    def _number(self, live: Live, event: str) -> bytes:
        if not 1 <= len(event) <= 256 or "/" in event:
            raise BAD_EVENT.with_()
        return self._api.event_number(live, event)


class _Others:
    """A container of all labels except these."""

    def __init__(self, these: Iterable[str]) -> None:
        self._these = frozenset(these)

    def __contains__(self, label: object) -> bool:
        return label not in self._these


def ranked(live: Live, block: DecisionBlock, offset: int, available: list[str]) -> tuple[list[str], bool]:
    """The available labels in order, and whether the first ones differ from the allocated set.

    The set of the decision comes first, then the best items by releases, then the others as they were given.
    """
    try:
        shown, altered = live.without(block, offset, _Others(available))
    except NotEnoughItems:  # too few available items among the allocated and spare ones
        shown, altered = [], True
    spare = [live.labels[item] for item in block.spare]
    wanted = set(available)
    order = [label for label in dict.fromkeys([*shown, *spare, *available]) if label in wanted]
    return order, altered


def _response(given: list[str], excluded: set[str], order: list[str]) -> dict[str, Any]:
    """The ranking; excluded actions stay where they were given."""
    rest = iter(order)
    ranking = [action if action in excluded else next(rest) for action in given]
    # The set was drawn, and committed, before the request: its probability is 1 by now.
    shown = [{"id": one, "probability": float(one == order[0])} for one in ranking]
    return {"ranking": shown, "rewardActionId": order[0]}


def _ranked(answer: dict[str, Any], event: str | None) -> dict[str, Any]:
    """An answer with its fields in Personalizer's order."""
    return {"ranking": answer["ranking"], "eventId": event, "rewardActionId": answer["rewardActionId"]}


_CODES = {400: "BadRequest", 404: "ResourceNotFound"}


def personalizer_refusal(problem: Problem) -> Response:
    """A refusal in Personalizer's format, with a fixed text."""
    status = 400 if problem.status == 422 else problem.status
    code = "InternalServerError" if status >= 500 else _CODES.get(status, str(status))
    error = {"code": code, "message": problem.title, "innerError": {"code": problem.name}}
    headers = {} if problem.retry_after is None else {"retry-after": str(problem.retry_after)}
    return Response(_encode({"error": error}), status, headers, "application/json")


# --- the description ------------------------------------------------------------------------------------

DOCUMENTED = (
    *OPERATIONS,
    *PERSONALIZER,
    Operation("GET", "/health/live", "", "", "Whether the process lives"),
    Operation("GET", "/health/ready", "", "", "Whether it can serve"),
)


def description() -> dict[str, Any]:
    kinds = [one.takes for one in DOCUMENTED if one.takes is not None]
    schemas, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    refused = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    paths: dict[str, Any] = {}
    for one in DOCUMENTED:
        names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
        done = {"description": "Done", "content": {"application/json": _example(one.answers)}}
        entry: dict[str, Any] = {
            "summary": one.summary,
            "responses": {str(one.status): done, "4XX": {"description": "Refused", "content": refused}},
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ],
        }
        if one.takes is DecisionRequest:
            key = {"type": "string", "minLength": 1, "maxLength": 256}
            entry["parameters"].append({"name": "Idempotency-Key", "in": "header", "schema": key})
        if one.role:
            entry["security"] = [{"key": []}]
            entry["description"] = f"Role: {one.role} or one that may more."
        if one.takes is not None:
            content = {"schema": by_kind[str(one.takes)]} | _example(one.example)
            entry["requestBody"] = {"required": True, "content": {"application/json": content}}
        paths.setdefault(one.path, {})[one.method.lower()] = entry
    texts = ("type", "title", "at", "detail")
    fields = dict.fromkeys(texts, "string") | {"status": "integer"}
    problem = {
        "type": "object",
        "description": "RFC 9457. Texts are fixed: none repeats what was sent.",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "discreet", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**parts, "Problem": problem},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _example(value: Any) -> dict[str, Any]:
    return {} if value is None else {"example": value}
