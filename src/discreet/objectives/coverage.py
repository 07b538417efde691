"""Coverage, certain or probabilistic: people who are served by any chosen item that they like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .base import FAMILY_BOUND, Floats
from .rows.matrices import checked, constant
from .rows.people import RowPopulation
from .rows.table import COVER, SURVIVE, Kind


class Coverage(RowPopulation):
    """f(S) = 1 if S holds any of the person's items, else 0: on average, the share of people served.

    ``matrix``: people x items; any entry but 0 makes the item one of theirs, and negative entries are
    refused. In ``from_events`` a weight therefore only says whether an event counts (above 0) or not (0).

    >>> people = Coverage([[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    >>> round(people.value([0]), 3), round(people.value([0, 1]), 3)
    (0.333, 0.667)
    >>> people[1].gains([0])
    array([0., 1., 0.])
    """

    _dense, _weighted = False, False

    def __init__(self, matrix: Any, *, labels: Iterable[Any] | None = None) -> None:
        self._setup(checked("matrix", matrix, dense=False, ones=True), FAMILY_BOUND, labels)

    def _kind(self) -> Kind:
        return COVER

    def _largest(self) -> Floats:
        return constant(1.0, len(self))


class ProbabilisticCoverage(RowPopulation):
    """f(S) = 1 - product over S of (1 - p_j): the chance that the person takes any of the items shown.

    ``matrix``: people x items with probabilities in [0, 1]; this is the product display that opens paper 000.
    Of several events of one person with one item the largest probability counts.

    >>> people = ProbabilisticCoverage([[0.5, 0.5, 0.0]])
    >>> people.value([0, 1])
    0.75
    >>> people.multilinear([1.0, 0.5, 0.0])
    0.625
    """

    _highest = 1.0

    def __init__(self, matrix: Any, *, labels: Iterable[Any] | None = None) -> None:
        super().__init__(matrix, bound=FAMILY_BOUND, labels=labels)

    def _kind(self) -> Kind:
        return SURVIVE

    def _largest(self) -> Floats:
        return constant(1.0, len(self))
