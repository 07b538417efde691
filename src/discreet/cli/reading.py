"""Files of events that commands read, and how refusals name what was asked for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..data.source import Source


def source_of(options: argparse.Namespace, table: Any, *, public: bool = False) -> Source:
    """A file, several of them, or standard input (-); ``public``: a list of items, not people's data."""
    from ..data.source import Source, Wording

    separator = "\t" if options.separator in ("tab", "\\t") else options.separator
    if len(separator) != 1:
        raise ValueError(f"--separator {options.separator}: must be one character, or the word tab")
    wording = Wording(
        argument="--{role} {column}",
        items="--items",
        drop_items="",
        separator="; if its columns are separated by {mark}, say --separator {mark}",
        leave_out="; mend the row, or leave such rows out with --skip-bad",
        details=" (--insecure-diagnostics names {what})",
    )
    skip_bad = options.skip_bad and not public
    return Source(table, separator, skip_bad, public, stdin=table == "-", wording=wording)
