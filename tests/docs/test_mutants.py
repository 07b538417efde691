"""Mutants: what is broken, how they are drawn, and which tests are taken to reach them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

from tools import mutants
from tools.evidence import ROOT

PYTHON = b'''
RATE = 0.5

class A:
    share: float = 2.0

    def spend(self, gate, x: float = 1.0) -> float:
        """Words - and more."""
        if x < 3:
            raise ValueError(f"{x - 1}")
        gate.charge(x)
        return min(x / 2, -x)
'''
CYTHON = b'''
cdef inline double half(const double *x, int n) noexcept nogil:
    """a + b"""
    cdef double total = 1.0
    for i in range(n - 1):  # x - y
        total += x[i] * 0.5
    return total
'''


def test_what_is_broken():
    found = {(one.function, one.before, one.after) for one in mutants.of_python("a.py", PYTHON)}
    assert found == {
        ("", "0.5", "1.0"),
        ("", "2.0", "4.0"),
        ("A.spend", "x < 3", "(x > 3)"),
        ("A.spend", "gate.charge(x)", "None"),
        ("A.spend", "min", "max"),
        ("A.spend", "x / 2", "(x * (2))"),
        ("A.spend", "-x", "(x)"),
    }
    found = {(one.function, one.line, one.before, one.after) for one in mutants.of_cython("a.pyx", CYTHON)}
    assert found == {
        ("half", 4, "1.0", "2.0"),
        ("half", 5, "-", "+"),
        ("half", 6, "+=", "-="),
        ("half", 6, "*", "+"),
        ("half", 6, "0.5", "1.0"),
    }
    for one in (*mutants.of_python("a.py", PYTHON), *mutants.of_cython("a.pyx", CYTHON)):
        raw = PYTHON if one.file == "a.py" else CYTHON
        assert raw[one.start : one.end].decode() == one.before


def test_a_file_is_drawn_as_often_as_it_has_lines():
    every = list(mutants.mutants(ROOT / "src" / "discreet"))
    assert {"audit", "bounds", "cli", "kernels", "planning", "service"} <= {
        one.file.split("/")[0] for one in every
    }
    assert len({one.key for one in every}) == len(every)
    lines = Counter()
    for one in every:
        lines[one.file.split("/")[0]] += one.share
    drawn = Counter()
    for draw in range(20):
        for one in sorted(every, key=lambda one, draw=draw: -one.drawn(f"{draw}"))[:100]:
            drawn[one.file.split("/")[0]] += 1
    for name in ("kernels", "online", "service", "privacy"):
        expected = 2000 * lines[name] / sum(lines.values())
        assert abs(drawn[name] - expected) < 6 * expected**0.5


def test_other_processes_are_seen(tmp_path, monkeypatch):
    """A test that starts a command enters what the command does; one that fails is not counted on.

    Others of its file may use what it has started, as a service that they share.
    """
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(mutants.SITE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import subprocess, sys\n"
        "from discreet.privacy.budget import Budget\n"
        "def test_here(): Budget(1.0)\n"
        "def test_there():\n"
        "    code = 'from discreet.bounds import selection; selection.trivial(3, 1.0)'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n"
        "def test_wrong(): raise ValueError\n"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools"), str(tmp_path / "watch")])
    environment = os.environ | {"PYTHONPATH": paths, "REACH": str(tmp_path / "reach")}
    environment.pop("PYTEST_CURRENT_TEST")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "reach", "-p", "no:cacheprovider", "tests"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    lines = [
        json.loads(line) for file in (tmp_path / "reach").iterdir() for line in file.read_text().splitlines()
    ]
    tests = {line[2].partition("::")[2]: line for line in lines if len(line) == 6}
    assert {name: line[4] for name, line in tests.items()} == {
        "test_here": True,
        "test_there": True,
        "test_wrong": False,
    }
    assert "privacy/budget.py:Budget.__post_init__" in tests["test_here"][5]
    assert ["tests/test_it.py::test_there", "bounds/selection.py:trivial"] in lines
    assert sum(line[-1] == "complete" for line in lines) == 1
    monkeypatch.setattr(mutants, "REACH", tmp_path / "reach")
    found = mutants.Reach(tmp_path, partial=True).tests
    assert found["bounds/selection.py:trivial"] == {
        f"tests/test_it.py::test_{one}" for one in ("here", "there")
    }
    assert found["privacy/budget.py:Budget.__post_init__"] == {"tests/test_it.py::test_here"}
