"""Every code block of the tutorials runs, in order, and the site builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dc

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def test_there_are_tutorials():
    assert len(TUTORIALS) >= 7


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_runs(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    assert capsys.readouterr().out


def test_every_algorithm_of_the_papers_has_a_class_and_a_test():
    """The table names classes that exist and tests that exist and use them."""
    page = (ROOT / "docs" / "papers.md").read_text()
    rows = page.split("<!-- algorithms: start -->")[1].split("<!-- algorithms: end -->")[0].splitlines()
    rows = [row for row in rows if row.startswith("| 00")]
    assert len(rows) >= 18
    for row in rows:
        _, _, _, call, test, _ = row.split("|")
        name = call.strip(" `").split("(")[0]
        text = (ROOT / test.strip(" `")).read_text()
        if name == "constraint.round":
            assert ".round(" in text
            continue
        homes = (dc.online, dc.offline, dc.privacy)
        assert any(hasattr(home, name) for home in homes), name
        assert name in text, (name, test)


def test_the_site_builds(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for page in ("index.html", "tutorials/offline/index.html", "reference/online/index.html"):
        assert (tmp_path / page).exists()
    for page in tmp_path.glob("reference/*/index.html"):
        text = page.read_text()
        assert "<blockquote>" not in text, page  # what Markdown makes of an example in a docstring
        assert 'class="gp"' in text, page  # a prompt, highlighted
    offline = (tmp_path / "reference" / "offline" / "index.html").read_text()
    assert "release_gains" in offline.split('id="discreet.offline.greedy.PrivateGreedy"')[1].split("<p>")[0]
    assert not list(tmp_path.rglob("*.py"))
