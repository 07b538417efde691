"""Facility location over embeddings: similarities are computed when needed and never stored."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.checks import DataError, real, shown, whole
from .arrays import ArrayRows, numbers
from .base import FAMILY_BOUND, Floats, Items, Population
from .devices import NUMPY, Device, device_of, row_sums, slices
from .fixed_point import StepSource
from .rows import BEST, Rows, constant

Steps = NDArray[np.int64]

# With at least this many steps to a unit of similarity, their number is rounded down to an integer.
_FINE = 1 << 16
_HELD = 1 << 24  # similarities in memory at a time, for gradients
_GATHERED = 1 << 28  # bytes of embeddings that are gathered at a time
_MOST_SHIFT = 30


@dataclass(frozen=True, repr=False)
class Similarities:
    """max(0, product) of each person's and each item's integers, at most ``cap``, in units of ``unit``.

    ``people`` and ``items`` are arrays of bytes on ``device``. ``share`` is a factor of the functions.
    """

    device: Device
    people: Any
    items: Any
    cap: int
    unit: float
    tile: tuple[int, int]
    share: float = 1.0

    @property
    def n_rows(self) -> int:
        return int(self.people.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.items.shape[0])

    @property
    def memory(self) -> int:
        """An upper bound of the bytes that a pass takes besides the embeddings and its result."""
        return int(self.device.tile_bytes(self.tile, int(self.people.shape[1])))

    def take(self, rows: Any) -> Similarities:
        """The named people, in that order."""
        if isinstance(rows, np.ndarray):
            rows = self.device.array(rows, "int64")
        return replace(self, people=self.device.taken(self.people, rows))

    def scaled(self, factor: float) -> Similarities:
        return replace(self, share=factor * self.share)

    # -- integers --------------------------------------------------------------------------------------------

    def sums(self, low: Any, span: Any, cut: tuple[int, int] | None = None) -> Steps:
        """For each item, the sum over people of its similarity's excess over ``low``, at most ``span``."""
        with self.room():
            found = self.device.product_sums(self.people, self.items, low, span, cut, self.tile)
            return self.device.numpy(found).astype(np.int64, copy=False)

    def of(self, items: NDArray[np.int64]) -> Any:
        """The similarities of everybody with a few items: people x items, on the device."""
        chosen = self.device.taken(self.items, self.device.array(items, "int64"))
        with self.room():
            found = self.device.products(self.people, chosen, self.tile)
            return self.cut(found)

    def cut(self, products: Any) -> Any:
        """Products as similarities: from 0 to the cap."""
        xp = self.device.xp
        nothing, most = xp.zeros_like(products), xp.full_like(products, self.cap)
        return xp.minimum(xp.maximum(products, nothing), most)

    def fresh(self) -> Any:
        """Each person's best similarity so far: none."""
        return self.device.zeros(self.n_rows, "int32")

    def best(self, items: NDArray[np.int64]) -> Any:
        """Each person's best similarity among ``items``."""
        if not items.size:
            return self.fresh()
        return self.device.xp.max(self.of(items), axis=1)

    def total(self, amounts: Any) -> int:
        """The exact sum of everybody's integers."""
        return int(self.device.xp.sum(self.device.cast(amounts, "int64")))

    def room(self) -> Any:
        """A context in which out-of-memory errors name the tile."""
        people, items = self.tile
        return self.device.room_for(
            f"a tile of {people:,} people x {items:,} items ({self.memory / 1e6:,.0f} MB), on top of the"
            f" embeddings; give a smaller tile="
        )

    # -- in steps --------------------------------------------------------------------------------------------

    def growing(self, most: float, per_unit: float) -> GrowingSimilarities:
        return GrowingSimilarities(self, most, per_unit)

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        del seed, samples  # it has a closed form
        total = np.zeros(self.n_items, dtype=np.int64)
        for here in slices(self.n_rows, self.piece(self.n_items)):
            some = replace(self, people=self.people[here, :])
            if self.device is NUMPY:
                (rows,) = some.pieces()
                none = np.zeros((0, x.size), dtype=np.bool_)
                rows.add_gradients(x, none, per_unit, most, total, 0, rows.n_rows)
            else:
                total += some._on_the_device().gradient_steps(x, per_unit, most, 0, 2)
        return total

    def piece(self, n_items: int) -> int:
        """How many people's similarities with this many items may be in memory at a time."""
        return max(1, min(self.tile[0] * self.tile[1], _HELD) // max(1, n_items))

    def _on_the_device(self) -> ArrayRows:
        matrix = self.device.cast(self.of(np.arange(self.n_items)), "float64") * self.unit
        caps = self.device.zeros(self.n_rows, "float64")
        return ArrayRows(
            device=self.device, kind=BEST, matrix=matrix, caps=caps, tile=self.n_rows, share=self.share
        )

    def pieces(self) -> Iterator[Rows]:
        """Everybody's similarities with all items as numbers, few people at a time, in NumPy."""
        everything = np.arange(self.n_items)
        for here in slices(self.n_rows, self.piece(self.n_items)):
            some = replace(self, people=self.people[here, :])
            matrix = self.device.numpy(some.of(everything)) * self.unit
            count = matrix.shape[0]
            yield Rows(BEST, matrix, constant(self.share, count), constant(np.inf, count))

    def steps(self, most: float, per_unit: float) -> tuple[int, int, tuple[int, int] | None]:
        """How similarities convert to steps: the cap, an integer factor, and (factor, shift) or None.

        A similarity s, at most the cap, is factor s steps; or (s factor) >> shift if steps are so coarse that
        a unit of similarity is less than many of them. Either is nondecreasing in s and at most ``most``, so
        the gains of a person's chosen items sum to at most ``most``.
        """
        rate = self.unit * self.share * per_unit
        if rate >= _FINE or (rate >= 1.0 and rate == math.floor(rate)):
            factor = math.floor(rate)
            return min(self.cap, int(most) // factor), factor, None
        shift = _MOST_SHIFT
        factor = math.floor(math.ldexp(rate, shift))  # below 2^46, and the cap is at most 2^30
        if not factor:
            return 0, 1, None
        while shift > 0 and (factor % 2 == 0 or self.cap * factor >= 1 << 62):
            factor, shift = factor // 2, shift - 1
        return min(self.cap, (((int(most) + 1) << shift) - 1) // factor), 1, (factor, shift)


class GrowingSimilarities:
    """A growing set: each person's best similarity; only people whose best changes are processed again.

    One person's part of each sum depends on their own embedding and the chosen items alone; it is an integer
    from 0 to ``most``, and the parts of the chosen items sum to at most ``most``.
    """

    def __init__(self, rows: Similarities, most: float, per_unit: float) -> None:
        cap, self._factor, self._cut = rows.steps(most, per_unit)
        self._rows = replace(rows, cap=cap)
        self._best = rows.fresh()
        self.looked_at = 0  # people, in all passes

    def begin(self, sums: Floats) -> None:
        most = self._rows.device.xp.full_like(self._best, self._rows.cap)
        self._add(self._rows, self._best, most, sums, 1)

    def choose(self, item: int, sums: Floats) -> None:
        with self._rows.room():
            self._choose(item, sums)

    def _choose(self, item: int, sums: Floats) -> None:
        rows, device = self._rows, self._rows.device
        found = rows.of(np.array([item]))[:, 0]
        (places,) = device.xp.nonzero(found > self._best)
        chunk = max(rows.tile[0], _GATHERED // int(rows.people.shape[1]))
        for some_places in slices(int(places.shape[0]), chunk):
            here = places[some_places]
            some = replace(rows, people=device.taken(rows.people, here))
            low = device.taken(self._best, here)
            self._add(some, low, device.taken(found, here) - low, sums, -1)
        self._best = device.xp.maximum(self._best, found)

    def _add(self, rows: Similarities, low: Any, span: Any, sums: Floats, sign: int) -> None:
        self.looked_at += rows.n_rows
        if rows.n_rows:
            sums += sign * self._factor * rows.sums(low, span, self._cut)


# A byte's 1: entries are integer multiples of scale / 128.
_PARTS = 128
_LONGEST = 1 << 16
_NEARLY = 0.05  # lengths this close to 1 pass as 1: rounding to bytes changes them too
# Most similarities that may be in memory for a loop over people.
_FEW = 1 << 18


class EmbeddedFacilityLocation(Population):
    """f(S) = the person's similarity to the item of S that is most like them, and 0 for the empty set.

    ``people``: people x dimensions, private. ``items``: items x dimensions, public. Similarity is the inner
    product, clipped to [0, ``bound``]: the cosine for vectors of length 1. It is computed when needed and
    never stored; people whose best item has not changed are not processed again.

    ``normalize=True`` divides each vector by its own length, so that similarities are cosines (0 for a vector
    of length 0). Squares are added in an order that depends on the number of dimensions alone, so nobody's
    bytes depend on who else is there. Without it and with ``bound=1``, the bound for cosines, there is a
    warning for the first item whose length is not 1. The lengths of people's vectors are private, so there is
    no warning for them; ``bound`` clips the similarities of longer ones all the same.

    Embeddings are integers from -128 to 127 times ``scale`` / 128: given as such in arrays of int8, or
    rounded to them. ``scale`` is public: choose it independently of the people, about as large as the largest
    possible entry; larger ones are clipped. For unit vectors in d dimensions 4 / sqrt(d) is a good choice.

    ``backend``: ``"numpy"``, ``"cupy"``, ``"torch"``, or None to stay on the arrays' device. ``tile``: the
    numbers of people and items that each thread processes at a time; ``working_memory`` is its size in bytes.

    Formal guarantee. All sums are sums of integers, and are the same on every device, in any order, for any
    tile: one person's part of each depends on their own embedding and public data alone, and lies in
    [0, bound]. There is no rounding error to allow for.

    >>> people = EmbeddedFacilityLocation([[3.0, 4.0], [0.0, 0.1]], [[1.0, 0.0], [0.0, 2.0]], normalize=True)
    >>> round(people.value([0]), 2), round(people.value([0, 1]), 2)
    (0.3, 0.89)
    """

    built_in = True

    def __init__(
        self,
        people: Any,
        items: Any,
        *,
        scale: float = 1.0,
        normalize: bool = False,
        bound: float = FAMILY_BOUND,
        labels: Iterable[Any] | None = None,
        backend: Any = None,
        tile: tuple[int, int] | None = None,
    ) -> None:
        device = device_of(backend, people, items)
        public = real("scale", scale, above=0)
        with device.room_for("the embeddings"):
            given = _whole_numbers("people", people, public, device, normalize)
            catalogue = _whole_numbers("items", items, public, device, normalize)
        if given.shape[1] != catalogue.shape[1]:
            raise ValueError(
                f"people have {given.shape[1]} dimensions and items have {catalogue.shape[1]};"
                " both must come from one model"
            )
        self.scale, self._declared = public, checks.bound(bound)
        unit = (public / _PARTS) ** 2
        cap = int(min(self._declared / unit, given.shape[1] * _PARTS**2))
        if not cap:
            raise ValueError(f"bound={bound:g} is less than one step of similarities; lower scale={scale:g}")
        shape = device.products_tile if tile is None else _tile(tile)
        self._rows = Similarities(device, given, catalogue, cap, unit, shape)
        self.n_items = int(catalogue.shape[0])
        self._name_items(labels)
        if self._declared == FAMILY_BOUND and not normalize:
            self._check_lengths(items if hasattr(items, "dtype") else numbers("items", items))

    def _check_lengths(self, items: Any) -> None:
        """Warn of the first item that is not a unit vector. Items are public; people are not checked."""
        device = self._rows.device
        unit = self.scale / _PARTS if str(items.dtype).split(".")[-1] == "int8" else 1.0
        for here in slices(self.n_items, max(1, (1 << 22) // items.shape[1])):
            some = device.array(items[here, :], "float64")
            lengths = np.sqrt(device.numpy(device.xp.sum(some * some, axis=1))) * unit
            off = np.flatnonzero(np.abs(lengths - 1.0) > _NEARLY)
            if off.size:
                first = int(off[0])
                place = int(here.start) + first
                name = place if self.labels is None else self.labels[place]
                warnings.warn(
                    f"item {shown(name)} is a vector of length {lengths[first]:.3g}, and bound=1 is for"
                    " cosines, of vectors of length 1: longer ones are cut, shorter ones count less."
                    " normalize=True makes all of them so; for inner products declare their bound=",
                    stacklevel=4,  # the line that makes it
                )
                return

    @property
    def tile(self) -> tuple[int, int]:
        """How many people and items are processed at a time."""
        return self._rows.tile

    @property
    def working_memory(self) -> int:
        """An upper bound of the bytes that a pass takes, besides embeddings and a few numbers per person."""
        return self._rows.memory

    @property
    def backend(self) -> str:
        """The library whose arrays hold the embeddings."""
        return self._rows.device.name

    def __len__(self) -> int:
        return self._rows.n_rows

    def row_source(self) -> StepSource:
        return self._rows

    def as_rows(self) -> Rows | None:
        # For learners, which get few people at a time.
        if len(self) * self.n_items > _FEW and len(self) > 1:
            return None
        (rows,) = replace(self._rows, tile=(len(self), self.n_items)).pieces()
        return rows

    def _value(self, items: Items) -> float:
        return float(self._average(self._rows.total(self._rows.best(items))))

    def _gains(self, items: Items) -> Floats:
        rows = self._rows
        best = rows.best(items)
        return self._average(rows.sums(best, rows.cap - best))

    def _chain(self, order: Items) -> Floats:
        rows, added = self._rows, np.zeros(order.size, dtype=np.int64)
        best, before = rows.fresh(), 0
        for t in range(order.size):
            best = rows.device.xp.maximum(best, rows.of(order[t : t + 1])[:, 0])
            after = rows.total(best)
            added[t], before = after - before, after
        return self._average(added)

    def _contributions(self, items: Items) -> Floats:
        if not items.size:
            return np.zeros(0)
        rows, xp = self._rows, self._rows.device.xp
        total = np.zeros(items.size, dtype=np.int64)
        for here in slices(len(self), rows.piece(items.size)):
            some = replace(rows, people=rows.people[here, :]).of(items)
            ordered = xp.sort(some, axis=1)
            most = ordered[:, -1:]
            second = ordered[:, -2:-1] if items.size > 1 else xp.zeros_like(most)
            lost = xp.where(some == most, most - second, xp.zeros_like(some))
            total += rows.device.numpy(xp.sum(rows.device.cast(lost, "int64"), axis=0))
        return self._average(total)

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        value, gradient = 0.0, np.zeros(self.n_items)
        for rows in self._rows.pieces():
            part, slopes = rows.multilinear(x)
            value, gradient = value + part, gradient + slopes
        return value / len(self), gradient / len(self)

    def _average(self, amounts: Any) -> Floats:
        return np.asarray(amounts * self._rows.unit / len(self), dtype=np.float64)

    def _additions(self) -> int:
        return 64 + self.n_items  # of the extension; sums over people are exact

    def _largest(self) -> Floats:
        return np.full(len(self), self._rows.cap * self._rows.unit)

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken._rows = self._rows.take(rows)
        return taken


def _tile(tile: Any) -> tuple[int, int]:
    try:
        people, items = tile
    except (TypeError, ValueError):
        raise ValueError(
            f"tile must be two whole numbers, of people and of items, such as (512, 2048): got {tile!r}"
        ) from None
    return whole("tile", people, at_least=1), whole("tile", items, at_least=1)


def _whole_numbers(name: str, values: Any, scale: float, device: Device, normalize: bool) -> Any:
    """Embeddings as a new array of bytes on the device."""
    xp = device.xp
    if not hasattr(values, "dtype"):
        values = numbers(name, values)
    kind = str(values.dtype).split(".")[-1]
    if not kind.startswith(("int", "uint", "float", "bfloat")):
        raise TypeError(f"{name} must be an array of numbers, one row for each: got {kind}")
    if len(values.shape) != 2 or not all(values.shape):
        raise ValueError(f"{name} must have two dimensions, none of them empty: one row for each")
    if values.shape[1] > _LONGEST:
        raise ValueError(f"{name} have {values.shape[1]:,} dimensions; at most {_LONGEST:,} are taken")
    if kind == "int8" and not normalize:
        return xp.asarray(values, device=device.place, copy=True)
    parts = []
    for here in slices(values.shape[0], max(1, (1 << 22) // values.shape[1])):
        some = device.array(values[here, :], "float64")
        if not bool(xp.all(xp.isfinite(some))):
            raise DataError(f"{name} has an entry that is not a finite number")
        if normalize:
            some = _in_range(xp, some)
            length = xp.expand_dims(xp.sqrt(row_sums(xp, some * some)), axis=1)
            some = some / xp.where(length > 0.0, length, xp.ones_like(length))
        some = xp.clip(some, -2.0 * scale, 2.0 * scale)  # clipped below anyway; this prevents overflow
        steps = xp.clip(xp.round(some * (_PARTS / scale)), -_PARTS, _PARTS - 1)
        parts.append(xp.astype(steps, xp.int8))
    return xp.concat(parts, axis=0)


def _in_range(xp: Any, some: Any) -> Any:
    """Vectors scaled by powers of two so that squares neither overflow nor vanish."""
    largest = xp.max(xp.abs(some), axis=1, keepdims=True)
    factor = xp.where(largest > 2.0**400, xp.full_like(largest, 2.0**-600), xp.ones_like(largest))
    return some * xp.where(largest < 2.0**-400, xp.full_like(largest, 2.0**600), factor)
