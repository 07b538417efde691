"""The code of the tutorials runs, and shows what is stored."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
import discreet.bounds.bandit
import discreet.bounds.continuous
import discreet.bounds.convex
import discreet.bounds.frank_wolfe
import discreet.bounds.minimization
import discreet.bounds.published
from discreet.constraints.domains import Ball, Box, Simplex
from discreet.objectives.losses import Logistic, Squared
from discreet.service import queries
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


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_commands_are_typed_not_started_by_a_program(page):
    assert not re.search(r"subprocess|Popen|os\.system", page.read_text())


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


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_reviewers_hear_of_learners_that_keep_people_row_by_row(page):
    text, reviewers = page.read_text(), page.read_text().split("\n## ")[-1]
    if "*What is kept:*" in reviewers and any(one in text for one in queries._ROW_BY_ROW):
        assert "row by row" in " ".join(reviewers.split())


def test_every_image_is_on_a_page():
    """And every picture of a tutorial in the gallery."""
    site = (ROOT / "mkdocs.yml").read_text()
    used = {ROOT / "docs" / image for image in re.findall(r"(?:logo|favicon): (images/\S+)", site)}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for image in re.findall(r"\]\(([^)\s]*\.(?:png|svg))\)", page.read_text()):
            used.add((page.parent / image).resolve())
    assert used >= {path for path in (ROOT / "docs" / "images").rglob("*") if path.is_file()}
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    assert all(f"images/tutorials/{path.name}" in gallery for path in outputs.PICTURES.glob("*.png"))


PAPERS = (ROOT / "docs" / "papers.md").read_text().split("<!-- algorithms: start -->")[1]
STATEMENTS = re.findall(r"^\| (00.*) \|$", PAPERS.split("<!-- algorithms: end -->")[0], re.MULTILINE)


def _named():
    """What the table's calls are made of."""
    rng = np.random.default_rng(0)
    found = {
        name: getattr(home, name) for home in (dc.objectives, dc.online, dc.offline) for name in home.__all__
    }
    likes = (rng.random((20, 6)) < 0.3).astype(float)
    found |= {"bounds": dc.bounds, "ExponentialChoice": dc.privacy.ExponentialChoice}
    found |= {"log": math.log, "exp": math.exp, "inf": math.inf}
    found |= {"Gate": dc.privacy.Gate, "Logistic": Logistic}
    found |= {"Squared": Squared, "Cardinality": dc.constraints.Cardinality}
    found |= {"Intersection": dc.constraints.Intersection}
    found |= {"TreeSum": dc.privacy.TreeSum, "people": dc.objectives.Coverage(likes), "p": likes, "rng": rng}
    found |= {"n": 6, "k": 2, "T": 4096, "d": 3, "R": 2.0, "L": 2.0, "H": 0.5, "M": 1.5, "B": 6.0, "c": 0.25}
    found |= {"epsilon": 8.0, "delta": 1e-6, "eta": 0.1, "gamma": 0.2, "steps": 4, "x": np.full(6, 0.25)}
    found |= {"budget": dc.Budget(8.0, 1e-6), "pure": dc.Budget(8.0), "free": dc.Budget(math.inf)}
    found |= {"ball": Ball(3, 2.0), "box": Box([0.0] * 3, [1.0] * 3), "simplex": Simplex(3)}
    found["thin"] = Box([-1.0, -0.1], [1.0, 0.1])
    found["constraint"] = dc.constraints.PartitionMatroid([range(3), range(3, 6)], 1)
    found["knapsack"] = dc.constraints.Knapsack([0.25, 0.25, 0.5, 0.5, 0.5, 0.5], 1.0)
    found["make"] = lambda share: dc.online.HedgeSelector(6, 1, 4096, share)
    found["features"], found["classes"] = rng.integers(0, 2, (20, 3)), rng.integers(0, 2, 20)
    found["points"] = dc.objectives.BudgetAllocation(likes / 6)
    return found | {"arcs": rng.random((6, 6)) / 10}


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_of_the_papers_is_called_or_has_a_reason(statement):
    """What the table names is there and can be called, and its test uses it; numbers are positive."""
    _, what, here, printed, own, test = (cell.strip() for cell in statement.split(" |"))
    assert what
    if here.startswith("not built"):
        assert len(here) > 60
        assert not printed + own + test
        return
    names = _named()
    for cell in (here, printed, own):
        for call in re.findall(r"`(.*?)`", cell):
            found = eval(call, names)
            if isinstance(found, float | int):
                assert found > 0.0, call
    text = (ROOT / test.strip("`")).read_text()
    for call in re.findall(r"`(.*?)`", here):
        name = re.match(r"[\w.]+", call)[0].split(".")
        assert (name[-1] if name[0] in ("bounds", "people", "constraint") else name[0]) in text, (call, test)


def test_the_table_of_statements_covers_the_papers():
    """Every algorithm, theorem, lemma and proposition with a number has a row."""
    numbered = {
        "000": "Algorithm 1-4 Theorem 1-10 Lemma 1-7 Proposition 1-3 Section 1-5",
        "001": "Algorithm 4-4 Theorem 3-10 Lemma 2-10",
        "002": "Theorem 10-10 Lemma 1-7 Proposition 3-3",
        "003": "Algorithm 1-3 Theorem 1-4 Lemma 1-5 Section 1-4",
        "004": "Algorithm 1-1 Algorithm 3-3 Theorem 3-6 Table 1-2 Section 2-3",
    }
    for paper, wanted in numbered.items():
        rows = "; ".join(row.split(" |")[1] for row in STATEMENTS if paper in row.split(" |")[0])
        for kind, first, last in re.findall(r"(\w+) (\d+)-(\d+)", wanted):
            listed = set()
            for _, numbers in re.findall(rf"({kind})s? ((?:\d+|, | to | and )+)", rows):
                for one, end in re.findall(r"(\d+)(?: to (\d+))?", numbers):
                    listed |= set(range(int(one), int(end or one) + 1))
            assert set(range(int(first), int(last) + 1)) <= listed, (paper, kind, listed)
    rows = "; ".join(row.split(" |")[1] for row in STATEMENTS if row.startswith("004"))
    found = re.findall(r"Table (\d), lines? (\d)(?: \(experts\))?(?: and (\d))?", rows)
    lines = {(table, line) for table, *both in found for line in both if line}
    assert lines == {("1", line) for line in "123"} | {("2", line) for line in "1234"}
