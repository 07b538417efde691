"""What is still compiled when it is first used is known by the names of its families."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import discreet as dc
from discreet import backends
from discreet.backends import numba

SOURCE = Path(dc.__file__).parent


def test_families_are_those_of_the_default_backend():
    modules = {
        path.stem for path in Path(numba.__path__[0]).iterdir() if any(path.rglob("*.py")) or path.is_file()
    }
    modules -= {"__init__", "__pycache__", "compiled"}  # what its own loops share
    assert set(backends.FAMILIES) == modules
    with pytest.raises(AttributeError):
        _ = backends.nothing


def test_nothing_but_the_backends_knows_the_compiler():
    for path in SOURCE.rglob("*.py"):
        if "backends" in path.relative_to(SOURCE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            )
            home = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert not any("numba" in name for name in (*names, home)), path
