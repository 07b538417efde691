"""Monotone DR-submodular functions of a point, for choosing amounts instead of sets.

A differentiable function is DR-submodular when its gradient never grows: x <= y implies gradient(x) >=
gradient(y). Every family here is also monotone (gradients >= 0) on its box [0, upper], and 0 at 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from ..core.checks import DataError, named_rows, one_of, one_person, vector, whole
from ..core.guards import fixed
from ..core.options import ContinuousConcave
from ..privacy import PublicRandomness
from .answers import ROUNDING
from .base import Floats, Population
from .devices import QUIET, row_lengths, row_sums
from .rows import SparseMatrix, checked


@fixed
class ContinuousPopulation(ABC):
    """Many people's DR-submodular functions on the box [0, upper]; values and gradients are averages.

    Declared bounds, never computed from the data: ``bound`` (no value exceeds it), ``gradient_bound`` (no
    person's gradient is longer, in L2) and ``smoothness`` (Lipschitz constant of a person's gradient, in L2).
    The first two are checked for every person when a population is built.
    """

    dimension: int
    bound: float
    gradient_bound: float
    smoothness: float
    upper: Floats

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _value(self, x: Floats) -> float: ...

    @abstractmethod
    def _gradient(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _take(self, rows: NDArray[np.int64]) -> Self: ...

    def value(self, x: ArrayLike) -> float:
        """The average value at x."""
        return self._value(self._point(x))

    def gradient(self, x: ArrayLike) -> Floats:
        """The average gradient at x."""
        return self._gradient(self._point(x))

    def __getitem__(self, which: int | slice | Sequence[int] | NDArray[Any]) -> Self:
        one = one_person(which, len(self))
        return self._take(named_rows(which, len(self)) if one is None else np.array([one]))

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dimension} coordinates)"  # how many people: ask len()

    def _point(self, x: ArrayLike) -> Floats:
        point = vector("x", x, length=self.dimension)
        slack = 1e-9 * self.upper
        outside = (point < -slack) | (point > self.upper + slack)
        if outside.any():
            j = int(np.argmax(outside))
            raise ValueError(f"x[{j}]={point[j]:g} is outside [0, {self.upper[j]:g}]; project it first")
        return np.clip(point, 0.0, self.upper)

    def _like(self, **settings: Any) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__ | settings)
        return twin


class MultilinearExtension(ContinuousPopulation):
    """E f(R), R holding item j with probability x[j], for the monotone set functions f of a population.

    Without a closed form it is the mean over ``samples`` sets, drawn from ``seed`` and the point alone, so
    one person moves it no more than they can move f.

    >>> from discreet.objectives import Coverage
    >>> people = MultilinearExtension(Coverage([[1, 1, 0]]))
    >>> people.value([0.5, 0.5, 0.0]), people.gradient([0.5, 0.5, 0.0]).tolist()
    (0.75, [0.5, 0.5, 0.0])
    """

    def __init__(self, people: Population, *, samples: int = 1000, seed: int = 0) -> None:
        if not isinstance(people, Population):
            raise TypeError(f"people must be a population of set functions, got {type(people).__name__}")
        if not people.monotone:
            raise ValueError("the extension is monotone only where the set functions are; these are not")
        self.people = people
        self.samples = whole("samples", samples, at_least=2)
        self.seed = whole("seed", seed, at_least=0)
        self.dimension = people.n_items
        touched = self.dimension if people.items_per_person is None else people.items_per_person
        self.bound = people.bound
        self.gradient_bound = self.bound * math.sqrt(touched)
        # Second derivatives are at most the bound, and 0 on the diagonal.
        self.smoothness = self.bound * max(touched - 1, 0)
        self.upper = np.ones(self.dimension)

    def __len__(self) -> int:
        return len(self.people)

    @property
    def caveats(self) -> tuple[str, ...]:
        """The caveats of the population."""
        return self.people.caveats

    def _value(self, x: Floats) -> float:
        rng = PublicRandomness.seeded(self.seed).generator
        return self.people.multilinear(x, rng=rng, samples=self.samples)

    def _gradient(self, x: Floats) -> Floats:
        rng = PublicRandomness.seeded(self.seed).generator
        return self.people.multilinear_gradient(x, rng=rng, samples=self.samples)

    def _take(self, rows: NDArray[np.int64]) -> Self:
        return self._like(people=self.people[rows])


# A concave function, its slope, and bounds of its slope at 0 and of its curvature.
_SHAPES: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], float, float]] = {
    "saturating": (lambda s: -np.expm1(-s), lambda s: np.exp(-s), 1.0, 1.0),
    "log": (np.log1p, lambda s: 1.0 / (1.0 + s), 1.0, 1.0),
    "ratio": (lambda s: s / (1.0 + s), lambda s: (1.0 + s) ** -2.0, 1.0, 2.0),
}


class ConcaveOfLinear(ContinuousPopulation):
    """f(x) = concave(<w, x>) with weights w >= 0: coverage by amounts, with falling returns.

    ``weights``: people x coordinates. ``concave`` is ``"saturating"`` (1 - e^-s), ``"log"`` (ln(1 + s)) or
    ``"ratio"`` (s / (1 + s)). ``total`` is a public bound of <w, upper>, checked for every person; values are
    then at most concave(total), and gradients at most total / min(upper) long.

    >>> people = ConcaveOfLinear([[0.5, 0.5], [1.0, 0.0]], "ratio")
    >>> people.value([1.0, 1.0]), people[1].gradient([0.0, 0.0]).tolist()
    (0.5, [1.0, 0.0])
    """

    def __init__(
        self,
        weights: Any,
        concave: ContinuousConcave = "saturating",
        *,
        total: float = 1.0,
        upper: ArrayLike = 1.0,
    ) -> None:
        self._setup(_dense("weights", weights), concave, total, upper)

    def _setup(self, weights: Floats, concave: str, total: float, upper: ArrayLike) -> None:
        self.concave = one_of("concave", concave, tuple(_SHAPES))
        self.total = checks.bound(total, "total")
        self._weights = weights
        self.dimension = int(weights.shape[1])
        self.upper = _upper(upper, self.dimension)
        reach = _products(weights, self.upper)
        worst = int(np.argmax(reach))
        if reach[worst] > self.total * (1.0 + ROUNDING):
            raise DataError(
                f"one person has <weights, upper> above total={self.total:g}; rescale or declare more",
                f"person {worst} has {reach[worst]:g}",
            )
        height, _, slope, bend = _SHAPES[self.concave]
        longest = self.total / float(self.upper.min())
        self.bound = float(height(np.array(self.total)))
        self.gradient_bound = slope * longest
        if not math.isfinite(longest * longest):
            raise ValueError(f"upper has an entry of {float(self.upper.min()):g}, too small for total")
        self.smoothness = bend * longest**2

    def __len__(self) -> int:
        return int(self._weights.shape[0])

    def _value(self, x: Floats) -> float:
        return float(_SHAPES[self.concave][0](_products(self._weights, x)).mean())

    def _gradient(self, x: Floats) -> Floats:
        slopes = _SHAPES[self.concave][1](_products(self._weights, x))
        return np.asarray(slopes @ self._weights) / len(self)

    def _take(self, rows: NDArray[np.int64]) -> Self:
        taken = self._like()
        taken._weights = self._weights[rows]
        return taken


class BudgetAllocation(ConcaveOfLinear):
    """Budget allocation over channels: f(x) = 1 - product over s of (1 - p_s)^x_s.

    ``chances``: people x channels, in [0, 1): the probability that one unit spent on channel s reaches the
    person (Alon, Gamzu and Tennenholtz 2012; Soma and Yoshida 2015). ``upper`` is the most that may be spent
    on each channel; ``total`` a public bound of sum_s -ln(1 - p_s) upper_s.

    >>> round(BudgetAllocation([[0.5, 0.0]], total=2.0, upper=[2.0, 1.0]).value([2.0, 0.0]), 6)
    0.75
    """

    def __init__(self, chances: Any, *, total: float = 1.0, upper: ArrayLike = 1.0) -> None:
        dense = _dense("chances", chances)
        if (dense >= 1.0).any():
            person, channel = (int(i) for i in np.argwhere(dense >= 1.0)[0])
            raise DataError(
                "chances must be below 1, or one drop of budget would be worth everything",
                f"chances[{person}, {channel}]={dense[person, channel]:g}",
            )
        self._setup(-np.log1p(-dense), "saturating", total, upper)


class QuadraticProgram(ContinuousPopulation):
    """f(x) = <h, x> + x' H x / 2 with H <= 0 in every entry, and h + H upper >= 0, so that f never falls.

    ``hessians``: people x d x d, symmetric; ``linear``: people x d. ``bound`` and ``gradient_bound`` are
    public bounds of <h, upper> and of |h|, checked for every person. By monotonicity the rows of H sum to at
    most |h| / min(upper) in absolute value, which bounds the smoothness.

    >>> people = QuadraticProgram([[[0.0, -0.25], [-0.25, 0.0]]], [[0.5, 0.5]])
    >>> people.value([1.0, 1.0]), people.gradient([0.0, 1.0]).tolist()
    (0.75, [0.25, 0.5])
    """

    def __init__(
        self,
        hessians: ArrayLike,
        linear: ArrayLike,
        *,
        bound: float = 1.0,
        gradient_bound: float = 1.0,
        upper: ArrayLike = 1.0,
    ) -> None:
        self._h = _dense("linear", linear)
        people, self.dimension = self._h.shape
        try:
            self._H = np.array(hessians, dtype=np.float64, order="C")
        except (TypeError, ValueError, OverflowError):  # its message holds an entry, or the number of people
            raise TypeError("hessians must hold numbers, in matrices of one size") from None
        if self._H.shape != (people, self.dimension, self.dimension):
            raise ValueError(
                f"hessians must be a matrix of {self.dimension} x {self.dimension} for each person of linear"
            )
        if not np.isfinite(self._H).all() or self._H.max(initial=-1.0) > 0.0:
            raise ValueError("hessians has an entry above 0 or not finite; DR-submodular needs all <= 0")
        if not np.array_equal(self._H, self._H.transpose(0, 2, 1)):
            raise ValueError("hessians must be symmetric; use (H + H') / 2")
        self.upper = _upper(upper, self.dimension)
        self.bound = checks.bound(bound)
        self.gradient_bound = checks.bound(gradient_bound, "gradient_bound")
        self.smoothness = self.gradient_bound / float(self.upper.min())
        least = self._h + self._curved(self.upper)
        if least.min() < -ROUNDING:
            person = int(np.argmin(least.min(axis=1)))
            raise DataError(
                "one person's gradient at upper is negative: the function falls; make linear larger or upper"
                " smaller",
                f"person {person} has {least[person].min():g}",
            )
        self._hold(_products(self._h, self.upper), self.bound, "bound")
        self._hold(row_lengths(self._h), self.gradient_bound, "gradient_bound")

    def _hold(self, sizes: Floats, limit: float, name: str) -> None:
        worst = int(np.argmax(sizes))
        if sizes[worst] > limit * (1.0 + ROUNDING):
            raise DataError(
                f"one person's function can exceed {name}={limit:g}; rescale or declare more",
                f"person {worst} can reach {sizes[worst]:g}",
            )

    def __len__(self) -> int:
        return int(self._h.shape[0])

    def _value(self, x: Floats) -> float:
        return float((_products(self._h, x) + 0.5 * _products(self._curved(x), x)).mean())

    def _gradient(self, x: Floats) -> Floats:
        return np.asarray((self._h + self._curved(x)).mean(axis=0))

    def _curved(self, x: Floats) -> Floats:
        """H x of each person."""
        return _products(self._H.reshape(-1, self.dimension), x).reshape(self._h.shape)

    def _take(self, rows: NDArray[np.int64]) -> Self:
        taken = self._like()
        taken._h, taken._H = self._h[rows], self._H[rows]
        return taken


def _dense(name: str, matrix: Any) -> Floats:
    """People x coordinates, non-negative and finite, as a new dense array."""
    found = checked(name, matrix)
    return found.toarray() if isinstance(found, SparseMatrix) else found


@QUIET
def _products(rows: Floats, x: Floats) -> Floats:
    """The inner product of each row with ``x``, which depends on that row alone: see `row_sums`."""
    return np.asarray(row_sums(np, rows * x))


def _upper(upper: ArrayLike, dimension: int) -> Floats:
    try:
        given = np.asarray(upper, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"upper must hold numbers: {error}") from error
    high = vector("upper", np.full(dimension, given) if given.ndim == 0 else given, length=dimension)
    if high.min() <= 0.0:
        where = int(np.argmin(high))
        raise ValueError(f"upper[{where}]={high[where]:g} must be above 0")
    return high
