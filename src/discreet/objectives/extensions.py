"""Multilinear extensions where there is no closed form: over all sets, or over random ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole
from ..privacy import Coins

Floats = NDArray[np.float64]


def expected(values: Floats, x: Floats) -> tuple[float, Floats]:
    """The extension at ``x`` and its gradient, from the value of every set: one axis of length 2 per item."""
    gradient = np.zeros(x.size)
    for j in range(x.size):
        left = np.moveaxis(values, j, 0)
        entry = left[1] - left[0]
        for chance in np.delete(x, j):
            entry = (1.0 - chance) * entry[0] + chance * entry[1]
        gradient[j] = entry
    for chance in x:
        values = (1.0 - chance) * values[0] + chance * values[1]
    return float(values), gradient


def random_sets(x: Floats, rng: np.random.Generator | None, samples: int) -> list[NDArray[np.int64]]:
    """``samples`` sets that hold item j with probability x[j].

    They are drawn from the point, never from the data: public randomness, free of privacy cost.
    """
    count = whole("samples", samples, at_least=2)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    coins = Coins.fresh().generator if rng is None else rng
    return [np.flatnonzero(coins.random(x.size) < x) for _ in range(count)]
