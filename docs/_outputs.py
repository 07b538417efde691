"""What code printed, in the column of a page: long sentences are wrapped; tables are printed to fit."""

from __future__ import annotations

import re
import textwrap
from typing import Any

COLUMNS = 100  # that a page has room for
_OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"\S {2,}\S|^ ")


def fitted(found: re.Match[str]) -> str:
    """An output, with sentences in lines of the column; one without a table is wrapped again on a phone."""
    lines: list[str] = []
    for line in found[1].splitlines():
        if _TABLE.search(line):
            lines.append(line)
        else:
            lines += textwrap.wrap(line, COLUMNS, break_long_words=False, break_on_hyphens=False) or [""]
    words = "" if any(map(_TABLE.search, lines)) else " .words"
    text = "\n".join(lines)
    return f"``` {{.text .output{words}}}\n{text}\n```"


# --- called by mkdocs ------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Outputs that fit; tasks come first where somebody searches."""
    if page.file.src_uri.startswith("tutorials/"):
        boost = 6 if page.file.src_uri.endswith("/offline.md") else 3  # it says how to choose k
        page.meta.setdefault("search", {"boost": boost})
    return _OUTPUT.sub(fitted, markdown)
