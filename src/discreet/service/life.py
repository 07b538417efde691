"""The life of a process among others: it serves out of its hands while the others believe that it lives."""

from __future__ import annotations

import math
import time

from .keys import owner_name
from .store import Store

_SURE = 0.8  # of a store's patience: answers take a while, and clocks differ


def clock() -> float:
    """Seconds that go on while this process, or its whole machine, is stopped."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Life:
    """A name, and until when (by `clock`) nobody takes whoever has it for dead."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.owner, self.until = owner_name(), -math.inf

    def begin(self) -> None:
        """Under a new name, unless it lives already."""
        if clock() >= self.until:
            owner, now = owner_name(), clock()
            self._store.beat(owner, new=True)
            self.owner, self.until = owner, now + _SURE * self._store.patience

    def go_on(self) -> None:
        """Tell the others; it is over if they took it for dead."""
        now = clock()
        lives = self._store.beat(self.owner)
        self.until = now + _SURE * self._store.patience if lives else -math.inf
