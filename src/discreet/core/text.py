"""Text for readers: tables, HTML cards, progress, and installation commands."""

from __future__ import annotations

import itertools
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from html import escape
from typing import Any, TypeVar

PAGE = 100  # columns that fit on a page, a notebook and most terminals


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "", room: int | None = None
) -> str:
    """Columns padded to their widest entry; numbers (anything that starts like one) right-aligned.

    If the table would be wider than ``room``, cells of the widest columns are wrapped.

    >>> print(table(["what", "how many"], [["apples", "12"], ["pears", "3"]]))
    what    how many
    apples        12
    pears          3
    >>> print(table(["what", "how many"], [["a basket of apples", "12"], ["pears", "3"]], room=20))
    what       how many
    a basket         12
    of apples
    pears             3
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    to_right = [bool(column[1:]) and all(map(_numeric, column[1:])) for column in columns]
    if room is not None:
        widths = _narrowed(columns, widths, to_right, room - len(indent))
    lines = []
    for row in [header, *rows]:
        split = [_broken(cell, width) for cell, width in zip(row, widths, strict=True)]
        for part in itertools.zip_longest(*split, fillvalue=""):
            cells = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(part, widths, to_right, strict=True)
            ]
            lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _narrowed(
    columns: Sequence[Sequence[str]], widths: list[int], whole: Sequence[bool], room: int
) -> list[int]:
    """Widths that fit into ``room``, as far as words do; cells of ``whole`` columns are not wrapped."""
    least = [
        max(
            len(word)
            for cell in column
            for word in ([cell] if keep and cell != column[0] else cell.split() or [""])
        )
        for column, keep in zip(columns, whole, strict=True)
    ]
    left = [place for place, width in enumerate(widths) if width > least[place]]
    while left and sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(left, key=widths.__getitem__)
        widths[widest] -= 1
        if widths[widest] == least[widest]:
            left.remove(widest)
    return [  # no wider than their wrapped content
        max(len(part) for cell in column for part in _broken(cell, width))
        for column, width in zip(columns, widths, strict=True)
    ]


def _broken(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False)


def _numeric(cell: str) -> bool:
    return cell in ("", "-", "inf") or cell.lstrip("+-~<").replace(",", "")[:1].isdigit() or cell[:1] == "."


def at_most(value: float | Decimal, digits: int = 6) -> str:
    """A bound in this many digits, rounded up: the text is never below the true number.

    >>> at_most(1.0), at_most(1e-6), at_most(1.2345601), at_most(2 / 3, 3), at_most(float("inf"))
    ('1', '1e-06', '1.23457', '0.667', 'inf')
    """
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).plus(number)):.{digits}g}"


def likelier(epsilon: float, digits: int = 4) -> str:
    """How many times as likely an epsilon can make something: e^epsilon, rounded up.

    >>> likelier(1.0), likelier(1.0, 3), likelier(0.0), likelier(1000.0)
    ('2.719', '2.72', '1', 'e^1000')
    """
    if epsilon > 700.0:  # beyond what a float can hold
        return f"e^{at_most(epsilon)}"
    return at_most(Decimal(repr(float(epsilon))).exp(Context(prec=40)), digits)


# Colours are inherited from the page, or greys that are visible on black and on white.
_EDGE = "1px solid rgba(128,128,128,.45)"
_CARD = (
    f"border:{_EDGE};border-radius:6px;padding:.6em .9em;margin:.3em 0;display:inline-block;max-width:100%"
    ";box-sizing:border-box"
)
_TABLE = "border-collapse:collapse;font-size:inherit;background:transparent;color:inherit;margin:.3em 0"
_QUIET = "opacity:.75;font-size:90%"
_CELL = f"padding:.15em .7em;border-bottom:{_EDGE};background:transparent;color:inherit;white-space:nowrap"


def card(title: str, *parts: str) -> str:
    """A frame with a title; ``parts`` are HTML."""
    head = f'<div style="font-weight:600;margin-bottom:.2em">{escape(title)}</div>'
    return f'<div style="{_CARD};overflow-x:auto">{head}{"".join(parts)}</div>'


def line(text: str, *, quiet: bool = False) -> str:
    """A line of text, escaped."""
    style = f' style="{_QUIET}"' if quiet else ""
    return f"<div{style}>{escape(text)}</div>"


def block(text: str) -> str:
    """Preformatted lines of text, escaped."""
    return f'<pre style="background:transparent;color:inherit;margin:.3em 0">{escape(text)}</pre>'


def grid(header: Sequence[str], rows: Sequence[Sequence[Any]], *, strong: int | None = None) -> str:
    """A table of at most 50 rows; numbers right-aligned, row ``strong`` in bold."""
    shown = [[str(cell) for cell in row] for row in rows[:50]]
    right = [
        bool(shown) and all(row[i][:1].isdigit() or row[i] in ("", "-", "inf") for row in shown)
        for i in range(len(header))
    ]
    lines = [_row("th", header, right, bold=False)] if any(header) else []
    lines += [_row("td", row, right, bold=place == strong) for place, row in enumerate(shown)]
    more = line(f"and {len(rows) - 50:,} more", quiet=True) if len(rows) > 50 else ""
    return f'<table style="{_TABLE}">{"".join(lines)}</table>{more}'


def folded(title: str, *parts: str) -> str:
    """Parts hidden behind a title that opens them."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def curve(values: Sequence[float], label: str) -> str:
    """A small line drawing of numbers over time, in the colour of the text."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1
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


T = TypeVar("T")


def track(
    work: Iterable[T], what: str, shown: bool, total: int | None = None, *, after: float = 0.0
) -> Iterator[T]:
    """Iterate over ``work`` (slices of ``total``, if given); with ``shown``, show progress.

    ``after``: only once this many seconds have passed, even in the middle of an item.
    """
    if shown is not True:
        yield from work
        return
    count = total if total is not None else len(work)  # type: ignore[arg-type]
    start, last, done = time.monotonic(), 0.0, 0

    def say(now: float) -> None:
        nonlocal last
        left = f" ({(now - start) / done * (count - done):,.0f} s left)" if done else ""
        print(f"\r{what}: {done:,} of {count:,}{left}  ", end="", file=sys.stderr, flush=True)
        last = now

    def ring() -> None:
        if not last:
            say(time.monotonic())

    alarm = threading.Timer(after, ring)
    alarm.daemon = True
    if after:
        alarm.start()
    try:
        for place, item in enumerate(work):
            now, done = time.monotonic(), item.start if isinstance(item, slice) else place
            if now - last >= 0.2 and now - start >= after:
                say(now)
            yield item
    except GeneratorExit:  # abandoned, or an error: later output starts on a new line
        if last:
            print(file=sys.stderr, flush=True)
        raise
    finally:
        if after:
            alarm.cancel()
            alarm.join()
    if time.monotonic() - start >= after:
        took = f"{count:,} in {time.monotonic() - start:,.1f} s"
        print(f"\r{what}: {took}{' ' * 12}", file=sys.stderr, flush=True)


def looked_at(progress: bool | None) -> bool:
    """Whether to show progress: as given; with None, on a terminal or in an interactive session."""
    return sys.stderr.isatty() or hasattr(sys, "ps1") if progress is None else progress


def install(extra: str) -> str:
    """The command that adds an extra to this installation.

    If the library is installed, from a wheel or a clone, pip takes its extras from the installation and does
    not query an index for it. If it is only on the path, an index might have another package of its name.

    >>> install("plots")
    "pip install 'discreet[plots]'"
    """
    from importlib import metadata

    try:
        metadata.distribution("discreet")
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in a clone of discreet"
    return f"pip install 'discreet[{extra}]'"
