"""Rules of the architecture: docs/architecture.md states them in words.

What protects people is read off the syntax trees of src: protective noise is drawn by a `Release` and public
randomness by `PublicRandomness`. Packages import each other in the directions of `MAY_IMPORT` only, and
private names stay in their package. What keeps the library readable is counted: files and frames of one
operation, lines of a package, modules with one importer, depth of inheritance, parameters, meanings of a
class name. Counts may fall and may not rise; lower the numbers here when they do.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import gc
import importlib
import inspect
import io
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import discreet as dc
from discreet import online

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "discreet"

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def packages_on(page: str) -> dict[str, tuple[set[str], int]]:
    """The table of packages on the page: which others each may import, and how many lines it may have."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\| ([\d,]+) \|$", page, re.MULTILINE)
    return {
        name: (set(re.findall(r"`(\w+)`", others)), int(lines.replace(",", "")))
        for name, others, lines in rows
    }


# Which package (or module beside the packages) may import which, beside those that everybody may. Imports for
# type checkers count as well.
EVERYBODY = {"core", "kernels"}
MAY_IMPORT = {name: others for name, (others, _) in packages_on(PAGE).items()}
MOST_LINES = {name: lines for name, (_, lines) in packages_on(PAGE).items()}
# Methods that hand over to a package further up, which they load when they are called.
HANDS_OVER = {
    "results.py": {"evaluation"},  # Trace.regret
}
# Where randomness is taken from elsewhere, and why.
OWN_RANDOMNESS = {
    "audit/hooks.py": "its AuditRandomness tells public randomness from the other words of a run",
    "client.py": "makes idempotency keys of requests, which no answer follows from",
    "service/auth.py": "makes keys of pseudonyms and decision ids, which no answer follows from",
    "spark.py": "makes the secret of the hash of people, and names of files",
    "data/preparing.py": "makes the secret of the hash of people, which no answer follows from",
    "constraints/domains.py": "asks somebody's projection at the same points every time; knows no privacy",
}

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
    "discreet.privacy.samplers.flip_probabilities",
    "discreet.privacy.ordered.OrderedExperts",
    "discreet.privacy.ordered.MOST_ROUNDS",
    "discreet.privacy.ordered.units_per_one",
    "discreet.privacy.randomness.PublicRandomness",
    "discreet.privacy.randomness.public_key",
)
DRAWING_MODULES = {"discreet.privacy.samplers", "discreet.privacy.ordered"}
# What the code calls its releases: they hand out words to compiled loops, and nothing else does.
RELEASES = {"release", "_release", "_draws", "_noises"}
RANDOM = ("random", "secrets", "numpy.random", "os.urandom", "os.getrandom", "ssl.RAND_bytes", "uuid.uuid4")


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
    """Where a file draws protective noise past a `Release`, or public randomness past `PublicRandomness`."""
    if module.package == "privacy" or module.path in OWN_RANDOMNESS:
        return []
    found = []
    names = [(one.line, one.target, False) for one in module.imports]
    for line, name, called in [*names, *((one.line, one.name, one.called) for one in module.used)]:
        drawn = _below(name, *DRAWS) and not _below(name, *DRAWS_NOTHING) and name not in DRAWING_MODULES
        if drawn:
            found.append(f"{module.path}:{line}: {name}; noise is drawn by a Release (gate.reserve)")
        elif _below(name, *RANDOM) and (called or name != "numpy.random.Generator"):
            found.append(f"{module.path}:{line}: {name}; public randomness is drawn by PublicRandomness")
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call | ast.Attribute):
            continue
        owner, name = ["", *_chain(node.func if isinstance(node, ast.Call) else node)][-2:]
        words = isinstance(node, ast.Call) and name == "words" and owner not in RELEASES
        if words or (name == "_source" and owner in ("gate", "_gate")):
            found.append(f"{module.path}:{node.lineno}: {owner}.{name}; a Release hands out words")
    return sorted(set(found))


def test_noise_is_drawn_by_releases_and_public_randomness_by_itself():
    assert [one for module in MODULES for one in raw_randomness(module)] == []


def test_places_with_randomness_of_their_own_have_some():
    for path in OWN_RANDOMNESS:
        assert raw_randomness(Module(f"elsewhere/{path}", (SRC / path).read_text())), path


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nrng = np.random.default_rng(0)",
        "import numpy as np\nrng = np.random.Generator(np.random.PCG64(1))",
        "import numpy\nnumpy.random.seed(3)",
        "from numpy import random\n",
        "from numpy.random import default_rng\n",
        "import random\n",
        "def f():\n    import secrets\n    return secrets.token_bytes(4)",
        "import os\nos.urandom(4)",
        "import ssl\nssl.RAND_bytes(8)",
        "from ..privacy.samplers import noise_steps",
        "from ..privacy import samplers\nsamplers.noise_steps(source, 3, gaussian=True)",
        "from ..privacy import samplers as s\ndraw = s.exponential_choice",
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


# --- directions ----------------------------------------------------------------------------------------


def wrong_directions(module: Module) -> list[str]:
    """Imports of a file that `MAY_IMPORT` does not allow."""
    if "/" not in module.path and module.package not in MAY_IMPORT:
        return []  # the package itself, which may import every other
    allowed, found = MAY_IMPORT.get(module.package, set()) | EVERYBODY, []
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
    assert {"bounds", "privacy", "online"} <= set(cycles(MAY_IMPORT | {"privacy": {"online"}}))
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
        ("privacy/sums/new.py", "from ...online import learner"),
        ("privacy/new.py", "from .. import objectives"),
        ("privacy/new.py", "import discreet.online.learner"),
        ("privacy/new.py", "def f():\n    from ..evaluation import regret"),
        (
            "constraints/new.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..privacy import Gate",
        ),
        ("online/new.py", "import discreet as dc\nplan = dc.planning.plan"),
        ("results.py", "from .evaluation.regret import regret"),
        ("a_new_package/new.py", "from ..privacy import Gate"),
    ],
)
def test_wrong_directions_are_noticed(path, text):
    assert wrong_directions(Module(path, text)) != []


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

SOURCES = (".py", ".pyx", ".pxd", ".h")
# Modules that exactly one other imports, that hold no public name, and that stand alone all the same.
ONE_IMPORTER = {
    "objectives.gpu": "loads an optional package: kernels of a GPU are compiled where it is there",
    "service.postgres": "loads an optional package: the driver of a database that not everybody has",
    "evaluation.demo": "loads everything else, when its command runs: commands are listed without that",
}
# Classes with more than three classes of ours in their method resolution order.
DEEP_CLASSES: dict[str, int] = {}
# Functions with more than eight parameters, other than public functions and constructors.
WIDE_FUNCTIONS = {"objectives": 3}
PUBLIC = ("privacy", "constraints", "objectives", "data", "bounds", "online", "offline", "planning",
          "evaluation", "audit")  # fmt: skip


def lines_of(package: str) -> int:
    """The lines of a package, or of a module beside the packages."""
    files = [SRC / f"{package}.py"] if (SRC / f"{package}.py").exists() else (SRC / package).rglob("*")
    return sum(len(file.read_text().splitlines()) for file in files if file.suffix in SOURCES)


def test_packages_have_no_more_lines_than_the_page_says():
    assert {name: lines for name, most in MOST_LINES.items() if (lines := lines_of(name)) > most} == {}


def exported() -> set[str]:
    """The public names of the library: what its packages say they offer."""
    packages = [dc, *(importlib.import_module(f"discreet.{name}") for name in PUBLIC)]
    theorems = {node.name for module in MODULES if module.package == "bounds" for node in defined(module)}
    return theorems | {name for package in packages for name in getattr(package, "__all__", ())}


def defined(module: Module) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """The classes and functions at the top of a file."""
    yield from (node for node in module.tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))


def single_importers(modules: list[Module], public: set[str]) -> dict[str, list[str]]:
    """Modules that exactly one other imports, by package, unless it holds public names."""
    names = {module.path.removesuffix(".py").replace("/", "."): module for module in modules}
    importers: dict[str, set[str]] = collections.defaultdict(set)
    for home, module in names.items():
        for one in module.imports:
            target = one.target.removeprefix("discreet.")
            target = target if target in names else target.rpartition(".")[0]
            if target in names and target != home:
                importers[target].add(home)
    found = collections.defaultdict(list)
    for target, others in importers.items():
        beside = "." not in target  # the packages: something to be found
        if len(others) == 1 and not beside and not public & {node.name for node in defined(names[target])}:
            found[names[target].package].append(target)
    return found


def test_modules_with_one_importer_hold_public_names():
    found = single_importers(MODULES, exported())
    assert sorted(one for modules in found.values() for one in modules) == sorted(ONE_IMPORTER)


def test_a_new_module_with_one_importer_is_noticed():
    user, part = Module("core/user.py", "from .part import f"), Module("core/part.py", "def f(): ...")
    assert single_importers([user, part], set()) == {"core": ["core.part"]}
    assert single_importers([user, part], {"f"}) == {}
    assert single_importers([user, part, Module("data/other.py", "from ..core import part")], set()) == {}


def every_class() -> Iterator[type]:
    for found in pkgutil.walk_packages(dc.__path__, "discreet."):
        with contextlib.suppress(ImportError):  # of packages that are optional
            if not found.name.endswith("__main__"):
                module = importlib.import_module(found.name)
                mine = [one for one in vars(module).values() if inspect.isclass(one)]
                yield from (one for one in mine if one.__module__ == found.name)


def test_inheritance_is_at_most_three_deep():
    deep = collections.defaultdict(list)
    for one in every_class():
        if sum(base.__module__.startswith("discreet") for base in one.__mro__) > 3:
            deep[one.__module__.split(".")[1]].append(one.__qualname__)
    assert_at_most(deep, DEEP_CLASSES)


def wide_functions(module: Module, public: set[str]) -> list[str]:
    """Functions of a file with more than eight parameters, where none is public or makes a public object."""
    constructors = {
        id(node)
        for owner in ast.walk(module.tree)
        if isinstance(owner, ast.ClassDef) and owner.name in public
        for node in owner.body
    }
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or id(node) in constructors:
            continue
        given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if len([name for name in given if name not in ("self", "cls")]) > 8 and node.name not in public:
            found.append(f"{module.path}:{node.lineno}: {node.name}")
    return found


def test_functions_have_at_most_eight_parameters():
    wide, public = collections.defaultdict(list), exported()
    for module in MODULES:
        for one in wide_functions(module, public):
            wide[module.package].append(one)
    assert_at_most(wide, WIDE_FUNCTIONS)


def test_a_wide_function_is_noticed():
    text = "def f(a, b, c, d, e, *, f, g, h, i): ..."
    assert wide_functions(Module("core/new.py", text), set()) == ["core/new.py:1: f"]
    assert wide_functions(Module("core/new.py", text), {"f"}) == []
    assert wide_functions(Module("core/new.py", text.replace(", i", "")), set()) == []
    method = "class A:\n    def __init__(self, a, b, c, d, e, f, g, h, i): ..."
    assert wide_functions(Module("core/new.py", method), {"A"}) == []
    assert wide_functions(Module("core/new.py", method), set()) == ["core/new.py:2: __init__"]


def test_a_new_learner_takes_sixty_lines():
    """The toy goes through contract, audit, save and resume, as every registered learner does."""
    assert len((ROOT / "tests" / "online" / "toy.py").read_text().splitlines()) <= 60


def test_a_class_name_has_one_meaning():
    homes = collections.defaultdict(list)
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.path)
    several = {name: found for name, found in homes.items() if len(found) > 1}
    assert several == {}


def assert_at_most(found: dict[str, list[str]], limits: dict[str, int]) -> None:
    too_many = {name: sorted(ones) for name, ones in found.items() if len(ones) > limits.get(name, 0)}
    assert too_many == {}, f"more than { ({name: limits.get(name, 0) for name in too_many}) }"


# --- walks ---------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What a reader of one operation goes through: files, frames, and returns to a file that was left."""

    files: int
    frames: int
    returns: int


# Measured when everything is loaded. None of the three may rise.
WALKS = {
    "HedgeSelector": Cost(9, 41, 32),
    "RunningSumSelector": Cost(11, 55, 36),
    "LeaderSelector": Cost(8, 37, 21),
    "PhasedSelector": Cost(11, 111, 80),
    "RollingSelector": Cost(11, 132, 90),
    "BestOfBothSelector": Cost(16, 174, 141),
    "ThompsonSelector": Cost(10, 55, 29),
    "MetaFrankWolfe": Cost(16, 81, 49),
    "MetaFrankWolfe: construction": Cost(24, 1621, 1810),
    "PrivateGreedy": Cost(16, 286, 250),
    "discreet select": Cost(24, 2026, 1171),
    "a block of the service": Cost(24, 534, 307),
}


def walked(work: Callable[[], object]) -> Cost:
    """The cost of one operation, by a profile of the frames of src that it enters and goes back to."""
    entered: list[str] = []
    stack: list[str] = []
    path: list[str] = []

    def visit(file: str) -> None:
        if file and (not path or path[-1] != file):
            path.append(file)

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            stack.append(file if file.startswith(str(SRC)) else "")
            if stack[-1]:
                entered.append(file)
                visit(file)
        elif event == "return" and stack:
            stack.pop()
            visit(next((file for file in reversed(stack) if file), ""))

    before = sys.getprofile()
    gc.disable()  # what other tests left is not collected, and closed by code of src, in the walk
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return Cost(len(set(entered)), len(entered), len(path) - len(set(path)))


def people() -> dc.objectives.Coverage:
    return dc.objectives.Coverage((np.random.default_rng(0).random((400, 12)) < 0.3).astype(int))


def played(name: str) -> tuple[Callable[[], object], list[Callable[[], object]]]:
    """A learner's construction, and sixty of its rounds: among them are some with a release."""
    budget, crowd = dc.Budget(1.0, 1e-6), people()
    persons = [0.0 if name == "ThompsonSelector" else crowd[t] for t in range(64)]
    shapes: dict[str, tuple[object, ...]] = {"PhasedSelector": (12, 3), "RollingSelector": (12, 3)}
    blocks = dc.constraints.PartitionMatroid([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], 1)
    shapes["MetaFrankWolfe"] = (blocks, 400)
    shape = shapes.get(name, (12, 3, 400))

    def make() -> Any:
        return getattr(online, name)(*shape, budget, seed=0)

    def play(learner: Any, t: int) -> None:
        learner.choose()
        learner.learn(persons[t])

    warm, learner = make(), make()
    for t in range(64):
        play(warm, t)
    for t in range(3):
        play(learner, t)
    return make, [partial(play, learner, t) for t in range(3, 64)]


@pytest.mark.parametrize("name", [name for name in WALKS if hasattr(online, name)])
def test_rounds_of_learners_do_not_grow(name):
    make, rounds = played(name)
    costs = [walked(one) for one in rounds]
    assert_within(name, Cost(*map(max, zip(*costs, strict=True))))
    if f"{name}: construction" in WALKS:
        assert_within(f"{name}: construction", walked(make))


def test_a_private_choice_does_not_grow():
    crowd, budget = people(), dc.Budget(1.0, 1e-6)

    def choose() -> object:
        return dc.offline.PrivateGreedy(3, budget, seed=0).select(crowd)

    choose()
    assert_within("PrivateGreedy", walked(choose))


def test_the_select_command_does_not_grow(tmp_path, monkeypatch):
    from discreet.cli import main

    monkeypatch.setenv("COLUMNS", "100")  # tables are fitted to it, word by word, with the names of files
    liked = np.random.default_rng(0).random((200, 12)) < 0.3
    (tmp_path / "visits.csv").write_text(
        "user,page\n" + "".join(f"u{i},p{j}\n" for i, j in np.argwhere(liked).tolist())
    )
    (tmp_path / "pages.csv").write_text("page\n" + "".join(f"p{j}\n" for j in range(12)))
    monkeypatch.chdir(tmp_path)
    words = ["select", "visits.csv", "--person", "user", "--item", "page", "--items", "pages.csv"]
    words += ["--k", "3", "--epsilon", "1", "--seed", "0"]
    for _ in range(2):
        with contextlib.redirect_stdout(io.StringIO()):
            cost = walked(lambda: main(words))
    assert_within("discreet select", cost)


def test_closing_a_block_of_the_service_does_not_grow(tmp_path):
    from tests.service.world import World, likes

    world = World(f"sqlite:///{tmp_path}/service.db", likes(measure=0.1, holdout=0.05))
    for _ in range(2):
        for _ in range(8):
            _, place, _ = world.serve()
            world.report(place, ["item 1"])
        cost = walked(lambda: world.worker.tick(world.shop))
    world.store.close()
    assert_within("a block of the service", cost)


def assert_within(name: str, found: Cost) -> None:
    assert all(have <= most for have, most in zip(found, WALKS[name], strict=True)), f"{name}: {found}"


def test_walks_count_what_is_entered(tmp_path):
    left = [dc.privacy.SQLiteLedger(tmp_path / "ledger.db")]
    left.append(left)
    del left  # a cycle: closed by code of src where it is collected, at no time that a test chooses
    assert walked(lambda: [[] for _ in range(5000)]) == Cost(0, 0, 0)
    cost = walked(lambda: dc.Budget(1.0, 1e-6))
    assert cost.files >= 1
    assert cost.frames >= cost.files
    with pytest.raises(AssertionError, match="HedgeSelector"):
        assert_within("HedgeSelector", WALKS["HedgeSelector"]._replace(frames=10_000))


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\ndef f(rng: np.random.Generator | None): ...",
        "import numpy as np\nfine = isinstance(rng, np.random.Generator)",
        "from ..privacy import PublicRandomness\nPublicRandomness.seeded(3).generator.random()",
        "from ..privacy import samplers\ngrid = samplers.Grid.for_noise(1.0, 1.0, 0)",
        "from ..privacy import Seed\ndef f(release, seed: Seed): return release.words(3)",
        "def f(gate):\n    return gate.reserve(event).noise(grid, 3), gate.public_randomness().words",
    ],
)
def test_what_draws_nothing_is_allowed(text):
    assert raw_randomness(Module("online/new.py", text)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("privacy/new.py", "from ..core import checks\nfrom .gate import Gate\nfrom .. import kernels"),
        ("cli/new.py", "from .. import __version__\nfrom . import main"),
        ("__init__.py", "from .online.learner import load"),
        ("results.py", "def f():\n    from .evaluation.regret import regret\n    return regret"),
    ],
)
def test_right_directions_are_not(path, text):
    assert wrong_directions(Module(path, text)) == []
