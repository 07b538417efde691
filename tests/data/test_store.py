"""Stores against a slow twin; what splits or alters somebody is refused, by name."""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import json
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections import defaultdict
from contextlib import suppress

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.core.checks import DataError
from discreet.data import Store, append, costs, prepare, preparing, read
from discreet.data import store as layout
from discreet.data.events import as_text
from discreet.data.preparing import Identities, KeyedRows, Spill, bucket_of, key_words
from discreet.data.read import Source
from discreet.data.store import Bucket
from discreet.kernels import stores as kernels
from discreet.objectives import Coverage

KEY = bytes(range(32))
ITEMS = [f"p{number}" for number in range(12)]
_MASK = (1 << 64) - 1


# --- the slow twin -------------------------------------------------------------------------------------


def siphash(words, text):
    """SipHash-2-4 as its authors describe it."""
    first, second = (int(word) for word in words)
    v = [
        first ^ 0x736F6D6570736575,
        second ^ 0x646F72616E646F6D,
        first ^ 0x6C7967656E657261,
        second ^ 0x7465646279746573,
    ]

    def turned(value, by):
        return ((value << by) | (value >> (64 - by))) & _MASK

    def rounds(count):
        for _ in range(count):
            v[0], v[2] = (v[0] + v[1]) & _MASK, (v[2] + v[3]) & _MASK
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & _MASK, (v[0] + v[3]) & _MASK
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def slow(rows, labels, buckets, cap=None):
    """``{bucket: [(key, {item: weight})]}`` of (person, item, weight) rows."""
    place = {label: number for number, label in enumerate(labels)}
    people = defaultdict(dict)
    for who, what, weight in rows:
        mine = people[siphash(key_words(KEY, b"store people"), as_text(who).encode())]
        if what in place and weight > 0.0:
            mine[place[what]] = max(weight, mine.get(place[what], 0.0))
    found = {number: [] for number in range(buckets)}
    for key in sorted(people):
        mine = people[key]
        if cap is not None:
            words = key_words(KEY, b"store cap")
            coins = {
                item: siphash(words, key.to_bytes(8, "little") + item.to_bytes(8, "little")) for item in mine
            }
            mine = {item: mine[item] for item in sorted(mine, key=coins.get)[:cap]}
        found[key % buckets].append((key, dict(sorted(mine.items()))))
    return found


def held(store):
    """The same of a store."""
    found = {}
    for number in range(store.n_buckets):
        bucket = store.bucket(number)
        found[number] = []
        for i, key in enumerate(bucket.keys.tolist()):
            here = slice(int(bucket.ends[i]), int(bucket.ends[i + 1]))
            weights = (
                [1.0] * (here.stop - here.start) if bucket.weights is None else bucket.weights[here].tolist()
            )
            found[number].append((key, dict(zip(bucket.items[here].tolist(), weights, strict=True))))
    return found


def files_of(folder):
    """Every file of a store but its key, with what is in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "key")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def synthetic(count=600, people=90, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.integers(0, people, count).tolist()
    what = [ITEMS[number] for number in rng.integers(0, len(ITEMS), count)]
    return who, what, rng.choice([0.0, 0.25, 0.5, 1.0], count).tolist()


def made(tmp_path, source, name="store", **options):
    given = {"person": "user", "item": "page", "items": ITEMS, "key": KEY, "buckets": 5} | options
    return prepare(source, to=tmp_path / name, **given)


def small(tmp_path, **options):
    who, what, _ = synthetic()
    return made(tmp_path, {"user": who, "page": what}, **options)


@pytest.mark.parametrize(("rows", "people"), [(3, 2), (300, 1), (9000, 400), (40_000, 30_000), (9000, 2)])
@pytest.mark.parametrize("kind", ["<u2", "<u4"])
def test_rows_become_people_in_order(rows, people, kind):
    rng = np.random.default_rng(rows)
    who = rng.integers(0, 1 << 64, people, dtype=np.uint64)[rng.integers(0, people, rows)]
    what, weights = rng.integers(0, 5000, rows).astype(kind), rng.integers(0, 3, rows) / 2
    found = bucket_of(
        KeyedRows(who, what, weights), 4999, 5000, True, None, *np.zeros((2, 2), dtype=np.uint64)
    )
    expected = {person: {} for person in who.tolist()}
    for person, item, weight in zip(who.tolist(), what.tolist(), weights.tolist(), strict=True):
        if weight > 0.0 and item != 4999:
            expected[person][item] = max(weight, expected[person].get(item, 0.0))
    in_order = [sorted(expected[person].items()) for person in sorted(expected)]
    assert found.keys.tolist() == sorted(expected)
    assert found.ends.tolist() == [0, *np.cumsum([len(row) for row in in_order])]
    assert found.items.tolist() == [item for row in in_order for item, _ in row]
    assert found.weights.tolist() == [weight for row in in_order for _, weight in row]


# --- the hash ------------------------------------------------------------------------------------------


def test_the_hash_is_siphash():
    words = np.frombuffer(bytes(range(16)), dtype="<u8").astype(np.uint64)
    assert siphash(words, bytes(range(15))) == 0xA129CA6149BE45E5  # the vector of its authors
    few = [bytes(range(65, 65 + size)) for size in range(20)] + [b"\xc3\xa9t\xc3\xa9", b"x" * 300]
    # Texts of as many words are hashed side by side, others one by one: a person must not get two keys.
    many = [b"%0*d" % (size, number) for size in (7, 9, 15, 16, 36) for number in range(64)]
    mixed = [b"user-%d" % number for number in range(960, 1100)]
    for texts in (few, many, many[3:] + few, mixed, [b""] * 70, [b"a", *[b""] * 70]):
        ends = np.cumsum([0, *map(len, texts)])
        text = np.frombuffer(b"".join(texts), np.uint8)
        kinds = kernels.kinds_of(ends, text)
        assert kernels.hash_texts(ends, text, words).tolist() == [siphash(words, text) for text in texts]
        assert [kind == kernels.MISSING for kind in kinds] == [not text for text in texts]


def keys_of(cells):
    """The keys of people in a column of any kind, and which of them name nobody."""
    return Identities(KEY).of(read.column_of("", "person", cells))


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int8])
def test_whole_numbers_are_hashed_as_their_digits(kind):
    limits = np.iinfo(kind)
    values = [0, 1, 9, 10, 99, 100, limits.max, limits.min]
    values = np.array([*values, *[limits.max - 1] * 64, *range(100), *values], dtype=kind)
    found, _ = keys_of(pa.array(values))
    expected, _ = keys_of(pa.array([str(value) for value in values.tolist()]))
    assert found.tolist() == expected.tolist()


# --- against the twin ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("memory", [1 << 16, 1 << 28])
def test_a_store_is_what_the_slow_twin_makes(tmp_path, cap, weighted, memory, monkeypatch):
    monkeypatch.setattr("discreet.data.read.ROWS", 100)
    who, what, weights = synthetic(9000 if memory == 1 << 16 else 600)
    options = {"weight": "w", "highest": 1.0} if weighted else {}
    table = {"user": who, "page": what, "w": weights}
    store = made(tmp_path, table, cap=cap, memory=memory, **options)
    rows = list(zip(who, what, weights if weighted else [1.0] * len(who), strict=True))
    assert held(store) == slow(rows, ITEMS, 5, cap)
    assert (len(store), store.weighted, store.cap) == (len(set(who)), weighted, cap)
    store.verify()


def test_rows_in_any_order_and_any_chunks_make_the_same_files(tmp_path):
    who, what, _ = synthetic()
    store = made(tmp_path, {"user": who, "page": what}, cap=3)
    order = np.random.default_rng(1).permutation(len(who))
    shuffled = {"user": [str(who[i]) for i in order], "page": [what[i] for i in order]}
    parts = [
        {name: column[at : at + 70] for name, column in shuffled.items()} for at in range(0, len(who), 70)
    ]
    again = made(tmp_path, iter(parts), "again", cap=3)
    first, second = files_of(store.path), files_of(again.path)
    for manifest in (first.pop("manifest.json"), second.pop("manifest.json")):
        assert json.loads(manifest)["key_id"] == store.manifest["key_id"]
    assert first == second


def test_whoever_has_a_row_that_is_left_out_counts(tmp_path):
    table = {"user": ["ann", "bob", "cy"], "page": ["p0", "other", "p1"], "w": [1.0, 1.0, 0.0]}
    store = made(tmp_path, table, unknown_items="drop", weight="w")
    assert (len(store), store.n_entries) == (3, 1)
    with pytest.raises(DataError, match="items= does not list") as caught:
        made(tmp_path, table, "other")
    assert "other" in caught.value.details
    assert not (tmp_path / "other").exists()


def test_a_catalogue_from_data_is_sorted_and_marked(tmp_path):
    who, what, _ = synthetic()
    store = made(tmp_path, {"user": who, "page": what}, items=None)
    assert store.catalogue == "from data"
    assert store.labels == tuple(sorted(ITEMS))
    rows = [(a, b, 1.0) for a, b in zip(who, what, strict=True)]
    assert held(store) == slow(rows, sorted(ITEMS), 5)


def test_many_items_take_wider_numbers(tmp_path):
    store = prepare(
        {"user": [1, 2], "page": [0, 69_999]},
        person="user",
        item="page",
        items=range(70_000),
        to=tmp_path / "s",
    )
    assert {bucket.items.dtype for bucket in store.buckets()} == {np.dtype("<u4")}
    narrow = prepare(
        {"user": [1], "page": [65_535]}, person="user", item="page", items=range(65_536), to=tmp_path / "t"
    )
    assert narrow.n_entries == 1
    assert {bucket.items.dtype for bucket in narrow.buckets()} == {np.dtype("<u2")}


# --- sources -------------------------------------------------------------------------------------------


def _sqlite(table, folder):
    connection = sqlite3.connect(folder / "db")
    connection.execute("create table events (page text, user integer)")
    connection.executemany("insert into events values (?, ?)", zip(table["page"], table["user"], strict=True))
    return connection.execute("select user, page from events")


def _sqlalchemy(table, folder):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    _sqlite(table, folder).connection.commit()
    engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'db'}")
    return engine.connect().execute(sqlalchemy.text("select user, page from events"))


class _Adbc:
    """As a cursor of ADBC answers."""

    def __init__(self, table):
        self._table = table

    def fetch_record_batch(self):
        return pa.table(self._table).to_reader(50)


def _csv(table, folder, **options):
    path = folder / "events.csv"
    pd.DataFrame(table).to_csv(path, index=False, **options)
    return path


def _gzipped(table, folder):
    path = folder / "events.csv.gz"
    path.write_bytes(gzip.compress(_csv(table, folder).read_bytes()))
    return path


def _folder(table, folder):
    parts = folder / "parts" / "day=1"
    parts.mkdir(parents=True)
    frame = pd.DataFrame(table)
    frame[:200].to_parquet(parts / "a.parquet")
    frame[200:400].astype({"user": str}).to_parquet(parts / "b.parquet")
    frame[400:].to_csv(folder / "parts" / "c.csv", index=False)
    (folder / "parts" / "_SUCCESS").write_text("")
    return folder / "parts"


def _pattern(table, folder):
    _folder(table, folder)
    return f"{folder}/parts/**/*.*"


def _categories(table, folder):  # noqa: ARG001
    return pd.DataFrame(table).astype({"user": str}).astype("category")


SOURCES = {
    "csv": _csv,
    "quoted csv": lambda table, folder: _csv(table, folder, quoting=csv.QUOTE_ALL),
    "gzipped csv": _gzipped,
    "folder": _folder,
    "pattern": _pattern,
    "pandas": lambda table, _: pd.DataFrame(table),
    "categories": _categories,
    "polars": lambda table, _: pl.DataFrame(table),
    "lazy polars": lambda table, _: pl.LazyFrame(table),
    "arrow": lambda table, _: pa.table(table),
    "reader": lambda table, _: pa.table(table).to_reader(64),
    "rows": lambda table, _: (
        {"user": a, "page": b} for a, b in zip(table["user"], table["page"], strict=True)
    ),
    "chunks": lambda table, _: (pd.DataFrame(table)[at : at + 99] for at in range(0, 600, 99)),
    "sqlite": _sqlite,
    "sqlalchemy": _sqlalchemy,
    "adbc": lambda table, _: _Adbc(table),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_people(kind, tmp_path):
    who, what, _ = synthetic()
    source = SOURCES[kind]({"user": who, "page": what}, tmp_path)
    store = made(tmp_path, source)
    assert held(store) == slow([(a, b, 1.0) for a, b in zip(who, what, strict=True)], ITEMS, 5)


def test_a_column_of_python_s_objects_in_polars(tmp_path):
    """One id of another type makes it one of the column, and Polars would hand over addresses of all."""
    people = [uuid.UUID(int=7), "ann", 7, "ann", "7"]
    frame = pl.DataFrame({"user": pl.Series(people, dtype=pl.Object), "page": ["p0", "p1", "p2", "p3", "p4"]})
    for table in (frame, frame.lazy(), iter([frame[:2], frame[2:]])):
        store = made(tmp_path, table)
        keys, _ = keys_of([str(uuid.UUID(int=7)), "ann", 7])
        assert {key for some in held(store).values() for key, _ in some} == set(keys.tolist())
        shutil.rmtree(store.path)


def test_a_cell_of_one_row_does_not_decide_what_the_others_are(tmp_path):
    """A first row with a list in a cell was taken for a table of columns, and all others with it."""
    rows = [{"user": "ann", "page": ["p0"]}, {"user": "bob", "page": "p1"}, {"user": "cy", "page": "p2"}]
    for order in (rows, rows[1:] + rows[:1]):
        store = made(tmp_path, Source(iter(order), skip_bad=True))
        assert (len(store), store.n_entries) == (3, 2)
        shutil.rmtree(store.path)
        with pytest.raises(DataError, match="an entry of column 'page' is missing, or is neither text"):
            made(tmp_path, iter(order))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="no file is named like"):
        made(tmp_path, f"{tmp_path}/*.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no files ending in"):
        made(tmp_path, tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        made(tmp_path, tmp_path / "gone.parquet")


# --- append --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("catalogue", [ITEMS, None])
def test_appended_days_are_as_if_they_had_always_been_there(tmp_path, catalogue):
    who, what, weights = synthetic()
    frame = pd.DataFrame({"user": who, "page": what, "w": weights})
    asked = {"person": "user", "item": "page", "weight": "w", "key": KEY}
    first = frame[:200] if catalogue else frame[:200].query("page < 'p5'")
    rest = frame.drop(first.index).astype({"user": str})
    whole = made(tmp_path, frame, "whole", weight="w", cap=3, items=catalogue)
    store = made(tmp_path, first, weight="w", cap=3, items=catalogue)
    before = store.bucket(0)
    keys = before.keys.tolist()
    after = append(rest, to=store.path, **asked)
    assert held(after) == held(whole)
    assert after.labels == whole.labels
    assert (whole.manifest["generation"], after.manifest["generation"]) == (1, 2)
    assert before.keys.tolist() == keys  # whoever had it open
    after.verify()
    assert held(append(rest, to=store.path, **asked)) == held(whole)  # twice is once
    assert len(list(store.path.glob("bucket-*"))) == 5


def test_an_append_that_fails_changes_nothing(tmp_path):
    store = small(tmp_path)
    kept = files_of(store.path)
    more = {"user": [1, 2], "page": ["p0", "nowhere"]}
    with pytest.raises(DataError, match="does not list"):
        append(more, person="user", item="page", to=store.path, key=KEY)
    assert files_of(store.path) == kept


def test_appending_needs_the_key_and_the_same_columns(tmp_path):
    store = small(tmp_path)
    asked = {"person": "user", "item": "page", "to": store.path}
    more = {"user": [1], "page": ["p0"], "w": [1.0]}
    with pytest.raises(ValueError, match="holds no key"):
        append(more, **asked)
    with pytest.raises(ValueError, match="not the secret"):
        append(more, key=bytes(32), **asked)
    with pytest.raises(ValueError, match="the store has none"):
        append(more, key=KEY, weight="w", **asked)
    own = made(tmp_path, more, "own", key=None)
    assert (own.path / "key").stat().st_mode & 0o777 == 0o600
    assert len(append({"user": [2], "page": ["p0"]}, person="user", item="page", to=own.path)) == 2


# --- finished or not there -----------------------------------------------------------------------------

_KILLED = """
import os, signal, sys
from discreet.data import preparing
real, left = preparing.{name}, [{after}]
def killed(*args, **options):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **options)
preparing.{name} = killed
rows = {{"user": list(range(50)), "page": ["p0"] * 50}}
preparing.{command}(rows, person="user", item="page", to=sys.argv[1], **{options})
"""


def killed(target, name, after, command="prepare", **options):
    """A process that is killed when it calls ``name`` once more than ``after`` times."""
    script = _KILLED.format(name=name, after=after, command=command, options=options)
    ended = subprocess.run([sys.executable, "-c", script, str(target)], check=False, env=os.environ)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("name", "after"), [("write_bucket", 2), ("write_manifest", 0)])
def test_a_killed_run_leaves_no_store_and_the_next_one_cleans_up(tmp_path, name, after):
    target = tmp_path / "people"
    killed(target, name, after, items=["p0"], buckets=4)
    assert not target.exists()
    assert (tmp_path / ".people.partial").exists()
    with pytest.raises(ValueError, match="not a store, or one that was not finished"):
        Store.open(target)
    made(tmp_path, {"user": [1], "page": ["p0"]}, "people").verify()
    assert [path.name for path in tmp_path.iterdir()] == ["people"]


@pytest.mark.parametrize(("name", "after"), [("write_bucket", 2), ("write_manifest", 0)])
def test_a_killed_append_leaves_the_store_as_it_was(tmp_path, name, after):
    store = small(tmp_path)
    kept = files_of(store.path)
    killed(store.path, name, after, "append", key=KEY)
    assert kept.items() <= files_of(store.path).items()
    again = Store.open(store.path)
    again.verify()
    assert again.digest == store.digest
    rows = {"user": list(range(50)), "page": ["p0"] * 50}
    append(rows, person="user", item="page", to=store.path, key=KEY).verify()
    assert len(list(store.path.glob("bucket-*"))) == 5


def test_two_runs_at_once_and_a_store_that_is_there(tmp_path):
    with (
        layout.new_folder(tmp_path / "people"),
        pytest.raises(ValueError, match="another process is writing"),
    ):
        made(tmp_path, {"user": [1], "page": ["p0"]}, "people")
    with pytest.raises(ValueError, match="is there already"):
        made(tmp_path, {"user": [1], "page": ["p0"]}, "people")


@pytest.mark.parametrize(("name", "after"), [("read_key", 0), ("remove_leftovers", 1)])
def test_two_appends_at_once_leave_a_whole_store(tmp_path, monkeypatch, name, after):
    """Another one comes before the store is locked, or when what is no longer named is removed."""
    rows = {"user": [1, 2, 3], "page": ["a", "b", "a"]}
    path = prepare(rows, person="user", item="page", items=["a", "b"], to=tmp_path / "people").path
    real, left = getattr(preparing, name), [after]

    def meanwhile(*given):
        left[0] -= 1
        if left[0] == -1:
            with suppress(ValueError):
                append({"user": [4], "page": ["a"]}, person="user", item="page", to=path)
        return real(*given)

    monkeypatch.setattr(preparing, name, meanwhile)
    with suppress(ValueError):
        append({"user": [5], "page": ["b"]}, person="user", item="page", to=path)
    store = Store.open(path)
    store.verify()
    assert len(store) == 4


def test_a_lock_that_is_gone_is_none(tmp_path, monkeypatch):
    """It was opened before its run ended, and is taken when another run is at work."""
    store, real, begun = small(tmp_path), layout.fcntl.flock, []

    def late(handle, how):
        if not begun:
            begun.append(layout.folder_in(store.path))
            append({"user": [4], "page": ["p0"]}, person="user", item="page", to=store.path, key=KEY)
            (begun[0].__enter__() / "at work").mkdir()
        return real(handle, how)

    monkeypatch.setattr(layout.fcntl, "flock", late)
    with pytest.raises(ValueError, match="another process is writing"), layout.folder_in(store.path):
        pass
    assert (store.path / ".partial" / "at work").exists()


def test_a_disk_that_cannot_hold_it_is_refused_before(tmp_path, monkeypatch):
    monkeypatch.setattr(costs.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(DataError, match="the disk may be too small for this store") as refused:
        small(tmp_path)
    assert refused.value.details.startswith("1 B are free, and up to ")  # which tells how many rows there are
    assert not set("0123456789") & set(str(refused.value))
    assert list(tmp_path.iterdir()) == []


def test_rows_that_a_disk_does_not_take_are_not_lost_without_a_word(tmp_path):
    """Few rows are written when their file is closed: nobody there may be told."""
    keys = np.arange(10, dtype=np.uint64)
    bucket = Bucket(keys, np.arange(11, dtype=np.int64), np.zeros(10, dtype=np.uint16))
    spill = Spill(tmp_path / "spilled", 1, 1, False, 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size, work in (
        (150, lambda: layout.write_bucket(tmp_path / "bucket", bucket)),
        (50, lambda: spill.add(np.array([0, 10]), KeyedRows(keys, bucket.items, np.zeros(0)))),
    ):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
            with pytest.raises(OSError, match="File too large"):
                work()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_is_there_already_needs_room_once_more(tmp_path, monkeypatch):
    """Three entries of two people and one row more, of 2 bytes and 16."""
    store = made(tmp_path, {"user": [1, 1, 2], "page": ["p0", "p1", "p0"]})
    monkeypatch.setattr(costs.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(DataError) as refused:
        append({"user": [3], "page": ["p0"]}, person="user", item="page", to=store.path, key=KEY)
    assert "up to 108 B may be needed" in refused.value.details


# --- altered stores ------------------------------------------------------------------------------------


def alter(store, number, change, *, honest=True):
    """Change the arrays of a bucket; ``honest``: with sums that fit, as a wrong writer would leave them."""
    bucket = store.bucket(number)
    arrays = {name: np.array(array) for name, array in bucket.arrays.items()}
    change(arrays)
    manifest = json.loads((store.path / "manifest.json").read_text())
    part = manifest["parts"][number]
    for name, array in arrays.items():
        np.save(store.path / part["folder"] / name, array)
        if honest:
            part["files"][name] = layout.file_digest(store.path / part["folder"] / name)
    if honest:
        part.update(people=arrays["keys.npy"].size, entries=arrays["items.npy"].size)
        (store.path / "manifest.json").write_text(json.dumps(layout.sealed(manifest)))


def _foreign(arrays):
    arrays["keys.npy"][0] += np.uint64(1)


def _twice(arrays):
    for name in ("keys.npy", "ends.npy"):
        arrays[name] = np.insert(arrays[name], 1, arrays[name][0])


def _swapped(arrays):
    arrays["keys.npy"][:2] = arrays["keys.npy"][1::-1].copy()


def _unknown(arrays):
    arrays["items.npy"][0] = 12


def _repeated(arrays):
    first = int(np.argmax(np.diff(arrays["ends.npy"]) > 1))
    at = int(arrays["ends.npy"][first])
    arrays["items.npy"][at + 1] = arrays["items.npy"][at]


def _ends(arrays):
    arrays["ends.npy"][1] = 10**6


def _weights(arrays):
    arrays["weights.npy"][0] = 2.0


ALTERED = {
    _foreign: "one person in it belongs to another bucket",
    _twice: "one person is in it twice",
    _swapped: "not in order",
    _unknown: "an item that is not in the catalogue",
    _repeated: "one is listed twice",
    _ends: "do not fit together",
    _weights: "a weight that is not allowed",
}


@pytest.mark.parametrize("change", ALTERED, ids=lambda change: change.__name__)
def test_what_a_wrong_writer_would_leave_is_refused_by_name(change, tmp_path):
    who, what, weights = synthetic()
    store = made(tmp_path, {"user": who, "page": what, "w": weights}, weight="w", highest=1.0)
    alter(store, 3, change)
    with pytest.raises(ValueError, match=f"store: bucket 3: .*{ALTERED[change]}"):
        Store.open(store.path).bucket(3)
    with pytest.raises(ValueError, match="bucket 3"):
        Store.open(store.path).verify(deep=False)


def test_more_items_than_the_cap_are_refused(tmp_path):
    store = small(tmp_path, cap=20)
    manifest = json.loads((store.path / "manifest.json").read_text()) | {"cap": 2}
    (store.path / "manifest.json").write_text(json.dumps(layout.sealed(manifest)))
    with pytest.raises(ValueError, match="more items than the cap"):
        Store.open(store.path).bucket(0)


def test_files_that_are_not_what_was_written_are_refused(tmp_path):
    store = small(tmp_path)
    where = store.path / "bucket-00002" / "items.npy"
    kept = where.read_bytes()
    items, ends = (np.load(where.with_name(name)) for name in ("items.npy", "ends.npy"))
    last = next(end - 1 for end in ends[1:] if items[end - 1] < 11)  # somebody's, whom another would suit
    items[last] += 1
    np.save(where, items)
    for opened in (Store.verify, lambda store: store.bucket(2), Coverage.from_store):
        with pytest.raises(ValueError, match=r"bucket 2: items\.npy is not what was written"):
            opened(Store.open(store.path))
    where.write_bytes(kept[:-2])
    with pytest.raises(ValueError, match=r"bucket 2: .*"):
        Store.open(store.path).verify(deep=False)
    where.unlink()
    with pytest.raises(ValueError, match=r"bucket 2: items\.npy is not there"):
        Coverage.from_store(Store.open(store.path))
    where.write_bytes(kept)
    Store.open(store.path).verify()
    for name, words in {"labels.json": "labels.json", "manifest.json": "manifest.json"}.items():
        text = (store.path / name).read_text()
        (store.path / name).write_text(text.replace('"p3"', '"p33"').replace('"buckets": 5', '"buckets": 4'))
        with pytest.raises(ValueError, match=f"{words} is not what was written"):
            Store.open(store.path)
        (store.path / name).write_text(text)


def test_a_store_in_place_of_one_that_was_opened_is_not_read_as_that_one(tmp_path):
    """Of a person who was in a bucket that was read before, and is in another now, rows would count twice."""
    table = {"u": [f"u{number}" for number in range(400)], "p": ["p0"] * 400}
    made = {"person": "u", "item": "p", "items": ITEMS, "to": tmp_path / "s", "buckets": 2}
    half = {name: column[:200] for name, column in table.items()}
    store = prepare(half, **made)
    people = Coverage.from_store(store)  # which has looked at every row
    batches = people.batches(50)
    next(batches)
    shutil.rmtree(tmp_path / "s")
    prepare(table, **made)
    for read_on in (lambda: list(batches), lambda: people[np.array([0])], lambda: store.bucket(1)):
        with pytest.raises(ValueError, match="the store was altered"):
            read_on()


def test_a_system_that_opens_no_more_files_is_no_damage(tmp_path, monkeypatch):
    store = prepare({"u": ["ann"], "p": ["p0"]}, person="u", item="p", items=ITEMS, to=tmp_path / "s")

    def load(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(layout.np, "load", load)
    with pytest.raises(OSError, match="Too many open files"):
        store.verify()


def test_a_writer_that_splits_people_is_caught(tmp_path, monkeypatch):
    """The fault that all of this is about: half of the rows of everybody go to the next bucket."""
    real = preparing.Spill.scattered

    def split(self, rows):
        starts, to = real(self, rows)
        starts[1:-1] += 1  # the first row of each bucket goes to the one before
        return starts, to

    monkeypatch.setattr(preparing.Spill, "scattered", split)
    store = small(tmp_path)
    with pytest.raises(ValueError, match="one person in it belongs to another bucket"):
        store.verify()


def test_nothing_printed_tells_about_people(tmp_path, capsys):
    store = small(tmp_path)
    assert str(len(store)) not in repr(store).replace(str(store.path), "")
    assert capsys.readouterr() == ("", "")
    assert hashlib.sha256(KEY).hexdigest() not in json.dumps(store.manifest)
    assert KEY.hex() not in json.dumps(store.manifest)


def test_categories_that_no_row_holds_are_no_items(tmp_path):
    pages = pd.Categorical(["p1", "p0"], categories=["p0", "p1", "hidden"])
    for name, table in {
        "pandas": pd.DataFrame({"user": [1, 2], "page": pages}),
        "arrow": pa.Table.from_pandas(pd.DataFrame({"user": [1, 2], "page": pages})),
    }.items():
        assert made(tmp_path, table, name, items=None).labels == ("p0", "p1")
        listed = made(tmp_path, table, f"{name} listed", items=["p0", "p1"])  # nobody has what is not listed
        assert listed.n_entries == 2


def test_another_process_checks_for_itself(tmp_path):
    store = small(tmp_path)
    store.bucket(3)
    sent = pickle.loads(pickle.dumps(store))
    assert sent == store
    alter(store, 3, _foreign, honest=False)
    with pytest.raises(ValueError, match="belongs to another bucket"):
        sent.bucket(3)


def test_a_cap_does_not_depend_on_which_items_others_brought_first(tmp_path):
    """Also where the list of items grows: bringing one a day earlier changes nobody else's items."""
    who = [person for person in range(60) for _ in range(6)]
    what = [ITEMS[(7 * person + at) % len(ITEMS)] for person in range(60) for at in range(6)]
    early = {"user": [*who, "somebody"], "page": [*what, "a new item"]}
    later = {"user": ["other", "somebody"], "page": ["a new item", "a new item"]}
    grown, again = (
        made(tmp_path, first, name, items=None, cap=3)
        for name, first in (("early", early), ("late", {"user": who, "page": what}))
    )
    for store in (grown, again):
        append(later, person="user", item="page", key=KEY, to=store.path)
    whole = made(tmp_path, {name: [*early[name], *later[name]] for name in early}, "whole", items=None, cap=3)
    assert held(Store.open(grown.path)) == held(whole)
    assert held(Store.open(again.path)) == held(whole)


def test_somebody_who_stands_everywhere_is_one_person(tmp_path):
    who, what = ["bot"] * 5000 + ["ann"], [ITEMS[i % 12] for i in range(5001)]
    store = made(tmp_path, {"user": who, "page": what}, cap=4)
    assert sorted(map(len, (items for some in held(store).values() for _, items in some))) == [1, 4]


def test_the_people_are_those_of_from_events(tmp_path):
    who, what, weights = synthetic()
    table = pd.DataFrame({"user": who, "page": what, "w": weights})
    store = made(tmp_path, table, weight="w")
    people = Coverage.from_events(table, person="user", item="page", weight="w", items=ITEMS)
    expected = sorted(tuple(np.flatnonzero(people[i].gains([]) > 0)) for i in range(len(people)))
    assert sorted(tuple(items) for some in held(store).values() for _, items in some) == expected
    assert len(store) == len(people)


def test_a_bucket_that_stands_there_twice_is_refused(tmp_path):
    store = small(tmp_path)
    manifest = json.loads((store.path / "manifest.json").read_text())
    manifest["parts"][1] = manifest["parts"][0]
    (store.path / "manifest.json").write_text(json.dumps(layout.sealed(manifest)))
    with pytest.raises(ValueError, match="bucket 1: one person in it belongs to another bucket"):
        Coverage.from_store(Store.open(store.path))


def test_columns_of_parquet_that_are_not_there(tmp_path):
    pq.write_table(pa.table({"user": [1], "pages": ["p0"]}), tmp_path / "events.parquet")
    with pytest.raises(ValueError, match="did you mean 'pages'"):
        made(tmp_path, tmp_path / "events.parquet")


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_beyond_the_memory_are_written_and_none_before(tmp_path, weighted):
    """Of 10 bytes a row (18 with weights), and nothing is lost on the way."""
    spill = Spill(tmp_path, 4, 100, weighted, memory=130 * (18 if weighted else 10))
    rng = np.random.default_rng(0)
    keys, items = rng.integers(1 << 60, size=240).astype(np.uint64), rng.integers(100, size=240)
    weights = rng.random(240 * weighted)
    for part in np.split(np.arange(240), 4):
        some = KeyedRows(keys[part], items[part].astype(spill.kind), weights[part[: len(part) * weighted]])
        spill.add(*spill.scattered(some))
        assert spill.on_disk == (part[-1] >= 130)
    spill.finish()
    found = [spill.taken(bucket) for bucket in range(4)]
    assert sorted(zip(keys.tolist(), items.tolist(), strict=True)) == sorted(
        pair for one in found for pair in zip(one.keys.tolist(), one.items.tolist(), strict=True)
    )
