"""Work that is done without a compiled loop until compiling or loading one pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
from typing import Any

_SOONER = 16  # a loop is loaded in about so much less time than it is compiled


class Patience:
    """So much work of a process, of each kind, is done without a loop; the outcome is the same either way.

    The limit is about what takes as long as to compile the loop, or less. One that was compiled before is
    only loaded, which pays much sooner.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._done: Counter[Hashable] = Counter()

    def lasts(self, work: int, kind: Hashable = None, loop: Callable[[], Any] | None = None) -> bool:
        """Whether so much more can be done without; it counts as done then.

        ``loop`` gives the loop that would do it. It is asked for only where that matters.
        """
        if not self.reaches(work, kind, loop):
            return False
        self._done[kind] += work
        return True

    def reaches(self, work: int, kind: Hashable = None, loop: Callable[[], Any] | None = None) -> bool:
        """The same, without counting it."""
        done = self._done[kind] + work
        if done > self._limit:
            return False
        if loop is None or done <= self._limit // _SOONER or not _compiled(loop()):
            return True
        self._done[kind] = self._limit + 1  # it is at hand from now on
        return False


def _compiled(loop: Any) -> bool:
    """Whether a loop has been compiled, by this process or by one before it."""
    return bool(getattr(loop, "signatures", None)) or _kept(loop)


@cache
def _kept(loop: Any) -> bool:
    """Whether it lies in the cache on disk, from the code as it is now."""
    code, folder = getattr(loop, "py_func", None), getattr(getattr(loop, "stats", None), "cache_path", None)
    if code is None or folder is None:
        return False
    written = Path(code.__code__.co_filename)
    try:
        found = Path(folder).glob(f"{written.stem}.{code.__qualname__}-*.nbi")
        return any(one.stat().st_mtime >= written.stat().st_mtime for one in found)
    except OSError:
        return False


PEOPLE = Patience(1 << 20)  # steps of loops over one person, which Python takes


def for_one(loop: Any, items: int, shown: int) -> Any:
    """A loop over one person of so many items: as it is written for the first ones, then compiled."""
    if PEOPLE.lasts((items + 8) * (shown + 8), loop, lambda: loop):
        return getattr(loop, "py_func", loop)
    return loop
