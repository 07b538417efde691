"""The whole suite again and again on a busy machine: no test may depend on how fast it runs.

    python -m tools.under_load [--runs 10] [--at-once 4] [--commit HEAD] [--add] --out docs/load.md

Suites run side by side, each in a clone of its own with two workers, which share the machine with those of
the other suites; a busy loop stands in for each worker that a smaller number of suites lacks. With four at
once that is eight processes: the two workers of any suite run beside six others. A new run begins where one
ends, until there were enough.

The page has a row for each run, with what failed in it; with --add those of earlier runs stay. A failure
there is a fault of the test or of the library, whatever the next run says.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "load"
WORKERS = 2
LOOP = "while True: pass"


@dataclass
class Run:
    """One run of the suite, in its clone."""

    number: int
    commit: str
    began: float = field(default_factory=time.monotonic)
    loads: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = HOME / str(self.number)
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", ROOT, self.folder], check=True)
        subprocess.run(["git", "checkout", "-q", self.commit], cwd=self.folder, check=True)
        kernels = Path("src") / "discreet" / "kernels"
        for one in (ROOT / kernels).glob("*.so"):
            shutil.copy(one, self.folder / kernels)
        self.log = HOME / f"{self.number}.log"
        environment = dict(os.environ, PYTHONPATH=str(self.folder / "src"))
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-n", str(WORKERS), "--dist", "worksteal"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def ended(self) -> bool:
        self.loads.append(os.getloadavg()[0])
        if self.process.poll() is None:
            return False
        self.minutes = (time.monotonic() - self.began) / 60.0
        text = self.log.read_text(errors="replace")
        self.failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", text, re.MULTILINE)))
        self.passed = int((re.findall(r"(\d+) passed", text) or ["0"])[-1])
        shutil.rmtree(self.folder)
        return True

    @property
    def said(self) -> str:
        failed = ", ".join(f"`{one}`" for one in self.failed)
        failed = failed or ("nothing" if self.process.returncode == 0 else "the run itself")
        load = sum(self.loads) / len(self.loads)
        return f"| {self.commit[:8]} | {self.minutes:.0f} | {load:.1f} | {self.passed:,} | {failed} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="how often the suite runs (default 10)")
    parser.add_argument("--at-once", type=int, default=4, help="how many run side by side (default 4)")
    parser.add_argument("--commit", default="HEAD", help="what is tested (default the last)")
    parser.add_argument("--add", action="store_true", help="keep the rows of earlier runs on the page")
    parser.add_argument("--out", type=Path, help="a page to write")
    options = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", options.commit], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    HOME.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with what it has started
    running: list[Run] = []
    done: list[Run] = []
    loops: list[subprocess.Popen[bytes]] = []
    try:
        while len(done) < options.runs:
            while len(running) < min(options.at_once, options.runs - len(done)):
                running.append(Run(len(done) + len(running) + 1, commit))
            while len(loops) > (lacking := WORKERS * (options.at_once - len(running))):
                loops.pop().kill()
            while len(loops) < lacking:
                loops.append(subprocess.Popen([sys.executable, "-c", LOOP]))
            time.sleep(5.0)
            for one in [one for one in running if one.ended()]:
                running.remove(one)
                done.append(one)
                print(one.said, flush=True)
    finally:
        for process in [*loops, *(one.process for one in running)]:
            process.kill()
    rows = [one.said for one in sorted(done, key=lambda one: one.number)]
    if options.add and options.out and options.out.exists():
        rows = [*re.findall(r"^\| [0-9a-f]{8} .*", options.out.read_text(), re.MULTILINE), *rows]
    green = sum(row.endswith("| nothing |") for row in rows)
    others = WORKERS * (options.at_once - 1)
    page = f"""# Tests under load

The whole test suite, {len(rows)} times, while other processes keep all {os.cpu_count()} cores busy:
each run has {WORKERS} workers, beside at least {others} other processes.
**{green} of {len(rows)} runs passed.** `make load` makes this page.

| commit | minutes | mean load | passed | failed |
|---|---:|---:|---:|---|
"""
    page += "".join(f"{row}\n" for row in rows)
    if options.out:
        options.out.write_text(page)
    return int(green < len(rows))


if __name__ == "__main__":
    sys.exit(main())
