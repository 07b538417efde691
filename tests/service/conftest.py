"""Services that run in processes of their own, and databases for them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys

import pytest

from discreet.client import Client

from .databases import Postgres
from .fork_server import Forked
from .world import World


class Running:
    """A started service: its address, its first key, its process and its folder."""

    python = None  # what starts it, else it is forked

    def __init__(self, folder, *, store=None, port=None, **env):
        self.folder, self.env = folder, env
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.store = store or f"sqlite:///{folder}/service.db"
        self.key = None
        self.start()

    def start(self):
        command = ["serve", "--port", str(self.port)]
        command += ["--store", self.store, "--secrets", f"{self.folder}/secrets"]
        self.log = open(self.folder / "log", "a+b")  # noqa: SIM115
        env = {"DISCREET_RATE": "0"} | os.environ | self.env
        if self.python is None:
            self.process = Forked(command, self.log, env)
        else:
            command = [sys.executable, *self.python, *command]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=env)
        line = self.process.stdout.readline().decode()
        assert line.startswith("discreet serves at"), (self.folder / "log").read_text()
        if self.key is None:
            self.key = (self.folder / "discreet.admin-key").read_text().strip()
        socket.create_connection(("127.0.0.1", self.port), timeout=10).close()  # it was said that it serves

    def client(self, key=None, *, timeout=60.0, **more):
        return Client(self.url, key or self.key, timeout=timeout, **more)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=120)
        self.process.stdout.close()
        self.log.close()


class Whole(Running):
    """As it is started by its users: in a new interpreter."""

    python = ("-m", "discreet")


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres):
    url = postgres.create()
    yield url
    _close_worlds()
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """A fresh database of each kind."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
    else:
        yield f"sqlite:///{tmp_path}/service.db"
        _close_worlds()


@pytest.fixture
def file_url(tmp_path):
    """A fresh database where it does not matter of which kind."""
    yield f"sqlite:///{tmp_path}/service.db"
    _close_worlds()


def _close_worlds():
    while World.opened:
        World.opened.pop().close()


@pytest.fixture
def service(tmp_path):
    running = Running(tmp_path)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("service"))
    yield running
    running.stop()


def _free_port():
    """One that nobody listens at, below those that systems give to whoever asks for any."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
