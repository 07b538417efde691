"""Plain text tables."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Columns padded to their widest entry; numbers (anything that starts like one) to the right.

    >>> print(table(["what", "how many"], [["apples", "12"], ["pears", "3"]]))
    what    how many
    apples        12
    pears          3
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    to_right = [bool(column[1:]) and all(_numeric(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_right, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _numeric(cell: str) -> bool:
    return cell in ("", "-", "inf") or cell.lstrip("+-~<").replace(",", "")[:1].isdigit() or cell[:1] == "."
