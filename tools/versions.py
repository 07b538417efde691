"""Other versions of Python, and the oldest and newest packages that pyproject.toml allows.

    python -m tools.versions [--python 3.12 ...] [--packages oldest] [TEST ...]

Builds the wheel, installs it into an environment of its own for each Python that this machine has, and runs
the README's example and tests against what is installed: by default a cross-section of the suite, with the
stored decisions of every learner and what is released under stored seeds. "tested" are the versions of
constraints.txt, "newest" whatever pip finds, "oldest" the lower bounds. Results are stored in
benchmarks/results/versions.json, beside those of other versions.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.environments import Environment, Failed, readme_example, run
from tools.release import build
from tools.results import ROOT, store, stored

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("tables", "polars", "sklearn", "plots", "service")
TESTERS = ("pytest", "hypothesis", "prv-accountant")
TESTS = (
    "tests/online/test_unchanged.py",
    "tests/privacy/test_unchanged.py",
    "tests/privacy/test_accounting.py",
    "tests/privacy/test_budget.py",
    "tests/privacy/test_conversions.py",
    "tests/privacy/test_gate.py",
    "tests/privacy/test_ledger.py",
    "tests/objectives",
    "tests/offline/test_greedy.py",
    "tests/cli/test_files.py",
    "tests/cli/test_objective.py",
    "tests/cli/test_plan.py",
    "tests/cli/test_select.py",
)


def oldest() -> list[str]:
    """The lower bound of every package that the tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"]]
    for extra in EXTRAS:
        asked += project["optional-dependencies"][extra]
    found = []
    for one in asked:
        match = re.match(r"([\w-]+)>=([\d.]+)", one)
        assert match is not None, f"{one} has no lower bound"
        found.append(f"{match[1]}=={match[2]}")
    return found


def interpreter(version: str) -> str | None:
    """A Python of this version that runs, if there is one."""
    path = shutil.which(f"python{version}")
    if path is None:
        return None
    try:
        said = run([path, "-c", "import sys; print(sys.version_info[:2])"], seconds=60)
    except Failed:
        return None
    return path if said.strip() == str(tuple(map(int, version.split(".")))) else None


def attempt(wheel: Path, version: str, packages: str, tests: list[str], folder: Path) -> dict[str, object]:
    """Install and test; what came of it, with the versions that it was."""
    path = interpreter(version)
    if path is None:
        return {"result": "not on the machine"}
    there = Environment(folder / "environment", path)
    pins = {"oldest": oldest(), "tested": ["-c", str(ROOT / "constraints.txt")], "newest": []}[packages]
    try:
        there.install(f"{wheel}[{','.join(EXTRAS)}]", *TESTERS, *pins)
    except Failed as failure:
        return {"result": "cannot be installed", "said": _reason(str(failure))}
    names = [re.split(r"[<>=\[]", one)[0] for one in oldest()]
    installed = there.versions()
    found: dict[str, object] = {name: installed[name] for name in names if name in installed}
    there.script(readme_example(), folder / "readme")
    kept = folder / "tests"  # beside what is installed: src is not there
    for part in ("tests", "tools", "benchmarks", "pyproject.toml", "README.md"):
        source, target = ROOT / part, kept / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    try:
        said = run([there.python, "-m", "pytest", "-p", "no:cacheprovider", *tests], kept)
        counted = said.strip().splitlines()[-1]
        return {"result": "passed", "said": re.sub(r" in .*", "", counted), "packages": found}
    except Failed as failure:
        return {"result": "failed", "said": str(failure)[-600:], "packages": found}


def _reason(said: str) -> str:
    """The line of pip that says why, without where it looked."""
    lines = [line for line in said.splitlines() if line.startswith("ERROR")]
    return re.sub(r"\(from .*|[\w+]+://\S+", "", lines[0])[:200].strip() if lines else ""


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.versions", description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--packages", action="append", choices=("oldest", "tested", "newest"))
    parser.add_argument("tests", nargs="*", default=list(TESTS), metavar="TEST")
    options = parser.parse_args(given)
    runs: dict[tuple[str, str], dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (wheel,) = build(Path(folder, "dist"), "wheel")
        for version in options.python or PYTHONS:
            for packages in options.packages or ("oldest", "newest"):
                found = attempt(
                    wheel, version, packages, options.tests, Path(folder, f"{version}-{packages}")
                )
                what = {"python": version, "with": packages, "tests": options.tests}
                runs[version, packages] = what | found
                print(json.dumps(runs[version, packages]), flush=True)
    before = {(one["python"], one["with"]): one for one in stored("versions").get("runs", [])}
    all_new = set(before) <= set(runs)
    runs = before | runs
    store("versions", {"runs": [runs[key] for key in sorted(runs)]}, None if all_new else ())
    return int(any(one["result"] == "failed" for one in runs.values()))


if __name__ == "__main__":
    sys.exit(main())
