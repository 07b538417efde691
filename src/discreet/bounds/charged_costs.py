"""Charged costs: item costs as they count against gains, so that privacy stays affordable."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..constraints import Knapsack

# Weights are multiples of 2^-BITS: an exact sum of gains times a weight is exact again.
BITS = 16


@dataclass(frozen=True)
class ChargedCosts:
    """Public weights by which gains are multiplied before they are compared.

    Greedy compares gain / cost. One person moves that by bound / cost, so a single item that costs next to
    nothing would make all comparisons noisy. Costs below capacity / rank, the mean cost of the largest
    feasible set, count as that much: ``charged``. Scores are gain x smallest charged cost / charged cost, so
    each moves by at most ``bound`` again, and what a rate means is the same as without costs. Feasibility
    goes by true costs. Weights are rounded down to multiples of 2^-16, which is part of ``charged``.

    ``large`` are the items above half the capacity: the only ones that a best set may owe its value to while
    leaving no room for what cost-benefit picks would take.
    """

    weights: NDArray[np.float64]
    charged: NDArray[np.float64]
    large: NDArray[np.intp]
    capacity: float
    slack: float  # the most by which a feasible set's charged costs exceed its true ones
    dearest_small: float

    @classmethod
    def of(cls, bag: Knapsack) -> ChargedCosts:
        """The weights of a knapsack."""
        costs, capacity, rank = bag.costs, bag.capacity, bag.rank
        affordable = bag.addable([])
        floor = capacity / min(rank, 1 << (BITS - 1))  # so that no weight is rounded to nothing
        raised = np.maximum(costs, floor)
        least = float(raised[affordable].min())
        if least == 0.0:  # nothing costs anything
            ones = np.ones(costs.size)
            return cls(ones, ones, np.zeros(0, dtype=np.intp), 1.0, 0.0, 0.0)
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
        """What cost-benefit picks achieve: beside the best set without large items, and beside any.

        Until some item of a best set T does not fit any more, every pick gains at least its share of what is
        missing: f(S) >= (1 - exp(-cost of S / charged cost of T)) f(T). If T has no large item, S then costs
        more than the capacity less the dearest small item. If it has one, o, the others cost less than half
        the capacity, and when one of them does not fit S costs more than o does, so more than they all do
        together: with a the ratio of picks to f(T without o), the better of S and the best single item is
        of value 1 / (1 + 1/a) of f(T).
        """
        half = self.capacity / 2.0
        small = -math.expm1(-(self.capacity - self.dearest_small) / (self.capacity + self.slack))
        if not self.large.size:
            return small, None
        return small, -math.expm1(-half / (half + self.slack))

    @property
    def ratio(self) -> float:
        """The share of the best set's value that the method achieves, before the loss of privacy."""
        small, rest = self.ratios
        return small if rest is None else min(small, 1.0 / (1.0 + 1.0 / rest))
