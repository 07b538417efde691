"""The constraint interface: which sets may be chosen, and the polytope that relaxes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import shown, vector
from ..core.fixed import Fixed
from .items import item_set, one_item
from .results import Decomposition, ProjectedPoint

# How far outside the polytope a point may lie and still be taken for a point of it.
POLYTOPE_TOLERANCE = 1e-9


class Constraint(Fixed, ABC):
    """A family of feasible sets that is closed under taking subsets.

    Constraints hold public information only: they never see anybody's data, and nothing they do queries an
    objective. Whatever they compute from a private release is therefore post-processing of that release.
    """

    @property
    @abstractmethod
    def n_items(self) -> int | None:
        """The size of the ground set; None where it is learnt from the arguments."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of items in the largest feasible set."""

    def over(self, n_items: int) -> Self:
        """This constraint on the ground set 0..n_items-1; an error if it was built for another one."""
        if self.n_items != n_items:
            raise ValueError(
                f"{self!r} is over {self.n_items} items, not n_items={n_items}; build one that fits"
            )
        return self

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

    def can_swap(self, S: Iterable[int], out: int, into: int) -> bool:
        """Whether S is still feasible with ``out`` (in S) taken out and ``into`` (not in S) put in."""
        items = item_set("S", S, self.n_items)
        leaving, entering = one_item("out", out, self.n_items), one_item("into", into, self.n_items)
        if leaving not in items:
            raise ValueError(f"out={leaving} is not in S; only an item of S can be taken out")
        if entering in items:
            raise ValueError(f"into={entering} is already in S; only an item outside S can be put in")
        return self.contains(np.append(items[items != leaving], entering))

    @abstractmethod
    def maximize(self, w: ArrayLike) -> NDArray[np.float64]:
        """A point of the polytope with the largest <w, x>."""

    @abstractmethod
    def project_entropy(self, w: ArrayLike, *, log: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w."""

    @abstractmethod
    def project_euclidean(self, x: ArrayLike) -> ProjectedPoint:
        """The point of the polytope nearest to x."""

    @abstractmethod
    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether x lies in the polytope, up to ``tol``."""

    @abstractmethod
    def decompose(self, x: ArrayLike) -> Decomposition:
        """A point of the polytope as a convex combination of feasible sets."""

    @abstractmethod
    def round(self, x: ArrayLike, rng: np.random.Generator) -> NDArray[np.intp]:
        """A random feasible set whose expectation is x, or as near to it as the constraint allows."""

    def _point(self, x: ArrayLike) -> NDArray[np.float64]:
        """``x`` as a point of the polytope with entries in [0, 1], or an error that says how to mend it."""
        point = vector("x", x, length=self.n_items)
        outside = np.flatnonzero((point < -POLYTOPE_TOLERANCE) | (point > 1 + POLYTOPE_TOLERANCE))
        if outside.size:
            where = int(outside[0])
            raise ValueError(f"x[{where}]={point[where]} is outside [0, 1]; call project_euclidean(x) first")
        if not self.in_polytope(point):
            raise ValueError(f"x is outside the polytope of {self!r}; call project_euclidean(x) first")
        return np.clip(point, 0.0, 1.0)


class SetsOnly(Constraint):
    """A constraint that knows its feasible sets and no polytope: what needs one is refused."""

    _why: ClassVar[str]

    def maximize(self, w: ArrayLike) -> NDArray[np.float64]:
        """Refused: see the class."""
        self._refuse("maximize", w)

    def project_entropy(self, w: ArrayLike, *, log: bool = False) -> ProjectedPoint:
        """Refused: see the class."""
        self._refuse("project_entropy", w, log)

    def project_euclidean(self, x: ArrayLike) -> ProjectedPoint:
        """Refused: see the class."""
        self._refuse("project_euclidean", x)

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Refused: see the class."""
        self._refuse("in_polytope", x, tol)

    def decompose(self, x: ArrayLike) -> Decomposition:
        """Refused: see the class."""
        self._refuse("decompose", x)

    def round(self, x: ArrayLike, rng: np.random.Generator) -> NDArray[np.intp]:
        """Refused: see the class."""
        self._refuse("round", x, rng)

    def _refuse(self, what: str, *_: Any) -> NoReturn:
        raise NotImplementedError(
            f"{what} needs a polytope, which {self._why}; use greedy selection (offline.PrivateGreedy), or a"
            " matroid or a knapsack alone"
        )


def log_weights(w: ArrayLike, *, log: bool, length: int | None) -> NDArray[np.float64]:
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
