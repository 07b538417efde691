"""Rows of a batch that are good, and refusals of those that are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .labels import MISSING, Names, label
from .source import Batch, Column


class GoodRows:
    """The rows of a batch that are good so far."""

    def __init__(self, batch: Batch) -> None:
        self.good = np.ones(len(batch), dtype=np.bool_)
        self._batch = batch

    def keep(self, right: NDArray[np.bool_], refusal: Callable[[int], ValueError]) -> None:
        """Those that are right; the first that is not is refused unless bad rows are left out."""
        left = self.good & right
        if not self._batch.source.skip_bad and left.sum() < self.good.sum():
            raise refusal(int(np.argmax(self.good & ~right)))
        self.good = left

    def need(self, role: str, there: NDArray[np.bool_]) -> None:
        """Those that have this cell."""
        self.keep(there, lambda row: self._batch.missing(role, row))

    def weighed(self, weights: NDArray[np.float64], highest: float) -> None:
        """Those whose weight is allowed."""
        right = (weights >= 0.0) & (weights <= highest) & (weights < np.inf)
        self.keep(right, lambda row: _bad_weight(self._batch, row, highest))

    def numbers(self, names: Names, column: Column) -> NDArray[np.int64]:
        """The numbers of good rows' labels; no other row's label gets one."""
        if self.good.all():
            return names.of(column)
        found = np.full(self.good.size, MISSING)
        found[self.good] = names.of(column.where(self.good))
        return found


def unlisted(batch: Batch, role: str, row: int) -> ValueError:
    """A refusal of a label that a list does not hold."""
    wording = batch.source.wording
    listed, remedy = (wording.items, wording.drop_items) if role == "item" else ("people=", "; add them")
    cell = label(batch.columns[role][row])
    words = f"{listed} does not list the {role} of every event{remedy}"
    return batch.refused(row, words, f"the {role} {cell!r}")


def _bad_weight(batch: Batch, row: int, highest: float) -> ValueError:
    within = "be finite and at least 0"
    if highest < math.inf:
        within = f"lie in [0, {highest:g}], so divide ratings by the highest there can be"
    cell = batch.columns["weight"][row]
    return batch.refused(
        row,
        f"column {batch.asked['weight']!r} has a weight that is not allowed; weights must {within}",
        f"{cell:g}" if isinstance(cell, float) else repr(cell),
    )


def amounts(column: Column) -> NDArray[np.float64]:
    """Weights as numbers; NaN for a cell that is none."""
    values = column.values
    if isinstance(values, np.ndarray):
        return values
    try:
        found = np.fromiter(map(float, values), np.float64, len(values))
    except (TypeError, ValueError):
        found = np.fromiter(map(_number, values), np.float64, len(values))
    return found if column.codes is None else found[column.codes]


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan
