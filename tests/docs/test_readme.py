"""The README's code runs, its tables are generated, and docstring examples are true."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discreet

ROOT = Path(__file__).parents[2]


def test_code_blocks_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.count("one person replaced") >= 2


@pytest.mark.parametrize(
    ("script", "printed"), [("accounting", "text"), ("full_information", "readme_table")]
)
def test_tables_are_what_the_command_prints(script, printed):
    spec = importlib.util.spec_from_file_location(script, ROOT / "benchmarks" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stored = (ROOT / "README.md").read_text().split(module.START)[1].split(module.END)[0]
    assert stored.strip() == getattr(module, printed)().strip()


def test_the_measurements_page_is_what_the_stored_results_say():
    spec = importlib.util.spec_from_file_location("page", ROOT / "benchmarks" / "page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "benchmarks.md").read_text() == module.text()


MODULES = [module.name for module in pkgutil.walk_packages(discreet.__path__, "discreet.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "-1"], "epsilon=-1.0 must be"),
        (["--delta", "2"], "delta=2.0 must"),
        (["--epsilon", "inf"], "epsilon=inf must be finite"),
    ],
)
def test_demo_says_what_is_wrong_without_a_traceback(arguments, message):
    run = subprocess.run(
        [sys.executable, "-m", "discreet", "demo", *arguments], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
