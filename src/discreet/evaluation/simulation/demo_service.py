"""The last job of the demonstration: the live service in a process of its own, and its visitors."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...client import Client
from ...core.extras import install
from ...privacy import Budget, Coins
from .progress import working_on

PRODUCTS, WINDOW, VISITORS = 12, 3, 800
_LIKED_BY = np.linspace(0.35, 0.02, PRODUCTS)
_EXPERIMENT = "window"
_NEEDED = ("httptools", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn")
_PATIENCE = 60.0  # seconds until a started service has to say where it is


@dataclass(frozen=True)
class Served:
    """What may be seen of the experiment and of its page; ``took`` because visitors are made up."""

    display: tuple[str, ...]
    releases: int
    took: tuple[float, float]
    promise: str
    account: str
    command: str
    page: str
    key: str

    def __str__(self) -> str:
        return "\n".join(
            [
                f"  {VISITORS} visitors saw {WINDOW} of {PRODUCTS} products each; {self.releases} releases",
                "  took something (made-up data):"
                f" {self.took[0]:.2f} of the first 100, {self.took[1]:.2f} of the last",
                f"  on display now: {', '.join(self.display)}",
                f"\n{self.account}",
                f"\n  A page to open: {self.command}",
                f"  then {self.page} with the key {self.key}",
            ]
        )


def run_service(budget: Budget, folder: Path) -> Served | str:
    """Start it, send visitors, stop it; or what is missing. Its store stays in ``folder``."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        return f"this part needs more: {install('service')} ({missing[0]})"
    working_on("a service starts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for old in ("shop.db", "shop.db-wal", "shop.db-shm", "shop.secrets"):
        (folder / old).unlink(missing_ok=True)
    place = [
        "--store",
        f"sqlite:///{folder.resolve()}/shop.db",
        "--secrets",
        f"{folder.resolve()}/shop.secrets",
    ]
    command = [sys.executable, "-m", "discreet", "serve", "--json", "--port", str(port), *place]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                return "the service did not start"
            said += line
        started = json.loads(said)
        client = Client(started["url"], started["admin_key"], timeout=_PATIENCE, retries=8)
        try:
            took = _visits(client, budget)
            status = _settled(client)
            account = client.request("GET", f"/v1/experiments/{_EXPERIMENT}/account")
        finally:
            client.close()
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        working_on("")
    return Served(
        tuple(status["display"]),
        int(status["releases"]),
        (float(np.mean(took[:100])), float(np.mean(took[-100:]))),
        str(account["promise"]),
        str(account["periods"][0]["table"]),
        shlex.join(["discreet", "serve", *place]),
        f"http://127.0.0.1:8722/experiments/{_EXPERIMENT}",
        str(started["admin_key"]),
    )


def _visits(client: Client, budget: Budget) -> list[bool]:
    """Everybody takes the first product in the window that they like, or nothing; whether they did."""
    products = [f"product {number}" for number in range(1, PRODUCTS + 1)]
    people = {"name": "visitors", "epsilon": budget.epsilon, "delta": budget.delta}
    client.request("POST", "/v1/populations", people)
    shop = {"name": _EXPERIMENT, "population": "visitors", "items": products, "k": WINDOW}
    more = {"feedback": "taken", "outcome_wait": 0.2, "options": {"block": 20}}
    client.request("POST", "/v1/experiments", shop | more)
    coins = Coins.seeded(4).generator
    took = []
    for number in range(VISITORS):
        if number % 50 == 0:
            working_on(f"a service: {number} of {VISITORS} visitors")
        decision = client.decide(_EXPERIMENT, f"visitor {number}")
        liked = {one for one, chance in zip(products, _LIKED_BY, strict=True) if coins.random() < chance}
        first = next((one for one in decision.items if one in liked), None)
        client.report(decision, taken=first)
        took.append(first is not None)
    return took


def _settled(client: Client) -> dict[str, Any]:
    """Where the experiment stands, once it has released something: in a second or two."""
    deadline = time.monotonic() + 10.0
    while True:
        status: dict[str, Any] = client.request("GET", f"/v1/experiments/{_EXPERIMENT}")
        if status["releases"] or time.monotonic() > deadline:
            return status
        time.sleep(0.2)
