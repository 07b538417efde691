"""Rows by bucket, in memory while they are few and in one file per bucket when they are many."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels.stores import people_of, scatter
from .layout import NARROW, Bucket, item_type


class Rows(NamedTuple):
    """Some rows: keys of people, items, and weights (empty where there are none)."""

    keys: NDArray[np.uint64]
    items: NDArray[Any]
    weights: NDArray[np.float64]


class Spill:
    """Rows on their way into buckets; at most about ``memory`` bytes of them are held.

    A row may name no item (``nothing``): its person counts, with the items of other rows or without any.
    """

    def __init__(self, folder: Path, buckets: int, n_items: int | None, weighted: bool, memory: int) -> None:
        self._folder, self._buckets, self._weighted = folder, buckets, weighted
        narrow = n_items is not None and n_items < NARROW
        self.kind = np.dtype("<u2" if narrow else "<u4")
        self.nothing = int(np.iinfo(self.kind).max)
        self._row = 8 + self.kind.itemsize + 8 * weighted
        self._memory, self._held = memory, 0
        self._parts: list[tuple[NDArray[np.int64], Rows]] = []
        self.rows = 0
        self.on_disk = False

    def scattered(self, rows: Rows) -> tuple[NDArray[np.int64], Rows]:
        """The same rows in the order of their buckets, and where each bucket begins."""
        starts, to = scatter(*rows, self._buckets)
        return starts, Rows(*to)

    def add(self, starts: NDArray[np.int64], rows: Rows) -> None:
        """Take up rows that are in the order of their buckets."""
        self._parts.append((starts, rows))
        self.rows += rows.keys.size
        self._held += rows.keys.size * self._row
        if self._held > self._memory:
            self._write()

    def _write(self) -> None:
        self.on_disk = True
        for bucket in range(self._buckets):
            some = self._in_memory(bucket)
            if not some.keys.size:
                continue
            with open(self._path(bucket), "ab") as file:
                np.array([some.keys.size], dtype="<u8").tofile(file)
                for array in some:
                    array.tofile(file)
        self._parts, self._held = [], 0

    def finish(self) -> None:
        """After the last row."""
        if self.on_disk:
            self._write()

    def taken(self, bucket: int) -> Rows:
        """All rows of a bucket, once; its file is removed."""
        if not self.on_disk:
            return self._in_memory(bucket)
        path, found = self._path(bucket), []
        if path.exists():
            data = path.read_bytes()
            path.unlink()
            at = 0
            while at < len(data):
                count = int(np.frombuffer(data, "<u8", 1, at)[0])
                keys = np.frombuffer(data, "<u8", count, at + 8)
                at += 8 + 8 * count
                items = np.frombuffer(data, self.kind, count, at)
                at += self.kind.itemsize * count
                weights = np.frombuffer(data, "<f8", count * self._weighted, at)
                at += 8 * count * self._weighted
                found.append(Rows(keys, items, weights))
        return self._joined(found)

    def _in_memory(self, bucket: int) -> Rows:
        found = []
        for starts, rows in self._parts:
            here = slice(int(starts[bucket]), int(starts[bucket + 1]))
            found.append(Rows(rows.keys[here], rows.items[here], rows.weights[here]))
        return self._joined(found)

    def _joined(self, found: list[Rows]) -> Rows:
        if len(found) == 1:
            return found[0]
        nothing = Rows(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=self.kind), np.zeros(0))
        return Rows(*(np.concatenate(parts) for parts in zip(nothing, *found, strict=True)))

    def _path(self, bucket: int) -> Path:
        return self._folder / f"rows-{bucket:05d}"


def bucket_of(
    rows: Rows,
    nothing: int,
    n_items: int,
    weighted: bool,
    cap: int | None,
    cap_key: NDArray[np.uint64],
    marks: NDArray[np.uint64],
    place: NDArray[np.int64] | None = None,
) -> Bucket:
    """The people of one bucket's rows, whatever order the rows come in.

    ``place``: the number of each item in the catalogue, where rows have other numbers. ``cap_key``: the
    secret of a cap, and ``marks`` what stands for each item of the catalogue in it, if not its number.
    """
    items = rows.items
    if place is not None and items.size:
        items = np.append(place, nothing)[np.minimum(items, place.size)].astype(items.dtype)
    keys, ends, items, weights = people_of(rows.keys, items, rows.weights, nothing, cap or 0, cap_key, marks)
    return Bucket(
        keys.astype("<u8", copy=False),
        ends.astype("<i8", copy=False),
        items.astype(item_type(n_items), copy=False),
        weights.astype("<f8", copy=False) if weighted else None,
    )


def rows_of(bucket: Bucket, kind: np.dtype[Any], nothing: int) -> Rows:
    """The rows that a bucket would be made of; people without items have one without an item."""
    counts = np.diff(bucket.ends)
    alone = np.asarray(bucket.keys)[counts == 0]
    weights = np.zeros(0)
    if bucket.weights is not None:
        weights = np.concatenate((bucket.weights, np.zeros(alone.size)))
    return Rows(
        np.concatenate((np.repeat(np.asarray(bucket.keys), counts), alone)),
        np.concatenate((bucket.items.astype(kind), np.full(alone.size, nothing, dtype=kind))),
        weights,
    )
