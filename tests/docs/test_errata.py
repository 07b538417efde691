"""docs/errata.md is what benchmarks/errata.py computes, and so is each of its numbers."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "errata.py"


def _script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


ERRATA = _script(SCRIPT)
STORED = (ROOT / "docs" / "errata.md").read_text()


@pytest.mark.parametrize("erratum", ERRATA.ERRATA, ids=lambda one: one.title)
def test_entry_is_what_the_library_computes(erratum):
    assert erratum.section() in STORED


def test_a_library_that_computes_otherwise_is_noticed(monkeypatch):
    monkeypatch.setattr(ERRATA.minimization, "gradient_difference", lambda *_, **__: 4.0)
    entry = next(one for one in ERRATA.ERRATA if one.shown is ERRATA.lovasz_differences)
    assert entry.section() not in STORED


def test_nothing_else_is_on_the_page():
    """Every heading is an entry, in the order of the script, and what surrounds the entries is its text."""
    titles = re.findall(r"^### (.*)$", STORED, re.MULTILINE)
    groups = (ERRATA.PRIVACY, ERRATA.REGRET, ERRATA.EMPTY)
    assert titles == [one.title for group in groups for one in ERRATA.ERRATA if one.group == group]
    assert STORED.startswith(ERRATA.INTRO)
    assert STORED.endswith(ERRATA.ending())


def test_the_page_of_theorems_is_what_was_stored():
    stored = (ROOT / "docs" / "theorems.md").read_text()
    assert stored == _script(SCRIPT.with_name("theorems_page.py")).page()
    images = re.findall(r"\]\((images/.*?)\)", stored)
    assert len(images) == 5
    for image in images:
        assert (ROOT / "docs" / image).is_file(), image
    rows = json.loads((ROOT / "benchmarks" / "results" / "theorems.json").read_text())["rows"]
    assert len(rows) > 300
    for row in rows:
        assert row["holds"], row
        assert row["measured"] <= row["certified"], row


@pytest.mark.parametrize("erratum", ERRATA.ERRATA, ids=lambda one: one.title)
def test_entry_says_all_that_a_reader_needs(erratum):
    assert re.search(r"Paper 00[0-4]", erratum.where)
    assert "`" in erratum.instead or "argument" in erratum.instead
    number = re.search(r"\*\*Number\.\*\* (.*)", STORED.split(f"### {erratum.title}\n")[1])
    assert re.search(r"\d", number.group(1))


def test_check_notices_a_typed_number(monkeypatch, tmp_path):
    page = tmp_path / "errata.md"
    monkeypatch.setattr(ERRATA, "PAGE", page)
    monkeypatch.setattr(ERRATA, "page", lambda: STORED)
    monkeypatch.setattr(sys, "argv", ["errata.py", "--check"])
    page.write_text(STORED)
    ERRATA.main()
    page.write_text(STORED.replace("0.875", "0.876", 1))
    assert page.read_text() != STORED
    with pytest.raises(SystemExit, match="not what this computes"):
        ERRATA.main()


@pytest.mark.parametrize("page", ["errata.md", "pitfalls.md", "privacy.md"])
def test_what_pages_name_exists(page):
    """Classes and functions of the library that the pages mention are there."""
    import discreet as dc
    from discreet import bounds, constraints, objectives, offline, online, privacy
    from discreet.bounds import bandit, convex, frank_wolfe, minimization

    known = (dc, constraints, objectives, offline, online, privacy, bounds)
    names = re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)[(.`]", (ROOT / "docs" / page).read_text())
    assert names
    for name in names:
        assert any(hasattr(place, name) for place in known), name
    modules = {"bandit": bandit, "convex": convex, "frank_wolfe": frank_wolfe, "minimization": minimization}
    for home, name in re.findall(r"`bounds\.(\w+)\.(\w+)`", (ROOT / "docs" / page).read_text()):
        assert hasattr(modules[home], name), f"bounds.{home}.{name}"


def test_code_on_the_pitfalls_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "pitfalls.md").read_text(), re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, "pitfalls.md", "exec"), names)


def test_privacy_page_covers_every_learner_and_chooser():
    from discreet import offline, online

    page = (ROOT / "docs" / "privacy.md").read_text()
    classes = [
        name for name in online.__all__ if name not in ("Guarantee", "OnlineLearner", "OnlineSelector")
    ]
    for name in [*classes, *offline.__all__]:
        assert f"`{name}`" in page, name
    from discreet.offline.methods import METHODS
    from discreet.online.bandit.settings import EXPLORATIONS

    for setting in (*EXPLORATIONS, *METHODS, "slots", "ftrl", "pftal"):
        assert f'"{setting}"' in page, setting
