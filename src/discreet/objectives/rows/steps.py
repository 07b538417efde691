"""Multilinear gradients of rows in whole steps: each row's own part is cut down before it is added up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...privacy.coins import Coins
from ..extensions import random_sets
from .table import BEST, Rows

Floats = NDArray[np.float64]


def random_rows(x: Floats, seed: int, samples: int) -> NDArray[np.bool_]:
    """Which items each of some random sets holds, each item j with probability x[j]; one row per set.

    They follow from the seed alone, and are the same for everybody.
    """
    inside = np.zeros((samples, x.size), dtype=np.bool_)
    if samples:
        for row, items in zip(inside, random_sets(x, Coins.seeded(seed).generator, samples), strict=True):
            row[items] = True
    return inside


def gradient_steps(
    rows: Rows,
    x: Floats,
    inside: NDArray[np.bool_],
    per_unit: float,
    most: int,
    out: NDArray[np.int64],
    first: int = 0,
    last: int | None = None,
) -> None:
    """Add the gradients at ``x`` of the rows first..last-1 to ``out``: in steps, at most ``most`` of a row.

    ``inside`` are the sets over which rows without a closed form take a mean (`random_rows`).
    """
    kind = rows.kind
    matrix = rows.sparse.falling if kind is BEST else rows.sparse
    before: tuple[Any, ...] = (
        matrix.indptr.view(np.uint64), matrix.indices.view(np.uint32), matrix.data, rows.share
    )  # fmt: skip
    if kind.of_sums:
        loop: Any = backends.continuous.concave_steps(kind.code)
        before = (*before, rows.cap, x, inside)
    else:
        loop = backends.continuous.best_steps if kind is BEST else backends.continuous.survive_steps
        before = (*before, x)
    stop = rows.n_rows if last is None else last
    loop(*before, np.uint64(first), np.uint64(stop), per_unit, most, out)
