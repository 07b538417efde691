"""Populations whose rows are a dense array of any library, on the device where it lives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...backends.devices import device_of, slices
from ...core.checks import DataError, whole
from ..base import Floats, Items, Population
from ..rows.fixed_point import StepSource, step
from ..rows.table import BEST, CAP, Kind
from .determinants import DeterminantRows
from .embedded import numbers
from .rows import ArrayRows

if TYPE_CHECKING:
    from ..log_determinant import LogDeterminant
    from ..rows.people import RowPopulation


class InWholeSteps(Population):
    """Averages over people on a device, from sums in whole steps; people stay on the device."""

    built_in = True
    _rows: Any  # ArrayRows or DeterminantRows

    @property
    def backend(self) -> str:
        """The library whose array holds the people."""
        return str(self._rows.device.name)

    @property
    def tile(self) -> int:
        """How many people are worked on at a time."""
        return int(self._rows.tile)

    def row_source(self) -> StepSource:
        found: StepSource = self._rows
        return found

    def __len__(self) -> int:
        return int(self._rows.n_rows)

    @cached_property
    def _steps(self) -> tuple[float, float]:
        """How many steps one person has, and how many there are to 1."""
        per_unit = 1.0 / step(self.bound, len(self))
        return float(math.floor(self.bound * per_unit)), per_unit

    def _averages(self, steps: Any) -> Floats:
        return np.asarray(steps / self._steps[1] / len(self), dtype=np.float64)

    def _value(self, items: Items) -> float:
        return float(self._chain(items).sum())

    def _gains(self, items: Items) -> Floats:
        growing, sums = self._rows.growing(*self._steps), np.zeros(self.n_items)
        for item in items.tolist():
            growing.move(item)
        growing.begin(sums)
        return self._averages(sums)

    def _chain(self, order: Items) -> Floats:
        growing = self._rows.growing(*self._steps)
        return self._averages(np.array([growing.move(item) for item in order.tolist()], dtype=np.float64))

    def _contributions(self, items: Items) -> Floats:
        # f(S) - f(S without j) is the gradient of the multilinear extension at the corner S.
        corner = np.zeros(self.n_items)
        corner[items] = 1.0
        most, per_unit = self._steps
        found = self._rows.gradient_steps(corner, per_unit, int(most), seed=0, samples=2)
        return self._averages(found)[items]

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken.__dict__.pop("_steps", None)
        taken._rows = self._rows.take(rows)
        return taken


class ArrayPopulation(InWholeSteps):
    """People in the rows of an array, as functions of one family; made by ``from_array`` of the family.

    The array stays where it is: on the device, in 32 or 64 bits. ``value`` and ``gains`` are in whole steps:
    for each chosen item they may be lower than those of the same people in memory by one step, which is
    2^-40 of the bound for few people. ``people[i]`` is one person in memory, slices stay on the device.

    Formal guarantee. As for the family: each person's part of each score is worked out from their own row,
    cut to [0, bound] and to whole steps, and only then added up, in whole numbers. So one person moves a
    score by at most the bound, however the device rounds. All parts are made of operations that every device
    rounds correctly, and agree on all of them bit for bit; with the same people in memory they agree too, but
    for logarithms, which may differ by a step.
    """

    def __init__(
        self,
        array: Any,
        family: type[RowPopulation],
        options: Mapping[str, Any],
        backend: Any = None,
        tile: int | None = None,
    ) -> None:
        _of_all_sets(options)
        device = device_of(backend, array)
        self._family, self._options = family, dict(options)
        matrix = _matrix(family._argument, array, device)
        self.n_items = int(matrix.shape[1])
        like = family(np.zeros((1, self.n_items)), **_without(options, "cap", "labels"), **_cap_of(options))
        kind = like._rows.kind
        if not family._dense or kind.code < 0 or family._caps is not _plain_caps(family):
            raise ValueError(f"{family.__name__} of this kind cannot be asked of an array on a device")
        caps = _caps(options, int(matrix.shape[0])) if kind is CAP else np.full(matrix.shape[0], np.inf)
        people = max(1, device.loops("dense").TILE // self.n_items) if tile is None else whole_tile(tile)
        self._rows = ArrayRows(
            device, kind, matrix, device.array(caps, "float64"), min(people, int(matrix.shape[0]))
        )
        _finite(family._argument, matrix, self._rows.tile, device.xp, family._highest)
        self._name_items(options.get("labels"))
        self._declare(options.get("bound"))

    def __repr__(self) -> str:
        return f"{self._family.__name__}.from_array({self.n_items} items)"

    def _most_items(self) -> int:
        rows, xp = self._rows, self._rows.device.xp
        counts = [
            xp.sum(rows.device.cast(rows.matrix[h, :] != 0, "int64"), axis=1) for h in self._stretches()
        ]
        return max(int(xp.max(one)) for one in counts)

    def _largest(self) -> Floats:
        rows, device = self._rows, self._rows.device
        parts = [
            device.numpy(_reach(rows.kind, device.cast(rows.matrix[here, :], "float64"), device.xp))
            for here in self._stretches()
        ]
        found = np.concatenate(parts)
        if not rows.kind.of_sums:
            return found
        return np.asarray(rows.kind.gain(0.0, found, device.numpy(rows.caps)), dtype=np.float64)

    def _stretches(self) -> Any:
        return slices(len(self), self._rows.tile)

    def _one(self, i: int) -> RowPopulation:  # type: ignore[override]
        device = self._rows.device
        row = device.numpy(self._rows.matrix[i : i + 1, :]).astype(np.float64)
        options = dict(self._options)
        if self._rows.kind is CAP:
            options["cap"] = float(device.numpy(self._rows.caps[i : i + 1])[0])
        return self._family(row, **options)


def _reach(kind: Kind, some: Any, xp: Any) -> Any:
    """All of each row's weights together; of facility location the largest."""
    if kind is BEST:
        return xp.max(some, axis=1)
    return xp.sum(some, axis=1) if kind.of_sums else 1.0 - xp.prod(1.0 - some, axis=1)


def whole_tile(tile: Any) -> int:
    return whole("tile", tile, at_least=1)


def _matrix(name: str, array: Any, device: Any) -> Any:
    """A copy on the device, in 32 or 64 bits as it was given."""
    given = array if hasattr(array, "dtype") else numbers(name, array)
    kind = str(given.dtype).split(".")[-1]
    if kind not in ("float32", "float64"):
        raise TypeError(f"{name} must be an array of 32-bit or 64-bit floats: got {kind}")
    if len(given.shape) != 2 or not all(given.shape):
        raise ValueError(f"{name} must have two dimensions, none of them empty")
    with device.room_for(f"a copy of {name}"):
        return device.xp.asarray(given, device=device.place, copy=True)


def _finite(name: str, matrix: Any, tile: int, xp: Any, largest: float) -> None:
    for here in slices(int(matrix.shape[0]), tile):
        lowest, highest = float(xp.min(matrix[here, :])), float(xp.max(matrix[here, :]))
        if not (lowest >= 0.0 and highest <= largest and math.isfinite(highest)):
            limit = "" if math.isinf(largest) else f" and at most {largest:g}"
            raise DataError(
                f"{name} has an entry that is not allowed: entries must be finite, at least 0{limit}",
                f"entries lie between {lowest:g} and {highest:g}",
            )


def _plain_caps(family: type[RowPopulation]) -> Any:
    """The way of caps that a device knows of: none, or numbers that were given."""
    from ..concave import ConcaveOverModular
    from ..rows.people import RowPopulation

    return ConcaveOverModular._caps if issubclass(family, ConcaveOverModular) else RowPopulation._caps


def _of_all_sets(options: Mapping[str, Any]) -> None:
    if options.get("at_most") is not None:
        raise ValueError(
            "at_most= is for people in memory or in a store; leave it out, with a bound= of all sets"
        )


def _without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _cap_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"cap": 1.0} if options.get("cap") is not None else {}


def _caps(options: Mapping[str, Any], count: int) -> Floats:
    from ..concave import ConcaveOverModular

    some = ConcaveOverModular(np.zeros((count, 1)), concave="capped", cap=options["cap"])
    return np.array(some._rows.cap)


class ArrayLogDeterminant(InWholeSteps):
    """`LogDeterminant` of people whose qualities are an array; made by ``LogDeterminant.from_array``.

    Each item that is chosen takes as much memory as the qualities. The guarantee is that of
    `ArrayPopulation`.
    """

    def __init__(
        self,
        kernel: Any,
        quality: Any,
        options: Mapping[str, Any],
        backend: Any = None,
        tile: int | None = None,
    ) -> None:
        _of_all_sets(options)
        device = device_of(backend, quality, kernel)
        given = _matrix("quality", quality, device)
        self.n_items, self._options = int(given.shape[1]), dict(options)
        public = device.cast(_matrix("kernel", kernel, device), "float64")
        if tuple(public.shape) != (self.n_items, self.n_items):
            raise ValueError(f"kernel must be {self.n_items} x {self.n_items}: quality has as many columns")
        public = _semidefinite(public, device.xp)
        people = max(1, device.loops("dense").TILE // self.n_items) if tile is None else whole_tile(tile)
        quality = device.cast(given, "float64")
        self._rows = DeterminantRows(device, public, quality, min(people, int(given.shape[0])))
        _finite("quality", quality, self._rows.tile, device.xp, np.inf)
        self._name_items(options.get("labels"))
        self._declare(options.get("bound"))

    def __repr__(self) -> str:
        return f"LogDeterminant.from_array({self.n_items} items)"

    def _largest(self) -> Floats:
        return self._in_memory(np.arange(len(self)))._largest()

    def _reached(self, bound: float) -> Floats:
        # Hadamard: a determinant is at most the product of the diagonal. Only the others are worked out.
        rows, xp = self._rows, self._rows.device.xp
        diagonal = xp.linalg.diagonal(rows.kernel)
        parts = [
            rows.device.numpy(xp.sum(xp.log1p(q * q * diagonal), axis=1))
            for q in (rows.quality[here, :] for here in slices(len(self), rows.tile))
        ]
        reached = np.concatenate(parts)
        unsure = np.flatnonzero(reached > bound)
        if unsure.size:
            reached[unsure] = self._in_memory(unsure)._largest()
        return reached

    @cached_property
    def _kernel_in_memory(self) -> LogDeterminant:
        from ..log_determinant import LogDeterminant

        return LogDeterminant(self._rows.device.numpy(self._rows.kernel), labels=self.labels)

    def _in_memory(self, rows: Items, bound: float | None = None) -> LogDeterminant:
        qualities = self._rows.device.numpy(self._rows.take(rows).quality)
        return self._kernel_in_memory.with_quality(qualities, bound)

    def _one(self, i: int) -> LogDeterminant:  # type: ignore[override]
        return self._in_memory(np.array([i]), self.bound)


def _semidefinite(kernel: Any, xp: Any) -> Any:
    if not bool(xp.all(xp.isfinite(kernel))):
        raise ValueError("kernel has an entry that is no finite number")
    largest = max(1.0, float(xp.max(xp.abs(kernel))))
    if not float(xp.max(xp.abs(kernel - xp.matrix_transpose(kernel)))) <= 1e-10 * largest:
        raise ValueError("kernel differs from its mirror image; it must be symmetric")
    lengths, axes = xp.linalg.eigh(kernel)
    lowest = float(lengths[0])
    if lowest < -1e-9 * largest:
        raise ValueError(f"kernel has the eigenvalue {lowest:g}; it must be positive semidefinite")
    # A hair below zero is rounding, but large qualities would make much of it.
    return kernel if lowest >= 0.0 else (axes * xp.clip(lengths, min=0.0)) @ xp.matrix_transpose(axes)
