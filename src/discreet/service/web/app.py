"""The whole service as one ASGI application."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..engine import Answer, Engine
from ..metrics import Metrics
from ..store import StoreError
from . import openapi, problems
from .api import Api, refusal
from .auth import Key, Keys, token_of
from .hot import Hot, Receive, Scope, Send, answer, refuse
from .pages import Pages
from .personalizer import Personalizer
from .problems import Problem

logger = logging.getLogger("discreet.service")
_EXPERIMENTS, _DECISIONS = "/v1/experiments/", "/v1/decisions/"


class App:
    """Two fast routes; everything else is Starlette's."""

    def __init__(self, engine: Engine, *, rate: float | None = None, metrics: Metrics | None = None) -> None:
        self.engine, self._metrics = engine, metrics
        self.keys = Keys(engine.store, rate)
        self._hot = Hot(engine)
        api = Api(engine, self.keys)
        self._pages = Pages(engine, api)
        self.routes = [
            *api.routes(),
            *Personalizer(engine, self.keys, metrics).routes(),
            Route("/health/live", self._alive),
            Route("/health/ready", self._ready),
            Route("/openapi.json", self._description),
            Route("/docs", self._docs),
        ]
        self._rest = Starlette(
            routes=[*self.routes, *self._pages.routes()],
            exception_handlers={404: self._missing, 405: self._missing, 500: _failed},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "POST":
            path: str = scope["path"]
            if path.startswith(_DECISIONS) and path.endswith("/outcome"):
                await self._fast(
                    "outcome", scope, send, lambda key: self._hot.outcome(path[14:-8], receive, key)
                )
                return
            if path.startswith(_EXPERIMENTS) and path.endswith("/decisions"):
                await self._fast(
                    "decisions", scope, send, lambda key: self._decide(path[16:-10], receive, key)
                )
                return
            if path == "/v1/outcomes":
                await self._fast("outcomes", scope, send, lambda key: self._hot.outcomes(receive, key))
                return
        await self._rest(scope, receive, send)

    def decide_at_once(self, name: bytes, digest: bytes, raw: bytes) -> bytes | None:
        """The answer to a request for a decision that came with this key; None for the usual way."""
        key = self.keys.with_digest(digest)
        if key is None or not key.can("decide"):
            return None
        try:
            asked = name.decode("ascii")
            if key.experiments is not None and asked not in key.experiments:
                return None
            made = self._hot.decide_at_once(asked, raw, partial(self.keys.within_rate, key))
        except ValueError:  # which msgspec's errors are
            return None
        if made is not None and self._metrics is not None:
            self._metrics.answered("decisions", 200)
        return made

    def record_at_once(self, decision_id: bytes, digest: bytes, raw: bytes, answer: Answer) -> bool:
        """Whether an outcome that came with this key is on its way; its answer will be told."""
        key = self.keys.with_digest(digest)
        if key is None or not key.can("decide"):
            return False
        try:
            return self._hot.record_at_once(
                decision_id.decode("ascii"), raw, key, partial(self.keys.within_rate, key), answer
            )
        except (Problem, ValueError):
            return False

    def failed(self, route: str, status: int) -> None:
        """Count a failure; how many outcomes there were is nobody's business."""
        if self._metrics is not None:
            self._metrics.answered(route, status)

    async def _decide(self, name: str, receive: Receive, key: Key) -> bytes:
        if key.experiments is not None and name not in key.experiments:
            raise problems.WRONG_ROLE
        return await self._hot.decide(name, receive)

    async def _fast(
        self, route: str, scope: Scope, send: Send, work: Callable[[Key], Awaitable[bytes]]
    ) -> None:
        """One of the fast routes: a key that may, an answer or a refusal, and a count of it."""
        status = 200
        try:
            await answer(send, await work(self.keys.known(token_of(scope["headers"]), "decide")))
        except Problem as problem:
            status = problem.status
            await refuse(send, problem)
        except StoreError:
            status = problems.NO_STORE.status
            await refuse(send, problems.NO_STORE)
        except Exception as error:
            status = problems.FAILED.status
            logger.error("a request failed: %s", type(error).__name__)
            await refuse(send, problems.FAILED)
        if status >= 500:
            self.failed(route, status)
        elif self._metrics is not None and route == "decisions":
            self._metrics.answered(route, status)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.engine.start(every=self._refresh)
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    raise
                await send({"type": "lifespan.startup.complete"})
            else:
                with contextlib.suppress(StoreError):
                    await self.engine.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _refresh(self) -> None:
        """What other processes may have changed: keys, and sessions that were ended."""
        self.keys.refresh()
        self._pages.site.sessions.refresh()

    async def _description(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(openapi.description())

    async def _docs(self, request: Request) -> Response:  # noqa: ARG002
        return self._pages.site.page("docs.html", None, operations=openapi.OPERATIONS, shown=openapi.shown)

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
