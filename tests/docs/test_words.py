"""Words: pages, help, messages and docstrings say things as the field does, in ordinary English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MORE = (
    r"(long|larg|small|bett|great|farth|furth|near|high|low|lat|earli|clos|strong|wid|short|oth|fast)er\b"
    r"|more|less|fewer|such|way|worse|need|one"
)
# What is not written any more, and what is written instead.
WITHDRAWN = {
    r"whoever": "anyone who, the caller, the process that",
    r"so (much|many)(?! (as|that|faster|more|less))": "n, this many, an amount",
    r"what (it|this|that|they) costs?": "its privacy cost, the cost of",
    r"as much as any": "best or tied",
    r"(came|comes?) out": "observed",
    r"made up": "synthetic",
    r"mend(s|ed|ing)?": "fix",
    r"letter for letter": "exact string match",
    r"notions?": "privacy definition",
    r"as well as can be": "tightest",
    r"(public|secret) coins?": "public randomness, secret sample",
    rf"(?<!there )(is|are|was|were) no (?!{MORE})\w+": "is not a",
    r"which (is|are) none(?! of)": "is not one",
    r"for ever": "without end",
    r"by a hair": "slightly",
    r"choosers?": "selector",
    r"keepers?": "worker",
    r"this is no person": "invalid feedback",
    r"converted as well": "tightest conversion",
    r"go_on|weakened": "continue_without_learning, discount",
    r"A system that lives|Stores of people|Service under kills": "Running in production, Out-of-core data",
}
_PATTERN = re.compile("|".join(rf"(?<![\w`])({one})(?![\w`])" for one in WITHDRAWN), re.IGNORECASE)


def prose(page: Path) -> str:
    """A page without its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"``?[^`\n]+``?", "`code`", text)
    return re.sub(r"<[^>]*>", "", text) if page.suffix == ".html" else text


def strings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and messages of a program, without doctests; the parts of one message together."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            lines = [line for line in node.value.splitlines() if not line.lstrip().startswith((">>>", "..."))]
            yield node.lineno, re.sub(r"``?[^`\n]+``?", "`code`", "\n".join(lines))


def found(text: str) -> list[str]:
    """The withdrawn words of a text, each with what stands around it."""
    words = " ".join(text.split())
    return [words[max(0, one.start() - 40) : one.end() + 40] for one in _PATTERN.finditer(words)]


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.html")])
MODULES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.relative_to(ROOT).as_posix())
def test_pages_have_no_withdrawn_words(page):
    assert found(prose(page)) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda one: one.relative_to(ROOT / "src").as_posix())
def test_messages_and_docstrings_have_no_withdrawn_words(module):
    said = {line: hits for line, text in strings(module.read_text()) if (hits := found(text))}
    assert said == {}


def test_a_withdrawn_word_is_noticed():
    assert found("It is for whoever asks.\n")
    assert found("so that it came\nout alike")
    assert found("a NUL is no part of it")
    assert not found("there is no limit, and it is no longer than that")
    program = 'f"{x} of so many"\n"""Ask.\n\n>>> whoever\n"""'
    assert [found(text) for _, text in strings(program)] == [["x of so many"], []]
