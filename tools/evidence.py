"""Stored results and pages: the sources that each of them depends on, and which are older than those.

    python -m tools.evidence                                        a table: fresh, stale or unknown
    python -m tools.evidence make [--folder DATA] [RESULT ...]      these again, or all that are not fresh

A result carries a mark: when it was made, at which commit, in how many minutes, and a digest of each package
and script in `TABLE` that it depends on, with whatever these may import: packages by docs/architecture.md,
scripts by their text. Digests are of code: comments, docstrings and what is raised do not count, as no result
is made of them. `tools.results.store` marks benchmarks; pages are marked at their foot. What has no mark is
unknown, not fresh. Nothing fails because a result is stale, as some take hours: the site says so at the foot
of the pages that show it (this file is a hook of mkdocs). `make` begins with what took the least time before,
and can be ended at any time: another one goes on with what is not fresh then.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import fnmatch
import hashlib
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = "benchmarks/results"
NOT_SOURCES = {".c", ".so", ".pyd", ".pyc", ".typed"}
MARKS = "tools/evidence.py"  # this file: how results are marked is no part of what they say
_MARK = re.compile(r"\n<!-- evidence: (\{.*\}) -->\n*\Z")

BEGAN = time.time()  # this process

Mark = dict[str, Any]


class Made(NamedTuple):
    """What makes a result: scripts, and packages of `discreet` that it uses; the pages that show it.

    ``command`` follows the name of the interpreter. FOLDER in it stands for a folder of real data sets, which
    is needed unless it stands in brackets. Without a command, the result is not made by one alone.
    """

    scripts: tuple[str, ...]
    packages: tuple[str, ...]
    command: str
    pages: tuple[str, ...] = ("docs/benchmarks.md",)


ONLINE, OFFLINE, SHOWN = ("online",), ("offline",), ("online", "evaluation")
LIBRARY = (
    "audit",
    "cli",
    "client",
    "evaluation",
    "personal",
    "service",
    "spark",
)  # with what they import: all
_BENCHMARKS = {
    "bandit": (SHOWN, " [FOLDER]"),
    "bandit_speed": (ONLINE, ""),
    "constraints": (("constraints",), ""),
    "context": (ONLINE, " FOLDER"),
    "continuous_greedy": (OFFLINE, " FOLDER"),
    "convex": (ONLINE, " FOLDER"),
    "decisions": (ONLINE, ""),
    "feature_selection": (OFFLINE, " [FOLDER]"),
    "frank_wolfe": (SHOWN, " FOLDER"),
    "hedge_speed": (ONLINE, ""),
    "minimization": (SHOWN, ""),
    "minimization_speed": (SHOWN, ""),
    "objectives": (("objectives",), ""),
    "offline": (OFFLINE, " FOLDER"),
    "offline_speed": (OFFLINE, ""),
    "personal": (("personal", "online", "offline", "evaluation"), " FOLDER"),
    "planning": (("planning", "offline"), " FOLDER"),
    "privacy_core": (("privacy",), ""),
    "regret_growth": (SHOWN, ""),
    "returning": (ONLINE, " FOLDER"),
    "rolling": (ONLINE, " FOLDER"),
    "segments": (ONLINE, " [FOLDER]"),
    "set_sizes": (ONLINE, ""),
}


def _benchmark(
    name: str, packages: tuple[str, ...], *pages: str, data: str = "", also: tuple[str, ...] = ()
) -> Made:
    """A script of benchmarks, with ``also`` others that it starts."""
    command = f"-m benchmarks.{name}{data}"
    return Made((f"benchmarks/{name}.py", *also), packages, command, pages or ("docs/benchmarks.md",))


def _page(page: str, packages: tuple[str, ...], command: str, *scripts: str) -> dict[str, Made]:
    """A page that a command writes as a whole."""
    return {page: Made(scripts, packages, command, (page,))}


# Every stored result and every page that a command writes as a whole, by its path.
TABLE: dict[str, Made] = {
    f"{RESULTS}/{name}.json": made
    for name, made in {
        **{name: _benchmark(name, packages, data=data) for name, (packages, data) in _BENCHMARKS.items()},
        "epsilons": _benchmark("epsilons", ("online", "planning"), "docs/index.md", data=" FOLDER"),
        "full_information": _benchmark(
            "full_information", ("online", "planning"), "docs/index.md", "docs/benchmarks.md", data=" FOLDER"
        ),
        "scans": _benchmark("scans", OFFLINE, "docs/scale.md", "docs/benchmarks.md"),
        "service": _benchmark(
            "service",
            ("service", "client"),
            "docs/benchmarks.md",
            "docs/service/operations.md",
            also=("benchmarks/plain_service.py",),
        ),
        "store": _benchmark("store", OFFLINE, "docs/scale.md", "docs/benchmarks.md"),
        "theorems": _benchmark(
            "theorems",
            ("online", "offline", "evaluation"),
            "docs/theorems.md",
            data=" FOLDER",
            also=("benchmarks/theorems_real.py", "tools/theorems"),
        ),
        "year": _benchmark("year", ("online", "offline", "evaluation"), "docs/tutorials/year.md"),
        "gpu": Made(("benchmarks/gpu.py",), OFFLINE, "", ("docs/gpu.md",)),  # on another machine
        "fuzz": Made(("tools/fuzz.py",), LIBRARY, "", ()),  # somebody reads what was found
        "release": Made(
            ("tools/release.py", "pyproject.toml"), LIBRARY, "-m tools.release check", ("docs/releases.md",)
        ),
        "versions": Made(
            ("tools/versions.py", "pyproject.toml"), LIBRARY, "-m tools.versions", ("docs/releases.md",)
        ),
    }.items()
} | {
    **_page("docs/audit.md", ("audit",), "-m discreet audit --all --deep --out docs/audit.md"),
    **_page(
        "docs/rows.md",
        ("cli", "spark"),
        "-m tools.fuzz_rows --cases 20000 --out docs/rows.md",
        "tools/fuzz_rows.py",
    ),
    **_page(
        "docs/chaos.md", ("privacy",), "-m tools.chaos --kills 2000 --out docs/chaos.md", "tools/chaos.py"
    ),
    **_page(
        "docs/service/chaos.md",
        ("service",),
        "-m tools.service_chaos --kills 1000 --postgres-kills 1000 --segment-kills 300 --personal-kills 300"
        " --stores 4 --out docs/service/chaos.md",
        "tools/service_chaos",
    ),
    **_page(
        "docs/service/month.md",
        ("service",),
        "-m tools.month --minutes 60 --out docs/service/month.md",
        "tools/month.py",
        "tools/service_chaos",
    ),
    **_page(
        "docs/mutation_testing.md", LIBRARY, "tools/mutants.py", "tools/mutants.py", "tools/reach.py", "tests"
    ),
    **_page(
        "docs/load.md",
        LIBRARY,
        "-m tools.under_load --out docs/load.md",
        "tools/under_load.py",
        "tests",
    ),
}


# --- digests of sources ------------------------------------------------------------------------------


def digest(path: Path) -> str:
    """Of all code below a file or folder; of what is no code, of the text."""
    found = hashlib.blake2b(digest_size=8)
    for file in _files(path):
        found.update(f"{file.relative_to(path).as_posix()}\n{code(file)}\n".encode())
    return found.hexdigest()


def _files(path: Path) -> list[Path]:
    """The sources below a file or folder."""
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    ours = (one for one in found if one.is_file() and "__pycache__" not in one.parts)
    return [one for one in ours if one.suffix not in NOT_SOURCES]


def code(file: Path) -> str:
    """A source without comments, docstrings and texts of refusals, the same on every Python."""
    return _code(file.read_bytes().decode(errors="replace"), file.suffix)


@cache
def _code(text: str, suffix: str) -> str:
    if suffix == ".py":
        return _tree(ast.parse(text))
    if suffix in (".pyx", ".pxd"):
        text = _without(text, _PYTHON_TEXT, lambda part: part.startswith(("#", "\n")))
    elif suffix == ".h":
        text = _without(text, _C_TEXT, lambda part: part.startswith("/"))
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _tree(node: object) -> str:
    """A syntax tree as text, without docstrings, places and what is raised, whose words are for people.

    What only some Pythons have is left out.
    """
    if isinstance(node, list):
        return "[" + ",".join(map(_tree, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Raise):
        return "Raise()"
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        first = node.body[0] if node.body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            node.body = node.body[1:]
    fields = [(name, one) for name, one in ast.iter_fields(node) if one not in (None, []) and name != "kind"]
    constant = isinstance(node, ast.Constant)
    shown = [f"{name}={_tree(one)}" for name, one in fields] or ([repr(node.value)] if constant else [])
    return f"{type(node).__name__}({','.join(shown)})"


# Texts and comments of Cython: a docstring is a text in three quotes that begins its line and ends it.
_PYTHON_TEXT = re.compile(
    r'''\n[ \t]*[ru]?""".*?"""[ \t]*(?=\n)|"""(?:.*?)"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*''',
    re.DOTALL,
)
_C_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)


def _without(text: str, parts: re.Pattern[str], dropped: Any) -> str:
    return parts.sub(lambda found: "" if dropped(found[0]) else found[0], "\n" + text)


def reached(packages: Iterable[str], root: Path = ROOT) -> set[str]:
    """These packages, and all that they may import."""
    page = (root / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\| [\d,]+ \|$", page, re.MULTILINE)
    imports = {name: set(re.findall(r"`(\w+)`", others)) for name, others in rows}
    found, new = {"core", "kernels"}, set(packages)
    while new:
        found |= new
        new = {other for name in new for other in imports[name]} - found
    return found


def sources(result: str, root: Path = ROOT) -> dict[str, Path]:
    """What a result depends on, by name."""
    made, home = TABLE[result], root / "src" / "discreet"
    folders = {name: home / name for name in sorted(reached(made.packages, root))}
    found = {name: path if path.is_dir() else path.with_suffix(".py") for name, path in folders.items()}
    return found | {name: root / name for name in (*made.scripts, *sorted(local(made.scripts, root)))}


def local(scripts: Iterable[str], root: Path = ROOT) -> set[str]:
    """The files of benchmarks, tools and tests that scripts import, and what those import."""
    given = [root / name for name in scripts]
    found: set[Path] = set()
    new = {file for path in given for file in _files(path) if file.suffix == ".py"}
    while new:
        found |= new
        new = {one for file in new for one in _imports(file, root)} - found
    beside = (one for one in found if not any(one.is_relative_to(path) for path in given))
    return {one.relative_to(root).as_posix() for one in beside} - {MARKS}


def _imports(file: Path, root: Path) -> Iterator[Path]:
    """The files below ``root``, outside src, that a script imports."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            here = file.parent.relative_to(root).parts
            above = [*here[: len(here) + 1 - node.level]] if node.level else []
            parts = [*above, *([node.module] if node.module else [])]
            names = [".".join(parts), *(".".join([*parts, one.name]) for one in node.names)]
        for name in names:
            path = root.joinpath(*name.split("."))
            yield from (one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file())


# --- marks -------------------------------------------------------------------------------------------


def mark(result: str, root: Path = ROOT, since: float | None = None) -> Mark:
    """Of a result that is made now, of the sources as they are.

    A source that was written after ``since`` (when the work began) is none of those that it was made with.
    """
    said = _git("rev-parse", "--short", "HEAD", root=root)
    now = datetime.datetime.now(datetime.UTC).date().isoformat()
    found = {name: digest(path) for name, path in sources(result, root).items()}
    if since is not None:
        found |= {n: "changed meanwhile" for n, p in sources(result, root).items() if _written(p) > since}
    took = {} if since is None else {"minutes": _minutes(since)}
    return {"made": now, "commit": said, **took, "sources": found}


def _written(path: Path) -> float:
    """When something below a file or folder was last written."""
    return max(file.stat().st_mtime for file in _files(path))


def merged(old: list[Mark], new: Mark, entries: Iterable[str], everything: Iterable[str]) -> list[Mark]:
    """Marks of a result of which these entries were made anew; the others keep theirs."""
    fresh, there = set(entries), set(everything)
    kept = [one | {"entries": [e for e in one["entries"] if e in there - fresh]} for one in old]
    found = [one for one in kept if one["entries"]]
    return [*found, new | {"entries": sorted(fresh)}] if fresh else found


def marks_of(path: Path) -> tuple[list[Mark], bool]:
    """The marks of a result, and whether some of it has none."""
    if path.suffix == ".json":
        record = json.loads(path.read_text())
        marks = record.pop("evidence", [])
        return marks, bool(set(record) - {entry for one in marks for entry in one["entries"]})
    found = _MARK.search(path.read_text())
    return ([json.loads(found[1])], False) if found else ([], True)


def make(result: str, folder: str | None, root: Path = ROOT) -> bool:
    """Run the command of a result, and mark a page that it wrote with the sources from before."""
    command = TABLE[result].command.replace("[FOLDER]", "" if folder is None else "FOLDER").split()
    command = [str(folder) if word == "FOLDER" else word for word in command]
    return mark_page(result, [sys.executable, *command], root) == 0


def mark_page(result: str, command: list[str], root: Path = ROOT) -> int:
    """Run a command; if it writes a page as a whole, mark it with the sources from before."""
    new, path, began = mark(result, root), root / result, time.time()
    before = path.stat().st_mtime_ns if path.exists() else 0
    status = subprocess.run(command, cwd=root).returncode
    if path.suffix == ".md" and path.exists() and path.stat().st_mtime_ns != before:
        text = _MARK.sub("\n", path.read_text()).rstrip("\n")
        new |= {"minutes": _minutes(began)}
        path.write_text(f"{text}\n\n<!-- evidence: {json.dumps(new)} -->\n")
    return status


def _minutes(since: float) -> float:
    return round((time.time() - since) / 60.0, 1)


def wanted(folder: str | None, root: Path = ROOT) -> Iterator[str]:
    """The results that are not fresh and can be made with this folder, the quickest first."""
    found = [one for one in findings(root) if one.state != "fresh"]
    for one in sorted(found, key=lambda one: one.minutes):
        if not lacking(one.result, folder):
            yield one.result


def named(patterns: Iterable[str], *names: str) -> bool:
    return any(fnmatch.fnmatch(one, like) for like in patterns for one in names)


def lacking(result: str, folder: str | None) -> str:
    """What keeps a result from being made; nothing for most."""
    command = TABLE[result].command
    if not command:
        return "no command of this machine makes it"
    return "it needs --folder" if folder is None and "FOLDER" in command.replace("[FOLDER]", "") else ""


class Finding(NamedTuple):
    """A result, when it was made, and how it stands to the sources."""

    result: str
    made: str
    state: str  # fresh, stale or unknown
    changed: list[str]  # since then
    minutes: float = math.inf  # that it took; unknown is long

    @property
    def sentence(self) -> str:
        if self.state == "unknown":
            return f"{self.result}: of {self.made} or before; with which sources was not written down."
        return f"{self.result}: measured at {self.made}, before changes of {', '.join(self.changed)}."


def finding(result: str, root: Path = ROOT, digests: dict[Path, str] | None = None) -> Finding:
    """How a result stands; ``digests`` are those that are known already."""
    known = {} if digests is None else digests
    path = root / result
    if not path.exists():
        return Finding(result, "", "not made", [])
    marks, missing = marks_of(path)
    now = {}
    for name, source in sources(result, root).items():
        if source not in known:
            known[source] = digest(source)
        now[name] = known[source]
    changed = sorted(
        {n for one in marks for n in one["sources"].keys() | now if one["sources"].get(n) != now.get(n)}
    )
    if missing:
        return Finding(
            result, _git("log", "-1", "--format=%cs", "--", result, root=root) or "?", "unknown", changed
        )
    made = min(one["made"] for one in marks)
    minutes = sum(one.get("minutes", math.inf) for one in marks)
    return Finding(result, made, "stale" if changed else "fresh", changed, minutes)


def findings(root: Path = ROOT) -> Iterator[Finding]:
    known: dict[Path, str] = {}
    for result in TABLE:
        yield finding(result, root, known)


def undeclared(root: Path = ROOT) -> list[str]:
    """Stored results, and pages with a mark, that are not in the table."""
    stored = {path.relative_to(root).as_posix() for path in (root / RESULTS).glob("*.json")}
    pages = (path for path in (root / "docs").rglob("*.md") if _MARK.search(path.read_text()))
    return sorted((stored | {path.relative_to(root).as_posix() for path in pages}) - set(TABLE))


def _git(*command: str, root: Path) -> str:
    """What git says; nothing where there is none."""
    try:
        return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


# --- what readers see --------------------------------------------------------------------------------

_known: dict[Path, str] = {}


def foot(page: str, root: Path = ROOT) -> str:
    """What a page has to say of results on it that are older than the code; nothing if there are none."""
    shown = [finding(result, root, _known) for result, made in TABLE.items() if page in made.pages]
    old = [f"- {one.sentence}" for one in shown if one.state in ("stale", "unknown")]
    if not old:
        return ""
    again = "`make evidence` makes them again."
    said = "\n".join(old)
    title = "<summary>Results older than the code</summary>"
    return f"\n\n<details markdown>\n{title}\n\n{said}\n\n{again}\n\n</details>\n"


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """A hook of mkdocs."""
    return markdown + foot(f"docs/{page.file.src_uri}")


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.evidence", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    making = commands.add_parser("make", help="make results again, by default all that are not fresh")
    making.add_argument("--folder", help="a folder of real data sets, which some benchmarks measure")
    making.add_argument("result", nargs="*", metavar="RESULT", help="a result or its script, or a pattern")
    options = parser.parse_args(given)
    if options.command == "make":
        folder = options.folder or None
        found = [one for one, made in TABLE.items() if named(options.result, one, *made.scripts)]
        failed = []
        for result in found if options.result else wanted(folder):
            if why := lacking(result, folder):
                print(f"--- {result} is left out: {why}", flush=True)
                continue
            print(f"--- {result}", flush=True)
            failed += [] if make(result, folder) else [result]
        print("".join(f"failed: {one}\n" for one in failed), end="")
        return int(bool(failed))
    every = list(findings())
    wide = max(len(one.result) for one in every)
    for one in every:
        print(f"{one.result:{wide}}  {one.made:10}  {one.state:8}  {', '.join(one.changed)}".rstrip())
    states: Mapping[str, int] = {
        s: sum(one.state == s for one in every) for s in ("fresh", "stale", "unknown")
    }
    print(", ".join(f"{count} {state}" for state, count in states.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
