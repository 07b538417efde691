"""Populations that live in a store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ...core.checks import DataError, instance, whole
from ...data.store import MOST_BUCKETS, Store
from ...kernels.rows import ENUMERABLE
from ..base import Floats, Items, Population
from ..fixed_point import step
from ..matrices import SparseMatrix
from .engines import engine_of
from .rows import StoredRows
from .scans import Counted, Extent, Sample, Shape

if TYPE_CHECKING:
    from ...privacy import Release
    from ..rows import RowPopulation


class StoredPopulation(Population):
    """The people of a store, as functions of one family; made by ``from_store`` of the family.

    Scores come from passes over the store's buckets, by threads or by the workers of a Dask cluster
    (``engine``), in whole steps: the numbers are those of the same people in memory, bit for bit, whatever
    the number and the order of buckets. Nothing about anybody is kept in memory. ``value`` and ``gains`` are
    in whole steps too: for each chosen item they may be lower than in memory by one step, which is 2^-40 of
    the bound for few people and 2^-25 for 10^8 of them.

    Formal guarantee. As for the family: a person is one row of one bucket, which is checked for every row
    when a bucket is opened, and each person's part of each score lies in [0, bound]. A scan is a pure
    function of the rows and of what was chosen before; a scan that is done again, by another worker or twice,
    gives the same numbers and releases nothing. Secret samples go by a coin for each person's key under a
    secret of the run (SipHash-2-4), never by places or by who counts.

    ``people[rows]`` and ``batches`` are populations in memory, ``people[rows]`` in the order of buckets and
    keys.
    """

    built_in = True
    stored = True

    def __init__(
        self, store: Store, engine: Any, family: type[RowPopulation], options: Mapping[str, Any]
    ) -> None:
        instance("store", store, Store, 'Store.open("people/")')
        self._store, self._family, self._options = store, family, dict(options)
        if not store.n_people:
            raise DataError("the store holds nobody; a population needs at least one person")
        self.n_items, self.catalogue = store.n_items, store.catalogue
        _check_family(family, options)
        like = family(_row_of(store.n_items), **options)
        kind, (cap, saturation) = like._rows.kind, like._cap_rule()
        if saturation and like.at_most is not None:
            raise ValueError(
                "at_most= of SaturatedCoverage is for people in memory; declare a bound= of all sets"
            )
        if kind.code < 0:
            raise ValueError("concave= is a function, which cannot be asked of a store; use a named one")
        self._name_items(store.labels)
        self._shape = Shape(kind.code, family._weighted and store.weighted, cap, saturation)
        self._rows = StoredRows(engine_of(store, engine), self._shape, self.n_items)
        self._longest, self._reach = self._held()
        self.at_most = like.at_most
        self._declared = like.bound_of(like.at_most or self.n_items)
        if store.cap is not None:
            self.items_per_person = min(store.cap, self.n_items)

    def _held(self) -> tuple[int, float]:
        """The most items of a person, and the highest value; weights and values keep to the family's limits.

        A function of one item with all of a person's weight is as high as any of theirs, and so is one with
        the largest weight where that alone counts.
        """
        longest, total, largest, wrong = self._rows.total(Extent(self._shape.weighted)).tolist()
        most = self._options.get("at_most")
        total = total if most is None else min(total, most * largest)
        if wrong:
            raise DataError("the store has a weight that is no positive finite number")
        reach = 0.0
        for weight in (largest, total) if self._shape.kind.of_sums else (largest,):
            one = self._family(_row_of(1, weight), **self._options)
            reach = max(reach, float(one._largest()[0]) if one.bound_of(1) else 0.0)
        return int(longest), reach

    @property
    def store(self) -> Store:
        """The store that holds the people."""
        return self._store

    @property
    def n_entries(self) -> int:
        """How many (person, item) pairs there are."""
        return self._store.n_entries

    def row_source(self) -> StoredRows:
        return self._rows

    def sampled(self, release: Release, keep: int) -> Self:
        return self.kept(release.words(2), keep)

    def kept(self, secret: NDArray[np.uint64], keep: int) -> Self:
        """Those whose coin under a secret of two words is below ``keep``."""
        some = self._like()
        some._rows = replace(self._rows, sample=Sample(tuple(secret.tolist()), keep))
        return some

    def counted(
        self, count: Callable[[RowPopulation], NDArray[np.int64]], size: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """The sum over everybody of what ``count`` makes of people in memory: whole numbers of this shape.

        It must be the same for people together as one by one, and travel to where the rows are.
        """
        if self._rows.sample.secret:
            raise ValueError("a sample of a store is not counted so; take everybody")
        made = partial(self._family, **self._options)
        return self._rows.total(Counted(self._shape, self.n_items, made, count, size))

    def batches(self, size: int = 1 << 16) -> Iterator[RowPopulation]:
        """Everybody, at most ``size`` people at a time, in memory: for learners who take one after the other.

        They come in the order of buckets and keys, which is as good as random to whoever lacks the secret.
        """
        most = whole("size", size, at_least=1)
        for number in range(self._store.n_buckets):
            for first in range(0, self._store.people_in(number), most):
                yield self._in_memory(number, first, min(first + most, self._store.people_in(number)))

    def __len__(self) -> int:
        return self._store.n_people

    def __repr__(self) -> str:
        return f"{self._family.__name__}.from_store({self.n_items} items)"

    # -- averages over people, from sums in whole steps ------------------------------------------------------

    @cached_property
    def _steps(self) -> tuple[float, float]:
        """How many steps one person has, and how many there are to 1."""
        bound = self.bound_of(self.at_most or self.n_items)
        per_unit = 1.0 / step(bound, len(self))
        return float(math.floor(bound * per_unit)), per_unit

    def _averages(self, steps: NDArray[np.int64]) -> Floats:
        return np.asarray(steps / self._steps[1] / len(self), dtype=np.float64)

    def _value(self, items: Items) -> float:
        return float(self._averages(self._rows.chain(_numbers(items), *self._steps).sum()))

    def _gains(self, items: Items) -> Floats:
        return self._averages(self._rows.sums(_numbers(items), *self._steps))

    def _chain(self, order: Items) -> Floats:
        return self._averages(self._rows.chain(_numbers(order), *self._steps))

    def _contributions(self, items: Items) -> Floats:
        # f(S) - f(S without j) is the gradient of the multilinear extension at the corner S.
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        most, per_unit = self._steps
        found = self._rows.gradient_steps(corner, per_unit, int(most), seed=0, samples=2)
        return self._averages(found)[items]

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        if self._shape.kind.of_sums and self._longest > ENUMERABLE:
            return super()._extension(x)
        value, gradient = self._rows.extension(x, 2.0 * self.bound * len(self))
        return value / len(self), gradient / len(self)

    def _most_items(self) -> int:
        return self._longest

    def _largest(self) -> Floats:
        return np.array([self._reach])

    def _additions(self) -> int:
        return super()._additions() + MOST_BUCKETS

    # -- people in memory ------------------------------------------------------------------------------------

    def _take(self, rows: Items) -> RowPopulation:  # type: ignore[override]
        return self._family_of(people_at(self._store, self._shape, rows))

    def _in_memory(self, number: int, first: int, last: int) -> RowPopulation:
        return self._family_of(self._shape.matrix(self._store.bucket(number), first, last, self.n_items))

    def _family_of(self, matrix: SparseMatrix) -> RowPopulation:
        made = self._family(matrix, labels=self.labels, **self._options)
        return made._like(catalogue=self.catalogue, items_per_person=self.items_per_person)


def people_at(store: Store, shape: Shape, rows: Items) -> SparseMatrix:
    """The people at these places of the store, in memory; places are in the order of buckets and keys."""
    starts = np.cumsum([0, *(store.people_in(n) for n in range(store.n_buckets))])
    numbers = np.searchsorted(starts, rows, side="right") - 1
    parts: list[SparseMatrix] = []
    places = np.empty(rows.size, dtype=np.int64)
    for number in np.unique(numbers).tolist():
        bucket = store.bucket(number)
        for place in np.flatnonzero(numbers == number).tolist():
            at = int(rows[place] - starts[number])
            places[place] = len(parts)
            parts.append(shape.matrix(bucket, at, at + 1, store.n_items))
    ends = np.concatenate(([0], np.cumsum([part.indices.size for part in parts])))
    indices, data = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data"))
    return SparseMatrix(ends, indices, data, store.n_items).take(places)


def _check_family(family: type[RowPopulation], options: Mapping[str, Any]) -> None:
    from ..rows import RowPopulation

    if np.ndim(options.get("cap") or 0.0):
        raise ValueError("cap= must be one number for everybody: a store has no order to give one to each by")
    if family._caps is not RowPopulation._caps and family._cap_rule is RowPopulation._cap_rule:
        raise ValueError(f"{family.__name__} has caps of its own, of which a store knows nothing")


def _row_of(n_items: int, *weights: float) -> SparseMatrix:
    """One person with these weights for the first items."""
    places = np.arange(len(weights), dtype=np.int32)
    return SparseMatrix(np.array([0, len(weights)]), places, np.array(weights, dtype=np.float64), n_items)


def _numbers(items: Items) -> tuple[int, ...]:
    return tuple(items.tolist())
