"""Writers of a durable ledger killed at random points (`tools/chaos.py`), and ledgers with faults noticed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dc
from tools import chaos

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found():
    """A process of its own: it forks, and should not take the threads of a test run along."""
    environment = os.environ | {"PYTHONPATH": str(Path(dc.__file__).parents[1])}
    command = [sys.executable, "-m", "tools.chaos", "--kills", "40", "--faults"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_kills_lose_nothing_and_overspend_nothing(found):
    honest = found["honest"]
    assert honest["wrong"] == []
    assert honest["kills"] >= 40
    assert honest["acknowledged"] >= 16


def test_faults_are_noticed(found):
    assert set(found["faults"]) == set(chaos.FAULTS)
    assert len(chaos.FAULTS) >= 6
    for name, run in found["faults"].items():
        assert run["wrong"], name


def test_the_page_has_a_long_run():
    """docs/chaos.md is what a run of 2,000 kills wrote."""
    text = (ROOT / "docs" / "chaos.md").read_text()
    rows = dict(re.findall(r"^\| (.*?) \| (.*) \|$", text, re.MULTILINE))
    assert int(rows["kills"].replace(",", "")) >= 2000
    (verdict,) = (value for name, value in rows.items() if name.startswith("acknowledged charges lost"))
    assert verdict == "nothing"
    for name in chaos.FAULTS:
        assert f"| `{name}` |" in text
