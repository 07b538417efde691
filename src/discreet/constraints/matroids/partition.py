"""Partition matroids: limits on disjoint blocks of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.checks import whole
from ..items import capacity_list, list_of_sets
from ..polytopes.nested import NestedLimits, OverlapError
from .laminar import NestedMatroid
from .matroid import Items, refuse_rank_zero


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
