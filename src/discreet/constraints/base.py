"""The constraint interface: which sets may be chosen, and the polytope that relaxes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import shown, vector, whole
from ..core.guards import fixed

Items = NDArray[np.intp]
Vector = NDArray[np.float64]

# How far outside the polytope a point may lie and still be accepted.
POLYTOPE_TOLERANCE = 1e-9
# The names of constraints that can be stored in files.
_STORED = (
    "Cardinality",
    "PartitionMatroid",
    "LaminarMatroid",
    "GraphicMatroid",
    "TransversalMatroid",
    "LinearMatroid",
    "Knapsack",
)


@fixed
class Constraint(ABC):
    """A family of feasible sets that is closed under taking subsets.

    Constraints hold public information only: they never see anybody's data, and nothing they do queries an
    objective. Whatever they compute from a private release is therefore post-processing of that release.

    ``n_items`` is the size of the ground set, or None where it is learnt from the arguments; ``rank`` the
    number of items in the largest feasible set.
    """

    n_items: int | None
    rank: int

    def __getattr__(self, name: str) -> Any:  # reached if a user-defined class has not set an attribute
        sizes = "; set n_items, how many items there are, and rank, how many the largest set has"
        hint = sizes if name in ("n_items", "rank") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def over(self, n_items: int) -> Self:
        """This constraint on the ground set 0..n_items-1; an error if it was built for another one."""
        if "_arguments" not in type(self).__dict__:
            self._check_own()
        if self.n_items != n_items:
            raise ValueError(
                f"{self!r} is over {self.n_items} items, not n_items={n_items}; build one that fits"
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """A record from which `from_json` builds an equal constraint; refused for user-defined classes.

        >>> from discreet.constraints import Cardinality
        >>> Cardinality(2, n_items=5).to_json()
        {'kind': 'Cardinality', 'k': 2, 'n_items': 5}
        """
        # Only the library's own classes: a user-defined one may behave differently, and could not be found.
        if "_arguments" not in type(self).__dict__:
            raise TypeError(f"{self!r} cannot be written to a file; those that can: {', '.join(_STORED)}")
        return {"kind": type(self).__name__, **self._arguments()}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Constraint:
        """The constraint that `to_json` wrote."""
        from .. import constraints

        arguments = dict(record)
        kind = arguments.pop("kind")
        if kind not in _STORED:
            raise ValueError(f"{kind!r} is not a kind of constraint that this release knows")
        found: Constraint = getattr(constraints, kind)(**arguments)
        return found

    def _check_own(self) -> None:
        """Refuse a user-defined class whose `addable` lists items instead of returning a mask."""
        free = np.asarray(self.addable([]))
        if free.dtype != bool or free.shape != (self.n_items,):
            name = type(self).__name__
            raise TypeError(f"{name}.addable must return a mask: one True or False for each of n_items items")

    def _arguments(self) -> dict[str, Any]:
        """The constructor's arguments for an equal constraint, as plain values."""
        raise NotImplementedError

    @abstractmethod
    def contains(self, S: Iterable[int]) -> bool:
        """Whether all of S may be chosen together."""

    @abstractmethod
    def addable(self, S: Iterable[int]) -> NDArray[np.bool_]:
        """A mask over all items: True where the item is outside S and S plus the item is feasible."""

    def can_add(self, S: Iterable[int], item: int) -> bool:
        """Whether S plus ``item`` is feasible; False for an item that is already in S."""
        items = item_set("S", S, self.n_items)
        number = one_item("item", item, self.n_items)
        return number not in items and self.contains(np.append(items, number))

    # --- the polytope: refused by constraints without one -------------------------------------------

    _no_polytope: ClassVar[str] = "is not known for this constraint"

    def maximize(self, w: ArrayLike) -> Vector:
        """A point of the polytope with the largest <w, x>."""
        self._refuse("maximize", w)

    def project_entropy(self, w: ArrayLike, *, log: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w."""
        self._refuse("project_entropy", w, log)

    def project_euclidean(self, x: ArrayLike) -> ProjectedPoint:
        """The point of the polytope nearest to x."""
        self._refuse("project_euclidean", x)

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether x lies in the polytope, up to ``tol``."""
        self._refuse("in_polytope", x, tol)

    def decompose(self, x: ArrayLike) -> Decomposition:
        """A point of the polytope as a convex combination of feasible sets."""
        self._refuse("decompose", x)

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random feasible set whose expectation is x, or as near to it as the constraint allows."""
        self._refuse("round", x, rng)

    def _refuse(self, what: str, *_: Any) -> NoReturn:
        raise NotImplementedError(
            f"{what} needs a polytope, which {self._no_polytope}; use greedy selection"
            " (offline.PrivateGreedy), or a matroid or a knapsack alone"
        )

    def _entries(self, x: ArrayLike) -> Vector:
        """``x`` with entries in [0, 1] up to rounding, or an error that says how to fix it."""
        point = vector("x", x, length=self.n_items)
        outside = np.flatnonzero((point < -POLYTOPE_TOLERANCE) | (point > 1 + POLYTOPE_TOLERANCE))
        if outside.size:
            where = int(outside[0])
            raise ValueError(f"x[{where}]={point[where]} is outside [0, 1]; call project_euclidean(x) first")
        return point


def refuse_outside(why: str) -> NoReturn:
    """The error for a point that is not in the polytope."""
    raise ValueError(f"x is outside the polytope ({why}); call project_euclidean(x) first")


def log_weights(w: ArrayLike, *, log: bool, length: int | None) -> Vector:
    """Weights of an entropic projection as logarithms; plain weights must be positive."""
    weights = vector("w", w, length=length)
    if log:
        return weights
    if weights.size and weights.min() <= 0.0:
        where = int(np.argmin(weights))
        raise ValueError(
            f"w[{where}]={weights[where]} must be positive; give logarithms with log=True if it is tiny"
        )
    return np.log(weights)


def generator(rng: np.random.Generator) -> np.random.Generator:
    """``rng`` itself, refused unless it is a generator: a seed passed by mistake would repeat its draws."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, got {shown(rng)}; use np.random.default_rng(seed)"
        )
    return rng


# --- items --------------------------------------------------------------------------------------------------


def one_item(name: str, item: Any, n_items: int | None) -> int:
    """``item`` as an int of the ground set, or an error that names ``name``."""
    number = whole(name, item, at_least=0)
    if n_items is not None and number >= n_items:
        raise ValueError(f"{name}={number} is not an item; items are 0..{n_items - 1}")
    return number


_LARGEST = int(np.iinfo(np.intp).max) - 1


def item_set(name: str, items: Iterable[int], n_items: int | None) -> Items:
    """The items in the order given, checked to be distinct and in range."""
    if isinstance(items, np.ndarray):
        array = _from_array(name, items)
    else:
        try:
            listed = list(items)
        except TypeError as error:
            raise TypeError(f"{name} must be an iterable of items, got {shown(items)}") from error
        for position, item in enumerate(listed):
            whole(f"{name}[{position}]", item, at_least=0, at_most=_LARGEST)
        array = np.array(listed, dtype=np.intp)
    if array.size == 0:
        return array
    if array.min() < 0 or (n_items is not None and array.max() >= n_items):
        position = int(np.flatnonzero((array < 0) | (array >= (n_items or np.inf)))[0])
        allowed = f"items are 0..{n_items - 1}" if n_items is not None else "items are 0 or more"
        raise ValueError(f"{name}[{position}]={array[position]} is out of range; {allowed}")
    values, counts = np.unique(array, return_counts=True)
    if values.size < array.size:
        item, times = values[counts > 1][0], counts[counts > 1][0]
        raise ValueError(f"{name} holds item {item} {times} times; give every item once")
    return array


def _from_array(name: str, items: NDArray[Any]) -> Items:
    if items.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {items.shape}")
    if items.size == 0:
        return np.zeros(0, dtype=np.intp)
    if items.dtype == np.bool_:
        raise TypeError(f"{name} is a mask; give item numbers, for instance np.flatnonzero({name})")
    if not np.issubdtype(items.dtype, np.integer):
        raise TypeError(f"{name} must hold whole numbers, got an array of {items.dtype}")
    return items.astype(np.intp)


def list_of_sets(name: str, sets: Iterable[Iterable[int]], n_items: int | None) -> tuple[list[Items], int]:
    """Checked item sets, and the size of the ground set: the one given, or one past the largest item."""
    if n_items is not None:
        whole("n_items", n_items, at_least=1, at_most=1 << 31)
    checked = [item_set(f"{name}[{index}]", items, n_items) for index, items in enumerate(sets)]
    if n_items is None:
        n_items = max((int(items.max()) + 1 for items in checked if items.size), default=0)
    if n_items == 0:
        raise ValueError(f"{name} holds no item, so the ground set is empty; name at least one item")
    return checked, n_items


def capacity_list(capacities: int | Sequence[int], sets: int, what: str) -> Items:
    """One capacity per set; a single number stands for all of them."""
    if isinstance(capacities, int | np.integer):
        return np.full(sets, whole("capacities", capacities, at_least=0, at_most=_LARGEST), dtype=np.intp)
    listed = list(capacities)
    if len(listed) != sets:
        raise ValueError(f"capacities has {len(listed)} entries for {sets} {what}; give one for each")
    return np.array(
        [
            whole(f"capacities[{index}]", value, at_least=0, at_most=_LARGEST)
            for index, value in enumerate(listed)
        ],
        dtype=np.intp,
    )


# --- results ------------------------------------------------------------------------------------------------


class ProjectedPoint(np.ndarray[tuple[int], np.dtype[np.float64]]):
    """A point of a polytope that carries its own certificate; in every other way it is an array.

    - ``x``: the plain array;
    - ``gap``: an upper bound on how far the divergence at ``x`` is above its minimum, namely
      max over v in the polytope of <gradient at x, x - v>. It is 0.0 where a closed form was used
      (exact up to rounding), and measured at ``x`` everywhere else;
    - ``iterations``: steps of the method; 0 for a closed form.

    Arrays derived from it (``2 * point``, ``point[3:5]``, a copy) carry no certificate: their gap is NaN.
    """

    gap: float = float("nan")
    iterations: int = 0

    @property
    def x(self) -> Vector:
        """The point as a plain array."""
        return self.view(np.ndarray)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Results of arithmetic are plain arrays."""
        del context
        return array[()] if return_scalar else np.asarray(array)


def projected(x: Vector, gap: float = 0.0, iterations: int = 0) -> ProjectedPoint:
    """``x`` with its certificate attached."""
    point = x.view(ProjectedPoint)
    point.gap = gap
    point.iterations = iterations
    return point


@dataclass(frozen=True)
class Decomposition:
    """A point written as a convex combination of feasible sets.

    ``weights`` are positive and sum to 1; ``sets[l]`` are sorted items; ``residual`` is the point minus the
    weighted sum of the sets' indicator vectors.
    """

    sets: tuple[Items, ...]
    weights: Vector
    residual: Vector

    def point(self) -> Vector:
        """The weighted sum of the sets' indicator vectors."""
        total = np.zeros_like(self.residual)
        for items, weight in zip(self.sets, self.weights, strict=True):
            total[items] += weight
        return total


def decomposition(x: Vector, sets: list[Items], weights: Vector) -> Decomposition:
    """The decomposition of ``x`` with its residual filled in."""
    unfilled = Decomposition(tuple(sets), weights, np.zeros_like(x))
    return Decomposition(tuple(sets), weights, x - unfilled.point())
