"""Charged costs: item costs, adjusted for private comparisons of gain per cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Constraint, Intersection, Knapsack

# Weights are multiples of 2^-BITS: an exact sum of gains times a weight is exact again.
BITS = 16


@dataclass(frozen=True)
class ChargedCosts:
    """Public weights by which gains are multiplied before they are compared.

    Greedy compares gain / cost. One person moves that by bound / cost, so a single item that costs almost
    nothing would make all comparisons noisy. Costs below capacity / rank, the mean cost of the largest
    feasible set, are raised to that: ``charged``. Scores are gain x smallest charged cost / charged cost, so
    each moves by at most ``bound``, and a rate means the same as without costs. Feasibility uses true costs.
    Weights are rounded down to multiples of 2^-16, which is included in ``charged``.

    With a limit of k items (or other limits on their number) the rank is at most k, and no item is charged
    less than capacity / k: where any k items fit, costs have no effect.

    ``large`` are the items above half the capacity: only they can provide a best set's value and at the same
    time exclude the items that cost-benefit picks would take. ``proven``: whether `ratio` is known.
    """

    weights: NDArray[np.float64]
    charged: NDArray[np.float64]
    large: NDArray[np.intp]
    capacity: float
    slack: float  # the most by which a feasible set's charged costs exceed its true ones
    dearest_small: float
    proven: bool = True

    @classmethod
    def of(cls, bag: Knapsack, at_most: int | None = None) -> ChargedCosts:
        """The weights for a knapsack from which at most ``at_most`` items are taken."""
        costs, capacity = bag.costs, bag.capacity
        rank = bag.rank if at_most is None else max(1, min(bag.rank, at_most))
        affordable = bag.addable([])
        floor = capacity / min(rank, 1 << (BITS - 1))  # so that no weight is rounded to 0
        raised = np.maximum(costs, floor)
        least = float(raised[affordable].min())
        if least == 0.0:  # all items are free
            ones = np.ones(costs.size)
            return cls(ones, ones, np.zeros(0, dtype=np.intp), float(rank), 0.0, 0.0)
        weights = np.maximum(np.floor(least / raised * 2.0**BITS), 1.0) * 2.0**-BITS
        charged = least / weights
        excess = np.sort(np.maximum(charged - costs, 0.0)[affordable])[::-1]
        large = np.flatnonzero(affordable & (costs > capacity / 2.0))
        small = costs[affordable & (costs <= capacity / 2.0)]
        return cls(
            weights,
            charged,
            large,
            capacity,
            math.fsum(excess[:rank]),
            float(small.max()) if small.size else 0.0,
        )

    @property
    def most(self) -> float:
        """The most that a feasible set's charged costs can be, in units of the smallest charged cost."""
        return (self.capacity + self.slack) / float(self.charged.min())

    @property
    def ratios(self) -> tuple[float, float | None]:
        """What cost-benefit picks achieve: compared with the best set without large items, and with any.

        Until some item of a best set T no longer fits, every pick gains at least its share of what is
        missing: f(S) >= (1 - exp(-cost of S / charged cost of T)) f(T). If T has no large item, S then costs
        more than the capacity minus the dearest small item. If it has one, o, the others cost less than half
        the capacity, and when one of them does not fit S costs more than o does, so more than all of them
        together: with a the ratio of picks to f(T without o), the better of S and the best single item has
        at least 1 / (1 + 1/a) of f(T).

        With a limit of k items besides the knapsack, picks also end after k of them. Each is charged at least
        capacity / k, so that S then has a charged cost of the full capacity: more than either case needs.
        """
        half = self.capacity / 2.0
        small = -math.expm1(-(self.capacity - self.dearest_small) / (self.capacity + self.slack))
        if not self.large.size:
            return small, None
        return small, -math.expm1(-half / (half + self.slack))

    @property
    def ratio(self) -> float | None:
        """The share of the best set's value that the method achieves, before the loss from privacy.

        None where that is not known.
        """
        if not self.proven:
            return None
        small, rest = self.ratios
        return small if rest is None else min(small, 1.0 / (1.0 + 1.0 / rest))


def costs_of(constraint: Constraint) -> ChargedCosts | None:
    """The weights for a knapsack, alone or with other constraints; None where there is none.

    With several knapsacks an item's cost is the largest fraction of any capacity that it takes.
    `ChargedCosts.ratio` is known for one knapsack, alone or with a limit of k items. Elsewhere weights are a
    heuristic (they keep one dear item from filling the knapsack), and no budget goes to a second choice.

    >>> bag = Knapsack([90.0, 5.0, 10.0, 20.0], capacity=100.0)
    >>> costs_of(Intersection(Cardinality(2), bag)).weights.tolist()
    [0.5555419921875, 1.0, 1.0, 1.0]
    >>> costs_of(Cardinality(2)) is None
    True
    """
    if isinstance(constraint, Knapsack):
        return ChargedCosts.of(constraint)
    parts = list(_parts(constraint))
    bags = [part for part in parts if isinstance(part, Knapsack)]
    if not bags:
        return None
    known = len(bags) == 1 and all(isinstance(part, Knapsack | Cardinality) for part in parts)
    found = ChargedCosts.of(bags[0] if len(bags) == 1 else _joined(bags), constraint.rank)
    if known and constraint.rank < 1 << (BITS - 1):
        return found
    return replace(found, large=found.large[:0], proven=False)


def _parts(constraint: Constraint) -> Iterator[Constraint]:
    """The constraints that an intersection is made of."""
    if not isinstance(constraint, Intersection):
        yield constraint
        return
    for part in constraint.constraints:
        yield from _parts(part)


def _joined(bags: list[Knapsack]) -> Knapsack:
    """One knapsack of capacity 1: items cost their largest fraction of any capacity, 2 if they do not fit."""
    taken = [np.where(bag.addable([]), bag.costs / (bag.capacity or 1.0), 2.0) for bag in bags]
    return Knapsack(np.max(taken, axis=0), 1.0)
