"""Convex losses of people: one function of a point each, stored together in arrays.

A population evaluates all its people at once (``value`` and ``gradient`` are averages over them), one of them
(``people[i]``) and, for learners, one of them at one point without making an object (``at``). Any other
object with ``value(point)`` and ``gradient(point)``, or a pair of two such functions, is a cost too.

Privacy depends on a declared bound of gradients, which comes from public numbers: the norm of a row is
bounded by ``row_norm``, which is never computed from the data. Longer rows are refused, or shortened on
request (``clip=True``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..constraints.domains import Domain
from ..core import checks
from ..core.guards import fixed
from ..kernels.convex import DISTANCE, LINEAR, LOGISTIC, SQUARED, RowLosses
from .devices import row_lengths, row_sums

Vector = NDArray[np.float64]


@fixed
class Losses(ABC):
    """Convex functions of a point, one per person, over ``dimension`` coordinates.

    ``strong_convexity`` is a lower bound on the curvature of every person's function.
    """

    strong_convexity = 0.0
    # The cost's code in compiled loops (`kernels.convex`); None if they do not have it.
    _kind: ClassVar[int | None] = None
    _curvature: ClassVar[float] = 0.0  # the largest second derivative along a row of length 1

    def __init__(self, rows: ArrayLike, row_norm: float, clip: bool) -> None:
        table = _table("rows", rows)
        self.row_norm = checks.real("row_norm", row_norm, above=0.0)
        rows, self._shortened = _bounded(table, self.row_norm, clip)
        self._rows, self._numbers = _fixed(rows), _fixed(np.zeros(len(rows)))

    @property
    def dimension(self) -> int:
        return int(self._rows.shape[1])

    @property
    def insecure_clipped(self) -> int:
        """How many rows were shortened to ``row_norm``. This depends on private data: do not publish it."""
        return self._shortened

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, which: int | slice | NDArray[Any]) -> Self:
        chosen: Any = which
        one = checks.one_person(which, len(self))
        if one is not None:
            chosen = slice(one, one + 1)
        elif not isinstance(which, slice):
            chosen = checks.named_rows(which, len(self))
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part._rows, part._numbers = _fixed(self._rows[chosen]), _fixed(self._numbers[chosen])
        part._shortened = 0  # not counted for a part
        return part

    def value(self, point: ArrayLike) -> float:
        """Average cost of ``point`` over the people."""
        if len(self) == 1 and self._kind is not None:
            return self.at(0, self._point(point))[0]  # to the last digit as in a stream of people
        return float(self.values(self._point(point)).mean())

    def gradient(self, point: ArrayLike) -> Vector:
        """Gradient of the average cost."""
        weights, others = self._gradient_weights(self._point(point))
        return np.asarray(weights @ self._rows / len(self) + others, dtype=np.float64)

    @abstractmethod
    def values(self, point: Vector) -> Vector:
        """Each person's cost of ``point``."""

    def _along(self, point: Vector) -> Vector:
        """The inner product of each row with ``point``, which depends on that row alone: see `row_sums`."""
        return np.asarray(row_sums(np, self._rows * point))

    def at(self, person: int, point: Vector) -> tuple[float, Vector]:
        """Cost and gradient of one person's function."""
        if self._kind is None:
            raise NotImplementedError(f"{type(self).__name__} has to say what a point costs one person")
        losses = RowLosses(self._kind, self._rows, self._numbers)
        place, here = range(len(self))[person], np.array(point, dtype=np.float64)
        found: tuple[float, Vector] = losses.cost_and_gradient(place, here)
        return found

    def compiled(self) -> RowLosses | None:
        """These costs for compiled loops; None if they do not have this kind."""
        if self._kind is None or type(self).at is not Losses.at:
            return None
        return RowLosses(self._kind, self._rows, self._numbers)

    @abstractmethod
    def lipschitz(self, domain: Domain) -> float:
        """A bound on the length of the gradient of any person's function on ``domain``."""

    def best(self, domain: Domain, steps: int = 2000) -> tuple[Vector, float]:
        """The point of ``domain`` with the smallest average cost, and that cost.

        Not private: for evaluation, on data that you may look at. Accelerated projected gradient steps
        (Nesterov 1983, restarted when they overshoot); the value is within about 1e-9 of the least.
        """
        _inside(domain)
        checks.whole("steps", steps, at_least=0)
        smooth = self._smoothness()
        if smooth == 0.0:  # linear: one step far beyond the domain
            slope = self.gradient(domain.center)
            length = _length(slope) or 1.0
            point = domain.project(domain.center - 1e9 * domain.diameter * (slope / length))
            return point, self.value(point)
        point = ahead = domain.center.copy()
        momentum, last = 1.0, self.value(point)
        for _ in range(steps):
            following = domain.project(ahead - self.gradient(ahead) / smooth)
            now = self.value(following)
            moved = following - point
            if now > last:
                momentum, ahead = 1.0, point
                if float(np.abs(moved).max()) <= 1e-12 * domain.diameter:
                    break
                continue
            grown = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
            ahead = following + (momentum - 1.0) / grown * moved
            momentum, point, last = grown, following, now
            if float(np.abs(moved).max()) <= 1e-12 * domain.diameter:
                break
        return point, last

    def _smoothness(self) -> float:
        """A Lipschitz constant of the average gradient; 0 for linear costs."""
        return self._curvature * float(np.linalg.norm(self._rows, 2)) ** 2 / len(self)

    @abstractmethod
    def _gradient_weights(self, point: Vector) -> tuple[Vector, Vector | float]:
        """The factors of people's rows in their gradients, and a term to add to the average."""

    def _point(self, point: ArrayLike) -> Vector:
        return checks.vector("point", point, length=self.dimension)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dimension:,} coordinates)"  # how many people: ask len()


class Logistic(Losses):
    """Logistic loss ``ln(1 + exp(-y <x, w>))`` of a row x with a label y of -1 or 1 (or 0 and 1).

    Gradients are at most as long as the row, so ``row_norm`` is the Lipschitz bound everywhere.

    >>> people = Logistic([[0.6, 0.8], [0.0, 1.0]], [1, 0])
    >>> round(people.value([0.0, 0.0]), 4), people.gradient([0.0, 0.0]).round(2).tolist()
    (0.6931, [-0.15, 0.05])
    """

    _kind, _curvature = LOGISTIC, 0.25

    def __init__(
        self, rows: ArrayLike, labels: ArrayLike, *, row_norm: float = 1.0, clip: bool = False
    ) -> None:
        super().__init__(rows, row_norm, clip)
        signs = checks.per_person("labels", labels, len(self))
        known = set(np.unique(signs).tolist())
        if not (known <= {-1.0, 1.0} or known <= {0.0, 1.0}):
            raise checks.DataError("labels must be -1 and 1, or 0 and 1", f"got {sorted(known)[:5]}")
        self._numbers = _fixed(np.where(signs > 0.0, 1.0, -1.0))

    def values(self, point: Vector) -> Vector:
        return np.logaddexp(0.0, -self._numbers * self._along(point))

    def lipschitz(self, domain: Domain) -> float:  # noqa: ARG002
        return self.row_norm

    def _gradient_weights(self, point: Vector) -> tuple[Vector, Vector | float]:
        from scipy.special import expit

        return -self._numbers * expit(-self._numbers * self._along(point)), 0.0


class Squared(Losses):
    """Squared error ``(<x, w> - y)^2 / 2`` of a row x with a target y, ``|y| <= target_bound``.

    >>> Squared([[1.0, 0.0]], [0.5], target_bound=1.0).value([1.0, 0.0])
    0.125
    """

    _kind, _curvature = SQUARED, 1.0

    def __init__(
        self,
        rows: ArrayLike,
        targets: ArrayLike,
        *,
        target_bound: float,
        row_norm: float = 1.0,
        clip: bool = False,
    ) -> None:
        super().__init__(rows, row_norm, clip)
        self.target_bound = checks.real("target_bound", target_bound, above=0.0)
        wanted = checks.per_person("targets", targets, len(self))
        far = np.flatnonzero(np.abs(wanted) > self.target_bound)
        if far.size and not clip:
            i = int(far[0])
            raise checks.DataError(
                f"a target is beyond target_bound={self.target_bound:g}; declare a larger bound or pass"
                " clip=True",
                f"targets[{i}]={wanted[i]:g}",
            )
        self._shortened += int(far.size)
        self._numbers = _fixed(np.clip(wanted, -self.target_bound, self.target_bound))

    def values(self, point: Vector) -> Vector:
        return np.asarray((self._along(point) - self._numbers) ** 2 / 2.0)

    def lipschitz(self, domain: Domain) -> float:
        reach = _length(_inside(domain).center) + domain.outer_radius
        return (self.row_norm * reach + self.target_bound) * self.row_norm

    def _gradient_weights(self, point: Vector) -> tuple[Vector, Vector | float]:
        return self._along(point) - self._numbers, 0.0


class Linear(Losses):
    """Linear costs ``<c, w>``, a row c per person: their cost of each expert, action or direction.

    ``box=(low, high)`` is the declared range of every entry; give it or ``row_norm``, or both.

    >>> Linear([[1.0, 0.0], [0.5, 1.0]], box=(0.0, 1.0)).value([0.5, 0.5])
    0.625
    """

    _kind = LINEAR

    def __init__(
        self,
        rows: ArrayLike,
        *,
        row_norm: float | None = None,
        box: tuple[float, float] | None = None,
        clip: bool = False,
    ) -> None:
        table = _table("rows", rows)
        if box is not None:
            checks.pair("box", box)
        self.box = None if box is None else (float(box[0]), float(box[1]))
        outside = 0
        if self.box is not None:
            low, high = self.box
            if not low <= 0.0 <= high or low == high:
                raise ValueError(f"box={self.box} must hold 0 and more; e.g. (0, 1) or (-1, 1)")
            beyond = ((table < low) | (table > high)).any(axis=1)
            outside = int(beyond.sum())
            if outside and not clip:
                i = int(np.flatnonzero(beyond)[0])
                raise checks.DataError(
                    f"a row leaves box={self.box}; declare a wider one, or pass clip=True to clip",
                    f"rows[{i}]",
                )
            table = np.clip(table, low, high)
            widest = max(-low, high) * float(np.sqrt(table.shape[1])) * (1 + 1e-12)
            row_norm = widest if row_norm is None else row_norm
        if row_norm is None:
            raise ValueError("say how large a cost vector can be: row_norm=..., or box=(low, high)")
        super().__init__(table, row_norm, clip)
        self._shortened += outside

    def values(self, point: Vector) -> Vector:
        return self._along(point)

    def lipschitz(self, domain: Domain) -> float:  # noqa: ARG002
        return self.row_norm

    def _gradient_weights(self, point: Vector) -> tuple[Vector, Vector | float]:  # noqa: ARG002
        return np.ones(len(self)), 0.0


class Distance(Losses):
    """Half the squared distance ``|w - x|^2 / 2`` to a person's own point x: strongly convex, with 1.

    >>> Distance([[0.6, 0.8]]).value([0.0, 0.0])
    0.5
    """

    strong_convexity = 1.0
    _kind = DISTANCE

    def __init__(self, points: ArrayLike, *, row_norm: float = 1.0, clip: bool = False) -> None:
        super().__init__(points, row_norm, clip)

    def values(self, point: Vector) -> Vector:
        return np.asarray(row_sums(np, (self._rows - point) ** 2) / 2.0)

    def lipschitz(self, domain: Domain) -> float:
        return _length(_inside(domain).center) + domain.outer_radius + self.row_norm

    def _smoothness(self) -> float:
        return 1.0

    def _gradient_weights(self, point: Vector) -> tuple[Vector, Vector | float]:
        return -np.ones(len(self)), point


def cost_functions(cost: Any) -> tuple[Callable[[Vector], Any], Callable[[Vector], Any]]:
    """``value`` and ``gradient`` of anything accepted as one person's function of points."""
    if isinstance(cost, tuple | list) and len(cost) == 2 and all(callable(part) for part in cost):
        return cost[0], cost[1]
    value, gradient = getattr(cost, "value", None), getattr(cost, "gradient", None)
    if callable(value) and callable(gradient):
        return value, gradient
    raise TypeError(
        f"expected a person's function: an object with value(point) and gradient(point), or a pair of two"
        f" such functions; got {type(cost).__name__}"
    )


def _table(name: str, rows: ArrayLike) -> Vector:
    try:
        table = np.array(rows, dtype=np.float64, ndmin=2, order="C")
    except (TypeError, ValueError, OverflowError):  # its message holds an entry, or the number of rows
        raise TypeError(f"{name} must be a table of numbers, a row per person") from None
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] == 0:
        raise ValueError(f"{name} must be a table with a row per person, and at least one row and column")
    if not np.isfinite(table).all():
        row, column = (int(v) for v in np.argwhere(~np.isfinite(table))[0])
        raise checks.DataError(
            f"{name} has an entry that is not finite", f"{name}[{row}, {column}] is {table[row, column]}"
        )
    return table


def _bounded(table: Vector, row_norm: float, clip: bool) -> tuple[Vector, int]:
    """Rows no longer than ``row_norm``, and how many had to be shortened by more than rounding."""
    lengths = row_lengths(table)
    over = np.flatnonzero(lengths > row_norm)
    long = np.flatnonzero(lengths > row_norm * (1.0 + 1e-12))
    if long.size and not clip:
        i = int(long[0])
        raise checks.DataError(
            f"a row is longer than row_norm={row_norm:g}; rescale all rows by a public number, declare a"
            " larger row_norm, or pass clip=True to shorten long rows",
            f"rows[{i}] has length {lengths[i]:.6g}",
        )
    table[over] *= (row_norm / lengths[over])[:, None]
    return table, int(long.size)


def _fixed(array: Vector) -> Vector:
    """The numbers in the form that compiled loops need: C-contiguous and read-only."""
    plain = np.ascontiguousarray(array)
    plain.setflags(write=False)
    return plain


def _inside(domain: Any) -> Domain:
    from ..constraints.domains import Domain

    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}")
    return domain


def _length(vector: Vector) -> float:
    return float(np.linalg.norm(vector))
