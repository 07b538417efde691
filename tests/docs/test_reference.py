"""The reference names what there is, where it is: every registered learner, and nothing that is gone."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tests.online.learners import LIBRARY, WITH_TOY

_spec = spec_from_file_location("reference", Path(__file__).parents[2] / "docs" / "_reference.py")
reference = module_from_spec(_spec)
_spec.loader.exec_module(reference)

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
    return [name for name in learners if name not in reference.classes("online")]


def test_every_registered_learner_is_named():
    assert _unnamed(LIBRARY) == []
    assert _unnamed(WITH_TOY) == ["ToySelector"]


@pytest.mark.parametrize("package", ["online", "offline", "objectives"])
def test_a_page_of_a_class_has_its_parameters_and_what_they_are(package):
    """Of the parameters of all classes, at least two of three have a sentence that names them."""
    rows = [
        row
        for name, one in reference.classes(package).items()
        for row in re.findall(r"^\| `.*\|$", reference.parameters(one), re.MULTILINE)
    ]
    assert rows
    assert sum(row.endswith("|  |") for row in rows) <= len(rows) / 3, [
        row for row in rows if row.endswith("|  |")
    ]
