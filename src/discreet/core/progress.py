"""Progress on long work: one line on standard error, rewritten in place, and only where somebody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(work: Iterable[T], what: str, shown: bool, total: int | None = None) -> Iterator[T]:
    """Iterate over ``work`` (slices of ``total``, where given); with ``shown``, say how far it is."""
    if shown is not True:
        yield from work
        return
    count = total if total is not None else len(work)  # type: ignore[arg-type]
    start, last = time.monotonic(), 0.0
    for place, item in enumerate(work):
        now, done = time.monotonic(), item.start if isinstance(item, slice) else place
        if now - last >= 0.2:
            left = f" ({(now - start) / done * (count - done):,.0f} s left)" if done else ""
            print(f"\r{what}: {done:,} of {count:,}{left}  ", end="", file=sys.stderr, flush=True)
            last = now
        yield item
    print(f"\r{what}: {count:,} in {time.monotonic() - start:,.1f} s{' ' * 12}", file=sys.stderr, flush=True)
