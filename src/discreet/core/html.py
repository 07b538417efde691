"""Results in notebooks: small cards and tables with their style in them, on dark and on light pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

# Colours are the page's own, or greys that show on black and on white.
_EDGE = "1px solid rgba(128,128,128,.45)"
_CARD = (
    f"border:{_EDGE};border-radius:6px;padding:.6em .9em;margin:.3em 0;display:inline-block;max-width:100%"
)
_TABLE = "border-collapse:collapse;font-size:inherit;background:transparent;color:inherit;margin:.3em 0"
_QUIET = "opacity:.75;font-size:90%"
_CELL = f"padding:.15em .7em;border-bottom:{_EDGE};background:transparent;color:inherit;white-space:nowrap"


def card(title: str, *parts: str) -> str:
    """A frame with a title; ``parts`` are HTML already."""
    head = f'<div style="font-weight:600;margin-bottom:.2em">{escape(title)}</div>'
    return f'<div style="{_CARD};overflow-x:auto">{head}{"".join(parts)}</div>'


def line(text: str, *, quiet: bool = False) -> str:
    """A line of text, escaped."""
    style = f' style="{_QUIET}"' if quiet else ""
    return f"<div{style}>{escape(text)}</div>"


def grid(
    header: Sequence[str], rows: Sequence[Sequence[Any]], *, strong: int | None = None, most: int = 50
) -> str:
    """A table; numbers to the right, row ``strong`` in bold, and no more than ``most`` rows."""
    shown = [[str(cell) for cell in row] for row in rows[:most]]
    right = [
        bool(shown) and all(row[i][:1].isdigit() or row[i] in ("", "-", "inf") for row in shown)
        for i in range(len(header))
    ]
    lines = [_row("th", header, right, bold=False)] if any(header) else []
    lines += [_row("td", row, right, bold=place == strong) for place, row in enumerate(shown)]
    more = line(f"and {len(rows) - most:,} more", quiet=True) if len(rows) > most else ""
    return f'<table style="{_TABLE}">{"".join(lines)}</table>{more}'


def folded(title: str, *parts: str) -> str:
    """Parts behind a title that opens them."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def curve(values: Sequence[float], label: str) -> str:
    """A small line drawing of numbers over time, in the colour of the text."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    points = " ".join(
        f"{200 * i / (len(values) - 1):.1f},{38 - 36 * (value - low) / span:.1f}"
        for i, value in enumerate(values)
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 200 40" width="200" height="40">'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
        f"{line(f'{label}: {low:.3g} to {high:.3g}', quiet=True)}"
    )


def _row(tag: str, cells: Sequence[str], right: Sequence[bool], *, bold: bool) -> str:
    filled = "".join(
        f'<{tag} style="{_CELL};text-align:{"right" if to_right else "left"}'
        f'{";font-weight:600" if bold or tag == "th" else ";font-weight:400"}">{escape(cell)}</{tag}>'
        for cell, to_right in zip(cells, right, strict=True)
    )
    return f"<tr>{filled}</tr>"
