"""Learners name families of loops; another backend can stand behind the names without touching a learner."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import discreet as dc
from discreet import backends
from discreet.backends import numba
from discreet.backends.patience import Patience
from tests.backends.plain import selectors as plain

LASTS = Patience.lasts  # which tests replace
SOURCE = Path(dc.__file__).parent


def _decisions(sums):
    rng = np.random.default_rng(3)
    people = dc.objectives.Coverage((rng.random((40, 6)) < 0.4).astype(float))
    learner = dc.online.RunningSumSelector(
        6, 2, 40, dc.Budget(1.0, 1e-6), sums=sums, resample_every=5, seed=0
    )
    return learner.run(people).selections


@pytest.mark.parametrize(
    ("sums", "calls"), [("sqrt", {"draw_ordered": 1, "ordered_rounds": 1}), ("tree", {"draw_ordered": 8})]
)
def test_a_backend_in_front_is_used_and_changes_nothing(sums, calls):
    expected = _decisions(sums)
    plain.calls.clear()
    with backends.use("tests.backends.plain"):
        assert backends.selectors is plain
        found = _decisions(sums)
    assert plain.calls | calls == plain.calls
    np.testing.assert_array_equal(found, expected)


def test_what_a_backend_does_not_have_comes_from_the_one_that_has_it_all():
    with backends.use("tests.backends.plain"):
        assert backends.hedge.__name__ == "discreet.backends.numba.hedge"
    assert backends.selectors.__name__ == "discreet.backends.numba.selectors"


def test_a_backend_that_is_missing_is_refused_at_once():
    with pytest.raises(ModuleNotFoundError), backends.use("tests.backends.nowhere"):
        pass
    assert backends.selectors is not plain


def test_patience_is_for_so_much_work_of_each_kind(monkeypatch):
    monkeypatch.setattr(Patience, "lasts", LASTS)
    patience = Patience(100)
    assert [patience.lasts(work) for work in (60, 60, 40, 1)] == [True, False, True, False]
    assert patience.lasts(100, "another kind")


def test_patience_is_shorter_where_the_loop_was_compiled_before(monkeypatch, tmp_path):
    monkeypatch.setattr(Patience, "lasts", LASTS)
    code = Path(numba.compiled.__file__)

    class Loop:
        """What `Patience` looks at in a compiled loop."""

        signatures: ClassVar[list[Any]] = []
        stats = SimpleNamespace(cache_path=str(tmp_path))
        py_func = staticmethod(numba.compiled.part)

    def waits(loop):
        patience = Patience(160)
        return [patience.lasts(work, None, lambda: loop) for work in (10, 100)]

    assert waits(Loop()) == [True, True]
    kept = tmp_path / "compiled.part-1.py3.nbi"
    kept.touch()
    assert waits(Loop()) == [True, False]
    os.utime(kept, (code.stat().st_mtime - 1,) * 2)  # of other code, from before an upgrade
    assert waits(Loop()) == [True, True]
    monkeypatch.setattr(Loop, "signatures", [()])
    assert waits(Loop()) == [True, False]


def test_a_compiled_loop_is_found_in_the_cache(tmp_path):
    """Its files are named as `Patience` expects."""
    program = """
import numpy as np
from discreet import backends
from discreet.backends.patience import _kept
print(_kept.__wrapped__(backends.convex.shorten))
backends.convex.shorten(np.ones(2), 1.0)
print(_kept(backends.convex.shorten))
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == "False\nTrue\n", done.stderr


def test_families_are_those_of_the_default_backend():
    modules = {path.stem for path in Path(numba.__path__[0]).iterdir()}
    modules -= {"__init__", "__pycache__", "compiled", "vectors"}  # what its own loops share
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
