"""Spark's frames to stores: the same store as `discreet.data.prepare` makes, bit for bit.

Spark is for reading and shuffling only: what is chosen is chosen from the store. Its executors see
identities, items and the secret of the hash, and write their buckets into the folder of the store, which they
must be able to reach; the driver gives them their names, of each bucket that of the attempt whose answer it
has got, and writes the manifest when all are there. A task that is run again writes the same bucket again:
keys follow from the secret, the person and the item, and from nothing else. So the frame must be
one that Spark computes the same way each time: no random numbers, no limits without an order. What executors
say when something fails holds no rows.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .core.checks import DataError
from .data.costs import Needs
from .data.events import Names, as_text, in_order, item_name
from .data.preparing import KeyedRows, Spill, Work
from .data.read import Source, batches
from .data.store import Store, new_folder, write_bucket

_HASHED = "bucket int, key long, item long, weight double"
_WRITTEN = "bucket int, said string"


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
    """A Spark DataFrame of events to a store; the arguments are those of `discreet.data.prepare`.

    ``to`` is a folder that the driver and all executors see under this name. The frame is counted first, to
    choose the number of ``buckets`` where none is given, and read once more for the catalogue where there are
    no ``items``.
    """
    work = Work.of(person, item, weight, items, unknown_items, cap, highest, key)
    Source(dataframe).places(dataframe.columns, work.asked, public=True)
    wanted = dataframe.select(*dict.fromkeys(work.asked.values()))
    token = secrets.token_hex(8)
    count = buckets or Needs.of(_answered(token, wanted.count), 1, weight is not None, 1).buckets
    work.set_buckets(count)
    if not work.names.listed:
        naming = _without_rows(token, _naming(item))
        named = wanted.select(item).mapInArrow(naming, "name string").distinct()
        for (name,) in _answered(token, named.collect):
            work.names.number(name)
        labels = work.names.labels
        work = replace(work, names=Names(item_name, [labels[place] for place in in_order(labels)]))
    with new_folder(Path(to)) as folder:
        hashing = _without_rows(token, _hashing(work))
        writing = _without_rows(token, _writing(work, folder.absolute()))
        hashed = wanted.mapInArrow(hashing, _HASHED).repartition(count, "bucket")
        told = hashed.mapInArrow(writing, _WRITTEN)
        parts: dict[int, dict[str, Any]] = {}
        for bucket, said in _answered(token, told.collect):
            if bucket in parts:
                raise RuntimeError("Spark has answered for a bucket twice; nothing was made of it")
            parts[bucket] = json.loads(said)
        if not parts:
            raise ValueError("there are no people; give at least one event")
        for bucket in set(range(count)) - set(parts):
            parts[bucket] = _write(work, folder, [])
        for bucket, part in parts.items():
            os.rename(folder / part["folder"], folder / f"bucket-{bucket:05d}")
            part["folder"] = f"bucket-{bucket:05d}"
        for left in folder.glob(".try-*"):
            shutil.rmtree(left)
        work.finish(folder, [parts[number] for number in range(count)], own_key=key is None)
    return Store.open(to)


def _naming(item: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The names of a partition's items as text, by the reader of rows: Spark's own times and bytes differ."""

    def named(found: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as arrow

        names = Names(item_name)
        for part in found:
            before = len(names.labels)
            for batch in batches(Source(arrow.Table.from_batches([part])), {"item": item}):
                names.of(batch.columns["item"])
            texts = arrow.array(list(map(as_text, names.labels[before:])), arrow.string())
            yield arrow.RecordBatch.from_arrays([texts], ["name"])

    return named


def _hashing(work: Work) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows of a partition with keys in place of identities."""

    def hashed(found: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as arrow

        for part in found:
            for batch in batches(Source(arrow.Table.from_batches([part])), work.asked):
                rows = work.rows(batch, _nothing(work), np.dtype("<i8"))
                yield _batch(rows.keys % np.uint64(work.buckets), rows)

    return hashed


def _writing(work: Work, folder: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The buckets of a partition, written; what the manifest says about them."""

    def written(found: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as arrow

        held: dict[int, list[KeyedRows]] = defaultdict(list)
        for part in found:
            which, keys, items, weights = (part.column(at).to_numpy(zero_copy_only=False) for at in range(4))
            for bucket in np.unique(which).tolist():
                here = which == bucket
                held[bucket].append(KeyedRows(keys[here].view(np.uint64), items[here], weights[here]))
        for bucket, rows in held.items():
            said = json.dumps(_write(work, folder, rows))
            schema = arrow.schema([("bucket", arrow.int32()), ("said", arrow.string())])
            yield arrow.RecordBatch.from_pylist([{"bucket": bucket, "said": said}], schema)

    return written


def _write(work: Work, folder: Path, rows: list[KeyedRows]) -> dict[str, Any]:
    """One bucket, in a folder of its own: of a task that runs twice each attempt has one."""
    spill = Spill(folder, 1, _known(work), work.weight is not None, 1 << 62)
    weighted = work.weight is not None
    for some in rows:
        weights = some.weights if weighted else np.zeros(0)
        start = np.array([0, some.keys.size])
        spill.add(start, KeyedRows(some.keys, some.items.astype(spill.kind), weights))
    own = folder / f".try-{uuid.uuid4().hex}"  # a name alone: nothing that is written depends on it
    return write_bucket(own, work.bucket(spill, None, 0)) | {"folder": own.name}


def _batch(buckets: Any, rows: KeyedRows) -> Any:
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
    token: str, task: Callable[[Iterator[Any]], Iterator[Any]]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same, whose errors are refusals in words about columns, or name the kind of an error alone.

    ``token`` marks them: of what others say, the frame's own functions among them, nothing is repeated.
    """

    def careful(found: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from task(found)
        except DataError as error:
            words = f"{token} refused: {error}"
        except Exception as error:
            words = f"{token} failed: {type(error).__name__}"
        else:
            return
        raise RuntimeError(words)

    return careful


def _answered(token: str, ask: Callable[[], Any]) -> Any:
    """What Spark answers; a refusal of an executor as it was meant, other errors without their words."""
    try:
        return ask()
    except Exception as error:
        said, kind = str(error), type(error).__name__
    found = re.search(rf"{token} (refused|failed): (.*)", said)
    if found is None:
        raise RuntimeError(f"Spark gave no answer: {kind}")
    if found[1] == "refused":
        raise DataError(found[2])
    raise RuntimeError(f"Spark gave no answer; a task failed: {found[2]}")
