"""Facility location: each person counts with what the best chosen item is worth to them."""

from __future__ import annotations

from .base import Floats
from .rows.people import RowPopulation, row_maxima
from .rows.table import BEST, Kind


class FacilityLocation(RowPopulation):
    """f(S) = the largest weight the person gives to an item of S, and 0 for the empty set.

    ``matrix``: people x items, nonnegative. ``bound``: a public bound of every weight, 1 unless declared.

    >>> people = FacilityLocation([[0.9, 0.2], [0.1, 0.6]])
    >>> people.value([0]), people.value([0, 1])
    (0.5, 0.75)
    >>> people.gains([0]).round(2)
    array([0.  , 0.25])
    """

    def _kind(self) -> Kind:
        return BEST

    def _largest(self) -> Floats:
        return row_maxima(self._rows.matrix)
