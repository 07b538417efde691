"""Matroids: feasible sets with the exchange property, so that greedy is exact."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from itertools import islice
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import finite, real, shown, vector, whole
from ..kernels.flows import ForestFlow, MatchingFlow
from ..kernels.matroids import AskedOracle, GraphicOracle, LinearOracle, MinorOracle, TransversalOracle
from .base import (
    POLYTOPE_TOLERANCE,
    Constraint,
    Decomposition,
    Items,
    ProjectedPoint,
    Vector,
    generator,
    item_set,
    list_of_sets,
    log_weights,
    one_item,
    projected,
)
from .polytopes import IndependentSets


class Matroid(Constraint):
    """A matroid over items 0..n_items-1.

    The polytope is that of the independent sets, {x >= 0 : x(A) <= rank(A) for all A}; ``base=True`` asks
    for the face of its bases, where x sums to the rank: the size of every base. ``sets`` answers for items
    and points that were checked: `IndependentSets`, or `NestedLimits` in closed form.
    """

    def __init__(self, sets: Any, nothing: str) -> None:
        self._sets, self.n_items, self.rank = sets, sets.n_items, sets.rank
        if not self.rank:
            raise ValueError(f"no item can be chosen: {nothing}")

    @staticmethod
    def from_oracle(independent: Callable[[frozenset[int]], bool], n_items: int) -> Matroid:
        """The matroid whose independent sets are those for which ``independent(frozenset_of_items)`` is true.

        The answers must satisfy the matroid axioms, which are too many to check. `contains` costs one call,
        `rank_of` and `maximize` at most n_items, `addable`, `span` and `circuit` about twice that at most;
        projections and points of the polytope take many such searches.

        >>> m = Matroid.from_oracle(lambda s: len(s) <= 2 and not {0, 1} <= s, n_items=4)
        >>> m.rank, m.contains([0, 2]), m.contains([0, 1])
        (2, True, False)
        """
        return OracleMatroid(independent, n_items)

    def _sets_over(self, n_items: int) -> Any:
        """The independent sets for a ground set of this size, which was checked to be the matroid's."""
        del n_items
        return self._sets

    def rank_of(self, S: Iterable[int]) -> int:
        """The size of the largest independent subset of S."""
        return int(self._sets.greedy(item_set("S", S, self.n_items)).size)

    def contains(self, S: Iterable[int]) -> bool:
        """Whether S is independent."""
        return bool(self._sets.fits(item_set("S", S, self.n_items)))

    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over all items: True where the item is outside S and S plus it is independent."""
        mask: NDArray[np.bool_] = self._sets.addable(self._independent(S))
        return mask

    def span(self, S: Iterable[int]) -> Items:
        """All items, in order, that do not raise the rank of S (S among them); S may be dependent."""
        items = item_set("S", S, self.n_items)
        return np.flatnonzero(~self._sets.addable(self._sets.greedy(items)))

    def circuit(self, S: Iterable[int], item: int) -> Items:
        """The items of an independent S that can make room for ``item``, which lies outside S.

        S - j + item is independent for exactly these j. All of S if S + item is independent already.
        """
        items = self._independent(S)
        number = one_item("item", item, self.n_items)
        if number in items:
            raise ValueError(f"item={number} is already in S; only an item outside S can be put in")
        return np.sort(items if self._sets.addable(items)[number] else self._sets.circuit(items, number))

    def _independent(self, S: Iterable[int]) -> Items:
        items = item_set("S", S, self.n_items)
        if not self._sets.fits(items):
            raise ValueError(
                f"S={items.tolist()} is not independent in {self!r}; give a set that contains() accepts"
            )
        return items

    def maximize(self, w: ArrayLike, *, base: bool = False) -> Vector:
        """The indicator vector of an independent set with the largest total weight.

        Items with weight 0 or less are never taken, unless ``base=True`` asks for the heaviest base. Ties
        go to the smaller item. Exact: greedy by weight (Edmonds 1971).
        """
        weights = vector("w", w, length=self.n_items)
        order = np.argsort(-weights, kind="stable")
        if not base:
            order = order[weights[order] > 0.0]
        x = np.zeros(weights.size)
        x[self._sets_over(weights.size).greedy(order)] = 1.0
        return x

    def project_entropy(self, w: ArrayLike, *, log: bool = False, base: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w (generalized Kullback-Leibler).

        ``w`` is positive, or its logarithm with ``log=True`` (for weights that would over- or underflow). A
        point of the polytope is its own projection. Follow-the-regularized-leader with the regularizer sum
        x ln x and gains g at rate eta: ``project_entropy(eta * g, log=True, base=True)`` on bases; on the
        independence polytope subtract 1 from the logarithm, since x ln x = [x ln x - x] + x.

        ``gap`` in the result bounds the distance of the divergence from its minimum.
        """
        logs = log_weights(w, log=log, length=self.n_items)
        return projected(*self._sets_over(logs.size).project_entropy(logs, base=base))

    def project_euclidean(self, x: ArrayLike, *, base: bool = False) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``.

        ``gap`` bounds how far half the squared distance is above its minimum.
        """
        z = vector("x", x, length=self.n_items)
        return projected(*self._sets_over(z.size).project_euclidean(z, base=base))

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether every entry lies in [0, 1] and a point of the polytope is within ``tol`` of each.

        For nested limits: whether no limit is exceeded by more than ``tol``.
        """
        point = vector("x", x, length=self.n_items)
        slack = real("tol", tol, at_least=0.0)
        if (point < -slack).any() or (point > 1.0 + slack).any():
            return False
        return bool(self._sets_over(point.size).holds(point, slack))

    def decompose(self, x: ArrayLike) -> Decomposition:
        """``x`` as a convex combination of at most n_items + 1 independent sets.

        ``residual`` says what rounding left (1e-12 or less per item). Nested matroids (cardinality,
        partition, laminar) read the sets off systematic samples. For others they are found with the
        nearest-point method on the face of ``x``: a point with many fractional entries takes several n_items
        steps of one greedy pass and n_items**2 operations each, up to a second for the 300 edges of a graph,
        seconds for 600. `round` of graphic and transversal matroids does without a decomposition.
        """
        point = self._entries(x)
        found: Decomposition = self._sets_over(point.size).decompose(point)
        return found

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random independent set that holds item i with probability x[i].

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        f is never evaluated, so this is post-processing.

        Nested matroids: pivotal rounding inside every group, which keeps each group's sum rounded down or up.
        Graphic and transversal ones: pipage rounding (Ageev and Sviridenko 2004; Calinescu, Chekuri, Pal
        and Vondrak 2011). Entries move in pairs, one up and one down by the same, as far as the polytope
        allows and with the probabilities that keep both expectations. What it allows is found by flows in
        integer units of 2**-45, so that the set is independent whatever was rounded: a millisecond for the
        300 edges of a graph.

        All others: swap rounding (Chekuri, Vondrak and Zenklusen 2010). Most of the time goes into
        ``decompose``: to draw often from one point, decompose it once and call ``swap_round`` on the parts,
        which costs up to n_items * rank exchanges.
        """
        point = self._entries(x)
        chosen: Items = self._sets_over(point.size).round(point, generator(rng))
        return chosen


class OracleMatroid(Matroid):
    """Built by ``Matroid.from_oracle``."""

    def __init__(self, independent: Callable[[frozenset[int]], bool], n_items: int) -> None:
        size = whole("n_items", n_items, at_least=1)
        if not callable(independent):
            raise TypeError(
                f"independent must be a function of a frozenset of items, got {shown(independent)}"
            )
        if not independent(frozenset()):
            raise ValueError(
                "independent(frozenset()) is false; the empty set is independent in every matroid"
            )
        sets = IndependentSets(AskedOracle(independent, size))
        super().__init__(sets, "independent() is false for every single item; check the oracle")

    def __repr__(self) -> str:
        return f"Matroid.from_oracle(..., n_items={self.n_items})"


class MatroidMinor(Matroid):
    """The items ``free`` of a matroid, on top of an independent set ``included``; renumbered from 0.

    A set of them is independent if it is together with ``included``: the matroid with ``included``
    contracted, and everything that is neither included nor free deleted. Minors of matroids are matroids.
    """

    def __init__(self, matroid: Matroid, included: Items, free: Items) -> None:
        sets = IndependentSets(MinorOracle(matroid._sets.oracle, included, free))
        super().__init__(sets, "nothing fits together with what is included")
        self._of = f"{included.size} in {matroid!r}"

    def __repr__(self) -> str:
        return f"MatroidMinor({self.n_items} items on top of {self._of})"


class GraphicMatroid(Matroid):
    """Forests of a graph: item i is the i-th edge, and a set is independent if its edges hold no cycle.

    ``edges`` are pairs of vertices, any hashable labels; parallel edges are allowed, and an edge from a
    vertex to itself can never be chosen.

    >>> triangle = GraphicMatroid([("a", "b"), ("b", "c"), ("c", "a")])
    >>> triangle.rank, triangle.contains([0, 1, 2]), triangle.span([0, 1]).tolist()
    (2, False, [0, 1, 2])
    """

    def __init__(self, edges: Iterable[tuple[Hashable, Hashable]]) -> None:
        pairs = [tuple(edge) for edge in edges]
        for index, pair in enumerate(pairs):
            if len(pair) != 2:
                raise ValueError(f"edges[{index}]={reprlib.repr(pair)} must be a pair of vertices")
        if not pairs:
            raise ValueError("edges is empty, so the ground set is empty; give at least one edge")
        number: dict[Hashable, int] = {}
        ends = [[number.setdefault(vertex, len(number)) for vertex in pair] for pair in pairs]
        self._edges = np.array(ends, dtype=np.int64)
        n_vertices = len(number)
        sets = IndependentSets(
            GraphicOracle(self._edges, n_vertices),
            flow=ForestFlow,
            uniforms=(np.ones(len(pairs), dtype=np.intp), 2 * n_vertices + 2),
            exchanges=True,
        )
        super().__init__(sets, "every edge joins a vertex to itself")

    def _arguments(self) -> dict[str, Any]:
        return {"edges": self._edges.tolist()}

    def __repr__(self) -> str:
        return f"GraphicMatroid({self.n_items} edges on {self._sets.table.n_vertices} vertices)"


class TransversalMatroid(Matroid):
    """Partial transversals: S is independent if its items can be matched to distinct sets that hold them.

    ``sets[t]`` lists the items that may stand for set t (the people who can fill post t, the products that
    fit slot t). Items in no set can never be chosen. ``n_items`` defaults to one past the largest item
    named.

    >>> posts = TransversalMatroid([[0, 1], [1, 2], [2]])
    >>> posts.rank, posts.contains([0, 1, 2]), TransversalMatroid([[0, 1]]).contains([0, 1])
    (3, True, False)
    """

    def __init__(self, sets: Iterable[Iterable[int]], *, n_items: int | None = None) -> None:
        checked, size = list_of_sets("sets", sets, n_items)
        whole("n_items", size, at_least=1, at_most=10**7)
        self._members = [items.tolist() for items in checked]
        items = np.concatenate(checked)
        sets_of = np.repeat(np.arange(len(checked)), [found.size for found in checked])
        sets_of = sets_of[np.argsort(items, kind="stable")]
        degrees = np.bincount(items, minlength=size)
        starts = np.concatenate([[0], np.cumsum(degrees)])
        independent = IndependentSets(
            TransversalOracle(starts, sets_of, len(checked)),
            flow=MatchingFlow,
            uniforms=(degrees, 0),
            exchanges=True,
        )
        super().__init__(independent, "every set is empty")

    def _arguments(self) -> dict[str, Any]:
        return {"sets": self._members, "n_items": self.n_items}

    def __repr__(self) -> str:
        return f"TransversalMatroid({self._sets.table.n_sets} sets over {self.n_items} items)"


# More primes than this would mean entries with thousands of digits: elimination would take too long.
_MOST_PRIMES = 512


class LinearMatroid(Matroid):
    """Item i is the i-th column of ``matrix``; a set is independent if its columns are linearly independent.

    Decided exactly, without a tolerance. Entries are integers, fractions, or floats taken at their
    exact binary value (0.1 + 0.2 and 0.3 differ: round to integers first if that is not meant).
    Columns are scaled to integers and eliminated modulo this many primes below 2**31 that their product
    exceeds every subdeterminant (Hadamard's bound): a set is independent over the rationals exactly when it
    is so modulo one of them. ``modulus``, a prime below 2**31, asks for independence over the integers modulo
    that prime instead.

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
            primes = _enough_primes(whole_columns)
        else:
            primes = [whole("modulus", modulus, at_least=2, at_most=2**31 - 1)]
            if not _is_prime(primes[0]):
                raise ValueError(f"modulus={modulus} is not a prime; division needs one")
        self._modulus = modulus
        self._primes = primes
        residues = np.array([(whole_columns.T % prime).astype(np.int64) for prime in primes])
        oracle = LinearOracle(np.array(primes, dtype=np.int64), np.ascontiguousarray(residues))
        super().__init__(IndependentSets(oracle, exchanges=True), "every column of the matrix is zero")

    def _arguments(self) -> dict[str, Any]:
        return {"matrix": self._columns.tolist(), "modulus": self._modulus}

    def __repr__(self) -> str:
        field = "" if self._modulus is None else f", modulus={self._modulus}"
        return f"LinearMatroid({self._sets.table.rows} x {self.n_items} matrix{field})"


def _whole_columns(matrix: ArrayLike) -> NDArray[Any]:
    """The matrix with every column scaled to integers, which changes no dependence."""
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


def _enough_primes(columns: NDArray[Any]) -> list[int]:
    """Primes whose product exceeds every subdeterminant: the product of the largest column lengths."""
    squared = [sum(int(entry) ** 2 for entry in column) for column in columns.T]
    bits = sorted((max(1, square).bit_length() for square in squared), reverse=True)
    # bit_length bounds the logarithm of the squared length from above.
    needed = sum(bits[: min(columns.shape)]) / 2.0
    count = int(needed / 30.9) + 1  # every prime used is above 2**30.9
    if count > _MOST_PRIMES:
        raise ValueError(
            f"matrix needs {needed:.0f} bits to decide independence exactly, more than"
            f" {30.9 * _MOST_PRIMES:.0f}; round it to whole numbers, or give a modulus"
        )
    candidates = (number for number in range(2**31 - 1, 2, -1) if _is_prime(number))
    return list(islice(candidates, count))


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
