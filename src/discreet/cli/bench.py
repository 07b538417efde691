"""``discreet bench``: the benchmarks of a checkout of the repository, listed and run."""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .common import as_json, fitted

NAME = "bench"
HELP = "list the benchmarks of a checkout of the repository, or run one of them"

_EXAMPLES = """examples:
  discreet bench
  discreet bench privacy_core
  discreet bench full_information FOLDER

What stands after the name is handed on to the benchmark. Benchmarks are not part of an installed package; run
this inside a checkout of the repository."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("name", nargs="?", metavar="NAME", help="the one to run (default: list them)")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the benchmark"
    )


def run(options: argparse.Namespace) -> int:
    """List the benchmarks, or run one in a process of its own and return its exit code."""
    folder = _folder()
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if "def main(" in path.read_text()}
    if options.name is None:
        _list(scripts, options.json)
        return 0
    script = scripts.get(options.name.removesuffix(".py"))
    if script is None:
        raise ValueError(f"{options.name!r} is not a benchmark; there are {', '.join(scripts)}")
    return _one(script, options.arguments, options.json)


def _folder() -> Path:
    for place in _places():
        project = place / "pyproject.toml"
        if (
            (place / "benchmarks").is_dir()
            and project.is_file()
            and 'name = "discreet"' in project.read_text()
        ):
            return place / "benchmarks"
    raise ValueError(
        "there is no checkout of discreet here: benchmarks are not part of the installed package; change into"
        " a clone of the repository and try again"
    )


def _places() -> Iterator[Path]:
    """The current folder and its parents, then that of this code, which is a checkout if editable."""
    here = Path.cwd()
    yield from (here, *here.parents)
    yield from Path(__file__).resolve().parents


def _list(scripts: dict[str, Path], json: bool) -> None:
    about = {name: _about(path) for name, path in scripts.items()}
    if json:
        print(as_json({"benchmarks": about}))
    else:
        print(fitted(["benchmark", "what it shows"], [[name, line] for name, line in about.items()]))


def _about(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split("\n")[0]


def _one(script: Path, arguments: list[str], json: bool) -> int:
    start = time.monotonic()
    if sys.stderr.isatty():  # most say nothing until they are done
        print(f"{script.stem}: running", file=sys.stderr, flush=True)
    # With --json standard output is for the summary, so the benchmark's own output goes elsewhere.
    stdout = sys.stderr if json else None
    module = [sys.executable, "-m", f"benchmarks.{script.stem}", *arguments]
    code = subprocess.run(module, stdout=stdout, check=False, cwd=script.parents[1]).returncode
    if json:
        seconds = round(time.monotonic() - start, 3)
        print(as_json({"benchmark": script.stem, "exit_code": code, "seconds": seconds}))
    return code if code >= 0 else 128 - code  # as a shell reports a signal
