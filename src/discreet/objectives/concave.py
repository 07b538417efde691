"""Concave over modular: a concave function of the total weight of what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.checks import DataError, one_of, per_person, real, whole
from .base import Floats
from .rows.functions import custom, heights
from .rows.matrices import STRETCH, SparseMatrix, constant
from .rows.people import RowPopulation, largest_totals, row_totals
from .rows.table import CAP, LOG, SQRT, Kind

_NAMED = {"sqrt": SQRT, "log": LOG, "capped": CAP}


class ConcaveOverModular(RowPopulation):
    """f(S) = g(sum of the person's weights in S) - g(0), with g concave and rising.

    ``weights``: people x items, nonnegative. ``concave``: ``"sqrt"``, ``"log"`` (log(1 + t)), ``"capped"``
    (min(t, cap), with ``cap`` one number or one per person), or a function of an array that is concave and
    does not fall on t >= 0; it is looked at when the population is built, and held to its word with every
    gain that is asked for. ``bound``: a public bound of f, 1 unless declared.

    ``at_most``: the bound is one of sets of at most so many items, and people are held to it there: with
    weights of at most 1 and the square root, sqrt(k) for k items instead of sqrt(n_items). `PrivateGreedy`
    takes such people where no more items are chosen, and its noise goes by the smaller bound; whoever asks
    for larger sets refuses them. The guarantee does not rest on it: exact sums hold everybody to the bound.

    With the named functions the multilinear extension is exact while nobody touches more than 12 items, by a
    sum over all their subsets. The rank of a partition matroid is such an objective: blocks as people,
    capacities as caps.

    >>> people = ConcaveOverModular([[4.0, 5.0]], concave="sqrt", bound=3)
    >>> people.value([0]), people.value([0, 1])
    (2.0, 3.0)
    """

    _argument = "weights"

    def __init__(
        self,
        weights: Any,
        *,
        concave: str | Callable[[Any], Any] = "sqrt",
        cap: ArrayLike | None = None,
        bound: float | None = None,
        at_most: int | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        if at_most is not None:
            self.at_most = whole("at_most", at_most, at_least=1)
        if callable(concave):
            self._concave = custom(concave)
        else:
            self._concave = _NAMED[one_of("concave", concave, tuple(_NAMED))]
        if (cap is not None) != (self._concave is CAP):
            raise ValueError('cap= goes with concave="capped", which needs it: one number or one per person')
        self._cap_given, self._shape_given = cap, concave if callable(concave) else None
        super().__init__(weights, bound=bound, labels=labels)
        del self._cap_given, self._shape_given

    def _kind(self) -> Kind:
        return self._concave

    def _caps(self, matrix: SparseMatrix | Floats) -> Floats:
        count = int(matrix.shape[0])
        if self._shape_given is not None:
            totals = row_totals(matrix)
            _look_at(self._shape_given, float(totals.max()))
            return totals
        if self._cap_given is None:
            return constant(np.inf, count)
        if np.ndim(self._cap_given) == 0:
            return constant(real("cap", self._cap_given, at_least=0), count)
        caps = per_person("cap", self._cap_given, count)
        if caps.min() < 0:
            place = int(np.argmin(caps))
            raise DataError("cap has a negative entry; caps are at least 0", f"cap[{place}]={caps[place]:g}")
        return caps

    def _cap_rule(self) -> tuple[float, float]:
        return float(self._rows.cap[0]), 0.0

    def _largest(self) -> Floats:
        matrix, cap = self._rows.matrix, self._rows.cap
        totals = row_totals(matrix) if self.at_most is None else largest_totals(matrix, self.at_most)
        for start in range(0, totals.size, STRETCH):
            here = slice(start, start + STRETCH)
            totals[here] = self._concave.gain(0.0, totals[here], cap[here])
        return totals


class SaturatedCoverage(RowPopulation):
    """f(S) = min(sum of the person's weights in S, saturation x the sum of all their weights).

    Once a person has received the share ``saturation`` of what all items together would give them, more is
    worth nothing. ``matrix``: people x items, nonnegative. ``bound``: a public bound of f, 1 unless declared;
    with ``at_most``, one of sets of at most so many items, as for `ConcaveOverModular`: the sum of a person's
    largest weights in place of their saturation, which grows with the catalogue.

    >>> people = SaturatedCoverage([[0.5, 0.25, 0.25]], saturation=0.6)
    >>> people.value([0]), people.value([0, 1])
    (0.5, 0.6)
    """

    def __init__(
        self,
        matrix: Any,
        *,
        saturation: float = 0.1,
        bound: float | None = None,
        at_most: int | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        if at_most is not None:
            self.at_most = whole("at_most", at_most, at_least=1)
        self.saturation = real("saturation", saturation, above=0, at_most=1)
        super().__init__(matrix, bound=bound, labels=labels)

    def _kind(self) -> Kind:
        return CAP

    def _caps(self, matrix: SparseMatrix | Floats) -> Floats:
        return self.saturation * row_totals(matrix)

    def _cap_rule(self) -> tuple[float, float]:
        return np.inf, self.saturation

    def _largest(self) -> Floats:
        if self.at_most is None:
            return self._rows.cap
        return np.minimum(self._rows.cap, largest_totals(self._rows.matrix, self.at_most))


def _look_at(function: Callable[[Any], Any], largest: float) -> None:
    """Refuse what is visibly not concave, or falls, up to 1000 and to the largest total there is."""
    top = max(1e3, largest)
    grid = np.concatenate(([0.0], np.geomspace(1e-3, top, round(10 * np.log10(top / 1e-3)) + 1)))
    slopes = np.diff(heights(function, grid)) / np.diff(grid)
    slack = 1e-9 * max(1.0, float(np.abs(slopes).max()))
    if slopes.min() < -slack:
        at = grid[int(np.argmin(slopes))]
        raise DataError(
            "concave must not fall, or the objective would not be monotone", f"it falls near {at:g}"
        )
    if np.diff(slopes).max() > slack:
        at = grid[int(np.argmax(np.diff(slopes))) + 1]
        raise DataError(
            "concave is not concave, and the objective would not be submodular", f"it bends up near {at:g}"
        )
