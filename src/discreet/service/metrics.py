"""Metrics for operators, on a port of their own: requests, workers, budgets.

Nothing here is about people beyond what the account says: there are no counts of outcomes.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, start_http_server
from prometheus_client.core import GaugeMetricFamily

from . import queries
from .database import StoreError
from .worker import Worker


class Metrics:
    """Counters of this process, and what the store says when it is asked."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.registry = CollectorRegistry()
        names = ("route", "status")
        self._requests = Counter("discreet_requests", "Answers by route", names, registry=self.registry)
        self._children: dict[tuple[str, int], Any] = {}
        self.registry.register(self)

    def answered(self, route: str, status: int) -> None:
        """One more answer; ``route`` is a template, never a path."""
        child = self._children.get((route, status))
        if child is None:
            child = self._children[route, status] = self._requests.labels(route, str(status))
        child.inc()

    def collect(self) -> Any:
        """For Prometheus: how experiments stand."""
        lag = GaugeMetricFamily(
            "discreet_keeper_lag_seconds", "How late aggregating is", labels=["experiment"]
        )
        releases = GaugeMetricFamily("discreet_releases", "Releases so far", labels=["experiment"])
        spent = GaugeMetricFamily("discreet_epsilon_spent", "Spent in this period", labels=["population"])
        limit = GaugeMetricFamily("discreet_epsilon_limit", "Allowed in a period", labels=["population"])
        try:
            for one in queries.experiments(self._worker.store):
                found = queries.status(self._worker.store, one["name"])
                lag.add_metric([one["name"]], found["lag_seconds"])
                releases.add_metric([one["name"]], found["releases"])
            for population in queries.populations(self._worker):
                account = queries.account(self._worker, population["name"])
                last = account["periods"][-1]["epsilon"] if account["periods"] else 0.0
                spent.add_metric([population["name"]], last)
                limit.add_metric([population["name"]], population["budget"]["epsilon"])
        except (StoreError, LookupError):
            return
        yield from (lag, releases, spent, limit)

    def describe(self) -> list[Any]:
        """Nothing is asked of the store before somebody wants to know."""
        return []

    def serve(self, host: str, port: int) -> Any:
        """Answer at /metrics, in a thread of its own; what to shut down."""
        return start_http_server(port, host, self.registry)
