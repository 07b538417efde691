"""How compiled modules are built: what is said without a compiler, and what a build with checks shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("environment", [{"CC": "/bin/false"}, {"PATH": "", "CC": "cc"}])
def test_without_a_compiler_the_build_says_so(tmp_path, environment):
    kernels = tmp_path / "src" / "discreet" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (kernels / "small.pyx").write_text("answer = 42")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-2:]
    assert last[0].startswith("discreet is partly written in Cython and needs a C compiler"), done.stderr
    assert "build-essential" in last[1]


def test_an_exception_that_nobody_can_raise_fails_a_test(tmp_path):
    """A build with checks reports an index beyond an array like this where loops do not hold the lock."""
    (tmp_path / "test_loud.py").write_text(
        "class Loud:\n    def __del__(self): raise IndexError('beyond')\n\ndef test():\n    Loud()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml"]
    done = subprocess.run([*command, tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "PytestUnraisableExceptionWarning" in done.stdout
