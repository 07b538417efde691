"""Break the library one expression at a time and see whether the tests notice.

    python tools/mutants.py [--sample 100] [--draw 2026-11-18] [--commit HEAD] [--again] [--only GLOB]

A mutant flips a sign, turns a quotient into a product, doubles a number, drops a factor, exchanges min and
max, turns a comparison round, or forgets a charge, anywhere in the Python and Cython of src. The draw, a date
if nothing is said, makes the sample: everybody draws the same one, and another day another one, which no test
was written for. A file is drawn as often as it has lines, however many expressions it has.

Everything happens in a copy of a commit, in build/mutants. There every test runs once with nothing broken,
and which of them enters which function is noted (tools/reach.py; build/reach keeps it for each test file
until that file changes). A mutant then meets the tests that enter its function, the quickest of every kind
first, and after them those that enter its file, until one fails or their time is over. Of a compiled function
it is the tests that enter a function of Python which names it, or whose file does; its module is compiled in
the copy.

tools/mutants.json keeps a line for each mutant of one draw, so that the same command continues after an
interruption; what notices it since, with the tests of a later commit (--again tries survivors once more); and
the reasons why survivors do not matter. docs/mutation_testing.md says how many were noticed. With --only
nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import fnmatch
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mutation_testing.md"
FOUND = Path(__file__).with_name("mutants.json")
HOME = ROOT / "build" / "mutants"
REACH = ROOT / "build" / "reach"
# Seconds of tests: the quickest, more that enter the function, those that enter its file.
STAGES = (5.0, 40.0, 40.0)
PRELOADED = (
    "numpy",
    "scipy.optimize",
    "scipy.stats",
    "scipy.sparse",
    "mpmath",
    "hypothesis",
    "msgspec",
    "pandas",
)
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # what is loaded already is no test
CHARGES = ("reserve", "_charge", "charge")
TURNED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
TEXT = ("__repr__", "__str__", "_lines", "to_json")  # functions that only print
# Tests that wait for something, and may fail by themselves.
TIMED = ("tests/service", "tests/cli", "tests/docs", "tests/privacy/test_chaos", "tests/test_first_use")
SITE = """\
import os
if 'REACH' in os.environ and 'PYTEST_CURRENT_TEST' in os.environ:
    import reach
    reach.install()
"""  # sitecustomize.py of processes that tests start
COMPILED = {  # what stands between two spaces in Cython
    "+": "-", "-": "+", "*": "+", "/": "*", "+=": "-=", "-=": "+=",
    "<": ">", ">": "<", "<=": ">=", ">=": "<=", "and": "or", "or": "and",
}  # fmt: skip
TOKEN = re.compile(
    r"(?<= )(?:\+=|-=|<=|>=|[-+*/<>]|and|or)(?= )|\bf?(?:min|max)(?=\()"
    r"|(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?(?![\w.])"
)
HEAD = re.compile(r"(?:cdef |cpdef |def |class |inline |cloned_wide |inlined )+.*?(\w+)\s*(?:\(|:)")


@dataclass(frozen=True)
class Mutant:
    """One changed expression: where it is, what it was and what it is now."""

    file: str
    line: int
    function: str  # its name within the file; nothing for what runs on import
    start: int  # offsets into the file
    end: int
    before: str
    after: str
    share: float = 1.0  # lines of its file for each of its mutants

    @property
    def key(self) -> str:
        """A name that changes with the file alone."""
        place = f"{self.file}|{self.start}|{self.before}|{self.after}"
        return f"{self.file}:{self.line}:{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}"

    def drawn(self, draw: str) -> float:
        """Those with the largest are drawn: by weight, and of the same draw more where more are asked."""
        number = int.from_bytes(hashlib.blake2b(f"{draw}|{self.key}".encode(), digest_size=7).digest(), "big")
        return ((number + 1) / 2**56) ** (1.0 / self.share)


def mutants(source: Path, only: str = "*") -> Iterator[Mutant]:
    """Every mutant of a package."""
    for path in sorted(one for ending in ("py", "pyx", "pxd") for one in source.rglob(f"*.{ending}")):
        file = path.relative_to(source).as_posix()
        raw = path.read_bytes()
        if fnmatch.fnmatch(file, only):
            found = list(of_python(file, raw) if path.suffix == ".py" else of_cython(file, raw))
            lines = sum(bool(line.strip()) for line in raw.splitlines())
            for one in found:
                yield Mutant(**{**vars(one), "share": lines / len(found)})


def of_python(file: str, raw: bytes) -> Iterator[Mutant]:
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

    def below(node: ast.AST, path: tuple[str, ...], runs: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from below(node.value, path, runs)
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name in TEXT:
                return
            path = (*path, node.name)
            runs = not isinstance(node, ast.ClassDef)
        if isinstance(node, ast.expr | ast.stmt) and (after := changed(node, code)):
            yield Mutant(file, node.lineno, ".".join(path) if runs else "", *span(node), code(node), after)
        for child in ast.iter_child_nodes(node):
            yield from below(child, path, runs)

    yield from below(ast.parse(raw), (), False)


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
        case ast.AugAssign(target, ast.Add() | ast.Sub() as turned, value):
            return f"{code(target)} {'-' if isinstance(turned, ast.Add) else '+'}= {code(value)}"
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


def of_cython(file: str, raw: bytes) -> Iterator[Mutant]:
    """Found line by line: operators between spaces, numbers, minima and maxima."""
    text = raw.decode()
    blank = re.sub(
        r'""".*?"""|#[^\n]*|"[^"\n]*"', lambda one: re.sub(r"[^\n]", "~", one[0]), text, flags=re.S
    )
    path: list[tuple[int, str]] = []
    at = 0
    header = False
    for number, line in enumerate(blank.splitlines(keepends=True), 1):
        code = line.lstrip()
        indent = len(line) - len(code)
        if code.strip("~\n") and not header:
            while path and path[-1][0] >= indent and not code.startswith(")"):
                path.pop()
            head = HEAD.match(code)
            header = bool(head) and (not code.startswith("cdef ") or code.rstrip().endswith((":", "(")))
            if head and header:
                path.append((indent, head[1]))
        if not (header or code.startswith(("raise", "from ", "import ", "cdef extern", "@", "assert"))):
            for found in TOKEN.finditer(line):
                was = found[0]
                if was in COMPILED:
                    became = COMPILED[was]
                elif was[0].isdigit():
                    became = repr(2.0 * float(was)) if float(was) > 1e-3 else ""
                else:
                    became = was.replace("min", "max") if "min" in was else was.replace("max", "min")
                if became:
                    start = len(text[: at + found.start()].encode())
                    function = ".".join(name for _, name in path)
                    yield Mutant(file, number, function, start, start + len(was), was, became)
        header = header and not code.rstrip().endswith(":")
        at += len(line)


def copied(commit: str) -> Path:
    """A commit, with compiled modules: those of this checkout where its sources are the same."""
    folder = HOME / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    kernels = folder / "src" / "discreet" / "kernels"
    shutil.copy(ROOT / "setup.py", folder)
    for mine in (ROOT / "src" / "discreet" / "kernels").glob("*.so"):
        shutil.copy(mine, kernels)  # now: newer than any source of the copy
    sources = sorted(one.name for ending in ("pyx", "pxd", "h") for one in kernels.glob(f"*.{ending}"))
    if any(
        (kernels / one).read_bytes() != (ROOT / "src/discreet/kernels" / one).read_bytes() for one in sources
    ):
        compiled(folder, [])
    shutil.copy(Path(__file__).with_name("reach.py"), folder / "tools")
    (folder / "watch").mkdir()
    (folder / "watch" / "sitecustomize.py").write_text(SITE)
    return folder


def compiled(copy: Path, modules: Iterable[str]) -> str:
    """Compile these modules in the copy, or all; what went wrong, or nothing."""
    environment = dict(os.environ, DISCREET_ONLY=" ".join(modules))
    for name in modules or [""]:
        for one in (copy / "src" / "discreet" / "kernels").glob(f"{name}*.so"):
            if not name or one.name.startswith(f"{name}."):
                one.unlink()
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    found = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return (found.stdout + found.stderr).strip().splitlines()[-1] if found.returncode else ""


def pytest_in(copy: Path, tests: list[str], limit: float, **more: str) -> str:
    """The first of these tests that fails in this copy, or nothing.

    In a process that is forked from this one, which has loaded what most tests import.
    """
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import pytest

    said = copy / "build" / "said"
    said.parent.mkdir(exist_ok=True)
    child = os.fork()
    if not child:
        status = 70
        try:
            os.setsid()
            os.chdir(copy)
            with said.open("w") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            paths = [str(copy / part) for part in ("src", "tools", "watch", "")]
            sys.path[:0] = paths
            os.environ |= {"PYTHONPATH": os.pathsep.join(paths[:-1]), **more}
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            sys.dont_write_bytecode = False
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--tb=no", *QUIET]
            status = int(pytest.main([*options, *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    ends = time.monotonic() + 5.0 * limit
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        time.sleep(0.05)
        if time.monotonic() > ends or _spent(child) > limit:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(found[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it has left running
    if status < 0:  # a loop that never ends is noticed, too
        return "no end" if -status == signal.SIGKILL else f"signal {-status}"
    if status in (0, int(pytest.ExitCode.NO_TESTS_COLLECTED)):
        return ""
    text = said.read_text(errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", text, re.MULTILINE)
    return failed[1] if failed else (text.strip().splitlines() or [f"status {status}"])[-1]


def _spent(process: int) -> float:
    """Its seconds of processor time so far; a limit of the kernel would make its own clock coarse."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Reach:
    """Which tests enter which functions of a copy with nothing broken, and how long each of them takes."""

    def __init__(self, copy: Path, *, partial: bool = False) -> None:
        """``partial``: the quickest of what was noted so far."""
        self.copy, self.partial = copy, partial
        files = sorted(one.relative_to(copy).as_posix() for one in (copy / "tests").rglob("test_*.py"))
        self.digests = {
            one: hashlib.blake2b((copy / one).read_bytes(), digest_size=8).hexdigest() for one in files
        }
        complete = self.read()
        missing = [one for one in files if (one, self.digests[one]) not in complete]
        if missing and not partial:
            print(f"which tests enter what: {len(missing)} of {len(files)} test files", flush=True)
            pytest_in(copy, ["-p", "reach", *missing], 14400, REACH=str(REACH))
            self.read()

    def read(self) -> set[tuple[str, str]]:
        """Take up what was noted, and say which test files were run to their end."""
        self.seconds: dict[str, float] = {}
        self.tests: dict[str, set[str]] = {}  # by function, and by file
        complete = set()
        elsewhere: list[tuple[str, str]] = []
        started: list[tuple[str, str]] = []
        for line in (line for file in REACH.glob("*.jsonl") for line in file.read_text().splitlines()):
            match json.loads(line):
                case [file, digest, "complete"]:
                    complete.add((file, digest))
                case [file, digest, test, seconds, passed, entered] if self.digests.get(file) == digest:
                    if passed:
                        self.seconds[test] = seconds
                        elsewhere.extend((test, place) for place in entered)
                case [test, place]:
                    started.append((test, place))
        # Of a process that tests of a file share, which the first of them has started, all are seen.
        beside: dict[str, list[str]] = {}
        for test in self.seconds:
            beside.setdefault(test.partition("::")[0], []).append(test)
        for test, place in started:
            elsewhere.extend((one, place) for one in beside.get(test.partition("::")[0], ()))
        for test, place in elsewhere:
            if test in self.seconds:
                for one in (place, place.partition(":")[0]):
                    self.tests.setdefault(one, set()).add(test)
        return complete

    def of(self, mutant: Mutant) -> Iterator[list[str]]:
        """The tests that a mutant meets, in stages."""
        if mutant.file.endswith(".py"):
            near = self.tests.get(f"{mutant.file}:{mutant.function}", set()) if mutant.function else set()
            wide = self.tests.get(mutant.file, set())
        else:
            near, wide = self.of_compiled(mutant)
        first = self.ordered(near or wide, STAGES[0])
        yield first
        if self.partial:
            return
        yield self.ordered(near.difference(first), STAGES[1])
        yield self.ordered(wide.difference(near, first), STAGES[2])

    def of_compiled(self, mutant: Mutant) -> tuple[set[str], set[str]]:
        """Tests of functions of Python that name a compiled one, or one that calls it; and of their files."""
        source = self.copy / "src" / "discreet"
        modules = users(source / "kernels", Path(mutant.file).stem)
        names = {mutant.function.rpartition(".")[2]}
        bodies = [
            (name, body)
            for module in modules
            for path in (source / "kernels").glob(f"{module}.p*")
            for name, body in blocks(path.read_text())
        ]
        while more := {name for name, body in bodies if words(body) & names} - names:
            names |= more
        near: set[str] = set()
        wide: set[str] = set()
        for path in source.rglob("*.py"):
            text = path.read_text()
            if "kernels" in text and words(text) & modules:
                file = path.relative_to(source).as_posix()
                wide |= self.tests.get(file, set())
                for place in functions(text):
                    if words(place[1]) & names:
                        near |= self.tests.get(f"{file}:{place[0]}", set())
        for test in self.seconds:
            text = (self.copy / test.partition("::")[0]).read_text()
            if "kernels" in text and words(text) & modules:
                (near if words(text) & names else wide).add(test)
        return near, wide | near

    def ordered(self, tests: Iterable[str], enough: float) -> list[str]:
        """The quickest of every kind, then the next of every kind, for as long as they may take."""
        kinds: dict[str, list[tuple[float, str]]] = {}
        for name in tests:
            kinds.setdefault(name.split("[")[0], []).append((self.seconds[name], name))
        ranked = sorted((rank, *one) for kind in kinds.values() for rank, one in enumerate(sorted(kind)))
        chosen: list[str] = []
        total = 0.0
        for _, seconds, name in ranked:
            total += seconds
            if chosen and total > enough:
                break
            chosen.append(name)
        return chosen


@cache
def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Functions and methods of Cython, with what they say."""
    parts = re.split(r"^(?=[ ]*(?:cdef|cpdef|def|class)\b[^\n]*[(:]\n?)", text, flags=re.MULTILINE)
    for part in parts:
        if found := HEAD.match(part.lstrip()):
            yield found[1], part.partition("\n")[2]


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Functions of Python, with what they say."""

    def below(node: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*path, child.name)
                if not isinstance(child, ast.ClassDef):
                    yield ".".join(inner), ast.unparse(child)
                yield from below(child, inner)

    yield from below(ast.parse(text), ())


def users(kernels: Path, module: str) -> set[str]:
    """A compiled module and those that take something of it when they are compiled."""
    found = {module}
    texts = {one: one.read_text() for ending in ("pyx", "pxd") for one in kernels.glob(f"*.{ending}")}
    while (
        more := {
            path.stem
            for path, text in texts.items()
            if any(re.search(rf"^from \.{name} cimport", text, re.MULTILINE) for name in found)
        }
        - found
    ):
        found |= more
    return found


def verdict(mutant: Mutant, copy: Path, reach: Reach) -> str:
    """What notices this mutant, or nothing."""
    target = copy / "src" / "discreet" / mutant.file
    text = target.read_bytes()
    modules: set[str] = set()
    if target.suffix != ".py":
        modules = users(target.parent, target.stem) if target.suffix == ".pxd" else {target.stem}
        modules = {one for one in modules if (target.parent / f"{one}.pyx").exists()}
    kept = {target: text} | {
        one: one.read_bytes() for name in modules for one in target.parent.glob(f"{name}.*.so")
    }

    def put(files: dict[Path, bytes]) -> None:
        for path, content in files.items():
            path.write_bytes(content)

    try:
        changed = text[: mutant.start] + mutant.after.encode() + text[mutant.end :]
        if target.suffix == ".py":
            try:
                ast.parse(changed)
            except SyntaxError as error:
                return f"invalid: {error}"
        target.write_bytes(changed)
        if modules and (wrong := compiled(copy, sorted(modules))):
            return f"invalid: {wrong}"
        broken = {one: one.read_bytes() for one in kept}
        for tests in reach.of(mutant):
            limit = 20.0 + 3.0 * sum(reach.seconds[one] for one in tests)
            while tests and (by := pytest_in(copy, ["-x", *tests], limit)):
                if not by.startswith(TIMED) or by not in tests:
                    return by
                # It may fail by itself on a busy machine: it must fail again, and pass with nothing broken.
                if pytest_in(copy, [by], limit):
                    put(kept)
                    alone = pytest_in(copy, [by], limit)
                    put(broken)
                    if not alone:
                        return by
                tests.remove(by)
        return ""
    finally:
        put(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=100, help="how many mutants to try (default 100)")
    parser.add_argument("--draw", default=str(datetime.date.today()), help="what draws them (default today)")
    parser.add_argument("--commit", default="HEAD", help="whose sources and tests (default the last)")
    parser.add_argument(
        "--again", action="store_true", help="try survivors with the tests of the last commit"
    )
    parser.add_argument(
        "--partial", action="store_true", help="with tests that were noted so far; survivors are tried again"
    )
    parser.add_argument("--only", default="*", help="files, e.g. 'privacy/*'")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    kept: dict[str, Any] = json.loads(FOUND.read_text()) if FOUND.exists() else {"draw": ""}
    commit = subprocess.run(
        ["git", "rev-parse", options.commit], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    if kept["draw"] != options.draw:
        kept = {"draw": options.draw, "commit": commit, "verdicts": {}, "since": {}, "accepted": {}}
    if not options.again and kept["commit"] != commit:
        parser.error(f"--draw {options.draw} was begun with --commit {kept['commit']}")
    copy = copied(kept["commit"])
    every = sorted(mutants(copy / "src" / "discreet", options.only), key=lambda one: -one.drawn(options.draw))
    print(f"{options.sample} of {len(every)} mutants, drawn by {options.draw}", flush=True)
    wanted: list[Mutant] = []
    for one in every:  # until so many are valid
        if len(wanted) == options.sample:
            break
        if not kept["verdicts"].get(one.key, "").startswith("invalid"):
            wanted.append(one)
    if options.again:
        copy = copied(commit)
        wanted = [
            one for one in wanted if kept["verdicts"].get(one.key) == "" and one.key not in kept["since"]
        ]
    reach = Reach(copy, partial=options.partial)
    which = "since" if options.again else "verdicts"
    for one in wanted:
        if one.key in kept[which]:
            continue
        if one.before.encode() != (copy / "src/discreet" / one.file).read_bytes()[one.start : one.end]:
            print(f"{one.key}: its file has changed", flush=True)
            continue
        began = time.process_time() + sum(os.times()[2:4])
        by = verdict(one, copy, reach)
        if by or not (options.again or options.partial):
            kept[which][one.key] = by
        if options.only == "*":
            FOUND.write_text(json.dumps(kept, indent=1) + "\n")
        spent = time.process_time() + sum(os.times()[2:4]) - began
        print(f"{one.key}  {one.before!r} -> {one.after!r}: {by or 'SURVIVES'} ({spent:.0f} s)", flush=True)
    if options.only == "*":
        write_page(kept, [one for one in every if one.key in kept["verdicts"]])
    return 0


def write_page(kept: dict[str, Any], tried: list[Mutant]) -> None:
    from scipy.stats import beta

    valid = [one for one in tried if not kept["verdicts"][one.key].startswith("invalid")]
    alive = [one for one in valid if not kept["verdicts"][one.key]]
    matter = [one for one in alive if one.key not in kept["accepted"]]
    killed = len(valid) - len(alive)
    share = killed / max(1, killed + len(matter))
    least = float(beta.ppf(0.05, killed, len(matter) + 1)) if killed else 0.0
    lines = [
        "# Mutation testing\n",
        "<!-- written by tools/mutants.py; reasons stand in tools/mutants.json -->\n",
        f"{len(valid)} mutants of the library, one changed expression each, drawn by {kept['draw']} from"
        f" {kept['commit'][:8]}, by the lines of its files; the tests kill {killed} of them.\n",
        f"Of those that matter they kill {100 * share:.0f} %, and of all such at least {100 * least:.0f} %"
        f" (95 % confidence). {len(alive) - len(matter)} survivors do not matter; {len(kept['since'])} of the"
        f" other {len(matter)} are noticed since, by new tests.\n",
        "| where | original | mutant | noticed since by, or why it does not matter |",
        "|---|---|---|---|",
    ]
    for one in sorted(alive, key=lambda one: one.key):
        was, became = (" ".join(part.split()).replace("|", "\\|") for part in (one.before, one.after))
        since = kept["since"].get(one.key, "").rpartition("::")[2].partition("[")[0]
        why = f"`{since}`" if since else kept["accepted"].get(one.key, "not yet")
        lines.append(f"| {one.file}:{one.line} | `{was}` | `{became}` | {why} |")
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
