"""The service that is killed: forked from a process that has everything loaded, on one listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import os
import random
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

import discreet as dc
from discreet.service.auth import Keys, Secrets
from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.database import failpoints, open_store
from discreet.service.engine import DecisionEngine
from discreet.service.learning import Learning
from discreet.service.limits import Server, configured
from discreet.service.postgres import PostgresDatabase
from discreet.service.web import App
from discreet.service.worker import Worker

LIMIT = 2  # rounds of a person
PATIENCE = 2.0  # seconds for which a process is believed to live: short, as there are so many of them
PEOPLE = PopulationConfig(
    epsilon=1.0, delta=1e-6, definition="gdp", max_rounds_per_person=LIMIT, period="none"
)
SHOP = ExperimentConfig(
    items=[f"item {number}" for number in range(12)],
    k=3,
    block_size=8,
    outcome_wait=0.05,
    measure=0.1,
    holdout=0.1,
)
SEGMENTS = ["de", "fr", "it"]
# Everybody's own sets, with a budget that releases models soon; what histories are marked by.
PERSONAL = msgspec.structs.replace(SHOP, learner="PersonalSelector")
MANY = msgspec.structs.replace(PEOPLE, epsilon=40.0)
HAD = "had-9c41e7"


def load_everything() -> None:
    """Import, before processes are forked, what would else be imported in each of them."""
    learning = Learning.begin(SHOP, dc.Gate(dc.Budget(1.0, 1e-6), definition="gdp"))
    block = learning.allocate(1, 0, 0, 8, b"")
    block.served = 8
    learning.aggregate(block, dict.fromkeys(range(8), (False, b'["item 1"]')))
    learning.payload()
    learning.dump()
    asyncio.run(_nothing())


async def _nothing() -> None:
    """An event loop has been there."""


def witness() -> None:
    """Write down what is learned, in the transaction that it is learned in. For tests only."""
    PostgresDatabase.patience = PATIENCE
    aggregate, save = Learning.aggregate, Worker._save

    def aggregated(self, block, outcomes):
        learner = self.queues[block.segment]
        before = learner.round
        aggregate(self, block, outcomes)
        seen = self.__dict__.setdefault("witnessed", [])
        seen.append((block.epoch, -1, f"{before} {learner.round}".encode(), block.segment))
        seen += [
            (block.epoch, sequence, outcomes[sequence][1], block.segment)
            for sequence in range(block.first, block.first + block.count)
            if sequence in outcomes
        ]

    def saved(self, tx, one, allocated, releases=()):
        save(self, tx, one, allocated, releases)
        for epoch, sequence, body, segment in one.learning.__dict__.pop("witnessed", []):
            row = (one.id, epoch, sequence, body, one.seq, segment)
            tx.do("INSERT INTO witness VALUES (?, ?, ?, ?, ?, ?)", *row)

    Learning.aggregate, Worker._save = aggregated, saved


class World:
    """A store, its secrets and key, and the processes that serve it, as far as any live."""

    def __init__(
        self,
        folder: Path,
        fault: Callable[[], None] | None = None,
        url: str | None = None,
        *,
        divided: bool = False,
        shop: ExperimentConfig = SHOP,
        people: PopulationConfig = PEOPLE,
        clock: Callable[[], float] | None = None,
        names: tuple[str, str] = ("people", "shop"),
    ) -> None:
        """``clock``: the seconds that processes of the service take for those since 1970.

        ``names``: of the population and of the experiment.
        """
        self.shop, self.people, self.clock, self.names = shop, people, clock, names
        self.url = url or f"sqlite:///{folder}/service.db"
        self.folder, self.fault = folder, fault
        self.segments = SEGMENTS if divided else []
        self.secrets = Secrets.fresh(folder / "secrets")
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.children: list[int] = []
        self._served: dict[int, int] = {}  # where each of them tells that it serves
        load_everything()
        self.key = self._in_child(self._make)

    def _begin(self) -> None:
        """What every process of the service begins with."""
        witness()
        if self.fault is not None:
            self.fault()
        if self.clock is not None:
            time.time = self.clock

    def calendar(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp((self.clock or time.time)(), datetime.UTC)

    def _make(self) -> str:
        self._begin()
        store = open_store(self.url)
        store.migrate()
        with store.transaction() as tx:
            kind = "BYTEA" if self.url.startswith("postgres") else "BLOB"
            columns = (
                f"experiment BIGINT, epoch BIGINT, sequence BIGINT, body {kind}, seq BIGINT, segment TEXT"
            )
            tx.do(f"CREATE TABLE witness ({columns})")
        worker = Worker(store, clock=self.calendar)
        population, name = self.names
        worker.create_population(population, self.people)
        worker.create(name, population, msgspec.structs.replace(self.shop, segments=self.segments))
        key = Keys(store).create("first", "admin")[1]
        store.close()
        return key

    def _in_child(self, work) -> str:
        """Do something in a process of its own, which leaves nothing of it here."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(writer, work().encode())
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            said = answer.read()
        os.waitpid(child, 0)
        return said

    def start(self, point: str | None = None, after: int = 1, *, full: bool = False) -> int:
        """Start a process of the service; it kills itself when it has reached a point so many times.

        ``full``: no file can become larger than the database is, as on a disk without space.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child:
            os.close(writer)
            self.children.append(child)
            self._served[child] = reader
            return child
        gc.freeze()  # what it inherits is not looked through, so that it stays shared
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.stderr = open(self.folder / "log", "a")  # noqa: SIM115
            self._begin()
            if point is not None:
                left = [after]

                def reached() -> None:
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)

                failpoints[point] = reached
            engine = DecisionEngine(open_store(self.url), self.secrets, calendar=self.calendar)
            if full:
                room = os.path.getsize(self.url.removeprefix("sqlite:///"))
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            config = configured(App(engine), connections=1000, log_level="critical")
            Server(config, lambda: os.write(writer, b"1")).run(sockets=[self.listener])
        finally:
            os._exit(1)

    def serves(self, child: int, seconds: float = 30.0) -> None:
        """Wait until a process serves, or has died."""
        reader = self._served.pop(child)
        select.select([reader], [], [], seconds)
        os.close(reader)

    def wait(self, child: int, seconds: float) -> bool:
        """Whether a process has died within so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.waitpid(child, os.WNOHANG)[0]:
                self._forget(child)
                return True
            time.sleep(0.005)
        return False

    def kill(self, child: int) -> None:
        """End a process, if it lives."""
        if child in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self._forget(child)

    def _forget(self, child: int) -> None:
        self.children.remove(child)
        if child in self._served:
            os.close(self._served.pop(child))

    def kill_all(self) -> None:
        for child in list(self.children):
            self.kill(child)

    def close(self) -> None:
        self.kill_all()
        self.listener.close()


def moment(rng: random.Random) -> float:
    """Seconds until a kill at random."""
    return rng.uniform(0.15, 0.8)
