"""Limits on nested groups of items: partition and laminar matroids.

Groups that are disjoint or nested form a forest. Everything below walks it from the smallest groups up, one
level at a time, with whole levels handled by array operations where that is possible.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import real, vector, whole
from ..kernels.matroids import AskedOracle
from .base import (
    POLYTOPE_TOLERANCE,
    Decomposition,
    Items,
    ProjectedPoint,
    Vector,
    capacity_list,
    decomposition,
    generator,
    list_of_sets,
    log_weights,
    projected,
)
from .matroids import Matroid, refuse_rank_zero
from .polytopes import scale_to_total, shift_to_total
from .rounding import settle_groups


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


class NestedMatroid(Matroid):
    """A matroid whose independent sets keep limits on nested groups; every operation is exact.

    What rounding loses: nothing. E f(round(x)) >= F(x) for every submodular f, and every item is chosen with
    probability x[i]; each group gets its sum of x rounded down or up.
    """

    def __init__(self, n_items: int) -> None:
        self._n_items = n_items

    @property
    def _oracle(self) -> Any:
        return AskedOracle(lambda items: self._fits(np.array(sorted(items), dtype=np.intp)), self._n_items)

    @abstractmethod
    def _limits(self, n_items: int) -> NestedLimits:
        """The limits on a ground set of this size."""

    @property
    def _bound_limits(self) -> NestedLimits:
        return self._limits(self._n_items)

    def _fixed_arguments(self, groups: str) -> dict[str, Any]:
        limits = self._bound_limits
        listed = [group.tolist() for group in limits.groups]
        return {groups: listed, "capacities": limits.capacities.tolist(), "n_items": limits.n_items}

    def _greedy(self, order: Items) -> Items:
        return self._bound_limits.greedy(order)

    def _addable(self, items: Items) -> NDArray[np.bool_]:
        return self._bound_limits.addable(items)

    def _fits(self, items: Items) -> bool:
        return self._bound_limits.contains(items)

    def _circuit(self, items: Items, item: int) -> Items:
        return self._bound_limits.circuit(items, item)

    def maximize(self, w: ArrayLike, *, base: bool = False) -> Vector:
        """The indicator vector of an independent set with the largest total weight.

        Items with weight 0 or less are never taken, unless ``base=True`` asks for the heaviest base. Ties
        go to the smaller item.
        """
        weights = vector("w", w, length=self.n_items)
        order = np.argsort(-weights, kind="stable")
        if not base:
            order = order[weights[order] > 0.0]
        x = np.zeros(weights.size)
        x[self._limits(weights.size).greedy(order)] = 1.0
        return x

    def project_entropy(self, w: ArrayLike, *, log: bool = False, base: bool = False) -> ProjectedPoint:
        """The point of the polytope with the least sum of x ln(x/w) - x + w, in closed form.

        ``w`` is positive, or its logarithm with ``log=True`` (for weights that would over- or underflow). A
        point of the polytope is its own projection. Follow-the-regularised-leader with the regulariser sum
        x ln x and gains g at rate eta: ``project_entropy(eta * g, log=True, base=True)`` on bases; on the
        independence polytope subtract 1 from the logarithm, since x ln x = [x ln x - x] + x.
        """
        logs = log_weights(w, log=log, length=self.n_items)
        return projected(self._limits(logs.size).project_entropy(logs, base=base))

    def project_euclidean(self, x: ArrayLike, *, base: bool = False) -> ProjectedPoint:
        """The point of the polytope nearest to ``x``, in closed form."""
        z = vector("x", x, length=self.n_items)
        return projected(self._limits(z.size).project_euclidean(z, base=base))

    def in_polytope(self, x: ArrayLike, tol: float = POLYTOPE_TOLERANCE) -> bool:
        """Whether every entry lies in [0, 1] and every group within its capacity, each up to ``tol``."""
        point = vector("x", x, length=self.n_items)
        slack = real("tol", tol, at_least=0.0)
        if (point < -slack).any() or (point > 1.0 + slack).any():
            return False
        return self._limits(point.size).excess(point) <= slack

    def decompose(self, x: ArrayLike) -> Decomposition:
        """``x`` as a convex combination of at most n_items + 1 independent sets, exact to 2**-52.

        Systematic sampling with the groups laid out contiguously, read off at every place where the sample
        changes.
        """
        point = self._point(x)
        return self._limits(point.size).decompose(point)

    def round(self, x: ArrayLike, rng: np.random.Generator) -> Items:
        """A random independent set that holds item i with probability x[i], by pivotal rounding.

        Loses nothing in expectation: E f(set) >= F(x) for every submodular f, F its multilinear extension;
        and f is never asked, so this is post-processing.
        """
        point = self._point(x)
        return self._limits(point.size).round(point, generator(rng))


class LaminarMatroid(NestedMatroid):
    """At most ``capacities[g]`` items out of each set ``family[g]``; any two sets are disjoint or nested.

    ``capacities`` is one number for all sets or one per set. Items in no set are not limited. ``n_items``
    defaults to one past the largest item named.

    >>> shelf = LaminarMatroid([[0, 1], [0, 1, 2, 3]], capacities=[1, 2])
    >>> shelf.rank, shelf.contains([0, 2]), shelf.contains([0, 1])
    (2, True, False)
    >>> shelf.project_euclidean([1.0, 0.5, 1.0, 0.0]).tolist()
    [0.75, 0.25, 1.0, 0.0]
    """

    def __init__(
        self, family: Iterable[Iterable[int]], capacities: int | Sequence[int], *, n_items: int | None = None
    ) -> None:
        sets, size = list_of_sets("family", family, n_items)
        super().__init__(size)
        try:
            self._fixed_limits = NestedLimits(
                size, sets, capacity_list(capacities, len(sets), "sets in family")
            )
        except OverlapError as error:
            raise ValueError(
                f"family[{error.first}] and family[{error.second}] overlap but neither holds the other; "
                "a laminar family is nested or disjoint"
            ) from None
        refuse_rank_zero(self, f"capacities={capacities!r} leave no room for any item; raise one of them")

    def _limits(self, n_items: int) -> NestedLimits:
        del n_items  # already checked to be ours
        return self._fixed_limits

    def _arguments(self) -> dict[str, Any]:
        return self._fixed_arguments("family")

    def __repr__(self) -> str:
        return f"LaminarMatroid({len(self._fixed_limits.groups)} sets over {self._n_items} items)"


class PartitionMatroid(NestedMatroid):
    """At most ``capacities[b]`` items out of block b.

    ``blocks`` is a sequence of disjoint lists of items, or one block number per item (-1 for an item in no
    block). ``capacities`` is one number for all blocks or one per block; a capacity above a block's size is
    no limit. Items in no block are not limited. With lists, ``n_items`` defaults to one past the largest
    item named.

    >>> one_of_each = PartitionMatroid([[0, 1, 2], [3, 4]], capacities=1)
    >>> one_of_each.rank, one_of_each.contains([0, 3]), one_of_each.contains([0, 1])
    (2, True, False)
    >>> one_of_each.maximize([0.2, 0.9, 0.1, -1.0, 0.3]).tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0]
    """

    def __init__(
        self,
        blocks: Iterable[Iterable[int]] | Sequence[int] | NDArray[np.integer[Any]],
        capacities: int | Sequence[int],
        *,
        n_items: int | None = None,
    ) -> None:
        listed = list(blocks)
        if listed and all(isinstance(block, int | np.integer) for block in listed):
            sets, size = _from_numbers(listed, n_items, capacities)
        else:
            sets, size = list_of_sets("blocks", listed, n_items)
        super().__init__(size)
        try:
            self._fixed_limits = NestedLimits(size, sets, capacity_list(capacities, len(sets), "blocks"))
        except OverlapError as error:
            raise _overlap(sets, error.first, error.second) from None
        if len(self._fixed_limits.levels) > 1:
            inner = int(self._fixed_limits.levels[0][self._fixed_limits.levels[1] >= 0].max())
            outer = int(self._fixed_limits.levels[1].max())
            raise _overlap(sets, inner, outer)
        refuse_rank_zero(self, f"capacities={capacities!r} leave no room for any item; raise one of them")

    def _limits(self, n_items: int) -> NestedLimits:
        del n_items  # already checked to be ours
        return self._fixed_limits

    @property
    def one_of_each(self) -> list[Items] | None:
        """The blocks, where they hold all items and one of each may be chosen; None otherwise."""
        limits = self._fixed_limits
        blocks = [group for group in limits.groups if group.size]
        everything = sum(block.size for block in blocks) == limits.n_items
        named = zip(limits.groups, limits.capacities, strict=True)
        ones = all(capacity == 1 for group, capacity in named if group.size)
        return blocks if everything and ones else None

    def _arguments(self) -> dict[str, Any]:
        return self._fixed_arguments("blocks")

    def __repr__(self) -> str:
        return f"PartitionMatroid({len(self._fixed_limits.groups)} blocks over {self._n_items} items)"


def _from_numbers(
    numbers: list[Any], n_items: int | None, capacities: int | Sequence[int]
) -> tuple[list[Items], int]:
    """Blocks from one block number per item; there are as many blocks as capacities, if those are listed."""
    if n_items is not None and n_items != len(numbers):
        raise ValueError(f"blocks numbers {len(numbers)} items but n_items={n_items}; leave n_items out")
    block_of = np.array(
        [whole(f"blocks[{item}]", number, at_least=-1) for item, number in enumerate(numbers)]
    )
    count = int(block_of.max()) + 1
    if not isinstance(capacities, int | np.integer):
        if len(capacities) < count:
            where = int(np.argmax(block_of))
            raise ValueError(
                f"blocks[{where}]={count - 1} has no capacity; capacities has {len(capacities)} entries"
            )
        count = len(capacities)
    by_block = np.argsort(block_of, kind="stable")
    edges = np.searchsorted(block_of[by_block], np.arange(count + 1))
    return [by_block[edges[block] : edges[block + 1]] for block in range(count)], len(numbers)


def _overlap(sets: list[Items], first: int, second: int) -> ValueError:
    shared = np.intersect1d(sets[first], sets[second])
    return ValueError(
        f"item {shared[0]} is in blocks[{min(first, second)}] and blocks[{max(first, second)}]; "
        "blocks of a partition are disjoint (LaminarMatroid takes nested ones)"
    )
