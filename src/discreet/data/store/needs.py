"""What a store needs while it is made, told before it is."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .layout import NARROW

_PER_BUCKET = 1 << 20  # rows
_FEWEST, _MOST = 4, 4096
_UNKNOWN = 64  # buckets, where nobody knows how many rows will come
_BASE = 200 << 20  # bytes: libraries, and a chunk of rows on its way
_PERSON = 16  # bytes: a key and an end


@dataclass(frozen=True)
class Needs:
    """Bytes of memory and of disk, at most about so many; ``rows`` is None where it is not known before."""

    rows: int | None
    buckets: int
    memory: int
    disk_meanwhile: int
    disk: int

    @classmethod
    def of(cls, rows: int | None, n_items: int | None, weighted: bool, memory: int, known: int = 0) -> Needs:
        """For so many rows; ``known``: entries that are in the store already."""
        narrow = n_items is not None and n_items < NARROW
        entry = (2 if narrow else 4) + 8 * weighted
        total = rows or 0
        buckets = _FEWEST if rows is not None else _UNKNOWN
        while buckets < _MOST and buckets * _PER_BUCKET < total:
            buckets *= 2
        spilled = total * (entry + 8)
        waits = spilled if spilled > memory else 0
        working = 8 * (total + known) // buckets * (entry + 8)  # buckets that are put in order side by side
        final = (total + known) * (entry + _PERSON)
        return cls(rows, buckets, _BASE + min(spilled, memory) + working, waits + final, final)

    def check(self, folder: Path, shown: bool) -> None:
        """Say what is needed, and refuse where the disk cannot hold it."""
        free = shutil.disk_usage(folder).free
        if shown:
            known = "an unknown number of rows" if self.rows is None else "all rows at hand"
            print(
                f"for {known}: about {sized(self.memory)} of memory, at most {sized(self.disk_meanwhile)} of"
                f" disk meanwhile and {sized(self.disk)} after; {sized(free)} are free",
                file=sys.stderr,
            )
        if self.disk_meanwhile > free:
            raise OSError(
                f"the disk has {sized(free)} free, and up to {sized(self.disk_meanwhile)} may be needed"
                f" meanwhile, {sized(self.disk)} of them for the store; free some, or write to another disk"
            )


def sized(count: int) -> str:
    """Bytes, to three digits."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"
