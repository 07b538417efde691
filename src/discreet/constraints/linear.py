"""Linear matroids: linearly independent columns of a matrix, decided exactly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import finite, whole
from ..kernels.matroids import LinearOracle
from .matroids import Matroid
from .polytopes import IndependentSets

# More primes than this would mean entries with thousands of digits: elimination would take for ever.
_MOST_PRIMES = 512


class LinearMatroid(Matroid):
    """Item i is the i-th column of ``matrix``; a set is independent if its columns are linearly independent.

    Decided exactly, without a tolerance. Entries are whole numbers, fractions, or floats taken at their
    exact binary value (0.1 + 0.2 and 0.3 differ: round to whole numbers first if that is not meant).
    Columns are scaled to whole numbers and eliminated modulo this many primes below 2**31 that their product
    exceeds every subdeterminant (Hadamard's bound): a set is independent over the rationals exactly when it
    is so modulo one of them. Two bases are exchanged modulo a prime that divides neither of two
    subdeterminants, which asks for a product above every product of two. ``modulus``, a prime below 2**31,
    asks for independence over the integers modulo that prime instead.

    >>> plane = LinearMatroid([[1, 0, 1], [0, 1, 1]])
    >>> plane.rank, plane.contains([0, 2]), plane.contains([0, 1, 2])
    (2, True, False)
    >>> LinearMatroid([[1, 1], [1, -1]], modulus=2).rank
    1
    """

    def __init__(self, matrix: ArrayLike, *, modulus: int | None = None) -> None:
        whole_columns = _whole_columns(matrix)
        self._columns = whole_columns
        if modulus is None:
            primes, deciding = _enough_primes(whole_columns)
        else:
            deciding = 1
            primes = [whole("modulus", modulus, at_least=2, at_most=2**31 - 1)]
            if not _is_prime(primes[0]):
                raise ValueError(f"modulus={modulus} is not a prime; division needs one")
        self._modulus = modulus
        self._primes = primes
        residues = np.array([(whole_columns.T % prime).astype(np.int64) for prime in primes])
        # Independence asks for one subdeterminant only, and so for fewer primes.
        oracle = LinearOracle(np.array(primes, dtype=np.int64), np.ascontiguousarray(residues), deciding)
        super().__init__(IndependentSets(oracle, exchanges=True), "every column of the matrix is zero")

    def _arguments(self) -> dict[str, Any]:
        return {"matrix": self._columns.tolist(), "modulus": self._modulus}

    def __repr__(self) -> str:
        field = "" if self._modulus is None else f", modulus={self._modulus}"
        return f"LinearMatroid({self._sets.table.rows} x {self.n_items} matrix{field})"


def _whole_columns(matrix: ArrayLike) -> NDArray[Any]:
    """The matrix with every column scaled to whole numbers, which changes no dependence."""
    array = np.asarray(matrix)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"matrix must be two-dimensional and not empty, got shape {array.shape}; columns are items"
        )
    if array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer):
        return array.astype(object)
    if np.issubdtype(array.dtype, np.floating):
        finite("matrix", array.astype(np.float64))
    elif array.dtype != object:
        raise TypeError(f"matrix must hold real numbers, got {array.dtype}")
    columns = [[_fraction(value) for value in column] for column in array.T.tolist()]
    scaled = []
    for column in columns:
        scale = lcm(*(entry.denominator for entry in column))
        scaled.append([int(entry * scale) for entry in column])
    return np.array(scaled, dtype=object).T


def _fraction(value: Any) -> Fraction:
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"matrix holds {value!r}; entries must be whole numbers, fractions or finite floats"
        ) from error


def _enough_primes(columns: NDArray[Any]) -> tuple[list[int], int]:
    """Primes whose product exceeds every product of two subdeterminants; how many exceed every single one.

    No subdeterminant exceeds the product of the largest column lengths.
    """
    squared = [sum(int(entry) ** 2 for entry in column) for column in columns.T]
    bits = sorted((max(1, square).bit_length() for square in squared), reverse=True)
    # bit_length bounds the logarithm of the squared length from above.
    needed = float(sum(bits[: min(columns.shape)]))
    primes: list[int] = []
    have, deciding = 0.0, 0
    for prime in _primes_below(2**31):
        primes.append(prime)
        have += 30.9  # every prime used is above 2**30.9
        if have > needed / 2.0 and not deciding:
            deciding = len(primes)
        if have > needed:
            return primes, deciding
        if len(primes) == _MOST_PRIMES:
            break
    raise ValueError(
        f"matrix needs {needed:.0f} bits to decide independence exactly, more than {have:.0f}; "
        "round it to whole numbers, or give a modulus"
    )


def _primes_below(limit: int) -> Iterator[int]:
    candidate = limit - 1
    while candidate > 1:
        if _is_prime(candidate):
            yield candidate
        candidate -= 1


def _is_prime(number: int) -> bool:
    """Miller-Rabin with bases that are proven to suffice below 3.2e9."""
    if number < 2:
        return False
    for small in (2, 3, 5, 7):
        if number % small == 0:
            return number == small
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd //= 2
        twos += 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        if not any(pow(power, 2**step, number) == number - 1 for step in range(1, twos)):
            return False
    return True
