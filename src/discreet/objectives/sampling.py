"""Random sets for extensions without a closed form: drawn from the point, never from the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole
from ..privacy import Coins

Floats = NDArray[np.float64]


def random_sets(x: Floats, rng: np.random.Generator | None, samples: int) -> list[NDArray[np.int64]]:
    """``samples`` sets that hold item j with probability x[j]; public randomness, free of privacy cost."""
    count = whole("samples", samples, at_least=2)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    coins = Coins.fresh().generator if rng is None else rng
    return [np.flatnonzero(coins.random(x.size) < x) for _ in range(count)]


def with_error(samples: Floats) -> tuple[Any, Any]:
    """The mean over the first axis and its standard error."""
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(samples.shape[0])
