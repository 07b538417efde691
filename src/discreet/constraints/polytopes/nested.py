"""Limits on nested groups of items: all that cardinality, partition and laminar matroids compute.

Groups that are disjoint or nested form a forest. Everything below walks it from the smallest groups up, one
level at a time, with whole levels handled by array operations where that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..results import Decomposition, decomposition
from ..rounding import settle_groups
from .thresholds import scale_to_total, shift_to_total

Vector = NDArray[np.float64]
Items = NDArray[np.intp]


class NestedLimits:
    """At most ``capacities[g]`` items out of each group ``g``; groups are disjoint or one holds the other.

    ``levels[h][item]`` is the group of height h that holds the item, or -1; a group is one higher than the
    highest group inside it.
    """

    def __init__(self, n_items: int, groups: Sequence[Items], capacities: Items) -> None:
        self.n_items = n_items
        self.groups = groups
        self.capacities = capacities
        self.levels = self._stack()

    def _stack(self) -> list[Items]:
        outermost = np.full(self.n_items, -1, dtype=np.intp)
        height = np.zeros(len(self.groups), dtype=np.intp)
        levels: list[Items] = []
        for group in sorted(range(len(self.groups)), key=lambda g: self.groups[g].size):
            items = self.groups[group]
            if items.size == 0:
                continue
            holds = outermost[items]
            inner, shared = np.unique(holds[holds >= 0], return_counts=True)
            for other, count in zip(inner.tolist(), shared.tolist(), strict=True):
                if count < self.groups[other].size:
                    raise OverlapError(other, group)
            height[group] = height[inner].max() + 1 if inner.size else 0
            if height[group] == len(levels):
                levels.append(np.full(self.n_items, -1, dtype=np.intp))
            levels[height[group]][items] = group
            outermost[items] = group
        return levels

    def greedy(self, order: Items) -> Items:
        """The items kept when those of ``order`` are offered one by one and taken whenever they fit.

        A group keeps its first items; what it drops could never be kept by a group around it.
        """
        kept = order
        for level in self.levels:
            group = level[kept]
            by_group = np.argsort(group, kind="stable")
            sorted_group = group[by_group]
            place = np.arange(kept.size) - np.searchsorted(sorted_group, sorted_group)
            fits = np.empty(kept.size, dtype=np.bool_)
            fits[by_group] = (sorted_group < 0) | (place < self.capacities[sorted_group])
            kept = kept[fits]
        return kept

    def contains(self, items: Items) -> bool:
        """Whether no group is over its capacity."""
        return all(bool((self._count(level, items) <= self.capacities).all()) for level in self.levels)

    def addable(self, items: Items) -> NDArray[np.bool_]:
        """Items outside the set none of whose groups is full."""
        mask = np.ones(self.n_items, dtype=np.bool_)
        for level in self.levels:
            # Index -1 reads the extra last entry: items in no group of this level.
            full = np.append(self._count(level, items) >= self.capacities, False)
            mask &= ~full[level]
        mask[items] = False
        return mask

    def circuit(self, items: Items, item: int) -> Items:
        """The items of the set in the innermost full group around ``item``: any of them makes room."""
        for level in self.levels:
            group = level[item]
            if group >= 0:
                inside: Items = items[level[items] == group]
                if inside.size >= self.capacities[group]:
                    return inside
        return items

    def _count(self, level: Items, items: Items) -> Items:
        group = level[items]
        counts: Items = np.bincount(group[group >= 0], minlength=len(self.groups)).astype(np.intp)
        return counts

    def _totals(self, level: Items, x: Vector) -> Vector:
        inside = level >= 0
        sums = np.bincount(level[inside], weights=x[inside], minlength=len(self.groups))
        return np.asarray(sums, dtype=np.float64)

    def _overfull(self, level: Items, x: Vector) -> list[int]:
        listed = np.flatnonzero(self._totals(level, x) > self.capacities).tolist()
        return [int(group) for group in listed]

    def excess(self, x: Vector) -> float:
        """The largest violation of a limit on a group by ``x``; at most 0 when there is none."""
        sums = [float((self._totals(level, x) - self.capacities).max()) for level in self.levels]
        return max(sums, default=0.0)

    def project_euclidean(self, z: Vector, *, base: bool) -> Vector:
        """Nearest point of the polytope (or of its bases).

        From the smallest groups up, a group whose points sum to more than its capacity shifts them down
        together, never above what the groups inside it left them: the multipliers of the optimality
        conditions.
        """
        x = np.ones_like(z) if base else np.clip(z, 0.0, 1.0)
        for level in self.levels:
            for group in self._overfull(level, x):
                items = self.groups[group]
                x[items] = shift_to_total(z[items], x[items], float(self.capacities[group]))
        return x

    def project_entropy(self, log_w: Vector, *, base: bool) -> Vector:
        """The same with a common factor in place of a common shift."""
        log_x = np.zeros_like(log_w) if base else np.minimum(0.0, log_w)
        x = np.exp(log_x)
        for level in self.levels:
            for group in self._overfull(level, x):
                items, capacity = self.groups[group], float(self.capacities[group])
                if capacity > 0.0:
                    log_x[items] = scale_to_total(log_w[items], log_x[items], capacity)
                else:
                    log_x[items] = -np.inf
                x[items] = np.exp(log_x[items])
        return x

    def decompose(self, x: Vector) -> Decomposition:
        """Systematic sampling, unrolled: items lie end to end on a line, nested groups contiguous.

        The points u, u+1, u+2, ... select the items they fall on. An interval of length at most c holds at
        most c of them, so every such set keeps every limit, and a uniform u selects item i with probability
        x[i]. The set changes at no more than n places as u runs over [0, 1). Lengths are whole multiples of
        a power of two, so that no rounding can break a limit.
        """
        unit = 1 << min(52, 60 - int(np.ceil(np.log2(float(x.sum()) + 1.0))))
        lengths = np.rint(x * unit).astype(np.int64)
        for level in self.levels:
            self._trim(level, lengths, unit)
        line = np.lexsort(self.levels) if self.levels else np.arange(self.n_items)
        line = line[lengths[line] > 0]
        ends = np.cumsum(lengths[line])
        total = int(ends[-1]) if ends.size else 0
        starts = np.unique(np.append(ends % unit, 0))
        widths = np.diff(np.append(starts, unit))
        points = starts[:, None] + unit * np.arange(-(-total // unit), dtype=np.int64)[None, :]
        chosen = np.searchsorted(ends, points, side="right")
        sets = [np.sort(line[row[row < line.size]]) for row in chosen]
        return decomposition(x, sets, widths / unit)

    def _trim(self, level: Items, lengths: NDArray[np.int64], unit: int) -> None:
        """Take off what a tolerated excess left above a capacity, from the longest items."""
        sums = np.zeros(len(self.groups), dtype=np.int64)
        inside = level >= 0
        np.add.at(sums, level[inside], lengths[inside])
        for group in np.flatnonzero(sums > self.capacities * unit).tolist():
            items = self.groups[group]
            excess = int(sums[group] - self.capacities[group] * unit)
            for item in items[np.argsort(-lengths[items], kind="stable")].tolist():
                cut = min(excess, int(lengths[item]))
                lengths[item] -= cut
                excess -= cut
                if not excess:
                    break

    def round(self, x: Vector, rng: np.random.Generator) -> Items:
        """Pivotal rounding inside every group, smallest groups first; what is left over is settled by a coin.

        Each group ends with its sum rounded down or up, hence within its capacity.
        """
        x = x.copy()
        for level in self.levels:
            settle_groups(x, level, rng)
            full = np.append(self._totals(level, (x >= 1.0).astype(np.float64)) >= self.capacities, False)
            # A fraction on top of a full group can only be a tolerated excess.
            x[full[level] & (x < 1.0)] = 0.0
        return np.flatnonzero(rng.random(x.size) < x)


class OverlapError(ValueError):
    """Two groups overlap and neither holds the other."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"groups {first} and {second} overlap")
        self.first = first
        self.second = second
