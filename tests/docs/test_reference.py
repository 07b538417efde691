"""The reference names what there is, where it is: every registered learner, and nothing that is gone."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.online.learners import LIBRARY, WITH_TOY

PAGES = Path(__file__).parents[2] / "docs" / "reference"
NAMED = {page.stem: re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE) for page in PAGES.glob("*.md")}


@pytest.mark.parametrize("name", sorted({one for named in NAMED.values() for one in named}))
def test_what_is_named_is_there(name):
    try:
        import_module(name)
    except ModuleNotFoundError:
        home, _, thing = name.rpartition(".")
        assert hasattr(import_module(home), thing)


def _unnamed(learners):
    return [name for name, entry in learners.items() if f"{entry.home}.{name}" not in NAMED["online"]]


def test_every_registered_learner_is_named():
    assert _unnamed(LIBRARY) == []
    assert _unnamed(WITH_TOY) == ["ToySelector"]
