"""The README's code runs, its tables are generated, and docstring examples are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys

import pytest

import discreet
from tools import pages
from tools.results import RESULTS, ROOT, stored


def test_code_blocks_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.count("replace-one adjacency") >= 2


def test_the_first_result_is_within_twenty_lines(capsys):
    text = (ROOT / "README.md").read_text()
    code, printed = re.search(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL).groups()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed
    assert text[: text.index(printed)].count("\n") < 20


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md", "docs/theorems.md"])
def test_tables_are_generated(page):
    text = (ROOT / page).read_text()
    assert len(pages.blocks_of(text)) >= 3
    assert pages.outdated(text) == []


def test_the_page_on_gpus_is_generated_and_its_code_runs(capsys):
    text = (ROOT / "docs" / "gpu.md").read_text()
    assert pages.outdated(text) == []
    for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(one, "gpu.md", "exec"), {})
    assert capsys.readouterr().out.startswith("5 numpy")


def test_a_stored_result_that_is_not_on_the_page_is_noticed(monkeypatch):
    shares = {"settings": {}, "share_served": {"msweb": {"random set": [0.5]}}}
    monkeypatch.setattr(pages.readme, "stored", lambda _: shares)
    assert pages.outdated((ROOT / "README.md").read_text()) == ["share_served"]


def test_every_block_has_a_page():
    found = [name for page in pages.PAGES for name in pages.blocks_of((ROOT / page).read_text())]
    assert sorted(found) == sorted(pages.BLOCKS)


def test_images_of_pages_exist_and_certificates_hold():
    for page in ("benchmarks", "theorems"):
        images = re.findall(r"\]\((images/.*?)\)", (ROOT / "docs" / f"{page}.md").read_text())
        assert len(images) >= 5
        for image in images:
            assert (ROOT / "docs" / image).is_file(), image
    rows = stored("theorems")["rows"]
    assert len(rows) > 300
    for row in rows:
        assert row["holds"], row
        assert row["measured"] <= row["certified"], row


def test_every_benchmark_is_on_the_page():
    """Each script, and none that is not there."""
    page = (ROOT / "docs" / "benchmarks.md").read_text().split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)[^`]*` \|", page, re.MULTILINE)
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert set(listed) == scripts
    assert {path.stem for path in RESULTS.glob("*.json")} - {
        "fuzz",
        "release",
        "versions",
    } == scripts


MODULES = [module.name for module in pkgutil.walk_packages(discreet.__path__, "discreet.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    if name.endswith(".gpu"):
        pytest.importorskip("triton")
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
