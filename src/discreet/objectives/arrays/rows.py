"""Rows of a people x items array on a device, as a source of sums in whole steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...backends.devices import Device, slices
from ...backends.portable.dense import gain, moved, whole_steps
from ..rows.steps import random_rows
from ..rows.table import BEST, Kind

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class ArrayRows:
    """Every row of ``matrix``, as a function of one kind; ``caps`` has one number for each.

    ``tile`` is how many people are worked on at a time. ``share`` is the factor of the whole.
    """

    device: Device
    kind: Kind
    matrix: Any
    caps: Any
    tile: int
    share: float = 1.0

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def _loops(self) -> Any:
        return self.device.loops("dense")

    def take(self, rows: Steps) -> ArrayRows:
        """The named people, in that order; they stay on the device."""
        places = self.device.array(rows, "int64")
        return replace(
            self, matrix=self.device.taken(self.matrix, places), caps=self.device.taken(self.caps, places)
        )

    def scaled(self, factor: float) -> ArrayRows:
        return replace(self, share=factor * self.share)

    def growing(self, most: float, per_unit: float) -> GrowingArray:
        return GrowingArray(self, most, per_unit)

    def column(self, item: int) -> Any:
        """Everybody's weight of one item."""
        return self.device.cast(self.matrix[:, item], "float64")

    def sums(self, state: Any, left: Any, per_unit: float, rows: Any = None) -> Floats:
        """What every item adds, in steps, to rows in these states with these steps left."""
        numbers = (state, left, self.caps)
        with self.room():
            found = self._loops.sums(
                self.device, self.kind.code, self.matrix, numbers, self.share, per_unit, self.tile, rows
            )
            return self.device.numpy(found)

    def room(self) -> Any:
        """Within it, a lack of memory names the tile."""
        size = 40 * self.tile * self.n_items / 1e6
        return self.device.room_for(
            f"a tile of {self.tile:,} people x {self.n_items:,} items (up to {size:,.0f} MB); give a smaller"
            " tile="
        )

    # -- multilinear gradients -------------------------------------------------------------------------------

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """The sum of gradients at ``x``, each person's entries in whole steps from 0 to ``most``.

        A person's gradient is worked out entry by entry, in an order that depends on their own row alone.
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
        """Of the expected maximum, from each person's items in order of falling weight."""
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
        """Of 1 - prod(1 - x w), from the products before and after each item."""
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
        """The mean over random sets of what each item adds, each gain in whole steps."""
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
            slope = self.share * gain(device, self.kind.code, rest, weights[t, :], cap)
            steps = xp.sum(self._cut(slope, per_unit, most), axis=0)
            found.append(xp.sum(xp.floor(steps / float(drawn.shape[0]))))
        return xp.stack(found)

    def _cut(self, slope: Any, per_unit: float, most: float) -> Any:
        return whole_steps(self.device.xp, slope, per_unit, self.device.xp.full_like(slope, most))


class GrowingArray:
    """A growing set: one number of state for each row, and the steps that it may still add.

    Sums are a function of the states alone. Where few rows have changed, what those added before is taken
    off and what they add now is put in its place, both to the last step.
    """

    def __init__(self, rows: ArrayRows, most: float, per_unit: float) -> None:
        device = rows.device
        self._rows, self._per_unit = rows, per_unit
        self._state = device.zeros(rows.n_rows, "float64") + rows.kind.fresh
        self._left = device.zeros(rows.n_rows, "float64") + most
        self._added: Floats | None = None
        self.looked_at = 0  # rows, in all passes

    def begin(self, sums: Floats) -> None:
        self._added = self._pass(self._state, self._left)
        sums += self._added

    def choose(self, item: int, sums: Floats) -> None:
        assert self._added is not None
        state, left = self._state, self._left
        self.move(item)
        xp = self._rows.device.xp
        (changed,) = xp.nonzero((state != self._state) | (left != self._left))
        if 2 * int(changed.shape[0]) > self._rows.n_rows:
            now = self._pass(self._state, self._left)
        elif changed.shape[0]:
            before, after = (self._pass(*n, changed) for n in ((state, left), (self._state, self._left)))
            now = self._added + (after - before)
        else:
            now = self._added
        sums += now - self._added
        self._added = now

    def move(self, item: int) -> int:
        """Choose an item; what it adds, in steps."""
        rows, xp = self._rows, self._rows.device.xp
        state, left, weight = self._state, self._left, self._rows.column(item)
        added = rows.share * gain(rows.device, rows.kind.code, state, weight, rows.caps)
        steps = whole_steps(xp, added, self._per_unit, left)
        self._state, self._left = moved(xp, rows.kind.code, state, weight, rows.caps), left - steps
        return int(xp.sum(steps))

    def _pass(self, state: Any, left: Any, changed: Any = None) -> Floats:
        self.looked_at += self._rows.n_rows if changed is None else int(changed.shape[0])
        return self._rows.sums(state, left, self._per_unit, changed)
