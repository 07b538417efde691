"""Progress on long work: one line on standard error, rewritten in place, and only where somebody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence


def track(work: Sequence[int] | range, what: str, shown: bool) -> Iterator[int]:
    """Iterate over ``work``; with ``shown``, say how far it is and how long it will take."""
    if shown is not True:
        yield from work
        return
    total, start, last = len(work), time.monotonic(), 0.0
    for done, item in enumerate(work):
        now = time.monotonic()
        if now - last >= 0.2:
            left = f" ({(now - start) / done * (total - done):,.0f} s left)" if done else ""
            print(f"\r{what}: {done:,} of {total:,}{left}  ", end="", file=sys.stderr, flush=True)
            last = now
        yield item
    print(
        f"\r{what}: {total:,} in {time.monotonic() - start:,.1f} s            ", file=sys.stderr, flush=True
    )
