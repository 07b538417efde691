"""Weighted topics: items cover topics, people weight topics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .base import Floats, Items, Population
from .rows.matrices import SparseMatrix, as_sparse, checked
from .rows.people import RowState, row_totals
from .rows.table import SURVIVE, Rows
from .rows.topic_steps import TopicSteps, weight_steps
from .state import State

if TYPE_CHECKING:
    from ..data.store import Store
    from .stored.topics import StoredTopics


class WeightedTopics(Population):
    """f(S) = sum over topics of the person's weight x the chance that some item of S covers the topic.

    ``weights``: people x topics, nonnegative, private. ``covers``: items x topics, public, with the
    probability (or 0 and 1) that an item covers a topic. ``bound``: a public bound of a person's total
    weight, 1 unless declared.

    The people enter only through the sums of their weights, so every question costs as much as for one
    person. Choosers count in whole steps (`TopicSteps`); of an item that covers more than 2,047 topics they
    take averages in floating point.

    >>> covers = [[1, 0], [0, 1], [1, 1]]                # three items, two topics
    >>> people = WeightedTopics([[0.25, 0.75], [0.5, 0.0]], covers)
    >>> people.value([0]), people.value([1]), people.value([2])
    (0.375, 0.375, 0.75)
    """

    built_in = True

    def __init__(
        self, weights: Any, covers: Any, *, bound: float | None = None, labels: Iterable[Any] | None = None
    ) -> None:
        self._weights = checked("weights", weights)
        covered = as_sparse(checked("covers", covers, high=1.0, dense=False))
        if covered.n_columns != self._weights.shape[1]:
            raise ValueError(
                f"covers has {covered.n_columns} topics (columns), weights has {self._weights.shape[1]}; "
                "both must have one column per topic"
            )
        self.n_items = covered.n_rows
        # Topics x items: the topics are the rows of the engine, each with the share its weight gives it.
        self._topics = covered.by_column
        self._name_items(labels)
        self._declare(bound)

    @classmethod
    def from_store(
        cls,
        store: Store,
        covers: Any,
        engine: Any = "threads",
        *,
        bound: float | None = None,
        labels: Iterable[Any] | None = None,
    ) -> StoredTopics:
        """The people of a store (`data.prepare`) whose items are the topics; ``covers`` as ever.

        ``engine`` as in ``from_store`` of people as rows. A store without weights weights each topic by 1.
        One pass over the store sums up the weights; what is chosen needs no further one.
        """
        from .stored.topics import StoredTopics

        return StoredTopics(store, covers, engine, bound, labels)

    def __len__(self) -> int:
        return int(self._weights.shape[0])

    def row_source(self) -> TopicSteps | None:
        return self._source

    @cached_property
    def _source(self) -> TopicSteps | None:
        totals = partial(weight_steps, as_sparse(self._weights))
        return TopicSteps(self._topics, totals) if TopicSteps.fits(self._topics) else None

    def start(self) -> State:
        return RowState(self, self._rows, 1)

    @cached_property
    def _rows(self) -> Rows:
        n_topics = int(self._weights.shape[1])
        if isinstance(self._weights, SparseMatrix):
            total = np.bincount(self._weights.indices, self._weights.data, minlength=n_topics)
        else:
            total = self._weights.sum(axis=0)
        return Rows(SURVIVE, self._topics, total / len(self), np.full(n_topics, np.inf))

    def _value(self, items: Items) -> float:
        return float(self._chain(items).sum())

    def _gains(self, items: Items) -> Floats:
        state = self._rows.fresh()
        self._rows.chain(items, state)
        return self._rows.gains(state)

    def _chain(self, order: Items) -> Floats:
        return self._rows.chain(order, self._rows.fresh())

    def _contributions(self, items: Items) -> Floats:
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        return self._rows.multilinear(corner)[1][items]

    def _extension(self, x: Floats) -> tuple[float, Floats]:
        return self._rows.multilinear(x)

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        for known in ("_rows", "_source"):
            taken.__dict__.pop(known, None)
        taken._weights = (
            self._weights.take(rows) if isinstance(self._weights, SparseMatrix) else self._weights[rows]
        )
        return taken

    def _largest(self) -> Floats:
        return row_totals(self._weights)

    def _additions(self) -> int:
        return super()._additions() + int(self._weights.shape[1])

    def _most_items(self) -> int:
        import scipy.sparse as sp

        wanted, topics = as_sparse(self._weights), self._topics
        ones = [np.ones(m.data.size) for m in (wanted, topics)]
        touched = sp.csr_array((ones[0], wanted.indices, wanted.indptr), shape=wanted.shape) @ sp.csr_array(
            (ones[1], topics.indices, topics.indptr), shape=topics.shape
        )
        return int(np.diff(touched.indptr).max())
