"""The plain greedy algorithm, without any privacy: the yardstick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.checks import shown, whole
from .base import Population


def greedy(people: Population, k: int) -> tuple[list[int], NDArray[np.float64]]:
    """The k items chosen, each one that adds most on average (the first of equals), and what each added.

    At least 1 - 1/e of the best k items' value for monotone submodular functions (Nemhauser, Wolsey and
    Fisher 1978). It reads the data in the clear and spends no budget: use it to compare with, not to publish.

    >>> from discreet.objectives import Coverage
    >>> greedy(Coverage([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]), k=2)
    ([0, 2], array([0.5, 0.5]))
    """
    if not isinstance(people, Population):
        raise TypeError(f"people must be a population such as Coverage(matrix), got {shown(people)}")
    slots = whole("k", k, at_least=0)
    if slots > people.n_items:
        raise ValueError(f"k={slots} exceeds n_items={people.n_items}; choose k <= {people.n_items}")
    state = people.start()
    added = np.zeros(slots)
    for slot in range(slots):
        gains = state.gains()
        gains[state.items] = -np.inf
        added[slot] = state.add(int(np.argmax(gains)))
    return state.items, added
