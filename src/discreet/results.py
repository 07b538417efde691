"""Results: a set of items, and the record of an entire stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .constraints import Constraint
    from .evaluation.regret import Regret
    from .objectives import Population
    from .privacy import Account

# Printed next to numbers that were computed from people's data and not released.
_CLEAR = "not private, in no account"


@dataclass(frozen=True)
class Selection:
    """A chosen set: ``items`` in the order of choice, distinct; ``labels`` if the items have names.

    ``included``: the items that were given and not chosen (``include=``); they come first. ``gains`` has one
    entry per item, which is NaN for included items, as nothing was released about them.

    >>> shown = Selection((2, 0), labels=("shoes", "maps"))
    >>> shown, 2 in shown, "maps" in shown
    (Selection(shoes, maps), True, True)
    """

    items: tuple[int, ...]
    round: int | None = None
    labels: tuple[Any, ...] | None = None
    privacy: Account | None = None
    queries: int | None = None
    gains: tuple[float, ...] | None = None
    included: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, item: object) -> bool:
        """Whether an item is chosen, by its number or else by its label; integers are never labels."""
        return item in self.items or (not isinstance(item, int) and item in (self.labels or ()))

    def __repr__(self) -> str:
        shown = self.items if self.labels is None else self.labels
        place = "" if self.round is None else f"round {self.round}: "
        return f"Selection({place}{', '.join(map(str, shown))})"

    def _repr_html_(self) -> str:
        from .core.text import card, folded, grid

        shown = self.items if self.labels is None else self.labels
        given = len(self.included)
        header = ["", "item"] + ([] if self.gains is None else ["gain (noisy)"])
        rows: list[list[Any]] = [
            [place + 1, f"{item} (given)" if place < given else item] for place, item in enumerate(shown)
        ]
        if self.gains is not None:
            gains = ["" if place < given else f"{gain:,.4g}" for place, gain in enumerate(self.gains)]
            rows = [[*row, gain] for row, gain in zip(rows, gains, strict=True)]
        place = "" if self.round is None else f", round {self.round:,}"
        account = [] if self.privacy is None else [folded("privacy cost", self.privacy._repr_html_())]
        chosen = f"{len(self) - given} chosen" + (f", {given} given" if given else "")
        return card(f"{chosen}{place}", grid(header, rows), *account)


@dataclass(frozen=True)
class Trace:
    """An entire stream: the set shown in each round and its value for the person of that round.

    ``selections`` are what `choose` returned, and in the learner's account. Rewards, and everything computed
    from them (``total``, ``average``, ``regret``, plots), are true facts about people that no account covers:
    use them for evaluation, on data that you may look at. Averages with and without a round reveal it.
    """

    rewards: NDArray[np.float64]
    selections: NDArray[np.int32]
    learner: str = ""

    @property
    def total(self) -> float:
        """The sum of all rewards: exact, and in no account."""
        return float(self.rewards.sum())

    @property
    def average(self) -> float:
        """The mean reward per round: exact, and in no account."""
        return float(self.rewards.mean()) if self.rewards.size else 0.0

    def __len__(self) -> int:
        return int(self.rewards.size)

    def regret(
        self, people: Population, alpha: float | None = None, *, constraint: Constraint | None = None
    ) -> Regret:
        """The value of the best fixed set, times ``alpha`` (by default 1 - 1/e), minus that of this stream.

        It is the best set of the size that was served or, with ``constraint``, the best feasible one.
        Computed from all people's data without privacy: exact, and in no account.
        """
        from .evaluation.regret import regret

        return regret(self, people, alpha=alpha, constraint=constraint)

    def __repr__(self) -> str:
        return f"Trace({self.learner}: {len(self):,} rounds, average {self.average:.4f}; {_CLEAR})"

    def _repr_html_(self) -> str:
        return _stream_html(f"{self.learner or 'Trace'}: {len(self):,} rounds", self.rewards, "reward")


@dataclass(frozen=True)
class CostTrace:
    """An entire stream of costs: what was played in each round and its cost for the person of that round.

    ``decisions`` has a row per round: the point that was played, or the indicator vector of the set; they are
    what `choose` returned, and in the learner's account. Costs, ``total`` and ``average`` are true facts
    about people that no account covers: use them for evaluation, on data that you may look at.
    """

    costs: NDArray[np.float64]
    decisions: NDArray[np.float64]
    learner: str = ""

    @property
    def total(self) -> float:
        """The sum of all costs: exact, and in no account."""
        return float(self.costs.sum())

    @property
    def average(self) -> float:
        """The mean cost per round: exact, and in no account."""
        return float(self.costs.mean()) if self.costs.size else 0.0

    def __len__(self) -> int:
        return int(self.costs.size)

    def __repr__(self) -> str:
        return f"CostTrace({self.learner}: {len(self):,} rounds, average {self.average:.4f}; {_CLEAR})"

    def _repr_html_(self) -> str:
        return _stream_html(f"{self.learner or 'CostTrace'}: {len(self):,} rounds", self.costs, "cost")


def _stream_html(title: str, values: NDArray[np.float64], what: str) -> str:
    """A stream in a few numbers and a curve of its averages over up to 50 equal parts."""
    from .core.text import card, curve, grid, line

    if not values.size:
        return card(title, line("no rounds yet"))
    means = [float(part.mean()) for part in np.array_split(values, min(50, values.size))]
    rows = [[f"average {what}", f"{values.mean():.4f}"], [f"total {what}", f"{values.sum():,.6g}"]]
    warning = line(f"{_CLEAR}: facts about private people", quiet=True)
    return card(title, grid(["", ""], rows), curve(means, f"average {what} along the stream"), warning)
