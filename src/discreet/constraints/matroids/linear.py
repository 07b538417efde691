"""Linear matroids: linearly independent columns of a matrix, decided exactly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.checks import finite, whole
from .matroid import Items, Matroid, refuse_rank_zero

# More primes than this would mean entries with thousands of digits: elimination would take for ever.
_MOST_PRIMES = 512


class LinearMatroid(Matroid):
    """Item i is the i-th column of ``matrix``; a set is independent if its columns are linearly independent.

    Decided exactly, without a tolerance. Entries are whole numbers, fractions, or floats taken at their
    exact binary value (0.1 + 0.2 and 0.3 differ: round to whole numbers first if that is not meant).
    Columns are scaled to whole numbers and eliminated modulo so many primes below 2**31 that their product
    exceeds every subdeterminant (Hadamard's bound): a set is independent over the rationals exactly when it
    is so modulo one of them. Circuits ask for a prime that divides neither of two subdeterminants, and so
    for a product above every product of two. ``modulus``, a prime below 2**31, asks for independence over
    the integers modulo that prime instead.

    >>> plane = LinearMatroid([[1, 0, 1], [0, 1, 1]])
    >>> plane.rank, plane.contains([0, 2]), plane.contains([0, 1, 2])
    (2, True, False)
    >>> LinearMatroid([[1, 1], [1, -1]], modulus=2).rank
    1
    """

    def __init__(self, matrix: ArrayLike, *, modulus: int | None = None) -> None:
        whole_columns = _whole_columns(matrix)
        super().__init__(whole_columns.shape[1])
        self._columns = whole_columns
        self._height = whole_columns.shape[0]
        if modulus is None:
            primes, deciding = _enough_primes(whole_columns)
        else:
            deciding = 1
            primes = [whole("modulus", modulus, at_least=2, at_most=2**31 - 1)]
            if not _is_prime(primes[0]):
                raise ValueError(f"modulus={modulus} is not a prime; division needs one")
        self._modulus = modulus
        self._circuit_residues = [(prime, (whole_columns % prime).astype(np.int64)) for prime in primes]
        # Independence asks for one subdeterminant only, and so for fewer primes.
        self._residues = self._circuit_residues[:deciding]
        refuse_rank_zero(self, "every column of the matrix is zero")

    def __repr__(self) -> str:
        field = "" if self._modulus is None else f", modulus={self._modulus}"
        return f"LinearMatroid({self._height} x {self._n_items} matrix{field})"

    def _eliminate(self, offered: Items, columns: Items) -> tuple[list[int], list[_Elimination]]:
        """Offer ``columns[offered]`` in turn; the offers taken, and the eliminations they were made in.

        Later primes are called upon only when the earlier ones cannot show independence.
        """
        taken: list[int] = []
        runs: list[_Elimination] = []
        for offer in offered.tolist():
            if len(taken) == self._height:
                break
            if self._is_free(offer, taken, runs, columns):
                for run in runs:
                    run.take(offer)
                taken.append(offer)
        return taken, runs

    def _is_free(self, offer: int, taken: list[int], runs: list[_Elimination], columns: Items) -> bool:
        if any(run.is_free(offer) for run in runs):
            return True
        while len(runs) < len(self._residues):
            prime, residues = self._residues[len(runs)]
            run = _Elimination(prime, residues[:, columns])
            for earlier in taken:
                run.take(earlier)
            runs.append(run)
            if run.is_free(offer):
                return True
        return False

    def _greedy(self, order: Items) -> Items:
        taken, _ = self._eliminate(np.arange(order.size), order)
        return order[taken]

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        mask = self._addable_among(items, np.arange(self._n_items))
        mask[items] = False
        return mask

    def _addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        free = np.zeros(candidates.size, dtype=np.bool_)
        for prime, residues in self._residues:
            # Columns shown to be free by an earlier prime need no second look.
            unknown = np.flatnonzero(~free)
            run = _Elimination(prime, residues[:, np.concatenate([items, candidates[unknown]])])
            for position in range(items.size):
                run.take(position)
            free[unknown[run.free_columns()[items.size :]]] = True
        return free

    def _circuit(self, items: Items, item: int) -> Items:
        """The columns with a coefficient other than 0 when ``item`` is written as their combination.

        A coefficient is a quotient of two subdeterminants (Cramer's rule); a prime that divides neither
        shows that it is not 0.
        """
        columns = np.append(items, item)
        used = np.zeros(items.size, dtype=np.bool_)
        for prime, residues in self._circuit_residues:
            run = _Elimination(prime, residues[:, columns])
            for position in range(items.size):
                run.take(position)
            if run.alive:
                used |= run.matrix[: items.size, items.size] != 0
        return items[used]


class _Elimination:
    """Gauss-Jordan elimination modulo a prime; the j-th column taken becomes the j-th unit vector."""

    def __init__(self, prime: int, matrix: NDArray[np.int64]) -> None:
        self.prime = prime
        self.matrix = matrix.copy()
        self.depth = 0
        # False once the columns taken are dependent modulo this prime, which then can show nothing any more.
        self.alive = True

    def is_free(self, column: int) -> bool:
        return self.alive and bool(self.matrix[self.depth :, column].any())

    def free_columns(self) -> NDArray[np.bool_]:
        if not self.alive:
            return np.zeros(self.matrix.shape[1], dtype=np.bool_)
        return np.asarray(self.matrix[self.depth :].any(axis=0))

    def take(self, column: int) -> None:
        if not self.is_free(column):
            self.alive = False
            return
        top = self.depth
        pivot = top + int(np.flatnonzero(self.matrix[top:, column])[0])
        self.matrix[[top, pivot]] = self.matrix[[pivot, top]]
        inverse = pow(int(self.matrix[top, column]), -1, self.prime)
        self.matrix[top] = self.matrix[top] * inverse % self.prime
        factors = self.matrix[:, column].copy()
        factors[top] = 0
        rows = np.flatnonzero(factors)
        # Products stay below 2**62 because residues are below 2**31.
        self.matrix[rows] = (
            self.matrix[rows] - factors[rows, None] * self.matrix[top] % self.prime
        ) % self.prime
        self.depth += 1


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
