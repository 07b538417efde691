"""Families with one row per person: people x items in one array, dense or sparse."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...core.checks import whole
from ...privacy.coins import public_key
from ..base import FAMILY_BOUND, Floats, Items, Population
from ..state import State
from .functions import FunctionState
from .identities import Words, digests, keyed, mixed
from .matrices import SparseMatrix, checked, column_sums, constant, filled, stretches
from .table import CAP, Kind, Rows

if TYPE_CHECKING:
    from ...data import Events, Store
    from ...privacy import Coins, Seed
    from ..arrays.dense import ArrayPopulation
    from ..stored.people import StoredPopulation

# At most so many entries, and so many rows, are handed to a compiled loop over a stream at a time.
RUN = 1 << 19
# Sums that have lost this much of their size are summed afresh.
_WORN = 1e-6
_ONE, _NO_CAP = filled(1.0, 1), filled(np.inf, 1)


class RowPopulation(Population):
    """One row of a people x items matrix per person.

    ``indptr``, ``indices`` and ``data`` are the matrix in compressed sparse rows: person i touches the items
    ``indices[indptr[i]:indptr[i+1]]``, sorted, with the weights in ``data``. They cannot be written to.
    """

    # The largest entry that the family can make sense of.
    _highest: ClassVar[float] = np.inf
    _dense: ClassVar[bool] = True
    # Whether weights count, or only which items there are.
    _weighted: ClassVar[bool] = True
    # What the constructor calls the matrix.
    _argument: ClassVar[str] = "matrix"
    # Of who each row is, where that is known.
    _digests: Words | None = None

    def __init__(
        self, matrix: Any, *, bound: float | None = None, labels: Iterable[Any] | None = None
    ) -> None:
        self._setup(checked(self._argument, matrix, high=self._highest, dense=self._dense), bound, labels)

    def _setup(
        self, matrix: SparseMatrix | Floats, bound: float | None, labels: Iterable[Any] | None
    ) -> None:
        self.n_items = int(matrix.shape[1])
        kind, caps = self._kind(), self._caps(matrix)
        if kind is CAP:
            # No weight counts beyond the cap, and sums of smaller numbers keep more digits.
            clip(matrix, caps)
        self._rows = Rows(kind, matrix, constant(1.0, caps.size), caps)
        self.built_in = kind.code >= 0
        self._name_items(labels)
        self._declare(bound)

    def _kind(self) -> Kind:
        raise NotImplementedError

    def _caps(self, matrix: SparseMatrix | Floats) -> Floats:
        return constant(np.inf, int(matrix.shape[0]))

    def _cap_rule(self) -> tuple[float, float]:
        """The cap of every row, and the share of its weights that is the cap instead (0: it is not)."""
        return np.inf, 0.0

    @classmethod
    def of_row(cls, n_items: int, items: NDArray[Any], weights: Floats | None = None) -> Self:
        """One person, of rising item numbers and their weights (1 each), which have been checked.

        For families whose values lie in [0, 1] whatever the weights are.
        """
        one = object.__new__(cls)
        data = filled(1.0, items.size) if weights is None else weights
        one._be(one._kind(), n_items, items.astype(np.int32, copy=False), data, _NO_CAP, FAMILY_BOUND)
        return one

    def _be(
        self, kind: Kind, n_items: int, items: NDArray[np.int32], data: Floats, cap: Floats, bound: float
    ) -> None:
        """Be one person."""
        cap.setflags(write=False)
        rows = Rows.of_row(kind, SparseMatrix.of_row(items, data, n_items), _ONE, cap)
        self.__dict__.update(n_items=n_items, built_in=True, _declared=bound, _rows=rows, _fixed=True)

    @classmethod
    def from_matrix(cls, matrix: Any, labels: Iterable[Any] | None = None, **options: Any) -> Self:
        """From people x items, a dense array or a scipy sparse matrix; ``options`` as in the constructor."""
        return cls(matrix, labels=labels, **options)

    @classmethod
    def from_events(
        cls,
        events: Any,
        *,
        person: str,
        item: str,
        weight: str | None = None,
        items: Iterable[Any] | str | os.PathLike[str] | None = None,
        people: Iterable[Any] | None = None,
        unknown_items: str = "error",
        separator: str | None = None,
        columns: Sequence[str] | None = None,
        items_columns: Sequence[str] | None = None,
        items_item: str | None = None,
        **options: Any,
    ) -> Self:
        """From a table of events, one row per (person, item), with an optional weight.

        ``events``: a pandas or polars frame, an Arrow table, a dict of columns, the path of a CSV (also
        packed: .gz, .zst), Parquet or Feather file, a pattern, a folder or a list of such paths, or rows that
        are mappings, one after the other. ``separator`` is what stands between columns of text, unless it is
        to be found out from the header, and ``columns`` their names where there is none. People stand in the
        order of their first event; of a person's events with one item the largest weight counts. ``labels``
        holds the items: the catalogue ``items`` in its own order (a list, or the path of a file with the
        column ``item``, or ``items_item`` if it is called otherwise there; without a header,
        ``items_columns`` are its columns), or else the items that occur, sorted.

        Give a catalogue where the result is to be private: a public list, or one that
        `discreet.data.private_catalogue` has chosen. Which items occur at all is a fact about the people:
        without a catalogue every account about them is marked as conditional on the list of items (see
        ``catalogue``). ``unknown_items`` says whether an event outside a public catalogue is an ``"error"``
        or is left out (``"drop"``); outside a private one it always is. 7 and "7" are the same there, since a
        column may be read as either. ``people`` lists everybody, in order, so that those without events count
        as well.
        """
        from ...data import read_events

        found = read_events(
            events,
            person=person,
            item=item,
            weight=weight,
            items=items,
            people=people,
            unknown_items=unknown_items,
            highest=cls._highest,
            separator=separator,
            columns=columns,
            items_columns=items_columns,
            items_item=items_item,
        )
        return cls.of_events(found, **options)

    @classmethod
    def of_events(cls, found: Events, **options: Any) -> Self:
        """People as `discreet.data.read_events` has found them; ``options`` as in the constructor."""
        matrix = SparseMatrix(found.indptr, found.indices, found.weights, len(found.items))
        made = cls(matrix, labels=found.items, **options).with_identities(found.people)
        return made._like(catalogue=found.catalogue)

    @classmethod
    def from_array(
        cls, array: Any, *, backend: Any = None, tile: int | None = None, **options: Any
    ) -> ArrayPopulation:
        """From a dense people x items array of any library, which stays on its device.

        ``backend``: ``"numpy"``, ``"cupy"``, ``"torch"``, or None for the array's own. ``tile``: so many
        people are worked on at a time. ``options`` as in the constructor. Every chooser takes these people;
        sums over them are in whole numbers.
        """
        from ..arrays.dense import ArrayPopulation

        return ArrayPopulation(array, cls, options, backend, tile)

    @classmethod
    def from_store(cls, store: Store, engine: Any = "threads", **options: Any) -> StoredPopulation:
        """The people of a store (`data.prepare`), who stay on disk; ``options`` as in the constructor.

        ``engine``: ``"threads"`` goes through the store with all processors of this machine; a Dask
        ``Client`` with the workers of a cluster, which must see the store under the same path. Every chooser
        takes these people, and finds the same scores as in memory, bit for bit. A weight counts as
        in ``from_events``; without weights every item counts 1.
        """
        from ..stored.people import StoredPopulation

        return StoredPopulation(store, engine, cls, options)

    @property
    def n_entries(self) -> int:
        """How many (person, item) pairs there are."""
        return int(self._rows.sparse.indices.size)

    @property
    def indptr(self) -> NDArray[np.int64]:
        return self._rows.sparse.indptr

    @property
    def indices(self) -> NDArray[np.int32]:
        return self._rows.sparse.indices

    @property
    def data(self) -> Floats:
        return self._rows.sparse.data

    def with_identities(self, names: Iterable[Any]) -> Self:
        """The same people, told apart by ``names``, one for each row, as `cap_items` wants it.

        Only a 64-bit digest of each name is kept. ``from_events`` does this by itself.
        """
        found = digests(names)
        if found.size != len(self):
            raise ValueError("names must have one entry for each person, in the order of the rows")
        named = self._like()
        named._digests = found
        return named

    def cap_items(self, m: int, seed: Seed | Coins | np.random.Generator = None) -> Self:
        """The same people, each with at most ``m`` of their items; any m of them are as likely to stay.

        Which ones stay is decided by a keyed hash of the person: of their identity where they have one
        (``from_events``, ``with_identities``), of their own row where not, so that equal rows without
        identities keep equal items. It does not depend on where the row stands or on who else is there:
        somebody who comes, goes or is exchanged changes their own items only, m entries of the gains (2 m
        when exchanged). That is true for each key by itself, so the key may be known: ``seed`` is None for a
        fresh one, or a number, a generator or a source for one that can be had again, chosen without looking
        at the people. ``items_per_person`` remembers the cap.
        """
        return self.cap_items_by(m, self._coins(public_key(seed, 2)))

    def cap_items_by(self, m: int, coins: NDArray[np.uint64]) -> Self:
        """`cap_items` with a given 64-bit coin for each row: the ``m`` items that it hashes lowest stay.

        This is safe where a row's coin does not depend on other people: not on who they are, and not on
        whether they are there. Coins by row number, if known, are not safe where rows move up to fill the
        place of somebody who has gone.
        """
        cap = whole("m", m, at_least=1)
        full = self._rows.sparse
        if not isinstance(coins, np.ndarray) or coins.shape != (full.n_rows,) or coins.dtype != np.uint64:
            raise ValueError("coins must be an array of one unsigned 64-bit number for each row")
        mask = np.zeros(full.data.size, dtype=np.bool_)
        for start, stop in stretches(full.indptr):
            part = full.stretch(start, stop)
            order = np.lexsort((_by_item(coins[start:stop][part.row_of], part.indices), part.row_of))
            place = np.arange(order.size) - part.indptr[part.row_of]
            mask[full.indptr[start] + order[place < cap]] = True
        capped = self._like(items_per_person=min(cap, self.n_items, self.items_per_person or cap))
        capped._rows = Rows(self._rows.kind, full.keep(mask), self._rows.share, self._rows.cap)
        return capped

    def _coins(self, key: Words) -> Words:
        """A coin for each person, made of the key and of that person."""
        if self._digests is not None:
            return keyed(self._digests, key)
        full = self._rows.sparse
        entries = _by_item(keyed(np.ascontiguousarray(full.data).view(np.uint64), key), full.indices)
        # Whole numbers modulo 2^64: what the rows before have added is taken off exactly.
        totals = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)))
        return keyed(totals[full.indptr[1:]] - totals[full.indptr[:-1]], key)

    def as_rows(self) -> Rows | None:
        return self._rows if self._rows.kind.code >= 0 else None

    def stretches(self, count: int) -> list[slice]:
        """The first ``count`` people, cut into the pieces in which compiled loops want them."""
        if not self._rows.compact:
            return [slice(0, count)]
        return [slice(*ends) for ends in stretches(self._rows.sparse.indptr, count, RUN)]

    def stretch(self, here: slice) -> Self:
        """One of these pieces."""
        some = self._like()
        some._rows = self._rows.stretch(here.start, here.stop)
        if self._digests is not None:
            some._digests = self._digests[here]
        return some

    def __len__(self) -> int:
        return self._rows.n_rows

    def start(self) -> State:
        if self._rows.kind.code < 0 and len(self) == 1:
            return FunctionState(self, self._rows)
        return RowState(self, self._rows, len(self))

    def _value(self, items: Items) -> float:
        return float(self._rows.chain(items, self._rows.fresh()).sum()) / len(self)

    def _gains(self, items: Items) -> Floats:
        state = self._rows.fresh()
        self._rows.chain(items, state)
        return self._rows.gains(state) / len(self)

    def _chain(self, order: Items) -> Floats:
        return self._rows.chain(order, self._rows.fresh()) / len(self)

    def _contributions(self, items: Items) -> Floats:
        if self._rows.kind.of_sums:
            state = self._rows.fresh()
            self._rows.chain(items, state)
            return self._rows.contributions(items, state) / len(self)
        # f(S) - f(S without j) is the gradient of the multilinear extension at the corner S.
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        return self._rows.multilinear(corner)[1][items] / len(self)

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        if not self._rows.exact_extension:
            return super()._extension(x)
        value, gradient = self._rows.multilinear(x)
        return value / len(self), gradient / len(self)

    def _most_items(self) -> int:
        return int(np.diff(self._rows.sparse.indptr).max())

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken._rows = self._rows.take(rows)
        if self._digests is not None:
            taken._digests = self._digests[rows]
        return taken

    def _one(self, i: int) -> Self:
        one = self._like()
        one._rows = self._rows.row(i)
        if self._digests is not None:
            one._digests = self._digests[i : i + 1]
        return one


class KeptRow(RowPopulation):
    """One person's row of any kind, as it was kept: the function without the family's name."""

    @classmethod
    def kept(
        cls, kind: Kind, n_items: int, items: NDArray[np.int32], data: Floats, cap: Floats, bound: float
    ) -> KeptRow:
        """A row that was checked before."""
        one = object.__new__(cls)
        one._be(kind, n_items, items, data, cap, bound)
        return one

    def _kind(self) -> Kind:
        return self._rows.kind

    def _largest(self) -> Floats:
        return np.full(len(self), self.bound)


class RowState(State):
    """A growing set over rows: an addition touches only the rows that hold the item."""

    def __init__(self, people: Population, rows: Rows, divisor: int) -> None:
        self._people = people
        self._rows = rows
        self._divisor = divisor
        self.items = []
        self.value = 0.0
        self._state = rows.fresh()
        self._sums = rows.gains(self._state)
        self._summed = float(self._sums.max())

    def gains(self) -> Floats:
        # Differences of sums may leave a rounding error below zero; every family here is monotone.
        now = np.maximum(self._sums, 0.0)
        now[self.items] = 0.0
        now /= self._divisor
        return now

    def _grow(self, item: int) -> float:
        added = self._rows.add(item, self._state, self._sums) / self._divisor
        left = float(self._sums.max())
        if left < _WORN * self._summed:
            # What is left of sums that were a million times larger may be nothing but their rounding.
            self._sums = self._rows.gains(self._state)
            self._summed = float(self._sums.max())
        return added


def _by_item(words: Words, items: NDArray[np.int32]) -> Words:
    """A well-mixed number for each (word, item)."""
    return mixed(words + (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def clip(matrix: SparseMatrix | Floats, caps: Floats) -> None:
    """Leave no entry above its row's cap, in a matrix that nobody else has seen yet."""
    if not isinstance(matrix, SparseMatrix):
        np.minimum(matrix, caps[:, None], out=matrix)
        return
    matrix.data.setflags(write=True)
    for start, stop in stretches(matrix.indptr):
        here = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
        most = np.repeat(caps[start:stop], np.diff(matrix.indptr[start : stop + 1]))
        np.minimum(matrix.data[here], most, out=matrix.data[here])
    matrix.data.setflags(write=False)


def row_totals(matrix: SparseMatrix | Floats) -> Floats:
    """The sum of each row."""
    if not isinstance(matrix, SparseMatrix):
        return np.asarray(matrix.sum(axis=1), dtype=np.float64)
    totals = np.empty(matrix.n_rows)
    for start, stop in stretches(matrix.indptr):
        part = matrix.stretch(start, stop)
        totals[start:stop] = column_sums(part.row_of, part.data, stop - start)
    return totals


def largest_totals(matrix: SparseMatrix | Floats, most: int) -> Floats:
    """The sum of the ``most`` largest entries of each row."""
    if not isinstance(matrix, SparseMatrix):
        top = np.partition(matrix, -most, axis=1)[:, -most:] if most < matrix.shape[1] else matrix
        return np.asarray(top.sum(axis=1), dtype=np.float64)
    totals = np.empty(matrix.n_rows)
    for start, stop in stretches(matrix.indptr):
        part = matrix.stretch(start, stop)
        order = np.lexsort((-part.data, part.row_of))
        kept = order[np.arange(order.size) - part.indptr[part.row_of] < most]
        totals[start:stop] = column_sums(part.row_of[kept], part.data[kept], stop - start)
    return totals


def row_maxima(matrix: SparseMatrix | Floats) -> Floats:
    """The largest entry of each row; 0 for a row without entries."""
    if not isinstance(matrix, SparseMatrix):
        return np.asarray(matrix.max(axis=1), dtype=np.float64)
    best = np.zeros(matrix.n_rows)
    for start, stop in stretches(matrix.indptr):
        part = matrix.stretch(start, stop)
        some = np.flatnonzero(np.diff(part.indptr))
        if some.size:
            best[start + some] = np.maximum.reduceat(part.data, part.indptr[some])
    return best
