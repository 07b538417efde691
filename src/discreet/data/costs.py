"""The time, disk and memory that a store needs, from sizes alone: a model tested against measurements."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ..core.checks import DataError
from .store import NARROW

_PER_BUCKET = 1 << 20  # rows
_FEWEST, _MOST = 4, 4096
_UNKNOWN = 64  # buckets, if the number of rows is not known
_BASE = 200 << 20  # bytes: libraries, and a chunk of rows in transit


@dataclass(frozen=True)
class Needs:
    """Approximate upper bounds of bytes of memory and disk; ``rows`` is None if not known in advance."""

    rows: int | None
    buckets: int
    memory: int
    disk_meanwhile: int
    disk: int

    @classmethod
    def of(cls, rows: int | None, n_items: int | None, weighted: bool, memory: int, known: int = 0) -> Needs:
        """The needs of a number of rows; ``known``: entries already in the store."""
        narrow = n_items is not None and n_items < NARROW
        entry = (2 if narrow else 4) + 8 * weighted
        total = rows or 0
        buckets = _FEWEST if rows is not None else _UNKNOWN
        while buckets < _MOST and buckets * _PER_BUCKET < total:
            buckets *= 2
        spilled = total * (entry + 8)
        waits = spilled if spilled > memory else 0
        working = 8 * (total + known) // buckets * (entry + 8)  # buckets that are sorted in parallel
        final = (total + known) * (entry + _PERSON)
        return cls(rows, buckets, _BASE + min(spilled, memory) + working, waits + final, final)

    def check(self, folder: Path, shown: bool) -> None:
        """Print the needs if ``shown``, and refuse if the disk is too small."""
        free = shutil.disk_usage(folder).free
        if shown:
            known = "an unknown number of rows" if self.rows is None else "all rows"
            print(
                f"for {known}: about {sized(self.memory)} of memory, at most {sized(self.disk_meanwhile)} of"
                f" disk meanwhile and {sized(self.disk)} after; {sized(free)} are free",
                file=sys.stderr,
            )
        if self.disk_meanwhile > free:
            words = "the disk may be too small for this store; free some, or write to another disk"
            found = f"{sized(free)} are free, and up to {sized(self.disk_meanwhile)} may be needed"
            raise DataError(words, found)


def sized(count: int) -> str:
    """A number of bytes in words, to three digits."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"


_PERSON = 16  # bytes: a key and an end


@dataclass(frozen=True)
class Speeds:
    """Processor seconds on the machine of docs/benchmarks.md, and the speed of a disk.

    ``start``: start of a command. ``row``: per row of events, from Parquet with text ids to the finished
    store. ``opened``: per entry, to check it when a bucket is opened and sum it once. ``scanned``: per entry
    and pick. ``visited``: per entry of a chosen item, to process its row. ``round``: wall-clock time of a
    round of a cluster. ``disk``: bytes a second.
    """

    start: float = 0.1
    row: float = 0.15e-6
    opened: float = 8e-9
    scanned: float = 0.4e-9
    visited: float = 60e-9
    round: float = 0.03
    disk: float = 1e9


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows of events, people, entries (distinct pairs of person and item) and items.

    ``chosen`` is the fraction of all entries that belong to the chosen items.
    """

    rows: int
    people: int
    entries: int
    items: int
    weighted: bool = False
    chosen: float = 0.3

    @property
    def entry_bytes(self) -> int:
        """Bytes of an entry's item and weight."""
        return (2 if self.items < NARROW else 4) + 8 * self.weighted

    @property
    def store_bytes(self) -> int:
        return self.people * _PERSON + self.entries * self.entry_bytes


@dataclass(frozen=True)
class Costs:
    """Processor seconds and wall-clock seconds; bytes of disk and of memory."""

    prepare_processor: float
    select_processor: float
    prepare: float
    select: float
    disk: int
    memory: int


def costs(
    sizes: Sizes,
    picks: int,
    cores: int = 1,
    *,
    machines: int = 1,
    held: int = 8 << 30,
    memory: int = 64 << 20,
) -> Costs:
    """The costs of preparing a store on one machine and selecting on ``machines`` with ``cores`` each.

    A machine whose part of the entries fits into ``held`` bytes reads them once; otherwise every pick reads
    them from the disk. ``memory``: bytes for rows in memory, as for ``prepare``.

    >>> found = costs(Sizes(10**8, 10**7, 10**8, 2000), picks=50, cores=2)
    >>> 5 < found.prepare < 60, 1 < found.select < 60, round(found.disk / 1e9, 2)
    (True, True, 0.36)
    """
    now = Speeds()
    entries = sizes.entries * sizes.entry_bytes
    prepare = now.row * sizes.rows
    select = (now.opened + now.scanned * picks + now.visited * sizes.chosen) * sizes.entries
    passes = 1 if entries / machines <= held else picks + 1
    reading = passes * sizes.store_bytes / machines / now.disk
    rounds = (picks + 1) * now.round if machines > 1 else 0.0
    spilled = sizes.rows * (sizes.entry_bytes + 8)
    writing = (spilled * 2 * (spilled > memory) + sizes.store_bytes) / now.disk
    return Costs(
        now.start + prepare,
        now.start + select,
        now.start + max(prepare / cores, writing),
        now.start + max(select / cores / machines, reading) + rounds,
        sizes.store_bytes,
        Needs.of(sizes.rows, sizes.items, sizes.weighted, memory).memory,
    )
