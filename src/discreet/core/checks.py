"""Checks of arguments: each error names the argument, the value and the fix."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGEST = (1 << 63) - 1  # the limit of compiled loops and NumPy
ANY = 10**300  # within the range of floats: for numbers that are only multiplied with
_Word = TypeVar("_Word", bound=str)
_NUMBERS = "biufO"  # kinds of arrays that may hold real numbers; objects are converted singly


def shown(value: Any) -> str:
    """``value`` in a form safe for messages: numbers and words, shortened; for anything else its type only.

    Lists, arrays and populations may hold people's data, and need not even be printable.
    """
    if value is None or isinstance(value, bool | float | complex | str | bytes | np.generic):
        text = repr(value)
    elif isinstance(value, int):
        text = repr(value) if abs(value) < 1 << 200 else "a very long whole number"
    else:
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


class DataError(ValueError):
    """Data that was refused, with a message that reveals nothing about people: no count, place or value.

    ``details`` says what was found and where, for readers who may see the data. It is not in the message, so
    it does not get into logs or tracebacks by itself.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


def whole(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """``value`` as an int within its range, or an error that names ``name``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        write = (
            f"; write {value:.0f}"
            if isinstance(value, float) and value.is_integer() and abs(value) < 1e15
            else ""
        )
        raise TypeError(f"{name} must be a whole number, got {shown(value)}{write}")
    number = int(value)
    at_most = _LARGEST if at_most is None else at_most
    if number < at_least:
        raise ValueError(f"{name}={shown(number)} is too small; it must be at least {at_least}")
    if number > at_most:
        raise ValueError(f"{name}={shown(number)} is too large; it must be at most {at_most}")
    return number


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    infinite: bool = False,
) -> float:
    """``value`` as a float within its range; NaN never passes, infinity only with ``infinite``."""
    number = value if type(value) is float else _number(name, value)
    if not math.isfinite(number):
        if math.isnan(number):
            raise ValueError(f"{name} is NaN; give a number")
        if not infinite:
            raise ValueError(f"{name}={number} must be finite")
    if above is not None and not number > above:
        raise ValueError(f"{name}={number} must be greater than {above:g}")
    if at_least is not None and not number >= at_least:
        raise ValueError(f"{name}={number} must be at least {at_least:g}")
    if below is not None and not number < below:
        raise ValueError(f"{name}={number} must be less than {below:g}")
    if at_most is not None and not number <= at_most:
        raise ValueError(f"{name}={number} must be at most {at_most:g}")
    return number


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, str | bytes):
            raise TypeError("text")
        if isinstance(value, np.ndarray | np.generic) and (value.ndim or value.dtype.kind not in _NUMBERS):
            raise TypeError(f"{value.dtype.name} of shape {value.shape}")
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a number, got {shown(value)}") from error


def bound(value: Any, name: str = "bound") -> float:
    """A public bound of one person's values, such that no sum of them overflows.

    Whether an overflow occurs could depend on one person.
    """
    return real(name, value, above=0.0, at_least=1e-100, at_most=1e100)


def vector(name: str, values: ArrayLike, *, length: int | None = None) -> NDArray[np.float64]:
    """A one-dimensional float64 array without NaN or infinity, of the declared length."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in _NUMBERS:
            raise TypeError(f"got {given.dtype.name}")
        array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a vector of numbers: {error}") from error
    if given.dtype.kind in "iu" and given.size and max(int(given.max()), -int(given.min())) > 1 << 53:
        raise ValueError(f"{name} holds whole numbers beyond 2^53, which are not exact as floats; rescale")
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if length is not None and array.shape[0] != length:
        raise ValueError(f"{name} has {array.shape[0]} entries; {length} expected")
    finite(name, array)
    return array


def whole_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """A copy of a vector of integers; errors reveal neither their number nor a value."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be a vector of whole numbers") from None
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        kind = f"{given.dtype.name} in {given.ndim} dimension(s)"
        raise TypeError(f"{name} must be a vector of whole numbers, got {kind}")
    if given.size and given.dtype.kind == "u" and given.max() > _LARGEST:
        raise ValueError(f"{name} holds numbers above 2^63; count from 0")
    return given.astype(np.int64)


def per_person(name: str, values: ArrayLike, count: int, each: str = "person") -> NDArray[np.float64]:
    """One finite number for each of ``count`` people; errors reveal neither their number nor a value."""
    try:
        array = np.asarray(values)
        numbers = array.astype(np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):  # its message holds the entry
        numbers = None
    if numbers is None or numbers.ndim != 1:
        raise TypeError(f"{name} must be a vector of numbers")
    if numbers.size != count:
        raise ValueError(f"{name} must have one entry for each {each}")
    if not np.isfinite(numbers).all():
        place = int(np.argmin(np.isfinite(numbers)))
        raise DataError(f"{name} has an entry that is not finite", f"{name}[{place}] is {numbers[place]}")
    return numbers


def finite(name: str, array: NDArray[np.float64]) -> None:
    """Refuse NaN and infinity, naming the first such entry."""
    good = np.isfinite(array)
    if not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        place = where[0] if len(where) == 1 else where
        raise ValueError(f"{name}[{place}] is {array[where]}; every entry must be finite")


def instance(name: str, value: Any, kind: type, example: str) -> None:
    """Refuse values of the wrong type, with an example of a right one."""
    if not isinstance(value, kind):
        word = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
        raise TypeError(f"{name} must be {word} such as {example}, got {shown(value)}")


def record(name: str, value: Any) -> dict[str, Any]:
    """``value`` if it is a dictionary, such as JSON objects become."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dictionary, got {shown(value)}")
    return value


def pair(name: str, value: Any) -> None:
    """Refuse values that are not ordered pairs."""
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        raise ValueError(f"{name} must be a pair (low, high), got {shown(value)}")


def in_order(name: str, values: Any) -> list[Any]:
    """The entries of a list by position, ignoring an index of its own, as of a permuted table."""
    ordered = isinstance(values, Iterable) and not isinstance(values, Mapping | Set | str | bytes)
    if not ordered or getattr(values, "ndim", 1) != 1 or hasattr(values, "columns"):
        raise TypeError(f"{name} must be a list, with one entry for each person; got {shown(values)}")
    return list(values)


def named_rows(which: Any, count: int) -> NDArray[np.int64]:
    """The rows that an index names, at least one; errors do not reveal the number of people."""
    try:
        rows = np.arange(count)[which]
    except (IndexError, TypeError, ValueError, OverflowError):
        raise IndexError("no such people; give whole numbers in range, a slice or a mask") from None
    if rows.size == 0 or rows.ndim != 1:
        raise IndexError("a part of a population needs at least one person, in one dimension")
    return np.asarray(rows)


def one_person(which: Any, count: int) -> int | None:
    """The row of the person that an integer names, also from the end; None for other indices."""
    if not isinstance(which, int | np.integer):
        return None
    index = int(which)
    if not -count <= index < count:
        raise IndexError(f"there is no person {index}")
    return index % count


def one_of(name: str, value: Any, allowed: Collection[_Word]) -> _Word:
    """``value`` if it is among the allowed words, or an error that lists them."""
    for word in allowed:
        if isinstance(value, str) and value == word:
            return word
    raise ValueError(f"{name}={shown(value)} is not one of {', '.join(map(repr, allowed))}")


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the library, at any depth inside it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("discreet."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)
