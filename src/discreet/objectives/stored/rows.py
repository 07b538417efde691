"""Rows of a store as a source of sums in whole steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .engines import Engine
from .scans import EVERYBODY, Chain, Change, Extension, GradientSteps, Sample, Scan, Shape, Sums

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class StoredRows:
    """Every row of a store, as functions of one shape; those of a sample only, where there is one."""

    engine: Engine
    shape: Shape
    n_items: int
    sample: Sample = EVERYBODY

    def scaled(self, factor: float) -> StoredRows:
        return replace(self, shape=self.shape.scaled(factor))

    def growing(self, most: float, per_unit: float) -> GrowingRows:
        return GrowingRows(self, most, per_unit)

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        if self.sample.secret:
            raise ValueError("a sample of a store has no gradients; take everybody")
        point = np.array(x, dtype=np.float64)
        return self.total(GradientSteps(self.shape, point, per_unit, most, seed, samples))

    def extension(self, x: Floats, most: float) -> tuple[float, Floats]:
        """The multilinear extension at ``x`` and its gradient, summed over everybody: at most ``most``."""
        per_unit = 2.0 ** (60 - math.frexp(most)[1])
        found = self.total(Extension(self.shape, np.array(x, dtype=np.float64), per_unit)) / per_unit
        return float(found[0]), found[1:]

    def sums(self, chosen: tuple[int, ...], most: float, per_unit: float) -> Steps:
        """What every item adds to the chosen ones, in steps."""
        return self.total(self._about(Sums, chosen, most, per_unit))

    def chain(self, chosen: tuple[int, ...], most: float, per_unit: float) -> Steps:
        """What each of these items adds when they are chosen in this order, in steps."""
        if not chosen:
            return np.zeros(0, dtype=np.int64)
        return self.total(self._about(Chain, chosen, most, per_unit))

    def change(self, chosen: tuple[int, ...], item: int, most: float, per_unit: float) -> Steps:
        """How ``sums`` move when ``item`` is chosen next."""
        return self.total(self._about(partial(Change, item=item), chosen, most, per_unit))

    def total(self, scan: Scan) -> NDArray[Any]:
        """One scan over the whole store."""
        return self.engine.total(scan)

    def _about(self, kind: Any, chosen: tuple[int, ...], most: float, per_unit: float) -> Any:
        return kind(self.shape, self.n_items, chosen, most, per_unit, self.sample)


class GrowingRows:
    """A growing set over the rows of a store: what was chosen, and nothing about anybody."""

    def __init__(self, rows: StoredRows, most: float, per_unit: float) -> None:
        self._rows, self._most, self._per_unit = rows, most, per_unit
        self._chosen: tuple[int, ...] = ()

    def begin(self, sums: Floats) -> None:
        sums += self._rows.sums(self._chosen, self._most, self._per_unit)

    def choose(self, item: int, sums: Floats) -> None:
        sums += self._rows.change(self._chosen, item, self._most, self._per_unit)
        self._chosen = (*self._chosen, item)
