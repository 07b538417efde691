"""Stores for tests, written bucket by bucket from a matrix: nothing of `prepare` is needed."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from discreet.data.store import Bucket, Store, item_type, write_bucket, write_labels, write_manifest


def keys_of(n_people: int, seed: int = 0) -> np.ndarray:
    """Distinct keys, as good as random."""
    keys = np.random.default_rng(seed).integers(0, 1 << 63, 2 * n_people, dtype=np.uint64)
    return np.unique(keys)[:n_people][np.random.default_rng(seed + 1).permutation(n_people)]


def store_of(
    path: Path,
    matrix: np.ndarray | sp.csr_array,
    buckets: int,
    *,
    keys: np.ndarray | None = None,
    home: np.ndarray | None = None,
    weighted: bool = False,
    cap: int | None = None,
) -> Store:
    """A store of the rows of a matrix; ``home`` puts rows into buckets that are not theirs."""
    rows = sp.csr_array(matrix)
    rows.sort_indices()
    keys = keys_of(rows.shape[0]) if keys is None else keys
    home = (keys % np.uint64(buckets)).astype(int) if home is None else home
    path.mkdir()
    with patch("os.fsync"):  # nobody's disk has to last through a test
        return _written(path, rows, keys, home, buckets, weighted, cap)


def _written(path, rows, keys, home, buckets, weighted, cap) -> Store:
    parts = []
    for number in range(buckets):
        mine = np.flatnonzero(home == number)
        mine = mine[np.argsort(keys[mine])]
        some = sp.csr_array(rows[mine]) if mine.size else sp.csr_array((0, rows.shape[1]))
        bucket = Bucket(
            keys[mine],
            some.indptr.astype(np.int64),
            some.indices.astype(item_type(rows.shape[1])),
            some.data.astype(np.float64) if weighted else None,
        )
        parts.append(write_bucket(path / f"bucket-{number:05d}", bucket))
    labels = tuple(f"item {j}" for j in range(rows.shape[1]))
    manifest = {
        "format": "discreet-people", "version": 1, "buckets": buckets, "key_id": "none", "weighted": weighted,
        "highest": None, "cap": cap, "catalogue": "public", "parts": parts,
        "labels": write_labels(path, labels),
    }  # fmt: skip
    write_manifest(path, manifest)
    return Store.open(path)
