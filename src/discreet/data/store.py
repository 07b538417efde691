"""Stores: people on disk, for tables that are larger than memory; their layout, reader and writer.

A store is a folder with ``manifest.json``, ``labels.json`` (the catalogue, which is public), ``key`` (the
secret of the hash, readable by its owner only, unless it is kept elsewhere) and one folder per bucket with
little-endian NumPy arrays, which are memory-mapped:

- ``keys.npy``, uint64, rising: the keyed hash of each person; ``key % n_buckets`` is the number of the
  bucket;
- ``ends.npy``, int64: the entries of person i are those from ``ends[i]`` to ``ends[i + 1]``;
- ``items.npy``, uint16 (uint32 beyond 65,536 items): for each person their items, rising;
- ``weights.npy``, float64, above 0, where the store has weights.

The manifest has the numbers of people and entries of each bucket, and the SHA-256 of every file. It is
replaced atomically when people are appended; the files that it names never change. A store is written to a
folder beside it, ``.NAME.partial``, synced to disk, and renamed: at any time it is complete or absent. A
writer holds a lock; files left by a killed run are removed by the next one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import header_data_from_array_1_0, write_array_header_1_0
from numpy.typing import NDArray

from ..core.checks import whole
from ..core.state import to_disk
from ..kernels.stores import broken_rule

FORMAT, VERSION = "discreet-people", 1
MANIFEST, LABELS, KEY = "manifest.json", "labels.json", "key"
MOST_BUCKETS = 1 << 16
_LOCK = "lock"
NARROW = 1 << 16  # items that fit into 16 bits
_RULES = {
    1: "its arrays do not fit together",
    2: "one person in it belongs to another bucket: a person who is split over buckets counts more than once",
    3: "its people are not in order, or one person is in it twice",
    4: "one person has more items than the cap",
    5: "it has an item that is not in the catalogue",
    6: "one person's items are not in order, or one is listed twice",
    7: "it has a weight that is not allowed",
}


@dataclass(frozen=True, repr=False)
class Bucket:
    """Some of the people: their keys, the ends of their entries, items and weights (None: each is 1)."""

    keys: NDArray[np.uint64]
    ends: NDArray[np.int64]
    items: NDArray[Any]
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        """How many people are in it."""
        return int(self.keys.size)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        named = {"keys.npy": self.keys, "ends.npy": self.ends, "items.npy": self.items}
        return named if self.weights is None else named | {"weights.npy": self.weights}


@dataclass(frozen=True)
class Store:
    """People on disk, each in one bucket; made by `prepare`, opened with `Store.open`.

    >>> import tempfile
    >>> from discreet.data import Store, prepare
    >>> table = {"user": [7, "ann", "7"], "page": ["tea", "tea", "jam"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = prepare(table, person="user", item="page", items=["jam", "tea"], to=f"{folder}/people")
    ...     again = Store.open(store.path)
    ...     again.verify()
    ...     len(again), again.labels
    (2, ('jam', 'tea'))
    """

    path: Path
    labels: tuple[Any, ...]
    manifest: Mapping[str, Any] = field(repr=False)
    _checked: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """An existing store; each bucket is checked when it is first opened."""
        folder = Path(path)
        manifest = _manifest(folder)
        return cls(folder, tuple(_labels(folder, manifest)), manifest)

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return len(self.labels)

    @cached_property
    def n_people(self) -> int:
        """The number of people: private, unless the budget's neighbours say otherwise."""
        return sum(part["people"] for part in self.manifest["parts"])

    @cached_property
    def n_entries(self) -> int:
        """The number of (person, item) pairs: private."""
        return sum(part["entries"] for part in self.manifest["parts"])

    @property
    def n_buckets(self) -> int:
        return int(self.manifest["buckets"])

    @property
    def weighted(self) -> bool:
        return bool(self.manifest["weighted"])

    @property
    def highest(self) -> float:
        """The declared bound of weights."""
        declared = self.manifest["highest"]
        return np.inf if declared is None else float(declared)

    @property
    def cap(self) -> int | None:
        """The most items of one person; None without a cap."""
        found: int | None = self.manifest["cap"]
        return found

    @property
    def catalogue(self) -> str:
        """Where the list of items came from: "public", "private", "seeded" or "from data"."""
        return str(self.manifest["catalogue"])

    @property
    def digest(self) -> str:
        """The SHA-256 of the manifest, which covers all files of the store."""
        return str(self.manifest["digest"])

    def __len__(self) -> int:
        return self.n_people

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the record of checked files: another process or machine may read others."""
        return Store, (self.path, self.labels, self.manifest)

    def people_in(self, number: int) -> int:
        return int(self._part(number)["people"])

    def entries_in(self, number: int) -> int:
        """How many (person, item) pairs are in a bucket."""
        return int(self._part(number)["entries"])

    def bucket(self, number: int) -> Bucket:
        """The people of one bucket, mapped into memory.

        When its files are first opened, every row is checked, and every file is compared with the manifest's
        SHA-256; again, if others have taken their place, such as those of a store that is prepared anew.
        """
        bucket = self._mapped(number)
        paths = [self.path / self._part(number)["folder"] / name for name in bucket.arrays]
        files = [(about.st_ino, about.st_size, about.st_mtime_ns) for about in map(os.stat, paths)]
        if self._checked.get(number) != files:
            self._check(number, bucket)
            self._check_files(number)
            self._checked[number] = files
        return bucket

    def buckets(self) -> Iterator[Bucket]:
        """All buckets in turn."""
        for number in range(self.n_buckets):
            yield self.bucket(number)

    def verify(self, deep: bool = True) -> None:
        """Check every row of every bucket, and raise an error that names the store if anything is wrong.

        With ``deep`` the SHA-256 of every file of a bucket is compared with the manifest's as well. The
        manifest and the labels were checked when the store was opened.
        """
        for number in range(self.n_buckets):
            bucket = self._mapped(number)
            if deep:
                self._check_files(number)
            self._check(number, bucket)

    def _part(self, number: int) -> dict[str, Any]:
        at = whole("number", number, at_least=0, at_most=self.n_buckets - 1)
        found: dict[str, Any] = self.manifest["parts"][at]
        return found

    def _mapped(self, number: int) -> Bucket:
        folder, name = self.path / self._part(number)["folder"], self._name(number)
        files = ("keys", "ends", "items", "weights") if self.weighted else ("keys", "ends", "items")
        return Bucket(**{file: _mapped(folder / f"{file}.npy", name) for file in files})

    def _name(self, number: int) -> str:
        return f"{self.path.name}: bucket {number}"

    def _check_files(self, number: int) -> None:
        part = self._part(number)
        for name, said in part["files"].items():
            if file_digest(self.path / part["folder"] / name) != said:
                raise _altered(f"{self._name(number)}: {name} is not what was written")

    def _check(self, number: int, bucket: Bucket) -> None:
        """Refuse a bucket whose arrays differ from the manifest, or whose rows break a rule."""
        part = self._part(number)
        people, entries = part["people"], part["entries"]
        right = {
            "keys.npy": ("<u8", people),
            "ends.npy": ("<i8", people + 1),
            "items.npy": (item_type(self.n_items), entries),
            "weights.npy": ("<f8", entries),
        }
        for name, array in bucket.arrays.items():
            kind, size = right[name]
            if array.dtype != np.dtype(kind) or array.shape != (size,):
                words = f"{name} is not an array of {np.dtype(kind).name} as long as the manifest says"
                raise _altered(f"{self._name(number)}: {words}")
        rule = broken_rule(
            *(bucket.keys, bucket.ends, bucket.items),
            np.zeros(0) if bucket.weights is None else bucket.weights,
            *(self.n_buckets, number, self.n_items, self.cap or 0, self.highest),
        )
        if rule:
            raise _altered(f"{self._name(number)}: {_RULES[rule]}")


def item_type(n_items: int) -> str:
    """The NumPy type of items."""
    return "<u2" if n_items <= NARROW else "<u4"


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with its digest."""
    return manifest | {"digest": _manifest_digest(manifest)}


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    said = {name: value for name, value in manifest.items() if name != "digest"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _altered(what: str) -> ValueError:
    return ValueError(f"{what}; the store was altered or is damaged, prepare it again")


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a store, checked against its own digest."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"{folder} is not a store, or one that was not finished; make it with discreet prepare"
        ) from None
    except ValueError:
        raise _altered(f"{folder.name}: {MANIFEST} cannot be read") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{folder} is not a store; make one with discreet prepare")
    if found.get("version") != VERSION:
        raise ValueError(f"{folder} is a store of another version of discreet; prepare it again")
    if found.get("digest") != _manifest_digest(found):
        raise _altered(f"{folder.name}: {MANIFEST} is not what was written")
    return found


def _labels(folder: Path, manifest: Mapping[str, Any]) -> list[Any]:
    path = folder / manifest.get("labels_file", LABELS)
    if not path.is_file() or file_digest(path) != manifest["labels"]:
        raise _altered(f"{folder.name}: {path.name} is not what was written")
    found: list[Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


_HEADERS = threading.Lock()  # some versions of Python 3.11 fail if several threads parse literals at once


def _mapped(path: Path, name: str) -> Any:
    try:
        with _HEADERS:
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        words = f"{name}: {path.name} is not there; was the store appended to? open it again"
        raise ValueError(words) from None
    except (OSError, ValueError, EOFError) as error:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise  # it is not the store that is at fault
        raise _altered(f"{name}: {path.name} is not an array") from None


# --- writing -------------------------------------------------------------------------------------


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write a store into, which is renamed to ``target`` when it is complete."""
    if target.exists():
        raise ValueError(f"{target} is there already; name another folder, or append to it")
    if not target.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {target.absolute().parent}; make it first")
    partial = target.with_name(f".{target.name}.partial")
    with _held(partial) as fresh:
        yield fresh
        to_disk(fresh)
        os.rename(fresh, target)  # with the lock, so that no process takes it for leftovers
        (target / _LOCK).unlink()
        to_disk(target)
        to_disk(target.absolute().parent)


@contextmanager
def folder_in(store: Path) -> Iterator[Path]:
    """A temporary folder inside a store, to write further files into."""
    with _held(store / ".partial") as fresh:
        yield fresh
        shutil.rmtree(fresh)


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """An empty folder, locked against other processes; leftovers of a killed one are removed."""
    folder.mkdir(exist_ok=True)
    with open(folder / _LOCK, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / _LOCK)):
                raise BlockingIOError  # its run has ended, and another one has begun
        except (BlockingIOError, FileNotFoundError):
            raise ValueError(f"{folder.name}: another process is writing this store; wait for it") from None
        for left in folder.iterdir():
            if left.name != _LOCK:
                _remove(left)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def write_bucket(folder: Path, bucket: Bucket) -> dict[str, Any]:
    """Write the arrays of a bucket to a new folder; returns their entry for the manifest."""
    folder.mkdir()
    files = {}
    for name, array in bucket.arrays.items():
        with open(folder / name, "wb") as file:  # `np.save` may say nothing of a full disk
            write_array_header_1_0(file, header_data_from_array_1_0(array))
            file.write(np.ascontiguousarray(array).data)
        to_disk(folder / name, os.O_RDWR)
        files[name] = file_digest(folder / name)
    to_disk(folder)
    return {"folder": folder.name, "people": len(bucket), "entries": int(bucket.items.size), "files": files}


def write_labels(folder: Path, labels: tuple[Any, ...], name: str = LABELS) -> str:
    """Write the catalogue; returns its SHA-256."""
    _write(folder / name, json.dumps(labels, ensure_ascii=False))
    return file_digest(folder / name)


def remove_leftovers(store: Store) -> None:
    """Remove files of earlier generations and killed runs, which the manifest does not name."""
    named = {part["folder"] for part in store.manifest["parts"]} | {store.manifest.get("labels_file", LABELS)}
    for path in [*store.path.glob("bucket-*"), *store.path.glob("labels*.json")]:
        if path.name not in named:
            _remove(path)


def write_key(folder: Path, key: bytes) -> None:
    """Write the secret, readable by its owner only."""
    handle = os.open(folder / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(key.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest, which commits the new content of the store."""
    fresh = folder / f".{MANIFEST}"
    _write(fresh, json.dumps(sealed(dict(manifest)), indent=1))
    os.replace(fresh, folder / MANIFEST)
    to_disk(folder)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    to_disk(path, os.O_RDWR)
