"""Spark's frames to stores of people: the same store as `discreet.data.prepare` makes, bit for bit.

Spark is for reading and shuffling only: what is chosen is chosen from the store. Its executors see
identities, items and the secret of the hash, and write their buckets into the folder of the store, which they
must be able to reach; the driver gives them their names, of each bucket that of the attempt whose answer it
has got, and writes the manifest when all are there. A task that is run again writes the same bucket again:
keys and coins follow from the secret, the person and the item, and from nothing else. So the frame must be
one that Spark computes the same way each time: no random numbers, no limits without an order. What executors
say when something fails holds no rows.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .core.checks import DataError
from .data.labels import Listed
from .data.source import Source
from .data.store import Store
from .data.store.needs import Needs
from .data.store.preparing import Found, Work, checked_key, settings_of
from .data.store.sources import batches
from .data.store.spill import Rows, Spill
from .data.store.writing import new_folder, write_bucket, write_key, write_labels, write_manifest

_HASHED = "bucket int, key long, item long, weight double"
_WRITTEN = "bucket int, said string"
_NUMBERS, _ODD = 1, 2


def prepare(
    dataframe: Any,
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
) -> Store:
    """A Spark DataFrame of events to a store of people; the arguments are those of `discreet.data.prepare`.

    ``to`` is a folder that the driver and all executors see under this name. The frame is counted first, to
    choose the number of ``buckets`` where none is given, and read once more for the catalogue where there are
    no ``items``.
    """
    names, catalogue = settings_of(items, unknown_items, cap, highest, buckets)
    source = Source(dataframe)
    asked = {"person": person, "item": item} | ({} if weight is None else {"weight": weight})
    source.places(dataframe.columns, asked, public=True)
    wanted = dataframe.select(*dict.fromkeys(asked.values()))
    secret = secrets.token_bytes(32) if key is None else checked_key(key)
    count = buckets or Needs.of(_answered(wanted.count), 1, weight is not None, 1).buckets
    if isinstance(names, Found):
        rows = _answered(wanted.select(item).distinct().collect)
        found = Found(row[0] for row in rows if row[0] is not None)
        first = Work(person, item, weight, found, catalogue, "error", cap, highest, count, secret)
        first.written = False
        labels, _ = first.labels()
        names = Listed("items", labels)
    work = Work(person, item, weight, names, catalogue, unknown_items, cap, highest, count, secret)
    work.written = False
    with new_folder(Path(to)) as folder:
        hashed = wanted.mapInArrow(_hashing(work, asked), _HASHED)
        told = hashed.repartition(count, "bucket").mapInArrow(_writing(work, folder.absolute()), _WRITTEN)
        parts: dict[int, dict[str, Any]] = {}
        for bucket, said in _answered(told.collect):
            if bucket in parts:
                raise RuntimeError("Spark has answered for a bucket twice; nothing was made of it")
            if bucket < count:
                parts[bucket] = json.loads(said)
            else:
                work.identities.numbers |= bool((bucket - count) & _NUMBERS)
                work.identities.odd |= bool((bucket - count) & _ODD)
        if not parts:
            raise ValueError("there are no people; give at least one event")
        for bucket in set(range(count)) - set(parts):
            parts[bucket] = _write(work, folder, [])
        for bucket, part in parts.items():
            os.rename(folder / part["folder"], folder / f"bucket-{bucket:05d}")
            part["folder"] = f"bucket-{bucket:05d}"
        for left in folder.glob(".try-*"):
            shutil.rmtree(left)
        if key is None:
            write_key(folder, secret)
        said = write_labels(folder, tuple(names.labels))
        write_manifest(folder, work.manifest(1, said, [parts[number] for number in range(count)]))
    return Store.open(to)


def _hashing(work: Work, asked: dict[str, str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows of a partition with keys in place of identities, and in the end which kinds of these it met."""

    @_without_rows
    def hashed(found: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as arrow

        for part in found:
            for batch in batches(Source(arrow.Table.from_batches([part])), asked):
                rows = work.rows(batch, _nothing(work), np.dtype("<i8"))
                yield _batch(rows.keys % np.uint64(work.buckets), rows)
        kinds = _NUMBERS * work.identities.numbers + _ODD * work.identities.odd
        one = np.zeros(1, dtype=np.int64)
        yield _batch(one + work.buckets + kinds, Rows(one.astype(np.uint64), one, one.astype(float)))

    return hashed


def _writing(work: Work, folder: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The buckets of a partition, written; what the manifest says about them."""

    @_without_rows
    def written(found: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as arrow

        held: dict[int, list[Rows]] = defaultdict(list)
        for part in found:
            which, keys, items, weights = (part.column(at).to_numpy(zero_copy_only=False) for at in range(4))
            for bucket in np.unique(which).tolist():
                here = which == bucket
                held[bucket].append(Rows(keys[here].view(np.uint64), items[here], weights[here]))
        for bucket, rows in held.items():
            said = json.dumps(_write(work, folder, rows)) if bucket < work.buckets else ""
            schema = arrow.schema([("bucket", arrow.int32()), ("said", arrow.string())])
            yield arrow.RecordBatch.from_pylist([{"bucket": bucket, "said": said}], schema)

    return written


def _write(work: Work, folder: Path, rows: list[Rows]) -> dict[str, Any]:
    """One bucket, in a folder of its own: of a task that runs twice each attempt has one."""
    spill = Spill(folder, 1, _known(work), work.weight is not None, 1 << 62)
    weighted = work.weight is not None
    for some in rows:
        weights = some.weights if weighted else np.zeros(0)
        start = np.array([0, some.keys.size])
        spill.add(start, Rows(some.keys, some.items.astype(spill.kind), weights))
    own = folder / f".try-{uuid.uuid4().hex}"  # a name, no coin: nothing that is written depends on it
    return write_bucket(own, work.bucket(spill, None, 0)) | {"folder": own.name}


def _batch(buckets: Any, rows: Rows) -> Any:
    import pyarrow as arrow

    weights = rows.weights if rows.weights.size else np.ones(rows.keys.size)
    columns = [buckets.astype(np.int32), rows.keys.view(np.int64), rows.items.astype(np.int64), weights]
    return arrow.RecordBatch.from_arrays(list(map(arrow.array, columns)), ["bucket", "key", "item", "weight"])


def _known(work: Work) -> int:
    return len(work.names.labels)


def _nothing(work: Work) -> int:
    """The number that stands for no item."""
    return Spill(Path(), 1, _known(work), False, 0).nothing


def _without_rows(
    task: Callable[[Iterator[Any]], Iterator[Any]],
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same, whose errors are refusals in words about columns, or name the kind of an error alone."""

    def careful(found: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from task(found)
        except Exception as error:
            if type(error) in (DataError, TypeError):
                raise type(error)(str(error)) from None
            raise RuntimeError(f"a task failed: {type(error).__name__}") from None

    return careful


def _answered(ask: Callable[[], Any]) -> Any:
    """What Spark answers; a refusal of an executor as it was meant, other errors without their words."""
    try:
        return ask()
    except Exception as error:
        problem = _problem(error)
    raise problem


def _problem(error: Exception) -> Exception:
    for line in reversed(str(error).splitlines()):
        kind, _, words = line.strip().partition(": ")
        if kind.endswith(("DataError", "TypeError")) and words:
            return DataError(words)
        if kind == "RuntimeError" and words.startswith("a task failed: "):
            return RuntimeError(f"Spark gave no answer; {words}")
    return RuntimeError(f"Spark gave no answer: {type(error).__name__}")
