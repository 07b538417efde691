"""What the demonstration is working on."""

from __future__ import annotations

import sys


def working_on(what: str) -> None:
    """What is being worked on, on a terminal only; each line takes the place of the one before."""
    if sys.stderr.isatty():
        line = f"  {what} ..." if what else ""
        print(line.ljust(70), end="\r", file=sys.stderr, flush=True)
