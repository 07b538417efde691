"""Limits on nested groups of items: cardinality, partition and laminar matroids.

Groups that are disjoint or nested form a forest. Everything below walks it from the smallest groups up, one
level at a time, with whole levels handled by array operations where that is possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import shown, vector, whole
from ..core.guards import settle
from ..core.names import item_numbers
from ..kernels.matroids import AskedOracle
from .base import (
    POLYTOPE_TOLERANCE,
    Decomposition,
    Items,
    Vector,
    capacity_list,
    decomposition,
    item_set,
    list_of_sets,
    refuse_outside,
)
from .matroids import Matroid
from .polytopes import scale_to_total, shift_to_total
from .rounding import settle_groups


class NestedLimits:
    """At most ``capacities[g]`` items out of each group ``g``; groups are disjoint or one holds the other.

    ``levels[h][item]`` is the group of height h that holds the item, or -1; a group is one higher than the
    highest group inside it.
    """

    def __init__(self, n_items: int, groups: Sequence[Items], capacities: Items, name: str = "") -> None:
        self.n_items = n_items
        self.groups = groups
        self.capacities = capacities
        self.levels = self._stack(name)

    @property
    def oracle(self) -> Any:
        """An oracle of the same sets, as general matroids have."""
        return AskedOracle(lambda items: self.fits(np.array(sorted(items), dtype=np.intp)), self.n_items)

    @cached_property
    def rank(self) -> int:
        return int(self.greedy(np.arange(self.n_items)).size)

    def arguments(self, groups: str) -> dict[str, Any]:
        """The constructor's arguments for a matroid of these limits, as plain values."""
        listed = [group.tolist() for group in self.groups]
        return {groups: listed, "capacities": self.capacities.tolist(), "n_items": self.n_items}

    def _stack(self, name: str) -> list[Items]:
        """Levels of groups from the inside out: the group of each item there, or -1. Overlaps are refused."""
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
                    raise ValueError(
                        f"{name}[{other}] and {name}[{group}] overlap but neither holds the other; "
                        "a laminar family is nested or disjoint"
                    )
            height[group] = height[inner].max() + 1 if inner.size else 0
            if height[group] == len(levels):
                levels.append(np.full(self.n_items, -1, dtype=np.intp))
            levels[height[group]][items] = group
            outermost[items] = group
        return levels

    def greedy(self, order: Items) -> Items:
        """The items kept when those of ``order`` are offered in turn and taken whenever they fit.

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

    def fits(self, items: Items) -> bool:
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

    def addable_among(self, items: Items, candidates: Items) -> NDArray[np.bool_]:
        """For each candidate outside an independent set: whether it keeps the set independent."""
        return self.addable(items)[candidates]

    def merged_bases(self, *given: Any) -> None:
        """None: bases are merged by exchanges, one after the other."""

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

    def holds(self, x: Vector, slack: float) -> bool:
        """Whether no group exceeds its limit by more than ``slack``."""
        return bool(np.all([self._totals(level, x) <= self.capacities + slack for level in self.levels]))

    def _within(self, point: Vector) -> Vector:
        """A point with entries in [0, 1]; refused outside the polytope."""
        if not self.holds(point, POLYTOPE_TOLERANCE):
            refuse_outside("a group exceeds its capacity")
        return np.clip(point, 0.0, 1.0)

    def project_euclidean(self, z: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """Nearest point of the polytope (or of its bases), without a gap.

        From the smallest groups up, a group whose points sum to more than its capacity shifts them down
        together, never above what the groups inside it left them: the multipliers of the optimality
        conditions.
        """
        x = np.ones_like(z) if base else np.clip(z, 0.0, 1.0)
        for level in self.levels:
            for group in self._overfull(level, x):
                items = self.groups[group]
                x[items] = shift_to_total(z[items], x[items], float(self.capacities[group]))
        return x, 0.0, 0

    def project_entropy(self, log_w: Vector, *, base: bool) -> tuple[Vector, float, int]:
        """`project_euclidean` for the divergence, with a common factor in place of a common shift."""
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
        return x, 0.0, 0

    def decompose(self, point: Vector) -> Decomposition:
        """Systematic sampling, unrolled: items lie end to end on a line, nested groups contiguous.

        The points u, u+1, u+2, ... select the items they fall on. An interval of length at most c holds at
        most c of them, so every such set keeps every limit, and a uniform u selects item i with probability
        x[i]. The set changes at no more than n places as u runs over [0, 1). Lengths are whole multiples of
        a power of two, so that no rounding can break a limit.
        """
        x = self._within(point)
        unit = 1 << min(52, 60 - int(np.ceil(np.log2(float(x.sum()) + 1.0))))  # lengths sum to below 2^61
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
        """Shorten the longest items of a group whose lengths exceed its capacity, in ``unit``s, in place.

        Points may exceed a capacity by `POLYTOPE_TOLERANCE`; that much is cut. ``level`` has for each item
        its group at one level of nesting, -1 for none.
        """
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

    def round(self, point: Vector, rng: np.random.Generator) -> Items:
        """Pivotal rounding inside every group, smallest groups first; what is left over is rounded at random.

        Each group ends with its sum rounded down or up, hence within its capacity.
        """
        x = self._within(point)
        for level in self.levels:
            settle_groups(x, level, rng)
            full = np.append(self._totals(level, (x >= 1.0).astype(np.float64)) >= self.capacities, False)
            # A fraction on top of a full group can only be a tolerated excess.
            x[full[level] & (x < 1.0)] = 0.0
        return np.flatnonzero(rng.random(x.size) < x)


class Cardinality(Matroid):
    """At most k items, whichever they are (the uniform matroid).

    The ground set need not be named: vectors bring their length with them, and ``over(n_items)`` fixes it
    for the questions that need it (``addable``, ``span``, ``circuit``).

    >>> five = Cardinality(2)
    >>> five.contains([3, 8]), five.contains([1, 2, 3])
    (True, False)
    >>> five.maximize([0.1, 0.4, 0.3]).tolist()
    [0.0, 1.0, 1.0]
    >>> five.project_euclidean([1.0, 1.0, 0.5, 0.5]).tolist()
    [0.75, 0.75, 0.25, 0.25]
    """

    k: int
    # A cache of the limits for the latest ground set, as loops use the same one again and again.
    _latest: NestedLimits | None = None

    def __init__(self, k: int, n_items: int | None = None) -> None:
        most, size = whole("k", k, at_least=1), None
        if n_items is not None:
            size = self._room(most, whole("n_items", n_items, at_least=1))
        settle(self, k=most, rank=most, n_items=size)

    @staticmethod
    def _room(k: int, n_items: int) -> int:
        if k > n_items:
            raise ValueError(f"k={k} exceeds n_items={n_items}; choose k <= {n_items}")
        return n_items

    def _arguments(self) -> dict[str, Any]:
        return {"k": self.k, "n_items": self.n_items}

    def __repr__(self) -> str:
        size = "" if self.n_items is None else f", n_items={self.n_items}"
        return f"Cardinality({self.k}{size})"

    def over(self, n_items: int) -> Self:
        """The same limit on the ground set 0..n_items-1."""
        if self.n_items is not None:
            return super().over(n_items)
        return type(self)(self.k, n_items)

    @property
    def _sets(self) -> NestedLimits:
        if self.n_items is None:
            raise ValueError(f"{self!r} does not know its ground set; call over(n_items) first")
        return self._sets_over(self.n_items)

    def _sets_over(self, n_items: int) -> NestedLimits:
        if self._latest is None or self._latest.n_items != n_items:
            size = self._room(self.k, n_items)
            self._latest = NestedLimits(size, [np.arange(size)], np.array([self.k]))
        return self._latest

    def contains(self, S: Iterable[int]) -> bool:
        """Whether S has at most k items."""
        return item_set("S", S, self.n_items).size <= self.k

    def rank_of(self, S: Iterable[int]) -> int:
        """The smaller of k and the size of S."""
        return min(self.k, item_set("S", S, self.n_items).size)

    def maximize(self, w: ArrayLike, *, base: bool = False) -> Vector:
        """The indicator vector of the k largest weights, or of those among them that are above 0.

        With ``base=True`` all k are taken. Ties go to the smaller item. Not all weights are sorted.
        """
        weights = vector("w", w, length=self.n_items)
        k = self._sets_over(weights.size).rank
        kth_largest = np.partition(weights, weights.size - k)[weights.size - k]
        x: Vector = (weights > kth_largest).astype(np.float64)
        x[np.flatnonzero(weights == kth_largest)[: k - int(x.sum())]] = 1.0
        if not base:
            x[weights <= 0.0] = 0.0
        return x


class LaminarMatroid(Matroid):
    """At most ``capacities[g]`` items out of each set ``family[g]``; any two sets are disjoint or nested.

    ``capacities`` is one number for all sets or one per set. Items in no set are not limited. ``n_items``
    defaults to one past the largest item named.

    >>> shelf = LaminarMatroid([[0, 1], [0, 1, 2, 3]], capacities=[1, 2])
    >>> shelf.rank, shelf.contains([0, 2]), shelf.contains([0, 1])
    (2, True, False)
    >>> shelf.project_euclidean([1.0, 0.5, 1.0, 0.0]).tolist()
    [0.75, 0.25, 1.0, 0.0]
    """

    _sets: NestedLimits

    def __init__(
        self, family: Iterable[Iterable[int]], capacities: int | Sequence[int], *, n_items: int | None = None
    ) -> None:
        sets, size = list_of_sets("family", family, n_items)
        limits = NestedLimits(size, sets, capacity_list(capacities, len(sets), "sets in family"), "family")
        super().__init__(limits, f"capacities={capacities!r} leave no room for any item; raise one of them")

    def _arguments(self) -> dict[str, Any]:
        return self._sets.arguments("family")

    def __repr__(self) -> str:
        return f"LaminarMatroid({len(self._sets.groups)} sets over {self.n_items} items)"


class PartitionMatroid(Matroid):
    """At most ``capacities[b]`` items out of block b.

    ``blocks`` is a sequence of disjoint lists of items, one block number per item (-1 for an item in no
    block), or one category per item, as text. ``capacities`` is one number for all blocks, one per block, or
    a dictionary with one per category; a capacity above a block's size does not limit it. Items in no block
    are not limited. With lists, ``n_items`` defaults to one past the largest item named, and ``labels`` lets
    them name items by label.

    >>> PartitionMatroid(["tea", "tea", "jam"], capacities={"tea": 1, "jam": 2}).contains([0, 1])
    False
    >>> PartitionMatroid([["green", "black"]], 1, labels=["green", "black", "plum"]).contains([0, 2])
    True
    >>> one_of_each = PartitionMatroid([[0, 1, 2], [3, 4]], capacities=1)
    >>> one_of_each.rank, one_of_each.contains([0, 3]), one_of_each.contains([0, 1])
    (2, True, False)
    >>> one_of_each.maximize([0.2, 0.9, 0.1, -1.0, 0.3]).tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0]
    """

    _sets: NestedLimits

    def __init__(
        self,
        blocks: Iterable[Iterable[Any]] | Sequence[int] | Sequence[str] | NDArray[Any],
        capacities: int | Sequence[int] | Mapping[str, int],
        *,
        n_items: int | None = None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        if isinstance(blocks, Mapping):  # its keys would pass for categories
            raise TypeError("blocks has one category per item, in the order of the items, not a mapping")
        listed: list[Any] = list(blocks)
        if listed and all(isinstance(block, str) for block in listed):
            listed, capacities = _from_categories(listed, capacities)
        elif isinstance(capacities, Mapping):
            raise TypeError("capacities by name need blocks that are names: one category per item, as text")
        if listed and all(isinstance(block, int | np.integer) for block in listed):
            sets, size = _from_numbers(listed, n_items, capacities)
        else:
            if labels is not None:
                n_items = len(labels)
                listed = [item_numbers("blocks", block, n_items, labels) for block in listed]
            elif any(isinstance(item, str) for block in listed for item in block):
                raise TypeError("blocks name items by label; give labels=, such as people.labels")
            sets, size = list_of_sets("blocks", listed, n_items)
        _refuse_overlap(sets)
        limits = NestedLimits(size, sets, capacity_list(capacities, len(sets), "blocks"))
        super().__init__(limits, f"capacities={capacities!r} leave no room for any item; raise one of them")

    @property
    def one_of_each(self) -> list[Items] | None:
        """The blocks, if they cover all items and each has capacity 1; None otherwise."""
        limits = self._sets
        blocks = [group for group in limits.groups if group.size]
        everything = sum(block.size for block in blocks) == limits.n_items
        named = zip(limits.groups, limits.capacities, strict=True)
        ones = all(capacity == 1 for group, capacity in named if group.size)
        return blocks if everything and ones else None

    def _arguments(self) -> dict[str, Any]:
        return self._sets.arguments("blocks")

    def __repr__(self) -> str:
        return f"PartitionMatroid({len(self._sets.groups)} blocks over {self.n_items} items)"


def _from_categories(
    categories: list[str], capacities: int | Sequence[int] | Mapping[str, int]
) -> tuple[list[Any], int | Sequence[int]]:
    """A block number per item from its category, in the order of the alphabet, and a capacity for each."""
    names = sorted(set(categories))
    if isinstance(capacities, Mapping):
        missing = [name for name in names if name not in capacities]
        unknown = [name for name in capacities if name not in names]
        if missing or unknown:
            raise ValueError(
                f"capacities has no number for {missing[0]!r}; give one for each category"
                if missing
                else f"capacities has {shown(unknown[0])}, which is the category of no item; leave it out"
            )
        capacities = [capacities[name] for name in names]
    elif not isinstance(capacities, int | np.integer):
        raise TypeError('capacities must be one number or a dictionary such as {"drinks": 1} for categories')
    numbers = {name: number for number, name in enumerate(names)}
    return [numbers[name] for name in categories], capacities


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


def _refuse_overlap(sets: list[Items]) -> None:
    """An error for an item in two blocks."""
    items = np.concatenate([np.zeros(0, dtype=np.intp), *sets])
    block = np.repeat(np.arange(len(sets)), [found.size for found in sets])
    order = np.argsort(items, kind="stable")
    twice = np.flatnonzero(np.diff(items[order]) == 0)
    if twice.size:
        first, second = order[twice[0]], order[twice[0] + 1]
        raise ValueError(
            f"item {items[first]} is in blocks[{block[first]}] and blocks[{block[second]}]; "
            "blocks of a partition are disjoint (LaminarMatroid takes nested ones)"
        )
