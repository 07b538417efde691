"""First columns of the encoder and the decoder of a Toeplitz factorization."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.factorizations import Factorization

Vector = NDArray[np.float64]


def encoder_column(found: Factorization, count: int) -> Vector:
    """c_0, ..., c_{count-1}: the first column of C."""
    return np.concatenate([[1.0], _mixture(1 - found.decays, found.weights, count - 1)])


def decoder_column(found: Factorization, count: int) -> Vector:
    """b_0, ..., b_{count-1}: the first column of B = A C^{-1}, by the decays that norms are computed from."""
    return _mixture(*found._decoder, count)


def _mixture(gaps: Vector, amplitudes: Vector, count: int) -> Vector:
    """sum_i amplitudes[i] * (1 - gaps[i])**j for j < count."""
    lags = np.arange(count, dtype=np.float64)
    return np.asarray(amplitudes @ np.exp(np.log1p(-gaps)[:, None] * lags))
