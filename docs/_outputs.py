"""What code printed, in the column of a page: long sentences are wrapped, wide tables get smaller letters."""

from __future__ import annotations

import re
import textwrap
from typing import Any

COLUMNS = 100  # that a page has room for
_OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"\S {2,}\S")


def fitted(found: re.Match[str]) -> str:
    """An output, with sentences in lines as long as its widest table or the column."""
    given = found[1].splitlines()
    wide = max((len(line) for line in given if _TABLE.search(line)), default=0)
    lines: list[str] = []
    for line in given:
        if _TABLE.search(line):
            lines.append(line)
        else:
            room = max(COLUMNS, min(wide, round(1.4 * COLUMNS)))
            lines += textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False) or [""]
    size = "" if wide <= COLUMNS else " .wide" if wide <= 1.25 * COLUMNS else " .widest"
    text = "\n".join(lines)
    return f"``` {{.text .output{size}}}\n{text}\n```"


# --- called by mkdocs ------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Outputs that fit; tasks come first where somebody searches."""
    if page.file.src_uri.startswith("tutorials/"):
        page.meta.setdefault("search", {"boost": 3})
    return _OUTPUT.sub(fitted, markdown)
