"""Learners of one's own: found where a package declares them, and asked for in words where nothing does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "own_learner.md").read_text()
MODULE = re.search(r"write_text\('''\n(.*?)'''\)", PAGE, re.DOTALL)[1]
SAVE = """
import discreet as dc
from popular import PopularSelector
learner = PopularSelector(12, 2, 300, dc.Budget(4.0), seed=0)
learner.choose()
learner.learn(items=[3])
learner.save("learner.discreet")
"""
LOAD = "import discreet as dc; print(dc.load('learner.discreet').round)"
SIMULATE = """
from discreet.evaluation.simulation import Config, simulate
if __name__ == "__main__":
    import popular
    config = Config.of({"rounds": 200, "items": 6, "k": 2, "repeats": 2, "seed": 3,
        "streams": [{"family": "favourites"}], "learners": [{"learner": "popular", "every": 20}]})
    for workers in (1, 2):
        print([row["average"] for row in simulate(config, None, workers=workers).table()])
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the module of the page, which Python finds."""
    (tmp_path / "popular.py").write_text(MODULE)
    return tmp_path


def python(folder, *arguments):
    paths = os.pathsep.join([str(folder), str(ROOT / "src")])
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def declare(folder, module):
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[discreet.learners]\n{module} = {module}\n")


def test_the_learner_of_the_page_has_sixty_lines():
    assert len(MODULE.strip().splitlines()) <= 60


def test_a_saved_learner_is_found_once_it_is_imported_or_declared(folder):
    assert python(folder, "-c", SAVE).returncode == 0
    refused = python(folder, "-c", LOAD)
    assert "holds a PopularSelector" in refused.stderr
    assert "known once its module is imported" in refused.stderr
    assert python(folder, "-c", "import popular; " + LOAD).stdout == "1\n"
    declare(folder, "popular")
    assert python(folder, "-c", LOAD).stdout == "1\n"


def test_commands_find_what_a_package_declares(folder):
    run = ("-m", "discreet", "simulate", "--learner", "popular", "--rounds", "100", "--n-items", "6")
    few = ("--k", "2", "--repeats", "1", "--workers", "1", "--out", "out")
    refused = python(folder, *run, *few)
    assert "learner='popular' is not one of" in refused.stderr
    declare(folder, "popular")
    assert "PopularSelector" in python(folder, *run, *few).stdout


def test_a_package_that_breaks_is_named_and_left_out(folder):
    (folder / "broken.py").write_text("raise RuntimeError('no luck')")
    declare(folder, "broken")
    found = python(
        folder, "-c", "from discreet.online.registry import selectors; print(len(selectors()) > 5)"
    )
    assert found.stdout == "True\n"
    assert "the learner that broken declares cannot be used: no luck" in found.stderr


def test_an_audit_of_a_setting_without_a_release_says_so(folder):
    (folder / "popular.py").write_text(MODULE.replace('{"every": 1}', '{"every": 9}'))
    declare(folder, "popular")
    assert (
        "nothing noisy is released in this setting"
        in python(folder, "-m", "discreet", "audit", "PopularSelector").stderr
    )


def test_worker_processes_know_learners_that_were_imported_later(folder):
    (folder / "script.py").write_text(SIMULATE)
    alone, together = python(folder, "script.py").stdout.splitlines()
    assert alone == together != "[]"


def test_a_script_without_a_guard_is_told_of_it(folder):
    (folder / "script.py").write_text(
        SIMULATE.replace('__name__ == "__main__"', "True").replace("(1, 2)", "(2,)")
    )
    assert 'below if __name__ == "__main__":' in python(folder, "script.py").stderr
