"""The service as one ASGI application, its description (OpenAPI 3.1), and how it is made and started."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import __version__
from . import api, personalizer, problems
from .api import Api, DecisionRequest, Operation, Receive, Scope, Send, problem_of, refusal
from .auth import Keys, Secrets
from .config import ServiceSettings
from .database import StoreError, open_store
from .engine import DecisionEngine
from .metrics import Metrics, traced
from .pages import Pages
from .personalizer import Personalizer

OPERATIONS = (
    *api.OPERATIONS,
    *personalizer.OPERATIONS,
    Operation("GET", "/health/live", "", "", "Whether the process lives"),
    Operation("GET", "/health/ready", "", "", "Whether it can serve"),
)
# Seconds after which a thread that computes lets others go on: visitors wait for the worker that long.
_TURN = 0.001


def description() -> dict[str, Any]:
    """The whole description, as OpenAPI has it."""
    kinds = [one.takes for one in OPERATIONS if one.takes is not None]
    schemas, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    refused = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
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
    fields = {"type": "string", "title": "string", "status": "integer"}
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


def shown(value: Any) -> str:
    """An example as people read it."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


class App:
    """The JSON routes, those of Personalizer's clients, and the pages."""

    def __init__(
        self, engine: DecisionEngine, *, rate: float | None = None, metrics: Metrics | None = None
    ) -> None:
        self.engine = engine
        self.keys = Keys(engine.store, rate)
        routes = Api(engine, self.keys, metrics)
        self._pages = Pages(routes)
        self._starlette = Starlette(
            routes=[
                *routes.routes(),
                *Personalizer(engine, self.keys, metrics).routes(),
                Route("/health/live", self._alive),
                Route("/health/ready", self._ready),
                Route("/openapi.json", self._description),
                Route("/docs", self._docs),
                *self._pages.routes(),
            ],
            lifespan=self._live,
            exception_handlers={404: self._missing, 405: self._missing, 500: self._failed},
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
        self._pages.sessions.refresh()

    async def _description(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(description())

    async def _docs(self, request: Request) -> Response:  # noqa: ARG002
        return self._pages.page("docs.html", None, operations=OPERATIONS, shown=shown)

    async def _alive(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"status": "alive"})

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002
        try:
            await self.engine.ping()
        except StoreError as error:
            return refusal(problem_of(error))
        return JSONResponse({"status": "ready"})

    async def _missing(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        return self._pages.missing(request) or refusal(problems.NOT_FOUND)

    async def _failed(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        return refusal(problem_of(error))


def prepare(settings: ServiceSettings) -> str | None:
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


def application(settings: ServiceSettings) -> Any:
    """The application of these settings, for ASGI."""
    engine = DecisionEngine(open_store(settings.store), Secrets.read(settings.secrets))
    metrics = None
    if settings.operator_port is not None:
        metrics = Metrics(engine.store)
        metrics.serve(settings.operator_host, settings.operator_port)
    app = App(engine, rate=settings.rate, metrics=metrics)
    return app if settings.telemetry is None else traced(app, settings.telemetry)


def run(settings: ServiceSettings) -> None:
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
