"""Declared bounds of the vectors of a running sum, and the sensitivity that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import checks
from ..conversions import exact, root_above, rounded_up


@dataclass(frozen=True)
class VectorBounds:
    """Declared bounds of each vector, and how far apart two of them can be.

    ``norm_bound`` is in L1 for Laplace noise and in L2 otherwise. ``box`` bounds every coordinate,
    ``nonzeros`` the number of coordinates that are not 0. Every bound is checked when a vector comes. With
    ``people_per_vector`` above 1 each vector is itself a sum of up to that many people's vectors; the bounds
    are about each person's, and whoever adds them up has to see to that. ``apart`` is a bound of the distance
    between the vectors of neighbours, for vectors of which more is known than the other bounds say.
    """

    dimension: int
    norm: int
    norm_bound: float | None = None
    box: tuple[float, float] | None = None
    nonzeros: int | None = None
    people_per_vector: int = 1
    apart: float | None = None

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "dimension": checks.whole("dimension", self.dimension, at_least=1),
            "people_per_vector": checks.whole("people_per_vector", self.people_per_vector, at_least=1),
        }
        if self.norm not in (1, 2):
            raise ValueError(f"norm={checks.shown(self.norm)} must be 1 (L1) or 2 (L2)")
        if self.norm_bound is None and self.box is None:
            raise ValueError("say how large a vector can be: norm_bound=..., or box=(low, high)")
        if self.norm_bound is not None:
            plain["norm_bound"] = checks.real("norm_bound", self.norm_bound, above=0.0)
        if self.box is not None:
            checks.pair("box", self.box)
            low = checks.real("box[0]", self.box[0], at_most=0.0)
            high = checks.real("box[1]", self.box[1], at_least=0.0)
            if low == high:
                raise ValueError("box=(0, 0) leaves nothing to sum; give low <= 0 <= high with low < high")
            plain["box"] = (low, high)
        if self.nonzeros is not None:
            plain["nonzeros"] = checks.whole(
                "nonzeros", self.nonzeros, at_least=1, at_most=plain["dimension"]
            )
        if self.apart is not None:
            plain["apart"] = checks.real("apart", self.apart, above=0.0)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def stacked(self, number: int) -> VectorBounds:
        """The bounds of ``number`` such vectors of a person, end to end."""
        if number == 1:
            return self
        grow = number if self.norm == 1 else math.sqrt(number) * (1.0 + 2.0**-50)
        return replace(
            self,
            dimension=self.dimension * number,
            norm_bound=None if self.norm_bound is None else self.norm_bound * grow,
            nonzeros=None if self.nonzeros is None else self.nonzeros * number,
            apart=None if self.apart is None else self.apart * grow,
        )

    @property
    def largest(self) -> float:
        """No coordinate of a vector that is added exceeds this in absolute value."""
        bounds = [] if self.norm_bound is None else [self.norm_bound]
        if self.box is not None:
            bounds.append(max(-self.box[0], self.box[1]))
        return min(bounds) * self.people_per_vector

    def changed(self, neighbours: str) -> int:
        """How many coordinates can differ between neighbours."""
        if self.nonzeros is None:
            return self.dimension
        return min(self.dimension, self.nonzeros * (2 if neighbours == "replace" else 1))

    def difference(self, neighbours: str) -> float:
        """Largest distance, in the norm of the noise, between the vectors of neighbours, rounded up.

        Replaced: twice the norm bound, or its square root of two when nothing is negative (the angle is
        then at most a right one). In a box of width w and largest size b, d coordinates of which m are
        not 0: per pair of entries either both meet in one coordinate (w) or they do not (b twice).
        Added or removed: the vector itself against 0.
        """
        if self.apart is not None:
            return self.apart
        d, p = self.dimension, self.norm
        m = d if self.nonzeros is None else self.nonzeros
        replaced = neighbours == "replace"
        powers = []  # of the distance, to the p: exact fractions
        if self.norm_bound is not None:
            right_angle = p == 2 and self.box is not None and self.box[0] == 0.0
            times = (2 if right_angle else 2**p) if replaced else 1
            powers.append(exact(self.norm_bound) ** p * times)
        if self.box is not None:
            low, high = exact(self.box[0]), exact(self.box[1])
            width, size = (high - low) ** p, max(-low, high) ** p
            powers.append(min(width * d, max(width, 2 * size) * m) if replaced else size * m)
        least = min(powers)
        return rounded_up(least if p == 1 else root_above(least))

    def checked(self, values: ArrayLike, *, clip: bool) -> NDArray[np.float64]:
        """The vector as a float array if it keeps every declared bound; made to keep them if ``clip``."""
        vector = checks.vector("vector", values, length=self.dimension)
        if (
            self.nonzeros is not None
            and (count := int(np.count_nonzero(vector))) > self.nonzeros * self.people_per_vector
        ):
            raise ValueError(
                f"vector has {count} entries that are not 0; nonzeros={self.nonzeros} were declared"
            )
        if self.box is not None:
            low, high = self.box[0] * self.people_per_vector, self.box[1] * self.people_per_vector
            if vector.min() < low or vector.max() > high:
                if not clip:
                    where = int(np.flatnonzero((vector < low) | (vector > high))[0])
                    raise ValueError(
                        f"vector[{where}]={vector[where]} is outside box={self.box}; pass clip=True to clip"
                    )
                vector = np.clip(vector, low, high)
        if self.norm_bound is not None:
            length = _length(vector, self.norm)
            longest = self.norm_bound * self.people_per_vector
            if length > longest:
                if not clip and length > longest * (1 + 1e-12):
                    raise ValueError(
                        f"vector has L{self.norm} norm {length:.17g} above norm_bound={self.norm_bound};"
                        " pass clip=True to shorten it"
                    )
                vector = vector * (longest / length)
        return vector


def _length(vector: NDArray[np.float64], norm: int) -> float:
    """The norm in L1 or L2, to within ``log2(entries) + 8`` units of rounding, for any number of entries.

    Scaling is by a power of two, so that no square leaves the range of floats by more than what is nothing
    beside the largest entry's. Pairs are added, then pairs of pairs: each entry passes through log2 of their
    number of additions, unlike in BLAS, where it may be as many as there are entries.
    """
    largest = float(np.abs(vector).max())
    if largest == 0.0:
        return 0.0
    exponent = math.frexp(largest)[1]
    parts = np.abs(np.ldexp(vector, -exponent))
    if norm == 2:
        parts *= parts
    while parts.size > 1:
        half = parts.size // 2
        paired = parts[:half] + parts[half : 2 * half]
        if parts.size % 2:
            paired = np.append(paired, parts[-1])
        parts = paired
    total = float(parts[0])
    return math.ldexp(math.sqrt(total) if norm == 2 else total, exponent)
