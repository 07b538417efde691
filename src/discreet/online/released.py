"""What a learner has released about its items: what another one may begin with, at no cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks

# Values, people and deviations of a `Released`.
Estimates = tuple[NDArray[np.float64] | None, int, NDArray[np.float64] | None]


@dataclass(frozen=True)
class Released:
    """What is known of items from releases that have been paid for.

    ``items`` is the set that stood last, in order. ``values`` is what each item was worth to a person on
    average, by released sums, ``deviations`` how far off that may be, and ``people`` how many people these
    were about; None and 0 where only sets were released. NaN is an item of which nothing is known. ``labels``
    are the items' names. ``caveats`` is what accounts have to say of these releases, and of whatever follows
    from them.
    """

    items: tuple[int, ...]
    n_items: int
    labels: tuple[Any, ...] | None = None
    values: NDArray[np.float64] | None = None
    people: int = 0
    deviations: NDArray[np.float64] | None = None
    caveats: tuple[str, ...] = ()

    def discounted(self, part: float) -> Released:
        """The same, as of fewer people: for tastes that have changed since."""
        kept = checks.real("part", part, at_least=0.0, at_most=1.0)
        wider = None if self.deviations is None else self.deviations / math.sqrt(max(kept, 1e-12))
        return replace(self, people=int(kept * self.people), deviations=wider)

    def over(self, n_items: int, labels: tuple[Any, ...] | None) -> Released:
        """The same for another catalogue: items are known by their labels, or by their numbers."""
        if labels is None or self.labels is None:
            if (labels is None) != (self.labels is None) or n_items != self.n_items:
                raise ValueError("start knows other items; give both learners labels")
            return self
        places = {label: place for place, label in enumerate(labels)}
        moved = np.array([places.get(label, -1) for label in self.labels])
        items = tuple(int(moved[item]) for item in self.items if moved[item] >= 0)

        def carried(numbers: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
            if numbers is None:
                return None
            found = np.full(n_items, np.nan)
            found[moved[moved >= 0]] = numbers[moved >= 0]
            return found

        known = carried(self.values), self.people, carried(self.deviations)
        return Released(items, n_items, labels, *known, self.caveats)
