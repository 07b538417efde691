"""What is asked of a bucket: pure functions of its rows and of public things, whose answers are added up.

An answer depends on the bucket and on what is asked, on nothing that came before. Asking twice, elsewhere or
in another order gives the same numbers: only whoever adds them up draws anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...data.store import Bucket
from ...kernels.stores import Scan as CompiledScan
from ...kernels.stores import extent, person_coins
from ..base import random_rows
from ..matrices import SparseMatrix, chunks, constant
from ..rows import CAP, KINDS, Kind, Rows, clip, row_totals
from ..topics import weight_steps

Floats = NDArray[np.float64]
_NO_WEIGHTS = np.zeros(0)
_NO_SECRET = np.zeros(0, dtype=np.uint64)
_NO_WEIGHTS.setflags(write=False)
_NO_SECRET.setflags(write=False)
# Rows are copied out of a bucket, where that is needed, so many entries at a time.
_COPIED = 1 << 20


@dataclass(frozen=True)
class Shape:
    """How a row becomes a function: the kind, whether weights count, and the cap of each row.

    A cap is the same for everybody (``cap``), or the share ``saturation`` of the row's weights. ``share`` is
    the factor of the whole.
    """

    code: int
    weighted: bool
    cap: float
    saturation: float
    share: float = 1.0

    @property
    def kind(self) -> Kind:
        return KINDS[self.code]

    def scaled(self, factor: float) -> Shape:
        """The same functions times ``factor``."""
        return replace(self, share=factor * self.share)

    def weights(self, bucket: Bucket) -> Floats:
        """A bucket's weights, none where all are 1."""
        return np.asarray(bucket.weights) if self.weighted and bucket.weights is not None else _NO_WEIGHTS

    def rows(self, bucket: Bucket, first: int, last: int, n_items: int) -> Rows:
        """Some rows of a bucket, in memory, as a population of them would have them."""
        matrix = self.matrix(bucket, first, last, n_items)
        caps = constant(self.cap, matrix.n_rows)
        if self.saturation > 0.0:
            caps = self.saturation * row_totals(matrix)
        if self.kind is CAP:
            clip(matrix, caps)
        return Rows(self.kind, matrix, constant(self.share, matrix.n_rows), caps)

    def matrix(self, bucket: Bucket, first: int, last: int, n_items: int) -> SparseMatrix:
        """The same rows before anything is made of them; a copy."""
        start, stop = int(bucket.ends[first]), int(bucket.ends[last])
        weights = self.weights(bucket)
        return SparseMatrix(
            np.asarray(bucket.ends[first : last + 1]) - start,
            np.asarray(bucket.items[start:stop]).astype(np.int32),
            np.array(weights[start:stop]) if weights.size else np.ones(stop - start),
            n_items,
        )


@dataclass(frozen=True, repr=False)
class Sample:
    """Who counts: everybody, or those whose coin under a secret of two words is below ``keep``."""

    secret: tuple[int, ...] = ()
    keep: int = 0

    @cached_property
    def arguments(self) -> tuple[NDArray[np.uint64], int]:
        if not self.secret:
            return _NO_SECRET, 0
        words = np.array(self.secret, dtype=np.uint64)
        words.setflags(write=False)
        return words, self.keep


EVERYBODY = Sample()


class Scan(Protocol):
    """One question: ``of`` answers it for the rows first..last-1 of a bucket, ``add`` joins two answers."""

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[Any]: ...

    def add(self, total: NDArray[Any], more: NDArray[Any]) -> None: ...


class _Added:
    """Answers that are summed up; nothing of them is shown, as a secret may be among what is asked."""

    def add(self, total: NDArray[Any], more: NDArray[Any]) -> None:
        total += more

    def __repr__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, repr=False)
class _Chosen(_Added):
    """About items that were chosen in this order; one person's part is at most ``most`` steps."""

    shape: Shape
    n_items: int
    chosen: tuple[int, ...]
    most: float
    per_unit: float
    sample: Sample = EVERYBODY

    def _scan(self) -> Any:
        shape = self.shape
        numbers = (shape.kind.fresh, shape.cap, shape.saturation, shape.share, self.most, self.per_unit)
        return CompiledScan(shape.code, self.n_items, self.chosen, numbers, self.sample.arguments)

    def _arrays(self, bucket: Bucket) -> tuple[NDArray[Any], ...]:
        return bucket.ends, bucket.items, self.shape.weights(bucket), bucket.keys


class Sums(_Chosen):
    """What every item would add to the chosen ones, in steps."""

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._scan().sums(*self._arrays(bucket), first, last)
        return found


class Chain(_Chosen):
    """What each chosen item added when it was chosen, in steps."""

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._scan().chain(*self._arrays(bucket), first, last)
        return found


@dataclass(frozen=True, repr=False)
class Change(_Chosen):
    """How `Sums` move when ``item`` is chosen next: only rows that hold it are looked at."""

    item: int = 0

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._scan().change(*self._arrays(bucket), first, last, self.item)
        return found


@dataclass(frozen=True, repr=False)
class GradientSteps(_Added):
    """The multilinear gradient at ``x``, in steps, of which one person has at most ``most`` in each entry."""

    shape: Shape
    x: Floats
    per_unit: float
    most: int
    seed: int
    samples: int

    @cached_property
    def _inside(self) -> NDArray[np.bool_]:
        return random_rows(self.x, self.seed, self.samples if self.shape.kind.of_sums else 0)

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        out = np.zeros(self.x.size, dtype=np.int64)
        for rows in _copied(self.shape, bucket, first, last, self.x.size):
            rows.add_gradients(self.x, self._inside, self.per_unit, self.most, out, 0, rows.n_rows)
        return out


@dataclass(frozen=True, repr=False)
class Extension(_Added):
    """The multilinear extension at ``x`` and, behind it, its gradient.

    In floating point, and then in steps of ``1 / per_unit``: whoever adds up pieces of buckets, and in which
    order, finds the same.
    """

    shape: Shape
    x: Floats
    per_unit: float

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        out = np.zeros(self.x.size + 1)
        for rows in _copied(self.shape, bucket, first, last, self.x.size):
            value, gradient = rows.multilinear(self.x)
            out[0] += value
            out[1:] += gradient
        return np.asarray(np.rint(out * self.per_unit), dtype=np.int64)


@dataclass(frozen=True, repr=False)
class Counted(_Added):
    """What ``count`` makes of people in memory, which ``made`` makes of their rows; of this ``size``."""

    shape: Shape
    n_items: int
    made: Callable[[SparseMatrix], Any]
    count: Callable[[Any], NDArray[np.int64]]
    size: tuple[int, ...]

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        out = np.zeros(self.size, dtype=np.int64)
        for start, stop in _chunks(bucket, first, last):
            out += self.count(self.made(self.shape.matrix(bucket, start, stop, self.n_items)))
        return out


@dataclass(frozen=True, repr=False)
class WeightTotals(_Added):
    """The sum of everybody's weights in steps, of which one person has at most ``most`` over all items."""

    shape: Shape
    n_items: int
    per_unit: float
    most: int
    sample: Sample = EVERYBODY

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[np.int64]:
        out = np.zeros(self.n_items, dtype=np.int64)
        words, keep = self.sample.arguments
        for start, stop in _chunks(bucket, first, last):
            part = self.shape.matrix(bucket, start, stop, self.n_items)
            if words.size:
                coins = person_coins(bucket.keys[start:stop], words)
                part = part.take(np.flatnonzero(coins < np.uint64(keep)))
            out += weight_steps(part, self.per_unit, self.most)
        return out


@dataclass(frozen=True)
class Extent:
    """The most items of a person, the largest total and the largest weight; 1 for a weight that is none."""

    weighted: bool

    def of(self, bucket: Bucket, first: int, last: int) -> Floats:
        weights = np.asarray(bucket.weights) if self.weighted and bucket.weights is not None else _NO_WEIGHTS
        found: Floats = extent(bucket.ends, weights, first, last)
        return found

    def add(self, total: Floats, more: Floats) -> None:
        np.maximum(total, more, out=total)


def _copied(shape: Shape, bucket: Bucket, first: int, last: int, n_items: int) -> Iterator[Rows]:
    for start, stop in _chunks(bucket, first, last):
        yield shape.rows(bucket, start, stop, n_items)


def _chunks(bucket: Bucket, first: int, last: int) -> Iterator[tuple[int, int]]:
    ends = np.asarray(bucket.ends[first : last + 1])
    for start, stop in chunks(ends, _COPIED):
        yield first + start, first + stop
