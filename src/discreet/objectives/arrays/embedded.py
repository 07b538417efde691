"""Facility location over embeddings: similarities are worked out as they are needed and never stored."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ...backends.devices import Device, device_of, slices
from ...core.checks import DataError, real, shown, whole
from ..base import FAMILY_BOUND, Floats, Items, Population
from ..rows.fixed_point import StepSource
from ..rows.table import Rows
from ..state import State
from .similarities import GrowingSimilarities, Similarities

# A byte's 1: entries are whole numbers of scale / 128.
_PARTS = 128
_LONGEST = 1 << 16
_NEARLY = 0.05  # lengths this close to 1 are 1: rounding to bytes changes them too
# So few people's similarities may lie in memory for a loop over them.
_FEW = 1 << 18


class EmbeddedFacilityLocation(Population):
    """f(S) = the person's similarity to the item of S that is most like them, and 0 for the empty set.

    ``people``: people x dimensions, private. ``items``: items x dimensions, public. The similarity of two is
    their inner product, cut to [0, ``bound``]: the cosine for vectors of length 1. It is worked out when it
    is needed and never stored; people whose best item has not changed are not looked at again.

    ``normalize=True`` divides each vector by its own length, so that similarities are cosines (a vector of
    length 0 is like nothing). Without it and with ``bound=1``, which is that of cosines, an item whose length
    is not 1 is warned of. The lengths of people's vectors are private: nothing is said of them, and whoever
    has a longer one is cut by ``bound`` all the same.

    Embeddings are whole numbers of ``scale`` / 128 from -128 to 127: given as such in arrays of int8, or
    rounded to them. ``scale`` is public: chosen without looking at people, about the largest entry that there
    may be; larger ones are cut. For vectors of length 1 in d dimensions 4 / sqrt(d) is a good choice.

    ``backend``: ``"numpy"``, ``"cupy"``, ``"torch"``, or None to stay where the arrays are. ``tile``: so many
    people and items are worked on at a time by each thread; ``working_memory`` is what that takes.

    Formal guarantee. All sums are sums of whole numbers, and are the same on every device, in any order, for
    any tile: one person's part of each is a function of their own embedding and of public things, and lies
    in [0, bound]. There is no rounding error to allow for.

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
        self.scale, self._declared = public, real("bound", bound, above=0)
        unit = (public / _PARTS) ** 2
        cap = int(min(self._declared / unit, given.shape[1] * _PARTS**2))
        if not cap:
            raise ValueError(f"bound={bound:g} is less than one step of similarities; lower scale={scale:g}")
        loops = device.loops("embedded")
        shape = loops.TILE if tile is None else _tile(tile)
        self._rows = Similarities(device, given, catalogue, cap, unit, shape)
        self.n_items = int(catalogue.shape[0])
        self._name_items(labels)
        if self._declared == FAMILY_BOUND and not normalize:
            self._check_lengths(items if hasattr(items, "dtype") else numbers("items", items))

    def _check_lengths(self, items: Any) -> None:
        """Warn of the first item that is no vector of length 1. Items are public; people are not asked."""
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
        """How many people and items are worked on at a time."""
        return self._rows.tile

    @property
    def working_memory(self) -> int:
        """At most how many bytes a pass takes, beside the embeddings and a few numbers for each person."""
        return self._rows.memory

    @property
    def backend(self) -> str:
        """The library whose arrays hold the embeddings."""
        return self._rows.device.name

    def __len__(self) -> int:
        return self._rows.n_rows

    def start(self) -> State:
        return _EmbeddedState(self, self._rows)

    def row_source(self) -> StepSource:
        return self._rows

    def as_rows(self) -> Rows | None:
        # For learners, who are given few people at a time.
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


class _EmbeddedState(State):
    """A growing set in whole numbers."""

    def __init__(self, people: EmbeddedFacilityLocation, rows: Similarities) -> None:
        self._people = people
        self.items = []
        self.value = 0.0
        self._unit = rows.unit / len(people)
        self._growing = GrowingSimilarities(replace(rows, share=1.0), float(rows.cap), 1.0 / rows.unit)
        self._sums = np.zeros(people.n_items)
        self._growing.begin(self._sums)

    def gains(self) -> Floats:
        now = self._sums * self._unit
        now[self.items] = 0.0
        return now

    def _grow(self, item: int) -> float:
        added = float(self._sums[item] * self._unit)
        self._growing.choose(item, self._sums)
        return added


def _tile(tile: Any) -> tuple[int, int]:
    try:
        people, items = tile
    except (TypeError, ValueError):
        raise ValueError(
            f"tile must be two whole numbers, of people and of items, such as (512, 2048): got {tile!r}"
        ) from None
    return whole("tile", people, at_least=1), whole("tile", items, at_least=1)


def _whole_numbers(name: str, values: Any, scale: float, device: Device, normalize: bool) -> Any:
    """Embeddings as bytes on the device; a copy where they are not there already."""
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
            raise DataError(f"{name} has an entry that is no finite number")
        if normalize:
            length = xp.sqrt(xp.sum(some * some, axis=1, keepdims=True))
            some = some / xp.where(length > 0.0, length, xp.ones_like(length))
        steps = xp.clip(xp.round(some * (_PARTS / scale)), -_PARTS, _PARTS - 1)
        parts.append(xp.astype(steps, xp.int8))
    return xp.concat(parts, axis=0)


def numbers(name: str, values: Any) -> Any:
    """What is no array yet, as one."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass  # NumPy's words may hold an entry
    raise TypeError(f"{name} must be an array of numbers, one row for each")
