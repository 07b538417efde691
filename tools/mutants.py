"""Break the library one line at a time and see whether the tests notice.

    python tools/mutants.py [--sample 150] [--seed 0] [--only GLOB] [--workers 2] [--resume] [--again]

Mutants are made in `privacy/` and `online/` (bounds left out: they are about regret, not privacy), on lines
that speak of what privacy hangs on: sensitivities, scales, rates, ranges, noise, budgets, charges, counts,
coins. A mutant flips a sign, turns a quotient into a product, doubles a number, drops a factor, exchanges min
and max, turns a comparison round, or forgets a charge. Every file gives its share of the sample in turn.

Everything happens in copies of the last commit. There the tests of `privacy`, `online` and the audit run once
with nothing broken, all of them must pass, and which of them runs which line is noted (lines_by_test.py). A
mutant then meets the examples and stored numbers of its module, the tests that run its line, one of each
kind first, and all tests of its module, until one fails. What survives is listed in
docs/mutation_testing.md with the
reason that tools/survivors.json gives for it.

Tests are written for survivors, so the sample that showed them is no measure afterwards: take a fresh one
(another seed). `--again` tries survivors without a reason once more, `--page` only writes the page.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "discreet"
PAGE = ROOT / "docs" / "mutation_testing.md"
FOUND = Path(__file__).with_name("mutants.json")
REASONS = Path(__file__).with_name("survivors.json")
LIMIT = 400.0  # seconds after which tests are taken to hang
ENOUGH = 120.0  # seconds of tests that run a mutant's line
PLACES = ["src/discreet/privacy/**/*.py", "src/discreet/online/**/*.py"]
WATCHED = ["tests/privacy", "tests/online", "tests/evaluation/test_audit.py", "tests/docs/test_readme.py"]

WORDS = re.compile(
    r"sensitiv|scale|sigma|rate\b|range|noise|epsilon|delta|rho|\bmu\b|mu_squared|budget|share|reserve|charge|count"
    r"|moves|difference|norm|clip|bound|levels|releases|steps|public|within_limit|taken|limit|loss|grid|width"
)
# Which tests answer for which module, the nearest first; the first pattern that fits.
_CONTRACT = "tests/online/test_contract.py"
TESTS = [
    ("privacy/prefix_sum.py", ["tests/privacy/test_sums.py", "tests/privacy/test_factorizations.py"]),
    ("privacy/factorizations.py", ["tests/privacy/test_factorizations.py", "tests/privacy/test_sums.py"]),
    ("privacy/composition.py", ["tests/privacy/test_composition.py", "tests/privacy/test_accounting.py"]),
    ("privacy/account.py", ["tests/privacy/test_accounting.py", "tests/privacy"]),
    (
        "privacy/accountant.py",
        ["tests/privacy/test_gate.py", "tests/privacy/test_shares.py", "tests/privacy"],
    ),
    ("privacy/ledger.py", ["tests/privacy/test_ledger.py", "tests/privacy"]),
    ("privacy/conversions.py", ["tests/privacy/test_conversions.py", "tests/privacy"]),
    ("privacy/budget.py", ["tests/privacy/test_budget.py", "tests/privacy/test_shares.py", "tests/privacy"]),
    ("privacy/samplers.py", ["tests/privacy/test_noise.py", "tests/privacy/test_choice.py", "tests/privacy"]),
    ("privacy/ordered.py", ["tests/online/test_hedge.py", "tests/privacy"]),
    ("privacy/published.py", ["tests/privacy/test_published.py", "tests/privacy"]),
    ("privacy/randomness.py", ["tests/privacy/test_randomness.py", "tests/privacy"]),
    ("privacy/*", ["tests/privacy"]),
    ("online/bandit/*", ["tests/online/test_bandit.py", _CONTRACT]),
    ("online/hedge.py", ["tests/online/test_hedge.py", _CONTRACT]),
    ("online/phased.py", ["tests/online/test_phased.py", _CONTRACT]),
    ("online/running_sums.py", ["tests/online/test_running_sums.py", _CONTRACT]),
    (
        "online/people.py",
        ["tests/online/test_contribution.py", "tests/online/test_capping.py", _CONTRACT],
    ),
    ("online/sums.py", ["tests/online/test_running_sums.py", "tests/online/test_frank_wolfe.py", _CONTRACT]),
    ("online/*convex.py", ["tests/online/test_convex.py", _CONTRACT]),
    ("online/*minimize.py", ["tests/online/test_minimization.py", _CONTRACT]),
    ("online/frank_wolfe.py", ["tests/online/test_frank_wolfe.py", _CONTRACT]),
    ("online/*", [_CONTRACT]),
]


@dataclass(frozen=True)
class Mutant:
    """One changed place: the file, the line, what stood there and what stands there now."""

    file: str
    line: int
    start: int  # offsets into the file
    end: int
    before: str
    after: str
    text: str  # the whole line
    span: tuple[int, int]  # lines of the statement; none where it runs on import
    twin: int  # which one, where the same line is broken in the same way twice

    @property
    def key(self) -> str:
        """A name that survives changes elsewhere in the file."""
        text = f"{self.text}|{self.before}|{self.after}|{self.twin}"
        return f"{self.file}:{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def tests_for(file: str) -> list[str]:
    """The tests of a module."""
    return next((tests for pattern, tests in TESTS if fnmatch.fnmatch(file, pattern)), [])


def overall(file: str) -> list[str]:
    """Quick tests that look at everything of a module at once: its examples, and its stored numbers."""
    module = "discreet." + file.removesuffix(".py").replace("/", ".")
    example = f"tests/docs/test_readme.py::test_docstring_examples[{module.removesuffix('.__init__')}]"
    return [example, f"tests/{file.split('/')[0]}/test_unchanged.py"]


def statements(tree: ast.AST) -> dict[int, tuple[int, int]]:
    """For nodes inside functions the first and last line of their statement, or of the statement's head."""
    homes: dict[int, tuple[int, int]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for line in ast.walk(function):
            if line is function or not isinstance(line, ast.stmt):
                continue
            body = getattr(line, "body", None)
            last = body[0].lineno - 1 if body else line.end_lineno or line.lineno
            for node in ast.walk(line):  # inner statements come later and have the last word
                homes[id(node)] = (line.lineno, max(line.lineno, last))
    return homes


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of one file."""
    text = path.read_text()
    file = path.relative_to(SOURCE).as_posix()
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()
    seen: Counter[tuple[str, str, str]] = Counter()

    def span(node: ast.AST) -> tuple[int, int]:
        return (
            starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def made(node: ast.AST, after: str) -> Mutant:
        start, end = span(node)
        line: int = node.lineno  # type: ignore[attr-defined]
        shape = (lines[line - 1].strip(), raw[start:end].decode(), after)
        seen[shape] += 1
        return Mutant(
            file, line, start, end, shape[1], after, shape[0], homes.get(id(node), (0, 0)), seen[shape]
        )

    def code(node: ast.AST) -> str:
        start, end = span(node)
        return raw[start:end].decode()

    tree = ast.parse(text)
    homes = statements(tree)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign | ast.arguments)
        or (isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__", "_lines", "to_json"))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        if not WORDS.search(lines[node.lineno - 1]):
            continue
        if isinstance(node, ast.BinOp):
            left, right = code(node.left), code(node.right)
            if isinstance(node.op, ast.Add):
                yield made(node, f"({left} - {right})")
            elif isinstance(node.op, ast.Sub):
                yield made(node, f"({left} + {right})")
            elif isinstance(node.op, ast.Mult):
                yield made(node, f"({left})")
            elif isinstance(node.op, ast.Div):
                yield made(node, f"({left} * ({right}))")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield made(node, f"({code(node.operand)})")
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
        ):
            yield made(node.func, "max" if node.func.id == "min" else "min")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            swap = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}.get(type(node.ops[0]))
            if swap:
                yield made(node, f"({code(node.left)} {swap} {code(node.comparators[0])})")
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value > 1e-3:
            yield made(node, repr(2.0 * node.value))
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in ("reserve", "_charge", "charge")
        ):
            yield made(node, "None")


def failing(copy: Path, tests: list[str], limit: float = LIMIT, **more: str) -> str:
    """The first of these tests that fails in this copy, or nothing."""
    paths = os.pathsep.join(str(copy / part) for part in ("src", "tools"))
    environment = dict(os.environ, PYTHONPATH=paths, OMP_NUM_THREADS="1", **more)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
    command += ["-o", "addopts=", *(["-p", "lines_by_test"] if more else ["-p", "no:xdist"])]
    try:
        found = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=limit, text=True
        )
    except subprocess.TimeoutExpired:
        return "no end"  # a loop that never ends is noticed too
    if not found.returncode:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", found.stdout, re.MULTILINE)
    return failed[1] if failed else "not even collected"


class Judge:
    """The tests: which of them a mutant meets, and what they say."""

    def __init__(self) -> None:
        self.tests: list[tuple[str, float]] = []
        self.lines: dict[str, list[int]] = {}

    def watch(self, copy: Path, workers: int) -> str:
        """Note which tests run which lines, with nothing broken; what fails, if anything does."""
        folder = copy / "build" / "lines"
        failed = failing(copy, ["-n", str(workers), *WATCHED], 3600.0, LINES_BY_TEST=str(folder))
        self.read(folder)
        return failed

    def read(self, folder: Path) -> None:
        """What was noted."""
        for file in sorted(folder.glob("*.json")):
            noted, before = json.loads(file.read_text()), len(self.tests)
            self.tests += [(name, seconds) for name, seconds in noted["tests"]]
            for line, places in noted["lines"].items():
                self.lines.setdefault(line, []).extend(before + place for place in places)

    def running(self, mutant: Mutant) -> list[str]:
        """Tests that run the mutant's statement: the quickest of every kind, then the next of every kind."""
        first, last = mutant.span
        places = {p for line in range(first, last + 1) for p in self.lines.get(f"{mutant.file}:{line}", ())}
        kinds: dict[str, list[tuple[float, str]]] = {}
        for name, seconds in (self.tests[place] for place in places):
            kinds.setdefault(name.split("[")[0], []).append((seconds, name))
        ranked = sorted(
            (rank, seconds, name)
            for kind in kinds.values()
            for rank, (seconds, name) in enumerate(sorted(kind))
        )
        chosen, total = [], 0.0
        for _, seconds, name in ranked:
            total += seconds
            if total > ENOUGH:
                break
            chosen.append(name)
        return chosen

    def verdict(self, mutant: Mutant, copy: Path) -> str:
        """What notices this mutant, or nothing."""
        target = copy / "src" / "discreet" / mutant.file
        whole = target.read_bytes()
        target.write_bytes(whole[: mutant.start] + mutant.after.encode() + whole[mutant.end :])
        try:
            for tests in (overall(mutant.file), self.running(mutant), tests_for(mutant.file)):
                if tests and (by := failing(copy, tests)):
                    return by
            return ""
        finally:
            target.write_bytes(whole)


def copied(folder: Path) -> Path:
    """The last commit."""
    folder.mkdir(parents=True)
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=packed, check=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=150, help="how many mutants to try (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="which sample")
    parser.add_argument("--only", default="*", help="files, e.g. 'privacy/*'")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="keep the verdicts that are already known")
    parser.add_argument(
        "--again", action="store_true", help="only try known survivors again that nothing explains"
    )
    parser.add_argument(
        "--lines",
        type=Path,
        metavar="FOLDER",
        help="which tests run which lines, noted before; none: all of a module",
    )
    parser.add_argument(
        "--page", action="store_true", help="only write docs/mutation_testing.md from what is known"
    )
    options = parser.parse_args()
    known: dict[str, dict[str, object]] = {}
    if (options.resume or options.again or options.page) and FOUND.exists():
        known = json.loads(FOUND.read_text())
    if not options.page:
        changed = ["git", "diff", "--quiet", "HEAD", "--", *(f":(glob){place}" for place in PLACES)]
        if subprocess.run(changed, cwd=ROOT).returncode:
            parser.error(f"{' and '.join(PLACES)} have changes that are not committed")
        wanted = sampled(options.seed, options.only)
        print(f"{len(wanted)} mutants can be made", flush=True)
        there = {one.key for one in wanted}
        known = {key: one for key, one in known.items() if key in there}  # lines that are gone say nothing
        if options.again:
            explained = reasons()
            alive = {key for key, one in known.items() if not one["noticed"] and key not in explained}
            wanted = [one for one in wanted if one.key in alive]
        else:
            wanted = [one for one in wanted[: options.sample] if one.key not in known]
        if not tried(wanted, known, options.workers, options.seed, options.lines):
            return 1
    return write_page(known)


def sampled(seed: int, only: str) -> list[Mutant]:
    """Every mutant, in an order whose beginning holds each file's share."""
    files = [path for place in PLACES for path in sorted(ROOT.glob(place))]
    shuffled = random.Random(seed)
    piles = []
    for path in files:
        file = path.relative_to(SOURCE).as_posix()
        pile = list(mutants(path)) if fnmatch.fnmatch(file, only) and tests_for(file) else []
        shuffled.shuffle(pile)
        piles.append(pile)
    return [one for row in zip_longest(*piles) for one in row if one is not None]


def tried(
    wanted: list[Mutant],
    known: dict[str, dict[str, object]],
    workers: int,
    seed: int,
    lines: Path | None = None,
) -> bool:
    """Try them all, keeping each verdict; whether the tests pass while nothing is broken."""
    print(f"{len(wanted)} to try; first the tests as they are", flush=True)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            copies.put(copied(Path(temporary) / str(number)))
        judge = Judge()
        if lines is not None:
            if lines.name != "none":
                judge.read(lines)
        elif failed := judge.watch(copied(Path(temporary) / "whole"), workers):
            print(f"fails with nothing broken: {failed}")
            return False
        print(f"{len(judge.tests)} tests run {len(judge.lines)} lines", flush=True)

        def one_of(mutant: Mutant) -> str:
            copy = copies.get()
            try:
                return judge.verdict(mutant, copy)
            finally:
                copies.put(copy)

        for number, (one, by) in enumerate(zip(wanted, pool.map(one_of, wanted), strict=True), 1):
            known[one.key] = {
                "file": one.file,
                "line": one.line,
                "before": one.before,
                "after": one.after,
                "seed": known.get(one.key, {}).get("seed", seed),
                "at_first": known.get(one.key, {}).get("at_first", bool(by)),
                "noticed": by,
            }
            FOUND.write_text(_compact(known))
            if not by:
                print(f"{number}: survives {one.key} line {one.line}: {one.text}", flush=True)
                print(f"    {one.before!r} -> {one.after!r}", flush=True)
    return True


def _compact(known: dict[str, dict[str, object]]) -> str:
    """One line for each mutant."""
    lines = [f"{json.dumps(key)}: {json.dumps(one)}" for key, one in known.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def reasons() -> dict[str, str]:
    """Why survivors are accepted."""
    return dict(json.loads(REASONS.read_text())) if REASONS.exists() else {}


def write_page(known: dict[str, dict[str, object]]) -> int:
    from scipy.stats import beta

    explained = reasons()
    alive = {key: one for key, one in known.items() if not one["noticed"]}
    total = len(known)
    lines = [
        "# Mutation testing\n",
        "<!-- written by tools/mutants.py; the reasons stand in tools/survivors.json -->\n",
        f"{total} mutants of `privacy/` and `online/`, one changed expression each; the tests kill"
        f" {total - len(alive)} of them.\n",
        'Where tests were written for survivors, "at first" is the measure: what was killed before.\n',
        "| sample | mutants | killed at first | killed | share | at least (95 %) |",
        "|---|---|---|---|---|---|",
    ]
    for seed in sorted({int(str(one["seed"])) for one in known.values()}):
        of_seed = [one for one in known.values() if one["seed"] == seed]
        dead = sum(bool(one["noticed"]) for one in of_seed)
        least = float(beta.ppf(0.05, dead, len(of_seed) - dead + 1)) if dead else 0.0
        before = [one["at_first"] for one in of_seed if one["at_first"] is not None]
        first = f"{sum(map(bool, before))} of {len(before)}"
        share = f"{100 * dead / len(of_seed):.0f} % | {100 * least:.0f} %"
        lines.append(f"| {seed} | {len(of_seed)} | {first} | {dead} | {share} |")
    lines += ["\nSurvivors:\n", "| where | original | mutant | why accepted |", "|---|---|---|---|"]
    for key, one in sorted(alive.items()):
        was, became = (" ".join(str(one[part]).split()).replace("|", "\\|") for part in ("before", "after"))
        why = explained.get(key, "not accepted yet")
        lines.append(f"| {one['file']}:{one['line']} | `{was}` | `{became}` | {why} |")
    PAGE.write_text("\n".join(lines) + "\n")
    share = 1.0 - len(alive) / max(1, total)
    print(f"{total} tried, {len(alive)} survive: {100 * share:.1f} % were noticed")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
