"""Events of text ids to k chosen items through a store of people, beside from_events alone.

    python -m benchmarks.store [SOURCE] [--rows 6 7] [--folder FOLDER]

Made-up events in Parquet: 10^6, 10^7, ... rows (``--rows`` has the exponents), ten for each person, of 2,000
items. Every figure is that of a process of its own: processor seconds of all its threads, and on the clock,
without and (``whole``, ``clock``) with imports and the loading of compiled loops; the largest memory it held,
in GB, and what the same process held for a thousand rows (``libraries``). SOURCE is the folder src of an
earlier version, whose from_events takes its turn beside this one's. 10^8 rows take 1 GB of disk for the
events, 10^9 ten times that.
Floors: prepare and select take an eighth of the earlier from_events' time at 10^7 rows, and a quarter of its
memory; 10^8 rows take less than 90 s and 1.5 GB; the time per person is constant within a factor of 2.
Prints a table and writes benchmarks/results/store.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import arguments, machine
from tools.results import ROOT, store, stored

ITEMS, EACH, K, TURNS = 2000, 10, 50, 1
_CHUNK = 1_000_000
_FRAME = """
import pathlib, sys, time, tempfile
import numpy, pandas, pyarrow.parquet, scipy.sparse
import discreet as dc
def work(path, to, items):
{work}
with tempfile.TemporaryDirectory() as folder:  # what is loaded when it is first used
    small = pandas.DataFrame({{"user": ["a", "b"], "page": ["page-1", "page-2"]}})
    small.to_parquet(f"{{folder}}/small.parquet")
    work(f"{{folder}}/small.parquet", f"{{folder}}/people", [f"page-{{i}}" for i in range({items})])
start = time.process_time(), time.monotonic()
work(sys.argv[1], sys.argv[2], [f"page-{{i}}" for i in range({items})])
took = time.process_time() - start[0], time.monotonic() - start[1]
# What the system says of a finished process counts the one that started it.
held = pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print(*took, int(held) / 1e6)
"""
_WORK = {
    "from_events": """
    dc.objectives.Coverage.from_events(path, person="user", item="page", items=items)
""",
    "from_events of a frame": """
    frame = pandas.read_parquet(path)
    dc.objectives.Coverage.from_events(frame, person="user", item="page", items=items)
""",
    "prepare": """
    dc.data.prepare(path, person="user", item="page", items=items, to=to, progress=False)
""",
    "prepare and select": """
    store = dc.data.prepare(path, person="user", item="page", items=items, to=to, progress=False)
    people = dc.objectives.Coverage.from_store(store)
    dc.offline.PrivateGreedy(50, dc.Budget(1.0, 1e-6), seed=0).select(people)
""",
}


def write_events(path: Path, rows: int) -> None:
    """Rows of a person and an item, in no order."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(rows)
    pages = np.array([f"page-{number}" for number in range(ITEMS)])
    with parquet.ParquetWriter(
        path, arrow.schema([("user", arrow.string()), ("page", arrow.string())])
    ) as file:
        for start in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - start)
            who = np.char.add("user-", rng.integers(0, rows // EACH, count).astype("U10"))
            what = np.minimum((rng.pareto(1.0, count) * 20).astype(np.int64), ITEMS - 1)
            file.write_table(arrow.table({"user": who, "page": pages[what]}))


def measured(work: str, events: Path, source: Path) -> dict[str, float]:
    """Seconds and memory of one process."""
    script = _FRAME.format(items=ITEMS, work=_WORK[work])
    with tempfile.TemporaryDirectory(dir=events.parent) as folder:
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(events), f"{folder}/people"],
            env=os.environ | {"PYTHONPATH": str(source)},
            stdout=subprocess.PIPE,
            text=True,
        )
        said = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        clock = time.monotonic() - start
    if status:
        raise RuntimeError(f"{work} ended with {status}")
    cpu, seconds, memory = map(float, said.split()[-3:])
    whole = used.ru_utime + used.ru_stime
    return {"cpu": cpu, "seconds": seconds, "whole": whole, "clock": clock, "memory": memory}


def compared(events: Path, few: Path, source: Path | None, largest: bool) -> dict[str, Any]:
    """The least of all turns of everything; ``few``: a thousand rows."""
    own = ROOT / "src"
    rivals = {"prepare": ("prepare", own), "prepare and select": ("prepare and select", own)}
    if not largest:
        rivals |= {name: (name, own) for name in ("from_events", "from_events of a frame")}
        if source is not None:
            rivals |= {
                f"earlier {name}": (name, source) for name in ("from_events", "from_events of a frame")
            }
    found: dict[str, Any] = {}
    for _ in range(1 if largest else TURNS):
        for name, (work, where) in rivals.items():
            now = measured(work, events, where)
            found[name] = {key: round(min(value, found.get(name, now)[key]), 3) for key, value in now.items()}
            found[name]["libraries"] = round(measured(work, few, where)["memory"], 3)
            print(f"  {name:32} {found[name]}", flush=True)
    return found


def _times(theirs: dict[str, float], ours: dict[str, float]) -> dict[str, float]:
    """How many times as much one takes as another; memory also beyond that of a thousand rows."""
    beyond = [one["memory"] - one["libraries"] for one in (theirs, ours)]
    found = {key: theirs[key] / ours[key] for key in ("cpu", "seconds", "memory")}
    return {key: round(value, 2) for key, value in (found | {"beyond": beyond[0] / beyond[1]}).items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="the folder src of an earlier version")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[6, 7], help="exponents of the numbers of rows"
    )
    parser.add_argument("--folder", type=Path, help="where events and stores are written")
    options: argparse.Namespace = parser.parse_args()
    record = stored("store") | {"machine": machine(), "rows_per_person": EACH, "items": ITEMS, "k": K}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        few = Path(folder) / "few.parquet"
        write_events(few, 1000)
        for power in options.rows:
            events = Path(folder) / "events.parquet"
            write_events(events, 10**power)
            print(f"10^{power} rows")
            found = compared(events, few, options.source, power > 7)
            found["cpu_microseconds_per_person"] = round(
                found["prepare and select"]["cpu"] * 1e6 / (10**power // EACH), 3
            )
            ours = found["prepare and select"]
            for name in ("earlier from_events", "earlier from_events of a frame"):
                if name in found:
                    found[f"{name}, times"] = _times(found[name], ours)
                    found[f"{name}, times this one's"] = _times(
                        found[name], found[name.removeprefix("earlier ")]
                    )
            record[f"1e{power}"] = found
            print(json.dumps(found, indent=1))
    about = ["machine", "rows_per_person", "items", "k"]
    store("store", record, [*about, *(f"1e{power}" for power in options.rows)])


if __name__ == "__main__":
    main()
