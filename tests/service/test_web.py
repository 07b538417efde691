"""What the service says of itself, and what it says of nobody: descriptions, metrics, logs, files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from discreet.service import queries
from discreet.service.api import DOCUMENTED, description
from discreet.service.auth import Secrets
from discreet.service.database import open_store
from discreet.service.engine import DecisionEngine
from discreet.service.metrics import Answered, Metrics
from discreet.service.web import App

from .conftest import Whole
from .test_api import experiment, settled
from .world import World, likes


def test_the_description_has_every_route_and_no_other(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/service.db")
    app = App(DecisionEngine(store, Secrets.fresh()))
    store.close()
    routes = {
        (method, route.path_format)
        for route in app.routes
        if route.path.startswith(("/v1", "/health"))
        for method in route.methods - {"HEAD"}
    }
    assert {(one.method, one.path) for one in DOCUMENTED} == routes


def test_the_description_holds_together():
    found = description()
    text = json.dumps(found)
    names = set(found["components"]["schemas"])
    for reference in text.split('"$ref": "')[1:]:
        assert reference.split('"')[0].rpartition("/")[2] in names
    assert {"NewExperiment", "DecisionRequest", "Problem"} <= names
    for path, methods in found["paths"].items():
        for one in methods.values():
            given = {parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"}
            assert given == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_documentation_needs_nothing_from_elsewhere(shared_service):
    with urllib.request.urlopen(f"{shared_service.url}/docs") as page:
        text = page.read().decode()
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in text
    assert "http://" not in text.replace("Authorization", "")
    for one in DOCUMENTED:
        assert one.path in text


def test_metrics_tell_of_budgets_and_of_no_outcomes(tmp_path):
    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    for _ in range(20):
        _, sequence, _ = world.serve()
        world.report(sequence, ["item 1"])
        world.settle()
    metrics = Metrics(world.store)
    metrics.answered(Answered("1", "POST", "/v1/experiments/{name}/decisions", 200, 0, 0.004))
    found = generate_latest(metrics.registry).decode()
    about = 'route="/v1/experiments/{name}/decisions",status="200"'
    assert f"discreet_request_seconds_count{{{about}}} 1.0" in found
    assert f'discreet_request_seconds_bucket{{le="0.0025",{about}}} 0.0' in found
    assert f'discreet_request_seconds_bucket{{le="0.005",{about}}} 1.0' in found
    bounds = re.findall(rf'bucket{{le="([^"]+)",{re.escape(about)}}}', found)
    upto = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # what dashboards name
    assert bounds == [*map(str, upto), "+Inf"]
    spent = float(found.split('discreet_epsilon_spent{population="people"} ')[1].split()[0])
    assert 0.9 < spent <= 1.0
    assert "outcome" not in found
    world.store.close()


def test_a_seed_is_nobodys_to_see(tmp_path):
    world = World(f"sqlite:///{tmp_path}/service.db", likes(seed=987654))
    assert "987654" not in json.dumps(queries.status(world.store, "shop"))
    assert queries.account(world.store, "people")["periods"][0]["reproducible"]
    world.store.close()


def learned(path):
    """Wait until every outcome is aggregated."""
    deadline = time.monotonic() + 120
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as database:
        while database.execute("SELECT count(*) FROM outcome").fetchone() != (0,):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("feedback", ["full", "slots"])
def test_markers_are_found_nowhere(service, feedback):
    """In persons, bodies and wrong requests; in logs, answers and, once aggregated, in all files."""
    client = service.client()
    experiment(client, "shop", feedback=feedback)
    marker = "marker-4711"
    for number in range(64):
        decision = client.decide("shop", f"{marker} person {number}")
        outcome = {"likes": [f"{marker} item", "item 1"]} if feedback == "full" else {"taken": None}
        client.report(decision, **outcome)
        client.report_many([{"decision_id": marker, "likes": [marker]}])
    settled(client, "shop", 1)
    for path in ("", "/status", "/account", "/releases", "/items"):
        assert marker not in json.dumps(client.request("GET", f"/v1/experiments/shop{path}"))
    learned(service.folder / "service.db")
    service.stop()
    assert marker not in (service.folder / "log").read_text()
    store = open_store(service.store)
    store.scrub()
    store.close()
    for path in service.folder.iterdir():
        assert marker.encode() not in path.read_bytes(), path


HEAVY = [
    "matplotlib",
    "pandas",
    "jinja2",
    "psycopg",
    "opentelemetry",
    "discreet.planning",
    "discreet.evaluation",
]


def test_it_answers_soon_after_its_start(tmp_path):
    """Within 2 seconds where nothing else runs; what only some requests need is loaded by them."""
    service = Whole(tmp_path)
    assert json.load(urllib.request.urlopen(f"{service.url}/health/ready")) == {"status": "ready"}
    ticks = (Path("/proc") / str(service.process.pid) / "stat").read_text().rpartition(")")[2].split()
    assert sum(map(int, ticks[11:13])) / os.sysconf("SC_CLK_TCK") < 4  # seconds of processor time
    service.stop()
    script = f"import sys, discreet.service.web; print(*sys.modules.keys() & {HEAVY})"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"\n"
