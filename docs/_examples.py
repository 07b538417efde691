"""For the reference pages: examples in docstrings are code, which Markdown would take for quotations."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Put a fence around every example of a docstring before it is taken for Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


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
