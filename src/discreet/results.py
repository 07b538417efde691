"""What comes out: a set of items, and the record of a whole stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .evaluation.regret import Regret
    from .objectives import Population
    from .privacy import Account


@dataclass(frozen=True)
class Selection:
    """A chosen set: ``items`` in the order of choice, distinct; ``labels`` where the items have names.

    >>> Selection((2, 0), labels=("shoes", "maps"))
    Selection(shoes, maps)
    """

    items: tuple[int, ...]
    round: int | None = None
    labels: tuple[Any, ...] | None = None
    privacy: Account | None = None
    queries: int | None = None

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self.items

    def __repr__(self) -> str:
        shown = self.items if self.labels is None else self.labels
        place = "" if self.round is None else f"round {self.round}: "
        return f"Selection({place}{', '.join(map(str, shown))})"


@dataclass(frozen=True)
class Trace:
    """A whole stream: what was shown in each round and what it was worth to the person of that round.

    The rewards are facts about private people: look at them on data that you may look at, or not at all.
    """

    rewards: NDArray[np.float64]
    selections: NDArray[np.int32]
    learner: str = ""

    @property
    def total(self) -> float:
        """Sum of all rewards."""
        return float(self.rewards.sum())

    @property
    def average(self) -> float:
        """Mean reward of a round."""
        return float(self.rewards.mean()) if self.rewards.size else 0.0

    def __len__(self) -> int:
        return int(self.rewards.size)

    def regret(self, people: Population, alpha: float | None = None) -> Regret:
        """What the best fixed set, times ``alpha`` (1 - 1/e), would have brought beyond this stream."""
        from .evaluation.regret import regret

        return regret(self, people, alpha=alpha)

    def __repr__(self) -> str:
        return f"Trace({self.learner}: {len(self):,} rounds, average {self.average:.4f})"
