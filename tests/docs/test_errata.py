"""The evidence on docs/errata.md is what the library computes; what pages name exists; their code runs."""

from __future__ import annotations

import re

import pytest

from tools import pages
from tools.pages.__main__ import main
from tools.results import ROOT

from . import by_hand

STORED = (ROOT / "docs" / "errata.md").read_text()
BLOCKS = pages.blocks_of(STORED)
ENTRIES = dict(re.findall(r"^### (.*?)\n\n(.*?)(?=^##)", STORED, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", BLOCKS)
def test_evidence_is_what_the_library_computes(name):
    assert BLOCKS[name] == pages.BLOCKS[name]()


@pytest.mark.parametrize("name", BLOCKS)
def test_evidence_is_what_plain_arithmetic_gives(name):
    """A second way for every entry, which asks nothing of the library."""
    found = list(getattr(by_hand, name)())
    assert found
    for part in found:
        assert part in BLOCKS[name]


def test_a_library_that_computes_otherwise_is_noticed(monkeypatch):
    monkeypatch.setattr(pages.errata_privacy.minimization, "gradient_difference", lambda *_, **__: 4.0)
    assert BLOCKS["lovasz_differences"] != pages.BLOCKS["lovasz_differences"]()


def test_all_evidence_is_on_the_page():
    """No evidence is left out, and none stands on the page that nothing computes."""
    computed = {name for name, text in BLOCKS.items() if text.startswith("**Evidence.**")}
    modules = (pages.errata_privacy, pages.errata_maximization, pages.errata_convex)
    makers = {name for name in pages.BLOCKS if any(hasattr(module, name) for module in modules)}
    assert makers == set(BLOCKS)
    assert STORED.count("**Evidence.**") == len(computed) == len(ENTRIES) > 25


@pytest.mark.parametrize("title", ENTRIES)
def test_entry_says_all_that_a_reader_needs(title):
    entry = ENTRIES[title]
    assert re.match(r"\*Paper 00[0-4].*\*\n", entry)
    labels = re.findall(r"^\*\*(.*?)\.\*\*", entry, re.MULTILINE)
    assert labels == ["Claim", "Problem", "Evidence", "In the library"]
    (evidence,) = pages.blocks_of(entry).values()
    assert re.search(r"\d", evidence)
    instead = entry.split("**In the library.**")[1]
    assert "`" in instead or "argument" in instead


def test_check_notices_a_typed_number(monkeypatch, tmp_path, capsys):
    as_stored = {name: lambda text=text: text for name, text in BLOCKS.items()}
    monkeypatch.setattr("tools.pages.blocks.BLOCKS", as_stored)
    monkeypatch.setattr("tools.pages.__main__.ROOT", tmp_path)
    page = tmp_path / "errata.md"
    page.write_text(STORED)
    assert main(["--check", "errata.md"]) == 0
    page.write_text(STORED.replace("0.875", "0.876", 1))
    assert main(["--check", "errata.md"]) == 1
    assert "errata.md: out of date: private_constraint" in capsys.readouterr().out
    assert main(["errata.md"]) == 0
    assert page.read_text() == STORED


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
