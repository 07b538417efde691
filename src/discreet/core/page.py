"""Pages: a self-contained HTML file, readable on a screen, a phone or paper."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from .. import __version__
from .state import replacing

STYLE = """
:root { --ink: #1a1a1a; --soft: #5a5a5a; --line: #dcdcdc; --tint: #f5f6f8; --accent: #1d3f8f; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.2rem 4rem; max-width: 60rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .2rem 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; border-top: 2px solid var(--accent); padding-top: .8rem; }
p, li { max-width: 44rem; }
.lead, .small, caption, footer { color: var(--soft); }
.small, footer { font-size: .86rem; }
figure { margin: 1rem 0 1.6rem; }
figure img { width: 100%; height: auto; display: block; border: 1px solid var(--line); border-radius: 6px;
  padding: .6rem; background: #fff; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0 1.2rem; font-size: .9rem; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .38rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:nth-child(odd) { background: var(--tint); }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .8rem;
  overflow-x: auto; font-size: .8rem; line-height: 1.4; }
details summary { cursor: pointer; color: var(--accent); }
.notice { border-left: 4px solid var(--accent); background: var(--tint); padding: .6rem .9rem; }
.notice p { margin: .2rem 0; }
@media (max-width: 640px) {
  body { padding: 1rem .8rem 3rem; }
  h1 { font-size: 1.4rem; }
  figure img { padding: .2rem; }
  table.cards, .cards caption, .cards tbody { display: block; width: 100%; }
  .cards thead { position: absolute; left: -9999px; }
  .cards tr { display: flex; flex-wrap: wrap; column-gap: .3rem; border: 1px solid var(--line);
    border-radius: 6px; margin: 0 0 .5rem; padding: .3rem 0; }
  .cards td, .cards td.number { display: block; border: 0; padding: .1rem .6rem; text-align: left;
    white-space: normal; overflow-wrap: anywhere; }
  .cards td::before { content: attr(data-label); display: block; color: var(--soft); font-size: .72rem;
    white-space: nowrap; }
  .cards td:first-child { font-weight: 600; flex-basis: 100%; }
  .cards td:first-child::before, .cards td:empty { display: none; }
  .cards td.words:not(:first-child) { flex-basis: 100%; }
}
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e7ebeb; --soft: #9ba8ad; --line: #2f393c; --tint: #1b2224;
    --accent: #8fb0ff; }
  body { background: #111516; }
}
@media print { body { max-width: none; padding: 0; } figure, tr, .notice { break-inside: avoid; }
  h2 { break-after: avoid; } @page { margin: 18mm 16mm; } }
"""


class Page:
    """A page that is built from the top, from text and tables, and then saved.

    >>> page = Page("Fruit")
    >>> page.table(["what", "how many"], [["apples & pears", "12"]])
    >>> "apples &amp; pears" in page.html()
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self._title = title
        self._parts = [f"<header><h1>{safe(title)}</h1><p class='lead'>{safe(lead)}</p></header>"]

    def heading(self, words: str) -> None:
        self._parts.append(f"<h2>{safe(words)}</h2>")

    def text(self, words: str, *, small: bool = False) -> None:
        self._parts.append(f"<p class='small'>{safe(words)}</p>" if small else f"<p>{safe(words)}</p>")

    def points(self, lines: Sequence[str]) -> None:
        self._parts.append("<ul>" + "".join(f"<li>{safe(line)}</li>" for line in lines) + "</ul>")

    def notice(self, *lines: str) -> None:
        self._parts.append(
            "<div class='notice'>" + "".join(f"<p>{safe(line)}</p>" for line in lines) + "</div>"
        )

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """Rows of cells; numbers outside the first column are right-aligned; rows become cards on a phone."""
        numeric = [bool(i and rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
        kinds = [" class='number'" if one else " class='words'" for one in numeric]
        head = "".join(
            f"<th scope='col'{kind}>{safe(name)}</th>" for name, kind in zip(header, kinds, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{kind} data-label='{safe(name)}'>{safe(cell)}</td>"
                for cell, name, kind in zip(row, header, kinds, strict=True)
            )
            + "</tr>\n"
            for row in rows
        )
        title = f"<caption>{safe(caption)}</caption>" if caption else ""
        self._parts.append(
            f"<table class='cards'>{title}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
        )

    def preformatted(self, words: str, summary: str = "") -> None:
        block = f"<pre>{safe(words)}</pre>"
        if summary:
            block = f"<details><summary>{safe(summary)}</summary>{block}</details>"
        self._parts.append(block)

    def html(self) -> str:
        """The complete page."""
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return (
            "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
            f"<title>{safe(self._title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            + "\n".join(self._parts)
            + f"\n<footer><p>Made with discreet {__version__} on {made}. This file needs no network.</p>"
            "</footer>\n</body>\n</html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, completely or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write_text(self.html(), encoding="utf-8")
        return target


def safe(words: str) -> str:
    """Text escaped for HTML elements and quoted attributes."""
    return html.escape(str(words), quote=True)


def _is_number(cell: str) -> bool:
    return cell in ("", "-", "none", "not private") or cell.lstrip("-~<").replace(",", "")[:1].isdigit()
