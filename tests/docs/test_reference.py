"""The reference names what there is, where it is: every registered learner, and nothing that is gone."""

from __future__ import annotations

import doctest
import io
import os
import re
import runpy
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest

import discreet as dc
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


# --- the page of a class ----------------------------------------------------------------------------

CLASSES = [
    pytest.param(package, name, id=name)
    for package in reference.PACKAGES
    for name in reference.classes(package)
]
# Made by others for their user: the page says how, and there is nothing to give.
WITHOUT_PARAMETERS = {"ProjectedPoint", "Intersection", "Constraint", "Ledger", "MemoryLedger", "Event"}
WITHOUT_PARAMETERS |= {"LedgerConflict", "PeriodClosed", "Randomness", "SecureRandomness"}
WITHOUT_PARAMETERS |= {"Population", "ContinuousPopulation"}


def releases(thing):
    """Whether it spends from a budget: by its parameters, or because it is where budgets are spent."""
    kinds = {str(one.annotation) for one in reference.given(thing)}
    names = {one.name for one in reference.given(thing)}
    spends = "Spending" in kinds or ("epsilon" in names and hasattr(thing, "fit"))
    return spends or issubclass(thing, dc.Gate | dc.privacy.Periods | dc.online.OnlineLearner)


@pytest.mark.parametrize(("package", "name"), CLASSES)
def test_a_page_says_what_every_parameter_is(package, name):
    thing = reference.classes(package)[name]
    made = reference.page(package, name, thing)
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", made.replace("\\|", "/"), re.MULTILINE))
    assert list(rows) == [one.name for one in reference.given(thing)]
    assert [one for one, words in rows.items() if not words.strip()] == []
    assert bool(rows) == (name not in WITHOUT_PARAMETERS)


@pytest.mark.parametrize(("package", "name"), CLASSES)
def test_a_page_has_a_guarantee_where_something_is_released(package, name):
    thing = reference.classes(package)[name]
    made = reference.page(package, name, thing)
    assert ("\n## Guarantee\n\n" in made) or not releases(thing)
    assert re.search(r"\n## See also\n\n\[", made)


@pytest.mark.parametrize(("package", "name"), CLASSES)
def test_the_example_of_a_page_runs(package, name):
    """Which is about the class: it, or the one it is made of, is named in it."""
    thing = reference.classes(package)[name]
    shown = reference.example(name, thing)
    kinds = [kind.__name__ for kind in thing.__mro__ if kind.__module__.startswith("discreet")]
    assert any(re.search(rf"\b{kind}\b", shown) for kind in kinds), shown
    names = vars(import_module(thing.__module__)).copy()
    failed = io.StringIO()
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        doctest.DocTestParser().get_doctest(shown + "\n", names, name, None, 0), out=failed.write
    )
    assert found.attempted
    assert not found.failed, failed.getvalue()


def test_links_of_see_also_lead_to_pages():
    for package in reference.PACKAGES:
        for name, thing in reference.classes(package).items():
            home = Path("reference") / package / f"{name}.md"
            for link in reference.see_also(package, name, thing):
                target = re.search(r"\]\(([^)]*)\)", link).group(1)
                place = os.path.normpath(home.parent / target)
                made = {
                    reference.path(one, other)
                    for one in reference.PACKAGES
                    for other in reference.classes(one)
                }
                assert place in made or (PAGES.parent / place).is_file(), (name, target)


OUTPUTS = runpy.run_path(str(PAGES.parent / "_outputs.py"))


def test_sentences_of_an_output_are_wrapped_and_tables_kept():
    long, row = "word " * 60, "name" + " " * 60 + "12\n  more"
    text = f"before\n\n```text\n{long}\n```\n\n```text\n{row}\n```\n"
    made = OUTPUTS["on_page_markdown"](
        text, page=SimpleNamespace(file=SimpleNamespace(src_uri="a.md"), meta={})
    )
    assert "``` {.text .output .words}\nword word" in made
    assert max(map(len, made.split("```")[1].splitlines())) <= OUTPUTS["COLUMNS"]
    assert f"``` {{.text .output}}\n{row}\n```" in made


@pytest.mark.parametrize("page", sorted(PAGES.parent.rglob("*.md")), ids=lambda page: page.stem)
def test_outputs_fit_the_column(page):
    """Tables are printed to fit; what they are made of can be broken at spaces."""
    found = re.findall(r"^```text\n.*?^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    for block in found:
        shown = re.sub(OUTPUTS["_OUTPUT"], OUTPUTS["fitted"], block).splitlines()[1:-1]
        assert max(map(len, shown), default=0) <= OUTPUTS["COLUMNS"], block


def test_options_that_are_words_have_types_and_pages_list_the_words():
    """Editors complete them; text of one's own, such as a name, is the exception."""
    free = {"label", "catalogue"}
    for package in reference.PACKAGES:
        for name, thing in reference.classes(package).items():
            for one in reference.given(thing):
                kinds = re.split(r" \| ", str(one.annotation))
                if isinstance(one.default, str) and one.name not in free and name != "AuditExample":
                    assert "str" not in kinds or set(kinds) & set(reference._words()), (name, one.name)
    table = reference.parameters(dc.online.SubmodularMinimizer)
    assert '`float or "auto" or "optimistic"`' in table
