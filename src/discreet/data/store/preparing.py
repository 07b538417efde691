"""Events to a store of people, out of core."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.checks import instance, one_of, real, whole
from ...core.labels import plain_label
from ..events import PrivateCatalogue
from ..labels import MISSING, UNLISTED, Listed, Names, alike, in_order
from ..rows import GoodRows, amounts, unlisted
from ..source import Batch, Source
from .identity import SHORTEST_KEY, Identities, key_id, key_words
from .layout import FORMAT, KEY, MOST_BUCKETS, VERSION, Store
from .sources import batches
from .spill import Rows, Spill, bucket_of
from .writing import new_folder, spill_folder, write_bucket, write_key, write_labels, write_manifest

_PER_BUCKET = 1 << 20  # rows


def prepare(
    source: Any,
    *,
    person: str,
    item: str,
    weight: str | None = None,
    items: Iterable[Any] | None = None,
    to: str | os.PathLike[str],
    cap: int | None = None,
    buckets: int | None = None,
    key: bytes | None = None,
    unknown_items: str = "error",
    highest: float = math.inf,
    memory: int = 256 << 20,
    progress: bool = True,  # noqa: ARG001
) -> Store:
    """Events to a store of people on disk."""
    target = Path(to)
    one_of("unknown_items", unknown_items, ("error", "drop"))
    if cap is not None:
        whole("cap", cap, at_least=1)
    count = 64 if buckets is None else whole("buckets", buckets, at_least=1, at_most=MOST_BUCKETS)
    secret = secrets.token_bytes(32) if key is None else checked_key(key)
    real("highest", highest, above=0.0, infinite=True)
    names = Found() if items is None else Listed("items", [plain_label(one) for one in items])
    catalogue = "public"
    if items is None or isinstance(items, PrivateCatalogue):
        catalogue = "from data" if items is None else "private"
    drop = unknown_items == "drop" or catalogue == "private"
    asked = {"person": person, "item": item} | ({} if weight is None else {"weight": weight})
    table = source if isinstance(source, Source) else Source(source)
    identities = Identities(secret, f"person={person!r}")
    with new_folder(target) as folder:
        known = None if items is None else len(names.labels)
        spill = Spill(spill_folder(folder), count, known, weight is not None, memory)
        for batch in batches(table, asked):
            spill.add(*spill.scattered(rows_of_batch(batch, identities, names, spill, drop, highest)))
        spill.finish()
        labels, place = listed(names)
        if not labels:
            raise ValueError("there are no items: the ground set is empty; give events, or a catalogue")
        if not spill.rows:
            raise ValueError("there are no people; give at least one event")
        parts = []
        for number in range(count):
            bucket = bucket_of(
                spill.taken(number),
                spill.nothing,
                len(labels),
                weight is not None,
                cap,
                key_words(secret, b"store cap"),
                place,
            )
            parts.append(write_bucket(folder / f"bucket-{number:05d}", bucket))
        spill_folder(folder).rmdir()
        if key is None:
            write_key(folder, secret)
        write_manifest(
            folder,
            {
                "format": FORMAT,
                "version": VERSION,
                "generation": 1,
                "buckets": count,
                "key_id": key_id(secret),
                "n_items": len(labels),
                "catalogue": catalogue,
                "weighted": weight is not None,
                "highest": None if math.isinf(highest) else highest,
                "cap": cap,
                "identities": {"numbers": identities.numbers, "odd": identities.odd},
                "labels": write_labels(folder, labels),
                "parts": parts,
            },
        )
    return Store.open(target)


class Found(Names):
    """Items as they occur; `alike` ones are one item."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[Any, int] = {}

    def _number(self, found: Any) -> int:
        place = self._places.setdefault(alike(found), len(self.labels))
        if place == len(self.labels):
            self.labels.append(plain_label(found))
        return place


def listed(names: Names) -> tuple[tuple[Any, ...], NDArray[np.int64] | None]:
    """The catalogue, and the place of each item in it where these were numbered as they came."""
    if isinstance(names, Listed):
        return tuple(names.labels), None
    order = in_order(names.labels)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return tuple(names.labels[at] for at in order), place


def rows_of_batch(
    batch: Batch, identities: Identities, names: Names, spill: Spill, drop: bool, highest: float
) -> Rows:
    """A batch as keys, numbers of items and weights; what is wrong with it is refused, or left out."""
    rows = GoodRows(batch)
    column = batch.columns["person"]
    keys, missing = identities.of_column(column)
    rows.need("person", ~missing)
    somebody = rows.good
    weights = np.zeros(0)
    if "weight" in batch.columns:
        weights = amounts(batch.columns["weight"])
        rows.weighed(weights, highest)
    # Only what stands in rows that are kept gets into a list that is taken from data.
    what = rows.numbers(names, batch.columns["item"])
    rows.need("item", what != MISSING)
    if not drop:
        rows.keep(what != UNLISTED, lambda row: unlisted(batch, "item", row))
    # Whoever has a row that is left out still counts as somebody.
    kept = np.where(rows.good & (what >= 0), what, spill.nothing).astype(spill.kind)
    if somebody.all():
        return Rows(keys, kept, weights)
    return Rows(keys[somebody], kept[somebody], weights[somebody] if weights.size else weights)


def checked_key(key: Any) -> bytes:
    """A secret that was given."""
    instance("key", key, bytes, "secrets.token_bytes(32)")
    if len(key) < SHORTEST_KEY:
        raise ValueError(f"key must have at least {SHORTEST_KEY} bytes, such as secrets.token_bytes(32)")
    return bytes(key)


def read_key(folder: Path) -> bytes:
    """The secret of a store."""
    return bytes.fromhex((folder / KEY).read_text())
