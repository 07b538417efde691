"""The whole service as one ASGI application."""

from __future__ import annotations

import contextlib
import logging

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..engine import Engine
from ..store import StoreError
from . import problems
from .api import Api, refusal
from .auth import Keys, token_of
from .hot import Hot, Receive, Scope, Send, answer, refuse
from .problems import Problem

logger = logging.getLogger("discreet.service")
_EXPERIMENTS, _DECISIONS = "/v1/experiments/", "/v1/decisions/"


class App:
    """Two fast routes; everything else is Starlette's."""

    def __init__(self, engine: Engine, *, rate: float | None = None) -> None:
        self.engine = engine
        self.keys = Keys(engine.store, rate)
        self._hot = Hot(engine)
        routes = [
            *Api(engine, self.keys).routes(),
            Route("/health/live", self._alive),
            Route("/health/ready", self._ready),
        ]
        self._rest = Starlette(routes=routes, exception_handlers={404: _missing, 405: _missing, 500: _failed})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "POST":
            path: str = scope["path"]
            try:
                if path.startswith(_DECISIONS) and path.endswith("/outcome"):
                    key = self.keys.known(token_of(scope["headers"]), "decide")
                    await answer(send, await self._hot.outcome(path[14:-8], receive, key))
                    return
                if path.startswith(_EXPERIMENTS) and path.endswith("/decisions"):
                    name = path[16:-10]
                    self.keys.check(token_of(scope["headers"]), "decide", name)
                    await answer(send, await self._hot.decide(name, receive))
                    return
                if path == "/v1/outcomes":
                    key = self.keys.known(token_of(scope["headers"]), "decide")
                    await answer(send, await self._hot.outcomes(receive, key))
                    return
            except Problem as problem:
                await refuse(send, problem)
                return
            except StoreError:
                await refuse(send, problems.NO_STORE)
                return
            except Exception as error:
                logger.error("a request failed: %s", type(error).__name__)
                await refuse(send, problems.FAILED)
                return
        await self._rest(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.engine.start(every=self.keys.refresh)
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    raise
                await send({"type": "lifespan.startup.complete"})
            else:
                with contextlib.suppress(StoreError):
                    await self.engine.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _alive(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"status": "alive"})

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002
        try:
            await self.engine.ping()
        except StoreError:
            return refusal(problems.NO_STORE)
        return JSONResponse({"status": "ready"})


async def _missing(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return refusal(problems.NOT_FOUND)


async def _failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    logger.error("a request failed: %s", type(error).__name__)
    return refusal(problems.FAILED)
