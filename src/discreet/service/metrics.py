"""What operators see: metrics for Prometheus on a port of their own, and spans for OpenTelemetry.

Nothing here is about people beyond what the account says: there are no counts of outcomes.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, start_http_server
from prometheus_client.core import GaugeMetricFamily

from ..core.text import install
from . import queries
from .api import Receive, Scope, Send
from .database import Database, StoreError


class Metrics:
    """Counters of this process, and what the database says when it is asked."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self.registry = CollectorRegistry()
        names = ("route", "status")
        self._requests = Counter("discreet_requests", "Answers by route", names, registry=self.registry)
        self.registry.register(self)

    def answered(self, route: str, status: int) -> None:
        """One more answer; ``route`` is a template, never a path."""
        self._requests.labels(route, str(status)).inc()

    def collect(self) -> Any:
        lag = GaugeMetricFamily(
            "discreet_worker_lag_seconds", "How late aggregating is", labels=["experiment"]
        )
        releases = GaugeMetricFamily("discreet_releases", "Releases so far", labels=["experiment"])
        spent = GaugeMetricFamily("discreet_epsilon_spent", "Spent in this period", labels=["population"])
        limit = GaugeMetricFamily("discreet_epsilon_limit", "Allowed in a period", labels=["population"])
        try:
            for one in queries.experiments(self._store):
                found = queries.status(self._store, one["name"])
                lag.add_metric([one["name"]], found["lag_seconds"])
                releases.add_metric([one["name"]], found["releases"])
            for population in queries.populations(self._store):
                account = queries.account(self._store, population["name"])
                last = account["periods"][-1]["epsilon"] if account["periods"] else 0.0
                spent.add_metric([population["name"]], last)
                limit.add_metric([population["name"]], population["budget"]["epsilon"])
        except (StoreError, LookupError):
            return
        yield from (lag, releases, spent, limit)

    def describe(self) -> list[Any]:
        """Nothing is asked of the database before somebody wants to know."""
        return []

    def serve(self, host: str, port: int) -> Any:
        """Answer at /metrics, in a thread of its own; what to shut down."""
        return start_http_server(port, host, self.registry)


_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_UNCOUNTED = ("/outcome", "/outcomes", "/reward", "/activate")
_NO_ROUTE = "other"


class Traced:
    """An application whose requests leave spans at a processor of OpenTelemetry, which exports them.

    A span says the route's template, the method and the status, and how long it took: no path, header, body,
    key or id. Every span is the root of a trace of its own: going on with an application's trace would tie a
    decision to whoever it was for. Outcomes have spans only if the service failed: how many came is nobody's
    business.
    """

    def __init__(self, app: Any, processor: Any) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider

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
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode

        route = self._template(scope)
        if status < 500 and (route == _NO_ROUTE or route.endswith(_UNCOUNTED)):  # outcomes, or meant as such
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        told = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        span = self._tracer.start_span(
            f"{method} {route}", Context(), SpanKind.SERVER, told, start_time=began
        )
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _template(self, scope: Scope) -> str:
        """The template of a request's route; never its path."""
        route = scope.get("route")
        return _NO_ROUTE if route is None else str(route.path_format)


def traced(app: Any, collector: str) -> Traced:
    """An application that sends its spans to a collector, as OTLP over HTTP, in the background."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ValueError(f"telemetry needs more: {install('telemetry')} ({error.name})") from None

    return Traced(app, BatchSpanProcessor(OTLPSpanExporter(endpoint=collector)))
