"""Events to a store, out of core: one pass over the rows, then one over the buckets.

A person is identified by a keyed hash of their name by the rule of `core.names`, for any type of column. A
person whose rows had two keys would be in two buckets, count twice and be protected half as well. Two people
with the same key count as one, which does no harm.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.checks import instance, one_of, real, whole
from ..core.names import names_of, plain_label
from ..core.text import track
from ..kernels import stores
from .costs import Needs
from .events import (
    PRIVATE,
    GoodRows,
    Names,
    PrivateCatalogue,
    amounts,
    as_text,
    in_order,
    item_name,
)
from .read import Batch, Column, Source, Text, batches, columns_of, paths_of, row_count, watched
from .store import (
    FORMAT,
    KEY,
    LABELS,
    MOST_BUCKETS,
    NARROW,
    VERSION,
    Bucket,
    Store,
    folder_in,
    item_type,
    new_folder,
    remove_leftovers,
    write_bucket,
    write_key,
    write_labels,
    write_manifest,
)

MEMORY = 64 << 20  # bytes of rows held in memory
_SHORTEST_KEY = 16
Words = NDArray[np.uint64]
Keys = tuple[Words, NDArray[np.bool_]]  # each row's person key, and which rows name nobody


def prepare(
    source: Any,
    *,
    person: str,
    item: str,
    to: str | os.PathLike[str],
    weight: str | None = None,
    items: Iterable[Any] | None = None,
    unknown_items: str = "error",
    cap: int | None = None,
    highest: float = math.inf,
    buckets: int | None = None,
    key: bytes | None = None,
    memory: int = MEMORY,
    progress: bool = True,
) -> Store:
    """Write events to a store on disk, for tables that are larger than memory.

    ``source``: CSV or Parquet files (a path, a pattern such as ``"logs/*.parquet"``, a folder), an Arrow
    table or reader, a frame of pandas or Polars (also a lazy one), a dict of columns, a cursor whose query
    was executed (DB-API, SQLAlchemy, ADBC), rows that are mappings, or an iterator of chunks, each of them
    one of these.

    ``person``, ``item``, ``weight``, ``items`` and ``unknown_items`` are as in ``Coverage.from_events``, and
    rows are treated the same: ids are compared regardless of type, everyone with a row counts, and of a
    person's rows with one item the largest weight is kept. Without a catalogue ``items`` everything chosen
    from the store is conditional on the list of items.

    ``cap``: the most items of a person that count, those with the lowest keyed hash of person and item, which
    does not depend on other people or on the order of rows. ``highest``: a public bound of weights. ``key``:
    the secret of the hash of people, at least 16 bytes; by default a fresh one is kept in the store, readable
    by its owner only. ``buckets``: the number of parts, by default one for about a million rows. ``memory``:
    bytes of rows held at a time; further rows are written to disk, beside ``to``.

    The store appears when it is finished, and not before. It is not protected: keep it like the events.
    """
    target = Path(to)
    work = Work.of(person, item, weight, items, unknown_items, cap, highest, key)
    whole("memory", memory, at_least=1 << 16)
    table = source if isinstance(source, Source) else Source(source)
    known = None if items is None else len(work.names.labels)
    needs = Needs.of(row_count(table), known, weight is not None, memory)
    work.set_buckets(needs.buckets if buckets is None else buckets)
    with new_folder(target) as folder:
        needs.check(folder, shown=_watched(progress))
        spill = work.spilled(table, folder, memory, progress)
        parts = work.written(spill, folder, progress)
        if not spill.rows:
            raise ValueError("there are no people; give at least one event")
        work.finish(folder, parts, own_key=key is None)
    return Store.open(target)


def append(
    source: Any,
    *,
    person: str,
    item: str,
    to: str | os.PathLike[str],
    weight: str | None = None,
    unknown_items: str = "error",
    key: bytes | None = None,
    memory: int = MEMORY,
    progress: bool = True,
) -> Store:
    """Append events to a store: the result is what `prepare` would have made from all of them.

    Rows are merged with those of the same people. The arguments are those of `prepare`; catalogue, cap, bound
    of weights and buckets are the store's, and ``key`` is its secret if that is kept elsewhere. Appending the
    same events twice has no effect. A process that has the store open continues with what it opened, on
    systems where an open file outlives its name; the change of the store is atomic.
    """
    one_of("unknown_items", unknown_items, ("error", "drop"))
    whole("memory", memory, at_least=1 << 16)
    table = source if isinstance(source, Source) else Source(source)
    old = Store.open(to)
    if old.weighted != (weight is not None):
        raise ValueError(f"weight={weight!r}, but the store has {'weights' if old.weighted else 'none'}")
    names = Names(item_name, old.labels)
    names.listed = old.catalogue != "from data"
    secret = read_key(old.path) if key is None else checked_key(key)
    if key_id(secret) != old.manifest["key_id"]:
        raise ValueError("key is not the secret that this store was made with")
    drop = unknown_items == "drop" or old.catalogue in PRIVATE
    work = Work(person, item, weight, names, old.catalogue, drop, old.cap, old.highest, secret)
    work.set_buckets(old.n_buckets)
    needs = Needs.of(row_count(table), old.n_items, old.weighted, memory, known=old.n_entries + old.n_people)
    with folder_in(old.path) as folder:
        if Store.open(to).digest != old.digest:
            raise ValueError(f"{to} was appended to meanwhile; append again")
        remove_leftovers(old)
        needs.check(folder, shown=_watched(progress))
        spill = work.spilled(table, folder, memory, progress)
        parts = work.written(spill, folder, progress, old)
        for part in parts:
            os.rename(folder / part["folder"], old.path / part["folder"])
        work.finish(old.path, parts, generation=int(old.manifest["generation"]) + 1)
        fresh = Store.open(to)
        remove_leftovers(fresh)
    return fresh


@dataclass
class Work:
    """The settings of writing rows to a store: columns, names of items, the secret."""

    person: str
    item: str
    weight: str | None
    names: Names
    catalogue: str
    drop: bool
    cap: int | None
    highest: float
    secret: bytes
    buckets: int = 1

    @classmethod
    def of(
        cls,
        person: str,
        item: str,
        weight: str | None,
        items: Iterable[Any] | None,
        unknown_items: str,
        cap: int | None,
        highest: float,
        key: bytes | None,
    ) -> Work:
        """From the arguments of `prepare`, which are checked."""
        one_of("unknown_items", unknown_items, ("error", "drop"))
        if cap is not None:
            whole("cap", cap, at_least=1)
        real("highest", highest, above=0.0, infinite=True)
        secret = secrets.token_bytes(32) if key is None else checked_key(key)
        catalogue = items.origin if isinstance(items, PrivateCatalogue) else "public"
        names = Names(item_name, None if items is None else [plain_label(one) for one in items])
        drop = unknown_items == "drop" or catalogue in PRIVATE
        found = "from data" if items is None else catalogue
        return cls(person, item, weight, names, found, drop, cap, highest, secret)

    def __post_init__(self) -> None:
        self.identities = Identities(self.secret)
        self._cap_key = key_words(self.secret, b"store cap")

    @property
    def asked(self) -> dict[str, str]:
        return columns_of(self.person, self.item, self.weight)

    def set_buckets(self, buckets: int) -> None:
        self.buckets = whole("buckets", buckets, at_least=1, at_most=MOST_BUCKETS)

    def spilled(self, source: Source, folder: Path, memory: int, progress: bool) -> Spill:
        """All rows of a source, by bucket."""
        known = len(self.names.labels) if self.names.listed else None
        spill = Spill(folder / "spilled", self.buckets, known, self.weight is not None, memory)
        found = batches(source, self.asked)
        if paths_of(source) is not None and not source.stdin:  # some other sources must stay in one thread
            found = _ahead(found)
        for batch in watched(found) if progress else found:
            spill.add(*spill.scattered(self.rows(batch, spill.nothing, spill.kind)))
        spill.finish()
        return spill

    def rows(self, batch: Batch, nothing: int, kind: np.dtype[Any]) -> KeyedRows:
        """A batch as keys, numbers of items and weights; bad rows are refused, or left out."""
        rows = GoodRows(batch)
        keys, missing = self.identities.of(batch.columns["person"])
        rows.need("person", ~missing)
        somebody = rows.good
        weights = np.zeros(0)
        if "weight" in batch.columns:
            weights = rows.weighed(amounts(batch.columns["weight"]), self.highest)
        what = rows.listed(self.names, drop=self.drop)
        # A person whose row is left out still counts.
        kept = np.where(rows.good & (what >= 0), what, nothing).astype(kind)
        if not rows.good.all() and weights.size:
            weights = np.where(rows.good, weights, 0.0)
        if somebody.all():
            return KeyedRows(keys, kept, weights)
        return KeyedRows(keys[somebody], kept[somebody], weights[somebody] if weights.size else weights)

    @cached_property
    def _marks(self) -> Words:
        """For each item the number that a cap hashes, if not its own number; empty otherwise.

        Numbers in a list taken from data depend on other people's items, and change as the list grows.
        """
        if self.cap is None or self.catalogue != "from data":
            return np.zeros(0, dtype=np.uint64)
        return np.array([item_mark(as_text(one)) for one in self.labels()[0]], dtype=np.uint64)

    def labels(self) -> tuple[tuple[Any, ...], NDArray[np.int64] | None]:
        """The catalogue, and each item's place in it if items were numbered in order of appearance."""
        if not self.names.labels:
            raise ValueError("there are no items: the ground set is empty; give events, or a catalogue")
        found = self.names.labels
        if self.names.listed:
            return tuple(found), None
        order = in_order(found)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return tuple(found[at] for at in order), place

    def bucket(
        self, spill: Spill, place: NDArray[np.int64] | None, number: int, old: Store | None = None
    ) -> Bucket:
        """The people of a bucket, merged with those of an old store."""
        rows = spill.taken(number)
        if old is not None:
            before = rows_of(old.bucket(number), spill.kind, spill.nothing)
            rows = KeyedRows(*map(np.concatenate, zip(before, rows, strict=True)))
        known = len(self.names.labels)
        weighted = self.weight is not None
        return bucket_of(rows, spill.nothing, known, weighted, self.cap, self._cap_key, self._marks, place)

    def written(
        self, spill: Spill, folder: Path, progress: bool, old: Store | None = None
    ) -> list[dict[str, Any]]:
        """Write all buckets, each to a folder; returns their entries for the manifest."""
        _, place = self.labels()
        suffix = "" if old is None else f"-{old.manifest['generation'] + 1}"

        def write(number: int) -> dict[str, Any]:
            bucket = self.bucket(spill, place, number, old)
            return write_bucket(folder / f"bucket-{number:05d}{suffix}", bucket)

        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            waiting = [pool.submit(write, number) for number in range(self.buckets)]
            try:
                found = [
                    waiting[at].result() for at in track(range(self.buckets), "buckets", _watched(progress))
                ]
            finally:
                pool.shutdown(cancel_futures=True)
        spill.remove()
        return found

    def finish(
        self, folder: Path, parts: list[dict[str, Any]], *, own_key: bool = False, generation: int = 1
    ) -> None:
        """Write the labels and the manifest, which make the folder a store of this ``generation``.

        ``parts`` describe the buckets. ``own_key`` writes the key of the hashes beside them.
        """
        if own_key:
            write_key(folder, self.secret)
        file = LABELS if generation == 1 else f"labels-{generation}.json"
        write_manifest(
            folder,
            {
                "format": FORMAT,
                "version": VERSION,
                "generation": generation,
                "buckets": self.buckets,
                "key_id": key_id(self.secret),
                "n_items": len(self.names.labels),
                "catalogue": self.catalogue,
                "weighted": self.weight is not None,
                "highest": None if math.isinf(self.highest) else self.highest,
                "cap": self.cap,
                "labels": write_labels(folder, self.labels()[0], file),
                "labels_file": file,
                "parts": parts,
            },
        )


def checked_key(key: Any) -> bytes:
    """A given secret, checked."""
    instance("key", key, bytes, "secrets.token_bytes(32)")
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"key must have at least {_SHORTEST_KEY} bytes, such as secrets.token_bytes(32)")
    return bytes(key)


def read_key(folder: Path) -> bytes:
    """The secret in a store's folder, or in a file."""
    path = folder / KEY if folder.is_dir() else folder
    try:
        return checked_key(bytes.fromhex(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        raise ValueError(f"{folder.name} holds no key; give the one that it was made with") from None
    except ValueError:
        raise ValueError(f"{path.name} is not a key: at least 32 hexadecimal digits are needed") from None


def _watched(progress: bool) -> bool:
    return progress is True and sys.stderr.isatty()


# --- people by key --------------------------------------------------------------------------------


def key_words(key: bytes, purpose: bytes) -> Words:
    """Two words derived from a secret, for one purpose."""
    found = hashlib.blake2b(key, digest_size=16, person=purpose).digest()
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


def key_id(key: bytes) -> str:
    """An identifier of a secret that reveals nothing about it."""
    return hashlib.blake2b(key, digest_size=8, person=b"store key id").hexdigest()


def item_mark(text: str) -> int:
    """A hash of an item's text; not secret."""
    found = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"store item")
    return int.from_bytes(found.digest(), "little")


class Identities:
    """Keys of people under one secret; each depends on the secret and one cell alone."""

    def __init__(self, key: bytes) -> None:
        self._words = key_words(key, b"store people")

    def of(self, column: Column) -> Keys:
        """The keys of a column's rows."""
        values = column.values
        if isinstance(column, Text):
            return self._text(column)
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            words = np.ascontiguousarray(values, dtype=np.uint64 if values.dtype == np.uint64 else np.int64)
            nobody = np.zeros(words.size, dtype=np.bool_) if column.missing is None else column.missing
            return stores.hash_integers(words, self._words), nobody
        keys, nobody = self._named(list(values))
        return (keys, nobody) if column.codes is None else (keys[column.codes], nobody[column.codes])

    def _named(self, values: Sequence[Any]) -> Keys:
        """Any values, each by its name."""
        names = names_of(values)
        texts = Text.of(["" if name is None else str(name) for name in names])
        nobody = np.fromiter((name is None for name in names), np.bool_, len(names))
        return stores.hash_texts(texts.ends, texts.values, self._words), nobody

    def _text(self, column: Text) -> Keys:
        """Most names equal their text; the others are normalized, each distinct one once."""
        ends, letters = column.ends, column.values
        keys, kinds = stores.hash_texts(ends, letters, self._words), stores.kinds_of(ends, letters)
        look = (kinds == stores.LOOK) | self._to_compose(ends, letters)
        nobody = kinds == stores.MISSING
        if look.any():
            numbers = stores.TextNumbers(self._words).add(ends, letters)[look]
            _, first, at = np.unique(numbers, return_index=True, return_inverse=True)
            named = self._named([column[row] for row in np.flatnonzero(look)[first].tolist()])
            keys[look], nobody[look] = named[0][at], named[1][at]
        return keys, nobody

    @staticmethod
    def _to_compose(ends: NDArray[Any], letters: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which texts may need Unicode composition: those beyond ASCII, unless all are composed already.

        A part of a composed text is composed, so all can be tested as one text. If that is not UTF-8, one of
        them is not.
        """
        beyond = letters[ends[0] : ends[-1]] >= 0x80
        try:
            composed = not beyond.any() or unicodedata.is_normalized(
                "NFC", letters[ends[0] : ends[-1]].tobytes().decode()
            )
        except UnicodeDecodeError:
            composed = False
        if composed:
            return np.zeros(ends.size - 1, dtype=np.bool_)
        before = np.concatenate(([0], np.cumsum(beyond)))[ends - ends[0]]
        return np.asarray(before[1:] > before[:-1])


# --- rows by bucket -------------------------------------------------------------------------------


class KeyedRows(NamedTuple):
    """Some rows: keys of people, items, and weights (empty if there are none)."""

    keys: NDArray[np.uint64]
    items: NDArray[Any]
    weights: NDArray[np.float64]


class Spill:
    """Rows to be sorted into buckets, on disk beyond about ``memory`` bytes.

    A row may name no item (``nothing``): its person counts, with the items of other rows or without any.
    """

    def __init__(self, folder: Path, buckets: int, n_items: int | None, weighted: bool, memory: int) -> None:
        self._folder, self._buckets, self._weighted = folder, buckets, weighted
        narrow = n_items is not None and n_items < NARROW
        self.kind = np.dtype("<u2" if narrow else "<u4")
        self.nothing = int(np.iinfo(self.kind).max)
        self._row = 8 + self.kind.itemsize + 8 * weighted
        self._memory, self._held = memory, 0
        self._parts: list[tuple[NDArray[np.int64], KeyedRows]] = []
        self.rows = 0
        self.on_disk = False

    def scattered(self, rows: KeyedRows) -> tuple[NDArray[np.int64], KeyedRows]:
        """The same rows in the order of their buckets, and where each bucket begins."""
        starts, to = stores.scatter(*rows, self._buckets)
        return starts, KeyedRows(*to)

    def add(self, starts: NDArray[np.int64], rows: KeyedRows) -> None:
        """Add rows that are in the order of their buckets."""
        self._parts.append((starts, rows))
        self.rows += rows.keys.size
        self._held += rows.keys.size * self._row
        if self._held > self._memory:
            self._write()

    def _write(self) -> None:
        self.on_disk = True
        self._folder.mkdir(exist_ok=True)
        for bucket in range(self._buckets):
            some = self._in_memory(bucket)
            if not some.keys.size:
                continue
            with open(self._path(bucket), "ab") as file:
                for array in (np.array([some.keys.size], dtype="<u8"), *some):
                    file.write(array.tobytes())  # `tofile` says nothing of a full disk
        self._parts, self._held = [], 0

    def finish(self) -> None:
        """Called after the last row."""
        if self.on_disk:
            self._write()

    def taken(self, bucket: int) -> KeyedRows:
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
                found.append(KeyedRows(keys, items, weights))
        return self._joined(found)

    def remove(self) -> None:
        if self.on_disk:
            self._folder.rmdir()

    def _in_memory(self, bucket: int) -> KeyedRows:
        found = []
        for starts, rows in self._parts:
            here = slice(int(starts[bucket]), int(starts[bucket + 1]))
            found.append(KeyedRows(rows.keys[here], rows.items[here], rows.weights[here]))
        return self._joined(found)

    def _joined(self, found: list[KeyedRows]) -> KeyedRows:
        if len(found) == 1:
            return found[0]
        nothing = KeyedRows(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=self.kind), np.zeros(0))
        return KeyedRows(*(np.concatenate(parts) for parts in zip(nothing, *found, strict=True)))

    def _path(self, bucket: int) -> Path:
        return self._folder / f"rows-{bucket:05d}"


def bucket_of(
    rows: KeyedRows,
    nothing: int,
    n_items: int,
    weighted: bool,
    cap: int | None,
    cap_key: NDArray[np.uint64],
    marks: NDArray[np.uint64],
    place: NDArray[np.int64] | None = None,
) -> Bucket:
    """The people of one bucket's rows; the order of rows does not matter.

    ``place``: the number of each item in the catalogue, if rows have other numbers. ``cap_key``: the secret
    of a cap, and ``marks`` the number of each item that it hashes, if not that in the catalogue.
    """
    items = rows.items
    if place is not None and items.size:
        items = np.append(place, nothing)[np.minimum(items, place.size)].astype(items.dtype)
    keys, ends, items, weights = stores.people_of(
        rows.keys, items, rows.weights, nothing, cap or 0, cap_key, marks
    )
    return Bucket(
        keys.astype("<u8", copy=False),
        ends.astype("<i8", copy=False),
        items.astype(item_type(n_items), copy=False),
        weights.astype("<f8", copy=False) if weighted else None,
    )


def rows_of(bucket: Bucket, kind: np.dtype[Any], nothing: int) -> KeyedRows:
    """Rows that would give this bucket; people without items have one row without an item."""
    counts = np.diff(bucket.ends)
    alone = np.asarray(bucket.keys)[counts == 0]
    weights = np.zeros(0)
    if bucket.weights is not None:
        weights = np.concatenate((bucket.weights, np.zeros(alone.size)))
    return KeyedRows(
        np.concatenate((np.repeat(np.asarray(bucket.keys), counts), alone)),
        np.concatenate((bucket.items.astype(kind), np.full(alone.size, nothing, dtype=kind))),
        weights,
    )


def _ahead(found: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, with the next one read while the current one is processed."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, found, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, found, None)
            yield batch
