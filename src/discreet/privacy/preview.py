"""What a release would do at a gate, what is left there, and how a refusal tells it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..core import checks
from .budget import NOTIONS
from .events import Event


@dataclass(frozen=True)
class ScoreChange:
    """How far one person can move the scores of a choice.

    ``ScoreChange(1.0)``: each score by at most 1 either way, so two scores by 2 against each other.
    ``ScoreChange(1.0, one_directional=True)``: all up or all down (adding or removing a person who
    values things non-negatively), so by at most 1 against each other.

    >>> ScoreChange(1.0).range, ScoreChange(1.0, one_directional=True).range
    (2.0, 1.0)
    """

    each: float
    one_directional: bool = False

    def __post_init__(self) -> None:
        checks.real("each", self.each, at_least=0.0)

    @property
    def range(self) -> float:
        """Largest minus smallest change over the candidates."""
        return self.each if self.one_directional else 2.0 * self.each


@dataclass(frozen=True)
class Remaining:
    """What a round may still spend: on pure releases, on zCDP ones, on Gaussian ones, or in deltas.

    At a gate that has fixed its privacy notion, each is what that notion has room for. Before that, each
    is the limit of the notion that goes with it.
    """

    epsilon: float
    rho: float
    mu: float
    delta: float


@dataclass(frozen=True)
class Preview:
    """What a release would do, without doing it.

    ``spent`` and ``after`` are epsilons at the budget's delta in the gate's privacy ``notion``;
    ``largest_count`` is how many such releases would fit, ``largest`` the same kind of release at the largest
    loss that would.
    """

    asked: Event
    count: int
    spent: float
    after: float
    limit: float
    delta: float
    fits: bool
    largest_count: int
    largest: Event | None
    notion: str | None = None

    def __str__(self) -> str:
        at = f" at delta {self.delta:g}" if self.delta else ""
        times = "" if self.count == 1 else f"{self.count:,} x "
        by = f" by {_WORDS[self.notion]}" if self.notion else ""
        text = (
            f"spent epsilon {self.spent:.6g}, asked {times}{_shown(self.asked)} which makes {self.after:.6g},"
            f" limit {self.limit:g}{at}{by}"
        )
        if self.fits:
            return text + "; it fits"
        if self.notion and math.isinf(self.after) and math.isfinite(self.spent):
            others = " or ".join(f"notion={name!r}" for name in NOTIONS if name != self.notion)
            return text + (
                f"; this gate keeps to {_WORDS[self.notion]}, in which such a release has no bound: make the"
                f" gate with {others}, before its first release"
            )
        if self.largest is None:
            return text + "; nothing of this kind fits any more"
        also = f", or {self.largest_count:,} of those asked for" if self.largest_count else ""
        largest = _shown(self.largest)
        return text + f"; largest that fits: {times}{largest}{also}"


_WORDS = {"pure": "pure epsilon", "zcdp": "zCDP", "gdp": "Gaussian DP"}


def _shown(event: Event) -> str:
    record = event.to_json()
    kind = record.pop("kind")
    return f"{kind}({', '.join(f'{name}={float(Fraction(value)):.6g}' for name, value in record.items())})"


class BudgetExceeded(Exception):
    """A release was refused because the budget does not hold it; nothing was released or spent."""

    def __init__(self, preview: Preview) -> None:
        super().__init__(f"budget exceeded: {preview}")
        self.preview = preview

    @property
    def spent(self) -> float:
        """Epsilon spent so far, at the budget's delta."""
        return self.preview.spent

    @property
    def asked(self) -> Event:
        """The release that was asked for."""
        return self.preview.asked

    @property
    def limit(self) -> float:
        """The budget's epsilon."""
        return self.preview.limit

    @property
    def largest(self) -> Event | None:
        """The same kind of release at the largest loss that fits, or None."""
        return self.preview.largest
