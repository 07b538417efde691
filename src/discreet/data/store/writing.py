"""Stores that are finished or not there, whatever happens meanwhile.

A store is written into a folder beside its name, ``.NAME.partial``, brought to the disk, and renamed. Whoever
writes holds a lock on it; what a killed run left behind is nobody's, and the next run removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .layout import KEY, LABELS, MANIFEST, Bucket, Store, file_digest, sealed

_LOCK = "lock"
_SPILLED = "spilled"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write a store into, which gets its name when everything is in it."""
    if target.exists():
        raise ValueError(f"{target} is there already; name another folder, or append to it")
    if not target.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {target.absolute().parent}; make it first")
    partial = target.with_name(f".{target.name}.partial")
    with _held(partial) as fresh:
        yield fresh
        sync(fresh)
        os.rename(fresh, target)  # with the lock, so that nobody takes what is finished for left behind
        (target / _LOCK).unlink()
        sync(target)
        sync(target.absolute().parent)


@contextmanager
def folder_in(store: Path) -> Iterator[Path]:
    """A folder inside a store, to write further files into; it is removed in the end."""
    with _held(store / ".partial") as fresh:
        yield fresh
        shutil.rmtree(fresh)


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """A fresh folder that no other process works in, without what a killed one left there."""
    folder.mkdir(exist_ok=True)
    with open(folder / _LOCK, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder.name}: another process is writing this store; wait for it") from None
        for left in folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name != _LOCK:
                left.unlink()
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def spill_folder(folder: Path) -> Path:
    """Where rows wait on the disk."""
    made = folder / _SPILLED
    made.mkdir(exist_ok=True)
    return made


def write_bucket(folder: Path, bucket: Bucket) -> dict[str, Any]:
    """Write the arrays of a bucket to a new folder; what the manifest says about them."""
    folder.mkdir()
    files = {}
    for name, array in bucket.arrays.items():
        with open(folder / name, "wb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        files[name] = file_digest(folder / name)
    sync(folder)
    return {"folder": folder.name, "people": len(bucket), "entries": int(bucket.items.size), "files": files}


def write_labels(folder: Path, labels: tuple[Any, ...], name: str = LABELS) -> str:
    """Write the catalogue; its SHA-256."""
    _write(folder / name, json.dumps(labels, ensure_ascii=False))
    return file_digest(folder / name)


def remove_leftovers(store: Store) -> None:
    """Remove what earlier generations and killed runs left behind: the manifest does not name it."""
    named = {part["folder"] for part in store.manifest["parts"]} | {store.manifest.get("labels_file", LABELS)}
    for path in [*store.path.glob("bucket-*"), *store.path.glob("labels*.json")]:
        if path.name in named:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def write_key(folder: Path, key: bytes) -> None:
    """Write the secret, for its owner only."""
    handle = os.open(folder / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(key.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest: from here on the store is what it says."""
    fresh = folder / f".{MANIFEST}"
    _write(fresh, json.dumps(sealed(dict(manifest)), indent=1))
    os.replace(fresh, folder / MANIFEST)
    sync(folder)


def _write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
