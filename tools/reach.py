"""A pytest plugin: which tests enter which functions of src, and how much processor time each test takes.

    REACH=folder PYTHONPATH=tools:src python -m pytest -p reach tests/...

Every function of the package says its name when it begins: the import of a module adds one statement to each
(in memory; files stay as they are). So commands and services that a test starts in other processes are seen,
too, where ``sitecustomize`` imports this module (tools/mutants.py writes one into its copy).

The folder gets lines of JSON: [file, its digest, name of the test, seconds, passed, ["file:function", ...]]
for each test, [file, its digest, "complete"] once all tests of a file were run, and [name of the test,
"file:function"] from other processes. Used by tools/mutants.py: a test that never enters a function cannot
notice that it is broken.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import os
import sys
from collections.abc import Generator, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = "discreet"
NAME = "__reach__"


def _named(tree: ast.Module, file: str) -> ast.Module:
    """The module with a call at the beginning of every function."""

    def below(node: ast.AST, path: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*path, child.name)
                below(child, inner)
                if not isinstance(child, ast.ClassDef):
                    place = f"{file}:{'.'.join(inner)}"
                    call = ast.parse(f"{NAME}({place!r})").body
                    for part in ast.walk(call[0]):
                        if isinstance(part, ast.expr | ast.stmt):
                            ast.copy_location(part, child.body[0])
                    first = int(ast.get_docstring(child, clean=False) is not None)
                    child.body[first:first] = call
            else:
                below(child, path)

    below(tree, ())
    return tree


class _Loader(SourceFileLoader):
    def path_stats(self, _: str) -> Any:
        raise OSError("compiled anew")  # neither read from nor written to a cache

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        file = str(path).rpartition(f"{os.sep}{PACKAGE}{os.sep}")[2]
        return compile(_named(ast.parse(data), file), path, "exec", dont_inherit=True, optimize=_optimize)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


_entered: set[str] = set()


def _written(line: Any) -> None:
    """Append a line at once: a process that is killed has told what it entered."""
    folder = Path(os.environ["REACH"])
    folder.mkdir(parents=True, exist_ok=True)
    out = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(out, (json.dumps(line) + "\n").encode())
    finally:
        os.close(out)


def _elsewhere(place: str) -> None:
    if place not in _entered:
        _entered.add(place)
        _written([os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0], place])


def install() -> None:
    """Watch this process: one that runs tests, or one that a test has started."""
    if not hasattr(builtins, NAME):
        setattr(builtins, NAME, _elsewhere if "PYTEST_CURRENT_TEST" in os.environ else _entered.add)
        sys.meta_path.insert(0, _Finder())


@cache
def digest(file: str) -> str:
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()


def _wrapper() -> Any:
    import pytest  # here, since other processes need none of it

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: Any, nextitem: Any) -> Generator[None, Any, Any]:
        _entered.clear()
        _failed.clear()
        start = sum(os.times()[:4])
        try:
            return (yield)
        finally:
            file = item.nodeid.partition("::")[0]
            seconds = round(sum(os.times()[:4]) - start, 4)
            _written([file, digest(file), item.nodeid, seconds, not _failed, sorted(_entered)])
            if nextitem is None or nextitem.nodeid.partition("::")[0] != file:
                _written([file, digest(file), "complete"])

    return pytest_runtest_protocol


_failed: list[str] = []


def pytest_runtest_logreport(report: Any) -> None:
    if report.outcome != "passed":
        _failed.append(report.nodeid)


if "PYTEST_CURRENT_TEST" not in os.environ:
    pytest_runtest_protocol = _wrapper()
    install()  # now: conftest.py imports the package before plugins are configured
