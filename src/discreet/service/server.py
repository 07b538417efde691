"""The service as one ASGI application, its description (OpenAPI 3.1), and how it is made and started."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import __version__
from ..core.extras import install
from . import problems
from .api import (
    Api,
    Changes,
    DecisionRequest,
    NewExperiment,
    NewKey,
    NewPopulation,
    OutcomeOf,
    OutcomeRequest,
    PlanRequest,
    Receive,
    Scope,
    Send,
    refusal,
)
from .auth import Keys, Secrets
from .config import Settings
from .database import StoreError, open_store
from .engine import Engine
from .metrics import Metrics
from .pages import Pages
from .personalizer import SCOPED, Personalizer, RankRequest, RewardRequest


class Operation(NamedTuple):
    """A route: who may use it, what it takes and what it answers."""

    method: str
    path: str
    summary: str
    role: str
    takes: Any = None
    example: Any = None
    answers: Any = None
    status: int = 200


_SHOP = "/v1/experiments/{name}"
_DECISION = {
    "decision_id": "IAAAAAEAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAA…",
    "items": ["red", "blue"],
    "policy": "3fa9c2d417e0b6aa",
    "expires": "2026-11-16T10:30:00Z",
}
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
OPERATIONS = (
    Operation("POST", f"{_SHOP}/decisions",
              "A set of items for a visitor; sent again with its Idempotency-Key, the same one", "app",
              DecisionRequest, {"person": "user 17", "segment": "de", "exclude": ["black"]}, _DECISION),
    Operation("POST", "/v1/decisions/{decision}/outcome", "What came of a decision", "app",
              OutcomeRequest, {"taken": "blue"}, {"status": "recorded", "counted": True}),
    Operation("POST", "/v1/outcomes", "What came of many decisions", "app", list[OutcomeOf],
              [{"decision_id": "IAAAAAE…", "taken": None}], [{"status": "recorded", "counted": True}]),
    Operation("GET", "/v1/experiments", "All experiments", "analyst"),
    Operation("POST", "/v1/experiments", "A new experiment; it reserves its share of the budget", "operator",
              NewExperiment, _NEW, {"name": "shop"}, 201),
    Operation("GET", _SHOP, "How an experiment stands", "analyst"),
    Operation("PATCH", _SHOP, "Items that come and go: public facts", "operator",
              Changes, {"add_items": ["white"], "retire_items": ["green"]}),
    Operation("GET", f"{_SHOP}/status", "How an experiment stands", "analyst"),
    Operation("GET", f"{_SHOP}/account", "What was spent, by period, and composed over periods", "analyst"),
    Operation("GET", f"{_SHOP}/releases", "What was released, newest first (?segment=NAME for one segment)",
              "analyst"),
    Operation("GET", f"{_SHOP}/epochs", "Its epochs, newest first: one a period", "analyst", None, None,
              {"epochs": [{"epoch": 0, "releases": 12, "first_release": 1793491200.0,
                           "last_release": 1793494800.0, "period": "2026-11"}]}),
    Operation("GET", f"{_SHOP}/items", "The catalogue", "analyst"),
    Operation("POST", f"{_SHOP}/pause", "Serve no more decisions for now", "operator"),
    Operation("POST", f"{_SHOP}/resume", "Go on", "operator"),
    Operation("GET", "/v1/populations", "All populations, with their budgets", "analyst"),
    Operation("POST", "/v1/populations", "People with one budget per period", "operator", NewPopulation,
              {"name": "visitors", "epsilon": 1.0, "max_rounds_per_person": 1, "period": "month"},
              {"name": "visitors"}, 201),
    Operation("GET", "/v1/populations/{population}/account", "What was spent about these people", "analyst"),
    Operation("POST", "/v1/plan", "What to expect before anything is spent", "analyst", PlanRequest,
              {"items": 200, "k": 5, "people": 10000, "epsilon": 1.0, "feedback": "taken"}),
    Operation("DELETE", "/v1/people/{person}", "Forget what waits to be learned about somebody"
              " (?population=NAME)", "operator", None, None, {"status": "erased"}),
    Operation("GET", "/v1/keys", "API keys, without their secrets", "admin"),
    Operation("POST", "/v1/keys", "A new API key, shown this once", "admin", NewKey,
              {"name": "shop front", "role": "app", "experiments": ["shop"]},
              {"id": "0c1d2e3f4a5b", "key": "dk_…"}, 201),
    Operation("DELETE", "/v1/keys/{key}", "End an API key", "admin"),
    Operation("POST", f"{SCOPED}/rank", "Azure Personalizer's verbs: rank actions of the catalogue", "app",
              RankRequest, {"actions": [{"id": "red", "features": [{}]}, {"id": "blue", "features": [{}]}],
                            "excludedActions": [], "eventId": "visit 17", "deferActivation": False},
              {"ranking": [{"id": "blue", "probability": 1.0}, {"id": "red", "probability": 0.0}],
               "eventId": "visit 17", "rewardActionId": "blue"}, 201),
    Operation("POST", f"{SCOPED}/events/{{event}}/reward", "What an event was worth, from 0 to bound", "app",
              RewardRequest, {"value": 1.0}, None, 204),
    Operation("POST", f"{SCOPED}/events/{{event}}/activate", "An event with deferred activation was seen",
              "app", None, None, None, 204),
    Operation("GET", f"{SCOPED}/configurations/service", "How rewards are waited for", "app"),
    Operation("GET", "/health/live", "Whether the process lives", ""),
    Operation("GET", "/health/ready", "Whether it can serve", ""),
)  # fmt: skip


def description() -> dict[str, Any]:
    """The whole description, as OpenAPI has it."""
    kinds = [one.takes for one in OPERATIONS if one.takes is not None]
    schemas, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        entry: dict[str, Any] = {
            "summary": one.summary,
            "responses": {
                str(one.status): {
                    "description": "Done",
                    "content": {"application/json": _example(one.answers)},
                },
                "4XX": {
                    "description": "Refused",
                    "content": {
                        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                    },
                },
            },
        }
        names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
        entry["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
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
    problem = {
        "type": "object",
        "description": "RFC 9457. Texts are fixed: none repeats what was sent.",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
        },
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


def _done(one: Operation) -> dict[str, Any]:
    if one.status == 204:
        return {"description": "Done"}
    return {"description": "Done", "content": {"application/json": _example(one.answers)}}


def _example(value: Any) -> dict[str, Any]:
    return {} if value is None else {"example": value}


def shown(value: Any) -> str:
    """An example as people read it."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


logger = logging.getLogger("discreet.service")


class App:
    """The JSON routes, those of Personalizer's clients, and the pages."""

    def __init__(self, engine: Engine, *, rate: float | None = None, metrics: Metrics | None = None) -> None:
        self.engine = engine
        self.keys = Keys(engine.store, rate)
        api = Api(engine, self.keys, metrics)
        self._pages = Pages(engine, api)
        self.routes = [
            *api.routes(),
            *Personalizer(engine, self.keys, metrics).routes(),
            Route("/health/live", self._alive),
            Route("/health/ready", self._ready),
            Route("/openapi.json", self._description),
            Route("/docs", self._docs),
        ]
        self._starlette = Starlette(
            routes=[*self.routes, *self._pages.routes()],
            lifespan=self._live,
            exception_handlers={404: self._missing, 405: self._missing, 500: _failed},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Parsers take what follows such a request for another protocol, and not for its body: a decision
        # would be made for nobody. The connection is closed, so that the body is no request either.
        if scope["type"] == "http" and any(name == b"upgrade" for name, _ in scope["headers"]):
            found = refusal(problems.UPGRADE)
            found.headers["connection"] = "close"
            await found(scope, receive, send)
        else:
            await self._starlette(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _live(self, _: Starlette) -> AsyncIterator[None]:
        await self.engine.start(every=self._refresh)
        yield
        with contextlib.suppress(StoreError):
            await self.engine.stop()

    def _refresh(self) -> None:
        """What other processes may have changed: keys, and sessions that were ended."""
        self.keys.refresh()
        self._pages.site.sessions.refresh()

    async def _description(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(description())

    async def _docs(self, request: Request) -> Response:  # noqa: ARG002
        return self._pages.site.page("docs.html", None, operations=OPERATIONS, shown=shown)

    async def _alive(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"status": "alive"})

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002
        try:
            await self.engine.ping()
        except StoreError:
            return refusal(problems.NO_STORE)
        return JSONResponse({"status": "ready"})

    async def _missing(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        return self._pages.site.missing(request) or refusal(problems.NOT_FOUND)


async def _failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    logger.error("a request failed: %s", type(error).__name__)
    return refusal(problems.FAILED)


# Seconds after which a thread that computes lets others go on: visitors wait for the worker that long.
_TURN = 0.001


def prepare(settings: Settings) -> str | None:
    """Tables and secrets, made where there are none; the first admin key, which is shown this once."""
    secrets = Path(settings.secrets)
    if not secrets.exists():
        with contextlib.suppress(FileExistsError):  # another process starts at the same time
            Secrets.fresh(secrets)
    store = open_store(settings.store)
    try:
        store.migrate()
        keys = Keys(store)
        return None if keys.listed() else keys.create("first", "admin")[1]
    finally:
        store.close()


def application(settings: Settings) -> Any:
    """The application of these settings, for ASGI."""
    engine = Engine(open_store(settings.store), Secrets.read(settings.secrets))
    metrics = None
    if settings.operator_port is not None:
        metrics = Metrics(engine.worker)
        metrics.serve(settings.operator_host, settings.operator_port)
    app = App(engine, rate=settings.rate, metrics=metrics)
    if settings.telemetry is None:
        return app
    try:
        from .telemetry import traced
    except ImportError as error:
        raise ValueError(f"telemetry needs more: {install('telemetry')} ({error.name})") from None
    return traced(app, settings.telemetry)


def run(settings: Settings) -> None:
    """Serve until it is told to stop."""
    import uvicorn

    sys.setswitchinterval(_TURN)
    app = application(settings)
    gc.collect()
    gc.freeze()  # modules are not looked through again while visitors wait
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level,
        forwarded_allow_ips=settings.proxies,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    uvicorn.Server(config).run()
