"""The types of the public names, from outside: a user's program under mypy --strict and pyright.

    python -m tools.typed

The wheel is built and installed beside the packages it needs, in an environment without the checkout: what
type checkers know there comes from py.typed and the annotations. tests/typed/program.py must pass, and every
line of tests/typed/mistakes.py that says so must be found.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tools.environments import Environment
from tools.release import build
from tools.results import ROOT

PROGRAMS = ROOT / "tests" / "typed"


def installed(folder: Path) -> Environment:
    """The wheel in an environment that borrows every other package from this one."""
    (wheel,) = build(folder / "dist", "wheel")
    there = Environment(folder / "environment")
    there.install("--no-deps", "--no-index", str(wheel))
    there.borrow(sysconfig.get_path("purelib"))
    return there


def complaints(command: list[str], folder: Path) -> set[tuple[str, int]]:
    """File and line of every error that a checker reports."""
    ended = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False, timeout=1200)
    found = errors_in(ended.stdout)
    if ended.returncode and not found:
        raise RuntimeError(ended.stdout + ended.stderr)
    return found


def errors_in(said: str) -> set[tuple[str, int]]:
    """The same, from what a checker says."""
    found = re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error", said)
    return {(name, int(line)) for name, line in found}


def expected(folder: Path) -> set[tuple[str, int]]:
    """Where the mistakes are."""
    lines = (folder / "mistakes.py").read_text().splitlines()
    return {("mistakes.py", number) for number, line in enumerate(lines, 1) if "# mistake:" in line}


def commands(python: str, cache: Path) -> dict[str, list[str]]:
    """The checkers, told to look at packages as ``python`` sees them."""
    files = ["program.py", "mistakes.py"]
    checkers: dict[str, list[str]] = {}
    mypy = ["mypy", "--strict", "--config-file", "", "--cache-dir", str(cache), "--python-executable", python]
    checkers["mypy"] = [sys.executable, "-m", *mypy, *files]
    if shutil.which("node") is not None:
        checkers["pyright"] = [sys.executable, "-m", "pyright", "--pythonpath", python, *files]
    else:
        print("pyright is left out: it needs node, which is not on this machine")
    return checkers


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        there = installed(folder)
        programs = folder / "programs"
        shutil.copytree(PROGRAMS, programs)
        wanted, wrong = expected(programs), False
        for checker, command in commands(there.python, ROOT / ".mypy_cache" / "outside").items():
            found = complaints(command, programs)
            for file, line in sorted(found ^ wanted):
                wrong = True
                what = "an error" if (file, line) in found else "a mistake that was not found"
                print(f"{checker}: tests/typed/{file}:{line}: {what}")
            if found == wanted:
                print(f"{checker}: the program passes, {len(wanted)} mistakes found")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
