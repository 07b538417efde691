"""Break the library one expression at a time and see whether the tests notice.

    python tools/mutants.py [--sample 60] [--date 2026-11-18] [--only GLOB] [--tests PATH ...] [--workers 2]

A mutant flips a sign, turns a quotient into a product, doubles a number, drops a factor, exchanges min and
max, turns a comparison round, or forgets a charge, anywhere in the Python of src. The date draws the sample:
everybody draws the same one, and another day another one, which no test was written for.

Everything happens in copies of the last commit. There the tests run once with nothing broken, all of them
must pass, and which of them enters which function is noted (tools/reach.py; kept for the commit in
build/reach). A mutant then meets the tests that enter its function, the quickest of every kind first, until
one fails or two minutes of tests are over. docs/mutation_testing.md says how many were noticed.
tools/mutants.json keeps the verdicts of one date, so that the same command continues after an interruption,
and the reasons why survivors are accepted, by their names. With --only or --tests nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import fnmatch
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "discreet"
PAGE = ROOT / "docs" / "mutation_testing.md"
FOUND = Path(__file__).with_name("mutants.json")
LIMIT = 400  # seconds of processor time after which tests are taken never to end
ENOUGH = 120.0  # seconds of tests that enter a mutant's function
CHARGES = ("reserve", "_charge", "charge")
TURNED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
TEXT = ("__repr__", "__str__", "_lines", "to_json")  # functions that only print


@dataclass(frozen=True)
class Mutant:
    """One changed expression: where it is, what it was and what it is now."""

    file: str
    line: int
    function: int  # its first line; 0 for what runs on import
    start: int  # offsets into the file
    end: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """A name that changes with the file alone."""
        place = f"{self.file}|{self.start}|{self.before}|{self.after}"
        return f"{self.file}:{self.line}:{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of one file."""
    raw = path.read_bytes()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def code(node: ast.expr | ast.stmt) -> str:
        start, end = span(node)
        return raw[start:end].decode()

    def below(node: ast.AST, function: int) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign | ast.arguments):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in TEXT:
                return
            function = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        if isinstance(node, ast.expr | ast.stmt) and (after := changed(node, code)):
            start, end = span(node)
            file = path.relative_to(SOURCE).as_posix()
            yield Mutant(file, node.lineno, function, start, end, code(node), after)
        for child in ast.iter_child_nodes(node):
            yield from below(child, function)

    yield from below(ast.parse(raw), 0)


def changed(node: ast.expr | ast.stmt, code: Callable[[ast.expr], str]) -> str:
    """What an expression is turned into; nothing for most of them."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return f"({code(left)} - {code(right)})"
        case ast.BinOp(left, ast.Sub(), right):
            return f"({code(left)} + {code(right)})"
        case ast.BinOp(left, ast.Mult(), _):
            return f"({code(left)})"
        case ast.BinOp(left, ast.Div(), right):
            return f"({code(left)} * ({code(right)}))"
        case ast.UnaryOp(ast.USub(), operand):
            return f"({code(operand)})"
        case ast.Name("min" | "max"):
            return "max" if node.id == "min" else "min"
        case ast.Compare(left, [turned], [right]) if type(turned) in TURNED:
            return f"({code(left)} {TURNED[type(turned)]} {code(right)})"
        case ast.Constant(float(value)) if value > 1e-3:
            return repr(2.0 * value)
        case ast.Expr(ast.Call(ast.Attribute(_, name))) if name in CHARGES:
            return "None"
    return ""


def pytest_in(copy: Path, tests: list[str], limit: int, **more: str) -> str:
    """The first of these tests that fails in this copy, or nothing."""
    paths = os.pathsep.join(str(copy / part) for part in ("src", "tools"))
    environment = dict(os.environ, PYTHONPATH=paths, OMP_NUM_THREADS="1", **more)
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
    command = ["bash", "-c", f'ulimit -t {limit}; exec "$@"', "bash", *pytest]
    try:
        found = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=10 * limit, text=True
        )
    except subprocess.TimeoutExpired:
        return "no end"  # a loop that never ends is noticed, too
    if found.returncode < 0:
        return "no end"
    if not found.returncode:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", found.stdout, re.MULTILINE)
    return failed[1] if failed else (found.stdout + found.stderr).strip().splitlines()[-1]


def reached(folder: Path) -> dict[str, list[tuple[str, float]]]:
    """By function, and by file, the tests that enter it, with their seconds."""
    found: dict[str, list[tuple[str, float]]] = {}
    for file in folder.glob("*.json"):
        for name, seconds, entered in json.loads(file.read_text()):
            for place in {*entered, *(one.partition(":")[0] for one in entered)}:
                found.setdefault(place, []).append((name, seconds))
    return found


def ordered(tests: list[tuple[str, float]]) -> list[str]:
    """The quickest of every kind, then the next of every kind, for as long as they may take."""
    kinds: dict[str, list[tuple[float, str]]] = {}
    for name, seconds in tests:
        kinds.setdefault(name.split("[")[0], []).append((seconds, name))
    ranked = sorted((rank, *one) for kind in kinds.values() for rank, one in enumerate(sorted(kind)))
    chosen: list[str] = []
    total = 0.0
    for _, seconds, name in ranked:
        total += seconds
        if chosen and total > ENOUGH:
            break
        chosen.append(name)
    return chosen


def verdict(mutant: Mutant, copy: Path, tests: list[str]) -> str:
    """What notices this mutant, or nothing."""
    if not tests:
        return ""
    target = copy / "src" / "discreet" / mutant.file
    text = target.read_bytes()
    target.write_bytes(text[: mutant.start] + mutant.after.encode() + text[mutant.end :])
    try:
        return pytest_in(copy, ["-p", "no:xdist", "-o", "addopts=", *tests], LIMIT)
    finally:
        target.write_bytes(text)


def copied(folder: Path) -> Path:
    """The last commit, with the compiled modules of this checkout."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    for module in (SOURCE / "kernels").glob("*.so"):
        shutil.copy(module, folder / "src" / "discreet" / "kernels")
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=60, help="how many mutants to try (default 60)")
    parser.add_argument("--date", default=str(datetime.date.today()), help="what draws them (default today)")
    parser.add_argument("--only", default="*", help="files, e.g. 'privacy/*'")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="where tests are taken from")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "tests"], cwd=ROOT).returncode:
        parser.error("src or tests have changes that are not committed")
    files = [
        path
        for path in sorted(SOURCE.rglob("*.py"))
        if fnmatch.fnmatch(path.relative_to(SOURCE), options.only)
    ]
    every = [one for path in files for one in mutants(path)]
    wanted = random.Random(options.date).sample(every, min(options.sample, len(every)))
    known: dict[str, str] = {}
    accepted: dict[str, str] = {}
    everything = options.only == "*" and options.tests == ["tests"]
    if everything and FOUND.exists():
        kept = json.loads(FOUND.read_text())
        accepted = kept["accepted"]
        known = kept["verdicts"] if kept["date"] == options.date else {}
    print(f"{len(wanted)} of {len(every)} mutants, drawn by {options.date}", flush=True)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            copies.put(copied(Path(temporary) / str(number)))
        tests = watched(copied(Path(temporary) / "all"), options.tests, options.workers)

        def one_of(mutant: Mutant) -> str:
            place = f"{mutant.file}:{mutant.function}" if mutant.function else mutant.file
            copy = copies.get()
            try:
                return verdict(mutant, copy, ordered(tests.get(place, [])))
            finally:
                copies.put(copy)

        left = [one for one in wanted if one.key not in known]
        for one, by in zip(left, pool.map(one_of, left), strict=True):
            known[one.key] = by
            kept = {"date": options.date, "verdicts": known, "accepted": accepted}
            if everything:
                FOUND.write_text(json.dumps(kept, indent=1) + "\n")
            print(f"{one.key}  {one.before!r} -> {one.after!r}: {by or 'SURVIVES'}", flush=True)
    alive = [one for one in wanted if not known[one.key]]
    print(f"{len(wanted)} tried, {len(wanted) - len(alive)} noticed")
    if everything:
        write_page(options.date, len(wanted), alive, accepted)
    return 0 if len(alive) <= 0.1 * len(wanted) else 1


def watched(copy: Path, tests: list[str], workers: int) -> dict[str, list[tuple[str, float]]]:
    """Which tests enter which functions with nothing broken, noted once for a commit."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    asked = hashlib.blake2b(" ".join([commit.strip(), *tests]).encode(), digest_size=8).hexdigest()
    folder = ROOT / "build" / "reach" / asked
    if not folder.exists():
        failed = pytest_in(copy, ["-p", "reach", "-n", str(workers), *tests], 7200, REACH=str(folder))
        if failed:
            shutil.rmtree(folder, ignore_errors=True)
            raise SystemExit(f"fails with nothing broken: {failed}")
    return reached(folder)


def write_page(date: str, total: int, alive: list[Mutant], accepted: dict[str, str]) -> None:
    from scipy.stats import beta

    killed = total - len(alive)
    least = float(beta.ppf(0.05, killed, len(alive) + 1)) if killed else 0.0
    lines = [
        "# Mutation testing\n",
        "<!-- written by tools/mutants.py; reasons stand in tools/mutants.json -->\n",
        f"{total} mutants of the library, one changed expression each, drawn by the date {date};"
        f" the tests kill {killed} of them.\n",
        f"So they kill at least {100 * least:.0f} % of all (95 % confidence). Survivors:\n",
        "| where | original | mutant | why accepted |",
        "|---|---|---|---|",
    ]
    for one in sorted(alive, key=lambda one: one.key):
        was, became = (" ".join(part.split()).replace("|", "\\|") for part in (one.before, one.after))
        lines.append(f"| {one.file}:{one.line} | `{was}` | `{became}` | {accepted.get(one.key, 'not yet')} |")
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
