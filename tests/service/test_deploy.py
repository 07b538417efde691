"""Alerts and boards name metrics and labels that the service has."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client import generate_latest

from discreet.service.api import OPERATIONS
from discreet.service.metrics import Answered, Metrics

from .world import World, likes

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMES = re.compile(r"discreet_[a-z_]+")


def expressions():
    alerts = re.findall(r"expr: (.+)", (DEPLOY / "alerts.yaml").read_text())
    board = json.loads((DEPLOY / "grafana.json").read_text())
    drawn = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(alerts) > 5
    assert len(drawn) > 6
    return alerts + drawn


def told(tmp_path):
    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    metrics = Metrics(world.store)
    metrics.answered(Answered("1", "POST", "/login", 401, 0, 0.004))
    found = generate_latest(metrics.registry).decode()
    world.store.close()
    return set(NAMES.findall(found))


def test_every_metric_is_one_of_the_services(tmp_path):
    known = told(tmp_path)
    named = {name for text in expressions() for name in NAMES.findall(text)}
    assert named <= known
    assert known - {"discreet_request_seconds_created", "discreet_request_seconds_sum"} <= named | {
        "discreet_request_seconds"
    }


def test_routes_in_expressions_are_routes():
    routes = {one.path for one in OPERATIONS} | {"/login"}
    for text in expressions():
        for pattern in re.findall(r'route=~?"([^"]+)"', text):
            assert any(re.fullmatch(pattern, route) for route in routes), pattern


def test_keys_are_sent_over_a_network_by_a_proxy_only():
    """Containers listen at every address; what they publish is for this machine."""
    published = re.findall(r'ports: \["([^"]+)"', (DEPLOY / "compose.yaml").read_text())
    assert published
    assert all(one.startswith("127.0.0.1:") for one in published)
    assert "ListenStream=127.0.0.1:" in (DEPLOY / "discreet.socket").read_text()
