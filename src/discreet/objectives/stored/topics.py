"""Weighted topics of people who live in a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ...core.checks import DataError, instance, whole
from ...data.store import MOST_BUCKETS, Store
from ..base import Floats, Items
from ..fixed_point import step
from ..matrices import SparseMatrix, as_sparse, checked
from ..rows import SURVIVE, Rows
from ..topics import TopicSteps, WeightedTopics
from .engines import Engine, engine_of
from .people import people_at
from .scans import EVERYBODY, Extent, Sample, Shape, WeightTotals

if TYPE_CHECKING:
    from ...privacy import Release

Steps = NDArray[np.int64]


class StoredTopics(WeightedTopics):
    """The people of a store as `WeightedTopics`; made by ``WeightedTopics.from_store``.

    Scores are those of the same people in memory, bit for bit, as of every family in a store. One pass sums
    up the weights in whole steps; the public ``covers`` stay with whoever chooses.
    """

    stored = True

    def __init__(
        self, store: Store, covers: Any, engine: Any, bound: float | None, labels: Iterable[Any] | None
    ) -> None:
        instance("store", store, Store, 'Store.open("people/")')
        if not store.n_people:
            raise DataError("the store holds nobody; a population needs at least one person")
        covered = as_sparse(checked("covers", covers, high=1.0, dense=False))
        if covered.n_columns != store.n_items:
            raise ValueError(
                f"covers has {covered.n_columns} topics (columns), the store {store.n_items} items; both must"
                " be the topics, in the store's order"
            )
        self._topics = covered.by_column
        if not TopicSteps.fits(self._topics):
            raise ValueError("an item covers more than 2,047 topics; leave out the least of them")
        self._store, self.n_items, self.catalogue = store, covered.n_rows, store.catalogue
        self._shape = Shape(SURVIVE.code, store.weighted, np.inf, 0.0)
        self._engine: Engine = engine_of(store, engine)
        self._sample = EVERYBODY
        longest, total, _, wrong = self._engine.total(Extent(store.weighted)).tolist()
        if wrong:
            raise DataError("the store has a weight that is no positive finite number")
        self._longest, self._reach = int(longest), float(total)
        self._name_items(labels)
        self._declare(bound)

    @property
    def store(self) -> Store:
        """The store that holds the people."""
        return self._store

    def __len__(self) -> int:
        return self._store.n_people

    def __repr__(self) -> str:
        return f"WeightedTopics.from_store({self.n_items} items)"

    def sampled(self, release: Release, keep: int) -> Self:
        return self.kept(release.words(2), keep)

    def kept(self, secret: NDArray[np.uint64], keep: int) -> Self:
        """Those whose coin under a secret of two words is below ``keep``."""
        some = self._like(_sample=Sample(tuple(secret.tolist()), keep))
        for known in ("_rows", "_source"):
            some.__dict__.pop(known, None)
        return some

    def batches(self, size: int = 1 << 16) -> Iterator[WeightedTopics]:
        """Everybody, at most ``size`` people at a time, in memory."""
        most, n_topics = whole("size", size, at_least=1), self._store.n_items
        for number in range(self._store.n_buckets):
            people = self._store.people_in(number)
            for first in range(0, people, most):
                last = min(first + most, people)
                yield self._of(self._shape.matrix(self._store.bucket(number), first, last, n_topics))

    @cached_property
    def _source(self) -> TopicSteps:
        return TopicSteps(self._topics, self._totals)

    def _totals(self, per_unit: float, most: int) -> Steps:
        scan = WeightTotals(self._shape, self._store.n_items, per_unit, most, self._sample)
        return self._engine.total(scan)

    @cached_property
    def _rows(self) -> Rows:
        unit = step(self.bound, len(self))
        share = self._totals(1.0 / unit, int(self.bound / unit)) * unit / len(self)
        return Rows(SURVIVE, self._topics, share, np.full(share.size, np.inf))

    def _take(self, rows: Items) -> WeightedTopics:  # type: ignore[override]
        return self._of(people_at(self._store, self._shape, rows))

    def _of(self, weights: SparseMatrix) -> WeightedTopics:
        covers = self._topics.by_column
        made = WeightedTopics(weights, covers, bound=self.bound, labels=self.labels)
        return made._like(catalogue=self.catalogue)

    def _largest(self) -> Floats:
        return np.array([self._reach])

    def _additions(self) -> int:
        return len(self) + 2 * self.n_items + 64 + self._store.n_items + MOST_BUCKETS

    def _most_items(self) -> int:
        """No fewer than anybody touches: their number of topics times the most items of one."""
        return min(self.n_items, self._longest * int(np.diff(self._topics.indptr).max(initial=0)))
