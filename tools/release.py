"""Releases: the version in every place, the built files, and the wheel in environments of its own.

    python -m tools.release version 0.2.0    # writes it into `PLACES`
    python -m tools.release check            # builds into dist/, tries the wheel with and without each extra
    python -m tools.release notebooks        # of `check`: the notebooks alone, with the wheel in dist/

`check` installs the wheel into a new environment without extras and into one per extra, with pip and all it
depends on. In the first the README's example runs, and what needs an extra fails and says what to install; in
each of the others that works. In one more, every notebook runs from top to bottom. docs/releases.md is the
list of steps. Results are stored in benchmarks/results/release.json.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

from tools.environments import Environment, Failed, readme_example, run
from tools.results import ROOT, store, stored

# Where the version stands, and the words around it.
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "src/discreet/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## (\S+) \(",
}
_PEOPLE = 'dict(person="person", item="item", items=["a", "b"])'
_EVENTS = '{"person": ["x", "y"], "item": ["a", "b"]}'
# What shows that an extra is there, and whether it is said what to install where it is not.
EXTRAS = {
    "tables": (
        'import discreet as dc, pandas\npandas.DataFrame(EVENTS).to_parquet("events.parquet")\n'
        'assert len(dc.objectives.Coverage.from_events("events.parquet", **PEOPLE)) == 2',
        'import discreet as dc\nopen("events.parquet", "w").close()\n'
        'dc.objectives.Coverage.from_events("events.parquet", **PEOPLE)',
    ),
    "polars": (
        "import discreet as dc, polars\n"
        "assert len(dc.objectives.Coverage.from_events(polars.DataFrame(EVENTS), **PEOPLE)) == 2",
        None,  # frames come from polars itself
    ),
    "sklearn": ("from discreet.offline import PrivateItemSelector\nPrivateItemSelector(2)", ""),
    "plots": ("from discreet.evaluation import plots\nplots.require()", ""),
    "spark": ("import pyspark\nimport discreet.spark", None),  # frames come from Spark itself
    "service": (
        "import discreet.service.web",
        'import sys\nfrom discreet.cli import main\nsys.exit(main(["serve"]))',
    ),
    "postgres": (
        "import discreet.service.postgres",
        'from discreet.service.database import open_store\nopen_store("postgresql://nobody")',
    ),
    "telemetry": (
        "import opentelemetry.exporter.otlp.proto.http\nimport discreet.service.metrics",
        None,
    ),  # said by the service, which needs more
    "arrays": ("import array_api_compat, threadpoolctl\nimport discreet.objectives.devices", None),
    "dask": ("import dask.distributed\nimport discreet.objectives", None),
}


# --- the version ------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """The version in every place that has it."""
    found = {}
    for place, pattern in PLACES.items():
        match = re.search(pattern, (ROOT / place).read_text(), re.MULTILINE)
        found[place] = match[1] if match else "none"
    return found


def set_version(version: str, day: datetime.date) -> None:
    """Write it everywhere; the changelog's first section is dated."""
    for place, pattern in PLACES.items():
        text = (ROOT / place).read_text()
        match = re.search(pattern, text, re.MULTILINE)
        assert match is not None, place
        text = f"{text[: match.start(1)]}{version}{text[match.end(1) :]}"
        if place == "CHANGELOG.md":
            text = re.sub(r"^(## \S+) \(.*\)$", rf"\1 ({day})", text, count=1, flags=re.MULTILINE)
        if place == "CITATION.cff":
            text = re.sub(r"^date-released: .*$", f"date-released: {day}", text, flags=re.MULTILINE)
        (ROOT / place).write_text(text)


# --- the built files --------------------------------------------------------------------------------


def build(folder: Path, *kinds: str) -> list[Path]:
    """An sdist and a wheel, by the build backend that is installed here; one at a time, in one folder."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        targets = [f"--{kind}" for kind in kinds]
        run([sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(folder), *targets])
    return sorted(folder.iterdir())


def wrong_with(wheel: Path) -> list[str]:
    """What a wheel lacks or should not have."""
    tracked = run(["git", "ls-files", "src/discreet"]).split()
    if not tracked:  # no checkout: what is there
        tracked = [
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "src" / "discreet").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
    sources = (".pyx", ".pxd", ".h")
    wanted = {path.removeprefix("src/") for path in tracked if not path.endswith(sources)}
    kernels = {Path(path).stem for path in tracked if path.endswith(".pyx")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
        meta = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(meta).decode())
    built = {Path(name).name.split(".")[0] for name in there if name.endswith((".so", ".pyd"))}
    found = [f"missing: {name}" for name in sorted(wanted - there)]
    found += [f"not compiled: {name}" for name in sorted(kernels - built)]
    found += [f"not of the package: {name}" for name in sorted(there) if not name.startswith("discreet/")]
    found += [f"compiled: {name}" for name in sorted(there) if "__pycache__" in name]
    if set(metadata.get_all("Provides-Extra", [])) != set(project["optional-dependencies"]):
        found.append("extras differ from pyproject.toml")
    if metadata["Version"] != project["version"]:
        found.append(f"version {metadata['Version']}")
    return found


# --- environments -----------------------------------------------------------------------------------


def filled(text: str) -> str:
    """A script of `EXTRAS`, complete."""
    return f"PEOPLE = {_PEOPLE}\nEVENTS = {_EVENTS}\n{text}\n"


def try_extra(wheel: Path, extra: str, folder: Path) -> dict[str, str]:
    """A new environment with an extra, or with none; what is installed there."""
    there = Environment(folder / "environment")
    there.install("-c", "constraints.txt", f"{wheel}[{extra}]" if extra else str(wheel))
    run([sys.executable, "-m", "pip", "--python", there.python, "check"])
    if extra:
        there.script(filled(EXTRAS[extra][0]), folder / extra)
    else:
        said = there.script(readme_example(), folder / "readme")
        if "replace-one adjacency" not in said:
            raise Failed(f"the README's example said: {said}")
        try_without(there, folder)
    return there.versions()


def try_without(there: Environment, folder: Path) -> None:
    """Without extras, what needs one fails and names it."""
    for extra, (works, told) in EXTRAS.items():
        if told is None:
            continue
        try:
            there.script(filled(told or works), folder / f"without-{extra}")
        except Failed as failure:
            if f"discreet[{extra}]" in str(failure):
                continue
            raise Failed(f"without {extra} it does not say what to install: {failure}") from None
        raise Failed(f"without {extra}, this worked: {told or works}")


_NOTEBOOK = """
import nbformat
from nbclient import NotebookClient

def shown(cell):
    text = "".join(one.text for one in cell.outputs if one.get("name") == "stdout")
    pictures = sum("image/png" in one.get("data", {}) for one in cell.outputs)
    return [line.rstrip() for line in text.strip().splitlines()], pictures

book = nbformat.read(PATH, 4)
cells = [cell for cell in book.cells if cell.cell_type == "code"]
stored = [shown(cell) for cell in cells]
NotebookClient(book, timeout=600).execute()
wrong = [str(number) for number, cell in enumerate(cells, 1) if shown(cell) != stored[number - 1]]
print(", ".join(wrong))
"""


def try_notebooks(wheel: Path, folder: Path) -> None:
    """Every notebook in a kernel of its own, from top to bottom: it prints and draws what it stores."""
    there = Environment(folder / "environment")
    there.install(f"{wheel}[sklearn,plots,tables]", "nbclient", "ipykernel")
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        wrong = there.script(_NOTEBOOK.replace("PATH", repr(str(path))), folder / path.stem).strip()
        if wrong:
            raise Failed(f"{path.name} shows something else than it stores, in code cells {wrong}")
        print(f"{path.name}: shows what it stores", flush=True)


def check(extras: list[str]) -> None:
    """Build, look into the wheel, and try it."""
    different = set(versions().values())
    if len(different) != 1:
        raise Failed(f"versions differ: {versions()}")
    dist = ROOT / "dist"
    for old in dist.glob("*"):
        old.unlink()
    wheel = next(one for one in build(dist, "sdist", "wheel") if one.suffix == ".whl")
    if problems := wrong_with(wheel):
        raise Failed("; ".join(problems))
    python = ".".join(map(str, sys.version_info[:3]))
    for extra in extras:
        with tempfile.TemporaryDirectory() as folder:
            found = try_extra(wheel, extra, Path(folder))
        tried = stored("release").get("extras", {})
        tried[extra or "none"] = {"version": versions()["pyproject.toml"], "python": python} | {
            "packages": len(found)
        }
        print(f"with {extra or 'no extra'}: works, {len(found)} packages", flush=True)
        last = extra == extras[-1] and set(extras) == {"", *EXTRAS}  # then all of them are new
        tried = {name: tried[name] for name in ("none", *EXTRAS) if name in tried}
        store("release", {"extras": tried}, None if last else ())
    check_notebooks()


def check_notebooks() -> None:
    """With the wheel that was built."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        try_notebooks(wheel, Path(folder))


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version").add_argument("version")
    commands.add_parser("notebooks")
    commands.add_parser("check").add_argument("--extra", action="append", choices=["", *EXTRAS])
    options = parser.parse_args(given)
    try:
        if options.command == "version":
            set_version(options.version, datetime.datetime.now(datetime.UTC).date())
            print(f"version {options.version}; now fill in CHANGELOG.md and commit")
        elif options.command == "notebooks":
            check_notebooks()
        else:
            check(options.extra or ["", *EXTRAS])
    except (Failed, subprocess.TimeoutExpired) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
