"""Convex domains: sets known by their projection and by two balls, one inside, one around.

Domains contain no data about people. Learners use the nearest point, the radii (``inner_radius`` r and
``outer_radius`` R, both around ``center``), and, when only costs of played points are seen, random directions
in which the domain extends.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from ..core.guards import fixed

Vector = NDArray[np.float64]

# How many directions, some along axes, the check of a projection probes, and how exact it has to be.
_PROBES = 64
_TOLERANCE = 1e-7


@fixed
class Domain(ABC):
    """A closed, bounded, convex set of points with ``dimension`` coordinates.

    ``inner_radius``: the ball of that radius around ``center`` lies inside (within the plane of the set, for
    sets such as the simplex that lie in one). ``outer_radius``: no point is further from ``center``.
    ``diameter``: no two points are further apart. ``affine_dimension``: the dimension of the set's plane.
    """

    _kinds: ClassVar[dict[str, type[Domain]]] = {}

    dimension: int
    center: Vector
    inner_radius: float
    outer_radius: float
    diameter: float

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Domain._kinds[cls.__name__] = cls

    def _set(
        self, center: Vector, inner_radius: float, outer_radius: float, diameter: float | None = None
    ) -> None:
        self.dimension = int(center.size)
        self.center = center.copy()
        self.center.setflags(write=False)
        self.inner_radius, self.outer_radius = float(inner_radius), float(outer_radius)
        self.diameter = 2.0 * self.outer_radius if diameter is None else float(diameter)
        # Squares and inverses of radii are floats, and points have digits left to tell them from the center.
        if not (self.inner_radius >= 1e-100 and 1e-100 <= self.outer_radius <= 1e100):
            raise ValueError(
                f"inner_radius={self.inner_radius:g} and outer_radius={self.outer_radius:g} must be between"
                " 1e-100 and 1e100; give a set of another size, with a ball inside"
            )
        if float(np.abs(self.center).max()) > 1e12 * self.outer_radius:
            raise ValueError(
                f"outer_radius={self.outer_radius:g} is lost in the digits of the center; move the set nearer"
                " to the origin"
            )

    @property
    def affine_dimension(self) -> int:
        """How many directions the set extends in: ``dimension``, or one less for sets in a plane."""
        return self.dimension

    @abstractmethod
    def project(self, point: Vector) -> Vector:
        """The nearest point of the set."""

    def contains(self, point: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether ``point`` is in the set, up to ``tolerance`` of the set's size."""
        given = checks.vector("point", point, length=self.dimension)
        checks.real("tolerance", tolerance, at_least=0.0)
        away = float(np.linalg.norm(self.project(given) - given))
        return away <= tolerance * max(1.0, self.outer_radius, float(np.abs(self.center).max()))

    def direction(self, rng: np.random.Generator) -> Vector:
        """A uniformly random direction of length 1 within the set's plane."""
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a numpy.random.Generator, got {checks.shown(rng)}")
        step = rng.standard_normal(self.dimension)
        if self.affine_dimension < self.dimension:  # a plane of constant sum
            step -= step.mean()
        return np.asarray(step / np.linalg.norm(step), dtype=np.float64)

    def shrunk(self, share: float) -> Domain:
        """The set pulled towards its center by ``share``: center + (1 - share)(x - center) for its points x.

        With share = beta / inner_radius, the ball of radius beta around each of its points is in the set.

        >>> Ball(2, 1.0).shrunk(0.25).outer_radius
        0.75
        """
        return _Shrunk(self, checks.real("share", share, at_least=0.0, below=1.0))

    def check(self) -> None:
        """Refuse a set that does not contain its inner ball or leaves its outer one, as probes show."""
        if self.inner_radius > self.outer_radius * (1 + 1e-12):
            raise ValueError(
                f"inner_radius={self.inner_radius:g} exceeds outer_radius={self.outer_radius:g}; the ball"
                " inside cannot be larger than the one around"
            )
        self._check_inside(self.center)
        slack = self._slack
        seen: list[Vector] = []
        for step in self._probes():
            self._check_inside(self.center + self.inner_radius * step)
            # Rays seldom run along the short direction of a thin set. But where a ray leaves the set, the way
            # back is perpendicular to the side that it crossed: probe that direction.
            away = self.inner_radius
            while away < 3.0 * self.outer_radius:
                away = min(2.0 * away, 3.0 * self.outer_radius)
                there = self.center + away * step
                back = there - self._projected(there)
                if (length := float(np.linalg.norm(back))) > slack:
                    self._check_inside(self.center + self.inner_radius * back / length)
                    break
            outside = self.center + 3.0 * self.outer_radius * step
            far = self._projected(outside)
            if float(np.linalg.norm(far - self.center)) > self.outer_radius + slack:
                raise ValueError(
                    f"the set reaches {far}, further than outer_radius={self.outer_radius:g} from its center;"
                    " give a larger radius"
                )
            if float(np.linalg.norm(self._projected(far) - far)) > slack:
                raise ValueError(
                    f"the projection moves its own answer {far}; projecting twice must be projecting once"
                )
            for other in seen:
                if float((outside - far) @ (other - far)) > slack * self.outer_radius:
                    raise ValueError(
                        f"{far} is not the nearest point to {outside}: the set, if convex, has nearer ones"
                        f" towards {other}; give the Euclidean projection onto a convex set"
                    )
            seen.append(far)

    @property
    def _slack(self) -> float:
        """The distance that rounding errors may cause."""
        return _TOLERANCE * self.outer_radius + 1e-13 * float(np.abs(self.center).max())

    def _probes(self) -> Iterator[Vector]:
        """Random directions, and both ways along some axes, within the set's plane."""
        rng = np.random.default_rng(0)
        for axis in rng.permutation(self.dimension)[: _PROBES // 4]:
            for sign in (1.0, -1.0):
                step = np.zeros(self.dimension)
                step[axis] = sign
                if self.affine_dimension < self.dimension:
                    step -= step.mean()
                yield step / np.linalg.norm(step)
        for _ in range(_PROBES // 2):
            yield self.direction(rng)

    def _check_inside(self, point: Vector) -> None:
        """Refuse the set if ``point``, of its inner ball, is not in it."""
        answer = self._projected(point)
        if float(np.linalg.norm(answer - point)) > self._slack:
            raise ValueError(
                f"the set does not contain its own ball: {point} is within inner_radius="
                f"{self.inner_radius:g} of the center and projects to {answer}; give a smaller radius or"
                " another center"
            )

    def _projected(self, point: Vector) -> Vector:
        return checks.vector("project(point)", self.project(point), length=self.dimension)

    @staticmethod
    def from_projection(
        project: Callable[[Vector], ArrayLike],
        dimension: int,
        inner_radius: float,
        outer_radius: float,
        center: ArrayLike | None = None,
    ) -> Domain:
        """Any convex set, given by a function that returns its nearest point.

        The function is tested on a few points: for the balls of the two radii, that projecting twice is
        projecting once, and that answers are nearest points. Errors elsewhere affect regret, not privacy.
        Functions cannot be saved: a learner that is to be saved needs a subclass with `project` and `_plain`.

        >>> half = Domain.from_projection(lambda x: np.clip(x, -0.5, 0.5), 3, 0.5, 0.9)
        >>> half.project(np.array([2.0, 0.0, -1.0]))
        array([ 0.5,  0. , -0.5])
        """
        return _Projected(project, dimension, inner_radius, outer_radius, center)

    def to_json(self) -> dict[str, Any]:
        """Plain values from which `from_json` makes the equal set."""
        return {"kind": type(self).__name__, **self._plain()}

    @abstractmethod
    def _plain(self) -> dict[str, Any]: ...

    @staticmethod
    def from_json(record: dict[str, Any]) -> Domain:
        """The set that `to_json` wrote."""
        values = dict(record)
        kind = values.pop("kind")
        if kind == "_Shrunk":
            return Domain.from_json(values["whole"]).shrunk(values["share"])
        return Domain._kinds[kind](**values)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self._plain().items())
        return f"{type(self).__name__}({values})"


class Ball(Domain):
    """All points within ``radius`` of ``center`` (the origin, if not given), in the Euclidean norm.

    >>> Ball(2, 1.0).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    def __init__(self, dimension: int, radius: float = 1.0, center: ArrayLike | None = None) -> None:
        size = checks.whole("dimension", dimension, at_least=1)
        self.radius = checks.real("radius", radius, above=0.0)
        middle = np.zeros(size) if center is None else checks.vector("center", center, length=size)
        self._set(middle, self.radius, self.radius)

    def project(self, point: Vector) -> Vector:
        away = point - self.center
        length = float(np.linalg.norm(away))
        if length <= self.radius:
            return point.copy()
        return np.asarray(self.center + away * (self.radius / length), dtype=np.float64)

    def _plain(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "radius": self.radius, "center": self.center.tolist()}


class Box(Domain):
    """All points between ``low`` and ``high``, coordinate by coordinate.

    >>> Box([0.0, 0.0], [1.0, 2.0]).project(np.array([-1.0, 1.5]))
    array([0. , 1.5])
    """

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        self.low = checks.vector("low", low)
        self.high = checks.vector("high", high, length=self.low.size)
        self.low.setflags(write=False)
        self.high.setflags(write=False)
        if self.low.size == 0:
            raise ValueError("low is empty; a box needs at least one coordinate")
        wrong = np.flatnonzero(self.low >= self.high)
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(
                f"low[{i}]={self.low[i]:g} must be below high[{i}]={self.high[i]:g}; leave out"
                " coordinates that cannot move"
            )
        with np.errstate(over="ignore"):  # what is too large is refused
            half = (self.high - self.low) / 2.0
            size = float(np.linalg.norm(half))
        self._set(self.low + half, float(half.min()), size)

    def project(self, point: Vector) -> Vector:
        return np.minimum(np.maximum(point, self.low), self.high)

    def _plain(self) -> dict[str, Any]:
        return {"low": self.low.tolist(), "high": self.high.tolist()}


class Simplex(Domain):
    """Probability vectors: n non-negative numbers that sum to 1.

    >>> Simplex(3).project(np.array([0.5, 0.5, -1.0]))
    array([0.5, 0.5, 0. ])
    """

    def __init__(self, n: int) -> None:
        self.n = checks.whole("n", n, at_least=2)
        self._set(
            np.full(self.n, 1.0 / self.n),
            1.0 / math.sqrt(self.n * (self.n - 1.0)),
            math.sqrt(1.0 - 1.0 / self.n),
            math.sqrt(2.0),
        )

    @property
    def affine_dimension(self) -> int:
        return self.dimension - 1

    def project(self, point: Vector) -> Vector:
        # Subtract from every coordinate the number for which the positive ones then sum to 1. Coordinates are
        # relative to the largest, so that distant points lose no digits.
        near = point - point.max()
        falling = np.sort(near)[::-1]
        shifts = (np.cumsum(falling) - 1.0) / np.arange(1.0, self.n + 1.0)
        last = int(np.flatnonzero(falling > shifts)[-1])
        kept = np.maximum(near - shifts[last], 0.0)
        return np.asarray(kept / kept.sum(), dtype=np.float64)

    def _plain(self) -> dict[str, Any]:
        return {"n": self.n}


class CappedSimplex(Domain):
    """Numbers between 0 and 1 that sum to ``k`` (``exactly``), or to at most ``k``.

    The convex hull of the sets of k of n items, as 0-1 vectors.

    >>> CappedSimplex(3, 2).project(np.array([2.0, 0.8, 0.0]))
    array([1. , 0.9, 0.1])
    """

    def __init__(self, n: int, k: float, exactly: bool = True) -> None:
        self.n = checks.whole("n", n, at_least=2 if exactly else 1)
        self.k = checks.real("k", k, above=0.0)
        self.exactly = bool(exactly)
        if self.exactly and self.k >= self.n:
            raise ValueError(f"k={self.k:g} must be less than n={n}; else there is one point, or none")
        n_, k_ = float(self.n), min(self.k, float(self.n))
        whole, rest = divmod(k_, 1.0)
        if self.exactly:
            few = min(k_, n_ - k_)  # its digits, whether close to 0 or to n
            whole, rest = divmod(few, 1.0)
            inner = few / n_ / math.sqrt(1.0 - 1.0 / n_)
            outer = math.sqrt(whole + rest * rest - few * few / n_)
            self._set(np.full(self.n, k_ / n_), inner, outer, math.sqrt(2.0 * few))
            return
        middle = min(0.5, k_ / (n_ + math.sqrt(n_)))  # as far from 0 as from the cap or from 1
        squares = [
            n_ * middle**2,
            n_ * middle**2 + whole * (1.0 - 2.0 * middle),
            n_ * middle**2 + whole * (1.0 - 2.0 * middle) + rest * (rest - 2.0 * middle),
        ]
        self._set(np.full(self.n, middle), middle, math.sqrt(max(squares)), math.sqrt(min(n_, 2.0 * k_)))

    @property
    def affine_dimension(self) -> int:
        return self.dimension - int(self.exactly)

    def project(self, point: Vector) -> Vector:
        from .polytopes import shift_to_total

        if not self.exactly:
            inside = np.minimum(np.maximum(point, 0.0), 1.0)
            if inside.sum() <= self.k:
                return inside
        return shift_to_total(point, np.ones(self.n), self.k)

    def _plain(self) -> dict[str, Any]:
        return {"n": self.n, "k": self.k, "exactly": self.exactly}


class _Shrunk(Domain):
    """``whole`` pulled towards its center."""

    def __init__(self, whole: Domain, share: float) -> None:
        self._whole, self._share, self._keep = whole, share, 1.0 - share
        keep = self._keep
        self._set(whole.center, keep * whole.inner_radius, keep * whole.outer_radius, keep * whole.diameter)

    @property
    def affine_dimension(self) -> int:
        return self._whole.affine_dimension

    def project(self, point: Vector) -> Vector:
        middle = self.center
        return np.asarray(
            middle + self._keep * (self._whole.project(middle + (point - middle) / self._keep) - middle)
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "_Shrunk", "whole": self._whole.to_json(), "share": self._share}

    def _plain(self) -> dict[str, Any]:
        return {"whole": self._whole, "share": self._share}


class _Projected(Domain):
    """A set given by a function."""

    def __init__(
        self,
        project: Callable[[Vector], ArrayLike],
        dimension: int,
        inner_radius: float,
        outer_radius: float,
        center: ArrayLike | None = None,
    ) -> None:
        if not callable(project):
            raise TypeError(f"project must be a function of a point, got {checks.shown(project)}")
        size = checks.whole("dimension", dimension, at_least=1)
        middle = np.zeros(size) if center is None else checks.vector("center", center, length=size)
        self._project = project
        self._set(
            middle,
            checks.real("inner_radius", inner_radius, above=0.0),
            checks.real("outer_radius", outer_radius, above=0.0),
        )
        self.check()

    def project(self, point: Vector) -> Vector:
        return np.array(self._project(point.copy()), dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        raise TypeError("a domain that is a function cannot be written to a file; write a subclass of Domain")

    def _plain(self) -> dict[str, Any]:
        return {
            "dimension": self.dimension,
            "inner_radius": self.inner_radius,
            "outer_radius": self.outer_radius,
            "center": self.center.tolist(),
        }
