"""Log-determinants of people's own kernels on a device, as a source of sums in whole steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...backends.devices import Device, slices
from ...backends.portable.dense import RATIO, gain, whole_steps
from ..rows.steps import random_rows

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class DeterminantRows:
    """log det(I + L_S) of each person, L[u, v] = q_u K[u, v] q_v with their own qualities q.

    All arithmetic is entry by entry, as in `objectives.log_determinant`: nobody's numbers depend on who else
    is there, nor on where they stand, as those of a library's products of matrices might.
    """

    device: Device
    kernel: Any
    quality: Any
    tile: int
    share: float = 1.0

    @property
    def n_rows(self) -> int:
        return int(self.quality.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.quality.shape[1])

    def take(self, rows: Steps) -> DeterminantRows:
        """The named people, in that order; they stay on the device."""
        return replace(self, quality=self.device.taken(self.quality, self.device.array(rows, "int64")))

    def scaled(self, factor: float) -> DeterminantRows:
        return replace(self, share=factor * self.share)

    def growing(self, most: float, per_unit: float) -> GrowingDeterminants:
        return GrowingDeterminants(self, most, per_unit)

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """Means over random sets that are the same for everybody, each gain in whole steps."""
        inside, device = random_rows(x, seed, samples), self.device
        total = np.zeros(self.n_items)
        for here in slices(self.n_rows, self.tile):
            some = replace(self, quality=self.quality[here, :])
            steps: Any = 0.0
            for drawn in inside:
                gains = some._marginals(np.flatnonzero(drawn))
                steps = steps + whole_steps(
                    device.xp, self.share * gains, per_unit, device.xp.full_like(gains, float(most))
                )
            total += device.numpy(device.xp.sum(device.xp.floor(steps / float(len(inside))), axis=0))
        return total.astype(np.int64)

    def _marginals(self, items: Steps) -> Any:
        """What each item adds to the others of a set, for each of a few people."""
        xp = self.device.xp
        part = _Part(self, self.quality)
        for item in items.tolist():
            part.choose(item)
        gains = gain(self.device, RATIO, None, part.rest, None)
        if not items.size:
            return gains
        # The determinant without j is the determinant times the j-th diagonal entry of the inverse.
        shares = 1.0 / xp.clip(self._inverse_diagonal(items), min=float(np.finfo(np.float64).tiny), max=1.0)
        added = gain(self.device, RATIO, None, shares, None)
        for place, item in enumerate(items.tolist()):
            here = self.device.array(np.arange(self.n_items) == item, "bool")
            gains = xp.where(here, added[:, place : place + 1], gains)
        return gains

    def _inverse_diagonal(self, items: Steps) -> Any:
        """The diagonal of the inverse of I + L_S, by sweeping one pivot after the other."""
        xp, device = self.device.xp, self.device
        chosen = device.array(items, "int64")
        q = xp.take(self.quality, chosen, axis=1)
        kernel = xp.take(xp.take(self.kernel, chosen, axis=0), chosen, axis=1)
        swept = xp.expand_dims(q, axis=2) * kernel * xp.expand_dims(q, axis=1)
        swept = swept + xp.eye(items.size, dtype=xp.float64, device=device.place)
        for k in range(items.size):
            at = np.zeros((items.size, items.size), dtype=np.bool_)
            at[k], across = True, at.T.copy()
            across[:, k] = True
            row, column, pivot = (
                swept[:, k : k + 1, :],
                swept[:, :, k : k + 1],
                swept[:, k : k + 1, k : k + 1],
            )
            inner = swept - column * row / pivot
            inner = xp.where(device.array(across, "bool"), column / pivot, inner)
            inner = xp.where(device.array(at, "bool"), row / pivot, inner)
            swept = xp.where(device.array(at & across, "bool"), -1.0 / pivot, inner)
        return -xp.stack([swept[:, k, k] for k in range(items.size)], axis=1)

    def room(self) -> Any:
        """Within it, a lack of memory names the tile."""
        size = 8e-6 * self.n_rows * self.n_items
        return self.device.room_for(
            f"one more item of all people ({size:,.0f} MB, of which each chosen item takes as many), worked"
            f" out for a tile of {self.tile:,} people x {self.n_items:,} items; choose fewer items, or give a"
            " smaller tile="
        )


class _Part:
    """A few people's states: what is left of each diagonal entry, and a column of each factor per item."""

    def __init__(self, rows: DeterminantRows, quality: Any) -> None:
        self._device, self._kernel, self._quality = rows.device, rows.kernel, quality
        self.rest = 1.0 + quality * quality * rows.device.xp.linalg.diagonal(rows.kernel)
        self._columns: list[Any] = []

    def choose(self, item: int) -> Any:
        """What the item adds for each of them."""
        xp, q, this = self._device.xp, self._quality, slice(item, item + 1)
        # The ratio is at least 1; rounding may leave it a hair below.
        ratio = xp.clip(self.rest[:, this], min=1.0)
        row = q[:, this] * self._kernel[item, :] * q
        for column in self._columns:
            row = row - column[:, this] * column
        column = row / xp.sqrt(ratio)
        self.rest = self.rest - column * column
        self._columns.append(column)
        return gain(self._device, RATIO, None, ratio[:, 0], None)


class GrowingDeterminants:
    """A growing set over all people; sums are a function of the states alone, and all summed again."""

    def __init__(self, rows: DeterminantRows, most: float, per_unit: float) -> None:
        self._rows, self._per_unit = rows, per_unit
        stretches = list(slices(rows.n_rows, rows.tile))
        with rows.room():
            self._parts = [_Part(rows, rows.quality[here, :]) for here in stretches]
            self._left = [rows.device.zeros(here.stop - here.start, "float64") + most for here in stretches]
        self._added: Floats | None = None

    def begin(self, sums: Floats) -> None:
        self._added = self._pass()
        sums += self._added

    def choose(self, item: int, sums: Floats) -> None:
        assert self._added is not None
        self.move(item)
        now = self._pass()
        sums += now - self._added
        self._added = now

    def move(self, item: int) -> int:
        """Choose an item; what it adds, in steps."""
        rows, total = self._rows, 0
        with rows.room():
            for place, part in enumerate(self._parts):
                left = self._left[place]
                steps = whole_steps(rows.device.xp, rows.share * part.choose(item), self._per_unit, left)
                self._left[place] = left - steps
                total += int(rows.device.xp.sum(steps))
        return total

    def _pass(self) -> Floats:
        rows, loops = self._rows, self._rows.device.loops("dense")
        total = np.zeros(rows.n_items)
        with rows.room():
            for part, left in zip(self._parts, self._left, strict=True):
                numbers = (left, left, left)
                found = loops.sums(
                    rows.device, RATIO, part.rest, numbers, rows.share, self._per_unit, rows.tile
                )
                total += rows.device.numpy(found)
        return total
