"""The code of the tutorials runs, and shows what is stored; the site builds without a warning."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dc
from tools import outputs

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def test_there_are_tutorials():
    assert len(TUTORIALS) >= 7


@pytest.mark.parametrize("page", outputs.pages(), ids=lambda page: page.stem)
def test_tutorial_runs(page):
    """`python -m tools.outputs PAGE` writes what a page shows."""
    text = page.read_text()
    assert "```text" in "".join(block["stored"] or "" for block in outputs.BLOCK.finditer(text))
    assert outputs.stale(page) == []
    for image in re.findall(r"\]\(([^)]*\.(?:png|svg))\)", text):
        assert (page.parent / image).is_file(), image


def test_stale_outputs_and_pictures_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "PICTURES", tmp_path / "pictures")
    page = tmp_path / "page.md"
    code = "import matplotlib.pyplot as plt\nprint(1.5)\nplt.plot([1, 2, 4])\nplt.title('Growth')\n"
    page.write_text(f"# A page\n\n```python\n{code}```\n\nThe end.\n")
    assert len(outputs.stale(page)) == 2
    outputs.write(page)
    text = page.read_text()
    assert "```text\n1.5\n```\n\n![Growth](pictures/page-1.png)\n" in text
    assert text.endswith("\nThe end.\n")
    assert outputs.stale(page) == []
    page.write_text(text.replace("1.5\n", "1.6\n", 1))
    assert "page.md:3" in outputs.stale(page)[0]
    loose = text.replace("<!-- output -->", "<!-- output: one run -->")
    page.write_text(loose.replace("print(1.5)", "print(1.7)"))
    assert outputs.stale(page) == []
    page.write_text(text.replace("[1, 2, 4]", "[1, 2, 5]"))
    assert outputs.stale(page) == ["page.md: page-1.png is another picture"]


def test_notebooks_are_what_their_pages_make():
    for path, text in outputs.notebooks().items():
        assert path.read_text() == text, f"{path.name}: python -m tools.outputs makes it anew"
        cells = json.loads(text)["cells"]
        assert len({cell["id"] for cell in cells}) == len(cells)
        code = ["".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code"]
        page = (ROOT / "docs" / "tutorials" / f"{path.stem}.md").read_text()
        assert code == [block["code"] for block in outputs.BLOCK.finditer(page)]


def test_every_tutorial_ends_with_what_a_reviewer_asks():
    for page in TUTORIALS:
        assert page.read_text().split("\n## ")[-1].startswith("What to say to a privacy reviewer\n"), (
            page.name
        )


def test_every_image_is_on_a_page():
    """And every picture of a tutorial in the gallery."""
    used = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for image in re.findall(r"\]\(([^)\s]*\.(?:png|svg))\)", page.read_text()):
            used.add((page.parent / image).resolve())
    assert used >= {path for path in (ROOT / "docs" / "images").rglob("*") if path.is_file()}
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    assert all(f"images/tutorials/{path.name}" in gallery for path in outputs.PICTURES.glob("*.png"))


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
