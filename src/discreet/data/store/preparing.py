"""Events to a store of people, out of core: one pass over the rows, then one over the buckets."""

from __future__ import annotations

import math
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.checks import instance, one_of, real, whole
from ...core.labels import plain_label
from ...core.progress import track
from ..events import GoodRows, PrivateCatalogue, amounts, unlisted
from ..labels import MISSING, UNLISTED, Names, as_text, in_order, item_name
from ..source import Batch, Column, Source
from .costs import Needs
from .identity import SHORTEST_KEY, Identities, Words, item_mark, key_id, key_words
from .layout import FORMAT, KEY, MOST_BUCKETS, VERSION, Bucket, Store
from .sources import batches, row_count
from .spill import Rows, Spill, bucket_of, rows_of
from .writing import (
    folder_in,
    new_folder,
    remove_leftovers,
    spill_folder,
    write_bucket,
    write_key,
    write_labels,
    write_manifest,
)

MEMORY = 64 << 20  # bytes of rows that wait for their bucket


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
    """Events to a store of people on disk, for tables that are larger than memory.

    ``source``: CSV or Parquet files (a path, a pattern such as ``"logs/*.parquet"``, a folder), an Arrow
    table or reader, a frame of pandas or Polars (also a lazy one), a dict of columns, a cursor whose query
    was executed (DB-API, SQLAlchemy, ADBC), rows that are mappings, or an iterator of chunks, each of them
    one of these.

    ``person``, ``item``, ``weight``, ``items`` and ``unknown_items`` are as in ``Coverage.from_events``, and
    so is what becomes of the rows: a person is one whatever type their id has, whoever has a row counts as
    somebody, and of equal rows the largest weight stays. Without a catalogue ``items`` everything that is
    chosen from the store is conditional on the list of items.

    ``cap``: of each person at most so many items count, those with the lowest keyed hash of person and item:
    it depends on nobody else, nor on the order of rows. ``highest``: a public bound of weights. ``key``: the
    secret of the hash of people, at least 16 bytes; by default a fresh one lies in the store, for its owner
    only. ``buckets``: into how many parts people go, by default one for about a million rows. ``memory``:
    bytes of rows that are held at a time; beyond them rows wait on the disk, beside ``to``.

    The store is there when it is finished, and not before. It protects nobody: keep it like the events.
    """
    target = Path(to)
    names, catalogue = settings_of(items, unknown_items, cap, highest, buckets)
    whole("memory", memory, at_least=1 << 16)
    secret = secrets.token_bytes(32) if key is None else checked_key(key)
    table = source if isinstance(source, Source) else Source(source)
    needs = Needs.of(
        row_count(table), None if items is None else len(names.labels), weight is not None, memory
    )
    count = needs.buckets if buckets is None else buckets
    work = Work(person, item, weight, names, catalogue, unknown_items, cap, highest, count, secret)
    with new_folder(target) as folder:
        needs.check(folder, shown=_watched(progress))
        spill = work.spilled(table, folder, memory, progress)
        labels, place = work.labels()
        made = {f"bucket-{number:05d}": partial(work.bucket, spill, place, number) for number in range(count)}
        if not spill.rows:
            raise ValueError("there are no people; give at least one event")
        parts = written(folder, made, progress)
        shutil.rmtree(spill_folder(folder))
        if key is None:
            write_key(folder, secret)
        write_manifest(folder, work.manifest(1, write_labels(folder, labels), parts))
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
    """More events into a store: the store that `prepare` would have made of all of them.

    Rows of people who are there are merged with theirs. The arguments are those of `prepare`; catalogue, cap,
    bound of weights and buckets are the store's, and ``key`` is its secret where that is kept elsewhere. The
    same events twice are there once. Whoever has the store open goes on with what they opened, on systems
    where a file that is open outlives its name; the store is as before or as after, never in between.
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
    work = Work(
        *(person, item, weight, names, old.catalogue, unknown_items),
        *(old.cap, old.highest, old.n_buckets, secret),
    )
    needs = Needs.of(row_count(table), old.n_items, old.weighted, memory, known=old.n_entries + old.n_people)
    generation = int(old.manifest["generation"]) + 1
    with folder_in(old.path) as folder:
        remove_leftovers(old)
        needs.check(folder, shown=_watched(progress))
        spill = work.spilled(table, folder, memory, progress)
        labels, place = work.labels()

        made = {
            f"bucket-{number:05d}-{generation}": partial(work.bucket, spill, place, number, old)
            for number in range(old.n_buckets)
        }
        parts = written(folder, made, progress)
        for part in parts:
            os.rename(folder / part["folder"], old.path / part["folder"])
        file = f"labels-{generation}.json"
        said = write_labels(old.path, labels, file)
        write_manifest(old.path, work.manifest(generation, said, parts) | {"labels_file": file})
    fresh = Store.open(to)
    remove_leftovers(fresh)
    return fresh


@dataclass
class Work:
    """Rows on their way into a store: what is asked for, the names of items, the secret."""

    person: str
    item: str
    weight: str | None
    names: Names
    catalogue: str
    unknown_items: str
    cap: int | None
    highest: float
    buckets: int
    secret: bytes

    def __post_init__(self) -> None:
        self.identities = Identities(self.secret)
        self._cap_key = key_words(self.secret, b"store cap")
        self._drop = self.unknown_items == "drop" or self.catalogue == "private"

    def spilled(self, source: Source, folder: Path, memory: int, progress: bool) -> Spill:
        """All rows of a source, by bucket."""
        known = len(self.names.labels) if self.names.listed else None
        spill = Spill(spill_folder(folder), self.buckets, known, self.weight is not None, memory)
        asked = {"person": self.person, "item": self.item}
        if self.weight is not None:
            asked["weight"] = self.weight
        for batch in _said(batches(source, asked), _watched(progress)):
            spill.add(*spill.scattered(self.rows(batch, spill.nothing, spill.kind)))
        spill.finish()
        return spill

    def rows(self, batch: Batch, nothing: int, kind: np.dtype[Any]) -> Rows:
        """A batch as keys, numbers of items and weights; what is wrong with it is refused, or left out."""
        rows = GoodRows(batch)
        keys, missing = self.identities.of_column(batch.columns["person"])
        rows.need("person", ~missing)
        somebody = rows.good
        weights = np.zeros(0)
        column = batch.columns["item"]
        if not self.names.listed:
            column = column.used()
        if "weight" not in batch.columns and column.codes is not None and not missing.any():
            numbers = self.names.of(Column(column.values))
            if (numbers >= 0).all():
                return Rows(keys, numbers.astype(kind)[column.codes], weights)
        if "weight" in batch.columns:
            weights = amounts(batch.columns["weight"])
            rows.weighed(weights, self.highest)
        # Only what stands in rows that are kept gets into a list that is taken from data.
        what = rows.numbers(self.names, column)
        rows.need("item", what != MISSING)
        if not self._drop:
            rows.keep(what != UNLISTED, lambda row: unlisted(batch, "item", row))
        # Whoever has a row that is left out still counts as somebody.
        kept = np.where(rows.good & (what >= 0), what, nothing).astype(kind)
        if not rows.good.all() and weights.size:
            weights = np.where(rows.good, weights, 0.0)
        if somebody.all():
            return Rows(keys, kept, weights)
        return Rows(keys[somebody], kept[somebody], weights[somebody] if weights.size else weights)

    @cached_property
    def _marks(self) -> Words:
        """What stands for each item under the key of a cap, where its number does not.

        The numbers of a list that is taken from data depend on what others have, and change as it grows.
        """
        if self.cap is None or self.catalogue != "from data":
            return np.zeros(0, dtype=np.uint64)
        return np.array([item_mark(as_text(one)) for one in self.labels()[0]], dtype=np.uint64)

    def labels(self) -> tuple[tuple[Any, ...], NDArray[np.int64] | None]:
        """The catalogue, and the place of each item in it where these were numbered as they came."""
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
        """The people of a bucket, with those who were in it before."""
        rows = spill.taken(number)
        if old is not None:
            before = rows_of(old.bucket(number), spill.kind, spill.nothing)
            rows = Rows(*map(np.concatenate, zip(before, rows, strict=True)))
        known = len(self.names.labels)
        weighted = self.weight is not None
        return bucket_of(rows, spill.nothing, known, weighted, self.cap, self._cap_key, self._marks, place)

    def manifest(self, generation: int, labels: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """What a store says about itself."""
        return {
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
            "labels": labels,
            "parts": parts,
        }


def written(folder: Path, made: Mapping[str, Callable[[], Bucket]], progress: bool) -> list[dict[str, Any]]:
    """Buckets, each made when it is its turn, as folders; what the manifest says about them."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(_written, folder / name, one) for name, one in made.items()]
        try:
            return [waiting[at].result() for at in track(range(len(waiting)), "buckets", _watched(progress))]
        finally:
            pool.shutdown(cancel_futures=True)


def _written(folder: Path, made: Callable[[], Bucket]) -> dict[str, Any]:
    return write_bucket(folder, made())


def settings_of(
    items: Iterable[Any] | None, unknown_items: str, cap: int | None, highest: float, buckets: int | None
) -> tuple[Names, str]:
    """The names of the items and where these come from; settings that are out of range are refused."""
    one_of("unknown_items", unknown_items, ("error", "drop"))
    if cap is not None:
        whole("cap", cap, at_least=1)
    real("highest", highest, above=0.0, infinite=True)
    if buckets is not None:
        whole("buckets", buckets, at_least=1, at_most=MOST_BUCKETS)
    if items is None:
        return Names(item_name), "from data"
    private = isinstance(items, PrivateCatalogue)
    return Names(item_name, [plain_label(one) for one in items]), "private" if private else "public"


def checked_key(key: Any) -> bytes:
    """A secret that was given."""
    instance("key", key, bytes, "secrets.token_bytes(32)")
    if len(key) < SHORTEST_KEY:
        raise ValueError(f"key must have at least {SHORTEST_KEY} bytes, such as secrets.token_bytes(32)")
    return bytes(key)


def read_key(folder: Path) -> bytes:
    """The secret that lies in a store, or in a file."""
    path = folder / KEY if folder.is_dir() else folder
    try:
        return checked_key(bytes.fromhex(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        raise ValueError(f"{folder.name} holds no key; give the one that it was made with") from None
    except ValueError:
        raise ValueError(f"{path.name} is no key: at least 32 hexadecimal digits are needed") from None


def _watched(progress: bool) -> bool:
    return progress is True and sys.stderr.isatty()


def _said(found: Iterator[Batch], shown: bool) -> Iterator[Batch]:
    """The batches, with a line on how far a file is."""
    for batch in found:
        if shown:
            part = "" if batch.done is None else f": {batch.done:.0%}"
            print(f"\rreading {batch.source.name}{part}   ", end="", file=sys.stderr, flush=True)
        yield batch
    if shown:
        print(file=sys.stderr)
