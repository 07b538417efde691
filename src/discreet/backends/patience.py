"""Work that is done without a compiled loop until compiling or loading one pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any


class Patience:
    """So much work of a process, of each kind, is done without a loop; the outcome is the same either way.

    The limit is about what takes as long as to load the loop, and far less than to compile it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._done: Counter[Hashable] = Counter()

    def lasts(self, work: int, kind: Hashable = None) -> bool:
        """Whether so much more can be done without; it counts as done then."""
        if self._done[kind] + work > self._limit:
            return False
        self._done[kind] += work
        return True


PEOPLE = Patience(1 << 18)  # steps of loops over one person, which Python takes


def for_one(loop: Any, items: int, shown: int) -> Any:
    """A loop over one person of so many items: as it is written for the first ones, then compiled."""
    if PEOPLE.lasts((items + 8) * (shown + 8), loop):
        return getattr(loop, "py_func", loop)
    return loop
