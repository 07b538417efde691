"""For operators: logs, metrics for Prometheus on a separate port, and spans for OpenTelemetry.

They reveal nothing about people beyond what the account covers: there are no counts of outcomes, and no
paths, bodies, keys or messages of errors, which may quote people's data.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from prometheus_client import CollectorRegistry, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily

from ..core.text import install
from . import queries
from .api import Receive, Scope, Send
from .auth import new_token
from .database import Database, StoreError

logger = logging.getLogger("discreet.service")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_UNCOUNTED = ("/outcome", "/outcomes", "/reward", "/activate")
_NO_ROUTE = "other"


# --- every request ---------------------------------------------------------------------------------------


class Answered(NamedTuple):
    """An answer: the template of its route, never the path; when it began (ns) and how long it took (s)."""

    request: str
    method: str
    route: str
    status: int
    began: int
    seconds: float


class AnswerObserver(Protocol):
    """An observer of answers, which is closed when the application ends."""

    def answered(self, one: Answered) -> None: ...

    def close(self) -> None: ...


_current: ContextVar[tuple[str, Scope] | None] = ContextVar("request", default=None)


class Instrumented:
    """An application with observers of its answers; each answer has an id, in logs and in a header.

    The id is drawn here: one that an application sent might identify somebody. Answers to outcomes are
    observed only if the service failed: the number of outcomes is not public.
    """

    def __init__(self, app: Any, *told: AnswerObserver) -> None:
        self._app, self._told = app, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            for one in self._told:  # the application has ended
                one.close()
            return
        began, clock, status, request = time.time_ns(), time.perf_counter(), 500, new_token(8)
        _current.set((request, scope))

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request.encode())]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            route = self._template(scope)
            if self._counts(route, status):
                method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
                taken = time.perf_counter() - clock
                for one in self._told:
                    one.answered(Answered(request, method, route, status, began, taken))

    def _counts(self, route: str, status: int) -> bool:
        """Whether an answer is observed: no outcomes, and no unknown routes, which may be meant as such."""
        return status >= 500 or not (route == _NO_ROUTE or route.endswith(_UNCOUNTED))

    def _template(self, scope: Scope) -> str:
        """The template of a request's route; never its path."""
        return template_of(scope)


def template_of(scope: Scope) -> str:
    route = scope.get("route")
    return _NO_ROUTE if route is None else str(route.path_format)


# --- logs ------------------------------------------------------------------------------------------------


class RequestLog:
    """A line for every answer: failures are errors, failed log-ins are warnings, all others are info."""

    def answered(self, one: Answered) -> None:
        """Log a line about this answer."""
        wrong_key = one.route == "/login" and one.status >= 400
        level = logging.ERROR if one.status >= 500 else logging.WARNING if wrong_key else logging.INFO
        if logger.isEnabledFor(level):
            words = "a log-in failed" if wrong_key else "answered"
            about: dict[str, Any] = {"request": one.request, "method": one.method, "route": one.route}
            about |= {"status": one.status, "ms": round(1000.0 * one.seconds, 1)}
            logger.log(level, words, extra={"about": about})

    def close(self) -> None:
        """Do nothing: every line was written at once."""


class JsonLines(logging.Formatter):
    """A record as a line of JSON, with its request and the origin of an error.

    An error is logged by its type and traceback, without its message, which may quote what was sent. Of a
    record's message, only the first line is logged: later ones may quote data in other libraries' messages.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage().partition("\n")[0],
        }
        if (current := _current.get()) is not None:
            line |= {"request": current[0], "route": template_of(current[1])}
        line |= getattr(record, "about", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= {"error": kind_of(record.exc_info[1]), "trace": list(frames(record.exc_info[1]))}
        return json.dumps(line)


def kind_of(error: BaseException) -> str:
    return type(error).__name__


def frames(error: BaseException) -> Iterable[str]:
    """The traceback of an error and of its causes: files, lines and functions."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"{frame.filename}:{frame.lineno} {frame.name}"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield f"from {kind_of(cause)}"
        yield from frames(cause)


def log_to_stderr(level: str) -> None:
    """Log all records of this process to stderr, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


# --- metrics ---------------------------------------------------------------------------------------------

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Durations of this process's answers, and values read from the database at each scrape."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self._server: Any = None
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "discreet_request_seconds",
            "How long answers took, by route and status",
            ("route", "status"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(self)

    def answered(self, one: Answered) -> None:
        """Count this answer, by how long it took."""
        self._seconds.labels(one.route, str(one.status)).observe(one.seconds)

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
        """Describe nothing, so that registration does not query the database."""
        return []

    def serve(self, host: str, port: int) -> None:
        """Serve /metrics in a separate thread."""
        self._server = start_http_server(port, host, self.registry)[0]

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


# --- spans -----------------------------------------------------------------------------------------------


class Spans:
    """Spans of answers, for an OpenTelemetry processor that exports them.

    A span holds the route's template, the method, the status and the duration: no path, header, body, key or
    id. Every span is the root of its own trace: continuing an application's trace would link a decision to
    its person.
    """

    def __init__(self, processor: Any) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider

        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "discreet"}))
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("discreet")

    def answered(self, one: Answered) -> None:
        """Record a span of this answer, from when it began until now."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode

        span = self._tracer.start_span(
            f"{one.method} {one.route}",
            Context(),  # empty: the root of its own trace, so that a caller's trace links nothing to a person
            SpanKind.SERVER,
            {
                "http.request.method": one.method,
                "http.route": one.route,
                "http.response.status_code": one.status,
            },
            start_time=one.began,
        )
        if one.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """Export spans that wait."""
        self._provider.shutdown()


def spans_to(collector: str) -> Spans:
    """Spans that are sent to a collector, as OTLP over HTTP, in the background."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ValueError(f"telemetry needs more: {install('telemetry')} ({error.name})") from None

    return Spans(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector)))
