"""Checks of the values that a mechanism is given: exact as floats, on a grid that pays for its rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import checks
from .grid import Grid


def noise_grid(scale: Any, sensitivity: Any, truncation: Fraction) -> Grid | None:
    return Grid.for_noise(scale, sensitivity, truncation) if scale else None


def root_above_whole(number: int) -> Fraction:
    """The square root, rounded up to a whole number."""
    return Fraction(math.isqrt(number - 1) + 1)


def float_values(values: ArrayLike) -> tuple[NDArray[np.float64], bool]:
    scalar = np.ndim(values) == 0
    array = exact_floats("values", cast(ArrayLike, [values]) if scalar else values)
    if array.size == 0:
        raise ValueError("values is empty; there is nothing to release")
    return array, scalar


def exact_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The numbers as floats, each of them exactly: rounding would move them further than was declared."""
    array = checks.vector(name, values)
    given: NDArray[Any] = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if given.dtype == np.longdouble or given.dtype == object:
        for number, rounded in zip(given.tolist(), array.tolist(), strict=True):
            if (int(number) if isinstance(number, np.integer) else number) != rounded:
                raise ValueError(
                    f"{name} holds numbers that are not exact as floats of 64 bits; round them, and let the"
                    " sensitivity say how far one person moves what is rounded"
                )
    return array


def returned(values: NDArray[np.float64], scalar: bool) -> Any:
    return float(values[0]) if scalar else values


def amount(name: str, value: float | Fraction) -> float | Fraction:
    number = checks.real(name, value, at_least=0.0)
    return value if isinstance(value, Fraction) else number


def touched(changed: int | None, values: NDArray[np.float64]) -> int:
    return (
        values.size if changed is None else checks.whole("changed", changed, at_least=1, at_most=values.size)
    )
