"""Checks of tables that scikit-learn's estimators are given, in words that tell nothing about people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..core import checks

# What scikit-learn says about data without telling what stands in it, or how many rows it has.
_HARMLESS = ("Input X contains", "Input y contains", "Sparse data was passed", "float() argument must be")


def validated(selector: BaseEstimator, *data: Any, **options: Any) -> Any:
    """scikit-learn's own checks, in words that tell nothing about people."""
    try:
        return validate_data(selector, *data, dtype=np.float64, **options)
    except (TypeError, ValueError, OverflowError) as error:
        said, kind = str(error), type(error)
    if said.startswith(_HARMLESS):
        raise kind(said)
    if said.startswith("Found array with"):
        message = re.sub(r"shape=\(\d+", "shape=(", said)
    elif said.startswith("Expected 2D array"):
        message = "Expected a table with a row per person. Reshape your data"
    elif said.startswith("Complex data not supported"):
        message = "Complex data not supported"
    elif "inconsistent numbers of samples" in said:
        message = "X and y must have the same number of rows"
    else:
        message = "X must be a table of numbers, and y, where it is needed, a column"
    raise checks.DataError(message, said)


def kinds_of(labels: NDArray[Any], known: list[Any]) -> NDArray[np.int64]:
    """The number of each label among the known classes."""
    places = {value: place for place, value in enumerate(known)}
    try:
        return np.array([places[value] for value in labels.tolist()], dtype=np.int64)
    except KeyError as error:
        raise checks.DataError(
            f"y holds a class that is not among classes={known!r}", repr(error.args[0])
        ) from None


def known_classes(classes: Iterable[Any] | None) -> list[Any]:
    """The public list of classes."""
    if classes is None:
        raise ValueError(
            "classes=[...] is missing: declare the public list of classes; a list read off the data would"
            " give away a class that only one person is in"
        )
    known = list(classes)
    if len(known) < 2 or len(set(known)) != len(known):
        raise ValueError(f"classes must be at least two distinct values, got {known!r}")
    return known


def scaled_to(bounds: tuple[ArrayLike, ArrayLike] | None, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The features as numbers in [0, 1], by their public bounds."""
    if bounds is None:
        raise ValueError(
            "bounds=(low, high) is missing: declare the public range of the features; a range read off"
            " the data would give away its extremes"
        )
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), table.shape[1]) for end in bounds)
    except ValueError as error:
        raise ValueError(
            f"bounds must be (low, high): two numbers, or two arrays of {table.shape[1]} numbers"
        ) from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, with low < high for every feature")
    return np.clip((table - low) / (high - low), 0.0, 1.0)
