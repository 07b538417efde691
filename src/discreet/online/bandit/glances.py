"""The largest of many normal numbers, without drawing all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEPS = 1 << 16

Floats = NDArray[np.float64]


def largest(
    means: Floats, deviations: Floats, k: int, count: int, least: float, generator: np.random.Generator
) -> NDArray[np.intp]:
    """``count`` times the k indices of the largest of independent normal numbers, in falling order.

    A normal number is made of a uniform one U, as the point that it exceeds with probability U. The first 16
    bits of U say for most indices that it is below ``least``, and only the others get all their bits: the
    distribution is the same, whatever ``least`` is. Where fewer than k reach it, all get all their bits.

    >>> rng = np.random.default_rng(0)
    >>> largest(np.arange(5.0), np.full(5, 1e-3), 2, 1, 2.5, rng).tolist()
    [[4, 3]]
    """
    from scipy.special import ndtr, ndtri

    size = means.size
    chances = ndtr((means - least) / deviations)
    # One step more than the chance says: what rounding could cost, many times over.
    last = np.minimum(np.floor(chances * _STEPS) + 1.0, _STEPS - 1.0).astype(np.uint16)
    first = np.frombuffer(generator.bytes(2 * count * size), dtype="<u2").reshape(count, size)
    which, where = np.nonzero(first <= last)
    uniform = (first[which, where] + generator.random(which.size)) / _STEPS
    values = means[where] - deviations[where] * ndtri(uniform)
    ends = np.searchsorted(which, np.arange(count + 1))
    lists = np.empty((count, k), dtype=np.intp)
    for row in range(count):
        mine = slice(ends[row], ends[row + 1])
        items, reached = where[mine], values[mine]
        if np.count_nonzero(reached >= least) < k:
            uniform = (first[row] + generator.random(size)) / _STEPS
            full = means - deviations * ndtri(uniform)
            full[items] = reached
            items, reached = np.arange(size), full
        lists[row] = items[np.argsort(-reached, kind="stable")[:k]]
    return lists
