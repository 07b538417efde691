"""Numbers that were computed from people and not released say so, wherever they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from discreet.objectives import Coverage
from discreet.results import CostTrace, Trace

ROOT = Path(__file__).parents[1]
SAID = "not private, in no account"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Names under which these pages keep what `run` returned, or what is made of it.
_TRUE = re.compile(r"print\([^#\n]*\b(trace|rest|\w+\.run\(|\w+\.regret\(|\w+\.average\b)[^\n]*")


def test_traces_and_regrets_say_that_no_account_covers_them():
    people = Coverage(np.eye(2)[[0, 1, 0]])
    trace = Trace(np.array([1.0, 0.0, 1.0]), np.zeros((3, 1), dtype=np.int32), "Somebody")
    costs = CostTrace(np.array([1.0, 0.0]), np.zeros((2, 1)), "Somebody")
    for one in (trace, costs, trace.regret(people)):
        assert SAID in repr(one)
        assert SAID in str(one)
    for one in (trace, costs):
        assert SAID in one._repr_html_()
    for one in (Trace, CostTrace, type(trace.regret(people))):
        assert "no account covers" in one.__doc__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_that_print_true_numbers_about_people_say_so(page):
    """In the comment of the line, or in the text around the code."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    printed = [line.group(0) for block in blocks for line in _TRUE.finditer(block)]
    text = re.sub(r"\s+", " ", page.read_text())
    if printed:
        assert all("in no account" in line for line in printed) or "in no account" in re.sub(
            r"```.*?```", "", text
        )


def test_there_are_such_pages():
    names = {page.stem for page in PAGES for block in [page.read_text()] if _TRUE.search(block)}
    assert {"README", "shop", "convex", "bandit", "constraints"} <= names
