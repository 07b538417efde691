"""Similarities of people and items in whole numbers, worked out when they are asked for and never stored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...backends.devices import NUMPY, Device, slices
from ..rows.matrices import constant
from ..rows.steps import gradient_steps
from ..rows.table import BEST, Rows
from .rows import ArrayRows

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

# From so many steps to one unit of a similarity, that it is not a whole number of them is rounded away.
_FINE = 1 << 16
_HELD = 1 << 24  # similarities that are held at a time, for gradients
_GATHERED = 1 << 28  # bytes of embeddings that are gathered at a time
_MOST_SHIFT = 30


@dataclass(frozen=True, repr=False)
class Similarities:
    """max(0, product) of each person's and each item's whole numbers, cut to ``cap``; each counts ``unit``.

    ``people`` and ``items`` are arrays of bytes on ``device``. ``share`` is the factor of the whole.
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

    @cached_property
    def _loops(self) -> Any:
        return self.device.loops("embedded")

    @property
    def memory(self) -> int:
        """At most how many bytes a pass takes beside the embeddings and the numbers of its answer."""
        return int(self._loops.tile_bytes(self.tile, int(self.people.shape[1])))

    def take(self, rows: Any) -> Similarities:
        """The named people, in that order."""
        if isinstance(rows, np.ndarray):
            rows = self.device.array(rows, "int64")
        return replace(self, people=self.device.taken(self.people, rows))

    def scaled(self, factor: float) -> Similarities:
        return replace(self, share=factor * self.share)

    # -- whole numbers ---------------------------------------------------------------------------------------

    def sums(self, low: Any, span: Any, cut: tuple[int, int] | None = None) -> Steps:
        """For each item, the sum over people of what its similarity exceeds ``low`` by, at most ``span``."""
        with self.room():
            found = self._loops.sums(self.device, self.people, self.items, low, span, cut, self.tile)
            return self.device.numpy(found).astype(np.int64, copy=False)

    def of(self, items: NDArray[np.int64]) -> Any:
        """The similarities of everybody with a few items: people x items, on the device."""
        chosen = self.device.taken(self.items, self.device.array(items, "int64"))
        with self.room():
            found = self._loops.products(self.device, self.people, chosen, self.tile)
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
        """The exact sum of whole numbers of everybody."""
        return int(self.device.xp.sum(self.device.cast(amounts, "int64")))

    def room(self) -> Any:
        """Within it, a lack of memory names the tile."""
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
                gradient_steps(rows, x, np.zeros((0, x.size), dtype=np.bool_), per_unit, most, total)
            else:
                total += some._on_the_device().gradient_steps(x, per_unit, most, 0, 2)
        return total

    def piece(self, n_items: int) -> int:
        """How many people's similarities with so many items may lie in memory at a time."""
        return max(1, min(self.tile[0] * self.tile[1], _HELD) // max(1, n_items))

    def _on_the_device(self) -> ArrayRows:
        matrix = self.device.cast(self.of(np.arange(self.n_items)), "float64") * self.unit
        caps = self.device.zeros(self.n_rows, "float64")
        return ArrayRows(self.device, BEST, matrix, caps, self.n_rows, self.share)

    def pieces(self) -> Iterator[Rows]:
        """Everybody's similarities with all items as numbers, few people at a time, in NumPy."""
        everything = np.arange(self.n_items)
        for here in slices(self.n_rows, self.piece(self.n_items)):
            some = replace(self, people=self.people[here, :])
            matrix = self.device.numpy(some.of(everything)) * self.unit
            count = matrix.shape[0]
            yield Rows(BEST, matrix, constant(self.share, count), constant(np.inf, count))

    def steps(self, most: float, per_unit: float) -> tuple[int, int, tuple[int, int] | None]:
        """How similarities count in steps: the cap, a whole factor, and (factor, shift) where that is none.

        A similarity s, cut to the cap, counts factor s steps; or (s factor) >> shift where steps are so
        coarse that one unit of a similarity is less than many. Either way it never falls with s, and is at
        most ``most``: what a person's chosen items add sums up to no more.
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
    """A growing set: each person's best similarity, and only people whose best changes are looked at again.

    One person's part of each sum is a function of their own embedding and of what was chosen, a whole number
    from 0 to ``most``; the parts of the chosen items add up to no more than ``most``.
    """

    def __init__(self, rows: Similarities, most: float, per_unit: float) -> None:
        cap, self._factor, self._cut = rows.steps(most, per_unit)
        self._rows = replace(rows, cap=cap)
        self._best = rows.fresh()
        self.looked_at = 0  # people, in all passes

    def begin(self, sums: Floats) -> None:
        self._add(self._rows, self._best, self.best_possible(), sums, 1)

    def best_possible(self) -> Any:
        return self._rows.device.xp.full_like(self._best, self._rows.cap)

    def choose(self, item: int, sums: Floats) -> None:
        with self._rows.room():
            self._choose(item, sums)

    def _choose(self, item: int, sums: Floats) -> None:
        rows, device = self._rows, self._rows.device
        found = rows.of(np.array([item]))[:, 0]
        (places,) = device.xp.nonzero(found > self._best)
        stretch = max(rows.tile[0], _GATHERED // int(rows.people.shape[1]))
        for some_places in slices(int(places.shape[0]), stretch):
            here = places[some_places]
            some = replace(rows, people=device.taken(rows.people, here))
            low = device.taken(self._best, here)
            self._add(some, low, device.taken(found, here) - low, sums, -1)
        self._best = device.xp.maximum(self._best, found)

    def _add(self, rows: Similarities, low: Any, span: Any, sums: Floats, sign: int) -> None:
        self.looked_at += rows.n_rows
        if rows.n_rows:
            sums += sign * self._factor * rows.sums(low, span, self._cut)
