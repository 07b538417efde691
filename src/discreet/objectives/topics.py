"""Weighted topics: items cover topics, people weight topics, and enter through the sums of their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from .base import Floats, Items, Population, State
from .matrices import SparseMatrix, as_sparse, checked, chunks
from .rows import SURVIVE, Rows, RowState, row_totals

if TYPE_CHECKING:
    from ..data.store import Store
    from .stored import StoredTopics

Steps = NDArray[np.int64]
# Of a topic an item covers this many parts of 2^30, as a whole number.
_BITS = 30
_WHOLE = 1 << _BITS
# Weights are counted in parts of a step, so that rounding many of them loses no step.
_FINE = 8
# Sums of weights, below 2^61, are multiplied in three pieces; this many products stay below 2^63.
_PIECE = 22
_MOST_TOPICS = (1 << 11) - 1
# (per_unit, most): sums over people of each topic's weight in steps, of which a person has at most ``most``.
Totals = Callable[[float, int], Steps]


def weight_steps(weights: SparseMatrix, per_unit: float, most: int) -> Steps:
    """The sum over rows of their weights in whole steps, of which a row has at most ``most`` in all.

    Each weight is rounded down; beyond ``most`` what comes last in the row is cut off.

    >>> rows = SparseMatrix(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.array([0.5, 0.75, 1.0]), 2)
    >>> weight_steps(rows, 8.0, 9).tolist()
    [4, 13]
    """
    out = np.zeros(weights.n_columns, dtype=np.int64)
    for start, stop in chunks(weights.indptr):
        part = weights.chunk(start, stop)
        steps = np.minimum(np.floor(part.data * per_unit), float(most)).astype(np.int64)
        sums = np.concatenate(([0], np.cumsum(steps)))
        before = np.minimum(sums[:-1] - sums[part.indptr[part.row_of]], most)
        np.add.at(out, part.indices, np.minimum(before + steps, most) - before)
    return out


class TopicSteps:
    """Rows to be summed up in whole steps (`StepSource`), where people weight topics that items cover.

    Formal guarantee. A person has a weight of at most ``most`` steps over all topics, in whole parts of a
    step. What an item adds to a topic is a public whole number of parts of 2^30, and over all chosen items a
    topic has 2^30 of them. A score is the sum over topics of their products, rounded down to steps once: with
    d, at most ``most``, for the person's own part of it, the score moves by floor(x + d) - floor(x), where x
    is what the others make of it. That is at least 0, below d + 1, and at most ``most``, which is whole. Over
    the picks the d of a person add up to their weight at most, and each pick rounds by less than 1: so
    ``growing`` leaves everybody as many steps fewer as there are items, and all picks together move by at
    most ``most``. `tests/stored/test_topics.py` enumerates it.
    """

    def __init__(self, covers: SparseMatrix, totals: Totals, share: float = 1.0) -> None:
        self._covers, self._totals, self._share = covers, totals, share  # covers: topics x items
        self._by_item = covers.by_column
        self._known: dict[tuple[float, int], Steps] = {}

    @staticmethod
    def fits(covers: SparseMatrix) -> bool:
        """Whether no item (a column) covers more topics than can be summed up exactly."""
        return int(np.bincount(covers.indices, minlength=1).max()) <= _MOST_TOPICS

    def scaled(self, factor: float) -> TopicSteps:
        """The same, each person's weights times ``factor``."""
        return TopicSteps(self._covers, self._totals, factor * self._share)

    def growing(self, most: float, per_unit: float) -> GrowingTopics:
        """The empty set."""
        spared = max(int(most) - self._by_item.n_rows, 0)
        return GrowingTopics(self, self._weights(per_unit, spared))

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """The multilinear gradient at ``x``: in closed form, so that nothing is sampled."""
        del seed, samples
        topics, items = self._entries
        stays = 1.0 - x[items] * self._by_item.data  # the chance that an item leaves the topic uncovered
        none, product = np.zeros(self._covers.n_rows), np.ones(self._covers.n_rows)
        np.add.at(none, topics, stays == 0.0)
        np.multiply.at(product, topics, np.where(stays == 0.0, 1.0, stays))
        others = np.where(stays == 0.0, none[topics] == 1.0, none[topics] == 0.0)
        apart = others * product[topics] / np.where(stays == 0.0, 1.0, stays)
        parts = np.minimum(np.floor(apart * self._by_item.data * _WHOLE), float(_WHOLE)).astype(np.int64)
        return self.summed(self._weights(per_unit, most), parts)

    @property
    def _entries(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The topic and the item of each pair of them, by item."""
        return self._by_item.indices, self._by_item.row_of

    def fresh(self) -> tuple[Floats, Steps]:
        """For each topic the chance that nothing covers it, and the parts that are left to be covered."""
        return np.ones(self._covers.n_rows), np.full(self._covers.n_rows, _WHOLE)

    def parts(self, uncovered: Floats, left: Steps) -> Steps:
        """What each item would cover of each of its topics."""
        topics, _ = self._entries
        wanted = np.floor(uncovered[topics] * self._by_item.data * _WHOLE).astype(np.int64)
        return np.asarray(np.minimum(wanted, left[topics]), dtype=np.int64)

    def choose(self, item: int, uncovered: Floats, left: Steps) -> None:
        """An item is chosen: both arrays of `fresh` move."""
        here = slice(int(self._by_item.indptr[item]), int(self._by_item.indptr[item + 1]))
        topics = self._by_item.indices[here]
        left[topics] -= self.parts(uncovered, left)[here]
        uncovered[topics] *= 1.0 - self._by_item.data[here]

    def summed(self, weights: Steps, parts: Steps) -> Steps:
        """For each item the sum of weights times parts, rounded down to steps; exactly, in pieces."""
        topics, ends, rest = self._by_item.indices, self._by_item.indptr, (1 << _PIECE) - 1
        pieces = []
        for shift in (0, _PIECE, 2 * _PIECE):
            piece = (weights >> shift) & (rest if shift < 2 * _PIECE else -1)
            sums = np.concatenate(([0], np.cumsum(piece[topics] * parts)))  # modulo 2^64; differences fit
            pieces.append(sums[ends[1:]] - sums[ends[:-1]])
        low, middle, high = pieces
        middle += low >> _PIECE
        high += middle >> _PIECE
        below = ((middle & rest) << _PIECE) | (low & rest)
        unit = _BITS + _FINE  # bits of a step
        return np.asarray((high << (2 * _PIECE - unit)) + (below >> unit), dtype=np.int64)

    def _weights(self, per_unit: float, most: int) -> Steps:
        asked = per_unit * self._share * (1 << _FINE), most << _FINE
        if asked not in self._known:
            self._known[asked] = self._totals(*asked)
        return self._known[asked]


class GrowingTopics:
    """A growing set over topics: public numbers for each topic, and the sums of weights."""

    def __init__(self, source: TopicSteps, weights: Steps) -> None:
        self._source, self._weights = source, weights
        self._uncovered, self._left = source.fresh()
        self._now = np.zeros(0, dtype=np.int64)

    def begin(self, sums: Floats) -> None:
        self._now = self._scores()
        sums += self._now

    def choose(self, item: int, sums: Floats) -> None:
        self._source.choose(item, self._uncovered, self._left)
        before, self._now = self._now, self._scores()
        sums += self._now - before

    def _scores(self) -> Steps:
        return self._source.summed(self._weights, self._source.parts(self._uncovered, self._left))


class WeightedTopics(Population):
    """f(S) = sum over topics of the person's weight x the chance that some item of S covers the topic.

    ``weights``: people x topics, nonnegative, private. ``covers``: items x topics, public, with the
    probability (or 0 and 1) that an item covers a topic. ``bound``: a public bound of a person's total
    weight, 1 unless declared.

    The people enter only through the sums of their weights, so every question costs as much as for one
    person. Selectors count in whole steps (`TopicSteps`); of an item that covers more than 2,047 topics they
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
        from .stored import StoredTopics

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
