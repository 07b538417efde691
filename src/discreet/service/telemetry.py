"""Spans of requests for OpenTelemetry; off unless a collector is set (``telemetry`` in the settings).

A span says the route's template, the method and the status, and how long it took: no path, header, body, key
or id. Every span is the root of a trace of its own: going on with an application's trace would tie a decision
to whoever it was for. Outcomes have spans only if the service failed: how many came is nobody's business.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from .api import Receive, Scope, Send
from .server import App

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_UNCOUNTED = ("/outcome", "/outcomes", "/reward", "/activate")
OTHER = "other"


class Traced:
    """An application whose requests leave spans at a processor, which exports them."""

    def __init__(self, app: App, processor: SpanProcessor) -> None:
        self._app = app
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "discreet"}))
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("discreet")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            self._provider.shutdown()  # the application has ended
            return
        began, status = time.time_ns(), 500

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            self._tell(scope, status, began)

    def _tell(self, scope: Scope, status: int, began: int) -> None:
        route = self._template(scope)
        if route.endswith(_UNCOUNTED) and status < 500:
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        span = self._tracer.start_span(
            f"{method} {route}",
            Context(),
            SpanKind.SERVER,
            {"http.request.method": method, "http.route": route, "http.response.status_code": status},
            start_time=began,
        )
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _template(self, scope: Scope) -> str:
        """The template of a request's route; never its path."""
        route = scope.get("route")
        return OTHER if route is None else str(route.path)


def traced(app: App, collector: str) -> Traced:
    """An application that sends its spans to a collector, as OTLP over HTTP, in the background."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return Traced(app, BatchSpanProcessor(OTLPSpanExporter(endpoint=collector)))
