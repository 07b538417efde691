"""The tables of docs/releases.md: versions and extras that were tried."""

from __future__ import annotations

from tools.release import EXTRAS
from tools.results import stored
from tools.versions import TESTS

from .blocks import block, markdown

_NAMED = ("numpy", "scipy", "pandas", "scikit-learn", "starlette")


@block
def tested_versions() -> str:
    """What tools/versions.py stored."""
    rows = []
    for one in stored("versions")["runs"]:
        packages = one.get("packages", {})
        named = ", ".join(f"{name} {packages[name]}" for name in _NAMED if packages.get(name))
        said = f": {one['said']}" if one["result"] != "not on the machine" else ""
        files = ", ".join(f"`{path.removeprefix('tests/')}`" for path in one.get("tests", []))
        files = "the cross-section" if one.get("tests") == list(TESTS) else files
        rows.append([one["python"], one["with"], one["result"] + said, files, named])
    return markdown(["Python", "packages", "result", "tests", "packages, some of them"], rows)


@block
def tested_extras() -> str:
    """What tools/release.py stored."""
    found = stored("release")["extras"]
    rows = []
    for name in ("none", *EXTRAS):
        one = found.get(name)
        cells = ["not tried yet", "", ""] if one is None else ["works", one["python"], str(one["packages"])]
        rows.append([name, *cells])
    return markdown(["extra", "result", "Python", "packages installed"], rows)
