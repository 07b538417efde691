"""Kill a service many times, then break it on purpose; write a page about it.

python -m tools.service_chaos --kills 1000 --out docs/service/chaos.md
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from discreet.service.failpoints import POINTS

from .clients import Clients
from .faults import FAULTS
from .verdict import verdict
from .world import World, moment

_CALM = 30.0  # seconds in which everything has to be folded


def run(
    kills: int, fault: str | None = None, *, seed: int = 0, stop_early: bool = False
) -> dict[str, object]:
    """Kill a service so often; what was wrong at the end, and how much happened."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), fault)
        clients = Clients(world.port, world.key, world.secrets, seed)
        where: Counter[str] = Counter()
        try:
            for _ in range(kills):
                point = rng.choice([*POINTS, None])
                world.start(point, rng.randint(1, 4))
                if world.wait(1.5 if point else moment(rng)):
                    where[point or "died"] += 1
                else:
                    where["at random"] += 1
                world.kill()
                if stop_early and clients.refused:
                    break
            world.start()
            time.sleep(0.5)
            clients.finish()
            settled = _settle(world)
            world.kill()
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


def _settle(world: World) -> bool:
    """Wait until no hand that was served waits to be folded. Restart first: it closes what was open."""
    import sqlite3

    world.kill()
    world.start()
    path = world.url.removeprefix("sqlite:///")
    end = time.monotonic() + _CALM
    while time.monotonic() < end:
        time.sleep(0.1)
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as database:
            (waiting,) = database.execute("SELECT count(*) FROM hand WHERE state IN (1, 2)").fetchone()
        database.close()
        if not waiting:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--fault-kills", type=int, default=60)
    parser.add_argument("--faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    found = run(options.kills) if options.kills else {}
    print(found, flush=True)
    for name in options.faults:
        for kills in (3, 10, options.fault_kills):
            broken = run(kills, name, seed=1, stop_early=True)
            if broken["wrong"]:
                break
        said = "; ".join(broken["wrong"]) or "NOT NOTICED"
        print(name, kills, said, flush=True)
        lines.append((name, (FAULTS[name].__doc__ or "").strip(), kills, said))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page(found, lines))


def page(found: dict, lines: list) -> str:
    """The page of a run."""
    wrong = "; ".join(found["wrong"]) or "none"
    rows = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(found["where"].items()))
    broken = "\n".join(f"| `{name}` | {what} | {kills} | {said} |" for name, what, kills, said in lines)
    return f"""# Service under kills

Clients ask for decisions and report outcomes over HTTP; the service is killed (SIGKILL) at named points of
its work and at random, and started again on the same file. Afterwards the store is compared with what clients
were shown and told. `make chaos` makes this page; `tools/service_chaos` says how.

| | |
|---|---:|
| kills | {found["kills"]:,} |
| decisions served | {found["decisions"]:,} |
| outcomes acknowledged | {found["acknowledged"]:,} |
| outcomes lost or learned twice, places served twice, releases beside their charge | {wrong} |

| killed at | times |
|---|---:|
{rows}

The same with injected faults:

| fault | what it does | kills | noticed as |
|---|---|---:|---|
{broken}
"""


if __name__ == "__main__":
    main()
