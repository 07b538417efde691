"""People whose rows are a dense array of any library, on the array's device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..core.checks import DataError, whole
from .base import Floats, random_rows
from .devices import Device, GainSums, device_of, row_sums, slices
from .fixed_point import StepPopulation
from .rows import BEST, CAP, ConcaveOverModular, Kind, RowPopulation

Steps = NDArray[np.int64]


@dataclass(frozen=True, repr=False, kw_only=True)
class DeviceRows:
    """People on a device, processed ``tile`` at a time. ``share`` is a factor of their functions."""

    device: Device
    tile: int
    share: float = 1.0

    def growing(self, most: float, per_unit: float) -> GrowingArray:
        raise NotImplementedError

    def scaled(self, factor: float) -> Self:
        return replace(self, share=factor * self.share)

    def sums(self, chosen: Sequence[int], most: float, per_unit: float) -> Floats:
        """The gain of every item on top of the chosen ones, in steps."""
        growing = self.growing(most, per_unit)
        for item in chosen:
            growing.move(item)
        return growing.summed()

    def chain(self, chosen: Sequence[int], most: float, per_unit: float) -> Floats:
        """The gain of each of these items when they are chosen in this order, in steps."""
        growing = self.growing(most, per_unit)
        return np.array([growing.move(item) for item in chosen], dtype=np.float64)


class GrowingArray:
    """A growing set (`fixed_point.Growing`); its sums depend on the people's states alone."""

    _added: Floats

    def begin(self, sums: Floats) -> None:
        self._added = self.summed()
        sums += self._added

    def choose(self, item: int, sums: Floats) -> None:
        self.move(item)
        before, self._added = self._added, self.summed()
        sums += self._added - before

    def move(self, item: int) -> int:
        """Choose an item; returns its gain in steps."""
        raise NotImplementedError

    def summed(self) -> Floats:
        """The gain of every item, in steps."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, kw_only=True)
class ArrayRows(DeviceRows):
    """Every row of ``matrix``, as a function of one kind; ``caps`` has one number for each."""

    kind: Kind
    matrix: Any
    caps: Any

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[1])

    def take(self, rows: Steps) -> ArrayRows:
        """The named people, in that order; they stay on the device."""
        places = self.device.array(rows, "int64")
        return replace(
            self, matrix=self.device.taken(self.matrix, places), caps=self.device.taken(self.caps, places)
        )

    def growing(self, most: float, per_unit: float) -> GrowingMatrix:
        return GrowingMatrix(self, most, per_unit)

    def column(self, item: int) -> Any:
        """Everybody's weight of one item."""
        return self.device.cast(self.matrix[:, item], "float64")

    def gain_sums(self, state: Any, left: Any, per_unit: float, rows: Any = None) -> Floats:
        """The gain of every item, in steps, for rows in these states with these steps left."""
        numbers = (state, left, self.caps)
        asked = GainSums(self.kind.code, self.matrix, numbers, self.share, per_unit, self.tile)
        with self.room():
            return self.device.numpy(self.device.gain_sums(asked, rows))

    def room(self) -> Any:
        """A context in which out-of-memory errors name the tile, and not the number of people."""
        size = 40 * self.tile * self.n_items / 1e6
        return self.device.room_for(
            f"a tile of {self.tile:,} people x {self.n_items:,} items (up to {size:,.0f} MB); give a smaller"
            " tile="
        )

    # -- multilinear gradients -------------------------------------------------------------------------------

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """The sum of gradients at ``x``, each person's entries in integer steps from 0 to ``most``.

        A person's gradient is computed entry by entry, in an order that depends on their own row alone.
        """
        inside = random_rows(x, seed, samples) if self.kind.of_sums else np.zeros((0, x.size), dtype=np.bool_)
        depth = max(1, len(inside))
        total = self.device.zeros(self.n_items, "float64")
        point = self.device.array(x, "float64")
        with self.room():
            for here in slices(self.n_rows, max(1, self.tile // depth)):
                some = self.device.cast(self.matrix[here, :], "float64")
                if self.kind.of_sums:
                    steps = self._of_sums(some, self.caps[here], inside, per_unit, float(most))
                elif self.kind is BEST:
                    steps = self._of_best(some, point, per_unit, float(most))
                else:
                    steps = self._of_products(some, point, per_unit, float(most))
                total = total + steps
        return self.device.numpy(total).astype(np.int64)

    def _by_item(self, some: Any) -> Any:
        """A people x items array as items x people, without gaps in memory."""
        return self.device.xp.stack([some[:, t] for t in range(self.n_items)])

    def _of_best(self, some: Any, x: Any, per_unit: float, most: float) -> Any:
        """Gradient of the expected maximum, from each person's items in order of falling weight."""
        xp = self.device.xp
        order = xp.argsort(-some, axis=1, stable=True)
        falling = self._by_item(xp.take_along_axis(some, order, axis=1))
        chance = self._by_item(xp.reshape(xp.take(x, xp.reshape(order, (-1,))), order.shape))
        unmet, before = xp.ones_like(falling[0, :]), []
        for t in range(self.n_items):
            before.append(unmet)
            unmet = unmet * (1.0 - chance[t, :])
        rest, found = xp.zeros_like(unmet), [unmet] * self.n_items
        for t in reversed(range(self.n_items)):
            slope = self.share * before[t] * (falling[t, :] - rest)
            found[t] = self._cut(slope, per_unit, most)
            rest = chance[t, :] * falling[t, :] + (1.0 - chance[t, :]) * rest
        places = xp.argsort(order, axis=1)
        return xp.sum(xp.take_along_axis(xp.stack(found, axis=1), places, axis=1), axis=0)

    def _of_products(self, some: Any, x: Any, per_unit: float, most: float) -> Any:
        """Gradient of 1 - prod(1 - x w), from the products before and after each item."""
        xp, weights = self.device.xp, self._by_item(some)
        product, before = xp.ones_like(weights[0, :]), []
        for t in range(self.n_items):
            before.append(product)
            product = product * (1.0 - x[t] * weights[t, :])
        after, found = xp.full_like(product, self.share), [product] * self.n_items
        for t in reversed(range(self.n_items)):
            found[t] = xp.sum(self._cut(weights[t, :] * before[t] * after, per_unit, most))
            after = after * (1.0 - x[t] * weights[t, :])
        return xp.stack(found)

    def _of_sums(self, some: Any, cap: Any, inside: Any, per_unit: float, most: float) -> Any:
        """The mean over random sets of each item's gain, each gain in integer steps."""
        xp, device = self.device.xp, self.device
        drawn = device.array(inside, "bool")
        weights = xp.minimum(self._by_item(some), xp.expand_dims(cap, axis=0))
        totals = xp.zeros((drawn.shape[0], weights.shape[1]), dtype=xp.float64, device=device.place)
        nothing = xp.zeros_like(weights[0, :])
        for t in range(self.n_items):
            totals = totals + xp.where(drawn[:, t : t + 1], weights[t, :], nothing)
        found = []
        for t in range(self.n_items):
            rest = xp.where(drawn[:, t : t + 1], xp.clip(totals - weights[t, :], min=0.0), totals)
            slope = self.share * device.gain(self.kind.code, rest, weights[t, :], cap)
            steps = xp.sum(self._cut(slope, per_unit, most), axis=0)
            found.append(xp.sum(xp.floor(steps / float(drawn.shape[0]))))
        return xp.stack(found)

    def _cut(self, slope: Any, per_unit: float, most: float) -> Any:
        return self.device.steps(slope, per_unit, self.device.xp.full_like(slope, most))


class GrowingMatrix(GrowingArray):
    """One number of state for each row, and the steps that it may still add.

    If few rows have changed, their old gains are subtracted from the sums and their new ones added, exactly.
    """

    def __init__(self, rows: ArrayRows, most: float, per_unit: float) -> None:
        device = rows.device
        self._rows, self._per_unit = rows, per_unit
        self._state = device.zeros(rows.n_rows, "float64") + rows.kind.fresh
        self._left = device.zeros(rows.n_rows, "float64") + most
        self.looked_at = 0  # rows, in all passes

    def choose(self, item: int, sums: Floats) -> None:
        state, left, before = self._state, self._left, self._added
        self.move(item)
        (changed,) = self._rows.device.xp.nonzero((state != self._state) | (left != self._left))
        if 2 * int(changed.shape[0]) > self._rows.n_rows:
            self._added = self.summed()
        elif changed.shape[0]:
            after = self._pass(self._state, self._left, changed)
            self._added = before + (after - self._pass(state, left, changed))
        sums += self._added - before

    def move(self, item: int) -> int:
        rows, device = self._rows, self._rows.device
        state, left, weight = self._state, self._left, self._rows.column(item)
        added = rows.share * device.gain(rows.kind.code, state, weight, rows.caps)
        steps = device.steps(added, self._per_unit, left)
        self._state, self._left = device.moved(rows.kind.code, state, weight, rows.caps), left - steps
        return int(device.xp.sum(steps))

    def summed(self) -> Floats:
        return self._pass(self._state, self._left)

    def _pass(self, state: Any, left: Any, changed: Any = None) -> Floats:
        self.looked_at += self._rows.n_rows if changed is None else int(changed.shape[0])
        return self._rows.gain_sums(state, left, self._per_unit, changed)


class ArrayPopulation(StepPopulation):
    """People in the rows of an array, as functions of one family; made by ``from_array`` of the family.

    The array stays on its device, in 32 or 64 bits. ``value`` and ``gains`` are in integer steps: for each
    chosen item they may be lower than those of the same people in memory by one step, which is 2^-40 of the
    bound for few people. ``people[i]`` is one person in memory, slices stay on the device.

    Formal guarantee. As for the family: each person's part of each score is computed from their own row,
    clipped to [0, bound], rounded down to integer steps, and only then added up, in integers. So one person
    moves a score by at most the bound, however the device rounds. All parts consist of operations that every
    device rounds correctly, so all devices agree bit for bit; they also agree with the same people in memory,
    except for logarithms, which may differ by a step.
    """

    def __init__(
        self,
        array: Any,
        family: type[RowPopulation],
        options: Mapping[str, Any],
        backend: Any = None,
        tile: int | None = None,
    ) -> None:
        if options.get("at_most") is not None:
            raise ValueError(
                "at_most= is for people in memory or in a store; leave it out, with a bound= of all sets"
            )
        device = device_of(backend, array)
        self._family, self._options = family, dict(options)
        matrix = matrix_of(family._argument, array, device)
        count, self.n_items = int(matrix.shape[0]), int(matrix.shape[1])
        plain = {name: value for name, value in options.items() if name != "labels"}
        if plain.get("cap") is not None:
            plain["cap"] = 1.0
        kind = family(np.zeros((1, self.n_items)), **plain)._rows.kind
        known = (RowPopulation._caps, ConcaveOverModular._caps)
        if not family._dense or kind.code < 0 or family._caps not in known:
            raise ValueError(f"{family.__name__} of this kind cannot be asked of an array on a device")
        caps = np.full(count, np.inf)
        if kind is CAP:
            one = ConcaveOverModular(np.zeros((count, 1)), concave="capped", cap=options["cap"])
            caps = np.array(one._rows.cap)
        people = max(1, device.gains_tile // self.n_items) if tile is None else whole_tile(tile)
        self._rows = ArrayRows(
            device=device,
            kind=kind,
            matrix=matrix,
            caps=device.array(caps, "float64"),
            tile=people,
        )
        check_finite(family._argument, matrix, self._rows.tile, device.xp, family._highest)
        self._name_items(options.get("labels"))
        self._declare(options.get("bound"))

    @property
    def backend(self) -> str:
        """The library whose array holds the people."""
        return str(self._rows.device.name)

    @property
    def tile(self) -> int:
        """How many people are processed at a time."""
        return int(self._rows.tile)

    def __repr__(self) -> str:
        return f"{self._family.__name__}.from_array({self.n_items} items)"

    def _most_items(self) -> int:
        rows, xp = self._rows, self._rows.device.xp
        counts = [xp.sum(rows.device.cast(rows.matrix[h, :] != 0, "int64"), axis=1) for h in self._chunks()]
        return max(int(xp.max(one)) for one in counts)

    def _largest(self) -> Floats:
        rows, device = self._rows, self._rows.device
        parts = [
            device.numpy(_reach(rows.kind, device.cast(rows.matrix[here, :], "float64"), device.xp))
            for here in self._chunks()
        ]
        found = np.concatenate(parts)
        if not rows.kind.of_sums:
            return found
        alone: Floats = rows.kind.alone(found, device.numpy(rows.caps))
        return alone

    def _chunks(self) -> Any:
        return slices(len(self), self._rows.tile)

    def _one(self, i: int) -> RowPopulation:  # type: ignore[override]
        device = self._rows.device
        row = device.numpy(self._rows.matrix[i : i + 1, :]).astype(np.float64)
        options = dict(self._options)
        if self._rows.kind is CAP:
            options["cap"] = float(device.numpy(self._rows.caps[i : i + 1])[0])
        return self._family(row, **options)


def _reach(kind: Kind, some: Any, xp: Any) -> Any:
    """Each row's total weight for sums, the largest for facility location, 1 for probabilities."""
    if kind.of_sums:
        return row_sums(xp, some)
    return xp.max(some, axis=1) if kind is BEST else xp.ones_like(some[:, 0])


def whole_tile(tile: Any) -> int:
    return whole("tile", tile, at_least=1)


def matrix_of(name: str, array: Any, device: Any) -> Any:
    """A copy on the device, in 32 or 64 bits as given."""
    given = array if hasattr(array, "dtype") else numbers(name, array)
    kind = str(given.dtype).split(".")[-1]
    if kind not in ("float32", "float64"):
        raise TypeError(f"{name} must be an array of 32-bit or 64-bit floats: got {kind}")
    if len(given.shape) != 2 or not all(given.shape):
        raise ValueError(f"{name} must have two dimensions, none of them empty")
    with device.room_for(f"a copy of {name}"):
        return device.xp.asarray(given, device=device.place, copy=True)


def check_finite(name: str, matrix: Any, tile: int, xp: Any, largest: float) -> None:
    for here in slices(int(matrix.shape[0]), tile):
        lowest, highest = float(xp.min(matrix[here, :])), float(xp.max(matrix[here, :]))
        if not (lowest >= 0.0 and highest <= largest and math.isfinite(highest)):
            limit = "" if math.isinf(largest) else f" and at most {largest:g}"
            raise DataError(
                f"{name} has an entry that is not allowed: entries must be finite, at least 0{limit}",
                f"entries lie between {lowest:g} and {highest:g}",
            )


def numbers(name: str, values: Any) -> Any:
    """The values as a NumPy array of floats."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass  # NumPy's message may hold an entry
    raise TypeError(f"{name} must be an array of numbers, one row for each")
