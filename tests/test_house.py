"""The rules of the house, read off the syntax trees of src: docs/architecture.md states them in words.

Protective noise is drawn by a `Release` and public coins by `Coins`; packages import each other in the
directions of `MAY_IMPORT` only; private names stay in their package; files and folders stay small.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "discreet"

# Which package (or module beside the packages) may import which. Imports for type checkers count as well.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "backends": set(),
    "constraints": {"core", "backends"},
    "privacy": {"core", "backends"},
    "data": {"core", "backends", "privacy"},
    "objectives": {"core", "backends", "constraints", "privacy", "data"},
    "bounds": {"constraints", "privacy", "objectives"},
    "results": {"core", "constraints", "privacy", "objectives"},
    "online": {"core", "backends", "constraints", "privacy", "objectives", "bounds", "results"},
    "offline": {"core", "constraints", "privacy", "objectives", "bounds", "results"},
    "planning": {"core", "constraints", "privacy", "objectives", "bounds", "online"},
    "evaluation": {
        "core",
        "client",
        "constraints",
        "privacy",
        "data",
        "objectives",
        "results",
        "online",
        "offline",
        "planning",
    },
    "audit": {"core", "constraints", "privacy", "objectives", "online", "offline"},
    "cli": {
        "core",
        "constraints",
        "privacy",
        "data",
        "objectives",
        "results",
        "offline",
        "planning",
        "evaluation",
        "audit",
        "service",
    },
    "client": set(),
    "spark": {"core", "data"},
    "service": {"core", "constraints", "privacy", "objectives", "online", "planning"},
}
# Methods that hand over to a package further up, which they load when they are called.
HANDS_OVER = {
    "results.py": {"evaluation"},  # Trace.regret
}
# Where randomness is taken from elsewhere, and why.
OWN_RANDOMNESS = {
    "audit/hooks.py": "its Source tells public coins from the other words of a run",
    "service/keys.py": "makes keys of marks and decision ids, which no answer follows from",
    "spark.py": "makes the secret of the hash of people, and names of files",
    "data/store/preparing.py": "makes the secret of the hash of people, which no answer follows from",
    "constraints/domains.py": "asks somebody's projection at the same points every time; knows no privacy",
}
LONGEST_FILE, LARGEST_FOLDER = 450, 19

# Where protective noise is made, and what may be used of it elsewhere: grids, scores and probabilities, which
# draw nothing. The modules themselves may be imported: what is read off them is looked at.
DRAWS = (
    "discreet.privacy.samplers",
    "discreet.privacy.ordered",
    "discreet.privacy.randomness",
    "discreet.privacy.Randomness",
    "discreet.privacy.ReproducibleRandomness",
    "discreet.privacy.SecureRandomness",
)
DRAWS_NOTHING = (
    "discreet.privacy.samplers.Grid",
    "discreet.privacy.samplers.STEPS_BITS",
    "discreet.privacy.samplers.choice_log_probabilities",
    "discreet.privacy.samplers.flips.flip_probabilities",
    "discreet.privacy.ordered.OrderedExperts",
    "discreet.privacy.ordered.MOST_ROUNDS",
    "discreet.privacy.ordered.units_per_one",
)
DRAWING_MODULES = {"discreet.privacy.samplers", "discreet.privacy.samplers.flips", "discreet.privacy.ordered"}
# What the code calls its releases: they hand out words to compiled loops, and nothing else does.
RELEASES = {"release", "_release", "_draws", "_noises"}
COINS = ("random", "secrets", "numpy.random", "os.urandom", "os.getrandom", "ssl.RAND_bytes", "uuid.uuid4")


# --- reading -------------------------------------------------------------------------------------------


class Import(NamedTuple):
    """One imported name: where it stands, what it is in full, and by which name it goes."""

    line: int
    target: str
    alias: str
    late: bool  # loaded when a function is called, or never: for type checkers


class Used(NamedTuple):
    """A name in full, what it was read off, and whether it is called."""

    line: int
    name: str
    imported: str
    called: bool


@dataclass(frozen=True)
class Module:
    """A file of src, by its path below ``discreet``."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self.tree, ["discreet", *self.path.split("/")[:-1]], late=False))

    @cached_property
    def used(self) -> list[Used]:
        """Whatever is read off an imported name."""
        aliases = {one.alias: one.target for one in self.imports}
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        inner = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner:
                root, *rest = _chain(node)
                if root in aliases:
                    name = ".".join([aliases[root], *rest])
                    found.append(Used(node.lineno, name, aliases[root], id(node) in called))
        return found


def _imports(node: ast.AST, folder: list[str], *, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            base = folder[: len(folder) + 1 - child.level] if child.level else []
            home = ".".join([*base, *([child.module] if child.module else [])])
            for name in child.names:
                yield Import(child.lineno, f"{home}.{name.name}", name.asname or name.name, late)
        elif isinstance(child, ast.Import):
            for name in child.names:
                short = name.name if name.asname else name.name.split(".")[0]
                yield Import(child.lineno, short, name.asname or short, late)
                if not name.asname and short != name.name:
                    yield Import(child.lineno, name.name, "", late)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, folder, late=late or function or typing)


def _chain(node: ast.expr) -> list[str]:
    """``a.b.c`` as its parts; nothing that is known where it does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else ["", *reversed(parts)]


def _below(name: str, *homes: str) -> bool:
    return any(name == home or name.startswith(home + ".") for home in homes)


MODULES = [Module(file.relative_to(SRC).as_posix(), file.read_text()) for file in sorted(SRC.rglob("*.py"))]


# --- randomness ----------------------------------------------------------------------------------------


def raw_randomness(module: Module) -> list[str]:
    """Where a file draws protective noise past a `Release`, or public coins past `Coins`."""
    if module.package == "privacy" or module.path in OWN_RANDOMNESS:
        return []
    found = []
    names = [(one.line, one.target, False) for one in module.imports]
    for line, name, called in [*names, *((one.line, one.name, one.called) for one in module.used)]:
        drawn = _below(name, *DRAWS) and not _below(name, *DRAWS_NOTHING) and name not in DRAWING_MODULES
        if drawn:
            found.append(f"{module.path}:{line}: {name}; noise is drawn by a Release (gate.reserve)")
        elif _below(name, *COINS) and (called or name != "numpy.random.Generator"):
            found.append(f"{module.path}:{line}: {name}; public coins are drawn by Coins")
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call | ast.Attribute):
            continue
        owner, name = ["", *_chain(node.func if isinstance(node, ast.Call) else node)][-2:]
        words = isinstance(node, ast.Call) and name == "words" and owner not in RELEASES
        if words or (name == "_source" and owner in ("gate", "_gate")):
            found.append(f"{module.path}:{node.lineno}: {owner}.{name}; a Release hands out words")
    return sorted(set(found))


def test_noise_is_drawn_by_releases_and_coins_by_coins():
    assert [one for module in MODULES for one in raw_randomness(module)] == []


def test_places_with_randomness_of_their_own_have_some():
    for path in OWN_RANDOMNESS:
        assert raw_randomness(Module(f"elsewhere/{path}", (SRC / path).read_text())), path


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nrng = np.random.default_rng(0)",
        "import numpy as np\nrng = np.random.Generator(np.random.PCG64(1))",
        "import numpy as np\nmake = np.random\n",
        "import numpy\nnumpy.random.seed(3)",
        "from numpy import random\n",
        "from numpy.random import default_rng\n",
        "import random\n",
        "from random import Random\n",
        "def f():\n    import secrets\n    return secrets.token_bytes(4)",
        "import os\nos.urandom(4)",
        "from os import urandom",
        "import ssl\nssl.RAND_bytes(8)",
        "from ..privacy.samplers import noise_steps",
        "from ..privacy import samplers\nsamplers.noise_steps(source, 3, gaussian=True)",
        "from ..privacy import samplers as s\ndraw = s.exponential_choice",
        "from ..privacy.samplers import flips\nflips.flipped_choice(source, scores, 1.0)",
        "from ..privacy.samplers.spherical import spherical_steps",
        "from ..privacy.samplers.choice import exact_draw",
        "from .. import privacy\nprivacy.samplers.noise_steps(source, 1, gaussian=True)",
        "import discreet as dc\ndc.privacy.samplers.spherical_steps(source, 3)",
        "from ..privacy import SecureRandomness",
        "from ..privacy import ReproducibleRandomness as Seeded",
        "from ..privacy.randomness import randomness",
        "def f(source):\n    return source.words(3)",
        "def f(self):\n    return self._seed.words(3)",
        "def f(make):\n    return make().words(3)",
        "def f(gate):\n    return gate._source",
        "def f(self):\n    return self._gate._source",
    ],
)
def test_randomness_of_ones_own_is_noticed(text):
    assert raw_randomness(Module("online/new.py", text)) != []
    assert raw_randomness(Module("privacy/new.py", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\ndef f(rng: np.random.Generator | None): ...",
        "import numpy as np\nfine = isinstance(rng, np.random.Generator)",
        "from ..privacy import Coins\nCoins.seeded(3).generator.random()",
        "from ..privacy import samplers\ngrid = samplers.Grid.for_noise(1.0, 1.0, 0)",
        "from ..privacy import Seed\ndef f(release, seed: Seed): return release.words(3)",
        "def f(gate):\n    return gate.reserve(event).noise(grid, 3), gate.coins().words",
    ],
)
def test_what_draws_nothing_is_allowed(text):
    assert raw_randomness(Module("online/new.py", text)) == []


# --- directions ----------------------------------------------------------------------------------------


def wrong_directions(module: Module) -> list[str]:
    """Imports of a file that `MAY_IMPORT` does not allow."""
    if "/" not in module.path and module.package not in MAY_IMPORT:
        return []  # the package itself, which may import every other
    allowed, found = MAY_IMPORT.get(module.package, set()), []
    names = [(one.line, one.target, one.late) for one in module.imports]
    names += [(one.line, one.name, False) for one in module.used if one.imported == "discreet"]
    for line, name, late in names:
        home, other = [*name.split("."), ""][:2]
        if home != "discreet" or other in ("", module.package, "__version__"):
            continue
        handed = late and other in HANDS_OVER.get(module.path, set())
        if other not in allowed and not handed:
            found.append(f"{module.path}:{line}: {name}; {module.package} may import {sorted(allowed)}")
    return sorted(set(found))


def cycles(table: dict[str, set[str]]) -> list[str]:
    """Packages of which each may, by a detour or not, import itself."""
    reach = {name: set(others) for name, others in table.items()}
    for _ in table:
        for others in reach.values():
            others |= {further for one in others for further in reach[one]}
    return sorted(name for name, others in reach.items() if name in others)


def test_packages_import_each_other_in_the_directions_of_the_table():
    assert [one for module in MODULES for one in wrong_directions(module)] == []


def test_the_table_has_no_cycle():
    assert cycles(MAY_IMPORT) == []
    assert {"core", "privacy", "online"} <= set(cycles(MAY_IMPORT | {"core": {"online"}}))
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]


def test_the_table_has_every_package_and_no_direction_that_nobody_takes():
    packages = {path.name for path in SRC.iterdir() if path.is_dir() and path.name != "__pycache__"}
    beside = {path.stem for path in SRC.glob("*.py")} - {"__init__", "__main__"}
    assert set(MAY_IMPORT) == packages | beside
    taken: dict[str, set[str]] = {name: set() for name in MAY_IMPORT}
    for module in MODULES:
        for one in module.imports:
            if _below(one.target, "discreet"):
                taken.get(module.package, set()).add(one.target.split(".")[1])
    unused = {name: others - taken[name] for name, others in MAY_IMPORT.items()}
    assert {name: others for name, others in unused.items() if others} == {}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/new.py", "from ..privacy import Gate"),
        ("privacy/sums/new.py", "from ...online import protocol"),
        ("privacy/new.py", "from .. import objectives"),
        ("privacy/new.py", "import discreet.online.protocol"),
        ("privacy/new.py", "def f():\n    from ..evaluation import regret"),
        (
            "constraints/new.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..privacy import Gate",
        ),
        ("online/new.py", "import discreet as dc\nplan = dc.planning.plan"),
        ("results.py", "from .evaluation.regret import regret"),
        ("a_new_package/new.py", "from ..core import checks"),
    ],
)
def test_wrong_directions_are_noticed(path, text):
    assert wrong_directions(Module(path, text)) != []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("privacy/new.py", "from ..core import checks\nfrom .gate import Gate\nfrom .. import backends"),
        ("cli/new.py", "from .. import __version__\nfrom . import main"),
        ("__init__.py", "from .online.protocol import load"),
        ("results.py", "def f():\n    from .evaluation.regret import regret\n    return regret"),
    ],
)
def test_right_directions_are_not(path, text):
    assert wrong_directions(Module(path, text)) == []


def directions_on(page: str) -> dict[str, set[str]]:
    """The table of packages on the page, a row per package, as `MAY_IMPORT` has it."""
    packages = page.split("\n## ")[1]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", packages, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", others)) for name, others in rows}


def test_the_page_has_the_same_directions():
    assert directions_on((ROOT / "docs" / "architecture.md").read_text()) == MAY_IMPORT


@pytest.mark.parametrize(
    ("row", "changed"),
    [
        ("| `core`, `backends` |", "| `core` |"),
        ("| `core`, `backends`, `privacy` |", "| `core`, `privacy`, `online` |"),
        ("| `planning` |", "| `plans` |"),
    ],
)
def test_another_row_on_the_page_is_noticed(row, changed):
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert row in page
    assert directions_on(page.replace(row, changed, 1)) != MAY_IMPORT


# --- private names -------------------------------------------------------------------------------------


def private_names(module: Module) -> list[str]:
    """Names with a leading underscore that a file takes from another package."""
    found = []
    names = [(one.line, one.target) for one in module.imports]
    for line, name in [*names, *((one.line, one.name) for one in module.used)]:
        home, *rest = name.split(".")
        if home != "discreet" or not rest or rest[0] == module.package:
            continue
        if any(re.fullmatch(r"_(?!_).*", part) for part in rest):
            found.append(f"{module.path}:{line}: {name}")
    return sorted(set(found))


def test_private_names_stay_in_their_package():
    assert [one for module in MODULES for one in private_names(module)] == []


def test_modules_have_plain_names():
    """What is private is a name within a file; a file of its own is something to be found."""
    names = [module.path for module in MODULES if re.search(r"(^|/)_(?!_)", module.path)]
    assert names == []


@pytest.mark.parametrize(
    "text",
    [
        "from ..privacy.gate import _filter",
        "from ..privacy._hidden import Gate",
        "from ..privacy import _hidden",
        "import discreet.privacy._hidden",
        "from ..privacy import gate\ngate._filter(budget)",
        "import discreet as dc\ndc.privacy.gate._filter(budget)",
        "def f():\n    from ..privacy import gate as other\n    return other._filter",
    ],
)
def test_private_names_of_others_are_noticed(text):
    assert private_names(Module("online/new.py", text)) != []
    assert private_names(Module("privacy/new.py", text)) == []


# --- sizes ---------------------------------------------------------------------------------------------


def too_large(modules: list[Module]) -> list[str]:
    """Files that are too long, and folders with too many modules."""
    found = [
        f"{module.path}: {lines} lines"
        for module in modules
        if (lines := len(module.text.splitlines())) > LONGEST_FILE
    ]
    folders: dict[str, int] = {}
    for module in modules:
        folder, _, name = module.path.rpartition("/")
        folders[folder] = folders.get(folder, 0) + (name != "__init__.py")
    return found + [f"{name}: {count} modules" for name, count in folders.items() if count > LARGEST_FOLDER]


def test_files_and_folders_are_small():
    assert too_large(MODULES) == []


def test_large_files_and_folders_are_noticed():
    assert too_large([Module("core/new.py", "\n" * 450)]) == []
    assert too_large([Module("core/new.py", "\n" * 451)]) == ["core/new.py: 451 lines"]
    crowd = [Module(f"core/a{number}.py", "") for number in range(20)]
    assert too_large(crowd) == ["core: 20 modules"]
    assert too_large([*crowd[:19], Module("core/__init__.py", "")]) == []
