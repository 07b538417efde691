"""For the reference pages: docstrings as Markdown wants them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import griffe

_reference = runpy.run_path(str(Path(__file__).with_name("_reference.py")))
WITH_PAGES = {
    f"{one.__module__}.{one.__qualname__}"
    for package in _reference["PACKAGES"]
    for one in _reference["classes"](package).values()
}


class Examples(griffe.Extension):
    """Put a fence around every example of a docstring, which Markdown would take for quotations.

    Of a class that has a page of its own the page says what its docstring does.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "" if obj.path in WITH_PAGES else fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """An example goes from its first prompt to the next blank line."""
    lines: list[str] = []
    inside = ""
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>> "):
            inside = line[: len(line) - len(line.lstrip())] + "```"
            lines += ["", inside + "pycon"]
        elif inside and not line.strip():
            lines.append(inside)
            inside = ""
        lines.append(line)
    return "\n".join([*lines, inside] if inside else lines)
