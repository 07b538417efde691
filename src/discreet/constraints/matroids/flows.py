"""Matroids whose points are rounded by flows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.checks import vector
from ..constraint import POLYTOPE_TOLERANCE, generator
from .compiled import CompiledMatroid, Vector, Whole, whole_numbers
from .entropic import FlowSplit
from .matroid import Items


class FlowMatroid(CompiledMatroid):
    """A graphic or transversal matroid; see backends/numba/flows."""

    @property
    @abstractmethod
    def _exceed(self) -> Callable[..., float]:
        """The loop that finds the set whose sum exceeds its rank the most."""

    def _split(self, log_w: Vector, items: Whole, space: Any, *, base: bool) -> tuple[Vector, int]:
        split = FlowSplit((self._table, space), self.rank, log_w, items, self._exceed)
        split.solve(base=base)
        return split.log_x, split.steps

    @abstractmethod
    def _toss(
        self, items: Whole, x: Vector, rng: np.random.Generator, kept: NDArray[np.bool_]
    ) -> tuple[float, int]:
        """Fill ``kept``; how much of ``x`` finds no room, and how many items have a part in that."""

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random independent set that holds item i with probability x[i], by pipage rounding.

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        and f is never asked, so this is post-processing (Ageev and Sviridenko 2004; Calinescu, Chekuri, Pal
        and Vondrak 2011). Entries move in pairs, one up and one down by the same, as far as the polytope
        allows and with the probabilities that keep both expectations. What it allows is found by flows in
        whole units of 2**-45, so that the set is independent whatever was rounded: a millisecond for the 300
        edges of a graph.
        """
        point, coins = vector("x", x, length=self.n_items), generator(rng)
        outside = np.flatnonzero((point < -POLYTOPE_TOLERANCE) | (point > 1.0 + POLYTOPE_TOLERANCE))
        if outside.size:
            where = int(outside[0])
            raise ValueError(f"x[{where}]={point[where]} is outside [0, 1]; call project_euclidean(x) first")
        support = whole_numbers(np.flatnonzero(point > 0.0))
        kept = np.empty(support.size, dtype=np.bool_)
        excess, items = self._toss(support, point[support], coins, kept)
        if excess > POLYTOPE_TOLERANCE * max(items, 1):
            raise ValueError(
                f"x is outside the polytope of {self!r} ({items} items exceed their rank by {excess:.3g});"
                " call project_euclidean(x) first"
            )
        chosen = support[kept]
        if chosen.size < self.rank and self._sums_to_rank(point):
            # What a unit here and there has cost; ties go to the smaller item.
            chosen = np.sort(self._greedy(np.concatenate([chosen, support[~kept]])))
        return chosen.astype(np.intp, copy=False)
