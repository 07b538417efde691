"""The entropic projection of compiled matroids: `split_entropic` with its loops compiled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ..polytopes.polytope import VIOLATION

Vector = NDArray[np.float64]
Items = NDArray[np.int64]


class EntropicSplit(ABC):
    """Decomposition into pieces, from the front of ``order`` to its back.

    In the end ``order`` lists the chain of tight sets: whatever stands before a piece is contracted in it.
    ``given`` is the matroid and memory for its sets; ``items`` holds no loops.
    """

    def __init__(self, given: tuple[Any, Any], rank: int, log_w: Vector, items: Items) -> None:
        self._given, self._rank = given, rank
        self.log_w, self.order = np.array(log_w), items
        self.log_x = np.zeros_like(log_w)
        self.steps = 0
        self._ends, self._same = np.zeros(1, dtype=np.int64), np.zeros(items.size)
        self._heap, self._places = np.empty((2, items.size), dtype=np.int64)
        self._taken = np.empty(items.size, dtype=np.bool_)

    def solve(self, *, base: bool) -> None:
        """Fill ``log_x``."""
        nothing, stops = self.order[:0], [self.order.size]
        if not base:
            # Outside of the tight set, min(1, w) is left as it is.
            self.log_x[self.order] = np.minimum(0.0, self.log_w[self.order])
            stops = [self._most_violated(0, self.order.size, nothing, self._rank)]
        low = 0
        while stops:
            high = stops[-1]
            taken = self._offered(nothing, 0, high, self._same, high)
            below = self.order[:low][taken[:low]]
            inner, middle = int(np.count_nonzero(taken[low:])), low
            self.log_x[self.order[low:high]] = 0.0
            if inner < high - low:
                backends.polytopes.scale(self.log_w, self.order, low, high, float(inner), self.log_x)
                # Items of rank 1 have room for their sum, as independent ones have for 1 each.
                if inner > 1:
                    middle = self._most_violated(low, high, below, inner)
            if low < middle < high:
                stops.append(middle)
            else:
                low = stops.pop()

    def _offered(self, below: Items, low: int, high: int, cost: Vector, keep: int) -> NDArray[np.bool_]:
        """Which of ``order[low:high]`` fit, offered by cost; ``self._places`` tells their order."""
        self._ends[0] = high - low
        asked = below, below.size, self.order, low, cost, self._ends, 1, 1, keep, self._rank + 1
        backends.matroids.offered(*self._given, *asked, self._heap, self._places, self._taken)
        taken: NDArray[np.bool_] = self._taken[: high - low]
        return taken

    def _most_violated(self, low: int, high: int, below: Items, rank: int) -> int:
        """Move the set of ``order[low:high]`` whose sum exceeds its rank the most to the front; its end."""
        x = np.exp(self.log_x[self.order[low:high]])
        inside = self._exceeding(low, x, below, rank)
        if inside is None:
            return low
        piece, middle = self.order[low:high].copy(), low + int(np.count_nonzero(inside))
        self.order[low:middle], self.order[middle:high] = piece[inside], piece[~inside]
        return middle

    @abstractmethod
    def _exceeding(self, low: int, x: Vector, below: Items, rank: int) -> NDArray[np.bool_] | None:
        """Which items of ``order[low:]`` are in that set; None if no sum of ``x`` exceeds its rank."""


class SearchedSplit(EntropicSplit):
    """By the nearest-point method; ``memory`` is for its searches.

    Minimising rank(A) - x(A) is a nearest-point problem: sort the items by how far the base nearest to x
    falls short of x; a minimiser is among the prefixes, whose ranks one greedy pass tells.
    """

    def __init__(
        self, given: tuple[Any, Any], rank: int, log_w: Vector, items: Items, memory: tuple[Any, ...]
    ) -> None:
        super().__init__(given, rank, log_w, items)
        self._memory = memory

    def _exceeding(self, low: int, x: Vector, below: Items, rank: int) -> NDArray[np.bool_] | None:
        size = x.size
        high = low + size
        self._ends[0] = size
        asked = below, below.size, self.order, low, size, x, self._ends, 1, 1, rank, 200 + 40 * size
        self.steps += backends.polytopes.nearest_point(*self._given, self._memory, *asked)[2]
        short = self._memory[3][:size] - x
        taken = self._offered(below, low, high, short, size)
        places = self._places[:size].copy()
        slack = np.cumsum(taken - x[places])
        lowest = slack.min()
        if lowest >= -VIOLATION:
            return None
        # Of several such sets the largest, with all it spans: items whose x is next to nothing belong with
        # those that crowd them out, or they would be left with nothing at all.
        prefix = int(np.flatnonzero(slack <= lowest + 0.1 * VIOLATION)[-1]) + 1
        free = self._offered(below, low, high, short, prefix).copy()
        free[:prefix] = False
        inside = np.empty(size, dtype=np.bool_)
        inside[places] = ~free
        return inside


class FlowSplit(EntropicSplit):
    """By flows; ``exceed`` is one of the loops of backends/numba/flows."""

    def __init__(
        self, given: tuple[Any, Any], rank: int, log_w: Vector, items: Items, exceed: Callable[..., float]
    ) -> None:
        super().__init__(given, rank, log_w, items)
        self._exceed = exceed

    def _exceeding(self, low: int, x: Vector, below: Items, rank: int) -> NDArray[np.bool_] | None:
        del rank
        self.steps += 1
        inside = np.empty(x.size, dtype=np.bool_)
        return inside if self._exceed(*self._given, below, self.order, low, x, inside) > VIOLATION else None
