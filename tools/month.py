"""A month of the service in an hour: 100 decisions a second, kills, clock jumps, month ends, restores.

    python -m tools.month --minutes 60 --out docs/service/month.md

The service is that of `tools.service_chaos`, on SQLite and 127.0.0.1 alone, with a clock that runs `SPEED`
times as fast as the real one: an hour is thirty days. Clients ask for 100 decisions in each real second, so
that thirty days hold 360,000 of them. Meanwhile

- processes are killed, at named points of their work and at random moments;
- the clock jumps, forwards and back, by up to three hours;
- the month ends, after the first day and again after the twenty-ninth;
- before the first month ends, a backup is taken, and the store is replaced by it an hour later; the second
  ends with outcomes that wait;
- items are added and retired.

Whenever a store is given up, and at the end, everything it has learned is compared with what clients were
told (`tools.service_chaos.verdict`), and the store with itself (`discreet.service.backup.verify`). Memory of
the processes and sizes of the files are measured all the time. ``--fault`` breaks the service on purpose, in
one of the ways of `FAULTS` or of `tools.service_chaos.faults`: such a run has to find something wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.client
import json
import mmap
import os
import random
import sqlite3
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from discreet.service import backup
from discreet.service.database import POINTS, open_store
from discreet.service.worker import Worker

from .service_chaos import faults as chaos
from .service_chaos.__main__ import settle
from .service_chaos.clients import Clients
from .service_chaos.verdict import verdict
from .service_chaos.world import MANY, PEOPLE, PERSONAL, SHOP, World

SPEED = 720.0  # seconds of the service's clock in a second
RATE = 100.0  # decisions a second
DAY, HOUR = 86400.0, 3600.0
BEGIN = datetime.datetime(2026, 1, 30, 23, tzinfo=datetime.UTC).timestamp()
WAIT = 60.0  # of the service's clock
# The experiment and its people: one set for everybody, or everybody's own.
KINDS = {
    personal: (
        msgspec.structs.replace(shop, block_size=50, outcome_wait=WAIT),
        msgspec.structs.replace(people, period="month"),
    )
    for personal, shop, people in ((False, SHOP, PEOPLE), (True, PERSONAL, MANY))
}
# What a service may take: of memory that grows while it runs, of a log of writes before it is taken over into
# the file, of blocks that wait.
GROWTH, LOG, BLOCKS = 1.5, 64 << 20, 50


def _loses_outcomes_at_the_end() -> None:
    """Drops what waits to be learned when a month ends."""
    honest = Worker._close

    def close(self: Worker, one: Any, *, over: bool) -> Any:
        if over:
            with self._changing(one) as tx:
                tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ?", one.id, one.epoch)
        return honest(self, one, over=over)

    Worker._close = close  # type: ignore[method-assign]


def _drops_charges_on_a_restore() -> None:
    """Takes a charge from before a restore for one that was given back, once the next month has begun."""
    honest = Worker._new_epoch

    def new_epoch(self: Worker, one: Any) -> None:
        honest(self, one)
        with self.store.transaction() as tx:
            tx.do("UPDATE charge SET void = 1 WHERE version = 1 AND EXISTS (SELECT 1 FROM restored)")

    Worker._new_epoch = new_epoch  # type: ignore[method-assign]


FAULTS = {
    "loses_outcomes_at_the_end": _loses_outcomes_at_the_end,
    "drops_charges_on_a_restore": _drops_charges_on_a_restore,
}

ABOUT = f"""\
A service on SQLite whose clock runs {SPEED:.0f} times as fast as the real one, so that an hour
is thirty days, with {RATE:.0f} decisions asked for in each real second. It is killed (SIGKILL),
its clock jumps by up to three hours, months end, a backup is taken and restored, and items come
and go. Whenever a store is given up, and at the end, what it has learned is compared with what
clients were shown and told, and accounts, chains and states with each other. `make chaos` makes
this page, with an hour; `tools/month.py` says how.
"""


class FastClock:
    """Seconds since 1970 as processes of the service have them; a jump is seen by all of them at once."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._jumped = mmap.mmap(-1, 8)

    def __call__(self) -> float:
        (jumped,) = struct.unpack("d", self._jumped[:8])
        return BEGIN + SPEED * (time.monotonic() - self.began) + float(jumped)

    def jump(self, seconds: float) -> None:
        (jumped,) = struct.unpack("d", self._jumped[:8])
        self._jumped[:8] = struct.pack("d", jumped + seconds)

    def left(self) -> float:
        """Seconds until the month ends."""
        now = datetime.datetime.fromtimestamp(self(), datetime.UTC)
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        return (month + datetime.timedelta(days=32)).replace(day=1).timestamp() - now.timestamp()


class Month:
    """The story: what is done to the service, second by second, and what was found."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        fault: str | None = None,
        *,
        restore: bool = True,
        personal: bool = False,
    ) -> None:
        self.rng, self.clock, self.seed = random.Random(seed), FastClock(), seed
        self.goes_back = restore  # to a backup; such a store learns nothing until the next month
        shop, people = KINDS[personal]
        broken = (FAULTS | chaos.FAULTS)[fault] if fault else None
        self.world = World(folder, broken, shop=shop, people=people, clock=self.clock)
        self.file = Path(self.world.url.removeprefix("sqlite:///"))
        self.saved = folder / "backup.db"
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.memory: list[int] = []  # bytes of the process, second by second
        self.log = 0  # most bytes of the log of writes
        self.tried = 0  # changes of the catalogue that were asked for
        self.seen = self._month()
        self.charged: set[tuple[Any, ...]] = set()  # what a store was charged that was restored
        self._open()

    def _open(self) -> None:
        """The service runs, and clients come."""
        self.child = self.world.start()
        self.clients = Clients(self.world, self.seed, rate=RATE, people=200_000, patient=True)

    def _month(self) -> str:
        return f"{self.world.calendar():%Y-%m}"

    def run(self, seconds: float, after: Callable[[float], None] | None = None) -> None:
        """Live through so many real seconds."""
        began = time.monotonic()
        tasks = ((15.0, self.kill), (25.0, self.jump), (10.0, self.change), (1.0, self.measure))
        due = [began + every for every, _ in tasks]
        while (now := time.monotonic()) < began + seconds:
            time.sleep(0.1)
            for number, (every, work) in enumerate(tasks):
                if now >= due[number]:
                    work()
                    due[number] = time.monotonic() + every * self.rng.uniform(0.5, 1.5)
            if self._month() > self.seen:
                self.seen = self._month()
                self.happened["month ends"] += 1
            self.keep_and_go_back()
            if after is not None:
                after(now - began)
        self.measure()
        self.judge()

    # --- what happens ----------------------------------------------------------------------------

    def kill(self) -> None:
        """At a named point of its work, or at any moment."""
        self.world.kill(self.child)
        if (point := self.rng.choice([*POINTS, None])) is not None:
            child = self.world.start(point, self.rng.randint(1, 4))
            self.happened["at a named point"] += self.world.wait(child, 1.5)
            self.world.kill(child)
        self.happened["kills"] += 1
        self.child = self.world.start()

    def jump(self) -> None:
        """The clock is set, forwards or back."""
        self.clock.jump(self.rng.uniform(-3.0, 3.0) * HOUR)
        self.happened["clock jumps"] += 1

    def change(self) -> None:
        """An item is added; the oldest of those that were added is retired.

        The service is asked which those are: an answer may be lost with its process, and a restore goes back.
        """
        found = self._ask("GET", "/v1/experiments/shop/items", None)
        if found is None:
            return
        offered = [one["item"] for one in found["items"] if not one["retired"]]
        added = [item for item in offered if item.startswith("new ")]
        self.tried += 1
        changes = {"add_items": [f"new {self.tried}"], "retire_items": added[:1] if len(added) > 3 else []}
        if self._ask("PATCH", "/v1/experiments/shop", changes) is not None:
            self.happened["catalogue changes"] += 1

    def _ask(self, method: str, path: str, body: object) -> Any:
        """An answer, if there was one and no refusal."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.world.port, timeout=5)) as there:
            try:
                there.request(method, path, json.dumps(body), self.clients.headers)
                answer = there.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                return None
        return json.loads(text or b"null") if answer.status < 300 else None

    def keep_and_go_back(self) -> None:
        """A backup in the last hours of the first month, and back to it an hour later."""
        if not self.goes_back:
            return
        left = self.clock.left()
        if left < 6.0 * HOUR and not self.saved.exists():
            backup.backup(self.world.url, self.saved)
            self.happened["backups"] += 1
        elif left < 5.0 * HOUR and self.saved.exists():
            self.goes_back = False
            self.restore()

    def restore(self) -> None:
        """The store is judged and given up; the backup takes its place, and old outcomes come again."""
        self.judge()
        self.charged = _charges(self.saved)
        for end in ("", "-wal", "-shm"):
            Path(f"{self.file}{end}").unlink(missing_ok=True)
        self.world._in_child(self._put_back)
        self.saved.unlink()
        self.happened["restores"] += 1
        sent = list(self.clients.last)
        self._open()
        time.sleep(0.5)
        for path in sent:
            own = {"served": False} if self.world.shop.personal else {}
            answer = self._ask("POST", path, {"likes": [], **own})
            if answer is not None and answer["status"] == "recorded":
                self.wrong.append("an outcome from before a restore was recorded again")

    def _put_back(self) -> str:
        """As ``discreet service restore`` does it, by the clock of the service."""
        self.world._begin()
        backup.backup(f"sqlite:///{self.saved}", self.file)
        store = open_store(self.world.url)
        backup.freeze_after_restore(store, Worker(store, clock=self.world.calendar))
        store.close()
        return ""

    # --- what is found ---------------------------------------------------------------------------

    def measure(self) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # Pages of its own: it is forked from this process, which remembers every decision.
            rows = Path(f"/proc/{self.child}/smaps_rollup").read_text().splitlines()
            own = [int(row.split()[1]) for row in rows if row.startswith("Private_")]
            self.memory.append(1024 * sum(own))
            self.log = max(self.log, Path(f"{self.file}-wal").stat().st_size)

    def judge(self) -> None:
        """Everybody goes home, and what the store has learned is compared with what they were told."""
        self.clients.finish()
        if not settle(self.world):
            self.wrong.append("what was reported was not learned in time")
        self.world.kill_all()
        self.wrong += verdict(self.world, self.clients)
        self.wrong += backup.verify_url(self.world.url)[0]
        if lost := self.charged - _charges(self.file):
            self.wrong.append(f"{len(lost)} charges were lost with a restore")
        self.wrong += self.left_behind()
        self.happened["decisions"] += len(self.clients.shown)
        self.happened["outcomes acknowledged"] += len(self.clients.acknowledged)

    def rows(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes of each table of the store."""
        with contextlib.closing(sqlite3.connect(self.file)) as store:
            names = [n for (n,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            owner = dict(store.execute("SELECT name, tbl_name FROM sqlite_schema"))
            size: Counter[str] = Counter()
            for name, found in store.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
                size[owner.get(name, name)] += found
            return {n: (store.execute(f"SELECT count(*) FROM {n}").fetchone()[0], size[n]) for n in names}

    def left_behind(self) -> list[str]:
        """Rows that should be gone by now."""
        rows = {name: count for name, (count, _) in self.rows().items()}
        found = []
        if rows["block"] > BLOCKS:
            found.append(f"{rows['block']} blocks were left behind")
        with contextlib.closing(sqlite3.connect(self.file)) as store:
            (periods,) = store.execute("SELECT count(DISTINCT period) FROM visit").fetchone()
        if periods > 2:  # the one that it is, and one whose last outcomes are awaited
            found.append(f"people were counted for {periods} periods at a time")
        return found

    def too_much(self) -> list[str]:
        """Memory that grows, files that grow: the last third of the time beside the first."""
        third = max(1, len(self.memory) // 3)
        before, after = max(self.memory[:third]), max(self.memory[-third:])
        found = []
        if after > GROWTH * before:
            found.append(f"memory grew from {_megabytes(before)} to {_megabytes(after)}")
        if self.log > LOG:
            found.append(f"the log of writes had {_megabytes(self.log)}")
        return found


def _charges(file: Path) -> set[tuple[Any, ...]]:
    """What a store was charged and was not given back."""
    with contextlib.closing(sqlite3.connect(file)) as store:
        rows = store.execute(
            "SELECT population, people, label, event, count, owner FROM charge WHERE void = 0"
        )
        return set(rows)


def live(
    seconds: float,
    seed: int = 0,
    fault: str | None = None,
    *,
    restore: bool = True,
    progress: bool = False,
    personal: bool = False,
) -> dict[str, Any]:
    """So many seconds of a month; what happened, what was measured and what was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        month = Month(Path(folder), seed, fault, restore=restore, personal=personal)
        reported = [0.0]

        def after(now: float) -> None:
            if progress and now > reported[0] + 30.0:
                reported[0] = now
                print(
                    f"{now:.0f} s", f"{month.world.calendar():%d %b, %H:%M}", dict(month.happened), flush=True
                )

        try:
            month.run(seconds, after)
            rows = month.rows()
            return {
                "seconds": seconds,
                "began": BEGIN,
                "ended": month.clock(),
                "happened": dict(month.happened),
                "memory": month.memory,
                "log": month.log,
                "rows": rows,
                "wrong": list(dict.fromkeys(month.wrong + month.too_much())),
            }
        finally:
            month.clients.stop.set()
            month.world.close()


def page(found: dict[str, Any], load: float) -> str:
    """The page of a run."""
    happened, days = found["happened"], (found["ended"] - found["began"]) / DAY
    events = ("decisions", "outcomes acknowledged", "kills", "at a named point", "clock jumps", "month ends")
    events += ("backups", "restores", "catalogue changes")
    third = max(1, len(found["memory"]) // 3)
    own = {n: (c, b) for n, (c, b) in found["rows"].items() if n != "witness" and b > 0}
    tables = sorted(own.items(), key=lambda one: -one[1][1])[:8]
    lines = [
        "# A month of the service",
        "",
        ABOUT,
        f"**This page is of a run of {found['seconds'] / 60:.0f} minutes: {days:.1f} days of the service's"
        f" clock, with its jumps.** The machine had {os.cpu_count()} cores and a load of {load:.1f}.",
        "",
        _table(("what happened", "times"), [(one, f"{happened.get(one, 0):,}") for one in events]),
        "",
        "| wrong: lost, doubled, overspent, left behind, grown |",
        "|---|",
        *(f"| {one} |" for one in found["wrong"] or ["nothing"]),
        "",
        _table(
            ("measured", "most"),
            [
                ("memory of the process, in the first third", _megabytes(max(found["memory"][:third]))),
                ("memory of the process, in the last third", _megabytes(max(found["memory"][-third:]))),
                ("log of writes beside the file", _megabytes(found["log"])),
            ],
        ),
        "",
        "Tables of the store at the end, without the one that only this test has:",
        "",
        _table(
            ("table", "rows", "megabytes"),
            [(f"`{name}`", f"{count:,}", f"{size / 1e6:.2f}") for name, (count, size) in tables],
        ),
    ]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.month", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="of the real clock; 60 are thirty days")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=[*FAULTS, *chaos.FAULTS], help="break the service on purpose")
    parser.add_argument("--no-restore", action="store_true", help="the first month ends like any other")
    parser.add_argument("--personal", action="store_true", help="everybody's own sets, from their histories")
    parser.add_argument("--out", type=Path, help="where to write the page")
    options = parser.parse_args()
    found = live(
        60.0 * options.minutes,
        options.seed,
        options.fault,
        restore=not options.no_restore,
        progress=True,
        personal=options.personal,
    )
    print({name: one for name, one in found.items() if name != "memory"})
    if options.out is not None:
        options.out.write_text(page(found, os.getloadavg()[0]))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
